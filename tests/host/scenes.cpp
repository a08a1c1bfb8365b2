// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/host/scenes.cpp: the generated scenes of the benchmarks, and how forms of a map are
// compared.
#include "../support/test.h"

#include "../../bench/scenes.h"
#include "../../bench/scenes_check.h"
#include "../../spira/voxel.h"

#include <algorithm>
#include <vector>

using namespace spira;

static std::vector<int32_t> scene_of(int kind, int bits, int64_t voxels) {
    std::vector<int32_t> out((size_t)voxels * 3, -1);
    CHECK_STATUS(scenes_make((scenes_kind)kind, bits, voxels, out.data()), status_ok);
    return out;
}

static word_layout layout_of(const std::vector<int32_t> &scene) {
    word_need need = {};
    int *hi[3] = {&need.hi.x, &need.hi.y, &need.hi.z};
    for (size_t i = 0; i < scene.size(); ++i) {
        *hi[i % 3] = std::max(*hi[i % 3], (int)scene[i]);
    }
    need.batches = 1;
    need.stride = {scenes_reach, scenes_reach, scenes_reach};
    need.reach = {scenes_reach, scenes_reach, scenes_reach};
    word_layout layout = {};
    CHECK_STATUS(word_fit(&need, &layout), status_ok);
    return layout;
}

template <typename W>
static std::vector<W> words_of(const std::vector<int32_t> &scene, const word_layout *layout) {
    std::vector<W> words;
    for (size_t i = 0; i < scene.size(); i += 3) {
        words.push_back(word_pack<W>(layout, voxel{0, scene[i], scene[i + 1], scene[i + 2]}));
    }
    std::sort(words.begin(), words.end());
    return words;
}

// How many voxels each plane of an axis has.
static std::vector<int> planes_of(const std::vector<int32_t> &scene, int axis) {
    std::vector<int> count;
    for (size_t i = (size_t)axis; i < scene.size(); i += 3) {
        count.resize(std::max(count.size(), (size_t)scene[i] + 1));
        ++count[(size_t)scene[i]];
    }
    return count;
}

TEST(scenes_are_distinct_and_fit_their_words) {
    for (int kind = 0; kind < scenes_kinds; ++kind) {
        for (int bits = 32; bits <= 64; bits += 32) {
            const std::vector<int32_t> scene = scene_of(kind, bits, 30000);
            const word_layout layout = layout_of(scene);
            const std::vector<uint64_t> words = words_of<uint64_t>(scene, &layout);
            CHECK(*std::min_element(scene.begin(), scene.end()) >= 0);
            CHECK(std::adjacent_find(words.begin(), words.end()) == words.end());
            CHECK_EQUAL(layout.bits, kind == scenes_scattered ? bits : 32);
        }
    }
}

TEST(scenes_of_three_million_fit_32_bits) {
    const int64_t voxels = test_quick() ? 100000 : 3000000;
    for (int kind : {scenes_uniform, scenes_walls_x, scenes_half, scenes_dense}) {
        CHECK_EQUAL(layout_of(scene_of(kind, 32, voxels)).bits, 32);
    }
}

TEST(scenes_scattered_use_the_whole_word) {
    const word_layout narrow = layout_of(scene_of(scenes_scattered, 32, 20000));
    const word_layout wide = layout_of(scene_of(scenes_scattered, 64, 20000));
    CHECK_EQUAL(word_bits(&narrow), 32);
    CHECK_EQUAL(word_bits(&wide), 62);
}

TEST(scenes_walls_stand_beside_thin_planes) {
    for (int axis = 0; axis < 3; ++axis) {
        const std::vector<int> count = planes_of(scene_of(scenes_walls_x + axis, 32, 50000), axis);
        REQUIRE(count.size() > 4 * scenes_wall_period);
        for (size_t plane = 0; plane + 1 < count.size(); ++plane) { // the last one is cut off
            const bool wall = plane % scenes_wall_period == 0;
            CHECK(wall ? count[plane] >= 1000 && count[plane] <= 4000
                       : count[plane] >= 20 && count[plane] <= 60);
        }
    }
}

TEST(scenes_half_is_one_plane) {
    for (int64_t voxels : {1, 2, 999, 40000}) {
        const std::vector<int> count = planes_of(scene_of(scenes_half, 32, voxels), 0);
        CHECK_EQUAL(*std::max_element(count.begin(), count.end()) >= voxels / 2, true);
    }
}

// Pairs per output for K = 3.
static double pairs_of(const std::vector<int32_t> &scene) {
    const word_layout layout = layout_of(scene);
    const std::vector<uint32_t> words = words_of<uint32_t>(scene, &layout);
    int64_t pairs = 0;
    for (uint32_t word : words) {
        for (int k = 0; k < 27; ++k) {
            const triple by = triple_make(k / 9 - 1, k / 3 % 3 - 1, k % 3 - 1);
            const uint32_t other = word + word_delta<uint32_t>(&layout, by);
            pairs += std::binary_search(words.begin(), words.end(), other);
        }
    }
    return (double)pairs / (double)words.size();
}

// The two scenes that the others are measured by.
TEST(scenes_have_4_and_14_pairs) {
    for (int kind : {scenes_uniform, scenes_crowded}) {
        const double each = pairs_of(scene_of(kind, 32, 20000));
        CHECK(kind == scenes_uniform ? each > 3.5 && each < 4 : each > 12 && each < 14);
    }
}

