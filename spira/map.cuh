// spira/map.cuh: kernel maps on the GPU by z-delta search (Spira paper).
#ifndef SPIRA_MAP_CUH
#define SPIRA_MAP_CUH

#include "map.h"
#include "search.cuh"
#include "status.cuh"

namespace spira {

// A kernel as the search walks it: displacements ascending, whatever the sign of the kernel. Step
// number a, counted in that order, is offset a, or volume - 1 - a of a transposed kernel.
template <typename W>
struct map_walk {
    W base, step_x, step_y, step_z; // packed displacements
    int size_x, size_y, size_z, volume;
    bool transposed;
};

template <typename W>
SPIRA_API map_walk<W> map_walk_make(const word_layout *layout, const kernel_shape *kernel) {
    map_walk<W> walk;
    triple unit = triple_multiply(kernel->dilation, kernel->stride);
    walk.volume = kernel_volume(kernel);
    triple lowest = kernel_displacement(kernel, kernel->transposed ? walk.volume - 1 : 0);
    walk.base = word_delta<W>(layout, lowest);
    walk.step_x = word_delta<W>(layout, triple_make(unit.x, 0, 0));
    walk.step_y = word_delta<W>(layout, triple_make(0, unit.y, 0));
    walk.step_z = word_delta<W>(layout, triple_make(0, 0, unit.z));
    walk.size_x = kernel->size.x;
    walk.size_y = kernel->size.y;
    walk.size_z = kernel->size.z;
    walk.transposed = kernel->transposed;
    return walk;
}

// How a block works: `rows` outputs (a power of two), one window for each x-offset.
struct map_tile {
    int rows;
    int threads;
    int window;   // words of each window's buffer
    size_t bytes; // of shared memory: windows, then the tile of the map
};

enum { map_shared_max = 47 * 1024, map_threads_max = 512 };

SPIRA_API map_tile map_tile_choose(int size_x, int volume, size_t word_bytes) {
    map_tile t;
    for (t.rows = 128;; t.rows /= 2) {
        t.window = t.rows + (size_x <= 7 ? 320 : 96);
        t.bytes = (size_t)round_up(size_x * t.window * (int64_t)word_bytes, 16) +
                  (size_t)t.rows * volume * sizeof(int32_t);
        if (t.bytes <= map_shared_max || t.rows == 1) {
            break;
        }
    }
    t.threads = (int)min_of(round_up(t.rows * size_x, 32), map_threads_max);
    t.threads = (int)max_of(t.threads, 64);
    return t;
}

// One output and one x-offset: fills the taps of all its rows.
template <typename W>
SPIRA_DEVICE void map_search_slab(const map_walk<W> &walk, const search_window<W> &window, W query,
                                  int slab, int32_t *taps) {
    W anchor = query + walk.base + (W)slab * walk.step_x;
    int cursor = search_lower_bound(window.words, 0, window.length, anchor);
    int a = slab * walk.size_y * walk.size_z;
    for (int row = 0; row < walk.size_y; ++row, anchor += walk.step_y) {
        if (row) {
            cursor = search_advance(window.words, cursor, window.length, anchor);
        }
        W wanted = anchor;
        int scan = cursor;
        for (int j = 0; j < walk.size_z; ++j, ++a, wanted += walk.step_z) {
            int hit = search_scan(window.words, window.length, wanted, &scan);
            taps[walk.transposed ? walk.volume - 1 - a : a] = hit < 0 ? -1 : window.begin + hit;
        }
        cursor = scan;
    }
}

// Copies a tile of the map from shared memory, 16 bytes a thread where it is aligned.
SPIRA_DEVICE void map_store_tile(const int32_t *tile, int count, int32_t *out) {
    int wide = ((uintptr_t)out & 15) == 0 ? count / 4 : 0;
    for (int i = threadIdx.x; i < wide; i += blockDim.x) {
        ((int4 *)out)[i] = ((const int4 *)tile)[i];
    }
    for (int i = 4 * wide + threadIdx.x; i < count; i += blockDim.x) {
        out[i] = tile[i];
    }
}

template <typename W>
SPIRA_KERNEL void __launch_bounds__(map_threads_max)
    map_kernel(map_walk<W> walk, map_tile tile, const W *__restrict__ source,
               const int32_t *__restrict__ source_count, int32_t source_capacity,
               const W *__restrict__ outputs, const int32_t *__restrict__ output_count,
               int32_t output_capacity, int32_t *__restrict__ map) {
    extern __shared__ int4 map_shared[];
    __shared__ search_window<W> windows[kernel_size_max];
    int count = (int)min_of(*source_count, source_capacity);
    int total = (int)min_of(*output_count, output_capacity);
    int first = blockIdx.x * tile.rows;
    if (first >= total) {
        return;
    }
    int rows = total - first < tile.rows ? total - first : tile.rows;
    W *buffers = (W *)map_shared; // [size_x, window]
    int32_t *taps =               // [rows, volume]
        (int32_t *)map_shared + (walk.size_x * tile.window * (int)sizeof(W) + 15) / 16 * 4;

    W lowest = outputs[first], highest = outputs[first + rows - 1];
    // Where the sets are the same, or one is the floor of the other, the answer is near this.
    int hint = (int)((int64_t)first * count / total);
    for (int slab = threadIdx.x / 32; slab < walk.size_x; slab += blockDim.x / 32) {
        W shift = walk.base + (W)slab * walk.step_x;
        int begin = search_warp_lower_bound(source, count, (W)(lowest + shift), hint);
        W last = highest + shift + (W)(walk.size_y - 1) * walk.step_y +
                 (W)(walk.size_z - 1) * walk.step_z;
        search_window<W> window = search_warp_window(source, count, begin, last,
                                                     buffers + slab * tile.window, tile.window);
        if (threadIdx.x % 32 == 0) {
            windows[slab] = window;
        }
    }
    __syncthreads();
    for (int task = threadIdx.x; task < tile.rows * walk.size_x; task += blockDim.x) {
        int row = task & (tile.rows - 1), slab = task / tile.rows;
        if (row < rows) {
            map_search_slab(walk, windows[slab], outputs[first + row], slab,
                            taps + row * walk.volume);
        }
    }
    __syncthreads();
    map_store_tile(taps, rows * walk.volume, map + (int64_t)first * walk.volume);
}

// Builds a kernel map by z-delta search, output-stationary.
//
// inputs   layout: its guard margin covers the kernel's reach
//          source, outputs: sorted sets; the same for a submanifold layer, and any two otherwise
// outputs  map [outputs.capacity, volume]: source positions or -1; rows from *outputs.count on are
//          not written
// errors   null pointers, sizes, a kernel beyond the layout's margin
// Asynchronous, deterministic, equal to map_build_host. No scratch.
// cost     writes count * volume * 4 bytes; reads the words about size_x + 1 times, from L2
template <typename W>
SPIRA_API status map_build(const word_layout *layout, const kernel_shape *kernel,
                           voxel_set<W> source, voxel_set<W> outputs, int32_t *map,
                           cudaStream_t stream) {
    SPIRA_TRY(map_check(layout, kernel, &source, &outputs, map));
    map_walk<W> walk = map_walk_make<W>(layout, kernel);
    map_tile tile = map_tile_choose(walk.size_x, walk.volume, sizeof(W));
    map_kernel<W><<<(unsigned)ceil_div(outputs.capacity, tile.rows), (unsigned)tile.threads,
                    tile.bytes, stream>>>(walk, tile, source.words, source.count, source.capacity,
                                          outputs.words, outputs.count, outputs.capacity, map);
    return status_of_launch("map_build");
}

enum { map_count_threads = 256, map_count_rows = 512 };

SPIRA_KERNEL void __launch_bounds__(map_count_threads)
    map_count_kernel(const int32_t *__restrict__ map, int volume, const int32_t *count,
                     int32_t capacity, int32_t *pairs) {
    extern __shared__ int32_t map_pairs[]; // [volume]
    int64_t first = (int64_t)blockIdx.x * map_count_rows;
    int64_t last = min_of(first + map_count_rows, min_of(*count, capacity));
    if (first >= last) {
        return;
    }
    for (int k = threadIdx.x; k < volume; k += blockDim.x) {
        map_pairs[k] = 0;
    }
    __syncthreads();
    for (int64_t i = first * volume + threadIdx.x; i < last * volume; i += blockDim.x) {
        if (map[i] >= 0) {
            atomicAdd(&map_pairs[i % volume], 1);
        }
    }
    __syncthreads();
    for (int k = threadIdx.x; k < volume; k += blockDim.x) {
        atomicAdd(&pairs[k], map_pairs[k]);
    }
}

// How many pairs each offset has.
//
// inputs   map [capacity, volume]; count [1]: rows that are read
// outputs  pairs [volume]
// Asynchronous, deterministic.
SPIRA_API status map_count(const int32_t *map, int volume, const int32_t *count, int32_t capacity,
                           int32_t *pairs, cudaStream_t stream) {
    SPIRA_REQUIRE(map, status_null_pointer, "map", 0);
    SPIRA_REQUIRE(count, status_null_pointer, "count", 0);
    SPIRA_REQUIRE(pairs, status_null_pointer, "pairs", 0);
    SPIRA_REQUIRE(volume >= 1 && volume <= kernel_volume_max, status_bad_size, "volume", volume);
    SPIRA_REQUIRE(capacity >= 1, status_bad_size, "capacity", capacity);
    size_t bytes = (size_t)volume * sizeof(int32_t);
    SPIRA_TRY(status_from_cuda(cudaMemsetAsync(pairs, 0, bytes, stream), "pairs"));
    map_count_kernel<<<(unsigned)ceil_div(capacity, map_count_rows), map_count_threads, bytes,
                       stream>>>(map, volume, count, capacity, pairs);
    return status_of_launch("map_count");
}

} // namespace spira

#endif
