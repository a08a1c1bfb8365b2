// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/build/units/voxelize.cu: points to a sorted set of 32-bit words.
#include "../../../spira.cuh"

spira::status unit(const spira::voxelize_args<uint32_t> *args, void *scratch, size_t bytes,
                   cudaStream_t stream);

spira::status unit(const spira::voxelize_args<uint32_t> *args, void *scratch, size_t bytes,
                   cudaStream_t stream) {
    return spira::voxelize(args, scratch, bytes, stream);
}
