// spira/pool_grad.cuh: the gradient of local pooling on the GPU.
#ifndef SPIRA_POOL_GRAD_CUH
#define SPIRA_POOL_GRAD_CUH

#include "base/launch.cuh"
#include "numeric.cuh"
#include "pool_grad.h"

namespace spira {

enum { pool_grad_threads = 256 };

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
SPIRA_KERNEL void __launch_bounds__(pool_grad_threads) pool_grad_kernel(pool_grad_args a) {
    const int64_t at = (int64_t)blockIdx.x * pool_grad_threads + threadIdx.x;
    const int64_t i = at / a.channels, c = at % a.channels;
    if (i >= min_of(*a.count, a.capacity)) {
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

// The gradient of `pool`: what each input of a maximum or an average gets.
//
// format   compiled for; numeric_any: all four, chosen by args->type
//
// inputs   args: see pool_grad_args; arrays in device memory
// outputs  args->in_grad: fp32 sums in the order of the offsets, rounded once; 0 for an input
//          without outputs. Rows from the count on are not written
// errors   null or misaligned pointers, sizes
// Asynchronous, deterministic, equal to pool_grad_host; one launch, no scratch, no atomics.
// cost     for each pair and channel, `volume` entries of the map; of a maximum, also the
//          sources of the pair's output
template <numeric format = numeric_any>
SPIRA_API status pool_grad(const pool_grad_args *args, cudaStream_t stream) {
    SPIRA_TRY(pool_grad_check(args));
    const int64_t grid = ceil_div((int64_t)args->capacity * args->channels, pool_grad_threads);
    SPIRA_REQUIRE(grid <= INT32_MAX, status_bad_size, "capacity * channels", grid);
    return numeric_dispatch<format>(args->type, [&](auto tag) {
        return kernel_launch(pool_grad_kernel<typename decltype(tag)::element>, (unsigned)grid,
                             pool_grad_threads, 0, false, 1, stream, "pool_grad", *args);
    });
}

} // namespace spira

#endif
