// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/host/group.cpp: conv_group.h against sums in double, and its kernels, run on the host,
// against the host loops.
#include "../support/emulate_mma.h"
#include "../support/emulate_numeric.h"

#include "../support/groups.h"

#define group_memory hopper_dynamic
#include "../../spira/conv_group.cuh"

using namespace spira;

namespace {

const group_side by_kernel = {
    &memory_host, [](const conv_group_args *a) { return conv_group(a, nullptr); },
    [](const conv_group_grad_args *a, const test_memory *m) {
        size_t bytes = 0;
        SPIRA_TRY(conv_group_grad_workspace(&a->shape, a->capacity, &bytes));
        return conv_group_grad_weight(a, memory_new<char>(m, (int64_t)bytes), bytes, nullptr);
    }};

TEST(group_emulated_random) {
    group_check_random(1, test_quick() ? 15 : 60, &by_kernel);
}

// All offsets of a kernel of 15, of which each output has a few.
TEST(group_emulated_large_kernel) {
    random_state r = random_make(2);
    const group_problem p = group_make(&r, {3375, 16, 1, 1, 9, 2}, numeric_f16);
    group_check(&p, &by_kernel);
}

// On tensor cores: more offsets than a warp keeps of the map, several slices and passes.
TEST(group_emulated_tensor_cores) {
    random_state r = random_make(5);
    numeric type = numeric_f16;
    for (const group_wish &w : {group_wish{2, 1, 16, 16, 530, 40},
                                {27, 2, 32, 64, 40, 30},
                                {40, 1, 64, 32, 30, 20},
                                {40, 2, 48, 16, 20, 50}}) {
        const group_problem p = group_make(&r, w, type);
        group_check(&p, &by_kernel);
        type = type == numeric_f16 ? numeric_bf16 : numeric_f16;
    }
}

// The host's weight gradient.
TEST(group_host_gradient) {
    random_state r = random_make(3);
    const group_side host = {&memory_host, nullptr,
                             [](const conv_group_grad_args *a, const test_memory *) {
                                 return conv_group_grad_weight_host(a);
                             }};
    for (int i = 0; i < 20; ++i) {
        group_problem p = group_random(&r);
        p.shape.type = numeric_f32;
        CHECK(group_judge_grad(&p, group_run_grad(&p, &host)));
    }
}

// Groups of one are a convolution: conv_host's sums.
TEST(group_of_all_is_a_convolution) {
    random_state r = random_make(4);
    group_problem p = group_make(&r, {8, 1, 5, 7, 20, 60}, numeric_f32);
    p.order = conv_weights_own;
    p.residual.clear();
    const group_side host = {&memory_host, conv_group_host, nullptr};
    const std::vector<char> out = group_run(&p, &host);
    const conv_host_args a = {{8, 5, 0, 7, numeric_f32}, p.in.data(),  nullptr,
                              p.weight.data(),           p.map.data(), p.outputs};
    conv_epilogue e = p.epilogue;
    e.bias = p.bias.empty() ? nullptr : p.bias.data();
    e.scale = p.scale.empty() ? nullptr : p.scale.data();
    e.shift = p.shift.empty() ? nullptr : p.shift.data();
    std::vector<float> wanted(20 * 7);
    CHECK_OK(conv_host(&a, &e, wanted.data()));
    for (size_t i = 0; i < wanted.size(); ++i) {
        CHECK(fabsf(numeric_load(numeric_f32, out.data(), (int64_t)i) - wanted[i]) < 1e-4f);
    }
}

// The input gradient, as a convolution of out_grad over the map of the other direction, and the
// sums of the layer say the same: <out_grad, layer(in)> = <in_grad, in>.
TEST(group_input_gradient_is_the_adjoint) {
    for (uint64_t seed = 1; seed < 9; ++seed) {
        random_state r = random_make(seed);
        const bool depthwise = seed % 2;
        group_problem p =
            group_make(&r, {27, 6, depthwise ? 1 : 3, depthwise ? 1 : 2, 30, 40}, numeric_f32);
        p.order = conv_weights_own;
        p.epilogue.act = activation_none;
        std::vector<int32_t> back((size_t)p.inputs * 27, -1);
        for (size_t at = 0; at < (size_t)p.outputs * 27; ++at) { // one output an input and offset
            int32_t *const i = &p.map[at];
            if (*i >= 0 && back[(size_t)*i * 27 + at % 27] < 0) {
                back[(size_t)*i * 27 + at % 27] = (int32_t)(at / 27);
            } else {
                *i = -1;
            }
        }
        std::vector<float> out((size_t)p.capacity * (size_t)p.shape.cout), grad(p.in.size());
        conv_group_args a = {};
        a.shape = p.shape;
        a.in = p.in.data();
        a.weight = p.weight.data();
        a.map = p.map.data();
        a.count = &p.outputs;
        a.capacity = p.capacity;
        a.out = out.data();
        CHECK_OK(conv_group_host(&a));
        a.shape.cin = p.shape.cout;
        a.shape.cout = p.shape.cin;
        a.in = p.out_grad.data();
        a.order = conv_weights_of_layer;
        a.map = back.data();
        a.count = &p.inputs;
        a.capacity = p.inputs;
        a.out = grad.data();
        CHECK_OK(conv_group_host(&a));
        double forth = 0, back_sum = 0;
        for (size_t i = 0; i < (size_t)p.outputs * (size_t)p.shape.cout; ++i) {
            forth += (double)out[i] * p.out_grad[i];
        }
        for (size_t i = 0; i < grad.size(); ++i) {
            back_sum += (double)grad[i] * p.in[i];
        }
        CHECK(fabs(forth - back_sum) < 1e-4 * (1 + fabs(forth)));
    }
}

TEST(conv_group_refuses) {
    float in[8] = {}, out[8], weight[64] = {}, vector[8] = {};
    int32_t map[2] = {0, 1}, count = 2;
    conv_group_args good = {};
    good.shape = {1, 4, 4, 4, numeric_f32};
    good.in = in;
    good.weight = weight;
    good.map = map;
    good.count = &count;
    good.capacity = 2;
    good.epilogue.bias = vector;
    good.out = out;
    CHECK_OK(conv_group(&good, nullptr));
    CHECK(conv_group(nullptr, nullptr).code == status_null_pointer);
    CHECK(conv_group_host(nullptr).code == status_null_pointer);
    CHECK(conv_group_grad_weight(nullptr, nullptr, 0, nullptr).code == status_null_pointer);
    const struct {
        void (*spoil)(conv_group_args *);
        status_code code;
        const char *subject;
    } bad[] = {
        {[](conv_group_args *a) { a->in = nullptr; }, status_null_pointer, "in"},
        {[](conv_group_args *a) { a->weight = nullptr; }, status_null_pointer, "weight"},
        {[](conv_group_args *a) { a->map = nullptr; }, status_null_pointer, "map"},
        {[](conv_group_args *a) { a->count = nullptr; }, status_null_pointer, "count"},
        {[](conv_group_args *a) { a->out = nullptr; }, status_null_pointer, "out"},
        {[](conv_group_args *a) { a->out = (void *)a->in; }, status_unsupported, "out"},
        {[](conv_group_args *a) { a->shape.groups = 0; }, status_bad_size, "shape.groups"},
        {[](conv_group_args *a) { a->shape.groups = 3; }, status_bad_size, "shape.groups"},
        {[](conv_group_args *a) { a->shape.cout = 6; }, status_bad_size, "shape.groups"},
        {[](conv_group_args *a) { a->shape.cin = 4097; }, status_bad_size, "shape.cin"},
        {[](conv_group_args *a) { a->shape.volume = 0; }, status_bad_size, "shape.volume"},
        {[](conv_group_args *a) { a->shape.type = numeric_i8; }, status_unsupported, "shape.type"},
        {[](conv_group_args *a) { a->order = (conv_weights_order)3; }, status_unsupported, "order"},
        {[](conv_group_args *a) { a->epilogue.act = activation_count; }, status_unsupported,
         "epilogue.act"},
        {[](conv_group_args *a) { a->epilogue.bias = (float *)((char *)a->epilogue.bias + 1); },
         status_alignment, "epilogue"},
        {[](conv_group_args *a) { a->capacity = -1; }, status_bad_size, "capacity"},
    };
    for (const auto &one : bad) {
        conv_group_args a = good;
        one.spoil(&a);
        const status s = conv_group(&a, nullptr);
        CHECK(s.code == one.code && strstr(s.subject, one.subject) == s.subject);
    }
    conv_group_grad_args grad = {good.shape, in, in, map, &count, 2, nullptr};
    CHECK(conv_group_grad_weight(&grad, nullptr, 0, nullptr).code == status_null_pointer);
}

} // namespace
