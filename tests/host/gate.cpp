// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/host/gate.cpp: gate.h against formulas in double, its kernels, run on the host, against the
// same, and slopes of activations against differences.
#include "../support/emulate_numeric.h"

#include "../support/gates.h"
#include "../support/sets.h"

#include "../../spira/gate.cuh"

using namespace spira;

namespace {

const gate_side by_host = {&memory_host, gate_host, gate_grad_host};
const gate_side by_kernel = {&memory_host, [](const gate_args *a) { return gate(a, nullptr); },
                             [](const gate_grad_args *a) { return gate_grad(a, nullptr); }};

TEST(gate_random) {
    gate_check_random(1, test_quick() ? 100 : 1000, &by_host);
}

TEST(gate_emulated) {
    for (int i = 0; i < (test_quick() ? 4 : 20); ++i) {
        emulate::seed = (uint64_t)i;
        gate_check_random((uint64_t)i + 2, 8, &by_kernel);
    }
}

TEST(activation_slope_is_the_slope) {
    const double step = 1e-5;
    for (int act = 0; act < activation_count; ++act) {
        for (double x = -12.003; x < 12; x += 0.0371) {
            const auto f = [&](double at) { return activation_apply(at, (activation)act, 0.1); };
            const double wanted = (f(x + step) - f(x - step)) / (2 * step);
            const double slope = activation_slope(x, (activation)act, 0.1);
            CHECK(fabs(slope - wanted) < 1e-9);
            CHECK(fabs(slope) <= activation_steepness((activation)act, 0.1));
            const float single = activation_slope((float)x, (activation)act, 0.1f);
            const double exact = gate_reference_of((float)x, (activation)act, (double)0.1f).slope;
            CHECK(fabs(single - exact) <= gate_slope_error((activation)act));
        }
    }
}

// At 0, at both ends, and of a NaN.
TEST(activation_slope_of_special_values) {
    const struct {
        activation act;
        float zero, low, high;
    } cases[] = {{activation_none, 1, 1, 1},          {activation_relu, 0, 0, 1},
                 {activation_leaky, 0.25f, 0.25f, 1}, {activation_silu, 0.5f, 0, 1},
                 {activation_gelu, 0.5f, 0, 1},       {activation_gelu_tanh, 0.5f, 0, 1}};
    for (const auto &one : cases) {
        CHECK_EQUAL(gate_slope(0, one.act, 0.25f), one.zero);
        for (float x : {1e3f, 65504.0f, 1e20f, 3e38f, INFINITY}) {
            CHECK_EQUAL(gate_slope(-x, one.act, 0.25f), one.low);
            CHECK_EQUAL(gate_slope(x, one.act, 0.25f), one.high);
        }
        CHECK(one.act == activation_none || float_is_nan(gate_slope(NAN, one.act, 0.25f)));
        CHECK(float_is_nan(gate_factor(NAN, one.act, 0.25f)));
    }
}

// SwiGLU of two halves of a row, and its gradients into one array of the same shape.
TEST(gate_worked_example) {
    const float rows[2][4] = {{0, 1, 2, 3}, {-1, 2, 4, -2}}; // gate, in
    const float out_grad[2][2] = {{1, 2}, {-1, 0.5f}};
    // silu(0, 1, -1, 2) = 0, 0.7310586, -0.2689414, 1.7615942
    const float wanted[4] = {0, 2.1931758f, -1.0757656f, -3.5231884f};
    // their slopes: 0.5, 0.9276705, 0.0723295, 1.0907843
    const float grads[2][4] = {{1, 5.566023f, 0, 1.4621172f},
                               {-0.289318f, -1.0907843f, 0.2689414f, 0.8807971f}};
    const int32_t count = 2;
    float out[4], both[2][4];
    gate_args a = {};
    a.gate = rows[0];
    a.in = rows[0] + 2;
    a.channels = 2;
    a.pitch_in = a.pitch_gate = 4;
    a.act = activation_silu;
    a.count = &count;
    a.capacity = 2;
    a.out = out;
    CHECK_OK(gate_host(&a));
    gate_grad_args g = {};
    g.gate = a;
    g.gate.out = nullptr;
    g.out_grad = out_grad;
    g.gate_grad = both[0];
    g.in_grad = both[0] + 2;
    CHECK_OK(gate_grad_host(&g));
    for (int i = 0; i < 4; ++i) {
        CHECK(fabsf(out[i] - wanted[i]) < 1e-6f);
        CHECK(fabsf(both[0][i] - grads[0][i]) < 1e-6f && fabsf(both[1][i] - grads[1][i]) < 1e-6f);
    }
}

TEST(gate_refuses) {
    float in[8] = {}, by[8] = {}, out[8], more[8];
    int32_t count = 1;
    gate_args good = {};
    good.in = in;
    good.gate = by;
    good.channels = 4;
    good.count = &count;
    good.capacity = 1;
    good.out = out;
    CHECK_OK(gate(&good, nullptr));
    CHECK_STATUS(gate(nullptr, nullptr), status_null_pointer);
    const std::vector<refusal<gate_args>> all = {
        {status_null_pointer, [](gate_args *a) { a->gate = nullptr; }},
        {status_null_pointer, [](gate_args *a) { a->out = nullptr; }},
        {status_null_pointer, [](gate_args *a) { a->count = nullptr; }},
        {status_alignment, [](gate_args *a) { a->in = (const char *)a->in + 2; }},
        {status_alignment, [](gate_args *a) { a->out = (char *)a->out + 1; }},
        {status_bad_size, [](gate_args *a) { a->channels = 0; }},
        {status_bad_size, [](gate_args *a) { a->capacity = 0; }},
        {status_bad_size, [](gate_args *a) { a->pitch_in = 3; }},
        {status_bad_size, [](gate_args *a) { a->pitch_gate = -4; }},
        {status_bad_size, [](gate_args *a) { a->pitch_out = 1; }},
        {status_unsupported, [](gate_args *a) { a->type = numeric_i8; }},
        {status_unsupported, [](gate_args *a) { a->act = activation_count; }},
        {status_unsupported, [](gate_args *a) { a->act = (activation)-1; }},
        {status_unsupported,
         [](gate_args *a) {
             a->out = (void *)a->in;
             a->pitch_in = 5;
         }},
        {status_unsupported, [](gate_args *a) {
             a->out = (void *)a->gate;
             a->pitch_out = 8;
         }}};
    for (const refusal<gate_args> &one : all) {
        gate_args a = good;
        one.spoil(&a);
        CHECK_STATUS(gate_host(&a), one.code);
        CHECK_STATUS(gate(&a, nullptr), one.code);
    }
    gate_args vast = good; // more thread blocks than a launch has
    vast.channels = INT32_MAX;
    vast.capacity = INT32_MAX;
    CHECK_STATUS(gate(&vast, nullptr), status_bad_size);

    gate_grad_args grad = {};
    grad.gate = good;
    grad.gate.out = nullptr;
    grad.out_grad = in;
    grad.in_grad = out;
    grad.gate_grad = more;
    CHECK_OK(gate_grad(&grad, nullptr));
    CHECK_STATUS(gate_grad(nullptr, nullptr), status_null_pointer);
    const std::vector<refusal<gate_grad_args>> others = {
        {status_null_pointer, [](gate_grad_args *a) { a->out_grad = nullptr; }},
        {status_null_pointer, [](gate_grad_args *a) { a->gate.gate = nullptr; }},
        {status_null_pointer, [](gate_grad_args *a) { a->in_grad = a->gate_grad = nullptr; }},
        {status_alignment, [](gate_grad_args *a) { a->in_grad = (char *)a->in_grad + 2; }},
        {status_alignment, [](gate_grad_args *a) { a->gate_grad = (char *)a->gate_grad + 2; }},
        {status_bad_size, [](gate_grad_args *a) { a->gate.pitch_out = 2; }},
        {status_unsupported, [](gate_grad_args *a) { a->gate.out = a->in_grad; }},
        {status_unsupported, [](gate_grad_args *a) { a->gate.in = nullptr; }},
        {status_unsupported, [](gate_grad_args *a) { a->gate_grad = a->in_grad; }},
        {status_unsupported, [](gate_grad_args *a) {
             a->gate_grad = (void *)a->out_grad;
             a->gate.pitch_out = 8;
         }}};
    for (const refusal<gate_grad_args> &one : others) {
        gate_grad_args a = grad;
        one.spoil(&a);
        CHECK_STATUS(gate_grad_host(&a), one.code);
        CHECK_STATUS(gate_grad(&a, nullptr), one.code);
    }
}

} // namespace
