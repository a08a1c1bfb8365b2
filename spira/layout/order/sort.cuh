// spira/layout/order/sort.cuh: a radix sort of rows by key, inside one thread block, stable.
//
// Element i of a lane is at position order_first<items>() + i * 32. A pass ranks the elements by
// one digit and exchanges them through shared memory. Digits have 9 bits: three passes for the 24
// sectors of size 3, one for the 8 directions of size 2.
#ifndef SPIRA_LAYOUT_ORDER_SORT_CUH
#define SPIRA_LAYOUT_ORDER_SORT_CUH

#include "../../base/block.cuh"
#include "task.cuh"

namespace spira {

enum { order_digit_bits = 9 };

// The shared memory of a sort of `items` elements for each of `threads` threads, by a digit of
// `bits` bits.
template <int threads, int items, int bits = order_digit_bits>
struct __align__(16) order_shared {
    union {
        // Elements of each warp with each digit; then the number of such elements in the warps
        // before.
        uint16_t count[threads / 32][1 << bits];
        order_item item[threads * items];
        int32_t head[threads * items];
        uint32_t sample[threads * items];
    };
    uint16_t begin[1 << bits]; // the position of the first element with each digit
    int scan[threads / 32];    // of block_exclusive_sum
};

// The position of a thread's first element.
template <int items>
SPIRA_DEVICE int order_first() {
    return (int)threadIdx.x / 32 * items * 32 + (int)threadIdx.x % 32;
}

// The counts of 2 * words neighbouring digits. Shared memory moves them in one access.
template <int words>
struct __align__(4 * words) order_counts {
    uint32_t pair[words]; // the first digit of a pair in the low half
};

// Replaces `count` by sums over the warps before, and fills `begin`. A thread takes neighbouring
// digits, two at least.
template <int threads, int items, int bits>
SPIRA_DEVICE void order_count_digits(order_shared<threads, items, bits> &s) {
    const int pairs = (1 << bits) / 2, each = pairs > threads ? pairs / threads : 1;
    order_counts<each> *count = (order_counts<each> *)s.count + threadIdx.x, sum = {};
    int own = 0;
    if (threadIdx.x < pairs / each) {
#pragma unroll
        for (int w = 0; w < threads / 32; ++w) {
            const order_counts<each> more = count[w * (pairs / each)];
            count[w * (pairs / each)] = sum;
#pragma unroll
            for (int j = 0; j < each; ++j) {
                sum.pair[j] += more.pair[j];
            }
        }
    }
#pragma unroll
    for (int j = 0; j < each; ++j) {
        own += (int)((sum.pair[j] & 0xffff) + (sum.pair[j] >> 16));
    }
    uint32_t begin = (uint32_t)block_exclusive_sum<threads>(own, s.scan);
#pragma unroll
    for (int j = 0; j < each; ++j) {
        const uint32_t second = begin + (sum.pair[j] & 0xffff), next = second + (sum.pair[j] >> 16);
        sum.pair[j] = begin | second << 16;
        begin = next;
    }
    if (threadIdx.x < pairs / each) {
        ((order_counts<each> *)s.begin)[threadIdx.x] = sum;
    }
}

// Clears the counts of this warp.
template <int bits>
SPIRA_DEVICE void order_clear_counts(uint16_t *count) {
    for (int i = (int)threadIdx.x % 32; i < (1 << bits) * 2 / 16; i += 32) {
        ((uint4 *)count)[i] = {0, 0, 0, 0};
    }
    __syncwarp();
}

// Ranks an element of each lane among those of its warp with the same digit: after those that were
// counted before and those of lower lanes. Counts them. count [1 << bits]: of the warp
template <int bits>
SPIRA_DEVICE int order_rank_in_warp(uint32_t digit, uint16_t *count) {
    const uint32_t peers = warp_peers<bits>(digit);
    const int before = __popc(peers & ((1u << (int)threadIdx.x % 32) - 1)), base = count[digit];
    __syncwarp();
    if (before == 0) {
        count[digit] = (uint16_t)(base + __popc(peers));
    }
    __syncwarp();
    return base + before;
}

// Finds the position of each element in the order of the digits; equal digits keep their order.
// Fills `begin`.
template <int threads, int items, int bits>
SPIRA_DEVICE void order_rank(const uint32_t (&digit)[items], int (&place)[items],
                             order_shared<threads, items, bits> &s) {
    uint16_t *count = s.count[threadIdx.x / 32];
    order_clear_counts<bits>(count);
#pragma unroll
    for (int i = 0; i < items; ++i) {
        place[i] = order_rank_in_warp<bits>(digit[i], count);
    }
    __syncthreads();
    order_count_digits(s);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < items; ++i) {
        place[i] += count[digit[i]] + s.begin[digit[i]];
    }
}

// Moves each element to its position.
template <int threads, int items, int bits>
SPIRA_DEVICE void order_exchange(const int (&place)[items], order_item (&item)[items],
                                 order_shared<threads, items, bits> &s) {
    const int first = order_first<items>();
    __syncthreads();
#pragma unroll
    for (int i = 0; i < items; ++i) {
        s.item[place[i]] = item[i];
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < items; ++i) {
        item[i] = s.item[first + i * 32];
    }
}

// Sorts by the lowest `bits` bits of the key. differ: the bits in which keys may differ; a digit
// without such bits is skipped. Same arguments in all threads of the block.
template <int threads, int items, int digit_bits>
SPIRA_DEVICE void order_sort(int bits, uint32_t differ, order_item (&item)[items],
                             order_shared<threads, items, digit_bits> &s) {
    const uint32_t mask = (1 << digit_bits) - 1;
    for (int shift = 0; shift < bits; shift += digit_bits) {
        uint32_t digit[items];
        int place[items];
        if (differ >> shift & mask) {
#pragma unroll
            for (int i = 0; i < items; ++i) {
                digit[i] = item[i].key >> shift & mask;
            }
            __syncthreads(); // the elements before are no longer used
            order_rank(digit, place, s);
            order_exchange(place, item, s);
        }
    }
}

} // namespace spira

#endif
