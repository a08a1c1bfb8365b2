// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/conv_group.cuh: depthwise and grouped convolution on the GPU, and its gradients. What they
// are, and the host loops: conv_group.h. `format` is the only format that is compiled; numeric_any:
// all four, chosen by args->shape.type.
#ifndef SPIRA_CONV_GROUP_CUH
#define SPIRA_CONV_GROUP_CUH

#include "conv/group/grad.cuh"
#include "conv/group/tensor.cuh"

namespace spira {

// Depthwise or grouped convolution with a fused epilogue, or its input gradient.
//
// inputs   args: see conv_group_args
// outputs  args->out; rows from *args->count on are not written
// errors   groups that do not divide the channels; int8
// Asynchronous, deterministic, no scratch, one launch. Sums are fp32, in the order of
// conv_group_host, and rounded once: equal to it, but for silu and gelu, and for groups that tensor
// cores compute (conv_group_tensor).
// cost     depthwise: each row is gathered once for each pair, mostly from caches; bound by reading
//          features and map and writing outputs once. Tensor cores: products for each fragment of 8
//          outputs with the offset. Otherwise a thread for each channel: cin / groups multiply-adds
//          for each pair and output channel
template <numeric format = numeric_any>
SPIRA_API status conv_group(const conv_group_args *args, cudaStream_t stream) {
    SPIRA_TRY(conv_group_check(args));
    const int64_t blocks = ceil_div((int64_t)args->capacity * args->shape.cout, group_threads);
    SPIRA_REQUIRE(blocks <= INT32_MAX, status_bad_size, "capacity * cout", blocks);
    return numeric_dispatch<format>(args->shape.type, [&](auto tag) {
        typedef typename decltype(tag)::element E;
        if (conv_group_depthwise(args->shape)) {
            return group_depthwise_launch<E>(args, stream);
        }
        if constexpr (sizeof(E) == 2) {
            if (conv_group_tensor(args->shape) && wide_aligned(args->in, 16)) {
                const bool wide = args->shape.cin / args->shape.groups % 32 == 0 &&
                                  args->shape.cout / args->shape.groups % 32 == 0;
                return wide ? group_mma_launch<E, 2>(args, stream)
                            : group_mma_launch<E, 1>(args, stream);
            }
        }
        return kernel_launch(group_kernel<E>,
                             {(unsigned)blocks, group_threads, stream, "conv_group"}, *args);
    });
}

// ---- weight gradient ----------------------------------------------------------------------------

SPIRA_API float *conv_group_grad_take(workspace *w, const conv_group_shape *s, int32_t capacity) {
    return workspace_take<float>(w, group_grad_cut_of(s, capacity).shares * conv_group_weights(*s));
}

// Bytes of scratch for conv_group_grad_weight.
SPIRA_API status conv_group_grad_workspace(const conv_group_shape *shape, int32_t capacity,
                                           size_t *bytes) {
    SPIRA_REQUIRE(shape, status_null_pointer, "shape", 0);
    SPIRA_TRY(conv_group_shape_check(shape));
    SPIRA_TRY(capacity_check(capacity, "capacity"));
    return workspace_measure(bytes,
                             [&](workspace *w) { conv_group_grad_take(w, shape, capacity); });
}

// The weight gradient.
//
// outputs  args->weight_grad: fp32 sums, in an order that depends on the shape and the capacity
//          alone
// Asynchronous, deterministic; two launches, no atomics.
template <numeric format = numeric_any>
SPIRA_API status conv_group_grad_weight(const conv_group_grad_args *args, void *scratch,
                                        size_t scratch_bytes, cudaStream_t stream) {
    SPIRA_TRY(conv_group_grad_check(args));
    float *parts = nullptr;
    SPIRA_TRY(workspace_open(scratch, scratch_bytes, [&](workspace *w) {
        parts = conv_group_grad_take(w, &args->shape, args->capacity);
    }));
    return numeric_dispatch<format>(args->shape.type, [&](auto tag) {
        typedef typename decltype(tag)::element E;
        return conv_group_depthwise(args->shape) ? group_grad_launch<E, 1>(args, parts, stream)
                                                 : group_grad_launch<E, 4>(args, parts, stream);
    });
}

} // namespace spira

#endif
