// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/index/exchange_lists.cuh: the kernel that moves pair lists to another engine's order.
#ifndef SPIRA_INDEX_EXCHANGE_LISTS_CUH
#define SPIRA_INDEX_EXCHANGE_LISTS_CUH

#include "../base/block.cuh"
#include "../base/launch.cuh"
#include "../exchange.h"
#include "../status.cuh"

namespace spira {

enum {
    exchange_threads = 256,
    exchange_chunk = 4 * exchange_threads, // pairs that a thread block has in flight
    exchange_blocks = 4096,                // enough thread blocks for any GPU
};

// Returns where the list at `place` starts if the lists follow one another. Called by all threads
// of a block.
SPIRA_DEVICE int exchange_start(const exchange_lists &to, const map_lists &pairs, int place) {
    __shared__ int shared[exchange_threads / 32];
    int before = 0;
    for (int p = (int)threadIdx.x; p < place; p += exchange_threads) {
        before += (int)map_lists_span(&pairs, exchange_offset(to.order, to.size, p)).count;
    }
    return block_sum<exchange_threads>(before, shared);
}

// Copies the first pairs of a list, and fills its room up with -1. blockIdx.y: the place of the
// list, whose thread blocks share the work.
SPIRA_PLAIN_KERNEL void __launch_bounds__(exchange_threads)
    exchange_lists_kernel(const __grid_constant__ exchange_lists to, map_lists pairs,
                          device_status *trouble) {
    const int place = (int)blockIdx.y;
    const map_span list = map_lists_span(&pairs, exchange_offset(to.order, to.size, place));
    if (blockIdx.x && (int64_t)blockIdx.x * exchange_threads >= max_of(list.count, to.stride)) {
        return;
    }
    const int64_t start = to.stride ? (int64_t)place * to.stride : exchange_start(to, pairs, place);
    const int64_t count = exchange_kept(&to, pairs.capacity - start, list.count);
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        exchange_put_bounds(&to, place, start, count);
        device_status_raise_count(trouble, list.count, count);
    }
    const int32_t *input = pairs.input + list.begin, *output = pairs.output + list.begin;
    const int64_t end = max_of(count, to.stride);
#pragma unroll 4
    for (int64_t i = (int64_t)blockIdx.x * exchange_threads + threadIdx.x; i < end;
         i += (int64_t)gridDim.x * exchange_threads) {
        exchange_put(&to, start + i, i < count ? input[i] : -1, i < count ? output[i] : -1);
    }
}

} // namespace spira

#endif
