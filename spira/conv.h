// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/conv.h: sparse convolution over a kernel map, and its fused epilogue.
//
//   sum[o, c] = sum over k, i of in[map[o, k], i] * weight[k, i, c]      (missing sources are 0)
//   out[o, c] = act((sum + bias[c]) * scale[c] + shift[c] + residual[o, c])
//
// The input may come from two arrays whose rows belong to the same voxels: channels 0 .. cin - 1
// from the first, cin .. cin + cin2 - 1 from the second. That is a concatenation without a copy.
//
// On the GPU the residual may be the output of a 1x1x1 convolution, without activation, that is
// computed along with it: conv_shortcut.
//
// int8 layers have int8 features and weights and int32 sums: conv_i8.h has their formulas.
#ifndef SPIRA_CONV_H
#define SPIRA_CONV_H

#include "device.h"
#include "numeric.h"
#include "offset.h"
#include "status.h"

#include <algorithm>
#include <math.h>

namespace spira {

// A new activation has its line here, its formula in activation_apply, its slope and steepness, and
// a line in conv_activate_curved_4 of conv/epilogue.cuh. The kernels need nothing else (conv/linear
// leaves it to others). Bounds come first: activation_is_bound.
enum activation : int {
    activation_none,
    activation_relu,
    activation_leaky,
    activation_silu,      // x / (1 + exp(-x)), also called swish
    activation_gelu,      // x / 2 (1 + erf(x / sqrt(2))), the exact form
    activation_gelu_tanh, // x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))
    activation_count
};

// Whether an activation is a lower bound and nothing else: the kernels have short epilogues for it.
SPIRA_BOTH bool activation_is_bound(activation act) {
    return act <= activation_relu;
}

// On the GPU in fewer instructions: within 2^-22 of the quotient, and 0 where b is 2^126 or more.
template <typename F>
SPIRA_BOTH F activation_divide(F a, F b) {
#ifdef __CUDA_ARCH__
    if constexpr (sizeof(F) == sizeof(float)) {
        return __fdividef(a, b);
    }
#endif
    return a / b;
}

// On the GPU in two instructions, and 0 below 2^-126: its error is small beside what is added to it
// in silu.
template <typename F>
SPIRA_BOTH F activation_exp(F x) {
#ifdef __CUDA_ARCH__
    if constexpr (sizeof(F) == sizeof(float)) {
        float power;
        asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x * 1.4426950408889634f));
        return power;
    }
#endif
    return (F)exp(x);
}

// erfc(z) / 2 for z of 0 and more. On the GPU by the fit of Numerical Recipes (erfcc): within 2^-22
// of 1, and 3e-6 of itself up to 1e-6.
template <typename F>
SPIRA_BOTH F activation_tail(F z) {
#ifdef __CUDA_ARCH__
    if constexpr (sizeof(F) == sizeof(float)) {
        const float t = activation_divide(1.0f, fmaf(0.5f, z, 1.0f));
        float fit = fmaf(0.17087277f, t, -0.82215223f);
        fit = fmaf(fit, t, 1.48851587f);
        fit = fmaf(fit, t, -1.13520398f);
        fit = fmaf(fit, t, 0.27886807f);
        fit = fmaf(fit, t, -0.18628806f);
        fit = fmaf(fit, t, 0.09678418f);
        fit = fmaf(fit, t, 0.37409196f);
        fit = fmaf(fit, t, 1.00002368f);
        fit = fmaf(fit, t, -1.26551223f);
        return 0.5f * t * activation_exp(fmaf(-z, z, fit));
    }
#endif
    return (F)0.5 * (F)erfc(z);
}

// f(x) of an activation, for numbers: NaN stays NaN (epilogue_apply, conv_activate).
// slope: of activation_leaky
template <typename F>
SPIRA_BOTH F activation_apply(F x, activation act, F slope) {
    switch (act) {
    case activation_relu:
        return x > 0 ? x : 0;
    case activation_leaky:
        return x < 0 ? x * slope : x;
    case activation_silu:
        return activation_divide(x, 1 + activation_exp(-x));
    case activation_gelu: { // by erfc: 1 + erf would lose the digits of negative numbers
        const F tail = activation_tail((x < 0 ? -x : x) * (F)0.70710678118654752440);
        return x * (x < 0 ? tail : 1 - tail);
    }
    case activation_gelu_tanh: { // (1 + tanh(u)) / 2 = 1 / (1 + exp(-2 u))
        const F twice = (F)1.59576912160573071176 * x * (1 + (F)0.044715 * x * x);
        return activation_divide(x, 1 + activation_exp(-twice));
    }
    default:
        return x;
    }
}

