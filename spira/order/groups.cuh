// spira/order/groups.cuh: the third kernel of order_build: a thread block a run of 1024
// positions, a warp a row group. It sorts the run (runs.cuh), weighs its group pairs, and writes
// rows, masks and sources (put.cuh); of maps whose sources other kernels write (order_is_apart) the
// rows only. Behind the runs of each scope comes a thread block for its schedule (schedule.cuh).
//
// Thread blocks draw tickets, and the ticket says what a block does: a schedule waits for its runs.
#ifndef SPIRA_ORDER_GROUPS_CUH
#define SPIRA_ORDER_GROUPS_CUH

#include "../base/launch.cuh"
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
    int32_t ticket;
};

// A run of positions.
struct order_group_run {
    order_range range;
    int32_t number; // among the runs of all maps
    int64_t group;  // of this warp
};

// Writes the weights of a run that is not empty. Called by all threads of a block.
SPIRA_DEVICE void order_weigh_run(const order_task &task, const order_scratch &s,
                                  const order_group_run &run, uint32_t directions,
                                  order_group_shared &shared) {
    if (run.range.rows > 0) {
        order_write_weights(task, s, run.number, directions, shared.directions, &shared.weights);
    }
}

// The following three write weights, and the row group of this warp, of a map of their kind. The
// weights come first, since the schedule waits for them. Called by all threads of a block.

SPIRA_DEVICE void order_group_planes(const order_task &task, const order_scratch &s,
                                     const order_group_run &run, const int32_t (&row)[order_items],
                                     order_group_shared &shared) {
    order_records records;
    uint32_t any[order_planes];
    order_look(task.request, row, records, any);
    order_weigh_run(task, s, run, order_planes_directions<order_planes>(any), shared);
    order_put(task.request, run.group, records, any);
}

SPIRA_DEVICE void order_group_lanes(const order_task &task, const order_scratch &s,
                                    const order_group_run &run, const int32_t (&row)[order_items],
                                    order_group_shared &shared) {
    order_lane_sources tap;
    const uint32_t any = order_look_lanes(task.request, row, tap);
    uint32_t directions = 0;
#pragma unroll
    for (int c = 0; c < order_lane_columns; ++c) {
        directions |= (any >> c & 1) << task.number[c];
    }
    order_weigh_run(task, s, run, directions, shared);
    order_put_lanes(task.request, run.group, tap, any);
}

// The key of a compact map of size 5 is a rank in the Gray code: its number follows from it.
SPIRA_DEVICE void order_group_apart(const order_task &task, const order_scratch &s,
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
    order_weigh_run(task, s, run, warp_unite(directions), shared);
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
    if (order_is_apart(r)) {
        order_group_apart(task, s, run, item, shared);
    } else if (r.compact) {
        order_group_planes(task, s, run, row, shared);
    } else {
        order_group_lanes(task, s, run, row, shared);
    }
}

SPIRA_PLAIN_KERNEL void __launch_bounds__(order_threads, order_residents)
    order_group_kernel(const __grid_constant__ order_batch batch, order_scratch s) {
    __shared__ order_group_shared shared;
    order_clear_heads(shared.run);
    // order_class_kernel releases this one when order_clear_kernel has ended: the tickets are
    // clear.
    const int32_t ticket = block_ticket(s.drawn, &shared.ticket);
    const int number = order_find_task(batch, order_by_ticket, ticket);
    const order_task &task = batch.task[number];
    const order_role role = order_find_role(ticket - task.first[order_by_ticket],
                                            order_count_runs(task.request.capacity));
    if (!order_has_parameters(task) || !s.total) {
        return;
    }
    pdl_wait();
    if (role.run < 0) {
        order_write_schedule(task, s, role.scope, shared.schedule);
        return;
    }
    const order_totals total = order_load_totals(s.total + number * order_classes);
    order_group_run run;
    run.number = task.first[order_by_run] + role.run;
    run.range.begin = role.run * order_run;
    run.range.count = order_find_count(task.request);
    run.range.rows = min(run.range.count - run.range.begin, (int)order_run);
    run.group = (int64_t)role.run * ((int)order_run / order_rows) + (int)threadIdx.x / 32;
    order_group_write(task, s, total, run, shared);
}

} // namespace spira

#endif
