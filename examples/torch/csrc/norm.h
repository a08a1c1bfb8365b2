// examples/torch/csrc/norm.h: a batch norm of the rows before a count, on the GPU.
//
//   forward   y = (x - mean) * invstd * weight + bias, over the first *count rows; zero behind
//   backward  grad_x = weight * invstd * (g - sum(g) / n - xhat * sum(g xhat) / n), the same rows
//
// Sums are fp32, in a fixed order: results are the same to the bit from run to run.
#ifndef SPIRA_TORCH_NORM_H
#define SPIRA_TORCH_NORM_H

#include "gpu.h"

namespace spira_torch {

struct norm_job {
    spira::numeric type;  // of x, y, grad and grad_x
    const void *x;        // [capacity, channels]
    const int32_t *count; // rows
    int64_t capacity;
    int channels;
    const float *weight, *bias; // [channels], or null
    // forward
    void *y;
    float *running_mean, *running_var; // [channels], or null; changed
    float momentum, eps;
    // forward: results; backward: inputs
    float *mean, *invstd; // [channels]
    // backward
    const void *grad;
    void *grad_x;
    float *weight_grad, *bias_grad; // [channels]
};

#ifdef SPIRA_TORCH_CUDA

namespace gpu {

// Floats of scratch.
int64_t norm_slots(const spira::device_info *info, int channels);
spira::status norm(const spira::device_info *info, const norm_job *job, float *slots,
                   stream_ref stream);
spira::status norm_backward(const spira::device_info *info, const norm_job *job, float *slots,
                            stream_ref stream);

} // namespace gpu

#endif

} // namespace spira_torch

#endif
