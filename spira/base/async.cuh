// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/base/async.cuh: shared memory by address, warp operations, asynchronous copies, mbarriers
// and clusters; each PTX form wrapped once.
//
// Shared memory is given by the 32-bit address that the instructions take (shared_address). Copies
// and mbarriers are for sm_80 and later; bulk copies and clusters for sm_90 and later.
#ifndef SPIRA_BASE_ASYNC_CUH
#define SPIRA_BASE_ASYNC_CUH

#include "../config.h"

#include <cuda_runtime.h>

namespace spira {

SPIRA_DEVICE uint32_t shared_address(const void *shared) {
    return (uint32_t)__cvta_generic_to_shared(shared);
}

// ---- shared memory ------------------------------------------------------------------------------

SPIRA_DEVICE uint32_t shared_load(uint32_t from) {
    uint32_t v;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(from) : "memory");
    return v;
}

// The lane that warp_elect chooses loads for the whole warp. For sm_90 and later.
SPIRA_DEVICE uint32_t shared_load_elected(uint32_t from) {
    uint32_t v = 0;
    SPIRA_ASM_90("{ .reg .pred chosen; .reg .b32 lane;\n"
                 "elect.sync lane|chosen, 0xffffffff;\n"
                 "@chosen ld.shared.u32 %0, [%1];\n"
                 "shfl.sync.idx.b32 %0, %0, lane, 31, 0xffffffff; }"
                 : "+r"(v)
                 : "r"(from)
                 : "memory");
    return v;
}

SPIRA_DEVICE uint2 shared_load_2(uint32_t from) {
    uint2 v;
    asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "r"(from) : "memory");
    return v;
}

SPIRA_DEVICE uint4 shared_load_4(uint32_t from) {
    uint4 v;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "r"(from)
                 : "memory");
    return v;
}

SPIRA_DEVICE void shared_store(uint32_t to, uint32_t v) {
    asm volatile("st.shared.u32 [%0], %1;" ::"r"(to), "r"(v) : "memory");
}

SPIRA_DEVICE void shared_store_4(uint32_t to, uint4 v) {
    asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(v.x), "r"(v.y), "r"(v.z),
                 "r"(v.w)
                 : "memory");
}

// ---- warps --------------------------------------------------------------------------------------
// A whole warp calls these, but any thread may call bytes_add and poll_nonzero.

// Whether the lane is the one that the hardware elects. For sm_90 and later.
SPIRA_DEVICE bool warp_elect() {
    uint32_t chosen = 0;
    SPIRA_ASM_90("{ .reg .pred chosen;\n"
                 "elect.sync _|chosen, 0xffffffff;\n"
                 "selp.u32 %0, 1, 0, chosen; }"
                 : "=r"(chosen));
    return chosen != 0;
}

// The lane's number, read anew at each call: where registers are scarce.
SPIRA_DEVICE int warp_lane() {
    int lane;
    asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
    return lane;
}

// The sum over all lanes, in each lane. PTX here and in warp_unite, since clang's __reduce_add_sync
// and __reduce_or_sync take the value for the mask.
SPIRA_DEVICE int warp_sum(int value) {
#if __CUDA_ARCH__ >= 800
    int sum;
    asm volatile("redux.sync.add.s32 %0, %1, 0xffffffff;" : "=r"(sum) : "r"(value));
    return sum;
#else
    for (int step = 16; step; step /= 2) {
        value += __shfl_xor_sync(~0u, value, step);
    }
    return value;
#endif
}

// Adds the four bytes of a word to a sum.
SPIRA_DEVICE uint32_t bytes_add(uint32_t word, uint32_t sum) {
    return __dp4a(word, 0x01010101u, sum);
}

// Inclusive prefix sum: the sum over the lanes up to the own one.
SPIRA_DEVICE int warp_sum_up_to(int value) {
#pragma unroll
    for (int step = 1; step < 32; step *= 2) { // the shuffle says whether there is such a lane
        asm volatile("{ .reg .pred there; .reg .b32 below;\n"
                     "shfl.sync.up.b32 below|there, %0, %1, 0, -1;\n"
                     "@there add.s32 %0, %0, below; }"
                     : "+r"(value)
                     : "r"(step));
    }
    return value;
}

