// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/conv_i8.h: int8 convolution: its formulas, the steps of its channels, its host loop.
//
//   s(i)         scale of the source of input channel i: an element e is worth e * s(i)
//   t[c]         step of output channel c: what one unit of the integer sum is worth
//   q[k, i, c] = clamp(rne(w[k, i, c] * s(i) / t[c]), -127, 127)
//   sum[o, c]  = sum over k, i of in[map[o, k], i] * q[k, i, c]         exact, in int32
//   y          = fmaf((float)sum, t[c] * scale[c], fmaf(bias[c], scale[c], shift[c]))
//                a shortcut adds bias' + shift' to the last of them; its scale is in its weights
//   y          = fmaf(residual, s_residual, y)         of int8; otherwise s_residual is 1
//   out        = act(y), rounded once: to fp16, bf16 or fp32, or to int8 as
//                clamp(rne(act(y) * out_inverse), -128, 127)
//
// All but exp and erf is IEEE fp32, and integer sums do not depend on their order. So with
// activation_none, activation_relu and activation_leaky the host and all GPUs give the same bits,
// however a layer is cut, unless kernels are compiled with fast maths; with other activations the
// results are equal to a rounding.
//
// The scales of both sources and of a shortcut are in the weights, so that all products share one
// sum and one step a channel. For one source t[c] = s * amax[c] / 127: the usual scale of a
// channel's weights times the scale of its features.
//
// A layer and its shortcut have scales of their own, which may be 0 or negative: both are packed
// times these (conv_weights.scale) by the larger step (conv_i8_step_shared), and run without.
#ifndef SPIRA_CONV_I8_H
#define SPIRA_CONV_I8_H

#include "conv.h"

#include <float.h>

