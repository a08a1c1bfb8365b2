// spira/layout/order/schedule.cuh: the schedule: the group pairs of a scope, heavy ones first.
//
// The thread blocks of order_group_kernel announce their runs, when they have written the weights.
// A scope's counter has the number of runs that have been announced, plus order_claim while a
// thread block of its own waits to write the scope's schedule. It writes it while the others write
// sources. Nothing guarantees that the others run, too: it gives up after order_polls. Where
// it has not begun, or has given up, the last run's thread block writes the schedule.
#ifndef SPIRA_LAYOUT_ORDER_SCHEDULE_CUH
#define SPIRA_LAYOUT_ORDER_SCHEDULE_CUH

#include "sort.cuh"

namespace spira {

enum { order_claim = 1 << 30, order_polls = 256 };

static_assert(order_weight_most < order_digits - 1, "a digit holds a weight");
static_assert(order_run_pairs == sizeof(uint2), "the weights of a run");
static_assert((int)order_scope_runs < (int)order_claim, "a counter holds runs and a claim");

struct order_schedule_shared {
    uint32_t weight[order_scope / 4]; // four pairs in a word
    uint16_t rank[order_scope];       // of a pair among those of its warp and weight
    order_counts count;
    int scan[order_warps];
};

// ---- weights ------------------------------------------------------------------------------------

// Returns the weight of a group pair that has taps in these directions. Called by a whole warp.
SPIRA_DEVICE int order_weigh(const order_task &task, uint32_t directions) {
    const int lane = threadIdx.x % 32;
    return warp_sum(directions >> lane & 1 ? task.weight[lane] : 0);
}

// A scope of a map.
struct order_part {
    int32_t first; // its first pair
    int pairs;     // that have outputs; not positive: none
    int32_t runs;  // that have outputs
    int32_t *arrived;
    uint8_t *weight; // [pairs]
};

SPIRA_DEVICE order_part order_part_make(const order_task &task, const order_scratch &s,
                                        int32_t count, int32_t scope) {
    const int32_t run = task.first[order_by_run] + scope * order_scope_runs;
    order_part p;
    p.first = scope * order_scope;
    p.pairs = min(order_pairs(order_count(count)) - p.first, (int)order_scope);
    p.runs = min(order_count_runs(count) - scope * order_scope_runs, (int)order_scope_runs);
    p.arrived = s.arrived + run;
    p.weight = s.weight + (int64_t)run * order_run_pairs;
    return p;
}

// Announces a run, whose weights this thread has written. Returns what order_is_last takes.
SPIRA_DEVICE int32_t order_announce(const order_part &p) {
    return counter_add_release(p.arrived, 1);
}

// Returns whether the thread block that announced a run has to write the schedule.
SPIRA_DEVICE bool order_is_last(const order_part &p, int32_t before) {
    return before + 1 == p.runs;
}

// Waits until all runs of a scope have been announced. Returns whether the calling thread block has
// to write the schedule. Called by one thread.
SPIRA_DEVICE bool order_await(const order_part &p) {
    if (counter_add_release(p.arrived, order_claim) == p.runs) {
        return false; // the last run's thread block has seen no claim
    }
    return poll_equal(p.arrived, order_claim + p.runs, order_polls) ||
           counter_add_release(p.arrived, -order_claim) == order_claim + p.runs;
}

// ---- schedule -----------------------------------------------------------------------------------

// Writes the schedule of a scope. Called by all threads of a block, after all runs have been
// announced.
SPIRA_DEVICE void order_write_schedule(const order_part &p, int32_t *schedule,
                                       order_schedule_shared &s) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int each = (p.pairs + order_threads - 1) / order_threads, begin = warp * each * 32;
    const uint8_t *own = (const uint8_t *)s.weight;
    for (int i = threadIdx.x; i * 4 < p.pairs; i += order_threads) {
        s.weight[i] = order_load_now((const uint32_t *)p.weight + i);
    }
    order_clear_counts(s.count);
    __syncthreads();
    // Pairs past the last come after all others.
    const uint32_t last = order_digits - 1;
#pragma unroll 1
    for (int pair = begin + lane; pair < begin + each * 32; pair += 32) {
        const uint32_t digit = pair < p.pairs ? last - own[pair] : last;
        const int rank = order_rank_in_warp(digit, warp_peers<order_digit_bits>(digit), s.count);
        if (pair < p.pairs) {
            s.rank[pair] = (uint16_t)rank;
        }
    }
    __syncthreads();
    order_place_counts(s.count, s.scan);
    __syncthreads();
#pragma unroll 1
    for (int pair = begin + lane; pair < min(begin + each * 32, p.pairs); pair += 32) {
        schedule[p.first + s.rank[pair] + s.count[last - own[pair]][warp]] = p.first + pair;
    }
}

} // namespace spira

#endif
