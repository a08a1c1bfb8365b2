// spira/voxel_features_grad.h: the gradient of voxel features by the values of their rows.
//
// Of a mean, each row gets its share. Of the first and of the largest, one row gets all: of the
// largest, the one that voxel_features takes.
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
    voxel_rows rows;           // of voxelize; `voxel` is not used
    int32_t row_capacity;      // of `rows`, `values` and `values_grad`
    const int32_t *count;      // [1] voxels, at most `capacity`
    int32_t capacity;          //
    numeric type;              // of features_grad
    const void *features_grad; // [capacity, features_channels]
    int features_channels;     // >= channels: appended ones are not read (they are differences of
                               // the same values, and are usually left constant)
    float *values_grad;        // [row_capacity, channels]
};

SPIRA_API status voxel_features_grad_check(const voxel_features_grad_args *a) {
    SPIRA_REQUIRE(a, status_null_pointer, "args", 0);
    SPIRA_REQUIRE(a->kind == voxel_feature_mean || a->kind == voxel_feature_first ||
                      a->kind == voxel_feature_max,
                  status_unsupported, "kind", a->kind);
    SPIRA_REQUIRE(a->max_points >= 0, status_bad_size, "max_points", a->max_points);
    SPIRA_REQUIRE(numeric_valid(a->type), status_unsupported, "type", a->type);
    SPIRA_REQUIRE(a->channels >= 1, status_bad_size, "channels", a->channels);
    if (a->kind == voxel_feature_max) {
        SPIRA_TRY(pointer_check(a->values, alignof(float), "values"));
        SPIRA_REQUIRE(a->columns >= a->channels, status_bad_size, "columns", a->columns);
    }
    SPIRA_TRY(pointer_check(a->rows.order, alignof(int32_t), "rows.order"));
    SPIRA_TRY(pointer_check(a->rows.begin, alignof(int32_t), "rows.begin"));
    SPIRA_REQUIRE(a->row_capacity >= 1, status_bad_size, "row_capacity", a->row_capacity);
    SPIRA_TRY(pointer_check(a->count, alignof(int32_t), "count"));
    SPIRA_REQUIRE(a->capacity >= 1 && a->capacity <= INT32_MAX / 2, status_bad_size, "capacity",
                  a->capacity);
    SPIRA_REQUIRE(a->features_channels >= a->channels, status_bad_size, "features_channels",
                  a->features_channels);
    SPIRA_TRY(pointer_check(a->features_grad, (size_t)numeric_size(a->type), "features_grad"));
    return pointer_check(a->values_grad, alignof(float), "values_grad");
}

// What each row of a mean gets.
SPIRA_BOTH float voxel_grad_share(float grad, int32_t rows) {
#ifdef __CUDA_ARCH__
    return __fdiv_rn(grad, (float)rows);
#else
    return grad / (float)rows;
#endif
}

// Whether a later row takes the maximum from an earlier one.
SPIRA_BOTH bool voxel_grad_takes(float later, float earlier) {
    return float_is_nan(later) || (!float_is_nan(earlier) && later > earlier);
}

// Writes what the rows of a voxel get of one channel; the others stay zero.
SPIRA_BOTH void voxel_features_grad_put(const voxel_features_grad_args &a, int64_t voxel,
                                        int channel, float grad) {
    const int32_t begin = a.rows.begin[voxel];
    const int32_t rows = voxel_feature_rows(a.max_points, a.rows.begin[voxel + 1] - begin);
    int32_t winner = begin;
    float largest = 0;
    for (int32_t i = begin; i < begin + rows && a.kind != voxel_feature_first; ++i) {
        const int64_t row = a.rows.order[i];
        if (a.kind == voxel_feature_mean) {
            a.values_grad[row * a.channels + channel] = voxel_grad_share(grad, rows);
        } else {
            const float x = a.values[row * a.columns + channel];
            const bool takes = i == begin || voxel_grad_takes(x, largest);
            largest = takes ? x : largest;
            winner = takes ? i : winner;
        }
    }
    if (a.kind != voxel_feature_mean && rows > 0) {
        a.values_grad[(int64_t)a.rows.order[winner] * a.channels + channel] = grad;
    }
}

// The gradient of the values: the host loop of voxel_features_grad (voxel_features_grad.cuh).
//
// inputs   args: see voxel_features_grad_args
// outputs  args->values_grad, all row_capacity rows: 0 for a row that no feature depends on
SPIRA_API status voxel_features_grad_host(const voxel_features_grad_args *args) {
    SPIRA_TRY(voxel_features_grad_check(args));
    const int64_t total = (int64_t)args->row_capacity * args->channels;
    memset(args->values_grad, 0, (size_t)total * sizeof(float));
    for (int64_t v = 0; v < max_of(min_of(*args->count, args->capacity), 0); ++v) {
        for (int c = 0; c < args->channels; ++c) {
            const float grad =
                numeric_load(args->type, args->features_grad, v * args->features_channels + c);
            voxel_features_grad_put(*args, v, c, grad);
        }
    }
    return status_success();
}

} // namespace spira

#endif
