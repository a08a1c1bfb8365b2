// spira/layout/order/groups.cuh: the third kernel of order_build: a thread block a run of 1024
// positions. It sorts the run (runs.cuh), weighs its group pairs, and writes rows, masks and
// sources (put.cuh); of wide maps the rows only. The last thread block of a scope writes the
// schedule (schedule.cuh).
#ifndef SPIRA_LAYOUT_ORDER_GROUPS_CUH
#define SPIRA_LAYOUT_ORDER_GROUPS_CUH

#include "../../base/launch.cuh"
#include "put.cuh"
#include "runs.cuh"
#include "schedule.cuh"

namespace spira {

struct __align__(16) order_group_shared {
    union {
        order_run_shared run;
        order_schedule_shared schedule;
    };
    order_offsets any[order_run_pairs]; // of each warp
    uint2 weights;                      // of the run's pairs
    bool last;                          // all runs of the scope have been announced
};

// A run of positions and where its weights go.
struct order_group_run {
    order_range range;
    int32_t number; // of the run, in the map
    int64_t group;  // the first of this warp's pair
};

// Announces the weight of this warp's pair, which has taps in these directions. Returns what
// order_announce does: it is used later, so that nothing waits for it now. Called by all threads of
// a block.
SPIRA_DEVICE int order_announce_pair(const order_task &task, const order_scratch &s,
                                     const order_group_run &run, uint32_t directions,
                                     order_group_shared &shared) {
    if (run.range.rows <= 0) {
        return 0;
    }
    const int weight = order_weigh(task, directions);
    return order_announce(task, s, run.number, weight, &shared.weights);
}

// The following three write a group pair of a map of their kind, of wide maps nothing. They return
// what order_announce_pair does.

template <int K>
SPIRA_DEVICE int order_group_compact(const order_task &task, const order_scratch &s,
                                     const order_group_run &run, const int32_t (&row)[order_items],
                                     order_group_shared &shared) {
    order_records<K> records;
    order_offsets &any = shared.any[threadIdx.x / 32];
    const uint32_t directions = order_look<K>(task.request, row, records, any);
    const int before = order_announce_pair(task, s, run, directions, shared);
    order_put<K>(task.request, run.group, row, records, any);
    return before;
}

SPIRA_DEVICE int order_group_lanes(const order_task &task, const order_scratch &s,
                                   const order_group_run &run, const int32_t (&row)[order_items],
                                   order_group_shared &shared) {
    order_lane_sources tap;
    uint32_t directions = 0;
#pragma unroll
    for (int g = 0; g < 2; ++g) {
        const uint32_t any = order_look_lanes(task.request, row + g * order_group_items, tap);
        order_put_lanes(task.request, run.group + g, tap, any);
        directions |= order_find_directions(task, any);
    }
    const int before = order_announce_pair(task, s, run, directions, shared);
    return before;
}

SPIRA_DEVICE int order_group_wide(const order_task &task, const order_scratch &s,
                                  const order_group_run &run, const int32_t (&row)[order_items],
                                  order_group_shared &shared) {
    uint32_t directions = 0;
#pragma unroll
    for (int i = 0; i < order_items; ++i) {
        directions |= row[i] >= 0 ? s.directions[task.first_row + row[i]] : 0;
    }
    return order_announce_pair(task, s, run, warp_unite(directions), shared);
}

// Writes the schedule of the run's scope if all its runs have been announced. Called by all threads
// of a block. before: of order_announce_pair
SPIRA_DEVICE void order_schedule_last(const order_task &task, const order_scratch &s,
                                      const order_group_run &run, int before,
                                      order_group_shared &shared) {
    const int32_t scope = run.number / order_scope_runs;
    const int32_t runs =
        min(order_count_runs(run.range.count) - scope * order_scope_runs, (int)order_scope_runs);
    if (threadIdx.x == 0) {
        shared.last = before + 1 == runs;
        if (shared.last) {
            __threadfence(); // the weights of the other runs are visible
        }
    }
    __syncthreads();
    if (shared.last) {
        const int32_t first = scope * order_scope,
                      pairs = order_pairs(order_count(run.range.count));
        const int64_t weights =
            (int64_t)(task.first[order_by_run] + scope * order_scope_runs) * order_run_pairs;
        order_write_schedule(s.weight + weights, first, min(pairs - first, (int)order_scope),
                             task.request.layout.schedule, shared.schedule);
    }
}

SPIRA_PLAIN_KERNEL void __launch_bounds__(order_threads, 3)
    order_group_kernel(const __grid_constant__ order_batch batch, order_scratch s) {
    __shared__ order_group_shared shared;
    const int number = order_find_task(batch, order_by_run, (int)blockIdx.x);
    const order_task &task = batch.task[number];
    const order_request &r = task.request;
    const int first = order_first<order_items>();
    order_clear_heads(shared.run);
    pdl_wait();
    const order_totals total =
        ((const order_totals *)(s.total + number * order_classes))[threadIdx.x];
    order_group_run run;
    run.number = (int32_t)blockIdx.x - task.first[order_by_run];
    run.range.begin = run.number * order_run;
    run.range.count = order_find_count(r);
    run.range.rows = min(run.range.count - run.range.begin, (int)order_run);
    run.group = (int64_t)(run.range.begin / order_rows) + (int)threadIdx.x / 32 * 2;
    order_item item[order_items];
    int32_t row[order_items];
    if (run.range.rows > 0) {
        order_sort_run(task, s, total, run.range, shared.run, item);
    }
#pragma unroll
    for (int i = 0; i < order_items; ++i) {
        const int32_t place = run.range.begin + first + i * 32;
        row[i] = first + i * 32 < run.range.rows ? item[i].row : -1;
        if (place < order_count(r.capacity) * order_rows) {
            r.layout.row[place] = row[i];
        }
    }
    int before;
    if (order_is_wide(r)) {
        before = order_group_wide(task, s, run, row, shared);
    } else if (!r.compact) {
        before = order_group_lanes(task, s, run, row, shared);
    } else if (r.kernel.size.x == 3) {
        before = order_group_compact<3>(task, s, run, row, shared);
    } else {
        before = order_group_compact<5>(task, s, run, row, shared);
    }
    if (run.range.rows > 0) {
        order_schedule_last(task, s, run, before, shared);
    }
}

} // namespace spira

#endif
