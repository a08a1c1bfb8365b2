// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/index/unique.cuh: makes a voxel set of sorted words with repeats, in two launches; of words
// in any order, after a radix sort.
//
// A head is the first of equal words. In the first launch each thread block counts the heads of its
// segment of the words. In the second each thread block adds up the counts in front of its own and
// writes its voxels.
#ifndef SPIRA_INDEX_UNIQUE_CUH
#define SPIRA_INDEX_UNIQUE_CUH

#include "../base/async.cuh"
#include "../base/launch.cuh"
#include "../status.cuh"
#include "../voxel.h"
#include "radix.cuh"

namespace spira {

enum {
    unique_threads = 512,
    unique_items = 4,         // rows of a thread,
    unique_blocks_few = 1024, // or one, if that takes at most this many thread blocks
};

// How the rows are divided: each thread block takes a segment of unique_threads * items rows.
struct unique_cut {
    int32_t items, blocks;
};

SPIRA_API unique_cut unique_cut_make(int32_t rows, int32_t capacity) {
    const int64_t most = max_of(rows, capacity), blocks = ceil_div(most, unique_threads);
    const bool few = blocks <= unique_blocks_few;
    return {few ? 1 : unique_items, (int32_t)(few ? blocks : ceil_div(blocks, unique_items))};
}

// Whether sorted word i is the first of equal ones.
template <typename W>
SPIRA_DEVICE bool unique_is_head(const W *sorted, int64_t i, int32_t rows) {
    return i < rows && sorted[i] != word_none<W>() && (i == 0 || sorted[i] != sorted[i - 1]);
}

// heads [blocks]: the number of heads in each segment.
template <typename W, int items>
SPIRA_KERNEL void __launch_bounds__(unique_threads)
    unique_count_kernel(const W *__restrict__ sorted, int32_t rows, int32_t *heads) {
    const int64_t first = (int64_t)blockIdx.x * (unique_threads * items) + threadIdx.x;
    bool head[items];
#pragma unroll
    for (int j = 0; j < items; ++j) {
        head[j] = unique_is_head(sorted, first + j * unique_threads, rows);
    }
    int all = 0;
#pragma unroll
    for (int j = 0; j < items; ++j) {
        all += __syncthreads_count(head[j]);
    }
    if (threadIdx.x == 0) {
        heads[blockIdx.x] = all;
    }
}

// What is read and written.
template <typename W>
struct unique_task {
    const W *sorted; // [rows] ascending; word_none() is no voxel and comes last
    int32_t rows;
    int32_t *heads; // [unique_cut_make().blocks] scratch
    voxel_set<W> set;
    voxel_rows out; // order [rows]: the row of each sorted word; voxel null: no rows are wanted
    bool report;    // repeats are errors
    device_status *trouble;
};

// A sorted word.
struct unique_row {
    int64_t at;      // its place
    int32_t row;     // the row that it came from
    int32_t rank;    // its voxel, which may be beyond the capacity
    bool none;       // it is word_none()
    bool head, last; // the first of equal words; no later row has a voxel
};

// Records in voxel_rows where a sorted word belongs.
template <typename W>
SPIRA_DEVICE void unique_note_row(const unique_task<W> &task, const unique_row &r) {
    const int32_t capacity = task.set.capacity;
    task.out.voxel[r.row] = r.none || r.rank >= capacity ? -1 : r.rank;
    if (!r.none) {
        if (r.head && r.rank <= capacity) {
            task.out.begin[r.rank] =
                (int32_t)r.at; // rank == capacity: the end of the last that fits
        }
        if (r.last && r.rank < capacity) {
            task.out.begin[r.rank + 1] = (int32_t)(r.at + 1);
        }
        if (!r.head && task.report) {
            device_status_raise(task.trouble, device_flag_duplicate, (uint32_t)r.row);
        }
    } else if (r.at == 0) {
        task.out.begin[0] = 0; // there is no voxel
    }
}

// The head counts of a thread's first segments, their loads in flight.
enum { unique_counts_ahead = 2 };

struct unique_counts {
    int32_t heads[unique_counts_ahead];
};

SPIRA_DEVICE unique_counts unique_read_counts(const int32_t *heads, int threads) {
    unique_counts read;
#pragma unroll
    for (int j = 0; j < unique_counts_ahead; ++j) {
        const unsigned b = threadIdx.x + (unsigned)(j * threads);
        read.heads[j] = b < gridDim.x ? heads[b] : 0;
    }
    return read;
}

// Adds the heads of all segments to sums[0] and those of the segments in front of this thread
// block's to sums[1], in shared memory. Called by all `threads` threads of a block, whole warps;
// the caller needs a barrier before it reads the sums.
SPIRA_DEVICE void unique_sum_counts(const unique_counts &read, const int32_t *heads, int threads,
                                    int *sums) {
    int all = 0, before = 0;
    unsigned b = threadIdx.x;
#pragma unroll
    for (int j = 0; j < unique_counts_ahead; ++j, b += (unsigned)threads) {
        all += read.heads[j];
        before += b < blockIdx.x ? read.heads[j] : 0;
    }
#pragma unroll 1
    for (; b < gridDim.x; b += (unsigned)threads) {
        all += heads[b];
        before += b < blockIdx.x ? heads[b] : 0;
    }
    all = warp_sum(all);
    before = warp_sum(before);
    if (threadIdx.x % 32 == 0 && all) {
        atomicAdd(&sums[0], all);
        atomicAdd(&sums[1], before);
    }
}

// rank[j]: the number of heads of the segment up to the thread's item j, itself included.
//
// inputs   counts [items, warps]: heads of each item of each warp; bits[j]: heads of the own warp's
//          item j
template <int items>
SPIRA_DEVICE void unique_rank_heads(const int32_t *counts, const uint32_t (&bits)[items],
                                    int32_t (&rank)[items]) {
    const int warps = unique_threads / 32, lane = (int)(threadIdx.x % 32),
              warp = (int)(threadIdx.x / 32);
#pragma unroll
    for (int j = 0; j < items; ++j) {
        int before = 0;
#pragma unroll
        for (int k = lane; k < items * warps; k += 32) {
            before += k < j * warps + warp ? counts[k] : 0;
        }
        rank[j] = warp_sum(before) + __popc(bits[j] & (~0u >> (31 - lane)));
    }
}

// Writes the set, and unless out.voxel is null, which row fell into which voxel. All loads of a
// thread are in flight before it writes.
template <typename W, int items>
SPIRA_KERNEL void __launch_bounds__(unique_threads)
    unique_write_kernel(const __grid_constant__ unique_task<W> task) {
    const W *__restrict__ sorted = task.sorted;
    const int32_t *__restrict__ heads = task.heads;
    const int32_t rows = task.rows;
    const voxel_set<W> &set = task.set;
    __shared__ int32_t sums[2], counts[items * unique_threads / 32];
    const int64_t first = (int64_t)blockIdx.x * (unique_threads * items) + threadIdx.x;
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const unique_counts read = unique_read_counts(heads, unique_threads);
    W word[items];
    uint32_t bits[items], lasts = 0;
    int32_t row[items], rank[items];
    bool head[items];
#pragma unroll
    for (int j = 0; j < items; ++j) {
        const int64_t i = first + j * unique_threads;
        word[j] = i < rows ? sorted[i] : word_none<W>();
        row[j] = task.out.voxel && i < rows ? task.out.order[i] : 0;
        lasts |= (uint32_t)(i + 1 >= rows || sorted[i + 1] == word_none<W>()) << j;
        head[j] = unique_is_head(sorted, i, rows);
    }
    if (threadIdx.x < 2) {
        sums[threadIdx.x] = 0;
    }
    __syncthreads();
    unique_sum_counts(read, heads, unique_threads, sums);
#pragma unroll
    for (int j = 0; j < items; ++j) {
        bits[j] = __ballot_sync(~0u, head[j]);
        if (lane == 0) {
            counts[j * (unique_threads / 32) + warp] = __popc(bits[j]);
        }
    }
    __syncthreads();
    const int32_t all = sums[0], before = sums[1];
    unique_rank_heads<items>(counts, bits, rank);
#pragma unroll
    for (int j = 0; j < items; ++j) {
        const int64_t i = first + j * unique_threads;
        const bool head = bits[j] >> lane & 1;
        const int32_t voxel = before + rank[j] - 1;
        if (head && voxel < set.capacity) {
            set.words[voxel] = word[j];
        }
        if (task.out.voxel && i < rows) {
            const bool none = word[j] == word_none<W>(), last = lasts >> j & 1;
            unique_note_row(task, {i, row[j], voxel, none, head, last});
        }
        if (i >= all && i < set.capacity) {
            set.words[i] = word_none<W>();
        }
    }
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        *set.count = (int32_t)min_of(all, set.capacity);
        if (all > set.capacity) {
            device_status_raise(task.trouble, device_flag_capacity, (uint32_t)all);
        }
    }
}

