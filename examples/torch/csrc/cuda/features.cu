// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/torch/csrc/cuda/features.cu: features on the GPU: convolution by format, bias gradients,
// pooling, dense maps.
#include "format.h"
#include "spira/conv_grad.cuh"
#include "spira/dense.cuh"
#include "spira/pool.cuh"

namespace spira_torch {
namespace gpu {

// ---- convolution --------------------------------------------------------------------------------

// Packed weights.
status conv_bytes(const spira::device_info *info, const spira::conv_shape *shape, size_t *bytes) {
    return spira::conv_weights_bytes(info, shape, bytes);
}

status conv_pack(const spira::device_info *info, const conv_job *job, void *packed, size_t bytes,
                 stream_ref stream) {
    switch (job->shape.type) {
    case spira::numeric_f32:
        return format_pack<spira::numeric_f32>(info, job, packed, bytes, stream);
    case spira::numeric_f16:
        return format_pack<spira::numeric_f16>(info, job, packed, bytes, stream);
    default:
        return format_pack<spira::numeric_bf16>(info, job, packed, bytes, stream);
    }
}

status conv(const spira::device_info *info, const conv_job *job, void *scratch,
            size_t scratch_bytes, stream_ref stream) {
    switch (job->shape.type) {
    case spira::numeric_f32:
        return format_conv<spira::numeric_f32>(info, job, scratch, scratch_bytes, stream);
    case spira::numeric_tf32:
        return format_conv<spira::numeric_tf32>(info, job, scratch, scratch_bytes, stream);
    case spira::numeric_f16:
        return format_conv<spira::numeric_f16>(info, job, scratch, scratch_bytes, stream);
    default:
        return format_conv<spira::numeric_bf16>(info, job, scratch, scratch_bytes, stream);
    }
}

status weight_grad_bytes(const spira::device_info *info, const spira::conv_shape *shape,
                         size_t *bytes) {
    return spira::conv_grad_weight_workspace(info, shape, bytes);
}

status weight_grad(const spira::device_info *info, const spira::conv_grad_weight_args *args,
                   void *scratch, size_t scratch_bytes, stream_ref stream) {
    switch (args->shape.type) {
    case spira::numeric_f32:
        return format_weight_grad<spira::numeric_f32>(info, args, scratch, scratch_bytes, stream);
    case spira::numeric_tf32:
        return format_weight_grad<spira::numeric_tf32>(info, args, scratch, scratch_bytes, stream);
    case spira::numeric_f16:
        return format_weight_grad<spira::numeric_f16>(info, args, scratch, scratch_bytes, stream);
    default:
        return format_weight_grad<spira::numeric_bf16>(info, args, scratch, scratch_bytes, stream);
    }
}

status bias_grad_bytes(int cout, size_t *bytes) {
    return spira::conv_grad_bias_workspace(cout, bytes);
}

status bias_grad(const spira::device_info *info, const spira::conv_grad_bias_args *args,
                 void *scratch, size_t scratch_bytes, stream_ref stream) {
    return spira::conv_grad_bias(info, args, scratch, scratch_bytes, stream);
}

// ---- pooling ------------------------------------------------------------------------------------

status pool(const spira::pool_args *args, stream_ref stream) {
    return spira::pool(args, stream);
}

status pool_grad(const spira::pool_grad_args *args, stream_ref stream) {
    return spira::pool_grad(args, stream);
}

status pool_global_bytes(const spira::word_layout *layout, int channels, size_t *bytes) {
    return spira::pool_global_workspace(layout, channels, bytes);
}

status pool_global(const pool_global_job *job, void *scratch, size_t scratch_bytes,
                   stream_ref stream) {
    return spira::word_dispatch(job->layout, [&](auto word) {
        typedef decltype(word) W;
        if (job->in_grad) {
            const spira::pool_global_grad_args<W> a = job->gradient<W>();
            return spira::pool_global_grad(&a, scratch, scratch_bytes, stream);
        }
        const spira::pool_global_args<W> a = job->forward<W>();
        return spira::pool_global(&a, scratch, scratch_bytes, stream);
    });
}

// ---- dense maps ---------------------------------------------------------------------------------

template <typename W, spira::numeric format>
static status dense_run(const spira::device_info *info, const dense_job *job, stream_ref stream) {
    spira::dense_args<W> a = {};
    a.layout = job->layout;
    a.set = set_as<W>(job->set);
    a.grid = job->grid;
    a.stride = job->stride;
    a.batch = job->batch;
    a.channels = job->channels;
    a.type = a.out_type = format;
    a.features = job->features;
    a.order = spira::dense_channels_first;
    a.out = job->map;
    a.trouble = job->trouble;
    return job->features_grad
               ? spira::dense_grad<W, format, format>(info, &a, job->features_grad, stream)
               : spira::dense<W, format, format>(info, &a, stream);
}

status dense(const spira::device_info *info, const dense_job *job, stream_ref stream) {
    return spira::word_dispatch(job->layout, [&](auto word) {
        typedef decltype(word) W;
        switch (job->type) {
        case spira::numeric_f16:
            return dense_run<W, spira::numeric_f16>(info, job, stream);
        case spira::numeric_bf16:
            return dense_run<W, spira::numeric_bf16>(info, job, stream);
        default:
            return dense_run<W, spira::numeric_f32>(info, job, stream);
        }
    });
}

} // namespace gpu
} // namespace spira_torch
