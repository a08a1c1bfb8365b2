// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/grad/bias.cuh: sums of the rows of out_grad, in a fixed order.
//
// The rows are shared out among grad_bias_parts thread blocks, whatever the GPU. Each writes a slot
// of sums; grad/reduce.cuh adds up the slots. Behind the kernel of a weight gradient it runs beside
// it, on what that leaves of a multiprocessor: so thread blocks are small (grad_cut_beside).
#ifndef SPIRA_GRAD_BIAS_CUH
#define SPIRA_GRAD_BIAS_CUH

#include "../base/wide.cuh"
#include "share.cuh"

namespace spira {

enum {
    grad_bias_threads = 128,
    grad_bias_resident = 8, // thread blocks of a multiprocessor, by registers: few of them
    grad_bias_parts = 256,
    grad_bias_each = 8,          // channels of a thread, loaded together
    grad_bias_bytes = 128,       // of a thread, of several rows: as well
    grad_bias_add_threads = 256, // of a thread block that adds up slots
    grad_bias_groups = grad_bias_add_threads / grad_bias_each, // of slots, there
};

SPIRA_API int64_t grad_bias_slots(int channels) {
    return (int64_t)grad_bias_parts * channels;
}

// The sums of rows r, r + step, ... before `end` of 8 channels from `first` on.
template <typename E>
SPIRA_DEVICE void grad_bias_add_rows(const grad_params &p, int first, int32_t r, int32_t end,
                                     int step, float (&sum)[grad_bias_each]) {
    constexpr int batch = grad_bias_bytes / grad_bias_each / (int)sizeof(E); // rows
    const int channels = p.args.shape.cout;
    const bool wide = p.wide_out && channels % grad_bias_each == 0;
    for (; r < end; r += step * batch) {
        wide_elements<E, grad_bias_each> v[batch]; // past the last, the last again
#pragma unroll
        for (int i = 0; i < batch; ++i) {
            const int32_t own = r + i * step < end ? r + i * step : end - 1;
            const E *row = (const E *)p.args.out_grad + (int64_t)own * channels;
            wide_read_channels(row, channels, first, wide, v[i]);
        }
#pragma unroll
        for (int i = 0; i < batch; ++i) {
#pragma unroll
            for (int c = 0; c < grad_bias_each; ++c) {
                sum[c] += r + i * step < end ? element_to_float(v[i].at[c]) : 0.0f;
            }
        }
    }
}

// Threads of a block are `lines` rows of up to grad_bias_threads times 8 channels.
template <typename E>
SPIRA_KERNEL void __launch_bounds__(grad_bias_threads, grad_bias_resident)
    grad_bias_kernel(const __grid_constant__ grad_params p) {
    __shared__ float shared[grad_bias_threads * grad_bias_each];
    const int channels = p.args.shape.cout;
    const int columns = (channels + grad_bias_each - 1) / grad_bias_each;
    const int width = columns < grad_bias_threads ? columns : grad_bias_threads;
    const int lines = grad_bias_threads / width, x = (int)threadIdx.x % width;
    const int y = (int)threadIdx.x / width;
    pdl_launch_dependents(); // the kernel before has waited for what writes the rows
    const int32_t rows = grad_rows(p), size = (int32_t)ceil_div(rows, grad_bias_parts);
    const int32_t begin = (int32_t)blockIdx.x * size, end = (int32_t)min_of(begin + size, rows);
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
        for (int c = threadIdx.x; c < across && first + c < channels; c += grad_bias_threads) {
            float all = shared[c];
            for (int i = 1; i < lines; ++i) {
                all += shared[i * across + c];
            }
            p.bias_slots[(int64_t)blockIdx.x * channels + first + c] = all;
        }
        __syncthreads();
    }
    pdl_wait_alone(); // the kernel behind waits for this one alone
}

// Adds up the slots: every n-th 8 channels by each of n thread blocks of grad_bias_add_threads,
// which a grid has in x and y. Group g of threads adds slots g, g + grad_bias_groups, ...
SPIRA_DEVICE void grad_bias_add_slots(const grad_params &p,
                                      float (&shared)[grad_bias_add_threads]) {
    const int channels = p.args.shape.cout, group = (int)threadIdx.x / grad_bias_each;
    const int step = (int)(gridDim.x * gridDim.y) * grad_bias_each;
    int first = (int)(blockIdx.y * gridDim.x + blockIdx.x) * grad_bias_each;
    for (; first < channels; first += step) {
        const int channel = first + (int)threadIdx.x % grad_bias_each;
        float sum = 0.0f;
#pragma unroll
        for (int i = 0; i < grad_bias_parts / grad_bias_groups; ++i) {
            const int64_t slot = group + i * grad_bias_groups;
            sum += channel < channels ? p.bias_slots[slot * channels + channel] : 0.0f;
        }
        shared[threadIdx.x] = sum;
        __syncthreads();
        if (group == 0 && channel < channels) {
            for (int i = 1; i < grad_bias_groups; ++i) {
                sum += shared[i * grad_bias_each + threadIdx.x];
            }
            p.args.bias_grad[channel] = sum;
        }
        __syncthreads();
    }
}

// Writes the slots. programmatic: the kernel before is that of the weight gradient.
template <typename E>
SPIRA_API status grad_bias_launch(const grad_params &p, bool programmatic, cudaStream_t stream) {
    return kernel_launch(
        grad_bias_kernel<E>,
        {grad_bias_parts, grad_bias_threads, stream, "conv_grad_bias", programmatic}, p);
}

} // namespace spira

#endif
