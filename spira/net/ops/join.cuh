// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/net/ops/join.cuh: features of unions and projections as layers on the GPU.
#ifndef SPIRA_NET_OPS_JOIN_CUH
#define SPIRA_NET_OPS_JOIN_CUH

#include "../../join.cuh"
#include "base.cuh"
#include "join.h"

namespace spira {

template <numeric format, typename W>
SPIRA_API status net_op_run(net_op_join, const net_launch<W> *a) {
    join_sum_args args = net_join_sum_args(a->plan, a->layer, a->run);
    args.programmatic = a->programmatic;
    return net_dispatch<format>(args.type, [&](auto type) {
        return join_sum<decltype(type)::value>(&a->plan->gpu, &args, a->stream);
    });
}

} // namespace spira

#endif
