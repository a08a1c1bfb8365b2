// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/rows/kernel.cuh: the kernels of rows.cuh: a thread for each 8 channels of an output row.
#ifndef SPIRA_ROWS_KERNEL_CUH
#define SPIRA_ROWS_KERNEL_CUH

#include "../base/launch.cuh"
#include "../base/wide.cuh"
#include "../index/radix.cuh"
#include "../rows.h"
#include "../search.h"

namespace spira {

enum { row_threads = 256, row_channels = 8 /* of a thread */ };

// A thread copies 8 channels of an output row.
template <typename E>
SPIRA_KERNEL void __launch_bounds__(row_threads)
    row_gather_kernel(const __grid_constant__ row_gather_args a, int groups, bool wide) {
    const int64_t n = (int64_t)blockIdx.x * row_threads + threadIdx.x;
    const int64_t i = n / groups;
    const int first = (int)(n % groups) * row_channels;
    if (i >= min_of(*a.count, a.capacity)) {
        return;
    }
    const int repeat = row_gather_repeat(&a), channels = a.channels * repeat;
    const int64_t from = a.source[i];
    const bool there = from >= 0 && from < a.in_rows;
    const E *in = (const E *)a.in + (there ? from : 0) * a.channels;
    wide_elements<E, row_channels> row;
    if (repeat == 1) {
        wide_read_channels(in, a.channels, first, wide, row);
    } else {
#pragma unroll
        for (int k = 0; k < row_channels; ++k) {
            row.at[k] = first + k < channels ? in[(first + k) / repeat] : E();
        }
    }
#pragma unroll
    for (int k = 0; k < row_channels; ++k) {
        row.at[k] = there ? row.at[k] : E();
    }
    wide_write_channels(row, (E *)a.out + i * channels, channels, first, wide);
}

// A thread hands the gradient of 8 channels of an output row to its source.
template <typename E>
SPIRA_KERNEL void __launch_bounds__(row_threads)
    row_gather_grad_kernel(const __grid_constant__ row_gather_grad_args a, int groups, bool wide) {
    const int64_t n = (int64_t)blockIdx.x * row_threads + threadIdx.x;
    const int64_t i = n / groups;
    const int first = (int)(n % groups) * row_channels;
    if (i >= min_of(*a.count, a.capacity)) {
        return;
    }
    const int repeat = row_gather_repeat(&a);
    const int64_t to = a.source[i];
    if (to < 0 || to >= a.in_rows) {
        return;
    }
    const E *const grad = (const E *)a.out_grad + i * a.channels * repeat;
    wide_elements<E, row_channels> row;
    if (repeat == 1) {
        wide_read_channels(grad, a.channels, first, wide, row);
    } else {
#pragma unroll
        for (int k = 0; k < row_channels; ++k) {
            const bool own = first + k < a.channels;
            const E *const from = grad + (int64_t)(own ? first + k : 0) * repeat;
            float sum = element_to_float(from[0]);
            for (int m = 1; m < repeat; ++m) {
                sum += element_to_float(from[m]);
            }
            row.at[k] = element_from_float<E>(sum);
        }
    }
    wide_write_channels(row, (E *)a.in_grad + to * a.channels, a.channels, first, wide);
}

// A thread adds up 8 channels of an output row.
template <typename E>
SPIRA_KERNEL void __launch_bounds__(row_threads)
    row_blend_kernel(const __grid_constant__ row_blend_args a, int groups, bool wide) {
    const int64_t t = (int64_t)blockIdx.x * row_threads + threadIdx.x;
    const int64_t i = t / groups;
    const int first = (int)(t % groups) * row_channels;
    if (i >= min_of(*a.count, a.capacity)) {
        return;
    }
    float sum[row_channels] = {};
    wide_elements<E, row_channels> row;
    for (int n = 0; n < a.neighbours; ++n) {
        const int64_t from = a.index[i * a.neighbours + n];
        const float weight = a.weight[i * a.neighbours + n];
        if (from >= 0 && from < a.in_rows) {
            wide_read_channels((const E *)a.in + from * a.channels, a.channels, first, wide, row);
#pragma unroll
            for (int k = 0; k < row_channels; ++k) {
                sum[k] = fmaf(weight, element_to_float(row.at[k]), sum[k]);
            }
        }
    }
#pragma unroll
    for (int k = 0; k < row_channels; ++k) {
        row.at[k] = element_from_float<E>(sum[k]);
    }
    wide_write_channels(row, (E *)a.out + i * a.channels, a.channels, first, wide);
}

// The key of each entry of an index, for its sort.
template <typename K>
SPIRA_KERNEL void __launch_bounds__(row_threads)
    row_keys_kernel(const __grid_constant__ row_lists_args a, K *key) {
    const int64_t e = (int64_t)blockIdx.x * row_threads + threadIdx.x;
    if (e < (int64_t)a.capacity * a.neighbours) {
        key[e] = (K)row_lists_key(a, (int32_t)e);
    }
}

// Where each list starts among the sorted keys.
template <typename K>
SPIRA_KERNEL void __launch_bounds__(row_threads)
    row_begin_kernel(const __grid_constant__ row_lists_args a, const K *sorted) {
    const int64_t row = (int64_t)blockIdx.x * row_threads + threadIdx.x;
    if (row <= a.rows) {
        a.begin[row] = search_lower_bound(sorted, 0, a.capacity * a.neighbours, (K)row);
    }
}

// A thread adds up 8 channels of a row.
template <typename E>
SPIRA_KERNEL void __launch_bounds__(row_threads)
    row_splat_kernel(const __grid_constant__ row_splat_args a, int groups, bool wide) {
    const int64_t n = (int64_t)blockIdx.x * row_threads + threadIdx.x;
    const int64_t row = n / groups;
    const int first = (int)(n % groups) * row_channels;
    if (row >= a.rows) {
        return;
    }
    float sum[row_channels] = {};
    wide_elements<E, row_channels> part;
    for (int32_t at = a.begin[row]; at < a.begin[row + 1]; ++at) {
        const int32_t e = a.order[at];
        const float weight = a.weight ? a.weight[e] : 1.0f;
        wide_read_channels((const E *)a.in + (int64_t)(e / a.neighbours) * a.channels, a.channels,
                           first, wide, part);
#pragma unroll
        for (int k = 0; k < row_channels; ++k) {
            sum[k] = fmaf(weight, element_to_float(part.at[k]), sum[k]);
        }
    }
#pragma unroll
    for (int k = 0; k < row_channels; ++k) {
        part.at[k] = element_from_float<E>(sum[k]);
    }
    wide_write_channels(part, (E *)a.out + row * a.channels, a.channels, first, wide);
}

// How a launch is cut: groups of row_channels, which may be read and written at once.
struct row_cut {
    int64_t rows, channels; // that threads have
    bool aligned;           // no condition of the caller's own speaks against it
    const void *a, *b;
};

struct row_stream {
    cudaStream_t stream;
    const char *name;
};

template <typename A>
SPIRA_API status row_launch(void (*kernel)(A, int, bool), const A *args, const row_cut &cut,
                            const row_stream &to) {
    const int64_t groups = ceil_div(cut.channels, row_channels);
    const bool wide = cut.aligned && cut.channels % row_channels == 0 && wide_aligned(cut.a, 16) &&
                      wide_aligned(cut.b, 16);
    const int64_t blocks = ceil_div(cut.rows * groups, row_threads);
    SPIRA_REQUIRE(blocks <= INT32_MAX, status_bad_size, "channels (times rows)", cut.channels);
    return kernel_launch(kernel, {(unsigned)blocks, row_threads, to.stream, to.name}, *args,
                         (int)groups, wide);
}

} // namespace spira

#endif
