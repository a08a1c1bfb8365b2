// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/torch/csrc/points.cpp: between points and voxels: the voxels around points, and features
// blended and splatted along them. The gradient of either is the other (autograd.cpp).
#include "ops.h"
#include "scope.h"

namespace spira_torch {

// index and weight [points, neighbours]. points fp32 [points, 3]: x, y, z in voxels of the finest
// grid; batch int32 [points]
std::tuple<Tensor, Tensor> around(const Tensor &words, const Tensor &count, IntArrayRef layout_ints,
                                  IntArrayRef stride, const Tensor &points, const Tensor &batch,
                                  int64_t kind, bool centred) {
    const spira::word_layout layout = layout_of(layout_ints);
    SPIRA_CHECK(stride.size() == 3, "stride: three ints expected");
    SPIRA_CHECK(points.dim() == 2 && points.size(1) == 3, "points: ", points.sizes(),
                ", expected [points, 3]");
    require_type(points, "points", at::kFloat);
    require_type(batch, "batch", at::kInt);
    require_device(points, "points", words, "the set");
    require_device(batch, "batch", words, "the set");
    SPIRA_CHECK(batch.dim() == 1 && batch.size(0) == points.size(0), "batch: ", batch.sizes(),
                ", but there are ", points.size(0), " points");
    around_job job = {};
    job.layout = &layout;
    job.set = set_of(words, count, layout, "words");
    job.stride = triple_at(stride, 0);
    job.kind = (spira::interpolate_kind)kind;
    job.centred = centred;
    job.rows = rows_of(points.size(0), "points");
    const int64_t neighbours = spira::interpolate_neighbours(job.kind);
    Tensor index = at::full({job.rows, neighbours}, -1, options_of(words, at::kInt));
    Tensor weight = at::ones(index.sizes(), options_of(words, at::kFloat));
    if (!job.rows || !job.set.capacity) {
        return {index, weight};
    }
    const Tensor places = points.contiguous(), elements = batch.contiguous();
    Tensor rows = at::full({1}, job.rows, options_of(words, at::kInt));
    Tensor status = status_new(words); // points that are nowhere have no voxels around them
    job.points = places.data_ptr<float>();
    job.batch = elements.data_ptr<int32_t>();
    job.count = rows.data_ptr<int32_t>();
    job.index = index.data_ptr<int32_t>();
    job.weight = neighbours > 1 ? weight.data_ptr<float>() : nullptr;
    job.trouble = status_at(status);
    on_cpu(words, layout, [&](auto word) {
        const auto a = job.args<decltype(word)>();
        return spira::interpolate_find_host(&a);
    });
    on_gpu(words, [&](const auto &scope) { return gpu::around(&job, scope.stream); });
    return {index, weight};
}

static void require_index(const Tensor &index, const Tensor &like) {
    require_device(index, "index", like, "features");
    require_type(index, "index", at::kInt);
    SPIRA_CHECK(index.dim() == 2 && index.is_contiguous() && index.size(1) >= 1 &&
                    index.size(1) <= 8,
                "index: contiguous [rows, 1 to 8] expected");
}

// begin [rows + 1] and order: the entries of an index that name each row.
std::tuple<Tensor, Tensor> lists(const Tensor &index, int64_t rows) {
    require_index(index, index);
    Tensor begin = at::zeros({rows + 1}, index.options());
    Tensor order = empty_like(index, at::kInt, {index.numel()});
    if (!rows || !index.numel()) {
        return {begin, order};
    }
    spira::row_lists_args a = {};
    a.index = index.data_ptr<int32_t>();
    a.neighbours = (int)index.size(1);
    a.capacity = rows_of(index.size(0), "index");
    a.rows = rows_of(rows, "rows");
    a.begin = begin.data_ptr<int32_t>();
    a.order = order.data_ptr<int32_t>();
    Tensor count = at::full({1}, index.size(0), index.options());
    a.count = count.data_ptr<int32_t>();
    if (index.is_cpu()) {
        require(spira::row_lists_host(&a));
    }
    on_gpu(
        index, [&](auto *bytes) { return gpu::lists_bytes(&a, bytes); },
        [&](const auto &scope, void *base, size_t size) {
            return gpu::lists(&a, base, size, scope.stream);
        });
    return {begin, order};
}

static void require_blend(const Tensor &features, const Tensor &index, const Tensor &weight) {
    SPIRA_CHECK(features.dim() == 2, "features: [rows, channels] expected, got ", features.sizes());
    require_index(index, features);
    require_device(weight, "weight", features, "features");
    require_type(weight, "weight", at::kFloat);
    SPIRA_CHECK(weight.sizes() == index.sizes() && weight.is_contiguous(),
                "weight: ", weight.sizes(), ", but index has ", index.sizes());
}

// [index rows, channels]. begin, order: of lists, for the gradient.
Tensor blend(const Tensor &features, const Tensor &index, const Tensor &weight, const Tensor &,
             const Tensor &) {
    require_blend(features, index, weight);
    const Tensor in = features.contiguous();
    const int32_t rows = rows_of(index.size(0), "index");
    Tensor out = empty_like(in, in.scalar_type(), {rows, in.size(1)});
    if (!out.numel() || !in.size(0)) {
        return out.zero_();
    }
    Tensor count = at::full({1}, rows, index.options());
    const spira::row_blend_args a = {in.data_ptr(),
                                     in.size(0),
                                     (int)in.size(1),
                                     numeric_of(in, 0, "features"),
                                     (int)index.size(1),
                                     index.data_ptr<int32_t>(),
                                     weight.data_ptr<float>(),
                                     count.data_ptr<int32_t>(),
                                     rows,
                                     out.data_ptr()};
    if (in.is_cpu()) {
        require(spira::row_blend_host(&a));
    }
    on_gpu(in, [&](const auto &scope) { return gpu::blend(&a, scope.stream); });
    return out;
}

// [lists, channels]: features [index rows, channels] on the way back.
Tensor splat(const Tensor &features, const Tensor &index, const Tensor &weight, const Tensor &begin,
             const Tensor &order) {
    require_blend(features, index, weight);
    SPIRA_CHECK(features.size(0) == index.size(0), "features: ", features.sizes(),
                ", but index has ", index.size(0), " rows");
    for (const Tensor *t : {&begin, &order}) {
        require_device(*t, "begin, order", features, "features");
        require_type(*t, "begin, order", at::kInt);
    }
    SPIRA_CHECK(begin.dim() == 1 && begin.size(0) >= 1 && order.numel() == index.numel(),
                "begin, order: not made by lists for this index");
    const Tensor in = features.contiguous();
    const int32_t rows = rows_of(begin.size(0) - 1, "begin");
    Tensor out = empty_like(in, in.scalar_type(), {rows, in.size(1)});
    if (!out.numel() || !in.size(0)) {
        return out.zero_();
    }
    const spira::row_splat_args a = {in.data_ptr(),
                                     (int)in.size(1),
                                     numeric_of(in, 0, "features"),
                                     (int)index.size(1),
                                     weight.data_ptr<float>(),
                                     begin.data_ptr<int32_t>(),
                                     order.data_ptr<int32_t>(),
                                     rows,
                                     out.data_ptr()};
    if (in.is_cpu()) {
        require(spira::row_splat_host(&a));
    }
    on_gpu(in, [&](const auto &scope) { return gpu::splat(&a, scope.stream); });
    return out;
}

} // namespace spira_torch
