// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/support/groups.h: random layers for the tests of conv_group.h, their results in double, and
// runs on either side.
#ifndef SPIRA_TESTS_GROUPS_H
#define SPIRA_TESTS_GROUPS_H

#include "memory.h"
#include "reference.h"

#include "../../spira/conv_group.h"

struct group_problem {
    spira::conv_group_shape shape;
    spira::conv_weights_order order;
    spira::conv_epilogue epilogue; // without pointers
    int32_t inputs, outputs, capacity;
    std::vector<float> in, residual, out_grad;     // as stored; residual: empty where there is none
    std::vector<float> weight, bias, scale, shift; // the last three: empty, or there
    std::vector<int32_t> map;                      // [capacity, volume]
    bool in_place;                                 // the residual is `out`
    int offset;                                    // elements by which the arrays are off 16 bytes
};

struct group_wish {
    int volume, groups, in, out; // in, out: channels of a group
    int32_t outputs;
    int percent; // of sources that are there
};

inline std::vector<float> group_values(random_state *r, spira::numeric type, int64_t count) {
    std::vector<float> v((size_t)count);
    reference_random_values(r, type, 1, count, v.data());
    return v;
}

inline group_problem group_make(random_state *r, const group_wish &w, spira::numeric type) {
    using namespace spira;
    group_problem p = {};
    p.shape = {w.volume, w.groups, w.groups * w.in, w.groups * w.out, type};
    p.order = (conv_weights_order)random_int(r, 0, 2);
    p.epilogue.act = (activation)random_int(r, activation_none, activation_leaky);
    p.epilogue.slope = 0.1f;
    p.outputs = w.outputs;
    p.inputs = w.outputs / 2 + 1;
    p.capacity = w.outputs + random_int(r, w.outputs ? 0 : 1, 40);
    const int64_t cout = p.shape.cout, all = (int64_t)p.capacity * cout;
    p.in = group_values(r, type, (int64_t)p.inputs * p.shape.cin);
    p.out_grad = group_values(r, type, all);
    p.residual = group_values(r, type, random_int(r, 0, 1) * all);
    p.weight = group_values(r, numeric_f32, conv_group_weights(p.shape));
    for (std::vector<float> *v : {&p.bias, &p.scale, &p.shift}) {
        *v = group_values(r, numeric_f32, random_int(r, 0, 1) * cout);
    }
    p.map.assign((size_t)p.capacity * (size_t)w.volume, 1 << 30); // not read behind the outputs
    for (size_t i = 0; i < (size_t)p.outputs * (size_t)w.volume; ++i) {
        const bool there = random_int(r, 0, 99) < w.percent;
        p.map[i] = there ? random_int(r, 0, p.inputs - 1) : -1;
    }
    p.in_place = random_int(r, 0, 1);
    p.offset = random_int(r, 0, 3) == 0;
    return p;
}

inline group_problem group_random(random_state *r) {
    using namespace spira;
    const bool depthwise = random_int(r, 0, 3);
    const int volumes[] = {1, 8, 27, 33, 125, 343}, widths[] = {64, 72, 96, 200, 384, 520, 1200};
    group_wish w = {volumes[random_int(r, 0, 5)], 0, 1, 1, 0, random_int(r, 0, 100)};
    w.groups = random_int(r, 0, 1) ? widths[random_int(r, 0, 6)] : random_int(r, 1, 70);
    if (!depthwise) {
        const bool tensor = random_int(r, 0, 3) == 0;
        w.in = tensor ? 16 * random_int(r, 1, 4) : random_int(r, 1, 9);
        w.out = tensor ? 16 * random_int(r, 1, 4) : random_int(r, 1, 9);
        w.groups = w.groups % (tensor ? 3 : 12) + 1;
    }
    w.outputs = random_int(r, 0, w.volume > 30 ? 30 : 150);
    return group_make(r, w, (numeric)random_int(r, numeric_f32, numeric_bf16));
}

struct group_side {
    const test_memory *memory;
    spira::status (*run)(const spira::conv_group_args *);
    spira::status (*grad)(const spira::conv_group_grad_args *, const test_memory *);
};

