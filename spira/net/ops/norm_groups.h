// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/net/ops/norm_groups.h: GroupNorm and instance norm as layers.
#ifndef SPIRA_NET_OPS_NORM_GROUPS_H
#define SPIRA_NET_OPS_NORM_GROUPS_H

#include "../../norm_groups.h"
#include "norm.h"

namespace spira {

// But for its groups, as net_op_norm.
struct net_op_norm_groups : net_op_norm {
    enum { members = (int)net_op_norm::members | (int)net_member_groups };
};

SPIRA_API status net_op_shape(net_op_norm_groups, net_plan *p, int i) {
    SPIRA_TRY(net_op_shape(net_op_norm(), p, i));
    const int groups = p->layers[i].groups;
    return groups < 1 || p->step[i].channels % groups
               ? net_fault("groups (they divide the source's channels)", i)
               : status_success();
}

// vectors: scale and shift
template <typename W>
SPIRA_API norm_groups_args<W>
net_norm_groups_args(const net_plan *p, int i, const net_run_args<W> *run, const float *vectors) {
    norm_groups_args<W> args = {};
    args.layout = &p->layout;
    args.set = net_voxels(p, p->step[i].set, run->input, run->memory);
    args.groups = p->layers[i].groups;
    args.rows = net_norm_args(p, i, run, vectors);
    args.rows.count = nullptr;
    args.rows.capacity = 0;
    return args;
}

template <typename W>
SPIRA_API status net_op_run_host(net_op_norm_groups, const net_plan *p, int i,
                                 const net_run_args<W> *run) {
    const norm_groups_args<W> args =
        net_norm_groups_args(p, i, run, (const float *)run->loaded + p->step[i].params);
    return norm_groups_host(&args);
}

} // namespace spira

#endif
