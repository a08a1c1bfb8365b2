// spira/voxel.h: from points or integer coordinates to sorted, unique voxels.
//
// This file has the types that all coordinate sets share, the host loops of voxelisation and of
// voxel features, and what the kernels (voxel.cuh) have in common with them.
//
// A voxel set is an ascending array of distinct coordinate words. voxel_rows maps features onto it:
// the voxel of each input row, and the rows of each voxel.
#ifndef SPIRA_VOXEL_H
#define SPIRA_VOXEL_H

#include "numeric.h"
#include "word.h"
#include "workspace.h"

#include <algorithm>
#include <math.h>

namespace spira {

// A set of voxels at some stride. In device memory on the GPU, in host memory in the host loops.
//
// Any ascending array of distinct words is a set, whoever wrote it. The words from `count` on are
// unspecified: no result depends on them, so that a caller's own array needs no padding. All of
// `capacity` words must be allocated, because kernels may read them before they know the count.
// Functions that write a set fill it up with word_none().
//
// words is aligned to its element, count to 4 bytes. A count above the capacity is clamped to the
// capacity, and recorded in the device status (device_flag_capacity) where a function takes one. A
// negative count is taken as 0.
template <typename W>
struct voxel_set {
    W *words;         // [capacity] ascending and distinct up to the count
    int32_t *count;   // [1] voxels
    int32_t capacity; // 1 .. INT32_MAX / 2
};

// Which input rows fell into which voxel. Each array is aligned to 4 bytes.
struct voxel_rows {
    int32_t *voxel; // [rows] the voxel of each row; -1 for a row that was dropped
    int32_t *order; // [rows] the kept rows, voxel by voxel, in their first order within one
    int32_t *begin; // [capacity + 1] where the rows of each voxel start in `order`
};

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
};

enum voxel_feature {
    voxel_feature_mean,  // the mean of its rows: an fp32 sum in row order, divided by their number
    voxel_feature_first, // the value of its first row
};

// The largest |voxel index| of a point, well within an int. Points beyond it are out of range.
enum { voxel_index_max = 1 << 30 };

// Tests the bits, because compilers may assume that there are no NaNs (-ffast-math).
SPIRA_BOTH bool voxel_finite(float f) {
#ifdef __CUDA_ARCH__
    const uint32_t bits = __float_as_uint(f);
#else
    const uint32_t bits = float_bits(f);
#endif
    return (bits & 0x7f800000u) != 0x7f800000u;
}

// The voxel index of one coordinate of a point. Returns false if it is out of range or not finite.
SPIRA_BOTH bool voxel_quantise(float p, float origin, float size, int *index) {
#ifdef __CUDA_ARCH__ // rounded as IEEE 754 says, whatever the flags for fast maths are
    float f = floorf(__fdiv_rn(__fsub_rn(p, origin), size));
#else
    float f = floorf((p - origin) / size);
#endif
    bool good = voxel_finite(f) && f >= -(float)voxel_index_max && f <= (float)voxel_index_max;
    *index = good ? (int)f : 0;
    return good;
}

enum voxel_verdict { voxel_good, voxel_not_finite, voxel_out_of_range };

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

// Packs an input row. Returns what is wrong with it; *word is word_none() then.
template <bool points, typename W>
SPIRA_BOTH voxel_verdict voxel_word(const word_layout *layout, const voxel_input *in,
                                    const voxel_raw *raw, W *word) {
    voxel v;
    v.batch = raw->batch;
    *word = word_none<W>();
    if (points) {
        const float *p = raw->point;
        if (!voxel_finite(p[0]) || !voxel_finite(p[1]) || !voxel_finite(p[2])) {
            return voxel_not_finite;
        }
        bool good = voxel_quantise(p[0], in->origin[0], in->size[0], &v.x);
        good = voxel_quantise(p[1], in->origin[1], in->size[1], &v.y) && good;
        good = voxel_quantise(p[2], in->origin[2], in->size[2], &v.z) && good;
        if (!good) {
            return voxel_out_of_range;
        }
    } else {
        v.x = raw->coord[0];
        v.y = raw->coord[1];
        v.z = raw->coord[2];
    }
    if (!word_contains(layout, v)) {
        return voxel_out_of_range;
    }
    *word = word_pack<W>(layout, v);
    return voxel_good;
}

// The checks that every function makes of a set before its first launch.
template <typename W>
SPIRA_API status voxel_set_check(const voxel_set<W> *set) {
    SPIRA_REQUIRE(set, status_null_pointer, "set", 0);
    SPIRA_TRY(pointer_check(set->words, alignof(W), "set.words"));
    SPIRA_TRY(pointer_check(set->count, alignof(int32_t), "set.count"));
    SPIRA_REQUIRE(set->capacity >= 1 && set->capacity <= INT32_MAX / 2, status_bad_size,
                  "set.capacity", set->capacity);
    return status_success();
}

// The number of voxels of a set: its count, clamped to [0, capacity].
template <typename W>
SPIRA_BOTH int32_t voxel_set_count(const voxel_set<W> &set) {
    return (int32_t)max_of(min_of(*set.count, set.capacity), 0);
}

