// tests/gpu/voxel_limits.cu: the range and the cap of a voxelisation, and the features of limited
// voxels, on the GPU: bit for bit those of the host loops.
#include "../../spira/voxel.cuh"
#include "../support/device.cuh"
#include "../support/reference.h"
#include "../support/sets.h"

using namespace spira;

namespace {

// Random points in a range of 48 x 40 x 8 voxels of size 0.25, and around it.
struct limits_scene {
    std::vector<float> points; // [rows, 5]
    std::vector<int32_t> batch;
    voxel_input in; // without pointers
};

enum { scene_columns = 5 };

limits_scene scene_make(random_state *r, int32_t rows, int batches) {
    limits_scene s;
    const float lo[3] = {-6, -5, -1}, hi[3] = {6, 5, 1}, size[3] = {0.25f, 0.25f, 0.25f};
    s.in = {};
    CHECK_OK(voxel_range(lo, hi, size, &s.in));
    s.in.rows = rows;
    s.in.columns = scene_columns;
    for (int32_t i = 0; i < rows; ++i) {
        for (int c = 0; c < scene_columns; ++c) {
            s.points.push_back((c < 2 ? 6.5f : 1.2f) * random_float(r));
        }
        s.batch.push_back(random_int(r, 0, batches - 1));
    }
    return s;
}

template <typename T>
std::vector<T> fetched(const T *device, int64_t count) {
    std::vector<T> host((size_t)count);
    if (count > 0) {
        device_copy_out(host.data(), device, count);
    }
    return host;
}

template <typename W>
void check_features(const limits_scene &s, const word_layout &layout, voxel_set<W> set,
                    voxel_rows rows, voxel_set<W> host_set, voxel_rows host_rows,
                    const float *values, numeric type) {
    for (voxel_feature kind : {voxel_feature_mean, voxel_feature_first, voxel_feature_max}) {
        voxel_features_args<W> args = {};
        args.kind = kind;
        args.max_points = kind == voxel_feature_first ? 0 : 2;
        args.append = voxel_append_centre | voxel_append_mean;
        args.values = s.points.data();
        args.columns = args.channels = scene_columns;
        args.rows = host_rows;
        args.set = host_set;
        args.layout = &layout;
        std::copy(s.in.size, s.in.size + 3, args.size);
        std::copy(s.in.origin, s.in.origin + 3, args.origin);
        args.type = type;
        const int64_t pitch = voxel_features_channels(&args) * (int64_t)numeric_size(type);
        const int64_t used = *host_set.count * pitch, all = set.capacity * pitch;
        std::vector<char> wanted((size_t)all);
        args.features = wanted.data();
        CHECK_OK(voxel_features_host(&args));
        char *features = device_new<char>(all);
        args.values = values;
        args.rows = rows;
        args.set = set;
        args.features = features;
        CHECK_OK(voxel_features(&args, stream_get()));
        const std::vector<char> got = fetched(features, used);
        CHECK(std::equal(got.begin(), got.end(), wanted.begin()));
        CHECK(device_untouched(features, used, all));
    }
}

// Both sides, the device twice.
template <typename W>
void check_limits(limits_scene *s, int batches, int32_t count, int32_t capacity, numeric type) {
    const word_layout layout =
        reference_layout<W>({0, 0, 0}, {47, 39, 7}, batches, {4, 4, 4}, {2, 2, 2});
    const int32_t rows = s->in.rows;
    std::vector<W> words((size_t)capacity);
    std::vector<int32_t> voxel((size_t)rows), order((size_t)rows), begin((size_t)capacity + 1);
    int32_t found = 0;
    const voxel_set<W> host_set = {words.data(), &found, capacity};
    const voxel_rows host_rows = {voxel.data(), order.data(), begin.data()};
    device_status wanted = {};
    voxel_input in = s->in;
    in.points = s->points.data();
    in.batch = batches > 1 ? s->batch.data() : nullptr;
    in.count = &count;
    size_t bytes = 0;
    CHECK_OK(voxelize_host_workspace<W>(&in, &bytes));
    const voxelize_args<W> host_args = {&layout, &in, host_set, host_rows, &wanted};
    CHECK_OK(voxelize_host(&host_args, guarded_new<char>((int64_t)bytes), bytes));

    voxel_set<W> set = {device_new<W>(capacity), device_new<int32_t>(1), capacity};
    voxel_rows out = {device_new<int32_t>(rows), device_new<int32_t>(rows),
                      device_new<int32_t>((int64_t)capacity + 1)};
    float *values = device_upload(s->points.data(), (int64_t)s->points.size());
    in.points = values;
    in.batch = in.batch ? device_upload(in.batch, rows) : nullptr;
    in.count = device_upload(&count, 1);
    CHECK_OK(voxelize_workspace<W>(&in, capacity, &bytes));
    char *scratch = device_new<char>((int64_t)bytes);
    for (int run = 0; run < 2; ++run) {
        device_status *trouble = device_zeros<device_status>(1);
        const voxelize_args<W> args = {&layout, &in, set, out, trouble};
        CHECK_OK((voxelize<W, voxel_limits_any>(&args, scratch, bytes, stream_get())));
        const device_status got = device_value(trouble);
        CHECK_EQUAL(memcmp(&got, &wanted, sizeof got), 0);
        CHECK_EQUAL(got.dropped_voxels, wanted.dropped_voxels);
        CHECK_EQUAL(got.outside, wanted.outside);
        REQUIRE(CHECK_EQUAL(device_value(set.count), found));
        CHECK(fetched(set.words, capacity) == words);
        CHECK(fetched(out.voxel, rows) == voxel);
        const std::vector<int32_t> starts = fetched(out.begin, (int64_t)found + 1);
        CHECK(std::equal(starts.begin(), starts.end(), begin.begin()));
        const std::vector<int32_t> kept = fetched(out.order, begin[(size_t)found]);
        CHECK(std::equal(kept.begin(), kept.end(), order.begin()));
    }
    check_features<W>(*s, layout, set, out, host_set, host_rows, values, type);
    guarded_finish();
}

template <typename W>
void check_sizes() {
    random_state random = random_make(sizeof(W));
    const numeric types[] = {numeric_f32, numeric_f16, numeric_bf16, numeric_tf32};
    int turn = 0;
    for (int32_t rows : {1, 33, 512, 1025, 4097, 65537, 600000, (1 << 20) + 77}) {
        if (test_quick() && rows > 5000) {
            break;
        }
        for (int batches : {1, 3}) {
            limits_scene s = scene_make(&random, rows, batches);
            for (int32_t cap : {0, 1, 100, 5000, rows}) {
                s.in.max_voxels = cap;
                const int32_t count = turn % 3 ? rows : random_int(&random, 0, rows);
                const int32_t capacity = turn % 4 ? min_of(rows, 50000) : rows / 3 + 1;
                check_limits<W>(&s, batches, count, capacity, types[turn++ % 4]);
            }
        }
    }
}

} // namespace

