// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/host/pairs.cpp: the host loop over lists of pairs, against the one over the whole map.
#include "../../spira/conv_pairs.h"
#include "../support/reference_forms.h"

using namespace spira;

// A layer's lists, and its map without what they do not stand for.
struct lists_case {
    map_lists pairs;
    std::vector<int32_t> map;
};

static lists_case lists_make(const forms_scene<uint32_t> *scene, pairs_sides sides, int threshold) {
    const kernel_shape *kernel = &scene->kernel;
    const int volume = kernel_volume(kernel);
    lists_case l;
    l.map = forms_map(scene);
    int32_t capacity = std::max((int32_t)l.map.size(), 1);
    l.pairs = {guarded_new<int32_t>(volume + 1), guarded_new<int32_t>(capacity),
               guarded_new<int32_t>(capacity), capacity};
    voxel_set<uint32_t> source = forms_set(scene->source, 0, &memory_host);
    voxel_set<uint32_t> outputs = scene->same ? source : forms_set(scene->outputs, 0, &memory_host);
    device_status trouble = {};
    const map_forms f = map_forms_none(threshold, sides != pairs_sides_one, &trouble);
    const map_request<uint32_t> request = {*kernel, source, outputs, f};
    CHECK_OK(map_build_lists_host(&scene->layout, &request, &l.pairs));
    for (size_t i = 0; i < l.map.size(); ++i) {
        int k = (int)(i % (size_t)volume);
        bool centre = f.half && k == volume / 2;
        bool has = centre ? sides == pairs_sides_centre : kernel_norm(kernel, k) >= threshold;
        l.map[i] = has ? l.map[i] : -1;
    }
    return l;
}

// The sums begin at `start`; both loops add in the same order, but for where they begin.
static void check_lists(random_state *r, const forms_scene<uint32_t> *scene, pairs_sides sides,
                        int threshold) {
    lists_case l = lists_make(scene, sides, threshold);
    const int32_t outputs = (int32_t)scene->outputs.size();
    conv_shape s = shape_make(kernel_volume(&scene->kernel), random_int(r, 1, 9),
                              random_int(r, 0, 5), random_int(r, 1, 9), numeric_f32);
    const int64_t inputs = (int64_t)scene->source.size(), total = (int64_t)outputs * s.cout;
    std::vector<float> in((size_t)(inputs * s.cin) + 1), in2((size_t)(inputs * s.cin2) + 1);
    std::vector<float> weight((size_t)(s.volume * (s.cin + s.cin2) * s.cout));
    for (std::vector<float> *v : {&in, &in2, &weight}) {
        reference_random_values(r, numeric_f32, 1, (int64_t)v->size(), v->data());
    }
    std::vector<double> wanted((size_t)total + 1);
    double *got = guarded_new<double>(total);
    std::fill(got, got + total, 3.0);
    l.map.push_back(-1);
    const conv_host_args plain = {s, in.data(), in2.data(), weight.data(), l.map.data(), outputs};
    REQUIRE_OK(conv_sum_host(&plain, wanted.data()));
    const conv_host_args args = {s, in.data(), in2.data(), weight.data(), nullptr, outputs};
    REQUIRE_OK(conv_pairs_host(&args, &l.pairs, sides, got));
    double worst = 0;
    for (int64_t i = 0; i < total; ++i) {
        worst = fmax(worst, fabs(got[i] - 3 - wanted[(size_t)i]));
    }
    CHECK(worst <= 1e-12 * s.volume * (s.cin + s.cin2));
}

TEST(pairs_host_agrees_with_the_map) {
    for (int kind = forms_submanifold; kind < forms_kinds; ++kind) {
        for (int seed = 0; seed < (test_quick() ? 3 : 20); ++seed) {
            random_state r = random_make((uint64_t)(100 * kind + seed));
            kernel_shape kernel = reference_random_kernel(&r, 4, 2, {1, 1, 1});
            forms_scene<uint32_t> scene =
                forms_scene_random<uint32_t>(&r, (forms_kind)kind, kernel);
            check_lists(&r, &scene, pairs_sides_one, random_int(&r, 0, 2));
            guarded_finish();
        }
    }
}

