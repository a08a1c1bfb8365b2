// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/gpu/voxel.cu: voxelisation and voxel features on the GPU, bit for bit those of the host
// loops.
#include "../../spira/voxel.cuh"
#include "../support/device.cuh"
#include "../support/voxels.h"

using namespace spira;

namespace {

// ---- one run ------------------------------------------------------------------------------------

// Buffers of one run on the device, all of exactly the size that is asked for.
template <typename W>
struct device_run {
    word_layout layout;
    voxel_input in;
    voxel_set<W> set;
    voxel_rows rows;
    device_status *trouble;
    char *scratch;
    size_t scratch_bytes;
};

template <typename W>
device_run<W> device_run_make(voxel_case *c) {
    device_run<W> d = {};
    const voxel_input *in = voxel_case_input(c);
    const int64_t elements = (int64_t)in->rows * in->columns;
    d.layout = c->layout;
    d.in = *in;
    d.in.points = in->points ? device_upload(in->points, elements) : nullptr;
    d.in.coords = in->coords ? device_upload(in->coords, elements) : nullptr;
    d.in.batch = in->batch ? device_upload(in->batch, in->rows) : nullptr;
    d.in.count = device_upload(in->count, 1);
    d.set = {device_new<W>(c->capacity), device_new<int32_t>(1), c->capacity};
    d.rows = {device_new<int32_t>(in->rows), device_new<int32_t>(in->rows),
              device_new<int32_t>((int64_t)c->capacity + 1)};
    d.trouble = device_zeros<device_status>(1);
    CHECK_OK(voxelize_workspace<W>(&d.in, c->capacity, &d.scratch_bytes));
    d.scratch = device_new<char>((int64_t)d.scratch_bytes);
    return d;
}

template <typename W>
status device_run_start(const device_run<W> *d, cudaStream_t stream) {
    const voxelize_args<W> args = {&d->layout, &d->in, d->set, d->rows, d->trouble};
    return voxel_is_ranged(&d->in) || voxel_is_capped(&d->in)
               ? voxelize<W, voxel_limits_any>(&args, d->scratch, d->scratch_bytes, stream)
               : voxelize(&args, d->scratch, d->scratch_bytes, stream);
}

template <typename W>
voxels<W> device_run_fetch(const device_run<W> *d, const voxel_case &c) {
    voxels<W> v = voxels_new<W>(c);
    v.trouble = device_value(d->trouble);
    *v.set.count = device_value(d->set.count);
    const int32_t count = *v.set.count;
    if (CHECK(count >= 0 && count <= c.capacity)) {
        device_copy_out(v.set.words, d->set.words, c.capacity);
        device_copy_out(v.rows.voxel, d->rows.voxel, c.in.rows);
        device_copy_out(v.rows.begin, d->rows.begin, (int64_t)count + 1);
        const int32_t kept = v.rows.begin[count];
        if (CHECK(kept >= 0 && kept <= c.in.rows) && kept) {
            device_copy_out(v.rows.order, d->rows.order, kept);
        }
    }
    return v;
}

// Both sides, the device twice: the second run finds scratch and outputs as the first left them.
template <typename W>
voxels<W> check_run(voxel_case *c, const device_run<W> *d) {
    const voxels<W> wanted = voxels_on_host<W>(c);
    for (int run = 0; run < 2; ++run) {
        CHECK_OK(device_status_clear(d->trouble, stream_get()));
        CHECK_OK(device_run_start(d, stream_get()));
        CHECK_EQUAL(voxels_difference(device_run_fetch(d, *c), wanted, *c), "");
    }
    return wanted;
}

// Features of a run on both sides; nothing is written beyond the voxels. values [rows, columns];
// args: all but arrays, sets and grid
template <typename W>
void check_features(const voxel_case &c, const voxels<W> &host, const device_run<W> *d,
                    const float *values, voxel_features_args<W> args) {
    std::copy(c.in.size, c.in.size + 3, args.size);
    std::copy(c.in.origin, c.in.origin + 3, args.origin);
    args.layout = &c.layout;
    const int64_t pitch = voxel_features_channels(&args) * (int64_t)numeric_size(args.type);
    const int64_t used = *host.set.count * pitch, all = c.capacity * pitch;
    char *wanted = guarded_new<char>(all), *got = guarded_new<char>(used);
    args.values = values;
    args.rows = host.rows;
    args.set = host.set;
    args.features = wanted;
    CHECK_OK(voxel_features_host(&args));
    char *features = device_new<char>(all);
    args.values = device_upload(values, (int64_t)c.in.rows * args.columns);
    args.rows = d->rows;
    args.set = d->set;
    args.features = features;
    CHECK_OK(voxel_features(&args, stream_get()));
    if (used) {
        device_copy_out(got, (const char *)features, used);
        CHECK_EQUAL(memcmp(got, wanted, (size_t)used), 0);
    }
    CHECK(device_untouched(features, used, all));
}

std::vector<float> values_random(random_state *r, int64_t count) {
    std::vector<float> values((size_t)count);
    for (float &v : values) {
        v = random_float(r) * (float)(1 << random_int(r, 0, 12)); // order matters
    }
    return values;
}

template <typename W>
void check_case(voxel_case *c) {
    const device_run<W> d = device_run_make<W>(c);
    check_run(c, &d);
    guarded_finish();
}

const numeric types[] = {numeric_f32, numeric_f16, numeric_bf16, numeric_tf32};

// A range and a cap, and features with all that can be appended.
template <typename W>
void check_limits() {
    random_state r = random_make(sizeof(W));
    int turn = 0;
    for (int32_t rows : {1, 33, 512, 1025, 4097, 65537, 600000, (1 << 20) + 77}) {
        if (test_quick() && rows > 5000) {
            break;
        }
        for (int batches : {1, 3}) {
            voxel_case c = voxel_case_random<W>(&r, {true, true, batches, 100}, rows, rows);
            const std::vector<float> values = values_random(&r, (int64_t)rows * c.in.columns);
            for (int32_t cap : {0, 1, 100, 5000, rows}) {
                c.in.max_voxels = cap;
                c.count = turn % 3 ? rows : random_int(&r, 0, rows);
                c.capacity = turn % 4 ? (int32_t)min_of(rows, 50000) : rows / 3 + 1;
                const device_run<W> d = device_run_make<W>(&c);
                const voxels<W> host = check_run(&c, &d);
                for (voxel_feature kind :
                     {voxel_feature_mean, voxel_feature_first, voxel_feature_max}) {
                    voxel_features_args<W> args = {};
                    args.kind = kind;
                    args.max_points = kind == voxel_feature_first ? 0 : 2;
                    args.append = voxel_append_centre | voxel_append_mean;
                    args.columns = args.channels = c.in.columns;
                    args.type = types[turn % 4];
                    check_features(c, host, &d, values.data(), args);
                }
                ++turn;
                guarded_finish();
            }
        }
    }
}

DEVICE_TEST(gpu_voxelize_every_case_32) {
    voxel_cases<uint32_t>(1 << 30, check_case<uint32_t>);
}

DEVICE_TEST(gpu_voxelize_every_case_64) {
    voxel_cases<uint64_t>(1 << 30, check_case<uint64_t>);
}

DEVICE_TEST(gpu_voxel_limits_32) {
    check_limits<uint32_t>();
}

DEVICE_TEST(gpu_voxel_limits_64) {
    check_limits<uint64_t>();
}

// The status word keeps what it has, the first row of each kind of trouble, until it is cleared.
DEVICE_TEST(gpu_device_status_accumulates) {
    random_state r = random_make(12);
    voxel_case c = voxel_case_random<uint32_t>(&r, {false, false, 1, 0}, 100, 100);
    const device_run<uint32_t> d = device_run_make<uint32_t>(&c);
    const size_t at[] = {(size_t)(70 * c.in.columns), (size_t)(30 * c.in.columns)};
    const std::vector<int32_t> good = c.coords;
    const auto told = [&] { // by another run
        device_copy_in((int32_t *)d.in.coords, c.coords.data(), (int64_t)c.coords.size());
        CHECK_OK(device_run_start(&d, stream_get()));
        const device_status trouble = device_value(d.trouble);
        return device_status_read(&trouble);
    };
    c.coords[at[0]] = -1000;
    CHECK_EQUAL(told().detail, 70);
    c.coords[at[1]] = -1000; // an earlier one
    CHECK_EQUAL(told().detail, 30);
    c.coords = good;
    CHECK_EQUAL(told().detail, 30); // nothing new, nothing lost
    CHECK_OK(device_status_clear(d.trouble, stream_get()));
    const device_status trouble = device_value(d.trouble), nothing = {};
    CHECK_EQUAL(memcmp(&trouble, &nothing, sizeof nothing), 0);
    CHECK(!(device_value(d.trouble).flags & device_flag_range) &&
          told().code != status_out_of_range);
    CHECK_STATUS(device_status_clear(nullptr, stream_get()), status_null_pointer);
}

// All conditions of a frame, with its rows without return as errors and as none.
DEVICE_TEST(gpu_voxelize_finds_all_conditions) {
    for (bool dropped : {false, true}) {
        for (int32_t cap : {0, 150}) {
            voxel_case c = voxel_case_troubled<uint32_t>();
            c.in.drop_not_finite = dropped;
            c.in.max_voxels = cap;
            const device_run<uint32_t> d = device_run_make<uint32_t>(&c);
            voxel_check_troubles(check_run(&c, &d).trouble, dropped);
            guarded_finish();
        }
    }
}

// Points in double, some of the rows and all: bit for bit the host's, and all voxels are there.
DEVICE_TEST(gpu_voxel_shift) {
    const std::vector<double> from = voxel_utm_points();
    const int64_t values = (int64_t)from.size();
    const double *device_from = device_upload(from.data(), values);
    float *host = guarded_new<float>(values), *got = guarded_new<float>(values);
    for (int32_t count : {-1, 0, 77, voxel_utm_rows + 1, voxel_utm_rows + 9}) {
        const voxel_shift_args on_host = voxel_utm_shift(from.data(), &count, host);
        float *points = device_new<float>(values);
        const voxel_shift_args args =
            voxel_utm_shift(device_from, device_upload(&count, 1), points);
        REQUIRE_OK(voxel_shift_host(&on_host));
        REQUIRE_OK(voxel_shift(&args, stream_get()));
        const int64_t used = 4 * std::min(std::max(count, 0), voxel_utm_rows + 1);
        if (used) {
            device_copy_out(got, (const float *)points, used);
            CHECK_EQUAL(memcmp(got, host, (size_t)used * sizeof(float)), 0);
        }
        CHECK(device_untouched((char *)points, used * 4, values * 4));
    }
    voxel_case c = voxel_utm_case<uint32_t>(got);
    const device_run<uint32_t> d = device_run_make<uint32_t>(&c);
    const voxels<uint32_t> v = check_run(&c, &d);
    CHECK_EQUAL(*v.set.count, (int)voxel_utm_rows);
    CHECK_EQUAL(v.trouble.dropped_not_finite, 1u);
    CHECK_STATUS(voxel_shift(nullptr, stream_get()), status_null_pointer);
    voxel_shift_args bad = voxel_utm_shift(device_from, d.in.count, nullptr);
    CHECK_STATUS(voxel_shift(&bad, stream_get()), status_null_pointer);
}

DEVICE_TEST(gpu_voxelize_refuses) {
    random_state r = random_make(13);
    voxel_case c = voxel_case_random<uint32_t>(&r, {true, false, 1, 0}, 100, 100);
    const word_layout wide = word_widen(c.layout);
    const device_run<uint32_t> d = device_run_make<uint32_t>(&c);
    const voxelize_args<uint32_t> good = {&c.layout, &d.in, d.set, d.rows, d.trouble};
    const size_t n = d.scratch_bytes;
    auto start = [&](const voxelize_args<uint32_t> &args, char *scratch, size_t bytes) {
        return voxelize(&args, scratch, bytes, stream_get());
    };
    const voxelize_args<uint32_t> *none = nullptr;
    CHECK_STATUS(voxelize(none, d.scratch, n, stream_get()), status_null_pointer);
    CHECK_STATUS(start(good, nullptr, n), status_null_pointer);
    CHECK_STATUS(start(good, d.scratch, n - 1), status_workspace);
    CHECK_EQUAL(start(good, d.scratch, n - 1).detail, (int64_t)n);
    CHECK_STATUS(start(good, d.scratch + 1, n), status_alignment);
    // One of each check of tests/host/voxel.cpp.
    voxel_input both = d.in;
    both.coords = both.count;
    const auto refused = [&](status_code code, auto spoil) {
        voxelize_args<uint32_t> bad = good;
        spoil(&bad);
        CHECK_STATUS(start(bad, d.scratch, n), code);
    };
    typedef voxelize_args<uint32_t> *args;
    refused(status_unsupported, [&](args a) { a->layout = &wide; });
    refused(status_null_pointer, [](args a) { a->input = nullptr; });
    refused(status_unsupported, [&](args a) { a->input = &both; });
    refused(status_alignment, [](args a) { a->set.words = misaligned(a->set.words); });
    refused(status_null_pointer, [](args a) { a->rows.begin = nullptr; });
    refused(status_null_pointer, [](args a) { a->trouble = nullptr; });
    size_t bytes = 0;
    CHECK_STATUS(voxelize_workspace<uint32_t>(nullptr, 100, &bytes), status_null_pointer);
    CHECK_STATUS(voxelize_workspace<uint32_t>(&d.in, 100, nullptr), status_null_pointer);
    CHECK_STATUS(voxelize_workspace<uint32_t>(&d.in, 0, &bytes), status_bad_size);
    // A refused call has done nothing.
    CHECK(device_untouched(d.set.words, 0, 100));
    CHECK(device_untouched(d.rows.voxel, 0, 100));
    CHECK(device_untouched(d.rows.order, 0, 100));
    CHECK(device_untouched(d.rows.begin, 0, 101));
    CHECK(device_untouched(d.scratch, 0, (int64_t)n));
}

DEVICE_TEST(gpu_voxel_limits_refuses) {
    random_state r = random_make(6);
    voxel_case c = voxel_case_random<uint64_t>(&r, {true, true, 5000, 0}, 100, 100);
    c.in.max_voxels = 10;
    const device_run<uint64_t> d = device_run_make<uint64_t>(&c);
    voxel_input in = d.in;
    const size_t bytes = d.scratch_bytes;
    size_t plain = 0;
    auto start = [&](const voxel_input &input, size_t given) {
        const voxelize_args<uint64_t> args = {&c.layout, &input, d.set, d.rows, d.trouble};
        return voxelize<uint64_t, voxel_limits_any>(&args, d.scratch, given, stream_get());
    };
    CHECK_STATUS(start(in, bytes), status_unsupported); // too many batch indices
    CHECK_STATUS(start(in, bytes - 1), status_workspace);
    const voxelize_args<uint64_t> plain_args = {&c.layout, &in, d.set, d.rows, d.trouble};
    CHECK_STATUS(voxelize(&plain_args, d.scratch, bytes, stream_get()), status_unsupported);
    in.max_voxels = -1;
    CHECK_STATUS(start(in, bytes), status_bad_size);
    in.max_voxels = 0;
    CHECK_STATUS(voxelize(&plain_args, d.scratch, bytes, stream_get()),
                 status_unsupported); // the range
    in.extent.y = 0;
    CHECK_STATUS(start(in, bytes), status_bad_size);
    in.extent = {};
    REQUIRE_OK(voxelize_workspace<uint64_t>(&in, 100, &plain));
    CHECK(plain < bytes); // without a cap there is no scratch for it
    CHECK(device_untouched(d.set.words, 0, 100));
}

// ---- crowded voxels -----------------------------------------------------------------------------

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
    voxel_case c = {};
    c.layout = reference_layout<uint32_t>({0, 0, 0}, {1439, 1439, 40}, 1, {1, 1, 1}, {1, 1, 1});
    c.coords = crowd_coords(r, kind, count);
    c.count = c.capacity = c.in.rows = count;
    c.in.columns = 3;
    const device_run<uint32_t> d = device_run_make<uint32_t>(&c);
    const voxels<uint32_t> host = check_run(&c, &d);
    us[0] = crowd_time([&](cudaStream_t stream) { return device_run_start(&d, stream); });
    const std::vector<float> values = values_random(r, (int64_t)count * crowd_columns);
    for (voxel_feature feature : {voxel_feature_first, voxel_feature_max, voxel_feature_mean}) {
        voxel_features_args<uint32_t> args = {};
        args.kind = feature;
        args.columns = crowd_columns;
        args.channels = crowd_channels;
        args.type = numeric_f16;
        check_features(c, host, &d, values.data(), args);
        args.values = device_upload(values.data(), (int64_t)count * crowd_columns);
        args.rows = d.rows;
        args.set = d.set;
        args.features = device_new<__half>((int64_t)count * crowd_channels);
        us[1] = crowd_time([&](cudaStream_t stream) { return voxel_features(&args, stream); });
    }
    guarded_finish();
}

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

