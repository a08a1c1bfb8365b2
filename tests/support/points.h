// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/support/points.h: points in and around a set for the tests of interpolation, and what
// comes of them, in double, by a table of coordinates.
#ifndef SPIRA_TESTS_POINTS_H
#define SPIRA_TESTS_POINTS_H

#include "memory.h"
#include "sets.h"

#include "../../spira/interpolate.h"
#include "../../spira/rows.h"

#include <array>
#include <map>

template <typename W>
struct points_problem {
    spira::word_layout layout;
    std::vector<W> words;
    int32_t voxels, count;
    std::vector<float> points;
    std::vector<int32_t> batch;
    spira::interpolate_args<W> args; // without pointers, but for the layout
    std::vector<float> features;     // [voxels, channels], and as they are stored:
    std::vector<char> stored;
    spira::numeric type;
    int channels;
};

template <typename W>
struct points_outcome {
    std::vector<int32_t> index;
    std::vector<float> weight;
    spira::device_status trouble;
    std::vector<char> out; // of row_blend, or row_gather
};

// The sums of weights and of weighted features at a point, in double. Rounds as the functions do
// where a point lies on a face.
template <typename W>
double points_blend(const points_problem<W> *p, int32_t row, int channel, double *weights) {
    using namespace spira;
    std::map<std::array<int, 4>, int32_t> at;
    for (int32_t i = 0; i < p->voxels; ++i) {
        const voxel v = word_unpack<W>(&p->layout, p->words[(size_t)i]);
        at[{v.batch, v.x, v.y, v.z}] = i;
    }
    double sum = 0;
    *weights = 0;
    for (const auto &one : at) {
        double w = p->batch.empty() || p->batch[(size_t)row] == one.first[0] ? 1 : 0;
        for (int a = 0; a < 3; ++a) {
            const float x = p->points[(size_t)(row * p->args.columns + a)];
            const double q =
                ((double)x - p->args.origin[a]) / p->args.size[a] / triple_at(p->args.stride, a);
            const double v = (double)one.first[(size_t)a + 1] / triple_at(p->args.stride, a) +
                             (p->args.centred ? 0.5 : 0);
            if (p->args.kind == interpolate_nearest) {
                w = q >= v && q < v + 1 ? w : 0;
            } else {
                w *= std::max(0.0, 1 - fabs(q - v));
            }
        }
        *weights += w;
        sum += w * p->features[(size_t)(one.second * p->channels + channel)];
    }
    return p->args.kind == interpolate_renormalise && *weights > 0 ? sum / *weights : sum;
}

// Coordinates are multiples of 1/8 of a cell, so that no rounding moves a point over a face.
template <typename W>
points_problem<W> points_random(random_state *r) {
    using namespace spira;
    points_problem<W> p = {};
    const int s = 1 << random_int(r, 0, 2), batches = random_int(r, 1, 2);
    p.args.stride = {s, s, random_int(r, 0, 1) ? s : 1};
    const triple lo = {-4 * s, 0, -3 * p.args.stride.z}, hi = {4 * s, 6 * s, 3 * p.args.stride.z};
    p.layout = reference_layout<W>(lo, hi, batches, p.args.stride, {1, 1, 1});
    p.words = set_random<W>(r, &p.layout, lo, hi, random_int(r, 0, 200), p.args.stride);
    p.voxels = (int32_t)p.words.size();
    set_pad(&p.words, p.voxels + random_int(r, p.voxels == 0, 9));
    p.args.set.capacity = (int32_t)p.words.size();
    p.args.layout = &p.layout;
    p.args.kind = (interpolate_kind)random_int(r, 0, 2);
    p.args.centred = p.args.kind != interpolate_nearest && random_int(r, 0, 1);
    p.args.columns = random_int(r, 3, 5);
    p.args.rows = random_int(r, 1, 300);
    p.count = random_int(r, 0, p.args.rows + 1);
    for (int a = 0; a < 3; ++a) {
        p.args.size[a] = 0.25f * (float)(1 << random_int(r, 0, 2));
        p.args.origin[a] = (float)random_int(r, -2, 2);
    }
    for (int32_t i = 0; i < p.args.rows; ++i) {
        for (int a = 0; a < p.args.columns; ++a) {
            const int cells = a < 3 ? triple_at(hi, a) - triple_at(lo, a) + 4 : 1;
            const float in =
                (float)(a < 3 ? triple_at(lo, a) - 2 : 0) + (float)random_int(r, 0, 8 * cells) / 8;
            const float odd[] = {NAN, INFINITY, -1e30f};
            const bool wrong = random_int(r, 0, 60) == 0;
            p.points.push_back(wrong ? odd[random_int(r, 0, 2)]
                                     : p.args.origin[a % 3] + in * p.args.size[a % 3]);
        }
        if (batches > 1) {
            p.batch.push_back(random_int(r, 0, 30) ? random_int(r, 0, batches - 1) : -1);
        }
    }
    const numeric types[] = {numeric_f32, numeric_tf32, numeric_f16, numeric_bf16};
    p.type = types[random_int(r, 0, 3)];
    p.channels = random_int(r, 0, 1) ? 8 * random_int(r, 1, 3) : random_int(r, 1, 11);
    p.features.resize((size_t)std::max(p.voxels, 1) * (size_t)p.channels);
    reference_random_values(r, p.type, 1, (int64_t)p.features.size(), p.features.data());
    p.stored.resize(p.features.size() * (size_t)numeric_size(p.type));
    reference_store(p.type, p.features.data(), (int64_t)p.features.size(), p.stored.data());
    return p;
}

