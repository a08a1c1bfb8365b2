// spira/index/exchange_lists.cuh: the kernel that moves pair lists to another engine's order.
#ifndef SPIRA_INDEX_EXCHANGE_LISTS_CUH
#define SPIRA_INDEX_EXCHANGE_LISTS_CUH

#include "../base/block.cuh"
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
SPIRA_DEVICE int32_t exchange_start(weight_order order, triple size, const int32_t *begin,
                                    int place) {
    __shared__ int shared[exchange_threads / 32];
    int32_t before = 0;
    for (int p = threadIdx.x; p < place; p += exchange_threads) {
        int k = exchange_offset(order, size, p);
        before += begin[k + 1] - begin[k];
    }
    return block_sum<exchange_threads>(before, shared);
}

// Copies a list of `count` pairs to `start`, and fills it up to `end` with -1. The thread blocks of
// a list share the work, chunk by chunk.
SPIRA_DEVICE void exchange_move(const exchange_lists &to, int64_t start, const int32_t *input,
                                const int32_t *output, int64_t count, int64_t end) {
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
    exchange_lists_kernel(const __grid_constant__ exchange_lists to, map_pairs pairs,
                          device_status *trouble) {
    int place = (int)blockIdx.y, k = exchange_offset(to.order, to.size, place);
    int32_t first = pairs.begin[k], found = pairs.begin[k + 1] - first;
    int64_t count = exchange_kept(&to, found), end = max_of(count, to.stride);
    if (blockIdx.x && (int64_t)blockIdx.x * exchange_chunk >= end) {
        return;
    }
    int64_t start = to.stride ? (int64_t)place * to.stride
                              : exchange_start(to.order, to.size, pairs.begin, place);
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        exchange_put_bounds(&to, place, start, count);
        device_status_raise_count(trouble, found, count);
    }
    exchange_move(to, start, pairs.input + first, pairs.output + first, count, end);
}

SPIRA_LAUNCHER status exchange_lists_launch(const exchange_lists *to, map_pairs pairs,
                                            device_status *trouble, const char *subject,
                                            cudaStream_t stream) {
    int volume = exchange_volume(to);
    int64_t longest = to->stride ? to->stride : pairs.capacity;
    int64_t blocks = ceil_div(longest, exchange_chunk);
    if (!to->stride) { // one list rarely has most of the pairs, so fewer thread blocks are enough
        int64_t even = ceil_div(longest, (int64_t)volume * exchange_chunk);
        blocks = min_of(blocks, max_of(even, ceil_div(exchange_blocks, volume)));
    }
    dim3 grid((unsigned)blocks, (unsigned)volume);
    exchange_lists_kernel<<<grid, exchange_threads, 0, stream>>>(*to, pairs, trouble);
    return status_of_launch(subject);
}

} // namespace spira

#endif
