// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/torch/csrc/cuda/points.cu: between points and voxels on the GPU.
#include "../gpu.h"
#include "spira/interpolate.cuh"
#include "spira/rows.cuh"

namespace spira_torch {
namespace gpu {

status around(const around_job *job, stream_ref stream) {
    return spira::word_dispatch(job->layout, [&](auto word) {
        const auto a = job->args<decltype(word)>();
        return spira::interpolate_find(&a, stream);
    });
}

status lists_bytes(const spira::row_lists_args *args, size_t *bytes) {
    return spira::row_lists_workspace(args, bytes);
}

status lists(const spira::row_lists_args *args, void *scratch, size_t scratch_bytes,
             stream_ref stream) {
    return spira::row_lists(args, scratch, scratch_bytes, stream);
}

status blend(const spira::row_blend_args *args, stream_ref stream) {
    return spira::row_blend(args, stream);
}

status splat(const spira::row_splat_args *args, stream_ref stream) {
    return spira::row_splat(args, stream);
}

} // namespace gpu
} // namespace spira_torch
