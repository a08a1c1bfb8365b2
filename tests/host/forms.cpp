// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/host/forms.cpp: the forms of a kernel map (map.h) equal forms derived from a hash table of
// coordinates.
#include "../support/reference_forms.h"

using namespace spira;

// A scene against its plain map; frees all buffers of the test.
template <typename W>
static void check_wish(const forms_scene<W> *s, const std::vector<int32_t> &map, forms_wish wish,
                       int32_t room = 0) {
    forms_result got = forms_on_host(s, &wish, room);
    forms_result wanted = forms_expected(s, map, room, &wish);
    CHECK_EQUAL(forms_difference(&got, &wanted, s->name), "");
    guarded_finish();
}

// All forms for the thresholds at both ends and in the middle, and the half map where there is one.
template <typename W>
static int64_t check_scene(const forms_scene<W> *s, int32_t room = 0) {
    std::vector<int32_t> map = forms_map(s);
    int top = forms_norm_max(s->kernel.size);
    bool symmetric = s->same && !s->kernel.transposed && kernel_is_odd(&s->kernel);
    for (int half = 0; half <= (int)symmetric; ++half) {
        for (int t : {0, 1, (top + 1) / 2, top + 1, (int)map_all}) {
            forms_wish wish = forms_everything();
            wish.threshold = t;
            wish.half = half;
            check_wish(s, map, forms_wish_fit(wish, s->kernel.size, map, half), room);
        }
    }
    return (int64_t)map.size() - std::count(map.begin(), map.end(), -1);
}

// ---- random scenes ------------------------------------------------------------------------------

static const auto check = [](const auto *s, const std::vector<int32_t> &map, forms_wish wish,
                             int32_t room) { check_wish(s, map, wish, room); };

TEST(forms_random_scenes_32) {
    forms_random_scenes<uint32_t>(1, test_quick() ? 40 : 400, check);
}

TEST(forms_random_scenes_64) {
    forms_random_scenes<uint64_t>(2, test_quick() ? 40 : 400, check);
}

// ---- kernels ------------------------------------------------------------------------------------

// Every size of an axis, odd and even, the other axes small.
template <typename W>
static void check_axes() {
    random_state r = random_make(3);
    for (int size = 1; size <= kernel_size_max; ++size) {
        for (triple t : {triple{size, 1, 2}, triple{3, size, 1}, triple{1, 3, size}}) {
            kernel_shape kernel = {t, {1, 1, 1}, {1, 1, 1}, false};
            for (forms_kind kind : {forms_submanifold, forms_foreign}) {
                forms_scene<W> s = forms_scene_random<W>(&r, kind, kernel);
                check_scene(&s, random_int(&r, 0, 3));
            }
        }
    }
}

TEST(forms_every_size_of_an_axis) {
    check_axes<uint32_t>();
    check_axes<uint64_t>();
}

// Every threshold from 0 to one beyond the largest norm, os and lists apart; which offsets are
// whose.
TEST(forms_every_threshold) {
    random_state r = random_make(4);
    for (triple size : {triple{3, 3, 3}, triple{2, 2, 2}, triple{5, 1, 3}, triple{4, 3, 2},
                        triple{1, 1, 1}, triple{5, 5, 5}}) {
        for (int kind = 0; kind < forms_kinds; ++kind) {
            kernel_shape kernel = {size, {1, 1, 1}, {1, 1, 1}, false};
            forms_scene<uint32_t> s = forms_scene_random<uint32_t>(&r, (forms_kind)kind, kernel);
            const std::vector<int32_t> map = forms_map(&s);
            for (int t = 0; t <= forms_norm_max(size) + 1; ++t) {
                const forms_wish os = forms_wish_os(t), lists = forms_wish_lists(t);
                check_wish(&s, map, forms_wish_fit(lists, size, map));
                check_wish(&s, map, os, 2);
                const std::vector<int> listed = forms_offsets(size, &os, false);
                const int volume = kernel_volume(&kernel);
                CHECK_EQUAL(map_os_columns(&s.kernel, t, false), volume - (int)listed.size());
                for (int k = 0; k < volume; ++k) {
                    CHECK_EQUAL(map_lists_have(&s.kernel, t, false, k),
                                std::binary_search(listed.begin(), listed.end(), k));
                }
            }
        }
    }
}

// Half maps of every kind of odd kernel, as os and as lists.
TEST(forms_half_maps) {
    random_state r = random_make(5);
    for (triple size : {triple{3, 3, 3}, triple{5, 5, 5}, triple{1, 3, 7}, triple{1, 1, 1},
                        triple{7, 7, 7}, triple{3, 1, 1}}) {
        for (triple dilation : {triple{1, 1, 1}, triple{2, 1, 3}}) {
            forms_scene<uint64_t> s = forms_scene_random<uint64_t>(
                &r, forms_submanifold, {size, dilation, {1, 1, 1}, false});
            const std::vector<int32_t> map = forms_map(&s);
            CHECK_EQUAL(map_columns(&s.kernel, true), kernel_volume(&s.kernel) / 2);
            check_wish(&s, map, forms_wish_os(map_all, true));
            check_wish(&s, map, forms_wish_fit(forms_wish_lists(0, true), size, map));
        }
    }
}

