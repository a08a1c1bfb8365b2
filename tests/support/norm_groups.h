// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/support/norm_groups.h: random features for the tests of norm_groups.h, and their result in
// double by a table of batch elements.
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
};

// One problem: judged in double; nothing is written behind the count. Frees all buffers.
template <typename W>
void norm_groups_check_random(random_state *r, const norm_groups_side<W> *side) {
    using namespace spira;
    const test_memory *m = side->memory;
    const int batches = random_int(r, 1, 4), width = random_int(r, 1, 12);
    norm_groups_args<W> a = {};
    a.groups = random_int(r, 0, 2) ? random_int(r, 1, 9) : 40 / width + 1;
    a.channels = random_int(r, 0, 1) ? a.groups * 8 : a.groups * width;
    a.type = (numeric)random_int(r, numeric_f32, numeric_bf16);
    a.epsilon = 1e-5f;
    a.act = random_int(r, 0, 1) ? activation_relu : activation_none;
    const word_layout layout =
        reference_layout<W>({-9, 0, 0}, {9, 20, 6}, batches, {1, 1, 1}, {1, 1, 1});
    std::vector<W> words = set_random<W>(r, &layout, {-9, 0, 0}, {9, 20, 6},
                                         random_int(r, 0, 4) * random_int(r, 0, 200));
    const int32_t count = (int32_t)words.size();
    set_pad(&words, count + random_int(r, count == 0, 9));
    const int64_t values = (int64_t)words.size() * a.channels;
    std::vector<float> in((size_t)values), gain((size_t)a.channels), shift = gain;
    reference_random_values(r, a.type, 1, values, in.data());
    reference_random_values(r, numeric_f32, 1, a.channels, gain.data());
    reference_random_values(r, numeric_f32, 1, a.channels, shift.data());
    const float mean = (float)random_int(r, -3, 3);
    for (float &x : in) {
        x = numeric_stored(a.type, x + mean);
    }
    std::vector<char> stored((size_t)(values * numeric_size(a.type)));
    reference_store(a.type, in.data(), values, stored.data());
    const bool affine = random_int(r, 0, 2) > 0, in_place = random_int(r, 0, 1);
    const bool adds = random_int(r, 0, 1);
    a.layout = &layout;
    a.set = {memory_put(m, words), memory_put(m, &count, 1), (int32_t)words.size()};
    a.gain = affine ? memory_put(m, gain) : nullptr;
    a.shift = affine ? memory_put(m, shift) : nullptr;
    a.in = memory_put(m, stored);
    a.residual = adds ? memory_put(m, stored) : nullptr;
    char *const fresh = memory_new<char>(m, (int64_t)stored.size());
    a.out = in_place ? (void *)a.in : fresh;
    size_t bytes = 0;
    CHECK_OK(side->workspace(&a, &bytes));
    CHECK_OK(side->run(&a, memory_new<char>(m, (int64_t)bytes), bytes));
    const int64_t used = (int64_t)count * a.channels * numeric_size(a.type);
    const std::vector<char> out = memory_get(m, (const char *)a.out, used);
    CHECK(in_place || memory_untouched(m, fresh, used, (int64_t)stored.size()));
    std::map<std::pair<int, int>, std::array<double, 3>> sums; // of batch element and group
    const int per = a.channels / a.groups;
    for (int pass = 0; pass < 3; ++pass) {
        for (int64_t i = 0; i < (int64_t)count * a.channels; ++i) {
            const int c = (int)(i % a.channels);
            const voxel v = word_unpack<W>(&layout, words[(size_t)(i / a.channels)]);
            std::array<double, 3> &s = sums[{v.batch, c / per}];
            const double x = in[(size_t)i], center = pass ? s[1] / s[0] : 0;
            s[0] += pass == 0;
            s[1] += pass == 0 ? x : 0;
            s[2] += pass == 1 ? (x - center) * (x - center) : 0;
            if (pass == 2) {
                double y = (x - center) / sqrt(s[2] / s[0] + (double)a.epsilon);
                y = affine ? y * gain[(size_t)c] + shift[(size_t)c] : y;
                y += adds ? x : 0;
                y = a.act == activation_relu ? std::max(y, 0.0) : y;
                const double error = fabs(numeric_load(a.type, out.data(), i) - y);
                CHECK(error <= numeric_epsilon(a.type) * fabs(y) * 1.01 + 1e-4);
            }
        }
    }
    guarded_finish();
}

#endif
