// spira/conv/hopper/ring.cuh: the ring of stages between producers and consumers.
//
// Producers fill stages in order, consumers read them in order. Each stage has two mbarriers: a
// producer waits for `empty`, fills the stage and arrives at `full`; a consumer waits for `full`,
// multiplies and arrives at `empty`. Both count the ring's rounds by the phase's parity.
#ifndef SPIRA_CONV_HOPPER_RING_CUH
#define SPIRA_CONV_HOPPER_RING_CUH

#include "traits.cuh"

namespace spira {

// Where a warp is in the ring. Addresses are of shared memory.
struct hopper_ring {
    uint32_t shared; // hopper_shared
    uint32_t memory; // the first stage
    uint32_t bytes;  // of a stage
    int stages, at;
    uint32_t phase; // parity of the round
};

SPIRA_DEVICE hopper_ring hopper_ring_of(const conv_params &p, int columns, int row,
                                        const hopper_shared &shared, const char *memory) {
    hopper_ring r;
    r.shared = shared_address(&shared);
    r.memory = (shared_address(memory) + wgmma_align - 1) & ~(uint32_t)(wgmma_align - 1);
    r.bytes = (uint32_t)hopper_stage_bytes(columns, row);
    r.stages = p.sizes.depth;
    r.at = 0;
    r.phase = 0;
    // Keeps both in registers: the compiler would compute them again at each use.
    asm volatile("" : "+r"(r.shared), "+r"(r.memory));
    return r;
}

// Advances by `stages`, at most all of them.
SPIRA_DEVICE void hopper_ring_next(hopper_ring &r, int stages = 1) {
    bool around = r.at + stages >= r.stages;
    r.at += stages - (around ? r.stages : 0);
    r.phase ^= around;
}

SPIRA_DEVICE uint32_t hopper_full(const hopper_ring &r) {
    return r.shared + (uint32_t)offsetof(hopper_shared, full) + (uint32_t)r.at * 8;
}

SPIRA_DEVICE uint32_t hopper_empty(const hopper_ring &r, int at) {
    return r.shared + (uint32_t)offsetof(hopper_shared, empty) + (uint32_t)at * 8;
}

SPIRA_DEVICE uint32_t hopper_header(const hopper_ring &r) {
    return r.shared + (uint32_t)offsetof(hopper_shared, header) + (uint32_t)r.at * 4;
}

SPIRA_DEVICE uint32_t hopper_stage(const hopper_ring &r) {
    return r.memory + (uint32_t)r.at * r.bytes;
}

// Releases a stage to the producers. A whole consumer warp calls this.
SPIRA_DEVICE void hopper_release(const hopper_ring &ring, int at) {
    __syncwarp();
    if (warp_elect()) { // cheaper than a test of the lane's number, which would hold a register
        mbarrier_arrive(hopper_empty(ring, at));
    }
}

// ---- ping-pong ----------------------------------------------------------------------------------

// Lets the other set go on from here in the ring.
SPIRA_DEVICE void hopper_pingpong_signal(int set, int group, const hopper_ring &ring) {
    const uint32_t own = (uint32_t)((1 - set) * hopper_row_groups + group);
    if (threadIdx.x % hopper_warpgroup == 0) {
        shared_store(ring.shared + (uint32_t)offsetof(hopper_shared, pingpong_at) + own * 4,
                     (uint32_t)ring.at << 1 | ring.phase);
    }
    mbarrier_arrive_warp(ring.shared + (uint32_t)offsetof(hopper_shared, pingpong) + own * 8);
}

// Waits for the other set, and goes on from where it has stopped.
SPIRA_DEVICE void hopper_pingpong_wait(int set, int group, uint32_t phase, hopper_ring &ring) {
    const uint32_t own = (uint32_t)(set * hopper_row_groups + group);
    mbarrier_wait(ring.shared + (uint32_t)offsetof(hopper_shared, pingpong) + own * 8, phase);
    const uint32_t at =
        shared_load_elected(ring.shared + (uint32_t)offsetof(hopper_shared, pingpong_at) + own * 4);
    ring.at = (int)(at >> 1);
    ring.phase = at & 1;
}

} // namespace spira

#endif
