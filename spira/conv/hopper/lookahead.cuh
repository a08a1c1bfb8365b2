// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/conv/hopper/lookahead.cuh: what each stage will hold: producers find it one stage ahead.
//
// A tile has a stage for each chunk of each offset that one of its row groups has (for each two
// offsets, where a stage holds half chunks), then, with a shortcut, a stage for each chunk of the
// shortcut. The thread blocks of a cluster take turns with them. A team of producer warps fills
// every fourth stage of the thread block: it finds its next stage and loads the source rows'
// numbers while the copies of the current one are under way.
#ifndef SPIRA_CONV_HOPPER_LOOKAHEAD_CUH
#define SPIRA_CONV_HOPPER_LOOKAHEAD_CUH

#include "traits.cuh"

namespace spira {

// Where a producer warp looks ahead.
struct hopper_cursor {
    int tile;                              // of the worker's tiles
    int word;                              // of the tile's masks: the scope's first
    int at, stages;                        // the warp's next stage of the scope, and all of them
    int before_shortcut;                   // stages of the offsets, where there is a shortcut
    int offsets;                           // of the scope: some row group has them
    uint32_t mask[hopper_row_groups];      // a lane's 32 offsets, of each row group of the tile
    int before;                            // offsets in the words of lower lanes
    int number, next, after_next;          // of the tile and of the two after it, read ahead
    uint32_t mask_next[hopper_row_groups]; // of the next scope
};

// What fills a stage: a chunk of one offset, or the offsets that share it.
template <int slots, int row_groups>
struct hopper_job {
    int32_t source[slots][row_groups][2]; // a lane's source rows, of the warp's row groups
    uint32_t entry[slots];                // offset | row groups that have it << 16; 0: none
    int chunk;                            // number of the chunk; -1: no job yet
    bool last, stop;                      // sets hopper_header_last; there are no more stages
};

// Bits of hopper_job.entry.
enum : uint32_t { hopper_offset_bits = 16, hopper_entry_shortcut = 1u << 31 };

// log2 of the thread blocks that share a tile. One or two are less by one: with the same code for
// all, variants of 96 columns spill.
template <int split>
SPIRA_DEVICE int hopper_split_log(const conv_params &p) {
    return split > 2 ? p.split_log : p.sizes.split - 1;
}

// Of the stages of a scope, those of the thread block: at least `least`, which may be empty.
template <int split>
SPIRA_DEVICE int hopper_stages_own(const conv_params &p, int stages, int least) {
    const int above = p.sizes.split - 1;
    return max((stages - hopper_cluster_rank() + above) >> hopper_split_log<split>(p), least);
}

// The number in its scope of the thread block's stage `at`.
template <int split>
SPIRA_DEVICE int hopper_stage_of(const conv_params &p, int at) {
    return (at << hopper_split_log<split>(p)) + hopper_cluster_rank();
}

// Goes to the next scope, of this tile or of the next one: counts its offsets and stages, and reads
// ahead. A tile has a stage at least, in its last scope.
template <int slots, bool shortcut, int split>
SPIRA_DEVICE void hopper_scope_next(const conv_params &p, const conv_work &work, hopper_cursor &c) {
    c.word += conv_scope_words;
    if (c.word >= order_words(p.volume)) {
        c.word = 0;
        ++c.tile;
        c.number = c.next;
        c.next = c.after_next;
        c.after_next = hopper_tile(p, work, c.tile + 2);
    }
    const int last = conv_scope_last(p, c.word);
#pragma unroll
    for (int g = 0; g < hopper_row_groups; ++g) {
        c.mask[g] = c.mask_next[g];
    }
    conv_masks_load(p, work, c.tile + last, last ? 0 : c.word + conv_scope_words,
                    last ? c.next : c.number, c.mask_next);
    int own = __popc(c.mask[0] | c.mask[1]), sum = own;
    static_assert(hopper_row_groups == 2, "two masks");
    for (int step = 1; step < conv_lane_words(p); step *= 2) {
        int lower = __shfl_up_sync(~0u, sum, step);
        sum += (int)threadIdx.x % 32 >= step ? lower : 0;
    }
    c.before = sum - own;
    c.offsets = __shfl_sync(~0u, sum, conv_lane_words(p) - 1);
    int stages = slots > 1 ? (c.offsets + slots - 1) / slots : c.offsets * p.chunks;
    c.stages = hopper_stages_own<split>(p, stages, last);
    if (shortcut) {
        c.before_shortcut = c.stages;
        c.stages += last ? hopper_stages_own<split>(p, p.shortcut.chunks, 1) : 0;
    }
}

// Finds offset number `at` of the scope, which must have it. Returns hopper_job.entry.
SPIRA_DEVICE uint32_t hopper_offset_find(const hopper_cursor &c, int words, int at) {
    const int lane = threadIdx.x % 32;
    int word = 0;
    if (words > 1) {
        word = 31 - __clz((int)__ballot_sync(~0u, lane < words && c.before <= at));
        at -= __shfl_sync(~0u, c.before, word);
    }
    uint32_t has[hopper_row_groups], any = 0;
#pragma unroll
    for (int g = 0; g < hopper_row_groups; ++g) {
        has[g] = __shfl_sync(~0u, c.mask[g], word);
        any |= has[g];
    }
    bool own = (any >> lane & 1) && __popc(any & ((1u << lane) - 1)) == at;
    uint32_t bit = (uint32_t)__ffs((int)__ballot_sync(~0u, own)) - 1,
             entry = (c.word + word) * 32 + bit;
#pragma unroll
    for (int g = 0; g < hopper_row_groups; ++g) {
        entry |= (has[g] >> bit & 1) << (hopper_offset_bits + g);
    }
    return entry;
}

// Loads the source rows of an offset. first: the warp's first row group of the tile.
template <int row_groups>
SPIRA_DEVICE void hopper_sources_load(const conv_params &p, const conv_work &work, int number,
                                      int first, uint32_t entry, int32_t (&source)[row_groups][2]) {
    const int lane = threadIdx.x % 32, offset = (int)(entry & ((1u << hopper_offset_bits) - 1));
#pragma unroll
    for (int g = 0; g < row_groups; ++g) {
        const int group = number * hopper_row_groups + first + g;
        const bool there = entry >> (hopper_offset_bits + first + g) & 1;
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            source[g][h] = conv_source_load(p, work, group, offset, there, h * 32 + lane);
        }
    }
}