// ---- real scans ---------------------------------------------------------------------------------

DEVICE_TEST(gpu_voxelize_real_scans) {
    NEED_SCANS("kitti00_000000.bin", "kitti00_000000_5cm.vox32", "lone_star_5cm.vox32",
               "pcl_room_scan1.xyz32", "pcl_room_scan1_2cm.vox32", "nuscenes_n015.pcd.bin");
    struct {
        const char *name;
        int columns;
        float size;
        int32_t voxels; // 0: whatever the host finds
    } const scans[] = {
        {"kitti00_000000.bin", 4, 0.05f, 91767},   {"kitti00_000000_5cm.vox32", 3, 0, 91766},
        {"lone_star_5cm.vox32", 3, 0, 345087},     {"pcl_room_scan1.xyz32", 3, 0.02f, 0},
        {"pcl_room_scan1_2cm.vox32", 3, 0, 41484}, {"nuscenes_n015.pcd.bin", 5, 0.05f, 0},
    };
    for (auto &s : scans) {
        if (test_quick() && &s != scans) {
            break;
        }
        voxel_case c;
        scan_read(s.name, s.columns, s.size, &c);
        REQUIRE(c.count > 0);
        const bool fits = c.layout.bits == 32;
        CHECK(fits || !strstr(s.name, "5cm")); // the targets are words of 32 bits
        if (fits) {
            const device_run<uint32_t> d = device_run_make<uint32_t>(&c);
            const int32_t count = *check_run(&c, &d).set.count;
            CHECK_EQUAL(count, s.voxels ? s.voxels : count);
            guarded_finish();
        }
        c.layout = word_widen(c.layout);
        const device_run<uint64_t> d = device_run_make<uint64_t>(&c);
        const voxels<uint64_t> wide = check_run(&c, &d);
        CHECK_OK(device_status_read(&wide.trouble));
        CHECK_EQUAL(*wide.set.count, s.voxels ? s.voxels : *wide.set.count);
        guarded_finish();
    }
}

