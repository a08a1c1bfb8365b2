// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/host/expand_cells.cpp: the kernels of index/expand_*.cuh, run on the host (emulate.h),
// against expand_host: the way without a sort, whether it would be chosen or not; and the choice.
#include "../support/expand.h"

#include "../support/emulate.h"

#include "../../spira/index/expand_cells.cuh"

namespace {

// ---- one run ------------------------------------------------------------------------------------

expand_plan plan_of(const word_layout *layout, const expand_layer *l) {
    expand_plan plan = {};
    plan.levels = 1;
    plan.by_cells = true;
    CHECK_OK(expand_axes_make(&l->kernel, &l->rule, &plan.level[0].axes));
    plan.level[0].box = expand_box_make(layout, &plan.level[0].axes);
    const int64_t cells = expand_box_cells(&plan.level[0].box);
    plan.sizes[0] = expand_sizes_make(cells, nullptr);
    plan.bytes = expand_sizes_bytes(plan.sizes);
    return plan;
}

// Mostly to tiles of larger boxes.
void plan_resize(expand_plan *plan) {
    const int turn = (int)(++emulate::seed % 3);
    for (int l = 0; l < plan->levels && turn; ++l) {
        expand_sizes *s = &plan->sizes[l];
        const int32_t words = s->tiles * s->words;
        const expand_sizes *before = l ? s - 1 : nullptr;
        *s = expand_sizes_make((int64_t)words * bitmap_threads * 32, before);
        s->words = (turn + l) % 2 ? bitmap_words : bitmap_words_large;
        s->tiles = (int32_t)ceil_div(words, s->words);
    }
    plan->bytes = expand_sizes_bytes(&plan->sizes[plan->levels - 1]);
}

// In scratch that is exactly as large as was asked for, and is not clean.
template <typename W>
set_outcome<W> on_device(const word_layout *layout, const expand_layer *l,
                         const std::vector<W> &words, int32_t count, int32_t out_capacity) {
    set_outcome<W> o = {};
    expand_plan plan = plan_of(layout, l);
    W *given = guarded_new<W>((int64_t)words.size()), *made = guarded_new<W>(out_capacity);
    std::copy(words.begin(), words.end(), given);
    const expand_args<W> args = {layout,
                                 &l->kernel,
                                 &l->rule,
                                 {given, &count, (int32_t)words.size()},
                                 {made, &o.count, out_capacity},
                                 &o.trouble};
    plan_resize(&plan);
    char *const scratch = guarded_new<char>((int64_t)plan.bytes);
    CHECK_OK(expand_cells_launch(&args, plan, scratch, emulate::seed % 2, nullptr));
    o.words.assign(made, made + out_capacity);
    return o;
}

// Returns what the host made, and frees all buffers of the test.
template <typename W>
set_outcome<W> check_given(const word_layout *layout, const expand_layer *l,
                           const std::vector<W> &words, int32_t count, int32_t out_capacity) {
    const set_outcome<W> wanted = on_host(layout, l, words, count, out_capacity);
    CHECK_EQUAL(set_difference(on_device(layout, l, words, count, out_capacity), wanted), "");
    guarded_finish();
    return wanted;
}

// With garbage behind the count.
template <typename W>
set_outcome<W> check_set(const word_layout *layout, const expand_layer *l, std::vector<W> words,
                         int room, int32_t out_capacity) {
    const int32_t count = (int32_t)words.size();
    set_pad(&words, (int32_t)max_of(count + room, 1));
    return check_given(layout, l, words, count, out_capacity);
}

// ---- rules --------------------------------------------------------------------------------------

// A quarter of the scenes has no room for its outputs, another one has voxels off its grid.
template <typename W>
void check_rules(int scenes) {
    int troubled = 0, passed = 0;
    for (int seed = 0; seed < scenes; ++seed) {
        random_state r = random_make((uint64_t)seed * 2 + sizeof(W) / 8);
        const expand_layer l = layer_random(&r);
        const triple e = l.rule.grid.extent;
        const triple hi = triple_make(e.x ? e.x - 1 : 11, e.y ? e.y - 1 : 9, e.z ? e.z - 1 : 7);
        const word_layout layout =
            layout_for<W>(&l, {0, 0, 0}, hi, random_int(&r, 1, 5), seed % 4 != 0);
        std::vector<W> words = random_words<W>(&r, &layout, &l, {0, 0, 0}, hi,
                                               random_int(&r, 0, seed % 3 ? 100 : 700));
        if (seed % 4 == 1) {
            words.resize(200);
            words.resize((size_t)reference_random_set(&r, &layout, layout.lo, layout.hi, {1, 1, 1},
                                                      200, words.data()));
        }
        const int32_t count = (int32_t)words.size();
        const int32_t capacity = random_int(&r, 0, 2) ? 27 * count + 1 : 1 + count / 2;
        const set_outcome<W> o = check_set(&layout, &l, words, random_int(&r, 0, 300), capacity);
        troubled += (o.trouble.flags & device_flag_range) != 0;
        passed += (o.trouble.flags & device_flag_capacity) != 0;
    }
    CHECK(troubled > scenes / 5 && troubled <= scenes / 2);
    CHECK(passed > scenes / 10);
}

} // namespace

