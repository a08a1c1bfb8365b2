// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/net/ops/norm_groups.cuh: GroupNorm and instance norm as layers on the GPU.
#ifndef SPIRA_NET_OPS_NORM_GROUPS_CUH
#define SPIRA_NET_OPS_NORM_GROUPS_CUH

#include "../../norm_groups.cuh"
#include "base.cuh"
#include "norm_groups.h"

namespace spira {

template <typename W>
SPIRA_API status net_op_scratch(net_op_norm_groups, const net_plan *p, int i, size_t *bytes) {
    SPIRA_TRY(size_check(p->layout.batches, 1, 65535, "layout.batches"));
    return norm_groups_measure(p->layout.batches, p->step[i].channels,
                               p->set[p->step[i].set].capacity, false, bytes);
}

template <numeric format, typename W>
SPIRA_API status net_op_run(net_op_norm_groups, const net_launch<W> *a) {
    const char *const vectors = (const char *)a->run->loaded + a->plan->step[a->layer].vectors;
    const norm_groups_args<W> args =
        net_norm_groups_args(a->plan, a->layer, a->run, (const float *)vectors);
    return norm_groups<W, net_float<format>>(&args, (char *)a->run->memory + a->plan->scratch,
                                             a->plan->scratch_bytes, a->stream);
}

} // namespace spira

#endif
