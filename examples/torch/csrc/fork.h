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

// `later` waits for all that `earlier` has got. The event may be destroyed at once: a graph keeps
// the dependency, not the event.
inline void stream_wait(const c10::cuda::CUDAStream &later, const c10::cuda::CUDAStream &earlier) {
    at::cuda::CUDAEvent event;
    event.record(earlier);
    event.block(later);
}

// A second stream from here to the end of the scope.
//
// Memory is safe without record_stream. What the second stream allocates goes back to that stream,
// and each of its later uses is behind a fork, hence behind all that the first stream has got until
// then. What the first stream allocates and the second one uses must live until the join.
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
    // Joins also while an error passes: without a join, the end of the capture raises another one.
    ~stream_fork() {
        now = nullptr;
        try {
            stream_wait(first, second);
        } catch (const c10::Error &) { // the end of the capture raises it
        }
    }
};

#endif

// In its scope `beside` of run_beside allocates on the first stream: results that outlive the join.
// The first stream has the memory of activations that are no longer needed. `beside` is called
// before `body`, so it gets nothing that `body` has freed.
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

// Calls `beside` on a second stream, then `body` on the current one; they must be independent. What
// `beside` reads must outlive the call. Without a capture it calls neither and returns false.
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
