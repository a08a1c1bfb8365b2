// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/pool/kernel.cuh: the kernels of global and local pooling and of their gradients.
//
// The rows of a batch index are cut into parts. A thread block reduces a part, then one reduces the
// results of all parts. The threads of a block are columns (channels) and lanes: a lane takes every
// lanes-th row, and the results of the lanes are reduced in order. Of an average, a result is a sum
// in fp32; of a maximum, the row of the largest value.
#ifndef SPIRA_POOL_KERNEL_CUH
#define SPIRA_POOL_KERNEL_CUH

#include "../base/launch.cuh"
#include "../numeric.cuh"
#include "../pool.h"
#include "../workspace.h"

namespace spira {

enum { pool_parts = 128, pool_global_threads = 256 };

// What the kernels hand on.
struct pool_global_places {
    int32_t *part;   // [batches, pool_parts, channels] a sum (its bits), or a row or -1
    int32_t *winner; // [batches, channels] of a gradient: the row of the maximum, or -1
    int32_t *voxels; // [batches] of a gradient
};

SPIRA_API void pool_global_take(workspace *w, int64_t batches, int channels,
                                pool_global_places *p) {
    p->part = workspace_take<int32_t>(w, batches * channels * pool_parts);
    p->winner = workspace_take<int32_t>(w, batches * channels);
    p->voxels = workspace_take<int32_t>(w, batches);
}

// Bytes of scratch for pool_global and for pool_global_grad.
SPIRA_API status pool_global_workspace(const word_layout *layout, int channels, size_t *bytes) {
    SPIRA_REQUIRE(layout, status_null_pointer, "layout", 0);
    SPIRA_TRY(size_check(channels, 1, INT64_MAX, "channels"));
    SPIRA_TRY(size_check(layout->batches, 1, 65535, "layout.batches"));
    pool_global_places places;
    return workspace_measure(
        bytes, [&](workspace *w) { pool_global_take(w, layout->batches, channels, &places); });
}

// A: pool_global_args or pool_global_grad_args, here and below.
template <typename A>
SPIRA_API status pool_global_carve(const A *a, void *scratch, size_t scratch_bytes,
                                   pool_global_places *p) {
    SPIRA_TRY(size_check(a->layout->batches, 1, 65535, "layout.batches"));
    return workspace_open(scratch, scratch_bytes, [&](workspace *w) {
        pool_global_take(w, a->layout->batches, a->channels, p);
    });
}

// The result of the rows so far: `value` is their sum, or the largest of them, which is of `row`.
struct pool_result {
    float value;
    int32_t row; // of a maximum; -1: none yet
};

// Adds another result. The order of the maxima does not matter: the first of equal rows wins, and
// the last NaN.
SPIRA_DEVICE pool_result pool_result_add(pool_kind kind, pool_result a, pool_result b) {
    if (kind == pool_average) {
        return {a.value + b.value, -1};
    }
    const bool nan = float_is_nan(b.value), other_nan = float_is_nan(a.value);
    const bool takes =
        nan ? !other_nan || b.row > a.row
            : !other_nan && (b.value > a.value || (b.value == a.value && b.row < a.row));
    return b.row >= 0 && (a.row < 0 || takes) ? b : a;
}

template <typename E>
SPIRA_DEVICE pool_result pool_result_of_row(const E *in, int channels, int32_t row, int c) {
    const float x = row < 0 ? 0.0f : element_to_float(in[(int64_t)row * channels + c]);
    return {x, row};
}

// Reduces results [0, count) of a channel by the lanes of a thread block. result(i): the i-th, for
// the thread's own channel. Returns the result to lane 0.
template <typename F>
SPIRA_DEVICE pool_result pool_reduce(pool_kind kind, int columns, int64_t count, F result) {
    __shared__ pool_result lanes_results[pool_global_threads];
    const int lanes = pool_global_threads / columns, lane = (int)threadIdx.x / columns;
    pool_result all = {0, -1};
#pragma unroll 4
    for (int64_t i = lane; i < count; i += lanes) {
        all = pool_result_add(kind, all, result(i));
    }
    lanes_results[threadIdx.x] = all;
    __syncthreads();
    for (int other = 1; other < lanes && lane == 0; ++other) {
        all = pool_result_add(kind, all, lanes_results[other * columns + (int)threadIdx.x]);
    }
    __syncthreads(); // before the next channels
    return all;
}

// Columns of a thread block: a power of two.
SPIRA_BOTH int pool_columns(int channels) {
    int columns = 1;
    while (columns < channels && columns < pool_global_threads) {
        columns *= 2;
    }
    return columns;
}

// The result of a part. Thread blocks: x parts, y batch indices.
template <typename E, typename A>
SPIRA_KERNEL void __launch_bounds__(pool_global_threads)
    pool_part_kernel(A a, word_layout layout, pool_global_places p) {
    int32_t first, last;
    pool_batch_range(&layout, a.set, (int)blockIdx.y, &first, &last);
    const int64_t length = ceil_div(last - first, pool_parts);
    const int64_t begin = min_of(first + blockIdx.x * length, last);
    const int64_t count = min_of(begin + length, last) - begin;
    const int columns = pool_columns(a.channels), column = (int)threadIdx.x % columns;
    for (int at = 0; at < a.channels; at += columns) {
        const int c = (int)min_of(at + column, a.channels - 1);
        const pool_result all = pool_reduce(a.kind, columns, count, [&](int64_t i) {
            return pool_result_of_row((const E *)a.in, a.channels, (int32_t)(begin + i), c);
        });
        if ((int)threadIdx.x < columns && at + column < a.channels) {
            p.part[((int64_t)blockIdx.y * pool_parts + blockIdx.x) * a.channels + c] =
                a.kind == pool_max ? all.row : (int32_t)float_bits(all.value);
        }
    }
}

// The result of a batch index. Thread blocks: x columns, y batch indices. finish(c, result, voxels)
// takes it.
template <typename E, typename A, typename F>
SPIRA_DEVICE void pool_join(const A &a, const word_layout &layout, const pool_global_places &p,
                            F finish) {
    int32_t first, last;
    pool_batch_range(&layout, a.set, (int)blockIdx.y, &first, &last);
    const int columns = pool_columns(a.channels), column = (int)threadIdx.x % columns;
    const int c = (int)min_of((int)blockIdx.x * columns + column, a.channels - 1);
    const int32_t *part = p.part + (int64_t)blockIdx.y * pool_parts * a.channels + c;
    const pool_result all = pool_reduce(a.kind, columns, pool_parts, [&](int64_t i) {
        const int32_t own = part[i * a.channels];
        return a.kind == pool_max ? pool_result_of_row((const E *)a.in, a.channels, own, c)
                                  : pool_result{float_from_bits((uint32_t)own), -1};
    });
    if ((int)threadIdx.x < columns && (int)blockIdx.x * columns + column < a.channels) {
        finish(c, all, last - first);
    }
}

template <typename W, typename E>
SPIRA_KERNEL void __launch_bounds__(pool_global_threads)
    pool_join_kernel(pool_global_args<W> a, word_layout layout, pool_global_places p) {
    pool_join<E>(a, layout, p, [&](int c, pool_result all, int32_t voxels) {
        const bool mean = a.kind == pool_average && voxels > 0;
        ((E *)a.out)[(int64_t)blockIdx.y * a.channels + c] =
            element_from_float<E>(mean ? __fdiv_rn(all.value, (float)voxels) : all.value);
    });
}

// ---- the gradient -------------------------------------------------------------------------------

// The winner of a batch index, and its voxels.
template <typename W, typename E>
SPIRA_KERNEL void __launch_bounds__(pool_global_threads)
    pool_winner_kernel(pool_global_grad_args<W> a, word_layout layout, pool_global_places p) {
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        int32_t first, last;
        pool_batch_range(&layout, a.set, (int)blockIdx.y, &first, &last);
        p.voxels[blockIdx.y] = last - first;
    }
    if (a.kind == pool_max) {
        pool_join<E>(a, layout, p, [&](int c, pool_result all, int32_t) {
            p.winner[(int64_t)blockIdx.y * a.channels + c] = all.row;
        });
    }
}

