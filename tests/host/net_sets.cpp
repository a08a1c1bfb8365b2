// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/host/net_sets.cpp: networks whose coordinate sets are nodes of a graph (net/sets.h): on the
// host, against dense loops over the extent (reference_grid.h).
#include "../support/net_plans.h"
#include "../support/net_tables.h"
#include "../support/reference_grid.h"

namespace {

// A network over a small extent, and a random scene in it.
struct scene {
    expand_grid grid;
    int batch;
    std::vector<uint64_t> words;
    std::vector<float> features; // [voxels, channels]
    word_layout layout;
};

net_limits scene_limits(const network *n, const scene *s) {
    net_limits limits = limits_make((int32_t)s->words.size(), n->input_channels);
    limits.grid = s->grid;
    limits.batch = s->batch;
    limits.keep_all = limits.count_pairs = true;
    return limits;
}

scene scene_make(random_state *r, network *n, triple origin, triple extent, int batch) {
    scene s;
    s.grid = {origin, extent};
    s.batch = batch;
    word_need need = {};
    need.batches = batch;
    CHECK_OK(net_need(n->layers, n->count, &s.grid, &need));
    CHECK_OK(word_fit(&need, &s.layout));
    s.layout = word_widen(s.layout);
    const triple hi = {origin.x + extent.x - 1, origin.y + extent.y - 1, origin.z + extent.z - 1};
    const int cells = batch * extent.x * extent.y * extent.z;
    s.words.resize((size_t)std::max(cells / random_int(r, 3, 12), 2));
    s.words.resize((size_t)reference_random_set(r, &s.layout, origin, hi, {1, 1, 1},
                                                (int32_t)s.words.size() - 1, s.words.data()));
    const net_limits limits = scene_limits(n, &s);
    reference_net_capacities(n, &limits, 3000); // more than any grid here has
    s.features.resize(s.words.size() * (size_t)n->input_channels);
    reference_random_values(r, numeric_f32, 1, (int64_t)s.features.size(), s.features.data());
    return s;
}

// A run of a scene, and what the reference makes of it. grid[0] is the input, grid[1 + i] layer i.
struct judged {
    const network *net;
    const scene *in;
    std::unique_ptr<net_plan> plan;
    std::vector<float> params;
    net_run_args<uint64_t> run;
    device_status *trouble;
    std::vector<reference_grid> grid;
    std::vector<std::vector<int32_t>> maps; // of the layers
};

const reference_grid *grid_of(const judged *j, int layer) {
    return &j->grid[(size_t)(1 + layer)];
}

const float *features_of(const judged *j, int layer) {
    return layer < 0 ? j->in->features.data()
                     : (const float *)net_output(j->plan.get(), layer, &j->run).features;
}

// The cells of the plan's set of a layer, on the grid that the plan says it lies on.
std::vector<reference_cell> cells_of(const judged *j, int layer) {
    const net_plan *p = j->plan.get();
    const net_set *set = &p->set[layer < 0 ? 0 : p->step[layer].set];
    const voxel_set<uint64_t> voxels =
        net_voxels(p, (int)(set - p->set), j->run.input, j->run.memory);
    std::vector<reference_cell> cells;
    for (int32_t i = 0; i < *voxels.count; ++i) {
        const voxel v = word_unpack(&j->in->layout, voxels.words[i]);
        const int away[3] = {v.x - set->grid.origin.x, v.y - set->grid.origin.y,
                             v.z - set->grid.origin.z};
        const int by[3] = {set->stride.x, set->stride.y, set->stride.z};
        reference_cell c = {v.batch, {0, 0, 0}};
        for (int a = 0; a < 3; ++a) {
            c.at[a] = away[a] % by[a] == 0 ? away[a] / by[a] : -1; // else off the grid
        }
        cells.push_back(c);
    }
    return cells;
}

// Numbers the rows of a grid by the plan's set. False if a voxel is outside of the extent, off the
// grid, there twice or not expected, or if one is missing.
bool grid_number(const std::vector<reference_cell> &cells, reference_grid *g) {
    for (size_t i = 0; i < cells.size(); ++i) {
        const int64_t at = reference_grid_at(g, cells[i]);
        if (at < 0 || !g->has[(size_t)at] || g->row[(size_t)at] >= 0) {
            return false;
        }
        g->row[(size_t)at] = (int32_t)i;
    }
    return std::count(g->has.begin(), g->has.end(), 1) == (int64_t)cells.size();
}

void judge_input(judged *j) {
    reference_grid g = {};
    const triple n = j->in->grid.extent;
    g.batch = j->in->batch;
    g.n[0] = n.x;
    g.n[1] = n.y;
    g.n[2] = n.z;
    g.spacing[0] = g.spacing[1] = g.spacing[2] = 1;
    g.made_by = net_input;
    reference_grid_clear(&g);
    const std::vector<reference_cell> cells = cells_of(j, net_input);
    for (reference_cell c : cells) {
        g.has[(size_t)reference_grid_at(&g, c)] = 1;
    }
    CHECK(grid_number(cells, &g));
    j->grid.push_back(g);
    j->maps.assign((size_t)j->net->count, {});
}

// ---- judging a layer ----------------------------------------------------------------------------

// The sources of a join.
std::vector<int> joined(const net_layer *l) {
    std::vector<int> sources;
    if (l->op == net_join) {
        for (net_source s : {l->source, l->source2, l->source3, l->source4}) {
            if (s.plus_two) {
                sources.push_back(net_number(s));
            }
        }
    }
    return sources;
}

// The grid of a layer's outputs, without the numbers of rows.
reference_grid grid_expected(const judged *j, int layer) {
    const net_layer *l = &j->net->layers[layer];
    const reference_grid *in = grid_of(j, net_number(l->source));
    const bool keeps = triple_equal(l->stride, {1, 1, 1}) && l->rule == net_rule_floor;
    reference_grid g = *in;
    if (l->op == net_join) {
        std::vector<const reference_grid *> sources;
        for (int s : joined(l)) {
            sources.push_back(grid_of(j, s));
        }
        g = reference_grid_union(sources, (int)l->axis - 1, layer);
        for (const reference_grid *s : sources) {
            reference_grid_gather(s, &g);
        }
    } else if (l->transposed) {
        g = *grid_of(j, net_number(j->net->layers[in->made_by].source));
    } else if (!keeps) {
        g = reference_grid_strided(in, l, layer);
    }
    std::fill(g.row.begin(), g.row.end(), -1);
    return g;
}

// A join adds the features of its sources, cell by cell.
double join_off_by(const judged *j, int layer, const reference_grid *g, size_t rows) {
    const int channels = j->plan->step[layer].channels;
    const conv_epilogue none = {};
    std::vector<double> sum(rows * (size_t)channels), magnitude(sum), terms(sum);
    for (int source : joined(&j->net->layers[layer])) {
        const reference_grid *from = grid_of(j, source);
        for (int64_t i = 0; i < (int64_t)from->has.size(); ++i) {
            const int64_t to = from->has[(size_t)i] ? reference_grid_target(g, from, i) : -1;
            for (int c = 0; to >= 0 && c < channels; ++c) {
                const size_t at = (size_t)(g->row[(size_t)to] * channels + c);
                const double x =
                    (double)features_of(j, source)[from->row[(size_t)i] * channels + c];
                sum[at] += x;
                magnitude[at] += fabs(x);
                terms[at] += 1;
            }
        }
    }
    double worst = 0;
    for (size_t at = 0; at < sum.size(); ++at) {
        const double error = 2 * (terms[at] + 4) * (magnitude[at] / (1 << 24) + 0x1p-149);
        const reference_value v = reference_epilogue(sum[at], error, &none, 0, 0, numeric_f32);
        const double got = (double)features_of(j, layer)[at];
        worst = std::max(worst, reference_ratio(got, v, numeric_f32));
    }
    return worst;
}

// A dense map is exactly the features of its source's voxels, and zeros.
bool dense_is_right(const judged *j, int layer) {
    const net_layer *l = &j->net->layers[layer];
    const reference_grid *in = grid_of(j, net_number(l->source));
    const net_result<uint64_t> r = net_output(j->plan.get(), layer, &j->run);
    const float *features = features_of(j, net_number(l->source));
    const int64_t depth = in->n[2], channels = r.channels / depth;
    bool right = r.batch == in->batch && r.width == in->n[0] && r.height == in->n[1] &&
                 r.channels == reference_net_channels(j->net, layer) * depth &&
                 r.type == numeric_f32;
    for (int64_t i = 0; i < reference_grid_cells(in); ++i) {
        const reference_cell cell = reference_grid_cell(in, i);
        const int64_t row = in->row[(size_t)i];
        for (int64_t c = 0; right && c < channels; ++c) {
            const int64_t deep = c * depth + cell.at[2];
            const int64_t first =
                ((cell.batch * (int64_t)r.channels + deep) * r.height + cell.at[1]) * r.width +
                cell.at[0];
            const int64_t last =
                ((cell.batch * (int64_t)r.height + cell.at[1]) * r.width + cell.at[0]) *
                    r.channels +
                deep;
            const int64_t at = l->order == dense_channels_first ? first : last;
            right = ((const float *)r.features)[at] == (row < 0 ? 0 : features[row * channels + c]);
        }
    }
    return right;
}

// How far a convolution or a pooling layer is off, by its map on the grid.
double map_off_by(judged *j, int layer, const reference_grid *g, size_t rows) {
    const net_layer *l = &j->net->layers[layer];
    const reference_grid *in = grid_of(j, net_number(l->source));
    const net_layer *by = l->transposed ? &j->net->layers[in->made_by] : l;
    const reference_taps taps = reference_grid_taps(by->rule == net_rule_expand ? by : l);
    j->maps[(size_t)layer] = reference_grid_map(in, &taps, l->transposed, g, (int32_t)rows);
    reference_net_run<uint64_t> run = {};
    run.net = j->net;
    run.plan = j->plan.get();
    run.params = j->params.data();
    run.maps = j->maps.data();
    for (int i = net_input; i < j->net->count; ++i) {
        run.feature[1 + i] = features_of(j, i);
    }
    for (int s = 0; s < j->plan->sets; ++s) { // how many there are
        run.sets.set[s].resize(
            (size_t)*net_voxels(j->plan.get(), s, j->run.input, j->run.memory).count);
    }
    return reference_net_judge(&run, layer).ratio;
}

// How far a layer is off, as a part of its bound; infinite if its voxels are wrong. The grids of
// the layers before it are there; *g becomes its own.
double off_by(judged *j, int layer, reference_grid *g) {
    *g = reference_grid();
    if (j->net->layers[layer].op == net_dense) {
        return dense_is_right(j, layer) ? 0 : INFINITY;
    }
    *g = grid_expected(j, layer);
    const std::vector<reference_cell> cells = cells_of(j, layer);
    if (!grid_number(cells, g)) {
        return INFINITY;
    }
    return j->net->layers[layer].op == net_join ? join_off_by(j, layer, g, cells.size())
                                                : map_off_by(j, layer, g, cells.size());
}

// Checks a layer, and keeps its grid for the layers that read it.
void judge_layer(judged *j, int layer) {
    reference_grid g;
    const double off = off_by(j, layer, &g);
    char text[128];
    snprintf(text, sizeof text, "layer %d (%s): %g times its bound", layer,
             j->net->layers[layer].name, off);
    test_check(off <= 1, __FILE__, __LINE__, text);
    j->grid.push_back(g);
}

// Plans and runs a network on a scene.
judged run_scene(const network *n, const scene *s, int32_t *count) {
    judged j;
    j.net = n;
    j.in = s;
    j.plan.reset(new net_plan);
    j.trouble = guarded_new<device_status>(1);
    *j.trouble = {};
    *count = (int32_t)s->words.size();
    const net_limits limits = scene_limits(n, s);
    CHECK_OK(net_plan_host<uint64_t>(n->layers, n->count, &s->layout, &limits, j.plan.get()));
    j.params.resize((size_t)j.plan->params + 1);
    networks::network_weights(j.plan.get(), 7, j.params.data());
    j.run = {};
    j.run.input = {(uint64_t *)s->words.data(), count, *count};
    j.run.features = s->features.data();
    j.run.loaded = j.params.data();
    j.run.trouble = j.trouble;
    j.run.bytes = j.plan->workspace_bytes;
    j.run.memory = guarded_new<char>((int64_t)j.run.bytes);
    CHECK_OK(net_run_host(j.plan.get(), &j.run));
    CHECK_OK(device_status_read(j.trouble));
    judge_input(&j);
    return j;
}

// Runs a network on a scene and judges every layer. Returns the plan.
std::unique_ptr<net_plan> judge(const network *n, const scene *s) {
    int32_t count;
    judged j = run_scene(n, s, &count);
    for (int i = 0; i < n->count; ++i) {
        judge_layer(&j, i);
    }
    return std::move(j.plan);
}

} // namespace

