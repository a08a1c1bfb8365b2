// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/torch/csrc/cuda/format_f32.cu: convolution and gradients in this format.
#include "format.cuh"

namespace spira_torch {
namespace gpu {

SPIRA_TORCH_FORMAT(spira::numeric_f32)

} // namespace gpu
} // namespace spira_torch
