// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/torch/csrc/autograd.cpp: gradients and autocast of the operators.
//
// In C++, so that a layer costs no Python in the backward pass. Each function calls the operators
// through the dispatcher; torch.compile sees them there.
#include "fork.h"
#include "ops.h"

#include <ATen/SavedTensorHooks.h>
#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/VariableTypeUtils.h>
#include <torch/csrc/autograd/anomaly_mode.h>
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

// Backward functions call operators below autograd, where a call costs less. Their results have no
// derivatives: with create_graph they get a node that says so.
struct once_function : Function<once_function> {
    static variable_list forward(AutogradContext *, variable_list results, at::TensorList) {
        return results;
    }

    static variable_list backward(AutogradContext *, const variable_list &) {
        not_implemented("spira: this operator has no second derivatives; float64 features have "
                        "them (create_graph)");
    }
};

// What results() returns, of a backward function. of: the tensors that they follow from.
template <typename F>
static variable_list only_once(variable_list of, const variable_list &grad, F results) {
    variable_list made, defined;
    {
        const at::AutoDispatchBelowADInplaceOrView below;
        made = results();
    }
    if (!at::GradMode::is_enabled()) {
        return made;
    }
    const auto is_defined = [](const Variable &t) { return t.defined(); };
    of.insert(of.end(), grad.begin(), grad.end());
    of.erase(std::stable_partition(of.begin(), of.end(), is_defined), of.end());
    std::copy_if(made.begin(), made.end(), std::back_inserter(defined), is_defined);
    defined = once_function::apply(std::move(defined), at::TensorList(of));
    size_t next = 0;
    for (Variable &t : made) {
        t = t.defined() ? defined[next++] : t;
    }
    return made;
}

// Whether what is saved now goes through hooks, as in torch.utils.checkpoint: each saved tensor may
// be asked for once then, and by its own node alone.
static bool saved_by_hooks() {
    return at::SavedTensorDefaultHooks::get_hooks().has_value();
}

// The gradients of so many arguments of which the first alone has one.
static variable_list only_first(Tensor gradient, size_t arguments) {
    variable_list list(arguments);
    list[0] = std::move(gradient);
    return list;
}

// ---- rows that are made again -------------------------------------------------------------------

// Rows that a layer has read, for its weight gradient: the rows themselves, or what makes them
// again. So the rows of a batch norm need not stay: its input does already.
//
// how   in prefix order, each with its tensors: keep_rows, the rows; keep_norm, those that the norm
//       keeps; keep_sum, the same, and what its residual is made of; keep_join, two parts
struct kept_rows {
    variable_list tensors;
    std::vector<int64_t> how;
};

enum : int64_t { keep_rows, keep_join, keep_norm, keep_norm_relu, keep_sum };

static void keep(const Variable &rows, kept_rows *kept);
// Only if a norm without a residual made the rows; otherwise false.
static bool keep_if_norm(const Variable &rows, kept_rows *kept);
// The rows that keep() was given. tensor, how: move on.
static Tensor made_again(const Variable *&tensor, const int64_t *&how);
// Whether the gradient of rows goes to norms alone, which read none of the padding behind the
// count: it need not be cleared.
static bool counts_rows(const Variable &rows);

// ---- batch norm ---------------------------------------------------------------------------------

typedef std::tuple<Tensor, Tensor, Tensor>
norm_type(const Tensor &, const optional<Tensor> &, const optional<Tensor> &,
          const optional<Tensor> &, const optional<Tensor> &, const optional<Tensor> &,
          const optional<Tensor> &, const optional<Tensor> &, double, double, bool, bool);
typedef Tensor norm_apply_type(const Tensor &, const optional<Tensor> &, const optional<Tensor> &,
                               const optional<Tensor> &, const optional<Tensor> &, const Tensor &,
                               const Tensor &, bool);
typedef std::tuple<Tensor, Tensor, Tensor, Tensor>
norm_backward_type(const Tensor &, const Tensor &, const optional<Tensor> &,
                   const optional<Tensor> &, const optional<Tensor> &, const optional<Tensor> &,
                   const Tensor &, const Tensor &, bool, bool);

// What a norm keeps, in this order; the output only where there are a residual and a ReLU. In place
// of the output norm_is_sum keeps what its residual is made of, behind the others.
enum norm_kept { norm_x, norm_count, norm_weight, norm_bias, norm_mean, norm_invstd, norm_output };

// What a norm keeps besides, as one number: flags, and how its residual is made again.
const int64_t norm_has_relu = 1, norm_has_residual = 2, norm_is_sum = 4, norm_is_private = 8,
              norm_residual_shift = 4;