// Launches both kernels.
//
// outputs  task.set; task.out.voxel, task.out.begin; task.trouble: duplicates if `report`, and a
//          passed capacity
template <typename W>
SPIRA_API status unique_launch(const unique_task<W> &task, cudaStream_t stream) {
    const unique_cut cut = unique_cut_make(task.rows, task.set.capacity);
    const unsigned blocks = (unsigned)cut.blocks;
    auto count = cut.items == 1 ? unique_count_kernel<W, 1> : unique_count_kernel<W, unique_items>;
    auto write = cut.items == 1 ? unique_write_kernel<W, 1> : unique_write_kernel<W, unique_items>;
    SPIRA_TRY(kernel_launch(count, {blocks, unique_threads, stream, "unique"}, task.sorted,
                            task.rows, task.heads));
    return kernel_launch(write, {blocks, unique_threads, stream, "unique"}, task);
}

// ---- words in any order -------------------------------------------------------------------------

template <typename W>
struct unique_scratch {
    W *sorted;      // [rows]
    int32_t *heads; // see unique_launch
    radix_scratch<W> radix;
};

// Scratch for making a set of `capacity` voxels of `rows` words.
template <typename W>
SPIRA_API void unique_carve(workspace *w, int32_t rows, int32_t capacity, unique_scratch<W> *s) {
    s->sorted = workspace_take<W>(w, rows);
    s->heads = workspace_take<int32_t>(w, unique_cut_make(rows, capacity).blocks);
    radix_carve(w, rows, false, &s->radix);
}

// Where the caller writes the words [rows] before unique_sort_launch with the same bits.
template <typename W>
SPIRA_API W *unique_input(const unique_scratch<W> *s, int first_bit, int bits) {
    return radix_input(&s->radix, s->sorted, first_bit, bits);
}

// Sorts the words by their bits [first_bit, bits) and removes repeats. The words must not differ in
// other bits.
template <typename W>
SPIRA_API status unique_sort_launch(const unique_scratch<W> *s, int first_bit, int bits,
                                    voxel_set<W> out, device_status *trouble, cudaStream_t stream) {
    SPIRA_TRY(radix_sort<false>(&s->radix, s->sorted, nullptr, first_bit, bits, stream));
    return unique_launch<W>({s->sorted, s->radix.rows, s->heads, out, {}, false, trouble}, stream);
}

} // namespace spira

#endif
