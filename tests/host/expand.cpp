// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/host/expand.cpp: expand.h, against loops over all outputs and all taps in index space.
#include "../support/expand.h"
#include "../support/downsample.h"

#include <map>
#include <tuple>

// ---- the definition, written out ----------------------------------------------------------------

// A layer in plain numbers, axis by axis.
struct layer {
    int size[3], dilation[3], ratio[3], padding[3];
    int spacing[3], origin[3], extent[3];
    bool transposed;
};

static kernel_shape kernel_of(const layer *l) {
    return {{l->size[0], l->size[1], l->size[2]},
            {l->dilation[0], l->dilation[1], l->dilation[2]},
            {l->spacing[0], l->spacing[1], l->spacing[2]},
            l->transposed};
}

static expand_rule rule_of(const layer *l) {
    return {
        {l->ratio[0], l->ratio[1], l->ratio[2]},
        {l->padding[0], l->padding[1], l->padding[2]},
        {{l->origin[0], l->origin[1], l->origin[2]}, {l->extent[0], l->extent[1], l->extent[2]}}};
}

// Positions of a kernel that stays inside of the padded extent.
static int positions_of(const layer *l, int a) {
    int count = 0;
    while (count * l->ratio[a] + (l->size[a] - 1) * l->dilation[a] <
           l->extent[a] + 2 * l->padding[a]) {
        ++count;
    }
    return count;
}

// A voxel by its index on the grid of its set.
struct indexed {
    int batch, at[3];
    bool operator<(const indexed &o) const {
        return std::tie(batch, at[0], at[1], at[2]) < std::tie(o.batch, o.at[0], o.at[1], o.at[2]);
    }
};

// What an output reads: the input's row, or -1, for each tap: x slowest, z fastest.
typedef std::vector<int32_t> taps;
typedef std::map<indexed, int32_t> rows_by_index;
typedef std::map<indexed, taps> outputs_by_index;

static taps taps_of(const layer *l, const rows_by_index &in, const indexed &o) {
    taps found;
    for (int x = 0; x < l->size[0]; ++x) {
        for (int y = 0; y < l->size[1]; ++y) {
            for (int z = 0; z < l->size[2]; ++z) {
                indexed i = {o.batch, {x, y, z}};
                for (int a = 0; a < 3; ++a) { // the offsets of a transposed kernel run backwards
                    const int tap = l->transposed ? l->size[a] - 1 - i.at[a] : i.at[a];
                    i.at[a] = o.at[a] * l->ratio[a] - l->padding[a] + tap * l->dilation[a];
                }
                auto row = in.find(i);
                found.push_back(row == in.end() ? -1 : row->second);
            }
        }
    }
    return found;
}

// All outputs that read something, by trying each index that can.
static outputs_by_index outputs_of(const layer *l, const rows_by_index &in, int batches) {
    outputs_by_index out;
    if (in.empty()) {
        return out;
    }
    int lo[3], hi[3]; // of the outputs, generously
    for (int a = 0; a < 3; ++a) {
        int least = INT32_MAX, most = INT32_MIN;
        for (const auto &i : in) {
            least = std::min(least, i.first.at[a]);
            most = std::max(most, i.first.at[a]);
        }
        int span = (l->size[a] - 1) * l->dilation[a];
        lo[a] = (int)floor((double)(least + l->padding[a] - span) / l->ratio[a]) - 1;
        hi[a] = (int)ceil((double)(most + l->padding[a]) / l->ratio[a]) + 1;
        if (l->extent[a]) {
            lo[a] = 0;
            hi[a] = positions_of(l, a) - 1;
        }
    }
    indexed o;
    for (o.batch = 0; o.batch < batches; ++o.batch) {
        for (o.at[0] = lo[0]; o.at[0] <= hi[0]; ++o.at[0]) {
            for (o.at[1] = lo[1]; o.at[1] <= hi[1]; ++o.at[1]) {
                for (o.at[2] = lo[2]; o.at[2] <= hi[2]; ++o.at[2]) {
                    taps found = taps_of(l, in, o);
                    if (*std::max_element(found.begin(), found.end()) >= 0) {
                        out[o] = found;
                    }
                }
            }
        }
    }
    return out;
}

// Where index i of a grid stands.
static voxel voxel_at(const indexed &i, const int origin[3], const int spacing[3]) {
    return {i.batch, origin[0] + i.at[0] * spacing[0], origin[1] + i.at[1] * spacing[1],
            origin[2] + i.at[2] * spacing[2]};
}

// The layer that follows, on the grid of the outputs.
static layer layer_behind(const layer *l) {
    layer next = *l;
    for (int a = 0; a < 3; ++a) {
        int tap = l->size[a] % 2 ? (l->size[a] - 1) / 2 : l->transposed ? l->size[a] - 1 : 0;
        next.spacing[a] = l->spacing[a] * l->ratio[a];
        next.origin[a] = l->origin[a] + (tap * l->dilation[a] - l->padding[a]) * l->spacing[a];
        next.extent[a] = l->extent[a] ? positions_of(l, a) : 0;
    }
    return next;
}

// ---- one run and what it should be --------------------------------------------------------------

template <typename W>
struct outcome : set_outcome<W> {
    std::vector<taps> pairs; // of the outputs; compared only where there was no trouble in reach
};

