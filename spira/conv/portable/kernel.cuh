// spira/conv/portable/kernel.cuh: the kernel: a ring of stages that asynchronous copies fill ahead.
#ifndef SPIRA_CONV_PORTABLE_KERNEL_CUH
#define SPIRA_CONV_PORTABLE_KERNEL_CUH

#include "../vectors.cuh"
#include "epilogue.cuh"

namespace spira {

// Writes scale and shift of the slice's channels.
template <typename T>
SPIRA_DEVICE void portable_prepare(const conv_tensor_params &p, const conv_work &work,
                                   typename T::shared &shared) {
    const int i = (int)threadIdx.x;
    static_assert(T::columns <= T::threads, "a thread for each channel");
    conv_scale_load<T::columns>(p, work.channel, T::columns, i, shared);
    if (p.shortcut.parts) {
        conv_shortcut_load<T::columns>(p, work.channel, T::columns, i, shared);
    }
}

// Waits for the thread's copies of the oldest of `stages` - 1 stages, and of the next if it is as
// well that way.
SPIRA_DEVICE void portable_wait(int stages) {
    static_assert(portable_stages_least == 3 && portable_stages_most == 6, "two cases");
    if (stages >= 5) {
        async_copy_wait_but<3>();
    } else {
        async_copy_wait_but<1>();
    }
}

// All threads fill stages and multiply them. Stage s + p.size.depth - 1 is filled, and then stage s
// is multiplied, where tiles follow each other without a gap. T: portable_traits.
template <typename T>
SPIRA_KERNEL void __launch_bounds__(T::threads, T::resident)
    portable_kernel(const __grid_constant__ conv_tensor_params p) {
#if SPIRA_MMA
    // ---- prepare
    extern __shared__ __align__(128) char portable_memory[];
    __shared__ typename T::shared shared;
    const conv_work work = conv_work_of<T::columns, T::rows / order_rows>(p);
    if (!p.programmatic || work.tiles == 0) {
        pdl_wait();
    }
    if (work.tiles == 0) {
        return;
    }
    portable_prepare<T>(p, work, shared);
    const portable_place own = portable_place_of<T>();
    const int from = own.across * T::bands * portable_band; // the warp's first channel
    const uint32_t memory = shared_address(portable_memory);
    const uint32_t end = memory + (uint32_t)p.size.depth * T::stage_bytes;
    const uint32_t newest = 1u << (p.size.depth - 1);
    const portable_target target = portable_target_of<T>();
    const portable_origin origin = portable_origin_any<T>(own);
    const portable_source source = portable_source_of<T>(p, work);
    const uint32_t slots = shared_address(shared.slot[threadIdx.x / 32]);
    const uint32_t lane = threadIdx.x % 32 * 4, quarter = lane / 16 * 4;
    portable_cursor<T::pairs> cursor;
    portable_filling<T::warp_fragments> filling;
    filling.stages = 0;
    portable_cursor_begin<T>(p, work, cursor);
#pragma unroll 1
    for (int i = 0; i < portable_ahead; ++i) {
        const uint32_t slot = slots + i * T::slot_bytes;
        portable_entry_next<T>(p, work, cursor, slot, slot + lane);
    }
    async_copy_wait();
    __syncwarp();
    int pair[T::pairs]; // of 32 tiles from the multiple of 32 before `tile` on
    portable_pairs_load<T>(p, work, 0, pair);
    float sum[T::fragments][T::bands][4];
    portable_clear<T>(sum);
    // A bit for each stage from the one that is multiplied next on: whether it is the last of a
    // tile, and the first of a shortcut.
    uint32_t lasts = 0, shortcuts = 0;
    uint32_t at = memory; // the stage that is filled next; the one behind it is multiplied
    int entry = 0;        // the number of its slot
    int tile = 0;         // that is multiplied
    for (int s = 1 - p.size.depth; tile < work.tiles; ++s) {
        if (s >= 0) {
            portable_wait(p.size.depth);
            __syncthreads(); // and no warp multiplies the stage that is filled now
        }
        // ---- fill
        if (!filling.stages) {
            const uint32_t from = slots + entry * T::slot_bytes;
            const uint32_t to = slots + (entry + portable_ahead) % portable_slots * T::slot_bytes;
            portable_filling_begin<T>(p, work, source, from, from + lane, from + quarter, filling);
            portable_entry_next<T>(p, work, cursor, to, to + lane);
            entry = (entry + 1) % portable_slots;
            shortcuts |= filling.what & portable_of_shortcut ? newest : 0;
        }
        if (filling.stages) {
            lasts |= filling.stages == 1 && filling.what & portable_last ? newest : 0;
            portable_fill<T>(p, work, filling, target, p.programmatic && s == 1 - p.size.depth, at);
            portable_filling_next<T>(p, filling);
        }
        async_copy_commit();
        at = at + T::stage_bytes == end ? memory : at + T::stage_bytes;
        // ---- multiply
        if (s >= 0) {
            if (shortcuts & 1) {
                portable_scale<T>(shared.ratio + from, sum);
            }
            portable_multiply_any<T>(at, origin, sum);
        }
        // ---- finish
        if (lasts & 1) {
            int row[T::fragments][2];
            portable_outputs_load<T>(p, work.outputs, tile, pair, own, row);
            portable_finish_any<T>(p, shared.scale, from, work.channel + from, row, sum);
            portable_clear<T>(sum);
            if (++tile % 32 == 0) {
                portable_pairs_load<T>(p, work, tile, pair);
            }
        }
        shortcuts >>= 1;
        lasts >>= 1;
    }
    async_copy_wait();
#endif
}

} // namespace spira

#endif
