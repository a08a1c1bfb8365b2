// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/conv/hopper/consumer.cuh: consumer warpgroups multiply the stages of a tile.
//
// A warpgroup keeps the accumulators of its row groups in registers from the first offset of a tile
// to the epilogue. The products of a stage run while the warpgroup waits for the next stage; then
// the previous stage is released to the producers.
#ifndef SPIRA_CONV_HOPPER_CONSUMER_CUH
#define SPIRA_CONV_HOPPER_CONSUMER_CUH

#include "ring.cuh"

namespace spira {

// What a consumer warpgroup is: the number of its set, its first row group of a tile, and where the
// zeros are.
struct hopper_place {
    int set, group;
    uint32_t zeros;
};

// Multiplies a stage for the row groups of a warpgroup. steps: bits
// of the stage's header. Steps of an offset that a row group does not have read zeros: with a
// branch the compiler would wait for each step.
template <typename T, int chunk>
SPIRA_DEVICE void hopper_multiply(uint32_t stage, const hopper_place &own, uint32_t steps,
                                  typename T::sum (&sum)[T::row_groups][T::columns / 2]) {
    typedef typename T::element E;
    enum { columns = T::columns, row_groups = T::row_groups };
    enum { log = hopper_region_log(chunk, 0), slots = hopper_slots(chunk) };
    constexpr int group_bytes = hopper_slots(chunk) * wgmma_rows << log; // of a row group
    constexpr int each = (1 << log) / wgmma_step_bytes;                  // steps of an offset
    const uint32_t z = wgmma_address(own.zeros);
    const uint32_t first = wgmma_address(stage + own.group * group_bytes);
    const uint32_t weights = wgmma_address(stage + hopper_row_groups * group_bytes);
    uint32_t a[slots][row_groups], b[slots][row_groups];
#pragma unroll
    for (int i = 0; i < slots; ++i) {
#pragma unroll
        for (int g = 0; g < row_groups; ++g) {
            bool there = (slots == 1 && row_groups == 1) ||
                         (steps >> (g * hopper_steps + i * ((int)hopper_steps / slots)) & 1);
            a[i][g] = there ? first + ((g * group_bytes + (i * wgmma_rows << log)) >> 4) : z;
            b[i][g] = there || slots == 1 ? weights + ((i * columns << log) >> 4) : z;
        }
    }
    wgmma_begin();
#pragma unroll
    for (int s = 0; s < (int)slots * each; ++s) {
#pragma unroll
        for (int g = 0; g < row_groups; ++g) {
            const int slot = s / each, at = s % each * wgmma_step_bytes >> 4;
            wgmma_step<E, columns>(sum[g], a[slot][g] + at, b[slot][g] + at, wgmma_form(log));
        }
    }
    if constexpr (hopper_region_first(chunk) < chunk) {
        constexpr int begin = hopper_region_first(chunk), bytes = chunk - begin;
        constexpr int rows = wgmma_rows * bytes; // bytes of a row group
        const uint32_t region = stage + hopper_stage_bytes(columns, begin);
        const uint32_t last_b = wgmma_address(region + (int)hopper_row_groups * rows);
#pragma unroll
        for (int at = 0; at < bytes; at += wgmma_step_bytes) {
#pragma unroll
            for (int g = 0; g < row_groups; ++g) {
                uint32_t last_a = wgmma_address(region + (own.group + g) * rows);
                last_a = row_groups == 1 || (steps >> (g * hopper_steps) & 1) ? last_a : z;
                wgmma_step<E, columns>(sum[g], last_a + (at >> 4), last_b + (at >> 4),
                                       wgmma_form(hopper_region_log(chunk, begin)));
            }
        }
    }
    wgmma_end();
}

// Waits for the next stage that has products for the warpgroup and returns its header, or 0 at the
// end of the tile. Releases stages without products, and the stage before them (`before`; -1: it
// has been released).
template <int row_groups>
SPIRA_DEVICE uint32_t hopper_stage_wait(int group, int &before, ring_cursor &ring) {
    for (;;) {
        mbarrier_wait(ring_full(ring), ring.phase);
        // The lane that releases the stage reads for all: racecheck does not see the others' reads.
        uint32_t header = shared_load_elected(hopper_header(ring));
        if (row_groups < hopper_row_groups) { // leaves the steps of this row group
            header = (header & hopper_header_last) |
                     (header >> group * hopper_steps & ((1 << hopper_steps) - 1));
        }
        if (header & (hopper_header_last - 1)) {
            return header;
        }
        if (before >= 0) {
            wgmma_wait<0>();
            ring_release(ring, before);
            before = -1;
        }
        ring_release(ring, ring.at);
        ring_next(ring);
        if (header) {
            return 0;
        }
    }
}

// Multiplies all stages up to one that is marked as the last. signal: the other set goes on behind
// it.
template <typename T, int chunk>
SPIRA_DEVICE void hopper_accumulate_stages(const hopper_place &own, bool signal, ring_cursor &ring,
                                           typename T::sum (&sum)[T::row_groups][T::columns / 2]) {
    int before = -1;
    for (uint32_t header = hopper_stage_wait<T::row_groups>(own.group, before, ring); header;) {
        hopper_multiply<T, chunk>(ring_stage(ring), own, header, sum);
        wgmma_wait<1>();
        if (before >= 0) {
            ring_release(ring, before);
        }
        before = ring.at;
        ring_next(ring);
        header = header & hopper_header_last
                     ? 0
                     : hopper_stage_wait<T::row_groups>(own.group, before, ring);
    }
    if (T::sets > 1 && signal) {
        hopper_pingpong_signal(own.set, own.group, ring);
    }
    wgmma_wait<0>();
#pragma unroll
    for (int i = 0; i < T::row_groups; ++i) {
        wgmma_settle(sum[i]);
    }
    if (before >= 0) {
        ring_release(ring, before);
    }
}

// Rescales the accumulators of the offsets by scale / scale', so that the shortcut's products can
// be added: see conv_shortcut_load.
template <int columns>
SPIRA_DEVICE void hopper_rescale(const hopper_shared &shared, float (&sum)[columns / 2]) {
    const float *ratio = shared.ratio + warp_lane() % 4 * 2;
#pragma unroll
    for (int j = 0; j < columns / 8; ++j) {
        const float2 r = *(const float2 *)(ratio + 8 * j);
        sum[4 * j] *= r.x;
        sum[4 * j + 1] *= r.y;
        sum[4 * j + 2] *= r.x;
        sum[4 * j + 3] *= r.y;
    }
}

// Multiplies all stages of a tile, the shortcut's last. In int8 both have one scale already. Both
// loops are written out: in a loop over the two the compiler would keep the accumulators in local
// memory.
template <typename T, int chunk>
SPIRA_DEVICE void hopper_accumulate(const hopper_shared &shared, const hopper_place &own,
                                    ring_cursor &ring,
                                    typename T::sum (&sum)[T::row_groups][T::columns / 2]) {
#pragma unroll
    for (int i = 0; i < T::row_groups * T::columns / 2; ++i) {
        sum[i / (T::columns / 2)][i % (T::columns / 2)] = 0;
    }
    hopper_accumulate_stages<T, chunk>(own, !T::shortcut, ring, sum);
    if constexpr (T::shortcut) {
        if constexpr (!T::integer) {
#pragma unroll
            for (int i = 0; i < T::row_groups; ++i) {
                hopper_rescale<T::columns>(shared, sum[i]);
                wgmma_settle(sum[i]);
            }
        }
        hopper_accumulate_stages<T, T::shortcut_chunk>(own, true, ring, sum);
    }
}

} // namespace spira

#endif
