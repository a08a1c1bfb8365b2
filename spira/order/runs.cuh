// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/order/runs.cuh: how a thread block sorts a run of 1024 positions: it collects the
// run's rows from all chunks, and sorts them by key and row.
//
// A chunk's items are sorted by class. So those that belong to the run are neighbours: a segment.
// Its ends are in the run's first and last class, which other runs may share. Segments are
// collected in the order of chunks. A stable sort by key then puts rows in their final order, since
// a key has only one class, and items of a class are sorted by row.
#ifndef SPIRA_ORDER_RUNS_CUH
#define SPIRA_ORDER_RUNS_CUH

#include "sort.cuh"

namespace spira {

// What a run's sort keeps in shared memory.
struct order_run_shared {
    union {
        order_shared sort;
        int32_t head[order_run]; // before the sort; see order_find_heads
    };
    int scan[3][order_warps];
    int last[order_warps]; // position of the last head of each warp, or -1
    // The classes of the run's first and last row, and their positions from the run's first.
    int first_class, last_class;
    int32_t first_begin, last_begin;
    // The bits that some key of a warp has, and those that some key lacks.
    uint32_t ones[order_warps], zeros[order_warps];
};

// The run of a thread block: positions begin .. begin + rows of a map with `count` rows.
struct order_range {
    int32_t begin, count;
    int rows; // not positive: the run is empty
};

// The rows of two neighbouring classes, those of a thread.
struct order_totals {
    int32_t rows[(int)order_classes / order_threads];
};

// Loads the totals of this thread. A volatile load: the compiler leaves it beside that of the
// count, instead of behind the branch that depends on the count. total: of the map
SPIRA_DEVICE order_totals order_load_totals(const int32_t *total) {
    const uint64_t two = order_load_now((const uint64_t *)total + (int)threadIdx.x);
    return {(int32_t)two, (int32_t)(two >> 32)};
}

// ---- collect ------------------------------------------------------------------------------------

// Finds the classes of a run. Called by all threads of a block, which has to wait before it reads
// what is found.
SPIRA_DEVICE void order_find_classes(const order_totals &total, const order_range &run,
                                     order_run_shared &s) {
    const int each = (int)order_classes / order_threads;
    int sum = 0;
#pragma unroll
    for (int j = 0; j < each; ++j) {
        sum += total.rows[j];
    }
    int32_t at = block_exclusive_sum<order_threads>(sum, s.scan[2]) - run.begin;
#pragma unroll
    for (int j = 0; j < each; ++j) {
        const int32_t rows = total.rows[j], c = (int)threadIdx.x * each + j;
        if (rows && at <= 0 && at + rows > 0) {
            s.first_class = c;
            s.first_begin = at;
        }
        if (rows && at < run.rows && at + rows >= run.rows) {
            s.last_class = c;
            s.last_begin = at;
        }
        at += rows;
    }
}

// Called by all threads of a block, before order_sort_run.
SPIRA_DEVICE void order_clear_heads(order_run_shared &s) {
#pragma unroll
    for (int i = 0; i < order_items; ++i) {
        s.head[threadIdx.x + i * order_threads] = -1;
    }
}

// Writes to head, at the first position of each segment of the run, the index of its first item.
// The heads are clear: -1. Called by all threads of a block; has barriers around it.
//
// piece: of the map; chunks: those that have rows, of `runs`
SPIRA_DEVICE void order_find_heads(const uint32_t *piece, int32_t runs, int32_t chunks,
                                   const order_range &run, order_run_shared &s) {
    __syncthreads(); // the classes are known; the heads are clear
    const unsigned first_class = (unsigned)s.first_class, last_class = (unsigned)s.last_class;
    const int32_t skip = -s.first_begin;          // rows of the first class in runs before
    const int32_t take = run.rows - s.last_begin; // rows of the last class in the run
    // Rows of the chunks before: of the first class, of the last one, and from the beginning of the
    // first class to that of the last one.
    enum { of_first, of_last, between, sums };
    int32_t front[sums] = {};
    for (int32_t some = 0; some < chunks; some += order_threads) {
        const int32_t chunk = some + (int32_t)threadIdx.x;
        uint32_t first = 0, last = 0; // pieces
        if (chunk < chunks) {
            first = piece[order_piece_at(first_class, (uint32_t)chunk, (uint32_t)runs)];
            last = piece[order_piece_at(last_class, (uint32_t)chunk, (uint32_t)runs)];
        }
        const int first_rows = (int)(first >> 16), last_rows = (int)(last >> 16);
        const int begin = (int)(first & 0xffff), end = (int)(last & 0xffff);
        const int own[sums] = {first_rows, last_rows, end - begin};
        int before[sums], all[sums];
        if (some) {
            __syncthreads(); // the sums before have been read
        }
        block_exclusive_sums<order_threads>(own, s.scan, before, all);
#pragma unroll
        for (int v = 0; v < sums; ++v) {
            before[v] += front[v];
            front[v] += all[v];
        }
        const int from = begin + min(max(skip - before[of_first], 0), first_rows);
        const int to = end + min(max(take - before[of_last], 0), last_rows);
        if (to > from) {
            const int at =
                before[between] - min(skip, before[of_first]) + min(take, before[of_last]);
            s.head[at] = chunk * order_run + from;
        }
    }
    __syncthreads(); // the heads are written
}

// Finds the item at each position of this thread: the nearest head up to it, plus the distance.
SPIRA_DEVICE void order_follow_heads(order_run_shared &s, int32_t (&from)[order_items]) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int first = warp * order_items * 32;
    uint32_t heads[order_items];
    int head = -1;
#pragma unroll
    for (int i = 0; i < order_items; ++i) {
        heads[i] = __ballot_sync(~0u, s.head[first + i * 32 + lane] >= 0);
        head = heads[i] ? first + i * 32 + 31 - __clz((int)heads[i]) : head;
    }
    if (lane == 0) {
        s.last[warp] = head;
    }
    __syncthreads();
    const uint32_t before = __ballot_sync(~0u, lane < warp && s.last[lane] >= 0);
    head = before ? s.last[31 - __clz((int)before)] : 0;
#pragma unroll
    for (int i = 0; i < order_items; ++i) {
        const uint32_t own = heads[i] & (~0u >> (31 - lane));
        const int place = first + i * 32 + lane;
        const int mine = own ? first + i * 32 + 31 - __clz((int)own) : head;
        from[i] = s.head[mine] + place - mine;
        head = heads[i] ? first + i * 32 + 31 - __clz((int)heads[i]) : head;
    }
}

