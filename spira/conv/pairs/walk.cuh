// spira/conv/pairs/walk.cuh: how warps walk pair lists: parameters, units, cursors.
//
// First file of the machinery of ../../conv_pairs.cuh. A unit is up to 16 consecutive pairs of one
// offset (32 in pairs_walk_deep of the atomic form, 8 in exact arithmetic). The units of all lists
// are numbered, so that a cursor finds any of them: its list by a search over the lists' first
// units, its pairs by the distance to the first unit of the list.
#ifndef SPIRA_CONV_PAIRS_WALK_CUH
#define SPIRA_CONV_PAIRS_WALK_CUH

#include "../../conv_pairs.h"
#include "rows.cuh"

namespace spira {

enum {
    pairs_threads = 256, // of the kernels before and after the walk
    pairs_warps = 8,     // of a thread block that walks on tensor cores, at most
    pairs_batch = 256,   // offsets whose segments in a stripe are looked up at a time
};

struct pairs_params {
    conv_params conv; // sources, weights, outputs, epilogue; no layout
    map_pairs pairs;
    pairs_sides sides;
    int32_t *first;  // [volume + 1] atomic form: the first unit of each list
    float *sums;     // [capacity, pitch], or null
    int pitch;       // floats of a row of sums
    int unit;        // pairs of a unit
    int stripe;      // outputs of a stripe; 0: atomic form
    int slices;      // of the output channels, that a thread block computes
    int slice_warps; // warps that share a slice
    bool from_sums;  // accumulators start from `sums` instead of zero
    bool to_sums;    // write fp32 sums instead of outputs
    bool tf32;       // round operands to tf32 in exact arithmetic
};

SPIRA_DEVICE int32_t pairs_rows(const pairs_params &p) {
    return count_clamp(*p.conv.count, p.conv.capacity);
}

// ---- lists and their units ----------------------------------------------------------------------

// Consecutive pairs of an offset's list.
struct pairs_segment {
    int32_t offset, from, count;
};

// The lists of a walk.
struct pairs_table {
    const int32_t *first;         // [lists + 1] the first unit of each list
    const pairs_segment *segment; // [lists], or null: the whole lists of all offsets
    int lists;
};

// The position of a warp; uniform over its lanes.
struct pairs_cursor {
    pairs_table table;
    int32_t unit, end, step; // the next unit, the end of the walk, the stride
    int list;
    int32_t next_first; // first unit of the next list
    int offset;         // negative: the walk is over
    int32_t from;       // where the segment starts in the list
    int32_t count;      // pairs of the segment
    int32_t at;         // first pair of the current unit
};

// A cursor over units unit, unit + step, ... below `end`. Its list is not beyond that of `unit`,
// and at most 1/32 of all lists before it; pairs_cursor_open does the rest. All lanes call it.
SPIRA_DEVICE pairs_cursor pairs_cursor_make(const pairs_table &table, int32_t unit, int32_t end,
                                            int32_t step) {
    pairs_cursor c = {};
    c.table = table;
    c.unit = unit;
    c.end = end;
    c.step = step;
    int stride = (table.lists + 31) / 32, at = (int)threadIdx.x % 32 * stride;
    uint32_t not_beyond = __ballot_sync(~0u, at < table.lists && table.first[at] <= unit);
    c.list = max(31 - __clz((int)not_beyond), 0) * stride;
    return c;
}

// Moves to the list of c.unit, which exists. All lanes call it.
SPIRA_DEVICE void pairs_cursor_open(const pairs_params &p, int32_t rows, pairs_cursor &c) {
    const pairs_table &t = c.table;
    for (uint32_t beyond = 0;; c.list += 32) {
        int next = c.list + 1 + (int)threadIdx.x % 32;
        beyond = __ballot_sync(~0u, next >= t.lists || t.first[next] > c.unit);
        if (beyond) {
            c.list += __ffs((int)beyond) - 1;
            break;
        }
    }
    c.offset = t.segment ? t.segment[c.list].offset : c.list;
    pairs_span span = pairs_span_of(&p.pairs, p.conv.volume, p.sides, rows, c.offset);
    c.next_first = t.first[c.list + 1];
    c.from = span.begin + (t.segment ? t.segment[c.list].from : 0);
    c.count = t.segment ? t.segment[c.list].count : span.count;
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
    c.at = (c.unit - c.table.first[c.list]) * pairs;
    c.unit += c.step;
}

// Source row of pair j of the segment; -1 past its end.
SPIRA_DEVICE int32_t pairs_source(const pairs_params &p, const pairs_cursor &c, int32_t j) {
    const int32_t *rows = pairs_sources(&p.pairs, p.conv.volume, p.sides, c.offset);
    return j >= c.count ? -1 : rows ? rows[c.from + j] : c.from + j;
}

// Output row of pair j of the segment; -1 past its end.
SPIRA_DEVICE int32_t pairs_target(const pairs_params &p, const pairs_cursor &c, int32_t j) {
    const int32_t *rows = pairs_targets(&p.pairs, p.conv.volume, p.sides, c.offset);
    return j >= c.count ? -1 : rows ? rows[c.from + j] : c.from + j;
}

// An equal share of all units: number `share` of `shares`.
SPIRA_DEVICE pairs_cursor pairs_share(const pairs_params &p, int64_t share, int64_t shares) {
    int64_t total = p.first[p.conv.volume];
    pairs_table table = {p.first, nullptr, p.conv.volume};
    return pairs_cursor_make(table, (int32_t)(total * share / shares),
                             (int32_t)(total * (share + 1) / shares), 1);
}

// ---- units on tensor cores ----------------------------------------------------------------------

// A unit as a lane sees it: of each 16 pairs the sources and targets of pairs g and g + 8
// (g = lane / 4).
template <int pair_groups>
struct pairs_unit {
    pairs_group group[pair_groups];
    int list, offset; // negative offset: the walk is over
    int32_t left;     // pairs of the segment from the first of this unit on
};

template <int pair_groups>
SPIRA_DEVICE void pairs_unit_next(const pairs_params &p, int32_t rows, pairs_cursor &c,
                                  pairs_unit<pair_groups> &unit) {
    pairs_cursor_step(p, rows, pairs_group_rows * pair_groups, c);
    unit.list = c.list;
    unit.offset = c.offset;
    unit.left = c.count - c.at;
#pragma unroll
    for (int i = 0; i < 2 * pair_groups; ++i) {
        int32_t j = c.at + i * 8 + (int)threadIdx.x % 32 / 4;
        unit.group[i / 2].source[i % 2] = pairs_source(p, c, j);
        unit.group[i / 2].row[i % 2] = (uint32_t)pairs_target(p, c, j);
    }
}

} // namespace spira

#endif
