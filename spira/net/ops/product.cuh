// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/net/ops/product.cuh: the product of two layers on the GPU.
#ifndef SPIRA_NET_OPS_PRODUCT_CUH
#define SPIRA_NET_OPS_PRODUCT_CUH

#include "../../gate.cuh"
#include "base.cuh"
#include "product.h"

namespace spira {

template <numeric format, typename W>
SPIRA_API status net_op_run(net_op_product, const net_launch<W> *a) {
    return gate_run<net_float<format>, false>(net_product_args(a->plan, a->layer, a->run),
                                              a->stream, "product",
                                              a->programmatic && a->plan->gpu.programmatic);
}

} // namespace spira

#endif
