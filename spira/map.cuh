// spira/map.cuh: kernel maps on the GPU by z-delta search (Spira paper).
//
// One kernel writes all forms: a block searches a tile of outputs into shared memory
// (search_block, search.cuh) and hands the tile to one writer for each form that is wanted. Tile
// and writers (map_write_*) are for other kernels too. Up to 16 maps go in one launch.
//
// The filtered form takes three launches: the search packs the pairs of each tile, a scan over the
// tiles finds where the lists start, and the pairs are moved there. So the search is done once, no
// dense map is written, and the order does not depend on the order of the blocks.
//
// Cubic kernels of size 3 and 5, output-stationary alone (all of the map or half of it), compact or
// as lists alone, have kernels of their own around index/compact.cuh, with the same results.
#ifndef SPIRA_MAP_CUH
#define SPIRA_MAP_CUH

#include "base/launch.cuh"
#include "index/compact.cuh"
#include "layout/tile.cuh"
#include "map.h"
#include "search.cuh"
#include "status.cuh"

#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>

namespace spira {

enum {
    map_batch_max = 16, // maps of a launch
};

// ---- writers: called by all threads of a block, over a tile that is complete --------------------

// The tile to ws [columns, capacity].
SPIRA_DEVICE void map_write_ws(const search_tile &tile, int columns, int64_t capacity,
                               int32_t *ws) {
    int lane = threadIdx.x & 31, end = tile.k_end < columns ? tile.k_end : columns;
    for (int k = tile.k_begin + threadIdx.x / 32; k < end; k += blockDim.x / 32) {
        for (int row = lane; row < tile.rows; row += 32) {
            ws[k * capacity + tile.first + row] = tile.taps[row * tile.pitch + k - tile.k_begin];
        }
    }
}

// The tile's offsets below `columns` to os [outputs, columns].
SPIRA_DEVICE void map_write_os(const search_tile &tile, int columns, int32_t *os) {
    int wide = min(tile.k_end, columns) - tile.k_begin;
    int32_t *out = os + (int64_t)tile.first * columns + tile.k_begin;
    if (wide == columns && tile.pitch == columns && ((uintptr_t)out & 15) == 0) {
        int count = tile.rows * columns; // the tile stands as it goes out
        for (int i = threadIdx.x; i < count / 4; i += blockDim.x) {
            ((int4 *)out)[i] = ((const int4 *)tile.taps)[i];
        }
        for (int i = count / 4 * 4 + threadIdx.x; i < count; i += blockDim.x) {
            out[i] = tile.taps[i];
        }
        return;
    }
    for (int row = threadIdx.x / 32; row < tile.rows; row += blockDim.x / 32) {
        for (int c = threadIdx.x & 31; c < wide; c += 32) {
            out[(int64_t)row * columns + c] = tile.taps[row * tile.pitch + c];
        }
    }
}

// Rows [rows, columns] that are complete, one behind the other, to out; shared and out aligned
// to 4. A barrier, behind proxy_fence, has been passed since they were written; they stay as they
// are up to map_copy_wait and a barrier.
template <int threads>
SPIRA_DEVICE void map_copy_rows(const int32_t *taps, int count, int32_t *out) {
    int copied = 0;
#if __CUDA_ARCH__ >= 900
    copied = (uintptr_t)out & 15 ? 0 : count & ~3;
    if (threadIdx.x == 0 && copied) {
        bulk_store(out, shared_address(taps), (uint32_t)copied * (uint32_t)sizeof(int32_t));
    }
#else
    if (((uintptr_t)out & 15) == 0) {
        copied = count & ~3;
        for (int i = threadIdx.x; i < count / 4; i += threads) {
            ((int4 *)out)[i] = ((const int4 *)taps)[i];
        }
    }
#endif
#pragma unroll 1
    for (int i = copied + threadIdx.x; i < count; i += threads) {
        out[i] = taps[i];
    }
}

// Before the rows are written again, with a barrier behind it, and before the block ends.
SPIRA_DEVICE void map_copy_wait() {
    if (threadIdx.x == 0) {
        bulk_store_wait();
    }
}

// The tile's offsets with chosen [k_end - k_begin] >= 0 to os [outputs, columns]: to that column.
SPIRA_DEVICE void map_write_os_chosen(const search_tile &tile, const int16_t *chosen, int columns,
                                      int32_t *os) {
    for (int row = threadIdx.x / 32; row < tile.rows; row += blockDim.x / 32) {
        for (int c = threadIdx.x & 31; c < tile.k_end - tile.k_begin; c += 32) {
            if (chosen[c] >= 0) {
                os[(int64_t)(tile.first + row) * columns + chosen[c]] =
                    tile.taps[row * tile.pitch + c];
            }
        }
    }
}

// The tile's offsets below `columns` to mask [outputs, words] and mask_any [ceil(outputs / 32),
// words], either null. A kernel that is searched in pieces is written in ascending order of them,
// by the same block: a piece adds its bits to a word that it shares with the one before, and the
// last clears the words behind.
SPIRA_DEVICE void map_write_masks(const search_tile &tile, int columns, int words, uint32_t *mask,
                                  uint32_t *mask_any) {
    int end = tile.k_end < columns ? tile.k_end : columns;
    int word_first = tile.k_begin / 32, word_end = end < columns ? (end + 31) / 32 : words;
    int lane = threadIdx.x & 31, groups = (tile.rows + 31) / 32;
    for (int i = threadIdx.x / 32; i < (word_end - word_first) * groups; i += blockDim.x / 32) {
        int word = word_first + i / groups, group = i % groups, row = group * 32 + lane;
        int from = word * 32 > tile.k_begin ? word * 32 : tile.k_begin;
        int to = word * 32 + 32 < end ? word * 32 + 32 : end;
        uint32_t bits = 0;
        for (int k = from; k < to && row < tile.rows; ++k) {
            bits |= tile.taps[row * tile.pitch + k - tile.k_begin] >= 0 ? 1u << k % 32 : 0;
        }
        uint32_t any = bits;
        for (int step = 16; step; step /= 2) {
            any |= __shfl_xor_sync(~0u, any, step);
        }
        bool join = from > word * 32;
        if (mask && row < tile.rows) {
            uint32_t *out = mask + (int64_t)(tile.first + row) * words + word;
            *out = join ? *out | bits : bits;
        }
        if (mask_any && lane == 0) {
            uint32_t *out = mask_any + (int64_t)(tile.first / map_mask_tile + group) * words + word;
            *out = join ? *out | any : any;
        }
    }
}

// ---- the pairs of a tile ------------------------------------------------------------------------

// A pair as the search packs it: the input row; offset, output row in the tile, and its rank among
// the pairs of the tile with this offset.
struct map_entry {
    int32_t input;
    uint32_t where; // offset << 14 | row << 7 | rank
};

// Where the search leaves the pairs of the tiles. A unit is a tile, or a piece of one where the
// kernel is searched in pieces.
struct map_packed {
    map_entry *entry;           // [capacity] unit by unit, in any order of the units
    int64_t *unit_begin;        // [units]
    int32_t *unit_pairs;        // [units]
    int32_t *counts;            // [volume, tiles] pairs of each tile; after the scan, where they go
    unsigned long long *cursor; // [1] pairs so far; must be 0 before the search
    int32_t *totals;            // [volume] the same by offset, behind the cursor
    int32_t capacity;
    int32_t tiles;
    int threshold; // offsets with a smaller norm are left out
};

SPIRA_DEVICE int map_norm(triple size, int k) {
    int row = k / size.z;
    int x = row / size.y + kernel_first(size.x), y = row % size.y + kernel_first(size.y);
    int z = k - row * size.z + kernel_first(size.z);
    return abs(x) + abs(y) + abs(z);
}

// What a block shares while it packs the pairs of a tile.
struct map_tile_bits {
    tile_bits has;
    int32_t before[tile_words_most];  // [groups, 32 words]: pairs of the tile with a lower row
    int32_t first[tile_columns_most]; // where the pairs of each column start among the tile's
    int64_t begin;                    // where the tile's start
    int32_t total;
};

// Counts the pairs of each column, for the tile and below each group of rows.
SPIRA_DEVICE void map_count_bits(const search_tile &tile, int tile_number, const map_packed &out,
                                 map_tile_bits *bits) {
    int columns = tile.k_end - tile.k_begin;
    int words = (columns + 31) / 32, groups = (tile.rows + 31) / 32;
    for (int c = threadIdx.x; c < columns; c += search_threads) {
        int count = 0;
        for (int g = 0; g < groups; ++g) {
            bits->before[g * (words * 32) + c] = count;
            count += __popc(bits->has.column[g * (words * 32) + c]);
        }
        bits->first[c] = count;
        out.counts[(int64_t)(tile.k_begin + c) * out.tiles + tile_number] = count;
        if (count) {
            atomicAdd(out.totals + tile.k_begin + c, count);
        }
    }
}

// first: counts to the numbers before each column; total. One warp.
SPIRA_DEVICE void map_scan_columns(int columns, map_tile_bits *bits) {
    int lane = threadIdx.x & 31, before = 0;
    for (int c = lane; c - lane < columns; c += 32) {
        const int mine = c < columns ? bits->first[c] : 0, sum = warp_sum_up_to(mine);
        if (c < columns) {
            bits->first[c] = before + sum - mine;
        }
        before += __shfl_sync(~0u, sum, 31);
    }
    bits->total = before;
}

// Packs the pairs of a tile, offset by offset, and counts them. stage [staged]: shared memory in
// which they are put in order, where they fit, so that they leave in whole lines.
SPIRA_DEVICE void map_write_packed(const search_tile &tile, triple size, int searched, int unit,
                                   int tile_number, const map_packed &out, map_entry *stage,
                                   int staged) {
    __shared__ map_tile_bits bits;
    int columns = tile.k_end - tile.k_begin;
    int words = (columns + 31) / 32, groups = (tile.rows + 31) / 32;
    const int threshold = out.threshold;
    tile_find_bits(
        tile,
        [=](int k) { return k < searched && (threshold == 0 || map_norm(size, k) >= threshold); },
        &bits.has);
    __syncthreads();
    map_count_bits(tile, tile_number, out, &bits);
    __syncthreads();
    if (threadIdx.x < 32) {
        map_scan_columns(columns, &bits);
        if (threadIdx.x == 0) {
            bits.begin = (int64_t)atomicAdd(out.cursor, (unsigned long long)bits.total);
            out.unit_begin[unit] = bits.begin;
            out.unit_pairs[unit] = bits.total;
        }
    }
    __syncthreads();
    int64_t room = max_of(out.capacity - bits.begin, 0);
    map_entry *entry = out.entry + bits.begin;
    bool stages = bits.total <= staged;
    for (int i = threadIdx.x; i < words * groups * 32; i += search_threads) {
        int word = i / (groups * 32), row = i - word * (groups * 32);
        const int32_t *taps = tile.taps + row * tile.pitch;
        uint32_t below = (1u << row % 32) - 1;
        int at_row = row / 32 * (words * 32);
        for (uint32_t has = bits.has.row[i]; has; has &= has - 1) {
            int c = word * 32 + __ffs((int)has) - 1;
            int rank = bits.before[at_row + c] + __popc(bits.has.column[at_row + c] & below);
            int at = bits.first[c] + rank;
            map_entry e = {taps[c], (uint32_t)((tile.k_begin + c) << 14 | row << 7 | rank)};
            if (stages) {
                stage[at] = e;
            } else if (at < room) {
                entry[at] = e;
            }
        }
    }
    if (stages) {
        __syncthreads();
        for (int i = threadIdx.x; i < bits.total && i < room; i += search_threads) {
            entry[i] = stage[i];
        }
    }
}

// ---- the search kernel --------------------------------------------------------------------------

// What a launch writes: the whole output-stationary map and nothing else; any forms but the tiled
// layout; any.
enum map_mode { map_mode_os, map_mode_forms, map_mode_tiles };

// One map of a launch.
template <typename W>
struct map_task {
    search_walk<W> walk;
    search_shape shape;
    const W *source, *outputs;
    const int32_t *source_count, *output_count;
    int32_t source_capacity, output_capacity;
    int32_t block; // its first block
    int os_columns;
    map_mode mode;
    map_forms forms;
    search_choice choice;
};

template <typename W>
struct map_batch {
    int tasks;
    map_task<W> task[map_batch_max];
};

// Column numbers of the offsets of a tile that are in os, or -1; `before` counts those of the
// pieces before. One warp; returns the new count.
SPIRA_DEVICE int map_choose_columns(triple size, int k_begin, int k_end, int searched,
                                    int threshold, int before, int16_t *chosen) {
    int lane = threadIdx.x & 31;
    for (int k = k_begin + lane; k - lane < k_end; k += 32) {
        bool take = k < k_end && k < searched && map_norm(size, k) < threshold;
        uint32_t all = __ballot_sync(~0u, take);
        if (k < k_end) {
            chosen[k - k_begin] =
                take ? (int16_t)(before + __popc(all & ((1u << lane) - 1))) : (int16_t)-1;
        }
        before += __popc(all);
    }
    return before;
}

// All the forms of one tile.
template <typename W>
SPIRA_DEVICE void map_write_forms(const map_task<W> &task, const search_tile &tile, int searched,
                                  int *chosen_before) {
    __shared__ int16_t chosen[tile_columns_most];
    const map_forms &f = task.forms;
    triple size = {task.walk.size_x, task.walk.size_y, task.walk.size_z};
    if (f.os && task.os_columns == searched) {
        map_write_os(tile, searched, f.os);
    } else if (f.os) {
        if (threadIdx.x < 32) {
            *chosen_before = map_choose_columns(size, tile.k_begin, tile.k_end, searched,
                                                f.threshold, *chosen_before, chosen);
        }
        __syncthreads();
        map_write_os_chosen(tile, chosen, task.os_columns, f.os);
    }
    if (f.ws) {
        map_write_ws(tile, searched, task.output_capacity, f.ws);
    }
    if (f.mask || f.mask_any) {
        map_write_masks(tile, searched, map_mask_words(task.walk.volume), f.mask, f.mask_any);
    }
}

// The state of tile_write, where there is one.
template <map_mode mode>
struct map_tile_state : tile_state {};

template <>
struct map_tile_state<map_mode_os> {};

template <>
struct map_tile_state<map_mode_forms> {};

// The tiles of the layout from number `tile` on that belong to this tile of the search: empty.
template <typename W>
SPIRA_DEVICE void map_write_empty(const map_task<W> &task, int tile_number, int tile) {
    const tile_layout &t = task.forms.tiles;
    for (; tile < min((tile_number + 1) * (task.shape.rows / t.rows), t.tiles); ++tile) {
        tile_write_empty(tile, t);
    }
}

template <typename W, map_mode mode>
SPIRA_DEVICE void map_search_tile(const map_task<W> &task, int tile_number,
                                  const map_packed *packed, void *shared) {
    __shared__ search_window windows[kernel_size_max];
    __shared__ map_tile_state<mode> map_tiles;
    const search_walk<W> &walk = task.walk;
    search_sets<W> sets = {task.source, task.outputs, min(*task.source_count, task.source_capacity),
                           min(*task.output_count, task.output_capacity)};
    int first = tile_number * task.shape.rows;
    int rows = min(sets.total - first, task.shape.rows);
    if (rows <= 0) {
        if (packed && (int)threadIdx.x < task.shape.pieces) {
            int unit = tile_number * task.shape.pieces + (int)threadIdx.x;
            packed->unit_begin[unit] = packed->unit_pairs[unit] = 0;
        }
        if (mode == map_mode_tiles && task.forms.tiles.first) {
            map_write_empty(task, tile_number, first / task.forms.tiles.rows);
        }
        return;
    }
    int searched = task.forms.half ? walk.volume / 2 : walk.volume, chosen_before = 0;
    // The lists count every offset, other forms need not look behind those that are searched.
    bool whole = !task.forms.half || packed || (mode == map_mode_tiles && task.forms.tiles.first);
    int size_x = whole ? walk.size_x : walk.size_x / 2 + 1;
    if constexpr (mode == map_mode_tiles) {
        if (threadIdx.x < tile_units_most) {
            map_tiles.done[threadIdx.x] = 0; // barriers follow, in search_block
        }
    }
    for (int piece = 0; piece < task.shape.pieces; ++piece) {
        if (piece) {
            __syncthreads();
        }
        // Ascending offsets: a transposed kernel is walked from its last slab.
        int slab = piece * task.shape.slabs;
        int planes = min(size_x - slab, task.shape.slabs);
        if (planes <= 0) {
            break;
        }
        slab = walk.transposed ? walk.size_x - slab - planes : slab;
        search_tile tile =
            search_block(walk, task.shape, sets, mode == map_mode_os ? nullptr : &task.choice,
                         first, rows, slab, planes, shared, windows);
        if (mode == map_mode_os) {
            map_write_os(tile, walk.volume, task.forms.os);
        } else {
            map_write_forms(task, tile, searched, &chosen_before);
        }
        if constexpr (mode == map_mode_tiles) {
            if (task.forms.tiles.first) {
                tile_write(tile, searched, task.forms.tiles, shared,
                           search_windows_bytes(task.shape), &map_tiles);
            }
        }
        if (packed) {
            triple size = {walk.size_x, walk.size_y, walk.size_z};
            int staged = search_windows_bytes(task.shape) / (int)sizeof(map_entry);
            map_write_packed(tile, size, searched, tile_number * task.shape.pieces + piece,
                             tile_number, *packed, (map_entry *)shared, staged);
        }
    }
    if (mode == map_mode_tiles && task.forms.tiles.first) {
        int tile = (first + rows + task.forms.tiles.rows - 1) / task.forms.tiles.rows;
        map_write_empty(task, tile_number, tile);
    }
}

template <typename W, map_mode mode>
SPIRA_KERNEL void __launch_bounds__(search_threads, mode == map_mode_os ? 8 : 5)
    map_kernel(const __grid_constant__ map_batch<W> batch) {
    extern __shared__ int4 map_shared[];
    int t = 0;
    while (t + 1 < batch.tasks && (int)blockIdx.x >= batch.task[t + 1].block) {
        ++t;
    }
    map_search_tile<W, mode>(batch.task[t], (int)blockIdx.x - batch.task[t].block, nullptr,
                             map_shared);
    pdl_wait(); // see map_build_batch
}

template <typename W>
SPIRA_KERNEL void __launch_bounds__(search_threads, 7)
    map_pack_kernel(const __grid_constant__ map_task<W> task,
                    const __grid_constant__ map_packed packed) {
    extern __shared__ int4 map_shared[];
    map_search_tile<W, map_mode_forms>(task, (int)blockIdx.x, &packed, map_shared);
}

// ---- output-stationary or compact alone, of small cubic kernels ---------------------------------

// One map of a launch of map_plane_kernel or map_compact_kernel.
template <typename W>
struct map_plane_task {
    search_walk<W> walk;
    const W *source, *outputs;
    const int32_t *source_count, *output_count;
    int32_t source_capacity, output_capacity;
    int32_t block;          // its first block
    int32_t *to;            // the map
    device_status *trouble; // map_compact_kernel
};

template <typename W>
struct map_plane_batch {
    int tasks;
    map_plane_task<W> task[map_batch_max];
};

// The outputs of a block of a task, as each of its warps holds them; false if there are none.
template <typename W, int K>
SPIRA_DEVICE bool map_plane_begin(const map_plane_task<W> &task, int block, search_sets<W> *sets,
                                 plane_outputs<W, K> *queries) {
    int first = block * plane_rows(K);
    plane_read<W, K>(task.outputs, task.output_capacity, first, queries);
    *sets = {task.source, task.outputs, min(*task.source_count, task.source_capacity),
             min(*task.output_count, task.output_capacity)};
    int rows = min(sets->total - first, plane_rows(K));
    plane_limit<W, K>(rows, queries); // before the branch, or the words are read behind it
    return rows > 0;
}

// The task of this block.
template <typename W>
SPIRA_DEVICE const map_plane_task<W> &map_plane_find_task(const map_plane_batch<W> &batch) {
    int t = 0;
    while (t + 1 < batch.tasks && (int)blockIdx.x >= batch.task[t + 1].block) {
        ++t;
    }
    return batch.task[t];
}

template <typename W, int K, bool half>
SPIRA_KERNEL void __launch_bounds__(32 * plane_count(K, half))
    map_plane_kernel(const __grid_constant__ map_plane_batch<W> batch) {
    extern __shared__ int4 map_shared[];
    pdl_launch_dependents();
    const map_plane_task<W> &task = map_plane_find_task(batch);
    search_sets<W> sets;
    plane_outputs<W, K> queries;
    if (!map_plane_begin<W, K>(task, (int)blockIdx.x - task.block, &sets, &queries)) {
        pdl_wait();
        return;
    }
    const int32_t *taps = (const int32_t *)map_shared; // [outputs of a turn, columns]
    const int slab = threadIdx.x / 32, columns = plane_columns(K, half);
    const bool cut = half && slab == K / 2; // at the centre
    uint32_t *windows = (uint32_t *)((char *)map_shared + plane_taps_bytes(K, half));
    uint32_t to = shared_address(taps + (int)(threadIdx.x & 31) * columns + slab * K * K);
    plane_search<W, K> search =
        plane_begin<W, K>(task.walk, sets, queries, slab, windows + slab * plane_window_words(K));
#pragma unroll
    for (int g = 0; g < plane_rows(K) / 32; g += plane_ahead(K)) {
        const int left = queries.rows - g * 32;
        if (left <= 0) {
            break;
        }
        plane_found<K> found[plane_ahead(K)];
        bool near = plane_next<W, K>(task.walk, sets, g, &search, found);
        if (g) {
            map_copy_wait();
            __syncthreads();
        }
        if (!near) {
            plane_put_far<W, K, columns>(task.walk, sets, search, g, cut ? K * K / 2 : K * K, to);
        } else if (cut) {
            plane_put<W, K, K * K / 2, columns>(search, found, g, to);
        } else {
            plane_put<W, K, K * K, columns>(search, found, g, to);
        }
        proxy_fence();
        __syncthreads();
        map_copy_rows<32 * plane_count(K, half)>(taps, min(left, plane_ahead(K) * 32) * columns,
                                                task.to +
                                                    (int64_t)(queries.first + g * 32) * columns);
    }
    map_copy_wait();
    pdl_wait();
}

// The record of an output from its rows in a slab.
template <int K>
SPIRA_DEVICE void map_compact_record(const plane_found<K> &found, int32_t (&record)[K + 1]) {
    record[K] = 0;
#pragma unroll
    for (int y = 0; y < K; ++y) {
        record[y] = found.position[y];
        record[K] |= (int32_t)((found.bits[y] & ((1u << K) - 1)) << (y * K));
    }
}

// The same of a turn without a window: row by row from the source. Returns whether the sources of
// each row stand side by side; those that do not are left out.
template <typename W, int K>
SPIRA_DEVICE bool map_compact_far(const search_walk<W> &walk, const search_sets<W> &sets,
                                  const plane_search<W, K> &search, W output,
                                  int32_t (&record)[K + 1]) {
    bool whole = true;
    int from = search.window.begin;
    uint32_t has = 0;
#pragma unroll
    for (int y = 0; y < K; ++y) {
        int next = -1;
#pragma unroll 1
        for (int c = y * K; c < y * K + K; ++c) {
            W query = plane_far_query<W, K>(walk, output, search.slab, c);
            const int tap = plane_far_tap(sets.source, sets.count, query, &from);
            const bool first = next < 0, takes = tap >= 0 && (first || tap == next);
            record[y] = first ? from : record[y];
            has |= takes ? 1u << c : 0;
            whole = whole && (tap < 0 || takes);
            next = takes ? tap + 1 : next;
        }
    }
    record[K] = (int32_t)has;
    return whole;
}

// to: aligned to 16, or 8.
template <int K>
SPIRA_DEVICE void map_compact_write(const int32_t (&record)[K + 1], int32_t *to) {
    static_assert(K == 3 || K == 5, "four numbers, or six");
    if constexpr (K == 3) {
        *(int4 *)to = {record[0], record[1], record[2], record[3]};
    } else {
#pragma unroll
        for (int i = 0; i < K + 1; i += 2) {
            *(int2 *)(to + i) = {record[i], record[i + 1]};
        }
    }
}

// The compact form: each warp writes the records of its slab as it finds them.
template <typename W, int K>
SPIRA_KERNEL void __launch_bounds__(32 * K)
    map_compact_kernel(const __grid_constant__ map_plane_batch<W> batch) {
    extern __shared__ int4 map_shared[]; // [plane_windows_bytes(K)]
    pdl_launch_dependents();
    const map_plane_task<W> &task = map_plane_find_task(batch);
    search_sets<W> sets;
    plane_outputs<W, K> queries;
    if (!map_plane_begin<W, K>(task, (int)blockIdx.x - task.block, &sets, &queries)) {
        pdl_wait();
        return;
    }
    const int slab = threadIdx.x / 32, lane = threadIdx.x & 31;
    plane_search<W, K> search = plane_begin<W, K>(
        task.walk, sets, queries, slab, (uint32_t *)map_shared + slab * plane_window_words(K));
    int32_t *to = task.to + compact_at(K, task.output_capacity, slab, queries.first);
#pragma unroll
    for (int g = 0; g < plane_rows(K) / 32 && g * 32 < queries.rows; g += plane_ahead(K)) {
        plane_found<K> found[plane_ahead(K)];
        const bool near = plane_next<W, K>(task.walk, sets, g, &search, found);
#pragma unroll
        for (int a = 0; a < plane_ahead(K); ++a) {
            const int row = (g + a) * 32 + lane;
            int32_t record[K + 1];
            if (row >= queries.rows) {
                continue;
            }
            if (near) {
                map_compact_record<K>(found[a], record);
            } else if (!map_compact_far<W, K>(task.walk, sets, search, queries.word[g + a],
                                              record)) {
                device_status_raise(task.trouble, device_flag_lattice,
                                    (uint32_t)(queries.first + row));
            }
            map_compact_write<K>(record, to + row * compact_record_words(K));
        }
    }
    pdl_wait();
}

template <typename W>
SPIRA_API map_task<W> map_task_make(const word_layout *layout, const kernel_shape *kernel,
                                    const voxel_set<W> *source, const voxel_set<W> *outputs,
                                    const map_forms *forms, int32_t block, bool packed) {
    map_task<W> task;
    bool linear = forms->os && forms->threshold >= map_all && !forms->half;
    bool tiles = forms->tiles.first;
    bool odd = packed || tiles || forms->ws || forms->mask || forms->mask_any || !linear;
    task.walk = search_walk_make<W>(layout, kernel);
    task.shape = search_shape_choose(kernel->size, kernel_step(kernel), odd && !linear);
    task.source = source->words;
    task.source_count = source->count;
    task.source_capacity = source->capacity;
    task.outputs = outputs->words;
    task.output_count = outputs->count;
    task.output_capacity = outputs->capacity;
    task.block = block;
    bool only_os = forms->os && !packed && !tiles && !forms->ws && !forms->mask && !forms->mask_any;
    task.choice = search_choose(kernel, map_columns(kernel, forms->half),
                                only_os ? forms->threshold : map_all);
    task.os_columns = map_os_columns(kernel, forms->threshold, forms->half);
    task.forms = *forms;
    task.mode = tiles ? map_mode_tiles : only_os && linear ? map_mode_os : map_mode_forms;
    return task;
}

template <typename W>
SPIRA_API int32_t map_task_tiles(const map_task<W> *task) {
    return (int32_t)ceil_div(task->output_capacity, task->shape.rows);
}

// One map of map_build_batch.
template <typename W>
struct map_request {
    kernel_shape kernel;
    voxel_set<W> source, outputs;
    map_forms forms;
};

// The kernel that makes a map: map_plane_kernel of size 3 or 5, for all of a map or half of it,
// map_compact_kernel, or map_kernel.
enum map_maker {
    map_maker_3,
    map_maker_5,
    map_maker_half_3,
    map_maker_half_5,
    map_maker_compact_3,
    map_maker_compact_5,
    map_makers
};

template <typename W>
SPIRA_API map_maker map_choose_maker(const map_request<W> *r) {
    const map_forms *f = &r->forms;
    const bool three = r->kernel.size.x == 3;
    bool only_os =
        f->os && f->threshold >= map_all && !f->ws && !f->mask && !f->mask_any && !f->tiles.first;
    if (f->compact) {
        return three ? map_maker_compact_3 : map_maker_compact_5;
    }
    if (!only_os || !compact_takes(&r->kernel)) {
        return map_makers;
    }
    return f->half ? three ? map_maker_half_3 : map_maker_half_5
           : three ? map_maker_3
                   : map_maker_5;
}

template <typename W>
SPIRA_API map_plane_task<W> map_plane_task_make(const word_layout *layout, const kernel_shape *kernel,
                                              const voxel_set<W> *source,
                                              const voxel_set<W> *outputs, int32_t block,
                                              int32_t *to, device_status *trouble) {
    return {search_walk_make<W>(layout, kernel),
            source->words,
            outputs->words,
            source->count,
            outputs->count,
            source->capacity,
            outputs->capacity,
            block,
            to,
            trouble};
}

enum map_plane_form { map_plane_whole, map_plane_half, map_plane_compact };

template <typename W, int K, map_plane_form form>
SPIRA_API status map_plane_launch(const word_layout *layout, const map_request<W> *const *request,
                                 int requests, bool programmatic, cudaStream_t stream) {
    map_plane_batch<W> batch;
    int64_t blocks = 0;
    batch.tasks = requests;
    for (int i = 0; i < requests; ++i) {
        const map_request<W> *r = request[i];
        batch.task[i] = map_plane_task_make(
            layout, &r->kernel, &r->source, &r->outputs, (int32_t)blocks,
            form == map_plane_compact ? r->forms.compact : r->forms.os, r->forms.trouble);
        blocks += ceil_div(r->outputs.capacity, plane_rows(K));
    }
    const int planes = plane_count(K, form == map_plane_half);
    const int bytes = form == map_plane_compact ? plane_windows_bytes(K, K)
                                               : plane_block_bytes(K, form == map_plane_half);
    auto kernel = form == map_plane_compact ? map_compact_kernel<W, K>
                                           : map_plane_kernel<W, K, form == map_plane_half>;
    return kernel_launch(kernel, (unsigned)blocks, 32 * planes, (size_t)bytes, programmatic, 1,
                         stream, "map_build", batch);
}

template <typename W>
SPIRA_API status map_launch(const word_layout *layout, const map_request<W> *const *request,
                            int requests, bool programmatic, cudaStream_t stream) {
    map_batch<W> batch;
    int64_t blocks = 0;
    int bytes = 0;
    map_mode wanted = map_mode_os;
    batch.tasks = requests;
    for (int i = 0; i < requests; ++i) {
        const map_request<W> *r = request[i];
        batch.task[i] = map_task_make(layout, &r->kernel, &r->source, &r->outputs, &r->forms,
                                      (int32_t)blocks, false);
        blocks += map_task_tiles(batch.task + i);
        bytes = (int)max_of(bytes, search_block_bytes(batch.task[i].shape));
        wanted = batch.task[i].mode > wanted ? batch.task[i].mode : wanted;
    }
    auto kernel = wanted == map_mode_os      ? map_kernel<W, map_mode_os>
                  : wanted == map_mode_forms ? map_kernel<W, map_mode_forms>
                                             : map_kernel<W, map_mode_tiles>;
    return kernel_launch(kernel, (unsigned)blocks, search_threads, (size_t)bytes, programmatic, 1,
                         stream, "map_build", batch);
}

// map_build_batch. early: it needs nothing of the kernel before, which calls pdl_launch_dependents
// and pdl_wait; the launches have nothing for each other either.
template <typename W>
SPIRA_API status map_build_beside(const word_layout *layout, const map_request<W> *request,
                                  int requests, bool programmatic, cudaStream_t stream) {
    SPIRA_REQUIRE(request || requests == 0, status_null_pointer, "request", 0);
    SPIRA_REQUIRE(requests >= 0, status_bad_size, "requests", requests);
    int64_t tiles = 0;
    for (int i = 0; i < requests; ++i) {
        const map_request<W> *r = request + i;
        SPIRA_TRY(map_forms_check(layout, &r->kernel, &r->source, &r->outputs, &r->forms));
        tiles = i % map_batch_max ? tiles : 0; // of a launch
        tiles += ceil_div(r->outputs.capacity, search_tile_rows(kernel_volume(&r->kernel)));
        SPIRA_REQUIRE(tiles <= INT32_MAX, status_bad_size, "outputs.capacity (of a batch)", tiles);
    }
    status (*const launch[])(const word_layout *, const map_request<W> *const *, int, bool,
                             cudaStream_t) = {map_plane_launch<W, 3, map_plane_whole>,
                                              map_plane_launch<W, 5, map_plane_whole>,
                                              map_plane_launch<W, 3, map_plane_half>,
                                              map_plane_launch<W, 5, map_plane_half>,
                                              map_plane_launch<W, 3, map_plane_compact>,
                                              map_plane_launch<W, 5, map_plane_compact>,
                                              map_launch<W>};
    for (int maker = 0; maker <= map_makers; ++maker) {
        const map_request<W> *some[map_batch_max];
        int count = 0;
        for (int i = 0; i < requests; ++i) {
            some[count] = request + i;
            count += map_choose_maker(request + i) == maker;
            if (count == map_batch_max || (count && i + 1 == requests)) {
                SPIRA_TRY(launch[maker](layout, some, count, programmatic, stream));
                programmatic = true;
                count = 0;
            }
        }
    }
    return status_of_launch("map_build");
}

// Builds any number of kernel maps, up to 16 in a launch: cubic ones of 3, of 5, halves of such,
// compact ones, and others.
//
// inputs   layout: its guard margin covers the reach of all kernels; request [requests]
// outputs  the forms of each request, as of map_build_forms
// errors   as map_build_forms, of the first request that is wrong; nothing is launched then
// Asynchronous, deterministic. No scratch.
template <typename W>
SPIRA_API status map_build_batch(const word_layout *layout, const map_request<W> *request,
                                 int requests, cudaStream_t stream) {
    return map_build_beside(layout, request, requests, false, stream);
}

// Builds a kernel map by z-delta search, in all forms that are wanted.
//
// inputs   layout: its guard margin covers the kernel's reach
//          source, outputs: sorted sets; the same for a submanifold layer, and any two otherwise
// outputs  forms: see map_forms; what belongs to outputs from *outputs.count on is not written
// errors   null pointers, sizes, a kernel beyond the layout's margin, a half map of a layer that is
//          not submanifold, a compact form beside others
// Asynchronous, deterministic, equal to map_build_forms_host; so are the taps that a compact form
// tells. No scratch.
// cost     writes the forms; reads the words about size.x + 1 times, from L2
template <typename W>
SPIRA_API status map_build_forms(const word_layout *layout, const kernel_shape *kernel,
                                 voxel_set<W> source, voxel_set<W> outputs, const map_forms *forms,
                                 cudaStream_t stream) {
    SPIRA_TRY(map_forms_check(layout, kernel, &source, &outputs, forms));
    map_request<W> request = {*kernel, source, outputs, *forms};
    return map_build_batch(layout, &request, 1, stream);
}

// Builds a kernel map by z-delta search, output-stationary.
//
// outputs  map [outputs.capacity, volume]: source positions or -1; rows from *outputs.count on are
//          not written
// Otherwise as map_build_forms; equal to map_build_host.
template <typename W>
SPIRA_API status map_build(const word_layout *layout, const kernel_shape *kernel,
                           voxel_set<W> source, voxel_set<W> outputs, int32_t *map,
                           cudaStream_t stream) {
    SPIRA_TRY(map_check(layout, kernel, &source, &outputs, map));
    map_forms forms = map_forms_os(map);
    return map_build_forms(layout, kernel, source, outputs, &forms, stream);
}

// ---- the filtered form --------------------------------------------------------------------------

enum { map_scan_threads = 1024, map_scan_items = 4, map_move_threads = 128 };

typedef cub::BlockScan<int, map_scan_threads> map_scan;

// The counts of an offset, count(0 ... tiles - 1), to the numbers before each, from `before` on;
// returns the number behind the last. By a block of map_scan_threads; sums may be where the counts
// are.
template <typename F>
SPIRA_DEVICE int map_scan_tiles(F count, int tiles, int before, int32_t *sums,
                                typename map_scan::TempStorage &scratch) {
    for (int at = 0; at < tiles; at += map_scan_threads * map_scan_items) {
        int items[map_scan_items], total;
        int from = at + threadIdx.x * map_scan_items;
#pragma unroll
        for (int j = 0; j < map_scan_items; ++j) {
            items[j] = from + j < tiles ? count(from + j) : 0;
        }
        map_scan(scratch).ExclusiveSum(items, items, total);
#pragma unroll
        for (int j = 0; j < map_scan_items; ++j) {
            if (from + j < tiles) {
                sums[from + j] = before + items[j];
            }
        }
        before += total;
        __syncthreads();
    }
    return before;
}

// counts [volume, tiles] to where the pairs of each tile go, and pairs.begin. A block an offset,
// and one more for the end.
SPIRA_KERNEL void __launch_bounds__(map_scan_threads)
    map_scan_kernel(const __grid_constant__ map_packed packed, const int32_t *output_count,
                    int32_t output_capacity, int rows, map_pairs pairs, device_status *trouble) {
    typedef cub::BlockReduce<int, map_scan_threads> reduce;
    __shared__ union {
        typename map_scan::TempStorage scan;
        typename reduce::TempStorage reduce;
    } scratch;
    __shared__ int32_t begin;
    unsigned long long all = *packed.cursor;
    int tiles = (min(*output_count, output_capacity) + rows - 1) / rows, lower = 0;
    for (int k = threadIdx.x; k < (int)blockIdx.x; k += map_scan_threads) {
        lower += packed.totals[k];
    }
    lower = reduce(scratch.reduce).Sum(lower);
    if (threadIdx.x == 0) {
        bool fits = all <= (unsigned long long)pairs.capacity;
        begin = lower;
        pairs.begin[blockIdx.x] = fits ? lower : 0;
        if (!fits && blockIdx.x == 0) {
            device_status_raise(trouble, device_flag_capacity,
                                (uint32_t)min(all, (unsigned long long)UINT32_MAX));
        }
    }
    __syncthreads();
    tiles = blockIdx.x + 1 < gridDim.x ? tiles : 0;
    int32_t *counts = packed.counts + (int64_t)blockIdx.x * packed.tiles;
    map_scan_tiles([=](int tile) { return counts[tile]; }, tiles, begin, counts, scratch.scan);
}

// Moves the pairs of a unit to their lists.
SPIRA_KERNEL void __launch_bounds__(map_move_threads)
    map_move_kernel(const __grid_constant__ map_packed packed, int volume, int columns, int rows,
                    int pieces, map_pairs pairs) {
    __shared__ int32_t base[tile_columns_most];
    int tile = blockIdx.x / pieces, k_begin = (blockIdx.x - tile * pieces) * columns;
    int k_end = min(k_begin + columns, volume);
    unsigned long long all = *packed.cursor;
    int count = packed.unit_pairs[blockIdx.x];
    const map_entry *entry = packed.entry + packed.unit_begin[blockIdx.x];
    if (count == 0 || all > (unsigned long long)pairs.capacity) {
        return;
    }
    const int ahead = 4; // entries under way while it is found out where they go
    for (int from = threadIdx.x; from - (int)threadIdx.x < count;
         from += ahead * map_move_threads) {
        map_entry e[ahead];
#pragma unroll
        for (int j = 0; j < ahead; ++j) {
            int i = from + j * map_move_threads;
            e[j] = i < count ? entry[i] : map_entry{0, 0};
        }
        if (from == (int)threadIdx.x) {
            for (int k = k_begin + threadIdx.x; k < k_end; k += map_move_threads) {
                base[k - k_begin] = packed.counts[(int64_t)k * packed.tiles + tile];
            }
            __syncthreads();
        }
#pragma unroll
        for (int j = 0; j < ahead; ++j) {
            int k = (int)(e[j].where >> 14), row = (int)(e[j].where >> 7 & 127);
            if (from + j * map_move_threads < count) {
                int at = base[k - k_begin] + (int)(e[j].where & 127);
                pairs.input[at] = e[j].input;
                pairs.output[at] = tile * rows + row;
            }
        }
    }
}

SPIRA_API int map_pieces(triple size) {
    return (int)ceil_div((int64_t)size.x * size.y * size.z, search_tile_columns(size));
}

SPIRA_API map_packed map_packed_take(workspace *w, triple size, int32_t outputs, int32_t capacity) {
    map_packed p;
    int volume = size.x * size.y * size.z;
    p.tiles = (int32_t)ceil_div(outputs, search_tile_rows(volume));
    int64_t units = (int64_t)p.tiles * map_pieces(size);
    p.capacity = capacity;
    p.threshold = 0;
    p.cursor = workspace_take<unsigned long long>(w, 1 + (volume + 1) / 2); // and the totals
    p.totals = (int32_t *)(p.cursor + 1);
    p.entry = workspace_take<map_entry>(w, capacity);
    p.unit_begin = workspace_take<int64_t>(w, units);
    p.unit_pairs = workspace_take<int32_t>(w, units);
    p.counts = workspace_take<int32_t>(w, (int64_t)p.tiles * volume);
    return p;
}

// ---- the same, of small cubic kernels -----------------------------------------------------------

enum {
    map_part = 128,     // outputs whose pairs are moved together: a lane has four, side by side
    map_move_offsets = 4, // offsets that are moved at a time
};

// What the search finds of a part in a slab. The sources of a row of an output stand side by side.
// A far slab is searched again, when the pairs are moved.
template <int K>
struct alignas(16) map_plane_record {
    int32_t base[map_part / 32]; // of 32 outputs; of a far slab: where it begins, or before
    uint32_t bits[map_part];     // the slab's offsets that it has, K * K bits; or map_plane_far
    uint16_t from[K][map_part];  // where the sources of its row begin, from `base` on
};

enum : uint32_t { map_plane_far = 1u << 31 };

// Words of counts for the offsets of a slab.
SPIRA_BOTH constexpr int map_count_words(int K) {
    return (K * K + map_move_offsets - 1) / map_move_offsets;
}

// Where the search by planes leaves what it finds. A tile is searched by a block; a part is one, or
// two of them.
template <int K>
struct map_plane_lists {
    map_plane_record<K> *found; // [parts, planes]
    uint32_t *counts; // [planes, map_count_words(K), tiles] pairs of each tile: a byte an offset
    int32_t *before;  // [volume, parts] pairs with the offset in the parts before
    unsigned long long *begin; // [volume + 1] where the list of each offset begins, once scanned
    int32_t tiles, parts;
    uint32_t wanted[K]; // of each slab: the offsets in the lists, K * K bits
};

template <int K>
SPIRA_API map_plane_lists<K> map_plane_lists_take(workspace *w, int32_t outputs) {
    map_plane_lists<K> l = {};
    l.parts = (int32_t)ceil_div(outputs, map_part);
    l.tiles = (int32_t)ceil_div(outputs, plane_rows(K));
    l.found = workspace_take<map_plane_record<K>>(w, (int64_t)l.parts * K);
    l.counts = workspace_take<uint32_t>(w, (int64_t)l.tiles * K * map_count_words(K));
    l.before = workspace_take<int32_t>(w, (int64_t)l.parts * K * K * K);
    l.begin = workspace_take<unsigned long long>(w, K * K * K + 1);
    return l;
}

// Four bits, from number c on, to a byte each.
SPIRA_DEVICE uint32_t map_bits_to_bytes(uint32_t bits, int c) {
    return ((bits >> c & 15) * 0x00204081u) & 0x01010101u;
}

// The bits of an output in a far slab.
template <typename W, int K>
SPIRA_DEVICE uint32_t map_plane_far_bits(const search_walk<W> &walk, const search_sets<W> &sets,
                                        W output, int slab, int begin) {
    uint32_t bits = 0;
#pragma unroll 1
    for (int c = 0; c < K * K; ++c) {
        W query = plane_far_query<W, K>(walk, output, slab, c);
        bits |= plane_far_tap(sets.source, sets.count, query, &begin) >= 0 ? 1u << c : 0;
    }
    return bits;
}

// Notes where the rows of a turn begin; bits [plane_ahead(K)]: the offsets that its outputs have.
// at: the turn's first output, in the part.
template <int K>
SPIRA_DEVICE void map_plane_record_put(const plane_found<K> *row, int base, int at, int rows,
                                map_plane_record<K> *found, uint32_t *bits) {
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

// The same of so many outputs, alike: nothing is there, or all of it is far.
template <int K>
SPIRA_DEVICE void map_plane_record_fill(int at, int rows, uint32_t bits, int base,
                                    map_plane_record<K> *found) {
    for (int i = at + (int)(threadIdx.x & 31); i < at + rows; i += 32) {
        found->base[i / 32] = base;
        found->bits[i] = bits;
        for (int y = 0; y < K; ++y) {
            found->from[y][i] = 0;
        }
    }
}

// The bits of a turn without a window.
template <typename W, int K>
SPIRA_DEVICE void map_plane_find_far(const search_walk<W> &walk, const search_sets<W> &sets,
                                    const plane_search<W, K> &search, int g, uint32_t *bits) {
#pragma unroll
    for (int a = 0; a < plane_ahead(K); ++a) {
        if ((g + a) * 32 + (int)(threadIdx.x & 31) < search.queries.rows) {
            bits[a] = map_plane_far_bits<W, K>(walk, sets, search.queries.word[g + a], search.slab,
                                              search.window.begin);
        }
    }
}

// The count of a tile with an offset of a slab: one byte of counts.
template <int K>
SPIRA_DEVICE uint8_t *map_plane_count(const map_plane_lists<K> &lists, int slab, int c, int tile) {
    int64_t word = (int64_t)(slab * map_count_words(K) + c / map_move_offsets) * lists.tiles + tile;
    return (uint8_t *)(lists.counts + word) + c % map_move_offsets;
}

// Searches a slab of a tile, and notes what is there. Adds the lane's pairs to counts: a byte an
// offset of the slab.
template <typename W, int K>
SPIRA_DEVICE void map_plane_search(const search_walk<W> &walk, const search_sets<W> &sets,
                                  const plane_outputs<W, K> &queries, int slab,
                                  const map_plane_lists<K> &lists, uint32_t *buffer,
                                  uint32_t (&counts)[map_count_words(K)]) {
    const int ahead = plane_ahead(K), tile_rows = plane_rows(K), lane = threadIdx.x & 31;
    static_assert(map_part % tile_rows == 0 && tile_rows <= UINT8_MAX, "parts, and counts");
    static_assert(plane_window_words(K) <= UINT16_MAX, "from");
    const int at = queries.first % map_part; // in the part
    map_plane_record<K> *found = lists.found + ((int64_t)(queries.first / map_part) * K + slab);
    plane_search<W, K> search = plane_begin<W, K>(walk, sets, queries, slab, buffer);
    int begin = search.window.begin;
    bool far = false;
#pragma unroll
    for (int g = 0; g < tile_rows / 32; g += ahead) {
        uint32_t bits[ahead] = {};
        if (g * 32 >= queries.rows) {
            map_plane_record_fill<K>(at + g * 32, ahead * 32, 0, 0, found);
            continue;
        }
        plane_found<K> row[ahead];
        if (plane_next<W, K>(walk, sets, g, &search, row)) {
            map_plane_record_put<K>(row, search.window.begin, at + g * 32, queries.rows - g * 32, found,
                             bits);
        } else {
            map_plane_find_far<W, K>(walk, sets, search, g, bits);
            far = true;
        }
#pragma unroll
        for (int a = 0; a < ahead; ++a) {
            found->bits[at + (g + a) * 32 + lane] = bits[a];
            bits[a] &= lists.wanted[slab];
#pragma unroll
            for (int c = 0; c < map_count_words(K); ++c) {
                counts[c] += map_bits_to_bytes(bits[a], c * map_move_offsets);
            }
        }
    }
    if (far) {
        __syncwarp(); // `base` is written again, by other lanes
        map_plane_record_fill<K>(at, tile_rows, map_plane_far, begin, found);
    }
}

// Adds up and writes the counts of a slab of a tile.
template <int K>
SPIRA_DEVICE void map_plane_put_counts(const uint32_t (&counts)[map_count_words(K)],
                                          const map_plane_lists<K> &lists, int slab, int tile) {
    const int words = map_count_words(K), lane = threadIdx.x & 31;
    uint32_t mine = 0;
#pragma unroll
    for (int c = 0; c < words; ++c) {
        uint32_t sum = (uint32_t)warp_sum((int)counts[c]); // no byte passes the rows of a tile
        mine = lane == c ? sum : mine;
    }
    if (lane < words) {
        lists.counts[(int64_t)(slab * words + lane) * lists.tiles + tile] = mine;
    }
}

// Blocks of the kernel below on a multiprocessor: so many have registers, without spills.
SPIRA_BOTH constexpr int map_find_blocks_per_sm(int K, int word) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
    return K <= 3 ? 10 : 6;
#else
    return word > 4 ? (K <= 3 ? 10 : 6) : (K <= 3 ? 12 : 8);
#endif
}

// Searches, and counts the pairs of each tile.
template <typename W, int K>
SPIRA_KERNEL void __launch_bounds__(32 * K, map_find_blocks_per_sm(K, sizeof(W)))
    map_plane_find_kernel(const __grid_constant__ map_plane_task<W> task,
                         const __grid_constant__ map_plane_lists<K> lists) {
    extern __shared__ int4 map_shared[]; // [plane_windows_bytes]
    const int slab = threadIdx.x / 32;
    static_assert(K * K * K < 32 * K, "a thread for each start of a list");
    if (blockIdx.x == 0 && threadIdx.x <= K * K * K) {
        lists.begin[threadIdx.x] = 0;
    }
    search_sets<W> sets;
    plane_outputs<W, K> queries;
    if (!map_plane_begin<W, K>(task, (int)blockIdx.x, &sets, &queries)) {
        return;
    }
    uint32_t counts[map_count_words(K)] = {};
    map_plane_search<W, K>(task.walk, sets, queries, slab, lists,
                          (uint32_t *)map_shared + slab * plane_window_words(K), counts);
    map_plane_put_counts<K>(counts, lists, slab, (int)blockIdx.x);
}

// The pairs of a part with an offset of a slab.
template <int K>
SPIRA_DEVICE int map_plane_move_count(const map_plane_lists<K> &lists, int slab, int c, int part,
                                     int outputs) {
    const int split = map_part / plane_rows(K);
    int count = 0;
#pragma unroll
    for (int i = 0; i < split; ++i) {
        int tile = part * split + i;
        count += tile * plane_rows(K) < outputs ? *map_plane_count<K>(lists, slab, c, tile) : 0;
    }
    return count;
}

// before; begin. A block an offset.
template <int K>
SPIRA_KERNEL void __launch_bounds__(map_scan_threads)
    map_plane_scan_kernel(const __grid_constant__ map_plane_lists<K> lists,
                         const int32_t *output_count, int32_t output_capacity) {
    __shared__ typename map_scan::TempStorage scratch;
    const int slab = blockIdx.x / (K * K), c = blockIdx.x % (K * K);
    const int outputs = min(*output_count, output_capacity);
    int total = map_scan_tiles(
        [&](int part) { return map_plane_move_count<K>(lists, slab, c, part, outputs); },
        (int)ceil_div(outputs, map_part), 0, lists.before + (int64_t)blockIdx.x * lists.parts,
        scratch);
    for (int k = blockIdx.x + 1 + threadIdx.x; k <= (int)gridDim.x; k += map_scan_threads) {
        atomicAdd(lists.begin + k, (unsigned long long)total);
    }
}

// Where the lists of a slab begin: of lane l, that of the slab's offset l. The first block tells.
// Returns false if there are more pairs than the lists hold.
template <int K>
SPIRA_DEVICE bool map_plane_lists_begin(const map_plane_lists<K> &lists, int slab,
                                       const map_pairs &pairs, device_status *trouble, int *begin) {
    int lane = threadIdx.x & 31;
    unsigned long long all = lists.begin[K * K * K];
    bool fits = all <= (unsigned long long)pairs.capacity;
    *begin = lane < K * K ? (int)lists.begin[slab * K * K + lane] : 0;
    if (blockIdx.x == 0 && lane < K * K) {
        pairs.begin[slab * K * K + lane] = fits ? *begin : 0;
    }
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        pairs.begin[K * K * K] = fits ? (int)all : 0;
        if (!fits) {
            device_status_raise(trouble, device_flag_capacity,
                                (uint32_t)min(all, (unsigned long long)UINT32_MAX));
        }
    }
    return fits;
}

