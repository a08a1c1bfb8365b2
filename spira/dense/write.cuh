// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/dense/write.cuh: the kernels that write dense maps (dense.cuh), and that of their gradient
// (dense.cuh).
//
// Each element of the map is written once, by a thread that knows its grid cell. So nothing is
// cleared beforehand, neighbouring threads write neighbouring elements, and no two threads write
// the same one. A thread block finds the voxels of its cells by binary search of the set, and keeps
// their rows in shared memory.
//
//   channels first   a thread block writes 128 cells of up to two planes (batch index, depth) and
//                    64 channels; a thread 4 cells of a plane and 8 channels, so that it reads 8
//                    channels of a row at once and writes 4 neighbours of a plane at once. One
//                    search finds both depths of a cell, which are neighbours in the set
//   channels last    a thread block writes whole cells with all depths; a thread 8 elements of a
//                    cell
#ifndef SPIRA_DENSE_WRITE_CUH
#define SPIRA_DENSE_WRITE_CUH

#include "../base/launch.cuh"
#include "../base/wide.cuh"
#include "../dense.h"
#include "../numeric.cuh"
#include "../search.h"

#include <type_traits>

namespace spira {

enum {
    dense_threads = 256,
    dense_channels = 8,                                // of a thread
    dense_cells = 4,                                   // of a thread, channels first
    dense_tile = 32 * dense_cells,                     // cells of a thread block, channels first
    dense_chunk = dense_threads / 32 * dense_channels, // channels of a thread block, channels first
    dense_planes = 2,                                  // of a thread block, channels first, with
                                                       // dense_threads threads each
    dense_sites = 128,                                 // cells times depth, channels last
    dense_run = 1024,                                  // elements of a cell, channels last
};

// What a kernel gets: the layout by value, and how the map is cut.
template <typename W>
struct dense_task {
    dense_args<W> args;
    word_layout layout;
    int32_t tiles, chunks; // thread blocks = batch [* planes, channels first] * tiles * chunks
    int32_t cells;         // of a tile, channels last
    bool wide_in;          // 8 channels of a row may be read at once
    bool wide_out;         // 4 cells, or 8 elements, may be written at once
};

// Records voxels that have no cell. Each thread of the grid looks at a share of the set.
template <typename W>
SPIRA_DEVICE void dense_report(const dense_task<W> &task, int32_t count) {
    const int64_t all = (int64_t)gridDim.x * blockDim.x;
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i == 0) {
        device_status_raise_count(task.args.trouble, *task.args.set.count, task.args.set.capacity);
    }
#pragma unroll 1 // few threads have a second voxel, and registers are scarce
    for (; i < count; i += all) {
        voxel cell;
        const uint32_t wrong = dense_locate(&task.layout, &task.args.grid, task.args.stride,
                                            task.args.batch, task.args.set.words[i], &cell);
        if (wrong & device_flag_range) {
            device_status_raise(task.args.trouble, device_flag_range, (uint32_t)i);
        }
        if (wrong & device_flag_lattice) {
            device_status_raise(task.args.trouble, device_flag_lattice, (uint32_t)i);
        }
    }
}

// The rows of the voxels at a cell and `depths` depths from z on, or -1. at: y * width + x; none at
// or past the last one.
template <int depths, typename W>
SPIRA_DEVICE void dense_find(const dense_task<W> &task, int32_t count, int batch, int64_t at, int z,
                             int32_t (&rows)[depths]) {
    const expand_grid &g = task.args.grid;
    const bool inside = at < (int64_t)g.extent.x * g.extent.y;
    const int y = (int)(at / g.extent.x), x = (int)(at % g.extent.x);
    int cursor = -1; // in the set, behind the search
#pragma unroll
    for (int d = 0; d < depths; ++d) {
        const voxel v = {batch, g.origin.x + x * task.args.stride.x,
                         g.origin.y + y * task.args.stride.y,
                         g.origin.z + (z + d) * task.args.stride.z};
        rows[d] = -1;
        if (inside && z + d < g.extent.z && word_contains(&task.layout, v)) {
            const W word = word_pack<W>(&task.layout, v);
            cursor = cursor < 0 ? search_lower_bound(task.args.set.words, 0, count, word) : cursor;
            rows[d] = search_scan(task.args.set.words, count, word, &cursor);
        }
    }
}

