// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/host/net_graph.cpp: net/sets.h and net/need.h: how planning derives, shares and bounds the
// sets of layers with rules of their own, and what it refuses. net_sets.cpp runs them.
#include "../support/net_plans.h"

namespace {

const expand_grid unlimited = {};

// A strided layer of spconv behind a submanifold one, a submanifold one, and back.
void network_expanded(network *n) {
    networks::network_begin(n, 4);
    networks::network_conv(n, "first", net_input, 8, 3, 1);
    networks::network_down(n, "down", 0, 8, 3, 2, 1);
    networks::network_conv(n, "coarse", 1, 8, 3, 1);
    networks::network_conv(n, "up", 2, 8, 3, 2);
    n->layers[3].transposed = true;
}

// Two levels, joined, and a dense map of them.
void network_joined(network *n) {
    networks::network_begin(n, 4);
    networks::network_down(n, "down1", net_input, 8, 3, 2, 1);
    networks::network_down(n, "down2", 0, 8, 3, 2, 1);
    networks::network_add(n, "join", net_layer_join("", 0, 1));
    networks::network_add(n, "dense", net_layer_dense("", 2));
}

} // namespace

// ---- what is refused ----------------------------------------------------------------------------

TEST(net_graph_names_the_strided_layer_at_fault) {
    check_faults(network_expanded, {
        FAULT(1, "rule (an unknown", l[1].rule = (net_rule)(net_rule_generate + 1)),
            FAULT(1, "rule (an unknown", l[1].rule = (net_rule)-1),
            FAULT(0, "padding (without", l[0].padding.z = 1),
            FAULT(1, "padding (without", l[1].rule = net_rule_floor),
            FAULT(1, "padding", l[1].padding.y = -1),
            FAULT(1, "padding", l[1].padding.y = (1 << 20) + 1),
            FAULT(1, "smaller than the kernel", l[1].size.x = 3; l[1].dilation.x = 12),
            FAULT(1, "smaller than the kernel", l[1].dilation = {1, 1, 13}),
            FAULT(1, "a stride beyond 2^20", l[1].stride.x = (1 << 20); l[0].rule = net_rule_expand;
                  l[0].padding = {1, 1, 1}; l[0].stride.x = 2),
            // An inverse layer goes back through the kernel that made the set, and no other.
            FAULT(3, "inverse", l[3].size = {2, 2, 2}), FAULT(3, "inverse", l[3].dilation.y = 2),
            FAULT(3, "inverse", l[3].stride.z = 1), FAULT(3, "inverse", l[3].source = net_from(0)),
            // A grid that a padding has moved: 3 voxels of the input before its origin.
            FAULT(2, "has moved", l[1].padding.x = 4; l[2].stride = {2, 2, 2}),
            FAULT(2, "source2", l[2].source2 = net_from(0)),
            FAULT(2, "residual", l[2].residual = net_from(0)),
    });
}

TEST(net_graph_names_the_join_or_dense_at_fault) {
    check_faults(network_joined, {
        FAULT(2, "does not come before it", l[2].source2 = net_from(2)),
            FAULT(2, "no layer", l[2].source2 = net_from(-3)),
            FAULT(2, "no layer", l[2].source4 = net_from(-3)),
            FAULT(2, "axis", l[2].axis = (join_axis)4), FAULT(2, "axis", l[2].axis = (join_axis)-1),
            FAULT(2, "different channels", l[1].channels = 9),
            FAULT(2, "different lattices", l[1].padding.x = 0),
            FAULT(2, "different lattices", l[1].source = net_from(net_input); l[1].stride.y = 3),
            FAULT(3, "channels", l[3].channels = 8), FAULT(3, "order", l[3].order = (dense_order)2),
    });
    network n;
    net_plan plan;
    network_joined(&n);
    CHECK_OK(plan_graph(&n, {21, 22, 23}, 2, &plan));
    for (triple extent : {triple{0, 22, 23}, triple{21, 0, 23}, triple{21, 22, 0}}) {
        const status s = plan_graph(&n, extent, 2, &plan);
        CHECK(s.code == status_layer && s.detail == 3 && strstr(s.subject, "without an extent"));
    }
    const status s = plan_graph(&n, {21, 22, 23}, 0, &plan);
    CHECK(s.code == status_layer && s.detail == 3 && strstr(s.subject, "without a batch size"));
    networks::network_add(&n, "behind", net_layer_dense("", 3));
    const status t = plan_graph(&n, {21, 22, 23}, 2, &plan);
    CHECK(t.code == status_layer && t.detail == 4 && strstr(t.subject, "reads a dense output"));
}

