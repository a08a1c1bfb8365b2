// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/net/ops/join.h: unions and projections of sets as layers.
#ifndef SPIRA_NET_OPS_JOIN_H
#define SPIRA_NET_OPS_JOIN_H

#include "base.h"

namespace spira {

struct net_op_join : net_op_base {
    enum { members = net_member_source2 | net_member_more | net_member_axis | net_member_range };
};

SPIRA_API status net_op_check(net_op_join, const net_plan *p, int i) {
    const join_axis axis = p->layers[i].axis;
    return axis < join_axis_none || axis > join_axis_z ? net_fault("axis (not x, y or z)", i)
                                                       : status_success();
}

SPIRA_API unsigned net_op_wish(net_op_join, const net_plan *p, int i, bool) {
    return p->step[i].type == numeric_i8 ? net_wish_i8 : net_wish_float;
}

SPIRA_API status net_op_set(net_op_join, net_plan *p, int i, int *set) {
    return net_joined_set(p, i, set);
}

SPIRA_API status net_op_shape(net_op_join, net_plan *p, int i) {
    SPIRA_TRY(net_op_shape(net_op_base(), p, i));
    const net_reads reads = net_reads_of(&p->layers[i]);
    for (int layer : reads.layer) {
        if (layer != net_none && net_source_channels(p, layer) != p->step[i].channels) {
            return net_fault("a join of sources with different channels", i);
        }
    }
    return status_success();
}

// The features of a join, and what they are made of.
template <typename W>
SPIRA_API join_sum_args net_join_sum_args(const net_plan *p, int layer,
                                          const net_run_args<W> *run) {
    const net_step *step = &p->step[layer];
    const net_set *set = &p->set[step->set];
    const voxel_set<W> out = net_voxels(p, step->set, run->input, run->memory);
    const net_reads reads = net_reads_of(&p->layers[layer]);
    const bool int8 = step->type == numeric_i8;
    join_sum_args args = {};
    for (int r = 0; r < net_reads_sources; ++r) {
        if (reads.layer[r] != net_none) {
            args.capacity[args.sets] = p->set[net_source_set(p, reads.layer[r])].capacity;
            args.scale[args.sets] = int8 ? net_scale_of(p, reads.layer[r]) : 0.0f;
            args.in[args.sets++] = net_features_of(p, reads.layer[r], run->features, run->memory);
        }
    }
    args.out_inverse = int8 ? 1.0f / step->scale : 0.0f;
    args.channels = step->channels;
    args.type = step->type;
    args.rows = net_join_rows(set, run->memory);
    args.count = out.count;
    args.out_capacity = out.capacity;
    args.out = net_target(p, layer, run);
    return args;
}

template <typename W>
SPIRA_API status net_op_run_host(net_op_join, const net_plan *p, int i,
                                 const net_run_args<W> *run) {
    const join_sum_args args = net_join_sum_args(p, i, run);
    return join_sum_host(&args);
}

} // namespace spira

#endif
