// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/conv/portable/cursor.cuh: what the stages will hold: one entry for each offset of a tile.
//
// All producer warps of a thread block walk the same tiles and offsets, ascending. An entry has a
// stage for each chunk of a row. A tile ends with the shortcut's entry, if there is one; a scope
// (schedule.cuh) without either has one entry of no rows.
//
// Two or four teams of producer warps take turns: each fills a run of two stages of an entry, then
// leaves out the runs of the others. From a team's last stage to its next there are at most 3 or 7
// stages. Rings are at least as deep, so no team is a whole ring ahead of another: a barrier's
// parity is then enough to tell its phases apart. Each warp of a team gathers 128 rows.
//
// A warp's next entries are in slots of shared memory, with the source rows of its 128 rows:
// asynchronous copies bring these. Loaded into registers, they would have to arrive before the
// compiler moves them from one register to another, in the middle of other work.
#ifndef SPIRA_CONV_PORTABLE_CURSOR_CUH
#define SPIRA_CONV_PORTABLE_CURSOR_CUH

#include "traits.cuh"

namespace spira {

// What a slot says of its entry, behind the source rows (-1: none). The next words are the warp's
// first row in the layout, and the stages between the team's last run and its first of this entry.
enum : uint32_t {
    portable_offset = (1u << 12) - 1,
    portable_last = 1u << 12,        // it is the tile's last
    portable_of_shortcut = 1u << 13, // its rows and weights are those of the shortcut
    portable_none = 1u << 14,        // there are no more entries
    portable_first = 1u << 15,       // times the number of the team's first run: 0 .. 3
};

static_assert(kernel_volume_max <= portable_offset + 1, "an offset fits");

// Keeps a value that depends on the thread in a register: the compiler would compute it again and
// again in the loop over stages.
SPIRA_DEVICE uint32_t portable_keep(uint32_t v) {
    return __shfl_sync(~0u, v, warp_lane());
}

// Keeps the compiler from computing what depends on a value before it gets here.
template <typename V>
SPIRA_DEVICE V portable_here(V v) {
#ifdef __CUDA_ARCH__
    if constexpr (sizeof(V) == 8) {
        asm volatile("" : "+l"(v));
    } else {
        asm volatile("" : "+r"(v));
    }
#endif
    return v;
}

// A word that is the same in all lanes. The compiler sees that the result of a vote is the same in
// all lanes, and of a load or a shuffle not: branches that depend on it would be divergent ones.
SPIRA_DEVICE uint32_t portable_uniform(uint32_t v) {
    return __ballot_sync(~0u, v >> threadIdx.x % 32 & 1);
}

// The word that a lane has, in each lane.
SPIRA_DEVICE uint32_t portable_spread(uint32_t v, int lane) {
    return portable_uniform(__shfl_sync(~0u, v, lane));
}

// Teams that fill the ring. Those of a shallow one are two.
template <typename T>
SPIRA_DEVICE int portable_teams(const conv_params &p) {
    return T::teams > 2 && p.sizes.depth >= portable_teams_stages(T::teams) ? T::teams : 2;
}

// Where a warp looks ahead. pairs: of row groups of a tile.
template <int pairs>
struct portable_cursor {
    int tile;              // of the worker's tiles
    int word;              // of the tile's masks: the scope's first
    int row;               // the lane's first of four, in the layout
    const int32_t *source; // of this row, for offset 0
    uint32_t rest, own;    // offsets first .. first + 31: those of the tile that are still to
    int first;             // come; those of the lane's row group
    uint32_t all;          // the lane's 32 offsets of the scope: of the tile,
    uint32_t of[2];        // and of the row groups of the warp's pair
    uint32_t words;        // lanes whose `all` is still to come
    bool shortcut;         // the tile's shortcut is still to come
    int turn;              // runs of the other teams before the team's next
    int skip;              // stages since the team's last run
    int pair[pairs];       // of one of 32 tiles, the lane's: portable_pairs_load
    int next[pairs];       // pairs of the next scope
    uint32_t mask[pairs][conv_pair_groups]; // of the next scope
};

// The numbers of the pairs of 32 tiles, `tile` a multiple of 32: a lane has those of tile + lane;
// unspecified past the last.
template <typename T>
SPIRA_DEVICE void portable_pairs_load(const conv_params &p, const conv_work &work, int tile,
                                      int (&pair)[T::pairs]) {
    const int all = order_pairs(work.row_groups), own = tile + (int)threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < T::pairs; ++i) {
        const int place = conv_tile_place(work, own) * T::pairs + i;
        pair[i] = conv_pair_at(p, own < work.tiles && place < all, place);
    }
}

