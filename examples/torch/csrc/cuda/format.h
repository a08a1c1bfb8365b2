// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/torch/csrc/cuda/format.h: what is compiled once for each number format, in a file each.
#ifndef SPIRA_TORCH_CUDA_FORMAT_H
#define SPIRA_TORCH_CUDA_FORMAT_H

#include "../gpu.h"

namespace spira_torch {
namespace gpu {

template <spira::numeric format>
spira::status format_pack(const spira::device_info *info, const conv_job *job, void *packed,
                          size_t bytes, stream_ref stream);
template <spira::numeric format>
spira::status format_conv(const spira::device_info *info, const conv_job *job, void *scratch,
                          size_t scratch_bytes, stream_ref stream);
template <spira::numeric format>
spira::status format_weight_grad(const spira::device_info *info,
                                 const spira::conv_grad_weight_args *args, void *scratch,
                                 size_t scratch_bytes, stream_ref stream);

} // namespace gpu
} // namespace spira_torch

#endif
