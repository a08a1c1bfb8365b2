// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/host/net_plan.cpp: net.h and net/planning.h: what planning refuses, and the sets, maps and
// steps that it derives from a table.
#include "../support/net_plans.h"
#include "../support/net_tables.h"

// ---- planning -----------------------------------------------------------------------------------

TEST(net_plan_names_the_layer_at_fault) {
    check_faults(network_plain, {
        FAULT(0, "does not come before it", l[0].source = net_from(0)),
            FAULT(1, "does not come before it", l[1].source = net_from(2)),
            FAULT(2, "does not come before it", l[2].source2 = net_from(3)),
            FAULT(2, "does not come before it", l[2].residual = net_from(2)),
            FAULT(3, "does not come before it", l[3].source = net_from(INT32_MAX)),
            FAULT(1, "no layer", l[1].source = net_from(INT32_MIN)),
            FAULT(2, "no layer", l[2].source2 = net_from(-3)),
            FAULT(2, "no layer", l[2].residual = net_from(-3)),
            FAULT(0, "size.x", l[0].size.x = 16), FAULT(1, "size.y", l[1].size.y = 0),
            FAULT(2, "size.z", l[2].size.z = -1), FAULT(1, "stride.x", l[1].stride.x = 0),
            FAULT(3, "stride.z", l[3].stride.z = 0), FAULT(1, "stride.y", l[1].stride.y = -2),
            FAULT(1, "stride.y", l[1].stride.y = 1 << 21),
            FAULT(2, "dilation.z", l[2].dilation.z = 0),
            FAULT(0, "operation", l[0].op = (net_op)(net_group + 1)),
            FAULT(2, "operation", l[2].op = (net_op)-1), FAULT(0, "channels", l[0].channels = 0),
            FAULT(1, "channels", l[1].channels = -1), FAULT(1, "capacity", l[1].capacity = -1),
            FAULT(0, "capacity", l[0].capacity = 99), FAULT(1, "pairs", l[1].pairs = -1),
            FAULT(2, "format", l[2].format = (net_format)-1),
            FAULT(2, "format", l[2].format = (net_format)6), FAULT(0, "slope", l[0].slope = 0.1f),
            FAULT(0, "reads nothing", l[0].source = {}), FAULT(1, "reads nothing", l[1] = {}),
            FAULT(3, "channels", l[3].channels = conv_channels_max + 1),
            FAULT(1, "activation", l[1].act = activation_count),
            FAULT(1, "activation", l[1].act = (activation)-1),
            FAULT(2, "source2", l[2].source2 = net_from(0)),
            FAULT(2, "source2", l[2].source2 = net_from(net_input)),
            FAULT(2, "residual", l[2].residual = net_from(0)),
            FAULT(3, "residual", l[3].residual = net_from(net_input)),
            FAULT(2, "residual", l[2].channels = 9; l[2].residual = net_from(1)),
            FAULT(1, "residual", l[1].residual = net_from(0)),
            FAULT(0, "inverse", l[0].transposed = true; l[0].stride.x = 2),
            FAULT(3, "inverse", l[3].stride = {2, 2, 1}),
            FAULT(3, "inverse", l[3].stride = {3, 3, 3}),
            FAULT(3, "inverse", l[3].stride = {4, 4, 4}),
            FAULT(3, "inverse", l[1].stride = {4, 4, 4}),
    });
}

