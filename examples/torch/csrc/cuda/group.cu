// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/torch/csrc/cuda/group.cu: depthwise and grouped convolution on the GPU.
#include "../gpu.h"
#include "spira/conv_group.cuh"

namespace spira_torch {
namespace gpu {

status group(const spira::conv_group_args *args, stream_ref stream) {
    return spira::conv_group(args, stream);
}

status group_grad_bytes(const spira::conv_group_shape *shape, int32_t capacity, size_t *bytes) {
    return spira::conv_group_grad_workspace(shape, capacity, bytes);
}

status group_grad(const spira::conv_group_grad_args *args, void *scratch, size_t scratch_bytes,
                  stream_ref stream) {
    return spira::conv_group_grad_weight(args, scratch, scratch_bytes, stream);
}

} // namespace gpu
} // namespace spira_torch
