// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/index/plane_map.cuh: the kernels around the plane search (plane_search.cuh) that build os,
// all of it, half or near, and the compact form (compact.h), for cubes of size 3 and 5; of size 2
// and 7 all of os alone.
//
// They do what map_kernel (map_search.cuh) does for these sizes. A thread block has a tile of
// outputs, a warp a plane of it. map_cube.cuh shares tasks and tiles.
#ifndef SPIRA_INDEX_PLANE_MAP_CUH
#define SPIRA_INDEX_PLANE_MAP_CUH

#include "../base/block.cuh"
#include "../base/launch.cuh"
#include "map_write.cuh"
#include "plane_search.cuh"

namespace spira {

// What a launch writes. near: os with the offsets of a norm below the threshold.
enum plane_form { plane_form_os, plane_form_half, plane_form_near, plane_form_compact };

// One map of a launch.
template <typename W>
struct plane_task {
    search_walk<W> walk;
    voxel_set<W> source, outputs;
    int32_t block, tiles;   // its first thread block; thread blocks
    int32_t *to;            // os, half of os, or the compact map; pair lists: null
    uint32_t columns[4];    // near os: bits of the offsets that it has
    device_status *trouble; // may be null, but for the compact form
};

template <int K, typename W>
SPIRA_API plane_task<W> plane_task_make(const word_layout *layout, const map_request<W> *r,
                                        int32_t block, int32_t *to) {
    plane_task<W> task = {};
    task.walk = search_walk_make<W>(layout, &r->kernel);
    task.source = r->source;
    task.outputs = r->outputs;
    task.block = block;
    task.tiles = (int32_t)ceil_div(r->outputs.capacity, plane_rows(K));
    task.to = to;
    task.trouble = r->forms.trouble;
    return task;
}

// The maps of a launch.
template <typename W>
struct plane_batch {
    int32_t first[map_batch_max]; // thread block of each task; see block_find_part
    int tasks;
    plane_task<W> task[map_batch_max];
};

// The task of this thread block, in one step. os of cubes of 3 and 5 has no registers for it.
template <typename W>
SPIRA_DEVICE const plane_task<W> &plane_find_task(const plane_batch<W> &batch) {
    return batch.task[block_find_part(batch.first, (int32_t)blockIdx.x)];
}

// Reads a tile of outputs of a task, for each warp alike. Returns false if there are none.
template <typename W, int K>
SPIRA_DEVICE bool plane_tile_begin(const plane_task<W> &task, int tile, search_sets<W> *sets,
                                   plane_outputs<W, K> *queries) {
    int first = tile * plane_rows(K);
    plane_read<W, K>(task.outputs.words, task.outputs.capacity, first, queries);
    *sets = {task.source.words, task.outputs.words,
             count_clamp(*task.source.count, task.source.capacity),
             min(*task.outputs.count, task.outputs.capacity)};
    // Near INT32_MIN the difference wraps round; there are no rows then, and `false` says so.
    int rows = min((int)((uint32_t)sets->total - (uint32_t)first), plane_rows(K));
    plane_limit<W, K>(rows, queries); // before the branch, so that the loads are issued before it
    map_report(task, task.trouble, tile);
    return first < sets->total;
}

// The tile of thread block `block` of a task of `tiles`: first those at both ends of the outputs,
// in turn, towards the middle. Far from the sensor voxels are sparse, so tiles there cover many
// planes and have the longest windows; a launch would wait for the last of them.
SPIRA_BOTH int plane_tile(int block, int tiles) {
    return block & 1 ? tiles - 1 - (block >> 1) : block >> 1;
}

// ---- os -----------------------------------------------------------------------------------------

// Warps per multiprocessor that the kernel of a form has registers for, without spills.
SPIRA_BOTH constexpr int plane_warps(int K, plane_form form, int word) {
    const bool all = form == plane_form_os;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
    return all ? 32 : 24; // a multiprocessor may have no more than 32 warps, or 16 thread blocks
#else
    return K > 5                                 ? 21 // of three thread blocks: shared memory
           : word > 4                            ? (K <= 3 && !all ? 32 : 36)
           : K > 3 || form == plane_form_compact ? 40
           : all                                 ? 48
                                                 : 36;
#endif
}

// Lists the offsets of a near os in ascending order: offset[i] is that of column i. Returns their
// number. All threads call it; a barrier must follow.
template <int K>
SPIRA_DEVICE int plane_near_columns(const uint32_t (&columns)[4], uint8_t *offset) {
    int before = 0, all = 0;
#pragma unroll
    for (int w = 0; w < 4; ++w) {
        before += w < (int)threadIdx.x / 32 ? __popc(columns[w]) : 0;
        all += __popc(columns[w]);
    }
    if (threadIdx.x < K * K * K) {
        const uint32_t word = columns[threadIdx.x / 32], bit = 1u << threadIdx.x % 32;
        if (word & bit) {
            offset[before + __popc(word & (bit - 1))] = (uint8_t)threadIdx.x;
        }
    }
    return all;
}

// Writes os: all of it, half, or near. The block stores the taps of a pass together.
template <typename W, int K, plane_form form>
SPIRA_KERNEL void __launch_bounds__(32 * plane_count(K, form == plane_form_half),
                                    plane_warps(K, form, sizeof(W)) /
                                        plane_count(K, form == plane_form_half))
    plane_os_kernel(const __grid_constant__ plane_batch<W> batch) {
    constexpr bool half = form == plane_form_half, chosen = form == plane_form_near;
    extern __shared__ int4 map_shared[];
    __shared__ uint8_t offset[chosen ? K * K * K : 1];
    pdl_launch_dependents();
    const plane_task<W> &task = K == 2 ? plane_find_task(batch) : map_find_task(batch);
    search_sets<W> sets;
    plane_outputs<W, K> queries;
    const int tile = plane_tile((int)blockIdx.x - task.block, task.tiles);
    if (!plane_tile_begin<W, K>(task, tile, &sets, &queries)) {
        pdl_wait();
        return;
    }
    const int32_t *taps = (const int32_t *)map_shared; // [outputs of a pass, columns]
    const int plane = threadIdx.x / 32, columns = plane_columns(K, half);
    const bool cut = half && plane == K / 2; // ends at the centre
    const bool mirrored = K == 2 && task.walk.transposed;
    const int wanted = chosen ? plane_near_columns<K>(task.columns, offset) : columns;
    uint32_t *windows = (uint32_t *)((char *)map_shared + plane_taps_bytes(K, half));
    const int column = mirrored ? columns - 1 - plane * K * K : plane * K * K;
    const plane_to to = {shared_address(taps + (int)(threadIdx.x & 31) * columns + column),
                         mirrored ? -4 : 4};
    const plane_search<W, K> search =
        plane_begin<W, K>(task.walk, sets, queries, plane, windows + plane * plane_window_words(K));
#pragma unroll
    for (int g = 0; g < plane_rows(K) / 32; g += plane_ahead(K)) {
        const int left = queries.rows - g * 32;
        if (left <= 0) {
            break;
        }
        plane_found<K> found[plane_ahead(K)];
        const bool fits = plane_near(search);
        if (fits) {
            plane_find<W, K>(search, g, found);
        }
        if (g) {
            map_copy_wait();
            __syncthreads();
        }
        if (!fits) {
            plane_put_far<W, K, columns>(search, g, cut ? K * K / 2 : K * K, to);
        } else if (cut) {
            plane_put<W, K, K * K / 2, columns>(search, found, g, to);
        } else {
            plane_put<W, K, K * K, columns>(search, found, g, to);
        }
        proxy_fence();
        __syncthreads();
        const int rows = min(left, plane_ahead(K) * 32);
        int32_t *out = task.to + (int64_t)(queries.first + g * 32) * wanted;
        if (chosen) {
            for (int i = threadIdx.x; i < rows * wanted; i += 32 * K) {
                const int row = i / wanted;
                out[i] = taps[row * columns + offset[i - row * wanted]];
            }
        } else {
            map_copy_rows<32 * plane_count(K, half)>(taps, rows * columns, out);
        }
    }
    map_copy_wait();
    pdl_wait();
}

// ---- the compact form ---------------------------------------------------------------------------

// Writes the record of what a search found. to: aligned to 16 bytes for K = 3, to 8 for K = 5.
template <int K>
SPIRA_DEVICE void plane_put_record(const plane_found<K> &found, int32_t *to) {
    static_assert(K == 3 || K == 5, "a record is one int4 or three int2");
    int32_t record[K + 1] = {};
#pragma unroll
    for (int y = 0; y < K; ++y) {
        record[y] = found.position[y];
        record[K] |= (int32_t)((found.bits[y] & ((1u << K) - 1)) << (y * K));
    }
    if constexpr (K == 3) {
        *(int4 *)to = {record[0], record[1], record[2], record[3]};
    } else {
#pragma unroll
        for (int i = 0; i < K + 1; i += 2) {
            *(int2 *)(to + i) = {record[i], record[i + 1]};
        }
    }
}

// Searches a sampled window and writes the records of all outputs of the tile. Called by all
// threads of a block.
template <typename W, int K>
SPIRA_DEVICE void plane_put_far_records(const plane_task<W> &task,
                                        const plane_search<W, K> &search) {
#pragma unroll 1
    for (int row = threadIdx.x; row < search.queries.rows; row += 32 * K) {
        const int output = search.queries.first + row;
        const W word = search.sets.outputs[output]; // read again: fewer registers
        int32_t *record = task.to + compact_at(K, task.outputs.capacity, search.plane, output);
        plane_found<K> found;
        if (plane_far_find<W, K, true>(search, word, &found)) {
            plane_put_record<K>(found, record);
            continue;
        }
        int32_t taps[K * K]; // words off the lattice
        plane_far_walk<W, K>(search, word, [&](int c, int tap) { taps[c] = tap; });
        if (!compact_record_put(taps, K, record)) {
            device_status_raise(task.trouble, device_flag_lattice, (uint32_t)output);
        }
    }
}

// Writes the compact form. The warps of a thread block divide the outputs in a sampled window, when
// they have done their own planes.
template <typename W, int K>
SPIRA_KERNEL void __launch_bounds__(32 * K, plane_warps(K, plane_form_compact, sizeof(W)) / K)
    plane_compact_kernel(const __grid_constant__ plane_batch<W> batch) {
    extern __shared__ int4 map_shared[]; // [plane_windows_bytes(K)]
    __shared__ plane_window windows[K];
    pdl_launch_dependents();
    const plane_task<W> &task = plane_find_task(batch);
    search_sets<W> sets;
    plane_outputs<W, K> queries;
    const int tile = plane_tile((int)blockIdx.x - task.block, task.tiles);
    if (!plane_tile_begin<W, K>(task, tile, &sets, &queries)) {
        pdl_wait();
        return;
    }
    const int plane = threadIdx.x / 32, lane = threadIdx.x & 31;
    plane_search<W, K> search = plane_begin<W, K>(
        task.walk, sets, queries, plane, (uint32_t *)map_shared + plane * plane_window_words(K));
    if (lane == 0) {
        windows[plane] = search.window;
    }
    int32_t *to = task.to + compact_at(K, task.outputs.capacity, plane, queries.first);
    const bool fits = plane_near(search);
#pragma unroll
    for (int g = 0; fits && g < plane_rows(K) / 32 && g * 32 < queries.rows; g += plane_ahead(K)) {
        plane_found<K> found[plane_ahead(K)];
        plane_find<W, K>(search, g, found);
#pragma unroll
        for (int a = 0; a < plane_ahead(K); ++a) {
            const int row = (g + a) * 32 + lane;
            if (row < queries.rows) {
                plane_put_record<K>(found[a], to + row * compact_record_words(K));
            }
        }
    }
    if (__syncthreads_or(!fits)) {
#pragma unroll 1
        for (search.plane = 0; search.plane < K; ++search.plane) {
            search.window = windows[search.plane];
            if (!plane_near(search)) {
                plane_put_far_records<W, K>(task, search);
            }
        }
    }
    pdl_wait();
}

// ---- launch -------------------------------------------------------------------------------------

// Launches a kernel for up to map_batch_max requests.
template <typename W, int K, plane_form form>
SPIRA_API status plane_launch(const word_layout *layout, const map_request<W> *const *request,
                              int requests, bool programmatic, cudaStream_t stream) {
    constexpr bool half = form == plane_form_half;
    plane_batch<W> batch;
    int64_t blocks = 0;
    batch.tasks = requests;
    std::fill(batch.first, batch.first + map_batch_max, INT32_MAX);
    for (int i = 0; i < requests; ++i) {
        const map_forms &f = request[i]->forms;
        batch.first[i] = (int32_t)blocks;
        batch.task[i] = plane_task_make<K>(layout, request[i], (int32_t)blocks,
                                           form == plane_form_compact ? f.compact : f.os);
        blocks += batch.task[i].tiles;
        for (int k = 0; form == plane_form_near && k < K * K * K; ++k) {
            const uint32_t bit = kernel_norm(&request[i]->kernel, k) < f.threshold;
            batch.task[i].columns[k / 32] |= bit << k % 32;
        }
    }
    const int planes = plane_count(K, half), windows = plane_windows_bytes(planes, K);
    launch_config config = {(unsigned)blocks, (unsigned)(32 * planes), stream, "map_build",
                            programmatic,     (size_t)windows};
    if constexpr (form == plane_form_compact) {
        return kernel_launch(plane_compact_kernel<W, K>, config, batch);
    } else { // the taps of a pass, then the windows
        config.shared += (size_t)plane_taps_bytes(K, half);
        if constexpr (K > 5) {
            SPIRA_TRY(kernel_shared_allow(plane_os_kernel<W, K, form>, (int)config.shared,
                                          config.subject));
        }
        return kernel_launch(plane_os_kernel<W, K, form>, config, batch);
    }
}

} // namespace spira

#endif