// The bits stay where both formats are the same; else one rounding. scale: of int8
template <typename O, typename I>
SPIRA_DEVICE O dense_value(I value, float scale) {
    if constexpr (std::is_same_v<O, I>) {
        return value;
    } else {
        const float f = element_to_float(value);
        return element_from_float<O>(sizeof(I) == 1 ? f * scale : f);
    }
}

// Reads up to 8 channels of a row; zeros for row -1 and behind the last channel.
template <typename I>
SPIRA_DEVICE void dense_load(const I *features, int64_t row, int row_channels, int first, bool wide,
                             wide_elements<I, dense_channels> &to) {
#pragma unroll
    for (int k = 0; k < dense_channels; ++k) {
        to.at[k] = I();
    }
    if (row < 0) {
        return;
    }
    wide_read_channels(features + row * row_channels, row_channels, first, wide, to);
}

// Thread blocks of a multiprocessor. Eight need 32 registers, too few where types are converted.
template <typename I, typename O>
constexpr int dense_resident = 4;
template <typename E>
constexpr int dense_resident<E, E> = sizeof(E) <= 2 ? 8 : 4;

// Channels first. Thread blocks: [batch, planes, tiles, chunks] with the threads of one plane or of
// dense_planes.
template <typename W, typename I, typename O>
SPIRA_KERNEL void __launch_bounds__(dense_planes *dense_threads,
                                    launch_resident(dense_planes *dense_threads,
                                                    dense_resident<I, O> / dense_planes))
    dense_first_kernel(const __grid_constant__ dense_task<W> task) {
    __shared__ int32_t rows[dense_planes][dense_tile];
    const int32_t count = voxel_set_count(task.args.set);
    const int lane = (int)(threadIdx.x % 32), warp = (int)(threadIdx.x % dense_threads / 32);
    const int32_t chunk = (int32_t)blockIdx.x % task.chunks;
    const int32_t tile = (int32_t)blockIdx.x / task.chunks % task.tiles;
    const int32_t number = (int32_t)blockIdx.x / task.chunks / task.tiles;
    const triple extent = task.args.grid.extent;
    const int planes =
        (extent.z + dense_planes - 1) / dense_planes; // of a batch index: their pairs
    const int batch = number / planes, from = number % planes * dense_planes;
    const int plane = (int)(threadIdx.x / dense_threads), z = from + plane;
    const int64_t first = (int64_t)tile * dense_tile, cells = (int64_t)extent.x * extent.y;

    // ---- the rows of the cells
    if (threadIdx.x < dense_tile) {
        int32_t found[dense_planes];
        dense_find(task, count, batch, first + threadIdx.x, from, found);
#pragma unroll
        for (int d = 0; d < dense_planes; ++d) {
            rows[d][threadIdx.x] = found[d];
        }
    }
    dense_report(task, count);
    __syncthreads();
    pdl_wait(); // for the features

    // ---- features of 4 cells
    const int c = chunk * dense_chunk + warp * dense_channels;
    if (c >= task.args.channels || z >= extent.z) {
        return;
    }
    const int own = task.wide_out ? lane * dense_cells : lane, apart = task.wide_out ? 1 : 32;
    wide_elements<I, dense_channels> in[dense_cells];
#pragma unroll
    for (int i = 0; i < dense_cells; ++i) {
        dense_load((const I *)task.args.features, rows[plane][own + i * apart], task.args.channels,
                   c, task.wide_in, in[i]);
    }

    // ---- channel by channel
    O *to = (O *)task.args.out +
            dense_at(dense_channels_first, extent, task.args.channels, {batch, 0, 0, z}, c);
#pragma unroll
    for (int k = 0; k < dense_channels; ++k, to += cells * extent.z) {
        wide_elements<O, dense_cells> out;
#pragma unroll
        for (int i = 0; i < dense_cells; ++i) {
            out.at[i] = dense_value<O>(in[i].at[k], task.args.scale);
        }
        if (c + k >= task.args.channels) {
            break;
        }
        if (task.wide_out) {
            if (first + own < cells) {
                wide_write(out, to + first + own);
            }
            continue;
        }
#pragma unroll
        for (int i = 0; i < dense_cells; ++i) {
            if (first + own + i * apart < cells) {
                to[first + own + i * apart] = out.at[i];
            }
        }
    }
}