// f'(x) of an activation, for numbers: in fp32 within 2^-19. At 0 that of relu is 0, and that of
// leaky is `slope`. Of an infinity it is the limit.
template <typename F>
SPIRA_BOTH F activation_slope(F x, activation act, F slope) {
    const F near_0 = x > 128 ? 128 : x < -128 ? -128 : x; // beyond, it is multiplied by 0
    switch (act) {
    case activation_relu:
        return x > 0 ? 1 : 0;
    case activation_leaky:
        return x > 0 ? 1 : slope;
    case activation_silu: { // s (1 + x (1 - s)), s = 1 / (1 + exp(-x))
        const F power = activation_exp(-x), s = activation_divide((F)1, 1 + power);
        return s * (1 + near_0 * (x < 0 ? 1 - s : power * s)); // 1 - s would cancel
    }
    case activation_gelu: { // P(x) + x P'(x), P: the normal distribution
        const F tail = activation_tail((x < 0 ? -x : x) * (F)0.70710678118654752440);
        const F density = (F)0.39894228040143267794 * activation_exp((F)-0.5 * x * x);
        return (x < 0 ? tail : 1 - tail) + near_0 * density;
    }
    case activation_gelu_tanh: { // s (1 + (1 - s) steep), s as for silu, of 2 u; steep: x (2 u)'
        const F twice = (F)1.59576912160573071176 * x * (1 + (F)0.044715 * x * x);
        const F power = activation_exp(-twice), s = activation_divide((F)1, 1 + power);
        const F steep = (F)1.59576912160573071176 * near_0 * (1 + (F)0.134145 * near_0 * near_0);
        return s * (1 + steep * (x < 0 ? 1 - s : power * s));
    }
    default:
        return 1;
    }
}

// The largest |f'(x)|: how much an error of x can grow.
SPIRA_BOTH double activation_steepness(activation act, double slope) {
    slope = slope < 0 ? -slope : slope;
    return act == activation_leaky && slope > 1 ? slope
           : act == activation_silu             ? 1.1
           : act >= activation_gelu             ? 1.13
                                                : 1;
}

// The error of f(x) in fp32 by its own steps, as a part of |x|.
SPIRA_BOTH double activation_error(activation act) {
    return act > activation_leaky ? 12 * 0x1p-24 : 0;
}

// What is done to a sum before its one rounding. Null pointers leave their step out.
struct conv_epilogue {
    const float *bias;    // [cout]
    const float *scale;   // [cout] batch norm: gamma / sqrt(var + eps)
    const float *shift;   // [cout] batch norm: beta - mean * scale
    const void *residual; // [outputs, cout] of the output's type (conv_quantisation: or another)
    activation act;
    float slope; // of activation_leaky
};

enum { conv_channels_max = 4096 };

// The sizes of one convolution.
struct conv_shape {
    int volume; // offsets of the kernel
    int cin;    // channels of the first source, 1 .. 4096
    int cin2;   // channels of the second source, 1 .. 4096, or 0 where there is none
    int cout;   // 1 .. 4096
    numeric type;
};

// How integers stand for numbers, and which formats the residual and the output have. All zero: a
// floating-point layer whose residual and output have the format of its features.
struct conv_quantisation {
    const float *step; // [cout], > 0; int8 layers only: what one unit of the integer sums is worth
    bool mixed;        // the residual and the output have the formats below, not shape.type
    numeric residual_type, out_type; // without mixed, or without a residual: 0
    float residual_scale;            // > 0, of an int8 residual: element * scale; others: 0
    float out_inverse;               // > 0, of an int8 output: 1 / its scale; others: 0
};

// The order of weights before they are packed. Those of the layer are for its input gradient
// (conv_grad.h), which is a convolution, too: [volume, cout, cin] of that convolution. Mirrored:
// offset k takes the weights of offset volume - 1 - k.
enum conv_weights_order : int {
    conv_weights_own, // [volume, cin + cin2, cout]
    conv_weights_of_layer,
    conv_weights_of_layer_mirrored,
};

