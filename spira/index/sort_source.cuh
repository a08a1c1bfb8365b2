// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/index/sort_source.cuh: where the sort (sort.cuh) gets its words from.
//
// The sort makes words where it needs them: sample for the samples, split for all rows. A source is
// a struct, passed to kernels by value, with three functions:
//
//   int32_t sort_rows(source)              how many rows exist; later rows are not loaded
//   raw sort_load(source, row)             reads what the row's word is made of
//   W sort_word(source, raw, row, exist, report)  makes the word; exist: what sort_rows returned.
//                                          Rows behind it get word_none(). report: this is the one
//                                          call per row that may record errors
//
// Reading is separate from making, so that all loads of a thread are in flight at once.
// voxel/source.cuh has sources that pack points and coordinates.
#ifndef SPIRA_INDEX_SORT_SOURCE_CUH
#define SPIRA_INDEX_SORT_SOURCE_CUH

#include "../config.h"
#include "sort_shape.h"

namespace spira {

// Rows of a thread whose loads are in flight.
template <typename source, int most>
struct sort_loading {
    decltype(sort_load(*(const source *)nullptr, 0)) loaded[most];
    int32_t row[most];
    int32_t rows, there;
};

// Starts the loads of the rows at(0), at(1), ..., at(most - 1).
template <int most, typename source, typename place>
SPIRA_DEVICE void sort_words_begin(const source &from, int32_t rows, sort_loading<source, most> &to,
                                   place at) {
    to.rows = rows;
    to.there = sort_rows(from);
    const int32_t least = min(to.there, rows);
#pragma unroll
    for (int j = 0; j < most; ++j) {
        to.row[j] = at(j);
    }
#pragma unroll
    for (int j = 0; j < most; ++j) {
        if (to.row[j] < least) {
            to.loaded[j] = sort_load(from, to.row[j]);
        }
    }
}

// Makes the words of the rows below `rows`; the others are 0.
template <typename W, typename source, int most>
SPIRA_DEVICE void sort_words_end(const source &from, const sort_loading<source, most> &on_way,
                                 bool report, W (&word)[most]) {
#pragma unroll
    for (int j = 0; j < most; ++j) {
        int32_t row = on_way.row[j];
        word[j] =
            row < on_way.rows ? sort_word(from, on_way.loaded[j], row, on_way.there, report) : (W)0;
    }
}

} // namespace spira

#endif
