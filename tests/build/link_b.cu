// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/build/link_b.cu: see link_a.cu.
#include "../../spira.cuh"

bool link_b();

bool link_b() {
    const spira::device_info gpu = {};
    const spira::conv_args none = {};
    return spira::status_failed(spira::conv<spira::numeric_f16>(&gpu, &none, nullptr));
}
