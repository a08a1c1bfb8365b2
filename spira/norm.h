// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/norm.h: normalisation of rows of features over their channels: LayerNorm and RMSNorm.
//
//   mean = sum of x / channels                                    (norm_rms: 0)
//   var  = sum of (x - mean)^2 / channels
//   out  = act((x - mean) / sqrt(var + epsilon) * gain + shift + residual)
//
// Everything is fp32, and rounded once, to the format of the features.
#ifndef SPIRA_NORM_H
#define SPIRA_NORM_H

#include "conv.h"

namespace spira {

enum norm_kind : int { norm_layer, norm_rms };

// What `norm` reads and writes. `out` may be `in` or the residual; otherwise nothing may overlap.
struct norm_args {
    const void *in; // [count, channels] in `type`, aligned to its element
    int channels;   // 1 .. 4096
    numeric type;   // of in, residual and out
    norm_kind kind;
    float epsilon;        // > 0
    const float *gain;    // [channels]; null: 1
    const float *shift;   // [channels]; null: 0
    const void *residual; // [count, channels]; null: 0
    activation act;       //
    float slope;          // of activation_leaky
    const int32_t *count; // [1]
    int32_t capacity;     // of in, residual and out
    void *out;            // [count, channels]
};

enum {
    norm_group = 8,  // neighbouring channels that a lane adds up
    norm_lanes = 32, // of a row, at most
};

// Lanes that share a row, a power of two. Lane i adds up groups i, i + lanes, ..
SPIRA_BOTH int norm_row_lanes(int channels) {
    int lanes = 1;
    while (lanes < norm_lanes && lanes * norm_group < channels) {
        lanes *= 2;
    }
    return lanes;
}

// The checks of norm and norm_host.
SPIRA_API status norm_check(const norm_args *a) {
    SPIRA_REQUIRE(a, status_null_pointer, "args", 0);
    SPIRA_REQUIRE(numeric_valid(a->type), status_unsupported, "type", a->type);
    SPIRA_REQUIRE(a->kind == norm_layer || a->kind == norm_rms, status_unsupported, "kind",
                  a->kind);
    SPIRA_REQUIRE(a->act >= activation_none && a->act < activation_count, status_unsupported, "act",
                  a->act);
    SPIRA_TRY(size_check(a->channels, 1, conv_channels_max, "channels"));
    SPIRA_TRY(size_check(a->capacity, 1, INT64_MAX, "capacity"));
    SPIRA_REQUIRE(float_is_finite(a->epsilon) && a->epsilon > 0, status_bad_size,
                  "epsilon (above 0)", 0);
    const size_t element = (size_t)numeric_size(a->type);
    SPIRA_TRY(pointer_check(a->in, element, "in"));
    SPIRA_TRY(pointer_check(a->out, element, "out"));
    if (a->residual) {
        SPIRA_TRY(pointer_check(a->residual, element, "residual"));
    }
    for (const float *vector : {a->gain, a->shift}) {
        if (vector) {
            SPIRA_TRY(pointer_check(vector, alignof(float), "gain, shift"));
        }
    }
    return pointer_check(a->count, alignof(int32_t), "count");
}

// 1 / sqrt(sum of squares / channels + epsilon). part: 1 / channels
SPIRA_BOTH float norm_scale(const norm_args &a, float part, float squares) {
    const float v = fmaf(squares, part, a.epsilon);
#ifdef __CUDA_ARCH__
    return float_divide(1.0f, __fsqrt_rn(v));
#else
    return float_divide(1.0f, sqrtf(v));
#endif
}

// The activation of a channel.
SPIRA_BOTH float norm_finish(const norm_args &a, float x) {
    return a.act == activation_none || float_is_nan(x) ? x : activation_apply(x, a.act, a.slope);
}

// The sum of the squares of a row, or of the row itself, in the order of the kernel.
SPIRA_API float norm_sum_host(const float *row, int channels, bool squares) {
    const int lanes = norm_row_lanes(channels);
    float sum[norm_lanes] = {};
    for (int c = 0; c < channels; ++c) {
        float *const own = &sum[c / norm_group % lanes];
        *own = squares ? fmaf(row[c], row[c], *own) : *own + row[c];
    }
    for (int step = lanes / 2; step > 0; step /= 2) {
        for (int i = 0; i < step; ++i) {
            sum[i] += sum[i + step];
        }
    }
    return sum[0];
}

// The host loop of `norm` (norm.cuh), on host memory.
SPIRA_API status norm_host(const norm_args *args) {
    SPIRA_TRY(norm_check(args));
    const norm_args &a = *args;
    const float part = 1.0f / (float)a.channels;
    float row[conv_channels_max];
    for (int32_t i = 0; i < count_clamp(*a.count, a.capacity); ++i) {
        const int64_t first = (int64_t)i * a.channels;
        for (int c = 0; c < a.channels; ++c) {
            row[c] = numeric_load(a.type, a.in, first + c);
        }
        if (a.kind == norm_layer) {
            const float mean = norm_sum_host(row, a.channels, false) * part;
            for (int c = 0; c < a.channels; ++c) {
                row[c] = float_subtract(row[c], mean);
            }
        }
        const float scale = norm_scale(a, part, norm_sum_host(row, a.channels, true));
        for (int c = 0; c < a.channels; ++c) {
            const float gain = a.gain ? a.gain[c] : 1.0f, shift = a.shift ? a.shift[c] : 0.0f;
            const float residual = a.residual ? numeric_load(a.type, a.residual, first + c) : 0.0f;
            const float x = fmaf(row[c] * scale, gain, shift) + residual;
            numeric_store(a.type, a.out, first + c, norm_finish(a, x));
        }
    }
    return status_success();
}

} // namespace spira

#endif
