// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/norm/batch.cuh: the kernels of norm_groups (norm_groups.cuh).
//
// The rows of a batch element are cut into parts, as for global pooling, but more of them. A lane
// of a thread block sums 8 channels of its rows of a part: x - K and (x - K)^2, where K is the
// channel of its first row, so that nothing cancels that the rows do not have themselves. What
// lanes, then parts and channels of a group have is joined by means and sums of squares about them.
#ifndef SPIRA_NORM_BATCH_CUH
#define SPIRA_NORM_BATCH_CUH

#include "../norm_groups.h"
#include "../pool/kernel.cuh"
#include "row.cuh"

namespace spira {

// Parts of a batch element. Wide rows have fewer: their sums take the most memory.
SPIRA_BOTH int norm_parts(int channels) {
    return channels <= 512 ? 8 * pool_parts : pool_parts;
}

// Of some numbers: their mean, and the sum of (x - mean)^2.
struct norm_moments {
    float mean, squares;
};

struct norm_groups_places {
    norm_moments *part;         // [batches, norm_parts, channels]
    norm_groups_statistics *of; // [batches, channels] those of the group
};

template <typename W>
struct norm_groups_task {
    norm_groups_args<W> args;
    word_layout layout;
    norm_groups_places places;
    bool wide; // rows are read and written 16 bytes at a time
};

SPIRA_API void norm_groups_carve(workspace *w, int64_t batches, int channels,
                                 norm_groups_places *p) {
    p->part = workspace_take<norm_moments>(w, batches * norm_parts(channels) * channels);
    p->of = workspace_take<norm_groups_statistics>(w, batches * channels);
}

// Those of a numbers and b more.
SPIRA_DEVICE norm_moments norm_moments_join(norm_moments x, float a, norm_moments y, float b) {
    if (a == 0 || b == 0) {
        return a == 0 ? y : x;
    }
    const float share = float_divide(b, a + b), d = float_subtract(y.mean, x.mean);
    return {fmaf(d, share, x.mean), fmaf(d * d, a * share, x.squares + y.squares)};
}

// Rows of a batch element in all parts, and in one.
struct norm_rows {
    int32_t first, all;
    int32_t begin, count;
};

template <typename W>
SPIRA_DEVICE norm_rows norm_rows_of(const norm_groups_task<W> &t, int part, int parts) {
    int32_t first, last;
    pool_batch_range(&t.layout, t.args.set, (int)blockIdx.y, &first, &last);
    const int64_t length = ceil_div(last - first, parts);
    const int64_t begin = min_of(first + part * length, last);
    return {first, last - first, (int32_t)begin, (int32_t)(min_of(begin + length, last) - begin)};
}

// How many of `count` rows a lane has: each lanes-th.
SPIRA_DEVICE float norm_rows_lane(int32_t count, int lane, int lanes) {
    return (float)(count > lane ? (count - 1 - lane) / lanes + 1 : 0);
}

// The moments of 8 channels of a lane's rows.
template <typename E>
SPIRA_DEVICE void norm_lane_moments(const E *in, int channels, int c, bool wide, int32_t count,
                                    int lane, int lanes, norm_moments (&own)[norm_group]) {
    float shift[norm_group] = {}, sum[norm_group] = {}, squares[norm_group] = {};
#pragma unroll 4
    for (int32_t i = lane; i < count; i += lanes) {
        wide_elements<E, norm_group> row;
        wide_read_channels(in + (int64_t)i * channels, channels, c, wide, row);
#pragma unroll
        for (int k = 0; k < norm_group; ++k) {
            const float x = element_to_float(row.at[k]);
            shift[k] = i == lane ? x : shift[k];
            const float d = float_subtract(x, shift[k]);
            sum[k] += d;
            squares[k] = fmaf(d, d, squares[k]);
        }
    }
    const float n = norm_rows_lane(count, lane, lanes);
#pragma unroll
    for (int k = 0; k < norm_group; ++k) {
        const float mean = n == 0 ? 0.0f : float_divide(sum[k], n);
        const float about = fmaf(-mean, sum[k], squares[k]);
        own[k] = {shift[k] + mean, about < 0 ? 0.0f : about}; // NaN stays
    }
}

// Thread blocks: x parts, y batch elements.
template <typename W, typename E>
SPIRA_KERNEL void __launch_bounds__(norm_threads)
    norm_part_kernel(const __grid_constant__ norm_groups_task<W> t) {
    __shared__ norm_moments
        moments[(int)norm_threads * (int)norm_group]; // [lanes, columns of 8 channels]
    const norm_groups_args<W> &a = t.args;
    const norm_rows rows = norm_rows_of(t, (int)blockIdx.x, (int)gridDim.x);
    const E *const in = (const E *)a.in + (int64_t)rows.begin * a.channels;
    const int columns = pool_columns((int)ceil_div(a.channels, norm_group));
    const int lanes = norm_threads / columns, width = columns * norm_group;
    const int lane = (int)threadIdx.x / columns, own = (int)threadIdx.x % columns * norm_group;
    norm_moments *const to =
        t.places.part + ((int64_t)blockIdx.y * gridDim.x + blockIdx.x) * a.channels;
    for (int at = 0; at < a.channels; at += width) {
        if (at + own < a.channels) {
            norm_moments mine[norm_group];
            norm_lane_moments(in, a.channels, at + own, t.wide, rows.count, lane, lanes, mine);
#pragma unroll
            for (int k = 0; k < norm_group; ++k) {
                moments[lane * width + own + k] = mine[k];
            }
        }
        __syncthreads();
        for (int c = (int)threadIdx.x; c < width && at + c < a.channels; c += norm_threads) {
            norm_moments all = moments[c];
            float n = norm_rows_lane(rows.count, 0, lanes);
            for (int i = 1; i < lanes; ++i) {
                const float more = norm_rows_lane(rows.count, i, lanes);
                all = norm_moments_join(all, n, moments[i * width + c], more);
                n += more;
            }
            to[at + c] = all;
        }
        __syncthreads(); // before the next channels
    }
}

// Thread blocks: x groups, y batch elements.
template <typename W>
SPIRA_KERNEL void __launch_bounds__(norm_threads)
    norm_join_kernel(const __grid_constant__ norm_groups_task<W> t) {
    __shared__ norm_moments moments[norm_threads];
    __shared__ float numbers[norm_threads];
    const norm_groups_args<W> &a = t.args;
    const int width = a.channels / a.groups, parts = norm_parts(a.channels);
    const norm_rows rows = norm_rows_of(t, 0, parts);
    const norm_moments *const part =
        t.places.part + (int64_t)blockIdx.y * parts * a.channels + (int64_t)blockIdx.x * width;
    norm_moments all = {};
    float n = 0;
    for (int i = (int)threadIdx.x; i < parts * width; i += norm_threads) {
        const int own = i / width;
        const float more = (float)max_of(0, min_of(rows.count, rows.all - own * rows.count));
        all = norm_moments_join(all, n, part[(int64_t)own * a.channels + i % width], more);
        n += more;
    }
    moments[threadIdx.x] = all;
    numbers[threadIdx.x] = n;
    __syncthreads();
    for (int step = norm_threads / 2; step > 0; step /= 2) {
        if ((int)threadIdx.x < step) {
            const int other = (int)threadIdx.x + step;
            moments[threadIdx.x] = norm_moments_join(moments[threadIdx.x], numbers[threadIdx.x],
                                                     moments[other], numbers[other]);
            numbers[threadIdx.x] += numbers[other];
        }
        __syncthreads();
    }
    const float total = (float)((int64_t)rows.all * width);
    for (int c = (int)threadIdx.x; c < width && rows.all > 0; c += norm_threads) {
        t.places.of[(int64_t)blockIdx.y * a.channels + (int64_t)blockIdx.x * width + c] = {
            moments[0].mean, norm_groups_scale(moments[0].squares, total, a.epsilon)};
    }
}

// A thread finishes 8 channels of a row.
template <typename W, typename E>
SPIRA_KERNEL void __launch_bounds__(norm_threads)
    norm_apply_kernel(const __grid_constant__ norm_groups_task<W> t) {
    const norm_groups_args<W> &a = t.args;
    const uint32_t pieces = (uint32_t)ceil_div(a.channels, norm_group);
    const uint64_t at = (uint64_t)blockIdx.x * norm_threads + threadIdx.x;
    const uint64_t i = at >> 32 ? at / pieces : (uint32_t)at / pieces;
    const int first = (int)(uint32_t)(at - i * pieces) * norm_group;
    if (i >= (uint64_t)voxel_set_count(a.set)) {
        return;
    }
    const int64_t batch = word_unpack<W>(&t.layout, a.set.words[i]).batch;
    if (batch >= t.layout.batches) { // of no batch element of the layout
        return;
    }
    const norm_groups_statistics *const of = t.places.of + batch * a.channels;
    wide_elements<E, norm_group> row, residual = {};
    wide_read_channels((const E *)a.in + i * a.channels, a.channels, first, t.wide, row);
    if (a.residual) {
        wide_read_channels((const E *)a.residual + i * a.channels, a.channels, first, t.wide,
                           residual);
    }
#pragma unroll
    for (int k = 0; k < norm_group; ++k) {
        const int c = (int)min_of(first + k, a.channels - 1);
        row.at[k] = element_from_float<E>(norm_groups_finish(a, of[c], element_to_float(row.at[k]),
                                                             c, element_to_float(residual.at[k])));
    }
    wide_write_channels(row, (E *)a.out + i * a.channels, a.channels, first, t.wide);
}

} // namespace spira

#endif
