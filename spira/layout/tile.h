// spira/layout/tile.h: the kernel map in the form that convolutions read, but for those of few
// channels (conv/narrow.cuh) and on Hopper's warpgroups (conv/hopper.cuh), which read the one of
// layout/order.h.
//
// Tiled layout. The outputs are cut into tiles of so many consecutive rows (64 is usual). A tile
// has the list of its pairs, offset by offset. The pairs of an offset are in the order of their
// outputs, but rows of different numbers modulo 4 take turns as long as there are such (their sums
// stand in different banks of shared memory), and they are padded to groups of 16. A convolution
// that owns some tiles finds the rows to multiply for an offset side by side, without those that
// are not there, and adds what they give to sums that stay on the chip.
//
//   first  [tiles, volume + 1]           where the groups of each offset start in the tile's list
//   offset [tiles, rows * volume / 16]   the list: the offset of each group,
//   input  [tiles, rows * volume]        the source rows of its pairs, -1 in the padding,
//   row    [tiles, rows * volume]        and their output rows, from the tile's first; `rows`
//
// Of a list only the first first[tile][volume] groups are written.
#ifndef SPIRA_LAYOUT_TILE_H
#define SPIRA_LAYOUT_TILE_H

#include "../offset.h"
#include "../workspace.h"

namespace spira {

enum { tile_group = 16, tile_rows_most = 128 };

struct tile_layout {
    int32_t *first;   // [tiles, volume + 1]
    uint16_t *offset; // [tiles, rows * volume / 16]
    int32_t *input;   // [tiles, rows * volume]
    uint8_t *row;     // [tiles, rows * volume]
    int32_t tiles;    // tile_count(capacity, rows)
    int32_t volume;
    int32_t rows; // of a tile
};

// Rows of a tile for a kernel of this volume: what is usual, and the most. Larger tiles have less
// padding and more work for each fetch of the weights, but there are fewer of them.
SPIRA_BOTH int tile_rows(int volume) {
    return volume <= 128 ? 64 : 32;
}

SPIRA_BOTH int tile_rows_limit(int volume) {
    return volume <= 32 ? tile_rows_most : tile_rows(volume);
}

SPIRA_BOTH bool tile_rows_valid(int rows, int volume) {
    return rows == tile_rows(volume) || rows == tile_rows_limit(volume);
}

// What is good for a layer of so many channels (the larger of both sides) and outputs.
SPIRA_BOTH int tile_rows_choose(int volume, int channels, int32_t outputs) {
    return channels >= 64 && outputs >= 32768 ? tile_rows_limit(volume) : tile_rows(volume);
}

// Tiles for a capacity of outputs.
SPIRA_BOTH int32_t tile_count(int32_t capacity, int rows) {
    return (int32_t)ceil_div(capacity, rows);
}

// Where the list of a tile begins.
SPIRA_BOTH int64_t tile_begin(const tile_layout *t, int64_t tile) {
    return tile * t->rows * t->volume;
}

// Carves a tiled layout out of the caller's memory (or counts its bytes: workspace.h).
SPIRA_API tile_layout tile_layout_take(workspace *w, int32_t capacity, int32_t volume,
                                       int32_t rows) {
    tile_layout t;
    t.tiles = tile_count(capacity, rows);
    t.volume = volume;
    t.rows = rows;
    t.first = workspace_take<int32_t>(w, (int64_t)t.tiles * (volume + 1));
    t.offset = workspace_take<uint16_t>(w, tile_begin(&t, t.tiles) / tile_group);
    t.input = workspace_take<int32_t>(w, tile_begin(&t, t.tiles));
    t.row = workspace_take<uint8_t>(w, tile_begin(&t, t.tiles));
    return t;
}

SPIRA_API status tile_layout_check(const tile_layout *t, int volume, int32_t capacity) {
    SPIRA_REQUIRE(t, status_null_pointer, "layout", 0);
    SPIRA_REQUIRE(t->first && t->offset && t->input && t->row, status_null_pointer, "layout", 0);
    SPIRA_REQUIRE(t->volume == volume, status_bad_size, "layout.volume", t->volume);
    SPIRA_REQUIRE(tile_rows_valid(t->rows, volume), status_bad_size, "layout.rows", t->rows);
    SPIRA_REQUIRE(t->tiles >= tile_count(capacity, t->rows), status_capacity, "layout.tiles",
                  tile_count(capacity, t->rows));
    return status_success();
}

SPIRA_API status tile_check(const int32_t *map, int volume, int32_t capacity,
                            const tile_layout *t) {
    SPIRA_REQUIRE(map, status_null_pointer, "map", 0);
    SPIRA_REQUIRE(volume >= 1 && volume <= kernel_volume_max, status_bad_size, "volume", volume);
    SPIRA_REQUIRE(capacity >= 1 && capacity <= INT32_MAX / 2, status_bad_size, "capacity",
                  capacity);
    return tile_layout_check(t, volume, capacity);
}

enum { tile_turns = 4 };

// Where, among the pairs of an offset, pair number `rank` of those whose rows are `turn` modulo 4
// stands; pairs: how many there are of each.
SPIRA_BOTH int tile_pair_place(int rank, int turn, const int (&pairs)[tile_turns]) {
    int place = 0;
    for (int i = 0; i < tile_turns; ++i) {
        int before = rank + (i < turn);
        place += pairs[i] < before ? pairs[i] : before;
    }
    return place;
}

// The pairs of one offset of a tile: `found` of the tile so far; returns it with these.
//
// taps: the offset's source of the tile's first row; those of the others follow at `pitch`
SPIRA_API int tile_put_host(const int32_t *taps, int64_t pitch, int rows, int k, int found,
                            int64_t tile, const tile_layout *t) {
    int64_t begin = tile_begin(t, tile);
    int pairs[tile_turns] = {}, rank[tile_turns] = {}, first = found;
    for (int r = 0; r < rows; ++r) {
        pairs[r % tile_turns] += taps[r * pitch] >= 0;
    }
    for (int r = 0; r < rows; ++r) {
        int32_t source = taps[r * pitch];
        if (source >= 0) {
            int at = first + tile_pair_place(rank[r % tile_turns]++, r % tile_turns, pairs);
            t->input[begin + at] = source;
            t->row[begin + at] = (uint8_t)r;
            ++found;
        }
    }
    for (; found % tile_group; ++found) {
        t->input[begin + found] = -1;
        t->row[begin + found] = (uint8_t)t->rows;
    }
    for (int g = first / tile_group; g < found / tile_group; ++g) {
        t->offset[begin / tile_group + g] = (uint16_t)k;
    }
    return found;
}

// Builds the tiled layout of a map: the host loop of `tile_build` (layout/tile.cuh).
//
// inputs   map [capacity, volume], of which `count` rows are read
// outputs  t: all tiles of the capacity; those beyond the count have no pairs
SPIRA_API status tile_build_host(const int32_t *map, int volume, int32_t count, int32_t capacity,
                                 tile_layout t) {
    SPIRA_TRY(tile_check(map, volume, capacity, &t));
    SPIRA_REQUIRE(count >= 0 && count <= capacity, status_bad_size, "count", count);
    SPIRA_PARALLEL_FOR
    for (int32_t tile = 0; tile < tile_count(capacity, t.rows); ++tile) {
        int64_t row = (int64_t)tile * t.rows;
        int rows = (int)min_of(max_of(count - row, 0), t.rows), found = 0;
        int32_t *first = t.first + (int64_t)tile * (volume + 1);
        for (int k = 0; k < volume; ++k) {
            first[k] = found / tile_group;
            found = tile_put_host(map + row * volume + k, volume, rows, k, found, tile, &t);
        }
        first[volume] = found / tile_group;
    }
    return status_success();
}

} // namespace spira

#endif
