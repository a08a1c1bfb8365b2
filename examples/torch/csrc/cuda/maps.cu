// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/torch/csrc/cuda/maps.cu: kernel maps on the GPU.
#include "../gpu.h"
#include "spira/conv_map.cuh"

namespace spira_torch {
namespace gpu {

status map_table(const map_job *job, int32_t *map, stream_ref stream) {
    return spira::word_dispatch(job->layout, [&](auto word) {
        typedef decltype(word) W;
        return spira::map_build<W>(job->layout, &job->kernel, set_as<W>(job->source),
                                   set_as<W>(job->outputs), map, stream);
    });
}

template <typename W>
static spira::conv_map_request<W> request_of(const map_job *job, spira::device_status *trouble) {
    spira::conv_map_request<W> r = {};
    r.layout = job->layout;
    r.kernel = job->kernel;
    r.source = set_as<W>(job->source);
    r.outputs = set_as<W>(job->outputs);
    r.trouble = trouble;
    return r;
}

status map_layout_bytes(const spira::device_info *info, const map_job *job, size_t *bytes) {
    const auto request = request_of<uint32_t>(job, nullptr); // the same for both words
    return spira::conv_map_bytes(info, &request, bytes);
}

status map_layout_build(const spira::device_info *info, const map_job *job, void *memory,
                        size_t bytes, spira::device_status *trouble, stream_ref stream) {
    return spira::word_dispatch(job->layout, [&](auto word) {
        typedef decltype(word) W;
        const auto request = request_of<W>(job, trouble);
        spira::conv_map map; // features.cuh makes it again from the memory
        return spira::conv_map_build(info, &request, memory, bytes, &map, stream);
    });
}

status map_pairs_bytes(const map_job *job, size_t *bytes) {
    return spira::map_lists_workspace(&job->kernel, job->outputs.capacity, bytes);
}

status map_pairs(const map_job *job, bool half, spira::map_lists pairs,
                 spira::device_status *trouble, void *scratch, size_t scratch_bytes,
                 stream_ref stream) {
    return spira::word_dispatch(job->layout, [&](auto word) {
        typedef decltype(word) W;
        const spira::map_request<W> request = {job->kernel, set_as<W>(job->source),
                                               set_as<W>(job->outputs),
                                               spira::map_forms_none(0, half, trouble)};
        return spira::map_build_lists(job->layout, &request, &pairs, scratch, scratch_bytes,
                                      stream);
    });
}

} // namespace gpu
} // namespace spira_torch