// The 8 elements of a cell from number `first` on, channels last. rows [depth].
template <typename W, typename I>
SPIRA_DEVICE void dense_gather(const dense_task<W> &task, const int32_t *rows, int64_t first,
                               wide_elements<I, dense_channels> &to) {
    const int depth = task.args.grid.extent.z;
    if (depth == 1) {
        dense_load((const I *)task.args.features, rows[0], task.args.channels, (int)first,
                   task.wide_in, to);
        return;
    }
    int c = (int)(first / depth), d = (int)(first % depth);
#pragma unroll
    for (int k = 0; k < dense_channels; ++k) {
        const int32_t row = rows[d];
        const bool has = row >= 0 && c < task.args.channels;
        to.at[k] =
            has ? ((const I *)task.args.features)[(int64_t)row * task.args.channels + c] : I();
        const bool next = d + 1 == depth;
        d = next ? 0 : d + 1;
        c += next;
    }
}

// Channels last. Thread blocks: [batch, tiles, chunks].
template <typename W, typename I, typename O>
SPIRA_KERNEL void __launch_bounds__(dense_threads)
    dense_last_kernel(const __grid_constant__ dense_task<W> task) {
    __shared__ int32_t rows[dense_depth_max];
    const int32_t count = voxel_set_count(task.args.set);
    const int32_t chunk = (int32_t)blockIdx.x % task.chunks;
    const int32_t tile = (int32_t)blockIdx.x / task.chunks % task.tiles;
    const int32_t batch = (int32_t)blockIdx.x / task.chunks / task.tiles;
    const triple extent = task.args.grid.extent;
    const int64_t first = (int64_t)tile * task.cells, cells = (int64_t)extent.x * extent.y;

    // ---- the rows of the cells: [cells, depth]
    for (int i = (int)threadIdx.x; i < task.cells * extent.z; i += dense_threads) {
        int32_t found[1];
        dense_find(task, count, batch, first + i / extent.z, i % extent.z, found);
        rows[i] = found[0];
    }
    dense_report(task, count);
    __syncthreads();
    pdl_wait(); // for the features

    // ---- 8 elements of a cell at a time
    const int64_t deep = (int64_t)task.args.channels * extent.z;
    const int groups = (int)min_of(ceil_div(deep - (int64_t)chunk * dense_run, dense_channels),
                                   dense_run / dense_channels);
    for (int i = (int)threadIdx.x; i < task.cells * groups; i += dense_threads) {
        const int cell = i / groups;
        const int64_t e = (int64_t)chunk * dense_run + i % groups * dense_channels;
        if (first + cell >= cells) {
            break;
        }
        wide_elements<I, dense_channels> in;
        wide_elements<O, dense_channels> out;
        dense_gather(task, rows + cell * extent.z, e, in);
#pragma unroll
        for (int k = 0; k < dense_channels; ++k) {
            out.at[k] = dense_value<O>(in.at[k], task.args.scale);
        }
        wide_write_channels(out, (O *)task.args.out + (batch * cells + first + cell) * deep, deep,
                            e, task.wide_out);
    }
}

// ---- the gradient -------------------------------------------------------------------------------

// I: element of the map; O: of the gradient.
template <typename W, typename I, typename O>
SPIRA_KERNEL void __launch_bounds__(dense_threads)
    dense_grad_kernel(dense_args<W> a, word_layout layout, O *features_grad) {
    const int64_t at = (int64_t)blockIdx.x * dense_threads + threadIdx.x;
    const int64_t i = at / a.channels;
    pdl_wait();
    if (i >= voxel_set_count(a.set)) {
        return;
    }
    voxel cell;
    const bool there = !dense_locate(&layout, &a.grid, a.stride, a.batch, a.set.words[i], &cell);
    float value = 0;
    if (there) {
        value = element_to_float((
            (const I *)
                a.out)[dense_at(a.order, a.grid.extent, a.channels, cell, (int)(at % a.channels))]);
    }
    features_grad[at] = element_from_float<O>(value);
}

} // namespace spira

#endif
