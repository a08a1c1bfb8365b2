// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/host/interpolate.cpp: interpolate.h and row_blend against sums in double over all voxels,
// and their kernels, run on the host (emulate_numeric.h), against the host loops.
#include "../support/emulate_numeric.h"

#include "../support/points.h"

#include "../../spira/interpolate.cuh"
#include "../../spira/rows.cuh"

using namespace spira;

namespace {

template <typename W>
const points_side<W> by_kernel = {
    &memory_host, [](const interpolate_args<W> *a) { return interpolate_find(a, nullptr); },
    [](const row_blend_args *a) { return row_blend(a, nullptr); },
    [](const row_gather_args *a) { return row_gather(a, nullptr); }};

TEST(interpolate_random) {
    points_check_random(1, 40, &by_kernel<uint32_t>, &points_by_host<uint32_t>);
    points_check_random(2, 40, &by_kernel<uint64_t>, &points_by_host<uint64_t>);
}

// Six voxels of one channel, 1 to 6: the sum of weights, the plain and the renormalised value at
// corners and at centres, worked out by hand.
TEST(interpolate_worked_examples) {
    points_problem<uint32_t> p = {};
    p.layout = reference_layout<uint32_t>({0, 0, 0}, {10, 10, 10}, 1, {1, 1, 1}, {1, 1, 1});
    const int at[6][3] = {{0, 0, 0}, {0, 0, 1}, {0, 1, 1}, {1, 0, 0}, {1, 1, 1}, {3, 2, 0}};
    for (const auto &v : at) {
        p.words.push_back(word_pack<uint32_t>(&p.layout, {0, v[0], v[1], v[2]}));
    }
    p.voxels = p.args.set.capacity = 6;
    p.points = {0.25f, 0.5f, 0.5f, 0.75f,  0.75f, 0.75f, 3.5f, 2.5f, 0.5f,
                2.5f,  1.5f, 0,    -0.25f, 0,     0,     9,    9,    9};
    p.count = p.args.rows = 6;
    p.args.columns = 3;
    p.args.stride = {1, 1, 1};
    std::fill(p.args.size, p.args.size + 3, 1.0f);
    p.features = {1, 2, 3, 4, 5, 6};
    p.stored.resize(24);
    memcpy(p.stored.data(), p.features.data(), 24);
    p.channels = 1;
    const float wanted[2][2][6] = {
        {{1.6875f, 2.828125f, 0.75f, 1.5f, 0.75f, 0}, {2.454545f, 4.209302f, 6, 6, 1, 0}},
        {{0.75f, 1.484375f, 6, 0, 0.0625f, 0}, {1, 1.938776f, 6, 0, 1, 0}}};
    for (int centred = 0; centred < 2; ++centred) {
        for (int kind = 0; kind < 2; ++kind) {
            p.args.centred = centred;
            p.args.kind = (interpolate_kind)kind;
            const points_outcome<uint32_t> o =
                points_run(&p, kind ? &by_kernel<uint32_t> : &points_by_host<uint32_t>);
            for (int i = 0; i < 6; ++i) {
                const float got = numeric_load(numeric_f32, o.out.data(), i);
                CHECK(fabsf(got - wanted[centred][kind][i]) < 1e-6f);
            }
        }
    }
}

TEST(interpolate_refuses) {
    random_state r = random_make(3);
    points_problem<uint32_t> p = points_random<uint32_t>(&r);
    device_status trouble = {};
    int32_t index[8], count = 1;
    float weight[8];
    typedef interpolate_args<uint32_t> A;
    A good = p.args;
    good.layout = &p.layout;
    good.set.words = p.words.data();
    good.set.count = &p.voxels;
    good.kind = interpolate_zeros;
    good.points = p.points.data();
    good.count = &count;
    good.rows = 1;
    good.index = index;
    good.weight = weight;
    good.trouble = &trouble;
    CHECK_OK(interpolate_find_host(&good));
    const std::vector<refusal<A>> all = {
        {status_null_pointer, [](A *a) { a->layout = nullptr; }},
        {status_null_pointer, [](A *a) { a->set.words = nullptr; }},
        {status_null_pointer, [](A *a) { a->points = nullptr; }},
        {status_null_pointer, [](A *a) { a->count = nullptr; }},
        {status_null_pointer, [](A *a) { a->weight = nullptr; }},
        {status_null_pointer, [](A *a) { a->trouble = nullptr; }},
        {status_alignment, [](A *a) { a->index = misaligned(a->index); }},
        {status_alignment, [](A *a) { a->batch = misaligned(a->index); }},
        {status_stride, [](A *a) { a->stride.y = 0; }},
        {status_grid, [](A *a) { a->size[2] = 0; }},
        {status_grid, [](A *a) { a->origin[0] = NAN; }},
        {status_bad_size, [](A *a) { a->rows = 0; }},
        {status_bad_size, [](A *a) { a->columns = 2; }},
        {status_unsupported, [](A *a) { a->kind = (interpolate_kind)3; }},
        {status_unsupported, [](A *a) { a->kind = interpolate_nearest; }}};
    for (const refusal<A> &one : all) {
        A a = good;
        one.spoil(&a);
        CHECK_STATUS(interpolate_find_host(&a), one.code);
    }
    CHECK_STATUS(interpolate_find_host((const A *)nullptr), status_null_pointer);
    CHECK_STATUS(row_blend_host(nullptr), status_null_pointer);
    float out[4];
    row_blend_args blend = {out, 1, 1, numeric_f32, 9, index, weight, &count, 1, out + 1};
    CHECK_STATUS(row_blend_host(&blend), status_bad_size);
    blend.neighbours = 8;
    blend.weight = nullptr;
    CHECK_STATUS(row_blend_host(&blend), status_null_pointer);
}

} // namespace