template <typename W>
static outcome<W> expected_of(const word_layout *layout, const layer *l, const std::vector<W> &in,
                              int32_t capacity) {
    outcome<W> e = {};
    rows_by_index rows;
    for (int32_t i = 0; i < (int32_t)in.size(); ++i) {
        voxel v = word_unpack(layout, in[(size_t)i]);
        const int at[3] = {v.x, v.y, v.z};
        indexed index = {v.batch, {}};
        bool between = false, beyond = false;
        for (int a = 0; a < 3; ++a) {
            double exact = (double)(at[a] - l->origin[a]) / l->spacing[a];
            index.at[a] = (int)floor(exact);
            const bool inside = !l->extent[a] || (exact >= 0 && exact < l->extent[a]);
            between = between || exact != floor(exact);
            beyond = beyond || (exact == floor(exact) && !inside);
        }
        if (between) {
            device_status_note(&e.trouble, device_flag_lattice, (uint32_t)i);
        }
        if (beyond) {
            device_status_note(&e.trouble, device_flag_range, (uint32_t)i);
        }
        if (!between && !beyond) {
            rows[index] = i;
        }
    }
    layer behind = layer_behind(l);
    for (const auto &o : outputs_of(l, rows, layout->batches)) {
        voxel v = voxel_at(o.first, behind.origin, behind.spacing);
        if (word_contains(layout, v)) {
            e.words.push_back(word_pack<W>(layout, v));
            e.pairs.push_back(o.second);
            continue;
        }
        for (int32_t row : o.second) {
            if (row >= 0) {
                device_status_note(&e.trouble, device_flag_range, (uint32_t)row);
            }
        }
    }
    e.count = (int32_t)e.words.size();
    if (e.count > capacity) {
        device_status_note(&e.trouble, device_flag_capacity, (uint32_t)e.count);
        e.count = capacity;
    }
    e.words.resize((size_t)e.count);
    e.words.resize((size_t)capacity, word_none<W>());
    e.pairs.resize((size_t)e.count);
    return e;
}

template <typename W>
static outcome<W> outcome_of(const word_layout *layout, const layer *l, std::vector<W> in,
                             int32_t room, int32_t capacity) {
    outcome<W> o = {};
    kernel_shape kernel = kernel_of(l);
    expand_rule rule = rule_of(l);
    int32_t count = (int32_t)in.size(), in_capacity = std::max(count + room, 1);
    set_pad(&in, in_capacity);
    voxel_set<W> from = {in.data(), &count, in_capacity};
    voxel_set<W> to = {guarded_new<W>(capacity), guarded_new<int32_t>(1), capacity};
    const expand_args<W> args = {layout, &kernel, &rule, from, to, &o.trouble};
    size_t bytes = 0;
    CHECK_OK(expand_host_workspace(&args, &bytes));
    if (!CHECK_OK(expand_host(&args, guarded_new<char>((int64_t)bytes), bytes))) {
        return o;
    }
    o.count = *to.count;
    o.words.assign(to.words, to.words + capacity);
    int64_t volume = kernel_volume(&kernel);
    int32_t *map = guarded_new<int32_t>(capacity * volume);
    CHECK_OK(map_build_host(layout, &kernel, from, to, map));
    for (int64_t i = 0; i < o.count; ++i) {
        o.pairs.push_back(taps(map + i * volume, map + (i + 1) * volume));
    }
    return o;
}

// What is not the same, or "". Voxels off their grid are in the map and not in the definition.
template <typename W>
static const char *difference(const outcome<W> &got, const outcome<W> &wanted) {
    const char *found = set_difference<W>(got, wanted);
    const bool in_range = !(wanted.trouble.flags & (device_flag_range | device_flag_lattice));
    return *found ? found : in_range && got.pairs != wanted.pairs ? "pairs" : "";
}

template <typename W>
static outcome<W> check_layer(const word_layout *layout, const layer *l, const std::vector<W> &in,
                              int32_t room, int32_t capacity) {
    outcome<W> wanted = expected_of(layout, l, in, capacity);
    outcome<W> got = outcome_of(layout, l, in, room, capacity);
    CHECK_EQUAL(difference(got, wanted), "");
    expand_grid grid = {};
    layer behind = layer_behind(l);
    kernel_shape kernel = kernel_of(l);
    expand_rule rule = rule_of(l);
    CHECK_OK(expand_out(&kernel, &rule, &grid));
    CHECK(triple_equal(grid.origin, {behind.origin[0], behind.origin[1], behind.origin[2]}));
    CHECK(triple_equal(grid.extent, {behind.extent[0], behind.extent[1], behind.extent[2]}));
    return got;
}

// ---- random layers ------------------------------------------------------------------------------

struct scene {
    layer l;
    word_need need;   // of the inputs alone
    int lo[3], hi[3]; // indices
};

