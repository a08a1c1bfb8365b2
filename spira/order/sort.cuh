// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/order/sort.cuh: a radix sort of 1024 items inside one thread block, stable.
//
// Element i of a lane is at position order_first() + i * 32. A pass ranks the elements by one digit
// of 10 bits, a class or a part of a key, and exchanges them through shared memory. The keys of a
// run differ in 11 to 20 of 24 bits (sectors): mostly two passes, at most three. Keys by directions
// have 27 bits: at most three.
#ifndef SPIRA_ORDER_SORT_CUH
#define SPIRA_ORDER_SORT_CUH

#include "../base/block.cuh"
#include "task.cuh"

namespace spira {

enum {
    order_digits = order_classes,
    order_digits_each = (int)order_digits / order_threads, // of a thread
};

static_assert(order_warps == 16 && order_items * 32 <= 255, "16 bytes of counts for a digit");
static_assert(order_digits_each == 2, "loads and stores of two digits");

// How many elements each warp has.
struct __align__(16) order_warp_counts {
    uint8_t count[order_warps];
};

struct __align__(16) order_shared {
    order_warp_counts digit[order_digits]; // of each digit
    uint16_t begin[order_digits];          // position of the first of its elements
    int scan[order_warps];
};

// The position of a thread's first element.
SPIRA_DEVICE int order_first() {
    return (int)threadIdx.x / 32 * order_items * 32 + (int)threadIdx.x % 32;
}

// Clears the counts. Called by all threads of a block, which need a barrier before they count.
SPIRA_DEVICE void order_clear_digits(order_shared &s) {
#pragma unroll
    for (int j = 0; j < order_digits_each; ++j) {
        ((uint4 *)s.digit)[threadIdx.x + j * order_threads] = {0, 0, 0, 0};
    }
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

// Counts the elements by digits and warps. Returns the rank of each among those of its warp with
// the same digit.
SPIRA_DEVICE void order_count_digits(const uint32_t (&digit)[order_items], int (&rank)[order_items],
                                     order_shared &s) {
    uint32_t peers[order_items];
#pragma unroll
    for (int i = 0; i < order_items; ++i) {
        peers[i] = warp_peers<order_class_bits>(digit[i]);
    }
#pragma unroll
    for (int i = 0; i < order_items; ++i) {
        rank[i] = order_rank_in_warp(peers[i], s.digit[digit[i]].count[threadIdx.x / 32]);
    }
}

// Returns how many elements of a digit the first `warps` warps have.
SPIRA_DEVICE int order_sum_counts(const order_warp_counts &counts, int warps) {
    const uint4 v = *(const uint4 *)&counts;
    const uint32_t four[] = {v.x, v.y, v.z, v.w};
    uint32_t sum = 0;
#pragma unroll
    for (int w = 0; w < order_warps / 4; ++w) {
        const int below = min(max(warps - w * 4, 0), 4);
        sum = bytes_add(four[w] & (below == 4 ? ~0u : (1u << 8 * below) - 1), sum);
    }
    return (int)sum;
}

// Finds where the digits begin. all: elements of this thread's two digits. Returns the position of
// the first of them. Called by all threads of a block, which has counted; has a barrier inside, and
// needs one before and behind.
SPIRA_DEVICE int order_place_digits(int (&all)[order_digits_each], order_shared &s) {
    const int d = order_digits_each * (int)threadIdx.x;
#pragma unroll
    for (int j = 0; j < order_digits_each; ++j) {
        all[j] = order_sum_counts(s.digit[d + j], order_warps);
    }
    const int at = block_exclusive_sum<order_threads>(all[0] + all[1], s.scan);
    ((uint32_t *)s.begin)[threadIdx.x] = (uint32_t)at | (uint32_t)(at + all[0]) << 16;
    return at;
}

// Stores the elements at their positions. to [order_run]: shared memory
SPIRA_DEVICE void order_put_items(const uint32_t (&digit)[order_items],
                                  const int (&rank)[order_items],
                                  const order_item (&item)[order_items], order_item *to,
                                  const order_shared &s) {
#pragma unroll
    for (int i = 0; i < order_items; ++i) {
        const int before = order_sum_counts(s.digit[digit[i]], (int)threadIdx.x / 32);
        to[s.begin[digit[i]] + before + rank[i]] = item[i];
    }
}

// Sorts by the key, digit by digit. differ: the bits in which keys may differ; a digit begins at
// the lowest one that is left. The counts are clear. Called by all threads of a block, with the
// same `differ` and a barrier before; on the way there are more. stored [order_run]: shared memory
SPIRA_DEVICE void order_sort_by_key(uint32_t differ, order_item (&item)[order_items],
                                    order_item *stored, order_shared &s) {
    const uint32_t some = order_digits - 1;
#pragma unroll 1
    while (differ) {
        const int shift = __ffs((int)differ) - 1;
        uint32_t digit[order_items];
        int rank[order_items], all[order_digits_each];
#pragma unroll
        for (int i = 0; i < order_items; ++i) {
            digit[i] = item[i].key >> shift & some;
        }
        order_count_digits(digit, rank, s);
        __syncthreads(); // all are counted
        order_place_digits(all, s);
        __syncthreads(); // the beginnings are there
        order_put_items(digit, rank, item, stored, s);
        __syncthreads(); // all are stored
#pragma unroll
        for (int i = 0; i < order_items; ++i) {
            item[i] = stored[order_first() + i * 32];
        }
        differ &= ~(some << shift);
        if (differ) {
            order_clear_digits(s);
            __syncthreads();
        }
    }
}

} // namespace spira

#endif