// A member that an operation does not have is refused by its name, not ignored.
TEST(net_plan_refuses_members_of_other_operations) {
    const int conv = 1 << net_conv, pools = 1 << net_pool_max | 1 << net_pool_average;
    const int join = 1 << net_join, dense = 1 << net_dense, product = 1 << net_product;
    const int even = 1 << net_norm_groups, prune = 1 << net_prune;
    const int norms = 1 << net_norm_layer | 1 << net_norm_rms | even;
    const int children = 1 << net_children, group = 1 << net_group;
    const struct {
        const char *name;
        int operations; // that have it
        void (*give)(net_layer *l);
    } members[] = {
        {"source2", conv | join | product | prune | children,
         [](net_layer *l) { l->source2 = net_from(0); }},
        {"source3", join, [](net_layer *l) { l->source3 = net_from(0); }},
        {"source4", join, [](net_layer *l) { l->source4 = net_from(net_input); }},
        {"channels", conv | group, [](net_layer *l) { l->channels = 8; }},
        {"size", conv | pools | group, [](net_layer *l) { l->size.y = 3; }},
        {"stride", conv | pools | group, [](net_layer *l) { l->stride.z = 1; }},
        {"dilation", conv | pools | group, [](net_layer *l) { l->dilation.x = 1; }},
        {"transposed", conv | pools | group, [](net_layer *l) { l->transposed = true; }},
        {"rule", conv | pools | group, [](net_layer *l) { l->rule = net_rule_expand; }},
        {"padding", conv | pools | group, [](net_layer *l) { l->padding.x = 1; }},
        {"bias", conv | group, [](net_layer *l) { l->bias = true; }},
        {"norm", conv | norms | group, [](net_layer *l) { l->norm = true; }},
        {"epsilon", norms, [](net_layer *l) { l->epsilon = 1; }},
        {"threshold", prune, [](net_layer *l) { l->threshold = 1; }},
        {"or_equal", prune | children, [](net_layer *l) { l->or_equal = true; }},
        {"channel", prune, [](net_layer *l) { l->channel = 1; }},
        {"most", prune, [](net_layer *l) { l->most = 1; }},
        {"repeat", children, [](net_layer *l) { l->repeat = 1; }},
        {"residual", conv | norms | group, [](net_layer *l) { l->residual = net_from(0); }},
        {"act", conv | norms | group, [](net_layer *l) { l->act = activation_relu; }},
        {"slope", 0, [](net_layer *l) { l->slope = 1; }},
        {"groups", group | even, [](net_layer *l) { l->groups = 2; }},
        {"pairs", conv, [](net_layer *l) { l->pairs = 1; }},
        {"axis", join, [](net_layer *l) { l->axis = join_axis_x; }},
        {"order", dense, [](net_layer *l) { l->order = dense_channels_last; }},
    };
    const net_layer good[] = {net_layer_conv("", 0, 8, 3, 1),
                              net_layer_pool("", net_pool_max, 0, 3, 1),
                              net_layer_pool("", net_pool_average, 0, 2, 2),
                              net_layer_join("", 0, net_none),
                              net_layer_dense("", 0),
                              net_layer_product("", 0, 0),
                              net_layer_norm("", 0, 1e-5f),
                              net_layer_norm_groups("", 0, 4, 1e-5f),
                              net_layer_prune("", 0, 0),
                              net_layer_children("", 0, net_none),
                              net_layer_group("", 0, 8, 4, 3, 1)};
    net_limits limits = limits_make(100, 4);
    limits.grid.extent = {20, 20, 20};
    limits.stride = {2, 2, 2};
    limits.batch = 1;
    for (const net_layer &base : good) {
        net_plan plan;
        net_layer layers[2] = {net_layer_conv("first", net_input, 8, 3, 1), base};
        REQUIRE_OK(net_plan_sets(layers, 2, &limits, false, &plan));
        for (const auto &m : members) {
            layers[1] = base;
            m.give(&layers[1]);
            const status s = net_plan_sets(layers, 2, &limits, false, &plan);
            const bool named = s.code == status_layer && s.detail == 1 &&
                               !strncmp(s.subject, m.name, strlen(m.name)) &&
                               strchr(s.subject, '(');
            if (!(m.operations >> base.op & 1)) {
                test_check(named, __FILE__, __LINE__, m.name);
            }
        }
    }
}

