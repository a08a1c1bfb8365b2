// spira/layout/order/sort.cuh: a radix sort of rows by key, inside one thread block, stable.
//
// Element i of a lane is at position (warp * items + i) * 32 + lane. A pass ranks the elements by
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

// Replaces `count` by sums over the warps before, and fills `begin`. A thread takes two digits.
template <int threads, int items, int bits>
SPIRA_DEVICE void order_count_digits(order_shared<threads, items, bits> &s) {
    const int pairs = (1 << bits) / 2;
    uint32_t *pair = (uint32_t *)s.count + threadIdx.x, sum = 0;
    if (threadIdx.x < pairs) {
#pragma unroll
        for (int w = 0; w < threads / 32; ++w) {
            uint32_t own = pair[w * pairs];
            pair[w * pairs] = sum;
            sum += own;
        }
    }
    const int low = sum & 0xffff;
    const int begin = block_exclusive_sum<threads>(low + (int)(sum >> 16), s.scan);
    if (threadIdx.x < pairs) {
        ((uint32_t *)s.begin)[threadIdx.x] = (uint32_t)begin | (uint32_t)(begin + low) << 16;
    }
}

// Finds the position of each element in the order of the digits; equal digits keep their order.
// Fills `begin`.
template <int threads, int items, int bits>
SPIRA_DEVICE void order_rank(const uint32_t (&digit)[items], int (&place)[items],
                             order_shared<threads, items, bits> &s) {
    const int lane = threadIdx.x % 32;
    uint16_t *count = s.count[threadIdx.x / 32];
    for (int i = lane; i < (1 << bits) * 2 / 16; i += 32) {
        ((uint4 *)count)[i] = {0, 0, 0, 0};
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < items; ++i) {
        uint32_t peers = warp_peers<bits>(digit[i]);
        int before = __popc(peers & ((1u << lane) - 1)), base = count[digit[i]];
        __syncwarp();
        if (before == 0) {
            count[digit[i]] = (uint16_t)(base + __popc(peers));
        }
        __syncwarp();
        place[i] = base + before;
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
    const int first = (int)threadIdx.x / 32 * items * 32 + (int)threadIdx.x % 32;
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

// Sorts by the lowest `bits` bits of the key. differ: the bits in which a thread's keys may differ
// from others; a digit without such bits in any thread is skipped.
template <int threads, int items>
SPIRA_DEVICE void order_sort(int bits, uint32_t differ, order_item (&item)[items],
                             order_shared<threads, items> &s) {
    const uint32_t mask = (1 << order_digit_bits) - 1;
    for (int shift = 0; shift < bits; shift += order_digit_bits) {
        uint32_t digit[items];
        int place[items];
        if (__syncthreads_or((int)(differ >> shift & mask))) {
#pragma unroll
            for (int i = 0; i < items; ++i) {
                digit[i] = item[i].key >> shift & mask;
            }
            order_rank(digit, place, s);
            order_exchange(place, item, s);
        }
    }
}

} // namespace spira

#endif
