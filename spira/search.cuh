// spira/search.cuh: the z-delta search for a block of consecutive outputs.
//
// Consecutive sorted outputs look for words in consecutive parts of the source. A slab is the set
// of offsets that share x. For one slab, the words that a whole tile of outputs can look for form
// one window, little longer than the tile. A warp brackets the window with one search and copies it
// to shared memory, as 32-bit distances from the window's lowest query, for words of any width.
// Then each thread finds the anchor of one row of one output by a branch-free binary search, reads
// the few words above it, and keeps the members of the row. They go to a tile of the map in shared
// memory; map.cuh writes every form from there.
//
// Scopes: one thread, search.h; a warp, search_warp_*; a thread block, search_block.
#ifndef SPIRA_SEARCH_CUH
#define SPIRA_SEARCH_CUH

#include "search.h"

namespace spira {

// A kernel as the search walks it: by ascending displacement. Step number a is offset a, or offset
// volume - 1 - a of a transposed kernel.
template <typename W>
struct search_walk {
    W base, step_x, step_y; // packed: the lowest displacement, and from one to the next
    uint32_t span;          // from the lowest to the highest member of a row
    uint32_t step;          // between neighbours of a row
    int shift;              // log2(step), or -1 if step is no power of two
    int size_x, size_y, size_z, volume;
    bool transposed;
};

template <typename W>
SPIRA_API search_walk<W> search_walk_make(const word_layout *layout, const kernel_shape *kernel) {
    search_walk<W> walk;
    triple unit = triple_multiply(kernel->dilation, kernel->stride);
    walk.volume = kernel_volume(kernel);
    triple lowest = kernel_displacement(kernel, kernel->transposed ? walk.volume - 1 : 0);
    walk.base = word_delta<W>(layout, lowest);
    walk.step_x = word_delta<W>(layout, triple_make(unit.x, 0, 0));
    walk.step_y = word_delta<W>(layout, triple_make(0, unit.y, 0));
    walk.span = (uint32_t)(kernel->size.z - 1) * (uint32_t)unit.z;
    walk.step = (uint32_t)unit.z;
    walk.shift = is_power_of_two(unit.z) ? bits_for((uint64_t)unit.z) - 1 : -1;
    walk.size_x = kernel->size.x;
    walk.size_y = kernel->size.y;
    walk.size_z = kernel->size.z;
    walk.transposed = kernel->transposed;
    return walk;
}

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
    int slabs;      // slabs that are searched at a time
    int pieces;     // of the kernel: ceil(size.x / slabs)
    int window;     // words of a window's buffer, a power of two
    int pitch;      // taps from one output of the tile to the next
    int fixed_size; // 2, 3, 5: cubes of that size whose step is a power of two; 0: any other kernel
};

enum {
    search_threads = 128,    // of a thread block
    search_slab_taps = 8192, // taps of a tile at a time, if the kernel has more
    search_slabs_most = 8,   // slabs at a time
    search_reach_min = 64,   // windows are padded to this length at least
    search_tile_slack = 32,  // taps that may be read behind a tile
    search_words_ahead = 3,  // words above an anchor that a thread reads at a time
    search_rows_ahead = 4,   // searches of a thread in flight, where fixed_size is 0
};

// Outputs of a tile: small enough for several thread blocks per multiprocessor.
SPIRA_BOTH int search_tile_rows(int volume) {
    return volume <= 32 ? 128 : volume <= 128 ? 64 : 32;
}

// The most offsets that are searched at a time.
SPIRA_BOTH int search_tile_columns(triple size) {
    int volume = size.x * size.y * size.z, slab = size.y * size.z;
    int most = (int)max_of(search_slab_taps / search_tile_rows(volume) / slab, 1);
    most = most < search_slabs_most ? most : search_slabs_most;
    int pieces = (int)ceil_div(size.x, most);
    return (int)ceil_div(size.x, pieces) * slab;
}

// step: kernel_step. odd: an odd pitch, which keeps the columns of the tile in different banks.
// Without it the tile has the layout of map [outputs, volume].
SPIRA_BOTH search_shape search_shape_choose(triple size, int step, bool odd) {
    search_shape shape;
    int columns = search_tile_columns(size);
    shape.rows = search_tile_rows(size.x * size.y * size.z);
    shape.slabs = columns / (size.y * size.z);
    shape.pieces = (int)ceil_div(size.x, shape.slabs);
    shape.window = shape.slabs <= 3 ? 512 : 256;
    shape.pitch = odd ? columns | 1 : columns;
    bool fixed = size.x == size.y && size.y == size.z && (size.x <= 3 || size.x == 5) &&
                 is_power_of_two(step);
    shape.fixed_size = fixed && size.x > 1 ? size.x : 0;
    return shape;
}