TEST(net_plan_names_the_set_from_features_at_fault) {
    check_faults(tables::network_grown, {
        FAULT(2, "no scores", l[2].source2 = {}), FAULT(2, "negative", l[2].most = -1),
            FAULT(2, "beside most", l[2].most = 5), FAULT(2, "channel", l[2].channel = 2),
            FAULT(2, "channel", l[2].channel = -1), FAULT(2, "finite", l[2].threshold = NAN),
            FAULT(5, "another set", l[5].source2 = net_from(1)),
            FAULT(3, "epsilon", l[3].epsilon = 0), FAULT(3, "epsilon", l[3].epsilon = -INFINITY),
            FAULT(3, "residual", l[3].residual = net_from(1)), FAULT(3, "slope", l[3].slope = 1),
            FAULT(9, "activation", l[9].act = activation_count),
            FAULT(8, "another set", l[8].source2 = net_from(0)),
            FAULT(8, "8 scores", l[8].source2 = net_from(7)),
            FAULT(8, "finite", l[8].threshold = INFINITY), FAULT(8, "repeat", l[8].repeat = -1),
            FAULT(8, "this width", l[7].channels = 42), FAULT(8, "this width", l[8].repeat = 4096),
            FAULT(8, "odd stride", l[4].stride = {3, 2, 2}),
            FAULT(19, "for transposed layers", l[19].transposed = false),
            FAULT(19, "divide", l[19].stride.z = 4), FAULT(19, "padding", l[19].padding.x = 3),
            FAULT(19, "rule", l[19].rule = (net_rule)(net_rule_generate + 1)),
            FAULT(3, "has no int8", l[4].format = net_format_i8; l[4].range = 1),
    });
}

TEST(net_plan_names_the_pooling_at_fault) {
    for (net_op op : {net_pool_max, net_pool_average}) {
        network n;
        net_plan plan;
        networks::network_begin(&n, 4);
        networks::network_conv(&n, "first", net_input, 8, 3, 1);
        reference_net_pool(&n, op, 0, {2, 2, 2}, {2, 2, 2});
        REQUIRE_OK(plan_sets(&n, &plan));
        CHECK_EQUAL(plan.step[1].channels, 8);
        n.layers[1].size = n.layers[1].stride = {1, 1, 1};
        check_fault(&n, {1, "over one voxel", nullptr, __FILE__, __LINE__});
    }
}

// Groups divide the channels on both sides, and have more than one offset.
TEST(net_plan_names_the_groups_at_fault) {
    const struct {
        net_layer layer;
        const char *what;
    } faults[] = {{net_layer_group("", 0, 8, 0, 3, 1), "groups"},
                  {net_layer_group("", 0, 9, 4, 3, 1), "groups"},
                  {net_layer_group("", 0, 9, 3, 3, 1), "groups (they divide the source's"},
                  {net_layer_group("", 0, 0, 4, 3, 1), "channels"},
                  {net_layer_group("", 0, 8, 8, 1, 1), "size"},
                  {net_layer_norm_groups("", 0, 0, 1e-5f), "groups"},
                  {net_layer_norm_groups("", 0, 3, 1e-5f), "groups (they divide the source's"}};
    const net_limits limits = limits_make(100, 4);
    for (const auto &f : faults) {
        net_plan plan;
        const net_layer layers[2] = {net_layer_conv("first", net_input, 8, 3, 1), f.layer};
        const status s = net_plan_sets(layers, 2, &limits, false, &plan);
        CHECK(s.code == status_layer && s.detail == 1 &&
              !strncmp(s.subject, f.what, strlen(f.what)));
    }
}

// The two sources of a product have the same set and channels.
TEST(net_plan_names_the_product_at_fault) {
    const struct {
        const char *words;
        int source, source2;
        net_format format;
    } faults[] = {{"two sources", 0, net_none, net_format_same},
                  {"of another set", 0, 2, net_format_same},
                  {"of other channels", 0, 1, net_format_same},
                  {"of other channels", 0, net_input, net_format_same},
                  {"format", 0, 0, net_format_f16}};
    net_layer layers[4] = {net_layer_conv("a", net_input, 8, 3, 1),
                           net_layer_conv("b", net_input, 9, 3, 1), net_layer_conv("c", 0, 8, 2, 2),
                           net_layer_product("", 0, 0)};
    const net_limits limits = limits_make(100, 4);
    net_plan plan;
    REQUIRE_OK(net_plan_sets(layers, 4, &limits, true, &plan));
    CHECK(plan.step[3].channels == 8 && net_params_of(&plan, 3).end == plan.params);
    for (const auto &f : faults) {
        layers[3] = net_layer_product("", f.source, f.source2);
        layers[3].format = f.format;
        const status s = net_plan_sets(layers, 4, &limits, true, &plan);
        test_check(s.code == status_layer && s.detail == 3 && strstr(s.subject, f.words), __FILE__,
                   __LINE__, f.words);
    }
}