// Appends the pairs of 32 outputs with one offset to its list; returns where the next ones go.
SPIRA_DEVICE int map_plane_append(const map_pairs &pairs, int at, bool has, int input, int output) {
    uint32_t all = __ballot_sync(~0u, has);
    if (has) {
        int mine = at + __popc(all & ((1u << (threadIdx.x & 31)) - 1));
        pairs.input[mine] = input;
        pairs.output[mine] = output;
    }
    return at + __popc(all);
}

// A far slab of a part: searched once more. begin: where its members begin, or before.
template <typename W, int K>
SPIRA_DEVICE void map_plane_move_far(const search_walk<W> &walk, const search_sets<W> &sets,
                                    uint32_t wanted, int first, int slab, int base, int begin,
                                    const map_pairs &pairs) {
    const int groups = map_part / 32, lane = threadIdx.x & 31;
#pragma unroll 1
    for (int c = 0; c < K * K; ++c) {
        int at = __shfl_sync(~0u, base, c);
#pragma unroll 1
        for (int g = 0; g < groups && (wanted >> c & 1); ++g) {
            int output = first + g * 32 + lane, from = begin, tap = -1;
            if (output < sets.total) {
                W query = plane_far_query<W, K>(walk, sets.outputs[output], slab, c);
                tap = plane_far_tap(sets.source, sets.count, query, &from);
            }
            at = map_plane_append(pairs, at, tap >= 0, tap, output);
        }
    }
}

