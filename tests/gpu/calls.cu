// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/gpu/calls.cu: how many calls of the CUDA runtime one frame of the engine example makes, and
// how many one convolution; a replay gives what a run gives; how the program ends. A binary of its
// own, because its calls are intercepted when it is linked (calls_wrap.cpp).

// First, so that this is also the check that the example compiles by itself (Makefile).
#define main engine_main
#include "../../examples/engine.cu"
#undef main

#include "../support/calls.h"
#include "../support/device.cuh"
#include "../support/gpu.cuh"
#include "../support/onnx_writer.h"
#include "../support/reference.h"

#include <set>
#include <sys/stat.h>
#include <unistd.h>

using namespace spira;
using engine::frame;
using engine::outcome;

namespace {

// ---- counting -----------------------------------------------------------------------------------

std::vector<long long> calls_now() {
    std::vector<long long> counts;
    for (int i = 0; i < calls_functions; ++i) {
        counts.push_back(*calls_table[i].count);
    }
    return counts;
}

struct expected_calls {
    const char *name;
    long long count;
};

// How often a function was called since `before`; 0 if the object does not call it at all.
long long calls_of(const std::vector<long long> &before, const char *name) {
    const std::vector<long long> now = calls_now();
    long long count = 0;
    for (int i = 0; i < calls_functions; ++i) {
        count += strcmp(calls_table[i].name, name) ? 0 : now[(size_t)i] - before[(size_t)i];
    }
    return count;
}

// All calls since `before`.
long long calls_all(const std::vector<long long> &before) {
    const std::vector<long long> now = calls_now();
    long long count = 0;
    for (size_t i = 0; i < now.size(); ++i) {
        count += now[i] - before[i];
    }
    return count;
}

// The calls since `before` are the expected ones and no others.
bool calls_are(const std::vector<long long> &before, const std::vector<expected_calls> &expected) {
    std::vector<long long> now = calls_now(), wanted(now.size(), 0);
    bool good = true;
    for (const expected_calls &e : expected) {
        int i = 0;
        while (i < calls_functions && strcmp(calls_table[i].name, e.name)) {
            ++i;
        }
        if (CHECK(i < calls_functions)) {
            wanted[(size_t)i] = e.count;
        }
    }
    for (int i = 0; i < calls_functions; ++i) {
        long long got = now[(size_t)i] - before[(size_t)i];
        char text[200];
        snprintf(text, sizeof text, "%s: called %lld times, not %lld", calls_table[i].name, got,
                 wanted[(size_t)i]);
        good = test_check(got == wanted[(size_t)i], __FILE__, __LINE__, text) && good;
    }
    return good;
}

// ---- frames and engines -------------------------------------------------------------------------

const float voxel_size = 0.5f;

enum { row_columns = 7 }; // of the networks here: x, y, z and four values

// Points of a box of 40 x 40 x 8 voxels of 0.5, or of a detector's.
frame frame_make(uint64_t seed, int32_t count, bool detector = false) {
    const float wide = detector ? 1.5f : 10.0f, high = detector ? 0.8f : 2.0f;
    random_state r = random_make(seed);
    frame f;
    f.count = count;
    for (int32_t i = 0; i <= count; ++i) {
        for (int c = 0; c < row_columns; ++c) {
            f.rows.push_back((c < 2 ? wide : c == 2 ? high : 1.0f) * random_float(&r));
        }
    }
    return f;
}

int64_t voxels_of(const frame *f, int32_t points, const networks::network *net) {
    std::set<std::vector<int>> voxels;
    for (int32_t i = 0; i < std::min(f->count, points); ++i) {
        const float *row = f->rows.data() + i * row_columns;
        std::vector<int> at;
        for (int a = 0; a < 3; ++a) {
            at.push_back((int)floorf((row[a] - net->lo[a]) / net->voxel[a]));
        }
        voxels.insert(at);
    }
    return (int64_t)voxels.size();
}

// Frames of all kinds: empty, a single point, ordinary, too many voxels, too many points.
enum { points_most = 4000, voxels_most = 1500 };

std::vector<frame> frames_make(bool detector = false) {
    std::vector<frame> frames;
    for (int32_t count : {900, 0, 1, 1400, 3900, 300, 5000}) {
        frames.push_back(frame_make((uint64_t)count + 1, count, detector));
    }
    return frames;
}

// An engine with all that it points to.
template <typename W>
struct machine {
    engine::choices chosen;
    networks::network net;
    net_plan plan;
    engine::state<W> state;
    float *params;
};

// Null if it could not be made.
template <typename W>
machine<W> *machine_make(const char *net, const std::vector<frame> &frames) {
    machine<W> *m = new machine<W>();
    m->chosen.common = side::options_standard();
    m->chosen.common.net = net;
    m->chosen.voxels = voxels_most;
    m->chosen.points = points_most;
    side::job *job = &m->state.job;
    job->chosen = &m->chosen.common;
    job->net = &m->net;
    job->plan = &m->plan;
    net_limits limits;
    CHECK(networks::network_make(net, &m->net));
    for (float &edge : m->chosen.common.voxel) { // detectors have their own
        edge = networks::network_ranged(&m->net) ? 0 : voxel_size;
    }
    CHECK(!side::range_choose(&m->chosen.common, &m->net));
    CHECK_EQUAL(engine::row_columns(&m->net), (int)row_columns);
    CHECK(!weights::params_new(&m->chosen.common, &m->net, &m->plan, &m->params));
    job->params = m->params;
    CHECK_OK(engine::layout_fit(frames, job));
    job->layout = sizeof(W) == 8 ? word_widen(job->layout) : job->layout;
    if (CHECK_OK(engine::limits_choose<W>(&m->chosen, frames, job, &limits)) &&
        CHECK_OK(engine::state_new(&limits, &m->state))) {
        return m;
    }
    engine::state_free(&m->state);
    free(m->params);
    delete m;
    return nullptr;
}

template <typename W>
void machine_free(machine<W> *m) {
    engine::state_free(&m->state);
    free(m->params);
    delete m;
}

void check_outcome(const frame *f, const outcome *o, const networks::network *net) {
    int64_t voxels = voxels_of(f, points_most, net), needed = voxels > voxels_most ? voxels : 0;
    needed = f->count > points_most ? std::max(needed, (int64_t)f->count) : needed;
    status s = device_status_read(&o->trouble);
    CHECK_EQUAL(o->voxels, std::min(voxels, (int64_t)voxels_most));
    CHECK_STATUS(s, needed ? status_capacity : status_ok);
    CHECK_EQUAL(s.detail, needed);
    CHECK(o->graph_ms > 0 && o->whole_ms >= o->graph_ms);
}

// ---- the steady state ---------------------------------------------------------------------------

// Each frame is one graph launch; the copies and events belong to the engine.
template <typename W>
void check_calls(const char *net, int rounds, bool detector = false) {
    std::vector<frame> frames = frames_make(detector);
    machine<W> *m = machine_make<W>(net, frames);
    REQUIRE(m != nullptr);
    const long long n = rounds * (long long)frames.size();
    std::vector<outcome> outcomes;
    size_t free_before = 0, free_after = 0, all = 0;
    CHECK_OK(engine::rounds_run(&m->state, frames, 1, &outcomes));
    CUDA_CHECK(cudaMemGetInfo(&free_before, &all));
    std::vector<long long> before = calls_now();
    CHECK_OK(engine::rounds_run(&m->state, frames, rounds, &outcomes));
    CHECK(calls_are(before, {{"cudaGraphLaunch", n},
                             {"cudaMemcpyAsync", 2 * n},
                             {"cudaEventRecord", engine::marks * n},
                             {"cudaEventSynchronize", n},
                             {"cudaEventElapsedTime", 2 * n}}));
    CUDA_CHECK(cudaMemGetInfo(&free_after, &all));
    CHECK(test_quick() || free_after >= free_before); // a sanitizer may allocate memory of its own
    CHECK_EQUAL(outcomes.size(), (size_t)n);
    for (size_t i = 0; i < outcomes.size(); ++i) {
        check_outcome(&frames[i % frames.size()], &outcomes[i], &m->net);
    }
    CHECK(expect_no_cuda_error());
    machine_free(m);
}

// The features of the last layer, or its dense map.
template <typename W>
std::vector<float> features_of(machine<W> *m) {
    side::device_job<W> *d = &m->state.d;
    const net_run_args<W> run = side::device_args<W>(&m->state.job, d, nullptr);
    const int last = m->plan.layer_count - 1;
    const int32_t rows = device_value(net_output(&m->plan, last, &run).set.count);
    std::vector<float> features((size_t)side::feature_count(&m->plan, last, rows));
    CHECK_OK(side::device_fetch(&m->state.job, d, last, rows, features.data()));
    return features;
}

// For each frame, a replay is bit-identical to a run without a graph in overwritten memory.
template <typename W>
void check_features(const char *net, bool detector = false) {
    std::vector<frame> frames = frames_make(detector);
    machine<W> *m = machine_make<W>(net, frames);
    REQUIRE(m != nullptr);
    side::device_job<W> *d = &m->state.d;
    std::vector<float> before;
    for (const frame &f : frames) {
        outcome o;
        CHECK_OK(engine::frame_submit(&m->state, &m->state.slots[0], &f));
        CHECK_OK(engine::frame_collect(&m->state.slots[0], &o));
        std::vector<float> replayed = features_of(m);
        CUDA_CHECK(cudaMemset(d->memory, 0xff, m->plan.workspace_bytes)); // NaN in every format
        CHECK(expect_no_cuda_error());
        CHECK_OK(side::device_pass(&m->state.job, d)); // the rows are still there
        CHECK(expect_no_cuda_error());
        std::vector<float> run = features_of(m);
        const bool none =
            std::all_of(replayed.begin(), replayed.end(), [](float value) { return value == 0; });
        CHECK_EQUAL(none, f.count == 0); // a dense map is there, and zero
        CHECK(replayed == run);          // no NaN either
        CHECK(replayed.empty() || replayed != before);
        before = replayed;
    }
    machine_free(m);
}

// ---- the program --------------------------------------------------------------------------------

// Runs the engine's main; what it says goes to a file, and from there to `said`.
int program(std::vector<const char *> arguments, std::string *said) {
    const char *path = "build/tmp/engine.txt";
    mkdir("build", 0777);
    mkdir("build/tmp", 0777);
    fflush(stdout);
    fflush(stderr);
    int out = dup(1), err = dup(2);
    FILE *file = freopen(path, "w", stdout);
    CHECK(file && dup2(1, 2) == 2);
    arguments.insert(arguments.begin(), "engine");
    int code = engine_main((int)arguments.size(), (char **)arguments.data());
    fflush(stdout);
    fflush(stderr);
    dup2(out, 1);
    dup2(err, 2);
    close(out);
    close(err);
    said->clear();
    file = fopen(path, "r");
    for (int c; file && (c = fgetc(file)) != EOF;) {
        said->push_back((char)c);
    }
    CHECK(file && fclose(file) == 0);
    return code;
}

bool says(const std::string &said, const char *what) {
    return said.find(what) != std::string::npos;
}

// A folder of three scans, one of them empty, and a file that is no scan.
void folder_make() {
    for (const char *path : {"build", "build/tmp", "build/tmp/scans", "build/tmp/nothing"}) {
        mkdir(path, 0777);
    }
    const frame large = frame_make(1, 3000), small = frame_make(2, 70);
    std::vector<int32_t> voxels;
    for (int32_t i = 0; i < 600; ++i) {
        voxels.insert(voxels.end(), {i % 20, i / 20, -3});
    }
    CHECK_OK(scan::scan_write_floats("build/tmp/scans/a.bin", large.rows.data(), 3000, 4));
    CHECK_OK(scan::scan_write_floats("build/tmp/scans/b.xyz32", small.rows.data(), 70, 3));
    CHECK_OK(scan::scan_write_voxels("build/tmp/scans/c.vox32", voxels.data(), 600));
    CHECK_OK(scan::scan_write_bytes("build/tmp/scans/empty.bin", nullptr, 0));
    CHECK_OK(scan::scan_write_bytes("build/tmp/scans/notes.txt", "no scan\nbut words", 17));
    CHECK_OK(scan::scan_write_bytes("build/tmp/short.bin", "cut", 3));
}

} // namespace

