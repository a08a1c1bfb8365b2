// spira/index/downsample_window.cuh: heads and ranks of cells by searches in shared memory
// (downsample_grid.cuh).
//
// A window holds 64-bit words as 32-bit distances from `base`, one group below the tile's first
// word: 0 for lower words, UINT32_MAX for those too far above. base has no bit that a mask clears,
// so that the masks serve words and distances. 32-bit words are kept as they are, with base 0.
//
// rx, ry: planes and rows of a cell, 1 or 2. near: the near window.
#ifndef SPIRA_INDEX_DOWNSAMPLE_WINDOW_CUH
#define SPIRA_INDEX_DOWNSAMPLE_WINDOW_CUH

#include "../base/async.cuh"
#include "../search.cuh"
#include "downsample_grid.cuh"

namespace spira {

// The base of a tile's distances; first: its first word.
template <typename W>
SPIRA_DEVICE W downsample_base(const downsample_grid<W> &g, W first) {
    return sizeof(W) == 4 ? 0 : (first & g.group) - (g.group & (~g.group + 1));
}

template <typename W>
SPIRA_DEVICE uint32_t downsample_distance(const downsample_grid<W> &g, W word, W base) {
    if (sizeof(W) == 4) {
        return (uint32_t)word;
    }
    const W room = g.group & (~g.group + 1), away = word - base;
    // The distance may wrap for the topmost group, whose base is below the first one.
    const bool told = away >= room && away < UINT32_MAX;
    return word < (W)(base + room) ? 0 : told ? (uint32_t)away : UINT32_MAX;
}

enum { downsample_far = 1 << 30 };

// Whether the whole group of a word at this distance has exact distances.
template <typename W>
SPIRA_DEVICE bool downsample_fits(const downsample_grid<W> &g, uint32_t distance) {
    return sizeof(W) == 4 || (distance < downsample_far && g.reach < (W)downsample_far);
}

template <typename W>
SPIRA_DEVICE downsample_grid<uint32_t> downsample_grid_near(const downsample_grid<W> &g) {
    downsample_grid<uint32_t> near;
    near.floor = (uint32_t)g.floor;
    near.row = (uint32_t)g.row;
    near.plane = (uint32_t)g.plane;
    near.step_x = (uint32_t)g.step_x;
    near.step_y = (uint32_t)g.step_y;
    near.span = (uint32_t)g.span;
    near.group = (uint32_t)g.group;
    near.reach = (uint32_t)g.reach;
    return near;
}

// The words of a span in shared memory, with zeros before and UINT32_MAX after them. The first
// word's place in the set is a multiple of 32.
struct downsample_window_of {
    uint32_t words; // shared address of the first word
    int reach;      // a power of two above the distance of any search
};

SPIRA_DEVICE uint32_t downsample_bytes(int words) {
    return (uint32_t)words * (uint32_t)sizeof(uint32_t);
}

// Lower bounds at or after given places, several at a time.
template <bool near, int keys>
SPIRA_DEVICE void downsample_far_search(const downsample_window_of &window, uint32_t (&at)[keys],
                                        const uint32_t (&key)[keys]) {
    if (near) {
        search_steps<downsample_near_reach / 2, keys>(at, key, downsample_near_reach);
    } else {
        search_steps<downsample_window / 2, keys>(at, key, window.reach);
    }
}

// The same among the next downsample_close words.
template <int keys>
SPIRA_DEVICE void downsample_close_search(uint32_t (&at)[keys], const uint32_t (&key)[keys]) {
    search_steps<(downsample_close + 1) / 2, keys>(at, key, 0);
}

// The lower bound of a key in the whole window, where a close search ran out of words.
SPIRA_DEVICE uint32_t downsample_whole(const downsample_window_of &window, uint32_t key) {
    uint32_t at = window.words;
#pragma unroll 1
    for (uint32_t step = downsample_bytes(window.reach) / 2; step >= sizeof(uint32_t); step /= 2) {
        at += search_load<-1>(at + step) < key ? step : 0;
    }
    return at;
}

// downsample_there in a window.
SPIRA_DEVICE bool downsample_window_there(const downsample_grid<uint32_t> &g, uint32_t at,
                                          uint32_t key) {
    return search_load<0>(at) - key <= g.span;
}

// Whether word i of the window is the first voxel of its cell.
template <int rx, int ry, bool near>
SPIRA_DEVICE bool downsample_window_head(const downsample_grid<uint32_t> &g,
                                         const downsample_window_of &window, int i) {
    const uint32_t from = window.words + downsample_bytes(i),
                   close = downsample_bytes(downsample_close);
    const uint32_t word = search_load<0>(from), cell = word & g.floor;
    const bool x = rx == 2 && (word & g.step_x), y = ry == 2 && (word & g.step_y);
    const uint32_t own = cell + (x ? g.step_x : 0) + (y ? g.step_y : 0);
    bool there = i > 0 && search_load<-1>(from) >= own;
    if (rx == 2) { // the rows of the lower plane
        const uint32_t key[2] = {cell, cell + g.step_y};
        uint32_t at[2] = {window.words, window.words};
        downsample_far_search<near, 2>(window, at, key);
        const bool either = downsample_window_there(g, at[0], key[0]) ||
                            (ry == 2 && downsample_window_there(g, at[1], key[1]));
        there = there || (x && either);
    }
    if (ry == 2) { // the lower row of the own plane
        const uint32_t key[1] = {own - g.step_y}, start = from - close;
        uint32_t at[1] = {start};
        downsample_close_search(at, key);
        if (y && !there && at[0] == start) {
            at[0] = downsample_whole(window, key[0]);
        }
        there = there || (y && downsample_window_there(g, at[0], key[0]));
    }
    return !there;
}

// The number of heads in front of a place in the window, counted from the start of the thread
// block's voxels. marks: shared address of the heads of the window's words.
SPIRA_DEVICE int downsample_window_before(const downsample_window_of &window, uint32_t marks,
                                          uint32_t at) {
    const uint32_t away = at - window.words;
    uint32_t bits, before;
    asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];"
                 : "=r"(bits), "=r"(before)
                 : "r"(marks + away / 128 * (uint32_t)sizeof(downsample_heads)));
    return (int)before + __popc(bits & ((1u << away / 4 % 32) - 1));
}

