// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/support/emulate_sort.h: emulate_hopper.h for the kernels of the sort, and these kernels.
#ifndef SPIRA_TESTS_EMULATE_SORT_H
#define SPIRA_TESTS_EMULATE_SORT_H

#include "emulate_hopper.h"

static inline uint32_t min(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}

static inline uint32_t max(uint32_t a, uint32_t b) {
    return a > b ? a : b;
}

static inline int __clzll(long long bits) {
    return bits ? __builtin_clzll((unsigned long long)bits) : 64;
}

namespace spira {

// Dynamic shared memory of split, under the name that the kernel declares.
alignas(16) inline thread_local int4 sort_shared[4096];

} // namespace spira

#include "sort_array.h"

// Words in runs of up to `run` equal ones, in random rows; every `none`-th row has none.
template <typename W>
std::vector<W> words_in_runs(random_state *r, int32_t rows, int run, W apart, int none) {
    std::vector<W> words;
    for (W word = 5; (int32_t)words.size() < rows; word = (W)(word + apart)) {
        const int32_t more =
            (int32_t)spira::min_of(rows - (int32_t)words.size(), random_int(r, 1, run));
        words.insert(words.end(), (size_t)more, word);
    }
    for (int32_t i = rows - 1; i > 0; --i) {
        std::swap(words[(size_t)i], words[(size_t)random_int(r, 0, i)]);
    }
    for (int32_t i = 0; none && i < rows; i += none) {
        words[(size_t)i] = spira::word_none<W>();
    }
    return words;
}

enum { sort_untouched = 77 }; // in the element behind the last of `sorted` and `order`

// Whether a sort has left that order, and nothing behind it. sorted, order: [rows + 1]
template <typename W>
bool sort_is(const std::vector<W> &words, const std::vector<int32_t> &wanted,
             const std::vector<W> &sorted, const std::vector<int32_t> &order) {
    bool good = sorted.back() == (W)sort_untouched && order.back() == sort_untouched;
    for (size_t i = 0; i < wanted.size(); ++i) {
        good = good && order[i] == wanted[i] && sorted[i] == words[(size_t)wanted[i]];
    }
    return good;
}

#endif