// ---- against dense loops ------------------------------------------------------------------------

TEST(net_sets_encoder_is_dense_convolution) {
    random_state r = random_make(31);
    for (int i = 0; i < 12; ++i) {
        network n;
        tables::network_encoder(&n);
        n.layers[n.count - 1].order = i % 2 ? dense_channels_last : dense_channels_first;
        const triple origin = {random_int(&r, -9, 9), random_int(&r, -9, 9), random_int(&r, -9, 9)};
        const triple extent = {random_int(&r, 5, 17), random_int(&r, 5, 17),
                               random_int(&r, 13, 17)};
        const scene s = scene_make(&r, &n, origin, extent, 1 + i % 2);
        const std::unique_ptr<net_plan> plan = judge(&n, &s);
        CHECK_EQUAL(plan->sets, 4);
    }
}

// Sizes, strides, paddings and dilations, each of its own on each axis; back again.
TEST(net_sets_any_strided_layer_and_its_inverse) {
    random_state r = random_make(32);
    for (int i = 0; i < 30; ++i) {
        network n;
        networks::network_begin(&n, 3);
        const int down = networks::network_down(&n, "down", net_input, 4, 1, 1, 0);
        net_layer *l = &n.layers[down];
        l->size = {random_int(&r, 1, 5), random_int(&r, 1, 3), random_int(&r, 1, 4)};
        l->stride = {random_int(&r, 1, 3), random_int(&r, 1, 3), random_int(&r, 1, 4)};
        l->dilation = {random_int(&r, 1, 2), 1, random_int(&r, 1, 3)};
        l->padding = {random_int(&r, 0, 3), random_int(&r, 0, 2), random_int(&r, 0, 4)};
        const int kept = networks::network_conv(&n, "kept", down, 3, 3, 1);
        const int deeper = networks::network_down(&n, "deeper", kept, 4, 3, 2, 1);
        const int up = networks::network_conv(&n, "up", deeper, 3, 3, 2);
        n.layers[up].transposed = true;
        n.layers[up].residual = net_from(kept);
        const int top = networks::network_conv(&n, "top", up, 5, 1, 1);
        n.layers[top] = n.layers[down];
        n.layers[top].name = "top";
        n.layers[top].source = net_from(up);
        n.layers[top].transposed = true;
        const scene s = scene_make(&r, &n, {random_int(&r, -5, 5), 0, random_int(&r, -5, 5)},
                                   {11, random_int(&r, 5, 7), 12}, 1 + i % 2);
        const std::unique_ptr<net_plan> plan = judge(&n, &s);
        CHECK_EQUAL(plan->step[top].set, 0);
        CHECK_EQUAL(plan->step[up].set, plan->step[kept].set);
    }
}

