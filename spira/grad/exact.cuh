// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/grad/exact.cuh: the weight gradient in plain fp32 multiply-adds: exact fp32, and every
// format on GPUs before sm_80.
//
// A thread block computes a tile of 64 input and 64 output channels, 4 x 4 a thread. The next chunk
// of pairs is loaded into registers while a chunk is multiplied.
#ifndef SPIRA_GRAD_EXACT_CUH
#define SPIRA_GRAD_EXACT_CUH

#include "../base/launch.cuh"
#include "share.cuh"

namespace spira {

enum {
    grad_exact_tile = 64,     // input channels, output channels
    grad_exact_threads = 256, // 16 x 16
    grad_exact_chunk = 16,    // pairs: a thread loads 4 channels of a pair
    grad_exact_resident = 2,  // thread blocks of a multiprocessor; with 3, registers are spilled
};

// Loads 4 channels of a row, as they enter the product; zeros where there are none.
template <typename E>
SPIRA_DEVICE void grad_exact_load(const grad_side &side, numeric type, int32_t row, int channel,
                                  float (&v)[4]) {
    const E *from = (const E *)(side.base + conv_multiply_wide((uint32_t)max(row, 0), side.pitch));
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const bool there = row >= 0 && channel + i < side.left;
        const float f = there ? element_to_float(from[channel + i]) : 0.0f;
        v[i] = type == numeric_tf32 ? element_operand(type, f) : f;
    }
}

// What a thread holds of the chunk that is stored next.
struct grad_exact_ahead {
    float in[4], out[4];
};

template <typename E>
SPIRA_DEVICE void grad_exact_read(const grad_params &p, const grad_tile &tile, const grad_cursor &c,
                                  int32_t rows, grad_exact_ahead &ahead) {
    const int pair = (int)threadIdx.x / 16, channel = (int)threadIdx.x % 16 * 4;
    const grad_pair own = grad_pair_check(grad_pair_load(c, pair, grad_exact_chunk), rows);
    grad_exact_load<E>(tile.in, p.args.shape.type, own.in, channel, ahead.in);
    grad_exact_load<E>(tile.out, p.args.shape.type, own.out, channel, ahead.out);
}

template <typename E>
SPIRA_KERNEL void __launch_bounds__(grad_exact_threads, grad_exact_resident)
    grad_exact_kernel(const __grid_constant__ grad_params p) {
    // ---- prepare
    enum { T = grad_exact_tile, chunk = grad_exact_chunk };
    extern __shared__ __align__(128) char grad_memory[];
    uint32_t *starts = (uint32_t *)grad_memory;
    __shared__ float in[chunk][T], out[chunk][T];
    const int part = (int)blockIdx.y, x = (int)threadIdx.x % 16, y = (int)threadIdx.x / 16;
    pdl_wait();
    grad_cursor filled = grad_cursor_begin(p, part, starts), done = filled;
    const uint32_t part_first = filled.at;
    const int32_t rows = grad_rows(p);
    const grad_tile tile = grad_tile_of(p, (int)blockIdx.x, T, T, (int)sizeof(E));
    float sum[4][4] = {};
    grad_exact_ahead ahead = {};
    if (filled.at < filled.stop) {
        grad_exact_read<E>(p, tile, filled, rows, ahead);
    }
    while (done.at < done.stop) {
        // ---- store
        for (int i = 0; i < 4; ++i) {
            in[y][x * 4 + i] = ahead.in[i];
            out[y][x * 4 + i] = ahead.out[i];
        }
        __syncthreads();
        grad_cursor_next(p, starts, chunk, filled);
        if (filled.at < filled.stop) {
            grad_exact_read<E>(p, tile, filled, rows, ahead);
        }
        // ---- multiply
#pragma unroll
        for (int i = 0; i < chunk; ++i) {
#pragma unroll
            for (int e = 0; e < 16; ++e) {
                sum[e / 4][e % 4] += in[i][y * 4 + e / 4] * out[i][x * 4 + e % 4];
            }
        }
        __syncthreads();
        // ---- finish
        const grad_cursor list = done;
        if (grad_cursor_next(p, starts, chunk, done)) {
            const grad_target to = grad_target_of(p, tile, part, part_first, list);
#pragma unroll
            for (int e = 0; e < 16; ++e) {
                grad_put(to, y * 4 + e / 4, x * 4 + e % 4, sum[e / 4][e % 4]);
                sum[e / 4][e % 4] = 0.0f;
            }
        }
    }
}

} // namespace spira

#endif
