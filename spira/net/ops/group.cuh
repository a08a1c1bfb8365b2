// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/net/ops/group.cuh: depthwise and grouped convolutions as layers on the GPU.
#ifndef SPIRA_NET_OPS_GROUP_CUH
#define SPIRA_NET_OPS_GROUP_CUH

#include "../../conv_group.cuh"
#include "base.cuh"
#include "group.h"

namespace spira {

template <numeric format, typename W>
SPIRA_API status net_op_run(net_op_group, const net_launch<W> *a) {
    const char *const loaded = (const char *)a->run->loaded + a->plan->step[a->layer].vectors;
    const conv_group_args args = net_group_args(a->plan, a->layer, a->run, (const float *)loaded);
    return conv_group<net_float<format>>(&args, a->stream);
}

} // namespace spira

#endif
