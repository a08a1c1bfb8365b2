// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/support/emulate_i8.h: int8 layers (i8_problems.h) whose kernel is emulated.
//
// K, the kernel that a test is about, has
//   kernel                                its conv_kernel
//   device                                a GPU whose layers it computes
//   static status run(params, layer)      launches it
//   static status run<mixed>(tag, params) launches it in a floating-point format
#ifndef SPIRA_TESTS_EMULATE_I8_H
#define SPIRA_TESTS_EMULATE_I8_H

#include "emulate_layers.h"
#include "i8_problems.h"

namespace problems {

// A layer, and how it is run.
struct i8_layer {
    i8_problem problem;
    conv_sizes sizes;
    int depth;     // stages of the ring; 0: as many as fit
    int off;       // elements between each array's first and an aligned address
    bool in_place; // the residual is the array of the outputs, where both have one format
    uint64_t seed;
};

// A copy of an array, `off` elements from an aligned address, and 4 elements behind it that read as
// NaN, or as -1: nothing is added up from there.
template <typename T>
T *i8_put(const std::vector<T> &values, size_t off, size_t behind) {
    char *to = guarded_new<char>((int64_t)((values.size() + off + behind) * sizeof(T)));
    memset(to, 0xff, (values.size() + off + behind) * sizeof(T));
    std::copy(values.begin(), values.end(), (T *)to + off);
    return (T *)to + off;
}

inline const float *i8_vector_put(const std::vector<float> &values, int off) {
    return values.empty() ? nullptr : i8_put(values, (size_t)off, 0);
}

// Packed weights. shortcut: of the shortcut of a layer of this kernel.
template <typename K>
const void *i8_weights_put(const i8_problem *p, const i8_operands *o, bool shortcut) {
    const conv_i8_weights w = i8_weights_of(p, o, shortcut ? 1 : p->shape.volume);
    const size_t bytes = shortcut
                             ? conv_shortcut_packed_bytes(&p->shape, K::kernel, o->cin, o->cin2)
                             : conv_packed_bytes(&w.shape, K::kernel);
    conv_weights given = {};
    given.weight = o->weight.data();
    given.packed = guarded_new<char>((int64_t)bytes);
    given.packed_bytes = bytes;
    given.trouble = &weights_trouble;
    given.step = p->step.data();
    given.scale_in = o->scale_in;
    given.scale_in2 = o->scale_in2;
    CHECK_OK(conv_pack_check(&w.shape, &given, bytes));
    const conv_pack_request r = conv_pack_request_of(&K::device, &w.shape, K::kernel, &given);
    const numeric_tag<numeric_i8> tag;
    CHECK_OK(shortcut ? conv_pack_shortcut(tag, &p->shape, &r, nullptr)
                      : conv_pack_as(tag, &r, nullptr));
    return given.packed;
}

// The map of a problem in an ordered layout, in random order.
inline conv_map i8_map_put(const i8_problem *p) {
    const int32_t *count = array_put(std::vector<int32_t>(1, p->outputs));
    if (p->map.empty()) {
        return conv_map_identity(count, std::max(p->outputs, 1));
    }
    problems::problem like = {};
    like.shape = p->shape;
    like.inputs = p->inputs;
    like.outputs = p->outputs;
    like.map = p->map;
    return map_put(&like, count);
}

// Runs a layer and returns its outputs.
template <typename K>
std::vector<char> i8_layer_run(const i8_layer *l) {
    const i8_problem *p = &l->problem;
    const size_t off = (size_t)l->off, beyond = (size_t)p->shape.cin + (size_t)p->shape.cin2;
    late.clear();
    auto features = [&](const std::vector<int8_t> &v) {
        int8_t *const to = v.empty() ? nullptr : i8_put(v, off, beyond);
        if (to) {
            late.push_back({(char *)to, v.size(), {}});
        }
        return to;
    };
    conv_args a = {};
    a.shape = p->shape;
    a.in = features(p->own.in);
    a.in2 = features(p->own.in2);
    a.weights = i8_weights_put<K>(p, &p->own, false);
    a.epilogue = {i8_vector_put(p->own.bias, l->off),
                  i8_vector_put(p->scale, l->off),
                  i8_vector_put(p->own.shift, l->off),
                  nullptr,
                  p->act,
                  p->slope};
    a.quantisation = i8_quantisation(p);
    a.quantisation.step = i8_vector_put(p->step, l->off);
    const conv_map map = i8_map_put(p);
    a.map = &map;
    const i8_operands *s = &p->shortcut;
    const conv_shortcut shortcut = {s->cin,
                                    s->cin2,
                                    features(s->in),
                                    features(s->in2),
                                    s->cin ? i8_weights_put<K>(p, s, true) : nullptr,
                                    i8_vector_put(s->bias, l->off),
                                    nullptr,
                                    i8_vector_put(s->shift, l->off)};
    a.shortcut = s->cin ? &shortcut : nullptr;
    const size_t size = (size_t)numeric_size(p->out_type), used = i8_out_bytes(p);
    char *const all = guarded_new<char>((int64_t)(used + off * size)), *out = all + off * size;
    late.push_back({all, used + off * size, {}});
    a.out = out;
    if (p->has_residual && l->in_place && p->residual_type == p->out_type) {
        std::copy(p->residual.begin(), p->residual.end(), out);
        a.epilogue.residual = out;
    } else if (p->has_residual) {
        const size_t move = off * (size_t)numeric_size(p->residual_type);
        char *const to = i8_put(p->residual, move, 0);
        late.push_back({to, p->residual.size(), {}});
        a.epilogue.residual = to;
    }
    a.programmatic = l->seed % 4 > 1;
    CHECK_OK(conv_check(&K::device, &a));
    device_info gpu = K::device;
    gpu.programmatic = true;
    conv_params t = conv_params_of(&gpu, &a, K::kernel);
    t.sizes = l->sizes;
    emulate::seed = l->seed;
    emulate::previous = {previous_begins, previous_ends};
    CHECK_OK(K::run(t, l));
    emulate::previous = {};
    const std::vector<char> got(out, out + used);
    CHECK(guarded_untouched(all, 0, (int64_t)(off * size)));
    guarded_finish();
    return got;
}

// Whether a layer's outputs are those of the loop that judges, to the bit.
template <typename K>
bool i8_layer_check(const i8_layer *l, const std::vector<char> &want) {
    const std::vector<char> got = i8_layer_run<K>(l);
    return test_check(i8_compare(&l->problem, got.data(), want) == 0, __FILE__, __LINE__,
                      i8_name(&l->problem));
}

// Layers of all formats, each cut in a third of the ways that there are; some arrays are not
// aligned.
template <typename K>
void i8_layers_check(std::initializer_list<conv_shape> shapes) {
    random_state r = random_make(48);
    uint64_t turn = 0;
    for (i8_wish w : i8_wishes(shapes)) {
        const bool shortcuts = conv_shortcut_takes(&w.shape, &K::device);
        w.shortcut = shortcuts ? w.shortcut : 0;
        w.shortcut2 = shortcuts ? w.shortcut2 : 0;
        i8_layer l = {i8_problem_random(&r, &w, 150, 290, 3), {}, 0, 0, false, 0};
        const std::vector<char> want = i8_reference(&l.problem);
        conv_sizes sizes[conv_sizes_most];
        const int count = conv_sizes_list(&w.shape, &K::device, sizes);
        for (int i = 0; i < count; ++i) {
            if (random_int(&r, 0, test_quick() ? 6 : 2)) {
                continue;
            }
            l.sizes = sizes[i];
            l.seed = ++turn;
            l.off = turn % 3 ? 0 : random_int(&r, 1, 9);
            l.in_place = random_int(&r, 0, 1);
            REQUIRE(i8_layer_check<K>(&l, want));
        }
    }
}

// ---- floating-point layers whose residual or output has another format --------------------------

// Formats of a run, and the residual's values in units of its scale.
struct mixed_case {
    conv_quantisation q;
    std::vector<float> residual; // empty: none
};

// The outputs of a layer, in the format of the case. mixed: by the kernels for that.
template <typename K, bool mixed>
std::vector<char> mixed_run(const layer *l, const mixed_case *c) {
    const problem *p = &l->joined.main;
    late.clear();
    layer_args a;
    args_put<K>(l, &a);
    a.args.quantisation = c->q;
    const numeric out = conv_out_type(&p->shape, &c->q),
                  from = conv_residual_type(&p->shape, &c->q);
    const int64_t bytes = (int64_t)p->outputs * p->shape.cout * numeric_size(out);
    char *to = guarded_new<char>(bytes);
    a.args.out = to;
    if (!c->residual.empty()) {
        a.args.epilogue.residual = array_put(features_store(from, c->residual));
    }
    CHECK_OK(conv_check(&K::device, &a.args));
    conv_params t = conv_params_of(&K::device, &a.args, K::kernel);
    t.sizes = l->sizes;
    emulate::seed = l->seed;
    CHECK_OK(numeric_dispatch<numeric_any>(
        p->shape.type, [&](auto tag) { return K::template run<mixed>(tag, t); }));
    const std::vector<char> got(to, to + bytes);
    guarded_finish();
    return got;
}

// Every format of the output is the one rounding of what the fp32 output holds.
template <typename K>
void mixed_check(numeric type, uint64_t seed, int cin, int cout) {
    random_state random = random_make(seed);
    layer l = layer_of(&random, shape_make(9, cin, 0, cout, type), {100, 150, 0}, 30, 0,
                       with_scale | with_bias);
    l.joined.main.act = (activation)(seed % 3);
    l.joined.main.slope = 0.1f;
    l.sizes = conv_sizes_choose(&l.joined.main.shape, 150, &K::device);
    l.sizes.split = 1; // Hopper's kernels for other formats are not split
    l.sizes.tiles = 1;
    l.seed = seed;
    const size_t total = (size_t)(l.joined.main.outputs * l.joined.main.shape.cout);
    std::vector<float> integers(total), values(total);
    for (size_t i = 0; i < total; ++i) {
        integers[i] = (float)random_int(&random, -128, 127);
        values[i] = integers[i] / 16;
    }
    const numeric i8 = numeric_i8, f32 = numeric_f32, f16 = numeric_f16;
    for (const mixed_case &c : {mixed_case{{nullptr, true, f32, f32, 0, 0}, {}},
                                mixed_case{{nullptr, true, f32, f32, 0, 0}, values},
                                mixed_case{{nullptr, true, f16, f32, 0, 0}, values},
                                mixed_case{{nullptr, true, numeric_bf16, f32, 0, 0}, values},
                                mixed_case{{nullptr, true, i8, f32, 1.0f / 16, 0}, integers}}) {
        const std::vector<char> wide = mixed_run<K, true>(&l, &c);
        if (!c.residual.empty()) { // the same values in any format
            const mixed_case same = {{nullptr, true, f32, f32, 0, 0}, values};
            CHECK((mixed_run<K, true>(&l, &same) == wide));
        }
        for (numeric out : {i8, seed % 4 > 1 ? f16 : numeric_bf16, type}) {
            mixed_case own = c;
            own.q.out_type = out;
            own.q.out_inverse = out == i8 ? 9.0f : 0.0f;
            std::vector<char> want(total * (size_t)numeric_size(out));
            for (size_t i = 0; i < total; ++i) {
                const float f = numeric_load(f32, wide.data(), (int64_t)i);
                numeric_store(out, want.data(), (int64_t)i, out == i8 ? f * 9.0f : f);
            }
            CHECK((mixed_run<K, true>(&l, &own) == want));
            if (out == type && c.q.residual_type != i8) { // and the kernels that have one format
                own.q = {};
                CHECK((mixed_run<K, false>(&l, &own) == want));
            }
        }
    }
}

} // namespace problems

#endif