// Where the weight of an offset, an input channel (of both sources) and an output channel is. rows:
// of an offset's weights: input channels of the layer whose they are.
template <conv_weights_order order>
SPIRA_BOTH int64_t conv_weight_index(const conv_shape *s, int rows, int64_t offset, int64_t in,
                                     int64_t out) {
    if (order == conv_weights_own) {
        return (offset * rows + in) * s->cout + out;
    }
    offset = order == conv_weights_of_layer_mirrored ? s->volume - 1 - offset : offset;
    return (offset * rows + out) * s->cin + in;
}

// Weights to be packed for a GPU. A host struct, read during the call only; arrays are in device
// memory. A weight that is NaN or infinite, or becomes infinite in the format (fp16: from 65520
// on), is packed as the format's largest number with its sign: a missing source is a row of zeros,
// and 0 times infinity would be NaN in outputs that do not use the weight. Outputs that use it are
// meaningless, so it is recorded: read `trouble` after packing, and do not run such a layer.
struct conv_weights {
    const float *weight;    // [volume, cin + cin2, cout], offsets in spira's order (offset.h)
    void *packed;           // aligned to 256
    size_t packed_bytes;    //
    device_status *trouble; // device_flag_weights, with the index in `weight`; null: not recorded
    // Of int8 layers alone: a weight w of source i is packed as conv_i8_weight(w, scale i, step).
    // Recorded: weights that are not finite, and steps that are not positive numbers.
    const float *step = nullptr;             // [cout]; the one of conv_args.quantisation
    float scale_in = 0.0f, scale_in2 = 0.0f; // of the sources, > 0; scale_in2: 0 without a second
    const float *scale = nullptr;            // [cout] that the weights are multiplied by before, or
                                             // null: see conv_i8_step_shared
};

// A weight of an int8 layer, as an integer: the weight of an input channel whose elements are worth
// `scale` each, in an output channel whose sums are worth `step` a unit. -127 .. 127; NaN: 0.
SPIRA_BOTH int8_t conv_i8_weight(float weight, float scale, float step) {
    const int8_t q = i8_from_float(float_divide(weight * scale, step));
    return q < -127 ? (int8_t)-127 : q;
}

// The step that an int8 layer and its shortcut share, whose weights are then packed times their
// scales (conv_weights.scale), and run without: of a channel, the larger of step times |scale|.
SPIRA_BOTH float conv_i8_step_shared(float step, float scale, float step2, float scale2) {
    const float a = fabsf(step * scale), b = fabsf(step2 * scale2), t = a > b ? a : b;
    return t > 0 ? t : 1.0f;
}

// The host's twin: records the weights that the format of the layer cannot hold.
SPIRA_API status conv_weights_check(const conv_shape *s, const float *weight,
                                    device_status *trouble) {
    SPIRA_REQUIRE(s, status_null_pointer, "shape", 0);
    SPIRA_REQUIRE(weight, status_null_pointer, "weight", 0);
    SPIRA_REQUIRE(trouble, status_null_pointer, "trouble", 0);
    const int64_t total = (int64_t)s->volume * (s->cin + s->cin2) * s->cout;
    for (int64_t i = 0; i < total; ++i) {
        if (!float_is_finite(weight[i]) || !float_is_finite(numeric_operand(s->type, weight[i]))) {
            device_status_note(trouble, device_flag_weights, (uint32_t)min_of(i, UINT32_MAX));
        }
    }
    return status_success();
}

enum : uint32_t {
    conv_weights_magic = 0x57525053, // "SPRW"
    conv_weights_version = 1,        // of the orders of packed weights: raised with any of them
};

// What stands behind the weights of conv_weights_pack and conv_shortcut_pack, so that packed
// weights can be stored, and are refused where they do not belong: conv_weights_stored.
struct conv_weights_tag {
    uint32_t magic, version;
    int32_t kernel; // that reads them; -1 in front of a network's parameters
    conv_shape shape;
    device_info gpu;
};

SPIRA_API conv_weights_tag conv_weights_tag_make(const device_info *gpu, const conv_shape *shape,
                                                 int32_t kernel) {
    conv_weights_tag tag = {conv_weights_magic, conv_weights_version, kernel, *shape, *gpu};
    tag.gpu.tensor_map_encode = nullptr; // an address of this process
    return tag;
}

