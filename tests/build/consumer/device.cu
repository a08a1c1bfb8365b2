// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/build/consumer/device.cu: all of spira under nvcc. Runs with and without a GPU.
#include <spira.cuh>

int main() {
    spira::device_info gpu;
    const spira::status s = spira::device_info_query(&gpu);
    return s.code == spira::status_ok || s.code == spira::status_cuda ? 0 : 1;
}
