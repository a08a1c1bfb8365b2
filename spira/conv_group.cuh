// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/conv_group.cuh: depthwise and grouped convolution on the GPU, and its gradients. What they
// are, and the host loops: conv_group.h. `format` is the only format that is compiled; numeric_any:
// all four, chosen by args->shape.type.
#ifndef SPIRA_CONV_GROUP_CUH
#define SPIRA_CONV_GROUP_CUH

#include "conv/group/kernel.cuh"

namespace spira {

template <typename E>
SPIRA_API status conv_group_depthwise_launch(const conv_group_args *a, cudaStream_t stream) {
    const int channels = a->shape.cout, pieces = (int)ceil_div(channels, group_piece);
    const bool two = pieces > 8; // pieces of a lane
    const int lanes = (int)min_of(ceil_div(pieces, two ? 2 : 1), 32);
    const group_cut cut = {lanes, 32 / lanes};
    const bool wide = channels % group_piece == 0 && wide_aligned(a->in, 16) &&
                      wide_aligned(a->out, 16) && wide_aligned(a->weight, 16) &&
                      wide_aligned(a->epilogue.residual, 16);
    const dim3 blocks((unsigned)ceil_div(a->capacity, (int64_t)cut.rows * (group_threads / 32)),
                      (unsigned)ceil_div(pieces, lanes * (two ? 2 : 1)));
    void (*const kernel)(const conv_group_args, const group_cut, bool) =
        two ? group_depthwise_kernel<E, 2> : group_depthwise_kernel<E, 1>;
    return kernel_launch(kernel, {blocks, group_threads, stream, "conv_group"}, *a, cut, wide);
}

// Depthwise or grouped convolution with a fused epilogue, or its input gradient.
//
// inputs   args: see conv_group_args
// outputs  args->out; rows from *args->count on are not written
// errors   groups that do not divide the channels; int8
// Asynchronous, deterministic, no scratch, one launch. Sums are fp32, in the order of
// conv_group_host, and rounded once: equal to it, but for silu and gelu.
// cost     depthwise: each row is gathered once for each pair, mostly from caches; bound by reading
//          features and map and writing outputs once. Otherwise a thread for each channel, without
//          tensor cores: cin / groups multiply-adds for each pair and output channel
template <numeric format = numeric_any>
SPIRA_API status conv_group(const conv_group_args *args, cudaStream_t stream) {
    SPIRA_TRY(conv_group_check(args));
    const int64_t blocks = ceil_div((int64_t)args->capacity * args->shape.cout, group_threads);
    SPIRA_REQUIRE(blocks <= INT32_MAX, status_bad_size, "capacity * cout", blocks);
    return numeric_dispatch<format>(args->shape.type, [&](auto tag) {
        typedef typename decltype(tag)::element E;
        if (conv_group_depthwise(args->shape)) {
            return conv_group_depthwise_launch<E>(args, stream);
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
    const group_grad_cut cut = group_grad_cut_of(&args->shape, args->capacity);
    const int64_t total = conv_group_weights(args->shape);
    const bool wide = conv_group_depthwise(args->shape) && args->shape.cout % group_piece == 0 &&
                      wide_aligned(args->in, 16) && wide_aligned(args->out_grad, 16);
    const int64_t units = wide ? total / group_piece : total;
    const dim3 blocks((unsigned)ceil_div(units, group_threads), (unsigned)cut.shares);
    SPIRA_TRY(numeric_dispatch<format>(args->shape.type, [&](auto tag) {
        typedef typename decltype(tag)::element E;
        return kernel_launch(wide ? group_grad_kernel<E, group_piece> : group_grad_kernel<E, 1>,
                             {blocks, group_threads, stream, "conv_group_grad_weight"}, *args, cut,
                             parts);
    }));
    return kernel_launch(
        group_grad_join_kernel<>,
        {(unsigned)ceil_div(total, group_threads), group_threads, stream, "conv_group_grad_weight"},
        parts, cut.shares, total, args->weight_grad);
}

} // namespace spira

#endif
