// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/net/ops/children.cuh: children of half the stride as a layer on the GPU.
#ifndef SPIRA_NET_OPS_CHILDREN_CUH
#define SPIRA_NET_OPS_CHILDREN_CUH

#include "../../rows.cuh"
#include "../../subdivide.cuh"
#include "base.cuh"
#include "children.h"

namespace spira {

template <typename W>
SPIRA_API status net_op_scratch(net_op_children, const net_plan *p, int i, size_t *bytes) {
    net_run_args<W> none = {};
    none.input.capacity = p->set[0].capacity;
    const subdivide_args<W> args = net_children_args(p, p->step[i].set, &none);
    return subdivide_workspace(&args, bytes);
}

template <numeric format, typename W>
SPIRA_API status net_op_grow(net_op_children, const net_launch<W> *a) {
    const net_plan *p = a->plan;
    const subdivide_args<W> args = net_children_args(p, p->step[a->layer].set, a->run);
    return subdivide<W, net_float<format>>(&args, (char *)a->run->memory + p->scratch,
                                           p->scratch_bytes, a->stream);
}

template <numeric format, typename W>
SPIRA_API status net_op_run(net_op_children op, const net_launch<W> *a) {
    const row_gather_args args = net_gather_args(op, a->plan, a->layer, a->run);
    return row_gather<net_float<format>>(&args, a->stream);
}

} // namespace spira

#endif
