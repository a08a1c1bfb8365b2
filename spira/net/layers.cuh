// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/net/layers.cuh: launches the layers of a plan whose index is there.
#ifndef SPIRA_NET_LAYERS_CUH
#define SPIRA_NET_LAYERS_CUH

#include "index.cuh"
#include "ops.h"
#include "ops/children.cuh"
#include "ops/conv.cuh"
#include "ops/dense.cuh"
#include "ops/group.cuh"
#include "ops/join.cuh"
#include "ops/norm.cuh"
#include "ops/norm_groups.cuh"
#include "ops/pool.cuh"
#include "ops/product.cuh"
#include "ops/prune.cuh"

namespace spira {

// Builds the index of the stage that a layer opens.
template <numeric format, typename W>
SPIRA_API status net_stage_start(const net_launch<W> *a) {
    SPIRA_TRY(net_op_call(a->plan->layers[a->layer].op,
                          [&](auto op) { return net_op_grow<format>(op, a); }));
    const net_part part = net_part_of(a->plan->step[a->layer].opens);
    return net_index_part(a->plan, part, a->run, a->stream);
}

// Computes one layer, after the index of the stage that it opens. The arguments have been checked.
// A fused layer launches nothing.
template <numeric format, typename W>
SPIRA_API status net_layer_start(const net_launch<W> *args) {
    net_launch<W> a = *args;
    const net_step *step = &a.plan->step[a.layer];
    if (step->opens) {
        SPIRA_TRY(net_stage_start<format>(&a));
        a.programmatic = false;
    }
    return step->fused_into != net_none ? status_success()
                                        : net_op_call(a.plan->layers[a.layer].op, [&](auto op) {
                                              return net_op_run<format>(op, &a);
                                          });
}

// Computes layers [first, end). The first launch is not programmatic: what precedes it is no layer,
// or waits for the other stream.
template <numeric format, typename W>
SPIRA_API status net_layers_start(const net_plan *p, int first, int end, const net_run_args<W> *run,
                                  cudaStream_t stream) {
    net_launch<W> a = {p, first, run, false, stream};
    for (; a.layer < end; ++a.layer) {
        SPIRA_TRY(net_layer_start<format>(&a));
        a.programmatic = a.programmatic || p->step[a.layer].fused_into == net_none;
    }
    return status_success();
}

} // namespace spira

#endif
