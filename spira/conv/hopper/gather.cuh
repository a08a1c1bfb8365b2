// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/conv/hopper/gather.cuh: a producer warp copies rows of features into a stage.
//
// A row group of a stage is 64 rows of 128 or 64 bytes, swizzled (wgmma_place). Lanes copy pieces
// of 16 bytes: 8 or 4 neighbouring lanes copy one row.
#ifndef SPIRA_CONV_HOPPER_GATHER_CUH
#define SPIRA_CONV_HOPPER_GATHER_CUH

#include "traits.cuh"

namespace spira {

// A lane's piece of a chunk.
struct hopper_piece {
    const char *base;   // of row 0
    uint32_t pitch;     // bytes to the next row
    int bytes;          // that the row has from here on; 0 or less: the piece is zeros
    bool wide;          // the pieces of the whole warp are aligned
    uint8_t copy_bytes; // see conv_params
};

// p: conv_params or conv_params_shortcut.
template <typename E, typename P>
SPIRA_DEVICE hopper_piece hopper_piece_of(const P &p, int piece) {
    const bool second = hopper_piece_second<E>(p.cin, piece);
    const int at = piece * conv_lane_bytes;
    hopper_piece from;
    from.pitch = (uint32_t)(second ? p.cin2 : p.pitch) * (uint32_t)sizeof(E);
    from.bytes = (second ? p.cin2 : p.cin) * (int)sizeof(E) - at;
    from.base = (const char *)(second ? p.in2 : p.in) + (from.bytes > 0 ? at : 0);
    from.wide = __all_sync(~0u, second ? p.wide_in2 : p.wide_in);
    from.copy_bytes = p.copy_bytes;
    // Keeps the sum in one register: the compiler would add array and offset for each row.
#ifdef __CUDA_ARCH__
    asm volatile("" : "+l"(from.base));
#endif
    return from;
}

// Copies the pieces of a row group; missing rows become zero.
template <int log>
SPIRA_DEVICE void hopper_gather(const hopper_piece &from, const int32_t (&source)[2], uint32_t to) {
    enum { lanes = 1 << (log - 4), rows = 32 / lanes }; // of a row; rows at a time
    const int lane = threadIdx.x % 32, own = lane / lanes;
    const uint32_t place = (uint32_t)(own << log | lane % lanes * conv_lane_bytes);
    // Rows at a time are 512 bytes, and the swizzle repeats every 1024.
    const uint32_t even = to + wgmma_place(place, log), odd = to + wgmma_place(place + 512, log);
    const bool inside = from.bytes > 0;
#pragma unroll
    for (int i = 0; i < (int)order_rows / rows; ++i) {
        int32_t row = __shfl_sync(~0u, source[i * rows / 32], i * rows % 32 + own);
        const char *at = from.base + conv_multiply_wide((uint32_t)row, from.pitch);
        async_copy_16(i % 2 ? odd + (i - 1) * 512 : even + i * 512, at, inside && row >= 0);
    }
}

// The same for rows that are not aligned to 16 bytes: by asynchronous copies of 8 or 4 where all
// rows of the layer allow it, else element by element. Not inlined: all kernels share it. source,
// second: the lane's rows, of the first half of the row group and of the second.
template <typename E, int log>
[[maybe_unused]] static __device__ __noinline__ void
hopper_gather_unaligned(hopper_piece from, int32_t source, int32_t second, uint32_t to) {
    enum { lanes = 1 << (log - 4), rows = 32 / lanes };
    const int lane = threadIdx.x % 32, own = lane / lanes;
    uint32_t place = to + wgmma_place((uint32_t)(own << log | lane % lanes * conv_lane_bytes), log);
    const uint32_t swizzle = wgmma_place(512, log) ^ 512; // of 512 bytes: rows at a time
#pragma unroll 1
    for (int row = own; row < order_rows; row += rows) {
        const int32_t at = __shfl_sync(~0u, row < 32 ? source : second, row % 32);
        const char *own_row = from.base + conv_multiply_wide((uint32_t)max(at, 0), from.pitch);
        const int bytes = at >= 0 ? from.bytes : 0;
        if (from.copy_bytes == 8) {
            conv_copy_row<8>(place, own_row, bytes);
        } else if (from.copy_bytes) {
            conv_copy_row<4>(place, own_row, bytes);
        } else {
            shared_store_4(place, conv_read_each<E>(own_row, bytes));
        }
        place = (place + 512) ^ swizzle;
    }
}

} // namespace spira

#endif
