// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/conv/linear/kernel.cuh: linear layers on Hopper: rows are read in order, by the copy
// engine.
//
//     producer, one lane                ring of stages              two consumer warpgroups
//     ------------------                --------------              -----------------------
//     128 rows x 64 channels  tensor   +---------------+  wgmma
//                            --------> | rows          | -------> accumulators in registers
//     weights of the chunk,    bulk    | weights       |                  | end of tile
//     if not resident         copies   +---------------+                  v
//                                                              16 rows x 64 columns of a warp
//                                                              in shared memory -> outputs
//
// The second warpgroup begins some stages behind the first, and stays behind: while one finishes
// its outputs, the other has the tensor cores.
#ifndef SPIRA_CONV_LINEAR_KERNEL_CUH
#define SPIRA_CONV_LINEAR_KERNEL_CUH

#include "traits.cuh"

namespace spira {

// The tiles of a worker: a thread block, or two of a cluster, whose tiles are neighbours.
struct linear_work {
    int outputs, tiles, channel;
};

SPIRA_DEVICE linear_work linear_work_of(const conv_params &p, int columns) {
    const int outputs = count_clamp(*p.count, p.capacity), rows = (int)gridDim.x * linear_rows;
    const int all = (int)(((int64_t)outputs + rows - 1) / rows), workers = (int)gridDim.z;
    return {outputs, (all - (int)blockIdx.z + workers - 1) / workers, (int)blockIdx.y * columns};
}

// The first row that the thread block finishes of its tile.
SPIRA_DEVICE int linear_row(int tile) {
    const int worker = tile * (int)gridDim.z + (int)blockIdx.z;
    return (worker * (int)gridDim.x + (int)blockIdx.x) * linear_rows;
}

// The first row that it reads and multiplies. The last tile begins earlier, even before row 0, so
// that no row from the number of outputs on is read.
SPIRA_DEVICE int linear_row_read(const linear_work &work, int row) {
    return row < work.outputs - linear_rows ? row : work.outputs - linear_rows;
}

// The packed weights of a chunk, from the slice's first channel on.
SPIRA_DEVICE const char *linear_weights(const conv_params &p, int couts, int chunk, int channel) {
    return (const char *)p.weights + ((int64_t)chunk * couts + channel) * wgmma_row_most;
}

// ---- producer -----------------------------------------------------------------------------------

// One lane calls this.
template <typename E, int columns>
SPIRA_DEVICE void linear_produce(const linear_params &p, linear_shared &shared, ring_cursor ring,
                                 uint32_t resident) {
    const conv_params &c = p.conv;
    const linear_work work = linear_work_of(c, columns);
    const int couts = hopper_couts(c.cout, sizeof(E));
    const int most = couts - work.channel < columns ? couts - work.channel : columns;
    if (p.resident && work.tiles > 0) {
        const uint32_t barrier = shared_address(&shared.weights);
        const uint32_t bytes = (uint32_t)most * wgmma_row_most;
        mbarrier_arrive_expect_tx(barrier, bytes * (uint32_t)c.chunks);
        for (int chunk = 0; chunk < c.chunks; ++chunk) {
            mbarrier_bulk_copy(resident + (uint32_t)linear_weights_bytes(columns, chunk),
                               linear_weights(c, couts, chunk, work.channel), bytes, barrier);
        }
    }
    // The own share of the weights of a stage: a thread block's, for all of the cluster.
    const int share = columns / (int)gridDim.x, first = (int)blockIdx.x * share;
    const int own = most - first < share ? most - first : share;
    const uint32_t whole = linear_stage_rows + (p.resident ? 0 : (uint32_t)most * wgmma_row_most);
    if (c.programmatic) {
        pdl_wait(); // before the first row
    }
    for (int tile = 0; tile < work.tiles; ++tile) {
        const int row = linear_row_read(work, linear_row(tile));
        for (int chunk = 0; chunk < c.chunks; ++chunk) {
            const uint32_t full = ring_full(ring), stage = ring_stage(ring);
            mbarrier_wait(ring_empty(ring, ring.at), ring.phase ^ 1);
            mbarrier_arrive_expect_tx(full, whole);
            mbarrier_tensor_copy(stage, &p.rows, chunk * wgmma_row_most / (int)sizeof(E), row,
                                 full);
            if (!p.resident && own > 0) {
                mbarrier_bulk_copy_all(stage + linear_stage_rows + (uint32_t)first * wgmma_row_most,
                                       linear_weights(c, couts, chunk, work.channel + first),
                                       (uint32_t)own * wgmma_row_most, full, (1u << gridDim.x) - 1);
            }
            ring_next(ring);
        }
    }
}

// ---- consumers ----------------------------------------------------------------------------------

// Releases a stage to the producers of all thread blocks that fill it.
SPIRA_DEVICE void linear_release(const ring_cursor &ring, int at) {
    __syncwarp();
    if (warp_elect()) {
        mbarrier_arrive(ring_empty(ring, at));
        if (gridDim.x > 1) {
            cluster_arrive_read(cluster_address(ring_empty(ring, at), blockIdx.x ^ 1));
        }
    }
}

// Multiplies the chunks of a tile.
template <typename E, int columns>
SPIRA_DEVICE void linear_accumulate(const linear_params &p, linear_shared &shared, bool begins,
                                    uint32_t resident, ring_cursor &ring,
                                    float (&sum)[columns / 2]) {
    const uint32_t group = threadIdx.x / 128;
#pragma unroll
    for (float &f : sum) {
        f = 0.0f;
    }
    int before = -1;
    for (int chunk = 0; chunk < p.conv.chunks; ++chunk) {
        mbarrier_wait(ring_full(ring), ring.phase);
        const uint32_t stage = ring_stage(ring);
        const uint32_t a = wgmma_address(stage + group * wgmma_rows * wgmma_row_most);
        const uint32_t b =
            wgmma_address(p.resident ? resident + (uint32_t)linear_weights_bytes(columns, chunk)
                                     : stage + linear_stage_rows);
        wgmma_begin_copied();
#pragma unroll
        for (uint32_t at = 0; at < wgmma_row_most; at += wgmma_step_bytes) {
            wgmma_step<E, columns>(sum, a + (at >> 4), b + (at >> 4),
                                   wgmma_form(wgmma_row_log_most));
        }
        wgmma_end();
        wgmma_wait<1>();
        if (before >= 0) {
            linear_release(ring, before);
        }
        before = ring.at;
        ring_next(ring);
        if (begins && chunk + 1 == p.lag) {
            mbarrier_arrive_warp(shared_address(&shared.begun));
        }
    }
    wgmma_wait<0>();
    wgmma_settle(sum);
    linear_release(ring, before);
}

// The 16 rows of a warp: the first one, and the first one that it finishes.
struct linear_place {
    int row, least;
};

// The lane's first byte, in outputs and residual, of a channel of a piece; -1: it finishes none. i:
// of its four rows.
SPIRA_DEVICE int64_t linear_byte(const conv_params &p, const linear_place &own, int i,
                                 int channel) {
    const int row = own.row + warp_lane() / 8 + 4 * i;
    channel += warp_lane() % 8 * 8;
    return row >= own.least && channel < p.cout ? 2 * ((int64_t)row * p.cout + channel) : -1;
}

// Where they are in shared memory.
SPIRA_DEVICE uint32_t linear_piece_at(uint32_t memory, int i) {
    const int row = warp_lane() / 8 + 4 * i;
    return memory + (uint32_t)(row * 128 + ((warp_lane() % 8 ^ row % 8) << 4));
}

// Loads the residual of a piece.
SPIRA_DEVICE void linear_residual_load(const conv_params &p, const linear_place &own, int channel,
                                       uint4 (&to)[4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const int64_t at = linear_byte(p, own, i, channel);
        to[i] = at >= 0 ? *(const uint4 *)((const char *)p.residual + at) : make_uint4(0, 0, 0, 0);
    }
}

// The accumulators of a piece.
template <int columns>
SPIRA_DEVICE void linear_piece(const float (&sum)[columns / 2], int piece,
                               float (&to)[linear_piece_columns / 2]) {
#pragma unroll
    for (int i = 0; i < columns / linear_piece_columns; ++i) {
        if (piece == i) {
#pragma unroll
            for (int e = 0; e < linear_piece_columns / 2; ++e) {
                to[e] = sum[i * linear_piece_columns / 2 + e];
            }
        }
    }
}

// Finishes the accumulators of a piece: the lane's two rows of it, into shared memory. scale: of
// the piece's first channel; act: the activation, or activation_none for the others.
template <typename E, activation act>
SPIRA_DEVICE void linear_finish_piece(const conv_params &p, const float *scale, uint32_t memory,
                                      const float (&sum)[linear_piece_columns / 2]) {
    const uint32_t g = (uint32_t)warp_lane() / 4, t = (uint32_t)warp_lane() % 4;
    const float bound = conv_bound(p.epilogue);
    const float slope = p.epilogue.act == activation_leaky ? p.epilogue.slope : 1.0f;
#pragma unroll
    for (uint32_t j = 0; j < linear_piece_columns / 8; ++j) {
        const float2 by = *(const float2 *)(scale + 8 * j + 2 * t);
        const float2 shift = *(const float2 *)(scale + linear_columns_most + 8 * j + 2 * t);
        const uint32_t to = memory + g * 128 + ((j ^ g) << 4) + 4 * t;
#pragma unroll
        for (uint32_t h = 0; h < 2; ++h) {
            const float *const v = sum + 4 * j + 2 * h;
            float2 x = make_float2(fmaf(v[0], by.x, shift.x), fmaf(v[1], by.y, shift.y));
            if (p.residual) {
                const float2 more = conv_pair_to_floats<E>(shared_load(to + h * 1024));
                x.x += more.x;
                x.y += more.y;
            }
            if (act == activation_none) {
                x.x = activation_apply(x.x, activation_leaky, slope);
                x.y = activation_apply(x.y, activation_leaky, slope);
            } else {
                x.x = activation_apply(x.x, act, 0.0f);
                x.y = activation_apply(x.y, act, 0.0f);
            }
            shared_store(to + h * 1024, conv_pair_bounded<E>(x.x, x.y, bound));
        }
    }
}

// Finishes the 16 rows of a warp, 64 columns at a time: in a loop, so that the code stays in the
// instruction cache. residual: of the first piece.
template <typename E, int columns>
SPIRA_DEVICE void linear_finish(const conv_params &p, const linear_place &own, const float *scale,
                                uint32_t memory, uint4 (&residual)[4],
                                const float (&sum)[columns / 2]) {
    const int first = (int)blockIdx.y * columns;
#pragma unroll 1
    for (int piece = 0; piece < columns / linear_piece_columns; ++piece) {
        const int channel = first + piece * linear_piece_columns;
        if (channel >= p.cout) {
            return;
        }
        float part[linear_piece_columns / 2];
        linear_piece<columns>(sum, piece, part);
        if (p.residual) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                shared_store_4(linear_piece_at(memory, i), residual[i]);
            }
            linear_residual_load(p, own, channel + linear_piece_columns, residual);
            __syncwarp();
        }
        const float *const at = scale + piece * linear_piece_columns;
        if (p.epilogue.act == activation_silu) {
            linear_finish_piece<E, activation_silu>(p, at, memory, part);
        } else if (p.epilogue.act == activation_gelu) {
            linear_finish_piece<E, activation_gelu>(p, at, memory, part);
        } else {
            linear_finish_piece<E, activation_none>(p, at, memory, part);
        }
        __syncwarp();
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int64_t to = linear_byte(p, own, i, channel);
            const uint4 v = shared_load_4(linear_piece_at(memory, i));
            if (to >= 0) {
                *(uint4 *)((char *)p.out + to) = v;
            }
        }
        __syncwarp();
    }
}