// ---- without a GPU ------------------------------------------------------------------------------

TEST(calls_are_counted) {
    int version = 0;
    std::vector<long long> before = calls_now();
    CHECK(calls_are(before, {}));
    for (int i = 0; i < 3; ++i) {
        CUDA_CHECK(cudaRuntimeGetVersion(&version));
    }
    CHECK(version >= 12000);
    CHECK(calls_are(before, {{"cudaRuntimeGetVersion", 3}}));
    // Functions that launch, wait or allocate are in the table: they are linked, so they are
    // counted.
    int found = 0;
    for (int i = 0; i < calls_functions; ++i) {
        for (const char *name : {"cudaGraphLaunch", "cudaMemcpyAsync", "cudaMalloc",
                                 "cudaStreamSynchronize", "cudaFuncGetAttributes"}) {
            found += strcmp(calls_table[i].name, name) == 0;
        }
    }
    CHECK_EQUAL(found, 5);
}

TEST(calls_planted_errors_are_found) {
    CHECK_EQUAL(test_failures_of([] {
                    std::vector<long long> before = calls_now();
                    int version;
                    cudaRuntimeGetVersion(&version);
                    calls_are(before, {});
                }),
                1);
    CHECK_EQUAL(test_failures_of([] { calls_are(calls_now(), {{"cudaGraphLaunch", 1}}); }), 1);
    CHECK_EQUAL(test_failures_of([] { calls_are(calls_now(), {{"cudaNoSuchCall", 0}}); }), 1);
}