TEST(scenes_dense_is_a_cube) {
    std::vector<int> sides;
    for (int axis = 0; axis < 3; ++axis) {
        const std::vector<int> count = planes_of(scene_of(scenes_dense, 32, 64 * 64 * 64), axis);
        CHECK_EQUAL(count.size(), 64u);
        CHECK_EQUAL(*std::min_element(count.begin(), count.end()), 64 * 64);
    }
    const std::vector<int32_t> scene = scene_of(scenes_dense, 32, 7919); // the order's own step
    const word_layout layout = layout_of(scene);
    const std::vector<uint32_t> words = words_of<uint32_t>(scene, &layout);
    CHECK(std::adjacent_find(words.begin(), words.end()) == words.end());
}

// Tracks are thin: about 3 pairs per output. A shower has more.
TEST(scenes_of_a_detector) {
    for (int kind : {scenes_tracks, scenes_showers}) {
        const std::vector<int32_t> scene = scene_of(kind, 32, 8000);
        CHECK(*std::max_element(scene.begin(), scene.end()) < scenes_detector);
        CHECK(scene == scene_of(kind, 32, 8000));
        const double each = pairs_of(scene);
        CHECK(kind == scenes_tracks ? each > 2.9 && each < 3.2 : each > 3.3 && each < 8);
    }
}

// ---- comparing forms ----------------------------------------------------------------------------

// All forms of a scene's map, made by the host loops.
struct forms_host {
    std::vector<int32_t> map, half, compact, begin, input, output;
    std::vector<char> order;
    scenes_forms forms;
};

static void forms_make(int kind, int K, int32_t voxels, forms_host *h) {
    const std::vector<int32_t> scene = scene_of(kind, 32, voxels);
    const word_layout layout = layout_of(scene);
    std::vector<uint32_t> words = words_of<uint32_t>(scene, &layout);
    const kernel_shape kernel = kernel_cube(K, 1);
    const int volume = kernel_volume(&kernel);
    const voxel_set<uint32_t> set = {words.data(), &voxels, voxels};
    device_status trouble = {};
    h->map.resize((size_t)voxels * (size_t)volume);
    CHECK_STATUS(map_build_host(&layout, &kernel, set, set, h->map.data()), status_ok);

    h->half.resize((size_t)voxels * (size_t)(volume / 2));
    map_forms half = map_forms_os(h->half.data());
    half.half = true;
    CHECK_STATUS(map_build_forms_host(&layout, &kernel, set, set, &half), status_ok);

    h->compact.resize((size_t)compact_total(K, voxels));
    const map_forms compact = map_forms_compact(h->compact.data(), &trouble);
    CHECK_STATUS(map_build_forms_host(&layout, &kernel, set, set, &compact), status_ok);

    h->begin.resize((size_t)volume + 1);
    h->input.resize(h->map.size());
    h->output.resize(h->map.size());
    const map_lists pairs = {h->begin.data(), h->input.data(), h->output.data(),
                             (int32_t)h->map.size()};
    const map_request<uint32_t> lists = {kernel, set, set, map_forms_none(0, false, &trouble)};
    CHECK_STATUS(map_build_lists_host(&layout, &lists, &pairs), status_ok);

    workspace count = workspace_begin(nullptr);
    order_layout_take(&count, voxels, volume);
    h->order.resize(count.used + workspace_alignment);
    char *at = h->order.data() + -(uintptr_t)h->order.data() % workspace_alignment;
    workspace space = workspace_begin(at);
    const order_layout order = order_layout_take(&space, voxels, volume);
    size_t bytes = 0;
    CHECK_OK(order_host_workspace(voxels, &bytes));
    std::vector<char> scratch(bytes + workspace_alignment);
    at = scratch.data() + -(uintptr_t)scratch.data() % workspace_alignment;
    order_request request = {};
    request.kernel = kernel;
    request.map = h->map.data();
    request.count = &voxels;
    request.capacity = voxels;
    request.layout = order;
    CHECK_OK(order_build_host(&request, at, bytes));
    h->forms = {h->map.data(), K, voxels, h->half.data(), h->compact.data(), pairs, order};
}

// How many elements of all forms differ from the map, and outputs that are not in the ordered
// layout just once.
static int64_t forms_wrong(const scenes_forms *f) {
    std::vector<int> seen((size_t)f->outputs);
    int64_t wrong = 0;
    for (int form = scenes_form_half; form <= scenes_form_order; ++form) {
        const int64_t elements =
            scenes_elements(f, (scenes_form)form, f->pairs.begin[scenes_volume(f)]);
        for (int64_t i = 0; i < elements; ++i) {
            int32_t placed;
            wrong += !scenes_agrees(f, (scenes_form)form, i, &placed);
            if (placed >= 0) {
                ++seen[(size_t)placed];
            }
        }
    }
    return wrong + std::count_if(seen.begin(), seen.end(), [](int times) { return times != 1; });
}

TEST(scenes_forms_of_the_host_agree) {
    for (int kind = 0; kind < scenes_kinds; ++kind) {
        for (int K = 3; K <= 5; K += 2) {
            forms_host h;
            forms_make(kind, K, 1500, &h);
            CHECK_EQUAL(forms_wrong(&h.forms), 0);
        }
    }
}

TEST(scenes_forms_that_differ_are_found) {
    forms_host h;
    forms_make(scenes_dense, 3, 1000, &h);
    int32_t *const fields[] = {&h.half[77], &h.compact[405], &h.input[900], &h.output[901],
                               h.forms.order.row + 5};
    for (int32_t *field : fields) {
        const int32_t kept = *field;
        *field = kept + 1;
        CHECK(forms_wrong(&h.forms) > 0);
        *field = -7;
        CHECK(forms_wrong(&h.forms) > 0);
        *field = kept;
    }
    h.forms.order.mask[0] ^= 1u << 13; // the centre, which all outputs have
    CHECK_EQUAL(forms_wrong(&h.forms), 64);
    h.forms.order.mask[0] ^= 1u << 13;
    CHECK_EQUAL(forms_wrong(&h.forms), 0);
}
