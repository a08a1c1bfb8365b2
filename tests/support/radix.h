// tests/support/radix.h: words for the tests of the radix sort, and the order that they shall have.
#ifndef SPIRA_TESTS_RADIX_H
#define SPIRA_TESTS_RADIX_H

#include "test.h"

#include <algorithm>
#include <vector>

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

#endif
