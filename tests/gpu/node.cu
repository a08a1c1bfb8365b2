// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/gpu/node.cu: the node that runs a whole network (examples/tensorrt/node.cuh), without
// TensorRT: it equals net_run, its workspace is enough, and it refuses bad input.
#include "../../examples/tensorrt/node.cuh"
#include "../support/gpu.cuh"
#include "../support/node_blob.h"
#include "../support/onnx_writer.h"

namespace {

const int32_t box[3] = {64, 64, 8}; // that the voxels of frames are in: x, y, z

// Voxels of coordinates x, y, z, all different.
node::options options_make(int32_t points, int32_t voxels, bool set) {
    node::options o = {};
    o.max_points = points;
    o.max_voxels = voxels;
    o.voxels = o.xyz = 1;
    o.set = set;
    return o;
}

// Makes a node: of a network of networks.h; of the small one of onnx_writer.h; "": of the set of
// its first layer alone.
spira::status node_new(const char *net, node::options o, node::node *n, bool int8 = false) {
    const std::shared_ptr<node::source> s(new node::source());
    scan::scan_reason why;
    if (net && *net) {
        snprintf(o.net, sizeof o.net, "%s", net);
        s->model = node_blob(net, int8);
    } else {
        const auto first = onnx_writer::field_bytes(11, onnx_writer::field_bytes(1, "0")) +
                           onnx_writer::small_conv("0", "1", 5, 16, false);
        const auto file = onnx_writer::model_of(net ? first : onnx_writer::small_graph(!o.set));
        s->model.assign(file.begin(), file.end());
    }
    n->r = node::record_make(&o, s->model);
    SPIRA_TRY(node::source_make(&o, s.get(), &why));
    n->from = s;
    return node::node_prepare(n);
}

// A frame, and the tensors of a node for it.
struct frame {
    int32_t n;
    std::vector<int32_t> coords; // [n, 3]
    std::vector<float> values;   // [n, 5]
    node::tensors tensors;
    void *workspace;
};

frame frame_new(const node::node *n, int32_t rows) {
    frame f = {};
    const node::source *s = n->from.get();
    const int64_t cells =
        s->height ? (int64_t)s->channels * s->height * s->width : (int64_t)s->rows * s->channels;
    f.n = rows;
    std::vector<char> taken((size_t)(box[0] * box[1] * box[2]));
    for (uint32_t state = 5; (int32_t)f.coords.size() < 3 * rows;) {
        state = state * 1664525u + 1013904223u;
        const int at = (int)((state >> 8) % taken.size());
        if (!taken[(size_t)at]) {
            taken[(size_t)at] = 1;
            f.coords.insert(f.coords.end(),
                            {at / (box[1] * box[2]), at / box[2] % box[1], at % box[2]});
        }
    }
    for (int32_t i = 0; i < 5 * rows; ++i) {
        f.values.push_back((float)(i * 7 % 31) / 16.0f - 1);
    }
    f.tensors.rows = device_upload(f.values.data(), (int64_t)f.values.size());
    f.tensors.coords = device_upload(f.coords.data(), (int64_t)f.coords.size());
    f.tensors.n = rows;
    f.tensors.columns = 5;
    f.tensors.coord_columns = 3;
    f.tensors.out = device_new_poisoned<uint16_t>(cells);
    f.tensors.out_coords = device_new<int32_t>((int64_t)s->rows * 4 + 4);
    f.tensors.out_count = device_new<int32_t>(1);
    f.tensors.trouble = device_new<spira::device_status>(1);
    // Exactly the bytes asked for, between sentinels.
    f.workspace = device_new_poisoned<char>((int64_t)n->r.workspace);
    return f;
}

// Voxels, features and network called one by one, in memory of their own.
template <typename W>
spira::net_result<W> direct_run(const node::node *n, const frame *f) {
    const int32_t capacity = n->r.o.max_voxels, channels = n->plan.limits.channels;
    spira::voxel_input in = {};
    in.coords = f->tensors.coords;
    in.count = device_upload(&f->n, 1);
    in.rows = f->n;
    in.columns = 3;
    const spira::voxel_set<W> set = {device_new<W>(capacity), device_new<int32_t>(1), capacity};
    const spira::voxel_rows rows = {device_new<int32_t>(f->n), device_new<int32_t>(f->n),
                                    device_new<int32_t>(capacity + 1)};
    spira::device_status *trouble = device_new<spira::device_status>(1);
    size_t bytes = 0;
    CHECK_OK(spira::device_status_clear(trouble, nullptr));
    CHECK_OK(spira::voxelize_workspace<W>(&in, capacity, &bytes));
    const spira::voxelize_args<W> voxels = {&n->from->layout, &in, set, rows, trouble};
    CHECK_OK(
        spira::voxelize<W>(&voxels, device_new_poisoned<char>((int64_t)bytes), bytes, nullptr));
    spira::voxel_features_args<W> mean = {};
    mean.kind = spira::voxel_feature_mean;
    mean.values = f->tensors.rows;
    mean.columns = f->tensors.columns;
    mean.channels = channels;
    mean.rows = rows;
    mean.set = set;
    mean.type = n->plan.input_type;
    mean.features = device_new<uint16_t>((int64_t)capacity * channels);
    CHECK_OK(spira::voxel_features<node::node_type>(&mean, nullptr));
    spira::net_run_args<W> run = {};
    run.input = set;
    run.features = mean.features;
    run.loaded = n->loaded->weights;
    run.trouble = trouble;
    run.bytes = n->plan.workspace_bytes;
    run.memory = device_new_poisoned<char>((int64_t)run.bytes);
    CHECK_OK((spira::net_run<W, node::node_format>(&n->plan.gpu, &n->plan, &run, nullptr)));
    CHECK(expect_no_cuda_error());
    const spira::device_status host = device_value(trouble);
    CHECK_OK(spira::device_status_read(&host));
    return spira::net_output(&n->plan, n->plan.layer_count - 1, &run);
}

template <typename W>
void compare(const node::node *n, const frame *f) {
    const spira::net_result<W> want = direct_run<W>(n, f);
    const auto equal = [](const void *a, const void *b, int64_t count) {
        const uint16_t *one = device_fetch((const uint16_t *)a, count);
        return memcmp(one, device_fetch((const uint16_t *)b, count), (size_t)count * 2) == 0;
    };
    if (!n->r.o.set) {
        CHECK(equal(f->tensors.out, want.features,
                    (int64_t)want.channels * want.height * want.width));
        return;
    }
    const int32_t count = device_value(f->tensors.out_count);
    CHECK(count > 0 && count == device_value(want.set.count));
    CHECK(equal(f->tensors.out, want.features, (int64_t)count * want.channels));
    const W *words = device_fetch(want.set.words, count);
    const int32_t *coords = device_fetch(f->tensors.out_coords, (int64_t)count * 4);
    for (int32_t i = 0; i < count; ++i) {
        const spira::voxel v = spira::word_unpack<W>(&n->from->layout, words[i]);
        const spira::triple o = want.grid.origin, s = want.stride;
        CHECK(coords[4 * i] == 0 && coords[4 * i + 1] * s.x + o.x == v.x &&
              coords[4 * i + 2] * s.y + o.y == v.y && coords[4 * i + 3] * s.z + o.z == v.z);
    }
}

} // namespace

