// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/conv/pairs/tensor.cuh: the kernel on tensor cores.
//
// A warp computes a slice of the output channels (up to 32). The warps of a thread block have up to
// four neighbouring slices, and share the units of each.
#ifndef SPIRA_CONV_PAIRS_TENSOR_CUH
#define SPIRA_CONV_PAIRS_TENSOR_CUH

#include "../epilogue.cuh"
#include "walk.cuh"

namespace spira {

// ---- weights and sums ---------------------------------------------------------------------------

// A lane's weights. The columns of two channel groups are permuted so that a lane, which gets
// columns 2 t and 2 t + 1 of each (t = lane % 4), has channels 4 t .. 4 t + 3 of the 16: column n
// of the first group is channel n / 2 * 4 + n % 2, column n of the second is two channels further.
template <int channel_groups>
SPIRA_DEVICE pairs_weights pairs_weights_of(const pairs_params &p, int slice) {
    int lane = threadIdx.x % 32, column = lane / 4 / 2 * 4 + lane / 4 % 2; // of 16
    pairs_weights w;
    w.chunk_bytes = conv_channel_groups(p.conv.cout) * conv_fragment_bytes;
    w.offset_bytes = p.conv.chunks * w.chunk_bytes;
    w.own = (const char *)p.conv.weights + slice * channel_groups * conv_fragment_bytes +
            column * (4 * conv_lane_bytes) + lane % 4 * conv_lane_bytes;
    return w;
}

template <int channel_groups>
SPIRA_DEVICE void pairs_weights_load(const pairs_weights &weights, int offset, int chunk,
                                     uint4 (&to)[channel_groups]) {
    const char *from =
        weights.own + (int64_t)offset * weights.offset_bytes + chunk * weights.chunk_bytes;
#pragma unroll
    for (int m = 0; m < channel_groups; ++m) {
        to[m] = __ldg((const uint4 *)(from + m / 2 * (2 * conv_fragment_bytes) +
                                      m % 2 * (8 * conv_lane_bytes)));
    }
}

// What a warp adds to. A lane has four neighbouring channels of each 16 (pairs_weights_of).
struct pairs_task {
    uint32_t rows; // outputs; pairs of others are skipped
    float *sums;   // row 0, the lane's first channel
    int channels;  // from the lane's first on
};

// Adds four floats in global memory, aligned to 16 bytes. Subnormal sums become zero.
SPIRA_DEVICE void pairs_sums_add(float *to, float4 v) {
#if __CUDA_ARCH__ >= 900
    asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(v.x), "f"(v.y),
                 "f"(v.z), "f"(v.w)
                 : "memory");
#else
    atomicAdd(to, v.x);
    atomicAdd(to + 1, v.y);
    atomicAdd(to + 2, v.z);
    atomicAdd(to + 3, v.w);
#endif
}

// Adds the accumulators of 16 pairs to the sums of their outputs.
template <int channel_groups>
SPIRA_DEVICE void pairs_sums_end(const pairs_params &p, const pairs_task &task,
                                 const pairs_group &group,
                                 const pairs_accumulators<channel_groups> &sum) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        uint32_t row = group.row[h];
        if (row >= task.rows) {
            continue;
        }
#pragma unroll
        for (int q = 0; q < channel_groups / 2; ++q) {
            float4 v = make_float4(sum.at[2 * q][2 * h], sum.at[2 * q][2 * h + 1],
                                   sum.at[2 * q + 1][2 * h], sum.at[2 * q + 1][2 * h + 1]);
            if (q * 16 < task.channels) {
                pairs_sums_add(task.sums + (int64_t)row * p.pitch + q * 16, v);
            }
        }
    }
}

// ---- few input channels: the weights of an offset stay in registers -----------------------------

// Chunks of input channels up to which weights stay in registers.
enum { pairs_near_chunks = 2 };

// Walks from `c` to its end. The rows of two units are loaded ahead of their products.
template <typename E, int channel_groups, pairs_access access>
SPIRA_DEVICE void pairs_walk_near(const pairs_params &p, const pairs_task &task, pairs_cursor c,
                                  const pairs_weights &weights) {
    enum { ahead = 2, chunks = pairs_near_chunks };
    const int32_t rows = (int32_t)task.rows;
    const pairs_piece in = pairs_piece_of(p.conv, 0, sizeof(E));
    pairs_unit<1> coming[ahead], now[ahead];
    uint4 piece[ahead][chunks][2], weight[chunks][channel_groups];

    // Fill the pipeline.
#pragma unroll
    for (int i = 0; i < ahead; ++i) {
        pairs_unit_next(p, rows, c, now[i]);
#pragma unroll
        for (int j = 0; j < chunks; ++j) { // channels past the last are never loaded
            piece[i][j][0] = piece[i][j][1] = make_uint4(0, 0, 0, 0);
        }
        pairs_rows_load<E, chunks, access>(p.conv, in, 0, now[i].group[0], piece[i]);
    }
#pragma unroll
    for (int i = 0; i < ahead; ++i) {
        pairs_unit_next(p, rows, c, coming[i]);
    }

    for (int offset = -1;;) { // the offset of `weight`
#pragma unroll
        for (int i = 0; i < ahead; ++i) {
            if (now[i].offset < 0) {
                return;
            }
            if (now[i].offset != offset) {
                offset = now[i].offset;
                pairs_weights_load<channel_groups>(weights, offset, 0, weight[0]);
                if (p.conv.chunks > 1) {
                    pairs_weights_load<channel_groups>(weights, offset, 1, weight[chunks - 1]);
                }
            }
            pairs_accumulators<channel_groups> sum = {};
            __syncwarp(); // matrix instructions follow
            pairs_multiply_chunk<E, channel_groups>(piece[i][0][0], piece[i][0][1], weight[0], sum);
            if (p.conv.chunks > 1) {
                pairs_multiply_chunk<E, channel_groups>(
                    piece[i][chunks - 1][0], piece[i][chunks - 1][1], weight[chunks - 1], sum);
            }
            pairs_sums_end<channel_groups>(p, task, now[i].group[0], sum);

            // Load the rows of the unit after the next.
            now[i] = coming[i];
            pairs_rows_load<E, chunks, access>(p.conv, in, 0, now[i].group[0], piece[i]);
            pairs_unit_next(p, rows, c, coming[i]);
        }
    }
}