// ---- features -----------------------------------------------------------------------------------

// Voxels of few rows and of many, in sets that are too small, too.
DEVICE_TEST(gpu_voxel_features_match) {
    random_state r = random_make(21);
    const int channels_of[] = {1, 2, 3, 4, 5, 8, 31, 64, 65};
    int turn = 0;
    for (int32_t n : {0, 1, 7, 31, 33, 64, 129, 255, 513, 1025, 2048, 4097, 10007, 65537}) {
        if (test_quick() && n > 2000) {
            break;
        }
        for (numeric type : types) {
            for (voxel_feature kind : {voxel_feature_mean, voxel_feature_first}) {
                voxel_case c = voxel_case_random<uint64_t>(&r, {false, false, 2, 0}, n ? n : 1, n);
                c.capacity = turn % 3 == 2 ? c.in.rows / 2 + 1 : c.in.rows;
                const device_run<uint64_t> d = device_run_make<uint64_t>(&c);
                voxel_features_args<uint64_t> args = {};
                args.kind = kind;
                args.channels = n > 5000 ? 3 : channels_of[turn++ % 9];
                args.columns = args.channels + turn % 4;
                args.type = type;
                check_features(c, check_run(&c, &d), &d,
                               values_random(&r, (int64_t)c.in.rows * args.columns).data(), args);
                guarded_finish();
            }
        }
    }
}