// The rank of head i's cell (see downsample_rank), counted from the start of the thread block's
// voxels.
template <int rx, int ry, bool near>
SPIRA_DEVICE int downsample_window_rank(const downsample_grid<uint32_t> &g,
                                        const downsample_window_of &window, uint32_t marks, int i) {
    const uint32_t from = window.words + downsample_bytes(i),
                   close = downsample_bytes(downsample_close);
    const uint32_t word = search_load<0>(from), cell = word & g.floor;
    const bool x = rx == 2 && (word & g.step_x), y = ry == 2 && (word & g.step_y);
    const uint32_t own = x ? cell + g.step_x : cell, other = x ? cell : cell + g.step_x;
    int rank = downsample_window_before(window, marks, from);
    const uint32_t start = near && !x ? from : window.words; // the other plane is after or before
    if (rx == 2) {
        // The start of the upper plane; in the other plane, the cell's place in its lower row, and
        // the start of its upper row and the cell's place there.
        const uint32_t away = other + g.step_y;
        const uint32_t key[4] = {(cell + g.step_x) & g.plane, other, away & g.row, away};
        uint32_t at[4] = {start, start, start, start};
        downsample_far_search<near, 4>(window, at, key);
        rank += downsample_window_before(window, marks, at[1]) -
                downsample_window_before(window, marks, at[0]);
        if (ry == 2) {
            rank += downsample_window_before(window, marks, at[3]) -
                    downsample_window_before(window, marks, at[2]);
        }
    }
    if (ry == 2) {
        // In the own plane: the start of the upper row and the cell's place there; or, if the word
        // is in the upper row, the cell's place in the lower row and the start of the upper one.
        const uint32_t up = own + g.step_y, row = up & g.row;
        const uint32_t key[2] = {y ? own : row, y ? row : up};
        const uint32_t begin = y ? from - close : from, out = y ? begin : from + close;
        uint32_t at[2] = {begin, begin};
        downsample_close_search(at, key);
#pragma unroll
        for (int j = 0; j < 2; ++j) {
            if (at[j] == out) {
                at[j] = downsample_whole(window, key[j]);
            }
        }
        const int upper = downsample_window_before(window, marks, at[1]) -
                          downsample_window_before(window, marks, at[0]);
        rank += y ? -upper : upper;
    }
    return rank;
}

// ---- filling windows ----------------------------------------------------------------------------

// A thread's share of the near window's words, their loads in flight.
template <typename W, int tile, int threads>
struct downsample_words {
    W word[(tile + 2 * downsample_margin + threads - 1) / threads];
    W base;
};

// The first word of the near window of a tile that starts at voxel `first`.
SPIRA_DEVICE int downsample_origin(int first) {
    return max(first - (int)downsample_margin, 0);
}

// The near window: a tile and its margins. It is loaded before the set's count is known.
template <int tile>
SPIRA_DEVICE downsample_span downsample_near_span(int first, int count) {
    return {downsample_origin(first),
            (int)min((unsigned)first + tile + downsample_margin, (unsigned)count)};
}

