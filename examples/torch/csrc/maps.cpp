// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/torch/csrc/maps.cpp: operators that make kernel maps.
//
//   map_table   [outputs, volume]: what the CPU and pooling read
//   map_layout  bytes: what convolutions read on the GPU (spira/conv_map.h)
//   map_pairs   what weight gradients read
#include "ops.h"
#include "scope.h"

#include <map>
#include <mutex>

namespace spira_torch {

static map_job job_of(const spira::word_layout *layout, const kernel_arg &kernel,
                      const Tensor &source, const Tensor &source_count, const Tensor &outputs,
                      const Tensor &outputs_count) {
    require_device(outputs, "outputs", source, "source");
    map_job job = {};
    job.layout = layout;
    job.kernel = kernel.shape;
    job.source = set_of(source, source_count, *layout, "source");
    job.outputs = kernel.same ? job.source : set_of(outputs, outputs_count, *layout, "outputs");
    return job;
}

Tensor map_table(const Tensor &source, const Tensor &source_count, const Tensor &outputs,
                 const Tensor &outputs_count, IntArrayRef layout_ints, IntArrayRef kernel_ints) {
    const spira::word_layout layout = layout_of(layout_ints);
    const kernel_arg kernel = kernel_of(kernel_ints);
    const map_job job = job_of(&layout, kernel, source, source_count, outputs, outputs_count);
    Tensor map = at::full({job.outputs.capacity, kernel.volume}, -1, options_of(source, at::kInt));
    if (!job.outputs.capacity || !job.source.capacity) {
        return map;
    }
    int32_t *to = map.data_ptr<int32_t>();
    on_cpu(source, layout, [&](auto word) {
        typedef decltype(word) W;
        return spira::map_build_host<W>(&layout, &job.kernel, set_as<W>(job.source),
                                        set_as<W>(job.outputs), to);
    });
    on_gpu(source, [&](const auto &scope) { return gpu::map_table(&job, to, scope.stream); });
    return map;
}

// ---- layouts of the GPU -------------------------------------------------------------------------

#ifdef SPIRA_TORCH_CUDA

static const spira::device_info *info_of(int64_t device) {
    const c10::cuda::CUDAGuard guard((c10::DeviceIndex)device);
    const spira::device_info *info;
    require(gpu::device((int)device, &info));
    return info;
}

static int64_t layout_bytes(const spira::device_info *info, const kernel_arg &kernel,
                            int32_t capacity) {
    map_job job = {};
    job.kernel = kernel.shape;
    job.source.capacity = job.outputs.capacity = capacity;
    job.source.words = &job; // not read: another set than the outputs
    size_t bytes;
    require(gpu::map_layout_bytes(info, &job, &bytes));
    return (int64_t)bytes;
}

// A line above the bytes of all capacities, so that shape functions need no capacity. Bytes grow in
// steps of a row group; the constant covers two of them.
static std::vector<int64_t> layout_line(int64_t device, const kernel_arg &kernel) {
    const spira::device_info *info = info_of(device);
    const int32_t far = 1 << 18;
    int64_t slope = 0, constant = 0;
    for (int32_t c = far; c >= far / 16; c /= 2) {
        slope = std::max(slope, spira::ceil_div(layout_bytes(info, kernel, c), c));
    }
    for (int32_t c = 1; c < far; c *= 2) {
        constant = std::max(constant, layout_bytes(info, kernel, c) - slope * c);
    }
    return {slope, spira::round_up(constant + layout_bytes(info, kernel, 128), 256)};
}

// The same, found once for each kernel of a device.
std::vector<int64_t> map_layout_bytes(int64_t device, IntArrayRef kernel_ints) {
    static std::map<std::vector<int64_t>, std::vector<int64_t>> known;
    static std::mutex mutex;
    std::vector<int64_t> key = kernel_ints.vec();
    key.push_back(device);
    const std::lock_guard<std::mutex> lock(mutex);
    std::vector<int64_t> &line = known[key];
    if (line.empty()) {
        line = layout_line(device, kernel_of(kernel_ints));
    }
    return line;
}

Tensor map_layout(const Tensor &source, const Tensor &source_count, const Tensor &outputs,
                  const Tensor &outputs_count, IntArrayRef layout_ints, IntArrayRef kernel_ints) {
    const spira::word_layout layout = layout_of(layout_ints);
    const kernel_arg kernel = kernel_of(kernel_ints);
    const map_job job = job_of(&layout, kernel, source, source_count, outputs, outputs_count);
    const std::vector<int64_t> line = map_layout_bytes(source.get_device(), kernel_ints);
    Tensor map = empty_like(source, at::kByte, {line[0] * job.outputs.capacity + line[1]});
    if (!job.outputs.capacity || !job.source.capacity) {
        return map;
    }
    const cuda_scope scope(source);
    // Not cleared: it is only written, and nobody reads it.
    Tensor trouble = empty_like(source, at::kByte, {(int64_t)sizeof(spira::device_status)});
    require(gpu::map_layout_build(scope.info, &job, map.data_ptr(), (size_t)map.numel(),
                                  (spira::device_status *)trouble.data_ptr(), scope.stream));
    return map;
}

#else

std::vector<int64_t> map_layout_bytes(int64_t, IntArrayRef) {
    without_cuda();
}

Tensor map_layout(const Tensor &, const Tensor &, const Tensor &, const Tensor &, IntArrayRef,
                  IntArrayRef) {
    without_cuda();
}

#endif

// ---- pair lists ---------------------------------------------------------------------------------

// One tensor: begin [volume + 1], up to a multiple of 64; then input and output [capacity] each.
spira::map_lists pairs_of(const Tensor &pairs, int volume) {
    const int64_t head = spira::round_up(volume + 1, 64);
    const int64_t capacity = (pairs.numel() - head) / 2;
    SPIRA_CHECK(pairs.is_contiguous() && capacity >= 1 && pairs.numel() == head + 2 * capacity,
                "pairs: not made by map_pairs for this kernel");
    require_type(pairs, "pairs", at::kInt);
    int32_t *p = pairs.data_ptr<int32_t>();
    return {p, p + head, p + head + capacity, rows_of(capacity, "pairs")};
}

Tensor map_pairs(const Tensor &source, const Tensor &source_count, const Tensor &outputs,
                 const Tensor &outputs_count, IntArrayRef layout_ints, IntArrayRef kernel_ints,
                 int64_t capacity) {
    const spira::word_layout layout = layout_of(layout_ints);
    const kernel_arg kernel = kernel_of(kernel_ints);
    const map_job job = job_of(&layout, kernel, source, source_count, outputs, outputs_count);
    const int64_t head = spira::round_up(kernel.volume + 1, 64);
    Tensor made = empty_like(source, at::kInt, {head + 2 * rows_of(capacity, "pairs")});
    if (!job.outputs.capacity || !job.source.capacity) {
        return made.zero_();
    }
    const spira::map_lists pairs = pairs_of(made, kernel.volume);
    const bool half = spira::conv_grad_mirrors(&kernel.shape, kernel.same);
    if (source.is_cpu()) {
        spira::device_status trouble = {};
        require(spira::word_dispatch(&layout, [&](auto word) {
            typedef decltype(word) W;
            const spira::map_request<W> request = {job.kernel, set_as<W>(job.source),
                                                   set_as<W>(job.outputs),
                                                   spira::map_forms_none(0, half, &trouble)};
            return spira::map_build_lists_host(&layout, &request, &pairs);
        }));
        require(spira::device_status_read(&trouble));
    }
    on_gpu(source, [&](const auto &scope) {
        size_t bytes;
        SPIRA_TRY(gpu::map_pairs_bytes(&job, &bytes));
        const scratch s = scratch_of(source, bytes + 256);
        // The status comes first. It is not read: the lists have room for all pairs, and a count
        // above the rows is clamped.
        return gpu::map_pairs(&job, half, pairs, (spira::device_status *)s.base,
                              (char *)s.base + 256, bytes, scope.stream);
    });
    return made;
}

} // namespace spira_torch
