// spira/downsample.cuh: coarser coordinate sets on the GPU.
//
// From one level to the next no sort is needed: a set is in order but for the rows that the floor
// puts on top of each other, two by two in y and slab by slab in x. A voxel is the head of its cell
// if no row of the cell has one before it; how many heads there are before a cell in the order of
// the coarse words follows from the counts of heads at the ends of up to four stretches of the fine
// set, found by binary searches. Two launches. What a block searches it has in shared memory: the
// words around its voxels, which are read before anything is known; where slabs are longer, all
// words of them; where those are too many, the set is searched itself. Any other step takes a
// floor, a radix sort and the removal of repeats.
#ifndef SPIRA_DOWNSAMPLE_CUH
#define SPIRA_DOWNSAMPLE_CUH

#include "base/async.cuh"
#include "base/block.cuh"
#include "downsample.h"
#include "index/unique.cuh"
#include "search.cuh"

namespace spira {

// Heads of cells: bit i % 32 of bits[i / 32] is voxel i; `before` counts the heads of its block in
// front of the 32.
struct downsample_heads {
    uint32_t bits;
    int32_t before;
};

enum {
    downsample_small = 131072,    // voxels up to which blocks take 256 at a time, else 512
    downsample_blocks_many = 512, // beyond which heads are listed, so that no thread is idle
    downsample_blocks_max = 4096,
    downsample_margin = 512,  // words to either side of a turn's that are read at once with them
    downsample_window = 8192, // words that a block holds at most
    downsample_pad = 32,      // in front of them and behind
    downsample_near_reach = 1024, // a search there takes less than 2^10 words from where it starts
    downsample_close = 31,        // words among which the searches near a place look
};

// How the step from one level to the next is cut: each block takes 2^shift voxels, in turns of one
// for each thread.
struct downsample_cut {
    int32_t turn, shift, blocks;
};

SPIRA_API downsample_cut downsample_cut_make(int32_t capacity) {
    downsample_cut cut = {capacity <= downsample_small ? 256 : 512, 0, 0};
    cut.shift = bits_for((uint64_t)cut.turn) - 1;
    while (ceil_div(capacity, (int64_t)1 << cut.shift) > downsample_blocks_max) {
        ++cut.shift;
    }
    cut.blocks = (int32_t)ceil_div(capacity, (int64_t)1 << cut.shift);
    return cut;
}

enum { downsample_near = -1 };

// A stretch of a set in which all cells of a turn's voxels lie. Where it is too long for shared
// memory, or its words are too far apart, `end` is ~ of that. `begin` is downsample_near where they
// lie well within the words that are read at once: not where a stretch only happens to be these.
struct downsample_span {
    int begin, end;
};

template <typename W>
struct downsample_scratch {
    downsample_heads *marks; // [ceil(in.capacity / 32)] for a step to the next level
    int32_t *counts;         // [blocks] heads
    downsample_span *spans;  // [turns]
    unique_scratch<W> sort;  // [in.capacity] floored words, for any other
};

// The coarse cell of a voxel, as the searches need it. Cells are in groups, each of which stands
// together in the set: two slabs where x is halved, or else two rows where y is.
template <typename W>
struct downsample_grid {
    W floor;          // mask of the stride
    W row, slab;      // masks that clear z, and y and z
    W step_x, step_y; // from the lower to the upper row of a cell
    W span;           // highest z of a cell above its lowest
    W group;          // mask that leaves the group
    W reach;          // its highest word above its lowest
};

template <typename W>
SPIRA_API downsample_grid<W> downsample_grid_make(const word_layout *layout, triple from,
                                                  triple stride, int rx, int ry) {
    downsample_grid<W> g;
    g.floor = word_stride_mask<W>(layout, stride);
    g.row = (W) ~(((W)1 << layout->shift_y) - 1);
    g.slab = layout->shift_x < (int)(8 * sizeof(W)) ? (W) ~(((W)1 << layout->shift_x) - 1) : 0;
    g.floor |= rx == 1 ? g.slab : 0; // x is a multiple: then the mask serves distances too
    g.step_x = word_delta<W>(layout, triple_make(from.x, 0, 0));
    g.step_y = word_delta<W>(layout, triple_make(0, from.y, 0));
    g.span = (W)(min_of(stride.z, (int64_t)1 << layout->width.z) - 1); // within the field
    g.group = g.floor & (rx == 2 ? g.slab : ry == 2 ? g.row : (W) ~(W)0);
    g.reach = rx == 2 ? (W)(g.step_x + (W)~g.slab) : ry == 2 ? (W)(g.step_y + (W)~g.row) : g.span;
    return g;
}

// ---- searches in the set ------------------------------------------------------------------------
// Where a group is too long for shared memory.

// Lower bounds of `keys` words, side by side; they lie in [begin, end].
template <typename W, int keys>
SPIRA_DEVICE void downsample_search(const W *words, int begin, int end, const W (&key)[keys],
                                    int (&at)[keys]) {
#pragma unroll
    for (int j = 0; j < keys; ++j) {
        at[j] = begin;
    }
#pragma unroll 1
    for (int step = end > begin ? 1 << (31 - __clz(end - begin)) : 0; step; step >>= 1) {
        W word[keys];
#pragma unroll
        for (int j = 0; j < keys; ++j) {
            word[j] = at[j] + step <= end ? words[at[j] + step - 1] : word_none<W>();
        }
#pragma unroll
        for (int j = 0; j < keys; ++j) {
            at[j] += word[j] < key[j] ? step : 0;
        }
    }
}

// The lower bound of `key` at or behind `at`, in front of which all words are below it: near it, by
// steps that double.
template <typename W>
SPIRA_DEVICE int downsample_ahead(const W *words, int count, int at, W key) {
    int step = 1;
#pragma unroll 1
    while (at + step <= count && words[at + step - 1] < key) {
        at += step;
        step *= 2;
    }
    int end = min(at + step - 1, count);
#pragma unroll 1
    while (at < end) {
        int middle = (at + end) >> 1;
        bool below = words[middle] < key;
        at = below ? middle + 1 : at;
        end = below ? end : middle;
    }
    return at;
}

// The same at or before `at`, where the word is not below `key`.
template <typename W>
SPIRA_DEVICE int downsample_behind(const W *words, int at, W key) {
    int step = 1;
#pragma unroll 1
    while (at >= step && !(words[at - step] < key)) {
        at -= step;
        step *= 2;
    }
    int begin = max(at - step + 1, 0);
#pragma unroll 1
    while (begin < at) {
        int middle = (begin + at) >> 1;
        bool below = words[middle] < key;
        begin = below ? middle + 1 : begin;
        at = below ? at : middle;
    }
    return at;
}

template <typename W>
SPIRA_DEVICE bool downsample_there(const downsample_grid<W> &g, const W *words, int count, int at,
                                   W key) {
    return at < count && (W)(words[at] - key) <= g.span;
}

// Whether no voxel of the cell of words[i] stands before it; those of its group begin at `begin` or
// behind. rx, ry: rows of a cell, 1 or 2.
template <typename W, int rx, int ry>
SPIRA_DEVICE bool downsample_is_head(const downsample_grid<W> &g, const W *words, int begin,
                                     int count, int i) {
    W word = words[i], cell = word & g.floor;
    bool x = rx == 2 && (word & g.step_x), y = ry == 2 && (word & g.step_y); // in the upper row
    W own = cell + (x ? g.step_x : 0) + (y ? g.step_y : 0);
    if (i > 0 && !(words[i - 1] < own)) {
        return false;
    }
    if (x) { // both rows of the lower slab
        W key[1] = {cell};
        int at[1];
        downsample_search<W, 1>(words, begin, i, key, at);
        if (downsample_there(g, words, count, at[0], cell)) {
            return false;
        }
        if (ry == 2) {
            at[0] = downsample_ahead(words, count, at[0], (W)(cell + g.step_y));
            if (downsample_there(g, words, count, at[0], (W)(cell + g.step_y))) {
                return false;
            }
        }
    }
    if (y) { // the lower row of the own slab
        W key = own - g.step_y;
        return !downsample_there(g, words, count, downsample_behind(words, i, key), key);
    }
    return true;
}

// The places of the set from which heads are counted.
struct downsample_places {
    const downsample_heads *heads;
    const int32_t *blocks; // heads in front of each block of 2^shift voxels
    int shift, count, total;
};

SPIRA_DEVICE int downsample_before(const downsample_places &p, int at) {
    if (at >= p.count) {
        return p.total;
    }
    downsample_heads h = p.heads[at / 32];
    return p.blocks[at >> p.shift] + h.before + __popc(h.bits & ((1u << at % 32) - 1));
}

// Heads of the upper row of a cell that stand before the cell; `at` is where the lower row's do.
template <typename W>
SPIRA_DEVICE int downsample_upper_row(const downsample_grid<W> &g, const W *words,
                                      const downsample_places &p, int at, W key) {
    int begin = downsample_ahead(words, p.count, at, (W)(key & g.row));
    return downsample_before(p, downsample_ahead(words, p.count, begin, key)) -
           downsample_before(p, begin);
}

// How many cells stand before that of word i, a head, in the order of the coarse words: the heads
// in front of its lowest row; of the upper row, those before the cell; and of the upper slab, those
// of the rows before the cell's, and the same again. The group is within [begin, end].
template <typename W, int rx, int ry>
SPIRA_DEVICE int downsample_rank(const downsample_grid<W> &g, const W *words,
                                 const downsample_places &p, int begin, int end, int i) {
    W cell = words[i] & g.floor;
    int lower = 0, upper = 0;
    if constexpr (rx == 2) {
        bool x = (words[i] & g.step_x) != 0; // one slab is far, the other near
        W key[2] = {(W)((cell + g.step_x) & g.slab), x ? cell : (W)(cell + g.step_x)};
        int at[2];
        downsample_search<W, 2>(words, begin, end, key, at);
        int near = downsample_behind(words, i, x ? (W)(cell + g.step_x) : cell);
        lower = x ? at[1] : near;
        upper = x ? near : at[1];
        int rank =
            downsample_before(p, lower) + downsample_before(p, upper) - downsample_before(p, at[0]);
        if constexpr (ry == 2) {
            rank += downsample_upper_row(g, words, p, lower, (W)(cell + g.step_y));
            rank += downsample_upper_row(g, words, p, upper, (W)(cell + g.step_x + g.step_y));
        }
        return rank;
    }
    lower = downsample_behind(words, i, cell);
    int rank = downsample_before(p, lower);
    if constexpr (ry == 2) {
        rank += downsample_upper_row(g, words, p, lower, (W)(cell + g.step_y));
    }
    return rank;
}

// ---- windows ------------------------------------------------------------------------------------
// In shared memory words of 64 bits stand as 32-bit distances from `base`, one group below the
// turn's first: what is lower is 0, what is too far UINT32_MAX. The masks serve words and
// distances: base has no bit that a mask clears. Words of 32 bits stand as they are, base 0.

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
    // Of the topmost group, the distance from a base below the first may wrap.
    const bool told = away >= room && away < UINT32_MAX;
    return word < (W)(base + room) ? 0 : told ? (uint32_t)away : UINT32_MAX;
}

