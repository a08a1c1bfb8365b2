// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
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
    order_weights_shared weights;
    int32_t ticket;
};

// A run of positions.
struct order_group_run {
    order_range range;
    int32_t number; // among the runs of all maps
    int64_t group;  // of this warp
};

// Sorts a run and writes its row groups. Called by all threads of a block.
SPIRA_DEVICE void order_group_write(const order_task &task, const order_scratch &s,
                                    const order_totals &total, const order_group_run &run,
                                    order_group_shared &shared) {
    const order_request &r = task.request;
    const int first = order_first();
    order_item item[order_items];
    int32_t row[order_items];
    uint32_t number = 0; // of all outputs of the row group
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
        number |= row[i] >= 0 ? order_gray_number(item[i].key) : 0;
        if (place < order_count(r.capacity) * order_rows) {
            r.layout.row[place] = row[i];
        }
    }
    if (run.range.rows > 0) { // first, since the schedule waits for the weights
        order_write_weights(s, run.number, warp_unite(number), shared.weights);
    }
    if (r.compact && !order_is_apart(r)) {
        order_put_records(r, run.group, row);
    } else if (!order_is_apart(r)) {
        order_put_lanes(r, run.group, row);
    }
}

SPIRA_PLAIN_KERNEL void __launch_bounds__(order_threads, order_residents)
    order_group_kernel(const __grid_constant__ order_batch batch, order_scratch s) {
    __shared__ order_group_shared shared;
    order_clear_heads(shared.run);
    // order_class_kernel releases this one when order_clear_kernel has ended: the tickets are
    // clear.
    const int32_t ticket = block_ticket(s.drawn, &shared.ticket);
    const int number = block_find_part(batch.first[order_by_ticket], ticket);
    const order_task &task = batch.task[number];
    const order_role role = order_find_role(ticket - batch.first[order_by_ticket][number],
                                            order_count_runs(task.request.capacity));
    if (!order_has_parameters(task) || !s.total) {
        return;
    }
    order_prepare_weights(task, shared.weights);
    pdl_wait();
    if (role.run < 0) {
        order_write_schedule(task, s, role.scope, shared.schedule);
        return;
    }
    const order_totals total = order_load_totals(s.total + number * order_classes);
    order_group_run run;
    run.number = task.first_run + role.run;
    run.range.begin = role.run * order_run;
    run.range.count = order_find_count(task.request);
    run.range.rows = min(run.range.count - run.range.begin, (int)order_run);
    run.group = (int64_t)role.run * ((int)order_run / order_rows) + (int)threadIdx.x / 32;
    order_group_write(task, s, total, run, shared);
}

} // namespace spira

#endif
