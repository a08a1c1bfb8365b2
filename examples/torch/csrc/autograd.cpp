// examples/torch/csrc/autograd.cpp: gradients and autocast of the operators.
//
// In C++, so that a layer costs no Python in the backward pass. Each function calls the operators
// through the dispatcher; torch.compile sees them there.
#include "ops.h"

#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/custom_function.h>

namespace spira_torch {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::Variable;
using torch::autograd::variable_list;

template <typename F>
static auto operation(const char *name) {
    return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").template typed<F>();
}

// A tensor that may be missing, as saved variables hold it.
static Tensor maybe(const optional<Tensor> &t) {
    return t ? *t : Tensor();
}

static optional<Tensor> maybe(const Tensor &t) {
    return t.defined() ? optional<Tensor>(t) : std::nullopt;
}

// The gradients of so many arguments of which the first alone has one.
static variable_list only_first(Tensor gradient, size_t arguments) {
    variable_list list(arguments);
    list[0] = std::move(gradient);
    return list;
}

// ---- convolution --------------------------------------------------------------------------------

typedef Tensor conv_type(const Tensor &, const Tensor &, const optional<Tensor> &,
                         const optional<Tensor> &, const optional<Tensor> &,
                         const optional<Tensor> &, const Tensor &, const Tensor &, c10::SymInt,
                         IntArrayRef, int64_t);
typedef std::tuple<Tensor, Tensor, Tensor>
conv_backward_type(const Tensor &, const Tensor &, const Tensor &, const optional<Tensor> &,
                   const optional<Tensor> &, const Tensor &, const Tensor &, IntArrayRef, int64_t,
                   std::array<bool, 3>);

static Tensor conv_call(const Tensor &features, const Tensor &weight, const optional<Tensor> &bias,
                        const optional<Tensor> &map, const optional<Tensor> &back,
                        const optional<Tensor> &pairs, const Tensor &source_count,
                        const Tensor &count, c10::SymInt rows, IntArrayRef kernel, int64_t flags) {
    static const auto op = operation<conv_type>("spira::conv");
    return op.call(features, weight, bias, map, back, pairs, source_count, count, std::move(rows),
                   kernel, flags);
}

struct conv_function : Function<conv_function> {
    static Variable forward(AutogradContext *ctx, const Variable &features, const Variable &weight,
                            const optional<Tensor> &bias, const optional<Tensor> &map,
                            const optional<Tensor> &back, const optional<Tensor> &pairs,
                            const Tensor &source_count, const Tensor &count,
                            const c10::SymInt &rows, std::vector<int64_t> kernel, int64_t flags) {
        at::AutoDispatchBelowADInplaceOrView below;
        ctx->save_for_backward({features, weight, maybe(back), maybe(pairs), source_count, count});
        ctx->saved_data["flags"] = flags;
        ctx->saved_data["bias"] = bias ? (int64_t)bias->scalar_type() : (int64_t)-1;
        Tensor out = conv_call(features, weight, bias, map, back, pairs, source_count, count, rows,
                               kernel, flags);
        ctx->saved_data["kernel"] = std::move(kernel);
        return out;
    }

    static variable_list backward(AutogradContext *ctx, const variable_list &grad) {
        static const auto op = operation<conv_backward_type>("spira::conv_backward");
        const variable_list saved = ctx->get_saved_variables();
        const int64_t bias = ctx->saved_data["bias"].toInt();
        const std::vector<int64_t> kernel = ctx->saved_data["kernel"].toIntVector();
        const std::array<bool, 3> wanted = {ctx->needs_input_grad(0), ctx->needs_input_grad(1),
                                            bias >= 0 && ctx->needs_input_grad(2)};
        const auto [features, weight, added] =
            op.call(grad[0], saved[0], saved[1], maybe(saved[2]), maybe(saved[3]), saved[4],
                    saved[5], kernel, ctx->saved_data["flags"].toInt(), wanted);
        return {wanted[0] ? features : Variable(),
                wanted[1] ? weight : Variable(),
                wanted[2] ? added.to((at::ScalarType)bias) : Variable(),
                Variable(),
                Variable(),
                Variable(),
                Variable(),
                Variable(),
                Variable(),
                Variable(),
                Variable()};
    }
};

static Tensor conv_autograd(const Tensor &features, const Tensor &weight,
                            const optional<Tensor> &bias, const optional<Tensor> &map,
                            const optional<Tensor> &back, const optional<Tensor> &pairs,
                            const Tensor &source_count, const Tensor &count, c10::SymInt rows,
                            IntArrayRef kernel, int64_t flags) {
    return conv_function::apply(features, weight, bias, map, back, pairs, source_count, count, rows,
                                kernel.vec(), flags);
}

// ---- permutation --------------------------------------------------------------------------------

typedef Tensor permute_type(const Tensor &, const Tensor &, const Tensor &);

static Tensor permute_call(const Tensor &features, const Tensor &index, const Tensor &inverse) {
    static const auto op = operation<permute_type>("spira::permute_rows");
    return op.call(features, index, inverse);
}

struct permute_function : Function<permute_function> {
    static Variable forward(AutogradContext *ctx, const Variable &features, const Tensor &index,
                            const Tensor &inverse) {
        at::AutoDispatchBelowADInplaceOrView below;
        ctx->save_for_backward({index, inverse});
        return permute_call(features, index, inverse);
    }

