// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/support/net_i8.h: networks with int8 layers, and what each layer's features must be, by
// loops over the formulas: to the bit for int8 layers. For host and GPU tests.
#ifndef SPIRA_TESTS_NET_I8_H
#define SPIRA_TESTS_NET_I8_H

#include "net_tables.h"
#include "reference_net.h"

#include <math.h>

namespace i8net {

using namespace spira;

// Gives the layers of a table ranges that their features may well have, and the input.
inline void ranges_make(networks::network *n, net_limits *limits) {
    for (int i = 0; i < n->count; ++i) {
        if (net_members_of(&n->layers[i]) & net_member_range) {
            n->layers[i].range = 1.5f + 0.25f * (float)(i % 5);
        }
    }
    limits->range = 1.1f;
}

// A U-Net with residual blocks, two sources, a shortcut that may be fused and one that is too
// narrow for that, pooling, a join, a gate that is not int8 and a dense map: all that int8 can
// meet. first: whether the first layer is int8, too.
inline void network_everything(networks::network *n, bool first) {
    networks::network_begin(n, 16);
    const int in = networks::network_conv(n, "in", net_input, 32, 3, 1);
    int at = networks::network_block(n, "block", in, net_none, 32, 32, 3);
    const int down = networks::network_conv(n, "down", at, 48, 2, 2);
    const int low = networks::network_block(n, "low", down, net_none, 48, 64, 3);
    const int pool = networks::network_add(n, "pool", net_layer_pool("", net_pool_max, low, 3, 1));
    const int mean =
        networks::network_add(n, "mean", net_layer_pool("", net_pool_average, pool, 3, 1));
    const int both = networks::network_add(n, "both", net_layer_join("", mean, low));
    networks::network_conv(n, "beside", both, 8, 3, 1);
    const int up = networks::network_conv(n, "up", mean, 32, 2, 2);
    n->layers[up].transposed = true;
    n->layers[up].act = activation_leaky;
    n->layers[up].slope = 0.125f;
    at = networks::network_block(n, "top", up, at, 64, 72, 3);
    const int last = networks::network_conv(n, "last", at, 24, 1, 1);
    n->layers[last].bias = true;
    n->layers[last].act = activation_none;
    networks::network_add(n, "map", net_layer_dense("", last));
    net_formats_i8(n->layers, n->count);
    n->layers[in].format = first ? net_format_i8 : net_format_same;
}

// ---- the judge ----------------------------------------------------------------------------------

template <typename W>
struct judge {
    const reference_net_run<W> *run;
    int layer;
    const net_layer *l;
    const net_step *step;
    std::vector<int32_t> map; // [voxels, volume]
    int64_t voxels;
};

// An element as it is stored.
template <typename W>
float stored(const judge<W> &j, int layer, int64_t i) {
    return numeric_load(net_type_of(j.run->plan, layer), j.run->feature[1 + layer], i);
}

// And as the number that it stands for.
template <typename W>
double number(const judge<W> &j, int layer, int64_t i) {
    const bool int8 = net_type_of(j.run->plan, layer) == numeric_i8;
    return (double)stored(j, layer, i) * (int8 ? (double)net_scale_of(j.run->plan, layer) : 1);
}

inline float clamped(float x) {
    return x > 127 ? 127.0f : x < -128 ? -128.0f : rintf(x);
}

// What the sources of a layer add to an output: integers times integers. from [volume]: source
// rows; scale: what the weights are multiplied by; t: the step
template <typename W>
int64_t conv_i8_sum(const judge<W> &j, int layer, const int32_t *from, int c, float scale,
                    float t) {
    const net_layer *l = &j.run->net->layers[layer];
    const net_params at = reference_net_params(j.run->net, layer);
    const int source[2] = {net_number(l->source), net_number(l->source2)};
    const int cin = reference_net_channels(j.run->net, source[0]),
              cin2 = source[1] == net_none ? 0 : reference_net_channels(j.run->net, source[1]);
    const int volume = l->size.x * l->size.y * l->size.z;
    int64_t sum = 0;
    for (int k = 0; k < volume; ++k) {
        for (int i = 0; from[k] >= 0 && i < cin + cin2; ++i) {
            const bool second = i >= cin;
            const int64_t row = from[k],
                          weight = at.weight + ((int64_t)k * (cin + cin2) + i) * l->channels + c;
            const float w =
                j.run->params[weight] * scale * net_scale_of(j.run->plan, source[second]);
            const float q = fminf(fmaxf(rintf(w / t), -127), 127);
            sum += (int64_t)q * (int64_t)stored(j, source[second],
                                                second ? row * cin2 + i - cin : row * cin + i);
        }
    }
    return sum;
}

// An output of an int8 convolution, by the formulas of conv_i8.h. With a fused shortcut all weights
// contain their scale, and have the larger of both steps.
template <typename W>
float conv_i8_output(const judge<W> &j, int64_t o, int c) {
    const net_plan *p = j.run->plan;
    const net_params at = reference_net_params(j.run->net, j.layer);
    const float *params = j.run->params;
    const int volume = j.l->size.x * j.l->size.y * j.l->size.z, cout = j.l->channels;
    const int fused = j.step->shortcut;
    const auto of = [&](int64_t vector, float other) {
        return vector < 0 ? other : params[vector + c];
    };
    float t = params[at.step + c], scale = of(at.scale, 1), shift = of(at.shift, 0);
    const int32_t *from = &j.map[(size_t)(o * volume)];
    int64_t sum = 0;
    if (fused == net_none) {
        sum = conv_i8_sum(j, j.layer, from, c, 1, t);
        shift = fmaf(of(at.bias, 0), scale, shift);
    } else {
        const net_params own = reference_net_params(j.run->net, fused);
        const float scale2 = of(own.scale, 1);
        const int32_t row = (int32_t)o;
        t = fmaxf(fabsf(t * scale), fabsf(params[own.step + c] * scale2));
        t = t > 0 ? t : 1;
        sum =
            conv_i8_sum(j, j.layer, from, c, scale, t) + conv_i8_sum(j, fused, &row, c, scale2, t);
        shift = of(at.bias, 0) + shift + (of(own.bias, 0) + of(own.shift, 0));
        scale = 1;
    }
    float y = fmaf((float)sum, t * scale, shift);
    const int residual = fused == net_none ? net_number(j.l->residual) : (int)net_none;
    if (residual != net_none) {
        y = fmaf(stored(j, residual, o * cout + c), net_scale_of(p, residual), y);
    }
    y = j.l->act == activation_relu             ? fmaxf(y, 0)
        : j.l->act == activation_leaky && y < 0 ? y * j.l->slope
                                                : y;
    return j.step->type == numeric_i8 ? clamped(y * (1.0f / j.step->scale))
                                      : numeric_stored(j.step->type, y);
}

// An output of another convolution, in double.
template <typename W>
double conv_output(const judge<W> &j, int64_t o, int c, double *magnitude) {
    const net_params at = reference_net_params(j.run->net, j.layer);
    const float *params = j.run->params;
    const int source = net_number(j.l->source);
    const int cin = reference_net_channels(j.run->net, source);
    const int volume = j.l->size.x * j.l->size.y * j.l->size.z, cout = j.l->channels;
    double sum = 0;
    *magnitude = 0;
    for (int k = 0; k < volume; ++k) {
        const int64_t from = j.map[(size_t)(o * volume + k)];
        for (int i = 0; from >= 0 && i < cin; ++i) {
            const double x = number(j, source, from * cin + i) *
                             (double)params[at.weight + ((int64_t)k * cin + i) * cout + c];
            sum += x;
            *magnitude += fabs(x);
        }
    }
    const double scale = at.scale < 0 ? 1 : (double)params[at.scale + c];
    sum = (sum + (at.bias < 0 ? 0 : (double)params[at.bias + c])) * scale +
          (at.shift < 0 ? 0 : (double)params[at.shift + c]);
    *magnitude = *magnitude * fabs(scale) + 1;
    const int residual = net_number(j.l->residual);
    sum += residual == net_none ? 0 : number(j, residual, o * cout + c);
    return j.l->act == activation_relu && sum < 0 ? 0 : sum;
}

// An output of pooling.
template <typename W>
double pool_output(const judge<W> &j, int64_t o, int c) {
    const int source = net_number(j.l->source), channels = j.step->channels;
    const int volume = j.l->size.x * j.l->size.y * j.l->size.z;
    double sum = 0, most = -INFINITY;
    int taps = 0;
    for (int k = 0; k < volume; ++k) {
        const int64_t from = j.map[(size_t)(o * volume + k)];
        if (from >= 0) {
            const double x = (double)stored(j, source, from * channels + c);
            sum += x;
            most = fmax(most, x);
            ++taps;
        }
    }
    return j.l->op == net_pool_max ? most : rint(sum / taps);
}

// How many features of a layer are not what they must be. Layers of floating point may be off by
// what `epsilon`, of their operands, explains.
template <typename W>
int64_t layer_wrong(const reference_net_run<W> *run, int layer, double epsilon) {
    judge<W> j = {run, layer, &run->net->layers[layer], &run->plan->step[layer], {}, 0};
    const net_op op = j.l->op;
    if (j.step->fused_into != net_none) {
        return 0; // it is judged with the layer that adds it
    }
    if (op != net_conv && op != net_pool_max && op != net_pool_average) {
        return reference_net_gathered(run, layer).ratio > 0;
    }
    j.map = reference_net_map(run, layer);
    j.voxels = reference_net_voxels(run, layer);
    int64_t wrong = 0;
    for (int64_t i = 0; i < j.voxels * j.step->channels; ++i) {
        const int64_t o = i / j.step->channels;
        const int c = (int)(i % j.step->channels);
        const float got = stored(j, layer, i);
        if (op != net_conv) {
            wrong += (double)got != pool_output(j, o, c);
        } else if (j.l->format == net_format_i8) {
            wrong += got != conv_i8_output(j, o, c);
        } else {
            double magnitude;
            const double y = conv_output(j, o, c, &magnitude);
            const bool int8 = j.step->type == numeric_i8;
            const double unit = int8 ? (double)j.step->scale : 1;
            const double want = int8 ? fmin(fmax(y / unit, -128), 127) : y;
            wrong += fabs((double)got - want) > (int8 ? 0.5 : 0) + 4 * epsilon * magnitude / unit;
        }
    }
    return wrong;
}

} // namespace i8net

#endif
