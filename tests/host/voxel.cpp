// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/host/voxel.cpp: voxel.h.
#include "../support/voxels.h"

using namespace spira;

static voxel_input input_coords(const int32_t *coords, const int32_t *count, int32_t rows) {
    voxel_input in = {};
    in.coords = coords;
    in.count = count;
    in.rows = rows;
    in.columns = 3;
    return in;
}

static word_layout layout_small() {
    return reference_layout<uint32_t>({-4, -4, -4}, {11, 11, 11}, 2, {4, 4, 4}, {2, 2, 2});
}

template <typename W>
static void check_case(voxel_case *c) {
    CHECK_EQUAL(voxels_difference(voxels_on_host<W>(c), voxels_wanted<W>(*c), *c), "");
    guarded_finish();
}

TEST(voxelize_every_case_32) {
    voxel_cases<uint32_t>(4097, check_case<uint32_t>);
}

TEST(voxelize_every_case_64) {
    voxel_cases<uint64_t>(4097, check_case<uint64_t>);
}

TEST(voxelize_drops_what_is_not_finite) {
    voxel_cases_not_finite<uint32_t>(check_case<uint32_t>);
}

// No return is no error, and hides none; nor does an error.
TEST(voxelize_finds_all_conditions) {
    for (bool dropped : {false, true}) {
        voxel_case c = voxel_case_troubled<uint32_t>();
        c.in.drop_not_finite = dropped;
        check_case<uint32_t>(&c);
        voxel_check_troubles(voxels_on_host<uint32_t>(&c).trouble, dropped);
    }
}

// A NaN in another column than x, y, z is the caller's: it goes into the features of its voxel, and
// of no other.
TEST(voxel_features_pass_on_what_is_not_finite) {
    voxel_case c = {};
    c.layout = layout_small();
    c.points = {1, 1, 1, 5, 2, 2, 2, NAN, 2, 2, 2, 3, NAN, 1, 1, 7, 1, 1, 1, 9};
    c.count = c.capacity = c.in.rows = 5;
    c.in.columns = 4;
    std::fill(c.in.size, c.in.size + 3, 1.0f);
    c.in.drop_not_finite = true;
    const voxels<uint32_t> v = voxels_on_host<uint32_t>(&c);
    REQUIRE(CHECK_EQUAL(*v.set.count, 2));
    CHECK_OK(device_status_read(&v.trouble));
    CHECK(v.trouble.dropped_not_finite == 1 && v.rows.voxel[3] == -1);
    for (voxel_feature kind : {voxel_feature_mean, voxel_feature_first, voxel_feature_max}) {
        float features[8];
        voxel_features_args<uint32_t> args = {};
        args.kind = kind;
        args.values = c.points.data();
        args.columns = args.channels = 4;
        args.rows = v.rows;
        args.set = v.set;
        args.type = numeric_f32;
        args.features = features;
        REQUIRE_OK(voxel_features_host(&args));
        CHECK_EQUAL(features[3], kind == voxel_feature_mean  ? 7.0f
                                 : kind == voxel_feature_max ? 9.0f
                                                             : 5.0f);
        CHECK(float_is_nan(features[7]) && features[4] == 2.0f);
    }
}

// Rounded first, these points would share voxels: the steps of float are 0.06 and 0.5 m there.
TEST(voxel_shift_keeps_all_voxels) {
    const std::vector<double> from = voxel_utm_points();
    const int32_t count = voxel_utm_rows + 1;
    float *points = guarded_new<float>(4 * count);
    const voxel_shift_args good = voxel_utm_shift(from.data(), &count, points);
    REQUIRE_OK(voxel_shift_host(&good));
    CHECK_EQUAL(points[4 * 100 + 3], (float)(1e6 + 25));
    voxel_case c = voxel_utm_case<uint32_t>(points);
    const voxels<uint32_t> v = voxels_on_host<uint32_t>(&c);
    CHECK_EQUAL(*v.set.count, (int)voxel_utm_rows);
    CHECK_OK(device_status_read(&v.trouble));
    CHECK_EQUAL(v.trouble.dropped_not_finite, 1u);

    float *few = guarded_new<float>(4 * count);
    for (int32_t rows : {-1, 0, 5}) { // the count counts
        voxel_shift_args a = voxel_utm_shift(from.data(), &rows, few);
        REQUIRE_OK(voxel_shift_host(&a));
        CHECK(guarded_untouched(few, 4 * std::max(rows, 0), 4 * count));
    }
    CHECK(std::equal(few, few + 20, points));
    voxel_shift_args a;
#define REFUSED(code, name, change)                                                                \
    a = good;                                                                                      \
    change;                                                                                        \
    CHECK_STATUS(voxel_shift_host(&a), code);                                                      \
    CHECK(strstr(voxel_shift_host(&a).subject, name))
    REFUSED(status_null_pointer, "from", a.from = nullptr);
    REFUSED(status_alignment, "from", a.from = (const double *)((const char *)a.from + 4));
    REFUSED(status_null_pointer, "count", a.count = nullptr);
    REFUSED(status_null_pointer, "points", a.points = nullptr);
    REFUSED(status_bad_size, "rows", a.rows = 0);
    REFUSED(status_bad_size, "columns", a.columns = 2);
    REFUSED(status_grid, "origin", a.origin[2] = (double)NAN);
#undef REFUSED
}

