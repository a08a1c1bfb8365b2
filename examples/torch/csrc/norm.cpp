// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/torch/csrc/norm.cpp: the operators of a batch norm with the addition and the ReLU behind
// it (spira/pytorch/norm.py), for CPU and CUDA tensors. With a count on the device it takes the
// rows before it.
#include "norm.h"

#include "ops.h"
#include "scope.h"

#include <ATen/Parallel.h>

namespace spira_torch {

// ---- arguments ----------------------------------------------------------------------------------

const int64_t norm_channels_max = 1 << 20; // the kernels' sizes in bytes are ints

static void norm_check(const Tensor &x, const optional<Tensor> &count) {
    SPIRA_CHECK(x.dim() == 2, "input: [rows, channels] expected, got ", x.sizes());
    SPIRA_CHECK(x.size(1) >= 1 && x.size(1) <= norm_channels_max, "input: ", x.size(1),
                " channels; 1 to ", norm_channels_max, " are supported");
    numeric_of(x, 0, "input");
    if (count) {
        require_type(*count, "count", at::kInt);
        require_device(*count, "count", x, "the input");
        SPIRA_CHECK(count->numel() == 1, "count: one int expected");
    }
}

static void norm_vector(const optional<Tensor> &t, const char *name, const Tensor &x) {
    if (t) {
        require_type(*t, name, at::kFloat);
        require_device(*t, name, x, "the input");
        SPIRA_CHECK(t->is_contiguous() && t->numel() == x.size(1), name, ": contiguous [",
                    x.size(1), "] expected");
    }
}

// The same of a parameter, which may be a view of other parameters.
static optional<Tensor> norm_parameter(const optional<Tensor> &t, const char *name,
                                       const Tensor &x) {
    const optional<Tensor> own = t ? optional<Tensor>(t->contiguous()) : t;
    norm_vector(own, name, x);
    return own;
}

// Rows of the shape, type and device of the input; contiguous.
static optional<Tensor> norm_rows(const optional<Tensor> &t, const char *name, const Tensor &x) {
    if (!t) {
        return t;
    }
    require_device(*t, name, x, "the input");
    SPIRA_CHECK(t->sizes() == x.sizes() && t->scalar_type() == x.scalar_type(), name,
                ": shape or type of the input expected");
    return t->contiguous();
}

// The tensors of a norm that has been checked. Vectors are [channels].
struct norm_call {
    Tensor x; // contiguous
    optional<Tensor> residual, count, weight, bias;
    bool relu;
};

static norm_call norm_call_of(const Tensor &input, const optional<Tensor> &residual,
                              const optional<Tensor> &count, const optional<Tensor> &weight,
                              const optional<Tensor> &bias, bool relu) {
    norm_check(input, count);
    return {input.contiguous(),
            norm_rows(residual, "residual", input),
            count,
            norm_parameter(weight, "weight", input),
            norm_parameter(bias, "bias", input),
            relu};
}

typedef std::tuple<Tensor, Tensor, Tensor> three;
typedef std::tuple<Tensor, Tensor, Tensor, Tensor> four;

// ---- CPU ----------------------------------------------------------------------------------------

// The arrays of a norm in fp32, and the statistics of its channels.
struct norm_arrays {
    int64_t rows, all, channels;
    Tensor x, residual; // what the pointers point into
    const float *in, *added;
    std::vector<float> mean, invstd, scale, bias;
};

static norm_arrays norm_arrays_of(const norm_call &c) {
    norm_arrays a = {};
    a.all = c.x.size(0);
    a.rows = c.count ? count_host(*c.count, a.all) : a.all;
    a.channels = c.x.size(1);
    a.x = c.x.to(at::kFloat);
    a.in = a.x.data_ptr<float>();
    if (c.residual) {
        a.residual = c.residual->to(at::kFloat);
        a.added = a.residual.data_ptr<float>();
    }
    return a;
}

static void norm_statistics(const norm_call &c, const float *mean, const float *invstd,
                            norm_arrays *a) {
    a->mean.assign(mean, mean + a->channels);
    a->invstd.assign(invstd, invstd + a->channels);
    a->scale = a->invstd;
    a->bias.assign((size_t)a->channels, 0.0f);
    for (int64_t n = 0; n < a->channels; ++n) {
        a->scale[n] *= c.weight ? c.weight->data_ptr<float>()[n] : 1.0f;
        a->bias[n] = c.bias ? c.bias->data_ptr<float>()[n] : 0.0f;
    }
}

// Two sums of each channel in double, [2, channels]: groups of rows in parallel, added up in order.
// term(place, channel, sums): adds to sums[0] and sums[channels].
template <typename F>
static std::vector<double> norm_sums(const norm_arrays &a, F term) {
    const int64_t group = 256, groups = spira::ceil_div(a.rows, group), width = 2 * a.channels;
    std::vector<double> parts((size_t)(groups * width)), sums((size_t)width);
    at::parallel_for(0, groups, 1, [&](int64_t first, int64_t end) {
        for (int64_t r = first * group; r < std::min(end * group, a.rows); ++r) {
            for (int64_t n = 0; n < a.channels; ++n) {
                term(r * a.channels + n, n, &parts[(size_t)(r / group * width + n)]);
            }
        }
    });
    for (int64_t g = 0; g < groups; ++g) {
        for (int64_t n = 0; n < width; ++n) {
            sums[(size_t)n] += parts[(size_t)(g * width + n)];
        }
    }
    return sums;
}

// The output before the residual and the ReLU.
static float norm_value(const norm_arrays &a, int64_t place, int64_t n) {
    return std::fma(a.in[place] - a.mean[n], a.scale[n], a.bias[n]);
}

// Rows of a norm's type: value(place, channel) up to the count, zeros behind.
template <typename F>
static Tensor norm_fill(const norm_call &c, const norm_arrays &a, F value) {
    Tensor to = empty_like(c.x, at::kFloat, c.x.sizes());
    float *p = to.data_ptr<float>();
    at::parallel_for(0, a.all, 64, [&](int64_t first, int64_t end) {
        for (int64_t r = first; r < end; ++r) {
            for (int64_t n = 0; n < a.channels; ++n) {
                const int64_t place = r * a.channels + n;
                p[place] = r < a.rows ? value(place, n) : 0.0f;
            }
        }
    });
    return to.to(c.x.scalar_type());
}

static Tensor norm_output(const norm_call &c, const norm_arrays &a) {
    return norm_fill(c, a, [&](int64_t place, int64_t n) {
        const float y = norm_value(a, place, n) + (a.added ? a.added[place] : 0.0f);
        return c.relu && y <= 0.0f ? 0.0f : y;
    });
}

static three norm_host(const norm_call &c, const optional<Tensor> &running_mean,
                       const optional<Tensor> &running_var, const optional<Tensor> &batches,
                       double momentum, double eps) {
    norm_arrays a = norm_arrays_of(c);
    const double n = (double)std::max<int64_t>(a.rows, 1);
    const std::vector<double> sums = norm_sums(a, [&](int64_t place, int64_t c, double *sum) {
        const double d = (double)a.in[place] - a.in[c];
        sum[0] += d;
        sum[a.channels] += d * d;
    });
    Tensor mean = empty_like(c.x, at::kFloat, {a.channels}), invstd = empty_as(mean);
    float *m = mean.data_ptr<float>(), *s = invstd.data_ptr<float>();
    for (int64_t i = 0; i < a.channels; ++i) {
        const double shift = sums[i] / n;
        const double variance = std::max(sums[a.channels + i] / n - shift * shift, 0.0);
        m[i] = a.rows ? (float)(a.in[i] + shift) : 0.0f;
        s[i] = (float)(1.0 / std::sqrt(variance + eps));
        if (running_mean && a.rows) {
            float *rm = running_mean->data_ptr<float>() + i;
            float *rv = running_var->data_ptr<float>() + i;
            *rm += (float)(momentum * (m[i] - *rm));
            *rv += (float)(momentum * (variance * n / std::max(n - 1.0, 1.0) - *rv));
        }
    }
    if (batches) {
        *batches->data_ptr<int64_t>() += 1;
    }
    norm_statistics(c, m, s, &a);
    return {norm_output(c, a), mean, invstd};
}

static Tensor norm_apply_host(const norm_call &c, const Tensor &mean, const Tensor &invstd) {
    norm_arrays a = norm_arrays_of(c);
    norm_statistics(c, mean.data_ptr<float>(), invstd.data_ptr<float>(), &a);
    return norm_output(c, a);
}

static four norm_backward_host(const norm_call &c, const Tensor &grad,
                               const optional<Tensor> &output, const Tensor &mean,
                               const Tensor &invstd, bool residual) {
    norm_arrays a = norm_arrays_of(c);
    norm_statistics(c, mean.data_ptr<float>(), invstd.data_ptr<float>(), &a);
    // The sign of y as it was rounded.
    const Tensor y = (!c.relu ? c.x : output ? *output : norm_output(c, a)).to(at::kFloat);
    const Tensor g = grad.to(at::kFloat);
    const float *out = y.data_ptr<float>(), *from = g.data_ptr<float>();
    const auto own = [&](int64_t place) { return c.relu && out[place] <= 0 ? 0.0f : from[place]; };
    const auto normal = [&](int64_t place, int64_t n) {
        return (a.in[place] - a.mean[n]) * a.invstd[n];
    };
    const std::vector<double> sums = norm_sums(a, [&](int64_t place, int64_t n, double *sum) {
        sum[0] += own(place);
        sum[a.channels] += (double)own(place) * normal(place, n);
    });
    Tensor weight_grad = empty_as(mean), bias_grad = empty_as(mean);
    std::copy(sums.begin(), sums.begin() + a.channels, bias_grad.data_ptr<float>());
    std::copy(sums.begin() + a.channels, sums.end(), weight_grad.data_ptr<float>());
    const double n = (double)std::max<int64_t>(a.rows, 1);
    Tensor to = norm_fill(c, a, [&](int64_t place, int64_t i) {
        const double rest = (sums[i] + normal(place, i) * sums[a.channels + i]) / n;
        return (float)(a.scale[i] * (own(place) - rest));
    });
    Tensor added = residual ? norm_fill(c, a, [&](int64_t place, int64_t) { return own(place); })
                            : empty_like(c.x, at::kFloat, {0});
    return {to, weight_grad, bias_grad, added};
}

// ---- CUDA ---------------------------------------------------------------------------------------

#ifdef SPIRA_TORCH_CUDA

static float *floats(const optional<Tensor> &t) {
    return t ? t->data_ptr<float>() : nullptr;
}

static norm_job norm_job_of(const norm_call &c, const Tensor &mean, const Tensor &invstd) {
    norm_job job = {};
    job.type = numeric_of(c.x, 0, "input");
    job.x = c.x.data_ptr();
    job.count = c.count ? c.count->data_ptr<int32_t>() : nullptr;
    job.capacity = rows_of(c.x.size(0), "input");
    job.channels = (int)c.x.size(1);
    job.weight = floats(c.weight);
    job.bias = floats(c.bias);
    job.relu = c.relu;
    job.residual = c.residual ? c.residual->data_ptr() : nullptr;
    job.mean = mean.data_ptr<float>();
    job.invstd = invstd.data_ptr<float>();
    return job;
}

// Scratch of a norm of rows.
static Tensor norm_scratch(const cuda_scope &scope, const Tensor &rows) {
    return empty_like(rows, at::kFloat, {gpu::norm_slots(scope.info, (int)rows.size(1))});
}

static three norm_cuda(const norm_call &c, const optional<Tensor> &mean,
                       const optional<Tensor> &var, const optional<Tensor> &batches,
                       double momentum, double eps) {
    const cuda_scope scope(c.x);
    Tensor y = empty_as(c.x);
    Tensor centre = empty_like(c.x, at::kFloat, {c.x.size(1)});
    Tensor invstd = empty_as(centre); // outputs may not share memory
    norm_job job = norm_job_of(c, centre, invstd);
    job.y = y.data_ptr();
    job.running_mean = floats(mean);
    job.running_var = floats(var);
    job.batches = batches ? batches->data_ptr<int64_t>() : nullptr;
    job.momentum = (float)momentum;
    job.eps = (float)eps;
    const Tensor slots = norm_scratch(scope, y);
    require(gpu::norm(scope.info, &job, slots.data_ptr<float>(), scope.stream));
    return {y, centre, invstd};
}

static four norm_backward_cuda(const norm_call &c, const Tensor &grad,
                               const optional<Tensor> &output, const Tensor &mean,
                               const Tensor &invstd, bool residual) {
    const cuda_scope scope(c.x);
    Tensor to = empty_as(c.x), weight_grad = empty_as(mean);
    Tensor bias_grad = empty_as(mean);
    Tensor to_residual = residual ? empty_as(c.x) : empty_like(c.x, at::kFloat, {0});
    norm_job job = norm_job_of(c, mean, invstd);
    job.grad = grad.data_ptr();
    job.output = output ? output->data_ptr() : nullptr;
    job.grad_x = to.data_ptr();
    job.grad_residual = residual ? to_residual.data_ptr() : nullptr;
    job.weight_grad = weight_grad.data_ptr<float>();
    job.bias_grad = bias_grad.data_ptr<float>();
    const Tensor slots = norm_scratch(scope, to);
    require(gpu::norm_backward(scope.info, &job, slots.data_ptr<float>(), scope.stream));
    return {to, weight_grad, bias_grad, to_residual};
}

#endif

// ---- operators ----------------------------------------------------------------------------------

three norm(const Tensor &input, const optional<Tensor> &residual, const optional<Tensor> &count,
           const optional<Tensor> &weight, const optional<Tensor> &bias,
           const optional<Tensor> &mean, const optional<Tensor> &var,
           const optional<Tensor> &batches, double momentum, double eps, bool relu, bool) {
    const norm_call c = norm_call_of(input, residual, count, weight, bias, relu);
    norm_vector(mean, "running_mean", input);
    norm_vector(var, "running_var", input);
    SPIRA_CHECK(mean.has_value() == var.has_value(), "running_var: as running_mean");
    if (batches) {
        require_type(*batches, "num_batches_tracked", at::kLong);
        require_device(*batches, "num_batches_tracked", input, "the input");
    }
#ifdef SPIRA_TORCH_CUDA
    if (c.x.is_cuda()) {
        return norm_cuda(c, mean, var, batches, momentum, eps);
    }
#endif
    return norm_host(c, mean, var, batches, momentum, eps);
}

Tensor norm_apply(const Tensor &input, const optional<Tensor> &residual,
                  const optional<Tensor> &count, const optional<Tensor> &weight,
                  const optional<Tensor> &bias, const Tensor &mean, const Tensor &invstd,
                  bool relu) {
    const norm_call c = norm_call_of(input, residual, count, weight, bias, relu);
    norm_vector(mean, "mean", input);
    norm_vector(invstd, "invstd", input);
#ifdef SPIRA_TORCH_CUDA
    if (c.x.is_cuda()) {
        const cuda_scope scope(c.x);
        Tensor y = empty_as(c.x);
        norm_job job = norm_job_of(c, mean, invstd);
        job.y = y.data_ptr();
        require(gpu::norm_apply(scope.info, &job, scope.stream));
        return y;
    }
#endif
    return norm_apply_host(c, mean, invstd);
}

Tensor norm_eval(const Tensor &input, const optional<Tensor> &residual,
                 const optional<Tensor> &count, const optional<Tensor> &weight,
                 const optional<Tensor> &bias, const Tensor &mean, const Tensor &var, double eps,
                 bool relu) {
    const norm_call c = norm_call_of(input, residual, count, weight, bias, relu);
    norm_vector(mean, "running_mean", input);
    norm_vector(var, "running_var", input);
#ifdef SPIRA_TORCH_CUDA
    if (c.x.is_cuda()) {
        const cuda_scope scope(c.x);
        Tensor y = empty_as(c.x);
        norm_job job = norm_job_of(c, mean, var);
        job.var = job.invstd;
        job.eps = (float)eps;
        job.y = y.data_ptr();
        require(gpu::norm_apply(scope.info, &job, scope.stream));
        return y;
    }
#endif
    return norm_apply_host(c, mean, (var + eps).rsqrt());
}

Tensor norm_fold([[maybe_unused]] const Tensor &like, [[maybe_unused]] int64_t channels,
                 const optional<Tensor> &weight, const optional<Tensor> &bias, const Tensor &mean,
                 const Tensor &var, [[maybe_unused]] double eps) {
#ifdef SPIRA_TORCH_CUDA
    const Tensor both = empty_like(like, at::kFloat, {2, channels});
    const norm_call c = norm_call_of(both, std::nullopt, std::nullopt, weight, bias, false);
    norm_vector(mean, "running_mean", both);
    norm_vector(var, "running_var", both);
    const cuda_scope scope(like);
    norm_job job = norm_job_of(c, mean, var);
    job.var = job.invstd;
    job.eps = (float)eps;
    float *const scale = both.data_ptr<float>();
    require(gpu::norm_fold(scope.info, &job, scale, scale + channels, scope.stream));
    return both;
#else
    without_cuda();
#endif
}

four norm_backward(const Tensor &out_grad, const Tensor &input, const optional<Tensor> &output,
                   const optional<Tensor> &count, const optional<Tensor> &weight,
                   const optional<Tensor> &bias, const Tensor &mean, const Tensor &invstd,
                   bool relu, bool residual) {
    const norm_call c = norm_call_of(input, std::nullopt, count, weight, bias, relu);
    norm_vector(mean, "mean", input);
    norm_vector(invstd, "invstd", input);
    const Tensor grad = *norm_rows(out_grad, "grad", input);
    const optional<Tensor> y = norm_rows(output, "output", input);
    SPIRA_CHECK(y || !(relu && residual), "output: needed with a residual and a ReLU");
#ifdef SPIRA_TORCH_CUDA
    if (c.x.is_cuda()) {
        return norm_backward_cuda(c, grad, y, mean, invstd, residual);
    }
#endif
    return norm_backward_host(c, grad, y, mean, invstd, residual);
}

} // namespace spira_torch
