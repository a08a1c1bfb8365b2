// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/host/slices.cpp: grouped convolutions by a convolution for each group (conv_slices.cuh),
// their kernels emulated on the host.
#include "../support/emulate_layers.h"

#include "../support/sliced.h"

using namespace problems;

namespace {

// Each kernel: of Hopper, narrow, portable, exact.
TEST(slices_emulated) {
    uint64_t seed = 0;
    for (int capability : {90, 86, 75}) {
        const device_info d =
            device_made(capability, 3, capability == 90 ? 232448 : 99 * 1024, capability == 90);
        const sliced_side side = {&memory_host, &d, nullptr, conv_slices<>, conv_slices_pack<>};
        for (numeric type : numerics) {
            for (const conv_group_shape &s : {conv_group_shape{5, 2, 64, 64, type},
                                              {3, 2, 128, 96, type},
                                              {5, 4, 64, 64, type},
                                              {3, 4, 64, 48, type},
                                              {4, 3, 99, 111, type}}) {
                CHECK(sliced_good(sliced_make(++seed, s, 150), side));
            }
        }
    }
}

} // namespace
