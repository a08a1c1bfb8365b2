// spira/grad/bias.cuh: sums of the rows of features, in a fixed order.
//
// Part p of the rows is summed by one thread block, which writes slots [p, channels]. A second
// kernel adds up the slots.
#ifndef SPIRA_GRAD_BIAS_CUH
#define SPIRA_GRAD_BIAS_CUH

#include "../base/launch.cuh"
#include "share.cuh"

namespace spira {

enum { grad_bias_threads = 256, grad_bias_resident = 4, grad_bias_batch = 8 };

struct grad_bias_params {
    const void *from; // [count, channels]
    const int32_t *count;
    float *slots; // [parts, channels]
    float *to;    // [channels]
    int32_t capacity;
    int channels, parts;
};

// Threads of a block are `lines` rows of up to grad_bias_threads channels.
template <typename E>
SPIRA_KERNEL void __launch_bounds__(grad_bias_threads)
    grad_bias_kernel(const __grid_constant__ grad_bias_params p) {
    __shared__ float shared[grad_bias_threads];
    const int width = (int)min_of(p.channels, grad_bias_threads), lines = grad_bias_threads / width;
    const int x = (int)threadIdx.x % width, y = (int)threadIdx.x / width, part = (int)blockIdx.x;
    pdl_wait();
    const int64_t rows = count_clamp(*p.count, p.capacity);
    const int64_t each = ceil_div(rows, p.parts), end = min_of((part + 1) * each, rows);
    for (int first = 0; first < p.channels; first += width) {
        const int channel = first + x;
        float sum = 0.0f;
        if (y < lines && channel < p.channels) {
            const E *from = (const E *)p.from + channel;
            for (int64_t r = part * each + y; r < end; r += lines * grad_bias_batch) {
                float v[grad_bias_batch]; // loaded together; past the last, the last again
#pragma unroll
                for (int i = 0; i < grad_bias_batch; ++i) {
                    v[i] = element_to_float(from[min_of(r + i * lines, end - 1) * p.channels]);
                }
#pragma unroll
                for (int i = 0; i < grad_bias_batch; ++i) {
                    sum += r + i * lines < end ? v[i] : 0.0f;
                }
            }
        }
        shared[threadIdx.x] = sum;
        __syncthreads();
        if (y == 0 && channel < p.channels) {
            for (int i = 1; i < lines; ++i) {
                sum += shared[i * width + x];
            }
            p.slots[(int64_t)part * p.channels + channel] = sum;
        }
        __syncthreads();
    }
}

// A thread block adds up 32 channels: warp w the parts w, w + 8, ...
SPIRA_PLAIN_KERNEL void __launch_bounds__(grad_bias_threads)
    grad_bias_reduce_kernel(const __grid_constant__ grad_bias_params p) {
    enum { warps = grad_bias_threads / 32 };
    __shared__ float shared[warps][32];
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const int channel = (int)blockIdx.x * 32 + lane;
    pdl_wait();
    float sum = 0.0f;
    if (channel < p.channels) {
        for (int part = warp; part < p.parts; part += (int)warps * grad_bias_batch) {
            float v[grad_bias_batch];
#pragma unroll
            for (int i = 0; i < grad_bias_batch; ++i) {
                const int own = (int)min_of(part + i * warps, p.parts - 1);
                v[i] = p.slots[(int64_t)own * p.channels + channel];
            }
#pragma unroll
            for (int i = 0; i < grad_bias_batch; ++i) {
                sum += part + i * warps < p.parts ? v[i] : 0.0f;
            }
        }
    }
    shared[warp][lane] = sum;
    __syncthreads();
    if (warp == 0 && channel < p.channels) {
        for (int i = 1; i < warps; ++i) {
            sum += shared[i][lane];
        }
        p.to[channel] = sum;
    }
}

template <typename E>
SPIRA_API status grad_bias_run(const grad_bias_params &p, const device_info *d, bool programmatic,
                               cudaStream_t stream) {
    SPIRA_TRY(kernel_launch(grad_bias_kernel<E>,
                            {(unsigned)p.parts, grad_bias_threads, stream, "conv_grad_bias",
                             programmatic && d->programmatic},
                            p));
    return kernel_launch(grad_bias_reduce_kernel<>,
                         {(unsigned)ceil_div(p.channels, 32), grad_bias_threads, stream,
                          "conv_grad_bias", d->programmatic},
                         p);
}

} // namespace spira

#endif
