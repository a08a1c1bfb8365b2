// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/gpu/net_i8.cu: networks with int8 layers on the GPU: each layer against the formulas, whole
// networks against the host, to the bit; voxel features as int8.
#include "../support/net_i8.h"
#include "../support/nets.cuh"

using namespace i8net;
using namespace nets;

namespace {

typedef uint64_t word;

// A network on the GPU and on the host, with the same voxels and parameters. Where the input is
// int8, so are its features, which both share.
struct twins {
    networks::network net;
    word_layout layout;
    net_plan device, host;
    std::vector<float> params;
    std::vector<word> words; // [limits.voxels]
    int32_t count;
    std::vector<char> features, host_features; // [voxels, channels] of the plans' input types
    net_run_args<word> on_device, on_host;
    device_status host_trouble;
};

net_limits twins_limits(const networks::network *n, int32_t voxels, numeric floats) {
    net_limits limits = nets::limits_make(n, floats, voxels, true);
    limits.count_pairs = false;
    limits.shortcuts = net_shortcuts_hidden;
    limits.grid = {
        scene_lo,
        {scene_hi.x - scene_lo.x + 1, scene_hi.y - scene_lo.y + 1, scene_hi.z - scene_lo.z + 1}};
    return limits;
}

void twins_features(twins *t, random_state *r) {
    const int64_t values = (int64_t)t->words.size() * t->net.input_channels;
    const numeric types[2] = {t->device.input_type, t->host.input_type};
    t->features.resize((size_t)(values * numeric_size(types[0])));
    t->host_features.resize((size_t)(values * numeric_size(types[1])));
    for (int64_t i = 0; i < values; ++i) {
        const float x = numeric_stored(numeric_f16, random_float(r));
        const bool int8 = types[0] == numeric_i8;
        numeric_store(types[0], t->features.data(), i, int8 ? x / t->device.input_scale : x);
        numeric_store(types[1], t->host_features.data(), i, int8 ? x / t->host.input_scale : x);
    }
}

// Plans, loads, runs. The table of t->net is there. floats: of the layers that are not int8
template <numeric floats = numeric_f16>
void twins_run(twins *t, int32_t count, uint64_t seed) {
    constexpr numeric format = net_i8_beside(floats);
    const int32_t most = count + 200;
    net_limits limits = twins_limits(&t->net, most, floats);
    ranges_make(&t->net, &limits);
    random_state r = random_make(seed);
    t->layout = layout_make<word>(&t->net);
    t->words.assign((size_t)most, word_none<word>());
    t->count =
        reference_random_set(&r, &t->layout, scene_lo, scene_hi, {1, 1, 1}, count, t->words.data());
    REQUIRE_OK(
        net_plan_device<word>(gpu(), t->net.layers, t->net.count, &t->layout, &limits, &t->device));
    limits.type = numeric_f32;
    REQUIRE_OK(net_plan_host<word>(t->net.layers, t->net.count, &t->layout, &limits, &t->host));
    t->params.resize((size_t)t->host.params);
    networks::network_weights(&t->host, 5, t->params.data());
    twins_features(t, &r);

    const net_plan *p = &t->device;
    const float *params = device_upload(t->params.data(), (int64_t)t->params.size());
    device_status *troubles = device_zeros<device_status>(t->net.count);
    char *loaded = device_new<char>((int64_t)p->loaded_bytes);
    const net_load_args load = {params, loaded, p->loaded_bytes, troubles};
    REQUIRE_OK(net_load<format>(gpu(), p, &load, nullptr));
    CHECK_OK(net_load_read(p, fetch<device_status>(troubles, t->net.count).data()));
    t->on_device = {};
    t->on_device.input = {device_upload(t->words.data(), most), device_upload(&t->count, 1), most};
    t->on_device.features = device_upload(t->features.data(), (int64_t)t->features.size());
    t->on_device.loaded = loaded;
    t->on_device.trouble = device_zeros<device_status>(1);
    t->on_device.bytes = p->workspace_bytes;
    t->on_device.memory = device_new_poisoned<char>((int64_t)p->workspace_bytes);
    const status ran = net_run<word, format>(gpu(), p, &t->on_device, nullptr);
    REQUIRE_OK(ran);
    CHECK(expect_no_cuda_error());
    const device_status trouble = device_value(t->on_device.trouble);
    CHECK_OK(device_status_read(&trouble));

    t->host_trouble = {};
    t->on_host = t->on_device;
    t->on_host.input = {t->words.data(), &t->count, most};
    t->on_host.features = t->host_features.data();
    t->on_host.loaded = t->params.data();
    t->on_host.trouble = &t->host_trouble;
    t->on_host.bytes = t->host.workspace_bytes;
    t->on_host.memory = guarded_new<char>((int64_t)t->host.workspace_bytes);
    REQUIRE_OK(net_run_host(&t->host, &t->on_host));
}

// The features of a layer of the device's run, to the count of its voxels.
std::vector<char> twins_fetch(const twins *t, int layer) {
    const net_result<word> r = net_output(&t->device, layer, &t->on_device);
    const int64_t rows =
        r.batch ? (int64_t)r.batch * r.height * r.width : (int64_t)device_value(r.set.count);
    return fetch<char>(r.features, rows * r.channels * numeric_size(r.type));
}

// Each layer of the GPU against the formulas, from what the GPU made of the layers before.
void check_layers(const twins *t, double epsilon = 0x1p-11) {
    std::vector<char> features[net_layers_max];
    reference_net_run<word> j;
    j.net = &t->net;
    j.plan = &t->device;
    j.sets = reference_net_index(&t->device, t->words.data(), t->count);
    j.params = t->params.data();
    j.feature[0] = t->features.data();
    for (int i = 0; i < t->net.count; ++i) {
        if (t->device.step[i].fused_into != net_none) {
            continue; // it has no features
        }
        features[i] = twins_fetch(t, i);
        j.feature[1 + i] = features[i].data();
    }
    for (int i = 0; i < t->net.count; ++i) {
        CHECK_EQUAL(layer_wrong(&j, i, epsilon), 0);
    }
}

// The whole network against the host: what is fp16 on the GPU is fp32 there, not rounded yet.
void check_whole(const twins *t) {
    for (int i = 0; i < t->net.count; ++i) {
        CHECK_EQUAL(t->device.step[i].shortcut, t->host.step[i].shortcut);
        if (t->device.step[i].fused_into != net_none) {
            continue;
        }
        const std::vector<char> got = twins_fetch(t, i);
        const numeric type = net_type_of(&t->device, i), other = net_type_of(&t->host, i);
        const void *host = net_output(&t->host, i, &t->on_host).features;
        int64_t wrong = 0;
        for (int64_t e = 0; e < (int64_t)got.size() / numeric_size(type); ++e) {
            wrong += numeric_load(type, got.data(), e) !=
                     numeric_stored(type, numeric_load(other, host, e));
        }
        CHECK_EQUAL(wrong, 0);
    }
}

} // namespace

