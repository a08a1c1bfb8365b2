// spira/layout/order.cuh: the ordered layout on the GPU, from maps that are there; up to 16 in one
// go.
//
// Four launches, each over all maps. `key`: the keys and directions of all rows, a warp 32 of them:
// wide, as it reads the map; the first blocks of threads, one for each list of samples, find the
// samples' keys for themselves meanwhile, and where classes begin. `class`: the rows of a chunk of
// 2048 in their classes. `run`: a run collects its rows, class by class, from all chunks, sorts
// them, and weighs its pairs of blocks. `put`: a block of threads writes 32 offsets of a pair of
// blocks; that of the first ones counts the pairs whose turn is before.
//
// A map may come compact (index/compact.h): then a lane has the records of its row, and reads no
// further.
//
// A block of threads sorts by digits of 9 bits: three for the 24 groups of size 3, one for the 8
// directions of size 2. Bits are those of directions that the kernel has, or of groups.
#ifndef SPIRA_LAYOUT_ORDER_CUH
#define SPIRA_LAYOUT_ORDER_CUH

#include "../base/async.cuh"
#include "../base/launch.cuh"
#include "../status.cuh"
#include "order.h"

#include <cub/block/block_scan.cuh>

namespace spira {

enum {
    order_maps_max = 16, // of one go
    order_slab = 32,     // offsets at a time
    order_words_max = (kernel_volume_max + order_slab - 1) / order_slab,
    order_digit_bits = 9,
    order_class_bits = 10,
    order_key_threads = 256, // and rows
    order_run_threads = 512,
    order_run_items = order_run / order_run_threads,
    order_run_pairs = order_run / (2 * order_rows),
    order_put_threads = 2 * order_rows,
};

static_assert(1 << order_class_bits == order_classes, "the bits of a class");
static_assert(2 * order_key_threads == order_list_classes, "a thread for two classes of a list");
static_assert(2 * order_run_threads == order_classes, "a thread for two classes");
static_assert(32 * order_run_items == 2 * order_rows, "a warp for a pair of blocks");

// One map of order_build.
struct order_request {
    kernel_shape kernel;
    int threshold;        // the map's columns: offsets with a norm below it; map_all (map.h): all
    const int32_t *map;   // [capacity, columns]
    const int32_t *count; // [1] rows that are read
    int32_t capacity;
    order_layout layout;
    const int32_t *compact; // null; or the compact form of the map (index/compact.h), which is not
                          // read then: [size.x, capacity, compact_record_words], of this capacity
};

// What the blocks of a launch take: rows for their keys, runs of rows or places, pairs of blocks,
// or 32 offsets of one.
enum order_unit { order_by_key, order_by_run, order_by_pair, order_units };

// Directions have numbers of their own here: among those that the columns lie in.
struct order_task {
    order_request request;
    uint32_t directions;              // that the columns lie in
    int32_t first_row;                // among the rows of all maps,
    int32_t first[order_units];       // and its first unit
    uint8_t weight[order_directions]; // of each direction
    uint8_t number[order_directions]; // of each column's direction, if there are no more columns
};

struct order_batch {
    order_task task[order_maps_max];
    order_numbers numbers;
    int tasks;
    int32_t rows, units[order_units]; // of all maps
    int32_t volume;                   // the largest that is read from a map as it stands
};

// A row with its key.
struct __align__(8) order_item {
    uint32_t key;
    int32_t row;
};

struct order_scratch {
    uint32_t *key;      // [rows] of all maps
    uint32_t *seen;     // [rows] of all maps: the directions in which each has taps
    uint32_t *splitter; // [maps, order_lists, order_list_classes]: order_find_splitters
    int32_t *total;     // [maps, order_classes] rows of each class
    uint16_t *begin;    // [order_classes, runs] of each map: where each class of a chunk begins
    order_item *item;   // [rows] of all maps, chunk by chunk in classes
    uint8_t *weight;    // [runs, order_run_pairs] of all maps: of each pair of blocks
};

static_assert(sizeof(order_batch) + sizeof(order_scratch) <= 4096, "parameters of a kernel");

// The map that a unit of a launch belongs to.
SPIRA_DEVICE int order_find_task(const order_batch &batch, order_unit by, int32_t unit) {
    int t = 0;
    for (int step = order_maps_max / 2; step; step /= 2) {
        if (t + step < batch.tasks && unit >= batch.task[t + step].first[by]) {
            t += step;
        }
    }
    return t;
}

SPIRA_DEVICE int32_t order_find_count(const order_request &r) {
    return min(*r.count, r.capacity);
}

// The number of a direction that columns lie in.
SPIRA_BOTH int order_number_in(const order_task &task, int direction) {
    return count_bits(task.directions & ((1u << direction) - 1));
}

// Whether task.number has the directions of its columns.
SPIRA_BOTH bool order_few_columns(const order_task &task) {
    return task.request.layout.volume <= order_directions;
}

// ---- rows of a map ------------------------------------------------------------------------------

// How a warp reads columns of rows that lie anywhere: as many rows at a time as it has lanes for.
struct order_lanes {
    int each;        // rows at a time
    int row, column; // of a lane; a row of 32: none
};

SPIRA_DEVICE order_lanes order_lanes_make(int columns) {
    const unsigned lane = threadIdx.x % 32, row = lane / columns, each = 32u / columns;
    return {(int)each, row < each ? (int)row : 32, (int)(lane - row * columns)};
}

// A lane's element of rows number first + lanes.row, and of each further step of them; behind row
// 31 they begin again. row: lane j has that of number j of the warp. map: at the first column.
template <int steps>
SPIRA_DEVICE void order_load(const int32_t *__restrict__ map, int volume, int32_t row, int first,
                             const order_lanes &lanes, int32_t (&tap)[steps]) {
    const char *column = (const char *)(map + lanes.column);
    const uint32_t pitch = (uint32_t)volume * (uint32_t)sizeof(int32_t);
    int number = first + lanes.row;
#pragma unroll
    for (int j = 0; j < steps; ++j, number += lanes.each) {
        uint32_t from = (uint32_t)__shfl_sync(~0u, row, number);
        tap[j] = __ldg((const int32_t *)(column + (uint64_t)from * pitch));
    }
}

// Which of the columns k .. k + columns the row of a lane has, of 32 consecutive rows; the first
// `rows` are there, the others have none. map: at the first row. Rows of up to 32 columns are read
// as one string of bits, of more one at a time. batch: of a lane's reads that are under way.
template <int batch>
SPIRA_DEVICE uint32_t order_find_taps(const int32_t *__restrict__ map, int volume, int rows, int k,
                                      int columns) {
    const int lane = threadIdx.x % 32;
    const bool whole = volume <= 32;
    const char *bytes = (const char *)map;
    const unsigned size = sizeof(int32_t), steps = whole ? volume : 32;
    const unsigned end = whole || lane < columns ? min(max(rows, 0), 32) * volume * size : 0;
    const unsigned step = (whole ? 32 : volume) * size;
    unsigned at = (k + lane) * size;
    uint32_t word = 0; // a lane's own: of the step of its number
    for (unsigned first = 0; first < steps; first += batch) {
        int32_t tap[batch];
#pragma unroll
        for (int j = 0; j < batch; ++j, at += step) {
            tap[j] = at < end ? __ldg((const int32_t *)(bytes + at)) : -1;
        }
        const int own = lane - (int)first;
#pragma unroll
        for (int j = 0; j < batch; ++j) {
            uint32_t all = __ballot_sync(~0u, tap[j] >= 0);
            word = own == j ? all : word;
        }
    }
    if (!whole) {
        return word;
    }
    const int bit = lane * volume;
    uint32_t low = __shfl_sync(~0u, word, bit / 32);
    uint32_t high = __shfl_sync(~0u, word, min(bit / 32 + 1, 31));
    uint32_t has = __funnelshift_r(low, high, bit % 32);
    return volume < 32 ? has & ((1u << volume) - 1) : has;
}

// The same of rows that lie anywhere; row: that of a lane.
SPIRA_DEVICE uint32_t order_gather_taps(const int32_t *__restrict__ map, int volume, int32_t row,
                                        int k, int columns) {
    const int lane = threadIdx.x % 32;
    int32_t tap[32];
    uint32_t word = 0;
    order_load(map + k, volume, row, 0, {1, 0, min(lane, columns - 1)}, tap);
#pragma unroll
    for (int j = 0; j < 32; ++j) {
        uint32_t all = __ballot_sync(~0u, tap[j] >= 0);
        word = lane == j ? all : word;
    }
    return columns < 32 ? word & ((1u << columns) - 1) : word;
}

enum { order_lane_columns = 8 };

// The same of a row of so few columns, each lane by itself.
SPIRA_DEVICE uint32_t order_lane_taps(const int32_t *__restrict__ map, int volume, int32_t row) {
    int32_t tap[order_lane_columns];
    uint32_t has = 0;
#pragma unroll
    for (int c = 0; c < order_lane_columns; ++c) {
        tap[c] = c < volume ? __ldg(map + (int64_t)row * volume + c) : -1;
    }
#pragma unroll
    for (int c = 0; c < order_lane_columns; ++c) {
        has |= tap[c] >= 0 ? 1u << c : 0;
    }
    return has;
}

// ---- sorting by a digit -------------------------------------------------------------------------

template <int threads>
using order_scan = cub::BlockScan<int, threads, cub::BLOCK_SCAN_WARP_SCANS>;

// What a block of threads has in shared memory to sort `items` elements of each thread by a digit
// of `bits`. Element i of a lane has place (warp * items + i) * 32 + lane.
template <int threads, int items, int bits = order_digit_bits>
struct __align__(16) order_shared {
    union {
        uint16_t count[threads / 32][1 << bits]; // elements of a warp with a digit, then the place
                                                 // of its first among those of the digit
        order_item item[threads * items];
        int32_t head[threads * items];
        uint32_t sample[threads * items];
    };
    uint16_t begin[1 << bits]; // the place of the first with a digit
    typename order_scan<threads>::TempStorage scan;
};

// count: from elements of each warp to their places among those with the same digit; begin. By the
// first half as many threads as there are digits, two each.
template <int threads, int items, int bits>
SPIRA_DEVICE void order_count_digits(order_shared<threads, items, bits> &s) {
    const int pairs = (1 << bits) / 2;
    uint32_t *pair = (uint32_t *)s.count + threadIdx.x, sum = 0;
    if (threadIdx.x < pairs) {
#pragma unroll
        for (int w = 0; w < threads / 32; ++w) {
            uint32_t own = pair[w * pairs];
            pair[w * pairs] = sum;
            sum += own;
        }
    }
    int low = sum & 0xffff, begin;
    order_scan<threads>(s.scan).ExclusiveSum(low + (int)(sum >> 16), begin);
    if (threadIdx.x < pairs) {
        ((uint32_t *)s.begin)[threadIdx.x] = (uint32_t)begin | (uint32_t)(begin + low) << 16;
    }
}

// The place of each element by its digit; those with the same one stay in their order. begin: as
// order_shared has it.
template <int threads, int items, int bits>
SPIRA_DEVICE void order_rank(const uint32_t (&digit)[items], int (&place)[items],
                             order_shared<threads, items, bits> &s) {
    const int lane = threadIdx.x % 32;
    uint16_t *count = s.count[threadIdx.x / 32];
    for (int i = lane; i < (1 << bits) * 2 / 16; i += 32) {
        ((uint4 *)count)[i] = {0, 0, 0, 0};
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < items; ++i) {
        uint32_t peers = warp_peers<bits>(digit[i]);
        int before = __popc(peers & ((1u << lane) - 1)), base = count[digit[i]];
        __syncwarp();
        if (before == 0) {
            count[digit[i]] = (uint16_t)(base + __popc(peers));
        }
        __syncwarp();
        place[i] = base + before;
    }
    __syncthreads();
    order_count_digits(s);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < items; ++i) {
        place[i] += count[digit[i]] + s.begin[digit[i]];
    }
}

