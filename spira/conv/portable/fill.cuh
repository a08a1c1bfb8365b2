// spira/conv/portable/fill.cuh: fills a stage: a chunk of the source rows of an offset, and its
// weights.
//
// A fragment is a chunk of 8 rows: 64 bytes each, as the weights of each output channel. Both are
// swizzled, so that ldmatrix reads 8 rows without bank conflicts. Missing rows are filled with
// zeros by the same copies; the header says which rows are there.
#ifndef SPIRA_CONV_PORTABLE_FILL_CUH
#define SPIRA_CONV_PORTABLE_FILL_CUH

#include "../../base/launch.cuh"
#include "cursor.cuh"

namespace spira {

// The swizzles: where byte `at` of a fragment, or of the weights, is stored.
SPIRA_BOTH uint32_t portable_row_place(uint32_t at) {
    return at ^ (at >> 3 & 0x30);
}

// Lanes that read weights together have channels 4 apart (multiply.cuh).
SPIRA_BOTH uint32_t portable_weight_place(uint32_t at) {
    return at ^ (at >> 4 & 0x70);
}

// An entry of which stages are being filled: where its next chunk is.
struct portable_filling {
    int32_t row[portable_warp_fragments]; // that the lane copies from; -1: none
    uint32_t valid;                       // a bit for each of the warp's rows that has a source
    const char *weights;                  // the lane's first 16 bytes
    const char *base;                     // the lane's 16 bytes of row 0
    uint32_t pitch;                       // bytes to the next row
    int left;                             // bytes of the row from the lane's on
    int chunks;                           // of the source, with the next
    int stages;                           // of the entry, with the next
    uint32_t what;                        // of the entry, as in its slot
    bool wide;                            // rows are aligned
};

// Goes to the first chunk of the first or the second source. p: conv_tensor_params or
// conv_tensor_shortcut.
template <typename E, typename P>
SPIRA_DEVICE void portable_source_begin(const P &p, bool second, portable_filling &f) {
    enum { channels = conv_chunk_bytes / sizeof(E) };
    const int count = second ? p.cin2 : p.cin, at = (int)threadIdx.x % 4 * conv_lane_bytes;
    f.pitch = (uint32_t)count * (uint32_t)sizeof(E);
    f.left = (int)f.pitch - at;
    f.base = (const char *)(second ? p.in2 : p.in) + (f.left > 0 ? at : 0);
    f.chunks = (int)((uint32_t)(count + channels - 1) / channels);
    f.wide = second ? p.wide_in2 : p.wide_in;
}

// Begins to fill the stages of an entry. slot: its address; the copies into it have arrived.
template <typename T>
SPIRA_DEVICE void portable_filling_begin(const conv_tensor_params &p, const conv_work &work,
                                         uint32_t slot, portable_filling &f) {
    typedef typename T::element E;
    const int lane = (int)threadIdx.x % 32;
    f.what = shared_load(slot + portable_gathered * 4);
    const int32_t own = (int32_t)shared_load(slot + lane * 4);
#pragma unroll
    for (int i = 0; i < portable_warp_fragments; ++i) {
        f.row[i] = (int32_t)shared_load(slot + (i * portable_fragment + lane / 4) * 4);
    }
    const int count = (int)(f.what >> portable_count_shift);
    f.valid = __ballot_sync(~0u, lane < count && own >= 0);
#pragma unroll
    for (int i = 0; i < portable_warp_fragments; ++i) {
        f.row[i] = f.valid >> (i * portable_fragment + lane / 4) & 1 ? f.row[i] : -1;
    }
    const bool shortcut = f.what & portable_of_shortcut;
    f.stages = f.what & portable_none ? 0 : shortcut ? p.shortcut.parts : p.chunks;
    f.weights = (const char *)(shortcut ? p.shortcut.weights : p.weights) +
                ((int64_t)((int)(f.what & portable_offset) * p.chunks) * p.part +
                 work.channel * conv_chunk_bytes + (int)threadIdx.x * conv_lane_bytes);
    if (shortcut) {
        portable_source_begin<E>(p.shortcut, false, f);
    } else {
        portable_source_begin<E>(p, false, f);
    }
}

// Goes to the next chunk.
template <typename T>
SPIRA_DEVICE void portable_filling_next(const conv_tensor_params &p, portable_filling &f) {
    typedef typename T::element E;
    --f.stages;
    f.weights += p.part;
    f.base += f.left > conv_chunk_bytes ? conv_chunk_bytes : 0;
    f.left -= conv_chunk_bytes;
    if (--f.chunks == 0 && f.stages) {
        if (f.what & portable_of_shortcut) {
            portable_source_begin<E>(p.shortcut, true, f);
        } else {
            portable_source_begin<E>(p, true, f);
        }
    }
}

// Where a thread writes in a stage, from its first byte on.
struct portable_target {
    uint32_t rows, weights;
};

template <typename T>
SPIRA_DEVICE portable_target portable_target_of() {
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    portable_target t;
    t.rows =
        warp * (portable_gathered * conv_chunk_bytes) + portable_row_place(lane * conv_lane_bytes);
    t.weights = T::rows * conv_chunk_bytes + portable_weight_place(threadIdx.x * conv_lane_bytes);
    // Keeps both in registers: the compiler would compute them again for each stage.
    asm volatile("" : "+r"(t.rows), "+r"(t.weights));
    return t;
}

// Copies the chunk's weights of the slice's channels. to: the thread's first place.
template <typename T>
SPIRA_DEVICE void portable_fill_weights(const conv_tensor_params &p, const conv_work &work,
                                        const portable_filling &f, uint32_t to) {
    const int own =
        p.part / conv_lane_bytes - work.channel * 4; // copies, from the slice's first on
    static_assert(T::threads * conv_lane_bytes % 2048 == 0, "the swizzle repeats");
#pragma unroll
    for (int i = 0; i < T::columns * 4; i += T::threads) {
        if (i + (int)threadIdx.x < own) {
            async_copy_16(to + i * conv_lane_bytes, f.weights + i * conv_lane_bytes, true);
        }
    }
}

// Copies the warp's rows of the chunk.
template <typename T>
SPIRA_DEVICE void portable_fill_rows(const portable_filling &f, uint32_t to) {
    typedef typename T::element E;
    if (f.wide) {
#pragma unroll
        for (int i = 0; i < portable_warp_fragments; ++i) {
            async_copy_16_signed(to + i * portable_fragment_bytes,
                                 f.base + conv_multiply_wide((uint32_t)f.row[i], f.pitch),
                                 f.row[i] | (f.left - 1));
        }
        return;
    }
#pragma unroll
    for (int i = 0; i < portable_warp_fragments; ++i) { // element by element
        const uint4 v =
            conv_read_each<E>(f.base + conv_multiply_wide((uint32_t)max(f.row[i], 0), f.pitch),
                              f.row[i] >= 0 ? f.left : 0);
        shared_store_4(to + i * portable_fragment_bytes, v);
    }
}

// Fills a stage with the next chunk. begin: the launch's first; features may be read only once the
// kernel before this one has ended. stage: its address.
template <typename T>
SPIRA_DEVICE void portable_fill(const conv_tensor_params &p, const conv_work &work,
                                const portable_filling &f, const portable_target &to, bool begin,
                                uint32_t stage) {
    portable_fill_weights<T>(p, work, f, stage + to.weights);
    if (begin) {
        pdl_wait();
    }
    if (f.valid) {
        portable_fill_rows<T>(f, stage + to.rows);
    }
    if (threadIdx.x % 32 == 0) {
        shared_store(stage + T::header + threadIdx.x / 32 * 4, f.valid);
    }
}

} // namespace spira

#endif
