// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/gpu/expand.cu: the outputs that kernels touch, on the GPU, word for word those of the host
// loop, whichever way they are made; and the maps between the two sets entry for entry.
#include "../../spira/expand.cuh"
#include "../../spira/map.cuh"
#include "../support/device.cuh"
#include "../support/expand.h"
#include "../support/gpu.cuh"

namespace {

typedef expand_layer layer;

const layer layers_all[] = {
    layer_make({3, 3, 3}, {2, 2, 2}, {1, 1, 1}),
    layer_make({3, 3, 3}, {2, 2, 2}, {0, 0, 0}),
    layer_make({3, 3, 3}, {2, 2, 2}, {1, 1, 0}),
    layer_make({1, 1, 3}, {1, 1, 2}, {0, 0, 0}),
    layer_make({2, 2, 2}, {2, 2, 2}, {0, 0, 0}),
    layer_make({3, 3, 3}, {1, 1, 1}, {1, 1, 1}),
    layer_make({5, 5, 5}, {2, 2, 2}, {2, 2, 2}),
    layer_make({3, 3, 3}, {2, 2, 2}, {2, 2, 2}, {2, 2, 2}),
    layer_make({3, 3, 3}, {3, 3, 3}, {1, 0, 2}, {2, 1, 3}),
    layer_make({4, 2, 3}, {3, 1, 2}, {1, 1, 0}, {1, 2, 1}),
    layer_make({1, 1, 1}, {2, 2, 2}, {0, 0, 0}),
    layer_make({1, 1, 1}, {1, 1, 1}, {0, 0, 0}),
    layer_make({2, 2, 2}, {1, 1, 1}, {1, 1, 1}),
    layer_make({1, 1, 15}, {1, 1, 4}, {0, 0, 7}),
};
const int layers_count = (int)(sizeof layers_all / sizeof *layers_all);

// ---- one run ------------------------------------------------------------------------------------

// Buffers of one run, all of exactly the size that is asked for.
template <typename W>
struct device_run {
    expand_args<W> args;
    expand_plan plan;
    bool forced; // the plan's way, not the one that expand chooses
    char *scratch;
    size_t bytes;
};

enum { way_chosen, way_sort, way_cells };

template <typename W>
device_run<W> device_run_make(const word_layout *layout, const layer *l,
                              const std::vector<W> &words, int32_t count, int32_t out_capacity,
                              int way) {
    device_run<W> d = {};
    const int32_t capacity = (int32_t)words.size();
    d.args = {layout,
              &l->kernel,
              &l->rule,
              {device_upload(words.data(), capacity), device_upload(&count, 1), capacity},
              {device_new<W>(out_capacity), device_new<int32_t>(1), out_capacity},
              device_zeros<device_status>(1)};
    CHECK_OK(expand_workspace(&d.args, &d.bytes));
    CHECK_OK(expand_plan_make(&d.args, 1, &d.plan));
    d.forced = way != way_chosen;
    if (d.forced) {
        expand_plan *p = &d.plan;
        p->by_cells = way == way_cells;
        d.bytes = p->by_cells ? expand_sizes_bytes(p->sizes)
                              : expand_sort_bytes<W>(&p->level[0].axes, capacity, out_capacity);
    }
    d.scratch = device_new<char>((int64_t)d.bytes);
    return d;
}

template <typename W>
status device_run_start(const device_run<W> *d, cudaStream_t stream) {
    SPIRA_TRY(device_status_clear(d->args.trouble, stream));
    return d->forced ? expand_launch(&d->args, d->plan, d->scratch, gpu()->programmatic, stream)
                     : expand(gpu(), &d->args, d->scratch, d->bytes, stream);
}

// "" if a run has made what the host made; else what differs, and of which layer.
template <typename W>
const char *device_run_judge(const char *what, const device_run<W> *d,
                             const set_outcome<W> &wanted) {
    set_outcome<W> got = {};
    got.trouble = device_value(d->args.trouble);
    got.count = device_value(d->args.out.count);
    got.words.resize((size_t)d->args.out.capacity);
    device_copy_out(got.words.data(), d->args.out.words, d->args.out.capacity);
    const kernel_shape *k = d->args.kernel;
    const expand_rule *r = d->args.rule;
    char label[400];
    snprintf(label, sizeof label,
             "%s%s: at most %d rows into %d; size %d %d %d, ratio %d %d %d, padding %d %d %d, "
             "dilation %d %d %d, spacing %d, extent %d",
             what, d->forced ? ", forced" : "", d->args.in.capacity, d->args.out.capacity,
             k->size.x, k->size.y, k->size.z, r->ratio.x, r->ratio.y, r->ratio.z, r->padding.x,
             r->padding.y, r->padding.z, k->dilation.x, k->dilation.y, k->dilation.z, k->stride.x,
             r->grid.extent.x);
    return set_difference(got, wanted, label);
}

// The map of a layer is that of the host loop.
template <typename W>
void check_map(const device_run<W> *d, std::vector<W> words, int32_t count, set_outcome<W> made) {
    const expand_args<W> *a = &d->args;
    const int64_t volume = kernel_volume(a->kernel);
    std::vector<int32_t> map((size_t)(a->out.capacity * volume)),
        got((size_t)(made.count * volume));
    const voxel_set<W> in = {words.data(), &count, a->in.capacity},
                       out = {made.words.data(), &made.count, a->out.capacity};
    CHECK_OK(map_build_host(a->layout, a->kernel, in, out, map.data()));
    map.resize(got.size());
    int32_t *to = device_new_poisoned<int32_t>(a->out.capacity * volume);
    CHECK_OK(map_build<W>(a->layout, a->kernel, a->in, a->out, to, stream_get()));
    device_copy_out(got.data(), to, (int64_t)got.size());
    CHECK(got == map);
}

// Every way that can make this set, each twice: the second run finds scratch and outputs as the
// first left them. Returns what the host made, and frees all buffers of the test.
template <typename W>
set_outcome<W> check_given(const char *what, const word_layout *layout, const layer *l,
                           const std::vector<W> &words, int32_t count, int32_t out_capacity) {
    const set_outcome<W> wanted = on_host(layout, l, words, count, out_capacity);
    for (int way = way_chosen; way <= way_cells; ++way) {
        const device_run<W> d = device_run_make(layout, l, words, count, out_capacity, way);
        const expand_axis *z = &d.plan.level[0].axes.z;
        if (way == way_cells &&
            ((z->most - 1) * z->apart >= 32 || expand_box_cells(&d.plan.level[0].box) > 1 << 28)) {
            continue;
        }
        for (int run = 0; run < 2; ++run) {
            CHECK_OK(device_run_start(&d, stream_get()));
            CHECK_EQUAL(device_run_judge(what, &d, wanted), "");
        }
        if (way == way_chosen) {
            check_map(&d, words, count, wanted);
        }
        guarded_finish();
    }
    return wanted;
}

// With garbage behind the count.
template <typename W>
set_outcome<W> check_set(const char *what, const word_layout *layout, const layer *l,
                         std::vector<W> words, int room, int32_t out_capacity) {
    const int32_t count = (int32_t)words.size();
    set_pad(&words, (int32_t)max_of(count + room, 1));
    return check_given(what, layout, l, words, count, out_capacity);
}

// ---- sizes and scenes ---------------------------------------------------------------------------

template <typename W>
void check_every_size() {
    random_state random = random_make(1);
    int turn = 0;
    for (int n :
         {0,   1,   2,   31,  32,  33,   63,   64,   65,   127,  128,  129,  240,   255,
          256, 257, 511, 512, 513, 1023, 1024, 1025, 2047, 2048, 2049, 4097, 10007, 65537}) {
        if (test_quick() && n > 300) {
            continue;
        }
        for (int room : {0, 37}) {
            const layer *l = &layers_all[turn++ % layers_count];
            int side = n < 300 ? 6 : n < 3000 ? 14 : 45;
            triple lo = triple_make(-side, -side, -side), hi = triple_make(side, side, side - 3);
            word_layout layout = layout_for<W>(l, lo, hi, 2);
            std::vector<W> words = random_words<W>(&random, &layout, l, lo, hi, n);
            const int32_t capacity = 8 * ((int32_t)words.size() + room) + 1;
            const set_outcome<W> o = check_set("sizes", &layout, l, words, room, capacity);
            CHECK(!(o.trouble.flags & ~(uint32_t)device_flag_capacity));
        }
    }
}

DEVICE_TEST(gpu_expand_every_size) {
    check_every_size<uint32_t>();
    check_every_size<uint64_t>();
}

// A quarter of the scenes has no room for its outputs, another one has voxels off its grid.
template <typename W>
void check_random_scenes(int scenes) {
    int troubled = 0;
    for (int seed = 0; seed < scenes; ++seed) {
        random_state random = random_make((uint64_t)seed * 2 + sizeof(W) / 8);
        layer l = layer_random(&random, 40);
        triple e = l.rule.grid.extent;
        triple hi = triple_make(e.x ? e.x - 1 : 40, e.y ? e.y - 1 : 19, e.z ? e.z - 1 : 11);
        word_layout layout =
            layout_for<W>(&l, {0, 0, 0}, hi, random_int(&random, 1, 5), seed % 4 != 0);
        std::vector<W> words = seed % 4 == 1
                                   ? set_random<W>(&random, &layout, layout.lo, layout.hi, 500)
                                   : random_words<W>(&random, &layout, &l, {0, 0, 0}, hi,
                                                     random_int(&random, 0, 2000));
        const int32_t count = (int32_t)words.size();
        const int32_t capacity = random_int(&random, 0, 2) ? 27 * count + 1 : 1 + count / 2;
        const set_outcome<W> o =
            check_set("random", &layout, &l, words, random_int(&random, 0, 300), capacity);
        troubled += (o.trouble.flags & device_flag_range) != 0;
    }
    CHECK(troubled > scenes / 5 && troubled <= scenes / 2);
}

DEVICE_TEST(gpu_expand_random_scenes) {
    check_random_scenes<uint32_t>(test_quick() ? 8 : 200);
    check_random_scenes<uint64_t>(test_quick() ? 8 : 200);
}

// Voxels at both ends of every field; what has no room is said, with the first row at fault.
template <typename W>
void check_field_ends(int batches) {
    for (layer l : layers_all) {
        triple reach = kernel_reach(&l.kernel);
        word_layout layout =
            reference_layout<W>({-20, -7, -30}, {41, 50, 5}, batches, {1, 1, 1}, reach);
        std::vector<W> words;
        for (int batch = 0; batch < batches; ++batch) {
            for (int x : {layout.lo.x, layout.lo.x + 1, -1, 0, layout.hi.x - 1, layout.hi.x}) {
                for (int y : {layout.lo.y, -1, 0, layout.hi.y}) {
                    for (int z : {layout.lo.z, -1, 0, layout.hi.z - 1, layout.hi.z}) {
                        words.push_back(word_pack<W>(&layout, {batch, x, y, z}));
                    }
                }
            }
        }
        words = set_sorted(words);
        const int32_t capacity = 40 * (int32_t)words.size();
        const set_outcome<W> o = check_set("field ends", &layout, &l, words, 0, capacity);
        for (int32_t i = 0; i < o.count; ++i) {
            voxel v = word_unpack<W>(&layout, o.words[(size_t)i]);
            CHECK(word_contains(&layout, v));
        }
        l.rule.grid.origin = {-20, -7, -30};
        l.rule.grid.extent = {62, 58, 36}; // and what is off the grid
        check_set("field ends, extent", &layout, &l, words, 0, capacity);
    }
}

DEVICE_TEST(gpu_expand_field_ends) {
    check_field_ends<uint32_t>(1);
    check_field_ends<uint32_t>(4);
    check_field_ends<uint64_t>(1);
    check_field_ends<uint64_t>(9);
}

template <typename W>
void check_capacity() {
    random_state random = random_make(3);
    const triple lo = {0, 0, 0}, hi = {30, 30, 30};
    for (int n : {1, 33, 257, 1025, 4097}) {
        for (int i : {0, 5, 6}) {
            if (test_quick() && n > 300) {
                continue;
            }
            const layer *l = &layers_all[i];
            word_layout layout = layout_for<W>(l, lo, hi, 1);
            std::vector<W> words = random_words<W>(&random, &layout, l, lo, hi, n);
            const int32_t have = (int32_t)words.size(), most = 125 * have,
                          all = on_host(&layout, l, words, have, most).count;
            for (int32_t capacity : {200 * have + 5000, all + 1, all, all - 1, all / 2, 1}) {
                if (capacity >= 1) {
                    set_outcome<W> o = check_given("capacity", &layout, l, words, have, capacity);
                    CHECK_EQUAL(o.count, capacity < all ? capacity : all);
                    CHECK_EQUAL(o.trouble.needed, capacity < all ? (uint32_t)all : 0u);
                }
            }
            for (int32_t count : {have + 100, 0, -1, 1, 255, 256, 257, 512, 513}) {
                check_given("count", &layout, l, words, count, most);
            }
        }
    }
}

DEVICE_TEST(gpu_expand_full_capacity_and_one_more) {
    check_capacity<uint32_t>();
    check_capacity<uint64_t>();
}

// ---- shapes of the box --------------------------------------------------------------------------

const auto check_shape = [](const word_layout *layout, const layer *l, const auto &words, int room,
                            int32_t capacity) {
    return check_set("shape", layout, l, words, room, capacity);
};

// Counts of cells around a word, a batch of a list, a tile, and many of them.
DEVICE_TEST(gpu_expand_full_boxes) {
    const int batch = bitmap_batch, tile = 32 * bitmap_tile;
    expand_full_boxes<uint32_t>(
        {1, 31, 32, 33, batch - 1, batch, batch + 1, tile - 1, tile, tile + 1}, check_shape);
    if (!test_quick()) {
        expand_full_boxes<uint32_t>({33 * tile - 1, 70 * tile + 5}, check_shape);
    }
}

DEVICE_TEST(gpu_expand_walls_and_lone_voxels) {
    expand_walls(test_quick() ? 60 : 400, check_shape);
}

DEVICE_TEST(gpu_expand_of_no_batch) {
    expand_no_batch(check_shape);
}

// By the extent.
DEVICE_TEST(gpu_expand_chooses_each_way) {
    random_state r = random_make(6);
    for (int extent : {60, 0}) {
        layer l = layers_all[0];
        l.rule.grid.extent = {extent, extent, extent ? 40 : 0};
        const triple hi = {59, 59, 39};
        const word_layout layout =
            layout_for<uint64_t>(&l, {0, 0, 0}, extent ? hi : triple{60000, 60000, 39}, 1);
        const std::vector<uint64_t> words =
            random_words<uint64_t>(&r, &layout, &l, {0, 0, 0}, hi, 4000);
        const int32_t n = (int32_t)words.size();
        check_given("expand", &layout, &l, words, n, 9 * n);
        CHECK_EQUAL(device_run_make(&layout, &l, words, n, 9 * n, way_chosen).plan.by_cells,
                    extent > 0);
        guarded_finish();
    }
}

// ---- chains -------------------------------------------------------------------------------------

// The sets of layers behind each other by one call, twice into the same memory. Returns the layers
// that are made at once from the first on.
template <typename W>
int check_chain(const word_layout *layout, const std::vector<layer> &chain,
                const std::vector<W> &words, int32_t room) {
    const int32_t n = (int32_t)words.size();
    const std::vector<set_outcome<W>> wanted = chain_on_host(layout, chain, words, n, room);
    std::vector<expand_args<W>> args;
    device_status *const trouble = device_zeros<device_status>(1);
    voxel_set<W> in = {device_upload(words.data(), n), device_upload(&n, 1), n};
    for (size_t l = 0; l < chain.size(); ++l) {
        const int32_t capacity = (int32_t)wanted[l].words.size();
        const voxel_set<W> out = {device_new<W>(capacity), device_new<int32_t>(1), capacity};
        args.push_back({layout, &chain[l].kernel, &chain[l].rule, in, out, trouble});
        in = out;
    }
    size_t bytes = 0;
    const int count = (int)args.size();
    CHECK_OK(expand_chain_workspace(args.data(), count, &bytes));
    char *const scratch = device_new<char>((int64_t)bytes);
    uint32_t flags = 0;
    for (int run = 0; run < 2; ++run) {
        CHECK_OK(expand_chain(gpu(), args.data(), count, scratch, bytes, stream_get()));
        for (size_t l = 0; l < chain.size(); ++l) {
            const voxel_set<W> out = args[l].out;
            set_outcome<W> got = {}, host = wanted[l];
            got.count = device_value(out.count);
            got.words.resize((size_t)out.capacity);
            device_copy_out(got.words.data(), out.words, out.capacity);
            flags |= host.trouble.flags;
            host.trouble = {};
            char label[40];
            snprintf(label, sizeof label, "level %d of %d", (int)l, count);
            CHECK_EQUAL(set_difference(got, host, label), "");
        }
    }
    CHECK_EQUAL(device_value(trouble).flags, flags);
    expand_plan plan;
    CHECK_OK(expand_plan_make(args.data(), count, &plan));
    guarded_finish();
    return plan.levels;
}

template <typename W>
void check_chains() {
    int several = 0;
    for (int seed = 0; seed < (test_quick() ? 6 : 40); ++seed) {
        random_state r = random_make((uint64_t)seed);
        const std::vector<layer> chain = chain_random(&r);
        const triple e = chain[0].rule.grid.extent;
        const word_layout layout = layout_for_chain<W>(chain, random_int(&r, 1, 3));
        const std::vector<W> words =
            random_words<W>(&r, &layout, &chain[0], {0, 0, 0}, {e.x - 1, e.y - 1, e.z - 1},
                            random_int(&r, 1, seed % 3 ? 100 : 2000));
        several += check_chain(&layout, chain, words, random_int(&r, -3, 2)) > 1;
    }
    CHECK(several > 0);
}

DEVICE_TEST(gpu_expand_chains) {
    check_chains<uint32_t>();
    check_chains<uint64_t>();
}

DEVICE_TEST(gpu_expand_chain_of_a_network) {
    NEED_SCANS(EXPAND_SCAN);
    if (test_quick()) {
        SKIP("a scan is too large for a sanitizer");
    }
    word_layout layout;
    const std::vector<uint32_t> words = expand_scan<uint32_t>(&layout);
    CHECK_EQUAL(check_chain(&layout, expand_chain(), words, 0), 4);
    const std::vector<uint64_t> wide = expand_scan<uint64_t>(&layout);
    CHECK_EQUAL(check_chain(&layout, expand_chain(), wide, 3), 4);
}

DEVICE_TEST(gpu_expand_chain_refuses) {
    const std::vector<layer> chain = expand_chain({{0, 0, 0}, {64, 64, 41}});
    const word_layout layout = layout_for_chain<uint32_t>(chain, 1), other = layout;
    voxel_set<uint32_t> set[3];
    for (voxel_set<uint32_t> &s : set) {
        s = {device_zeros<uint32_t>(100), device_zeros<int32_t>(1), 100};
    }
    device_status *const trouble = device_zeros<device_status>(1);
    expand_args<uint32_t> args[2];
    for (int l = 0; l < 2; ++l) {
        const size_t i = (size_t)l;
        args[l] = {&layout, &chain[i].kernel, &chain[i].rule, set[l], set[l + 1], trouble};
    }
    size_t bytes = 0;
    REQUIRE_OK(expand_chain_workspace(args, 2, &bytes));
    char *const scratch = device_new<char>((int64_t)bytes);
    const auto run = [&](int count) {
        return expand_chain(gpu(), args, count, scratch, bytes, stream_get());
    };
    CHECK_OK(run(2));
    CHECK_STATUS(run(0), status_bad_size);
    const expand_args<uint32_t> right = args[1];
    args[1].in = set[0];
    CHECK_STATUS(run(2), status_unsupported);
    args[1] = right;
    args[1].in.capacity = 99;
    CHECK_STATUS(run(2), status_unsupported);
    args[1] = right;
    args[1].layout = &other;
    CHECK_STATUS(run(2), status_unsupported);
    args[1] = right;
    args[1].out.count = nullptr;
    CHECK_STATUS(run(2), status_null_pointer);
    args[1] = right;
    CHECK_STATUS(expand_chain(gpu(), args, 2, scratch, bytes - 1, stream_get()), status_workspace);
    CHECK_STATUS(expand_chain_workspace<uint32_t>(args, 2, nullptr), status_null_pointer);
}

// ---- real scans ---------------------------------------------------------------------------------

// The encoder of SECOND and CenterPoint, each layer from the outputs of the one before.
template <typename W>
void check_chain(const char *name, bool bounded) {
    word_layout layout;
    std::vector<W> words = reference_scan<W>(name, 64, &layout);
    REQUIRE(!words.empty());
    word_need need = word_need_of(layout.lo, layout.hi, 1, {1, 1, 1}, {0, 0, 0});
    expand_grid grid = {{0, 0, 0}, {0, 0, 0}};
    if (bounded) {
        grid.extent = triple_make(layout.hi.x + 1, layout.hi.y + 1, layout.hi.z + 1);
    }
    std::vector<layer> chain = expand_chain(grid);
    for (const layer &l : chain) {
        REQUIRE_OK(expand_need(&l.kernel, &l.rule, &need));
    }
    word_layout wide = layout;
    REQUIRE_OK(word_fit(&need, &wide));
    wide = sizeof(W) == 8 ? word_widen(wide) : wide;
    REQUIRE_OK(word_check<W>(&wide));
    for (W &word : words) {
        word = word_pack<W>(&wide, word_unpack(&layout, word));
    }
    for (const layer &l : chain) {
        const set_outcome<W> o = check_set(name, &wide, &l, words, 0, 3 * (int32_t)words.size());
        CHECK_EQUAL(o.trouble.flags, 0u);
        REQUIRE(CHECK(o.count > 0));
        words.assign(o.words.begin(), o.words.begin() + o.count);
    }
}

// The sets that spconv makes of a scan, and the other rules that the benchmark measures.
template <typename W>
void check_scan() {
    word_layout layout;
    const std::vector<W> scan = expand_scan<W>(&layout);
    CHECK_EQUAL((int32_t)scan.size(), expand_counts[0]);
    std::vector<W> words = scan;
    int level = 0;
    for (const layer &l : expand_chain()) {
        const set_outcome<W> o =
            check_set("network", &layout, &l, words, 77, 2 * (int32_t)words.size());
        CHECK_EQUAL(o.count, expand_counts[++level]);
        CHECK_EQUAL(o.trouble.flags, 0u);
        words.assign(o.words.begin(), o.words.begin() + o.count);
    }
    for (layer l : {layers_all[5], layers_all[6], layers_all[3]}) {
        l.rule.grid.extent = {1440, 1440, 41};
        const set_outcome<W> o = check_set("scan", &layout, &l, scan, 0, 10 * (int32_t)scan.size());
        CHECK_EQUAL(o.trouble.flags, 0u);
    }
}

DEVICE_TEST(gpu_expand_real_scans) {
    NEED_SCANS("kitti00_000000_5cm.vox32", "lone_star_5cm.vox32", EXPAND_SCAN);
    if (test_quick()) {
        SKIP("a scan is too large for a sanitizer");
    }
    check_chain<uint64_t>("kitti00_000000_5cm.vox32", true);
    check_chain<uint64_t>("kitti00_000000_5cm.vox32", false);
    check_chain<uint32_t>("lone_star_5cm.vox32", true);
    check_chain<uint64_t>("lone_star_5cm.vox32", false);
    check_scan<uint32_t>();
    check_scan<uint64_t>();
}

// ---- one graph for all scenes -------------------------------------------------------------------

template <typename W>
void check_replays(const layer *l, int way) {
    const int32_t capacity = 2000, out_capacity = 6000;
    random_state random = random_make(4);
    const triple lo = {-30, -20, -9}, hi = {29, 33, 9};
    word_layout layout = layout_for<W>(l, lo, hi, 3);
    std::vector<W> words;
    set_pad(&words, capacity);
    const device_run<W> d = device_run_make<W>(&layout, l, words, 0, out_capacity, way);
    CHECK_OK(device_run_start(&d, stream_get())); // loads the kernels
    CHECK(expect_no_cuda_error());
    cudaGraphExec_t replay =
        stream_capture([&](cudaStream_t stream) { CHECK_OK(device_run_start(&d, stream)); });
    REQUIRE(replay != nullptr);
    for (int n : {1200, 0, 1, 2000, 300, 1999, 2, 0, 700}) {
        words = random_words<W>(&random, &layout, l, lo, hi, n);
        if (n == 300) { // at the very end of the layout, where the kernel has no room
            words[299 % words.size()] =
                word_pack<W>(&layout, {2, layout.hi.x, layout.hi.y, layout.hi.z});
            std::sort(words.begin(), words.end());
        }
        int32_t count = (int32_t)words.size();
        set_pad(&words, capacity);
        const set_outcome<W> wanted = on_host(&layout, l, words, count, out_capacity);
        device_copy_in(d.args.in.words, words.data(), capacity);
        device_copy_in(d.args.in.count, &count, 1);
        for (int run = 0; run < 2; ++run) {
            CUDA_CHECK(cudaGraphLaunch(replay, stream_get()));
            CUDA_CHECK(cudaStreamSynchronize(stream_get()));
            CHECK_EQUAL(device_run_judge("replay", &d, wanted), "");
        }
    }
    CUDA_CHECK(cudaGraphExecDestroy(replay));
    guarded_finish();
}

DEVICE_TEST(gpu_expand_graph_replays) {
    for (int way : {way_chosen, way_cells}) {
        check_replays<uint32_t>(&layers_all[0], way);
        check_replays<uint64_t>(&layers_all[2], way);
        check_replays<uint32_t>(&layers_all[5], way);
    }
}

// ---- what is refused ----------------------------------------------------------------------------

DEVICE_TEST(gpu_expand_refuses) {
    typedef expand_args<uint32_t> args;
    const layer l = layers_all[0];
    const word_layout layout =
        reference_layout<uint32_t>({-5, -5, -5}, {20, 20, 20}, 1, {1, 1, 1}, {1, 1, 1});
    std::vector<uint32_t> words(100, word_pack<uint32_t>(&layout, {0, 1, 2, 3}));
    const device_run<uint32_t> d = device_run_make(&layout, &l, words, 1, 50, way_chosen);
    const auto run = [&](const args *a, void *scratch, size_t bytes) {
        return expand(gpu(), a, scratch, bytes, stream_get());
    };
    check_refusals<args>(d.args, d.scratch, d.bytes, expand_refusals(), run);
    size_t bytes = 0;
    for (const refusal<args> &r : expand_refusals()) {
        args a = d.args;
        r.spoil(&a);
        CHECK_STATUS(expand_workspace(&a, &bytes), r.code);
    }
    CHECK_STATUS(expand_workspace(&d.args, nullptr), status_null_pointer);
    CHECK_STATUS(expand((const device_info *)nullptr, &d.args, d.scratch, d.bytes, stream_get()),
                 status_null_pointer);
    args other = d.args;
    other.in.capacity = (INT32_MAX / 2 - 1) / 8;
    CHECK_OK(expand_workspace(&other, &bytes));
    other.out.capacity = 0;
    CHECK_STATUS(expand_workspace(&other, &bytes), status_bad_size);
    CHECK(device_untouched(d.args.out.words, 0, 50)); // a refused call has done nothing
    CHECK(device_untouched(d.scratch, 0, (int64_t)d.bytes));
}

} // namespace
