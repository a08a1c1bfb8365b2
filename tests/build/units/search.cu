// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/build/units/search.cu: the z-delta search alone, in a kernel of the user's own.
#include "../../../spira/search.h"

__global__ void search(spira::search_walk<uint32_t> walk, const uint32_t *words, int count,
                       int32_t *map) {
    const int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < count) {
        spira::search_voxel(walk, words, count, words[i], map + (int64_t)i * 27);
    }
}
