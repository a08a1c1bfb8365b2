// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/join_grad.cuh: the gradient of the features of a joined set on the GPU.
#ifndef SPIRA_JOIN_GRAD_CUH
#define SPIRA_JOIN_GRAD_CUH

#include "join/sum.cuh"
#include "join_grad.h"

namespace spira {

// The gradient of `join_sum`: each source row gets that of its voxel.
//
// inputs   `format` as in join_sum; args: see join_sum_grad_args; arrays in device memory; rows and count of `join`
// outputs  args.in_grad, all rows of each set that is wanted: the gradient of the row's voxel; 0 for
//          a row that has none (beyond its set's count, or the result's capacity)
// errors   null or misaligned pointers; sizes; an in_grad that is out_grad; no set that is wanted
// Asynchronous, deterministic, equal to join_sum_grad_host; a memset for each set, and one launch.
template <numeric format = numeric_any>
SPIRA_API status join_sum_grad(const join_sum_grad_args *args, cudaStream_t stream) {
    SPIRA_TRY(join_sum_grad_check(args));
    join_sum_task task;
    unsigned blocks;
    SPIRA_TRY(join_sum_task_make(args, args->in_grad, args->out_grad, &task, &blocks));
    return numeric_dispatch<format>(args->type, [&](auto tag) {
        for (int s = 0; s < args->sets; ++s) {
            if (args->in_grad[s]) {
                SPIRA_TRY(status_from_cuda(
                    cudaMemsetAsync(args->in_grad[s], 0, join_sum_grad_bytes(args, s), stream),
                    "join_sum_grad"));
            }
        }
        return kernel_launch(join_sum_grad_kernel<typename decltype(tag)::element>,
                             {blocks, join_sum_threads, stream, "join_sum_grad"}, task);
    });
}

} // namespace spira

#endif
