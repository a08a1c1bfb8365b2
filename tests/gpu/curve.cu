// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/gpu/curve.cu: the order of sets along curves on the GPU, by the curves' inverse.
#include "../../spira/curve.cuh"
#include "../support/curves.h"
#include "../support/device.cuh"
#include "../support/gpu.cuh"

using namespace spira;

namespace {

template <typename W>
const curve_side<W> side = {&memory_device, curve_order_workspace<W>,
                            [](const curve_args<W> *a, void *scratch, size_t bytes) {
                                return curve_order<W>(a, scratch, bytes, stream_get());
                            }};

DEVICE_TEST(gpu_curve_random) {
    curve_check_random(1, test_quick() ? 10 : 60, 600, &side<uint32_t>);
    curve_check_random(2, test_quick() ? 10 : 60, 3000, &side<uint64_t>);
}

} // namespace
