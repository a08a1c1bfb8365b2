// spira/layout/order/runs.cuh: the third kernel of order_build: a thread block a run of 2048
// positions. It collects the run's rows, class by class, from all chunks; sorts them by key and
// row; writes them to the layout; and weighs the group pairs.
#ifndef SPIRA_LAYOUT_ORDER_RUNS_CUH
#define SPIRA_LAYOUT_ORDER_RUNS_CUH

#include "sort.cuh"

namespace spira {

typedef order_shared<order_run_threads, order_run_items> order_run_shared;

static_assert(2 * order_run_threads == order_classes, "a thread for two classes");

// The run of a thread block: positions begin .. begin + rows of a map with `count` rows.
struct order_range {
    int32_t begin, count;
    int rows; // not positive: the run is empty
};

// The classes that have rows in a run.
struct order_class_range {
    int first, last;
    int32_t begin; // position of the first class, counted from the run's first: <= 0
};

// ---- collect ------------------------------------------------------------------------------------

// Finds the classes of a run. total: the rows of this thread's two classes
SPIRA_DEVICE order_class_range order_find_classes(int2 total, const order_range &run,
                                                  order_run_shared &s) {
    __shared__ order_class_range found;
    const int32_t own[2] = {total.x, total.y};
    int32_t place[2];
    place[0] = block_exclusive_sum<order_run_threads>(own[0] + own[1], s.scan);
    place[1] = place[0] + own[0];
#pragma unroll
    for (int j = 0; j < 2; ++j) {
        const int32_t at = place[j] - run.begin;
        if (own[j] && at <= 0 && at + own[j] > 0) {
            found.first = 2 * (int)threadIdx.x + j;
            found.begin = at;
        }
        if (own[j] && at < run.rows && at + own[j] >= run.rows) {
            found.last = 2 * (int)threadIdx.x + j;
        }
    }
    __syncthreads();
    return found;
}

// The rows of a run come in pieces: the rows of one class in one chunk, which stand together among
// the map's items. Writes to head, at the first position of each piece, the index of its first
// item; -1 to all other positions.
//
// begin [order_classes, runs]: of the map
SPIRA_DEVICE void order_find_heads(const uint16_t *__restrict__ begin, int32_t runs,
                                   const order_class_range &classes, const order_range &run,
                                   order_run_shared &s) {
    for (int p = threadIdx.x; p < order_run; p += order_run_threads) {
        s.head[p] = -1;
    }
    const int each = 4; // pieces of a thread; their loads overlap
    const int chunks = (int)ceil_div(run.count, order_run);
    const int pieces = (classes.last - classes.first + 1) * chunks; // below 2^30
    int32_t place = classes.begin;
    for (int first = 0; first < pieces && place < run.rows; first += order_run_threads * each) {
        const int piece = first + (int)threadIdx.x * each;
        int c = classes.first + (int)((unsigned)piece / (unsigned)chunks);
        int chunk = (int)((unsigned)piece % (unsigned)chunks), from[each], own[each], sum = 0;
#pragma unroll
        for (int j = 0; j < each; ++j) {
            from[j] = own[j] = 0;
            if (piece + j < pieces) {
                const uint16_t *at = begin + (int64_t)c * runs + chunk;
                int end = c + 1 < order_classes
                              ? at[runs]
                              : min(run.count - chunk * order_run, (int)order_run);
                own[j] = end - at[0];
                from[j] = chunk * order_run + at[0];
            }
            sum += own[j];
            chunk = chunk + 1 < chunks ? chunk + 1 : 0;
            c += chunk == 0;
        }
        __syncthreads(); // s.scan is free; s.head is clear
        int all, at = block_exclusive_sum<order_run_threads>(sum, s.scan, &all) + place;
#pragma unroll
        for (int j = 0; j < each; ++j) {
            if (own[j] && at < run.rows && at + own[j] > 0) {
                s.head[max(at, 0)] = from[j] + max(-at, 0);
            }
            at += own[j];
        }
        place += all;
    }
    __syncthreads();
}

// Finds the item at each position of this thread: the nearest head up to it, plus the distance.
SPIRA_DEVICE void order_follow_heads(int32_t (&from)[order_run_items], order_run_shared &s) {
    __shared__ int last[order_run_threads / 32]; // head of each warp
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int first = warp * order_run_items * 32;
    uint32_t heads[order_run_items];
    int head = -1;
#pragma unroll
    for (int i = 0; i < order_run_items; ++i) {
        heads[i] = __ballot_sync(~0u, s.head[first + i * 32 + lane] >= 0);
        head = heads[i] ? first + i * 32 + 31 - __clz(heads[i]) : head;
    }
    if (lane == 0) {
        last[warp] = head;
    }
    __syncthreads();
    uint32_t before = __ballot_sync(~0u, lane < warp && last[lane] >= 0);
    head = before ? last[31 - __clz(before)] : 0;
#pragma unroll
    for (int i = 0; i < order_run_items; ++i) {
        uint32_t own = heads[i] & (~0u >> (31 - lane));
        int place = first + i * 32 + lane;
        int mine = own ? first + i * 32 + 31 - __clz(own) : head;
        from[i] = s.head[mine] + place - mine;
        head = heads[i] ? first + i * 32 + 31 - __clz(heads[i]) : head;
    }
}

// Loads the items of a run, sorted by class. Elements past the last row get the largest key and row
// -1. total: as in order_find_classes
SPIRA_DEVICE void order_collect(const order_task &task, const order_scratch &s, int2 total,
                                const order_range &run, order_run_shared &shared,
                                order_item (&item)[order_run_items]) {
    const int32_t runs = (int32_t)ceil_div(task.request.capacity, order_run);
    const int first = (int)threadIdx.x / 32 * order_run_items * 32 + (int)threadIdx.x % 32;
    int32_t from[order_run_items];
    order_class_range classes = order_find_classes(total, run, shared);
    order_find_heads(s.begin + (int64_t)task.first[order_by_run] * order_classes, runs, classes,
                     run, shared);
    order_follow_heads(from, shared);
#pragma unroll
    for (int i = 0; i < order_run_items; ++i) {
        item[i] = {UINT32_MAX, -1};
        if (first + i * 32 < run.rows) {
            item[i] = s.item[task.first_row + from[i]];
        }
    }
}

// ---- kernel -------------------------------------------------------------------------------------

// Returns the weight of a warp's positions, a group pair. Of the run, the first `rows` positions
// have rows; this thread's first position is `first`. directions: of the map's rows
SPIRA_DEVICE int order_weigh(const order_task &task, const uint32_t *directions, int first,
                             int rows, const order_item (&item)[order_run_items]) {
    const int lane = threadIdx.x % 32;
    uint32_t united = 0;
#pragma unroll
    for (int i = 0; i < order_run_items; ++i) {
        united |= first + i * 32 < rows ? directions[item[i].row] : 0;
    }
    united = warp_unite(united);
    return warp_sum(united >> lane & 1 ? task.weight[lane] : 0);
}

SPIRA_PLAIN_KERNEL void __launch_bounds__(order_run_threads, 2)
    order_run_kernel(const __grid_constant__ order_batch batch, order_scratch s) {
    __shared__ order_run_shared shared;
    __shared__ uint32_t any; // a key of the run
    const int number = order_find_task(batch, order_by_run, (int)blockIdx.x);
    const order_task &task = batch.task[number];
    const order_request &r = task.request;
    // This load overlaps that of the count.
    const int2 total = ((const int2 *)(s.total + number * order_classes))[threadIdx.x];
    order_range run;
    run.count = order_find_count(r);
    run.begin = ((int32_t)blockIdx.x - task.first[order_by_run]) * order_run;
    run.rows = min(run.count - run.begin, (int)order_run);
    const int first = (int)threadIdx.x / 32 * order_run_items * 32 + (int)threadIdx.x % 32;
    order_item item[order_run_items];
    if (run.rows > 0) {
        order_collect(task, s, total, run, shared, item);
        if (threadIdx.x == 0) {
            any = item[0].key;
        }
        __syncthreads();
        uint32_t differ = 0;
#pragma unroll
        for (int i = 0; i < order_run_items; ++i) {
            differ |= first + i * 32 < run.rows ? item[i].key ^ any : 0;
        }
        order_sort(order_key_bits(task), differ, item, shared);
    }
    const int weight = order_weigh(task, s.directions + task.first_row, first, run.rows, item);
    if (threadIdx.x % 32 == 0) {
        s.weight[blockIdx.x * order_run_pairs + threadIdx.x / 32] = (uint8_t)weight;
    }
#pragma unroll
    for (int i = 0; i < order_run_items; ++i) {
        int32_t place = run.begin + first + i * 32;
        if (place < order_count(r.capacity) * order_rows) {
            r.layout.row[place] = first + i * 32 < run.rows ? item[i].row : -1;
        }
    }
}

} // namespace spira

#endif
