// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/support/norms.h: random rows for the tests of norm.h, their result in double, and runs on
// either side.
#ifndef SPIRA_TESTS_NORMS_H
#define SPIRA_TESTS_NORMS_H

#include "memory.h"
#include "reference.h"

#include "../../spira/norm.h"

struct norm_problem {
    spira::norm_args args; // without pointers
    int32_t count;
    std::vector<float> in, residual; // as stored; residual: empty where there is none
    std::vector<float> gain, shift;  // empty: none
    bool in_place;                   // `out` is the residual, or else `in`
    int offset;                      // elements by which the arrays are off 16 bytes
};

inline norm_problem norm_random(random_state *r) {
    using namespace spira;
    norm_problem p = {};
    const int some[] = {1, 3, 8, 64, 72, 96, 256, 300, 1024, 1100, 4096};
    p.args.channels = random_int(r, 0, 1) ? some[random_int(r, 0, 10)] : random_int(r, 1, 80);
    p.args.type = (numeric)random_int(r, numeric_f32, numeric_bf16);
    p.args.kind = (norm_kind)random_int(r, 0, 1);
    p.args.epsilon = random_int(r, 0, 1) ? 1e-5f : 1e-6f;
    p.args.act = (activation)random_int(r, activation_none, activation_leaky);
    p.args.slope = 0.1f;
    p.args.capacity = random_int(r, 1, p.args.channels > 400 ? 9 : 90);
    p.count = random_int(r, 0, p.args.capacity + 1);
    p.in_place = random_int(r, 0, 1);
    p.offset = random_int(r, 0, 3) == 0;
    const int64_t values = (int64_t)p.args.capacity * p.args.channels;
    p.in.resize((size_t)values);
    reference_random_values(r, p.args.type, 1, values, p.in.data());
    const float mean = (float)random_int(r, -2, 2);
    for (float &x : p.in) {
        x = numeric_stored(p.args.type, x + mean);
    }
    if (random_int(r, 0, 1)) {
        p.residual.resize((size_t)values);
        reference_random_values(r, p.args.type, 1, values, p.residual.data());
    }
    for (std::vector<float> *v : {&p.gain, &p.shift}) {
        if (random_int(r, 0, 1)) {
            v->resize((size_t)p.args.channels);
            reference_random_values(r, numeric_f32, 1, p.args.channels, v->data());
        }
    }
    return p;
}

// A row in double, with the textbook's formula.
inline void norm_reference(const norm_problem *p, int64_t row, double *out) {
    using namespace spira;
    const norm_args &a = p->args;
    const float *in = p->in.data() + row * a.channels;
    double mean = 0, variance = 0;
    for (int c = 0; c < a.channels && a.kind == norm_layer; ++c) {
        mean += in[c] / (double)a.channels;
    }
    for (int c = 0; c < a.channels; ++c) {
        variance += (in[c] - mean) * (in[c] - mean) / a.channels;
    }
    for (int c = 0; c < a.channels; ++c) {
        double x = (in[c] - mean) / sqrt(variance + (double)a.epsilon);
        x = x * (p->gain.empty() ? 1 : p->gain[(size_t)c]) +
            (p->shift.empty() ? 0 : p->shift[(size_t)c]);
        x += p->residual.empty() ? 0 : p->residual[(size_t)(row * a.channels + c)];
        out[c] = a.act == activation_none    ? x
                 : x > 0                     ? x
                 : a.act == activation_leaky ? x * (double)a.slope
                                             : 0;
    }
}

inline bool norm_judge(const norm_problem *p, const std::vector<char> &out) {
    using namespace spira;
    std::vector<double> wanted((size_t)p->args.channels);
    bool good = true;
    for (int32_t i = 0; i < count_clamp(p->count, p->args.capacity); ++i) {
        norm_reference(p, i, wanted.data());
        for (int c = 0; c < p->args.channels; ++c) {
            const double got =
                numeric_load(p->args.type, out.data(), (int64_t)i * p->args.channels + c);
            const double error = fabs(got - wanted[(size_t)c]);
            good = good &&
                   error <= numeric_epsilon(p->args.type) * fabs(wanted[(size_t)c]) * 1.01 + 2e-5;
        }
    }
    return test_check(good, __FILE__, __LINE__, "normalised rows");
}

struct norm_side {
    const test_memory *memory;
    spira::status (*run)(const spira::norm_args *);
};

// Features as stored, `offset` elements into their buffer.
inline char *norm_put(const test_memory *m, const norm_problem *p, const std::vector<float> &v) {
    using namespace spira;
    const size_t size = (size_t)numeric_size(p->args.type), skip = (size_t)p->offset * size;
    std::vector<char> stored(skip + v.size() * size);
    reference_store(p->args.type, v.data(), (int64_t)v.size(), stored.data() + skip);
    return memory_put(m, stored) + skip;
}

// The rows up to the count; those behind it are as they were. Frees all buffers.
inline std::vector<char> norm_run(const norm_problem *p, const norm_side *side) {
    using namespace spira;
    const test_memory *m = side->memory;
    norm_args a = p->args;
    const int64_t row = (int64_t)a.channels * numeric_size(a.type), rows = a.capacity;
    a.in = norm_put(m, p, p->in);
    a.residual = p->residual.empty() ? nullptr : norm_put(m, p, p->residual);
    a.gain = p->gain.empty() ? nullptr : memory_put(m, p->gain);
    a.shift = p->shift.empty() ? nullptr : memory_put(m, p->shift);
    a.count = memory_put(m, &p->count, 1);
    a.out = a.residual ? (void *)a.residual : (void *)a.in;
    a.out = p->in_place ? a.out : norm_put(m, p, std::vector<float>(p->in.size(), 7));
    const std::vector<char> before = memory_get(m, (const char *)a.out, rows * row);
    CHECK_OK(side->run(&a));
    std::vector<char> out = memory_get(m, (const char *)a.out, rows * row);
    const int64_t there = count_clamp(p->count, a.capacity) * row;
    CHECK(!memcmp(out.data() + there, before.data() + there, (size_t)(rows * row - there)));
    guarded_finish();
    out.resize((size_t)there);
    return out;
}

inline std::vector<char> norm_by_host(const norm_problem *p) {
    const norm_side host = {&memory_host, spira::norm_host};
    return norm_run(p, &host);
}

// Random rows on a side: within the bound of the reference, and bit for bit those of the host loop.
inline void norm_check_random(uint64_t seed, int cases, const norm_side *side) {
    random_state r = random_make(seed);
    for (int i = 0; i < cases; ++i) {
        const norm_problem p = norm_random(&r);
        const std::vector<char> out = norm_run(&p, side);
        CHECK(norm_judge(&p, out));
        CHECK(out == norm_by_host(&p));
    }
}

#endif
