// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/index/map_large.cuh: the kernel that builds the compact form of large kernels (compact.h).
//
// A warp takes a plane of a tile of 64 outputs, with the windows of the plane search
// (plane_window.cuh, plane_far.cuh). A lane searches the rows of an output a few at a time, and
// reads words from a row's anchor on until one is above the row: few rows of a large kernel have
// any sources. The pairs of 32 outputs are collected in shared memory, since they stand side by
// side in the map.
#ifndef SPIRA_INDEX_MAP_LARGE_CUH
#define SPIRA_INDEX_MAP_LARGE_CUH

#include "plane_map.cuh"

namespace spira {

enum {
    map_large_size = kernel_size_max, // of the plane search's functions; a row may have fewer
    map_large_warps = 4,              // of a thread block
    map_large_ahead = 4,              // rows that a lane searches at a time
    map_large_words = 3,              // words above an anchor that are read at a time
};

// Thread blocks of a multiprocessor that the kernel has shared memory for, and registers.
SPIRA_BOTH constexpr int map_large_blocks(int word) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
    return word > 4 ? 5 : 6;
#else
    return word > 4 ? 6 : 9;
#endif
}

// What a warp has in shared memory.
struct alignas(16) map_large_shared {
    uint32_t window[plane_window_words(map_large_size)];
    int2 pair[32 * map_large_size]; // [outputs, rows]
};

template <typename W>
using map_large_search = plane_search<W, map_large_size>;

// Finds the pairs of rows y .. y + map_large_ahead - 1 of an output in a near window. Rows that do
// not exist are searched as well.
template <typename W>
SPIRA_DEVICE void map_large_find(const map_large_search<W> &search, W output, int y,
                                 int2 (&pair)[map_large_ahead]) {
    const search_walk<W> &walk = search.walk;
    const plane_window &window = search.window;
    uint32_t at[map_large_ahead], key[map_large_ahead];
    const uint32_t second =
        window.words + (uint32_t)window.length.first * (uint32_t)sizeof(uint32_t);
    const uint32_t word = search_load<-1>(second), step_y = (uint32_t)(walk.step_y >> walk.shift);
    const uint32_t away = (uint32_t)(output - search.queries.lowest) >> walk.shift;
#pragma unroll
    for (int r = 0; r < map_large_ahead; ++r) {
        key[r] = away + (uint32_t)min(y + r, walk.size_y - 1) * step_y;
        at[r] = word < key[r] ? second : window.words;
    }
    plane_walk<plane_steps_most(map_large_size) - 2, map_large_ahead>(at, key, window.length.steps);
#pragma unroll
    for (int r = 0; r < map_large_ahead; ++r) {
        uint32_t bits = 0, from = at[r], last;
        do {
            const uint32_t above[map_large_words] = {search_load<0>(from) - key[r],
                                                     search_load<1>(from) - key[r],
                                                     search_load<2>(from) - key[r]};
            bits |= plane_bit(above[0]) | plane_bit(above[1]) | plane_bit(above[2]);
            last = above[map_large_words - 1];
            from += map_large_words * (uint32_t)sizeof(uint32_t);
        } while (last < (uint32_t)walk.size_z);
        const int position = window.begin + (int)((at[r] - window.words) / sizeof(uint32_t));
        pair[r] = {position, (int)(bits & ((1u << walk.size_z) - 1))};
    }
}

// The pair of a row whose anchor is at `from` in the source. Returns false if the row's sources do
// not stand side by side.
template <typename W>
SPIRA_DEVICE bool map_large_scan(const map_large_search<W> &search, W key, int from, int2 *pair) {
    const search_walk<W> &walk = search.walk;
    const W mask = ((W)1 << walk.shift) - 1;
    int begin = from, found = 0;
    uint32_t bits = 0;
    bool whole = true;
#pragma unroll 1
    for (int i = from; i < search.sets.count; ++i) {
        const W above = search.sets.source[i] - key;
        if (above > (W)walk.span) {
            break;
        }
        if (!(above & mask)) {
            begin = found ? begin : i;
            whole = whole && i == begin + found;
            bits |= i == begin + found ? 1u << (uint32_t)(above >> walk.shift) : 0;
            found += i == begin + found;
        }
    }
    *pair = {begin, (int)bits};
    return whole;
}

