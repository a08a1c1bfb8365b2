// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/net/ops/dense.cuh: dense maps as layers on the GPU.
#ifndef SPIRA_NET_OPS_DENSE_CUH
#define SPIRA_NET_OPS_DENSE_CUH

#include "../../dense.cuh"
#include "base.cuh"
#include "dense.h"

namespace spira {

template <numeric format, typename W>
SPIRA_API status net_op_run(net_op_dense, const net_launch<W> *a) {
    dense_args<W> args = net_dense_args(a->plan, a->layer, a->run);
    args.programmatic = a->programmatic;
    const device_info *gpu = &a->plan->gpu;
    if constexpr (format == numeric_any) {
        return dense<W>(gpu, &args, a->stream);
    } else { // the formats of net_op_type
        constexpr numeric own = format == numeric_tf32 ? numeric_f32 : format;
        return args.out_type == numeric_f32 ? dense<W, format, numeric_f32>(gpu, &args, a->stream)
                                            : dense<W, format, own>(gpu, &args, a->stream);
    }
}

} // namespace spira

#endif
