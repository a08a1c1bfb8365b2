// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/support/gates.h: random rows for the tests of gate.h, their results and gradients in
// double, and runs on either side.
#ifndef SPIRA_TESTS_GATES_H
#define SPIRA_TESTS_GATES_H

#include "memory.h"
#include "reference.h"

#include "../../spira/gate.h"

struct gate_side {
    const test_memory *memory;
    spira::status (*run)(const spira::gate_args *);
    spira::status (*grad)(const spira::gate_grad_args *);
};

// Where an output goes: to an array of its own, or onto one that is read.
enum gate_onto { gate_onto_none, gate_onto_in, gate_onto_gate, gate_onto_grad };

struct gate_problem {
    spira::gate_args args; // without pointers
    int32_t count;
    std::vector<float> in, gate,
        out_grad;            // [capacity, channels] as stored; in: empty where there is none
    gate_onto onto;          // gate_onto_grad: of gradients alone
    bool in_grad, gate_grad; // which of them are wanted
    int offset;              // elements by which the arrays are off 16 bytes
};

inline gate_problem gate_random(random_state *r) {
    using namespace spira;
    gate_problem p = {};
    const int some[] = {1, 3, 8, 16, 64, 72, 300};
    gate_args &a = p.args;
    a.channels = random_int(r, 0, 1) ? some[random_int(r, 0, 6)] : random_int(r, 1, 80);
    a.type = (numeric)random_int(r, numeric_f32, numeric_bf16);
    a.act = (activation)random_int(r, 0, activation_count - 1);
    a.slope = a.act == activation_leaky ? 0.1f : 0;
    a.capacity = random_int(r, 1, 90);
    p.count = random_int(r, 0, a.capacity + 1);
    p.offset = random_int(r, 0, 3) == 0;
    p.onto = (gate_onto)random_int(r, gate_onto_none, gate_onto_grad);
    const bool pitched = random_int(r, 0, 1);
    for (int *pitch : {&a.pitch_in, &a.pitch_gate, &a.pitch_out}) {
        const int more = random_int(r, 0, 2) ? random_int(r, 0, 3) * 8 : random_int(r, 0, 9);
        *pitch = pitched && random_int(r, 0, 3) ? a.channels + more : 0;
    }
    const int64_t values = (int64_t)a.capacity * a.channels;
    const bool alone = random_int(r, 0, 3) == 0;
    const float scale = random_int(r, 0, 1) ? 2.0f : 12.0f;
    p.in.resize(alone ? 0 : (size_t)values);
    p.gate.resize((size_t)values);
    p.out_grad.resize((size_t)values);
    reference_random_values(r, a.type, 3, (int64_t)p.in.size(), p.in.data());
    reference_random_values(r, a.type, scale, values, p.gate.data());
    reference_random_values(r, a.type, 3, values, p.out_grad.data());
    p.in_grad = !alone && random_int(r, 0, 3);
    p.gate_grad = !p.in_grad || random_int(r, 0, 3);
    if (alone && p.onto == gate_onto_in) {
        p.onto = gate_onto_none;
    }
    return p;
}

// Outputs that lie on another array have its pitch.
inline void gate_align(gate_problem *p, bool grad) {
    spira::gate_args &a = p->args;
    if (!grad) {
        a.pitch_out = p->onto == gate_onto_in     ? a.pitch_in
                      : p->onto == gate_onto_gate ? a.pitch_gate
                                                  : a.pitch_out;
    } else if (p->onto == gate_onto_grad) {
        (p->in_grad ? a.pitch_in : a.pitch_gate) = a.pitch_out;
    }
}

// ---- in double ----------------------------------------------------------------------------------

// An activation and its slope, as textbooks have them.
struct gate_reference {
    double value, slope;
};