DEVICE_TEST(gpu_net_i8_layers_are_the_formulas) {
    for (bool first : {false, true}) {
        std::unique_ptr<twins> t(new twins);
        network_everything(&t->net, first);
        twins_run(t.get(), test_quick() ? 150 : 900, 3);
        check_layers(t.get());
        if (first) {
            check_whole(t.get());
        }
        guarded_finish();
    }
}

// Beside bf16 and fp32, too.
DEVICE_TEST(gpu_net_i8_beside_other_formats) {
    std::unique_ptr<twins> half(new twins), full(new twins);
    network_everything(&half->net, false);
    network_everything(&full->net, false);
    twins_run<numeric_bf16>(half.get(), test_quick() ? 150 : 900, 3);
    check_layers(half.get(), 0x1p-8);
    twins_run<numeric_f32>(full.get(), test_quick() ? 150 : 900, 3);
    check_layers(full.get(), 0x1p-23);
    const status other = net_run<word, numeric_i8>(gpu(), &full->device, &full->on_device, nullptr);
    CHECK(other.code == status_unsupported && strstr(other.subject, "of another type"));
    guarded_finish();
}

// Networks whose layers are all int8: 42 layers, and the host has the same bits.
DEVICE_TEST(gpu_net_i8_whole_networks_are_the_hosts) {
    for (const char *name : {"MinkUNet42", "SparseResNet21", "SpUNet-small"}) {
        std::unique_ptr<twins> t(new twins);
        REQUIRE(networks::network_make(name, &t->net));
        net_formats_i8(t->net.layers, t->net.count);
        for (int i = 0; i < t->net.count; ++i) {
            t->net.layers[i].format =
                t->net.layers[i].op == net_conv ? net_format_i8 : t->net.layers[i].format;
        }
        twins_run(t.get(), test_quick() ? 100 : 1200, 4);
        check_whole(t.get());
        guarded_finish();
    }
}

