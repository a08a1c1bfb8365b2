// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/index/sort.cuh: sorts words, with the rows that they came from, on the GPU.
//
// Sorting one frame is limited by the number of dependent launches, not by the number of keys. Up
// to sort_rows_max rows take a sample sort in three launches:
//
//   sample  (sort_sample.cuh) compares some thousand samples of the rows with each other
//   split   (sort_split.cuh) ranks the samples; every third to eighth is a splitter. Each thread
//           block writes a segment of the rows bucket by bucket; a table says where each bucket
//           starts in each segment, and sums how many keys each bucket has
//   sort    (sort_bucket.cuh) a thread block gathers a bucket from all segments, sorts and writes
//           it; a row of the table adds up to its place in the result
//
// The words are made where they are needed (sort_source.cuh). Splitters are pairs of word and row,
// which are all different, so that buckets are about equal however many rows share a word. Where
// words are such that a bucket is too large all the same, the thread blocks of the last step sort
// all rows by their digits (sort_overflow.cuh): the time is bounded by the number of rows. More
// rows take a radix sort (radix.cuh).
#ifndef SPIRA_INDEX_SORT_CUH
#define SPIRA_INDEX_SORT_CUH

#include "../status.cuh"
#include "../word.h"
#include "../workspace.h"
#include "radix.cuh"
#include "sort_bucket.cuh"
#include "sort_sample.cuh"
#include "sort_source.cuh"
#include "sort_split.cuh"

namespace spira {

template <typename W>
struct sort_scratch {
    sort_steps<W> steps;
    radix_scratch<W> radix; // for what sort_takes_radix says
};

// Whether a sort is by digits from the start: more than sort_rows_max rows, or words that may be so
// far apart that a row and a distance, which may be one bit more than a word, exceed 64 bits.
SPIRA_API bool sort_takes_radix(int32_t rows, int bits) {
    return rows > sort_rows_max || bits + bits_for((uint64_t)rows - 1) >= 64;
}

SPIRA_API void sort_carve_overflow(workspace *w, const sort_shape *shape, sort_overflow *c) {
    c->memory = workspace_take<int32_t>(w, sort_overflow_words(shape->buckets));
    c->state = workspace_take<uint32_t>(w, 2 * ceil_div(shape->rows, sort_overflow_cut::tile) *
                                               sort_overflow_cut::digits);
    if (c->memory) {
        c->keys = c->memory;
        c->drawn = c->keys + round_up(shape->buckets, 4);
        c->done = c->drawn + 1;
        c->ready = (uint32_t *)(c->done + sort_phases_max);
        c->count = (int32_t *)(c->ready + sort_phases_max);
    }
}

// The two ways share the memory.
template <typename W>
SPIRA_API void sort_carve(workspace *w, int32_t rows, sort_scratch<W> *s) {
    *s = {};
    workspace radix = *w;
    if (sort_takes_radix(rows, (int)(8 * sizeof(W)))) {
        radix_carve(&radix, rows, true, &s->radix);
    }
    sort_steps<W> *steps = &s->steps;
    const sort_shape *shape = &steps->shape;
    steps->shape = sort_shape_make(rows);
    if (shape->buckets) {
        const int64_t samples = (int64_t)shape->buckets * shape->oversample;
        steps->sample = workspace_take<W>(w, samples);
        steps->ranks = workspace_take<sort_ranks>(w, samples);
        steps->split_word = workspace_take<W>(w, shape->buckets);
        steps->split_row = workspace_take<int32_t>(w, shape->buckets);
        steps->table = workspace_take<uint32_t>(w, (int64_t)shape->blocks * shape->buckets);
        steps->key = workspace_take<sort_key<W>>(w, rows);
        sort_carve_overflow(w, shape, &steps->overflow);
    }
    w->used = (size_t)max_of((int64_t)w->used, (int64_t)radix.used);
}

// The words of all rows, for the radix sort.
template <typename W, typename source>
SPIRA_KERNEL void __launch_bounds__(sort_threads)
    sort_words_kernel(source from, int32_t rows, W *word) {
    int32_t i = blockIdx.x * sort_threads + threadIdx.x;
    W words[1];
    sort_loading<source, 1> loading;
    sort_words_begin(from, rows, loading, [&](int) { return i; });
    sort_words_end(from, loading, true, words);
    if (i < rows) {
        word[i] = words[0];
    }
}

template <typename W>
SPIRA_API sort_target<W> sort_target_make(int32_t rows, int bits, W *sorted, int32_t *order) {
    const W end = bits < (int)(8 * sizeof(W)) ? (W)1 << bits : word_none<W>();
    return {end, bits, bits_for((uint64_t)rows - 1), sorted, order};
}

// The three steps.
template <typename W, typename source>
SPIRA_API status sort_launch(const source &from, const sort_steps<W> &steps,
                             const sort_target<W> &to, cudaStream_t stream) {
    const sort_shape *shape = &steps.shape;
    SPIRA_TRY(kernel_launch(sort_sample_kernel<W, source>,
                            {sort_groups * sort_parts, sort_threads, stream, "sort"}, from, steps));
    SPIRA_TRY(kernel_launch(
        sort_split_kernel<W, source>,
        {(unsigned)shape->blocks, sort_threads, stream, "sort", false, sort_split_bytes<W>(shape)},
        from, steps));
    return kernel_launch(sort_buckets_kernel<W>,
                         {(unsigned)shape->buckets, sort_bucket_threads, stream, "sort"}, steps,
                         to);
}

// Sorts the words of the rows of a source, stably.
//
// inputs   from: as many words as `s` was carved for, each below 2^bits - 1 or word_none(), which
//          sorts last
//          s: of sort_carve
// outputs  sorted [rows], order [rows]: the row of each sorted word
// Asynchronous, deterministic. Checks no arguments: voxelize does.
// cost     three launches; where sort_takes_radix, three and one for each eight bits
template <typename W, typename source>
SPIRA_API status sort_source(const source &from, int bits, W *sorted, int32_t *order,
                             const sort_scratch<W> *s, cudaStream_t stream) {
    const sort_steps<W> &steps = s->steps;
    const sort_shape *shape = &steps.shape;
    if (sort_takes_radix(shape->rows, bits)) {
        SPIRA_TRY(kernel_launch(
            sort_words_kernel<W, source>,
            {(unsigned)ceil_div(shape->rows, sort_threads), sort_threads, stream, "sort"}, from,
            shape->rows, radix_input(&s->radix, sorted, 0, bits)));
        return radix_sort<true>(&s->radix, sorted, order, 0, bits, stream);
    }
    const sort_target<W> to = sort_target_make(shape->rows, bits, sorted, order);
    return sort_launch(from, steps, to, stream);
}

} // namespace spira

#endif
