// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/host/voxel_limits.cpp: the range and the cap of a voxelisation and the features of limited
// voxels: host loops against an independent voxelisation, kernels (emulated) against host loops.
#include "../support/voxels.h"

#include "../support/emulate_numeric.h"

#include "../../spira/index/unique.cuh"
#include "../../spira/voxel/cap.cuh"
#include "../../spira/voxel/source.cuh"
#include "../../spira/voxel_features.cuh"

using namespace spira;

namespace {

// ---- the kernels --------------------------------------------------------------------------------

template <typename W, typename source>
void words_kernel(source from, int32_t rows, W *word) {
    const int32_t i = (int32_t)(blockIdx.x * blockDim.x + threadIdx.x);
    W words[1];
    sort_loading<source, 1> loading = {};
    sort_words_begin(from, rows, loading, [&](int) { return i; });
    sort_words_end(from, loading, true, words);
    if (i < rows) {
        word[i] = words[0];
    }
}

template <typename W, bool points, bool ranged>
void words_of(const word_layout *layout, const voxel_input *in, device_status *trouble, W *word) {
    const voxelize_source<W, points, ranged> from = {*layout, *in, trouble};
    CHECK_OK(kernel_launch(words_kernel<W, voxelize_source<W, points, ranged>>,
                           {(unsigned)ceil_div(in->rows, 64), 64, nullptr, "words"}, from, in->rows,
                           word));
}

// voxelize, but for the sort, which the host does.
template <typename W>
voxels<W> voxels_emulated(voxel_case *c) {
    const voxel_input *in = voxel_case_input(c);
    const int32_t rows = in->rows;
    voxels<W> v = voxels_new<W>(*c);
    cap_scratch<W> cap;
    workspace w = workspace_begin(nullptr);
    cap_carve(&w, in, &cap);
    w = workspace_begin(guarded_new<char>((int64_t)w.used));
    cap_carve(&w, in, &cap);
    W *words = guarded_new<W>(rows), *sorted = guarded_new<W>(rows);
    const bool ranged = voxel_is_ranged(in);
    (in->points ? ranged ? words_of<W, true, true> : words_of<W, true, false>
     : ranged ? words_of<W, false, true>
                : words_of<W, false, false>)(&c->layout, in, &v.trouble, words);
    W *to = cap.sorted ? cap.sorted : sorted;
    int32_t *order = cap.sorted ? cap.order : v.rows.order;
    for (int32_t i = 0; i < rows; ++i) {
        order[i] = i;
    }
    std::stable_sort(order, order + rows,
                     [&](int32_t a, int32_t b) { return words[a] < words[b]; });
    for (int32_t i = 0; i < rows; ++i) {
        to[i] = words[order[i]];
    }
    if (cap.sorted) {
        const voxelize_args<W> args = {&c->layout, in, v.set, v.rows, &v.trouble};
        CHECK_OK(cap_launch(cap_task_make(&args, cap, sorted), nullptr));
    }
    int32_t *heads = guarded_new<int32_t>(unique_cut_make(rows, c->capacity).blocks);
    const bool report = in->duplicates == duplicates_report;
    CHECK_OK(unique_launch<W>({sorted, rows, heads, v.set, v.rows, report, &v.trouble}, nullptr));
    return v;
}

template <typename W>
void check_case(voxel_case *c, bool emulated) {
    const voxels<W> v = voxels_on_host<W>(c);
    CHECK_EQUAL(voxels_difference(v, voxels_wanted<W>(*c), *c), "");
    if (emulated) {
        CHECK_EQUAL(voxels_difference(voxels_emulated<W>(c), v, *c), "");
    }
    guarded_finish();
}

// Random rows with caps around the number of voxels.
template <typename W>
void check_random(random_state *r, int32_t rows, int batches, bool emulated) {
    const voxel_kind kind = {random_int(r, 0, 1) > 0, random_int(r, 0, 2) > 0, batches, 100};
    voxel_case c =
        voxel_case_random<W>(r, kind, rows, random_int(r, 0, 4) ? rows : random_int(r, 0, rows));
    const int32_t all = (int32_t)voxel_case_wanted(c).voxels.size();
    const int32_t some = random_int(r, 1, all + 1);
    for (int32_t cap : {some, 0, 1, all / batches, all, INT32_MAX}) {
        c.in.max_voxels = cap;
        check_case<W>(&c, emulated && (cap == some || cap == all / batches));
    }
    c.in.max_voxels = some;
    c.capacity = random_int(r, 1, rows); // fewer voxels than are found
    check_case<W>(&c, emulated);
}

} // namespace

