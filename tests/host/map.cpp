// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/host/map.cpp: map.h.
#include "../support/downsample.h"

#include "../../spira/map.h"

using namespace spira;

static int64_t pairs_of(const int32_t *map, int64_t entries) {
    return entries - std::count(map, map + entries, -1);
}

// The pair counts of a real scan, exact, and its map against the hash table for every tap.
static void check_scan(const char *name, int64_t pairs_3, int64_t pairs_5) {
    word_layout l;
    std::vector<uint32_t> words = reference_scan<uint32_t>(name, 16, &l);
    if (words.empty()) {
        SKIP("the .vox32 files of data/ are not here");
    }
    int32_t count = (int32_t)words.size();
    for (int size : {3, 5}) {
        kernel_shape k = kernel_cube(size, 1);
        int volume = kernel_volume(&k);
        voxel_set<uint32_t> set = {words.data(), &count, count};
        int32_t *map = guarded_new<int32_t>((int64_t)count * volume);
        REQUIRE_OK(map_build_host(&l, &k, set, set, map));
        std::vector<int32_t> pairs((size_t)volume), mirrored((size_t)volume);
        REQUIRE_OK(map_count_host(map, volume, count, pairs.data()));
        int64_t total = 0;
        for (int i = 0; i < volume; ++i) {
            total += pairs[(size_t)i];
            CHECK_EQUAL(pairs[(size_t)i], pairs[(size_t)(volume - 1 - i)]);
        }
        CHECK_EQUAL(total, size == 3 ? pairs_3 : pairs_5);
        CHECK_EQUAL(pairs[(size_t)volume / 2], count); // every voxel is its own centre
        if (size == 3) {
            std::vector<int32_t> expected((size_t)count * (size_t)volume);
            reference_map(&l, &k, words.data(), count, words.data(), count, expected.data());
            CHECK(std::equal(expected.begin(), expected.end(), map));
        }
    }
}

TEST(map_pairs_of_kitti) {
    check_scan("kitti00_000000_5cm.vox32", 346220, 847344);
}

TEST(map_pairs_of_lone_star) {
    check_scan("lone_star_5cm.vox32", 2533643, 7126043);
}

// A random fine set and the set that it is floored to.
struct two_levels {
    word_layout layout;
    std::vector<uint32_t> fine, coarse;
    int32_t fine_count, coarse_count;
    voxel_set<uint32_t> fine_set() {
        return {fine.data(), &fine_count, fine_count};
    }
    voxel_set<uint32_t> coarse_set() {
        return {coarse.data(), &coarse_count, coarse_count};
    }
};

static two_levels levels_make(random_state *r, int32_t wanted, triple stride, triple reach) {
    const triple lo = {-20, -9, 3}, hi = {12, 15, 20};
    const word_layout layout = reference_layout<uint32_t>(lo, hi, 2, stride, reach);
    const std::vector<uint32_t> fine = set_random<uint32_t>(r, &layout, lo, hi, wanted);
    const int32_t count = (int32_t)fine.size();
    const set_outcome<uint32_t> coarse =
        downsample_on_host(&layout, fine, count, {}, stride, count);
    return {layout, fine, coarse.words, count, coarse.count};
}

// The map of an inverse convolution holds the pairs of the forward one, turned around.
TEST(map_transposed_is_the_forward_map_reversed) {
    random_state r = random_make(2);
    struct {
        triple size, dilation, up;
    } const cases[] = {
        {{2, 2, 2}, {1, 1, 1}, {2, 2, 2}}, {{3, 3, 3}, {1, 1, 1}, {2, 2, 2}},
        {{4, 2, 3}, {1, 1, 1}, {4, 2, 1}}, {{3, 3, 3}, {2, 2, 2}, {2, 2, 2}},
        {{1, 1, 3}, {1, 1, 1}, {1, 1, 2}}, {{5, 3, 2}, {1, 2, 3}, {3, 1, 6}},
    };
    for (const auto &c : cases) {
        kernel_shape k = {c.size, c.dilation, {1, 1, 1}, false}, back = k;
        back.transposed = true;
        two_levels t = levels_make(&r, 2000, c.up, kernel_reach(&k));
        int64_t volume = kernel_volume(&k);
        int32_t *map = guarded_new<int32_t>(t.coarse_count * volume);
        int32_t *inverse = guarded_new<int32_t>(t.fine_count * volume);
        REQUIRE_OK(map_build_host(&t.layout, &k, t.fine_set(), t.coarse_set(), map));
        REQUIRE_OK(map_build_host(&t.layout, &back, t.coarse_set(), t.fine_set(), inverse));
        std::vector<int32_t> reversed((size_t)(t.fine_count * volume), -1);
        for (int64_t i = 0; i < t.coarse_count * volume; ++i) {
            if (map[i] >= 0) {
                reversed[(size_t)(map[i] * volume + i % volume)] = (int32_t)(i / volume);
            }
        }
        CHECK(std::equal(reversed.begin(), reversed.end(), inverse));
        int64_t pairs = pairs_of(map, t.coarse_count * volume);
        CHECK_EQUAL(pairs, pairs_of(inverse, t.fine_count * volume));
        CHECK(pairs > 500);
    }
}

