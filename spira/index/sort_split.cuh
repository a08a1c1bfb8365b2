// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/index/sort_split.cuh: second step of the sort (sort.cuh): divides rows among buckets.
//
// Each thread block finds the splitters, the bucket of each row of its segment, and writes the
// segment's rows bucket by bucket. A table says where each bucket starts in each segment.
#ifndef SPIRA_INDEX_SORT_SPLIT_CUH
#define SPIRA_INDEX_SORT_SPLIT_CUH

#include "../base/block.cuh"
#include "../word.h"
#include "sort_source.cuh"

namespace spira {

// The splitters in shared memory, as a segment sees them. Their words are the nodes of a search
// tree (tree_node). A splitter whose row is behind the segment follows each row of the segment that
// shares its word. So its node is the next word, or its row is -1 if it has no word. Only splitters
// from the segment itself are compared by row.
template <typename W>
struct sort_splitters {
    W *tree;             // [2^height] the first is unused
    int32_t *row;        // [buckets] of each splitter
    int32_t last;        // where the segment ends
    int buckets, height; // 2^height >= buckets
};

SPIRA_BOTH int sort_tree_height(int buckets) {
    int height = 0;
    while (1 << height < buckets) {
        ++height;
    }
    return height;
}

// The node of splitter b > 0.
template <typename W>
SPIRA_DEVICE W *sort_node(const sort_splitters<W> &to, int b) {
    return to.tree + tree_node(1 << to.height, b);
}

// A thread's share of the samples, loaded before the kernel's first barrier.
template <typename W>
struct sort_ranked {
    uint4 ranks[sort_most_samples];
    W word[sort_most_samples];
};

template <typename W>
SPIRA_DEVICE void sort_load_ranked(const W *__restrict__ sample,
                                   const sort_ranks *__restrict__ ranks, int samples,
                                   sort_ranked<W> &to) {
#pragma unroll
    for (int j = 0; j < sort_most_samples; ++j) {
        int s = j * sort_threads + (int)threadIdx.x;
        if (s < samples) {
            to.ranks[j] = ((const uint4 *)ranks)[s];
            to.word[j] = sample[s];
        }
    }
}

// Ranks the samples. Every oversample-th one is a splitter and goes to shared memory; block 0
// writes the splitters to split_word and split_row, too. Called by all threads of a block; the
// caller needs a barrier before it reads them.
template <typename W>
SPIRA_DEVICE void sort_find_splitters(const sort_shape &shape, const sort_ranked<W> &from,
                                      const sort_splitters<W> &to, W *split_word,
                                      int32_t *split_row) {
    const int samples = shape.buckets * shape.oversample;
#pragma unroll
    for (int j = 0; j < sort_most_samples; ++j) {
        int s = j * sort_threads + (int)threadIdx.x;
        if (s >= samples) {
            break;
        }
        uint4 two = from.ranks[j];
        uint32_t both =
            two.x + two.y + two.z + two.w; // eight 16-bit counts, whose sum fits 16 bits
        int rank = (int)((both & 0xffff) + (both >> 16)),
            b = (int)((uint32_t)rank * shape.inverse >> 16);
        if (b * shape.oversample == rank) {
            const W word = from.word[j];
            const int32_t row = sort_sample_row(&shape, s);
            const bool behind = row >= to.last, none = word == word_none<W>();
            to.row[b] = behind && none ? -1 : row;
            if (b > 0) {
                *sort_node(to, b) = (W)(word + (behind && !none));
            }
            if (blockIdx.x == 0) {
                split_word[b] = word;
                split_row[b] = row;
            }
        }
    }
#pragma unroll 1
    for (int b = to.buckets + (int)threadIdx.x; b < 1 << to.height; b += sort_threads) {
        *sort_node(to, b) = word_none<W>();
    }
}

// The last splitter whose row is not -1: these are the last ones. Called by whole warps.
template <typename W>
SPIRA_DEVICE int sort_last_splitter(const sort_splitters<W> &in) {
    enum { lanes = 32 };
    static_assert(sort_buckets_max <= lanes * lanes * lanes, "three steps");
    int at = 0; // no row is before the first splitter
    for (int stride = lanes * lanes; stride; stride /= lanes) {
        const int next = at + (int)(threadIdx.x % lanes + 1) * stride;
        const bool before = next < in.buckets && in.row[next] >= 0;
        at += __popc(__ballot_sync(~0u, before)) * stride;
    }
    return at;
}

// Finds the buckets of the rows first, first + sort_threads, ... of a thread at a time: the last
// splitters that do not follow them, by word and then by row. Called by whole warps.
template <int each, typename W>
SPIRA_DEVICE void sort_find_buckets(const sort_splitters<W> &in, const W (&word)[sort_most_rows],
                                    int32_t first, int (&bucket)[sort_most_rows]) {
    int node[each];
    bool none = false;
#pragma unroll
    for (int j = 0; j < each; ++j) {
        node[j] = 1;
        none = none || word[j] == word_none<W>();
    }
    for (int level = 0; level < in.height; ++level) {
#pragma unroll
        for (int j = 0; j < each; ++j) {
            node[j] = 2 * node[j] + !(word[j] < in.tree[node[j]]);
        }
    }
    const int most = __any_sync(~0u, none) ? sort_last_splitter(in) : in.buckets - 1;
#pragma unroll
    for (int j = 0; j < each; ++j) {
        const int32_t row = first + j * sort_threads;
        int b = min(node[j] - (1 << in.height), most);
        while (b > 0 && *sort_node(in, b) == word[j] && in.row[b] > row && in.row[b] < in.last) {
            --b;
        }
        bucket[j] = b;
    }
}

// Chooses sort_find_buckets<each>.
template <int from, typename W>
SPIRA_DEVICE void sort_find_buckets_any(int each, const sort_splitters<W> &in,
                                        const W (&word)[sort_most_rows], int32_t first,
                                        int (&bucket)[sort_most_rows]) {
    if constexpr (from < sort_most_rows) {
        if (each != from) {
            sort_find_buckets_any<from + 1>(each, in, word, first, bucket);
            return;
        }
    }
    sort_find_buckets<from>(in, word, first, bucket);
}

// Takes the next place in a bucket; bucket -1: none. Adjacent lanes with the same bucket take their
// places by one atomic, because neighbouring rows often share a bucket. Called by whole warps.
SPIRA_DEVICE int sort_take_place(int32_t *count, int bucket) {
    int lane = threadIdx.x % 32, left = __shfl_up_sync(~0u, bucket, 1);
    bool head = lane == 0 || left != bucket;
    uint32_t heads = __ballot_sync(~0u, head), up_to = ~0u >> (31 - lane), behind = heads & ~up_to;
    int leader = 31 - __clz((int)(heads & up_to)), base = 0;
    if (head && bucket >= 0) {
        base = atomicAdd(count + bucket, (behind ? __ffs((int)behind) - 1 : 32) - lane);
    }
    return __shfl_sync(~0u, base, leader) + lane - leader;
}

// Replaces the counts of the buckets by where they start, writes both to the table, and adds the
// counts to keys. Called by all threads of a block, with barriers inside.
SPIRA_DEVICE void sort_lay_out(int32_t *start, int buckets, uint32_t *table,
                               unsigned long long *keys) {
    __shared__ int32_t total[sort_threads / 32];
    const int b = 2 * (int)threadIdx.x;
    int rows[2] = {b < buckets ? start[b] : 0, b + 1 < buckets ? start[b + 1] : 0};
    if (rows[0] + rows[1]) { // nothing waits for it
        atomicAdd(&keys[threadIdx.x], (unsigned long long)rows[1] << 32 | (uint32_t)rows[0]);
    }
    int to = block_exclusive_sum<sort_threads>(rows[0] + rows[1], total);
#pragma unroll
    for (int j = 0; j < 2; ++j) {
        if (b + j < buckets) {
            start[b + j] = to;
            table[(int64_t)(b + j) * gridDim.x + blockIdx.x] =
                (uint32_t)to << 16 | (uint32_t)rows[j];
        }
        to += rows[j];
    }
    __syncthreads();
}

// Bytes of dynamic shared memory of split. The rows reuse the memory of the splitters.
template <typename W>
SPIRA_API size_t sort_split_bytes(const sort_shape *s) {
    int64_t most = (int64_t)sort_threads * s->each, nodes = 1 << sort_tree_height(s->buckets);
    return (size_t)(max_of(most, nodes) * (int64_t)sizeof(W) + 4 * (int64_t)s->buckets +
                    max_of(2 * most, 4 * (int64_t)s->buckets));
}

// Writes a segment of the rows bucket by bucket.
template <typename W, typename source>
SPIRA_KERNEL void __launch_bounds__(sort_threads, 1) // without the 1, registers are spilled
    sort_split_kernel(source from, const __grid_constant__ sort_steps<W> s) {
    const sort_shape &shape = s.shape;
    extern __shared__ int4 sort_shared[];
    const int most = sort_threads * shape.each, first = blockIdx.x * most;
    const int last = min(first + most, shape.rows), buckets = shape.buckets;
    const int height = sort_tree_height(buckets);
    W *shared_word = (W *)sort_shared;                                  // [most] or [2^height]
    int32_t *start = (int32_t *)(shared_word + max(most, 1 << height)); // [buckets]
    int32_t *shared_row = start + buckets;                              // [buckets]
    uint16_t *shared_local = (uint16_t *)shared_row;                    // [most]
    const sort_splitters<W> splitters = {shared_word, shared_row, last, buckets, height};
    sort_ranked<W> ranked;
    sort_load_ranked(s.sample, s.ranks, buckets * shape.oversample, ranked);
    sort_loading<source, sort_most_rows> loading;
    sort_words_begin(from, last, loading, [&](int j) {
        return j < shape.each ? first + j * sort_threads + (int)threadIdx.x : last;
    });
    sort_find_splitters(shape, ranked, splitters, s.split_word, s.split_row);
    W word[sort_most_rows];
    sort_words_end(from, loading, true, word);
#pragma unroll 1
    for (int b = threadIdx.x; b < buckets; b += sort_threads) {
        start[b] = 0;
    }
    __syncthreads();
    int bucket[sort_most_rows];
    sort_find_buckets_any<1>(shape.each, splitters, word, first + (int)threadIdx.x, bucket);
    uint32_t at[sort_most_rows]; // bucket << 16 | place in it
#pragma unroll
    for (int j = 0; j < sort_most_rows; ++j) {
        if (j < shape.each) {
            int row = first + j * sort_threads + (int)threadIdx.x;
            bucket[j] = row < last ? bucket[j] : -1;
            at[j] = (uint32_t)bucket[j] << 16 | (uint32_t)sort_take_place(start, bucket[j]);
        }
    }
    __syncthreads();
    sort_lay_out(start, buckets, s.table, (unsigned long long *)s.overflow.keys);
#pragma unroll
    for (int j = 0; j < sort_most_rows; ++j) {
        int local = j * sort_threads + (int)threadIdx.x;
        if (j < shape.each && first + local < last) {
            int to = start[at[j] >> 16] + (int)(at[j] & 0xffff);
            shared_word[to] = word[j];
            shared_local[to] = (uint16_t)local;
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < last - first; i += sort_threads) {
        s.key[first + i] = {shared_word[i], (W)(first + shared_local[i])};
    }
}

} // namespace spira

#endif
