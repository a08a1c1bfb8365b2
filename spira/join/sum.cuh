// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/join/sum.cuh: the kernels of the features of a joined set (join.cuh) and of their gradient
// (join.cuh).
#ifndef SPIRA_JOIN_SUM_CUH
#define SPIRA_JOIN_SUM_CUH

#include "../base/launch.cuh"
#include "../base/wide.cuh"
#include "../join.h"

namespace spira {

enum { join_sum_threads = 256, join_channels = 8 /* of a thread */ };

// What both kernels need of their arguments.
struct join_sum_task {
    void *set[join_sets_max]; // features of each set, or their gradients: null ones are not wanted
    void *out;                // those of the result
    int32_t bases[join_sets_max];
    float scale[join_sets_max], out_inverse; // of int8
    int channels, groups;                    // groups of join_channels
    join_rows rows;
    const int32_t *count;
    int32_t capacity;
    bool wide; // 8 channels may be read and written at once
};

// Makes the task and its thread blocks. A: join_sum_args, join_sum_grad_args; set: of its arrays.
template <typename A>
SPIRA_API status join_sum_task_make(const A *a, const void *const *set, const void *out,
                                    join_sum_task *t, unsigned *blocks) {
    *t = {};
    join_bases(a->capacity, a->sets, t->bases);
    t->channels = a->channels;
    t->groups = (int)ceil_div(a->channels, join_channels);
    t->rows = a->rows;
    t->count = a->count;
    t->capacity = a->out_capacity;
    t->out = (void *)out;
    t->wide = a->channels % join_channels == 0 && wide_aligned(out, 16);
    for (int s = 0; s < a->sets; ++s) {
        t->set[s] = (void *)set[s];
        t->wide = t->wide && wide_aligned(set[s], 16);
    }
    const int64_t grid = ceil_div((int64_t)a->out_capacity * t->groups, join_sum_threads);
    SPIRA_REQUIRE(grid <= INT32_MAX, status_bad_size, "channels (times out_capacity)", a->channels);
    *blocks = (unsigned)grid;
    return status_success();
}

// A thread sums 8 channels of a voxel.
template <typename E>
SPIRA_KERNEL void __launch_bounds__(join_sum_threads)
    join_sum_kernel(const __grid_constant__ join_sum_task task) {
    const int64_t i = (int64_t)blockIdx.x * join_sum_threads + threadIdx.x;
    const int64_t voxel = i / task.groups;
    const int first = (int)(i % task.groups) * join_channels;
    const bool there = voxel < min_of(*task.count, task.capacity);
    const int32_t begin = there ? task.rows.begin[voxel] : 0;
    const int32_t end = there ? task.rows.begin[voxel + 1] : 0;
    pdl_wait(); // for the features; in every thread block
    if (!there) {
        return;
    }
    float sum[join_channels] = {};
    wide_elements<E, join_channels> row_of;
    for (int32_t r = begin; r < end; ++r) {
        int32_t row;
        const int set = join_set_of(task.bases, task.rows.order[r], &row);
        const E *in = (const E *)task.set[set];
        const float scale = sizeof(E) == 1 ? task.scale[set] : 0.0f;
        wide_read_channels(in + (int64_t)row * task.channels, task.channels, first, task.wide,
                           row_of);
#pragma unroll
        for (int k = 0; k < join_channels; ++k) {
            sum[k] = join_sum_add(r == begin, sum[k], element_to_float(row_of.at[k]), scale);
        }
    }
#pragma unroll
    for (int k = 0; k < join_channels; ++k) {
        row_of.at[k] = element_from_float<E>(sizeof(E) == 1 ? sum[k] * task.out_inverse : sum[k]);
    }
    wide_write_channels(row_of, (E *)task.out + voxel * task.channels, task.channels, first,
                        task.wide);
}

// A thread hands 8 channels of a voxel to all of its source rows.
template <typename E>
SPIRA_KERNEL void __launch_bounds__(join_sum_threads)
    join_sum_grad_kernel(const __grid_constant__ join_sum_task task) {
    const int64_t i = (int64_t)blockIdx.x * join_sum_threads + threadIdx.x;
    const int64_t voxel = i / task.groups;
    const int first = (int)(i % task.groups) * join_channels;
    if (voxel >= min_of(*task.count, task.capacity)) {
        return;
    }
    wide_elements<E, join_channels> grad;
    wide_read_channels((const E *)task.out + voxel * task.channels, task.channels, first, task.wide,
                       grad);
    for (int32_t r = task.rows.begin[voxel]; r < task.rows.begin[voxel + 1]; ++r) {
        int32_t row;
        E *const to = (E *)task.set[join_set_of(task.bases, task.rows.order[r], &row)];
        if (to) {
            wide_write_channels(grad, to + (int64_t)row * task.channels, task.channels, first,
                                task.wide);
        }
    }
}

} // namespace spira

#endif
