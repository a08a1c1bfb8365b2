// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/net/ops/pool.h: local pooling as layers.
#ifndef SPIRA_NET_OPS_POOL_H
#define SPIRA_NET_OPS_POOL_H

#include "../../pool.h"
#include "base.h"

namespace spira {

struct net_op_pool : net_op_kernel {};

SPIRA_API bool net_op_lists(net_op_pool, const net_plan *, int) {
    return true;
}

SPIRA_API unsigned net_op_wish(net_op_pool, const net_plan *p, int i, bool) {
    return p->step[i].type == numeric_i8 ? net_wish_i8 : net_wish_float;
}

SPIRA_API status net_op_shape(net_op_pool, net_plan *p, int i) {
    return p->step[i].map == net_none ? net_fault("size (pooling over one voxel)", i)
                                      : net_op_shape(net_op_base(), p, i);
}

template <typename W>
SPIRA_API pool_args net_pool_args(const net_plan *p, int i, const net_run_args<W> *run) {
    pool_args args = net_args<pool_args>(p, i, run);
    args.kind = p->layers[i].op == net_pool_max ? pool_max : pool_average;
    args.volume = p->step[i].shape.volume;
    args.map = net_map_of(p, i, run->memory);
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
