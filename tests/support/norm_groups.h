// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/support/norm_groups.h: random features for the tests of norm_groups.h, and results and
// gradients in double by a table of batch elements.
#ifndef SPIRA_TESTS_NORM_GROUPS_H
#define SPIRA_TESTS_NORM_GROUPS_H

#include "memory.h"
#include "sets.h"

#include "../../spira/norm_groups.h"

#include <array>
#include <map>

template <typename W>
struct norm_groups_side {
    const test_memory *memory;
    spira::status (*workspace)(const spira::norm_groups_args<W> *, size_t *);
    spira::status (*run)(const spira::norm_groups_args<W> *, void *, size_t);
    spira::status (*grad_workspace)(const spira::norm_groups_grad_args<W> *, size_t *);
    spira::status (*grad)(const spira::norm_groups_grad_args<W> *, void *, size_t);
};

// What is summed of a batch element and group.
struct norm_groups_sums {
    double n, sum, squares, g, product;
};

// Features, and where they are summed.
template <typename W>
struct norm_groups_problem {
    const spira::word_layout *layout;
    std::vector<W> words; // padded
    int32_t count;
    std::vector<float> in, out_grad, residual, gain, shift;
    std::map<std::pair<int, int>, norm_groups_sums> sums;
};

// Calls body(the sums of its batch element and group, element, channel) for all elements.
template <typename W, typename F>
void norm_groups_each_element(norm_groups_problem<W> *p, int channels, int groups, F body) {
    for (int64_t i = 0; i < (int64_t)p->count * channels; ++i) {
        const int c = (int)(i % channels);
        const spira::voxel v = spira::word_unpack(p->layout, p->words[(size_t)(i / channels)]);
        body(&p->sums[{v.batch, c / (channels / groups)}], (size_t)i, (size_t)c);
    }
}

// An array of features of a type, in the memory of a side.
inline char *norm_groups_put(const test_memory *m, spira::numeric type,
                             const std::vector<float> &values) {
    std::vector<char> stored(values.size() * (size_t)spira::numeric_size(type));
    reference_store(type, values.data(), (int64_t)values.size(), stored.data());
    return memory_put(m, stored);
}

// Features of a type, about `mean`.
inline std::vector<float> norm_groups_values(random_state *r, spira::numeric type, int64_t count,
                                             float mean) {
    std::vector<float> values((size_t)count);
    reference_random_values(r, type, 1, count, values.data());
    for (float &x : values) {
        x = spira::numeric_stored(type, x + mean);
    }
    return values;
}

// Judges the gradients. a: of forward; its residual, activation and output are not those here.
template <typename W>
void norm_groups_check_grad(random_state *r, const norm_groups_side<W> *side,
                            const spira::norm_groups_args<W> &forward, norm_groups_problem<W> *p) {
    using namespace spira;
    const norm_args &a = forward.rows;
    const int groups = forward.groups;
    const test_memory *m = side->memory;
    norm_groups_grad_args<W> b = {};
    b.norm = forward;
    b.norm.rows.residual = b.norm.rows.out = nullptr;
    b.norm.rows.act = activation_none;
    char *const out_grad = norm_groups_put(m, a.type, p->out_grad);
    const int64_t stored = (int64_t)p->out_grad.size() * numeric_size(a.type);
    char *const fresh = memory_new<char>(m, stored);
    const bool in_place = random_int(r, 0, 1), vectors = random_int(r, 0, 3) > 0;
    b.out_grad = out_grad;
    b.in_grad = in_place ? out_grad : fresh;
    b.gain_grad = vectors ? memory_new<float>(m, a.channels) : nullptr;
    b.shift_grad = random_int(r, 0, 3) ? memory_new<float>(m, a.channels) : nullptr;
    size_t bytes = 0;
    CHECK_OK(side->grad_workspace(&b, &bytes));
    CHECK_OK(side->grad(&b, memory_new<char>(m, (int64_t)bytes), bytes));
    const int64_t used = (int64_t)p->count * a.channels * numeric_size(a.type);
    const std::vector<char> got = memory_get(m, (const char *)b.in_grad, used);
    CHECK(in_place || memory_untouched(m, fresh, used, stored));

    typedef norm_groups_sums S;
    const auto scale_of = [&](const S *s) { return 1 / sqrt(s->squares / s->n + a.epsilon); };
    const auto centre = [&](const S *s, size_t i) {
        return (p->in[i] - s->sum / s->n) * scale_of(s);
    };
    const auto gain = [&](size_t c) { return a.gain ? (double)p->gain[c] : 1.0; };
    std::vector<std::array<double, 3>> of((size_t)a.channels); // gain, shift; sum of magnitudes
    norm_groups_each_element(p, a.channels, groups, [&](S *s, size_t i, size_t c) {
        const double g = p->out_grad[i], x = centre(s, i);
        of[c][0] += g * x;
        of[c][1] += g;
        of[c][2] += fabs(g) * (1 + fabs(x));
        s->g += g * gain(c);
        s->product += g * gain(c) * x;
    });
    norm_groups_each_element(p, a.channels, groups, [&](S *s, size_t i, size_t c) {
        const double x = centre(s, i), g = p->out_grad[i] * gain(c);
        const double y = (g - s->g / s->n - x * s->product / s->n) * scale_of(s);
        const double error = fabs(numeric_load(a.type, got.data(), (int64_t)i) - y);
        CHECK(error <=
              numeric_epsilon(a.type) * fabs(y) * 1.01 + 1e-5 * scale_of(s) * (1 + fabs(x)));
    });
    const float *const made[] = {b.gain_grad, b.shift_grad};
    for (size_t v = 0; v < 2; ++v) {
        const std::vector<float> all =
            made[v] ? memory_get(m, made[v], a.channels) : std::vector<float>();
        for (size_t c = 0; c < all.size(); ++c) {
            CHECK(fabs(all[c] - of[c][v]) <= 1e-5 * of[c][2]);
        }
    }
}

