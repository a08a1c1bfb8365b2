// spira/layout/order/samples.cuh: the first kernel of order_build: sorts the lists of samples, from
// which the classes follow (order/key.h). It also clears the maps' counters.
//
// Of few maps, several thread blocks share a list. Each finds the keys of all its samples, then
// ranks some of them: it counts the samples that come before. That has no chain of barriers as a
// sort has. Of many maps, a thread block sorts a list.
//
// The keys of a wide map (order_is_wide) take too long to be found several times; a kernel of their
// own finds them before.
#ifndef SPIRA_LAYOUT_ORDER_SAMPLES_CUH
#define SPIRA_LAYOUT_ORDER_SAMPLES_CUH

#include "../../base/launch.cuh"
#include "keys.cuh"
#include "sort.cuh"

namespace spira {

enum {
    order_list_items = order_list_samples / order_threads,
    order_key_threads = 256,
    order_key_blocks = order_samples / order_key_threads, // of each map
    order_quads = order_list_samples / (4 * 32),          // of samples, that a lane compares with
};

static_assert((int)order_list_items == (int)order_items, "a list is sorted as a run");

// ---- keys of wide maps --------------------------------------------------------------------------

SPIRA_PLAIN_KERNEL void __launch_bounds__(order_key_threads)
    order_sample_key_kernel(const __grid_constant__ order_batch batch, order_scratch s) {
    __shared__ __align__(16) order_sets sets;
    const int number = (int)blockIdx.x / order_key_blocks;
    const int i = (int)blockIdx.x % order_key_blocks * order_key_threads + (int)threadIdx.x;
    const order_task &task = batch.task[number];
    if (order_is_wide(task.request)) {
        order_fill_sets(batch, task, sets);
    }
    pdl_wait();
    const int32_t count = order_find_count(task.request);
    if (order_is_wide(task.request) && count > 0) {
        const order_found found = order_find_key<true>(task, order_sample_row(i, count), 32, sets);
        s.key[number * order_samples + i] = found.key;
    }
}

// ---- lists --------------------------------------------------------------------------------------

union order_list_shared {
    uint32_t key[order_list_samples];
    order_shared sort;
};

// Finds the keys of this thread's samples of a list: samples order_first() + i * 32.
SPIRA_DEVICE void order_find_samples(const order_task &task, const order_scratch &s, int number,
                                     int list, int32_t count, uint32_t (&key)[order_list_items]) {
    int32_t row[order_list_items];
    int sample[order_list_items];
#pragma unroll
    for (int i = 0; i < order_list_items; ++i) {
        sample[i] = order_lists * (order_first() + i * 32) + list;
        row[i] = order_sample_row(sample[i], count);
    }
    if (task.request.compact) {
        order_find_compact_keys_any(task.request, row, key);
        return;
    }
#pragma unroll
    for (int i = 0; i < order_list_items; ++i) {
        key[i] = order_is_wide(task.request) ? s.key[number * order_samples + sample[i]]
                                             : order_find_lane_key(task, row[i]);
    }
}

// Returns how many samples of a list come before sample i: those with a smaller key, and those
// before it with the same. Called by a whole warp.
//
// lane_keys: of the samples 128 * m + 4 * lane, and the three that follow
SPIRA_DEVICE int order_rank_sample(const uint4 (&lane_keys)[order_quads], uint32_t key, int i) {
    const int before = i - 4 * ((int)threadIdx.x % 32); // smaller numbers come first
    int rank = 0;
#pragma unroll
    for (int m = 0; m < order_quads; ++m) {
        const uint32_t four[4] = {lane_keys[m].x, lane_keys[m].y, lane_keys[m].z, lane_keys[m].w};
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            rank += four[j] < key + (m * 128 + j < before ? 1 : 0) ? 1 : 0;
        }
    }
    return warp_sum(rank);
}

// Ranks the samples of a part of a list. Called by all threads of a block. sorted: of the list
SPIRA_DEVICE void order_rank_samples(const uint32_t (&own)[order_list_items], int part, int parts,
                                     uint32_t *sorted, uint32_t (&key)[order_list_samples]) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
    for (int i = 0; i < order_list_items; ++i) {
        key[order_first() + i * 32] = own[i];
    }
    __syncthreads();
    uint4 lane_keys[order_quads];
#pragma unroll
    for (int m = 0; m < order_quads; ++m) {
        lane_keys[m] = ((const uint4 *)key)[m * 32 + lane];
    }
    const int each = order_list_samples / parts / order_warps,
              begin = (part * order_warps + warp) * each;
#pragma unroll 1
    for (int i = begin; i < begin + each; ++i) {
        const int rank = order_rank_sample(lane_keys, key[i], i);
        if (lane == 0) {
            sorted[rank] = key[i];
        }
    }
}

// Sorts the samples of a list. Called by all threads of a block.
SPIRA_DEVICE void order_sort_samples(const uint32_t (&own)[order_list_items], int bits,
                                     uint32_t *sorted, order_shared &s) {
    order_item item[order_list_items];
#pragma unroll
    for (int i = 0; i < order_list_items; ++i) {
        item[i] = {own[i], 0};
    }
    order_sort_by_key(bits, ~0u, item, s);
#pragma unroll
    for (int i = 0; i < order_list_items; ++i) {
        sorted[order_first() + i * 32] = item[i].key;
    }
}

SPIRA_PLAIN_KERNEL void __launch_bounds__(order_threads)
    order_sample_kernel(const __grid_constant__ order_batch batch, order_scratch s) {
    __shared__ __align__(16) order_list_shared shared;
    const int number = (int)blockIdx.x / (order_lists * batch.parts);
    const int list = (int)blockIdx.x / batch.parts % order_lists;
    const int part = (int)blockIdx.x % batch.parts;
    const order_task &task = batch.task[number];
    pdl_wait();
    const int32_t count = order_find_count(task.request);
    const int first = (number * order_lists + list) * order_list_samples;
    if (part == 0) {
        ((int2 *)(s.total + first))[threadIdx.x] = {0, 0};
        uint2 *weight = (uint2 *)s.weight + task.first[order_by_run];
        const int32_t runs = order_count_runs(task.request.capacity);
        for (int32_t run = threadIdx.x; list == 0 && run < runs; run += order_threads) {
            weight[run] = {0, 0};
        }
    }
    if (count <= 0) {
        return;
    }
    uint32_t own[order_list_items];
    order_find_samples(task, s, number, list, count, own);
    if (batch.parts == 1) {
        order_sort_samples(own, order_key_bits(task), s.sample + first, shared.sort);
    } else {
        order_rank_samples(own, part, batch.parts, s.sample + first, shared.key);
    }
}

} // namespace spira

#endif
