// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/net/layers.cuh: launches the layers of a plan whose index is there.
#ifndef SPIRA_NET_LAYERS_CUH
#define SPIRA_NET_LAYERS_CUH

#include "ops.h"
#include "ops/conv.cuh"
#include "ops/dense.cuh"
#include "ops/join.cuh"
#include "ops/pool.cuh"
#include "ops/product.cuh"

namespace spira {

// Computes one layer. The arguments have been checked. A fused layer launches nothing.
template <numeric format, typename W>
SPIRA_API status net_layer_start(const net_launch<W> *a) {
    return a->plan->step[a->layer].fused_into != net_none
               ? status_success()
               : net_op_call(a->plan->layers[a->layer].op,
                             [&](auto op) { return net_op_run<format>(op, a); });
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