TEST(net_graph_refuses_grids) {
    network n;
    net_plan plan;
    network_expanded(&n);
    net_limits good = graph_limits(&n, {21, 22, 23}, 2);
    REQUIRE_OK(net_plan_sets(n.layers, n.count, &good, false, &plan));
    for (int bad : {-1, INT32_MAX}) {
        net_limits l = good;
        l.grid.extent.y = bad;
        CHECK_STATUS(net_plan_sets(n.layers, n.count, &l, false, &plan), status_bad_size);
        l = good;
        l.batch = bad;
        CHECK_STATUS(net_plan_sets(n.layers, n.count, &l, false, &plan), status_bad_size);
    }
    for (int bad : {INT32_MIN, INT32_MAX}) {
        net_limits l = good;
        l.grid.origin.z = bad;
        CHECK_STATUS(net_plan_sets(n.layers, n.count, &l, false, &plan), status_bad_size);
    }
    word_need need = {};
    CHECK_STATUS(net_need(n.layers, n.count, (const expand_grid *)nullptr, &need),
                 status_null_pointer);
    CHECK_STATUS(net_need(n.layers, n.count, (const net_limits *)nullptr, &need),
                 status_null_pointer);
    CHECK_STATUS(net_need(n.layers, n.count, &unlimited, nullptr), status_null_pointer);
}

// ---- sharing ------------------------------------------------------------------------------------

TEST(net_graph_shares_what_is_derived_alike) {
    const struct { // two strided layers of the input, the second one changed
        int sets, maps;
        void (*change)(net_layer *l);
    } cases[] = {
        {2, 1, [](net_layer *) {}},
        {2, 1, [](net_layer *l) { l->channels = 5; }},
        {3, 2, [](net_layer *l) { l->size.x = 2; }},
        {3, 2, [](net_layer *l) { l->stride.y = 3; }},
        {3, 2, [](net_layer *l) { l->padding.z = 0; }},
        {3, 2, [](net_layer *l) { l->dilation.z = 2; }},
        {3, 2,
         [](net_layer *l) {
             l->rule = net_rule_floor, l->padding = {0, 0, 0};
         }},
        {3, 2, [](net_layer *l) { l->source = net_from(0); }},
        // back to the input, by the same kernel
        {2, 2, [](net_layer *l) { l->source = net_from(0), l->transposed = true; }},
    };
    for (const auto &c : cases) {
        network n;
        net_plan plan;
        networks::network_begin(&n, 4);
        networks::network_down(&n, "one", net_input, 8, 3, 2, 1);
        networks::network_down(&n, "two", net_input, 8, 3, 2, 1);
        c.change(n.layers + 1);
        CHECK_OK(plan_graph(&n, {21, 22, 23}, 1, &plan));
        CHECK_EQUAL(plan.sets, c.sets);
        CHECK_EQUAL(plan.maps, c.maps);
    }
    network n;
    net_plan plan;
    network_joined(&n);
    networks::network_add(&n, "same", net_layer_join("", 0, 1));
    networks::network_add(&n, "other order", net_layer_join("", 1, 0));
    networks::network_add(&n, "flat", net_layer_join("", 0, 1));
    n.layers[6].axis = join_axis_z;
    REQUIRE_OK(plan_graph(&n, {21, 22, 23}, 1, &plan));
    CHECK_EQUAL(plan.step[2].set, plan.step[4].set);
    CHECK(plan.step[2].set != plan.step[5].set && plan.step[2].set != plan.step[6].set);
    CHECK_EQUAL(plan.sets, 6);
}

