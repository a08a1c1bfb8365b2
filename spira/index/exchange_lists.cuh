// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/index/exchange_lists.cuh: the kernel that moves pair lists to another engine's order.
#ifndef SPIRA_INDEX_EXCHANGE_LISTS_CUH
#define SPIRA_INDEX_EXCHANGE_LISTS_CUH

#include "../base/launch.cuh"
#include "../exchange.h"
#include "../status.cuh"

namespace spira {

enum {
    exchange_threads = 256,
    exchange_items = 4, // pairs or rows that a thread has in flight
    exchange_chunk = exchange_threads * exchange_items,
    exchange_blocks = 4096, // enough thread blocks for any GPU
};

// Returns where the list at `place` starts if the lists follow one another. Called once, by all
// threads of a block of exchange_threads.
SPIRA_DEVICE int64_t exchange_start(weight_order order, triple size, const map_lists &pairs,
                                    int place) {
    __shared__ unsigned long long all;
    unsigned long long before = 0;
    if (threadIdx.x == 0) {
        all = 0;
    }
    __syncthreads();
    for (int p = threadIdx.x; p < place; p += exchange_threads) {
        before += (unsigned)map_lists_span(&pairs, exchange_offset(order, size, p)).count;
    }
    if (before) {
        atomicAdd(&all, before);
    }
    __syncthreads();
    return (int64_t)all;
}

// Copies the first `count` pairs of a list to `start`, and fills it up to `end` with -1. The thread
// blocks of a list share the work, chunk by chunk.
SPIRA_DEVICE void exchange_move(const exchange_lists &to, const map_lists &pairs, map_span list,
                                int64_t start, int64_t count, int64_t end) {
    const int32_t *input = pairs.input + list.begin, *output = pairs.output + list.begin;
    for (int64_t at = (int64_t)blockIdx.x * exchange_chunk + threadIdx.x; at < end;
         at += (int64_t)gridDim.x * exchange_chunk) {
        int32_t in[exchange_items], out[exchange_items];
        for (int j = 0; j < exchange_items; ++j) {
            int64_t i = at + j * exchange_threads;
            in[j] = i < count ? input[i] : -1;
            out[j] = i < count ? output[i] : -1;
        }
        for (int j = 0; j < exchange_items; ++j) {
            int64_t i = at + j * exchange_threads;
            if (i < end) {
                exchange_put(&to, start + i, in[j], out[j]);
            }
        }
    }
}

// blockIdx.y: the place of the list.
SPIRA_PLAIN_KERNEL void __launch_bounds__(exchange_threads)
    exchange_lists_kernel(const __grid_constant__ exchange_lists to, map_lists pairs,
                          device_status *trouble) {
    const int place = (int)blockIdx.y;
    const map_span list = map_lists_span(&pairs, exchange_offset(to.order, to.size, place));
    if (blockIdx.x && (int64_t)blockIdx.x * exchange_chunk >= max_of(list.count, to.stride)) {
        return;
    }
    const int64_t start =
        to.stride ? (int64_t)place * to.stride : exchange_start(to.order, to.size, pairs, place);
    const int64_t count = exchange_kept(&to, pairs.capacity - start, list.count);
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        exchange_put_bounds(&to, place, start, count);
        device_status_raise_count(trouble, list.count, count);
    }
    exchange_move(to, pairs, list, start, count, max_of(count, to.stride));
}

} // namespace spira

#endif