TEST(engine_refuses_arguments) {
    std::string said;
    const std::vector<const char *> wrong[] = {
        {},
        {"--net", "SparseResNet21"},
        {"build/tmp/scans", "--net", "NoNet"},
        {"build/tmp/scans", "--net"},
        {"build/tmp/scans", "--voxels", "0"},
        {"build/tmp/scans", "--points", "12x"},
        {"build/tmp/scans", "--rounds", "-1"},
        {"build/tmp/scans", "--type", "fp8"},
        {"build/tmp/scans", "--type", "bf16"}, // needs -DENGINE_ANY_TYPE
        {"build/tmp/scans", "--what", "1"},
        {"build/tmp/scans", "--voxel", "-1"},
        {"build/tmp/scans", "--range", "0,0,0,1,1"},
        {"build/tmp/scans", "--layout", "nchw32"},
        {"build/tmp/scans", "--map", "bf16"},
        {"build/tmp/scans", "-"},
        {"-", "--points", "10"}, // and --voxels
    };
    for (const std::vector<const char *> &arguments : wrong) {
        CHECK_EQUAL(program(arguments, &said), 2);
        CHECK(says(said, "engine --help lists") || says(said, "there is no such network"));
    }
}

TEST(engine_refuses_files) {
    std::string said;
    folder_make();
    CHECK_EQUAL(program({"build/tmp/nothing"}, &said), 1);
    CHECK(says(said, "no scan in the folders"));
    for (const char *path : {"build/tmp/missing.bin", "build/tmp/short.bin", "build/tmp/missing",
                             "build/tmp/scans/notes.txt"}) {
        CHECK_EQUAL(program({"--columns", "4", path}, &said), 1);
        CHECK(says(said, path) && says(said, "no scan could be read"));
    }
    CHECK_EQUAL(program({"build/tmp/scans/a.bin"}, &said), 1);
    CHECK(says(said, "a.bin") && says(said, "--columns"));
    CHECK_EQUAL(program({"build/tmp/scans", "--columns", "4", "--voxel", "1e-9"}, &said), 1);
    CHECK(says(said, "coordinate word"));
    CHECK_EQUAL(program({"build/tmp/scans", "--range", "0,0,0,1,1,1"}, &said), 2);
    CHECK(says(said, "--range: MinkUNet42 has none"));
}

