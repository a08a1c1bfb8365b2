// spira/index/plane_search.cuh: the z-delta search of a small cubic kernel (size 3 or 5): one warp
// for each x-plane of the kernel.
//
// It finds the same taps as search_block (search.cuh). Each warp of a thread block takes one plane
// (the K * K offsets that share x) of a tile of plane_rows(K) outputs. The warp brackets the
// plane's window of source words by itself and copies it to shared memory. Then it searches the
// outputs in passes: in each pass a lane has plane_ahead(K) outputs.
//
// Distances in the window are counted in steps of the row (a row is K offsets that differ in z). So
// the members of a row lie within K words from the anchor, the first word that is not below the
// row's first query. They become presence bits. Every tap is stored, so that the caller clears
// nothing beforehand.
//
// A window that is too long for its buffer, or whose words are off the row's lattice, is not used.
// Then each pass tries a window for its own outputs. A pass that has none either is "far": its
// taps are searched in global memory.
//
// A warp calls plane_read, plane_limit and plane_begin, then for each pass plane_next, and
// plane_put or plane_put_far if it wants taps in shared memory.
#ifndef SPIRA_INDEX_PLANE_SEARCH_CUH
#define SPIRA_INDEX_PLANE_SEARCH_CUH

#include "../base/async.cuh"
#include "../search.cuh"
#include "compact.h"