inline gate_reference gate_reference_of(double x, spira::activation act, double slope) {
    const double sigmoid = 1 / (1 + exp(-x)), k = sqrt(2 / M_PI);
    const double normal = erfc(-x / sqrt(2.0)) / 2;
    const double t = tanh(k * (x + 0.044715 * x * x * x));
    switch (act) {
    case spira::activation_relu:
        return {x > 0 ? x : 0.0, x > 0 ? 1.0 : 0.0};
    case spira::activation_leaky:
        return {x > 0 ? x : slope * x, x > 0 ? 1.0 : slope};
    case spira::activation_silu:
        return {x * sigmoid, sigmoid * (1 + x * (1 - sigmoid))};
    case spira::activation_gelu:
        return {x * normal, normal + x * exp(-x * x / 2) / sqrt(2 * M_PI)};
    case spira::activation_gelu_tanh:
        return {x / 2 * (1 + t),
                (1 + t) / 2 + x / 2 * (1 - t * t) * k * (1 + 3 * 0.044715 * x * x)};
    default:
        return {x, 1};
    }
}

// Whether a number that was stored is `times * f`, where f is an activation or a slope that may be
// off by `error`.
inline bool gate_near(spira::numeric type, double got, double times, double f, double error) {
    const double wanted = times * f, steps = 4 * 0x1p-24; // of fp32
    const double off = fabs(times) * error + fabs(wanted) * steps;
    const double subnormal = type == spira::numeric_f16 ? 0x1p-24 : 0x1p-126;
    return fabs(got - wanted) <=
           off + spira::numeric_epsilon(type) * (fabs(wanted) + off) + subnormal;
}

inline double gate_slope_error(spira::activation act) {
    return act > spira::activation_leaky ? 0x1p-19 : 0;
}

// ---- on a side ----------------------------------------------------------------------------------

// An array with its gaps, which a side must leave as they are.
struct gate_array {
    char *at;
    int64_t pitch; // elements
};

// Rows of features `pitch` apart, `offset` elements into their buffer; 7 between them, and
// everywhere without features.
inline gate_array gate_put(const test_memory *m, const gate_problem *p, const std::vector<float> &v,
                           int pitch) {
    using namespace spira;
    const int64_t channels = p->args.channels, apart = pitch ? pitch : channels;
    const size_t size = (size_t)numeric_size(p->args.type), skip = (size_t)p->offset * size;
    // behind the last row nothing is allocated
    const int64_t all = (p->args.capacity - 1) * apart + channels;
    std::vector<float> spread((size_t)all, 7.0f);
    for (size_t i = 0; i < v.size(); ++i) {
        spread[(size_t)((int64_t)i / channels * apart + (int64_t)i % channels)] = v[i];
    }
    std::vector<char> stored(skip + spread.size() * size);
    reference_store(p->args.type, spread.data(), all, stored.data() + skip);
    return {memory_put(m, stored) + skip, apart};
}

// The arguments of a problem in the memory of a side; `out` for forward alone.
inline spira::gate_args gate_place_args(const test_memory *m, const gate_problem *p, bool forward) {
    spira::gate_args a = p->args;
    a.in = p->in.empty() ? nullptr : gate_put(m, p, p->in, a.pitch_in).at;
    a.gate = gate_put(m, p, p->gate, a.pitch_gate).at;
    a.count = memory_put(m, &p->count, 1);
    if (forward) {
        a.out = p->onto == gate_onto_in     ? (void *)a.in
                : p->onto == gate_onto_gate ? (void *)a.gate
                                            : gate_put(m, p, {}, a.pitch_out).at;
    }
    return a;
}

// All bytes of an array that was put.
inline std::vector<char> gate_get(const test_memory *m, const gate_problem *p, const void *at,
                                  int pitch) {
    const int64_t apart = pitch ? pitch : p->args.channels;
    const int64_t all = (p->args.capacity - 1) * apart + p->args.channels;
    return memory_get(m, (const char *)at, all * spira::numeric_size(p->args.type));
}

// Calls body(element of the arrays without gaps, what was written there); whatever is not of a row
// must be as it was.
template <typename F>
void gate_judge(const gate_problem *p, const std::vector<char> &before,
                const std::vector<char> &after, int pitch, F body) {
    using namespace spira;
    const int64_t channels = p->args.channels, apart = pitch ? pitch : channels;
    const size_t size = (size_t)numeric_size(p->args.type);
    const int32_t count = count_clamp(p->count, p->args.capacity);
    bool kept = true, good = true;
    for (size_t i = 0; i < after.size() / size; ++i) {
        const int64_t row = (int64_t)i / apart, c = (int64_t)i % apart;
        if (row < count && c < channels) {
            good = good && body((size_t)(row * channels + c),
                                (double)numeric_load(p->args.type, after.data(), (int64_t)i));
        } else {
            kept = kept && !memcmp(&before[i * size], &after[i * size], size);
        }
    }
    CHECK(kept);
    CHECK(good);
}

