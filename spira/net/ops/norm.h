// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/net/ops/norm.h: LayerNorm and RMSNorm as layers.
#ifndef SPIRA_NET_OPS_NORM_H
#define SPIRA_NET_OPS_NORM_H

#include "../../norm.h"
#include "base.h"

namespace spira {

struct net_op_norm : net_op_base {
    enum { members = net_member_epilogue | net_member_epsilon, floats = true };
};

SPIRA_API status net_op_check(net_op_norm, const net_plan *p, int i) {
    const net_layer *l = &p->layers[i];
    SPIRA_TRY(net_check_act(l, i));
    return float_is_finite(l->epsilon) && l->epsilon > 0 ? status_success()
                                                         : net_fault("epsilon (above 0)", i);
}

SPIRA_API status net_op_shape(net_op_norm, net_plan *p, int i) {
    SPIRA_TRY(net_op_shape(net_op_base(), p, i));
    return p->step[i].channels > conv_channels_max ? net_fault("a norm of this many channels", i)
                                                   : net_check_residual(p, i);
}

// Scale and shift, where the layer has them.
SPIRA_API net_params net_op_params(net_op_norm, const net_plan *p, int i) {
    net_params at = net_op_params(net_op_base(), p, i);
    if (p->layers[i].norm) {
        at.scale = at.end;
        at.shift = at.end + p->step[i].channels;
        at.end += 2 * p->step[i].channels;
    }
    return at;
}

// vectors: scale and shift
template <typename W>
SPIRA_API norm_args net_norm_args(const net_plan *p, int i, const net_run_args<W> *run,
                                  const float *vectors) {
    const net_layer *l = &p->layers[i];
    norm_args args = net_args<norm_args>(p, i, run);
    args.kind = l->op == net_norm_rms ? norm_rms : norm_layer;
    args.epsilon = l->epsilon;
    args.gain = l->norm ? vectors : nullptr;
    args.shift = l->norm ? vectors + args.channels : nullptr;
    args.residual = net_in(p, l->residual, run);
    args.act = l->act;
    args.slope = l->slope;
    return args;
}

template <typename W>
SPIRA_API status net_op_run_host(net_op_norm, const net_plan *p, int i,
                                 const net_run_args<W> *run) {
    const norm_args args = net_norm_args(p, i, run, (const float *)run->loaded + p->step[i].params);
    return norm_host(&args);
}

} // namespace spira

#endif
