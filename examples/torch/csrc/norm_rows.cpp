// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/torch/csrc/norm_rows.cpp: norms by spira's kernels: of rows (spira/norm.h).
#include "ops.h"
#include "scope.h"

namespace spira_torch {

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

Tensor norm_rows(const Tensor &input, const optional<Tensor> &residual,
                 const optional<Tensor> &weight, const optional<Tensor> &bias, const Tensor &count,
                 int64_t kind, double eps, int64_t act, int64_t flags) {
    SPIRA_CHECK(input.dim() == 2, "input: [rows, channels] expected, got ", input.sizes());
    require_device(count, "count", input, "input");
    const Tensor in = input.contiguous(), gain = channel_floats(weight, "weight", input),
                 shift = channel_floats(bias, "bias", input);
    Tensor added, out = empty_as(in);
    if (residual) {
        SPIRA_CHECK(residual->sizes() == in.sizes(), "residual: ", residual->sizes(),
                    ", but input is ", in.sizes());
        require_device(*residual, "residual", input, "input");
        require_type(*residual, "residual", in.scalar_type());
        added = residual->contiguous();
    }
    if (!in.numel()) {
        return out;
    }
    spira::norm_args a = {};
    a.in = in.data_ptr();
    a.channels = (int)in.size(1);
    a.type = numeric_of(in, 0, "input");
    a.kind = (spira::norm_kind)kind;
    a.epsilon = (float)eps;
    a.gain = vector_at(gain);
    a.shift = vector_at(shift);
    a.residual = residual ? added.data_ptr() : nullptr;
    a.act = activation_of(act);
    a.count = count.data_ptr<int32_t>();
    a.capacity = rows_of(in.size(0), "input");
    a.out = out.data_ptr();
    if (in.is_cpu()) {
        require(spira::norm_host(&a));
    }
    on_gpu(in, [&](const auto &scope) { return gpu::norm_rows(&a, scope.stream); });
    if (flags & flag_padded) {
        clear_tail(out, count);
    }
    return out;
}

} // namespace spira_torch