TEST(net_sets_joined_levels) {
    random_state r = random_make(33);
    for (int i = 0; i < 12; ++i) {
        network n;
        tables::network_flat(&n);
        net_layer *join = &n.layers[7];
        REQUIRE(join->op == net_join);
        join->axis = (join_axis)(i % 4);
        const triple origin = {random_int(&r, -9, 9), random_int(&r, -9, 9), random_int(&r, -9, 9)};
        const triple extent = {random_int(&r, 5, 13), random_int(&r, 5, 13), random_int(&r, 5, 13)};
        if (i % 4 == 1 || i % 4 == 2) { // x or y dropped: the layers behind it are flat in that
            for (int l = 8; l < 10; ++l) {
                n.layers[l].size = i % 4 == 1 ? triple{1, 3, 3} : triple{3, 1, 3};
            }
            n.layers[8].padding = i % 4 == 1 ? triple{0, 1, 1} : triple{1, 0, 1};
        }
        const scene s = scene_make(&r, &n, origin, extent, 1 + i % 2);
        const std::unique_ptr<net_plan> plan = judge(&n, &s);
        CHECK_EQUAL(plan->sets, 6);
    }
}

// Two-dimensional networks have an axis of size 1.
TEST(net_sets_flat_network) {
    random_state r = random_make(34);
    for (int i = 0; i < 6; ++i) {
        network n;
        tables::network_encoder(&n);
        n.count -= 2; // the layers of z, and the map behind them
        for (int l = 0; l < n.count; ++l) {
            n.layers[l].size.z = n.layers[l].stride.z = 1;
            n.layers[l].padding.z = 0;
        }
        networks::network_add(&n, "dense", net_layer_dense("", n.count - 1));
        const scene s = scene_make(&r, &n, {0, 0, 0}, {23, 19, 1}, 2);
        const std::unique_ptr<net_plan> plan = judge(&n, &s);
        CHECK_EQUAL(plan->step[n.count - 1].channels, 6);
    }
}

