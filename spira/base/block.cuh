// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/base/block.cuh: sums and prefix sums of int over a thread block; its ticket; its
// part of a launch.
//
// All functions here are called by all threads of a one-dimensional block of `threads` threads: a
// multiple of 32, at most 1024. `shared` is the caller's shared memory, [threads / 32]. Each call
// has one __syncthreads inside. `shared` must be free when a call begins, and the caller needs a
// barrier between a call and the next use of the same `shared`.
#ifndef SPIRA_BASE_BLOCK_CUH
#define SPIRA_BASE_BLOCK_CUH

#include "async.cuh"

namespace spira {

// Returns the number of this thread block among those that have begun. A block may wait for blocks
// of lower numbers, and for no others: only those are certain to run, however few a GPU has room
// for. drawn [1]: zero before the kernel; shared: free, and again after the next barrier
SPIRA_DEVICE int32_t block_ticket(int32_t *drawn, int32_t *shared) {
    if (threadIdx.x == 0) {
        *shared = atomicAdd(drawn, 1);
    }
    __syncthreads();
    return *shared;
}

// Returns the part that a unit of work belongs to. For any thread. All parts are compared, since a
// search would load one after the other: of parameters of a kernel, each first load from a line of
// constant memory takes as long as one from global memory.
//
// first: of each part the first unit; INT32_MAX: there is no such part
template <int parts>
SPIRA_DEVICE int block_find_part(const int32_t (&first)[parts], int32_t unit) {
    int part = 0;
#pragma unroll
    for (int p = 1; p < parts; ++p) {
        part += unit >= first[p] ? 1 : 0;
    }
    return part;
}

// Writes each warp's sum to shared memory and waits until all are there.
template <int threads>
SPIRA_DEVICE void block_share_sums(int sum, bool writer, int *shared) {
    static_assert(threads % 32 == 0 && threads >= 32 && threads <= 1024, "block: threads");
    if (writer) {
        shared[threadIdx.x / 32] = sum;
    }
    __syncthreads();
}

// Returns the sum of all threads' values, in every thread.
template <int threads>
SPIRA_DEVICE int block_sum(int value, int *shared) {
    const int lane = (int)(threadIdx.x % 32);
    block_share_sums<threads>(warp_sum(value), lane == 0, shared);
    return warp_sum(lane < threads / 32 ? shared[lane] : 0);
}

// Returns the sum of the values of the threads in front of the own one. *total: the sum of all
// values, in every thread.
template <int threads>
SPIRA_DEVICE int block_exclusive_sum(int value, int *shared, int *total) {
    const int lane = (int)(threadIdx.x % 32), warp = (int)(threadIdx.x / 32);
    const int up_to = warp_sum_up_to(value);
    block_share_sums<threads>(up_to, lane == 31, shared);
    const int sum = lane < threads / 32 ? shared[lane] : 0;
    *total = warp_sum(sum);
    return warp_sum(lane < warp ? sum : 0) + up_to - value;
}

// The same for several values at once, with one barrier. shared: [many][threads / 32]
template <int threads, int many>
SPIRA_DEVICE void block_exclusive_sums(const int (&value)[many], int (*shared)[threads / 32],
                                       int (&before)[many], int (&total)[many]) {
    const int lane = (int)(threadIdx.x % 32), warp = (int)(threadIdx.x / 32);
    int up_to[many];
#pragma unroll
    for (int v = 0; v < many; ++v) {
        up_to[v] = warp_sum_up_to(value[v]);
        if (lane == 31) {
            shared[v][warp] = up_to[v];
        }
    }
    __syncthreads();
#pragma unroll
    for (int v = 0; v < many; ++v) {
        const int sum = lane < threads / 32 ? shared[v][lane] : 0;
        total[v] = warp_sum(sum);
        before[v] = warp_sum(lane < warp ? sum : 0) + up_to[v] - value[v];
    }
}

// The same without the total.
template <int threads>
SPIRA_DEVICE int block_exclusive_sum(int value, int *shared) {
    const int lane = (int)(threadIdx.x % 32), warp = (int)(threadIdx.x / 32);
    const int up_to = warp_sum_up_to(value);
    block_share_sums<threads>(up_to, lane == 31, shared);
    return warp_sum(lane < warp ? shared[lane] : 0) + up_to - value;
}

} // namespace spira

#endif
