// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/build/link_a.cu: compiled for sm_80, and linked into one binary with link_b.cu, which is
// compiled for sm_90a. If a kernel or a launcher were shared, the linker would keep that of one
// architecture for both.
#include "../../spira.cuh"

bool link_b();

// The same code as in link_b.cu, so that everything in the two objects has the same names.
bool link_a() {
    const spira::device_info gpu = {};
    const spira::conv_args none = {};
    return spira::status_failed(spira::conv<spira::numeric_f16>(&gpu, &none, nullptr));
}

int main() {
    return link_a() && link_b() ? 0 : 1;
}