// Bitwise or over all lanes, in each lane.
SPIRA_DEVICE uint32_t warp_unite(uint32_t bits) {
#if __CUDA_ARCH__ >= 800
    uint32_t all;
    asm volatile("redux.sync.or.b32 %0, %1, 0xffffffff;" : "=r"(all) : "r"(bits));
    return all;
#else
    for (int step = 16; step; step /= 2) {
        bits |= __shfl_xor_sync(~0u, bits, step);
    }
    return bits;
#endif
}

// A mask of the lanes that have the same number, of `bits` bits. PTX, since the compiler then makes
// predicates of seven bits by one instruction.
template <int bits>
SPIRA_DEVICE uint32_t warp_peers(uint32_t number) {
    uint32_t peers = ~0u;
#pragma unroll
    for (int b = 0; b < bits; ++b) {
        asm volatile("{ .reg .pred has; .reg .b32 bit, all;\n"
                     "and.b32 bit, %1, %2;\n"
                     "setp.ne.u32 has, bit, 0;\n"
                     "vote.sync.ballot.b32 all, has, 0xffffffff;\n"
                     "@!has not.b32 all, all;\n"
                     "and.b32 %0, %0, all; }"
                     : "+r"(peers)
                     : "r"(number), "r"(1u << b));
    }
    return peers;
}

// Reads a word in global memory until it is not zero, and returns it: another thread block writes
// it.
SPIRA_DEVICE uint32_t poll_nonzero(const uint32_t *from) {
    uint32_t word;
    do {
        word = *(const volatile uint32_t *)from;
    } while (word == 0);
    return word;
}

// ---- asynchronous copies ------------------------------------------------------------------------

// Copies 16 bytes, both sides aligned to 16. If `there` is false, writes zeros and does not read.
SPIRA_DEVICE void async_copy_16(uint32_t to, const void *from, bool there) {
    SPIRA_ASM_80("{ .reg .pred missing;\n"
                 "setp.eq.u32 missing, %2, 0;\n"
                 "cp.async.cg.shared.global [%0], [%1], 16, missing; }" ::"r"(to),
                 "l"(from), "r"((uint32_t)there)
                 : "memory");
}

// The same: `there` is negative where nothing is there.
SPIRA_DEVICE void async_copy_16_signed(uint32_t to, const void *from, int there) {
    SPIRA_ASM_80("{ .reg .pred missing;\n"
                 "setp.lt.s32 missing, %2, 0;\n"
                 "cp.async.cg.shared.global [%0], [%1], 16, missing; }" ::"r"(to),
                 "l"(from), "r"(there)
                 : "memory");
}

// Copies 8 or 4 bytes, to which both sides are aligned, through the multiprocessor's cache (L1). If
// `there` is false, writes zeros and does not read.
template <int bytes>
SPIRA_DEVICE void async_copy_cached(uint32_t to, const void *from, bool there) {
    SPIRA_ASM_80("{ .reg .pred missing;\n"
                 "setp.eq.u32 missing, %2, 0;\n"
                 "cp.async.ca.shared.global [%0], [%1], %3, missing; }" ::"r"(to),
                 "l"(from), "r"((uint32_t)there), "n"(bytes)
                 : "memory");
}

// Waits for all copies of the calling thread.
SPIRA_DEVICE void async_copy_wait() {
    SPIRA_ASM_80("cp.async.wait_all;" ::: "memory");
}

// Ends a group of copies of the calling thread.
SPIRA_DEVICE void async_copy_commit() {
    SPIRA_ASM_80("cp.async.commit_group;" ::: "memory");
}

// Waits for all groups of the calling thread but the last few.
template <int groups>
SPIRA_DEVICE void async_copy_wait_but() {
    SPIRA_ASM_80("cp.async.wait_group %0;" ::"n"(groups) : "memory");
}

// ---- mbarriers ----------------------------------------------------------------------------------

// Initialises an mbarrier in shared memory that expects `arrivals` in each phase. Waits take the
// parity of a phase: 0, 1, 0, ..
//
// racecheck would take an inlined one for an access of all threads, those that leave it out too, at
// whatever address their registers hold. With SPIRA_RACECHECK it is called.
#ifdef SPIRA_RACECHECK
[[maybe_unused]] static __device__ __noinline__
#else
SPIRA_DEVICE
#endif
    void
    mbarrier_init(uint64_t *barrier, int arrivals) {
    SPIRA_ASM_80("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals)
                 : "memory");
}

