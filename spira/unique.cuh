// spira/unique.cuh: from sorted words with repeats to a voxel set, in two launches; from words in
// any order, behind a radix sort (CUB).
//
// CUB's select and scan would take three and a temporary array: here each block counts the heads of
// its stretch, then each block adds up the counts before its own and writes.
#ifndef SPIRA_UNIQUE_CUH
#define SPIRA_UNIQUE_CUH

#include "status.cuh"
#include "voxel.h"

#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>
#include <cub/device/device_radix_sort.cuh>

namespace spira {

enum { unique_threads = 256, unique_items = 8, unique_stretch = unique_threads * unique_items };

// Blocks for `rows` sorted words that go into a set of `capacity`.
SPIRA_API int32_t unique_blocks(int32_t rows, int32_t capacity) {
    return (int32_t)ceil_div(max_of(rows, capacity), unique_stretch);
}

template <typename W>
SPIRA_DEVICE bool unique_is_head(const W *sorted, int64_t i, int32_t rows) {
    return i < rows && sorted[i] != word_none<W>() && (i == 0 || sorted[i] != sorted[i - 1]);
}

// heads [blocks]: the distinct words that start in each stretch.
template <typename W>
SPIRA_KERNEL void __launch_bounds__(unique_threads)
    unique_count_kernel(const W *__restrict__ sorted, int32_t rows, int32_t *heads) {
    typedef cub::BlockReduce<int, unique_threads> reduce;
    __shared__ typename reduce::TempStorage scratch;
    int64_t first = (int64_t)blockIdx.x * unique_stretch + threadIdx.x;
    int mine = 0;
    for (int j = 0; j < unique_items; ++j) {
        mine += unique_is_head(sorted, first + j * unique_threads, rows);
    }
    int total = reduce(scratch).Sum(mine);
    if (threadIdx.x == 0) {
        heads[blockIdx.x] = total;
    }
}

// Bookkeeping of one sorted word: `rank` is its voxel, counted over all voxels.
template <typename W>
SPIRA_DEVICE void unique_note_row(const W *sorted, int64_t i, int32_t rows, int32_t capacity,
                                  int32_t rank, bool head, bool report, voxel_rows out,
                                  device_status *trouble) {
    bool none = sorted[i] == word_none<W>();
    int32_t row = out.order[i];
    out.voxel[row] = none || rank >= capacity ? -1 : rank;
    if (!none) {
        if (head && rank <= capacity) {
            out.begin[rank] = (int32_t)i; // of rank == capacity: the end of the last one that fits
        }
        bool last = i + 1 == rows || sorted[i + 1] == word_none<W>();
        if (last && rank < capacity) {
            out.begin[rank + 1] = (int32_t)(i + 1);
        }
        if (!head && report) {
            device_status_raise(trouble, device_flag_duplicate, (uint32_t)row);
        }
    } else if (i == 0) {
        out.begin[0] = 0; // no voxel at all
    }
}

// Writes the set and, where out.voxel is given, which row fell into which voxel.
template <typename W>
SPIRA_KERNEL void __launch_bounds__(unique_threads)
    unique_write_kernel(const W *__restrict__ sorted, int32_t rows,
                        const int32_t *__restrict__ heads, voxel_set<W> set, voxel_rows out,
                        bool report, device_status *trouble) {
    typedef cub::BlockReduce<int, unique_threads> reduce;
    typedef cub::BlockScan<int, unique_threads> scan;
    __shared__ union {
        typename reduce::TempStorage reduce_before, reduce_all;
        typename scan::TempStorage scan;
    } scratch;
    __shared__ int32_t shared_before, shared_all;
    int32_t before = 0, all = 0;
    for (uint32_t b = threadIdx.x; b < gridDim.x; b += unique_threads) {
        all += heads[b];
        before += b < blockIdx.x ? heads[b] : 0;
    }
    before = reduce(scratch.reduce_before).Sum(before);
    __syncthreads();
    all = reduce(scratch.reduce_all).Sum(all);
    if (threadIdx.x == 0) {
        shared_before = before;
        shared_all = all;
    }
    __syncthreads();
    before = shared_before;
    all = shared_all;

    int64_t first = (int64_t)blockIdx.x * unique_stretch;
    for (int j = 0; j < unique_items; ++j) {
        int64_t i = first + j * unique_threads + threadIdx.x;
        bool head = unique_is_head(sorted, i, rows);
        int mine, total;
        scan(scratch.scan).InclusiveSum(head, mine, total);
        __syncthreads();
        int32_t rank = before + mine - 1;
        before += total;
        if (head && rank < set.capacity) {
            set.words[rank] = sorted[i];
        }
        if (out.voxel && i < rows) {
            unique_note_row(sorted, i, rows, set.capacity, rank, head, report, out, trouble);
        }
        if (i >= all && i < set.capacity) {
            set.words[i] = word_none<W>();
        }
    }
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        *set.count = (int32_t)min_of(all, set.capacity);
        if (all > set.capacity) {
            device_status_raise(trouble, device_flag_capacity, (uint32_t)all);
        }
    }
}

