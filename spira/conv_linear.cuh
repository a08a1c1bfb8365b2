// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/conv_linear.cuh: linear layers on the GPU, rows in order: also compiles the kernels of
// conv/linear, which `conv` alone does without.
#ifndef SPIRA_CONV_LINEAR_CUH
#define SPIRA_CONV_LINEAR_CUH

#include "conv.cuh"
#include "conv/linear/launch.cuh"

namespace spira {

// Computes a layer by the linear kernel if that takes it and is faster: see `done`.
template <typename tag>
SPIRA_API status conv_linear_try(tag, const device_info *gpu, const conv_args *a, bool *done,
                                 cudaStream_t stream) {
    typedef typename tag::element E;
    if constexpr (sizeof(E) == 2 && conv_compiled(conv_kernel_hopper, tag::value)) {
        if (a->map->form == conv_form_identity &&
            conv_kernel_of(&a->shape, gpu) == conv_kernel_hopper) {
            SPIRA_REQUIRE(!a->sizes || conv_sizes_fit(&a->shape, gpu, a->sizes), status_unsupported,
                          "sizes", 0);
            linear_params p = {};
            p.conv = conv_params_of(gpu, a, conv_kernel_hopper);
            *done = linear_takes(gpu, p.conv) && linear_pays(gpu, p.conv) &&
                    linear_map_encode(gpu, p.conv, &p.rows);
            return *done ? linear_run<E>(gpu, &p, stream) : status_success();
        }
    }
    return status_success();
}

// As `conv`, with the same bits. Faster on Hopper in fp16 and bf16 for layers over the identity map
// (conv_map_identity) whose rows of features, outputs and residual are aligned to 16 bytes: with
// SiLU, GELU by erf or leaky ReLU; of many rows also with a residual or more than 512 input
// channels. All other layers are conv's, those with GELU by tanh, too.
template <numeric format = numeric_any, bool shortcuts = false, bool mixed = false>
SPIRA_API status conv_linear(const device_info *gpu, const conv_args *args, cudaStream_t stream) {
    SPIRA_TRY(conv_check(gpu, args));
    return numeric_dispatch<format>(args->shape.type, [&](auto own) {
        bool done = false;
        SPIRA_TRY(conv_linear_try(own, gpu, args, &done, stream));
        return done ? status_success() : conv_run<shortcuts, mixed>(own, gpu, args, stream);
    });
}

} // namespace spira

#endif
