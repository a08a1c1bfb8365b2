// spira/layout/tile.h: the tiled layout of a kernel map, and the host loop that builds it. Most
// convolutions read it; those of few channels (conv/narrow.cuh) and the Hopper kernels
// (conv/hopper.cuh) read the ordered layout (layout/order.h).
//
// A tile is a number of consecutive outputs (64 is usual) with the list of its pairs, sorted by
// offset. The pairs of an offset are padded to groups of 16. Their rows are interleaved by row % 4,
// as long as all four residues have pairs left, so that neighbouring pairs add to different banks
// of shared memory; rows of one residue ascend. A convolution that owns a tile finds the rows to
// multiply for an offset side by side, without missing ones, and adds the products to sums on the
// chip.
//
//   first  [tiles, volume + 1]          the first group of each offset in the tile's list
//   offset [tiles, rows * volume / 16]  the list: the offset of each group,
//   input  [tiles, rows * volume]       the source row of each pair, -1 in the padding,
//   row    [tiles, rows * volume]       and its output row in the tile; `rows` in the padding
//
// Of each list, only the first first[tile][volume] groups are written.
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

// Returns the usual rows of a tile for a kernel of this volume. Larger tiles have less padding and
// more work for each load of the weights, but there are fewer of them.
SPIRA_BOTH int tile_rows(int volume) {
    return volume <= 128 ? 64 : 32;
}

// Returns the most rows of a tile.
SPIRA_BOTH int tile_rows_limit(int volume) {
    return volume <= 32 ? tile_rows_most : tile_rows(volume);
}

SPIRA_BOTH bool tile_rows_valid(int rows, int volume) {
    return rows == tile_rows(volume) || rows == tile_rows_limit(volume);
}

// Chooses the rows of a tile for a layer. channels: the larger of cin and cout
SPIRA_BOTH int tile_rows_choose(int volume, int channels, int32_t outputs) {
    return channels >= 64 && outputs >= 32768 ? tile_rows_limit(volume) : tile_rows(volume);
}

// Returns the tiles for a capacity of outputs.
SPIRA_BOTH int32_t tile_count(int32_t capacity, int rows) {
    return (int32_t)ceil_div(capacity, rows);
}

// Returns the index of the first entry of a tile's list.
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
    SPIRA_TRY(pointer_check(t->first, sizeof *t->first, "layout"));
    SPIRA_TRY(pointer_check(t->offset, sizeof *t->offset, "layout"));
    SPIRA_TRY(pointer_check(t->input, sizeof *t->input, "layout"));
    SPIRA_TRY(pointer_check(t->row, sizeof *t->row, "layout"));
    SPIRA_REQUIRE(t->volume == volume, status_bad_size, "layout.volume", t->volume);
    SPIRA_REQUIRE(tile_rows_valid(t->rows, volume), status_bad_size, "layout.rows", t->rows);
    SPIRA_REQUIRE(t->tiles >= tile_count(capacity, t->rows), status_capacity, "layout.tiles",
                  tile_count(capacity, t->rows));
    return status_success();
}

SPIRA_API status tile_check(const int32_t *map, int volume, int32_t capacity,
                            const tile_layout *t) {
    SPIRA_TRY(pointer_check(map, sizeof *map, "map"));
    SPIRA_REQUIRE(volume >= 1 && volume <= kernel_volume_max, status_bad_size, "volume", volume);
    SPIRA_REQUIRE(capacity >= 1 && capacity <= INT32_MAX / 2, status_bad_size, "capacity",
                  capacity);
    return tile_layout_check(t, volume, capacity);
}

enum { tile_residues = 4 }; // rows are interleaved by row % tile_residues

// Returns the position, among the pairs of an offset, of pair number `rank` of a residue. pairs:
// the number of pairs of each residue
SPIRA_BOTH int tile_pair_place(int rank, int residue, const int (&pairs)[tile_residues]) {
    int place = 0;
    for (int i = 0; i < tile_residues; ++i) {
        int before = rank + (i < residue);
        place += pairs[i] < before ? pairs[i] : before;
    }
    return place;
}

// Appends the pairs of offset k to a tile's list of `found` entries. Returns the new length.
//
// taps: the sources of the offset, one for each row, `pitch` apart
SPIRA_API int tile_put_host(const int32_t *taps, int64_t pitch, int rows, int k, int found,
                            int64_t tile, const tile_layout *t) {
    int64_t begin = tile_begin(t, tile);
    int pairs[tile_residues] = {}, rank[tile_residues] = {}, first = found;
    for (int r = 0; r < rows; ++r) {
        pairs[r % tile_residues] += taps[r * pitch] >= 0;
    }
    for (int r = 0; r < rows; ++r) {
        int32_t source = taps[r * pitch];
        if (source >= 0) {
            int at = first + tile_pair_place(rank[r % tile_residues]++, r % tile_residues, pairs);
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

// Builds the tiled layout of a kernel map on the host. `tile_build` (layout/tile.cuh) gives the
// same bytes.
//
// inputs   map [capacity, volume]: `count` rows are read
// outputs  t: all tiles of the capacity; those past the count have no pairs
// errors   null or misaligned pointers, sizes, a layout that is too small for the capacity
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