static int64_t norm_how(AutogradContext *norm) {
    return norm->saved_data["how"].toInt();
}

// How many tensors a norm keeps: its residual, if it is made again, is of a norm, too.
static size_t norm_size(int64_t how) {
    return norm_output + 1 + (how & norm_is_sum ? norm_output : 0);
}

// What makes the output of a norm again, of its saved variables `s`: without an output.
static variable_list norm_tensors(int64_t how, const variable_list &s) {
    variable_list tensors(s.begin(), s.begin() + norm_output);
    tensors.insert(tensors.end(), s.begin() + norm_output + 1, s.begin() + norm_size(how));
    return tensors;
}

// The arguments of a norm behind its input, in one, and the results that have no gradients.
// Function::apply gets those with gradients besides: it makes an edge for each.
struct norm_rest {
    const optional<Tensor> &residual, &count, &weight, &bias, &mean, &var, &batches;
    double momentum, eps;
    bool relu, again;
    Tensor centre, invstd;
};

struct conv_rest;

// See "a convolution and the batch norm behind it".
struct conv_norm_function : Function<conv_norm_function> {
    static Variable forward(AutogradContext *ctx, const Variable &features, const Variable &weight,
                            const optional<Tensor> &bias, const conv_rest &c,
                            const optional<Tensor> &residual, const optional<Tensor> &norm_weight,
                            const optional<Tensor> &norm_bias, norm_rest &n);
    static variable_list backward(AutogradContext *ctx, const variable_list &grad);
};

// The output of a norm, below autograd. Appends what it keeps to `kept`.
static Tensor norm_run(AutogradContext *ctx, const Tensor &input, norm_rest &r,
                       variable_list *kept) {
    static const auto op = operation<norm_type>("spira::norm");
    kept_rows of_residual;
    const bool is_private = saved_by_hooks(), residual = r.residual.has_value();
    const bool is_sum =
        r.again && r.relu && residual && !is_private && keep_if_norm(*r.residual, &of_residual);
    Tensor y;
    std::tie(y, r.centre, r.invstd) = op.call(input, r.residual, r.count, r.weight, r.bias, r.mean,
                                              r.var, r.batches, r.momentum, r.eps, r.relu, r.again);
    for (const optional<Tensor> *changed : {&r.mean, &r.var, &r.batches}) {
        if (*changed) {
            torch::autograd::increment_version(**changed);
        }
    }
    const bool output = r.relu && residual && !is_sum;
    kept->insert(kept->end(), {input, maybe(r.count), maybe(r.weight), maybe(r.bias), r.centre,
                               r.invstd, output ? y : Tensor()});
    kept->insert(kept->end(), of_residual.tensors.begin(), of_residual.tensors.end());
    int64_t how = r.relu ? norm_has_relu : 0;
    how |= residual ? norm_has_residual : 0;
    how |= is_private ? norm_is_private : 0;
    how |= is_sum ? norm_is_sum | of_residual.how[0] << norm_residual_shift : 0;
    ctx->saved_data["how"] = how;
    return y;
}

// The output of a sum of two norms.
static Tensor norm_output_again(int64_t own, const variable_list &s) {
    variable_list tensors = norm_tensors(own, s);
    const int64_t how[] = {keep_sum, own >> norm_residual_shift};
    const Variable *tensor = tensors.data();
    const int64_t *step = how;
    return made_again(tensor, step);
}

// The gradients of a norm: of the input, the residual if it is asked for, the weight and the bias.
// s: begins with what norm_run has kept.
static variable_list norm_gradients(int64_t how, const Tensor &grad, const variable_list &s,
                                    bool residual) {
    static const auto op = operation<norm_backward_type>("spira::norm_backward");
    const Tensor y = how & norm_is_sum ? norm_output_again(how, s) : s[norm_output];
    auto [x, weight, bias, added] =
        op.call(as_type(grad, s[norm_x].scalar_type()), s[norm_x], maybe(y), maybe(s[norm_count]),
                maybe(s[norm_weight]), maybe(s[norm_bias]), s[norm_mean], s[norm_invstd],
                how & norm_has_relu, residual);
    return {std::move(x), residual ? std::move(added) : Variable(),
            s[norm_weight].defined() ? std::move(weight) : Variable(),
            s[norm_bias].defined() ? std::move(bias) : Variable()};
}

struct norm_function : Function<norm_function> {
    static Variable forward(AutogradContext *ctx, const Variable &input, const optional<Tensor> &,
                            const optional<Tensor> &, const optional<Tensor> &, norm_rest &r) {
        const at::AutoDispatchBelowADInplaceOrView below;
        variable_list kept;
        Tensor y = norm_run(ctx, input, r, &kept);
        ctx->save_for_backward(std::move(kept));
        return y;
    }