// By hand. The row that repeats an earlier one first is 3, though row 4 repeats a smaller voxel.
TEST(voxelize_by_hand) {
    const voxel a = {0, 9, 9, 9}, b = {0, 1, 1, 1}, low = {0, 5, -5, 5};
    voxel_case c = voxel_case_of(layout_small(), {a, b, {0, 5, 5, 5}, a, b, a, low});
    c.in.duplicates = duplicates_report;
    for (int32_t capacity : {2, 3, 7}) {
        c.capacity = capacity;
        const voxels<uint32_t> v = voxels_on_host<uint32_t>(&c);
        const int32_t voxel[] = {capacity < 3 ? -1 : 2, 0, 1, capacity < 3 ? -1 : 2, 0};
        const int32_t order[] = {1, 4, 2, 0, 3, 5}, begin[] = {0, 2, 3, 6};
        REQUIRE(CHECK_EQUAL(*v.set.count, std::min(capacity, 3)));
        CHECK_EQUAL(v.set.words[0], word_pack<uint32_t>(&c.layout, b));
        CHECK(std::equal(voxel, voxel + 5, v.rows.voxel) && v.rows.voxel[6] == -1);
        CHECK(std::equal(begin, begin + std::min(capacity, 3) + 1, v.rows.begin));
        CHECK(std::equal(order, order + v.rows.begin[*v.set.count], v.rows.order));
        CHECK_EQUAL(v.trouble.first_duplicate, UINT32_MAX - 3);
        CHECK_EQUAL(v.trouble.first_range, UINT32_MAX - 6);
        CHECK_EQUAL(v.trouble.needed, capacity < 3 ? 3u : 0u);
    }
}

// Cells are half-open: a point on an edge belongs to the cell above, also below zero.
TEST(voxelize_floors) {
    const float points[] = {0,    0,     0,     0.5f, 0.49f,  1.0f,  -0.001f,
                            0.5f, -0.5f, -0.5f, 0,    -0.51f, -0.0f, 0};
    const int index[] = {0, 0, 0, 1, 0, 2, -1, 1, -1, -1, 0, -2, 0, 0};
    for (int i = 0; i < 14; ++i) {
        int got;
        CHECK(voxel_quantise(points[i], 0, 0.5f, &got));
        CHECK_EQUAL(got, index[i]);
    }
}

