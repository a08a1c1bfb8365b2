// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/crowd.cu: counts the neighbours of each voxel; voxels without neighbours are outliers.
// A user's own CUDA kernel calls the block-scope search and stores no kernel map. Compiled as plain
// C++, the host loop counts.
//   nvcc -std=c++17 -gencode=arch=compute_90a,code=sm_90a examples/crowd.cu -o crowd
//   ./crowd scan.vox32 [K]
#include "../spira/search.h"
#include <algorithm>
#include <stdio.h>
#include <stdlib.h>
#include <vector>
#ifdef __CUDACC__
#include "../spira/search.cuh"

// A thread for each output of the thread block's tile. neighbours [sets.total]
static __global__ void crowd(spira::search_walk<uint64_t> walk, spira::search_shape shape,
                             spira::search_sets<uint64_t> sets, int32_t *neighbours) {
    extern __shared__ int4 shared[];
    int first = (int)blockIdx.x * shape.rows, rows = min(sets.total - first, shape.rows);
    int row = (int)threadIdx.x, found = 0;
    for (int x = 0; x < walk.size_x; x += shape.planes) { // one pass for small kernels
        spira::search_part part = {first, rows, x, min(walk.size_x - x, shape.planes)};
        spira::search_tile tile = spira::search_block(walk, shape, sets, part, shared);
        for (int k = 0; k < tile.k_end - tile.k_begin && row < rows; ++k) {
            found += tile.taps[row * tile.pitch + k] >= 0;
        }
        __syncthreads(); // the next search overwrites the tile
    }
    if (row < rows) {
        neighbours[first + row] = found - 1; // not itself
    }
}

static std::vector<int32_t> count_on_gpu(const spira::word_layout *layout,
                                         const spira::kernel_shape *kernel,
                                         const std::vector<uint64_t> &words) {
    int total = (int)words.size();
    std::vector<int32_t> neighbours(words.size(), -1);
    size_t words_bytes = words.size() * sizeof words[0], bytes = words.size() * sizeof(int32_t);
    char *memory = nullptr; // words, neighbours
    cudaMalloc((void **)&memory, words_bytes + bytes);
    cudaMemcpy(memory, words.data(), words_bytes, cudaMemcpyHostToDevice);
    uint64_t *set = (uint64_t *)memory;
    auto walk = spira::search_walk_make<uint64_t>(layout, kernel);
    auto shape = spira::search_shape_choose(kernel->size, spira::kernel_step(kernel), true);
    crowd<<<(unsigned)spira::ceil_div(total, shape.rows), spira::search_threads,
            (size_t)spira::search_block_bytes(shape)>>>(walk, shape, {set, set, total, total},
                                                        (int32_t *)(memory + words_bytes));
    cudaMemcpy(neighbours.data(), memory + words_bytes, bytes, cudaMemcpyDeviceToHost);
    cudaFree(memory);
    return neighbours;
}
#endif

int main(int argc, char **argv) {
    FILE *file = argc > 1 ? fopen(argv[1], "rb") : nullptr;
    spira::kernel_shape kernel = spira::kernel_cube(argc > 2 ? atoi(argv[2]) : 3, 1);
    const int most = 1 << 19; // the largest coordinate
    spira::word_need need = {};
    need.lo = {-most, -most, -most};
    need.hi = {most, most, most};
    need.batches = 1;
    need.stride = {1, 1, 1};
    need.reach = {14, 14, 14};
    spira::word_layout layout;
    if (argc < 2 || spira::status_failed(spira::word_fit(&need, &layout)) ||
        spira::status_failed(spira::search_check(&layout, &kernel))) {
        return fprintf(stderr, "usage: crowd scan.vox32 [K, 1 to 15]\n"), 2;
    }
    if (!file) {
        return fprintf(stderr, "crowd: cannot open %s\n", argv[1]), 1;
    }
    std::vector<uint64_t> words; // sorted and distinct
    for (int32_t c[3]; fread(c, sizeof c, 1, file) == 1;) {
        if (std::min({c[0], c[1], c[2]}) < -most || std::max({c[0], c[1], c[2]}) > most) {
            return fprintf(stderr, "crowd: %s: a coordinate beyond %d\n", argv[1], most), 1;
        }
        words.push_back(spira::word_pack<uint64_t>(&layout, {0, c[0], c[1], c[2]}));
    }
    std::sort(words.begin(), words.end());
    words.erase(std::unique(words.begin(), words.end()), words.end());
    spira::search_walk<uint64_t> walk = spira::search_walk_make<uint64_t>(&layout, &kernel);
    std::vector<int32_t> neighbours, taps((size_t)walk.volume);
    int64_t histogram[13] = {}; // 0, 1, 2 to 3, 4 to 7, ...
    for (uint64_t word : words) {
        spira::search_voxel(walk, words.data(), (int)words.size(), word, taps.data());
        int64_t missing = std::count(taps.begin(), taps.end(), -1);
        neighbours.push_back((int32_t)((int64_t)taps.size() - missing - 1));
        ++histogram[spira::bits_for((uint64_t)neighbours.back())];
    }
    for (int i = 0; 1 << i >> 1 < (int)taps.size(); ++i) {
        printf("%4d to %4d neighbours: %lld voxels\n", 1 << i >> 1, (1 << i) - 1,
               (long long)histogram[i]);
    }
#ifdef __CUDACC__
    std::vector<int32_t> counted = count_on_gpu(&layout, &kernel, words);
    printf("GPU: %s, %s\n", counted == neighbours ? "the same" : "not the same",
           cudaGetErrorString(cudaGetLastError()));
    return counted != neighbours;
#endif
}