// Whether stored bytes end with the tag that is wanted. packed [bytes]: a copy in host memory.
SPIRA_API status conv_weights_tag_check(const conv_weights_tag *wanted, const void *packed,
                                        size_t bytes) {
    conv_weights_tag tag;
    SPIRA_REQUIRE(packed, status_null_pointer, "packed", 0);
    SPIRA_REQUIRE(bytes >= sizeof tag, status_file_format, "packed (cut short)", bytes);
    memcpy(&tag, (const char *)packed + bytes - sizeof tag, sizeof tag);
    SPIRA_REQUIRE(tag.magic == wanted->magic, status_file_format, "packed (its tag is not there)",
                  bytes);
    SPIRA_REQUIRE(tag.version == wanted->version, status_unsupported,
                  "packed (by another version of spira: pack again)", tag.version);
    SPIRA_REQUIRE(device_info_equal(&tag.gpu, &wanted->gpu), status_unsupported,
                  "packed (for another GPU model: pack again)", tag.gpu.capability);
    const conv_shape &s = tag.shape, &w = wanted->shape;
    SPIRA_REQUIRE(s.volume == w.volume && s.cin == w.cin && s.cin2 == w.cin2 && s.cout == w.cout &&
                      s.type == w.type && tag.kernel == wanted->kernel,
                  status_unsupported, "packed (for another layer)", 0);
    return status_success();
}

enum { conv_sizes_most = 64 };

// How the work of a layer is cut. What a member means depends on the kernel: the table in
// conv/README.md. Launchers choose `depth` themselves and ignore the caller's.
struct conv_sizes {
    int tiles, slices, split, depth;
};

struct conv_map; // conv_map.h

// A 1x1x1 convolution over the outputs' own voxels, added before the activation: the shortcut of a
// residual block whose channels change, without an array of its own.
//
//   out[o, c] = act((sum + bias[c]) * scale[c] + shift[c] + residual[o, c] +
//                   (sum' + bias'[c]) * scale'[c] + shift'[c])
//
// sum' is over row o of in and in2. Null bias, scale or shift: that step is skipped.
struct conv_shortcut {
    int cin, cin2;       // cin2: 0 without a second source
    const void *in;      // [outputs, cin] of the convolution's type
    const void *in2;     // [outputs, cin2], or null where cin2 is 0
    const void *weights; // of conv_shortcut_pack, with the same shapes and device_info
    const float *bias, *scale, *shift; // [cout]; int8: without scale, which the weights contain
};

// One convolution. A host struct, read during the call only. Arrays are in device memory; features
// have the storage type of shape.type. Null members are optional.
struct conv_args {
    conv_shape shape;
    const conv_map *map; // on the host; of conv_map_build
    const void *in;      // [inputs, cin]
    const void *in2;     // [inputs, cin2], or null where cin2 is 0
    const void *weights; // of conv_weights_pack, with the same shape and device_info
    conv_epilogue epilogue;
    void *out;                     // [map->capacity, cout]
    const conv_shortcut *shortcut; // on the host; see conv_shortcut_takes
    const float *sums;       // [map->capacity, conv_sums_pitch(cout)], aligned to 16: added to, as
                             // conv_pairs_run leaves them; null: the accumulators start at zero
    const conv_sizes *sizes; // how the work is cut (depth is not read); null: chosen
    // Programmatic dependent launch (spira/README). The kernel before may write features, residual
    // and sums, but not what is read while it still runs: map, count, weights, bias, scale, shift.
    bool programmatic;
    conv_quantisation quantisation; // zero for most layers
    // Rows of `in`, or of outputs and residual, that are slices of wider ones: channels from a row
    // to the next; 0: cin, cout. Not in int8, nor with quantisation.mixed.
    int pitch_in, pitch_out;
};

// The shape of a convolution with one source.
SPIRA_BOTH conv_shape conv_shape_of(const kernel_shape *kernel, int cin, int cout, numeric type) {
    conv_shape s = {};
    s.volume = kernel_volume(kernel);
    s.cin = cin;
    s.cout = cout;
    s.type = type;
    return s;
}

// Floats of a row of sums that one kernel leaves for another: four channels stand together.
SPIRA_BOTH int conv_sums_pitch(int cout) {
    return (int)round_up(cout, 4);
}

SPIRA_BOTH float epilogue_apply(float sum, const conv_epilogue *e, int channel, float residual) {
    if (e->bias) {
        sum += e->bias[channel];
    }
    if (e->scale) {
        sum *= e->scale[channel];
    }
    if (e->shift) {
        sum += e->shift[channel];
    }
    sum += residual;
    return float_is_nan(sum) ? sum : activation_apply(sum, e->act, e->slope);
}