// Puts each element at its place.
template <int threads, int items, int bits>
SPIRA_DEVICE void order_exchange(const int (&place)[items], order_item (&item)[items],
                                 order_shared<threads, items, bits> &s) {
    const int first = (int)threadIdx.x / 32 * items * 32 + (int)threadIdx.x % 32;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < items; ++i) {
        s.item[place[i]] = item[i];
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < items; ++i) {
        item[i] = s.item[first + i * 32];
    }
}

// Sorts by `bits` bits of the key; digits in which `differ`, of all threads together, has no bit
// are the same for all.
template <int threads, int items>
SPIRA_DEVICE void order_sort(int bits, uint32_t differ, order_item (&item)[items],
                             order_shared<threads, items> &s) {
    const uint32_t mask = (1 << order_digit_bits) - 1;
    for (int shift = 0; shift < bits; shift += order_digit_bits) {
        uint32_t digit[items];
        int place[items];
        if (__syncthreads_or((int)(differ >> shift & mask))) {
#pragma unroll
            for (int i = 0; i < items; ++i) {
                digit[i] = item[i].key >> shift & mask;
            }
            order_rank(digit, place, s);
            order_exchange(place, item, s);
        }
    }
}

// ---- keys ---------------------------------------------------------------------------------------

// [words, 32]: the columns of a word that lie in each direction that the columns lie in.
typedef uint32_t order_sets[order_words_max * 32];

