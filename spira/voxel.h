// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/voxel.h: from points or integer coordinates to sorted, unique voxels.
//
// This file has the input of a voxelisation, its host loop, and what the kernels (voxel.cuh) have
// in common with it. Sets and rows are in voxel_set.h, features of the voxels in voxel_features.h.
#ifndef SPIRA_VOXEL_H
#define SPIRA_VOXEL_H

#include "voxel_features.h"
#include "workspace.h"

#include <algorithm>
#include <math.h>

namespace spira {

enum voxel_duplicates {
    duplicates_merge,  // rows of one voxel are merged
    duplicates_report, // a row that repeats an earlier one is an error; the rows are merged too
};

// What is voxelised: points or coordinates; one of the two is null. Each array is aligned to 4
// bytes.
struct voxel_input {
    const float *points;   // [rows, columns] x, y, z first, in the caller's unit of length
    const int32_t *coords; // [rows, columns] x, y, z first, in voxels
    const int32_t *batch;  // [rows] batch index of each row, or null for batch 0
    const int32_t *count;  // [1] rows; a larger count than the capacity is clamped to it
    int32_t rows;          // the capacity, 1 .. INT32_MAX / 2; rows behind the count are not read
    int32_t columns;       // >= 3: the row pitch
    float size[3];         // points only: the edges of a voxel
    float origin[3];       // points only: voxel = floor((point - origin) / size)
    voxel_duplicates duplicates;
    // The range, in voxels (voxel_range): rows with an index outside of [0, extent) are dropped and
    // counted in the device status. All 0: no range.
    triple extent;
    // The cap on the voxels of each batch index: those whose first row comes first in the input are
    // kept; the others are dropped with their rows, and counted. 0: no cap.
    int32_t max_voxels;
    // Points only: rows whose x, y or z is not finite (no return) are dropped and counted in the
    // device status. false: they are dropped, too, and the first one is recorded as an error. Other
    // columns are not looked at: voxel_features passes on what is not finite there.
    bool drop_not_finite;
};

// The largest |voxel index| of a point, well within an int. Points beyond it are out of range.
enum { voxel_index_max = 1 << 30 };

// The voxel index of one coordinate of a point. Returns false if it is out of range or not finite.
SPIRA_BOTH bool voxel_quantise(float p, float origin, float size, int *index) {
    const float f = floorf(float_divide(float_subtract(p, origin), size));
    bool good = float_is_finite(f) && f >= -(float)voxel_index_max && f <= (float)voxel_index_max;
    *index = good ? (int)f : 0;
    return good;
}

enum voxel_verdict {
    voxel_good,
    voxel_not_finite,
    voxel_out_of_range, // of the layout: an error
    voxel_outside,      // of the caller's range: dropped and counted
};

// An input row as it is read, before it is packed.
struct voxel_raw {
    union { // point if the input has points, else coord
        float point[3];
        int32_t coord[3];
    };
    int32_t batch;
};

// points: whether the input has points (else coordinates).
template <bool points>
SPIRA_BOTH voxel_raw voxel_load(const voxel_input *in, int64_t i) {
    voxel_raw raw;
    raw.batch = in->batch ? in->batch[i] : 0;
    for (int a = 0; a < 3; ++a) {
        if (points) {
            raw.point[a] = in->points[i * in->columns + a];
        } else {
            raw.coord[a] = in->coords[i * in->columns + a];
        }
    }
    return raw;
}

SPIRA_BOTH bool voxel_is_ranged(const voxel_input *in) {
    return in->extent.x > 0;
}

// Whether the cap can drop a voxel.
SPIRA_BOTH bool voxel_is_capped(const voxel_input *in) {
    return in->max_voxels > 0 && in->max_voxels < in->rows;
}

// Packs an input row. Returns what is wrong with it; *word is word_none() then.
//
// ranged  whether the input has a range
template <bool points, bool ranged = false, typename W>
SPIRA_BOTH voxel_verdict voxel_word(const word_layout *layout, const voxel_input *in,
                                    const voxel_raw *raw, W *word) {
    voxel v;
    v.batch = raw->batch;
    *word = word_none<W>();
    if (points) {
        const float *p = raw->point;
        if (!float_is_finite(p[0]) || !float_is_finite(p[1]) || !float_is_finite(p[2])) {
            return voxel_not_finite;
        }
        bool good = voxel_quantise(p[0], in->origin[0], in->size[0], &v.x);
        good = voxel_quantise(p[1], in->origin[1], in->size[1], &v.y) && good;
        good = voxel_quantise(p[2], in->origin[2], in->size[2], &v.z) && good;
        if (!good) {
            return ranged ? voxel_outside : voxel_out_of_range;
        }
    } else {
        v = {raw->batch, raw->coord[0], raw->coord[1], raw->coord[2]};
    }
    const triple e = in->extent;
    if (ranged && (v.x < 0 || v.x >= e.x || v.y < 0 || v.y >= e.y || v.z < 0 || v.z >= e.z)) {
        return voxel_outside;
    }
    if (!word_contains(layout, v)) {
        return voxel_out_of_range;
    }
    *word = word_pack<W>(layout, v);
    return voxel_good;
}

SPIRA_API status voxel_input_check(const voxel_input *in) {
    SPIRA_REQUIRE(in, status_null_pointer, "input", 0);
    SPIRA_REQUIRE(!in->points || !in->coords, status_unsupported,
                  "input (points and coords are both given)", 0);
    SPIRA_TRY(in->coords ? pointer_check(in->coords, alignof(int32_t), "input.coords")
                         : pointer_check(in->points, alignof(float), "input.points"));
    SPIRA_TRY(pointer_check(in->count, alignof(int32_t), "input.count"));
    SPIRA_TRY(in->batch ? pointer_check(in->batch, alignof(int32_t), "input.batch")
                        : status_success());
    SPIRA_TRY(capacity_check(in->rows, "input.rows"));
    SPIRA_TRY(size_check(in->columns, 3, INT64_MAX, "input.columns"));
    SPIRA_TRY(in->points ? voxel_grid_check(in->size, in->origin) : status_success());
    const triple e = in->extent;
    const bool none = triple_equal(e, triple_make(0, 0, 0));
    SPIRA_REQUIRE(none || (e.x >= 1 && e.y >= 1 && e.z >= 1), status_bad_size,
                  "input.extent (all 0, or all positive)", min_of(min_of(e.x, e.y), e.z));
    SPIRA_TRY(size_check(in->max_voxels, 0, INT64_MAX, "input.max_voxels"));
    SPIRA_REQUIRE(in->points || !in->drop_not_finite, status_unsupported,
                  "input.drop_not_finite (coordinates are finite)", 0);
    return status_success();
}

// Refuses voxels that cannot be told apart at a distance from 0.
SPIRA_API status voxel_step_check(float size, float distance, int axis) {
    SPIRA_REQUIRE(
        size >= nextafterf(distance, numeric_largest(numeric_f32)) - distance, status_grid,
        "size (below the step of float there: move the points nearer to 0, voxel_shift)", axis);
    return status_success();
}

// Sets the grid of an input to a range of points, as spconv does: voxel = floor((point - lo) /
// size), and as many voxels as the range holds, rounded to the nearest number: [0, extent) on each
// axis. For integer coordinates set `extent` alone.
//
// inputs   lo, hi: the range, x, y, z, in the caller's unit of length; size: the edges of a voxel
// outputs  in: size, origin and extent. The words must hold (0, 0, 0) .. extent - 1 (word_need)
// errors   status_grid if a number is not finite, a size is not positive or below the step of float
//          at lo or hi, the range has less than one voxel, or more than voxel_index_max
SPIRA_API status voxel_range(const float lo[3], const float hi[3], const float size[3],
                             voxel_input *in) {
    SPIRA_REQUIRE(lo && hi && size && in, status_null_pointer, "range", 0);
    SPIRA_TRY(voxel_grid_check(size, lo));
    triple extent;
    for (int a = 0; a < 3; ++a) {
        SPIRA_REQUIRE(float_is_finite(hi[a]), status_grid, "range (must be finite)", a);
        SPIRA_TRY(voxel_step_check(size[a], fmaxf(fabsf(lo[a]), fabsf(hi[a])), a));
        const double voxels = floor(((double)hi[a] - (double)lo[a]) / (double)size[a] + 0.5);
        SPIRA_REQUIRE(voxels >= 1 && voxels <= (double)voxel_index_max, status_grid,
                      "range (has no voxel, or more than 2^30)", a);
        *triple_at(&extent, a) = (int)voxels;
    }
    std::copy(size, size + 3, in->size);
    std::copy(lo, lo + 3, in->origin);
    in->extent = extent;
    return status_success();
}

// The bounds, in voxels, of a box of points: `lo` and `hi` of a word_need, for word_fit.
//
// errors   status_grid if a size or an origin is not finite, a size is not positive or below the
//          step of float in all of the box, or the box has indices beyond voxel_index_max
SPIRA_API status voxel_bounds(const float lo[3], const float hi[3], const float size[3],
                              const float origin[3], word_need *need) {
    SPIRA_REQUIRE(lo && hi && size && origin && need, status_null_pointer, "bounds", 0);
    SPIRA_TRY(voxel_grid_check(size, origin));
    triple from, to;
    for (int a = 0; a < 3; ++a) {
        bool good = float_is_finite(lo[a]) && float_is_finite(hi[a]);
        SPIRA_REQUIRE(good, status_grid, "bounds (must be finite)", a);
        good = voxel_quantise(lo[a], origin[a], size[a], triple_at(&from, a));
        good = voxel_quantise(hi[a], origin[a], size[a], triple_at(&to, a)) && good;
        SPIRA_REQUIRE(good, status_grid,
                      "bounds (more than 2^30 voxels away: a point far off, or a size too small)",
                      a);
        const float least = lo[a] > 0 ? lo[a] : hi[a] < 0 ? -hi[a] : 0.0f;
        SPIRA_TRY(voxel_step_check(size[a], least, a));
    }
    need->lo = from;
    need->hi = to;
    return status_success();
}

// Points in double and where to move them: in UTM, at 5,000 km, the steps of float are half a
// metre.
struct voxel_shift_args {
    const double *from; // [rows, columns] x, y, z first
    double origin[3];   // taken away from x, y, z: a place near the points, the same in all frames
    const int32_t *count; // [1] rows; a larger count than the capacity is clamped to it
    int32_t rows;         // the capacity, 1 .. INT32_MAX / 2
    int32_t columns;      // >= 3
    float *points;        // [rows, columns]: for voxel_input.points and voxel_features_args.values
};

// One value of a row, rounded once.
SPIRA_BOTH float voxel_shift_value(const voxel_shift_args &a, int64_t i) {
    const int column = (int)(i % a.columns);
    return (float)(column < 3 ? a.from[i] - a.origin[column] : a.from[i]);
}

SPIRA_API status voxel_shift_check(const voxel_shift_args *a) {
    SPIRA_REQUIRE(a, status_null_pointer, "args", 0);
    SPIRA_TRY(pointer_check(a->from, alignof(double), "from"));
    SPIRA_TRY(pointer_check(a->count, alignof(int32_t), "count"));
    SPIRA_TRY(pointer_check(a->points, alignof(float), "points"));
    SPIRA_TRY(capacity_check(a->rows, "rows"));
    SPIRA_REQUIRE(a->columns >= 3, status_bad_size, "columns (at least 3)", a->columns);
    for (int axis = 0; axis < 3; ++axis) {
        SPIRA_REQUIRE(float_is_finite((float)a->origin[axis]), status_grid,
                      "origin (must be finite)", axis);
    }
    return status_success();
}

// Moves points by an origin in double, then rounds them to float: the host loop of `voxel_shift`
// (voxel.cuh), with bit-identical results.
//
// outputs  args->points; rows from the count on are not written
// errors   an origin that is not finite
SPIRA_API status voxel_shift_host(const voxel_shift_args *args) {
    SPIRA_TRY(voxel_shift_check(args));
    const int64_t values = (int64_t)count_clamp(*args->count, args->rows) * args->columns;
    for (int64_t i = 0; i < values; ++i) {
        args->points[i] = voxel_shift_value(*args, i);
    }
    return status_success();
}

// What voxelize reads and writes.
template <typename W>
struct voxelize_args {
    const word_layout *layout; // on the host; fitted to the scene (word_fit)
    const voxel_input *input;  // on the host
    voxel_set<W> set;
    voxel_rows rows;
    device_status *trouble; // in device memory; in host memory for voxelize_host
};

// The checks of voxelize and voxelize_host, but for those of the input.
template <typename W>
SPIRA_API status voxelize_check(const voxelize_args<W> *args) {
    SPIRA_REQUIRE(args, status_null_pointer, "args", 0);
    SPIRA_TRY(word_check<W>(args->layout));
    SPIRA_TRY(voxel_set_check(&args->set));
    SPIRA_TRY(voxel_rows_check(&args->rows));
    return pointer_check(args->trouble, alignof(device_status), "trouble");
}

// The keys of the host's sorts.
template <typename W>
struct voxel_key {
    W word;
    int32_t row; // that it came from
};

// Makes a set of sorted keys, and says which row fell into which voxel, as unique_launch does.
// rows.voxel: may be null. report: repeats are errors
template <typename W>
SPIRA_API void voxel_keys_unique(const voxel_key<W> *keys, int32_t kept, const voxel_set<W> &set,
                                 const voxel_rows &rows, bool report, device_status *trouble) {
    int32_t voxels = 0; // including those beyond the capacity
    for (int32_t i = 0; i < kept; ++i) {
        const bool head = i == 0 || keys[i].word != keys[i - 1].word;
        if (!head && report) {
            device_status_note(trouble, device_flag_duplicate, (uint32_t)keys[i].row);
        }
        voxels += head;
        rows.order[i] = keys[i].row;
        if (rows.voxel && voxels <= set.capacity) {
            rows.voxel[keys[i].row] = voxels - 1;
        }
        if (head && voxels <= set.capacity) {
            set.words[voxels - 1] = keys[i].word;
        }
        if (head && voxels <= set.capacity + 1) { // + 1: the end of the last voxel that fits
            rows.begin[voxels - 1] = i;
        }
    }
    if (voxels <= set.capacity) {
        rows.begin[voxels] = kept;
    }
    voxel_set_end(set, voxels, trouble);
}

// Sorts keys by their words; those of one word by their rows.
template <typename W>
SPIRA_API void voxel_keys_sort(voxel_key<W> *keys, int32_t count) {
    std::sort(keys, keys + count, [](const voxel_key<W> &a, const voxel_key<W> &b) {
        return a.word != b.word ? a.word < b.word : a.row < b.row;
    });
}

// Takes room for the keys [rows] and, with a cap, for the first rows of voxels [rows].
template <typename W>
SPIRA_API voxel_key<W> *voxelize_host_carve(workspace *w, const voxel_input *in, int32_t **first) {
    voxel_key<W> *keys = workspace_take<voxel_key<W>>(w, in->rows);
    *first = voxel_is_capped(in) ? workspace_take<int32_t>(w, in->rows) : nullptr;
    return keys;
}

// Bytes of scratch for voxelize_host.
template <typename W>
SPIRA_API status voxelize_host_workspace(const voxel_input *in, size_t *bytes) {
    SPIRA_TRY(voxel_input_check(in));
    int32_t *first;
    return workspace_measure(bytes, [&](workspace *w) { voxelize_host_carve<W>(w, in, &first); });
}

// Writes the keys of the valid rows, in row order. Returns how many there are.
template <bool points, bool ranged, typename W>
SPIRA_API int32_t voxelize_host_keys(const word_layout *layout, const voxel_input *in,
                                     voxel_key<W> *keys, device_status *trouble) {
    int32_t kept = 0;
    if (*in->count > in->rows) {
        device_status_note(trouble, device_flag_capacity, (uint32_t)*in->count);
    }
    for (int32_t i = 0; i < min_of(*in->count, in->rows); ++i) {
        W word;
        voxel_raw raw = voxel_load<points>(in, i);
        voxel_verdict verdict = voxel_word<points, ranged>(layout, in, &raw, &word);
        if (verdict == voxel_good) {
            keys[kept].word = word;
            keys[kept++].row = i;
        } else if (verdict == voxel_outside) {
            ++trouble->outside;
        } else if (verdict == voxel_not_finite && in->drop_not_finite) {
            ++trouble->dropped_not_finite;
        } else {
            device_status_note(
                trouble, verdict == voxel_not_finite ? device_flag_not_finite : device_flag_range,
                (uint32_t)i);
        }
    }
    return kept;
}

// Drops the keys of voxels beyond the cap. keys [kept]: sorted. Returns how many remain.
template <typename W>
SPIRA_API int32_t voxelize_host_cap(const word_layout *layout, int32_t cap, voxel_key<W> *keys,
                                    int32_t kept, int32_t *first, device_status *trouble) {
    int32_t remain = 0;
    for (int32_t begin = 0, end; begin < kept; begin = end) { // the keys of a batch index
        const int batch = word_unpack<W>(layout, keys[begin].word).batch;
        int32_t voxels = 0;
        for (end = begin; end < kept && word_unpack<W>(layout, keys[end].word).batch == batch;
             ++end) {
            if (end == begin || keys[end].word != keys[end - 1].word) {
                first[voxels++] = keys[end].row;
            }
        }
        int32_t limit = INT32_MAX; // the first row that is not kept
        if (voxels > cap) {
            std::nth_element(first, first + cap, first + voxels);
            limit = first[cap];
            trouble->dropped_voxels += (uint32_t)(voxels - cap);
        }
        const int32_t before = remain;
        W word = word_none<W>();
        bool keep = false;
        for (int32_t i = begin; i < end; ++i) { // `remain` never passes i
            keep = keys[i].word == word ? keep : keys[i].row < limit;
            word = keys[i].word;
            if (keep) {
                keys[remain++] = keys[i];
            }
        }
        trouble->dropped_rows += (uint32_t)(end - begin - (remain - before));
    }
    return remain;
}

// Voxelises points or integer coordinates: the host loop of `voxelize` (voxel.cuh), with
// bit-identical results.
//
// inputs   args: see voxelize_args; all arrays in host memory
// outputs  args.set: the voxels, ascending, then word_none(), and their count
//          args.rows: which row fell into which voxel; rows.voxel is -1 for rows behind the count
//          args.trouble: records the first row that is not finite, the first one out of the layout,
//          and with duplicates_report the first one that repeats a voxel; the first two kinds of
//          rows are dropped. Voxels beyond the capacity are dropped; `needed` is the number of all.
//          A count above input.rows is recorded, too. None of them hides another: read them by
//          device_status_next. outside, dropped_voxels, dropped_rows and dropped_not_finite go up
//          by what the range, the cap and drop_not_finite have dropped, without a flag
template <typename W>
SPIRA_API status voxelize_host(const voxelize_args<W> *args, void *scratch, size_t scratch_bytes) {
    SPIRA_TRY(voxelize_check(args));
    SPIRA_TRY(voxel_input_check(args->input));
    const word_layout *layout = args->layout;
    const voxel_input *in = args->input;
    const voxel_rows &rows = args->rows;
    device_status *trouble = args->trouble;
    int32_t *first = nullptr;
    voxel_key<W> *keys = nullptr;
    SPIRA_TRY(workspace_open(scratch, scratch_bytes,
                             [&](workspace *w) { keys = voxelize_host_carve<W>(w, in, &first); }));
    std::fill(rows.voxel, rows.voxel + in->rows, -1);
    const auto read =
        voxel_is_ranged(in)
            ? (in->points ? voxelize_host_keys<true, true, W> : voxelize_host_keys<false, true, W>)
            : (in->points ? voxelize_host_keys<true, false, W>
                          : voxelize_host_keys<false, false, W>);
    int32_t kept = read(layout, in, keys, trouble);
    voxel_keys_sort(keys, kept);
    if (first) {
        kept = voxelize_host_cap(layout, in->max_voxels, keys, kept, first, trouble);
    }
    const bool report = in->duplicates == duplicates_report;
    voxel_keys_unique(keys, kept, args->set, rows, report, trouble);
    return status_success();
}

} // namespace spira

#endif
