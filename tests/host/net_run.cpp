// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/host/net_run.cpp: net_run_host: networks on the host against the judges of reference_net.h,
// and what running refuses.
#include "../support/net_plans.h"
#include "../support/net_tables.h"

#include <array>
#include <map>
#include <set>

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

// A network on a random scene, and one run of it on the host, in memory of exactly its size.
template <typename W>
struct host_run {
    const network *net;
    word_layout layout;
    net_limits limits;
    std::vector<W> words; // of the scene
    std::vector<float> features, params;
    std::unique_ptr<net_plan> plan;
    voxel_set<W> input;
    device_status trouble;
    char *memory;
};

template <typename W>
net_run_args<W> run_args(host_run<W> *r) {
    net_run_args<W> run = {};
    run.input = r->input;
    run.features = r->features.data();
    run.loaded = r->params.data();
    run.trouble = &r->trouble;
    run.memory = r->memory;
    run.bytes = r->plan->workspace_bytes;
    return run;
}

// Plans for limits, and runs.
template <typename W>
void run_host(host_run<W> *r) {
    const int32_t most = r->limits.voxels;
    r->plan.reset(new net_plan);
    r->trouble = {};
    CHECK_OK(
        net_plan_host<W>(r->net->layers, r->net->count, &r->layout, &r->limits, r->plan.get()));
    if (r->params.empty()) {
        r->params = params_random(r->plan.get());
    }
    r->input = {guarded_new<W>(most), guarded_new<int32_t>(1), most};
    std::fill(r->input.words, r->input.words + most, word_none<W>());
    std::copy(r->words.begin(), r->words.end(), r->input.words);
    *r->input.count = (int32_t)r->words.size();
    r->memory = guarded_new<char>((int64_t)r->plan->workspace_bytes);
    const net_run_args<W> run = run_args(r);
    CHECK_OK(net_run_host(r->plan.get(), &run));
}

// Draws `count` voxels of `batches` and features. Not yet run: limits may be changed before.
template <typename W>
host_run<W> run_drawn(const network *n, uint64_t seed, int32_t count, int32_t capacity,
                      int batches) {
    host_run<W> r;
    random_state random = random_make(seed);
    r.net = n;
    r.layout = reference_net_layout<W>(n, scene_lo, scene_hi, batches);
    r.words = scene_words<W>(&random, &r.layout, count);
    r.features = values_random(seed, (int64_t)capacity * n->input_channels);
    r.limits = limits_make(capacity, n->input_channels);
    r.limits.keep_all = true;
    return r;
}

