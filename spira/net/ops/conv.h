// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/net/ops/conv.h: convolutions as layers.
#ifndef SPIRA_NET_OPS_CONV_H
#define SPIRA_NET_OPS_CONV_H

#include "base.h"

namespace spira {

struct net_op_conv : net_op_kernel {
    enum {
        members =
            net_member_source2 | net_member_channels | net_member_kernel | net_member_epilogue,
    };
};

SPIRA_API status net_op_check(net_op_conv, const net_plan *p, int i) {
    const net_layer *l = &p->layers[i];
    const int source2 = net_number(l->source2);
    SPIRA_TRY(net_op_check(net_op_kernel(), p, i));
    if (l->channels < 1 || l->channels > conv_channels_max) {
        return net_fault("channels (1 to 4096)", i);
    }
    if (source2 != net_none &&
        net_source_set(p, source2) != net_source_set(p, net_number(l->source))) {
        return net_fault("source2 (of another set than source)", i);
    }
    if (l->act < activation_none || l->act >= activation_count) {
        return net_fault("act (an unknown activation)", i);
    }
    if (l->act != activation_leaky && l->slope != 0) {
        return net_fault("slope (without activation_leaky)", i);
    }
    return l->pairs < 0 ? net_fault("pairs (a negative number)", i) : status_success();
}

SPIRA_API status net_op_shape(net_op_conv, net_plan *p, int i) {
    const net_layer *l = &p->layers[i];
    net_step *step = &p->step[i];
    SPIRA_TRY(net_op_shape(net_op_base(), p, i));
    step->shape.cin2 = net_source_channels(p, net_number(l->source2));
    step->channels = step->shape.cout = l->channels;
    const status good = conv_shape_check(&step->shape);
    if (status_failed(good)) {
        return net_fault(good, i);
    }
    const int residual = net_number(l->residual);
    if (residual != net_none && (net_source_set(p, residual) != step->set ||
                                 net_source_channels(p, residual) != step->channels)) {
        return net_fault("residual (of another set, or of other channels)", i);
    }
    return status_success();
}

// Weights, then what the layer has of bias, scale and shift.
SPIRA_API net_params net_op_params(net_op_conv, const net_plan *p, int i) {
    const net_layer *l = &p->layers[i];
    const conv_shape *s = &p->step[i].shape;
    net_params at;
    at.weight = p->step[i].params;
    at.vectors = at.weight + (int64_t)s->volume * (s->cin + s->cin2) * s->cout;
    at.bias = l->bias ? at.vectors : -1;
    at.end = at.vectors + (l->bias ? s->cout : 0);
    at.scale = l->norm ? at.end : -1;
    at.shift = l->norm ? at.end + s->cout : -1;
    at.end += l->norm ? 2 * s->cout : 0;
    return at;
}

// The epilogue of a layer, but for the residual. vectors: its bias, scale and shift.
SPIRA_API conv_epilogue net_epilogue(const net_plan *p, int i, const float *vectors) {
    const net_params at = net_op_params(net_op_conv(), p, i);
    conv_epilogue e = {};
    e.bias = at.bias < 0 ? nullptr : vectors + (at.bias - at.vectors);
    e.scale = at.scale < 0 ? nullptr : vectors + (at.scale - at.vectors);
    e.shift = at.shift < 0 ? nullptr : vectors + (at.shift - at.vectors);
    e.act = p->layers[i].act;
    e.slope = p->layers[i].slope;
    return e;
}

template <typename W>
SPIRA_API status net_op_run_host(net_op_conv op, const net_plan *p, int i,
                                 const net_run_args<W> *run) {
    const net_layer *l = &p->layers[i];
    const net_step *step = &p->step[i];
    const net_params at = net_op_params(op, p, i);
    const float *params = (const float *)run->loaded;
    conv_epilogue e = net_epilogue(p, i, params + at.vectors);
    e.residual = net_in(p, l->residual, run);
    const conv_host_args args = {step->shape,
                                 (const float *)net_in(p, l->source, run),
                                 (const float *)net_in(p, l->source2, run),
                                 params + at.weight,
                                 net_map_of(p, i, run->memory),
                                 net_voxels_count(p, step->set, run)};
    return conv_host(&args, &e, (float *)net_target(p, i, run));
}

} // namespace spira

#endif
