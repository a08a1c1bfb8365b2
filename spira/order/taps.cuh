// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/order/taps.cuh: how warps read taps from a kernel map. Functions return which of 32
// columns a row has, as bits, or load the sources themselves.
#ifndef SPIRA_ORDER_TAPS_CUH
#define SPIRA_ORDER_TAPS_CUH

#include "task.cuh"

namespace spira {

// ---- sources ------------------------------------------------------------------------------------

// How the lanes of a warp are dealt to rows and columns: as many rows at a time as fit.
struct order_lanes {
    int each;        // rows at a time
    int row, column; // of this lane; row 32: the lane is idle
};

SPIRA_DEVICE order_lanes order_lanes_make(int columns) {
    const unsigned lane = threadIdx.x % 32, row = lane / columns, each = 32u / columns;
    return {(int)each, row < each ? (int)row : 32, (int)(lane - row * columns)};
}

// Loads sources of scattered rows. Lane j passes row number j of the warp. This lane gets its
// column of row number first + lanes.row, and of `steps` - 1 more rows, lanes.each apart; numbers
// wrap past 31.
//
// map: at the first column
template <int steps>
SPIRA_DEVICE void order_load(const int32_t *__restrict__ map, int volume, int32_t row, int first,
                             const order_lanes &lanes, int32_t (&tap)[steps]) {
    const char *column = (const char *)(map + lanes.column);
    const uint32_t pitch = (uint32_t)volume * (uint32_t)sizeof(int32_t);
    int number = first + lanes.row;
#pragma unroll
    for (int j = 0; j < steps; ++j, number += lanes.each) {
        uint32_t from = (uint32_t)__shfl_sync(~0u, row, number);
        tap[j] = __ldg((const int32_t *)(column + (uint64_t)from * pitch));
    }
}

// Loads a row of a map of up to order_lane_columns columns, then sources of -1. A row of -1 has
// none.
SPIRA_DEVICE void order_load_row(const order_request &r, int32_t row,
                                 int32_t (&tap)[order_lane_columns]) {
    const int volume = r.layout.volume, four = 4;
    const int32_t *from = r.map + (int64_t)row * volume;
    if (volume == order_lane_columns && (uintptr_t)r.map % sizeof(int4) == 0) {
#pragma unroll
        for (int c = 0; c < order_lane_columns; c += four) {
            const int4 v = row >= 0 ? __ldg((const int4 *)(from + c)) : int4{-1, -1, -1, -1};
            tap[c] = v.x, tap[c + 1] = v.y, tap[c + 2] = v.z, tap[c + 3] = v.w;
        }
        return;
    }
#pragma unroll
    for (int c = 0; c < order_lane_columns; ++c) {
        tap[c] = row >= 0 && c < volume ? __ldg(from + c) : -1;
    }
}

// ---- bits ---------------------------------------------------------------------------------------

// Returns which of the columns k .. k + columns the row of this lane has: bit c for column k + c.
// The 32 rows of the warp are consecutive; only the first `rows` exist, the others have no taps.
//
// map: at the first row
// batch: loads that a lane keeps in flight
// Maps of up to 32 columns are read as one string of bits, wider ones row by row.
template <int batch>
SPIRA_DEVICE uint32_t order_find_taps(const int32_t *__restrict__ map, int volume, int rows, int k,
                                      int columns) {
    const int lane = threadIdx.x % 32;
    const bool whole = volume <= 32;
    const char *bytes = (const char *)map;
    const unsigned size = sizeof(int32_t), steps = whole ? volume : 32;
    const unsigned end = whole || lane < columns ? min(max(rows, 0), 32) * volume * size : 0;
    const unsigned step = (whole ? 32 : volume) * size;
    unsigned at = (k + lane) * size;
    uint32_t word = 0; // the ballot of the step with this lane's number
    for (unsigned first = 0; first < steps; first += batch) {
        int32_t tap[batch];
#pragma unroll
        for (int j = 0; j < batch; ++j, at += step) {
            tap[j] = at < end ? __ldg((const int32_t *)(bytes + at)) : -1;
        }
        const int own = lane - (int)first;
#pragma unroll
        for (int j = 0; j < batch; ++j) {
            uint32_t all = __ballot_sync(~0u, tap[j] >= 0);
            word = own == j ? all : word;
        }
    }
    if (!whole) {
        return word;
    }
    const int bit = lane * volume;
    uint32_t low = __shfl_sync(~0u, word, bit / 32);
    uint32_t high = __shfl_sync(~0u, word, min(bit / 32 + 1, 31));
    uint32_t has = __funnelshift_r(low, high, bit % 32);
    return volume < 32 ? has & ((1u << volume) - 1) : has;
}

} // namespace spira

#endif
