// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/dry/layers.cu: convolutions and weight gradients of random layers, cut in random ways, on
// random GPUs: all variants of their kernels must come up.
#include "../../spira/conv_grad.cuh"
#include "../../spira/conv_linear.cuh"
#include "../../spira/conv_pairs.cuh"

#include "../support/test.h"
#include "launches.h"

using namespace spira;

namespace {

// Device memory, which is not touched; now and then unaligned to all but `size` bytes.
struct arrays {
    random_state *r;
    uintptr_t next = (uintptr_t)1 << 46;

    char *at(int size) {
        next += (uintptr_t)1 << 33;
        return (char *)next + (size && random_int(r, 0, 9) == 0 ? size : 0);
    }
    template <typename T>
    operator T *() {
        return (T *)at(0);
    }
};

int one_of(random_state *r, std::initializer_list<int> all) {
    return all.begin()[random_int(r, 0, (int)all.size() - 1)];
}

int channels_random(random_state *r) {
    return one_of(r, {random_int(r, 1, 40), random_int(r, 1, 600), 16 * random_int(r, 1, 20),
                      one_of(r, {4, 8, 16, 32, 64, 96, 128, 192, 256, 512})});
}

numeric type_random(random_state *r) {
    return (numeric)one_of(r, {numeric_f16, numeric_bf16, numeric_tf32, numeric_f32, numeric_i8});
}

conv_epilogue epilogue_random(random_state *r, arrays &any) {
    conv_epilogue e = {};
    e.bias = random_int(r, 0, 1) ? (float *)any : nullptr;
    e.scale = random_int(r, 0, 1) ? (float *)any : nullptr;
    e.residual = random_int(r, 0, 1) ? any.at(4) : nullptr;
    e.act = (activation)one_of(
        r, {activation_none, activation_relu, random_int(r, 0, activation_count - 1)});
    e.slope = e.act == activation_leaky ? 0.1f : 0.0f;
    return e;
}

// int8 layers always have formats of their own.
conv_quantisation formats_random(random_state *r, arrays &any, const conv_args &a) {
    const bool i8 = a.shape.type == numeric_i8;
    conv_quantisation q = {};
    q.step = i8 ? (float *)any : nullptr;
    if (i8 || random_int(r, 0, 2) == 0) {
        q.mixed = true;
        q.out_type = type_random(r);
        q.out_inverse = q.out_type == numeric_i8 ? 2.0f : 0.0f;
        q.residual_type = a.epilogue.residual ? type_random(r) : (numeric)0;
        q.residual_scale = a.epilogue.residual && q.residual_type == numeric_i8 ? 2.0f : 0.0f;
    }
    return q;
}

status run_conv(random_state *r, const launch_on &on, const conv_shape &s) {
    arrays any = {r};
    workspace w = workspace_begin(any);
    const order_layout order = order_layout_take(&w, on.rows, s.volume);
    const conv_map map =
        s.volume > 1 ? conv_map_of_order(&order, any, on.rows) : conv_map_identity(any, on.rows);
    conv_args a = {};
    a.shape = s;
    a.map = &map;
    a.in = any.at(4);
    a.in2 = s.cin2 ? any.at(4) : nullptr;
    a.weights = any.at(0);
    a.epilogue = epilogue_random(r, any);
    a.out = any.at(4);
    a.quantisation = formats_random(r, any, a);
    const int cin2 = random_int(r, 0, 2) ? 0 : channels_random(r);
    const conv_shortcut shortcut = {
        channels_random(r), cin2,    any.at(4), cin2 ? any.at(4) : nullptr,
        (const char *)any,  nullptr, nullptr,   nullptr};
    if (random_int(r, 0, 1) && conv_shortcut_takes(&s, on.gpu)) {
        a.shortcut = &shortcut;
    }
    conv_sizes sizes = conv_sizes_choose(&s, on.rows, on.gpu);
    sizes.tiles = one_of(r, {1, 2, sizes.tiles});
    sizes.slices = one_of(r, {1, 2, 3, 4, 8, 8, sizes.slices});
    sizes.split = one_of(r, {1, 2, 2, 4, 8, sizes.split});
    if (random_int(r, 0, 3) && conv_sizes_fit(&s, on.gpu, &sizes)) {
        a.sizes = &sizes;
    }
    return s.type == numeric_i8 ? conv_linear<numeric_i8, true, true>(on.gpu, &a, on.stream)
                                : conv_linear<numeric_any, true, true>(on.gpu, &a, on.stream);
}

status run_pairs(random_state *r, const launch_on &on, const conv_shape &s) {
    arrays any = {r};
    conv_pairs_args a = {};
    a.shape = s;
    a.in = any.at(4);
    a.in2 = s.cin2 ? any.at(4) : nullptr;
    a.weights = any.at(0);
    a.pairs = {any, any, any, 20 * on.rows};
    a.sides = s.volume % 2 ? (pairs_sides)random_int(r, 0, 2) : pairs_sides_one;
    a.count = any;
    a.capacity = on.rows;
    a.out = any.at(4);
    a.form = (pairs_form)random_int(r, 0, 1);
    return conv_pairs_run(on.gpu, &a, any.at(0), (size_t)1 << 50, on.stream);
}

status run_grad(random_state *r, const launch_on &on, const conv_shape &s) {
    arrays any = {r};
    conv_grad_weight_args a = {};
    a.shape = s;
    a.in = any.at(4);
    a.in2 = s.cin2 ? any.at(4) : nullptr;
    a.out_grad = any.at(4);
    a.pairs = {any, any, any, 20 * on.rows};
    a.sides = s.volume % 2 && s.volume > 1 ? (pairs_sides)random_int(r, 0, 2) : pairs_sides_one;
    a.count = any;
    a.capacity = on.rows;
    a.weight_grad = any;
    return conv_grad_weight(on.gpu, &a, any.at(0), (size_t)1 << 50, on.stream);
}

} // namespace

void launch_layer_random(uint64_t seed, const device_info *gpu) {
    random_state r = random_make(seed);
    const launch_on on = {gpu, type_random(&r), one_of(&r, {1, 40, 300, 3000, 20000, 400000}),
                          nullptr};
    const conv_shape s = {one_of(&r, {1, 2, 8, 9, 27, 27, 64, 125, 343, 1331}), channels_random(&r),
                          random_int(&r, 0, 2) ? 0 : channels_random(&r), channels_random(&r),
                          on.type};
    if (on.type == numeric_i8 && conv_products(&s) > conv_i8_products_max / 2) {
        return; // refused with its shortcut
    }
    CHECK_OK(run_conv(&r, on, s));
    if (on.type != numeric_i8 && seed % 3 == 0) { // few variants
        CHECK_OK(run_pairs(&r, on, s));
        CHECK_OK(run_grad(&r, on, s));
    }
}
