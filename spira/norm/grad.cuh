// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/norm/grad.cuh: the kernel of norm_grad (norm.cuh).
//
// Lanes of a thread block share a row, 8 or 16 channels each, so that features and out_grad are
// read once. A thread block goes through its rows with the same lanes for the same channels: a lane
// adds up what gain and shift get of its rows; the sums of all thread blocks are added behind it.
#ifndef SPIRA_NORM_GRAD_CUH
#define SPIRA_NORM_GRAD_CUH

#include "pair.cuh"

namespace spira {

struct norm_grad_task {
    norm_grad_args args;
    norm_pair *part; // [norm_grad_parts, channels]
    norm_cut cut;    // wide: of rows; gain is read element by element
};

// Thread blocks. The sums of each are written and read again: of wide rows there are fewer.
SPIRA_BOTH int norm_grad_parts(int channels, int32_t capacity) {
    const int rows = norm_threads / norm_row_lanes(channels, norm_threads);
    const int64_t most = min_of((1 << 20) / channels, 4096);
    return (int)min_of(most, ceil_div(capacity, 2 * rows));
}

// Adds up what the lanes of a row have, in one order for all of them. Called by whole thread
// blocks. warps: shared memory.
template <int n>
SPIRA_DEVICE void norm_row_sums(float (&sum)[n], int lanes, float (&warps)[norm_threads / 32][n]) {
#pragma unroll
    for (float &one : sum) {
        one = norm_lanes_sum(one, min(lanes, 32));
    }
    if (lanes <= 32) {
        return;
    }
    const int own = (int)threadIdx.x / 32, first = own & ~(lanes / 32 - 1);
    __syncthreads(); // the sums before have been read
    if (threadIdx.x % 32 == 0) {
#pragma unroll
        for (int i = 0; i < n; ++i) {
            warps[own][i] = sum[i];
        }
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < n; ++i) {
        sum[i] = warps[first][i];
        for (int w = 1; w < lanes / 32; ++w) {
            sum[i] += warps[first + w][i];
        }
    }
}

// Writes the sums of a thread block. own: of piece `at` of the channels; pairs: [rows, width]
SPIRA_DEVICE void norm_grad_part(const norm_grad_task &t, int at,
                                 const norm_pair (&own)[norm_group],
                                 norm_pair (&pairs)[(int)norm_threads * (int)norm_group]) {
    const int width = norm_group << t.cut.log_lanes, channels = t.args.norm.channels;
    __syncthreads(); // the piece before has been read
#pragma unroll
    for (int k = 0; k < norm_group; ++k) {
        pairs[(int)threadIdx.x * norm_group + k] = own[k];
    }
    __syncthreads();
    for (int i = (int)threadIdx.x; i < width && at * width + i < channels; i += norm_threads) {
        norm_pair all = pairs[i];
        for (int row = width; row < (int)norm_threads * (int)norm_group; row += width) {
            all = norm_pair_join<true>(all, 0, pairs[row + i], 0);
        }
        t.part[(int64_t)blockIdx.x * channels + at * width + i] = all;
    }
}

// held: groups of 8 channels of a lane
template <typename E, int held>
SPIRA_KERNEL void __launch_bounds__(norm_threads)
    norm_grad_kernel(const __grid_constant__ norm_grad_task t) {
    __shared__ float one[norm_threads / 32][1], three[norm_threads / 32][3];
    __shared__ norm_pair pairs[(int)norm_threads * (int)norm_group];
    const norm_args &a = t.args.norm;
    const int lanes = 1 << t.cut.log_lanes, lane = (int)threadIdx.x & (lanes - 1);
    const int rows = norm_threads >> t.cut.log_lanes; // of a thread block
    const int32_t count = count_clamp(*a.count, a.capacity);
    wide_elements<float, norm_group> gain[held];
    norm_pair sums[held][norm_group] = {};
#pragma unroll
    for (int h = 0; h < held; ++h) {
        const int first = (lane + h * lanes) * norm_group;
        norm_vector_read(a.gain, a.channels, first, false, 1.0f, gain[h]);
    }
    for (int64_t begin = (int64_t)blockIdx.x * rows; begin < count;
         begin += (int64_t)gridDim.x * rows) {
        const int64_t i = begin + ((int)threadIdx.x >> t.cut.log_lanes);
        const int channels = i < count ? a.channels : 0; // rows past the last share the sums
        const int64_t place = i < count ? i * a.channels : 0;
        wide_elements<E, norm_group> row[held] = {}, out_grad[held] = {};
        float sum[1] = {};
#pragma unroll
        for (int h = 0; h < held; ++h) {
            const int first = (lane + h * lanes) * norm_group;
            if (first < channels) {
                wide_read_channels((const E *)a.in + place, channels, first, t.cut.wide, row[h]);
                wide_read_channels((const E *)t.args.out_grad + place, channels, first, t.cut.wide,
                                   out_grad[h]);
            }
        }
#pragma unroll
        for (int h = 0; h < held; ++h) {
#pragma unroll
            for (int k = 0; k < norm_group; ++k) {
                sum[0] += element_to_float(row[h].at[k]);
            }
        }
        if (a.kind == norm_layer) {
            norm_row_sums(sum, lanes, one);
        }
        const float mean = a.kind == norm_layer ? sum[0] * t.cut.part : 0.0f;
        float about[3] = {}; // of (x - mean)^2, g, g * (x - mean)
#pragma unroll
        for (int h = 0; h < held; ++h) {
#pragma unroll
            for (int k = 0; k < norm_group; ++k) {
                const float x = float_subtract(element_to_float(row[h].at[k]), mean);
                const float g = element_to_float(out_grad[h].at[k]) * gain[h].at[k];
                const bool own = (lane + h * lanes) * norm_group + k < channels;
                about[0] = own ? fmaf(x, x, about[0]) : about[0];
                about[1] = own ? about[1] + g : about[1];
                about[2] = own ? fmaf(g, x, about[2]) : about[2];
            }
        }
        norm_row_sums(about, lanes, three);
        const float scale = norm_scale(a, t.cut.part, about[0]);
        const float means[2] = {a.kind == norm_layer ? about[1] * t.cut.part : 0.0f,
                                about[2] * scale * t.cut.part};
#pragma unroll
        for (int h = 0; h < held; ++h) {
            const int first = (lane + h * lanes) * norm_group;
#pragma unroll
            for (int k = 0; k < norm_group; ++k) {
                const float y = element_to_float(out_grad[h].at[k]);
                const float x = norm_centre({mean, scale}, element_to_float(row[h].at[k]));
                sums[h][k].a += y;
                sums[h][k].b = fmaf(y, x, sums[h][k].b);
                row[h].at[k] =
                    element_from_float<E>(norm_grad_finish(scale, y * gain[h].at[k], x, means));
            }
            if (first < channels) {
                wide_write_channels(row[h], (E *)t.args.in_grad + place, channels, first,
                                    t.cut.wide);
            }
        }
    }
#pragma unroll
    for (int h = 0; h < held; ++h) {
        norm_grad_part(t, h, sums[h], pairs);
    }
}

} // namespace spira

#endif
