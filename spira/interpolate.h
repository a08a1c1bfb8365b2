// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/interpolate.h: the voxels around points, with the weights of an interpolation.
//
// interpolate_find writes for each point the rows of the eight voxels of a set around it and their
// trilinear weights; row_blend (rows.h) then adds up features. `interpolate_nearest` writes the row
// of the voxel that holds the point, for row_gather.
//
// A voxel of the set stands at its low corner or, with `centred`, at its centre. The weight of a
// voxel is the product over the axes of 1 - |distance| / edge, the edges of the set's own stride.
// Voxels that the set lacks count as features of 0, or are left out and the others divided by the
// sum of their weights.
#ifndef SPIRA_INTERPOLATE_H
#define SPIRA_INTERPOLATE_H

#include "search.h"
#include "voxel.h"

namespace spira {

enum interpolate_kind : int {
    interpolate_zeros,       // trilinear; missing voxels are zeros
    interpolate_renormalise, // trilinear; missing voxels are left out
    interpolate_nearest,     // the voxel that holds the point, alone
};

// What `interpolate_find` reads and writes.
template <typename W>
struct interpolate_args {
    const word_layout *layout; // on the host
    voxel_set<W> set;
    triple stride; // of the set
    interpolate_kind kind;
    bool centred; // voxels stand at their centres; not for interpolate_nearest
    // The points, as voxelize takes them: size is the edge of a voxel of the finest grid.
    const float *points;  // [rows, columns] x, y, z first
    const int32_t *batch; // [rows], or null: all 0
    const int32_t *count; // [1] rows
    int32_t rows;         // capacity
    int columns;          // >= 3
    float size[3], origin[3];
    int32_t *index;         // [rows, interpolate_neighbours(kind)] rows of the set; -1: none
    float *weight;          // [rows, 8]: 0 where there is none; null for interpolate_nearest
    device_status *trouble; // in device memory; in host memory for interpolate_find_host
};

// The voxels around a point.
SPIRA_BOTH constexpr int interpolate_neighbours(interpolate_kind kind) {
    return kind == interpolate_nearest ? 1 : 8;
}

// The checks of interpolate_find and its host loop.
template <typename W>
SPIRA_API status interpolate_check(const interpolate_args<W> *a) {
    SPIRA_REQUIRE(a, status_null_pointer, "args", 0);
    SPIRA_TRY(word_check<W>(a->layout));
    SPIRA_TRY(voxel_set_check(&a->set));
    for (int axis = 0; axis < 3; ++axis) {
        const int s = triple_at(a->stride, axis);
        SPIRA_TRY(size_check(s, 1, 1 << 20, "stride", status_stride));
    }
    SPIRA_REQUIRE(a->kind >= interpolate_zeros && a->kind <= interpolate_nearest,
                  status_unsupported, "kind", a->kind);
    const bool nearest = a->kind == interpolate_nearest;
    SPIRA_REQUIRE(!nearest || (!a->weight && !a->centred), status_unsupported,
                  "weight, centred (of the nearest voxel)", 0);
    SPIRA_TRY(voxel_grid_check(a->size, a->origin));
    SPIRA_TRY(pointer_check(a->points, alignof(float), "points"));
    if (a->batch) {
        SPIRA_TRY(pointer_check(a->batch, alignof(int32_t), "batch"));
    }
    SPIRA_TRY(pointer_check(a->count, alignof(int32_t), "count"));
    SPIRA_TRY(size_check(a->rows, 1, INT32_MAX / 2, "rows"));
    SPIRA_REQUIRE(a->columns >= 3, status_bad_size, "columns (at least 3)", a->columns);
    SPIRA_TRY(pointer_check(a->index, alignof(int32_t), "index"));
    SPIRA_TRY(nearest ? status_success() : pointer_check(a->weight, alignof(float), "weight"));
    return pointer_check(a->trouble, alignof(device_status), "trouble");
}

// A point in cells of the set: the cell below it on each axis, and how far it is from that cell.
struct interpolate_place {
    int cell[3];
    float part[3]; // 0 .. 1
};

// Returns false where a coordinate is not finite or too far away.
template <typename W>
SPIRA_BOTH bool interpolate_place_of(const interpolate_args<W> &a, const float *point,
                                     interpolate_place *place) {
    bool good = true;
    for (int axis = 0; axis < 3; ++axis) {
        const float voxels =
            float_divide(float_subtract(point[axis], a.origin[axis]), a.size[axis]);
        const float cells = float_divide(voxels, (float)triple_at(a.stride, axis));
        const float from = a.centred ? float_subtract(cells, 0.5f) : cells;
        const float cell = floorf(from);
        const float most = (float)(voxel_index_max / triple_at(a.stride, axis));
        const bool held = float_is_finite(cell) && cell >= -most && cell < most;
        place->cell[axis] = held ? (int)cell : 0;
        place->part[axis] = float_subtract(from, cell);
        good = good && held;
    }
    return good;
}

// The row of cell `c` of the set, or -1.
template <typename W>
SPIRA_BOTH int32_t interpolate_row_of(const interpolate_args<W> &a, const word_layout *layout,
                                      int32_t count, int32_t batch, const int (&c)[3]) {
    const voxel v = {batch, c[0] * a.stride.x, c[1] * a.stride.y, c[2] * a.stride.z};
    if (!word_contains(layout, v)) {
        return -1;
    }
    const W word = word_pack<W>(layout, v);
    const int32_t at = search_lower_bound(a.set.words, 0, count, word);
    return at < count && a.set.words[at] == word ? at : -1;
}

// Writes index and weight of one point. Returns the trouble of the point, or 0. layout: a->layout,
// where the caller can read it
template <typename W>
SPIRA_BOTH int interpolate_point(const interpolate_args<W> &a, const word_layout *layout,
                                 int32_t row) {
    const int neighbours = interpolate_neighbours(a.kind);
    const float *point = a.points + (int64_t)row * a.columns;
    const int32_t batch = a.batch ? a.batch[row] : 0, count = voxel_set_count(a.set);
    int32_t *index = a.index + (int64_t)row * neighbours;
    float *weight = a.weight ? a.weight + (int64_t)row * neighbours : nullptr;
    interpolate_place place;
    const bool good = interpolate_place_of(a, point, &place);
    float sum = 0;
    for (int n = 0; n < neighbours; ++n) {
        float product = 1;
        int cell[3];
        for (int axis = 0; axis < 3; ++axis) {
            const int up = n >> axis & 1;
            cell[axis] = place.cell[axis] + up;
            product *= up ? place.part[axis] : float_subtract(1, place.part[axis]);
        }
        const bool wanted = good && (product > 0 || a.kind == interpolate_nearest);
        index[n] = wanted ? interpolate_row_of(a, layout, count, batch, cell) : -1;
        if (a.kind != interpolate_nearest) {
            weight[n] = index[n] >= 0 ? product : 0;
            sum += weight[n];
        }
    }
    for (int n = 0; n < neighbours && a.kind == interpolate_renormalise && sum > 0; ++n) {
        weight[n] = float_divide(weight[n], sum);
    }
    const bool finite =
        float_is_finite(point[0]) && float_is_finite(point[1]) && float_is_finite(point[2]);
    return !finite                                 ? device_flag_not_finite
           : batch < 0 || batch >= layout->batches ? device_flag_range
                                                   : 0;
}

// The host loop of `interpolate_find` (interpolate.cuh), on host memory.
template <typename W>
SPIRA_API status interpolate_find_host(const interpolate_args<W> *args) {
    SPIRA_TRY(interpolate_check(args));
    voxel_set_note(args->set, args->trouble);
    for (int32_t i = 0; i < count_clamp(*args->count, args->rows); ++i) {
        if (const int flag = interpolate_point(*args, args->layout, i)) {
            device_status_note(args->trouble, (device_flag)flag, (uint32_t)i);
        }
    }
    return status_success();
}

} // namespace spira

#endif