// What a side makes, all bytes. Frees all buffers.
inline std::vector<char> gate_test(const gate_problem *p, const gate_side *side, bool judge) {
    using namespace spira;
    const test_memory *m = side->memory;
    const gate_args a = gate_place_args(m, p, true);
    const std::vector<char> before = gate_get(m, p, a.out, a.pitch_out);
    CHECK_OK(side->run(&a));
    const std::vector<char> after = gate_get(m, p, a.out, a.pitch_out);
    gate_judge(p, before, after, a.pitch_out, [&](size_t i, double got) {
        const gate_reference by = gate_reference_of(p->gate[i], a.act, (double)a.slope);
        return !judge || gate_near(a.type, got, p->in.empty() ? 1.0 : p->in[i], by.value,
                                   activation_error(a.act) * fabs(p->gate[i]));
    });
    guarded_finish();
    return after;
}

// Both gradients, one behind the other.
inline std::vector<char> gate_test_grad(const gate_problem *p, const gate_side *side, bool judge) {
    using namespace spira;
    const test_memory *m = side->memory;
    gate_grad_args g = {};
    g.gate = gate_place_args(m, p, false);
    const gate_args &a = g.gate;
    g.out_grad = gate_put(m, p, p->out_grad, a.pitch_out).at;
    const auto output = [&](bool wanted, bool first, const void *own, int pitch) -> void * {
        return !wanted                              ? nullptr
               : first && p->onto == gate_onto_grad ? (void *)g.out_grad
               : p->onto == gate_onto_in || p->onto == gate_onto_gate
                   ? (void *)own
                   : gate_put(m, p, {}, pitch).at;
    };
    g.in_grad = output(p->in_grad, true, a.in, a.pitch_in);
    g.gate_grad = output(p->gate_grad, !p->in_grad, a.gate, a.pitch_gate);
    const auto all = [&](const void *at, int pitch) {
        return at ? gate_get(m, p, at, pitch) : std::vector<char>();
    };
    const std::vector<char> before[] = {all(g.in_grad, a.pitch_in), all(g.gate_grad, a.pitch_gate)};
    CHECK_OK(side->grad(&g));
    std::vector<char> after[] = {all(g.in_grad, a.pitch_in), all(g.gate_grad, a.pitch_gate)};
    const auto of = [&](size_t i) { return gate_reference_of(p->gate[i], a.act, (double)a.slope); };
    gate_judge(p, before[0], after[0], a.pitch_in, [&](size_t i, double got) {
        return !judge || gate_near(a.type, got, p->out_grad[i], of(i).value,
                                   activation_error(a.act) * fabs(p->gate[i]));
    });
    gate_judge(p, before[1], after[1], a.pitch_gate, [&](size_t i, double got) {
        const double in = p->in.empty() ? 1.0 : p->in[i];
        return !judge ||
               gate_near(a.type, got, p->out_grad[i] * in, of(i).slope, gate_slope_error(a.act));
    });
    guarded_finish();
    after[0].insert(after[0].end(), after[1].begin(), after[1].end());
    return after[0];
}

// Random rows on a side: within the bound of the reference, and bit for bit those of the host loop
// where only products are rounded.
inline void gate_check_random(uint64_t seed, int cases, const gate_side *side) {
    const gate_side host = {&memory_host, spira::gate_host, spira::gate_grad_host};
    random_state r = random_make(seed);
    for (int i = 0; i < cases; ++i) {
        const bool grad = i % 2;
        gate_problem p = gate_random(&r);
        gate_align(&p, grad);
        const auto run = grad ? gate_test_grad : gate_test;
        const std::vector<char> got = run(&p, side, true);
        CHECK(p.args.act > spira::activation_leaky || got == run(&p, &host, false));
    }
}

#endif
