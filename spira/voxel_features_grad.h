// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/voxel_features_grad.h: the gradient of voxel features by the values of their rows.
//
// Of a mean, each row gets its share. Of the first and of the largest, one row gets all: of the
// largest, the one that voxel_features takes. Appended channels are differences of the same values
// and a place: their gradient goes to x, y and z as well. A centre is constant; from a mean that is
// subtracted, each row gets its share back.
#ifndef SPIRA_VOXEL_FEATURES_GRAD_H
#define SPIRA_VOXEL_FEATURES_GRAD_H

#include "voxel_features.h"

namespace spira {

// One gradient. Start from zero and fill it by name. In host memory for voxel_features_grad_host.
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

// The gradient of the values: the host loop of voxel_features_grad (voxel_features_grad.cuh).
//
// inputs   args: see voxel_features_grad_args
// outputs  args->values_grad, all row_capacity rows: 0 for a row that no feature depends on
//          (dropped, beyond max_points, not the first or not the largest)
// errors   null or misaligned pointers, sizes, bits of `append`
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
