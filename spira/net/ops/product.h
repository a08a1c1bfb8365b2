// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/net/ops/product.h: the product of two layers, element by element, as a layer. (A gate is
// the product of features and a sigmoid or SiLU of others.)
#ifndef SPIRA_NET_OPS_PRODUCT_H
#define SPIRA_NET_OPS_PRODUCT_H

#include "../../gate.h"
#include "base.h"

namespace spira {

struct net_op_product : net_op_base {
    enum { members = net_member_source2, floats = true };
};

SPIRA_API status net_op_check(net_op_product, const net_plan *p, int i) {
    const net_layer *l = &p->layers[i];
    const int a = net_number(l->source), b = net_number(l->source2);
    if (b == net_none) {
        return net_fault("source2 (a product has two sources)", i);
    }
    return net_source_set(p, a) == net_source_set(p, b)
               ? status_success()
               : net_fault("source2 (of another set than source)", i);
}

SPIRA_API status net_op_shape(net_op_product, net_plan *p, int i) {
    SPIRA_TRY(net_op_shape(net_op_base(), p, i));
    return net_source_channels(p, net_number(p->layers[i].source2)) == p->step[i].channels
               ? status_success()
               : net_fault("source2 (of other channels than source)", i);
}

// A gate without activation.
template <typename W>
SPIRA_API gate_args net_product_args(const net_plan *p, int i, const net_run_args<W> *run) {
    gate_args args = net_args<gate_args>(p, i, run);
    args.gate = net_in(p, p->layers[i].source2, run);
    return args;
}

template <typename W>
SPIRA_API status net_op_run_host(net_op_product, const net_plan *p, int i,
                                 const net_run_args<W> *run) {
    const gate_args args = net_product_args(p, i, run);
    return gate_host(&args);
}

} // namespace spira

#endif