enum { downsample_far = 1 << 30 };

// Whether all of the group of a word at this distance can be told.
template <typename W>
SPIRA_DEVICE bool downsample_fits(const downsample_grid<W> &g, uint32_t distance) {
    return sizeof(W) == 4 || (distance < downsample_far && g.reach < (W)downsample_far);
}

template <typename W>
SPIRA_DEVICE downsample_grid<uint32_t> downsample_grid_near(const downsample_grid<W> &g) {
    return {(uint32_t)g.floor,  (uint32_t)g.row,  (uint32_t)g.slab,  (uint32_t)g.step_x,
            (uint32_t)g.step_y, (uint32_t)g.span, (uint32_t)g.group, (uint32_t)g.reach};
}

// The words of a span in shared memory, zeros in front and UINT32_MAX behind: `words` is the shared
// address of the first, which is a multiple of 32 in the set; reach: a power of two above their
// number, or, of those that are read at once, above what is to either side of a voxel.
struct downsample_window_of {
    uint32_t words;
    int reach;
};

SPIRA_DEVICE uint32_t downsample_bytes(int words) {
    return (uint32_t)words * (uint32_t)sizeof(uint32_t);
}

// Lower bounds from given places on, side by side.
template <bool near, int keys>
SPIRA_DEVICE void downsample_far_search(const downsample_window_of &window, uint32_t (&at)[keys],
                                        const uint32_t (&key)[keys]) {
    if (near) {
        search_steps<downsample_near_reach / 2, keys>(at, key, downsample_near_reach);
    } else {
        search_steps<downsample_window / 2, keys>(at, key, window.reach);
    }
}

