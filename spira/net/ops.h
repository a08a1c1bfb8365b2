// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/net/ops.h: the table of operations: which struct of ops/ has the functions of each net_op.
#ifndef SPIRA_NET_OPS_H
#define SPIRA_NET_OPS_H

#include "ops/children.h"
#include "ops/conv.h"
#include "ops/dense.h"
#include "ops/group.h"
#include "ops/join.h"
#include "ops/norm.h"
#include "ops/norm_groups.h"
#include "ops/pool.h"
#include "ops/product.h"
#include "ops/prune.h"

namespace spira {

// Returns f(the struct of an operation).
template <typename F>
SPIRA_API auto net_op_call(net_op op, F f) {
    switch (op) {
    case net_conv:
        return f(net_op_conv());
    case net_pool_max:
    case net_pool_average:
        return f(net_op_pool());
    case net_join:
        return f(net_op_join());
    case net_dense:
        return f(net_op_dense());
    case net_product:
        return f(net_op_product());
    case net_group:
        return f(net_op_group());
    case net_norm_layer:
    case net_norm_rms:
        return f(net_op_norm());
    case net_norm_groups:
        return f(net_op_norm_groups());
    case net_prune:
        return f(net_op_prune());
    case net_children:
        return f(net_op_children());
    }
    return f(net_op_unknown());
}

// Where a layer's parameters start.
SPIRA_API net_params net_params_of(const net_plan *p, int i) {
    return net_op_call(p->layers[i].op, [&](auto op) { return net_op_params(op, p, i); });
}

SPIRA_API bool net_op_known(net_op op) {
    return net_op_call(op, [](auto o) { return (bool)decltype(o)::known; });
}

SPIRA_API bool net_op_floats(net_op op) {
    return net_op_call(op, [](auto o) { return (bool)decltype(o)::floats; });
}

// Members that the operation of a layer has, of net_member.
SPIRA_API unsigned net_members_of(const net_layer *l) {
    return net_op_call(l->op, [](auto op) { return (unsigned)decltype(op)::members; });
}

} // namespace spira

#endif
