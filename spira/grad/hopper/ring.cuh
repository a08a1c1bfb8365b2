// spira/grad/hopper/ring.cuh: the ring of stages between producer warps and consumer warpgroups.
//
// Producers fill stages in order, consumers read them in order. Each stage has two mbarriers: a
// producer warp waits for `empty`, fills the stage and arrives at `full`; a consumer waits for
// `full`, multiplies and arrives at `empty`. Both count the ring's rounds by the phase's parity.
#ifndef SPIRA_GRAD_HOPPER_RING_CUH
#define SPIRA_GRAD_HOPPER_RING_CUH

#include "traits.cuh"

namespace spira {

// Where a warp is in the ring. Addresses are of shared memory.
struct grad_hopper_ring {
    uint32_t shared; // grad_hopper_shared
    uint32_t memory; // the first stage
    int stages, at;
    uint32_t phase; // parity of the round
};

SPIRA_DEVICE grad_hopper_ring grad_hopper_ring_of(const grad_params &p,
                                                  const grad_hopper_shared &shared,
                                                  const char *memory) {
    const uint32_t behind = shared_address(memory) + (uint32_t)grad_hopper_starts_bytes(p.volume);
    grad_hopper_ring r;
    r.shared = shared_address(&shared);
    r.memory = (behind + wgmma_align - 1) & ~(uint32_t)(wgmma_align - 1);
    r.stages = p.stages;
    r.at = 0;
    r.phase = 0;
    return r;
}

// Advances by `stages`, at most all of them.
SPIRA_DEVICE void grad_hopper_next(grad_hopper_ring &r, int stages = 1) {
    const bool around = r.at + stages >= r.stages;
    r.at += stages - (around ? r.stages : 0);
    r.phase ^= around;
}

SPIRA_DEVICE uint32_t grad_hopper_full(const grad_hopper_ring &r) {
    return r.shared + (uint32_t)offsetof(grad_hopper_shared, full) + (uint32_t)r.at * 8;
}

SPIRA_DEVICE uint32_t grad_hopper_empty(const grad_hopper_ring &r, int at) {
    return r.shared + (uint32_t)offsetof(grad_hopper_shared, empty) + (uint32_t)at * 8;
}

// Releases a stage to the producers. A whole consumer warp calls this.
SPIRA_DEVICE void grad_hopper_release(const grad_hopper_ring &r, int at) {
    __syncwarp();
    if (warp_elect()) {
        mbarrier_arrive(grad_hopper_empty(r, at));
    }
}

SPIRA_DEVICE void grad_hopper_barriers_init(const grad_params &p, int consumers,
                                            grad_hopper_shared &shared) {
    if ((int)threadIdx.x < p.stages) {
        mbarrier_init(&shared.empty[threadIdx.x], consumers / 32); // a lane of each warp
        mbarrier_init(&shared.full[threadIdx.x], 32);              // the lanes of a producer warp
    }
    mbarrier_init_fence();
}

SPIRA_DEVICE void grad_hopper_barriers_inval(const grad_params &p, grad_hopper_shared &shared) {
    if ((int)threadIdx.x < p.stages) {
        mbarrier_inval(&shared.empty[threadIdx.x]);
        mbarrier_inval(&shared.full[threadIdx.x]);
    }
}

} // namespace spira

#endif