// Loads what follows: a scope of a tile. first: the scope's first word.
template <typename T>
SPIRA_DEVICE void portable_scope_load(const conv_params &p, const conv_work &work, int tile,
                                      int first, portable_cursor<T::pairs> &c) {
    if (tile % 32 == 0 && first == 0) {
        portable_pairs_load<T>(p, work, tile, c.pair);
    }
#pragma unroll
    for (int i = 0; i < T::pairs; ++i) {
        c.next[i] = __shfl_sync(~0u, c.pair[i], tile % 32);
        conv_masks_load(p, work, tile, first, c.next[i], c.mask[i]);
    }
}

template <typename T>
SPIRA_DEVICE void portable_scope_next(const conv_params &p, const conv_work &work,
                                      portable_cursor<T::pairs> &c) {
    const int own = (int)threadIdx.x / 32 % T::pairs, at = warp_lane() * portable_lane_rows;
    int pair = 0;
    c.all = c.of[0] = c.of[1] = 0;
#pragma unroll
    for (int i = 0; i < T::pairs; ++i) {
        c.all |= c.mask[i][0] | c.mask[i][1];
        c.of[0] = own == i ? c.mask[i][0] : c.of[0];
        c.of[1] = own == i ? c.mask[i][1] : c.of[1];
        pair = own == i ? c.next[i] : pair;
    }
    const int group = pair * conv_pair_groups + at / order_rows;
    c.row = group * order_rows + at % order_rows;
    if (p.order.row) {
        c.source = p.order.source + ((int64_t)group * p.volume * order_rows + at % order_rows);
    }
    c.words = __ballot_sync(~0u, c.all != 0);
    c.word += conv_scope_words;
    if (c.word >= order_words(p.volume)) {
        c.word = 0;
        ++c.tile;
    }
    const bool last = conv_scope_last(p, c.word);
    c.shortcut = p.shortcut.chunks > 0 && c.tile < work.tiles && last;
    portable_scope_load<T>(p, work, c.tile + last, last ? 0 : c.word + conv_scope_words, c);
}

// Before the first tile. groups: of the pair, those of the thread block; it has one tile if it has
// not both.
template <typename T>
SPIRA_DEVICE void portable_cursor_begin(const conv_params &p, const conv_work &work,
                                        uint32_t groups, portable_cursor<T::pairs> &c) {
    c.tile = -1;
    c.word = order_words(p.volume);
    c.row = c.first = c.skip = 0;
    c.source = nullptr;
    c.rest = c.own = c.words = 0;
    c.shortcut = false;
    c.turn = (int)portable_uniform(threadIdx.x / 32 / T::pairs);
    portable_scope_load<T>(p, work, 0, 0, c);
    if (T::pairs == 1) {
        c.mask[0][0] = groups & 1 ? c.mask[0][0] : 0;
        c.mask[0][1] = groups & 2 ? c.mask[0][1] : 0;
    }
}

// Finds offsets of which some are still to come: of this scope, or of the next one.
template <typename T>
SPIRA_DEVICE void portable_cursor_refill(const conv_params &p, const conv_work &work,
                                         portable_cursor<T::pairs> &c) {
    if (!c.words && !c.shortcut && c.tile < work.tiles) {
        portable_scope_next<T>(p, work, c);
    }
    if (c.words) {
        const int word = __ffs((int)c.words) - 1;
        const uint32_t low = portable_spread(c.of[0], word), high = portable_spread(c.of[1], word);
        c.words &= c.words - 1;
        c.rest = portable_spread(c.all, word);
        c.own = warp_lane() * portable_lane_rows < order_rows ? low : high;
        c.first = (c.word + word) * 32;
    }
}

SPIRA_DEVICE int portable_entry_stages(const conv_params &p, bool of_shortcut) {
    return of_shortcut ? p.shortcut.chunks : p.chunks;
}

