// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/norm/pair.cuh: two sums at once, and the kernel for the gradients of gain and shift, which
// are sums over parts of the rows.
#ifndef SPIRA_NORM_PAIR_CUH
#define SPIRA_NORM_PAIR_CUH

#include "row.cuh"

namespace spira {

// Of some numbers: their mean, and the sum of (x - mean)^2. Of gradients: the sums of g and g * x^.
struct norm_pair {
    float a, b;
};

// What n and m numbers have together.
template <bool grad>
SPIRA_DEVICE norm_pair norm_pair_join(norm_pair x, float n, norm_pair y, float m) {
    if (grad) {
        return {x.a + y.a, x.b + y.b};
    }
    if (n == 0 || m == 0) {
        return n == 0 ? y : x;
    }
    const float share = float_divide(m, n + m), d = float_subtract(y.a, x.a);
    return {fmaf(d, share, x.a), fmaf(d * d, n * share, x.b + y.b)};
}

// Shared memory of norm_block_join. It stands in the kernels, as all such arrays here: that of a
// function would count for other kernels, too, where nothing is inlined.
struct norm_block {
    norm_pair pair[norm_threads];
    float number[norm_threads];
};

// What a thread block's threads have together.
template <bool grad>
SPIRA_DEVICE norm_pair norm_block_join(norm_pair own, float n, norm_block &s) {
    const int at = (int)threadIdx.x;
    s.pair[at] = own;
    s.number[at] = n;
    __syncthreads();
    for (int step = norm_threads / 2; step > 0; step /= 2) {
        if (at < step) {
            s.pair[at] = norm_pair_join<grad>(s.pair[at], s.number[at], s.pair[at + step],
                                              s.number[at + step]);
            s.number[at] += s.number[at + step];
        }
        __syncthreads();
    }
    return s.pair[0];
}

// The gradients of gain and shift, from sums over parts of the rows.
struct norm_vectors {
    const norm_pair *part; // [parts, channels] sums of out_grad and out_grad * x^
    int parts, channels;
    float *shift_grad, *gain_grad; // [channels]; null: not wanted
};

// Thread blocks: channels.
SPIRA_PLAIN_KERNEL void __launch_bounds__(norm_threads)
    norm_vectors_kernel(const __grid_constant__ norm_vectors v) {
    __shared__ norm_block block;
    norm_pair all = {};
    for (int i = (int)threadIdx.x; i < v.parts; i += norm_threads) {
        all = norm_pair_join<true>(all, 0, v.part[(int64_t)i * v.channels + blockIdx.x], 0);
    }
    all = norm_block_join<true>(all, 0, block);
    if (threadIdx.x == 0 && v.shift_grad) {
        v.shift_grad[blockIdx.x] = all.a;
    }
    if (threadIdx.x == 0 && v.gain_grad) {
        v.gain_grad[blockIdx.x] = all.b;
    }
}

// Launches it, where one of both is wanted.
SPIRA_LAUNCHER status norm_vectors_launch(const norm_vectors &v, const char *subject,
                                          cudaStream_t stream) {
    return v.shift_grad || v.gain_grad
               ? kernel_launch(norm_vectors_kernel<>,
                               {(unsigned)v.channels, norm_threads, stream, subject}, v)
               : status_success();
}

} // namespace spira

#endif