    static variable_list backward(AutogradContext *ctx, const variable_list &grad) {
        const variable_list s = ctx->get_saved_variables();
        const int64_t how = norm_how(ctx);
        const bool residual = (how & norm_has_residual) && ctx->needs_input_grad(1);
        return only_once(s, grad, [&] {
            variable_list made = norm_gradients(how, grad[0], s, residual);
            made.emplace_back();
            return made;
        });
    }
};

static std::tuple<Tensor, Tensor, Tensor>
norm_autograd(const Tensor &input, const optional<Tensor> &residual, const optional<Tensor> &count,
              const optional<Tensor> &weight, const optional<Tensor> &bias,
              const optional<Tensor> &mean, const optional<Tensor> &var,
              const optional<Tensor> &batches, double momentum, double eps, bool relu, bool again) {
    const bool keeps = again && at::GradMode::is_enabled();
    norm_rest rest = {residual, count, weight, bias,  mean,     var,     batches,
                      momentum, eps,   relu,   keeps, Tensor(), Tensor()};
    Tensor y = norm_function::apply(input, residual, weight, bias, rest);
    return {std::move(y), std::move(rest.centre), std::move(rest.invstd)};
}

// ---- channels side by side ----------------------------------------------------------------------

typedef Tensor join_type(const Tensor &, const Tensor &);

static Tensor join_call(const Tensor &first, const Tensor &second) {
    static const auto op = operation<join_type>("spira::join");
    return op.call(first, second);
}

struct join_function : Function<join_function> {
    static Variable forward(AutogradContext *ctx, const Variable &first, const Variable &second) {
        kept_rows kept = {{}, {keep_join}};
        if (saved_by_hooks()) {
            kept.how.clear();
        } else {
            keep(first, &kept);
            keep(second, &kept);
        }
        ctx->saved_data["counts_rows"] = counts_rows(first) && counts_rows(second);
        at::AutoDispatchBelowADInplaceOrView below;
        ctx->save_for_backward(std::move(kept.tensors));
        ctx->saved_data["how"] = std::move(kept.how);
        ctx->saved_data["channels"] = first.sym_size(1);
        return join_call(first, second);
    }

    static variable_list backward(AutogradContext *ctx, const variable_list &grad) {
        const c10::SymInt first = ctx->saved_data["channels"].toSymInt();
        return {grad[0].narrow_symint(1, 0, first),
                grad[0].narrow_symint(1, first, grad[0].sym_size(1) - first)};
    }
};

static Tensor join_autograd(const Tensor &first, const Tensor &second) {
    if (!at::GradMode::is_enabled()) { // the parts' graph may be gone
        const at::AutoDispatchBelowADInplaceOrView below;
        return join_call(first, second);
    }
    return join_function::apply(first, second);
}

// The context of the node that made rows, if it is of a function, and nobody has changed the rows.
template <typename F>
static AutogradContext *made_by(const Variable &rows) {
    const auto &node = rows.grad_fn();
    auto *own = dynamic_cast<torch::autograd::CppNode<F> *>(node.get());
    return own && rows.output_nr() == 0 && rows._version() == 0 ? &own->ctx_ : nullptr;
}

static void keep_more(const variable_list &tensors, const std::vector<int64_t> &how,
                      kept_rows *kept) {
    kept->tensors.insert(kept->tensors.end(), tensors.begin(), tensors.end());
    kept->how.insert(kept->how.end(), how.begin(), how.end());
}

// The same of rows that a batch norm made, by itself or behind a convolution.
static AutogradContext *made_by_norm(const Variable &rows) {
    AutogradContext *norm = made_by<conv_norm_function>(rows);
    return norm ? norm : made_by<norm_function>(rows);
}

// What a node has saved; none where it was freed by a backward pass, or changed in place. Neither
// keeps a later layer from gradients of its own, if rows that this node made are kept themselves.
static variable_list still_saved(AutogradContext *node) {
    try {
        return node->get_saved_variables();
    } catch (const c10::Error &) {
        return {};
    }
}

static bool keep_if_norm(const Variable &rows, kept_rows *kept) {
    AutogradContext *norm = made_by_norm(rows);
    const int64_t how = norm ? norm_how(norm) : norm_is_private;
    if (how & (norm_has_residual | norm_is_private)) {
        return false;
    }
    const variable_list saved = still_saved(norm);
    if (saved.empty()) {
        return false;
    }
    keep_more(norm_tensors(how, saved), {how & norm_has_relu ? keep_norm_relu : keep_norm}, kept);
    return true;
}

