// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/pool.h: max, average and global pooling of features.
#ifndef SPIRA_POOL_H
#define SPIRA_POOL_H

#include "numeric.h"
#include "offset.h"
#include "voxel.h"

namespace spira {

enum pool_kind : int {
    pool_max,     // NaN wins
    pool_average, // of the voxels that are there, not of the kernel's volume
};

// Local pooling over a kernel map. All is required. In host memory for pool_host, where features
// are floats unless `type` is int8. int8 outputs have the scale of the inputs.
struct pool_args {
    pool_kind kind;
    numeric type; // of `in` and `out`
    int channels, volume;
    const void *in;       // [inputs, channels]
    const int32_t *map;   // [capacity, volume]
    const int32_t *count; // [1] outputs, at most `capacity`
    int32_t capacity;
    void *out; // [capacity, channels], not `in`
};

// Global pooling: one row for each batch index. Likewise.
template <typename W>
struct pool_global_args {
    pool_kind kind;
    numeric type;
    const word_layout *layout; // on the host
    voxel_set<W> set;          // the voxels of the features
    int channels;
    const void *in; // [voxels, channels]
    void *out;      // [batches, channels], not `in`
};

// What all pooling has. A: arguments of pooling or of its gradient. i8: whether it takes int8
template <typename A>
SPIRA_API status pool_kind_check(const A *a, bool i8 = false) {
    SPIRA_REQUIRE(a, status_null_pointer, "args", 0);
    SPIRA_REQUIRE(a->kind == pool_max || a->kind == pool_average, status_unsupported, "kind",
                  a->kind);
    SPIRA_REQUIRE(numeric_valid(a->type) || (i8 && a->type == numeric_i8), status_unsupported,
                  "type", a->type);
    SPIRA_TRY(size_check(a->channels, 1, INT64_MAX, "channels"));
    return status_success();
}

template <typename A>
SPIRA_API status pool_map_check(const A *a) {
    SPIRA_TRY(size_check(a->volume, 1, kernel_volume_max, "volume"));
    SPIRA_TRY(capacity_check(a->capacity, "capacity"));
    SPIRA_TRY(pointer_check(a->map, sizeof(int32_t), "map"));
    return pointer_check(a->count, sizeof(int32_t), "count");
}

template <typename A>
SPIRA_API status pool_set_check(const A *a) {
    SPIRA_TRY(word_check<decltype(+*a->set.words)>(a->layout));
    return voxel_set_check(&a->set);
}

template <typename A>
SPIRA_API status pool_features_check(const A *a) {
    const size_t element = (size_t)numeric_size(a->type);
    SPIRA_TRY(pointer_check(a->in, element, "in"));
    SPIRA_TRY(pointer_check(a->out, element, "out"));
    SPIRA_REQUIRE(a->out != a->in, status_unsupported, "out (overlaps an input)", 0);
    return status_success();
}

SPIRA_API status pool_check(const pool_args *a) {
    SPIRA_TRY(pool_kind_check(a, true));
    SPIRA_TRY(pool_map_check(a));
    return pool_features_check(a);
}

template <typename W>
SPIRA_API status pool_global_check(const pool_global_args<W> *a) {
    SPIRA_TRY(pool_kind_check(a));
    SPIRA_TRY(pool_set_check(a));
    return pool_features_check(a);
}

// Channel c of output o, on both sides. E: of the features.
template <typename E>
SPIRA_BOTH float pool_value(const pool_args &a, int64_t o, int64_t c) {
    const E *__restrict__ in = (const E *)a.in;
    const int32_t *__restrict__ taps = a.map + o * a.volume;
    float value = 0;
    int sources = 0;
    for (int k = 0; k < a.volume; ++k) {
        const int64_t source = taps[k];
        if (source >= 0) {
            const float x = element_to_float(in[source * a.channels + c]);
            value = sources == 0 ? x : a.kind == pool_max ? float_larger(x, value) : value + x;
            ++sources;
        }
    }
    return a.kind == pool_average && sources ? float_divide(value, (float)sources) : value;
}

// The host loop of `pool` (pool.cuh), on floats or int8 in host memory.
SPIRA_API status pool_host(const pool_args *args) {
    SPIRA_REQUIRE(args, status_null_pointer, "args", 0);
    pool_args a = *args;
    const bool i8 = a.type == numeric_i8;
    a.type = i8 ? numeric_i8 : numeric_f32;
    SPIRA_TRY(pool_check(&a));
    const int64_t outputs = count_clamp(*a.count, a.capacity);
    for (int64_t o = 0; o < outputs; ++o) {
        for (int c = 0; c < a.channels; ++c) {
            numeric_store(a.type, a.out, o * a.channels + c,
                          i8 ? pool_value<int8_t>(a, o, c) : pool_value<float>(a, o, c));
        }
    }
    return status_success();
}

// The voxels of one batch index stand together: [first, last) in the set.
template <typename W>
SPIRA_BOTH void pool_batch_range(const word_layout *layout, voxel_set<W> set, int batch,
                                 int32_t *first, int32_t *last) {
    const int32_t count = voxel_set_count(set);
    int32_t *const edge[2] = {first, last};
    for (int side = 0; side < 2; ++side) { // by batch index: a word for batch + 1 may not exist
        *edge[side] = first_not(0, count, [&](int i) {
            return word_unpack(layout, set.words[i]).batch < batch + side;
        });
    }
}

// The host loop of `pool_global` (pool.cuh), on floats in host memory.
template <typename W>
SPIRA_API status pool_global_host(const pool_global_args<W> *args) {
    SPIRA_REQUIRE(args, status_null_pointer, "args", 0);
    pool_global_args<W> a = *args;
    a.type = numeric_f32;
    SPIRA_TRY(pool_global_check(&a));
    const float *in = (const float *)a.in;
    for (int b = 0; b < a.layout->batches; ++b) {
        int32_t first, last;
        pool_batch_range(a.layout, a.set, b, &first, &last);
        for (int c = 0; c < a.channels; ++c) {
            double value = 0;
            for (int64_t v = first; v < last; ++v) {
                const float x = in[v * a.channels + c];
                value = v == first           ? x
                        : a.kind == pool_max ? float_larger(x, (float)value)
                                             : value + x;
            }
            const bool mean = a.kind == pool_average && last > first;
            ((float *)a.out)[(int64_t)b * a.channels + c] =
                (float)(mean ? value / (last - first) : value);
        }
    }
    return status_success();
}

// ---- gradient -----------------------------------------------------------------------------------
// Of a maximum, the gradient of an output goes to the one source that `pool` takes: the first of
// the largest in the order of the offsets, or of the rows, or the last NaN. Of an average, each
// source gets its share.

// One gradient. All but `in` of an average is required. In host memory for pool_grad_host, where
// features are floats and `type` is not read.
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

// The host loop of `pool_grad` (pool.cuh), on floats in host memory.
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

// The host loop of `pool_global_grad` (pool.cuh), on floats in host memory.
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
