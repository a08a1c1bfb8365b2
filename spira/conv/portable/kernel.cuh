// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/conv/portable/kernel.cuh: the kernel: producer warps fill a ring of stages, consumer
// warps multiply them.
#ifndef SPIRA_CONV_PORTABLE_KERNEL_CUH
#define SPIRA_CONV_PORTABLE_KERNEL_CUH

#include "epilogue.cuh"

namespace spira {

// Loads scales and shifts, by the consumer threads: producers begin meanwhile.
template <typename T>
SPIRA_DEVICE void portable_prepare(const conv_params &p, const conv_work &work,
                                   typename T::shared &shared) {
    const int i = (int)threadIdx.x - 32 * T::producers;
    static_assert(T::columns <= 32 * T::consumers, "a thread for each channel");
    conv_scale_load<T::columns>(p, work.channel, T::columns, i, shared);
    if constexpr (sizeof(typename T::element) == 1) {
        conv_step_load<T::columns>(p, work.channel, T::columns, i, shared);
    } else if (p.shortcut.chunks) {
        conv_shortcut_load<T::columns>(p, work.channel, T::columns, i, shared);
    }
    named_barrier_sync(1, 32 * T::consumers);
}

// The ring, and where a warp is in it. One register changes.
struct portable_ring {
    uint32_t memory;   // address of the first stage
    uint32_t barriers; // of its mbarriers: full, and `portable_empty` bytes behind it empty
    uint32_t depth;    // stages
    uint32_t turn;     // 2 * the next stage, + the parity of its phase
};

enum { portable_empty = portable_stages_most * sizeof(uint64_t) };

template <typename T>
SPIRA_DEVICE portable_ring portable_ring_of(const conv_params &p, uint32_t memory,
                                            const typename T::shared &shared) {
    return {memory, shared_address(shared.full), (uint32_t)p.sizes.depth, 0};
}

// The next stage: its address, its mbarrier, its parity.
template <typename T>
SPIRA_DEVICE uint32_t portable_ring_at(const portable_ring &r) {
    return r.memory + (r.turn >> 1) * T::stage_bytes;
}

SPIRA_DEVICE uint32_t portable_ring_barrier(const portable_ring &r) {
    return r.barriers + (r.turn >> 1) * (uint32_t)sizeof(uint64_t);
}

SPIRA_DEVICE uint32_t portable_ring_parity(const portable_ring &r) {
    return r.turn & 1;
}

// Leaves out a few stages, at most as many as there are.
SPIRA_DEVICE void portable_ring_step(portable_ring &r, uint32_t stages) {
    r.turn += 2 * stages;
    r.turn = r.turn >= 2 * r.depth ? (r.turn - 2 * r.depth) ^ 1 : r.turn;
}

// Waits until the next stage is empty, has it filled, and goes on to the one behind it. fill: of
// the stage's address.
template <typename T, typename F>
SPIRA_DEVICE void portable_stage_fill(const portable_target &target, portable_ring &ring,
                                      const F &fill) {
    const uint32_t barrier = portable_ring_barrier(ring);
    mbarrier_wait(barrier + portable_empty, portable_ring_parity(ring) ^ 1);
    fill(portable_ring_at<T>(ring));
    mbarrier_arrive_copies(barrier);
    if (mbarrier_warp > 1 || target.header) {
        mbarrier_arrive(barrier);
    }
    portable_ring_step(ring, 1);
}

// Fills one more stage, of no rows, behind a tile's last: the other set sees the end there.
template <typename T>
SPIRA_DEVICE void portable_end_fill(const conv_params &p, portable_filling<T::warp_fragments> &f,
                                    const portable_target &target, portable_ring &ring) {
    f.valid = 0;
    portable_stage_fill<T>(target, ring, [&](uint32_t stage) {
        portable_fill_header<T>(p, f, target, f.stages, 0, stage);
    });
}

// Fills the team's stages. groups: of the pair, those of the thread block (portable_work_of). An
// entry's source rows are requested T::ahead entries before. Two whole chunks of aligned rows, the
// usual run, share the addresses of their rows.
template <typename T>
SPIRA_DEVICE void portable_produce(const conv_params &p, const conv_work &work, uint32_t groups,
                                   typename T::shared &shared, portable_ring ring) {
    const portable_target target = portable_target_of<T>(p, work);
    const uint32_t slots = shared_address(shared.slot[threadIdx.x / 32]);
    const int others = (portable_teams<T>(p) - 1) * portable_run_stages; // stages between two runs
    portable_cursor<T::pairs> cursor;
    portable_cursor_begin<T>(p, work, groups, cursor);
#pragma unroll 1
    for (int i = 0; i < T::ahead; ++i) {
        portable_entry_next<T>(p, work, cursor, slots + i * portable_slot_bytes);
        async_copy_commit();
    }
    portable_filling<T::warp_fragments> filling;
    if (p.programmatic) {
        pdl_wait(); // before features
    }
#pragma unroll 1
    for (uint32_t entry = 0;; entry = (entry + 1) % T::slots) {
        async_copy_wait_but<T::ahead - 1>();
        __syncwarp();
        portable_filling_begin<T>(p, work, target, slots + entry * portable_slot_bytes, filling);
        if (filling.what & portable_none) {
            break;
        }
        portable_entry_next<T>(p, work, cursor,
                               slots + (entry + T::ahead) % T::slots * portable_slot_bytes);
        async_copy_commit();
        portable_ring_step(ring, (uint32_t)filling.skip);
        int number =
            (int)(filling.what / portable_first % portable_teams_all) * portable_run_stages;
#pragma unroll 1
        for (;;) {
            const int end = min(number + portable_run_stages, filling.stages);
            const portable_chunk chunk = portable_chunk_of<typename T::element>(p, filling, number);
            if (T::shares && chunk.wide &&
                chunk.left >= (int)portable_run_stages * conv_chunk_bytes) { // two whole chunks
                portable_sources<T::warp_fragments> sources;
                portable_sources_find(filling, chunk, sources);
#pragma unroll
                for (int i = 0; i < portable_run_stages; ++i) {
                    portable_stage_fill<T>(target, ring, [&](uint32_t stage) {
                        portable_fill_weights<T>(portable_weights_of(p, filling, number + i),
                                                 target, stage);
                        portable_fill_whole<T>(filling, sources, i, stage + target.rows);
                        portable_fill_header<T>(p, filling, target, number + i, 4, stage);
                    });
                }
            } else {
#pragma unroll 1
                for (; number < end; ++number) {
                    portable_stage_fill<T>(target, ring, [&](uint32_t stage) {
                        portable_fill_weights<T>(portable_weights_of(p, filling, number), target,
                                                 stage);
                        portable_fill_any<T>(p, filling, target, number, stage);
                    });
                }
            }
            if (T::split > 1 && end == filling.stages && filling.what & portable_last) {
                portable_end_fill<T>(p, filling, target, ring);
            }
            number = end + others;
            if (number >= filling.stages) {
                break;
            }
            portable_ring_step(ring, (uint32_t)others);
        }
    }
    async_copy_wait();
}

// Goes past a stage of the other set. It waits and arrives as if it had multiplied: no set is a
// whole ring ahead of the other, or it would mistake one phase for the next.
SPIRA_DEVICE void portable_stage_pass(portable_ring &ring) {
    const uint32_t barrier = portable_ring_barrier(ring);
    mbarrier_wait(barrier, portable_ring_parity(ring));
    mbarrier_arrive_warp(barrier + portable_empty);
    portable_ring_step(ring, 1);
}

// Sums as words: bytes_as would keep them in local memory.
SPIRA_DEVICE uint32_t portable_word(float sum) {
    return __float_as_uint(sum);
}

SPIRA_DEVICE uint32_t portable_word(int32_t sum) {
    return (uint32_t)sum;
}

SPIRA_DEVICE void portable_word_add(uint32_t word, float &sum) {
    sum += __uint_as_float(word);
}

SPIRA_DEVICE void portable_word_add(uint32_t word, int32_t &sum) {
    sum += (int32_t)word;
}

// Finishes a tile of two sets. Two warps have sums of the same outputs: each hands those of half of
// its fragments to the other one, adds what it gets to the rest, and finishes these. The thread
// block has no other tile, so its ring is free when all warps have multiplied their last stage.
template <typename T>
SPIRA_DEVICE void portable_finish_both(const conv_params &p, const float *scale, int channel,
                                       uint32_t memory, const int (&row)[T::fragments][2],
                                       const portable_sums<T> &sum) {
    typedef typename numeric_sum<typename T::element>::type Sum;
    enum { half = T::fragments / 2, bands = T::bands, each = half * bands * 512 };
    const portable_place own = portable_place_of<T>();
    const uint32_t at =
        memory + (uint32_t)(own.down * T::across + own.across) * (2 * each) + threadIdx.x % 32 * 16;
    const uint32_t to = at + (own.set ? 0 : each), back = at + (own.set ? each : 0);
    int own_row[half][2];
    Sum own_sum[half][bands][4];
    named_barrier_sync(1, 32 * T::consumers);
#pragma unroll
    for (int i = 0; i < half * bands; ++i) {
        const Sum(&low)[4] = sum[i / bands][i % bands];
        const Sum(&high)[4] = sum[half + i / bands][i % bands];
        uint32_t other[4];
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            other[e] = portable_word(own.set ? low[e] : high[e]);
            own_sum[i / bands][i % bands][e] = own.set ? high[e] : low[e];
        }
        shared_store_4(to + i * 512, make_uint4(other[0], other[1], other[2], other[3]));
    }
    named_barrier_sync(1, 32 * T::consumers);
#pragma unroll
    for (int i = 0; i < half * bands; ++i) {
        const uint4 v = shared_load_4(back + i * 512);
        Sum(&s)[4] = own_sum[i / bands][i % bands];
        portable_word_add(v.x, s[0]), portable_word_add(v.y, s[1]);
        portable_word_add(v.z, s[2]), portable_word_add(v.w, s[3]);
    }
#pragma unroll
    for (int i = 0; i < 2 * half; ++i) {
        own_row[i / 2][i % 2] = own.set ? row[half + i / 2][i % 2] : row[i / 2][i % 2];
    }
    portable_finish_any<portable_finish_traits<T>>(p, scale, channel, own_row, own_sum);
}