// ---- sizes, ends, strides -----------------------------------------------------------------------

TEST(forms_sizes_around_mask_tiles_and_chunks) {
    random_state r = random_make(6);
    kernel_shape kernel = kernel_cube(3, 1);
    word_layout l = reference_layout<uint32_t>({-9, -9, -9}, {9, 9, 9}, 2, {1, 1, 1}, {1, 1, 1});
    for (int32_t n : {0, 1, 2, 31, 32, 33, 63, 64, 65, 1023, 1024, 1025, 2049}) {
        std::vector<uint32_t> words = set_random<uint32_t>(&r, &l, {-9, -9, -9}, {9, 9, 9}, n);
        CHECK_EQUAL(words.size(), n);
        for (int32_t room : {0, 1, 40}) {
            forms_scene<uint32_t> s = forms_scene_make("sizes", &l, &kernel, words);
            check_scene(&s, room);
        }
    }
    std::vector<uint32_t> none, some = set_random<uint32_t>(&r, &l, l.lo, l.hi, 50);
    forms_scene<uint32_t> s = forms_scene_make("no sources", &l, &kernel, none, &some);
    CHECK_EQUAL(check_scene(&s), 0);
    s = forms_scene_make("no outputs", &l, &kernel, some, &none);
    CHECK_EQUAL(check_scene(&s, 3), 0);
}

TEST(forms_field_ends) {
    const auto scene = [](const auto *s) { check_scene(s); };
    for (int batches : {1, 2, 5}) {
        forms_field_ends<uint32_t>(batches, {3, 3, 3}, {1, 1, 1}, scene);
        forms_field_ends<uint64_t>(batches, {5, 3, 7}, {1, 1, 1}, scene);
    }
    forms_field_ends<uint32_t>(1, {15, 1, 15}, {1, 1, 1}, scene);
}

// No two voxels merge: there are as many outputs as inputs, but the layer is not submanifold.
TEST(forms_strided_with_as_many_outputs) {
    word_layout l = reference_layout<uint32_t>({0, 0, 0}, {63, 63, 63}, 1, {2, 2, 2}, {2, 2, 2});
    random_state r = random_make(7);
    std::vector<voxel> voxels;
    for (int i = 0; i < 300; ++i) {
        voxels.push_back({0, i / 64 * 2 + random_int(&r, 0, 1), i / 8 % 8 * 2 + 1, i % 8 * 2});
    }
    std::vector<uint32_t> fine = forms_words_of<uint32_t>(&l, voxels);
    std::vector<uint32_t> coarse = forms_floored<uint32_t>(&l, fine, {2, 2, 2});
    REQUIRE(fine.size() == coarse.size());
    for (int size : {2, 3}) {
        kernel_shape kernel = kernel_cube(size, 1);
        forms_scene<uint32_t> s = forms_scene_make("strided", &l, &kernel, fine, &coarse);
        CHECK(check_scene(&s) > 0);
        forms_wish wish = forms_wish_os(map_all, true);
        forms_layer<uint32_t> layer = forms_layer_make(&s, &wish, 0, &memory_host);
        CHECK_STATUS(forms_build_host(&layer), status_unsupported); // equal counts are not enough
    }
}

// ---- how many places the lists have -------------------------------------------------------------

TEST(forms_lists_that_do_not_fit) {
    forms_lists_that_do_not_fit(&memory_host, 40, check,
                                [](const auto *l) { return forms_build_host(l); });
}

// ---- real scans ---------------------------------------------------------------------------------

TEST(forms_of_kitti) {
    word_layout l;
    std::vector<uint32_t> words = reference_scan<uint32_t>("kitti00_000000_5cm.vox32", 16, &l);
    if (words.empty()) {
        SKIP("the .vox32 files of data/ are not here");
    }
    kernel_shape kernel = kernel_cube(3, 1);
    forms_scene<uint32_t> s = forms_scene_make("kitti", &l, &kernel, words);
    std::vector<int32_t> map = forms_map(&s);
    forms_wish wish = forms_everything();
    CHECK_EQUAL(forms_pairs(kernel.size, map, &wish), 346220);
    check_wish(&s, map, forms_wish_fit(wish, kernel.size, map));
    wish.threshold = 2;
    check_wish(&s, map, forms_wish_fit(wish, kernel.size, map), 100);
    wish.threshold = 0;
    wish.half = true;
    CHECK_EQUAL(forms_pairs(kernel.size, map, &wish), (346220 - (int64_t)words.size()) / 2);
    check_wish(&s, map, forms_wish_fit(wish, kernel.size, map));
}