    static variable_list backward(AutogradContext *ctx, const variable_list &grad) {
        const variable_list saved = ctx->get_saved_variables();
        return only_first(permute_call(grad[0], saved[1], saved[0]), 3);
    }
};

static Tensor permute_autograd(const Tensor &features, const Tensor &index, const Tensor &inverse) {
    return permute_function::apply(features, index, inverse);
}

// ---- pooling ------------------------------------------------------------------------------------

typedef Tensor pool_type(const Tensor &, const Tensor &, const optional<Tensor> &, const Tensor &,
                         const Tensor &, int64_t, int64_t);
typedef Tensor pool_backward_type(const Tensor &, const Tensor &, const Tensor &, const Tensor &,
                                  const Tensor &, int64_t, int64_t);

struct pool_function : Function<pool_function> {
    static Variable forward(AutogradContext *ctx, const Variable &features, const Tensor &map,
                            const optional<Tensor> &back, const Tensor &source_count,
                            const Tensor &count, int64_t kind, int64_t flags) {
        static const auto op = operation<pool_type>("spira::pool");
        at::AutoDispatchBelowADInplaceOrView below;
        ctx->save_for_backward({features, map, maybe(back), source_count});
        ctx->saved_data["kind"] = kind;
        ctx->saved_data["flags"] = flags;
        return op.call(features, map, back, source_count, count, kind, flags);
    }

    static variable_list backward(AutogradContext *ctx, const variable_list &grad) {
        static const auto op = operation<pool_backward_type>("spira::pool_backward");
        const variable_list s = ctx->get_saved_variables();
        TORCH_CHECK_VALUE(s[2].defined(), "back: missing; the gradient of pooling needs it");
        return only_first(op.call(grad[0], s[0], s[1], s[2], s[3], ctx->saved_data["kind"].toInt(),
                                  ctx->saved_data["flags"].toInt()),
                          7);
    }
};

static Tensor pool_autograd(const Tensor &features, const Tensor &map, const optional<Tensor> &back,
                            const Tensor &source_count, const Tensor &count, int64_t kind,
                            int64_t flags) {
    return pool_function::apply(features, map, back, source_count, count, kind, flags);
}

// ---- dense maps ---------------------------------------------------------------------------------

typedef Tensor dense_type(const Tensor &, const Tensor &, const Tensor &, IntArrayRef, IntArrayRef,
                          int64_t, int64_t);

struct dense_function : Function<dense_function> {
    static Variable forward(AutogradContext *ctx, const Variable &features, const Tensor &words,
                            const Tensor &count, std::vector<int64_t> layout,
                            std::vector<int64_t> grid, int64_t batch, int64_t flags) {
        static const auto op = operation<dense_type>("spira::dense");
        at::AutoDispatchBelowADInplaceOrView below;
        ctx->save_for_backward({words, count});
        ctx->saved_data["batch"] = batch;
        ctx->saved_data["flags"] = flags;
        Tensor out = op.call(features, words, count, layout, grid, batch, flags);
        ctx->saved_data["layout"] = std::move(layout);
        ctx->saved_data["grid"] = std::move(grid);
        return out;
    }

    static variable_list backward(AutogradContext *ctx, const variable_list &grad) {
        static const auto op = operation<dense_type>("spira::dense_backward");
        const variable_list s = ctx->get_saved_variables();
        return only_first(op.call(grad[0], s[0], s[1], ctx->saved_data["layout"].toIntVector(),
                                  ctx->saved_data["grid"].toIntVector(),
                                  ctx->saved_data["batch"].toInt(),
                                  ctx->saved_data["flags"].toInt()),
                          7);
    }
};

static Tensor dense_autograd(const Tensor &features, const Tensor &words, const Tensor &count,
                             IntArrayRef layout, IntArrayRef grid, int64_t batch, int64_t flags) {
    return dense_function::apply(features, words, count, layout.vec(), grid.vec(), batch, flags);
}

TORCH_LIBRARY_IMPL(spira, Autograd, m) {
    m.impl("conv", &conv_autograd);
    m.impl("permute_rows", &permute_autograd);
    m.impl("pool", &pool_autograd);
    m.impl("dense", &dense_autograd);
}

// ---- autocast -----------------------------------------------------------------------------------

// Features are cast; weights are not: the operator rounds them itself, and their gradients stay
// fp32. Pooling and dense maps take any type as it is.
template <c10::DeviceType device, c10::DispatchKey key>
static Tensor conv_autocast(const Tensor &features, const Tensor &weight,
                            const optional<Tensor> &bias, const optional<Tensor> &map,
                            const optional<Tensor> &back, const optional<Tensor> &pairs,
                            const Tensor &source_count, const Tensor &count, c10::SymInt rows,
                            IntArrayRef kernel, int64_t flags) {
    const c10::impl::ExcludeDispatchKeyGuard none(key);
    const Tensor cast =
        at::autocast::cached_cast(at::autocast::get_autocast_dtype(device), features, device);
    return conv_call(cast, weight, bias, map, back, pairs, source_count, count, std::move(rows),
                     kernel, flags);
}

TORCH_LIBRARY_IMPL(spira, AutocastCPU, m) {
    m.impl("conv", &conv_autocast<c10::kCPU, c10::DispatchKey::AutocastCPU>);
}

TORCH_LIBRARY_IMPL(spira, AutocastCUDA, m) {
    m.impl("conv", &conv_autocast<c10::kCUDA, c10::DispatchKey::AutocastCUDA>);
}

} // namespace spira_torch
