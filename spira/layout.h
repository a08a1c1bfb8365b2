// spira/layout.h: the kernel map in the form that feature computation reads.
//
// Tiled layout. The outputs are cut into scopes of 1024 consecutive rows; inside of a scope they
// are sorted by which offsets they have, rare offsets first; 256 neighbours of that order form a
// tile, 8 of them a group. A group multiplies an offset only if one of its 8 rows has it. Rows that
// look alike end up in the same group, so that most of the work that a map [outputs, volume] would
// pad with zeros is left out, and no sort crosses a scope.
//
// A tile has four quarters of 8 groups, one for each warp of a block. Neighbouring groups of the
// order go to different quarters, so that the warps have about the same work at each offset: slot
// (quarter * 8 + i) * 8 + r holds row number (i * 4 + quarter) * 8 + r of the tile's order.
//
//   row   [tiles, 256]          the output row of each slot, or -1
//   steps [tiles]               how many offsets some row of the tile has
//   step  [tiles, volume]       these offsets, ascending, and which groups have them
//   index [tiles, volume, 256]  the source row of each slot and step, or -1
//
// Of step and index only the first steps[tile] entries of a tile are written.
#ifndef SPIRA_LAYOUT_H
#define SPIRA_LAYOUT_H

#include "offset.h"
#include "workspace.h"

#include <algorithm>

