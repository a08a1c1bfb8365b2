// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/gpu/grad_around.cu: gradients of what stands around convolutions (support/grad_around.h) on
// the GPU.
#include "../../spira/dense.cuh"
#include "../../spira/join.cuh"
#include "../../spira/pool.cuh"
#include "../../spira/voxel_features.cuh"
#include "../support/gpu.cuh"

namespace {

const bool large = true;

const test_memory *const memory = &memory_device;

cudaStream_t stream() {
    return stream_get();
}

const spira::device_info *device() {
    return gpu();
}

} // namespace

#include "../support/grad_around.h"

DEVICE_TEST(gpu_grad_pool) {
    for (int seed = 0; seed < (test_quick() ? 8 : 48); ++seed) {
        pool_grad_case(seed);
    }
}

DEVICE_TEST(gpu_grad_pool_global) {
    for (int seed = 0; seed < (test_quick() ? 6 : 24); ++seed) {
        pool_global_grad_case(seed);
    }
}

DEVICE_TEST(gpu_grad_dense) {
    for (int seed = 0; seed < (test_quick() ? 8 : 80); ++seed) {
        dense_grad_case(seed);
    }
}

DEVICE_TEST(gpu_grad_voxel_features) {
    for (int seed = 0; seed < (test_quick() ? 6 : 36); ++seed) {
        voxel_features_grad_case(seed);
    }
}

DEVICE_TEST(gpu_grad_join_sum) {
    for (int seed = 0; seed < (test_quick() ? 6 : 40); ++seed) {
        join_sum_grad_case(seed);
    }
}
