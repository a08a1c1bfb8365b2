// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/base/ring.cuh: the ring of stages between producers and consumers of a thread block.
//
// Producers fill stages in order, consumers read them in order. Each stage has two mbarriers: a
// producer waits for `empty`, fills the stage and arrives at `full`; a consumer waits for `full`,
// reads and arrives at `empty`. Both count the ring's rounds by the phase's parity.
#ifndef SPIRA_BASE_RING_CUH
#define SPIRA_BASE_RING_CUH

#include "async.cuh"

namespace spira {

// The mbarriers of a stage, in shared memory.
struct ring_barriers {
    uint64_t full, empty;
};

// Where a warp is in the ring. Addresses are of shared memory.
struct ring_cursor {
    uint32_t barriers; // ring_barriers [stages]
    uint32_t memory;   // the first stage
    uint32_t bytes;    // of a stage
    int stages, at;
    uint32_t phase; // parity of the round
};

// Advances by `stages`, at most all of them.
SPIRA_DEVICE void ring_next(ring_cursor &r, int stages = 1) {
    const bool around = r.at + stages >= r.stages;
    r.at += stages - (around ? r.stages : 0);
    r.phase ^= around;
}

SPIRA_DEVICE uint32_t ring_stage(const ring_cursor &r) {
    return r.memory + (uint32_t)r.at * r.bytes;
}

SPIRA_DEVICE uint32_t ring_full(const ring_cursor &r) {
    return r.barriers + (uint32_t)r.at * (uint32_t)sizeof(ring_barriers);
}

SPIRA_DEVICE uint32_t ring_empty(const ring_cursor &r, int at) {
    return r.barriers + (uint32_t)at * (uint32_t)sizeof(ring_barriers) + 8;
}

// Releases a stage to the producers. A whole consumer warp calls this. For sm_90 and later.
SPIRA_DEVICE void ring_release(const ring_cursor &r, int at) {
    __syncwarp();
    if (warp_elect()) { // cheaper than a test of the lane's number, which would hold a register
        mbarrier_arrive(ring_empty(r, at));
    }
}

// full, empty: arrivals of a phase. All threads of the thread block call this, and the next one.
SPIRA_DEVICE void ring_init(ring_barriers *barriers, int stages, int full, int empty) {
    if ((int)threadIdx.x < stages) {
        mbarrier_init(&barriers[threadIdx.x].empty, empty);
        mbarrier_init(&barriers[threadIdx.x].full, full);
    }
}

SPIRA_DEVICE void ring_inval(ring_barriers *barriers, int stages) {
    if ((int)threadIdx.x < stages) {
        mbarrier_inval(&barriers[threadIdx.x].empty);
        mbarrier_inval(&barriers[threadIdx.x].full);
    }
}

} // namespace spira

#endif
