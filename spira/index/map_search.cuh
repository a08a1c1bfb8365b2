// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/index/map_search.cuh: the kernel that builds kernel maps of any size, in any form.
//
// A thread block searches a tile of outputs into shared memory (search_block, search.cuh). Then it
// passes the tile to one writer for each form that is wanted (map_write.cuh). One launch builds up
// to map_batch_max maps. Pair lists are made from the same tiles: map_lists.cuh.
//
// Small cubic kernels have faster kernels for some forms: plane_map.cuh.
#ifndef SPIRA_INDEX_MAP_SEARCH_CUH
#define SPIRA_INDEX_MAP_SEARCH_CUH

#include "../base/launch.cuh"
#include "../search.cuh"
#include "map_write.cuh"

namespace spira {

// What a launch can write.
enum map_mode {
    map_mode_os,    // os with all offsets, and nothing else
    map_mode_forms, // all forms
};

// One map of a launch.
template <typename W>
struct map_task {
    search_walk<W> walk;
    search_shape shape;
    voxel_set<W> source, outputs;
    int32_t block; // its first thread block
    int os_columns;
    map_mode mode;
    map_forms forms;
    search_choice choice;
};

template <typename W>
struct map_batch {
    int tasks;
    map_task<W> task[map_batch_max];
};

enum { map_columns_most = 256 }; // offsets of a tile of the search

// The L1 norm of offset k: kernel_norm with fewer registers.
SPIRA_DEVICE int map_norm(triple size, int k) {
    int row = k / size.z;
    int x = row / size.y + kernel_first(size.x), y = row % size.y + kernel_first(size.y);
    int z = k - row * size.z + kernel_first(size.z);
    return abs(x) + abs(y) + abs(z);
}

// Writes to chosen [tile.k_end - tile.k_begin] the column of os that each offset below `searched`
// has, or -1. before: columns of the passes before. Returns the columns up to here. Called by one
// warp.
template <typename W>
SPIRA_DEVICE int map_choose_columns(const map_task<W> &task, const search_tile &tile, int searched,
                                    int before, int16_t *chosen) {
    const triple size = {task.walk.size_x, task.walk.size_y, task.walk.size_z};
    const int lane = threadIdx.x & 31, k_begin = tile.k_begin, k_end = tile.k_end;
    for (int k = k_begin + lane; k - lane < k_end; k += 32) {
        bool take = k < k_end && k < searched && map_norm(size, k) < task.forms.threshold;
        uint32_t all = __ballot_sync(~0u, take);
        if (k < k_end) {
            chosen[k - k_begin] =
                take ? (int16_t)(before + __popc(all & ((1u << lane) - 1))) : (int16_t)-1;
        }
        before += __popc(all);
    }
    return before;
}

// Writes the forms of a tile.
template <typename W>
SPIRA_DEVICE void map_write_forms(const map_task<W> &task, const search_tile &tile, int searched,
                                  int *chosen_before) {
    __shared__ int16_t chosen[map_columns_most];
    const map_forms &f = task.forms;
    if (f.os && task.os_columns == searched) {
        map_write_os(tile, searched, f.os);
    } else if (f.os) {
        if (threadIdx.x < 32) {
            *chosen_before = map_choose_columns(task, tile, searched, *chosen_before, chosen);
        }
        __syncthreads();
        map_write_os(tile, task.os_columns, f.os, chosen);
    }
    if (f.ws) {
        map_write_ws(tile, searched, task.outputs.capacity, f.ws);
    }
    if (f.mask) {
        map_write_mask(tile, searched, map_mask_words(task.walk.volume), f.mask);
    }
}

// Searches tile `number` of a task, pass by pass, and calls write(search_tile) after each.
//
// choice  rows of offsets that are searched; null: all
// whole   searches all planes, also those that a half map does not have
// shared  search_block_bytes(task.shape) bytes, aligned to 16
template <typename W, typename F>
SPIRA_DEVICE void map_search_passes(const map_task<W> &task, const search_choice *choice,
                                    bool whole, int number, void *shared, F write) {
    const search_walk<W> &walk = task.walk;
    const search_sets<W> sets = map_sets(task.source, task.outputs);
    int first = number * task.shape.rows;
    int rows = min(sets.total - first, task.shape.rows);
    if (rows <= 0) {
        return;
    }
    int size_x = whole || !task.forms.half ? walk.size_x : walk.size_x / 2 + 1;
    for (int pass = 0; pass < task.shape.passes; ++pass) {
        if (pass) {
            __syncthreads();
        }
        // Passes go in ascending order of offsets, so a transposed kernel starts at its last plane.
        int plane = pass * task.shape.planes;
        int planes = min(size_x - plane, task.shape.planes);
        if (planes <= 0) {
            break;
        }
        plane = walk.transposed ? walk.size_x - plane - planes : plane;
        write(search_block(walk, task.shape, sets, {first, rows, plane, planes, choice}, shared));
    }
}

// Builds the maps of a batch: one thread block for each tile of each task.
template <typename W, map_mode mode>
SPIRA_KERNEL void __launch_bounds__(search_threads, mode == map_mode_os ? 8 : 5)
    map_kernel(const __grid_constant__ map_batch<W> batch) {
    extern __shared__ int4 map_shared[];
    const map_task<W> &task = map_find_task(batch);
    const int number = (int)blockIdx.x - task.block;
    map_report(task, task.forms.trouble, number);
    int searched = task.forms.half ? task.walk.volume / 2 : task.walk.volume, chosen_before = 0;
    map_search_passes(task, mode == map_mode_os ? nullptr : &task.choice, false, number, map_shared,
                      [&](const search_tile &tile) {
                          if (mode == map_mode_os) {
                              map_write_os(tile, task.walk.volume, task.forms.os);
                          } else {
                              map_write_forms(task, tile, searched, &chosen_before);
                          }
                      });
    pdl_wait(); // maps of a batch are independent: see base/launch.cuh
}

// ---- launch -------------------------------------------------------------------------------------

// block: the task's first thread block.
template <typename W>
SPIRA_API map_task<W> map_task_make(const word_layout *layout, const map_request<W> *r,
                                    int32_t block) {
    const map_forms &f = r->forms;
    map_task<W> task;
    bool linear = f.os && f.threshold >= map_all && !f.half;
    bool only_os = f.os && !f.ws && !f.mask;
    task.walk = search_walk_make<W>(layout, &r->kernel);
    task.shape = search_shape_choose(r->kernel.size, kernel_step(&r->kernel), !linear);
    task.source = r->source;
    task.outputs = r->outputs;
    task.block = block;
    task.choice =
        search_choose(&r->kernel, map_columns(&r->kernel, f.half), only_os ? f.threshold : map_all);
    task.os_columns = map_os_columns(&r->kernel, f.threshold, f.half);
    task.forms = f;
    task.mode = only_os && linear ? map_mode_os : map_mode_forms;
    return task;
}

// Launches map_kernel for up to map_batch_max requests of the given kinds. The batch needs the
// highest mode of its requests, which is compiled because that request's kind is.
template <typename W, unsigned kinds>
SPIRA_API status map_search_launch(const word_layout *layout, const map_request<W> *const *request,
                                   int requests, bool programmatic, cudaStream_t stream) {
    map_batch<W> batch;
    int64_t blocks = 0;
    int bytes = 0;
    map_mode mode = kinds & map_kind_os ? map_mode_os : map_mode_forms;
    batch.tasks = requests;
    for (int i = 0; i < requests; ++i) {
        const map_request<W> *r = request[i];
        batch.task[i] = map_task_make(layout, r, (int32_t)blocks);
        blocks += ceil_div(r->outputs.capacity, batch.task[i].shape.rows);
        bytes = (int)max_of(bytes, search_block_bytes(batch.task[i].shape));
        mode = batch.task[i].mode > mode ? batch.task[i].mode : mode;
    }
    void (*kernel)(map_batch<W>) = nullptr;
    if constexpr (kinds & map_kind_os) {
        kernel = mode == map_mode_os ? map_kernel<W, map_mode_os> : kernel;
    }
    if constexpr (kinds & (map_kind_half | map_kind_mixed)) {
        kernel = mode == map_mode_forms ? map_kernel<W, map_mode_forms> : kernel;
    }
    return kernel_launch(
        kernel,
        {(unsigned)blocks, search_threads, stream, "map_build", programmatic, (size_t)bytes},
        batch);
}

} // namespace spira

#endif