// In a graph, and with memory that is shared.
DEVICE_TEST(gpu_net_i8_replays) {
    std::unique_ptr<twins> t(new twins);
    network_everything(&t->net, true);
    twins_run(t.get(), 150, 5);
    const int last = t->net.count - 1;
    const std::vector<char> want = twins_fetch(t.get(), last);
    t->device.limits.keep_all = false;
    net_limits limits = t->device.limits;
    REQUIRE_OK(
        net_plan_device<word>(gpu(), t->net.layers, t->net.count, &t->layout, &limits, &t->device));
    CHECK(t->device.workspace_bytes < t->on_device.bytes);
    cudaGraphExec_t replay = stream_capture(
        [&](cudaStream_t stream) {
            const status s = net_run<word, numeric_i8>(gpu(), &t->device, &t->on_device, stream);
            CHECK_OK(s);
        },
        (size_t)t->net.count);
    REQUIRE(replay != nullptr);
    for (int i = 0; i < 2; ++i) {
        CUDA_CHECK(cudaMemsetAsync(t->on_device.memory, 0xff, t->device.workspace_bytes,
                                   stream_get())); // the graph's: no other one is ordered with it
        graph_replay(replay);
        CHECK(twins_fetch(t.get(), last) == want);
    }
    CUDA_CHECK(cudaGraphExecDestroy(replay));
    const status other = net_run<word, numeric_f16>(gpu(), &t->device, &t->on_device, nullptr);
    CHECK(other.code == status_layer && strstr(other.subject, "numeric_i8"));
    const std::vector<char> stored =
        fetch<char>(t->on_device.loaded, (int64_t)t->device.loaded_bytes);
    CHECK_OK(net_load_stored(&t->device, stored.data(), stored.size()));
    t->net.layers[0].range *= 1.5f; // packed weights have the other range in them
    REQUIRE_OK(
        net_plan_device<word>(gpu(), t->net.layers, t->net.count, &t->layout, &limits, &t->device));
    CHECK_STATUS(net_load_stored(&t->device, stored.data(), stored.size()), status_unsupported);
    guarded_finish();
}

DEVICE_TEST(gpu_voxel_features_i8) {
    random_state r = random_make(6);
    const int32_t voxels = 500, columns = 5;
    std::vector<int32_t> begin(1, 0), order;
    for (int32_t v = 0; v < voxels; ++v) {
        begin.push_back(begin.back() + (v % 50 ? random_int(&r, 1, 9) : 300));
    }
    for (int32_t i = 0; i < begin.back(); ++i) {
        order.push_back((int32_t)((int64_t)i * 7919 % begin.back()));
    }
    std::vector<float> values((size_t)begin.back() * columns);
    reference_random_values(&r, numeric_f32, 1, (int64_t)values.size(), values.data());
    values[17] = NAN;
    std::vector<int8_t> want((size_t)voxels * columns);
    voxel_features_args<word> args = {};
    args.kind = voxel_feature_mean;
    args.columns = args.channels = columns;
    args.type = numeric_i8;
    args.inverse = 150; // some are beyond 127
    args.values = values.data();
    args.rows = {nullptr, order.data(), begin.data()};
    args.set = {nullptr, (int32_t *)&voxels, voxels};
    args.features = want.data();
    REQUIRE_OK(voxel_features_host(&args));
    args.values = device_upload(values.data(), (int64_t)values.size());
    args.rows = {nullptr, device_upload(order.data(), (int64_t)order.size()),
                 device_upload(begin.data(), (int64_t)begin.size())};
    args.set.count = device_upload(&voxels, 1);
    args.features = device_new<int8_t>((int64_t)want.size());
    const status made = voxel_features<numeric_i8>(&args, nullptr);
    REQUIRE_OK(made);
    CHECK(fetch<int8_t>(args.features, (int64_t)want.size()) == want);
    CHECK(std::count(want.begin(), want.end(), 127) > 0);
    guarded_finish();
}
