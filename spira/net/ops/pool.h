// spira/net/ops/pool.h: local pooling as layers.
#ifndef SPIRA_NET_OPS_POOL_H
#define SPIRA_NET_OPS_POOL_H

#include "../../pool.h"
#include "base.h"

namespace spira {

struct net_op_pool : net_op_kernel {
    enum { lists = true };
};

SPIRA_API status net_op_shape(net_op_pool, net_plan *p, int i) {
    return p->step[i].map == net_none ? net_fault("size (pooling over one voxel)", i)
                                      : net_op_shape(net_op_base(), p, i);
}

SPIRA_API pool_kind net_pool_kind(const net_layer *l) {
    return l->op == net_pool_max ? pool_max : pool_average;
}

template <typename W>
SPIRA_API status net_op_run_host(net_op_pool, const net_plan *p, int i,
                                 const net_run_args<W> *run) {
    const net_layer *l = &p->layers[i];
    const net_step *step = &p->step[i];
    const void *in = net_features_of(p, net_number(l->source), run->features, run->memory);
    return pool_host(net_pool_kind(l), (const float *)in, step->channels,
                     net_map_of(p, i, run->memory), step->shape.volume,
                     net_voxels_count(p, step->set, run), (float *)net_target(p, i, run));
}

} // namespace spira

#endif
