// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/support/net_tables.h: small networks with rules of their own for their sets: for host and
// GPU tests.
#ifndef SPIRA_TESTS_NET_TABLES_H
#define SPIRA_TESTS_NET_TABLES_H

#include "../../examples/networks.h"

namespace tables {

using networks::network;
using namespace spira;

// The head of VoxelBackBone8x at a small scale: strided, dilating layers with paddings of their
// own, submanifold ones between them, a dense map.
[[maybe_unused]] static void network_encoder(network *n) {
    networks::network_begin(n, 3);
    int at = networks::network_conv(n, "in", net_input, 4, 3, 1);
    at = networks::network_down(n, "down1", at, 5, 3, 2, 1);
    at = networks::network_conv(n, "level1", at, 5, 3, 1);
    at = networks::network_down(n, "down2", at, 6, 3, 2, 1);
    n->layers[at].padding.z = 0;
    at = networks::network_conv(n, "level2", at, 6, 3, 1);
    n->layers[at].residual = net_from(at - 1);
    at = networks::network_down_z(n, "out", at, 7);
    networks::network_add(n, "dense", net_layer_dense("", at));
}

// VoxelNeXt at a small scale: three levels, joined without z; then two-dimensional layers, the
// first of which dilates.
[[maybe_unused]] static void network_flat(network *n) {
    networks::network_begin(n, 3);
    int level[3], at = networks::network_conv(n, "in", net_input, 4, 3, 1);
    for (int s = 0; s < 3; ++s) {
        at = networks::network_down(n, "down", at, 4, 3, 2, 1);
        level[s] = at = networks::network_conv(n, "level", at, 4, 3, 1);
    }
    at = networks::network_add(n, "flatten", net_layer_join("", level[0], level[1]));
    n->layers[at].source3 = net_from(level[2]);
    n->layers[at].axis = join_axis_z;
    at = networks::network_down(n, "wide", at, 5, 3, 1, 1);
    n->layers[at].size.z = 1;
    n->layers[at].padding.z = 0;
    at = networks::network_conv(n, "head", at, 6, 3, 1);
    n->layers[at].size.z = 1;
}

// Floors of an expanded set, and back; a set of the same stride by another rule beside it; their
// union; back to the input; pooling by spconv's rule.
[[maybe_unused]] static void network_mixed(network *n) {
    networks::network_begin(n, 3);
    int wide = networks::network_down(n, "expanded", net_input, 8, 3, 2, 1);
    int low = networks::network_conv(n, "floor", wide, 16, 2, 2);
    int up = networks::network_conv(n, "back", low, 8, 2, 2);
    n->layers[up].transposed = true;
    n->layers[up].residual = net_from(wide);
    int other = networks::network_conv(n, "floored", net_input, 8, 3, 2);
    networks::network_conv(n, "beside", other, 4, 3, 1);
    int both = networks::network_add(n, "both", net_layer_join("", up, other));
    int top = networks::network_conv(n, "top", up, 16, 3, 2);
    n->layers[top].transposed = true;
    networks::network_conv(n, "end", top, 8, 3, 1);
    int pool = networks::network_add(n, "pool", net_layer_pool("", net_pool_max, wide, 3, 3));
    n->layers[pool].rule = net_rule_expand;
    n->layers[pool].padding = {1, 1, 1};
    networks::network_conv(n, "both ends", both, 8, 3, 1);
}

// A gate: the product of two branches, one of which is concatenated behind it.
[[maybe_unused]] static void network_gated(network *n) {
    networks::network_begin(n, 3);
    int at = networks::network_conv(n, "in", net_input, 12, 3, 1);
    const int gate = networks::network_conv(n, "gate", at, 12, 1, 1);
    n->layers[gate].act = activation_silu;
    at = networks::network_add(n, "gated", net_layer_product("", at, gate));
    const int down = networks::network_conv(n, "down", at, 16, 2, 2);
    n->layers[down].source2 = net_from(gate);
    const int square = networks::network_add(n, "square", net_layer_product("", down, down));
    networks::network_conv(n, "out", square, 8, 3, 1);
}

// Sets from features: pruned by a threshold, divided, pruned to the largest; floors and unions of
// such sets, and the way from parents to children.
[[maybe_unused]] static void network_grown(network *n) {
    networks::network_begin(n, 3);
    int at = networks::network_conv(n, "in", net_input, 16, 3, 1);
    const int score = networks::network_add(n, "score", net_layer_conv("", at, 2, 1, 1));
    const int kept = networks::network_add(n, "kept", net_layer_prune("", at, score));
    n->layers[kept].channel = 1;
    n->layers[kept].threshold = -0.25f;
    n->layers[kept].or_equal = true;
    at = networks::network_add(n, "norm", net_layer_norm("", kept, 1e-5f));
    n->layers[at].act = activation_silu;
    n->layers[at].residual = net_from(kept);
    at = networks::network_conv(n, "floor", at, 16, 2, 2);
    const int down = networks::network_add(n, "down", net_layer_prune("", at, at));
    n->layers[down].threshold = 0.125f;
    const int logits = networks::network_add(n, "logits", net_layer_conv("", down, 8, 3, 1));
    const int wide = networks::network_conv(n, "wide", down, 40, 3, 1);
    const int child = networks::network_add(n, "child", net_layer_children("", wide, logits));
    at = networks::network_add(n, "rms", net_layer_norm("", child, 1e-6f));
    n->layers[at].op = net_norm_rms;
    n->layers[at].norm = false;
    const int skip = networks::network_add(n, "skip", net_layer_children("", down, logits));
    n->layers[skip].repeat = 3;
    at = networks::network_conv(n, "among", at, 6, 3, 1);
    n->layers[at].residual = net_from(skip);
    const int up = networks::network_conv(n, "up", down, 5, 2, 2);
    n->layers[up].transposed = true;
    const int few = networks::network_add(n, "few", net_layer_prune("", at, up));
    n->layers[few].most = 70;
    n->layers[few].channel = 4;
    const int low = networks::network_conv(n, "low", few, 6, 3, 2);
    const int all = networks::network_add(n, "all", net_layer_children("", wide, net_none));
    const int both = networks::network_add(n, "both", net_layer_join("", all, all));
    n->layers[both].source2 = {};
    n->layers[both].axis = join_axis_z;
    const int back = networks::network_conv(n, "back", low, 6, 2, 2);
    n->layers[back].transposed = true;
    n->layers[back].residual = net_from(few);
    networks::network_add(n, "union", net_layer_join("", back, at));
    const int made = networks::network_conv(n, "generated", down, 4, 3, 2);
    n->layers[made].transposed = true;
    n->layers[made].rule = net_rule_generate;
    networks::network_conv(n, "among generated", made, 4, 3, 1);
    const int even = networks::network_conv(n, "generated by an even kernel", down, 4, 2, 2);
    n->layers[even].size = {2, 4, 1};
    n->layers[even].transposed = true;
    n->layers[even].rule = net_rule_generate;
    networks::network_conv(n, "among those", even, 4, 3, 1);
    networks::network_add(n, "again", net_layer_prune("", kept, kept));
    at = networks::network_conv(n, "of the input", net_input, 6, 3, 2);
    networks::network_conv(n, "end", back, 8, 3, 1);
}

// Generative layers in bounds, as the transposed layers of spconv.
[[maybe_unused]] static void network_bounded(network *n) {
    networks::network_begin(n, 4);
    const int down = networks::network_down(n, "down", net_input, 8, 3, 2, 1);
    const int made = networks::network_conv(n, "made", down, 6, 3, 2);
    n->layers[made].transposed = true;
    n->layers[made].rule = net_rule_generate;
    n->layers[made].padding = {1, 1, 1};
    networks::network_conv(n, "among them", made, 5, 3, 1);
    const int even = networks::network_conv(n, "by an even kernel", down, 4, 2, 2);
    n->layers[even].size = {2, 4, 3};
    n->layers[even].transposed = true;
    n->layers[even].rule = net_rule_generate;
    n->layers[even].padding = {0, 1, 2};
    networks::network_conv(n, "end", even, 4, 3, 1);
}

// Each voxel of stride 2 has the children that its own 8 channels choose, the largest of its input
// voxels; then the children prune themselves. The input says exactly what there is.
[[maybe_unused]] static void network_divided(network *n) {
    networks::network_begin(n, 8);
    int at = networks::network_add(n, "most", net_layer_pool("", net_pool_max, net_input, 2, 2));
    at = networks::network_add(n, "divided", net_layer_children("", at, at));
    at = networks::network_add(n, "pruned", net_layer_prune("", at, at));
    n->layers[at].threshold = 2;
    networks::network_conv(n, "end", at, 5, 3, 1);
}

// Depthwise and grouped layers, submanifold, strided and back, with epilogues; norms over groups.
[[maybe_unused]] static void network_grouped(network *n) {
    networks::network_begin(n, 4);
    const int in = networks::network_conv(n, "in", net_input, 24, 3, 1);
    const int even = networks::network_add(n, "even", net_layer_norm_groups("", in, 6, 1e-5f));
    n->layers[even].act = activation_relu;
    n->layers[even].residual = net_from(in);
    const int depthwise =
        networks::network_add(n, "depthwise", net_layer_group("", even, 24, 24, 5, 1));
    n->layers[depthwise].bias = true;
    n->layers[depthwise].residual = net_from(in);
    n->layers[depthwise].act = activation_gelu;
    const int down = networks::network_add(n, "down", net_layer_group("", depthwise, 40, 8, 2, 2));
    n->layers[down].norm = true;
    n->layers[down].act = activation_relu;
    const int instance =
        networks::network_add(n, "instance", net_layer_norm_groups("", down, 40, 1e-3f));
    n->layers[instance].norm = false;
    const int up = networks::network_add(n, "up", net_layer_group("", instance, 24, 4, 2, 2));
    n->layers[up].transposed = true;
    networks::network_conv(n, "out", up, 8, 3, 1);
}

// Grouped layers that a convolution for each group computes, where there is room for many voxels;
// one that none does, on the same map; a convolution beside them.
[[maybe_unused]] static void network_sliced(network *n) {
    networks::network_begin(n, 4);
    const int in = networks::network_conv(n, "in", net_input, 64, 3, 1);
    const int two = networks::network_add(n, "two", net_layer_group("", in, 96, 2, 3, 1));
    n->layers[two].norm = true;
    n->layers[two].act = activation_relu;
    const int few = networks::network_add(n, "few", net_layer_group("", two, 96, 6, 3, 1));
    n->layers[few].residual = net_from(two);
    const int down = networks::network_add(n, "down", net_layer_group("", few, 128, 2, 2, 2));
    n->layers[down].bias = true;
    n->layers[down].act = activation_silu;
    const int up = networks::network_add(n, "up", net_layer_group("", down, 96, 2, 2, 2));
    n->layers[up].transposed = true;
    n->layers[up].residual = net_from(two);
    networks::network_conv(n, "out", up, 8, 3, 1);
}

} // namespace tables

#endif