// By all threads of a block, for its map; nothing where keys are found without. Each warp counts
// the columns of all offsets; the offsets are dealt out to the warps, 32 at a time.
SPIRA_DEVICE void order_fill_sets(const order_batch &batch, const order_task &task,
                                  order_sets &sets) {
    const order_request &r = task.request;
    if (r.compact || order_few_columns(task)) {
        return;
    }
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, volume = kernel_volume(&r.kernel);
    for (int i = threadIdx.x; i < order_words(r.layout.volume) * 32; i += blockDim.x) {
        sets[i] = 0;
    }
    __syncthreads();
    int column = 0;
    for (int first = 0; first < volume; first += 32) {
        int k = first + lane;
        bool has = k < volume && kernel_norm(&r.kernel, k) < r.threshold;
        uint32_t all = __ballot_sync(~0u, has);
        if (has && first / 32 % (blockDim.x / 32) == warp) {
            const int c = column + __popc(all & ((1u << lane) - 1));
            const int direction = order_direction(&r.kernel, &batch.numbers, k);
            atomicOr(sets + c / 32 * 32 + order_number_in(task, direction), 1u << c % 32);
        }
        column += __popc(all);
    }
    __syncthreads();
}

// In which directions a row has taps, of few columns.
SPIRA_DEVICE uint32_t order_find_directions(const order_task &task, uint32_t has) {
    uint32_t directions = 0;
#pragma unroll 4
    for (int c = 0; c < task.request.layout.volume; ++c) {
        directions |= (has >> c & 1) << task.number[c];
    }
    return directions;
}

// In which of the sets of a word a row has taps, whose columns of that word are `has`.
SPIRA_DEVICE uint32_t order_find_sets(uint32_t has, const uint32_t *sets, int many) {
    uint32_t mask = 0;
    for (int d = 0; d < many; d += 4) {
        uint4 set = *(const uint4 *)(sets + d);
        uint32_t four = (has & set.x ? 1 : 0) | (has & set.y ? 2 : 0) | (has & set.z ? 4 : 0) |
                        (has & set.w ? 8 : 0);
        mask |= four << d;
    }
    return mask;
}

// The sign of number i of K offsets along an axis, above -1.
SPIRA_BOTH constexpr int order_side(int K, int i) {
    return i < K / 2 ? 0 : i == K / 2 ? 1 : 2;
}

// The offsets of a slab on a side of y and one of z.
SPIRA_BOTH constexpr uint32_t order_side_mask(int K, int y, int z) {
    uint32_t mask = 0;
    for (int c = 0; c < K * K; ++c) {
        mask |= order_side(K, c / K) == y && order_side(K, c % K) == z ? 1u << c : 0;
    }
    return mask;
}

// In which directions of a slab, of the 9 on its side of x, a row has sources. The kernel has all
// 27 directions: their numbers are those of layout/order.h.
template <int K, int x, int side = 0>
SPIRA_DEVICE uint32_t order_slab_directions(uint32_t has) {
    constexpr uint32_t mask = order_side_mask(K, side / 3, side % 3);
    uint32_t directions = has & mask ? 1u << order_number(x * 9 + side) : 0;
    if constexpr (side + 1 < 9) {
        directions |= order_slab_directions<K, x, side + 1>(has);
    }
    return directions;
}

template <int K, int slab = 0>
SPIRA_DEVICE uint32_t order_slabs_directions(const uint32_t (&has)[K]) {
    uint32_t directions = order_slab_directions<K, order_side(K, slab)>(has[slab]);
    if constexpr (slab + 1 < K) {
        directions |= order_slabs_directions<K, slab + 1>(has);
    }
    return directions;
}

// What is found out of a row.
struct order_seen {
    uint32_t key, directions;
};

// The same of so many rows of a compact map, read side by side.
template <int K, int rows>
SPIRA_DEVICE void order_find_slab_keys(const order_request &r, const int32_t (&row)[rows],
                                       order_seen (&seen)[rows]) {
    uint32_t has[rows][K];
#pragma unroll
    for (int i = 0; i < rows; ++i) {
#pragma unroll
        for (int s = 0; s < K; ++s) {
            has[i][s] = (uint32_t)__ldg(r.compact + compact_at(K, r.capacity, s, row[i]) + K);
        }
    }
#pragma unroll
    for (int i = 0; i < rows; ++i) {
        seen[i].directions = order_slabs_directions<K>(has[i]);
        seen[i].key = order_key(K == 3, seen[i].directions);
    }
}

template <int rows>
SPIRA_DEVICE void order_find_slab_keys_any(const order_request &r, const int32_t (&row)[rows],
                                           order_seen (&seen)[rows]) {
    if (r.kernel.size.x == 3) {
        order_find_slab_keys<3>(r, row, seen);
    } else {
        order_find_slab_keys<5>(r, row, seen);
    }
}

// Of a lane's row. apart: the rows of a warp lie anywhere; otherwise they are consecutive, and
// `rows` of them there. Bits for the kernel's own directions: in the same order as those of
// layout/order.h, as the others are bits that no row has. Those of size 3 have the numbers of
// layout/order.h: a threshold leaves out the last ones.
template <bool apart>
SPIRA_DEVICE order_seen order_find_key(const order_task &task, int32_t row, int rows,
                                       const order_sets &sets) {
    const int volume = task.request.layout.volume, many = __popc(task.directions);
    const int32_t *map = task.request.map;
    const int32_t *first = map + (int64_t)(row - (int)threadIdx.x % 32) * volume;
    const bool few = volume <= order_lane_columns;
    uint32_t directions = 0;
    for (int k = 0; k < volume; k += order_slab) {
        const int columns = min(volume - k, (int)order_slab);
        uint32_t has;
        if (apart) {
            has = few ? order_lane_taps(map, volume, row)
                      : order_gather_taps(map, volume, row, k, columns);
        } else {
            has = few ? order_find_taps<order_lane_columns>(first, volume, rows, k, columns)
                      : order_find_taps<16>(first, volume, rows, k, columns);
        }
        directions |= order_few_columns(task) ? order_find_directions(task, has)
                                              : order_find_sets(has, sets + k, many);
    }
    return {order_key(order_has_groups(&task.request.kernel), directions), directions};
}

// Bits of the keys of a map.
SPIRA_DEVICE int order_key_bits(const order_task &task) {
    return order_has_groups(&task.request.kernel) ? (int)order_groups : __popc(task.directions);
}

enum { order_list_items = order_list_samples / order_key_threads };

struct order_key_shared {
    order_sets sets;
    order_shared<order_key_threads, order_list_items> list;
};

// The keys of a list's samples to s.sample, in any order. A thread writes the items that it will
// sort.
SPIRA_DEVICE void order_find_samples(const order_task &task, int list, int32_t count,
                                     order_key_shared &s) {
    const int first = (int)threadIdx.x / 32 * order_list_items * 32 + (int)threadIdx.x % 32;
    if (!task.request.compact) {
#pragma unroll 1
        for (int i = 0; i < order_list_items; ++i) {
            const int sample = first + i * 32;
            const int32_t row = order_sample_row(order_lists * sample + list, count);
            s.list.sample[sample] = order_find_key<true>(task, row, 32, s.sets).key;
        }
        return;
    }
    int32_t row[order_list_items];
    order_seen seen[order_list_items];
#pragma unroll
    for (int i = 0; i < order_list_items; ++i) {
        row[i] = order_sample_row(order_lists * (first + i * 32) + list, count);
    }
    order_find_slab_keys_any(task.request, row, seen);
#pragma unroll
    for (int i = 0; i < order_list_items; ++i) {
        s.list.sample[first + i * 32] = seen[i].key;
    }
}