SPIRA_DEVICE int portable_runs(int stages) {
    return (int)((uint32_t)(stages + portable_run_stages - 1) / portable_run_stages);
}

// Leaves out the stages of an entry that follow the team's last run, or all, and goes on to the
// next entry.
SPIRA_DEVICE void portable_turn_next(int stages, int teams, int &turn, int &skip) {
    const int runs = portable_runs(stages);
    const int own = ((runs - 1 - turn) & -teams) + turn; // the team's last run
    const bool some = turn < runs;
    skip = some ? max(stages - (own + 1) * portable_run_stages, 0) : skip + stages;
    turn = some ? own + teams - runs : turn - runs;
}

// Copies four source rows into a slot, as many as are `there`; -1 for the others.
SPIRA_DEVICE void portable_rows_copy(uint32_t to, const int32_t *from, int there) {
    if (there >= portable_lane_rows && (uintptr_t)from % 16 == 0) {
        async_copy_16(to, from, true);
        return;
    }
#pragma unroll
    for (int i = 0; i < portable_lane_rows; ++i) {
        if (i < there) {
            async_copy_cached<4>(to + i * 4, from + i, true);
        } else {
            shared_store(to + i * 4, ~0u);
        }
    }
}

// The same of the identity: row, row + 1, ..
SPIRA_DEVICE void portable_rows_count(uint32_t to, int row, int there) {
#pragma unroll
    for (int i = 0; i < portable_lane_rows; ++i) {
        shared_store(to + i * 4, i < there ? (uint32_t)(row + i) : ~0u);
    }
}

// Leaves out offsets of which the team has no run, but for the last of its word.
template <int pairs>
SPIRA_DEVICE void portable_offsets_skip(int stages, portable_cursor<pairs> &c) {
    const int runs = portable_runs(stages);
    while (c.turn >= runs && c.rest & (c.rest - 1)) {
        c.rest &= c.rest - 1;
        c.turn -= runs;
        c.skip += stages;
    }
}

// Puts the team's next entry into a slot; its source rows are on their way.
template <typename T>
SPIRA_DEVICE void portable_entry_next(const conv_params &p, const conv_work &work,
                                      portable_cursor<T::pairs> &c, uint32_t slot) {
    uint32_t what;
    bool there;
    bool others;
    do {
        if (!c.rest) {
            portable_cursor_refill<T>(p, work, c);
        }
        if (T::teams > 2) {
            portable_offsets_skip(p.chunks, c);
        }
        if (c.rest) {
            const int bit = __ffs((int)c.rest) - 1;
            c.rest &= c.rest - 1;
            there = c.own >> bit & 1;
            what = (uint32_t)(c.first + bit);
        } else {
            there = c.shortcut;
            what = c.shortcut             ? 0u + portable_of_shortcut
                   : c.tile >= work.tiles ? 0u + portable_none
                                          : 0;
            c.shortcut = false;
        }
        const int stages = portable_entry_stages(p, what & portable_of_shortcut);
        others = c.turn >= portable_runs(stages) && !(what & portable_none);
        if (others) {
            portable_turn_next(stages, portable_teams<T>(p), c.turn, c.skip);
        }
    } while (others);
    const bool last = !c.rest && !c.words && !c.shortcut && conv_scope_last(p, c.word);
    what |= last ? 0u + portable_last : 0u;
    what |= (uint32_t)c.turn * portable_first;
    __syncwarp(); // the slot's last entry has been read
    const int lane = warp_lane();
    if (lane == 0) {
        shared_store_4(slot + T::gathered * 4,
                       make_uint4(what, (uint32_t)c.row,
                                  (uint32_t)(c.skip + c.turn * portable_run_stages), 0));
    }
    portable_turn_next(portable_entry_stages(p, what & portable_of_shortcut), portable_teams<T>(p),
                       c.turn, c.skip);
    const uint32_t own = slot + (uint32_t)lane * (portable_lane_rows * 4);
    const int rows = there ? work.outputs - c.row : 0;
    if (p.order.row) {
        portable_rows_copy(own,
                           what & portable_of_shortcut
                               ? p.order.row + c.row
                               : c.source + (what & portable_offset) * order_rows,
                           rows);
    } else {
        portable_rows_count(own, c.row, rows);
    }
}

} // namespace spira

#endif
