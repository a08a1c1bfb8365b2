// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/net/ops/group.cuh: depthwise and grouped convolutions as layers on the GPU.
#ifndef SPIRA_NET_OPS_GROUP_CUH
#define SPIRA_NET_OPS_GROUP_CUH

#include "../../conv_group.cuh"
#include "../../conv_slices.cuh"
#include "conv.cuh"
#include "group.h"

namespace spira {

// By a convolution for each group. params: of the layer, its weights first
template <numeric format, typename W>
SPIRA_API status net_group_run_sliced(const net_launch<W> *a, const float *params) {
    const net_plan *p = a->plan;
    const conv_group_shape shape = net_group_shape(p, a->layer);
    const conv_map map = net_conv_map(p, a->layer, a->run);
    conv_args args = {};
    args.map = &map;
    args.in = net_in(p, p->layers[a->layer].source, a->run);
    args.weights = net_loaded_weights(p, a->layer, a->run->loaded);
    args.epilogue = net_epilogue(p, a->layer, params + conv_group_weights(shape));
    args.epilogue.residual = net_in(p, p->layers[a->layer].residual, a->run);
    args.out = net_target(p, a->layer, a->run);
    args.programmatic = a->programmatic;
    return conv_slices<net_float<format>>(&p->gpu, &shape, &args, a->stream);
}

template <numeric format, typename W>
SPIRA_API status net_op_run(net_op_group, const net_launch<W> *a) {
    const char *const loaded = (const char *)a->run->loaded + a->plan->step[a->layer].vectors;
    const float *const params = (const float *)loaded;
    if (net_group_sliced(a->plan, a->layer)) {
        return net_group_run_sliced<format>(a, params);
    }
    const conv_group_args args = net_group_args(a->plan, a->layer, a->run, params);
    return conv_group<net_float<format>>(&args, a->stream);
}

SPIRA_API status net_op_packed_bytes(net_op_group, const net_plan *p, int i, size_t *bytes) {
    const conv_group_shape shape = net_group_shape(p, i);
    *bytes = 0;
    return net_group_packed(p, i) ? conv_slices_bytes(&p->gpu, &shape, bytes) : status_success();
}

SPIRA_API conv_weights_tag net_op_packed_tag(net_op_group, const net_plan *p, int i) {
    const conv_shape own = conv_slices_shape(net_group_shape(p, i));
    return conv_weights_tag_make(&p->gpu, &own, conv_kernel_of(&own, &p->gpu));
}

template <numeric format>
SPIRA_API status net_op_pack(net_op_group, const net_plan *p, int i, const conv_weights *weights,
                             cudaStream_t stream) {
    const conv_group_shape shape = net_group_shape(p, i);
    return net_group_packed(p, i)
               ? conv_slices_pack<net_float<format>>(&p->gpu, &shape, weights, stream)
               : status_success();
}

} // namespace spira

#endif
