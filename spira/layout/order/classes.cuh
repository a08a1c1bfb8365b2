// spira/layout/order/classes.cuh: the second kernel of order_build: a thread block a chunk of 1024
// rows. It computes the keys of the rows, sorts the rows by class, and counts the rows of each
// class over all chunks.
#ifndef SPIRA_LAYOUT_ORDER_CLASSES_CUH
#define SPIRA_LAYOUT_ORDER_CLASSES_CUH

#include "../../base/launch.cuh"
#include "keys.cuh"
#include "sort.cuh"

namespace spira {

enum { order_class_bits = 11, order_tree_bits = order_class_bits - 1 };

static_assert(1 << order_class_bits == order_classes, "the bits of a class");
static_assert(order_lists == 2, "two trees, of half the classes each");
static_assert(order_threads * 8 == order_classes, "a thread for the pieces of a sector");

// The splitters of each list as a search tree (tree_node).
typedef uint32_t order_trees[order_lists][order_list_classes];

// Used one after the other.
union __align__(16) order_class_shared {
    order_sets sets;
    order_trees tree;
    order_shared<order_threads, order_items, order_class_bits> sort;
};

// ---- keys ---------------------------------------------------------------------------------------

// Finds the keys of this thread's rows of a chunk, of which `rows` exist; then releases the
// dependents. The others get UINT32_MAX. Called by all threads of a block; calls pdl_wait.
//
// Compact maps are read before the previous kernel has ended: order_sample_kernel writes none. It
// has waited for the kernel that made them before this kernel began.
SPIRA_DEVICE void order_find_keys(const order_batch &batch, const order_task &task,
                                  const order_scratch &s, int32_t begin,
                                  uint32_t (&key)[order_items], int *rows, order_sets &sets) {
    const order_request &r = task.request;
    const int first = order_first<order_items>(), lane = threadIdx.x % 32;
    if (!r.compact) {
        order_fill_sets(batch, task, sets);
        pdl_wait();
    }
    const int32_t count = order_find_count(r);
    *rows = min(count - begin, (int)order_run);
    order_found found[order_items] = {};
    if (r.compact && *rows > 0) {
        int32_t row[order_items];
#pragma unroll
        for (int i = 0; i < order_items; ++i) {
            row[i] = min(begin + first + i * 32, count - 1);
        }
        order_find_compact_keys_any(r, row, found);
    } else {
#pragma unroll 1
        for (int i = 0; i < order_items; ++i) {
            const int there = *rows - (first - lane) - i * 32; // of the warp's 32 rows
            if (there <= 0) {
                break;
            }
            const order_found own =
                order_find_key<false>(task, begin + first + i * 32, there, sets);
            if (lane < there && order_is_wide(r)) {
                s.directions[task.first_row + begin + first + i * 32] = own.directions;
            }
#pragma unroll
            for (int j = 0; j < order_items; ++j) {
                found[j].key = i == j ? own.key : found[j].key;
            }
        }
    }
#pragma unroll
    for (int i = 0; i < order_items; ++i) {
        key[i] = first + i * 32 < *rows ? found[i].key : UINT32_MAX;
    }
    if (r.compact) {
        pdl_wait();
    }
}

// ---- classes ------------------------------------------------------------------------------------

// Copies the trees of a map to shared memory. Called by all threads of a block; has barriers around
// it.
SPIRA_DEVICE void order_load_trees(const uint32_t *from, order_trees &tree) {
    const int each = order_classes / 4 / order_threads;
    uint4 part[each];
#pragma unroll
    for (int j = 0; j < each; ++j) {
        part[j] = ((const uint4 *)from)[threadIdx.x + j * order_threads];
    }
    __syncthreads(); // the sets are no longer used
#pragma unroll
    for (int j = 0; j < each; ++j) {
        ((uint4 *)tree)[threadIdx.x + j * order_threads] = part[j];
    }
    __syncthreads();
}

// Finds the classes of keys.
SPIRA_DEVICE void order_find_classes_of(const order_trees &tree, const uint32_t (&key)[order_items],
                                        uint32_t (&found)[order_items]) {
    int node[order_items][order_lists];
#pragma unroll
    for (int i = 0; i < order_items; ++i) {
        node[i][0] = node[i][1] = 1;
    }
#pragma unroll
    for (int bit = 0; bit < order_tree_bits; ++bit) {
#pragma unroll
        for (int i = 0; i < order_items; ++i) {
#pragma unroll
            for (int list = 0; list < order_lists; ++list) {
                int &n = node[i][list];
                n = 2 * n + (tree[list][n] <= key[i] ? 1 : 0);
            }
        }
    }
#pragma unroll
    for (int i = 0; i < order_items; ++i) {
        found[i] = (uint32_t)(node[i][0] + node[i][1] - order_classes);
    }
}

// Writes the pieces of a chunk, and adds its rows to the totals. rows: of the chunk; begin
// [order_classes]: the position of each class in the chunk
SPIRA_DEVICE void order_write_classes(const order_task &task, const order_scratch &s, int number,
                                      int32_t chunk, int rows, const uint16_t *begin) {
    const int32_t runs = order_count_runs(task.request.capacity);
    const int c = 8 * (int)threadIdx.x;
    uint32_t at[9], piece[8];
    const uint4 own = *(const uint4 *)(begin + c);
    const uint32_t pair[4] = {own.x, own.y, own.z, own.w};
#pragma unroll
    for (int j = 0; j < 8; ++j) {
        at[j] = pair[j / 2] >> j % 2 * 16 & 0xffff;
    }
    at[8] = c + 8 < order_classes ? begin[c + 8] : (uint32_t)rows;
#pragma unroll
    for (int j = 0; j < 8; ++j) {
        piece[j] = at[j] | (at[j + 1] - at[j]) << 16;
    }
    uint4 *to = (uint4 *)(s.piece + (int64_t)task.first[order_by_run] * order_classes +
                          order_piece_at((unsigned)c, (uint32_t)chunk, (uint32_t)runs));
    to[0] = {piece[0], piece[1], piece[2], piece[3]};
    to[1] = {piece[4], piece[5], piece[6], piece[7]};
    int32_t *total = s.total + number * order_classes;
    for (int k = threadIdx.x; k < order_classes; k += order_threads) {
        const int more = (k + 1 < order_classes ? begin[k + 1] : rows) - begin[k];
        if (more) {
            atomicAdd(total + k, more);
        }
    }
}

// ---- kernel -------------------------------------------------------------------------------------

SPIRA_PLAIN_KERNEL void __launch_bounds__(order_threads, 4)
    order_class_kernel(const __grid_constant__ order_batch batch, order_scratch s) {
    __shared__ order_class_shared shared;
    const int number = order_find_task(batch, order_by_run, (int)blockIdx.x);
    const order_task &task = batch.task[number];
    const int32_t chunk = (int32_t)blockIdx.x - task.first[order_by_run];
    const int32_t begin = chunk * order_run;
    const int first = order_first<order_items>();
    uint32_t key[order_items], found[order_items];
    int rows, place[order_items];
    order_find_keys(batch, task, s, begin, key, &rows, shared.sets);
    if (rows <= 0) {
        return;
    }
    order_load_trees(s.tree + number * order_classes, shared.tree);
    order_find_classes_of(shared.tree, key, found);
    order_item item[order_items];
#pragma unroll
    for (int i = 0; i < order_items; ++i) {
        // Elements past the last row go to the end of the last class, whose begin is unchanged.
        found[i] = first + i * 32 < rows ? found[i] : (uint32_t)order_classes - 1;
        item[i] = {key[i], begin + first + i * 32};
    }
    __syncthreads(); // the trees are no longer used
    order_rank(found, place, shared.sort);
    order_write_classes(task, s, number, chunk, rows, shared.sort.begin);
    order_exchange(place, item, shared.sort);
#pragma unroll
    for (int i = 0; i < order_items; ++i) {
        if (first + i * 32 < rows) {
            s.item[task.first_row + begin + first + i * 32] = item[i];
        }
    }
}

} // namespace spira

#endif