static void keep(const Variable &rows, kept_rows *kept) {
    if (keep_if_norm(rows, kept)) {
        return;
    }
    AutogradContext *norm = made_by_norm(rows), *join = made_by<join_function>(rows);
    const int64_t how = norm ? norm_how(norm) : 0;
    const variable_list saved = how & norm_is_sum ? still_saved(norm)
                                : join            ? still_saved(join)
                                                  : variable_list();
    if (saved.empty()) {
        keep_more({rows}, {keep_rows}, kept);
    } else if (how & norm_is_sum) {
        keep_more(norm_tensors(how, saved), {keep_sum, how >> norm_residual_shift}, kept);
    } else {
        keep_more(saved, join->saved_data["how"].toIntVector(), kept);
    }
}

static Tensor made_again(const Variable *&tensor, const int64_t *&how) {
    static const auto op = operation<norm_apply_type>("spira::norm_apply");
    const int64_t kind = *how++;
    if (kind == keep_rows) {
        return *tensor++;
    }
    if (kind == keep_join) {
        const Tensor first = made_again(tensor, how);
        return join_call(first, made_again(tensor, how));
    }
    const Variable *s = tensor;
    tensor += norm_output;
    const Tensor residual = kind == keep_sum ? made_again(tensor, how) : Tensor();
    return op.call(s[norm_x], maybe(residual), maybe(s[norm_count]), maybe(s[norm_weight]),
                   maybe(s[norm_bias]), s[norm_mean], s[norm_invstd], kind != keep_norm);
}

