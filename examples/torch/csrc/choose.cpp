// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/torch/csrc/choose.cpp: sets that follow from features, from other sets, and orders of a
// set. None has a gradient: features move by permute_rows (rows.cpp), by the rows that these
// return.
#include "ops.h"
#include "scope.h"
#include "spira/search.h"

namespace spira_torch {

using spira::device_status;

// ---- voxels that features choose ----------------------------------------------------------------

// source [capacity] and its inverse over `rows`: -1 where there is none. On the device, in no more
// than PyTorch's own operators.
static Tensor inverse_of(const Tensor &source, int64_t rows) {
    const Tensor to = at::where(source < 0, rows, source).to(at::kLong);
    return at::full({rows + 1}, -1, source.options())
        .scatter_(0, to, at::arange(source.size(0), source.options()))
        .narrow(0, 0, rows);
}

// stride: of the set, which is divided; empty: it is pruned.
std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor>
choose(const Tensor &words, const Tensor &count, IntArrayRef layout_ints, IntArrayRef stride,
       const optional<Tensor> &choice, double threshold, int64_t capacity) {
    const spira::word_layout layout = layout_of(layout_ints);
    SPIRA_CHECK(capacity >= 1, "capacity: ", capacity);
    SPIRA_CHECK(stride.empty() || stride.size() == 3, "stride: three ints expected");
    Tensor made = words_new(words, layout, rows_of(capacity, "capacity"));
    Tensor kept = empty_like(words, at::kInt, {1}), status = status_new(words);
    Tensor source = at::full({capacity}, -1, options_of(words, at::kInt)), given;
    choose_job job = {};
    job.layout = &layout;
    job.in = set_of(words, count, layout, "words");
    job.out = set_of(made, kept, layout, "words");
    job.stride = stride.empty() ? spira::triple() : triple_at(stride, 0);
    const int64_t rows = (int64_t)job.in.capacity * (job.divides() ? 8 : 1);
    if (!job.in.capacity) {
        return {made, source, empty_like(source, at::kInt, {0}), kept.zero_(), status};
    }
    if (choice) {
        given = choice->contiguous();
        require_device(given, "choice", words, "the set");
        const bool is_mask = given.scalar_type() == at::kByte;
        SPIRA_CHECK(given.size(0) == job.in.capacity &&
                        given.numel() == (is_mask ? job.in.capacity : rows),
                    "choice: ", given.sizes(), ", but there are ", job.in.capacity, " coordinates");
        if (is_mask) {
            job.choice.mask = (const uint8_t *)given.data_ptr();
        } else {
            job.choice.scores = given.data_ptr();
            job.choice.type = numeric_of(given, 0, "choice");
            job.choice.channels = job.divides() ? 8 : 1;
            job.choice.threshold = (float)threshold;
        }
    }
    job.source = source.data_ptr<int32_t>();
    job.trouble = status_at(status);
    on_cpu(words, layout, [&](auto word) {
        typedef decltype(word) W;
        const spira::prune_args<W> p = job.prune<W>();
        const spira::subdivide_args<W> s = job.subdivide<W>();
        return !job.divides()
                   ? spira::prune_host(&p)
                   : with_scratch(
                         words,
                         [&](size_t *bytes) { return spira::subdivide_host_workspace(&s, bytes); },
                         [&](void *base, size_t size) {
                             return spira::subdivide_host(&s, base, size);
                         });
    });
    on_gpu(
        words, [&](auto *bytes) { return gpu::choose_bytes(&job, bytes); },
        [&](const auto &scope, void *base, size_t size) {
            return gpu::choose(&job, base, size, scope.stream);
        });
    return {made, source, inverse_of(source, rows), kept, status};
}

// The voxels with the largest scores of each batch element, as a mask.
Tensor choose_largest(const Tensor &words, const Tensor &count, IntArrayRef layout_ints,
                      const Tensor &scores, int64_t most) {
    const spira::word_layout layout = layout_of(layout_ints);
    largest_job job = {};
    job.layout = &layout;
    job.set = set_of(words, count, layout, "words");
    const Tensor given = scores.contiguous();
    require_device(given, "scores", words, "the set");
    SPIRA_CHECK(given.numel() == job.set.capacity, "scores: ", given.sizes(), ", but there are ",
                job.set.capacity, " coordinates");
    SPIRA_CHECK(most >= 1 && most <= INT32_MAX, "most: ", most, "; at least 1 is needed");
    Tensor mask = at::zeros({job.set.capacity}, options_of(words, at::kByte));
    Tensor status = status_new(words); // a NaN is never chosen; nobody asks which it was
    if (!job.set.capacity) {
        return mask;
    }
    job.scores = given.data_ptr();
    job.type = numeric_of(given, 0, "scores");
    job.most = (int32_t)most;
    job.mask = (uint8_t *)mask.data_ptr();
    job.trouble = status_at(status);
    on_cpu(words, layout, [&](auto word) {
        const auto a = job.args<decltype(word)>();
        return with_scratch(
            words, [&](size_t *bytes) { return spira::choose_largest_host_workspace(&a, bytes); },
            [&](void *base, size_t size) { return spira::choose_largest_host(&a, base, size); });
    });
    on_gpu(
        words, [&](auto *bytes) { return gpu::largest_bytes(&job, bytes); },
        [&](const auto &scope, void *base, size_t size) {
            return gpu::largest(&job, base, size, scope.stream);
        });
    return mask;
}

// ---- two and more sets --------------------------------------------------------------------------

// The row in `other` of each voxel of a set, or -1.
Tensor find_rows(const Tensor &words, const Tensor &count, const Tensor &other,
                 const Tensor &other_count, IntArrayRef layout_ints) {
    const spira::word_layout layout = layout_of(layout_ints);
    const set_ref set = set_of(words, count, layout, "words");
    const set_ref in = set_of(other, other_count, layout, "other");
    require_device(other, "other", words, "the set");
    Tensor found = at::full({set.capacity}, -1, options_of(words, at::kInt));
    int32_t *to = found.data_ptr<int32_t>();
    if (!set.capacity || !in.capacity) {
        return found;
    }
    on_cpu(words, layout, [&](auto word) {
        typedef decltype(word) W;
        for (int32_t i = 0; i < spira::voxel_set_count(set_as<W>(set)); ++i) {
            to[i] = find_row(set_as<W>(in), ((const W *)set.words)[i]);
        }
        return spira::status_success();
    });
    on_gpu(words,
           [&](const auto &scope) { return gpu::find_rows(&layout, set, in, to, scope.stream); });
    return found;
}

// The union of two to four sets.
std::tuple<Tensor, Tensor, Tensor> unite(at::TensorList words, at::TensorList counts,
                                         IntArrayRef layout_ints, int64_t capacity) {
    const spira::word_layout layout = layout_of(layout_ints);
    const size_t sets = words.size();
    SPIRA_CHECK(sets >= 1 && sets <= spira::join_sets_max && counts.size() == sets,
                "sets: ", (int64_t)sets, "; 1 to 4 are supported");
    SPIRA_CHECK(capacity >= 1, "capacity: ", capacity);
    join_job job = {};
    job.layout = &layout;
    int64_t total = 0;
    for (size_t s = 0; s < sets; ++s) {
        require_device(words[s], "words", words[0], "the first set");
        const set_ref set = set_of(words[s], counts[s], layout, "words");
        if (set.capacity) { // `join` has no use for the others
            job.set[job.sets++] = set;
            total += set.capacity;
        }
    }
    Tensor made = words_new(words[0], layout, rows_of(capacity, "capacity"));
    Tensor kept = empty_like(words[0], at::kInt, {1}), status = status_new(words[0]);
    if (!job.sets) {
        return {made, kept.zero_(), status};
    }
    Tensor begin = empty_like(words[0], at::kInt, {capacity + 1});
    Tensor order = empty_like(words[0], at::kInt, {rows_of(total, "sets")});
    job.out = set_of(made, kept, layout, "words");
    job.rows = {begin.data_ptr<int32_t>(), order.data_ptr<int32_t>()};
    job.trouble = status_at(status);
    on_cpu(made, layout, [&](auto word) {
        const auto a = job.args<decltype(word)>();
        return with_scratch(
            made, [&](size_t *bytes) { return spira::join_host_workspace(&a, bytes); },
            [&](void *base, size_t size) { return spira::join_host(&a, base, size); });
    });
    on_gpu(
        made, [&](auto *bytes) { return gpu::join_bytes(&job, bytes); },
        [&](const auto &scope, void *base, size_t size) {
            return gpu::join(&job, base, size, scope.stream);
        });
    return {made, kept, status};
}

// ---- orders along a curve -----------------------------------------------------------------------

// code, order, rank of each voxel. grid: origin and stride x y z of the set's cells.
std::tuple<Tensor, Tensor, Tensor> curve(const Tensor &words, const Tensor &count,
                                         IntArrayRef layout_ints, IntArrayRef grid, int64_t depth,
                                         int64_t kind) {
    const spira::word_layout layout = layout_of(layout_ints);
    SPIRA_CHECK(grid.size() == 6, "grid: six ints expected");
    curve_job job = {};
    job.layout = &layout;
    job.set = set_of(words, count, layout, "words");
    Tensor code = at::full({job.set.capacity}, -1, options_of(words, at::kLong));
    Tensor order = at::full({job.set.capacity}, -1, options_of(words, at::kInt));
    Tensor rank = at::full_like(order, -1), status = status_new(words);
    if (!job.set.capacity) {
        return {code, order, rank};
    }
    job.origin = triple_at(grid, 0);
    job.stride = triple_at(grid, 3);
    job.depth = (int)depth;
    job.kind = (spira::curve_kind)kind;
    job.code = (uint64_t *)code.data_ptr();
    job.order = order.data_ptr<int32_t>();
    job.rank = rank.data_ptr<int32_t>();
    job.trouble = status_at(status);
    on_cpu(words, layout, [&](auto word) {
        const auto a = job.args<decltype(word)>();
        return with_scratch(
            words, [&](size_t *bytes) { return spira::curve_order_host_workspace(&a, bytes); },
            [&](void *base, size_t size) { return spira::curve_order_host(&a, base, size); });
    });
    on_gpu(
        words, [&](auto *bytes) { return gpu::curve_bytes(&job, bytes); },
        [&](const auto &scope, void *base, size_t size) {
            return gpu::curve(&job, base, size, scope.stream);
        });
    return {code, order, rank};
}

} // namespace spira_torch
