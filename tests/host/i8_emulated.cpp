// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/host/i8_emulated.cpp: int8 layers by the portable and the exact kernel, emulated on the
// host: every variant, format of residual and output, source and shortcut, to the bit.
#include "../support/emulate_i8.h"

#include "../../spira/net/planning.h"

using namespace problems;

namespace {

struct portable_i8 {
    static constexpr conv_kernel kernel = conv_kernel_portable;
    static const device_info device;

    static status run(const conv_params &t, const i8_layer *l) {
        device_info d = device;
        d.multiprocessors =
            l->seed % 2 ? 0 : 2; // one thread block for all tiles of a slice, or more
        return portable_run(numeric_tag<numeric_i8>(), &d, t, nullptr);
    }

    template <bool mixed, typename tag>
    static status run(tag own, const conv_params &t) {
        return portable_run<mixed>(own, &device, t, nullptr);
    }
};

const device_info portable_i8::device = device_made(86, 2, 99 * 1024, false);

struct exact_i8 {
    static constexpr conv_kernel kernel = conv_kernel_exact;
    static const device_info device;

    static status run(const conv_params &t, const i8_layer *l) {
        return exact_run<int8_t>(t, nullptr, l->seed % 2 ? 2 : 65535);
    }

    template <bool mixed, typename tag>
    static status run(tag, const conv_params &t) {
        return exact_run<typename tag::element, mixed>(t, nullptr);
    }
};

const device_info exact_i8::device = device_made(75, 2, 64 * 1024, false);

} // namespace

// Networks fuse int8 shortcuts by the table alone: every kernel takes those layers.
TEST(i8_shortcuts_of_networks_are_taken_everywhere) {
    const device_info devices[] = {
        device_made(75, 40, 64 * 1024, false), device_made(80, 108, 163 * 1024, false),
        device_made(86, 84, 99 * 1024, false), device_made(90, 132, 227 * 1024, false),
        device_made(90, 132, 227 * 1024, true)};
    net_plan plan = {};
    net_layer layers[2] = {};
    random_state r = random_make(4);
    int taken = 0;
    plan.layers = layers;
    plan.layer_count = 2;
    for (int n = 0; n < 3000; ++n) {
        conv_shape *s = &plan.step[1].shape;
        *s = {random_int(&r, 0, 3) ? 27 : random_int(&r, 1, 1100), random_int(&r, 1, 200),
              random_int(&r, 0, 1) * random_int(&r, 1, 100), random_int(&r, 1, 300), numeric_i8};
        plan.step[0].shape = {1, random_int(&r, 1, 400), 0, s->cout, numeric_i8};
        const bool takes = net_i8_takes_shortcut(&plan, 1, 0);
        taken += takes;
        for (const device_info &d : devices) {
            CHECK(!takes || conv_shortcut_takes(s, &d));
        }
    }
    CHECK(taken > 1000 && taken < 2990);
    layers[1].bias = layers[1].norm = true;
    CHECK(!net_i8_takes_shortcut(&plan, 1, 0));
}

TEST(i8_emulated_portable) {
    emulate::launched.clear();
    i8_layers_check<portable_i8>({{9, 64, 0, 64, numeric_i8},
                                  {9, 5, 0, 7, numeric_i8},
                                  {8, 100, 70, 130, numeric_i8},
                                  {1, 128, 32, 96, numeric_i8},
                                  {40, 16, 0, 33, numeric_i8},
                                  {3, 192, 0, 256, numeric_i8}});
    CHECK(test_quick() || emulate::launched.size() == 5 + 1);
}

TEST(i8_emulated_exact) {
    emulate::launched.clear();
    i8_layers_check<exact_i8>(
        {{9, 20, 0, 40, numeric_i8}, {9, 5, 3, 7, numeric_i8}, {1, 64, 32, 96, numeric_i8}});
    CHECK(test_quick() || emulate::launched.size() == 2 + 1);
}

// Kernels of more offsets than a scope has.
TEST(i8_emulated_many_offsets) {
    random_state r = random_make(5);
    i8_wish w = {{1025, 7, 0, 34, numeric_i8}};
    w.act = activation_relu;
    w.affine = true;
    CHECK_EQUAL(conv_kernel_of(&w.shape, &portable_i8::device), conv_kernel_portable);
    i8_layer l = {};
    l.problem = i8_problem_random(&r, &w, 20, 66, 1);
    const std::vector<char> want = i8_reference(&l.problem);
    l.sizes = exact_sizes_choose(&w.shape);
    CHECK(i8_layer_check<exact_i8>(&l, want));
    l.sizes = {1, 2, 2, 1};
    CHECK(i8_layer_check<portable_i8>(&l, want));
}