// Layers whose outputs are not more than the loops can try; extents on all axes, some or none.
static scene scene_random(random_state *r) {
    scene s;
    int bounded = random_int(r, 0, 3);
    s.l.transposed = random_int(r, 0, 3) == 0;
    for (int a = 0; a < 3; ++a) {
        layer *l = &s.l;
        l->size[a] = random_int(r, 1, 5);
        l->dilation[a] = random_int(r, 1, 2);
        l->ratio[a] = l->transposed ? 1 : random_int(r, 1, 3);
        l->padding[a] = random_int(r, 0, random_int(r, 0, 6));
        l->spacing[a] = random_int(r, 1, 4);
        l->origin[a] = random_int(r, -30, 30);
        int length = random_int(r, 1, 7), least = (l->size[a] - 1) * l->dilation[a] + 1;
        bool ends = bounded == 3 || bounded == a;
        l->extent[a] = ends ? std::max(length, least - 2 * l->padding[a]) : 0;
        s.lo[a] = ends ? 0 : random_int(r, -9, 3);
        s.hi[a] = s.lo[a] + (ends ? l->extent[a] : length) - 1;
    }
    voxel lo = voxel_at({0, {s.lo[0], s.lo[1], s.lo[2]}}, s.l.origin, s.l.spacing);
    voxel hi = voxel_at({0, {s.hi[0], s.hi[1], s.hi[2]}}, s.l.origin, s.l.spacing);
    kernel_shape kernel = kernel_of(&s.l);
    s.need = word_need_of({lo.x, lo.y, lo.z}, {hi.x, hi.y, hi.z}, random_int(r, 1, 3),
                          {random_int(r, 1, 4), random_int(r, 1, 4), random_int(r, 1, 4)},
                          kernel_reach(&kernel));
    return s;
}

template <typename W>
static word_layout layout_of(const word_need *need) {
    return reference_layout<W>(need->lo, need->hi, need->batches, need->stride, need->reach);
}

template <typename W>
static std::vector<W> words_random(random_state *r, const word_layout *layout, const scene *s) {
    std::vector<W> words;
    for (int left = random_int(r, 0, 25); left > 0; --left) {
        indexed i = {random_int(r, 0, layout->batches - 1), {}};
        for (int a = 0; a < 3; ++a) {
            i.at[a] = random_int(r, s->lo[a], s->hi[a]);
        }
        words.push_back(word_pack<W>(layout, voxel_at(i, s->l.origin, s->l.spacing)));
    }
    return set_sorted(words);
}

template <typename W>
static void check_random(uint64_t seed, int scenes) {
    random_state r = random_make(seed);
    int cramped = 0;
    for (int i = 0; i < scenes; ++i) {
        scene s = scene_random(&r);
        kernel_shape kernel = kernel_of(&s.l);
        expand_rule rule = rule_of(&s.l);
        word_need wider = s.need;
        REQUIRE_OK(expand_need(&kernel, &rule, &wider));
        word_layout layout = layout_of<W>(&wider);
        std::vector<W> in = words_random<W>(&r, &layout, &s);
        outcome<W> o = check_layer(&layout, &s.l, in, random_int(&r, 0, 3), 4000);
        CHECK_EQUAL(o.trouble.flags, 0u); // the layout has room, and all voxels are on the grid
        check_layer(&layout, &s.l, in, 0, random_int(&r, 1, o.count + 1));
        // A layout for the inputs only may have no room.
        word_layout narrow = layout_of<W>(&s.need);
        for (W &word : in) {
            word = word_pack<W>(&narrow, word_unpack(&layout, word));
        }
        cramped += check_layer(&narrow, &s.l, in, 0, 4000).trouble.flags == device_flag_range;
        guarded_finish();
    }
    CHECK(cramped > scenes / 10 && cramped < scenes);
}

TEST(expand_random_layers) {
    check_random<uint32_t>(1, test_quick() ? 40 : 400);
    check_random<uint64_t>(2, test_quick() ? 40 : 400);
}

// Voxels between the points of the grid and beyond its extent touch nothing, and are recorded.
TEST(expand_voxels_off_their_grid) {
    random_state r = random_make(3);
    int between = 0, beyond = 0;
    for (int i = 0; i < (test_quick() ? 30 : 200); ++i) {
        scene s = scene_random(&r);
        s.need.lo = {s.need.lo.x - 2, s.need.lo.y - 1, s.need.lo.z - 3};
        s.need.hi = {s.need.hi.x + 1, s.need.hi.y + 4, s.need.hi.z + 2};
        word_layout layout = layout_of<uint64_t>(&s.need);
        std::vector<uint64_t> in =
            set_random<uint64_t>(&r, &layout, s.need.lo, s.need.hi, random_int(&r, 1, 30));
        outcome<uint64_t> o = check_layer(&layout, &s.l, in, 0, 4000);
        between += (o.trouble.flags & device_flag_lattice) != 0;
        beyond += (o.trouble.flags & device_flag_range) != 0;
        guarded_finish();
    }
    CHECK(between > 5 && beyond > 5);
}

// ---- layers that people have --------------------------------------------------------------------

static layer layer_of(triple size, triple ratio, triple padding) {
    return {{size.x, size.y, size.z},
            {1, 1, 1},
            {ratio.x, ratio.y, ratio.z},
            {padding.x, padding.y, padding.z},
            {1, 1, 1},
            {0, 0, 0},
            {0, 0, 0},
            false};
}

