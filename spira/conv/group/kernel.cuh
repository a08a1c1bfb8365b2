// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/conv/group/kernel.cuh: the kernels of depthwise and grouped convolution and of their weight
// gradient. Features are read as they are, weights are fp32, products are fp32 multiply-adds.
//
// Depthwise, forward: a lane has `held` pieces of 8 channels of an output; a warp has as many
// outputs as its lanes suffice for. The warp reads the map of its outputs, and each lane then walks
// the offsets that its own output has.
#ifndef SPIRA_CONV_GROUP_KERNEL_CUH
#define SPIRA_CONV_GROUP_KERNEL_CUH

#include "../../base/launch.cuh"
#include "../../base/wide.cuh"
#include "../../conv_group.h"
#include "../../workspace.h"

namespace spira {

enum {
    group_threads = 256,
    group_piece = 8,       // channels
    group_rows_least = 64, // of a share of the weight gradient
    group_blocks = 792,    // thread blocks of the weight gradient, where there are rows enough
};

// ---- depthwise ----------------------------------------------------------------------------------

// How a launch of the depthwise kernel is cut.
struct group_cut {
    int lanes; // of an output
    int rows;  // outputs of a warp
};

// Which of 32 offsets from `first` on the lane's output has. row: the warp's first output.
SPIRA_DEVICE uint32_t group_taps(const conv_group_args &a, const group_cut &cut, int64_t row,
                                 int32_t outputs, int first) {
    const int lane = (int)threadIdx.x % 32, own = lane / cut.lanes, k = first + lane;
    uint32_t taps = 0;
#pragma unroll 4
    for (int r = 0; r < cut.rows; ++r) {
        const bool there = row + r < outputs && k < a.shape.volume;
        const bool has = there && a.map[(row + r) * a.shape.volume + k] >= 0;
        const uint32_t all = __ballot_sync(~0u, has);
        taps = r == own ? all : taps;
    }
    return taps;
}

// Reads the weights of a piece.
SPIRA_DEVICE void group_weights_read(const float *from, bool wide, int left, float (&to)[8]) {
    if (wide) {
        wide_elements<float, 8> all;
        wide_read(from, all);
#pragma unroll
        for (int i = 0; i < group_piece; ++i) {
            to[i] = all.at[i];
        }
        return;
    }
#pragma unroll
    for (int i = 0; i < group_piece; ++i) {
        to[i] = i < left ? from[i] : 0.0f;
    }
}

// Reads the lane's channels of a source row.
template <typename E, int held>
SPIRA_DEVICE void group_row_read(const conv_group_args &a, int32_t source, int c, bool wide,
                                 wide_elements<E, group_piece> (&to)[held]) {
    const E *const row = (const E *)a.in + (int64_t)source * a.shape.cin;
#pragma unroll
    for (int h = 0; h < held; ++h) {
        const int first = c + h * group_piece;
        wide_read_channels(row, a.shape.cin, first, wide && first < a.shape.cin, to[h]);
    }
}

// Adds the products of a source row and of the weights of offset k.
template <typename E, int held>
SPIRA_DEVICE void group_row_add(const conv_group_args &a, int k, int c, bool wide,
                                const wide_elements<E, group_piece> (&row)[held],
                                float (&sum)[held][group_piece]) {
    const int64_t at = a.order == conv_weights_of_layer_mirrored ? a.shape.volume - 1 - k : k;
    const float *const from = a.weight + at * a.shape.cin;
#pragma unroll
    for (int h = 0; h < held; ++h) {
        const int first = c + h * group_piece, left = a.shape.cin - first;
        float weight[group_piece];
        group_weights_read(from + first, wide && left > 0, left, weight);
#pragma unroll
        for (int i = 0; i < group_piece; ++i) {
            sum[h][i] = fmaf(element_to_float(row[h].at[i]), weight[i], sum[h][i]);
        }
    }
}

// Up to 32 offsets of an output.
struct group_found {
    const int32_t *map; // of the output
    uint32_t taps;      // those that it has
    int first;          // the offset of bit 0
};

// Adds what they give to the sums of an output, two at a time, so that both rows are in flight. c:
// the lane's first channel.
template <typename E, int held>
SPIRA_DEVICE void group_taps_add(const conv_group_args &a, const group_found &found, int c,
                                 bool wide, float (&sum)[held][group_piece]) {
    const int k0 = found.first;
    for (uint32_t taps = found.taps; taps;) {
        const int k = k0 + __ffs((int)taps) - 1;
        taps &= taps - 1;
        const int next = taps ? k0 + __ffs((int)taps) - 1 : k;
        wide_elements<E, group_piece> row[2][held];
        group_row_read<E, held>(a, found.map[k], c, wide, row[0]);
        group_row_read<E, held>(a, found.map[next], c, wide, row[1]);
        group_row_add<E, held>(a, k, c, wide, row[0], sum);
        if (next != k) {
            group_row_add<E, held>(a, next, c, wide, row[1], sum);
            taps &= taps - 1;
        }
    }
}

// Finishes a piece of an output.
template <typename E>
SPIRA_DEVICE void group_store(const conv_group_args &a, int64_t row, int c, bool wide,
                              const float (&sum)[group_piece]) {
    const int channels = a.shape.cout;
    wide_elements<E, group_piece> v = {};
    if (a.epilogue.residual) {
        wide_read_channels((const E *)a.epilogue.residual + row * channels, channels, c, wide, v);
    }
#pragma unroll
    for (int i = 0; i < group_piece; ++i) {
        const int own = c + i < channels ? c + i : channels - 1;
        const float residual = a.epilogue.residual ? element_to_float(v.at[i]) : 0.0f;
        v.at[i] = element_from_float<E>(conv_group_finish(a.epilogue, sum[i], own, residual));
    }
    wide_write_channels(v, (E *)a.out + row * channels, channels, c, wide);
}

// Thread blocks: x outputs, y slices of the channels. wide: all rows are aligned to 16 bytes.
template <typename E, int held>
SPIRA_KERNEL void __launch_bounds__(group_threads, sizeof(E) == 4 ? 2 : 3)
    group_depthwise_kernel(const __grid_constant__ conv_group_args a, const group_cut cut,
                           bool wide) {
    const int32_t outputs = count_clamp(*a.count, a.capacity);
    const int lane = (int)threadIdx.x % 32, volume = a.shape.volume;
    const int64_t warp = (int64_t)blockIdx.x * (group_threads / 32) + threadIdx.x / 32;
    const int64_t row = warp * cut.rows, own = row + lane / cut.lanes;
    const int c = ((int)blockIdx.y * cut.lanes + lane % cut.lanes) * held * group_piece;
    const bool there = lane < cut.lanes * cut.rows && own < outputs && c < a.shape.cout;
    float sum[held][group_piece] = {};
    if (row >= outputs) {
        return;
    }
    for (int k0 = 0; k0 < volume; k0 += 32) {
        const uint32_t taps = group_taps(a, cut, row, outputs, k0);
        group_taps_add<E, held>(a, {a.map + own * volume, there ? taps : 0, k0}, c, wide, sum);
    }
#pragma unroll
    for (int h = 0; h < held; ++h) {
        if (there && c + h * group_piece < a.shape.cout) {
            group_store<E>(a, own, c + h * group_piece, wide, sum[h]);
        }
    }
}

// ---- grouped ------------------------------------------------------------------------------------
// A thread for each channel of an output.

template <typename E>
SPIRA_KERNEL void __launch_bounds__(group_threads, 4)
    group_kernel(const __grid_constant__ conv_group_args a) {
    const int64_t at = (int64_t)blockIdx.x * group_threads + threadIdx.x, o = at / a.shape.cout;
    if (o < count_clamp(*a.count, a.capacity)) {
        const int c = (int)(at - o * a.shape.cout);
        const E *const residual = (const E *)a.epilogue.residual;
        const float more = residual ? element_to_float(residual[at]) : 0.0f;
        ((E *)a.out)[at] = element_from_float<E>(
            conv_group_finish(a.epilogue, conv_group_sum<E>(a, o, c), c, more));
    }
}

// ---- weight gradient ----------------------------------------------------------------------------
// A thread adds up one weight over a share of the rows, of a depthwise layer 8 neighbouring ones. A
// second kernel adds up the shares in order.

struct group_grad_cut {
    int32_t shares, rows; // of a share
};

SPIRA_API group_grad_cut group_grad_cut_of(const conv_group_shape *s, int32_t capacity) {
    const int64_t units = ceil_div(conv_group_weights(*s), group_piece);
    const int64_t most = ceil_div(group_blocks, ceil_div(units, group_threads));
    const int64_t shares = max_of(min_of(ceil_div(capacity, group_rows_least), most), 1);
    const int64_t rows = ceil_div(capacity, shares);
    return {(int32_t)ceil_div(capacity, max_of(rows, 1)), (int32_t)rows};
}

// parts [shares, weights]. Thread blocks: x units of `wide` weights, y shares.
template <typename E, int wide>
SPIRA_KERNEL void __launch_bounds__(group_threads)
    group_grad_kernel(const __grid_constant__ conv_group_grad_args a, const group_grad_cut cut,
                      float *parts) {
    const conv_group_shape &s = a.shape;
    const int64_t total = conv_group_weights(s);
    const int64_t w = ((int64_t)blockIdx.x * group_threads + threadIdx.x) * wide;
    if (w >= total) {
        return;
    }
    const int in = s.cin / s.groups, out = s.cout / s.groups;
    const int c = (int)(w % s.cout), i = (int)(w / s.cout % in);
    const int64_t k = w / s.cout / in;
    const E *const from = (const E *)a.in + c / out * in + i;
    const E *const grad = (const E *)a.out_grad + c;
    const int64_t begin = (int64_t)blockIdx.y * cut.rows;
    const int64_t end = min_of(begin + cut.rows, count_clamp(*a.count, a.capacity));
    float sum[wide] = {};
#pragma unroll 4
    for (int64_t o = begin; o < end; ++o) {
        const int64_t source = a.map[o * s.volume + k];
        if (source >= 0) {
            wide_elements<E, wide> x, y;
            if constexpr (wide > 1) {
                wide_read(from + source * s.cin, x);
                wide_read(grad + o * s.cout, y);
            } else {
                x.at[0] = from[source * s.cin];
                y.at[0] = grad[o * s.cout];
            }
#pragma unroll
            for (int e = 0; e < wide; ++e) {
                sum[e] = fmaf(element_to_float(x.at[e]), element_to_float(y.at[e]), sum[e]);
            }
        }
    }
#pragma unroll
    for (int e = 0; e < wide; ++e) {
        parts[(int64_t)blockIdx.y * total + w + e] = sum[e];
    }
}

SPIRA_PLAIN_KERNEL void __launch_bounds__(group_threads)
    group_grad_join_kernel(const float *parts, int32_t shares, int64_t total, float *weight_grad) {
    const int64_t w = (int64_t)blockIdx.x * group_threads + threadIdx.x;
    if (w < total) {
        float sum = 0;
        for (int32_t i = 0; i < shares; ++i) {
            sum += parts[i * total + w];
        }
        weight_grad[w] = sum;
    }
}

} // namespace spira

#endif