TEST(engine_percentiles) {
    std::vector<float> values;
    for (int i = 1; i <= 200; ++i) {
        values.push_back((float)i);
    }
    CHECK_EQUAL(engine::percentile(values, 50), 100.0f);
    CHECK_EQUAL(engine::percentile(values, 99), 198.0f);
    CHECK_EQUAL(engine::percentile(values, 100), 200.0f);
    for (double percent : {0.0, 50.0, 99.0, 100.0}) {
        CHECK_EQUAL(engine::percentile({7.0f}, percent), 7.0f);
    }
}

// ---- with one -----------------------------------------------------------------------------------

DEVICE_TEST(engine_frame_is_one_graph_launch) {
    const int rounds = test_quick() ? 2 : 20;
    check_calls<uint32_t>("SparseResNet21", rounds);
    check_calls<uint64_t>("MinkUNet42", rounds);
}

// Ten thousand frames of a detector, from points to a dense map.
DEVICE_TEST(engine_soak_of_a_detector) {
    check_calls<uint32_t>("SpMiddleResNetFHD", test_quick() ? 2 : 1500, true);
}

DEVICE_TEST(engine_replay_is_the_run) {
    check_features<uint32_t>("MinkUNet42");
    check_features<uint64_t>("SparseResNet21");
    check_features<uint32_t>("SpMiddleResNetFHD", true);
}