// One voxel; which outputs there are is counted by hand.
static void check_one(layer l, voxel v, std::initializer_list<voxel> wanted) {
    word_need need = word_need_of({v.x, v.y, v.z}, {v.x, v.y, v.z}, 2, {1, 1, 1}, {0, 0, 0});
    kernel_shape kernel = kernel_of(&l);
    expand_rule rule = rule_of(&l);
    REQUIRE_OK(expand_need(&kernel, &rule, &need));
    word_layout layout = layout_of<uint32_t>(&need);
    std::vector<uint32_t> words;
    for (const voxel &w : wanted) {
        words.push_back(word_pack<uint32_t>(&layout, w));
    }
    std::vector<uint32_t> in = {word_pack<uint32_t>(&layout, v)};
    outcome<uint32_t> o = check_layer(&layout, &l, in, 0, 50);
    REQUIRE(CHECK_EQUAL(o.count, (int32_t)words.size()));
    CHECK(std::equal(words.begin(), words.end(), o.words.begin()));
    CHECK_EQUAL(o.trouble.flags, 0u);
}

TEST(expand_one_voxel) {
    const triple one = {1, 1, 1};
    layer z = layer_of({1, 1, 3}, {1, 1, 2}, {0, 0, 1}); // along z only
    check_one(z, {1, 5, 5, 4}, {{1, 5, 5, 4}});
    check_one(z, {1, 5, 5, 5}, {{1, 5, 5, 4}, {1, 5, 5, 6}});
    check_one(z, {0, 5, 5, -1}, {{0, 5, 5, -2}, {0, 5, 5, 0}});
    z.padding[2] = 0; // the outputs stand at odd coordinates
    check_one(z, {0, 5, 5, 4}, {{0, 5, 5, 3}, {0, 5, 5, 5}});
    check_one(z, {0, 5, 5, 5}, {{0, 5, 5, 5}});
    check_one(z, {0, 5, 5, -1}, {{0, 5, 5, -1}});
    z.extent[2] = 5; // indices 0 .. 4: outputs 0 and 1, at 1 and 3
    check_one(z, {0, 5, 5, 4}, {{0, 5, 5, 3}});
    check_one(z, {0, 5, 5, 0}, {{0, 5, 5, 1}});
    z = layer_of({1, 1, 2}, {1, 1, 2}, {0, 0, 0}); // the floor
    check_one(z, {0, 5, 5, 5}, {{0, 5, 5, 4}});
    check_one(z, {0, 5, 5, -1}, {{0, 5, 5, -2}});
    z = layer_of({1, 1, 5}, {1, 1, 2}, {0, 0, 2});
    check_one(z, {0, 5, 5, 4}, {{0, 5, 5, 2}, {0, 5, 5, 4}, {0, 5, 5, 6}});
    check_one(z, {0, 5, 5, 3}, {{0, 5, 5, 2}, {0, 5, 5, 4}});
    z = layer_of({1, 1, 3}, one, {0, 0, 1});
    check_one(z, {0, 5, 5, 0}, {{0, 5, 5, -1}, {0, 5, 5, 0}, {0, 5, 5, 1}});
    z = layer_of(one, {1, 1, 2}, {0, 0, 0}); // only every second voxel
    check_one(z, {0, 5, 5, 3}, {});
    check_one(z, {0, 5, 5, 2}, {{0, 5, 5, 2}});
    z = layer_of({1, 1, 3}, {1, 1, 2}, {0, 0, 2}); // even steps only, from even voxels
    z.dilation[2] = 2;
    check_one(z, {0, 5, 5, 3}, {});
    check_one(z, {0, 5, 5, 2}, {{0, 5, 5, 0}, {0, 5, 5, 2}, {0, 5, 5, 4}});
}

// Bounds grow by the kernel's reach, and not beyond the grid of the outputs.
TEST(expand_need_is_what_is_touched) {
    kernel_shape kernel = {{3, 2, 5}, {1, 3, 2}, {2, 2, 2}, false};
    expand_rule rule = {{2, 2, 2}, {1, 0, 4}, {}};
    const word_need need = word_need_of({10, 10, 10}, {40, 40, 40}, 1, {7, 7, 7}, {3, 3, 3});
    word_need wider = need;
    REQUIRE_OK(expand_need(&kernel, &rule, &wider));
    CHECK(triple_equal(wider.lo, {8, 4, 2}));
    CHECK(triple_equal(wider.hi, {42, 40, 48}));
    CHECK(triple_equal(wider.reach, {3, 6, 8}));
    CHECK(triple_equal(wider.stride, need.stride));
    rule.grid = {{10, 6, 0}, {16, 22, 200}}; // the outputs: 10 .. 38, 6 .. 42, 0 .. 396
    wider = need;
    REQUIRE_OK(expand_need(&kernel, &rule, &wider));
    CHECK(triple_equal(wider.lo, {10, 6, 2}));
    CHECK(triple_equal(wider.hi, {40, 40, 48}));
}

// The sparse encoder of SECOND and CenterPoint; x, y, z here are spconv's third, second and first.
static const layer second[] = {
    layer_of({3, 3, 3}, {2, 2, 2}, {1, 1, 1}),
    layer_of({3, 3, 3}, {2, 2, 2}, {1, 1, 1}),
    layer_of({3, 3, 3}, {2, 2, 2}, {1, 1, 0}),
    layer_of({1, 1, 3}, {1, 1, 2}, {0, 0, 0}),
};