TEST(pairs_host_uses_a_half_map_from_both_sides) {
    const triple sizes[] = {{3, 3, 3}, {1, 1, 3}, {5, 3, 1}, {1, 1, 1}};
    for (triple size : sizes) {
        for (int threshold = 0; threshold < 3; ++threshold) {
            for (pairs_sides sides : {pairs_sides_both, pairs_sides_centre}) {
                random_state r = random_make((uint64_t)(10 * threshold + sides + size.x));
                kernel_shape kernel = kernel_cube(1, 1);
                kernel.size = size;
                forms_scene<uint32_t> scene =
                    forms_scene_random<uint32_t>(&r, forms_submanifold, kernel);
                check_lists(&r, &scene, sides, threshold);
                guarded_finish();
            }
        }
    }
}

// Entries of -1, as other engines pad their lists: no pairs.
TEST(pairs_host_passes_over_missing_rows) {
    const conv_shape s = shape_make(1, 2, 0, 3, numeric_f32);
    int32_t begin[2] = {0, 4}, sources[4] = {-1, 1, 0, 1}, targets[4] = {0, -1, 1, 0};
    const map_lists pairs = {begin, sources, targets, 4};
    float *in = guarded_new<float>(4), *weight = guarded_new<float>(6);
    float *sum = guarded_new<float>(6);
    std::fill(in, in + 4, 2.0f);
    std::fill(weight, weight + 6, 1.0f);
    std::fill(sum, sum + 6, 0.0f);
    const conv_host_args args = {s, in, nullptr, weight, nullptr, 2};
    CHECK_OK(conv_pairs_host(&args, &pairs, pairs_sides_one, sum));
    CHECK(std::count(sum, sum + 6, 4.0f) == 6);
}

TEST(pairs_host_refuses) {
    conv_shape s = shape_make(2, 1, 0, 1, numeric_f32);
    int32_t begin[4] = {0, 1, 2, 2}, row[2] = {0, 0};
    map_lists pairs = {begin, row, row, 2};
    const float in[1] = {2}, weight[3] = {3, 4, 5};
    float sum[1] = {1};
    auto run = [&](const map_lists *lists, pairs_sides sides, int32_t outputs) {
        const conv_host_args args = {s, in, nullptr, weight, nullptr, outputs};
        return conv_pairs_host(&args, lists, sides, sum);
    };
    CHECK_STATUS(conv_pairs_host(nullptr, &pairs, pairs_sides_one, sum), status_null_pointer);
    CHECK_STATUS(run(&pairs, pairs_sides_both, 1), status_unsupported); // an even volume
    CHECK_STATUS(run(&pairs, (pairs_sides)3, 1), status_unsupported);
    CHECK_STATUS(run(&pairs, pairs_sides_one, -1), status_bad_size);
    map_lists none = {begin, nullptr, row, 2};
    CHECK_STATUS(run(&none, pairs_sides_one, 1), status_null_pointer);
    CHECK_EQUAL(sum[0], 1.0f);
    CHECK_OK(run(&pairs, pairs_sides_one, 1));
    CHECK_EQUAL(sum[0], 15.0f);                // 1 + 2 * 3 + 2 * 4
    CHECK_OK(run(&pairs, pairs_sides_one, 0)); // no output is there
    CHECK_EQUAL(sum[0], 15.0f);
    begin[1] = INT32_MAX; // begins that disagree with the arrays
    begin[0] = -7;
    CHECK_OK(run(&pairs, pairs_sides_one, 1));
    CHECK_EQUAL(sum[0], 27.0f); // 15 + 2 * 3 + 2 * 3: both pairs are of the first list
    begin[0] = 0;
    begin[1] = 1;
    sum[0] = 15;
    pairs.capacity = 1; // a list that ends behind it
    CHECK_OK(run(&pairs, pairs_sides_one, 1));
    CHECK_EQUAL(sum[0], 21.0f);
}
