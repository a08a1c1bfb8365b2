// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/net/ops/group.h: depthwise and grouped convolutions as layers.
#ifndef SPIRA_NET_OPS_GROUP_H
#define SPIRA_NET_OPS_GROUP_H

#include "../../conv_group.h"
#include "conv.h"

namespace spira {

struct net_op_group : net_op_kernel {
    enum {
        members = net_member_channels | net_member_kernel | net_member_epilogue | net_member_conv |
                  net_member_groups,
    };
    enum { floats = true };
};

SPIRA_API status net_op_check(net_op_group, const net_plan *p, int i) {
    const net_layer *l = &p->layers[i];
    if (l->groups < 1 || l->channels % l->groups) {
        return net_fault("groups (they divide the channels)", i);
    }
    return l->pairs ? net_fault("pairs (the operation has no tuning records)", i)
                    : net_op_check(net_op_conv(), p, i);
}

// step->shape.cin counts the input channels of a group: so the weights are those of a convolution.
SPIRA_API status net_op_shape(net_op_group, net_plan *p, int i) {
    const int groups = p->layers[i].groups;
    conv_shape *shape = &p->step[i].shape;
    SPIRA_TRY(net_op_shape(net_op_conv(), p, i));
    if (p->step[i].map == net_none) {
        return net_fault("size (groups over one voxel)", i);
    }
    if (shape->cin % groups) {
        return net_fault("groups (they divide the source's channels)", i);
    }
    shape->cin /= groups;
    return status_success();
}

SPIRA_API conv_group_shape net_group_shape(const net_plan *p, int i) {
    const net_step *step = &p->step[i];
    const int groups = p->layers[i].groups;
    return {step->shape.volume, groups, step->shape.cin * groups, step->shape.cout, step->type};
}

// Whether conv_slices computes the layer, on the GPU, in a set of this capacity. It follows from
// the table alone: which form of a map a layer reads is decided before the GPU is known.
SPIRA_API bool net_group_slices(const net_plan *p, int i, int32_t capacity) {
    return p->device && conv_slices_pay(net_group_shape(p, i), capacity);
}

SPIRA_API bool net_group_sliced(const net_plan *p, int i) {
    return net_group_slices(p, i, p->set[p->step[i].set].capacity);
}

// Whether the weights are packed. Whatever the capacity: plans of others share loaded parameters.
SPIRA_API bool net_group_packed(const net_plan *p, int i) {
    return net_group_slices(p, i, INT32_MAX);
}

SPIRA_API bool net_op_lists(net_op_group, const net_plan *p, int i) {
    return !net_group_sliced(p, i);
}

// As of a convolution, but that the weights are vectors, too: conv_group reads them as they are.
SPIRA_API net_params net_op_params(net_op_group, const net_plan *p, int i) {
    net_params at = net_op_params(net_op_conv(), p, i);
    at.vectors = at.weight;
    return at;
}

// params: of the layer, its weights first.
template <typename W>
SPIRA_API conv_group_args net_group_args(const net_plan *p, int i, const net_run_args<W> *run,
                                         const float *params) {
    const net_layer *l = &p->layers[i];
    const net_step *step = &p->step[i];
    const voxel_set<W> outputs = net_voxels(p, step->set, run->input, run->memory);
    conv_group_args a = {};
    a.shape = net_group_shape(p, i);
    a.in = net_in(p, l->source, run);
    a.weight = params;
    a.map = net_map_of(p, i, run->memory);
    a.count = outputs.count;
    a.capacity = outputs.capacity;
    a.epilogue = net_epilogue(p, i, params + conv_group_weights(a.shape));
    a.epilogue.residual = net_in(p, l->residual, run);
    a.out = net_target(p, i, run);
    return a;
}

template <typename W>
SPIRA_API status net_op_run_host(net_op_group op, const net_plan *p, int i,
                                 const net_run_args<W> *run) {
    const float *const params = (const float *)run->loaded + net_op_params(op, p, i).weight;
    const conv_group_args args = net_group_args(p, i, run, params);
    return conv_group_host(&args);
}

} // namespace spira

#endif