TEST(voxel_shift_emulated) {
    const std::vector<double> from = voxel_utm_points();
    const int32_t count = 70;
    float *points = guarded_new<float>(400), *wanted = guarded_new<float>(400);
    voxel_shift_args args =
        voxel_utm_shift(from.data() + 4 * (voxel_utm_rows - 69), &count, wanted);
    args.rows = 100;
    REQUIRE_OK(voxel_shift_host(&args));
    args.points = points;
    CHECK_OK(kernel_launch(voxel_shift_kernel<>, {2, voxel_shift_threads, nullptr, "shift"}, args));
    CHECK_EQUAL(memcmp(points, wanted, 400 * sizeof(float)), 0); // behind the count, too
}

TEST(voxel_limits_random) {
    random_state r = random_make(1);
    for (int i = 0; i < 60; ++i) {
        check_random<uint32_t>(&r, random_int(&r, 1, 900), random_int(&r, 1, 3), false);
        check_random<uint64_t>(&r, random_int(&r, 1, 900), random_int(&r, 1, 3), false);
    }
}

TEST(voxel_limits_emulated) {
    random_state r = random_make(2);
    for (int rows : {33, 513, 1300}) {
        emulate::seed = (uint64_t)rows;
        check_random<uint32_t>(&r, rows, 1, true);
        check_random<uint64_t>(&r, rows, random_int(&r, 2, 5), true);
    }
}

// Segments of several tiles and long chunks, which only large inputs have: tested by their shape.
TEST(voxel_limits_shapes) {
    voxel_input in = {};
    const int32_t batch = 0;
    for (int32_t rows : {1, 512, 513, 1 << 19, (1 << 19) + 1, 20000000, INT32_MAX / 2}) {
        for (int32_t batches : {1, 2, 64, 100, 4096}) {
            in.rows = rows;
            in.batch = batches > 1 ? &batch : nullptr;
            const cap_shape s = cap_shape_make(&in, batches);
            CHECK(s.blocks >= 1 && s.blocks <= cap_blocks_max);
            CHECK((int64_t)s.blocks * s.tiles * cap_threads >= rows);
            CHECK((int64_t)(s.blocks - 1) * s.tiles * cap_threads < rows);
            CHECK(s.chunks >= 1 && s.chunks <= cap_limit_threads);
            CHECK((int64_t)s.chunks << s.chunk_bits >= rows);
            CHECK((int64_t)s.chunks * s.batches <= cap_counts_max);
        }
    }
}

// Many rows of one voxel, around the edges of segments and chunks, between voxels of one row.
TEST(voxel_limits_crowded) {
    std::vector<voxel> rows; // 27 voxels
    for (int32_t i = 0; i < 2600; ++i) {
        rows.push_back({0, i % 100 == 7 ? i : 1500, 0, 0});
    }
    voxel_case c = voxel_case_of(
        reference_layout<uint32_t>({0, 0, 0}, {4000, 3, 3}, 1, {1, 1, 1}, {1, 1, 1}), rows);
    for (int32_t cap : {1, 11, 26, 27}) {
        c.in.max_voxels = cap;
        check_case<uint32_t>(&c, true);
    }
}

