// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/conv/pairs/walk.cuh: how warps walk pair lists: parameters, units, cursors.
//
// First file of the machinery of ../../conv_pairs.cuh. A unit is up to 16 consecutive pairs of one
// offset (32 in pairs_walk_deep, 8 in exact arithmetic). The units of all lists are numbered, so
// that a cursor finds any of them: its list by a search over the lists' first units, its pairs by
// the distance to the first unit of the list.
#ifndef SPIRA_CONV_PAIRS_WALK_CUH
#define SPIRA_CONV_PAIRS_WALK_CUH

#include "../../conv_pairs.h"
#include "rows.cuh"

namespace spira {

enum {
    pairs_threads = 256, // of the kernels before and after the walk
    pairs_warps = 8,     // of a thread block that walks on tensor cores, at most
};

struct pairs_params {
    conv_params conv; // sources, weights, outputs, epilogue; no layout
    map_lists pairs;
    pairs_sides sides;
    int32_t *first;  // [volume + 1] the first unit of each list
    int begin, end;  // the lists of a launch: offsets [begin, end)
    float *sums;     // [capacity, pitch]
    int pitch;       // floats of a row of sums
    int unit;        // pairs of a unit
    int slices;      // of the output channels, that a thread block computes
    int slice_warps; // warps that share a slice
    bool ordered;    // deterministic: a launch for each list
    bool from_sums;  // accumulators start from `sums` instead of zero
    bool to_sums;    // write fp32 sums instead of outputs
};

SPIRA_DEVICE int32_t pairs_rows(const pairs_params &p) {
    return count_clamp(*p.conv.count, p.conv.capacity);
}

// ---- lists and their units ----------------------------------------------------------------------

// The position of a warp; uniform over its lanes.
struct pairs_cursor {
    int32_t unit, end;  // the next unit, the end of the walk
    int32_t next_first; // first unit of the next list
    int offset;         // of the list; negative: the walk is over
    int32_t from;       // where the list starts
    int32_t count;      // its pairs
    int32_t at;         // first pair of the current unit
};

// A cursor over an equal share of the units: number `share` of `shares`. Its list is not beyond
// that of the first unit, and at most 1/32 of all lists before it; pairs_cursor_open does the rest.
// All lanes call it.
SPIRA_DEVICE pairs_cursor pairs_share(const pairs_params &p, int64_t share, int64_t shares) {
    const int32_t begin = p.first[p.begin];
    const int64_t units = p.first[p.end] - begin;
    pairs_cursor c = {};
    c.unit = begin + (int32_t)(units * share / shares);
    c.end = begin + (int32_t)(units * (share + 1) / shares);
    int stride = (p.conv.volume + 31) / 32, at = (int)threadIdx.x % 32 * stride;
    uint32_t not_beyond = __ballot_sync(~0u, at < p.conv.volume && p.first[at] <= c.unit);
    c.offset = max(31 - __clz((int)not_beyond), 0) * stride;
    return c;
}

// Moves to the list of c.unit, which exists. All lanes call it.
SPIRA_DEVICE void pairs_cursor_open(const pairs_params &p, int32_t rows, pairs_cursor &c) {
    for (uint32_t beyond = 0;; c.offset += 32) {
        int next = c.offset + 1 + (int)threadIdx.x % 32;
        beyond = __ballot_sync(~0u, next >= p.conv.volume || p.first[next] > c.unit);
        if (beyond) {
            c.offset += __ffs((int)beyond) - 1;
            break;
        }
    }
    const map_span span = pairs_list_of(&p.pairs, p.conv.volume, p.sides, rows, c.offset).span;
    c.next_first = p.first[c.offset + 1];
    c.from = span.begin;
    c.count = span.count;
}

// Advances to the next unit, of `pairs` pairs.
SPIRA_DEVICE void pairs_cursor_step(const pairs_params &p, int32_t rows, int pairs,
                                    pairs_cursor &c) {
    if (c.unit >= c.end) {
        c.offset = -1;
        c.count = c.at = 0;
        return;
    }
    if (c.unit >= c.next_first) {
        pairs_cursor_open(p, rows, c);
    }
    c.at = (c.unit - p.first[c.offset]) * pairs;
    ++c.unit;
}

// The list of a cursor, for pairs_row.
SPIRA_DEVICE pairs_list pairs_cursor_list(const pairs_params &p, const pairs_cursor &c) {
    return pairs_list_of(&p.pairs, p.conv.volume, p.sides, 0, c.offset);
}

// The row of pair j of a list: of its sources or targets; -1 past its end.
SPIRA_DEVICE int32_t pairs_row(const pairs_cursor &c, const int32_t *rows, int32_t j) {
    return j >= c.count ? -1 : rows ? rows[c.from + j] : c.from + j;
}

// ---- units on tensor cores ----------------------------------------------------------------------

// A unit as a lane sees it: of each 16 pairs the sources and targets of pairs g and g + 8
// (g = lane / 4).
template <int pair_groups>
struct pairs_unit {
    pairs_group group[pair_groups];
    int offset;   // negative: the walk is over
    int32_t left; // pairs of the list from the first of this unit on
};

template <int pair_groups>
SPIRA_DEVICE void pairs_unit_next(const pairs_params &p, int32_t rows, pairs_cursor &c,
                                  pairs_unit<pair_groups> &unit) {
    pairs_cursor_step(p, rows, pairs_group_rows * pair_groups, c);
    unit.offset = c.offset;
    unit.left = c.count - c.at;
    const pairs_list list = pairs_cursor_list(p, c);
#pragma unroll
    for (int i = 0; i < 2 * pair_groups; ++i) {
        int32_t j = c.at + i * 8 + (int)threadIdx.x % 32 / 4;
        unit.group[i / 2].source[i % 2] = pairs_row(c, list.sources, j);
        unit.group[i / 2].row[i % 2] = (uint32_t)pairs_row(c, list.targets, j);
    }
}

} // namespace spira

#endif