template <typename W>
bool points_finite(const points_problem<W> *p, int32_t row) {
    bool finite = true;
    for (int a = 0; a < 3; ++a) {
        finite = finite && spira::float_is_finite(p->points[(size_t)(row * p->args.columns + a)]);
    }
    return finite;
}

// Judges a run, row by row: some rows by the features, all by the flags.
template <typename W>
bool points_judge(const points_problem<W> *p, const points_outcome<W> &o) {
    using namespace spira;
    device_status trouble = {};
    bool good = true;
    for (int32_t i = 0; i < min_of(p->count, p->args.rows); ++i) {
        const int32_t batch = p->batch.empty() ? 0 : p->batch[(size_t)i];
        if (!points_finite(p, i)) {
            device_status_note(&trouble, device_flag_not_finite, (uint32_t)i);
        } else if (batch < 0) {
            device_status_note(&trouble, device_flag_range, (uint32_t)i);
        }
        const int c = i % p->channels;
        double weights = 0;
        const double wanted = points_finite(p, i) ? points_blend(p, i, c, &weights) : 0;
        const double got = numeric_load(p->type, o.out.data(), (int64_t)i * p->channels + c);
        good = test_check(fabs(got - wanted) <= 4 * numeric_epsilon(p->type) + 1e-5, __FILE__,
                          __LINE__, "blended features") &&
               good;
    }
    return test_check(!memcmp(&trouble, &o.trouble, sizeof trouble), __FILE__, __LINE__,
                      "trouble") &&
           good;
}

// ---- runs, on either side -----------------------------------------------------------------------

template <typename W>
struct points_side {
    const test_memory *memory;
    spira::status (*find)(const spira::interpolate_args<W> *);
    spira::status (*blend)(const spira::row_blend_args *);
    spira::status (*gather)(const spira::row_gather_args *);
};

// What there is up to the count; nothing is written behind it. Frees all buffers.
template <typename W>
points_outcome<W> points_run(const points_problem<W> *p, const points_side<W> *side) {
    using namespace spira;
    const test_memory *m = side->memory;
    const device_status clear = {};
    interpolate_args<W> a = p->args;
    const int64_t neighbours = interpolate_neighbours(a.kind), voxels = max_of(p->voxels, 1);
    const int64_t rows = count_clamp(p->count, a.rows);
    const int64_t bytes = (int64_t)p->channels * numeric_size(p->type);
    a.layout = &p->layout;
    a.set.words = memory_put(m, p->words);
    a.set.count = memory_put(m, &p->voxels, 1);
    a.points = memory_put(m, p->points);
    a.batch = p->batch.empty() ? nullptr : memory_put(m, p->batch);
    a.count = memory_put(m, &p->count, 1);
    a.index = memory_poisoned<int32_t>(m, a.rows * neighbours);
    a.weight = neighbours == 8 ? memory_poisoned<float>(m, a.rows * neighbours) : nullptr;
    a.trouble = memory_put(m, &clear, 1);
    CHECK_OK(side->find(&a));
    const char *in = memory_put(m, p->stored);
    char *out = memory_new<char>(m, a.rows * bytes);
    if (a.weight) {
        const row_blend_args sums = {in,      voxels,   p->channels, p->type, 8,
                                     a.index, a.weight, a.count,     a.rows,  out};
        CHECK_OK(side->blend(&sums));
    } else {
        const row_gather_args copies = {in,      voxels,  p->channels, 0,  p->type,
                                        a.index, a.count, a.rows,      out};
        CHECK_OK(side->gather(&copies));
    }
    points_outcome<W> o = {};
    o.index = memory_get(m, a.index, rows * neighbours);
    o.weight = memory_get(m, a.weight, a.weight ? rows * neighbours : 0);
    o.trouble = memory_value(m, a.trouble);
    o.out = memory_get(m, (const char *)out, rows * bytes);
    CHECK(memory_untouched(m, a.index, rows * neighbours, a.rows * neighbours));
    CHECK(memory_untouched(m, out, rows * bytes, a.rows * bytes));
    guarded_finish();
    return o;
}

// Runs of `side` are good, and index and weights are those of the host to the bit.
template <typename W>
void points_check_random(uint64_t seed, int cases, const points_side<W> *side,
                         const points_side<W> *host) {
    random_state r = random_make(seed);
    for (int i = 0; i < cases; ++i) {
        const points_problem<W> p = points_random<W>(&r);
        const points_outcome<W> got = points_run(&p, side), wanted = points_run(&p, host);
        points_judge(&p, got);
        points_judge(&p, wanted);
        CHECK(got.index == wanted.index && got.weight == wanted.weight);
        CHECK(side->memory != &memory_host || got.out == wanted.out);
    }
}

template <typename W>
const points_side<W> points_by_host = {&memory_host, spira::interpolate_find_host<W>,
                                       spira::row_blend_host, spira::row_gather_host};

#endif
