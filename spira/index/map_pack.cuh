// spira/index/map_pack.cuh: packs the pairs of a searched tile, the first step towards pair lists.
//
// map_lists.cuh says how lists are built for kernels of any size.
#ifndef SPIRA_INDEX_MAP_PACK_CUH
#define SPIRA_INDEX_MAP_PACK_CUH

#include "../base/async.cuh"
#include "../search.cuh"

namespace spira {

// A pair as the search packs it. rank: its number among the pairs of its tile and offset.
struct map_entry {
    int32_t input;
    uint32_t where; // offset << 14 | output row in the tile << 7 | rank
};

// Where the search leaves the pairs. A unit is a tile, or the pass of one if the kernel is searched
// in several.
struct map_packed {
    map_entry *entry;           // [capacity] unit after unit; the units are in any order
    int64_t *unit_begin;        // [units]
    int32_t *unit_pairs;        // [units]
    int32_t *counts;            // [volume, tiles] pairs; after the scan, list positions
    unsigned long long *cursor; // [1] pairs so far; 0 before the search
    int32_t *totals;            // [volume] pairs of each offset; right behind the cursor
    int32_t capacity;
    int32_t tiles;
    int threshold; // offsets with a smaller norm are not in the lists
};

// The L1 norm of offset k: kernel_norm with fewer registers.
SPIRA_DEVICE int map_norm(triple size, int k) {
    int row = k / size.z;
    int x = row / size.y + kernel_first(size.x), y = row % size.y + kernel_first(size.y);
    int z = k - row * size.z + kernel_first(size.z);
    return abs(x) + abs(y) + abs(z);
}

enum {
    map_columns_most = 256,                 // offsets of a tile of the search
    map_words_most = search_pass_taps / 32, // words of its masks
};

// A tile's taps as bits, by rows and by columns.
struct map_bits {
    uint32_t row[map_words_most];    // [words, groups, 32]: the columns 32 w .. that a row has
    uint32_t column[map_words_most]; // [groups, 32 words]: the rows that have a column
};

// Fills both sets of bits for the columns k with wanted(k). A warp takes 32 rows and 32 columns at
// a time. It reads past the last column, into the next row or search_tile_slack, and discards what
// it finds there.
template <typename Wanted>
SPIRA_DEVICE void map_find_bits(const search_tile &tile, Wanted wanted, map_bits *bits) {
    int lane = threadIdx.x & 31, columns = tile.k_end - tile.k_begin;
    int words = (columns + 31) / 32, groups = (tile.rows + 31) / 32;
    for (int i = threadIdx.x / 32; i < words * groups; i += search_threads / 32) {
        int word = i / groups, group = i - word * groups, row = group * 32 + lane;
        int mine = word * 32 + lane; // the column of this lane
        bool take = mine < columns && wanted(tile.k_begin + mine);
        uint32_t has = 0, rows = 0;
        const int32_t *taps = tile.taps + row * tile.pitch + word * 32;
#pragma unroll
        for (int c = 0; c < 32; ++c) {
            bool hit = taps[c] >= 0; // rows past the last have none
            uint32_t all = __ballot_sync(~0u, hit);
            has |= hit ? 1u << c : 0;
            rows = lane == c ? all : rows;
        }
        bits->row[i * 32 + lane] = has & __ballot_sync(~0u, take);
        bits->column[group * (words * 32) + mine] = take ? rows : 0;
    }
}

// Shared memory of a block that packs a tile.
struct map_tile_bits {
    map_bits has;
    int32_t before[map_words_most];  // [groups, 32 words]: pairs in lower groups of rows
    int32_t first[map_columns_most]; // first pair of each column, in the tile
    int64_t begin;                   // first pair of the tile, in `entry`
    int32_t total;
};

// Counts the pairs of each column, in the tile and below each group of 32 rows.
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

// Turns the counts in `first` into their prefix sums, and sets `total`. Called by one warp.
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

// Packs the pairs of a tile, offset after offset, and counts them. stage [staged]: shared memory.
// Pairs that fit are ordered there first, so that global memory is written in whole lines.
SPIRA_DEVICE void map_write_packed(const search_tile &tile, triple size, int searched, int unit,
                                   int tile_number, const map_packed &out, map_entry *stage,
                                   int staged) {
    __shared__ map_tile_bits bits;
    int columns = tile.k_end - tile.k_begin;
    int words = (columns + 31) / 32, groups = (tile.rows + 31) / 32;
    const int threshold = out.threshold;
    map_find_bits(
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

} // namespace spira

#endif