template <typename W, typename E>
SPIRA_KERNEL void __launch_bounds__(pool_global_threads)
    pool_global_grad_kernel(pool_global_grad_args<W> a, word_layout layout, pool_global_places p) {
    const int64_t at = (int64_t)blockIdx.x * pool_global_threads + threadIdx.x;
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

// ---- launches -----------------------------------------------------------------------------------

// Launches one of the kernels.
template <typename A>
SPIRA_API status pool_global_start(void (*kernel)(A, word_layout, pool_global_places), dim3 blocks,
                                   const A &a, const pool_global_places &p, cudaStream_t stream) {
    return kernel_launch(kernel, {blocks, pool_global_threads, stream, "pool_global"}, a, *a.layout,
                         p);
}

// Reduces parts, then batch indices, by `join`.
template <typename E, typename A>
SPIRA_API status pool_global_reduce(void (*join)(A, word_layout, pool_global_places), const A &a,
                                    const pool_global_places &p, bool parts, cudaStream_t stream) {
    const unsigned batches = (unsigned)a.layout->batches;
    const unsigned columns = (unsigned)ceil_div(a.channels, pool_columns(a.channels));
    if (parts) {
        SPIRA_TRY(
            pool_global_start(pool_part_kernel<E, A>, dim3(pool_parts, batches), a, p, stream));
    }
    return pool_global_start(join, dim3(columns, batches), a, p, stream);
}

// ---- local pooling ------------------------------------------------------------------------------
// A thread for each element.

enum { pool_threads = 256 };

template <typename E>
SPIRA_KERNEL void __launch_bounds__(pool_threads) pool_kernel(pool_args a) {
    const int64_t i = (int64_t)blockIdx.x * pool_threads + threadIdx.x, o = i / a.channels;
    if (o < count_clamp(*a.count, a.capacity)) {
        ((E *)a.out)[i] = element_from_float<E>(pool_value<E>(a, o, i % a.channels));
    }
}

template <typename E>
SPIRA_KERNEL void __launch_bounds__(pool_threads) pool_grad_kernel(pool_grad_args a) {
    const int64_t at = (int64_t)blockIdx.x * pool_threads + threadIdx.x, i = at / a.channels;
    if (i < count_clamp(*a.count, a.capacity)) {
        ((E *)a.in_grad)[at] = element_from_float<E>(pool_grad_value<E>(a, i, at % a.channels));
    }
}

} // namespace spira

#endif
