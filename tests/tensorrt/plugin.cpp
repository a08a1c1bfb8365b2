// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/tensorrt/plugin.cpp: the TensorRT plugin (examples/tensorrt), called as TensorRT calls it,
// by a stand-in (runtime.h) and, where its library is found, by TensorRT-RTX's parser and builder.
//   tests/run_tensorrt.sh folder of NvInfer.h
// Frames run where there is a GPU. Calls that allocate or wait are counted while they do.
#include "runtime.h"

#include "../support/node_blob.h"
#include "../support/onnx_writer.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>

// TensorRT-RTX's interfaces are those of the headers of TensorRT 11.
#if NV_TENSORRT_MAJOR >= 11 && __has_include(<NvOnnxParser.h>)
#include <NvOnnxParser.h>
#define WITH_PARSER
#endif

using namespace nvinfer1;
using namespace onnx_writer;

// ---- calls of CUDA that enqueue must not make ---------------------------------------------------

static int64_t calls;

// The plugin's library finds these in front of the runtime's.
#define COUNTED(name, parameters, ...)                                                             \
    extern "C" cudaError_t name parameters {                                                       \
        static const auto real = (cudaError_t(*) parameters)dlsym(RTLD_NEXT, #name);               \
        ++calls;                                                                                   \
        return real(__VA_ARGS__);                                                                  \
    }

COUNTED(cudaMalloc, (void **p, size_t n), p, n)
COUNTED(cudaFree, (void *p), p)
COUNTED(cudaMallocAsync, (void **p, size_t n, cudaStream_t s), p, n, s)
COUNTED(cudaFreeAsync, (void *p, cudaStream_t s), p, s)
COUNTED(cudaMallocHost, (void **p, size_t n), p, n)
COUNTED(cudaMemcpy, (void *to, const void *from, size_t n, cudaMemcpyKind k), to, from, n, k)
COUNTED(cudaMemset, (void *to, int v, size_t n), to, v, n)
COUNTED(cudaStreamSynchronize, (cudaStream_t s), s)
COUNTED(cudaDeviceSynchronize, (), )
COUNTED(cudaEventSynchronize, (cudaEvent_t e), e)
COUNTED(cudaStreamCreate, (cudaStream_t * s), s)

namespace {

// ---- the library and a model --------------------------------------------------------------------

standin::logger said;

// The creator of a name; null: there is none. Without the library no test makes sense.
IPluginCreatorV3One *creator_open(const char *name = "SpiraNet") {
    static IPluginCreatorInterface *const *all;
    static int32_t count;
    if (!all) {
        void *library = dlopen("build/tensorrt/libspira_tensorrt.so", RTLD_NOW | RTLD_GLOBAL);
        if (!library) {
            fprintf(stderr, "%s\nmake tensorrt builds it\n", dlerror());
            exit(1);
        }
        const auto get =
            (IPluginCreatorInterface *const *(*)(int32_t &))dlsym(library, "getCreators");
        const auto set = (void (*)(ILoggerFinder *))dlsym(library, "setLoggerFinder");
        all = get(count);
        set(&said);
    }
    for (int32_t i = 0; i < count; ++i) {
        const auto one = static_cast<IPluginCreatorV3One *>(all[i]);
        if (!strcmp(one->getPluginName(), name)) {
            return one;
        }
    }
    return nullptr;
}

enum { values = 5, channels = 160, height = 32, width = 32, cells = height * width };
const int32_t extent[3] = {64, 64, 8}; // of the points: x, y, z
const float range[6] = {-3.2f, -3.2f, -0.8f, 3.2f, 3.2f, 0.8f}, voxel[3] = {0.1f, 0.1f, 0.2f};

// A model of libspconv's dialect, in build/tmp. dense: with a map in the end, else with a node that
// is not known. Returns its path.
const char *model_file(bool dense) {
    write_file(model_of(small_graph(dense)));
    const char *name = dense ? "build/tmp/map.onnx" : "build/tmp/set.onnx";
    rename(temporary, name);
    return name;
}

// ---- attributes ---------------------------------------------------------------------------------

const int32_t points_most = 3000, voxels_most = 2500, device[3] = {90, 132, 232448};

struct attributes {
    std::vector<PluginField> fields; // of data that stays

    explicit attributes(bool dense = true) {
        text("model", model_file(dense));
        fields.emplace_back("max_points", &points_most, PluginFieldType::kINT32, 1);
        fields.emplace_back("max_voxels", &voxels_most, PluginFieldType::kINT32, 1);
        fields.emplace_back("device", device, PluginFieldType::kINT32, 3);
        fields.emplace_back("range", range, PluginFieldType::kFLOAT32, 6);
        fields.emplace_back("voxel", voxel, PluginFieldType::kFLOAT32, 3);
    }

    attributes &text(const char *name, const char *value) {
        fields.emplace_back(name, value, PluginFieldType::kCHAR, (int32_t)strlen(value));
        return *this;
    }

    attributes &without(const char *name) {
        for (size_t i = 0; i < fields.size(); ++i) {
            if (!strcmp(fields[i].name, name)) {
                fields.erase(fields.begin() + (ptrdiff_t)i);
                break;
            }
        }
        return *this;
    }

    std::unique_ptr<IPluginV3> create() const {
        return std::unique_ptr<IPluginV3>(
            standin::create(creator_open(), fields, TensorRTPhase::kBUILD));
    }
};

std::vector<DynamicPluginTensorDesc> inputs_of(bool voxels, bool count) {
    std::vector<DynamicPluginTensorDesc> in = {
        standin::desc_of(DataType::kFLOAT, {points_most, values})};
    if (voxels) {
        in.push_back(standin::desc_of(DataType::kINT32, {points_most, 4}));
    }
    if (count) {
        in.push_back(standin::desc_of(DataType::kINT32, {1}));
    }
    return in;
}

bool built(const attributes &a, bool voxels, bool count, standin::plan *made) {
    const std::unique_ptr<IPluginV3> p = a.create();
    return p && standin::node_build(p.get(), inputs_of(voxels, count), made);
}

} // namespace

TEST(tensorrt_builds_a_node) {
    standin::plan map = {}, last = {}, set = {};
    REQUIRE(creator_open());
    REQUIRE(built(attributes(), false, false, &map));
    CHECK(map.out[0] == std::vector<int64_t>({1, channels, height, width}));
    CHECK(map.types[1] == DataType::kHALF && map.types[2] == DataType::kINT32);
    CHECK_EQUAL(map.fields.size(), (size_t)2);
    CHECK(map.workspace > 100000);
    // The model stands in the plan file as it is.
    REQUIRE(map.fields[1].name == "model");
    scan::table file = {};
    scan::scan_reason why;
    CHECK_OK(scan::table_load("build/tmp/map.onnx", &file, &why));
    CHECK(map.fields[1].data == std::vector<char>(file.data, file.data + file.bytes));
    scan::table_free(&file);
    CHECK(built(attributes().text("layout", "NHWC").text("type", "fp32"), false, true, &last));
    CHECK(last.out[0] == std::vector<int64_t>({1, height, width, channels}));
    CHECK(last.types[2] == DataType::kFLOAT);
    for (bool dense : {true, false}) {
        set = {};
        CHECK(built(attributes(dense).text("output", "set").text("input", "voxels"), true, false,
                    &set));
        CHECK(set.out.size() == 4 && set.out[0][1] == 32 && set.out[1][1] == 4 &&
              set.out[2].empty() && set.out[0][0] == set.out[1][0]);
    }
}

TEST(tensorrt_nodes_with_other_attributes_share_no_timings) {
    const std::unique_ptr<IPluginV3> a = attributes().create(), b = attributes().create();
    const std::unique_ptr<IPluginV3> c = attributes().text("layout", "NHWC").create();
    REQUIRE(a && b && c);
    const bytes id = standin::build_of(a.get())->getTimingCacheID();
    CHECK(id == standin::build_of(b.get())->getTimingCacheID());
    CHECK(id != standin::build_of(c.get())->getTimingCacheID());
}

TEST(tensorrt_refuses_attributes_with_a_sentence) {
    const int32_t none = 0;
    const float twice[3] = {0.2f, 0.2f, 0.2f};
    attributes nothing, wide, wrong, named;
    nothing.without("max_voxels")
        .fields.emplace_back("max_voxels", &none, PluginFieldType::kINT32, 1);
    wide.without("voxel").fields.emplace_back("voxel", twice, PluginFieldType::kFLOAT32, 3);
    wrong.without("range").fields.emplace_back("range", range, PluginFieldType::kFLOAT32, 5);
    named.fields.emplace_back("shape", &none, PluginFieldType::kINT32, 1);
    const struct {
        attributes a;
        const char *part;
    } cases[] = {
        {nothing, "max_voxels"},
        {wide, "they make an extent of 32 x 32 x 9, the model is for 64 x 64 x 9"},
        {wrong, "attribute range"},
        {named, "attribute shape"},
        {attributes().without("model"), "No such file"},
        {attributes().without("model").text("model", "tests/layers.txt"), "model"},
        {attributes().text("net", "NoNet"), "no network NoNet"},
        {attributes().text("layout", "NCHW32"), "attribute layout"},
        {attributes().text("precision", "int4"), "attribute precision"},
        {attributes().text("output", "set").text("layout", "NHWC"), "layout"},
        {attributes(false), "the network makes none; it ends in front of node 2 (Softmax"},
    };
    for (const auto &c : cases) {
        said.last.clear();
        if (!CHECK(!c.a.create() && strstr(said.last.c_str(), c.part))) {
            fprintf(stderr, "    wanted \"%s\": %s\n", c.part, said.last.c_str());
        }
    }
}

TEST(tensorrt_refuses_damaged_plan_files) {
    standin::plan good = {};
    REQUIRE(built(attributes(), false, false, &good));
    CHECK(std::unique_ptr<IPluginV3>(standin::restore(creator_open(), &good)) != nullptr);
    const struct {
        int field;
        size_t byte; // flipped; -1: the field is cut short
        const char *part;
    } cases[] = {{0, 0, "not one of spira"},       {0, 4, "build the engine again"},
                 {0, 8, "build the engine again"}, {0, (size_t)-1, "build the engine again"},
                 {1, 77, "its model is damaged"},  {1, (size_t)-1, "its model is damaged"}};
    for (const auto &c : cases) {
        standin::plan bad = good;
        std::vector<char> *data = &bad.fields[(size_t)c.field].data;
        if (c.byte == (size_t)-1) {
            data->pop_back();
        } else {
            (*data)[c.byte] ^= 1;
        }
        said.last.clear();
        CHECK(!std::unique_ptr<IPluginV3>(standin::restore(creator_open(), &bad)));
        CHECK(strstr(said.last.c_str(), c.part));
    }
    good.fields.erase(good.fields.begin());
    CHECK(!std::unique_ptr<IPluginV3>(standin::restore(creator_open(), &good)));
}

// ---- frames -------------------------------------------------------------------------------------

namespace {

bool gpu_here() {
    int count = 0;
    return cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
}

struct frame {
    std::vector<float> points;   // [n, values] in the middle of voxels, all different
    std::vector<int32_t> coords; // [n, 4]: 0, z, y, x
    int32_t n;
};

frame frame_make(int32_t n, uint32_t state) {
    frame f;
    f.n = n;
    std::vector<char> taken((size_t)(extent[0] * extent[1] * extent[2]));
    for (int32_t i = 0; i < n;) {
        int32_t c[3];
        for (int a = 0; a < 3; ++a) {
            state = state * 1664525u + 1013904223u;
            c[a] = (int32_t)(state >> 8) % extent[a];
        }
        char *once = &taken[(size_t)((c[0] * extent[1] + c[1]) * extent[2] + c[2])];
        if (!*once) {
            *once = 1;
            ++i;
            f.coords.insert(f.coords.end(), {0, c[2], c[1], c[0]});
            for (int a = 0; a < 3; ++a) {
                f.points.push_back(range[a] + ((float)c[a] + 0.5f) * voxel[a]);
            }
            f.points.push_back((float)(i % 7) * 0.25f);
            f.points.push_back((float)(i % 3) * 0.5f);
        }
    }
    return f;
}

// An execution context: a plugin restored from a plan, attached, with tensors of its own.
struct context {
    std::unique_ptr<IPluginV3> engine, attached;
    std::vector<void *> in, out, own; // own: those that it frees
    std::vector<PluginTensorDesc> in_desc, out_desc;
    const standin::plan *made;
    void *workspace;
    cudaStream_t stream;
};

// A node with its tensors. given: arrays of the inputs; null where it has its own
void node_open(const char *name, const standin::plan *made,
               const std::vector<DynamicPluginTensorDesc> &in, const std::vector<void *> &given,
               context *c) {
    c->made = made;
    c->engine.reset(standin::restore(creator_open(name), made));
    REQUIRE(c->engine);
    c->attached.reset(standin::runtime_of(c->engine.get())->attachToContext(nullptr));
    REQUIRE(c->attached);
    for (size_t i = 0; i < made->types.size(); ++i) {
        const bool is_in = i < in.size();
        PluginTensorDesc d = {};
        d.type = made->types[i];
        d.format = TensorFormat::kLINEAR;
        d.dims = is_in ? in[i].max : standin::dims_of(made->out[i - in.size()]);
        size_t bytes = standin::bytes_of(d.type);
        for (int k = 0; k < d.dims.nbDims; ++k) {
            bytes *= (size_t)d.dims.d[k];
        }
        void *array = is_in && i < given.size() ? given[i] : nullptr;
        if (!array && bytes) { // null: what TensorRT may give for no elements
            REQUIRE(cudaMalloc(&array, bytes) == cudaSuccess);
            c->own.push_back(array);
        }
        (is_in ? c->in : c->out).push_back(array);
        (is_in ? c->in_desc : c->out_desc).push_back(d);
    }
    REQUIRE(cudaMalloc(&c->workspace, made->workspace) == cudaSuccess);
    c->own.push_back(c->workspace);
    CHECK_EQUAL(standin::runtime_of(c->attached.get())
                    ->onShapeChange(c->in_desc.data(), (int32_t)in.size(), c->out_desc.data(),
                                    (int32_t)c->out.size()),
                0);
}

void context_open(const standin::plan *made, int32_t points, int32_t columns, bool voxels,
                  context *c) {
    const size_t inputs = made->types.size() - made->out.size();
    std::vector<DynamicPluginTensorDesc> in;
    for (size_t i = 0; i < inputs; ++i) {
        const bool is_count = i > (voxels ? 1u : 0u);
        in.push_back(is_count ? standin::desc_of(made->types[i], {1})
                              : standin::desc_of(made->types[i], {points, i ? 4 : columns}));
    }
    node_open("SpiraNet", made, in, {}, c);
    REQUIRE(cudaStreamCreate(&c->stream) == cudaSuccess);
}

void context_close(context *c) {
    for (void *array : c->own) {
        cudaFree(array);
    }
    if (c->stream) {
        cudaStreamDestroy(c->stream);
    }
}

// Enqueues; what the plugin says of a failure is printed. No call allocates or waits.
void context_enqueue(context *c) {
    calls = 0;
    said.last.clear();
    const int32_t code = standin::runtime_of(c->attached.get())
                             ->enqueue(c->in_desc.data(), c->out_desc.data(), c->in.data(),
                                       c->out.data(), c->workspace, c->stream);
    if (!CHECK_EQUAL(code, 0)) {
        fprintf(stderr, "    %s\n", said.last.c_str());
    }
    CHECK_EQUAL(calls, (int64_t)0);
}

void context_send(context *c, const frame *f, bool voxels, int32_t count) {
    cudaMemcpy(c->in[0], f->points.data(), f->points.size() * sizeof(float),
               cudaMemcpyHostToDevice);
    if (voxels) {
        cudaMemcpy(c->in[1], f->coords.data(), f->coords.size() * 4, cudaMemcpyHostToDevice);
    }
    if (c->in.size() > (voxels ? 2u : 1u)) {
        cudaMemcpy(c->in.back(), &count, 4, cudaMemcpyHostToDevice);
    }
    for (size_t i = 0; i < c->out.size(); ++i) {
        cudaMemset(c->out[i], 0xff, (size_t)standin::volume_of(c->made->out[i]) * 2);
    }
}

// An output, waited for.
std::vector<char> context_fetch(const context *c, size_t output) {
    const size_t inputs = c->in.size();
    std::vector<char> data((size_t)standin::volume_of(c->made->out[output]) *
                           standin::bytes_of(c->made->types[inputs + output]));
    CHECK(cudaDeviceSynchronize() == cudaSuccess);
    cudaMemcpy(data.data(), c->out[output], data.size(), cudaMemcpyDeviceToHost);
    return data;
}

// Runs a frame in a stream, then captured in a graph; both make the same first output, which is
// returned. Neither allocates or waits.
std::vector<char> frame_run(const standin::plan *made, const frame *f, bool voxels, int32_t count,
                            std::vector<std::vector<char>> *more = nullptr) {
    context c = {};
    context_open(made, f->n, values, voxels, &c);
    context_send(&c, f, voxels, count);
    context_enqueue(&c);
    const std::vector<char> first = context_fetch(&c, 0);
    context_send(&c, f, voxels, count);
    cudaGraph_t graph;
    cudaGraphExec_t replay;
    CHECK(cudaStreamBeginCapture(c.stream, cudaStreamCaptureModeGlobal) == cudaSuccess);
    context_enqueue(&c);
    CHECK(cudaStreamEndCapture(c.stream, &graph) == cudaSuccess);
    if (CHECK(cudaGraphInstantiateWithFlags(&replay, graph, 0) == cudaSuccess)) {
        CHECK(cudaGraphLaunch(replay, c.stream) == cudaSuccess);
        CHECK(context_fetch(&c, 0) == first);
        cudaGraphExecDestroy(replay);
    }
    for (size_t i = 1; more && i < c.out.size(); ++i) {
        more->push_back(context_fetch(&c, i));
    }
    cudaGraphDestroy(graph);
    context_close(&c);
    return first;
}

uint16_t half_at(const std::vector<char> &data, size_t i) {
    uint16_t h;
    memcpy(&h, data.data() + 2 * i, 2);
    return h;
}

int32_t int_at(const std::vector<char> &data, size_t i) {
    int32_t v;
    memcpy(&v, data.data() + 4 * i, 4);
    return v;
}

} // namespace

// Every kind of node takes a frame, in a stream and captured. Passes all checks without a GPU, too,
// where dry.c is preloaded.
TEST(tensorrt_takes_frames) {
    if (!gpu_here()) {
        SKIP("no GPU");
    }
    const frame f = frame_make(2000, 5), none = {};
    for (bool voxels : {false, true}) {
        for (bool count : {false, true}) {
            for (bool set : {false, true}) {
                standin::plan made = {};
                attributes a;
                a.text("input", voxels ? "voxels" : "points").text("output", set ? "set" : "map");
                if (!set && count) {
                    a.text("layout", "NHWC").text("type", "fp32");
                }
                REQUIRE(built(a, voxels, count, &made));
                CHECK(!frame_run(&made, &f, voxels, f.n).empty());
                CHECK(!frame_run(&made, &none, voxels, 0).empty());
            }
        }
    }
}

// Points and voxels make the same map; a map is the scattered set; other layouts and types hold the
// same values.
TEST(tensorrt_runs_frames) {
    if (!gpu_here()) {
        SKIP("no GPU");
    }
    standin::plan map = {}, last = {}, wide = {}, voxels = {}, set = {};
    REQUIRE(built(attributes(), false, false, &map));
    REQUIRE(built(attributes().text("layout", "NHWC"), false, true, &last));
    REQUIRE(built(attributes().text("type", "fp32"), false, false, &wide));
    REQUIRE(built(attributes().text("input", "voxels"), true, false, &voxels));
    REQUIRE(built(attributes().text("output", "set").text("input", "voxels"), true, true, &set));
    const frame f = frame_make(2000, 5);
    const std::vector<char> first = frame_run(&map, &f, false, 0);
    size_t filled = 0;
    for (size_t i = 0; i < first.size() / 2; ++i) {
        filled += half_at(first, i) != 0;
    }
    CHECK(filled > 1000);
    CHECK(frame_run(&voxels, &f, true, 0) == first);
    const std::vector<char> behind = frame_run(&last, &f, false, f.n),
                            floats = frame_run(&wide, &f, false, 0);
    std::vector<std::vector<char>> more;
    const std::vector<char> features = frame_run(&set, &f, true, f.n, &more);
    REQUIRE(more.size() == 3);
    const int32_t rows = int_at(more[1], 0);
    CHECK(rows > 500 && rows <= set.out[0][0]);
    CHECK_EQUAL(int_at(more[2], 0), 0); // no trouble
    std::vector<uint16_t> scattered(channels * cells);
    for (int32_t r = 0; r < rows; ++r) { // 0, z, y, x
        const int32_t z = int_at(more[0], (size_t)r * 4 + 1),
                      y = int_at(more[0], (size_t)r * 4 + 2),
                      x = int_at(more[0], (size_t)r * 4 + 3);
        REQUIRE(int_at(more[0], (size_t)r * 4) == 0 && x >= 0 && x < width && y >= 0 &&
                y < height && z >= 0 && z < 5);
        for (int32_t ch = 0; ch < 32; ++ch) {
            scattered[(size_t)(((ch * 5 + z) * height + y) * width + x)] =
                half_at(features, (size_t)(r * 32 + ch));
        }
    }
    size_t wrong = 0, moved = 0, other = 0;
    for (size_t ch = 0; ch < channels; ++ch) {
        for (size_t cell = 0; cell < cells; ++cell) {
            const uint16_t h = half_at(first, ch * cells + cell);
            float value;
            memcpy(&value, floats.data() + 4 * (ch * cells + cell), 4);
            wrong += h != scattered[ch * cells + cell];
            moved += h != half_at(behind, cell * channels + ch);
            other += (float)scan::value_of_half(h) != value;
        }
    }
    CHECK_EQUAL(wrong, (size_t)0);
    CHECK_EQUAL(moved, (size_t)0);
    CHECK_EQUAL(other, (size_t)0);
}

// Frames of every size go through one context; rows behind the count, out of the range and without
// a return make no voxels.
TEST(tensorrt_takes_frames_of_any_size) {
    if (!gpu_here()) {
        SKIP("no GPU");
    }
    standin::plan map = {};
    REQUIRE(built(attributes(), false, true, &map));
    const frame f = frame_make(1500, 9);
    frame more = f;
    for (int i = 0; i < 300; ++i) { // behind the count
        more.points.insert(more.points.end(), {0.1f * (float)(i % 20), 0, 0, 1, 1});
    }
    for (int i = 0; i < 4; ++i) {
        more.points.insert(more.points.begin(), {i % 2 ? NAN : 99.0f, 0, 0, 1, 1});
    }
    more.n = f.n + 304;
    std::vector<std::vector<char>> status, quiet;
    CHECK(frame_run(&map, &more, false, f.n + 4, &status) ==
          frame_run(&map, &f, false, f.n, &quiet));
    CHECK_EQUAL(int_at(quiet[0], 7), 0);
    CHECK_EQUAL(int_at(status[0], 0), 0);  // no trouble
    CHECK_EQUAL(int_at(status[0], 7), 2);  // out of the range
    CHECK_EQUAL(int_at(status[0], 10), 2); // without a return
    frame none = {{}, {}, 0};
    const std::vector<char> empty = frame_run(&map, &none, false, 0);
    CHECK(std::count(empty.begin(), empty.end(), 0) == (ptrdiff_t)empty.size());
    const frame many = frame_make(2800, 3); // more voxels than max_voxels
    status.clear();
    frame_run(&map, &many, false, many.n, &status);
    CHECK(int_at(status[0], 0) & 8); // the capacity
    CHECK_EQUAL(int_at(status[0], 6), 2800);
}

// ---- a detector ---------------------------------------------------------------------------------

namespace {

// The nuScenes scan, its first four columns.
frame frame_read() {
    const scan::scan_options options = {};
    scan::scan_cloud cloud;
    scan::scan_reason why;
    frame f = {};
    CHECK_OK(scan::scan_read("data/nuscenes_10sweeps.pcd.bin", &options, &cloud, &why));
    for (int64_t i = 0; i < cloud.rows; ++i) {
        f.points.insert(f.points.end(), cloud.points + i * cloud.columns,
                        cloud.points + i * cloud.columns + 4);
    }
    f.n = (int32_t)cloud.rows;
    scan::scan_free(&cloud);
    return f;
}

// Milliseconds of a replay, the median of 21.
float replay_time(context *c) {
    cudaGraph_t graph;
    cudaGraphExec_t replay;
    cudaEvent_t mark[2];
    std::vector<float> times(21);
    CHECK(cudaEventCreate(&mark[0]) == cudaSuccess && cudaEventCreate(&mark[1]) == cudaSuccess);
    CHECK(cudaStreamBeginCapture(c->stream, cudaStreamCaptureModeGlobal) == cudaSuccess);
    context_enqueue(c);
    CHECK(cudaStreamEndCapture(c->stream, &graph) == cudaSuccess);
    CHECK(cudaGraphInstantiateWithFlags(&replay, graph, 0) == cudaSuccess);
    for (float &ms : times) {
        cudaEventRecord(mark[0], c->stream);
        CHECK(cudaGraphLaunch(replay, c->stream) == cudaSuccess);
        cudaEventRecord(mark[1], c->stream);
        CHECK(cudaEventSynchronize(mark[1]) == cudaSuccess);
        cudaEventElapsedTime(&ms, mark[0], mark[1]);
    }
    std::sort(times.begin(), times.end());
    cudaGraphExecDestroy(replay);
    cudaGraphDestroy(graph);
    return times[times.size() / 2];
}

} // namespace

// A whole detector of a blob, from the points of a real scan to its map.
TEST(tensorrt_runs_a_detector) {
    NEED_SCANS("nuscenes_10sweeps.pcd.bin");
    if (!gpu_here()) {
        SKIP("no GPU");
    }
    const char *net = "SpMiddleResNetFHD", *path = "build/tmp/detector.blob";
    const int32_t points = 300000, voxels = 120000;
    const std::vector<char> blob = node_blob(net);
    CHECK_OK(scan::scan_write_bytes(path, blob.data(), (int64_t)blob.size()));
    attributes a;
    a.fields.clear();
    a.text("model", path).text("net", net);
    a.fields.emplace_back("max_points", &points, PluginFieldType::kINT32, 1);
    a.fields.emplace_back("max_voxels", &voxels, PluginFieldType::kINT32, 1);
    const std::unique_ptr<IPluginV3> p = a.create();
    standin::plan made = {};
    REQUIRE(p);
    REQUIRE(standin::node_build(p.get(), {standin::desc_of(DataType::kFLOAT, {points, 4})}, &made));
    CHECK(made.out[0] == std::vector<int64_t>({1, 256, 180, 180}));
    const frame f = frame_read();
    context c = {};
    context_open(&made, f.n, 4, false, &c);
    context_send(&c, &f, false, 0);
    printf("tensorrt: %s on a scan of nuScenes: %.3f ms, workspace %.1f MiB\n", net,
           (double)replay_time(&c), (double)made.workspace / (1 << 20));
    const std::vector<char> map = context_fetch(&c, 0), status = context_fetch(&c, 1);
    size_t filled = 0;
    for (size_t i = 0; i < map.size() / 2; ++i) {
        filled += half_at(map, i) != 0;
    }
    CHECK(filled > 100000);
    CHECK_EQUAL(int_at(status, 0), 0);
    context_close(&c);
}

// ---- nodes under Autoware's names ---------------------------------------------------------------

namespace {

const int32_t shape_zyx[3] = {8, 64, 64}, three[3] = {3, 3, 3}, two[3] = {2, 2, 2},
              ones[3] = {1, 1, 1}, is_zero = 0, is_one = 1, leaky = 3;
const float slope = 0.25f, scale_of_one = 1;

// The attributes that a file has, those without a meaning among them.
std::vector<PluginField> pairs_fields(bool strided) {
    return {{"batch_size", &is_one, PluginFieldType::kINT32, 1},
            {"dilation", ones, PluginFieldType::kINT32, 3},
            {"ksize", three, PluginFieldType::kINT32, 3},
            {"padding", ones, PluginFieldType::kINT32, 3},
            {"spatial_shape", shape_zyx, PluginFieldType::kINT32, 3},
            {"stride", strided ? two : ones, PluginFieldType::kINT32, 3},
            {"subm", strided ? &is_zero : &is_one, PluginFieldType::kINT32, 1},
            {"transpose", &is_zero, PluginFieldType::kINT32, 1}};
}

std::vector<PluginField> product_fields() {
    return {{"act_type", &leaky, PluginFieldType::kINT32, 1},
            {"act_alpha", &slope, PluginFieldType::kFLOAT32, 1},
            {"output_scale", &scale_of_one, PluginFieldType::kFLOAT32, 1}};
}

bool node_built(const char *name, const std::vector<PluginField> &fields,
                const std::vector<DynamicPluginTensorDesc> &in, standin::plan *made) {
    *made = {};
    const std::unique_ptr<IPluginV3> p(
        standin::create(creator_open(name), fields, TensorRTPhase::kBUILD));
    return p && standin::node_build(p.get(), in, made);
}

// Inputs of a product node behind a pair node: features of `cin` channels and a bias.
std::vector<DynamicPluginTensorDesc> product_inputs_of(const standin::plan &pairs, bool half,
                                                       int64_t n, int64_t cin, int64_t cout,
                                                       bool bias) {
    const DataType type = half ? DataType::kHALF : DataType::kFLOAT;
    std::vector<DynamicPluginTensorDesc> in = {standin::desc_of(type, {n, cin}),
                                               standin::desc_of(type, {cout, 3, 3, 3, cin})};
    for (size_t i = 1; i < 4; ++i) {
        in.push_back(standin::desc_of(DataType::kINT32, pairs.out[i]));
    }
    if (bias) {
        in.push_back(standin::desc_of(type, {cout}));
    }
    return in;
}

} // namespace

// Sizes follow from those of the inputs: there is no size tensor, and so nothing to read back.
TEST(tensorrt_builds_autoware_s_nodes) {
    standin::plan pairs = {}, product = {};
    const auto indices = {standin::desc_of(DataType::kINT32, {1000, 4})};
    REQUIRE(node_built("GetIndicePairsImplicitGemm", pairs_fields(false), indices, &pairs));
    CHECK(pairs.out.size() == 5 && pairs.out[0] == std::vector<int64_t>({1000, 4}) &&
          pairs.out[3] == std::vector<int64_t>({1000}) && pairs.out[4].empty());
    for (bool half : {false, true}) {
        for (bool bias : {false, true}) {
            CHECK(node_built("ImplicitGemm", product_fields(),
                             product_inputs_of(pairs, half, 1000, 16, 32, bias), &product));
            CHECK(product.out[0] == std::vector<int64_t>({1000, 32}));
            CHECK(product.types.back() == (half ? DataType::kHALF : DataType::kFLOAT));
        }
    }
    auto eight = product_inputs_of(pairs, true, 1000, 16, 32, false); // of precision 1
    eight.insert(eight.end(), 2, standin::desc_of(DataType::kFLOAT, {32}));
    CHECK(node_built("ImplicitGemm", product_fields(), eight, &product));
    said.last.clear();
    const auto other = product_inputs_of(pairs, true, 1000, 16, 32, false);
    auto wrong = other;
    wrong[2] = standin::desc_of(DataType::kINT32, {27, 1000}); // a pair table
    const std::unique_ptr<IPluginV3> p(
        standin::create(creator_open("ImplicitGemm"), product_fields(), TensorRTPhase::kBUILD));
    CHECK(p && standin::build_of(p.get())->configurePlugin(wrong.data(), 5, nullptr, 0) == 1);
    CHECK(strstr(said.last.c_str(), "not of a pair node of this library"));
    REQUIRE(node_built("GetIndicePairsImplicitGemm", pairs_fields(true), indices, &pairs));
    CHECK(pairs.out[0] == std::vector<int64_t>({4 * 32 * 32, 4})); // all that there can be
    REQUIRE(node_built("GetIndicePairs", pairs_fields(false), indices, &pairs));
    CHECK(pairs.out.size() == 4 && pairs.out[3].empty());
    CHECK(node_built("IndiceConv", {}, product_inputs_of(pairs, true, 1000, 16, 32, false),
                     &product));
    std::vector<char> *record = &product.fields[0].data;
    CHECK(std::unique_ptr<IPluginV3>(standin::restore(creator_open("IndiceConv"), &product)) !=
          nullptr);
    CHECK(!std::unique_ptr<IPluginV3>(standin::restore(creator_open("ImplicitGemm"), &product)));
    (*record)[4] ^= 1;
    CHECK(!std::unique_ptr<IPluginV3>(standin::restore(creator_open("IndiceConv"), &product)));
    CHECK(strstr(said.last.c_str(), "build the engine again"));
}

TEST(tensorrt_refuses_autoware_s_attributes_with_a_sentence) {
    const struct {
        const char *node;
        PluginField field;
        const char *part;
    } cases[] = {
        {"GetIndicePairs",
         {"batch_size", three, PluginFieldType::kINT32, 1},
         "batch_size: expected 1"},
        {"GetIndicePairs",
         {"transpose", &is_one, PluginFieldType::kINT32, 1},
         "transpose: expected 0"},
        {"GetIndicePairs", {"ksize", three, PluginFieldType::kINT32, 2}, "ksize: expected three"},
        {"GetIndicePairs",
         {"stride", two, PluginFieldType::kINT32, 3},
         "of a submanifold layer: 1"},
        {"GetIndicePairs",
         {"ksize", two, PluginFieldType::kINT32, 3},
         "of a submanifold layer: odd"},
        {"GetIndicePairs",
         {"subm", &slope, PluginFieldType::kFLOAT32, 1},
         "subm: expected a number"},
        {"ImplicitGemm",
         {"act_type", two, PluginFieldType::kINT32, 1},
         "act_type: expected 0 (none)"},
        {"ImplicitGemm", {"output_scale", &slope, PluginFieldType::kFLOAT32, 1}, "output_scale"},
    };
    for (const auto &c : cases) {
        std::vector<PluginField> fields = *c.node == 'G' ? pairs_fields(false) : product_fields();
        fields.push_back(c.field);
        said.last.clear();
        const std::unique_ptr<IPluginV3> p(
            standin::create(creator_open(c.node), fields, TensorRTPhase::kBUILD));
        if (!CHECK(!p && strstr(said.last.c_str(), c.part))) {
            fprintf(stderr, "    wanted \"%s\": %s\n", c.part, said.last.c_str());
        }
    }
}

// A strided layer, in a stream and captured. What is computed: gpu/autoware.cu. Passes all checks
// without a GPU, too, where dry.c is preloaded.
TEST(tensorrt_takes_autoware_s_frames) {
    if (!gpu_here()) {
        SKIP("no GPU");
    }
    const frame f = frame_make(1000, 5);
    const int64_t n = f.n;
    for (bool half : {true, false}) {
        standin::plan made[2];
        context c[2] = {};
        const std::vector<DynamicPluginTensorDesc> in = {
            standin::desc_of(DataType::kINT32, {n, 4})};
        REQUIRE(node_built("GetIndicePairsImplicitGemm", pairs_fields(true), in, &made[0]));
        node_open("GetIndicePairsImplicitGemm", &made[0], in, {}, &c[0]);
        const auto behind = product_inputs_of(made[0], half, n, 16, 32, true);
        REQUIRE(node_built("ImplicitGemm", product_fields(), behind, &made[1]));
        node_open("ImplicitGemm", &made[1], behind,
                  {nullptr, nullptr, c[0].out[1], c[0].out[2], c[0].out[3]}, &c[1]);
        cudaMemcpy(c[0].in[0], f.coords.data(), f.coords.size() * 4, cudaMemcpyHostToDevice);
        const int size = half ? 2 : 4;
        for (int i : {0, 1, 5}) { // features, filters, bias: 0.01 or so
            const int64_t count = i == 0 ? n * 16 : i == 1 ? 27 * 16 * 32 : 32;
            cudaMemset(c[1].in[(size_t)i], half ? 0x21 : 0x3c, (size_t)(count * size));
        }
        REQUIRE(cudaStreamCreate(&c[0].stream) == cudaSuccess);
        c[1].stream = c[0].stream;
        std::vector<char> runs[2];
        for (bool captured : {false, true}) {
            cudaGraph_t graph = nullptr;
            cudaGraphExec_t replay = nullptr;
            cudaMemset(c[1].out[0], 0xff, (size_t)standin::volume_of(made[1].out[0]) * 2);
            CHECK(!captured ||
                  cudaStreamBeginCapture(c[0].stream, cudaStreamCaptureModeGlobal) == cudaSuccess);
            context_enqueue(&c[0]);
            context_enqueue(&c[1]);
            if (captured) {
                CHECK(cudaStreamEndCapture(c[0].stream, &graph) == cudaSuccess);
                CHECK(cudaGraphInstantiateWithFlags(&replay, graph, 0) == cudaSuccess);
                CHECK(cudaGraphLaunch(replay, c[0].stream) == cudaSuccess);
            }
            runs[captured] = context_fetch(&c[1], 0);
            CHECK(!captured || (cudaGraphExecDestroy(replay) == cudaSuccess &&
                                cudaGraphDestroy(graph) == cudaSuccess));
        }
        CHECK(runs[0] == runs[1]);
        c[1].stream = nullptr; // that of the other
        context_close(&c[0]);
        context_close(&c[1]);
    }
}

// ---- TensorRT-RTX, where it is installed --------------------------------------------------------

#ifdef WITH_PARSER
namespace {

// An input or output of a graph. sizes: fields of its type
bytes value_text(const char *name, int type, const bytes &sizes) {
    return field_bytes(1, name) + field_bytes(2, field_bytes(1, field_number(1, type) + sizes));
}

bytes floats_text(const float *from, int count) {
    bytes text;
    for (int i = 0; i < count; ++i) {
        text += field_float(7, from[i]);
    }
    return text;
}

// An .onnx file of one node SpiraNet.
bytes engine_file() {
    const bytes sizes =
        field_bytes(1, field_bytes(2, "n")) + field_bytes(1, field_number(1, values));
    const bytes attributes =
        attribute_text("model", model_file(true)) + attribute_int("max_points", points_most) +
        attribute_int("max_voxels", voxels_most) + attribute("range", floats_text(range, 6), 6) +
        attribute("voxel", floats_text(voxel, 3), 6) +
        attribute_ints("device", {device[0], device[1], device[2]}, false);
    return model_of(node_many("SpiraNet", {"points"}, {"map", "status"}, attributes) +
                    field_bytes(2, "g") +
                    field_bytes(11, value_text("points", 1, field_bytes(2, sizes))) +
                    field_bytes(12, value_text("map", 10, "")) +
                    field_bytes(12, value_text("status", 6, ""))) +
           field_bytes(8, field_bytes(1, "") + field_number(2, 17));
}

// A convolution of Autoware's dialect behind the tensors `in` and `set`: a pair node and a product
// node, with the attributes that a file has. Makes `out` and `out_set`.
bytes autoware_conv(const bytes &in, const bytes &set, int64_t cin, int64_t cout, bool down,
                    const bytes &out) {
    const bytes domain = field_bytes(7, "autoware"), w = "w" + out, p = "p" + out;
    const int64_t s = down ? 2 : 1;
    bytes values;
    for (int64_t i = 0; i < 27 * cin * cout; ++i) {
        values += stored(0.125f * (float)(i % 5 - 2));
    }
    const std::vector<int64_t> extent = {down || cin < 16 ? 64 : 32, 64, 8};
    return field_bytes(5, tensor(w, {cout, 3, 3, 3, cin}, 1, field_bytes(9, values))) +
           node_many("GetIndicePairsImplicitGemm", {set},
                     {out + "set", p + "1", p + "2", p + "3", p + "4"},
                     attribute_int("algo", 1) + attribute_int("batch_size", 1) +
                         attribute_ints("dilation", {1, 1, 1}, false) +
                         attribute_int("is_train", down) +
                         attribute_ints("ksize", {3, 3, 3}, false) +
                         attribute_ints("out_padding", {0, 0, 0}, false) +
                         attribute_ints("padding", {1, 1, 1}, false) +
                         attribute_ints("spatial_shape", extent, false) +
                         attribute_ints("stride", {s, s, s}, false) + attribute_int("subm", !down) +
                         attribute_int("transpose", 0) + domain) +
           node_many("ImplicitGemm", {in, w, p + "1", p + "2", p + "3"}, {out},
                     attribute("act_alpha", field_float(2, 0), 1) +
                         attribute("act_beta", field_float(2, 0), 1) +
                         attribute_int("is_subm", !down) + attribute_int("is_train", 0) +
                         attribute("output_add_scale", field_float(2, 0), 1) +
                         attribute("output_scale", field_float(2, 1), 1) + domain);
}

// An .onnx file as Autoware's exporters write it: a block, a strided layer, and one behind it.
bytes autoware_file() {
    const auto rows = [](int64_t columns) {
        return field_bytes(2, field_bytes(1, field_bytes(2, "n")) +
                                  field_bytes(1, field_number(1, columns)));
    };
    return model_of(autoware_conv("voxels", "coors", 5, 16, false, "1") +
                    node("Relu", {"1"}, "r1") + autoware_conv("r1", "1set", 16, 32, true, "2") +
                    node("Relu", {"2"}, "r2") + autoware_conv("r2", "2set", 32, 32, false, "3") +
                    node("Add", {"r2", "3"}, "out") + field_bytes(2, "g") +
                    field_bytes(11, value_text("voxels", 1, rows(values))) +
                    field_bytes(11, value_text("coors", 6, rows(4))) +
                    field_bytes(12, value_text("out", 1, "")) +
                    field_bytes(12, value_text("3set", 6, ""))) +
           field_bytes(8, field_bytes(1, "") + field_number(2, 17)) +
           field_bytes(8, field_bytes(1, "autoware") + field_number(2, 1));
}

// Parses a file and builds a plan with it. inputs: their names and columns
std::string rtx_build(const bytes &file,
                      std::initializer_list<std::pair<const char *, int64_t>> inputs) {
    void *library = dlopen("libtensorrt_rtx.so", RTLD_NOW | RTLD_GLOBAL);
    void *parsers = dlopen("libtensorrt_onnxparser_rtx.so", RTLD_NOW | RTLD_GLOBAL);
    const auto version = (int32_t(*)())dlsym(library, "getInferLibVersion");
    const auto registry = (IPluginRegistry * (*)()) dlsym(library, "getPluginRegistry");
    const auto build = (void *(*)(void *, int32_t))dlsym(library, "createInferBuilder_INTERNAL");
    const auto parse =
        (void *(*)(void *, void *, int32_t))dlsym(parsers, "createNvOnnxParser_INTERNAL");
    const auto parser_version = (int32_t(*)())dlsym(parsers, "getNvOnnxParserVersion");
    if (!CHECK(version && registry && build && parse && parser_version)) {
        return "";
    }
    for (const char *name : {"SpiraNet", "GetIndicePairsImplicitGemm", "ImplicitGemm"}) {
        registry()->registerCreator(*creator_open(name), ""); // false from the second file on
    }
    IBuilder *builder = (IBuilder *)build(&said, version());
    INetworkDefinition *net = builder->createNetworkV2(0);
    nvonnxparser::IParser *parser = (nvonnxparser::IParser *)parse(net, &said, parser_version());
    if (!CHECK(parser->parse(file.data(), file.size()))) {
        fprintf(stderr, "    %s\n", said.last.c_str());
        return "";
    }
    IOptimizationProfile *profile = builder->createOptimizationProfile();
    for (const auto &input : inputs) {
        const Dims most = standin::dims_of({points_most, input.second});
        profile->setDimensions(input.first, OptProfileSelector::kMIN,
                               standin::dims_of({1, input.second}));
        profile->setDimensions(input.first, OptProfileSelector::kOPT, most);
        profile->setDimensions(input.first, OptProfileSelector::kMAX, most);
    }
    IBuilderConfig *config = builder->createBuilderConfig();
    config->addOptimizationProfile(profile);
    IHostMemory *plan = builder->buildSerializedNetwork(*net, *config);
    if (!CHECK(plan)) {
        fprintf(stderr, "    %s\n", said.last.c_str());
        return "";
    }
    return std::string((const char *)plan->data(), plan->size());
}

bool rtx_here() {
    return dlopen("libtensorrt_rtx.so", RTLD_NOW | RTLD_GLOBAL) &&
           dlopen("libtensorrt_onnxparser_rtx.so", RTLD_NOW | RTLD_GLOBAL);
}

} // namespace

// Its parser finds the plugin for a node of an .onnx file, and its builder makes a plan file, with
// and without a GPU.
TEST(tensorrt_rtx_builds_an_engine) {
    if (!rtx_here()) {
        SKIP("no TensorRT-RTX");
    }
    const std::string plan = rtx_build(engine_file(), {{"points", values}});
    standin::plan ours = {}; // the model stands in it as it is
    REQUIRE(built(attributes(), false, false, &ours));
    const std::vector<char> &m = ours.fields[1].data;
    CHECK(std::search(plan.begin(), plan.end(), m.begin(), m.end()) != plan.end());
}

TEST(tensorrt_rtx_builds_autoware_s_file) {
    if (!rtx_here()) {
        SKIP("no TensorRT-RTX");
    }
    CHECK(rtx_build(autoware_file(), {{"voxels", values}, {"coors", 4}}).size() > 10000);
}
#endif