// A pass without a graph makes many calls, and they are counted.
DEVICE_TEST(engine_planted_launches_are_found) {
    std::vector<frame> frames = frames_make();
    machine<uint32_t> *m = machine_make<uint32_t>("SparseResNet21", frames);
    REQUIRE(m != nullptr);
    std::vector<long long> before = calls_now();
    CHECK_OK(side::device_pass(&m->state.job, &m->state.d));
    CHECK(expect_no_cuda_error());
    std::vector<long long> after = calls_now();
    long long launches = 0;
    for (int i = 0; i < calls_functions; ++i) {
        bool launch = strstr(calls_table[i].name, "cudaLaunchKernel") != nullptr;
        launches += launch ? after[(size_t)i] - before[(size_t)i] : 0;
    }
    CHECK(launches >= m->plan.layer_count);
    machine_free(m);
}

namespace {

// A convolution of fp16 over the kernel map of a set of a few voxels, ready to be launched.
struct conv_case {
    conv_map map;
    conv_args args;
};

void conv_case_make(int cin, int cout, conv_case *c) {
    const int32_t voxels = 100, capacity = 128;
    random_state r = random_make((uint64_t)cin);
    const word_layout layout =
        reference_layout<uint32_t>({0, 0, 0}, {31, 31, 15}, 1, {1, 1, 1}, {1, 1, 1});
    std::vector<uint32_t> words(capacity, word_none<uint32_t>());
    CHECK_EQUAL(
        reference_random_set(&r, &layout, {0, 0, 0}, {31, 31, 15}, {1, 1, 1}, voxels, words.data()),
        voxels);
    const voxel_set<uint32_t> set = {device_upload(words.data(), capacity),
                                     device_upload(&voxels, 1), capacity};
    const kernel_shape kernel = kernel_cube(3, 1);
    conv_map_request<uint32_t> request = {};
    request.layout = &layout;
    request.kernel = kernel;
    request.source = request.outputs = set;
    request.trouble = device_zeros<device_status>(1);
    size_t bytes = 0, packed_bytes = 0;
    CHECK_OK(conv_map_bytes(gpu(), &request, &bytes));
    CHECK_OK(
        conv_map_build(gpu(), &request, device_new<char>((int64_t)bytes), bytes, &c->map, nullptr));
    const conv_shape shape = conv_shape_of(&kernel, cin, cout, numeric_f16);
    CHECK_OK(conv_weights_bytes(gpu(), &shape, &packed_bytes));
    char *packed = device_new<char>((int64_t)packed_bytes);
    const conv_weights weights = {device_zeros<float>((int64_t)27 * cin * cout), packed,
                                  packed_bytes, nullptr};
    CHECK_OK(conv_weights_pack<numeric_f16>(gpu(), &shape, &weights, nullptr));
    c->args = {};
    c->args.shape = shape;
    c->args.map = &c->map;
    c->args.in = device_zeros<__half>((int64_t)capacity * cin);
    c->args.weights = packed;
    c->args.out = device_new<__half>((int64_t)capacity * cout);
}

} // namespace

// One convolution outside of a graph is one launch, and at most one cudaFuncSetAttribute before it.
// No attribute of the device or of a kernel is queried.
DEVICE_TEST(conv_queries_nothing) {
    for (int channels : {16, 32, 64, 96, 128, 256}) {
        conv_case c;
        conv_case_make(channels, channels, &c);
        CHECK(expect_no_cuda_error());
        for (int run = 0; run < 2; ++run) { // the first one loads the kernel
            const std::vector<long long> before = calls_now();
            CHECK_OK(conv<numeric_f16>(gpu(), &c.args, nullptr));
            long long launches = 0;
            for (const char *launch : {"cudaLaunchKernel", "cudaLaunchKernelExC",
                                       "__cudaLaunchKernel", "__cudaLaunchKernelExC"}) {
                launches += calls_of(before, launch);
            }
            const long long set = calls_of(before, "cudaFuncSetAttribute");
            CHECK_EQUAL(launches, 1);
            CHECK(set <= 1);
            for (const char *query :
                 {"cudaGetDevice", "cudaDeviceGetAttribute", "cudaFuncGetAttributes",
                  "cudaGetDeviceProperties", "cudaOccupancyMaxActiveBlocksPerMultiprocessor",
                  "cudaMalloc", "cudaFree", "cudaStreamSynchronize", "cudaDeviceSynchronize"}) {
                CHECK_EQUAL(calls_of(before, query), 0);
            }
            // A launch by <<<>>> also pushes and pops its configuration and reads the last error,
            // and the first one looks the kernel up.
            CHECK(calls_all(before) <= (gpu()->hopper ? 1 : 5) + set);
        }
    }
    CHECK(expect_no_cuda_error());
}