// The first keys of a list's classes from the second on: each key once, so that few classes are
// without keys; behind them, UINT32_MAX. By all threads of a block; sample: as order_find_samples
// leaves it.
SPIRA_DEVICE void order_find_splitters(int bits,
                                       order_shared<order_key_threads, order_list_items> &s,
                                       uint32_t *splitter) {
    const int first = (int)threadIdx.x / 32 * order_list_items * 32 + (int)threadIdx.x % 32;
    const int c = 2 * (int)threadIdx.x; // and c + 1
    order_item item[order_list_items];
#pragma unroll
    for (int i = 0; i < order_list_items; ++i) {
        item[i] = {s.sample[first + i * 32], 0};
    }
    order_sort(bits, ~0u, item, s);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < order_list_items; ++i) {
        s.sample[first + i * 32] = item[i].key;
    }
    __syncthreads();
    uint32_t begin[2] = {order_class_begin(s.sample, c), order_class_begin(s.sample, c + 1)};
    bool own = c > 0 && (order_class_begin(s.sample, max(c - 1, 0)) != begin[0]);
    bool next = c == 0 || begin[0] != begin[1];
    int place, all;
    order_scan<order_key_threads>(s.scan).ExclusiveSum((int)own + (int)next, place, all);
    if (own) {
        splitter[place] = begin[0];
    }
    if (next) {
        splitter[place + own] = begin[1];
    }
    for (int i = c; i < c + 2; ++i) {
        if (i >= all) {
            splitter[i] = UINT32_MAX;
        }
    }
}

// A list of samples; and no class has rows yet.
SPIRA_DEVICE void order_list(const order_batch &batch, const order_scratch &s, int number, int list,
                             order_key_shared &shared) {
    const order_task &task = batch.task[number];
    const int32_t count = order_find_count(task.request);
    const int first = (number * order_lists + list) * order_list_classes;
    ((int2 *)(s.total + first))[threadIdx.x] = {0, 0};
    order_fill_sets(batch, task, shared.sets);
    if (count > 0) {
        order_find_samples(task, list, count, shared);
        order_find_splitters(order_key_bits(task), shared.list, s.splitter + first);
    }
}

// The lists of all maps, then the keys of all rows, a block of threads 256 of them.
SPIRA_KERNEL void __launch_bounds__(order_key_threads)
    order_key_kernel(const __grid_constant__ order_batch batch, order_scratch s) {
    __shared__ __align__(16) order_key_shared shared;
    const int lists = batch.tasks * order_lists, unit = (int)blockIdx.x - lists;
    if (unit < 0) {
        order_list(batch, s, (int)blockIdx.x / order_lists, (int)blockIdx.x % order_lists, shared);
        pdl_wait();
        return;
    }
    const order_task &task = batch.task[order_find_task(batch, order_by_key, unit)];
    const int32_t first = (unit - task.first[order_by_key]) * order_key_threads;
    const int32_t row = first + (int)threadIdx.x, warp = row / 32 * 32;
    const int32_t count = order_find_count(task.request);
    order_fill_sets(batch, task, shared.sets); // while it is read how many rows there are
    if (warp < count) {
        order_seen seen[1];
        if (task.request.compact) {
            const int32_t own[1] = {min(row, count - 1)};
            order_find_slab_keys_any(task.request, own, seen);
        } else {
            seen[0] = order_find_key<false>(task, row, count - warp, shared.sets);
        }
        if (row < count) {
            s.key[task.first_row + row] = seen[0].key;
            s.seen[task.first_row + row] = seen[0].directions;
        }
    }
    pdl_wait();
}

// ---- classes ------------------------------------------------------------------------------------

typedef order_shared<order_run_threads, order_run_items, order_class_bits> order_class_shared;
// The lists of splitters in shared memory, as search trees (tree_node).
typedef uint32_t order_trees[order_lists][order_list_classes];

static_assert(order_lists == 2, "two trees, of half the classes each");

// The class of a key.
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

// Tells where each class of a chunk begins, and adds its rows to those of all chunks.
SPIRA_DEVICE void order_tell_classes(const order_task &task, const order_scratch &s, int number,
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

// Puts the rows of each chunk in their classes, adds up the classes' rows.
SPIRA_KERNEL void __launch_bounds__(order_run_threads, 2)
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
        pdl_wait();
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
        // The last of a list tells nothing.
        tree[list][b < order_list_classes ? tree_node(order_list_classes, b) : 0] =
            s.splitter[number * order_classes + i];
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < order_run_items; ++i) {
        // Behind the last row: at the end, and the last class does not begin later for it.
        digit[i] = first + i * 32 < rows ? order_find_class(tree, item[i].key) : order_classes - 1;
    }
    order_rank(digit, place, shared);
    order_tell_classes(task, s, number, chunk, rows, shared);
    order_exchange(place, item, shared);
#pragma unroll
    for (int i = 0; i < order_run_items; ++i) {
        if (first + i * 32 < rows) {
            s.item[task.first_row + begin + first + i * 32] = item[i];
        }
    }
    pdl_wait();
}

typedef order_shared<order_run_threads, order_run_items> order_run_shared;

// ---- runs ---------------------------------------------------------------------------------------

// The classes that have rows in a run of places.
struct order_classes_of {
    int first, last;
    int32_t begin; // the place of the first class, from the run's first place on: <= 0
};

// total: the rows of a thread's two classes; the run has places begin .. begin + rows.
SPIRA_DEVICE order_classes_of order_find_classes(int2 total, int32_t begin, int rows,
                                                 order_run_shared &s) {
    __shared__ order_classes_of found;
    int32_t own[2] = {total.x, total.y}, place[2];
    order_scan<order_run_threads>(s.scan).ExclusiveSum(own, place);
#pragma unroll
    for (int j = 0; j < 2; ++j) {
        const int32_t at = place[j] - begin;
        if (own[j] && at <= 0 && at + own[j] > 0) {
            found.first = 2 * (int)threadIdx.x + j;
            found.begin = at;
        }
        if (own[j] && at < rows && at + own[j] >= rows) {
            found.last = 2 * (int)threadIdx.x + j;
        }
    }
    __syncthreads();
    return found;
}

