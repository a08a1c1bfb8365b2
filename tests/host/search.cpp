// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/host/search.cpp: search.h, against a hash table of coordinates.
#include "../support/reference.h"

using namespace spira;

// Kinds of layers; foreign: two unrelated sets.
enum scene_kind { scene_submanifold, scene_strided, scene_transposed, scene_foreign, scene_kinds };

template <typename W>
struct scene {
    word_layout layout;
    kernel_shape kernel;
    W *source, *outputs;
    int32_t sources, count;
};

static triple random_stride(random_state *r) {
    return {random_int(r, 1, 4), random_int(r, 1, 4), random_int(r, 1, 4)};
}

// Dense scenes in small boxes, up to both ends of every field, and sparse ones in large boxes.
template <typename W>
static scene<W> scene_make(random_state *r, scene_kind kind, kernel_shape kernel, triple up) {
    scene<W> s;
    triple coarse = triple_multiply(kernel.stride, up), reach = kernel_reach(&kernel);
    int extent = sizeof(W) == 8 && random_int(r, 0, 3) == 0 ? 2000 : 20;
    triple lo = {random_int(r, -50, 10), random_int(r, -50, 10), random_int(r, -50, 10)};
    triple hi = {lo.x + random_int(r, 0, extent), lo.y + random_int(r, 0, extent),
                 lo.z + random_int(r, 0, extent)};
    int batches = random_int(r, 0, 1) ? 1 : random_int(r, 2, 5);
    s.layout = reference_layout<W>(lo, hi, batches, coarse, reach);
    if (random_int(r, 0, 1)) {
        lo = s.layout.lo;
        hi = s.layout.hi;
    }
    s.kernel = kernel;
    s.kernel.transposed = kind == scene_transposed;
    triple source_stride = kind == scene_transposed ? coarse : kernel.stride;
    triple output_stride = kind == scene_strided ? coarse : kernel.stride;
    int32_t wanted = random_int(r, 1, 700), wanted_outputs = random_int(r, 1, 300);
    W *draft = guarded_new<W>(wanted), *draft_outputs = guarded_new<W>(wanted_outputs);
    s.sources = reference_random_set(r, &s.layout, lo, hi, source_stride, wanted, draft);
    s.count =
        reference_random_set(r, &s.layout, lo, hi, output_stride, wanted_outputs, draft_outputs);
    s.outputs = draft_outputs;
    if (kind == scene_submanifold) {
        s.outputs = draft;
        s.count = s.sources;
    }
    s.source = guarded_new<W>(s.sources); // of its exact size: a read past its end is seen
    std::copy(draft, draft + s.sources, s.source);
    return s;
}

// Compares every tap of a scene; returns how many are found.
template <typename W>
static int64_t check_scene(const scene<W> *s) {
    if (!CHECK_OK(search_check(&s->layout, &s->kernel))) {
        return 0;
    }
    const search_walk<W> walk = search_walk_make<W>(&s->layout, &s->kernel);
    int volume = kernel_volume(&s->kernel);
    int64_t taps = (int64_t)s->count * volume, found = 0;
    std::vector<int32_t> expected((size_t)taps);
    reference_map(&s->layout, &s->kernel, s->source, s->sources, s->outputs, s->count,
                  expected.data());
    int32_t *got = guarded_new<int32_t>(volume);
    for (int64_t o = 0; o < s->count; ++o) {
        search_voxel(walk, s->source, s->sources, s->outputs[o], got);
        CHECK(std::equal(got, got + volume, expected.begin() + o * volume));
        found += volume - std::count(got, got + volume, -1);
    }
    return found;
}

template <typename W>
static void check_random_scenes(uint64_t seed, int scenes) {
    random_state r = random_make(seed);
    int64_t found[scene_kinds] = {};
    for (int i = 0; i < scenes; ++i) {
        scene_kind kind = (scene_kind)(i % scene_kinds);
        triple up = {1 << random_int(&r, 0, 2), 1 << random_int(&r, 0, 2),
                     1 << random_int(&r, 0, 2)};
        kernel_shape kernel = reference_random_kernel(&r, 7, 3, random_stride(&r));
        scene<W> s = scene_make<W>(&r, kind, kernel, up);
        found[kind] += check_scene(&s);
        guarded_finish();
    }
    for (int64_t taps : found) {
        CHECK(taps > (test_quick() ? 0 : 1000)); // the scenes are not empty
    }
}

TEST(search_random_scenes_32) {
    check_random_scenes<uint32_t>(1, test_quick() ? 40 : 400);
}

TEST(search_random_scenes_64) {
    check_random_scenes<uint64_t>(2, test_quick() ? 40 : 400);
}

// 3,375 offsets: many more than the bits of a word.
TEST(search_largest_kernel) {
    random_state r = random_make(4);
    scene<uint64_t> s =
        scene_make<uint64_t>(&r, scene_submanifold, kernel_cube(15, 1), triple_make(1, 1, 1));
    CHECK(check_scene(&s) > 0);
    s = scene_make<uint64_t>(&r, scene_submanifold, {{1, 1, 15}, {1, 1, 2}, {1, 1, 1}, false},
                             {1, 1, 1});
    check_scene(&s);
}

// ---- the known defects of earlier engines -------------------------------------------------------

// The words of voxels in ascending order, in a buffer of their exact size.
static uint32_t *words_of(const word_layout *l, std::initializer_list<voxel> voxels) {
    uint32_t *words = guarded_new<uint32_t>((int64_t)voxels.size()), *w = words;
    for (const voxel &v : voxels) {
        CHECK(word_contains(l, v));
        *w++ = word_pack<uint32_t>(l, v);
    }
    CHECK(std::is_sorted(words, w));
    return words;
}