// In a stream and in a graph; of a copy, too.
DEVICE_TEST(node_is_net_run) {
    const struct {
        const char *net;
        bool set, int8;
    } cases[] = {{nullptr, false, false},           {nullptr, true, false},
                 {"VoxelBackBone8x", false, false}, {"VoxelBackBone8x", false, true},
                 {"SparseResNet21", true, false},   {"SparseResNet21", true, true}};
    for (const auto &c : cases) {
        if (c.net && test_quick()) {
            continue;
        }
        const int32_t rows = c.net ? 20000 : 1500;
        node::options o = options_make(rows + 10, 2 * rows, c.set);
        if (c.net && c.set) { // a network without an extent of its own
            const float range[6] = {0, 0, 0, 64, 64, 8}, voxel[3] = {1, 1, 1};
            std::copy(range, range + 6, o.range);
            std::copy(voxel, voxel + 3, o.voxel);
        }
        node::node original;
        REQUIRE_OK(node_new(c.net, o, &original, c.int8));
        CHECK_EQUAL(node::int8_layers(original.from.get()) > 0, c.int8);
        const node::node n = original;
        const frame f = frame_new(&n, rows);
        cudaStream_t stream;
        cudaGraph_t graph;
        cudaGraphExec_t replay;
        CUDA_CHECK(cudaStreamCreate(&stream));
        CHECK_OK(node::node_launch(&n, &f.tensors, f.workspace, stream));
        CUDA_CHECK(cudaStreamSynchronize(stream));
        n.from->layout.bits == 32 ? compare<uint32_t>(&n, &f) : compare<uint64_t>(&n, &f);
        CUDA_CHECK(cudaMemset(f.tensors.out, 0xff, 64));
        CUDA_CHECK(cudaMemset(f.tensors.out_count, 0xff, 4));
        CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
        CHECK_OK(node::node_launch(&n, &f.tensors, f.workspace, stream));
        CUDA_CHECK(cudaStreamEndCapture(stream, &graph));
        CUDA_CHECK(cudaGraphInstantiateWithFlags(&replay, graph, 0));
        CUDA_CHECK(cudaGraphLaunch(replay, stream));
        CUDA_CHECK(cudaStreamSynchronize(stream));
        n.from->layout.bits == 32 ? compare<uint32_t>(&n, &f) : compare<uint64_t>(&n, &f);
        CUDA_CHECK(cudaGraphExecDestroy(replay));
        CUDA_CHECK(cudaGraphDestroy(graph));
        CUDA_CHECK(cudaStreamDestroy(stream));
    }
}

