// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/gpu/gate.cu: gates and their gradients on the GPU against formulas in double, those without
// exp bit for bit those of the host loop; slopes of activations at many numbers.
#include "../../spira/gate.cuh"
#include "../support/device.cuh"
#include "../support/gates.h"
#include "../support/gpu.cuh"

using namespace spira;

namespace {

const gate_side gates_on_device = {
    &memory_device, [](const gate_args *a) { return gate(a, stream_get()); },
    [](const gate_grad_args *a) { return gate_grad(a, stream_get()); }};

DEVICE_TEST(gpu_gate_random) {
    gate_check_random(3, test_quick() ? 60 : 600, &gates_on_device);
}

// Every fp16 number: slopes of infinities are 0 and 1, NaN stays NaN.
DEVICE_TEST(gpu_gate_slope_of_all_numbers) {
    const int32_t count = 1 << 16;
    std::vector<float> values((size_t)count), unit((size_t)count, 1.0f);
    for (int32_t i = 0; i < count; ++i) {
        values[(size_t)i] = f16_to_float((uint16_t)i);
    }
    const test_memory *m = &memory_device;
    for (int act = 1; act < activation_count; ++act) {
        gate_grad_args g = {};
        g.gate.gate = memory_put(m, values);
        g.gate.channels = 1;
        g.gate.type = numeric_f32;
        g.gate.act = (activation)act;
        g.gate.slope = 0.25f;
        g.gate.count = memory_put(m, &count, 1);
        g.gate.capacity = count;
        g.out_grad = memory_put(m, unit);
        g.gate_grad = memory_new<float>(m, count);
        CHECK_OK(gate_grad(&g, stream_get()));
        const std::vector<float> got = memory_get(m, (const float *)g.gate_grad, count);
        bool good = true;
        for (size_t i = 0; i < got.size(); ++i) {
            const float x = values[i];
            const double wanted = float_is_finite(x)
                                      ? gate_reference_of(x, (activation)act, 0.25).slope
                                  : x > 0                   ? 1
                                  : act == activation_leaky ? 0.25
                                                            : 0;
            good = good &&
                   (float_is_nan(x) ? float_is_nan(got[i])
                                    : fabs(got[i] - wanted) <= gate_slope_error((activation)act));
        }
        CHECK(good);
        guarded_finish();
    }
}

} // namespace