static_assert(map_part == 4 * 32, "a lane has four outputs");
static_assert(map_part <= UINT8_MAX && map_move_offsets == 4, "ranks are bytes of a word");

// What a lane has of a part in a slab: four outputs.
template <int K>
struct map_plane_four {
    uint32_t bits[4];
    uint2 from[K]; // 16 bits an output
    int base;
};

// Reads that are begun in the order in which they are written, and not put off for the sake of
// registers: so all of them are under way before the first is waited for.
SPIRA_DEVICE uint32_t map_read(const void *from) {
    uint32_t v;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];"
                 : "=r"(v)
                 : "l"(__cvta_generic_to_global(from)));
    return v;
}

SPIRA_DEVICE uint2 map_read_2(const void *from) {
    uint2 v;
    asm volatile("ld.relaxed.gpu.global.v2.u32 {%0, %1}, [%2];"
                 : "=r"(v.x), "=r"(v.y)
                 : "l"(__cvta_generic_to_global(from)));
    return v;
}

SPIRA_DEVICE uint4 map_read_4(const void *from) {
    uint4 v;
    asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(__cvta_generic_to_global(from)));
    return v;
}

template <int K>
SPIRA_DEVICE map_plane_four<K> map_plane_fetch(const map_plane_record<K> *found) {
    const int lane = threadIdx.x & 31;
    map_plane_four<K> four;
    uint4 bits = map_read_4((const uint4 *)found->bits + lane);
    four.bits[0] = bits.x, four.bits[1] = bits.y, four.bits[2] = bits.z, four.bits[3] = bits.w;
#pragma unroll
    for (int y = 0; y < K; ++y) {
        four.from[y] = map_read_2((const uint2 *)found->from[y] + lane);
    }
    four.base = (int)map_read(found->base + lane / 8);
    return four;
}

