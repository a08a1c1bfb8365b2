// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/net/ops/base.cuh: what an operation of a layer does on the GPU. `format` is the number
// format that it is compiled for; numeric_i8: int8 and fp16, which layers beside int8 ones have;
// net_i8_beside: int8 and another format of these.
#ifndef SPIRA_NET_OPS_BASE_CUH
#define SPIRA_NET_OPS_BASE_CUH

#include "../../status.cuh"
#include "base.h"

#include <type_traits>

namespace spira {

// The format of functions for networks with int8 layers, whose others are in `floats`.
SPIRA_API constexpr numeric net_i8_beside(numeric floats) {
    return floats == numeric_f16 ? numeric_i8 : (numeric)(numeric_i8 + 1 + floats);
}

// Whether functions of a format compute int8 layers.
SPIRA_API constexpr bool net_has_i8(numeric format) {
    return format >= numeric_i8;
}

// The format of the other layers.
template <numeric format>
constexpr numeric net_float = format == numeric_i8 ? numeric_f16
                              : net_has_i8(format) ? (numeric)(format - numeric_i8 - 1)
                                                   : format;

// Returns body(constant) of the format that an operation on features of a type is compiled for.
template <numeric format, typename F>
SPIRA_API status net_dispatch(numeric type, F body) {
    if constexpr (net_has_i8(format)) {
        if (type == numeric_i8) {
            return body(std::integral_constant<numeric, numeric_i8>());
        }
    }
    return body(std::integral_constant<numeric, net_float<format>>());
}

// One layer of a run.
//
// programmatic  the launch before this one on the stream is a layer too, and no other stream has
//               been waited for since
template <typename W>
struct net_launch {
    const net_plan *plan;
    int layer;
    const net_run_args<W> *run;
    bool programmatic;
    cudaStream_t stream;
};

// Bytes of scratch.
template <typename W>
SPIRA_API status net_op_scratch(net_op_base, const net_plan *, int, size_t *bytes) {
    *bytes = 0;
    return status_success();
}

// Makes the set of a layer that opens a stage. scratch: net_op_scratch
template <numeric format, typename W>
SPIRA_API status net_op_grow(net_op_base, const net_launch<W> *) {
    return status_success();
}

template <numeric format, typename W>
SPIRA_API status net_op_run(net_op_base, const net_launch<W> *a) {
    return net_fault("op (an unknown operation)", a->layer);
}

// ---- parameters ---------------------------------------------------------------------------------

// Bytes of the packed weights.
SPIRA_API status net_op_packed_bytes(net_op_base, const net_plan *, int, size_t *bytes) {
    *bytes = 0;
    return status_success();
}

// The tag that they have.
SPIRA_API conv_weights_tag net_op_packed_tag(net_op_base, const net_plan *, int) {
    return {};
}

// Packs the weights to the bytes of net_op_packed_bytes.
template <numeric format>
SPIRA_API status net_op_pack(net_op_base, const net_plan *, int, const conv_weights *,
                             cudaStream_t) {
    return status_success();
}

} // namespace spira

#endif
