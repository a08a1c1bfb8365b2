// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/torch/csrc/cuda/format.cuh: convolution and gradients in one number format. Included by
// a .cu file for each format, which instantiates both functions.
#ifndef SPIRA_TORCH_CUDA_FORMAT_CUH
#define SPIRA_TORCH_CUDA_FORMAT_CUH

#include "format.h"
#include "spira/conv_grad.cuh"
#include "spira/conv_linear.cuh"

namespace spira_torch {
namespace gpu {

// The map of a convolution, from the memory that map_layout_build has filled: it lies there as
// conv_map_build carved it.
static status format_map(const spira::device_info *info, const conv_job *job,
                         spira::conv_map *map) {
    if (job->identity) {
        *map = spira::conv_map_identity(job->count, job->capacity);
        return spira::status_success();
    }
    spira::conv_map_request<uint32_t> request = {}; // the same for both words
    request.kernel = job->kernel;
    request.source.words = (uint32_t *)job->map; // not read: another set than the outputs
    request.outputs.count = job->count;
    request.outputs.capacity = job->capacity;
    size_t needed;
    SPIRA_TRY(spira::conv_map_bytes(info, &request, &needed));
    SPIRA_TRY(spira::workspace_check(job->map, job->map_bytes, needed, "map"));
    spira::workspace w = spira::workspace_begin(job->map);
    spira::conv_map_places places;
    SPIRA_TRY(spira::conv_map_carve(&request, &w, &places));
    *map = places.map;
    return spira::status_success();
}

template <spira::numeric format>
status format_pack(const spira::device_info *info, const conv_job *job, void *packed, size_t bytes,
                   stream_ref stream) {
    const spira::conv_weights weights = {job->weight, packed, bytes, job->trouble};
    if (!job->weight_of_layer) {
        return spira::conv_weights_pack<format>(info, &job->shape, &weights, stream);
    }
    const spira::grad_source both = spira::grad_source_both;
    const spira::grad_order order =
        job->weight_mirrored ? spira::grad_order_mirrored : spira::grad_order_same;
    // The layer is the input gradient of its input gradient.
    const spira::conv_shape layer = spira::conv_grad_shape(&job->shape, both);
    return spira::conv_grad_weights_pack<format>(info, &layer, both, order, &weights, stream);
}

template <spira::numeric format>
status format_conv(const spira::device_info *info, const conv_job *job, void *scratch,
                   size_t scratch_bytes, stream_ref stream) {
    if (!job->packed) {
        SPIRA_TRY(format_pack<format>(info, job, scratch, scratch_bytes, stream));
    }
    spira::conv_map map;
    SPIRA_TRY(format_map(info, job, &map));
    spira::conv_args args = {};
    args.shape = job->shape;
    args.map = &map;
    args.in = job->in;
    args.weights = job->packed ? job->packed : scratch;
    args.epilogue.bias = job->bias;
    args.epilogue.scale = job->norm;
    args.epilogue.shift = job->norm ? job->norm + job->shape.cout : nullptr;
    args.epilogue.residual = job->residual;
    args.epilogue.act = job->act;
    args.out = job->out;
    return spira::conv_linear<format>(info, &args, stream);
}

template <spira::numeric format>
status format_weight_grad(const spira::device_info *info, const spira::conv_grad_weight_args *args,
                          void *scratch, size_t scratch_bytes, stream_ref stream) {
    return spira::conv_grad_weight<format>(info, args, scratch, scratch_bytes, stream);
}

} // namespace gpu
} // namespace spira_torch

// In namespace spira_torch::gpu.
#define SPIRA_TORCH_FORMAT(format)                                                                 \
    template spira::status format_pack<format>(const spira::device_info *, const conv_job *,       \
                                               void *, size_t, stream_ref);                        \
    template spira::status format_conv<format>(const spira::device_info *, const conv_job *,       \
                                               void *, size_t, stream_ref);                        \
    template spira::status format_weight_grad<format>(const spira::device_info *,                  \
                                                      const spira::conv_grad_weight_args *,        \
                                                      void *, size_t, stream_ref);

#endif