// A layer has the network's format or its own. What would need a conversion is refused.
TEST(net_plan_formats) {
    const struct {
        numeric type;
        net_format conv, last; // of layers 1 and 2
        net_layer layer;       // layer 2
        numeric expected;      // of layer 2
        bool good;
    } cases[] = {
        {numeric_tf32, net_format_f32, net_format_same, net_layer_conv("", 1, 8, 3, 1),
         numeric_tf32, true},
        {numeric_f32, net_format_tf32, net_format_f32, net_layer_pool("", net_pool_max, 1, 3, 1),
         numeric_f32, true},
        {numeric_f16, net_format_f16, net_format_same, net_layer_conv("", 1, 8, 3, 1), numeric_f16,
         true},
        {numeric_f16, net_format_same, net_format_bf16, net_layer_conv("", 1, 8, 3, 1),
         numeric_bf16, false},
        {numeric_f32, net_format_same, net_format_f16, net_layer_conv("", 1, 8, 3, 1), numeric_f16,
         false},
        {numeric_bf16, net_format_same, net_format_f32, net_layer_join("", 1, 0), numeric_f32,
         false},
        {numeric_f16, net_format_same, net_format_f32, net_layer_dense("", 1), numeric_f32, true},
        {numeric_f16, net_format_same, net_format_same, net_layer_dense("", 1), numeric_f16, true},
        {numeric_tf32, net_format_same, net_format_same, net_layer_dense("", 1), numeric_f32, true},
        {numeric_f16, net_format_same, net_format_bf16, net_layer_dense("", 1), numeric_bf16,
         false},
    };
    for (const auto &c : cases) {
        net_layer layers[3] = {net_layer_conv("", net_input, 8, 3, 1),
                               net_layer_conv("", 0, 8, 3, 1), c.layer};
        layers[1].format = c.conv;
        layers[2].format = c.last;
        net_limits limits = limits_make(100, 4);
        limits.grid.extent = {20, 20, 20};
        limits.batch = 1;
        limits.type = c.type;
        net_plan plan;
        const status s = net_plan_sets(layers, 3, &limits, true, &plan);
        if (c.good) {
            CHECK_OK(s);
            CHECK_EQUAL(net_type_of(&plan, 2), c.expected);
            CHECK_EQUAL(plan.step[2].shape.type, c.expected);
        } else {
            CHECK(s.code == status_layer && s.detail == 2 && strstr(s.subject, "format"));
        }
        limits.type = numeric_f32; // the host is fp32 throughout
        CHECK_OK(net_plan_sets(layers, 3, &limits, false, &plan));
        CHECK_EQUAL(net_type_of(&plan, 2), numeric_f32);
    }
}

// As many as there may be, and one more.
TEST(net_plan_limits_of_sets_maps_and_layers) {
    network n;
    net_plan plan;
    networks::network_begin(&n, 4);
    for (int i = 0; i < net_sets_max; ++i) { // sets: the input's and one for each layer
        networks::network_conv(&n, "set", net_input, 4, 1, i + 2);
        n.layers[i].size.x = 3;
    }
    n.count = net_sets_max - 1;
    REQUIRE_OK(plan_sets(&n, &plan));
    CHECK_EQUAL(plan.sets, (int)net_sets_max);
    n.count = net_sets_max;
    check_fault(&n, {net_sets_max - 1, "too many coordinate sets", nullptr, __FILE__, __LINE__});
    n.layers[net_sets_max - 1].stride = {5, 5, 5};
    CHECK_OK(plan_sets(&n, &plan));

    n.count = 0;
    for (int i = 0; i <= net_maps_max; ++i) {
        networks::network_conv(&n, "map", net_input, 4, 2, 1);
        n.layers[i].size = {2 + i % 4, 1 + i / 4 % 4, 1 + i / 16};
    }
    n.count = net_maps_max;
    REQUIRE_OK(plan_sets(&n, &plan));
    CHECK_EQUAL(plan.maps, (int)net_maps_max);
    n.count = net_maps_max + 1;
    check_fault(&n, {net_maps_max, "too many kernel maps", nullptr, __FILE__, __LINE__});

    n.count = 0;
    for (int i = 0; i < net_layers_max; ++i) {
        networks::network_conv(&n, "layer", i - 1, 4, 3, 1);
    }
    REQUIRE_OK(plan_sets(&n, &plan));
    CHECK_EQUAL(plan.maps, 1);
    net_limits limits = limits_make(100, 4);
    CHECK_STATUS(net_plan_sets(n.layers, net_layers_max + 1, &limits, false, &plan),
                 status_bad_size);
}

