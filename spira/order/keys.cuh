// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/order/keys.cuh: the keys of rows (order/key.h).
//
// A warp reads 32 rows of a wide map (order_is_wide). Of others a lane reads its row: the records
// of a compact map (index/compact.h), or the few columns of a map as it stands.
#ifndef SPIRA_ORDER_KEYS_CUH
#define SPIRA_ORDER_KEYS_CUH

#include "taps.cuh"

namespace spira {

// ---- a wide map --------------------------------------------------------------------------------

// The order_bit_of each column's direction, and above its five bits the column's level.
typedef uint8_t order_columns[kernel_volume_max];

// Fills the numbers of a wide map. Called by all threads of a block. Each warp
// counts the columns of all offsets, and takes every n-th group of 32 offsets, n the number of
// warps.
SPIRA_DEVICE void order_fill_columns(const order_batch &batch, const order_task &task,
                                     order_columns &number) {
    const order_request &r = task.request;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, volume = kernel_volume(&r.kernel);
    int column = 0;
    for (int first = 0; first < volume; first += 32) {
        const int k = first + lane;
        const bool has = k < volume && kernel_norm(&r.kernel, k) < r.threshold;
        const uint32_t all = __ballot_sync(~0u, has);
        if (has && first / 32 % order_warps == warp) {
            const int direction = order_direction(&r.kernel, &batch.numbers, k);
            number[column + __popc(all & ((1u << lane) - 1))] =
                (uint8_t)(order_bit_of(task.weights, direction) | order_level(&r.kernel, k) << 5);
        }
        column += __popc(all);
    }
    __syncthreads();
}

// Returns the key of this lane's row. Called by a whole warp, whose rows are consecutive; the first
// `rows` exist.
SPIRA_DEVICE uint32_t order_find_key(const order_task &task, int32_t row, int rows,
                                     const order_columns &number) {
    const int volume = task.request.layout.volume;
    const int32_t *map = task.request.map;
    const int32_t *first = map + (int64_t)(row - (int)threadIdx.x % 32) * volume;
    uint32_t bits = 0;
    for (int k = 0; k < volume; k += order_word_bits) {
        const int columns = min(volume - k, (int)order_word_bits);
        uint32_t has = order_find_taps<order_lane_columns>(first, volume, rows, k, columns);
        for (; has; has &= has - 1) {
            const uint32_t own = number[k + __ffs((int)has) - 1];
            bits |= order_level_number(1u << own % 32, 1u << own / 32);
        }
    }
    if (task.weights.keys != order_by_directions) {
        bits &= (1u << order_directions) - 1; // without levels
    }
    return order_gray_rank(task.weights.keys == order_by_sectors ? order_sectors_of(bits) : bits);
}

// ---- a compact map ------------------------------------------------------------------------------

// Folds the taps of a plane of size 5 to a plane of size 3: offsets on one side of an axis to one.
SPIRA_BOTH uint32_t order_fold(uint32_t has) {
    const uint32_t rows = 31u | 31u << 15, columns = 0x108421; // 0 and 3; the first of each row
    has |= has >> 5 & rows;
    has |= has >> 1 & (columns | columns << 3);
    has = (has & columns) | (has >> 1 & (columns << 1 | columns << 2));
    return (has & 7) | (has >> 10 & 7) << 3 | (has >> 15 & 7) << 6;
}

// Folds the taps of a plane of size 5 to its levels: one row.
SPIRA_BOTH uint32_t order_fold_levels(uint32_t has) {
    return (has | has >> 5 | has >> 10 | has >> 15 | has >> 20) & 31;
}

// Returns the directions of these offsets of a 3 x 3 x 3 kernel.
template <int k = 0>
SPIRA_BOTH uint32_t order_directions_of(uint32_t has) {
    constexpr uint32_t own = 1u << order_number(k);
    uint32_t directions = has >> k & 1 ? own : 0;
    if constexpr (k + 1 < order_directions) {
        directions |= order_directions_of<k + 1>(has);
    }
    return directions;
}

// Returns the key of an output that has these offsets of a 3 x 3 x 3 kernel. Bit b of a number and
// the bits below it are flipped in its rank (order_gray_rank) for each bit b that it has.
template <int n = 0>
SPIRA_DEVICE uint32_t order_offsets_key(uint32_t has) {
    constexpr uint32_t offsets = order_sector_offsets(n);
    uint32_t key = has & offsets ? (2u << (order_sectors - 1 - n)) - 1 : 0;
    if constexpr (n + 1 < order_sectors) {
        key ^= order_offsets_key<n + 1>(has);
    }
    return key;
}

// Finds the keys of `rows` rows of a compact map; their loads overlap.
template <int K, int rows>
SPIRA_DEVICE void order_find_compact_keys(const order_request &r, const int32_t (&row)[rows],
                                          uint32_t (&key)[rows]) {
    uint32_t has[rows][K];
#pragma unroll
    for (int i = 0; i < rows; ++i) {
        const int32_t *from = r.compact + compact_at(K, r.capacity, 0, row[i]) + K;
#pragma unroll
        for (int s = 0; s < K; ++s) {
            has[i][s] = (uint32_t)order_load_now(from);
            from += compact_at(K, r.capacity, 1, 0);
        }
    }
#pragma unroll
    for (int i = 0; i < rows; ++i) {
        if constexpr (K == 3) {
            key[i] = order_offsets_key(has[i][0] | has[i][1] << 9 | has[i][2] << 18);
        } else {
            const uint32_t low = has[i][0] | has[i][1], high = has[i][3] | has[i][4];
            const uint32_t directions = order_directions_of(
                order_fold(low) | order_fold(has[i][2]) << 9 | order_fold(high) << 18);
            key[i] = order_gray_rank(
                order_level_number(directions, order_fold_levels(low | has[i][2] | high)));
        }
    }
}

// Finds the keys of `rows` rows of the compact map of a large kernel, by its folds.
template <int rows>
SPIRA_DEVICE void order_find_large_keys(const order_request &r, const int32_t (&row)[rows],
                                        uint32_t (&key)[rows]) {
    const triple size = r.kernel.size;
    uint32_t has[rows] = {}; // offsets of a kernel of size 3, and above them the levels
#pragma unroll 1
    for (int plane = 0; plane < size.x; ++plane) {
        const int side = (plane > size.x / 2) + (plane >= size.x / 2);
#pragma unroll
        for (int i = 0; i < rows; ++i) {
            const int32_t *from = r.compact + compact_fold_at(size, r.capacity, plane, row[i]);
            const uint32_t fold = (uint32_t)order_load_now(from);
            has[i] |= order_level_number((fold & 511) << 9 * side, fold >> 9);
        }
    }
#pragma unroll
    for (int i = 0; i < rows; ++i) {
        key[i] = order_gray_rank(
            order_level_number(order_directions_of(has[i]), has[i] >> order_directions));
    }
}

// ---- rows of a lane -----------------------------------------------------------------------------

// Finds the keys of `rows` rows of a map of up to order_lane_columns columns.
template <int rows>
SPIRA_DEVICE void order_find_lane_keys(const order_task &task, const int32_t (&row)[rows],
                                       uint32_t (&key)[rows]) {
    int32_t tap[rows][order_lane_columns];
#pragma unroll
    for (int i = 0; i < rows; ++i) {
        order_load_row(task.request, row[i], tap[i]);
    }
#pragma unroll
    for (int i = 0; i < rows; ++i) {
        uint32_t number = 0;
#pragma unroll
        for (int c = 0; c < order_lane_columns; ++c) {
            number |= (uint32_t)(tap[i][c] >= 0) << (task.lane_bits >> 4 * c & 15);
        }
        key[i] = order_gray_rank(number);
    }
}

// Finds the keys of `rows` rows of a map that is not wide.
template <int rows>
SPIRA_DEVICE void order_find_keys_by_lane(const order_task &task, const int32_t (&row)[rows],
                                          uint32_t (&key)[rows]) {
    const order_request &r = task.request;
    if (!r.compact) {
        order_find_lane_keys(task, row, key);
    } else if (r.layout.volume == 27) {
        order_find_compact_keys<3>(r, row, key);
    } else if (order_is_large(r)) {
        order_find_large_keys(r, row, key);
    } else {
        order_find_compact_keys<5>(r, row, key);
    }
}

} // namespace spira

#endif
