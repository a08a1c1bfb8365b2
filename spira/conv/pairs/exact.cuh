// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/conv/pairs/exact.cuh: the kernel in plain multiply-adds: exact fp32, and every format on
// GPUs below sm_80.
//
// A lane computes one output channel; a unit has 8 pairs, whose rows a warp stages in shared memory
// (pairs_exact_add).
#ifndef SPIRA_CONV_PAIRS_EXACT_CUH
#define SPIRA_CONV_PAIRS_EXACT_CUH

#include "../weights.cuh"
#include "walk.cuh"

namespace spira {

// exact_blocks: of a multiprocessor; eight would spill
enum { exact_warps = 4, exact_blocks = 6, exact_channels = 32, exact_group = 8 };
static_assert((int)exact_channels == (int)conv_exact_out, "a warp reads a block of the weights");

// A source, and the lane's weights for it.
template <typename E>
struct pairs_exact_source {
    const E *in; // [inputs, cin]
    int cin;
    const float *weights; // of the lane's output channel, for input channel 0
    int chunk;            // floats to the weights of the next chunk
};

// Adds the products of 8 pairs of one offset. row: of pair lane % 8, or -1.
template <typename E>
SPIRA_DEVICE void pairs_exact_add(pairs_exact_source<E> source, bool tf32, int32_t row,
                                  float (*stage)[exact_group], float (&sum)[exact_group]) {
    const int lane = threadIdx.x % 32, cin = source.cin;
    for (int first = 0; first < cin; first += exact_channels) {
        __syncwarp();
#pragma unroll
        for (int r = 0; r < exact_group; ++r) {
            const int64_t from = __shfl_sync(~0u, row, r);
            bool inside = from >= 0 && first + lane < cin;
            float x = inside ? element_to_float(source.in[from * cin + first + lane]) : 0.0f;
            stage[lane][r] = tf32 ? __uint_as_float(tf32_bits(x)) : x;
        }
        __syncwarp();
        const int channels = min(cin - first, (int)exact_channels);
        const float *w = source.weights + (int64_t)(first / conv_exact_in) * source.chunk;
        for (int i = 0; i < channels; ++i) {
            const int chunk = i / conv_exact_in * (source.chunk - conv_exact_block);
            const float own = w[i * conv_exact_out + chunk];
#pragma unroll
            for (int r = 0; r < exact_group; ++r) {
                sum[r] = fmaf(stage[i][r], own, sum[r]);
            }
        }
    }
}

template <typename E>
SPIRA_KERNEL void __launch_bounds__(32 * exact_warps, exact_blocks)
    pairs_exact_kernel(const __grid_constant__ pairs_params p) {
    __shared__ __align__(16) float stages[exact_warps][exact_channels][exact_group];
    const int warp = threadIdx.x / 32, channel = blockIdx.y * exact_channels + threadIdx.x % 32;
    const int cin = p.conv.cin, cin2 = p.conv.cin2, cout = p.conv.cout;
    const int chunk = conv_exact_chunk(cout), chunks1 = conv_exact_chunks(cin);
    const int64_t offset = (int64_t)(chunks1 + conv_exact_chunks(cin2)) * chunk; // floats
    const float *own = (const float *)p.conv.weights +
                       (channel / conv_exact_out * conv_exact_block + channel % conv_exact_out);
    const int32_t rows = pairs_rows(p);
    float *sums = p.sums + channel;
    pairs_cursor c =
        pairs_share(p, (int64_t)blockIdx.x * exact_warps + warp, (int64_t)gridDim.x * exact_warps);
    for (pairs_cursor_step(p, rows, exact_group, c); c.offset >= 0;
         pairs_cursor_step(p, rows, exact_group, c)) {
        int32_t j = c.at + (int)threadIdx.x % exact_group;
        const pairs_list list = pairs_cursor_list(p, c);
        const int32_t row = pairs_row(c, list.sources, j), target = pairs_row(c, list.targets, j);
        const float *w = own + c.offset * offset;
        float sum[exact_group] = {0, 0, 0, 0, 0, 0, 0, 0};
        pairs_exact_add<E>({(const E *)p.conv.in, cin, w, chunk}, p.conv.tf32, row, stages[warp],
                           sum);
        if (cin2) {
            pairs_exact_add<E>({(const E *)p.conv.in2, cin2, w + (int64_t)chunks1 * chunk, chunk},
                               p.conv.tf32, row, stages[warp], sum);
        }
#pragma unroll
        for (int r = 0; r < exact_group; ++r) {
            const uint32_t to = (uint32_t)__shfl_sync(~0u, target, r);
            if (to < (uint32_t)rows && channel < cout) {
                atomicAdd(sums + (int64_t)to * p.pitch, sum[r]);
            }
        }
    }
}

} // namespace spira

#endif