template <typename E, int columns>
SPIRA_DEVICE void linear_consume(const linear_params &p, linear_shared &shared, ring_cursor ring,
                                 uint32_t resident, uint32_t memory) {
    const conv_params &c = p.conv;
    const linear_work work = linear_work_of(c, columns);
    const int warp = __shfl_sync(~0u, threadIdx.x / 32, 0);
    float sum[columns / 2];
    memory += (uint32_t)warp * linear_piece_bytes;
    if (c.programmatic) {
        pdl_wait(); // before the first output
    }
    if (p.resident && work.tiles > 0) {
        mbarrier_wait(shared_address(&shared.weights), 0);
    }
    if (warp >= 4 && work.tiles > 0) {
        mbarrier_wait(shared_address(&shared.begun), 0);
    }
    for (int tile = 0; tile < work.tiles; ++tile) {
        const int least = linear_row(tile);
        const linear_place own = {linear_row_read(work, least) + 16 * warp, least};
        uint4 residual[4] = {};
        if (c.residual) {
            linear_residual_load(c, own, work.channel, residual);
        }
        linear_accumulate<E, columns>(p, shared, tile == 0 && warp < 4, resident, ring, sum);
        linear_finish<E, columns>(c, own, shared.scale, memory, residual, sum);
    }
}

