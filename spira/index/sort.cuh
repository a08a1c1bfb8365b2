// spira/index/sort.cuh: sorts words, and the rows that they came from, on the GPU, in three
// launches.
//
// A sort of a frame's worth of words is bound by its launches, each of which waits for the one
// before, and not by its keys. Up to sort_rows_max rows are sorted by samples:
//   sample  compares some thousand words with each other
//   split   ranks them; every third to eighth is a splitter. Each block takes a stretch of rows and
//           lays them out bucket by bucket, within the stretch; a table says where each bucket
//           starts there
//   sort    a block gathers a bucket from all stretches, sorts it and writes it: a row of the table
//           adds up to where it belongs
// Nothing is counted across blocks, and the words of the rows are made where they are needed: by
// sample for the samples, by split for all. Pairs of word and row are all different, so that
// buckets are much alike however many rows share a word; one that is not is sorted slowly, and
// right. More rows than that take a radix sort (radix.cuh).
#ifndef SPIRA_INDEX_SORT_CUH
#define SPIRA_INDEX_SORT_CUH

#include "../base/async.cuh"
#include "../base/integer.h"
#include "../status.cuh"
#include "../word.h"
#include "../workspace.h"
#include "radix.cuh"

namespace spira {

enum {
    sort_rows_max = 1 << 20,     // beyond, the radix sort
    sort_bucket = 384,           // rows of a bucket on average, until there are as many as may be
    sort_buckets_max = 1400,     // what split has shared memory for
    sort_samples = 4096,         // about: each is compared with each
    sort_samples_max = 5600,     //
    sort_oversample_least = 3,   // samples for each splitter
    sort_oversample_most = 8,    //
    sort_oversample_crowded = 4, // of buckets that are larger than on average
    sort_threads = 1024,         // of sample and split
    sort_blocks = 128,           // stretches, while threads have room: a large GPU has as many SMs
    sort_blocks_max = 256,       // and no more than a block of the last step has threads
    sort_most_rows = 4,          // rows of a thread of split
    sort_groups = 16,            // of samples that are ranked,
    sort_parts = 8,              // each by so many blocks, among a part of all samples
    sort_rank_keys = 8,          // samples that a warp ranks side by side
    sort_bucket_threads = 128,   // of the last step
    sort_crowded_threads = 256,  // where there are more stretches than that
    sort_bucket_most = 16,       // keys of a thread
    sort_bucket_batch = 8,       // of them that are on their way at a time
    sort_run_most = 16,          // keys of a bucket that are put in order one by one
};

// Samples that a thread of split ranks, and those that a block of sample makes.
enum {
    sort_most_samples = (sort_samples_max + sort_threads - 1) / sort_threads,
    sort_block_samples = sort_samples_max / sort_parts + sort_samples_max / sort_groups + 2,
};
static_assert(sort_samples_max >= sort_samples &&
                  sort_samples_max >= sort_buckets_max * sort_oversample_crowded,
              "sort: samples");
static_assert(sort_blocks_max * sort_threads * sort_most_rows >= sort_rows_max, "sort: rows");
static_assert(sort_blocks <= sort_bucket_threads && sort_blocks_max <= sort_crowded_threads,
              "sort: stretches");
static_assert(2 * sort_threads >= sort_buckets_max, "sort: buckets");

// How rows are cut.
struct sort_shape {
    int32_t rows, buckets; // buckets 0: radix sort
    int32_t oversample;
    uint32_t inverse;     // rank * inverse >> 16 is rank / oversample
    int32_t each, blocks; // stretches of sort_threads * each rows
    uint64_t step;        // rows from sample to sample, times 2^32
};

// Whether there are more stretches than a block of the last step usually has threads.
SPIRA_API bool sort_is_crowded(const sort_shape *s) {
    return s->blocks > sort_bucket_threads;
}

SPIRA_API sort_shape sort_shape_make(int32_t rows) {
    sort_shape s = {rows, 0, 0, 0, 0, 0, 0};
    if (rows <= sort_rows_max) {
        s.each = (int32_t)min_of(ceil_div(rows, sort_threads * sort_blocks), sort_most_rows);
        s.blocks = (int32_t)ceil_div(rows, (int64_t)sort_threads * s.each);
        s.buckets = (int32_t)min_of(ceil_div(rows, sort_bucket), sort_buckets_max);
        s.oversample =
            sort_is_crowded(&s)
                ? (int32_t)sort_oversample_crowded
                : (int32_t)min_of(max_of(sort_samples / s.buckets, sort_oversample_least),
                                  sort_oversample_most);
        s.inverse = 65536 / (uint32_t)s.oversample + 1;
        s.step = ((uint64_t)rows << 32) / (uint64_t)(s.buckets * s.oversample);
    }
    return s;
}

// The row of a sample: one of each stretch of as many rows, at a place of its own, so that rows
// with a period do not meet samples with one.
SPIRA_BOTH int32_t sort_sample_row(const sort_shape *shape, int sample) {
    uint32_t mix = (uint32_t)(sample + 1) * 2654435769u;
    mix = (mix ^ mix >> 15) * 2246822507u;
    mix ^= mix >> 13;
    return (int32_t)(((uint64_t)sample * shape->step + (mix >> 16) * (shape->step >> 16)) >> 32);
}

// A word and its row, as large as a thread reads at once.
template <typename W>
struct alignas(2 * sizeof(W)) sort_key {
    W word, row;
};

// How many samples of each part stand before a sample.
struct alignas(16) sort_ranks {
    uint16_t before[sort_parts];
};

template <typename W>
struct sort_scratch {
    sort_shape shape;
    W *sample;          // [samples] their words
    sort_ranks *ranks;  // [samples]
    W *split_word;      // [buckets] the splitters, of which the first is not used
    int32_t *split_row; // [buckets]
    uint32_t *table;    // [buckets, blocks] where each starts in each stretch << 16 | rows there
    sort_key<W> *key;   // [rows] stretch by stretch, bucket by bucket
    radix_scratch<W> radix; // in place of all that, for more than sort_rows_max rows
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

// ---- where words come from ----------------------------------------------------------------------

// A source has sort_rows, how many there are, sort_load, which reads what makes the word of one of
// them, and sort_word, which makes it: apart, so that a thread has the reads of all its rows under
// way. `report`: the row is seen for the first time, and what is wrong with it may be recorded.
// This one has the words as they are; voxel.cuh makes them from coordinates.
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

// there: what sort_rows says; what is loaded of rows behind that is nothing.
template <typename W>
SPIRA_DEVICE W sort_word(const sort_array<W> &, W loaded, int32_t, int32_t, bool) {
    return loaded;
}

// Rows at(0), at(1), ... of a thread while they are on their way.
template <typename source, int most>
struct sort_loading {
    decltype(sort_load(*(const source *)nullptr, 0)) loaded[most];
    int32_t row[most];
    int32_t rows, there;
};

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

// The words of those below the number of rows; zeros for others.
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

// ---- sample -------------------------------------------------------------------------------------

// Adds how many of word [begin, end) stand before each key; of equal ones, all or none. one: 1, but
// not for the compiler to know: the sum is then left to the pipe that has no comparisons to do.
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

// How many of word [count], samples from `first` on, stand before key[j], sample mine + j: of equal
// words the first. The sums are spread over the lanes.
template <typename W>
SPIRA_DEVICE void sort_rank(const W *word, int first, int count, int mine, int one,
                            const W (&key)[sort_rank_keys], int (&before)[sort_rank_keys]) {
    const int low = min(max(mine - first, 0), count);
    const int high = min(max(mine + (int)sort_rank_keys - first, 0), count);
    sort_count_before<true>(word, 0, low, one, key, before);
    sort_count_before<false>(word, high, count, one, key, before);
    int s = low + (int)threadIdx.x % 32; // the keys among themselves
    if (s < high) {
#pragma unroll
        for (int j = 0; j < sort_rank_keys; ++j) {
            before[j] += word[s] < key[j] || (word[s] == key[j] && first + s < mine + j);
        }
    }
}

// Counts how many samples of a part of them stand before each of a group.
template <typename W, typename source>
SPIRA_KERNEL void __launch_bounds__(sort_threads)
    sort_sample_kernel(source from, sort_shape shape, W *sample, sort_ranks *ranks) {
    __shared__ W word[sort_block_samples]; // those of the part, and of the group
    const int samples = shape.buckets * shape.oversample, thread = (int)threadIdx.x;
    const int part = blockIdx.x % sort_parts, group = blockIdx.x / sort_parts;
    const int first = samples * part / sort_parts, mine = samples * group / sort_groups;
    const int others = samples * (part + 1) / sort_parts - first;
    const int all = others + samples * (group + 1) / sort_groups - mine;
    const int rounds = (sort_block_samples + sort_threads - 1) / sort_threads;
    W load[rounds];
    sort_loading<source, rounds> loading;
    sort_words_begin(from, shape.rows, loading, [&](int j) {
        int i = j * sort_threads + thread;
        return i < all ? sort_sample_row(&shape, i < others ? first + i : mine + i - others)
                       : shape.rows;
    });
    sort_words_end(from, loading, false, load);
#pragma unroll
    for (int j = 0; j < rounds; ++j) {
        int i = j * sort_threads + thread;
        if (i < all) {
            word[i] = load[j];
        }
        if (part == 0 && i >= others && i < all) {
            sample[mine + i - others] = load[j];
        }
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
        sort_rank(word, first, others, mine + i - others, one, key, before);
#pragma unroll
        for (int j = 0; j < sort_rank_keys; ++j) {
            int all_before = warp_sum(before[j]);
            sum = lane == j ? all_before : sum;
        }
        if (lane < sort_rank_keys && i + lane < all) {
            ranks[mine + i - others + lane].before[part] = (uint16_t)sum;
        }
    }
}

// ---- split --------------------------------------------------------------------------------------

// The splitters in shared memory: their words are the nodes of a search tree (tree_node).
template <typename W>
struct sort_splitters {
    W *tree;             // [2^height] of which the first is not used
    int32_t *sample;     // [buckets] which sample each was
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

// What a thread brings to sort_find_splitters: read before anything that it waits for.
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

// Ranks the samples; those of the ranks that the splitters have are written, by the first block
// for others as well. Called by all threads of a block; a barrier is to follow.
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
        uint32_t both = two.x + two.y + two.z + two.w; // no half of it is over 16 bits
        int rank = (int)((both & 0xffff) + (both >> 16)),
            b = (int)((uint32_t)rank * shape.inverse >> 16);
        if (b * shape.oversample == rank) {
            to.sample[b] = s;
            if (b > 0) {
                *sort_node(to, b) = from.word[j];
            }
            if (blockIdx.x == 0) {
                split_word[b] = from.word[j];
                split_row[b] = sort_sample_row(&shape, s);
            }
        }
    }
#pragma unroll 1
    for (int b = to.buckets + (int)threadIdx.x; b < 1 << to.height; b += sort_threads) {
        *sort_node(to, b) = word_none<W>();
    }
}

// The bucket of a row: the last splitter that is not behind it.
template <typename W>
SPIRA_DEVICE int sort_find_bucket(const sort_shape &shape, const sort_splitters<W> &in, W word,
                                  int32_t row) {
    int at = 0;
    for (int step = 1 << in.height; step; step >>= 1) {
        int next = at + step;
        if (next < in.buckets) {
            W other = *sort_node(in, next);
            at = other < word || (other == word && sort_sample_row(&shape, in.sample[next]) <= row)
                     ? next
                     : at;
        }
    }
    return at;
}

// The same of the rows first, first + sort_threads, ... of a thread, side by side: by their words,
// and by their rows where a splitter has the same word.
template <int each, typename W>
SPIRA_DEVICE void sort_find_buckets(const sort_shape &shape, const sort_splitters<W> &in,
                                    const W (&word)[sort_most_rows], int32_t first,
                                    int (&bucket)[sort_most_rows]) {
    int node[each];
#pragma unroll
    for (int j = 0; j < each; ++j) {
        node[j] = 1;
    }
    for (int level = 0; level < in.height; ++level) {
#pragma unroll
        for (int j = 0; j < each; ++j) {
            node[j] = 2 * node[j] + !(word[j] < in.tree[node[j]]);
        }
    }
#pragma unroll
    for (int j = 0; j < each; ++j) {
        int32_t row = first + j * sort_threads;
        bucket[j] = min(node[j] - (1 << in.height), in.buckets - 1);
        if (bucket[j] > 0 && *sort_node(in, bucket[j]) == word[j] &&
            sort_sample_row(&shape, in.sample[bucket[j]]) > row) {
            bucket[j] = sort_find_bucket(shape, in, word[j], row);
        }
    }
}

template <int from, typename W>
SPIRA_DEVICE void sort_find_buckets_any(const sort_shape &shape, const sort_splitters<W> &in,
                                        const W (&word)[sort_most_rows], int32_t first,
                                        int (&bucket)[sort_most_rows]) {
    if constexpr (from < sort_most_rows) {
        if (shape.each != from) {
            sort_find_buckets_any<from + 1>(shape, in, word, first, bucket);
            return;
        }
    }
    sort_find_buckets<from>(shape, in, word, first, bucket);
}

// Takes a place in a bucket; none where it is -1. Lanes side by side that want the same bucket, as
// those of neighbouring rows do, take theirs together. Called by whole warps.
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

// Counts of the buckets to where they start, in place, and both into the table. Called by all
// threads of a block, with barriers inside.
SPIRA_DEVICE void sort_lay_out(int32_t *start, int buckets, uint32_t *table) {
    __shared__ int32_t total[sort_threads / 32];
    const int b = 2 * (int)threadIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int rows[2] = {b < buckets ? start[b] : 0, b + 1 < buckets ? start[b + 1] : 0};
    int to = warp_sum_up_to(rows[0] + rows[1]);
    if (lane == 31) {
        total[warp] = to;
    }
    __syncthreads();
    to += warp_sum(lane < warp ? total[lane] : 0);
    to -= rows[0] + rows[1];
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

// Bytes of shared memory of split: the splitters' place is the rows' afterwards.
template <typename W>
SPIRA_API size_t sort_split_bytes(const sort_shape *s) {
    int64_t most = (int64_t)sort_threads * s->each, nodes = 1 << sort_tree_height(s->buckets);
    return (size_t)(max_of(most, nodes) * (int64_t)sizeof(W) + 4 * (int64_t)s->buckets +
                    max_of(2 * most, 4 * (int64_t)s->buckets));
}

// Lays a stretch of rows out bucket by bucket.
template <typename W, typename source>
SPIRA_KERNEL void __launch_bounds__(sort_threads, 1) // else registers are kept free, and spilled
    sort_split_kernel(source from, sort_shape shape, const W *__restrict__ sample,
                      const sort_ranks *__restrict__ ranks, W *split_word, int32_t *split_row,
                      uint32_t *table, sort_key<W> *key) {
    extern __shared__ int4 sort_shared[];
    const int most = sort_threads * shape.each, first = blockIdx.x * most;
    const int last = min(first + most, shape.rows), buckets = shape.buckets;
    const int height = sort_tree_height(buckets);
    W *shared_word = (W *)sort_shared;                                  // [most] or [2^height]
    int32_t *start = (int32_t *)(shared_word + max(most, 1 << height)); // [buckets]
    int32_t *shared_sample = start + buckets;                           // [buckets]
    uint16_t *shared_local = (uint16_t *)shared_sample;                 // [most]
    const sort_splitters<W> splitters = {shared_word, shared_sample, buckets, height};
    sort_ranked<W> ranked;
    sort_load_ranked(sample, ranks, buckets * shape.oversample, ranked);
    sort_loading<source, sort_most_rows> loading;
    sort_words_begin(from, last, loading, [&](int j) {
        return j < shape.each ? first + j * sort_threads + (int)threadIdx.x : last;
    });
    sort_find_splitters(shape, ranked, splitters, split_word, split_row);
    W word[sort_most_rows];
    sort_words_end(from, loading, true, word);
#pragma unroll 1
    for (int b = threadIdx.x; b < buckets; b += sort_threads) {
        start[b] = 0;
    }
    __syncthreads();
    int bucket[sort_most_rows];
    sort_find_buckets_any<1>(shape, splitters, word, first + (int)threadIdx.x, bucket);
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
    sort_lay_out(start, buckets, table);
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
        key[first + i] = {shared_word[i], (W)(first + shared_local[i])};
    }
}

// ---- sort ---------------------------------------------------------------------------------------

// Where the keys of a bucket are. Those of one stretch are a piece: keys [begin[k], begin[k + 1])
// of the bucket are piece k, and stand in front of all keys by from[k].
struct sort_pieces {
    const int32_t *begin, *from; // [pieces]
    // [keys / 32], of as many keys as a block has in registers: which of 32 begin a piece, and the
    // piece of the first of them
    const uint2 *heads;
    int pieces;
    int first, count; // of the bucket, in the order of all rows
};

// Called by all threads of a block, with barriers inside.
template <int threads>
SPIRA_DEVICE sort_pieces sort_find_pieces(const sort_shape &shape,
                                          const uint32_t *__restrict__ table, int bucket) {
    const int warps = threads / 32, groups = threads * sort_bucket_most / 32;
    __shared__ int32_t begin[threads], from[threads];
    __shared__ uint2 heads[groups];
    __shared__ int4 total[warps]; // pieces, their keys, keys of the buckets before
    const int thread = (int)threadIdx.x, lane = thread % 32, warp = thread / 32;
    uint32_t entry = 0;
    if (thread < shape.blocks) {
        entry = table[(int64_t)bucket * shape.blocks + thread];
    }
    if (thread < groups) {
        heads[thread] = make_uint2(0, 0);
    }
    const int start = (int)(entry >> 16), keys = (int)(entry & 0xffff);
    uint32_t pieces = __ballot_sync(~0u, keys > 0);
    int to = warp_sum_up_to(keys), before = warp_sum(start);
    if (lane == 31) {
        total[warp] = make_int4(__popc(pieces), to, before, 0);
    }
    __syncthreads();
    int piece = __popc(pieces & ((1u << lane) - 1));
    sort_pieces p = {begin, from, heads, 0, 0, 0};
#pragma unroll
    for (int w = 0; w < warps; ++w) {
        int4 t = total[w];
        piece += w < warp ? t.x : 0;
        to += w < warp ? t.y : 0;
        p.pieces += t.x;
        p.count += t.y;
        p.first += t.z;
    }
    if (keys) {
        int key = to - keys;
        begin[piece] = key;
        from[piece] = thread * sort_threads * shape.each + start - key;
        if (key < 32 * groups) {
            atomicOr(&heads[(uint32_t)key / 32].x, 1u << key % 32);
        }
#pragma unroll 1
        for (int g = (int)(key + 31u) / 32; g < min((int)(to + 31u) / 32, groups); ++g) {
            heads[g].y = (uint32_t)piece;
        }
    }
    __syncthreads();
    return p;
}

// Where key i is, of those that a block has in registers; behind the last one, where the first is.
// The lanes of a warp have keys 32 n, 32 n + 1, ...
SPIRA_DEVICE int sort_piece_at(const sort_pieces &p, int i) {
    uint2 heads = p.heads[(uint32_t)i / 32];
    uint32_t piece = heads.y + (uint32_t)__popc(heads.x & ((2u << threadIdx.x % 32) - 2));
    int at = i + p.from[piece];
    return i < p.count ? at : p.from[0];
}

// The same of any key.
SPIRA_DEVICE int sort_piece_find(const sort_pieces &p, int i) {
    int piece = 0;
    for (int step = 1 << (31 - __clz(p.pieces)); step; step >>= 1) {
        int next = piece + step;
        piece = next < p.pieces && p.begin[next] <= i ? next : piece;
    }
    return i + p.from[piece];
}

// Sorts [count] by one block, wherever they are: the comparators of a bitonic sort that all point
// upward, so that what is missing at the end counts as largest.
template <typename W>
SPIRA_DEVICE void sort_slowly(W *word, int32_t *row, int count) {
    for (int run = 2; run < 2 * count; run *= 2) { // count is at most sort_rows_max
        for (int step = run / 2; step; step /= 2) {
            for (int i = threadIdx.x; i < count; i += blockDim.x) {
                int other = step == run / 2 ? (i ^ (run - 1)) : (i ^ step);
                if (other > i && other < count) {
                    W a = word[i], b = word[other];
                    int32_t row_a = row[i], row_b = row[other];
                    if (b < a || (b == a && row_b < row_a)) {
                        word[i] = b;
                        word[other] = a;
                        row[i] = row_b;
                        row[other] = row_a;
                    }
                }
            }
            __syncthreads();
        }
    }
}

// The words of a bucket lie close together: each is told by its distance from `base`. word_none()
// is where `end` would be.
template <typename W>
struct sort_range {
    W base, last, end; // base <= last <= end
};

template <typename W>
SPIRA_DEVICE sort_range<W> sort_range_of(const W *__restrict__ split_word, int bucket, int buckets,
                                         W end) {
    W base = bucket ? split_word[bucket] : 0;
    W last = bucket + 1 < buckets ? split_word[bucket + 1] : end;
    return {base < end ? base : end, last < end ? last : end, end};
}

// The bits that distances have.
template <typename W>
SPIRA_DEVICE int sort_range_bits(const sort_range<W> &range) {
    return 64 - __clzll((long long)(uint64_t)(W)(range.last - range.base));
}

template <typename W>
SPIRA_DEVICE W sort_distance(const sort_range<W> &range, W word) {
    return (W)((word < range.end ? word : range.end) - range.base);
}

template <typename W>
SPIRA_DEVICE W sort_word_at(const sort_range<W> &range, W distance) {
    W word = (W)(range.base + distance);
    return word == range.end ? word_none<W>() : word;
}

// The lower of two to `a`.
template <typename K>
SPIRA_DEVICE void sort_two(K &a, K &b) {
    K low = a < b ? a : b, high = a < b ? b : a;
    a = low;
    b = high;
}

// Sorts the keys of a thread. A merge begins with a mirrored step, so that all comparators point
// upward.
template <int items, typename K>
SPIRA_DEVICE void sort_thread(K (&key)[items]) {
#pragma unroll
    for (int run = 2; run <= items; run *= 2) {
#pragma unroll
        for (int step = run / 2; step; step /= 2) {
#pragma unroll
            for (int i = 0; i < items; ++i) {
                int other = step == run / 2 ? (i ^ (run - 1)) : (i ^ step);
                if (other > i) {
                    sort_two(key[i], key[other]);
                }
            }
        }
    }
}

// The last steps of a merge that began among threads.
template <int items, typename K>
SPIRA_DEVICE void sort_thread_merge(K (&key)[items]) {
#pragma unroll
    for (int step = items / 2; step; step /= 2) {
#pragma unroll
        for (int i = 0; i < items; ++i) {
            if (!(i & step)) {
                sort_two(key[i], key[i | step]);
            }
        }
    }
}

// The lower or the higher of two: of 32 bits, two instructions that do not wait for one another.
SPIRA_DEVICE uint32_t sort_choose(bool low, uint32_t a, uint32_t b) {
    return low ? min(a, b) : max(a, b);
}

SPIRA_DEVICE uint64_t sort_choose(bool low, uint64_t a, uint64_t b) {
    return low == (a < b) ? a : b;
}

// A step with the thread across: other(j) is its key j. The keys are compared one by one, or those
// of one thread with those of the other backwards; `low` keeps the lower ones.
template <bool mirror, int items, typename K, typename across>
SPIRA_DEVICE void sort_meet(K (&key)[items], bool low, across other) {
    const int pairs = mirror ? (items + 1) / 2 : items; // two of a thread at a time: few registers
#pragma unroll
    for (int j = 0; j < pairs; ++j) {
        const int k = mirror ? items - 1 - j : j;
        K to_j = other(k), to_k = other(j);
        key[j] = sort_choose(low, key[j], to_j);
        if (k != j) {
            key[k] = sort_choose(low, key[k], to_k);
        }
    }
}

SPIRA_DEVICE uint32_t sort_across(uint32_t key, int mask) {
    return __shfl_xor_sync(~0u, key, mask);
}

SPIRA_DEVICE uint64_t sort_across(uint64_t key, int mask) {
    return (uint64_t)__shfl_xor_sync(~0u, (unsigned long long)key, mask);
}

// A step among threads: thread t and t ^ mask, a mask of lanes.
template <bool mirror, int items, typename K>
SPIRA_DEVICE void sort_exchange_lanes(K (&key)[items], int mask) {
    bool low = !(threadIdx.x & (mirror ? (mask + 1) / 2 : mask));
    sort_meet<mirror>(key, low, [&](int j) { return sort_across(key[j], mask); });
}

// The same among warps, of the first `used` threads; what others would have is behind all keys.
// Called by all of them, with barriers inside. shared [items * threads].
template <int threads, bool mirror, int items, typename K>
SPIRA_DEVICE void sort_exchange_warps(K (&key)[items], int mask, int used, K *shared) {
    int thread = threadIdx.x, across = thread ^ mask;
    named_barrier_sync(1, used); // all have read what was there
#pragma unroll
    for (int j = 0; j < items; ++j) {
        shared[j * threads + thread] = key[j];
    }
    named_barrier_sync(1, used);
    if (across < used) {
        sort_meet<mirror>(key, thread < across,
                          [&](int j) { return shared[j * threads + across]; });
    }
}

// Sorts the keys of the first `used` threads of a block, whole warps, `items` a thread, into
// shared [items * threads], by a bitonic network.
template <int threads, int items, typename K>
SPIRA_DEVICE void sort_block(K (&key)[items], int used, K *shared) {
    sort_thread(key);
#pragma unroll 1
    for (int run = 1; run < 32; run *= 2) {
        sort_exchange_lanes<true>(key, 2 * run - 1);
#pragma unroll 1
        for (int step = run / 2; step; step /= 2) {
            sort_exchange_lanes<false>(key, step);
        }
        sort_thread_merge(key);
    }
#pragma unroll 1
    for (int run = 32; run < used; run *= 2) {
        sort_exchange_warps<threads, true>(key, 2 * run - 1, used, shared);
#pragma unroll 1
        for (int step = run / 2; step > 16; step /= 2) {
            sort_exchange_warps<threads, false>(key, step, used, shared);
        }
#pragma unroll 1
        for (int step = 16; step; step /= 2) {
            sort_exchange_lanes<false>(key, step);
        }
        sort_thread_merge(key);
    }
    named_barrier_sync(1, used);
#pragma unroll
    for (int j = 0; j < items; ++j) { // threads side by side shall go on side by side
        shared[(int)threadIdx.x * items + j] = key[j];
    }
    named_barrier_sync(1, used);
}

// Calls use(i, key) for key i of a bucket, each by one thread of the block.
template <int threads, typename W, typename consumer>
SPIRA_DEVICE void sort_gather(const sort_pieces &p, const sort_key<W> *__restrict__ from,
                              consumer use) {
#pragma unroll 1
    for (int first = 0; first < p.count; first += sort_bucket_batch * threads) {
        sort_key<W> key[sort_bucket_batch];
#pragma unroll
        for (int j = 0; j < sort_bucket_batch; ++j) {
            if (first + j * threads < p.count) {
                key[j] = from[sort_piece_at(p, first + j * threads + (int)threadIdx.x)];
            }
        }
#pragma unroll
        for (int j = 0; j < sort_bucket_batch; ++j) {
            int i = first + j * threads + (int)threadIdx.x;
            if (i < p.count) {
                use(i, key[j]);
            }
        }
    }
}

// A key of 32 bits is the upper bits of a word's distance, as many as there is room for, over the
// number of the key as it came; that many bits of numbers. What is left of each key, by that
// number, is the lower bits of the distance over the row.
struct sort_packing {
    int number, low, row; // bits
};

template <typename W>
SPIRA_DEVICE sort_packing sort_packing_of(const sort_range<W> &range, int count, int row) {
    int number = 32 - __clz(count - 1);
    return {number, max(sort_range_bits(range) - (32 - number), 0), row};
}

SPIRA_DEVICE uint32_t sort_number_of(const sort_packing &pack, uint32_t key) {
    return key & ((1u << pack.number) - 1);
}

// Whether two keys have the same upper bits.
SPIRA_DEVICE bool sort_same(const sort_packing &pack, uint32_t a, uint32_t b) {
    return (a ^ b) >> pack.number == 0;
}

SPIRA_DEVICE uint64_t sort_unpack(const sort_packing &pack, uint32_t key, uint32_t rest) {
    return (uint64_t)(key >> pack.number) << pack.low | rest >> pack.row;
}

SPIRA_DEVICE int32_t sort_unpack_row(const sort_packing &pack, uint32_t rest) {
    return (int32_t)(rest & ((1u << pack.row) - 1));
}

// Puts in order the keys whose upper bits are the same, each by itself. Returns false where there
// are too many of them side by side; they are anywhere then.
template <typename W>
SPIRA_DEVICE bool sort_runs(const sort_pieces &p, const sort_range<W> &range,
                            const sort_packing &pack, int used, const uint32_t *key,
                            const uint32_t *rest, W *sorted, int32_t *order) {
    bool good = true;
    for (int i = threadIdx.x; i < p.count; i += used) {
        uint32_t mine = key[i], mine_rest = rest[sort_number_of(pack, mine)];
        int begin = i, end = i + 1, to = i;
        while (begin > 0 && i - begin < sort_run_most && sort_same(pack, key[begin - 1], mine)) {
            to -= rest[sort_number_of(pack, key[--begin])] > mine_rest;
        }
        while (end < p.count && end - i <= sort_run_most && sort_same(pack, key[end], mine)) {
            to += rest[sort_number_of(pack, key[end++])] < mine_rest;
        }
        good = good && end - begin <= sort_run_most;
        if (to != i) {
            sorted[p.first + to] = sort_word_at(range, (W)sort_unpack(pack, mine, mine_rest));
            order[p.first + to] = sort_unpack_row(pack, mine_rest);
        }
    }
    return !named_barrier_any(1, used, !good);
}

// Sorts a bucket by such keys of 32 bits, key [items * threads] and rest the same, by the first
// `used` threads. Returns false if that did not do: the keys are in order then but for those whose
// upper bits are the same.
template <int threads, int items, typename W>
SPIRA_DEVICE bool sort_by_numbers(const sort_pieces &p, const sort_range<W> &range,
                                  const sort_packing &pack, int used, uint32_t *key,
                                  const uint32_t *rest, W *sorted, int32_t *order) {
    uint32_t mine[items];
#pragma unroll
    for (int j = 0; j < items; ++j) {
        int i = j * used + (int)threadIdx.x;
        mine[j] = i < p.count ? key[i] : ~0u;
    }
    sort_block<threads>(mine, used, key);
    const int batch = items < sort_bucket_batch ? items : (int)sort_bucket_batch;
    bool same = false;
#pragma unroll 1
    for (int first = 0; first < items; first += batch) {
        uint32_t found[batch], found_rest[batch];
#pragma unroll
        for (int j = 0; j < batch; ++j) {
            int i = (first + j) * used + (int)threadIdx.x;
            found[j] = key[min(i, p.count - 1)]; // the last once more
            same |= sort_same(pack, found[j], key[i + 1]) & (i + 1 < p.count);
        }
#pragma unroll
        for (int j = 0; j < batch; ++j) {
            found_rest[j] = rest[sort_number_of(pack, found[j])];
        }
#pragma unroll
        for (int j = 0; j < batch; ++j) {
            int at = p.first + min((first + j) * used + (int)threadIdx.x, p.count - 1);
            sorted[at] = sort_word_at(range, (W)sort_unpack(pack, found[j], found_rest[j]));
            order[at] = sort_unpack_row(pack, found_rest[j]);
        }
    }
    return !named_barrier_any(1, used, same) ||
           sort_runs(p, range, pack, used, key, rest, sorted, order);
}

// Sorts a bucket by keys of 64 bits, the distance over `row` bits of the row, by the first `used`
// threads. shared [items * threads].
template <int threads, int items, typename W>
SPIRA_DEVICE void sort_by_rows(const sort_pieces &p, const sort_range<W> &range, int row, int used,
                               uint64_t (&key)[items], uint64_t *shared, W *sorted,
                               int32_t *order) {
    sort_block<threads>(key, used, shared);
#pragma unroll 8
    for (int j = 0; j < items; ++j) {
        int i = j * used + (int)threadIdx.x;
        if (i < p.count) {
            sorted[p.first + i] = sort_word_at(range, (W)(shared[i] >> row));
            order[p.first + i] = (int32_t)(shared[i] & (((uint64_t)1 << row) - 1));
        }
    }
}

// A bucket in registers, up to `items` keys a thread, by as few warps as that takes. row: bits of
// rows, which with those of distances are at most 64. shared [2 * items * threads].
template <int threads, int items, typename W>
SPIRA_DEVICE void sort_quickly(const sort_pieces &p, const sort_key<W> *__restrict__ from,
                               const sort_range<W> &range, int row, uint32_t *shared, W *sorted,
                               int32_t *order) {
    const int used = (int)((uint32_t)p.count + 32 * items - 1) / (32 * items) * 32;
    const sort_packing pack = sort_packing_of(range, p.count, row);
    const bool packs = sizeof(W) == 4 || pack.low + pack.row <= 32; // of 32 bits, all do
    uint32_t *rest = shared + items * threads;
    uint64_t *wide = (uint64_t *)shared, key[items];
    if (packs) {
        sort_gather<threads>(p, from, [&](int i, sort_key<W> k) {
            W away = sort_distance(range, k.word);
            shared[i] = (uint32_t)(away >> pack.low) << pack.number | (uint32_t)i;
            rest[i] = (uint32_t)(away & (((W)1 << pack.low) - 1)) << row | (uint32_t)k.row;
        });
    } else {
        sort_gather<threads>(p, from, [&](int i, sort_key<W> k) {
            wide[i] = (uint64_t)sort_distance(range, k.word) << row | (uint64_t)k.row;
        });
    }
    __syncthreads();
    if ((int)threadIdx.x >= used ||
        (packs &&
         sort_by_numbers<threads, items>(p, range, pack, used, shared, rest, sorted, order))) {
        return;
    }
#pragma unroll
    for (int j = 0; j < items; ++j) {
        int i = j * used + (int)threadIdx.x;
        key[j] = UINT64_MAX;
        if (i < p.count && !packs) {
            key[j] = wide[i];
        } else if (i < p.count) {
            uint32_t k = shared[i], r = rest[sort_number_of(pack, k)];
            key[j] = sort_unpack(pack, k, r) << row | (uint64_t)(uint32_t)sort_unpack_row(pack, r);
        }
    }
    sort_by_rows<threads, items>(p, range, row, used, key, wide, sorted, order);
}

// Any bucket: in shared [bytes] if it fits, else where it will stand.
template <typename W>
SPIRA_DEVICE void sort_any(const sort_pieces &p, const sort_key<W> *__restrict__ from, void *shared,
                           int bytes, W *sorted, int32_t *order) {
    bool fits = p.count <= bytes / (int)(sizeof(W) + sizeof(int32_t));
    sorted += p.first;
    order += p.first;
    W *to = fits ? (W *)shared : sorted;
    int32_t *row = fits ? (int32_t *)(to + p.count) : order;
    for (int i = threadIdx.x; i < p.count; i += blockDim.x) {
        sort_key<W> k = from[sort_piece_find(p, i)];
        to[i] = k.word;
        row[i] = (int32_t)k.row;
    }
    __syncthreads();
    sort_slowly(to, row, p.count);
    for (int i = threadIdx.x; fits && i < p.count; i += blockDim.x) {
        sorted[i] = to[i];
        order[i] = row[i];
    }
}

// Blocks of a multiprocessor that there should be registers for.
SPIRA_BOTH constexpr int sort_resident(int threads) {
    return 1024 / threads;
}

// Sorts each bucket, a block a bucket. end: above all words but word_none(); row: bits of rows.
template <typename W, int threads>
SPIRA_KERNEL void __launch_bounds__(threads, sort_resident(threads))
    sort_buckets_kernel(sort_shape shape, const uint32_t *__restrict__ table,
                        const W *__restrict__ split_word, const sort_key<W> *__restrict__ key,
                        W end, int row, W *sorted, int32_t *order) {
    const int most = sort_bucket_most, few = most / 2;
    __shared__ alignas(16) uint32_t shared[2 * most * threads];
    const int bucket = blockIdx.x;
    const sort_range<W> range = sort_range_of(split_word, bucket, shape.buckets, end);
    const sort_pieces p = sort_find_pieces<threads>(shape, table, bucket);
    if (p.count > most * threads || sort_range_bits(range) + row > 64) {
        sort_any(p, key, shared, (int)sizeof shared, sorted, order);
    } else if (p.count <= few * threads) {
        sort_quickly<threads, few>(p, key, range, row, shared, sorted, order);
    } else {
        sort_quickly<threads, most>(p, key, range, row, shared, sorted, order);
    }
}

template <typename W, int threads>
SPIRA_API status sort_buckets(const sort_scratch<W> *s, W end, int row, W *sorted, int32_t *order,
                              cudaStream_t stream) {
    sort_buckets_kernel<W, threads><<<(unsigned)s->shape.buckets, threads, 0, stream>>>(
        s->shape, s->table, s->split_word, s->key, end, row, sorted, order);
    return status_of_launch("sort");
}

// ---- all of it ----------------------------------------------------------------------------------

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

// A step of voxelize (voxel.cuh), which checks its arguments.
//
// Sorts the words of rows [rows] of a source, below 2^bits - 1 or word_none(); rows of equal words
// keep their order.
//
// outputs  sorted [rows], order [rows]: the row of each sorted word
// s        of sort_carve for as many rows
// Asynchronous, deterministic. word_none() sorts last.
// cost     three launches up to sort_rows_max rows
template <typename W, typename source>
SPIRA_API status sort_source(const source &from, int32_t rows, int bits, W *sorted, int32_t *order,
                             sort_scratch<W> *s, cudaStream_t stream) {
    const sort_shape *shape = &s->shape;
    if (!shape->buckets) {
        sort_words_kernel<W><<<(unsigned)ceil_div(rows, sort_threads), sort_threads, 0, stream>>>(
            from, rows, radix_input(&s->radix, sorted, 0, bits));
        return radix_sort_rows(&s->radix, sorted, order, 0, bits, stream);
    }
    W end = bits < (int)(8 * sizeof(W)) ? (W)1 << bits : word_none<W>();
    const int row = bits_for((uint64_t)rows - 1);
    sort_sample_kernel<W>
        <<<sort_groups * sort_parts, sort_threads, 0, stream>>>(from, *shape, s->sample, s->ranks);
    sort_split_kernel<W>
        <<<(unsigned)shape->blocks, sort_threads, sort_split_bytes<W>(shape), stream>>>(
            from, *shape, s->sample, s->ranks, s->split_word, s->split_row, s->table, s->key);
    return sort_is_crowded(shape)
               ? sort_buckets<W, sort_crowded_threads>(s, end, row, sorted, order, stream)
               : sort_buckets<W, sort_bucket_threads>(s, end, row, sorted, order, stream);
}

// The same of words [rows] in memory.
template <typename W>
SPIRA_API status sort_words(const W *words, int32_t rows, int bits, W *sorted, int32_t *order,
                            sort_scratch<W> *s, cudaStream_t stream) {
    return sort_source(sort_array<W>{words}, rows, bits, sorted, order, s, stream);
}

} // namespace spira

#endif