// Launches both. sorted [rows]: ascending, word_none() at the end; heads [unique_blocks]: scratch.
// out: order [rows] must hold the row of each sorted word; out.voxel null leaves the rows out.
template <typename W>
SPIRA_API status unique_launch(const W *sorted, int32_t rows, int32_t *heads, voxel_set<W> set,
                               voxel_rows out, bool report, device_status *trouble,
                               cudaStream_t stream) {
    int32_t blocks = unique_blocks(rows, set.capacity);
    unique_count_kernel<W><<<blocks, unique_threads, 0, stream>>>(sorted, rows, heads);
    unique_write_kernel<W>
        <<<blocks, unique_threads, 0, stream>>>(sorted, rows, heads, set, out, report, trouble);
    return status_of_launch("unique");
}

// ---- words in any order -------------------------------------------------------------------------

template <typename W>
struct unique_scratch {
    int32_t rows;
    W *words;  // [rows] what becomes the set; the caller writes them
    W *sorted; // [rows]
    int32_t *heads;
    char *cub; // [cub_bytes]
    size_t cub_bytes;
};

template <typename W>
SPIRA_API status unique_sort(unique_scratch<W> *s, int first_bit, int bits, cudaStream_t stream) {
    return status_from_cuda(cub::DeviceRadixSort::SortKeys(s->cub, s->cub_bytes, s->words,
                                                           s->sorted, s->rows, first_bit, bits,
                                                           stream),
                            "radix sort");
}

// For `rows` words that go into a set of `capacity`.
template <typename W>
SPIRA_API status unique_carve(workspace *w, int32_t rows, int32_t capacity, unique_scratch<W> *s) {
    s->rows = rows;
    s->words = workspace_take<W>(w, rows);
    s->sorted = workspace_take<W>(w, rows);
    s->heads = workspace_take<int32_t>(w, unique_blocks(rows, capacity));
    unique_scratch<W> ask = *s;
    ask.cub = nullptr;
    ask.cub_bytes = 0;
    SPIRA_TRY(unique_sort(&ask, 0, 8 * (int)sizeof(W), nullptr));
    s->cub_bytes = ask.cub_bytes;
    s->cub = workspace_take<char>(w, (int64_t)s->cub_bytes);
    return status_success();
}

// Sorts the words by their bits [first_bit, bits), in which alone they differ, and removes repeats.
template <typename W>
SPIRA_API status unique_sort_launch(unique_scratch<W> *s, int first_bit, int bits, voxel_set<W> out,
                                    device_status *trouble, cudaStream_t stream) {
    SPIRA_TRY(unique_sort(s, first_bit, bits, stream));
    voxel_rows none = {nullptr, nullptr, nullptr};
    return unique_launch(s->sorted, s->rows, s->heads, out, none, false, trouble, stream);
}

} // namespace spira

#endif