// The same, among the next words only.
template <int keys>
SPIRA_DEVICE void downsample_close_search(uint32_t (&at)[keys], const uint32_t (&key)[keys]) {
    search_steps<(downsample_close + 1) / 2, keys>(at, key, 0);
}

// The lower bound of a key, in a loop: where a search near a place ran out of words.
SPIRA_DEVICE uint32_t downsample_whole(const downsample_window_of &window, uint32_t key) {
    uint32_t at = window.words;
#pragma unroll 1
    for (uint32_t step = downsample_bytes(window.reach) / 2; step >= sizeof(uint32_t); step /= 2) {
        at += search_load<-1>(at + step) < key ? step : 0;
    }
    return at;
}

SPIRA_DEVICE bool downsample_window_there(const downsample_grid<uint32_t> &g, uint32_t at,
                                          uint32_t key) {
    return search_load<0>(at) - key <= g.span;
}

// Whether no voxel of the cell of word i stands before it.
template <int rx, int ry, bool near>
SPIRA_DEVICE bool downsample_window_head(const downsample_grid<uint32_t> &g,
                                         const downsample_window_of &window, int i) {
    const uint32_t from = window.words + downsample_bytes(i),
                   close = downsample_bytes(downsample_close);
    const uint32_t word = search_load<0>(from), cell = word & g.floor;
    const bool x = rx == 2 && (word & g.step_x), y = ry == 2 && (word & g.step_y);
    const uint32_t own = cell + (x ? g.step_x : 0) + (y ? g.step_y : 0);
    bool there = i > 0 && search_load<-1>(from) >= own;
    if (rx == 2) { // the rows of the lower slab
        const uint32_t key[2] = {cell, cell + g.step_y};
        uint32_t at[2] = {window.words, window.words};
        downsample_far_search<near, 2>(window, at, key);
        const bool either = downsample_window_there(g, at[0], key[0]) ||
                            (ry == 2 && downsample_window_there(g, at[1], key[1]));
        there = there || (x && either);
    }
    if (ry == 2) { // the lower row of the own slab
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

// Heads in front of a place, counted from the start of the block; `marks` is the shared address of
// the heads of the window's words.
SPIRA_DEVICE int downsample_window_before(const downsample_window_of &window, uint32_t marks,
                                          uint32_t at) {
    const uint32_t away = at - window.words;
    uint32_t bits, before;
    asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];"
                 : "=r"(bits), "=r"(before)
                 : "r"(marks + away / 128 * (uint32_t)sizeof(downsample_heads)));
    return (int)before + __popc(bits & ((1u << away / 4 % 32) - 1));
}

