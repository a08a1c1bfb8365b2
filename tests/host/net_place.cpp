// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/host/net_place.cpp: net/place.h: the places of all arrays of a plan, and lifetimes; which
// shortcuts are fused.
#include "../support/net_plans.h"
#include "../support/net_tables.h"

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
        bool reads = net_number(l->source) == layer || net_number(l->source2) == layer ||
                     net_number(l->residual) == layer;
        last = reads && last < i ? i : last;
    }
    return last;
}

// And in a plan: a shortcut's sources are read by the layer that it is computed within.
int last_reader_in(const network *n, const net_plan *p, int layer) {
    int last = last_reader(n, &p->limits, layer);
    for (int i = layer + 1; i < n->count; ++i) {
        bool reads =
            net_number(n->layers[i].source) == layer || net_number(n->layers[i].source2) == layer;
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
bool map_is_temporary(const net_plan *p, const net_map *map) {
    return !map->kept && (map->ordered || p->limits.count_pairs);
}

// A cube of 3 or 5 that is only put in order passes in its compact form.
bool map_is_compact(const net_plan *p, const net_map *map) {
    const triple size = map->kernel.size;
    return map_is_temporary(p, map) && !p->limits.count_pairs && size.x == size.y &&
           size.y == size.z && (size.x == 3 || size.x == 5) && map->kernel.dilation.z == 1 &&
           (map->kernel.stride.z & (map->kernel.stride.z - 1)) == 0 && !map->kernel.transposed;
}

span map_span(const net_plan *p, const net_map *map) {
    const int64_t capacity = p->set[map->outputs].capacity;
    const bool compact = map_is_compact(p, map);
    const int K = map->kernel.size.x;
    const size_t begin = compact ? map->compact : map->map;
    const int64_t entries = capacity * (compact ? K * (K + 1) : map->volume);
    return {begin, begin + (size_t)entries * sizeof(int32_t)};
}

// What a map has to the end: layouts, counts, itself.
void spans_of_map(const net_plan *p, const net_map *map, std::vector<span> *spans) {
    int32_t capacity = p->set[map->outputs].capacity;
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
    std::vector<span> spans, temporary;
    for (int s = 1; s < p->sets; ++s) {
        size_t bytes = (size_t)p->set[s].capacity * (size_t)(p->layout.bits / 8);
        spans.push_back({p->set[s].words, p->set[s].words + bytes});
        spans.push_back({p->set[s].count, p->set[s].count + sizeof(int32_t)});
    }
    for (int m = 0; m < p->maps; ++m) {
        spans_of_map(p, &p->map[m], &spans);
        if (map_is_temporary(p, &p->map[m])) {
            temporary.push_back(map_span(p, &p->map[m]));
        }
    }
    spans.push_back({p->scratch, p->scratch + p->scratch_bytes});
    spans.push_back({p->fine_scratch, p->fine_scratch + p->fine_scratch_bytes});
    return span_faults(spans, 0, p->index_bytes) +
           span_faults(temporary, p->index_bytes, p->workspace_bytes);
}

// How many places are written by both streams of a run: maps of the coarse part, in the features of
// the layers before the first that leaves the finest set.
int overlap_faults(const network *n, const net_plan *p) {
    int faults = 0;
    for (int i = 0; i < n->count && triple_equal(reference_net_stride(n->layers, i), {1, 1, 1});
         ++i) {
        const net_step *step = &p->step[i];
        const span features = {step->features, step->features + step->feature_bytes};
        for (int m = 0; m < p->maps; ++m) {
            const net_map *map = &p->map[m];
            faults += (map->source > 0 || map->outputs > 0) && map_is_temporary(p, map) &&
                      spans_meet(map_span(p, map), features);
        }
    }
    return faults;
}

status plan_places(const network *n, const net_limits *limits, net_plan *p) {
    word_layout layout = reference_net_layout<uint64_t>(n, {-64, -64, -64}, {63, 63, 63}, 2);
    return net_plan_host<uint64_t>(n->layers, n->count, &layout, limits, p);
}

const uint64_t all_ordered = ~(uint64_t)0;

// The same for the device's half of the workspace. A bit of `ordered` for each map: convolutions
// read it. joined: null, or all shortcuts of the table are joined, and counted.
status plan_device_places(const network *n, const net_limits *limits, uint64_t ordered, net_plan *p,
                          int *joined = nullptr) {
    word_layout layout = reference_net_layout<uint64_t>(n, {-64, -64, -64}, {63, 63, 63}, 2);
    SPIRA_TRY(net_plan_sets(n->layers, n->count, limits, true, p));
    for (int m = 0; m < p->maps; ++m) {
        p->map[m].ordered = ordered >> m % 64 & 1;
    }
    for (int i = 0; joined && i < n->count; ++i) {
        const int s = net_find_shortcut(p, i);
        if (s != net_none) {
            net_join_shortcut(p, i, s);
            CHECK(p->step[i].shortcut == s && p->step[s].fused_into == i);
            ++*joined;
        }
    }
    return net_plan_place(&layout, 12345, limits->overlap ? 6789 : 0, p);
}

// All promises of a plan's places.
void check_places(const network *n, const net_plan *p) {
    CHECK_EQUAL(feature_faults(n, p), 0);
    CHECK_EQUAL(index_faults(p), 0);
    CHECK(!p->limits.overlap || overlap_faults(n, p) == 0);
    CHECK_EQUAL(p->workspace_bytes, p->index_bytes + p->feature_bytes);
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
        int32_t capacity[net_sets_max];
        for (int32_t &c : capacity) {
            c = random_int(&r, 0, 2) ? random_int(&r, 0, 1500) : 0;
        }
        reference_net_capacities(&n, &limits, capacity);
        const uint64_t ordered[] = {0, all_ordered, all_ordered, random_u64(&r)};
        if (device) {
            REQUIRE_OK(plan_device_places(&n, &limits, ordered[i / 6 % 4], &plan));
        } else {
            REQUIRE_OK(plan_places(&n, &limits, &plan));
        }
        for (int m = 0; m < plan.maps && !device; ++m) { // host plans have the maps alone
            CHECK(plan.map[m].kept && !plan.map[m].ordered);
        }
        check_places(&n, &plan);
        CHECK_EQUAL(plan.set[0].capacity, limits.voxels);
        for (int s = 1; s < plan.sets; ++s) {
            int32_t wanted = capacity[s];
            CHECK_EQUAL(plan.set[s].capacity, wanted ? wanted : limits.voxels);
        }
        for (int l = 0; l < n.count; ++l) {
            CHECK_EQUAL(plan.step[l].last_use, last_reader(&n, &limits, l));
            bool pools = n.layers[l].op != net_conv;
            CHECK(!pools || plan.map[plan.step[l].map].kept);
        }
    }
}

// Grouped layers read the ordered layout where a convolution for each group is faster, else the map
// itself. Parameters have the same places.
TEST(net_grouped_layers_choose_a_map) {
    network n;
    tables::network_sliced(&n);
    enum { two = 1, few, down, up };
    for (int32_t capacity :
         {conv_slices_rows - 1, (int)conv_slices_rows, (int)conv_slices_rows_16}) {
        for (bool device : {false, true}) {
            const net_limits limits = limits_make(capacity, n.input_channels);
            net_plan plan;
            REQUIRE_OK(net_plan_sets(n.layers, n.count, &limits, device, &plan));
            const bool many = device && capacity >= conv_slices_rows;
            const bool all = device && capacity >= conv_slices_rows_16; // groups of 16, too
            for (int i : {two, few, down, up}) {
                const net_map *m = &plan.map[plan.step[i].map];
                const net_params at = net_params_of(&plan, i);
                const bool shared = i == two || i == few;
                CHECK_EQUAL(m->kept, shared ? !all : !many); // `few` reads the map of `two`
                CHECK_EQUAL(m->ordered, many || (device && shared));
                CHECK_EQUAL(at.vectors, at.weight);
            }
        }
    }
}

// ---- shortcuts ----------------------------------------------------------------------------------

namespace {

enum { block_shortcut = 1, block_first, block_second, block_after, block_layers };

// A residual block whose channels change, and a layer before and after it.
void network_with_shortcut(network *n) {
    networks::network_begin(n, 4);
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
void check_shortcut(int expected, void (*change)(net_layer *l, net_limits *s), int line) {
    network n;
    network_with_shortcut(&n);
    net_limits limits = limits_make(100, 4);
    change(n.layers, &limits);
    const int found = shortcut_found(&n, &limits, block_second);
    char text[64];
    snprintf(text, sizeof text, "shortcut %d instead of %d", found, expected);
    test_check(found == expected, __FILE__, line, text);
}

// l: the layers, s: the limits.
#define SHORTCUT(expected, ...)                                                                    \
    check_shortcut(                                                                                \
        expected,                                                                                  \
        []([[maybe_unused]] net_layer *l, [[maybe_unused]] net_limits *s) { __VA_ARGS__; },        \
        __LINE__)

} // namespace

TEST(net_plan_finds_shortcuts) {
    network n;
    network_with_shortcut(&n);
    REQUIRE(n.count == block_layers &&
            net_number(n.layers[block_second].residual) == block_shortcut);
    SHORTCUT(block_shortcut, (void)l);
    SHORTCUT(block_shortcut, l[block_shortcut].norm = false; l[block_shortcut].bias = true;
             l[block_shortcut].source2 = net_from(net_input);
             l[block_second].act = activation_leaky);
    SHORTCUT(block_shortcut, l[block_second].keep = true);
    SHORTCUT(block_shortcut, l[block_shortcut].source = net_from(net_input));
    SHORTCUT(block_shortcut, l[block_second].size = {1, 1, 1});
    SHORTCUT(block_shortcut, s->keep_all = true; s->shortcuts = net_shortcuts_hidden);
    SHORTCUT(block_shortcut, s->shortcuts = net_shortcuts_hidden);
    // It has an activation, a residual, an extent, a stride; it is kept, or read elsewhere.
    SHORTCUT(net_none, l[block_shortcut].act = activation_relu);
    SHORTCUT(net_none, l[block_shortcut].act = activation_leaky);
    SHORTCUT(net_none, l[0].channels = 96; l[block_shortcut].residual = net_from(0));
    SHORTCUT(net_none, l[block_shortcut].size = {1, 1, 3});
    SHORTCUT(net_none, l[block_shortcut].stride = l[block_first].stride = {2, 2, 2});
    SHORTCUT(net_none, l[block_shortcut].keep = true);
    SHORTCUT(net_none, s->keep_all = true);
    SHORTCUT(net_none, s->shortcuts = net_shortcuts_apart);
    SHORTCUT(net_none, s->keep_all = true; s->shortcuts = net_shortcuts_apart);
    SHORTCUT(net_none, l[block_first].source = net_from(block_shortcut));
    SHORTCUT(net_none, l[block_first].source2 = net_from(block_shortcut));
    SHORTCUT(net_none, l[block_first].residual = net_from(block_shortcut));
    SHORTCUT(net_none, l[block_second].source = net_from(block_shortcut));
    SHORTCUT(net_none, l[block_second].source2 = net_from(block_shortcut));
    SHORTCUT(net_none, l[block_after].source = net_from(block_shortcut));
    SHORTCUT(net_none, l[block_after].channels = 96;
             l[block_after].residual = net_from(block_shortcut));
    SHORTCUT(net_none, l[block_after].op = net_pool_max;
             l[block_after].source = net_from(block_shortcut); l[block_after].channels = 0;
             l[block_after].norm = false; l[block_after].act = activation_none);
    // What is added is no convolution, or no layer.
    SHORTCUT(net_none, l[0].channels = 96; l[block_second].residual = net_from(0));
    SHORTCUT(net_none, l[block_second].residual = net_from(net_none));
    SHORTCUT(net_none, s->channels = 96; l[block_second].residual = net_from(net_input));
    SHORTCUT(net_none, l[0].channels = 96; l[block_shortcut].op = net_pool_average;
             l[block_shortcut].size = {3, 3, 3}; l[block_shortcut].channels = 0;
             l[block_shortcut].norm = false);
}

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
        int joined = 0;
        REQUIRE_OK(plan_device_places(&n, &limits, all_ordered, &plan, &joined));
        CHECK(!known || joined == (i % 3 ? 7 : 0));
        found += known ? 0 : joined;
        check_places(&n, &plan);
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
size_t temporary_bytes(const net_plan *p) {
    size_t bytes = 0;
    for (int m = 0; m < p->maps; ++m) {
        span s = map_span(p, &p->map[m]);
        int64_t own = map_is_temporary(p, &p->map[m]) ? (int64_t)(s.end - s.begin) : 0;
        bytes += (size_t)round_up(own, workspace_alignment);
    }
    return bytes;
}

// Against a plan without maps that pass. Returns whether the features alone take more than these.
bool check_temporary(const network *n, bool count_pairs) {
    net_plan temporary, without;
    net_limits limits = limits_make(1000, n->input_channels);
    limits.type = numeric_f16;
    CHECK_OK(plan_device_places(n, &limits, 0, &without));
    CHECK_EQUAL(temporary_bytes(&without), 0u);
    limits.count_pairs = count_pairs;
    CHECK_OK(plan_device_places(n, &limits, count_pairs ? 0 : all_ordered, &temporary));
    CHECK(temporary_bytes(&temporary) > 0);
    CHECK_EQUAL(temporary.feature_bytes,
                std::max(without.feature_bytes, temporary_bytes(&temporary)));
    CHECK_EQUAL(temporary.workspace_bytes, temporary.index_bytes + temporary.feature_bytes);
    for (int i = 0; i < n->count; ++i) { // features do not make way
        CHECK_EQUAL(temporary.step[i].features - temporary.index_bytes,
                    without.step[i].features - without.index_bytes);
    }
    return without.feature_bytes > temporary_bytes(&temporary);
}

} // namespace

// Maps that pass cost nothing where the features take more, and else the difference.
TEST(net_places_of_temporary_maps) {
    for (bool count_pairs : {false, true}) {
        network n;
        network_plain(&n); // 8 channels
        CHECK(!check_temporary(&n, count_pairs));
        REQUIRE(networks::network_make("MinkUNet42", &n));
        CHECK(check_temporary(&n, count_pairs));
        reference_net_zoo(&n); // pools: some maps stay
        check_temporary(&n, count_pairs);
    }
}

// How many layers run before the coarse part of the index is there.
TEST(net_plan_fine_layers) {
    const struct {
        void (*make)(network *n);
        int layers;
    } cases[] = {{[](network *n) { CHECK(networks::network_make("SparseResNet-Large", n)); }, 5},
                 {reference_net_zoo, 2},
                 {network_plain, 1},
                 {[](network *n) {
                      network_plain(n);
                      n->layers[0].stride = {1, 1, 2};
                  },
                  0},
                 {[](network *n) {
                      networks::network_begin(n, 4);
                      networks::network_conv(n, "a", net_input, 8, 3, 1);
                      networks::network_conv(n, "b", 0, 8, 1, 1); // without a map
                      networks::network_conv(n, "c", 1, 8, 5, 1);
                  },
                  3},
                 {[](network *n) { // its scratch is the coarse part's
                      networks::network_begin(n, 4);
                      networks::network_conv(n, "a", net_input, 8, 3, 1);
                      networks::network_add(n, "b", net_layer_norm_groups("", 0, 2, 1e-5f));
                      networks::network_conv(n, "c", 1, 8, 3, 1);
                  },
                  1}};
    for (const auto &c : cases) {
        network n;
        net_plan plan;
        c.make(&n);
        REQUIRE_OK(plan_sets(&n, &plan));
        CHECK_EQUAL(net_fine_layers(&plan), c.layers);
    }
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
    const net_map *before = &good->map[m ? m - 1 : 1], *map = &good->map[m];
    const auto planted = [&](auto plant) {
        net_plan bad = *good;
        plant(&bad.map[m]);
        CHECK(index_faults(&bad) > 0);
    };
    if (map->ordered) {
        planted([](net_map *own) { own->order -= workspace_alignment; });
    }
    planted([&](net_map *own) { own->pairs = before->pairs; });
    planted([&](net_map *own) { own->map = before->map; });
    planted([](net_map *own) { own->map = 0; });                     // in the place of the sets
    planted([&](net_map *own) { own->map += good->feature_bytes; }); // beyond the end
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
        bad.step[i].features = bad.step[net_number(n.layers[i].source)].features;
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
