// spira/grad/fill.cuh: fills a stage: the rows of both sides of a chunk of pairs.
//
// A warp gathers its own share of the pairs: a lane loads the two row numbers of a pair, one stage
// ahead, and the copies get them from there. Missing pairs and channels are filled with zeros.
#ifndef SPIRA_GRAD_FILL_CUH
#define SPIRA_GRAD_FILL_CUH

#include "traits.cuh"

namespace spira {

// Loads the row numbers of the next chunk: lane l has pair l of the warp's share.
template <typename T>
SPIRA_DEVICE grad_pair grad_pairs_load(const grad_params &p, const grad_cursor &c, int32_t rows) {
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    return grad_pair_load(p, c, rows, lane < T::gathered ? warp * T::gathered + lane : T::chunk,
                          T::chunk);
}

// Copies the warp's rows of one side. own: the row number of the lane's pair; to: of the side in
// the stage.
template <typename T, int pitch>
SPIRA_DEVICE void grad_fill_side(const grad_side &side, int32_t own, uint32_t to) {
    typedef typename T::element E;
    enum { pieces = pitch / 16 };
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const int piece = lane % pieces;
    const int bytes = side.left * (int)sizeof(E) - piece * 16; // of the row from the piece on
    const char *base = side.base + (bytes > 0 ? piece * 16 : 0);
#pragma unroll
    for (int i = 0; i < T::gathered * pieces / 32; ++i) {
        const int r = i * (32 / pieces) + lane / pieces;
        const int32_t row = __shfl_sync(~0u, own, r);
        const uint32_t at =
            to + grad_place<E, pitch>((uint32_t)(warp * T::gathered + r), (uint32_t)piece);
        if (side.wide) {
            async_copy_16_signed(at, base + conv_multiply_wide((uint32_t)max(row, 0), side.pitch),
                                 row | (bytes - 1));
        } else {
            shared_store_4(at, conv_read_unaligned<E>(
                                   base + conv_multiply_wide((uint32_t)max(row, 0), side.pitch),
                                   row >= 0 ? bytes : 0));
        }
    }
}

// Fills a stage. stage: its address.
template <typename T>
SPIRA_DEVICE void grad_fill(const grad_tile &tile, const grad_pair &own, uint32_t stage) {
    grad_fill_side<T, T::in_pitch>(tile.in, own.in, stage);
    grad_fill_side<T, T::out_pitch>(tile.out, own.out, stage + T::in_bytes);
}

} // namespace spira

#endif
