// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/torch/csrc/fork.cpp: the second streams of fork.h.
#include "fork.h"

#ifdef SPIRA_TORCH_CUDA

#include <c10/cuda/CUDAGraphsC10Utils.h>
#include <mutex>
#include <unordered_map>

namespace spira_torch {

thread_local const stream_fork *stream_fork::now;

// Not of PyTorch's pool: whoever else uses a stream of it would be captured as well. Making a
// stream is no work of the graph, but a capture of other threads, too, forbids it by default.
static c10::cuda::CUDAStream stream_new(c10::DeviceIndex device) {
    const c10::cuda::CUDAGuard guard(device);
    const c10::cuda::CUDAStreamCaptureModeGuard allowed(cudaStreamCaptureModeRelaxed);
    cudaStream_t stream;
    C10_CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return c10::cuda::getStreamFromExternal(stream, device);
}

// One for each: its memory is ordered by forks from the same stream.
c10::cuda::CUDAStream second_stream(const c10::cuda::CUDAStream &first) {
    static std::mutex one;
    static std::unordered_map<c10::cuda::CUDAStream, c10::cuda::CUDAStream> all;
    const std::lock_guard<std::mutex> lock(one);
    const auto found = all.find(first);
    return found != all.end() ? found->second
                              : all.emplace(first, stream_new(first.device_index())).first->second;
}

} // namespace spira_torch

#endif
