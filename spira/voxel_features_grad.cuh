// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/voxel_features_grad.cuh: the gradient of voxel features on the GPU.
#ifndef SPIRA_VOXEL_FEATURES_GRAD_CUH
#define SPIRA_VOXEL_FEATURES_GRAD_CUH

#include "voxel/reduce_grad.cuh"

namespace spira {

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
