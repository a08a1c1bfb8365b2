// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/conv/hopper/producer.cuh: producer warps fill the stages of the ring.
//
// Four teams of one or two warps. A team fills every fourth stage: one lane has the copy engine
// copy the weights, all lanes gather the rows of features, and the same lane writes the header.
#ifndef SPIRA_CONV_HOPPER_PRODUCER_CUH
#define SPIRA_CONV_HOPPER_PRODUCER_CUH

#include "../../base/launch.cuh"
#include "gather.cuh"
#include "lookahead.cuh"
#include "ring.cuh"

namespace spira {

// Output channels that a thread block has weights for.
template <typename T>
SPIRA_DEVICE int hopper_weight_rows(const conv_params &p, const conv_work &work) {
    return min(T::columns, hopper_couts(p.cout, sizeof(typename T::element)) - work.channel);
}

// Whether a job is a chunk of the shortcut.
template <bool shortcut, int slots, int row_groups>
SPIRA_DEVICE bool hopper_job_is_shortcut(const hopper_job<slots, row_groups> &job) {
    return shortcut && job.entry[0] & hopper_entry_shortcut;
}

// ---- rows ---------------------------------------------------------------------------------------

// Copies the warp's row groups into the region of a stage that begins at byte `begin` of a chunk.
// first: the warp's first row group of the tile.
template <typename T, int chunk, int begin>
SPIRA_DEVICE void hopper_rows_copy(const conv_params &p, int first,
                                   const hopper_job<hopper_slots(chunk), T::team_row_groups> &job,
                                   const ring_cursor &ring) {
    typedef typename T::element E;
    enum { log = hopper_region_log(chunk, begin), slots = hopper_slots(chunk) };
    enum { lanes = (1 << log) / conv_lane_bytes };
    const bool of_shortcut = hopper_job_is_shortcut<T::shortcut>(job);
    if (begin >= T::shortcut_chunk && of_shortcut) {
        return;
    }
    const uint32_t region = ring_stage(ring) + (uint32_t)hopper_stage_bytes(T::columns, begin);
    const int lane = threadIdx.x % 32, bytes = of_shortcut ? T::shortcut_chunk : chunk;
    const int piece = (job.chunk * bytes + begin) / conv_lane_bytes + lane % lanes;
    const hopper_piece from =
        of_shortcut ? hopper_piece_of<E>(p.shortcut, piece) : hopper_piece_of<E>(p, piece);
#pragma unroll
    for (int i = 0; i < slots; ++i) {
#pragma unroll
        for (int g = 0; g < T::team_row_groups; ++g) {
            if (job.entry[i] >> (hopper_offset_bits + first + g) & 1) {
                uint32_t to = region + (uint32_t)(((first + g) * slots + i) * wgmma_rows << log);
                if (from.wide) {
                    hopper_gather<log>(from, job.source[i][g], to);
                } else {
                    const int32_t(&source)[2] = job.source[i][g];
                    hopper_gather_unaligned<E, log>(from, source[0], source[1], to);
                }
            }
        }
    }
}

// Whether all rows are read by asynchronous copies.
template <bool shortcut>
SPIRA_DEVICE bool hopper_copies_all(const conv_params &p) {
    return p.copy_bytes && (!shortcut || p.shortcut.copy_bytes);
}

// Arrives at `barrier` when the warp's rows have been written. The arrival that follows copies
// (cp.async.mbarrier.arrive) does not release stores. So a warp that may have stored rows waits and
// arrives with all lanes, unless the lane that writes the header arrives after it anyway.
template <int row_groups, bool shortcut>
SPIRA_DEVICE void hopper_arrive(const conv_params &p, uint32_t barrier) {
    if (row_groups == hopper_row_groups || hopper_copies_all<shortcut>(p)) {
        mbarrier_arrive_copies(barrier);
    } else {
        async_copy_wait();
        mbarrier_arrive(barrier);
    }
}

// ---- weights ------------------------------------------------------------------------------------

// Copies the weights of a stage: of each region, those of each offset. One lane of a team calls
// this.
template <typename T, int chunk>
SPIRA_DEVICE void
hopper_weights_copy(const conv_params &p, const conv_work &work,
                    const hopper_job<hopper_slots(chunk), T::team_row_groups> &job,
                    const ring_cursor &ring) {
    enum { columns = T::columns, slots = hopper_slots(chunk) };
    const bool of_shortcut = hopper_job_is_shortcut<T::shortcut>(job);
    const char *weights = (const char *)(of_shortcut ? p.shortcut.weights : p.weights);
    const int bytes = of_shortcut ? T::shortcut_chunk : chunk,
              couts = hopper_couts(p.cout, sizeof(typename T::element));
#pragma unroll
    for (int begin = 0; begin < chunk; begin += hopper_region_first(chunk)) {
        if (begin >= T::shortcut_chunk && of_shortcut) {
            return;
        }
        const int log = hopper_region_log(chunk, begin);
        const uint32_t region = ring_stage(ring) + (uint32_t)hopper_stage_bytes(columns, begin);
#pragma unroll
        for (int i = 0; i < slots; ++i) {
            if (job.entry[i]) {
                const int row = (int)hopper_row_groups * slots * wgmma_rows + i * columns;
                const int offset = (int)(job.entry[i] & ((1u << hopper_offset_bits) - 1));
                const int64_t first = (int64_t)(offset * p.chunks + job.chunk) * couts;
                mbarrier_bulk_copy(
                    region + (uint32_t)(row << log),
                    weights + (first * bytes + couts * begin) + (work.channel << log),
                    (uint32_t)(hopper_weight_rows<T>(p, work) << log), ring_full(ring));
            }
        }
    }
}

template <typename T, int chunk>
SPIRA_DEVICE uint32_t
hopper_weights_bytes(const conv_params &p, const conv_work &work,
                     const hopper_job<hopper_slots(chunk), T::team_row_groups> &job) {
    const uint32_t rows = (uint32_t)hopper_weight_rows<T>(p, work);
    uint32_t bytes = 0;
#pragma unroll
    for (int i = 0; i < hopper_slots(chunk); ++i) {
        const bool less = chunk > T::shortcut_chunk && job.entry[i] & hopper_entry_shortcut;
        bytes += job.entry[i] ? rows * (uint32_t)(less ? T::shortcut_chunk : chunk) : 0;
    }
    return bytes;
}

// ---- stages -------------------------------------------------------------------------------------

// The header of a job's stage: see hopper_header_last.
template <int chunk, int row_groups>
SPIRA_DEVICE uint32_t hopper_header_of(const hopper_job<hopper_slots(chunk), row_groups> &job) {
    enum { slots = hopper_slots(chunk), each = hopper_steps / slots };
    uint32_t header = job.last ? hopper_header_last : 0;
#pragma unroll
    for (int i = 0; i < (int)slots * hopper_row_groups; ++i) {
        bool there =
            job.entry[i / hopper_row_groups] >> (hopper_offset_bits + i % hopper_row_groups) & 1;
        int first = i % hopper_row_groups * hopper_steps + i / hopper_row_groups * each;
        header |= there ? ((1u << each) - 1) << first : 0;
    }
    return header;
}

// The loop of a producer warp.
//
// One set of consumers releases stages in order. With at least four stages no warp can then be a
// whole phase of a barrier ahead of another. Two sets do not release in order: one set releases its
// last stage of a tile when the other may have released stages behind it. A team could then come
// round to a stage that is still read, and take the phase of `empty` for the one after the next. So
// with two sets a team also waits until the stage's previous content had been complete (`full`).
template <typename T, int chunk>
SPIRA_DEVICE void hopper_produce(const conv_params &p, ring_cursor ring) {
    enum { slots = hopper_slots(chunk), warps = T::team_warps, own = T::team_row_groups };
    const conv_work work = hopper_work_of<T::columns>(p);
    const int warp = __shfl_sync(~0u, threadIdx.x / 32, 0) % ((int)hopper_teams * warps);
    const int team = warp / warps, first = warp % warps * own;
    hopper_cursor cursor = {};
    hopper_job<slots, own> job, ahead;
    cursor.tile = -1;
    cursor.word = order_words(p.volume);
    cursor.at = team;
    cursor.next = hopper_tile(p, work, 0);
    cursor.after_next = hopper_tile(p, work, 1);
    conv_masks_load(p, work, 0, 0, cursor.next, cursor.mask_next);
    ring_next(ring, team);
    const bool leads = threadIdx.x % 32 == 0 && first == 0;
    job.chunk = -1; // the first iteration only looks ahead, so that this code is there once
    // The weights of the ring's first round are copied while the previous kernel still runs.
    int begun = 0; // stages to be filled whose weights are under way
    for (int at = team;; at += hopper_teams) {
        hopper_job_next<T::shortcut, T::split>(p, work, first, cursor, ahead);
        if (at < ring.stages && !ahead.stop) {
            if (leads) {
                ring_cursor later = ring;
                later.at = at;
                hopper_weights_copy<T, chunk>(p, work, ahead, later);
            }
            ++begun;
        }
        if (job.chunk >= 0) {
            if constexpr (T::sets > 1) {
                mbarrier_wait(ring_full(ring), ring.phase ^ 1);
            }
            mbarrier_wait(ring_empty(ring, ring.at), ring.phase ^ 1);
            if (leads && begun == 0) {
                hopper_weights_copy<T, chunk>(p, work, job, ring);
            }
            if (begun > 0 && p.programmatic) {
                pdl_wait(); // before the first row of features
            }
            hopper_rows_copy<T, chunk, 0>(p, first, job, ring);
            if constexpr (hopper_region_first(chunk) < chunk) {
                hopper_rows_copy<T, chunk, hopper_region_first(chunk)>(p, first, job, ring);
            }
            hopper_arrive<own, T::shortcut>(p, ring_full(ring));
            __syncwarp();
            if (leads) {
                shared_store(hopper_header(ring), hopper_header_of<chunk, own>(job));
                mbarrier_arrive_expect_tx(ring_full(ring),
                                          hopper_weights_bytes<T, chunk>(p, work, job));
            }
            begun -= begun > 0;
            ring_next(ring, hopper_teams);
        }
        if (ahead.stop) {
            break;
        }
        job = ahead;
    }
    async_copy_wait();
}

} // namespace spira

#endif