// Features as stored, `offset` elements into their buffer.
inline char *group_put(const test_memory *m, const group_problem *p, const std::vector<float> &v) {
    using namespace spira;
    const size_t size = (size_t)numeric_size(p->shape.type), skip = (size_t)p->offset * size;
    std::vector<char> stored(skip + v.size() * size);
    reference_store(p->shape.type, v.data(), (int64_t)v.size(), stored.data() + skip);
    return memory_put(m, stored) + skip;
}

inline const float *group_floats(const test_memory *m, const std::vector<float> &v) {
    return v.empty() ? nullptr : memory_put(m, v);
}

// The outputs; rows behind them must be as they were. Frees all buffers.
inline std::vector<char> group_run(const group_problem *p, const group_side *side) {
    using namespace spira;
    const test_memory *m = side->memory;
    conv_group_args a = {};
    a.shape = p->shape;
    a.order = p->order;
    a.in = group_put(m, p, p->in);
    a.weight = memory_put(m, p->weight);
    a.map = memory_put(m, p->map);
    a.count = memory_put(m, &p->outputs, 1);
    a.capacity = p->capacity;
    a.epilogue = p->epilogue;
    a.epilogue.bias = group_floats(m, p->bias);
    a.epilogue.scale = group_floats(m, p->scale);
    a.epilogue.shift = group_floats(m, p->shift);
    a.epilogue.residual = p->residual.empty() ? nullptr : group_put(m, p, p->residual);
    const int64_t row = (int64_t)p->shape.cout * numeric_size(p->shape.type);
    a.out = a.epilogue.residual && p->in_place ? (void *)a.epilogue.residual
                                               : group_put(m, p, std::vector<float>(p->out_grad));
    const std::vector<char> before = memory_get(m, (const char *)a.out, p->capacity * row);
    CHECK_OK(side->run(&a));
    std::vector<char> out = memory_get(m, (const char *)a.out, p->capacity * row);
    const size_t there = (size_t)(p->outputs * row);
    CHECK(!memcmp(out.data() + there, before.data() + there, out.size() - there));
    guarded_finish();
    out.resize(there);
    return out;
}

inline std::vector<float> group_run_grad(const group_problem *p, const group_side *side) {
    using namespace spira;
    const test_memory *m = side->memory;
    conv_group_grad_args a = {};
    a.shape = p->shape;
    a.in = group_put(m, p, p->in);
    a.out_grad = group_put(m, p, p->out_grad);
    a.map = memory_put(m, p->map);
    a.count = memory_put(m, &p->outputs, 1);
    a.capacity = p->capacity;
    a.weight_grad = memory_new<float>(m, conv_group_weights(p->shape));
    CHECK_OK(side->grad(&a, m));
    std::vector<float> out = memory_get(m, a.weight_grad, conv_group_weights(p->shape));
    guarded_finish();
    return out;
}

// ---- results in double --------------------------------------------------------------------------
// Written as sums over dense weights [volume, cin, cout], which are 0 between groups.

// Weights of tensor cores are rounded, but where rows are not aligned.
inline bool group_tensor(const group_problem *p) {
    return spira::conv_group_tensor(p->shape) && !p->offset;
}

inline double group_dense_weight(const group_problem *p, int k, int i, int c) {
    using namespace spira;
    const conv_group_shape &s = p->shape;
    const int in = s.cin / s.groups, out = s.cout / s.groups;
    if (i / in != c / out) {
        return 0;
    }
    const int mirrored = p->order == conv_weights_of_layer_mirrored ? s.volume - 1 - k : k;
    const float weight =
        p->weight[(size_t)(p->order == conv_weights_own
                               ? (k * in + i % in) * s.cout + c
                               : (mirrored * out + c % out) * s.cin + i)]; // [k, out, cin]
    return group_tensor(p) ? numeric_operand(s.type, weight) : weight;
}