// As map_large_find, in a sampled window.
template <typename W>
SPIRA_DEVICE bool map_large_find_far(const map_large_search<W> &search, W output, int y,
                                     int2 (&pair)[map_large_ahead]) {
    W key[map_large_ahead];
    int position[map_large_ahead];
    bool whole = true;
#pragma unroll
    for (int r = 0; r < map_large_ahead; ++r) {
        key[r] =
            search_anchor(search.walk, output, search.plane, min(y + r, search.walk.size_y - 1));
    }
    plane_far_anchors<W, map_large_ahead, false>(search.sets, search.window, key, position);
#pragma unroll
    for (int r = 0; r < map_large_ahead; ++r) {
        whole = map_large_scan(search, key[r], position[r], &pair[r]) && whole;
    }
    return whole;
}

// Writes the pairs of 32 outputs of a tile, and their folds. Called by a whole warp.
template <typename W>
SPIRA_DEVICE void map_large_put(const plane_task<W> &task, const map_large_search<W> &search,
                                int group, int2 *staged) {
    const search_walk<W> &walk = search.walk;
    const triple size = {walk.size_x, walk.size_y, walk.size_z};
    const int lane = (int)(threadIdx.x % 32), rows = min(search.queries.rows - group * 32, 32);
    const int first = search.queries.first + group * 32, capacity = task.outputs.capacity;
    const W output = group ? search.queries.word[1] : search.queries.word[0];
    const bool nearby = plane_near(search);
    uint32_t fold = 0, all = 0;
    bool whole = true;
#pragma unroll 1
    for (int y = 0; y < size.y; y += map_large_ahead) {
        int2 pair[map_large_ahead];
        if (nearby) {
            map_large_find(search, output, y, pair);
        } else {
            whole = map_large_find_far(search, output, y, pair) && whole;
        }
#pragma unroll
        for (int r = 0; r < map_large_ahead; ++r) {
            if (y + r < size.y) {
                staged[lane * size.y + y + r] = pair[r];
                fold |= compact_fold(size, y + r, (uint32_t)pair[r].y);
                all |= (uint32_t)pair[r].y;
            }
        }
    }
    if (lane < rows) {
        task.to[compact_fold_at(size, capacity, search.plane, first + lane)] =
            (int32_t)(fold | compact_levels(size.z, all) << 9);
        if (!whole) {
            device_status_raise(task.trouble, device_flag_lattice, (uint32_t)(first + lane));
        }
    }
    __syncwarp();
    int2 *to = (int2 *)(task.to + compact_pair_at(size, capacity, search.plane, first));
    for (int i = lane; i < rows * size.y; i += 32) {
        to[i] = staged[i];
    }
    __syncwarp();
}

template <typename W>
SPIRA_KERNEL void __launch_bounds__(32 * map_large_warps, map_large_blocks(sizeof(W)))
    map_large_kernel(const __grid_constant__ plane_batch<W> batch) {
    enum { K = map_large_size };
    extern __shared__ int4 map_shared[]; // map_large_shared of each warp
    pdl_launch_dependents();
    const plane_task<W> &task = plane_find_task(batch);
    map_large_shared &own = ((map_large_shared *)map_shared)[threadIdx.x / 32];
    const int unit = ((int)blockIdx.x - task.block) * map_large_warps + (int)(threadIdx.x / 32);
    const int tile = unit / task.walk.size_x, plane = unit % task.walk.size_x;
    search_sets<W> sets;
    plane_outputs<W, K> queries;
    if (tile < task.tiles &&
        plane_tile_begin<W, K>(task, plane_tile(tile, task.tiles), &sets, &queries)) {
        const map_large_search<W> search =
            plane_begin<W, K>(task.walk, sets, queries, plane, own.window, task.walk.size_y);
#pragma unroll 1
        for (int group = 0; group * 32 < queries.rows; ++group) {
            map_large_put(task, search, group, own.pair);
        }
    }
    pdl_wait();
}

// Launches the kernel for up to map_batch_max requests.
template <typename W>
SPIRA_API status map_large_launch(const word_layout *layout, const map_request<W> *const *request,
                                  int requests, bool programmatic, cudaStream_t stream) {
    plane_batch<W> batch;
    int64_t blocks = 0;
    batch.tasks = requests;
    std::fill(batch.first, batch.first + map_batch_max, INT32_MAX);
    for (int i = 0; i < requests; ++i) {
        plane_task<W> *task = &batch.task[i];
        *task = plane_task_make<map_large_size>(layout, request[i], (int32_t)blocks,
                                                request[i]->forms.compact);
        batch.first[i] = (int32_t)blocks;
        blocks += ceil_div((int64_t)task->tiles * task->walk.size_x, map_large_warps);
    }
    return kernel_launch(map_large_kernel<W>,
                         {(unsigned)blocks, 32 * map_large_warps, stream, "map_build", programmatic,
                          map_large_warps * sizeof(map_large_shared)},
                         batch);
}

} // namespace spira

#endif
