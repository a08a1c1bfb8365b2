// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/order/wide.cuh: the last kernel of order_build, for wide maps (order_is_wide):
// writes masks and sources. A thread block takes 32 offsets of a group pair, a warp 32 positions.
#ifndef SPIRA_ORDER_WIDE_CUH
#define SPIRA_ORDER_WIDE_CUH

#include "../base/async.cuh"
#include "../base/launch.cuh"
#include "taps.cuh"

namespace spira {

// What the warps of a thread block share.
struct order_put_shared {
    uint32_t found[order_put_threads / 32]; // offsets that some row of the warp has
};

// Returns the pitch of rows of taps in shared memory: odd, so that rows spread over the banks.
SPIRA_BOTH int order_pitch(int volume) {
    return (volume < order_word_bits ? volume : order_word_bits) | 1;
}

// Copies the columns k .. k + columns of a warp's rows to taps [32, pitch] in shared memory.
// Returns the columns that some row has. row: as in order_load; -1 from some lane on: no row, and
// taps of -1
SPIRA_DEVICE uint32_t order_load_word(const int32_t *__restrict__ map, int volume, int32_t row,
                                      int k, int columns, int32_t *taps) {
    const int steps = 16, pitch = order_pitch(volume);
    const order_lanes lanes = order_lanes_make(columns);
    const uint32_t size = sizeof(int32_t), begin = shared_address(taps);
    const uint32_t end = begin + 32 * pitch * size, step = lanes.each * pitch * size;
    const int32_t some = __shfl_sync(~0u, row, 0);
    uint32_t to = begin + (lanes.row * pitch + lanes.column) * size, found = 0;
    int32_t none = -1; // negative as long as all elements are
    for (int first = 0; first < 32 && some >= 0; first += steps * lanes.each) {
        int32_t tap[steps];
        order_load(map + k, volume, row < 0 ? some : row, first, lanes, tap);
#pragma unroll
        for (int j = 0; j < steps; ++j, to += step) {
            none &= tap[j];
            if (to < end) {
                shared_store(to, (uint32_t)tap[j]);
            }
        }
    }
    uint32_t all = __ballot_sync(~0u, none >= 0);
    for (int j = 0; j < lanes.each; ++j) {
        found |= all >> j * columns;
    }
    __syncwarp(); // other lanes have stored taps of this row
    for (int c = 0; c < columns && row < 0; ++c) {
        taps[(int)threadIdx.x % 32 * pitch + c] = -1;
    }
    return columns < 32 ? found & ((1u << columns) - 1) : found;
}

// Writes the sources of the offsets k + c of a row group, c the bits of `bits`. The group's two
// warps alternate; a lane writes two positions. taps [order_rows, pitch] of the group
SPIRA_DEVICE void order_put_word(const order_layout &t, int64_t group, int k, uint32_t bits,
                                 const int32_t *taps) {
    const int lane = threadIdx.x % 32, pitch = order_pitch(t.volume);
    bool mine = threadIdx.x / 32 % 2 == 0;
    for (; bits; bits &= bits - 1, mine = !mine) {
        if (mine) {
            int c = __ffs((int)bits) - 1;
            int32_t *source = t.source + order_begin(&t, group, k + c);
            source[lane] = taps[lane * pitch + c];
            source[lane + 32] = taps[(lane + 32) * pitch + c];
        }
    }
}

// Writes sources and masks of the columns k .. k + 32 of a group pair. Called by all threads of a
// block; has a barrier inside.
//
// group: of this warp; row: of this thread, or -1; taps [2 order_rows, pitch]: shared memory
SPIRA_DEVICE void order_put_columns(const order_request &r, int64_t group, int k, int32_t row,
                                    int32_t *taps, order_put_shared &s) {
    const order_layout &t = r.layout;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, pitch = order_pitch(t.volume);
    uint32_t own = order_load_word(r.map, t.volume, row, k, min(t.volume - k, (int)order_word_bits),
                                   taps + warp * 32 * pitch);
    if (lane == 0) {
        s.found[warp] = own;
    }
    __syncthreads();
    const uint32_t bits = s.found[warp / 2 * 2] | s.found[warp / 2 * 2 + 1];
    order_put_word(t, group, k, bits, taps + warp / 2 * order_rows * pitch);
    if (lane == 0 && warp % 2 == 0 && group < order_count(r.capacity)) {
        t.mask[group * order_words(t.volume) + k / order_word_bits] = bits;
    }
}

SPIRA_PLAIN_KERNEL void __launch_bounds__(order_put_threads)
    order_put_kernel(const __grid_constant__ order_batch batch) {
    extern __shared__ int32_t order_taps[]; // [2 order_rows, pitch]
    __shared__ order_put_shared shared;
    const int number = block_find_part(batch.first[order_by_word], (int32_t)blockIdx.x);
    const order_request &r = batch.task[number].request;
    const int unit = (int)blockIdx.x - batch.first[order_by_word][number];
    const int words = order_words(r.layout.volume), lane = threadIdx.x % 32;
    const int32_t pair = (int)((unsigned)unit / (unsigned)words);
    const int word = unit - pair * words, warp = threadIdx.x / 32, group = 2 * pair + warp / 2;
    pdl_wait();
    const int32_t groups = order_count(r.capacity), count = order_find_count(r);
    const int32_t row = group < groups ? r.layout.row[pair * order_put_threads + threadIdx.x] : -1;
    if (pair * order_put_threads >= count) {
        if (lane == 0 && warp % 2 == 0 && group < groups) {
            r.layout.mask[group * words + word] = 0;
        }
        return;
    }
    order_put_columns(r, group, word * order_word_bits, row, order_taps, shared);
}

} // namespace spira

#endif
