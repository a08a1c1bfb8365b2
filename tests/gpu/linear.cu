// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/gpu/linear.cu: linear layers by conv/linear give the bits of Hopper's own kernel, which
// gpu_conv_* judge.
#include "../support/device.cuh"
#include "../support/gpu.cuh"
#include "../support/shared.cuh"

using namespace spira;

namespace {

struct linear_layer {
    int cin, cout;
    activation act;
    bool residual;
};

const linear_layer linear_layers[] = {
    {64, 64, activation_relu, true},   {64, 128, activation_silu, true},
    {96, 192, activation_none, true},  {256, 512, activation_gelu, false},
    {512, 256, activation_silu, true}, {1024, 64, activation_leaky, false},
    {584, 136, activation_relu, true}, {2048, 128, activation_none, false},
};

template <typename T>
T *linear_upload(const std::vector<T> &values) {
    return memory_put(&memory_device, values);
}

// Bits of random elements that are neither large nor NaN.
std::vector<uint16_t> linear_features(random_state *r, numeric type, int64_t count) {
    std::vector<uint16_t> v((size_t)count);
    for (uint16_t &bits : v) {
        numeric_store(type, &bits, 0, 2 * random_float(r) - 1);
    }
    return v;
}

void linear_check(const linear_layer &l, numeric type, int32_t capacity,
                  std::initializer_list<int32_t> counts) {
    random_state r = random_make((uint64_t)l.cin);
    const conv_shape shape = {1, l.cin, 0, l.cout, type};
    std::vector<float> weight((size_t)l.cin * (size_t)l.cout), bias((size_t)l.cout);
    for (std::vector<float> *v : {&weight, &bias}) {
        for (float &f : *v) {
            f = (2 * random_float(&r) - 1) / 8;
        }
    }
    size_t bytes = 0;
    CHECK_OK(conv_weights_bytes(gpu(), &shape, &bytes));
    conv_weights w = {linear_upload(weight), memory_new<char>(&memory_device, (int64_t)bytes),
                      bytes, nullptr};
    CHECK_OK(shared_conv.conv_weights_pack(gpu(), &shape, &w, stream_get()));
    const int64_t values = (int64_t)capacity * l.cout;
    const std::vector<uint16_t> residual = linear_features(&r, type, values);
    conv_args a = {};
    a.shape = shape;
    a.in = linear_upload(linear_features(&r, type, (int64_t)capacity * l.cin));
    a.weights = w.packed;
    a.epilogue.bias = linear_upload(bias);
    a.epilogue.act = l.act;
    a.epilogue.slope = l.act == activation_leaky ? 0.1f : 0;
    for (int32_t count : counts) {
        const conv_map map = conv_map_identity(memory_put(&memory_device, &count, 1), capacity);
        std::vector<uint16_t> out[2];
        a.map = &map;
        for (bool linear : {false, true}) {
            a.out = linear_upload(residual); // in place
            a.epilogue.residual = l.residual ? a.out : nullptr;
            CHECK_OK(
                (linear ? shared_conv.conv_linear : shared_conv.conv)(gpu(), &a, stream_get()));
            out[linear] = memory_get(&memory_device, (const uint16_t *)a.out, values);
        }
        CHECK(out[0] == out[1]);
        CHECK(count == 0 || out[0] != residual);
    }
    guarded_finish();
}

DEVICE_TEST(gpu_linear_is_hoppers_kernel) {
    if (!gpu()->tensor_map_encode) {
        SKIP("no code for sm_90a");
    }
    const int32_t most = gpu()->multiprocessors * 128 + 77;
    for (const linear_layer &l : linear_layers) {
        for (numeric type : {numeric_f16, numeric_bf16}) {
            linear_check(l, type, most, {most, most - 100, 0, 1, 77, 128, 129, 2000});
        }
    }
}

} // namespace
