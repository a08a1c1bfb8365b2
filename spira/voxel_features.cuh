// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/voxel_features.cuh: features of voxels on the GPU. The results are those of the host loops
// (voxel_features.h) bit by bit; the kernel is in voxel/reduce.cuh.
#ifndef SPIRA_VOXEL_FEATURES_CUH
#define SPIRA_VOXEL_FEATURES_CUH

#include "voxel/reduce.cuh"

namespace spira {

// The features of the voxels from the values of their rows.
//
// format   numeric_any: chosen by args->type at run time. A caller that names the format compiles
//          the code for that one alone, and must pass the same `type`. int8 must be named
// inputs, outputs, errors  as voxel_features_host; arrays in device memory. Another type than
//          `format` is refused
// Asynchronous, deterministic, bit-identical to voxel_features_host.
// cost     one launch. Voxels of up to 32 rows are read by a thread each, others by the warps of a
//          thread block: one voxel of all rows of a scan takes as long as one multiprocessor needs
//          to read them
template <numeric format = numeric_any, typename W>
SPIRA_API status voxel_features(const voxel_features_args<W> *args, cudaStream_t stream) {
    SPIRA_TRY(voxel_features_check(args));
    const int channels = voxel_features_channels(args);
    const voxel_features_cut cut = voxel_features_cut_make(args->set.capacity, channels);
    SPIRA_REQUIRE(cut.blocks <= INT32_MAX, status_bad_size, "set.capacity * channels", cut.blocks);
    const word_layout layout = args->layout ? *args->layout : word_layout{};
    return numeric_dispatch<format>(args->type, [&](auto tag) {
        typedef typename decltype(tag)::element E;
        const auto kernel =
            args->kind == voxel_feature_mean    ? voxel_features_kernel<voxel_feature_mean, W, E>
            : args->kind == voxel_feature_first ? voxel_features_kernel<voxel_feature_first, W, E>
                                                : voxel_features_kernel<voxel_feature_max, W, E>;
        return kernel_launch(kernel,
                             {(unsigned)cut.blocks, voxel_threads, stream, "voxel_features"}, *args,
                             layout, cut);
    });
}

// ---- gradient -----------------------------------------------------------------------------------

// The gradient of `voxel_features` by the values of the rows.
//
// format   compiled for; numeric_any: all four, chosen by args->type
//
// inputs, outputs, errors  as voxel_features_grad_host; arrays in device memory
// Asynchronous, deterministic, equal to voxel_features_grad_host; a memset and one launch.
template <numeric format = numeric_any>
SPIRA_API status voxel_features_grad(const voxel_features_grad_args *args, cudaStream_t stream) {
    SPIRA_TRY(voxel_features_grad_check(args));
    const int64_t columns = voxel_features_grad_channels(*args);
    const int64_t total = args->row_capacity * columns;
    const int64_t grid = ceil_div(args->capacity * columns, voxel_features_grad_threads);
    SPIRA_REQUIRE(grid <= INT32_MAX, status_bad_size, "capacity * channels", grid);
    return numeric_dispatch<format>(args->type, [&](auto tag) {
        SPIRA_TRY(status_from_cuda(
            cudaMemsetAsync(args->values_grad, 0, (size_t)total * sizeof(float), stream),
            "voxel_features_grad"));
        return kernel_launch(
            voxel_features_grad_kernel<typename decltype(tag)::element>,
            {(unsigned)grid, voxel_features_grad_threads, stream, "voxel_features_grad"}, *args);
    });
}

} // namespace spira

#endif
