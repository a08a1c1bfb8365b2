// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/order/task.cuh: what the kernels of order_build (order.cuh) share: the batch of maps, how
// their work is divided into thread blocks, and the scratch.
#ifndef SPIRA_ORDER_TASK_CUH
#define SPIRA_ORDER_TASK_CUH

#include "../base/block.cuh"
#include "../order.h"

namespace spira {

enum {
    order_maps_max = 16,    // of one batch
    order_lane_columns = 8, // of a map that lanes read row by row
    order_threads = 512,    // of a chunk of rows, or a run of positions
    order_warps = order_threads / 32,
    order_items = order_run / order_threads,
    order_run_pairs = order_run / (2 * order_rows), // group pairs
    order_scope_runs = order_scope / order_run_pairs,
    order_put_threads = 2 * order_rows,
};

static_assert(32 * order_items == order_rows, "a warp for a row group");

// Thread blocks of order_threads that a multiprocessor runs at a time. Turing has 1024 threads.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
enum { order_residents = 2 };
#else
enum { order_residents = 3 };
#endif

// What a thread block of a launch works on: a chunk of order_run rows; by its ticket, a run of as
// many positions or a scope of the schedule (order_role); a group pair of a compact map of size 5,
// or of a large kernel; a word of offsets of a group pair of a wide map.
enum order_unit {
    order_by_run,
    order_by_ticket,
    order_by_pair,
    order_by_large,
    order_by_word,
    order_units
};

// One map of a batch.
struct order_task {
    order_request request;
    order_weights weights;
    uint32_t lane_bits; // see order_lane_bits
    int32_t first_row;  // among the rows of all maps
    int32_t first_run;  // among the runs of all maps
};

struct order_batch {
    int32_t first[order_units][order_maps_max]; // thread block of each map; see block_find_part
    order_task task[order_maps_max];
    order_numbers numbers;
    int32_t rows;               // of all maps
    int32_t units[order_units]; // thread blocks of each launch
    int32_t volume;             // the largest of the wide maps, at least 1
};

// A row with its key.
struct __align__(8) order_item {
    uint32_t key;
    int32_t row;
};

struct order_scratch {
    int32_t *drawn;   // [1] tickets of order_group_kernel
    int32_t *total;   // [maps, order_classes] rows of each class
    uint32_t *piece;  // [order_classes, runs] of each map, in the order of order_piece_at
    order_item *item; // [rows] of all maps; each chunk sorted by class
    uint8_t *weight;  // [runs, order_run_pairs] of all maps: of each group pair, plus 1
};

static_assert(sizeof(order_batch) + sizeof(order_scratch) <= 4096, "parameters of a kernel");

// ---- questions that kernels ask -----------------------------------------------------------------

// Returns true. Loads parameters of a task from constant memory, where the first access to a line
// takes as long as one to global memory: before a kernel waits for the previous one. A branch on
// the result keeps the compiler from moving the loads behind the wait.
SPIRA_DEVICE bool order_has_parameters(const order_task &task) {
    return (task.request.capacity | task.request.kernel.size.x | task.first_run |
            task.request.layout.volume) >= 0;
}

// Loads a word past L1, which may have an older copy, and in the order of the program: the compiler
// moves no such load in front of pdl_wait.
template <typename T>
SPIRA_DEVICE T order_load_now(const T *from) {
    return *(const volatile T *)from;
}

SPIRA_DEVICE int32_t order_find_count(const order_request &r) {
    return count_clamp(order_load_now(r.count), r.capacity);
}

// Returns whether a map has more columns than a lane reads.
SPIRA_BOTH bool order_is_wide(const order_request &r) {
    return !r.compact && r.layout.volume > order_lane_columns;
}

// Returns whether a map is the compact one of a large kernel.
SPIRA_BOTH bool order_is_large(const order_request &r) {
    return r.compact && r.layout.volume > compact_volume_most;
}

// Returns whether another kernel than order_group_kernel writes masks and sources of a map:
// order_put_kernel of wide maps, order_put_planes_kernel and order_put_large_kernel of compact maps
// of size 5 and of large kernels.
SPIRA_BOTH bool order_is_apart(const order_request &r) {
    return r.compact ? r.layout.volume >= compact_volume_most : order_is_wide(r);
}

// A piece: the rows of a class in a chunk, as `begin | rows << 16`. They stand together among the
// chunk's items, from `begin` on.

// Returns the index of a piece among those of a map. Eight classes of a chunk make a sector of
// memory, and those of the next chunk follow. Below 2^31, since a map has up to 2^20 runs.
SPIRA_BOTH uint32_t order_piece_at(unsigned c, uint32_t chunk, uint32_t runs) {
    return (c / 8 * runs + chunk) * 8 + c % 8;
}

// What the thread block with a ticket does: the runs of a scope come first, then its schedule,
// which waits for their weights.
struct order_role {
    int32_t scope;
    int32_t run; // among those of the map; -1: the schedule of the scope
};

// ticket: among those of a map with `runs` runs
SPIRA_DEVICE order_role order_find_role(int32_t ticket, int32_t runs) {
    const int32_t scope = ticket / (order_scope_runs + 1), run = ticket - scope;
    const bool schedules = run == min((scope + 1) * order_scope_runs, runs);
    return {scope, schedules ? -1 : run};
}

// ---- host ---------------------------------------------------------------------------------------

SPIRA_BOTH int32_t order_count_runs(int32_t capacity) {
    return (int32_t)ceil_div(capacity, order_run);
}

// Counts the rows and runs of all maps. Reads kernels and capacities only.
SPIRA_API status order_count_rows(const order_request *request, int maps, int32_t *rows,
                                  int32_t *runs) {
    SPIRA_REQUIRE(request, status_null_pointer, "request", 0);
    SPIRA_TRY(size_check(maps, 1, order_maps_max, "maps"));
    int64_t all = 0;
    *runs = 0;
    for (int m = 0; m < maps; ++m) {
        SPIRA_TRY(order_sizes_check(&request[m].kernel, request[m].capacity));
        all += request[m].capacity;
        *runs += order_count_runs(request[m].capacity);
    }
    SPIRA_REQUIRE(all <= INT32_MAX / 2, status_bad_size, "capacity (of all maps)", all);
    *rows = (int32_t)all;
    return status_success();
}

SPIRA_API order_scratch order_carve(workspace *w, int maps, int32_t rows, int32_t runs) {
    order_scratch s;
    s.drawn = workspace_take<int32_t>(w, 1);
    s.total = workspace_take<int32_t>(w, maps * order_classes);
    s.piece = workspace_take<uint32_t>(w, (int64_t)runs * order_classes);
    s.item = workspace_take<order_item>(w, rows);
    s.weight = workspace_take<uint8_t>(w, (int64_t)runs * order_run_pairs);
    return s;
}

// Returns the order_bit_of the direction of each column, 4 bits each, of a map of up to
// order_lane_columns columns: these have few directions.
SPIRA_API uint32_t order_lane_bits(const order_request &whole, const order_weights &weights,
                                   const order_numbers &numbers) {
    uint32_t bits = 0;
    int column = 0;
    for (int k = 0; k < kernel_volume(&whole.kernel) && column < order_lane_columns; ++k) {
        if (kernel_norm(&whole.kernel, k) < whole.threshold) {
            const int direction = order_direction(&whole.kernel, &numbers, k);
            bits |= (uint32_t)order_bit_of(weights, direction) << 4 * column++;
        }
    }
    return bits;
}

SPIRA_API order_batch order_batch_make(const order_request *request, int maps) {
    order_batch batch = {};
    batch.numbers = order_numbers_make();
    std::fill(&batch.first[0][0], &batch.first[0][0] + (int)order_units * order_maps_max,
              INT32_MAX);
    for (int m = 0; m < maps; ++m) {
        const order_request *r = request + m;
        order_task *task = batch.task + m;
        const int32_t runs = order_count_runs(r->capacity);
        const int32_t pairs = order_is_apart(*r) ? order_pairs(order_count(r->capacity)) : 0;
        int32_t units[order_units];
        units[order_by_run] = runs;
        units[order_by_ticket] = runs + (int32_t)ceil_div(runs, order_scope_runs);
        units[order_by_pair] = r->compact && !order_is_large(*r) ? pairs : 0;
        units[order_by_large] = order_is_large(*r) ? pairs : 0;
        units[order_by_word] = r->compact ? 0 : pairs * order_words(r->layout.volume);
        task->request = order_request_whole(r);
        task->weights = order_weights_make(&r->kernel, task->request.threshold);
        task->lane_bits =
            order_is_wide(*r) ? 0 : order_lane_bits(task->request, task->weights, batch.numbers);
        task->first_row = batch.rows;
        task->first_run = batch.units[order_by_run];
        for (int u = 0; u < order_units; ++u) {
            batch.first[u][m] = batch.units[u];
            batch.units[u] += units[u];
        }
        batch.rows += r->capacity;
        batch.volume = (int32_t)max_of(batch.volume, order_is_wide(*r) ? r->layout.volume : 1);
    }
    return batch;
}

} // namespace spira

#endif
