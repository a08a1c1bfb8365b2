// spira/index/sort.cuh: sorts words, with the rows that they came from, on the GPU.
//
// Sorting one frame is limited by the number of dependent launches, not by the number of keys. Up
// to sort_rows_max rows take a sample sort in three launches:
//
//   sample  (sort_sample.cuh) compares some thousand samples of the rows with each other
//   split   (sort_split.cuh) ranks the samples; every third to eighth is a splitter. Each thread
//           block writes a segment of the rows bucket by bucket; a table says where each bucket
//           starts in each segment
//   sort    (sort_bucket.cuh) a thread block gathers a bucket from all segments, sorts and writes
//           it; a row of the table adds up to its place in the result
//
// No counter is shared by thread blocks. The words are made where they are needed
// (sort_source.cuh). Splitters are pairs of word and row, which are all different, so that buckets
// are about equal however many rows share a word. A bucket that is too large all the same is sorted
// slowly, but correctly. More rows take a radix sort (radix.cuh).
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
    sort_shape shape;
    W *sample;          // [samples] words of the samples
    sort_ranks *ranks;  // [samples]
    W *split_word;      // [buckets] the splitters; the first is unused
    int32_t *split_row; // [buckets]
    // [buckets, blocks] where the bucket starts in the segment << 16 | its rows there
    uint32_t *table;
    sort_key<W> *key; // [rows] segment by segment, bucket by bucket
    // In place of all these, for more than sort_rows_max rows.
    radix_scratch<W> radix;
};

template <typename W>
SPIRA_API status sort_carve(workspace *w, int32_t rows, sort_scratch<W> *s) {
    *s = {};
    s->shape = sort_shape_make(rows);
    const sort_shape *shape = &s->shape;
    if (!shape->buckets) {
        radix_carve(w, rows, true, &s->radix);
        return status_success();
    }
    const int64_t samples = (int64_t)shape->buckets * shape->oversample;
    s->sample = workspace_take<W>(w, samples);
    s->ranks = workspace_take<sort_ranks>(w, samples);
    s->split_word = workspace_take<W>(w, shape->buckets);
    s->split_row = workspace_take<int32_t>(w, shape->buckets);
    s->table = workspace_take<uint32_t>(w, (int64_t)shape->blocks * shape->buckets);
    s->key = workspace_take<sort_key<W>>(w, rows);
    return status_success();
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

// Sorts the words of the rows of a source, stably.
//
// inputs   from: `rows` words, each below 2^bits - 1 or word_none(), which sorts last
//          s: of sort_carve for as many rows
// outputs  sorted [rows], order [rows]: the row of each sorted word
// Asynchronous, deterministic. Checks no arguments: voxelize does.
// cost     three launches up to sort_rows_max rows; beyond, three and one for each eight bits
template <typename W, typename source>
SPIRA_API status sort_source(const source &from, int32_t rows, int bits, W *sorted, int32_t *order,
                             sort_scratch<W> *s, cudaStream_t stream) {
    const sort_shape *shape = &s->shape;
    if (!shape->buckets) {
        SPIRA_TRY(kernel_launch_plain(sort_words_kernel<W, source>,
                                      (unsigned)ceil_div(rows, sort_threads), sort_threads, stream,
                                      "sort", from, rows, radix_input(&s->radix, sorted, 0, bits)));
        return radix_sort_rows(&s->radix, sorted, order, 0, bits, stream);
    }
    const W end = bits < (int)(8 * sizeof(W)) ? (W)1 << bits : word_none<W>();
    const int row = bits_for((uint64_t)rows - 1);
    SPIRA_TRY(kernel_launch_plain(sort_sample_kernel<W, source>, sort_groups * sort_parts,
                                  sort_threads, stream, "sort", from, *shape, s->sample, s->ranks));
    SPIRA_TRY(kernel_launch(sort_split_kernel<W, source>, (unsigned)shape->blocks, sort_threads,
                            sort_split_bytes<W>(shape), false, 1, stream, "sort", from, *shape,
                            s->sample, s->ranks, s->split_word, s->split_row, s->table, s->key));
    const bool crowded = sort_is_crowded(shape);
    const auto buckets = crowded ? sort_buckets_choose<W, sort_crowded_threads>(bits, row)
                                 : sort_buckets_choose<W, sort_bucket_threads>(bits, row);
    return kernel_launch_plain(buckets, (unsigned)shape->buckets,
                               crowded ? sort_crowded_threads : sort_bucket_threads, stream, "sort",
                               *shape, s->table, s->split_word, s->key, end, row, sorted, order);
}

// The same for words [rows] in memory.
template <typename W>
SPIRA_API status sort_words(const W *words, int32_t rows, int bits, W *sorted, int32_t *order,
                            sort_scratch<W> *s, cudaStream_t stream) {
    return sort_source(sort_array<W>{words}, rows, bits, sorted, order, s, stream);
}

} // namespace spira

#endif