// After mbarrier_init: makes it visible to the cluster and to the copy engine.
SPIRA_DEVICE void mbarrier_init_fence() {
    SPIRA_ASM_90("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// Frees the mbarrier's memory for other use. No thread may use it afterwards.
SPIRA_DEVICE void mbarrier_inval(uint64_t *barrier) {
    SPIRA_ASM_80("mbarrier.inval.shared.b64 [%0];" ::"r"(shared_address(barrier)) : "memory");
}

SPIRA_DEVICE void mbarrier_arrive(uint32_t barrier) {
    SPIRA_ASM_80("{ .reg .b64 state;\n"
                 "mbarrier.arrive.shared.b64 state, [%0]; }" ::"r"(barrier)
                 : "memory");
}

// Arrivals of a warp's lanes that count: the first lane arrives for all of them. racecheck does not
// follow __syncwarp to that arrival, so with SPIRA_RACECHECK each lane arrives for itself.
#ifdef SPIRA_RACECHECK
enum { mbarrier_warp = 32 };
#else
enum { mbarrier_warp = 1 };
#endif

// Called by a whole warp: its lanes' accesses are before the arrival, which counts mbarrier_warp.
SPIRA_DEVICE void mbarrier_arrive_warp(uint32_t barrier) {
    __syncwarp();
    if (mbarrier_warp > 1 || threadIdx.x % 32 == 0) {
        mbarrier_arrive(barrier);
    }
}

// Arrives when all earlier copies of the calling thread have completed. Does not release its
// stores.
SPIRA_DEVICE void mbarrier_arrive_copies(uint32_t barrier) {
    SPIRA_ASM_80("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(barrier) : "memory");
}

// Arrives, and adds `bytes` of bulk copies that must complete before the phase can end.
SPIRA_DEVICE void mbarrier_arrive_expect_tx(uint32_t barrier, uint32_t bytes) {
    SPIRA_ASM_90("{ .reg .b64 state;\n"
                 "mbarrier.arrive.expect_tx.shared.b64 state, [%0], %1; }" ::"r"(barrier),
                 "r"(bytes)
                 : "memory");
}

// The copy engine copies a multiple of 16 bytes, both sides aligned to 16, and reports the bytes to
// the mbarrier.
SPIRA_DEVICE void mbarrier_bulk_copy(uint32_t to, const void *from, uint32_t bytes,
                                     uint32_t barrier) {
    SPIRA_ASM_90("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
                 " [%0], [%1], %2, [%3];" ::"r"(to),
                 "l"(from), "r"(bytes), "r"(barrier)
                 : "memory");
}

// The same, to the same addresses of all thread blocks of the cluster that `ranks` names, a bit
// each, and to the mbarriers there.
SPIRA_DEVICE void mbarrier_bulk_copy_all(uint32_t to, const void *from, uint32_t bytes,
                                         uint32_t barrier, uint32_t ranks) {
    SPIRA_ASM_90("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
                 ".multicast::cluster [%0], [%1], %2, [%3], %4;" ::"r"(to),
                 "l"(from), "r"(bytes), "r"(barrier), "h"((uint16_t)ranks)
                 : "memory");
}

// The copy engine copies a box of a tensor of two dimensions, as the driver has encoded it, from
// element `x` of row `y` on, and reports the bytes of the whole box: what lies past the tensor's
// ends becomes zero.
SPIRA_DEVICE void mbarrier_tensor_copy(uint32_t to, const void *map, int x, int y,
                                       uint32_t barrier) {
    SPIRA_ASM_90("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%2, %3}], [%4];" ::"r"(to),
                 "l"(map), "r"(x), "r"(y), "r"(barrier)
                 : "memory");
}

// Makes the thread's stores to shared memory visible to the copy engine.
SPIRA_DEVICE void proxy_fence() {
    SPIRA_ASM_90("fence.proxy.async.shared::cta;" ::: "memory");
}

// The copy engine copies a multiple of 16 bytes, both sides aligned to 16, to global memory.
SPIRA_DEVICE void bulk_store(void *to, uint32_t from, uint32_t bytes) {
    SPIRA_ASM_90("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;\n"
                 "cp.async.bulk.commit_group;" ::"l"(to),
                 "r"(from), "r"(bytes)
                 : "memory");
}

// Waits until the copy engine has read the sources of the thread's bulk_store calls. Required
// before they are overwritten and before the thread block ends.
SPIRA_DEVICE void bulk_store_wait() {
    SPIRA_ASM_90("cp.async.bulk.wait_group.read 0;" ::: "memory");
}

// Waits until the phase of this parity has completed.
SPIRA_DEVICE void mbarrier_wait(uint32_t barrier, uint32_t phase) {
#if __CUDA_ARCH__ >= 900
    asm volatile("{ .reg .pred done;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.shared.b64 done, [%0], %1;\n"
                 "@!done bra again; }" ::"r"(barrier),
                 "r"(phase)
                 : "memory");
#elif __CUDA_ARCH__ >= 800
    asm volatile("{ .reg .pred done;\n"
                 "again:\n"
                 "mbarrier.test_wait.parity.shared.b64 done, [%0], %1;\n"
                 "@!done bra again; }" ::"r"(barrier),
                 "r"(phase)
                 : "memory");
#endif
}

// ---- named barriers -----------------------------------------------------------------------------

// A barrier of `threads` threads of the thread block, whole warps. number: 1 .. 15.
SPIRA_DEVICE void named_barrier_sync(int number, int threads) {
    asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(threads) : "memory");
}

// The same. Returns whether `mine` is true in any of the threads.
SPIRA_DEVICE bool named_barrier_any(int number, int threads, bool mine) {
    uint32_t any;
    asm volatile("{ .reg .pred mine, any;\n"
                 "setp.ne.u32 mine, %3, 0;\n"
                 "bar.red.or.pred any, %1, %2, mine;\n"
                 "selp.u32 %0, 1, 0, any; }"
                 : "=r"(any)
                 : "r"(number), "r"(threads), "r"((uint32_t)mine)
                 : "memory");
    return any != 0;
}

// ---- clusters -----------------------------------------------------------------------------------
// The thread blocks of a cluster access each other's shared memory.

// Maps an address of this thread block to the same variable of thread block `rank`.
SPIRA_DEVICE uint32_t cluster_address(uint32_t shared, uint32_t rank) {
    uint32_t there = 0;
    SPIRA_ASM_90("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(shared), "r"(rank));
    return there;
}

// Stores 16 bytes asynchronously and reports them to an mbarrier of the same thread block. Threads
// that wait there with cluster_wait see them.
SPIRA_DEVICE void cluster_store_4(uint32_t to, float4 v, uint32_t barrier) {
    SPIRA_ASM_90("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32"
                 " [%0], {%1, %2, %3, %4}, [%5];" ::"r"(to),
                 "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w), "r"(barrier)
                 : "memory");
}

// Arrives at an mbarrier of the cluster. Threads that wait there with cluster_wait see all earlier
// stores of the calling thread.
SPIRA_DEVICE void cluster_arrive(uint32_t barrier) {
    SPIRA_ASM_90("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(barrier)
                 : "memory");
}

// The same for reads that are over, without a fence for stores.
SPIRA_DEVICE void cluster_arrive_read(uint32_t barrier) {
    SPIRA_ASM_90("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// Waits until the phase of this parity has completed, with the cluster's visibility.
SPIRA_DEVICE void cluster_wait(uint32_t barrier, uint32_t phase) {
    SPIRA_ASM_90("{ .reg .pred done;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again; }" ::"r"(barrier),
                 "r"(phase)
                 : "memory");
}

// A barrier of all threads of the cluster that orders their memory accesses.
SPIRA_DEVICE void cluster_sync() {
    SPIRA_ASM_90("barrier.cluster.arrive.release;" ::: "memory");
    SPIRA_ASM_90("barrier.cluster.wait.acquire;" ::: "memory");
}

// A barrier of all threads of the cluster, in two steps: arrive, wait. It orders no memory accesses
// except the initialisation of mbarriers (mbarrier_init_fence). racecheck hangs in kernels whose
// warps wait for each other between the steps, so with SPIRA_RACECHECK the first step is all of it.
SPIRA_DEVICE void cluster_sync_begin() {
#ifdef SPIRA_RACECHECK
    cluster_sync();
#elif __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");
#endif
}

SPIRA_DEVICE void cluster_sync_end() {
#if __CUDA_ARCH__ >= 900 && !defined(SPIRA_RACECHECK)
    asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
#endif
}

} // namespace spira

#endif
