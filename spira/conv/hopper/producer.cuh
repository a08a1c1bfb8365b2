// spira/conv/hopper/producer.cuh: producer warps fill the stages of the ring.
//
// Four teams of one or two warps. A team fills every fourth stage: one lane asks the copy engine
// for the weights, all lanes gather the rows of features, and the same lane writes the header.
#ifndef SPIRA_CONV_HOPPER_PRODUCER_CUH
#define SPIRA_CONV_HOPPER_PRODUCER_CUH

#include "../../base/launch.cuh"
#include "gather.cuh"
#include "lookahead.cuh"
#include "ring.cuh"

namespace spira {

// Output channels that a thread block has weights for.
SPIRA_DEVICE int hopper_weight_rows(const conv_params &p, const conv_work &work, int columns) {
    return min(columns, hopper_couts(p.cout) - work.channel);
}

// Whether a job is a part of the shortcut.
template <bool shortcut, int slots, int row_groups>
SPIRA_DEVICE bool hopper_job_is_shortcut(const hopper_job<slots, row_groups> &job) {
    return shortcut && job.entry[0] & hopper_entry_shortcut;
}

// ---- rows ---------------------------------------------------------------------------------------

// Copies the warp's row groups into the region of a stage that begins at byte `begin` of a part.
// first: the warp's first row group of the tile.
template <typename E, int columns, int part, int begin, int row_groups, bool shortcut>
SPIRA_DEVICE void hopper_fill_rows(const conv_params &p, int first,
                                   const hopper_job<hopper_slots(part), row_groups> &job,
                                   const hopper_ring &ring) {
    enum { log = hopper_region_log(part, begin), slots = hopper_slots(part) };
    enum { lanes = (1 << log) / conv_lane_bytes };
    const uint32_t region = hopper_stage(ring) + (uint32_t)hopper_stage_bytes(columns, begin);
    static_assert(!shortcut || part == hopper_part_whole, "a shortcut has whole parts");
    const int lane = threadIdx.x % 32;
    const int piece = (job.part * part + begin) / conv_lane_bytes + lane % lanes;
    const hopper_piece from = hopper_job_is_shortcut<shortcut>(job)
                                  ? hopper_piece_of<E>(p.shortcut, piece)
                                  : hopper_piece_of<E>(p, piece);
#pragma unroll
    for (int i = 0; i < slots; ++i) {
#pragma unroll
        for (int g = 0; g < row_groups; ++g) {
            if (job.entry[i] >> (hopper_offset_bits + first + g) & 1) {
                uint32_t to = region + (uint32_t)(((first + g) * slots + i) * wgmma_rows << log);
                if (from.wide) {
                    hopper_gather<log>(from, job.source[i][g], to);
                } else {
                    hopper_gather_unaligned<E, log>(from, job.source[i][g], to);
                }
            }
        }
    }
}

// Copies the warp's row groups into all regions of a stage. A part of a shortcut has one region.
template <typename T, int part>
SPIRA_DEVICE void hopper_produce_rows(const conv_params &p, int first,
                                      const hopper_job<hopper_slots(part), T::team_row_groups> &job,
                                      const hopper_ring &ring) {
    typedef typename T::element E;
    enum { columns = T::columns, own = T::team_row_groups };
    if constexpr (part > hopper_part_whole) {
        if (hopper_job_is_shortcut<T::shortcut>(job)) {
            hopper_fill_rows<E, columns, hopper_part_whole, 0, own, true>(p, first, job, ring);
            return;
        }
        hopper_fill_rows<E, columns, part, 0, own, false>(p, first, job, ring);
        hopper_fill_rows<E, columns, part, hopper_part_whole, own, false>(p, first, job, ring);
    } else {
        hopper_fill_rows<E, columns, part, 0, own, T::shortcut>(p, first, job, ring);
    }
}

// Whether all rows are read by asynchronous copies.
template <bool shortcut>
SPIRA_DEVICE bool hopper_is_wide(const conv_params &p) {
    return p.wide_in && p.wide_in2 && (!shortcut || (p.shortcut.wide_in && p.shortcut.wide_in2));
}

// Arrives at `barrier` when the warp's rows have been written. The arrival that follows copies
// (cp.async.mbarrier.arrive) does not release stores. So a warp that may have stored rows waits and
// arrives with all lanes, unless the lane that writes the header arrives after it anyway.
template <int row_groups, bool shortcut>
SPIRA_DEVICE void hopper_arrive(const conv_params &p, uint32_t barrier) {
    if (row_groups == hopper_row_groups || hopper_is_wide<shortcut>(p)) {
        mbarrier_arrive_copies(barrier);
    } else {
        async_copy_wait();
        mbarrier_arrive(barrier);
    }
}

// ---- weights ------------------------------------------------------------------------------------

// Copies the weights of one region. image: number of offset and part; bytes: of a part.
template <int columns, int log>
SPIRA_DEVICE void hopper_weights_copy(const conv_params &p, const conv_work &work,
                                      const void *weights, int image, int bytes, int begin,
                                      uint32_t to, uint32_t barrier) {
    int couts = hopper_couts(p.cout);
    int64_t row = (int64_t)image * couts;
    const char *from = (const char *)weights + (row * bytes + couts * begin);
    mbarrier_bulk_copy(to, from + (work.channel << log),
                       (uint32_t)(hopper_weight_rows(p, work, columns) << log), barrier);
}

// Asks for the weights of the region that begins at byte `begin` of a part.
template <int columns, int part, int begin, int row_groups, bool shortcut>
SPIRA_DEVICE void hopper_fill_weights(const conv_params &p, const conv_work &work,
                                      const hopper_job<hopper_slots(part), row_groups> &job,
                                      const hopper_ring &ring) {
    enum { log = hopper_region_log(part, begin), slots = hopper_slots(part) };
    const uint32_t region = hopper_stage(ring) + (uint32_t)hopper_stage_bytes(columns, begin);
    const bool of_shortcut = hopper_job_is_shortcut<shortcut>(job);
    const void *weights = of_shortcut ? p.shortcut.weights : p.weights;
    const int bytes = of_shortcut ? hopper_part_whole : part;
#pragma unroll
    for (int i = 0; i < slots; ++i) {
        if (job.entry[i]) {
            int row = (int)hopper_row_groups * slots * wgmma_rows + i * columns;
            int offset = (int)(job.entry[i] & ((1u << hopper_offset_bits) - 1));
            hopper_weights_copy<columns, log>(p, work, weights, offset * p.chunks + job.part, bytes,
                                              begin, region + (uint32_t)(row << log),
                                              hopper_full(ring));
        }
    }
}

// Asks for the weights of a stage. One lane of a team calls this.
template <typename T, int part>
SPIRA_DEVICE void
hopper_produce_weights(const conv_params &p, const conv_work &work,
                       const hopper_job<hopper_slots(part), T::team_row_groups> &job,
                       const hopper_ring &ring) {
    enum { columns = T::columns, own = T::team_row_groups };
    hopper_fill_weights<columns, part, 0, own, T::shortcut>(p, work, job, ring);
    if constexpr (part > hopper_part_whole) {
        if (!hopper_job_is_shortcut<T::shortcut>(job)) {
            hopper_fill_weights<columns, part, hopper_part_whole, own, false>(p, work, job, ring);
        }
    }
}

// Bytes of the weights of a stage.
template <int columns, int part, int row_groups>
SPIRA_DEVICE uint32_t hopper_weights_bytes(const conv_params &p, const conv_work &work,
                                           const hopper_job<hopper_slots(part), row_groups> &job) {
    const uint32_t rows = (uint32_t)hopper_weight_rows(p, work, columns);
    uint32_t bytes = 0;
#pragma unroll
    for (int i = 0; i < hopper_slots(part); ++i) {
        const bool whole = part > hopper_part_whole && job.entry[i] & hopper_entry_shortcut;
        bytes += job.entry[i] ? rows * (uint32_t)(whole ? hopper_part_whole : part) : 0;
    }
    return bytes;
}

// ---- stages -------------------------------------------------------------------------------------

// The header of a job's stage: see hopper_header_last.
template <int part, int row_groups>
SPIRA_DEVICE uint32_t hopper_header_of(const hopper_job<hopper_slots(part), row_groups> &job) {
    enum { slots = hopper_slots(part), each = hopper_steps / slots };
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

// Fills a stage with a job. leads: the lane that asks for weights and writes the header; begun: the
// weights are under way already.
template <typename T, int part>
SPIRA_DEVICE void
hopper_produce_stage(const conv_params &p, const conv_work &work, int first, bool leads, bool begun,
                     const hopper_job<hopper_slots(part), T::team_row_groups> &job,
                     const hopper_ring &ring) {
    if (leads && !begun) {
        hopper_produce_weights<T, part>(p, work, job, ring);
    }
    if (begun && p.programmatic) {
        pdl_wait(); // before the first row of features
    }
    hopper_produce_rows<T, part>(p, first, job, ring);
    hopper_arrive<T::team_row_groups, T::shortcut>(p, hopper_full(ring));
    __syncwarp();
    if (leads) {
        shared_store(hopper_header(ring), hopper_header_of<part, T::team_row_groups>(job));
        mbarrier_arrive_expect_tx(
            hopper_full(ring),
            hopper_weights_bytes<T::columns, part, T::team_row_groups>(p, work, job));
    }
}

// The loop of a producer warp.
//
// One set of consumers releases stages in order. With at least four stages no warp can then be a
// whole phase of a barrier ahead of another. Two sets do not release in order: one set releases its
// last stage of a tile when the other may have released stages behind it. A team could then come
// round to a stage that is still read, and take the phase of `empty` for the one after the next. So
// with two sets a team also waits until the stage's previous content had been complete (`full`).
template <typename T, int part>
SPIRA_DEVICE void hopper_produce(const conv_params &p, hopper_ring ring) {
    enum { slots = hopper_slots(part), warps = T::team_warps, own = T::team_row_groups };
    const conv_work work = hopper_work_of<T::columns>(p);
    const int warp = __shfl_sync(~0u, threadIdx.x / 32, 0) % ((int)hopper_teams * warps);
    const int team = warp / warps, first = warp % warps * own;
    hopper_cursor cursor = {};
    hopper_job<slots, own> job, ahead;
    cursor.tile = -1;
    cursor.at = team;
    cursor.next = hopper_tile(p, work, 0);
    cursor.after_next = hopper_tile(p, work, 1);
    conv_masks_load(p, work, 0, cursor.next, cursor.mask_next);
    hopper_ring_next(ring, team);
    const bool leads = threadIdx.x % 32 == 0 && first == 0;
    job.part = -1; // the first iteration only looks ahead, so that this code is there once
    // The weights of the ring's first round are asked for while the previous kernel still runs.
    int begun = 0; // stages to be filled whose weights are under way
    for (int at = team;; at += hopper_teams) {
        hopper_job_next<slots, own, T::shortcut>(p, work, first, cursor, ahead);
        if (at < ring.stages && !ahead.stop) {
            if (leads) {
                hopper_ring later = ring;
                later.at = at;
                hopper_produce_weights<T, part>(p, work, ahead, later);
            }
            ++begun;
        }
        if (job.part >= 0) {
            if constexpr (T::sets > 1) {
                mbarrier_wait(hopper_full(ring), ring.phase ^ 1);
            }
            mbarrier_wait(hopper_empty(ring, ring.at), ring.phase ^ 1);
            hopper_produce_stage<T, part>(p, work, first, leads, begun > 0, job, ring);
            begun -= begun > 0;
            hopper_ring_next(ring, hopper_teams);
        }
        if (ahead.stop) {
            break;
        }
        job = ahead;
    }
    async_copy_wait();
}

// The same, of half parts where the layer has them.
template <typename T>
SPIRA_DEVICE void hopper_produce_any(const conv_params &p, const hopper_ring &ring) {
    if constexpr (T::halves) {
        if (p.part == hopper_part_half) {
            hopper_produce<T, hopper_part_half>(p, ring);
            return;
        }
    }
    hopper_produce<T, T::row>(p, ring);
}

} // namespace spira

#endif