namespace spira {

// Floating-point weights of an int8 convolution, or of its shortcut, in host memory.
struct conv_i8_weights {
    conv_shape shape;
    const float *weight;          // [volume, cin + cin2, cout]
    float scale_in, scale_in2;    // of the sources, > 0; scale_in2: 0 without a second one
    const float *scale = nullptr; // [cout] that they are multiplied by before, or null
};

SPIRA_API status conv_i8_weights_check(const conv_i8_weights *w) {
    SPIRA_REQUIRE(w, status_null_pointer, "weights", 0);
    SPIRA_TRY(conv_shape_check_i8(&w->shape));
    SPIRA_REQUIRE(w->shape.type == numeric_i8, status_unsupported, "shape.type", w->shape.type);
    SPIRA_REQUIRE(w->weight, status_null_pointer, "weight", 0);
    SPIRA_TRY(conv_scale_check(w->scale_in, true, "scale_in"));
    SPIRA_TRY(conv_scale_check(w->scale_in2, w->shape.cin2 > 0, "scale_in2"));
    const int64_t total = conv_products(&w->shape) * w->shape.cout;
    for (int64_t i = 0; i < total; ++i) {
        SPIRA_REQUIRE(float_is_finite(w->weight[i]), status_weights, "weight", i);
    }
    for (int c = 0; w->scale && c < w->shape.cout; ++c) {
        SPIRA_REQUIRE(float_is_finite(w->scale[c]), status_weights, "scale", c);
    }
    return status_success();
}

// The scale of the input channel of a row of weights, which are rows of cout.
SPIRA_API float conv_i8_scale(const conv_i8_weights *w, int64_t row) {
    return row % (w->shape.cin + w->shape.cin2) < w->shape.cin ? w->scale_in : w->scale_in2;
}

// Raises most [cout] to the largest |w * s|.
SPIRA_API void conv_i8_largest(const conv_i8_weights *w, float *most) {
    const int64_t rows = conv_products(&w->shape), cout = w->shape.cout;
    for (int64_t row = 0; row < rows; ++row) {
        const float scale = conv_i8_scale(w, row);
        for (int64_t c = 0; c < cout; ++c) {
            most[c] = float_larger(most[c], fabsf(w->weight[row * cout + c] * scale));
        }
    }
}

// The steps of the output channels, from the largest weight of each.
//
// inputs   shortcut: or null
// outputs  step [cout]: the largest |w * s| of both / 127; 1 for a channel without weights
// errors   weights and scales that are not finite, scales that are not positive
SPIRA_API status conv_i8_steps_host(const conv_i8_weights *w, const conv_i8_weights *shortcut,
                                    float *step) {
    SPIRA_TRY(conv_i8_weights_check(w));
    SPIRA_REQUIRE(step, status_null_pointer, "step", 0);
    if (shortcut) {
        SPIRA_TRY(conv_i8_weights_check(shortcut));
        SPIRA_REQUIRE(shortcut->shape.cout == w->shape.cout, status_unsupported,
                      "shortcut (of other output channels)", shortcut->shape.cout);
    }
    std::fill(step, step + w->shape.cout, 0.0f);
    conv_i8_largest(w, step);
    if (shortcut) {
        conv_i8_largest(shortcut, step);
    }
    for (int c = 0; c < w->shape.cout; ++c) {
        const float t = step[c] / 127;
        step[c] = t >= FLT_MIN ? t : 1.0f;
        SPIRA_REQUIRE(float_is_finite(t), status_bad_size, "weight (times its scale) of channel",
                      c);
    }
    return status_success();
}

// The integers of weights: what conv_weights_pack makes of them.
//
// inputs   step [cout]
// outputs  quantised [volume, cin + cin2, cout]
SPIRA_API status conv_i8_weights_host(const conv_i8_weights *w, const float *step,
                                      int8_t *quantised) {
    SPIRA_TRY(conv_i8_weights_check(w));
    SPIRA_REQUIRE(step, status_null_pointer, "step", 0);
    SPIRA_REQUIRE(quantised, status_null_pointer, "quantised", 0);
    const int64_t rows = conv_products(&w->shape), cout = w->shape.cout;
    for (int64_t c = 0; c < cout; ++c) {
        SPIRA_TRY(conv_scale_check(step[c], true, "step"));
    }
    for (int64_t i = 0; i < rows * cout; ++i) {
        const float weight = w->weight[i] * (w->scale ? w->scale[i % cout] : 1.0f);
        quantised[i] = conv_i8_weight(weight, conv_i8_scale(w, i / cout), step[i % cout]);
    }
    return status_success();
}

// An int8 convolution in host memory.
struct conv_i8_host_args {
    conv_shape shape;     // of numeric_i8
    const int8_t *in;     // [inputs, cin]
    const int8_t *in2;    // [inputs, cin2], or null where cin2 is 0
    const int8_t *weight; // [volume, cin + cin2, cout]: of conv_i8_weights_host
    const int32_t *map;   // [outputs, volume]; null: the identity of a 1x1x1 convolution
    int32_t outputs;
    conv_epilogue epilogue;         // residual: of its format
    conv_quantisation quantisation; // step: in host memory
    const conv_shortcut *shortcut;  // or null; its arrays in host memory, int8 as above
};

// What an int8 layer asks of a shortcut: its scale is in its weights, and all products fit one sum.
SPIRA_API status conv_i8_shortcut_check(const conv_shape *s, const conv_shortcut *shortcut) {
    SPIRA_REQUIRE(!shortcut->scale, status_unsupported, "shortcut.scale (of an int8 layer)", 0);
    const int64_t more = (int64_t)shortcut->cin + shortcut->cin2;
    return size_check(conv_products(s) + more, 1, conv_i8_products_max,
                      "shape (volume * channels, and a shortcut's: int32 sums of int8)");
}

SPIRA_API status conv_i8_host_check(const conv_i8_host_args *a) {
    SPIRA_REQUIRE(a, status_null_pointer, "args", 0);
    const conv_shape *s = &a->shape;
    SPIRA_TRY(conv_shape_check_i8(s));
    SPIRA_REQUIRE(s->type == numeric_i8, status_unsupported, "shape.type", s->type);
    SPIRA_REQUIRE(a->in, status_null_pointer, "in", 0);
    SPIRA_REQUIRE(a->in2 || !s->cin2, status_null_pointer, "in2", 0);
    SPIRA_REQUIRE(a->weight, status_null_pointer, "weight", 0);
    SPIRA_REQUIRE(a->map || s->volume == 1, status_null_pointer, "map", 0);
    SPIRA_TRY(size_check(a->outputs, 0, INT64_MAX, "outputs"));
    SPIRA_TRY(epilogue_check(&a->epilogue));
    SPIRA_TRY(conv_quantisation_check(s, &a->quantisation, a->epilogue.residual));
    if (const conv_shortcut *c = a->shortcut) {
        SPIRA_TRY(size_check(c->cin, 1, conv_channels_max, "shortcut.cin"));
        SPIRA_TRY(size_check(c->cin2, 0, conv_channels_max, "shortcut.cin2"));
        SPIRA_REQUIRE(c->in, status_null_pointer, "shortcut.in", 0);
        SPIRA_REQUIRE(c->in2 || !c->cin2, status_null_pointer, "shortcut.in2", 0);
        SPIRA_REQUIRE(c->weights, status_null_pointer, "shortcut.weights", 0);
        SPIRA_TRY(conv_i8_shortcut_check(s, c));
    }
    return status_success();
}

// sum [cout] += x [cin] * weight [cin, cout]
SPIRA_API void conv_i8_row(const int8_t *x, const int8_t *weight, int cin, int cout, int32_t *sum) {
    for (int i = 0; i < cin; ++i) {
        const int8_t *w = weight + (int64_t)i * cout;
        for (int c = 0; c < cout; ++c) {
            sum[c] += x[i] * w[c];
        }
    }
}

// sum [cout] += what a row of two sources gives by the weights [cin + cin2, cout] of one offset.
// sources: in, in2, cin and cin2 (conv_i8_host_args and its shape, or conv_shortcut).
SPIRA_API void conv_i8_add(const int8_t *in, const int8_t *in2, const conv_shape *s,
                           const int8_t *weight, int64_t source, int32_t *sum) {
    conv_i8_row(in + source * s->cin, weight, s->cin, s->cout, sum);
    if (s->cin2) {
        conv_i8_row(in2 + source * s->cin2, weight + (int64_t)s->cin * s->cout, s->cin2, s->cout,
                    sum);
    }
}

// The integer sums of output o, the shortcut's included. sum [cout]
SPIRA_API void conv_i8_sums(const conv_i8_host_args *a, int64_t o, int32_t *sum) {
    const conv_shape *s = &a->shape;
    std::fill(sum, sum + s->cout, 0);
    for (int k = 0; k < s->volume; ++k) {
        const int64_t source = a->map ? a->map[o * s->volume + k] : o;
        if (source >= 0) {
            conv_i8_add(a->in, a->in2, s, a->weight + (int64_t)k * (s->cin + s->cin2) * s->cout,
                        source, sum);
        }
    }
    if (const conv_shortcut *c = a->shortcut) {
        const conv_shape own = {1, c->cin, c->cin2, s->cout, s->type};
        conv_i8_add((const int8_t *)c->in, (const int8_t *)c->in2, &own, (const int8_t *)c->weights,
                    o, sum);
    }
}

// A channel's output in fp32, before it is rounded. residual: 0 without one
SPIRA_API float conv_i8_value(const conv_i8_host_args *a, int c, int32_t sum, float residual) {
    auto at = [c](const float *vector, float other) { return vector ? vector[c] : other; };
    const conv_epilogue *e = &a->epilogue;
    const conv_quantisation *q = &a->quantisation;
    const float scale = at(e->scale, 1);
    float shift = fmaf(at(e->bias, 0), scale, at(e->shift, 0));
    if (a->shortcut) {
        shift += at(a->shortcut->bias, 0) + at(a->shortcut->shift, 0);
    }
    float y = fmaf((float)sum, q->step[c] * scale, shift);
    if (e->residual) {
        y = fmaf(residual, q->residual_scale > 0 ? q->residual_scale : 1.0f, y);
    }
    y = float_is_nan(y) ? y : activation_apply(y, e->act, e->slope);
    return q->out_inverse > 0 ? y * q->out_inverse : y;
}

// An int8 convolution on the host: the kernels' results, to the bit. No array may be `out`
// [outputs, cout], which has the format conv_out_type.
SPIRA_API status conv_i8_host(const conv_i8_host_args *a, void *out) {
    SPIRA_TRY(conv_i8_host_check(a));
    SPIRA_REQUIRE(out, status_null_pointer, "out", 0);
    SPIRA_REQUIRE(out != a->in && out != a->in2 && out != a->epilogue.residual, status_unsupported,
                  "out (overlaps an input)", 0);
    const int64_t cout = a->shape.cout;
    const numeric type = conv_out_type(&a->shape, &a->quantisation),
                  from = conv_residual_type(&a->shape, &a->quantisation);
    const int64_t block = 64, blocks = ceil_div(a->outputs, block);
    SPIRA_PARALLEL_FOR
    for (int64_t b = 0; b < blocks; ++b) {
        int32_t sum[conv_channels_max];
        for (int64_t o = b * block; o < min_of((b + 1) * block, a->outputs); ++o) {
            conv_i8_sums(a, o, sum);
            for (int64_t c = 0; c < cout; ++c) {
                const float residual = a->epilogue.residual
                                           ? numeric_load(from, a->epilogue.residual, o * cout + c)
                                           : 0.0f;
                numeric_store(type, out, o * cout + c, conv_i8_value(a, (int)c, sum[c], residual));
            }
        }
    }
    return status_success();
}

} // namespace spira

#endif