namespace spira {

// Outputs of a tile, and outputs that a lane searches in one pass.
SPIRA_BOTH constexpr int plane_rows(int K) {
    return K <= 3 ? 128 : 64;
}

SPIRA_BOTH constexpr int plane_ahead(int K) {
    return K <= 3 ? 2 : 1;
}

// Warp-wide loads of a window that are in flight together: enough for most windows.
SPIRA_BOTH constexpr int plane_loads(int K) {
    return K <= 3 ? 6 : 4;
}

// Words of a window's buffer: a multiple of 32 * plane_loads(K). A window that does not fit is
// slow.
SPIRA_BOTH constexpr int plane_window_words(int K) {
    return K <= 3 ? 576 : 512;
}

// Columns of the map: all offsets, or those before the centre (half).
SPIRA_BOTH constexpr int plane_columns(int K, bool half) {
    return half ? K * K * K / 2 : K * K * K;
}

// Planes that have these columns. The last plane of a half map has only its lower half.
SPIRA_BOTH constexpr int plane_count(int K, bool half) {
    return half ? K / 2 + 1 : K;
}

// Bytes of shared memory for the taps of a pass.
SPIRA_BOTH constexpr int plane_taps_bytes(int K, bool half) {
    return plane_ahead(K) * 32 * plane_columns(K, half) * (int)sizeof(int32_t);
}

// Bytes of shared memory for the windows.
SPIRA_BOTH constexpr int plane_windows_bytes(int planes, int K) {
    return planes * plane_window_words(K) * (int)sizeof(uint32_t);
}

// Shared memory of a thread block that wants taps: the taps of a pass, then the windows.
SPIRA_BOTH constexpr int plane_block_bytes(int K, bool half) {
    return plane_taps_bytes(K, half) + plane_windows_bytes(plane_count(K, half), K);
}

// Length of step n of the search; the last step is number 0. From the fifth on, lengths are a
// little less than powers of two, so that the lanes read different banks.
SPIRA_BOTH constexpr int plane_step(int n) {
    return n < 4 ? 1 << n : 2 * plane_step(n - 1) - 1;
}

// Words that steps 0 .. steps - 1 can pass.
SPIRA_BOTH constexpr int plane_reach(int steps) {
    return steps == 0 ? 0 : plane_reach(steps - 1) + plane_step(steps - 1);
}

enum {
    plane_steps_least = 6,
    plane_key_margin = 64, // least distance between a key and the padding
};

SPIRA_BOTH constexpr int plane_steps_most(int K) {
    return plane_reach(9) + K <= plane_window_words(K) ? 9 : 8;
}

// Number of steps of a search, and the words that its first step may pass.
struct plane_search_length {
    int steps, first;
};

// plane_reach(length.steps); requires 5 steps or more.
SPIRA_BOTH int plane_reach_of(plane_search_length length) {
    return 2 * length.first + length.steps - 5;
}

// Returns the shortest search that can pass `words` words; one of most + 1 steps if there is none.
SPIRA_BOTH plane_search_length plane_length_for(int words, int most) {
    plane_search_length length = {plane_steps_least, plane_step(plane_steps_least - 1)};
    while (length.steps <= most && words > plane_reach_of(length)) {
        length.steps += 1;
        length.first = 2 * length.first - 1;
    }
    return length;
}

// The outputs of a tile as a warp holds them: lane l has numbers l, l + 32, ...
template <typename W, int K>
struct plane_outputs {
    W word[plane_rows(K) / 32];
    W lowest, highest;
    int first, rows;
};

// The window of a plane: source [begin, ...), as distances from the lowest query in row steps.
struct plane_window {
    uint32_t words; // shared address
    int begin;
    plane_search_length length; // 0 steps: no window
};

// Reads the outputs of a tile before their count is known: never past the capacity. Called by a
// whole warp.
template <typename W, int K>
SPIRA_DEVICE void plane_read(const W *outputs, int capacity, int first,
                             plane_outputs<W, K> *queries) {
    int lane = threadIdx.x & 31;
#pragma unroll
    for (int g = 0; g < plane_rows(K) / 32; ++g) {
        queries->word[g] = outputs[min(first + g * 32 + lane, capacity - 1)];
    }
    queries->lowest = __shfl_sync(~0u, queries->word[0], 0); // keeps the loads here
    queries->first = first;
}

// Takes the count into account: lanes without an output repeat the tile's first output.
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

// Whether the distances between all outputs are multiples of the row's step.
template <typename W, int K>
SPIRA_DEVICE bool plane_on_lattice(const plane_outputs<W, K> &queries, W mask) {
    W off = 0;
#pragma unroll
    for (int g = 0; g < plane_rows(K) / 32; ++g) {
        off |= queries.word[g] - queries.lowest;
    }
    return !__any_sync(~0u, (off & mask) != 0);
}

// Copies the words within [base, base + span] as distances from base, in row steps. At most 32 of
// the words from `near` on may be below base.
template <typename W, int K>
SPIRA_DEVICE plane_window plane_load(const search_sets<W> &sets, int near, W base, W span,
                                     int shift, uint32_t *buffer) {
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

// Steps n .. 0 of a search of `steps` steps, whose first step has been taken.
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

// Returns 1 << above, and 0 where above >= 32.
SPIRA_DEVICE uint32_t plane_bit(uint32_t above) {
    uint32_t bit;
    asm("shl.b32 %0, 1, %1;" : "=r"(bit) : "r"(above));
    return bit;
}

// Presence bits of a row: looks at K words from the anchor on.
template <int K, int j = 0>
SPIRA_DEVICE uint32_t plane_members(uint32_t at, uint32_t key) {
    uint32_t bits = plane_bit(search_load<j>(at) - key);
    if constexpr (j + 1 < K) {
        bits |= plane_members<K, j + 1>(at, key);
    }
    return bits;
}

// Returns tap m: *position, which then advances, or -1.
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

// What a search finds for one output in a plane: for each row, K presence bits and the source
// position of the first member.
template <int K>
struct plane_found {
    uint32_t bits[K];
    int position[K];
};

// Stores taps [m, end) of a row. Its members stand side by side in the source.
template <int end, int m = 0>
SPIRA_DEVICE void plane_store(uint32_t bits, int position, uint32_t to) {
    if constexpr (m < end) {
        shared_store(to + 4 * m, plane_tap<m>(bits, &position));
        plane_store<end, m + 1>(bits, position, to);
    }
}

// Stores taps [0, taps) of the plane of one output.
template <int K, int taps, int y = 0>
SPIRA_DEVICE void plane_store_rows(const plane_found<K> &found, uint32_t to) {
    if constexpr (y * K < taps) {
        plane_store<(taps - y * K < K ? taps - y * K : K)>(found.bits[y], found.position[y],
                                                           to + y * K * 4);
        plane_store_rows<K, taps, y + 1>(found, to);
    }
}

// Brackets and copies the window of a plane. Called by a whole warp.
//
// inputs   walk: from search_walk_make, for a cubic kernel of size K that compact_takes accepts
//          queries: from plane_read and plane_limit
//          buffer [plane_window_words(K)]: shared memory of this warp alone
// returns  the window. It has 0 steps if it is too long, too far from the outputs, or off the
//          lattice; then `begin` is not above the lower bound of the plane's first query
template <typename W, int K>
SPIRA_DEVICE plane_window plane_open(const search_walk<W> &walk, const search_sets<W> &sets,
                                     const plane_outputs<W, K> &queries, int plane,
                                     uint32_t *buffer) {
    // A good guess where the sets are the same, or one is the floor of the other.
    int hint = queries.first;
    if (sets.count != sets.total) {
        hint = (int)__fdividef((float)hint * (float)sets.count, (float)sets.total);
    }
    W base = queries.lowest + walk.base + (W)plane * walk.step_x;
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

// Searches the rows of outputs g .. g + plane_ahead(K) - 1 of each lane. The searches are
// interleaved.
template <typename W, int K>
SPIRA_DEVICE void plane_find(const search_walk<W> &walk, const plane_outputs<W, K> &queries,
                             const plane_window &window, int g, plane_found<K> *found) {
    const int searches = K * plane_ahead(K);
    uint32_t at[searches], key[searches];
    uint32_t second = window.words + (uint32_t)window.length.first * (uint32_t)sizeof(uint32_t);
    uint32_t word = search_load<-1>(second); // all searches start at the same word
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

// Returns the outputs of the pass from g on, with their own bounds: for a window of this pass
// alone. There must be one output at least.
template <typename W, int K>
SPIRA_DEVICE plane_outputs<W, K> plane_pass(const plane_outputs<W, K> &queries, int g) {
    plane_outputs<W, K> pass = queries;
    const int rows = min(queries.rows - g * 32, 32 * plane_ahead(K));
    W top = queries.word[g];
#pragma unroll
    for (int a = 1; a < plane_ahead(K); ++a) {
        top = rows > a * 32 ? queries.word[g + a] : top;
    }
    pass.lowest = __shfl_sync(~0u, queries.word[g], 0);
    pass.highest = __shfl_sync(~0u, top, (rows - 1) & 31);
    pass.first = queries.first + g * 32;
    return pass;
}

// Searches one tap in global memory. *begin is at most the lower bound of the query, and advances
// to it.
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

// The word that an output looks for at offset c of a plane.
template <typename W, int K>
SPIRA_DEVICE W plane_far_query(const search_walk<W> &walk, W output, int plane, int c) {
    return output + walk.base + (W)plane * walk.step_x + (W)(c / K) * walk.step_y +
           (W)(c % K) * (W)walk.step;
}

// The state of a warp that searches a plane of a tile.
template <typename W, int K>
struct plane_search {
    plane_outputs<W, K> queries; // of the tile
    plane_outputs<W, K> pass;    // those that the window is for: all, or those of one pass
    plane_window window;
    uint32_t *buffer; // [plane_window_words(K)]: shared memory of this warp alone
    int plane;
    bool whole; // one window serves the whole tile
};

// Starts the search of a plane. queries: from plane_read and plane_limit.
template <typename W, int K>
SPIRA_DEVICE plane_search<W, K> plane_begin(const search_walk<W> &walk, const search_sets<W> &sets,
                                            const plane_outputs<W, K> &queries, int plane,
                                            uint32_t *buffer) {
    plane_window window = plane_open<W, K>(walk, sets, queries, plane, buffer);
    return {queries, queries, window, buffer, plane, window.length.steps != 0};
}

// Searches the pass of outputs g, ... of each lane; there must be one output at least. Returns
// false if the pass is far: then `found` is not written.
template <typename W, int K>
SPIRA_DEVICE bool plane_next(const search_walk<W> &walk, const search_sets<W> &sets, int g,
                             plane_search<W, K> *search, plane_found<K> *found) {
    if (!search->whole) {
        __syncwarp(); // the pass before used the buffer
        search->pass = plane_pass<W, K>(search->queries, g);
        search->window = plane_open<W, K>(walk, sets, search->pass, search->plane, search->buffer);
    }
    if (search->window.length.steps) {
        plane_find<W, K>(walk, search->pass, search->window, g, found);
    }
    return search->window.length.steps != 0;
}

// Stores the first `taps` taps of each output of a pass that plane_next has searched.
//
// columns  taps from one output to the next
// to       shared address of the first tap of the lane's first output
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

// The same for a far pass.
template <typename W, int K, int columns>
SPIRA_DEVICE void plane_put_far(const search_walk<W> &walk, const search_sets<W> &sets,
                                const plane_search<W, K> &search, int g, int taps, uint32_t to) {
#pragma unroll
    for (int a = 0; a < plane_ahead(K); ++a) {
        bool there = (g + a) * 32 + (int)(threadIdx.x & 31) < search.queries.rows;
        int from = search.window.begin;
#pragma unroll 1
        for (int c = 0; c < taps && there; ++c) {
            W query = plane_far_query<W, K>(walk, search.queries.word[g + a], search.plane, c);
            shared_store(to + (uint32_t)(a * 32 * columns + c) * 4,
                         (uint32_t)plane_far_tap(sets.source, sets.count, query, &from));
        }
    }
}

} // namespace spira

#endif