// ---- grids, bounds, capacities ------------------------------------------------------------------

TEST(net_graph_grids) {
    network n;
    net_plan plan;
    networks::network_begin(&n, 4);
    networks::network_down(&n, "down", net_input, 8, 3, 2, 1);
    networks::network_down(&n, "moved", 0, 8, 3, 2, 0);
    networks::network_down_z(&n, "out", 1, 8);
    networks::network_add(&n, "flat", net_layer_join("", 2, net_none));
    n.layers[3].axis = join_axis_z;
    net_limits limits = graph_limits(&n, {41, 40, 39}, 1);
    limits.grid.origin = {5, 0, -7};
    REQUIRE_OK(net_plan_sets(n.layers, n.count, &limits, false, &plan));
    const net_set *s = plan.set;
    CHECK(triple_equal(s[1].grid.origin, {5, 0, -7}) &&
          triple_equal(s[1].grid.extent, {21, 20, 20}) && triple_equal(s[1].stride, {2, 2, 2}));
    CHECK(triple_equal(s[2].grid.origin, {7, 2, -5}) &&
          triple_equal(s[2].grid.extent, {10, 9, 9}) && triple_equal(s[2].stride, {4, 4, 4}));
    CHECK(triple_equal(s[3].grid.origin, {7, 2, -1}) &&
          triple_equal(s[3].grid.extent, {10, 9, 4}) && triple_equal(s[3].stride, {4, 4, 8}));
    CHECK(triple_equal(s[4].grid.origin, {7, 2, -1}) && triple_equal(s[4].grid.extent, {10, 9, 1}));
}

// What a network without an extent needs beyond the bounds of its input, and with one.
TEST(net_graph_need) {
    network n;
    network_expanded(&n);
    word_need need = {};
    need.lo = {-3, 0, 10};
    need.hi = {20, 30, 40};
    REQUIRE_OK(net_need(n.layers, n.count, &need));
    CHECK(triple_equal(need.lo, {-4, -1, 9}) && triple_equal(need.hi, {21, 31, 41}));
    CHECK(triple_equal(need.stride, {2, 2, 2}) && triple_equal(need.reach, {2, 2, 2}));
    expand_grid grid = {{-3, 0, 10}, {24, 31, 0}};
    need.lo = {99, 99, 10};
    need.hi = {99, 99, 40};
    REQUIRE_OK(net_need(n.layers, n.count, &grid, &need));
    CHECK(triple_equal(need.lo, {-3, 0, 9}) && triple_equal(need.hi, {20, 30, 41}));
    // A set behind a second path is as wide as that path makes it.
    networks::network_down(&n, "wider", 0, 8, 5, 1, 2);
    need.lo = {0, 0, 0};
    need.hi = {9, 9, 9};
    REQUIRE_OK(net_need(n.layers, n.count, &need));
    CHECK(triple_equal(need.lo, {-2, -2, -2}) && triple_equal(need.hi, {11, 11, 11}));
    // A dense map needs its extent in the plan alone.
    network_joined(&n);
    REQUIRE_OK(net_need(n.layers, n.count, &need));
}

