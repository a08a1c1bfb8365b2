// spira/layout/tile.cuh: builds tiled layouts (layout/tile.h) on the GPU: tile_write from a tile of
// the search, for map_build_forms (map.cuh), and tile_build from a kernel map in memory.
#ifndef SPIRA_LAYOUT_TILE_CUH
#define SPIRA_LAYOUT_TILE_CUH

#include "../base/async.cuh"
#include "../search.cuh"
#include "../status.cuh"
#include "tile.h"

namespace spira {

enum {
    tile_columns_most = 256,                 // offsets of a tile of the search
    tile_words_most = search_slab_taps / 32, // words of the masks of a tile of the search
    tile_units_most = 2,                     // tiles of the layout in one of the search
};

// A tile's taps as bits, by rows and by columns.
struct tile_bits {
    uint32_t row[tile_words_most];    // [words, groups, 32]: the columns 32 w .. that a row has
    uint32_t column[tile_words_most]; // [groups, 32 words]: the rows that have a column
};

// Fills both sets of bits for the columns k with wanted(k). A warp takes 32 rows and 32 columns at
// a time. It reads past the last column, into the next row or search_tile_slack, and discards what
// it finds there.
template <typename Wanted>
SPIRA_DEVICE void tile_find_bits(const search_tile &tile, Wanted wanted, tile_bits *bits) {
    int lane = threadIdx.x & 31, columns = tile.k_end - tile.k_begin;
    int words = (columns + 31) / 32, groups = (tile.rows + 31) / 32;
    for (int i = threadIdx.x / 32; i < words * groups; i += search_threads / 32) {
        int word = i / groups, group = i - word * groups, row = group * 32 + lane;
        int mine = word * 32 + lane; // the column of this lane
        bool take = mine < columns && wanted(tile.k_begin + mine);
        uint32_t has = 0, rows = 0;
        const int32_t *taps = tile.taps + row * tile.pitch + word * 32;
#pragma unroll
        for (int c = 0; c < 32; ++c) {
            bool hit = taps[c] >= 0; // rows past the last have none
            uint32_t all = __ballot_sync(~0u, hit);
            has |= hit ? 1u << c : 0;
            rows = lane == c ? all : rows;
        }
        bits->row[i * 32 + lane] = has & __ballot_sync(~0u, take);
        bits->column[group * (words * 32) + mine] = take ? rows : 0;
    }
}

// A unit is a tile of the layout inside a tile of the search. A piece is the range of offsets that
// the search gives at a time.

// The shared memory of a thread block that writes the layout of its outputs, piece by piece.
struct tile_state {
    tile_bits bits;
    int32_t first[tile_units_most][tile_columns_most];
    int32_t done[tile_units_most]; // groups of the pieces before; 0 before the first
};

enum : uint32_t { tile_residue_rows = 0x11111111u }; // of 32 rows, those with row % 4 == 0

// The rows of a unit that have a column, 32 to a word, and the number of each residue.
struct tile_column {
    int pairs[tile_residues], all;
    uint32_t word[tile_rows_most / 32];
};

SPIRA_DEVICE tile_column tile_column_load(const search_tile &tile, int unit, int rows, int c,
                                          const tile_bits &bits) {
    tile_column column = {};
    int words = (tile.k_end - tile.k_begin + 31) / 32, groups = (tile.rows + 31) / 32;
#pragma unroll
    for (int w = 0; w < tile_rows_most / 32; ++w) {
        int group = unit * (rows / 32) + w;
        bool there = w < rows / 32 && group < groups;
        column.word[w] = there ? bits.column[group * (words * 32) + c] : 0;
        column.all += __popc(column.word[w]);
#pragma unroll
        for (int i = 0; i < tile_residues; ++i) {
            column.pairs[i] += __popc(column.word[w] & tile_residue_rows << i);
        }
    }
    return column;
}

// Finds the first group of each column of a unit. Writes it to the state and to the layout, and the
// offset of each group to the layout. Called by one warp for each unit; at: the unit's tile
SPIRA_DEVICE void tile_scan_columns(const search_tile &tile, int unit, int64_t at,
                                    const tile_layout &t, tile_state *state) {
    int lane = threadIdx.x & 31, columns = tile.k_end - tile.k_begin, before = state->done[unit];
    int32_t *first = t.first + at * (t.volume + 1) + tile.k_begin;
    uint16_t *offset = t.offset + tile_begin(&t, at) / tile_group;
    for (int c = lane; c - lane < columns; c += 32) {
        int mine = tile_column_load(tile, unit, t.rows, c, state->bits).all;
        mine = (mine + tile_group - 1) / tile_group;
        const int sum = warp_sum_up_to(mine);
        if (c < columns) {
            state->first[unit][c] = before + sum - mine;
            first[c] = before + sum - mine;
            for (int g = before + sum - mine; g < before + sum; ++g) {
                offset[g] = (uint16_t)(tile.k_begin + c);
            }
        }
        before += __shfl_sync(~0u, sum, 31);
    }
    __syncwarp();
    if (lane == 0) {
        state->done[unit] = before;
        if (tile.k_end == t.volume) {
            first[columns] = before;
        }
    }
}

// Where the pairs of a piece are written: to shared memory first, so that the global stores are
// coalesced, or directly to the layout.
struct tile_target {
    int32_t *input;
    uint8_t *row;
};

// Writes the pairs of a unit's columns and the padding. A warp takes a column, a lane every 32nd of
// its rows. from: the first group of this piece
SPIRA_DEVICE void tile_put_pairs(const search_tile &tile, int rows, int unit, int from,
                                 tile_target to, const tile_state *state) {
    int columns = tile.k_end - tile.k_begin, lane = threadIdx.x % 32;
    uint32_t like = tile_residue_rows << lane % tile_residues, below = (1u << lane) - 1;
    for (int c = threadIdx.x / 32; c < columns; c += search_threads / 32) {
        tile_column column = tile_column_load(tile, unit, rows, c, state->bits);
        int begin = (state->first[unit][c] - from) * tile_group, rank = 0;
#pragma unroll
        for (int w = 0; w < tile_rows_most / 32; ++w) {
            if (column.word[w] >> lane & 1) {
                int mine = rank + __popc(column.word[w] & like & below), r = w * 32 + lane;
                int at = begin + tile_pair_place(mine, lane % tile_residues, column.pairs);
                to.input[at] = tile.taps[(unit * rows + r) * tile.pitch + c];
                to.row[at] = (uint8_t)r;
            }
            rank += __popc(column.word[w] & like);
        }
        if (lane < (-column.all & (tile_group - 1))) {
            to.input[begin + column.all + lane] = -1;
            to.row[begin + column.all + lane] = (uint8_t)rows;
        }
    }
}

// Writes a piece of a tile of the search to the layout. The same thread block must write the pieces
// of a tile in ascending order of their offsets.
//
// inputs   tile: the first output is a multiple of t.rows; at most two units
//          searched: offsets from this one on have no pairs
//          stage [stage_bytes]: shared memory, aligned to 4
//          state: shared memory; the caller clears `done` before the first piece, then
//          synchronises
// Called by all threads of a block of search_threads. Needs a barrier between two calls.
SPIRA_DEVICE void tile_write(const search_tile &tile, int searched, const tile_layout &t,
                             void *stage, int stage_bytes, tile_state *state) {
    int units = (tile.rows + t.rows - 1) / t.rows;
    int64_t at = tile.first / t.rows;
    int from[tile_units_most];
#pragma unroll
    for (int u = 0; u < tile_units_most; ++u) {
        from[u] = state->done[u];
    }
    tile_find_bits(
        tile, [=](int k) { return k < searched; }, &state->bits);
    __syncthreads();
    if ((int)threadIdx.x / 32 < units) {
        tile_scan_columns(tile, (int)threadIdx.x / 32, at + threadIdx.x / 32, t, state);
    }
    __syncthreads();
#pragma unroll
    for (int u = 0; u < tile_units_most; ++u) {
        if (u >= units) {
            break;
        }
        int64_t begin = tile_begin(&t, at + u) + from[u] * tile_group;
        int entries = (state->done[u] - from[u]) * tile_group;
        tile_target to = {t.input + begin, t.row + begin};
        tile_target staged = {(int32_t *)stage, (uint8_t *)stage + entries * 4};
        bool stages = entries * 5 <= stage_bytes;
        tile_put_pairs(tile, t.rows, u, from[u], stages ? staged : to, state);
        if (stages) {
            __syncthreads();
            for (int i = threadIdx.x; i < entries; i += search_threads) {
                to.input[i] = staged.input[i];
                to.row[i] = staged.row[i];
            }
            __syncthreads(); // the next unit overwrites the stage
        }
    }
}

// Writes the layout of a tile without outputs.
SPIRA_DEVICE void tile_write_empty(int64_t tile, const tile_layout &t) {
    for (int k = threadIdx.x; k <= t.volume; k += search_threads) {
        t.first[tile * (t.volume + 1) + k] = 0;
    }
}

// ---- from a kernel map in memory ----------------------------------------------------------------

enum { tile_piece = 128 }; // offsets of a piece

// Returns the pitch of rows of taps in shared memory: odd, so that rows spread over the banks.
SPIRA_BOTH int tile_piece_pitch(int volume) {
    return (volume < tile_piece ? volume : tile_piece) | 1;
}

// A thread block a tile.
SPIRA_PLAIN_KERNEL void __launch_bounds__(search_threads)
    tile_kernel(const int32_t *__restrict__ map, const int32_t *__restrict__ count,
                int32_t capacity, tile_layout t) {
    extern __shared__ int32_t tile_taps[];
    __shared__ tile_state state;
    int rows = t.rows, first = (int)blockIdx.x * rows;
    int total = min(*count, capacity), pitch = tile_piece_pitch(t.volume);
    if (first >= total) {
        tile_write_empty(blockIdx.x, t);
        return;
    }
    if (threadIdx.x < tile_units_most) {
        state.done[threadIdx.x] = 0;
    }
    map += (int64_t)first * t.volume;
    for (int k = 0; k < t.volume; k += tile_piece) {
        search_tile tile;
        tile.taps = tile_taps;
        tile.first = first;
        tile.rows = min(total - first, rows);
        tile.k_begin = k;
        tile.k_end = min(k + tile_piece, t.volume);
        tile.pitch = pitch;
        __syncthreads();
        for (int row = threadIdx.x / 32; row < rows; row += search_threads / 32) {
            for (int c = threadIdx.x % 32; c < tile.k_end - k; c += 32) {
                tile_taps[row * pitch + c] =
                    row < tile.rows ? map[(int64_t)row * t.volume + k + c] : -1;
            }
        }
        __syncthreads();
        tile_write(tile, t.volume, t, nullptr, 0, &state);
    }
}

// Builds the tiled layout of a kernel map. Where the map itself is not needed, map_build_forms
// (map.cuh) writes the layout directly.
//
// inputs   map [capacity, volume]; count [1]: the rows of the map; both in device memory. A larger
//          count is clamped to the capacity
// outputs  t: all tiles of the capacity; those past the count have no pairs
// errors   null or misaligned pointers, sizes, a layout that is too small for the capacity
// Asynchronous, one launch, no scratch; deterministic, the same bytes as tile_build_host.
// cost     reads the map once, writes 5 bytes for each pair and padding entry
SPIRA_LAUNCHER status tile_build(const int32_t *map, int volume, const int32_t *count,
                                 int32_t capacity, tile_layout t, cudaStream_t stream) {
    SPIRA_TRY(tile_check(map, volume, capacity, &t));
    SPIRA_TRY(pointer_check(count, sizeof *count, "count"));
    int bytes = (t.rows * tile_piece_pitch(volume) + search_tile_slack) * 4;
    tile_kernel<<<(unsigned)tile_count(capacity, t.rows), search_threads, (size_t)bytes, stream>>>(
        map, count, capacity, t);
    return status_of_launch("tile_build");
}

} // namespace spira

#endif