// ---- many input channels: the accumulators of a unit stay in registers --------------------------

enum { pairs_deep_groups = 2 }; // groups of 16 pairs in a unit

// Rows and weights of one chunk.
template <int pair_groups, int channel_groups>
struct pairs_operands {
    uint4 piece[pair_groups][1][2], weights[channel_groups];
};

template <typename E, int pair_groups, int channel_groups, pairs_access access>
SPIRA_DEVICE void pairs_operands_load(const pairs_params &p, const pairs_unit<pair_groups> &unit,
                                      const pairs_weights &weights, int chunk,
                                      pairs_operands<pair_groups, channel_groups> &to) {
    if (unit.offset < 0 || chunk >= p.conv.chunks) {
        return;
    }
    pairs_weights_load<channel_groups>(weights, unit.offset, chunk, to.weights);
    const pairs_piece in = pairs_piece_of(p.conv, chunk, sizeof(E));
#pragma unroll
    for (int i = 0; i < pair_groups; ++i) { // channels past the last must not be those of before
        to.piece[i][0][0] = to.piece[i][0][1] = make_uint4(0, 0, 0, 0);
        pairs_rows_load<E, 1, access>(p.conv, in, chunk, unit.group[i], to.piece[i]);
    }
}

// left: pairs_unit.left
template <typename E, int pair_groups, int channel_groups>
SPIRA_DEVICE void pairs_operands_multiply(const pairs_operands<pair_groups, channel_groups> &by,
                                          int32_t left,
                                          pairs_accumulators<channel_groups> (&sum)[pair_groups]) {
#pragma unroll
    for (int i = 0; i < pair_groups; ++i) {
        if (i == 0 || left > i * pairs_group_rows) {
            pairs_multiply_chunk<E, channel_groups>(by.piece[i][0][0], by.piece[i][0][1],
                                                    by.weights, sum[i]);
        }
    }
}

// Walks from `c` to its end. Two chunks are loaded ahead; after the last chunk of a unit, the first
// ones of the next unit.
template <typename E, int channel_groups, pairs_access access>
SPIRA_DEVICE void pairs_walk_deep(const pairs_params &p, const pairs_task &task, pairs_cursor c,
                                  const pairs_weights &weights) {
    enum { pair_groups = pairs_deep_groups };
    const int chunks = p.conv.chunks;
    const int32_t rows = (int32_t)task.rows;
    pairs_unit<pair_groups> now, coming;
    pairs_operands<pair_groups, channel_groups> even, odd;
    pairs_unit_next(p, rows, c, now);
    pairs_operands_load<E, pair_groups, channel_groups, access>(p, now, weights, 0, even);
    pairs_operands_load<E, pair_groups, channel_groups, access>(p, now, weights, 1, odd);
    pairs_unit_next(p, rows, c, coming);
    while (now.offset >= 0) {
        pairs_accumulators<channel_groups> sum[pair_groups] = {};
        __syncwarp(); // matrix instructions follow
#pragma unroll 1
        for (int chunk = 0; chunk < chunks; chunk += 2) {
            const bool last = chunk + 2 >= chunks;
            const int next = last ? 0 : chunk + 2;
            pairs_operands_multiply<E, pair_groups, channel_groups>(even, now.left, sum);
            pairs_operands_load<E, pair_groups, channel_groups, access>(p, last ? coming : now,
                                                                        weights, next, even);
            if (chunk + 1 < chunks) {
                pairs_operands_multiply<E, pair_groups, channel_groups>(odd, now.left, sum);
            }
            pairs_operands_load<E, pair_groups, channel_groups, access>(p, last ? coming : now,
                                                                        weights, next + 1, odd);
        }
#pragma unroll
        for (int i = 0; i < pair_groups; ++i) {
            pairs_sums_end<channel_groups>(p, task, now.group[i], sum[i]);
        }
        now = coming;
        pairs_unit_next(p, rows, c, coming);
    }
}

// ---- the kernel ---------------------------------------------------------------------------------

template <typename E, int channel_groups, bool deep, pairs_access access>
SPIRA_KERNEL void __launch_bounds__(32 * pairs_warps)
    pairs_kernel(const __grid_constant__ pairs_params p) {
#if __CUDA_ARCH__ >= 800
    const int warp = threadIdx.x / 32, share = warp / p.slices;
    const int slice = (int)blockIdx.y * p.slices + warp % p.slices;
    const int channel = slice * (8 * channel_groups) + (int)threadIdx.x % 4 * 4;
    if (slice * (8 * channel_groups) >= p.conv.cout) {
        return;
    }
    const pairs_task task = {(uint32_t)pairs_rows(p), p.sums + channel, p.pitch - channel};
    const pairs_weights weights = pairs_weights_of<channel_groups>(p, slice);
    const pairs_cursor c = pairs_share(p, (int64_t)blockIdx.x * p.slice_warps + share,
                                       (int64_t)gridDim.x * p.slice_warps);
    if constexpr (deep) {
        pairs_walk_deep<E, channel_groups, access>(p, task, c, weights);
    } else {
        pairs_walk_near<E, channel_groups, access>(p, task, c, weights);
    }
#endif
}

} // namespace spira

#endif
