// spira/pool/local.cuh: the kernels of local pooling and of its gradient: a thread for each
// element.
#ifndef SPIRA_POOL_LOCAL_CUH
#define SPIRA_POOL_LOCAL_CUH

#include "../numeric.cuh"
#include "../pool_grad.h"

namespace spira {

enum { pool_threads = 256 };

template <typename E>
SPIRA_KERNEL void __launch_bounds__(pool_threads) pool_kernel(pool_args a) {
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    const int64_t o = i / a.channels, c = i % a.channels;
    if (o >= count_clamp(*a.count, a.capacity)) {
        return;
    }
    const E *__restrict__ in = (const E *)a.in;
    const int32_t *__restrict__ map = a.map + o * a.volume;
    float value = 0;
    int taps = 0;
    for (int k = 0; k < a.volume; ++k) {
        const int64_t source = map[k];
        if (source >= 0) {
            const float x = element_to_float(in[source * a.channels + c]);
            value = taps == 0 ? x : a.kind == pool_max ? float_larger(x, value) : value + x;
            ++taps;
        }
    }
    ((E *)a.out)[i] = element_from_float<E>(
        a.kind == pool_average && taps ? __fdiv_rn(value, (float)taps) : value);
}

// The source that the maximum of an output is from. in: the channel of row 0.
template <typename E>
SPIRA_DEVICE int32_t pool_winner(const pool_grad_args &a, const int32_t *taps, const E *in) {
    int32_t winner = -1;
    float value = 0;
    for (int k = 0; k < a.volume; ++k) {
        const int32_t source = taps[k];
        if (source >= 0) {
            const float x = element_to_float(in[(int64_t)source * a.channels]);
            const bool takes = pool_takes(winner < 0, x, value);
            winner = takes ? source : winner;
            value = takes ? x : value;
        }
    }
    return winner;
}

template <typename E>
SPIRA_KERNEL void __launch_bounds__(pool_threads) pool_grad_kernel(pool_grad_args a) {
    const int64_t at = (int64_t)blockIdx.x * pool_threads + threadIdx.x;
    const int64_t i = at / a.channels, c = at % a.channels;
    if (i >= count_clamp(*a.count, a.capacity)) {
        return;
    }
    float sum = 0;
    for (int k = 0; k < a.volume; ++k) {
        const int64_t o = a.back[i * a.volume + k];
        if (o < 0) {
            continue;
        }
        const int32_t *taps = a.map + o * a.volume;
        const float grad = element_to_float(((const E *)a.out_grad)[o * a.channels + c]);
        if (a.kind == pool_average) {
            sum += pool_share(taps, a.volume, grad);
        } else if (pool_winner(a, taps, (const E *)a.in + c) == i) {
            sum += grad;
        }
    }
    ((E *)a.in_grad)[at] = element_from_float<E>(sum);
}

} // namespace spira

#endif
