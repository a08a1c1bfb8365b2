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
        return net_dispatch<format>(args.type, [&](auto from) {
            constexpr numeric in = decltype(from)::value;
            constexpr numeric own = in == numeric_tf32 ? numeric_f32 : in;
            constexpr numeric floats =
                net_float<format> == numeric_tf32 ? numeric_f32 : net_float<format>;
            if (in == numeric_i8 && args.out_type == floats) {
                return dense<W, in, floats>(gpu, &args, a->stream);
            }
            return args.out_type == numeric_f32 ? dense<W, in, numeric_f32>(gpu, &args, a->stream)
                                                : dense<W, in, own>(gpu, &args, a->stream);
        });
    }
}

} // namespace spira

#endif