TEST(voxelize_refuses) {
    word_layout l = layout_small();
    const float points[6] = {0, 0, 0, 1, 1, 1};
    const int32_t coords[6] = {0, 0, 0, 1, 1, 1}, count = 2;
    const voxel_input from_coords = input_coords(coords, &count, 2);
    voxel_input from_points = from_coords;
    from_points.coords = nullptr;
    from_points.points = points;
    std::fill(from_points.size, from_points.size + 3, 1.0f);
    voxel_set<uint32_t> set = {guarded_new<uint32_t>(2), guarded_new<int32_t>(1), 2};
    voxel_rows rows = {guarded_new<int32_t>(2), guarded_new<int32_t>(2), guarded_new<int32_t>(3)};
    device_status trouble = {};
    size_t bytes = 0;
    CHECK_STATUS(voxelize_host_workspace<uint32_t>(nullptr, &bytes), status_null_pointer);
    CHECK_STATUS(voxelize_host_workspace<uint32_t>(&from_coords, nullptr), status_null_pointer);
    CHECK_OK(voxelize_host_workspace<uint32_t>(&from_coords, &bytes));
    char *scratch = guarded_new<char>((int64_t)bytes);
    CHECK(bytes >= 2 * 8);

    struct call {
        voxelize_args<uint32_t> a; // but for its input
        voxel_input in;
        void *scratch;
        size_t bytes;
    };
    const call good = {{&l, nullptr, set, rows, &trouble}, from_coords, scratch, bytes};
    auto run = [](call c) {
        c.a.input = &c.in;
        return voxelize_host(&c.a, c.scratch, c.bytes);
    };
    call c;
#define REFUSED(code, change)                                                                      \
    c = good;                                                                                      \
    change;                                                                                        \
    CHECK_STATUS(run(c), code)
    REFUSED(status_null_pointer, c.a.layout = nullptr);
    REFUSED(status_null_pointer, c.in.coords = nullptr);
    REFUSED(status_null_pointer, c.in.count = nullptr);
    REFUSED(status_null_pointer, c.a.set.words = nullptr);
    REFUSED(status_null_pointer, c.a.set.count = nullptr);
    REFUSED(status_null_pointer, c.a.rows.voxel = nullptr);
    REFUSED(status_null_pointer, c.a.rows.order = nullptr);
    REFUSED(status_null_pointer, c.a.rows.begin = nullptr);
    REFUSED(status_null_pointer, c.a.trouble = nullptr);
    REFUSED(status_null_pointer, c.scratch = nullptr);
    REFUSED(status_alignment, c.in.coords = misaligned(coords));
    REFUSED(status_alignment, (c.in = from_points, c.in.points = misaligned(points)));
    REFUSED(status_alignment, c.in.count = misaligned(&count));
    REFUSED(status_alignment, c.in.batch = misaligned(&count));
    REFUSED(status_alignment, c.a.set.words = misaligned(set.words));
    REFUSED(status_alignment, c.a.set.count = misaligned(set.count));
    REFUSED(status_alignment, c.a.rows.voxel = misaligned(rows.voxel));
    REFUSED(status_alignment, c.a.rows.order = misaligned(rows.order));
    REFUSED(status_alignment, c.a.rows.begin = misaligned(rows.begin));
    REFUSED(status_alignment, c.a.trouble = misaligned(&trouble));
    REFUSED(status_unsupported, c.in.points = points);
    REFUSED(status_unsupported, c.in.drop_not_finite = true); // of coordinates
    REFUSED(status_alignment, c.scratch = scratch + 1);
    REFUSED(status_workspace, --c.bytes);
    CHECK_EQUAL(run(c).detail, (int64_t)bytes);
    REFUSED(status_workspace, c.bytes = 0);
    for (int32_t bad : {0, -1, INT32_MIN}) {
        REFUSED(status_bad_size, c.in.rows = bad);
        REFUSED(status_bad_size, c.a.set.capacity = bad);
        REFUSED(status_bad_size, c.in.columns = bad);
    }
    REFUSED(status_bad_size, c.in.columns = 2);
    for (int axis = 0; axis < 3; ++axis) {
        for (float bad : {0.0f, -0.0f, -1.0f, (float)NAN, (float)INFINITY, (float)-INFINITY}) {
            REFUSED(status_grid, (c.in = from_points, c.in.size[axis] = bad));
            CHECK_EQUAL(run(c).detail, axis);
        }
        for (float bad : {(float)NAN, (float)INFINITY}) {
            REFUSED(status_grid, (c.in = from_points, c.in.origin[axis] = bad));
        }
    }
#undef REFUSED
    CHECK_STATUS(voxelize_host(&good.a, scratch, bytes), status_null_pointer); // no input
    const voxelize_args<uint32_t> *none = nullptr;
    CHECK_STATUS(voxelize_host(none, scratch, bytes), status_null_pointer);
    word_layout wide = word_widen(l);
    c = good;
    c.a.layout = &wide;
    CHECK_STATUS(run(c), status_unsupported);
    // Nothing was written, not even in part.
    CHECK(guarded_untouched(set.words, 0, 2) && guarded_untouched(set.count, 0, 1));
    CHECK(guarded_untouched(rows.voxel, 0, 2) && guarded_untouched(rows.begin, 0, 3));
    CHECK_EQUAL(trouble.flags, 0u);
    CHECK_OK(run(good));
}