// Products of int8 that an int32 sum has room for: each is at most 128 * 127.
enum { conv_i8_products_max = INT32_MAX / (128 * 127) };

SPIRA_BOTH int64_t conv_products(const conv_shape *s) {
    return (int64_t)s->volume * (s->cin + s->cin2);
}

// Of functions that take int8, too.
SPIRA_API status conv_shape_check_i8(const conv_shape *s) {
    SPIRA_REQUIRE(s, status_null_pointer, "shape", 0);
    SPIRA_TRY(size_check(s->volume, 1, kernel_volume_max, "shape.volume"));
    SPIRA_TRY(size_check(s->cin, 1, conv_channels_max, "shape.cin"));
    SPIRA_TRY(size_check(s->cin2, 0, conv_channels_max, "shape.cin2"));
    SPIRA_TRY(size_check(s->cout, 1, conv_channels_max, "shape.cout"));
    if (s->type == numeric_i8) {
        return size_check(conv_products(s), 1, conv_i8_products_max,
                          "shape (volume * channels: int32 sums of int8)");
    }
    SPIRA_REQUIRE(numeric_valid(s->type), status_unsupported, "shape.type", s->type);
    return status_success();
}

SPIRA_API status conv_shape_check(const conv_shape *s) {
    SPIRA_TRY(conv_shape_check_i8(s));
    SPIRA_REQUIRE(s->type != numeric_i8, status_unsupported, "shape.type (int8)", s->type);
    return status_success();
}

// The formats of a layer's residual and output.
SPIRA_BOTH numeric conv_residual_type(const conv_shape *s, const conv_quantisation *q) {
    return q->mixed ? q->residual_type : s->type;
}

SPIRA_BOTH numeric conv_out_type(const conv_shape *s, const conv_quantisation *q) {
    return q->mixed ? q->out_type : s->type;
}

// A scale of int8, or its inverse: a positive number where it is read, 0 elsewhere.
SPIRA_API status conv_scale_check(float scale, bool read, const char *name) {
    SPIRA_REQUIRE(numeric_scale_good(scale, read), status_unsupported, name, 0);
    return status_success();
}

// A format that a residual or an output has; 0 where it is not read.
SPIRA_API status conv_format_check(numeric type, bool read, const char *name) {
    SPIRA_REQUIRE(read ? numeric_valid(type) || type == numeric_i8 : type == 0, status_unsupported,
                  name, type);
    return status_success();
}

// residual: whether the layer has one.
SPIRA_API status conv_quantisation_check(const conv_shape *s, const conv_quantisation *q,
                                         bool residual) {
    SPIRA_REQUIRE(s, status_null_pointer, "shape", 0);
    SPIRA_REQUIRE(q, status_null_pointer, "quantisation", 0);
    SPIRA_REQUIRE(q->step || s->type != numeric_i8, status_null_pointer, "quantisation.step", 0);
    SPIRA_REQUIRE(!q->step || s->type == numeric_i8, status_unsupported,
                  "quantisation.step (of a layer that is not int8)", 0);
    SPIRA_TRY(
        conv_format_check(q->residual_type, q->mixed && residual, "quantisation.residual_type"));
    SPIRA_TRY(conv_format_check(q->out_type, q->mixed, "quantisation.out_type"));
    SPIRA_TRY(conv_scale_check(q->residual_scale,
                               residual && conv_residual_type(s, q) == numeric_i8,
                               "quantisation.residual_scale"));
    return conv_scale_check(q->out_inverse, conv_out_type(s, q) == numeric_i8,
                            "quantisation.out_inverse");
}

SPIRA_API status epilogue_check(const conv_epilogue *e) {
    SPIRA_REQUIRE(e, status_null_pointer, "epilogue", 0);
    SPIRA_REQUIRE(e->act >= activation_none && e->act < activation_count, status_unsupported,
                  "epilogue.act", e->act);
    return status_success();
}

// sum[c] += x[i] * weight[i, c] for one row: four inputs a pass keep the sums in registers longer.
template <typename Sum>
SPIRA_API void conv_host_row(const float *x, const float *weight, int cin, int cout, Sum *sum) {
    int i = 0;
    for (; i + 4 <= cin; i += 4) {
        const float *w0 = weight + (int64_t)i * cout, *w1 = w0 + cout, *w2 = w1 + cout,
                    *w3 = w2 + cout;
        const Sum x0 = x[i], x1 = x[i + 1], x2 = x[i + 2], x3 = x[i + 3];
        for (int c = 0; c < cout; ++c) {
            sum[c] += (x0 * w0[c] + x1 * w1[c]) + (x2 * w2[c] + x3 * w3[c]);
        }
    }
    for (; i < cin; ++i) {
        const float *w = weight + (int64_t)i * cout;
        const Sum x0 = x[i];
        for (int c = 0; c < cout; ++c) {
            sum[c] += x0 * w[c];
        }
    }
}

