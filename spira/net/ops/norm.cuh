// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/net/ops/norm.cuh: LayerNorm and RMSNorm as layers on the GPU.
#ifndef SPIRA_NET_OPS_NORM_CUH
#define SPIRA_NET_OPS_NORM_CUH

#include "../../norm.cuh"
#include "base.cuh"
#include "norm.h"

namespace spira {

template <numeric format, typename W>
SPIRA_API status net_op_run(net_op_norm, const net_launch<W> *a) {
    const char *const vectors = (const char *)a->run->loaded + a->plan->step[a->layer].vectors;
    const norm_args args = net_norm_args(a->plan, a->layer, a->run, (const float *)vectors);
    return norm<net_float<format>>(&args, a->stream);
}

} // namespace spira

#endif
