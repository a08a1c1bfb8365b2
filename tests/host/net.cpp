// tests/host/net.cpp: net.h: planning, lifetimes, and networks on the host.
#include "../support/reference_net.h"

using namespace spira;
using networks::network;

namespace {

// ---- planning -----------------------------------------------------------------------------------

net_limits limits_make(int32_t voxels, int channels) {
    net_limits limits = {};
    limits.voxels = voxels;
    limits.channels = channels;
    return limits;
}

// Four layers at strides 1, 2, 2 and 1, without a fault.
void network_plain(network *n) {
    n->count = 0;
    n->input_channels = 4;
    networks::network_conv(n, "first", net_input, 8, 3, 1);
    networks::network_conv(n, "down", 0, 8, 2, 2);
    networks::network_conv(n, "coarse", 1, 8, 3, 1);
    networks::network_conv(n, "up", 2, 8, 2, 2);
    n->layers[3].transposed = true;
}

status plan_sets(const network *n, net_plan *plan) {
    net_limits limits = limits_make(100, n->input_channels);
    return net_plan_sets(n->layers, n->count, &limits, false, plan);
}

// The fault that a table is refused for is of a layer and has words in its text.
void check_fault(const network *n, int layer, const char *words, int line) {
    net_plan plan;
    status s = plan_sets(n, &plan);
    char text[256];
    snprintf(text, sizeof text, "layer %d, \"%s\": got %d, layer %d, \"%s\"", layer, words,
             (int)s.code, (int)s.detail, s.subject);
    test_check(s.code == status_layer && s.detail == layer && strstr(s.subject, words), __FILE__,
               line, text);
}

struct fault {
    int layer;
    const char *words;
    void (*plant)(net_layer *layers);
    int line;
};

} // namespace

TEST(net_plan_names_the_layer_at_fault) {
    static const fault faults[] = {
        {0, "does not come before it", [](net_layer *l) { l[0].source = 0; }, __LINE__},
        {1, "does not come before it", [](net_layer *l) { l[1].source = 2; }, __LINE__},
        {2, "does not come before it", [](net_layer *l) { l[2].source2 = 3; }, __LINE__},
        {2, "does not come before it", [](net_layer *l) { l[2].residual = 2; }, __LINE__},
        {3, "does not come before it", [](net_layer *l) { l[3].source = INT32_MAX; }, __LINE__},
        {1, "no layer", [](net_layer *l) { l[1].source = net_none; }, __LINE__},
        {1, "no layer", [](net_layer *l) { l[1].source = INT32_MIN; }, __LINE__},
        {2, "no layer", [](net_layer *l) { l[2].source2 = -3; }, __LINE__},
        {2, "no layer", [](net_layer *l) { l[2].residual = -3; }, __LINE__},
        {0, "size, stride or dilation", [](net_layer *l) { l[0].size.x = 16; }, __LINE__},
        {1, "size, stride or dilation", [](net_layer *l) { l[1].size.y = 0; }, __LINE__},
        {2, "size, stride or dilation", [](net_layer *l) { l[2].size.z = -1; }, __LINE__},
        {1, "size, stride or dilation", [](net_layer *l) { l[1].stride.x = 0; }, __LINE__},
        {3, "size, stride or dilation", [](net_layer *l) { l[3].stride.z = 0; }, __LINE__},
        {1, "size, stride or dilation", [](net_layer *l) { l[1].stride.y = -2; }, __LINE__},
        {1, "size, stride or dilation", [](net_layer *l) { l[1].stride.y = 1 << 21; }, __LINE__},
        {2, "size, stride or dilation", [](net_layer *l) { l[2].dilation.z = 0; }, __LINE__},
        {0, "operation", [](net_layer *l) { l[0].op = (net_op)3; }, __LINE__},
        {2, "operation", [](net_layer *l) { l[2].op = (net_op)-1; }, __LINE__},
        {0, "channels", [](net_layer *l) { l[0].channels = 0; }, __LINE__},
        {1, "channels", [](net_layer *l) { l[1].channels = -1; }, __LINE__},
        {3, "channels", [](net_layer *l) { l[3].channels = conv_channels_max + 1; }, __LINE__},
        {1, "activation", [](net_layer *l) { l[1].act = (activation)3; }, __LINE__},
        {1, "activation", [](net_layer *l) { l[1].act = (activation)-1; }, __LINE__},
        {2, "two sources", [](net_layer *l) { l[2].source2 = 0; }, __LINE__},
        {2, "two sources", [](net_layer *l) { l[2].source2 = net_input; }, __LINE__},
        {2, "residual", [](net_layer *l) { l[2].residual = 0; }, __LINE__},
        {3, "residual", [](net_layer *l) { l[3].residual = net_input; }, __LINE__},
        {2, "residual",
         [](net_layer *l) {
             l[2].channels = 9;
             l[2].residual = 1;
         },
         __LINE__},
        {1, "residual", [](net_layer *l) { l[1].residual = 0; }, __LINE__},
        {0, "inverse",
         [](net_layer *l) {
             l[0].transposed = true;
             l[0].stride.x = 2;
         },
         __LINE__},
        {3, "inverse",
         [](net_layer *l) {
             l[3].stride = {2, 2, 1};
         },
         __LINE__},
        {3, "inverse",
         [](net_layer *l) {
             l[3].stride = {3, 3, 3};
         },
         __LINE__},
        {3, "inverse",
         [](net_layer *l) {
             l[3].stride = {4, 4, 4};
         },
         __LINE__},
        {3, "inverse",
         [](net_layer *l) {
             l[1].stride = {4, 4, 4};
         },
         __LINE__},
    };
    network n;
    net_plan plan;
    network_plain(&n);
    REQUIRE_OK(plan_sets(&n, &plan));
    for (const fault &f : faults) {
        network_plain(&n);
        f.plant(n.layers);
        check_fault(&n, f.layer, f.words, f.line);
    }
}

TEST(net_plan_names_the_pooling_at_fault) {
    static const fault faults[] = {
        {1, "channels", [](net_layer *l) { l[1].channels = 8; }, __LINE__},
        {1, "only a convolution", [](net_layer *l) { l[1].source2 = net_input; }, __LINE__},
        {1, "only a convolution", [](net_layer *l) { l[1].residual = 0; }, __LINE__},
        {1, "only a convolution", [](net_layer *l) { l[1].bias = true; }, __LINE__},
        {1, "only a convolution", [](net_layer *l) { l[1].norm = true; }, __LINE__},
        {1, "only a convolution", [](net_layer *l) { l[1].act = activation_relu; }, __LINE__},
        {1, "one voxel",
         [](net_layer *l) {
             l[1].size = l[1].stride = {1, 1, 1};
         },
         __LINE__},
    };
    for (net_op op : {net_pool_max, net_pool_average}) {
        network n;
        net_plan plan;
        for (size_t f = 0; f <= sizeof faults / sizeof *faults; ++f) {
            n.count = 0;
            n.input_channels = 4;
            networks::network_conv(&n, "first", net_input, 8, 3, 1);
            reference_net_pool(&n, op, 0, {2, 2, 2}, {2, 2, 2});
            if (f == 0) {
                REQUIRE_OK(plan_sets(&n, &plan));
                CHECK_EQUAL(plan.step[1].channels, 8);
            } else {
                faults[f - 1].plant(n.layers);
                check_fault(&n, faults[f - 1].layer, faults[f - 1].words, faults[f - 1].line);
            }
        }
    }
}

