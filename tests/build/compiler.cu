// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/build/compiler.cu: convolutions against the host loop, by whatever compiler built this
// file: for clang as the CUDA compiler, and for any that is new. `make check` compiles it where
// there is a clang that knows sm_90a. Running it needs a GPU; it prints each layer that is wrong.
#include "spira.cuh"

#include <algorithm>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <vector>

using namespace spira;

enum { side = 40, voxels = 3000 };

static uint32_t random_next() {
    static uint32_t state = 12345;
    state = state * 1664525u + 1013904223u;
    return state >> 8;
}

// Multiples of 1/64, which every format holds: products are exact.
static std::vector<float> random_values(size_t count) {
    std::vector<float> v(count);
    for (float &f : v) {
        f = (float)((int)(random_next() % 129) - 64) / 64.0f;
    }
    return v;
}

static void *device_copy(const void *from, size_t bytes) {
    void *to = nullptr;
    cudaError_t error = cudaMalloc(&to, bytes);
    error = error ? error : cudaMemset(to, 0, bytes);
    error = error || !from ? error : cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice);
    if (error) { // perhaps that of an earlier kernel
        printf("%zu bytes on the device: %s\n", bytes, cudaGetErrorString(error));
        exit(1);
    }
    return to;
}

// Features in the storage type.
static void *device_features(numeric type, const std::vector<float> &from) {
    std::vector<char> stored(from.size() * (size_t)numeric_size(type));
    for (size_t i = 0; i < from.size(); ++i) {
        numeric_store(type, stored.data(), (int64_t)i, from[i]);
    }
    return device_copy(stored.data(), stored.size());
}

// A set, its map on the device and on the host.
struct scene {
    device_info gpu;
    kernel_shape kernel;
    std::vector<int32_t> host; // [voxels, volume]
    conv_map map;
};

static status scene_make(int size, scene *s) {
    SPIRA_TRY(device_info_query(&s->gpu));
    word_need need = {};
    need.hi = triple_make(side, side, side);
    need.batches = 1;
    need.stride = triple_make(1, 1, 1);
    need.reach = triple_make(2, 2, 2);
    word_layout layout;
    SPIRA_TRY(word_fit(&need, &layout));
    std::vector<uint32_t> words;
    while ((int)words.size() < voxels) {
        voxel v = {};
        v.x = (int)random_next() % side;
        v.y = (int)random_next() % side;
        v.z = (int)random_next() % (side / 4);
        const uint32_t w = word_pack<uint32_t>(&layout, v);
        const auto place = std::lower_bound(words.begin(), words.end(), w);
        if (place == words.end() || *place != w) {
            words.insert(place, w);
        }
    }
    int32_t count = voxels;
    s->kernel = kernel_cube(size, 1);
    s->host.resize((size_t)voxels * (size_t)kernel_volume(&s->kernel));
    const voxel_set<uint32_t> host = {words.data(), &count, voxels};
    SPIRA_TRY(map_build_host(&layout, &s->kernel, host, host, s->host.data()));
    conv_map_request<uint32_t> request = {};
    request.layout = &layout;
    request.kernel = s->kernel;
    request.source.words = (uint32_t *)device_copy(words.data(), words.size() * sizeof words[0]);
    request.source.count = (int32_t *)device_copy(&count, sizeof count);
    request.source.capacity = voxels;
    request.outputs = request.source;
    request.trouble = (device_status *)device_copy(nullptr, sizeof(device_status));
    size_t bytes;
    SPIRA_TRY(conv_map_bytes(&s->gpu, &request, &bytes));
    return conv_map_build(&s->gpu, &request, device_copy(nullptr, bytes), bytes, &s->map, nullptr);
}

// Computes a layer on both sides. Returns the outputs that are wrong.
static status layer_check(const scene *s, int cin, int cout, numeric type, int *wrong) {
    const conv_shape shape = conv_shape_of(&s->kernel, cin, cout, type);
    const std::vector<float> in = random_values((size_t)voxels * (size_t)cin);
    const std::vector<float> residual = random_values((size_t)voxels * (size_t)cout);
    const std::vector<float> weight = random_values((size_t)(shape.volume * cin) * (size_t)cout);
    const size_t total = residual.size();
    size_t bytes;
    SPIRA_TRY(conv_weights_bytes(&s->gpu, &shape, &bytes));
    void *packed = device_copy(nullptr, bytes);
    float *given = (float *)device_copy(weight.data(), weight.size() * sizeof(float));
    const conv_weights weights = {given, packed, bytes, nullptr};
    SPIRA_TRY(conv_weights_pack(&s->gpu, &shape, &weights, nullptr));
    conv_args a = {};
    a.shape = shape;
    a.map = &s->map;
    a.in = device_features(type, in);
    a.weights = packed;
    a.epilogue.residual = device_features(type, residual);
    a.out = device_copy(nullptr, total * (size_t)numeric_size(type));
    SPIRA_TRY((conv<numeric_any>(&s->gpu, &a, nullptr)));
    std::vector<char> out(total * (size_t)numeric_size(type));
    SPIRA_TRY(status_from_cuda(cudaMemcpy(out.data(), a.out, out.size(), cudaMemcpyDeviceToHost),
                               "copy"));
    std::vector<double> sum(total);
    const conv_host_args host = {shape, in.data(), nullptr, weight.data(), s->host.data(), voxels};
    SPIRA_TRY(conv_sum_host(&host, sum.data()));
    for (size_t i = 0; i < total; ++i) {
        const double want = sum[i] + (double)residual[i];
        const double error = fabs((double)numeric_load(type, out.data(), (int64_t)i) - want);
        *wrong += !(error <= numeric_epsilon(type) * 1.01 * fabs(want) + 1e-4);
    }
    const void *const all[] = {packed, given, a.in, a.epilogue.residual, a.out};
    for (const void *p : all) {
        (void)cudaFree((void *)p);
    }
    return status_success();
}

static status check(int *failed, int *passed) {
    const int channels[][2] = {{1, 5},    {4, 16},    {16, 16},  {16, 32},  {17, 16},
                               {16, 129}, {24, 40},   {32, 32},  {33, 65},  {48, 96},
                               {64, 64},  {100, 128}, {128, 64}, {64, 256}, {129, 257}};
    for (int size = 1; size <= 3; ++size) {
        scene s = {};
        SPIRA_TRY(scene_make(size, &s));
        for (const auto &c : channels) {
            for (numeric type : {numeric_f16, numeric_bf16, numeric_tf32, numeric_f32}) {
                int wrong = 0;
                SPIRA_TRY(layer_check(&s, c[0], c[1], type, &wrong));
                if (wrong) {
                    printf("K = %d, %d to %d channels, %s: %d of %d outputs are wrong\n", size,
                           c[0], c[1], numeric_name(type), wrong, voxels * c[1]);
                }
                ++*(wrong ? failed : passed);
            }
        }
    }
    return status_success();
}

int main() {
    int failed = 0, passed = 0;
    const status s = check(&failed, &passed);
    if (status_failed(s)) {
        char text[256];
        printf("%s\n", status_text(s, text, sizeof text));
    }
    printf("%d passed, %d failed\n", passed, failed);
    return status_failed(s) || failed > 0;
}
