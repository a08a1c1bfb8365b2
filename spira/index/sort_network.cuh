// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/index/sort_network.cuh: a bitonic sorting network of one thread block, in registers. Used
// by the last step of the sort (sort_bucket.cuh).
#ifndef SPIRA_INDEX_SORT_NETWORK_CUH
#define SPIRA_INDEX_SORT_NETWORK_CUH

#include "../base/async.cuh"
#include "sort_shape.h"

namespace spira {

// Puts the lower of two into `a`.
template <typename K>
SPIRA_DEVICE void sort_two(K &a, K &b) {
    K low = a < b ? a : b, high = a < b ? b : a;
    a = low;
    b = high;
}

// Sorts the keys of a thread. A merge begins with a mirrored step, so that all comparators put the
// lower key first.
template <int items, typename K>
SPIRA_DEVICE void sort_thread(K (&key)[items]) {
#pragma unroll
    for (int run = 2; run <= items; run *= 2) {
#pragma unroll
        for (int step = run / 2; step; step /= 2) {
#pragma unroll
            for (int i = 0; i < items; ++i) {
                int other = step == run / 2 ? (i ^ (run - 1)) : (i ^ step);
                if (other > i) {
                    sort_two(key[i], key[other]);
                }
            }
        }
    }
}

// The last steps of a merge, within a thread.
template <int items, typename K>
SPIRA_DEVICE void sort_thread_merge(K (&key)[items]) {
#pragma unroll
    for (int step = items / 2; step; step /= 2) {
#pragma unroll
        for (int i = 0; i < items; ++i) {
            if (!(i & step)) {
                sort_two(key[i], key[i | step]);
            }
        }
    }
}

// The lower or the higher of two. For 32 bits, min and max are two independent instructions.
SPIRA_DEVICE uint32_t sort_choose(bool low, uint32_t a, uint32_t b) {
    return low ? min(a, b) : max(a, b);
}

SPIRA_DEVICE uint64_t sort_choose(bool low, uint64_t a, uint64_t b) {
    return low == (a < b) ? a : b;
}

// A step with another thread, whose key j is other(j). mirror: key j meets the other thread's key
// items - 1 - j, else its key j. The thread with `low` keeps the lower keys.
template <bool mirror, int items, typename K, typename across>
SPIRA_DEVICE void sort_meet(K (&key)[items], bool low, across other) {
    const int pairs = mirror ? (items + 1) / 2 : items; // two at a time, for fewer registers
#pragma unroll
    for (int j = 0; j < pairs; ++j) {
        const int k = mirror ? items - 1 - j : j;
        K to_j = other(k), to_k = other(j);
        key[j] = sort_choose(low, key[j], to_j);
        if (k != j) {
            key[k] = sort_choose(low, key[k], to_k);
        }
    }
}

// A step between lanes l and l ^ mask.
template <bool mirror, int items, typename K>
SPIRA_DEVICE void sort_exchange_lanes(K (&key)[items], int mask) {
    bool low = !(threadIdx.x & (mirror ? (mask + 1) / 2 : mask));
    sort_meet<mirror>(key, low, [&](int j) { return __shfl_xor_sync(~0u, key[j], mask); });
}

// A step between threads t and t ^ mask of the first `used` threads, through shared [items *
// threads]. A thread beyond those counts as having the highest keys. Called by all `used` threads,
// with barriers inside.
template <bool mirror, int items, typename K>
SPIRA_DEVICE void sort_exchange_warps(K (&key)[items], int mask, int used, K *shared) {
    int thread = threadIdx.x, across = thread ^ mask;
    named_barrier_sync(1, used); // shared is free
#pragma unroll
    for (int j = 0; j < items; ++j) {
        shared[j * sort_bucket_threads + thread] = key[j];
    }
    named_barrier_sync(1, used);
    if (across < used) {
        sort_meet<mirror>(key, thread < across,
                          [&](int j) { return shared[j * sort_bucket_threads + across]; });
    }
}

// Sorts the keys of the first `used` threads of a block (whole warps), `items` a thread, by a
// bitonic network. The result is in shared [items * threads].
template <int items, typename K>
SPIRA_DEVICE void sort_block(K (&key)[items], int used, K *shared) {
    sort_thread(key);
#pragma unroll 1
    for (int run = 1; run < 32; run *= 2) {
        sort_exchange_lanes<true>(key, 2 * run - 1);
#pragma unroll 1
        for (int step = run / 2; step; step /= 2) {
            sort_exchange_lanes<false>(key, step);
        }
        sort_thread_merge(key);
    }
#pragma unroll 1
    for (int run = 32; run < used; run *= 2) {
        sort_exchange_warps<true>(key, 2 * run - 1, used, shared);
#pragma unroll 1
        for (int step = run / 2; step > 16; step /= 2) {
            sort_exchange_warps<false>(key, step, used, shared);
        }
#pragma unroll 1
        for (int step = 16; step; step /= 2) {
            sort_exchange_lanes<false>(key, step);
        }
        sort_thread_merge(key);
    }
    named_barrier_sync(1, used);
#pragma unroll
    for (int j = 0; j < items; ++j) { // in order, for coalesced access
        shared[(int)threadIdx.x * items + j] = key[j];
    }
    named_barrier_sync(1, used);
}

} // namespace spira

#endif
