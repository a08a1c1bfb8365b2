// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/density.cu: prints the density of a kernel map (the fraction of the offsets that have a
// source) for each L1 norm of the offsets. It takes the z-delta search alone, on the host.
//   nvcc -std=c++17 examples/density.cu -o density && ./density scan.vox32   (int32 x, y, z)
#include "../spira/search.h"
#include <algorithm>
#include <set>
#include <stdio.h>
#include <vector>

int main(int argc, char **argv) {
    if (argc < 2) {
        return fprintf(stderr, "usage: density scan.vox32\n"), 2;
    }
    FILE *file = fopen(argv[1], "rb");
    if (!file) {
        return fprintf(stderr, "density: cannot open %s\n", argv[1]), 1;
    }
    std::vector<spira::voxel> voxels;
    spira::word_need need = {};
    need.batches = 1;
    need.stride = need.reach = {1, 1, 1}; // of a kernel of size 3
    for (int32_t c[3]; fread(c, sizeof c, 1, file) == 1;) {
        voxels.push_back({0, c[0], c[1], c[2]});
        need.lo = {std::min(need.lo.x, c[0]), std::min(need.lo.y, c[1]), std::min(need.lo.z, c[2])};
        need.hi = {std::max(need.hi.x, c[0]), std::max(need.hi.y, c[1]), std::max(need.hi.z, c[2])};
    }
    spira::word_layout layout;
    if (voxels.empty() || spira::status_failed(spira::word_fit(&need, &layout))) {
        return fprintf(stderr, "density: %s: no voxels, or too far apart\n", argv[1]), 1;
    }
    std::set<uint64_t> distinct; // the search requires sorted, distinct words
    for (const spira::voxel &v : voxels) {
        distinct.insert(spira::word_pack<uint64_t>(&layout, v));
    }
    std::vector<uint64_t> words(distinct.begin(), distinct.end());
    spira::kernel_shape kernel = spira::kernel_cube(3, 1);
    spira::search_walk<uint64_t> walk = spira::search_walk_make<uint64_t>(&layout, &kernel);
    int64_t hits[4] = {}, offsets[4] = {1, 6, 12, 8}; // for each norm
    for (uint64_t word : words) {
        int32_t taps[27];
        spira::search_voxel(walk, words.data(), (int)words.size(), word, taps);
        for (int k = 0; k < 27; ++k) {
            hits[spira::kernel_norm(&kernel, k)] += taps[k] >= 0;
        }
    }
    for (int64_t n = 0, all = (int64_t)words.size(); n < 4; ++n) {
        printf("norm %d: density %.3f\n", (int)n, (double)hits[n] / (double)(offsets[n] * all));
    }
}