// The words behind the end of the source are the ones searched for. They must not be read.
TEST(search_reads_nothing_outside_its_range) {
    word_layout l = reference_layout<uint32_t>({0, 0, 0}, {3, 3, 30}, 1, {1, 1, 1}, {3, 3, 3});
    kernel_shape k = kernel_cube(7, 1);
    const search_walk<uint32_t> walk = search_walk_make<uint32_t>(&l, &k);
    uint32_t line[31];
    for (int z = 0; z <= 30; ++z) {
        line[z] = word_pack<uint32_t>(&l, {0, 2, 2, z});
    }
    int32_t taps[343];
    for (int count : {0, 1, 2, 9, 11, 28}) {
        for (int o = 0; o <= 30; ++o) {
            search_row(walk, line, count, line[o], 24, taps); // the row (0, 0)
            for (int j = 0; j < 7; ++j) {
                int source = o + j - 3;
                CHECK_EQUAL(taps[24 * 7 + j], source >= 0 && source < count ? source : -1);
            }
        }
    }
    search_voxel(walk, line, 0, line[4], taps); // no source at all
    CHECK(std::all_of(taps, taps + 343, [](int t) { return t == -1; }));
    search_voxel<uint32_t>(walk, nullptr, 0, line[4], taps);
    CHECK(std::all_of(taps, taps + 343, [](int t) { return t == -1; }));
}

// With dilation many words lie between two members of a row, more than one step each.
TEST(search_scans_past_many_words) {
    word_layout l = reference_layout<uint32_t>({0, 0, 0}, {0, 0, 200}, 1, {1, 1, 1}, {0, 0, 60});
    kernel_shape k = {{1, 1, 5}, {1, 1, 30}, {1, 1, 1}, false};
    const search_walk<uint32_t> walk = search_walk_make<uint32_t>(&l, &k);
    uint32_t words[201];
    for (int z = 0; z <= 200; ++z) {
        words[z] = word_pack<uint32_t>(&l, {0, 0, 0, z});
    }
    for (int z = 0; z <= 200; ++z) {
        int32_t taps[5];
        search_voxel(walk, words, 201, words[z], taps);
        for (int j = 0; j < 5; ++j) {
            int source = z + 30 * (j - 2);
            CHECK_EQUAL(taps[j], source >= 0 && source <= 200 ? source : -1);
        }
    }
}

TEST(search_takes_duplicates) {
    word_layout l = reference_layout<uint32_t>({0, 0, 0}, {7, 7, 7}, 1, {1, 1, 1}, {1, 1, 1});
    kernel_shape k = kernel_cube(3, 1);
    const search_walk<uint32_t> walk = search_walk_make<uint32_t>(&l, &k);
    uint32_t *words = words_of(&l, {{0, 1, 1, 1}, {0, 1, 1, 1}, {0, 1, 1, 1}, {0, 1, 1, 2}});
    int32_t taps[27];
    search_voxel(walk, words, 4, words[0], taps);
    CHECK_EQUAL(taps[13], 0); // the first of them, and no tap behind them is dropped
    CHECK_EQUAL(taps[14], 3);
}

TEST(search_lower_bound_is_exact) {
    uint32_t words[40];
    for (uint32_t i = 0; i < 40; ++i) {
        words[i] = 3 * i + 1;
    }
    for (int begin = 0; begin <= 40; begin += 5) {
        for (int end = begin; end <= 40; ++end) {
            for (uint32_t key : {0u, 1u, 2u, 3u, 4u, 58u, 59u, 117u, 118u, 119u, ~0u}) {
                int expected = (int)(std::lower_bound(words + begin, words + end, key) - words);
                CHECK_EQUAL(search_lower_bound(words, begin, end, key), expected);
            }
        }
    }
}

// A kernel that the guard margin does not cover is refused, on each axis, by one voxel.
TEST(search_check_refuses) {
    word_layout l = reference_layout<uint32_t>({0, 0, 0}, {9, 9, 9}, 1, {1, 1, 1}, {2, 2, 2});
    kernel_shape k = kernel_cube(5, 1);
    CHECK_OK(search_check(&l, &k));
    CHECK_STATUS(search_check(nullptr, &k), status_null_pointer);
    CHECK_STATUS(search_check(&l, nullptr), status_null_pointer);
    int *sizes[3] = {&k.size.x, &k.size.y, &k.size.z};
    int *strides[3] = {&k.stride.x, &k.stride.y, &k.stride.z};
    for (int a = 0; a < 3; ++a) {
        k = kernel_cube(5, 1);
        *sizes[a] = 7;
        CHECK_STATUS(search_check(&l, &k), status_unsupported);
        *sizes[a] = 0;
        CHECK_STATUS(search_check(&l, &k), status_kernel_size);
        k = kernel_cube(3, 1);
        *strides[a] = 2;
        CHECK_OK(search_check(&l, &k));
        *strides[a] = 3;
        CHECK_STATUS(search_check(&l, &k), status_unsupported);
        k.transposed = true;
        CHECK_STATUS(search_check(&l, &k), status_unsupported);
    }
    int *los[3] = {&l.lo.x, &l.lo.y, &l.lo.z};
    k = kernel_cube(5, 1);
    for (int *lo : los) { // voxels allowed into the margin
        --*lo;
        CHECK_STATUS(search_check(&l, &k), status_unsupported);
        ++*lo;
    }
    // Below, the margin is rounded up to the stride; above it is not.
    l = reference_layout<uint32_t>({0, 0, 0}, {9, 9, 9}, 1, {4, 4, 4}, {2, 2, 2});
    for (int a = 0; a < 3; ++a) {
        k = kernel_cube(3, 2);
        CHECK_OK(search_check(&l, &k));
        *strides[a] = 3;
        CHECK_STATUS(search_check(&l, &k), status_unsupported);
    }
}
