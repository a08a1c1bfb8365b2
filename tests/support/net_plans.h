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

// The first half of a host plan.
[[maybe_unused]] static status plan_sets(const network *n, net_plan *plan) {
    net_limits limits = limits_make(100, n->input_channels);
    return net_plan_sets(n->layers, n->count, &limits, false, plan);
}

#endif
