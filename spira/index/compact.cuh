// spira/index/compact.cuh: the z-delta search of a small cubic kernel, a warp to an x-offset.
//
// The same search as search_block's, for kernels of 3 or 5 that need no choice of rows. Each warp
// of a block takes one slab (x-offset) of a tile of outputs: it brackets and copies the slab's
// window by itself; it is searched in turns of some of the outputs, and a block that wants the taps
// meets when those of a turn are complete. Distances are counted in steps of the row, so that the
// words of a row are next to its anchor: K words from the anchor on are all there can be. They
// become presence bits, and every tap is stored, so that nothing is filled in beforehand.
//
// By a warp: slab_begin, then for each turn slab_next and, for taps, slab_put.
#ifndef SPIRA_INDEX_COMPACT_CUH
#define SPIRA_INDEX_COMPACT_CUH

#include "../base/async.cuh"
#include "../search.cuh"
#include "compact.h"

namespace spira {

// Outputs of a tile, and how many of them a lane has under way at a time: a turn.
SPIRA_BOTH constexpr int slab_rows(int K) {
    return K <= 3 ? 128 : 64;
}

SPIRA_BOTH constexpr int slab_ahead(int K) {
    return K <= 3 ? 2 : 1;
}

// Warp-wide loads of a window that are under way at a time: enough for most windows.
SPIRA_BOTH constexpr int slab_loads(int K) {
    return K <= 3 ? 6 : 4;
}

// Words of a window's buffer, whole turns of its loads. A window that does not fit is slow.
SPIRA_BOTH constexpr int slab_window_words(int K) {
    return K <= 3 ? 576 : 512;
}

// Offsets of an output: all, or those before the centre (half). They are in so many slabs, of which
// the last one has only the lower half of its own.
SPIRA_BOTH constexpr int slab_columns(int K, bool half) {
    return half ? K * K * K / 2 : K * K * K;
}

SPIRA_BOTH constexpr int slab_slabs(int K, bool half) {
    return half ? K / 2 + 1 : K;
}

// The taps of a turn.
SPIRA_BOTH constexpr int slab_taps_bytes(int K, bool half) {
    return slab_ahead(K) * 32 * slab_columns(K, half) * (int)sizeof(int32_t);
}

SPIRA_BOTH constexpr int slab_windows_bytes(int slabs, int K) {
    return slabs * slab_window_words(K) * (int)sizeof(uint32_t);
}

// Shared memory of a block that wants taps: those of a turn, then the windows.
SPIRA_BOTH constexpr int slab_block_bytes(int K, bool half) {
    return slab_taps_bytes(K, half) + slab_windows_bytes(slab_slabs(K, half), K);
}

// Steps of the search, the last one first: a little less than powers of two from the fifth on, so
// that the words which the lanes look at lie in different banks.
SPIRA_BOTH constexpr int slab_step(int n) {
    return n < 4 ? 1 << n : 2 * slab_step(n - 1) - 1;
}

// Words that `steps` of them can pass.
SPIRA_BOTH constexpr int slab_reach(int steps) {
    return steps == 0 ? 0 : slab_reach(steps - 1) + slab_step(steps - 1);
}

enum {
    slab_steps_least = 6,
    slab_key_margin = 64, // padding is as far from every key at least
};

SPIRA_BOTH constexpr int slab_steps_most(int K) {
    return slab_reach(9) + K <= slab_window_words(K) ? 9 : 8;
}

// A search: how many steps, and how many words the first of them may pass.
struct slab_search_length {
    int steps, first;
};

// slab_reach(steps), from the fifth step on.
SPIRA_BOTH int slab_reach_of(slab_search_length length) {
    return 2 * length.first + length.steps - 5;
}

// The shortest one that passes all of so many words; one step more than `most` if none does.
SPIRA_BOTH slab_search_length slab_length_for(int words, int most) {
    slab_search_length length = {slab_steps_least, slab_step(slab_steps_least - 1)};
    while (length.steps <= most && words > slab_reach_of(length)) {
        length.steps += 1;
        length.first = 2 * length.first - 1;
    }
    return length;
}

// A tile's outputs as a warp holds them: of lane l, numbers l, l + 32, ...
template <typename W, int K>
struct slab_outputs {
    W word[slab_rows(K) / 32];
    W lowest, highest;
    int first, rows;
};

// The window of a slab: source [begin, ...) as distances in steps of the row.
struct slab_window {
    uint32_t words; // shared address
    int begin;
    slab_search_length length; // no steps: no window, it is too long or not on the row's lattice
};

// Reads before it is known how many outputs there are: never at or past the capacity. By a warp.
template <typename W, int K>
SPIRA_DEVICE void slab_read(const W *outputs, int capacity, int first,
                            slab_outputs<W, K> *queries) {
    int lane = threadIdx.x & 31;
#pragma unroll
    for (int g = 0; g < slab_rows(K) / 32; ++g) {
        queries->word[g] = outputs[min(first + g * 32 + lane, capacity - 1)];
    }
    queries->lowest = __shfl_sync(~0u, queries->word[0], 0); // so it is not put off
    queries->first = first;
}

// Once it is known: lanes without an output repeat the first one.
template <typename W, int K>
SPIRA_DEVICE void slab_limit(int rows, slab_outputs<W, K> *queries) {
    int lane = threadIdx.x & 31;
    W top = queries->word[0];
#pragma unroll
    for (int g = 0; g < slab_rows(K) / 32; ++g) {
        top = rows > g * 32 ? queries->word[g] : top;
        queries->word[g] = g * 32 + lane < rows ? queries->word[g] : queries->lowest;
    }
    queries->highest = __shfl_sync(~0u, top, (rows - 1) & 31);
    queries->rows = rows;
}

// Whether all outputs stand on the lattice of the first.
template <typename W, int K>
SPIRA_DEVICE bool slab_on_lattice(const slab_outputs<W, K> &queries, W mask) {
    W off = 0;
#pragma unroll
    for (int g = 0; g < slab_rows(K) / 32; ++g) {
        off |= queries.word[g] - queries.lowest;
    }
    return !__any_sync(~0u, (off & mask) != 0);
}

// Copies the distances from base, in steps, of the words within base + span. Words below the base
// are at most the 32 from `near` on.
template <typename W, int K>
SPIRA_DEVICE slab_window slab_load(const search_sets<W> &sets, int near, W base, W span, int shift,
                                   uint32_t *buffer) {
    const int loads = slab_loads(K), capacity = slab_window_words(K);
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
    slab_search_length length = slab_length_for(words, slab_steps_most(K));
    bool fits = words < loaded - below && length.steps <= slab_steps_most(K);
    int padded = fits ? slab_reach_of(length) + K : 0;
#pragma unroll 1
    for (int i = loaded - below + lane; i < padded; i += 32) {
        buffer[i] = UINT32_MAX;
    }
    length.steps = fits && !__any_sync(~0u, (off & mask) != 0) ? length.steps : 0;
    return {shared_address(buffer), near + below, length};
}

// The steps from number n down, of a search that takes so many, behind its first.
template <int n, int searches>
SPIRA_DEVICE void slab_walk(uint32_t (&at)[searches], const uint32_t (&key)[searches], int steps) {
    if (n < slab_steps_least - 1 || n < steps - 1) {
#pragma unroll
        for (int r = 0; r < searches; ++r) {
            search_step<slab_step(n)>(&at[r], key[r]);
        }
    }
    if constexpr (n > 0) {
        slab_walk<n - 1, searches>(at, key, steps);
    }
}

// 1 << above; 0 from 32 on.
SPIRA_DEVICE uint32_t slab_bit(uint32_t above) {
    uint32_t bit;
    asm("shl.b32 %0, 1, %1;" : "=r"(bit) : "r"(above));
    return bit;
}

// Which members of its row an output has: of K words from the anchor on.
template <int K, int j = 0>
SPIRA_DEVICE uint32_t slab_members(uint32_t at, uint32_t key) {
    uint32_t bits = slab_bit(search_load<j>(at) - key);
    if constexpr (j + 1 < K) {
        bits |= slab_members<K, j + 1>(at, key);
    }
    return bits;
}

// Tap m: `position`, which it passes, or -1.
template <int m>
SPIRA_DEVICE uint32_t slab_tap(uint32_t bits, int *position) {
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
struct slab_found {
    uint32_t bits[K];
    int position[K];
};

// The taps [m, end) of a row: the words that are there stand side by side.
template <int end, int m = 0>
SPIRA_DEVICE void slab_store(uint32_t bits, int position, uint32_t to) {
    if constexpr (m < end) {
        shared_store(to + 4 * m, slab_tap<m>(bits, &position));
        slab_store<end, m + 1>(bits, position, to);
    }
}

// Taps [0, taps) of the slab of an output.
template <int K, int taps, int y = 0>
SPIRA_DEVICE void slab_store_rows(const slab_found<K> &found, uint32_t to) {
    if constexpr (y * K < taps) {
        slab_store<(taps - y * K < K ? taps - y * K : K)>(found.bits[y], found.position[y],
                                                          to + y * K * 4);
        slab_store_rows<K, taps, y + 1>(found, to);
    }
}

// Brackets and copies the window of a slab, by a warp.
//
// inputs   walk: of search_walk_make for a cubic kernel of size K that slab_takes
//          queries: by slab_read and slab_limit
//          buffer [slab_window_words(K)]: shared, of the warp alone
// returns  the window; without steps if it is too long or too far, or if there are words off the
//          lattice: then `begin` is not above the lower bound of the slab's first query
template <typename W, int K>
SPIRA_DEVICE slab_window slab_open(const search_walk<W> &walk, const search_sets<W> &sets,
                                   const slab_outputs<W, K> &queries, int slab, uint32_t *buffer) {
    // Where the sets are the same, or one is the floor of the other, the answer is near this.
    int hint = queries.first;
    if (sets.count != sets.total) {
        hint = (int)__fdividef((float)hint * (float)sets.count, (float)sets.total);
    }
    W base = queries.lowest + walk.base + (W)slab * walk.step_x;
    W span = queries.highest - queries.lowest + (W)(K - 1) * walk.step_y + walk.span;
    int near = search_warp_bracket(sets.source, sets.count, base, hint, 31);
    slab_window window = {0, near, {0, 0}};
    if (span < (W)(UINT32_MAX - slab_key_margin) &&
        slab_on_lattice<W, K>(queries, ((W)1 << walk.shift) - 1)) {
        window = slab_load<W, K>(sets, near, base, span, walk.shift, buffer);
    }
    __syncwarp();
    return window;
}

// The rows of outputs number g, ... of each lane, slab_ahead(K) of them, their searches
// interleaved.
template <typename W, int K>
SPIRA_DEVICE void slab_find(const search_walk<W> &walk, const slab_outputs<W, K> &queries,
                            const slab_window &window, int g, slab_found<K> *found) {
    const int searches = K * slab_ahead(K);
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
    slab_walk<slab_steps_most(K) - 2, searches>(at, key, window.length.steps);
    int offset = window.begin - (int)(window.words >> 2);
#pragma unroll
    for (int r = 0; r < searches; ++r) {
        found[r / K].bits[r % K] = slab_members<K>(at[r], key[r]);
        found[r / K].position[r % K] = (int)(at[r] >> 2) + offset;
    }
}

// The outputs that are searched at a time, numbers g, ... of each lane, by themselves: where the
// window of all of them is too long. There is one at least.
template <typename W, int K>
SPIRA_DEVICE slab_outputs<W, K> slab_part(const slab_outputs<W, K> &queries, int g) {
    slab_outputs<W, K> part = queries;
    const int rows = min(queries.rows - g * 32, 32 * slab_ahead(K));
    W top = queries.word[g];
#pragma unroll
    for (int a = 1; a < slab_ahead(K); ++a) {
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
SPIRA_DEVICE int slab_far_tap(const W *source, int count, W query, int *begin) {
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
SPIRA_DEVICE W slab_far_query(const search_walk<W> &walk, W output, int slab, int c) {
    return output + walk.base + (W)slab * walk.step_x + (W)(c / K) * walk.step_y +
           (W)(c % K) * (W)walk.step;
}

// A slab of a tile, under search by its warp.
template <typename W, int K>
struct slab_search {
    slab_outputs<W, K> queries; // of the tile
    slab_outputs<W, K> part;    // those that the window is of: all, or those of a turn
    slab_window window;
    uint32_t *buffer; // [slab_window_words(K)]: shared, of the warp alone
    int slab;
    bool whole; // one window for all of the tile
};

// Begins with a slab. queries: by slab_read and slab_limit.
template <typename W, int K>
SPIRA_DEVICE slab_search<W, K> slab_begin(const search_walk<W> &walk, const search_sets<W> &sets,
                                          const slab_outputs<W, K> &queries, int slab,
                                          uint32_t *buffer) {
    slab_window window = slab_open<W, K>(walk, sets, queries, slab, buffer);
    return {queries, queries, window, buffer, slab, window.length.steps != 0};
}

// The next turn, outputs number g, ... of each lane; there is one at least. Returns false if they
// have no window: then `found` is not written.
template <typename W, int K>
SPIRA_DEVICE bool slab_next(const search_walk<W> &walk, const search_sets<W> &sets, int g,
                            slab_search<W, K> *search, slab_found<K> *found) {
    if (!search->whole) {
        __syncwarp(); // the turn before had the buffer
        search->part = slab_part<W, K>(search->queries, g);
        search->window = slab_open<W, K>(walk, sets, search->part, search->slab, search->buffer);
    }
    if (search->window.length.steps) {
        slab_find<W, K>(walk, search->part, search->window, g, found);
    }
    return search->window.length.steps != 0;
}

// The first `taps` of each output of a turn that slab_next has found; `columns` from one output to
// the next. to: the shared address of the first of the lane's first output.
template <typename W, int K, int taps, int columns>
SPIRA_DEVICE void slab_put(const slab_search<W, K> &search, const slab_found<K> *found, int g,
                           uint32_t to) {
#pragma unroll
    for (int a = 0; a < slab_ahead(K); ++a) {
        if ((g + a) * 32 + (int)(threadIdx.x & 31) < search.queries.rows) {
            slab_store_rows<K, taps>(found[a], to + (uint32_t)(a * 32 * columns) * 4);
        }
    }
}

// The same of a turn without a window.
template <typename W, int K, int columns>
SPIRA_DEVICE void slab_put_far(const search_walk<W> &walk, const search_sets<W> &sets,
                               const slab_search<W, K> &search, int g, int taps, uint32_t to) {
#pragma unroll
    for (int a = 0; a < slab_ahead(K); ++a) {
        bool there = (g + a) * 32 + (int)(threadIdx.x & 31) < search.queries.rows;
        int from = search.window.begin;
#pragma unroll 1
        for (int c = 0; c < taps && there; ++c) {
            W query = slab_far_query<W, K>(walk, search.queries.word[g + a], search.slab, c);
            shared_store(to + (uint32_t)(a * 32 * columns + c) * 4,
                         (uint32_t)slab_far_tap(sets.source, sets.count, query, &from));
        }
    }
}

} // namespace spira

#endif
