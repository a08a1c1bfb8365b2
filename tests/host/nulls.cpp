// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/host/nulls.cpp: no function reads through a null pointer: each argument by itself is null,
// then all of them, and the call is refused. A crash fails the test with its signal.
#include "../support/test.h"

#include "../../spira/blob.h"
#include "../../spira/conv_grad.h"
#include "../../spira/conv_group.h"
#include "../../spira/conv_i8.h"
#include "../../spira/conv_pairs.h"
#include "../../spira/dense.h"
#include "../../spira/downsample.h"
#include "../../spira/exchange.h"
#include "../../spira/gate.h"
#include "../../spira/join.h"
#include "../../spira/net.h"
#include "../../spira/net_blob.h"
#include "../../spira/order.h"
#include "../../spira/pool.h"
#include "../../spira/search.h"
#include "../../spira/tune.h"
#include "../../spira/voxel_features.h"

using namespace spira;

namespace {

// Zeros behind every pointer that is not null: structs without anything in them.
alignas(256) char zeros[1 << 20];

template <typename T>
T given(T *, bool) {
    return T();
}

template <typename T>
T *given(T **, bool null) {
    return null ? nullptr : (T *)zeros;
}

// Calls f with null as argument `null` (-1: all pointers are).
template <typename... A, size_t... at>
status call(status (*f)(A...), int null, std::index_sequence<at...>) {
    memset(zeros, 0, sizeof zeros);
    return f(given((std::decay_t<A> *)nullptr, null < 0 || null == (int)at)...);
}

template <typename... A>
void refuses(const char *name, status (*f)(A...)) {
    const bool pointer[] = {std::is_pointer<std::decay_t<A>>::value...};
    for (int null = -1; null < (int)sizeof...(A); ++null) {
        if (null < 0 || pointer[null]) {
            const status s = call(f, null, std::index_sequence_for<A...>());
            char text[160];
            snprintf(text, sizeof text, "%s, argument %d null: %s (%d)", name, null,
                     s.subject ? s.subject : "?", (int)s.code);
            test_check(status_failed(s) && s.subject && *s.subject, __FILE__, __LINE__, text);
        }
    }
}

#define REFUSES(...) refuses(#__VA_ARGS__, __VA_ARGS__)

} // namespace

TEST(nulls_are_refused_by_host_functions) {
    REFUSES(blob_open);
    REFUSES(blob_write_end);
    REFUSES(conv_shape_check);
    REFUSES(conv_quantisation_check);
    REFUSES(conv_i8_steps_host);
    REFUSES(conv_i8_weights_host);
    REFUSES(conv_i8_host);
    REFUSES(conv_sum_host<float>);
    REFUSES(conv_host);
    REFUSES(conv_grad_weights_host);
    REFUSES(conv_grad_weight_host<float>);
    REFUSES(conv_grad_bias_host<float>);
    REFUSES(conv_group_shape_check);
    REFUSES(conv_group_host);
    REFUSES(conv_group_grad_weight_host);
    REFUSES(conv_pairs_host<float>);
    REFUSES(dense_bytes);
    REFUSES(dense_host<uint32_t>);
    REFUSES(dense_grad_host<uint32_t>);
    REFUSES(downsample_host<uint64_t>);
    REFUSES(weight_reorder);
    REFUSES(exchange_host);
    REFUSES(expand_out);
    REFUSES(expand_need);
    REFUSES(expand_host_workspace<uint32_t>);
    REFUSES(expand_host<uint32_t>);
    REFUSES(gate_host);
    REFUSES(gate_grad_host);
    REFUSES(join_host_workspace<uint32_t>);
    REFUSES(join_host<uint32_t>);
    REFUSES(join_sum_host);
    REFUSES(join_sum_grad_host);
    REFUSES(map_build_host<uint32_t>);
    REFUSES(map_build_forms_host<uint32_t>);
    REFUSES(map_build_lists_host<uint32_t>);
    REFUSES(map_count_host);
    REFUSES((status(*)(const net_layer *, int, const expand_grid *, word_need *))net_need);
    REFUSES(net_plan_host<uint32_t>);
    REFUSES(net_run_host<uint32_t>);
    REFUSES(net_sets_host<uint32_t>);
    REFUSES(net_load_read);
    REFUSES(net_params_check);
    REFUSES(net_params_steps);
    REFUSES(net_blob_ranges);
    REFUSES(net_blob_bytes);
    REFUSES(net_blob_write);
    REFUSES(kernel_check);
    REFUSES(order_build_host);
    REFUSES(pool_host);
    REFUSES(pool_global_host<uint32_t>);
    REFUSES(pool_grad_host);
    REFUSES(pool_global_grad_host<uint32_t>);
    REFUSES(search_check);
    REFUSES(voxel_range);
    REFUSES(voxel_bounds);
    REFUSES(voxelize_host<uint32_t>);
    REFUSES(voxel_shift_host);
    REFUSES(voxel_features_host<uint32_t>);
    REFUSES(voxel_features_grad_host);
    REFUSES(word_fit);
}
