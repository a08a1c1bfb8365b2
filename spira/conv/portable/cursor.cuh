// spira/conv/portable/cursor.cuh: what the stages will hold: one entry for each offset of a tile.
//
// All producer warps of a thread block walk the same tiles and offsets, ascending. An entry has a
// stage for each chunk of a row. A tile ends with the shortcut's entry, if there is one; a tile
// without either has one entry of no rows.
//
// A warp's next entries stand in slots of shared memory, with the source rows of the 32 rows that
// it gathers: asynchronous copies bring these. Loaded into registers, they would have to arrive
// before the compiler moves them from one register to another, in the middle of other work.
#ifndef SPIRA_CONV_PORTABLE_CURSOR_CUH
#define SPIRA_CONV_PORTABLE_CURSOR_CUH

#include "traits.cuh"

namespace spira {

// What a slot says of its entry, behind the source rows (-1: none), and before the number of the
// warp's first row in the layout: the offset, and
enum : uint32_t {
    portable_offset = portable_volume_most - 1,
    portable_last = 1u << 10,        // it is the tile's last
    portable_of_shortcut = 1u << 11, // its rows and weights are those of the shortcut
    portable_none = 1u << 12,        // there are no more entries
    portable_wide = 1u << 13,        // the rows that are being read are aligned (fill.cuh)
};

// Keeps a value that depends on the thread in a register: the compiler would compute it again and
// again in the loop over stages.
SPIRA_DEVICE uint32_t portable_keep(uint32_t v) {
    return __shfl_sync(~0u, v, warp_lane());
}

// The word that a lane has, in each lane. The compiler sees that the result of a vote is the same
// in all lanes, and that of a shuffle not: branches that depend on it would be divergent ones.
SPIRA_DEVICE uint32_t portable_spread(uint32_t v, int lane) {
    return __ballot_sync(~0u, __shfl_sync(~0u, v, lane) >> threadIdx.x % 32 & 1);
}

// Where a warp looks ahead. pairs: of row groups of a tile.
template <int pairs>
struct portable_cursor {
    int tile;                               // of the worker's tiles
    int row;                                // the lane's first, in the layout
    const int32_t *source;                  // of this row, for offset 0
    uint32_t rest, own;                     // offsets first .. first + 31: those of the tile that
    int first;                              // are still to come; those of the warp's row group
    uint32_t all[2];                        // the lane's 32 offsets, of the tile and the row group
    uint32_t words;                         // lanes whose all[0] is still to come
    bool shortcut;                          // the tile's shortcut is still to come
    int pair[pairs];                        // of the lane's of 32 tiles: portable_pairs_load
    int next[pairs];                        // pairs of the next tile
    uint32_t mask[pairs][conv_pair_groups]; // of the next tile
};

// The numbers of the pairs of 32 tiles, `tile` a multiple of 32: a lane has those of tile + lane;
// unspecified past the last.
template <typename T>
SPIRA_DEVICE void portable_pairs_load(const conv_tensor_params &p, const conv_work &work, int tile,
                                      int (&pair)[T::pairs]) {
    const int all = order_pairs(work.row_groups), own = tile + (int)threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < T::pairs; ++i) {
        const int place = conv_tile_place(work, own) * T::pairs + i;
        pair[i] = conv_pair_at(p, own < work.tiles && place < all, place);
    }
}

// Reads ahead to a tile.
template <typename T>
SPIRA_DEVICE void portable_tile_load(const conv_tensor_params &p, const conv_work &work, int tile,
                                     portable_cursor<T::pairs> &c) {
    if (tile % 32 == 0) {
        portable_pairs_load<T>(p, work, tile, c.pair);
    }
#pragma unroll
    for (int i = 0; i < T::pairs; ++i) {
        c.next[i] = __shfl_sync(~0u, c.pair[i], tile % 32);
        conv_masks_load(p, work, tile, c.next[i], c.mask[i]);
    }
}