// Where the rows of a run are: for the first row that comes from a chunk in a class, head [places]
// has its place among the map's items; -1 for the others. begin [order_classes, runs]: of the map.
SPIRA_DEVICE void order_find_heads(const uint16_t *__restrict__ begin, int32_t runs, int32_t count,
                                   const order_classes_of &classes, int rows, order_run_shared &s) {
    for (int p = threadIdx.x; p < order_run; p += order_run_threads) {
        s.head[p] = -1;
    }
    const int each = 4; // parts of a thread, side by side
    const int chunks = (int)ceil_div(count, order_run);
    const int parts = (classes.last - classes.first + 1) * chunks; // below 2^30
    int32_t place = classes.begin;
    for (int first = 0; first < parts && place < rows; first += order_run_threads * each) {
        const int part = first + (int)threadIdx.x * each;
        int c = classes.first + (int)((unsigned)part / (unsigned)chunks);
        int chunk = (int)((unsigned)part % (unsigned)chunks), from[each], own[each], before[each];
        int all;
#pragma unroll
        for (int j = 0; j < each; ++j) {
            from[j] = own[j] = 0;
            if (part + j < parts) {
                const uint16_t *at = begin + (int64_t)c * runs + chunk;
                int end = c + 1 < order_classes ? at[runs]
                                                : min(count - chunk * order_run, (int)order_run);
                own[j] = end - at[0];
                from[j] = chunk * order_run + at[0];
            }
            chunk = chunk + 1 < chunks ? chunk + 1 : 0;
            c += chunk == 0;
        }
        __syncthreads(); // of the scan's storage, and of what head was
        order_scan<order_run_threads>(s.scan).ExclusiveSum(own, before, all);
#pragma unroll
        for (int j = 0; j < each; ++j) {
            int at = before[j] + place;
            if (own[j] && at < rows && at + own[j] > 0) {
                s.head[max(at, 0)] = from[j] + max(-at, 0);
            }
        }
        place += all;
    }
    __syncthreads();
}

// Where each row of the run is among the map's items.
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

// The items of a run, places begin .. begin + rows of the map, as the classes have them. Those
// behind the last: no row, and the largest key. total: as of order_find_classes.
SPIRA_DEVICE void order_collect(const order_task &task, const order_scratch &s, int2 total,
                                int32_t begin, int rows, int32_t count, order_run_shared &shared,
                                order_item (&item)[order_run_items]) {
    const int32_t runs = (int32_t)ceil_div(task.request.capacity, order_run);
    const int first = (int)threadIdx.x / 32 * order_run_items * 32 + (int)threadIdx.x % 32;
    int32_t from[order_run_items];
    order_classes_of classes = order_find_classes(total, begin, rows, shared);
    order_find_heads(s.begin + (int64_t)task.first[order_by_run] * order_classes, runs, count,
                     classes, rows, shared);
    order_follow_heads(from, shared);
#pragma unroll
    for (int i = 0; i < order_run_items; ++i) {
        item[i] = {UINT32_MAX, -1};
        if (first + i * 32 < rows) {
            item[i] = s.item[task.first_row + from[i]];
        }
    }
}

// What a warp's places weigh, a pair of blocks; `rows` of the run are there. seen: of the map.
SPIRA_DEVICE int order_weigh(const order_task &task, const uint32_t *seen, int first, int rows,
                             const order_item (&item)[order_run_items]) {
    const int lane = threadIdx.x % 32;
    uint32_t directions = 0;
#pragma unroll
    for (int i = 0; i < order_run_items; ++i) {
        directions |= first + i * 32 < rows ? seen[item[i].row] : 0;
    }
    directions = warp_unite(directions);
    return warp_sum(directions >> lane & 1 ? task.weight[lane] : 0);
}

// Sorts each run, writes its rows to the layout, and weighs its pairs.
SPIRA_KERNEL void __launch_bounds__(order_run_threads, 2)
    order_run_kernel(const __grid_constant__ order_batch batch, order_scratch s) {
    __shared__ order_run_shared shared;
    __shared__ uint32_t any; // some key of the run
    const int number = order_find_task(batch, order_by_run, (int)blockIdx.x);
    const order_task &task = batch.task[number];
    const order_request &r = task.request;
    // While it is read how many rows there are.
    const int2 total = ((const int2 *)(s.total + number * order_classes))[threadIdx.x];
    const int32_t count = order_find_count(r);
    const int32_t begin = ((int32_t)blockIdx.x - task.first[order_by_run]) * order_run;
    const int first = (int)threadIdx.x / 32 * order_run_items * 32 + (int)threadIdx.x % 32;
    const int rows = min(count - begin, (int)order_run);
    order_item item[order_run_items];
    if (rows > 0) {
        order_collect(task, s, total, begin, rows, count, shared, item);
        if (threadIdx.x == 0) {
            any = item[0].key;
        }
        __syncthreads();
        uint32_t differ = 0;
#pragma unroll
        for (int i = 0; i < order_run_items; ++i) {
            differ |= first + i * 32 < rows ? item[i].key ^ any : 0;
        }
        order_sort(order_key_bits(task), differ, item, shared);
    }
    const int weight = order_weigh(task, s.seen + task.first_row, first, rows, item);
    if (threadIdx.x % 32 == 0) {
        s.weight[blockIdx.x * order_run_pairs + threadIdx.x / 32] = (uint8_t)weight;
    }
#pragma unroll
    for (int i = 0; i < order_run_items; ++i) {
        int32_t place = begin + first + i * 32;
        if (place < order_count(r.capacity) * order_rows) {
            r.layout.row[place] = first + i * 32 < rows ? item[i].row : -1;
        }
    }
}

// ---- layouts ------------------------------------------------------------------------------------

SPIRA_BOTH int order_pitch(int volume) {
    return (volume < order_slab ? volume : order_slab) | 1; // rows spread over the banks
}

// The columns k .. k + columns of a warp's rows, to taps [32, pitch], which is shared. Returns
// which of them some row has. row: as of order_load, from some lane on -1: none; its taps are -1.
SPIRA_DEVICE uint32_t order_load_slab(const int32_t *__restrict__ map, int volume, int32_t row,
                                      int k, int columns, int32_t *taps) {
    const int steps = 16, pitch = order_pitch(volume);
    const order_lanes lanes = order_lanes_make(columns);
    const uint32_t size = sizeof(int32_t), begin = shared_address(taps);
    const uint32_t end = begin + 32 * pitch * size, step = lanes.each * pitch * size;
    const int32_t some = __shfl_sync(~0u, row, 0);
    uint32_t to = begin + (lanes.row * pitch + lanes.column) * size, found = 0;
    int32_t none = -1; // negative as long as all elements are
    for (int first = 0; first < 32 && some >= 0; first += steps * lanes.each) {
        int32_t tap[steps];
        order_load(map + k, volume, row < 0 ? some : row, first, lanes, tap);
#pragma unroll
        for (int j = 0; j < steps; ++j, to += step) {
            none &= tap[j];
            if (to < end) {
                shared_store(to, (uint32_t)tap[j]);
            }
        }
    }
    uint32_t all = __ballot_sync(~0u, none >= 0);
    for (int j = 0; j < lanes.each; ++j) {
        found |= all >> j * columns;
    }
    __syncwarp(); // other lanes have stored there
    for (int c = 0; c < columns && row < 0; ++c) {
        taps[(int)threadIdx.x % 32 * pitch + c] = -1;
    }
    return columns < 32 ? found & ((1u << columns) - 1) : found;
}

