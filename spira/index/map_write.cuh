// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/index/map_write.cuh: writes a searched tile to the dense forms of a kernel map.
//
// search_block (search.cuh) leaves a tile of the map in shared memory. Each writer here copies it
// to one form in global memory. All threads of the block call it, when the tile is complete.
// Writers may be used in any kernel that calls search_block.
#ifndef SPIRA_INDEX_MAP_WRITE_CUH
#define SPIRA_INDEX_MAP_WRITE_CUH

#include "../base/async.cuh"
#include "../map.h"
#include "../search.cuh"

namespace spira {

// Records counts of the two sets above their capacities, if the caller wants to know. task: of any
// map kernel. tile: of the outputs; the first reports.
template <typename T>
SPIRA_DEVICE void map_report(const T &task, device_status *trouble, int tile) {
    if (tile == 0 && threadIdx.x == 0 && trouble) {
        device_status_raise_count(trouble, *task.source.count, task.source.capacity);
        device_status_raise_count(trouble, *task.outputs.count, task.outputs.capacity);
    }
}

// The sets of a map's task, with their counts clamped.
template <typename W>
SPIRA_DEVICE search_sets<W> map_sets(const voxel_set<W> &source, const voxel_set<W> &outputs) {
    return {source.words, outputs.words, count_clamp(*source.count, source.capacity),
            count_clamp(*outputs.count, outputs.capacity)};
}

// The task of this thread block in a batch, of any map kernel.
template <typename B>
SPIRA_DEVICE auto &map_find_task(const B &batch) {
    int t = 0;
    while (t + 1 < batch.tasks && (int)blockIdx.x >= batch.task[t + 1].block) {
        ++t;
    }
    return batch.task[t];
}

// Writes the tile's offsets below `columns` to ws [columns, capacity].
SPIRA_DEVICE void map_write_ws(const search_tile &tile, int columns, int64_t capacity,
                               int32_t *ws) {
    int lane = threadIdx.x & 31, end = tile.k_end < columns ? tile.k_end : columns;
    for (int k = tile.k_begin + threadIdx.x / 32; k < end; k += blockDim.x / 32) {
        for (int row = lane; row < tile.rows; row += 32) {
            ws[k * capacity + tile.first + row] = tile.taps[row * tile.pitch + k - tile.k_begin];
        }
    }
}

// Copies `count` taps from shared memory to `out`, 16 bytes at a time where that is aligned.
SPIRA_DEVICE void map_copy_plain(const int32_t *taps, int count, int32_t *out, int threads) {
    const int wide = (uintptr_t)out & 15 ? 0 : count / 4;
    for (int i = threadIdx.x; i < wide; i += threads) {
        ((int4 *)out)[i] = ((const int4 *)taps)[i];
    }
#pragma unroll 1
    for (int i = 4 * wide + threadIdx.x; i < count; i += threads) {
        out[i] = taps[i];
    }
}

// Writes the tile's offsets to os [outputs, columns]: those below `columns`; or, with `chosen`,
// offset k_begin + c to column chosen[c], unless that is negative.
SPIRA_DEVICE void map_write_os(const search_tile &tile, int columns, int32_t *os,
                               const int16_t *chosen = nullptr) {
    const int wide = (chosen ? tile.k_end : min(tile.k_end, columns)) - tile.k_begin;
    int32_t *out = os + (int64_t)tile.first * columns;
    if (!chosen && wide == columns && tile.pitch == columns) { // the tile has the layout of os
        map_copy_plain(tile.taps, tile.rows * columns, out, (int)blockDim.x);
        return;
    }
    for (int row = threadIdx.x / 32; row < tile.rows; row += blockDim.x / 32) {
        for (int c = threadIdx.x & 31; c < wide; c += 32) {
            const int column = chosen ? chosen[c] : tile.k_begin + c;
            if (column >= 0) {
                out[(int64_t)row * columns + column] = tile.taps[row * tile.pitch + c];
            }
        }
    }
}

// Copies `count` taps from shared memory to `out`; both aligned to 4 bytes. Called by all `threads`
// threads of a block. From sm_90 on this is one bulk copy, so:
// - between the last write to `taps` and the call, each thread calls proxy_fence, then a barrier;
// - `taps` must not change until map_copy_wait and a barrier.
template <int threads>
SPIRA_DEVICE void map_copy_rows(const int32_t *taps, int count, int32_t *out) {
#if __CUDA_ARCH__ >= 900
    const int copied = (uintptr_t)out & 15 ? 0 : count & ~3;
    if (threadIdx.x == 0 && copied) {
        bulk_store(out, shared_address(taps), (uint32_t)copied * (uint32_t)sizeof(int32_t));
    }
#pragma unroll 1
    for (int i = copied + threadIdx.x; i < count; i += threads) {
        out[i] = taps[i];
    }
#else
    map_copy_plain(taps, count, out, threads);
#endif
}

// Waits for map_copy_rows to have read its taps. A barrier must follow before they are written
// again. The block must also call it before it ends.
SPIRA_DEVICE void map_copy_wait() {
    if (threadIdx.x == 0) {
        bulk_store_wait();
    }
}

// Writes the tile's offsets below `columns` to mask [outputs, words]. A kernel that is searched in
// passes must be written by one block, offsets ascending: a pass adds its bits to a word that it
// shares with the pass before, and the last pass clears the words behind it.
SPIRA_DEVICE void map_write_mask(const search_tile &tile, int columns, int words, uint32_t *mask) {
    int end = tile.k_end < columns ? tile.k_end : columns;
    int first = tile.k_begin / 32, count = (end < columns ? (end + 31) / 32 : words) - first;
    for (int i = threadIdx.x; i < count * tile.rows; i += blockDim.x) {
        int row = i % tile.rows, word = first + i / tile.rows;
        int from = max(word * 32, tile.k_begin), to = min(word * 32 + 32, end);
        uint32_t bits = 0;
        for (int k = from; k < to; ++k) {
            bits |= tile.taps[row * tile.pitch + k - tile.k_begin] >= 0 ? 1u << k % 32 : 0;
        }
        uint32_t *out = mask + (int64_t)(tile.first + row) * words + word;
        *out = from > word * 32 ? *out | bits : bits;
    }
}

} // namespace spira

#endif
