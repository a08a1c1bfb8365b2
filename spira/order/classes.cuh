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

enum {
    order_row_bits = 10,                   // of a row's number in its chunk
    order_low_bits = order_class_bits / 2, // of a class, for the first of two passes
    order_classes_each = (int)order_classes / order_threads, // of a thread
};

static_assert(1 << order_row_bits == order_run, "the bits of a row");
static_assert(order_classes_each == 2, "loads and stores of two classes");

// The table of classes as a search tree (tree_node).
typedef uint32_t order_tree[order_classes];

// A chunk's number and its rows. In shared memory to save registers.
struct order_chunk {
    int32_t number;
    int rows;
};

struct __align__(16) order_class_shared {
    union {
        order_tree tree; // before the sort
        order_shared sort;
    };
    order_columns columns;
    int rows[order_classes];        // of each class in the chunk
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
    const int first = order_classes_each * (int)threadIdx.x;
    const uint32_t own[order_classes_each] = {two.x, two.y};
#pragma unroll
    for (int j = 0; j < order_classes_each; ++j) {
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

// Writes the pieces of a chunk, and adds its rows to the totals; clears the weights of the run of
// the same number. Called by all threads of a block; has a barrier inside. rows [order_classes]: of
// each class in the chunk
SPIRA_DEVICE void order_write_classes(const order_task &task, const order_scratch &s, int number,
                                      int32_t chunk, const int *rows, int *scan) {
    const int32_t runs = order_count_runs(task.request.capacity);
    const int32_t first_run = task.first_run;
    const int c = order_classes_each * (int)threadIdx.x;
    const int2 two = *(const int2 *)(rows + c);
    const int own[order_classes_each] = {two.x, two.y};
    int at = block_exclusive_sum<order_threads>(two.x + two.y, scan);
    uint32_t piece[order_classes_each];
#pragma unroll
    for (int j = 0; j < order_classes_each; ++j) {
        piece[j] = (uint32_t)at | (uint32_t)own[j] << 16;
        at += own[j];
        if (own[j]) {
            atomicAdd(s.total + number * order_classes + c + j, own[j]);
        }
    }
    *(uint2 *)(s.piece + (int64_t)first_run * order_classes +
               order_piece_at((unsigned)c, (uint32_t)chunk, (uint32_t)runs)) = {piece[0], piece[1]};
    if (threadIdx.x == 0) {
        ((uint2 *)s.weight)[first_run + chunk] = {0, 0};
    }
}

// Sorts by the bits of the row from `shift` on.
template <int shift, int bits>
SPIRA_DEVICE void order_sort_class_digit(order_item (&item)[order_items], order_shared &s) {
    uint32_t digit[order_items];
#pragma unroll
    for (int i = 0; i < order_items; ++i) {
        digit[i] = (uint32_t)item[i].row >> shift & ((1 << bits) - 1);
    }
    order_sort_digit<bits>(digit, item, s);
}

// Sorts the rows of a chunk by class. In a chunk, class and row number fit one word.
SPIRA_DEVICE void order_sort_by_class(const uint32_t (&key)[order_items],
                                      const uint32_t (&class_of)[order_items], int32_t begin,
                                      order_item (&item)[order_items], order_shared &s) {
    const int first = order_first();
#pragma unroll
    for (int i = 0; i < order_items; ++i) {
        item[i] = {key[i], (int32_t)(class_of[i] << order_row_bits) | (first + i * 32)};
    }
    order_sort_class_digit<order_row_bits, order_low_bits>(item, s);
    order_sort_class_digit<(int)order_row_bits + order_low_bits,
                           (int)order_class_bits - order_low_bits>(item, s);
#pragma unroll
    for (int i = 0; i < order_items; ++i) {
        item[i].row = begin + (item[i].row & (order_run - 1));
    }
}

// ---- kernel -------------------------------------------------------------------------------------

SPIRA_PLAIN_KERNEL void __launch_bounds__(order_threads, order_residents)
    order_class_kernel(const __grid_constant__ order_batch batch, order_scratch s) {
    __shared__ order_class_shared shared;
    const int number = block_find_part(batch.first[order_by_run], (int32_t)blockIdx.x);
    const order_task &task = batch.task[number];
    const int first = order_first();
    uint32_t key[order_items], class_of[order_items];
    ((int2 *)shared.rows)[threadIdx.x] = {0, 0};
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
        if (first + i * 32 < rows) {
            atomicAdd(shared.rows + class_of[i], 1);
        } else {
            class_of[i] = order_classes - 1; // the end of the last class
        }
    }
    __syncthreads(); // all rows are counted
    pdl_wait();
    order_write_classes(task, s, number, chunk.number, shared.rows, shared.sort.scan);
    const int32_t begin = chunk.number * order_run;
    order_item item[order_items];
    order_sort_by_class(key, class_of, begin, item, shared.sort);
#pragma unroll
    for (int i = 0; i < order_items; ++i) {
        if (first + i * 32 < rows) {
            s.item[task.first_row + begin + first + i * 32] = item[i];
        }
    }
}

} // namespace spira

#endif
