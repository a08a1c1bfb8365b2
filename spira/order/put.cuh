// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/order/put.cuh: how a warp writes the mask and sources of its row group, from a
// compact map of size 3 or from a map of up to 8 columns. A lane has the rows at two positions.
#ifndef SPIRA_ORDER_PUT_CUH
#define SPIRA_ORDER_PUT_CUH

#include "keys.cuh"

namespace spira {

// Writes the sources of a plane's offsets at one position, for the offsets in `any`. to: where the
// source of the plane's first offset goes; offsets are order_rows apart
template <int K>
SPIRA_DEVICE void order_put_record(const int32_t (&record)[K + 1], uint32_t any, int32_t *to) {
#pragma unroll
    for (int y = 0; y < K; ++y) {
        if (!(any >> y * K & ((1u << K) - 1))) {
            continue;
        }
        int32_t source = record[y];
#pragma unroll
        for (int c = y * K; c < y * K + K; ++c) {
            const bool has = record[K] >> c & 1;
            if (any >> c & 1) {
                to[c * order_rows] = has ? source : -1;
            }
            source += has;
        }
    }
}

// ---- a compact map of size 3 --------------------------------------------------------------------

enum { order_planes = 3 };

// Writes sources and mask of a row group. row: -1 for no row
SPIRA_DEVICE void order_put_records(const order_request &r, int64_t group,
                                    const int32_t (&row)[order_items]) {
    const int K = order_planes, lane = threadIdx.x % 32;
    int32_t record[order_items][K][K + 1] = {};
    uint32_t any[K]; // the offsets of each plane that some row has
#pragma unroll
    for (int i = 0; i < order_items; ++i) {
#pragma unroll
        for (int plane = 0; plane < K && row[i] >= 0; ++plane) {
            const int4 v =
                __ldg((const int4 *)(r.compact + compact_at(K, r.capacity, plane, row[i])));
            int32_t(&word)[K + 1] = record[i][plane];
            word[0] = v.x, word[1] = v.y, word[2] = v.z, word[3] = v.w;
        }
    }
    int32_t *to = r.layout.source + order_begin(&r.layout, group, 0) + lane;
#pragma unroll
    for (int plane = 0; plane < K; ++plane) {
        any[plane] = warp_unite((uint32_t)(record[0][plane][K] | record[1][plane][K]));
    }
#pragma unroll
    for (int plane = 0; plane < K; ++plane) {
#pragma unroll
        for (int i = 0; i < order_items; ++i) {
            order_put_record<K>(record[i][plane], any[plane],
                                to + plane * K * K * order_rows + i * 32);
        }
    }
    if (lane == 0 && group < order_count(r.capacity)) {
        r.layout.mask[group] = any[0] | any[1] << 9 | any[2] << 18;
    }
}

// ---- a map of few columns -----------------------------------------------------------------------

// Writes sources and mask of a row group. row: -1 for no row
SPIRA_DEVICE void order_put_lanes(const order_request &r, int64_t group,
                                  const int32_t (&row)[order_items]) {
    const int lane = threadIdx.x % 32;
    int32_t tap[order_items][order_lane_columns];
    uint32_t has = 0;
#pragma unroll
    for (int i = 0; i < order_items; ++i) {
        order_load_row(r, row[i], tap[i]);
    }
#pragma unroll
    for (int i = 0; i < order_items; ++i) {
#pragma unroll
        for (int c = 0; c < order_lane_columns; ++c) {
            has |= tap[i][c] >= 0 ? 1u << c : 0;
        }
    }
    const uint32_t any = warp_unite(has);
    int32_t *to = r.layout.source + order_begin(&r.layout, group, 0) + lane;
#pragma unroll
    for (int i = 0; i < order_items; ++i) {
#pragma unroll
        for (int c = 0; c < order_lane_columns; ++c) {
            if (any >> c & 1) {
                to[c * order_rows + i * 32] = tap[i][c];
            }
        }
    }
    if (lane == 0 && group < order_count(r.capacity)) {
        r.layout.mask[group] = any;
    }
}

} // namespace spira

#endif