TEST(expand_extents_of_second) {
    expand_grid grid = {{0, -40, -3}, {1408, 1600, 41}};
    triple spacing = {1, 1, 1};
    const triple extents[] = {{704, 800, 21}, {352, 400, 11}, {176, 200, 5}, {176, 200, 2}};
    const triple origins[] = {{0, -40, -3}, {0, -40, -3}, {0, -40, 1}, {0, -40, 9}};
    for (int i = 0; i < 4; ++i) {
        kernel_shape kernel = kernel_of(&second[i]);
        expand_rule rule = rule_of(&second[i]);
        kernel.stride = spacing;
        rule.grid = grid;
        REQUIRE_OK(expand_out(&kernel, &rule, &grid));
        CHECK(triple_equal(grid.extent, extents[i]));
        CHECK(triple_equal(grid.origin, origins[i]));
        spacing = triple_multiply(spacing, rule.ratio);
    }
}

// The map of a transposed kernel holds the pairs of the forward one, and only those.
static void check_inverse(const word_layout *layout, const layer *l, voxel_set<uint32_t> in,
                          voxel_set<uint32_t> out, const std::vector<taps> &pairs) {
    kernel_shape back = kernel_of(l);
    back.transposed = !l->transposed;
    int64_t volume = kernel_volume(&back);
    int32_t *map = guarded_new<int32_t>(in.capacity * volume);
    REQUIRE_OK(map_build_host(layout, &back, out, in, map));
    std::vector<int32_t> reversed((size_t)(*in.count * volume), -1);
    for (size_t o = 0; o < pairs.size(); ++o) {
        for (size_t k = 0; k < pairs[o].size(); ++k) {
            if (pairs[o][k] >= 0) {
                reversed[(size_t)(pairs[o][k] * volume) + k] = (int32_t)o;
            }
        }
    }
    CHECK(std::equal(reversed.begin(), reversed.end(), map));
}

// A submanifold layer pairs outputs whose indices are neighbours.
static void check_submanifold(const word_layout *layout, const layer *behind,
                              voxel_set<uint32_t> set) {
    kernel_shape same = kernel_cube(3, 1);
    same.stride = {behind->spacing[0], behind->spacing[1], behind->spacing[2]};
    rows_by_index rows;
    std::vector<indexed> index;
    for (int32_t i = 0; i < *set.count; ++i) {
        voxel v = word_unpack(layout, set.words[i]);
        index.push_back({v.batch,
                         {(v.x - behind->origin[0]) / behind->spacing[0],
                          (v.y - behind->origin[1]) / behind->spacing[1],
                          (v.z - behind->origin[2]) / behind->spacing[2]}});
        rows[index.back()] = i;
    }
    const layer l = layer_of({3, 3, 3}, {1, 1, 1}, {1, 1, 1});
    int32_t *map = guarded_new<int32_t>(set.capacity * 27);
    REQUIRE_OK(map_build_host(layout, &same, set, set, map));
    for (int32_t i = 0; i < *set.count; ++i) {
        CHECK(taps_of(&l, rows, index[(size_t)i]) == taps(map + i * 27, map + (i + 1) * 27));
    }
}

// Each level from the one before, every one with its map, inverse map and submanifold map.
static void check_chain(random_state *r, const layer *chain, int layers, triple extent) {
    word_need need =
        word_need_of({-7, 4, -20}, {-7 + 19, 4 + 15, -20 + 22}, 2, {1, 1, 1}, {16, 16, 16});
    expand_grid grid = {need.lo, extent};
    triple spacing = {1, 1, 1};
    std::vector<layer> levels;
    for (int i = 0; i < layers; ++i) {
        layer l = i ? layer_behind(&levels.back()) : chain[0];
        memcpy(l.size, chain[i].size, sizeof l.size);
        memcpy(l.ratio, chain[i].ratio, sizeof l.ratio);
        memcpy(l.padding, chain[i].padding, sizeof l.padding);
        if (i == 0) {
            const int origin[3] = {grid.origin.x, grid.origin.y, grid.origin.z};
            const int extents[3] = {extent.x, extent.y, extent.z};
            memcpy(l.origin, origin, sizeof origin);
            memcpy(l.extent, extents, sizeof extents);
        }
        kernel_shape kernel = kernel_of(&l);
        expand_rule rule = rule_of(&l);
        CHECK(triple_equal(rule.grid.origin, grid.origin)); // what expand_out said
        CHECK(triple_equal(rule.grid.extent, grid.extent));
        CHECK(triple_equal(kernel.stride, spacing));
        REQUIRE_OK(expand_need(&kernel, &rule, &need));
        REQUIRE_OK(expand_out(&kernel, &rule, &grid));
        spacing = triple_multiply(spacing, rule.ratio);
        levels.push_back(l);
    }
    word_layout layout = layout_of<uint32_t>(&need);
    std::vector<uint32_t> in = set_random<uint32_t>(r, &layout, {-7, 4, -20}, {12, 19, 2}, 60);
    for (const layer &l : levels) {
        int32_t count = (int32_t)in.size();
        outcome<uint32_t> o = check_layer(&layout, &l, in, 0, 4000);
        CHECK_EQUAL(o.trouble.flags, 0u);
        CHECK(o.count > 0);
        voxel_set<uint32_t> from = {in.data(), &count, count};
        voxel_set<uint32_t> to = {o.words.data(), &o.count, 4000};
        check_inverse(&layout, &l, from, to, o.pairs);
        layer behind = layer_behind(&l);
        check_submanifold(&layout, &behind, to);
        in.assign(o.words.begin(), o.words.begin() + o.count);
    }
}