// Multiplies all stages, or those of the warp's set, and finishes the tiles.
template <typename T>
SPIRA_DEVICE void portable_consume(const conv_params &p, const conv_work &work,
                                   typename T::shared &shared, portable_ring ring) {
    portable_prepare<T>(p, work, shared);
    const portable_place own = portable_place_of<T>();
    const portable_origin origin = portable_origin_any<T>(own);
    const int from = own.across * T::bands * portable_band; // the warp's first channel
    if (own.set) {
        portable_stage_pass(ring);
    }
    if (p.programmatic) {
        pdl_wait(); // before residual, sums and outputs
    }
    for (int left = work.tiles; left > 0; --left) { // between two tiles no register holds sums
        portable_sums<T> sum;
        portable_clear<T>(sum);
        uint32_t at, barrier;
#pragma unroll 1
        for (;;) {
            at = portable_ring_at<T>(ring);
            barrier = portable_ring_barrier(ring);
            const portable_place_in in = portable_origin_in<T>(at, origin);
            mbarrier_wait(barrier, portable_ring_parity(ring));
            const uint32_t state = portable_multiply_any<T>(in, shared.ratio + from, sum);
            if (portable_flagged(state, portable_flag_last)) {
                break;
            }
            mbarrier_arrive_warp(barrier + portable_empty);
            portable_ring_step(ring, 1);
            if (T::split > 1) {
                portable_stage_pass(ring);
            }
        }
        int row[T::fragments][2];
        portable_outputs_load<T>(at, row);
        mbarrier_arrive_warp(barrier + portable_empty);
        portable_ring_step(ring, 1);
        if constexpr (T::split > 1) {
            portable_finish_both<T>(p, shared.scale + from, work.channel + from, ring.memory, row,
                                    sum);
        } else {
            portable_finish_any<T>(p, shared.scale + from, work.channel + from, row, sum);
        }
    }
}

