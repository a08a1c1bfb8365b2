// spira/conv/portable/cursor.cuh: what the stages will hold: one entry for each offset of a tile.
//
// All warps of a thread block walk the same tiles and offsets, ascending. A warp loads the source
// rows of the 32 or 64 rows that it gathers, one entry ahead. An entry has a stage for each chunk
// of a row. A tile ends with the shortcut's entry, if there is one; a tile without either has one
// entry of no rows.
#ifndef SPIRA_CONV_PORTABLE_CURSOR_CUH
#define SPIRA_CONV_PORTABLE_CURSOR_CUH

#include "traits.cuh"

namespace spira {

// Where a warp looks ahead. pairs: of row groups of a tile.
template <int pairs>
struct portable_cursor {
    int tile;                               // of the worker's tiles
    int group;                              // row group of the warp's rows
    int next[pairs], after_next[pairs];     // pairs of the next two tiles
    uint32_t rest, own;                     // the lane's 32 offsets: of the tile, still to come; of
                                            // `group`
    uint32_t mask[pairs][conv_pair_groups]; // of the next tile
    uint32_t left;                          // lanes whose `rest` is not 0
    bool shortcut;                          // the tile's shortcut is still to come
};

// warp_fragments: that a warp gathers.
template <int warp_fragments>
struct portable_entry {
    int32_t row[warp_fragments]; // the lane's source row of each fragment; -1: none
    int offset;
    int stages;     // 0: there are no more entries
    uint32_t flags; // portable_last, portable_of_shortcut
};

// The numbers of the pairs of a tile; unspecified past the last.
template <typename T>
SPIRA_DEVICE void portable_pairs_load(const conv_tensor_params &p, const conv_work &work, int tile,
                                      int (&pair)[T::pairs]) {
    const int all = order_pairs(work.row_groups);
#pragma unroll
    for (int i = 0; i < T::pairs; ++i) {
        const int place = conv_tile_place(work, tile) * T::pairs + i;
        pair[i] = conv_pair_at(p, tile < work.tiles && place < all, place);
    }
}

// Goes to the next tile, and reads ahead.
template <typename T>
SPIRA_DEVICE void portable_tile_next(const conv_tensor_params &p, const conv_work &work,
                                     portable_cursor<T::pairs> &c) {
    const int own = (int)threadIdx.x / 32 * T::gathered / order_rows; // row group of the tile
    c.rest = c.own = 0;
#pragma unroll
    for (int g = 0; g < T::pairs * conv_pair_groups; ++g) {
        const int pair = g / conv_pair_groups, in_pair = g % conv_pair_groups;
        c.rest |= c.mask[pair][in_pair];
        c.own = own == g ? c.mask[pair][in_pair] : c.own;
        c.group = own == g ? c.next[pair] * conv_pair_groups + in_pair : c.group;
    }
    c.left = __ballot_sync(~0u, c.rest != 0);
    c.shortcut = p.shortcut.parts > 0;
    ++c.tile;
#pragma unroll
    for (int i = 0; i < T::pairs; ++i) {
        c.next[i] = c.after_next[i];
        conv_masks_load(p, work, c.tile + 1, c.next[i], c.mask[i]);
    }
    portable_pairs_load<T>(p, work, c.tile + 2, c.after_next);
}

// Before the first tile.
template <typename T>
SPIRA_DEVICE void portable_cursor_begin(const conv_tensor_params &p, const conv_work &work,
                                        portable_cursor<T::pairs> &c) {
    c.tile = -1;
    c.group = 0;
    c.left = 0;
    c.shortcut = false;
    portable_pairs_load<T>(p, work, 0, c.next);
    portable_pairs_load<T>(p, work, 1, c.after_next);
#pragma unroll
    for (int i = 0; i < T::pairs; ++i) {
        conv_masks_load(p, work, 0, c.next[i], c.mask[i]);
    }
}

// Takes the tile's next offset. Returns whether the row group of the warp's rows has it.
template <int pairs>
SPIRA_DEVICE bool portable_offset_take(portable_cursor<pairs> &c, int &offset) {
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
                                      portable_cursor<T::pairs> &c,
                                      portable_entry<T::warp_fragments> &e) {
    if (!c.left && !c.shortcut && c.tile < work.tiles) {
        portable_tile_next<T>(p, work, c);
    }
    const bool inside = c.tile < work.tiles, offsets = c.left != 0;
    const bool shortcut = !offsets && c.shortcut;
    e.offset = 0;
    e.stages = !inside ? 0 : shortcut ? p.shortcut.parts : p.chunks;
    bool there = shortcut && inside; // whether the warp's rows have sources
    if (offsets && inside) {
        there = portable_offset_take(c, e.offset);
    }
    c.shortcut = c.shortcut && !shortcut;
    e.flags = shortcut ? 0u + portable_of_shortcut : 0u;
    e.flags |= !c.left && !c.shortcut ? 0u + portable_last : 0u;
    const int own = (int)threadIdx.x / 32 * T::gathered % order_rows + (int)threadIdx.x % 32 / 4;
    const int first = c.group * order_rows + own, end = there ? work.outputs : 0;
    const int32_t *const from = shortcut ? p.order.row : p.order.source; // null: the identity
    const int64_t begin =
        shortcut ? first : ((int64_t)c.group * p.volume + e.offset) * order_rows + own;
#pragma unroll
    for (int i = 0; i < T::warp_fragments; ++i) {
        const int at = i * portable_fragment;
        e.row[i] = first + at < end ? first + at : -1;
        if (p.order.row && first + at < end) {
            e.row[i] = __ldg(from + (begin + at));
        }
    }
}

} // namespace spira

#endif
