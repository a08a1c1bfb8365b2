// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/gpu/choose.cu: the largest voxels and the members of a set on the GPU, against plain
// counting.
#include "../../spira/choose.cuh"
#include "../support/choices.h"
#include "../support/device.cuh"
#include "../support/gpu.cuh"

using namespace spira;

namespace {

template <typename W>
const choices_side<W> side = {
    &memory_device, choose_largest_workspace<W>,
    [](const choose_largest_args<W> *a, void *scratch, size_t bytes) {
        return choose_largest<W>(a, scratch, bytes, stream_get());
    },
    [](const choose_members_args<W> *a) { return choose_members<W>(a, stream_get()); }};

DEVICE_TEST(gpu_choose_random) {
    choices_check_random(1, test_quick() ? 10 : 60, 600, &side<uint32_t>);
    choices_check_random(2, test_quick() ? 10 : 60, 900, &side<uint64_t>);
}

} // namespace
