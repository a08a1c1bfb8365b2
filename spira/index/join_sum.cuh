// spira/index/join_sum.cuh: the kernels of the features of a joined set (join.cuh) and of their
// gradient (join_grad.cuh).
#ifndef SPIRA_INDEX_JOIN_SUM_CUH
#define SPIRA_INDEX_JOIN_SUM_CUH

#include "../base/launch.cuh"
#include "../base/wide.cuh"
#include "../join_grad.h"

namespace spira {

enum { join_channels = 8 }; // of a thread

// What the kernel needs of join_sum_args.
struct join_sum_task {
    const void *in[join_sets_max];
    int32_t bases[join_sets_max];
    int channels, groups; // groups of join_channels
    join_rows rows;
    const int32_t *count;
    int32_t capacity;
    bool wide_in, wide_out; // 8 channels may be read, or written, at once
    void *out;
};

// A thread sums 8 channels of a voxel.
template <typename E>
SPIRA_KERNEL void __launch_bounds__(join_threads)
    join_sum_kernel(const __grid_constant__ join_sum_task task) {
    const int64_t i = (int64_t)blockIdx.x * join_threads + threadIdx.x;
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
        const E *in = (const E *)task.in[set];
        wide_read_channels(in + (int64_t)row * task.channels, task.channels, first, task.wide_in,
                           row_of);
#pragma unroll
        for (int k = 0; k < join_channels; ++k) {
            const float x = element_to_float(row_of.at[k]);
            sum[k] = r == begin ? x : sum[k] + x;
        }
    }
#pragma unroll
    for (int k = 0; k < join_channels; ++k) {
        row_of.at[k] = element_from_float<E>(sum[k]);
    }
    wide_write_channels(row_of, (E *)task.out + voxel * task.channels, task.channels, first,
                        task.wide_out);
}

SPIRA_API join_sum_task join_sum_task_make(const join_sum_args *a) {
    join_sum_task t = {};
    const bool whole = a->channels % join_channels == 0;
    join_bases(a->capacity, a->sets, t.bases);
    t.channels = a->channels;
    t.groups = (int)ceil_div(a->channels, join_channels);
    t.rows = a->rows;
    t.count = a->count;
    t.capacity = a->out_capacity;
    t.wide_in = whole;
    for (int s = 0; s < a->sets; ++s) {
        t.in[s] = a->in[s];
        t.wide_in = t.wide_in && wide_aligned(a->in[s], 16);
    }
    t.wide_out = whole && wide_aligned(a->out, 16);
    t.out = a->out;
    return t;
}

enum { join_grad_threads = 256, join_grad_channels = 8 /* of a thread */ };

// What the kernel needs of join_sum_grad_args.
struct join_grad_task {
    const void *from;
    void *to[join_sets_max];
    int32_t bases[join_sets_max];
    int channels, groups; // groups of join_grad_channels
    join_rows rows;
    const int32_t *count;
    int32_t capacity;
    bool wide; // 8 channels may be read and written at once
};

// A thread has 8 channels of a voxel.
template <typename E>
SPIRA_KERNEL void __launch_bounds__(join_grad_threads)
    join_grad_kernel(const __grid_constant__ join_grad_task task) {
    const int64_t i = (int64_t)blockIdx.x * join_grad_threads + threadIdx.x;
    const int64_t voxel = i / task.groups;
    const int first = (int)(i % task.groups) * join_grad_channels;
    if (voxel >= min_of(*task.count, task.capacity)) {
        return;
    }
    wide_elements<E, join_grad_channels> grad;
    wide_read_channels((const E *)task.from + voxel * task.channels, task.channels, first,
                       task.wide, grad);
    for (int32_t r = task.rows.begin[voxel]; r < task.rows.begin[voxel + 1]; ++r) {
        int32_t row;
        E *const to = (E *)task.to[join_set_of(task.bases, task.rows.order[r], &row)];
        if (to) {
            wide_write_channels(grad, to + (int64_t)row * task.channels, task.channels, first,
                                task.wide);
        }
    }
}

SPIRA_API join_grad_task join_grad_task_make(const join_sum_grad_args *a) {
    join_grad_task t = {};
    join_bases(a->capacity, a->sets, t.bases);
    t.from = a->out_grad;
    t.channels = a->channels;
    t.groups = (int)ceil_div(a->channels, join_grad_channels);
    t.rows = a->rows;
    t.count = a->count;
    t.capacity = a->out_capacity;
    t.wide = a->channels % join_grad_channels == 0 && wide_aligned(a->out_grad, 16);
    for (int s = 0; s < a->sets; ++s) {
        t.to[s] = a->in_grad[s];
        t.wide = t.wide && wide_aligned(a->in_grad[s], 16);
    }
    return t;
}

} // namespace spira

#endif
