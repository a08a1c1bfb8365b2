// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/build/consumer/host.cpp: the host half of spira, under a plain C++ compiler.
#include <spira.cuh>

int main() {
    const spira::kernel_shape kernel = spira::kernel_cube(3, 1);
    return spira::kernel_volume(&kernel) == 27 ? 0 : 1;
}