// Floors of an expanded set, and back; a set of the same stride by another rule beside it.
TEST(net_sets_floor_of_an_expanded_set) {
    random_state r = random_make(35);
    for (int i = 0; i < 6; ++i) {
        network n;
        tables::network_mixed(&n);
        const int wide = 0, up = 2, other = 3;
        const scene s = scene_make(&r, &n, {8, -4, 0}, {9, 12, 7}, 1);
        const std::unique_ptr<net_plan> plan = judge(&n, &s);
        CHECK_EQUAL(plan->sets, 6);
        CHECK(triple_equal(plan->set[plan->step[wide].set].stride, {2, 2, 2}));
        CHECK(triple_equal(plan->set[plan->step[other].set].stride, {2, 2, 2}));
        CHECK(plan->step[wide].set != plan->step[other].set);
        CHECK_EQUAL(plan->step[up].set, plan->step[wide].set);
    }
}

static void (*const table_makers[])(network *) = {tables::network_encoder, tables::network_flat,
                                                  tables::network_mixed};

// The judge finds a changed feature, a changed voxel and a wrong weight, in every layer.
TEST(net_sets_judge_finds_planted_errors) {
    random_state r = random_make(36);
    for (int i = 0; i < 3; ++i) {
        network n;
        table_makers[i](&n);
        const scene s = scene_make(&r, &n, {8, -4, 0}, {13, 14, 15}, 2);
        int32_t count;
        judged j = run_scene(&n, &s, &count);
        for (int l = 0; l < n.count; ++l) {
            judge_layer(&j, l);
            reference_grid g;
            const net_result<uint64_t> result = net_output(j.plan.get(), l, &j.run);
            float *value = (float *)result.features + *result.set.count / 2 * result.channels;
            const float good = *value;
            *value += 1e-3f + 1e-3f * fabsf(good);
            CHECK(off_by(&j, l, &g) > 1);
            *value = good;
            if (result.set.count != j.run.input.count && n.layers[l].op != net_dense) {
                const uint64_t last = --*result.set.count;
                CHECK(off_by(&j, l, &g) > 1);
                ++*result.set.count;
                const uint64_t word = result.set.words[last];
                result.set.words[last] ^= 1; // off its grid, or another voxel
                CHECK(off_by(&j, l, &g) > 1);
                result.set.words[last] = word;
            }
            if (n.layers[l].op == net_conv) {
                float *weight = &j.params[(size_t)net_params_of(j.plan.get(), l).weight];
                const int volume = j.plan->step[l].shape.volume;
                float *middle = weight + (net_params_of(j.plan.get(), l).vectors -
                                          net_params_of(j.plan.get(), l).weight) /
                                             volume * (volume / 2);
                *middle += 1;
                CHECK(off_by(&j, l, &g) > 1);
                *middle -= 1;
            }
            CHECK(off_by(&j, l, &g) <= 1.5);
        }
    }
}