static bool counts_rows(const Variable &rows) {
    if (AutogradContext *join = made_by<join_function>(rows)) {
        return join->saved_data["counts_rows"].toBool();
    }
    return made_by_norm(rows) != nullptr;
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

// What a convolution keeps besides tensors, as one list: these, the kernel, and kept_rows.how.
enum conv_kept { conv_flags, conv_bias_type, conv_kernel, conv_how = conv_kernel + kernel_ints };

const int64_t conv_counts_rows = 1 << 16; // among the flags: see counts_rows

// The arguments without gradients, as norm_rest.
struct conv_rest {
    const optional<Tensor> &map, &back, &pairs;
    const Tensor &source_count, &count;
    const c10::SymInt &rows;
    IntArrayRef kernel;
    int64_t flags;
};

// Flags of a call: without gradients there is nothing to keep, nor to ask of a graph that may be
// gone.
static int64_t kept_by(int64_t flags) {
    return at::GradMode::is_enabled() ? flags : flags & ~flag_again;
}

// What a convolution keeps: five tensors, and the rows that it reads.
static kept_rows conv_keep(const Variable &features, const Variable &weight,
                           const optional<Tensor> &bias, const conv_rest &r) {
    kept_rows kept = {{weight, maybe(r.back), maybe(r.pairs), r.source_count, r.count}, {r.flags}};
    kept.how.push_back(bias ? (int64_t)bias->scalar_type() : (int64_t)-1);
    kept.how.insert(kept.how.end(), r.kernel.begin(), r.kernel.end());
    kept.how.resize(conv_how, 0);
    if ((r.flags & flag_padded) && counts_rows(features)) {
        kept.how[conv_flags] |= conv_counts_rows;
    }
    if ((r.flags & flag_again) && !saved_by_hooks()) {
        keep(features, &kept);
    } else {
        keep_more({features}, {keep_rows}, &kept);
    }
    return kept;
}

// Whether gradients are wanted of the features, the weight and the bias, which are a function's
// first arguments.
static std::array<bool, 3> conv_wanted(AutogradContext *ctx, const std::vector<int64_t> &ints) {
    return {ctx->needs_input_grad(0), ctx->needs_input_grad(1),
            ints[conv_bias_type] >= 0 && ctx->needs_input_grad(2)};
}

// The gradients of a convolution. s: what conv_keep has kept.
static variable_list conv_gradients(const Tensor &grad, const Variable *s,
                                    const std::vector<int64_t> &ints, std::array<bool, 3> wanted) {
    static const auto op = operation<conv_backward_type>("spira::conv_backward");
    int64_t flags = ints[conv_flags] & ~conv_counts_rows;
    if ((ints[conv_flags] & conv_counts_rows) && !torch::autograd::AnomalyMode::is_enabled()) {
        flags &= ~flag_padded; // anomaly detection would find what lies there
    }
    Tensor rows, features, weight, added, none;
    const auto run = [&](std::array<bool, 3> of) {
        return op.call(grad, rows, s[0], maybe(s[1]), maybe(s[2]), s[3], s[4],
                       IntArrayRef(ints.data() + conv_kernel, kernel_ints), flags, of);
    };
    const auto again = [&] {
        const Variable *first = s + 5;
        const int64_t *step = ints.data() + conv_how;
        rows = made_again(first, step);
    };
    // Only the weight gradient reads the rows; the input gradient takes their size.
    const auto of_weight = [&] {
        again();
        std::tie(none, weight, added) = run({false, true, wanted[2]});
    };
    const auto of_input = [&] { std::tie(features, none, none) = run({true, false, false}); };
    if (!wanted[0] || !wanted[1] || !run_beside(grad, of_weight, of_input)) {
        again();
        std::tie(features, weight, added) = run(wanted);
    }
    return {wanted[0] ? std::move(features) : Variable(),
            wanted[1] ? std::move(weight) : Variable(),
            wanted[2] ? as_type(added, (at::ScalarType)ints[conv_bias_type]) : Variable()};
}

struct conv_function : Function<conv_function> {
    static Variable forward(AutogradContext *ctx, const Variable &features, const Variable &weight,
                            const optional<Tensor> &bias, const conv_rest &r) {
        kept_rows kept = conv_keep(features, weight, bias, r);
        const at::AutoDispatchBelowADInplaceOrView below;
        ctx->save_for_backward(std::move(kept.tensors));
        ctx->saved_data["ints"] = std::move(kept.how);
        return conv_call(features, weight, bias, r.map, r.back, r.pairs, r.source_count, r.count,
                         r.rows, r.kernel, r.flags);
    }

    static variable_list backward(AutogradContext *ctx, const variable_list &grad) {
        const variable_list s = ctx->get_saved_variables();
        const std::vector<int64_t> ints = ctx->saved_data["ints"].toIntVector();
        return only_once(s, grad, [&] {
            variable_list made = conv_gradients(grad[0], s.data(), ints, conv_wanted(ctx, ints));
            made.emplace_back();
            return made;
        });
    }
};

static Tensor conv_autograd(const Tensor &features, const Tensor &weight,
                            const optional<Tensor> &bias, const optional<Tensor> &map,
                            const optional<Tensor> &back, const optional<Tensor> &pairs,
                            const Tensor &source_count, const Tensor &count, c10::SymInt rows,
                            IntArrayRef kernel, int64_t flags) {
    const conv_rest rest = {map, back, pairs, source_count, count, rows, kernel, kept_by(flags)};
    return conv_function::apply(features, weight, bias, rest);
}

// ---- a convolution and the batch norm behind it -------------------------------------------------

typedef Tensor conv_norm_type(const Tensor &, const Tensor &, const optional<Tensor> &,
                              const optional<Tensor> &, const optional<Tensor> &,
                              const optional<Tensor> &, const Tensor &, const Tensor &, c10::SymInt,
                              IntArrayRef, int64_t, const optional<Tensor> &,
                              const optional<Tensor> &, const optional<Tensor> &,
                              const optional<Tensor> &, const optional<Tensor> &,
                              const optional<Tensor> &, double, double, bool, bool);

// Keeps what the norm keeps, and behind it what the convolution does.
Variable conv_norm_function::forward(AutogradContext *ctx, const Variable &features,
                                     const Variable &weight, const optional<Tensor> &bias,
                                     const conv_rest &c, const optional<Tensor> &,
                                     const optional<Tensor> &, const optional<Tensor> &,
                                     norm_rest &n) {
    kept_rows of_conv = conv_keep(features, weight, bias, c);
    const at::AutoDispatchBelowADInplaceOrView below;
    const int64_t flags = c.flags & ~flag_padded; // the norm reads no padding: it is not cleared
    const Tensor rows = conv_call(features, weight, bias, c.map, c.back, c.pairs, c.source_count,
                                  c.count, c.rows, c.kernel, flags);
    variable_list kept;
    Tensor y = norm_run(ctx, rows, n, &kept);
    kept.insert(kept.end(), of_conv.tensors.begin(), of_conv.tensors.end());
    ctx->save_for_backward(std::move(kept));
    ctx->saved_data["ints"] = std::move(of_conv.how);
    return y;
}

variable_list conv_norm_function::backward(AutogradContext *ctx, const variable_list &grad) {
    const variable_list s = ctx->get_saved_variables();
    const std::vector<int64_t> ints = ctx->saved_data["ints"].toIntVector();
    const int64_t how = norm_how(ctx);
    const std::array<bool, 3> wanted = conv_wanted(ctx, ints);
    const bool any = wanted[0] || wanted[1] || wanted[2];
    const bool residual =
        (how & norm_has_residual) && ctx->needs_input_grad(ints[conv_bias_type] < 0 ? 2 : 3);
    return only_once(s, grad, [&]() -> variable_list {
        const variable_list n = norm_gradients(how, grad[0], s, residual);
        const variable_list c =
            any ? conv_gradients(n[0], s.data() + norm_size(how), ints, wanted) : variable_list(3);
        return {c[0], c[1], c[2], Variable(), n[1], n[2], n[3], Variable()};
    });
}

static Tensor conv_norm_autograd(
    const Tensor &features, const Tensor &weight, const optional<Tensor> &bias,
    const optional<Tensor> &map, const optional<Tensor> &back, const optional<Tensor> &pairs,
    const Tensor &source_count, const Tensor &count, c10::SymInt rows, IntArrayRef kernel,
    int64_t flags, const optional<Tensor> &residual, const optional<Tensor> &norm_weight,
    const optional<Tensor> &norm_bias, const optional<Tensor> &mean, const optional<Tensor> &var,
    const optional<Tensor> &batches, double momentum, double eps, bool relu, bool again) {
    const conv_rest rest = {map, back, pairs, source_count, count, rows, kernel, kept_by(flags)};
    const optional<Tensor> real = flags & flag_padded ? optional<Tensor>(count) : std::nullopt;
    const bool keeps = again && at::GradMode::is_enabled();
    norm_rest norm = {residual, real, norm_weight, norm_bias, mean,     var,     batches,
                      momentum, eps,  relu,        keeps,     Tensor(), Tensor()};
    return conv_norm_function::apply(features, weight, bias, rest, residual, norm_weight, norm_bias,
                                     norm);
}

// ---- norms of rows and of batch elements --------------------------------------------------------

typedef Tensor norm_rows_type(const Tensor &, const optional<Tensor> &, const optional<Tensor> &,
                              const optional<Tensor> &, const Tensor &, int64_t, double, int64_t,
                              int64_t);
typedef std::tuple<Tensor, Tensor, Tensor> norm_rows_backward_type(const Tensor &, const Tensor &,
                                                                   const optional<Tensor> &,
                                                                   const Tensor &, int64_t, double,
                                                                   int64_t);
typedef Tensor norm_groups_type(const Tensor &, const optional<Tensor> &, const optional<Tensor> &,
                                const Tensor &, const Tensor &, IntArrayRef, int64_t, double,
                                int64_t);
typedef std::tuple<Tensor, Tensor, Tensor>
norm_groups_backward_type(const Tensor &, const Tensor &, const optional<Tensor> &, const Tensor &,
                          const Tensor &, IntArrayRef, int64_t, double, int64_t);

// The arguments without gradients, as norm_rest. Of rows: words and layout are empty.
struct norm_of_rest {
    Tensor words, count;
    std::vector<int64_t> layout;
    int64_t number; // norm_kind; of batch elements: groups
    double eps;
    int64_t flags;
};

struct norm_of_function : Function<norm_of_function> {
    static Variable forward(AutogradContext *ctx, const Variable &input,
                            const optional<Tensor> &weight, const optional<Tensor> &bias,
                            const norm_of_rest &r) {
        static const auto rows = operation<norm_rows_type>("spira::norm_rows");
        static const auto elements = operation<norm_groups_type>("spira::norm_groups");
        at::AutoDispatchBelowADInplaceOrView below;
        ctx->save_for_backward({input, maybe(weight), maybe(bias), r.words, r.count});
        ctx->saved_data["layout"] = r.layout;
        ctx->saved_data["number"] = r.number;
        ctx->saved_data["eps"] = r.eps;
        ctx->saved_data["flags"] = r.flags;
        return r.words.defined() ? elements.call(input, weight, bias, r.words, r.count, r.layout,
                                                 r.number, r.eps, r.flags)
                                 : rows.call(input, std::nullopt, weight, bias, r.count, r.number,
                                             r.eps, 0, r.flags);
    }

    static variable_list backward(AutogradContext *ctx, const variable_list &grad) {
        static const auto rows = operation<norm_rows_backward_type>("spira::norm_rows_backward");
        static const auto elements =
            operation<norm_groups_backward_type>("spira::norm_groups_backward");
        const variable_list s = ctx->get_saved_variables();
        const int64_t number = ctx->saved_data["number"].toInt();
        const int64_t flags = ctx->saved_data["flags"].toInt();
        const double eps = ctx->saved_data["eps"].toDouble();
        return only_once(s, grad, [&]() -> variable_list {
            const Tensor g = as_type(grad[0], s[0].scalar_type());
            const auto [input, weight, bias] =
                s[3].defined()
                    ? elements.call(g, s[0], maybe(s[1]), s[3], s[4],
                                    ctx->saved_data["layout"].toIntVector(), number, eps, flags)
                    : rows.call(g, s[0], maybe(s[1]), s[4], number, eps, flags);
            const auto like = [](const Tensor &made, const Tensor &of) {
                return of.defined() ? as_type(made, of.scalar_type()) : Variable();
            };
            return {input, like(weight, s[1]), like(bias, s[2]), Variable()};
        });
    }
};

static Tensor norm_rows_autograd(const Tensor &input, const optional<Tensor> &residual,
                                 const optional<Tensor> &weight, const optional<Tensor> &bias,
                                 const Tensor &count, int64_t kind, double eps, int64_t act,
                                 int64_t flags) {
    if (residual || act) { // of eval mode
        for (const Tensor &t : {input, maybe(residual), maybe(weight), maybe(bias)}) {
            if (at::GradMode::is_enabled() && t.defined() && t.requires_grad()) {
                not_implemented("spira::norm_rows: gradients are of a norm without a residual and "
                                "an activation; call it under torch.no_grad()");
            }
        }
        static const auto op = operation<norm_rows_type>("spira::norm_rows");
        at::AutoDispatchBelowADInplaceOrView below;
        return op.call(input, residual, weight, bias, count, kind, eps, act, flags);
    }
    return norm_of_function::apply(input, weight, bias,
                                   norm_of_rest{Tensor(), count, {}, kind, eps, flags});
}

static Tensor norm_groups_autograd(const Tensor &input, const optional<Tensor> &weight,
                                   const optional<Tensor> &bias, const Tensor &words,
                                   const Tensor &count, IntArrayRef layout, int64_t groups,
                                   double eps, int64_t flags) {
    return norm_of_function::apply(input, weight, bias,
                                   norm_of_rest{words, count, layout.vec(), groups, eps, flags});
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

// ---- between points and voxels ------------------------------------------------------------------

typedef Tensor blend_type(const Tensor &, const Tensor &, const Tensor &, const Tensor &,
                          const Tensor &);

// To points, or back to voxels.
template <bool forth>
static Tensor blend_call(const Tensor &features, const Tensor &index, const Tensor &weight,
                         const Tensor &begin, const Tensor &order) {
    static const auto op = operation<blend_type>(forth ? "spira::blend" : "spira::splat");
    return op.call(features, index, weight, begin, order);
}

// The gradient of each is the other, of the same weights, which have none themselves.
template <bool forth>
struct blend_function : Function<blend_function<forth>> {
    static Variable forward(AutogradContext *ctx, const Variable &features, const Tensor &index,
                            const Tensor &weight, const Tensor &begin, const Tensor &order) {
        at::AutoDispatchBelowADInplaceOrView below;
        ctx->save_for_backward({index, weight, begin, order});
        return blend_call<forth>(features, index, weight, begin, order);
    }

    static variable_list backward(AutogradContext *ctx, const variable_list &grad) {
        const variable_list s = ctx->get_saved_variables();
        return only_first(blend_call<!forth>(grad[0], s[0], s[1], s[2], s[3]), 5);
    }
};

template <bool forth>
static Tensor blend_autograd(const Tensor &features, const Tensor &index, const Tensor &weight,
                             const Tensor &begin, const Tensor &order) {
    return blend_function<forth>::apply(features, index, weight, begin, order);
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
        SPIRA_CHECK(s[2].defined(), "back: missing; the gradient of pooling needs it");
        return only_once(s, grad, [&] {
            return only_first(op.call(grad[0], s[0], s[1], s[2], s[3],
                                      ctx->saved_data["kind"].toInt(),
                                      ctx->saved_data["flags"].toInt()),
                              7);
        });
    }
};

static Tensor pool_autograd(const Tensor &features, const Tensor &map, const optional<Tensor> &back,
                            const Tensor &source_count, const Tensor &count, int64_t kind,
                            int64_t flags) {
    return pool_function::apply(features, map, back, source_count, count, kind, flags);
}

typedef Tensor pool_global_type(const Tensor &, const Tensor &, const Tensor &, IntArrayRef,
                                int64_t, int64_t);
typedef Tensor pool_global_backward_type(const Tensor &, const Tensor &, const Tensor &,
                                         const Tensor &, IntArrayRef, int64_t, int64_t);

struct pool_global_function : Function<pool_global_function> {
    static Variable forward(AutogradContext *ctx, const Variable &features, const Tensor &words,
                            const Tensor &count, std::vector<int64_t> layout, int64_t kind,
                            int64_t flags) {
        static const auto op = operation<pool_global_type>("spira::pool_global");
        at::AutoDispatchBelowADInplaceOrView below;
        ctx->save_for_backward({features, words, count});
        ctx->saved_data["kind"] = kind;
        ctx->saved_data["flags"] = flags;
        Tensor out = op.call(features, words, count, layout, kind, flags);
        ctx->saved_data["layout"] = std::move(layout);
        return out;
    }

    static variable_list backward(AutogradContext *ctx, const variable_list &grad) {
        static const auto op = operation<pool_global_backward_type>("spira::pool_global_backward");
        const variable_list s = ctx->get_saved_variables();
        return only_once(s, grad, [&] {
            return only_first(
                op.call(grad[0], s[0], s[1], s[2], ctx->saved_data["layout"].toIntVector(),
                        ctx->saved_data["kind"].toInt(), ctx->saved_data["flags"].toInt()),
                6);
        });
    }
};

static Tensor pool_global_autograd(const Tensor &features, const Tensor &words, const Tensor &count,
                                   IntArrayRef layout, int64_t kind, int64_t flags) {
    return pool_global_function::apply(features, words, count, layout.vec(), kind, flags);
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
        return only_once(s, grad, [&] {
            return only_first(op.call(grad[0], s[0], s[1], ctx->saved_data["layout"].toIntVector(),
                                      ctx->saved_data["grid"].toIntVector(),
                                      ctx->saved_data["batch"].toInt(),
                                      ctx->saved_data["flags"].toInt()),
                              7);
        });
    }
};

