// spira/conv/portable/kernel.cuh: the kernel: a ring of stages that asynchronous copies fill ahead.
#ifndef SPIRA_CONV_PORTABLE_KERNEL_CUH
#define SPIRA_CONV_PORTABLE_KERNEL_CUH

#include "../vectors.cuh"
#include "epilogue.cuh"

namespace spira {

// Writes scale and shift of the slice's channels.
template <typename T>
SPIRA_DEVICE void portable_prepare(const conv_tensor_params &p, const conv_work &work,
                                   portable_shared<T::columns> &shared) {
    const int i = (int)threadIdx.x;
    static_assert(T::columns <= T::threads, "a thread for each channel");
    conv_scale_load<T::columns>(p, work.channel, T::columns, i, shared);
    if (p.shortcut.parts) {
        conv_shortcut_load<T::columns>(p, work.channel, T::columns, i, shared);
    }
}

// Waits for the thread's copies of the oldest of `stages` - 1 stages.
SPIRA_DEVICE void portable_wait(int stages) {
    static_assert(portable_stages_least == 3 && portable_stages_most == 6, "four cases");
    if (stages == 6) {
        async_copy_wait_but<4>();
    } else if (stages == 5) {
        async_copy_wait_but<3>();
    } else if (stages == 4) {
        async_copy_wait_but<2>();
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
    __shared__ portable_shared<T::columns> shared;
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
    const uint32_t ring = (uint32_t)p.size.depth * T::stage_bytes;
    const portable_target target = portable_target_of<T>();
    const portable_origin origin = portable_origin_any<T>(own);
    portable_cursor<T::pairs> cursor;
    portable_entry<T::warp_fragments> ahead;
    portable_filling<T::warp_fragments> filling;
    portable_cursor_begin<T>(p, work, cursor);
    portable_entry_next<T>(p, work, cursor, ahead);
    portable_filling_begin<T>(p, work, ahead, filling);
    portable_entry_next<T>(p, work, cursor, ahead);
    int pair[T::pairs]; // of the tile that is multiplied
    portable_pairs_load<T>(p, work, 0, pair);
    float sum[T::fragments][T::bands][4];
    portable_clear<T>(sum);
    uint32_t filled = 0, at = 0; // first bytes of the stages that are filled and multiplied next
    int tile = 0;                // that is multiplied
    for (int s = 1 - p.size.depth; tile < work.tiles; ++s) {
        if (s >= 0) {
            portable_wait(p.size.depth);
            __syncthreads(); // and no warp multiplies the stage that is filled now
        }
        // ---- fill
        if (filling.stages) {
            portable_fill<T>(p, work, filling, target, p.programmatic && s == 1 - p.size.depth,
                             memory + filled, portable_memory + filled + T::header);
            portable_filling_next<T>(p, filling);
            if (!filling.stages) {
                portable_filling_begin<T>(p, work, ahead, filling);
                portable_entry_next<T>(p, work, cursor, ahead);
            }
        }
        async_copy_commit();
        filled = filled + T::stage_bytes == ring ? 0 : filled + T::stage_bytes;
        if (s < 0) {
            continue;
        }
        // ---- multiply
        const uint4 header = shared_load_4(memory + at + T::header); // portable_header
        const uint32_t flags = header.z;
        if (flags & portable_rescale) {
            portable_scale<T>(shared.ratio + from, sum);
        }
        if constexpr (T::exact) {
            portable_multiply_exact<T>(memory + at, header, origin, own, sum);
        } else {
            portable_multiply<T>(memory + at, header.x, header.y, origin, own, sum);
        }
        at = at + T::stage_bytes == ring ? 0 : at + T::stage_bytes;
        // ---- finish
        if (flags & portable_last) {
            int row[T::fragments][2];
            portable_outputs_load<T>(p, work.outputs, pair, own, row);
            portable_finish_any<T>(p, shared.scale, from, work.channel + from, row, sum);
            portable_clear<T>(sum);
            portable_pairs_load<T>(p, work, ++tile, pair);
        }
    }
    async_copy_wait();
#endif
}

} // namespace spira

#endif
