// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/conv/hopper/kernel.cuh: the kernel: prepares shared memory, then splits into producer warps
// and consumer warpgroups.
#ifndef SPIRA_CONV_HOPPER_KERNEL_CUH
#define SPIRA_CONV_HOPPER_KERNEL_CUH

#include "cluster.cuh"
#include "consumer.cuh"
#include "producer.cuh"

namespace spira {

// ---- preparation --------------------------------------------------------------------------------

// Writes what the epilogue needs, and the zeros. All threads call this, or the consumers alone
// where producers start early.
template <typename T>
SPIRA_DEVICE void hopper_prepare(const conv_params &p, const ring_cursor &ring,
                                 hopper_shared &shared) {
    const int channel = (int)blockIdx.y * T::columns;
    const int threads = T::early ? T::consumers : T::threads;
    const int i = (int)threadIdx.x; // there is a thread for each channel
    conv_scale_load<hopper_columns_most>(p, channel, T::columns, i, shared);
    if constexpr (T::integer) {
        conv_step_load<hopper_columns_most>(p, channel, T::columns, i, shared);
    } else if (T::shortcut) {
        conv_shortcut_load<hopper_columns_most>(p, channel, T::columns, i, shared);
    }
    for (int at = threadIdx.x * 16; at < hopper_zero_bytes(T::columns, T::split);
         at += threads * 16) {
        shared_store_4(ring.memory + ring.stages * ring.bytes + at, make_uint4(0, 0, 0, 0));
    }
}

// ---- consumers ----------------------------------------------------------------------------------

// The loop of a consumer warpgroup over its tiles.
template <typename T>
SPIRA_DEVICE void hopper_consume(const conv_params &p, const hopper_shared &shared,
                                 ring_cursor ring) {
    const conv_work work = hopper_work_of<T::columns>(p);
    const int warpgroup = __shfl_sync(~0u, threadIdx.x / hopper_warpgroup, 0);
    const hopper_place own = {warpgroup / T::set_warpgroups, warpgroup % T::set_warpgroups,
                              ring.memory + (uint32_t)ring.stages * ring.bytes};
    const bool pingpong = T::sets > 1;
    typename T::sum sum[T::row_groups][T::columns / 2];
    uint32_t phase = 0; // of the ping-pong
    if (p.programmatic) {
        pdl_wait(); // before the first output
    }
    int next = hopper_tile(p, work, own.set);
    for (int tile = own.set; tile < work.tiles; tile += T::sets) {
        // Sets read the number late: the other set multiplies meanwhile, and registers are scarce.
        int number = pingpong ? hopper_tile(p, work, tile) : next;
        int output[T::row_groups][2];
        next = pingpong ? 0 : hopper_tile(p, work, tile + 1);
        hopper_outputs_load<T::row_groups>(p, work.outputs, number * hopper_row_groups + own.group,
                                           output);
        uint2 residual[T::row_groups][T::batch][2];
        if (T::split <= 2 && T::prefetch > 0 && p.residual && hopper_is_early<T>(p)) {
            const int half = T::split > 1 ? hopper_cluster_rank() * T::finished : 0;
            const int channel = work.channel + half +
                                (T::integer ? hopper_lane_channel() : hopper_joined_channel());
#pragma unroll
            for (int i = 0; i < T::row_groups; ++i) {
                hopper_residual_load<T, true>(p, channel, output[i], 0, residual[i]);
            }
        }
        if (pingpong && tile > 0) {
            hopper_pingpong_wait(own.set, own.group, phase, ring);
            phase ^= 1;
        }
        if (T::quarters && p.chunk_bytes == hopper_chunk_quarter) {
            hopper_accumulate<T, T::quarter>(shared, own, ring, sum);
        } else if (T::halves && p.chunk_bytes == hopper_chunk_half) {
            hopper_accumulate<T, T::half>(shared, own, ring, sum);
        } else {
            hopper_accumulate<T, T::row>(shared, own, ring, sum);
        }
        if constexpr (T::split == 1) {
            hopper_finish<T>(p, shared, work.channel, output, residual, sum);
        } else if constexpr (T::split > 2) {
            cluster_sync(); // the rings are free
            hopper_pieces_send<T>(p, ring, shared, sum[0]);
            hopper_pieces_finish<T>(p, ring, shared, work.channel, output[0]);
            break; // there is one tile; without this the matrix steps would be serialised
        } else {
            // Such a layer takes the plain path (hopper_launcher_of). The own half of the columns:
            const int first = hopper_cluster_rank() * T::finished;
            typename T::sum half[T::finished / 2];
            hopper_exchange<T::columns>(ring, shared, tile, own.group, sum[0], half);
            if constexpr (!T::integer) {
                hopper_add_sums<T::finished>(p, work.channel + first, output[0], half);
            }
            hopper_finish_plain<T>(p, shared.scale + first, work.channel + first, output[0],
                                   residual[0], half);
        }
    }
}

// ---- kernel -------------------------------------------------------------------------------------

template <typename T>
SPIRA_DEVICE void hopper_barriers_init(const conv_params &p, hopper_shared &shared) {
    // Producer lanes of a team, and the header; consumer warps of a tile.
    ring_init(shared.ring, p.sizes.depth, T::team_warps * 32 + 1, T::set_warpgroups * 4);
    if (threadIdx.x < 2 * hopper_row_groups) {
        mbarrier_init(&shared.pingpong[0][0] + threadIdx.x, 4 * mbarrier_warp);
    }
    if (threadIdx.x < hopper_tile_warps) {
        mbarrier_init(&shared.received[threadIdx.x], 1); // and the accumulators' bytes
    }
    if (threadIdx.x < hopper_row_groups) {
        mbarrier_init(&shared.consumed[threadIdx.x], 1);
    }
    mbarrier_init_fence();
}

SPIRA_DEVICE void hopper_barriers_inval(const conv_params &p, hopper_shared &shared) {
    ring_inval(shared.ring, p.sizes.depth);
    if (threadIdx.x < 2 * hopper_row_groups) {
        mbarrier_inval(&shared.pingpong[0][0] + threadIdx.x);
    }
    if (threadIdx.x < hopper_tile_warps) {
        mbarrier_inval(&shared.received[threadIdx.x]);
    }
    if (threadIdx.x < hopper_row_groups) {
        mbarrier_inval(&shared.consumed[threadIdx.x]);
    }
}

template <typename T>
SPIRA_KERNEL void __launch_bounds__(T::threads, T::resident)
    hopper_kernel(const __grid_constant__ conv_params p) {
#if SPIRA_WGMMA
    // ---- prepare
    if (!p.programmatic) {
        pdl_wait();
    }
    extern __shared__ __align__(128) char hopper_dynamic[];
    __shared__ __align__(16) hopper_shared shared;
    hopper_barriers_init<T>(p, shared);
    const ring_cursor ring = hopper_ring_of(p, T::columns, T::row, shared, hopper_dynamic);
    if constexpr (!T::early) {
        hopper_prepare<T>(p, ring, shared);
    }
    __syncthreads();
    if (T::split == 2) {
        cluster_sync_begin(); // the mbarriers are ready
    }
    if (__shfl_sync(~0u, threadIdx.x / hopper_warpgroup, 0) >= T::consumers / hopper_warpgroup) {
        // ---- produce
        if constexpr (T::registers_move) {
            setmaxnreg_dec<hopper_registers_producer(T::columns, T::quarters)>();
        }
        if (T::quarters && p.chunk_bytes == hopper_chunk_quarter) {
            hopper_produce<T, T::quarter>(p, ring);
        } else if (T::halves && p.chunk_bytes == hopper_chunk_half) {
            hopper_produce<T, T::half>(p, ring);
        } else {
            hopper_produce<T, T::row>(p, ring);
        }
        if (T::split == 2) {
            cluster_sync_end();
        } else if (T::split > 2 && hopper_work_of<T::columns>(p).tiles > 0) {
            cluster_sync(); // with the consumers: hopper_consume
        }
    } else {
        // ---- consume
        if constexpr (T::registers_move) {
            setmaxnreg_inc<hopper_registers_consumer(T::columns, T::quarters)>();
        }
        if constexpr (T::early) {
            hopper_prepare<T>(p, ring, shared);
            named_barrier_sync(1, T::consumers);
        }
        if (T::split == 2) {
            cluster_sync_end(); // the other thread block's mbarriers are ready, too
        }
        hopper_consume<T>(p, shared, ring);
    }
    // ---- end
    __syncthreads();
    if (T::split == 2) {
        cluster_sync(); // the other thread block may still write to this one's shared memory
    }
    hopper_barriers_inval(p, shared);
#endif
}

} // namespace spira

#endif
