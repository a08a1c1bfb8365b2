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

// What the entries of all offsets have in common.
struct portable_source {
    const char *weights;  // the lane's first 16 bytes of the first offset
    int copies;           // of the weights of a chunk, from the lane's first on
    const char *base;     // the lane's 16 bytes of row 0
    int left;             // bytes of a row from the lane's on
    uint32_t entry_bytes; // of the weights of an offset
};

// An entry of which stages are being filled: where its next chunk is.
template <int warp_fragments>
struct portable_filling {
    int32_t row[warp_fragments];        // that the lane copies from; -1: none
    uint32_t valid[warp_fragments / 4]; // a bit for each of the warp's rows that has a source
    const char *weights;                // the lane's first 16 bytes
    const char *base;                   // the lane's 16 bytes of row 0
    uint32_t pitch;                     // bytes to the next row
    int left;                           // bytes of the row from the lane's on
    int chunks;                         // of the source, with the next
    int stages;                         // of the entry, with the next
    uint32_t what;                      // of the entry, as in its slot; portable_wide
    uint32_t flags;                     // of the next stage, as far as it is not the entry's last
    int place;                          // of the lane's first output row in the layout
};

// Where the lane's 16 bytes of row 0 are. left: bytes of the row from them on.
SPIRA_DEVICE const char *portable_base(const void *in, uint32_t pitch, int &left) {
    const int at = (int)threadIdx.x % 4 * conv_lane_bytes;
    left = (int)pitch - at;
    return (const char *)in + at; // not read where nothing is left
}

SPIRA_DEVICE int portable_chunks(uint32_t pitch) {
    return (int)((pitch + conv_chunk_bytes - 1) / conv_chunk_bytes);
}

template <typename T>
SPIRA_DEVICE portable_source portable_source_of(const conv_tensor_params &p,
                                                const conv_work &work) {
    portable_source s;
    s.base = portable_base(p.in, (uint32_t)(p.cin * (int)sizeof(typename T::element)), s.left);
    s.weights = (const char *)p.weights +
                (work.channel * conv_chunk_bytes + (int)threadIdx.x * conv_lane_bytes);
    s.copies = p.part / conv_lane_bytes - work.channel * 4 - (int)threadIdx.x;
    s.entry_bytes = (uint32_t)(p.chunks * p.part);
    return s;
}

// Goes to the first chunk of another source than p.in. p: conv_tensor_params, or
// conv_tensor_shortcut.
template <typename E, typename P, int warp_fragments>
SPIRA_DEVICE void portable_source_begin(const P &p, bool second,
                                        portable_filling<warp_fragments> &f) {
    f.pitch = (uint32_t)((second ? p.cin2 : p.cin) * (int)sizeof(E));
    f.base = portable_base(second ? p.in2 : p.in, f.pitch, f.left);
    f.chunks = portable_chunks(f.pitch);
    f.what &= ~(uint32_t)portable_wide;
    f.what |= (second ? p.wide_in2 : p.wide_in) ? 0u + portable_wide : 0u;
}

// Begins to fill the stages of an entry. own: the slot's address for the lane's source row, slot:
// of the first lane's; the copies into it have arrived.
template <typename T>
SPIRA_DEVICE void portable_filling_begin(const conv_tensor_params &p, const conv_work &work,
                                         const portable_source &from, uint32_t slot, uint32_t own,
                                         uint32_t quarter, portable_filling<T::warp_fragments> &f) {
    typedef typename T::element E;
    f.what = __ballot_sync(~0u, shared_load(slot + T::gathered * 4) >> threadIdx.x % 32 & 1);
    f.place = (int)shared_load(slot + T::gathered * 4 + 4) + warp_lane();
#pragma unroll
    for (int i = 0; i < T::words; ++i) {
        f.valid[i] = __ballot_sync(~0u, (int32_t)shared_load(own + i * 128) >= 0);
    }
#pragma unroll
    for (int i = 0; i < T::warp_fragments; ++i) {
        f.row[i] = (int32_t)shared_load(quarter + i * portable_fragment * 4);
    }
    f.weights = from.weights + conv_multiply_wide(f.what & portable_offset, from.entry_bytes);
    f.base = from.base;
    f.left = from.left;
    f.pitch = (uint32_t)(p.cin * (int)sizeof(E));
    f.chunks = portable_chunks(f.pitch);
    f.what |= p.wide_in ? 0u + portable_wide : 0u;
    f.stages = p.chunks;
    f.flags = 0;
    if (f.what & (portable_of_shortcut | portable_none)) {
        f.stages = f.what & portable_none ? 0 : p.shortcut.parts;
        f.flags = portable_flag_scale;
        f.weights = (const char *)p.shortcut.weights +
                    (work.channel * conv_chunk_bytes + (int)threadIdx.x * conv_lane_bytes);
        portable_source_begin<E>(p.shortcut, false, f);
    }
}

