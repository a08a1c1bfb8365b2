// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/support/expand.h: layers with output sets by expand.h for the tests of its kernels: scenes,
// what the host makes of them, and the sets of a network that spconv has counted.
#ifndef SPIRA_TESTS_EXPAND_H
#define SPIRA_TESTS_EXPAND_H

#include "sets.h"

#include "../../spira/expand.h"

using namespace spira;

// ---- layers and scenes --------------------------------------------------------------------------

struct expand_layer {
    kernel_shape kernel;
    expand_rule rule;
};

inline expand_layer layer_make(triple size, triple ratio, triple padding,
                               triple dilation = {1, 1, 1}) {
    return {{size, dilation, {1, 1, 1}, false}, {ratio, padding, {}}};
}

// Each axis for itself, on grids of any origin and spacing, with and without an extent: of at most
// `most` along x.
inline expand_layer layer_random(random_state *r, int most = 20) {
    expand_layer l = {reference_random_kernel(r, 5, 2, {1, 1, 1}), {}};
    l.kernel.stride = {random_int(r, 1, 4), random_int(r, 1, 4), random_int(r, 1, 4)};
    l.kernel.transposed = random_int(r, 0, 3) == 0;
    l.rule.ratio = {1, 1, 1};
    if (!l.kernel.transposed) {
        l.rule.ratio = {random_int(r, 1, 3), random_int(r, 1, 3), random_int(r, 1, 3)};
    }
    l.rule.padding = {random_int(r, 0, 4), random_int(r, 0, 4), random_int(r, 0, 4)};
    l.rule.grid.origin = {random_int(r, -99, 99), random_int(r, -99, 99), random_int(r, -99, 99)};
    if (random_int(r, 0, 1)) {
        l.rule.grid.extent = {random_int(r, 0, 1) * random_int(r, 9, most), random_int(r, 9, 20),
                              random_int(r, 9, 12)};
    }
    return l;
}

// A layout for voxels with indices from lo to hi on the layer's grid, with room for their outputs
// or without.
template <typename W>
word_layout layout_for(const expand_layer *l, triple lo, triple hi, int batches, bool room = true) {
    const triple o = l->rule.grid.origin, s = l->kernel.stride;
    triple first = triple_multiply(lo, s), last = triple_multiply(hi, s);
    word_need need = word_need_of({o.x + first.x, o.y + first.y, o.z + first.z},
                                  {o.x + last.x, o.y + last.y, o.z + last.z}, batches, {1, 1, 1},
                                  kernel_reach(&l->kernel));
    if (room) {
        CHECK_OK(expand_need(&l->kernel, &l->rule, &need));
    }
    return reference_layout<W>(need.lo, need.hi, batches, need.stride, need.reach);
}

template <typename W>
W word_at(const word_layout *layout, const expand_layer *l, int batch, int x, int y, int z) {
    const triple o = l->rule.grid.origin, s = l->kernel.stride;
    return word_pack<W>(layout, {batch, o.x + s.x * x, o.y + s.y * y, o.z + s.z * z});
}

template <typename W>
std::vector<W> random_words(random_state *r, const word_layout *layout, const expand_layer *l,
                            triple lo, triple hi, int wanted) {
    std::vector<W> words;
    for (int i = 0; i < wanted; ++i) {
        words.push_back(word_at<W>(layout, l, random_int(r, 0, layout->batches - 1),
                                   random_int(r, lo.x, hi.x), random_int(r, lo.y, hi.y),
                                   random_int(r, lo.z, hi.z)));
    }
    return set_sorted(words);
}

// ---- what the host makes of them ----------------------------------------------------------------

// A set as it is given: `count` may be above the capacity, which is that of the words.
template <typename W>
set_outcome<W> on_host(const word_layout *layout, const expand_layer *l, std::vector<W> words,
                       int32_t count, int32_t out_capacity) {
    set_outcome<W> o = {};
    o.words.assign((size_t)out_capacity, 0);
    voxel_set<W> in = {words.data(), &count, (int32_t)words.size()};
    voxel_set<W> out = {o.words.data(), &o.count, out_capacity};
    const expand_args<W> args = {layout, &l->kernel, &l->rule, in, out, &o.trouble};
    size_t bytes = 0;
    CHECK_OK(expand_host_workspace(&args, &bytes));
    CHECK_OK(expand_host(&args, guarded_new<char>((int64_t)bytes), bytes));
    return o;
}

// ---- scenes for both sides: check(layout, layer, words, room, capacity) returns what was made ---

