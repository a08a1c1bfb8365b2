// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/net/ops/dense.h: dense maps as layers.
#ifndef SPIRA_NET_OPS_DENSE_H
#define SPIRA_NET_OPS_DENSE_H

#include "base.h"

namespace spira {

struct net_op_dense : net_op_base {
    enum { members = net_member_order };
};

SPIRA_API status net_op_check(net_op_dense, const net_plan *p, int i) {
    const dense_order order = p->layers[i].order;
    return order < dense_channels_first || order > dense_channels_last
               ? net_fault("order (an unknown one)", i)
               : status_success();
}

SPIRA_API unsigned net_op_wish(net_op_dense, const net_plan *p, int i, bool) {
    return net_is_i8(&p->layers[i]) ? net_wish_i8 : net_wish_none;
}

// The format of the source, or fp32. Of int8 features: int8 if the layer says so, else the plan's.
SPIRA_API status net_op_type(net_op_dense, net_plan *p, int i) {
    const numeric from = net_type_of(p, net_number(p->layers[i].source));
    const numeric stored = from == numeric_i8 ? net_type_wanted(p, i) : from;
    const numeric own = net_is_i8(&p->layers[i]) ? numeric_i8
                        : stored == numeric_tf32 ? numeric_f32
                                                 : stored;
    const bool given = p->device && p->layers[i].format && !net_is_i8(&p->layers[i]);
    const numeric type = given ? net_type_wanted(p, i) : own;
    p->step[i].type = type;
    return type == own || type == numeric_f32
               ? status_success()
               : net_fault("format (a dense map has that of its source, or fp32)", i);
}

// Channels times depth.
SPIRA_API status net_op_shape(net_op_dense, net_plan *p, int i) {
    net_step *step = &p->step[i];
    const expand_grid *grid = &p->set[step->set].grid;
    SPIRA_TRY(net_op_shape(net_op_base(), p, i));
    if (!grid->extent.x || !grid->extent.y || !grid->extent.z) {
        return net_fault("a dense output without an extent (limits.grid)", i);
    }
    if (p->limits.batch < 1) {
        return net_fault("a dense output without a batch size (limits.batch)", i);
    }
    size_t bytes = 0;
    const status fits = dense_bytes(grid, p->limits.batch, step->channels, step->type, &bytes);
    if (status_failed(fits)) {
        return net_fault(fits, i);
    }
    if (bytes >> 54) { // sums over all layers stay below 2^63
        return net_fault("a dense output of this size", i);
    }
    const int64_t deep = (int64_t)step->channels * grid->extent.z;
    if (deep > INT32_MAX ||
        (p->layers[i].order == dense_channels_last && grid->extent.z > dense_depth_max)) {
        return net_fault("a dense output of this depth", i);
    }
    step->channels = (int)deep;
    return status_success();
}

SPIRA_API int64_t net_op_rows(net_op_dense, const net_plan *p, int i) {
    const triple extent = p->set[p->step[i].set].grid.extent;
    return (int64_t)p->limits.batch * extent.x * extent.y;
}

// A dense output, and what it is made of.
template <typename W>
SPIRA_API dense_args<W> net_dense_args(const net_plan *p, int layer, const net_run_args<W> *run) {
    const net_layer *l = &p->layers[layer];
    const net_step *step = &p->step[layer];
    dense_args<W> args = {};
    args.layout = &p->layout;
    args.set = net_voxels(p, step->set, run->input, run->memory);
    args.grid = p->set[step->set].grid;
    args.stride = p->set[step->set].stride;
    args.batch = p->limits.batch;
    args.channels = step->shape.cin;
    args.type = net_type_of(p, net_number(l->source));
    args.features = net_in(p, l->source, run);
    args.out_type = net_type_of(p, layer);
    args.scale = args.type == numeric_i8 && args.out_type != numeric_i8
                     ? net_scale_of(p, net_number(l->source))
                     : 0.0f;
    args.order = l->order;
    args.out = net_target(p, layer, run);
    args.trouble = run->trouble;
    return args;
}

template <typename W>
SPIRA_API status net_op_run_host(net_op_dense, const net_plan *p, int i,
                                 const net_run_args<W> *run) {
    const dense_args<W> args = net_dense_args(p, i, run);
    return dense_host(&args);
}

} // namespace spira

#endif