TEST(expand_cells_random_rules) {
    check_rules<uint32_t>(test_quick() ? 16 : 24);
    check_rules<uint64_t>(test_quick() ? 16 : 24);
}

// Rules of spconv's networks and what is at the edge of a pattern of 32 cells.
TEST(expand_cells_rules_of_networks) {
    const expand_layer layers[] = {
        layer_make({3, 3, 3}, {2, 2, 2}, {1, 1, 1}),
        layer_make({3, 3, 3}, {2, 2, 2}, {1, 1, 0}),
        layer_make({1, 1, 3}, {1, 1, 2}, {0, 0, 0}),
        layer_make({3, 3, 3}, {1, 1, 1}, {1, 1, 1}),
        layer_make({5, 5, 5}, {2, 2, 2}, {2, 2, 2}),
        layer_make({1, 1, 15}, {1, 1, 1}, {0, 0, 7}, {1, 1, 2}),
        layer_make({1, 1, 1}, {2, 2, 2}, {0, 0, 0}),
    };
    random_state r = random_make(2);
    for (expand_layer l : layers) {
        for (int extent : {0, 31}) {
            l.rule.grid.extent = {extent, extent, extent};
            const triple hi = {30, 30, 30};
            const word_layout layout = layout_for<uint32_t>(&l, {0, 0, 0}, hi, 2);
            const std::vector<uint32_t> words =
                random_words<uint32_t>(&r, &layout, &l, {0, 0, 0}, hi, 900);
            const set_outcome<uint32_t> o = check_set(&layout, &l, words, 5, 40000);
            CHECK_EQUAL(o.trouble.flags, 0u);
            CHECK(o.count > 50);
        }
    }
}

// ---- chains -------------------------------------------------------------------------------------

