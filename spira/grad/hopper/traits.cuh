// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/grad/hopper/traits.cuh: the variants of the weight gradient's kernel for Hopper, and the
// shared memory of each.
//
// A variant is given by its tile: so many input channels (rows) and output channels (columns). A
// stage holds the rows of a chunk of pairs in panels of 64 channels: first those of the input, then
// those of the gradient. A panel is [chunk, 128 bytes], swizzled (wgmma_place).
#ifndef SPIRA_GRAD_HOPPER_TRAITS_CUH
#define SPIRA_GRAD_HOPPER_TRAITS_CUH

#include "../../base/ring.cuh"
#include "../../base/wgmma.cuh"
#include "../share.cuh"

namespace spira {

enum {
    grad_hopper_chunk = 32, // pairs of a stage
    grad_hopper_panel = 64, // channels
    grad_hopper_panel_bytes = grad_hopper_chunk * wgmma_row_most,
    grad_hopper_warpgroup = 128,
    grad_hopper_producers = 4, // warps: they fill a stage each, in turn
    grad_hopper_stages_most = 16,
};

// Consumer warpgroups: each has half of the rows of a tile, or all of 64.
SPIRA_BOTH constexpr int grad_hopper_warpgroups(int rows) {
    return rows > grad_hopper_panel ? 2 : 1;
}

// Whether producers give registers to consumers (setmaxnreg): all threads begin with 168.
SPIRA_BOTH constexpr bool grad_hopper_registers_move(int rows, int columns) {
    return rows > grad_hopper_panel && rows * columns > 128 * 128;
}

SPIRA_BOTH constexpr int grad_hopper_stage_bytes(int rows, int columns) {
    return (rows + columns) / grad_hopper_panel * grad_hopper_panel_bytes;
}

// Bytes of dynamic shared memory in front of the ring: where lists begin.
SPIRA_BOTH int grad_hopper_starts_bytes(int volume) {
    return (volume + 1 + 31) / 32 * 128;
}

// Bytes of dynamic shared memory; with no stages, of what is beside the ring.
SPIRA_BOTH int grad_hopper_bytes(int rows, int columns, int volume, int stages) {
    return grad_hopper_starts_bytes(volume) + wgmma_align +
           stages * grad_hopper_stage_bytes(rows, columns);
}

// Static shared memory: the mbarriers of the ring.
struct grad_hopper_shared {
    ring_barriers ring[grad_hopper_stages_most];
};

// Bytes of dynamic shared memory at most. shared: bytes that a thread block may have.
SPIRA_BOTH int grad_hopper_dynamic_bytes(int shared) {
    return shared - (int)round_up(sizeof(grad_hopper_shared), 128);
}

// Stages that fit; fewer than there are producers: the variant does not run.
SPIRA_BOTH int grad_hopper_stages(int rows, int columns, int volume, int shared) {
    const int room =
        grad_hopper_dynamic_bytes(shared) - grad_hopper_bytes(rows, columns, volume, 0);
    return (int)min_of(room / grad_hopper_stage_bytes(rows, columns), grad_hopper_stages_most);
}

// One variant of the kernel. Kernels and device functions take it as one template argument, T.
template <typename E, int rows_, int columns_>
struct grad_hopper_traits {
    typedef E element;
    static constexpr int rows = rows_, columns = columns_;
    static constexpr int warpgroups = grad_hopper_warpgroups(rows);
    static constexpr int bands = rows / grad_hopper_panel / warpgroups; // of 64 rows, of each
    static constexpr int consumers = warpgroups * grad_hopper_warpgroup;
    static constexpr int threads = consumers + grad_hopper_producers * 32;
    static constexpr int in_bytes = rows / grad_hopper_panel * grad_hopper_panel_bytes;
    static constexpr int stage_bytes = grad_hopper_stage_bytes(rows, columns);

    static constexpr bool registers_move = grad_hopper_registers_move(rows, columns);
    static constexpr int registers_producer = 88, registers_consumer = 208;

    static_assert(sizeof(E) == 2, "wgmma transposes operands of 16 bits");
    static_assert(!registers_move || threads == 384, "three warpgroups");
    static_assert(registers_producer + 2 * registers_consumer == 3 * 168, "one for two");
};

} // namespace spira

#endif
