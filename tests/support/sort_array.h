// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/support/sort_array.h: a source of the sort (index/sort_source.cuh): words in memory; and
// the stable sort that its results are compared with.
#ifndef SPIRA_TESTS_SORT_ARRAY_H
#define SPIRA_TESTS_SORT_ARRAY_H

#include "../../spira/index/sort.cuh"

#include <algorithm>
#include <vector>

namespace spira {

template <typename W>
struct sort_array {
    const W *words; // [rows]
};

template <typename W>
SPIRA_DEVICE int32_t sort_rows(const sort_array<W> &) {
    return INT32_MAX;
}

template <typename W>
SPIRA_DEVICE W sort_load(const sort_array<W> &from, int32_t row) {
    return from.words[row];
}

template <typename W>
SPIRA_DEVICE W sort_word(const sort_array<W> &, W loaded, int32_t, int32_t, bool) {
    return loaded;
}

} // namespace spira

// The rows of words in the order of a stable sort.
template <typename W>
std::vector<int32_t> sort_wanted(const std::vector<W> &words) {
    std::vector<int32_t> wanted(words.size());
    for (size_t i = 0; i < wanted.size(); ++i) {
        wanted[i] = (int32_t)i;
    }
    std::stable_sort(wanted.begin(), wanted.end(),
                     [&](int32_t a, int32_t b) { return words[(size_t)a] < words[(size_t)b]; });
    return wanted;
}

#endif