// The warp's next chunk of the shortcut. Its source rows are the output rows of the tile.
template <int split, int row_groups>
SPIRA_DEVICE void hopper_job_shortcut(const conv_params &p, const conv_work &work, int first_group,
                                      const hopper_cursor &c, hopper_job<1, row_groups> &job) {
    const int lane = threadIdx.x % 32;
    job.last = c.at == c.stages - 1;
    job.chunk = hopper_stage_of<split>(p, c.at - c.before_shortcut);
    job.entry[0] = 0;
    if (job.chunk >= p.shortcut.chunks) {
        return; // other thread blocks of the cluster have the last ones
    }
    job.entry[0] = hopper_entry_shortcut;
#pragma unroll
    for (int g = 0; g < hopper_row_groups; ++g) {
        bool there = c.number * hopper_row_groups + g < work.row_groups;
        job.entry[0] |= there ? 1u << (hopper_offset_bits + g) : 0;
    }
#pragma unroll
    for (int i = 0; i < 2 * row_groups; ++i) {
        int group = c.number * hopper_row_groups + first_group + i / 2;
        int place = group * order_rows + i % 2 * 32 + lane;
        job.source[0][i / 2][i % 2] = conv_output_load(p, work.outputs, place);
    }
}

// The warp's next job, with its source rows loaded.
template <bool shortcut, int split, int slots, int row_groups>
SPIRA_DEVICE void hopper_job_next(const conv_params &p, const conv_work &work, int first_group,
                                  hopper_cursor &c, hopper_job<slots, row_groups> &job) {
    while (c.at >= c.stages && c.tile < work.tiles) {
        c.at -= c.stages;
        hopper_scope_next<slots, shortcut, split>(p, work, c);
    }
    if constexpr (shortcut) {
        if (c.at >= c.before_shortcut && c.tile < work.tiles) {
            job.stop = false;
            hopper_job_shortcut<split>(p, work, first_group, c, job);
            c.at += hopper_teams;
            return;
        }
    }
    const int stage = hopper_stage_of<split>(p, c.at);
    int first = slots > 1 ? stage * slots : stage;
    if (slots == 1 && p.chunks > 1) {
        first = (int)((uint32_t)stage / (uint32_t)p.chunks);
    }
    job.stop = c.tile >= work.tiles;
    job.last = c.at == (shortcut ? c.before_shortcut : c.stages) - 1 && conv_scope_last(p, c.word);
    job.chunk = slots > 1 ? 0 : stage - first * p.chunks;
#pragma unroll
    for (int i = 0; i < slots; ++i) {
        job.entry[i] = 0;
        if (first + i < c.offsets) {
            job.entry[i] = hopper_offset_find(c, conv_lane_words(p), first + i);
            hopper_sources_load<row_groups>(p, work, c.number, first_group, job.entry[i],
                                            job.source[i]);
        }
    }
    c.at += hopper_teams;
}

} // namespace spira

#endif