namespace spira {

enum {
    tile_rows = 256,
    tile_group = 8,
    tile_quarters = 4,
    tile_quarter_rows = tile_rows / tile_quarters,
    tile_quarter_groups = tile_quarter_rows / tile_group,
    tile_scope = 1024,
    tile_scope_tiles = tile_scope / tile_rows,
};

struct tile_step {
    int32_t offset;
    uint32_t groups; // bit g: group g, slots 8 g .. 8 g + 7, has a row with this offset
};

struct tile_layout {
    int32_t *row;    // [tiles, 256]
    int32_t *steps;  // [tiles]
    tile_step *step; // [tiles, volume]
    int32_t *index;  // [tiles, volume, 256]
    int32_t tiles;   // tile_count(capacity)
    int32_t volume;
};

// Which row of the tile's order a slot holds.
SPIRA_BOTH int tile_slot_order(int slot) {
    int group = slot / tile_group, quarter = group / tile_quarter_groups;
    return (group % tile_quarter_groups * tile_quarters + quarter) * tile_group + slot % tile_group;
}

// Tiles for a capacity of outputs: whole scopes.
SPIRA_BOTH int32_t tile_count(int32_t capacity) {
    return (int32_t)(ceil_div(capacity, tile_scope) * tile_scope_tiles);
}

// Carves a tiled layout out of the caller's memory (or counts its bytes: workspace.h).
SPIRA_API tile_layout tile_layout_take(workspace *w, int32_t capacity, int32_t volume) {
    tile_layout t;
    t.tiles = tile_count(capacity);
    t.volume = volume;
    t.row = workspace_take<int32_t>(w, (int64_t)t.tiles * tile_rows);
    t.steps = workspace_take<int32_t>(w, t.tiles);
    t.step = workspace_take<tile_step>(w, (int64_t)t.tiles * volume);
    t.index = workspace_take<int32_t>(w, (int64_t)t.tiles * volume * tile_rows);
    return t;
}

// Which bit of the 32-bit sorting key each offset sets. Offsets far from the centre are rare and
// get the high bits; beyond 32 offsets, neighbours in that ranking share a bit.
struct tile_key {
    uint8_t bit[kernel_volume_max + 1];
};

SPIRA_API tile_key tile_key_make(const kernel_shape *kernel) {
    tile_key key;
    int volume = kernel_volume(kernel);
    int rank = 0;
    for (int norm = 0; rank < volume; ++norm) {
        for (int k = 0; k < volume; ++k) {
            if (kernel_norm(kernel, k) == norm) {
                key.bit[k] = (uint8_t)(volume <= 32 ? rank : rank * 32 / volume);
                ++rank;
            }
        }
    }
    return key;
}

SPIRA_API status tile_check(const kernel_shape *kernel, const int32_t *map, int32_t capacity,
                            const tile_layout *t) {
    SPIRA_TRY(kernel_check(kernel));
    SPIRA_REQUIRE(map, status_null_pointer, "map", 0);
    SPIRA_REQUIRE(capacity >= 1 && capacity <= INT32_MAX / 2, status_bad_size, "capacity",
                  capacity);
    SPIRA_REQUIRE(t, status_null_pointer, "layout", 0);
    SPIRA_REQUIRE(t->row && t->steps && t->step && t->index, status_null_pointer, "layout", 0);
    SPIRA_REQUIRE(t->volume == kernel_volume(kernel), status_bad_size, "layout.volume", t->volume);
    SPIRA_REQUIRE(t->tiles >= tile_count(capacity), status_capacity, "layout.tiles",
                  tile_count(capacity));
    return status_success();
}

struct tile_slot {
    uint32_t key;
    int32_t row;
};

SPIRA_API bool tile_slot_before(const tile_slot &a, const tile_slot &b) {
    return a.key < b.key || (a.key == b.key && (uint32_t)a.row < (uint32_t)b.row); // -1 last
}

// Writes one tile from its 256 rows in order.
SPIRA_API void tile_write_host(const tile_slot *order, const int32_t *map, int64_t tile,
                               tile_layout t) {
    int32_t steps = 0;
    for (int s = 0; s < tile_rows; ++s) {
        t.row[tile * tile_rows + s] = order[tile_slot_order(s)].row;
    }
    for (int k = 0; k < t.volume; ++k) {
        int32_t sources[tile_rows];
        uint32_t groups = 0;
        for (int s = 0; s < tile_rows; ++s) {
            int32_t row = order[tile_slot_order(s)].row;
            sources[s] = row < 0 ? -1 : map[(int64_t)row * t.volume + k];
            groups |= (uint32_t)(sources[s] >= 0) << (s / tile_group);
        }
        if (groups) {
            int64_t at = tile * t.volume + steps++;
            t.step[at].offset = k;
            t.step[at].groups = groups;
            memcpy(t.index + at * tile_rows, sources, sizeof sources);
        }
    }
    t.steps[tile] = steps;
}

// Writes one scope: sorts its slots, then its tiles.
SPIRA_API void tile_scope_host(const tile_key *key, const int32_t *map, int32_t count,
                               int32_t scope, tile_layout t) {
    tile_slot slots[tile_scope];
    for (int s = 0; s < tile_scope; ++s) {
        int64_t row = (int64_t)scope * tile_scope + s;
        slots[s].row = row < count ? (int32_t)row : -1;
        slots[s].key = row < count ? 0 : UINT32_MAX;
        for (int k = 0; k < t.volume && row < count; ++k) {
            slots[s].key |= (uint32_t)(map[row * t.volume + k] >= 0) << key->bit[k];
        }
    }
    std::sort(slots, slots + tile_scope, tile_slot_before);
    for (int i = 0; i < tile_scope_tiles; ++i) {
        tile_write_host(slots + i * tile_rows, map, (int64_t)scope * tile_scope_tiles + i, t);
    }
}

// Builds the tiled layout of a map: the host loop of `tile_build` (layout.cuh).
//
// inputs   kernel: the map's; map [capacity, volume], of which `count` rows are read
// outputs  t: all tiles of the capacity; slots beyond the count are -1 and have no steps
SPIRA_API status tile_build_host(const kernel_shape *kernel, const int32_t *map, int32_t count,
                                 int32_t capacity, tile_layout t) {
    SPIRA_TRY(tile_check(kernel, map, capacity, &t));
    SPIRA_REQUIRE(count >= 0 && count <= capacity, status_bad_size, "count", count);
    tile_key key = tile_key_make(kernel);
    int32_t scopes = t.tiles / tile_scope_tiles;
    SPIRA_PARALLEL_FOR
    for (int32_t scope = 0; scope < scopes; ++scope) {
        tile_scope_host(&key, map, count, scope, t);
    }
    return status_success();
}

} // namespace spira

#endif