// downsample_rank of word i, counted from the start of the block.
template <int rx, int ry, bool near>
SPIRA_DEVICE int downsample_window_rank(const downsample_grid<uint32_t> &g,
                                        const downsample_window_of &window, uint32_t marks, int i) {
    const uint32_t from = window.words + downsample_bytes(i),
                   close = downsample_bytes(downsample_close);
    const uint32_t word = search_load<0>(from), cell = word & g.floor;
    const bool x = rx == 2 && (word & g.step_x), y = ry == 2 && (word & g.step_y);
    const uint32_t own = x ? cell + g.step_x : cell, other = x ? cell : cell + g.step_x;
    int rank = downsample_window_before(window, marks, from);
    const uint32_t start =
        near && !x ? from : window.words; // the other slab is behind, or in front
    if (rx == 2) { // the upper slab, and the cell in the other one: its place in the lower row, and
                   // start and place in the upper one
        const uint32_t away = other + g.step_y;
        const uint32_t key[4] = {(cell + g.step_x) & g.slab, other, away & g.row, away};
        uint32_t at[4] = {start, start, start, start};
        downsample_far_search<near, 4>(window, at, key);
        rank += downsample_window_before(window, marks, at[1]) -
                downsample_window_before(window, marks, at[0]);
        if (ry == 2) {
            rank += downsample_window_before(window, marks, at[3]) -
                    downsample_window_before(window, marks, at[2]);
        }
    }
    if (ry == 2) { // of the own slab: the start of the upper row, and the cell's place in it; or,
                   // where the word is in the upper row, the place in the lower one, and the start
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

// A thread's share of them, on their way.
template <typename W, int turn, int threads>
struct downsample_words {
    W word[(turn + 2 * downsample_margin + threads - 1) / threads];
    W base;
};

SPIRA_DEVICE int downsample_origin(int first) {
    return max(first - (int)downsample_margin, 0);
}

// The stretch that is read before more is known than a turn's first voxel.
template <int turn>
SPIRA_DEVICE downsample_span downsample_near_span(int first, int count) {
    return {downsample_origin(first),
            (int)min((unsigned)first + turn + downsample_margin, (unsigned)count)};
}

template <typename W, int turn, int threads>
SPIRA_DEVICE downsample_words<W, turn, threads>
downsample_read(const downsample_grid<W> &g, const W *words, int32_t capacity, int first) {
    downsample_words<W, turn, threads> read;
    const unsigned from = (unsigned)downsample_origin(first) + threadIdx.x;
    words += from;
#pragma unroll
    for (int j = 0; j < (turn + 2 * downsample_margin + threads - 1) / threads; ++j) {
        read.word[j] = word_none<W>();
        if (from + j * threads < (unsigned)capacity) {
            read.word[j] = words[j * threads];
        }
    }
    read.base = sizeof(W) == 4 ? 0 : downsample_base(g, words[first - (int)from]);
    return read;
}

// Puts them where they belong, padded for the searches from any voxel of the turn; buffer: the
// shared address of what is [pad + window + pad]; words: of the set, from the origin on.
template <typename W, int turn, int threads>
SPIRA_DEVICE void downsample_put(const downsample_grid<W> &g,
                                 const downsample_words<W, turn, threads> &read, int words,
                                 uint32_t buffer) {
    const int all = turn + 2 * downsample_margin, thread = (int)threadIdx.x,
              end = turn + downsample_margin + downsample_near_reach;
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

// Words of any window up to which it is padded, and its reach.
SPIRA_DEVICE int downsample_padded(int words, int reach) {
    return max(reach, words + (int)downsample_pad);
}

SPIRA_DEVICE int downsample_reach(int words) {
    return max(1 << (32 - __clz(words)), (int)search_reach_min);
}

// Whether all groups of the voxels [first, last) lie in the words that were read at once.
template <typename W, int turn>
SPIRA_DEVICE bool downsample_is_near(const downsample_grid<W> &g, uint32_t words, int first,
                                     int last) {
    const int origin = downsample_origin(first);
    const uint32_t from = words + downsample_bytes(first - origin);
    const uint32_t low = search_load<0>(from),
                   high = search_load<-1>(from + downsample_bytes(last - first));
    const uint32_t group = (uint32_t)g.group;
    return (origin == 0 || search_load<0>(words) < (low & group)) &&
           search_load<turn + downsample_margin - 1>(from) >= (high & group) + (uint32_t)g.reach &&
           downsample_fits(g, high);
}

// The span of voxels [first, last). Called by all threads of a block of two warps or more, with a
// barrier inside.
template <typename W>
SPIRA_DEVICE downsample_span downsample_find_span(const downsample_grid<W> &g, const W *words,
                                                  int count, int first, int last) {
    __shared__ int bound[2];
    int warp = threadIdx.x / 32;
    if (warp < 2) {
        const W group = words[warp ? last - 1 : first] & g.group;
        // The end: the place of the group's highest word, which is no voxel's: not all of its bits
        // are used. It does not wrap: a slab is not the last of its field, which keeps a margin, or
        // ends with the words.
        const W key = warp ? group + g.reach : group;
        int at = search_warp_lower_bound(words, count, key, warp ? last : first);
        if (threadIdx.x % 32 == 0) {
            bound[warp] = at;
        }
    }
    __syncthreads();
    const int begin = bound[0] & ~31, end = bound[1];
    const W base = downsample_base(g, words[first]);
    const bool fits = end - begin <= downsample_window - downsample_pad &&
                      downsample_fits(g, downsample_distance(g, words[last - 1], base));
    return {begin, fits ? end : ~end};
}

// Copies the words of a span; returns the window's reach. Called by all threads of a block.
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

// ---- the first launch ---------------------------------------------------------------------------

// Heads of all warps of a block, and in front of the own one in the upper half. Called by all
// threads of the block, with a barrier inside.
template <int turn>
SPIRA_DEVICE uint32_t downsample_sum_warps(uint32_t bits) {
    __shared__ int heads[turn / 32];
    const int lane = (int)(threadIdx.x % 32), warp = (int)(threadIdx.x / 32);
    if (lane == 0) {
        heads[warp] = __popc(bits);
    }
    __syncthreads();
    const int own = lane < turn / 32 ? heads[lane] : 0;
    return (uint32_t)warp_sum(lane < warp ? own << 16 | own : own);
}

// The span of the voxels [first, last) and whether the thread's is a head. Called by all threads of
// a block, with barriers inside.
template <typename W, int rx, int ry, int turn>
SPIRA_DEVICE bool downsample_mark_turn(const downsample_grid<W> &g, const W *words,
                                       const downsample_words<W, turn, turn> &read, uint32_t buffer,
                                       int first, int last, int count, downsample_span *span) {
    const downsample_grid<uint32_t> near = downsample_grid_near(g);
    const int i = first + (int)threadIdx.x;
    downsample_window_of window = {buffer + downsample_bytes(downsample_pad),
                                   2 * downsample_near_reach};
    *span = downsample_near_span<turn>(first, count);
    downsample_put(g, read, count - span->begin, buffer);
    __syncthreads();
    if (downsample_is_near<W, turn>(g, window.words, first, last)) {
        const int origin = span->begin;
        *span = {downsample_near, 0};
        return i < last && downsample_window_head<rx, ry, true>(near, window, i - origin);
    }
    *span = downsample_find_span(g, words, count, first, last);
    if (span->end < 0) {
        return i < last && downsample_is_head<W, rx, ry>(g, words, span->begin, count, i);
    }
    window.reach = downsample_copy(g, words, read.base, *span, turn, buffer);
    __syncthreads();
    return i < last && downsample_window_head<rx, ry, false>(near, window, i - span->begin);
}

// heads [ceil(in.capacity / 32)], and of each block their number, and of each turn its span.
template <typename W, int rx, int ry, int turn>
SPIRA_KERNEL void __launch_bounds__(turn)
    downsample_mark_kernel(downsample_grid<W> g, voxel_set<W> in, int shift,
                           downsample_heads *heads, int32_t *counts, downsample_span *spans) {
    __shared__ uint32_t buffer[downsample_window + 2 * downsample_pad];
    const unsigned begin = blockIdx.x << shift;
    const unsigned end = min(begin + (1u << shift), (unsigned)in.capacity);
    int before = 0;
    for (unsigned first = begin; first < end; first += turn) {
        downsample_words<W, turn, turn> read;
        if constexpr (rx * ry > 1) {
            read = downsample_read<W, turn, turn>(g, in.words, in.capacity, (int)first);
        }
        const unsigned count = (unsigned)voxel_set_count(in), i = first + threadIdx.x;
        const unsigned last = min(first + turn, count);
        bool head = false;
        downsample_span span = {0, 0};
        if (first < last) {
            if constexpr (rx * ry > 1) {
                head =
                    downsample_mark_turn<W, rx, ry, turn>(g, in.words, read, shared_address(buffer),
                                                          (int)first, (int)last, (int)count, &span);
            } else {
                head = i < last && (i == 0 || in.words[i - 1] < (in.words[i] & g.floor));
            }
        }
        const uint32_t bits = __ballot_sync(~0u, head);
        const uint32_t sum = downsample_sum_warps<turn>(bits);
        if (threadIdx.x % 32 == 0 && i < (unsigned)in.capacity) {
            heads[i / 32] = {bits, before + (int)(sum >> 16)};
        }
        before += (int)(sum & 0xffff);
        if (threadIdx.x == 0) {
            spans[first / turn] = span;
        }
        if (first + turn < end) {
            __syncthreads();
        }
    }
    if (threadIdx.x == 0) {
        counts[blockIdx.x] = before;
    }
}

// ---- the second launch --------------------------------------------------------------------------

// Heads of the 32 voxels of a chunk, `before` counted from the start of this block, which is at
// most `blocks` away, or any number if that is 0.
template <int blocks>
SPIRA_DEVICE downsample_heads downsample_chunk(const downsample_heads *heads, const int32_t *counts,
                                               int chunk, int chunks, int shift) {
    downsample_heads h = {0, 0};
    int block = (int)gridDim.x; // behind the set's end: all heads are before it
    const int own = (int)blockIdx.x;
    if (chunk < chunks) {
        h = heads[chunk];
        block = chunk >> (shift - 5);
    }
    if (blocks == 0) {
#pragma unroll 4
        for (int b = min(block, own); b < max(block, own); ++b) {
            h.before += block < own ? -counts[b] : counts[b];
        }
    }
#pragma unroll
    for (int j = 0; j < blocks; ++j) {
        if (own - 1 - j >= block) {
            h.before -= counts[own - 1 - j];
        }
    }
#pragma unroll
    for (int j = 0; j < (blocks ? blocks + 1 : 0); ++j) { // the end is behind one more
        if (own + j < block) {
            h.before += counts[own + j];
        }
    }
    return h;
}

// Where the heads of each block start, into blocks [gridDim.x].
template <int threads>
SPIRA_DEVICE void downsample_scan_blocks(const int32_t *counts, int32_t *blocks) {
    __shared__ int sums[threads / 32];
    const int used = (int)gridDim.x, each = (used + threads - 1) / threads;
    int before = 0, first = (int)threadIdx.x * each, last = min(first + each, used);
#pragma unroll 1
    for (int b = first; b < last; ++b) {
        before += counts[b];
    }
    before = block_exclusive_sum<threads>(before, sums);
#pragma unroll 1
    for (int b = first; b < last; ++b) { // read again: there are few, and few registers
        blocks[b] = before;
        before += counts[b];
    }
    __syncthreads();
}

// What the second launch holds in shared memory.
template <int turn>
struct downsample_shared {
    union {
        uint32_t buffer[downsample_window + 2 * downsample_pad];
        int32_t blocks[downsample_blocks_max]; // of spans that are searched in the set
    };
    __align__(8) downsample_heads marks[downsample_window / 32];
    int32_t list[turn];
    int sums[2]; // heads of all blocks, and in front of the own
};

// Calls rank(i) for the heads i of a turn, all of which are listed if a thread may have to take
// more than one.
template <int turn, int threads, bool listed, typename F>
SPIRA_DEVICE void downsample_for_heads(const downsample_heads *heads, int first, int last,
                                       int32_t *list, const F &rank) {
    if (!listed) {
        const int i = first + (int)threadIdx.x;
        if (i < last && (heads[i / 32].bits >> i % 32 & 1)) {
            rank(i);
        }
        return;
    }
    const int before = heads[first / 32].before;
    for (int i = first + (int)threadIdx.x; i < last; i += threads) {
        const downsample_heads h = heads[i / 32];
        if (h.bits >> i % 32 & 1) {
            list[h.before - before + __popc(h.bits & ((1u << i % 32) - 1))] = i;
        }
    }
    const downsample_heads end = heads[(last - 1) / 32];
    const int found = end.before - before + __popc(end.bits);
    __syncthreads();
    for (int h = (int)threadIdx.x; h < found; h += threads) {
        rank(list[h]);
    }
}

// Ranks the heads of the voxels [first, last) and writes their cells. Called by all threads of a
// block, with barriers inside.
template <typename W, int rx, int ry, int turn, int threads, bool listed>
SPIRA_DEVICE void downsample_rank_turn(const downsample_grid<W> &g, const voxel_set<W> &in,
                                       const downsample_heads *heads, const int32_t *counts,
                                       downsample_span span, W base, int shift, int first, int last,
                                       int count, downsample_shared<turn> *s,
                                       const voxel_set<W> &out) {
    const int before = s->sums[1];
    if constexpr (rx * ry == 1) {
        downsample_for_heads<turn, threads, listed>(heads, first, last, s->list, [&](int i) {
            const downsample_heads h = heads[i / 32];
            const int rank = before + h.before + __popc(h.bits & ((1u << i % 32) - 1));
            if (rank < out.capacity) {
                out.words[rank] = in.words[i] & g.floor;
            }
        });
        return;
    }
    if (span.end < 0) {
        downsample_scan_blocks<threads>(counts, s->blocks);
        const downsample_places p = {heads, s->blocks, shift, count, s->sums[0]};
        downsample_for_heads<turn, threads, listed>(heads, first, last, s->list, [&](int i) {
            const int rank = downsample_rank<W, rx, ry>(g, in.words, p, span.begin, ~span.end, i);
            if (rank < out.capacity) {
                out.words[rank] = in.words[i] & g.floor;
            }
        });
        return;
    }
    const downsample_grid<uint32_t> near = downsample_grid_near(g);
    const uint32_t buffer = shared_address(s->buffer), marks = shared_address(s->marks);
    downsample_window_of window = {buffer + downsample_bytes(downsample_pad),
                                   2 * downsample_near_reach};
    const bool is_near = span.begin == downsample_near;
    const int begin = is_near ? downsample_origin(first) : span.begin;
    const auto write = [&](int i, int rank) {
        if (rank < out.capacity) {
            out.words[rank] =
                (W)(search_load<0>(window.words + downsample_bytes(i)) & near.floor) + base;
        }
    };
    if (is_near) {
        downsample_for_heads<turn, threads, listed>(
            s->marks, first - begin, last - begin, s->list, [&](int i) {
                write(i, before + downsample_window_rank<rx, ry, true>(near, window, marks, i));
            });
        return;
    }
    for (int c = (int)threadIdx.x; c <= (span.end - begin) / 32; c += threads) {
        s->marks[c] = downsample_chunk<0>(heads, counts, begin / 32 + c,
                                          (int)ceil_div(in.capacity, 32), shift);
    }
    window.reach = downsample_copy(g, in.words, base, span, threads, buffer);
    __syncthreads();
    downsample_for_heads<turn, threads, listed>(
        s->marks, first - begin, last - begin, s->list, [&](int i) {
            write(i, before + downsample_window_rank<rx, ry, false>(near, window, marks, i));
        });
}

// Writes each cell where it belongs, word_none() behind them, and their number.
template <typename W, int rx, int ry, int turn, int threads, bool listed>
SPIRA_KERNEL void __launch_bounds__(threads, 2)
    downsample_rank_kernel(downsample_grid<W> g, voxel_set<W> in, int shift,
                           const downsample_heads *heads, const int32_t *counts,
                           const downsample_span *spans, voxel_set<W> out, device_status *trouble) {
    __shared__ downsample_shared<turn> s;
    const unsigned begin = blockIdx.x << shift;
    const unsigned end = min(begin + (1u << shift), (unsigned)in.capacity);
    int32_t given = 0; // voxels, though there may not be room for them
    for (unsigned first = begin; first < end; first += turn) {
        const int origin = downsample_origin((int)first);
        const int chunks = (turn + 2 * downsample_margin) / 32;
        downsample_words<W, turn, threads> read = {};
        downsample_heads chunk = {};
        if constexpr (rx * ry > 1) {
            read = downsample_read<W, turn, threads>(g, in.words, in.capacity, (int)first);
            if (threadIdx.x < chunks) {
                chunk = downsample_chunk<downsample_margin / turn>(
                    heads, counts, origin / 32 + (int)threadIdx.x, (in.capacity - 1) / 32 + 1,
                    shift);
            }
        }
        const downsample_span span = spans[first / turn];
        given = *in.count;
        const unsigned count = (unsigned)max(min(given, in.capacity), 0);
        const unsigned last = min(first + turn, count);
        if (first == begin) {
            const unique_counts heads_read = unique_read_counts(counts, threads);
            if (threadIdx.x < 2) {
                s.sums[threadIdx.x] = 0;
            }
            __syncthreads();
            unique_sum_counts(heads_read, counts, threads, s.sums);
        }
        if constexpr (rx * ry > 1) {
            downsample_put(g, read, (int)count - origin, shared_address(s.buffer));
            if (threadIdx.x < chunks) {
                s.marks[threadIdx.x] = chunk;
            }
        }
        __syncthreads();
        if (first < last) {
            downsample_rank_turn<W, rx, ry, turn, threads, listed>(g, in, heads, counts, span,
                                                                   read.base, shift, (int)first,
                                                                   (int)last, (int)count, &s, out);
        }
        if (first + turn < end) {
            __syncthreads();
        }
    }
    const int total = s.sums[0];
    const int64_t thread = (int64_t)blockIdx.x * threads + threadIdx.x;
    for (int64_t i = total + thread; i < out.capacity; i += (int64_t)gridDim.x * threads) {
        out.words[i] = word_none<W>();
    }
    if (thread == 0) {
        *out.count = min(total, out.capacity);
        if (total > out.capacity) {
            device_status_raise(trouble, device_flag_capacity, (uint32_t)total);
        }
        if (given > in.capacity) {
            device_status_raise(trouble, device_flag_capacity, (uint32_t)given);
        }
    }
}

template <typename W, int rx, int ry, int turn>
SPIRA_API status downsample_launch(const downsample_grid<W> &g, const downsample_cut &cut,
                                   voxel_set<W> in, voxel_set<W> out,
                                   const downsample_scratch<W> &s, device_status *trouble,
                                   cudaStream_t stream) {
    const unsigned blocks = (unsigned)cut.blocks;
    downsample_mark_kernel<W, rx, ry, turn>
        <<<blocks, turn, 0, stream>>>(g, in, cut.shift, s.marks, s.counts, s.spans);
    auto rank = downsample_rank_kernel<W, rx, ry, turn, turn, false>;
    unsigned threads = turn;
    if constexpr (turn * downsample_blocks_many > downsample_small) { // else there are fewer
        const int few = (turn * 5 / 8 + 31) / 32 * 32; // most blocks have no more heads
        const bool many = cut.blocks > downsample_blocks_many;
        rank = many ? downsample_rank_kernel<W, rx, ry, turn, few, true> : rank;
        threads = many ? few : threads;
    }
    rank<<<blocks, threads, 0, stream>>>(g, in, cut.shift, s.marks, s.counts, s.spans, out,
                                         trouble);
    return status_of_launch("downsample");
}

template <typename W, int rx, int ry>
SPIRA_API status downsample_step(const word_layout *layout, voxel_set<W> in, triple from,
                                 triple stride, voxel_set<W> out, const downsample_scratch<W> &s,
                                 device_status *trouble, cudaStream_t stream) {
    const downsample_grid<W> g = downsample_grid_make<W>(layout, from, stride, rx, ry);
    const downsample_cut cut = downsample_cut_make(in.capacity);
    return cut.turn == 256 ? downsample_launch<W, rx, ry, 256>(g, cut, in, out, s, trouble, stream)
                           : downsample_launch<W, rx, ry, 512>(g, cut, in, out, s, trouble, stream);
}

// The two ways share the memory.
template <typename W>
SPIRA_API status downsample_carve(workspace *w, int32_t rows, int32_t capacity,
                                  downsample_scratch<W> *s) {
    workspace step = *w;
    s->marks = workspace_take<downsample_heads>(&step, ceil_div(rows, 32));
    s->counts = workspace_take<int32_t>(&step, downsample_cut_make(rows).blocks);
    s->spans =
        workspace_take<downsample_span>(&step, ceil_div(rows, downsample_cut_make(rows).turn));
    unique_carve(w, rows, capacity, &s->sort);
    w->used = max_of(w->used, step.used);
    return status_success();
}

template <typename W>
SPIRA_KERNEL void __launch_bounds__(256)
    downsample_floor_kernel(word_layout layout, voxel_set<W> in, triple stride, bool by_mask,
                            W *words, device_status *trouble) {
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i == 0 && *in.count > in.capacity) {
        device_status_raise(trouble, device_flag_capacity, (uint32_t)*in.count);
    }
    if (i < in.capacity) {
        words[i] =
            i < *in.count ? downsample_word(&layout, in.words[i], stride, by_mask) : word_none<W>();
    }
}

// Bytes of scratch for downsample.
template <typename W>
SPIRA_API status downsample_workspace(voxel_set<W> in, int32_t out_capacity, size_t *bytes) {
    SPIRA_REQUIRE(in.capacity >= 1, status_bad_size, "in.capacity", in.capacity);
    SPIRA_REQUIRE(out_capacity >= 1, status_bad_size, "out.capacity", out_capacity);
    SPIRA_REQUIRE(bytes, status_null_pointer, "bytes", 0);
    workspace w = workspace_begin(nullptr);
    downsample_scratch<W> s;
    SPIRA_TRY(downsample_carve<W>(&w, in.capacity, out_capacity, &s));
    *bytes = w.used;
    return status_success();
}

// The set at `stride` of the set `in`, which is at `from` (Spira paper: packed-native processing).
//
// inputs   layout: fitted to at least this stride; stride: absolute, any >= 1; powers of two are
//          floored by a mask, others by unpacking
//          from: divides the stride; every coordinate of `in` is a multiple of it (as those of a
//          set that was downsampled to it are; {1, 1, 1} always holds). Powers of two that at most
//          double x and y take the short way: build the levels of a network one from the other
// outputs  out: the coarse set and its count; trouble: a capacity that was passed, of `out` or by
//          the count of `in`
// errors   null pointers, sizes, a stride beyond the layout's, a `from` that does not divide it, a
//          workspace that is too small
// Asynchronous, deterministic, equal to downsample_host. in and out must not overlap.
// cost     a step to the next level: two kernels with up to three and six binary searches a voxel,
//          in shared memory, or in the set where slabs are too long for it; else a radix sort of
//          the bits that the stride leaves, and three small kernels
template <typename W>
SPIRA_API status downsample_from(const word_layout *layout, voxel_set<W> in, triple from,
                                 triple stride, voxel_set<W> out, device_status *trouble,
                                 void *scratch, size_t scratch_bytes, cudaStream_t stream) {
    SPIRA_TRY(downsample_check(layout, &in, stride, &out));
    SPIRA_TRY(downsample_from_check(from, stride));
    SPIRA_REQUIRE(trouble, status_null_pointer, "trouble", 0);
    size_t needed;
    SPIRA_TRY(downsample_workspace(in, out.capacity, &needed));
    SPIRA_TRY(workspace_check(scratch, scratch_bytes, needed));
    workspace w = workspace_begin(scratch);
    downsample_scratch<W> s;
    SPIRA_TRY(downsample_carve<W>(&w, in.capacity, out.capacity, &s));
    if (downsample_is_step(from, stride)) {
        // A field that has no room for a second row or slab has one.
        bool x = stride.x > from.x && from.x < (int64_t)1 << layout->width.x;
        bool y = stride.y > from.y && from.y < (int64_t)1 << layout->width.y;
        auto step = x && y ? downsample_step<W, 2, 2>
                    : x    ? downsample_step<W, 2, 1>
                    : y    ? downsample_step<W, 1, 2>
                           : downsample_step<W, 1, 1>;
        return step(layout, in, from, stride, out, s, trouble, stream);
    }
    bool by_mask = downsample_by_mask(stride);
    int floored = (int)min_of(bits_for((uint64_t)stride.z) - 1, layout->width.z);
    int first_bit = by_mask ? floored : 0, bits = word_bits(layout); // the floored bits are zero
    downsample_floor_kernel<W><<<(unsigned)ceil_div(in.capacity, 256), 256, 0, stream>>>(
        *layout, in, stride, by_mask, unique_input(&s.sort, first_bit, bits), trouble);
    return unique_sort_launch(&s.sort, first_bit, bits, out, trouble, stream);
}

// The same from a set of which nothing is known: from = {1, 1, 1}.
template <typename W>
SPIRA_API status downsample(const word_layout *layout, voxel_set<W> in, triple stride,
                            voxel_set<W> out, device_status *trouble, void *scratch,
                            size_t scratch_bytes, cudaStream_t stream) {
    return downsample_from(layout, in, triple_make(1, 1, 1), stride, out, trouble, scratch,
                           scratch_bytes, stream);
}

} // namespace spira

#endif
