// spira/sort.cuh: sorts words, and the rows that they came from, on the GPU.
//
// A radix sort of a frame's worth of words is bound by its passes and not by its keys: each pass is
// a launch that waits for the one before. Up to sort_rows_max rows are sorted by samples instead:
// every fourth of some thousand evenly spread words, ranked, is a splitter; each row finds its
// bucket among the splitters, buckets are laid out one after the other, and a block sorts each
// (CUB). Pairs of word and row are all different, so that no bucket can be much larger than the
// others however many rows share a word. More rows than that go through CUB's radix sort.
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
    sort_rows_max = 1 << 19,
    sort_bucket = 256,       // rows of a bucket, on average; more of them beyond 2^18
    sort_buckets_max = 1024, // all of them are scanned by one block
    sort_oversample = 4,     // samples for each splitter
    sort_threads = 256,
    sort_sample_threads = 256,
    sort_sample_block = 32, // samples that a block ranks
};

template <typename W>
struct sort_key {
    W word;
    int32_t row;
};

template <typename W>
SPIRA_BOTH bool sort_before(const sort_key<W> &a, const sort_key<W> &b) {
    return a.word < b.word || (a.word == b.word && a.row < b.row);
}

template <typename W>
struct sort_less {
    SPIRA_HD bool operator()(const sort_key<W> &a, const sort_key<W> &b) const {
        return sort_before(a, b);
    }
};

