// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/net/ops/prune.cuh: the voxels that features choose, as a layer on the GPU.
#ifndef SPIRA_NET_OPS_PRUNE_CUH
#define SPIRA_NET_OPS_PRUNE_CUH

#include "../../choose.cuh"
#include "../../prune.cuh"
#include "../../rows.cuh"
#include "base.cuh"
#include "prune.h"

namespace spira {

// Of prune; with `most`, a mask and the scratch of what makes it in front.
template <typename W>
SPIRA_API status net_op_scratch(net_op_prune, const net_plan *p, int i, size_t *bytes) {
    net_run_args<W> none = {};
    none.input.capacity = p->set[0].capacity;
    const prune_args<W> args = net_prune_args(p, p->step[i].set, &none);
    SPIRA_TRY(prune_workspace(&args, bytes));
    if (p->layers[i].most) {
        size_t own = 0;
        const choose_largest_args<W> largest = net_largest_args<W>(p, &args, 1, nullptr);
        SPIRA_TRY(choose_largest_workspace(&largest, &own));
        *bytes = (*bytes < own ? own : *bytes) + (size_t)net_mask_bytes(args.in.capacity);
    }
    return status_success();
}

template <numeric format, typename W>
SPIRA_API status net_op_grow(net_op_prune, const net_launch<W> *a) {
    const net_plan *p = a->plan;
    const int32_t most = p->layers[a->layer].most;
    prune_args<W> args = net_prune_args(p, p->step[a->layer].set, a->run);
    char *scratch = (char *)a->run->memory + p->scratch;
    size_t bytes = p->scratch_bytes;
    if (most) {
        const choose_largest_args<W> largest = net_largest_args(p, &args, most, scratch);
        scratch += net_mask_bytes(args.in.capacity);
        bytes -= (size_t)net_mask_bytes(args.in.capacity);
        SPIRA_TRY((choose_largest<W, net_float<format>>(&largest, scratch, bytes, a->stream)));
        args.choice = {};
        args.choice.mask = largest.mask;
        args.channel = 0;
    }
    return prune<W, net_float<format>>(&args, scratch, bytes, a->stream);
}

template <numeric format, typename W>
SPIRA_API status net_op_run(net_op_prune op, const net_launch<W> *a) {
    const row_gather_args args = net_gather_args(op, a->plan, a->layer, a->run);
    return row_gather<net_float<format>>(&args, a->stream);
}

} // namespace spira

#endif