// Within the bounds of sums in fp32 and of one rounding.
inline bool group_judge(const group_problem *p, const std::vector<char> &out) {
    using namespace spira;
    const conv_group_shape &s = p->shape;
    const double least = s.type == numeric_f16 ? 0x1p-25 : 1e-30; // half of the smallest step
    bool good = true;
    for (int64_t at = 0; at < (int64_t)p->outputs * s.cout; ++at) {
        const int64_t o = at / s.cout;
        const int c = (int)(at % s.cout), in = s.cin / s.groups;
        const int first = c / (s.cout / s.groups) * in;
        double sum = 0, size = 0;
        for (int k = 0; k < s.volume; ++k) {
            const int64_t source = p->map[(size_t)(o * s.volume + k)];
            for (int i = first; i < first + in && source >= 0; ++i) {
                const double x = p->in[(size_t)(source * s.cin + i)];
                sum += x * group_dense_weight(p, k, i, c);
                size += fabs(x * group_dense_weight(p, k, i, c));
            }
        }
        const double scale = p->scale.empty() ? 1 : p->scale[(size_t)c];
        const double bias = p->bias.empty() ? 0 : p->bias[(size_t)c];
        const double shift = p->shift.empty() ? 0 : p->shift[(size_t)c];
        const double residual = p->residual.empty() ? 0 : p->residual[(size_t)at];
        double wanted = (sum + bias) * scale + shift + residual;
        size = (size + fabs(bias)) * fabs(scale) + fabs(shift) + fabs(residual);
        wanted = p->epilogue.act == activation_none || wanted > 0 ? wanted
                 : p->epilogue.act == activation_leaky            ? wanted * 0.1f
                                                                  : 0;
        const double got = numeric_load(s.type, out.data(), at);
        good = good && fabs(got - wanted) <= numeric_epsilon(s.type) * fabs(wanted) * 1.01 +
                                                 (s.volume * in + 8) * 0x1p-24 * size + least;
    }
    return test_check(good, __FILE__, __LINE__, "outputs of groups");
}

inline bool group_judge_grad(const group_problem *p, const std::vector<float> &got) {
    using namespace spira;
    const conv_group_shape &s = p->shape;
    const int64_t in = s.cin / s.groups, out = s.cout / s.groups;
    bool good = true;
    for (int64_t w = 0; w < conv_group_weights(s); ++w) {
        const int64_t c = w % s.cout, i = c / out * in + w / s.cout % in, k = w / s.cout / in;
        double sum = 0, size = 0;
        for (int64_t o = 0; o < p->outputs; ++o) {
            const int64_t source = p->map[(size_t)(o * s.volume + k)];
            if (source >= 0) {
                const double x = (double)p->in[(size_t)(source * s.cin + i)] *
                                 p->out_grad[(size_t)(o * s.cout + c)];
                sum += x;
                size += fabs(x);
            }
        }
        good = good && fabs(got[(size_t)w] - sum) <= (p->outputs + 4) * 0x1p-24 * size + 1e-30;
    }
    return test_check(good, __FILE__, __LINE__, "weight gradients of groups");
}

// ---- checks -------------------------------------------------------------------------------------

// The outputs are good, and those of the host loop to the bit, but for those of tensor cores; these
// and gradients are the same again.
inline void group_check(const group_problem *p, const group_side *side) {
    using namespace spira;
    const group_side host = {&memory_host, conv_group_host, nullptr};
    group_problem floats = *p; // the host loop is in fp32
    floats.shape.type = numeric_f32;
    floats.offset = 0;
    const std::vector<char> out = group_run(p, side), wanted = group_run(&floats, &host);
    std::vector<char> rounded(out.size());
    reference_store(p->shape.type, (const float *)wanted.data(),
                    (int64_t)(wanted.size() / sizeof(float)), rounded.data());
    CHECK(group_judge(p, out));
    CHECK(out == (group_tensor(p) ? group_run(p, side) : rounded));
    const std::vector<float> grad = group_run_grad(p, side);
    CHECK(group_judge_grad(p, grad));
    CHECK(group_run_grad(p, side) == grad);
}

inline void group_check_random(uint64_t seed, int cases, const group_side *side) {
    random_state r = random_make(seed);
    for (int i = 0; i < cases; ++i) {
        const group_problem p = group_random(&r);
        group_check(&p, side);
    }
}

#endif
