// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/rows/gather.cuh: the kernel of row_gather (rows.cuh).
#ifndef SPIRA_ROWS_GATHER_CUH
#define SPIRA_ROWS_GATHER_CUH

#include "../base/launch.cuh"
#include "../base/wide.cuh"
#include "../rows.h"

namespace spira {

enum { row_gather_threads = 256, row_gather_channels = 8 /* of a thread */ };

// A thread copies 8 channels of an output row.
template <typename E>
SPIRA_KERNEL void __launch_bounds__(row_gather_threads)
    row_gather_kernel(const __grid_constant__ row_gather_args a, int groups, bool wide) {
    const int64_t n = (int64_t)blockIdx.x * row_gather_threads + threadIdx.x;
    const int64_t i = n / groups;
    const int first = (int)(n % groups) * row_gather_channels;
    if (i >= min_of(*a.count, a.capacity)) {
        return;
    }
    const int repeat = row_gather_repeat(&a), channels = a.channels * repeat;
    const int64_t from = a.source[i];
    const bool there = from >= 0 && from < a.in_rows;
    const E *in = (const E *)a.in + (there ? from : 0) * a.channels;
    wide_elements<E, row_gather_channels> row;
    if (repeat == 1) {
        wide_read_channels(in, a.channels, first, wide, row);
    } else {
#pragma unroll
        for (int k = 0; k < row_gather_channels; ++k) {
            row.at[k] = first + k < channels ? in[(first + k) / repeat] : E();
        }
    }
#pragma unroll
    for (int k = 0; k < row_gather_channels; ++k) {
        row.at[k] = there ? row.at[k] : E();
    }
    wide_write_channels(row, (E *)a.out + i * channels, channels, first, wide);
}

template <typename E>
SPIRA_API status row_gather_launch(const row_gather_args *a, cudaStream_t stream) {
    const int64_t channels = (int64_t)a->channels * row_gather_repeat(a);
    const int64_t groups = ceil_div(channels, row_gather_channels);
    const bool wide = channels % row_gather_channels == 0 &&
                      (a->channels % row_gather_channels == 0 || row_gather_repeat(a) > 1) &&
                      wide_aligned(a->in, 16) && wide_aligned(a->out, 16);
    const int64_t blocks = ceil_div(a->capacity * groups, row_gather_threads);
    SPIRA_REQUIRE(blocks <= INT32_MAX, status_bad_size, "channels (times capacity)", channels);
    return kernel_launch(row_gather_kernel<E>,
                         {(unsigned)blocks, row_gather_threads, stream, "row_gather"}, *a,
                         (int)groups, wide);
}

} // namespace spira

#endif
