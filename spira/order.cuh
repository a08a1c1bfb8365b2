// spira/order.cuh: the ordered layout on the GPU, from maps that are there; up to 16 in one go.
//
// One launch finds the keys of all outputs of all maps, with the map's number above the key; one
// sort puts them in order, map by map; one launch writes the layouts, and one the turns of their
// pairs of blocks. The keys' and layouts' kernels have a block of threads for 64 outputs of a map.
// A warp reads 16 rows at a time, 32 offsets of each, so that a ballot has what a row has.
#ifndef SPIRA_ORDER_CUH
#define SPIRA_ORDER_CUH

#include "order.h"
#include "sort.cuh"
#include "status.cuh"

#include <cub/block/block_radix_sort.cuh>

namespace spira {

enum {
    order_maps_max = 16, // of one go
    order_threads = 128,
    order_warps = order_threads / 32,
    order_each = order_rows / order_warps, // outputs of a warp
    order_slab = 64,                       // offsets at a time
    order_key_bits = order_directions,
};

// Blocks of a multiprocessor that there should be registers for.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
enum { order_blocks = 8 }; // it holds no more
#else
enum { order_blocks = 12 };
#endif

// One map of order_build.
struct order_request {
    kernel_shape kernel;
    int threshold;        // the map's columns: offsets with a norm below it; map_all (map.h): all
    const int32_t *map;   // [capacity, columns]
    const int32_t *count; // [1] rows that are read
    int32_t capacity;
    order_layout layout;
};

struct order_task {
    order_request request;
    int32_t first; // its first row, among those of all maps
    int32_t block; // its first block of a launch,
    int32_t scope; // and its first scope of turns
};

struct order_batch {
    order_task task[order_maps_max];
    order_numbers numbers;
    int tasks;
    int32_t rows, blocks, scopes; // of all maps
    int32_t volume;               // the largest
};

// The number of the map that a block of a launch works on.
SPIRA_DEVICE int order_find_task(const order_batch &batch) {
    int t = 0;
    while (t + 1 < batch.tasks && (int)blockIdx.x >= batch.task[t + 1].block) {
        ++t;
    }
    return t;
}

// Offset k of a warp's rows, -1 from offset `end` on. row: lane j has that of number j, -1: none.
SPIRA_DEVICE void order_load(const int32_t *__restrict__ map, int volume, int32_t row, int k,
                             int end, int32_t (&tap)[order_each]) {
#pragma unroll
    for (int j = 0; j < order_each; ++j) {
        int32_t mine = __shfl_sync(~0u, row, j);
        tap[j] = mine >= 0 && k < end ? map[(int64_t)mine * volume + k] : -1;
    }
}

// ---- keys ---------------------------------------------------------------------------------------

// sets [words, 32]: the columns of a word that lie in each direction. By all threads of a block.
// Each warp counts the columns of all offsets; the offsets are dealt out to the warps, 32 at a
// time.
SPIRA_DEVICE void order_fill_sets(const order_request &r, const order_numbers &numbers,
                                  uint32_t *sets) {
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, volume = kernel_volume(&r.kernel);
    for (int i = threadIdx.x; i < order_words(r.layout.volume) * 32; i += order_threads) {
        sets[i] = 0;
    }
    __syncthreads();
    int column = 0;
    for (int first = 0; first < volume; first += 32) {
        int k = first + lane;
        bool has = k < volume && kernel_norm(&r.kernel, k) < r.threshold;
        uint32_t all = __ballot_sync(~0u, has);
        if (has && first / 32 % order_warps == warp) {
            int c = column + __popc(all & ((1u << lane) - 1));
            int direction = order_direction(&r.kernel, &numbers, k);
            atomicOr(sets + c / 32 * 32 + direction, 1u << c % 32);
        }
        column += __popc(all);
    }
}

// The directions in which a warp's rows have taps: lane j returns those of row number j.
SPIRA_DEVICE uint32_t order_find_directions(const int32_t *__restrict__ map, int volume,
                                            int32_t row, const uint32_t *sets) {
    int lane = threadIdx.x % 32;
    uint32_t has = 0; // bit j: row number j has a tap in the direction of this lane
    for (int w = 0; w < order_words(volume); ++w) {
        int32_t tap[order_each];
        order_load(map, volume, row, w * 32 + lane, volume, tap);
        uint32_t mine = sets[w * 32 + lane];
#pragma unroll
        for (int j = 0; j < order_each; ++j) {
            has |= __ballot_sync(~0u, tap[j] >= 0) & mine ? 1u << j : 0;
        }
    }
    uint32_t mask = 0;
#pragma unroll
    for (int j = 0; j < order_each; ++j) {
        uint32_t all = __ballot_sync(~0u, has >> j & 1);
        mask = lane == j ? all : mask;
    }
    return mask;
}

// keys [rows of all maps]: map << 27 | key; word_none() from the count of a map on.
SPIRA_KERNEL void __launch_bounds__(order_threads, order_blocks)
    order_key_kernel(const __grid_constant__ order_batch batch, uint32_t *keys) {
    extern __shared__ uint32_t order_sets[]; // [words, 32]
    int t = order_find_task(batch), lane = threadIdx.x % 32;
    const order_request &r = batch.task[t].request;
    int32_t row = ((int32_t)blockIdx.x - batch.task[t].block) * order_rows +
                  (int32_t)threadIdx.x / 32 * order_each + lane;
    bool there = lane < order_each && row < min(*r.count, r.capacity);
    order_fill_sets(r, batch.numbers, order_sets);
    __syncthreads();
    uint32_t mask = order_find_directions(r.map, r.layout.volume, there ? row : -1, order_sets);
    if (lane < order_each && row < r.capacity) {
        keys[batch.task[t].first + row] =
            there ? (uint32_t)t << order_key_bits | order_key(mask) : word_none<uint32_t>();
    }
}

// ---- layouts ------------------------------------------------------------------------------------

SPIRA_BOTH int order_pitch(int volume) {
    return (volume < order_slab ? volume : order_slab) | 1; // rows spread over the banks
}

// Where the outputs of a map begin in the order of all maps, and how many they are.
struct order_range {
    int32_t begin, count;
};

SPIRA_DEVICE order_range order_find_range(const order_batch &batch, int t) {
    int lane = threadIdx.x % 32;
    int32_t mine = 0;
    if (lane <= t) {
        const order_request &r = batch.task[lane].request;
        mine = min(*r.count, r.capacity);
    }
    int32_t begin = lane < t ? mine : 0;
    for (int step = 16; step; step /= 2) {
        begin += __shfl_xor_sync(~0u, begin, step);
    }
    return {begin, __shfl_sync(~0u, mine, t)};
}

// Which offsets of a slab the outputs of each warp have, 32 to a word.
typedef uint32_t order_found[order_warps][order_slab / 32];

// The taps of a warp's rows, offsets k .. k + columns, to taps [order_rows, pitch], which is
// shared. row: as of order_load.
SPIRA_DEVICE void order_load_slab(const int32_t *__restrict__ map, int volume, int32_t row, int k,
                                  int columns, int32_t *taps, order_found &found) {
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, pitch = order_pitch(volume);
    taps += warp * order_each * pitch;
    for (int word = 0; word * 32 < columns; ++word) {
        int c = word * 32 + lane;
        int32_t tap[order_each];
        bool any = false;
        order_load(map, volume, row, k + c, k + columns, tap);
#pragma unroll
        for (int j = 0; j < order_each; ++j) {
            any |= tap[j] >= 0;
            if (c < columns) {
                taps[j * pitch + c] = tap[j];
            }
        }
        uint32_t all = __ballot_sync(~0u, any);
        if (lane == 0) {
            found[warp][word] = all;
        }
    }
}

// A slab to the layout: its words of the mask, and the sources of the offsets in them. A warp
// takes an offset, a lane two places.
SPIRA_DEVICE void order_put_slab(const order_layout &t, int64_t block, int k, int columns,
                                 const int32_t *taps, const order_found &found) {
    int lane = threadIdx.x % 32, pitch = order_pitch(t.volume);
    for (int word = 0; word * 32 < columns; ++word) {
        uint32_t bits = 0;
        for (int w = 0; w < order_warps; ++w) {
            bits |= found[w][word];
        }
        if (threadIdx.x == 0) {
            t.mask[block * order_words(t.volume) + k / 32 + word] = bits;
        }
        for (int bit = threadIdx.x / 32; bit < 32; bit += order_warps) {
            if (bits >> bit & 1) {
                int c = word * 32 + bit;
                int32_t *source = t.source + order_begin(&t, block, k + c);
                source[lane] = taps[lane * pitch + c];
                source[lane + 32] = taps[(lane + 32) * pitch + c];
            }
        }
    }
}

// Writes the layouts. order: the rows of all maps, sorted by their keys.
SPIRA_KERNEL void __launch_bounds__(order_threads, order_blocks)
    order_put_kernel(const __grid_constant__ order_batch batch, const int32_t *__restrict__ order) {
    extern __shared__ int32_t order_taps[]; // [order_rows, pitch]
    __shared__ order_found found;
    int number = order_find_task(batch), lane = threadIdx.x % 32;
    const order_task &task = batch.task[number];
    const order_layout &t = task.request.layout;
    int32_t block = (int32_t)blockIdx.x - task.block;
    int32_t place = block * order_rows + (int32_t)threadIdx.x / 32 * order_each + lane;
    order_range range = order_find_range(batch, number);
    int32_t row = -1;
    if (lane < order_each) {
        row = place < range.count ? order[range.begin + place] - task.first : -1;
        t.row[place] = row;
    }
    if (block * order_rows >= range.count) {
        for (int w = threadIdx.x; w < order_words(t.volume); w += order_threads) {
            t.mask[(int64_t)block * order_words(t.volume) + w] = 0;
        }
        return;
    }
    for (int k = 0; k < t.volume; k += order_slab) {
        int columns = min(t.volume - k, order_slab);
        __syncthreads();
        order_load_slab(task.request.map, t.volume, row, k, columns, order_taps, found);
        __syncthreads();
        order_put_slab(t, block, k, columns, order_taps, found);
    }
}

// ---- turns --------------------------------------------------------------------------------------

enum { order_turn_threads = 1024, order_turn_each = order_scope / order_turn_threads };

// A block of threads for each scope of pairs.
SPIRA_KERNEL void __launch_bounds__(order_turn_threads)
    order_turn_kernel(const __grid_constant__ order_batch batch) {
    typedef cub::BlockRadixSort<uint32_t, order_turn_threads, order_turn_each, int32_t> turn_sort;
    __shared__ typename turn_sort::TempStorage storage;
    int number = 0;
    while (number + 1 < batch.tasks && (int)blockIdx.x >= batch.task[number + 1].scope) {
        ++number;
    }
    const order_request &r = batch.task[number].request;
    const order_layout &t = r.layout;
    const int32_t first = ((int32_t)blockIdx.x - batch.task[number].scope) * order_scope;
    const int32_t blocks = order_count(min(*r.count, r.capacity));
    const int32_t pairs = order_pairs(blocks);
    if (first >= pairs) {
        return;
    }
    uint32_t key[order_turn_each]; // offsets that the pair has not
    int32_t pair[order_turn_each];
    for (int i = 0; i < order_turn_each; ++i) {
        pair[i] = first + (int32_t)threadIdx.x * order_turn_each + i;
        bool there = pair[i] < pairs;
        key[i] = (uint32_t)(t.volume + (there ? -order_pair_offsets(&t, pair[i], blocks) : 1));
    }
    turn_sort(storage).SortBlockedToStriped(key, pair, 0, bits_for((uint64_t)t.volume + 2));
    for (int i = 0; i < order_turn_each; ++i) {
        int32_t place = first + i * order_turn_threads + (int32_t)threadIdx.x;
        if (place < pairs) {
            t.turn[place] = pair[i];
        }
    }
}

// ---- launchers ----------------------------------------------------------------------------------

struct order_scratch {
    uint32_t *keys, *sorted; // [rows] of all maps
    int32_t *order;          // [rows]
    sort_scratch<uint32_t> sort;
};

// The rows of all maps.
SPIRA_API status order_rows_all(const order_request *request, int maps, int32_t *rows) {
    SPIRA_REQUIRE(request, status_null_pointer, "request", 0);
    SPIRA_REQUIRE(maps >= 1 && maps <= order_maps_max, status_bad_size, "maps", maps);
    int64_t all = 0;
    for (int m = 0; m < maps; ++m) {
        SPIRA_TRY(order_sizes_check(&request[m].kernel, request[m].capacity));
        all += request[m].capacity;
    }
    SPIRA_REQUIRE(all <= INT32_MAX / 2, status_bad_size, "capacity (of all maps)", all);
    *rows = (int32_t)all;
    return status_success();
}

SPIRA_API status order_carve(workspace *w, int32_t rows, order_scratch *s) {
    s->keys = workspace_take<uint32_t>(w, rows);
    s->sorted = workspace_take<uint32_t>(w, rows);
    s->order = workspace_take<int32_t>(w, rows);
    return sort_carve(w, rows, &s->sort);
}

// Bytes of scratch for order_build. Of the requests only kernels and capacities are read.
SPIRA_API status order_workspace(const order_request *request, int maps, size_t *bytes) {
    int32_t rows;
    order_scratch s;
    SPIRA_TRY(order_rows_all(request, maps, &rows));
    SPIRA_REQUIRE(bytes, status_null_pointer, "bytes", 0);
    workspace w = workspace_begin(nullptr);
    SPIRA_TRY(order_carve(&w, rows, &s));
    *bytes = w.used;
    return status_success();
}

SPIRA_API order_batch order_batch_make(const order_request *request, int maps) {
    order_batch batch = {};
    batch.numbers = order_numbers_make();
    batch.tasks = maps;
    for (int m = 0; m < maps; ++m) {
        batch.task[m] = {request[m], batch.rows, batch.blocks, batch.scopes};
        batch.rows += request[m].capacity;
        batch.blocks += order_count(request[m].capacity);
        int32_t pairs = order_pairs(order_count(request[m].capacity));
        batch.scopes += (int32_t)ceil_div(pairs, order_scope);
        batch.volume = (int32_t)max_of(batch.volume, request[m].layout.volume);
    }
    return batch;
}

// Builds the ordered layouts of up to 16 kernel maps.
//
// inputs   request [maps]: in device memory map and count; larger counts than the capacity are
//          taken for it
//          scratch: the bytes of order_workspace, aligned to 256
// outputs  the layout of each request: all blocks of its capacity; those beyond the count have rows
//          of -1 and no offsets. Layouts overlap neither each other nor maps nor scratch
// errors   null pointers, sizes, a layout that is too small for the capacity, scratch; nothing is
//          launched then
// Asynchronous, deterministic, equal to order_build_host.
// cost     reads the maps twice, writes 256 bytes for each offset of each block; one sort of
//          (key, row) pairs (sort.cuh), three launches beside it
SPIRA_API status order_build(const order_request *request, int maps, void *scratch,
                             size_t scratch_bytes, cudaStream_t stream) {
    size_t needed;
    SPIRA_TRY(order_workspace(request, maps, &needed));
    for (int m = 0; m < maps; ++m) {
        const order_request *r = request + m;
        SPIRA_TRY(order_check(&r->kernel, r->threshold, r->map, r->capacity, &r->layout));
        SPIRA_REQUIRE(r->count, status_null_pointer, "count", 0);
    }
    SPIRA_TRY(workspace_check(scratch, scratch_bytes, needed));
    order_batch batch = order_batch_make(request, maps);
    workspace w = workspace_begin(scratch);
    order_scratch s;
    SPIRA_TRY(order_carve(&w, batch.rows, &s));
    unsigned blocks = (unsigned)batch.blocks;
    size_t sets = (size_t)order_words(batch.volume) * 32 * sizeof(uint32_t);
    size_t taps = (size_t)order_rows * (size_t)order_pitch(batch.volume) * sizeof(int32_t);
    order_key_kernel<<<blocks, order_threads, sets, stream>>>(batch, s.keys);
    // So many bits that word_none() is above all keys.
    int bits = bits_for((uint64_t)maps << order_key_bits);
    SPIRA_TRY(sort_words(s.keys, batch.rows, bits, s.sorted, s.order, &s.sort, stream));
    order_put_kernel<<<blocks, order_threads, taps, stream>>>(batch, s.order);
    order_turn_kernel<<<(unsigned)batch.scopes, order_turn_threads, 0, stream>>>(batch);
    return status_of_launch("order_build");
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
