// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/search.cuh: the z-delta search for a block of consecutive outputs.
//
// Consecutive sorted outputs look for words in consecutive parts of the source. For one plane (the
// offsets that share x), the words that a whole tile of outputs can look for form one window,
// little longer than the tile. A warp brackets the window with one search and copies it to shared
// memory, as 32-bit distances from the window's lowest query, for words of any width. Then each
// thread finds the anchor of one row of one output by a branch-free binary search, reads the few
// words above it, and keeps the members of the row. They go to a tile of the map in shared memory;
// map.cuh writes every form from there.
//
// Scopes: one thread, search.h; a warp, search_warp_*; a thread block, search_block. Small cubic
// kernels have a faster search, by a warp for each plane: index/plane_search.cuh.
#ifndef SPIRA_SEARCH_CUH
#define SPIRA_SEARCH_CUH

#include "search.h"

namespace spira {

// The same walk with sizes known at compile time; K = 0: unchanged.
template <typename W, int K>
SPIRA_BOTH search_walk<W> search_walk_fix(search_walk<W> walk) {
    if (K > 0) {
        walk.size_x = walk.size_y = walk.size_z = K;
        walk.volume = K * K * K;
    }
    return walk;
}

// How a thread block searches a kernel. The kernel's size determines it.
struct search_shape {
    int rows;       // outputs of a tile: 32, 64 or 128
    int planes;     // that are searched at a time
    int passes;     // over the kernel: ceil(size.x / planes)
    int window;     // words of a window's buffer, a power of two
    int pitch;      // taps from one output of the tile to the next
    int fixed_size; // 3, 5: cubes of that size whose step is a power of two; 0: any other kernel
};

enum {
    search_threads = 128,    // of a thread block
    search_pass_taps = 8192, // taps of a tile in a pass, if the kernel has more
    search_planes_most = 8,  // planes of a pass
    search_length_min = 64,  // windows are padded to this length at least
    search_tile_slack = 32,  // taps that may be read behind a tile
    search_words_ahead = 3,  // words above an anchor that a thread reads at a time
    search_rows_ahead = 4,   // searches of a thread in flight, where fixed_size is 0
};

// Outputs of a tile: small enough for several thread blocks per multiprocessor.
SPIRA_BOTH int search_tile_rows(int volume) {
    return volume <= 32 ? 128 : volume <= 128 ? 64 : 32;
}

// The most offsets of a pass.
SPIRA_BOTH int search_tile_columns(triple size) {
    int volume = size.x * size.y * size.z, plane = size.y * size.z;
    int most = (int)max_of(search_pass_taps / search_tile_rows(volume) / plane, 1);
    most = most < search_planes_most ? most : search_planes_most;
    int passes = (int)ceil_div(size.x, most);
    return (int)ceil_div(size.x, passes) * plane;
}

// step: kernel_step. odd: an odd pitch, which keeps the columns of the tile in different banks.
// Without it the tile has the layout of map [outputs, volume].
SPIRA_BOTH search_shape search_shape_choose(triple size, int step, bool odd) {
    search_shape shape;
    int columns = search_tile_columns(size);
    shape.rows = search_tile_rows(size.x * size.y * size.z);
    shape.planes = columns / (size.y * size.z);
    shape.passes = (int)ceil_div(size.x, shape.planes);
    shape.window = shape.planes <= 3 ? 512 : 256;
    shape.pitch = odd ? columns | 1 : columns;
    bool cube = size.x == size.y && size.y == size.z && is_power_of_two(step);
    shape.fixed_size = cube && (size.x == 3 || size.x == 5) ? size.x : 0;
    return shape;
}

SPIRA_BOTH int search_window_pitch(const search_shape &shape) {
    return shape.window + 4; // room for reads ahead; keeps 16-byte alignment
}

// Bytes of shared memory for the windows; for windows and tile. Multiples of 16.
SPIRA_BOTH int search_windows_bytes(const search_shape &shape) {
    return shape.planes * search_window_pitch(shape) * (int)sizeof(uint32_t);
}

SPIRA_BOTH int search_block_bytes(const search_shape &shape) {
    return search_windows_bytes(shape) + (shape.rows * shape.pitch + 3) / 4 * 16 +
           search_tile_slack * (int)sizeof(int32_t);
}

// The sets that a thread block searches, with their counts clamped to the capacities.
template <typename W>
struct search_sets {
    const W *source;  // [count] sorted
    const W *outputs; // [total] sorted
    int count, total;
};

// The words that the queries of one plane can find: source [begin, end), as distances from the
// lowest query, padded with UINT32_MAX.
struct alignas(16) search_window {
    int begin, end; // end: where it has no words
    int length;     // a power of two above the number of words; 0: none, too many words or too far
    uint32_t words; // shared address
};

// The windows of the planes that a thread block searches, in shared memory.
struct search_windows {
    search_window *window; // [planes]
    uint32_t *buffers;     // [planes, search_window_pitch]
};

struct search_choice;

// What a thread block searches: outputs [first, first + rows) and planes [plane, plane + planes).
struct search_part {
    int first, rows;
    int plane, planes;                     // by ascending displacement
    const search_choice *choice = nullptr; // taps of rows that it leaves out are -1; null: none
};

// Part of the map in shared memory: `rows` outputs from `first` on, offsets [k_begin, k_end).
struct search_tile {
    int32_t *taps; // [rows, pitch] source positions or -1
    int first, rows;
    int k_begin, k_end;
    int pitch;
};

// Returns a position p such that the lower bound of `key` in source [0, count) is in
// [p, p + slack]. Starts near `hint`: one probe of each lane at exponentially growing distances,
// then 33-ary steps. Called by a whole warp.
template <typename W>
SPIRA_DEVICE int search_warp_bracket(const W *source, int count, W key, int hint, int slack) {
    int lane = threadIdx.x & 31;
    int away = 16 << (lane < 16 ? 15 - lane : lane - 16);
    int probe = lane < 16 ? hint - away : hint + away;
    bool below = probe < 0 || (probe < count && source[probe] < key);
    int passed = __popc(__ballot_sync(~0u, below));
    int begin = __shfl_sync(~0u, probe, passed - 1) + 1; // lane 31's if none passed
    int end = __shfl_sync(~0u, probe, passed);
    begin = passed == 0 || begin < 0 ? 0 : begin;
    end = passed == 32 || end > count ? count : end;
    while (end - begin > slack) { // the lower bound is in [begin, end]
        int step = (end - begin + 31) >> 5;
        int at = begin + (lane + 1) * step - 1;
        below = at < end && source[at] < key;
        passed = __popc(__ballot_sync(~0u, below));
        begin += passed * step;
        end = begin + step - 1 < end ? begin + step - 1 : end;
        begin = begin < end ? begin : end;
    }
    return begin;
}

// Returns the lower bound itself. Takes about three dependent loads near the hint.
template <typename W>
SPIRA_DEVICE int search_warp_lower_bound(const W *source, int count, W key, int hint) {
    return search_warp_bracket(source, count, key, hint, 0);
}

// Copies the source words from `begin` up to base + span to buffer [capacity + 2], as distances
// from `base`, padded with UINT32_MAX. The window's length is 0 if they do not fit.
template <typename W>
SPIRA_DEVICE search_window search_warp_window(const search_sets<W> &sets, int begin, W base,
                                              uint32_t span, uint32_t *buffer, int capacity) {
    const int loads = 4; // in flight: enough for most windows
    int lane = threadIdx.x & 31, words = 0, loaded = 0;
    while (words == loaded && loaded < capacity) {
        W away[loads];
#pragma unroll
        for (int j = 0; j < loads; ++j) {
            int i = begin + loaded + 32 * j + lane;
            away[j] = i < sets.count ? sets.source[i] - base : word_none<W>();
        }
#pragma unroll
        for (int j = 0; j < loads; ++j) {
            uint32_t d = away[j] < (W)UINT32_MAX ? (uint32_t)away[j] : UINT32_MAX;
            buffer[loaded + 32 * j + lane] = d;
            words += __popc(__ballot_sync(~0u, d <= span));
        }
        loaded += 32 * loads;
    }
    int length = 1 << (32 - __clz(words)); // above words
    length = length > search_length_min ? length : search_length_min;
    for (int i = loaded + lane; i < length + search_words_ahead - 1 && length <= capacity;
         i += 32) {
        buffer[i] = UINT32_MAX;
    }
    return {begin, 0, length <= capacity ? length : 0, (uint32_t)__cvta_generic_to_shared(buffer)};
}

// Windows are addressed by 32-bit shared addresses, which take one register each.
template <int index>
SPIRA_DEVICE uint32_t search_load(uint32_t at) {
    uint32_t word;
    asm volatile("ld.shared.u32 %0, [%1 + %2];" : "=r"(word) : "r"(at), "n"(index * 4));
    return word;
}

// One step of a branch-free search: advances by `step` words if the last of them is below key.
template <int step>
SPIRA_DEVICE void search_step(uint32_t *at, uint32_t key) {
    asm volatile("{ .reg .pred below; .reg .b32 word;\n"
                 "ld.shared.u32 word, [%0 + %2];\n"
                 "setp.lt.u32 below, word, %1;\n"
                 "@below add.u32 %0, %0, %3; }"
                 : "+r"(*at)
                 : "r"(key), "n"(step * 4 - 4), "n"(step * 4));
}

template <int step, int rows>
SPIRA_DEVICE void search_steps(uint32_t (&at)[rows], const uint32_t (&key)[rows], int length) {
    if (step < search_length_min || step < length) {
#pragma unroll
        for (int r = 0; r < rows; ++r) {
            search_step<step>(&at[r], key[r]);
        }
    }
    if constexpr (step > 1) {
        search_steps<step / 2, rows>(at, key, length);
    }
}

// Returns which member of its row is `above` the anchor, or a number >= size_z if none is. If the
// step is a power of two (fixed sizes: always), a rotation moves the bits that must be zero to the
// top.
template <typename W, int K>
SPIRA_DEVICE uint32_t search_member(const search_walk<W> &walk, uint32_t above) {
    if (K > 0 || walk.shift >= 0) {
        return __funnelshift_r(above, above, (uint32_t)walk.shift);
    }
    return above > walk.span || above % walk.step ? UINT32_MAX : above / walk.step;
}

// Searches `rows` rows of one output in a window, at most `ahead`, interleaved. Each search walks
// to the first word that is not below the anchor, in six steps of three instructions and one more
// step for each doubling of the length. Then it writes the members of the row to the taps.
//
// anchor  of the first row, as a distance; the next row's is step_y higher
// taps    shared address of the first row's lowest member; side: bytes to the next member
template <typename W, int K, int ahead>
SPIRA_DEVICE void search_window_rows(const search_walk<W> &walk, search_window window,
                                     uint32_t anchor, int rows, uint32_t taps, int side) {
    uint32_t at[ahead], key[ahead];
#pragma unroll
    for (int r = 0; r < ahead; ++r) {
        at[r] = window.words;
        key[r] = anchor + (uint32_t)r * (uint32_t)walk.step_y;
    }
    search_steps<256, ahead>(at, key, window.length);
#pragma unroll
    for (int r = 0; r < ahead; ++r) {
        if (r >= rows) {
            break;
        }
        int position = window.begin + (int)((at[r] - window.words) / (uint32_t)sizeof(uint32_t));
        uint32_t above;
        do {
            const uint32_t word[search_words_ahead] = {search_load<0>(at[r]), search_load<1>(at[r]),
                                                       search_load<2>(at[r])};
#pragma unroll
            for (int j = 0; j < search_words_ahead; ++j) {
                above = word[j] - key[r];
                uint32_t member = search_member<W, K>(walk, above);
                if (member < (uint32_t)walk.size_z) {
                    asm volatile("st.shared.u32 [%0], %1;" ::"r"(taps + side * (int)member),
                                 "r"(position + j)
                                 : "memory");
                }
            }
            at[r] += search_words_ahead * (uint32_t)sizeof(uint32_t);
            position += search_words_ahead;
        } while (above < walk.span);
        taps += side * walk.size_z;
    }
}

// The outputs of a part, as a thread sees them: loaded together, before the first is used.
template <typename W>
struct search_words {
    W lowest, highest, own; // the first and the last output, and the thread's
};

// Brackets and loads the windows of a part: one warp after the other takes a plane.
// Called by all threads of a block; a barrier must follow.
template <typename W>
SPIRA_DEVICE void search_block_windows(const search_walk<W> &walk, const search_shape &shape,
                                       const search_sets<W> &sets, const search_part &part,
                                       const search_words<W> &words, search_windows to) {
    W span = words.highest - words.lowest + (W)(walk.size_y - 1) * walk.step_y + walk.span;
    // A good guess where the sets are the same, or one is the floor of the other.
    int hint = (int)__fdividef((float)part.first * (float)sets.count, (float)sets.total);
    for (int s = threadIdx.x / 32; s < part.planes; s += search_threads / 32) {
        W base = search_anchor(walk, words.lowest, part.plane + s, 0);
        search_window window = {};
        window.begin = search_warp_lower_bound(sets.source, sets.count, base, hint);
        if (span < (W)(UINT32_MAX - 1)) { // distances are exact
            window = search_warp_window(sets, window.begin, base, (uint32_t)span,
                                        to.buffers + s * search_window_pitch(shape), shape.window);
        }
        if (window.length == 0) { // the last word that a query can find is in front of the end
            window.end = search_warp_bracket(sets.source, sets.count, (W)(base + span), hint, 31);
            window.end = min(window.end + 32, sets.count);
        }
        if (threadIdx.x % 32 == 0) {
            to.window[s] = window;
        }
    }
}

// Searches rows in source [window.begin, window.end), for planes whose window has no words. Not
// inlined: it takes registers. walk: by value, in registers, instead of loads for each tap.
//
// anchor, taps  of the first row's lowest member
template <typename W>
[[maybe_unused]] static __device__ __noinline__ void
search_far_rows(search_walk<W> walk, const W *source, search_window window, W anchor, int rows,
                int32_t *taps) {
    const int side = walk.transposed ? -1 : 1;
    for (; rows > 0; --rows, anchor += walk.step_y) {
        W wanted = anchor;
        int cursor = search_lower_bound(source, window.begin, window.end, wanted);
        for (int j = 0; j < walk.size_z; ++j, wanted += (W)walk.step, taps += side) {
            *taps = search_scan(source, window.end, wanted, &cursor);
        }
    }
}

// The rows of each plane that are wanted, [begin, end), planes in the order of the walk. Rows next
// to them may be searched as well.
struct search_choice {
    uint8_t begin[kernel_size_max + 1], end[kernel_size_max + 1];
};

// Chooses the rows that have an offset below k_end, and |x| + |y| < norm on the kernel's lattice.
SPIRA_API search_choice search_choose(const kernel_shape *kernel, int k_end, int norm) {
    search_choice choice;
    for (int plane = 0; plane < kernel->size.x; ++plane) {
        int begin = kernel->size.y, end = 0;
        for (int y = 0; y < kernel->size.y; ++y) {
            int row = plane * kernel->size.y + y;
            row = kernel->transposed ? kernel_rows(kernel) - 1 - row : row;
            int k = row * kernel->size.z; // z = 0 has the row's lowest norm
            triple d = kernel_lattice(kernel, k);
            if (k < k_end && (d.x < 0 ? -d.x : d.x) + (d.y < 0 ? -d.y : d.y) < norm) {
                begin = y < begin ? y : begin;
                end = y + 1;
            }
        }
        choice.begin[plane] = (uint8_t)begin;
        choice.end[plane] = (uint8_t)end;
    }
    return choice;
}

// Searches a thread's share of a part, in windows that are loaded: writes to the tile. Threads that
// share an output take alternate planes. K = 3, 5: a cube of that size; K = 0: any kernel, with
// more instructions.
template <typename W, int K>
SPIRA_DEVICE void search_block_rows(const search_walk<W> &any, const W *source,
                                    const search_part &part, const search_words<W> &words,
                                    const search_window *windows, const search_tile &tile) {
    const search_walk<W> walk = search_walk_fix<W, K>(any);
    const int ahead = K > 0 ? K : search_rows_ahead;
    const int columns = walk.size_y * walk.size_z, side = walk.transposed ? -1 : 1;
    const int rows = search_tile_rows(walk.volume), row = threadIdx.x & (rows - 1);
    const uint32_t away = (uint32_t)(words.own - words.lowest);
    int32_t *taps =
        tile.taps + row * tile.pitch + (walk.transposed ? part.planes * columns - 1 : 0);
    for (int s = threadIdx.x / rows; s < part.planes && row < part.rows;
         s += search_threads / rows) {
        const search_window window = windows[s];
        const int plane = part.plane + s;
        for (int y = 0; y < walk.size_y; y += ahead) {
            const int some = min(ahead, walk.size_y - y);
            if (part.choice &&
                (y >= part.choice->end[plane] || y + ahead <= part.choice->begin[plane])) {
                continue;
            }
            int32_t *to = taps + side * (s * columns + y * walk.size_z);
            if (window.length) {
                search_window_rows<W, K, ahead>(
                    walk, window, away + (uint32_t)y * (uint32_t)walk.step_y, some,
                    (uint32_t)__cvta_generic_to_shared(to), side * (int)sizeof *to);
                continue;
            }
            search_far_rows(any, source, window, search_anchor(any, words.own, plane, y), some, to);
        }
    }
}

// Searches a part of the map.
//
// inputs   shape: from search_shape_choose; part: 1 .. shape.rows outputs, 1 .. shape.planes planes
//          shared [search_block_bytes]: shared memory, aligned to 16
// returns  the tile, in `shared`. It is complete: the call ends with a barrier
// Called by all threads of a block of search_threads. Two calls need a barrier between them.
template <typename W>
SPIRA_DEVICE search_tile search_block(const search_walk<W> &walk, const search_shape &shape,
                                      const search_sets<W> &sets, const search_part &part,
                                      void *shared) {
    __shared__ search_window windows[search_planes_most];
    const int columns = walk.size_y * walk.size_z, row = threadIdx.x & (shape.rows - 1);
    const W *outputs = sets.outputs + part.first;
    const search_words<W> words = {outputs[0], outputs[part.rows - 1],
                                   row < part.rows ? outputs[row] : 0};
    search_tile tile = {(int32_t *)((char *)shared + search_windows_bytes(shape)),
                        part.first,
                        part.rows,
                        part.plane * columns,
                        0,
                        shape.pitch};
    tile.k_begin =
        walk.transposed ? walk.volume - tile.k_begin - part.planes * columns : tile.k_begin;
    tile.k_end = tile.k_begin + part.planes * columns;
    const int fill = (shape.rows * shape.pitch + 3) / 4 + search_tile_slack / 4;
    for (int i = threadIdx.x; i < fill; i += search_threads) {
        ((int4 *)tile.taps)[i] = make_int4(-1, -1, -1, -1);
    }
    search_block_windows(walk, shape, sets, part, words, {windows, (uint32_t *)shared});
    __syncthreads();
    if (shape.fixed_size == 3) { // sizes of most networks
        search_block_rows<W, 3>(walk, sets.source, part, words, windows, tile);
    } else if (shape.fixed_size == 5) {
        search_block_rows<W, 5>(walk, sets.source, part, words, windows, tile);
    } else {
        search_block_rows<W, 0>(walk, sets.source, part, words, windows, tile);
    }
    __syncthreads();
    return tile;
}

} // namespace spira

#endif