TEST(expand_chains) {
    random_state r = random_make(4);
    const layer odd[] = {
        layer_of({3, 3, 3}, {2, 2, 2}, {0, 0, 0}),
        layer_of({5, 4, 3}, {2, 2, 3}, {1, 1, 0}),
        layer_of({2, 2, 2}, {2, 2, 2}, {0, 0, 0}),
    };
    for (int i = 0; i < (test_quick() ? 2 : 10); ++i) {
        check_chain(&r, second, 4, {20, 16, 25});
        check_chain(&r, second, 4, {0, 0, 0});
        check_chain(&r, odd, 3, {20, 16, 25});
        check_chain(&r, odd, 3, {0, 0, 0});
        guarded_finish();
    }
}

// A kernel as large as the layer's stride, even and without padding, touches what downsample floors
// to; ratio 1 and size 1 give the set itself.
TEST(expand_by_the_kernels_own_size_is_the_floor) {
    NEED_SCANS("kitti00_000000_5cm.vox32");
    word_layout layout;
    std::vector<uint32_t> words = reference_scan<uint32_t>("kitti00_000000_5cm.vox32", 16, &layout);
    const int32_t count = (int32_t)words.size();
    for (int size : {1, 2, 4}) {
        const expand_layer l = {kernel_cube(size, 1), {{size, size, size}, {0, 0, 0}, {}}};
        CHECK_EQUAL(set_difference(
                        on_host(&layout, &l, words, count, count),
                        downsample_on_host(&layout, words, count, {}, {size, size, size}, count)),
                    "");
    }
}

// A real scan, from the side of the inputs: the words that each voxel touches, in a hash table.
TEST(expand_real_scan) {
    NEED_SCANS("kitti00_000000_5cm.vox32");
    word_layout layout;
    std::vector<uint64_t> words = reference_scan<uint64_t>("kitti00_000000_5cm.vox32", 16, &layout);
    const int32_t count = (int32_t)words.size(), capacity = 3 * count;
    const expand_layer l = {kernel_cube(3, 1),
                            {{2, 2, 2}, {1, 1, 1}, {{0, 0, 0}, {3122, 2013, 117}}}};
    std::vector<uint64_t> wanted;
    for (uint64_t word : words) {
        voxel v = word_unpack(&layout, word);
        for (int k = 0; k < 27; ++k) {
            int x = v.x + k / 9 - 1, y = v.y + k / 3 % 3 - 1, z = v.z + k % 3 - 1;
            bool even = x % 2 == 0 && y % 2 == 0 && z % 2 == 0;
            if (even && x >= 0 && y >= 0 && z >= 0 && x < 3122 && y < 2013 && z < 117) {
                wanted.push_back(word_pack<uint64_t>(&layout, {0, x, y, z}));
            }
        }
    }
    wanted = set_sorted(wanted);
    set_outcome<uint64_t> all = {{}, (int32_t)wanted.size(), wanted};
    all.words.resize((size_t)capacity, word_none<uint64_t>());
    CHECK_EQUAL(set_difference(on_host(&layout, &l, words, count, capacity), all), "");
}

// ---- edges --------------------------------------------------------------------------------------

TEST(expand_nothing_and_full_capacities) {
    layer l = layer_of({3, 3, 3}, {2, 2, 2}, {1, 1, 1});
    word_layout layout =
        reference_layout<uint32_t>({-9, -9, -9}, {9, 9, 9}, 3, {1, 1, 1}, {1, 1, 1});
    outcome<uint32_t> none = check_layer<uint32_t>(&layout, &l, {}, 0, 1);
    CHECK_EQUAL(none.count, 0);
    check_layer<uint32_t>(&layout, &l, {}, 5, 7);
    random_state r = random_make(5);
    std::vector<uint32_t> in = set_random<uint32_t>(&r, &layout, {-6, -6, -6}, {6, 6, 6}, 200);
    int32_t all = check_layer(&layout, &l, in, 0, 4000).count;
    for (int32_t capacity : {all + 1, all, all - 1, all / 2, 1}) {
        outcome<uint32_t> o = check_layer(&layout, &l, in, 3, capacity);
        CHECK_EQUAL(o.trouble.flags, capacity < all ? (uint32_t)device_flag_capacity : 0u);
        CHECK_EQUAL(o.trouble.needed, capacity < all ? (uint32_t)all : 0u);
    }
}

// A count above the capacity is clamped, a negative one is none.
TEST(expand_clamps_the_count) {
    const expand_layer l = layer_make({3, 3, 3}, {1, 1, 1}, {1, 1, 1});
    word_layout layout =
        reference_layout<uint32_t>({-9, -9, -9}, {9, 9, 9}, 1, {1, 1, 1}, {1, 1, 1});
    const std::vector<uint32_t> in = {word_pack<uint32_t>(&layout, {0, -5, 0, 0}),
                                      word_pack<uint32_t>(&layout, {0, 5, 0, 0})};
    const set_outcome<uint32_t> two = on_host(&layout, &l, in, 2, 60);
    set_outcome<uint32_t> wanted = two;
    CHECK_EQUAL(wanted.count, 54);
    wanted.trouble.flags = device_flag_capacity;
    wanted.trouble.needed = 7;
    CHECK_EQUAL(set_difference(on_host(&layout, &l, in, 7, 60), wanted), "");
    wanted = {{}, 0, std::vector<uint32_t>(60, word_none<uint32_t>())};
    CHECK_EQUAL(set_difference(on_host(&layout, &l, in, -5, 60), wanted), "");
}

