// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/conv/hopper/ring.cuh: the ring of stages (base/ring.cuh): headers of stages, and where two
// sets of consumers go on.
#ifndef SPIRA_CONV_HOPPER_RING_CUH
#define SPIRA_CONV_HOPPER_RING_CUH

#include "../../base/ring.cuh"
#include "traits.cuh"

namespace spira {

SPIRA_DEVICE ring_cursor hopper_ring_of(const conv_params &p, int columns, int row,
                                        const hopper_shared &shared, const char *memory) {
    ring_cursor r = {};
    r.barriers = shared_address(&shared);
    r.memory = (shared_address(memory) + wgmma_align - 1) & ~(uint32_t)(wgmma_align - 1);
    r.bytes = (uint32_t)hopper_stage_bytes(columns, row);
    r.stages = p.sizes.depth;
    // Keeps both in registers: the compiler would compute them again at each use.
    asm volatile("" : "+r"(r.barriers), "+r"(r.memory));
    return r;
}

SPIRA_DEVICE uint32_t hopper_header(const ring_cursor &r) {
    return r.barriers + (uint32_t)offsetof(hopper_shared, header) + (uint32_t)r.at * 4;
}

// ---- ping-pong ----------------------------------------------------------------------------------

// Lets the other set go on from here in the ring.
SPIRA_DEVICE void hopper_pingpong_signal(int set, int group, const ring_cursor &ring) {
    const uint32_t own = (uint32_t)((1 - set) * hopper_row_groups + group);
    if (threadIdx.x % hopper_warpgroup == 0) {
        shared_store(ring.barriers + (uint32_t)offsetof(hopper_shared, pingpong_at) + own * 4,
                     (uint32_t)ring.at << 1 | ring.phase);
    }
    mbarrier_arrive_warp(ring.barriers + (uint32_t)offsetof(hopper_shared, pingpong) + own * 8);
}

// Waits for the other set, and goes on from where it has stopped.
SPIRA_DEVICE void hopper_pingpong_wait(int set, int group, uint32_t phase, ring_cursor &ring) {
    const uint32_t own = (uint32_t)(set * hopper_row_groups + group);
    mbarrier_wait(ring.barriers + (uint32_t)offsetof(hopper_shared, pingpong) + own * 8, phase);
    const uint32_t at = shared_load_elected(
        ring.barriers + (uint32_t)offsetof(hopper_shared, pingpong_at) + own * 4);
    ring.at = (int)(at >> 1);
    ring.phase = at & 1;
}

} // namespace spira

#endif
