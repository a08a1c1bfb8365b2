// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/conv/group/grad.cuh: the weight gradient of depthwise and grouped convolution. Thread
// blocks add up the weights over a share of the rows; a second kernel adds up the shares in order.
//
// Depthwise: a thread block reads the map of 128 rows and up to 32 offsets into shared memory. Then
// a warp takes an offset at a time, lists the pairs of its column, and adds up their products in
// registers. The sums of all offsets stay in shared memory from tile to tile.
#ifndef SPIRA_CONV_GROUP_GRAD_CUH
#define SPIRA_CONV_GROUP_GRAD_CUH

#include "../../workspace.h"
#include "depthwise.cuh"

namespace spira {

enum {
    group_grad_threads = 128,
    group_grad_warps = group_grad_threads / 32,
    group_tile = 128,      // rows
    group_span_most = 32,  // offsets of a thread block
    group_rows_least = 64, // of a share where it is not depthwise
    group_blocks = 792,    // thread blocks, where there are rows enough
};

struct group_grad_cut {
    int32_t shares, rows; // of a share
    int slices, pieces;   // of the channels; of a slice
};

SPIRA_API group_grad_cut group_grad_cut_of(const conv_group_shape *s, int32_t capacity) {
    const bool depthwise = conv_group_depthwise(*s);
    const int64_t pieces = ceil_div(s->cout, group_piece), slices = ceil_div(pieces, 32);
    const int64_t others = depthwise ? slices * ceil_div(s->volume, group_span_most)
                                     : ceil_div(conv_group_weights(*s), group_threads);
    const int64_t least = depthwise ? group_tile : group_rows_least;
    const int64_t most = ceil_div(group_blocks, others);
    const int64_t shares = max_of(min_of(ceil_div(capacity, least), most), 1);
    const int64_t rows = ceil_div(capacity, shares);
    return {(int32_t)ceil_div(capacity, max_of(rows, 1)), (int32_t)rows, (int)slices,
            (int)ceil_div(pieces, slices)};
}

// ---- depthwise ----------------------------------------------------------------------------------

struct group_grad_shared {
    float4 sum[group_span_most][32];               // of the lanes
    int32_t map[group_tile][group_span_most + 1];  // odd pitch: no bank conflicts
    group_pair list[group_grad_warps][group_tile]; // of a column: source, row of the tile
    int32_t next;                                  // offset that no warp has taken
};

// Reads the map of a tile. rows: that are there.
SPIRA_DEVICE void group_grad_map(const conv_group_grad_args &a, int64_t begin, int rows, int first,
                                 group_grad_shared &shared) {
    const int lane = warp_lane(), warp = (int)threadIdx.x / 32, volume = a.shape.volume;
    const int32_t *const from = a.map + begin * volume + first + lane;
#pragma unroll 8
    for (int row = warp; row < group_tile; row += group_grad_warps) {
        const bool there = row < rows && first + lane < volume;
        shared.map[row][lane] = there ? from[(int64_t)row * volume] : -1;
    }
}

// Lists the pairs of column k, rows ascending.
SPIRA_DEVICE int group_grad_list(const group_grad_shared &shared, int k, group_pair *list) {
    const int lane = warp_lane();
    int found = 0;
#pragma unroll
    for (int row = lane; row < group_tile; row += 32) {
        const int32_t source = shared.map[row][k];
        const uint32_t all = __ballot_sync(~0u, source >= 0);
        if (source >= 0) {
            list[found + __popc(all & ((1u << lane) - 1))] = {source, row};
        }
        found += __popc(all);
    }
    return found;
}

// The lane's part of a column: each `step`-th pair from `first` on, channels c .. c + 3.
struct group_grad_part {
    int first, step, c;
};

template <typename E, bool wide>
SPIRA_DEVICE void group_grad_add(const conv_group_grad_args &a, const E *grads,
                                 const group_pair *list, int pairs, const group_grad_part &part,
                                 float4 &sum) {
    enum { flight = wide ? 8 : 1 };
    const int left = a.shape.cin - part.c;
    const uint32_t pitch = (uint32_t)a.shape.cin * (uint32_t)sizeof(E);
    const E *const in = group_keep((const E *)a.in + part.c);
    grads = group_keep(grads + part.c);
    list += part.first;
    pairs -= part.first;
#pragma unroll 1
    for (; pairs > 0; pairs -= part.step * flight, list += part.step * flight) {
        conv_quad<E> x[flight], y[flight];
#pragma unroll
        for (int i = 0; i < flight; ++i) {
            if (i * part.step < pairs) {
                const group_pair pair = list[i * part.step];
                x[i] = conv_quad_load<E, wide>(group_row(in, pair.source, pitch), left);
                y[i] = conv_quad_load<E, wide>(group_row(grads, pair.weight, pitch), left);
            }
        }
#pragma unroll
        for (int i = 0; i < flight; ++i) {
            if (i * part.step < pairs) {
                group_quad_add(x[i], y[i], sum);
            }
        }
    }
}

// Writes the sums of a share, those of lanes with the same channels together.
SPIRA_DEVICE void group_grad_store(const conv_group_grad_args &a, const group_grad_cut &cut,
                                   const group_grad_shared &shared, float *parts) {
    const int first = (int)blockIdx.z * group_span_most, channels = a.shape.cout;
    const int offsets = min((int)group_span_most, a.shape.volume - first);
    float *const to = parts + (blockIdx.x * (int64_t)a.shape.volume + first) * channels;
    for (int i = (int)threadIdx.x; i < offsets * cut.pieces; i += group_grad_threads) {
        const int k = i / cut.pieces, piece = i % cut.pieces;
        float sum[group_piece] = {};
        for (int lane = piece; lane < 32 / cut.pieces * cut.pieces; lane += cut.pieces) {
            const float4 v = shared.sum[k][lane];
            sum[0] += v.x;
            sum[1] += v.y;
            sum[2] += v.z;
            sum[3] += v.w;
        }
        const int c = ((int)blockIdx.y * cut.pieces + piece) * group_piece;
#pragma unroll
        for (int e = 0; e < group_piece; ++e) {
            if (c + e < channels) {
                to[(int64_t)k * channels + c + e] = sum[e];
            }
        }
    }
}

// parts [shares, volume, channels]. Thread blocks: x shares, y slices of the channels, z offsets.
// A lane has 4 channels, and as many lanes as there is room for have the same: each adds up a part
// of a column's pairs.
template <typename E, bool wide>
SPIRA_KERNEL void __launch_bounds__(group_grad_threads, 6)
    group_grad_depthwise_kernel(const __grid_constant__ conv_group_grad_args a,
                                const group_grad_cut cut, float *parts) {
    __shared__ group_grad_shared shared;
    const int lane = warp_lane(), warp = (int)threadIdx.x / 32, channels = a.shape.cin;
    const int first = (int)blockIdx.z * group_span_most;
    const int offsets = min((int)group_span_most, a.shape.volume - first);
    const int step = 32 / cut.pieces, own = lane / cut.pieces;
    const int c = ((int)blockIdx.y * cut.pieces + lane % cut.pieces) * group_piece;
    const group_grad_part part = {own < step && c < channels ? own : (int)group_tile, step, c};
    const int64_t begin = (int64_t)blockIdx.x * cut.rows;
    const int64_t end = min_of(begin + cut.rows, count_clamp(*a.count, a.capacity));
    for (int k = warp; k < group_span_most; k += group_grad_warps) {
        shared.sum[k][lane] = make_float4(0, 0, 0, 0);
    }
#pragma unroll 1
    for (int64_t row = begin; row < end; row += group_tile) {
        __syncthreads(); // the tile before has been read
        group_grad_map(a, row, (int)min_of(end - row, group_tile), first, shared);
        if (threadIdx.x == 0) {
            shared.next = 0;
        }
        __syncthreads();
        for (;;) {
            int taken = lane == 0 ? atomicAdd(&shared.next, 1) : 0;
            taken = __shfl_sync(~0u, taken, 0);
            if (taken >= offsets) {
                break;
            }
            const int k = (offsets / 2 + taken) % offsets; // that of the outputs themselves first
            const int pairs = group_grad_list(shared, k, shared.list[warp]);
            __syncwarp();
            float4 sum = shared.sum[k][lane];
            group_grad_add<E, wide>(a, (const E *)a.out_grad + row * channels, shared.list[warp],
                                    pairs, part, sum);
            shared.sum[k][lane] = sum;
            __syncwarp(); // the list has been read
        }
    }
    __syncthreads();
    group_grad_store(a, cut, shared, parts);
}

// ---- grouped ------------------------------------------------------------------------------------

// A thread adds up one weight. Thread blocks: x weights, y shares.
template <typename E>
SPIRA_KERNEL void __launch_bounds__(group_threads)
    group_grad_kernel(const __grid_constant__ conv_group_grad_args a, const group_grad_cut cut,
                      float *parts) {
    const conv_group_shape &s = a.shape;
    const int64_t total = conv_group_weights(s);
    const int64_t w = (int64_t)blockIdx.x * group_threads + threadIdx.x;
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
    float sum = 0;
#pragma unroll 4
    for (int64_t o = begin; o < end; ++o) {
        const int64_t source = a.map[o * s.volume + k];
        if (source >= 0) {
            sum = fmaf(element_to_float(from[source * s.cin]), element_to_float(grad[o * s.cout]),
                       sum);
        }
    }
    parts[(int64_t)blockIdx.y * total + w] = sum;
}

// ---- shares -------------------------------------------------------------------------------------

// parts [shares, total]. A warp of a thread block adds up each eighth share of 32 weights.
SPIRA_PLAIN_KERNEL void __launch_bounds__(group_threads)
    group_grad_join_kernel(const float *parts, int32_t shares, int64_t total, float *weight_grad) {
    __shared__ float sums[group_warps][32];
    const int lane = warp_lane(), warp = (int)threadIdx.x / 32;
    const int64_t w = (int64_t)blockIdx.x * 32 + lane;
    float sum = 0;
    if (w < total) {
#pragma unroll 8
        for (int32_t i = warp; i < shares; i += group_warps) {
            sum += parts[i * total + w];
        }
    }
    sums[warp][lane] = sum;
    __syncthreads();
    if (warp == 0 && w < total) {
        for (int i = 1; i < group_warps; ++i) {
            sum += sums[i][lane];
        }
        weight_grad[w] = sum;
    }
}

template <typename E>
SPIRA_API status group_grad_launch(const conv_group_grad_args *a, float *parts,
                                   cudaStream_t stream) {
    const char *const subject = "conv_group_grad_weight";
    const group_grad_cut cut = group_grad_cut_of(&a->shape, a->capacity);
    const int64_t total = conv_group_weights(a->shape);
    if (conv_group_depthwise(a->shape)) {
        const size_t bytes = group_piece * sizeof(E);
        const bool wide = a->shape.cout % group_piece == 0 && wide_aligned(a->in, bytes) &&
                          wide_aligned(a->out_grad, bytes);
        const dim3 blocks((unsigned)cut.shares, (unsigned)cut.slices,
                          (unsigned)ceil_div(a->shape.volume, group_span_most));
        SPIRA_TRY(kernel_launch(wide ? group_grad_depthwise_kernel<E, true>
                                     : group_grad_depthwise_kernel<E, false>,
                                {blocks, group_grad_threads, stream, subject}, *a, cut, parts));
    } else {
        const dim3 blocks((unsigned)ceil_div(total, group_threads), (unsigned)cut.shares);
        SPIRA_TRY(kernel_launch(group_grad_kernel<E>, {blocks, group_threads, stream, subject}, *a,
                                cut, parts));
    }
    return kernel_launch(group_grad_join_kernel<>,
                         {(unsigned)ceil_div(total, 32), group_threads, stream, subject}, parts,
                         cut.shares, total, a->weight_grad);
}

} // namespace spira

#endif
