// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/net/i8.h: which features of a plan are stored as int8, and at which scale.
//
// Features have one format and one scale, whoever reads them. Their readers decide: int8 if an int8
// layer reads them, else floating point. What reads only floating point cannot read them then. A
// residual is read in either format.
#ifndef SPIRA_NET_I8_H
#define SPIRA_NET_I8_H

#include "ops.h"

namespace spira {

// What the readers of a layer's features, or of net_input's, wish for. Later layers are decided.
SPIRA_API unsigned net_wishes(const net_plan *p, int layer) {
    unsigned wishes = net_wish_none;
    for (int i = layer + 1; i < p->layer_count; ++i) {
        const net_reads reads = net_reads_of(&p->layers[i]);
        for (int r = 0; r < net_reads_all; ++r) {
            if (reads.layer[r] == layer) {
                wishes |= net_op_call(p->layers[i].op, [&](auto op) {
                    return net_op_wish(op, p, i, r == net_reads_residual);
                });
            }
        }
    }
    return wishes;
}

// Whether readers with these wishes are given int8.
SPIRA_API bool net_wishes_i8(unsigned wishes) {
    return wishes & net_wish_i8 || wishes == net_wish_small;
}

SPIRA_API bool net_range_valid(float range) {
    return float_is_finite(range) && range >= 0;
}

// The scale of a range. Whether it is one: neither 0 nor so small that its inverse is infinite.
SPIRA_API bool net_scale_take(float range, float *scale) {
    *scale = range / 127.0f;
    return *scale > 0 && float_is_finite(1.0f / *scale);
}

// Decides for one layer: step->type is numeric_i8 afterwards, or another one.
SPIRA_API status net_plan_format(net_plan *p, int i) {
    const net_layer *l = &p->layers[i];
    const unsigned wishes = net_wishes(p, i);
    net_step *step = &p->step[i];
    if (wishes & net_wish_i8 && wishes & net_wish_float) {
        return net_fault("an int8 layer and one that is not read its features", i);
    }
    if (net_is_i8(l) && l->op != net_conv && l->op != net_dense) {
        return net_fault(
            "format (int8 is for convolutions and dense maps; pooling and joins follow "
            "their readers)",
            i);
    }
    if (l->op == net_dense || !net_wishes_i8(wishes)) {
        return status_success();
    }
    if (net_op_floats(l->op)) {
        return net_fault("a layer whose operation has no int8, that an int8 layer reads", i);
    }
    step->type = numeric_i8;
    const bool own = net_members_of(l) & net_member_range;
    return !own || net_scale_take(l->range, &step->scale)
               ? status_success()
               : net_fault("range (0: missing, but its features are stored as int8)", i);
}

// The scales of layers that have those of their sources, when the others are there.
SPIRA_API void net_plan_scales(net_plan *p) {
    for (int i = 0; i < p->layer_count; ++i) {
        net_step *step = &p->step[i];
        const bool int8 = step->type == numeric_i8 || net_is_i8(&p->layers[i]);
        if (int8 && !(net_members_of(&p->layers[i]) & net_member_range)) {
            step->scale = net_scale_of(p, net_number(p->layers[i].source));
        }
    }
}

// Decides for all layers and the input. The table has been checked.
SPIRA_API status net_plan_formats(net_plan *p) {
    for (int i = p->layer_count - 1; i >= 0; --i) {
        SPIRA_TRY(net_plan_format(p, i));
    }
    const unsigned wishes = net_wishes(p, net_input);
    SPIRA_REQUIRE(!(wishes & net_wish_i8 && wishes & net_wish_float), status_unsupported,
                  "layers (an int8 layer and one that is not read the input)", 0);
    p->input_type = net_wishes_i8(wishes) ? numeric_i8 : p->limits.type;
    SPIRA_REQUIRE(p->input_type != numeric_i8 || net_scale_take(p->limits.range, &p->input_scale),
                  status_unsupported, "limits.range (0: missing, but int8 layers read the input)",
                  0);
    net_plan_scales(p);
    return status_success();
}

// Whether two layers have a source in common.
SPIRA_API bool net_share_source(const net_layer *a, const net_layer *b) {
    const net_reads first = net_reads_of(a), second = net_reads_of(b);
    for (int n = 0; n < 4; ++n) {
        const int layer = first.layer[n / 2];
        if (layer != net_none && layer == second.layer[n % 2]) {
            return true;
        }
    }
    return false;
}

// Whether a layer's features are floating point in any case.
SPIRA_API bool net_is_float(const net_layer *layers, int layer) {
    return layer == net_input || (layer >= 0 && net_op_floats(layers[layer].op));
}

// Makes those int8 layers of a table floating point again that share a source with a layer that
// reads floating point: features have one format.
SPIRA_API void net_formats_settle(net_layer *layers, int count) {
    for (bool changed = true; changed;) {
        changed = false;
        for (int n = 0; n < count * count; ++n) {
            const net_layer *other = &layers[n / count];
            net_layer *l = &layers[n % count];
            const bool floats =
                (net_is_conv(other) || net_op_floats(other->op)) && !net_is_i8(other);
            if (floats && net_is_i8(l) && net_share_source(l, other)) {
                l->format = net_format_same;
                changed = true;
            }
        }
    }
}

// Whether any layer reads a layer's features.
SPIRA_API bool net_is_read(const net_layer *layers, int count, int layer) {
    bool read = false;
    for (int n = 0; n < count * net_reads_all; ++n) {
        read = read || net_reads_of(&layers[n / net_reads_all]).layer[n % net_reads_all] == layer;
    }
    return read;
}

// Makes the convolutions of a table int8 layers, but those that read the network's input or an
// operation without int8, and results of a number of channels that is not divisible by 8, such as
// scores of classes: int8 kernels write these slowly (20 channels of 91,766 voxels on an H200: 31.2
// us, in fp16 8.1).
SPIRA_API void net_formats_i8(net_layer *layers, int count) {
    for (int i = 0; i < count; ++i) {
        net_layer *l = &layers[i];
        const bool floats = net_is_float(layers, net_number(l->source)) ||
                            net_is_float(layers, net_number(l->source2)) ||
                            (l->channels % 8 && !net_is_read(layers, count, i));
        l->format = net_is_conv(l) && !floats ? net_format_i8 : l->format;
    }
    net_formats_settle(layers, count);
}

} // namespace spira

#endif
