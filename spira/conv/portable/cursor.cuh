// spira/conv/portable/cursor.cuh: what the stages will hold: one entry for each offset of a tile.
//
// All warps of a thread block walk the same tiles and offsets, ascending. A warp loads the source
// rows of the 32 rows that it gathers, one entry ahead. An entry has a stage for each chunk of a
// row. A tile ends with the shortcut's entry, if there is one; a tile without offsets has one empty
// entry.
#ifndef SPIRA_CONV_PORTABLE_CURSOR_CUH
#define SPIRA_CONV_PORTABLE_CURSOR_CUH

#include "traits.cuh"

namespace spira {

struct portable_entry {
    int32_t source; // the lane's source row; -1: none
    int offset;
    int stages;  // 0: there are no more entries
    int pair[2]; // of row groups, of the tile
    bool shortcut, last;
};

// Where a warp looks ahead.
struct portable_cursor {
    int tile;                            // of the worker's tiles
    int pair[2], next[2], after_next[2]; // of the tile and of the two after it
    uint32_t rest, own;                  // the lane's 32 offsets: of the tile, still to come; of
                                         // the row group of the warp's rows
    uint32_t rest_next, own_next;        // of the next tile
    uint32_t left;                       // lanes whose `rest` is not 0
    bool shortcut;                       // the tile's shortcut is still to come
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

// Reads the masks of the next tile, and the numbers of the one after it.
template <typename T>
SPIRA_DEVICE void portable_look_ahead(const conv_tensor_params &p, const conv_work &work,
                                      portable_cursor &c) {
    const int group = (int)threadIdx.x / 64; // of the warp's rows
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
    portable_pairs_load<T>(p, work, c.tile + 2, c.after_next);
}

template <typename T>
SPIRA_DEVICE void portable_cursor_begin(const conv_tensor_params &p, const conv_work &work,
                                        portable_cursor &c) {
    c.tile = -1;
    c.left = 0;
    c.shortcut = false;
    portable_pairs_load<T>(p, work, 0, c.next);
    portable_look_ahead<T>(p, work, c);
}

template <typename T>
SPIRA_DEVICE void portable_tile_next(const conv_tensor_params &p, const conv_work &work,
                                     portable_cursor &c) {
#pragma unroll
    for (int i = 0; i < T::pairs; ++i) {
        c.pair[i] = c.next[i];
        c.next[i] = c.after_next[i];
    }
    c.rest = c.rest_next;
    c.own = c.own_next;
    c.left = __ballot_sync(~0u, c.rest != 0);
    c.shortcut = p.shortcut.parts > 0;
    ++c.tile;
    portable_look_ahead<T>(p, work, c);
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
    const int warp = (int)threadIdx.x / 32, place = (int)threadIdx.x % 64;
    const int pair = T::pairs > 1 && warp >= 4 ? c.pair[T::pairs - 1] : c.pair[0];
    const int group = conv_pair_groups * pair + warp / 2 % conv_pair_groups;
    e.source = -1;
    e.offset = 0;
    e.stages = c.tile < work.tiles ? 1 : 0;
    e.pair[0] = c.pair[0];
    e.pair[1] = c.pair[T::pairs - 1];
    e.shortcut = !c.left && c.shortcut;
    if (c.tile < work.tiles && c.left) {
        e.stages = p.chunks;
        if (portable_offset_take(c, e.offset)) {
            e.source = conv_source_load(p, work, group, e.offset, true, place);
        }
    } else if (c.tile < work.tiles && c.shortcut) {
        c.shortcut = false;
        e.stages = p.shortcut.parts;
        e.source = conv_output_load(p, work.outputs, group * order_rows + place);
    }
    e.last = !c.left && !c.shortcut;
}

} // namespace spira

#endif