// Records a count above the capacity, in the host loops.
template <typename W>
SPIRA_API void voxel_set_note(const voxel_set<W> &set, device_status *trouble) {
    if (*set.count > set.capacity) {
        device_status_note(trouble, device_flag_capacity, (uint32_t)*set.count);
    }
}

SPIRA_API status voxel_rows_check(const voxel_rows *rows) {
    SPIRA_TRY(pointer_check(rows->voxel, alignof(int32_t), "rows.voxel"));
    SPIRA_TRY(pointer_check(rows->order, alignof(int32_t), "rows.order"));
    return pointer_check(rows->begin, alignof(int32_t), "rows.begin");
}

SPIRA_API status voxel_input_check(const voxel_input *in) {
    SPIRA_REQUIRE(in, status_null_pointer, "input", 0);
    SPIRA_REQUIRE(!in->points || !in->coords, status_unsupported,
                  "input (points and coords are both given)", 0);
    if (in->coords) {
        SPIRA_TRY(pointer_check(in->coords, alignof(int32_t), "input.coords"));
    } else {
        SPIRA_TRY(pointer_check(in->points, alignof(float), "input.points"));
    }
    if (in->batch) {
        SPIRA_TRY(pointer_check(in->batch, alignof(int32_t), "input.batch"));
    }
    SPIRA_TRY(pointer_check(in->count, alignof(int32_t), "input.count"));
    SPIRA_REQUIRE(in->rows >= 1 && in->rows <= INT32_MAX / 2, status_bad_size, "input.rows",
                  in->rows);
    SPIRA_REQUIRE(in->columns >= 3, status_bad_size, "input.columns", in->columns);
    for (int a = 0; a < 3 && in->points; ++a) {
        SPIRA_REQUIRE(voxel_finite(in->size[a]) && in->size[a] > 0, status_grid,
                      "input.size (must be positive and finite)", a);
        SPIRA_REQUIRE(voxel_finite(in->origin[a]), status_grid, "input.origin (must be finite)", a);
    }
    return status_success();
}

// The bounds, in voxels, of a box of points: `lo` and `hi` of a word_need, for word_fit.
//
// errors   status_grid if a size or an origin is not finite, a size is not positive, or the box has
//          indices beyond voxel_index_max
SPIRA_API status voxel_bounds(const float lo[3], const float hi[3], const float size[3],
                              const float origin[3], word_need *need) {
    SPIRA_REQUIRE(lo && hi && size && origin && need, status_null_pointer, "bounds", 0);
    int out[2][3];
    for (int a = 0; a < 3; ++a) {
        SPIRA_REQUIRE(voxel_finite(size[a]) && size[a] > 0, status_grid,
                      "size (must be positive and finite)", a);
        bool good = voxel_finite(lo[a]) && voxel_finite(hi[a]) && voxel_finite(origin[a]);
        good = voxel_quantise(lo[a], origin[a], size[a], &out[0][a]) && good;
        good = voxel_quantise(hi[a], origin[a], size[a], &out[1][a]) && good;
        SPIRA_REQUIRE(good, status_grid, "size (so small that the coordinates overflow)", a);
    }
    need->lo = triple_make(out[0][0], out[0][1], out[0][2]);
    need->hi = triple_make(out[1][0], out[1][1], out[1][2]);
    return status_success();
}

// A word and the row that it came from: the keys of the host's sort.
template <typename W>
struct voxel_key {
    W word;
    int32_t row;
};

template <typename W>
SPIRA_API bool voxel_key_before(const voxel_key<W> &a, const voxel_key<W> &b) {
    return a.word < b.word || (a.word == b.word && a.row < b.row);
}

template <typename W>
SPIRA_API voxel_key<W> *voxelize_host_carve(workspace *w, const voxel_input *in) {
    return workspace_take<voxel_key<W>>(w, in->rows);
}

// Bytes of scratch for voxelize_host.
template <typename W>
SPIRA_API size_t voxelize_host_workspace(const voxel_input *in) {
    workspace w = workspace_begin(nullptr);
    voxelize_host_carve<W>(&w, in);
    return w.used;
}

// Writes the keys of the valid rows, in row order. Returns how many there are.
template <bool points, typename W>
SPIRA_API int32_t voxelize_host_keys(const word_layout *layout, const voxel_input *in,
                                     voxel_key<W> *keys, device_status *trouble) {
    int32_t kept = 0;
    if (*in->count > in->rows) {
        device_status_note(trouble, device_flag_capacity, (uint32_t)*in->count);
    }
    for (int32_t i = 0; i < min_of(*in->count, in->rows); ++i) {
        W word;
        voxel_raw raw = voxel_load<points>(in, i);
        voxel_verdict verdict = voxel_word<points>(layout, in, &raw, &word);
        if (verdict == voxel_good) {
            keys[kept].word = word;
            keys[kept++].row = i;
        } else {
            device_status_note(
                trouble, verdict == voxel_not_finite ? device_flag_not_finite : device_flag_range,
                (uint32_t)i);
        }
    }
    return kept;
}

