// spira/conv/portable/kernel.cuh: the kernel: producer warps fill a ring of stages, consumer
// warps multiply them.
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

// The ring, and where a warp stands in it.
struct portable_ring {
    uint32_t at, end;  // addresses of the next stage, and behind the last
    uint32_t bytes;    // of all stages
    uint32_t barrier;  // address of its mbarriers: full, and `empty` behind it empty
    uint32_t barriers; // bytes of those that are full
    uint32_t phase;
    uint32_t depth, reciprocal; // stages; 2^32 / stages, rounded up
};

enum { portable_empty = portable_stages_most * sizeof(uint64_t) };

template <typename T>
SPIRA_DEVICE portable_ring portable_ring_of(const conv_tensor_params &p, uint32_t memory,
                                            const typename T::shared &shared) {
    portable_ring r;
    r.at = memory;
    r.bytes = (uint32_t)p.size.depth * T::stage_bytes;
    r.end = memory + r.bytes;
    r.barrier = shared_address(shared.full);
    r.barriers = (uint32_t)p.size.depth * sizeof(uint64_t);
    r.phase = 0;
    r.depth = (uint32_t)p.size.depth;
    r.reciprocal = ~0u / r.depth + 1;
    return r;
}

template <typename T>
SPIRA_DEVICE void portable_ring_next(portable_ring &r) {
    r.at += T::stage_bytes;
    r.barrier += sizeof(uint64_t);
    if (r.at == r.end) {
        r.at -= r.bytes;
        r.barrier -= r.barriers;
        r.phase ^= 1;
    }
}

// Leaves out some stages.
template <typename T>
SPIRA_DEVICE void portable_ring_skip(portable_ring &r, int stages) {
    const auto rounds = (uint32_t)((uint64_t)(uint32_t)stages * r.reciprocal >> 32);
    const uint32_t rest = (uint32_t)stages - rounds * r.depth;
    r.at += rest * T::stage_bytes;
    r.barrier += rest * (uint32_t)sizeof(uint64_t);
    r.phase ^= rounds & 1;
    if (r.at >= r.end) {
        r.at -= r.bytes;
        r.barrier -= r.barriers;
        r.phase ^= 1;
    }
}

// Fills a stage and goes to the next. number: of the entry's chunk.
template <typename T>
SPIRA_DEVICE void portable_stage_fill(const conv_tensor_params &p, const conv_work &work,
                                      const portable_filling<T::warp_fragments> &f,
                                      const portable_target &target, int number,
                                      portable_ring &ring) {
    mbarrier_wait(ring.barrier + portable_empty, ring.phase ^ 1);
    portable_fill<T>(p, work, f, target, number, ring.at);
    mbarrier_arrive_copies(ring.barrier);
    if (target.header) {
        mbarrier_arrive(ring.barrier);
    }
    portable_ring_next<T>(ring);
}

// Fills the team's stages. An entry's source rows are requested portable_ahead entries before.
template <typename T>
SPIRA_DEVICE void portable_produce(const conv_tensor_params &p, const conv_work &work,
                                   typename T::shared &shared, portable_ring ring) {
    const portable_target target = portable_target_of<T>(p, work);
    const uint32_t slots = shared_address(shared.slot[threadIdx.x / 32]);
    portable_cursor<T::pairs> cursor;
    portable_cursor_begin<T>(p, work, cursor);
#pragma unroll 1
    for (int i = 0; i < portable_ahead; ++i) {
        portable_entry_next<T>(p, work, cursor, slots + i * portable_slot_bytes);
        async_copy_commit();
    }
    portable_filling<T::warp_fragments> filling;
    if (p.programmatic) {
        pdl_wait(); // before features
    }
#pragma unroll 1
    for (uint32_t entry = 0;; entry = (entry + 1) % portable_slots) {
        async_copy_wait_but<portable_ahead - 1>();
        __syncwarp();
        portable_filling_begin<T>(p, work, target, slots + entry * portable_slot_bytes, filling);
        if (filling.what & portable_none) {
            break;
        }
        portable_entry_next<T>(p, work, cursor,
                               slots +
                                   (entry + portable_ahead) % portable_slots * portable_slot_bytes);
        async_copy_commit();
        portable_ring_skip<T>(ring, filling.skip);
        int number = filling.what & portable_later ? portable_run_stages : 0;
#pragma unroll 1
        for (;;) {
            const int end = min(number + portable_run_stages, filling.stages);
#pragma unroll 1
            do {
                portable_stage_fill<T>(p, work, filling, target, number, ring);
            } while (++number < end);
            number += portable_run_stages;
            if (number >= filling.stages) {
                break;
            }
            portable_ring_skip<T>(ring, portable_run_stages);
        }
    }
    async_copy_wait();
}

// The warp has read a stage. empty: address of the stage's mbarrier.
SPIRA_DEVICE void portable_release(uint32_t empty) {
    __syncwarp();
    if (threadIdx.x % 32 == 0) {
        mbarrier_arrive(empty);
    }
}

// Multiplies all stages and finishes the tiles.
template <typename T>
SPIRA_DEVICE void portable_consume(const conv_tensor_params &p, const conv_work &work,
                                   const typename T::shared &shared, portable_ring ring) {
    const portable_place own = portable_place_of<T>();
    const portable_origin origin = portable_origin_any<T>(own);
    const int from = own.across * T::bands * portable_band; // the warp's first channel
    float sum[T::fragments][T::bands][4];
    portable_clear<T>(sum);
    if (p.programmatic) {
        pdl_wait(); // before residual, sums and outputs
    }
    for (int tile = 0; tile < work.tiles;) {
        const portable_place_in in = portable_origin_in(ring.at, origin);
        mbarrier_wait(ring.barrier, ring.phase);
        const uint32_t state = portable_multiply_any<T>(in, shared.ratio + from, sum);
        const uint32_t at = ring.at, empty = ring.barrier + portable_empty;
        portable_ring_next<T>(ring);
        if (!portable_flagged(state, portable_flag_last)) {
            portable_release(empty);
            continue;
        }
        int row[T::fragments][2];
        portable_outputs_load<T>(at, own, row);
        portable_release(empty);
        portable_finish_any<T>(p, shared.scale, from, work.channel + from, row, sum);
        portable_clear<T>(sum);
        ++tile;
    }
}

// T: portable_traits.
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
    if ((int)threadIdx.x < p.size.depth) {
        // A team's lanes with their copies, and one of each warp with its stores; consumer warps.
        mbarrier_init(&shared.full[threadIdx.x], T::pairs * 33);
        mbarrier_init(&shared.empty[threadIdx.x], T::consumers);
    }
    __syncthreads();
    const portable_ring ring = portable_ring_of<T>(p, shared_address(portable_memory), shared);
    if (__shfl_sync(~0u, (int)threadIdx.x / 32, 0) < T::producers) {
        portable_produce<T>(p, work, shared, ring);
    } else {
        portable_consume<T>(p, work, shared, ring);
    }
#endif
}

} // namespace spira

#endif