// Code that is compiled for another type; the host's test has the other refusals.
DEVICE_TEST(gpu_voxel_features_refuses_other_types) {
    int32_t one = 1;
    int32_t *rows = device_zeros<int32_t>(8);
    float *out = device_new<float>(12);
    voxel_features_args<uint32_t> a = {};
    a.values = device_zeros<float>(12);
    a.columns = a.channels = 3;
    a.rows = {nullptr, rows, rows};
    a.set = {nullptr, device_upload(&one, 1), 4};
    a.type = numeric_f32;
    a.features = out;
    CHECK_STATUS(voxel_features<numeric_f16>(&a, stream_get()), status_unsupported);
    CHECK(device_untouched(out, 0, 12));
}

// ---- the test, tested ---------------------------------------------------------------------------

DEVICE_TEST(gpu_voxel_planted_errors_are_found) {
    random_state r = random_make(31);
    voxel_case c = voxel_case_random<uint32_t>(&r, {false, false, 1, 0}, 500, 500);
    const device_run<uint32_t> d = device_run_make<uint32_t>(&c);
    const voxels<uint32_t> wanted = check_run(&c, &d);
    const int32_t count = *wanted.set.count;
    const auto finds = [&](const char *what, auto plant) {
        voxels<uint32_t> bad = device_run_fetch(&d, c);
        plant(&bad);
        CHECK(strstr(voxels_difference(bad, wanted, c), what) != nullptr);
    };
    typedef voxels<uint32_t> *got;
    finds("set.words[17]", [](got v) { v->set.words[17] += 1; });
    finds("set.words[499]", [](got v) { v->set.words[499] = 0; }); // must be "no voxel"
    finds("rows.voxel[499]", [](got v) { v->rows.voxel[499] -= 1; });
    finds("rows.order[0]", [](got v) { std::swap(v->rows.order[0], v->rows.order[1]); });
    finds("rows.begin", [=](got v) { v->rows.begin[count] += 1; });
    finds("set.count", [](got v) { *v->set.count -= 1; });
    finds("trouble", [](got v) { v->trouble.needed = 1; });
    c.coords[(size_t)(250 * c.in.columns)] += 1000; // an input that lost a row
    CHECK(voxels_difference(device_run_fetch(&d, c), voxels_on_host<uint32_t>(&c), c)[0] != 0);
}

} // namespace
