// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/torch/csrc/norm.h: a batch norm of rows of features, with the addition and the ReLU
// behind it, on the GPU.
//
//   forward   y = act((x - mean) * invstd * weight + bias + residual), over the first *count rows;
//             zero behind
//   backward  g' = 0 where y <= 0 (ReLU), else g; the gradient of the residual is g'
//             grad_x = weight * invstd * (g' - sum(g') / n - xhat * sum(g' xhat) / n)
//
// Backward reads y only where there are both a residual and a ReLU: otherwise it computes the sign
// of y from x. Sums are fp32, in a fixed order: results are the same to the bit from run to run.
#ifndef SPIRA_TORCH_NORM_H
#define SPIRA_TORCH_NORM_H

#include "gpu.h"

namespace spira_torch {

struct norm_job {
    spira::numeric type;  // of x, y, residual and the gradients of rows
    const void *x;        // [capacity, channels]
    const int32_t *count; // rows; null: all of the capacity
    int64_t capacity;
    int channels;
    const float *weight, *bias; // [channels], or null
    bool relu;
    // forward
    const void *residual; // like x, or null
    void *y;
    float *running_mean, *running_var; // [channels], or null; changed
    int64_t *batches;                  // [1], or null: one is added
    float momentum, eps;
    // forward: results; backward and norm_apply: inputs
    float *mean, *invstd; // [channels]
    const float *var;     // norm_apply: instead of invstd, with eps; or null
    // backward
    const void *grad;
    const void *output; // y, where there are a residual and a ReLU
    void *grad_x;
    void *grad_residual;            // or null
    float *weight_grad, *bias_grad; // [channels]
};

#ifdef SPIRA_TORCH_CUDA

namespace gpu {

// Floats of scratch, aligned to 16 bytes.
int64_t norm_slots(const spira::device_info *info, int channels);
spira::status norm(const spira::device_info *info, const norm_job *job, float *slots,
                   stream_ref stream);
// y from statistics that are known: from a mean and invstd the same bits as norm wrote.
spira::status norm_apply(const spira::device_info *info, const norm_job *job, stream_ref stream);
// Of a norm by running statistics: y = x * scale + shift. Reads weight, bias, mean, var and eps.
spira::status norm_fold(const spira::device_info *info, const norm_job *job, float *scale,
                        float *shift, stream_ref stream);
spira::status norm_backward(const spira::device_info *info, const norm_job *job, float *slots,
                            stream_ref stream);

} // namespace gpu

#endif

} // namespace spira_torch

#endif
