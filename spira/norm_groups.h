// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/norm_groups.h: GroupNorm: normalisation over all voxels of a batch element and the channels
// of a group. With as many groups as channels it is instance norm.
//
//   n    = voxels of the batch element * channels / groups
//   mean = sum of x / n
//   var  = sum of (x - mean)^2 / n
//   out  = act((x - mean) / sqrt(var + epsilon) * gain + shift + residual), gain and shift of the
//          channel
//
// Everything is fp32, and rounded once, to the format of the features.
#ifndef SPIRA_NORM_GROUPS_H
#define SPIRA_NORM_GROUPS_H

#include "norm.h"
#include "pool.h"

namespace spira {

// What `norm_groups` reads and writes. `out` may be `in` or the residual; otherwise nothing may
// overlap.
template <typename W>
struct norm_groups_args {
    const word_layout *layout; // of the set; on the host
    voxel_set<W> set;          // the voxels of the features
    const void *in;            // [voxels, channels] in `type`, aligned to its element
    int channels;              // 1 .. 4096
    int groups;                // divides channels
    numeric type;              // of in, residual and out
    float epsilon;             // > 0
    const float *gain;         // [channels]; null: 1
    const float *shift;        // [channels]; null: 0
    const void *residual;      // [voxels, channels], added before the activation; null: 0
    activation act;            //
    float slope;               // of activation_leaky
    void *out;                 // [voxels, channels]
};

// The gradients of a norm without residual and activation. x^: (x - mean) / sqrt(var + epsilon)
//
//   in_grad    = (g - mean of g - x^ * mean of g * x^) / sqrt(var + epsilon), g: out_grad * gain
//   gain_grad  = sum of out_grad * x^ over all voxels
//   shift_grad = sum of out_grad
//
// Means over the voxels of the batch element and the channels of the group.
template <typename W>
struct norm_groups_grad_args {
    norm_groups_args<W> norm; // `shift` is not read; act: activation_none; residual and out: null
    const void *out_grad;     // [voxels, channels] in `type`
    void *in_grad;            // [voxels, channels] in `type`; may be out_grad
    float *gain_grad;         // [channels]; null: not wanted
    float *shift_grad;        // [channels]; null: not wanted
};

// What a channel is normalised by.
struct norm_groups_statistics {
    float mean, scale; // scale: 1 / sqrt(var + epsilon)
};

// The members that norms of rows have, too.
template <typename W>
SPIRA_BOTH norm_args norm_groups_rows(const norm_groups_args<W> &a) {
    norm_args same = {};
    same.in = a.in;
    same.channels = a.channels;
    same.type = a.type;
    same.epsilon = a.epsilon;
    same.gain = a.gain;
    same.shift = a.shift;
    same.residual = a.residual;
    same.act = a.act;
    same.slope = a.slope;
    same.count = a.set.count;
    same.capacity = a.set.capacity;
    same.out = a.out;
    return same;
}

// The checks of norm_groups and norm_groups_host.
template <typename W>
SPIRA_API status norm_groups_check(const norm_groups_args<W> *a) {
    SPIRA_REQUIRE(a, status_null_pointer, "args", 0);
    SPIRA_TRY(word_check<W>(a->layout));
    SPIRA_TRY(size_check(a->layout->batches, 1, 65535, "layout.batches"));
    SPIRA_TRY(voxel_set_check(&a->set));
    const norm_args same = norm_groups_rows(*a);
    SPIRA_TRY(norm_check(&same));
    SPIRA_REQUIRE(a->groups >= 1 && a->channels % a->groups == 0, status_bad_size,
                  "groups (does not divide the channels)", a->groups);
    return status_success();
}

template <typename W>
SPIRA_API status norm_groups_grad_check(const norm_groups_grad_args<W> *a) {
    SPIRA_REQUIRE(a, status_null_pointer, "args", 0);
    SPIRA_REQUIRE(!a->norm.residual && !a->norm.out && a->norm.act == activation_none,
                  status_unsupported, "norm (residual, out and act are of forward)", 0);
    norm_groups_args<W> forward = a->norm;
    forward.out = a->in_grad;
    SPIRA_TRY(norm_groups_check(&forward));
    SPIRA_REQUIRE(a->in_grad != a->norm.in, status_unsupported, "in_grad (overlaps in)", 0);
    SPIRA_TRY(pointer_check(a->out_grad, (size_t)numeric_size(a->norm.type), "out_grad"));
    const float *const vectors[] = {a->gain_grad, a->shift_grad};
    for (const float *vector : vectors) {
        if (vector) {
            SPIRA_TRY(pointer_check(vector, alignof(float), "gain_grad, shift_grad"));
        }
    }
    return status_success();
}

// 1 / sqrt(sum of squares / n + epsilon).
SPIRA_BOTH float norm_groups_scale(float squares, float n, float epsilon) {
    norm_args a = {};
    a.epsilon = epsilon;
    return norm_scale(a, 1.0f, float_divide(squares, n));
}

// (x - mean) / sqrt(var + epsilon).
SPIRA_BOTH float norm_groups_centre(norm_groups_statistics of, float x) {
    return float_subtract(x, of.mean) * of.scale;
}

// The gradient of x, which is normalised to `centred`. mean: of g and g * x^
SPIRA_BOTH float norm_groups_grad_finish(float scale, float g, float centred, const float mean[2]) {
    return (float_subtract(g, mean[0]) - centred * mean[1]) * scale;
}

// Calls body(numbers, first channel, each) for each batch element and group. each(take) calls
// take(its place, channel) for all numbers of it.
template <typename W, typename F>
SPIRA_API void norm_groups_each(const norm_groups_args<W> &a, F body) {
    const int width = a.channels / a.groups;
    for (int item = 0; item < a.layout->batches * a.groups; ++item) {
        int32_t first, last;
        pool_batch_range(a.layout, a.set, item / a.groups, &first, &last);
        const int begin = item % a.groups * width;
        body((double)(last - first) * width, [&](const auto &take) {
            for (int64_t at = (int64_t)first * width; at < (int64_t)last * width; ++at) {
                const int c = begin + (int)(at % width);
                take(at / width * a.channels + c, c);
            }
        });
    }
}

// Sums in double.
template <typename W, typename F>
SPIRA_API norm_groups_statistics norm_groups_statistics_host(const norm_groups_args<W> &a, double n,
                                                             F each) {
    double sum = 0, squares = 0;
    each([&](int64_t place, int) { sum += numeric_load(a.type, a.in, place); });
    const float mean = (float)(sum / n);
    each([&](int64_t place, int) {
        const double d = (double)numeric_load(a.type, a.in, place) - mean;
        squares += d * d;
    });
    return {mean, norm_groups_scale((float)squares, (float)n, a.epsilon)};
}

// The host loop of `norm_groups` (norm_groups.cuh), on host memory: sums in double.
template <typename W>
SPIRA_API status norm_groups_host(const norm_groups_args<W> *args) {
    SPIRA_TRY(norm_groups_check(args));
    const norm_groups_args<W> &a = *args;
    const norm_args rows = norm_groups_rows(a);
    norm_groups_each(a, [&](double n, auto each) {
        const norm_groups_statistics of = norm_groups_statistics_host(a, n, each);
        each([&](int64_t place, int c) {
            const float x = norm_groups_centre(of, numeric_load(a.type, a.in, place));
            const float more = a.residual ? numeric_load(a.type, a.residual, place) : 0.0f;
            const float y = fmaf(x, a.gain ? a.gain[c] : 1.0f, a.shift ? a.shift[c] : 0.0f) + more;
            numeric_store(a.type, a.out, place, norm_finish(rows, y));
        });
    });
    return status_success();
}

// The host loop of `norm_groups_grad`, likewise.
template <typename W>
SPIRA_API status norm_groups_grad_host(const norm_groups_grad_args<W> *args) {
    SPIRA_TRY(norm_groups_grad_check(args));
    const norm_groups_args<W> &a = args->norm;
    double sums[2][conv_channels_max] = {};
    norm_groups_each(a, [&](double n, auto each) {
        const norm_groups_statistics of = norm_groups_statistics_host(a, n, each);
        double all[2] = {};
        const auto gain = [&](int c) { return a.gain ? a.gain[c] : 1.0f; };
        const auto at = [&](const void *array, int64_t place) {
            return numeric_load(a.type, array, place);
        };
        each([&](int64_t place, int c) {
            const double g = at(args->out_grad, place);
            const double product = g * norm_groups_centre(of, at(a.in, place));
            sums[0][c] += g;
            sums[1][c] += product;
            all[0] += g * gain(c);
            all[1] += product * gain(c);
        });
        const float mean[2] = {(float)(all[0] / n), (float)(all[1] / n)};
        each([&](int64_t place, int c) {
            const float x = norm_groups_centre(of, at(a.in, place));
            const float g = at(args->out_grad, place) * gain(c);
            numeric_store(a.type, args->in_grad, place,
                          norm_groups_grad_finish(of.scale, g, x, mean));
        });
    });
    float *const vectors[2] = {args->shift_grad, args->gain_grad};
    for (int v = 0; v < 2; ++v) {
        for (int c = 0; vectors[v] && c < a.channels; ++c) {
            vectors[v][c] = (float)sums[v][c];
        }
    }
    return status_success();
}

} // namespace spira

#endif