// Frames without a voxel, between others.
TEST(net_sets_empty_frames) {
    random_state r = random_make(38);
    for (auto make : table_makers) {
        network n;
        make(&n);
        const scene s = scene_make(&r, &n, {8, -4, 0}, {13, 14, 15}, 2);
        int32_t count;
        judged j = run_scene(&n, &s, &count);
        const int32_t full = count;
        for (int32_t voxels : {0, full, 0}) {
            count = voxels;
            memset(j.run.memory, 0xff, j.run.bytes);
            CHECK_OK(net_run_host(j.plan.get(), &j.run));
            CHECK_OK(device_status_read(j.trouble));
            j.grid.clear();
            judge_input(&j);
            for (int l = 0; l < n.count; ++l) {
                judge_layer(&j, l);
            }
            for (int set = 0; set < j.plan->sets; ++set) {
                const int32_t found =
                    *net_voxels(j.plan.get(), set, j.run.input, j.run.memory).count;
                CHECK_EQUAL(found > 0, voxels > 0);
            }
        }
    }
}

// Sets that outgrow their capacity are cut off and recorded, with the largest number that was
// needed; nothing is written beyond them.
TEST(net_sets_capacity_passed) {
    random_state r = random_make(39);
    for (auto make : table_makers) {
        network n;
        make(&n);
        const scene s = scene_make(&r, &n, {8, -4, 0}, {13, 14, 15}, 2);
        int32_t count;
        judged j = run_scene(&n, &s, &count);
        const int32_t needed = *net_voxels(j.plan.get(), 1, j.run.input, j.run.memory).count;
        net_limits limits = scene_limits(&n, &s);
        reference_net_capacities(&n, &limits, 20);
        REQUIRE_OK(net_plan_host<uint64_t>(n.layers, n.count, &s.layout, &limits, j.plan.get()));
        j.run.bytes = j.plan->workspace_bytes;
        j.run.memory = guarded_new<char>((int64_t)j.run.bytes);
        CHECK_OK(net_run_host(j.plan.get(), &j.run));
        const status told = device_status_read(j.trouble);
        CHECK_STATUS(told, status_capacity);
        CHECK(told.detail >= needed);
        for (int set = 1; set < j.plan->sets; ++set) {
            const int32_t found = *net_voxels(j.plan.get(), set, j.run.input, j.run.memory).count;
            CHECK(found > 0 && found <= 20);
        }
    }
}