// Full boxes of so many cells.
template <typename W, typename F>
void expand_full_boxes(const std::vector<int> &counts, const F &check) {
    int turn = 0;
    for (int cells : counts) {
        expand_layer l = layer_make({1, 1, 1}, {1, 1, 1}, {0, 0, 0});
        l.rule.grid.extent = {1, 1, cells};
        const word_layout layout = layout_for<W>(&l, {0, 0, 0}, {0, 0, cells - 1}, 1);
        std::vector<W> words;
        for (int z = 0; z < cells; ++z) {
            words.push_back(word_at<W>(&layout, &l, 0, 0, 0, z));
        }
        const int32_t capacity = (int32_t)max_of(cells + 1 - turn % 3, 1);
        CHECK_EQUAL(check(&layout, &l, words, turn % 2, capacity).count, min_of(cells, capacity));
        ++turn;
    }
}

// A quarter of the voxels of a plane of each axis, and a lone voxel on each x-plane.
template <typename F>
void expand_walls(int side, const F &check) {
    expand_layer l = layer_make({3, 3, 3}, {2, 2, 2}, {1, 1, 1});
    l.rule.grid.extent = {side, side, side};
    const word_layout layout =
        layout_for<uint64_t>(&l, {0, 0, 0}, {side - 1, side - 1, side - 1}, 1);
    random_state r = random_make(3);
    for (int axis = 0; axis < 4; ++axis) { // 3: no wall
        std::vector<uint64_t> words;
        for (int i = 0; i < side * side / 4; ++i) {
            int at[3] = {random_int(&r, 0, side - 1), random_int(&r, 0, side - 1),
                         random_int(&r, 0, side - 1)};
            at[axis % 3] = axis < 3 ? side / 2 : at[axis % 3];
            words.push_back(word_at<uint64_t>(&layout, &l, 0, at[0], at[1], at[2]));
        }
        for (int i = 0; i < side; ++i) {
            words.push_back(word_at<uint64_t>(&layout, &l, 0, i, side - 1 - i, i * 7 % side));
        }
        words = set_sorted(words);
        check(&layout, &l, words, 0, 5 * (int32_t)words.size());
    }
}

// A word of a batch that the layout does not have touches nothing: it must not be looked for in the
// box.
template <typename F>
void expand_no_batch(const F &check) {
    const expand_layer l = layer_make({3, 3, 3}, {2, 2, 2}, {1, 1, 1});
    const word_layout layout = layout_for<uint32_t>(&l, {0, 0, 0}, {30, 30, 30}, 5);
    const std::vector<uint32_t> words = {word_at<uint32_t>(&layout, &l, 4, 3, 3, 3),
                                         word_at<uint32_t>(&layout, &l, 5, 3, 3, 3),
                                         word_at<uint32_t>(&layout, &l, 7, 9, 9, 9), 0xfffffffe};
    const set_outcome<uint32_t> o = check(&layout, &l, words, 0, 100);
    CHECK(o.count == 8 && o.trouble.flags == device_flag_range);
    CHECK_EQUAL(UINT32_MAX - o.trouble.first_range, 1u);
}

// ---- what is refused ----------------------------------------------------------------------------

// What functions refuse of arguments with a kernel of size 3, ratio 2 and padding 1 besides what
// those of all sets do (sets.h).
inline std::vector<refusal<expand_args<uint32_t>>> expand_refusals() {
    typedef expand_args<uint32_t> args;
    static const kernel_shape turned = {{3, 3, 3}, {1, 1, 1}, {1, 1, 1}, true},
                              wide = {{3, 16, 3}, {1, 1, 1}, {1, 1, 1}, false};
    static const expand_rule still = {{2, 0, 2}, {1, 1, 1}, {}},
                             outside = {{2, 2, 2}, {-1, 1, 1}, {}},
                             tight = {{2, 2, 2}, {1, 1, 0}, {{0, 0, 0}, {9, 9, 2}}};
    return {
        {status_null_pointer, [](args *a) { a->kernel = nullptr; }},
        {status_null_pointer, [](args *a) { a->rule = nullptr; }},
        {status_unsupported, [](args *a) { a->kernel = &turned; }},
        {status_kernel_size, [](args *a) { a->kernel = &wide; }},
        {status_stride, [](args *a) { a->rule = &still; }},
        {status_bad_size, [](args *a) { a->rule = &outside; }},
        {status_bad_size, [](args *a) { a->rule = &tight; }},
        {status_bad_size, [](args *a) { a->in.capacity = (INT32_MAX / 2 - 1) / 8 + 1; }},
    };
}

// ---- a network whose sets are known -------------------------------------------------------------

// Layers of VoxelBackBone8x on a grid; the next one is relative to the
// outputs of the one before.
inline std::vector<expand_layer> expand_chain(expand_grid grid = {{0, 0, 0}, {1440, 1440, 41}}) {
    std::vector<expand_layer> chain = {
        layer_make({3, 3, 3}, {2, 2, 2}, {1, 1, 1}), layer_make({3, 3, 3}, {2, 2, 2}, {1, 1, 1}),
        layer_make({3, 3, 3}, {2, 2, 2}, {1, 1, 0}), layer_make({1, 1, 3}, {1, 1, 2}, {0, 0, 0})};
    triple spacing = {1, 1, 1};
    for (expand_layer &l : chain) {
        l.kernel.stride = spacing;
        l.rule.grid = grid;
        CHECK_OK(expand_out(&l.kernel, &l.rule, &grid));
        spacing = triple_multiply(spacing, l.rule.ratio);
    }
    return chain;
}