// Strides multiply: beyond 2^20, and far beyond what an int holds.
TEST(net_plan_stride_and_reach_too_large) {
    network n;
    net_plan plan;
    networks::network_begin(&n, 4);
    networks::network_conv(&n, "down", net_input, 4, 2, 1 << 10);
    networks::network_conv(&n, "down", 0, 4, 2, 1 << 10);
    networks::network_conv(&n, "down", 1, 4, 1, 2);
    n.layers[2].stride = {1, 1, 2};
    check_fault(&n, {2, "a stride beyond 2^20", nullptr, __FILE__, __LINE__});
    n.layers[2].stride = {1 << 12, 1, 1}; // 2^32: a product of ints would be 0
    check_fault(&n, {2, "a stride beyond 2^20", nullptr, __FILE__, __LINE__});
    n.layers[2].stride = {1 << 20, 1 << 20, 1 << 20};
    check_fault(&n, {2, "a stride beyond 2^20", nullptr, __FILE__, __LINE__});
    n.count = 2;
    REQUIRE_OK(plan_sets(&n, &plan));
    CHECK_EQUAL(plan.set[2].stride.y, 1 << 20);

    networks::network_conv(&n, "wide", 1, 4, 15, 1); // 2^20 * 2^8 * 15 is no int
    n.layers[2].dilation.x = 1 << 8;
    check_fault(&n, {2, "reach", nullptr, __FILE__, __LINE__});
    word_need need = {};
    status s = net_need(n.layers, n.count, &need);
    CHECK_STATUS(s, status_layer);
    CHECK_EQUAL(s.detail, 2);
}

TEST(net_plan_refuses_arguments) {
    network n;
    network_plain(&n);
    net_plan plan;
    net_limits good = limits_make(100, 4), l;
    word_layout layout = reference_net_layout<uint32_t>(&n, {0, 0, 0}, {63, 63, 31}, 1);
    auto host = [&](const net_limits *limits) {
        return net_plan_host<uint32_t>(n.layers, n.count, &layout, limits, &plan);
    };
    REQUIRE_OK(host(&good));
    CHECK_STATUS(net_plan_host<uint32_t>(nullptr, n.count, &layout, &good, &plan),
                 status_null_pointer);
    CHECK_STATUS(net_plan_host<uint32_t>(n.layers, n.count, nullptr, &good, &plan),
                 status_null_pointer);
    CHECK_STATUS(net_plan_host<uint32_t>(n.layers, n.count, &layout, nullptr, &plan),
                 status_null_pointer);
    CHECK_STATUS(net_plan_host<uint32_t>(n.layers, n.count, &layout, &good, nullptr),
                 status_null_pointer);
    CHECK_STATUS(net_plan_host<uint64_t>(n.layers, n.count, &layout, &good, &plan),
                 status_unsupported);
    for (int count : {0, -1, net_layers_max + 1}) {
        CHECK_STATUS(net_plan_host<uint32_t>(n.layers, count, &layout, &good, &plan),
                     status_bad_size);
    }
    for (int32_t voxels : {0, -1, INT32_MAX}) {
        l = limits_make(voxels, 4);
        CHECK_STATUS(host(&l), status_bad_size);
    }
    for (int channels : {0, -1, conv_channels_max + 1}) {
        l = limits_make(100, channels);
        CHECK_STATUS(host(&l), status_bad_size);
    }
    l = good; // records are for device plans, and are not looked at here
    tune_record record = {};
    l.records = &record;
    l.record_count = 1;
    CHECK_OK(host(&l));
    CHECK(!plan.limits.records && !plan.limits.record_count);
    l.record_count = -1;
    CHECK_STATUS(host(&l), status_bad_size);
    l.records = nullptr;
    l.record_count = 1;
    CHECK_STATUS(host(&l), status_null_pointer);
    for (int shortcuts : {-1, 3}) {
        l = good;
        l.shortcuts = (net_shortcuts)shortcuts;
        CHECK_STATUS(host(&l), status_unsupported);
    }
    l = good; // overlap is for device plans too, and so is where shortcuts are computed
    l.overlap = true;
    l.shortcuts = net_shortcuts_hidden;
    CHECK_OK(host(&l));
    size_t bytes = plan.workspace_bytes;
    CHECK_OK(host(&good));
    CHECK_EQUAL(plan.workspace_bytes, bytes);
    for (numeric type : {numeric_f16, numeric_bf16, numeric_tf32, (numeric)4, (numeric)-1}) {
        l = good;
        l.type = type;
        CHECK_STATUS(host(&l), status_unsupported);
        status s = net_plan_sets(n.layers, n.count, &l, true, &plan);
        CHECK_STATUS(s, numeric_valid(type) ? status_ok : status_unsupported);
    }
    n.layers[2].size = {5, 5, 5}; // reaches further than the layout was fitted to
    CHECK_STATUS(host(&good), status_unsupported);
    word_need need = {};
    CHECK_STATUS(net_need(nullptr, 1, &need), status_null_pointer);
    CHECK_STATUS(net_need(n.layers, n.count, nullptr), status_null_pointer);
    CHECK_STATUS(net_need(n.layers, 0, &need), status_bad_size);
}

