// spira/conv/portable/fill.cuh: fills a stage: a chunk of the source rows of an offset, and its
// weights.
//
// A fragment is a chunk of 8 rows: 64 bytes each, as the weights of each output channel. Both are
// swizzled, so that ldmatrix reads 8 rows without bank conflicts. Missing rows are filled with
// zeros by the same copies; the header says which fragments have any.
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
template <int warp_fragments>
struct portable_filling {
    int32_t row[warp_fragments]; // as portable_entry
    const char *weights;         // the lane's first 16 bytes
    const char *base;            // the lane's 16 bytes of row 0
    uint32_t pitch;              // bytes to the next row
    int left;                    // bytes of the row from the lane's on
    int chunks;                  // of the source, with the next
    int stages;                  // of the entry, with the next
    uint32_t flags;              // portable_last as of the last chunk
};

// Goes to the first chunk of the first or the second source. p: conv_tensor_params or
// conv_tensor_shortcut.
template <typename E, typename P, int warp_fragments>
SPIRA_DEVICE void portable_source_begin(const P &p, bool second,
                                        portable_filling<warp_fragments> &f) {
    enum { channels = conv_chunk_bytes / sizeof(E) };
    const int count = second ? p.cin2 : p.cin, at = (int)threadIdx.x % 4 * conv_lane_bytes;
    f.pitch = (uint32_t)count * (uint32_t)sizeof(E);
    f.left = (int)f.pitch - at;
    f.base = (const char *)(second ? p.in2 : p.in) + (f.left > 0 ? at : 0);
    f.chunks = (int)((uint32_t)(count + channels - 1) / channels);
    f.flags &= ~(uint32_t)portable_wide;
    f.flags |= (second ? p.wide_in2 : p.wide_in) ? 0u + portable_wide : 0u;
}

template <typename T>
SPIRA_DEVICE void portable_filling_begin(const conv_tensor_params &p, const conv_work &work,
                                         const portable_entry<T::warp_fragments> &e,
                                         portable_filling<T::warp_fragments> &f) {
    typedef typename T::element E;
    const bool shortcut = e.flags & portable_of_shortcut;
    f.flags = e.flags | (shortcut ? 0u + portable_rescale : 0u);
#pragma unroll
    for (int i = 0; i < T::warp_fragments; ++i) {
        f.row[i] = e.row[i];
        f.flags |= __any_sync(~0u, e.row[i] >= 0) ? 1u << (portable_valid_first + i) : 0;
    }
    f.stages = e.stages;
    f.weights = (const char *)(shortcut ? p.shortcut.weights : p.weights) +
                ((int64_t)(e.offset * p.chunks) * p.part + work.channel * conv_chunk_bytes +
                 (int)threadIdx.x * conv_lane_bytes);
    if (shortcut) {
        portable_source_begin<E>(p.shortcut, false, f);
    } else {
        portable_source_begin<E>(p, false, f);
    }
}

// Goes to the next chunk.
template <typename T>
SPIRA_DEVICE void portable_filling_next(const conv_tensor_params &p,
                                        portable_filling<T::warp_fragments> &f) {
    typedef typename T::element E;
    --f.stages;
    f.flags &= ~(uint32_t)portable_rescale;
    f.weights += p.part;
    f.base += f.left > conv_chunk_bytes ? conv_chunk_bytes : 0;
    f.left -= conv_chunk_bytes;
    if (--f.chunks == 0 && f.stages) {
        if (f.flags & portable_of_shortcut) {
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
    t.rows = warp * (T::gathered * conv_chunk_bytes) + portable_row_place(lane * conv_lane_bytes);
    const uint32_t own = threadIdx.x * conv_lane_bytes;
    t.weights = T::rows * conv_chunk_bytes + (T::exact ? own : portable_weight_place(own));
    if (T::gathered == 32) {
        // Keeps both in registers: the compiler would compute them again for each stage. With 64
        // rows registers are short.
        asm volatile("" : "+r"(t.rows), "+r"(t.weights));
    }
    return t;
}

// Copies the chunk's weights of the slice's channels. to: the thread's first place.
template <typename T>
SPIRA_DEVICE void portable_fill_weights(const conv_tensor_params &p, const conv_work &work,
                                        const portable_filling<T::warp_fragments> &f, uint32_t to) {
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
SPIRA_DEVICE void portable_fill_rows(const portable_filling<T::warp_fragments> &f, uint32_t to) {
    typedef typename T::element E;
    if (f.flags & portable_wide) {
#pragma unroll
        for (int i = 0; i < T::warp_fragments; ++i) {
            async_copy_16_signed(to + i * portable_fragment_bytes,
                                 f.base + conv_multiply_wide((uint32_t)f.row[i], f.pitch),
                                 f.row[i] | (f.left - 1));
        }
        return;
    }
#pragma unroll
    for (int i = 0; i < T::warp_fragments; ++i) { // element by element
        const uint4 v =
            conv_read_each<E>(f.base + conv_multiply_wide((uint32_t)max(f.row[i], 0), f.pitch),
                              f.row[i] >= 0 ? f.left : 0);
        shared_store_4(to + i * portable_fragment_bytes, v);
    }
}

// Pieces of a chunk that have channels. left: bytes of the row, from the chunk's first on.
SPIRA_DEVICE uint32_t portable_pieces(int left) {
    return (uint32_t)(min(left, (int)conv_chunk_bytes) + conv_lane_bytes - 1) / conv_lane_bytes;
}

// Fills a stage with the next chunk. begin: the launch's first; features may be read only once the
// kernel before this one has ended. stage: its address; header: of the stage.
template <typename T>
SPIRA_DEVICE void portable_fill(const conv_tensor_params &p, const conv_work &work,
                                const portable_filling<T::warp_fragments> &f,
                                const portable_target &to, bool begin, uint32_t stage,
                                char *header) {
    portable_fill_weights<T>(p, work, f, stage + to.weights);
    if (begin) {
        pdl_wait();
    }
    if (f.flags >> portable_valid_first) {
        portable_fill_rows<T>(f, stage + to.rows);
    }
    if (threadIdx.x % 32 == 0) {
        const uint32_t valid = f.flags >> portable_valid_first;
        if (T::gathered == 32) {
            header[threadIdx.x / 32] = (char)valid;
        } else { // of 4 fragments each
            ((uint16_t *)header)[threadIdx.x / 32] = (uint16_t)(valid % 16 | valid / 16 << 8);
        }
        if (threadIdx.x == 0) {
            ((portable_header *)header)->flags =
                f.stages == 1 ? f.flags : f.flags & ~(uint32_t)portable_last;
            if (T::exact) {
                ((portable_header *)header)->pieces = portable_pieces(f.left);
            }
        }
    }
}

} // namespace spira

#endif
