// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/norm/row.cuh: the kernel of norm (norm.cuh).
//
// Up to 32 lanes of a warp share a row and keep it in registers: it is read once. Rows of more than
// 1024 channels are read three times. All lanes add up the same numbers in the same order, so each
// knows the sums.
#ifndef SPIRA_NORM_ROW_CUH
#define SPIRA_NORM_ROW_CUH

#include "../base/launch.cuh"
#include "../base/wide.cuh"
#include "../norm.h"

namespace spira {

enum { norm_threads = 256 };

// How a launch is cut.
struct norm_cut {
    int log_lanes; // of a row
    bool wide;     // rows are read and written 16 bytes at a time, and gain and shift read
    float part;    // 1 / channels
};

// Adds up what the lanes of a row have. Called by whole warps.
SPIRA_DEVICE float norm_lanes_sum(float sum, int lanes) {
    for (int step = lanes / 2; step > 0; step /= 2) {
        sum += __shfl_xor_sync(~0u, sum, step);
    }
    return sum;
}

// Reads 8 channels of a vector, or fills with what it is where it is null.
SPIRA_DEVICE void norm_vector_read(const float *vector, int channels, int first, bool wide,
                                   float other, wide_elements<float, norm_group> &to) {
    if (vector) {
        wide_read_channels(vector, channels, first, wide, to);
        return;
    }
#pragma unroll
    for (float &x : to.at) {
        x = other;
    }
}

// The activation of 8 channels. It is the same for all, so it is asked once.
SPIRA_DEVICE void norm_finish_group(const norm_args &a, float (&x)[norm_group]) {
    const auto each = [&x, &a](activation act) {
#pragma unroll
        for (float &one : x) {
            const bool keeps_nan = act == activation_silu || !float_is_nan(one);
            one = keeps_nan ? activation_apply(one, act, a.slope) : one;
        }
    };
    if (a.act == activation_silu) {
        each(activation_silu);
    } else if (a.act != activation_none) {
        each(a.act);
    }
}

// held: groups of 8 channels that a lane keeps; 0: it reads them again
template <typename E, int held>
SPIRA_KERNEL void __launch_bounds__(norm_threads, 2)
    norm_kernel(const __grid_constant__ norm_args a, const norm_cut cut) {
    const int lanes = 1 << cut.log_lanes, lane = (int)threadIdx.x & (lanes - 1);
    const int rows = norm_threads >> cut.log_lanes; // of a thread block
    const int64_t i = (int64_t)blockIdx.x * rows + (threadIdx.x >> cut.log_lanes);
    const bool there = i < *a.count && i < a.capacity;
    const int64_t begin = there ? i * a.channels : 0;
    const int channels = there ? a.channels : 0; // rows past the last share the warp's sums
    constexpr int kept = held ? held : 1;
    const int groups = held ? held : (int)ceil_div(channels, lanes * norm_group);
    wide_elements<E, norm_group> row[kept];
    const auto read = [&](int h) {
        const int first = (lane + h * lanes) * norm_group;
        row[h % kept] = {};
        if (first < channels) {
            wide_read_channels((const E *)a.in + begin, channels, first, cut.wide, row[h % kept]);
        }
    };
#pragma unroll
    for (int h = 0; h < held; ++h) { // all at once, so that their reads overlap
        read(h);
    }
    float sum = 0;
#pragma unroll kept
    for (int h = 0; h < groups; ++h) {
        if (!held) {
            read(h);
        }
#pragma unroll
        for (int k = 0; k < norm_group; ++k) {
            sum += element_to_float(row[h % kept].at[k]);
        }
    }
    const float mean = a.kind == norm_layer ? norm_lanes_sum(sum, lanes) * cut.part : 0.0f;
    float squares = 0;
#pragma unroll kept
    for (int h = 0; h < groups; ++h) {
        if (!held) {
            read(h);
        }
#pragma unroll
        for (int k = 0; k < norm_group; ++k) {
            const float x = float_subtract(element_to_float(row[h % kept].at[k]), mean);
            const bool own = (lane + h * lanes) * norm_group + k < channels;
            squares = own ? fmaf(x, x, squares) : squares;
        }
    }
    const float scale = norm_scale(a, cut.part, norm_lanes_sum(squares, lanes));
#pragma unroll kept
    for (int h = 0; h < groups; ++h) {
        const int first = (lane + h * lanes) * norm_group;
        if (first >= channels) {
            continue;
        }
        if (!held) {
            read(h);
        }
        wide_elements<E, norm_group> residual = {};
        if (a.residual) {
            wide_read_channels((const E *)a.residual + begin, channels, first, cut.wide, residual);
        }
        wide_elements<float, norm_group> gain, shift;
        norm_vector_read(a.gain, channels, first, cut.wide, 1.0f, gain);
        norm_vector_read(a.shift, channels, first, cut.wide, 0.0f, shift);
        float out[norm_group];
#pragma unroll
        for (int k = 0; k < norm_group; ++k) {
            const float x = float_subtract(element_to_float(row[h % kept].at[k]), mean) * scale;
            out[k] = fmaf(x, gain.at[k], shift.at[k]) + element_to_float(residual.at[k]);
        }
        norm_finish_group(a, out);
#pragma unroll
        for (int k = 0; k < norm_group; ++k) {
            row[h % kept].at[k] = element_from_float<E>(out[k]);
        }
        wide_write_channels(row[h % kept], (E *)a.out + begin, channels, first, cut.wide);
    }
}

} // namespace spira

#endif