// ---- sort ---------------------------------------------------------------------------------------

// Returns the bits in which keys of the run differ. Called by all threads of a block; has a barrier
// inside. rows: of the run
SPIRA_DEVICE uint32_t order_find_differ(int rows, const order_item (&item)[order_items],
                                        order_run_shared &s) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, first = order_first();
    uint32_t ones = 0, zeros = 0;
#pragma unroll
    for (int i = 0; i < order_items; ++i) {
        ones |= first + i * 32 < rows ? item[i].key : 0;
        zeros |= first + i * 32 < rows ? ~item[i].key : 0;
    }
    ones = warp_unite(ones);
    zeros = warp_unite(zeros);
    if (lane == 0) {
        s.ones[warp] = ones;
        s.zeros[warp] = zeros;
    }
    __syncthreads();
    return warp_unite(s.ones[lane % order_warps]) & warp_unite(s.zeros[lane % order_warps]);
}

// Loads the items of a run that is not empty and sorts them by key and row. Elements past the last
// row get the largest key and row -1. Called by all threads of a block.
SPIRA_DEVICE void order_sort_run(const order_task &task, const order_scratch &s,
                                 const order_totals &total, const order_range &run,
                                 order_run_shared &shared, order_item (&item)[order_items]) {
    const int first = order_first();
    int32_t from[order_items];
    order_find_classes(total, run, shared);
    order_find_heads(s.piece + (int64_t)task.first_run * order_classes,
                     order_count_runs(task.request.capacity), order_count_runs(run.count), run,
                     shared);
    order_follow_heads(shared, from);
#pragma unroll
    for (int i = 0; i < order_items; ++i) {
        item[i] = {UINT32_MAX, -1};
        if (first + i * 32 < run.rows) {
            item[i] = s.item[task.first_row + from[i]];
        }
    }
    const uint32_t differ = order_find_differ(run.rows, item, shared);
    order_sort_by_key(differ, item, shared.sort);
}

} // namespace spira

#endif