// ---- sharing ------------------------------------------------------------------------------------

namespace {

struct counts {
    const char *net;
    int layers, convolutions, sets, maps, volume; // convolutions: without shortcuts and the output
    triple last;                                  // the stride of the last set
};

} // namespace

TEST(net_plan_shares_sets_and_maps) {
    // MinkUNet42: 5 submanifold maps, 4 down, 4 up. The others: a submanifold map for each of 4
    // strides, 3 down, and the one of SparseResNet21's head.
    static const counts expected[] = {
        {"MinkUNet42", 49, 42, 5, 13, 5 * 27 + 8 * 8, {16, 16, 16}},
        {"SparseResNet21", 21, 20, 5, 8, 7 * 27 + 3, {8, 8, 16}},
        {"SparseResNet-Large", 20, 20, 4, 7, 7 * 125, {8, 8, 8}},
    };
    for (const counts &c : expected) {
        network n;
        net_plan plan;
        REQUIRE(networks::network_make(c.net, &n));
        REQUIRE_OK(plan_sets(&n, &plan));
        CHECK_EQUAL(n.count, c.layers);
        CHECK_EQUAL(plan.sets, c.sets);
        CHECK_EQUAL(plan.maps, c.maps);
        CHECK(triple_equal(plan.set[plan.sets - 1].stride, c.last));
        int volume = 0, convolutions = 0;
        for (int m = 0; m < plan.maps; ++m) {
            volume += plan.map[m].volume;
        }
        CHECK_EQUAL(volume, c.volume);
        for (int i = 0; i < n.count; ++i) {
            convolutions += plan.step[i].map != net_none && strcmp(n.layers[i].name, "out") != 0;
            CHECK_EQUAL(plan.step[i].map == net_none, strstr(n.layers[i].name, "shortcut") != 0);
        }
        CHECK_EQUAL(convolutions, c.convolutions);
        CHECK_EQUAL(plan.params, reference_net_params(&n, n.count - 1).end);
    }
}

