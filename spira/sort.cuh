// spira/sort.cuh: sorts words, and the rows that they came from, on the GPU.
//
// A radix sort of a frame's worth of words is bound by its passes and not by its keys: each pass is
// a launch that waits for the one before. Up to sort_rows_max rows are sorted by samples instead:
// every third of some thousand evenly spread words, ranked, is a splitter; each row finds its
// bucket among the splitters, buckets are laid out one after the other, and a block sorts each
// (CUB). Pairs of word and row are all different, so that buckets are much alike however many rows
// share a word; one that is not is sorted slowly, and right. More rows than that go through CUB's
// radix sort.
#ifndef SPIRA_SORT_CUH
#define SPIRA_SORT_CUH

#include "math.h"
#include "status.cuh"
#include "word.h"
#include "workspace.h"

#include <cub/block/block_merge_sort.cuh>
#include <cub/block/block_scan.cuh>
#include <cub/device/device_radix_sort.cuh>

namespace spira {

enum {
    sort_rows_max = 1 << 18, // beyond, the radix sort is faster
    sort_bucket = 160,       // rows of a bucket, on average
    sort_buckets_max = 2048, // all of them are scanned by one block
    sort_oversample = 3,     // samples for each splitter
    sort_threads = 1024,     // of the kernels that go over the rows
    sort_most_rows = 2,      // rows of a thread there
    sort_sample_block = 32,  // samples that a block ranks, a warp for each
    sort_bucket_threads = 256,
};

template <typename W>
struct sort_key {
    W word;
    W row; // as wide as the word: there is no padding to copy
};

template <typename W>
SPIRA_BOTH bool sort_before(const sort_key<W> &a, const sort_key<W> &b) {
    return a.word < b.word || (a.word == b.word && a.row < b.row);
}

template <typename W>
struct sort_scratch {
    int32_t buckets;       // 0: radix sort
    sort_key<W> *splitter; // [buckets] the first is not used
    int32_t *total;        // [buckets] rows of each
    int32_t *begin;        // [buckets] where each starts
    uint32_t *place;       // [rows] bucket << 20 | place in it
    sort_key<W> *key;      // [rows] bucket by bucket
    int32_t *rows;         // [rows] 0, 1, 2, ...: radix sort only
    char *cub;             // [cub_bytes]
    size_t cub_bytes;
};

SPIRA_API int32_t sort_buckets(int32_t rows) {
    return rows > sort_rows_max ? 0
                                : (int32_t)min_of(ceil_div(rows, sort_bucket), sort_buckets_max);
}

// CUB's scratch is asked for the largest number of bits, so that it fits any layout.
template <typename W>
SPIRA_API status sort_radix(sort_scratch<W> *s, const W *words, W *sorted, int32_t *order,
                            int32_t rows, int bits, cudaStream_t stream) {
    return status_from_cuda(cub::DeviceRadixSort::SortPairs(s->cub, s->cub_bytes, words, sorted,
                                                            s->rows, order, rows, 0, bits, stream),
                            "radix sort");
}

template <typename W>
SPIRA_API status sort_carve(workspace *w, int32_t rows, sort_scratch<W> *s) {
    *s = {};
    s->buckets = sort_buckets(rows);
    if (s->buckets) {
        s->splitter = workspace_take<sort_key<W>>(w, s->buckets);
        s->total = workspace_take<int32_t>(w, s->buckets);
        s->begin = workspace_take<int32_t>(w, s->buckets);
        s->place = workspace_take<uint32_t>(w, rows);
        s->key = workspace_take<sort_key<W>>(w, rows);
        return status_success();
    }
    sort_scratch<W> ask = {};
    SPIRA_TRY(sort_radix<W>(&ask, nullptr, nullptr, nullptr, rows, 8 * (int)sizeof(W), nullptr));
    s->rows = workspace_take<int32_t>(w, rows);
    s->cub_bytes = ask.cub_bytes;
    s->cub = workspace_take<char>(w, (int64_t)s->cub_bytes);
    return status_success();
}

// The row of a sample: evenly spread.
SPIRA_DEVICE int32_t sort_sample_row(int sample, int samples, int32_t rows) {
    return (int32_t)((2 * (int64_t)sample + 1) * rows / (2 * samples));
}

// Ranks the samples by counting those before each; every third becomes a splitter. Clears total.
template <typename W>
SPIRA_KERNEL void __launch_bounds__(sort_threads)
    sort_sample_kernel(const W *__restrict__ words, int32_t rows, int32_t buckets,
                       sort_key<W> *splitter, int32_t *total) {
    extern __shared__ int4 sort_shared[];
    W *word = (W *)sort_shared; // [samples]
    int samples = buckets * sort_oversample, lane = threadIdx.x & 31;
    for (int s = threadIdx.x; s < samples; s += sort_threads) {
        word[s] = words[sort_sample_row(s, samples, rows)];
    }
    for (int b = threadIdx.x; blockIdx.x == 0 && b < buckets; b += sort_threads) {
        total[b] = 0;
    }
    __syncthreads();
    int mine = blockIdx.x * sort_sample_block + (int)threadIdx.x / 32, before = 0;
    if (mine >= samples) {
        return;
    }
    W key = word[mine];
    for (int s = lane; s < samples; s += 32) { // of equal words, the rows ascend
        before += word[s] < key || (word[s] == key && s < mine);
    }
    for (int step = 16; step; step /= 2) {
        before += __shfl_xor_sync(~0u, before, step);
    }
    if (lane == 0 && before % sort_oversample == 0) {
        splitter[before / sort_oversample] = {key, (W)sort_sample_row(mine, samples, rows)};
    }
}

// The bucket of a key: the last splitter that is not behind it.
template <typename W>
SPIRA_DEVICE int sort_find_bucket(const sort_key<W> *splitter, int buckets, sort_key<W> key) {
    int at = 0;
    for (int step = 1 << (31 - __clz(buckets)); step; step >>= 1) {
        int next = at + step;
        at = next < buckets && !sort_before(key, splitter[next]) ? next : at;
    }
    return at;
}

// place [rows]: the bucket of each row and a place of its own there. A thread takes `each` rows.
template <typename W>
SPIRA_KERNEL void __launch_bounds__(sort_threads)
    sort_bucket_kernel(const W *__restrict__ words, int32_t rows, int each, int32_t buckets,
                       const sort_key<W> *__restrict__ splitter, int32_t *total, uint32_t *place) {
    extern __shared__ int4 sort_shared[];
    sort_key<W> *split = (sort_key<W> *)sort_shared; // [buckets]
    int32_t *count = (int32_t *)(split + buckets);   // [buckets] of the block, then where they go
    int32_t first = blockIdx.x * sort_threads * each + threadIdx.x;
    W word[sort_most_rows];
    uint32_t at[sort_most_rows];
#pragma unroll
    for (int j = 0; j < sort_most_rows; ++j) {
        int32_t row = first + j * sort_threads;
        word[j] = j < each && row < rows ? words[row] : 0;
    }
    for (int b = threadIdx.x; b < buckets; b += sort_threads) {
        split[b] = splitter[b];
        count[b] = 0;
    }
    __syncthreads();
#pragma unroll
    for (int j = 0; j < sort_most_rows; ++j) {
        int32_t row = first + j * sort_threads;
        if (j < each && row < rows) {
            int bucket = sort_find_bucket(split, buckets, {word[j], (W)row});
            at[j] = (uint32_t)bucket << 20 | (uint32_t)atomicAdd(count + bucket, 1);
        }
    }
    __syncthreads();
    for (int b = threadIdx.x; b < buckets; b += sort_threads) {
        if (count[b]) {
            count[b] = atomicAdd(total + b, count[b]);
        }
    }
    __syncthreads();
#pragma unroll
    for (int j = 0; j < sort_most_rows; ++j) {
        int32_t row = first + j * sort_threads;
        if (j < each && row < rows) {
            place[row] = at[j] + (uint32_t)count[at[j] >> 20];
        }
    }
}

// Lays the buckets out one after the other; each block works out where they start, and the first
// one writes it down.
template <typename W>
SPIRA_KERNEL void __launch_bounds__(sort_threads)
    sort_place_kernel(const W *__restrict__ words, int32_t rows, int each, int32_t buckets,
                      const int32_t *__restrict__ total, const uint32_t *__restrict__ place,
                      int32_t *begin, sort_key<W> *key) {
    typedef cub::BlockScan<int, sort_threads> scan;
    __shared__ typename scan::TempStorage scratch;
    __shared__ int32_t starts[sort_buckets_max];
    int32_t first = blockIdx.x * sort_threads * each + threadIdx.x;
    W word[sort_most_rows];
    uint32_t at[sort_most_rows];
#pragma unroll
    for (int j = 0; j < sort_most_rows; ++j) {
        int32_t row = first + j * sort_threads;
        bool there = j < each && row < rows;
        word[j] = there ? words[row] : 0;
        at[j] = there ? place[row] : 0;
    }
    const int items = sort_buckets_max / sort_threads;
    int start[items];
    for (int j = 0; j < items; ++j) {
        int b = threadIdx.x * items + j;
        start[j] = b < buckets ? total[b] : 0;
    }
    scan(scratch).ExclusiveSum(start, start);
    for (int j = 0; j < items; ++j) {
        int b = threadIdx.x * items + j;
        starts[b] = start[j];
        if (blockIdx.x == 0 && b < buckets) {
            begin[b] = start[j];
        }
    }
    __syncthreads();
#pragma unroll
    for (int j = 0; j < sort_most_rows; ++j) {
        int32_t row = first + j * sort_threads;
        if (j < each && row < rows) {
            key[starts[at[j] >> 20] + (int32_t)(at[j] & 0xfffff)] = {word[j], (W)row};
        }
    }
}

// Sorts keys [count] by one block, wherever they are: the comparators of a bitonic sort that all
// point upward, so that what is missing at the end counts as largest.
template <typename W>
SPIRA_DEVICE void sort_slowly(sort_key<W> *key, int count) {
    for (int64_t run = 2; run < 2 * (int64_t)count; run *= 2) {
        for (int64_t step = run / 2; step; step /= 2) {
            for (int64_t i = threadIdx.x; i < count; i += sort_bucket_threads) {
                int64_t other = step == run / 2 ? (i ^ (run - 1)) : (i ^ step);
                if (other > i && other < count && sort_before(key[other], key[i])) {
                    sort_key<W> low = key[other];
                    key[other] = key[i];
                    key[i] = low;
                }
            }
            __syncthreads();
        }
    }
}

// A key as one number, 32 bits of the word over the row: the words of a bucket lie close together.
template <typename W>
SPIRA_DEVICE uint64_t sort_pack(sort_key<W> key, W base) {
    uint32_t away = key.word == word_none<W>() ? UINT32_MAX : (uint32_t)(key.word - base);
    return (uint64_t)away << 32 | (uint32_t)key.row;
}

template <typename W>
SPIRA_DEVICE sort_key<W> sort_unpack(uint64_t packed, W base) {
    uint32_t away = (uint32_t)(packed >> 32);
    return {away == UINT32_MAX ? word_none<W>() : base + (W)away, (W)(uint32_t)packed};
}

struct sort_packed_less {
    SPIRA_HD bool operator()(uint64_t a, uint64_t b) const {
        return a < b;
    }
};

template <int items>
using sort_block = cub::BlockMergeSort<uint64_t, sort_bucket_threads, items>;

// Sorts keys [count] in registers, `items` a thread, and writes them. All words that are some are
// less than UINT32_MAX above base.
template <typename W, int items>
SPIRA_DEVICE void sort_quickly(const sort_key<W> *key, int count, W base, void *shared, W *sorted,
                               int32_t *order) {
    uint64_t mine[items];
    for (int j = 0; j < items; ++j) {
        int i = threadIdx.x * items + j;
        mine[j] = i < count ? sort_pack(key[i], base) : UINT64_MAX;
    }
    sort_block<items>(*(typename sort_block<items>::TempStorage *)shared)
        .Sort(mine, sort_packed_less());
    for (int j = 0; j < items; ++j) {
        int i = threadIdx.x * items + j;
        if (i < count) {
            sort_key<W> k = sort_unpack(mine[j], base);
            sorted[i] = k.word;
            order[i] = (int32_t)k.row;
        }
    }
}

// Sorts each bucket, a block a bucket. end: above all words but word_none().
template <typename W>
SPIRA_KERNEL void __launch_bounds__(sort_bucket_threads, 4)
    sort_buckets_kernel(const int32_t *__restrict__ total, const int32_t *__restrict__ begin,
                        int32_t buckets, const sort_key<W> *__restrict__ splitter, W end,
                        sort_key<W> *key, W *sorted, int32_t *order) {
    const int most = 8;
    __shared__ typename sort_block<most>::TempStorage shared;
    int b = blockIdx.x, first = begin[b], count = total[b];
    W base = b ? splitter[b].word : 0, last = b + 1 < buckets ? splitter[b + 1].word : end;
    last = last < end ? last : end;
    bool packs = sizeof(W) == 4 || base >= last || last - base < (W)UINT32_MAX;
    key += first;
    sorted += first;
    order += first;
    if (!packs || count > most * sort_bucket_threads) {
        sort_slowly(key, count);
        for (int i = threadIdx.x; i < count; i += sort_bucket_threads) {
            sorted[i] = key[i].word;
            order[i] = (int32_t)key[i].row;
        }
    } else if (count <= sort_bucket_threads) {
        sort_quickly<W, 1>(key, count, base, &shared, sorted, order);
    } else if (count <= 2 * sort_bucket_threads) {
        sort_quickly<W, 2>(key, count, base, &shared, sorted, order);
    } else if (count <= 4 * sort_bucket_threads) {
        sort_quickly<W, 4>(key, count, base, &shared, sorted, order);
    } else {
        sort_quickly<W, most>(key, count, base, &shared, sorted, order);
    }
}

[[maybe_unused]] static __global__ void __launch_bounds__(sort_threads)
    sort_rows_kernel(int32_t rows, int32_t *row) {
    int32_t i = blockIdx.x * sort_threads + threadIdx.x;
    if (i < rows) {
        row[i] = i;
    }
}

// A step of voxelize (voxel.cuh), which checks its arguments.
//
// Sorts words [rows], below 2^bits - 1 or word_none(); rows of equal words keep their order.
//
// outputs  sorted [rows], order [rows]: the row of each sorted word
// s        of sort_carve for as many rows
// Asynchronous, deterministic. word_none() sorts last.
template <typename W>
SPIRA_API status sort_words(const W *words, int32_t rows, int bits, W *sorted, int32_t *order,
                            sort_scratch<W> *s, cudaStream_t stream) {
    if (!s->buckets) {
        sort_rows_kernel<<<(unsigned)ceil_div(rows, sort_threads), sort_threads, 0, stream>>>(
            rows, s->rows);
        return sort_radix(s, words, sorted, order, rows, bits, stream);
    }
    W end = bits < (int)(8 * sizeof(W)) ? (W)1 << bits : word_none<W>();
    // About as many blocks as a large GPU has multiprocessors.
    int each = (int)ceil_div(rows, sort_rows_max / sort_most_rows);
    unsigned blocks = (unsigned)ceil_div(rows, (int64_t)sort_threads * each);
    int samples = s->buckets * sort_oversample;
    size_t split = (size_t)s->buckets * (sizeof(sort_key<W>) + sizeof(int32_t));
    sort_sample_kernel<W>
        <<<(unsigned)ceil_div(samples, sort_sample_block), sort_threads,
           (size_t)samples * sizeof(W), stream>>>(words, rows, s->buckets, s->splitter, s->total);
    sort_bucket_kernel<W><<<blocks, sort_threads, split, stream>>>(words, rows, each, s->buckets,
                                                                   s->splitter, s->total, s->place);
    sort_place_kernel<W><<<blocks, sort_threads, 0, stream>>>(words, rows, each, s->buckets,
                                                              s->total, s->place, s->begin, s->key);
    sort_buckets_kernel<W><<<(unsigned)s->buckets, sort_bucket_threads, 0, stream>>>(
        s->total, s->begin, s->buckets, s->splitter, end, s->key, sorted, order);
    return status_of_launch("sort");
}

} // namespace spira

#endif