// An empty frame, and one without a point in the range.
TEST(voxel_limits_nothing_inside) {
    random_state r = random_make(3);
    for (int32_t count : {0, 30}) {
        voxel_case c = voxel_case_random<uint32_t>(&r, {true, true, 1, 0}, 30, count);
        std::fill(c.points.begin(), c.points.end(), -1e6f);
        c.in.max_voxels = 5;
        c.capacity = 10;
        check_case<uint32_t>(&c, true);
        CHECK_EQUAL((int64_t)voxels_on_host<uint32_t>(&c).trouble.outside, count);
    }
}

TEST(voxel_range_is_half_open) {
    const float lo[3] = {-54, -54, -5}, hi[3] = {54, 54, 3}, size[3] = {0.075f, 0.075f, 0.2f};
    voxel_case c = {};
    REQUIRE_OK(voxel_range(lo, hi, size, &c.in));
    CHECK(triple_equal(c.in.extent, {1440, 1440, 40}));
    const float zero[3] = {0, 0, 0}, top[3] = {2, 2, 2}, one[3] = {1, 1, 1};
    REQUIRE_OK(voxel_range(zero, top, one, &c.in));
    c.points = {0, 0, 0, 2, 0, 0, 1.999f, 1, 1, -0.0f, 0, 1, -1e-6f, 0, 0, 0, 0, 2};
    c.count = c.capacity = c.in.rows = 6;
    c.in.columns = 3;
    c.layout = reference_layout<uint32_t>({0, 0, 0}, {1, 1, 1}, 1, {1, 1, 1}, {1, 1, 1});
    const voxels<uint32_t> v = voxels_on_host<uint32_t>(&c);
    const int32_t voxel[] = {0, -1, 2, 1, -1, -1};
    CHECK(std::equal(voxel, voxel + 6, v.rows.voxel));
    CHECK_EQUAL(v.trouble.outside, 3u);
}

TEST(voxel_limits_refuses) {
    const float lo[3] = {0, 0, 0}, hi[3] = {8, 8, 8}, one[3] = {1, 1, 1};
    voxel_input in = {};
    CHECK_STATUS(voxel_range(nullptr, hi, one, &in), status_null_pointer);
    CHECK_STATUS(voxel_range(lo, nullptr, one, &in), status_null_pointer);
    CHECK_STATUS(voxel_range(lo, hi, nullptr, &in), status_null_pointer);
    CHECK_STATUS(voxel_range(lo, hi, one, nullptr), status_null_pointer);
    CHECK_STATUS(voxel_range(hi, lo, one, &in), status_grid);
    CHECK_STATUS(voxel_range(lo, lo, one, &in), status_grid);
    for (int a = 0; a < 3; ++a) {
        for (float bad : {0.0f, -1.0f, 1e-20f, 100.0f, (float)NAN, (float)INFINITY}) {
            float size[3] = {1, 1, 1};
            size[a] = bad;
            CHECK_STATUS(voxel_range(lo, hi, size, &in), status_grid);
            CHECK_EQUAL(voxel_range(lo, hi, size, &in).detail, a);
        }
        for (float bad : {(float)NAN, (float)INFINITY, (float)-INFINITY}) {
            float end[3] = {8, 8, 8};
            end[a] = bad;
            CHECK_STATUS(voxel_range(lo, end, one, &in), status_grid);
            CHECK_STATUS(voxel_range(end, hi, one, &in), status_grid);
        }
    }
    const int32_t coords[3] = {0, 0, 0}, count = 1;
    in = {};
    in.coords = coords;
    in.count = &count;
    in.rows = 1;
    in.columns = 3;
    CHECK_OK(voxel_input_check(&in));
    in.max_voxels = -1;
    CHECK_STATUS(voxel_input_check(&in), status_bad_size);
    in.max_voxels = 0;
    for (triple bad : {triple{1, 1, 0}, triple{0, 1, 1}, triple{-1, -1, -1}, triple{1, -1, 1}}) {
        in.extent = bad;
        CHECK_STATUS(voxel_input_check(&in), status_bad_size);
    }
}