// A set comes from the nearest one before it that is a short step away, or from the first.
TEST(net_plan_parents_of_sets) {
    const struct { // layers of these strides, and the sets that their sets come from
        std::vector<triple> strides;
        std::vector<int> parents;
    } cases[] = {
        {{{2, 2, 2}, {4, 4, 4}, {8, 8, 8}}, {0, 1, 2}},
        {{{1, 1, 2}, {2, 2, 2}, {2, 2, 4}, {4, 4, 4}}, {0, 1, 2, 3}},
        {{{8, 8, 8}, {4, 4, 4}, {2, 2, 2}}, {0, 0, 0}}, // not from a coarser one
        {{{2, 2, 2}, {8, 8, 8}, {4, 4, 4}, {16, 16, 16}}, {0, 0, 1, 2}},
        {{{2, 2, 2}, {4, 2, 2}, {2, 4, 2}, {4, 4, 4}}, {0, 1, 1, 3}},
        {{{2, 2, 2}, {4, 1, 1}, {2, 2, 16}}, {0, 0, 1}},
        {{{3, 3, 3}, {6, 6, 6}, {2, 2, 2}, {12, 12, 12}}, {0, 0, 0, 0}},
        {{{2, 2, 2}, {2, 2, 2}, {4, 4, 4}}, {0, 1}}, // sets are shared
    };
    for (const auto &c : cases) {
        network n;
        net_plan plan;
        networks::network_begin(&n, 4);
        for (triple stride : c.strides) { // all read the input: their strides are absolute
            networks::network_conv(&n, "down", net_input, 4, 3, 1);
            n.layers[n.count - 1].stride = stride;
        }
        REQUIRE_OK(plan_sets(&n, &plan));
        REQUIRE(CHECK_EQUAL(plan.sets, 1 + (int)c.parents.size()));
        for (int s = 1; s < plan.sets; ++s) {
            CHECK_EQUAL(plan.set[s].parent, c.parents[(size_t)s - 1]);
            CHECK_EQUAL(net_set_parent(&plan, s), plan.set[s].parent);
        }
    }
    net_plan plan;
    network n;
    REQUIRE(networks::network_make("MinkUNet42", &n));
    REQUIRE_OK(plan_sets(&n, &plan));
    for (int s = 0; s < plan.sets; ++s) {
        CHECK_EQUAL(plan.set[s].parent, s ? s - 1 : 0);
    }
}

// What a step says of its sets and its map is what the table says of the layer.
TEST(net_plan_steps_follow_the_table) {
    random_state r = random_make(1);
    for (int i = 0; i < 300; ++i) {
        network n;
        net_plan plan;
        i ? reference_net_random(&r, random_int(&r, 1, 40), &n) : reference_net_zoo(&n);
        REQUIRE_OK(plan_sets(&n, &plan));
        for (int l = 0; l < n.count; ++l) {
            const net_layer *layer = &n.layers[l];
            const net_step *step = &plan.step[l];
            triple from = reference_net_stride(n.layers, net_number(layer->source)),
                   to = reference_net_stride(n.layers, l);
            CHECK_EQUAL(step->source_set, reference_net_set(&plan, from));
            CHECK_EQUAL(step->set, reference_net_set(&plan, to));
            CHECK_EQUAL(step->channels, reference_net_channels(&n, l));
            net_params at = reference_net_params(&n, l), got = net_params_of(&plan, l);
            if (layer->op == net_conv) {
                CHECK(at.weight == got.weight && at.vectors == got.vectors && at.end == got.end);
                CHECK(at.bias == got.bias && at.scale == got.scale && at.shift == got.shift);
            }
            if (step->map == net_none) {
                CHECK(triple_equal(from, to) && triple_equal(layer->size, {1, 1, 1}));
                continue;
            }
            REQUIRE(step->map >= 0 && step->map < plan.maps);
            const net_map *map = &plan.map[step->map];
            CHECK(map->source == step->source_set && map->outputs == step->set);
            CHECK(triple_equal(map->kernel.size, layer->size));
            CHECK(triple_equal(map->kernel.dilation, layer->dilation));
            CHECK(triple_equal(map->kernel.stride, layer->transposed ? to : from));
            CHECK_EQUAL(map->kernel.transposed, layer->transposed);
        }
        for (int a = 0; a < plan.maps; ++a) { // none twice
            for (int b = 0; b < a; ++b) {
                CHECK(memcmp(&plan.map[a].kernel, &plan.map[b].kernel, sizeof(kernel_shape)) != 0 ||
                      plan.map[a].source != plan.map[b].source ||
                      plan.map[a].outputs != plan.map[b].outputs);
            }
        }
    }
}

