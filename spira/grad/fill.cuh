// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
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
SPIRA_DEVICE grad_pair grad_pairs_load(const grad_cursor &c) {
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    return grad_pair_load(c, lane < T::gathered ? warp * T::gathered + lane : T::chunk, T::chunk);
}

// A warp copies rows of one side: `pieces` lanes have a piece of 16 bytes each of a row, and
// `copies` times 32 pieces are all rows. own: the row number of the lane's pair; place(r): where
// the lane's piece of pair r goes.
template <typename E, int pieces, int copies, typename F>
SPIRA_DEVICE void grad_gather(const grad_side &side, int32_t own, F place) {
    const int lane = (int)threadIdx.x % 32, first = lane / pieces, piece = lane % pieces;
    const int bytes = side.left * (int)sizeof(E) - piece * 16; // of the row from the piece on
    const char *base = side.base + (bytes > 0 ? piece * 16 : 0);
    if (side.wide) {
        enum { batch = copies < 8 ? copies : 8 }; // as registers allow
#pragma unroll 1
        for (int from = 0; from < copies; from += batch) {
#pragma unroll
            for (int i = 0; i < batch; ++i) { // the address of a missing row is not read
                const int r = (from + i) * (32 / pieces) + first;
                const int32_t row = __shfl_sync(~0u, own, r);
                async_copy_16_signed(place(r), base + conv_multiply_wide((uint32_t)row, side.pitch),
                                     row | (bytes - 1));
            }
        }
        return;
    }
    const bool halves = conv_in_halves(base, side.pitch);
#pragma unroll 1
    for (int i = 0; i < copies; ++i) { // in halves, or element by element
        const int r = i * (32 / pieces) + first;
        const int32_t row = __shfl_sync(~0u, own, r);
        const char *from = base + conv_multiply_wide((uint32_t)max(row, 0), side.pitch);
        if (halves) {
            conv_copy_row<8>(place(r), from, row >= 0 ? bytes : 0);
        } else {
            shared_store_4(place(r), conv_read_unaligned<E>(from, row >= 0 ? bytes : 0));
        }
    }
}

// Copies the warp's rows of one side. own: the row number of the lane's pair; to: of the side in
// the stage.
template <typename T, int pitch>
SPIRA_DEVICE void grad_fill_side(const grad_side &side, int32_t own, uint32_t to) {
    typedef typename T::element E;
    enum { pieces = pitch / 16 };
    const int warp = (int)threadIdx.x / 32, piece = (int)threadIdx.x % 32 % pieces;
    grad_gather<E, pieces, T::gathered * pieces / 32>(side, own, [=](int r) {
        return to + grad_place<E, pitch>((uint32_t)(warp * T::gathered + r), (uint32_t)piece);
    });
}

// Fills a stage. stage: its address.
template <typename T>
SPIRA_DEVICE void grad_fill(const grad_tile &tile, const grad_pair &own, uint32_t stage) {
    grad_fill_side<T, T::in_pitch>(tile.in, own.in, stage);
    grad_fill_side<T, T::out_pitch>(tile.out, own.out, stage + T::in_bytes);
}

} // namespace spira

#endif
