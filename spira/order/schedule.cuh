// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/order/schedule.cuh: the schedule: the group pairs of a scope, heavy ones first.
//
// A thread block of its own in order_group_kernel writes the schedule of a scope, while others
// write sources. It waits for the weights of the scope's runs, which are not zero once they are
// there. The wait ends: the tickets of these runs were drawn before its own (order_role), so their
// thread blocks run, and they wait for nobody.
#ifndef SPIRA_ORDER_SCHEDULE_CUH
#define SPIRA_ORDER_SCHEDULE_CUH

#include "sort.cuh"

namespace spira {

enum { order_weights_all = 256 }; // with those of no pair

static_assert(order_weight_most + 1 < order_weights_all, "a byte holds a weight plus 1");
static_assert(order_threads == 2 * order_weights_all, "two threads add up the warps of a weight");
static_assert(order_warps == 2 * order_run_pairs, "a warp for each row group");

// How many pairs of each warp have each weight; then the position of the first one. Two more
// columns spread weights over the banks.
typedef uint16_t order_counts[order_weights_all][order_warps + 2];

struct order_schedule_shared {
    uint32_t weight[order_scope / 4]; // four pairs in a word
    uint16_t rank[order_scope];       // of a pair among those of its warp and weight
    order_counts count;
    int scan[order_warps];
};

// ---- weights ------------------------------------------------------------------------------------

struct order_weights_shared {
    uint32_t bits[32];            // of each direction: order_bits_of
    uint32_t levels[32];          // order_level_bits_of
    int weight[32];               // of each direction
    uint32_t number[order_warps]; // of all outputs of each row group
};

// Prepares what order_write_weights reads, by one warp: sectors take many instructions, and here
// nothing waits for them.
SPIRA_DEVICE void order_prepare_weights(const order_task &task, order_weights_shared &s) {
    const int d = threadIdx.x;
    if (d < 32) {
        s.bits[d] = d < order_directions ? order_bits_of(task.weights, d) : 0;
        s.levels[d] = d < order_directions ? order_level_bits_of(task.weights, d) : 0;
        s.weight[d] = d < order_directions ? task.weights.weight[d] : 0;
    }
}

// Writes the weights, plus 1, of a run: four at a time, for which the schedule waits. Called by all
// threads of a block; has a barrier inside.
//
// number: of all outputs of this warp's row group; run: among those of all maps
SPIRA_DEVICE void order_write_weights(const order_scratch &scratch, int32_t run, uint32_t number,
                                      order_weights_shared &s) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    if (lane == 0) {
        s.number[warp] = number;
    }
    __syncthreads();
    if (warp >= order_run_pairs / 4) {
        return;
    }
    uint32_t four = 0;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
        const uint32_t *pair = s.number + 8 * warp + 2 * j;
        const int part =
            order_weight_of(s.weight[lane], s.bits[lane], s.levels[lane], pair[0] | pair[1]);
        four |= (uint32_t)(warp_sum(part) + 1) << 8 * j;
    }
    if (lane == 0) {
        *(volatile uint32_t *)(scratch.weight + (int64_t)run * order_run_pairs + warp * 4) = four;
    }
}

// ---- counts -------------------------------------------------------------------------------------

// Clears the counts of this warp.
SPIRA_DEVICE void order_clear_counts(order_counts &count) {
#pragma unroll
    for (int d = (int)threadIdx.x % 32; d < order_weights_all; d += 32) {
        count[d][threadIdx.x / 32] = 0;
    }
    __syncwarp();
}

// Replaces the counts by positions: pairs of a weight follow those of the weights before, a warp's
// those of the warps before. Called by all threads of a block; has a barrier inside, and needs one
// before and after. A thread takes half the warps of a weight.
SPIRA_DEVICE void order_place_counts(order_counts &count, int *scan) {
    const int words = order_warps / 4;
    uint32_t *pair = (uint32_t *)count[threadIdx.x / 2] + threadIdx.x % 2 * words, own[words];
    int sum = 0;
#pragma unroll
    for (int j = 0; j < words; ++j) {
        own[j] = pair[j];
        sum += (int)((own[j] & 0xffff) + (own[j] >> 16));
    }
    uint32_t at = (uint32_t)block_exclusive_sum<order_threads>(sum, scan);
#pragma unroll
    for (int j = 0; j < words; ++j) {
        const uint32_t second = at + (own[j] & 0xffff);
        pair[j] = at | second << 16;
        at = second + (own[j] >> 16);
    }
}

// ---- schedule -----------------------------------------------------------------------------------

// Writes the schedule of a scope, when the weights of its pairs are there. Called by all threads of
// a block.
//
// weight: of the scope's pairs; first: the number of its first pair; pairs: those with outputs
SPIRA_DEVICE void order_put_schedule(const uint8_t *weight, int32_t first, int pairs,
                                     int32_t *schedule, order_schedule_shared &s) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int each = (pairs + order_threads - 1) / order_threads, begin = warp * each * 32;
    const uint8_t *own = (const uint8_t *)s.weight;
    for (int i = threadIdx.x; i * 4 < pairs; i += order_threads) {
        s.weight[i] = poll_nonzero((const uint32_t *)weight + i);
    }
    order_clear_counts(s.count);
    __syncthreads();
    // Pairs past the last come after all others.
    const uint32_t last = order_weights_all - 1;
#pragma unroll 1
    for (int pair = begin + lane; pair < begin + each * 32; pair += 32) {
        const uint32_t digit = pair < pairs ? last - own[pair] : last;
        const int rank = order_rank_in_warp(warp_peers<8>(digit), s.count[digit][warp]);
        if (pair < pairs) {
            s.rank[pair] = (uint16_t)rank;
        }
    }
    __syncthreads();
    order_place_counts(s.count, s.scan);
    __syncthreads();
#pragma unroll 1
    for (int pair = begin + lane; pair < min(begin + each * 32, pairs); pair += 32) {
        schedule[first + s.rank[pair] + s.count[last - own[pair]][warp]] = first + pair;
    }
}

// Writes the schedule of a scope of a map. Called by all threads of a block.
SPIRA_DEVICE void order_write_schedule(const order_task &task, const order_scratch &s,
                                       int32_t scope, order_schedule_shared &shared) {
    const int32_t first = scope * order_scope;
    const int32_t pairs = order_pairs(order_count(order_find_count(task.request))) - first;
    const int64_t run = task.first_run + scope * order_scope_runs;
    if (pairs > 0) {
        order_put_schedule(s.weight + run * order_run_pairs, first, min(pairs, (int)order_scope),
                           task.request.layout.schedule, shared);
    }
}

} // namespace spira

#endif
