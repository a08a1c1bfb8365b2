// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/conv_grad.h: gradients of a sparse convolution: what they are, and the host loops.
//
//   forward  out[o, n] = bias[n] + sum over k, c of in[map[o, k], c] * weight[k, c, n]
//
//   input    in_grad[i, c] = sum over k, n of out_grad[o, n] * weight[k, c, n], with map[o, k] = i
//   weight   weight_grad[k, c, n] = sum over the pairs (i, o) of offset k of
//            in[i, c] * out_grad[o, n]
//   bias     bias_grad[n] = sum over o of out_grad[o, n]
//
// The input gradient is a convolution of out_grad, with transposed weights [volume, cout, cin]:
//   submanifold layers with odd kernels   the layer's own map; the weights are mirrored as well
//                                         (offset k takes those of volume - 1 - k)
//   all others                            the map of the other direction (conv_grad_request): sets
//                                         exchanged, `kernel.transposed` inverted; not mirrored
// So it takes what a convolution takes: the gradient of a second branch is added as a residual,
// without a further pass.
//
// out_grad is the gradient of the sums: where a layer has a batch norm or an activation, apply
// their gradients first; gate_grad (gate.cuh) has those of activations. The gradient of the layer's
// residual is out_grad itself.
//
// The gradients share nothing that they write: they may run side by side, each on a stream of its
// own and with scratch of its own. The same bits.
#ifndef SPIRA_CONV_GRAD_H
#define SPIRA_CONV_GRAD_H

#include "conv_pairs.h"

