// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/conv/hopper/cluster.cuh: the thread blocks of a cluster share the offsets of a tile.
//
// Each has accumulated a part of the offsets for all columns of the slice. Each finishes a part of
// the columns: the others send it their accumulators of these.
//
// Two that share many tiles send in rounds, to memory of their own, while the rings go on. Where
// each tile has a cluster of its own, up to eight share it. Then the rings are free at its end, and
// sums meet there.
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

// ---- several
// -------------------------------------------------------------------------------------- The
// columns are dealt in pieces (T::piece) to the ranks in turn. A piece's sums lie in the ring of
// the thread block that finishes it: those of each rank, of each warp.

// Where a lane's first four sums are, of the rank's `number`-th piece.
template <typename T>
SPIRA_DEVICE uint32_t hopper_piece_slot(const conv_params &p, const ring_cursor &ring, int number,
                                        int rank) {
    constexpr int bytes = T::piece * 16 * (int)sizeof(float); // of a warp
    const int warp = (int)threadIdx.x / 32;
    const int slot = ((number << p.split_log) + rank) * hopper_tile_warps + warp;
    return ring.memory + (uint32_t)(slot * bytes + warp_lane() * 16);
}

// Sends the warp's sums, the own ones too. All threads of the cluster have met since their last
// access to a ring.
template <typename T>
SPIRA_DEVICE void hopper_pieces_send(const conv_params &p, const ring_cursor &ring,
                                     const hopper_shared &shared,
                                     const typename T::sum (&sum)[T::columns / 2]) {
    constexpr int each = T::piece / 2;
    const uint32_t received = shared_address(&shared.received[threadIdx.x / 32]);
#pragma unroll
    for (int piece = 0; piece < T::columns / T::piece; ++piece) {
        const uint32_t own =
            hopper_piece_slot<T>(p, ring, piece >> p.split_log, hopper_cluster_rank());
        const auto rank = (uint32_t)(piece & (p.sizes.split - 1));
        const uint32_t to = cluster_address(own, rank), there = cluster_address(received, rank);
#pragma unroll
        for (int i = 0; i < each; i += 4) {
            hopper_sums<typename T::sum> sent;
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                sent.at[e] = sum[piece * each + i + e];
            }
            cluster_store_4(to + (uint32_t)(i * 128), bytes_as<float4>(sent), there);
        }
    }
}

// Adds up the sums of a piece, in the order of the ranks.
template <typename T>
SPIRA_DEVICE void hopper_piece_add(const conv_params &p, const ring_cursor &ring, int number,
                                   typename T::sum (&sum)[T::piece / 2]) {
#pragma unroll
    for (typename T::sum &s : sum) {
        s = 0;
    }
    for (int rank = 0; rank < p.sizes.split; ++rank) {
        const uint32_t from = hopper_piece_slot<T>(p, ring, number, rank);
#pragma unroll
        for (int i = 0; i < T::piece / 2; i += 4) {
            const auto v =
                bytes_as<hopper_sums<typename T::sum>>(shared_load_4(from + (uint32_t)(i * 128)));
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                sum[i + e] += v.at[e];
            }
        }
    }
}

// Finishes the pieces of this rank, if it has any, for the rows of the warp.
template <typename T>
SPIRA_DEVICE void hopper_pieces_finish(const conv_params &p, const ring_cursor &ring,
                                       const hopper_shared &shared, int channel,
                                       const int (&row)[2]) {
    constexpr int pieces = T::columns / T::piece, bytes = T::piece * 16 * (int)sizeof(float);
    const int rank = hopper_cluster_rank();
    const int own = (pieces - rank + p.sizes.split - 1) >> p.split_log;
    const uint32_t received = shared_address(&shared.received[threadIdx.x / 32]);
    if (own > 0 && warp_lane() == 0) {
        mbarrier_arrive_expect_tx(received, (uint32_t)(own * p.sizes.split * bytes));
    }
    for (int number = 0; number < own; ++number) {
        const int first = ((number << p.split_log) + rank) * T::piece;
        uint2 residual[T::batch][2];
        if (T::prefetch > 0 && p.residual) {
            hopper_residual_load<T, true>(
                p, channel + first + (T::integer ? hopper_lane_channel() : hopper_joined_channel()),
                row, 0, residual);
        }
        typename T::sum sum[T::piece / 2];
        cluster_wait(received, 0);
        hopper_piece_add<T>(p, ring, number, sum);
        if constexpr (!T::integer && !T::shortcut) {
            hopper_add_sums<T::piece>(p, channel + first, row, sum);
        }
        hopper_finish_plain<T>(p, shared.scale + first, channel + first, row, residual, sum);
    }
}

} // namespace spira

#endif
