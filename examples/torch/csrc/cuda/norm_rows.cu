// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/torch/csrc/cuda/norm_rows.cu: norms of rows and of batch elements on the GPU.
#include "../gpu.h"
#include "spira/norm.cuh"
#include "spira/norm_groups.cuh"

namespace spira_torch {
namespace gpu {

status norm_rows(const spira::norm_args *args, stream_ref stream) {
    return spira::norm(args, stream);
}

status norm_rows_grad_bytes(const spira::norm_grad_args *args, size_t *bytes) {
    return spira::norm_grad_workspace(args, bytes);
}

status norm_rows_grad(const spira::norm_grad_args *args, void *scratch, size_t scratch_bytes,
                      stream_ref stream) {
    return spira::norm_grad(args, scratch, scratch_bytes, stream);
}

status norm_groups_bytes(const norm_groups_job *job, size_t *bytes) {
    return spira::word_dispatch(job->layout, [&](auto word) {
        const auto forward = job->forward<decltype(word)>();
        const auto gradient = job->gradient<decltype(word)>();
        return job->is_grad() ? spira::norm_groups_grad_workspace(&gradient, bytes)
                              : spira::norm_groups_workspace(&forward, bytes);
    });
}

status norm_groups(const norm_groups_job *job, void *scratch, size_t scratch_bytes,
                   stream_ref stream) {
    return spira::word_dispatch(job->layout, [&](auto word) {
        const auto forward = job->forward<decltype(word)>();
        const auto gradient = job->gradient<decltype(word)>();
        return job->is_grad() ? spira::norm_groups_grad(&gradient, scratch, scratch_bytes, stream)
                              : spira::norm_groups(&forward, scratch, scratch_bytes, stream);
    });
}

} // namespace gpu
} // namespace spira_torch
