// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/gpu/norm.cu: norms on the GPU against sums in double; LayerNorm and RMSNorm bit for bit
// those of the host loop.
#include "../../spira/norm.cuh"
#include "../../spira/norm_groups.cuh"
#include "../support/device.cuh"
#include "../support/gpu.cuh"
#include "../support/norm_groups.h"
#include "../support/norms.h"

using namespace spira;

namespace {

const norm_side rows_on_device = {&memory_device,
                                  [](const norm_args *a) { return norm(a, stream_get()); },
                                  [](const norm_grad_args *a, void *scratch, size_t bytes) {
                                      return norm_grad(a, scratch, bytes, stream_get());
                                  },
                                  norm_grad_workspace};

DEVICE_TEST(gpu_norm_random) {
    norm_check_random(3, test_quick() ? 30 : 300, &rows_on_device);
}

DEVICE_TEST(gpu_norm_grad_random) {
    norm_check_grad_random(7, test_quick() ? 30 : 300, &rows_on_device);
}

template <typename W>
const norm_groups_side<W> groups_on_device = {
    &memory_device, norm_groups_workspace<W>,
    [](const norm_groups_args<W> *a, void *scratch, size_t bytes) {
        return norm_groups(a, scratch, bytes, stream_get());
    },
    norm_groups_grad_workspace<W>,
    [](const norm_groups_grad_args<W> *a, void *scratch, size_t bytes) {
        return norm_groups_grad(a, scratch, bytes, stream_get());
    }};

DEVICE_TEST(gpu_norm_groups_random) {
    random_state r = random_make(6);
    for (int i = 0; i < (test_quick() ? 20 : 150); ++i) {
        norm_groups_check_random(&r, &groups_on_device<uint32_t>);
        norm_groups_check_random(&r, &groups_on_device<uint64_t>);
    }
}

} // namespace
