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
#include "pair.cuh"
#include "row.cuh"

namespace spira {

// Parts of a batch element. Wide rows have fewer: their sums take the most memory; so have few
// rows.
SPIRA_BOTH int norm_parts(int channels, int32_t capacity) {
    const int64_t most = channels <= 512 ? 8 * pool_parts : pool_parts;
    return (int)min_of(most, ceil_div(capacity, norm_lanes));
}

struct norm_groups_places {
    norm_pair *part;     // [batches, norm_parts, channels]
    norm_statistics *of; // [batches, channels] those of the group
    norm_pair *mean;     // [batches, channels] of gradients: of the group; else null
};

template <typename W>
struct norm_groups_task {
    norm_groups_grad_args<W> args; // of norm_groups: args.norm alone
    word_layout layout;
    norm_groups_places places;
    bool wide; // rows are read and written 16 bytes at a time
};

SPIRA_API void norm_groups_carve(workspace *w, int64_t batches, int channels, int32_t capacity,
                                 bool grad, norm_groups_places *p) {
    const int64_t values = batches * channels;
    p->part = workspace_take<norm_pair>(w, values * norm_parts(channels, capacity));
    p->of = workspace_take<norm_statistics>(w, values);
    p->mean = grad ? workspace_take<norm_pair>(w, values) : nullptr;
}

// The rows of a part of a batch element.
struct norm_rows {
    int32_t first, count, all; // all: of the batch element
};

template <typename W>
SPIRA_DEVICE norm_rows norm_rows_of(const norm_groups_task<W> &t, int part, int parts) {
    int32_t first, last;
    pool_batch_range(&t.layout, t.args.norm.set, (int)blockIdx.y, &first, &last);
    const int64_t length = ceil_div(last - first, parts);
    const int64_t begin = min_of(first + part * length, last);
    return {(int32_t)begin, (int32_t)(min_of(begin + length, last) - begin), last - first};
}

// How many of `count` rows a lane has: each lanes-th.
SPIRA_DEVICE int norm_rows_lane(int32_t count, int lane, int lanes) {
    return count > lane ? (count - 1 - lane) / lanes + 1 : 0;
}

// The rows of 8 channels that a lane adds up.
template <typename E>
struct norm_lane_rows {
    const E *in, *out_grad; // of the first one
    int64_t step;           // elements from one to the next
    int count, channels;    // channels: from the first of the 8 on
    bool wide;
    const norm_statistics *of; // of these channels
};

template <typename E, bool grad>
SPIRA_DEVICE void norm_lane_sums(const norm_lane_rows<E> &rows, norm_pair (&own)[norm_group]) {
    float first[norm_group] = {}, a[norm_group] = {}, b[norm_group] = {};
    norm_statistics by[norm_group] = {};
#pragma unroll
    for (int k = 0; k < norm_group && grad && rows.count > 0; ++k) {
        by[k] = rows.of[min(k, rows.channels - 1)];
    }
#pragma unroll 4
    for (int i = 0; i < rows.count; ++i) {
        wide_elements<E, norm_group> row, g;
        wide_read_channels(rows.in + i * rows.step, rows.channels, 0, rows.wide, row);
        if (grad) {
            wide_read_channels(rows.out_grad + i * rows.step, rows.channels, 0, rows.wide, g);
        }
#pragma unroll
        for (int k = 0; k < norm_group; ++k) {
            const float x = element_to_float(row.at[k]);
            if (grad) {
                const float y = element_to_float(g.at[k]);
                a[k] += y;
                b[k] = fmaf(y, norm_centre(by[k], x), b[k]);
            } else {
                first[k] = i == 0 ? x : first[k];
                const float d = float_subtract(x, first[k]);
                a[k] += d;
                b[k] = fmaf(d, d, b[k]);
            }
        }
    }
#pragma unroll
    for (int k = 0; k < norm_group; ++k) {
        own[k] = {a[k], b[k]};
        if (!grad) {
            const float mean = rows.count == 0 ? 0.0f : float_divide(a[k], (float)rows.count);
            const float about = fmaf(-mean, a[k], b[k]);
            own[k] = {first[k] + mean, about < 0 ? 0.0f : about}; // NaN stays
        }
    }
}

// Thread blocks: x parts, y batch elements.
template <typename W, typename E, bool grad>
SPIRA_KERNEL void __launch_bounds__(norm_threads)
    norm_part_kernel(const __grid_constant__ norm_groups_task<W> t) {
    __shared__ norm_pair pairs[(int)norm_threads * (int)norm_group]; // [lanes, columns of 8]
    const norm_args &a = t.args.norm.rows;
    const norm_rows rows = norm_rows_of(t, (int)blockIdx.x, (int)gridDim.x);
    const int columns = pool_columns((int)ceil_div(a.channels, norm_group));
    const int lanes = norm_threads / columns, width = columns * norm_group;
    const int lane = (int)threadIdx.x / columns, own = (int)threadIdx.x % columns * norm_group;
    norm_pair *const to =
        t.places.part + ((int64_t)blockIdx.y * gridDim.x + blockIdx.x) * a.channels;
    for (int at = 0; at < a.channels; at += width) {
        const int c = at + own;
        if (c < a.channels) {
            const int64_t begin = ((int64_t)rows.first + lane) * a.channels + c;
            norm_pair mine[norm_group];
            const norm_lane_rows<E> lane_rows = {(const E *)a.in + begin,
                                                 (const E *)t.args.out_grad + begin,
                                                 (int64_t)lanes * a.channels,
                                                 norm_rows_lane(rows.count, lane, lanes),
                                                 a.channels - c,
                                                 t.wide,
                                                 t.places.of + (int64_t)blockIdx.y * a.channels +
                                                     c};
            norm_lane_sums<E, grad>(lane_rows, mine);
#pragma unroll
            for (int k = 0; k < norm_group; ++k) {
                pairs[lane * width + own + k] = mine[k];
            }
        }
        __syncthreads();
        for (int i = (int)threadIdx.x; i < width && at + i < a.channels; i += norm_threads) {
            norm_pair all = pairs[i];
            float n = (float)norm_rows_lane(rows.count, 0, lanes);
            for (int other = 1; other < lanes; ++other) {
                const float m = (float)norm_rows_lane(rows.count, other, lanes);
                all = norm_pair_join<grad>(all, n, pairs[other * width + i], m);
                n += m;
            }
            to[at + i] = all;
        }
        __syncthreads(); // before the next channels
    }
}

// Thread blocks: x groups, y batch elements.
template <typename W, bool grad>
SPIRA_KERNEL void __launch_bounds__(norm_threads)
    norm_join_kernel(const __grid_constant__ norm_groups_task<W> t) {
    __shared__ norm_block block;
    const norm_args &a = t.args.norm.rows;
    const int width = a.channels / t.args.norm.groups;
    const int parts = norm_parts(a.channels, t.args.norm.set.capacity);
    const int first = (int)blockIdx.x * width;
    const norm_rows rows = norm_rows_of(t, 0, parts);
    const norm_pair *const part = t.places.part + (int64_t)blockIdx.y * parts * a.channels + first;
    norm_pair all = {};
    float n = 0;
    for (int i = (int)threadIdx.x; i < parts * width; i += norm_threads) {
        const int own = i / width, c = i - own * width;
        const float m = (float)max_of(0, min_of(rows.count, rows.all - (int64_t)own * rows.count));
        const float gain = grad && a.gain ? a.gain[first + c] : 1.0f;
        const norm_pair more = part[(int64_t)own * a.channels + c];
        all = norm_pair_join<grad>(all, n, {more.a * gain, more.b * gain}, m);
        n += m;
    }
    all = norm_block_join<grad>(all, n, block);
    const float total = (float)((int64_t)rows.all * width);
    for (int c = first + (int)threadIdx.x; c < first + width && rows.all > 0; c += norm_threads) {
        const int64_t at = (int64_t)blockIdx.y * a.channels + c;
        if (grad) {
            t.places.mean[at] = {float_divide(all.a, total), float_divide(all.b, total)};
        } else {
            t.places.of[at] = {all.a, norm_scale(a, 1.0f, float_divide(all.b, total))};
        }
    }
}

// A thread finishes 8 channels of a row.
template <typename W, typename E, bool grad>
SPIRA_KERNEL void __launch_bounds__(norm_threads)
    norm_apply_kernel(const __grid_constant__ norm_groups_task<W> t) {
    const norm_args &a = t.args.norm.rows;
    const voxel_set<W> &set = t.args.norm.set;
    const uint32_t pieces = (uint32_t)ceil_div(a.channels, norm_group);
    const uint64_t at = (uint64_t)blockIdx.x * norm_threads + threadIdx.x;
    const uint64_t i = at >> 32 ? at / pieces : (uint32_t)at / pieces;
    const int c = (int)(uint32_t)(at - i * pieces) * norm_group;
    if (i >= (uint64_t)voxel_set_count(set)) {
        return;
    }
    const int64_t batch = word_unpack<W>(&t.layout, set.words[i]).batch;
    if (batch >= t.layout.batches) { // of no batch element of the layout
        return;
    }
    const int64_t begin = (int64_t)i * a.channels, group = batch * a.channels + c;
    const void *const second = grad ? t.args.out_grad : a.residual;
    wide_elements<E, norm_group> row, more = {};
    wide_elements<float, norm_group> gain, shift;
    wide_read_channels((const E *)a.in + begin, a.channels, c, t.wide, row);
    if (second) {
        wide_read_channels((const E *)second + begin, a.channels, c, t.wide, more);
    }
    norm_vector_read(a.gain, a.channels, c, false, 1.0f, gain);
    norm_vector_read(grad ? nullptr : a.shift, a.channels, c, false, 0.0f, shift);
    float out[norm_group];
#pragma unroll
    for (int k = 0; k < norm_group; ++k) {
        const int64_t own = group + min(k, a.channels - 1 - c);
        const norm_statistics of = t.places.of[own];
        const float x = norm_centre(of, element_to_float(row.at[k]));
        const float y = element_to_float(more.at[k]);
        if (grad) {
            const norm_pair m = t.places.mean[own];
            const float mean[2] = {m.a, m.b};
            out[k] = norm_grad_finish(of.scale, y * gain.at[k], x, mean);
        } else {
            out[k] = fmaf(x, gain.at[k], shift.at[k]) + y;
        }
    }
    if (!grad) {
        norm_finish_group(a, out);
    }
#pragma unroll
    for (int k = 0; k < norm_group; ++k) {
        row.at[k] = element_from_float<E>(out[k]);
    }
    wide_write_channels(row, (E *)(grad ? t.args.in_grad : a.out) + begin, a.channels, c, t.wide);
}

} // namespace spira

#endif
