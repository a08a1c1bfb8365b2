// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/gpu/forms.cu: the forms of a kernel map on the GPU equal those of the host loops, buffer by
// buffer, including the poison around them. Also batches, graphs, and users' own kernels.
#include "../../spira/map.cuh"
#include "../support/forms.cuh"
#include "../support/gpu.cuh"

using namespace spira;

namespace {

// The plain map by the host loop, for scenes too large for the hash table.
template <typename W>
std::vector<int32_t> plain_map(const forms_scene<W> *s) {
    forms_wish os = forms_wish_os();
    return forms_on_host(s, &os, 0).part[forms_os];
}

template <typename W>
bool has_half(const forms_scene<W> *s) {
    return s->same && !s->kernel.transposed && kernel_is_odd(&s->kernel);
}

// All parts at once, with lists of exactly the capacity needed; lists alone; os alone, also with
// all offsets; the half map where there is one.
template <typename W>
void check_scene(const forms_scene<W> *s, std::initializer_list<int> thresholds, int32_t room = 0) {
    std::vector<int32_t> map = plain_map(s);
    if (s->outputs.empty()) {
        map.clear(); // a capacity of 1 with nothing in it
    }
    for (int half = 0; half <= (int)has_half(s); ++half) {
        check_wish(s, forms_wish_os(map_all, half != 0), room);
        for (int threshold : thresholds) {
            forms_wish wish = forms_everything();
            wish.threshold = threshold;
            wish.half = half;
            check_wish(s, forms_wish_fit(wish, s->kernel.size, map), room);
            check_wish(s, forms_wish_os(threshold, half != 0), room);
            forms_wish lists = forms_wish_lists(threshold, half != 0);
            check_wish(s, forms_wish_fit(lists, s->kernel.size, map), room);
        }
    }
}

kernel_shape kernel_make(triple size, triple dilation = {1, 1, 1}, triple stride = {1, 1, 1},
                         bool transposed = false) {
    kernel_shape k = {size, dilation, stride, transposed};
    return k;
}

// A test of both word widths.
#define FORMS_TEST(name)                                                                           \
    template <typename W>                                                                          \
    void name();                                                                                   \
    DEVICE_TEST(gpu_forms_##name) {                                                                \
        name<uint32_t>();                                                                          \
        name<uint64_t>();                                                                          \
    }                                                                                              \
    template <typename W>                                                                          \
    void name()

// ---- random scenes ------------------------------------------------------------------------------

const auto check = [](const auto *s, const std::vector<int32_t> &, forms_wish wish, int32_t room) {
    check_wish(s, wish, room);
};

DEVICE_TEST(gpu_forms_random_scenes) {
    forms_random_scenes<uint32_t>(1, test_quick() ? 8 : 300, check);
    forms_random_scenes<uint64_t>(2, test_quick() ? 8 : 300, check);
}

// ---- kernels of every size ----------------------------------------------------------------------

int block_bytes(triple size) {
    return std::max(search_block_bytes(search_shape_choose(size, 1, false)),
                    search_block_bytes(search_shape_choose(size, 1, true)));
}

// All kernel sizes, by descending shared memory.
std::vector<triple> sizes_by_bytes() {
    std::vector<triple> sizes;
    for (int i = 0; i < kernel_volume_max; ++i) {
        sizes.push_back({i / 225 + 1, i / 15 % 15 + 1, i % 15 + 1});
    }
    std::sort(sizes.begin(), sizes.end(),
              [](triple a, triple b) { return block_bytes(a) > block_bytes(b); });
    return sizes;
}

// A search's tile and windows fit the 48 KiB that every kernel may use.
TEST(gpu_forms_tiles_fit_shared_memory) {
    triple worst = sizes_by_bytes()[0];
    char text[128];
    snprintf(text, sizeof text, "%d bytes for a kernel of %dx%dx%d", block_bytes(worst), worst.x,
             worst.y, worst.z);
    test_check(block_bytes(worst) <= 48 * 1024, __FILE__, __LINE__, text);
}

template <typename W>
void check_kernel(random_state *r, kernel_shape kernel) {
    word_layout layout =
        reference_layout<W>({-4, -4, -4}, {4, 4, 4}, 2, {1, 1, 1}, kernel_reach(&kernel));
    std::vector<W> words = set_random<W>(r, &layout, {-4, -4, -4}, {4, 4, 4}, 70);
    forms_scene<W> s = forms_scene_make("all sizes", &layout, &kernel, words);
    check_scene(&s, {random_int(r, 0, forms_norm_max(kernel.size) + 1), (int)map_all}, 1);
}

// The kernels with the largest tiles also fit their static shared memory.
DEVICE_TEST(gpu_forms_kernels_of_the_largest_tiles) {
    random_state r = random_make(18);
    std::vector<triple> sizes = sizes_by_bytes();
    for (size_t i = 0; i < (test_quick() ? 2 : 50); ++i) {
        check_kernel<uint32_t>(&r, kernel_make(sizes[i]));
        check_kernel<uint64_t>(&r, kernel_make(sizes[i], {1, 1, 1}, {1, 1, 1}, true));
    }
}

// Sizes of all axes from 1 to 15, small scenes; those of 7 and more are searched in pieces.
FORMS_TEST(kernels_of_every_size) {
    const int sizes[] = {1, 2, 3, 5, 8, 11, 15};
    random_state r = random_make(3);
    for (int i = 0; i < 343; ++i) {
        kernel_shape kernel = kernel_make({sizes[i / 49], sizes[i / 7 % 7], sizes[i % 7]});
        if (test_thinned(173)) {
            continue;
        }
        kernel.transposed = random_int(&r, 0, 2) == 0;
        check_kernel<W>(&r, kernel);
    }
}

// ---- the edges of tiles, sets and fields --------------------------------------------------------

// Tiles of 128, 64 and 32 outputs; thread blocks without outputs.
FORMS_TEST(tile_edges) {
    random_state r = random_make(5);
    word_layout layout = reference_layout<W>({-9, -9, -9}, {9, 9, 9}, 2, {1, 1, 1}, {14, 14, 14});
    for (int n : {0, 1, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257, 1000}) {
        if (test_quick() && (n > 65 || n % 2 == 0)) {
            continue;
        }
        std::vector<W> words = set_random<W>(&r, &layout, {-6, -6, -6}, {6, 6, 6}, n);
        for (triple size : {triple{3, 3, 3}, triple{5, 5, 5}, triple{7, 7, 7}, triple{1, 1, 1},
                            triple{2, 2, 2}, triple{4, 5, 3}, triple{8, 1, 9}}) {
            kernel_shape kernel = kernel_make(size);
            forms_scene<W> s = forms_scene_make("tile edges", &layout, &kernel, words);
            for (int room : {0, 3, 1100}) {
                if (test_quick() && (room == 0 || (n + size.x + room) % 3)) {
                    continue;
                }
                check_scene(&s, {2}, room);
            }
        }
    }
}

DEVICE_TEST(gpu_forms_field_ends) {
    const auto scene = [](const auto *s) { check_scene(s, {0, 2}); };
    for (int batches : {1, 2, 5}) {
        if (test_quick() && batches != 2) {
            continue;
        }
        forms_field_ends<uint32_t>(batches, {3, 3, 3}, {1, 1, 1}, scene);
        forms_field_ends<uint32_t>(batches, {3, 3, 3}, {2, 1, 3}, scene);
        forms_field_ends<uint64_t>(batches, {5, 3, 7}, {1, 1, 1}, scene);
    }
    forms_field_ends<uint32_t>(1, {15, 1, 15}, {1, 1, 1}, scene);
    forms_field_ends<uint64_t>(3, {1, 15, 15}, {1, 1, 1}, scene);
}

FORMS_TEST(foreign_sets) {
    random_state r = random_make(6);
    word_layout layout =
        reference_layout<W>({-900, -100, -20}, {900, 100, 20}, 2, {1, 1, 1}, {8, 8, 8});
    const std::vector<W> none;
    std::vector<W> left = set_random<W>(&r, &layout, {-900, -100, -20}, {-890, -80, 20}, 600);
    std::vector<W> right = set_random<W>(&r, &layout, {800, 0, -20}, {900, 100, 20}, 700);
    std::vector<W> both = left;
    both.insert(both.end(), right.begin(), right.end());
    std::sort(both.begin(), both.end());
    std::vector<W> odd, even; // z alternates
    for (int i = 0; i < 600; ++i) {
        (i % 2 ? odd : even).push_back(word_pack<W>(&layout, {0, i / 40, 5, i % 40 - 20}));
    }
    const std::vector<W> *pairs[][2] = {{&none, &left},  {&left, &none},  {&none, &none},
                                        {&left, &right}, {&right, &left}, {&both, &left},
                                        {&right, &both}, {&odd, &even},   {&even, &odd}};
    for (triple size : {triple{3, 3, 3}, triple{2, 3, 4}, triple{7, 7, 7}, triple{5, 5, 5}}) {
        kernel_shape kernel = kernel_make(size);
        for (auto &p : pairs) {
            if (test_quick() && (&p - pairs + size.x) % 3) {
                continue;
            }
            forms_scene<W> s = forms_scene_make("foreign sets", &layout, &kernel, *p[0], p[1]);
            check_scene(&s, {0, 2}, 5);
        }
    }
}

// ---- windows that do not fit --------------------------------------------------------------------

FORMS_TEST(dense_scenes) {
    const int column = test_quick() ? 300 : 1500;
    word_layout layout = reference_layout<W>({0, 0, 0}, {100, 100, 1500}, 2, {1, 1, 1}, {7, 7, 7});
    // One tile spans lone voxels, then a column that is far longer than a window.
    std::vector<voxel> mixed = forms_box({0, 0, 0}, {40, 0, 0});
    for (const std::vector<voxel> &more :
         {forms_box({41, 1, 0}, {41, 1, column}), forms_box({42, 0, 5}, {80, 2, 5})}) {
        mixed.insert(mixed.end(), more.begin(), more.end());
    }
    const struct {
        const char *name;
        std::vector<voxel> voxels;
    } scenes[] = {
        {"column", forms_box({3, 3, 0}, {3, 3, column})},
        {"columns side by side", forms_box({3, 3, 0}, {4, 4, column})},
        {"block", forms_box({0, 0, 0}, {15, 15, 15}, 1)},
        {"floor", forms_box({0, 0, 7}, {99, 99, 7})},
        {"wall across x", forms_box({7, 0, 0}, {7, 99, 99})},
        {"wall across y", forms_box({0, 7, 0}, {99, 7, 99})},
        {"thin and thick", mixed},
    };
    for (const auto &scene : scenes) {
        for (triple size : {triple{3, 3, 3}, triple{2, 2, 2}, triple{5, 5, 5}, triple{3, 1, 15},
                            triple{4, 4, 4}, triple{15, 3, 1}}) {
            if (test_quick() && (&scene - scenes + size.x) % 3) {
                continue;
            }
            kernel_shape kernel = kernel_make(size);
            forms_scene<W> s = forms_scene_make(scene.name, &layout, &kernel,
                                                forms_words_of<W>(&layout, scene.voxels));
            check_scene(&s, {2});
        }
    }
}

// Large kernels: each window spans several columns.
DEVICE_TEST(gpu_forms_dense_scenes_of_large_kernels) {
    for (int size : {7, 13, 15}) {
        kernel_shape kernel = kernel_cube(size, 1);
        word_layout layout = reference_layout<uint32_t>({0, 0, 0}, {20, 20, 700}, 1, {1, 1, 1},
                                                        kernel_reach(&kernel));
        std::vector<voxel> columns = forms_box({3, 3, 0}, {4, 4, test_quick() ? 20 : 350});
        forms_scene<uint32_t> s = forms_scene_make("columns", &layout, &kernel,
                                                   forms_words_of<uint32_t>(&layout, columns));
        check_scene(&s, {3});
        s.kernel.transposed = true;
        check_scene(&s, {size});
    }
}

// Consecutive outputs spread over the whole source, and outputs crowded in one place of it.
FORMS_TEST(uneven_sets) {
    random_state r = random_make(8);
    word_layout layout = reference_layout<W>({0, 0, 0}, {120, 120, 120}, 1, {1, 1, 1}, {7, 7, 7});
    std::vector<W> dense =
        set_random<W>(&r, &layout, {0, 0, 0}, {120, 120, 120}, test_quick() ? 2000 : 60000);
    std::vector<W> spread, narrow(dense.begin() + 700, dense.begin() + 709);
    for (size_t i = 0; i < dense.size(); i += dense.size() / 300) {
        spread.push_back(dense[i]);
    }
    for (triple size : {triple{3, 3, 3}, triple{2, 2, 2}, triple{5, 5, 5}, triple{9, 9, 9}}) {
        if (test_thinned(3)) { // in the two word widths different sizes
            continue;
        }
        kernel_shape kernel = kernel_make(size);
        forms_scene<W> s = forms_scene_make("few outputs", &layout, &kernel, dense, &spread);
        check_scene(&s, {0, 2});
        s = forms_scene_make("outputs in one place", &layout, &kernel, dense, &narrow);
        check_scene(&s, {0, 2});
        if (size.x < 9) {
            s = forms_scene_make("few sources", &layout, &kernel, spread, &dense);
            check_scene(&s, {0, 2});
        }
    }
}

// 64-bit words: the first output of a tile and its last query are 2^32 apart, or nearly so, which
// is as far as a window of 32-bit distances may reach.
DEVICE_TEST(gpu_forms_windows_of_32_bits) {
    for (triple size : {triple{3, 3, 3}, triple{5, 5, 5}, triple{1, 1, 3}, triple{3, 2, 4}}) {
        kernel_shape kernel = kernel_make(size);
        word_layout layout = reference_layout<uint64_t>({0, 0, 0}, {9, 65000, 65000}, 1, {1, 1, 1},
                                                        kernel_reach(&kernel));
        REQUIRE(layout.shift_x == 32 && layout.shift_y == 16);
        for (int z = 2000 - size.z - 72; z < 2000 + 8; ++z) { // 64: plane_key_margin
            if (test_quick() && ((z % 32 && abs(z - (2000 - size.z)) > 1) || test_thinned(4))) {
                continue;
            }
            int y = 900 - (size.y - 1); // the kernel's rows add up to 2^32
            std::vector<voxel> ends = forms_box({4, 900, 2000}, {4, 901, 2002});
            for (voxel v : {voxel{0, 5, y, z}, voxel{0, 5, y, z - 1}, voxel{0, 5, y - 1, z},
                            voxel{0, 5, y - 1, z + 1}, voxel{0, 4, y, z}, voxel{0, 4, 64999, 64999},
                            voxel{0, 5, 0, 0}}) {
                ends.push_back(v);
            }
            forms_scene<uint64_t> s = forms_scene_make("2^32 apart", &layout, &kernel,
                                                       forms_words_of<uint64_t>(&layout, ends));
            check_scene(&s, {2});
            std::vector<uint64_t> outputs = // the two ends, and nothing before or after
                forms_words_of<uint64_t>(&layout, {{0, 4, 900, 2000}, {0, 5, y, z}});
            s = forms_scene_make("2^32 apart", &layout, &kernel, s.source, &outputs);
            check_scene(&s, {2});
        }
    }
}

// ---- real scans ---------------------------------------------------------------------------------

template <typename W>
void check_scan(const char *name, int size, int64_t pairs) {
    word_layout layout;
    std::vector<W> words = reference_scan<W>(name, 16, &layout);
    REQUIRE(!words.empty());
    kernel_shape kernel = kernel_cube(size, 1);
    forms_scene<W> s = forms_scene_make(name, &layout, &kernel, words);
    forms_wish lists = forms_wish_lists();
    CHECK_EQUAL(forms_pairs(kernel.size, plain_map(&s), &lists), pairs);
    check_scene(&s, {0, size == 3 ? 2 : 3}, 1000);
    lists.pairs_capacity = (int32_t)pairs;
    check_wish(&s, lists);
}

DEVICE_TEST(gpu_forms_real_scans) {
    const char *kitti = "kitti00_000000_5cm.vox32", *lone_star = "lone_star_5cm.vox32";
    NEED_SCANS("kitti00_000000_5cm.vox32", "lone_star_5cm.vox32");
    check_scan<uint32_t>(kitti, 3, 346220);
    if (!test_quick()) {
        check_scan<uint64_t>(kitti, 3, 346220);
        check_scan<uint32_t>(kitti, 5, 847344);
        check_scan<uint64_t>(lone_star, 3, 2533643);
        check_scan<uint32_t>(lone_star, 5, 7126043);
    }
}

// ---- how many places the lists have -------------------------------------------------------------

DEVICE_TEST(gpu_forms_lists_that_do_not_fit) {
    forms_lists_that_do_not_fit(&memory_device, test_quick() ? 8 : 60, check,
                                [](const auto *l) { return layer_build_alone(l); });
}

// ---- lists of many sizes ------------------------------------------------------------------------

// Capacities around whole stretches and bundles, from one to more than a thread block of the scan
// reads at once, and on both sides of the largest set that takes two launches
// (index/map_cube_small.cuh). Sets that are full, nearly so, and all but empty.
FORMS_TEST(list_capacities) {
    const int32_t bundle = map_bundle_stretches * map_stretch, most = map_bundles_most * bundle;
    const int32_t scan = map_scan_threads * map_scan_items * map_stretch;
    const int32_t reads = map_bundle_sums * bundle; // outputs whose sums a lane reads at a time
    REQUIRE(map_bundles(3, most) == map_bundles_most && map_bundles(3, most + 1) == 0);
    REQUIRE(map_bundles(3, 1) == map_bundle_sums && map_bundles(5, 1) == 0);
    random_state r = random_make(20);
    kernel_shape kernel = kernel_cube(3, 1);
    word_layout layout = reference_layout<W>({0, 0, 0}, {90, 90, 90}, 1, {1, 1, 1}, {1, 1, 1});
    for (int32_t capacity :
         {map_stretch - 1, (int32_t)map_stretch, map_stretch + 1, bundle - 1, bundle, bundle + 1,
          reads, reads + 1, most / 2, most / 2 + 1, most - 1, most, most + 1, scan, scan + 1}) {
        for (int32_t count : {0, 1, bundle - 1, bundle + 1, reads + 1, capacity}) {
            if (count > capacity || (test_quick() && count > 9 * bundle) || test_thinned(5)) {
                continue;
            }
            forms_scene<W> s =
                forms_scene_make("list capacities", &layout, &kernel,
                                 set_random<W>(&r, &layout, {0, 0, 0}, {90, 90, 90}, count));
            std::vector<int32_t> map = plain_map(&s);
            int32_t room = capacity - (int32_t)s.outputs.size();
            map.resize(s.outputs.empty() ? 0 : map.size());
            for (int half = 0; half <= 1; ++half) {
                forms_wish lists = forms_wish_lists(0, half != 0);
                check_wish(&s, forms_wish_fit(lists, kernel.size, map), room);
            }
        }
    }
}

// ---- many maps in a launch ----------------------------------------------------------------------

// Scenes of one layout: kernels of all kinds, one set or two, sizes from none.
template <typename W>
std::vector<forms_scene<W>> scenes_make(random_state *r, int many) {
    word_layout layout =
        reference_layout<W>({-20, -20, -20}, {20, 20, 20}, 3, {2, 2, 2}, {14, 14, 14});
    std::vector<forms_scene<W>> scenes;
    for (int i = 0; i < many; ++i) {
        kernel_shape kernel = reference_random_kernel(r, i % 4 == 3 ? 9 : 5, 1, {1, 1, 1});
        kernel.transposed = random_int(r, 0, 2) == 0;
        triple hi = {random_int(r, -15, 20), random_int(r, -15, 20), random_int(r, -15, 20)};
        int most = std::max(100000 / kernel_volume(&kernel), 1);
        std::vector<W> source, outputs;
        source =
            set_random<W>(r, &layout, {-20, -20, -20}, hi, random_int(r, 0, std::min(most, 900)));
        outputs =
            set_random<W>(r, &layout, {-20, -20, -20}, hi, random_int(r, 0, std::min(most, 300)));
        scenes.push_back(forms_scene_make("batch", &layout, &kernel, source,
                                          random_int(r, 0, 1) ? &outputs : nullptr));
    }
    return scenes;
}

// plain: output-stationary maps only, whole and half.
template <typename W>
void check_batch(uint64_t seed, int many, bool plain) {
    random_state r = random_make(seed);
    std::vector<forms_scene<W>> scenes = scenes_make<W>(&r, many);
    std::vector<device_layer<W>> layers;
    std::vector<map_request<W>> requests;
    std::vector<forms_result> wanted;
    for (int i = 0; i < many; ++i) {
        const forms_scene<W> *s = &scenes[(size_t)i];
        forms_wish wish = forms_wish_random(&r, s, plain_map(s));
        wish.pairs = false;
        if (plain) {
            wish = forms_wish_os(map_all, has_half(s) && i % 2);
        }
        int32_t room = random_int(&r, -1, 200);
        wanted.push_back(forms_on_host(s, &wish, room));
        layers.push_back(layer_make(s, &wish, room));
        requests.push_back(forms_request_of(&layers.back().l));
    }
    CHECK_OK(map_build_batch(gpu(), &scenes[0].layout, requests.data(), many, stream_get()));
    for (int i = 0; i < many; ++i) {
        forms_layer<W> *l = &layers[(size_t)i].l;
        check_layer(l, &wanted[(size_t)i], scenes[(size_t)i].name);
        layer_clean(l); // and each by itself
        CHECK_OK(layer_build(&layers[(size_t)i], stream_get()));
        check_layer(l, &wanted[(size_t)i], scenes[(size_t)i].name);
    }
    guarded_finish();
}

DEVICE_TEST(gpu_forms_batches) {
    for (int many : {1, 2, 15, 16, 17, 40}) {
        for (bool plain : {false, true}) {
            if (!test_quick() || many < 3 || many == 17) {
                check_batch<uint32_t>((uint64_t)many, many, plain);
                check_batch<uint64_t>((uint64_t)many + 100, many, plain);
            }
        }
    }
}

void check_untouched(const forms_layer<uint32_t> *l) {
    for (int p = 0; p < forms_parts; ++p) {
        forms_place at = forms_place_of(l, p, 0);
        CHECK(!l->part[p] || device_untouched(l->part[p], 0, at.rows * at.pitch));
    }
}

// One bad request among good ones: nothing is launched, not even the requests before it.
DEVICE_TEST(gpu_forms_batch_refuses) {
    forms_scene<uint32_t> s = forms_scene_small(3, 200);
    forms_wish wish = forms_everything();
    wish.pairs = false;
    wish.threshold = 2;
    device_layer<uint32_t> layer = layer_make(&s, &wish);
    auto refuse = [&](const forms_spoilt *one, bool half, int at) {
        forms_layer<uint32_t> bad = layer.l;
        bad.wish.half = half;
        one->spoil(&bad);
        std::vector<map_request<uint32_t>> requests(20, forms_request_of(&layer.l));
        requests[(size_t)at] = forms_request_of(&bad);
        CHECK_STATUS(map_build_batch(gpu(), &bad.layout, requests.data(), 20, stream_get()),
                     one->code);
    };
    for (int at : {0, 7, 15, 16, 19}) {
        for (const forms_spoilt &one : forms_spoilt_layers) {
            refuse(&one, false, at);
        }
        for (const forms_spoilt &one : forms_spoilt_halves) {
            refuse(&one, true, at);
        }
    }
    map_request<uint32_t> good = forms_request_of(&layer.l);
    CHECK_STATUS(map_build_batch<uint32_t>(gpu(), &s.layout, nullptr, 1, stream_get()),
                 status_null_pointer);
    CHECK_STATUS(map_build_batch<uint32_t>(gpu(), nullptr, &good, 1, stream_get()),
                 status_null_pointer);
    CHECK_STATUS(map_build_batch<uint32_t>(gpu(), &s.layout, &good, -1, stream_get()),
                 status_bad_size);
    CHECK_STATUS(map_build_batch<uint32_t>(nullptr, &s.layout, &good, 1, stream_get()),
                 status_null_pointer);
    CHECK_OK(map_build_batch<uint32_t>(gpu(), &s.layout, nullptr, 0, stream_get()));
    check_untouched(&layer.l);
}

// ---- what is refused ----------------------------------------------------------------------------

DEVICE_TEST(gpu_forms_refuses) {
    forms_refuses(&memory_device, [](const auto *l) { return layer_build_alone(l); });
    forms_scene<uint32_t> s = forms_scene_small(3, 200);
    forms_wish wish = forms_everything();
    wish.pairs_capacity = 200 * 27;
    device_layer<uint32_t> good = layer_make(&s, &wish);
    CHECK_STATUS(map_build_forms<uint32_t>(&s.layout, &s.kernel, good.l.source, good.l.outputs,
                                           nullptr, stream_get()),
                 status_null_pointer);
    const map_forms mixed = forms_of(&good.l);
    status kind = map_build_forms<uint32_t, map_kind_os>(&s.layout, &s.kernel, good.l.source,
                                                         good.l.outputs, &mixed, stream_get());
    CHECK_STATUS(kind, status_unsupported);
    map_request<uint32_t> compact = forms_request_of(&good.l);
    compact.forms.compact = good.l.part[forms_os];
    const map_lists pairs = forms_pairs_of(&good.l);
    CHECK_STATUS(map_build_lists(&s.layout, &compact, &pairs, good.scratch, good.scratch_bytes,
                                 stream_get()),
                 status_unsupported);
    check_untouched(&good.l);
}

// Scratch that is one byte short, null, or not aligned.
DEVICE_TEST(gpu_forms_refuses_scratch) {
    for (int size : {3, 7, 1}) {
        forms_scene<uint32_t> s = forms_scene_small(size, 100);
        forms_wish wish = forms_everything();
        wish.pairs_capacity = 5000;
        device_layer<uint32_t> good = layer_make(&s, &wish), bad = good;
        bad.scratch_bytes = good.scratch_bytes - 1;
        status refused = layer_build(&bad, stream_get());
        CHECK_STATUS(refused, status_workspace);
        CHECK_EQUAL(refused.detail, (int64_t)good.scratch_bytes);
        bad = good;
        bad.scratch = nullptr;
        CHECK_STATUS(layer_build(&bad, stream_get()), status_null_pointer);
        bad.scratch = good.scratch + 64;
        CHECK_STATUS(layer_build(&bad, stream_get()), status_alignment);
        check_untouched(&good.l);
        CHECK(device_untouched(good.scratch, 0, (int64_t)good.scratch_bytes));
        size_t bytes = 0;
        CHECK_STATUS(map_lists_workspace(nullptr, 100, &bytes), status_null_pointer);
        CHECK_STATUS(map_lists_workspace(&s.kernel, 100, nullptr), status_null_pointer);
        CHECK_STATUS(map_lists_workspace(&s.kernel, 0, &bytes), status_bad_size);
        CHECK_STATUS(map_lists_workspace(&s.kernel, INT32_MAX, &bytes), status_bad_size);
        guarded_finish();
    }
}

// ---- graphs and repeats -------------------------------------------------------------------------

enum { graph_capacity = 1500 };

enum builder {
    builder_map,
    builder_half,
    builder_forms,
    builder_pairs,
    builder_lists,
    builder_batch
};

template <typename W>
status layers_build(builder b, const std::vector<device_layer<W>> *layers, cudaStream_t stream) {
    const forms_layer<W> *l = &layers->front().l;
    if (b == builder_map) {
        return map_build<W>(&l->layout, &l->kernel, l->source, l->outputs, l->part[forms_os],
                            stream);
    }
    if (b != builder_batch) {
        return layer_build(&layers->front(), stream);
    }
    std::vector<map_request<W>> requests;
    for (const device_layer<W> &layer : *layers) {
        requests.push_back(forms_request_of(&layer.l));
    }
    return map_build_batch(gpu(), &l->layout, requests.data(), (int)requests.size(), stream);
}

// The scenes of one replay: `many` scenes of `voxels` voxels, with kernels from number `first` on.
template <typename W>
std::vector<forms_scene<W>> replay_scenes(random_state *r, int first, int many, int voxels) {
    const kernel_shape kernels[] = {kernel_cube(3, 1), kernel_cube(5, 1), kernel_make({7, 2, 9}),
                                    kernel_make({2, 2, 2}, {1, 1, 1}, {1, 1, 1}, true)};
    word_layout layout = reference_layout<W>({-9, -9, -9}, {9, 9, 9}, 2, {1, 1, 1}, {8, 8, 8});
    std::vector<forms_scene<W>> scenes;
    for (int i = 0; i < many; ++i) {
        std::vector<W> a, b;
        a = set_random<W>(r, &layout, {-9, -9, -9}, {9, 9, 9}, voxels);
        b = set_random<W>(r, &layout, {-9, -9, -9}, {9, 9, 9}, voxels);
        scenes.push_back(forms_scene_make("replay", &layout, &kernels[(first + i) % 4], a,
                                          i % 3 == 1 ? &b : nullptr));
    }
    return scenes;
}

// The lists have too few places for some of the scenes.
forms_wish replay_wish(builder b, int i, const kernel_shape *kernel) {
    int32_t places = 75 * kernel_volume(kernel);
    if (b == builder_map || (b == builder_batch && i % 2)) {
        return forms_wish_os();
    }
    if (b == builder_half) {
        return forms_wish_os(map_all, true);
    }
    if (b == builder_lists) {
        forms_wish lists = forms_wish_lists();
        lists.pairs_capacity = 2 * places;
        return lists;
    }
    forms_wish wish = forms_everything();
    wish.pairs = b == builder_pairs;
    wish.threshold = 2;
    wish.pairs_capacity = places;
    return wish;
}

template <typename W>
void check_replays(builder b, int first, int many, int32_t capacity = graph_capacity) {
    random_state r = random_make(13);
    std::vector<forms_scene<W>> scenes = replay_scenes<W>(&r, first, many, 700);
    std::vector<device_layer<W>> layers;
    for (int i = 0; i < many; ++i) {
        forms_wish wish = replay_wish(b, i, &scenes[(size_t)i].kernel);
        layers.push_back(layer_make(&scenes[(size_t)i], &wish, capacity - 700));
    }
    CHECK_OK(layers_build(b, &layers, stream_get())); // kernels are loaded at their first launch
    CHECK(expect_no_cuda_error());
    cudaGraphExec_t replay = stream_capture(
        [&](cudaStream_t stream) { CHECK_OK(layers_build(b, &layers, stream)); }, 1, false);
    REQUIRE(replay != nullptr);
    for (int voxels : {700, 0, 1, (int)graph_capacity, 33, 0, 1200}) {
        if (test_thinned(3)) {
            continue;
        }
        scenes = replay_scenes<W>(&r, first, many, voxels);
        for (int i = 0; i < many; ++i) {
            layer_refill(&layers[(size_t)i].l, &scenes[(size_t)i]);
        }
        for (int run = 0; run < 2; ++run) { // the second on the results of the first
            CUDA_CHECK(cudaGraphLaunch(replay, stream_get()));
        }
        for (int i = 0; i < many; ++i) {
            forms_wish wish = layers[(size_t)i].l.wish;
            forms_result wanted = forms_on_host(&scenes[(size_t)i], &wish, capacity - voxels);
            check_layer(&layers[(size_t)i].l, &wanted, scenes[(size_t)i].name);
        }
    }
    CUDA_CHECK(cudaGraphExecDestroy(replay));
    guarded_finish();
}

DEVICE_TEST(gpu_forms_graphs) {
    for (int kernel = 0; kernel < 4; ++kernel) {
        check_replays<uint32_t>(builder_map, kernel, 1);
        check_replays<uint32_t>(builder_forms, kernel, 1);
        check_replays<uint32_t>(builder_pairs, kernel, 1);
        check_replays<uint64_t>(builder_pairs, kernel, 1);
    }
    for (int kernel = 0; kernel < 2; ++kernel) { // cubes
        check_replays<uint32_t>(builder_half, kernel, 1);
        check_replays<uint64_t>(builder_half, kernel, 1);
        for (int32_t capacity : {(int)graph_capacity, 50000, 300000}) { // both paths
            check_replays<uint32_t>(builder_lists, kernel, 1, capacity);
            check_replays<uint64_t>(builder_lists, kernel, 1, capacity);
        }
    }
    check_replays<uint32_t>(builder_batch, 0, 18);
    check_replays<uint64_t>(builder_batch, 0, 5);
}

// ---- large maps ---------------------------------------------------------------------------------

// Columns times the capacity pass 2^31.
DEVICE_TEST(gpu_forms_ws_beyond_32_bits) {
    const int32_t rows = 700000;
    kernel_shape kernel = kernel_cube(15, 1);
    const int64_t volume = kernel_volume(&kernel);
    size_t free_bytes = 0, all_bytes = 0;
    CUDA_CHECK(cudaMemGetInfo(&free_bytes, &all_bytes));
    if (test_quick() || free_bytes < (size_t)(rows * volume * 4) + ((size_t)1 << 30)) {
        SKIP("takes 10 GB of device memory and is not quick");
    }
    word_layout layout =
        reference_layout<uint32_t>({0, 0, 0}, {199, 199, 99}, 1, {1, 1, 1}, kernel_reach(&kernel));
    random_state r = random_make(15);
    std::vector<uint32_t> words =
        set_random<uint32_t>(&r, &layout, {0, 0, 0}, {199, 199, 99}, rows);
    REQUIRE(words.size() == (size_t)rows);
    voxel_set<uint32_t> set = set_upload(words);
    map_forms forms = {};
    forms.ws = device_new<int32_t>(rows * volume);
    REQUIRE_OK(map_build_forms<uint32_t>(&layout, &kernel, set, set, &forms, stream_get()));
    CHECK(expect_no_cuda_error());
    const search_walk<uint32_t> walk = search_walk_make<uint32_t>(&layout, &kernel);
    std::vector<int32_t> got((size_t)volume), wanted((size_t)volume);
    for (int32_t row : {0, 1, 31, 32, rows / 2, rows - 33, rows - 2, rows - 1}) {
        CUDA_CHECK(cudaMemcpy2D(got.data(), 4, forms.ws + row, (size_t)rows * 4, 4, (size_t)volume,
                                cudaMemcpyDeviceToHost));
        search_voxel(walk, words.data(), rows, words[(size_t)row], wanted.data());
        CHECK(got == wanted);
    }
}

// ---- kernels of one's own -----------------------------------------------------------------------

// A user's kernel around search_block, which writes tiles to the forms.
template <typename W>
__global__ void __launch_bounds__(search_threads)
    forms_of_ones_own(search_walk<W> walk, search_shape shape, search_choice choice,
                      search_sets<W> sets, map_forms forms, int32_t capacity) {
    extern __shared__ int4 forms_shared[];
    int first = (int)blockIdx.x * shape.rows, rows = min(sets.total - first, shape.rows);
    int columns = forms.half ? walk.volume / 2 : walk.volume;
    for (int pass = 0; pass < shape.passes; ++pass) {
        int plane = pass * shape.planes, planes = min(walk.size_x - plane, shape.planes);
        plane = walk.transposed ? walk.size_x - plane - planes : plane; // offsets ascending
        search_tile tile = search_block(
            walk, shape, sets, {first, rows, plane, planes, forms.half ? &choice : nullptr},
            forms_shared);
        if (forms.os) {
            map_write_os(tile, walk.volume, forms.os);
        }
        if (forms.ws) {
            map_write_ws(tile, columns, capacity, forms.ws);
        }
        map_write_mask(tile, columns, map_mask_words(walk.volume), forms.mask);
        __syncthreads(); // the next search overwrites the tile
    }
}

template <typename W>
void check_ones_own(const forms_scene<W> *s, bool half, bool odd, int32_t room) {
    forms_wish wish = forms_everything();
    wish.os = !half;
    wish.pairs = false;
    wish.half = half;
    wish.threshold = map_all;
    forms_result wanted = forms_on_host(s, &wish, room);
    device_layer<W> d = layer_make(s, &wish, room);
    CHECK_OK(layer_build(&d, stream_get()));
    check_layer(&d.l, &wanted, s->name);
    layer_clean(&d.l);
    search_walk<W> walk = search_walk_make<W>(&s->layout, &s->kernel);
    search_shape shape = search_shape_choose(s->kernel.size, kernel_step(&s->kernel), odd);
    search_choice choice = search_choose(&s->kernel, map_columns(&s->kernel, half), map_all);
    search_sets<W> sets = {d.l.source.words, d.l.outputs.words, (int)s->source.size(), d.l.count};
    forms_of_ones_own<W><<<(unsigned)ceil_div(d.l.count, shape.rows), search_threads,
                           (size_t)search_block_bytes(shape), stream_get()>>>(
        walk, shape, choice, sets, forms_of(&d.l), d.l.outputs.capacity);
    CHECK(expect_no_cuda_error());
    check_layer(&d.l, &wanted, s->name);
    guarded_finish();
}

FORMS_TEST(in_kernels_of_ones_own) {
    random_state r = random_make(16);
    for (triple size : {triple{3, 3, 3}, triple{2, 2, 2}, triple{5, 5, 5}, triple{1, 1, 1},
                        triple{4, 3, 2}, triple{7, 7, 7}, triple{9, 15, 8}, triple{1, 5, 3}}) {
        for (int kind = 0; kind < forms_kinds; ++kind) {
            forms_scene<W> s = forms_scene_random<W>(&r, (forms_kind)kind, kernel_make(size));
            for (bool odd : {false, true}) {
                check_ones_own(&s, false, odd, 3);
                if (has_half(&s)) {
                    check_ones_own(&s, true, odd, 3);
                }
            }
        }
    }
}

} // namespace
