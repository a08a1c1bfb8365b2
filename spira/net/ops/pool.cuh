// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/net/ops/pool.cuh: local pooling as layers on the GPU.
#ifndef SPIRA_NET_OPS_POOL_CUH
#define SPIRA_NET_OPS_POOL_CUH

#include "../../pool.cuh"
#include "base.cuh"
#include "pool.h"

namespace spira {

template <numeric format, typename W>
SPIRA_API status net_op_run(net_op_pool, const net_launch<W> *a) {
    const pool_args args = net_pool_args(a->plan, a->layer, a->run);
    return net_dispatch<format>(
        args.type, [&](auto type) { return pool<decltype(type)::value>(&args, a->stream); });
}

} // namespace spira

#endif
