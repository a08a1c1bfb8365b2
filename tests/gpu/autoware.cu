// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/gpu/autoware.cu: the nodes under Autoware's names (examples/tensorrt/autoware.cuh), without
// TensorRT, against loops over coordinates.
#include "../../examples/tensorrt/autoware.cuh"
#include "../support/detector_scan.h"
#include "../support/gpu.cuh"

#include <array>
#include <map>
#include <set>
#include <vector>

using namespace autoware;

namespace {

typedef std::array<int, 3> place; // a voxel, in the file's order of axes

const pairs_form submanifold = {{3, 3, 3}, {1, 1, 1}, {0, 1, 0}, {1, 1, 1}, {40, 36, 9}, 1, 0};
const pairs_form native = {{5, 5, 5}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {40, 36, 9}, 1, 0};
const pairs_form strided = {{3, 3, 3}, {2, 2, 2}, {1, 1, 0}, {1, 1, 1}, {40, 36, 9}, 0, 0};
const pairs_form flat = {{1, 1, 3}, {1, 1, 2}, {0, 0, 0}, {1, 1, 1}, {40, 36, 9}, 0, 0};
const pairs_form dilated = {{3, 3, 1}, {1, 1, 1}, {0, 0, 0}, {2, 1, 1}, {40, 36, 9}, 1, 0};

uint32_t random_next(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

std::vector<float> values_make(size_t count, uint32_t *state) { // that a half holds
    std::vector<float> values(count);
    for (float &v : values) {
        v = (float)((int)(random_next(state) % 129) - 64) / 64.0f;
    }
    return values;
}

// Different voxels in a random order, [n, 4].
std::vector<int32_t> indices_make(const int32_t extent[3], int32_t n, uint32_t *state) {
    std::set<place> taken;
    std::vector<int32_t> indices;
    while ((int32_t)taken.size() < n) {
        place p;
        for (int a = 0; a < 3; ++a) {
            p[(size_t)a] = (int)(random_next(state) % (uint32_t)extent[a]);
        }
        if (taken.insert(p).second) {
            indices.insert(indices.end(), {0, p[0], p[1], p[2]});
        }
    }
    return indices;
}

place place_of(const std::vector<int32_t> &indices, size_t row) {
    return {indices[row * 4 + 1], indices[row * 4 + 2], indices[row * 4 + 3]};
}

// A layer and its inputs.
struct problem {
    pairs_form form;
    std::vector<int32_t> indices; // [n, 4]
    std::vector<float> features;  // [n, cin]
    int cin, cout;
    bool half, bias_float; // bias_float: as nodes of precision 1 have it
};

// One layer: a pair node and its product node, with tensors of their own.
struct layer {
    pairs_plan plan;
    int32_t n, rows;
    product_shape shape;
    product_form form;
    std::vector<float> filters, bias; // [cout, volume, cin]; [cout]
    int32_t *indices, *out_indices, *out_count;
    char *features, *out, *device_filters, *device_bias, *pairs, *workspace[2];
};

// The values of an array in the format of the features.
std::vector<char> stored(const std::vector<float> &values, spira::numeric type) {
    std::vector<char> bytes(values.size() * (size_t)spira::numeric_size(type) + 1);
    for (size_t i = 0; i < values.size(); ++i) {
        spira::numeric_store(type, bytes.data(), (int64_t)i, values[i]);
    }
    return bytes;
}

spira::numeric type_of(const layer &l) {
    return l.shape.half ? spira::numeric_f16 : spira::numeric_tf32;
}

layer layer_make(const problem &p, uint32_t *state) {
    layer l = {};
    CHECK_OK(pairs_plan_make(&p.form, &l.plan));
    l.n = (int32_t)p.indices.size() / 4;
    l.rows = pairs_rows(&l.plan, l.n);
    l.shape = {l.n, l.rows, l.plan.volume, p.cin, p.cout, p.half, true, p.bias_float || !p.half};
    l.form = {spira::activation_leaky, 0.25f};
    l.filters = values_make((size_t)(l.plan.volume * p.cin * p.cout), state);
    l.bias = values_make((size_t)p.cout, state);
    const spira::numeric type = type_of(l);
    const auto upload = [](const std::vector<char> &v) {
        return device_upload(v.data(), (int64_t)v.size() - 1);
    };
    l.indices = device_upload(p.indices.data(), (int64_t)p.indices.size());
    l.features = upload(stored(p.features, type));
    l.device_filters = upload(stored(l.filters, type));
    l.device_bias = upload(stored(l.bias, p.bias_float ? spira::numeric_f32 : type));
    const pairs_size words = pairs_words(l.plan.volume);
    l.pairs =
        device_new_poisoned<char>(4 * (spira::ceil_div(l.rows, 64) * words.whole + words.more));
    l.out_indices = device_new<int32_t>((int64_t)l.rows * 4);
    l.out_count = device_new<int32_t>(1);
    l.out = device_new_poisoned<char>((int64_t)l.rows * p.cout * spira::numeric_size(type));
    size_t bytes[2];
    CHECK_OK(pairs_workspace(&l.plan, l.n, &bytes[0]));
    CHECK_OK(product_workspace(gpu(), &l.shape, &bytes[1]));
    for (int i = 0; i < 2; ++i) { // exactly the bytes asked for, between sentinels
        l.workspace[i] = device_new_poisoned<char>((int64_t)bytes[i]);
    }
    return l;
}

void layer_launch(const layer &l, cudaStream_t stream) {
    const pairs_args pairs = {l.indices, l.n, l.out_indices, l.pairs, l.out_count};
    const product_args product = {l.features, l.device_filters, l.pairs, l.device_bias, l.out};
    CHECK_OK(pairs_launch(gpu(), &l.plan, &pairs, l.workspace[0], stream));
    CHECK_OK(product_launch(gpu(), &l.form, &l.shape, &product, l.workspace[1], stream));
}

struct fetched {
    std::vector<int32_t> indices;
    std::vector<float> features;
    int32_t count;
};

fetched layer_fetch(const layer &l) {
    fetched f;
    const int64_t values = (int64_t)l.rows * l.shape.cout;
    const int32_t *indices = device_fetch(l.out_indices, (int64_t)l.rows * 4);
    const char *out = device_fetch(l.out, values * spira::numeric_size(type_of(l)));
    f.indices.assign(indices, indices + (int64_t)l.rows * 4);
    for (int64_t i = 0; i < values; ++i) {
        f.features.push_back(spira::numeric_load(type_of(l), out, i));
    }
    f.count = device_value(l.out_count);
    return f;
}

// The outputs of spconv's rule.
std::set<place> outputs_of(const pairs_form &form, const std::vector<int32_t> &indices) {
    std::set<place> outputs;
    const int volume = form.ksize[0] * form.ksize[1] * form.ksize[2];
    for (size_t i = 0; i < indices.size() / 4; ++i) {
        const place in = place_of(indices, i);
        for (int k = 0; k < volume; ++k) {
            const int tap[3] = {k / form.ksize[2] / form.ksize[1],
                                k / form.ksize[2] % form.ksize[1], k % form.ksize[2]};
            place out;
            bool good = true;
            for (size_t a = 0; a < 3; ++a) {
                const int at = in[a] + form.padding[a] - tap[a] * form.dilation[a];
                const int extent = (form.spatial_shape[a] + 2 * form.padding[a] -
                                    form.dilation[a] * (form.ksize[a] - 1) - 1) /
                                       form.stride[a] +
                                   1;
                out[a] = at / form.stride[a];
                good = good && at >= 0 && at % form.stride[a] == 0 && out[a] < extent;
            }
            if (good) {
                outputs.insert(out);
            }
        }
    }
    return outputs;
}

// Every output against a sum in double, within the bound of the kernels.
void features_check(const layer &l, const problem &p, const fetched &got, int32_t rows) {
    const pairs_form &form = p.form;
    std::map<place, size_t> row_of;
    for (size_t i = p.indices.size() / 4; i-- > 0;) {
        row_of[place_of(p.indices, i)] = i;
    }
    const int cin = p.cin, cout = p.cout, volume = l.plan.volume;
    int wrong = 0, pairs = 0;
    for (int32_t o = 0; o < rows; ++o) {
        const place out = place_of(got.indices, (size_t)o);
        std::vector<double> sum(l.bias.begin(), l.bias.end()), size((size_t)cout, 1);
        for (int k = 0; k < volume; ++k) {
            const int tap[3] = {k / form.ksize[2] / form.ksize[1],
                                k / form.ksize[2] % form.ksize[1], k % form.ksize[2]};
            place in;
            for (size_t a = 0; a < 3; ++a) {
                const int padding =
                    form.subm ? form.ksize[a] / 2 * form.dilation[a] : form.padding[a];
                in[a] = out[a] * form.stride[a] - padding + tap[a] * form.dilation[a];
            }
            const auto found = row_of.find(in);
            if (found == row_of.end()) {
                continue;
            }
            ++pairs;
            for (int c = 0; c < cout; ++c) {
                for (int i = 0; i < cin; ++i) {
                    const double x = (double)p.features[found->second * (size_t)cin + (size_t)i] *
                                     l.filters[(size_t)((c * volume + k) * cin + i)];
                    sum[(size_t)c] += x;
                    size[(size_t)c] += fabs(x);
                }
            }
        }
        for (int c = 0; c < cout; ++c) {
            const double s = sum[(size_t)c], want = s < 0 ? s * l.form.slope : s;
            const double error = fabs(got.features[(size_t)(o * cout + c)] - want);
            const double rounding = l.shape.half ? fabs(want) * 0x1p-11 + 0x1p-25 : 0;
            wrong += !(error <= 2 * (volume * cin + 5) * 0x1p-24 * size[(size_t)c] + rounding);
        }
    }
    CHECK_EQUAL(wrong, 0);
    CHECK(pairs > rows || rows == 0);
}

// Runs a layer, checks its set and its features, and returns what it made.
fetched layer_check(const problem &p, uint32_t *state) {
    const layer l = layer_make(p, state);
    layer_launch(l, nullptr);
    CHECK(expect_no_cuda_error());
    const fetched got = layer_fetch(l);
    if (p.form.subm) {
        CHECK(got.indices == p.indices);
        features_check(l, p, got, l.rows);
        return got;
    }
    const std::set<place> want = outputs_of(p.form, p.indices);
    const int32_t written = (int32_t)std::min(want.size(), (size_t)l.rows);
    CHECK_EQUAL(got.count, (int32_t)want.size());
    auto next = want.begin();
    for (int32_t i = 0; i < l.rows; ++i) {
        const place at = place_of(got.indices, (size_t)i);
        if (!CHECK(got.indices[(size_t)i * 4] == 0 &&
                   at == (i < written ? *next : *want.begin()))) {
            return got;
        }
        next = i < written ? std::next(next) : next;
    }
    features_check(l, p, got, written);
    for (int32_t i = written; i < l.rows; ++i) { // repeats row 0
        CHECK(std::equal(got.features.begin(), got.features.begin() + p.cout,
                         got.features.begin() + (ptrdiff_t)i * p.cout));
    }
    return got;
}

} // namespace

// Layer behind layer, each from what the one before made, rows that are repeated included.
DEVICE_TEST(autoware_nodes_make_what_their_file_says) {
    for (bool half : {true, false}) {
        uint32_t state = 5;
        const int32_t n = test_quick() ? 150 : 1500;
        const std::vector<int32_t> indices = indices_make(submanifold.spatial_shape, n, &state);
        const std::vector<float> features = values_make((size_t)n * 5, &state);
        const auto rounded = [&](const fetched &f) { // inputs that the format holds
            std::vector<float> v = f.features;
            for (float &x : v) {
                x = spira::numeric_operand(half ? spira::numeric_f16 : spira::numeric_tf32, x);
            }
            return v;
        };
        fetched at = layer_check({submanifold, indices, features, 5, 16, half, false}, &state);
        layer_check({native, indices, features, 5, 16, half, false}, &state);
        layer_check({dilated, indices, features, 5, 16, half, false}, &state);
        layer_check({flat, indices, features, 5, 24, half, false}, &state);
        at = layer_check({strided, at.indices, rounded(at), 16, 32, half, true}, &state);
        pairs_form behind = submanifold;
        const int32_t extent[3] = {20, 18, 4};
        std::copy(extent, extent + 3, behind.spatial_shape);
        CHECK(at.count < (int32_t)at.indices.size() / 4); // some are repeated
        at = layer_check({behind, at.indices, rounded(at), 32, 32, half, false}, &state);
        behind.subm = 0;
        layer_check({behind, at.indices, rounded(at), 32, 64, half, false}, &state);
    }
}

// More outputs than the bound: the first ones stay, and the count says how many there would be.
DEVICE_TEST(autoware_nodes_cut_off_at_their_bound) {
    uint32_t state = 9;
    pairs_form form = strided;
    form.output_bound = 70;
    const std::vector<int32_t> indices = indices_make(form.spatial_shape, 200, &state);
    const fetched got =
        layer_check({form, indices, values_make(200 * 16, &state), 16, 16, true, false}, &state);
    CHECK(got.indices.size() == 70 * 4 && got.count > 70);
}

// Rows of no voxel are zeros, rows of one voxel are equal, and a frame without rows is none.
DEVICE_TEST(autoware_nodes_take_rows_of_no_voxel) {
    uint32_t state = 3;
    std::vector<int32_t> indices = indices_make(submanifold.spatial_shape, 100, &state);
    std::vector<float> features = values_make(100 * 16, &state);
    const std::vector<int32_t> odd = {1, 3, 3, 3, 0, -1, 3, 3, 0, 40, 3, 3, 0, 3, 3, 9};
    std::copy(odd.begin(), odd.end(), indices.begin());
    std::copy(indices.begin() + 40, indices.begin() + 44, indices.begin() + 80); // row 10 again
    std::copy(features.begin() + 160, features.begin() + 176, features.begin() + 320);
    const problem whole = {submanifold, indices, features, 16, 16, true, false};
    layer l = layer_make(whole, &state);
    layer_launch(l, nullptr);
    const fetched got = layer_fetch(l);
    CHECK_EQUAL(got.count, 95);
    for (int i = 0; i < 64; ++i) {
        CHECK_EQUAL(got.features[(size_t)i], 0.0f);
    }
    CHECK(std::equal(got.features.begin() + 160, got.features.begin() + 176,
                     got.features.begin() + 320));
    problem own = whole;
    own.indices.erase(own.indices.begin(), own.indices.begin() + 16);
    own.features.erase(own.features.begin(), own.features.begin() + 64);
    fetched rest = got;
    rest.indices.erase(rest.indices.begin(), rest.indices.begin() + 16);
    rest.features.erase(rest.features.begin(), rest.features.begin() + 64);
    features_check(l, own, rest, 96);
    l.n = l.rows = l.shape.n = l.shape.rows = 0;
    layer_launch(l, nullptr);
    CHECK_EQUAL(device_value(l.out_count), 0);
    // A strided layer of rows that are none of a voxel.
    const layer none =
        layer_make({strided, odd, values_make(4 * 16, &state), 16, 16, true, false}, &state);
    layer_launch(none, nullptr);
    const fetched zeros = layer_fetch(none);
    CHECK_EQUAL(zeros.count, 0);
    CHECK(std::count(zeros.features.begin(), zeros.features.end(), 0.0f) ==
          (ptrdiff_t)zeros.features.size());
    CHECK(std::count(zeros.indices.begin(), zeros.indices.end(), 0) ==
          (ptrdiff_t)zeros.indices.size());
}

DEVICE_TEST(autoware_nodes_are_captured) {
    uint32_t state = 7;
    const std::vector<int32_t> indices = indices_make(strided.spatial_shape, 300, &state);
    const layer l =
        layer_make({strided, indices, values_make(300 * 16, &state), 16, 32, true, false}, &state);
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t replay;
    layer_launch(l, nullptr);
    const fetched want = layer_fetch(l);
    CUDA_CHECK(cudaStreamCreate(&stream));
    CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    layer_launch(l, stream);
    CUDA_CHECK(cudaStreamEndCapture(stream, &graph));
    CUDA_CHECK(cudaGraphInstantiateWithFlags(&replay, graph, 0));
    CUDA_CHECK(cudaMemset(l.out, 0xff, (size_t)l.rows * 64));
    CUDA_CHECK(cudaMemset(l.out_indices, 0xff, (size_t)l.rows * 16));
    CUDA_CHECK(cudaGraphLaunch(replay, stream));
    CUDA_CHECK(cudaStreamSynchronize(stream));
    const fetched got = layer_fetch(l);
    CHECK(got.features == want.features && got.indices == want.indices && got.count == want.count);
    CUDA_CHECK(cudaGraphExecDestroy(replay));
    CUDA_CHECK(cudaGraphDestroy(graph));
    CUDA_CHECK(cudaStreamDestroy(stream));
}

namespace {

// Adds a layer behind the others: of what the last one makes.
void layer_add(const pairs_form &form, int cout, std::vector<layer> *layers, uint32_t *state) {
    const layer before = layers->back();
    problem p = {form, {}, {}, before.shape.cout, cout, true, false};
    p.indices.resize((size_t)before.rows * 4); // stand for the ones that are not there yet
    p.features.resize((size_t)(before.rows * p.cin));
    layers->push_back(layer_make(p, state));
    layers->back().indices = before.out_indices;
    layers->back().features = before.out;
}

} // namespace

// The 21 layers of CenterPoint and BEVFusion in one graph, a pair node each, as AWML exports them:
// as many voxels as spconv has.
DEVICE_TEST(autoware_nodes_of_a_scan) {
    NEED_SCANS("nuscenes_10sweeps.pcd.bin");
    if (test_quick()) {
        SKIP("large");
    }
    uint32_t state = 1;
    std::vector<int32_t> indices;
    const std::vector<int32_t> rows = detector_scan_rows();
    std::set<place> taken;
    for (size_t i = 0; i < rows.size(); i += 3) {
        if (taken.insert({rows[i], rows[i + 1], rows[i + 2]}).second) {
            indices.insert(indices.end(), {0, rows[i], rows[i + 1], rows[i + 2]});
        }
    }
    CHECK_EQUAL((int32_t)taken.size(), detector_scan_counts[0]);
    pairs_form inner = submanifold, down = strided;
    down.output_bound = 120000;
    const int32_t extents[4][3] = {{1440, 1440, 41}, {720, 720, 21}, {360, 360, 11}, {180, 180, 5}};
    std::copy(extents[0], extents[0] + 3, inner.spatial_shape);
    std::vector<layer> layers = {layer_make(
        {inner, indices, values_make(taken.size() * 5, &state), 5, 16, true, false}, &state)};
    std::vector<size_t> strided_layers;
    for (int level = 0; level < 4; ++level) {
        std::copy(extents[level], extents[level] + 3, inner.spatial_shape);
        for (int i = 0; i < 4; ++i) {
            layer_add(inner, 16 << level, &layers, &state);
        }
        std::copy(extents[level], extents[level] + 3, down.spatial_shape);
        down.padding[2] = level < 2; // (1, 1, 0) in front of the last level
        strided_layers.push_back(layers.size());
        if (level == 3) {
            down = flat;
            down.output_bound = 120000;
            std::copy(extents[3], extents[3] + 3, down.spatial_shape);
        }
        layer_add(down, level < 3 ? 32 << level : 128, &layers, &state);
    }
    CHECK_EQUAL(layers.size(), (size_t)21);
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t replay;
    cudaEvent_t mark[2];
    std::vector<float> times(11);
    CUDA_CHECK(cudaStreamCreate(&stream));
    CUDA_CHECK(cudaEventCreate(&mark[0]));
    CUDA_CHECK(cudaEventCreate(&mark[1]));
    CUDA_CHECK(cudaDeviceSynchronize());
    CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    for (const layer &l : layers) {
        layer_launch(l, stream);
    }
    CUDA_CHECK(cudaStreamEndCapture(stream, &graph));
    CUDA_CHECK(cudaGraphInstantiateWithFlags(&replay, graph, 0));
    for (float &ms : times) {
        CUDA_CHECK(cudaEventRecord(mark[0], stream));
        CUDA_CHECK(cudaGraphLaunch(replay, stream));
        CUDA_CHECK(cudaEventRecord(mark[1], stream));
        CUDA_CHECK(cudaEventSynchronize(mark[1]));
        CUDA_CHECK(cudaEventElapsedTime(&ms, mark[0], mark[1]));
    }
    std::sort(times.begin(), times.end());
    printf("autoware: 21 pair nodes and 21 products on a scan of nuScenes: %.3f ms\n",
           (double)times[times.size() / 2]);
    for (size_t i = 0; i < strided_layers.size(); ++i) {
        CHECK_EQUAL(device_value(layers[strided_layers[i]].out_count), detector_scan_counts[i + 1]);
    }
    CUDA_CHECK(cudaGraphExecDestroy(replay));
    CUDA_CHECK(cudaGraphDestroy(graph));
    CUDA_CHECK(cudaEventDestroy(mark[0]));
    CUDA_CHECK(cudaEventDestroy(mark[1]));
    CUDA_CHECK(cudaStreamDestroy(stream));
}

// The size of the tensor of pairs, as a runtime computes it, holds what is put there.
TEST(autoware_pairs_fit_their_tensor) {
    for (int volume : {1, 3, 9, 27, 125, 343}) {
        for (int32_t rows : {1, 63, 64, 65, 127, 1000, 4097, 256000}) {
            spira::workspace w = spira::workspace_begin(nullptr);
            pairs_tensor_take(&w, rows, volume);
            const pairs_size size = pairs_words(volume);
            CHECK((int64_t)w.used <= 4 * (spira::ceil_div(rows, 64) * size.whole + size.more));
        }
    }
}

TEST(autoware_nodes_refuse) {
    pairs_plan p;
    const auto with = [](auto change) {
        pairs_form f = strided;
        change(&f);
        return f;
    };
    const struct {
        pairs_form form;
        spira::status_code code;
    } cases[] = {
        {with([](pairs_form *f) { f->spatial_shape[1] = 0; }), spira::status_bad_size},
        {with([](pairs_form *f) { f->ksize[2] = 0; }), spira::status_kernel_size},
        {with([](pairs_form *f) { f->ksize[0] = 16; }), spira::status_kernel_size},
        {with([](pairs_form *f) { f->stride[0] = 0; }), spira::status_stride},
        {with([](pairs_form *f) { f->spatial_shape[2] = 2; }), spira::status_bad_size},
        {with([](pairs_form *f) { f->output_bound = INT32_MAX; }), spira::status_bad_size},
        {with([](pairs_form *f) { f->subm = 1; }), spira::status_stride},
        {with([](pairs_form *f) {
             *f = submanifold;
             f->ksize[1] = 2;
         }),
         spira::status_kernel_size},
    };
    for (const auto &c : cases) {
        CHECK_STATUS(pairs_plan_make(&c.form, &p), c.code);
    }
    REQUIRE_OK(pairs_plan_make(&strided, &p));
    const pairs_args none = {nullptr, 3, nullptr, nullptr, nullptr};
    CHECK_STATUS(pairs_launch(nullptr, &p, &none, nullptr, nullptr), spira::status_null_pointer);
    const product_shape s = {1, 1, 27, 16, 16, true, true, false};
    const product_form f = {};
    const product_args nothing = {};
    CHECK_STATUS(product_launch(nullptr, &f, &s, &nothing, nullptr, nullptr),
                 spira::status_null_pointer);
}