// The nuScenes grid of detectors. Divided in fp32, as voxelize does and as engines do that voxelise
// points, the scan has 105,086 voxels; divided in double by the decimal sizes, 105,127.
TEST(voxel_limits_nuscenes) {
    NEED_SCANS("nuscenes_10sweeps.pcd.bin");
    const int columns = 5;
    const std::vector<float> points = file_as<float>("nuscenes_10sweeps.pcd.bin");
    const int32_t rows = (int32_t)points.size() / columns;
    const float lo[3] = {-54, -54, -5}, hi[3] = {54, 54, 3}, size[3] = {0.075f, 0.075f, 0.2f};
    voxel_case c = {};
    REQUIRE_OK(voxel_range(lo, hi, size, &c.in));
    c.points = points;
    c.count = c.in.rows = rows;
    c.in.columns = columns;
    c.layout = reference_layout<uint32_t>({0, 0, 0}, {1439, 1439, 40}, 1, {8, 8, 8}, {8, 8, 8});
    c.capacity = 160000;
    const voxels<uint32_t> v = voxels_on_host<uint32_t>(&c);
    REQUIRE(CHECK_EQUAL(*v.set.count, 105086));
    CHECK_EQUAL(v.rows.begin[105086], 236511);
    CHECK_EQUAL((int64_t)v.trouble.outside, rows - 236511);
    CHECK_OK(device_status_read(&v.trouble));

    voxel_case exact = c;
    exact.points.clear();
    exact.in.columns = 3;
    const double decimal[3] = {0.075, 0.075, 0.2};
    for (size_t i = 0; i < (size_t)rows * 3; ++i) {
        const double p = (double)points[i / 3 * columns + i % 3];
        exact.coords.push_back((int32_t)floor((p - (double)lo[i % 3]) / decimal[i % 3]));
    }
    const voxels<uint32_t> w = voxels_on_host<uint32_t>(&exact);
    CHECK_EQUAL(*w.set.count, 105127);
    CHECK_EQUAL(w.trouble.outside, v.trouble.outside);

    c.in.max_voxels = c.capacity = 60000;
    const voxels<uint32_t> capped = voxels_on_host<uint32_t>(&c);
    CHECK_EQUAL(*capped.set.count, 60000);
    CHECK_EQUAL(capped.trouble.dropped_voxels, 105086u - 60000u);
    CHECK_EQUAL(capped.rows.begin[60000] + (int64_t)capped.trouble.dropped_rows,
                v.rows.begin[105086]);
    CHECK_OK(device_status_read(&capped.trouble));
}

// ---- features -----------------------------------------------------------------------------------