namespace {

// The sets of a chain, made at once as far as they can be. Returns the largest number that was.
template <typename W>
int check_chain(const word_layout *layout, const std::vector<expand_layer> &chain,
                const std::vector<W> &words, int32_t count, int32_t room) {
    std::vector<set_outcome<W>> wanted = chain_on_host(layout, chain, words, count, room);
    const int levels = (int)chain.size();
    device_status trouble = {}, trouble_wanted = {};
    std::vector<expand_args<W>> args;
    std::vector<int32_t> counts(chain.size());
    voxel_set<W> in = {guarded_new<W>((int64_t)words.size()), &count, (int32_t)words.size()};
    std::copy(words.begin(), words.end(), in.words);
    for (int l = 0; l < levels; ++l) {
        const int32_t capacity = (int32_t)wanted[(size_t)l].words.size();
        const voxel_set<W> out = {guarded_new<W>(capacity), &counts[(size_t)l], capacity};
        args.push_back(
            {layout, &chain[(size_t)l].kernel, &chain[(size_t)l].rule, in, out, &trouble});
        in = out;
        trouble_wanted.flags |= wanted[(size_t)l].trouble.flags;
    }
    trouble_wanted.first_range = wanted[0].trouble.first_range;
    int most = 0;
    for (int done = 0; done < levels;) {
        expand_plan plan = plan_of(layout, &chain[(size_t)done]);
        while (done + plan.levels < levels) {
            const expand_plan next = plan_of(layout, &chain[(size_t)(done + plan.levels)]);
            if (!expand_plan_join(&next, &plan)) {
                break;
            }
        }
        plan_resize(&plan);
        char *const scratch = guarded_new<char>((int64_t)plan.bytes);
        CHECK_OK(
            expand_cells_launch(&args[(size_t)done], plan, scratch, emulate::seed % 2, nullptr));
        done += plan.levels;
        most = (int)max_of(most, plan.levels);
    }
    for (int l = 0; l < levels; ++l) {
        const voxel_set<W> out = args[(size_t)l].out;
        set_outcome<W> got = {};
        got.count = *out.count;
        got.words.assign(out.words, out.words + out.capacity);
        wanted[(size_t)l].trouble = {};
        CHECK_EQUAL(set_difference(got, wanted[(size_t)l]), "");
    }
    CHECK_EQUAL(trouble.flags, trouble_wanted.flags);
    CHECK_EQUAL(trouble.first_range, trouble_wanted.first_range);
    guarded_finish();
    return most;
}

template <typename W>
void check_chains(int scenes) {
    int made[expand_levels_most + 1] = {};
    for (int seed = 0; seed < scenes; ++seed) {
        random_state r = random_make((uint64_t)seed * 2 + sizeof(W) / 8 + 100);
        const std::vector<expand_layer> chain = chain_random(&r);
        const triple e = chain[0].rule.grid.extent;
        const word_layout layout = layout_for_chain<W>(chain, random_int(&r, 1, 3));
        const triple hi = {e.x - 1, e.y - 1, e.z - 1};
        std::vector<W> words = random_words<W>(&r, &layout, &chain[0], {0, 0, 0}, hi,
                                               random_int(&r, 0, seed % 3 ? 60 : 500));
        if (seed % 4 == 1) { // voxels of no batch and off the grid, which no level takes
            words = set_sorted([&] {
                std::vector<W> some = words;
                some.resize(words.size() + 60);
                const int more = (int)reference_random_set(&r, &layout, layout.lo, layout.hi,
                                                           {1, 1, 1}, 60, &some[words.size()]);
                some.resize(words.size() + (size_t)more);
                return some;
            }());
        }
        const int32_t count = (int32_t)words.size();
        set_pad(&words, (int32_t)max_of(count + random_int(&r, 0, 300), 1));
        ++made[check_chain(&layout, chain, words, count, random_int(&r, -3, 2))];
    }
    CHECK(made[1] > 2 && made[2] > 2 && made[3] + made[4] > 5);
}

} // namespace

TEST(expand_cells_chains) {
    check_chains<uint32_t>(test_quick() ? 24 : 60);
    check_chains<uint64_t>(test_quick() ? 24 : 60);
}

// More layers than are made at once, down to a single cell.
TEST(expand_cells_long_chain) {
    std::vector<expand_layer> chain(8, layer_make({3, 3, 3}, {2, 2, 2}, {1, 1, 1}));
    expand_grid grid = {{0, 0, 0}, {128, 100, 40}};
    triple spacing = {1, 1, 1};
    for (expand_layer &l : chain) {
        l.kernel.stride = spacing;
        l.rule.grid = grid;
        REQUIRE_OK(expand_out(&l.kernel, &l.rule, &grid));
        spacing = triple_multiply(spacing, l.rule.ratio);
    }
    random_state r = random_make(10);
    const word_layout layout = layout_for_chain<uint64_t>(chain, 2);
    const std::vector<uint64_t> words =
        random_words<uint64_t>(&r, &layout, &chain[0], {0, 0, 0}, {127, 99, 39}, 700);
    CHECK_EQUAL(check_chain(&layout, chain, words, (int32_t)words.size(), 1), 6);
}