TEST(voxel_bounds_refuses) {
    const float lo[3] = {-10, -20, -30}, hi[3] = {10, 20, 30}, one[3] = {1, 2, 3};
    const float origin[3] = {0, 0, 0};
    word_need need = {};
    REQUIRE_OK(voxel_bounds(lo, hi, one, origin, &need));
    CHECK(triple_equal(need.lo, {-10, -10, -10}) && triple_equal(need.hi, {10, 10, 10}));
    CHECK_STATUS(voxel_bounds(nullptr, hi, one, origin, &need), status_null_pointer);
    CHECK_STATUS(voxel_bounds(lo, nullptr, one, origin, &need), status_null_pointer);
    CHECK_STATUS(voxel_bounds(lo, hi, nullptr, origin, &need), status_null_pointer);
    CHECK_STATUS(voxel_bounds(lo, hi, one, nullptr, &need), status_null_pointer);
    CHECK_STATUS(voxel_bounds(lo, hi, one, origin, nullptr), status_null_pointer);
    for (int axis = 0; axis < 3; ++axis) {
        for (float bad : {0.0f, -1.0f, (float)NAN, (float)INFINITY, 1e-9f, 1e-40f}) {
            float size[3] = {1, 1, 1};
            size[axis] = bad;
            status s = voxel_bounds(lo, hi, size, origin, &need);
            CHECK_STATUS(s, status_grid);
            CHECK_EQUAL(s.detail, axis);
        }
        float bad[3] = {0, 0, 0};
        bad[axis] = NAN;
        CHECK_STATUS(voxel_bounds(bad, hi, one, origin, &need), status_grid);
        CHECK_STATUS(voxel_bounds(lo, bad, one, origin, &need), status_grid);
        CHECK_STATUS(voxel_bounds(lo, hi, one, bad, &need), status_grid);
    }
    voxel_input in = {};
    REQUIRE_OK(voxel_range(lo, hi, one, &in));
    CHECK(triple_equal(in.extent, {20, 20, 20}));
    for (float bad : {(float)NAN, (float)INFINITY, (float)-INFINITY}) {
        const float off[3] = {0, bad, 0};
        CHECK_STATUS(voxel_range(off, hi, one, &in), status_grid);
        CHECK_STATUS(voxel_range(lo, off, one, &in), status_grid);
        CHECK_STATUS(voxel_range(lo, hi, off, &in), status_grid);
    }
    // In UTM the step of float is half a metre, whatever the size is; one point far off is none.
    const float far_lo[3] = {-10, 5400000, -30}, far_hi[3] = {10, 5400020, 30};
    const float fine_size[3] = {0.4f, 0.4f, 0.4f};
    const status step = voxel_bounds(far_lo, far_hi, fine_size, far_lo, &need);
    CHECK_STATUS(step, status_grid);
    CHECK(step.detail == 1 && strstr(step.subject, "voxel_shift"));
    CHECK_STATUS(voxel_range(far_lo, far_hi, fine_size, &in), status_grid);
    CHECK_EQUAL(voxel_range(far_lo, far_hi, fine_size, &in).detail, 1);
    CHECK_STATUS(voxel_range(lo, far_hi, fine_size, &in), status_grid);
    CHECK_OK(voxel_bounds(lo, far_hi, fine_size, origin, &need));
    REQUIRE_OK(voxel_range(far_lo, far_hi, one, &in)); // two steps along y
    // Indices that are ints each, though the words have no room for them.
    const float fine[3] = {1e-5f, 1e-5f, 1e-5f};
    REQUIRE_OK(voxel_bounds(lo, hi, fine, origin, &need));
    need.batches = 1;
    need.stride = {1, 1, 1};
    word_layout l;
    CHECK_STATUS(word_fit(&need, &l), status_bits);
}

// ---- the real scan ------------------------------------------------------------------------------

TEST(voxelize_kitti) {
    NEED_SCANS("kitti00_000000.bin");
    voxel_case c;
    word_need need = scan_read("kitti00_000000.bin", 4, 0.05f, &c);
    const int32_t rows = c.in.rows;
    CHECK_EQUAL(rows, 124668);
    need.stride = need.reach = {8, 8, 8};
    REQUIRE_OK(word_fit(&need, &c.layout));
    CHECK_EQUAL(c.layout.bits, 32);
    const voxels<uint32_t> v = voxels_on_host<uint32_t>(&c);
    CHECK_EQUAL(*v.set.count, 91767);
    CHECK_EQUAL(v.trouble.flags, 0u);
    CHECK_EQUAL(v.rows.begin[91767], rows);
    CHECK(std::is_sorted(v.set.words, v.set.words + 91767, std::less_equal<uint32_t>()));
    // One stray point far below the ground: for stride 16 the margins want one bit too many.
    need.stride = need.reach = {16, 16, 16};
    REQUIRE_OK(word_fit(&need, &c.layout));
    CHECK_EQUAL(word_bits(&c.layout), 33);
    c.capacity = 91767; // no room to spare
    const voxels<uint64_t> w = voxels_on_host<uint64_t>(&c);
    CHECK_EQUAL(*w.set.count, 91767);
    CHECK_EQUAL(w.trouble.flags, 0u);
    CHECK(std::equal(w.rows.voxel, w.rows.voxel + rows, v.rows.voxel));
}
