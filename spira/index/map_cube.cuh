// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/index/map_cube.cuh: pair lists (the filtered form) of cubes of size 3 and 5: the search.
//
// Three launches. The search (plane_search.cuh) records what each plane of the kernel finds, in
// 4 + 2 K bytes for each output and plane, and counts the pairs. A scan finds where the pairs of
// each stretch of outputs go in the lists. The last kernel (map_cube_move.cuh) moves them there.
// For up to 196,608 outputs and K = 3, map_cube_small.cuh does all of it in two launches.
#ifndef SPIRA_INDEX_MAP_CUBE_CUH
#define SPIRA_INDEX_MAP_CUBE_CUH

#include "map_starts.cuh"
#include "plane_map.cuh"

namespace spira {

enum {
    map_stretch = 128,    // outputs whose pairs a warp moves: each lane has four, side by side
    map_move_offsets = 4, // offsets that a warp moves at a time
};

// Sizes of map_cube_small.cuh. A bundle is the outputs of one thread block there.
enum {
    map_bundle_stretches = 3, // stretches of a bundle
    map_bundle_sums = 8,      // bundles whose sums a lane reads at a time
    map_bundles_most = 512,   // two such reads of a warp
};

// Returns the number of bundles that map_cube_small.cuh takes for a cube of size K, rounded up
// so that each lane reads whole vectors of sums; or 0: too many outputs for it, or another size.
SPIRA_API int map_bundles(int K, int32_t outputs) {
    int64_t bundles = ceil_div(outputs, (int)map_bundle_stretches * map_stretch);
    bundles = ceil_div(bundles, map_bundle_sums) * map_bundle_sums;
    return K == 3 && bundles <= map_bundles_most ? (int)bundles : 0;
}

// Thread blocks per multiprocessor that the kernels of bundles have registers for, without spills.
SPIRA_BOTH constexpr int map_cube_small_blocks(int word) {
#if defined(__CUDA_ARCH__) && (__CUDA_ARCH__ < 800 || __CUDA_ARCH__ >= 1000)
    return word > 0 ? 3 : 0;
#else
    return word > 4 ? 3 : 4;
#endif
}

// What the search finds in one plane for one stretch of outputs. The sources of a row stand side by
// side, so that their first position and the presence bits are enough. Positions have 16 bits, and
// each output has a number of leaps of map_leap_words words. A lost plane is searched again when
// its pairs are moved: it has words off the lattice, or positions too far apart for the leaps.
template <int K>
struct alignas(16) map_cube_record {
    int32_t base[map_stretch / 32]; // for 32 outputs; lost: at most the first member's position
    uint32_t bits[map_stretch];     // K * K presence bits, leaps above; or map_cube_lost
    uint16_t from[K][map_stretch];  // first source of each row, minus `base` and the leaps
};

enum : uint32_t { map_cube_lost = 1u << 31 };

enum {
    map_leap_bit = 25, // the lowest of their number
    map_leap_words = 1 << 15,
    map_leaps_most = 63,
};

// Words that hold one byte for each offset of a plane.
SPIRA_BOTH constexpr int map_count_words(int K) {
    return (K * K + map_move_offsets - 1) / map_move_offsets;
}

// Scratch of the lists. A tile is what a thread block searches, plane_rows(K) outputs. A stretch is
// one tile (K = 3) or two (K = 5). With bundles, `sums` replaces `starts`, and the stretches are
// those of all bundles, with or without outputs.
template <int K>
struct map_cube_lists {
    map_cube_record<K> *found; // [stretches, planes]
    uint32_t *counts;          // [planes, map_count_words(K), tiles] pairs: a byte for each offset
    map_starts starts;
    uint16_t *sums;                    // [volume, bundles] pairs of each bundle
    int32_t tiles, stretches, bundles; // bundles: of map_bundles
    uint32_t wanted[K];                // for each plane: the offsets in the lists, K * K bits
};

// The lists that a launch builds.
template <typename W, int K>
struct map_cube_task {
    plane_task<W> map;
    map_cube_lists<K> scratch;
    map_lists lists;
};

// Carves the scratch of the lists (or counts its bytes: workspace.h).
template <int K>
SPIRA_API map_cube_lists<K> map_cube_lists_take(workspace *w, int32_t outputs) {
    map_cube_lists<K> l = {};
    l.bundles = map_bundles(K, outputs);
    l.stretches =
        l.bundles ? l.bundles * map_bundle_stretches : (int32_t)ceil_div(outputs, map_stretch);
    l.tiles = l.bundles ? l.stretches : (int32_t)ceil_div(outputs, plane_rows(K));
    l.found = workspace_take<map_cube_record<K>>(w, (int64_t)l.stretches * K);
    l.counts = workspace_take<uint32_t>(w, (int64_t)l.tiles * K * map_count_words(K));
    if (l.bundles) {
        l.sums = workspace_take<uint16_t>(w, (int64_t)l.bundles * K * K * K);
    } else {
        l.starts = map_starts_take(w, K * K * K, l.stretches);
    }
    return l;
}

// Spreads the presence bits c .. c + 3 of a plane over the bytes of a word.
template <int K>
SPIRA_DEVICE uint32_t map_bits_to_bytes(uint32_t bits, int c) {
    const uint32_t some = c + 4 > map_leap_bit ? (1u << (K * K - c)) - 1 : 15; // not the leaps
    return ((bits >> c & some) * 0x00204081u) & 0x01010101u;
}

// Records where the rows of a pass begin, and adds its presence bits to bits [plane_ahead(K)].
//
// base  the first position of the window
// at    first output of the pass, in the stretch
// rows  outputs from there on
template <int K>
SPIRA_DEVICE void map_cube_record_put(const plane_found<K> *row, int base, int at, int rows,
                                      map_cube_record<K> *found, uint32_t *bits) {
    const int lane = threadIdx.x & 31;
#pragma unroll
    for (int a = 0; a < plane_ahead(K); ++a) {
#pragma unroll
        for (int y = 0; y < K; ++y) {
            found->from[y][at + a * 32 + lane] = (uint16_t)(row[a].position[y] - base);
            bits[a] |= (row[a].bits[y] & ((1u << K) - 1)) << (y * K);
        }
        bits[a] = a * 32 + lane < rows ? bits[a] : 0;
    }
    if (lane < plane_ahead(K)) {
        found->base[at / 32 + lane] = base;
    }
}

// Searches a pass of a sampled window and records it, as map_cube_record_put does. Returns whether
// the plane is lost for this lane: then only the presence bits are right.
template <typename W, int K>
SPIRA_DEVICE bool map_cube_record_far(const plane_search<W, K> &search, int g,
                                      map_cube_record<K> *found, uint32_t *bits) {
    const int lane = threadIdx.x & 31, base = search.window.begin;
    const int at = search.queries.first % map_stretch + g * 32;
    bool lost = false;
#pragma unroll 1
    for (int a = 0; a < plane_ahead(K); ++a) {
        const W word = plane_output<false>(search, g, a);
        plane_found<K> rows;
        uint32_t has = 0;
        int leaps = 0;
        if (plane_far_find<W, K, true>(search, word, &rows)) {
            leaps = (rows.position[0] - base) / map_leap_words;
#pragma unroll
            for (int y = 0; y < K; ++y) {
                const int from = rows.position[y] - base - leaps * map_leap_words;
                lost = lost || leaps > map_leaps_most || (rows.bits[y] && from > UINT16_MAX);
                found->from[y][at + a * 32 + lane] = (uint16_t)from;
                has |= rows.bits[y] << (y * K);
            }
        } else {
            lost = true;
            plane_far_walk<W, K>(search, word,
                                 [&](int c, int tap) { has |= tap >= 0 ? 1u << c : 0; });
        }
        has |= (uint32_t)(leaps & map_leaps_most) << map_leap_bit;
        has = (g + a) * 32 + lane < search.queries.rows ? has : 0;
        bits[0] = a ? bits[0] : has;
        bits[plane_ahead(K) - 1] = a || plane_ahead(K) == 1 ? has : bits[plane_ahead(K) - 1];
    }
    if (lane < plane_ahead(K)) {
        found->base[at / 32 + lane] = base;
    }
    return lost;
}

// Records the same bits and base for outputs at .. at + rows - 1: nothing found, or all lost.
template <int K>
SPIRA_DEVICE void map_cube_record_fill(int at, int rows, uint32_t bits, int base,
                                       map_cube_record<K> *found) {
    for (int i = at + (int)(threadIdx.x & 31); i < at + rows; i += 32) {
        found->base[i / 32] = base;
        found->bits[i] = bits;
        for (int y = 0; y < K; ++y) {
            found->from[y][i] = 0;
        }
    }
}

// The number of pairs of a tile at offset c of a plane: one byte of counts.
template <int K>
SPIRA_DEVICE uint8_t *map_cube_count(const map_cube_lists<K> &lists, int plane, int c, int tile) {
    int64_t word =
        (int64_t)(plane * map_count_words(K) + c / map_move_offsets) * lists.tiles + tile;
    return (uint8_t *)(lists.counts + word) + c % map_move_offsets;
}

// Searches a plane of a tile and records what it finds. Adds the lane's pairs to counts: one byte
// for each offset of the plane.
template <typename W, int K>
SPIRA_DEVICE void map_cube_search(const map_cube_task<W, K> &task, const search_sets<W> &sets,
                                  const plane_outputs<W, K> &queries, int plane, uint32_t *buffer,
                                  uint32_t (&counts)[map_count_words(K)]) {
    const search_walk<W> &walk = task.map.walk;
    const map_cube_lists<K> &lists = task.scratch;
    const int ahead = plane_ahead(K), tile_rows = plane_rows(K), lane = threadIdx.x & 31;
    static_assert(map_stretch % tile_rows == 0 && tile_rows <= UINT8_MAX,
                  "a stretch is whole tiles; counts are bytes");
    static_assert(plane_window_words(K) <= UINT16_MAX, "positions in a window");
    const int at = queries.first % map_stretch;
    map_cube_record<K> *found = lists.found + ((int64_t)(queries.first / map_stretch) * K + plane);
    const plane_search<W, K> search = plane_begin<W, K>(walk, sets, queries, plane, buffer);
    const int begin = search.window.begin;
    bool lost = false;
#pragma unroll
    for (int g = 0; g < tile_rows / 32; g += ahead) {
        uint32_t bits[ahead] = {};
        if (g * 32 >= queries.rows) {
            map_cube_record_fill<K>(at + g * 32, ahead * 32, 0, 0, found);
            continue;
        }
        if (plane_near(search)) {
            plane_found<K> row[ahead];
            plane_find<W, K>(search, g, row);
            map_cube_record_put<K>(row, begin, at + g * 32, queries.rows - g * 32, found, bits);
        } else {
            lost = map_cube_record_far<W, K>(search, g, found, bits) || lost;
        }
#pragma unroll
        for (int a = 0; a < ahead; ++a) {
            found->bits[at + (g + a) * 32 + lane] = bits[a];
            bits[a] &= lists.wanted[plane];
#pragma unroll
            for (int c = 0; c < map_count_words(K); ++c) {
                counts[c] += map_bits_to_bytes<K>(bits[a], c * map_move_offsets);
            }
        }
    }
    if (__any_sync(~0u, lost)) { // other lanes write `base` again
        map_cube_record_fill<K>(at, tile_rows, map_cube_lost, begin, found);
    }
}

// Adds up the counts of all lanes and writes them. Returns word l of the sums in lane l.
template <int K>
SPIRA_DEVICE uint32_t map_cube_put_counts(const uint32_t (&counts)[map_count_words(K)],
                                          const map_cube_lists<K> &lists, int plane, int tile) {
    const int words = map_count_words(K), lane = threadIdx.x & 31;
    uint32_t mine = 0;
#pragma unroll
    for (int c = 0; c < words; ++c) {
        uint32_t sum = (uint32_t)warp_sum((int)counts[c]); // a byte holds the rows of a tile
        mine = lane == c ? sum : mine;
    }
    if (lane < words) {
        lists.counts[(int64_t)(plane * words + lane) * lists.tiles + tile] = mine;
    }
    return mine;
}

// Thread blocks per multiprocessor that the kernel below has registers for, without spills.
SPIRA_BOTH constexpr int map_cube_find_blocks(int K, int word, int bundle) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
    return bundle > 1 ? map_cube_small_blocks(word) : K <= 3 ? 10 : 6;
#else
    return bundle > 1 ? map_cube_small_blocks(word)
           : word > 4 ? (K <= 3 ? 10 : 6)
                      : (K <= 3 ? 12 : 8);
#endif
}

