// spira/index/expand_box.h: the box of all outputs that a layer can have, and how its output set is
// made: with a bit for each cell of the box, with masks of 32 cells, or by a sort. Used by
// spira/expand.cuh.
//
// The cells of the box are numbered by batch, x, y, z: the order of their words. Therefore the set
// bits of a bitmap of all cells, in order, are the output set. No step depends on where the voxels
// are: the time is bounded by the sizes of the box and of the sets.
//
//   cells  one bitmap of the whole box. Launches: clear, mark, list
//   masks  where that is too large: a mask is 32 cells, and a bitmap says which masks have outputs.
//          Only these are stored. Launches: clear, mark, list the masks, mark their cells, list
//   sort   where even the bitmap of the masks is too large: all outputs that each input touches are
//          written and sorted (index/unique.cuh)
#ifndef SPIRA_INDEX_EXPAND_BOX_H
#define SPIRA_INDEX_EXPAND_BOX_H

#include "../expand.h"
#include "bitmap.h"

namespace spira {

struct expand_box {
    triple first; // index of the first cell on each axis, on the output's grid
    triple size;  // cells on each axis
    int batches;
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

// Divides a cell's number by `by`. inverse: floor((2^32 - 1) / by). *rest: the remainder.
SPIRA_BOTH uint32_t expand_divide(uint32_t cell, uint32_t by, uint32_t inverse, uint32_t *rest) {
    uint32_t quotient = (uint32_t)(((uint64_t)cell * inverse) >> 32); // or one too few
    *rest = cell - quotient * by;
    const bool more = *rest >= by;
    *rest -= more ? by : 0;
    return quotient + more;
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

// ---- the choice ---------------------------------------------------------------------------------

enum expand_way { expand_by_cells, expand_by_masks, expand_by_sort };

// Sizes of the scratch of the first two ways.
struct expand_sizes {
    int32_t words;  // of a thread that lists bits: a tile has bitmap_threads times as many
    int32_t tiles;  // of the bitmap of all cells, or of all masks
    int32_t masks;  // by masks: at most so many have outputs; else 0
    int32_t listed; // tiles of these masks
};

SPIRA_API expand_sizes expand_sizes_make(const expand_axes *axes, int64_t cells, int32_t capacity,
                                         expand_way way) {
    const int64_t words = ceil_div(max_of(cells, 1), 32);
    expand_sizes s = {};
    if (way == expand_by_cells) {
        const bool many = words > (int64_t)bitmap_tiles_many * bitmap_tile;
        const int64_t small = ceil_div(words, bitmap_threads * bitmap_words_small);
        s.words = small <= bitmap_tiles_few ? bitmap_words_small
                  : many                    ? bitmap_words_large
                                            : bitmap_words;
        s.tiles = (int32_t)ceil_div(words, bitmap_threads * s.words);
        return s;
    }
    // The outputs of a voxel in a column are in one mask or in two.
    const int64_t columns = (int64_t)capacity * axes->x.most * axes->y.most;
    s.words = bitmap_words;
    s.tiles = (int32_t)ceil_div(ceil_div(words, 32), bitmap_tile);
    s.masks = (int32_t)min_of(columns * (axes->z.most > 1 ? 2 : 1), words);
    s.listed = (int32_t)ceil_div(s.masks, bitmap_tile);
    return s;
}

struct expand_scratch {
    // These are cleared first, in one piece:
    uint32_t *bitmap;     // [tiles * bitmap_threads * words]
    uint32_t *state;      // [tiles] see base/lookback.cuh
    uint32_t *mask_state; // [listed]
    int32_t *drawn;       // [2] tiles that have been drawn, of the bitmap and of the masks
    int64_t cleared;      // their length, in 16 bytes
    // By masks:
    int32_t *before; // [tiles * bitmap_threads] masks in front of each bitmap_words words
    int32_t *count;  // [1] masks that have outputs
    uint32_t *mask;  // [listed * bitmap_tile] their bits
    uint32_t *place; // [masks] their numbers: mask m has the cells 32 m .. 32 m + 31
};

SPIRA_API void expand_carve(workspace *w, const expand_sizes *sizes, expand_scratch *s) {
    const int64_t bitmap = (int64_t)sizes->tiles * bitmap_threads * sizes->words,
                  all = bitmap + sizes->tiles + sizes->listed + 2;
    *s = {};
    s->cleared = ceil_div(all, 4);
    s->bitmap = workspace_take<uint32_t>(w, 4 * s->cleared);
    if (s->bitmap) {
        s->state = s->bitmap + bitmap;
        s->mask_state = s->state + sizes->tiles;
        s->drawn = (int32_t *)(s->mask_state + sizes->listed);
    }
    if (sizes->masks) {
        s->before = workspace_take<int32_t>(w, bitmap / bitmap_words);
        s->count = workspace_take<int32_t>(w, 1);
        s->mask = workspace_take<uint32_t>(w, (int64_t)sizes->listed * bitmap_tile);
        s->place = workspace_take<uint32_t>(w, sizes->masks);
    }
}

SPIRA_API size_t expand_sizes_bytes(const expand_sizes *sizes) {
    workspace w = workspace_begin(nullptr);
    expand_scratch s;
    expand_carve(&w, sizes, &s);
    return w.used;
}

SPIRA_API int64_t expand_way_bytes(const expand_axes *axes, int64_t cells, int32_t capacity,
                                   expand_way way) {
    const expand_sizes sizes = expand_sizes_make(axes, cells, capacity, way);
    return (int64_t)expand_sizes_bytes(&sizes);
}

enum {
    expand_spare = 192, // bytes of scratch for each input voxel, besides those of the sort
    expand_cells_large = 16 << 20, // bytes from which masks are quicker than a bitmap of all cells
};

// How the output set is made. budget: bytes of scratch. The bitmaps are read and written as a
// whole: the budget, which grows with the capacity, bounds the time, too.
SPIRA_API expand_way expand_way_choose(const expand_axes *axes, int64_t cells, int32_t capacity,
                                       int64_t budget) {
    // The outputs of a voxel in a column must fit 32 bits.
    if ((int64_t)(axes->z.most - 1) * axes->z.apart >= 32 || cells > (int64_t)expand_cells_most) {
        return expand_by_sort;
    }
    if (expand_way_bytes(axes, cells, capacity, expand_by_cells) <=
        min_of(budget, expand_cells_large)) {
        return expand_by_cells;
    }
    return expand_way_bytes(axes, cells, capacity, expand_by_masks) <= budget ? expand_by_masks
                                                                              : expand_by_sort;
}

} // namespace spira

#endif
