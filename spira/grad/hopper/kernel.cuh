// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/grad/hopper/kernel.cuh: the weight gradient on Hopper's warpgroup instructions (sm_90a),
// for 16-bit formats.
//
// A thread block computes one tile of input and output channels for a part of the pairs
// (share.cuh), one thread block a multiprocessor. Producer warps gather the rows of both sides into
// a ring; consumer warpgroups multiply stages from shared memory, both operands transposed. The
// sums stay in registers while the list does not change. Producers run ahead into the next list
// while the sums of the last one are written.
#ifndef SPIRA_GRAD_HOPPER_KERNEL_CUH
#define SPIRA_GRAD_HOPPER_KERNEL_CUH

#include "../../base/launch.cuh"
#include "../fill.cuh"
#include "traits.cuh"

namespace spira {

// ---- produce ------------------------------------------------------------------------------------

// Copies the rows of one side of a chunk into its panels. own: the row number of the lane's pair.
template <typename E, int channels>
SPIRA_DEVICE void grad_hopper_fill(const grad_side &side, int32_t own, uint32_t panels) {
    enum { pieces = channels * (int)sizeof(E) / 16, line = wgmma_row_most / 16 };
    const uint32_t piece = threadIdx.x % pieces;
    const uint32_t to = panels + piece / line * grad_hopper_panel_bytes;
    grad_gather<E, pieces, (int)grad_hopper_chunk * pieces / 32>(side, own, [&](int row) {
        return to +
               wgmma_place((uint32_t)row * wgmma_row_most + piece % line * 16, wgmma_row_log_most);
    });
}

// The loop of a producer warp: it fills every fourth stage. first: of the part.
template <typename T>
SPIRA_DEVICE void grad_hopper_produce(const grad_params &p, const grad_tile &tile,
                                      const uint32_t *starts, const grad_cursor &first,
                                      ring_cursor ring) {
    typedef typename T::element E;
    enum { chunk = grad_hopper_chunk, producers = grad_hopper_producers };
    const int lane = (int)threadIdx.x % 32;
    const int warp = __shfl_sync(~0u, (int)(threadIdx.x - T::consumers) / 32, 0);
    const int32_t rows = grad_rows(p);
    const bool wide = tile.in.wide && tile.out.wide;
    grad_cursor c = first;
    for (int i = 0; i < warp && c.at < c.stop; ++i) {
        grad_cursor_next(p, starts, chunk, c);
    }
    ring_next(ring, warp);
    bool more = c.at < c.stop;
    grad_pair ahead = {-1, -1};
    if (more) {
        ahead = grad_pair_load(c, lane, chunk);
    }
    if (p.args.programmatic) {
        pdl_wait(); // the kernel before may write the features until here
    }
    while (more) {
        const grad_pair own = grad_pair_check(ahead, rows);
        for (int i = 0; i < producers && c.at < c.stop; ++i) {
            grad_cursor_next(p, starts, chunk, c);
        }
        more = c.at < c.stop;
        if (more) {
            ahead = grad_pair_load(c, lane, chunk);
        }
        mbarrier_wait(ring_empty(ring, ring.at), ring.phase ^ 1);
        const uint32_t stage = ring_stage(ring);
        grad_hopper_fill<E, T::rows>(tile.in, own.in, stage);
        grad_hopper_fill<E, T::columns>(tile.out, own.out, stage + T::in_bytes);
        if (wide) {
            mbarrier_arrive_copies(ring_full(ring));
        } else { // the arrival of copies does not release stores
            async_copy_wait();
            mbarrier_arrive(ring_full(ring));
        }
        ring_next(ring, producers);
    }
    async_copy_wait();
}

// ---- consume ------------------------------------------------------------------------------------

// Multiplies a stage for the bands of a warpgroup. stage: its address.
template <typename T>
SPIRA_DEVICE void grad_hopper_multiply(uint32_t stage, int warpgroup,
                                       float (&sum)[T::bands][T::columns / 2]) {
    enum { depth = 16, panel = grad_hopper_panel_bytes };
    const uint32_t a = stage + (uint32_t)(warpgroup * T::bands * panel);
    wgmma_begin();
#pragma unroll
    for (uint32_t at = 0; at < panel; at += (int)depth * wgmma_row_most) {
        const uint32_t b = wgmma_address_transposed(stage + T::in_bytes + at, panel);
#pragma unroll
        for (int i = 0; i < T::bands; ++i) {
            wgmma_step_transposed<typename T::element, T::columns>(
                sum[i], wgmma_address_transposed(a + (uint32_t)(i * panel) + at, panel), b,
                wgmma_form(wgmma_row_log_most));
        }
    }
    wgmma_end();
}

// Writes the sums of a list that has ended in the part.
template <typename T, grad_put_kind kind>
SPIRA_DEVICE void grad_hopper_flush(const grad_target &to, int warpgroup,
                                    const float (&sum)[T::bands][T::columns / 2]) {
    const int warp = (int)threadIdx.x / 32 % 4, lane = warp_lane();
    const int row = warpgroup * T::bands * grad_hopper_panel + warp * 16 + lane / 4;
#pragma unroll
    for (int i = 0; i < T::bands; ++i) {
#pragma unroll
        for (int j = 0; j < T::columns / 8; ++j) {
            grad_put_4<kind>(to, row + i * grad_hopper_panel, j * 8 + lane % 4 * 2, sum[i] + 4 * j);
        }
    }
}

// The loop of a consumer warpgroup over the lists of the part.
template <typename T>
SPIRA_DEVICE void grad_hopper_consume(const grad_params &p, const grad_tile &tile, int part,
                                      const uint32_t *starts, const grad_cursor &first,
                                      ring_cursor ring) {
    const int warpgroup = __shfl_sync(~0u, (int)threadIdx.x / grad_hopper_warpgroup, 0);
    grad_cursor c = first;
    if (p.args.programmatic) {
        pdl_wait(); // slots and the gradient belong to the kernels before until here
    }
    float sum[T::bands][T::columns / 2];
    while (c.at < c.stop) {
        // ---- multiply the stages of a list
#pragma unroll
        for (int i = 0; i < T::bands * T::columns / 2; ++i) {
            sum[i / (T::columns / 2)][i % (T::columns / 2)] = 0.0f;
        }
        const grad_cursor list = c;
        int before = -1; // the stage whose products may still run
        bool ended;
        do {
            mbarrier_wait(ring_full(ring), ring.phase);
            grad_hopper_multiply<T>(ring_stage(ring), warpgroup, sum);
            wgmma_wait<1>();
            if (before >= 0) {
                ring_release(ring, before);
            }
            before = ring.at;
            ring_next(ring);
            ended = grad_cursor_next(p, starts, grad_hopper_chunk, c);
        } while (!ended);
        wgmma_wait<0>();
#pragma unroll
        for (int i = 0; i < T::bands; ++i) {
            wgmma_settle(sum[i]);
        }
        ring_release(ring, before);
        // ---- write its sums
        const grad_target to = grad_target_of(p, tile, part, first.at, list);
        if (to.slot) {
            grad_hopper_flush<T, grad_put_slot>(to, warpgroup, sum);
        } else if (to.wide) {
            grad_hopper_flush<T, grad_put_wide>(to, warpgroup, sum);
        } else {
            grad_hopper_flush<T, grad_put_each>(to, warpgroup, sum);
        }
    }
}

// ---- kernel -------------------------------------------------------------------------------------

template <typename T>
SPIRA_DEVICE ring_cursor grad_hopper_ring_of(const grad_params &p, const grad_hopper_shared &shared,
                                             const char *memory) {
    const uint32_t behind =
        shared_address(memory) + (uint32_t)grad_hopper_starts_bytes(p.args.shape.volume);
    ring_cursor r = {};
    r.barriers = shared_address(shared.ring);
    r.memory = (behind + wgmma_align - 1) & ~(uint32_t)(wgmma_align - 1);
    r.bytes = T::stage_bytes;
    r.stages = p.cut.stages;
    return r;
}

// Thread blocks: x tiles, y parts. T: grad_hopper_traits.
template <typename T>
SPIRA_KERNEL void __launch_bounds__(T::threads, 1)
    grad_hopper_kernel(const __grid_constant__ grad_params p) {
#if SPIRA_WGMMA
    extern __shared__ __align__(128) char grad_memory[];
    __shared__ __align__(16) grad_hopper_shared shared;
    uint32_t *const starts = (uint32_t *)grad_memory;
    const int part = (int)blockIdx.y;
    if (!p.args.programmatic) {
        pdl_wait();
    }
    // The lanes of a producer warp; a lane of each consumer warp.
    ring_init(shared.ring, p.cut.stages, 32, T::consumers / 32);
    mbarrier_init_fence();
    const ring_cursor ring = grad_hopper_ring_of<T>(p, shared, grad_memory);
    const grad_cursor first = grad_cursor_begin(p, part, starts); // and all threads meet
    const grad_tile tile = grad_tile_of(p, (int)blockIdx.x, T::rows, T::columns, 2);
    if (__shfl_sync(~0u, (int)threadIdx.x / grad_hopper_warpgroup, 0) >= T::warpgroups) {
        if constexpr (T::registers_move) {
            setmaxnreg_dec<T::registers_producer>();
        }
        grad_hopper_produce<T>(p, tile, starts, first, ring);
    } else {
        if constexpr (T::registers_move) {
            setmaxnreg_inc<T::registers_consumer>();
        }
        grad_hopper_consume<T>(p, tile, part, starts, first, ring);
    }
    __syncthreads();
    ring_inval(shared.ring, p.cut.stages);
#endif
}

} // namespace spira

#endif
