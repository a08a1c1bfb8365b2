// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/support/net_plans.h: small tables of layers and plans of them, for the host tests of
// networks.
#ifndef SPIRA_TESTS_NET_PLANS_H
#define SPIRA_TESTS_NET_PLANS_H

#include "reference_net.h"

using namespace spira;
using networks::network;

[[maybe_unused]] static net_limits limits_make(int32_t voxels, int channels) {
    net_limits limits = {};
    limits.voxels = voxels;
    limits.channels = channels;
    return limits;
}

// Four layers at strides 1, 2, 2 and 1, without a fault.
[[maybe_unused]] static void network_plain(network *n) {
    networks::network_begin(n, 4);
    networks::network_conv(n, "first", net_input, 8, 3, 1);
    networks::network_conv(n, "down", 0, 8, 2, 2);
    networks::network_conv(n, "coarse", 1, 8, 3, 1);
    networks::network_conv(n, "up", 2, 8, 2, 2);
    n->layers[3].transposed = true;
}

[[maybe_unused]] static net_limits graph_limits(const network *n, triple extent, int batch) {
    net_limits limits = limits_make(100, n->input_channels);
    limits.grid.extent = extent;
    limits.batch = batch;
    return limits;
}

[[maybe_unused]] static status plan_graph(const network *n, triple extent, int batch,
                                          net_plan *plan) {
    const net_limits limits = graph_limits(n, extent, batch);
    return net_plan_sets(n->layers, n->count, &limits, false, plan);
}

// What is wrong with a table: the layer at fault, words of the text, and how to plant it.
struct fault {
    int layer;
    const char *words;
    void (*plant)(net_layer *l);
    const char *file;
    int line;
};

#define FAULT(layer, words, ...)                                                                   \
    fault {                                                                                        \
        layer, words, [](net_layer *l) { __VA_ARGS__; }, __FILE__, __LINE__                        \
    }

// A table is refused for a fault.
[[maybe_unused]] static void check_fault(const network *n, const fault &f) {
    net_plan plan;
    const status s = plan_graph(n, {21, 22, 23}, 2, &plan);
    char text[256];
    snprintf(text, sizeof text, "layer %d, \"%s\": got %d, layer %d, \"%s\"", f.layer, f.words,
             (int)s.code, (int)s.detail, s.subject);
    test_check(s.code == status_layer && s.detail == f.layer && strstr(s.subject, f.words), f.file,
               f.line, text);
}

// Plants faults in a good table, one after the other.
[[maybe_unused]] static void check_faults(void (*make)(network *n),
                                          std::initializer_list<fault> faults) {
    for (const fault &f : faults) {
        network n;
        net_plan plan;
        make(&n);
        CHECK_OK(plan_graph(&n, {21, 22, 23}, 2, &plan));
        f.plant(n.layers);
        check_fault(&n, f);
    }
}

// The first half of a host plan.
[[maybe_unused]] static status plan_sets(const network *n, net_plan *plan) {
    net_limits limits = limits_make(100, n->input_channels);
    return net_plan_sets(n->layers, n->count, &limits, false, plan);
}

#endif
