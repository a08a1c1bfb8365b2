// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/index/subdivide_place.cuh: the kernels of subdivide.cuh: which children exist, how many
// stand in front of each voxel, and where they go.
//
// Children are divided into four kinds by (dx, dy): kind 2 dx + dy. In the order of the result, an
// x-plane of parents becomes its children with dx = 0, then those with dx = 1; each of the two goes
// row by row (a row: parents that differ in z alone), first dy = 0, then dy = 1; and within a row
// the children of one kind follow their parents. So sums of each kind up to the ends of the plane
// and of the row give the place of each child.
#ifndef SPIRA_INDEX_SUBDIVIDE_PLACE_CUH
#define SPIRA_INDEX_SUBDIVIDE_PLACE_CUH

#include "../base/wide.cuh"
#include "../subdivide.h"
#include "prune_write.cuh"

namespace spira {

enum { subdivide_kinds = 4 };

struct subdivide_scratch {
    uint8_t *children; // [tiles * choice_tile] a bit for each child that exists
    uint2 *before;     // [tiles * choice_tile] children of each kind in front, in the tile: 16 bits
    int32_t *sums;     // [subdivide_kinds, tiles + 1]
};

SPIRA_API void subdivide_carve(workspace *w, int32_t capacity, subdivide_scratch *s) {
    const int64_t tiles = choice_tiles(capacity);
    s->children = workspace_take<uint8_t>(w, tiles * choice_tile);
    s->before = workspace_take<uint2>(w, tiles * choice_tile);
    s->sums = workspace_take<int32_t>(w, subdivide_kinds * (tiles + 1));
}

template <typename W>
struct subdivide_task {
    subdivide_args<W> args;
    word_layout layout;
    triple half;
    subdivide_scratch s;
    bool wide; // 8 scores may be read at once
};

// The children of a kind: those with dz = 0 and dz = 1 at bits 0 and 4.
SPIRA_DEVICE uint32_t subdivide_of_kind(uint32_t children, int kind) {
    return children >> (kind / 2 + 2 * (kind % 2)) & 0x11;
}

// The children that the choice wants. E: of the scores, or uint8_t for a mask or all.
template <typename E, typename W>
SPIRA_DEVICE uint32_t subdivide_wanted(const subdivide_task<W> &task, int64_t i) {
    const row_choice &c = task.args.choice;
    if constexpr (sizeof(E) == 1) {
        return c.mask ? c.mask[i] : 0xff;
    } else {
        wide_elements<E, subdivide_children> scores;
        wide_read_channels((const E *)c.scores + i * subdivide_children, subdivide_children, 0,
                           task.wide, scores);
        uint32_t wanted = 0;
        bool nan = false;
#pragma unroll
        for (int s = 0; s < subdivide_children; ++s) {
            const float score = element_to_float(scores.at[s]);
            nan = nan || float_is_nan(score);
            wanted |= (uint32_t)row_choice_takes(c, score) << s;
        }
        if (nan) {
            device_status_raise(task.args.trouble, device_flag_not_finite, (uint32_t)i);
        }
        return wanted;
    }
}

// Of these the ones that exist.
template <typename W>
SPIRA_DEVICE uint32_t subdivide_existing(const subdivide_task<W> &task, int64_t i,
                                         uint32_t wanted) {
    const W word = task.args.in.words[i];
    bool left_out;
    if (!downsample_on_lattice(&task.layout, word, task.args.stride, &left_out)) {
        device_status_raise(task.args.trouble, device_flag_lattice, (uint32_t)i);
        return 0;
    }
    const uint32_t within =
        subdivide_within(&task.layout, word_unpack<W>(&task.layout, word), task.half);
    if (wanted & ~within) {
        device_status_raise(task.args.trouble, device_flag_range, (uint32_t)i);
    }
    return wanted & within;
}

template <typename W, typename E>
SPIRA_KERNEL void __launch_bounds__(choice_tile)
    subdivide_mark_kernel(const __grid_constant__ subdivide_task<W> task) {
    __shared__ int shared[subdivide_kinds][choice_tile / 32];
    const int64_t i = (int64_t)blockIdx.x * choice_tile + threadIdx.x;
    uint32_t children = 0;
    if (i < voxel_set_count(task.args.in)) {
        children = subdivide_existing(task, i, subdivide_wanted<E>(task, i));
    }
    int own[subdivide_kinds], before[subdivide_kinds], total[subdivide_kinds];
#pragma unroll
    for (int kind = 0; kind < subdivide_kinds; ++kind) {
        own[kind] = __popc(subdivide_of_kind(children, kind));
    }
    block_exclusive_sums<choice_tile, subdivide_kinds>(own, shared, before, total);
    task.s.children[i] = (uint8_t)children;
    task.s.before[i] = make_uint2((uint32_t)before[0] | (uint32_t)before[1] << 16,
                                  (uint32_t)before[2] | (uint32_t)before[3] << 16);
    if (threadIdx.x == 0) {
#pragma unroll
        for (int kind = 0; kind < subdivide_kinds; ++kind) {
            task.s.sums[(int64_t)kind * (gridDim.x + 1) + blockIdx.x] = total[kind];
        }
    }
    if (i == 0) {
        device_status_raise_count(task.args.trouble, *task.args.in.count, task.args.in.capacity);
    }
}

// Children of each kind.
struct subdivide_counts {
    int32_t of[subdivide_kinds];
};

// ... in front of row i of the set; i: up to the count.
SPIRA_DEVICE subdivide_counts subdivide_front(const subdivide_scratch &s, int tiles, int32_t i) {
    const int tile = i / choice_tile;
    const uint2 before = tile < tiles ? s.before[i] : make_uint2(0, 0);
    const int32_t *sums = s.sums + tile;
    return {{sums[0] + (int)(before.x & 0xffff), sums[tiles + 1] + (int)(before.x >> 16),
             sums[2 * (tiles + 1)] + (int)(before.y & 0xffff),
             sums[3 * (tiles + 1)] + (int)(before.y >> 16)}};
}

// The first of the words [begin, end) whose bits from `shift` on are at least `key`, or `end`.
template <typename W>
SPIRA_DEVICE int32_t subdivide_first(const W *words, int32_t begin, int32_t end, int shift, W key) {
    return first_not(begin, end, [&](int i) { return words[i] >> shift < key; });
}

template <typename W>
SPIRA_KERNEL void __launch_bounds__(choice_tile)
    subdivide_place_kernel(const __grid_constant__ subdivide_task<W> task) {
    const subdivide_args<W> &a = task.args;
    const int tiles = choice_tiles(a.in.capacity);
    const int32_t count = voxel_set_count(a.in);
    const subdivide_counts all = subdivide_front(task.s, tiles, tiles * choice_tile);
    choice_end(a.out, all.of[0] + all.of[1] + all.of[2] + all.of[3], a.trouble);
    const int32_t i = (int32_t)(blockIdx.x * choice_tile + threadIdx.x);
    const uint32_t children = i < count ? task.s.children[i] : 0;
    if (!children) {
        return;
    }
    const W *words = a.in.words, word = words[i];
    const int row_at = task.layout.shift_y, plane_at = task.layout.shift_x;
    const W row = word >> row_at, plane = word >> plane_at;
    const int32_t row_begin = subdivide_first(words, 0, i, row_at, row);
    const int32_t row_end = subdivide_first<W>(words, i + 1, count, row_at, row + 1);
    const int32_t plane_begin = subdivide_first(words, 0, row_begin, plane_at, plane);
    const int32_t plane_end = subdivide_first<W>(words, row_end, count, plane_at, plane + 1);
    const subdivide_counts own = subdivide_front(task.s, tiles, i);
    const subdivide_counts at_row = subdivide_front(task.s, tiles, row_begin);
    const subdivide_counts to_row = subdivide_front(task.s, tiles, row_end);
    const subdivide_counts at_plane = subdivide_front(task.s, tiles, plane_begin);
    const subdivide_counts to_plane = subdivide_front(task.s, tiles, plane_end);
    const int32_t front = at_plane.of[0] + at_plane.of[1] + at_plane.of[2] + at_plane.of[3];
    const int32_t low = to_plane.of[0] + to_plane.of[1] - at_plane.of[0] - at_plane.of[1];
#pragma unroll
    for (int kind = 0; kind < subdivide_kinds; ++kind) {
        const int dx = kind / 2, dy = kind % 2, same = 2 * dx; // same: the kind with dy = 0
        const uint32_t mine = subdivide_of_kind(children, kind);
        int32_t place = front + (dx ? low : 0);
        place += at_row.of[same] + at_row.of[same + 1] - at_plane.of[same] - at_plane.of[same + 1];
        place += dy ? to_row.of[same] - at_row.of[same] : 0;
        place += own.of[kind] - at_row.of[kind];
#pragma unroll
        for (int dz = 0; dz < 2; ++dz) {
            if (mine >> (4 * dz) & 1) {
                if (place < a.out.capacity) {
                    const int s = dx + 2 * dy + 4 * dz;
                    a.out.words[place] = (W)(word + subdivide_delta<W>(&task.layout, task.half, s));
                    a.source[place] = i * subdivide_children + s;
                }
                ++place;
            }
        }
    }
}

} // namespace spira

#endif
