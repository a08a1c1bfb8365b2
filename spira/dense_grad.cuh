// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/dense_grad.cuh: the gradient of a dense map on the GPU.
#ifndef SPIRA_DENSE_GRAD_CUH
#define SPIRA_DENSE_GRAD_CUH

#include "dense/write.cuh"
#include "dense_grad.h"
#include "device.h"

namespace spira {

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