// Voxelises points or integer coordinates: the host loop of `voxelize` (voxel.cuh), with
// bit-identical results.
//
// inputs   layout: fitted to the scene (word_fit); in: see voxel_input
// outputs  set: the voxels; rows: see voxel_rows; rows.voxel is -1 for rows behind the count
//          trouble: records the first row that is not finite, the first one out of the layout, and
//          with duplicates_report the first one that repeats a voxel; the first two kinds of rows
//          are dropped. Voxels beyond the capacity are dropped and their number is recorded
// errors   null or misaligned pointers, sizes, workspace; nothing is written then
template <typename W>
SPIRA_API status voxelize_host(const word_layout *layout, const voxel_input *in, voxel_set<W> set,
                               voxel_rows rows, device_status *trouble, void *scratch,
                               size_t scratch_bytes) {
    SPIRA_TRY(word_check<W>(layout));
    SPIRA_TRY(voxel_input_check(in));
    SPIRA_TRY(voxel_set_check(&set));
    SPIRA_TRY(voxel_rows_check(&rows));
    SPIRA_TRY(pointer_check(trouble, alignof(device_status), "trouble"));
    SPIRA_TRY(workspace_check(scratch, scratch_bytes, voxelize_host_workspace<W>(in)));
    workspace w = workspace_begin(scratch);
    voxel_key<W> *keys = voxelize_host_carve<W>(&w, in);
    std::fill(rows.voxel, rows.voxel + in->rows, -1);
    int32_t kept = in->points ? voxelize_host_keys<true>(layout, in, keys, trouble)
                              : voxelize_host_keys<false>(layout, in, keys, trouble);
    std::sort(keys, keys + kept, voxel_key_before<W>);

    int32_t voxels = 0; // including those beyond the capacity
    for (int32_t i = 0; i < kept; ++i) {
        bool head = i == 0 || keys[i].word != keys[i - 1].word;
        if (!head && in->duplicates == duplicates_report) {
            device_status_note(trouble, device_flag_duplicate, (uint32_t)keys[i].row);
        }
        voxels += head;
        rows.order[i] = keys[i].row;
        if (voxels <= set.capacity) {
            rows.voxel[keys[i].row] = voxels - 1;
            if (head) {
                set.words[voxels - 1] = keys[i].word;
                rows.begin[voxels - 1] = i;
            }
        } else if (head && voxels == set.capacity + 1) {
            rows.begin[set.capacity] = i; // the end of the last voxel that fits
        }
    }
    if (voxels > set.capacity) {
        device_status_note(trouble, device_flag_capacity, (uint32_t)voxels);
    } else {
        rows.begin[voxels] = kept;
    }
    *set.count = (int32_t)min_of(voxels, set.capacity);
    std::fill(set.words + *set.count, set.words + set.capacity, word_none<W>());
    return status_success();
}

SPIRA_API status voxel_features_check(const float *values, int columns, int channels,
                                      const voxel_rows *rows, const void *features, numeric type) {
    SPIRA_REQUIRE(numeric_valid(type), status_unsupported, "type", type);
    SPIRA_TRY(pointer_check(values, alignof(float), "values"));
    SPIRA_TRY(pointer_check(features, (size_t)numeric_size(type), "features"));
    SPIRA_TRY(pointer_check(rows->order, alignof(int32_t), "rows.order"));
    SPIRA_TRY(pointer_check(rows->begin, alignof(int32_t), "rows.begin"));
    SPIRA_REQUIRE(channels >= 1, status_bad_size, "channels", channels);
    SPIRA_REQUIRE(columns >= channels, status_bad_size, "columns", columns);
    return status_success();
}

// One feature of one voxel. Both sides sum in row order, so that they round alike.
SPIRA_BOTH float voxel_feature_value(voxel_feature kind, const float *values, int columns,
                                     const voxel_rows *rows, int32_t voxel, int channel) {
    int32_t begin = rows->begin[voxel], end = rows->begin[voxel + 1];
    float sum = values[(int64_t)rows->order[begin] * columns + channel];
    if (kind == voxel_feature_first) {
        return sum;
    }
    for (int32_t i = begin + 1; i < end; ++i) {
        sum += values[(int64_t)rows->order[i] * columns + channel];
    }
#ifdef __CUDA_ARCH__
    return __fdiv_rn(sum, (float)(end - begin));
#else
    return sum / (float)(end - begin);
#endif
}

// The features of the voxels from the values of their rows: the host loop of voxel_features.
//
// inputs   values [rows, columns], of which the first `channels` are used
//          rows: written by voxelize; rows.voxel is not used
//          count: voxels
// outputs  features [count, channels] of `type`, aligned to its element
SPIRA_API status voxel_features_host(voxel_feature kind, const float *values, int columns,
                                     int channels, voxel_rows rows, int32_t count, numeric type,
                                     void *features) {
    SPIRA_TRY(voxel_features_check(values, columns, channels, &rows, features, type));
    for (int64_t v = 0; v < count; ++v) {
        for (int c = 0; c < channels; ++c) {
            numeric_store(type, features, v * channels + c,
                          voxel_feature_value(kind, values, columns, &rows, (int32_t)v, c));
        }
    }
    return status_success();
}

} // namespace spira

#endif
