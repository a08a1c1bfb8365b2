// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/support/radix.h: words for the tests of the radix sort, the order that they shall have, and
// one run in memory of either side.
#ifndef SPIRA_TESTS_RADIX_H
#define SPIRA_TESTS_RADIX_H

#include "memory.h"

#include "../../spira/index/radix.cuh"

#include <algorithm>

using namespace spira;

enum words_kind {
    words_random,
    words_equal,
    words_ascending,
    words_descending,
    words_few,  // values
    words_high, // bits alone: all lower digits are the same
    words_all_ones,
    words_kinds,
};

template <typename W>
std::vector<W> words_make(random_state *r, words_kind kind, int32_t rows) {
    std::vector<W> words((size_t)rows);
    for (W &w : words) {
        w = (W)random_u64(r);
        w = kind == words_equal      ? (W)0x5a5a5a5a5a5a5a5aull
            : kind == words_few      ? (W)((w % 3) * (W)0x1234567812345678ull)
            : kind == words_high     ? (W)(w % 5 << (8 * sizeof(W) - 3))
            : kind == words_all_ones ? (W) ~(W)0
                                     : w;
    }
    if (kind == words_ascending || kind == words_descending) {
        std::sort(words.begin(), words.end());
    }
    if (kind == words_descending) {
        std::reverse(words.begin(), words.end());
    }
    return words;
}

template <typename W>
std::vector<int32_t> order_wanted(const std::vector<W> &words, int first_bit, int bits) {
    const int width = bits > first_bit ? bits - first_bit : 0;
    const W mask = width >= (int)(8 * sizeof(W)) ? (W) ~(W)0 : (W)(((W)1 << width) - 1);
    std::vector<int32_t> order(words.size());
    for (size_t i = 0; i < order.size(); ++i) {
        order[i] = (int32_t)i;
    }
    auto key = [&](int32_t row) {
        return width ? (W)(words[(size_t)row] >> first_bit) & mask : (W)0;
    };
    std::stable_sort(order.begin(), order.end(),
                     [&](int32_t a, int32_t b) { return key(a) < key(b); });
    return order;
}

// Where a run takes place, and of how much.
struct radix_case {
    const test_memory *memory;
    cudaStream_t stream;
    int first_bit, bits;
    bool with_rows;
    int runs; // in the same scratch, which is not cleared in between
};

// In scratch of exactly what was counted. Fails the test with the first difference.
template <typename W>
void radix_check(const radix_case &c, const std::vector<W> &words, const char *label = "") {
    const test_memory *m = c.memory;
    const int32_t rows = (int32_t)words.size(), room = 77;
    const std::vector<int32_t> wanted = order_wanted(words, c.first_bit, c.bits);
    radix_scratch<W> s;
    workspace w = workspace_begin(nullptr);
    radix_carve(&w, rows, c.with_rows, &s);
    CHECK(s.key == nullptr && s.drawn == nullptr && s.state == nullptr);
    const size_t bytes = w.used;
    w = workspace_begin(memory_new<char>(m, (int64_t)bytes));
    radix_carve(&w, rows, c.with_rows, &s);
    CHECK_EQUAL(w.used, bytes);
    W *sorted = memory_new<W>(m, rows + room);
    int32_t *order = memory_new<int32_t>(m, rows + room);
    for (int run = 0; run < c.runs; ++run) {
        m->put(radix_input(&s, sorted, c.first_bit, c.bits), words.data(),
               words.size() * sizeof(W));
        CHECK_OK(c.with_rows
                     ? radix_sort<true>(&s, sorted, order, c.first_bit, c.bits, c.stream)
                     : radix_sort<false>(&s, sorted, nullptr, c.first_bit, c.bits, c.stream));
        const std::vector<W> got = memory_get(m, sorted, rows);
        const std::vector<int32_t> got_order =
            c.with_rows ? memory_get(m, order, rows) : std::vector<int32_t>();
        char finding[200] = "";
        for (size_t i = 0; i < wanted.size() && !*finding; ++i) {
            const W word = words[(size_t)wanted[i]];
            if (got[i] != word || (c.with_rows && got_order[i] != wanted[i])) {
                snprintf(finding, sizeof finding, "[%zu]: %llx instead of %llx, row %d (%s)", i,
                         (unsigned long long)got[i], (unsigned long long)word, wanted[i], label);
            }
        }
        CHECK_EQUAL(finding, "");
    }
    CHECK(memory_untouched(m, sorted, rows, rows + room));
    CHECK(memory_untouched(m, order, c.with_rows ? rows : 0, rows + room));
    guarded_finish();
}

#endif
