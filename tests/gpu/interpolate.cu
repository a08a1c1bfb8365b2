// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/gpu/interpolate.cu: interpolation on the GPU against sums in double over all voxels, and
// bit for bit that of the host loops.
#include "../../spira/interpolate.cuh"
#include "../../spira/rows.cuh"
#include "../support/device.cuh"
#include "../support/gpu.cuh"
#include "../support/points.h"

using namespace spira;

namespace {

template <typename W>
const points_side<W> side = {
    &memory_device, [](const interpolate_args<W> *a) { return interpolate_find(a, stream_get()); },
    [](const row_blend_args *a) { return row_blend(a, stream_get()); },
    [](const row_gather_args *a) { return row_gather(a, stream_get()); }};

DEVICE_TEST(gpu_interpolate_random) {
    points_check_random(1, test_quick() ? 15 : 100, &side<uint32_t>, &points_by_host<uint32_t>);
    points_check_random(2, test_quick() ? 15 : 100, &side<uint64_t>, &points_by_host<uint64_t>);
}

} // namespace
