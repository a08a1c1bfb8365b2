// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/norm/row.cuh: the kernel of norm (norm.cuh).
//
// Up to 32 lanes of a warp share a row and keep it in registers: it is read once. All lanes add up
// the same numbers in the same order, so each knows the sums.
#ifndef SPIRA_NORM_ROW_CUH
#define SPIRA_NORM_ROW_CUH

#include "../base/launch.cuh"
#include "../base/wide.cuh"
#include "../norm.h"

namespace spira {

enum { norm_threads = 256 };

// Adds up what the lanes of a row have. Called by whole warps.
SPIRA_DEVICE float norm_lanes_sum(float sum, int lanes) {
    for (int step = lanes / 2; step > 0; step /= 2) {
        sum += __shfl_xor_sync(~0u, sum, step);
    }
    return sum;
}

// held: groups of 8 channels that a lane keeps
template <typename E, int held>
SPIRA_KERNEL void __launch_bounds__(norm_threads)
    norm_kernel(const __grid_constant__ norm_args a, int lanes, bool wide) {
    const int lane = (int)threadIdx.x % lanes;
    const int64_t i = ((int64_t)blockIdx.x * norm_threads + threadIdx.x) / lanes;
    const bool there = i < min_of(*a.count, a.capacity);
    const int64_t begin = there ? i * a.channels : 0;
    const int channels = there ? a.channels : 0; // rows past the last share the warp's sums
    wide_elements<E, norm_group> row[held];
    float sum = 0;
#pragma unroll
    for (int h = 0; h < held; ++h) {
        const int first = (lane + h * lanes) * norm_group;
        wide_read_channels((const E *)a.in + begin, channels, first, wide && first < channels,
                           row[h]);
#pragma unroll
        for (int k = 0; k < norm_group; ++k) {
            sum += element_to_float(row[h].at[k]);
        }
    }
    const float mean =
        a.kind == norm_layer ? float_divide(norm_lanes_sum(sum, lanes), (float)a.channels) : 0.0f;
    float squares = 0;
#pragma unroll
    for (int h = 0; h < held; ++h) {
#pragma unroll
        for (int k = 0; k < norm_group; ++k) {
            const float x = float_subtract(element_to_float(row[h].at[k]), mean);
            const bool own = (lane + h * lanes) * norm_group + k < channels;
            squares = own ? fmaf(x, x, squares) : squares;
        }
    }
    const float scale = norm_scale(a, norm_lanes_sum(squares, lanes));
#pragma unroll
    for (int h = 0; h < held; ++h) {
        const int first = (lane + h * lanes) * norm_group;
        if (first >= channels) {
            continue;
        }
        wide_elements<E, norm_group> residual = {};
        if (a.residual) {
            wide_read_channels((const E *)a.residual + begin, channels, first, wide, residual);
        }
#pragma unroll
        for (int k = 0; k < norm_group; ++k) {
            const int c = (int)min_of(first + k, channels - 1);
            const float x = float_subtract(element_to_float(row[h].at[k]), mean);
            row[h].at[k] = element_from_float<E>(
                norm_finish(a, c, x, scale, element_to_float(residual.at[k])));
        }
        wide_write_channels(row[h], (E *)a.out + begin, channels, first, wide);
    }
}

} // namespace spira

#endif