// The sources of a slab's offsets, `bits` of those from k on, for a block. Its two warps take
// offsets in turns, a lane two places. taps [order_rows, pitch] of the block.
SPIRA_DEVICE void order_put_slab(const order_layout &t, int64_t block, int k, uint32_t bits,
                                 const int32_t *taps) {
    const int lane = threadIdx.x % 32, pitch = order_pitch(t.volume);
    bool mine = threadIdx.x / 32 % 2 == 0;
    for (; bits; bits &= bits - 1, mine = !mine) {
        if (mine) {
            int c = __ffs((int)bits) - 1;
            int32_t *source = t.source + order_begin(&t, block, k + c);
            source[lane] = taps[lane * pitch + c];
            source[lane + 32] = taps[(lane + 32) * pitch + c];
        }
    }
}

// How many of four pairs, from number `first` on, come before `pair`, which weighs `own`. four:
// what they weigh.
SPIRA_DEVICE int order_count_before(uint32_t four, int first, int pair, uint32_t own) {
    const int low = min(max(pair - first, 0), 4); // have a lower number
    const uint32_t lower = low < 4 ? 0x01010101u & ((1u << 8 * low) - 1) : 0x01010101u;
    return __popc(__vsetgeu4(four, (own + 1) * 0x01010101u - lower));
}

// How many pairs of its scope come before one, in four parts: by a block of threads, each warp gets
// one. weight: of the map's pairs, 0 of those that have no outputs.
SPIRA_DEVICE int order_find_before(const uint8_t *__restrict__ weight, int32_t pair,
                                   int32_t pairs) {
    const int each = sizeof(uint4);
    const int32_t scope = pair / order_scope * order_scope;
    const int32_t end = min(scope + (int32_t)order_scope, pairs);
    const uint32_t own = weight[pair];
    int before = 0;
    for (int at = scope + (int)threadIdx.x * each; at < end; at += order_put_threads * each) {
        const uint4 w = *(const uint4 *)(weight + at);
        before += order_count_before(w.x, at, pair, own);
        before += order_count_before(w.y, at + 4, pair, own);
        before += order_count_before(w.z, at + 8, pair, own);
        before += order_count_before(w.w, at + 12, pair, own);
    }
    return warp_sum(before);
}

// What warps of a block of threads of order_put_kernel tell each other.
struct order_put_shared {
    uint32_t found[order_put_threads / 32][compact_size_most]; // what some row of the warp has
    int before[order_put_threads / 32];                     // pairs
};

// 32 columns from k on of a pair of blocks, from the map as it stands. Writes sources and masks. By
// all threads of a block, with a barrier inside; row: of the thread, or -1. taps [2 order_rows,
// pitch].
SPIRA_DEVICE void order_put_columns(const order_request &r, int64_t block, int k, int32_t row,
                                    int32_t *taps, order_put_shared &s) {
    const order_layout &t = r.layout;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, pitch = order_pitch(t.volume);
    uint32_t own = order_load_slab(r.map, t.volume, row, k, min(t.volume - k, (int)order_slab),
                                   taps + warp * 32 * pitch);
    if (lane == 0) {
        s.found[warp][0] = own;
    }
    __syncthreads();
    const uint32_t bits = s.found[warp / 2 * 2][0] | s.found[warp / 2 * 2 + 1][0];
    order_put_slab(t, block, k, bits, taps + warp / 2 * order_rows * pitch);
    if (lane == 0 && warp % 2 == 0 && block < order_count(r.capacity)) {
        t.mask[block * order_words(t.volume) + k / order_slab] = bits;
    }
}

// A record of a compact map.
template <int K>
SPIRA_DEVICE void order_load_record(const int32_t *__restrict__ from, int32_t (&record)[K + 1]) {
    if constexpr (K == 3) {
        const int4 v = __ldg((const int4 *)from);
        record[0] = v.x, record[1] = v.y, record[2] = v.z, record[3] = v.w;
    } else {
#pragma unroll
        for (int i = 0; i < K + 1; i += 2) {
            const int2 v = __ldg((const int2 *)(from + i));
            record[i] = v.x, record[i + 1] = v.y;
        }
    }
}

// The sources of a slab's offsets, those of `any`, for the place of a lane. to: where that of the
// slab's first offset stands; offsets are order_rows apart.
template <int K>
SPIRA_DEVICE void order_put_record(const int32_t (&record)[K + 1], uint32_t any, int32_t *to) {
#pragma unroll
    for (int y = 0; y < K; ++y) {
        if (!(any >> y * K & ((1u << K) - 1))) {
            continue;
        }
        int32_t source = record[y];
#pragma unroll
        for (int c = y * K; c < y * K + K; ++c) {
            const bool has = record[K] >> c & 1;
            if (any >> c & 1) {
                to[c * order_rows] = has ? source : -1;
            }
            source += has;
        }
    }
}

// Which offsets a block has, from its slabs to the words of its mask.
template <int K>
SPIRA_DEVICE void order_put_mask(const order_layout &t, int64_t block, const uint32_t (&any)[K]) {
    const int words = (K * K * K + 31) / 32;
    uint32_t mask[words + 1] = {};
#pragma unroll
    for (int s = 0; s < K; ++s) {
        mask[s * K * K / 32] |= any[s] << s * K * K % 32;
        mask[s * K * K / 32 + 1] |= s * K * K % 32 ? any[s] >> (32 - s * K * K % 32) : 0;
    }
#pragma unroll
    for (int w = 0; w < words; ++w) {
        t.mask[block * words + w] = mask[w];
    }
}

// All of a pair of blocks, from the compact map: a thread has the records of its place. By all
// threads of a block, with a barrier inside; row: of the thread, or -1.
template <int K>
SPIRA_DEVICE void order_put_slabs(const order_request &r, int64_t block, int32_t row,
                                  order_put_shared &s) {
    const order_layout &t = r.layout;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int32_t own[K][K + 1];
    uint32_t any[K];
#pragma unroll
    for (int i = 0; i < K; ++i) {
        own[i][K] = 0;
        if (row >= 0) {
            order_load_record<K>(r.compact + compact_at(K, r.capacity, i, row), own[i]);
        }
    }
#pragma unroll
    for (int i = 0; i < K; ++i) {
        any[i] = warp_unite((uint32_t)own[i][K]);
        if (lane == 0) {
            s.found[warp][i] = any[i];
        }
    }
    __syncthreads();
    int32_t *to = t.source + order_begin(&t, block, 0) + warp % 2 * 32 + lane;
#pragma unroll
    for (int i = 0; i < K; ++i) {
        any[i] |= s.found[warp ^ 1][i];
        order_put_record<K>(own[i], any[i], to + i * K * K * order_rows);
    }
    if (lane == 0 && warp % 2 == 0 && block < order_count(r.capacity)) {
        order_put_mask<K>(t, block, any);
    }
}

