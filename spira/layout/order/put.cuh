// spira/layout/order/put.cuh: how a warp writes the masks and sources of its group pair, from a
// compact map or from one of up to 8 columns. First it finds the offsets of the row groups
// (order_look), then it writes (order_put). A lane has the rows at four positions: two of each
// group.
#ifndef SPIRA_LAYOUT_ORDER_PUT_CUH
#define SPIRA_LAYOUT_ORDER_PUT_CUH

#include "keys.cuh"

namespace spira {

enum { order_group_items = order_items / 2 }; // positions of a lane in a row group

static_assert(order_group_items * 32 == order_rows, "a warp has a whole row group");

// ---- a compact map ------------------------------------------------------------------------------

enum { order_planes = 3 }; // of a kernel, whose records a lane has at a time

// Records of a lane's rows of a compact map; those of no row (-1) have no taps. All for size 3,
// three planes of a row group for size 5: to save registers.
template <int K>
struct order_records {
    static constexpr int rows = K == 3 ? (int)order_items : (int)order_group_items;
    int32_t word[rows][order_planes][K + 1];
};

// Of size 5 by ordinary loads, which the compiler does not move in front of stores: registers.
template <int K>
SPIRA_DEVICE void order_load_record(const int32_t *from, int32_t (&record)[K + 1]) {
    if constexpr (K == 3) {
        const int4 v = __ldg((const int4 *)from);
        record[0] = v.x, record[1] = v.y, record[2] = v.z, record[3] = v.w;
    } else {
#pragma unroll
        for (int i = 0; i < K + 1; i += 2) {
            const int2 v = *(const int2 *)(from + i);
            record[i] = v.x, record[i + 1] = v.y;
        }
    }
}

// Loads the records of the rows row[first] and following, of the planes from `plane` on.
template <int K>
SPIRA_DEVICE void order_load_records(const order_request &r, const int32_t (&row)[order_items],
                                     int first, int plane, order_records<K> &records) {
    records = {};
#pragma unroll
    for (int i = 0; i < order_records<K>::rows; ++i) {
#pragma unroll
        for (int j = 0; j < order_planes && plane + j < K; ++j) {
            if (row[first + i] >= 0) {
                order_load_record<K>(r.compact +
                                         compact_at(K, r.capacity, plane + j, row[first + i]),
                                     records.word[i][j]);
            }
        }
    }
}

// The offsets that some row of a row group has, by planes, for both groups of a warp's pair. In
// shared memory, to save registers.
typedef uint32_t order_offsets[2][compact_size_most];

// Finds the offsets of a pair. Returns its directions.
template <int K>
SPIRA_DEVICE uint32_t order_look(const order_request &r, const int32_t (&row)[order_items],
                                 order_records<K> &records, order_offsets &any) {
    uint32_t all[K] = {};
    if constexpr (K == 3) {
        order_load_records<K>(r, row, 0, 0, records);
    }
#pragma unroll
    for (int g = 0; g < 2; ++g) {
        uint32_t has[K] = {};
#pragma unroll
        for (int i = g * order_group_items; i < (g + 1) * order_group_items; ++i) {
#pragma unroll
            for (int plane = 0; plane < K; ++plane) {
                if constexpr (K == 3) {
                    has[plane] |= (uint32_t)records.word[i][plane][K];
                } else if (row[i] >= 0) {
                    has[plane] |= (uint32_t)r.compact[compact_at(K, r.capacity, plane, row[i]) + K];
                }
            }
        }
#pragma unroll
        for (int plane = 0; plane < K; ++plane) {
            const uint32_t own = warp_unite(has[plane]);
            if (threadIdx.x % 32 == 0) {
                any[g][plane] = own;
            }
            all[plane] |= own;
        }
        __syncwarp();
    }
    return order_planes_directions<K>(all);
}

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

// Writes a row group's mask. any: the offsets of each plane
template <int K>
SPIRA_DEVICE void order_put_mask(const order_layout &t, int64_t group, const uint32_t *any) {
    const int words = (K * K * K + 31) / 32;
    uint32_t mask[words + 1] = {};
#pragma unroll
    for (int s = 0; s < K; ++s) {
        mask[s * K * K / 32] |= any[s] << s * K * K % 32;
        mask[s * K * K / 32 + 1] |= s * K * K % 32 ? any[s] >> (32 - s * K * K % 32) : 0;
    }
#pragma unroll
    for (int w = 0; w < words; ++w) {
        t.mask[group * words + w] = mask[w];
    }
}

// Writes sources and masks of a group pair, after order_look. group: the first of the pair
template <int K>
SPIRA_DEVICE void order_put(const order_request &r, int64_t group,
                            const int32_t (&row)[order_items], order_records<K> &records,
                            const order_offsets &any) {
    const order_layout &t = r.layout;
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int g = 0; g < 2; ++g) {
        const int first = g * order_group_items;
        int32_t *to = t.source + order_begin(&t, group + g, 0) + lane;
#pragma unroll
        for (int plane = 0; plane < K; plane += order_planes) {
            if constexpr (K != 3) {
                order_load_records<K>(r, row, first, plane, records);
            }
#pragma unroll
            for (int j = 0; j < order_planes && plane + j < K; ++j) {
#pragma unroll
                for (int i = 0; i < order_group_items; ++i) {
                    order_put_record<K>(records.word[K == 3 ? first + i : i][j], any[g][plane + j],
                                        to + (plane + j) * K * K * order_rows + i * 32);
                }
            }
        }
        if (lane == 0 && group + g < order_count(r.capacity)) {
            order_put_mask<K>(t, group + g, any[g]);
        }
    }
}

// ---- a map of few columns -----------------------------------------------------------------------

typedef int32_t order_lane_sources[order_group_items][order_lane_columns];

// Loads the sources of a lane's rows in a row group: row[0] and following. Returns the offsets that
// some row of the group has.
SPIRA_DEVICE uint32_t order_look_lanes(const order_request &r, const int32_t *row,
                                       order_lane_sources &tap) {
    const int volume = r.layout.volume;
    uint32_t has = 0;
#pragma unroll
    for (int i = 0; i < order_group_items; ++i) {
#pragma unroll
        for (int c = 0; c < order_lane_columns; ++c) {
            tap[i][c] = row[i] >= 0 && c < volume ? r.map[(int64_t)row[i] * volume + c] : -1;
        }
    }
#pragma unroll
    for (int i = 0; i < order_group_items; ++i) {
#pragma unroll
        for (int c = 0; c < order_lane_columns; ++c) {
            has |= tap[i][c] >= 0 ? 1u << c : 0;
        }
    }
    return warp_unite(has);
}

// Writes sources and mask of a row group, after order_look_lanes, which returned `any`.
SPIRA_DEVICE void order_put_lanes(const order_request &r, int64_t group,
                                  const order_lane_sources &tap, uint32_t any) {
    const order_layout &t = r.layout;
    const int lane = threadIdx.x % 32;
    int32_t *to = t.source + order_begin(&t, group, 0) + lane;
#pragma unroll
    for (int i = 0; i < order_group_items; ++i) {
#pragma unroll
        for (int c = 0; c < order_lane_columns; ++c) {
            if (any >> c & 1) {
                to[c * order_rows + i * 32] = tap[i][c];
            }
        }
    }
    if (lane == 0 && group < order_count(r.capacity)) {
        t.mask[group] = any;
    }
}

} // namespace spira

#endif
