// spira/grad/bias.cuh: sums of the rows of features, in a fixed order.
//
// The rows are shared out among grad_bias_parts thread blocks, whatever the GPU. Each writes a slot
// of sums. What comes behind adds up the slots: a kernel of its own, or the last kernel of a weight
// gradient (grad/reduce.cuh).
#ifndef SPIRA_GRAD_BIAS_CUH
#define SPIRA_GRAD_BIAS_CUH

#include "../base/launch.cuh"
#include "../base/wide.cuh"

namespace spira {

enum {
    grad_bias_threads = 256,
    grad_bias_parts = 256,
    grad_bias_each = 8,                                    // channels of a thread, loaded together
    grad_bias_batch = 8,                                   // rows of a thread, loaded together
    grad_bias_groups = grad_bias_threads / grad_bias_each, // of slots, where they are added up
};

struct grad_bias_params {
    const void *from; // [count, channels]
    const int32_t *count;
    float *slots; // [grad_bias_parts, channels]
    float *to;    // [channels]; null: no bias gradient
    int32_t capacity;
    int channels;
    bool wide; // rows are aligned to 16 bytes
};

SPIRA_API int64_t grad_bias_slots(int channels) {
    return (int64_t)grad_bias_parts * channels;
}

// The sums of rows r, r + step, ... before `end` of 8 channels from `first` on.
template <typename E>
SPIRA_DEVICE void grad_bias_add_rows(const grad_bias_params &p, int first, int64_t r, int64_t end,
                                     int step, float (&sum)[grad_bias_each]) {
    for (; r < end; r += step * grad_bias_batch) {
        wide_elements<E, grad_bias_each> v[grad_bias_batch]; // past the last, the last again
#pragma unroll
        for (int i = 0; i < grad_bias_batch; ++i) {
            const int64_t own = r + i * step < end ? r + i * step : end - 1;
            wide_read_channels((const E *)p.from + own * p.channels, p.channels, first, p.wide,
                               v[i]);
        }
#pragma unroll
        for (int i = 0; i < grad_bias_batch; ++i) {
#pragma unroll
            for (int c = 0; c < grad_bias_each; ++c) {
                sum[c] += r + i * step < end ? element_to_float(v[i].at[c]) : 0.0f;
            }
        }
    }
}

// Threads of a block are `lines` rows of up to grad_bias_threads times 8 channels.
template <typename E>
SPIRA_KERNEL void __launch_bounds__(grad_bias_threads)
    grad_bias_kernel(const __grid_constant__ grad_bias_params p) {
    __shared__ float shared[grad_bias_threads * grad_bias_each];
    const int columns = (p.channels + grad_bias_each - 1) / grad_bias_each;
    const int width = columns < grad_bias_threads ? columns : grad_bias_threads;
    const int lines = grad_bias_threads / width, x = (int)threadIdx.x % width;
    const int y = (int)threadIdx.x / width;
    pdl_wait();
    const int64_t rows = count_clamp(*p.count, p.capacity);
    const int64_t size = ceil_div(rows, grad_bias_parts), begin = (int64_t)blockIdx.x * size;
    const int64_t end = min_of(begin + size, rows);
    for (int at = 0; at < columns; at += width) {
        float sum[grad_bias_each] = {};
        if (y < lines && at + x < columns) {
            grad_bias_add_rows<E>(p, (at + x) * grad_bias_each, begin + y, end, lines, sum);
        }
#pragma unroll
        for (int c = 0; c < grad_bias_each; ++c) {
            shared[threadIdx.x * grad_bias_each + c] = sum[c];
        }
        __syncthreads();
        const int first = at * grad_bias_each, across = width * grad_bias_each;
        for (int c = threadIdx.x; c < across && first + c < p.channels; c += grad_bias_threads) {
            float all = shared[c];
            for (int i = 1; i < lines; ++i) {
                all += shared[i * across + c];
            }
            p.slots[(int64_t)blockIdx.x * p.channels + first + c] = all;
        }
        __syncthreads();
    }
}

// Adds up the slots of 8 channels from `first` on. Called by all threads of a block of
// grad_bias_threads: group g adds slots g, g + grad_bias_groups, ...
SPIRA_DEVICE void grad_bias_add_slots(const grad_bias_params &p, int first,
                                      float (&shared)[grad_bias_threads]) {
    const int channel = first + (int)threadIdx.x % grad_bias_each;
    const int group = (int)threadIdx.x / grad_bias_each;
    float sum = 0.0f;
    if (channel < p.channels) {
#pragma unroll
        for (int i = 0; i < grad_bias_parts / grad_bias_groups; ++i) {
            sum += p.slots[(int64_t)(group + i * grad_bias_groups) * p.channels + channel];
        }
    }
    shared[threadIdx.x] = sum;
    __syncthreads();
    if (group == 0 && channel < p.channels) {
        for (int i = 1; i < grad_bias_groups; ++i) {
            sum += shared[i * grad_bias_each + threadIdx.x];
        }
        p.to[channel] = sum;
    }
    __syncthreads();
}

// A thread block adds up 8 channels.
SPIRA_PLAIN_KERNEL void __launch_bounds__(grad_bias_threads)
    grad_bias_reduce_kernel(const __grid_constant__ grad_bias_params p) {
    __shared__ float shared[grad_bias_threads];
    pdl_wait();
    grad_bias_add_slots(p, (int)blockIdx.x * grad_bias_each, shared);
}

// Writes the slots.
template <typename E>
SPIRA_API status grad_bias_launch(const grad_bias_params &p, bool programmatic,
                                  cudaStream_t stream) {
    return kernel_launch(
        grad_bias_kernel<E>,
        {grad_bias_parts, grad_bias_threads, stream, "conv_grad_bias", programmatic}, p);
}

template <typename E>
SPIRA_API status grad_bias_run(const device_info *gpu, const grad_bias_params &p, bool programmatic,
                               cudaStream_t stream) {
    SPIRA_TRY(grad_bias_launch<E>(p, programmatic, stream));
    return kernel_launch(grad_bias_reduce_kernel<>,
                         {(unsigned)ceil_div(p.channels, grad_bias_each), grad_bias_threads, stream,
                          "conv_grad_bias", gpu->programmatic},
                         p);
}

} // namespace spira

#endif
