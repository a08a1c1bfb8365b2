// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/build/units/map_build.cu: an output-stationary kernel map of 32-bit words.
#include "../../../spira.cuh"

spira::status unit(const spira::word_layout *layout, const spira::kernel_shape *kernel,
                   spira::voxel_set<uint32_t> set, int32_t *map, cudaStream_t stream);

spira::status unit(const spira::word_layout *layout, const spira::kernel_shape *kernel,
                   spira::voxel_set<uint32_t> set, int32_t *map, cudaStream_t stream) {
    return spira::map_build(layout, kernel, set, set, map, stream);
}