// Sets above their capacity are cut off before those behind them are made.
TEST(expand_cells_chain_above_its_capacity) {
    const std::vector<expand_layer> chain = expand_chain({{0, 0, 0}, {64, 64, 41}});
    random_state r = random_make(9);
    const word_layout layout = layout_for_chain<uint32_t>(chain, 1);
    for (int n : {300, 40, 1000}) {
        const std::vector<uint32_t> words =
            random_words<uint32_t>(&r, &layout, &chain[0], {0, 0, 0}, {63, 63, 40}, n);
        for (int32_t room : {-1, -7, -30}) {
            CHECK_EQUAL(check_chain(&layout, chain, words, (int32_t)words.size(), room), 4);
        }
    }
}

// Layers that are made by themselves: another grid than that of the outputs before, no extent, no
// room in the layout for a cell, more columns than a thread reads, long columns.
TEST(expand_cells_levels_join) {
    const std::vector<expand_layer> chain = expand_chain({{0, 0, 0}, {64, 64, 41}});
    const word_layout layout = layout_for_chain<uint32_t>(chain, 1);
    const auto joins = [&](const word_layout &at, expand_layer a, expand_layer b) {
        expand_plan plan = plan_of(&at, &a);
        const expand_plan next = plan_of(&at, &b);
        return expand_plan_join(&next, &plan) && plan.levels == 2;
    };
    const expand_layer a = chain[0], b = chain[1];
    CHECK(joins(layout, a, b));
    CHECK(!joins(layout, a, chain[2]));
    expand_layer other = b;
    other.rule.grid.origin.x = 2;
    CHECK(!joins(layout, a, other));
    other = b;
    other.rule.grid.extent.y += 1;
    CHECK(!joins(layout, a, other));
    other = b;
    other.kernel.dilation = {2, 2, 2};
    CHECK(joins(layout, a, other));
    other.kernel.size = {5, 5, 3};
    CHECK(joins(layout, a, other));
    other.kernel.size = {5, 6, 3};
    CHECK(!joins(layout, a, other));
    other = b;
    other.rule.padding.z = 22; // and 21 cells
    CHECK(!joins(layout, a, other));
    word_layout narrow = layout;
    narrow.hi.x = 62;
    CHECK(joins(narrow, a, b)); // the last output has index 31, at 62
    narrow.hi.x = 61;
    CHECK(!joins(narrow, a, b));
    expand_layer free_a = a, free_b = b;
    free_a.rule.grid.extent.z = free_b.rule.grid.extent.z = 0;
    CHECK(!joins(layout, free_a, free_b));
    std::vector<expand_layer> tall = expand_chain({{0, 0, 0}, {64, 64, 129}});
    CHECK(!joins(layout_for_chain<uint32_t>(tall, 1), tall[0], tall[1])); // 33 cells
}

// ---- sizes --------------------------------------------------------------------------------------

// Counts of cells around a word, a batch of a list, a tile, and several of them.
TEST(expand_cells_full_boxes) {
    const int batch = bitmap_batch, tile = 32 * bitmap_tile;
    expand_full_boxes<uint64_t>(
        {1, 31, 32, 33, batch - 1, batch, batch + 1, tile - 1, tile, tile + 1},
        check_set<uint64_t>);
}

// Tiles that run side by side and look back at each other; small and large ones.
TEST(expand_cells_many_tiles) {
    random_state r = random_make(3);
    expand_layer l = layer_make({3, 3, 3}, {1, 1, 1}, {1, 1, 1});
    l.rule.grid.extent = {128, 128, 40}; // 20 tiles of cells
    const word_layout layout = layout_for<uint32_t>(&l, {0, 0, 0}, {127, 127, 39}, 2);
    for (unsigned side_by_side : {1u, 4u}) {
        emulate::side_by_side = side_by_side;
        const std::vector<uint32_t> words =
            random_words<uint32_t>(&r, &layout, &l, {0, 0, 0}, {127, 127, 39}, 1500);
        const set_outcome<uint32_t> o = check_set(&layout, &l, words, 100, 41000);
        CHECK(o.count > 35000 && o.trouble.flags == 0);
    }
    emulate::side_by_side = 1;
}