// What the judges of reference_net.h want to know of a run that kept all features.
template <typename W>
reference_net_run<W> run_judged(const host_run<W> *r) {
    reference_net_run<W> j;
    j.net = r->net;
    j.plan = r->plan.get();
    j.params = r->params.data();
    j.feature[0] = r->features.data();
    for (int i = 0; i < r->net->count; ++i) {
        j.feature[1 + i] = r->memory + r->plan->step[i].features;
    }
    j.sets = reference_net_index(j.plan, r->input.words, *r->input.count, j.feature);
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
void check_network(const network *n, int32_t count, int32_t capacity, uint64_t seed) {
    host_run<W> kept = run_drawn<W>(n, seed, count, capacity, 2);
    kept.limits.count_pairs = true;
    run_host(&kept);
    CHECK_OK(device_status_read(&kept.trouble));
    reference_net_run<W> judged = run_judged(&kept);
    check_index(&kept, &judged);
    check_spare_rows(&kept, &judged);
    CHECK(reference_net_good(&judged));

    host_run<W> shared = run_drawn<W>(n, seed, count, capacity, 2);
    shared.limits.keep_all = false;
    shared.params = kept.params; // the same, and slow to draw
    run_host(&shared);
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

TEST(net_host_product) {
    network n;
    tables::network_gated(&n);
    check_network<uint32_t>(&n, 700, 1000, 1);
}

TEST(net_host_sets_from_features) {
    network n;
    tables::network_grown(&n);
    for (int32_t count : {0, 1, 33, 700}) {
        check_network<uint32_t>(&n, count, 800, 1 + (uint64_t)count);
    }
    check_network<uint64_t>(&n, 700, 700, 2);
}

// The input alone says which children there are: none, all eight of each, those above 0.
TEST(net_host_children_none_and_all) {
    network n;
    tables::network_divided(&n);
    const struct {
        float value;
        int children;
        bool pruned; // none of them is left
    } cases[] = {{-1, 0, true}, {0, 0, true}, {-0.0f, 0, true}, {2, 8, true}, {3, 8, false}};
    for (const auto &c : cases) {
        host_run<uint32_t> r = run_drawn<uint32_t>(&n, 5, 300, 400, 2);
        std::fill(r.features.begin(), r.features.end(), c.value);
        run_host(&r);
        CHECK_OK(device_status_read(&r.trouble));
        reference_net_run<uint32_t> judged = run_judged(&r);
        check_index(&r, &judged);
        CHECK(reference_net_good(&judged));
        const auto *set = judged.sets.set;
        CHECK_EQUAL(set[2].size(), set[1].size() * (size_t)c.children);
        CHECK_EQUAL(set[3].size(), c.pruned ? 0 : set[2].size());
    }
}

// A child without a number does not exist, and its row is recorded; so for pruned voxels, by a
// threshold and by their order.
TEST(net_host_scores_that_are_no_numbers) {
    network n;
    tables::network_divided(&n);
    network both = n;
    const int last =
        networks::network_add(&both, "kept", net_layer_prune("", net_input, net_input));
    both.layers[last].channel = 3;
    for (int32_t most : {0, 20}) {
        both.layers[last].most = most;
        host_run<uint32_t> r = run_drawn<uint32_t>(&both, 6, 300, 300, 2);
        for (size_t i = 3; i < 300 * 8; i += 24) {
            r.features[i] = NAN;
        }
        run_host(&r);
        CHECK_EQUAL(r.trouble.flags, (uint32_t)device_flag_not_finite);
        reference_net_run<uint32_t> judged = run_judged(&r);
        check_index(&r, &judged);
        CHECK(!judged.sets.set[2].empty() && !judged.sets.set[4].empty());
        CHECK(!most || judged.sets.set[4].size() == 40);
    }
}

// A set that outgrows its capacity, wherever it is, is cut off and recorded; later layers go on.
TEST(net_host_grown_capacities_passed) {
    for (auto make : {tables::network_grown, tables::network_divided}) {
        network n;
        make(&n);
        host_run<uint32_t> whole = run_drawn<uint32_t>(&n, 7, 400, 500, 2);
        run_host(&whole);
        reference_net_run<uint32_t> sizes = run_judged(&whole);
        for (int s = 1; s < whole.plan->sets; ++s) {
            host_run<uint32_t> r = run_drawn<uint32_t>(&n, 7, 400, 500, 2);
            int32_t capacity[net_sets_max];
            for (int o = 0; o < whole.plan->sets; ++o) {
                capacity[o] = (int32_t)max_of((int64_t)sizes.sets.set[o].size(), 1);
            }
            const bool full = sizes.sets.set[s].size() > 1; // beyond 1, by one
            capacity[s] -= full;
            reference_net_capacities(&n, &r.limits, capacity);
            run_host(&r);
            reference_net_run<uint32_t> judged = run_judged(&r);
            const status told = device_status_read(&r.trouble);
            CHECK_STATUS(told, full ? status_capacity : status_ok);
            CHECK_EQUAL(told.detail, judged.sets.needed);
            check_index(&r, &judged);
            check_spare_rows(&r, &judged);
            CHECK(reference_net_good(&judged));
            guarded_finish();
        }
    }
}

// A network that begins with coarse voxels, and ends with the finest.
TEST(net_host_stride_of_the_input) {
    network n;
    networks::network_begin(&n, 8);
    networks::network_add(&n, "all", net_layer_children("", net_input, net_none));
    networks::network_conv(&n, "wide", 0, 16, 3, 1);
    networks::network_add(&n, "logits", net_layer_conv("", 0, 8, 3, 1));
    networks::network_add(&n, "some", net_layer_children("", 1, 2));
    networks::network_conv(&n, "end", 3, 4, 3, 1);
    host_run<uint32_t> r;
    word_need need = {};
    r.net = &n;
    r.limits = limits_make(200, 8);
    r.limits.keep_all = true;
    r.limits.stride = {4, 4, 4};
    r.limits.batch = need.batches = 2;
    r.limits.grid = {{-8, 0, 4}, {6, 8, 5}};
    REQUIRE_OK(net_need(n.layers, n.count, &r.limits, &need));
    CHECK(triple_equal(need.stride, {4, 4, 4}) && triple_equal(need.lo, {-8, 0, 4}) &&
          triple_equal(need.hi, {15, 31, 23}));
    r.layout = reference_layout<uint32_t>(need.lo, need.hi, 2, need.stride, need.reach);
    random_state random = random_make(8);
    r.words.resize(151);
    r.words.resize((size_t)reference_random_set(&random, &r.layout, {-8, 0, 4}, {12, 28, 20},
                                                {4, 4, 4}, 150, r.words.data()));
    r.features = values_random(8, 200 * 8);
    run_host(&r);
    CHECK_OK(device_status_read(&r.trouble));
    reference_net_run<uint32_t> judged = run_judged(&r);
    check_index(&r, &judged);
    CHECK(reference_net_good(&judged));
    CHECK(triple_equal(r.plan->set[2].stride, {1, 1, 1}));
    CHECK(triple_equal(r.plan->set[2].grid.extent, {24, 32, 20}));
    r.limits.stride = {4, 4, 2}; // cannot be halved twice
    net_plan plan;
    CHECK_STATUS(net_plan_sets(n.layers, n.count, &r.limits, false, &plan), status_layer);
    for (triple bad : {triple{4, 0, 4}, triple{-1, 1, 1}, triple{1, 1, 1 << 21}}) {
        r.limits.stride = bad;
        CHECK_STATUS(net_plan_sets(n.layers, n.count, &r.limits, false, &plan), status_bad_size);
    }
}

TEST(net_host_groups) {
    network n;
    tables::network_grouped(&n);
    check_network<uint32_t>(&n, 700, 1000, 1);
}

// A generative layer. extent: of its input's grid, in cells; 0: none.
struct generated_layer {
    triple size, ratio, padding, extent;
};

// Whether an output on an axis is within spconv's bounds: i * ratio - padding + tap counts from 0.
bool generated_keeps(const generated_layer &l, int axis, int coordinate) {
    const int size = triple_at(l.size, axis), cells = triple_at(l.extent, axis);
    const int padding = triple_at(l.padding, axis);
    const int index = coordinate - padding + (size % 2 ? size / 2 : 0);
    return !cells ||
           (index >= 0 && index < (cells - 1) * triple_at(l.ratio, axis) - 2 * padding + size);
}

// Voxels of stride `ratio`, and what a generative layer makes of them at stride 1, by a loop over
// inputs and offsets; weights count offsets from 1, features voxels.
void check_generated(const std::vector<triple> &cells, const generated_layer &l, int32_t outputs,
                     double sum) {
    const triple size = l.size, ratio = l.ratio;
    network n;
    networks::network_begin(&n, 1);
    networks::network_add(&n, "made", net_layer_conv("", net_input, 1, 3, 2));
    n.layers[0].size = size;
    n.layers[0].stride = ratio;
    n.layers[0].transposed = true;
    n.layers[0].rule = net_rule_generate;
    n.layers[0].padding = l.padding;
    host_run<uint32_t> r;
    word_need need = {};
    r.net = &n;
    r.limits = limits_make((int32_t)cells.size(), 1);
    r.limits.keep_all = r.limits.count_pairs = true;
    r.limits.stride = ratio;
    r.limits.grid.extent = l.extent;
    int32_t kept = 0;
    need.batches = 1;
    for (const triple &cell : cells) {
        need.hi = triple_max(need.hi, triple_multiply(cell, ratio));
    }
    REQUIRE_OK(net_need(n.layers, 1, &r.limits, &need));
    REQUIRE_OK(word_fit(&need, &r.layout));
    const kernel_shape kernel = {size, {1, 1, 1}, {1, 1, 1}, false};
    const int volume = kernel_volume(&kernel);
    std::map<uint32_t, float> wanted;
    for (const triple &cell : cells) {
        const triple at = triple_multiply(cell, ratio);
        r.words.push_back(word_pack<uint32_t>(&r.layout, {0, at.x, at.y, at.z}));
        r.features.push_back((float)r.words.size());
        for (int k = 0; k < volume; ++k) {
            const triple by = kernel_displacement(&kernel, k);
            const voxel to = {0, at.x + by.x, at.y + by.y, at.z + by.z};
            if (!generated_keeps(l, 0, to.x) || !generated_keeps(l, 1, to.y) ||
                !generated_keeps(l, 2, to.z)) {
                continue;
            }
            ++kept;
            REQUIRE(CHECK(word_contains(&r.layout, to)));
            wanted[word_pack<uint32_t>(&r.layout, to)] += (float)(k + 1) * (float)r.words.size();
        }
    }
    for (int k = 0; k < volume; ++k) {
        r.params.push_back((float)k + 1);
    }
    run_host(&r);
    CHECK_OK(device_status_read(&r.trouble));
    const net_run_args<uint32_t> run = run_args(&r);
    const net_result<uint32_t> out = net_output(r.plan.get(), 0, &run);
    REQUIRE(CHECK_EQUAL(*out.set.count, (int32_t)wanted.size()));
    CHECK_EQUAL(*out.set.count, outputs);
    const float *feature = (const float *)out.features;
    const uint32_t *word = out.set.words;
    double all = 0;
    for (const auto &w : wanted) {
        CHECK_EQUAL(*word++, w.first);
        CHECK_EQUAL(*feature, w.second);
        all += *feature++;
    }
    CHECK(sum == 0 || all == sum);
    int32_t pairs = 0;
    for (int k = 0; k < volume; ++k) {
        pairs += ((const int32_t *)(r.memory + r.plan->map[0].pairs))[k];
    }
    CHECK_EQUAL(pairs, kept);
}

const std::vector<triple> generated_six = {{0, 0, 0}, {0, 0, 1}, {0, 1, 1},
                                           {1, 0, 0}, {1, 1, 1}, {3, 2, 0}};

// The first two are the numbers that MinkowskiEngine's generative layer gives.
TEST(net_host_generated_numbers) {
    check_generated(generated_six, {{3, 3, 3}, {2, 2, 2}, {}, {}}, 124, 7938);
    check_generated(generated_six, {{2, 2, 2}, {2, 2, 2}, {}, {}}, 48, 756);
    check_generated(generated_six, {{4, 4, 4}, {2, 2, 2}, {}, {}}, 248, 0);
    check_generated(generated_six, {{2, 5, 4}, {3, 1, 2}, {}, {}}, 172, 0);
    check_generated(generated_six, {{1, 2, 1}, {4, 4, 4}, {}, {}}, 12, 0);
    check_generated(generated_six, {{3, 3, 3}, {2, 2, 2}, {}, {4, 3, 2}}, 124, 7938);
}

// Outputs out of spconv's bounds are dropped. Of the first one the numbers are known: all
// coordinates from 0 on.
TEST(net_host_generated_within_bounds) {
    check_generated(generated_six, {{3, 3, 3}, {2, 2, 2}, {1, 1, 1}, {9, 9, 9}}, 70, 5867);
    check_generated(generated_six, {{3, 3, 3}, {2, 2, 2}, {1, 1, 1}, {4, 3, 2}}, 46, 0);
    check_generated(generated_six, {{3, 3, 3}, {2, 2, 2}, {0, 1, 2}, {4, 3, 9}}, 62, 0);
    check_generated(generated_six, {{4, 4, 4}, {2, 2, 2}, {1, 1, 1}, {4, 3, 2}}, 115, 0);
    check_generated(generated_six, {{2, 5, 4}, {3, 1, 2}, {0, 2, 3}, {9, 3, 9}}, 42, 0);
}

TEST(net_generated_padding_refused) {
    network n;
    networks::network_begin(&n, 1);
    networks::network_add(&n, "made", net_layer_conv("", net_input, 1, 3, 2));
    net_layer *const l = &n.layers[0];
    l->transposed = true;
    l->rule = net_rule_generate;
    net_limits limits = limits_make(10, 1);
    limits.stride = {2, 2, 2};
    limits.grid.extent = {4, 4, 4};
    net_plan plan;
    for (int padding : {0, 1, 2, 3, -1}) {
        l->padding = {padding, 1, 0};
        const status s = net_plan_sets(n.layers, n.count, &limits, false, &plan);
        CHECK_EQUAL(status_failed(s), padding < 0 || padding > 2);
        CHECK(!status_failed(s) || strstr(s.subject, "0 to (size - 1) * dilation"));
    }
    l->padding = {1, 1, 1};
    limits.grid.extent = {4, 4, 0};
    const status s = net_plan_sets(n.layers, n.count, &limits, false, &plan);
    CHECK(s.code == status_layer && strstr(s.subject, "requires limits.grid.extent"));
    l->transposed = false;
    l->rule = net_rule_floor;
    CHECK_STATUS(net_plan_sets(n.layers, n.count, &limits, false, &plan), status_layer);
}

// What it makes of a shell at stride 16: numbers that were computed elsewhere.
TEST(net_host_generated_shell) {
    word_layout layout;
    std::set<std::array<int, 3>> coarse;
    for (uint32_t word : reference_scan<uint32_t>("beast_shell1024.vox32", 2, &layout)) {
        const voxel v = word_unpack<uint32_t>(&layout, word);
        coarse.insert({v.x / 16, v.y / 16, v.z / 16});
    }
    if (coarse.empty()) {
        SKIP("no data/beast_shell1024.vox32");
    }
    std::vector<triple> cells;
    for (const std::array<int, 3> &cell : coarse) {
        cells.push_back({cell[0], cell[1], cell[2]});
    }
    check_generated(cells, {{2, 2, 2}, {2, 2, 2}, {}, {}}, 44296, 0);
    check_generated(cells, {{3, 3, 3}, {2, 2, 2}, {}, {}}, 65539, 0);
    check_generated(cells, {{3, 3, 3}, {2, 2, 2}, {1, 1, 1}, {100, 100, 100}}, 64245, 0);
}

TEST(net_host_known_networks) {
    network n;
    int32_t voxels = test_quick() ? 100 : 300;
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
    network zoo, unet;
    reference_net_zoo(&zoo);
    REQUIRE(networks::network_make("MinkUNet42", &unet));
    for (int32_t count : {0, 1}) {
        for (int32_t capacity : {1, 1500}) {
            check_network<uint32_t>(&zoo, count, capacity, 7);
            check_network<uint64_t>(&zoo, count, capacity, 8);
        }
        check_network<uint32_t>(&unet, count, count ? 1 : 1500, 7);
    }
}

// The judges find a weight that is not the one that was used, and a layer that was left out.
TEST(net_host_judges_find_planted_errors) {
    network n;
    reference_net_zoo(&n);
    random_state r = random_make(9);
    host_run<uint32_t> run = run_drawn<uint32_t>(&n, 1, 600, 600, 1);
    run.words = scene_words<uint32_t>(&r, &run.layout, 600);
    run_host(&run);
    const std::vector<float> &params = run.params;
    reference_net_run<uint32_t> good = run_judged(&run);
    REQUIRE(reference_net_good(&good));
    for (int i = 0; i < n.count; ++i) {
        net_params at = reference_net_params(&n, i);
        int found = 0, planted = 0; // not all: a channel may be 0 everywhere
        for (; at.end > at.weight && planted < 16; ++planted) {
            std::vector<float> wrong = params;
            int64_t from = planted % 4 == 0 && at.end > at.vectors ? at.vectors : at.weight;
            wrong[(size_t)random_int(&r, (int)from, (int)at.end - 1)] += 0.01f;
            reference_net_run<uint32_t> bad = good;
            bad.params = wrong.data();
            found += reference_net_judge(&bad, i).ratio > 1;
        }
        CHECK(found >= planted * 3 / 4);
        // One value that is off in its last digits.
        float *value = (float *)(run.memory + run.plan->step[i].features), kept = value[7];
        value[7] += std::max(fabsf(kept), 0.1f) * 1e-3f;
        CHECK(reference_net_judge(&good, i).ratio > 1);
        value[7] = kept;
        // The features of another source.
        reference_net_run<uint32_t> bad = good;
        std::vector<float> zeros((size_t)600 * 20);
        bad.feature[1 + net_number(n.layers[i].source)] = zeros.data();
        CHECK(reference_net_judge(&bad, i).ratio > 1);
    }
    CHECK(reference_net_good(&good));
}

// Two scenes as two batches of one frame: to the bit what each of them gives alone.
TEST(net_host_batches_are_independent) {
    for (const char *name : {"zoo", "SparseResNet21"}) {
        network n;
        if (!networks::network_make(name, &n)) {
            reference_net_zoo(&n);
        }
        const int32_t each = 400;
        random_state r = random_make(10);
        host_run<uint64_t> alone[2], together = run_drawn<uint64_t>(&n, 10, 0, 2 * each, 2);
        word_layout single = together.layout;
        single.batches = 1;
        together.features.clear();
        for (int b = 0; b < 2; ++b) {
            alone[b] = run_drawn<uint64_t>(&n, (uint64_t)b, each - b, 2 * each, 1);
            alone[b].layout = together.layout;
            alone[b].words = scene_words<uint64_t>(&r, &single, each - b);
            run_host(&alone[b]);
            together.features.insert(together.features.end(), alone[b].features.begin(),
                                     alone[b].features.begin() + (each - b) * n.input_channels);
            for (uint64_t word : alone[b].words) {
                voxel v = word_unpack(&together.layout, word);
                REQUIRE(v.batch == 0);
                v.batch = b;
                together.words.push_back(word_pack<uint64_t>(&together.layout, v));
            }
        }
        run_host(&together);
        int64_t first[net_layers_max] = {};
        for (int b = 0; b < 2; ++b) {
            for (int i = 0; i < n.count; ++i) {
                const net_step *step = &together.plan->step[i];
                const voxel_set<uint64_t> set =
                    net_voxels(together.plan.get(), step->set, alone[b].input, alone[b].memory);
                const int64_t count = *set.count;
                const float *got = (const float *)(together.memory + step->features),
                            *expected = (const float *)(alone[b].memory + step->features);
                CHECK_EQUAL(memcmp(got + first[i] * step->channels, expected,
                                   (size_t)(count * step->channels) * sizeof(float)),
                            0);
                first[i] += count;
            }
        }
        for (int i = 0; i < n.count; ++i) {
            const net_plan *p = together.plan.get();
            CHECK_EQUAL(first[i],
                        *net_voxels(p, p->step[i].set, together.input, together.memory).count);
        }
        guarded_finish();
    }
}

// A coarse set that does not fit is cut off and said; what was computed is right for what is left.
TEST(net_host_set_capacity_passed) {
    for (int32_t room : {1, 37, 200}) {
        network n;
        reference_net_zoo(&n);
        host_run<uint32_t> run = run_drawn<uint32_t>(&n, 11, 900, 900, 1);
        int32_t capacity[net_sets_max] = {0, room};
        reference_net_capacities(&n, &run.limits, capacity);
        run_host(&run);
        reference_net_run<uint32_t> judged = run_judged(&run);
        status s = device_status_read(&run.trouble);
        CHECK_STATUS(s, status_capacity);
        CHECK_EQUAL(s.detail, judged.sets.needed);
        CHECK(judged.sets.needed > room);
        CHECK_EQUAL(judged.sets.set[1].size(), (size_t)room);
        check_index(&run, &judged);
        CHECK(reference_net_good(&judged));
        guarded_finish();
    }
}

// Runs once more, in what a run has left, with another count of the input. Returns the outputs that
// count, of all layers.
template <typename W>
std::vector<float> run_counted(host_run<W> *run, int32_t count) {
    std::vector<float> all;
    run->trouble = {};
    *run->input.count = count;
    const net_run_args<W> args = run_args(run);
    CHECK_OK(net_run_host(run->plan.get(), &args));
    for (int i = 0; i < run->net->count; ++i) {
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
        const int32_t most = 300;
        host_run<uint32_t> run = run_drawn<uint32_t>(&n, 13, most, most, 1);
        run.limits.count_pairs = true;
        run_host(&run);
        const auto counted = [&](int32_t count) { return run_counted(&run, count); };
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

// Kept layers are where net_output says, with the count of their set; others are nowhere.
TEST(net_output_says_where_results_are) {
    network n;
    reference_net_zoo(&n);
    n.layers[2].keep = true;
    host_run<uint32_t> ran = run_drawn<uint32_t>(&n, 14, 300, 310, 1);
    ran.limits.keep_all = false;
    run_host(&ran);
    const net_run_args<uint32_t> run = run_args(&ran);
    for (int i = 0; i < n.count; ++i) {
        const bool kept = i == 2 || i == n.count - 1;
        const net_result<uint32_t> result = net_output(ran.plan.get(), i, &run);
        const net_step *step = &ran.plan->step[i];
        CHECK_EQUAL(net_is_kept(ran.plan.get(), i), kept);
        CHECK(result.features == (kept ? ran.memory + step->features : nullptr));
        CHECK_EQUAL(result.channels, reference_net_channels(&n, i));
        CHECK_EQUAL(result.set.capacity, 310);
        CHECK(*result.set.count > 0 && *result.set.count <= 300);
        CHECK(result.set.count ==
              net_voxels(ran.plan.get(), step->set, ran.input, ran.memory).count);
    }
    guarded_finish();
}

// ---- what running refuses -----------------------------------------------------------------------

TEST(net_host_run_refuses) {
    network n;
    reference_net_zoo(&n);
    host_run<uint32_t> run = run_drawn<uint32_t>(&n, 12, 50, 50, 1);
    run.limits.keep_all = false;
    run_host(&run);
    const net_plan plan = *run.plan;
    net_plan other;
    const size_t bytes = plan.workspace_bytes;
    char *memory = run.memory = guarded_new<char>((int64_t)bytes + 1);
    const net_run_args<uint32_t> good = run_args(&run);

    reference_net_run_refuses(
        good, [&](const net_run_args<uint32_t> *a) { return net_run_host(&plan, a); });
    CHECK_STATUS(net_run_host(nullptr, &good), status_null_pointer);
    CHECK_STATUS(net_run_host<uint32_t>(&plan, nullptr), status_null_pointer);
    uint64_t wide = 0;
    net_run_args<uint64_t> other_words = {};
    other_words.input = {&wide, good.input.count, 50};
    other_words.features = good.features;
    other_words.loaded = good.loaded;
    other_words.trouble = good.trouble;
    other_words.memory = memory;
    other_words.bytes = bytes;
    CHECK_STATUS(net_run_host(&plan, &other_words), status_unsupported);
    other = plan;
    other.device = true;
    CHECK_STATUS(net_run_host(&other, &good), status_unsupported);
    CHECK(guarded_untouched(memory, 0, (int64_t)bytes + 1));
    CHECK_OK(net_run_host(&plan, &good));
    CHECK(guarded_untouched(memory, (int64_t)bytes, (int64_t)bytes + 1));
    CHECK_OK(device_status_read(good.trouble));
}

// A layout that was fitted to smaller strides than the network has is refused, not used.
TEST(net_host_refuses_a_layout_of_smaller_strides) {
    network n;
    networks::network_begin(&n, 3);
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

// Children need more room than their parents. With an extent, planning refuses a layout without it;
// without one, a run records the first voxel that has a child beyond the layout, and leaves those
// children out.
TEST(net_host_words_out_of_bits) {
    network n;
    networks::network_begin(&n, 8);
    networks::network_add(&n, "fine", net_layer_children("", net_input, net_none));
    networks::network_conv(&n, "end", 0, 4, 3, 1);
    host_run<uint32_t> r;
    r.net = &n;
    r.limits = limits_make(2, 8);
    r.limits.keep_all = true;
    r.limits.stride = {4, 4, 4};
    r.limits.grid = {{0, 0, 0}, {3, 3, 3}};
    word_need need = {};
    need.batches = 1;
    need.hi = {8, 8, 8};
    need.stride = {4, 4, 4};
    need.reach = {5, 5, 5}; // 8 + 5 + 1 + a bias of 8 is 22: a field of 5 bits holds 17 at most
    REQUIRE_OK(word_fit(&need, &r.layout));
    r.layout.hi = {9, 9, 9}; // of a layout that has no room but for these voxels
    net_plan plan;
    const status refused = net_plan_host<uint32_t>(n.layers, n.count, &r.layout, &r.limits, &plan);
    char text[256];
    CHECK_STATUS(refused, status_layer);
    CHECK(strstr(status_text(refused, text, sizeof text), "outside of the word layout"));

    r.limits.grid = {};
    r.words = {word_pack<uint32_t>(&r.layout, {0, 0, 0, 0}),
               word_pack<uint32_t>(&r.layout, {0, 8, 8, 4})};
    r.features = values_random(9, 2 * 8);
    run_host(&r);
    CHECK_EQUAL(r.trouble.flags, (uint32_t)device_flag_range);
    const status told = device_status_read(&r.trouble);
    CHECK_STATUS(told, status_out_of_range);
    CHECK_EQUAL(told.detail, 1);
    const net_run_args<uint32_t> run = run_args(&r);
    const voxel_set<uint32_t> fine = net_output(r.plan.get(), 1, &run).set;
    REQUIRE(CHECK_EQUAL(*fine.count, 10)); // 8, and two along z
    for (int i = 0; i < 10; ++i) {
        const voxel v = word_unpack<uint32_t>(&r.layout, fine.words[i]);
        CHECK(v.x <= 9 && v.y <= 9 && v.z <= 9 && (i < 8 ? v.z < 4 : v.x == 8));
    }

    // A grid that grows from 32-bit words to 64, and from these to more than there are.
    for (const int bits : {9, 19}) {
        r.limits.grid = {{0, 0, 0}, {1 << bits, 1 << bits, 1 << bits}};
        need = {};
        need.batches = 1;
        REQUIRE_OK(net_need(n.layers, n.count, &r.limits, &need));
        const status fitted = word_fit(&need, &r.layout);
        if (bits == 9) {
            CHECK_OK(fitted);
            CHECK_EQUAL(r.layout.bits, 64);
            CHECK_STATUS(net_plan_host<uint32_t>(n.layers, n.count, &r.layout, &r.limits, &plan),
                         status_unsupported);
        } else {
            CHECK_STATUS(fitted, status_bits);
            CHECK_EQUAL(fitted.detail, 2);
        }
    }
    guarded_finish();
}
