// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/net/ops/children.h: children of half the stride as a layer. Channels go to them: the row of
// child s is the s-th eighth of its parent's, each channel repeated.
#ifndef SPIRA_NET_OPS_CHILDREN_H
#define SPIRA_NET_OPS_CHILDREN_H

#include "prune.h"

namespace spira {

struct net_op_children : net_op_base {
    enum {
        members = net_member_source2 | net_member_choice | net_member_repeat,
        floats = true,
    };
};

SPIRA_API int net_repeat(const net_layer *l) {
    return l->repeat ? l->repeat : 1;
}

SPIRA_API status net_op_check(net_op_children, const net_plan *p, int i) {
    const net_layer *l = &p->layers[i];
    if (net_number(l->source2) == net_none && (l->threshold != 0 || l->or_equal)) {
        return net_fault("threshold (without source2)", i);
    }
    if (l->repeat < 0) {
        return net_fault("repeat (a negative number)", i);
    }
    return net_check_scores(p, i);
}

SPIRA_API status net_op_set(net_op_children, net_plan *p, int i, int *set) {
    const net_set *from = &p->set[p->step[i].source_set];
    net_set node = {};
    node.by = net_set_children;
    node.stride = subdivide_half(from->stride);
    node.grid.origin = from->grid.origin;
    for (int a = 0; a < 3; ++a) {
        if (triple_at(from->stride, a) % 2) {
            return net_fault("children of an odd stride (see net_limits.stride)", i);
        }
        const int extent = triple_at(from->grid.extent, a);
        if (extent > voxel_index_max / 2) {
            return net_fault("children of a grid of this extent", i);
        }
        *triple_at(&node.grid.extent, a) = 2 * extent;
    }
    if (from->capacity > INT32_MAX / subdivide_children) {
        return net_fault("children of 2^28 voxels or more", i);
    }
    const int64_t all = (int64_t)from->capacity * subdivide_children;
    return net_chosen_set(p, i, &node, min_of(all, net_cells(p, &node.grid)), set);
}

SPIRA_API status net_op_shape(net_op_children, net_plan *p, int i) {
    const net_layer *l = &p->layers[i];
    SPIRA_TRY(net_op_shape(net_op_base(), p, i));
    const int scores = net_number(l->source2), channels = p->step[i].channels;
    if (scores != net_none && net_source_channels(p, scores) != subdivide_children) {
        return net_fault("source2 (a voxel has 8 scores)", i);
    }
    const int64_t own = (int64_t)channels / subdivide_children * net_repeat(l);
    if (channels % subdivide_children || own > conv_channels_max) {
        return net_fault("children of features of this width (8 times 1 to 4096, repeated)", i);
    }
    p->step[i].channels = (int)own;
    return status_success();
}

template <typename W>
SPIRA_API row_gather_args net_gather_args(net_op_children, const net_plan *p, int i,
                                          const net_run_args<W> *run) {
    const int64_t parents = p->set[p->step[i].source_set].capacity;
    return net_gather_args(p, i, parents * subdivide_children, net_repeat(&p->layers[i]), run);
}

SPIRA_API int64_t net_op_scratch_host(net_op_children, const net_plan *p, int i) {
    const int64_t parents = p->set[p->step[i].source_set].capacity;
    return round_up(parents * subdivide_children * (int64_t)sizeof(int32_t), workspace_alignment);
}

template <typename W>
SPIRA_API status net_op_grow_host(net_op_children, const net_plan *p, int i,
                                  const net_run_args<W> *run) {
    const subdivide_args<W> args = net_children_args(p, p->step[i].set, run);
    return subdivide_host(&args, (char *)run->memory + p->scratch, p->scratch_bytes);
}

template <typename W>
SPIRA_API status net_op_run_host(net_op_children op, const net_plan *p, int i,
                                 const net_run_args<W> *run) {
    const row_gather_args args = net_gather_args(op, p, i, run);
    return row_gather_host(&args);
}

} // namespace spira

#endif
