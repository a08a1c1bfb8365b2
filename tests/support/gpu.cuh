// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/support/gpu.cuh: the current GPU, queried once for all tests of a program.
//
// SPIRA_SHARED=99: as if a thread block had at most 99 KB of shared memory, as on GPUs of compute
// capability 8.6, 8.9 and 12.0.
#ifndef SPIRA_TESTS_GPU_CUH
#define SPIRA_TESTS_GPU_CUH

#include "../../spira/device.cuh"
#include "device.cuh"

#include <algorithm>

[[maybe_unused]] static const spira::device_info *gpu() {
    static spira::device_info info;
    static const bool good = [] {
        const bool found = !status_failed(spira::device_info_query(&info));
        const char *kilobytes = getenv("SPIRA_SHARED");
        info.shared_max =
            kilobytes ? std::min(info.shared_max, 1024 * atoi(kilobytes)) : info.shared_max;
        return found;
    }();
    CHECK(good);
    return &info;
}

#endif
