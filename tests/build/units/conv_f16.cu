// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/build/units/conv_f16.cu: one fp16 convolution of any channels, with its map and weights.
#include "../../../spira.cuh"

spira::status unit(const spira::device_info *gpu, const spira::conv_map_request<uint32_t> *request,
                   const spira::conv_weights *weights, void *memory, size_t bytes,
                   spira::conv_args *args, cudaStream_t stream);

spira::status unit(const spira::device_info *gpu, const spira::conv_map_request<uint32_t> *request,
                   const spira::conv_weights *weights, void *memory, size_t bytes,
                   spira::conv_args *args, cudaStream_t stream) {
    SPIRA_TRY(spira::conv_weights_pack<spira::numeric_f16>(gpu, &args->shape, weights, stream));
    spira::conv_map map;
    SPIRA_TRY(spira::conv_map_build(gpu, request, memory, bytes, &map, stream));
    args->map = &map;
    return spira::conv<spira::numeric_f16>(gpu, args, stream);
}
