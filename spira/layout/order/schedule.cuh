// spira/layout/order/schedule.cuh: the schedule: the group pairs of a scope, heavy ones first. The
// thread blocks of order_run_kernel count how many of a scope have weighed their pairs; the last
// one writes the schedule.
#ifndef SPIRA_LAYOUT_ORDER_SCHEDULE_CUH
#define SPIRA_LAYOUT_ORDER_SCHEDULE_CUH

#include "sort.cuh"

namespace spira {

enum { order_weight_bits = 8 };

static_assert(order_weight_most < (1 << order_weight_bits) - 1, "a byte holds a weight");
static_assert(order_run_pairs == sizeof(uint2), "the weights of a run");
static_assert(order_threads / 32 == order_run_pairs, "a warp weighs a pair");

struct order_schedule_shared {
    uint32_t weight[order_scope / 4]; // four pairs in a word
    uint16_t rank[order_scope];       // of a pair among those of its warp and weight
    order_shared<order_threads, order_items, order_weight_bits> sort;
};

// Returns the weight of a group pair that has taps in these directions. Called by a whole warp.
SPIRA_DEVICE int order_weigh(const order_task &task, uint32_t directions) {
    const int lane = threadIdx.x % 32;
    return warp_sum(directions >> lane & 1 ? task.weight[lane] : 0);
}

// Announces the weights of a run. Returns, to thread 0, how many runs of the scope had been
// announced before. Called by all threads of a block; has a barrier inside.
//
// weight: of this warp's pair; run: of the map; weights [order_run_pairs]: shared memory
SPIRA_DEVICE int order_announce(const order_task &task, const order_scratch &s, int32_t run,
                                int weight, uint2 *weights) {
    if (threadIdx.x % 32 == 0) {
        ((uint8_t *)weights)[threadIdx.x / 32] = (uint8_t)weight;
    }
    __syncthreads();
    int before = 0;
    if (threadIdx.x == 0) {
        const int32_t begin = task.first[order_by_run];
        ((uint2 *)s.weight)[begin + run] = *weights;
        const int32_t scope = run / order_scope_runs * order_scope_runs;
        before = counter_add_release(s.arrived + begin + scope, 1);
    }
    return before;
}

// Writes the schedule of a scope whose first pair is `first`. Called by all threads of a block.
//
// weight: of the scope's pairs, 8-byte aligned; pairs: those that have outputs
SPIRA_DEVICE void order_write_schedule(const uint8_t *weight, int32_t first, int pairs,
                                       int32_t *schedule, order_schedule_shared &s) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int each = (pairs + order_threads - 1) / order_threads, begin = warp * each * 32;
    const uint8_t *own = (const uint8_t *)s.weight;
    for (int i = threadIdx.x; i * 4 < pairs; i += order_threads) {
        s.weight[i] = order_load_now((const uint32_t *)weight + i);
    }
    order_clear_counts<order_weight_bits>(s.sort.count[warp]);
    __syncthreads();
    // Pairs past the last come after all others.
    const uint32_t last = (1 << order_weight_bits) - 1;
#pragma unroll 1
    for (int pair = begin + lane; pair < begin + each * 32; pair += 32) {
        const uint32_t digit = pair < pairs ? last - own[pair] : last;
        const int rank = order_rank_in_warp<order_weight_bits>(digit, s.sort.count[warp]);
        if (pair < pairs) {
            s.rank[pair] = (uint16_t)rank;
        }
    }
    __syncthreads();
    order_count_digits(s.sort);
    __syncthreads();
#pragma unroll 1
    for (int pair = begin + lane; pair < min(begin + each * 32, pairs); pair += 32) {
        const uint32_t digit = last - own[pair];
        schedule[first + s.rank[pair] + s.sort.count[warp][digit] + s.sort.begin[digit]] =
            first + pair;
    }
}

} // namespace spira

#endif
