// spira/conv/portable/fill.cuh: fills a stage: a chunk of the source rows of an offset, and its
// weights.
//
// A fragment is 8 rows of a chunk, 512 bytes in which each lane copies the 16 bytes that lanes of
// its number multiply later: no swizzle is needed. Fragments without any source are not copied; the
// header says which. Missing rows of others become zero.
#ifndef SPIRA_CONV_PORTABLE_FILL_CUH
#define SPIRA_CONV_PORTABLE_FILL_CUH

#include "cursor.cuh"

namespace spira {

// ---- rows ---------------------------------------------------------------------------------------

// A lane's 16 bytes of a chunk of the rows.
struct portable_piece {
    const char *base; // of row 0
    uint32_t pitch;   // bytes to the next row
    int bytes;        // that the row has from here on; 0 or less: the piece is zeros
    bool wide;        // rows are aligned
};

// p: conv_tensor_params or conv_tensor_shortcut.
template <typename E, typename P>
SPIRA_DEVICE portable_piece portable_piece_of(const P &p, int chunk) {
    enum { channels = conv_chunk_bytes / sizeof(E) };
    const int first = (int)((uint32_t)(p.cin + channels - 1) / channels); // chunks of `in`
    const bool second = chunk >= first;
    const int at = (second ? chunk - first : chunk) * conv_chunk_bytes +
                   (int)threadIdx.x % 4 * conv_lane_bytes;
    portable_piece from;
    from.pitch = (uint32_t)(second ? p.cin2 : p.cin) * (uint32_t)sizeof(E);
    from.bytes = (int)from.pitch - at;
    from.base = (const char *)(second ? p.in2 : p.in) + (from.bytes > 0 ? at : 0);
    from.wide = second ? p.wide_in2 : p.wide_in;
    return from;
}

// Copies the warp's fragments to `to`, the lane's place in the first one. valid: the rows that have
// a source.
template <typename E>
SPIRA_DEVICE void portable_gather(const portable_piece &from, int32_t source, uint32_t valid,
                                  uint32_t to) {
    enum { fragments = portable_gathered / portable_fragment };
    const int own = (int)threadIdx.x % 32 / 4;
#pragma unroll
    for (int i = 0; i < fragments; ++i) {
        if (valid >> i * portable_fragment & 0xff) {
            const int32_t row = __shfl_sync(~0u, source, i * portable_fragment + own);
            const char *at = from.base + (uint64_t)(uint32_t)max(row, 0) * from.pitch;
            const bool there = row >= 0 && from.bytes > 0;
            if (from.wide) {
                async_copy_16(to + i * portable_fragment_bytes, at, there);
            } else {
                shared_store_4(to + i * portable_fragment_bytes,
                               conv_read_unaligned<E>(at, there ? from.bytes : 0));
            }
        }
    }
}

// ---- weights ------------------------------------------------------------------------------------

// Packed weights (conv_tensor_weights): a chunk's image has 512 bytes for each channel group. Lanes
// that read them together have channels 4 apart (multiply.cuh), so every other 256 bytes have their
// 64-byte pieces exchanged.
SPIRA_DEVICE uint32_t portable_weights_place(uint32_t at) {
    return at ^ (at >> 2 & 64);
}

// Copies the weights of the slice's channels. image: number of the offset and chunk.
template <typename T>
SPIRA_DEVICE void portable_weights_copy(const conv_tensor_params &p, const conv_work &work,
                                        const void *weights, int64_t image, uint32_t to) {
    const int groups = conv_channel_groups(p.cout), first = work.channel / 8;
    const int own = min(T::columns / 8, groups - first) * 32; // copies
    const char *from = (const char *)weights + (image * groups + first) * conv_fragment_bytes;
    const uint32_t place = threadIdx.x * conv_lane_bytes;
#pragma unroll
    for (int i = 0; i < T::columns * 4; i += T::threads) {
        if (i + (int)threadIdx.x < own) {
            async_copy_16(to + portable_weights_place(place) + i * conv_lane_bytes,
                          from + place + i * conv_lane_bytes, true);
        }
    }
}

// ---- stages -------------------------------------------------------------------------------------

// Fills a stage with a chunk of an entry. begin: the launch's first; features may be read only once
// the kernel before this one has ended.
template <typename T>
SPIRA_DEVICE void portable_fill(const conv_tensor_params &p, const conv_work &work,
                                const portable_entry &e, int chunk, bool begin, uint32_t stage,
                                portable_header &header) {
    typedef typename T::element E;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const uint32_t valid = __ballot_sync(~0u, e.source >= 0);
    if (e.shortcut) {
        portable_weights_copy<T>(p, work, p.shortcut.weights, chunk,
                                 stage + T::rows * conv_chunk_bytes);
    } else if (e.stages) {
        portable_weights_copy<T>(p, work, p.weights, (int64_t)e.offset * p.chunks + chunk,
                                 stage + T::rows * conv_chunk_bytes);
    }
    if (begin) {
        pdl_wait();
    }
    const portable_piece from =
        e.shortcut ? portable_piece_of<E>(p.shortcut, chunk) : portable_piece_of<E>(p, chunk);
    portable_gather<E>(from, e.source, valid,
                       stage + warp * (portable_gathered * conv_chunk_bytes) +
                           lane * conv_lane_bytes);
    if (lane == 0) {
        uint32_t bits = 0;
#pragma unroll
        for (int i = 0; i < portable_gathered / portable_fragment; ++i) {
            bits |= valid >> i * portable_fragment & 0xff ? 1u << i : 0;
        }
        ((uint8_t *)header.valid)[warp] = (uint8_t)bits;
    }
    if (threadIdx.x == 0) {
        const bool last = e.last && chunk == e.stages - 1, rescale = e.shortcut && chunk == 0;
        header.flags = (uint32_t)last * portable_last | (uint32_t)rescale * portable_rescale;
        header.pair[0] = e.pair[0];
        header.pair[1] = e.pair[1];
    }
}

} // namespace spira

#endif
