// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/index/downsample_rank.cuh: second launch of a step: ranks the heads and writes their cells
// (downsample_grid.cuh); and all launches of downsample.cuh.
#ifndef SPIRA_INDEX_DOWNSAMPLE_RANK_CUH
#define SPIRA_INDEX_DOWNSAMPLE_RANK_CUH

#include "../base/block.cuh"
#include "downsample_mark.cuh"

namespace spira {

// The heads of 32 voxels, number `chunk` of `chunks`, with `before` counted from the start of this
// thread block's voxels. blocks: how many thread blocks away the 32 voxels may be; 0: any number.
template <int blocks>
SPIRA_DEVICE downsample_heads downsample_chunk(const downsample_heads *heads, const int32_t *counts,
                                               int chunk, int chunks, int shift) {
    downsample_heads h = {0, 0};
    int block = (int)gridDim.x; // past the end of the set: all heads are before it
    const int own = (int)blockIdx.x;
    if (chunk < chunks) {
        h = heads[chunk];
        block = chunk >> (shift - 5);
    }
    if (blocks == 0) {
#pragma unroll 4
        for (int b = min(block, own); b < max(block, own); ++b) {
            h.before += block < own ? -counts[b] : counts[b];
        }
    }
#pragma unroll
    for (int j = 0; j < blocks; ++j) {
        if (own - 1 - j >= block) {
            h.before -= counts[own - 1 - j];
        }
    }
#pragma unroll
    for (int j = 0; j < (blocks ? blocks + 1 : 0); ++j) { // the end is one further
        if (own + j < block) {
            h.before += counts[own + j];
        }
    }
    return h;
}

// Writes the number of heads in front of each thread block's voxels to blocks [gridDim.x]. Called
// by all threads of a block, with barriers inside.
template <int threads>
SPIRA_DEVICE void downsample_scan_blocks(const int32_t *counts, int32_t *blocks) {
    __shared__ int sums[threads / 32];
    const int used = (int)gridDim.x, each = (used + threads - 1) / threads;
    int before = 0, first = (int)threadIdx.x * each, last = min(first + each, used);
#pragma unroll 1
    for (int b = first; b < last; ++b) {
        before += counts[b];
    }
    before = block_exclusive_sum<threads>(before, sums);
#pragma unroll 1
    for (int b = first; b < last; ++b) { // read again, to save registers
        blocks[b] = before;
        before += counts[b];
    }
    __syncthreads();
}

// Shared memory of the second launch.
template <int tile>
struct downsample_shared {
    union {
        uint32_t buffer[downsample_window + 2 * downsample_pad];
        int32_t blocks[downsample_blocks_max]; // see downsample_scan_blocks
    };
    __align__(8) downsample_heads marks[downsample_window / 32];
    int32_t list[tile];
    int sums[2]; // heads of all thread blocks, and of those in front of this one
};

// Calls rank(i) for each head i of a tile. listed: the heads are listed first, so that the threads,
// which are fewer than the voxels, all have work.
template <int threads, bool listed, typename F>
SPIRA_DEVICE void downsample_for_heads(const downsample_heads *heads, int first, int last,
                                       int32_t *list, const F &rank) {
    if (!listed) {
        const int i = first + (int)threadIdx.x;
        if (i < last && (heads[i / 32].bits >> i % 32 & 1)) {
            rank(i);
        }
        return;
    }
    const int before = heads[first / 32].before;
    for (int i = first + (int)threadIdx.x; i < last; i += threads) {
        const downsample_heads h = heads[i / 32];
        if (h.bits >> i % 32 & 1) {
            list[h.before - before + __popc(h.bits & ((1u << i % 32) - 1))] = i;
        }
    }
    const downsample_heads end = heads[(last - 1) / 32];
    const int found = end.before - before + __popc(end.bits);
    __syncthreads();
    for (int h = (int)threadIdx.x; h < found; h += threads) {
        rank(list[h]);
    }
}

// Ranks the heads of a tile and writes their cells' words. Called by all threads of a block, with
// barriers inside. base: of the near window.
template <typename W, bool square, int tile, int threads, bool listed>
SPIRA_DEVICE void downsample_rank_tile(const downsample_task<W> &task, const downsample_tile &t,
                                       W base, downsample_shared<tile> *s) {
    const voxel_set<W> &in = task.in, &out = task.out;
    const downsample_heads *heads = task.marks.heads;
    const int32_t *counts = task.marks.counts;
    const downsample_span span = t.span;
    const int first = t.first, last = t.last, before = s->sums[1];
    // Writes the cells of a source, whose words begin with number `origin` of the set. marks: their
    // heads; lacks: what they lack; ahead: heads in front of those that ranks count.
    const auto write = [&](const auto &g, const auto &source, const downsample_heads *marks,
                           int origin, W lacks, int ahead) {
        downsample_for_heads<threads, listed>(
            marks, first - origin, last - origin, s->list, [&](int i) {
                const int rank = ahead + downsample_rank<square>(g, source, i);
                if (rank < out.capacity) {
                    const auto word = downsample_word_at(source, downsample_place(source, i));
                    out.words[rank] = (W)(word & g.floor) + lacks;
                }
            });
    };
    if (span.end < 0) {
        downsample_scan_blocks<threads>(counts, s->blocks);
        const downsample_set_of<W> source = {in.words, span.begin, ~span.end,  t.count,
                                             heads,    s->blocks,  task.shift, s->sums[0]};
        write(task.grid, source, heads, 0, 0, 0);
        return;
    }
    const downsample_grid<uint32_t> nearby = downsample_grid_near(task.grid);
    const uint32_t buffer = shared_address(s->buffer), marks = shared_address(s->marks),
                   window = buffer + downsample_bytes(downsample_pad);
    if (span.begin == downsample_near) {
        const downsample_window_of<true> source = {window, marks, 2 * downsample_near_reach};
        write(nearby, source, s->marks, downsample_origin(first), base, before);
        return;
    }
    for (int c = (int)threadIdx.x; c <= (span.end - span.begin) / 32; c += threads) {
        s->marks[c] = downsample_chunk<0>(heads, counts, span.begin / 32 + c,
                                          (int)ceil_div(in.capacity, 32), task.shift);
    }
    const int reach = downsample_copy(task.grid, in.words, base, span, threads, buffer);
    const downsample_window_of<false> source = {window, marks, reach};
    __syncthreads();
    write(nearby, source, s->marks, span.begin, base, before);
}

// Writes the words of the cells in order, then word_none(), and their number.
template <typename W, bool square, int tile, int threads, bool listed>
SPIRA_KERNEL void __launch_bounds__(threads, 2)
    downsample_rank_kernel(const __grid_constant__ downsample_task<W> task) {
    __shared__ downsample_shared<tile> s;
    const voxel_set<W> &in = task.in, &out = task.out;
    const int32_t *counts = task.marks.counts;
    const int shift = task.shift;
    const unsigned begin = blockIdx.x << shift;
    const unsigned end = min(begin + (1u << shift), (unsigned)in.capacity);
    int32_t given = 0; // the set's count, which may be above the capacity
    for (unsigned first = begin; first < end; first += tile) {
        const int origin = downsample_origin((int)first);
        const int chunks = (tile + 2 * downsample_margin) / 32;
        downsample_words<W, tile, threads> read =
            downsample_read<W, tile, threads>(in.words, in.capacity, (int)first);
        if (first == begin) {
            pdl_wait_alone(); // the kernel before makes the marks, and its dependents come here
        }
        downsample_heads chunk = {};
        if (threadIdx.x < chunks) {
            chunk = downsample_chunk<downsample_margin / tile>(task.marks.heads, counts,
                                                               origin / 32 + (int)threadIdx.x,
                                                               (in.capacity - 1) / 32 + 1, shift);
        }
        const downsample_span span = task.marks.spans[first / tile];
        given = *in.count;
        const unsigned count = (unsigned)count_clamp(given, in.capacity);
        const unsigned last = min(first + tile, count);
        if (first == begin) {
            const unique_counts heads_read = unique_read_counts(counts, threads);
            if (threadIdx.x < 2) {
                s.sums[threadIdx.x] = 0;
            }
            __syncthreads();
            unique_sum_counts(heads_read, counts, threads, s.sums);
        }
        downsample_put(task.grid, read, (int)count - origin, shared_address(s.buffer));
        if (threadIdx.x < chunks) {
            s.marks[threadIdx.x] = chunk;
        }
        __syncthreads();
        if (first < last) {
            const downsample_tile t = {(int)first, (int)last, (int)count, span};
            downsample_rank_tile<W, square, tile, threads, listed>(task, t, read.base, &s);
        }
        if (first + tile < end) {
            __syncthreads();
        }
    }
    const int total = s.sums[0];
    const int64_t thread = (int64_t)blockIdx.x * threads + threadIdx.x;
    for (int64_t i = total + thread; i < out.capacity; i += (int64_t)gridDim.x * threads) {
        out.words[i] = word_none<W>();
    }
    if (thread == 0) {
        *out.count = min(total, out.capacity);
        device_status_raise_count(task.trouble, total, out.capacity);
        device_status_raise_count(task.trouble, given, in.capacity);
    }
}

// ---- launches: a step --------------------------------------------------------------------------

template <typename W, bool square, int tile>
SPIRA_API status downsample_tiles_launch(const device_info *gpu, const downsample_task<W> &task,
                                         unsigned blocks, cudaStream_t stream) {
    SPIRA_TRY(kernel_launch(downsample_mark_kernel<W, square, tile>,
                            {blocks, tile, stream, "downsample"}, task));
    auto rank = downsample_rank_kernel<W, square, tile, tile, false>;
    unsigned threads = tile;
    if constexpr (tile * downsample_blocks_many >
                  downsample_small) {                  // smaller tiles never have that many blocks
        const int few = (tile * 5 / 8 + 31) / 32 * 32; // most tiles have no more heads
        const bool many = blocks > downsample_blocks_many;
        rank = many ? downsample_rank_kernel<W, square, tile, few, true> : rank;
        threads = many ? few : threads;
    }
    return kernel_launch(rank, {blocks, threads, stream, "downsample", gpu->programmatic}, task);
}

template <typename W>
SPIRA_API status downsample_step_launch(const device_info *gpu, const downsample_args<W> *a,
                                        const downsample_marks &marks, cudaStream_t stream) {
    const downsample_cut cut = downsample_cut_make(a->in.capacity);
    downsample_task<W> task = {};
    task.grid = downsample_grid_make<W>(a->layout, downsample_from_of(a), a->stride);
    task.in = a->in;
    task.out = a->out;
    task.shift = cut.shift;
    task.marks = marks;
    task.trouble = a->trouble;
    const auto launch = task.grid.two_x && task.grid.two_y
                            ? cut.tile == 256 ? downsample_tiles_launch<W, true, 256>
                                              : downsample_tiles_launch<W, true, 512>
                        : cut.tile == 256 ? downsample_tiles_launch<W, false, 256>
                                          : downsample_tiles_launch<W, false, 512>;
    return launch(gpu, task, (unsigned)cut.blocks, stream);
}

// ---- launches: a floor and a sort ---------------------------------------------------------------

// words [in.capacity]: the floored words, then word_none(), and for voxels that are left out.
template <typename W>
SPIRA_KERNEL void __launch_bounds__(256)
    downsample_floor_kernel(const __grid_constant__ downsample_args<W> a, word_layout layout,
                            triple from, bool by_mask, W *words) {
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i == 0) {
        device_status_raise_count(a.trouble, *a.in.count, a.in.capacity);
    }
    if (i >= a.in.capacity) {
        return;
    }
    W word = word_none<W>();
    if (i < *a.in.count) {
        bool left_out;
        if (!downsample_on_lattice(&layout, a.in.words[i], from, &left_out)) {
            device_status_raise(a.trouble, device_flag_lattice, (uint32_t)i);
        }
        word = left_out ? word : downsample_word(&layout, a.in.words[i], a.stride, by_mask);
    }
    words[i] = word;
}

template <typename W>
SPIRA_API status downsample_sort_launch(const downsample_args<W> *a, const unique_scratch<W> &s,
                                        cudaStream_t stream) {
    const word_layout *layout = a->layout;
    const bool by_mask = downsample_by_mask(a->stride);
    const int floored = (int)min_of(bits_for((uint64_t)a->stride.z) - 1, layout->width.z);
    const int first_bit = by_mask ? floored : 0, bits = word_bits(layout); // floored bits are zero
    SPIRA_TRY(kernel_launch(downsample_floor_kernel<W>,
                            {(unsigned)ceil_div(a->in.capacity, 256), 256, stream, "downsample"},
                            *a, *layout, downsample_from_of(a), by_mask,
                            unique_input(&s, first_bit, bits)));
    return unique_sort_launch(&s, first_bit, bits, a->out, a->trouble, stream);
}

} // namespace spira

#endif
