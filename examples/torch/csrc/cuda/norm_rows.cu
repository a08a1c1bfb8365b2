// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/torch/csrc/cuda/norm_rows.cu: spira's norms on the GPU.
#include "../gpu.h"
#include "spira/norm.cuh"

namespace spira_torch {
namespace gpu {

status norm_rows(const spira::norm_args *args, stream_ref stream) {
    return spira::norm(args, stream);
}

} // namespace gpu
} // namespace spira_torch