// Goes to the next chunk.
template <typename T>
SPIRA_DEVICE void portable_filling_next(const conv_tensor_params &p,
                                        portable_filling<T::warp_fragments> &f) {
    typedef typename T::element E;
    --f.stages;
    f.flags = 0;
    f.weights += p.part;
    f.base += conv_chunk_bytes;
#ifdef __CUDA_ARCH__
    asm("" : "+l"(f.base)); // one register pair: the compiler would count up two
#endif
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
    uint32_t header; // 0: another lane writes the warp's word
    uint32_t outputs;
};

template <typename T>
SPIRA_DEVICE portable_target portable_target_of() {
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    portable_target t;
    const uint32_t own = threadIdx.x * conv_lane_bytes; // of the producers, which are the first
    t.rows = warp * (T::gathered * conv_chunk_bytes) + portable_row_place(lane * conv_lane_bytes);
    t.weights = T::rows * conv_chunk_bytes + (T::exact ? own : portable_weight_place(own));
    t.header = lane == 0 ? T::header + warp * T::words * 4 : 0;
    t.rows = portable_keep(t.rows);
    t.weights = portable_keep(t.weights);
    t.header = portable_keep(t.header);
    t.outputs = T::outputs + (warp * T::gathered + lane) * 4;
    return t;
}

// Copies the chunk's weights of the slice's channels. to: the thread's first place; odd: the same
// where an odd number of 1024 bytes are before it.
template <typename T>
SPIRA_DEVICE void portable_fill_weights(const portable_source &from,
                                        const portable_filling<T::warp_fragments> &f, uint32_t to,
                                        uint32_t odd) {
    enum { step = 32 * T::producers, all = T::columns * 4 };
    static_assert(step * conv_lane_bytes % 1024 == 0, "the swizzle repeats after 2048");
#pragma unroll
    for (int i = 0; i < all; i += step) {
        if (i < from.copies) {
            async_copy_16((i / 64 % 2 ? odd : to) + i * conv_lane_bytes,
                          f.weights + i * conv_lane_bytes, true);
        }
    }
}

// Copies the warp's rows of the chunk.
template <typename T>
SPIRA_DEVICE void portable_fill_rows(const portable_filling<T::warp_fragments> &f, uint32_t to) {
    typedef typename T::element E;
    if (f.what & portable_wide) {
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

// Copies the warp's output rows of the tile.
template <typename T>
SPIRA_DEVICE void portable_fill_outputs(const conv_tensor_params &p, const conv_work &work,
                                        int place, uint32_t to) {
#pragma unroll
    for (int i = 0; i < T::gathered; i += 32) {
        const bool there = place + i < work.outputs;
        if (there && p.order.row) {
            async_copy_4_cached(to + i * 4, p.order.row + (place + i));
        } else {
            shared_store(to + i * 4, there ? (uint32_t)(place + i) : ~0u);
        }
    }
}

// Fills a stage with the next chunk. begin: the launch's first; features may be read only once the
// kernel before this one has ended. stage: its address.
template <typename T>
SPIRA_DEVICE void portable_fill(const conv_tensor_params &p, const conv_work &work,
                                const portable_source &from,
                                const portable_filling<T::warp_fragments> &f,
                                const portable_target &to, bool begin, uint32_t stage) {
    const uint32_t weights = stage + to.weights;
    portable_fill_weights<T>(from, f, weights, T::exact ? weights : stage + (to.weights ^ 0x40));
    if (begin) {
        pdl_wait();
    }
    if (f.valid[0] | f.valid[T::words - 1]) {
        portable_fill_rows<T>(f, stage + to.rows);
    }
    const bool last = f.stages == 1 && f.what & portable_last;
    if (last) {
        portable_fill_outputs<T>(p, work, f.place, stage + to.outputs);
    }
    if (to.header) {
#pragma unroll
        for (int i = 0; i < T::words; ++i) {
            shared_store(stage + to.header + i * 4, f.valid[i]);
        }
    }
    if (threadIdx.x == 0) {
        const uint32_t pieces = T::exact ? portable_pieces(f.left) : 0;
        shared_store(stage + T::flags, f.flags | (last ? 0u + portable_flag_last : 0u) |
                                           pieces * portable_flag_piece);
    }
    if (last || !(f.what & portable_wide)) {
        __syncwarp(); // the stores of all lanes are before the arrival of the first
    }
}

} // namespace spira

#endif
