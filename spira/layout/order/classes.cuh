// spira/layout/order/classes.cuh: the second kernel of order_build: sorts each chunk of 2048 rows
// by class, and counts the rows of each class over all chunks.
#ifndef SPIRA_LAYOUT_ORDER_CLASSES_CUH
#define SPIRA_LAYOUT_ORDER_CLASSES_CUH

#include "sort.cuh"

namespace spira {

enum { order_class_bits = 10 };

static_assert(1 << order_class_bits == order_classes, "the bits of a class");
static_assert(order_lists == 2, "two trees, of half the classes each");

typedef order_shared<order_run_threads, order_run_items, order_class_bits> order_class_shared;
// The splitters of each list as a search tree (tree_node).
typedef uint32_t order_trees[order_lists][order_list_classes];

// Returns the class of a key.
SPIRA_DEVICE int order_find_class(const order_trees &tree, uint32_t key) {
    int node[order_lists] = {1, 1};
#pragma unroll
    for (int bit = 0; bit < order_class_bits - 1; ++bit) {
#pragma unroll
        for (int list = 0; list < order_lists; ++list) {
            node[list] = 2 * node[list] + (tree[list][node[list]] <= key ? 1 : 0);
        }
    }
    return node[0] + node[1] - order_classes;
}

// Writes where each class of a chunk begins, and adds the chunk's rows to the totals.
SPIRA_DEVICE void order_write_classes(const order_task &task, const order_scratch &s, int number,
                                      int32_t chunk, int rows, const order_class_shared &shared) {
    const int64_t runs = ceil_div(task.request.capacity, order_run);
    uint16_t *table = s.begin + (int64_t)task.first[order_by_run] * order_classes + chunk;
    for (int c = threadIdx.x; c < order_classes; c += order_run_threads) {
        const int begin = shared.begin[c];
        const int end = c + 1 < order_classes ? shared.begin[c + 1] : rows;
        table[c * runs] = (uint16_t)begin;
        if (begin < end) {
            atomicAdd(s.total + number * order_classes + c, end - begin);
        }
    }
}

SPIRA_PLAIN_KERNEL void __launch_bounds__(order_run_threads, 2)
    order_class_kernel(const __grid_constant__ order_batch batch, order_scratch s) {
    __shared__ order_class_shared shared;
    __shared__ order_trees tree;
    const int number = order_find_task(batch, order_by_run, (int)blockIdx.x), own = threadIdx.x;
    const order_task &task = batch.task[number];
    const int32_t chunk = (int32_t)blockIdx.x - task.first[order_by_run];
    const int32_t count = order_find_count(task.request), begin = chunk * order_run;
    const int32_t rows = min(count - begin, (int)order_run);
    const uint32_t *keys = s.key + task.first_row;
    if (rows <= 0) {
        return;
    }
    const int first = own / 32 * order_run_items * 32 + own % 32;
    order_item item[order_run_items];
    uint32_t digit[order_run_items];
    int place[order_run_items];
#pragma unroll
    for (int i = 0; i < order_run_items; ++i) {
        int at = first + i * 32;
        item[i] = {at < rows ? keys[begin + at] : UINT32_MAX, begin + at};
    }
    for (int i = own; i < order_classes; i += order_run_threads) {
        const int list = i / order_list_classes, b = i % order_list_classes + 1;
        // The last splitter of a list is unused: it goes to node 0.
        tree[list][b < order_list_classes ? tree_node(order_list_classes, b) : 0] =
            s.splitter[number * order_classes + i];
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < order_run_items; ++i) {
        // Elements past the last row go to the end of the last class, whose begin is unchanged.
        digit[i] = first + i * 32 < rows ? order_find_class(tree, item[i].key) : order_classes - 1;
    }
    order_rank(digit, place, shared);
    order_write_classes(task, s, number, chunk, rows, shared);
    order_exchange(place, item, shared);
#pragma unroll
    for (int i = 0; i < order_run_items; ++i) {
        if (first + i * 32 < rows) {
            s.item[task.first_row + begin + first + i * 32] = item[i];
        }
    }
}

} // namespace spira

#endif
