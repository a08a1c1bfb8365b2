// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/voxel/cap.cuh: drops the voxels that appear last in the input, between the sort and
// unique (unique.cuh) of voxelize.
//
// Rows come sorted by word, and by row within one. The first row of each voxel decides: of each
// batch index, the voxels with the smallest first rows are kept. Four kernels:
//
//   mark   marks the first rows in a mask, and counts them for each batch index and chunk of rows
//   limit  finds for each batch index the first row of the first voxel that is not kept
//   keep   decides for each sorted row whether its voxel is kept, and counts these
//   move   moves the kept rows to the front, in their order; the others become word_none()
//
// No kernel depends on an order of thread blocks, and all results are integers: deterministic.
#ifndef SPIRA_VOXEL_CAP_CUH
#define SPIRA_VOXEL_CAP_CUH

#include "../base/async.cuh"
#include "../base/block.cuh"
#include "../base/launch.cuh"
#include "../index/unique.cuh"
#include "../status.cuh"
#include "../voxel.h"

namespace spira {

enum {
    cap_threads = 512,
    cap_warps = cap_threads / 32,
    cap_blocks_max = 2 * cap_threads, // each thread reads the counts of two
    cap_limit_threads = 1024,         // a chunk for each
    cap_chunk_bits = 10,              // a chunk has at least 2^10 rows
    cap_counts_max = 1 << 16,         // chunks times batch indices
    cap_batches_max = 4096,
};

template <typename W>
struct cap_scratch {
    W *sorted;       // [rows] what the sort writes
    int32_t *order;  // [rows]
    uint32_t *mask;  // [words] a bit for each row that is the first of its voxel
    int32_t *counts; // [batches, chunks] right behind the mask
    int32_t *limit;  // [batches]
    uint32_t *keep;  // [words] a bit for each sorted row that is kept
    int32_t *kept;   // [blocks] kept rows of each segment
};

// How rows are divided. Of keep and move, each thread block takes a segment of `tiles` times
// cap_threads sorted rows.
struct cap_shape {
    int32_t rows, words, tiles, blocks;
    int32_t batches, chunks, chunk_bits; // chunks of 2^chunk_bits input rows
};

SPIRA_API cap_shape cap_shape_make(const voxel_input *in, int32_t batches) {
    cap_shape s = {};
    s.rows = in->rows;
    s.words = (int32_t)ceil_div(in->rows, 32);
    s.tiles = (int32_t)ceil_div(in->rows, (int64_t)cap_threads * cap_blocks_max);
    s.blocks = (int32_t)ceil_div(in->rows, (int64_t)cap_threads * s.tiles);
    s.batches = in->batch ? batches : 1;
    const int64_t most = min_of(cap_limit_threads, cap_counts_max / s.batches);
    s.chunk_bits = cap_chunk_bits;
    while (ceil_div(in->rows, (int64_t)1 << s.chunk_bits) > most) {
        ++s.chunk_bits;
    }
    s.chunks = (int32_t)ceil_div(in->rows, (int64_t)1 << s.chunk_bits);
    return s;
}

// Takes nothing without a cap.
template <typename W>
SPIRA_API void cap_carve(workspace *w, const voxel_input *in, cap_scratch<W> *s) {
    *s = {};
    if (!voxel_is_capped(in)) {
        return;
    }
    const int64_t words = ceil_div(in->rows, 32);
    s->sorted = workspace_take<W>(w, in->rows);
    s->order = workspace_take<int32_t>(w, in->rows);
    s->mask = workspace_take<uint32_t>(
        w, words + (in->batch ? (int64_t)cap_counts_max : (int64_t)cap_limit_threads));
    s->counts = s->mask ? (int32_t *)(s->mask + words) : nullptr;
    s->limit = workspace_take<int32_t>(w, in->batch ? (int64_t)cap_batches_max : 1);
    s->keep = workspace_take<uint32_t>(w, words);
    s->kept = workspace_take<int32_t>(w, cap_blocks_max);
}

template <typename W>
struct cap_task {
    word_layout layout;
    cap_shape shape;
    int32_t cap;
    const int32_t *batch; // [rows] of the input, or null
    cap_scratch<W> scratch;
    W *sorted;      // [rows] the result: the words that are kept, then word_none()
    int32_t *order; // [rows] their rows, then those of the others
    device_status *trouble;
};

template <typename W>
SPIRA_API cap_task<W> cap_task_make(const voxelize_args<W> *args, const cap_scratch<W> &s,
                                    W *sorted) {
    const voxel_input *in = args->input;
    return {*args->layout,
            cap_shape_make(in, args->layout->batches),
            in->max_voxels,
            in->batch,
            s,
            sorted,
            args->rows.order,
            args->trouble};
}

// The batch index of a word, among those that are counted.
template <typename W>
SPIRA_DEVICE int cap_batch(const cap_task<W> &task, W word) {
    return task.batch ? word_unpack<W>(&task.layout, word).batch : 0;
}

template <typename W>
SPIRA_KERNEL void __launch_bounds__(cap_threads) cap_mark_kernel(cap_task<W> task) {
    const cap_scratch<W> &s = task.scratch;
    const int64_t i = (int64_t)blockIdx.x * cap_threads + (int)threadIdx.x;
    if (unique_is_head(s.sorted, i, task.shape.rows)) {
        const int32_t row = s.order[i];
        const int64_t batch = cap_batch(task, s.sorted[i]);
        atomicOr(&s.mask[row / 32], 1u << row % 32);
        atomicAdd(&s.counts[batch * task.shape.chunks + (row >> task.shape.chunk_bits)], 1);
    }
}

// Returns the bits of a word of the mask whose rows have the batch index.
SPIRA_DEVICE uint32_t cap_bits_of(const int32_t *rows_batch, uint32_t bits, int32_t word,
                                  int batch) {
    uint32_t own = rows_batch ? 0 : bits;
    for (uint32_t left = rows_batch ? bits : 0; left; left &= left - 1) {
        const int bit = __ffs((int)left) - 1;
        own |= rows_batch[(int64_t)word * 32 + bit] == batch ? 1u << bit : 0;
    }
    return own;
}

// A thread block for each batch index.
template <typename W>
SPIRA_KERNEL void __launch_bounds__(cap_limit_threads) cap_limit_kernel(cap_task<W> task) {
    __shared__ int shared[cap_limit_threads / 32], critical, skipped;
    const cap_shape shape = task.shape;
    const int thread = (int)threadIdx.x, batch = (int)blockIdx.x;
    const int own =
        thread < shape.chunks ? task.scratch.counts[(int64_t)batch * shape.chunks + thread] : 0;
    int voxels;
    const int before = block_exclusive_sum<cap_limit_threads>(own, shared, &voxels);
    if (voxels <= task.cap) {
        if (thread == 0) {
            task.scratch.limit[batch] = INT32_MAX;
        }
        return;
    }
    if (before <= task.cap && task.cap < before + own) { // one thread
        critical = thread;
        skipped = task.cap - before;
        device_status_count(&task.trouble->dropped_voxels, (uint32_t)(voxels - task.cap));
    }
    __syncthreads();
    // The `left`-th first row of the batch index in its critical chunk, counted from 0.
    int left = skipped;
    const int chunk_words = 1 << (shape.chunk_bits - 5);
    for (int tile = 0; tile < chunk_words && left >= 0; tile += cap_limit_threads) {
        const int32_t word = critical * chunk_words + tile + thread;
        const bool there = tile + thread < chunk_words && word < shape.words;
        uint32_t bits = there ? task.scratch.mask[word] : 0;
        bits = cap_bits_of(task.batch, bits, word, batch);
        int all;
        const int at = block_exclusive_sum<cap_limit_threads>(__popc(bits), shared, &all);
        if (at <= left && left < at + __popc(bits)) { // at most one thread
            for (int skip = left - at; skip > 0; --skip) {
                bits &= bits - 1;
            }
            task.scratch.limit[batch] = word * 32 + __ffs((int)bits) - 1;
        }
        left -= all;
        __syncthreads();
    }
}

// Returns the position of the first word that equals word i. Steps double first, since most voxels
// have few rows.
template <typename W>
SPIRA_DEVICE int32_t cap_head_of(const W *sorted, int32_t i) {
    const W word = sorted[i];
    int32_t step = 1;
    for (; i >= step && sorted[i - step] == word; step *= 2) {
        i -= step;
    }
    for (; step; step /= 2) {
        i -= i >= step && sorted[i - step] == word ? step : 0;
    }
    return i;
}

// The first row of a thread in the segment of its thread block; the others follow cap_threads
// apart.
SPIRA_DEVICE int32_t cap_first(const cap_shape &shape) {
    return (int32_t)blockIdx.x * shape.tiles * cap_threads + (int)threadIdx.x;
}

template <typename W>
SPIRA_KERNEL void __launch_bounds__(cap_threads) cap_keep_kernel(cap_task<W> task) {
    __shared__ int shared[2][cap_warps];
    const cap_scratch<W> &s = task.scratch;
    const int32_t rows = task.shape.rows;
    const int32_t first = cap_first(task.shape);
    int kept = 0, dropped = 0;
    for (int tile = 0; tile < task.shape.tiles; ++tile) {
        const int32_t i = first + tile * cap_threads;
        const W word = i < rows ? s.sorted[i] : word_none<W>();
        const bool there = word != word_none<W>();
        const bool keep =
            there && s.order[cap_head_of(s.sorted, i)] < s.limit[cap_batch(task, word)];
        const uint32_t bits = __ballot_sync(~0u, keep);
        if (threadIdx.x % 32 == 0 && i < rows) {
            s.keep[i / 32] = bits;
        }
        kept += keep;
        dropped += there && !keep;
    }
    kept = block_sum<cap_threads>(kept, shared[0]);
    dropped = block_sum<cap_threads>(dropped, shared[1]);
    if (threadIdx.x == 0) {
        s.kept[blockIdx.x] = kept;
        if (dropped) {
            device_status_count(&task.trouble->dropped_rows, (uint32_t)dropped);
        }
    }
}

template <typename W>
SPIRA_KERNEL void __launch_bounds__(cap_threads) cap_move_kernel(cap_task<W> task) {
    __shared__ int shared[2][cap_warps];
    const cap_scratch<W> &s = task.scratch;
    const int32_t rows = task.shape.rows;
    const int32_t first = cap_first(task.shape);
    int all = 0, before = 0;
    for (int b = (int)threadIdx.x; b < task.shape.blocks; b += cap_threads) {
        all += s.kept[b];
        before += b < (int)blockIdx.x ? s.kept[b] : 0;
    }
    all = block_sum<cap_threads>(all, shared[0]);
    before = block_sum<cap_threads>(before, shared[1]);
    __syncthreads();
    for (int tile = 0; tile < task.shape.tiles; ++tile) {
        const int32_t i = first + tile * cap_threads;
        const bool keep = i < rows && (s.keep[i / 32] >> i % 32 & 1);
        int kept;
        const int own = before + block_exclusive_sum<cap_threads>(keep, shared[tile & 1], &kept);
        const int to = keep ? own : all + i - own;
        if (i < rows) {
            task.sorted[to] = keep ? s.sorted[i] : word_none<W>();
            task.order[to] = s.order[i];
        }
        before += kept;
    }
}

// Drops what is beyond the cap of an input.
//
// inputs   task.scratch: of cap_carve, with the sorted words of all rows and their rows
// outputs  task.sorted, task.order; task.trouble: dropped_voxels and dropped_rows go up
// Asynchronous, deterministic. Checks no arguments: voxelize does.
template <typename W>
SPIRA_API status cap_launch(const cap_task<W> &task, cudaStream_t stream) {
    const cap_scratch<W> &s = task.scratch;
    const unsigned blocks = (unsigned)task.shape.blocks;
    const int64_t clear = task.shape.words + (int64_t)task.shape.batches * task.shape.chunks;
    SPIRA_TRY(status_from_cuda(cudaMemsetAsync(s.mask, 0, (size_t)clear * 4, stream), "voxelize"));
    const unsigned marks = (unsigned)ceil_div(task.shape.rows, cap_threads);
    SPIRA_TRY(kernel_launch(cap_mark_kernel<W>, {marks, cap_threads, stream, "voxelize"}, task));
    SPIRA_TRY(kernel_launch(cap_limit_kernel<W>,
                            {(unsigned)task.shape.batches, cap_limit_threads, stream, "voxelize"},
                            task));
    SPIRA_TRY(kernel_launch(cap_keep_kernel<W>, {blocks, cap_threads, stream, "voxelize"}, task));
    return kernel_launch(cap_move_kernel<W>, {blocks, cap_threads, stream, "voxelize"}, task);
}

} // namespace spira

#endif
