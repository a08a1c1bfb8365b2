// tests/host/voxel.cpp: voxel.h.
#include "../support/reference.h"
#include "../support/sets.h"

#include <map>
#include <tuple>

using namespace spira;

// Everything that a voxelisation writes, in buffers of the exact sizes.
template <typename W>
struct voxels {
    voxel_set<W> set;
    voxel_rows rows;
    device_status trouble;
    status returned;
};

template <typename W>
static voxels<W> voxelize_new(const word_layout *layout, const voxel_input *in, int32_t capacity) {
    voxels<W> v;
    v.set = {guarded_new<W>(capacity), guarded_new<int32_t>(1), capacity};
    v.rows = {guarded_new<int32_t>(in->rows), guarded_new<int32_t>(in->rows),
              guarded_new<int32_t>(capacity + 1)};
    v.trouble = {};
    size_t bytes = 0;
    CHECK_OK(voxelize_host_workspace<W>(in, &bytes));
    const voxelize_args<W> args = {layout, in, v.set, v.rows, &v.trouble};
    v.returned = voxelize_host(&args, guarded_new<char>((int64_t)bytes), bytes);
    return v;
}

static voxel_input input_coords(const int32_t *coords, const int32_t *count, int32_t rows,
                                int32_t columns = 3) {
    voxel_input in = {};
    in.coords = coords;
    in.count = count;
    in.rows = rows;
    in.columns = columns;
    return in;
}

static voxel_input input_points(const float *points, const int32_t *count, int32_t rows, float size,
                                int32_t columns = 3) {
    voxel_input in = {};
    in.points = points;
    in.count = count;
    in.rows = rows;
    in.columns = columns;
    for (int a = 0; a < 3; ++a) {
        in.size[a] = size;
    }
    return in;
}

using reference_cell = std::tuple<int, int, int, int>;

// Compares with voxels kept in a std::map, and checks the bookkeeping of rows against it.
// cells [count]: the voxel of each row, or batch -1 for a row that is dropped.
template <typename W>
static void check_voxels(const word_layout *layout, const voxels<W> &v,
                         const std::vector<reference_cell> &cells, int32_t rows) {
    REQUIRE_OK(v.returned);
    std::map<reference_cell, std::vector<int32_t>> expected;
    for (size_t i = 0; i < cells.size(); ++i) {
        if (std::get<0>(cells[i]) >= 0) {
            expected[cells[i]].push_back((int32_t)i);
        }
    }
    int32_t kept = (int32_t)min_of((int64_t)expected.size(), v.set.capacity);
    REQUIRE(CHECK_EQUAL(*v.set.count, kept));
    bool full = (int64_t)expected.size() > v.set.capacity;
    CHECK_EQUAL((v.trouble.flags & device_flag_capacity) != 0, full);
    CHECK_EQUAL(v.trouble.needed, full ? expected.size() : 0u);

    std::vector<int32_t> voxel_of((size_t)rows, -1);
    int32_t at = 0, begin = 0;
    for (const auto &cell : expected) {
        if (at == kept) {
            break;
        }
        auto [batch, x, y, z] = cell.first;
        CHECK_EQUAL(v.set.words[at], word_pack<W>(layout, {batch, x, y, z}));
        CHECK_EQUAL(v.rows.begin[at], begin);
        for (int32_t row : cell.second) { // ascending, as they came
            CHECK_EQUAL(v.rows.order[begin++], row);
            voxel_of[(size_t)row] = at;
        }
        ++at;
    }
    CHECK_EQUAL(v.rows.begin[kept], begin);
    CHECK(std::equal(voxel_of.begin(), voxel_of.end(), v.rows.voxel));
    CHECK(std::is_sorted(v.set.words, v.set.words + v.set.capacity));
    for (int32_t i = kept; i < v.set.capacity; ++i) {
        CHECK_EQUAL(v.set.words[i], word_none<W>());
    }
}