DEVICE_TEST(engine_program_ends_as_it_says) {
    std::string said;
    folder_make();
    const char *folder = "build/tmp/scans";
    auto run = [&](std::vector<const char *> more) {
        more.insert(more.end(), {folder, "--columns", "4", "--net", "SparseResNet21", "--voxel",
                                 "0.5", "--rounds", "3"});
        return program(more, &said);
    };
    CHECK_EQUAL(run({}), 0);
    for (const char *what : {"a.bin", "b.xyz32", "c.vox32", "empty.bin", "p99", "frames per second",
                             "12 frames in", "3000 points"}) {
        CHECK(says(said, what));
    }
    CHECK(!says(said, "capacity was exceeded") && !says(said, "notes.txt"));
    CHECK_EQUAL(run({"--voxels", "500"}), 3);
    CHECK(says(said, "capacity was exceeded"));
    CHECK_EQUAL(run({"--points", "100"}), 3);
    CHECK(says(said, "a capacity was exceeded; needed: 3000"));
    CHECK_EQUAL(run({"--voxels", "5000", "--points", "9000", "--type", "fp16"}), 0);
    CHECK(says(said, "for 9000 points and 5000 voxels"));
}

// Scans that cannot be read or exceed a capacity are named, and the others run.
DEVICE_TEST(engine_goes_on_behind_bad_frames) {
    std::string said;
    folder_make();
    CHECK_EQUAL(program({"--columns", "4", "--rounds", "3", "build/tmp/missing.bin",
                         "build/tmp/scans", "build/tmp/short.bin"},
                        &said),
                3);
    for (const char *what : {"left out: build/tmp/missing.bin: ", "left out: build/tmp/short.bin: ",
                             "12 frames in", "2 frames could not be read"}) {
        CHECK(says(said, what));
    }
}

// A network of an .onnx file, its map as a head wants it; scans that standard input names.
DEVICE_TEST(engine_runs_an_onnx_file_on_a_stream) {
    std::string said;
    std::vector<float> rows;
    for (int32_t i = 0; i < 500; ++i) {
        const float at = (float)(i % 50) * 0.1f - 2.5f;
        rows.insert(rows.end(), {at, 0.2f, i == 7 ? NAN : 0.1f, 0.5f, 0.0f});
    }
    CHECK_OK(scan::scan_write_floats("build/tmp/five.bin", rows.data(), 500, 5));
    CHECK_OK(scan::scan_write_bytes("build/tmp/short.bin", "cut", 3));
    onnx_writer::write_file(onnx_writer::model_of(onnx_writer::small_graph(true)));
    std::vector<const char *> arguments = {"--onnx",    onnx_writer::temporary,
                                           "--range",   "-3.2,-3.2,-0.8,3.2,3.2,0.8",
                                           "--voxel",   "0.1,0.1,0.2",
                                           "--columns", "5",
                                           "--layout",  "nhwc",
                                           "--map",     "fp32"};
    std::vector<const char *> one = arguments, names = arguments;
    one.insert(one.end(), {"--rounds", "2", "build/tmp/five.bin"});
    CHECK_EQUAL(program(one, &said), 0);
    CHECK(says(said, "fp32 [1, 32, 32, 160] (NHWC) at 0x"));
    CHECK(says(said, "1 rows have no return"));
    const char *list = "build/tmp/five.bin\nbuild/tmp/short.bin\nbuild/tmp/five.bin\n\n"
                       "build/tmp/five.bin\n";
    CHECK_OK(scan::scan_write_bytes("build/tmp/names", list, (int64_t)strlen(list)));
    CHECK(freopen("build/tmp/names", "r", stdin));
    names.insert(names.end(), {"-", "--points", "600", "--voxels", "500"});
    CHECK_EQUAL(program(names, &said), 3);
    CHECK(says(said, "3 frames in") && says(said, "left out: build/tmp/short.bin"));
    CHECK(says(said, "1 frames could not be read"));
}

TEST_MAIN
