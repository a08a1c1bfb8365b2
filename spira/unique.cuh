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

enum { unique_threads = 512, unique_items = 4, unique_stretch = unique_threads * unique_items };

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
#pragma unroll
    for (int j = 0; j < unique_items; ++j) {
        mine += unique_is_head(sorted, first + j * unique_threads, rows);
    }
    int total = reduce(scratch).Sum(mine);
    if (threadIdx.x == 0) {
        heads[blockIdx.x] = total;
    }
}

// Bookkeeping of sorted word i, which is `row`'s: `rank` is its voxel, counted over all voxels;
// last: no row behind it has one.
template <typename W>
SPIRA_DEVICE void unique_note_row(W word, int64_t i, int32_t row, int32_t capacity, int32_t rank,
                                  bool head, bool last, bool report, voxel_rows out,
                                  device_status *trouble) {
    bool none = word == word_none<W>();
    out.voxel[row] = none || rank >= capacity ? -1 : rank;
    if (!none) {
        if (head && rank <= capacity) {
            out.begin[rank] = (int32_t)i; // of rank == capacity: the end of the last one that fits
        }
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

// The heads of all stretches, over those of the stretches in front of the block's own: 32 bits
// each. To all threads of a block, with barriers inside.
SPIRA_DEVICE uint64_t unique_sum_heads(const int32_t *heads) {
    typedef cub::BlockReduce<uint64_t, unique_threads> reduce;
    __shared__ typename reduce::TempStorage scratch;
    __shared__ uint64_t shared;
    uint64_t sum = 0;
    for (uint32_t b = threadIdx.x; b < gridDim.x; b += unique_threads) {
        const uint64_t own = (uint32_t)heads[b];
        sum += own << 32 | (b < blockIdx.x ? own : 0);
    }
    sum = reduce(scratch).Sum(sum);
    if (threadIdx.x == 0) {
        shared = sum;
    }
    __syncthreads();
    return shared;
}

// Words of a block in front of each that are heads, and itself: of a warp's items the `bits` are
// there. Called by all threads of a block, with barriers inside.
SPIRA_DEVICE void unique_rank_heads(const uint32_t (&bits)[unique_items],
                                    int32_t (&rank)[unique_items]) {
    typedef cub::BlockScan<int, unique_threads> scan;
    const int warps = unique_threads / 32, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    __shared__ typename scan::TempStorage scratch;
    __shared__ int32_t before[unique_items * warps];
    if (lane == 0) {
#pragma unroll
        for (int j = 0; j < unique_items; ++j) {
            before[j * warps + warp] = __popc(bits[j]);
        }
    }
    __syncthreads();
    const bool has = threadIdx.x < unique_items * warps;
    int own = has ? before[threadIdx.x] : 0;
    scan(scratch).ExclusiveSum(own, own);
    if (has) {
        before[threadIdx.x] = own;
    }
    __syncthreads();
#pragma unroll
    for (int j = 0; j < unique_items; ++j) {
        rank[j] = before[j * warps + warp] + __popc(bits[j] & (~0u >> (31 - lane)));
    }
}

// Writes the set and, where out.voxel is given, which row fell into which voxel. A thread has its
// reads under way before it writes.
template <typename W>
SPIRA_KERNEL void __launch_bounds__(unique_threads)
    unique_write_kernel(const W *__restrict__ sorted, int32_t rows,
                        const int32_t *__restrict__ heads, voxel_set<W> set, voxel_rows out,
                        bool report, device_status *trouble) {
    const int64_t first = (int64_t)blockIdx.x * unique_stretch + threadIdx.x;
    const uint32_t lane = threadIdx.x % 32;
    W word[unique_items];
    uint32_t bits[unique_items], lasts = 0;
    int32_t row[unique_items], rank[unique_items];
#pragma unroll
    for (int j = 0; j < unique_items; ++j) {
        const int64_t i = first + j * unique_threads;
        word[j] = i < rows ? sorted[i] : word_none<W>();
        row[j] = out.voxel && i < rows ? out.order[i] : 0;
        lasts |= (uint32_t)(i + 1 >= rows || sorted[i + 1] == word_none<W>()) << j;
        bits[j] = __ballot_sync(~0u, unique_is_head(sorted, i, rows));
    }
    const uint64_t sums = unique_sum_heads(heads);
    const int32_t before = (int32_t)(uint32_t)sums, all = (int32_t)(sums >> 32);
    unique_rank_heads(bits, rank);
#pragma unroll
    for (int j = 0; j < unique_items; ++j) {
        const int64_t i = first + j * unique_threads;
        const bool head = bits[j] >> lane & 1;
        const int32_t voxel = before + rank[j] - 1;
        if (head && voxel < set.capacity) {
            set.words[voxel] = word[j];
        }
        if (out.voxel && i < rows) {
            unique_note_row(word[j], i, row[j], set.capacity, voxel, head, (bool)(lasts >> j & 1),
                            report, out, trouble);
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