// Blocks of threads for a pair of blocks: one for all offsets of a compact map, or one for 32.
SPIRA_BOTH int order_parts(const order_request &r) {
    return r.compact ? 1 : order_words(r.layout.volume);
}

// A block behind the last output has no offsets. By one thread.
SPIRA_DEVICE void order_put_nothing(const order_layout &t, int64_t block, int k, bool all) {
    const int words = order_words(t.volume);
    for (int w = all ? 0 : k / order_slab; w < (all ? words : k / order_slab + 1); ++w) {
        t.mask[block * words + w] = 0;
    }
}

// Writes the layouts but for their rows, a block of threads a pair of blocks or 32 of its offsets,
// a warp 32 places; and the turns.
SPIRA_KERNEL void __launch_bounds__(order_put_threads)
    order_put_kernel(const __grid_constant__ order_batch batch, order_scratch s) {
    extern __shared__ int32_t order_taps[]; // [2 order_rows, pitch]
    __shared__ order_put_shared shared;
    const order_task &task = batch.task[order_find_task(batch, order_by_pair, (int)blockIdx.x)];
    const order_request &r = task.request;
    const int unit = (int)blockIdx.x - task.first[order_by_pair], parts = order_parts(r);
    const int32_t pair = (int)((unsigned)unit / (unsigned)parts);
    const int k = (unit - pair * parts) * order_slab, lane = threadIdx.x % 32;
    const int warp = threadIdx.x / 32, block = 2 * pair + warp / 2;
    const int32_t blocks = order_count(r.capacity), count = order_find_count(r);
    const int32_t row = block < blocks ? r.layout.row[pair * order_put_threads + threadIdx.x] : -1;
    if (pair * order_put_threads >= count) {
        if (lane == 0 && warp % 2 == 0 && block < blocks) {
            order_put_nothing(r.layout, block, k, r.compact != nullptr);
        }
        return;
    }
    const uint8_t *weight = s.weight + task.first[order_by_run] * order_run_pairs;
    const int less = k ? 0 : order_find_before(weight, pair, order_pairs(blocks));
    if (lane == 0) {
        shared.before[warp] = less;
    }
    if (!r.compact) {
        order_put_columns(r, block, k, row, order_taps, shared);
    } else if (r.kernel.size.x == 3) {
        order_put_slabs<3>(r, block, row, shared);
    } else {
        order_put_slabs<5>(r, block, row, shared);
    }
    if (k == 0 && threadIdx.x == 0) {
        const int *before = shared.before;
        const int32_t scope = pair / order_scope * order_scope;
        r.layout.schedule[scope + before[0] + before[1] + before[2] + before[3]] = pair;
    }
}

// ---- launchers ----------------------------------------------------------------------------------

// How many blocks of threads a map takes of each launch.
SPIRA_API void order_count_units(int32_t capacity, int32_t (&units)[order_units]) {
    units[order_by_key] = (int32_t)ceil_div(capacity, order_key_threads);
    units[order_by_run] = (int32_t)ceil_div(capacity, order_run);
    units[order_by_pair] = order_pairs(order_count(capacity));
}

// The rows and runs of all maps.
SPIRA_API status order_rows_all(const order_request *request, int maps, int32_t *rows,
                                int32_t *runs) {
    SPIRA_REQUIRE(request, status_null_pointer, "request", 0);
    SPIRA_REQUIRE(maps >= 1 && maps <= order_maps_max, status_bad_size, "maps", maps);
    int64_t all = 0;
    *runs = 0;
    for (int m = 0; m < maps; ++m) {
        int32_t units[order_units];
        SPIRA_TRY(order_sizes_check(&request[m].kernel, request[m].capacity));
        order_count_units(request[m].capacity, units);
        all += request[m].capacity;
        *runs += units[order_by_run];
    }
    SPIRA_REQUIRE(all <= INT32_MAX / 2, status_bad_size, "capacity (of all maps)", all);
    *rows = (int32_t)all;
    return status_success();
}

SPIRA_API order_scratch order_carve(workspace *w, int maps, int32_t rows, int32_t runs) {
    order_scratch s;
    s.key = workspace_take<uint32_t>(w, rows);
    s.seen = workspace_take<uint32_t>(w, rows);
    s.splitter = workspace_take<uint32_t>(w, maps * order_classes);
    s.total = workspace_take<int32_t>(w, maps * order_classes);
    s.begin = workspace_take<uint16_t>(w, (int64_t)runs * order_classes);
    s.item = workspace_take<order_item>(w, rows);
    s.weight = workspace_take<uint8_t>(w, (int64_t)runs * order_run_pairs);
    return s;
}

// Bytes of scratch for order_build. Of the requests only kernels and capacities are read.
SPIRA_API status order_workspace(const order_request *request, int maps, size_t *bytes) {
    int32_t rows, runs;
    SPIRA_TRY(order_rows_all(request, maps, &rows, &runs));
    SPIRA_REQUIRE(bytes, status_null_pointer, "bytes", 0);
    workspace w = workspace_begin(nullptr);
    order_carve(&w, maps, rows, runs);
    *bytes = w.used;
    return status_success();
}

// The directions that the columns of a map lie in, and what they weigh.
SPIRA_API void order_task_weights(order_task *task) {
    const order_weights w = order_weights_make(&task->request.kernel, task->request.threshold);
    int number = 0;
    task->directions = w.directions;
    for (int d = 0; d < order_directions; ++d) {
        if (w.directions >> d & 1) {
            task->weight[number++] = w.weight[d];
        }
    }
}

// And the numbers of the columns' directions, if there are few columns.
SPIRA_API void order_task_numbers(const order_numbers *numbers, order_task *task) {
    const order_request *r = &task->request;
    const int volume = kernel_volume(&r->kernel);
    for (int k = 0, column = 0; order_few_columns(*task) && k < volume; ++k) {
        if (kernel_norm(&r->kernel, k) < r->threshold) {
            const int direction = order_direction(&r->kernel, numbers, k);
            task->number[column++] = (uint8_t)order_number_in(*task, direction);
        }
    }
}

SPIRA_API order_batch order_batch_make(const order_request *request, int maps) {
    order_batch batch = {};
    batch.numbers = order_numbers_make();
    batch.tasks = maps;
    for (int m = 0; m < maps; ++m) {
        const order_request *r = request + m;
        order_task *task = batch.task + m;
        int32_t units[order_units];
        order_count_units(r->capacity, units);
        units[order_by_pair] *= order_parts(*r);
        task->request = *r;
        order_task_weights(task);
        order_task_numbers(&batch.numbers, task);
        task->first_row = batch.rows;
        for (int u = 0; u < order_units; ++u) {
            task->first[u] = batch.units[u];
            batch.units[u] += units[u];
        }
        batch.rows += r->capacity;
        batch.volume = (int32_t)max_of(batch.volume, r->compact ? 1 : r->layout.volume);
    }
    return batch;
}

