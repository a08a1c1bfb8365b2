// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/index/map_lists.cuh: pair lists (the filtered form) of kernels of any size; and the kernel
// that counts the pairs of each offset of a map.
//
// Three launches. The first one searches each tile of outputs (search_block, search.cuh) and counts
// the pairs of each offset. A scan over the tiles finds where each tile's pairs go in the lists
// (map_starts.cuh). The last one searches again and moves them there. A second search takes less
// time and memory than all taps, or as many packed pairs as the lists have room for.
//
// Cubes of size 3 and 5 are searched once: map_cube.cuh.
#ifndef SPIRA_INDEX_MAP_LISTS_CUH
#define SPIRA_INDEX_MAP_LISTS_CUH

#include "map_search.cuh"
#include "map_starts.cuh"

namespace spira {

template <typename W>
struct map_lists_task {
    map_task<W> map; // forms: threshold, half and trouble
    map_starts starts;
    map_lists lists;
};

// The pairs of a tile at offset k, for the scan.
SPIRA_DEVICE auto map_starts_counts(const map_starts &starts, int k, int) {
    return
        [counts = starts.before + (int64_t)k * starts.stretches](int tile) { return counts[tile]; };
}

// Counts the pairs of a tile or, with `move`, writes them to the lists. A warp takes an offset, its
// lanes 32 outputs at a time.
template <typename W, bool move>
SPIRA_DEVICE void map_lists_write(const map_lists_task<W> &task, const search_tile &tile,
                                  int number) {
    const search_walk<W> &walk = task.map.walk;
    const map_forms &f = task.map.forms;
    const triple size = {walk.size_x, walk.size_y, walk.size_z};
    const int searched = f.half ? walk.volume / 2 : walk.volume, lane = threadIdx.x & 31;
    for (int k = tile.k_begin + threadIdx.x / 32; k < tile.k_end; k += search_threads / 32) {
        const bool listed = k < searched && map_norm(size, k) >= f.threshold;
        int32_t *before = task.starts.before + (int64_t)k * task.starts.stretches + number;
        int at = move && listed ? (int)task.starts.begin[k] + *before : 0;
        for (int group = 0; listed && group < tile.rows; group += 32) {
            const int row = group + lane;
            const int tap = row < tile.rows ? tile.taps[row * tile.pitch + k - tile.k_begin] : -1;
            at = move ? map_lists_append(task.lists, at, tap >= 0, tap, tile.first + row)
                      : at + __popc(__ballot_sync(~0u, tap >= 0));
        }
        if (!move && lane == 0) {
            *before = at;
        }
    }
}

// One thread block for each tile.
template <typename W, bool move>
SPIRA_KERNEL void __launch_bounds__(search_threads, 7)
    map_lists_kernel(const __grid_constant__ map_lists_task<W> task) {
    extern __shared__ int4 map_shared[];
    const int number = (int)blockIdx.x;
    if (move && !map_starts_fit(task.starts, task.starts.begin[task.starts.volume], task.lists,
                                task.map.forms.trouble)) {
        return;
    }
    if (!move) {
        map_report(task.map, task.map.forms.trouble, number);
        if (number == 0) {
            map_starts_clear(task.starts);
        }
    }
    map_search_passes(
        task.map, &task.map.choice, true, number, map_shared,
        [&](const search_tile &tile) { map_lists_write<W, move>(task, tile, number); });
}

// Carves the scratch of the lists (or counts its bytes: workspace.h).
SPIRA_API map_starts map_lists_take(workspace *w, const kernel_shape *kernel, int32_t outputs) {
    const int volume = kernel_volume(kernel);
    return map_starts_take(w, volume, (int32_t)ceil_div(outputs, search_tile_rows(volume)));
}

// Builds the lists. scratch: of map_lists_take.
template <typename W>
SPIRA_API status map_lists_launch(const word_layout *layout, const map_request<W> *r,
                                  const map_lists *lists, void *scratch, cudaStream_t stream) {
    const char *subject = "map_build_lists";
    workspace w = workspace_begin(scratch);
    map_request<W> request = *r; // without dense forms
    request.forms = map_forms_none(r->forms.threshold, r->forms.half, r->forms.trouble);
    map_lists_task<W> task;
    task.map = map_task_make(layout, &request, 0);
    task.starts = map_lists_take(&w, &r->kernel, r->outputs.capacity);
    task.lists = *lists;
    const unsigned tiles = (unsigned)task.starts.stretches;
    const size_t bytes = (size_t)search_block_bytes(task.map.shape);
    SPIRA_TRY(kernel_launch(map_lists_kernel<W, false>,
                            {tiles, search_threads, stream, subject, false, bytes}, task));
    SPIRA_TRY(kernel_launch(map_starts_kernel<map_starts>,
                            {(unsigned)task.starts.volume, map_scan_threads, stream, subject},
                            task.starts, task.starts, r->outputs.count, r->outputs.capacity,
                            bits_for((uint64_t)task.map.shape.rows - 1)));
    return kernel_launch(map_lists_kernel<W, true>,
                         {tiles, search_threads, stream, subject, false, bytes}, task);
}

// ---- pairs of each offset -----------------------------------------------------------------------

enum { map_count_threads = 256, map_count_rows = 512 }; // of a thread block

// Adds to pairs [volume] how many of the map's first min(*count, capacity) rows have each offset.
// Dynamic shared memory: volume numbers.
SPIRA_PLAIN_KERNEL void __launch_bounds__(map_count_threads)
    map_count_kernel(const int32_t *__restrict__ map, int volume, const int32_t *count,
                     int32_t capacity, int32_t *pairs) {
    extern __shared__ int32_t map_count_shared[]; // [volume] pairs of this block's rows
    const int64_t first = (int64_t)blockIdx.x * map_count_rows;
    const int64_t last = min_of(first + map_count_rows, min_of(*count, capacity));
    if (first >= last) {
        return;
    }
    for (int k = threadIdx.x; k < volume; k += map_count_threads) {
        map_count_shared[k] = 0;
    }
    __syncthreads();
    // The offset of the thread's entry, carried along: a division for each entry costs more.
    const int step = map_count_threads % volume;
    int k = (int)threadIdx.x % volume;
    for (int64_t i = first * volume + threadIdx.x; i < last * volume; i += map_count_threads) {
        if (map[i] >= 0) {
            atomicAdd(&map_count_shared[k], 1);
        }
        k += step;
        k -= k >= volume ? volume : 0;
    }
    __syncthreads();
    for (int j = threadIdx.x; j < volume; j += map_count_threads) {
        atomicAdd(&pairs[j], map_count_shared[j]);
    }
}

} // namespace spira

#endif
