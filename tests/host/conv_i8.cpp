// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/host/conv_i8.cpp: conv_i8.h against a loop of its own, to the bit; its numbers and checks.
#include "../support/i8_problems.h"

using namespace spira;

TEST(conv_i8_host_is_the_formula) {
    random_state r = random_make(47);
    for (const i8_wish &w : i8_wishes({{27, 32, 0, 48, numeric_i8},
                                       {27, 5, 0, 7, numeric_i8},
                                       {8, 33, 19, 17, numeric_i8},
                                       {1, 64, 32, 40, numeric_i8},
                                       {125, 16, 0, 16, numeric_i8}})) {
        const i8_problem p = i8_problem_random(&r, &w, 90, 130, 4);
        const std::vector<char> want = i8_reference(&p);
        CHECK_EQUAL(i8_compare(&p, i8_host(&p).data(), want), 0);
        if (p.out_type == numeric_i8) { // neither all zero nor all saturated
            int64_t inside = 0;
            for (char c : want) {
                inside += c != 0 && c != 127 && c != -128;
            }
            CHECK(inside > (int64_t)want.size() / 8);
        }
    }
}

// The largest sum that is allowed is exact, and one more product is refused.
TEST(conv_i8_sums_fit_int32) {
    const conv_shape most = {3, 4096, 4096, 1, numeric_i8};
    CHECK_OK(conv_shape_check_i8(&most));
    conv_shape s = {128, 1032, 0, 1, numeric_i8};
    CHECK_EQUAL(conv_i8_products_max, 132104);
    CHECK_OK(conv_shape_check_i8(&s));
    s.cin = 1033;
    CHECK_STATUS(conv_shape_check_i8(&s), status_bad_size);
    s.type = numeric_f16;
    CHECK_OK(conv_shape_check_i8(&s));
    s = {1024, 129, 0, 1, numeric_i8};
    conv_shortcut shortcut = {};
    shortcut.cin = 8;
    CHECK_OK(conv_i8_shortcut_check(&s, &shortcut));
    shortcut.cin2 = 1;
    CHECK_STATUS(conv_i8_shortcut_check(&s, &shortcut), status_bad_size);

    const std::vector<int8_t> in(4096, -128), weight(4096 * 32, -127);
    const std::vector<int32_t> map(32, 0);
    const float step = 1;
    conv_i8_host_args a = {};
    a.shape = {32, 4096, 0, 1, numeric_i8};
    a.in = in.data();
    a.weight = weight.data();
    a.map = map.data();
    a.outputs = 1;
    a.quantisation = {&step, true, numeric_f32, numeric_f32, 0, 0};
    float out = 0;
    CHECK_OK(conv_i8_host(&a, &out));
    CHECK_EQUAL(out, (float)(128.0 * 127 * 4096 * 32));
}

TEST(conv_i8_steps_and_weights) {
    const float weight[] = {-2, 0, 1, 0.5f, 0, 1}; // [volume 2, cin 1, cout 3]
    const float half[] = {0, 0, -8};
    const conv_i8_weights w = {{2, 1, 0, 3, numeric_i8}, weight, 0.5f, 0};
    const conv_i8_weights s = {{1, 1, 0, 3, numeric_i8}, half, 0.25f, 0};
    float step[3];
    CHECK_OK(conv_i8_steps_host(&w, nullptr, step));
    CHECK_EQUAL(step[0], 1.0f / 127);
    CHECK_EQUAL(step[1], 1.0f); // a channel without weights
    CHECK_EQUAL(step[2], 0.5f / 127);
    CHECK_OK(conv_i8_steps_host(&w, &s, step));
    CHECK_EQUAL(step[2], 2.0f / 127);
    int8_t q[6];
    CHECK_OK(conv_i8_weights_host(&w, step, q));
    const int8_t want[] = {-127, 0, 32, 32, 0, 32}; // 31.75
    for (int i = 0; i < 6; ++i) {
        CHECK_EQUAL((int)q[i], (int)want[i]);
    }
    step[0] = 0.001f; // a range that is too small clamps
    CHECK_OK(conv_i8_weights_host(&w, step, q));
    CHECK_EQUAL((int)q[0], -127);
    CHECK_EQUAL((int)q[3], 127);
    for (float bad : {0.0f, -1.0f, (float)NAN, (float)INFINITY}) {
        step[1] = bad;
        CHECK_STATUS(conv_i8_weights_host(&w, step, q), status_unsupported);
        conv_i8_weights wrong = w;
        wrong.scale_in = bad;
        CHECK_STATUS(conv_i8_steps_host(&wrong, nullptr, step), status_unsupported);
        CHECK_STATUS(conv_i8_steps_host(&w, &wrong, step), status_unsupported);
    }
    const float infinite[] = {0, 0, INFINITY, 0, 0, 0};
    conv_i8_weights wrong = w;
    wrong.weight = infinite;
    CHECK_STATUS(conv_i8_steps_host(&wrong, nullptr, step), status_weights);
    wrong = w;
    wrong.scale_in2 = 1; // of no source
    CHECK_STATUS(conv_i8_steps_host(&wrong, nullptr, step), status_unsupported);
    const float huge[] = {3e38f, 0, 0, 0, 0, 0};
    wrong = w;
    wrong.weight = huge;
    wrong.scale_in = 100;
    CHECK_STATUS(conv_i8_steps_host(&wrong, nullptr, step), status_bad_size);
    device_status trouble = {};
    const conv_shape shape = w.shape;
    CHECK_OK(conv_weights_check(&shape, weight, &trouble));
    CHECK_EQUAL(trouble.flags, 0u);
    CHECK_OK(conv_weights_check(&shape, infinite, &trouble));
    CHECK_EQUAL(trouble.flags, (uint32_t)device_flag_weights);
    CHECK_EQUAL(trouble.first_weight, UINT32_MAX - 2);
}

