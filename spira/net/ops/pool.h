// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/net/ops/pool.h: local pooling as layers.
#ifndef SPIRA_NET_OPS_POOL_H
#define SPIRA_NET_OPS_POOL_H

#include "../../pool.h"
#include "base.h"

namespace spira {

struct net_op_pool : net_op_kernel {
    enum { lists = true };
};

SPIRA_API unsigned net_op_wish(net_op_pool, const net_plan *p, int i, bool) {
    return p->step[i].type == numeric_i8 ? net_wish_i8 : net_wish_float;
}

SPIRA_API status net_op_shape(net_op_pool, net_plan *p, int i) {
    return p->step[i].map == net_none ? net_fault("size (pooling over one voxel)", i)
                                      : net_op_shape(net_op_base(), p, i);
}

template <typename W>
SPIRA_API pool_args net_pool_args(const net_plan *p, int layer, const net_run_args<W> *run) {
    const net_layer *l = &p->layers[layer];
    const net_step *step = &p->step[layer];
    const voxel_set<W> outputs = net_voxels(p, step->set, run->input, run->memory);
    pool_args args = {};
    args.kind = l->op == net_pool_max ? pool_max : pool_average;
    args.type = step->type;
    args.channels = step->channels;
    args.volume = step->shape.volume;
    args.in = net_in(p, l->source, run);
    args.map = net_map_of(p, layer, run->memory);
    args.count = outputs.count;
    args.capacity = outputs.capacity;
    args.out = net_target(p, layer, run);
    return args;
}

template <typename W>
SPIRA_API status net_op_run_host(net_op_pool, const net_plan *p, int i,
                                 const net_run_args<W> *run) {
    const pool_args args = net_pool_args(p, i, run);
    return pool_host(&args);
}

} // namespace spira

#endif
