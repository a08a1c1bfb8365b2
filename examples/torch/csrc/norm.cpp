// examples/torch/csrc/norm.cpp: the operators of a batch norm that counts the rows before a count
// on the device (spira/pytorch/norm.py), for CPU and CUDA tensors.
#include "norm.h"

#include "ops.h"
#include "scope.h"

namespace spira_torch {

static void norm_check(const Tensor &x, const Tensor &count) {
    TORCH_CHECK_VALUE(x.dim() == 2, "input: [rows, channels] expected, got ", x.sizes());
    numeric_of(x, 0, "input");
    require_type(count, "count", at::kInt);
    require_device(count, "count", x, "the input");
    TORCH_CHECK_VALUE(count.numel() == 1, "count: one int expected");
}

static void norm_vector(const optional<Tensor> &t, const char *name, const Tensor &x) {
    if (t) {
        require_type(*t, name, at::kFloat);
        require_device(*t, name, x, "the input");
        TORCH_CHECK_VALUE(t->is_contiguous() && t->numel() == x.size(1), name, ": contiguous [",
                          x.size(1), "] expected");
    }
}

typedef std::tuple<Tensor, Tensor, Tensor> three;

// ---- CPU ----------------------------------------------------------------------------------------

static three norm_host(const Tensor &x, const Tensor &count, const optional<Tensor> &weight,
                       const optional<Tensor> &bias, const optional<Tensor> &mean,
                       const optional<Tensor> &var, double momentum, double eps) {
    const int64_t n = count_host(count, x.size(0));
    const Tensor rows = x.narrow(0, 0, n).to(at::kDouble);
    const int64_t divisor = std::max<int64_t>(n, 1);
    const Tensor centre = rows.sum(0) / divisor;
    const Tensor variance = (rows - centre).square().sum(0) / divisor;
    const Tensor invstd = (variance + eps).rsqrt();
    if (mean && n) {
        mean->add_((centre - *mean) * momentum);
        var->add_((variance * n / std::max<int64_t>(n - 1, 1) - *var) * momentum);
    }
    Tensor y = at::zeros_like(x), normal = (rows - centre) * invstd;
    normal = weight ? normal * *weight : normal;
    y.narrow(0, 0, n).copy_(bias ? normal + *bias : normal);
    return {y, centre.to(at::kFloat), invstd.to(at::kFloat)};
}

static three norm_backward_host(const Tensor &grad, const Tensor &x, const Tensor &count,
                                const Tensor &mean, const Tensor &invstd,
                                const optional<Tensor> &weight) {
    const int64_t n = count_host(count, x.size(0));
    const Tensor rows = x.narrow(0, 0, n).to(at::kDouble);
    const Tensor g = grad.narrow(0, 0, n).to(at::kDouble);
    const Tensor normal = (rows - mean) * invstd;
    const Tensor sums = g.sum(0), products = (g * normal).sum(0);
    Tensor made = (g - (sums + normal * products) / (double)std::max<int64_t>(n, 1)) * invstd;
    made = weight ? made * *weight : made;
    Tensor to = at::zeros_like(x);
    to.narrow(0, 0, n).copy_(made);
    return {to, products.to(at::kFloat), sums.to(at::kFloat)};
}

// ---- CUDA ---------------------------------------------------------------------------------------

#ifdef SPIRA_TORCH_CUDA

static float *floats(const optional<Tensor> &t) {
    return t ? t->data_ptr<float>() : nullptr;
}

static norm_job norm_job_of(const Tensor &x, const Tensor &count, const optional<Tensor> &weight) {
    norm_job job = {};
    job.type = numeric_of(x, 0, "input");
    job.x = x.data_ptr();
    job.count = count.data_ptr<int32_t>();
    job.capacity = rows_of(x.size(0), "input");
    job.channels = (int)x.size(1);
    job.weight = floats(weight);
    return job;
}

static three norm_cuda(const Tensor &x, const Tensor &count, const optional<Tensor> &weight,
                       const optional<Tensor> &bias, const optional<Tensor> &mean,
                       const optional<Tensor> &var, double momentum, double eps) {
    const cuda_scope scope(x);
    Tensor y = at::empty_like(x), centre = empty_like(x, at::kFloat, {x.size(1)});
    Tensor invstd = at::empty_like(centre);
    norm_job job = norm_job_of(x, count, weight);
    job.bias = floats(bias);
    job.y = y.data_ptr();
    job.running_mean = floats(mean);
    job.running_var = floats(var);
    job.momentum = (float)momentum;
    job.eps = (float)eps;
    job.mean = centre.data_ptr<float>();
    job.invstd = invstd.data_ptr<float>();
    Tensor slots = empty_like(x, at::kFloat, {gpu::norm_slots(scope.info, job.channels)});
    require(gpu::norm(scope.info, &job, slots.data_ptr<float>(), scope.stream));
    return {y, centre, invstd};
}

static three norm_backward_cuda(const Tensor &grad, const Tensor &x, const Tensor &count,
                                const Tensor &mean, const Tensor &invstd,
                                const optional<Tensor> &weight) {
    const cuda_scope scope(x);
    Tensor to = at::empty_like(x), weight_grad = at::empty_like(mean);
    Tensor bias_grad = at::empty_like(mean);
    norm_job job = norm_job_of(x, count, weight);
    job.grad = grad.data_ptr();
    job.mean = mean.data_ptr<float>();
    job.invstd = invstd.data_ptr<float>();
    job.grad_x = to.data_ptr();
    job.weight_grad = weight_grad.data_ptr<float>();
    job.bias_grad = bias_grad.data_ptr<float>();
    Tensor slots = empty_like(x, at::kFloat, {gpu::norm_slots(scope.info, job.channels)});
    require(gpu::norm_backward(scope.info, &job, slots.data_ptr<float>(), scope.stream));
    return {to, weight_grad, bias_grad};
}

#endif

// ---- operators ----------------------------------------------------------------------------------

static three norm(const Tensor &input, const Tensor &count, const optional<Tensor> &weight,
                  const optional<Tensor> &bias, const optional<Tensor> &mean,
                  const optional<Tensor> &var, double momentum, double eps) {
    norm_check(input, count);
    norm_vector(weight, "weight", input);
    norm_vector(bias, "bias", input);
    norm_vector(mean, "running_mean", input);
    norm_vector(var, "running_var", input);
    TORCH_CHECK_VALUE(mean.has_value() == var.has_value(), "running_var: as running_mean");
    const Tensor x = input.contiguous();
#ifdef SPIRA_TORCH_CUDA
    if (x.is_cuda()) {
        return norm_cuda(x, count, weight, bias, mean, var, momentum, eps);
    }
#endif
    return norm_host(x, count, weight, bias, mean, var, momentum, eps);
}

static three norm_backward(const Tensor &grad, const Tensor &input, const Tensor &count,
                           const Tensor &mean, const Tensor &invstd,
                           const optional<Tensor> &weight) {
    norm_check(input, count);
    norm_vector(weight, "weight", input);
    norm_vector(mean, "mean", input);
    norm_vector(invstd, "invstd", input);
    TORCH_CHECK_VALUE(grad.sizes() == input.sizes() && grad.scalar_type() == input.scalar_type(),
                      "grad: shape or type of the input expected");
    const Tensor x = input.contiguous(), g = grad.contiguous();
#ifdef SPIRA_TORCH_CUDA
    if (x.is_cuda()) {
        return norm_backward_cuda(g, x, count, mean, invstd, weight);
    }
#endif
    return norm_backward_host(g, x, count, mean, invstd, weight);
}

} // namespace spira_torch

TORCH_LIBRARY_FRAGMENT(spira, m) {
    m.def("counted_norm(Tensor input, Tensor count, Tensor? weight, Tensor? bias, "
          "Tensor(a!)? running_mean, Tensor(b!)? running_var, float momentum, float eps) "
          "-> (Tensor, Tensor, Tensor)");
    m.def("counted_norm_backward(Tensor grad, Tensor input, Tensor count, Tensor mean, "
          "Tensor invstd, Tensor? weight) -> (Tensor, Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(spira, CPU, m) {
    m.impl("counted_norm", spira_torch::norm);
    m.impl("counted_norm_backward", spira_torch::norm_backward);
}

#ifdef SPIRA_TORCH_CUDA
TORCH_LIBRARY_IMPL(spira, CUDA, m) {
    m.impl("counted_norm", spira_torch::norm);
    m.impl("counted_norm_backward", spira_torch::norm_backward);
}
#endif