// A compact map has all offsets.
SPIRA_API status order_slabs_check(const order_request *r) {
    const bool all = r->layout.volume == kernel_volume(&r->kernel);
    SPIRA_REQUIRE(!r->compact || (compact_takes(&r->kernel) && all), status_unsupported,
                  "compact (for this map)", 0);
    SPIRA_REQUIRE((uintptr_t)r->compact % compact_alignment == 0, status_alignment, "compact",
                  compact_alignment);
    return status_success();
}

// The checks of order_build, and what its launches need.
struct order_launches {
    order_batch batch;
    order_scratch scratch;
};

SPIRA_API status order_begin_build(const order_request *request, int maps, void *scratch,
                                   size_t scratch_bytes, order_launches *l) {
    size_t needed;
    SPIRA_TRY(order_workspace(request, maps, &needed));
    for (int m = 0; m < maps; ++m) {
        const order_request *r = request + m;
        SPIRA_TRY(order_check(&r->kernel, r->threshold, r->compact ? r->compact : r->map, r->capacity,
                              &r->layout));
        SPIRA_REQUIRE(r->count, status_null_pointer, "count", 0);
        SPIRA_TRY(order_slabs_check(r));
    }
    SPIRA_TRY(workspace_check(scratch, scratch_bytes, needed));
    l->batch = order_batch_make(request, maps);
    workspace w = workspace_begin(scratch);
    l->scratch = order_carve(&w, maps, l->batch.rows, l->batch.units[order_by_run]);
    return status_success();
}

// The first launch of order_build. early: it needs nothing of the kernel before, which calls
// pdl_launch_dependents and pdl_wait; so with the second.
SPIRA_API status order_launch_keys(const order_launches *l, bool programmatic,
                                   cudaStream_t stream) {
    const order_batch &batch = l->batch;
    const unsigned blocks = (unsigned)(batch.tasks * order_lists + batch.units[order_by_key]);
    return kernel_launch(order_key_kernel, blocks, order_key_threads, 0, programmatic, 1, stream,
                         "order_build", batch, l->scratch);
}

// And the others.
SPIRA_API status order_launch_rest(const order_launches *l, bool programmatic,
                                   cudaStream_t stream) {
    const order_batch &batch = l->batch;
    const unsigned runs = (unsigned)batch.units[order_by_run];
    const unsigned puts = (unsigned)batch.units[order_by_pair];
    const size_t pitch = (size_t)order_pitch(batch.volume);
    const size_t taps = (size_t)order_put_threads * pitch * sizeof(int32_t);
    SPIRA_TRY(kernel_launch(order_class_kernel, runs, order_run_threads, 0, programmatic, 1, stream,
                            "order_build", batch, l->scratch));
    order_run_kernel<<<runs, order_run_threads, 0, stream>>>(batch, l->scratch);
    order_put_kernel<<<puts, order_put_threads, taps, stream>>>(batch, l->scratch);
    return status_of_launch("order_build");
}

// Builds the ordered layouts of up to 16 kernel maps.
//
// inputs   request [maps]: in device memory map or compact (map_forms.compact, map.h), and count; larger
//          counts than the capacity are taken for it
//          scratch: the bytes of order_workspace, aligned to 256
// outputs  the layout of each request: all blocks of its capacity; those beyond the count have rows
//          of -1 and no offsets. Layouts overlap neither each other nor maps nor scratch
// errors   null pointers, sizes, a layout that is too small for the capacity, scratch; nothing is
//          launched then
// Asynchronous, deterministic, equal to order_build_host.
// cost     reads the maps twice (of compact ones `has`, then the records), writes 256 bytes for
// each offset of each block; writes and reads
//          20 bytes for each output; a block of threads of each pair of blocks reads a byte of
//          each pair of its scope. Four launches
SPIRA_API status order_build(const order_request *request, int maps, void *scratch,
                             size_t scratch_bytes, cudaStream_t stream) {
    order_launches launches = {};
    SPIRA_TRY(order_begin_build(request, maps, scratch, scratch_bytes, &launches));
    SPIRA_TRY(order_launch_keys(&launches, false, stream));
    return order_launch_rest(&launches, false, stream);
}

// ---- slots --------------------------------------------------------------------------------------

enum { order_slots_threads = 256, order_slots_blocks = 1024 };

SPIRA_KERNEL void __launch_bounds__(order_slots_threads)
    order_slots_kernel(const __grid_constant__ order_layout t, const int32_t *__restrict__ count,
                       int32_t capacity, unsigned long long *slots) {
    const int32_t blocks = order_count(max(min(*count, capacity), 0));
    const int64_t words = (int64_t)blocks * order_words(t.volume);
    const int64_t step = (int64_t)gridDim.x * order_slots_threads;
    unsigned long long sum = 0;
    for (int64_t i = (int64_t)blockIdx.x * order_slots_threads + threadIdx.x; i < words;
         i += step) {
        sum += (unsigned)__popc(t.mask[i]) * order_rows;
    }
    for (int lanes = 16; lanes; lanes /= 2) {
        sum += __shfl_xor_sync(~0u, sum, lanes);
    }
    if (threadIdx.x % 32 == 0 && sum) {
        atomicAdd(slots, sum);
    }
}

// How many row slots a layout has: order_rows for each offset of each block. A convolution
// multiplies so many rows; those of them that have a source are the pairs. What tune_scene
// (tune.h) wants of a usual scan.
//
// inputs   t: host struct; its masks, of order_build with the same count; count [1], in device
//          memory, larger counts than the capacity are taken for it
// outputs  slots [1], in device memory, aligned to 8
// errors   null pointers, sizes, alignment, a layout that is too small for the capacity
// Asynchronous: a memset and a launch; deterministic, equal to order_slots_host.
// cost     reads the masks once
SPIRA_API status order_slots(const order_layout *t, const int32_t *count, int32_t capacity,
                             int64_t *slots, cudaStream_t stream) {
    SPIRA_TRY(order_slots_check(t, capacity, slots));
    SPIRA_REQUIRE(count, status_null_pointer, "count", 0);
    SPIRA_REQUIRE((uintptr_t)slots % sizeof *slots == 0, status_alignment, "slots", sizeof *slots);
    const int64_t words = (int64_t)order_count(capacity) * order_words(t->volume);
    const int64_t blocks = min_of(ceil_div(words, order_slots_threads), order_slots_blocks);
    SPIRA_TRY(status_from_cuda(cudaMemsetAsync(slots, 0, sizeof *slots, stream), "slots"));
    order_slots_kernel<<<(unsigned)blocks, order_slots_threads, 0, stream>>>(
        *t, count, capacity, (unsigned long long *)slots);
    return status_of_launch("order_slots");
}

} // namespace spira

#endif