// Goes to the next tile.
template <typename T>
SPIRA_DEVICE void portable_tile_next(const conv_tensor_params &p, const conv_work &work,
                                     portable_cursor<T::pairs> &c) {
    const int own = (int)threadIdx.x / 32 * T::gathered / order_rows; // row group of the tile
    int group = 0;
    c.all[0] = c.all[1] = 0;
#pragma unroll
    for (int g = 0; g < T::pairs * conv_pair_groups; ++g) {
        const int pair = g / conv_pair_groups, in_pair = g % conv_pair_groups;
        c.all[0] |= c.mask[pair][in_pair];
        c.all[1] = own == g ? c.mask[pair][in_pair] : c.all[1];
        group = own == g ? c.next[pair] * conv_pair_groups + in_pair : group;
    }
    const int in_group = (int)threadIdx.x / 32 * T::gathered % order_rows + warp_lane();
    c.row = group * order_rows + in_group;
    if (p.order.row) {
        c.source = p.order.source + ((int64_t)group * p.volume * order_rows + in_group);
    }
    c.words = __ballot_sync(~0u, c.all[0] != 0);
    ++c.tile;
    c.shortcut = p.shortcut.parts > 0 && c.tile < work.tiles;
    portable_tile_load<T>(p, work, c.tile + 1, c);
}

// Before the first tile.
template <typename T>
SPIRA_DEVICE void portable_cursor_begin(const conv_tensor_params &p, const conv_work &work,
                                        portable_cursor<T::pairs> &c) {
    c.tile = -1;
    c.row = c.first = 0;
    c.source = nullptr;
    c.rest = c.own = c.words = 0;
    c.shortcut = false;
    portable_tile_load<T>(p, work, 0, c);
}

// Behind a tile's offsets: the shortcut, or an entry of no rows. Returns what the slot says, and
// where the lane's source row is.
SPIRA_DEVICE uint32_t portable_entry_end(const conv_tensor_params &p, const conv_work &work,
                                         int tile, int row, bool shortcut, const int32_t *&from) {
    from = p.order.row + row;
    return shortcut ? 0u + portable_of_shortcut : tile >= work.tiles ? 0u + portable_none : 0;
}

// Puts the next entry into a slot; its source rows are on their way. own: the slot's address for
// the lane's source row; slot: of the first lane's.
template <typename T>
SPIRA_DEVICE void portable_entry_next(const conv_tensor_params &p, const conv_work &work,
                                      portable_cursor<T::pairs> &c, uint32_t slot, uint32_t own) {
    if (!c.rest) {
        if (!c.words && !c.shortcut && c.tile < work.tiles) {
            portable_tile_next<T>(p, work, c);
        }
        if (c.words) {
            const int word = __ffs((int)c.words) - 1;
            c.words &= c.words - 1;
            c.rest = portable_spread(c.all[0], word);
            c.own = portable_spread(c.all[1], word);
            c.first = word * 32;
        }
    }
    uint32_t what;
    bool there;
    const int32_t *from;
    if (c.rest) {
        const int bit = __ffs((int)c.rest) - 1;
        c.rest &= c.rest - 1;
        there = c.own >> bit & 1;
        what = (uint32_t)(c.first + bit);
        from = c.source + what * order_rows;
    } else {
        there = c.shortcut;
        what = portable_entry_end(p, work, c.tile, c.row, c.shortcut, from);
        c.shortcut = false;
    }
    what |= !c.rest && !c.words && !c.shortcut ? 0u + portable_last : 0u;
    __syncwarp(); // the slot's last entry has been read
    if (own == slot) {
        shared_store(slot + T::gathered * 4, what);
        shared_store(slot + T::gathered * 4 + 4, (uint32_t)c.row);
    }
#pragma unroll
    for (int i = 0; i < T::gathered; i += 32) {
        const bool output = there && c.row + i < work.outputs;
        if (output && p.order.row) {
            async_copy_4_cached(own + i * 4, from + i);
        } else {
            shared_store(own + i * 4, output ? (uint32_t)(c.row + i) : ~0u);
        }
    }
}

} // namespace spira

#endif
