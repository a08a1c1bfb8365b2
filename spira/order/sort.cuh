// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/order/sort.cuh: a radix sort of 1024 items inside one thread block, stable.
//
// Element i of a lane is at position order_first() + i * 32. A pass ranks the elements by one digit
// of up to 6 bits and exchanges them through shared memory: fewer passes of 8 bits would take more
// instructions. The keys of a run differ in some 11 of 24 bits (sectors): mostly two passes, at
// most four. Keys by directions have 32 bits: at most six.
#ifndef SPIRA_ORDER_SORT_CUH
#define SPIRA_ORDER_SORT_CUH

#include "../base/block.cuh"
#include "task.cuh"

namespace spira {

enum {
    order_digit_bits = 6, // of a digit of the sort, at most
    order_digits = 1 << order_digit_bits,
};

static_assert(order_warps == 16 && order_items == 2,
              "16 bytes of counts for a digit; a warp counts up to 64 elements");

struct __align__(16) order_shared {
    order_item item[order_run];
    uint8_t count[order_digits][order_warps + 4]; // elements of each warp; spread over the banks
    uint16_t begin[order_warps][order_digits];    // position of the first of them
    int scan[order_warps];                        // of block_exclusive_sum
};

// The position of a thread's first element.
SPIRA_DEVICE int order_first() {
    return (int)threadIdx.x / 32 * order_items * 32 + (int)threadIdx.x % 32;
}

// Ranks an element of each lane among those of its warp with the same digit: after those that were
// counted before and those of lower lanes. Counts them. peers: the lanes with the same digit;
// counted: by this warp, of the digit
template <typename T>
SPIRA_DEVICE int order_rank_in_warp(uint32_t peers, T &counted) {
    const int before = __popc(peers & ((1u << (int)threadIdx.x % 32) - 1)), base = counted;
    __syncwarp();
    if (before == 0) {
        counted = (T)(base + __popc(peers));
    }
    __syncwarp();
    return base + before;
}

// Finds where the elements of this warp begin: a digit's elements follow those of the digits
// before, a warp's those of the warps before. Each warp sums up all counts by itself: a sum over
// the thread block would take two more barriers. Called by all threads of a block, which has
// counted.
template <int bits>
SPIRA_DEVICE void order_find_begins(order_shared &s) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, each = (1 << bits) / 32;
    uint32_t all[each] = {}, front[each] = {}, sum = 0; // front: in the warps before
#pragma unroll
    for (int w = 0; w < order_warps / 4; ++w) {
        const int below = min(max(warp - w * 4, 0), 4);
        const uint32_t mask = below == 4 ? ~0u : (1u << 8 * below) - 1;
#pragma unroll
        for (int j = 0; j < each; ++j) {
            const uint32_t four = ((const uint32_t *)s.count[lane * each + j])[w];
            all[j] = bytes_add(four, all[j]);
            front[j] = bytes_add(four & mask, front[j]);
        }
    }
#pragma unroll
    for (int j = 0; j < each; ++j) {
        sum += all[j];
    }
    uint32_t at = (uint32_t)warp_sum_up_to((int)sum) - sum;
#pragma unroll
    for (int j = 0; j < each; ++j) {
        s.begin[warp][lane * each + j] = (uint16_t)(at + front[j]);
        at += all[j];
    }
    __syncwarp();
}

// Sorts by one digit of 5 or 6 bits. Called by all threads of a block; has two barriers inside.
// s.item is not stored to before all threads have called.
template <int bits = order_digit_bits>
SPIRA_DEVICE void order_sort_digit(const uint32_t (&digit)[order_items],
                                   order_item (&item)[order_items], order_shared &s) {
    static_assert(bits == 5 || bits == 6, "digits for each lane");
    const int first = order_first(), warp = threadIdx.x / 32;
    int rank[order_items];
#pragma unroll
    for (int d = (int)threadIdx.x % 32; d < 1 << bits; d += 32) {
        s.count[d][warp] = 0;
    }
    uint32_t peers[order_items];
#pragma unroll
    for (int i = 0; i < order_items; ++i) {
        peers[i] = warp_peers<bits>(digit[i]);
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < order_items; ++i) {
        rank[i] = order_rank_in_warp(peers[i], s.count[digit[i]][warp]);
    }
    __syncthreads();
    order_find_begins<bits>(s);
#pragma unroll
    for (int i = 0; i < order_items; ++i) {
        s.item[s.begin[warp][digit[i]] + rank[i]] = item[i];
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < order_items; ++i) {
        item[i] = s.item[first + i * 32];
    }
}

// Sorts by the key, digit by digit. differ: the bits in which keys may differ; a digit begins at
// the lowest one that is left. Same arguments in all threads of the block.
SPIRA_DEVICE void order_sort_by_key(uint32_t differ, order_item (&item)[order_items],
                                    order_shared &s) {
#pragma unroll 1
    while (differ) {
        const int shift = __ffs((int)differ) - 1;
        const uint32_t some = (1u << order_digit_bits) - 1;
        uint32_t digit[order_items];
#pragma unroll
        for (int i = 0; i < order_items; ++i) {
            digit[i] = item[i].key >> shift & some;
        }
        order_sort_digit<order_digit_bits>(digit, item, s);
        differ &= ~(some << shift);
    }
}

} // namespace spira

#endif
