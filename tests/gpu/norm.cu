// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/gpu/norm.cu: LayerNorm and RMSNorm on the GPU against sums in double, and bit for bit those
// of the host loop.
#include "../../spira/norm.cuh"
#include "../support/device.cuh"
#include "../support/gpu.cuh"
#include "../support/norms.h"

using namespace spira;

namespace {

DEVICE_TEST(gpu_norm_random) {
    const norm_side side = {&memory_device,
                            [](const norm_args *a) { return norm(a, stream_get()); }};
    norm_check_random(3, test_quick() ? 30 : 300, &side);
}

} // namespace
