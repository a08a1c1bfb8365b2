// tests/support/gpu.cuh: the current GPU, queried once for all tests of a program.
#ifndef SPIRA_TESTS_GPU_CUH
#define SPIRA_TESTS_GPU_CUH

#include "../../spira/device.cuh"
#include "device.cuh"

[[maybe_unused]] static const spira::device_info *gpu() {
    static spira::device_info info;
    static const bool good = !status_failed(spira::device_info_query(&info));
    CHECK(good);
    return &info;
}

#endif