SPIRA_BOTH int search_window_pitch(const search_shape &shape) {
    return shape.window + 4; // room for reads ahead; keeps 16-byte alignment
}

// Bytes of shared memory for the windows; for windows and tile. Multiples of 16.
SPIRA_BOTH int search_windows_bytes(const search_shape &shape) {
    return shape.slabs * search_window_pitch(shape) * (int)sizeof(uint32_t);
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

// The words that the queries of one slab can find: source [begin, ...), as distances from the
// lowest query, padded with UINT32_MAX.
struct search_window {
    int begin;
    int reach; // a power of two above the number of words; 0: no window, too many words or too far
};

// A piece of the map in shared memory: `rows` outputs from `first` on, offsets [k_begin, k_end).
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
// from `base`, padded with UINT32_MAX. Returns the window's reach; 0 if they do not fit.
template <typename W>
SPIRA_DEVICE int search_warp_window(const W *source, int count, int begin, W base, uint32_t span,
                                    uint32_t *buffer, int capacity) {
    const int loads = 4; // in flight: enough for most windows
    int lane = threadIdx.x & 31, words = 0, loaded = 0;
    while (words == loaded && loaded < capacity) {
        W away[loads];
#pragma unroll
        for (int j = 0; j < loads; ++j) {
            int i = begin + loaded + 32 * j + lane;
            away[j] = i < count ? source[i] - base : word_none<W>();
        }
#pragma unroll
        for (int j = 0; j < loads; ++j) {
            uint32_t d = away[j] < (W)UINT32_MAX ? (uint32_t)away[j] : UINT32_MAX;
            buffer[loaded + 32 * j + lane] = d;
            words += __popc(__ballot_sync(~0u, d <= span));
        }
        loaded += 32 * loads;
    }
    int reach = 1 << (32 - __clz(words)); // above words
    if (reach > capacity) {
        return 0;
    }
    reach = reach > search_reach_min ? reach : search_reach_min;
    for (int i = loaded + lane; i < reach + search_words_ahead - 1; i += 32) {
        buffer[i] = UINT32_MAX;
    }
    return reach;
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
SPIRA_DEVICE void search_steps(uint32_t (&at)[rows], const uint32_t (&key)[rows], int reach) {
    if (step < search_reach_min || step < reach) {
#pragma unroll
        for (int r = 0; r < rows; ++r) {
            search_step<step>(&at[r], key[r]);
        }
    }
    if constexpr (step > 1) {
        search_steps<step / 2, rows>(at, key, reach);
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

// Searches `rows` rows of one output in a padded window, at most `ahead`, interleaved. Each search
// walks to the first word that is not below the anchor, in six steps of three instructions and one
// more step for each doubling of the reach. Then it writes the members of the row to the taps.
//
// words     shared address of the window
// anchor    of the first row, as a distance; the next row's is step_y higher
// taps      shared address of the first row's lowest member
// row_taps  bytes to the next row; side: bytes to the next member
template <typename W, int K, int ahead>
SPIRA_DEVICE void search_window_rows(const search_walk<W> &walk, uint32_t words,
                                     search_window window, uint32_t anchor, int rows, uint32_t taps,
                                     int row_taps, int side) {
    uint32_t at[ahead], key[ahead];
#pragma unroll
    for (int r = 0; r < ahead; ++r) {
        at[r] = words;
        key[r] = anchor + (uint32_t)r * (uint32_t)walk.step_y;
    }
    search_steps<256, ahead>(at, key, window.reach);
#pragma unroll
    for (int r = 0; r < ahead; ++r) {
        if (r >= rows) {
            break;
        }
        int position = window.begin + (int)((at[r] - words) / (uint32_t)sizeof(uint32_t));
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
        taps += row_taps;
    }
}

// Brackets and loads the windows of the slabs [slab, slab + slabs) for a tile of outputs.
// Called by all threads of a block; a barrier must follow.
template <typename W>
SPIRA_DEVICE void search_block_windows(const search_walk<W> &walk, const search_shape &shape,
                                       const search_sets<W> &sets, int first, int rows, int slab,
                                       int slabs, uint32_t *buffers, search_window *windows) {
    W lowest = sets.outputs[first];
    W span =
        sets.outputs[first + rows - 1] - lowest + (W)(walk.size_y - 1) * walk.step_y + walk.span;
    bool near = span < (W)(UINT32_MAX - 1); // distances are exact
    // A good guess where the sets are the same, or one is the floor of the other.
    int hint = (int)__fdividef((float)first * (float)sets.count, (float)sets.total);
    for (int s = threadIdx.x / 32; s < slabs; s += search_threads / 32) {
        W base = lowest + walk.base + (W)(slab + s) * walk.step_x;
        int begin = search_warp_lower_bound(sets.source, sets.count, base, hint), reach = 0;
        if (near) {
            reach = search_warp_window(sets.source, sets.count, begin, base, (uint32_t)span,
                                       buffers + s * search_window_pitch(shape), shape.window);
        }
        if (threadIdx.x % 32 == 0) {
            windows[s] = {begin, reach};
        }
    }
}

// Searches a row without a window, in source [begin, count). Rare, so it is not inlined.
template <typename W>
[[maybe_unused]] static __device__ __noinline__ void
search_far_row(const W *source, int begin, int count, W anchor, uint32_t step, int size_z,
               int32_t *taps, int side) {
    int cursor = search_lower_bound(source, begin, count, anchor);
    for (int j = 0; j < size_z; ++j, anchor += (W)step) {
        taps[side * j] = search_scan(source, count, anchor, &cursor);
    }
}

// The rows of each slab that are wanted, [begin, end), slabs in the order of the walk. Rows next to
// them may be searched as well.
struct search_choice {
    uint8_t begin[kernel_size_max + 1], end[kernel_size_max + 1];
};

// Chooses the rows that have an offset below k_end, and |x| + |y| < norm on the kernel's lattice.
SPIRA_API search_choice search_choose(const kernel_shape *kernel, int k_end, int norm) {
    search_choice choice;
    for (int slab = 0; slab < kernel->size.x; ++slab) {
        int begin = kernel->size.y, end = 0;
        for (int y = 0; y < kernel->size.y; ++y) {
            int row = slab * kernel->size.y + y;
            row = kernel->transposed ? kernel_rows(kernel) - 1 - row : row;
            int k = row * kernel->size.z; // z = 0 has the row's lowest norm
            triple d = kernel_lattice(kernel, k);
            if (k < k_end && (d.x < 0 ? -d.x : d.x) + (d.y < 0 ? -d.y : d.y) < norm) {
                begin = y < begin ? y : begin;
                end = y + 1;
            }
        }
        choice.begin[slab] = (uint8_t)begin;
        choice.end[slab] = (uint8_t)end;
    }
    return choice;
}

// Searches `rows` rows of a slab for one output, from row y on. away: the first row's anchor, as a
// distance from the tile's first output's anchor; query: the output.
template <typename W, int K, int ahead>
SPIRA_DEVICE void search_some_rows(const search_walk<W> &walk, const search_sets<W> &sets,
                                   uint32_t words, search_window window, uint32_t away, W query,
                                   int slab, int y, int rows, int32_t *taps, int side) {
    if (window.reach) {
        search_window_rows<W, K, ahead>(walk, words, window, away, rows,
                                        (uint32_t)__cvta_generic_to_shared(taps),
                                        side * walk.size_z * 4, side * 4);
        return;
    }
    W anchor = query + walk.base + (W)slab * walk.step_x + (W)y * walk.step_y;
    for (int r = 0; r < rows; ++r, anchor += walk.step_y, taps += side * walk.size_z) {
        search_far_row(sets.source, window.begin, sets.count, anchor, walk.step, walk.size_z, taps,
                       side);
    }
}

// The arguments that all threads of a block have in common.
template <typename W>
struct search_scene {
    search_walk<W> walk;
    search_sets<W> sets;
    search_window *windows; // [slabs] shared
    uint32_t *words;        // [slabs, search_window_pitch] shared
    int32_t *taps;          // [rows, pitch] shared
    W lowest;               // of the outputs
    int rows;               // outputs
    int slab, slabs;
};

// Searches a thread's share of a tile, in windows that are loaded. Threads that share an output
// take alternate slabs. K = 2, 3, 5: a cube of that size; K = 0: any kernel, with more
// instructions.
template <typename W, int K>
SPIRA_DEVICE void search_block_rows(const search_scene<W> &scene, const search_shape &shape,
                                    const search_choice *choice, W query) {
    const search_walk<W> walk = search_walk_fix<W, K>(scene.walk);
    const int ahead = K > 0 ? K : search_rows_ahead;
    int plane = walk.size_y * walk.size_z, side = walk.transposed ? -1 : 1;
    int rows = K > 0 ? search_tile_rows(K * K * K) : shape.rows;
    int parts = search_threads / rows, part = K == 0 || parts > 1 ? threadIdx.x / rows : 0;
    int row = threadIdx.x & (rows - 1);
    uint32_t pitch = (uint32_t)(search_window_pitch(shape) * (int)sizeof(uint32_t));
    uint32_t words = (uint32_t)__cvta_generic_to_shared(scene.words) + (uint32_t)part * pitch;
    uint32_t away = (uint32_t)(query - scene.lowest);
    int32_t *out = scene.taps + row * shape.pitch + (walk.transposed ? scene.slabs * plane - 1 : 0);
    out += side * part * plane;
    for (int s = part; s < scene.slabs && row < scene.rows; s += parts) {
        for (int y = 0; y < walk.size_y; y += ahead) {
            if (!choice ||
                (y < choice->end[scene.slab + s] && y + ahead > choice->begin[scene.slab + s])) {
                search_some_rows<W, K, ahead>(walk, scene.sets, words, scene.windows[s],
                                              away + (uint32_t)y * (uint32_t)walk.step_y, query,
                                              scene.slab + s, y, min(ahead, walk.size_y - y),
                                              out + side * y * walk.size_z, side);
            }
        }
        out += side * parts * plane;
        words += (uint32_t)parts * pitch;
    }
}

// Searches the slabs [slab, slab + slabs) of the kernel, by ascending displacement, for the outputs
// [first, first + rows).
//
// inputs   shape: from search_shape_choose; slabs <= shape.slabs; 1 <= rows <= shape.rows
//          shared [search_block_bytes]: aligned to 16; windows [shape.slabs]: shared memory
//          choice: taps of rows that it leaves out are -1; null: all rows are searched
// returns  the tile, in `shared`. It is complete: the call ends with a barrier
// Called by all threads of a block of search_threads. Two calls need a barrier between them.
template <typename W>
SPIRA_DEVICE search_tile search_block(const search_walk<W> &walk, const search_shape &shape,
                                      const search_sets<W> &sets, const search_choice *choice,
                                      int first, int rows, int slab, int slabs, void *shared,
                                      search_window *windows) {
    int32_t *taps = (int32_t *)((char *)shared + search_windows_bytes(shape));
    search_scene<W> scene;
    scene.walk = walk;
    scene.sets = sets;
    scene.windows = windows;
    scene.words = (uint32_t *)shared;
    scene.taps = taps;
    scene.lowest = sets.outputs[first];
    scene.rows = rows;
    scene.slab = slab;
    scene.slabs = slabs;
    int row = threadIdx.x & (shape.rows - 1);
    W query = row < rows ? sets.outputs[first + row] : 0;
    int fill = (shape.rows * shape.pitch + 3) / 4 + search_tile_slack / 4;
    for (int i = threadIdx.x; i < fill; i += search_threads) {
        ((int4 *)taps)[i] = make_int4(-1, -1, -1, -1);
    }
    search_block_windows(walk, shape, sets, first, rows, slab, slabs, (uint32_t *)shared, windows);
    __syncthreads();
    switch (shape.fixed_size) { // sizes of most networks
    case 2:
        search_block_rows<W, 2>(scene, shape, choice, query);
        break;
    case 3:
        search_block_rows<W, 3>(scene, shape, choice, query);
        break;
    case 5:
        search_block_rows<W, 5>(scene, shape, choice, query);
        break;
    default:
        search_block_rows<W, 0>(scene, shape, choice, query);
    }
    __syncthreads();
    int plane = walk.size_y * walk.size_z;
    int k_begin = walk.transposed ? walk.volume - (slab + slabs) * plane : slab * plane;
    search_tile tile = {taps, first, rows, k_begin, k_begin + slabs * plane, shape.pitch};
    return tile;
}

} // namespace spira

#endif