// Searches and counts: one thread block for each tile or bundle of `bundle` tiles, one warp for
// each tile and plane. In a bundle, tiles without outputs get records and counts, too: the move
// loads both before it knows the number of outputs.
template <typename W, int K, int bundle>
SPIRA_KERNEL void __launch_bounds__(32 * K * bundle, map_cube_find_blocks(K, sizeof(W), bundle))
    map_cube_find_kernel(const __grid_constant__ map_cube_task<W, K> task) {
    extern __shared__ int4 map_shared[]; // [plane_windows_bytes]
    const map_cube_lists<K> &lists = task.scratch;
    const int warp = threadIdx.x / 32, plane = bundle > 1 ? warp % K : warp;
    if (bundle == 1 && blockIdx.x == 0) {
        map_starts_clear(lists.starts);
    }
    search_sets<W> sets;
    plane_outputs<W, K> queries;
    const int tile =
        bundle > 1 ? (int)blockIdx.x * bundle + warp / K : plane_tile((int)blockIdx.x, lists.tiles);
    uint32_t own[map_count_words(K)] = {};
    if (plane_tile_begin<W, K>(task.map, tile, &sets, &queries)) {
        map_cube_search<W, K>(task, sets, queries, plane,
                              (uint32_t *)map_shared + warp * plane_window_words(K), own);
    } else if (bundle == 1) {
        return;
    } else {
        map_cube_record_fill<K>(0, map_stretch, 0, 0, lists.found + ((int64_t)tile * K + plane));
    }
    const uint32_t sum = map_cube_put_counts<K>(own, lists, plane, tile);
    if constexpr (bundle > 1) {
        static_assert(plane_rows(K) == map_stretch, "a stretch is a tile");
        static_assert(bundle * map_stretch <= UINT16_MAX, "sums have 16 bits");
        __shared__ uint32_t counts[bundle][K][map_count_words(K)]; // a byte for each offset
        if ((threadIdx.x & 31) < map_count_words(K)) {
            counts[warp / K][plane][threadIdx.x & 31] = sum;
        }
        __syncthreads();
        if (threadIdx.x < K * K * K) {
            uint32_t all = 0;
#pragma unroll
            for (int i = 0; i < bundle; ++i) {
                all += ((const uint8_t *)counts[i][threadIdx.x / (K * K)])[threadIdx.x % (K * K)];
            }
            lists.sums[(int)threadIdx.x * lists.bundles + (int)blockIdx.x] = (uint16_t)all;
        }
    }
}

// ---- scan ---------------------------------------------------------------------------------------

// The number of pairs of a stretch at offset c of a plane.
template <int K>
SPIRA_DEVICE int map_cube_stretch_count(const map_cube_lists<K> &lists, int plane, int c,
                                        int stretch, int outputs) {
    const int split = map_stretch / plane_rows(K);
    int count = 0;
#pragma unroll
    for (int i = 0; i < split; ++i) {
        int tile = stretch * split + i;
        count += tile * plane_rows(K) < outputs ? *map_cube_count<K>(lists, plane, c, tile) : 0;
    }
    return count;
}

// The pairs of a stretch at offset k, for the scan.
template <int K>
SPIRA_DEVICE auto map_starts_counts(const map_cube_lists<K> &lists, int k, int outputs) {
    const int plane = k / (K * K), c = k % (K * K);
    return [plane, c, outputs, &lists](int stretch) {
        return map_cube_stretch_count<K>(lists, plane, c, stretch, outputs);
    };
}

} // namespace spira

#endif