// The last layer can write to a tensor of the caller's.
TEST(net_sets_output_in_place) {
    random_state r = random_make(37);
    for (int i = 0; i < 2; ++i) {
        network n;
        i ? tables::network_flat(&n) : tables::network_encoder(&n);
        const scene s = scene_make(&r, &n, {0, 0, 0}, {13, 14, 15}, 2);
        int32_t count;
        judged j = run_scene(&n, &s, &count);
        const int last = n.count - 1;
        const net_result<uint64_t> kept = net_output(j.plan.get(), last, &j.run);
        const int64_t rows =
            kept.batch ? (int64_t)kept.batch * kept.height * kept.width : *kept.set.count;
        const size_t bytes = (size_t)(rows * kept.channels) * sizeof(float);
        const std::vector<char> wanted((char *)kept.features, (char *)kept.features + bytes);
        char *out = guarded_new<char>((int64_t)bytes + 4);
        j.run.out = out + 4;
        CHECK_STATUS(net_run_host(j.plan.get(), &j.run), status_alignment);
        j.run.out = out;
        memset(kept.features, 0xff, bytes);
        CHECK_OK(net_run_host(j.plan.get(), &j.run));
        CHECK(net_output(j.plan.get(), last, &j.run).features == out);
        CHECK(memcmp(out, wanted.data(), bytes) == 0);
        CHECK_EQUAL((int)*(unsigned char *)kept.features, 0xff); // nothing there
    }
}
