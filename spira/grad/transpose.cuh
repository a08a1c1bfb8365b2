// spira/grad/transpose.cuh: the weights of the input gradient: transposed, and mirrored where the
// layer's own map is read.
#ifndef SPIRA_GRAD_TRANSPOSE_CUH
#define SPIRA_GRAD_TRANSPOSE_CUH

#include "../base/launch.cuh"
#include "../conv_grad.h"

namespace spira {

enum { grad_transpose_tile = 32, grad_transpose_threads = 256 };

// from [volume, rows, cout] of the layer; to [volume, cout, channels.count]. Thread blocks: x tiles
// of channels, y tiles of output channels, z offsets.
SPIRA_PLAIN_KERNEL void __launch_bounds__(grad_transpose_threads)
    grad_transpose_kernel(conv_shape s, grad_channels channels, grad_order order, const float *from,
                          float *to) {
    enum { tile = grad_transpose_tile, lines = grad_transpose_threads / grad_transpose_tile };
    __shared__ float shared[tile][tile + 1];
    const int x = (int)threadIdx.x % tile, y = (int)threadIdx.x / tile, k = (int)blockIdx.z;
    const int c = (int)blockIdx.x * tile, n = (int)blockIdx.y * tile;
    pdl_wait();
    const float *in =
        from + ((int64_t)grad_offset(&s, order, k) * (s.cin + s.cin2) + channels.first) * s.cout;
    for (int i = y; i < tile; i += lines) {
        const bool there = c + i < channels.count && n + x < s.cout;
        shared[i][x] = there ? in[(int64_t)(c + i) * s.cout + n + x] : 0.0f;
    }
    __syncthreads();
    float *out = to + (int64_t)k * s.cout * channels.count;
    for (int i = y; i < tile; i += lines) {
        if (n + i < s.cout && c + x < channels.count) {
            out[(int64_t)(n + i) * channels.count + c + x] = shared[x][i];
        }
    }
}

SPIRA_LAUNCHER status grad_transpose(const conv_shape *s, grad_source source, grad_order order,
                                     const float *from, float *to, cudaStream_t stream) {
    const grad_channels c = grad_channels_of(s, source);
    const dim3 grid((unsigned)ceil_div(c.count, grad_transpose_tile),
                    (unsigned)ceil_div(s->cout, grad_transpose_tile), (unsigned)s->volume);
    return kernel_launch(grad_transpose_kernel<>,
                         {grid, grad_transpose_threads, stream, "conv_grad_weights_pack"}, *s, c,
                         order, from, to);
}

} // namespace spira

#endif