// Layers behind each other on grids with an extent; each one is mostly of a kind that can be made
// with those before it (expand_follows).
inline std::vector<expand_layer> chain_random(random_state *r) {
    std::vector<expand_layer> chain((size_t)random_int(r, 2, 7));
    expand_grid grid = {{random_int(r, -9, 9), random_int(r, -9, 9), random_int(r, -9, 9)},
                        {random_int(r, 30, 60), random_int(r, 30, 60), random_int(r, 9, 50)}};
    triple spacing = {1, 1, random_int(r, 1, 2)};
    const bool usual = random_int(r, 0, 3);
    for (expand_layer &l : chain) {
        l = {};
        l.kernel = {{1, 1, 1}, {1, 1, 1}, spacing, false};
        l.rule.ratio = {1, 1, 1};
        l.rule.grid = grid;
        for (int a = 0; a < 3; ++a) {
            const int size = random_int(r, 1, triple_at(grid.extent, a) > 6 ? 3 : 1);
            *triple_at(&l.kernel.size, a) = size;
            *triple_at(&l.rule.ratio, a) = size == 1 ? 1 : usual ? 2 : random_int(r, 1, 2);
            *triple_at(&l.rule.padding, a) = random_int(r, 0, 2);
            *triple_at(&l.kernel.dilation, a) = usual || random_int(r, 0, 9) ? 1 : 2;
        }
        CHECK_OK(expand_out(&l.kernel, &l.rule, &grid));
        spacing = triple_multiply(spacing, l.rule.ratio);
    }
    return chain;
}

// A layout for voxels of the first layer's whole grid, with room for the outputs of all layers.
template <typename W>
word_layout layout_for_chain(const std::vector<expand_layer> &chain, int batches) {
    const expand_grid g = chain[0].rule.grid;
    const triple s = chain[0].kernel.stride,
                 last = {g.extent.x - 1, g.extent.y - 1, g.extent.z - 1};
    word_need need = word_need_of(
        g.origin, {g.origin.x + s.x * last.x, g.origin.y + s.y * last.y, g.origin.z + s.z * last.z},
        batches, {1, 1, 1}, {0, 0, 0});
    for (const expand_layer &l : chain) {
        CHECK_OK(expand_need(&l.kernel, &l.rule, &need));
    }
    return reference_layout<W>(need.lo, need.hi, batches, need.stride, need.reach);
}

// What the host makes of a chain, a layer after the other. room: of each set, over what it has
template <typename W>
std::vector<set_outcome<W>> chain_on_host(const word_layout *layout,
                                          const std::vector<expand_layer> &chain,
                                          std::vector<W> words, int32_t count, int32_t room) {
    std::vector<set_outcome<W>> made;
    for (const expand_layer &l : chain) {
        const int32_t all =
            on_host(layout, &l, words, count, 125 * (int32_t)max_of(count, 1)).count;
        made.push_back(on_host(layout, &l, words, count, (int32_t)max_of(all + room, 1)));
        words = made.back().words;
        count = made.back().count;
        guarded_finish();
    }
    return made;
}

#define EXPAND_SCAN "nuscenes_10sweeps.pcd.bin"

// What spconv makes of EXPAND_SCAN: the voxels, and the outputs of each layer.
const int32_t expand_counts[] = {105127, 111474, 54515, 21216, 17698};

// The voxels of EXPAND_SCAN between (-54, -54, -5) and (54, 54, 3), of 0.075 x 0.075 x 0.2 m.
template <typename W>
std::vector<W> expand_scan(word_layout *layout) {
    const double lo[3] = {-54, -54, -5}, size[3] = {0.075, 0.075, 0.2};
    const int extent[3] = {1440, 1440, 40};
    *layout = reference_layout<W>({0, 0, 0}, {1439, 1439, 40}, 1, {8, 8, 8}, {4, 4, 8});
    std::vector<W> words;
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", test_data_folder(), EXPAND_SCAN);
    FILE *file = fopen(path, "rb");
    float row[5]; // x, y, z, intensity, ring
    while (CHECK(file) && fread(row, sizeof row, 1, file) == 1) {
        int at[3];
        bool inside = true;
        for (int a = 0; a < 3; ++a) {
            at[a] = (int)floor(((double)row[a] - lo[a]) / size[a]);
            inside = inside && at[a] >= 0 && at[a] < extent[a];
        }
        if (inside) {
            words.push_back(word_pack<W>(layout, {0, at[0], at[1], at[2]}));
        }
    }
    fclose(file);
    return set_sorted(words);
}

#endif
