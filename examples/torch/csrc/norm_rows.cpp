// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/torch/csrc/norm_rows.cpp: norms of rows, LayerNorm and RMSNorm
// (spira/norm.h), and of batch elements, GroupNorm (spira/norm_groups.h).
#include "ops.h"
#include "scope.h"

namespace spira_torch {

typedef std::tuple<Tensor, Tensor, Tensor> three;

// A vector of the channels, fp32; undefined where there is none.
static Tensor channel_floats(const optional<Tensor> &t, const char *name, const Tensor &input) {
    if (!t) {
        return Tensor();
    }
    require_device(*t, name, input, "input");
    SPIRA_CHECK(t->dim() == 1 && t->size(0) == input.size(1), name, ": ", t->sizes(),
                ", but input has ", input.size(1), " channels");
    return floats(*t);
}

static const float *vector_at(const Tensor &t) {
    return t.defined() ? t.data_ptr<float>() : nullptr;
}

// The rows and vectors of a norm, which live as long as it. args has no count and no result.
struct norm_rows_call {
    Tensor in, gain, shift, added;
    spira::norm_args args;
};

static norm_rows_call norm_rows_call_of(const Tensor &input, const optional<Tensor> &weight,
                                        const optional<Tensor> &bias, double eps) {
    SPIRA_CHECK(input.dim() == 2, "input: [rows, channels] expected, got ", input.sizes());
    norm_rows_call c = {input.contiguous(), channel_floats(weight, "weight", input),
                        channel_floats(bias, "bias", input), Tensor(), spira::norm_args()};
    c.args.in = c.in.data_ptr();
    c.args.channels = (int)input.size(1);
    c.args.type = numeric_of(input, 0, "input");
    c.args.epsilon = (float)eps;
    c.args.gain = vector_at(c.gain);
    c.args.shift = vector_at(c.shift);
    return c;
}

// Rows like those of a norm.
static Tensor rows_like(const Tensor &t, const char *name, const Tensor &input) {
    SPIRA_CHECK(t.sizes() == input.sizes(), name, ": ", t.sizes(), ", but input is ",
                input.sizes());
    require_device(t, name, input, "input");
    require_type(t, name, input.scalar_type());
    return t.contiguous();
}

// Memory of gradients: of the rows and, fp32, of both vectors. Zeros, where there is no row.
static three norm_grads_new(const norm_rows_call &c, const Tensor &grad,
                            spira::norm_grad_args *args) {
    Tensor rows = empty_as(c.in), gain = empty_like(c.in, at::kFloat, {c.in.size(1)}),
           shift = empty_as(gain);
    args->norm = c.args;
    args->norm.shift = nullptr;
    args->out_grad = grad.data_ptr();
    args->in_grad = rows.data_ptr();
    args->gain_grad = gain.data_ptr<float>();
    args->shift_grad = shift.data_ptr<float>();
    if (!c.in.numel()) {
        gain.zero_(), shift.zero_();
    }
    return {rows, gain, shift};
}

// ---- of rows ------------------------------------------------------------------------------------

Tensor norm_rows(const Tensor &input, const optional<Tensor> &residual,
                 const optional<Tensor> &weight, const optional<Tensor> &bias, const Tensor &count,
                 int64_t kind, double eps, int64_t act, int64_t flags) {
    norm_rows_call c = norm_rows_call_of(input, weight, bias, eps);
    require_device(count, "count", input, "input");
    Tensor out = empty_as(c.in);
    if (residual) {
        c.added = rows_like(*residual, "residual", input);
        c.args.residual = c.added.data_ptr();
    }
    if (!c.in.numel()) {
        return out;
    }
    c.args.kind = (spira::norm_kind)kind;
    c.args.act = activation_of(act);
    c.args.count = count.data_ptr<int32_t>();
    c.args.capacity = rows_of(input.size(0), "input");
    c.args.out = out.data_ptr();
    if (input.is_cpu()) {
        require(spira::norm_host(&c.args));
    }
    on_gpu(input, [&](const auto &scope) { return gpu::norm_rows(&c.args, scope.stream); });
    if (flags & flag_padded) {
        clear_tail(out, count);
    }
    return out;
}

three norm_rows_backward(const Tensor &out_grad, const Tensor &input,
                         const optional<Tensor> &weight, const Tensor &count, int64_t kind,
                         double eps, int64_t flags) {
    norm_rows_call c = norm_rows_call_of(input, weight, std::nullopt, eps);
    const Tensor grad = rows_like(out_grad, "grad", input);
    spira::norm_grad_args args = {};
    three made = norm_grads_new(c, grad, &args);
    if (!c.in.numel()) {
        return made;
    }
    args.norm.kind = (spira::norm_kind)kind;
    args.norm.count = count.data_ptr<int32_t>();
    args.norm.capacity = rows_of(input.size(0), "input");
    if (input.is_cpu()) {
        require(spira::norm_grad_host(&args));
    }
    on_gpu(
        input, [&](auto *bytes) { return gpu::norm_rows_grad_bytes(&args, bytes); },
        [&](const auto &scope, void *base, size_t size) {
            return gpu::norm_rows_grad(&args, base, size, scope.stream);
        });
    if (flags & flag_padded) {
        clear_tail(std::get<0>(made), count);
    }
    return made;
}

// ---- of batch elements --------------------------------------------------------------------------

static void norm_groups_run(const norm_groups_job &job, const Tensor &like) {
    on_cpu(like, *job.layout, [&](auto word) {
        const auto forward = job.forward<decltype(word)>();
        const auto gradient = job.gradient<decltype(word)>();
        return job.is_grad() ? spira::norm_groups_grad_host(&gradient)
                             : spira::norm_groups_host(&forward);
    });
    on_gpu(
        like, [&](auto *bytes) { return gpu::norm_groups_bytes(&job, bytes); },
        [&](const auto &scope, void *base, size_t size) {
            return gpu::norm_groups(&job, base, size, scope.stream);
        });
}

static norm_groups_job norm_groups_job_of(const Tensor &input, const Tensor &words,
                                          const Tensor &count, const spira::word_layout *layout,
                                          int64_t groups) {
    norm_groups_job job = {};
    job.layout = layout;
    job.set = set_of(words, count, *layout, "words");
    job.groups = (int)groups;
    require_device(words, "words", input, "input");
    SPIRA_CHECK(input.size(0) == job.set.capacity, "input: ", input.sizes(), ", but there are ",
                job.set.capacity, " coordinates");
    return job;
}

Tensor norm_groups(const Tensor &input, const optional<Tensor> &weight,
                   const optional<Tensor> &bias, const Tensor &words, const Tensor &count,
                   IntArrayRef layout_ints, int64_t groups, double eps, int64_t flags) {
    const spira::word_layout layout = layout_of(layout_ints);
    const norm_rows_call c = norm_rows_call_of(input, weight, bias, eps);
    norm_groups_job job = norm_groups_job_of(input, words, count, &layout, groups);
    Tensor out = empty_as(c.in);
    if (!c.in.numel()) {
        return out;
    }
    job.rows.norm = c.args;
    job.rows.norm.out = out.data_ptr();
    norm_groups_run(job, input);
    if (flags & flag_padded) {
        clear_tail(out, count);
    }
    return out;
}

three norm_groups_backward(const Tensor &out_grad, const Tensor &input,
                           const optional<Tensor> &weight, const Tensor &words, const Tensor &count,
                           IntArrayRef layout_ints, int64_t groups, double eps, int64_t flags) {
    const spira::word_layout layout = layout_of(layout_ints);
    const norm_rows_call c = norm_rows_call_of(input, weight, std::nullopt, eps);
    const Tensor grad = rows_like(out_grad, "grad", input);
    norm_groups_job job = norm_groups_job_of(input, words, count, &layout, groups);
    three made = norm_grads_new(c, grad, &job.rows);
    if (!c.in.numel()) {
        return made;
    }
    norm_groups_run(job, input);
    if (flags & flag_padded) {
        clear_tail(std::get<0>(made), count);
    }
    return made;
}

} // namespace spira_torch