// ---- errors -------------------------------------------------------------------------------------

TEST(forms_refuses) {
    forms_refuses(&memory_host, [](const auto *l) { return forms_build_host(l); });
    const forms_scene<uint32_t> s = forms_scene_small(3, 80);
    forms_wish wish = forms_wish_os(map_all, true);
    const forms_layer<uint32_t> half = forms_layer_make(&s, &wish, 0, &memory_host);
    CHECK_OK(forms_build_host(&half)); // of a layer that has the symmetry
    wish = forms_everything();
    wish.pairs_capacity = 80 * 27;
    const forms_layer<uint32_t> good = forms_layer_make(&s, &wish, 0, &memory_host);
    map_forms none = forms_of(&good);
    CHECK_STATUS(
        map_build_forms_host<uint32_t>(&s.layout, &s.kernel, good.source, good.outputs, nullptr),
        status_null_pointer);
    CHECK_STATUS(
        map_build_forms_host<uint32_t>(nullptr, &s.kernel, good.source, good.outputs, &none),
        status_null_pointer);
    CHECK_STATUS(
        map_build_forms_host<uint32_t>(&s.layout, nullptr, good.source, good.outputs, &none),
        status_null_pointer);
    none = {};
    CHECK_OK(
        map_build_forms_host<uint32_t>(&s.layout, &s.kernel, good.source, good.outputs, &none));
    CHECK_OK(forms_build_host(&good));
}

TEST(forms_kinds) {
    int32_t os[1], compact[1];
    uint32_t mask[1];
    device_status trouble = {};
    map_forms f = map_forms_os(os);
    CHECK_EQUAL(map_kind_of(&f), (unsigned)map_kind_os);
    f.half = true;
    CHECK_EQUAL(map_kind_of(&f), (unsigned)map_kind_half);
    f.mask = mask;
    CHECK_EQUAL(map_kind_of(&f), (unsigned)map_kind_mixed);
    CHECK_STATUS(map_kinds_check(&f, map_kinds_all & ~map_kind_mixed), status_unsupported);
    CHECK_OK(map_kinds_check(&f, map_kind_mixed));
    f = map_forms_os(os);
    f.threshold = 3; // not all offsets
    CHECK_EQUAL(map_kind_of(&f), (unsigned)map_kind_mixed);
    f = map_forms_compact(compact, &trouble);
    CHECK_EQUAL(map_kind_of(&f), (unsigned)map_kind_compact);
    f = {};
    CHECK_EQUAL(map_kind_of(&f), (unsigned)map_kind_mixed);
}

// ---- the test, tested ---------------------------------------------------------------------------

TEST(forms_planted_errors_are_found) {
    random_state r = random_make(11);
    forms_scene<uint32_t> s = forms_scene_small(3, 300), bad = s;
    const std::vector<int32_t> map = forms_map(&s);
    forms_wish wish = forms_everything();
    wish.threshold = 2;
    wish = forms_wish_fit(wish, s.kernel.size, map, 1);
    forms_result good = forms_on_host(&s, &wish, 5);
    forms_result wanted = forms_expected(&s, map, 5, &wish);
    REQUIRE(CHECK_EQUAL(forms_difference(&good, &wanted, ""), ""));
    for (int p = 0; p < forms_parts; ++p) { // a value of each part: the first, any, and the last
        size_t size = good.part[p].size();
        for (size_t at : {(size_t)0, (size_t)random_int(&r, 0, (int)size - 1), size - 1}) {
            forms_result one = good;
            one.part[p][at] ^= 1;
            CHECK(*forms_difference(&one, &wanted, ""));
        }
    }
    forms_result one = good;
    one.trouble.needed++;
    CHECK(*forms_difference(&one, &wanted, ""));
    // Offsets the wrong way round, a wrong threshold, a voxel that is somewhere else.
    bad.kernel.transposed = true;
    one = forms_on_host(&bad, &wish, 5);
    CHECK(*forms_difference(&one, &wanted, ""));
    forms_wish other = forms_wish_fit(wish, s.kernel.size, map, 1);
    other.threshold = 1;
    one = forms_on_host(&s, &other, 5);
    CHECK(*forms_difference(&one, &wanted, ""));
    bad = s;
    bad.source[150] = bad.outputs[150] = (bad.source[150] + bad.source[151]) / 2;
    if (bad.source[150] != s.source[150]) {
        one = forms_on_host(&bad, &wish, 5);
        CHECK(*forms_difference(&one, &wanted, ""));
    }
}