namespace {

// What a feature should be, in double precision.
double feature_wanted(voxel_feature kind, const float *values, int columns, int channel,
                      const int32_t *row, int rows) {
    double sum = 0, largest = -INFINITY;
    for (int i = 0; i < rows; ++i) {
        const double v = (double)values[row[i] * columns + channel];
        sum += v;
        largest = v > largest ? v : largest;
    }
    return kind == voxel_feature_mean    ? sum / rows
           : kind == voxel_feature_first ? (double)values[row[0] * columns + channel]
                                         : largest;
}

template <typename W>
void check_features(uint64_t seed, numeric type) {
    random_state r = random_make(seed);
    const int32_t rows = random_int(&r, 1, 700);
    voxel_case s = voxel_case_random<W>(&r, {true, true, 1, 100}, rows, rows);
    const int32_t capacity = s.capacity = random_int(&r, 0, 2) ? rows : random_int(&r, 1, rows);
    const voxels<W> v = voxels_on_host<W>(&s);
    const int32_t count = *v.set.count;
    voxel_features_args<W> args = {};
    args.channels = random_int(&r, 1, 16);
    args.columns = std::max(args.channels, 3) + random_int(&r, 0, 2);
    float *values = guarded_new<float>((int64_t)rows * args.columns);
    for (int64_t i = 0; i < (int64_t)rows * args.columns; ++i) {
        values[i] = random_float(&r);
    }
    args.values = values;
    args.rows = v.rows;
    args.set = v.set;
    args.layout = &s.layout;
    std::copy(s.in.size, s.in.size + 3, args.size);
    std::copy(s.in.origin, s.in.origin + 3, args.origin);
    args.type = type;
    for (voxel_feature kind : {voxel_feature_mean, voxel_feature_first, voxel_feature_max}) {
        for (int32_t most : {0, 1, 3}) {
            args.kind = kind;
            args.max_points = most;
            args.append = (unsigned)random_int(&r, 0, 3);
            const int channels = voxel_features_channels(&args);
            const int64_t all = (int64_t)capacity * channels;
            const int64_t size = numeric_size(type), used = (int64_t)count * channels * size;
            char *wanted = guarded_new<char>(all * size), *got = guarded_new<char>(all * size);
            args.features = wanted;
            REQUIRE_OK(voxel_features_host(&args));
            for (int64_t i = 0; i < (int64_t)count * channels; ++i) {
                const int at = (int)(i / channels), c = (int)(i % channels);
                const int n = v.rows.begin[at + 1] - v.rows.begin[at];
                const int of = most ? std::min(n, most) : n;
                const int32_t *row = v.rows.order + v.rows.begin[at];
                const int more = c - args.channels, axis = more < 0 ? c : more % 3;
                double value = feature_wanted(kind, values, args.columns, axis, row, of);
                const voxel place = word_unpack<W>(&s.layout, v.set.words[at]);
                const int index[3] = {place.x, place.y, place.z};
                if (more >= 0 && more < 3 && (args.append & voxel_append_centre)) {
                    value -= (double)s.in.origin[axis] +
                             ((double)index[axis] + 0.5) * (double)s.in.size[axis];
                } else if (more >= 0) {
                    value -=
                        feature_wanted(voxel_feature_mean, values, args.columns, axis, row, of);
                }
                const double stored = (double)numeric_load(type, wanted, i);
                const double sums = more >= 0 ? 2e-5 : kind == voxel_feature_mean ? 2e-6 : 0;
                CHECK(fabs(stored - value) <= numeric_epsilon(type) * fabs(value) + sums);
            }
            args.features = got;
            REQUIRE_OK(voxel_features(&args, nullptr));
            CHECK(memcmp(got, wanted, (size_t)used) == 0);
            CHECK(guarded_untouched(got, used, all * size));
            CHECK(guarded_untouched(wanted, used, all * size));
        }
    }
    guarded_finish();
}

} // namespace

TEST(voxel_limits_features) {
    for (uint64_t seed = 0; seed < 12; ++seed) {
        emulate::seed = seed;
        const numeric types[] = {numeric_f32, numeric_f16, numeric_bf16};
        check_features<uint32_t>(seed, types[seed % 3]);
        check_features<uint64_t>(seed + 100, types[seed % 3]);
    }
}

TEST(voxel_limits_largest_nan) {
    float values[3 * 3] = {1, 2, 3, NAN, 9, -1, 5, 5, NAN};
    int32_t order[3] = {0, 1, 2}, begin[2] = {0, 3}, count = 1;
    uint32_t word = 0;
    float features[3];
    voxel_features_args<uint32_t> args = {};
    args.kind = voxel_feature_max;
    args.values = values;
    args.columns = args.channels = 3;
    args.rows = {nullptr, order, begin};
    args.set = {&word, &count, 1};
    args.features = features;
    REQUIRE_OK(voxel_features_host(&args));
    CHECK(float_is_nan(features[0]) && features[1] == 9 && float_is_nan(features[2]));
    args.max_points = 1;
    REQUIRE_OK(voxel_features_host(&args));
    CHECK(features[0] == 1 && features[1] == 2 && features[2] == 3);
}
