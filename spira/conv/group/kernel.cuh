// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/conv/group/kernel.cuh: the kernel of grouped convolution: a thread for each channel of an
// output.
#ifndef SPIRA_CONV_GROUP_KERNEL_CUH
#define SPIRA_CONV_GROUP_KERNEL_CUH

#include "depthwise.cuh"

namespace spira {

// Channel c of output o.
template <typename E>
SPIRA_DEVICE void group_output(const conv_group_args &a, int64_t o, int c) {
    if (o < count_clamp(*a.count, a.capacity)) {
        const int64_t at = o * a.shape.cout + c;
        const E *const residual = (const E *)a.epilogue.residual;
        const float more = residual ? element_to_float(residual[at]) : 0.0f;
        ((E *)a.out)[at] = element_from_float<E>(
            conv_group_finish(a.epilogue, conv_group_sum<E>(a, o, c), c, more));
    }
}

template <typename E>
SPIRA_KERNEL void __launch_bounds__(group_threads, 4)
    group_kernel(const __grid_constant__ conv_group_args a) {
    const int64_t at = (int64_t)blockIdx.x * group_threads + threadIdx.x, o = at / a.shape.cout;
    group_output<E>(a, o, (int)(at - o * a.shape.cout));
}

} // namespace spira

#endif
