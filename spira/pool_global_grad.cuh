// spira/pool_global_grad.cuh: the gradient of global pooling on the GPU.
//
// Of a maximum: each part of a batch index finds its largest value, then each batch index the
// largest of its parts. Then every voxel is written.
#ifndef SPIRA_POOL_GLOBAL_GRAD_CUH
#define SPIRA_POOL_GLOBAL_GRAD_CUH

#include "base/launch.cuh"
#include "device.h"
#include "numeric.cuh"
#include "pool_global_grad.h"
#include "workspace.h"

namespace spira {

enum { pool_global_grad_parts = 64, pool_global_grad_threads = 256 };

// What the kernels hand on.
struct pool_global_grad_places {
    int32_t *part;   // [batches, parts, channels] the winner of each part, or -1; of a maximum
    int32_t *winner; // [batches, channels] the same of a batch index; of a maximum
    int32_t *voxels; // [batches]
};

template <typename W>
SPIRA_API pool_global_grad_places pool_global_grad_take(workspace *w,
                                                        const pool_global_grad_args<W> *a) {
    const int64_t rows = (int64_t)a->layout->batches * a->channels, some = a->kind == pool_max;
    pool_global_grad_places p;
    p.part = workspace_take<int32_t>(w, some * rows * pool_global_grad_parts);
    p.winner = workspace_take<int32_t>(w, some * rows);
    p.voxels = workspace_take<int32_t>(w, a->layout->batches);
    return p;
}

// The winner of a part. Thread blocks: x parts, y batch indices.
template <typename W, typename E>
SPIRA_KERNEL void __launch_bounds__(pool_global_grad_threads)
    pool_global_grad_part_kernel(pool_global_grad_args<W> a, word_layout layout,
                                 pool_global_grad_places p) {
    int32_t first, last;
    pool_batch_range(&layout, a.set.words, voxel_set_count(a.set), (int)blockIdx.y, &first, &last);
    const int64_t length = ceil_div(last - first, pool_global_grad_parts);
    const int64_t begin = min_of(first + blockIdx.x * length, last);
    const int64_t end = min_of(begin + length, last);
    for (int c = (int)threadIdx.x; c < a.channels; c += pool_global_grad_threads) {
        int32_t winner = -1;
        float value = 0;
        for (int64_t v = begin; v < end; ++v) {
            const float x = element_to_float(((const E *)a.in)[v * a.channels + c]);
            const bool takes = pool_takes(winner < 0, x, value);
            winner = takes ? (int32_t)v : winner;
            value = takes ? x : value;
        }
        p.part[((int64_t)blockIdx.y * pool_global_grad_parts + blockIdx.x) * a.channels + c] =
            winner;
    }
}

// The winner of a batch index, and its voxels. Thread blocks: x channels, y batch indices.
template <typename W, typename E>
SPIRA_KERNEL void __launch_bounds__(pool_global_grad_threads)
    pool_global_grad_join_kernel(pool_global_grad_args<W> a, word_layout layout,
                                 pool_global_grad_places p) {
    const int c = (int)(blockIdx.x * pool_global_grad_threads + threadIdx.x);
    if (c == 0) {
        int32_t first, last;
        pool_batch_range(&layout, a.set.words, voxel_set_count(a.set), (int)blockIdx.y, &first,
                         &last);
        p.voxels[blockIdx.y] = last - first;
    }
    if (a.kind == pool_average || c >= a.channels) {
        return;
    }
    int32_t winner = -1;
    float value = 0;
    for (int s = 0; s < pool_global_grad_parts; ++s) {
        const int32_t v =
            p.part[((int64_t)blockIdx.y * pool_global_grad_parts + s) * a.channels + c];
        if (v >= 0) {
            const float x = element_to_float(((const E *)a.in)[(int64_t)v * a.channels + c]);
            const bool takes = pool_takes(winner < 0, x, value);
            winner = takes ? v : winner;
            value = takes ? x : value;
        }
    }
    p.winner[(int64_t)blockIdx.y * a.channels + c] = winner;
}

template <typename W, typename E>
SPIRA_KERNEL void __launch_bounds__(pool_global_grad_threads)
    pool_global_grad_kernel(pool_global_grad_args<W> a, word_layout layout,
                            pool_global_grad_places p) {
    const int64_t at = (int64_t)blockIdx.x * pool_global_grad_threads + threadIdx.x;
    const int64_t v = at / a.channels, c = at % a.channels;
    if (v >= voxel_set_count(a.set)) {
        return;
    }
    const int64_t b = word_unpack(&layout, a.set.words[v]).batch;
    if (b >= layout.batches) { // of no batch of the layout
        return;
    }
    const float grad = element_to_float(((const E *)a.out_grad)[b * a.channels + c]);
    float value = 0;
    if (a.kind == pool_average) {
        value = __fdiv_rn(grad, (float)p.voxels[b]);
    } else if (p.winner[b * a.channels + c] == v) {
        value = grad;
    }
    ((E *)a.in_grad)[at] = element_from_float<E>(value);
}

template <typename W, typename E>
SPIRA_API status pool_global_grad_start(const pool_global_grad_args<W> &a,
                                        const pool_global_grad_places &p, cudaStream_t stream) {
    const unsigned batches = (unsigned)a.layout->batches;
    const dim3 parts(pool_global_grad_parts, batches);
    const dim3 joins((unsigned)ceil_div(a.channels, pool_global_grad_threads), batches);
    const int64_t all = ceil_div((int64_t)a.set.capacity * a.channels, pool_global_grad_threads);
    SPIRA_REQUIRE(all <= INT32_MAX, status_bad_size, "set.capacity * channels", all);
    auto launch = [&](auto kernel, dim3 grid) {
        return kernel_launch(kernel, grid, pool_global_grad_threads, 0, false, 1, stream,
                             "pool_global_grad", a, *a.layout, p);
    };
    if (a.kind == pool_max) {
        SPIRA_TRY(launch(pool_global_grad_part_kernel<W, E>, parts));
    }
    SPIRA_TRY(launch(pool_global_grad_join_kernel<W, E>, joins));
    return launch(pool_global_grad_kernel<W, E>, (unsigned)all);
}

// Bytes of scratch for pool_global_grad. Of the pointers, only `layout` is read.
template <typename W>
SPIRA_API status pool_global_grad_workspace(const pool_global_grad_args<W> *args, size_t *bytes) {
    SPIRA_REQUIRE(args, status_null_pointer, "args", 0);
    SPIRA_TRY(word_check<W>(args->layout));
    SPIRA_REQUIRE(args->layout->batches <= 65535, status_bad_size, "layout.batches",
                  args->layout->batches);
    SPIRA_REQUIRE(args->channels >= 1, status_bad_size, "channels", args->channels);
    SPIRA_REQUIRE(bytes, status_null_pointer, "bytes", 0);
    workspace w = workspace_begin(nullptr);
    pool_global_grad_take(&w, args);
    *bytes = w.used;
    return status_success();
}

// The gradient of `pool_global`.
//
// format   compiled for; numeric_any: all four, chosen by args->type
//
// inputs   args: see pool_global_grad_args; arrays in device memory
//          scratch: pool_global_grad_workspace, aligned to 256
// outputs  args->in_grad, rounded once; rows from the count on are not written
// errors   null or misaligned pointers, sizes, scratch that is too small
// Asynchronous, deterministic, equal to pool_global_grad_host; two launches, three of a maximum.
template <typename W, numeric format = numeric_any>
SPIRA_API status pool_global_grad(const pool_global_grad_args<W> *args, void *scratch,
                                  size_t scratch_bytes, cudaStream_t stream) {
    size_t needed;
    SPIRA_TRY(pool_global_grad_check(args));
    SPIRA_TRY(pool_global_grad_workspace(args, &needed));
    SPIRA_TRY(workspace_check(scratch, scratch_bytes, needed));
    workspace w = workspace_begin(scratch);
    const pool_global_grad_places places = pool_global_grad_take(&w, args);
    return numeric_dispatch<format>(args->type, [&](auto tag) {
        return pool_global_grad_start<W, typename decltype(tag)::element>(*args, places, stream);
    });
}

} // namespace spira

#endif