// ---- kernel -------------------------------------------------------------------------------------

template <typename E, int columns>
SPIRA_KERNEL void __launch_bounds__(linear_threads, linear_resident(columns))
    linear_kernel(const __grid_constant__ linear_params p) {
#if SPIRA_WGMMA
    if (!p.conv.programmatic) {
        pdl_wait();
    }
    extern __shared__ __align__(128) char hopper_dynamic[];
    __shared__ __align__(16) linear_shared shared;
    ring_init(shared.ring, p.depth, 1, linear_consumers / 32 * (int)gridDim.x);
    if (threadIdx.x == 0) {
        mbarrier_init(&shared.weights, 1);
        mbarrier_init(&shared.begun, 4 * mbarrier_warp);
    }
    mbarrier_init_fence();
    conv_scale_load<linear_columns_most>(p.conv, (int)blockIdx.y * columns, columns,
                                         (int)threadIdx.x, shared);
    // Resident weights or nothing, the stages, the pieces of the warps.
    const uint32_t memory =
        (uint32_t)round_up(shared_address(hopper_dynamic), (uint32_t)wgmma_align);
    const uint32_t bytes = (uint32_t)linear_stage_bytes(columns, p.resident);
    const uint32_t stages =
        memory + (p.resident ? (uint32_t)linear_weights_bytes(columns, p.conv.chunks) : 0);
    const ring_cursor ring = {shared_address(shared.ring), stages, bytes, p.depth, 0, 0};
    __syncthreads();
    if (gridDim.x > 1) {
        cluster_sync(); // the mbarriers are ready
    }
    if (__shfl_sync(~0u, threadIdx.x / 128, 0) == linear_consumers / 128) {
        setmaxnreg_dec<linear_registers_producer(columns)>();
        if (__shfl_sync(~0u, threadIdx.x / 32, 0) == linear_consumers / 32 && warp_elect()) {
            linear_produce<E, columns>(p, shared, ring, memory);
        }
        __syncwarp();
    } else {
        setmaxnreg_inc<linear_registers_consumer(columns)>();
        linear_consume<E, columns>(p, shared, ring, memory, stages + (uint32_t)p.depth * bytes);
    }
    __syncthreads();
    if (gridDim.x > 1) {
        cluster_sync(); // the other thread block may still release stages of this one
    }
    ring_inval(shared.ring, p.depth);
    if (threadIdx.x == 0) {
        mbarrier_inval(&shared.weights);
        mbarrier_inval(&shared.begun);
    }
#endif
}

} // namespace spira

#endif
