// spira/join_grad.cuh: the gradient of the features of a joined set on the GPU.
#ifndef SPIRA_JOIN_GRAD_CUH
#define SPIRA_JOIN_GRAD_CUH

#include "base/launch.cuh"
#include "base/wide.cuh"
#include "join_grad.h"

namespace spira {

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

// The gradient of `join_sum`: each source row gets that of its voxel.
//
// format   compiled for; numeric_any: all four, chosen by args->type
//
// inputs   args: see join_sum_grad_args; arrays in device memory; rows and count of `join`
// outputs  args.in_grad, all rows of each set that is wanted: the gradient of the row's voxel; 0 for
//          a row that has none (beyond its set's count, or the result's capacity)
// errors   null or misaligned pointers; sizes; an in_grad that is out_grad; no set that is wanted
// Asynchronous, deterministic, equal to join_sum_grad_host; a memset for each set, and one launch.
template <numeric format = numeric_any>
SPIRA_API status join_sum_grad(const join_sum_grad_args *args, cudaStream_t stream) {
    SPIRA_TRY(join_sum_grad_check(args));
    const join_grad_task task = join_grad_task_make(args);
    const int64_t grid = ceil_div((int64_t)args->out_capacity * task.groups, join_grad_threads);
    SPIRA_REQUIRE(grid <= INT32_MAX, status_bad_size, "channels (times out_capacity)",
                  args->channels);
    return numeric_dispatch<format>(args->type, [&](auto tag) {
        for (int s = 0; s < args->sets; ++s) {
            if (args->in_grad[s]) {
                SPIRA_TRY(status_from_cuda(
                    cudaMemsetAsync(args->in_grad[s], 0, join_sum_grad_bytes(args, s), stream),
                    "join_sum_grad"));
            }
        }
        return kernel_launch(join_grad_kernel<typename decltype(tag)::element>,
                             {(unsigned)grid, join_grad_threads, stream, "join_sum_grad"}, task);
    });
}

} // namespace spira

#endif