// Some of the pairs of a slab of a part, in shared memory.
template <int K>
struct alignas(16) map_plane_stage {
    int2 pair[map_move_offsets][map_part]; // (input, output), offset by offset, outputs ascending
    int2 list[K * K];                    // where those of each offset go, and how many they are
};

// Adds what the lane `step` below has, if there is one.
template <int step>
SPIRA_DEVICE uint32_t map_add_below(uint32_t sum) {
    asm volatile("{ .reg .pred there; .reg .b32 below;\n"
                 "shfl.sync.up.b32 below|there, %0, %1, 0, -1;\n"
                 "@there add.u32 %0, %0, below; }"
                 : "+r"(sum)
                 : "n"(step));
    return sum;
}

// Stages a pair `place` bytes behind `to`, if the bit is set; then the next one has the next input.
template <int bit, int place>
SPIRA_DEVICE void map_plane_stage_pair(uint32_t bits, int2 *next, uint32_t to) {
    asm volatile("{ .reg .pred has; .reg .b32 one;\n"
                 "and.b32 one, %2, %4;\n"
                 "setp.ne.u32 has, one, 0;\n"
                 "@has st.shared.v2.s32 [%3 + %5], {%0, %1};\n"
                 "@has add.s32 %0, %0, 1; }"
                 : "+r"(next->x)
                 : "r"(next->y), "r"(bits), "r"(to), "n"(1 << bit), "n"(place)
                 : "memory");
}

