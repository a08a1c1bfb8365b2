// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/order/planes.cuh: writes masks and sources of compact maps of size 5, after
// order_group_kernel has written the rows. A thread block has a group pair, a warp a plane of a row
// group. So there are ten warps a pair to hide the loads of records, which are scattered.
#ifndef SPIRA_ORDER_PLANES_CUH
#define SPIRA_ORDER_PLANES_CUH

#include "../base/launch.cuh"
#include "put.cuh"

namespace spira {

enum { order_size = compact_size_most, order_planes_threads = 2 * order_size * 32 };

// The offsets that some row of a row group has, by planes, for both groups of a pair.
typedef uint32_t order_offsets[2][order_size];

// Loads the records of a plane and a lane's rows; those of no row (-1) have no taps.
SPIRA_DEVICE void order_load_plane(const order_request &r, int plane,
                                   const int32_t (&row)[order_items],
                                   int32_t (&record)[order_items][order_size + 1]) {
#pragma unroll
    for (int i = 0; i < order_items; ++i) {
        const int32_t *from = r.compact + compact_at(order_size, r.capacity, plane, max(row[i], 0));
#pragma unroll
        for (int j = 0; j < order_size + 1; j += 2) {
            const int2 v = row[i] >= 0 ? __ldg((const int2 *)(from + j)) : int2{0, 0};
            record[i][j] = v.x, record[i][j + 1] = v.y;
        }
    }
}

// Returns word w of a row group's mask. any: the offsets of each plane
SPIRA_DEVICE uint32_t order_plane_mask(const uint32_t *any, int w) {
    uint32_t mask = 0;
#pragma unroll
    for (int plane = 0; plane < order_size; ++plane) {
        const int shift = plane * order_size * order_size - w * order_word_bits;
        mask |= shift >= 0 && shift < 32   ? any[plane] << shift
                : shift < 0 && shift > -32 ? any[plane] >> -shift
                                           : 0;
    }
    return mask;
}

SPIRA_PLAIN_KERNEL void __launch_bounds__(order_planes_threads, 3)
    order_put_planes_kernel(const __grid_constant__ order_batch batch) {
    __shared__ order_offsets any;
    const int number = block_find_part(batch.first[order_by_pair], (int32_t)blockIdx.x);
    const order_request &r = batch.task[number].request;
    const order_layout &t = r.layout;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int side = warp / order_size, plane = warp % order_size;
    const int32_t group = 2 * ((int32_t)blockIdx.x - batch.first[order_by_pair][number]) + side;
    pdl_wait();
    int32_t row[order_items], record[order_items][order_size + 1];
#pragma unroll
    for (int i = 0; i < order_items; ++i) {
        row[i] = group < order_count(r.capacity)
                     ? order_load_now(t.row + (int64_t)group * order_rows + i * 32 + lane)
                     : -1;
    }
    order_load_plane(r, plane, row, record);
    const uint32_t own = warp_unite((uint32_t)(record[0][order_size] | record[1][order_size]));
    if (lane == 0) {
        any[side][plane] = own;
    }
    __syncthreads();
    const int words = order_words(t.volume);
    if (plane == 0 && lane < words && group < order_count(r.capacity)) {
        t.mask[(int64_t)group * words + lane] = order_plane_mask(any[side], lane);
    }
    int32_t *to = t.source + order_begin(&t, group, plane * order_size * order_size) + lane;
#pragma unroll
    for (int i = 0; i < order_items; ++i) {
        order_put_record<order_size>(record[i], own, to + i * 32);
    }
}

} // namespace spira

#endif
