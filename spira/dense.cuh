// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/dense.cuh: dense maps on the GPU, in one launch. Shapes, orders and the host loop are in
// dense.h; the kernels in dense/write.cuh.
#ifndef SPIRA_DENSE_CUH
#define SPIRA_DENSE_CUH

#include "dense.h"
#include "dense/write.cuh"
#include "device.h"

namespace spira {

// Fills a task; returns its thread blocks.
template <typename W>
SPIRA_API int64_t dense_task_make(const dense_args<W> *a, dense_task<W> *task) {
    const bool first = a->order == dense_channels_first;
    const triple extent = a->grid.extent;
    const int64_t cells = (int64_t)extent.x * extent.y, deep = (int64_t)a->channels * extent.z;
    const int out = numeric_size(a->out_type);
    *task = {};
    task->args = *a;
    task->layout = *a->layout;
    task->wide_in = a->channels % dense_channels == 0 && wide_aligned(a->features, 16);
    task->wide_out =
        first ? cells % dense_cells == 0 && wide_aligned(a->out, (size_t)(dense_cells * out))
              : deep % dense_channels == 0 && wide_aligned(a->out, 16);
    task->cells = (int32_t)max_of(dense_sites / extent.z, 1);
    const int64_t tiles = ceil_div(cells, first ? dense_tile : task->cells);
    const int64_t chunks = first ? ceil_div(a->channels, dense_chunk) : ceil_div(deep, dense_run);
    const int64_t planes = (int64_t)a->batch * (first ? ceil_div(extent.z, dense_planes) : 1);
    const bool fits = tiles <= INT32_MAX / chunks && planes <= INT32_MAX / (tiles * chunks);
    task->tiles = (int32_t)tiles;
    task->chunks = (int32_t)chunks;
    return fits ? planes * tiles * chunks : INT64_MAX;
}

template <typename W, typename I, typename O>
SPIRA_API status dense_launch(const device_info *gpu, const dense_task<W> &task, int64_t blocks,
                              cudaStream_t stream) {
    const bool first = task.args.order == dense_channels_first;
    const auto kernel = first ? dense_first_kernel<W, I, O> : dense_last_kernel<W, I, O>;
    const int planes = first && task.args.grid.extent.z > 1 ? dense_planes : 1; // of a thread block
    return kernel_launch(kernel,
                         {(unsigned)blocks, (unsigned)(planes * dense_threads), stream, "dense",
                          task.args.programmatic && gpu->programmatic},
                         task);
}

// The features of a set as a dense map, with zeros where there is no voxel.
//
// inputs   args: see dense_args. Set and features on the device. `format` is the only format of
//          the features that is compiled, `out_format` the only one of the map
// outputs  args.out: all elements, whatever was there: the feature of the voxel, rounded once to
//          out_type, or 0. Where both formats are the same, the bits stay
//          args.trouble: with the first voxel that is left out, device_flag_lattice if it lies
//          between the points of the grid; device_flag_range if it is outside of the layout, beyond
//          the grid's ends or beyond the batch. A count of the set above its capacity
// errors   a grid whose last coordinate is no int; out_type tf32; channels last with a depth above
//          dense_depth_max; 2^31 or more thread blocks
// Asynchronous, deterministic, equal to dense_host (a NaN may have other bits where it changes its
// format).
// cost     one launch, no scratch. It writes each element of the map once and reads each row once.
//          One search of the set serves two depths of a cell and 64 channels; with channels last,
//          one depth and 1024 elements.
//          The writes are widest if width * height is a multiple of 4 (channels last: channels *
//          depth of 8) and `out` is aligned to 16 bytes; the reads if channels is a multiple of 8
//          and `features` is aligned to 16 bytes
template <typename W, numeric format = numeric_any, numeric out_format = numeric_any>
SPIRA_API status dense(const device_info *gpu, const dense_args<W> *args, cudaStream_t stream) {
    SPIRA_REQUIRE(gpu, status_null_pointer, "gpu", 0);
    SPIRA_TRY(dense_check(args));
    SPIRA_REQUIRE(out_format == numeric_any || args->out_type == out_format, status_unsupported,
                  "out_type (another one than the function is compiled for)", args->out_type);
    dense_task<W> task;
    const int64_t blocks = dense_task_make(args, &task);
    SPIRA_REQUIRE(blocks <= INT32_MAX, status_bad_size, "grid.extent (too many thread blocks)",
                  args->grid.extent.x);
    return numeric_dispatch<format>(args->type, [&](auto in) {
        return numeric_dispatch<out_format>(args->out_type, [&](auto out) {
            typedef typename decltype(in)::element I;
            typedef typename decltype(out)::element O;
            return dense_launch<W, I, O>(gpu, task, blocks, stream);
        });
    });
}

// ---- gradient -----------------------------------------------------------------------------------

// The gradient of `dense`: gathers, for each voxel, the gradient of its cell.
//
// format, out_format   as of dense: of features_grad and of the map
//
// inputs   args: those of `dense`, but `out` holds the gradient of the map, `features` is not read,
//          and `type` is that of features_grad
// outputs  features_grad [set.capacity, channels]: rounded once; 0 for a voxel that `dense`
//          leaves out. Rows from the count on are not written. `trouble` is not written
// errors   those of dense
// Asynchronous, deterministic, equal to dense_grad_host (a NaN may have other bits); one launch, no
// scratch.
template <typename W, numeric format = numeric_any, numeric out_format = numeric_any>
SPIRA_API status dense_grad(const device_info *gpu, const dense_args<W> *args, void *features_grad,
                            cudaStream_t stream) {
    SPIRA_REQUIRE(gpu, status_null_pointer, "gpu", 0);
    SPIRA_TRY(dense_grad_check(args, features_grad));
    SPIRA_REQUIRE(out_format == numeric_any || args->out_type == out_format, status_unsupported,
                  "out_type (another one than the function is compiled for)", args->out_type);
    const int64_t grid = ceil_div((int64_t)args->set.capacity * args->channels, dense_threads);
    SPIRA_REQUIRE(grid <= INT32_MAX, status_bad_size, "set.capacity * channels", grid);
    return numeric_dispatch<format>(args->type, [&](auto own) {
        return numeric_dispatch<out_format>(args->out_type, [&](auto map) {
            typedef typename decltype(own)::element O;
            typedef typename decltype(map)::element I;
            return kernel_launch(dense_grad_kernel<W, I, O>,
                                 {(unsigned)grid, dense_threads, stream, "dense_grad",
                                  args->programmatic && gpu->programmatic},
                                 *args, *args->layout, (O *)features_grad);
        });
    });
}

} // namespace spira

#endif