// One problem and its gradients: judged in double; nothing is written behind the count. Frees all
// buffers.
template <typename W>
void norm_groups_check_random(random_state *r, const norm_groups_side<W> *side) {
    using namespace spira;
    const test_memory *m = side->memory;
    const int batches = random_int(r, 1, 4), width = random_int(r, 1, 12);
    norm_groups_args<W> args = {};
    norm_args &a = args.rows;
    const int groups = random_int(r, 0, 2) ? random_int(r, 1, 9) : 40 / width + 1;
    a.channels = random_int(r, 0, 1) ? groups * 8 : groups * width;
    a.type = (numeric)random_int(r, numeric_f32, numeric_bf16);
    a.epsilon = 1e-5f;
    a.act = random_int(r, 0, 1) ? activation_relu : activation_none;
    const word_layout layout =
        reference_layout<W>({-9, 0, 0}, {9, 20, 6}, batches, {1, 1, 1}, {1, 1, 1});
    norm_groups_problem<W> p = {};
    p.layout = &layout;
    p.words = set_random<W>(r, &layout, {-9, 0, 0}, {9, 20, 6},
                            random_int(r, 0, 4) * random_int(r, 0, 200));
    p.count = (int32_t)p.words.size();
    set_pad(&p.words, p.count + random_int(r, p.count == 0, 9));
    const int64_t values = (int64_t)p.words.size() * a.channels;
    p.in = norm_groups_values(r, a.type, values, (float)random_int(r, -3, 3));
    p.out_grad = norm_groups_values(r, a.type, values, 0);
    p.residual = norm_groups_values(r, a.type, values, 0);
    p.gain = norm_groups_values(r, numeric_f32, a.channels, 0);
    p.shift = norm_groups_values(r, numeric_f32, a.channels, 0);
    const bool affine = random_int(r, 0, 2) > 0, in_place = random_int(r, 0, 1);
    args.layout = &layout;
    args.groups = groups;
    args.set = {memory_put(m, p.words), memory_put(m, &p.count, 1), (int32_t)p.words.size()};
    a.gain = affine ? memory_put(m, p.gain) : nullptr;
    a.shift = affine ? memory_put(m, p.shift) : nullptr;
    a.residual = random_int(r, 0, 1) ? norm_groups_put(m, a.type, p.residual) : nullptr;
    a.in = norm_groups_put(m, a.type, p.in);
    const int64_t stored = values * numeric_size(a.type);
    char *const fresh = memory_new<char>(m, stored);
    a.out = in_place ? (void *)a.in : fresh;

    typedef norm_groups_sums S;
    norm_groups_each_element(&p, a.channels, groups, [&](S *s, size_t i, size_t) {
        s->n += 1;
        s->sum += p.in[i];
    });
    norm_groups_each_element(&p, a.channels, groups, [&](S *s, size_t i, size_t) {
        s->squares += pow(p.in[i] - s->sum / s->n, 2);
    });
    norm_groups_check_grad(r, side, args, &p);
    size_t bytes = 0;
    CHECK_OK(side->workspace(&args, &bytes));
    CHECK_OK(side->run(&args, memory_new<char>(m, (int64_t)bytes), bytes));
    const int64_t used = (int64_t)p.count * a.channels * numeric_size(a.type);
    const std::vector<char> out = memory_get(m, (const char *)a.out, used);
    CHECK(in_place || memory_untouched(m, fresh, used, stored));
    norm_groups_each_element(&p, a.channels, groups, [&](S *s, size_t i, size_t c) {
        double y = (p.in[i] - s->sum / s->n) / sqrt(s->squares / s->n + (double)a.epsilon);
        y = (affine ? y * p.gain[c] + p.shift[c] : y) + (a.residual ? p.residual[i] : 0.0f);
        y = a.act == activation_relu ? std::max(y, 0.0) : y;
        const double error = fabs(numeric_load(a.type, out.data(), (int64_t)i) - y);
        CHECK(error <= numeric_epsilon(a.type) * fabs(y) * 1.01 + 1e-4);
    });
    guarded_finish();
}

#endif
