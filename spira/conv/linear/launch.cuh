// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/conv/linear/launch.cuh: which layers the linear kernel computes, and its launch.
#ifndef SPIRA_CONV_LINEAR_LAUNCH_CUH
#define SPIRA_CONV_LINEAR_LAUNCH_CUH

#include "kernel.cuh"

namespace spira {

// Whether the kernel computes a layer that Hopper's kernel takes: one offset onto itself, one
// source, rows of features, outputs and residual aligned to 16 bytes. It reads the same packed
// weights, and adds in the same order.
SPIRA_API bool linear_takes(const device_info *gpu, const conv_params &p) {
    const int bytes = 2 * p.cout; // of an output
    return gpu->tensor_map_encode && !p.order.row && p.volume == 1 && p.cin2 == 0 && !p.sums &&
           !p.shortcut.chunks && !p.quantisation.mixed && p.wide_in && p.capacity > 0 &&
           p.epilogue.act <= activation_gelu && p.pitch == p.cin && p.pitch_out == p.cout &&
           p.chunk_bytes == hopper_chunk_whole && bytes % conv_lane_bytes == 0 &&
           ((uintptr_t)p.out | (uintptr_t)p.residual) % conv_lane_bytes == 0;
}

// Whether it is faster than Hopper's kernel (bench/NOTES.md): always where that one has its general
// epilogue; otherwise with many tiles, and a residual or many input channels.
SPIRA_API bool linear_pays(const device_info *gpu, const conv_params &p) {
    const int64_t tiles = ceil_div(p.capacity, linear_rows) * ceil_div(p.cout, linear_columns_most);
    return !activation_is_bound(p.epilogue.act) ||
           (tiles >= gpu->multiprocessors && (p.residual || p.cin > 512));
}

// Encodes how the copy engine reads rows: 128 rows of 64 channels at a time, swizzled; zeros past
// the last channel and the last row.
SPIRA_API bool linear_map_encode(const device_info *gpu, const conv_params &p, linear_map *map) {
    enum { tensor_u16 = 1, tensor_swizzle_128 = 3, tensor_l2_256 = 3 }; // of the driver's cuda.h
    const uint64_t size[2] = {(uint64_t)p.cin, (uint64_t)p.capacity};
    const uint64_t pitch[1] = {2 * (uint64_t)p.cin};
    const uint32_t box[2] = {wgmma_row_most / 2, linear_rows}, step[2] = {1, 1};
    return gpu->tensor_map_encode(map, tensor_u16, 2, (void *)p.in, size, pitch, box, step, 0,
                                  tensor_swizzle_128, tensor_l2_256, 0) == 0;
}

// Output channels of a thread block.
SPIRA_API int linear_columns(int cout) {
    const int last = (cout - 1) % 256 + 1;
    return cout <= 64 ? 64 : last <= 128 ? 128 : 256;
}

template <typename E, int columns>
SPIRA_API status linear_launch(const device_info *gpu, linear_params *p, cudaStream_t stream) {
    const int chunks = p->conv.chunks, shared = gpu->shared_max;
    int blocks = linear_resident(columns); // of a multiprocessor
    p->depth = linear_stages(columns, chunks, true, shared, blocks);
    if (p->depth < linear_stages_least && blocks > 1) {
        blocks = 1;
        p->depth = linear_stages(columns, chunks, true, shared, blocks);
    }
    p->resident = p->depth >= linear_stages_least;
    if (!p->resident) {
        p->depth = linear_stages(columns, chunks, false, shared, blocks);
    }
    const int split = p->resident ? 1 : 2;
    p->lag = (int)min_of(chunks, p->resident ? p->depth - 1 : linear_lag);
    const int bytes = linear_memory_bytes(columns, chunks, p->resident, p->depth);
    const int64_t slices = ceil_div(p->conv.cout, columns);
    const int64_t tiles = ceil_div(p->conv.capacity, linear_rows * split);
    const int64_t workers = gpu->multiprocessors / split * blocks / slices;
    const dim3 grid((unsigned)split, (unsigned)slices, (unsigned)max_of(min_of(tiles, workers), 1));
    auto kernel = linear_kernel<E, columns>;
    SPIRA_TRY(kernel_shared_allow(kernel, bytes, "conv (shared memory)"));
    return kernel_launch(kernel,
                         {grid, linear_threads, stream, "conv", p->conv.programmatic, (size_t)bytes,
                          (unsigned)split},
                         *p);
}

// Computes a layer that linear_takes; p->conv and p->rows are given.
template <typename E>
SPIRA_API status linear_run(const device_info *gpu, linear_params *p, cudaStream_t stream) {
    switch (linear_columns(p->conv.cout)) {
    case 64:
        return linear_launch<E, 64>(gpu, p, stream);
    case 128:
        return linear_launch<E, 128>(gpu, p, stream);
    default:
        return linear_launch<E, 256>(gpu, p, stream);
    }
}

} // namespace spira

#endif
