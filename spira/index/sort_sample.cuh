// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/index/sort_sample.cuh: first step of the sort (sort.cuh): ranks samples of the rows.
//
// All pairs of samples are compared. Thread block (group, part) counts, for each sample of a group,
// the samples of a part that precede it; split adds up the parts.
#ifndef SPIRA_INDEX_SORT_SAMPLE_CUH
#define SPIRA_INDEX_SORT_SAMPLE_CUH

#include "../base/async.cuh"
#include "sort_source.cuh"

namespace spira {

// Adds the number of words in word [begin, end) that precede each key. equal: words that equal the
// key precede it. one: 1, as a value that the compiler does not know. It then multiplies and adds,
// on a pipe that the comparisons leave idle.
template <bool equal, typename W>
SPIRA_DEVICE void sort_count_before(const W *word, int begin, int end, int one,
                                    const W (&key)[sort_rank_keys], int (&before)[sort_rank_keys]) {
#pragma unroll 4
    for (int s = begin + (int)threadIdx.x % 32; s < end; s += 32) {
        W other = word[s];
#pragma unroll
        for (int j = 0; j < sort_rank_keys; ++j) {
            bool is_before = equal ? !(key[j] < other) : other < key[j];
            before[j] = is_before ? before[j] * one + one : before[j];
        }
    }
}

// A part of the samples: word[s] is sample first + s.
template <typename W>
struct sort_part {
    const W *word; // [count]
    int first, count;
};

// Adds the number of samples of a part that precede key[j], by word and then by number. key[j] is
// sample mine + j. Each lane has a part of the sum.
template <typename W>
SPIRA_DEVICE void sort_rank(const sort_part<W> &part, int mine, int one,
                            const W (&key)[sort_rank_keys], int (&before)[sort_rank_keys]) {
    const W *word = part.word;
    const int first = part.first, count = part.count;
    const int low = min(max(mine - first, 0), count);
    const int high = min(max(mine + (int)sort_rank_keys - first, 0), count);
    sort_count_before<true>(word, 0, low, one, key, before);
    sort_count_before<false>(word, high, count, one, key, before);
    int s = low + (int)threadIdx.x % 32; // the keys against each other
    if (s < high) {
#pragma unroll
        for (int j = 0; j < sort_rank_keys; ++j) {
            before[j] += word[s] < key[j] || (word[s] == key[j] && first + s < mine + j);
        }
    }
}

// Counts how many samples of one part precede each sample of one group.
template <typename W, typename source>
SPIRA_KERNEL void __launch_bounds__(sort_threads)
    sort_sample_kernel(source from, const __grid_constant__ sort_steps<W> s) {
    __shared__ W word[sort_block_samples]; // the part, then the group
    const sort_shape &shape = s.shape;
    const int samples = shape.buckets * shape.oversample, thread = (int)threadIdx.x;
    const int part = blockIdx.x % sort_parts, group = blockIdx.x / sort_parts;
    const int first = samples * part / sort_parts, mine = samples * group / sort_groups;
    const int others = samples * (part + 1) / sort_parts - first;
    const int all = others + samples * (group + 1) / sort_groups - mine;
    static_assert((int)sort_block_samples <= (int)sort_threads, "sort: samples of a thread block");
    W load[1];
    sort_loading<source, 1> loading = {};
    const int clear = (int)blockIdx.x * sort_threads + thread;
    if (clear < sort_overflow_words(shape.buckets)) {
        s.overflow.memory[clear] = 0;
    }
    const int32_t sample = thread < others ? first + thread : mine + thread - others;
    sort_words_begin(from, shape.rows, loading, [&](int) {
        return thread < all ? sort_sample_row(&shape, sample) : shape.rows;
    });
    sort_words_end(from, loading, false, load);
    if (thread < all) {
        word[thread] = load[0];
    }
    if (part == 0 && thread >= others && thread < all) {
        s.sample[sample] = load[0];
    }
    __syncthreads();
    const int lane = thread % 32, one = min(shape.buckets, 1);
    for (int i = others + thread / 32 * sort_rank_keys; i < all;
         i += sort_threads / 32 * sort_rank_keys) {
        W key[sort_rank_keys];
        int before[sort_rank_keys], sum = 0;
#pragma unroll
        for (int j = 0; j < sort_rank_keys; ++j) {
            key[j] = word[min(i + j, all - 1)];
            before[j] = 0;
        }
        sort_rank<W>({word, first, others}, mine + i - others, one, key, before);
#pragma unroll
        for (int j = 0; j < sort_rank_keys; ++j) {
            int all_before = warp_sum(before[j]);
            sum = lane == j ? all_before : sum;
        }
        if (lane < sort_rank_keys && i + lane < all) {
            s.ranks[mine + i - others + lane].before[part] = (uint16_t)sum;
        }
    }
}

} // namespace spira

#endif