// Stages the pairs of output number a of the lane with the slab's offsets c + j, ...; next: its
// next pair. rank: byte j is how many pairs with offset c + j stand before it.
template <int K, int c, int a, int j = 0>
SPIRA_DEVICE void map_plane_stage_output(const map_plane_four<K> &four, uint32_t rank, int2 *next,
                                        uint32_t to) {
    if constexpr (j < map_move_offsets && c + j < K * K) {
        if constexpr ((c + j) % K == 0) {
            uint32_t two = a < 2 ? four.from[(c + j) / K].x : four.from[(c + j) / K].y;
            next->x = four.base + (int)(a % 2 ? two >> 16 : two & UINT16_MAX);
        }
        uint32_t at = __dp4a(rank, (uint32_t)sizeof(int2) << 8 * j, to); // of byte j alone
        const int place = j * map_part * (int)sizeof(int2);
        map_plane_stage_pair<c + j, place>(four.bits[a], next, at);
        map_plane_stage_output<K, c, a, j + 1>(four, rank, next, to);
    }
}

// Stages the pairs with the slab's offsets from c on. next [4]: of each of the lane's outputs, its
// next pair. to: the shared address of the stage.
template <int K, int c>
SPIRA_DEVICE void map_plane_spread(const map_plane_four<K> &four, int2 *next, uint32_t to) {
    uint32_t own[4], all = 0;
#pragma unroll
    for (int a = 0; a < 4; ++a) {
        own[a] = map_bits_to_bytes(four.bits[a], c);
        all += own[a];
    }
    uint32_t rank = map_add_below<1>(all);
    rank = map_add_below<2>(rank);
    rank = map_add_below<4>(rank);
    rank = map_add_below<8>(rank);
    rank = map_add_below<16>(rank) - all;
    map_plane_stage_output<K, c, 0>(four, rank, next, to);
    map_plane_stage_output<K, c, 1>(four, rank += own[0], next + 1, to);
    map_plane_stage_output<K, c, 2>(four, rank += own[1], next + 2, to);
    map_plane_stage_output<K, c, 3>(four, rank += own[2], next + 3, to);
}

