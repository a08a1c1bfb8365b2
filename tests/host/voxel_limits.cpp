// tests/host/voxel_limits.cpp: the range and the cap of a voxelisation and the features of limited
// voxels: host loops against an independent voxelisation, kernels (emulated) against host loops.
#include "../support/reference.h"
#include "../support/sets.h"

#include "../support/emulate_numeric.h"

#include "../../spira/index/unique.cuh"
#include "../../spira/voxel/cap.cuh"
#include "../../spira/voxel/source.cuh"
#include "../../spira/voxel_features.cuh"

#include <map>
#include <tuple>

using namespace spira;

namespace {

template <typename W>
struct voxels {
    voxel_set<W> set;
    voxel_rows rows;
    device_status trouble;
    status returned;
};

template <typename W>
voxels<W> voxels_new(const voxel_input *in, int32_t capacity) {
    voxels<W> v;
    v.set = {guarded_new<W>(capacity), guarded_new<int32_t>(1), capacity};
    v.rows = {guarded_new<int32_t>(in->rows), guarded_new<int32_t>(in->rows),
              guarded_new<int32_t>(capacity + 1)};
    v.trouble = {};
    v.returned = status_success();
    return v;
}

template <typename W>
voxels<W> voxelize_on_host(const word_layout *layout, const voxel_input *in, int32_t capacity) {
    voxels<W> v = voxels_new<W>(in, capacity);
    size_t bytes = 0;
    CHECK_OK(voxelize_host_workspace<W>(in, &bytes));
    const voxelize_args<W> args = {layout, in, v.set, v.rows, &v.trouble};
    v.returned = voxelize_host(&args, guarded_new<char>((int64_t)bytes), bytes);
    return v;
}

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
voxels<W> voxelize_emulated(const word_layout *layout, const voxel_input *in, int32_t capacity) {
    voxels<W> v = voxels_new<W>(in, capacity);
    cap_scratch<W> cap;
    workspace w = workspace_begin(nullptr);
    cap_carve(&w, in, &cap);
    w = workspace_begin(guarded_new<char>((int64_t)w.used));
    cap_carve(&w, in, &cap);
    W *words = guarded_new<W>(in->rows), *sorted = guarded_new<W>(in->rows);
    const bool ranged = voxel_is_ranged(in);
    (in->points ? ranged ? words_of<W, true, true> : words_of<W, true, false>
     : ranged ? words_of<W, false, true>
                : words_of<W, false, false>)(layout, in, &v.trouble, words);
    W *to = cap.sorted ? cap.sorted : sorted;
    int32_t *order = cap.sorted ? cap.order : v.rows.order;
    for (int32_t i = 0; i < in->rows; ++i) {
        order[i] = i;
    }
    std::stable_sort(order, order + in->rows,
                     [&](int32_t a, int32_t b) { return words[a] < words[b]; });
    for (int32_t i = 0; i < in->rows; ++i) {
        to[i] = words[order[i]];
    }
    if (cap.sorted) {
        cap_task<W> task = cap_task_make(layout, in, cap);
        task.sorted = sorted;
        task.order = v.rows.order;
        task.trouble = &v.trouble;
        CHECK_OK(cap_launch(task, nullptr));
    }
    int32_t *heads = guarded_new<int32_t>(unique_cut_make(in->rows, capacity).blocks);
    const bool report = in->duplicates == duplicates_report;
    v.returned =
        unique_launch<W>({sorted, in->rows, heads, v.set, v.rows, report, &v.trouble}, nullptr);
    return v;
}

// ---- an independent voxelisation ----------------------------------------------------------------

using cell = std::tuple<int, int, int, int>;

// As the engines do: row by row; a voxel that is not there yet is added while there is room.
struct engine_voxels {
    std::map<cell, std::vector<int32_t>> voxels;
    uint32_t outside, dropped_rows;
    std::map<cell, int> dropped;
};

// cells [rows]: batch -1 for a row that is outside, -2 for one that is at fault.
engine_voxels engine_voxelize(const std::vector<cell> &cells, int32_t max_voxels) {
    engine_voxels e = {};
    std::map<int, int> found; // of each batch index
    for (size_t i = 0; i < cells.size(); ++i) {
        const int batch = std::get<0>(cells[i]);
        e.outside += batch == -1;
        if (batch < 0) {
            continue;
        }
        if (!e.voxels.count(cells[i])) {
            if (max_voxels && found[batch] == max_voxels) {
                ++e.dropped[cells[i]];
                ++e.dropped_rows;
                continue;
            }
            ++found[batch];
        }
        e.voxels[cells[i]].push_back((int32_t)i);
    }
    return e;
}

template <typename W>
void check_voxels(const word_layout *layout, const voxels<W> &v, const engine_voxels &e,
                  int32_t rows) {
    REQUIRE_OK(v.returned);
    REQUIRE(CHECK_EQUAL((size_t)*v.set.count, e.voxels.size()));
    std::vector<int32_t> voxel_of((size_t)rows, -1);
    int32_t at = 0, begin = 0;
    for (const auto &voxel : e.voxels) {
        auto [batch, x, y, z] = voxel.first;
        CHECK_EQUAL(v.set.words[at], word_pack<W>(layout, {batch, x, y, z}));
        CHECK_EQUAL(v.rows.begin[at], begin);
        for (int32_t row : voxel.second) {
            CHECK_EQUAL(v.rows.order[begin++], row);
            voxel_of[(size_t)row] = at;
        }
        ++at;
    }
    CHECK_EQUAL(v.rows.begin[at], begin);
    CHECK(std::equal(voxel_of.begin(), voxel_of.end(), v.rows.voxel));
    for (; at < v.set.capacity; ++at) {
        CHECK_EQUAL(v.set.words[at], word_none<W>());
    }
    CHECK_EQUAL(v.trouble.outside, e.outside);
    CHECK_EQUAL(v.trouble.dropped_rows, e.dropped_rows);
    CHECK_EQUAL(v.trouble.dropped_voxels, e.dropped.size());
}

template <typename W>
bool same(const voxels<W> &a, const voxels<W> &b, int32_t rows) {
    const int32_t n = *b.set.count;
    return *a.set.count == n && memcmp(&a.trouble, &b.trouble, sizeof a.trouble) == 0 &&
           std::equal(b.set.words, b.set.words + b.set.capacity, a.set.words) &&
           std::equal(b.rows.voxel, b.rows.voxel + rows, a.rows.voxel) &&
           std::equal(b.rows.begin, b.rows.begin + n + 1, a.rows.begin) &&
           std::equal(b.rows.order, b.rows.order + b.rows.begin[n], a.rows.order);
}

// A scene of random rows. cells: what each row is.
struct scene {
    voxel_input in;
    int32_t count;
    word_layout layout;
    std::vector<cell> cells;
};

template <typename W>
void scene_make(random_state *r, int32_t rows, int batches, bool points, bool ranged, scene *s) {
    const triple extent = {random_int(r, 1, 30), random_int(r, 1, 20), random_int(r, 1, 6)};
    const int most[3] = {extent.x, extent.y, extent.z};
    s->layout = reference_layout<W>({0, 0, 0}, {extent.x - 1, extent.y - 1, extent.z - 1}, batches,
                                    {2, 2, 2}, {1, 1, 1});
    s->in = {};
    s->count = random_int(r, 0, 4) ? rows : random_int(r, 0, rows);
    s->cells.clear();
    const int columns = 3 + random_int(r, 0, 2);
    float *point = guarded_new<float>((int64_t)rows * columns);
    int32_t *coords = guarded_new<int32_t>((int64_t)rows * columns);
    int32_t *batch = batches > 1 ? guarded_new<int32_t>(rows) : nullptr;
    for (int a = 0; a < 3; ++a) {
        s->in.size[a] = 0.25f * (float)random_int(r, 1, 4);
        s->in.origin[a] = (float)random_int(r, -9, 9);
    }
    for (int32_t i = 0; i < s->count; ++i) {
        int index[3];
        bool inside = true;
        for (int a = 0; a < 3; ++a) {
            const int out = ranged && random_int(r, 0, 15) == 0;
            index[a] = !out                  ? random_int(r, 0, most[a] - 1)
                       : random_int(r, 0, 1) ? most[a] + random_int(r, 0, 3)
                                             : random_int(r, -4, -1);
            inside = inside && !out;
            coords[i * columns + a] = index[a];
            point[i * columns + a] = // exact; on the lower face now and then
                s->in.origin[a] +
                ((float)index[a] + 0.25f * (float)random_int(r, 0, 3)) * s->in.size[a];
        }
        const int b = batches > 1 ? random_int(r, 0, batches - 1) : 0;
        if (batch) {
            batch[i] = b;
        }
        s->cells.push_back({inside ? b : -1, index[0], index[1], index[2]});
        if (points && ranged && random_int(r, 0, 99) == 0) { // far out is outside
            point[i * columns + random_int(r, 0, 2)] = random_int(r, 0, 1) ? 3e38f : -1e12f;
            std::get<0>(s->cells.back()) = -1;
        } else if (points && random_int(r, 0, 99) == 0) { // an error
            point[i * columns + random_int(r, 0, 2)] = NAN;
            std::get<0>(s->cells.back()) = -2;
        }
    }
    s->in.points = points ? point : nullptr;
    s->in.coords = points ? nullptr : coords;
    s->in.batch = batch;
    s->in.rows = rows;
    s->in.columns = columns;
    s->in.extent = ranged ? extent : triple_make(0, 0, 0);
}

template <typename W>
void check_scene(random_state *r, int32_t rows, int batches, bool emulated) {
    scene s;
    const bool points = random_int(r, 0, 1), ranged = random_int(r, 0, 2);
    scene_make<W>(r, rows, batches, points, ranged, &s);
    s.in.count = &s.count;
    const int32_t all = (int32_t)engine_voxelize(s.cells, 0).voxels.size();
    const int32_t some = random_int(r, 1, all + 1);
    for (int32_t cap : {some, 0, 1, all / batches, all, INT32_MAX}) {
        s.in.max_voxels = cap;
        const voxels<W> v = voxelize_on_host<W>(&s.layout, &s.in, rows);
        check_voxels(&s.layout, v, engine_voxelize(s.cells, cap), rows);
        CHECK_EQUAL(v.trouble.flags & ~(uint32_t)device_flag_not_finite, 0u);
        if (emulated && (cap == some || cap == all / batches)) {
            CHECK(same(voxelize_emulated<W>(&s.layout, &s.in, rows), v, rows));
        }
        if (emulated && cap == some) { // fewer voxels than are found, and repeats
            s.in.duplicates = duplicates_report;
            const int32_t capacity = random_int(r, 1, rows);
            const voxels<W> full = voxelize_on_host<W>(&s.layout, &s.in, capacity);
            CHECK(same(voxelize_emulated<W>(&s.layout, &s.in, capacity), full, rows));
            s.in.duplicates = duplicates_merge;
        }
    }
    guarded_finish();
}

} // namespace