TEST(map_both_words_and_sizes_around_the_chunk) {
    random_state r = random_make(4);
    kernel_shape k = kernel_cube(3, 1);
    for (int32_t size : {0, 1, 2, 1023, 1024, 1025, 2049}) {
        word_layout l =
            reference_layout<uint32_t>({-9, -9, -9}, {9, 9, 9}, 2, {1, 1, 1}, {1, 1, 1});
        word_layout wide = word_widen(l);
        int32_t capacity = size + 3, count = size;
        uint32_t *words = guarded_new<uint32_t>(capacity);
        uint64_t *wide_words = guarded_new<uint64_t>(capacity);
        CHECK_EQUAL(reference_random_set(&r, &l, {-9, -9, -9}, {9, 9, 9}, {1, 1, 1}, size, words),
                    size);
        for (int32_t i = 0; i < capacity; ++i) { // padding behind the count
            words[i] = i < size ? words[i] : word_none<uint32_t>();
            wide_words[i] = i < size ? words[i] : word_none<uint64_t>();
        }
        voxel_set<uint32_t> set = {words, &count, capacity};
        voxel_set<uint64_t> wide_set = {wide_words, &count, capacity};
        int32_t *map = guarded_new<int32_t>((int64_t)capacity * 27);
        int32_t *wide_map = guarded_new<int32_t>((int64_t)capacity * 27);
        REQUIRE_OK(map_build_host(&l, &k, set, set, map));
        REQUIRE_OK(map_build_host(&wide, &k, wide_set, wide_set, wide_map));
        std::vector<int32_t> expected((size_t)size * 27);
        reference_map(&l, &k, words, size, words, size, expected.data());
        CHECK(std::equal(expected.begin(), expected.end(), map));
        CHECK(std::equal(expected.begin(), expected.end(), wide_map));
        CHECK(guarded_untouched(map, (int64_t)size * 27, (int64_t)capacity * 27));
    }
}

TEST(map_count_counts) {
    const int32_t map[] = {0, -1, 5, -1, -1, 2, 3, -1, 0};
    int32_t *pairs = guarded_new<int32_t>(3);
    REQUIRE_OK(map_count_host(map, 3, 3, pairs));
    CHECK(pairs[0] == 2 && pairs[1] == 0 && pairs[2] == 3);
    REQUIRE_OK(map_count_host(map, 3, 0, pairs));
    CHECK(pairs[0] == 0 && pairs[1] == 0 && pairs[2] == 0);
    CHECK_STATUS(map_count_host(nullptr, 3, 3, pairs), status_null_pointer);
    CHECK_STATUS(map_count_host(map, 3, 3, nullptr), status_null_pointer);
    CHECK_STATUS(map_count_host(map, 0, 3, pairs), status_bad_size);
}

