// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/conv_group.h: depthwise and grouped convolution over a kernel map, and the host loops.
//
//   sum[o, c] = sum over k, i of in[map[o, k], g * cin / groups + i] * weight[k, i, c]
//   out[o, c] = act((sum + bias[c]) * scale[c] + shift[c] + residual[o, c])
//
// Output channel c is of group g = c / (cout / groups), and i counts the input channels of its
// group. Depthwise: as many groups as channels on both sides. Weights are fp32 and need no packing:
// [volume, cin / groups, cout], of a depthwise layer [volume, channels].
//
// `conv_group` takes any groups. Groups of 16 channels and more are faster by `conv_slices`
// (conv_slices.cuh) where rows are many, on the map of convolutions and packed weights; networks
// choose by themselves (conv_slices_pay).
//
// The input gradient is such a convolution, too, of out_grad: with `order` it reads the weights of
// the layer (conv_weights_order), over the layer's own map or that of the other direction
// (conv_grad.h). The bias gradient is conv_grad_bias.
#ifndef SPIRA_CONV_GROUP_H
#define SPIRA_CONV_GROUP_H

#include "conv.h"

namespace spira {

struct conv_group_shape {
    int volume;    // offsets of the kernel
    int groups;    // divides cin and cout
    int cin, cout; // 1 .. 4096
    numeric type;  // not int8
};

// One convolution. A host struct, read during the call only. Features have the storage type of
// shape.type; of conv_group_host all are floats in host memory, and shape.type is not read.
struct conv_group_args {
    conv_group_shape shape;   // of an input gradient: cin is the layer's cout
    const void *in;           // [inputs, cin]
    const float *weight;      // [volume, cin / groups, cout], or the layer's, as `order` says
    conv_weights_order order; // zero: weight is this convolution's own
    const int32_t *map;       // [capacity, volume]
    const int32_t *count;     // [1] outputs, at most `capacity`
    int32_t capacity;
    conv_epilogue epilogue; // the residual may be `out`
    void *out;              // [capacity, cout], not `in`
};

// One weight gradient. Likewise.
//   weight_grad[k, i, c] = sum over o of in[map[o, k], g * cin / groups + i] * out_grad[o, c]
struct conv_group_grad_args {
    conv_group_shape shape; // of the layer
    const void *in;         // [inputs, cin]
    const void *out_grad;   // [outputs, cout]
    const int32_t *map;     // [capacity, volume]
    const int32_t *count;   // [1] outputs, at most `capacity`
    int32_t capacity;
    float *weight_grad; // [volume, cin / groups, cout]
};

SPIRA_BOTH bool conv_group_depthwise(const conv_group_shape &s) {
    return s.groups == s.cin && s.groups == s.cout;
}

// Whether tensor cores compute it (on the GPU, from sm_80 on, `in` aligned to 16): then weights are
// rounded to the format, as those of `conv`.
SPIRA_BOTH bool conv_group_tensor(const conv_group_shape &s) {
    return (s.type == numeric_f16 || s.type == numeric_bf16) && s.cin / s.groups % 16 == 0 &&
           s.cout / s.groups % 16 == 0;
}

// Rows from which on `conv_slices` is faster, of groups of 32 channels and more; of 16 and more.
enum { conv_slices_rows = 4096, conv_slices_rows_16 = 65536 };

// Whether `conv_slices` is taken to be faster than `conv_group`, an ordered layout of its own
// included: a group has channels enough for its tiles, and rows enough for its launch. Measured on
// Hopper, in fp16, fp32 and tf32 (bench/NOTES.md).
SPIRA_BOTH bool conv_slices_pay(const conv_group_shape &s, int32_t capacity) {
    const int64_t own = min_of(s.cin, s.cout) / s.groups;
    return own >= 32 ? capacity >= conv_slices_rows : own >= 16 && capacity >= conv_slices_rows_16;
}

SPIRA_BOTH int64_t conv_group_weights(const conv_group_shape &s) {
    return (int64_t)s.volume * (s.cin / s.groups) * s.cout;
}

SPIRA_API status conv_group_shape_check(const conv_group_shape *s) {
    SPIRA_REQUIRE(s, status_null_pointer, "shape", 0);
    SPIRA_TRY(size_check(s->volume, 1, kernel_volume_max, "shape.volume"));
    SPIRA_TRY(size_check(s->cin, 1, conv_channels_max, "shape.cin"));
    SPIRA_TRY(size_check(s->cout, 1, conv_channels_max, "shape.cout"));
    SPIRA_REQUIRE(s->groups >= 1 && s->cin % s->groups == 0 && s->cout % s->groups == 0,
                  status_bad_size, "shape.groups (does not divide the channels)", s->groups);
    SPIRA_REQUIRE(numeric_valid(s->type), status_unsupported, "shape.type", s->type);
    return status_success();
}

// What both have. A: conv_group_args or conv_group_grad_args
template <typename A>
SPIRA_API status conv_group_common_check(const A *a) {
    SPIRA_REQUIRE(a, status_null_pointer, "args", 0);
    SPIRA_TRY(conv_group_shape_check(&a->shape));
    SPIRA_TRY(capacity_check(a->capacity, "capacity"));
    SPIRA_TRY(pointer_check(a->in, (size_t)numeric_size(a->shape.type), "in"));
    SPIRA_TRY(pointer_check(a->map, sizeof(int32_t), "map"));
    return pointer_check(a->count, sizeof(int32_t), "count");
}

SPIRA_API status conv_group_check(const conv_group_args *a) {
    SPIRA_TRY(conv_group_common_check(a));
    SPIRA_TRY(epilogue_check(&a->epilogue));
    const size_t element = (size_t)numeric_size(a->shape.type);
    SPIRA_TRY(pointer_check(a->weight, sizeof(float), "weight"));
    SPIRA_REQUIRE(a->order >= conv_weights_own && a->order <= conv_weights_of_layer_mirrored,
                  status_unsupported, "order", a->order);
    const conv_epilogue &e = a->epilogue;
    for (const float *vector : {e.bias, e.scale, e.shift}) {
        if (vector) {
            SPIRA_TRY(pointer_check(vector, sizeof(float), "epilogue (bias, scale, shift)"));
        }
    }
    if (e.residual) {
        SPIRA_TRY(pointer_check(e.residual, element, "epilogue.residual"));
    }
    SPIRA_TRY(pointer_check(a->out, element, "out"));
    SPIRA_REQUIRE(a->out != a->in, status_unsupported, "out (overlaps an input)", 0);
    return status_success();
}

SPIRA_API status conv_group_grad_check(const conv_group_grad_args *a) {
    SPIRA_TRY(conv_group_common_check(a));
    SPIRA_TRY(pointer_check(a->out_grad, (size_t)numeric_size(a->shape.type), "out_grad"));
    return pointer_check(a->weight_grad, sizeof(float), "weight_grad");
}

// The weight of offset k between output channel c and the i-th input channel of its group.
SPIRA_BOTH float conv_group_weight(const conv_group_args &a, int64_t k, int i, int c) {
    const conv_group_shape &s = a.shape;
    const int in = s.cin / s.groups, out = s.cout / s.groups;
    if (a.order == conv_weights_own) {
        return a.weight[(k * in + i) * s.cout + c];
    }
    k = a.order == conv_weights_of_layer_mirrored ? s.volume - 1 - k : k;
    return a.weight[(k * out + c % out) * s.cin + c / out * in + i];
}

// The sum of channel c of output o, in one order on both sides: offsets ascending, channels
// ascending. E: of the features.
template <typename E>
SPIRA_BOTH float conv_group_sum(const conv_group_args &a, int64_t o, int c) {
    const conv_group_shape &s = a.shape;
    const int in = s.cin / s.groups, first = c / (s.cout / s.groups) * in;
    float sum = 0;
    for (int k = 0; k < s.volume; ++k) {
        const int64_t source = a.map[o * s.volume + k];
        if (source >= 0) {
            const E *const row = (const E *)a.in + source * s.cin + first;
            for (int i = 0; i < in; ++i) {
                sum = fmaf(element_to_float(row[i]), conv_group_weight(a, k, i, c), sum);
            }
        }
    }
    return sum;
}

// Scale and shift of a channel, the bias folded into the shift, then the residual and the
// activation, on both sides.
SPIRA_BOTH float conv_group_finish(const conv_epilogue &e, float sum, int c, float residual) {
    const float scale = e.scale ? e.scale[c] : 1.0f, shift = e.shift ? e.shift[c] : 0.0f;
    const float all = fmaf(sum, scale, fmaf(e.bias ? e.bias[c] : 0.0f, scale, shift)) + residual;
    return float_is_nan(all) ? all : activation_apply(all, e.act, e.slope);
}

// The host loop of `conv_group` (conv_group.cuh), on floats in host memory.
SPIRA_API status conv_group_host(const conv_group_args *args) {
    SPIRA_REQUIRE(args, status_null_pointer, "args", 0);
    conv_group_args a = *args;
    a.shape.type = numeric_f32;
    SPIRA_TRY(conv_group_check(&a));
    const int64_t outputs = count_clamp(*a.count, a.capacity), cout = a.shape.cout;
    const float *const residual = (const float *)a.epilogue.residual;
    SPIRA_PARALLEL_FOR
    for (int64_t o = 0; o < outputs; ++o) {
        for (int64_t at = o * cout; at < (o + 1) * cout; ++at) {
            const int c = (int)(at - o * cout);
            ((float *)a.out)[at] = conv_group_finish(a.epilogue, conv_group_sum<float>(a, o, c), c,
                                                     residual ? residual[at] : 0.0f);
        }
    }
    return status_success();
}

// The host loop of `conv_group_grad_weight`, likewise, with sums in double.
SPIRA_API status conv_group_grad_weight_host(const conv_group_grad_args *args) {
    SPIRA_REQUIRE(args, status_null_pointer, "args", 0);
    conv_group_grad_args a = *args;
    a.shape.type = numeric_f32;
    SPIRA_TRY(conv_group_grad_check(&a));
    const conv_group_shape &s = a.shape;
    const int64_t outputs = count_clamp(*a.count, a.capacity), total = conv_group_weights(s);
    const int64_t in = s.cin / s.groups, out = s.cout / s.groups;
    SPIRA_PARALLEL_FOR
    for (int64_t w = 0; w < total; ++w) {
        const int64_t c = w % s.cout, i = w / s.cout % in, k = w / s.cout / in;
        double sum = 0;
        for (int64_t o = 0; o < outputs; ++o) {
            const int64_t source = a.map[o * s.volume + k];
            if (source >= 0) {
                sum += (double)((const float *)a.in)[source * s.cin + c / out * in + i] *
                       ((const float *)a.out_grad)[o * s.cout + c];
            }
        }
        a.weight_grad[w] = (float)sum;
    }
    return status_success();
}

} // namespace spira

#endif