TEST(voxel_limits_random) {
    random_state r = random_make(1);
    for (int i = 0; i < 60; ++i) {
        check_scene<uint32_t>(&r, random_int(&r, 1, 900), random_int(&r, 1, 3), false);
        check_scene<uint64_t>(&r, random_int(&r, 1, 900), random_int(&r, 1, 3), false);
    }
}

TEST(voxel_limits_emulated) {
    random_state r = random_make(2);
    for (int rows : {33, 513, 1300}) {
        emulate::seed = (uint64_t)rows;
        check_scene<uint32_t>(&r, rows, 1, true);
        check_scene<uint64_t>(&r, rows, random_int(&r, 2, 5), true);
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
    const int32_t rows = 2600; // 27 voxels
    word_layout l = reference_layout<uint32_t>({0, 0, 0}, {4000, 3, 3}, 1, {1, 1, 1}, {1, 1, 1});
    std::vector<int32_t> coords((size_t)rows * 3, 0);
    std::vector<cell> cells;
    for (int32_t i = 0; i < rows; ++i) {
        coords[(size_t)i * 3] = i % 100 == 7 ? i : 1500;
        cells.push_back({0, coords[(size_t)i * 3], 0, 0});
    }
    voxel_input in = {};
    in.coords = coords.data();
    in.count = &rows;
    in.rows = rows;
    in.columns = 3;
    for (int32_t cap : {1, 11, 26, 27}) {
        in.max_voxels = cap;
        const voxels<uint32_t> v = voxelize_on_host<uint32_t>(&l, &in, rows);
        check_voxels(&l, v, engine_voxelize(cells, cap), rows);
        CHECK(same(voxelize_emulated<uint32_t>(&l, &in, rows), v, rows));
    }
}

TEST(voxel_limits_nothing_inside) {
    word_layout l = reference_layout<uint32_t>({0, 0, 0}, {9, 9, 9}, 1, {1, 1, 1}, {1, 1, 1});
    std::vector<float> points(90, -1.0f);
    voxel_input in = {};
    const float lo[3] = {0, 0, 0}, hi[3] = {10, 10, 10}, size[3] = {1, 1, 1};
    REQUIRE_OK(voxel_range(lo, hi, size, &in));
    in.points = points.data();
    in.rows = 30;
    in.columns = 3;
    in.max_voxels = 5;
    for (int32_t count : {0, 30}) { // an empty frame, and one without a point in the range
        in.count = &count;
        const voxels<uint32_t> v = voxelize_on_host<uint32_t>(&l, &in, 10);
        check_voxels(&l, v, engine_voxelize(std::vector<cell>((size_t)count, cell{-1, 0, 0, 0}), 5),
                     30);
        CHECK_OK(device_status_read(&v.trouble));
        CHECK(same(voxelize_emulated<uint32_t>(&l, &in, 10), v, 30));
    }
}

TEST(voxel_range_is_half_open) {
    const float lo[3] = {-54, -54, -5}, hi[3] = {54, 54, 3}, size[3] = {0.075f, 0.075f, 0.2f};
    voxel_input in = {};
    REQUIRE_OK(voxel_range(lo, hi, size, &in));
    CHECK(triple_equal(in.extent, {1440, 1440, 40}));
    const float zero[3] = {0, 0, 0}, top[3] = {2, 2, 2}, one[3] = {1, 1, 1};
    REQUIRE_OK(voxel_range(zero, top, one, &in));
    const float points[] = {0, 0, 0, 2, 0, 0, 1.999f, 1, 1, -0.0f, 0, 1, -1e-6f, 0, 0, 0, 0, 2};
    const int32_t count = 6;
    in.points = points;
    in.count = &count;
    in.rows = 6;
    in.columns = 3;
    word_layout l = reference_layout<uint32_t>({0, 0, 0}, {1, 1, 1}, 1, {1, 1, 1}, {1, 1, 1});
    const voxels<uint32_t> v = voxelize_on_host<uint32_t>(&l, &in, 6);
    check_voxels(
        &l, v,
        engine_voxelize(
            {{0, 0, 0, 0}, {-1, 0, 0, 0}, {0, 1, 1, 1}, {0, 0, 0, 1}, {-1, 0, 0, 0}, {-1, 0, 0, 0}},
            0),
        6);
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
    const std::vector<char> bytes = reference_file("nuscenes_10sweeps.pcd.bin");
    const int columns = 5;
    const int32_t rows = (int32_t)(bytes.size() / (4 * columns));
    std::vector<float> points((size_t)rows * columns);
    memcpy(points.data(), bytes.data(), points.size() * 4);
    const float lo[3] = {-54, -54, -5}, hi[3] = {54, 54, 3}, size[3] = {0.075f, 0.075f, 0.2f};
    voxel_input in = {};
    REQUIRE_OK(voxel_range(lo, hi, size, &in));
    in.points = points.data();
    in.count = &rows;
    in.rows = rows;
    in.columns = columns;
    word_layout l =
        reference_layout<uint32_t>({0, 0, 0}, {1439, 1439, 40}, 1, {8, 8, 8}, {8, 8, 8});
    const int32_t capacity = 160000;
    const voxels<uint32_t> v = voxelize_on_host<uint32_t>(&l, &in, capacity);
    REQUIRE_OK(v.returned);
    REQUIRE(CHECK_EQUAL(*v.set.count, 105086));
    CHECK_EQUAL(v.rows.begin[105086], 236511);
    CHECK_EQUAL((int64_t)v.trouble.outside, rows - 236511);
    CHECK_OK(device_status_read(&v.trouble));

    std::vector<int32_t> coords((size_t)rows * 3);
    const double decimal[3] = {0.075, 0.075, 0.2};
    for (size_t i = 0; i < (size_t)rows * 3; ++i) {
        const double p = (double)points[i / 3 * columns + i % 3];
        coords[i] = (int32_t)floor((p - (double)lo[i % 3]) / decimal[i % 3]);
    }
    voxel_input exact = in;
    exact.points = nullptr;
    exact.coords = coords.data();
    exact.columns = 3;
    const voxels<uint32_t> w = voxelize_on_host<uint32_t>(&l, &exact, capacity);
    REQUIRE_OK(w.returned);
    CHECK_EQUAL(*w.set.count, 105127);
    CHECK_EQUAL(w.trouble.outside, v.trouble.outside);

    in.max_voxels = 60000;
    const voxels<uint32_t> capped = voxelize_on_host<uint32_t>(&l, &in, 60000);
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
    scene s;
    const int32_t rows = random_int(&r, 1, 700);
    scene_make<W>(&r, rows, 1, true, true, &s);
    s.in.count = &s.count;
    const int32_t capacity = random_int(&r, 0, 2) ? rows : random_int(&r, 1, rows);
    const voxels<W> v = voxelize_on_host<W>(&s.layout, &s.in, capacity);
    const int32_t count = *v.set.count;
    voxel_features_args<W> args = {};
    args.channels = random_int(&r, 3, 16);
    args.columns = args.channels + random_int(&r, 0, 2);
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
                CHECK(fabs(stored - value) <= numeric_epsilon(type) * fabs(value) + 2e-5);
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
