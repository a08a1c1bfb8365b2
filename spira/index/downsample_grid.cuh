// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/index/downsample_grid.cuh: a step of a coordinate set to the next level, without a sort:
// the idea, the sizes and the scratch. Used by spira/downsample.cuh.
//
// A set stays in order under the floor, except for rows that the floor merges: two rows in y, two
// planes in x. A voxel is the head of its coarse cell if no voxel of the cell precedes it in the
// set. The rank of a cell among the coarse words follows from the number of heads at the ends of up
// to four parts of the fine set, which binary searches find. Two launches:
//
//   mark  (downsample_mark.cuh) finds the heads and counts them
//   rank  (downsample_rank.cuh) ranks the heads and writes the cells
//
// A thread block searches in shared memory: in the near window (the tile and its margins, loaded at
// once), or in a window of the whole span where planes are longer (downsample_window.cuh). Where
// the span is too long, it searches in the set itself (downsample_search.cuh).
#ifndef SPIRA_INDEX_DOWNSAMPLE_GRID_CUH
#define SPIRA_INDEX_DOWNSAMPLE_GRID_CUH

#include "../downsample.h"
#include "unique.cuh"

namespace spira {

// The heads among 32 voxels: bit i % 32 of element i / 32 is voxel i. `before` is the number of
// heads of the same thread block in front of these 32.
struct downsample_heads {
    uint32_t bits;
    int32_t before;
};

enum {
    downsample_small = 131072,    // up to this capacity a tile is 256 voxels, else 512
    downsample_blocks_many = 512, // with more thread blocks, heads are listed (downsample_rank.cuh)
    downsample_blocks_max = 4096,
    downsample_margin = 512,      // words on either side of a tile that are loaded with it
    downsample_window = 8192,     // largest window, in words
    downsample_pad = 32,          // padding words on either side of a window
    downsample_near_reach = 1024, // above the distance of any search in a near window
    downsample_close = 31,        // words that a close search looks at
};

// How a set is divided: each thread block takes 2^shift voxels, tile by tile. A tile is `tile`
// voxels, one for each thread.
struct downsample_cut {
    int32_t tile, shift, blocks;
};

SPIRA_API downsample_cut downsample_cut_make(int32_t capacity) {
    downsample_cut cut = {capacity <= downsample_small ? 256 : 512, 0, 0};
    cut.shift = bits_for((uint64_t)cut.tile) - 1;
    while (ceil_div(capacity, (int64_t)1 << cut.shift) > downsample_blocks_max) {
        ++cut.shift;
    }
    cut.blocks = (int32_t)ceil_div(capacity, (int64_t)1 << cut.shift);
    return cut;
}

enum { downsample_near = -1 };

// The part of a set that has all groups of a tile's voxels: [begin, end). `end` is ~end where the
// span does not fit a window: it is too long, or its words are too far apart. `begin` is
// downsample_near where the groups lie within the near window: the tile and its margins.
struct downsample_span {
    int begin, end;
};

// What a step hands on from its first launch to its second.
struct downsample_marks {
    downsample_heads *heads; // [ceil(in.capacity / 32)]
    int32_t *counts;         // [blocks] heads
    downsample_span *spans;  // [tiles]
};

template <typename W>
struct downsample_scratch {
    downsample_marks marks; // for a step to the next level
    unique_scratch<W> sort; // for any other: of in.capacity words
};

// The grid of coarse cells, as the searches use it.
//
// The words of a set are in order of x, y, z. A row has one x and y, a plane has one x. A cell
// covers one or two planes, and in each one or two rows. A group is what several cells share and
// what is contiguous in the set: two planes, else two rows, else a cell.
template <typename W>
struct downsample_grid {
    W floor;           // mask of the stride
    W row, plane;      // masks that clear z; y and z
    W step_x, step_y;  // from the lower plane of a cell to the upper one, and row to row
    W span;            // highest z of a cell minus its lowest
    W group;           // mask whose result identifies the group
    W reach;           // highest word of a group minus its lowest
    W off;             // mask of bits that are zero on the lattice of the finer set
    bool two_x, two_y; // a cell covers two planes, two rows
};

template <typename W>
SPIRA_API downsample_grid<W> downsample_grid_make(const word_layout *layout, triple from,
                                                  triple stride) {
    downsample_grid<W> g;
    // A field without room for a second row or plane has one.
    g.two_x = stride.x > from.x && from.x < (int64_t)1 << layout->width.x;
    g.two_y = stride.y > from.y && from.y < (int64_t)1 << layout->width.y;
    g.floor = word_stride_mask<W>(layout, stride);
    g.row = (W) ~(((W)1 << layout->shift_y) - 1);
    g.plane = layout->shift_x < (int)(8 * sizeof(W)) ? (W) ~(((W)1 << layout->shift_x) - 1) : 0;
    // x, or x and y, are multiples already. Without a gap the mask serves distances, too.
    g.floor |= g.two_x ? 0 : g.two_y ? g.plane : g.row;
    g.step_x = word_delta<W>(layout, triple_make(from.x, 0, 0));
    g.step_y = word_delta<W>(layout, triple_make(0, from.y, 0));
    g.span = (W)(min_of(stride.z, (int64_t)1 << layout->width.z) - 1); // within the field
    g.group = g.floor & (g.two_x ? g.plane : g.two_y ? g.row : (W) ~(W)0);
    g.off = (W)~word_stride_mask<W>(layout, from);
    g.reach = g.two_x ? (W)(g.step_x + (W)~g.plane) : g.two_y ? (W)(g.step_y + (W)~g.row) : g.span;
    return g;
}

// What both launches of a step read and write.
template <typename W>
struct downsample_task {
    downsample_grid<W> grid;
    voxel_set<W> in, out;
    int shift; // see downsample_cut
    downsample_marks marks;
    device_status *trouble;
};

// A tile: voxels [first, last) of a set of `count` voxels.
struct downsample_tile {
    int first, last, count;
    downsample_span span;
};

// Steps and sorts share the memory.
template <typename W>
SPIRA_API void downsample_carve(workspace *w, int32_t rows, int32_t capacity,
                                downsample_scratch<W> *s) {
    workspace step = *w;
    s->marks.heads = workspace_take<downsample_heads>(&step, ceil_div(rows, 32));
    s->marks.counts = workspace_take<int32_t>(&step, downsample_cut_make(rows).blocks);
    s->marks.spans =
        workspace_take<downsample_span>(&step, ceil_div(rows, downsample_cut_make(rows).tile));
    unique_carve(w, rows, capacity, &s->sort);
    w->used = (size_t)max_of((int64_t)w->used, (int64_t)step.used);
}

} // namespace spira

#endif
