// spira/voxel_features_grad.cuh: the gradient of voxel features on the GPU.
#ifndef SPIRA_VOXEL_FEATURES_GRAD_CUH
#define SPIRA_VOXEL_FEATURES_GRAD_CUH

#include "base/launch.cuh"
#include "numeric.cuh"
#include "voxel_features_grad.h"

namespace spira {

enum { voxel_features_grad_threads = 256 };

template <typename E>
SPIRA_KERNEL void __launch_bounds__(voxel_features_grad_threads)
    voxel_features_grad_kernel(voxel_features_grad_args a) {
    const int64_t i = (int64_t)blockIdx.x * voxel_features_grad_threads + threadIdx.x;
    const int columns = voxel_features_grad_channels(a), c = (int)(i % columns);
    const int64_t v = i / columns;
    if (v < min_of(*a.count, a.capacity)) {
        const E *grad = (const E *)a.features_grad + v * a.features_channels;
        const voxel_features_grad_from from = voxel_features_grad_from_of(a, c);
        const float own = from.own < 0 ? 0.0f : element_to_float(grad[from.own]);
        const float centre = from.centre < 0 ? 0.0f : element_to_float(grad[from.centre]);
        const float mean = from.mean < 0 ? 0.0f : element_to_float(grad[from.mean]);
        voxel_features_grad_put(a, v, c, {own + centre + mean, mean});
    }
}

// The gradient of `voxel_features` by the values of the rows.
//
// format   compiled for; numeric_any: all four, chosen by args->type
//
// inputs   args: see voxel_features_grad_args; arrays in device memory
// outputs  args->values_grad, all row_capacity rows, fp32: 0 for a row that no feature depends on
//          (dropped, beyond max_points, not the first or not the largest)
// errors   null or misaligned pointers, sizes, bits of `append`
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
