// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/torch/csrc/conv.cpp: convolution and its gradients, on both devices.
#include "fork.h"
#include "ops.h"
#include "scope.h"

#include <map>
#include <mutex>

namespace spira_torch {

// ---- arguments ----------------------------------------------------------------------------------

// What all parts of a layer know.
struct layer {
    kernel_arg kernel;
    bool identity; // volume 1 onto the same set: there is no map
    spira::conv_shape shape;
    spira::grad_order mirrors;
    int groups;            // above 1 all maps are tables, on both devices, and so are the pairs
    Tensor norm;           // of conv_norm_eval: scale and shift, [2, cout]; behind the bias
    Tensor residual;       // of conv_eval; added before
    spira::activation act; // this
    Tensor packed;         // of conv_pack, instead of the weight

    int weight_cin() const {
        return shape.cin / groups;
    }
};

// The sizes of a kernel as a weight has them: [Cout, z, y, x, Cin], or [Cout, y, x, Cin].
static bool weight_fits(const Tensor &weight, spira::triple size) {
    const int64_t n = weight.dim();
    return (n == 5 || (n == 4 && size.z == 1)) && weight.size(n - 2) == size.x &&
           weight.size(n - 3) == size.y && (n == 4 || weight.size(1) == size.z);
}

static layer layer_of(const Tensor &features, const Tensor &weight, IntArrayRef kernel,
                      int64_t flags) {
    layer l = {};
    l.kernel = kernel_of(kernel);
    SPIRA_CHECK(features.dim() == 2, "features: [rows, channels] expected, got ", features.sizes());
    require_device(weight, "weight", features, "features");
    const spira::triple size = l.kernel.shape.size;
    SPIRA_CHECK(weight_fits(weight, size), "weight: ", weight.sizes(),
                " does not fit a kernel of size (", size.z, ", ", size.y, ", ", size.x,
                "); [Cout, *size, Cin] expected");
    l.groups = flags >> flag_groups ? (int)(flags >> flag_groups) : 1;
    SPIRA_CHECK(weight.size(-1) * l.groups == features.size(1),
                "weight: ", weight.size(-1) * l.groups, " input channels, but features have ",
                features.size(1));
    SPIRA_CHECK(weight.size(0) % l.groups == 0, "groups: ", (int64_t)l.groups,
                " does not divide the output channels, ", weight.size(0));
    numeric_of(weight, 0, "weight");
    l.shape = spira::conv_shape_of(&l.kernel.shape, (int)features.size(1), (int)weight.size(0),
                                   numeric_of(features, flags, "features"));
    require(spira::conv_shape_check(&l.shape));
    l.identity = l.kernel.same && l.kernel.volume == 1 && l.groups == 1;
    l.mirrors = spira::conv_grad_mirrors(&l.kernel.shape, l.kernel.same)
                    ? spira::grad_order_mirrored
                    : spira::grad_order_same;
    return l;
}

// The axes of a weight in spira's order, [x, y, z, Cin, Cout] or [x, y, Cin, Cout].
static Tensor weight_ordered(const Tensor &weight) {
    return weight.dim() == 5 ? weight.permute({3, 2, 1, 4, 0}) : weight.permute({2, 1, 3, 0});
}

// The inverse of weight_ordered.
static Tensor weight_restored(const Tensor &ordered) {
    return ordered.dim() == 5 ? ordered.permute({4, 2, 1, 0, 3}) : ordered.permute({3, 1, 0, 2});
}

// The strides of a weight of this shape in spira's order: Cout, Cin, and the kernel's axes from z.
static std::array<int64_t, 5> weight_strides(const Tensor &weight) {
    std::array<int64_t, 5> strides = {};
    const int64_t n = weight.dim();
    int64_t stride = 1;
    for (int64_t i = 0; i < n; ++i) {
        const int64_t axis = i == 0 ? 0 : i == 1 ? n - 1 : i - 1;
        strides[axis] = stride;
        stride *= weight.size(axis);
    }
    return strides;
}

// Whether a weight's memory is in spira's order already, as spira.pytorch's layers make it.
static bool weight_in_order(const Tensor &weight) {
    const std::array<int64_t, 5> strides = weight_strides(weight);
    bool same = true;
    for (int64_t axis = 0; axis < weight.dim(); ++axis) {
        same = same && (weight.size(axis) == 1 || weight.stride(axis) == strides[axis]);
    }
    return same;
}

// The same, and fp32: nothing is to be done.
static bool weight_is_ordered(const Tensor &weight) {
    return weight.scalar_type() == at::kFloat && weight_in_order(weight);
}

// Weights in spira's order, fp32 and contiguous.
static Tensor weight_in(const Tensor &weight) {
    return weight_ordered(weight).to(at::kFloat).contiguous();
}

// Memory of a weight gradient in spira's order: of its shape, where the weight is in that order.
static Tensor weight_grad_new(const layer &l, const Tensor &weight, bool ordered) {
    if (!ordered) {
        return empty_like(weight, at::kFloat, {l.kernel.volume, l.weight_cin(), l.shape.cout});
    }
    const fork_results outlives;
    const std::array<int64_t, 5> strides = weight_strides(weight);
    return empty_strided_like(weight, at::kFloat, weight.sizes(),
                              IntArrayRef(strides.data(), (size_t)weight.dim()));
}

// A gradient in spira's order, in that of `weight`.
static Tensor weight_out(const Tensor &grad, const Tensor &weight) {
    return weight_restored(grad.view(weight_ordered(weight).sizes()))
        .to(weight.scalar_type(), false, true, at::MemoryFormat::Contiguous);
}

// The map of an operator, on the device of the features.
static void require_map(const optional<Tensor> &map, const char *name, const Tensor &features,
                        bool identity) {
    SPIRA_CHECK(map || identity, name, ": missing");
    if (map) {
        require_device(*map, name, features, "features");
    }
}

// The table of a kernel map on the CPU; null for the identity.
static const int32_t *table_of(const optional<Tensor> &map, const char *name, int64_t rows,
                               int volume, bool identity) {
    if (identity) {
        return nullptr;
    }
    require_type(*map, name, at::kInt);
    SPIRA_CHECK(map->dim() == 2 && map->size(0) == rows && map->size(1) == volume, name, ": ",
                map->sizes(), ", expected [", rows, ", ", volume, "]");
    return map->data_ptr<int32_t>();
}

static void require_rows(const Tensor &t, const char *name, int64_t rows, int64_t channels) {
    SPIRA_CHECK(t.dim() == 2 && t.size(0) == rows && t.size(1) == channels, name, ": ", t.sizes(),
                ", expected [", rows, ", ", channels, "]");
}

// ---- weights that a format cannot hold ----------------------------------------------------------

// What packing found on a GPU. It lies in memory of the host that the GPU writes to: so it is read
// without waiting for the GPU. Not freed, since CUDA ends before static objects do.
#ifdef SPIRA_TORCH_CUDA
static spira::device_status *weights_trouble(int64_t device) {
    static std::mutex one;
    static auto *all = new std::map<int64_t, Tensor>;
    const std::lock_guard<std::mutex> lock(one);
    Tensor &t = (*all)[device];
    if (!t.defined()) {
        t = Tensor(at::detail::empty_cpu({(int64_t)sizeof(spira::device_status)}, at::kByte, true,
                                         std::nullopt));
        memset(t.data_ptr(), 0, sizeof(spira::device_status));
    }
    return (spira::device_status *)t.data_ptr();
}

void weights_check(int64_t device) {
    spira::device_status *trouble = weights_trouble(device);
    if (*(const volatile uint32_t *)&trouble->flags) {
        const spira::device_status found = *trouble;
        *trouble = {};
        require(spira::device_status_read(&found));
    }
}
#else
void weights_check(int64_t) {}
#endif

// ---- forward ------------------------------------------------------------------------------------

static Tensor conv_cpu(const layer &l, const Tensor &in, const Tensor &weight, const Tensor &bias,
                       const optional<Tensor> &map, const Tensor &count, int64_t rows) {
    const Tensor x = floats(in), w = l.packed.defined() ? l.packed : weight_in(weight);
    spira::device_status trouble = {};
    require(spira::conv_weights_check(&l.shape, w.data_ptr<float>(), &trouble));
    require(spira::device_status_read(&trouble));
    Tensor out = at::zeros({rows, l.shape.cout}, x.options());
    spira::conv_epilogue epilogue = spira::conv_epilogue();
    epilogue.bias = bias.defined() ? bias.data_ptr<float>() : nullptr;
    const Tensor added = l.residual.defined() ? floats(l.residual) : Tensor();
    epilogue.residual = added.defined() ? added.data_ptr() : nullptr;
    epilogue.act = l.act;
    const spira::conv_host_args args = {l.shape,
                                        x.data_ptr<float>(),
                                        nullptr,
                                        w.data_ptr<float>(),
                                        table_of(map, "map", rows, l.kernel.volume, l.identity),
                                        count_host(count, rows)};
    require(spira::conv_host(&args, &epilogue, out.data_ptr<float>()));
    return out.to(in.scalar_type());
}

#ifdef SPIRA_TORCH_CUDA

static weight_job weight_job_of(const layer &l, const Tensor &weight, weight_way way) {
    weight_job job = {};
    job.size = l.kernel.shape.size;
    job.cin = l.weight_cin();
    job.cout = l.shape.cout;
    job.type = numeric_of(weight, 0, "weight");
    job.way = way;
    return job;
}

// A weight as a convolution takes it. One that is in order serves the layer and its gradient as it
// is.
static Tensor weight_of_way(const layer &l, const Tensor &weight, weight_way way,
                            const cuda_scope &scope) {
    if (weight_in_order(weight)) {
        return as_type(weight, at::kFloat);
    }
    const Tensor given = weight.contiguous();
    Tensor ordered = empty_like(weight, at::kFloat, {weight.numel()});
    const weight_job order = weight_job_of(l, weight, way);
    require(gpu::weights_order(&order, given.data_ptr(), ordered.data_ptr<float>(), scope.stream));
    return ordered;
}

// Runs a convolution of a shape over the map of a kernel, onto `rows` outputs.
static Tensor conv_cuda(const layer &l, const spira::conv_shape &shape,
                        const spira::kernel_shape &kernel, const Tensor &in, const Tensor &weight,
                        weight_way way, const Tensor &bias, const optional<Tensor> &map,
                        const Tensor &count, int64_t rows) {
    const cuda_scope scope(in);
    const Tensor ordered = l.packed.defined() ? Tensor() : weight_of_way(l, weight, way, scope);
    Tensor out = empty_like(in, in.scalar_type(), {rows, shape.cout});
    conv_job job = {};
    job.shape = shape;
    job.kernel = kernel;
    job.identity = l.identity;
    job.map = l.identity ? nullptr : map->data_ptr();
    job.map_bytes = l.identity ? 0 : map->nbytes();
    job.count = count.data_ptr<int32_t>();
    job.capacity = (int32_t)rows;
    job.in = in.data_ptr();
    job.weight = ordered.defined() ? ordered.data_ptr<float>() : nullptr;
    job.packed = ordered.defined() ? nullptr : l.packed.data_ptr();
    job.weight_of_layer = way != weight_forward && weight_in_order(weight);
    job.weight_mirrored = way == weight_mirrored;
    job.bias = bias.defined() ? bias.data_ptr<float>() : nullptr;
    job.norm = l.norm.defined() ? l.norm.data_ptr<float>() : nullptr;
    job.residual = l.residual.defined() ? l.residual.data_ptr() : nullptr;
    job.act = l.act;
    job.out = out.data_ptr();
    weights_check(in.get_device());
    job.trouble = weights_trouble(in.get_device());
    size_t bytes;
    require(gpu::conv_bytes(scope.info, &shape, &bytes));
    SPIRA_CHECK(!job.packed || l.packed.nbytes() == bytes, "packed: not of this layer");
    const scratch s = scratch_of(in, job.packed ? 0 : bytes);
    require(gpu::conv(scope.info, &job, s.base, s.size, scope.stream));
    return out;
}

#endif

// ---- groups -------------------------------------------------------------------------------------

// A grouped convolution over a table; with an order of the layer's weights, its input gradient.
// Weights stay fp32: there is none that a format cannot hold.
static Tensor group_run(const layer &l, spira::conv_weights_order order, const Tensor &given,
                        const Tensor &weight, const Tensor &bias, const optional<Tensor> &map,
                        const char *name, const Tensor &count, int64_t rows) {
    const bool backward = order != spira::conv_weights_own;
    const Tensor in = given.is_cpu() ? floats(given) : given.contiguous();
    spira::conv_group_args a = {};
    a.shape = {l.kernel.volume, l.groups, backward ? l.shape.cout : l.shape.cin,
               backward ? l.shape.cin : l.shape.cout, l.shape.type};
    a.in = in.data_ptr();
    a.order = order;
    a.map = table_of(map, name, rows, l.kernel.volume, false);
    a.capacity = (int32_t)rows;
    a.epilogue.bias = bias.defined() ? bias.data_ptr<float>() : nullptr;
    const Tensor added = l.residual.defined() && in.is_cpu() ? floats(l.residual) : l.residual;
    a.epilogue.residual = added.defined() ? added.data_ptr() : nullptr;
    a.epilogue.act = l.act;
    Tensor out = empty_like(in, in.scalar_type(), {rows, a.shape.cout});
    a.out = out.data_ptr();
    if (in.is_cpu()) {
        const Tensor w = weight_in(weight);
        const int32_t outputs = count_host(count, rows);
        out.zero_();
        a.weight = w.data_ptr<float>();
        a.count = &outputs;
        require(spira::conv_group_host(&a));
        return as_type(out, given.scalar_type());
    }
#ifdef SPIRA_TORCH_CUDA
    const cuda_scope scope(in);
    const Tensor w = weight_of_way(l, weight, weight_forward, scope);
    a.weight = w.data_ptr<float>();
    a.count = count.data_ptr<int32_t>();
    require(gpu::group(&a, scope.stream));
    return out;
#else
    without_cuda();
#endif
}

// The weight gradient, into memory in spira's order.
static void group_weight_grad(const layer &l, const Tensor &grad, const Tensor &features,
                              const optional<Tensor> &map, const Tensor &count, float *made) {
    const Tensor x = features.is_cpu() ? floats(features) : features.contiguous();
    const Tensor g = features.is_cpu() ? floats(grad) : grad;
    spira::conv_group_grad_args a = {};
    a.shape = {l.kernel.volume, l.groups, l.shape.cin, l.shape.cout, l.shape.type};
    a.in = x.data_ptr();
    a.out_grad = g.data_ptr();
    a.map = table_of(map, "pairs", g.size(0), l.kernel.volume, false);
    a.capacity = (int32_t)g.size(0);
    a.weight_grad = made;
    if (x.is_cpu()) {
        const int32_t outputs = count_host(count, g.size(0));
        a.count = &outputs;
        require(spira::conv_group_grad_weight_host(&a));
    }
    on_gpu(
        x, [&](auto *bytes) { return gpu::group_grad_bytes(&a.shape, a.capacity, bytes); },
        [&](const auto &scope, void *base, size_t size) {
            a.count = count.data_ptr<int32_t>();
            return gpu::group_grad(&a, base, size, scope.stream);
        });
}

// ---- the layer ----------------------------------------------------------------------------------

static Tensor conv_run(const layer &l, const Tensor &features, const Tensor &weight,
                       const optional<Tensor> &bias, const optional<Tensor> &map,
                       const Tensor &count, int64_t rows, int64_t flags) {
    require_device(count, "count", features, "features");
    require_map(map, "map", features, l.identity);
    Tensor added;
    if (bias) {
        require_device(*bias, "bias", features, "features");
        SPIRA_CHECK(bias->dim() == 1 && bias->size(0) == l.shape.cout, "bias: ", bias->sizes(),
                    ", expected [", l.shape.cout, "]");
        numeric_of(*bias, 0, "bias");
        added = floats(*bias);
    }
    rows_of(features.size(0), "features");
    SPIRA_CHECK(!l.identity || features.size(0) == rows, "features: ", features.sizes(),
                ", but there are ", rows, " coordinates");
    if (!rows_of(rows, "rows") || !features.size(0)) {
        Tensor none = at::zeros({rows, l.shape.cout}, features.options());
        return bias ? none.add_(*bias) : none;
    }
    const Tensor in = features.contiguous();
    if (features.is_cpu() && l.groups == 1) {
        return conv_cpu(l, in, weight, added, map, count, rows);
    }
    Tensor out;
    if (l.groups > 1) {
        out = group_run(l, spira::conv_weights_own, in, weight, added, map, "map", count, rows);
        if (in.is_cpu()) {
            return out;
        }
    }
#ifdef SPIRA_TORCH_CUDA
    if (l.groups == 1) {
        out = conv_cuda(l, l.shape, l.kernel.shape, in, weight, weight_forward, added, map, count,
                        rows);
    }
    if (flags & flag_padded) {
        clear_tail(out, count);
    }
    return out;
#else
    without_cuda();
#endif
}

Tensor conv(const Tensor &features, const Tensor &weight, const optional<Tensor> &bias,
            const optional<Tensor> &map, const optional<Tensor> &, const optional<Tensor> &,
            const Tensor &source_count, const Tensor &count, int64_t rows, IntArrayRef kernel,
            int64_t flags) {
    require_device(source_count, "count", features, "features");
    return conv_run(layer_of(features, weight, kernel, flags), features, weight, bias, map, count,
                    rows, flags);
}

Tensor conv_pack(const Tensor &weight, IntArrayRef kernel, at::ScalarType type) {
    const layer l = layer_of(empty_like(weight, type, {0, weight.size(-1)}), weight, kernel, 0);
    if (weight.is_cpu()) {
        return weight_in(weight);
    }
#ifdef SPIRA_TORCH_CUDA
    const cuda_scope scope(weight);
    const Tensor ordered = weight_of_way(l, weight, weight_forward, scope);
    conv_job job = {};
    job.shape = l.shape;
    job.weight = ordered.data_ptr<float>();
    job.trouble = weights_trouble(weight.get_device());
    size_t bytes;
    require(gpu::conv_bytes(scope.info, &l.shape, &bytes));
    Tensor packed = empty_like(weight, at::kByte, {(int64_t)bytes});
    require(gpu::conv_pack(scope.info, &job, packed.data_ptr(), bytes, scope.stream));
    return packed;
#else
    without_cuda();
#endif
}

// A residual, of the type of the features, for conv_run.
static void layer_residual(layer *l, const optional<Tensor> &residual, const Tensor &features,
                           int64_t rows) {
    if (residual) {
        require_rows(*residual, "residual", rows, l->shape.cout);
        require_device(*residual, "residual", features, "features");
        require_type(*residual, "residual", features.scalar_type());
        l->residual = residual->contiguous();
    }
}

Tensor conv_eval(const Tensor &features, const Tensor &weight, const optional<Tensor> &packed,
                 const optional<Tensor> &bias, const optional<Tensor> &residual,
                 const optional<Tensor> &map, const Tensor &count, int64_t rows, IntArrayRef kernel,
                 int64_t flags, int64_t act) {
    layer l = layer_of(features, weight, kernel, flags);
    if (packed) {
        SPIRA_CHECK(l.groups == 1, "packed: not of grouped layers");
        require_device(*packed, "packed", features, "features");
        l.packed = *packed;
    }
    SPIRA_CHECK(rows >= 1 && features.size(0) >= 1, "features: ", features.sizes(), ", no rows");
    l.act = activation_of(act);
    layer_residual(&l, residual, features, rows);
    return conv_run(l, features, weight, bias, map, count, rows, flags);
}

Tensor conv_norm_eval(const Tensor &features, const Tensor &weight, const optional<Tensor> &bias,
                      const optional<Tensor> &map, const Tensor &count, int64_t rows,
                      IntArrayRef kernel, int64_t flags, const optional<Tensor> &residual,
                      const optional<Tensor> &norm_weight, const optional<Tensor> &norm_bias,
                      const Tensor &mean, const Tensor &var, double eps, bool relu) {
    layer l = layer_of(features, weight, kernel, flags);
    if (features.is_cpu() || l.groups > 1 || !rows || !features.size(0)) {
        const Tensor sums = conv_run(l, features, weight, bias, map, count, rows, flags);
        const optional<Tensor> real = flags & flag_padded ? optional<Tensor>(count) : std::nullopt;
        return norm_eval(sums, residual, real, norm_weight, norm_bias, mean, var, eps, relu);
    }
    l.norm = norm_fold(features, l.shape.cout, norm_weight, norm_bias, mean, var, eps);
    l.act = relu ? spira::activation_relu : spira::activation_none;
    layer_residual(&l, residual, features, rows);
    return conv_run(l, features, weight, bias, map, count, rows, flags);
}

Tensor conv_norm(const Tensor &features, const Tensor &weight, const optional<Tensor> &bias,
                 const optional<Tensor> &map, const optional<Tensor> &back,
                 const optional<Tensor> &pairs, const Tensor &source_count, const Tensor &count,
                 int64_t rows, IntArrayRef kernel, int64_t flags, const optional<Tensor> &residual,
                 const optional<Tensor> &norm_weight, const optional<Tensor> &norm_bias,
                 const optional<Tensor> &mean, const optional<Tensor> &var,
                 const optional<Tensor> &batches, double momentum, double eps, bool relu,
                 bool again) {
    const Tensor sums = conv(features, weight, bias, map, back, pairs, source_count, count, rows,
                             kernel, flags & ~flag_padded); // the norm reads no padding
    const optional<Tensor> real = flags & flag_padded ? optional<Tensor>(count) : std::nullopt;
    return std::get<0>(norm(sums, residual, real, norm_weight, norm_bias, mean, var, batches,
                            momentum, eps, relu, again));
}

// ---- gradients ----------------------------------------------------------------------------------

static Tensor input_grad(const layer &l, const Tensor &grad, const Tensor &features,
                         const Tensor &weight, const optional<Tensor> &back, const Tensor &count,
                         int64_t flags) {
    const int64_t rows = features.size(0);
    require_map(back, "back", features, l.identity);
    const bool mirrored = l.mirrors == spira::grad_order_mirrored;
    Tensor out;
    if (l.groups > 1) {
        const spira::conv_weights_order order =
            mirrored ? spira::conv_weights_of_layer_mirrored : spira::conv_weights_of_layer;
        out = group_run(l, order, grad, weight, Tensor(), back, "back", count, rows);
    } else if (features.is_cpu()) {
        const Tensor g = floats(grad), w = weight_in(weight);
        const spira::grad_source both = spira::grad_source_both;
        out = at::zeros({rows, l.shape.cin}, g.options());
        Tensor transposed = empty_like(g, at::kFloat, {w.numel()});
        float *const to = transposed.data_ptr<float>();
        require(spira::conv_grad_weights_host(&l.shape, both, l.mirrors, w.data_ptr<float>(), to));
        const spira::conv_host_args args = {
            spira::conv_grad_shape(&l.shape, both),
            g.data_ptr<float>(),
            nullptr,
            to,
            table_of(back, "back", rows, l.kernel.volume, l.identity),
            count_host(count, rows)};
        require(spira::conv_sum_host(&args, out.data_ptr<float>()));
    }
    if (features.is_cpu()) {
        return as_type(out, features.scalar_type());
    }
#ifdef SPIRA_TORCH_CUDA
    if (l.groups == 1) {
        const kernel_arg kernel = mirrored ? l.kernel : kernel_reversed(l.kernel);
        const spira::conv_shape shape = spira::conv_grad_shape(&l.shape, spira::grad_source_both);
        out = conv_cuda(l, shape, kernel.shape, grad, weight,
                        mirrored ? weight_mirrored : weight_gradient, Tensor(), back, count, rows);
    }
    if (flags & flag_padded) {
        clear_tail(out, count);
    }
    return out;
#else
    without_cuda();
#endif
}

// The pair lists of a layer, from the input to the output.
static spira::map_lists layer_pairs(const layer &l, const optional<Tensor> &pairs, int64_t flags) {
    if (l.identity) {
        return spira::map_lists();
    }
    spira::map_lists p = pairs_of(*pairs, l.kernel.volume);
    if (flags & flag_exchanged) {
        std::swap(p.input, p.output);
    }
    return p;
}

// The weight gradient, and the bias gradient if `bias` is not null.
static Tensor weight_grad(const layer &l, const Tensor &grad, const Tensor &features,
                          const Tensor &weight, const optional<Tensor> &pairs, const Tensor &count,
                          int64_t flags, float *bias) {
    require_map(pairs, "pairs", features, l.identity);
    const spira::map_lists lists = l.groups > 1 ? spira::map_lists() : layer_pairs(l, pairs, flags);
    const spira::pairs_sides sides = l.mirrors == spira::grad_order_mirrored
                                         ? spira::pairs_sides_centre
                                         : spira::pairs_sides_one;
    const int64_t outputs = grad.size(0);
    const bool ordered = weight_is_ordered(weight);
    Tensor made = weight_grad_new(l, weight, ordered);
    if (l.groups > 1) {
        group_weight_grad(l, grad, features, pairs, count, made.data_ptr<float>());
    } else if (features.is_cpu()) {
        const Tensor x = floats(features), g = floats(grad);
        const spira::conv_grad_weight_host_args args = {
            l.shape, x.data_ptr<float>(),       nullptr, g.data_ptr<float>(), lists,
            sides,   count_host(count, outputs)};
        require(spira::conv_grad_weight_host(&args, made.data_ptr<float>(), bias));
    }
    if (features.is_cpu()) {
        return ordered ? made : weight_out(made, weight);
    }
#ifdef SPIRA_TORCH_CUDA
    const cuda_scope scope(features);
    if (l.groups == 1) {
        const Tensor in = features.contiguous();
        spira::conv_grad_weight_args args = {};
        args.shape = l.shape;
        args.in = in.data_ptr();
        args.out_grad = grad.data_ptr();
        args.pairs = lists;
        args.sides = sides;
        args.count = count.data_ptr<int32_t>();
        args.capacity = (int32_t)outputs;
        args.weight_grad = made.data_ptr<float>();
        args.bias_grad = bias;
        size_t bytes;
        require(gpu::weight_grad_bytes(scope.info, &l.shape, &bytes));
        const scratch s = scratch_of(features, bytes);
        require(gpu::weight_grad(scope.info, &args, s.base, s.size, scope.stream));
    }
    if (ordered) {
        return made;
    }
    Tensor result = empty_as(weight);
    const weight_job order = weight_job_of(l, weight, weight_forward);
    require(gpu::weights_restore(&order, made.data_ptr<float>(), result.data_ptr(), scope.stream));
    return result;
#else
    without_cuda();
#endif
}

// The bias gradient by itself.
static void bias_grad(const layer &l, const Tensor &grad, const Tensor &count, float *made) {
    const int64_t outputs = grad.size(0);
    if (grad.is_cpu()) {
        const Tensor g = floats(grad);
        require(spira::conv_grad_bias_host(g.data_ptr<float>(), count_host(count, outputs),
                                           l.shape.cout, made));
    }
    on_gpu(
        grad, [&](auto *bytes) { return gpu::bias_grad_bytes(l.shape.cout, bytes); },
        [&](const auto &scope, void *base, size_t size) {
            const spira::conv_grad_bias_args args = {l.shape.type,     l.shape.cout,
                                                     grad.data_ptr(),  count.data_ptr<int32_t>(),
                                                     (int32_t)outputs, made};
            return gpu::bias_grad(scope.info, &args, base, size, scope.stream);
        });
}

std::tuple<Tensor, Tensor, Tensor> conv_backward(const Tensor &out_grad, const Tensor &features,
                                                 const Tensor &weight, const optional<Tensor> &back,
                                                 const optional<Tensor> &pairs,
                                                 const Tensor &source_count, const Tensor &count,
                                                 IntArrayRef kernel, int64_t flags,
                                                 std::array<bool, 3> wanted) {
    const layer l = layer_of(features, weight, kernel, flags);
    SPIRA_CHECK(out_grad.dim() == 2, "grad: [rows, channels] expected");
    require_rows(out_grad, "grad", out_grad.size(0), l.shape.cout);
    require_device(out_grad, "grad", features, "features");
    const Tensor grad = as_type(out_grad, features.scalar_type()).contiguous();
    Tensor none;
    if (!wanted[0] || !wanted[1] || !wanted[2]) {
        none = empty_like(features, at::kFloat, {0});
    }
    if (!features.size(0) || !grad.size(0)) {
        return {wanted[0] ? at::zeros_like(features) : none,
                wanted[1] ? at::zeros_like(weight) : none,
                wanted[2] ? grad.sum(0, false, at::kFloat) : none};
    }
    Tensor of_bias = wanted[2] ? empty_like(grad, at::kFloat, {l.shape.cout}) : none;
    float *const bias = wanted[2] ? of_bias.data_ptr<float>() : nullptr;
    if (bias && (!wanted[1] || l.groups > 1)) { // otherwise the weight gradient has it
        bias_grad(l, grad, count, bias);
    }
    return {wanted[0] ? input_grad(l, grad, features, weight, back, source_count, flags) : none,
            wanted[1] ? weight_grad(l, grad, features, weight, pairs, count, flags, bias) : none,
            of_bias};
}

} // namespace spira_torch
