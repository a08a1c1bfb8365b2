// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/support/choices.h: sets and scores for the tests of choose.h, what is chosen of them by
// plain counting, and runs on either side.
#ifndef SPIRA_TESTS_CHOICES_H
#define SPIRA_TESTS_CHOICES_H

#include "memory.h"
#include "sets.h"

#include "../../spira/choose.h"

#include <set>

template <typename W>
struct choices_problem {
    spira::word_layout layout;
    std::vector<W> words, other; // [capacity]
    int32_t count, others;
    spira::choose_largest_args<W> largest; // without pointers, but for the layout
    std::vector<float> scores;             // as stored
    bool absent;
};

template <typename W>
choices_problem<W> choices_random(random_state *r, int32_t most) {
    using namespace spira;
    choices_problem<W> p = {};
    const triple lo = {-3, 0, -2}, hi = {9, 14, 6};
    p.layout = reference_layout<W>(lo, hi, random_int(r, 1, 4), {1, 1, 1}, {1, 1, 1});
    const auto some = [&](std::vector<W> *words, int32_t *count) {
        *words = set_random<W>(r, &p.layout, lo, hi, random_int(r, 0, most));
        *count = (int32_t)words->size();
        set_pad(words, *count + random_int(r, *count == 0, 9));
    };
    some(&p.words, &p.count);
    some(&p.other, &p.others);
    p.absent = random_int(r, 0, 1);
    p.largest.type = (numeric)random_int(r, numeric_f32, numeric_bf16);
    p.largest.channels = random_int(r, 1, 5);
    p.largest.channel = random_int(r, 0, p.largest.channels - 1);
    p.largest.most = random_int(r, 1, random_int(r, 0, 1) ? most : 9);
    p.scores.resize(p.words.size() * (size_t)p.largest.channels);
    const bool odd = random_int(r, 0, 1);
    for (float &score : p.scores) {
        const float odds[] = {NAN, INFINITY, -INFINITY, -0.0f, 0};
        score = (float)random_int(r, -20, 20) / 4; // many are equal
        score = odd && random_int(r, 0, 4) == 0 ? odds[random_int(r, 0, 4)] : score;
    }
    return p;
}

template <typename W>
struct choices_outcome {
    std::vector<uint8_t> largest, members;
    spira::device_status trouble;
};

// How many voxels of its batch element stand before each: larger, or equal and in front of it.
template <typename W>
choices_outcome<W> choices_expected(const choices_problem<W> *p) {
    using namespace spira;
    choices_outcome<W> o = {};
    const auto score = [&](int32_t i) {
        return p->scores[(size_t)(i * p->largest.channels + p->largest.channel)];
    };
    const auto batch = [&](int32_t i) {
        return word_unpack<W>(&p->layout, p->words[(size_t)i]).batch;
    };
    const std::set<W> others(p->other.begin(), p->other.begin() + p->others);
    for (int32_t i = 0; i < p->count; ++i) {
        int before = 0;
        for (int32_t j = 0; j < p->count; ++j) {
            before +=
                batch(j) == batch(i) && (score(j) > score(i) || (score(j) == score(i) && j < i));
        }
        const bool number = score(i) == score(i);
        if (!number) {
            device_status_note(&o.trouble, device_flag_not_finite, (uint32_t)i);
        }
        o.largest.push_back(number && before < p->largest.most);
        o.members.push_back((others.count(p->words[(size_t)i]) > 0) != p->absent);
    }
    return o;
}

template <typename W>
struct choices_side {
    const test_memory *memory;
    spira::status (*bytes)(const spira::choose_largest_args<W> *, size_t *);
    spira::status (*largest)(const spira::choose_largest_args<W> *, void *, size_t);
    spira::status (*members)(const spira::choose_members_args<W> *);
};

// Frees all buffers.
template <typename W>
choices_outcome<W> choices_run(const choices_problem<W> *p, const choices_side<W> *side) {
    using namespace spira;
    const test_memory *m = side->memory;
    const device_status clear = {};
    const int64_t capacity = (int64_t)p->words.size();
    size_t bytes = 0;
    std::vector<char> stored(p->scores.size() * (size_t)numeric_size(p->largest.type));
    reference_store(p->largest.type, p->scores.data(), (int64_t)p->scores.size(), stored.data());
    choose_largest_args<W> a = p->largest;
    a.layout = &p->layout;
    a.set.words = memory_put(m, p->words);
    a.set.count = memory_put(m, &p->count, 1);
    a.set.capacity = (int32_t)capacity;
    a.scores = memory_put(m, stored);
    a.mask = memory_new<uint8_t>(m, capacity);
    a.trouble = memory_put(m, &clear, 1);
    CHECK_OK(side->bytes(&a, &bytes));
    CHECK_OK(side->largest(&a, memory_new<char>(m, (int64_t)bytes), bytes));
    choose_members_args<W> b = {};
    b.set = a.set;
    b.other.words = memory_put(m, p->other);
    b.other.count = memory_put(m, &p->others, 1);
    b.other.capacity = (int32_t)p->other.size();
    b.absent = p->absent;
    b.mask = memory_new<uint8_t>(m, capacity);
    b.trouble = a.trouble;
    CHECK_OK(side->members(&b));
    choices_outcome<W> o = {};
    o.trouble = memory_value(m, a.trouble);
    o.largest = memory_get(m, a.mask, p->count);
    o.members = memory_get(m, b.mask, p->count);
    CHECK(memory_untouched(m, a.mask, p->count, capacity));
    CHECK(memory_untouched(m, b.mask, p->count, capacity));
    guarded_finish();
    return o;
}

template <typename W>
void choices_check_random(uint64_t seed, int cases, int32_t most, const choices_side<W> *side) {
    random_state r = random_make(seed);
    for (int i = 0; i < cases; ++i) {
        const choices_problem<W> p = choices_random<W>(&r, most);
        const choices_outcome<W> got = choices_run(&p, side), wanted = choices_expected(&p);
        CHECK(got.largest == wanted.largest);
        CHECK(got.members == wanted.members);
        CHECK(!memcmp(&got.trouble, &wanted.trouble, sizeof got.trouble));
    }
}

#endif