template <typename W>
static void check_random_coords(uint64_t seed) {
    random_state r = random_make(seed);
    for (int i = 0; i < 100; ++i) {
        int lo = random_int(&r, -40, 10), hi = lo + random_int(&r, 0, 12);
        int batches = random_int(&r, 1, 4);
        word_layout l =
            reference_layout<W>({lo, lo, lo}, {hi, hi, hi}, batches, {2, 2, 2}, {1, 1, 1});
        int32_t rows = random_int(&r, 1, 600), count = random_int(&r, 0, rows);
        int32_t columns = random_int(&r, 3, 5);
        int32_t *coords = guarded_new<int32_t>((int64_t)rows * columns);
        int32_t *batch = random_int(&r, 0, 1) || batches > 1 ? guarded_new<int32_t>(rows) : nullptr;
        std::vector<reference_cell> cells;
        uint32_t first_range = 0, first_duplicate = 0;
        std::map<reference_cell, int> seen;
        for (int32_t j = 0; j < count; ++j) {
            int32_t *c = coords + (int64_t)j * columns;
            voxel v = {random_int(&r, 0, batches - 1), random_int(&r, lo, hi),
                       random_int(&r, lo, hi), random_int(&r, lo, hi)};
            if (i % 3 == 0 && random_int(&r, 0, 50) == 0) {
                v.y = random_int(&r, 0, 1) ? l.hi.y + 1 : l.lo.y - 1;
            }
            c[0] = v.x, c[1] = v.y, c[2] = v.z;
            if (batch) {
                batch[j] = v.batch;
            }
            bool inside = word_contains(&l, v);
            reference_cell cell = {inside ? v.batch : -1, v.x, v.y, v.z};
            cells.push_back(cell);
            if (!inside) {
                first_range = first_range ? first_range : UINT32_MAX - (uint32_t)j;
            } else if (seen[cell]++) {
                first_duplicate = first_duplicate ? first_duplicate : UINT32_MAX - (uint32_t)j;
            }
        }
        voxel_input in = input_coords(coords, &count, rows, columns);
        in.batch = batch;
        in.duplicates = random_int(&r, 0, 1) ? duplicates_report : duplicates_merge;
        int32_t capacity = random_int(&r, 1, rows + 5);
        voxels<W> v = voxelize_new<W>(&l, &in, capacity);
        check_voxels(&l, v, cells, rows);
        CHECK_EQUAL(v.trouble.first_range, first_range);
        CHECK_EQUAL((v.trouble.flags & device_flag_range) != 0, first_range != 0);
        uint32_t reported = in.duplicates == duplicates_report ? first_duplicate : 0;
        CHECK_EQUAL(v.trouble.first_duplicate, reported);
        CHECK_EQUAL((v.trouble.flags & device_flag_duplicate) != 0, reported != 0);
        guarded_finish();
    }
}

TEST(voxelize_random_coords_32) {
    check_random_coords<uint32_t>(1);
}

TEST(voxelize_random_coords_64) {
    check_random_coords<uint64_t>(2);
}

