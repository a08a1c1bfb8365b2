// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/norm.h: normalisation of rows of features over their channels: LayerNorm and RMSNorm.
//
//   mean = sum of x / channels                                    (norm_rms: 0)
//   var  = sum of (x - mean)^2 / channels
//   out  = act((x - mean) / sqrt(var + epsilon) * gain + shift + residual)
//
// Everything is fp32, and rounded once, to the format of the features.
//
// The gradients of a norm without residual and activation, with x^ = (x - mean) / sqrt(var +
// epsilon) and g = out_grad * gain:
//
//   in_grad    = (g - mean of g - x^ * mean of g * x^) / sqrt(var + epsilon)
//                (norm_rms: without the mean of g)
//   gain_grad  = sum of out_grad * x^ over all rows
//   shift_grad = sum of out_grad
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

// What `norm_grad` reads and writes, and norm_groups_grad. N: norm_args or norm_groups_args<W>
template <typename N>
struct norm_gradients {
    N norm;               // `shift` is not read; act: activation_none; residual and out: null
    const void *out_grad; // [count, channels] in `type`
    void *in_grad;        // [count, channels] in `type`; may be out_grad
    float *gain_grad;     // [channels]; null: not wanted
    float *shift_grad;    // [channels]; null: not wanted
};

typedef norm_gradients<norm_args> norm_grad_args;

enum {
    norm_group = 8,  // neighbouring channels that a lane adds up
    norm_lanes = 32, // of a row, at most
};

// Lanes that share a row, a power of two, at most `most`. Lane i has groups i, i + lanes, ..
SPIRA_BOTH int norm_row_lanes(int channels, int most) {
    int lanes = 1;
    while (lanes < most && lanes * norm_group < channels) {
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

// The checks of gradients but for those of `norm` itself. rows: its members that norms share
template <typename N>
SPIRA_API status norm_gradients_check(const norm_gradients<N> &a, const norm_args &rows) {
    SPIRA_REQUIRE(!rows.residual && !rows.out && rows.act == activation_none, status_unsupported,
                  "norm (residual, out and act are of forward)", 0);
    const size_t element = (size_t)numeric_size(rows.type);
    SPIRA_TRY(pointer_check(a.out_grad, element, "out_grad"));
    SPIRA_TRY(pointer_check(a.in_grad, element, "in_grad"));
    SPIRA_REQUIRE(a.in_grad != rows.in, status_unsupported, "in_grad (overlaps in)", 0);
    const float *const vectors[] = {a.gain_grad, a.shift_grad};
    for (const float *vector : vectors) {
        if (vector) {
            SPIRA_TRY(pointer_check(vector, alignof(float), "gain_grad, shift_grad"));
        }
    }
    return status_success();
}

// The checks of norm_grad and norm_grad_host.
SPIRA_API status norm_grad_check(const norm_grad_args *a) {
    SPIRA_REQUIRE(a, status_null_pointer, "args", 0);
    norm_args forward = a->norm;
    forward.out = a->in_grad;
    SPIRA_TRY(norm_check(&forward));
    return norm_gradients_check(*a, a->norm);
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

// What numbers are normalised by.
struct norm_statistics {
    float mean, scale; // scale: 1 / sqrt(var + epsilon)
};

// (x - mean) / sqrt(var + epsilon).
SPIRA_BOTH float norm_centre(norm_statistics of, float x) {
    return float_subtract(x, of.mean) * of.scale;
}

// The gradient of x, which is normalised to `centred`. mean: of g and g * x^
SPIRA_BOTH float norm_grad_finish(float scale, float g, float centred, const float mean[2]) {
    return (float_subtract(g, mean[0]) - centred * mean[1]) * scale;
}

// The sum of the squares of a row, or of the row itself, in the order of the kernel.
SPIRA_API float norm_sum_host(const float *row, int channels, bool squares) {
    const int lanes = norm_row_lanes(channels, norm_lanes);
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

// ---- the host loop of gradients -----------------------------------------------------------------
// Sums are in double.

// The statistics of the n numbers that each(take) calls take(place, channel) for.
template <typename F>
SPIRA_API norm_statistics norm_statistics_host(const norm_args &a, double n, F each) {
    double sum = 0, squares = 0;
    each([&](int64_t place, int) { sum += numeric_load(a.type, a.in, place); });
    const float mean = a.kind == norm_layer ? (float)(sum / n) : 0.0f;
    each([&](int64_t place, int) {
        const double d = (double)numeric_load(a.type, a.in, place) - mean;
        squares += d * d;
    });
    return {mean, norm_scale(a, 1.0f, (float)(squares / n))};
}

// Gradients of the shift and the gain, as they are summed.
struct norm_vectors_host {
    double shift[conv_channels_max], gain[conv_channels_max];
};

// The gradients of the n numbers of each(take), and what they add to `sums`. rows: of a.norm
template <typename N, typename F>
SPIRA_API void norm_gradients_host(const norm_gradients<N> &a, const norm_args &rows, double n,
                                   F each, norm_vectors_host *sums) {
    const norm_statistics of = norm_statistics_host(rows, n, each);
    const auto centred = [&](int64_t place) {
        return norm_centre(of, numeric_load(rows.type, rows.in, place));
    };
    const auto gain = [&](int c) { return rows.gain ? rows.gain[c] : 1.0f; };
    double all[2] = {};
    each([&](int64_t place, int c) {
        const double y = numeric_load(rows.type, a.out_grad, place), product = y * centred(place);
        sums->shift[c] += y;
        sums->gain[c] += product;
        all[0] += y * gain(c);
        all[1] += product * gain(c);
    });
    const float mean[2] = {rows.kind == norm_layer ? (float)(all[0] / n) : 0.0f,
                           (float)(all[1] / n)};
    each([&](int64_t place, int c) {
        const float g = numeric_load(rows.type, a.out_grad, place) * gain(c);
        numeric_store(rows.type, a.in_grad, place,
                      norm_grad_finish(of.scale, g, centred(place), mean));
    });
}

// Writes the gradients of the vectors that are wanted.
template <typename N>
SPIRA_API void norm_vectors_store(const norm_gradients<N> &a, int channels,
                                  const norm_vectors_host &sums) {
    for (int c = 0; c < channels; ++c) {
        if (a.gain_grad) {
            a.gain_grad[c] = (float)sums.gain[c];
        }
        if (a.shift_grad) {
            a.shift_grad[c] = (float)sums.shift[c];
        }
    }
}

// The host loop of `norm_grad` (norm.cuh), on host memory.
SPIRA_API status norm_grad_host(const norm_grad_args *args) {
    SPIRA_TRY(norm_grad_check(args));
    const norm_args &rows = args->norm;
    norm_vectors_host sums = {};
    for (int32_t i = 0; i < count_clamp(*rows.count, rows.capacity); ++i) {
        const auto each = [&](const auto &take) {
            for (int c = 0; c < rows.channels; ++c) {
                take((int64_t)i * rows.channels + c, c);
            }
        };
        norm_gradients_host(*args, rows, rows.channels, each, &sums);
    }
    norm_vectors_store(*args, rows.channels, sums);
    return status_success();
}

} // namespace spira

#endif
