// spira/net/ops/pool.cuh: local pooling as layers on the GPU.
#ifndef SPIRA_NET_OPS_POOL_CUH
#define SPIRA_NET_OPS_POOL_CUH

#include "../../pool.cuh"
#include "base.cuh"
#include "pool.h"

namespace spira {

template <numeric format, typename W>
SPIRA_API status net_op_run(net_op_pool, const net_launch<W> *a) {
    const net_plan *p = a->plan;
    const net_step *step = &p->step[a->layer];
    const voxel_set<W> outputs = net_voxels(p, step->set, a->run->input, a->run->memory);
    return pool<format>(net_pool_kind(&p->layers[a->layer]), step->type,
                        net_launch_in(a, p->layers[a->layer].source), step->channels,
                        net_map_of(p, a->layer, a->run->memory), step->shape.volume, outputs.count,
                        outputs.capacity, net_target(p, a->layer, a->run), a->stream);
}

} // namespace spira

#endif