TEST(voxelize_random_points) {
    random_state r = random_make(3);
    for (int i = 0; i < 100; ++i) {
        const float size = i % 2 ? 0.05f : 0.25f * (float)random_int(&r, 1, 8);
        int32_t rows = random_int(&r, 1, 500), count = rows, columns = random_int(&r, 3, 6);
        float *points = guarded_new<float>((int64_t)rows * columns);
        for (int64_t j = 0; j < (int64_t)rows * columns; ++j) {
            points[j] = 20 * size * random_float(&r);
        }
        voxel_input in = input_points(points, &count, rows, size, columns);
        in.size[2] = 2 * size;
        in.origin[0] = -size;
        in.origin[1] = 3 * size;
        float lo[3] = {-20 * size, -20 * size, -20 * size},
              hi[3] = {20 * size, 20 * size, 20 * size};
        word_need need = word_need_of({}, {}, 1, {4, 4, 4}, {2, 2, 2});
        REQUIRE_OK(voxel_bounds(lo, hi, in.size, in.origin, &need));
        word_layout l;
        REQUIRE_OK(word_fit(&need, &l));
        std::vector<reference_cell> cells;
        for (int32_t j = 0; j < rows; ++j) {
            int index[3];
            for (int a = 0; a < 3; ++a) {
                float p = points[(int64_t)j * columns + a];
                index[a] = (int)floorf((p - in.origin[a]) / in.size[a]);
            }
            cells.push_back({0, index[0], index[1], index[2]});
        }
        voxels<uint32_t> v = voxelize_new<uint32_t>(&l, &in, rows);
        check_voxels(&l, v, cells, rows);
        CHECK_EQUAL(v.trouble.flags, 0u);
        guarded_finish();
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

static word_layout layout_small() {
    return reference_layout<uint32_t>({-4, -4, -4}, {11, 11, 11}, 2, {4, 4, 4}, {2, 2, 2});
}

TEST(voxelize_nothing_and_one) {
    word_layout l = layout_small();
    const int32_t coords[3] = {-4, 0, 11};
    for (int32_t count : {0, 1}) {
        voxel_input in = input_coords(coords, &count, 1);
        for (int32_t capacity : {1, 2, 300}) {
            voxels<uint32_t> v = voxelize_new<uint32_t>(&l, &in, capacity);
            std::vector<reference_cell> cells((size_t)count, reference_cell{0, -4, 0, 11});
            check_voxels(&l, v, cells, 1);
            CHECK_EQUAL(v.trouble.flags, 0u);
        }
    }
}

TEST(voxelize_drops_what_is_not_finite) {
    word_layout l = layout_small();
    for (float bad : {NAN, INFINITY, -INFINITY}) {
        for (int axis = 0; axis < 3; ++axis) {
            float points[5 * 3] = {1, 1, 1, 1, 1, 2, 1, 1, 3, 1, 1, 4, 1, 1, 5};
            points[2 * 3 + axis] = bad;
            points[3 * 3 + axis] = NAN;
            points[4 * 3] = 1e6f; // out of range, later: not finite is the graver
            int32_t count = 5;
            voxel_input in = input_points(points, &count, 5, 1);
            voxels<uint32_t> v = voxelize_new<uint32_t>(&l, &in, 5);
            check_voxels(&l, v,
                         {{0, 1, 1, 1}, {0, 1, 1, 2}, {-1, 0, 0, 0}, {-1, 0, 0, 0}, {-1, 0, 0, 0}},
                         5);
            CHECK_EQUAL(v.trouble.flags, (uint32_t)(device_flag_not_finite | device_flag_range));
            status s = device_status_read(&v.trouble);
            CHECK_STATUS(s, status_not_finite);
            CHECK_EQUAL(s.detail, 2);
            CHECK_EQUAL(v.trouble.first_range, UINT32_MAX - 4);
        }
    }
}

TEST(voxelize_drops_what_is_out_of_range) {
    word_layout l = layout_small();
    float points[4 * 3] = {1, 1, 1, 0, 0, 0, 0, 0, 0, 2, 2, 2};
    for (float bad : {-5.0f, -1e9f, 1e9f, -3e38f, 3e38f}) {
        for (int axis = 0; axis < 3; ++axis) {
            std::fill(points + 3, points + 9, 0.0f);
            points[3 + axis] = points[6 + axis] = bad;
            int32_t count = 4;
            voxel_input in = input_points(points, &count, 4, 1);
            voxels<uint32_t> v = voxelize_new<uint32_t>(&l, &in, 4);
            check_voxels(&l, v, {{0, 1, 1, 1}, {-1, 0, 0, 0}, {-1, 0, 0, 0}, {0, 2, 2, 2}}, 4);
            status s = device_status_read(&v.trouble);
            CHECK_STATUS(s, status_out_of_range);
            CHECK_EQUAL(s.detail, 1);
        }
    }
    const int32_t coords[4 * 3] = {1, 1, 1, 0, INT32_MAX, 0, INT32_MIN, 0, 0, 2, 2, 2};
    const int32_t batch[4] = {0, 0, 0, 2}; // the last one is a batch that there is not
    int32_t count = 4;
    voxel_input in = input_coords(coords, &count, 4);
    in.batch = batch;
    voxels<uint32_t> v = voxelize_new<uint32_t>(&l, &in, 4);
    check_voxels(&l, v, {{0, 1, 1, 1}, {-1, 0, 0, 0}, {-1, 0, 0, 0}, {-1, 0, 0, 0}}, 4);
    CHECK_EQUAL(device_status_read(&v.trouble).detail, 1);
}

TEST(voxelize_reports_the_first_duplicate) {
    word_layout l = layout_small();
    // The row that repeats an earlier one first is 3, though row 4 repeats a smaller voxel.
    const int32_t coords[6 * 3] = {9, 9, 9, 1, 1, 1, 5, 5, 5, 9, 9, 9, 1, 1, 1, 9, 9, 9};
    const int32_t count = 6;
    voxel_input in = input_coords(coords, &count, 6);
    for (int report = 0; report < 2; ++report) {
        in.duplicates = report ? duplicates_report : duplicates_merge;
        voxels<uint32_t> v = voxelize_new<uint32_t>(&l, &in, 6);
        check_voxels(
            &l, v,
            {{0, 9, 9, 9}, {0, 1, 1, 1}, {0, 5, 5, 5}, {0, 9, 9, 9}, {0, 1, 1, 1}, {0, 9, 9, 9}},
            6);
        status s = device_status_read(&v.trouble);
        CHECK_STATUS(s, report ? status_duplicate : status_ok);
        CHECK_EQUAL(s.detail, report ? 3 : 0);
    }
    const int32_t batch[6] = {0, 0, 0, 1, 1, 0}; // in another batch it is another voxel
    in.batch = batch;
    voxels<uint32_t> v = voxelize_new<uint32_t>(&l, &in, 6);
    CHECK_EQUAL(*v.set.count, 5);
    CHECK_EQUAL(device_status_read(&v.trouble).detail, 5);
}

TEST(voxelize_at_its_capacity) {
    word_layout l = layout_small();
    int32_t coords[50 * 3];
    std::vector<reference_cell> cells;
    for (int i = 0; i < 50; ++i) { // 40 voxels
        int c[3] = {i % 40 / 8, i % 8, 3};
        std::copy(c, c + 3, coords + 3 * i);
        cells.push_back({0, c[0], c[1], c[2]});
    }
    const int32_t count = 50;
    voxel_input in = input_coords(coords, &count, 50);
    for (int32_t capacity : {1, 39, 40, 41, 50, 1000}) {
        voxels<uint32_t> v = voxelize_new<uint32_t>(&l, &in, capacity);
        check_voxels(&l, v, cells, 50);
        status s = device_status_read(&v.trouble);
        CHECK_STATUS(s, capacity < 40 ? status_capacity : status_ok);
        CHECK_EQUAL(s.detail, capacity < 40 ? 40 : 0);
    }
}

TEST(voxelize_refuses) {
    word_layout l = layout_small();
    const float points[6] = {0, 0, 0, 1, 1, 1};
    const int32_t coords[6] = {0, 0, 0, 1, 1, 1}, count = 2;
    const voxel_input from_coords = input_coords(coords, &count, 2);
    const voxel_input from_points = input_points(points, &count, 2, 1);
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
    // Indices that are ints each, though the words have no room for them.
    const float fine[3] = {1e-7f, 1e-7f, 1e-7f};
    REQUIRE_OK(voxel_bounds(lo, hi, fine, origin, &need));
    need.batches = 1;
    need.stride = {1, 1, 1};
    word_layout l;
    CHECK_STATUS(word_fit(&need, &l), status_bits);
}

// ---- features -----------------------------------------------------------------------------------

TEST(voxel_features_mean_and_first) {
    random_state r = random_make(5);
    word_layout l = reference_layout<uint32_t>({0, 0, 0}, {5, 5, 5}, 1, {1, 1, 1}, {1, 1, 1});
    const int32_t rows = 500;
    const int columns = 5;
    int32_t coords[rows * 3];
    float values[rows * columns];
    for (int32_t &c : coords) {
        c = random_int(&r, 0, 5);
    }
    for (float &v : values) {
        v = random_float(&r);
    }
    voxel_input in = input_coords(coords, &rows, rows);
    for (int32_t capacity : {rows, 60}) { // also with voxels that do not fit
        voxels<uint32_t> v = voxelize_new<uint32_t>(&l, &in, capacity);
        const int32_t count = *v.set.count;
        for (numeric type : {numeric_f32, numeric_f16, numeric_bf16}) {
            for (int channels : {1, 3, 5}) {
                for (voxel_feature kind : {voxel_feature_mean, voxel_feature_first}) {
                    char *features =
                        guarded_new<char>((int64_t)count * channels * numeric_size(type));
                    voxel_features_args<uint32_t> args = {};
                    args.kind = kind;
                    args.values = values;
                    args.columns = columns;
                    args.channels = channels;
                    args.rows = v.rows;
                    args.set = v.set;
                    args.type = type;
                    args.features = features;
                    REQUIRE_OK(voxel_features_host(&args));
                    std::vector<double> sum((size_t)(count * channels));
                    std::vector<int> taken((size_t)count);
                    for (int32_t row = 0; row < rows; ++row) {
                        int32_t at = v.rows.voxel[row];
                        if (at < 0 || (kind == voxel_feature_first && taken[(size_t)at])) {
                            continue;
                        }
                        ++taken[(size_t)at];
                        for (int c = 0; c < channels; ++c) {
                            sum[(size_t)(at * channels + c)] += (double)values[row * columns + c];
                        }
                    }
                    for (int32_t i = 0; i < count * channels; ++i) {
                        double mean = sum[(size_t)i] / taken[(size_t)(i / channels)];
                        double got = (double)numeric_load(type, features, i);
                        double bound = numeric_epsilon(type) * fabs(mean) + 2e-6;
                        if (kind == voxel_feature_first) {
                            CHECK_EQUAL(got, (double)numeric_stored(type, (float)mean));
                        }
                        CHECK(fabs(got - mean) <= bound);
                    }
                }
            }
        }
    }
}

// ---- the real scan ------------------------------------------------------------------------------

TEST(voxelize_kitti) {
    std::vector<char> bytes = reference_file("kitti00_000000.bin");
    if (bytes.empty()) {
        SKIP("data/kitti00_000000.bin is not here");
    }
    const int32_t rows = (int32_t)(bytes.size() / 16);
    CHECK_EQUAL(rows, 124668);
    std::vector<float> points((size_t)rows * 4);
    memcpy(points.data(), bytes.data(), points.size() * 4);
    float lo[3] = {0, 0, 0}, hi[3] = {0, 0, 0};
    for (size_t i = 0; i < points.size(); ++i) {
        if (i % 4 < 3) {
            lo[i % 4] = std::min(lo[i % 4], points[i]);
            hi[i % 4] = std::max(hi[i % 4], points[i]);
        }
    }
    voxel_input in = input_points(points.data(), &rows, rows, 0.05f, 4);
    word_need need = word_need_of({}, {}, 1, {8, 8, 8}, {8, 8, 8});
    REQUIRE_OK(voxel_bounds(lo, hi, in.size, in.origin, &need));
    word_layout l;
    REQUIRE_OK(word_fit(&need, &l));
    CHECK_EQUAL(l.bits, 32);
    voxels<uint32_t> v = voxelize_new<uint32_t>(&l, &in, rows);
    REQUIRE_OK(v.returned);
    CHECK_EQUAL(*v.set.count, 91767);
    CHECK_EQUAL(v.trouble.flags, 0u);
    CHECK_EQUAL(v.rows.begin[91767], rows);
    CHECK(std::is_sorted(v.set.words, v.set.words + 91767, std::less_equal<uint32_t>()));
    // One stray point far below the ground: for stride 16 the margins want one bit too many.
    need.stride = need.reach = {16, 16, 16};
    REQUIRE_OK(word_fit(&need, &l));
    CHECK_EQUAL(word_bits(&l), 33);
    voxels<uint64_t> w = voxelize_new<uint64_t>(&l, &in, 91767); // no room to spare
    REQUIRE_OK(w.returned);
    CHECK_EQUAL(*w.set.count, 91767);
    CHECK_EQUAL(w.trouble.flags, 0u);
    CHECK(std::equal(w.rows.voxel, w.rows.voxel + rows, v.rows.voxel));
}
