// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
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
    const int64_t i = (int64_t)blockIdx.x * pool_threads + threadIdx.x, o = i / a.channels;
    if (o < count_clamp(*a.count, a.capacity)) {
        ((E *)a.out)[i] = element_from_float<E>(pool_value<E>(a, o, i % a.channels));
    }
}

template <typename E>
SPIRA_KERNEL void __launch_bounds__(pool_threads) pool_grad_kernel(pool_grad_args a) {
    const int64_t at = (int64_t)blockIdx.x * pool_threads + threadIdx.x, i = at / a.channels;
    if (i < count_clamp(*a.count, a.capacity)) {
        ((E *)a.in_grad)[at] = element_from_float<E>(pool_grad_value<E>(a, i, at % a.channels));
    }
}

} // namespace spira

#endif
