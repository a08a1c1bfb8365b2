// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/support/node_blob.h: a blob of random weights of a network of networks.h, with ranges if
// it is to be int8.
#ifndef SPIRA_TESTS_NODE_BLOB_H
#define SPIRA_TESTS_NODE_BLOB_H

#include "test.h"

#include "../../examples/networks.h"
#include "../../spira/net_blob.h"

#include <memory>
#include <vector>

[[maybe_unused]] static std::vector<char> node_blob(const char *net, bool int8 = false) {
    const std::unique_ptr<networks::network> n(new networks::network);
    const std::unique_ptr<spira::net_plan> plan(new spira::net_plan);
    std::vector<char> memory;
    CHECK(networks::network_make(net, n.get()));
    if (int8) {
        spira::net_formats_i8(n->layers, n->count);
    }
    for (int i = 0; int8 && i < n->count; ++i) {
        n->layers[i].range = n->layers[i].op == spira::net_conv ? 4.0f : 0.0f;
    }
    spira::net_limits limits = {};
    limits.voxels = 1;
    limits.grid = n->grid;
    limits.batch = n->batch;
    limits.channels = n->input_channels;
    limits.type = spira::numeric_f32;
    CHECK_OK(spira::net_plan_sets(n->layers, n->count, &limits, false, plan.get()));
    std::vector<float> params((size_t)plan->params);
    networks::network_weights(plan.get(), 1, params.data());
    size_t size = 0;
    spira::blob blob = {};
    CHECK_OK(spira::net_blob_bytes(plan.get(), spira::numeric_f32, &size));
    memory.resize(size);
    CHECK_OK(spira::net_blob_write(plan.get(), params.data(), spira::numeric_f32, memory.data(),
                                   size, &blob));
    memory.resize((size_t)blob.bytes);
    return memory;
}

#endif
