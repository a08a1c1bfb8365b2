// spira/layout/order/groups.cuh: the third kernel of order_build: a thread block a run of 1024
// positions, a warp a row group. It sorts the run (runs.cuh), weighs its group pairs, and writes
// rows, masks and sources (put.cuh); of maps whose sources other kernels write (order_is_apart) the
// rows only. Behind the runs come thread blocks for the scopes of the schedule (schedule.cuh).
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
    uint32_t directions[order_warps]; // of each row group
    uint2 weights;                    // of the run's pairs, a byte each
    bool writes;                      // this thread block writes the schedule
};

// A run of positions.
struct order_group_run {
    order_range range;
    order_part part; // its scope
    int32_t number;  // of the run, in the map
    int64_t group;   // of this warp
};

// Announces the weights of a run, of which this warp's row group has taps in these directions.
// Returns, to thread 0, what order_announce does: it is used later, so that nothing waits for it
// now. Called by all threads of a block.
SPIRA_DEVICE int32_t order_announce_run(const order_task &task, const order_group_run &run,
                                        uint32_t directions, order_group_shared &shared) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    if (run.range.rows <= 0) {
        return 0;
    }
    if (lane == 0) {
        shared.directions[warp] = directions;
    }
    __syncthreads();
    if (warp < order_run_pairs) {
        const uint2 pair = ((const uint2 *)shared.directions)[warp];
        const int weight = order_weigh(task, pair.x | pair.y);
        if (lane == 0) {
            ((uint8_t *)&shared.weights)[warp] = (uint8_t)weight;
        }
    }
    __syncthreads();
    if (threadIdx.x != 0) {
        return 0;
    }
    ((uint2 *)run.part.weight)[run.number % order_scope_runs] = shared.weights;
    return order_announce(run.part);
}

// The following three write a row group of a map of their kind. They return what order_announce_run
// does.

SPIRA_DEVICE int32_t order_group_planes(const order_task &task, const order_group_run &run,
                                        const int32_t (&row)[order_items],
                                        order_group_shared &shared) {
    order_records records;
    uint32_t any[order_planes];
    order_look(task.request, row, records, any);
    const int32_t before =
        order_announce_run(task, run, order_planes_directions<order_planes>(any), shared);
    order_put(task.request, run.group, records, any);
    return before;
}

SPIRA_DEVICE int32_t order_group_lanes(const order_task &task, const order_group_run &run,
                                       const int32_t (&row)[order_items],
                                       order_group_shared &shared) {
    order_lane_sources tap;
    const uint32_t any = order_look_lanes(task.request, row, tap);
    const int32_t before = order_announce_run(task, run, order_find_directions(task, any), shared);
    order_put_lanes(task.request, run.group, tap, any);
    return before;
}

// The key of a compact map of size 5 is a rank in the Gray code: its number follows from it.
SPIRA_DEVICE int32_t order_group_apart(const order_task &task, const order_scratch &s,
                                       const order_group_run &run,
                                       const order_item (&item)[order_items],
                                       order_group_shared &shared) {
    uint32_t directions = 0;
#pragma unroll
    for (int i = 0; i < order_items; ++i) {
        if (item[i].row >= 0) {
            directions |= task.request.compact ? item[i].key ^ item[i].key >> 1
                                               : s.directions[task.first_row + item[i].row];
        }
    }
    return order_announce_run(task, run, warp_unite(directions), shared);
}

// Sorts a run and writes its row groups. Called by all threads of a block.
SPIRA_DEVICE void order_group_write(const order_task &task, const order_scratch &s,
                                    const order_totals &total, const order_group_run &run,
                                    order_group_shared &shared) {
    const order_request &r = task.request;
    const int first = order_first();
    order_item item[order_items];
    int32_t row[order_items];
#pragma unroll
    for (int i = 0; i < order_items; ++i) {
        item[i] = {0, -1};
    }
    if (run.range.rows > 0) {
        order_sort_run(task, s, total, run.range, shared.run, item);
    }
#pragma unroll
    for (int i = 0; i < order_items; ++i) {
        const int32_t place = run.range.begin + first + i * 32;
        row[i] = item[i].row; // -1 past the last
        if (place < order_count(r.capacity) * order_rows) {
            r.layout.row[place] = row[i];
        }
    }
    const int32_t before = order_is_apart(r) ? order_group_apart(task, s, run, item, shared)
                           : r.compact       ? order_group_planes(task, run, row, shared)
                                             : order_group_lanes(task, run, row, shared);
    if (run.range.rows <= 0) {
        return;
    }
    if (threadIdx.x == 0) {
        shared.writes = order_is_last(run.part, before);
    }
}

SPIRA_PLAIN_KERNEL void __launch_bounds__(order_threads, 3)
    order_group_kernel(const __grid_constant__ order_batch batch, order_scratch s) {
    __shared__ order_group_shared shared;
    const int unit = (int)blockIdx.x, scope = unit - batch.units[order_by_run];
    const order_unit by = scope < 0 ? order_by_run : order_by_scope;
    const int number = order_find_task(batch, by, scope < 0 ? unit : scope);
    const order_task &task = batch.task[number];
    order_clear_heads(shared.run);
    pdl_wait();
    const int32_t count = order_find_count(task.request);
    order_part part;
    if (scope < 0) {
        const order_totals total =
            ((const order_totals *)(s.total + number * order_classes))[threadIdx.x];
        order_group_run run;
        run.number = unit - task.first[order_by_run];
        run.range.begin = run.number * order_run;
        run.range.count = count;
        run.range.rows = min(count - run.range.begin, (int)order_run);
        run.part = order_part_make(task, s, count, run.number / order_scope_runs);
        run.group = (int64_t)run.number * (order_run / order_rows) + (int)threadIdx.x / 32;
        shared.writes = false;
        order_group_write(task, s, total, run, shared);
        part = run.part;
    } else {
        part = order_part_make(task, s, count, scope - task.first[order_by_scope]);
        if (threadIdx.x == 0) {
            shared.writes = part.runs > 0 && order_await(part);
        }
    }
    __syncthreads();
    if (shared.writes) {
        __threadfence(); // the weights of the other runs are visible
        order_write_schedule(part, task.request.layout.schedule, shared.schedule);
    }
}

} // namespace spira

#endif