// Where `there`; without a branch, which would be longer.
SPIRA_DEVICE void map_plane_store(int32_t *to, int v, bool there) {
    asm volatile("{ .reg .pred there;\n"
                 "setp.ne.u32 there, %2, 0;\n"
                 "@there st.global.s32 [%0], %1; }" ::"l"(to),
                 "r"(v), "r"((uint32_t)there)
                 : "memory");
}

// The staged pairs, of the slab's offsets from c on, to their lists, 32 of each at a time: from
// number `from` on.
template <int K, int c, int from = 0>
SPIRA_DEVICE void map_plane_drain(const map_plane_stage<K> &stage, const map_pairs &pairs) {
    const int number = from + (int)(threadIdx.x & 31);
    int2 pair[map_move_offsets], list[map_move_offsets] = {};
    int most = 0;
#pragma unroll
    for (int j = 0; j < map_move_offsets && c + j < K * K; ++j) {
        pair[j] = stage.pair[j][number];
        list[j] = stage.list[c + j];
        most = max(most, list[j].y);
    }
#pragma unroll
    for (int j = 0; j < map_move_offsets && c + j < K * K; ++j) {
        map_plane_store(pairs.input + (list[j].x + number), pair[j].x, number < list[j].y);
    }
#pragma unroll
    for (int j = 0; j < map_move_offsets && c + j < K * K; ++j) {
        map_plane_store(pairs.output + (list[j].x + number), pair[j].y, number < list[j].y);
    }
    if constexpr (from + 32 < map_part) {
        if (most > from + 32) {
            map_plane_drain<K, c, from + 32>(stage, pairs);
        }
    }
}