// The status reports what only the device can see; the call itself succeeds.
DEVICE_TEST(node_reports_a_capacity_that_is_exceeded) {
    node::node n;
    REQUIRE_OK(node_new("", options_make(300, 100, true), &n));
    const frame f = frame_new(&n, 150);
    CHECK_OK(node::node_launch(&n, &f.tensors, f.workspace, nullptr));
    CHECK(expect_no_cuda_error());
    const spira::device_status trouble = device_value(f.tensors.trouble);
    const spira::status s = spira::device_status_read(&trouble);
    CHECK_STATUS(s, spira::status_capacity);
    CHECK_EQUAL(s.detail, 150);
    CHECK_EQUAL(device_value(f.tensors.out_count), 100);
}

DEVICE_TEST(node_refuses) {
    node::node n, raw;
    REQUIRE_OK(node_new(nullptr, options_make(300, 200, true), &n));
    raw = n;
    raw.loaded.reset();
    const frame f = frame_new(&n, 100);
    const auto launch = [&](auto change) {
        node::tensors t = f.tensors;
        change(&t);
        return node::node_launch(&n, &t, f.workspace, nullptr);
    };
    const spira::status_code null = spira::status_null_pointer, size = spira::status_bad_size;
    CHECK_STATUS(node::node_launch(&raw, &f.tensors, f.workspace, nullptr), size);
    CHECK_STATUS(node::node_launch(&n, &f.tensors, nullptr, nullptr), null);
    CHECK_STATUS(launch([](node::tensors *t) { t->n = 301; }), spira::status_capacity);
    CHECK_STATUS(launch([](node::tensors *t) { t->columns = 4; }), size);
    CHECK_STATUS(launch([](node::tensors *t) { t->coord_columns = 5; }), size);
    CHECK_STATUS(launch([](node::tensors *t) { t->rows = nullptr; }), null);
    CHECK_STATUS(launch([](node::tensors *t) { t->coords = nullptr; }), null);
    CHECK_STATUS(launch([](node::tensors *t) { t->out = nullptr; }), null);
    CHECK_STATUS(launch([](node::tensors *t) { t->out_coords = nullptr; }), null);
    CHECK_STATUS(launch([](node::tensors *t) { t->out_count = nullptr; }), null);
    CHECK_STATUS(launch([](node::tensors *t) { t->trouble = nullptr; }), null);
    CHECK(device_untouched(f.tensors.out_count, 0, 1)); // nothing was launched
    CHECK_STATUS(node_new(nullptr, options_make(0, 200, true), &raw), size);
    CHECK_STATUS(node_new(nullptr, options_make(300, 0, true), &raw), size);
}

// Ranges of a model make int8 layers, unless the options say otherwise.
TEST(node_takes_ranges) {
    node::options o = options_make(300, 200, false);
    node::source s;
    scan::scan_reason why;
    snprintf(o.net, sizeof o.net, "VoxelBackBone8x");
    s.model = node_blob(o.net, true);
    CHECK_OK(node::source_make(&o, &s, &why));
    CHECK_EQUAL(node::int8_layers(&s), 11); // all convolutions but the first
    o.floats = 1;
    CHECK_OK(node::source_make(&o, &s, &why));
    CHECK_EQUAL(node::int8_layers(&s), 0);
    s.model = node_blob("SparseResNet21", true);
    CHECK(spira::status_failed(node::source_make(&o, &s, &why))); // of another network
}

// The dense map follows from the extent: that of the table, or that of another range.
TEST(node_takes_an_extent) {
    node::options o = options_make(300, 200, false);
    node::source s;
    scan::scan_reason why;
    snprintf(o.net, sizeof o.net, "VoxelBackBone8x");
    s.model = node_blob(o.net);
    CHECK_OK(node::source_make(&o, &s, &why));
    CHECK(s.channels == 256 && s.height == 180 && s.width == 180);
    const float kitti[6] = {0, -40, -3, 70.4f, 40, 1}, voxel[3] = {0.05f, 0.05f, 0.1f};
    std::copy(kitti, kitti + 6, o.range);
    std::copy(voxel, voxel + 3, o.voxel);
    CHECK_OK(node::source_make(&o, &s, &why));
    CHECK(s.channels == 256 && s.height == 200 && s.width == 176);
}
