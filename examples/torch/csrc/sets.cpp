// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/torch/csrc/sets.cpp: operators that make voxel sets.
#include "ops.h"
#include "scope.h"

namespace spira_torch {

using spira::device_status;

enum { status_unsorted = status_ints };

void status_check(IntArrayRef status, c10::string_view name) {
    SPIRA_CHECK(status.size() == status_ints + 1, "status: ", status_ints + 1, " ints expected");
    device_status found;
    for (int i = 0; i < status_ints; ++i) {
        ((uint32_t *)&found)[i] = (uint32_t)status[i];
    }
    spira::status s = spira::device_status_read(&found);
    const std::string subject(name);
    s.subject = s.code == spira::status_capacity ? "capacity" : subject.c_str();
    require(s);
}

// ---- layouts ------------------------------------------------------------------------------------

// Fits a layout to a grid from the origin, with room for outputs and kernels that reach `reach`
// voxels beyond it.
static bool layout_fit(IntArrayRef extent, int64_t batches, int64_t reach, int bits,
                       spira::word_layout *layout) {
    spira::word_need need = {};
    const int r = (int)reach;
    need.lo = spira::triple_make(-r, -r, -r);
    need.hi =
        spira::triple_make((int)extent[0] - 1 + r, (int)extent[1] - 1 + r, (int)extent[2] - 1 + r);
    need.batches = (int)batches;
    need.stride = spira::triple_make(1, 1, 1);
    need.reach = spira::triple_make(r, r, r);
    return !spira::status_failed(spira::word_fit(&need, layout)) && layout->bits <= bits;
}

// The layout with the largest reach that 32 bits hold, if that is 16 voxels or more; else that of
// 64 bits.
std::vector<int64_t> word_layout(IntArrayRef extent, int64_t batches, int64_t reach) {
    SPIRA_CHECK(extent.size() == 3, "spatial_shape: three ints expected");
    for (int64_t e : extent) {
        SPIRA_CHECK(e >= 1 && e <= 1 << 24, "spatial_shape: ", e,
                    "; 1 to 2^24 voxels are supported on each axis");
    }
    SPIRA_CHECK(batches >= 1 && batches <= 1 << 16, "batch_size: ", batches,
                "; 1 to 65536 are supported");
    SPIRA_CHECK(reach >= 0 && reach <= 1 << 20, "reach: ", reach, "; up to 2^20 is supported");
    const int64_t least = std::max<int64_t>(reach, 16);
    spira::word_layout layout;
    for (int bits = 32; bits <= 64; bits += 32) {
        const int64_t most = bits == 32 ? 256 : 1 << 14;
        for (int64_t r = std::max(most, least); r >= least; r = r / 2) {
            if (layout_fit(extent, batches, r, bits, &layout)) {
                return layout_list(layout);
            }
        }
        if (layout_fit(extent, batches, least, bits, &layout)) {
            return layout_list(layout);
        }
    }
    value_error("spatial_shape: the voxels of ", batches, " batch indices do not fit 64 bits");
}

// ---- voxelize -----------------------------------------------------------------------------------

// The columns of a user's indices, as voxel_input takes them.
struct index_columns {
    Tensor coords; // [rows, 3] x, y, z
    Tensor batch;  // [rows]
};

static index_columns columns_of(const Tensor &indices) {
    const int64_t n = indices.size(1);
    Tensor x = indices.select(1, n - 1), y = indices.select(1, n - 2);
    Tensor z = n == 4 ? indices.select(1, 1) : at::zeros_like(x);
    return {at::stack({x, y, z}, 1), indices.select(1, 0).contiguous()};
}

static void rows_finish_host(int32_t count, int32_t rows, int32_t *order, const int32_t *voxel,
                             int32_t *unsorted) {
    for (int32_t i = 0; i < rows; ++i) {
        *unsorted |= voxel[i] != i;
        order[i] = i < count ? order[i] : -1;
    }
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> voxelize(const Tensor &indices,
                                                            const optional<Tensor> &count,
                                                            IntArrayRef layout_ints,
                                                            IntArrayRef extent) {
    SPIRA_CHECK(indices.dim() == 2 && (indices.size(1) == 3 || indices.size(1) == 4),
                "indices: [rows, 3 or 4] expected, got ", indices.sizes());
    require_type(indices, "indices", at::kInt);
    const spira::word_layout layout = layout_of(layout_ints);
    const int32_t rows = rows_of(indices.size(0), "indices");
    Tensor words = words_new(indices, layout, rows), kept = empty_like(indices, at::kInt, {1});
    Tensor order = empty_like(indices, at::kInt, {rows}), voxel = empty_as(order);
    Tensor status = status_new(indices);
    if (count) {
        require_device(*count, "count", indices, "indices");
        require_type(*count, "count", at::kInt);
        SPIRA_CHECK(count->numel() == 1, "count: one int expected");
    }
    if (!rows) {
        return {words, order, voxel, kept.zero_(), status};
    }
    const index_columns columns = columns_of(indices);
    Tensor given = count ? *count : at::full({1}, rows, options_of(indices, at::kInt));
    Tensor begin = empty_like(indices, at::kInt, {rows + 1});
    spira::word_layout inside = layout; // with the bounds of the grid alone
    inside.lo = spira::triple_make(0, 0, 0);
    inside.hi = spira::triple_make((int)extent[0] - 1, (int)extent[1] - 1, (int)extent[2] - 1);
    spira::voxel_input in = {};
    in.coords = columns.coords.data_ptr<int32_t>();
    in.batch = columns.batch.data_ptr<int32_t>();
    in.count = given.data_ptr<int32_t>();
    in.rows = rows;
    in.columns = 3;
    in.duplicates = spira::duplicates_report;
    int32_t *unsorted = status.data_ptr<int32_t>() + status_unsorted;
    const spira::voxel_rows to = {voxel.data_ptr<int32_t>(), order.data_ptr<int32_t>(),
                                  begin.data_ptr<int32_t>()};
    const voxelize_job job = {&inside, &in, set_of(words, kept, layout, "words"), to,
                              status_at(status)};
    on_cpu(indices, inside, [&](auto word) {
        typedef decltype(word) W;
        const spira::voxelize_args<W> args = job.args<W>();
        SPIRA_TRY(with_scratch(
            indices, [&](size_t *bytes) { return spira::voxelize_host_workspace<W>(&in, bytes); },
            [&](void *base, size_t size) { return spira::voxelize_host(&args, base, size); }));
        rows_finish_host(*job.set.count, rows, to.order, to.voxel, unsorted);
        return spira::status_success();
    });
    on_gpu(
        indices, [&](auto *bytes) { return gpu::voxelize_bytes(&job, bytes); },
        [&](const auto &scope, void *base, size_t size) {
            SPIRA_TRY(gpu::voxelize(&job, base, size, scope.stream));
            return gpu::rows_finish(job.set.count, rows, to.order, to.voxel, unsorted,
                                    scope.stream);
        });
    return {words, order, voxel, kept, status};
}

// ---- expand -------------------------------------------------------------------------------------

std::tuple<Tensor, Tensor, Tensor> expand(const Tensor &words, const Tensor &count,
                                          IntArrayRef layout_ints, IntArrayRef kernel_ints,
                                          IntArrayRef rule_ints, int64_t capacity) {
    const spira::word_layout layout = layout_of(layout_ints);
    const kernel_arg kernel = kernel_of(kernel_ints);
    SPIRA_CHECK(rule_ints.size() == 12, "rule: 12 ints expected");
    const spira::expand_rule rule = {triple_at(rule_ints, 0),
                                     triple_at(rule_ints, 3),
                                     {triple_at(rule_ints, 6), triple_at(rule_ints, 9)}};
    SPIRA_CHECK(capacity >= 1, "capacity: ", capacity);
    Tensor made = words_new(words, layout, rows_of(capacity, "capacity"));
    Tensor kept = empty_like(words, at::kInt, {1}), status = status_new(words);
    const expand_job job = {&layout,
                            &kernel.shape,
                            &rule,
                            set_of(words, count, layout, "words"),
                            set_of(made, kept, layout, "words"),
                            status_at(status)};
    if (!job.in.capacity) {
        return {made, kept.zero_(), status};
    }
    on_cpu(words, layout, [&](auto word) {
        const auto args = job.args<decltype(word)>();
        return with_scratch(
            words, [&](size_t *bytes) { return spira::expand_host_workspace(&args, bytes); },
            [&](void *base, size_t size) { return spira::expand_host(&args, base, size); });
    });
    on_gpu(
        words, [&](auto *bytes) { return gpu::expand_bytes(&job, bytes); },
        [&](const auto &scope, void *base, size_t size) {
            return gpu::expand(scope.info, &job, base, size, scope.stream);
        });
    return {made, kept, status};
}

// ---- coordinates --------------------------------------------------------------------------------

// coords [capacity, 4]: batch, x, y, z.
static Tensor coords_of(const spira::word_layout &layout, const Tensor &words, const set_ref &set) {
    Tensor coords = empty_like(words, at::kInt, {set.capacity, 4});
    int32_t *to = coords.data_ptr<int32_t>();
    on_cpu(words, layout, [&](auto word) {
        typedef decltype(word) W;
        const spira::voxel_set<W> s = set_as<W>(set);
        for (int64_t i = 0; i < spira::voxel_set_count(s); ++i) {
            const spira::voxel v = spira::word_unpack<W>(&layout, s.words[i]);
            const int32_t row[] = {v.batch, v.x, v.y, v.z};
            std::copy(row, row + 4, to + 4 * i);
        }
        return spira::status_success();
    });
    on_gpu(words,
           [&](const auto &scope) { return gpu::words_unpack(&layout, set, to, scope.stream); });
    return coords;
}

Tensor unpack(const Tensor &words, const Tensor &count, IntArrayRef layout_ints, IntArrayRef origin,
              IntArrayRef spacing, int64_t ndim) {
    const spira::word_layout layout = layout_of(layout_ints);
    const set_ref set = set_of(words, count, layout, "words");
    if (!set.capacity) {
        return empty_like(words, at::kInt, {0, 1 + ndim});
    }
    Tensor coords = coords_of(layout, words, set);
    std::vector<Tensor> columns = {coords.select(1, 0)};
    for (int64_t a = ndim - 1; a >= 0; --a) { // z, y, x
        Tensor c = coords.select(1, 1 + a);
        c = origin[a] ? c - origin[a] : c;
        columns.push_back(spacing[a] > 1 ? at::div(c, spacing[a], "floor") : c);
    }
    Tensor rows = at::arange(set.capacity, options_of(words, at::kInt)).unsqueeze(1);
    return at::stack(columns, 1).masked_fill_(rows >= count, -1);
}

Tensor repack(const Tensor &words, const Tensor &count, IntArrayRef from_ints, IntArrayRef to_ints,
              IntArrayRef origin, int64_t scale) {
    SPIRA_CHECK(origin.size() == 3, "origin: three ints expected");
    const repack_job job = {layout_of(from_ints), layout_of(to_ints), triple_at(origin, 0),
                            (int)scale};
    const set_ref set = set_of(words, count, job.from, "words");
    Tensor made = words_new(words, job.to, set.capacity);
    if (!set.capacity) {
        return made;
    }
    on_cpu(words, job.from, [&](auto in) {
        return spira::word_dispatch(&job.to, [&](auto out) {
            typedef decltype(in) W;
            typedef decltype(out) V;
            const spira::voxel_set<W> s = set_as<W>(set);
            V *made_words = (V *)made.data_ptr();
            const int32_t count_now = spira::voxel_set_count(s);
            for (int64_t i = 0; i < s.capacity; ++i) {
                made_words[i] =
                    i < count_now ? repack_word<W, V>(job, s.words[i]) : spira::word_none<V>();
            }
            return spira::status_success();
        });
    });
    on_gpu(words, [&](const auto &scope) {
        return gpu::words_repack(&job, set, made.data_ptr(), scope.stream);
    });
    return made;
}

} // namespace spira_torch