// Moves the pairs of a slab of a part to their lists, from offset c on. next, to: as
// map_plane_spread has them.
template <int K, int c = 0>
SPIRA_DEVICE void map_plane_move(const map_plane_four<K> &four, const map_plane_stage<K> &stage,
                                int2 *next, uint32_t to, const map_pairs &pairs) {
    map_plane_spread<K, c>(four, next, to);
    __syncwarp();
    map_plane_drain<K, c>(stage, pairs);
    __syncwarp();
    if constexpr (c + map_move_offsets < K * K) {
        map_plane_move<K, c + map_move_offsets>(four, stage, next, to, pairs);
    }
}

// Moves the pairs of a slab of a part to their lists. Of lane l: where those with the slab's offset
// l go, and how many they are.
template <typename W, int K>
SPIRA_DEVICE void map_plane_move_tile(const map_plane_task<W> &task, const map_plane_lists<K> &lists,
                                     int part, int slab, const map_plane_four<K> &four, int begin,
                                     int count, const map_pairs &pairs, map_plane_stage<K> *stage) {
    const int first = part * map_part, lane = threadIdx.x & 31;
    if (__any_sync(~0u, four.bits[0] == map_plane_far)) {
        search_sets<W> sets = {task.source, task.outputs,
                               min(*task.source_count, task.source_capacity),
                               min(*task.output_count, task.output_capacity)};
        int base = lists.found[(int64_t)part * K + slab].base[0];
        map_plane_move_far<W, K>(task.walk, sets, lists.wanted[slab], first, slab, begin, base,
                                pairs);
        return;
    }
    if (lane < K * K) {
        stage->list[lane] = {begin, count};
    }
    int2 next[4];
#pragma unroll
    for (int a = 0; a < 4; ++a) {
        next[a] = {0, first + lane * 4 + a};
    }
    map_plane_move<K>(four, *stage, next, shared_address(stage->pair), pairs);
}

// Blocks of the kernel below on a multiprocessor: so many have registers, without spills.
SPIRA_BOTH constexpr int map_move_blocks_per_sm(int K) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
    return K <= 3 ? 10 : 6; // 1024 threads
#else
    return K <= 3 ? 12 : 7;
#endif
}

