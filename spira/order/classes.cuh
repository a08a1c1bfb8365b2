// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/order/classes.cuh: the first two kernels of order_build. One clears the maps'
// counters. In the other, a thread block takes a chunk of 1024 rows: it computes the keys of the
// rows, sorts the rows by class, and counts the rows of each class over all chunks.
#ifndef SPIRA_ORDER_CLASSES_CUH
#define SPIRA_ORDER_CLASSES_CUH

#include "../base/launch.cuh"
#include "keys.cuh"
#include "sort.cuh"

namespace spira {

// The table of classes as a search tree (tree_node).
typedef uint32_t order_tree[order_classes];

// A chunk's number and its rows. In shared memory to save registers.
struct order_chunk {
    int32_t number;
    int rows;
};

struct __align__(16) order_class_shared {
    union {
        order_tree tree; // until the classes are known
        order_item item[order_run];
    };
    order_shared sort;
    order_columns columns;
    order_chunk chunk[order_warps]; // for each warp a copy
};

// Sets a warp's copy of a value in shared memory. Called by all threads of the warp.
template <typename T>
SPIRA_DEVICE void order_set_in_warp(T &copy, T value) {
    if (threadIdx.x % 32 == 0) {
        copy = value;
    }
    __syncwarp();
}

// ---- counters -----------------------------------------------------------------------------------

// Clears the totals of a map, a thread block each, and the tickets. It also makes
// order_class_kernel begin after the kernels that made the maps have ended.
SPIRA_PLAIN_KERNEL void __launch_bounds__(order_threads) order_clear_kernel(order_scratch s) {
    pdl_wait();
    ((int2 *)(s.total + (int)blockIdx.x * order_classes))[threadIdx.x] = {0, 0};
    *s.drawn = 0;
}

// ---- keys ---------------------------------------------------------------------------------------

// Finds the keys of this thread's rows of a chunk, and how many rows the chunk has (chunk.rows).
// Keys of rows that do not exist are unspecified. Called by all threads of a block.
//
// Maps and counts are read before the previous kernel has ended: order_clear_kernel writes none. It
// has waited for the kernels that made them before this kernel began.
//
// chunk: of this warp
SPIRA_DEVICE void order_find_keys(const order_batch &batch, const order_task &task,
                                  uint32_t (&key)[order_items], order_columns &columns,
                                  order_chunk &chunk) {
    const order_request &r = task.request;
    const int32_t begin = chunk.number * order_run;
    const int first = order_first(), lane = threadIdx.x % 32;
    const int rows = min(order_find_count(r) - begin, (int)order_run);
    if (!order_is_wide(r)) {
        order_set_in_warp(chunk.rows, rows);
        int32_t row[order_items];
#pragma unroll
        for (int i = 0; i < order_items; ++i) {
            row[i] = begin + min(first + i * 32, rows - 1); // behind the count nothing is written
        }
        if (rows > 0) {
            order_find_keys_by_lane(task, row, key);
        }
        return;
    }
    order_fill_columns(batch, task, columns);
    order_set_in_warp(chunk.rows, rows);
    static_assert(order_items == 2, "two keys");
#pragma unroll 1
    for (int i = 0; i < order_items; ++i) {
        const int there = rows - (first - lane) - i * 32; // of the warp's 32 rows
        const int32_t row = begin + first + i * 32;
        const uint32_t own = order_find_key(task, row, there, columns);
        key[0] = i ? key[0] : own; // with an index, they would be in local memory
        key[1] = own;
    }
}

// ---- classes ------------------------------------------------------------------------------------

// Loads this thread's part of the table of a map that has not few directions.
SPIRA_DEVICE uint2 order_load_table(const order_task &task) {
    return task.weights.keys == order_by_few
               ? uint2{0, 0}
               : ((const uint2 *)order_table(task.weights.keys))[threadIdx.x];
}

// Makes the tree of what the threads of a block have loaded. The block needs a barrier behind it.
SPIRA_DEVICE void order_make_tree(uint2 two, order_tree &tree) {
    const int first = order_digits_each * (int)threadIdx.x;
    const uint32_t own[order_digits_each] = {two.x, two.y};
#pragma unroll
    for (int j = 0; j < order_digits_each; ++j) {
        const int c = first + j;
        tree[c ? tree_node(order_classes, c) : 0] = own[j];
    }
}

// Finds the classes of keys.
SPIRA_DEVICE void order_find_classes_of(const order_task &task, const order_tree &tree,
                                        const uint32_t (&key)[order_items],
                                        uint32_t (&found)[order_items]) {
    int node[order_items];
#pragma unroll
    for (int i = 0; i < order_items; ++i) {
        node[i] = 1;
        found[i] = key[i];
    }
    if (task.weights.keys == order_by_few) {
        return;
    }
#pragma unroll
    for (int bit = 0; bit < order_class_bits; ++bit) {
#pragma unroll
        for (int i = 0; i < order_items; ++i) {
            node[i] = 2 * node[i] + (tree[node[i]] <= key[i] ? 1 : 0);
        }
    }
#pragma unroll
    for (int i = 0; i < order_items; ++i) {
        found[i] = (uint32_t)(node[i] - order_classes);
    }
}

// Writes the pieces of a chunk, whose rows are counted by class, and adds its rows to the totals;
// clears the weights of the run of the same number. Called by all threads of a block; has a barrier
// inside, and needs one behind. rows: of the chunk
SPIRA_DEVICE void order_write_classes(const order_task &task, const order_scratch &scratch,
                                      int number, const order_chunk &chunk, order_shared &s) {
    const int32_t runs = order_count_runs(task.request.capacity);
    const int c = order_digits_each * (int)threadIdx.x;
    int own[order_digits_each];
    int at = order_place_digits(own, s);
    // Rows that do not exist are at the end of the last class.
    own[1] -= threadIdx.x == order_threads - 1 ? order_run - chunk.rows : 0;
    uint32_t piece[order_digits_each];
#pragma unroll
    for (int j = 0; j < order_digits_each; ++j) {
        piece[j] = (uint32_t)at | (uint32_t)own[j] << 16;
        at += own[j];
        if (own[j]) {
            atomicAdd(scratch.total + number * order_classes + c + j, own[j]);
        }
    }
    *(uint2 *)(scratch.piece + (int64_t)task.first_run * order_classes +
               order_piece_at((unsigned)c, (uint32_t)chunk.number, (uint32_t)runs)) = {piece[0],
                                                                                       piece[1]};
    if (threadIdx.x == 0) {
        ((uint2 *)scratch.weight)[task.first_run + chunk.number] = {0, 0};
    }
}

// ---- kernel -------------------------------------------------------------------------------------

SPIRA_PLAIN_KERNEL void __launch_bounds__(order_threads, order_residents)
    order_class_kernel(const __grid_constant__ order_batch batch, order_scratch s) {
    __shared__ order_class_shared shared;
    const int number = block_find_part(batch.first[order_by_run], (int32_t)blockIdx.x);
    const order_task &task = batch.task[number];
    if (!order_has_parameters(task)) {
        return;
    }
    const int first = order_first();
    uint32_t key[order_items], class_of[order_items];
    int rank[order_items];
    order_clear_digits(shared.sort);
    order_chunk &chunk = shared.chunk[threadIdx.x / 32];
    order_set_in_warp(chunk.number, (int32_t)blockIdx.x - batch.first[order_by_run][number]);
    const uint2 two = order_load_table(task);
    order_find_keys(batch, task, key, shared.columns, chunk);
    order_make_tree(two, shared.tree);
    const int rows = chunk.rows;
    if (rows <= 0) {
        pdl_wait();
        return;
    }
    __syncthreads(); // the tree is there, and the counts are clear
    order_find_classes_of(task, shared.tree, key, class_of);
#pragma unroll
    for (int i = 0; i < order_items; ++i) {
        if (first + i * 32 >= rows) {
            class_of[i] = order_classes - 1; // the end of the last class
        }
    }
    order_count_digits(class_of, rank, shared.sort);
    __syncthreads(); // all rows are counted
    pdl_wait();
    order_write_classes(task, s, number, chunk, shared.sort);
    __syncthreads(); // the beginnings are there
    const int32_t begin = chunk.number * order_run;
    order_item item[order_items];
#pragma unroll
    for (int i = 0; i < order_items; ++i) {
        item[i] = {key[i], begin + first + i * 32};
    }
    order_put_items(class_of, rank, item, shared.item, shared.sort);
    __syncthreads(); // the items are sorted
#pragma unroll
    for (int i = 0; i < order_items; ++i) {
        if (first + i * 32 < rows) {
            s.item[task.first_row + begin + first + i * 32] = shared.item[first + i * 32];
        }
    }
}

} // namespace spira

#endif
