// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/grad/run.cuh: from the format of a weight gradient to the launch of its kernels.
#ifndef SPIRA_GRAD_RUN_CUH
#define SPIRA_GRAD_RUN_CUH

#include "../conv/run.cuh"
#include "launch.cuh"

namespace spira {

// tag: numeric_tag. Kernels that no compiled architecture runs are left out.
template <typename tag>
SPIRA_API status grad_run(tag, const device_info *gpu, const grad_params &p, cudaStream_t stream) {
    typedef typename tag::element E;
    if constexpr (conv_compiled(conv_kernel_hopper, tag::value)) {
        if (p.cut.form == grad_form_hopper) {
            return grad_hopper_run<E>(gpu, p, stream);
        }
    }
    if constexpr (conv_tensor_compiled(tag::value)) {
        if (p.cut.form == grad_form_tensor) {
            return grad_tensor_run<E>(gpu, p, stream);
        }
    }
    if constexpr (conv_plain_compiled(tag::value)) {
        if (p.cut.form == grad_form_exact) {
            return grad_exact_launch<E>(gpu, p, stream);
        }
    }
    return conv_not_compiled();
}

} // namespace spira

#endif
