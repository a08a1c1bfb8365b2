// spira/layout/order/keys.cuh: the first kernel of order_build: the keys and directions of all
// rows. Its first thread blocks, one for each list of samples, find the splitters of the classes
// (order/key.h) at the same time; they compute the samples' keys themselves.
//
// A warp reads 32 rows of the map. From a compact map (index/compact.h) a lane reads the records of
// its row instead.
#ifndef SPIRA_LAYOUT_ORDER_KEYS_CUH
#define SPIRA_LAYOUT_ORDER_KEYS_CUH

#include "sort.cuh"
#include "taps.cuh"

namespace spira {

// What the kernel finds out about a row.
struct order_found {
    uint32_t key, directions;
};

// ---- directions of a map as it stands -----------------------------------------------------------

// [words, 32]: for each word of columns, the columns that have each direction of the task.
typedef uint32_t order_sets[order_words_max * 32];

// Fills the sets of a map that needs them: not a compact one, nor one whose columns are listed.
// Called by all threads of a block. Each warp counts the columns of all offsets; each takes every
// n-th group of 32 offsets, n the number of warps.
SPIRA_DEVICE void order_fill_sets(const order_batch &batch, const order_task &task,
                                  order_sets &sets) {
    const order_request &r = task.request;
    if (r.compact || order_columns_listed(task)) {
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

// Returns the directions of the columns `has` of a map whose columns are listed.
SPIRA_DEVICE uint32_t order_find_directions(const order_task &task, uint32_t has) {
    uint32_t directions = 0;
#pragma unroll 4
    for (int c = 0; c < task.request.layout.volume; ++c) {
        directions |= (has >> c & 1) << task.number[c];
    }
    return directions;
}

// Returns the directions of the columns `has` of one word. sets: of the word; many: directions
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

// Finds the key of this lane's row. Called by a whole warp.
//
// scattered  the warp's rows are anywhere; else they are consecutive, and the first `rows` exist
//
// The bits are numbered among the task's directions. That gives the order of order/key.h, since no
// row has the others. For size 3 both numbers are equal: a threshold leaves out the last
// directions.
template <bool scattered>
SPIRA_DEVICE order_found order_find_key(const order_task &task, int32_t row, int rows,
                                        const order_sets &sets) {
    const int volume = task.request.layout.volume, many = __popc(task.directions);
    const int32_t *map = task.request.map;
    const int32_t *first = map + (int64_t)(row - (int)threadIdx.x % 32) * volume;
    const bool narrow = volume <= order_lane_columns;
    uint32_t directions = 0;
    for (int k = 0; k < volume; k += order_word_bits) {
        const int columns = min(volume - k, (int)order_word_bits);
        uint32_t has;
        if (scattered) {
            has = narrow ? order_lane_taps(map, volume, row)
                         : order_gather_taps(map, volume, row, k, columns);
        } else {
            has = narrow ? order_find_taps<order_lane_columns>(first, volume, rows, k, columns)
                         : order_find_taps<16>(first, volume, rows, k, columns);
        }
        directions |= order_columns_listed(task) ? order_find_directions(task, has)
                                                 : order_find_sets(has, sets + k, many);
    }
    return {order_key(order_has_sectors(&task.request.kernel), directions), directions};
}

// ---- directions of a compact map ----------------------------------------------------------------

// Returns the sign, plus 1, of offset i of K along an axis.
SPIRA_BOTH constexpr int order_side(int K, int i) {
    return i < K / 2 ? 0 : i == K / 2 ? 1 : 2;
}

// Returns the offsets of a plane on side y and side z.
SPIRA_BOTH constexpr uint32_t order_side_mask(int K, int y, int z) {
    uint32_t mask = 0;
    for (int c = 0; c < K * K; ++c) {
        mask |= order_side(K, c / K) == y && order_side(K, c % K) == z ? 1u << c : 0;
    }
    return mask;
}

// Returns the directions of the taps `has` of a plane on side x, by the numbers of order/key.h: the
// kernel has all 27 directions.
template <int K, int x, int side = 0>
SPIRA_DEVICE uint32_t order_plane_directions(uint32_t has) {
    constexpr uint32_t mask = order_side_mask(K, side / 3, side % 3);
    uint32_t directions = has & mask ? 1u << order_number(x * 9 + side) : 0;
    if constexpr (side + 1 < 9) {
        directions |= order_plane_directions<K, x, side + 1>(has);
    }
    return directions;
}

// Returns the same for all planes.
template <int K, int plane = 0>
SPIRA_DEVICE uint32_t order_planes_directions(const uint32_t (&has)[K]) {
    uint32_t directions = order_plane_directions<K, order_side(K, plane)>(has[plane]);
    if constexpr (plane + 1 < K) {
        directions |= order_planes_directions<K, plane + 1>(has);
    }
    return directions;
}

// Finds the keys of `rows` rows of a compact map; their loads overlap.
template <int K, int rows>
SPIRA_DEVICE void order_find_compact_keys(const order_request &r, const int32_t (&row)[rows],
                                          order_found (&found)[rows]) {
    uint32_t has[rows][K];
#pragma unroll
    for (int i = 0; i < rows; ++i) {
#pragma unroll
        for (int s = 0; s < K; ++s) {
            has[i][s] = (uint32_t)__ldg(r.compact + slab_at(K, r.capacity, s, row[i]) + K);
        }
    }
#pragma unroll
    for (int i = 0; i < rows; ++i) {
        found[i].directions = order_planes_directions<K>(has[i]);
        found[i].key = order_key(K == 3, found[i].directions);
    }
}

template <int rows>
SPIRA_DEVICE void order_find_compact_keys_any(const order_request &r, const int32_t (&row)[rows],
                                              order_found (&found)[rows]) {
    if (r.kernel.size.x == 3) {
        order_find_compact_keys<3>(r, row, found);
    } else {
        order_find_compact_keys<5>(r, row, found);
    }
}

// ---- samples and splitters ----------------------------------------------------------------------

enum { order_list_items = order_list_samples / order_key_threads };

static_assert(2 * order_key_threads == order_list_classes, "a thread for two classes of a list");

struct order_key_shared {
    order_sets sets;
    order_shared<order_key_threads, order_list_items> list;
};

// Writes the keys of a list's samples to s.list.sample. Each thread writes the elements that it
// sorts afterwards, so no barrier is needed.
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
    order_found found[order_list_items];
#pragma unroll
    for (int i = 0; i < order_list_items; ++i) {
        row[i] = order_sample_row(order_lists * (first + i * 32) + list, count);
    }
    order_find_compact_keys_any(task.request, row, found);
#pragma unroll
    for (int i = 0; i < order_list_items; ++i) {
        s.list.sample[first + i * 32] = found[i].key;
    }
}

// Sorts the samples of a list and writes its splitters [order_list_classes]: those of its classes
// from the second on, each value once, so that few classes stay empty; then UINT32_MAX. Called by
// all threads of a block, after order_find_samples.
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
    int all;
    const int place = block_exclusive_sum<order_key_threads>((int)own + (int)next, s.scan, &all);
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

// Finds the splitters of a list, and clears the totals of as many classes.
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

// ---- kernel -------------------------------------------------------------------------------------

// The lists of all maps, a thread block each; then the keys of all rows, 256 rows a thread block.
SPIRA_PLAIN_KERNEL void __launch_bounds__(order_key_threads)
    order_key_kernel(const __grid_constant__ order_batch batch, order_scratch s) {
    __shared__ __align__(16) order_key_shared shared;
    const int lists = batch.tasks * order_lists, unit = (int)blockIdx.x - lists;
    if (unit < 0) {
        order_list(batch, s, (int)blockIdx.x / order_lists, (int)blockIdx.x % order_lists, shared);
        return;
    }
    const order_task &task = batch.task[order_find_task(batch, order_by_key, unit)];
    const int32_t first = (unit - task.first[order_by_key]) * order_key_threads;
    const int32_t row = first + (int)threadIdx.x, warp = row / 32 * 32;
    const int32_t count = order_find_count(task.request);
    order_fill_sets(batch, task, shared.sets); // overlaps the load of the count
    if (warp < count) {
        order_found found[1];
        if (task.request.compact) {
            const int32_t own[1] = {min(row, count - 1)};
            order_find_compact_keys_any(task.request, own, found);
        } else {
            found[0] = order_find_key<false>(task, row, count - warp, shared.sets);
        }
        if (row < count) {
            s.key[task.first_row + row] = found[0].key;
            s.directions[task.first_row + row] = found[0].directions;
        }
    }
}

} // namespace spira

#endif
