// spira/layout/order/samples.cuh: the first kernel of order_build: a thread block for each list of
// samples of each map. It computes the keys of its samples, sorts them, and writes the splitters of
// the classes (order/key.h) as a search tree. It also clears the map's counters.
#ifndef SPIRA_LAYOUT_ORDER_SAMPLES_CUH
#define SPIRA_LAYOUT_ORDER_SAMPLES_CUH

#include "../../base/launch.cuh"
#include "keys.cuh"
#include "sort.cuh"

namespace spira {

enum { order_list_items = order_list_samples / order_list_threads };

static_assert(order_list_items == 2 && order_list_samples == order_list_classes,
              "a thread for two samples and two classes of a list");

// By digits of 8 bits: three passes for the 24 sectors of size 3. By digits of 9 bits: three for
// the 27 directions of larger kernels.
template <int digit_bits>
using order_list_sort = order_shared<order_list_threads, order_list_items, digit_bits>;

struct order_list_shared {
    order_sets sets;
    union {
        order_list_sort<8> short_keys; // up to 24 bits
        order_list_sort<9> long_keys;
    };
};

// Finds the keys of this thread's samples of a list.
SPIRA_DEVICE void order_find_samples(const order_task &task, int list, int32_t count,
                                     const order_sets &sets, order_item (&item)[order_list_items]) {
    const int first = order_first<order_list_items>();
    int32_t row[order_list_items];
    order_found found[order_list_items];
#pragma unroll
    for (int i = 0; i < order_list_items; ++i) {
        row[i] = order_sample_row(order_lists * (first + i * 32) + list, count);
    }
    if (task.request.compact) {
        order_find_compact_keys_any(task.request, row, found);
    } else {
#pragma unroll 1
        for (int i = 0; i < order_list_items; ++i) {
            found[1] = order_find_key<true>(task, i ? row[1] : row[0], 32, sets);
            found[0] = i ? found[0] : found[1];
        }
    }
#pragma unroll
    for (int i = 0; i < order_list_items; ++i) {
        item[i] = {found[i].key, 0};
    }
}

// Writes splitter number i of a list, counted from 0. The list has one fewer than classes: node 0
// takes what is past the last.
SPIRA_DEVICE void order_write_splitter(int i, uint32_t splitter, uint32_t *tree) {
    tree[i + 1 < order_list_classes ? tree_node(order_list_classes, i + 1) : 0] = splitter;
}

// Sorts the samples of a list and writes its splitters, each value once, so that few classes stay
// empty; then UINT32_MAX. Called by all threads of a block. tree [order_list_classes]
template <int digit_bits>
SPIRA_DEVICE void order_find_splitters(int bits, order_item (&item)[order_list_items],
                                       order_list_sort<digit_bits> &s, uint32_t *tree) {
    const int first = order_first<order_list_items>(), c = 2 * (int)threadIdx.x; // and c + 1
    order_sort(bits, ~0u, item, s);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < order_list_items; ++i) {
        s.sample[first + i * 32] = item[i].key;
    }
    __syncthreads();
    const uint32_t begin[2] = {order_class_begin(s.sample, c), order_class_begin(s.sample, c + 1)};
    const bool own = c > 0 && (order_class_begin(s.sample, max(c - 1, 0)) != begin[0]);
    const bool next = c == 0 || begin[0] != begin[1];
    int all;
    const int place = block_exclusive_sum<order_list_threads>((int)own + (int)next, s.scan, &all);
    if (own) {
        order_write_splitter(place, begin[0], tree);
    }
    if (next) {
        order_write_splitter(place + own, begin[1], tree);
    }
    for (int i = c; i < c + 2; ++i) {
        if (i >= all) {
            order_write_splitter(i, UINT32_MAX, tree);
        }
    }
}

SPIRA_PLAIN_KERNEL void __launch_bounds__(order_list_threads)
    order_sample_kernel(const __grid_constant__ order_batch batch, order_scratch s) {
    __shared__ __align__(16) order_list_shared shared;
    const int number = (int)blockIdx.x / order_lists, list = (int)blockIdx.x % order_lists;
    const order_task &task = batch.task[number];
    order_fill_sets(batch, task, shared.sets);
    pdl_wait();
    const int32_t count = order_find_count(task.request);
    const int first = (int)blockIdx.x * order_list_classes;
    ((int2 *)(s.total + first))[threadIdx.x] = {0, 0};
    int32_t *arrived = s.arrived + task.first[order_by_run];
    const int32_t runs = order_count_runs(task.request.capacity);
    for (int32_t run = (int)threadIdx.x * order_scope_runs; list == 0 && run < runs;
         run += order_list_threads * order_scope_runs) {
        arrived[run] = 0;
    }
    if (count > 0) {
        order_item item[order_list_items];
        order_find_samples(task, list, count, shared.sets, item);
        const int bits = order_key_bits(task);
        if (bits <= 24) {
            order_find_splitters(bits, item, shared.short_keys, s.tree + first);
        } else {
            order_find_splitters(bits, item, shared.long_keys, s.tree + first);
        }
    }
}

} // namespace spira

#endif
