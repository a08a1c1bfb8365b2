// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/index/expand_box.h: the box of all outputs that a layer can have, and how its output set is
// made. Used by spira/expand.cuh.
//
// The cells of the box are numbered by batch, x, y, z: the order of their words. Therefore the set
// bits of a bitmap of all cells, in order, are the output set: clear, mark, list. Where the bitmap
// would be too large, all outputs that each input touches are written and sorted (unique.cuh). No
// step depends on where the voxels are: the time is bounded by the sizes of the box and of the
// sets.
#ifndef SPIRA_INDEX_EXPAND_BOX_H
#define SPIRA_INDEX_EXPAND_BOX_H

#include "../expand.h"

namespace spira {

// Sizes of a bitmap whose set bits are listed (bitmap.cuh).
enum {
    bitmap_threads = 256,
    bitmap_words = 4,       // words of a thread
    bitmap_words_small = 1, // the same where that makes at most bitmap_tiles_many tiles
    bitmap_words_large = 8, // the same where there are many tiles
    bitmap_tile = bitmap_threads * bitmap_words,
    bitmap_tiles_few = 64,    // so many or fewer tiles count the bits in front by themselves
    bitmap_tiles_many = 1024, // about what a large GPU runs at a time
    bitmap_batch = 4096,      // set bits of a tile that are listed at a time
};

struct expand_box {
    triple first; // index of the first cell on each axis, on the output's grid
    triple size;  // cells on each axis
    int batches;
};

// A layer, and the cells that its outputs can have.
struct expand_level {
    expand_axes axes;
    expand_box box;
};

enum : uint32_t { expand_cells_most = 1u << 31 };

// One axis of the box: the indices within the extent whose coordinates the layout holds.
SPIRA_API void expand_box_axis(const expand_axis *a, int lo, int hi, int *first, int *size) {
    const int64_t step = (int64_t)a->ratio * a->spacing;
    int64_t low = -floor_to((int64_t)a->out_origin - lo, step) / step,
            high = floor_to((int64_t)hi - a->out_origin, step) / step;
    low = max_of(low, a->out_extent ? 0 : -INT32_MAX);
    high = min_of(high, a->out_extent ? a->out_extent - 1 : INT32_MAX - 1);
    *first = (int)min_of(low, INT32_MAX);
    *size = (int)max_of(min_of(high - low + 1, INT32_MAX), 0);
}

SPIRA_API expand_box expand_box_make(const word_layout *layout, const expand_axes *axes) {
    expand_box box;
    expand_box_axis(&axes->x, layout->lo.x, layout->hi.x, &box.first.x, &box.size.x);
    expand_box_axis(&axes->y, layout->lo.y, layout->hi.y, &box.first.y, &box.size.y);
    expand_box_axis(&axes->z, layout->lo.z, layout->hi.z, &box.first.z, &box.size.z);
    box.batches = layout->batches;
    return box;
}

// The number of cells, or a number above expand_cells_most if there are more.
SPIRA_API int64_t expand_box_cells(const expand_box *box) {
    const int sizes[4] = {box->size.x, box->size.y, box->size.z, box->batches};
    int64_t cells = 1;
    for (int size : sizes) {
        cells = min_of(cells, (int64_t)expand_cells_most + 1) * size;
    }
    return min_of(cells, (int64_t)expand_cells_most + 1);
}

// The number of a cell, by its place in the box.
SPIRA_BOTH uint32_t expand_box_cell(const expand_box *box, int batch, int x, int y, int z) {
    return (((uint32_t)batch * (uint32_t)box->size.x + (uint32_t)x) * (uint32_t)box->size.y +
            (uint32_t)y) *
               (uint32_t)box->size.z +
           (uint32_t)z;
}

// How cells become words: origin + batch * step_b + x * step_x + y * step_y + z * step_z.
template <typename W>
struct expand_packing {
    uint32_t x, y, z;                         // cells on each axis
    uint32_t inverse_x, inverse_y, inverse_z; // see expand_divide
    W origin, step_b, step_x, step_y, step_z;
};

template <typename W>
SPIRA_API expand_packing<W> expand_packing_make(const word_layout *l, const expand_axes *axes,
                                                const expand_box *box) {
    const expand_axis *x = &axes->x, *y = &axes->y, *z = &axes->z;
    const triple step =
        triple_make(x->ratio * x->spacing, y->ratio * y->spacing, z->ratio * z->spacing);
    expand_packing<W> p;
    p.x = (uint32_t)max_of(box->size.x, 1); // 0: there are no cells
    p.y = (uint32_t)max_of(box->size.y, 1);
    p.z = (uint32_t)max_of(box->size.z, 1);
    p.inverse_x = UINT32_MAX / p.x;
    p.inverse_y = UINT32_MAX / p.y;
    p.inverse_z = UINT32_MAX / p.z;
    p.step_b = l->width_batch ? (W)((W)1 << l->shift_b) : 0;
    p.step_x = (W)((W)step.x << l->shift_x);
    p.step_y = (W)((W)step.y << l->shift_y);
    p.step_z = (W)step.z;
    // Sums wrap where a box is empty; it has no words then.
    p.origin = (W)(((W)((int64_t)x->out_origin + l->bias.x) << l->shift_x) +
                   ((W)((int64_t)y->out_origin + l->bias.y) << l->shift_y) +
                   (W)((int64_t)z->out_origin + l->bias.z) + (W)(int64_t)box->first.x * p.step_x +
                   (W)(int64_t)box->first.y * p.step_y + (W)(int64_t)box->first.z * p.step_z);
    return p;
}

template <typename W>
SPIRA_BOTH W expand_packing_word(const expand_packing<W> *p, uint32_t cell) {
    uint32_t at_x, at_y, at_z;
    const uint32_t column = expand_divide(cell, p->z, p->inverse_z, &at_z),
                   row = expand_divide(column, p->y, p->inverse_y, &at_y),
                   batch = expand_divide(row, p->x, p->inverse_x, &at_x);
    return (W)(p->origin + (W)batch * p->step_b + (W)at_x * p->step_x + (W)at_y * p->step_y +
               (W)at_z * p->step_z);
}

// ---- levels -------------------------------------------------------------------------------------
//
// Layers behind each other, each of which reads the outputs of the one before: the bitmap of a
// level follows from the one before, column by column.

// An axis of a level that is made of the level before.
struct expand_step {
    int cells, before; // of both levels
    int ratio, padding, size, dilation;
    uint32_t inverse; // of `cells`: see expand_divide
};

struct expand_link {
    expand_step x, y, z;
    uint64_t taps;         // bit i: a tap of z is i cells above the first one
    uint32_t columns;      // of the level
    uint32_t word, before; // where its bitmap begins, and that of the level before
    const uint32_t *limit; // of the level before: see expand_scratch
};

SPIRA_API expand_step expand_step_make(const expand_axis *a) {
    return {a->out_extent,
            a->extent,
            a->ratio,
            a->padding,
            a->size,
            a->dilation,
            UINT32_MAX / (uint32_t)a->out_extent};
}

// Whether all cells of an axis are in the box.
SPIRA_API bool expand_axis_whole(const expand_axis *a, int first, int size) {
    return a->out_extent && first == 0 && size == a->out_extent;
}

SPIRA_API bool expand_whole(const expand_level *l) {
    return expand_axis_whole(&l->axes.x, l->box.first.x, l->box.size.x) &&
           expand_axis_whole(&l->axes.y, l->box.first.y, l->box.size.y) &&
           expand_axis_whole(&l->axes.z, l->box.first.z, l->box.size.z);
}

// Whether a layer reads the outputs' grid of the one before on an axis.
SPIRA_API bool expand_axis_follows(const expand_axis *before, const expand_axis *a) {
    return a->spacing == before->spacing * before->ratio && a->origin == before->out_origin &&
           a->extent == before->out_extent;
}

enum { expand_column_most = 32, expand_taps_most = 25 }; // cells of a column; columns that are read

// Whether the set of a layer can be made of the bitmap of the one before.
SPIRA_API bool expand_follows(const expand_level *before, const expand_level *level) {
    const expand_axes *from = &before->axes, *to = &level->axes;
    return expand_axis_follows(&from->x, &to->x) && expand_axis_follows(&from->y, &to->y) &&
           expand_axis_follows(&from->z, &to->z) && expand_whole(before) && expand_whole(level) &&
           to->z.extent <= expand_column_most && to->z.out_extent <= expand_column_most &&
           (int64_t)to->z.extent + 2 * (int64_t)to->z.padding <= 64 &&
           to->x.size * to->y.size <= expand_taps_most;
}

// ---- the bitmaps --------------------------------------------------------------------------------

// How the bits of a level are listed.
struct expand_sizes {
    int32_t words; // of a thread
    int32_t tiles; // of bitmap_threads threads
    int32_t word;  // where the level's bitmap begins
    int32_t tile;  // and the states of its tiles
};

// before: of the level before, or null
SPIRA_API expand_sizes expand_sizes_make(int64_t cells, const expand_sizes *before) {
    const int64_t words = ceil_div(max_of(cells, 1), 32);
    const int64_t many = (int64_t)bitmap_tiles_many * bitmap_threads;
    expand_sizes s = {};
    s.words = words <= many                  ? bitmap_words_small
              : words <= many * bitmap_words ? bitmap_words
                                             : bitmap_words_large;
    s.tiles = (int32_t)ceil_div(words, bitmap_threads * s.words);
    s.word = before ? before->word + before->tiles * bitmap_threads * before->words : 0;
    s.tile = before ? before->tile + before->tiles : 0;
    return s;
}

// All of it is cleared first, in one piece.
struct expand_scratch {
    uint32_t *bitmap; // of all levels, in whole tiles
    uint32_t *state;  // of all tiles: see base/lookback.cuh
    int32_t *drawn;   // [expand_levels_most] tiles of each level that have been drawn
    uint32_t *limit;  // [expand_levels_most] of each level that passes its capacity, 1 + the first
                      // cell behind; else 0
    int64_t cleared;  // their length, in 16 bytes
};

// last: sizes of the last level
SPIRA_API void expand_carve(workspace *w, const expand_sizes *last, expand_scratch *s) {
    const int64_t bitmap = last->word + (int64_t)last->tiles * bitmap_threads * last->words,
                  tiles = last->tile + (int64_t)last->tiles;
    *s = {};
    s->cleared = ceil_div(bitmap + tiles + 2 * (int)expand_levels_most, 4);
    s->bitmap = workspace_take<uint32_t>(w, 4 * s->cleared);
    if (s->bitmap) {
        s->state = s->bitmap + bitmap;
        s->drawn = (int32_t *)(s->state + tiles);
        s->limit = (uint32_t *)(s->drawn + expand_levels_most);
    }
}

// Of a level and the one before.
SPIRA_API expand_link expand_link_make(const expand_level *l, const expand_sizes *before,
                                       const expand_sizes *own) {
    const expand_axis *z = &l->axes.z;
    expand_link link = {};
    link.x = expand_step_make(&l->axes.x);
    link.y = expand_step_make(&l->axes.y);
    link.z = expand_step_make(z);
    for (int t = 0; t < z->size; ++t) {
        link.taps |= (uint64_t)1 << t * z->dilation;
    }
    link.columns = (uint32_t)(expand_box_cells(&l->box) / link.z.cells);
    link.word = (uint32_t)own->word;
    link.before = (uint32_t)before->word;
    return link;
}

SPIRA_API size_t expand_sizes_bytes(const expand_sizes *last) {
    workspace w = workspace_begin(nullptr);
    expand_scratch s;
    expand_carve(&w, last, &s);
    return w.used;
}

enum { expand_spare = 192 }; // bytes of scratch for each input voxel, besides those of the sort

// Whether the output set is made by a bitmap. budget: bytes of scratch. The bitmap is written and
// read as a whole: the budget, which grows with the capacity, bounds the time, too.
SPIRA_API bool expand_by_cells(const expand_axes *axes, int64_t cells, int64_t budget) {
    // The outputs of a voxel in a column must fit 32 bits.
    if ((int64_t)(axes->z.most - 1) * axes->z.apart >= 32 || cells > (int64_t)expand_cells_most) {
        return false;
    }
    const expand_sizes sizes = expand_sizes_make(cells, nullptr);
    return (int64_t)expand_sizes_bytes(&sizes) <= budget;
}

// ---- the plan -----------------------------------------------------------------------------------

// How expand makes the set of a layer, or those of layers behind each other at once; and the
// scratch that this takes.
struct expand_plan {
    int levels;
    expand_level level[expand_levels_most];
    bool by_cells; // by bitmaps, else (one level) by a sort
    expand_sizes sizes[expand_levels_most];
    size_t bytes;
};

// Takes the layer of `next` into a plan if it can be made at the same time.
SPIRA_API bool expand_plan_join(const expand_plan *next, expand_plan *plan) {
    const int l = plan->levels;
    if (!plan->by_cells || !next->by_cells || l == expand_levels_most) {
        return false;
    }
    plan->level[l] = next->level[0];
    if (!expand_follows(&plan->level[l - 1], &plan->level[l])) {
        return false;
    }
    plan->levels = l + 1;
    plan->sizes[l] = expand_sizes_make(expand_box_cells(&plan->level[l].box), &plan->sizes[l - 1]);
    plan->bytes = expand_sizes_bytes(&plan->sizes[l]);
    return true;
}

} // namespace spira

#endif
