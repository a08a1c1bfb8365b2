// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/conv/hopper/cluster.cuh: two thread blocks of a cluster share the offsets of a tile.
//
// Each has accumulated half of the offsets for all columns of the slice. Each sends the other its
// accumulators of half of the columns, adds those that it receives to its own half, and finishes
// that half.
#ifndef SPIRA_CONV_HOPPER_CLUSTER_CUH
#define SPIRA_CONV_HOPPER_CLUSTER_CUH

#include "epilogue.cuh"
#include "ring.cuh"
#include "traits.cuh"

namespace spira {

// Sends the other half of the columns and adds up the own half, which is the one of its rank. In
// rounds, since the memory that receives is small. tile: the tiles that the thread block has
// finished.
template <int columns>
SPIRA_DEVICE void hopper_exchange(const ring_cursor &ring, const hopper_shared &shared, int tile,
                                  int group, const float (&sum)[columns / 2],
                                  float (&half)[columns / 4]) {
    enum { floats = columns / 4, most = hopper_exchange_floats(columns) };
    enum { rounds = (floats + most - 1) / most };
    const int rank = hopper_cluster_rank();
    const uint32_t other = (uint32_t)rank ^ 1, received = shared_address(&shared.received[group]);
    const uint32_t consumed = shared_address(&shared.consumed[group]);
    const uint32_t own =
        ring.memory + (uint32_t)ring.stages * ring.bytes +
        (uint32_t)(hopper_zero_bytes(columns, 2) + group * hopper_exchange_bytes(columns)) +
        threadIdx.x % hopper_warpgroup * 16;
    const uint32_t to = cluster_address(own, other), there = cluster_address(received, other);
    const bool first = threadIdx.x % hopper_warpgroup == 0;
#pragma unroll
    for (int round = 0; round < rounds; ++round) {
        const int begin = round * most, each = round + 1 < rounds ? most : floats - begin;
        const uint32_t phase = (uint32_t)(tile * rounds + round) & 1;
        if (first) {
            mbarrier_arrive_expect_tx(received,
                                      (uint32_t)(hopper_warpgroup * each * (int)sizeof(float)));
        }
        cluster_wait(consumed, phase ^ 1);
#pragma unroll
        for (int i = 0; i < each; i += 4) {
            const float *low = sum + begin + i, *high = low + floats;
            float4 v = rank ? make_float4(low[0], low[1], low[2], low[3])
                            : make_float4(high[0], high[1], high[2], high[3]);
            cluster_store_4(to + (uint32_t)(i * hopper_warpgroup * 4), v, there);
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                half[begin + i + e] = rank ? high[e] : low[e];
            }
        }
        cluster_wait(received, phase);
#pragma unroll
        for (int i = 0; i < each; i += 4) {
            const uint4 v = shared_load_4(own + (uint32_t)(i * hopper_warpgroup * 4));
            half[begin + i] += __uint_as_float(v.x);
            half[begin + i + 1] += __uint_as_float(v.y);
            half[begin + i + 2] += __uint_as_float(v.z);
            half[begin + i + 3] += __uint_as_float(v.w);
        }
        named_barrier_sync(1 + group, hopper_warpgroup); // all threads have read
        if (first) {
            cluster_arrive(cluster_address(consumed, other));
        }
    }
}

} // namespace spira

#endif
