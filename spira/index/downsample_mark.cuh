// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/index/downsample_mark.cuh: first launch of a step: finds the heads of the cells and counts
// them (downsample_grid.cuh).
#ifndef SPIRA_INDEX_DOWNSAMPLE_MARK_CUH
#define SPIRA_INDEX_DOWNSAMPLE_MARK_CUH

#include "downsample_window.cuh"

namespace spira {

// The number of heads of the whole tile, and in the upper 16 bits that of the warps in front of the
// own one. Called by all threads of the block, with a barrier inside.
template <int tile>
SPIRA_DEVICE uint32_t downsample_sum_warps(uint32_t bits) {
    __shared__ int heads[tile / 32];
    const int lane = (int)(threadIdx.x % 32), warp = (int)(threadIdx.x / 32);
    if (lane == 0) {
        heads[warp] = __popc(bits);
    }
    __syncthreads();
    const int own = lane < tile / 32 ? heads[lane] : 0;
    return (uint32_t)warp_sum(lane < warp ? own << 16 | own : own);
}

// Finds the span of a tile, and whether the thread's voxel is a head. Called by all threads of a
// block, with barriers inside. buffer: shared address of the window.
template <typename W, bool square, int tile>
SPIRA_DEVICE bool downsample_mark_tile(const downsample_task<W> &task,
                                       downsample_words<W, tile, tile> &read, uint32_t buffer,
                                       downsample_tile *t) {
    const downsample_grid<W> &g = task.grid;
    const downsample_grid<uint32_t> nearby = downsample_grid_near(g);
    const W *words = task.in.words;
    const int first = t->first, last = t->last, count = t->count, i = first + (int)threadIdx.x;
    const uint32_t window = buffer + downsample_bytes(downsample_pad);
    const int origin = downsample_origin(first);
    downsample_put(g, read, count - origin, buffer);
    __syncthreads();
    if (downsample_is_near<W, tile>(g, window, first, last)) {
        const downsample_window_of<true> source = {window, 0, 2 * downsample_near_reach};
        t->span = {downsample_near, 0};
        return i < last && downsample_head<square>(nearby, source, i - origin);
    }
    t->span = downsample_find_span(g, words, count, first, last);
    const int begin = t->span.begin, end = t->span.end;
    if (end < 0) {
        const downsample_set_of<W> source = {words, begin, ~end, count, nullptr, nullptr, 0, 0};
        return i < last && downsample_head<square>(g, source, i);
    }
    const int reach = downsample_copy(g, words, read.base, t->span, tile, buffer);
    const downsample_window_of<false> source = {window, 0, reach};
    __syncthreads();
    return i < last && downsample_head<square>(nearby, source, i - begin);
}

// Writes the heads of all voxels, the number of heads of each thread block, and the span of each
// tile.
template <typename W, bool square, int tile>
SPIRA_KERNEL void __launch_bounds__(tile)
    downsample_mark_kernel(const __grid_constant__ downsample_task<W> task) {
    __shared__ uint32_t buffer[downsample_window + 2 * downsample_pad];
    const voxel_set<W> &in = task.in;
    const unsigned begin = blockIdx.x << task.shift;
    const unsigned end = min(begin + (1u << task.shift), (unsigned)in.capacity);
    int before = 0;
    pdl_launch_dependents();
    for (unsigned first = begin; first < end; first += tile) {
        downsample_words<W, tile, tile> read =
            downsample_read<W, tile, tile>(in.words, in.capacity, (int)first);
        const unsigned count = (unsigned)voxel_set_count(in), i = first + threadIdx.x;
        const unsigned last = min(first + tile, count);
        bool head = false;
        W off = 0; // what is left of the thread's word behind the lattice of the finer set
        downsample_tile t = {(int)first, (int)last, (int)count, {0, 0}};
        if (first < last) {
            W own = 0;
#pragma unroll
            for (int j = 0; j <= downsample_margin / tile; ++j) {
                own = (int)first >= j * tile ? read.word[j] : own;
            }
            head = downsample_mark_tile<W, square, tile>(task, read, shared_address(buffer), &t);
            // A voxel whose x or y is off lies in no row of a cell, and is left out; z is floored
            // all the same.
            off = i < last ? own & task.grid.off : 0;
            head = head && !(off & task.grid.row);
        }
        const uint32_t bits = __ballot_sync(~0u, head);
        const uint32_t sum = downsample_sum_warps<tile>(bits);
        if (threadIdx.x % 32 == 0 && i < (unsigned)in.capacity) {
            task.marks.heads[i / 32] = {bits, before + (int)(sum >> 16)};
        }
        before += (int)(sum & 0xffff);
        if (threadIdx.x == 0) {
            task.marks.spans[first / tile] = t.span;
        }
        if (off) { // late: nothing waits for it
            device_status_raise(task.trouble, device_flag_lattice, i);
        }
        if (first + tile < end) {
            __syncthreads();
        }
    }
    if (threadIdx.x == 0) {
        task.marks.counts[blockIdx.x] = before;
    }
}

} // namespace spira

#endif