// A layer of net_layer_conv reads its source alone, and has weights alone.
TEST(net_layer_conv_reads_one_source) {
    net_layer layers[3] = {net_layer_conv("stem", net_input, 32, 3, 1),
                           net_layer_conv("down", 0, 64, 3, 2),
                           net_layer_conv("last", 1, 64, 5, 1)};
    const net_limits limits = limits_make(100, 4);
    net_plan plan;
    REQUIRE_OK(net_plan_sets(layers, 3, &limits, false, &plan));
    for (int i = 0; i < 3; ++i) {
        const net_reads reads = net_reads_of(&layers[i]);
        CHECK(reads.layer[0] == i - 1 && reads.layer[1] == net_none && reads.layer[2] == net_none);
        CHECK_EQUAL(plan.step[i].shape.cin2, 0);
        CHECK_EQUAL(layers[i].act, activation_none);
    }
    CHECK_EQUAL(plan.params, 27 * (4 * 32 + 32 * 64) + 125 * 64 * 64);
    CHECK(triple_equal(plan.set[plan.step[2].set].stride, {2, 2, 2}));
}

// A set that dilates a floor begins at the floor's bounds, which lie below those of the input.
TEST(net_need_of_what_is_made_of_floors) {
    network n;
    word_need need = {};
    networks::network_begin(&n, 4);
    networks::network_conv(&n, "floor", net_input, 4, 4, 4);
    need.lo = {-11, -11, 1};
    need.hi = {8, 8, 8};
    REQUIRE_OK(net_need(n.layers, n.count, &need));
    CHECK(triple_equal(need.lo, {-11, -11, 1}) && triple_equal(need.hi, {8, 8, 8}));
    networks::network_down(&n, "wide", 0, 4, 3, 1, 1);
    REQUIRE_OK(net_need(n.layers, n.count, &need));
    CHECK(triple_equal(need.lo, {-16, -16, -4}) && triple_equal(need.hi, {12, 12, 12}));
}

TEST(net_need_covers_every_stride_and_kernel) {
    word_need need = {};
    network n;
    REQUIRE(networks::network_make("MinkUNet42", &n));
    REQUIRE_OK(net_need(n.layers, n.count, &need));
    CHECK(triple_equal(need.stride, {16, 16, 16}));
    CHECK(triple_equal(need.reach, {16, 16, 16})); // 3^3 at stride 16
    REQUIRE(networks::network_make("SparseResNet21", &n));
    REQUIRE_OK(net_need(n.layers, n.count, &need));
    CHECK(triple_equal(need.stride, {8, 8, 16}));
    CHECK(triple_equal(need.reach, {8, 8, 8}));
    REQUIRE(networks::network_make("SparseResNet-Large", &n));
    REQUIRE_OK(net_need(n.layers, n.count, &need));
    CHECK(triple_equal(need.reach, {16, 16, 16})); // 5^3 at stride 8
    // Strides 4 and 6 next to each other: a bias must be a multiple of both. A layer that adds the
    // input is no fault, whatever its channels.
    reference_net_zoo(&n);
    REQUIRE_OK(net_need(n.layers, n.count, &need));
    CHECK(triple_equal(need.stride, {4, 4, 12}));
    CHECK(triple_equal(need.reach, {4, 3, 4}));
    n.count = 0;
    networks::network_conv(&n, "prime", net_input, 4, 1, 1021);
    networks::network_conv(&n, "prime", net_input, 4, 1, 1031);
    CHECK_STATUS(net_need(n.layers, n.count, &need), status_stride); // 1052651 is beyond 2^20
}

// Weights that the format of their layer cannot hold: the layer is named.
TEST(net_params_names_weights_beyond) {
    network n;
    network_plain(&n);
    net_limits limits = limits_make(100, n.input_channels);
    for (numeric type : {numeric_f16, numeric_bf16, numeric_f32}) {
        limits.type = type;
        net_plan plan;
        REQUIRE_OK(net_plan_sets(n.layers, n.count, &limits, true, &plan));
        std::vector<float> params((size_t)plan.params, 65504.0f);
        CHECK_OK(net_params_check(&plan, params.data()));
        for (int i = 0; i < n.count; ++i) {
            float *const weight = &params[(size_t)net_params_of(&plan, i).weight + 3];
            *weight = 65520.0f; // becomes infinite in fp16 alone
            CHECK_EQUAL(net_params_check(&plan, params.data()).code,
                        type == numeric_f16 ? status_layer : status_ok);
            *weight = i % 2 ? -INFINITY : NAN;
            const status s = net_params_check(&plan, params.data());
            CHECK_STATUS(s, status_layer);
            CHECK_EQUAL(s.detail, i);
            *weight = 1;
        }
    }
}
