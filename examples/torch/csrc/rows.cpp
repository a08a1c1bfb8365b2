// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/torch/csrc/rows.cpp: operators on rows of features: permutation, pooling, dense maps.
#include "ops.h"
#include "scope.h"

namespace spira_torch {

void clear_tail(Tensor &t, const Tensor &count) {
    if (!t.numel()) {
        return;
    }
    if (t.is_cpu()) {
        t.narrow(0, count_host(count, t.size(0)), t.size(0) - count_host(count, t.size(0))).zero_();
    }
    on_gpu(t, [&](const auto &scope) {
        return gpu::rows_clear_tail(scope.info, t.data_ptr(), count.data_ptr<int32_t>(), t.size(0),
                                    (int64_t)(t.nbytes() / t.size(0)), scope.stream);
    });
}

// ---- permutation --------------------------------------------------------------------------------

static void gather_host(const char *in, int64_t in_rows, const int32_t *index, int64_t rows,
                        int64_t bytes, char *out) {
    for (int64_t i = 0; i < rows; ++i) {
        const int64_t from = index[i];
        if (from >= 0 && from < in_rows) {
            memcpy(out + i * bytes, in + from * bytes, (size_t)bytes);
        } else {
            memset(out + i * bytes, 0, (size_t)bytes);
        }
    }
}

Tensor permute_rows(const Tensor &features, const Tensor &index, const Tensor &inverse) {
    SPIRA_CHECK(features.dim() == 2, "features: [rows, channels] expected, got ", features.sizes());
    require_device(index, "index", features, "features");
    require_device(inverse, "inverse", features, "features");
    require_type(index, "index", at::kInt);
    require_type(inverse, "inverse", at::kInt);
    SPIRA_CHECK(index.dim() == 1, "index: ", index.sizes(), ", expected [rows]");
    SPIRA_CHECK(inverse.dim() == 1 && inverse.size(0) == features.size(0),
                "inverse: ", inverse.sizes(), ", but there are ", features.size(0),
                " rows of features");
    const Tensor in = features.contiguous(), from = index.contiguous();
    const int64_t rows = from.size(0), bytes = in.size(1) * in.element_size();
    Tensor out = empty_like(in, in.scalar_type(), {rows, in.size(1)});
    if (!out.numel()) {
        return out;
    }
    if (in.is_cpu()) {
        gather_host((const char *)in.data_ptr(), in.size(0), from.data_ptr<int32_t>(), rows, bytes,
                    (char *)out.data_ptr());
    }
    on_gpu(in, [&](const auto &scope) {
        return gpu::rows_gather(in.data_ptr(), in.size(0), from.data_ptr<int32_t>(), rows, bytes,
                                out.data_ptr(), scope.stream);
    });
    return out;
}

// ---- channels side by side ----------------------------------------------------------------------

Tensor join(const Tensor &first, const Tensor &second) {
    SPIRA_CHECK(first.dim() == 2 && second.dim() == 2 && first.size(0) == second.size(0),
                "second: ", second.sizes(), " cannot stand beside ", first.sizes());
    SPIRA_CHECK(first.scalar_type() == second.scalar_type(), "second: ", second.scalar_type(),
                ", but first is ", first.scalar_type());
    return at::cat({first, second}, 1);
}

// ---- pooling ------------------------------------------------------------------------------------

static void require_table(const Tensor &map, const char *name, const Tensor &features) {
    require_device(map, name, features, "features");
    require_type(map, name, at::kInt);
    SPIRA_CHECK(map.dim() == 2 && map.is_contiguous(), name,
                ": contiguous [rows, volume] expected");
}

Tensor pool(const Tensor &features, const Tensor &map, const optional<Tensor> &,
            const Tensor &source_count, const Tensor &count, int64_t kind, int64_t flags) {
    SPIRA_CHECK(features.dim() == 2 && features.size(1) >= 1,
                "features: [rows, channels] expected, got ", features.sizes());
    SPIRA_CHECK(kind == spira::pool_max || kind == spira::pool_average, "kind: ", kind);
    require_table(map, "map", features);
    require_device(count, "count", features, "features");
    require_device(source_count, "count", features, "features");
    const spira::numeric type = numeric_of(features, 0, "features");
    const Tensor in = features.contiguous();
    const int32_t rows = rows_of(map.size(0), "map"), channels = (int32_t)in.size(1);
    const int volume = (int)map.size(1);
    Tensor out = empty_like(in, in.scalar_type(), {rows, channels});
    if (!rows || !in.size(0)) {
        return out.zero_();
    }
    spira::pool_args a = {};
    a.kind = (spira::pool_kind)kind;
    a.type = type;
    a.channels = channels;
    a.volume = volume;
    a.map = map.data_ptr<int32_t>();
    a.capacity = rows;
    if (in.is_cpu()) {
        const Tensor x = in.to(at::kFloat);
        Tensor y = at::zeros({rows, channels}, x.options());
        const int32_t outputs = count_host(count, rows);
        a.in = x.data_ptr<float>();
        a.count = &outputs;
        a.out = y.data_ptr<float>();
        require(spira::pool_host(&a));
        return y.to(in.scalar_type());
    }
    a.in = in.data_ptr();
    a.count = count.data_ptr<int32_t>();
    a.out = out.data_ptr();
    on_gpu(in, [&](const auto &scope) { return gpu::pool(&a, scope.stream); });
    if (flags & flag_padded) {
        clear_tail(out, count);
    }
    return out;
}

Tensor pool_backward(const Tensor &out_grad, const Tensor &features, const Tensor &map,
                     const Tensor &back, const Tensor &source_count, int64_t kind, int64_t flags) {
    require_table(map, "map", features);
    require_table(back, "back", features);
    require_device(out_grad, "grad", features, "features");
    const spira::numeric type = numeric_of(features, 0, "features");
    const Tensor in = features.contiguous();
    const Tensor grad = out_grad.to(in.scalar_type()).contiguous();
    const int32_t rows = rows_of(in.size(0), "features");
    SPIRA_CHECK(back.size(0) == rows && back.size(1) == map.size(1), "back: ", back.sizes(),
                ", expected [", rows, ", ", map.size(1), "]");
    SPIRA_CHECK(grad.dim() == 2 && grad.size(0) == map.size(0) && grad.size(1) == in.size(1),
                "grad: ", grad.sizes());
    Tensor made = at::zeros_like(in);
    if (!made.numel() || !grad.numel()) {
        return made;
    }
    spira::pool_grad_args a = {};
    a.kind = (spira::pool_kind)kind;
    a.type = type;
    a.channels = (int)in.size(1);
    a.volume = (int)map.size(1);
    a.map = map.data_ptr<int32_t>();
    a.back = back.data_ptr<int32_t>();
    a.count = source_count.data_ptr<int32_t>();
    a.capacity = rows;
    if (in.is_cpu()) {
        const Tensor x = in.to(at::kFloat), g = grad.to(at::kFloat);
        Tensor to = at::zeros_like(x);
        a.in = x.data_ptr();
        a.out_grad = g.data_ptr();
        a.in_grad = to.data_ptr();
        require(spira::pool_grad_host(&a));
        return to.to(in.scalar_type());
    }
    a.in = in.data_ptr();
    a.out_grad = grad.data_ptr();
    a.in_grad = made.data_ptr();
    on_gpu(in, [&](const auto &scope) { return gpu::pool_grad(&a, scope.stream); });
    return made;
}

// ---- pooling of all voxels of a batch index -----------------------------------------------------

// Runs global pooling, or its gradient where `in_grad` is given.
static void pool_global_run(const pool_global_job &job, const Tensor &like) {
    on_gpu(
        like, [&](auto *bytes) { return gpu::pool_global_bytes(job.layout, job.channels, bytes); },
        [&](const auto &scope, void *base, size_t size) {
            return gpu::pool_global(&job, base, size, scope.stream);
        });
    on_cpu(like, *job.layout, [&](auto word) {
        const auto forward = job.forward<decltype(word)>();
        const auto gradient = job.gradient<decltype(word)>();
        return job.in_grad ? spira::pool_global_grad_host(&gradient)
                           : spira::pool_global_host(&forward);
    });
}

// Features as pooling reads them: the host loops have floats.
static Tensor pool_rows(const Tensor &t) {
    return t.is_cpu() ? floats(t) : t.contiguous();
}

static pool_global_job pool_global_job_of(const Tensor &features, const Tensor &words,
                                          const Tensor &count, const spira::word_layout *layout,
                                          int64_t kind) {
    SPIRA_CHECK(kind == spira::pool_max || kind == spira::pool_average, "kind: ", kind);
    pool_global_job job = {};
    job.kind = (spira::pool_kind)kind;
    job.type = numeric_of(features, 0, "features");
    job.layout = layout;
    job.set = set_of(words, count, *layout, "words");
    require_device(words, "words", features, "features");
    SPIRA_CHECK(features.dim() == 2 && features.size(0) == job.set.capacity,
                "features: ", features.sizes(), ", but there are ", job.set.capacity,
                " coordinates");
    job.channels = (int)features.size(1);
    return job;
}

Tensor pool_global(const Tensor &features, const Tensor &words, const Tensor &count,
                   IntArrayRef layout_ints, int64_t kind, int64_t) {
    const spira::word_layout layout = layout_of(layout_ints);
    pool_global_job job = pool_global_job_of(features, words, count, &layout, kind);
    if (!features.numel()) {
        return at::zeros({layout.batches, features.size(1)}, features.options());
    }
    const Tensor in = pool_rows(features);
    Tensor out = empty_like(in, in.scalar_type(), {layout.batches, features.size(1)});
    job.in = in.data_ptr();
    job.out = out.data_ptr();
    pool_global_run(job, in);
    return as_type(out, features.scalar_type());
}

Tensor pool_global_backward(const Tensor &out_grad, const Tensor &features, const Tensor &words,
                            const Tensor &count, IntArrayRef layout_ints, int64_t kind,
                            int64_t flags) {
    const spira::word_layout layout = layout_of(layout_ints);
    pool_global_job job = pool_global_job_of(features, words, count, &layout, kind);
    SPIRA_CHECK(out_grad.dim() == 2 && out_grad.size(0) == layout.batches &&
                    out_grad.size(1) == features.size(1),
                "grad: ", out_grad.sizes());
    require_device(out_grad, "grad", features, "features");
    if (!features.numel()) {
        return at::zeros_like(features);
    }
    const Tensor in = pool_rows(features),
                 grad = pool_rows(as_type(out_grad, features.scalar_type()));
    Tensor made = empty_as(in);
    job.in = in.data_ptr();
    job.out_grad = grad.data_ptr();
    job.in_grad = made.data_ptr();
    pool_global_run(job, in);
    if (flags & flag_padded) {
        clear_tail(made, count);
    }
    return as_type(made, features.scalar_type());
}

// ---- dense maps ---------------------------------------------------------------------------------

struct dense_place {
    spira::word_layout layout;
    spira::expand_grid grid;
    spira::triple stride;
    set_ref set;
};

static dense_place place_of(const Tensor &words, const Tensor &count, IntArrayRef layout,
                            IntArrayRef grid) {
    SPIRA_CHECK(grid.size() == grid_ints, "grid: 9 ints expected");
    dense_place p = {};
    p.layout = layout_of(layout);
    p.grid.origin = triple_at(grid, 0);
    p.stride = triple_at(grid, 3);
    p.grid.extent = triple_at(grid, 6);
    p.set = set_of(words, count, p.layout, "words");
    return p;
}

// Features to a map, or with `to_features` the gradient of the map to that of the features. CPU.
static void dense_host(const dense_place &p, int64_t batch, int64_t channels, spira::numeric type,
                       void *features, void *map, bool to_features) {
    require(spira::word_dispatch(&p.layout, [&](auto word) {
        typedef decltype(word) W;
        spira::device_status trouble = {};
        spira::dense_args<W> a = {};
        a.layout = &p.layout;
        a.set = set_as<W>(p.set);
        a.grid = p.grid;
        a.stride = p.stride;
        a.batch = (int)batch;
        a.channels = (int)channels;
        a.type = a.out_type = type;
        a.features = to_features ? nullptr : features;
        a.order = spira::dense_channels_first;
        a.out = map;
        a.trouble = &trouble;
        return to_features ? spira::dense_grad_host<W>(&a, features) : spira::dense_host<W>(&a);
    }));
}

// The same on a GPU.
static void dense_gpu(const dense_place &p, int64_t batch, const Tensor &features, Tensor &map,
                      spira::numeric type, bool to_features) {
    on_gpu(map, [&](const auto &scope) {
        dense_job job = {};
        job.layout = &p.layout;
        job.set = p.set;
        job.grid = p.grid;
        job.stride = p.stride;
        job.batch = (int)batch;
        job.channels = (int)features.size(1);
        job.type = type;
        job.map = map.data_ptr();
        const Tensor trouble = status_new(map);
        job.trouble = status_at(trouble);
        job.features = to_features ? nullptr : features.data_ptr();
        job.features_grad = to_features ? features.data_ptr() : nullptr;
        return gpu::dense(scope.info, &job, scope.stream);
    });
}

Tensor dense(const Tensor &features, const Tensor &words, const Tensor &count, IntArrayRef layout,
             IntArrayRef grid, int64_t batch, int64_t) {
    require_device(words, "words", features, "features");
    const spira::numeric type = numeric_of(features, 0, "features");
    const dense_place p = place_of(words, count, layout, grid);
    SPIRA_CHECK(features.dim() == 2 && features.size(0) == p.set.capacity,
                "features: ", features.sizes(), ", but there are ", p.set.capacity, " coordinates");
    const spira::triple e = p.grid.extent;
    const Tensor in = features.contiguous();
    Tensor map = at::empty({batch, in.size(1), e.z, e.y, e.x}, in.options());
    if (!in.numel()) {
        return map.zero_();
    }
    if (in.is_cpu()) {
        dense_host(p, batch, in.size(1), type, in.data_ptr(), map.data_ptr(), false);
    }
    dense_gpu(p, batch, in, map, type, false);
    return map;
}

Tensor dense_backward(const Tensor &out_grad, const Tensor &words, const Tensor &count,
                      IntArrayRef layout, IntArrayRef grid, int64_t batch, int64_t flags) {
    const spira::numeric type = numeric_of(out_grad, 0, "grad");
    const dense_place p = place_of(words, count, layout, grid);
    const spira::triple e = p.grid.extent;
    SPIRA_CHECK(out_grad.dim() == 5 && out_grad.size(0) == batch && out_grad.size(2) == e.z &&
                    out_grad.size(3) == e.y && out_grad.size(4) == e.x,
                "grad: ", out_grad.sizes());
    Tensor map = out_grad.contiguous();
    Tensor made = at::empty({p.set.capacity, map.size(1)}, map.options());
    if (!made.numel()) {
        return made;
    }
    if (map.is_cpu()) {
        made.zero_();
        dense_host(p, batch, map.size(1), type, made.data_ptr(), map.data_ptr(), true);
    }
    dense_gpu(p, batch, made, map, type, true);
    if (map.is_cuda() && (flags & flag_padded)) {
        clear_tail(made, count);
    }
    return made;
}

} // namespace spira_torch