// sum [cout] += what a source row gives by the weights [cin + cin2, cout] of one offset.
template <typename Sum>
SPIRA_API void conv_host_add(const conv_shape *s, const float *in, const float *in2,
                             const float *weight, int64_t source, Sum *sum) {
    conv_host_row(in + source * s->cin, weight, s->cin, s->cout, sum);
    if (s->cin2) {
        conv_host_row(in2 + source * s->cin2, weight + (int64_t)s->cin * s->cout, s->cin2, s->cout,
                      sum);
    }
}

// A convolution in fp32 on the host. shape.type is not read.
struct conv_host_args {
    conv_shape shape;
    const float *in;     // [inputs, cin]
    const float *in2;    // [inputs, cin2], or null where cin2 is 0
    const float *weight; // [volume, cin + cin2, cout]
    const int32_t *map;  // [outputs, volume]; null: the identity of a 1x1x1 convolution
    int32_t outputs;
};

SPIRA_API status conv_host_check(const conv_host_args *a, const void *sum) {
    SPIRA_REQUIRE(a, status_null_pointer, "args", 0);
    SPIRA_TRY(conv_shape_check(&a->shape));
    SPIRA_REQUIRE(a->in, status_null_pointer, "in", 0);
    SPIRA_REQUIRE(a->in2 || !a->shape.cin2, status_null_pointer, "in2", 0);
    SPIRA_REQUIRE(a->weight, status_null_pointer, "weight", 0);
    SPIRA_REQUIRE(sum, status_null_pointer, "sum", 0);
    return size_check(a->outputs, 0, INT64_MAX, "outputs");
}

// The sums alone: the host loop of every dataflow, in float or, as a reference, in double.
//
// outputs  sum [outputs, cout]
// The order of the additions is fixed: offsets ascending, channels ascending.
template <typename Sum>
SPIRA_API status conv_sum_host(const conv_host_args *a, Sum *sum) {
    SPIRA_TRY(conv_host_check(a, sum));
    const conv_shape *s = &a->shape;
    SPIRA_REQUIRE(a->map || s->volume == 1, status_null_pointer, "map", 0);
    const int64_t cout = s->cout, pitch = (int64_t)(s->cin + s->cin2) * cout;
    const int64_t block = 64, blocks = ceil_div(a->outputs, block); // shares weights in cache
    SPIRA_PARALLEL_FOR
    for (int64_t b = 0; b < blocks; ++b) {
        const int64_t end = min_of((b + 1) * block, a->outputs);
        std::fill(sum + b * block * cout, sum + end * cout, (Sum)0);
        for (int k = 0; k < s->volume; ++k) {
            for (int64_t o = b * block; o < end; ++o) {
                int64_t source = a->map ? a->map[o * s->volume + k] : o;
                if (source >= 0) {
                    conv_host_add(s, a->in, a->in2, a->weight + k * pitch, source, sum + o * cout);
                }
            }
        }
    }
    return status_success();
}

// A convolution in fp32 on the host: what users get where there is no GPU. The epilogue's residual
// is float [outputs, cout]; no array may be `out` [outputs, cout] itself.
SPIRA_API status conv_host(const conv_host_args *a, const conv_epilogue *e, float *out) {
    SPIRA_REQUIRE(a, status_null_pointer, "args", 0);
    SPIRA_TRY(epilogue_check(e));
    SPIRA_REQUIRE(out, status_null_pointer, "out", 0);
    SPIRA_REQUIRE(out != a->in && out != a->in2 && out != e->residual, status_unsupported,
                  "out (overlaps an input)", 0);
    SPIRA_TRY(conv_sum_host<float>(a, out));
    const float *residual = (const float *)e->residual;
    const int64_t cout = a->shape.cout, total = a->outputs * cout;
    for (int64_t i = 0; i < total; ++i) {
        out[i] = epilogue_apply(out[i], e, (int)(i % cout), residual ? residual[i] : 0.0f);
    }
    return status_success();
}

} // namespace spira

#endif