SPIRA_KERNEL void look_back_kernel(const uint32_t *state, int tile, int *before) {
    before[threadIdx.x] = lookback_sum_warp(state, tile);
}

// Over more tiles than a warp reads at a time, to the nearest one that knows all bits in front.
TEST(expand_cells_look_back) {
    std::vector<uint32_t> state(600);
    std::vector<int> before(32);
    for (int tile = 1; tile < 600; tile += tile < 70 ? 1 : 37) {
        for (int from : {0, tile / 2, tile - 1}) {
            int wanted = 1000;
            for (int i = 0; i < tile; ++i) {
                state[(size_t)i] = lookback_tile | (uint32_t)i;
                wanted += i > from ? i : 0;
            }
            state[(size_t)from] = lookback_all | 1000;
            REQUIRE_OK(kernel_launch(look_back_kernel, {1, 32, nullptr, "test"}, state.data(), tile,
                                     before.data()));
            CHECK(before == std::vector<int>(32, wanted));
        }
    }
}

TEST(expand_cells_walls_and_lone_voxels) {
    expand_walls(60, check_set<uint64_t>);
}

// ---- counts and trouble -------------------------------------------------------------------------

TEST(expand_cells_counts) {
    random_state r = random_make(4);
    const expand_layer l = layer_make({3, 3, 3}, {2, 2, 2}, {1, 1, 1});
    const word_layout layout = layout_for<uint32_t>(&l, {0, 0, 0}, {30, 30, 30}, 1);
    std::vector<uint32_t> words =
        random_words<uint32_t>(&r, &layout, &l, {0, 0, 0}, {30, 30, 30}, 600);
    const int32_t n = (int32_t)words.size(), all = on_host(&layout, &l, words, n, 5000).count;
    for (int32_t capacity : {all + 1, all, all - 1, all / 2, 1}) {
        const set_outcome<uint32_t> o = check_given(&layout, &l, words, n, capacity);
        CHECK_EQUAL(o.count, min_of(capacity, all));
        CHECK_EQUAL(o.trouble.needed, capacity < all ? (uint32_t)all : 0u);
    }
    CHECK_EQUAL(check_given(&layout, &l, words, n + 100, 5000).trouble.needed, (uint32_t)n + 100);
    for (int32_t count : {0, -1, 1, 255, 256, 257, 512, 513}) {
        const set_outcome<uint32_t> o = check_given(&layout, &l, words, count, 5000);
        CHECK_EQUAL(o.count > 0, count > 0);
    }
}

// Voxels at both ends of each field, where the layout has no room for some outputs: along one axis
// or several.
TEST(expand_cells_field_ends) {
    for (const expand_layer &l :
         {layer_make({1, 1, 3}, {1, 1, 1}, {0, 0, 1}), layer_make({3, 1, 1}, {1, 1, 1}, {1, 0, 0}),
          layer_make({1, 5, 1}, {1, 2, 1}, {0, 2, 0}),
          layer_make({3, 3, 3}, {2, 2, 2}, {1, 1, 1})}) {
        const word_layout layout = reference_layout<uint64_t>({-5, -7, -4}, {8, 6, 9}, 2, {1, 1, 1},
                                                              kernel_reach(&l.kernel));
        const triple lo = layout.lo, hi = layout.hi;
        std::vector<uint64_t> words;
        for (int x : {lo.x, 0, hi.x}) {
            for (int y : {lo.y, 0, hi.y - 1, hi.y}) {
                for (int z : {lo.z, lo.z + 1, 0, hi.z}) {
                    words.push_back(word_pack<uint64_t>(&layout, {x & 1, x, y, z}));
                }
            }
        }
        words = set_sorted(words);
        const set_outcome<uint64_t> o = check_set(&layout, &l, words, 3, 2000);
        CHECK_EQUAL(o.trouble.flags, (uint32_t)device_flag_range);
        // Each voxel for itself.
        for (size_t i = 0; i < words.size(); i += 9) {
            check_set<uint64_t>(&layout, &l, {words[i]}, 0, 30);
        }
    }
}

