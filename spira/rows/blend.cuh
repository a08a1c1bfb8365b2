// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/rows/blend.cuh: the kernel of row_blend (rows.cuh).
#ifndef SPIRA_ROWS_BLEND_CUH
#define SPIRA_ROWS_BLEND_CUH

#include "gather.cuh"

namespace spira {

// A thread adds up 8 channels of an output row.
template <typename E>
SPIRA_KERNEL void __launch_bounds__(row_gather_threads)
    row_blend_kernel(const __grid_constant__ row_blend_args a, int groups, bool wide) {
    const int64_t t = (int64_t)blockIdx.x * row_gather_threads + threadIdx.x;
    const int64_t i = t / groups;
    const int first = (int)(t % groups) * row_gather_channels;
    if (i >= min_of(*a.count, a.capacity)) {
        return;
    }
    float sum[row_gather_channels] = {};
    wide_elements<E, row_gather_channels> row;
    for (int n = 0; n < a.neighbours; ++n) {
        const int64_t from = a.index[i * a.neighbours + n];
        const float weight = a.weight[i * a.neighbours + n];
        if (from >= 0 && from < a.in_rows) {
            wide_read_channels((const E *)a.in + from * a.channels, a.channels, first, wide, row);
#pragma unroll
            for (int k = 0; k < row_gather_channels; ++k) {
                sum[k] = fmaf(weight, element_to_float(row.at[k]), sum[k]);
            }
        }
    }
#pragma unroll
    for (int k = 0; k < row_gather_channels; ++k) {
        row.at[k] = element_from_float<E>(sum[k]);
    }
    wide_write_channels(row, (E *)a.out + i * a.channels, a.channels, first, wide);
}

template <typename E>
SPIRA_API status row_blend_launch(const row_blend_args *a, cudaStream_t stream) {
    const int64_t groups = ceil_div(a->channels, row_gather_channels);
    const bool wide = a->channels % row_gather_channels == 0 && wide_aligned(a->in, 16) &&
                      wide_aligned(a->out, 16);
    const int64_t blocks = ceil_div(a->capacity * groups, row_gather_threads);
    SPIRA_REQUIRE(blocks <= INT32_MAX, status_bad_size, "channels (times capacity)", a->channels);
    return kernel_launch(row_blend_kernel<E>,
                         {(unsigned)blocks, row_gather_threads, stream, "row_blend"}, *a,
                         (int)groups, wide);
}

} // namespace spira

#endif