// At the ends of the layout: what stands one voxel beyond is dropped, and said.
TEST(expand_without_room) {
    layer l = layer_of({3, 3, 3}, {1, 1, 1}, {1, 1, 1});
    word_layout layout =
        reference_layout<uint32_t>({-8, 3, 100}, {7, 20, 120}, 2, {1, 1, 1}, {1, 1, 1});
    const triple lo = layout.lo, hi = layout.hi;
    std::vector<uint32_t> in = {word_pack<uint32_t>(&layout, {0, 0, 9, 110}),
                                word_pack<uint32_t>(&layout, {0, 2, hi.y, 110}),
                                word_pack<uint32_t>(&layout, {1, lo.x, lo.y, lo.z}),
                                word_pack<uint32_t>(&layout, {1, hi.x, hi.y, hi.z})};
    outcome<uint32_t> o = check_layer(&layout, &l, in, 0, 200);
    CHECK_EQUAL(o.count, 27 + 18 + 8 + 8);
    CHECK_STATUS(device_status_read(&o.trouble), status_out_of_range);
    CHECK_EQUAL(device_status_read(&o.trouble).detail, 1);
}

// Coordinates and strides as large as they may be.
TEST(expand_large_numbers) {
    const int far = 1 << 30, wide = 1 << 20;
    layer l = layer_of({1, 1, 3}, {1, 1, 1}, {0, 0, 0});
    l.spacing[2] = wide;
    l.origin[2] = -far + wide;
    word_layout layout = reference_layout<uint64_t>({0, 0, -far}, {1, 1, far - 4 * wide}, 1,
                                                    {1, 1, 1}, {0, 0, wide});
    std::vector<uint64_t> in = {word_pack<uint64_t>(&layout, {0, 0, 0, -far}),
                                word_pack<uint64_t>(&layout, {0, 1, 1, 0}),
                                word_pack<uint64_t>(&layout, {0, 1, 1, wide})};
    outcome<uint64_t> o = check_layer(&layout, &l, in, 0, 20);
    CHECK_EQUAL(o.trouble.flags, (uint32_t)device_flag_range); // below -far there is no room
    CHECK_EQUAL(o.count, 2 + 4);
    // Further from the origin than an index may be.
    l.spacing[2] = 1;
    l.origin[2] = -far + 5;
    in = {word_pack<uint64_t>(&layout, {0, 0, 0, 5}), word_pack<uint64_t>(&layout, {0, 0, 0, 6})};
    const expand_layer far_off = {kernel_of(&l), rule_of(&l)};
    const set_outcome<uint64_t> near = on_host(&layout, &far_off, in, 2, 9);
    CHECK_EQUAL(near.count, 3);
    CHECK_EQUAL(UINT32_MAX - near.trouble.first_range, 1u);
}

// ---- what is refused ----------------------------------------------------------------------------

TEST(expand_refuses_rules) {
    const kernel_shape good = kernel_cube(3, 2);
    const expand_rule fine = {{2, 2, 2}, {1, 1, 1}, {{0, 0, 0}, {8, 8, 8}}};
    auto out = [](kernel_shape kernel, expand_rule rule) {
        expand_grid grid;
        word_need need = {};
        status s = expand_out(&kernel, &rule, &grid);
        CHECK_EQUAL(expand_need(&kernel, &rule, &need).code, s.code);
        return s;
    };
    CHECK_OK(out(good, fine));
    struct {
        status_code code;
        void (*spoil)(kernel_shape *, expand_rule *);
    } const bad[] = {
        {status_kernel_size, [](kernel_shape *k, expand_rule *) { k->size.y = 16; }},
        {status_kernel_size, [](kernel_shape *k, expand_rule *) { k->size.z = 0; }},
        {status_bad_size, [](kernel_shape *k, expand_rule *) { k->dilation.x = 0; }},
        {status_stride, [](kernel_shape *k, expand_rule *) { k->stride.x = 0; }},
        {status_unsupported, [](kernel_shape *k, expand_rule *) { k->transposed = true; }},
        {status_stride, [](kernel_shape *, expand_rule *r) { r->ratio.x = 0; }},
        {status_stride, [](kernel_shape *, expand_rule *r) { r->ratio.y = -2; }},
        {status_stride, [](kernel_shape *, expand_rule *r) { r->ratio.z = (1 << 19) + 1; }},
        {status_stride, [](kernel_shape *, expand_rule *r) { r->ratio.z = INT32_MAX; }},
        {status_bad_size, [](kernel_shape *, expand_rule *r) { r->padding.x = -1; }},
        {status_bad_size, [](kernel_shape *, expand_rule *r) { r->padding.y = (1 << 20) + 1; }},
        {status_bad_size, [](kernel_shape *, expand_rule *r) { r->grid.extent.z = -1; }},
        {status_bad_size, [](kernel_shape *, expand_rule *r) { r->grid.extent.x = INT32_MAX; }},
        {status_bad_size, [](kernel_shape *, expand_rule *r) { r->grid.origin.x = INT32_MIN; }},
        {status_bad_size, [](kernel_shape *, expand_rule *r) { r->grid.origin.x = INT32_MAX; }},
        {status_bad_size,
         [](kernel_shape *, expand_rule *r) { r->grid.origin.y = -(1 << 30), r->padding.y = 2; }},
        {status_bad_size, // three taps, and two voxels to stand on
         [](kernel_shape *, expand_rule *r) { r->grid.extent.z = 2, r->padding.z = 0; }},
    };
    for (const auto &b : bad) {
        kernel_shape kernel = good;
        expand_rule rule = fine;
        b.spoil(&kernel, &rule);
        CHECK_STATUS(out(kernel, rule), b.code);
    }
    expand_grid grid;
    word_need need = {};
    CHECK_STATUS(expand_out(nullptr, &fine, &grid), status_null_pointer);
    CHECK_STATUS(expand_out(&good, nullptr, &grid), status_null_pointer);
    CHECK_STATUS(expand_out(&good, &fine, nullptr), status_null_pointer);
    CHECK_STATUS(expand_need(nullptr, &fine, &need), status_null_pointer);
    CHECK_STATUS(expand_need(&good, nullptr, &need), status_null_pointer);
    CHECK_STATUS(expand_need(&good, &fine, nullptr), status_null_pointer);
    expand_rule open = {{1, 1, 1}, {1, 1, 1}, {}};
    need.hi.x = INT32_MAX - 1; // the outputs would be beyond the ints
    CHECK_STATUS(expand_need(&good, &open, &need), status_bad_size);
    CHECK_EQUAL(need.hi.x, INT32_MAX - 1);
    CHECK_EQUAL(need.reach.x, 0);
}

