// spira/index/dense_write.cuh: the kernels that write dense maps (dense.cuh).
//
// Each element of the map is written once, by a thread that knows its grid cell. So nothing is
// cleared beforehand, neighbouring threads write neighbouring elements, and no two threads write
// the same one. A thread block finds the voxels of its cells by binary search of the set, and keeps
// their rows in shared memory.
//
//   channels first   a thread block writes 128 cells of a plane (batch index, depth) and 64
//                    channels; a thread 4 cells and 8 channels, so that it reads 8 channels of a
//                    row at once and writes 4 neighbours of a plane at once
//   channels last    a thread block writes whole cells with all depths; a thread 8 elements of a
//                    cell
#ifndef SPIRA_INDEX_DENSE_WRITE_CUH
#define SPIRA_INDEX_DENSE_WRITE_CUH

#include "../base/launch.cuh"
#include "../base/wide.cuh"
#include "../dense.h"
#include "../numeric.cuh"
#include "../search.h"

namespace spira {

enum {
    dense_threads = 256,
    dense_channels = 8,                                // of a thread
    dense_cells = 4,                                   // of a thread, channels first
    dense_tile = 32 * dense_cells,                     // cells of a thread block, channels first
    dense_chunk = dense_threads / 32 * dense_channels, // channels of a thread block, channels first
    dense_sites = 128,                                 // cells times depth, channels last
    dense_run = 1024,                                  // elements of a cell, channels last
};

// What a kernel needs of dense_args.
template <typename W>
struct dense_task {
    word_layout words;
    voxel_set<W> set;
    expand_grid grid;
    triple stride;
    int batch, channels;
    int32_t tiles, chunks; // thread blocks = batch [* depth, channels first] * tiles * chunks
    int32_t cells;         // of a tile, channels last
    bool wide_in;          // 8 channels of a row may be read at once
    bool wide_out;         // 4 cells, or 8 elements, may be written at once
    const void *features;
    void *out;
    device_status *trouble;
};

// Records voxels that no cell takes. Each thread of the grid looks at a share of the set.
template <typename W>
SPIRA_DEVICE void dense_report(const dense_task<W> &task, int32_t count) {
    const int64_t all = (int64_t)gridDim.x * dense_threads;
    int64_t i = (int64_t)blockIdx.x * dense_threads + threadIdx.x;
    if (i == 0 && *task.set.count > task.set.capacity) {
        device_status_raise(task.trouble, device_flag_capacity, (uint32_t)*task.set.count);
    }
    for (; i < count; i += all) {
        voxel cell;
        if (!dense_locate(&task.grid, task.stride, task.batch,
                          word_unpack(&task.words, task.set.words[i]), &cell)) {
            device_status_raise(task.trouble, device_flag_range, (uint32_t)i);
        }
    }
}

// The row of the voxel at a cell, or -1. at: y * width + x; -1 at or past the last one.
template <typename W>
SPIRA_DEVICE int32_t dense_find(const dense_task<W> &task, int32_t count, int batch, int64_t at,
                                int z) {
    const expand_grid &g = task.grid;
    if (at >= (int64_t)g.extent.x * g.extent.y) {
        return -1;
    }
    const int y = (int)(at / g.extent.x), x = (int)(at % g.extent.x);
    const voxel v = {batch, g.origin.x + x * task.stride.x, g.origin.y + y * task.stride.y,
                     g.origin.z + z * task.stride.z};
    if (!word_contains(&task.words, v)) {
        return -1;
    }
    const W word = word_pack<W>(&task.words, v);
    const int32_t row = search_lower_bound(task.set.words, 0, count, word);
    return row < count && task.set.words[row] == word ? row : -1;
}

// The bits stay where both formats are the same; else one rounding.
template <typename O, typename I>
SPIRA_DEVICE O dense_value(I value, const O *) {
    return element_from_float<O>(element_to_float(value));
}

template <typename O>
SPIRA_DEVICE O dense_value(O value, const O *) {
    return value;
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
constexpr int dense_resident<E, E> = sizeof(E) == 2 ? 8 : 4;

// Channels first. Thread blocks: [batch, depth, tiles, chunks].
template <typename W, typename I, typename O>
SPIRA_KERNEL void __launch_bounds__(dense_threads, dense_resident<I, O>)
    dense_first_kernel(const __grid_constant__ dense_task<W> task) {
    __shared__ int32_t rows[dense_tile];
    const int32_t count = voxel_set_count(task.set);
    const int lane = (int)(threadIdx.x % 32), warp = (int)(threadIdx.x / 32);
    const int32_t chunk = (int32_t)blockIdx.x % task.chunks;
    const int32_t tile = (int32_t)blockIdx.x / task.chunks % task.tiles;
    const int32_t plane = (int32_t)blockIdx.x / task.chunks / task.tiles;
    const triple extent = task.grid.extent;
    const int batch = plane / extent.z, z = plane % extent.z;
    const int64_t first = (int64_t)tile * dense_tile, cells = (int64_t)extent.x * extent.y;

    // ---- the rows of the cells
    if (threadIdx.x < dense_tile) {
        rows[threadIdx.x] = dense_find(task, count, batch, first + threadIdx.x, z);
    }
    dense_report(task, count);
    __syncthreads();
    pdl_wait(); // for the features

    // ---- features of 4 cells
    const int c = chunk * dense_chunk + warp * dense_channels;
    if (c >= task.channels) {
        return;
    }
    const int own = task.wide_out ? lane * dense_cells : lane, apart = task.wide_out ? 1 : 32;
    wide_elements<I, dense_channels> in[dense_cells];
#pragma unroll
    for (int i = 0; i < dense_cells; ++i) {
        dense_load((const I *)task.features, rows[own + i * apart], task.channels, c, task.wide_in,
                   in[i]);
    }

    // ---- channel by channel
    O *to =
        (O *)task.out + dense_at(dense_channels_first, extent, task.channels, {batch, 0, 0, z}, c);
#pragma unroll
    for (int k = 0; k < dense_channels; ++k, to += cells * extent.z) {
        wide_elements<O, dense_cells> out;
#pragma unroll
        for (int i = 0; i < dense_cells; ++i) {
            out.at[i] = dense_value(in[i].at[k], (const O *)nullptr);
        }
        if (c + k >= task.channels) {
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
    const int depth = task.grid.extent.z;
    if (depth == 1) {
        dense_load((const I *)task.features, rows[0], task.channels, (int)first, task.wide_in, to);
        return;
    }
    int c = (int)(first / depth), d = (int)(first % depth);
#pragma unroll
    for (int k = 0; k < dense_channels; ++k) {
        const int32_t row = rows[d];
        const bool has = row >= 0 && c < task.channels;
        to.at[k] = has ? ((const I *)task.features)[(int64_t)row * task.channels + c] : I();
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
    const int32_t count = voxel_set_count(task.set);
    const int32_t chunk = (int32_t)blockIdx.x % task.chunks;
    const int32_t tile = (int32_t)blockIdx.x / task.chunks % task.tiles;
    const int32_t batch = (int32_t)blockIdx.x / task.chunks / task.tiles;
    const triple extent = task.grid.extent;
    const int64_t first = (int64_t)tile * task.cells, cells = (int64_t)extent.x * extent.y;

    // ---- the rows of the cells: [cells, depth]
    for (int i = (int)threadIdx.x; i < task.cells * extent.z; i += dense_threads) {
        rows[i] = dense_find(task, count, batch, first + i / extent.z, i % extent.z);
    }
    dense_report(task, count);
    __syncthreads();
    pdl_wait(); // for the features

    // ---- 8 elements of a cell at a time
    const int64_t deep = (int64_t)task.channels * extent.z;
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
            out.at[k] = dense_value(in.at[k], (const O *)nullptr);
        }
        wide_write_channels(out, (O *)task.out + (batch * cells + first + cell) * deep, deep, e,
                            task.wide_out);
    }
}

} // namespace spira

#endif