TEST(net_graph_names_the_layer_beyond_its_word) {
    network n;
    networks::network_begin(&n, 4);
    networks::network_conv(&n, "first", net_input, 8, 3, 1);
    networks::network_down(&n, "down", 0, 8, 3, 2, 2);
    networks::network_conv(&n, "coarse", 1, 8, 3, 1);
    net_limits limits = graph_limits(&n, {60, 60, 60}, 1);
    net_plan plan;
    word_need need = {};
    word_layout layout;
    need.batches = 1;
    REQUIRE_OK(net_need(n.layers, n.count, &limits.grid, &need));
    CHECK(triple_equal(need.lo, {-1, -1, -1})); // the padding moves the origin
    REQUIRE_OK(word_fit(&need, &layout));
    CHECK_OK(net_plan_host<uint32_t>(n.layers, n.count, &layout, &limits, &plan));
    need.batches = 3;
    REQUIRE_OK(word_fit(&need, &layout));
    CHECK_STATUS(net_plan_host<uint32_t>(n.layers, n.count, &layout, &limits, &plan),
                 status_bad_size);
    limits.batch = 4; // more are allowed
    CHECK_OK(net_plan_host<uint32_t>(n.layers, n.count, &layout, &limits, &plan));
    need.batches = 1;
    for (int axis = 0; axis < 6; ++axis) {
        word_need less = need;
        int *const bound[6] = {&less.lo.x, &less.lo.y, &less.lo.z,
                               &less.hi.x, &less.hi.y, &less.hi.z};
        *bound[axis] = axis < 3 ? 0 : 28; // high bounds fill their field: well below it
        word_layout tight;
        REQUIRE_OK(word_fit(&less, &tight));
        if (axis < 3) { // the stride's margin may have room for it
            int *const lo[3] = {&tight.lo.x, &tight.lo.y, &tight.lo.z};
            *lo[axis] = 0;
        }
        const status s = net_plan_host<uint32_t>(n.layers, n.count, &tight, &limits, &plan);
        CHECK(s.code == status_layer && s.detail == 1 && strstr(s.subject, "outside of the word"));
    }
}

// Standard capacities: see net.h.
TEST(net_graph_capacities) {
    network n;
    net_plan plan;
    networks::network_begin(&n, 4);
    networks::network_down(&n, "grows", net_input, 8, 3, 2, 1); // up to 8 times
    networks::network_down(&n, "tap", 0, 8, 1, 2, 0);           // touches one at most
    networks::network_add(&n, "join", net_layer_join("", 0, 1));
    networks::network_add(&n, "flat", net_layer_join("", 2, net_none));
    n.layers[3].axis = join_axis_z;
    networks::network_conv(&n, "floor", 0, 8, 2, 2);
    net_limits limits = limits_make(1000, 4);
    REQUIRE_OK(net_plan_sets(n.layers, n.count, &limits, false, &plan));
    const int32_t open[6] = {1000, 2000, 2000, 2000, 2000, 2000};
    for (int s = 0; s < 6; ++s) {
        CHECK_EQUAL(plan.set[s].capacity, open[s]);
    }
    limits.grid.extent = {15, 15, 15}; // 8^3, 4^3, 8^3, 8^2 cells in each of two batches
    limits.batch = 2;
    REQUIRE_OK(net_plan_sets(n.layers, n.count, &limits, false, &plan));
    const int32_t closed[6] = {1000, 1024, 128, 1024, 128, 1024};
    for (int s = 0; s < 6; ++s) {
        CHECK_EQUAL(plan.set[s].capacity, closed[s]);
    }
    n.layers[0].capacity = 5000;
    n.layers[3].capacity = 7;
    REQUIRE_OK(net_plan_sets(n.layers, n.count, &limits, false, &plan));
    CHECK_EQUAL(plan.set[1].capacity, 5000);
    CHECK_EQUAL(plan.set[4].capacity, 7);
    // A layer of the same set may say the same, and nothing else.
    networks::network_conv(&n, "same set", 0, 8, 3, 1);
    n.layers[5].capacity = 5000;
    REQUIRE_OK(net_plan_sets(n.layers, n.count, &limits, false, &plan));
    for (int32_t capacity : {4999, -1, INT32_MAX}) {
        n.layers[5].capacity = capacity;
        const status s = net_plan_sets(n.layers, n.count, &limits, false, &plan);
        CHECK(s.code == status_layer && s.detail == 5 && strstr(s.subject, "capacity"));
    }
    n.layers[5].capacity = 0;
    int32_t all[net_sets_max] = {1, 11, 12, 13, 14, 15};
    net_capacities(&plan, all, n.layers);
    REQUIRE_OK(net_plan_sets(n.layers, n.count, &limits, false, &plan));
    for (int s = 1; s < 6; ++s) {
        CHECK_EQUAL(plan.set[s].capacity, all[s]);
    }
    limits = limits_make(INT32_MAX / 2, 4);
    n.layers[0].capacity = 1;
    REQUIRE_OK(net_plan_sets(n.layers, 1, &limits, false, &plan));
}
