// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/gpu/group.cu: depthwise and grouped convolution on the GPU against sums in double, and bit
// for bit those of the host loop.
#include "../../spira/conv_group.cuh"
#include "../support/device.cuh"
#include "../support/gpu.cuh"
#include "../support/groups.h"

using namespace spira;

namespace {

DEVICE_TEST(gpu_group_random) {
    const group_side side = {
        &memory_device, [](const conv_group_args *a) { return conv_group(a, stream_get()); },
        [](const conv_group_grad_args *a, const test_memory *m) {
            size_t bytes = 0;
            SPIRA_TRY(conv_group_grad_workspace(&a->shape, a->capacity, &bytes));
            return conv_group_grad_weight(a, memory_new<char>(m, (int64_t)bytes), bytes,
                                          stream_get());
        }};
    group_check_random(3, test_quick() ? 20 : 150, &side);
    random_state r = random_make(4);
    for (const group_wish &w : {group_wish{27, 96, 1, 1, 4000, 15},
                                {343, 64, 1, 1, 1500, 4},
                                {3375, 16, 1, 1, 300, 1},
                                {27, 8, 8, 16, 700, 30},
                                {27, 6, 16, 16, 3000, 20},
                                {27, 2, 64, 32, 900, 30},
                                {343, 1, 32, 48, 600, 5}}) {
        for (numeric type : {numeric_f16, numeric_f32}) {
            const group_problem p = group_make(&r, w, type);
            group_check(&p, &side);
        }
    }
}

} // namespace
