// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/torch/csrc/scope.h: the device and the stream of an operator's tensors, for the time of
// a call.
#ifndef SPIRA_TORCH_SCOPE_H
#define SPIRA_TORCH_SCOPE_H

#ifdef SPIRA_TORCH_CUDA

#include "convert.h"

#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

namespace spira_torch {

struct cuda_scope {
    c10::cuda::CUDAGuard guard;
    stream_ref stream;
    const spira::device_info *info;

    explicit cuda_scope(const Tensor &t)
        : guard(t.device()), stream(c10::cuda::getCurrentCUDAStream(t.get_device()).stream()),
          info(nullptr) {
        require(gpu::device((int)t.get_device(), &info));
    }
};

} // namespace spira_torch

#endif

#endif