namespace spira {

// Of a layer with two sources: which of them the input gradient is for.
enum grad_source : int {
    grad_source_both, // in_grad [inputs, cin + cin2]
    grad_source_first,
    grad_source_second,
};

// Which offset's weights offset k of the map multiplies.
enum grad_order : int {
    grad_order_same,     // map of the other direction
    grad_order_mirrored, // the layer's own map
};

// The input channels [first, first + count) of a layer.
struct grad_channels {
    int first, count;
};

SPIRA_BOTH grad_channels grad_channels_of(const conv_shape *s, grad_source source) {
    grad_channels c = {source == grad_source_second ? s->cin : 0,
                       source == grad_source_both    ? s->cin + s->cin2
                       : source == grad_source_first ? s->cin
                                                     : s->cin2};
    return c;
}

// Whether the input gradient may read the layer's own map. same_set: the outputs are the inputs.
SPIRA_BOTH bool conv_grad_mirrors(const kernel_shape *kernel, bool same_set) {
    return same_set && kernel_is_odd(kernel) && !kernel->transposed;
}

// The shape of the convolution that computes the input gradient of a layer.
SPIRA_BOTH conv_shape conv_grad_shape(const conv_shape *s, grad_source source) {
    conv_shape g = *s;
    g.cin = s->cout;
    g.cin2 = 0;
    g.cout = grad_channels_of(s, source).count;
    return g;
}

SPIRA_API status conv_grad_shape_check(const conv_shape *s, grad_source source, grad_order order) {
    SPIRA_TRY(conv_shape_check(s));
    SPIRA_REQUIRE(source >= grad_source_both && source <= grad_source_second, status_unsupported,
                  "source", source);
    SPIRA_REQUIRE(source != grad_source_second || s->cin2, status_unsupported,
                  "source (the layer has one)", source);
    SPIRA_REQUIRE(order == grad_order_same || order == grad_order_mirrored, status_unsupported,
                  "order", order);
    SPIRA_REQUIRE(grad_channels_of(s, source).count <= conv_channels_max, status_bad_size,
                  "shape.cin + shape.cin2 (take one source at a time)", s->cin + s->cin2);
    return status_success();
}

// Where the weights of offset k of the input gradient are in those of the layer.
SPIRA_BOTH int grad_offset(const conv_shape *s, grad_order order, int k) {
    return order == grad_order_mirrored ? s->volume - 1 - k : k;
}

// One weight gradient. A host struct, read during the call only. Arrays are in device memory;
// features have the storage type of shape.type.
struct conv_grad_weight_args {
    conv_shape shape;     // of the layer
    const void *in;       // [inputs, cin]
    const void *in2;      // [inputs, cin2], or null where cin2 is 0
    const void *out_grad; // [outputs, cout]
    // Of map_build_lists, for the layer's kernel and sets. Lists of the other direction serve too,
    // with `input` and `output` exchanged. Zeroed for a 1x1x1 layer on one set
    // (pairs_sides_centre).
    map_lists pairs;
    pairs_sides sides;    // which products the lists stand for
    const int32_t *count; // [1] outputs, at most `capacity`
    int32_t capacity;
    float *weight_grad; // [volume, cin + cin2, cout]
    float *bias_grad;   // [cout]: the bias gradient as well; null: none
    // Programmatic dependent launch, as in conv_args: the kernel before this one on the stream
    // writes neither the lists nor the count. It may write the features.
    bool programmatic;
};

// One bias gradient by itself.
struct conv_grad_bias_args {
    numeric type;
    int cout;
    const void *out_grad; // [capacity, cout] of `type`
    const int32_t *count; // [1] rows, at most `capacity`
    int32_t capacity;
    float *bias_grad; // [cout]
};

SPIRA_API status conv_grad_channels_check(int cout) {
    SPIRA_TRY(size_check(cout, 1, conv_channels_max, "cout"));
    return status_success();
}

SPIRA_API status conv_grad_bias_check(const conv_grad_bias_args *a) {
    SPIRA_REQUIRE(a, status_null_pointer, "args", 0);
    SPIRA_REQUIRE(numeric_valid(a->type), status_unsupported, "type", a->type);
    SPIRA_TRY(conv_grad_channels_check(a->cout));
    SPIRA_TRY(pointer_check(a->out_grad, (size_t)numeric_size(a->type), "out_grad"));
    SPIRA_TRY(pointer_check(a->count, sizeof(int32_t), "count"));
    SPIRA_TRY(capacity_check(a->capacity, "capacity"));
    return pointer_check(a->bias_grad, sizeof(float), "bias_grad");
}

// ---- host loops ---------------------------------------------------------------------------------

// The weights of the convolution that computes the input gradient, to [volume, cout, channels of
// `source`], from those of the layer, weight [volume, cin + cin2, cout]: what
// conv_grad_weights_pack (conv_grad.cuh) packs. With them conv_host, of conv_grad_shape, is the
// host loop of the gradient.
SPIRA_API status conv_grad_weights_host(const conv_shape *s, grad_source source, grad_order order,
                                        const float *weight, float *to) {
    SPIRA_TRY(conv_grad_shape_check(s, source, order));
    SPIRA_REQUIRE(weight, status_null_pointer, "weight", 0);
    SPIRA_REQUIRE(to, status_null_pointer, "to", 0);
    const grad_channels c = grad_channels_of(s, source);
    const int64_t rows = s->cin + s->cin2;
    for (int64_t k = 0; k < s->volume; ++k) {
        const float *from = weight + (grad_offset(s, order, (int)k) * rows + c.first) * s->cout;
        for (int64_t n = 0; n < s->cout; ++n) {
            for (int64_t i = 0; i < c.count; ++i) {
                to[(k * s->cout + n) * c.count + i] = from[i * s->cout + n];
            }
        }
    }
    return status_success();
}

// The bias gradient, bias_grad [cout] of out_grad [outputs, cout]: the host loop of conv_grad_bias.
template <typename Sum>
SPIRA_API status conv_grad_bias_host(const float *out_grad, int32_t outputs, int cout,
                                     Sum *bias_grad) {
    SPIRA_REQUIRE(out_grad, status_null_pointer, "out_grad", 0);
    SPIRA_REQUIRE(bias_grad, status_null_pointer, "bias_grad", 0);
    SPIRA_TRY(size_check(outputs, 0, INT64_MAX, "outputs"));
    SPIRA_TRY(conv_grad_channels_check(cout));
    std::fill(bias_grad, bias_grad + cout, (Sum)0);
    for (int64_t o = 0; o < outputs; ++o) {
        for (int n = 0; n < cout; ++n) {
            bias_grad[n] += (Sum)out_grad[o * cout + n];
        }
    }
    return status_success();
}

// What conv_grad_weight_host reads: as conv_grad_weight_args.
struct conv_grad_weight_host_args {
    conv_shape shape;
    const float *in, *in2, *out_grad;
    map_lists pairs;
    pairs_sides sides;
    int32_t outputs;
};

// The weight gradient, weight_grad [volume, cin + cin2, cout], and the bias gradient, bias_grad
// [cout], unless it is null: the host loop of conv_grad_weight, in float or double. The order of
// the additions is fixed: pairs as they stand in their list.
template <typename Sum>
SPIRA_API status conv_grad_weight_host(const conv_grad_weight_host_args *a, Sum *weight_grad,
                                       Sum *bias_grad) {
    SPIRA_REQUIRE(a, status_null_pointer, "args", 0);
    const conv_shape *s = &a->shape;
    SPIRA_TRY(conv_shape_check(s));
    SPIRA_TRY(pairs_sides_check(s, a->sides));
    SPIRA_REQUIRE(a->in, status_null_pointer, "in", 0);
    SPIRA_REQUIRE(a->in2 || !s->cin2, status_null_pointer, "in2", 0);
    SPIRA_REQUIRE(a->out_grad, status_null_pointer, "out_grad", 0);
    if (s->volume > 1 || a->sides != pairs_sides_centre) {
        SPIRA_TRY(map_lists_check(&a->pairs));
    }
    SPIRA_REQUIRE(weight_grad, status_null_pointer, "weight_grad", 0);
    SPIRA_TRY(size_check(a->outputs, 0, INT64_MAX, "outputs"));
    const int64_t size = (int64_t)(s->cin + s->cin2) * s->cout;
    SPIRA_PARALLEL_FOR
    for (int k = 0; k < s->volume; ++k) {
        const pairs_list list = pairs_list_of(&a->pairs, s->volume, a->sides, a->outputs, k);
        const int64_t begin = list.span.begin;
        Sum *to = weight_grad + k * size;
        std::fill(to, to + size, (Sum)0);
        for (int64_t p = begin; p < begin + list.span.count; ++p) {
            const int64_t i = list.sources ? list.sources[p] : p;
            const int64_t o = list.targets ? list.targets[p] : p;
            if (i < 0 || o < 0 || o >= a->outputs) {
                continue;
            }
            for (int64_t c = 0; c < s->cin + s->cin2; ++c) {
                const bool first = c < s->cin;
                const Sum x =
                    (Sum)(first ? a->in[i * s->cin + c] : a->in2[i * s->cin2 + c - s->cin]);
                for (int64_t n = 0; n < s->cout; ++n) {
                    to[c * s->cout + n] += x * (Sum)a->out_grad[o * s->cout + n];
                }
            }
        }
    }
    return bias_grad ? conv_grad_bias_host(a->out_grad, a->outputs, s->cout, bias_grad)
                     : status_success();
}

} // namespace spira

#endif
