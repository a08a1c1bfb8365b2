// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/voxel_features.h: features of voxels from the values of their rows: the host loops.
//
// voxelize (voxel.h) lists the rows of each voxel in input order. A feature is the mean, the
// largest or the first of their values: of all rows of the voxel, or of the first few. Offsets from
// the voxel's centre and from the mean can be appended. A value that is not finite
// is joined like any other: it shows in the features of its voxel and column alone.
#ifndef SPIRA_VOXEL_FEATURES_H
#define SPIRA_VOXEL_FEATURES_H

#include "numeric.h"
#include "voxel_set.h"

#include <math.h>

namespace spira {

enum voxel_feature {
    voxel_feature_mean,  // the mean of its rows: an fp32 sum (its order: see voxel_partials),
                         // divided by their number
    voxel_feature_first, // the value of its first row
    voxel_feature_max,   // the largest value of its rows, NaN if one is NaN
};

// Channels that are appended to the features: for each of x, y, z, the voxel's feature minus a
// place. The first three columns of the values are x, y, z.
enum voxel_append {
    voxel_append_none = 0,
    voxel_append_centre = 1, // minus the centre of the voxel
    voxel_append_mean = 2,   // minus the mean of the rows: of use to voxel_feature_max and _first
};

// What voxel_features reads and writes. Without `append`, what is for voxel_append_centre may stay
// null.
template <typename W>
struct voxel_features_args {
    voxel_feature kind;
    int32_t max_points;        // only the first rows of each voxel, in input order; 0: all of them
    unsigned append;           // voxel_append bits
    const float *values;       // [rows, columns]; the first `channels` are used
    int columns, channels;     // columns >= channels; with `append` columns >= 3
    voxel_rows rows;           // written by voxelize; `voxel` is not used
    voxel_set<W> set;          // written by voxelize; `words` is for voxel_append_centre
    const word_layout *layout; // host memory; for voxel_append_centre
    float size[3], origin[3];  // of voxel_input; for voxel_append_centre
    numeric type;              // of the features
    float inverse;             // int8: 1 / their scale; else 0
    void *features; // [capacity, voxel_features_channels()] of `type`, aligned to its element
};

// Channels of the features: the values', then three from the centre, then three from the mean. A:
// voxel_features_args, or those of the gradient
template <typename A>
SPIRA_BOTH int voxel_features_channels(const A *args) {
    return args->channels + (args->append & voxel_append_centre ? 3 : 0) +
           (args->append & voxel_append_mean ? 3 : 0);
}

// The checks of a grid.
SPIRA_API status voxel_grid_check(const float size[3], const float origin[3]) {
    for (int a = 0; a < 3; ++a) {
        SPIRA_REQUIRE(float_is_finite(size[a]) && size[a] > 0, status_grid,
                      "size (must be positive and finite)", a);
        SPIRA_REQUIRE(float_is_finite(origin[a]), status_grid, "origin (must be finite)", a);
    }
    return status_success();
}

// What features and their gradient have alike. i8: whether they may be int8
template <typename A>
SPIRA_API status voxel_features_common_check(const A *args, bool i8 = false) {
    SPIRA_REQUIRE(args, status_null_pointer, "args", 0);
    SPIRA_REQUIRE(args->kind == voxel_feature_mean || args->kind == voxel_feature_first ||
                      args->kind == voxel_feature_max,
                  status_unsupported, "kind", args->kind);
    SPIRA_TRY(size_check(args->max_points, 0, INT64_MAX, "max_points"));
    SPIRA_REQUIRE(!(args->append & ~(unsigned)(voxel_append_centre | voxel_append_mean)),
                  status_unsupported, "append", args->append);
    SPIRA_REQUIRE(numeric_valid(args->type) || (i8 && args->type == numeric_i8), status_unsupported,
                  "type", args->type);
    SPIRA_TRY(pointer_check(args->rows.order, alignof(int32_t), "rows.order"));
    SPIRA_TRY(pointer_check(args->rows.begin, alignof(int32_t), "rows.begin"));
    return size_check(args->channels, 1, INT32_MAX - 6, "channels");
}

template <typename W>
SPIRA_API status voxel_features_check(const voxel_features_args<W> *args) {
    SPIRA_TRY(voxel_features_common_check(args, true));
    SPIRA_REQUIRE(numeric_scale_good(args->inverse, args->type == numeric_i8), status_unsupported,
                  "inverse", 0);
    SPIRA_TRY(pointer_check(args->values, alignof(float), "values"));
    SPIRA_TRY(pointer_check(args->features, (size_t)numeric_size(args->type), "features"));
    const int columns = args->append && args->channels < 3 ? 3 : args->channels;
    SPIRA_TRY(size_check(args->columns, columns, INT64_MAX, "columns"));
    SPIRA_TRY(pointer_check(args->set.count, alignof(int32_t), "set.count"));
    SPIRA_TRY(capacity_check(args->set.capacity, "set.capacity"));
    if (!(args->append & voxel_append_centre)) {
        return status_success();
    }
    SPIRA_TRY(pointer_check(args->set.words, alignof(W), "set.words"));
    SPIRA_TRY(word_check<W>(args->layout));
    return voxel_grid_check(args->size, args->origin);
}

// ---- the values of a voxel's rows as one value --------------------------------------------------

// The order of sums, on both sides. The rows of a voxel, in input order, are cut into chunks of
// voxel_chunk. In a chunk, partial sum j adds rows j, j + voxel_partials, ...; the partial sums are
// added in order, and so are the sums of the chunks. So up to voxel_partials rows are added one
// after the other. A maximum follows the same order.
enum { voxel_partials = 32, voxel_chunk = 256 };

// What two values of a voxel become; `a` is of the earlier rows.
SPIRA_BOTH float voxel_feature_join(voxel_feature kind, float a, float b) {
    return kind == voxel_feature_mean ? a + b : kind == voxel_feature_max ? float_larger(b, a) : a;
}

// The end of the computation. all: of all `count` rows that count.
SPIRA_BOTH float voxel_feature_end(voxel_feature kind, float all, int32_t count) {
    return kind == voxel_feature_mean ? float_divide(all, (float)count) : all;
}

// How many rows of a voxel count: the first max_points, or all if it is 0.
SPIRA_BOTH int32_t voxel_feature_rows(int32_t max_points, int32_t rows) {
    return max_points && rows > max_points ? max_points : rows;
}

// A chunk of rows, whose values are value(first), ..., value(first + count - 1).
template <typename V>
SPIRA_API float voxel_feature_chunk(voxel_feature kind, int32_t first, int32_t count,
                                    const V &value) {
    float all = 0;
    for (int32_t j = 0; j < min_of(count, voxel_partials); ++j) {
        float partial = value(first + j);
        for (int32_t i = j + voxel_partials; i < count; i += voxel_partials) {
            partial = voxel_feature_join(kind, partial, value(first + i));
        }
        all = j ? voxel_feature_join(kind, all, partial) : partial;
    }
    return all;
}

// A feature of a voxel from one column of the values. For the host loop.
template <typename W>
SPIRA_API float voxel_feature_value(const voxel_features_args<W> &args, voxel_feature kind,
                                    int64_t voxel, int column) {
    const int32_t *begin = args.rows.begin + voxel, *order = args.rows.order + begin[0];
    const int32_t count = voxel_feature_rows(args.max_points, begin[1] - begin[0]);
    const auto value = [&](int32_t i) {
        return args.values[(int64_t)order[i] * args.columns + column];
    };
    float all = 0;
    for (int32_t first = 0; first < count; first += voxel_chunk) {
        const float chunk =
            voxel_feature_chunk(kind, first, (int32_t)min_of(count - first, voxel_chunk), value);
        all = first ? voxel_feature_join(kind, all, chunk) : chunk;
    }
    return voxel_feature_end(kind, all, count);
}

// ---- all features -------------------------------------------------------------------------------

// The centre of a voxel on one axis, rounded once: origin + (index + 0.5) * size.
SPIRA_BOTH float voxel_centre(int index, float size, float origin) {
#ifdef __CUDA_ARCH__
    return __fmaf_rn(__fadd_rn((float)index, 0.5f), size, origin);
#else
    return fmaf((float)index + 0.5f, size, origin);
#endif
}

// What a channel of the features is made of: a column of the values, minus a place.
struct voxel_channel {
    int column;
    voxel_append minus;
};

template <typename W>
SPIRA_BOTH voxel_channel voxel_channel_make(const voxel_features_args<W> &args, int channel) {
    const int more = channel - args.channels;
    if (more < 0) {
        return {channel, voxel_append_none};
    }
    const bool centre = more < 3 && (args.append & voxel_append_centre);
    return {more % 3, centre ? voxel_append_centre : voxel_append_mean};
}

// A channel of a voxel. value: of its column; mean: of its column, for voxel_append_mean. layout:
// *args->layout, where it is used.
template <typename W>
SPIRA_BOTH float voxel_channel_end(const voxel_features_args<W> &args, const word_layout &layout,
                                   int64_t voxel, voxel_channel channel, float value, float mean) {
    if (channel.minus == voxel_append_centre) {
        const struct voxel v = word_unpack<W>(&layout, args.set.words[voxel]);
        const int axis = channel.column, index = axis == 0 ? v.x : axis == 1 ? v.y : v.z;
        return float_subtract(value, voxel_centre(index, args.size[axis], args.origin[axis]));
    }
    return channel.minus == voxel_append_mean ? float_subtract(value, mean) : value;
}

// The features of the voxels from the values of their rows: the host loop of voxel_features
// (voxel_features.cuh), with bit-identical results.
//
// inputs   args: see voxel_features_args; all arrays in host memory
// outputs  args->features, of as many voxels as args->set has; rows from the count on are not
//          written
// errors   bits of `append`, a layout of another word
template <typename W>
SPIRA_API status voxel_features_host(const voxel_features_args<W> *args) {
    SPIRA_TRY(voxel_features_check(args));
    const int channels = voxel_features_channels(args);
    const word_layout layout = args->layout ? *args->layout : word_layout{};
    for (int64_t v = 0; v < voxel_set_count(args->set); ++v) {
        for (int c = 0; c < channels; ++c) {
            const voxel_channel from = voxel_channel_make(*args, c);
            const float value = voxel_feature_value(*args, args->kind, v, from.column);
            const float mean = from.minus == voxel_append_mean
                                   ? voxel_feature_value(*args, voxel_feature_mean, v, from.column)
                                   : 0.0f;
            numeric_store(args->type, args->features, v * channels + c,
                          voxel_channel_end(*args, layout, v, from, value, mean) *
                              (args->type == numeric_i8 ? args->inverse : 1.0f));
        }
    }
    return status_success();
}

// ---- gradient -----------------------------------------------------------------------------------
// Of a mean, each row gets its share. Of the first and of the largest, one row gets all: of the
// largest, the one that voxel_features takes. Appended channels are differences of the same values
// and a place: their gradient goes to x, y and z as well. A centre is constant; from a mean that is
// subtracted, each row gets its share back.

// One gradient. In host memory for voxel_features_grad_host.
struct voxel_features_grad_args {
    voxel_feature kind;
    int32_t max_points;        // as in voxel_features_args; 0: all rows
    const float *values;       // [rows, columns]; read for voxel_feature_max alone
    int columns, channels;     // columns >= channels
    unsigned append;           // voxel_append bits, as in voxel_features_args
    voxel_rows rows;           // of voxelize; `voxel` is not used
    int32_t row_capacity;      // of `rows`, `values` and `values_grad`
    const int32_t *count;      // [1] voxels, at most `capacity`
    int32_t capacity;          //
    numeric type;              // of features_grad
    const void *features_grad; // [capacity, features_channels]
    int features_channels;     // those of voxel_features_channels, appended ones included
    float *values_grad;        // [row_capacity, voxel_features_grad_channels]
};

// Columns of values_grad: those that features are made of. Appended channels need x, y and z.
SPIRA_BOTH int voxel_features_grad_channels(const voxel_features_grad_args &a) {
    return a.append && a.channels < 3 ? 3 : a.channels;
}

SPIRA_API status voxel_features_grad_check(const voxel_features_grad_args *a) {
    SPIRA_TRY(voxel_features_common_check(a));
    if (a->kind == voxel_feature_max) {
        SPIRA_TRY(pointer_check(a->values, alignof(float), "values"));
        SPIRA_TRY(size_check(a->columns, voxel_features_grad_channels(*a), INT64_MAX, "columns"));
    }
    SPIRA_TRY(size_check(a->row_capacity, 1, INT64_MAX, "row_capacity"));
    SPIRA_TRY(pointer_check(a->count, alignof(int32_t), "count"));
    SPIRA_TRY(capacity_check(a->capacity, "capacity"));
    const int channels = voxel_features_channels(a);
    SPIRA_TRY(size_check(a->features_channels, channels, channels, "features_channels"));
    SPIRA_TRY(pointer_check(a->features_grad, (size_t)numeric_size(a->type), "features_grad"));
    return pointer_check(a->values_grad, alignof(float), "values_grad");
}

// The channels of features_grad that the gradient of a column is made of; -1: none.
struct voxel_features_grad_from {
    int own, centre, mean;
};

SPIRA_BOTH voxel_features_grad_from voxel_features_grad_from_of(const voxel_features_grad_args &a,
                                                                int column) {
    const bool centre = a.append & voxel_append_centre, mean = a.append & voxel_append_mean;
    return {column < a.channels ? column : -1, column < 3 && centre ? a.channels + column : -1,
            column < 3 && mean ? a.channels + (centre ? 3 : 0) + column : -1};
}

// The largest of rows begin .. end - 1 of a voxel, as voxel_features takes it: a place in
// rows.order.
SPIRA_BOTH int32_t voxel_features_grad_largest(const voxel_features_grad_args &a, int32_t begin,
                                               int32_t end, int column) {
    int32_t winner = begin;
    float largest = 0;
    for (int32_t i = begin; i < end; ++i) {
        const float x = a.values[(int64_t)a.rows.order[i] * a.columns + column];
        const bool takes = i == begin || float_is_nan(x) || (!float_is_nan(largest) && x > largest);
        largest = takes ? x : largest;
        winner = takes ? i : winner;
    }
    return winner;
}

// Writes what the rows of a voxel get of one column; the others stay zero. feature: the gradient of
// the feature; back: that of the mean of the rows, which is subtracted
SPIRA_BOTH void voxel_features_grad_put(const voxel_features_grad_args &a, int64_t voxel,
                                        int column, float feature, float back) {
    const int32_t begin = a.rows.begin[voxel];
    const int32_t rows = voxel_feature_rows(a.max_points, a.rows.begin[voxel + 1] - begin);
    const int32_t end = begin + rows;
    const bool mean = a.kind == voxel_feature_mean, minus = a.append & voxel_append_mean;
    feature = mean ? float_divide(feature, (float)rows) : feature;
    back = minus ? float_divide(back, (float)rows) : 0.0f;
    const int32_t winner =
        a.kind == voxel_feature_max ? voxel_features_grad_largest(a, begin, end, column) : begin;
    for (int32_t i = begin; i < end; ++i) {
        if (mean || minus || i == winner) {
            const float own = mean || i == winner ? feature : 0.0f;
            a.values_grad[(int64_t)a.rows.order[i] * voxel_features_grad_channels(a) + column] =
                minus ? float_subtract(own, back) : own;
        }
    }
}

// The gradient of the values: the host loop of voxel_features_grad (voxel_features.cuh).
//
// outputs  args->values_grad, all row_capacity rows: 0 for a row that no feature depends on
//          (dropped, beyond max_points, not the first or not the largest)
// errors   bits of `append`
SPIRA_API status voxel_features_grad_host(const voxel_features_grad_args *args) {
    SPIRA_TRY(voxel_features_grad_check(args));
    const int columns = voxel_features_grad_channels(*args);
    memset(args->values_grad, 0, (size_t)args->row_capacity * (size_t)columns * sizeof(float));
    for (int64_t v = 0; v < count_clamp(*args->count, args->capacity); ++v) {
        for (int c = 0; c < columns; ++c) {
            const voxel_features_grad_from from = voxel_features_grad_from_of(*args, c);
            auto load = [&](int channel) {
                const int64_t at = v * args->features_channels + channel;
                return channel < 0 ? 0.0f : numeric_load(args->type, args->features_grad, at);
            };
            const float mean = load(from.mean);
            voxel_features_grad_put(*args, v, c, load(from.own) + load(from.centre) + mean, mean);
        }
    }
    return status_success();
}

} // namespace spira

#endif
