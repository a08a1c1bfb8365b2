// spira/conv/portable/cursor.cuh: what the stages will hold: one entry for each offset of a tile.
//
// All warps of a thread block walk the same tiles and offsets, ascending. A warp loads the source
// rows of the 32 rows that it gathers, one entry ahead. An entry has a stage for each chunk of a
// row. A tile ends with the shortcut's entry, if there is one; a tile without either has one entry
// of no rows.
#ifndef SPIRA_CONV_PORTABLE_CURSOR_CUH
#define SPIRA_CONV_PORTABLE_CURSOR_CUH

#include "traits.cuh"

namespace spira {

// Where a warp looks ahead.
struct portable_cursor {
    int tile;                     // of the worker's tiles
    int group;                    // row group of the warp's rows
    int next[2];                  // pairs of row groups of the next tile
    uint32_t rest, own;           // the lane's 32 offsets: of the tile, still to come; of `group`
    uint32_t rest_next, own_next; // of the next tile
    uint32_t left;                // lanes whose `rest` is not 0
    bool shortcut;                // the tile's shortcut is still to come
};

struct portable_entry {
    int32_t row[portable_warp_fragments]; // the lane's source row of each fragment; -1: none
    int offset;
    int stages; // 0: there are no more entries
    bool shortcut, last;
};

// The numbers of the pairs of a tile; unspecified past the last.
template <typename T>
SPIRA_DEVICE void portable_pairs_load(const conv_tensor_params &p, const conv_work &work, int tile,
                                      int (&pair)[2]) {
    const int all = order_pairs(work.row_groups);
#pragma unroll
    for (int i = 0; i < T::pairs; ++i) {
        const int place = conv_tile_place(work, tile) * T::pairs + i;
        pair[i] = conv_pair_at(p, tile < work.tiles && place < all, place);
    }
}

// Goes to the next tile, and reads the masks of the one after it. c.next: its numbers.
template <typename T>
SPIRA_DEVICE void portable_tile_next(const conv_tensor_params &p, const conv_work &work,
                                     portable_cursor &c) {
    const int group = (int)threadIdx.x / order_rows; // of the tile
    c.rest = c.rest_next;
    c.own = c.own_next;
    c.left = __ballot_sync(~0u, c.rest != 0);
    c.shortcut = p.shortcut.parts > 0;
    c.group =
        c.next[group / conv_pair_groups % T::pairs] * conv_pair_groups + group % conv_pair_groups;
    ++c.tile;
    portable_pairs_load<T>(p, work, c.tile + 1, c.next);
    c.rest_next = c.own_next = 0;
#pragma unroll
    for (int i = 0; i < T::pairs; ++i) {
        uint32_t mask[conv_pair_groups];
        conv_masks_load(p, work, c.tile + 1, c.next[i], mask);
#pragma unroll
        for (int g = 0; g < conv_pair_groups; ++g) {
            c.rest_next |= mask[g];
            c.own_next = group == conv_pair_groups * i + g ? mask[g] : c.own_next;
        }
    }
}

// Before the first tile.
template <typename T>
SPIRA_DEVICE void portable_cursor_begin(const conv_tensor_params &p, const conv_work &work,
                                        portable_cursor &c) {
    c.tile = -2;
    c.next[0] = c.next[1] = 0;
    c.rest_next = c.own_next = 0;
    portable_tile_next<T>(p, work, c);
    c.left = 0;
    c.shortcut = false;
}

// Takes the tile's next offset. Returns whether the row group of the warp's rows has it.
SPIRA_DEVICE bool portable_offset_take(portable_cursor &c, int &offset) {
    const int lane = threadIdx.x % 32, word = __ffs((int)c.left) - 1;
    const int bit = __ffs((int)__shfl_sync(~0u, c.rest, word)) - 1;
    const bool there = __shfl_sync(~0u, c.own, word) >> bit & 1;
    c.rest &= lane == word ? c.rest - 1 : ~0u;
    c.left = __ballot_sync(~0u, c.rest != 0);
    offset = word * 32 + bit;
    return there;
}

// The next entry, whose source rows are asked for.
template <typename T>
SPIRA_DEVICE void portable_entry_next(const conv_tensor_params &p, const conv_work &work,
                                      portable_cursor &c, portable_entry &e) {
    const bool fresh = !c.left && !c.shortcut;
    if (fresh && c.tile < work.tiles) {
        portable_tile_next<T>(p, work, c);
    }
    const int place = (int)threadIdx.x / 32 % 2 * portable_gathered + (int)threadIdx.x % 32 / 4;
    const bool offsets = c.left != 0;
    e.shortcut = !offsets && c.shortcut;
    e.offset = 0;
    e.stages = c.tile >= work.tiles ? 0 : e.shortcut ? p.shortcut.parts : p.chunks;
    const bool there = offsets && e.stages && portable_offset_take(c, e.offset);
    c.shortcut = c.shortcut && !e.shortcut;
    e.last = !c.left && !c.shortcut;
#pragma unroll
    for (int i = 0; i < portable_warp_fragments; ++i) {
        const int at = place + i * portable_fragment;
        e.row[i] = -1;
        if (there) {
            e.row[i] = conv_source_load(p, work, c.group, e.offset, true, at);
        } else if (e.shortcut && e.stages) {
            e.row[i] = conv_output_load(p, work.outputs, c.group * order_rows + at);
        }
    }
}

} // namespace spira

#endif
