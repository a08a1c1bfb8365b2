// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/rows/kernel.cuh: the kernels of row_gather and row_blend (rows.cuh): a thread for each 8
// channels of an output row.
#ifndef SPIRA_ROWS_KERNEL_CUH
#define SPIRA_ROWS_KERNEL_CUH

#include "../base/launch.cuh"
#include "../base/wide.cuh"
#include "../rows.h"

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

// A: row_gather_args or row_blend_args. repeat: see row_gather_args.
template <typename A>
SPIRA_API status row_launch(void (*kernel)(A, int, bool), const char *name, const A *a, int repeat,
                            cudaStream_t stream) {
    const int64_t channels = (int64_t)a->channels * repeat;
    const int64_t groups = ceil_div(channels, row_channels);
    const bool wide = channels % row_channels == 0 &&
                      (a->channels % row_channels == 0 || repeat > 1) && wide_aligned(a->in, 16) &&
                      wide_aligned(a->out, 16);
    const int64_t blocks = ceil_div(a->capacity * groups, row_threads);
    SPIRA_REQUIRE(blocks <= INT32_MAX, status_bad_size, "channels (times capacity)", channels);
    return kernel_launch(kernel, {(unsigned)blocks, row_threads, stream, name}, *a, (int)groups,
                         wide);
}

} // namespace spira

#endif
