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

// Four sums, as they are sent.
template <typename S>
struct hopper_sums {
    S at[4];
};

// Sends the other half of the columns and adds up the own half, which is the one of its rank. In
// rounds, since the memory that receives is small. tile: the tiles that the thread block has
// finished.
template <int columns, typename S>
SPIRA_DEVICE void hopper_exchange(const ring_cursor &ring, const hopper_shared &shared, int tile,
                                  int group, const S (&sum)[columns / 2], S (&half)[columns / 4]) {
    enum { all = columns / 4, most = hopper_exchange_sums(columns) };
    enum { rounds = (all + most - 1) / most };
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
        const int begin = round * most, each = round + 1 < rounds ? most : all - begin;
        const uint32_t phase = (uint32_t)(tile * rounds + round) & 1;
        if (first) {
            mbarrier_arrive_expect_tx(received,
                                      (uint32_t)(hopper_warpgroup * each * (int)sizeof(S)));
        }
        cluster_wait(consumed, phase ^ 1);
#pragma unroll
        for (int i = 0; i < each; i += 4) {
            const S *low = sum + begin + i, *high = low + all;
            hopper_sums<S> sent;
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                sent.at[e] = rank ? low[e] : high[e];
                half[begin + i + e] = rank ? high[e] : low[e];
            }
            cluster_store_4(to + (uint32_t)(i * hopper_warpgroup * 4), bytes_as<float4>(sent),
                            there);
        }
        cluster_wait(received, phase);
#pragma unroll
        for (int i = 0; i < each; i += 4) {
            const auto v =
                bytes_as<hopper_sums<S>>(shared_load_4(own + (uint32_t)(i * hopper_warpgroup * 4)));
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                half[begin + i + e] += v.at[e];
            }
        }
        named_barrier_sync(1 + group, hopper_warpgroup); // all threads have read
        if (first) {
            cluster_arrive(cluster_address(consumed, other));
        }
    }
}

} // namespace spira

#endif
