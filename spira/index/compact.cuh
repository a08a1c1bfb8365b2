// spira/index/compact.cuh: the z-delta search of a small cubic kernel, a warp to an x-offset.
//
// The same search as search_block's, for kernels of 3 or 5 that need no choice of rows. Each warp
// of a block takes one slab (x-offset) of a tile of outputs: it brackets and copies the slab's
// window by itself; it is searched in turns of some of the outputs, and a block that wants the taps
// meets when those of a turn are complete. Distances are counted in steps of the row, so that the
// words of a row are next to its anchor: K words from the anchor on are all there can be. They
// become presence bits, and every tap is stored, so that nothing is filled in beforehand.
//
// By a warp: plane_begin, then for each turn plane_next and, for taps, plane_put.
#ifndef SPIRA_INDEX_COMPACT_CUH
#define SPIRA_INDEX_COMPACT_CUH

#include "../base/async.cuh"
#include "../search.cuh"
#include "compact.h"

namespace spira {

// Outputs of a tile, and how many of them a lane has under way at a time: a turn.
SPIRA_BOTH constexpr int plane_rows(int K) {
    return K <= 3 ? 128 : 64;
}

SPIRA_BOTH constexpr int plane_ahead(int K) {
    return K <= 3 ? 2 : 1;
}

// Warp-wide loads of a window that are under way at a time: enough for most windows.
SPIRA_BOTH constexpr int plane_loads(int K) {
    return K <= 3 ? 6 : 4;
}

// Words of a window's buffer, whole turns of its loads. A window that does not fit is slow.
SPIRA_BOTH constexpr int plane_window_words(int K) {
    return K <= 3 ? 576 : 512;
}

// Offsets of an output: all, or those before the centre (half). They are in so many planes, of which
// the last one has only the lower half of its own.
SPIRA_BOTH constexpr int plane_columns(int K, bool half) {
    return half ? K * K * K / 2 : K * K * K;
}

SPIRA_BOTH constexpr int plane_count(int K, bool half) {
    return half ? K / 2 + 1 : K;
}

// The taps of a turn.
SPIRA_BOTH constexpr int plane_taps_bytes(int K, bool half) {
    return plane_ahead(K) * 32 * plane_columns(K, half) * (int)sizeof(int32_t);
}

SPIRA_BOTH constexpr int plane_windows_bytes(int planes, int K) {
    return planes * plane_window_words(K) * (int)sizeof(uint32_t);
}

// Shared memory of a block that wants taps: those of a turn, then the windows.
SPIRA_BOTH constexpr int plane_block_bytes(int K, bool half) {
    return plane_taps_bytes(K, half) + plane_windows_bytes(plane_count(K, half), K);
}

// Steps of the search, the last one first: a little less than powers of two from the fifth on, so
// that the words which the lanes look at lie in different banks.
SPIRA_BOTH constexpr int plane_step(int n) {
    return n < 4 ? 1 << n : 2 * plane_step(n - 1) - 1;
}

// Words that `steps` of them can pass.
SPIRA_BOTH constexpr int plane_reach(int steps) {
    return steps == 0 ? 0 : plane_reach(steps - 1) + plane_step(steps - 1);
}

enum {
    plane_steps_least = 6,
    plane_key_margin = 64, // padding is as far from every key at least
};

SPIRA_BOTH constexpr int plane_steps_most(int K) {
    return plane_reach(9) + K <= plane_window_words(K) ? 9 : 8;
}

// A search: how many steps, and how many words the first of them may pass.
struct plane_search_length {
    int steps, first;
};

// plane_reach(steps), from the fifth step on.
SPIRA_BOTH int plane_reach_of(plane_search_length length) {
    return 2 * length.first + length.steps - 5;
}

// The shortest one that passes all of so many words; one step more than `most` if none does.
SPIRA_BOTH plane_search_length plane_length_for(int words, int most) {
    plane_search_length length = {plane_steps_least, plane_step(plane_steps_least - 1)};
    while (length.steps <= most && words > plane_reach_of(length)) {
        length.steps += 1;
        length.first = 2 * length.first - 1;
    }
    return length;
}

// A tile's outputs as a warp holds them: of lane l, numbers l, l + 32, ...
template <typename W, int K>
struct plane_outputs {
    W word[plane_rows(K) / 32];
    W lowest, highest;
    int first, rows;
};

// The window of a slab: source [begin, ...) as distances in steps of the row.
struct plane_window {
    uint32_t words; // shared address
    int begin;
    plane_search_length length; // no steps: no window, it is too long or not on the row's lattice
};

// Reads before it is known how many outputs there are: never at or past the capacity. By a warp.
template <typename W, int K>
SPIRA_DEVICE void plane_read(const W *outputs, int capacity, int first,
                            plane_outputs<W, K> *queries) {
    int lane = threadIdx.x & 31;
#pragma unroll
    for (int g = 0; g < plane_rows(K) / 32; ++g) {
        queries->word[g] = outputs[min(first + g * 32 + lane, capacity - 1)];
    }
    queries->lowest = __shfl_sync(~0u, queries->word[0], 0); // so it is not put off
    queries->first = first;
}

// Once it is known: lanes without an output repeat the first one.
template <typename W, int K>
SPIRA_DEVICE void plane_limit(int rows, plane_outputs<W, K> *queries) {
    int lane = threadIdx.x & 31;
    W top = queries->word[0];
#pragma unroll
    for (int g = 0; g < plane_rows(K) / 32; ++g) {
        top = rows > g * 32 ? queries->word[g] : top;
        queries->word[g] = g * 32 + lane < rows ? queries->word[g] : queries->lowest;
    }
    queries->highest = __shfl_sync(~0u, top, (rows - 1) & 31);
    queries->rows = rows;
}

// Whether all outputs stand on the lattice of the first.
template <typename W, int K>
SPIRA_DEVICE bool plane_on_lattice(const plane_outputs<W, K> &queries, W mask) {
    W off = 0;
#pragma unroll
    for (int g = 0; g < plane_rows(K) / 32; ++g) {
        off |= queries.word[g] - queries.lowest;
    }
    return !__any_sync(~0u, (off & mask) != 0);
}

// Copies the distances from base, in steps, of the words within base + span. Words below the base
// are at most the 32 from `near` on.
template <typename W, int K>
SPIRA_DEVICE plane_window plane_load(const search_sets<W> &sets, int near, W base, W span, int shift,
                                   uint32_t *buffer) {
    const int loads = plane_loads(K), capacity = plane_window_words(K);
    int lane = threadIdx.x & 31, loaded = 0, below = 0, words = 0;
    W mask = ((W)1 << shift) - 1, off = 0;
    bool within[loads];
    do {
        W word[loads];
#pragma unroll
        for (int j = 0; j < loads; ++j) {
            int i = near + loaded + 32 * j + lane;
            word[j] = i < sets.count ? sets.source[i] : word_none<W>();
        }
        if (loaded == 0) {
            below = __popc(__ballot_sync(~0u, word[0] < base));
        }
        words = loaded ? loaded - below : 0;
        uint32_t *out = buffer + loaded - below + lane;
#pragma unroll
        for (int j = 0; j < loads; ++j) {
            W away = word[j] - base;
            within[j] = word[j] >= base && away <= span;
            off |= within[j] ? away : 0;
            if (loaded + j || lane >= below) {
                out[32 * j] = within[j] ? (uint32_t)(away >> shift) : UINT32_MAX;
            }
        }
        loaded += 32 * loads;
    } while (loaded < capacity && __any_sync(~0u, lane == 31 && within[loads - 1]));
#pragma unroll
    for (int j = 0; j < loads; ++j) {
        words += __popc(__ballot_sync(~0u, within[j]));
    }
    plane_search_length length = plane_length_for(words, plane_steps_most(K));
    bool fits = words < loaded - below && length.steps <= plane_steps_most(K);
    int padded = fits ? plane_reach_of(length) + K : 0;
#pragma unroll 1
    for (int i = loaded - below + lane; i < padded; i += 32) {
        buffer[i] = UINT32_MAX;
    }
    length.steps = fits && !__any_sync(~0u, (off & mask) != 0) ? length.steps : 0;
    return {shared_address(buffer), near + below, length};
}

// The steps from number n down, of a search that takes so many, behind its first.
template <int n, int searches>
SPIRA_DEVICE void plane_walk(uint32_t (&at)[searches], const uint32_t (&key)[searches], int steps) {
    if (n < plane_steps_least - 1 || n < steps - 1) {
#pragma unroll
        for (int r = 0; r < searches; ++r) {
            search_step<plane_step(n)>(&at[r], key[r]);
        }
    }
    if constexpr (n > 0) {
        plane_walk<n - 1, searches>(at, key, steps);
    }
}

// 1 << above; 0 from 32 on.
SPIRA_DEVICE uint32_t plane_bit(uint32_t above) {
    uint32_t bit;
    asm("shl.b32 %0, 1, %1;" : "=r"(bit) : "r"(above));
    return bit;
}

// Which members of its row an output has: of K words from the anchor on.
template <int K, int j = 0>
SPIRA_DEVICE uint32_t plane_members(uint32_t at, uint32_t key) {
    uint32_t bits = plane_bit(search_load<j>(at) - key);
    if constexpr (j + 1 < K) {
        bits |= plane_members<K, j + 1>(at, key);
    }
    return bits;
}

// Tap m: `position`, which it passes, or -1.
template <int m>
SPIRA_DEVICE uint32_t plane_tap(uint32_t bits, int *position) {
    uint32_t tap;
    asm("{ .reg .pred has; .reg .b32 bit;\n"
        "and.b32 bit, %2, %3;\n"
        "setp.ne.u32 has, bit, 0;\n"
        "selp.b32 %0, %1, -1, has;\n"
        "@has add.s32 %1, %1, 1; }"
        : "=&r"(tap), "+r"(*position)
        : "r"(bits), "n"(1 << m));
    return tap;
}

// The rows of a slab of one output: which members are there, K bits each, and where the first of
// them stands.
template <int K>
struct plane_found {
    uint32_t bits[K];
    int position[K];
};

// The taps [m, end) of a row: the words that are there stand side by side.
template <int end, int m = 0>
SPIRA_DEVICE void plane_store(uint32_t bits, int position, uint32_t to) {
    if constexpr (m < end) {
        shared_store(to + 4 * m, plane_tap<m>(bits, &position));
        plane_store<end, m + 1>(bits, position, to);
    }
}

// Taps [0, taps) of the slab of an output.
template <int K, int taps, int y = 0>
SPIRA_DEVICE void plane_store_rows(const plane_found<K> &found, uint32_t to) {
    if constexpr (y * K < taps) {
        plane_store<(taps - y * K < K ? taps - y * K : K)>(found.bits[y], found.position[y],
                                                          to + y * K * 4);
        plane_store_rows<K, taps, y + 1>(found, to);
    }
}

// Brackets and copies the window of a slab, by a warp.
//
// inputs   walk: of search_walk_make for a cubic kernel of size K that compact_takes
//          queries: by plane_read and plane_limit
//          buffer [plane_window_words(K)]: shared, of the warp alone
// returns  the window; without steps if it is too long or too far, or if there are words off the
//          lattice: then `begin` is not above the lower bound of the slab's first query
template <typename W, int K>
SPIRA_DEVICE plane_window plane_open(const search_walk<W> &walk, const search_sets<W> &sets,
                                   const plane_outputs<W, K> &queries, int slab, uint32_t *buffer) {
    // Where the sets are the same, or one is the floor of the other, the answer is near this.
    int hint = queries.first;
    if (sets.count != sets.total) {
        hint = (int)__fdividef((float)hint * (float)sets.count, (float)sets.total);
    }
    W base = queries.lowest + walk.base + (W)slab * walk.step_x;
    W span = queries.highest - queries.lowest + (W)(K - 1) * walk.step_y + walk.span;
    int near = search_warp_bracket(sets.source, sets.count, base, hint, 31);
    plane_window window = {0, near, {0, 0}};
    if (span < (W)(UINT32_MAX - plane_key_margin) &&
        plane_on_lattice<W, K>(queries, ((W)1 << walk.shift) - 1)) {
        window = plane_load<W, K>(sets, near, base, span, walk.shift, buffer);
    }
    __syncwarp();
    return window;
}

// The rows of outputs number g, ... of each lane, plane_ahead(K) of them, their searches
// interleaved.
template <typename W, int K>
SPIRA_DEVICE void plane_find(const search_walk<W> &walk, const plane_outputs<W, K> &queries,
                            const plane_window &window, int g, plane_found<K> *found) {
    const int searches = K * plane_ahead(K);
    uint32_t at[searches], key[searches];
    uint32_t second = window.words + (uint32_t)window.length.first * (uint32_t)sizeof(uint32_t);
    uint32_t word = search_load<-1>(second); // the first step is from the same place for all
    uint32_t step_y = (uint32_t)(walk.step_y >> walk.shift);
#pragma unroll
    for (int r = 0; r < searches; ++r) {
        W away = queries.word[g + r / K] - queries.lowest;
        key[r] = (uint32_t)(away >> walk.shift) + (uint32_t)(r % K) * step_y;
        at[r] = word < key[r] ? second : window.words;
    }
    plane_walk<plane_steps_most(K) - 2, searches>(at, key, window.length.steps);
    int offset = window.begin - (int)(window.words >> 2);
#pragma unroll
    for (int r = 0; r < searches; ++r) {
        found[r / K].bits[r % K] = plane_members<K>(at[r], key[r]);
        found[r / K].position[r % K] = (int)(at[r] >> 2) + offset;
    }
}

// The outputs that are searched at a time, numbers g, ... of each lane, by themselves: where the
// window of all of them is too long. There is one at least.
template <typename W, int K>
SPIRA_DEVICE plane_outputs<W, K> plane_pass(const plane_outputs<W, K> &queries, int g) {
    plane_outputs<W, K> part = queries;
    const int rows = min(queries.rows - g * 32, 32 * plane_ahead(K));
    W top = queries.word[g];
#pragma unroll
    for (int a = 1; a < plane_ahead(K); ++a) {
        top = rows > a * 32 ? queries.word[g + a] : top;
    }
    part.lowest = __shfl_sync(~0u, queries.word[g], 0);
    part.highest = __shfl_sync(~0u, top, (rows - 1) & 31);
    part.first = queries.first + g * 32;
    return part;
}

// Where there is no window: a tap straight from the source, at *begin or later, which moves up to
// the query.
template <typename W>
SPIRA_DEVICE int plane_far_tap(const W *source, int count, W query, int *begin) {
    int reach = 1;
    while (*begin + reach < count && source[*begin + reach] < query) {
        *begin += reach;
        reach *= 2;
    }
    *begin = search_lower_bound(source, *begin, min(*begin + reach, count), query);
    return *begin < count && source[*begin] == query ? *begin : -1;
}

// The query of offset c of a slab, for an output.
template <typename W, int K>
SPIRA_DEVICE W plane_far_query(const search_walk<W> &walk, W output, int slab, int c) {
    return output + walk.base + (W)slab * walk.step_x + (W)(c / K) * walk.step_y +
           (W)(c % K) * (W)walk.step;
}

// A slab of a tile, under search by its warp.
template <typename W, int K>
struct plane_search {
    plane_outputs<W, K> queries; // of the tile
    plane_outputs<W, K> part;    // those that the window is of: all, or those of a turn
    plane_window window;
    uint32_t *buffer; // [plane_window_words(K)]: shared, of the warp alone
    int slab;
    bool whole; // one window for all of the tile
};

// Begins with a slab. queries: by plane_read and plane_limit.
template <typename W, int K>
SPIRA_DEVICE plane_search<W, K> plane_begin(const search_walk<W> &walk, const search_sets<W> &sets,
                                          const plane_outputs<W, K> &queries, int slab,
                                          uint32_t *buffer) {
    plane_window window = plane_open<W, K>(walk, sets, queries, slab, buffer);
    return {queries, queries, window, buffer, slab, window.length.steps != 0};
}

// The next turn, outputs number g, ... of each lane; there is one at least. Returns false if they
// have no window: then `found` is not written.
template <typename W, int K>
SPIRA_DEVICE bool plane_next(const search_walk<W> &walk, const search_sets<W> &sets, int g,
                            plane_search<W, K> *search, plane_found<K> *found) {
    if (!search->whole) {
        __syncwarp(); // the turn before had the buffer
        search->part = plane_pass<W, K>(search->queries, g);
        search->window = plane_open<W, K>(walk, sets, search->part, search->slab, search->buffer);
    }
    if (search->window.length.steps) {
        plane_find<W, K>(walk, search->part, search->window, g, found);
    }
    return search->window.length.steps != 0;
}

// The first `taps` of each output of a turn that plane_next has found; `columns` from one output to
// the next. to: the shared address of the first of the lane's first output.
template <typename W, int K, int taps, int columns>
SPIRA_DEVICE void plane_put(const plane_search<W, K> &search, const plane_found<K> *found, int g,
                           uint32_t to) {
#pragma unroll
    for (int a = 0; a < plane_ahead(K); ++a) {
        if ((g + a) * 32 + (int)(threadIdx.x & 31) < search.queries.rows) {
            plane_store_rows<K, taps>(found[a], to + (uint32_t)(a * 32 * columns) * 4);
        }
    }
}

// The same of a turn without a window.
template <typename W, int K, int columns>
SPIRA_DEVICE void plane_put_far(const search_walk<W> &walk, const search_sets<W> &sets,
                               const plane_search<W, K> &search, int g, int taps, uint32_t to) {
#pragma unroll
    for (int a = 0; a < plane_ahead(K); ++a) {
        bool there = (g + a) * 32 + (int)(threadIdx.x & 31) < search.queries.rows;
        int from = search.window.begin;
#pragma unroll 1
        for (int c = 0; c < taps && there; ++c) {
            W query = plane_far_query<W, K>(walk, search.queries.word[g + a], search.slab, c);
            shared_store(to + (uint32_t)(a * 32 * columns + c) * 4,
                         (uint32_t)plane_far_tap(sets.source, sets.count, query, &from));
        }
    }
}

} // namespace spira

#endif
