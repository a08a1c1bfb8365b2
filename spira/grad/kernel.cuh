// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/grad/kernel.cuh: the weight gradient on tensor cores: a ring of stages that asynchronous
// copies fill ahead.
//
// A thread block computes one tile of input and output channels for a part of the pairs
// (share.cuh). The sums stay in registers while the list does not change.
#ifndef SPIRA_GRAD_KERNEL_CUH
#define SPIRA_GRAD_KERNEL_CUH

#include "../base/launch.cuh"
#include "fill.cuh"
#include "multiply.cuh"

namespace spira {

// Writes a warp's sums. put(row, column, 4 elements of a fragment).
template <typename T, typename F>
SPIRA_DEVICE void grad_sums_each(const grad_warp &own,
                                 const float (&sum)[T::fragments][T::bands][4], F put) {
    const int lane = (int)threadIdx.x % 32;
    int row = own.down * (T::bands * 16) + lane / 4;
    int column = own.across * (T::fragments * 8) + lane % 4 * 2;
#ifdef __CUDA_ARCH__
    // Keeps the compiler from computing the addresses before the loop: registers.
    asm volatile("" : "+r"(row), "+r"(column));
#endif
#pragma unroll
    for (int j = 0; j < T::fragments; ++j) {
#pragma unroll
        for (int i = 0; i < T::bands; ++i) {
            put(row + i * 16, column + j * 8, sum[j][i]);
        }
    }
}

// Writes the sums of a list that has ended in the part. All threads of the block call this. shared
// [split, rows * columns]: free from the next __syncthreads on.
template <typename T>
SPIRA_DEVICE void grad_flush(const grad_target &to, const grad_warp &own,
                             const float (&sum)[T::fragments][T::bands][4], float *shared) {
    if (T::split == 1 && to.slot) {
        grad_sums_each<T>(own, sum, [&](int row, int column, const float *value) {
            grad_put_4<grad_put_slot>(to, row, column, value);
        });
        return;
    }
    if (T::split == 1) {
        grad_sums_each<T>(own, sum, [&](int row, int column, const float *value) {
            grad_put_4<grad_put_each>(to, row, column, value);
        });
        return;
    }
    float *mine = shared + own.split * (T::elements);
    grad_sums_each<T>(own, sum, [&](int row, int column, const float *value) {
        *(float4 *)(mine + grad_slot_place(row, column, T::columns)) =
            make_float4(value[0], value[1], value[2], value[3]);
    });
    __syncthreads();
    for (int i = (int)threadIdx.x * 4; i < T::elements; i += T::threads * 4) {
        float all[4] = {};
#pragma unroll
        for (int s = 0; s < T::split; ++s) {
            const float4 v = *(const float4 *)(shared + s * (T::elements) + i);
            all[0] += v.x;
            all[1] += v.y;
            all[2] += v.z;
            all[3] += v.w;
        }
        const grad_fragment at = grad_fragment_of(i / 4, T::columns);
        if (to.slot) {
            grad_put_4<grad_put_slot>(to, at.row, at.column, all);
        } else {
            grad_put_4<grad_put_each>(to, at.row, at.column, all);
        }
    }
}

// Stage s + stages - 1 is filled, and then stage s is multiplied. T: grad_traits.
template <typename T>
SPIRA_KERNEL void __launch_bounds__(T::threads, T::resident)
    grad_kernel(const __grid_constant__ grad_params p) {
#if SPIRA_MMA
    // ---- prepare
    extern __shared__ __align__(128) char grad_memory[];
    uint32_t *starts = (uint32_t *)(grad_memory + T::ring_bytes + grad_split_bytes(T::rows));
    float *shared = (float *)(grad_memory + T::ring_bytes);
    const int part = (int)blockIdx.y;
    if (!p.args.programmatic) {
        pdl_wait();
    }
    grad_cursor filled = grad_cursor_begin(p, part, starts); // of the stage that is filled next
    grad_cursor done = filled;                               // that is multiplied next
    const uint32_t part_first = filled.at;
    int32_t rows = grad_rows(p);
    const grad_tile tile =
        grad_tile_of(p, (int)blockIdx.x, T::rows, T::columns, (int)sizeof(typename T::element));
    const grad_warp own = grad_warp_of<T>();
    grad_origin origin = grad_origin_of<T>(own);
#ifdef __CUDA_ARCH__
    // Keeps them in registers: the compiler would compute them again for each stage.
    asm volatile("" : "+r"(origin.in), "+r"(origin.out), "+r"(rows));
#endif
    const uint32_t memory = shared_address(grad_memory);
    grad_pair ahead = {-1, -1};
    if (filled.at < filled.stop) {
        ahead = grad_pairs_load<T>(filled);
    }
    if (p.args.programmatic) {
        pdl_wait(); // features, slots and the gradient belong to the kernels before until here
    }
    uint32_t to = 0, at = 0; // first bytes of these stages
    int s = 1 - T::stages;
    while (done.at < done.stop) { // a list: between two of them no register holds sums
        const grad_cursor list = done;
        float sum[T::fragments][T::bands][4];
        grad_clear<T>(sum);
        bool ended = false;
#pragma unroll 1
        for (; !ended; ++s) {
            if (s >= 0) {
                async_copy_wait_but<T::stages - 2>();
                __syncthreads(); // and no warp multiplies the stage that is filled now
            }
            // ---- fill
            if (filled.at < filled.stop) {
                grad_fill<T>(tile, grad_pair_check(ahead, rows), memory + to);
                grad_cursor_next(p, starts, T::chunk, filled);
                if (filled.at < filled.stop) {
                    ahead = grad_pairs_load<T>(filled);
                }
            }
            async_copy_commit();
            to = to + T::stage_bytes == T::ring_bytes ? 0 : to + T::stage_bytes;
            // ---- multiply
            if (s >= 0) {
                grad_multiply<T>(memory + at, origin, sum);
                at = at + T::stage_bytes == T::ring_bytes ? 0 : at + T::stage_bytes;
                ended = grad_cursor_next(p, starts, T::chunk, done);
            }
        }
        // ---- finish
        const grad_target target = grad_target_of(p, tile, part, part_first, list);
        grad_flush<T>(target, own, sum, shared);
    }
    async_copy_wait();
#endif
}

} // namespace spira

#endif