// Starts the loads of the near window. Words behind the set's count are loaded, too, and have no
// effect (downsample_put).
template <typename W, int tile, int threads>
SPIRA_DEVICE downsample_words<W, tile, threads>
downsample_read(const downsample_grid<W> &g, const W *words, int32_t capacity, int first) {
    downsample_words<W, tile, threads> read;
    const unsigned from = (unsigned)downsample_origin(first) + threadIdx.x;
    words += from;
#pragma unroll
    for (int j = 0; j < (tile + 2 * downsample_margin + threads - 1) / threads; ++j) {
        read.word[j] = word_none<W>();
        if (from + j * threads < (unsigned)capacity) {
            read.word[j] = words[j * threads];
        }
    }
    read.base = sizeof(W) == 4 ? 0 : downsample_base(g, words[first - (int)from]);
    return read;
}

// Stores the near window, padded for searches from any voxel of the tile. buffer: shared address of
// [pad + window + pad] words; words: how many the set has from the window's origin on.
template <typename W, int tile, int threads>
SPIRA_DEVICE void downsample_put(const downsample_grid<W> &g,
                                 const downsample_words<W, tile, threads> &read, int words,
                                 uint32_t buffer) {
    const int all = tile + 2 * downsample_margin, thread = (int)threadIdx.x,
              end = tile + downsample_margin + downsample_near_reach;
    const uint32_t to = buffer + downsample_bytes(downsample_pad) + downsample_bytes(thread);
#pragma unroll
    for (int j = 0; j < all; j += threads) {
        const uint32_t away = downsample_distance(g, read.word[j / threads], read.base);
        if (j + threads <= all || thread < all - j) {
            shared_store(to + downsample_bytes(j), thread < words - j ? away : UINT32_MAX);
        }
    }
#pragma unroll
    for (int j = all; j < end; j += threads) {
        if (j + threads <= end || thread < end - j) {
            shared_store(to + downsample_bytes(j), UINT32_MAX);
        }
    }
    if (thread < downsample_pad) {
        shared_store(to - downsample_bytes(downsample_pad), 0);
    }
}

// Up to which word a window is padded.
SPIRA_DEVICE int downsample_padded(int words, int reach) {
    return max(reach, words + (int)downsample_pad);
}

// The reach of a window with this many words.
SPIRA_DEVICE int downsample_reach(int words) {
    return max(1 << (32 - __clz(words)), (int)search_length_min);
}

// Whether all groups of the voxels [first, last) lie in the near window.
template <typename W, int tile>
SPIRA_DEVICE bool downsample_is_near(const downsample_grid<W> &g, uint32_t words, int first,
                                     int last) {
    const int origin = downsample_origin(first);
    const uint32_t from = words + downsample_bytes(first - origin);
    const uint32_t low = search_load<0>(from),
                   high = search_load<-1>(from + downsample_bytes(last - first));
    const uint32_t group = (uint32_t)g.group;
    return (origin == 0 || search_load<0>(words) < (low & group)) &&
           search_load<tile + downsample_margin - 1>(from) >= (high & group) + (uint32_t)g.reach &&
           downsample_fits(g, high);
}

// Finds the span of the voxels [first, last). Called by all threads of a block of at least two
// warps, with a barrier inside.
template <typename W>
SPIRA_DEVICE downsample_span downsample_find_span(const downsample_grid<W> &g, const W *words,
                                                  int count, int first, int last) {
    __shared__ int bound[2];
    int warp = threadIdx.x / 32;
    if (warp < 2) {
        const W group = words[warp ? last - 1 : first] & g.group;
        // The end is the lower bound of the last group's highest word, which is no voxel: its y and
        // z are all ones. It does not wrap: the guard margin keeps planes away from the field's
        // end, or the plane ends with the highest word there is.
        const W key = warp ? group + g.reach : group;
        int at = search_warp_lower_bound(words, count, key, warp ? last : first);
        if (threadIdx.x % 32 == 0) {
            bound[warp] = at;
        }
    }
    __syncthreads();
    // Voxels off the lattice may lie behind all planes of their group.
    const int begin = bound[0] & ~31, end = max(bound[1], last);
    const W base = downsample_base(g, words[first]);
    const bool fits = end - begin <= downsample_window - downsample_pad &&
                      downsample_fits(g, downsample_distance(g, words[last - 1], base));
    return {begin, fits ? end : ~end};
}

// Stores the words of a span as a window. Returns the window's reach. Called by all threads of a
// block; the caller needs a barrier before it searches.
template <typename W>
SPIRA_DEVICE int downsample_copy(const downsample_grid<W> &g, const W *words, W base,
                                 downsample_span span, int threads, uint32_t buffer) {
    const int n = span.end - span.begin, reach = downsample_reach(n),
              end = downsample_padded(n, reach);
    words += span.begin;
    buffer += downsample_bytes(downsample_pad);
    int i = (int)threadIdx.x;
#pragma unroll 4
    for (; i < n; i += threads) {
        shared_store(buffer + downsample_bytes(i), downsample_distance(g, words[i], base));
    }
#pragma unroll 1
    for (; i < end; i += threads) {
        shared_store(buffer + downsample_bytes(i), UINT32_MAX);
    }
    return reach;
}

} // namespace spira

#endif
