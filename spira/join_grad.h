// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/join_grad.h: the gradient of the features of a joined set (join_sum): each source row gets
// that of its voxel.
#ifndef SPIRA_JOIN_GRAD_H
#define SPIRA_JOIN_GRAD_H

#include "join.h"

namespace spira {

// What `join_sum_grad` reads and writes. Start from zero and fill it by name.
struct join_sum_grad_args {
    const void *out_grad;            // [voxels, channels]
    int32_t capacity[join_sets_max]; // of each set, as `join` had them
    int sets;
    int channels;         // >= 1
    numeric type;         // of out_grad and in_grad
    join_rows rows;       // of join
    const int32_t *count; // [1] voxels of the result
    int32_t out_capacity;
    void *in_grad[join_sets_max]; // of each set [capacity, channels], or null: not wanted
};

// The checks of join_sum_grad and join_sum_grad_host.
SPIRA_API status join_sum_grad_check(const join_sum_grad_args *a) {
    bool wanted = false;
    SPIRA_TRY(join_sum_sizes_check(a));
    const size_t element = (size_t)numeric_size(a->type);
    SPIRA_TRY(pointer_check(a->out_grad, element, "out_grad"));
    for (int s = 0; s < a->sets; ++s) {
        if (a->in_grad[s]) {
            SPIRA_TRY(pointer_check(a->in_grad[s], element, "in_grad"));
            SPIRA_REQUIRE(a->in_grad[s] != a->out_grad, status_unsupported,
                          "in_grad (overlaps out_grad)", s);
            wanted = true;
        }
    }
    SPIRA_REQUIRE(wanted, status_null_pointer, "in_grad", 0);
    SPIRA_TRY(pointer_check(a->count, alignof(int32_t), "count"));
    return join_rows_check(&a->rows);
}

SPIRA_API size_t join_sum_grad_bytes(const join_sum_grad_args *a, int set) {
    return (size_t)a->capacity[set] * (size_t)a->channels * (size_t)numeric_size(a->type);
}

// The host loop of `join_sum_grad` (join_grad.cuh), on host memory.
SPIRA_API status join_sum_grad_host(const join_sum_grad_args *args) {
    SPIRA_TRY(join_sum_grad_check(args));
    int32_t bases[join_sets_max];
    join_bases(args->capacity, args->sets, bases);
    for (int s = 0; s < args->sets; ++s) {
        if (args->in_grad[s]) {
            memset(args->in_grad[s], 0, join_sum_grad_bytes(args, s));
        }
    }
    const size_t bytes = (size_t)args->channels * (size_t)numeric_size(args->type);
    const int64_t count = count_clamp(*args->count, args->out_capacity);
    for (int64_t v = 0; v < count; ++v) {
        for (int32_t i = args->rows.begin[v]; i < args->rows.begin[v + 1]; ++i) {
            int32_t row;
            const int set = join_set_of(bases, args->rows.order[i], &row);
            if (args->in_grad[set]) {
                memcpy((char *)args->in_grad[set] + (size_t)row * bytes,
                       (const char *)args->out_grad + (size_t)v * bytes, bytes);
            }
        }
    }
    return status_success();
}

} // namespace spira

#endif