// As many as there may be, and one more.
TEST(net_plan_limits_of_sets_maps_and_layers) {
    network n;
    net_plan plan;
    n.count = 0;
    n.input_channels = 4;
    for (int i = 0; i < net_sets_max; ++i) { // sets: the input's and one for each layer
        networks::network_conv(&n, "set", net_input, 4, 1, i + 2);
        n.layers[i].size.x = 3;
    }
    n.count = net_sets_max - 1;
    REQUIRE_OK(plan_sets(&n, &plan));
    CHECK_EQUAL(plan.sets, (int)net_sets_max);
    n.count = net_sets_max;
    check_fault(&n, net_sets_max - 1, "too many coordinate sets", __LINE__);
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
    check_fault(&n, net_maps_max, "too many kernel maps", __LINE__);

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
    n.count = 0;
    n.input_channels = 4;
    networks::network_conv(&n, "down", net_input, 4, 2, 1 << 10);
    networks::network_conv(&n, "down", 0, 4, 2, 1 << 10);
    networks::network_conv(&n, "down", 1, 4, 1, 2);
    n.layers[2].stride = {1, 1, 2};
    check_fault(&n, 2, "a stride beyond 2^20", __LINE__);
    n.layers[2].stride = {1 << 12, 1, 1}; // 2^32: a product of ints would be 0
    check_fault(&n, 2, "a stride beyond 2^20", __LINE__);
    n.layers[2].stride = {1 << 20, 1 << 20, 1 << 20};
    check_fault(&n, 2, "a stride beyond 2^20", __LINE__);
    n.count = 2;
    REQUIRE_OK(plan_sets(&n, &plan));
    CHECK_EQUAL(plan.set[2].stride.y, 1 << 20);

    networks::network_conv(&n, "wide", 1, 4, 15, 1); // 2^20 * 2^8 * 15 is no int
    n.layers[2].dilation.x = 1 << 8;
    check_fault(&n, 2, "reach", __LINE__);
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
    for (int32_t voxels : {-1, INT32_MAX}) {
        l = good;
        l.set_voxels[net_sets_max - 1] = voxels;
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
    l = good;
    l.map_pairs[net_maps_max - 1] = -1;
    CHECK_STATUS(host(&l), status_bad_size);
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

namespace {

// Layers of these strides one after the other, and the sets that their sets come from.
void check_parents(std::initializer_list<triple> strides, std::initializer_list<int> parents,
                   int line) {
    network n;
    net_plan plan;
    n.count = 0;
    n.input_channels = 4;
    for (triple stride : strides) { // all of them read the input: their strides are absolute
        networks::network_conv(&n, "down", net_input, 4, 3, 1);
        n.layers[n.count - 1].stride = stride;
    }
    REQUIRE_OK(plan_sets(&n, &plan));
    char text[128];
    snprintf(text, sizeof text, "%d sets", plan.sets);
    test_check(plan.sets == 1 + (int)parents.size(), __FILE__, line, text);
    for (int s = 1; s < plan.sets; ++s) {
        int parent = plan.set[s].parent, wanted = parents.begin()[s - 1];
        snprintf(text, sizeof text, "set %d comes from %d instead of %d", s, parent, wanted);
        test_check(parent == wanted && parent == net_set_parent(&plan, s), __FILE__, line, text);
    }
}

} // namespace

// A set comes from the nearest one before it that is a short step away, or from the first.
TEST(net_plan_parents_of_sets) {
    check_parents({{2, 2, 2}, {4, 4, 4}, {8, 8, 8}}, {0, 1, 2}, __LINE__);
    check_parents({{1, 1, 2}, {2, 2, 2}, {2, 2, 4}, {4, 4, 4}}, {0, 1, 2, 3}, __LINE__);
    check_parents({{8, 8, 8}, {4, 4, 4}, {2, 2, 2}}, {0, 0, 0}, __LINE__); // not from a coarser one
    check_parents({{2, 2, 2}, {8, 8, 8}, {4, 4, 4}, {16, 16, 16}}, {0, 0, 1, 2}, __LINE__);
    check_parents({{2, 2, 2}, {4, 2, 2}, {2, 4, 2}, {4, 4, 4}}, {0, 1, 1, 3}, __LINE__);
    check_parents({{2, 2, 2}, {4, 1, 1}, {2, 2, 16}}, {0, 0, 1}, __LINE__);
    check_parents({{3, 3, 3}, {6, 6, 6}, {2, 2, 2}, {12, 12, 12}}, {0, 0, 0, 0}, __LINE__);
    check_parents({{2, 2, 2}, {2, 2, 2}, {4, 4, 4}}, {0, 1}, __LINE__); // sets are shared
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
            triple from = reference_net_stride(n.layers, layer->source),
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

// ---- places and lifetimes -----------------------------------------------------------------------

namespace {

struct span {
    size_t begin, end;
};

bool spans_meet(span a, span b) {
    return a.begin < b.end && b.begin < a.end;
}

// The last layer that reads a layer's features, from the table alone.
int last_reader(const network *n, const net_limits *limits, int layer) {
    int last =
        n->layers[layer].keep || limits->keep_all || layer == n->count - 1 ? n->count : layer;
    for (int i = layer + 1; i < n->count; ++i) {
        const net_layer *l = &n->layers[i];
        bool reads = l->source == layer || l->source2 == layer || l->residual == layer;
        last = reads && last < i ? i : last;
    }
    return last;
}

// And in a plan: a shortcut's sources are read by the layer that it is computed within.
int last_reader_in(const network *n, const net_plan *p, int layer) {
    int last = last_reader(n, &p->limits, layer);
    for (int i = layer + 1; i < n->count; ++i) {
        bool reads = n->layers[i].source == layer || n->layers[i].source2 == layer;
        last = reads ? std::max(last, p->step[i].fused_into) : last;
    }
    return last;
}

// How many promises of a plan's features are broken: inside of their part of the workspace,
// aligned, apart from all others that live at the same time.
int feature_faults(const network *n, const net_plan *p) {
    int faults = 0;
    for (int i = 0; i < n->count; ++i) {
        int64_t values = (int64_t)p->set[p->step[i].set].capacity * reference_net_channels(n, i);
        size_t at = p->step[i].features;
        if (p->step[i].fused_into != net_none) {
            faults += p->step[i].feature_bytes != 0;
            continue;
        }
        span mine = {at, at + (size_t)values * (size_t)numeric_size(p->limits.type)};
        faults += at % workspace_alignment != 0;
        faults += mine.begin < p->index_bytes || mine.end > p->workspace_bytes;
        faults += p->step[i].feature_bytes < mine.end - mine.begin;
        for (int j = 0; j < i; ++j) {
            values = (int64_t)p->set[p->step[j].set].capacity * reference_net_channels(n, j);
            at = p->step[j].features;
            span other = {at, at + (size_t)values * (size_t)numeric_size(p->limits.type)};
            const bool lives = p->step[j].fused_into == net_none && last_reader_in(n, p, j) >= i;
            faults += lives && spans_meet(mine, other);
        }
    }
    return faults;
}

// A map that is written to make a layout of it or to count its pairs, and that nobody reads later.
bool map_passes(const net_plan *p, const net_map *map) {
    return !map->kept && (map->ordered || p->limits.count_pairs);
}

// A cube of 3 or 5 that is only put in order passes in its compact form.
bool map_is_compact(const net_plan *p, const net_map *map) {
    const triple size = map->kernel.size;
    return map_passes(p, map) && !map->tiled && !p->limits.count_pairs && size.x == size.y &&
           size.y == size.z && (size.x == 3 || size.x == 5) && map->kernel.dilation.z == 1 &&
           (map->kernel.stride.z & (map->kernel.stride.z - 1)) == 0 && !map->kernel.transposed;
}

span map_span(const net_plan *p, const net_map *map) {
    const int64_t capacity = p->set[map->outputs].capacity;
    const bool compact = map_is_compact(p, map);
    const int K = map->kernel.size.x;
    const size_t begin = compact ? map->slabs : map->map;
    const int64_t entries = capacity * (compact ? K * (K + 1) : map->volume);
    return {begin, begin + (size_t)entries * sizeof(int32_t)};
}

// What a map has to the end: layouts, counts, itself.
void spans_of_map(const net_plan *p, const net_map *map, std::vector<span> *spans) {
    int32_t capacity = p->set[map->outputs].capacity;
    if (map->tiled) {
        workspace w = workspace_begin(nullptr);
        tile_layout_take(&w, capacity, map->volume, map->rows);
        spans->push_back({map->tiles, map->tiles + w.used});
    }
    if (map->ordered) {
        workspace w = workspace_begin(nullptr);
        order_layout_take(&w, capacity, map->volume);
        spans->push_back({map->order, map->order + w.used});
    }
    if (p->limits.count_pairs) {
        size_t pairs = (size_t)map->volume * sizeof(int32_t);
        spans->push_back({map->pairs, map->pairs + pairs});
    }
    if (map->kept) {
        spans->push_back(map_span(p, map));
    }
}

// How many spans are not aligned, not within [begin, end), or meet another.
int span_faults(const std::vector<span> &spans, size_t begin, size_t end) {
    int faults = 0;
    for (size_t a = 0; a < spans.size(); ++a) {
        faults += spans[a].begin % workspace_alignment != 0;
        faults += spans[a].begin < begin || spans[a].end > end;
        for (size_t b = 0; b < a; ++b) {
            faults += spans_meet(spans[a], spans[b]);
        }
    }
    return faults;
}

// The same for sets, maps, layouts and scratch, which all live to the end; and for maps that pass,
// which stand apart from each other where the features will.
int index_faults(const net_plan *p) {
    std::vector<span> spans, passing;
    for (int s = 1; s < p->sets; ++s) {
        size_t bytes = (size_t)p->set[s].capacity * (size_t)(p->layout.bits / 8);
        spans.push_back({p->set[s].words, p->set[s].words + bytes});
        spans.push_back({p->set[s].count, p->set[s].count + sizeof(int32_t)});
    }
    for (int m = 0; m < p->maps; ++m) {
        spans_of_map(p, &p->map[m], &spans);
        if (map_passes(p, &p->map[m])) {
            passing.push_back(map_span(p, &p->map[m]));
        }
    }
    spans.push_back({p->scratch, p->scratch + p->scratch_bytes});
    spans.push_back({p->fine_scratch, p->fine_scratch + p->fine_scratch_bytes});
    return span_faults(spans, 0, p->index_bytes) +
           span_faults(passing, p->index_bytes, p->workspace_bytes);
}

// How many places are written by both streams of a run: maps of the coarse part that pass, in the
// features of the layers before the first that leaves the finest set.
int overlap_faults(const network *n, const net_plan *p) {
    int faults = 0;
    for (int i = 0; i < n->count; ++i) {
        if (!triple_equal(reference_net_stride(n->layers, i), {1, 1, 1})) {
            break;
        }
        const net_step *step = &p->step[i];
        span features = {step->features, step->features + step->feature_bytes};
        for (int m = 0; m < p->maps; ++m) {
            const net_map *map = &p->map[m];
            bool coarse = map->source > 0 || map->outputs > 0;
            faults += coarse && map_passes(p, map) && spans_meet(map_span(p, map), features);
        }
    }
    return faults;
}

status plan_places(const network *n, const net_limits *limits, net_plan *p) {
    word_layout layout = reference_net_layout<uint64_t>(n, {-64, -64, -64}, {63, 63, 63}, 2);
    return net_plan_host<uint64_t>(n->layers, n->count, &layout, limits, p);
}

enum : uint64_t { all_tiled = 0x5555555555555555, all_ordered = 0xaaaaaaaaaaaaaaaa };

// The same for the device's half of the workspace, where there is no device to say which layouts
// are read. Two bits of `forms` for each map: tiled, ordered.
status plan_device_places(const network *n, const net_limits *limits, uint64_t forms, net_plan *p) {
    word_layout layout = reference_net_layout<uint64_t>(n, {-64, -64, -64}, {63, 63, 63}, 2);
    SPIRA_TRY(net_plan_sets(n->layers, n->count, limits, true, p));
    for (int m = 0; m < p->maps; ++m) {
        p->map[m].tiled = forms >> 2 * (m % 32) & 1;
        p->map[m].ordered = forms >> 2 * (m % 32) & 2;
    }
    return net_plan_place(&layout, 12345, limits->overlap ? 6789 : 0, p);
}

} // namespace

TEST(net_places_never_overlap) {
    random_state r = random_make(2);
    for (int i = 0; i < 400; ++i) {
        network n;
        net_plan plan;
        const char *const known[] = {"MinkUNet42", "SparseResNet21", "SparseResNet-Large"};
        if (i < 12) {
            REQUIRE(networks::network_make(known[i % 3], &n));
        } else {
            reference_net_random(&r, random_int(&r, 1, 40), &n);
        }
        net_limits limits = limits_make(random_int(&r, 1, 1000), n.input_channels);
        bool device = i / 3 % 2;
        limits.type = device ? (numeric)random_int(&r, 0, 3) : numeric_f32;
        limits.count_pairs = random_int(&r, 0, 1);
        limits.keep_all = i % 5 == 4;
        limits.overlap = random_int(&r, 0, 1);
        for (int s = 0; s < net_sets_max; ++s) {
            limits.set_voxels[s] = random_int(&r, 0, 2) ? random_int(&r, 0, 1500) : 0;
        }
        const uint64_t forms[] = {all_tiled, all_ordered, all_tiled | all_ordered, random_u64(&r)};
        if (device) {
            REQUIRE_OK(plan_device_places(&n, &limits, forms[i / 6 % 4], &plan));
        } else {
            REQUIRE_OK(plan_places(&n, &limits, &plan));
        }
        for (int m = 0; m < plan.maps && !device; ++m) { // host plans have the maps alone
            CHECK(plan.map[m].kept && !plan.map[m].tiled && !plan.map[m].ordered);
        }
        CHECK_EQUAL(feature_faults(&n, &plan), 0);
        CHECK_EQUAL(index_faults(&plan), 0);
        CHECK(!limits.overlap || overlap_faults(&n, &plan) == 0);
        CHECK_EQUAL(plan.workspace_bytes, plan.index_bytes + plan.feature_bytes);
        CHECK_EQUAL(plan.set[0].capacity, limits.voxels);
        for (int s = 1; s < plan.sets; ++s) {
            int32_t wanted = limits.set_voxels[s];
            CHECK_EQUAL(plan.set[s].capacity, wanted ? wanted : limits.voxels);
        }
        for (int l = 0; l < n.count; ++l) {
            CHECK_EQUAL(plan.step[l].last_use, last_reader(&n, &limits, l));
            bool pools = n.layers[l].op != net_conv;
            CHECK(!pools || plan.map[plan.step[l].map].kept);
        }
    }
}

// ---- shortcuts ----------------------------------------------------------------------------------

namespace {

enum { block_shortcut = 1, block_first, block_second, block_after, block_layers };

// A residual block whose channels change, and a layer before and after it.
void network_with_shortcut(network *n) {
    n->count = 0;
    n->input_channels = 4;
    networks::network_conv(n, "before", net_input, 64, 3, 1);
    networks::network_block(n, "block", 0, net_none, 64, 96, 3);
    networks::network_conv(n, "after", block_second, 64, 3, 1);
}

// The shortcut of a layer, as the device would have it.
int shortcut_found(const network *n, const net_limits *limits, int layer) {
    static net_plan plan;
    CHECK_OK(net_plan_sets(n->layers, n->count, limits, true, &plan));
    for (int i = 0; i < n->count; ++i) {
        CHECK(plan.step[i].shortcut == net_none && plan.step[i].fused_into == net_none);
        CHECK(i == layer || net_find_shortcut(&plan, i) == net_none);
    }
    return net_find_shortcut(&plan, layer);
}

// A change to the table, and what it makes of its shortcut.
template <typename F>
void check_shortcut(int expected, F change) {
    network n;
    network_with_shortcut(&n);
    net_limits limits = limits_make(100, 4);
    change(n.layers, &limits);
    CHECK_EQUAL(shortcut_found(&n, &limits, block_second), expected);
}

} // namespace

TEST(net_plan_finds_shortcuts) {
    using layers = net_layer *;
    using limit = net_limits *;
    network n;
    network_with_shortcut(&n);
    REQUIRE(n.count == block_layers && n.layers[block_second].residual == block_shortcut);
    check_shortcut(block_shortcut, [](layers, limit) {});
    check_shortcut(block_shortcut, [](layers l, limit) {
        l[block_shortcut].norm = false;
        l[block_shortcut].bias = true;
        l[block_shortcut].source2 = net_input;
        l[block_second].act = activation_leaky;
    });
    check_shortcut(block_shortcut, [](layers l, limit) { l[block_second].keep = true; });
    check_shortcut(block_shortcut, [](layers l, limit) { l[block_shortcut].source = net_input; });
    check_shortcut(block_shortcut, [](layers l, limit) { l[block_second].size = {1, 1, 1}; });
    check_shortcut(block_shortcut, [](layers, limit s) {
        s->keep_all = true;
        s->shortcuts = net_shortcuts_hidden;
    });
    check_shortcut(block_shortcut, [](layers, limit s) { s->shortcuts = net_shortcuts_hidden; });
    // It has an activation, a residual, an extent, a stride; it is kept, or read elsewhere.
    check_shortcut(net_none, [](layers l, limit) { l[block_shortcut].act = activation_relu; });
    check_shortcut(net_none, [](layers l, limit) { l[block_shortcut].act = activation_leaky; });
    check_shortcut(net_none, [](layers l, limit) {
        l[0].channels = 96;
        l[block_shortcut].residual = 0;
    });
    check_shortcut(net_none, [](layers l, limit) { l[block_shortcut].size = {1, 1, 3}; });
    check_shortcut(net_none, [](layers l, limit) {
        l[block_shortcut].stride = l[block_first].stride = {2, 2, 2};
    });
    check_shortcut(net_none, [](layers l, limit) { l[block_shortcut].keep = true; });
    check_shortcut(net_none, [](layers, limit s) { s->keep_all = true; });
    check_shortcut(net_none, [](layers, limit s) { s->shortcuts = net_shortcuts_apart; });
    check_shortcut(net_none, [](layers, limit s) {
        s->keep_all = true;
        s->shortcuts = net_shortcuts_apart;
    });
    check_shortcut(net_none, [](layers l, limit) { l[block_first].source = block_shortcut; });
    check_shortcut(net_none, [](layers l, limit) { l[block_first].source2 = block_shortcut; });
    check_shortcut(net_none, [](layers l, limit) { l[block_first].residual = block_shortcut; });
    check_shortcut(net_none, [](layers l, limit) { l[block_second].source = block_shortcut; });
    check_shortcut(net_none, [](layers l, limit) { l[block_second].source2 = block_shortcut; });
    check_shortcut(net_none, [](layers l, limit) { l[block_after].source = block_shortcut; });
    check_shortcut(net_none, [](layers l, limit) {
        l[block_after].channels = 96;
        l[block_after].residual = block_shortcut;
    });
    check_shortcut(net_none, [](layers l, limit) {
        l[block_after].op = net_pool_max;
        l[block_after].source = block_shortcut;
        l[block_after].channels = 0;
        l[block_after].norm = false;
        l[block_after].act = activation_none;
    });
    // What is added is no convolution, or no layer.
    check_shortcut(net_none, [](layers l, limit) {
        l[0].channels = 96;
        l[block_second].residual = 0;
    });
    check_shortcut(net_none, [](layers l, limit) { l[block_second].residual = net_none; });
    check_shortcut(net_none, [](layers l, limit s) {
        s->channels = 96;
        l[block_second].residual = net_input;
    });
    check_shortcut(net_none, [](layers l, limit) {
        l[0].channels = 96;
        l[block_shortcut].op = net_pool_average;
        l[block_shortcut].size = {3, 3, 3};
        l[block_shortcut].channels = 0;
        l[block_shortcut].norm = false;
    });
}

namespace {

// All shortcuts of a table are joined. Returns how many there are.
int plan_joined_places(const network *n, const net_limits *limits, net_plan *p) {
    int joined = 0;
    word_layout layout = reference_net_layout<uint64_t>(n, {-64, -64, -64}, {63, 63, 63}, 2);
    CHECK_OK(net_plan_sets(n->layers, n->count, limits, true, p));
    for (int m = 0; m < p->maps; ++m) {
        p->map[m].ordered = true;
    }
    for (int i = 0; i < n->count; ++i) {
        const int s = net_find_shortcut(p, i);
        if (s != net_none) {
            net_join_shortcut(p, i, s);
            CHECK(p->step[i].shortcut == s && p->step[s].fused_into == i);
            ++joined;
        }
    }
    CHECK_OK(net_plan_place(&layout, 12345, limits->overlap ? 6789 : 0, p));
    return joined;
}

} // namespace

// What a shortcut reads lives until the layer that adds it; it has no features of its own.
TEST(net_places_with_shortcuts) {
    static net_plan plan;
    random_state r = random_make(31);
    int found = 0;
    for (int i = 0; i < 300; ++i) {
        network n;
        const bool known = i < 12;
        if (known) {
            REQUIRE(networks::network_make(i % 3 ? "MinkUNet42" : "SparseResNet21", &n));
        } else {
            reference_net_random(&r, random_int(&r, 1, 20), &n);
            for (int block = random_int(&r, 1, 4); block > 0; --block) {
                const int last = n.count - 1, from = reference_net_channels(&n, last);
                networks::network_block(&n, "block", last, net_none, from,
                                        from + random_int(&r, 1, 9), random_int(&r, 1, 3));
            }
        }
        net_limits limits = limits_make(random_int(&r, 1, 1000), n.input_channels);
        limits.type = numeric_f16;
        limits.keep_all = i % 5 == 4;
        limits.shortcuts = limits.keep_all ? net_shortcuts_hidden : net_shortcuts_within;
        limits.overlap = random_int(&r, 0, 1);
        const int joined = plan_joined_places(&n, &limits, &plan);
        CHECK(!known || joined == (i % 3 ? 7 : 0));
        found += known ? 0 : joined;
        CHECK_EQUAL(feature_faults(&n, &plan), 0);
        CHECK_EQUAL(index_faults(&plan), 0);
        CHECK(!limits.overlap || overlap_faults(&n, &plan) == 0);
        for (int l = 0; l < n.count; ++l) {
            const bool own = plan.step[l].fused_into == net_none;
            CHECK_EQUAL(plan.step[l].last_use, own ? last_reader_in(&n, &plan, l) : l);
        }
    }
    CHECK(found > 400);
}

// Lifetimes are there to save memory.
TEST(net_places_are_shared) {
    network n;
    net_plan kept, shared;
    REQUIRE(networks::network_make("MinkUNet42", &n));
    net_limits limits = limits_make(1000, 4);
    REQUIRE_OK(plan_places(&n, &limits, &shared));
    limits.keep_all = true;
    REQUIRE_OK(plan_places(&n, &limits, &kept));
    CHECK_EQUAL(shared.index_bytes, kept.index_bytes);
    CHECK(shared.feature_bytes * 4 < kept.feature_bytes);
    size_t all = 0, largest = 0;
    for (int i = 0; i < n.count; ++i) {
        all += kept.step[i].feature_bytes;
        size_t live = 0; // with layer i
        for (int j = 0; j <= i; ++j) {
            live += last_reader(&n, &shared.limits, j) >= i ? shared.step[j].feature_bytes : 0;
        }
        largest = std::max(largest, live);
    }
    CHECK_EQUAL(kept.feature_bytes, all);
    CHECK(shared.feature_bytes >= largest && shared.feature_bytes <= largest * 3 / 2);
}

namespace {

// Bytes of the maps that pass, each rounded up.
size_t passing_bytes(const net_plan *p) {
    size_t bytes = 0;
    for (int m = 0; m < p->maps; ++m) {
        span s = map_span(p, &p->map[m]);
        int64_t own = map_passes(p, &p->map[m]) ? (int64_t)(s.end - s.begin) : 0;
        bytes += (size_t)round_up(own, workspace_alignment);
    }
    return bytes;
}

// Against a plan without maps that pass. Returns whether the features alone take more than these.
bool check_passing(const network *n, bool count_pairs) {
    net_plan passing, without;
    net_limits limits = limits_make(1000, n->input_channels);
    limits.type = numeric_f16;
    CHECK_OK(plan_device_places(n, &limits, all_tiled, &without));
    CHECK_EQUAL(passing_bytes(&without), 0u);
    limits.count_pairs = count_pairs;
    CHECK_OK(plan_device_places(n, &limits, count_pairs ? all_tiled : all_ordered, &passing));
    CHECK(passing_bytes(&passing) > 0);
    CHECK_EQUAL(passing.feature_bytes, std::max(without.feature_bytes, passing_bytes(&passing)));
    CHECK_EQUAL(passing.workspace_bytes, passing.index_bytes + passing.feature_bytes);
    for (int i = 0; i < n->count; ++i) { // features do not make way
        CHECK_EQUAL(passing.step[i].features - passing.index_bytes,
                    without.step[i].features - without.index_bytes);
    }
    return without.feature_bytes > passing_bytes(&passing);
}

} // namespace

// Maps that pass cost nothing where the features take more, and else the difference.
TEST(net_places_of_passing_maps) {
    for (bool count_pairs : {false, true}) {
        network n;
        network_plain(&n); // 8 channels
        CHECK(!check_passing(&n, count_pairs));
        REQUIRE(networks::network_make("MinkUNet42", &n));
        CHECK(check_passing(&n, count_pairs));
        reference_net_zoo(&n); // pools: some maps stay
        check_passing(&n, count_pairs);
    }
}

// How many layers run before the coarse part of the index is there.
TEST(net_plan_fine_layers) {
    network n;
    net_plan plan;
    const struct {
        const char *name;
        int layers;
    } known[] = {{"MinkUNet42", 2}, {"SparseResNet21", 5}, {"SparseResNet-Large", 5}};
    for (const auto &k : known) {
        REQUIRE(networks::network_make(k.name, &n));
        REQUIRE_OK(plan_sets(&n, &plan));
        CHECK_EQUAL(net_fine_layers(&plan), k.layers);
    }
    reference_net_zoo(&n);
    REQUIRE_OK(plan_sets(&n, &plan));
    CHECK_EQUAL(net_fine_layers(&plan), 2);
    network_plain(&n);
    REQUIRE_OK(plan_sets(&n, &plan));
    CHECK_EQUAL(net_fine_layers(&plan), 1);
    n.layers[0].stride = {1, 1, 2};
    REQUIRE_OK(plan_sets(&n, &plan));
    CHECK_EQUAL(net_fine_layers(&plan), 0);
    n.count = 0;
    networks::network_conv(&n, "a", net_input, 8, 3, 1);
    networks::network_conv(&n, "b", 0, 8, 1, 1); // without a map
    networks::network_conv(&n, "c", 1, 8, 5, 1);
    REQUIRE_OK(plan_sets(&n, &plan));
    CHECK_EQUAL(net_fine_layers(&plan), 3);
}

// With overlap, maps of the coarse part make way for the first layers; features never do.
TEST(net_places_with_overlap) {
    const struct {
        const char *name;
        bool meet;         // features of the first layers reach beyond the map of the finest set,
        bool meet_compact; // and beyond its compact form
    } known[] = {{"MinkUNet42", true, true},
                 {"SparseResNet21", false, true},
                 {"SparseResNet-Large", false, false}};
    for (const auto &k : known) {
        for (bool count_pairs : {false, true}) {
            network n;
            net_plan plain, beside;
            REQUIRE(networks::network_make(k.name, &n));
            net_limits limits = limits_make(1000, 4);
            limits.type = numeric_f16;
            limits.count_pairs = count_pairs;
            REQUIRE_OK(plan_device_places(&n, &limits, all_ordered, &plain));
            limits.overlap = true;
            REQUIRE_OK(plan_device_places(&n, &limits, all_ordered, &beside));
            CHECK_EQUAL(overlap_faults(&n, &plain) > 0, count_pairs ? k.meet : k.meet_compact);
            CHECK_EQUAL(overlap_faults(&n, &beside), 0);
            CHECK_EQUAL(plain.fine_scratch_bytes, 0u);
            CHECK_EQUAL(beside.fine_scratch_bytes, 6789u);
            CHECK_EQUAL(beside.index_bytes - plain.index_bytes,
                        (size_t)round_up(6789, workspace_alignment));
            for (int i = 0; i < n.count; ++i) {
                CHECK_EQUAL(beside.step[i].features - beside.index_bytes,
                            plain.step[i].features - plain.index_bytes);
            }
            size_t first = 0; // of the layers that the coarse maps make way for
            for (int i = 0; i < net_fine_layers(&beside); ++i) {
                first += beside.step[i].feature_bytes;
            }
            CHECK(beside.feature_bytes <= plain.feature_bytes + first);
        }
    }
}

// Each map's places, one after the other.
static void check_planted_places(const net_plan *good, int m) {
    const net_map *map = &good->map[m];
    net_plan bad = *good;
    if (map->tiled) {
        bad.map[m].tiles -= workspace_alignment;
        CHECK(index_faults(&bad) > 0);
    }
    bad = *good;
    if (map->ordered) {
        bad.map[m].order -= workspace_alignment;
        CHECK(index_faults(&bad) > 0);
    }
    bad = *good;
    if (m > 0) {
        bad.map[m].pairs = bad.map[m - 1].pairs;
        CHECK(index_faults(&bad) > 0);
    }
    bad = *good;
    bad.map[m].map = bad.map[m ? m - 1 : 1].map;
    CHECK(index_faults(&bad) > 0);
    bad = *good;
    bad.map[m].map = 0; // in the place of the sets
    CHECK(index_faults(&bad) > 0);
    bad = *good;
    bad.map[m].map += bad.feature_bytes; // beyond the end
    CHECK(index_faults(&bad) > 0);
}

TEST(net_places_check_finds_planted_faults) {
    network n;
    net_plan good, bad;
    REQUIRE(networks::network_make("MinkUNet42", &n));
    net_limits limits = limits_make(1000, 4);
    limits.count_pairs = true;
    REQUIRE_OK(plan_device_places(&n, &limits, 0xe4e4e4e4e4e4e4e4, &good)); // all four in turns
    REQUIRE(feature_faults(&n, &good) == 0 && index_faults(&good) == 0);
    for (int i = 1; i < n.count; ++i) { // each layer onto the one that it reads
        bad = good;
        bad.step[i].features = bad.step[n.layers[i].source].features;
        CHECK(feature_faults(&n, &bad) > 0);
        bad = good;
        bad.step[i].features += bad.feature_bytes;
        CHECK(feature_faults(&n, &bad) > 0);
    }
    for (int m = 0; m < good.maps; ++m) {
        check_planted_places(&good, m);
    }
    bad = good;
    bad.scratch -= workspace_alignment;
    CHECK(index_faults(&bad) > 0);
    bad = good;
    bad.set[3].count = bad.set[2].count;
    CHECK(index_faults(&bad) > 0);
    limits.overlap = true;
    REQUIRE_OK(plan_device_places(&n, &limits, all_ordered, &good));
    REQUIRE(index_faults(&good) == 0 && overlap_faults(&n, &good) == 0);
    bad = good;
    bad.fine_scratch -= workspace_alignment;
    CHECK(index_faults(&bad) > 0);
    for (int m = 0; m < good.maps; ++m) {
        for (int layer : {0, 1}) {
            bad = good;
            bad.map[m].map = bad.step[layer].features;
            bool fine = bad.map[m].source == 0 && bad.map[m].outputs == 0;
            CHECK_EQUAL(overlap_faults(&n, &bad) > 0, !fine);
        }
    }
}

// ---- running ------------------------------------------------------------------------------------

namespace {

const triple scene_lo = {-20, -11, -9}, scene_hi = {21, 14, 8};

// Random voxels in the bounds above.
template <typename W>
std::vector<W> scene_words(random_state *r, const word_layout *layout, int32_t count) {
    std::vector<W> words((size_t)count + 1);
    int32_t got =
        reference_random_set(r, layout, scene_lo, scene_hi, {1, 1, 1}, count, words.data());
    CHECK_EQUAL(got, count);
    words.resize((size_t)count);
    return words;
}

std::vector<float> values_random(uint64_t seed, int64_t count) {
    random_state r = random_make(seed);
    std::vector<float> values((size_t)count + 1);
    reference_random_values(&r, numeric_f32, 1, count, values.data());
    return values;
}

std::vector<float> params_random(const net_plan *plan) {
    std::vector<float> params((size_t)plan->params + 1);
    networks::network_weights(plan, 3, params.data());
    return params;
}

// One run of a network on the host, in memory of exactly its size.
template <typename W>
struct host_run {
    std::unique_ptr<net_plan> plan;
    voxel_set<W> input;
    device_status trouble;
    char *memory;
};

template <typename W>
host_run<W> run_host(const network *n, const word_layout *layout, const net_limits *limits,
                     const std::vector<W> &words, const float *features, const float *params) {
    host_run<W> r;
    r.plan.reset(new net_plan);
    r.trouble = {};
    CHECK_OK(net_plan_host<W>(n->layers, n->count, layout, limits, r.plan.get()));
    r.input = {guarded_new<W>(limits->voxels), guarded_new<int32_t>(1), limits->voxels};
    std::fill(r.input.words, r.input.words + limits->voxels, word_none<W>());
    std::copy(words.begin(), words.end(), r.input.words);
    *r.input.count = (int32_t)words.size();
    size_t bytes = r.plan->workspace_bytes;
    r.memory = guarded_new<char>((int64_t)bytes);
    CHECK_OK(net_run_host(r.plan.get(), r.input, features, params, &r.trouble, r.memory, bytes));
    return r;
}

// What the judges of reference_net.h want to know of a run that kept all features.
template <typename W>
reference_net_run<W> run_judged(const network *n, const host_run<W> *r, const float *features,
                                const float *params) {
    reference_net_run<W> j;
    j.net = n;
    j.plan = r->plan.get();
    j.sets = reference_net_index(j.plan, r->input.words, *r->input.count);
    j.params = params;
    j.feature[0] = features;
    for (int i = 0; i < n->count; ++i) {
        j.feature[1 + i] = r->memory + r->plan->step[i].features;
    }
    return j;
}

// Sets, maps and pairs of a run are those that follow from its input.
template <typename W>
void check_index(const host_run<W> *r, const reference_net_run<W> *j) {
    const net_plan *p = j->plan;
    for (int s = 1; s < p->sets; ++s) {
        voxel_set<W> set = net_voxels(p, s, r->input, r->memory);
        const std::vector<W> &expected = j->sets.set[s];
        CHECK_EQUAL(set.capacity, p->set[s].capacity);
        REQUIRE(CHECK_EQUAL(*set.count, (int32_t)expected.size()));
        CHECK(std::equal(expected.begin(), expected.end(), set.words));
        for (int32_t i = *set.count; i < set.capacity; ++i) {
            CHECK_EQUAL(set.words[i], word_none<W>());
        }
    }
    for (int i = 0; i < j->net->count; ++i) {
        const net_step *step = &p->step[i];
        if (step->map == net_none) {
            continue;
        }
        const net_map *m = &p->map[step->map];
        std::vector<int32_t> map = reference_net_map(j->net, p, &j->sets, i);
        size_t count = map.size() - 1;
        CHECK_EQUAL(memcmp(r->memory + m->map, map.data(), count * sizeof(int32_t)), 0);
        for (int k = 0; k < m->volume && p->limits.count_pairs; ++k) {
            int32_t pairs = 0;
            for (size_t o = (size_t)k; o < count; o += (size_t)m->volume) {
                pairs += map[o] >= 0;
            }
            CHECK_EQUAL(((const int32_t *)(r->memory + m->pairs))[k], pairs);
        }
    }
}

// Nothing is written behind the rows of the voxels.
template <typename W>
void check_spare_rows(const host_run<W> *r, const reference_net_run<W> *j) {
    for (int i = 0; i < j->net->count; ++i) {
        int64_t channels = reference_net_channels(j->net, i);
        CHECK(guarded_untouched((const float *)j->feature[1 + i],
                                reference_net_voxels(j, i) * channels,
                                r->plan->set[r->plan->step[i].set].capacity * channels));
    }
}

// Runs a network with all features kept and judges each layer; again with shared memory, which
// must not change the last layer's and the kept ones' features.
template <typename W>
void check_network(network *n, int32_t count, int32_t capacity, uint64_t seed) {
    random_state r = random_make(seed);
    word_layout layout = reference_net_layout<W>(n, scene_lo, scene_hi, 2);
    std::vector<W> words = scene_words<W>(&r, &layout, count);
    net_limits limits = limits_make(capacity, n->input_channels);
    limits.keep_all = limits.count_pairs = true;
    std::unique_ptr<net_plan> plan(new net_plan);
    REQUIRE_OK(net_plan_host<W>(n->layers, n->count, &layout, &limits, plan.get()));
    std::vector<float> features = values_random(seed, (int64_t)capacity * n->input_channels),
                       params = params_random(plan.get());
    host_run<W> kept = run_host(n, &layout, &limits, words, features.data(), params.data());
    CHECK_OK(device_status_read(&kept.trouble));
    reference_net_run<W> judged = run_judged(n, &kept, features.data(), params.data());
    check_index(&kept, &judged);
    check_spare_rows(&kept, &judged);
    CHECK(reference_net_good(&judged, true));

    limits.keep_all = limits.count_pairs = false;
    host_run<W> shared = run_host(n, &layout, &limits, words, features.data(), params.data());
    for (int i = 0; i < n->count; ++i) {
        size_t bytes = (size_t)reference_net_voxels(&judged, i) *
                       (size_t)reference_net_channels(n, i) * sizeof(float);
        if (n->layers[i].keep || i == n->count - 1) {
            CHECK_EQUAL(
                memcmp(judged.feature[1 + i], shared.memory + shared.plan->step[i].features, bytes),
                0);
        }
    }
    guarded_finish();
}

} // namespace

TEST(net_host_zoo) {
    network n;
    reference_net_zoo(&n);
    check_network<uint32_t>(&n, 700, 1000, 1);
    check_network<uint64_t>(&n, 1300, 1300, 2);
}

TEST(net_host_known_networks) {
    network n;
    int32_t voxels = test_quick() ? 100 : 500;
    REQUIRE(networks::network_make("MinkUNet42", &n));
    check_network<uint32_t>(&n, voxels, voxels + 100, 3);
    REQUIRE(networks::network_make("SparseResNet21", &n));
    check_network<uint64_t>(&n, voxels, voxels + 1, 4);
    if (!test_quick()) {
        REQUIRE(networks::network_make("SparseResNet-Large", &n));
        check_network<uint32_t>(&n, voxels, voxels, 5);
    }
}

TEST(net_host_random_networks) {
    random_state r = random_make(6);
    for (int i = 0; i < (test_quick() ? 10 : 100); ++i) {
        network n;
        reference_net_random(&r, random_int(&r, 1, 25), &n);
        int32_t count = random_int(&r, 0, 200), capacity = count + random_int(&r, 1, 20);
        i % 2 ? check_network<uint32_t>(&n, count, capacity, random_u64(&r))
              : check_network<uint64_t>(&n, count, capacity, random_u64(&r));
    }
}

// A frame without voxels, and one with a single voxel.
TEST(net_host_empty_and_single) {
    for (const char *name : {"zoo", "MinkUNet42", "SparseResNet21"}) {
        network n;
        if (!networks::network_make(name, &n)) {
            reference_net_zoo(&n);
        }
        for (int32_t count : {0, 1}) {
            for (int32_t capacity : {1, 1500}) {
                check_network<uint32_t>(&n, count, capacity, 7);
                check_network<uint64_t>(&n, count, capacity, 8);
            }
        }
    }
}

// The judges find a weight that is not the one that was used, and a layer that was left out.
TEST(net_host_judges_find_planted_errors) {
    network n;
    reference_net_zoo(&n);
    random_state r = random_make(9);
    word_layout layout = reference_net_layout<uint32_t>(&n, scene_lo, scene_hi, 1);
    std::vector<uint32_t> words = scene_words<uint32_t>(&r, &layout, 600);
    net_limits limits = limits_make(600, n.input_channels);
    limits.keep_all = true;
    net_plan plan;
    REQUIRE_OK(net_plan_host<uint32_t>(n.layers, n.count, &layout, &limits, &plan));
    std::vector<float> features = values_random(1, 600 * 5), params = params_random(&plan);
    host_run<uint32_t> run = run_host(&n, &layout, &limits, words, features.data(), params.data());
    reference_net_run<uint32_t> good = run_judged(&n, &run, features.data(), params.data());
    REQUIRE(reference_net_good(&good, true));
    for (int i = 0; i < n.count; ++i) {
        net_params at = reference_net_params(&n, i);
        int found = 0, planted = 0; // not all: a channel may be 0 everywhere
        for (; at.end > at.weight && planted < 16; ++planted) {
            std::vector<float> wrong = params;
            int64_t from = planted % 4 == 0 && at.end > at.vectors ? at.vectors : at.weight;
            wrong[(size_t)random_int(&r, (int)from, (int)at.end - 1)] += 0.01f;
            reference_net_run<uint32_t> bad = good;
            bad.params = wrong.data();
            double plainly = reference_net_judge(&bad, i, true).ratio;
            CHECK_EQUAL(plainly > 1, reference_net_judge(&bad, i, false).ratio > 1);
            found += plainly > 1;
        }
        CHECK(found >= planted * 3 / 4);
        // One value that is off in its last digits.
        float *value = (float *)(run.memory + plan.step[i].features), kept = value[7];
        value[7] += std::max(fabsf(kept), 0.1f) * 1e-3f;
        CHECK(reference_net_judge(&good, i, true).ratio > 1);
        value[7] = kept;
        // The features of another source.
        reference_net_run<uint32_t> bad = good;
        std::vector<float> zeros((size_t)600 * 20);
        bad.feature[1 + n.layers[i].source] = zeros.data();
        CHECK(reference_net_judge(&bad, i, true).ratio > 1);
    }
    CHECK(reference_net_good(&good, true));
}

// Two scenes as two batches of one frame: to the bit what each of them gives alone.
TEST(net_host_batches_are_independent) {
    for (const char *name : {"zoo", "SparseResNet21"}) {
        network n;
        if (!networks::network_make(name, &n)) {
            reference_net_zoo(&n);
        }
        random_state r = random_make(10);
        const int32_t each = 400;
        word_layout layout = reference_net_layout<uint64_t>(&n, scene_lo, scene_hi, 2);
        word_layout single = layout;
        single.batches = 1;
        std::vector<uint64_t> words[2], both;
        std::vector<float> features[2], both_features;
        for (int b = 0; b < 2; ++b) {
            words[b] = scene_words<uint64_t>(&r, &single, each - b);
            features[b] = values_random((uint64_t)b, (each - b) * n.input_channels);
            features[b].pop_back();
            both_features.insert(both_features.end(), features[b].begin(), features[b].end());
            for (uint64_t word : words[b]) {
                voxel v = word_unpack(&layout, word);
                REQUIRE(v.batch == 0);
                v.batch = b;
                both.push_back(word_pack<uint64_t>(&layout, v));
            }
        }
        net_limits limits = limits_make(2 * each, n.input_channels);
        limits.keep_all = true;
        std::unique_ptr<net_plan> plan(new net_plan);
        REQUIRE_OK(net_plan_host<uint64_t>(n.layers, n.count, &layout, &limits, plan.get()));
        std::vector<float> params = params_random(plan.get());
        host_run<uint64_t> together =
            run_host(&n, &layout, &limits, both, both_features.data(), params.data());
        int64_t first[net_layers_max] = {};
        for (int b = 0; b < 2; ++b) {
            host_run<uint64_t> alone =
                run_host(&n, &layout, &limits, words[b], features[b].data(), params.data());
            for (int i = 0; i < n.count; ++i) {
                const net_step *step = &plan->step[i];
                int64_t count = *net_voxels(plan.get(), step->set, alone.input, alone.memory).count;
                const float *got = (const float *)(together.memory + step->features),
                            *expected = (const float *)(alone.memory + step->features);
                CHECK_EQUAL(memcmp(got + first[i] * step->channels, expected,
                                   (size_t)(count * step->channels) * sizeof(float)),
                            0);
                first[i] += count;
            }
        }
        for (int i = 0; i < n.count; ++i) {
            CHECK_EQUAL(
                first[i],
                *net_voxels(plan.get(), plan->step[i].set, together.input, together.memory).count);
        }
        guarded_finish();
    }
}

// A coarse set that does not fit is cut off and said; what was computed is right for what is left.
TEST(net_host_set_capacity_passed) {
    for (int32_t room : {1, 37, 200}) {
        network n;
        reference_net_zoo(&n);
        random_state r = random_make(11);
        word_layout layout = reference_net_layout<uint32_t>(&n, scene_lo, scene_hi, 1);
        std::vector<uint32_t> words = scene_words<uint32_t>(&r, &layout, 900);
        net_limits limits = limits_make(900, n.input_channels);
        limits.keep_all = true;
        limits.set_voxels[1] = room;
        net_plan plan;
        REQUIRE_OK(net_plan_host<uint32_t>(n.layers, n.count, &layout, &limits, &plan));
        std::vector<float> features = values_random(2, 900 * 5), params = params_random(&plan);
        host_run<uint32_t> run =
            run_host(&n, &layout, &limits, words, features.data(), params.data());
        reference_net_run<uint32_t> judged = run_judged(&n, &run, features.data(), params.data());
        status s = device_status_read(&run.trouble);
        CHECK_STATUS(s, status_capacity);
        CHECK_EQUAL(s.detail, judged.sets.needed);
        CHECK(judged.sets.needed > room);
        CHECK_EQUAL(judged.sets.set[1].size(), (size_t)room);
        check_index(&run, &judged);
        CHECK(reference_net_good(&judged, true));
        guarded_finish();
    }
}

// Runs once more, in what a run has left, with another count of the input. Returns the outputs that
// count, of all layers.
template <typename W>
std::vector<float> run_counted(const network *n, host_run<W> *run, int32_t count,
                               const float *features, const float *params) {
    std::vector<float> all;
    run->trouble = {};
    *run->input.count = count;
    CHECK_OK(net_run_host(run->plan.get(), run->input, features, params, &run->trouble, run->memory,
                          run->plan->workspace_bytes));
    for (int i = 0; i < n->count; ++i) {
        const net_step *step = &run->plan->step[i];
        const int64_t rows =
            voxel_set_count(net_voxels(run->plan.get(), step->set, run->input, run->memory));
        const float *own = (const float *)(run->memory + step->features);
        all.insert(all.end(), own, own + rows * step->channels);
    }
    return all;
}

// A count of the input beyond its capacity is said, and taken for that; of a negative one there are
// no voxels.
TEST(net_host_input_count_passed) {
    network networks[2] = {};
    reference_net_zoo(&networks[0]);
    networks[1].input_channels = 3; // one set
    networks::network_conv(&networks[1], "alone", net_input, 4, 3, 1);
    for (const network &n : networks) {
        random_state r = random_make(13);
        word_layout layout = reference_net_layout<uint32_t>(&n, scene_lo, scene_hi, 1);
        std::vector<uint32_t> words = scene_words<uint32_t>(&r, &layout, 300);
        const int32_t most = (int32_t)words.size();
        net_limits limits = limits_make(most, n.input_channels);
        limits.keep_all = limits.count_pairs = true;
        net_plan plan;
        REQUIRE_OK(net_plan_host<uint32_t>(n.layers, n.count, &layout, &limits, &plan));
        std::vector<float> features = values_random(3, most * n.input_channels);
        std::vector<float> params = params_random(&plan);
        host_run<uint32_t> run =
            run_host(&n, &layout, &limits, words, features.data(), params.data());
        const auto counted = [&](int32_t count) {
            return run_counted(&n, &run, count, features.data(), params.data());
        };
        const std::vector<float> all = counted(most);
        CHECK_EQUAL(run.trouble.flags, 0u);
        for (int32_t count : {most + 1, 5 * most, INT32_MAX}) {
            CHECK(counted(count) == all);
            CHECK_EQUAL(run.trouble.flags, (uint32_t)device_flag_capacity);
            CHECK_EQUAL(run.trouble.needed, (uint32_t)count);
        }
        CHECK(counted(-3).empty() && counted(INT32_MIN).empty());
        CHECK_EQUAL(run.trouble.flags, 0u);
        guarded_finish();
    }
}

// ---- what running refuses -----------------------------------------------------------------------

TEST(net_host_run_refuses) {
    network n;
    reference_net_zoo(&n);
    random_state r = random_make(12);
    word_layout layout = reference_net_layout<uint32_t>(&n, scene_lo, scene_hi, 1);
    std::vector<uint32_t> words = scene_words<uint32_t>(&r, &layout, 50);
    net_limits limits = limits_make(50, n.input_channels);
    net_plan plan, other;
    REQUIRE_OK(net_plan_host<uint32_t>(n.layers, n.count, &layout, &limits, &plan));
    std::vector<float> features = values_random(3, 50 * 5), params = params_random(&plan);
    const float *f = features.data(), *q = params.data();
    const size_t bytes = plan.workspace_bytes;
    char *memory = guarded_new<char>((int64_t)bytes + 1);
    int32_t count = 50;
    const voxel_set<uint32_t> good = {words.data(), &count, 50};
    voxel_set<uint32_t> set;
    device_status trouble = {};

    status s = net_run_host(&plan, good, f, q, &trouble, memory, bytes - 1);
    CHECK_STATUS(s, status_workspace);
    CHECK_EQUAL(s.detail, bytes);
    CHECK_STATUS(net_run_host(&plan, good, f, q, &trouble, memory, 0), status_workspace);
    CHECK_STATUS(net_run_host(&plan, good, f, q, &trouble, memory + 1, bytes), status_alignment);
    CHECK_STATUS(net_run_host(&plan, good, f, q, &trouble, nullptr, bytes), status_null_pointer);
    CHECK_STATUS(net_run_host<uint32_t>(nullptr, good, f, q, &trouble, memory, bytes),
                 status_null_pointer);
    CHECK_STATUS(net_run_host(&plan, good, nullptr, q, &trouble, memory, bytes),
                 status_null_pointer);
    CHECK_STATUS(net_run_host(&plan, good, f, nullptr, &trouble, memory, bytes),
                 status_null_pointer);
    CHECK_STATUS(net_run_host(&plan, good, f, q, nullptr, memory, bytes), status_null_pointer);
    set = good;
    set.words = nullptr;
    CHECK_STATUS(net_run_host(&plan, set, f, q, &trouble, memory, bytes), status_null_pointer);
    set = good;
    set.count = nullptr;
    CHECK_STATUS(net_run_host(&plan, set, f, q, &trouble, memory, bytes), status_null_pointer);
    for (int32_t capacity : {49, 51}) {
        set = good;
        set.capacity = capacity;
        s = net_run_host(&plan, set, f, q, &trouble, memory, bytes);
        CHECK_STATUS(s, status_capacity);
        CHECK_EQUAL(s.detail, 50);
    }
    set.capacity = 0;
    CHECK_STATUS(net_run_host(&plan, set, f, q, &trouble, memory, bytes), status_bad_size);
    uint64_t wide = 0;
    voxel_set<uint64_t> other_words = {&wide, &count, 50};
    CHECK_STATUS(net_run_host(&plan, other_words, f, q, &trouble, memory, bytes),
                 status_unsupported);
    other = plan;
    other.device = true;
    CHECK_STATUS(net_run_host(&other, good, f, q, &trouble, memory, bytes), status_unsupported);
    CHECK(guarded_untouched(memory, 0, (int64_t)bytes + 1));
    CHECK_OK(net_run_host(&plan, good, f, q, &trouble, memory, bytes));
    CHECK(guarded_untouched(memory, (int64_t)bytes, (int64_t)bytes + 1));
    CHECK_OK(device_status_read(&trouble));
}

// A layout that was fitted to smaller strides than the network has is refused, not used.
TEST(net_host_refuses_a_layout_of_smaller_strides) {
    network n;
    n.count = 0;
    n.input_channels = 3;
    networks::network_conv(&n, "down", net_input, 4, 1, 8);
    n.layers[0].size.x = 2;
    word_layout layout =
        reference_layout<uint32_t>({-5, -5, -5}, {10, 10, 10}, 1, {2, 2, 2}, {4, 4, 4});
    net_limits limits = limits_make(10, 3);
    net_plan plan;
    status s = net_plan_host<uint32_t>(n.layers, n.count, &layout, &limits, &plan);
    CHECK_STATUS(s, status_stride);
    CHECK_EQUAL(s.detail, 8);
    n.layers[0].stride = {2, 2, 2};
    CHECK_OK(net_plan_host<uint32_t>(n.layers, n.count, &layout, &limits, &plan));
    reference_net_zoo(&n); // strides 4 and 6 along z: a bias that is a multiple of 6 is none of 4
    layout = reference_layout<uint32_t>(scene_lo, scene_hi, 1, {4, 4, 6}, {4, 4, 4});
    limits = limits_make(10, n.input_channels);
    s = net_plan_host<uint32_t>(n.layers, n.count, &layout, &limits, &plan);
    CHECK_STATUS(s, status_stride);
    CHECK_EQUAL(s.detail, 4);
}