TEST(expand_cells_of_no_batch) {
    expand_no_batch(check_set<uint32_t>);
}

// ---- a network ----------------------------------------------------------------------------------

// The sets that spconv makes of a scan; the smaller ones by the kernels, too.
TEST(expand_cells_of_a_network) {
    NEED_SCANS(EXPAND_SCAN);
    word_layout layout;
    std::vector<uint32_t> words = expand_scan<uint32_t>(&layout);
    int level = 0;
    CHECK_EQUAL((int32_t)words.size(), expand_counts[0]);
    for (const expand_layer &l : expand_chain()) {
        const int32_t n = (int32_t)words.size();
        const set_outcome<uint32_t> o = level < 3 ? on_host(&layout, &l, words, n, 2 * n)
                                                  : check_given(&layout, &l, words, n, 2 * n);
        CHECK_EQUAL(o.count, expand_counts[++level]);
        CHECK_EQUAL(o.trouble.flags, 0u);
        words.assign(o.words.begin(), o.words.begin() + o.count);
    }
}

// ---- the box and the choice ---------------------------------------------------------------------

TEST(expand_divides_exactly) {
    random_state r = random_make(8);
    bool same = true;
    for (int i = 0; i < 200000; ++i) {
        uint32_t by = random_u32(&r) >> random_int(&r, 0, 31), rest;
        by = by ? by : 1;
        const uint32_t near =
            by * (uint32_t)(random_u64(&r) % (UINT32_MAX / by + 1ull)); // a multiple
        for (uint32_t n : {near, near - 1, near + 1, random_u32(&r), 0u, UINT32_MAX}) {
            same = same && expand_divide(n, by, UINT32_MAX / by, &rest) == n / by && rest == n % by;
        }
    }
    CHECK(same);
}

// Each cell has the word of its voxel, in order.
TEST(expand_box_numbers_words_in_order) {
    random_state r = random_make(5);
    for (int i = 0; i < 200; ++i) {
        expand_layer l = layer_random(&r);
        const word_layout layout = layout_for<uint64_t>(&l, {0, 0, 0}, {9, 8, 7}, 3, i % 2);
        expand_axes axes;
        REQUIRE_OK(expand_axes_make(&l.kernel, &l.rule, &axes));
        const expand_box box = expand_box_make(&layout, &axes);
        const int64_t cells = expand_box_cells(&box);
        const expand_packing<uint64_t> p = expand_packing_make<uint64_t>(&layout, &axes, &box);
        const triple step = triple_multiply(l.rule.ratio, l.kernel.stride);
        REQUIRE(cells > 0 && cells < 1 << 24);
        bool same = true;
        for (int64_t c = 0; c < cells; c += random_int(&r, 1, 99)) {
            const voxel v = word_unpack(&layout, expand_packing_word(&p, (uint32_t)c));
            const int x = (v.x - axes.x.out_origin) / step.x - box.first.x,
                      y = (v.y - axes.y.out_origin) / step.y - box.first.y,
                      z = (v.z - axes.z.out_origin) / step.z - box.first.z;
            same = same && word_contains(&layout, v) &&
                   expand_box_cell(&box, v.batch, x, y, z) == (uint32_t)c &&
                   (v.x - axes.x.out_origin) % step.x == 0;
        }
        CHECK(same);
    }
}