TEST(expand_refuses_arguments) {
    typedef expand_args<uint32_t> args;
    word_layout l = reference_layout<uint32_t>({1, 1, 1}, {9, 9, 9}, 1, {1, 1, 1}, {1, 1, 1});
    kernel_shape kernel = kernel_cube(3, 1);
    expand_rule rule = {{2, 2, 2}, {1, 1, 1}, {}};
    uint32_t word = word_pack<uint32_t>(&l, {0, 4, 4, 4}), *out_words = guarded_new<uint32_t>(2);
    int32_t count = 1, *out_count = guarded_new<int32_t>(1);
    device_status trouble = {};
    const args good = {&l, &kernel, &rule, {&word, &count, 1}, {out_words, out_count, 2}, &trouble};
    size_t bytes = 0;
    CHECK_STATUS(expand_host_workspace(&good, nullptr), status_null_pointer);
    CHECK_STATUS(expand_host_workspace<uint32_t>(nullptr, &bytes), status_null_pointer);
    REQUIRE_OK(expand_host_workspace(&good, &bytes));
    char *scratch = guarded_new<char>((int64_t)bytes);
    check_refusals<args>(good, scratch, bytes, expand_refusals(),
                         [](const args *a, void *s, size_t n) { return expand_host(a, s, n); });
    CHECK(guarded_untouched(out_words, 0, 2) && guarded_untouched(out_count, 0, 1));
    CHECK_OK(expand_host(&good, scratch, bytes));
    CHECK_EQUAL(*out_count, 1);
    args most = good; // as many rows as can be sorted
    most.in.capacity = (INT32_MAX / 2 - 1) / 8;
    CHECK_OK(expand_host_workspace(&most, &bytes));
}

// ---- the test, tested ---------------------------------------------------------------------------

TEST(expand_planted_errors_are_found) {
    random_state r = random_make(6);
    layer l = layer_of({3, 2, 5}, {2, 2, 3}, {0, 1, 2});
    word_layout layout =
        reference_layout<uint32_t>({-30, -30, -30}, {30, 30, 30}, 2, {1, 1, 1}, {8, 8, 8});
    std::vector<uint32_t> in = set_random<uint32_t>(&r, &layout, {-5, -5, -5}, {6, 6, 6}, 40);
    const outcome<uint32_t> got = outcome_of(&layout, &l, in, 0, 900);
    const outcome<uint32_t> wanted = expected_of(&layout, &l, in, 900);
    CHECK_EQUAL(difference(got, wanted), "");
    outcome<uint32_t> bad = got;
    bad.words[7] ^= 1;
    CHECK(strstr(difference(bad, wanted), "words[7]"));
    bad = got;
    bad.words.back() = 0;
    CHECK(strstr(difference(bad, wanted), "words[899]"));
    bad = got;
    --bad.count;
    CHECK(strstr(difference(bad, wanted), "count"));
    bad = got;
    bad.trouble.flags = device_flag_range;
    CHECK(strstr(difference(bad, wanted), "trouble"));
    bad = got;
    std::swap(bad.pairs[3][0], bad.pairs[3][1]);
    bad.pairs[5].back() ^= 1;
    CHECK_EQUAL(difference(bad, wanted), "pairs");
    for (int a = 0; a < 3; ++a) { // each number of the rule matters
        int *const numbers[] = {&l.size[a], &l.dilation[a], &l.ratio[a], &l.padding[a],
                                &l.origin[a]};
        for (int *number : numbers) {
            ++*number;
            CHECK(*difference(got, expected_of(&layout, &l, in, 900)));
            --*number;
        }
    }
}
