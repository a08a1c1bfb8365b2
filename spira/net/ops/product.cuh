// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/net/ops/product.cuh: the product of two layers on the GPU.
#ifndef SPIRA_NET_OPS_PRODUCT_CUH
#define SPIRA_NET_OPS_PRODUCT_CUH

#include "../../base/launch.cuh"
#include "../../base/wide.cuh"
#include "base.cuh"
#include "product.h"

namespace spira {

enum { net_product_threads = 256 };

// A thread for 8 channels of a row. wide: see wide_read_channels.
template <typename E>
SPIRA_KERNEL void __launch_bounds__(net_product_threads)
    net_product_kernel(net_product_args args, bool wide) {
    const int groups = (int)ceil_div(args.channels, 8);
    const int64_t at = (int64_t)blockIdx.x * net_product_threads + threadIdx.x;
    const int64_t row = at / groups, from = row * args.channels;
    const int first = (int)(at % groups) * 8;
    pdl_wait();
    if (row >= count_clamp(*args.count, args.capacity)) {
        return;
    }
    wide_elements<E, 8> a, b;
    wide_read_channels((const E *)args.in + from, args.channels, first, wide, a);
    wide_read_channels((const E *)args.in2 + from, args.channels, first, wide, b);
#pragma unroll
    for (int k = 0; k < 8; ++k) {
        a.at[k] = element_from_float<E>(element_to_float(a.at[k]) * element_to_float(b.at[k]));
    }
    wide_write_channels(a, (E *)args.out + from, args.channels, first, wide);
}

template <numeric format, typename W>
SPIRA_API status net_op_run(net_op_product, const net_launch<W> *a) {
    const net_product_args args = net_product_args_of(a->plan, a->layer, a->run);
    const int64_t blocks =
        ceil_div(args.capacity * ceil_div(args.channels, 8), net_product_threads);
    SPIRA_REQUIRE(blocks <= INT32_MAX, status_bad_size, "capacity * channels", blocks);
    const bool wide = args.channels % 8 == 0 && wide_aligned(args.in, 16) &&
                      wide_aligned(args.in2, 16) && wide_aligned(args.out, 16);
    return numeric_dispatch<net_float<format>>(args.type, [&](auto tag) {
        return kernel_launch(net_product_kernel<typename decltype(tag)::element>,
                             {(unsigned)blocks, net_product_threads, a->stream, "product",
                              a->programmatic && a->plan->gpu.programmatic},
                             args, wide);
    });
}

} // namespace spira

#endif
