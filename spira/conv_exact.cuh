// spira/conv_exact.cuh: output-stationary convolution in plain fp32 multiply-adds.
//
// For exact fp32, and for every format on GPUs whose tensor cores do not know it. A warp owns the 8
// outputs of a group and 32 output channels, a lane one channel. The source rows of an offset are
// staged in shared memory, 32 channels at a time, and read from there as broadcasts.
#ifndef SPIRA_CONV_EXACT_CUH
#define SPIRA_CONV_EXACT_CUH

#include "conv.h"
#include "layout.h"
#include "numeric.cuh"
#include "status.cuh"

namespace spira {

enum { exact_warps = 4, exact_channels = 32, exact_groups = tile_rows / tile_group };

// Packed weights [volume, cin + cin2, cout]: operands of the format, as fp32.
SPIRA_API int64_t conv_exact_weights(const conv_shape *s) {
    return (int64_t)s->volume * (s->cin + s->cin2) * s->cout;
}

SPIRA_KERNEL void __launch_bounds__(256)
    conv_exact_pack_kernel(numeric type, const float *__restrict__ weight, int64_t total,
                           float *__restrict__ packed) {
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < total) {
        packed[i] = element_operand(type, weight[i]);
    }
}

struct conv_exact_params {
    const void *in, *in2, *residual;
    const float *weights; // [volume, cin + cin2, cout]
    void *out;
    tile_layout layout; // row is null for the identity
    const int32_t *count;
    int32_t capacity;
    conv_epilogue epilogue;
    conv_shape shape;
    int tiles, slices;
};

// Adds one source's contribution of one offset. source: of row lane % 8, or -1.
template <typename E>
SPIRA_DEVICE void conv_exact_add(const E *in, int cin, const float *weight, int cout, int channel,
                                 bool tf32, int32_t source, float (*stage)[tile_group],
                                 float (&sum)[tile_group]) {
    int lane = threadIdx.x % 32;
    for (int first = 0; first < cin; first += exact_channels) {
        __syncwarp();
#pragma unroll
        for (int r = 0; r < tile_group; ++r) {
            int64_t row = __shfl_sync(~0u, source, r);
            bool inside = row >= 0 && first + lane < cin;
            float x = inside ? element_to_float(in[row * cin + first + lane]) : 0.0f;
            stage[lane][r] = tf32 ? __uint_as_float(tf32_bits(x)) : x;
        }
        __syncwarp();
        int channels = cin - first < exact_channels ? cin - first : exact_channels;
        for (int i = 0; i < channels && channel < cout; ++i) {
            float w = weight[(int64_t)(first + i) * cout + channel];
#pragma unroll
            for (int r = 0; r < tile_group; ++r) {
                sum[r] = fmaf(stage[i][r], w, sum[r]);
            }
        }
    }
}

template <typename E>
SPIRA_KERNEL void __launch_bounds__(32 * exact_warps)
    conv_exact_kernel(const __grid_constant__ conv_exact_params p) {
    __shared__ __align__(16) float stages[exact_warps][exact_channels][tile_group];
    int64_t item = (int64_t)blockIdx.x * exact_warps + threadIdx.x / 32;
    int lane = threadIdx.x % 32;
    int slice = (int)(item % p.slices), group = (int)(item / p.slices % exact_groups);
    int64_t tile = item / p.slices / exact_groups;
    if (tile >= p.tiles) {
        return;
    }
    int slot = group * tile_group + lane % tile_group;
    int64_t at = tile * tile_rows + slot;
    int32_t row = p.layout.row                        ? p.layout.row[at]
                  : at < min_of(*p.count, p.capacity) ? (int32_t)at
                                                      : -1;
    if (!__any_sync(~0u, row >= 0)) {
        return;
    }
    int channel = slice * exact_channels + lane, cout = p.shape.cout;
    int cin = p.shape.cin, cin2 = p.shape.cin2;
    bool tf32 = p.shape.type == numeric_tf32;
    float(*stage)[tile_group] = stages[threadIdx.x / 32];
    float sum[tile_group] = {0, 0, 0, 0, 0, 0, 0, 0};
    int steps = p.layout.row ? p.layout.steps[tile] : 1;
    for (int i = 0; i < steps; ++i) {
        int64_t step = tile * p.shape.volume + i;
        tile_step entry = {0, ~0u}; // the identity: offset 0 of all
        if (p.layout.row) {
            entry = p.layout.step[step];
        }
        if (!(entry.groups >> group & 1)) {
            continue;
        }
        int64_t k = entry.offset;
        int32_t source = p.layout.row ? p.layout.index[step * tile_rows + slot] : row;
        const float *w = p.weights + k * (cin + cin2) * cout;
        conv_exact_add((const E *)p.in, cin, w, cout, channel, tf32, source, stage, sum);
        if (cin2) {
            conv_exact_add((const E *)p.in2, cin2, w + (int64_t)cin * cout, cout, channel, tf32,
                           source, stage, sum);
        }
    }
    const E *residual = (const E *)p.residual;
#pragma unroll
    for (int r = 0; r < tile_group; ++r) {
        int64_t to = (int64_t)__shfl_sync(~0u, row, r) * cout + channel;
        if (to >= channel && channel < cout) { // the row is not -1
            float extra = residual ? element_to_float(residual[to]) : 0.0f;
            ((E *)p.out)[to] =
                element_from_float<E>(epilogue_apply(sum[r], &p.epilogue, channel, extra));
        }
    }
}

template <typename E>
SPIRA_API status conv_exact_launch(conv_exact_params p, cudaStream_t stream) {
    p.slices = (int)ceil_div(p.shape.cout, exact_channels);
    int64_t grid = ceil_div((int64_t)p.tiles * exact_groups * p.slices, exact_warps);
    SPIRA_REQUIRE(grid <= INT32_MAX, status_bad_size, "capacity", grid);
    conv_exact_kernel<E><<<(unsigned)grid, 32 * exact_warps, 0, stream>>>(p);
    return status_of_launch("conv");
}

} // namespace spira

#endif
