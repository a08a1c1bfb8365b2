// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/voxel/reduce_grad.cuh: the kernel of voxel_features_grad: a thread for each column of a
// voxel.
#ifndef SPIRA_VOXEL_REDUCE_GRAD_CUH
#define SPIRA_VOXEL_REDUCE_GRAD_CUH

#include "../base/launch.cuh"
#include "../numeric.cuh"
#include "../voxel_features_grad.h"

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
        voxel_features_grad_put(a, v, c, own + centre + mean, mean);
    }
}

} // namespace spira

#endif
