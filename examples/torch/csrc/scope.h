// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/torch/csrc/scope.h: the two halves of an operator, of which each looks for itself
// whether the tensors are its own.
//
// Lambdas of on_gpu are generic, so that without CUDA nothing calls the functions of gpu.h.
#ifndef SPIRA_TORCH_SCOPE_H
#define SPIRA_TORCH_SCOPE_H

#include "convert.h"

#ifdef SPIRA_TORCH_CUDA
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#endif

namespace spira_torch {

#ifdef SPIRA_TORCH_CUDA

// The device and the stream of an operator's tensors, for the time of a call.
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

#endif

// On a GPU: run(scope).
template <typename R>
void on_gpu([[maybe_unused]] const Tensor &like, [[maybe_unused]] const R &run) {
#ifdef SPIRA_TORCH_CUDA
    if (like.is_cuda()) {
        const cuda_scope scope(like);
        require(run(scope));
    }
#endif
}

// On a GPU with scratch: bytes(&size), run(scope, base, size).
template <typename B, typename R>
void on_gpu(const Tensor &like, const B &bytes, const R &run) {
    on_gpu(like, [&](const auto &scope) {
        return with_scratch(like, bytes,
                            [&](void *base, size_t size) { return run(scope, base, size); });
    });
}

// On the CPU: run(a word of the layout).
template <typename R>
void on_cpu(const Tensor &like, const spira::word_layout &layout, const R &run) {
    if (like.is_cpu()) {
        require(spira::word_dispatch(&layout, run));
    }
}

} // namespace spira_torch

#endif