// Sums near the largest that an int32 holds, of -128 times -127.
TEST(i8_emulated_largest_sums) {
    i8_problem p = {};
    p.shape = {129, 1024, 0, 2, numeric_i8};
    p.inputs = p.outputs = 3;
    p.map.assign(3 * 129, 1);
    p.own.cin = 1024;
    p.own.scale_in = 1;
    p.own.in.assign(3 * 1024, -128);
    p.own.weight.assign(129 * 1024 * 2, -1);
    p.out_type = numeric_f32;
    CHECK_OK(conv_shape_check_i8(&p.shape));
    i8_quantise(&p);
    const std::vector<char> want = i8_reference(&p);
    CHECK_EQUAL(numeric_load(numeric_f32, want.data(), 0),
                (float)(128.0 * 127 * 1024 * 129) * (1.0f / 127));
    i8_layer l = {p, {1, 2, 1, 1}, 0, 0, false, 0};
    CHECK(i8_layer_check<portable_i8>(&l, want));
}

// Activations with exp or erf are equal to a rounding.
TEST(i8_emulated_curved_activations) {
    random_state r = random_make(6);
    for (activation act : {activation_silu, activation_gelu, activation_gelu_tanh}) {
        const i8_wish w = {
            {9, 40, 0, 70, numeric_i8}, 0, 0, true, numeric_i8, numeric_i8, act, true, false};
        i8_layer l = {};
        l.problem = i8_problem_random(&r, &w, 150, 200, 4);
        l.sizes = {1, 2, 1, 1};
        const std::vector<char> got = i8_layer_run<portable_i8>(&l);
        l.problem.out_type = numeric_f32;
        l.problem.act = activation_none;
        const float inverse = l.problem.out_inverse;
        l.problem.out_inverse = 0;
        const std::vector<char> linear = i8_reference(&l.problem);
        for (size_t i = 0; i < got.size(); ++i) {
            const double y = numeric_load(numeric_f32, linear.data(), (int64_t)i);
            const double exact = activation_apply(y, act, 0.0) * (double)inverse;
            const double clamped = exact < -128 ? -128 : exact > 127 ? 127 : exact;
            CHECK(fabs((double)(int8_t)got[i] - clamped) <= 0.5001);
        }
    }
}

// Steps that are no positive numbers and weights that are not finite are recorded.
TEST(i8_emulated_packing_records) {
    random_state r = random_make(7);
    const i8_wish w = {{3, 20, 0, 40, numeric_i8}};
    i8_layer l = {};
    l.problem = i8_problem_random(&r, &w, 90, 90, 4);
    l.sizes = {1, 2, 1, 1};
    for (int turn = 0; turn < 7; ++turn) {
        i8_layer bad = l;
        const float values[] = {0, -1, NAN, INFINITY};
        const bool step = turn < 4;
        (step ? bad.problem.step[5] : bad.problem.own.weight[45]) = values[turn % 4];
        weights_trouble = {};
        (void)i8_weights_put<portable_i8>(&bad.problem, &bad.problem.own, false);
        guarded_finish();
        const status found = device_status_read(&weights_trouble);
        const bool recorded = step || turn > 5;
        CHECK_EQUAL(found.code, recorded ? status_weights : status_ok);
        CHECK_EQUAL(found.detail, recorded ? step ? 5 : 45 : 0);
    }
    weights_trouble = {};
}

// Tests the test: a wrong weight, source, step, or scale is found.
TEST(i8_emulated_planted_errors_are_found) {
    random_state r = random_make(8);
    const i8_wish w = {{9, 40, 0, 70, numeric_i8},
                       24,
                       0,
                       true,
                       numeric_i8,
                       numeric_i8,
                       activation_none,
                       true,
                       false};
    i8_layer good = {};
    good.problem = i8_problem_random(&r, &w, 150, 200, 4);
    good.sizes = {1, 2, 1, 1};
    const std::vector<char> want = i8_reference(&good.problem);
    CHECK(i8_layer_run<portable_i8>(&good) == want);
    auto found = [&](auto plant) {
        i8_layer bad = good;
        plant(&bad.problem);
        CHECK(i8_layer_run<portable_i8>(&bad) != want);
    };
    found([](i8_problem *p) { p->own.in[150 * 40 - 1] ^= 64; });
    found([](i8_problem *p) { p->own.weight[1] = -p->own.weight[1]; });
    found([](i8_problem *p) { p->shortcut.weight[1] = -p->shortcut.weight[1]; });
    found([](i8_problem *p) { p->step[69] *= 2; });
    found([](i8_problem *p) { p->own.shift[0] += 50; });
    found([](i8_problem *p) { p->shortcut.bias[0] += 50; });
    found([](i8_problem *p) { p->residual_scale *= 2; });
    found([](i8_problem *p) { p->out_inverse *= 1.5f; });
    found([](i8_problem *p) {
        for (int32_t &source : p->map) {
            source = source == 7 ? 8 : source;
        }
    });
}

// ---- floating-point layers whose residual or output has another format --------------------------

TEST(i8_emulated_mixed_formats) {
    uint64_t seed = 0;
    for (numeric type : numerics) {
        mixed_check<portable_i8>(type, ++seed, 24, 40);
        mixed_check<exact_i8>(type, ++seed, 24, 39);
    }
}