// The thread block's work, and a bit for each row group of a pair that is its own.
//
// Where each tile is a thread block's own, two halve each of the heaviest, p.halved in number: each
// has a row group of the pair.
template <typename T>
SPIRA_DEVICE conv_work portable_work_of(const conv_params &p, uint32_t &groups) {
    conv_work w = conv_work_of<T::columns, T::rows / order_rows>(p);
    const int all = (w.row_groups + T::rows / order_rows - 1) / (T::rows / order_rows);
    groups = (1u << conv_pair_groups) - 1;
    if (T::pairs == 1 && T::exact && p.halved > 0) {
        const bool half = w.own < 2 * p.halved;
        groups = half ? 1u << w.own % 2 : groups;
        w.own = half ? w.own / 2 : w.own - p.halved;
        w.tiles = w.own < all;
    }
    return w;
}

// The same for a producer's lane: it has no outputs where its rows are not the thread block's.
SPIRA_DEVICE conv_work portable_work_own(conv_work w, uint32_t groups) {
    const uint32_t group = threadIdx.x % 32 * portable_lane_rows / order_rows;
    w.outputs = groups >> group & 1 ? w.outputs : 0;
    return w;
}

template <typename T>
SPIRA_DEVICE void portable_compute(const conv_params &p) {
    // ---- prepare
    extern __shared__ __align__(128) char portable_memory[];
    __shared__ typename T::shared shared;
    uint32_t groups;
    const conv_work work = portable_work_of<T>(p, groups);
    if (!p.programmatic || work.tiles == 0) {
        pdl_wait();
    }
    if (work.tiles == 0) {
        return;
    }
    if ((int)threadIdx.x < p.sizes.depth) {
        // A team's lanes with their copies, and one of each warp with its stores; consumer warps.
        mbarrier_init(&shared.full[threadIdx.x], T::pairs * (32 + mbarrier_warp));
        mbarrier_init(&shared.empty[threadIdx.x], T::consumers * mbarrier_warp);
    }
    __syncthreads();
    const portable_ring ring = portable_ring_of<T>(p, shared_address(portable_memory), shared);
    const int warp = __shfl_sync(~0u, (int)threadIdx.x / 32, 0);
    if (warp < portable_teams<T>(p) * T::pairs) {
        portable_produce<T>(p, portable_work_own(work, groups), groups, shared, ring);
    } else if (warp >= T::producers) {
        portable_consume<T>(p, work, shared, ring);
    }
}

// Whether the code for an architecture has the kernel for elements of so many bytes. In code for
// sm_90a Hopper's kernel computes all 16-bit layers; SPIRA_PLAIN_SM90 compiles them here, too.
SPIRA_BOTH constexpr bool portable_has_code([[maybe_unused]] int element) {
#if !SPIRA_MMA
    return false;
#elif defined(__CUDA_ARCH_FEAT_SM90_ALL) && !defined(SPIRA_PLAIN_SM90)
    return element == 4;
#else
    return true;
#endif
}

template <typename T>
SPIRA_KERNEL void __launch_bounds__(T::threads, T::resident)
    portable_kernel([[maybe_unused]] const __grid_constant__ conv_params p) {
    if constexpr (portable_has_code(sizeof(typename T::element))) {
        portable_compute<T>(p);
    }
}

} // namespace spira

#endif
