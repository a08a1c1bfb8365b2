// tests/support/sort_array.h: a source of the sort (index/sort_source.cuh): words in memory.
#ifndef SPIRA_TESTS_SORT_ARRAY_H
#define SPIRA_TESTS_SORT_ARRAY_H

#include "../../spira/index/sort.cuh"

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

#endif
