// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/order/large.cuh: writes masks and sources of compact maps of large kernels (compact.h),
// after order_group_kernel has written the rows. A thread block has a group pair; four warps share
// the planes of a row group.
#ifndef SPIRA_ORDER_LARGE_CUH
#define SPIRA_ORDER_LARGE_CUH

#include "../base/launch.cuh"
#include "put.cuh"

namespace spira {

enum {
    order_large_warps = 4, // of a row group
    order_large_threads = 2 * order_large_warps * 32,
    order_large_ahead = 4, // rows of offsets whose pairs are loaded together
    order_large_words = ((int)kernel_volume_max + 31) / 32,
};

// The masks of a group pair.
typedef uint32_t order_large_masks[2][order_large_words];

// Loads the pairs of rows y .. y + order_large_ahead - 1 of a plane, of this lane's outputs; those
// of no output (-1) and of no row have no sources.
SPIRA_DEVICE void order_load_pairs(const order_request &r, int plane, int y,
                                   const int32_t (&row)[order_items],
                                   int2 (&pair)[order_large_ahead][order_items]) {
    const triple size = r.kernel.size;
#pragma unroll
    for (int i = 0; i < order_items; ++i) {
        const int2 *from =
            (const int2 *)(r.compact + compact_pair_at(size, r.capacity, plane, max(row[i], 0)));
#pragma unroll
        for (int j = 0; j < order_large_ahead; ++j) {
            pair[j][i] = row[i] >= 0 && y + j < size.y ? __ldg(from + y + j) : int2{0, 0};
        }
    }
}

// Writes the sources of the offsets in `any`, of this lane's outputs. to: of the row's first offset
SPIRA_DEVICE void order_put_pairs(const int2 (&pair)[order_items], uint32_t any, int32_t *to) {
    for (uint32_t left = any; left; left &= left - 1) {
        const int c = __ffs((int)left) - 1;
#pragma unroll
        for (int i = 0; i < order_items; ++i) {
            const uint32_t has = (uint32_t)pair[i].y;
            to[c * order_rows + i * 32] =
                has >> c & 1 ? pair[i].x + __popc(has & ((1u << c) - 1)) : -1;
        }
    }
}

// Adds bits to a mask, from bit k on.
SPIRA_DEVICE void order_add_bits(uint32_t *mask, int k, uint32_t bits) {
    const int word = k / order_word_bits, shift = k % order_word_bits;
    if (bits) {
        atomicOr(&mask[word], bits << shift);
        if (shift && bits >> (order_word_bits - shift)) {
            atomicOr(&mask[word + 1], bits >> (order_word_bits - shift));
        }
    }
}

SPIRA_PLAIN_KERNEL void __launch_bounds__(order_large_threads)
    order_put_large_kernel(const __grid_constant__ order_batch batch) {
    __shared__ order_large_masks mask;
    const int number = block_find_part(batch.first[order_by_large], (int32_t)blockIdx.x);
    const order_request &r = batch.task[number].request;
    const order_layout &t = r.layout;
    const triple size = r.kernel.size;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, side = warp / order_large_warps;
    const int32_t first = 2 * ((int32_t)blockIdx.x - batch.first[order_by_large][number]);
    const int words = order_words(t.volume), groups = order_count(r.capacity);
    for (int i = threadIdx.x; i < 2 * words; i += order_large_threads) {
        mask[i >= words][i % words] = 0;
    }
    pdl_wait();
    const int32_t group = first + side;
    int32_t row[order_items];
#pragma unroll
    for (int i = 0; i < order_items; ++i) {
        row[i] = group < groups
                     ? order_load_now(t.row + (int64_t)group * order_rows + i * 32 + lane)
                     : -1;
    }
    __syncthreads();
    const bool has = __any_sync(~0u, row[0] >= 0); // outputs fill a row group from its front
    for (int plane = warp % order_large_warps; has && plane < size.x; plane += order_large_warps) {
#pragma unroll 1
        for (int y = 0; y < size.y; y += order_large_ahead) {
            int2 pair[order_large_ahead][order_items];
            order_load_pairs(r, plane, y, row, pair);
#pragma unroll
            for (int j = 0; j < order_large_ahead; ++j) {
                const uint32_t any = warp_unite((uint32_t)(pair[j][0].y | pair[j][1].y));
                const int k = (plane * size.y + y + j) * size.z;
                if (lane == 0) {
                    order_add_bits(mask[side], k, any);
                }
                order_put_pairs(pair[j], any, t.source + order_begin(&t, group, k) + lane);
            }
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < 2 * words; i += order_large_threads) {
        if (first + i / words < groups) {
            t.mask[(int64_t)first * words + i] = mask[i >= words][i % words];
        }
    }
}

} // namespace spira

#endif
