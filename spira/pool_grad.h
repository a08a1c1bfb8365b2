// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/pool_grad.h: the gradients of local and global pooling.
//
// Of a maximum, the gradient of an output goes to the one source that `pool` takes: the first of
// the largest in the order of the offsets, or of the rows, or the last NaN. Of an average, each
// source gets its share.
#ifndef SPIRA_POOL_GRAD_H
#define SPIRA_POOL_GRAD_H

#include "pool.h"

namespace spira {

// One gradient. Start from zero and fill it by name; all but `in` of an average is required. In
// host memory for pool_grad_host, where features are floats and `type` is not read.
struct pool_grad_args {
    pool_kind kind;
    numeric type;
    int channels, volume;
    const void *in;       // [inputs, channels] of the layer; of an average it may be null
    const void *out_grad; // [outputs, channels]
    const int32_t *map;   // [outputs, volume] of the layer
    // [capacity, volume] of the other direction: sets exchanged, kernel.transposed inverted. For a
    // submanifold layer with an odd kernel that is `map` itself.
    const int32_t *back;
    const int32_t *count; // [1] inputs, at most `capacity`
    int32_t capacity;
    void *in_grad; // [capacity, channels]
};

// The gradient of global pooling: likewise.
template <typename W>
struct pool_global_grad_args {
    pool_kind kind;
    numeric type;
    const word_layout *layout; // on the host
    voxel_set<W> set;          // the voxels of the features
    int channels;
    const void *in;       // [voxels, channels] of the layer; of an average it may be null
    const void *out_grad; // [batches, channels]
    void *in_grad;        // [set.capacity, channels]
};

// The features of both gradients.
template <typename A>
SPIRA_API status pool_grad_features_check(const A *a) {
    const size_t element = (size_t)numeric_size(a->type);
    if (a->kind == pool_max) {
        SPIRA_TRY(pointer_check(a->in, element, "in"));
    }
    SPIRA_TRY(pointer_check(a->out_grad, element, "out_grad"));
    SPIRA_TRY(pointer_check(a->in_grad, element, "in_grad"));
    SPIRA_REQUIRE(a->in_grad != a->in && a->in_grad != a->out_grad, status_unsupported,
                  "in_grad (overlaps an input)", 0);
    return status_success();
}

SPIRA_API status pool_grad_check(const pool_grad_args *a) {
    SPIRA_TRY(pool_kind_check(a));
    SPIRA_TRY(pool_map_check(a));
    SPIRA_TRY(pointer_check(a->back, sizeof(int32_t), "back"));
    return pool_grad_features_check(a);
}

template <typename W>
SPIRA_API status pool_global_grad_check(const pool_global_grad_args<W> *a) {
    SPIRA_TRY(pool_kind_check(a));
    SPIRA_TRY(pool_set_check(a));
    return pool_grad_features_check(a);
}

// Whether a further source with the value x takes the place of the largest one so far, as
// float_larger decides. first: there is none so far.
SPIRA_BOTH bool pool_takes(bool first, float x, float value) {
    return first || float_is_nan(x) || (!float_is_nan(value) && x > value);
}

// What an output of an average gives to each of its sources. taps [volume]: of the output.
SPIRA_BOTH float pool_share(const int32_t *taps, int volume, float out_grad) {
    int sources = 0;
    for (int k = 0; k < volume; ++k) {
        sources += taps[k] >= 0;
    }
    return float_divide(out_grad, (float)sources);
}

// The source that the maximum of an output is from. E: of the features; in: the channel of row 0.
template <typename E>
SPIRA_BOTH int32_t pool_winner(const pool_grad_args &a, const int32_t *taps, const E *in) {
    int32_t winner = -1;
    float value = 0;
    for (int k = 0; k < a.volume; ++k) {
        const int32_t source = taps[k];
        if (source >= 0) {
            const float x = element_to_float(in[(int64_t)source * a.channels]);
            const bool takes = pool_takes(winner < 0, x, value);
            winner = takes ? source : winner;
            value = takes ? x : value;
        }
    }
    return winner;
}

// Channel c of input i. Both sides add in the order of the offsets, so that they round alike.
template <typename E>
SPIRA_BOTH float pool_grad_value(const pool_grad_args &a, int64_t i, int64_t c) {
    float sum = 0;
    for (int k = 0; k < a.volume; ++k) {
        const int64_t o = a.back[i * a.volume + k];
        if (o < 0) {
            continue;
        }
        const int32_t *taps = a.map + o * a.volume;
        const float grad = element_to_float(((const E *)a.out_grad)[o * a.channels + c]);
        if (a.kind == pool_average) {
            sum += pool_share(taps, a.volume, grad);
        } else if (pool_winner(a, taps, (const E *)a.in + c) == i) {
            sum += grad;
        }
    }
    return sum;
}

// The host loop of `pool_grad` (pool_grad.cuh), on floats in host memory.
SPIRA_API status pool_grad_host(const pool_grad_args *args) {
    SPIRA_REQUIRE(args, status_null_pointer, "args", 0);
    pool_grad_args a = *args;
    a.type = numeric_f32;
    SPIRA_TRY(pool_grad_check(&a));
    const int64_t count = count_clamp(*a.count, a.capacity);
    SPIRA_PARALLEL_FOR
    for (int64_t i = 0; i < count; ++i) {
        for (int c = 0; c < a.channels; ++c) {
            ((float *)a.in_grad)[i * a.channels + c] = pool_grad_value<float>(a, i, c);
        }
    }
    return status_success();
}

// The host loop of `pool_global_grad` (pool_grad.cuh), on floats in host memory.
template <typename W>
SPIRA_API status pool_global_grad_host(const pool_global_grad_args<W> *args) {
    SPIRA_REQUIRE(args, status_null_pointer, "args", 0);
    pool_global_grad_args<W> a = *args;
    a.type = numeric_f32;
    SPIRA_TRY(pool_global_grad_check(&a));
    const float *in = (const float *)a.in, *out_grad = (const float *)a.out_grad;
    const int64_t channels = a.channels;
    for (int64_t b = 0; b < a.layout->batches; ++b) {
        int32_t first, last;
        pool_batch_range(a.layout, a.set, (int)b, &first, &last);
        for (int64_t c = 0; c < channels; ++c) {
            const float grad = out_grad[b * channels + c];
            int64_t winner = -1;
            for (int64_t v = first; v < last && a.kind == pool_max; ++v) {
                const float value = winner < 0 ? 0 : in[winner * channels + c];
                winner = pool_takes(winner < 0, in[v * channels + c], value) ? v : winner;
            }
            for (int64_t v = first; v < last; ++v) {
                const float share = grad / (float)(last - first);
                ((float *)a.in_grad)[v * channels + c] = a.kind == pool_average ? share
                                                         : v == winner          ? grad
                                                                                : 0;
            }
        }
    }
    return status_success();
}

} // namespace spira

#endif