// ---- crowded voxels -----------------------------------------------------------------------------

namespace {

// How the rows of a frame are spread over voxels.
enum crowd_kind { crowd_even, crowd_one_voxel, crowd_half, crowd_some, crowd_kinds };

enum { crowd_rows = 236511, crowd_columns = 7, crowd_channels = 4, crowd_runs = 30 };

// Coordinates in a grid of detectors. crowd_even: two rows a voxel, about, as in a scan of ten
// sweeps; crowd_some: a quarter of the rows in 60 voxels side by side.
std::vector<int32_t> crowd_coords(random_state *r, crowd_kind kind, int32_t rows) {
    std::vector<int32_t> coords;
    for (int32_t i = 0; i < rows; ++i) {
        const bool crowded = kind == crowd_one_voxel ||
                             (kind == crowd_half && random_int(r, 0, 1)) ||
                             (kind == crowd_some && random_int(r, 0, 3) == 0);
        const int spread = kind == crowd_some ? random_int(r, 0, 59) : 0;
        const int cell = random_int(r, 0, 119999);
        coords.push_back(crowded ? 700 : cell / 100 * 37 % 1440);
        coords.push_back(crowded ? 713 + spread / 10 : 2 * (cell % 100) + cell / 100 % 1200);
        coords.push_back(crowded ? 20 + spread % 10 : cell % 40);
    }
    return coords;
}

struct crowd_work {
    word_layout layout;
    voxel_input in;
    voxel_set<uint32_t> set;
    voxel_rows rows;
    device_status *trouble;
    const float *values;
    void *features, *scratch;
    size_t bytes;
};

status crowd_voxelize(const crowd_work *w, cudaStream_t stream) {
    const voxelize_args<uint32_t> args = {&w->layout, &w->in, w->set, w->rows, w->trouble};
    return voxelize(&args, w->scratch, w->bytes, stream);
}

status crowd_features(const crowd_work *w, voxel_feature kind, cudaStream_t stream) {
    voxel_features_args<uint32_t> args = {};
    args.kind = kind;
    args.values = w->values;
    args.columns = crowd_columns;
    args.channels = crowd_channels;
    args.rows = w->rows;
    args.set = w->set;
    args.type = numeric_f16;
    args.features = w->features;
    return voxel_features(&args, stream);
}

// Microseconds of a step in a graph, the least of some runs.
template <typename F>
float crowd_time(const F &step) {
    cudaGraphExec_t graph = stream_capture([&](cudaStream_t stream) { CHECK_OK(step(stream)); });
    cudaEvent_t begin, end;
    CUDA_CHECK(cudaEventCreate(&begin));
    CUDA_CHECK(cudaEventCreate(&end));
    float least = 1e9f;
    for (int i = 0; i < crowd_runs; ++i) {
        float ms = 0;
        CUDA_CHECK(cudaEventRecord(begin, stream_get()));
        CUDA_CHECK(cudaGraphLaunch(graph, stream_get()));
        CUDA_CHECK(cudaEventRecord(end, stream_get()));
        CUDA_CHECK(cudaEventSynchronize(end));
        CUDA_CHECK(cudaEventElapsedTime(&ms, begin, end));
        least = ms < least ? ms : least;
    }
    CUDA_CHECK(cudaGraphExecDestroy(graph));
    CUDA_CHECK(cudaEventDestroy(begin));
    CUDA_CHECK(cudaEventDestroy(end));
    return 1000 * least;
}

// Bit for bit the host's. Returns the times of the two steps.
void crowd_check(random_state *r, crowd_kind kind, int32_t count, float *us) {
    const std::vector<int32_t> coords = crowd_coords(r, kind, count);
    std::vector<float> values;
    for (int64_t i = 0; i < (int64_t)count * crowd_columns; ++i) {
        values.push_back(random_float(r) * (float)(1 << random_int(r, 0, 12))); // order matters
    }
    std::vector<uint32_t> words((size_t)count);
    std::vector<int32_t> voxel((size_t)count), order((size_t)count), begin((size_t)count + 1);
    int32_t found = 0;
    device_status trouble = {};
    crowd_work host = {};
    host.layout = reference_layout<uint32_t>({0, 0, 0}, {1439, 1439, 40}, 1, {1, 1, 1}, {1, 1, 1});
    host.in.coords = coords.data();
    host.in.columns = 3;
    host.in.rows = count;
    host.in.count = &count;
    host.set = {words.data(), &found, count};
    host.rows = {voxel.data(), order.data(), begin.data()};
    size_t bytes = 0;
    CHECK_OK(voxelize_host_workspace<uint32_t>(&host.in, &bytes));
    const voxelize_args<uint32_t> args = {&host.layout, &host.in, host.set, host.rows, &trouble};
    CHECK_OK(voxelize_host(&args, guarded_new<char>((int64_t)bytes), bytes));

    crowd_work w = host;
    w.in.coords = device_upload(coords.data(), (int64_t)coords.size());
    w.in.count = device_upload(&count, 1);
    w.set = {device_new<uint32_t>(count), device_new<int32_t>(1), count};
    w.rows = {device_new<int32_t>(count), device_new<int32_t>(count),
              device_new<int32_t>((int64_t)count + 1)};
    w.trouble = device_zeros<device_status>(1);
    w.values = device_upload(values.data(), (int64_t)values.size());
    w.features = device_new<__half>((int64_t)count * crowd_channels);
    CHECK_OK(voxelize_workspace<uint32_t>(&w.in, count, &w.bytes));
    w.scratch = device_new<char>((int64_t)w.bytes);
    us[0] = crowd_time([&](cudaStream_t stream) { return crowd_voxelize(&w, stream); });
    REQUIRE(CHECK_EQUAL(device_value(w.set.count), found));
    CHECK(fetched(w.rows.order, count) == order);
    for (voxel_feature feature : {voxel_feature_max, voxel_feature_mean}) {
        std::vector<__half> wanted((size_t)found * crowd_channels);
        voxel_features_args<uint32_t> args = {};
        args.kind = feature;
        args.values = values.data();
        args.columns = crowd_columns;
        args.channels = crowd_channels;
        args.rows = host.rows;
        args.set = host.set;
        args.type = numeric_f16;
        args.features = wanted.data();
        CHECK_OK(voxel_features_host(&args));
        us[1] =
            crowd_time([&](cudaStream_t stream) { return crowd_features(&w, feature, stream); });
        const std::vector<__half> got = fetched((const __half *)w.features, (int64_t)wanted.size());
        CHECK(memcmp(got.data(), wanted.data(), wanted.size() * sizeof(__half)) == 0);
    }
    guarded_finish();
}

} // namespace

