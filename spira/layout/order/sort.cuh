// spira/layout/order/sort.cuh: a radix sort of 1024 items inside one thread block, stable.
//
// Element i of a lane is at position order_first() + i * 32. A pass ranks the elements by one digit
// of up to 8 bits and exchanges them through shared memory. A pass of 6 bits takes half the
// instructions of one of 8. The keys of a run differ in some 11 of 24 bits: mostly two passes, at
// most four.
#ifndef SPIRA_LAYOUT_ORDER_SORT_CUH
#define SPIRA_LAYOUT_ORDER_SORT_CUH

#include "../../base/block.cuh"
#include "task.cuh"

namespace spira {

#ifndef SPIRA_TRY_ORDER_DIGIT
#define SPIRA_TRY_ORDER_DIGIT 6
#endif

enum {
    order_digit_bits = 8, // at most
    order_digits = 1 << order_digit_bits,
    order_key_digit_bits = SPIRA_TRY_ORDER_DIGIT, // of a key
};

static_assert(order_warps == 16 && order_items == 2,
              "16 counts of a digit, two elements of a lane");

// How many elements of each warp have each digit; then the position of the first one. Two more
// columns spread digits over the banks.
typedef uint16_t order_counts[order_digits][order_warps + 2];

struct __align__(16) order_shared {
    order_item item[order_run];
    order_counts count;
    int scan[order_warps]; // of block_exclusive_sum
};

// The position of a thread's first element.
SPIRA_DEVICE int order_first() {
    return (int)threadIdx.x / 32 * order_items * 32 + (int)threadIdx.x % 32;
}

// Clears the counts of this warp for digits of `bits` bits.
template <int bits = order_digit_bits>
SPIRA_DEVICE void order_clear_counts(order_counts &count) {
#pragma unroll
    for (int d = (int)threadIdx.x % 32; d < 1 << bits; d += 32) {
        count[d][threadIdx.x / 32] = 0;
    }
    __syncwarp();
}

// Ranks an element of each lane among those of its warp with the same digit: after those that were
// counted before and those of lower lanes. Counts them. peers: the lanes with the same digit
SPIRA_DEVICE int order_rank_in_warp(uint32_t digit, uint32_t peers, order_counts &count) {
    uint16_t &counted = count[digit][threadIdx.x / 32];
    const int before = __popc(peers & ((1u << (int)threadIdx.x % 32) - 1)), base = counted;
    __syncwarp();
    if (before == 0) {
        counted = (uint16_t)(base + __popc(peers));
    }
    __syncwarp();
    return base + before;
}

// Replaces the counts by positions: a digit's elements follow those of the digits before, a warp's
// those of the warps before. Called by all threads of a block; has a barrier inside, and needs one
// before and after. A thread takes neighbouring warps of a digit, two in a word; of fewer than 64
// digits, some threads have none.
template <int bits = order_digit_bits>
SPIRA_DEVICE void order_place_counts(order_counts &count, int *scan) {
    const int digits = 1 << bits, all = order_warps / 2;
    const int whole = digits * all / order_threads, words = whole ? whole : 1, each = all / words;
    const int digit = (int)threadIdx.x / each;
    const bool has = digits * each >= order_threads || digit < digits;
    uint32_t *pair = (uint32_t *)count[digit] + (int)threadIdx.x % each * words, own[words] = {};
    int sum = 0;
#pragma unroll
    for (int j = 0; j < words && has; ++j) {
        own[j] = pair[j];
        sum += (int)((own[j] & 0xffff) + (own[j] >> 16));
    }
    uint32_t at = (uint32_t)block_exclusive_sum<order_threads>(sum, scan);
#pragma unroll
    for (int j = 0; j < words && has; ++j) {
        const uint32_t second = at + (own[j] & 0xffff);
        pair[j] = at | second << 16;
        at = second + (own[j] >> 16);
    }
}

// Sorts by one digit of `bits` bits. Called by all threads of a block. s.item is not stored to
// before all threads have called.
template <int bits = order_digit_bits>
SPIRA_DEVICE void order_sort_digit(const uint32_t (&digit)[order_items],
                                   order_item (&item)[order_items], order_shared &s) {
    const int first = order_first();
    uint32_t peers[order_items];
    int rank[order_items];
    order_clear_counts<bits>(s.count);
#pragma unroll
    for (int i = 0; i < order_items; ++i) {
        peers[i] = warp_peers<bits>(digit[i]);
    }
#pragma unroll
    for (int i = 0; i < order_items; ++i) {
        rank[i] = order_rank_in_warp(digit[i], peers[i], s.count);
    }
    __syncthreads();
    order_place_counts<bits>(s.count, s.scan);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < order_items; ++i) {
        s.item[s.count[digit[i]][threadIdx.x / 32] + rank[i]] = item[i];
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
        const uint32_t some = (1u << order_key_digit_bits) - 1;
        uint32_t digit[order_items];
#pragma unroll
        for (int i = 0; i < order_items; ++i) {
            digit[i] = item[i].key >> shift & some;
        }
        order_sort_digit<order_key_digit_bits>(digit, item, s);
        differ &= ~(some << shift);
    }
}

} // namespace spira

#endif
