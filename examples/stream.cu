// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/stream.cu: one convolution from raw points, in memory and a stream that the caller owns.
//
//   nvcc -std=c++17 -gencode=arch=compute_90a,code=sm_90a examples/stream.cu -o stream && ./stream
//
// On another GPU: its own architecture (README.md). The code is the same for every channel count
// and number format; only CIN, COUT and the format below change.
#include "../spira.cuh"

using namespace spira;

enum { CIN = 4, COUT = 48, CAPACITY = 100000 };
constexpr numeric FORMAT = numeric_f16;

// A 3x3x3 submanifold convolution with ReLU on a coordinate set.
// memory: `*bytes` of device memory, aligned to 256; null asks how many.
static status layer(const device_info *gpu, const word_layout *layout, voxel_set<uint32_t> set,
                    const void *in, const void *weights, void *out, device_status *trouble,
                    void *memory, size_t *bytes, cudaStream_t stream) {
    conv_map_request<uint32_t> request = {};
    request.layout = layout;
    request.kernel = kernel_cube(3, 1); // size 3, voxels of stride 1
    request.source = request.outputs = set;
    request.trouble = trouble;
    if (!memory) {
        return conv_map_bytes(gpu, &request, bytes);
    }
    conv_map map;
    SPIRA_TRY(conv_map_build(gpu, &request, memory, *bytes, &map, stream));
    conv_args args = {};
    args.shape = conv_shape_of(&request.kernel, CIN, COUT, FORMAT);
    args.map = &map;
    args.in = in;
    args.weights = weights;
    args.out = out;
    args.epilogue.act = activation_relu;
    return conv<FORMAT>(gpu, &args, stream);
}

// Device memory that ends with the program.
static void *allocate(size_t bytes) {
    void *p = nullptr;
    return cudaMalloc(&p, bytes ? bytes : 1) == cudaSuccess &&
                   cudaMemset(p, 0, bytes) == cudaSuccess
               ? p
               : nullptr;
}

// Points on a wavy ground, with 4 values each: x, y, z in metres and an intensity.
static void scene(float *points) {
    for (int i = 0; i < CAPACITY; ++i) {
        const float x = 0.1f * (float)(i % 400), y = 0.1f * (float)(i / 400);
        points[4 * i] = x;
        points[4 * i + 1] = y;
        points[4 * i + 2] = 0.5f * sinf(x) * cosf(y);
        points[4 * i + 3] = 1.0f;
    }
}

static status run(float *host) {
    device_info gpu;
    SPIRA_TRY(device_info_query(&gpu)); // once
    if (device_info_advice(&gpu)) {
        printf("note: %s\n", device_info_advice(&gpu));
    }
    // Once, from the bounds of the scene: voxels of 0.1 m.
    word_need need = {};
    need.lo = triple_make(-10, -10, -20);
    need.hi = triple_make(410, 260, 20);
    need.batches = 1;
    need.stride = triple_make(1, 1, 1); // the largest stride
    need.reach = triple_make(1, 1, 1);  // of the largest kernel
    word_layout layout;
    SPIRA_TRY(word_fit(&need, &layout));
    const kernel_shape kernel = kernel_cube(3, 1);
    const conv_shape shape = conv_shape_of(&kernel, CIN, COUT, FORMAT);
    size_t weight_bytes, voxel_bytes, map_bytes;
    SPIRA_TRY(conv_weights_bytes(&gpu, &shape, &weight_bytes));

    cudaStream_t stream = nullptr;
    float *points = (float *)allocate(CAPACITY * 4 * sizeof(float));
    float *weight = (float *)allocate(27 * CIN * COUT * sizeof(float)); // zeros: use your own
    void *packed = allocate(weight_bytes);
    int32_t *counts = (int32_t *)allocate(2 * sizeof(int32_t)); // of points, of voxels
    device_status *trouble = (device_status *)allocate(sizeof(device_status));
    uint32_t *voxels = (uint32_t *)allocate(CAPACITY * sizeof(uint32_t));
    int32_t *rows_memory = (int32_t *)allocate((3 * CAPACITY + 1) * sizeof(int32_t));
    void *in = allocate((size_t)CAPACITY * CIN * numeric_size(FORMAT));
    void *out = allocate((size_t)CAPACITY * COUT * numeric_size(FORMAT));

    voxel_input input = {};
    input.points = points;
    input.columns = 4;
    input.size[0] = input.size[1] = input.size[2] = 0.1f;
    input.count = counts;
    input.rows = CAPACITY;
    voxel_set<uint32_t> set = {voxels, counts + 1, CAPACITY};
    voxel_rows rows = {rows_memory, rows_memory + CAPACITY, rows_memory + 2 * CAPACITY};
    SPIRA_TRY(voxelize_workspace<uint32_t>(&input, CAPACITY, &voxel_bytes));
    void *voxel_memory = allocate(voxel_bytes);
    const voxelize_args<uint32_t> to_voxels = {&layout, &input, set, rows, trouble};
    voxel_features_args<uint32_t> features = {}; // the mean of the points of each voxel
    features.kind = voxel_feature_mean;
    features.values = points;
    features.columns = input.columns;
    features.channels = CIN;
    features.rows = rows;
    features.set = set;
    features.type = FORMAT;
    features.features = in;
    SPIRA_TRY(
        layer(&gpu, &layout, set, nullptr, nullptr, nullptr, nullptr, nullptr, &map_bytes, stream));
    void *map_memory = allocate(map_bytes);
    SPIRA_TRY(device_status_clear(trouble, stream));
    const conv_weights weights = {weight, packed, weight_bytes, trouble};
    SPIRA_TRY(conv_weights_pack<FORMAT>(&gpu, &shape, &weights, stream));
    device_status found; // weights that are NaN, infinite, or too large for fp16
    SPIRA_TRY(status_from_cuda(cudaMemcpy(&found, trouble, sizeof found, cudaMemcpyDeviceToHost),
                               "trouble"));
    SPIRA_TRY(device_status_read(&found));

    // A frame: nothing below allocates, synchronises or reads back, and all of it can be captured
    // in a CUDA graph.
    const int32_t count = CAPACITY;
    cudaMemcpyAsync(points, host, CAPACITY * 4 * sizeof(float), cudaMemcpyHostToDevice, stream);
    cudaMemcpyAsync(counts, &count, sizeof count, cudaMemcpyHostToDevice, stream);
    SPIRA_TRY(device_status_clear(trouble, stream));
    SPIRA_TRY(voxelize(&to_voxels, voxel_memory, voxel_bytes, stream));
    SPIRA_TRY(voxel_features<FORMAT>(&features, stream));
    SPIRA_TRY(layer(&gpu, &layout, set, in, packed, out, trouble, map_memory, &map_bytes, stream));

    // What the device has found, when the caller wants to know.
    int32_t voxel_count = 0;
    cudaMemcpyAsync(&found, trouble, sizeof found, cudaMemcpyDeviceToHost, stream);
    cudaMemcpyAsync(&voxel_count, set.count, sizeof voxel_count, cudaMemcpyDeviceToHost, stream);
    SPIRA_TRY(status_from_cuda(cudaStreamSynchronize(stream), "stream"));
    printf("%d points, %d voxels, kernel map %.1f MB, weights %.1f KB\n", count, voxel_count,
           (double)map_bytes * 1e-6, (double)weight_bytes * 1e-3);
    return device_status_read(&found);
}

int main() {
    static float points[4 * CAPACITY];
    scene(points);
    const status s = run(points);
    if (status_failed(s)) {
        char text[256];
        printf("%s\n", status_text(s, text, sizeof text));
    }
    return status_failed(s);
}