template <typename W>
struct sort_scratch {
    int32_t buckets;       // 0: radix sort
    sort_key<W> *splitter; // [buckets] the first is not used
    int32_t *total;        // [buckets] rows of each
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

// Ranks the samples by counting those before each; every fourth becomes a splitter. Clears total.
template <typename W>
SPIRA_KERNEL void __launch_bounds__(sort_sample_threads)
    sort_sample_kernel(const W *__restrict__ words, int32_t rows, int32_t buckets,
                       sort_key<W> *splitter, int32_t *total) {
    const int lanes = sort_sample_threads / sort_sample_block; // that share a sample
    extern __shared__ int4 sort_shared[];
    W *word = (W *)sort_shared; // [samples]
    int samples = buckets * sort_oversample;
    for (int s = threadIdx.x; s < samples; s += sort_sample_threads) {
        word[s] = words[sort_sample_row(s, samples, rows)];
    }
    int bucket = blockIdx.x * sort_sample_threads + threadIdx.x;
    if (bucket < buckets) {
        total[bucket] = 0;
    }
    __syncthreads();
    int mine = blockIdx.x * sort_sample_block + (int)threadIdx.x / lanes, before = 0;
    if (mine < samples) { // samples of equal words are ordered by their rows, which ascend
        for (int s = (int)threadIdx.x % lanes; s < samples; s += lanes) {
            before += word[s] < word[mine] || (word[s] == word[mine] && s < mine);
        }
    }
    for (int step = lanes / 2; step; step /= 2) {
        before += __shfl_xor_sync(~0u, before, step);
    }
    if (mine < samples && threadIdx.x % lanes == 0 && before % sort_oversample == 0) {
        splitter[before / sort_oversample] = {word[mine], sort_sample_row(mine, samples, rows)};
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

// place [rows]: the bucket of each row and a place of its own there.
template <typename W>
SPIRA_KERNEL void __launch_bounds__(sort_threads)
    sort_bucket_kernel(const W *__restrict__ words, int32_t rows, int32_t buckets,
                       const sort_key<W> *__restrict__ splitter, int32_t *total, uint32_t *place) {
    extern __shared__ int4 sort_shared[];
    sort_key<W> *split = (sort_key<W> *)sort_shared; // [buckets]
    int32_t *count = (int32_t *)(split + buckets);   // [buckets] of the block, then where they go
    int32_t row = blockIdx.x * sort_threads + threadIdx.x;
    W word = row < rows ? words[row] : 0;
    for (int b = threadIdx.x; b < buckets; b += sort_threads) {
        split[b] = splitter[b];
        count[b] = 0;
    }
    __syncthreads();
    int bucket = 0, mine = 0;
    if (row < rows) {
        bucket = sort_find_bucket(split, buckets, {word, row});
        mine = atomicAdd(count + bucket, 1);
    }
    __syncthreads();
    for (int b = threadIdx.x; b < buckets; b += sort_threads) {
        if (count[b]) {
            count[b] = atomicAdd(total + b, count[b]);
        }
    }
    __syncthreads();
    if (row < rows) {
        place[row] = (uint32_t)bucket << 20 | (uint32_t)(count[bucket] + mine);
    }
}

// Lays the buckets out one after the other; each block works out where they start.
SPIRA_DEVICE void sort_scan_totals(const int32_t *total, int buckets, int32_t *begin) {
    const int each = sort_buckets_max / sort_threads;
    typedef cub::BlockScan<int, sort_threads> scan;
    __shared__ typename scan::TempStorage scratch;
    int items[each];
    for (int j = 0; j < each; ++j) {
        int b = threadIdx.x * each + j;
        items[j] = b < buckets ? total[b] : 0;
    }
    scan(scratch).ExclusiveSum(items, items);
    for (int j = 0; j < each; ++j) {
        begin[threadIdx.x * each + j] = items[j];
    }
    __syncthreads();
}

template <typename W>
SPIRA_KERNEL void __launch_bounds__(sort_threads)
    sort_place_kernel(const W *__restrict__ words, int32_t rows, int32_t buckets,
                      const int32_t *__restrict__ total, const uint32_t *__restrict__ place,
                      sort_key<W> *key) {
    __shared__ int32_t begin[sort_buckets_max];
    int32_t row = blockIdx.x * sort_threads + threadIdx.x;
    W word = row < rows ? words[row] : 0;
    uint32_t at = row < rows ? place[row] : 0;
    sort_scan_totals(total, buckets, begin);
    if (row < rows) {
        key[begin[at >> 20] + (int32_t)(at & 0xfffff)] = {word, row};
    }
}

// Sorts keys [count] by one block, wherever they are: the comparators of a bitonic sort that all
// point upward, so that what is missing at the end counts as largest.
template <typename W>
SPIRA_DEVICE void sort_slowly(sort_key<W> *key, int count) {
    for (int64_t run = 2; run < 2 * (int64_t)count; run *= 2) {
        for (int64_t step = run / 2; step; step /= 2) {
            for (int64_t i = threadIdx.x; i < count; i += sort_threads) {
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

// Sorts keys [count] in registers, `items` a thread, and writes them.
template <typename W, int items>
SPIRA_DEVICE void sort_quickly(const sort_key<W> *key, int count, void *shared, W *sorted,
                               int32_t *order) {
    typedef cub::BlockMergeSort<sort_key<W>, sort_threads, items> sort;
    sort_key<W> mine[items];
    const sort_key<W> last = {word_none<W>(), INT32_MAX};
    for (int j = 0; j < items; ++j) {
        int i = threadIdx.x * items + j;
        mine[j] = i < count ? key[i] : last;
    }
    sort(*(typename sort::TempStorage *)shared).Sort(mine, sort_less<W>());
    for (int j = 0; j < items; ++j) {
        int i = threadIdx.x * items + j;
        if (i < count) {
            sorted[i] = mine[j].word;
            order[i] = mine[j].row;
        }
    }
}

template <typename W>
SPIRA_KERNEL void __launch_bounds__(sort_threads)
    sort_buckets_kernel(const int32_t *__restrict__ total, int32_t buckets, sort_key<W> *key,
                        W *sorted, int32_t *order) {
    const int most = 8;
    __shared__ int32_t begin[sort_buckets_max];
    __shared__ typename cub::BlockMergeSort<sort_key<W>, sort_threads, most>::TempStorage shared;
    sort_scan_totals(total, buckets, begin);
    int first = begin[blockIdx.x], count = total[blockIdx.x];
    key += first;
    sorted += first;
    order += first;
    if (count <= sort_threads) {
        sort_quickly<W, 1>(key, count, &shared, sorted, order);
    } else if (count <= 2 * sort_threads) {
        sort_quickly<W, 2>(key, count, &shared, sorted, order);
    } else if (count <= 4 * sort_threads) {
        sort_quickly<W, 4>(key, count, &shared, sorted, order);
    } else if (count <= most * sort_threads) {
        sort_quickly<W, most>(key, count, &shared, sorted, order);
    } else {
        sort_slowly(key, count);
        for (int i = threadIdx.x; i < count; i += sort_threads) {
            sorted[i] = key[i].word;
            order[i] = key[i].row;
        }
    }
}

[[maybe_unused]] static __global__ void __launch_bounds__(sort_threads)
    sort_rows_kernel(int32_t rows, int32_t *row) {
    int32_t i = blockIdx.x * sort_threads + threadIdx.x;
    if (i < rows) {
        row[i] = i;
    }
}

// Sorts words [rows] by their lowest `bits` bits, or more; rows of equal words keep their order.
//
// outputs  sorted [rows], order [rows]: the row of each sorted word
// s        of sort_carve for as many rows
// Asynchronous, deterministic. word_none() sorts last.
template <typename W>
SPIRA_API status sort_words(const W *words, int32_t rows, int bits, W *sorted, int32_t *order,
                            sort_scratch<W> *s, cudaStream_t stream) {
    unsigned blocks = (unsigned)ceil_div(rows, sort_threads);
    if (!s->buckets) {
        sort_rows_kernel<<<blocks, sort_threads, 0, stream>>>(rows, s->rows);
        return sort_radix(s, words, sorted, order, rows, bits, stream);
    }
    int samples = s->buckets * sort_oversample;
    size_t split = (size_t)s->buckets * (sizeof(sort_key<W>) + sizeof(int32_t));
    sort_sample_kernel<W>
        <<<(unsigned)ceil_div(samples, sort_sample_block), sort_sample_threads,
           (size_t)samples * sizeof(W), stream>>>(words, rows, s->buckets, s->splitter, s->total);
    sort_bucket_kernel<W><<<blocks, sort_threads, split, stream>>>(words, rows, s->buckets,
                                                                   s->splitter, s->total, s->place);
    sort_place_kernel<W>
        <<<blocks, sort_threads, 0, stream>>>(words, rows, s->buckets, s->total, s->place, s->key);
    sort_buckets_kernel<W><<<(unsigned)s->buckets, sort_threads, 0, stream>>>(
        s->total, s->buckets, s->key, sorted, order);
    return status_of_launch("sort");
}

} // namespace spira

#endif