// Negative counts: nothing is written.
TEST(map_of_negative_counts) {
    random_state r = random_make(8);
    two_levels t = levels_make(&r, 100, {1, 1, 1}, {1, 1, 1});
    const kernel_shape kernel = kernel_cube(3, 1);
    for (int32_t count : {-1, -5, -1000, INT32_MIN}) {
        voxel_set<uint32_t> set = t.fine_set(), none = set;
        none.count = &count;
        const int64_t rows = set.capacity;
        map_forms forms = map_forms_os(guarded_new<int32_t>(27 * rows));
        forms.ws = guarded_new<int32_t>(27 * rows);
        forms.mask = guarded_new<uint32_t>(rows);
        int32_t *map = guarded_new<int32_t>(27 * rows), *pairs = guarded_new<int32_t>(28);
        device_status trouble = {};
        CHECK_OK(map_build_host(&t.layout, &kernel, set, none, map));
        CHECK_OK(map_build_forms_host(&t.layout, &kernel, set, none, &forms));
        CHECK(guarded_untouched(map, 0, 27 * rows) && guarded_untouched(forms.os, 0, 27 * rows));
        CHECK(guarded_untouched(forms.ws, 0, 27 * rows));
        CHECK(guarded_untouched(forms.mask, 0, rows));
        forms = {};
        const map_lists lists = {pairs, guarded_new<int32_t>(1), guarded_new<int32_t>(1), 1};
        const map_request<uint32_t> request = {kernel, set, none,
                                               map_forms_none(0, false, &trouble)};
        CHECK_OK(map_build_lists_host(&t.layout, &request, &lists));
        CHECK(std::count(pairs, pairs + 28, 0) == 28 && trouble.flags == 0);
        CHECK_OK(map_build_host(&t.layout, &kernel, none, set, map)); // and no sources
        CHECK(std::count(map, map + 27 * *set.count, -1) == 27 * *set.count);
    }
}

TEST(map_refuses) {
    random_state r = random_make(6);
    two_levels t = levels_make(&r, 100, {1, 1, 1}, {1, 1, 1});
    kernel_shape good = kernel_cube(3, 1), k = good;
    voxel_set<uint32_t> set = t.fine_set(), bad;
    int32_t *map = guarded_new<int32_t>((int64_t)t.fine_count * 27);
    word_layout wide = word_widen(t.layout);
    CHECK_STATUS(map_build_host(nullptr, &k, set, set, map), status_null_pointer);
    CHECK_STATUS(map_build_host(&wide, &k, set, set, map), status_unsupported);
    CHECK_STATUS(map_build_host(&t.layout, nullptr, set, set, map), status_null_pointer);
    CHECK_STATUS(map_build_host(&t.layout, &k, set, set, nullptr), status_null_pointer);
    for (int side = 0; side < 2; ++side) {
        auto run = [&] {
            return map_build_host(&t.layout, &k, side ? set : bad, side ? bad : set, map);
        };
        bad = {nullptr, set.count, set.capacity};
        CHECK_STATUS(run(), status_null_pointer);
        bad = {set.words, nullptr, set.capacity};
        CHECK_STATUS(run(), status_null_pointer);
        bad = {set.words, set.count, 0};
        CHECK_STATUS(run(), status_bad_size);
    }
    k.size.x = 16;
    CHECK_STATUS(map_build_host(&t.layout, &k, set, set, map), status_kernel_size);
    k = good;
    k.stride.y = 0;
    CHECK_STATUS(map_build_host(&t.layout, &k, set, set, map), status_stride);
    k = good;
    k.dilation.z = 2; // beyond the guard margin
    CHECK_STATUS(map_build_host(&t.layout, &k, set, set, map), status_unsupported);
    alignas(8) char room[sizeof(device_status) + 8];
    device_status *odd = (device_status *)(room + 2); // not aligned
    map_forms forms = map_forms_os(map);
    const map_lists lists = {map, map, map + 1, 1};
    map_request<uint32_t> request = {good, set, set, map_forms_none(0, false, odd)};
    CHECK_STATUS(map_build_lists_host(&t.layout, &request, &lists), status_alignment);
    request.forms.trouble = nullptr;
    CHECK_STATUS(map_build_lists_host(&t.layout, &request, &lists), status_null_pointer);
    CHECK_STATUS(map_build_lists_host(&t.layout, (map_request<uint32_t> *)nullptr, &lists),
                 status_null_pointer);
    forms.trouble = odd;
    CHECK_STATUS(map_build_forms_host(&t.layout, &good, set, set, &forms), status_alignment);
    CHECK(guarded_untouched(map, 0, (int64_t)t.fine_count * 27));
    CHECK_OK(map_build_host(&t.layout, &good, set, set, map));
}