// Whether a layer on a grid with this extent takes a bitmap; 0: the layout's bounds.
static bool by_cells(expand_layer l, triple extent, triple bounds, int batches, int32_t capacity,
                     int64_t *cells) {
    l.rule.grid.extent = extent;
    const word_layout layout = reference_layout<uint64_t>(
        {-8, -8, -8}, {bounds.x, bounds.y, bounds.z}, batches, {8, 8, 8}, {8, 8, 8});
    expand_axes axes;
    CHECK_OK(expand_axes_make(&l.kernel, &l.rule, &axes));
    const expand_box box = expand_box_make(&layout, &axes);
    *cells = expand_box_cells(&box);
    return expand_by_cells(&axes, *cells, (int64_t)capacity * (8 * axes.most + expand_spare));
}

TEST(expand_chooses_a_way) {
    const expand_layer half = layer_make({3, 3, 3}, {2, 2, 2}, {1, 1, 1}),
                       same = layer_make({3, 3, 3}, {1, 1, 1}, {1, 1, 1}),
                       flat = layer_make({1, 1, 3}, {1, 1, 2}, {0, 0, 0}),
                       apart = layer_make({1, 1, 15}, {1, 1, 1}, {0, 0, 7}, {1, 1, 3});
    const triple nuscenes = {1440, 1440, 41}, room = {1440, 1440, 41}, none = {0, 0, 0};
    int64_t cells;
    CHECK(by_cells(half, nuscenes, room, 1, 105127, &cells));
    CHECK_EQUAL(cells, 720 * 720 * 21);
    CHECK(by_cells(same, nuscenes, room, 1, 105127, &cells));
    CHECK_EQUAL(cells, 1440 * 1440 * 41);
    CHECK(by_cells(flat, nuscenes, room, 1, 105127, &cells));
    CHECK(by_cells(flat, {180, 180, 5}, room, 4, 4 * 17698, &cells));
    CHECK_EQUAL(cells, 180 * 180 * 2 * 4);
    CHECK(!by_cells(apart, nuscenes, room, 1, 105127, &cells));
    // A scan without an extent: the layout bounds the box.
    CHECK(!by_cells(half, none, {3000, 3000, 400}, 1, 92000, &cells));
    CHECK(cells > 1500 * 1500 * 200 && cells < 2049 * 2049 * 257);
    CHECK(!by_cells(half, none, {30000, 30000, 4000}, 1, 92000, &cells));
    CHECK_EQUAL(cells, (int64_t)expand_cells_most + 1);
    CHECK(!by_cells(half, nuscenes, room, 1, 10, &cells)); // few voxels
    // No cell of the extent is within the layout.
    expand_layer away = half;
    away.rule.grid.origin = {100000, 0, 0};
    CHECK(by_cells(away, {10, 10, 10}, room, 1, 1000, &cells));
    CHECK_EQUAL(cells, 0);
}

// An empty box: what is off the grid is recorded, and there is no output.
TEST(expand_cells_of_an_empty_box) {
    expand_layer l = layer_make({3, 3, 3}, {2, 2, 2}, {1, 1, 1});
    const word_layout layout = layout_for<uint32_t>(&l, {0, 0, 0}, {30, 30, 30}, 1);
    std::vector<uint32_t> words = {word_at<uint32_t>(&layout, &l, 0, 3, 3, 3)};
    l.rule.grid = {{100000, 0, 0}, {10, 10, 10}};
    const set_outcome<uint32_t> o = check_given(&layout, &l, words, 1, 10);
    CHECK(o.count == 0 && o.trouble.flags == device_flag_range);
}

TEST(expand_cells_planted_errors_are_found) {
    random_state r = random_make(6);
    expand_layer l = layer_make({3, 3, 3}, {2, 2, 2}, {1, 1, 1});
    const word_layout layout = layout_for<uint32_t>(&l, {0, 0, 0}, {30, 30, 30}, 1);
    const std::vector<uint32_t> words =
        random_words<uint32_t>(&r, &layout, &l, {0, 0, 0}, {30, 30, 30}, 200);
    const int32_t n = (int32_t)words.size();
    const set_outcome<uint32_t> wanted = on_host(&layout, &l, words, n, 2000);
    l.rule.padding.z = 0;
    CHECK(set_difference(on_device(&layout, &l, words, n, 2000), wanted)[0] != 0);
}