static Tensor dense_autograd(const Tensor &features, const Tensor &words, const Tensor &count,
                             IntArrayRef layout, IntArrayRef grid, int64_t batch, int64_t flags) {
    return dense_function::apply(features, words, count, layout.vec(), grid.vec(), batch, flags);
}

TORCH_LIBRARY_IMPL(spira, Autograd, m) {
    m.impl("conv", &conv_autograd);
    m.impl("norm", &norm_autograd);
    m.impl("conv_norm", &conv_norm_autograd);
    m.impl("norm_rows", &norm_rows_autograd);
    m.impl("norm_groups", &norm_groups_autograd);
    m.impl("join", &join_autograd);
    m.impl("permute_rows", &permute_autograd);
    m.impl("blend", &blend_autograd<true>);
    m.impl("splat", &blend_autograd<false>);
    m.impl("pool", &pool_autograd);
    m.impl("pool_global", &pool_global_autograd);
    m.impl("dense", &dense_autograd);
    // Of integers, or for callers without gradients: the dispatcher's default for operators that
    // have none costs a microsecond.
    for (const char *name : {"voxelize", "expand", "unpack", "repack", "choose", "choose_largest",
                             "find_rows", "unite", "curve", "around", "lists", "map_table",
                             "map_layout", "map_pairs", "norm_eval", "conv_norm_eval"}) {
        m.impl(name, torch::CppFunction::makeFallthrough());
    }
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

template <c10::DeviceType device, c10::DispatchKey key>
static Tensor conv_norm_autocast(
    const Tensor &features, const Tensor &weight, const optional<Tensor> &bias,
    const optional<Tensor> &map, const optional<Tensor> &back, const optional<Tensor> &pairs,
    const Tensor &source_count, const Tensor &count, c10::SymInt rows, IntArrayRef kernel,
    int64_t flags, const optional<Tensor> &residual, const optional<Tensor> &norm_weight,
    const optional<Tensor> &norm_bias, const optional<Tensor> &mean, const optional<Tensor> &var,
    const optional<Tensor> &batches, double momentum, double eps, bool relu, bool again) {
    static const auto op = operation<conv_norm_type>("spira::conv_norm");
    const c10::impl::ExcludeDispatchKeyGuard none(key);
    const Tensor cast =
        at::autocast::cached_cast(at::autocast::get_autocast_dtype(device), features, device);
    return op.call(cast, weight, bias, map, back, pairs, source_count, count, std::move(rows),
                   kernel, flags, residual, norm_weight, norm_bias, mean, var, batches, momentum,
                   eps, relu, again);
}

TORCH_LIBRARY_IMPL(spira, AutocastCPU, m) {
    m.impl("conv", &conv_autocast<c10::kCPU, c10::DispatchKey::AutocastCPU>);
    m.impl("conv_norm", &conv_norm_autocast<c10::kCPU, c10::DispatchKey::AutocastCPU>);
}

TORCH_LIBRARY_IMPL(spira, AutocastCUDA, m) {
    m.impl("conv", &conv_autocast<c10::kCUDA, c10::DispatchKey::AutocastCUDA>);
    m.impl("conv_norm", &conv_norm_autocast<c10::kCUDA, c10::DispatchKey::AutocastCUDA>);
}

} // namespace spira_torch
