// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/support/norms.h: random rows for the tests of norm.h, their results and gradients in
// double, and runs on either side.
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
    spira::status (*grad)(const spira::norm_grad_args *, void *scratch, size_t bytes);
    spira::status (*grad_workspace)(const spira::norm_grad_args *, size_t *bytes);
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
    const norm_side host = {&memory_host, spira::norm_host, nullptr, nullptr};
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

// ---- gradients ----------------------------------------------------------------------------------

// Of a row, in double, and how far off an element may be; adds up the gradients of gain and shift,
// and how far off these may be.
struct norm_slopes {
    std::vector<double> row, bound;                 // [channels]
    std::vector<double> gain, shift, gain_far, far; // [channels]; far: of shift
};

inline void norm_grad_reference(const norm_problem *p, int64_t row, const float *out_grad,
                                norm_slopes *to) {
    using namespace spira;
    const norm_args &a = p->args;
    const int n = a.channels;
    const float *in = p->in.data() + row * n, *y = out_grad + row * n;
    double mean = 0, squares = 0, all = 0, product = 0;
    const auto gain = [&](int c) { return p->gain.empty() ? 1.0 : p->gain[(size_t)c]; };
    for (int c = 0; c < n && a.kind == norm_layer; ++c) {
        mean += in[c] / (double)n;
        all += y[c] * gain(c) / n;
    }
    for (int c = 0; c < n; ++c) {
        squares += (in[c] - mean) * (in[c] - mean) / n;
    }
    const double scale = 1 / sqrt(squares + (double)a.epsilon);
    for (int c = 0; c < n; ++c) {
        product += y[c] * gain(c) * (in[c] - mean) * scale / n;
    }
    const double each = 1e-5 + 1e-6 * scale; // what a sum and the mean's rounding make of x^
    for (size_t c = 0; c < (size_t)n; ++c) {
        const double x = (in[c] - mean) * scale;
        to->row[c] = (y[c] * gain((int)c) - all - x * product) * scale;
        to->bound[c] =
            numeric_epsilon(a.type) * fabs(to->row[c]) * 1.01 + scale * (1 + fabs(x)) * each;
        to->gain[c] += y[c] * x;
        to->gain_far[c] += fabs(y[c]) * (1 + fabs(x)) * each;
        to->shift[c] += y[c];
        to->far[c] += fabs(y[c]) * 1e-6;
    }
}

// Gradients of a problem on a side: within the bounds of the reference, and nothing is written
// behind the count. Frees all buffers.
inline void norm_check_grad(random_state *r, const norm_problem *p, const norm_side *side) {
    using namespace spira;
    const test_memory *m = side->memory;
    norm_grad_args a = {};
    a.norm = p->args;
    a.norm.act = activation_none;
    a.norm.in = norm_put(m, p, p->in);
    a.norm.gain = p->gain.empty() ? nullptr : memory_put(m, p->gain);
    a.norm.count = memory_put(m, &p->count, 1);
    std::vector<float> out_grad(p->in.size());
    reference_random_values(r, p->args.type, 1, (int64_t)out_grad.size(), out_grad.data());
    const size_t channels = (size_t)p->args.channels;
    a.out_grad = norm_put(m, p, out_grad);
    a.in_grad =
        p->in_place ? (void *)a.out_grad : norm_put(m, p, std::vector<float>(p->in.size(), 7));
    a.gain_grad = random_int(r, 0, 3) ? memory_new<float>(m, (int64_t)channels) : nullptr;
    a.shift_grad = random_int(r, 0, 3) ? memory_new<float>(m, (int64_t)channels) : nullptr;
    const int64_t row = (int64_t)channels * numeric_size(p->args.type);
    const std::vector<char> before = memory_get(m, (const char *)a.in_grad, p->args.capacity * row);
    size_t bytes = 0;
    CHECK_OK(side->grad_workspace(&a, &bytes));
    CHECK_OK(side->grad(&a, memory_new<char>(m, (int64_t)bytes), bytes));
    const std::vector<char> got = memory_get(m, (const char *)a.in_grad, p->args.capacity * row);
    const int32_t count = count_clamp(p->count, p->args.capacity);
    CHECK(!memcmp(got.data() + count * row, before.data() + count * row,
                  (size_t)((p->args.capacity - count) * row)));

    const std::vector<double> zeros(channels);
    norm_slopes wanted = {zeros, zeros, zeros, zeros, zeros, zeros};
    for (int32_t i = 0; i < count; ++i) {
        norm_grad_reference(p, i, out_grad.data(), &wanted);
        for (size_t c = 0; c < channels; ++c) {
            const double x = numeric_load(p->args.type, got.data(), i * (int64_t)channels + c);
            CHECK(fabs(x - wanted.row[c]) <= wanted.bound[c]);
        }
    }
    const auto vector = [&](const float *made, const std::vector<double> &of,
                            const std::vector<double> &far) {
        const std::vector<float> all =
            made ? memory_get(m, made, (int64_t)channels) : std::vector<float>();
        for (size_t c = 0; c < all.size(); ++c) {
            CHECK(fabs(all[c] - of[c]) <= far[c]);
        }
    };
    vector(a.gain_grad, wanted.gain, wanted.gain_far);
    vector(a.shift_grad, wanted.shift, wanted.far);
    guarded_finish();
}

inline void norm_check_grad_random(uint64_t seed, int cases, const norm_side *side) {
    random_state r = random_make(seed);
    for (int i = 0; i < cases; ++i) {
        const norm_problem p = norm_random(&r);
        norm_check_grad(&r, &p, side);
    }
}

#endif