// Members that are missing, that make no sense, or that would be ignored.
TEST(conv_i8_quantisation_is_checked) {
    const float step = 1, nan = NAN, inf = INFINITY;
    const conv_shape i8 = {1, 1, 0, 1, numeric_i8}, f16 = {1, 1, 0, 1, numeric_f16};
    const numeric f32 = numeric_f32;
    const conv_quantisation none = {}, plain = {&step, false, f32, f32, 0, 2};
    struct row {
        conv_quantisation q;
        bool residual, i8, f16; // for which layers it is allowed
    } rows[] = {
        {none, false, false, true},
        {none, true, false, true},
        {plain, false, true, false},
        {plain, true, false, false}, // no scale of the residual
        {{&step, false, f32, f32, 3, 2}, true, true, false},
        {{&step, false, f32, f32, 3, 2}, false, false, false},
        {{nullptr, false, f32, f32, 0, 2}, false, false, false},
        {{&step, false, f32, f32, 0, 0}, false, false, false},
        {{&step, false, f32, f32, 0, -2}, false, false, false},
        {{&step, false, f32, f32, 0, nan}, false, false, false},
        {{&step, false, f32, f32, 0, inf}, false, false, false},
        {{&step, false, f32, numeric_f16, 0, 2}, false, false, false},
        {{&step, true, f32, numeric_f16, 0, 0}, false, true, false},
        {{&step, true, f32, numeric_f16, 0, 2}, false, false, false},
        {{&step, true, numeric_i8, numeric_f16, 0, 0}, true, false, false},
        {{&step, true, numeric_i8, numeric_f16, 4, 0}, true, true, false},
        {{&step, true, numeric_f16, f32, 0, 0}, true, true, false},
        {{&step, true, numeric_f16, f32, 0, 0}, false, false, false},
        {{&step, true, f32, (numeric)5, 0, 0}, false, false, false},
        {{nullptr, true, f32, numeric_i8, 0, 2}, false, false, true},
        {{nullptr, true, numeric_i8, numeric_i8, 1, 2}, true, false, true},
        {{nullptr, true, f32, numeric_i8, 0, 0}, false, false, false},
    };
    for (const row &r : rows) {
        CHECK_EQUAL(!status_failed(conv_quantisation_check(&i8, &r.q, r.residual)), r.i8);
        CHECK_EQUAL(!status_failed(conv_quantisation_check(&f16, &r.q, r.residual)), r.f16);
    }
    CHECK_STATUS(conv_shape_check(&i8), status_unsupported);
}

TEST(conv_i8_rounds_to_even_and_saturates) {
    const struct {
        float from;
        int to;
    } rows[] = {{0.5f, 0},
                {1.5f, 2},
                {-0.5f, 0},
                {-1.5f, -2},
                {126.5f, 126},
                {127.5f, 127},
                {-128.5f, -128},
                {1e30f, 127},
                {-1e30f, -128},
                {NAN, 0},
                {-0.0f, 0},
                {(float)INFINITY, 127},
                {-(float)INFINITY, -128},
                {2.5f, 2}};
    for (auto row : rows) {
        CHECK_EQUAL((int)i8_from_float(row.from), row.to);
        int8_t stored = 1;
        numeric_store(numeric_i8, &stored, 0, row.from);
        CHECK_EQUAL(numeric_load(numeric_i8, &stored, 0), (float)row.to);
        CHECK_EQUAL(numeric_stored(numeric_i8, row.from), (float)row.to);
    }
    CHECK_EQUAL(numeric_size(numeric_i8), 1);
    CHECK(!strcmp(numeric_name(numeric_i8), "int8"));
}