// However the rows are spread over the voxels, the results are the host's and the time is bounded.
// The bounds are wide: other work may run on the device.
DEVICE_TEST(gpu_voxel_crowded) {
    random_state random = random_make(77);
    float us[crowd_kinds][2];
    for (int kind = 0; kind < crowd_kinds; ++kind) {
        crowd_check(&random, (crowd_kind)kind, test_quick() ? 9001 : (int)crowd_rows, us[kind]);
    }
    for (int kind = 1; kind < crowd_kinds; ++kind) {
        printf("gpu_voxel_crowded: voxelize %.1f us, features %.1f us (even: %.1f, %.1f)\n",
               (double)us[kind][0], (double)us[kind][1], (double)us[0][0], (double)us[0][1]);
        if (!test_quick()) { // under a sanitizer no time means anything
            CHECK(us[kind][0] < 4 * us[0][0] + 20);
            CHECK(us[kind][0] + us[kind][1] < 8 * (us[0][0] + us[0][1]));
        }
    }
}

DEVICE_TEST(gpu_voxel_limits_32) {
    check_sizes<uint32_t>();
}

DEVICE_TEST(gpu_voxel_limits_64) {
    check_sizes<uint64_t>();
}

DEVICE_TEST(gpu_voxel_limits_nothing_inside) {
    random_state random = random_make(5);
    limits_scene s = scene_make(&random, 1000, 1);
    for (float &p : s.points) {
        p = 1e9f;
    }
    for (int32_t cap : {0, 7}) {
        s.in.max_voxels = cap;
        check_limits<uint32_t>(&s, 1, 1000, 10, numeric_f32);
        check_limits<uint32_t>(&s, 1, 0, 10, numeric_f32);
    }
}

