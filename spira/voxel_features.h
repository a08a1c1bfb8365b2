// spira/voxel_features.h: features of voxels from the values of their rows: the host loops.
//
// voxelize (voxel.h) lists the rows of each voxel in input order. A feature is the mean, the
// largest or the first of their values. The form with voxel_features_args also limits the rows of a
// voxel and appends offsets.
#ifndef SPIRA_VOXEL_FEATURES_H
#define SPIRA_VOXEL_FEATURES_H

#include "numeric.h"
#include "voxel_set.h"

#include <math.h>

namespace spira {

enum voxel_feature {
    voxel_feature_mean,  // the mean of its rows: an fp32 sum in row order, divided by their number
    voxel_feature_first, // the value of its first row
    voxel_feature_max,   // the largest value of its rows, NaN if one is NaN; voxel_features_args
};

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

SPIRA_API status voxel_feature_check(voxel_feature kind) {
    SPIRA_REQUIRE(kind == voxel_feature_mean || kind == voxel_feature_first, status_unsupported,
                  "kind (voxel_features_args has more)", kind);
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
    SPIRA_TRY(voxel_feature_check(kind));
    SPIRA_TRY(voxel_features_check(values, columns, channels, &rows, features, type));
    for (int64_t v = 0; v < count; ++v) {
        for (int c = 0; c < channels; ++c) {
            numeric_store(type, features, v * channels + c,
                          voxel_feature_value(kind, values, columns, &rows, (int32_t)v, c));
        }
    }
    return status_success();
}

// ---- with a cap on the rows, and appended channels ----------------------------------------------

// Channels that are appended to the features: for each of x, y, z, the voxel's feature minus a
// place. The first three columns of the values are x, y, z.
enum voxel_append {
    voxel_append_none = 0,
    voxel_append_centre = 1, // minus the centre of the voxel
    voxel_append_mean = 2,   // minus the mean of the rows: of use to voxel_feature_max and _first
};

// What voxel_features reads and writes. Start from zero and fill in by name.
template <typename W>
struct voxel_features_args {
    voxel_feature kind;
    int32_t max_points;       // only the first rows of each voxel, in input order; 0: all of them
    unsigned append;          // voxel_append bits
    const float *values;      // [rows, columns], of which the first `channels` are used
    int columns, channels;    // columns >= channels; with `append` columns >= 3
    voxel_rows rows;          // written by voxelize; `voxel` is not used
    voxel_set<W> set;         // written by voxelize; `words` is used by voxel_append_centre alone
    const word_layout *words; // host memory; for voxel_append_centre
    float size[3], origin[3]; // of voxel_input; for voxel_append_centre
    numeric type;
    void *features; // [capacity, voxel_features_channels()] of `type`, aligned to its element
};

// Channels of the features: the values', then three from the centre, then three from the mean.
template <typename W>
SPIRA_BOTH int voxel_features_channels(const voxel_features_args<W> *args) {
    return args->channels + (args->append & voxel_append_centre ? 3 : 0) +
           (args->append & voxel_append_mean ? 3 : 0);
}

template <typename W>
SPIRA_API status voxel_features_args_check(const voxel_features_args<W> *args) {
    SPIRA_REQUIRE(args, status_null_pointer, "args", 0);
    SPIRA_REQUIRE(args->kind == voxel_feature_mean || args->kind == voxel_feature_first ||
                      args->kind == voxel_feature_max,
                  status_unsupported, "args.kind", args->kind);
    SPIRA_REQUIRE(args->max_points >= 0, status_bad_size, "args.max_points", args->max_points);
    SPIRA_REQUIRE(!(args->append & ~(unsigned)(voxel_append_centre | voxel_append_mean)),
                  status_unsupported, "args.append", args->append);
    SPIRA_TRY(voxel_features_check(args->values, args->columns, args->channels, &args->rows,
                                   args->features, args->type));
    SPIRA_REQUIRE(!args->append || args->columns >= 3, status_bad_size, "args.columns",
                  args->columns);
    SPIRA_REQUIRE(args->channels <= INT32_MAX - 6, status_bad_size, "args.channels",
                  args->channels);
    SPIRA_TRY(pointer_check(args->set.count, alignof(int32_t), "args.set.count"));
    SPIRA_REQUIRE(args->set.capacity >= 1 && args->set.capacity <= INT32_MAX / 2, status_bad_size,
                  "args.set.capacity", args->set.capacity);
    if (args->append & voxel_append_centre) {
        SPIRA_TRY(pointer_check(args->set.words, alignof(W), "args.set.words"));
        SPIRA_TRY(word_check<W>(args->words));
        for (int a = 0; a < 3; ++a) {
            SPIRA_REQUIRE(float_is_finite(args->size[a]) && args->size[a] > 0, status_grid,
                          "args.size (must be positive and finite)", a);
            SPIRA_REQUIRE(float_is_finite(args->origin[a]), status_grid,
                          "args.origin (must be finite)", a);
        }
    }
    return status_success();
}

// NaN wins a maximum, as in the frameworks.
SPIRA_BOTH float voxel_larger(float a, float b) {
    return float_is_nan(a) ? a : float_is_nan(b) ? b : a > b ? a : b;
}

// A feature of a voxel from the first max_points of its rows; 0: from all. In row order, as
// voxel_feature_value.
SPIRA_BOTH float voxel_feature_of_rows(voxel_feature kind, int32_t max_points, const float *values,
                                       int columns, const voxel_rows *rows, int32_t voxel,
                                       int channel) {
    const int32_t begin = rows->begin[voxel];
    int32_t end = rows->begin[voxel + 1];
    end = max_points && end - begin > max_points ? begin + max_points : end;
    float value = values[(int64_t)rows->order[begin] * columns + channel];
    for (int32_t i = begin + 1; i < end && kind != voxel_feature_first; ++i) {
        const float next = values[(int64_t)rows->order[i] * columns + channel];
        value = kind == voxel_feature_max ? voxel_larger(next, value) : value + next;
    }
    if (kind != voxel_feature_mean) {
        return value;
    }
#ifdef __CUDA_ARCH__
    return __fdiv_rn(value, (float)(end - begin));
#else
    return value / (float)(end - begin);
#endif
}

// The centre of a voxel on one axis, rounded once: origin + (index + 0.5) * size.
SPIRA_BOTH float voxel_centre(int index, float size, float origin) {
#ifdef __CUDA_ARCH__
    return __fmaf_rn(__fadd_rn((float)index, 0.5f), size, origin);
#else
    return fmaf((float)index + 0.5f, size, origin);
#endif
}

SPIRA_BOTH float voxel_difference(float a, float b) {
#ifdef __CUDA_ARCH__
    return __fsub_rn(a, b);
#else
    return a - b;
#endif
}

// One channel of one voxel, appended channels included. words: *args->words, where it is used.
template <typename W>
SPIRA_BOTH float voxel_features_value(const voxel_features_args<W> &args, const word_layout &words,
                                      int32_t voxel, int channel) {
    const bool own = channel < args.channels;
    const int more = channel - args.channels, axis = own ? channel : more % 3;
    const float value = voxel_feature_of_rows(args.kind, args.max_points, args.values, args.columns,
                                              &args.rows, voxel, axis);
    if (own) {
        return value;
    }
    if (more < 3 && (args.append & voxel_append_centre)) {
        const struct voxel v = word_unpack<W>(&words, args.set.words[voxel]);
        const int index = axis == 0 ? v.x : axis == 1 ? v.y : v.z;
        return voxel_difference(value, voxel_centre(index, args.size[axis], args.origin[axis]));
    }
    return voxel_difference(value,
                            voxel_feature_of_rows(voxel_feature_mean, args.max_points, args.values,
                                                  args.columns, &args.rows, voxel, axis));
}

// The features of the voxels: the host loop of voxel_features (voxel_features.cuh), with
// bit-identical results.
//
// inputs   args: see voxel_features_args
// outputs  args->features, of as many voxels as args->set has
// errors   null or misaligned pointers, sizes, bits of `append`, a layout of another word
template <typename W>
SPIRA_API status voxel_features_host(const voxel_features_args<W> *args) {
    SPIRA_TRY(voxel_features_args_check(args));
    const int channels = voxel_features_channels(args);
    const word_layout words = args->words ? *args->words : word_layout{};
    for (int64_t v = 0; v < voxel_set_count(args->set); ++v) {
        for (int c = 0; c < channels; ++c) {
            numeric_store(args->type, args->features, v * channels + c,
                          voxel_features_value(*args, words, (int32_t)v, c));
        }
    }
    return status_success();
}

} // namespace spira

#endif
