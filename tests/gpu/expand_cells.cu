// tests/gpu/expand_cells.cu: the ways of index/expand_box.h to make an output set without a sort,
// whichever would be chosen, word for word as the host loop makes it; and the choice of expand.
#include "../../spira/expand.cuh"
#include "../support/device.cuh"
#include "../support/expand.h"
#include "../support/gpu.cuh"

namespace {

char finding[512]; // the first difference

// Buffers of one run, all of exactly the size that is asked for.
template <typename W>
struct device_run {
    expand_marking<W> marking;
    expand_sizes sizes;
    expand_scratch scratch;
    voxel_set<W> out;
};

template <typename W>
device_run<W> device_run_make(const word_layout *layout, const expand_layer *l,
                              const std::vector<W> &words, int32_t count, int32_t out_capacity,
                              expand_way way) {
    device_run<W> d = {};
    expand_marking<W> *m = &d.marking;
    const int32_t capacity = (int32_t)words.size();
    CHECK_OK(expand_axes_make(&l->kernel, &l->rule, &m->axes));
    m->layout = *layout;
    m->box = expand_box_make(layout, &m->axes);
    m->in = {device_upload(words.data(), capacity), device_upload(&count, 1), capacity};
    m->trouble = device_zeros<device_status>(1);
    const int64_t cells = expand_box_cells(&m->box);
    d.sizes = expand_sizes_make(&m->axes, cells, capacity, way);
    workspace w =
        workspace_begin(device_new<char>(expand_way_bytes(&m->axes, cells, capacity, way)));
    expand_carve(&w, &d.sizes, &d.scratch);
    d.out = {device_new<W>(out_capacity), device_new<int32_t>(1), out_capacity};
    return d;
}

template <typename W>
status device_run_start(const device_run<W> *d, cudaStream_t stream) {
    SPIRA_TRY(device_status_clear(d->marking.trouble, stream));
    return expand_cells_launch(d->marking, d->sizes, d->scratch, d->out, gpu()->programmatic,
                               stream);
}

template <typename W>
set_outcome<W> device_run_fetch(const device_run<W> *d) {
    set_outcome<W> o = {};
    o.trouble = device_value(d->marking.trouble);
    o.count = device_value(d->out.count);
    o.words.resize((size_t)d->out.capacity);
    device_copy_out(o.words.data(), d->out.words, d->out.capacity);
    return o;
}

// "" where all is the same; else what is not, and of which layer.
template <typename W>
const char *explain(const char *what, const expand_layer *l, const set_outcome<W> &got,
                    const set_outcome<W> &wanted) {
    const char *differs = set_difference(got, wanted);
    const triple *size = &l->kernel.size, *ratio = &l->rule.ratio;
    finding[0] = 0;
    if (*differs) {
        snprintf(finding, sizeof finding,
                 "%s: %s; %d outputs instead of %d; size %d %d %d, ratio %d %d %d, extent %d %d %d",
                 what, differs, got.count, wanted.count, size->x, size->y, size->z, ratio->x,
                 ratio->y, ratio->z, l->rule.grid.extent.x, l->rule.grid.extent.y,
                 l->rule.grid.extent.z);
    }
    return finding;
}

// Both ways, each twice: the second run finds scratch and outputs as the first left them. Returns
// what the host made, and frees all buffers of the test.
template <typename W>
set_outcome<W> check_given(const char *what, const word_layout *layout, const expand_layer *l,
                           const std::vector<W> &words, int32_t count, int32_t out_capacity) {
    const set_outcome<W> wanted = on_host(layout, l, words, count, out_capacity);
    for (expand_way way : {expand_by_cells, expand_by_masks}) {
        const device_run<W> d = device_run_make(layout, l, words, count, out_capacity, way);
        for (int run = 0; run < 2; ++run) {
            CHECK_OK(device_run_start(&d, stream_get()));
            CHECK_EQUAL(explain(what, l, device_run_fetch(&d), wanted), "");
        }
    }
    guarded_finish();
    return wanted;
}

// With garbage behind the count.
template <typename W>
set_outcome<W> check_set(const char *what, const word_layout *layout, const expand_layer *l,
                         std::vector<W> words, int room, int32_t out_capacity) {
    const int32_t count = (int32_t)words.size();
    set_pad(&words, (int32_t)max_of(count + room, 1));
    return check_given(what, layout, l, words, count, out_capacity);
}

// ---- rules and scenes ---------------------------------------------------------------------------

template <typename W>
void check_rules(int scenes) {
    for (int seed = 0; seed < scenes; ++seed) {
        random_state r = random_make((uint64_t)seed * 2 + sizeof(W) / 8);
        const expand_layer l = layer_random(&r);
        const triple e = l.rule.grid.extent;
        const triple hi = triple_make(e.x ? e.x - 1 : 40, e.y ? e.y - 1 : 19, e.z ? e.z - 1 : 11);
        const word_layout layout =
            layout_for<W>(&l, {0, 0, 0}, hi, random_int(&r, 1, 5), seed % 4 != 0);
        std::vector<W> words =
            random_words<W>(&r, &layout, &l, {0, 0, 0}, hi, random_int(&r, 0, 2000));
        if (seed % 4 == 1) { // off the grid
            words.resize(500);
            words.resize((size_t)reference_random_set(&r, &layout, layout.lo, layout.hi, {1, 1, 1},
                                                      500, words.data()));
        }
        const int32_t count = (int32_t)words.size();
        const int32_t capacity = random_int(&r, 0, 2) ? 27 * count + 1 : 1 + count / 2;
        check_set("rules", &layout, &l, words, random_int(&r, 0, 300), capacity);
    }
}

DEVICE_TEST(gpu_expand_cells_random_rules) {
    check_rules<uint32_t>(test_quick() ? 8 : 200);
    check_rules<uint64_t>(test_quick() ? 8 : 200);
}

// Full boxes: counts of cells around a word, a batch of a list, a tile, and many of them.
DEVICE_TEST(gpu_expand_cells_full_boxes) {
    const int batch = bitmap_batch, tile = 32 * bitmap_tile;
    int turn = 0;
    for (int cells : {1, 31, 32, 33, batch - 1, batch, batch + 1, tile - 1, tile, tile + 1,
                      33 * tile - 1, 70 * tile + 5}) {
        if (test_quick() && cells > 2 * tile) {
            continue;
        }
        expand_layer l = layer_make({1, 1, 1}, {1, 1, 1}, {0, 0, 0});
        l.rule.grid.extent = {1, 1, cells};
        const word_layout layout = layout_for<uint32_t>(&l, {0, 0, 0}, {0, 0, cells - 1}, 1);
        std::vector<uint32_t> words;
        for (int z = 0; z < cells; ++z) {
            words.push_back(word_at<uint32_t>(&layout, &l, 0, 0, 0, z));
        }
        const int32_t capacity = cells + 1 - turn % 3;
        const set_outcome<uint32_t> o =
            check_set("full box", &layout, &l, words, turn % 2, (int32_t)max_of(capacity, 1));
        CHECK_EQUAL(o.count, min_of(cells, max_of(capacity, 1)));
        ++turn;
    }
}

// Half of all voxels in a plane of each axis, and a lone voxel on each x-plane.
DEVICE_TEST(gpu_expand_cells_walls_and_lone_voxels) {
    const int side = test_quick() ? 60 : 400;
    expand_layer l = layer_make({3, 3, 3}, {2, 2, 2}, {1, 1, 1});
    l.rule.grid.extent = {side, side, side};
    const word_layout layout =
        layout_for<uint64_t>(&l, {0, 0, 0}, {side - 1, side - 1, side - 1}, 1);
    random_state r = random_make(3);
    for (int axis = 0; axis < 4; ++axis) {
        std::vector<uint64_t> words;
        for (int i = 0; i < side * side / 4; ++i) {
            const int a = random_int(&r, 0, side - 1), b = random_int(&r, 0, side - 1),
                      c = axis == 3 ? random_int(&r, 0, side - 1) : side / 2;
            words.push_back(axis == 0   ? word_at<uint64_t>(&layout, &l, 0, c, a, b)
                            : axis == 1 ? word_at<uint64_t>(&layout, &l, 0, a, c, b)
                                        : word_at<uint64_t>(&layout, &l, 0, a, b, c));
        }
        for (int i = 0; i < side; ++i) {
            words.push_back(word_at<uint64_t>(&layout, &l, 0, i, side - 1 - i, i * 7 % side));
        }
        const int32_t n = (int32_t)words.size();
        check_set("walls", &layout, &l, set_sorted(words), 0, 5 * n);
    }
}

DEVICE_TEST(gpu_expand_cells_counts) {
    random_state r = random_make(4);
    const expand_layer l = layer_make({3, 3, 3}, {2, 2, 2}, {1, 1, 1});
    const word_layout layout = layout_for<uint32_t>(&l, {0, 0, 0}, {30, 30, 30}, 1);
    const std::vector<uint32_t> words =
        random_words<uint32_t>(&r, &layout, &l, {0, 0, 0}, {30, 30, 30}, 3000);
    const int32_t n = (int32_t)words.size(), all = on_host(&layout, &l, words, n, 30000).count;
    for (int32_t capacity : {200 * n, all + 1, all, all - 1, all / 2, 1}) {
        const set_outcome<uint32_t> o = check_given("capacity", &layout, &l, words, n, capacity);
        CHECK_EQUAL(o.count, min_of(capacity, all));
        CHECK_EQUAL(o.trouble.needed, capacity < all ? (uint32_t)all : 0u);
    }
    for (int32_t count : {n + 100, 0, -1, 1, 255, 256, 257, 512, 513}) {
        check_given("count", &layout, &l, words, count, 30000);
    }
}

// A word of a batch that the layout does not have touches nothing.
DEVICE_TEST(gpu_expand_cells_of_no_batch) {
    const expand_layer l = layer_make({3, 3, 3}, {2, 2, 2}, {1, 1, 1});
    const word_layout layout = layout_for<uint32_t>(&l, {0, 0, 0}, {30, 30, 30}, 5);
    const std::vector<uint32_t> words = {word_at<uint32_t>(&layout, &l, 4, 3, 3, 3),
                                         word_at<uint32_t>(&layout, &l, 5, 3, 3, 3),
                                         word_at<uint32_t>(&layout, &l, 7, 9, 9, 9), 0xfffffffe};
    const set_outcome<uint32_t> o = check_given("no batch", &layout, &l, words, 4, 100);
    CHECK(o.count == 8 && o.trouble.flags == device_flag_range);
}

// ---- a real scan --------------------------------------------------------------------------------

// The sets that spconv makes of a scan, and the other rules that the benchmark measures.
template <typename W>
void check_scan() {
    word_layout layout;
    const std::vector<W> scan = expand_scan<W>(&layout);
    CHECK_EQUAL((int32_t)scan.size(), expand_counts[0]);
    std::vector<W> words = scan;
    int level = 0;
    for (const expand_layer &l : expand_chain()) {
        const set_outcome<W> o =
            check_set("network", &layout, &l, words, 77, 2 * (int32_t)words.size());
        CHECK_EQUAL(o.count, expand_counts[++level]);
        CHECK_EQUAL(o.trouble.flags, 0u);
        words.assign(o.words.begin(), o.words.begin() + o.count);
    }
    for (expand_layer l :
         {layer_make({3, 3, 3}, {1, 1, 1}, {1, 1, 1}), layer_make({5, 5, 5}, {2, 2, 2}, {2, 2, 2}),
          layer_make({1, 1, 3}, {1, 1, 2}, {0, 0, 0})}) {
        l.rule.grid.extent = {1440, 1440, 41};
        const set_outcome<W> o = check_set("scan", &layout, &l, scan, 0, 10 * (int32_t)scan.size());
        CHECK_EQUAL(o.trouble.flags, 0u);
    }
}

DEVICE_TEST(gpu_expand_cells_real_scan) {
    NEED_SCANS(EXPAND_SCAN);
    if (test_quick()) {
        SKIP("a scan is too large for a sanitizer");
    }
    check_scan<uint32_t>();
    check_scan<uint64_t>();
}

// ---- one graph for all scenes, and the choice ---------------------------------------------------

DEVICE_TEST(gpu_expand_cells_graph_replays) {
    const int32_t capacity = 2000, out_capacity = 9000;
    const triple lo = {-30, -20, -9}, hi = {29, 33, 9};
    const expand_layer l = layer_make({3, 3, 3}, {2, 2, 2}, {1, 1, 1});
    const word_layout layout = layout_for<uint64_t>(&l, lo, hi, 3);
    random_state r = random_make(5);
    for (expand_way way : {expand_by_cells, expand_by_masks}) {
        std::vector<uint64_t> words;
        set_pad(&words, capacity);
        const device_run<uint64_t> d = device_run_make(&layout, &l, words, 0, out_capacity, way);
        CHECK_OK(device_run_start(&d, stream_get())); // loads the kernels
        cudaGraphExec_t replay =
            stream_capture([&](cudaStream_t stream) { CHECK_OK(device_run_start(&d, stream)); });
        REQUIRE(replay != nullptr);
        for (int n : {1200, 0, 1, 2000, 300, 1999, 2}) {
            words = random_words<uint64_t>(&r, &layout, &l, lo, hi, n);
            const int32_t count = (int32_t)words.size();
            set_pad(&words, capacity);
            const set_outcome<uint64_t> wanted = on_host(&layout, &l, words, count, out_capacity);
            device_copy_in(d.marking.in.words, words.data(), capacity);
            device_copy_in(d.marking.in.count, &count, 1);
            for (int run = 0; run < 2; ++run) {
                CUDA_CHECK(cudaGraphLaunch(replay, stream_get()));
                CUDA_CHECK(cudaStreamSynchronize(stream_get()));
                CHECK_EQUAL(explain("replay", &l, device_run_fetch(&d), wanted), "");
            }
        }
        CUDA_CHECK(cudaGraphExecDestroy(replay));
    }
}

// expand makes the same set, whichever way it chooses: by the extent, of which each way is one.
DEVICE_TEST(gpu_expand_cells_or_masks_or_sort) {
    random_state r = random_make(6);
    bool chosen[3] = {};
    for (int extent : {60, 2000, 0}) {
        expand_layer l = layer_make({3, 3, 3}, {2, 2, 2}, {1, 1, 1});
        l.rule.grid.extent = {extent, extent, extent ? 40 : 0};
        const triple hi = {59, 59, 39};
        const triple far = extent ? hi : triple_make(60000, 60000, 39);
        const word_layout layout = layout_for<uint64_t>(
            &l, {0, 0, 0}, extent == 2000 ? triple_make(1999, 1999, 39) : far, 1);
        const std::vector<uint64_t> words =
            random_words<uint64_t>(&r, &layout, &l, {0, 0, 0}, hi, 4000);
        const int32_t n = (int32_t)words.size(), capacity = 9 * n;
        const set_outcome<uint64_t> wanted = on_host(&layout, &l, words, n, capacity);
        const device_run<uint64_t> d =
            device_run_make(&layout, &l, words, n, capacity, expand_by_masks);
        expand_args<uint64_t> args = {nullptr,      &l.kernel, &l.rule,
                                      d.marking.in, d.out,     d.marking.trouble};
        size_t bytes = 0;
        REQUIRE_OK(expand_workspace(&args, &bytes));
        char *scratch = device_new<char>((int64_t)bytes);
        const int64_t cells = expand_box_cells(&d.marking.box);
        chosen[expand_way_choose(&d.marking.axes, cells, n, (int64_t)bytes)] = true;
        args.layout = &layout;
        REQUIRE_OK(expand(gpu(), &args, scratch, bytes, stream_get()));
        CHECK_EQUAL(explain("expand", &l, device_run_fetch(&d), wanted), "");
        guarded_finish();
    }
    CHECK(chosen[expand_by_cells] && chosen[expand_by_masks] && chosen[expand_by_sort]);
}

DEVICE_TEST(gpu_expand_cells_planted_errors_are_found) {
    random_state r = random_make(7);
    expand_layer l = layer_make({3, 3, 3}, {2, 2, 2}, {1, 1, 1});
    const word_layout layout = layout_for<uint32_t>(&l, {0, 0, 0}, {30, 30, 30}, 1);
    const std::vector<uint32_t> words =
        random_words<uint32_t>(&r, &layout, &l, {0, 0, 0}, {30, 30, 30}, 400);
    const int32_t n = (int32_t)words.size();
    const set_outcome<uint32_t> wanted = on_host(&layout, &l, words, n, 4000);
    l.rule.padding.z = 0;
    const device_run<uint32_t> d = device_run_make(&layout, &l, words, n, 4000, expand_by_cells);
    REQUIRE_OK(device_run_start(&d, stream_get()));
    CHECK(strstr(explain("planted", &l, device_run_fetch(&d), wanted), "planted") != nullptr);
}

} // namespace
