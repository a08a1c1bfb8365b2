// spira/sort.cuh: sorts words, and the rows that they came from, on the GPU, in three launches.
//
// A sort of a frame's worth of words is bound by its launches, each of which waits for the one
// before, and not by its keys. Up to sort_rows_max rows are sorted by samples:
//   sample  ranks some thousand words; every third to eighth of them is a splitter
//   split   each block takes a stretch of rows and lays them out bucket by bucket, within the
//           stretch; a table says where each bucket starts there
//   sort    a block gathers a bucket from all stretches, sorts it and writes it: the table's
//           columns add up to where it belongs
// Nothing is counted across blocks, and the words of the rows are made where they are needed: by
// sample for the samples, by split for all. Pairs of word and row are all different, so that
// buckets are much alike however many rows share a word; one that is not is sorted slowly, and
// right. More rows than that go through CUB's radix sort.
#ifndef SPIRA_SORT_CUH
#define SPIRA_SORT_CUH

#include "async.cuh"
#include "math.h"
#include "status.cuh"
#include "word.h"
#include "workspace.h"

#include <cub/block/block_scan.cuh>
#include <cub/device/device_radix_sort.cuh>

namespace spira {

enum {
    sort_rows_max = 1 << 20,     // beyond, the radix sort
    sort_bucket = 256,           // rows of a bucket on average, until there are as many as may be
    sort_buckets_max = 1400,     // what split has shared memory for
    sort_samples = 4096,         // about: each is compared with each
    sort_oversample_least = 3,   // samples for each splitter
    sort_oversample_most = 8,    //
    sort_oversample_crowded = 4, // of buckets that are larger than on average
    sort_threads = 1024,         // of sample and split
    sort_blocks = 128,           // stretches, while threads have room: a large GPU has as many SMs
    sort_blocks_max = 256,       // and no more than a block of the last step has threads
    sort_most_rows = 4,          // rows of a thread of split
    sort_rank_keys = 4,          // samples that a warp ranks side by side
    sort_rank_parts = 4,         // warps that share them
    sort_rank_block = sort_threads / 32 / sort_rank_parts * sort_rank_keys,
    sort_bucket_threads = 256,
};

// Samples that a thread of `sample` loads.
enum { sort_most_samples = 6 };
static_assert(sort_most_samples * sort_threads >= sort_samples + sort_oversample_most &&
                  sort_most_samples * sort_threads >= sort_buckets_max * sort_oversample_crowded,
              "sort: samples");
static_assert(sort_blocks_max * sort_threads * sort_most_rows >= sort_rows_max, "sort: rows");
static_assert(sort_blocks_max <= sort_bucket_threads, "sort: stretches");
static_assert(2 * sort_threads >= sort_buckets_max, "sort: buckets");

// How rows are cut.
struct sort_shape {
    int32_t rows, buckets; // buckets 0: radix sort
    int32_t oversample;
    int32_t each, blocks; // stretches of sort_threads * each rows
    uint64_t step;        // rows from sample to sample, times 2^32
};

// Buckets stay small enough for eight keys a thread: what is larger has 16.
SPIRA_API bool sort_is_crowded(const sort_shape *s) {
    return s->rows > (int32_t)sort_buckets_max * sort_bucket;
}

SPIRA_API sort_shape sort_shape_make(int32_t rows) {
    sort_shape s = {rows, 0, 0, 0, 0, 0};
    if (rows <= sort_rows_max) {
        s.buckets = (int32_t)min_of(ceil_div(rows, sort_bucket), sort_buckets_max);
        s.oversample =
            sort_is_crowded(&s)
                ? (int32_t)sort_oversample_crowded
                : (int32_t)min_of(max_of(sort_samples / s.buckets, sort_oversample_least),
                                  sort_oversample_most);
        s.each = (int32_t)min_of(ceil_div(rows, sort_threads * sort_blocks), sort_most_rows);
        s.blocks = (int32_t)ceil_div(rows, (int64_t)sort_threads * s.each);
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

template <typename W>
struct sort_scratch {
    sort_shape shape;
    W *split_word;      // [buckets] the splitters, of which the first is not used
    int32_t *split_row; // [buckets]
    uint16_t *table;    // [blocks, buckets + 1] where each bucket starts in each stretch
    W *word;            // [rows] stretch by stretch, bucket by bucket; radix sort: [rows]
    uint16_t *local;    // [rows] the same: the row in its stretch
    int32_t *row;       // [rows] 0, 1, 2, ...: radix sort only
    char *cub;          // [cub_bytes]
    size_t cub_bytes;
};

// CUB's scratch is asked for the largest number of bits, so that it fits any layout.
template <typename W>
SPIRA_API status sort_radix(sort_scratch<W> *s, W *sorted, int32_t *order, int32_t rows, int bits,
                            cudaStream_t stream) {
    return status_from_cuda(cub::DeviceRadixSort::SortPairs(s->cub, s->cub_bytes, s->word, sorted,
                                                            s->row, order, rows, 0, bits, stream),
                            "radix sort");
}

template <typename W>
SPIRA_API status sort_carve(workspace *w, int32_t rows, sort_scratch<W> *s) {
    *s = {};
    s->shape = sort_shape_make(rows);
    const sort_shape *shape = &s->shape;
    s->word = workspace_take<W>(w, rows);
    if (shape->buckets) {
        s->split_word = workspace_take<W>(w, shape->buckets);
        s->split_row = workspace_take<int32_t>(w, shape->buckets);
        s->table = workspace_take<uint16_t>(w, (int64_t)shape->blocks * (shape->buckets + 1));
        s->local = workspace_take<uint16_t>(w, rows);
        return status_success();
    }
    sort_scratch<W> ask = {};
    SPIRA_TRY(sort_radix<W>(&ask, nullptr, nullptr, rows, 8 * (int)sizeof(W), nullptr));
    s->row = workspace_take<int32_t>(w, rows);
    s->cub_bytes = ask.cub_bytes;
    s->cub = workspace_take<char>(w, (int64_t)s->cub_bytes);
    return status_success();
}

// ---- where words come from ----------------------------------------------------------------------

// A source has sort_load, which reads what makes the word of a row, and sort_word, which makes it:
// apart, so that a thread has the reads of all its rows under way. `report`: the row is seen for
// the first time, and what is wrong with it may be recorded. This one has the words as they are;
// voxel.cuh makes them from coordinates.
template <typename W>
struct sort_array {
    const W *words; // [rows]
};

template <typename W>
SPIRA_DEVICE W sort_load(const sort_array<W> &from, int32_t row) {
    return from.words[row];
}

template <typename W>
SPIRA_DEVICE W sort_word(const sort_array<W> &, W loaded, int32_t, bool) {
    return loaded;
}

// The words of rows at(0), at(1), ... below the number of rows; zeros for others.
template <typename W, int most, typename source, typename place>
SPIRA_DEVICE void sort_words_load(const source &from, int32_t rows, bool report, W (&word)[most],
                                  place at) {
    decltype(sort_load(from, 0)) loaded[most];
#pragma unroll
    for (int j = 0; j < most; ++j) {
        if (at(j) < rows) {
            loaded[j] = sort_load(from, at(j));
        }
    }
#pragma unroll
    for (int j = 0; j < most; ++j) {
        word[j] = at(j) < rows ? sort_word(from, loaded[j], at(j), report) : (W)0;
    }
}

// ---- sample -------------------------------------------------------------------------------------

// Adds how many of word [begin, end) stand before each key; of equal ones, all or none.
template <bool equal, typename W>
SPIRA_DEVICE void sort_count_before(const W *word, int begin, int end,
                                    const W (&key)[sort_rank_keys], int (&before)[sort_rank_keys]) {
#pragma unroll 4
    for (int s = begin + (int)threadIdx.x % 32; s < end; s += 32) {
        W other = word[s];
#pragma unroll
        for (int j = 0; j < sort_rank_keys; ++j) {
            before[j] += equal ? !(key[j] < other) : other < key[j];
        }
    }
}

// How many samples of a part of them stand before those from `mine` on: of equal words the first.
// The sums are spread over the lanes.
template <typename W>
SPIRA_DEVICE void sort_rank_samples(const W *word, int samples, int mine, int part,
                                    int (&before)[sort_rank_keys]) {
    W key[sort_rank_keys];
#pragma unroll
    for (int j = 0; j < sort_rank_keys; ++j) {
        key[j] = word[min(mine + j, samples - 1)];
        before[j] = 0;
    }
    int begin = samples * part / sort_rank_parts, end = samples * (part + 1) / sort_rank_parts;
    sort_count_before<true>(word, begin, min(end, mine), key, before);
    sort_count_before<false>(word, max(begin, mine + (int)sort_rank_keys), end, key, before);
    int s = mine + (int)threadIdx.x % 32; // the keys among themselves
    if (part == 0 && s < min(mine + (int)sort_rank_keys, samples)) {
#pragma unroll
        for (int j = 0; j < sort_rank_keys; ++j) {
            before[j] += word[s] < key[j] || (word[s] == key[j] && s < mine + j);
        }
    }
}

// Ranks the samples by counting those before each; the ranks that the splitters have are written.
template <typename W, typename source>
SPIRA_KERNEL void __launch_bounds__(sort_threads)
    sort_sample_kernel(source from, sort_shape shape, W *split_word, int32_t *split_row) {
    extern __shared__ int4 sort_shared[];
    __shared__ int32_t rank[sort_rank_block];
    W *word = (W *)sort_shared; // [samples]
    const int groups = sort_rank_block / sort_rank_keys;
    int samples = shape.buckets * shape.oversample, warp = threadIdx.x / 32;
    W load[sort_most_samples];
    sort_words_load(from, shape.rows, false, load, [&](int j) {
        int s = j * sort_threads + (int)threadIdx.x;
        return s < samples ? sort_sample_row(&shape, s) : shape.rows;
    });
#pragma unroll
    for (int j = 0; j < sort_most_samples; ++j) {
        int s = j * sort_threads + (int)threadIdx.x;
        if (s < samples) {
            word[s] = load[j];
        }
    }
    if (threadIdx.x < sort_rank_block) {
        rank[threadIdx.x] = 0;
    }
    __syncthreads();
    int group = warp % groups * sort_rank_keys, mine = blockIdx.x * sort_rank_block + group;
    if (mine < samples) {
        int before[sort_rank_keys];
        sort_rank_samples(word, samples, mine, warp / groups, before);
#pragma unroll
        for (int j = 0; j < sort_rank_keys; ++j) {
            for (int step = 16; step; step /= 2) {
                before[j] += __shfl_xor_sync(~0u, before[j], step);
            }
            if (threadIdx.x % 32 == 0) {
                atomicAdd(rank + group + j, before[j]);
            }
        }
    }
    __syncthreads();
    int s = blockIdx.x * sort_rank_block + (int)threadIdx.x;
    if (threadIdx.x < sort_rank_block && s < samples && rank[threadIdx.x] % shape.oversample == 0) {
        int bucket = rank[threadIdx.x] / shape.oversample;
        split_word[bucket] = word[s];
        split_row[bucket] = sort_sample_row(&shape, s);
    }
}

// ---- split --------------------------------------------------------------------------------------

// The bucket of a row: the last splitter that is not behind it.
template <typename W>
SPIRA_DEVICE int sort_find_bucket(const W *split_word, const int32_t *split_row, int buckets,
                                  W word, int32_t row) {
    int at = 0;
    for (int step = 1 << (31 - __clz(buckets)); step; step >>= 1) {
        int next = at + step;
        if (next < buckets) {
            W other = split_word[next];
            at = other < word || (other == word && split_row[next] <= row) ? next : at;
        }
    }
    return at;
}

// The same of the rows first, first + sort_threads, ... of a thread, side by side: by their words,
// and by their rows where a splitter has the same word.
template <int each, typename W>
SPIRA_DEVICE void sort_find_buckets(const W *split_word, const int32_t *split_row, int buckets,
                                    const W (&word)[sort_most_rows], int32_t first,
                                    int (&bucket)[sort_most_rows]) {
#pragma unroll
    for (int j = 0; j < each; ++j) {
        bucket[j] = 0;
    }
    for (int step = 1 << (31 - __clz(buckets)); step; step >>= 1) {
        W other[each];
#pragma unroll
        for (int j = 0; j < each; ++j) {
            other[j] = split_word[min(bucket[j] + step, buckets - 1)];
        }
#pragma unroll
        for (int j = 0; j < each; ++j) {
            bool behind = bucket[j] + step >= buckets || word[j] < other[j];
            bucket[j] += behind ? 0 : step;
        }
    }
#pragma unroll
    for (int j = 0; j < each; ++j) {
        int32_t row = first + j * sort_threads;
        if (split_word[bucket[j]] == word[j] && split_row[bucket[j]] > row) {
            bucket[j] = sort_find_bucket(split_word, split_row, buckets, word[j], row);
        }
    }
}

template <int from, typename W>
SPIRA_DEVICE void sort_find_buckets_any(int each, const W *split_word, const int32_t *split_row,
                                        int buckets, const W (&word)[sort_most_rows], int32_t first,
                                        int (&bucket)[sort_most_rows]) {
    if constexpr (from < sort_most_rows) {
        if (each != from) {
            sort_find_buckets_any<from + 1>(each, split_word, split_row, buckets, word, first,
                                            bucket);
            return;
        }
    }
    sort_find_buckets<from>(split_word, split_row, buckets, word, first, bucket);
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

// Counts of the buckets to where they start, in place, and into a row of the table.
SPIRA_DEVICE void sort_lay_out(int32_t *start, int buckets, uint16_t *table) {
    typedef cub::BlockScan<int, sort_threads, cub::BLOCK_SCAN_WARP_SCANS> scan;
    __shared__ typename scan::TempStorage scratch;
    int b = 2 * (int)threadIdx.x, total;
    int mine[2] = {b < buckets ? start[b] : 0, b + 1 < buckets ? start[b + 1] : 0};
    scan(scratch).ExclusiveSum(mine, mine, total);
    if (b < buckets) {
        start[b] = mine[0];
    }
    if (b + 1 < buckets) {
        start[b + 1] = mine[1];
    }
    __syncthreads();
    for (int i = threadIdx.x; i <= buckets; i += sort_threads) {
        table[i] = (uint16_t)(i < buckets ? start[i] : total);
    }
}

// Bytes of shared memory of split: the splitters' place is the rows' afterwards.
template <typename W>
SPIRA_API size_t sort_split_bytes(const sort_shape *s) {
    int64_t most = (int64_t)sort_threads * s->each;
    return (size_t)(max_of(most, s->buckets) * (int64_t)sizeof(W) + 4 * (int64_t)s->buckets +
                    max_of(2 * most, 4 * (int64_t)s->buckets));
}

// Lays a stretch of rows out bucket by bucket.
template <typename W, typename source>
SPIRA_KERNEL void __launch_bounds__(sort_threads, 1) // else registers are kept free, and spilled
    sort_split_kernel(source from, sort_shape shape, const W *__restrict__ split_word,
                      const int32_t *__restrict__ split_row, uint16_t *table, W *out_word,
                      uint16_t *out_local) {
    extern __shared__ int4 sort_shared[];
    const int most = sort_threads * shape.each, first = blockIdx.x * most;
    const int last = min(first + most, shape.rows), buckets = shape.buckets;
    W *shared_word = (W *)sort_shared;                              // [most] or [buckets]
    int32_t *start = (int32_t *)(shared_word + max(most, buckets)); // [buckets]
    int32_t *shared_row = start + buckets;                          // [buckets]
    uint16_t *shared_local = (uint16_t *)shared_row;                // [most]
    W word[sort_most_rows];
    sort_words_load(from, last, true, word, [&](int j) {
        return j < shape.each ? first + j * sort_threads + (int)threadIdx.x : last;
    });
    for (int b = threadIdx.x; b < buckets; b += sort_threads) {
        shared_word[b] = split_word[b];
        shared_row[b] = split_row[b];
        start[b] = 0;
    }
    __syncthreads();
    int bucket[sort_most_rows];
    sort_find_buckets_any<1>(shape.each, shared_word, shared_row, buckets, word,
                             first + (int)threadIdx.x, bucket);
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
    sort_lay_out(start, buckets, table + (int64_t)blockIdx.x * (buckets + 1));
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
        out_word[first + i] = shared_word[i];
        out_local[first + i] = shared_local[i];
    }
}

// ---- sort ---------------------------------------------------------------------------------------

// Where the rows of a bucket are: rows [begin[b], begin[b + 1]) of it in stretch b, in shared
// memory, and in front of all rows by from[b].
struct sort_pieces {
    const int32_t *begin, *from; // [blocks]
    int blocks, stretch;         // rows of a stretch
    int first, count;            // of the bucket, in the order of all rows
};

// Called by all threads of a block, with barriers inside.
SPIRA_DEVICE sort_pieces sort_find_pieces(const sort_shape &shape,
                                          const uint16_t *__restrict__ table, int bucket) {
    typedef cub::BlockScan<uint64_t, sort_bucket_threads, cub::BLOCK_SCAN_WARP_SCANS> scan;
    __shared__ typename scan::TempStorage scratch;
    __shared__ int32_t begin[sort_blocks_max], from[sort_blocks_max];
    int b = threadIdx.x, start = 0, end = 0, stretch = sort_threads * shape.each;
    if (b < shape.blocks) {
        const uint16_t *at = table + (int64_t)b * (shape.buckets + 1) + bucket;
        start = at[0];
        end = at[1];
    }
    // Rows of the buckets before, and of this one.
    uint64_t mine = (uint64_t)start << 32 | (uint64_t)(end - start), total;
    scan(scratch).ExclusiveSum(mine, mine, total);
    if (b < shape.blocks) {
        begin[b] = (int32_t)(uint32_t)mine;
        from[b] = b * stretch + start - begin[b];
    }
    __syncthreads();
    return {begin, from, shape.blocks, stretch, (int32_t)(total >> 32), (int32_t)(uint32_t)total};
}

template <typename W>
struct sort_key {
    W word;
    int32_t row;
};

// Key i of a bucket, in no particular order.
template <typename W>
SPIRA_DEVICE sort_key<W> sort_piece_key(const sort_pieces &p, const W *__restrict__ word,
                                        const uint16_t *__restrict__ local, int i) {
    int piece = 0;
    for (int step = 1 << (31 - __clz(p.blocks)); step; step >>= 1) {
        int next = piece + step;
        piece = next < p.blocks && p.begin[next] <= i ? next : piece;
    }
    int at = p.from[piece] + i;
    return {word[at], piece * p.stretch + local[at]};
}

// Sorts [count] by one block, wherever they are: the comparators of a bitonic sort that all point
// upward, so that what is missing at the end counts as largest.
template <typename W>
SPIRA_DEVICE void sort_slowly(W *word, int32_t *row, int count) {
    for (int run = 2; run < 2 * count; run *= 2) { // count is at most sort_rows_max
        for (int step = run / 2; step; step /= 2) {
            for (int i = threadIdx.x; i < count; i += sort_bucket_threads) {
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

// A key as one number, the word's distance from a base over `shift` bits of the row: the words of
// a bucket lie close together.
template <typename W>
SPIRA_DEVICE uint64_t sort_pack(sort_key<W> key, W base, int shift) {
    uint64_t away =
        key.word == word_none<W>() ? UINT64_MAX >> shift : (uint64_t)(W)(key.word - base);
    return away << shift | (uint64_t)(uint32_t)key.row;
}

template <typename W>
SPIRA_DEVICE sort_key<W> sort_unpack(uint64_t packed, W base, int shift) {
    uint64_t away = packed >> shift;
    return {away == UINT64_MAX >> shift ? word_none<W>() : (W)(base + (W)away),
            (int32_t)(packed & (((uint64_t)1 << shift) - 1))};
}

// The lower of two to `a`.
SPIRA_DEVICE void sort_two(uint64_t &a, uint64_t &b) {
    uint64_t low = a < b ? a : b, high = a < b ? b : a;
    a = low;
    b = high;
}

// Sorts the keys of a thread. A merge begins with a mirrored step, so that all comparators point
// upward.
template <int items>
SPIRA_DEVICE void sort_thread(uint64_t (&key)[items]) {
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
template <int items>
SPIRA_DEVICE void sort_thread_merge(uint64_t (&key)[items]) {
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

// A step with the thread across: other(j) is its key j. The keys are compared one by one, or those
// of one thread with those of the other backwards; `low` keeps the lower ones.
template <bool mirror, int items, typename across>
SPIRA_DEVICE void sort_meet(uint64_t (&key)[items], bool low, across other) {
    const int pairs = mirror ? (items + 1) / 2 : items; // two of a thread at a time: few registers
#pragma unroll
    for (int j = 0; j < pairs; ++j) {
        const int k = mirror ? items - 1 - j : j;
        uint64_t to_j = other(k), to_k = other(j);
        key[j] = low == (key[j] < to_j) ? key[j] : to_j;
        if (k != j) {
            key[k] = low == (key[k] < to_k) ? key[k] : to_k;
        }
    }
}

// A step among threads: thread t and t ^ mask, of the first `used`, whole warps; what others would
// have is behind all keys. Called by all of them, with barriers inside where warps meet. shared
// [items * sort_bucket_threads].
template <bool mirror, int items>
SPIRA_DEVICE void sort_exchange(uint64_t (&key)[items], int mask, int used, uint64_t *shared) {
    int thread = threadIdx.x, across = thread ^ mask;
    if (mask < 32) {
        sort_meet<mirror>(key, thread < across, [&](int j) {
            return (uint64_t)__shfl_xor_sync(~0u, (unsigned long long)key[j], mask);
        });
        return;
    }
    block_part_sync(1, used); // all have read what was there
#pragma unroll
    for (int j = 0; j < items; ++j) {
        shared[j * sort_bucket_threads + thread] = key[j];
    }
    block_part_sync(1, used);
    if (across < used) {
        sort_meet<mirror>(key, thread < across,
                          [&](int j) { return shared[j * sort_bucket_threads + across]; });
    }
}

// Sorts the keys of the first `used` threads of a block, whole warps, `items` a thread, by a
// bitonic network.
template <int items>
SPIRA_DEVICE void sort_block(uint64_t (&key)[items], int used, uint64_t *shared) {
    sort_thread(key);
#pragma unroll 1
    for (int run = 1; run < used; run *= 2) {
        sort_exchange<true>(key, 2 * run - 1, used, shared);
#pragma unroll 1
        for (int step = run / 2; step; step /= 2) {
            sort_exchange<false>(key, step, used, shared);
        }
        sort_thread_merge(key);
    }
}

// A bucket in registers, up to `items` keys a thread, by as few warps as that takes. shared
// [items * sort_bucket_threads].
template <int items, typename W>
SPIRA_DEVICE void sort_quickly(const sort_pieces &p, const W *word, const uint16_t *local, W base,
                               int shift, uint64_t *shared, W *sorted, int32_t *order) {
    const int thread = (int)threadIdx.x, used = (p.count + 32 * items - 1) / (32 * items) * 32;
    uint64_t key[items];
    if (thread >= used) {
        return;
    }
#pragma unroll
    for (int j = 0; j < items; ++j) {
        int i = j * used + thread;
        key[j] =
            i < p.count ? sort_pack(sort_piece_key(p, word, local, i), base, shift) : UINT64_MAX;
    }
    sort_block(key, used, shared);
    if (items > 1) { // threads side by side shall write side by side
        block_part_sync(1, used);
#pragma unroll
        for (int j = 0; j < items; ++j) {
            shared[thread * items + j] = key[j];
        }
        block_part_sync(1, used);
    }
#pragma unroll
    for (int j = 0; j < items; ++j) {
        int i = j * used + thread;
        if (i < p.count) {
            sort_key<W> k = sort_unpack(items > 1 ? shared[i] : key[0], base, shift);
            sorted[p.first + i] = k.word;
            order[p.first + i] = k.row;
        }
    }
}

// Any bucket: in shared [bytes] if it fits, else where it will stand.
template <typename W>
SPIRA_DEVICE void sort_any(const sort_pieces &p, const W *word, const uint16_t *local, void *shared,
                           int bytes, W *sorted, int32_t *order) {
    bool fits = p.count <= bytes / (int)(sizeof(W) + sizeof(int32_t));
    sorted += p.first;
    order += p.first;
    W *to = fits ? (W *)shared : sorted;
    int32_t *row = fits ? (int32_t *)(to + p.count) : order;
    for (int i = threadIdx.x; i < p.count; i += sort_bucket_threads) {
        sort_key<W> k = sort_piece_key(p, word, local, i);
        to[i] = k.word;
        row[i] = k.row;
    }
    __syncthreads();
    sort_slowly(to, row, p.count);
    for (int i = threadIdx.x; fits && i < p.count; i += sort_bucket_threads) {
        sorted[i] = to[i];
        order[i] = row[i];
    }
}

// Blocks of a multiprocessor that there should be registers for.
SPIRA_BOTH constexpr int sort_resident(int most) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
    return 4; // it holds no more
#else
    return most > 8 ? 4 : 5;
#endif
}

// Sorts each bucket, a block a bucket, in registers up to `most` keys a thread. end: above all
// words but word_none(); shift: bits that hold a row.
template <typename W, int most>
SPIRA_KERNEL void __launch_bounds__(sort_bucket_threads, sort_resident(most))
    sort_buckets_kernel(sort_shape shape, const uint16_t *__restrict__ table,
                        const W *__restrict__ split_word, const W *__restrict__ word,
                        const uint16_t *__restrict__ local, W end, int shift, W *sorted,
                        int32_t *order) {
    __shared__ uint64_t shared[most * sort_bucket_threads];
    int b = blockIdx.x;
    W base = b ? split_word[b] : 0, last = b + 1 < shape.buckets ? split_word[b + 1] : end;
    last = last < end ? last : end;
    shift = sizeof(W) == 4 ? 32 : shift;
    bool packs = sizeof(W) == 4 || base >= last || (uint64_t)(last - base) < UINT64_MAX >> shift;
    sort_pieces p = sort_find_pieces(shape, table, b);
    if (!packs || p.count > most * sort_bucket_threads) {
        sort_any(p, word, local, shared, (int)sizeof shared, sorted, order);
    } else if (p.count <= sort_bucket_threads) {
        sort_quickly<1>(p, word, local, base, shift, shared, sorted, order);
    } else if (p.count <= 2 * sort_bucket_threads) {
        sort_quickly<2>(p, word, local, base, shift, shared, sorted, order);
    } else if (p.count <= 4 * sort_bucket_threads) {
        sort_quickly<4>(p, word, local, base, shift, shared, sorted, order);
    } else if (most == 8 || p.count <= 8 * sort_bucket_threads) {
        sort_quickly<8>(p, word, local, base, shift, shared, sorted, order);
    } else {
        sort_quickly<most>(p, word, local, base, shift, shared, sorted, order);
    }
}

// ---- all of it ----------------------------------------------------------------------------------

// What the radix sort takes.
template <typename W, typename source>
SPIRA_KERNEL void __launch_bounds__(sort_threads)
    sort_rows_kernel(source from, int32_t rows, W *word, int32_t *row) {
    int32_t i = blockIdx.x * sort_threads + threadIdx.x;
    if (i < rows) {
        word[i] = sort_word(from, sort_load(from, i), i, true);
        row[i] = i;
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
        sort_rows_kernel<W><<<(unsigned)ceil_div(rows, sort_threads), sort_threads, 0, stream>>>(
            from, rows, s->word, s->row);
        return sort_radix(s, sorted, order, rows, bits, stream);
    }
    W end = bits < (int)(8 * sizeof(W)) ? (W)1 << bits : word_none<W>();
    int samples = shape->buckets * shape->oversample, shift = bits_for((uint64_t)rows);
    sort_sample_kernel<W>
        <<<(unsigned)ceil_div(samples, sort_rank_block), sort_threads, (size_t)samples * sizeof(W),
           stream>>>(from, *shape, s->split_word, s->split_row);
    sort_split_kernel<W>
        <<<(unsigned)shape->blocks, sort_threads, sort_split_bytes<W>(shape), stream>>>(
            from, *shape, s->split_word, s->split_row, s->table, s->word, s->local);
    if (sort_is_crowded(shape)) {
        sort_buckets_kernel<W, 16><<<(unsigned)shape->buckets, sort_bucket_threads, 0, stream>>>(
            *shape, s->table, s->split_word, s->word, s->local, end, shift, sorted, order);
    } else {
        sort_buckets_kernel<W, 8><<<(unsigned)shape->buckets, sort_bucket_threads, 0, stream>>>(
            *shape, s->table, s->split_word, s->word, s->local, end, shift, sorted, order);
    }
    return status_of_launch("sort");
}

// The same of words [rows] in memory.
template <typename W>
SPIRA_API status sort_words(const W *words, int32_t rows, int bits, W *sorted, int32_t *order,
                            sort_scratch<W> *s, cudaStream_t stream) {
    return sort_source(sort_array<W>{words}, rows, bits, sorted, order, s, stream);
}

} // namespace spira

#endif