// Moves the pairs of a part to their lists: a warp a slab. All reads are under way before the first
// pairs are staged.
template <typename W, int K>
SPIRA_KERNEL void __launch_bounds__(32 * K, map_move_blocks_per_sm(K))
    map_plane_move_kernel(const __grid_constant__ map_plane_task<W> task,
                         const __grid_constant__ map_plane_lists<K> lists,
                         const __grid_constant__ map_pairs pairs, device_status *trouble) {
    __shared__ map_plane_stage<K> stages[K];
    const int part = blockIdx.x, first = part * map_part;
    const int slab = threadIdx.x / 32, lane = threadIdx.x & 31;
    const map_plane_record<K> *found = lists.found + ((int64_t)part * K + slab);
    const int total = min(*task.output_count, task.output_capacity);
    const bool some = first < total && lists.wanted[slab];
    map_plane_four<K> four = {};
    int begin, before = 0, count = 0;
    if (!some && part) {
        return;
    }
    if (some && first + (lane * 4 & -plane_rows(K)) < total) { // the tile of its outputs
        four = map_plane_fetch<K>(found);
    }
    if (some && lane < K * K) {
        before = lists.before[(int64_t)(slab * K * K + lane) * lists.parts + part];
        count = map_plane_move_count<K>(lists, slab, lane, part, total);
    }
    if (!map_plane_lists_begin<K>(lists, slab, pairs, trouble, &begin) || !some) {
        return;
    }
    map_plane_move_tile<W, K>(task, lists, part, slab, four, begin + before, count, pairs,
                             stages + slab);
}

// The offsets of each slab that are in the lists.
SPIRA_API void map_plane_wanted(const kernel_shape *kernel, const map_forms *forms, uint32_t *wanted) {
    int plane = kernel->size.y * kernel->size.z;
    for (int slab = 0; slab < kernel->size.x; ++slab) {
        wanted[slab] = 0;
        for (int c = 0; c < plane; ++c) {
            bool have = map_pairs_have(kernel, forms->threshold, forms->half, slab * plane + c);
            wanted[slab] |= have ? 1u << c : 0;
        }
    }
}

template <typename W, int K>
SPIRA_API void map_plane_pairs_launch(const word_layout *layout, const kernel_shape *kernel,
                                     const voxel_set<W> *source, const voxel_set<W> *outputs,
                                     const map_forms *forms, const map_pairs *pairs,
                                     device_status *trouble, void *scratch, cudaStream_t stream) {
    workspace w = workspace_begin(scratch);
    map_plane_lists<K> lists = map_plane_lists_take<K>(&w, outputs->capacity);
    map_plane_wanted(kernel, forms, lists.wanted);
    map_plane_task<W> task =
        map_plane_task_make(layout, kernel, source, outputs, 0, nullptr, nullptr);
    map_plane_find_kernel<W, K>
        <<<(unsigned)lists.tiles, 32 * K, (size_t)plane_windows_bytes(K, K), stream>>>(task, lists);
    map_plane_scan_kernel<K>
        <<<K * K * K, map_scan_threads, 0, stream>>>(lists, outputs->count, outputs->capacity);
    map_plane_move_kernel<W, K>
        <<<(unsigned)lists.parts, 32 * K, 0, stream>>>(task, lists, *pairs, trouble);
}

// Bytes of scratch for map_build_pairs: `outputs` is the capacity of the output set, `pairs` that
// of the lists.
SPIRA_API status map_pairs_workspace(const kernel_shape *kernel, int32_t outputs, int32_t pairs,
                                     size_t *bytes) {
    SPIRA_TRY(kernel_check(kernel));
    SPIRA_REQUIRE(bytes, status_null_pointer, "bytes", 0);
    SPIRA_REQUIRE(outputs >= 1 && outputs <= INT32_MAX / 2, status_bad_size, "outputs", outputs);
    SPIRA_REQUIRE(pairs >= 1 && pairs <= INT32_MAX / 2, status_bad_size, "pairs", pairs);
    workspace w = workspace_begin(nullptr), planes = w;
    map_packed_take(&w, kernel->size, outputs, pairs);
    if (compact_takes(kernel) && kernel->size.x == 3) {
        map_plane_lists_take<3>(&planes, outputs);
    } else if (compact_takes(kernel)) {
        map_plane_lists_take<5>(&planes, outputs);
    }
    *bytes = max_of(w.used, planes.used);
    return status_success();
}

// Builds the filtered weight-stationary form, or with forms->os and a threshold the hybrid one.
//
// inputs   as map_build_forms; forms may be null: no other form, and all offsets in the lists
// outputs  pairs: the offsets with a norm of forms->threshold or more (with 0, all of them; of a half
//          map, those below the centre): for each the list of its pairs, outputs ascending. Other
//          offsets, and those without pairs, have empty lists
//          forms: as map_build_forms
//          trouble: more pairs than pairs.capacity are recorded, and all lists are empty then
// errors   as map_build_forms, and a workspace that is too small
// Asynchronous, deterministic, equal to map_build_pairs_host.
// cost     the search, writing 8 bytes a pair and reading them (lists alone, where compact_takes the
//          kernel: 4 + 2 K bytes a slab of each output), writing 8 bytes a pair; three launches,
//          and but for those kernels a memset
template <typename W>
SPIRA_API status map_build_pairs(const word_layout *layout, const kernel_shape *kernel,
                                 voxel_set<W> source, voxel_set<W> outputs, const map_forms *forms,
                                 map_pairs pairs, device_status *trouble, void *scratch,
                                 size_t scratch_bytes, cudaStream_t stream) {
    map_forms none = {nullptr, nullptr, nullptr, nullptr, 0, false, {}, nullptr, nullptr};
    const map_forms *f = forms ? forms : &none;
    SPIRA_TRY(map_pairs_check(&pairs, trouble));
    SPIRA_TRY(map_pairs_forms_check(f));
    SPIRA_TRY(map_forms_check(layout, kernel, &source, &outputs, f));
    size_t needed;
    SPIRA_TRY(map_pairs_workspace(kernel, outputs.capacity, pairs.capacity, &needed));
    SPIRA_TRY(workspace_check(scratch, scratch_bytes, needed));
    if (compact_takes(kernel) && !f->os && !f->ws && !f->mask && !f->mask_any) {
        auto launch =
            kernel->size.x == 3 ? map_plane_pairs_launch<W, 3> : map_plane_pairs_launch<W, 5>;
        launch(layout, kernel, &source, &outputs, f, &pairs, trouble, scratch, stream);
        return status_of_launch("map_build_pairs");
    }
    workspace w = workspace_begin(scratch);
    map_packed packed = map_packed_take(&w, kernel->size, outputs.capacity, pairs.capacity);
    packed.threshold = f->threshold;
    map_task<W> task = map_task_make(layout, kernel, &source, &outputs, f, 0, true);
    int volume = task.walk.volume, rows = task.shape.rows, pieces = map_pieces(kernel->size);
    int64_t units = (int64_t)packed.tiles * pieces;
    SPIRA_TRY(status_from_cuda(
        cudaMemsetAsync(packed.cursor, 0,
                        sizeof *packed.cursor + (size_t)task.walk.volume * sizeof *packed.totals,
                        stream),
        "pairs"));
    map_pack_kernel<W><<<(unsigned)packed.tiles, search_threads,
                         (size_t)search_block_bytes(task.shape), stream>>>(task, packed);
    map_scan_kernel<<<(unsigned)volume + 1, map_scan_threads, 0, stream>>>(
        packed, outputs.count, outputs.capacity, rows, pairs, trouble);
    map_move_kernel<<<(unsigned)units, map_move_threads, 0, stream>>>(
        packed, volume, search_tile_columns(kernel->size), rows, pieces, pairs);
    return status_of_launch("map_build_pairs");
}

enum { map_count_threads = 256, map_count_rows = 512 };

SPIRA_KERNEL void __launch_bounds__(map_count_threads)
    map_count_kernel(const int32_t *__restrict__ map, int volume, const int32_t *count,
                     int32_t capacity, int32_t *pairs) {
    extern __shared__ int32_t map_pairs[]; // [volume]
    int64_t first = (int64_t)blockIdx.x * map_count_rows;
    int64_t last = min_of(first + map_count_rows, min_of(*count, capacity));
    if (first >= last) {
        return;
    }
    for (int k = threadIdx.x; k < volume; k += blockDim.x) {
        map_pairs[k] = 0;
    }
    __syncthreads();
    for (int64_t i = first * volume + threadIdx.x; i < last * volume; i += blockDim.x) {
        if (map[i] >= 0) {
            atomicAdd(&map_pairs[i % volume], 1);
        }
    }
    __syncthreads();
    for (int k = threadIdx.x; k < volume; k += blockDim.x) {
        atomicAdd(&pairs[k], map_pairs[k]);
    }
}

// How many pairs each offset has.
//
// inputs   map [capacity, volume]; count [1]: rows that are read
// outputs  pairs [volume]
// Asynchronous, deterministic.
SPIRA_API status map_count(const int32_t *map, int volume, const int32_t *count, int32_t capacity,
                           int32_t *pairs, cudaStream_t stream) {
    SPIRA_REQUIRE(map, status_null_pointer, "map", 0);
    SPIRA_REQUIRE(count, status_null_pointer, "count", 0);
    SPIRA_REQUIRE(pairs, status_null_pointer, "pairs", 0);
    SPIRA_REQUIRE(volume >= 1 && volume <= kernel_volume_max, status_bad_size, "volume", volume);
    SPIRA_REQUIRE(capacity >= 1, status_bad_size, "capacity", capacity);
    size_t bytes = (size_t)volume * sizeof(int32_t);
    SPIRA_TRY(status_from_cuda(cudaMemsetAsync(pairs, 0, bytes, stream), "pairs"));
    map_count_kernel<<<(unsigned)ceil_div(capacity, map_count_rows), map_count_threads, bytes,
                       stream>>>(map, volume, count, capacity, pairs);
    return status_of_launch("map_count");
}

} // namespace spira

#endif
