// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/torch/csrc/fork.h: two independent halves of an operator side by side in a CUDA graph.
//
// While the current stream is captured, a second stream is forked from it for one half and joined
// behind the other. Ordinary code runs one half after the other: it waits for the host, which would
// take longer for the events than the GPU would win.
#ifndef SPIRA_TORCH_FORK_H
#define SPIRA_TORCH_FORK_H

#include "scope.h"

#ifdef SPIRA_TORCH_CUDA
#include <ATen/cuda/CUDAEvent.h>
#endif

namespace spira_torch {

#ifdef SPIRA_TORCH_CUDA

// Whether the current stream of a tensor's device is captured. Not of the tensors that
// torch.compile traces with: they need no GPU.
inline bool is_captured(const Tensor &t) {
    if (!t.is_cuda() || t.unsafeGetTensorImpl()->is_python_dispatch()) {
        return false;
    }
    cudaStreamCaptureStatus found;
    C10_CUDA_CHECK(cudaStreamIsCapturing(c10::cuda::getCurrentCUDAStream(t.get_device()), &found));
    return found == cudaStreamCaptureStatusActive;
}

// The second stream of another one; kept until the process ends (fork.cpp).
c10::cuda::CUDAStream second_stream(const c10::cuda::CUDAStream &first);

// What `later` gets from now on runs behind what `earlier` has got. An event of a capture may be
// destroyed at once: the graph keeps the dependency alone.
inline void stream_wait(const c10::cuda::CUDAStream &later, const c10::cuda::CUDAStream &earlier) {
    at::cuda::CUDAEvent event;
    event.record(earlier);
    event.block(later);
}

// A second stream from here to the end of the scope.
//
// Memory is safe without record_stream. What the second stream allocates, it hands out again only
// to itself, and each of its later uses is behind a fork, so behind all that the first stream was
// given before. What the first stream allocates and the second uses must live until the join.
struct stream_fork {
    const c10::cuda::CUDAStream first, second;
    static thread_local const stream_fork *now; // or null

    explicit stream_fork(c10::DeviceIndex device)
        : first(c10::cuda::getCurrentCUDAStream(device)), second(second_stream(first)) {
        stream_wait(second, first);
        now = this;
    }
    stream_fork(const stream_fork &) = delete;
    stream_fork &operator=(const stream_fork &) = delete;
    // Joins also if an error passes: whoever ends the capture would see another error instead.
    ~stream_fork() {
        now = nullptr;
        try {
            stream_wait(first, second);
        } catch (const c10::Error &) { // the end of the capture returns it
        }
    }
};

#endif

// In its scope `beside` of run_beside allocates on the first stream: results that outlive the join,
// since that stream has memory of activations that are freed. Not for what is freed earlier.
struct fork_results {
#ifdef SPIRA_TORCH_CUDA
    c10::cuda::OptionalCUDAStreamGuard guard;

    fork_results() {
        if (stream_fork::now) {
            guard.reset_stream(stream_fork::now->first);
        }
    }
#else
    fork_results() {}
#endif
};

// Runs `beside` and `body`, which are independent, on two streams: `body` on the current one. What
// `beside` reads must outlive the call. Returns false and runs neither if no capture is on.
template <typename A, typename B>
bool run_beside([[maybe_unused]] const Tensor &like, [[maybe_unused]] const A &beside,
                [[maybe_unused]] const B &body) {
#ifdef SPIRA_TORCH_CUDA
    if (is_captured(like)) {
        const stream_fork fork(like.device().index());
        {
            const c10::cuda::CUDAStreamGuard guard(fork.second);
            beside();
        }
        body();
        return true;
    }
#endif
    return false;
}

} // namespace spira_torch

#endif
