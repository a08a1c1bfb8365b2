// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/conv/linear/traits.cuh: the variants of the linear kernel, and the resources of each.
//
// A tile is 128 rows and `columns` output channels: 64, 128 or 256. Two consumer warpgroups have 64
// rows each. A stage holds a chunk of the tile's rows, 64 channels. Weights of the columns are
// resident in shared memory where they fit; otherwise each stage holds those of its chunk, too, and
// the two thread blocks of a cluster read one half each for both.
#ifndef SPIRA_CONV_LINEAR_TRAITS_CUH
#define SPIRA_CONV_LINEAR_TRAITS_CUH

#include "../../base/ring.cuh"
#include "../hopper/weights.cuh"

namespace spira {

enum {
    linear_rows = 2 * wgmma_rows,            // of a tile
    linear_consumers = 256,                  // threads: two warpgroups
    linear_threads = linear_consumers + 128, // one lane of the last warpgroup produces
    linear_stages_most = 8,
    linear_stages_least = 3,
    linear_lag = 2,                                     // stages; see linear_params
    linear_stage_rows = linear_rows * wgmma_row_most,   // bytes
    linear_piece_columns = 64,                          // that a warp finishes at a time
    linear_piece_bytes = 16 * linear_piece_columns * 2, // of the 16 rows of a warp
    linear_out_bytes = linear_consumers / 32 * linear_piece_bytes,
    linear_columns_most = 256,
};

// Thread blocks that a multiprocessor has registers for.
SPIRA_BOTH constexpr int linear_resident(int columns) {
    return columns <= 64 ? 2 : 1;
}

// The register budget of a thread of the producer's warpgroup, then of a consumer thread. All
// threads begin with 168, with 64 columns with 80.
SPIRA_BOTH constexpr int linear_registers_producer(int columns) {
    return columns <= 64 ? 32 : 40;
}

SPIRA_BOTH constexpr int linear_registers_consumer(int columns) {
    return columns <= 64 ? 104 : 232;
}

// The alignment of a parameter of this type; g++ would remark on it in emulated launches.
#ifdef __CUDACC__
enum { linear_map_align = 64 };
#else
enum { linear_map_align = 16 };
#endif

// How the GPU reads rows: what cuTensorMapEncodeTiled writes.
struct alignas(linear_map_align) linear_map {
    uint64_t opaque[16];
};

struct linear_params {
    linear_map rows;
    conv_params conv;
    int depth;     // stages of the ring
    int lag;       // stages that the second warpgroup begins behind the first
    bool resident; // weights stay in shared memory
};

// Static shared memory.
struct linear_shared {
    ring_barriers ring[linear_stages_most];
    uint64_t weights;                                 // mbarrier: resident weights are here
    uint64_t begun;                                   // mbarrier: the second warpgroup may begin
    alignas(16) float scale[2 * linear_columns_most]; // of the slice's channels; then their shifts
};

SPIRA_BOTH int linear_weights_bytes(int columns, int chunks) {
    return columns * chunks * wgmma_row_most;
}

SPIRA_BOTH int linear_stage_bytes(int columns, bool resident) {
    return linear_stage_rows + (resident ? 0 : linear_weights_bytes(columns, 1));
}

// Bytes of dynamic shared memory.
SPIRA_BOTH int linear_memory_bytes(int columns, int chunks, bool resident, int stages) {
    return (int)wgmma_align + (int)linear_out_bytes +
           stages * linear_stage_bytes(columns, resident) +
           (resident ? linear_weights_bytes(columns, chunks) : 0);
}

// Stages that fit where `blocks` thread blocks share a multiprocessor; each has 1024 bytes of its
// own besides.
SPIRA_BOTH int linear_stages(int columns, int chunks, bool resident, int shared, int blocks) {
    const int each = (shared + 1024) / blocks - 1024 - (int)round_up(sizeof(linear_shared), 128) -
                     linear_memory_bytes(columns, chunks, resident, 0);
    return (int)min_of(each / linear_stage_bytes(columns, resident), linear_stages_most);
}

} // namespace spira

#endif
