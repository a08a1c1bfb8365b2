// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/index/sort_shape.h: sizes of the sample sort (sort.cuh): how rows are divided into segments
// and buckets, and which rows are samples.
#ifndef SPIRA_INDEX_SORT_SHAPE_H
#define SPIRA_INDEX_SORT_SHAPE_H

#include "../base/integer.h"

namespace spira {

enum {
    sort_rows_max = 1 << 19,   // more rows take the radix sort
    sort_bucket = 384,         // rows of a bucket on average, below the largest number of buckets
    sort_buckets_max = 1365,   //
    sort_samples = 4096,       // samples, at most; sample compares all pairs of them
    sort_oversample_least = 3, // samples per splitter
    sort_oversample_most = 8,  //
    sort_threads = 1024,       // of a thread block of sample and split
    sort_blocks = 128,         // segments of the rows, at most: a thread of the last step for each
    sort_most_rows = 4,        // rows of a thread of split
    sort_groups = 16,          // sample ranks this many groups of samples
    sort_parts = 8,            // against this many parts of all samples, a thread block a pair
    sort_rank_keys = 8,        // samples that a warp ranks at a time
    sort_bucket_threads = 128, // of a thread block of the last step
    sort_bucket_most = 16,     // keys of a thread of the last step
    sort_bucket_batch = 8,     // of which this many loads are in flight
    sort_run_few = 4,          // keys with equal upper bits that are ordered one by one
};

// Samples that a thread of split ranks, and samples that a thread block of sample loads.
enum {
    sort_most_samples = (sort_samples + sort_threads - 1) / sort_threads,
    sort_block_samples = sort_samples / sort_parts + sort_samples / sort_groups + 2,
};
static_assert(sort_samples >= sort_buckets_max * sort_oversample_least, "sort: samples");
static_assert(sort_blocks * sort_threads * sort_most_rows >= sort_rows_max, "sort: rows");
static_assert(sort_blocks <= sort_bucket_threads, "sort: segments");
static_assert(2 * sort_threads >= sort_buckets_max, "sort: buckets");

// How rows are divided into segments and buckets.
struct sort_shape {
    int32_t rows, buckets; // buckets 0: radix sort
    int32_t oversample;    // samples per splitter
    uint32_t inverse;      // rank * inverse >> 16 is rank / oversample
    int32_t each, blocks;  // segments of sort_threads * each rows, a thread block of split each
    uint64_t step;         // rows from one sample to the next, times 2^32
};

SPIRA_API sort_shape sort_shape_make(int32_t rows) {
    sort_shape s = {};
    s.rows = rows;
    if (rows <= sort_rows_max) {
        s.each = (int32_t)min_of(ceil_div(rows, sort_threads * sort_blocks), sort_most_rows);
        s.blocks = (int32_t)ceil_div(rows, (int64_t)sort_threads * s.each);
        s.buckets = (int32_t)min_of(ceil_div(rows, sort_bucket), sort_buckets_max);
        s.oversample = (int32_t)min_of(sort_samples / s.buckets, sort_oversample_most);
        s.inverse = 65536 / (uint32_t)s.oversample + 1;
        s.step = ((uint64_t)rows << 32) / (uint64_t)(s.buckets * s.oversample);
    }
    return s;
}

// The row of a sample: a pseudorandom one of the sample's `step` rows, so that periodic data does
// not meet periodic samples.
SPIRA_BOTH int32_t sort_sample_row(const sort_shape *shape, int sample) {
    uint32_t mix = (uint32_t)(sample + 1) * 2654435769u;
    mix = (mix ^ mix >> 15) * 2246822507u;
    mix ^= mix >> 13;
    return (int32_t)(((uint64_t)sample * shape->step + (mix >> 16) * (shape->step >> 16)) >> 32);
}

// A word and its row, read at once.
template <typename W>
struct alignas(2 * sizeof(W)) sort_key {
    W word, row;
};

// How many samples of each part precede a sample.
struct alignas(16) sort_ranks {
    uint16_t before[sort_parts];
};

// What sort_overflow.cuh needs. `memory` is zero after the first step, with all that it has.
struct sort_overflow {
    int32_t *memory; // [sort_overflow_words(buckets)] all of these but `state`
    int32_t *keys;   // [buckets, rounded up to a multiple of 4] keys of each bucket
    int32_t *drawn;  // [1] tiles that have been drawn, of all phases
    int32_t *done;   // [sort_phases_max] tiles of each phase that are done
    uint32_t *ready; // [sort_phases_max] not 0: all are
    int32_t *count;  // [passes, digits] keys of each digit
    uint32_t *state; // [2, tiles, digits] see radix_scratch; not cleared
};

enum {
    sort_phases_max = 11, // moving to the order of the rows, and ten passes
    sort_digits_max = (sort_phases_max - 1) * sort_bucket_threads,
};

SPIRA_BOTH int sort_overflow_words(int buckets) {
    return (int)round_up(buckets, 4) + 1 + 2 * sort_phases_max + sort_digits_max;
}

// What the steps of the sort write and read.
template <typename W>
struct sort_steps {
    sort_shape shape;
    W *sample;          // [samples] words of the samples
    sort_ranks *ranks;  // [samples]
    W *split_word;      // [buckets] the splitters; the first is unused
    int32_t *split_row; // [buckets]
    // [buckets, blocks] where the bucket starts in the segment << 16 | its rows there
    uint32_t *table;
    sort_key<W> *key; // [rows] segment by segment, bucket by bucket
    sort_overflow overflow;
};

// Where the last step writes.
template <typename W>
struct sort_target {
    W end;          // above all words but word_none()
    int bits, row;  // bits of a word, and of a row
    W *sorted;      // [rows]
    int32_t *order; // [rows]
};

} // namespace spira

#endif