DEVICE_TEST(gpu_voxel_limits_refuses) {
    random_state random = random_make(6);
    limits_scene s = scene_make(&random, 100, 1);
    const word_layout layout =
        reference_layout<uint64_t>({0, 0, 0}, {47, 39, 7}, 5000, {4, 4, 4}, {2, 2, 2});
    const voxel_set<uint64_t> set = {device_new<uint64_t>(100), device_new<int32_t>(1), 100};
    const voxel_rows rows = {device_new<int32_t>(100), device_new<int32_t>(100),
                             device_new<int32_t>(101)};
    device_status *trouble = device_zeros<device_status>(1);
    voxel_input in = s.in;
    in.points = device_upload(s.points.data(), (int64_t)s.points.size());
    in.batch = device_zeros<int32_t>(100);
    in.count = device_zeros<int32_t>(1);
    in.max_voxels = 10;
    size_t bytes = 0, plain = 0;
    REQUIRE_OK(voxelize_workspace<uint64_t>(&in, 100, &bytes));
    char *scratch = device_new<char>((int64_t)bytes);
    auto start = [&](const voxel_input &input, size_t given) {
        const voxelize_args<uint64_t> args = {&layout, &input, set, rows, trouble};
        return voxelize<uint64_t, voxel_limits_any>(&args, scratch, given, stream_get());
    };
    CHECK_STATUS(start(in, bytes), status_unsupported); // too many batch indices
    CHECK_STATUS(start(in, bytes - 1), status_workspace);
    const voxelize_args<uint64_t> plain_args = {&layout, &in, set, rows, trouble};
    CHECK_STATUS(voxelize(&plain_args, scratch, bytes, stream_get()), status_unsupported);
    in.max_voxels = -1;
    CHECK_STATUS(start(in, bytes), status_bad_size);
    in.max_voxels = 0;
    CHECK_STATUS(voxelize(&plain_args, scratch, bytes, stream_get()),
                 status_unsupported); // the range
    in.extent.y = 0;
    CHECK_STATUS(start(in, bytes), status_bad_size);
    in.extent = {};
    REQUIRE_OK(voxelize_workspace<uint64_t>(&in, 100, &plain));
    CHECK(plain < bytes); // without a cap there is no scratch for it
    CHECK(device_untouched(set.words, 0, 100));
}
