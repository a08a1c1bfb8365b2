// spira/conv/hopper.cuh: convolution on Hopper's warpgroup instructions (sm_90a).
//
// Reads the ordered layout (layout/order.h): outputs with like taps stand side by side, in blocks
// of 64. A thread block owns a tile, two of those blocks, for a slice of the output channels. Each
// block of
// outputs has a warpgroup, with up to 64 channels both have one, which keeps its sums in registers
// from the first offset to the epilogue and multiplies for the offsets that its blocks have.
// Further warps fetch into a ring of stages: the source rows of both blocks by asynchronous copies,
// the weights by the copy engine. They are eight, two for a stage, or four, a stage each in turn.
// Two sources are read as one, the channels of the second behind those of the first. A stage has 64
// of the channels of an offset, 128 bytes of each row; with 65 to 96 output channels it has 96
// where that leaves fewer empty: 128 bytes, and 64 bytes behind them. Fetching runs ahead over the
// borders of the tiles, and the weights of all stages of the ring come while the kernel before
// still ends. Thread blocks stay and take tiles in turns. Where registers allow, two sets of
// warpgroups take the tiles of a thread block in turns: one multiplies while the other finishes its
// outputs. Where there are few tiles, two thread blocks, a cluster, share the offsets of a tile:
// each hands the other its sums of half of the channels, and finishes the other half.
//
// A shortcut (conv_shortcut) is multiplied behind the offsets of a tile as if it were one more:
// its rows are those of the outputs, its stages, of 64 channels, come last. As the two have scales
// of their own, the sums are multiplied in between by what the first scale is to the second, which
// the epilogue then applies to both.
#ifndef SPIRA_CONV_HOPPER_CUH
#define SPIRA_CONV_HOPPER_CUH

#include "../base/async.cuh"
#include "../base/launch.cuh"
#include "../base/wgmma.cuh"
#include "tile.cuh"

namespace spira {

enum {
    hopper_group = 128, // threads of a warpgroup
    hopper_blocks = 2,  // row blocks of a tile
    hopper_teams = 4,   // of warps that fetch
    hopper_columns_most = 256,
    hopper_stages_most = 8,
    hopper_volume_most = 1024, // offsets: a lane has 32
    hopper_group_bytes = wgmma_rows * wgmma_row_most,
};

// ---- parts and weights --------------------------------------------------------------------------

// Bytes of a part of a row, which a stage has. Two offsets share a stage of halves; that of a long
// part is two regions: of rows of 128 bytes, and behind it of their last 64 bytes.
enum { hopper_part_half = 64, hopper_part_whole = wgmma_row_most, hopper_part_long = 192 };

// Whose thread blocks have room for stages of long parts.
enum { hopper_long_columns = 96 };

// Offsets of a stage.
SPIRA_BOTH constexpr int hopper_slots(int part) {
    return part < hopper_part_whole ? hopper_part_whole / part : 1;
}

// Bytes of a row of the region that has a part's bytes from `begin` on, as a power of two.
SPIRA_BOTH constexpr int hopper_region_log(int part, int begin) {
    return part - begin < hopper_part_whole ? wgmma_row_log_most - 1 : wgmma_row_log_most;
}

// Pieces of 16 bytes of a source's channels. Those of the second source follow the first one's.
SPIRA_BOTH int hopper_pieces(int channels) {
    return (int)((uint32_t)(channels * 2 + conv_lane_bytes - 1) / conv_lane_bytes);
}

// Bytes of a row of both sources.
SPIRA_BOTH int hopper_row_bytes(const conv_shape *s) {
    return (hopper_pieces(s->cin) + hopper_pieces(s->cin2)) * conv_lane_bytes;
}

// Bytes of a part, by the shape alone, since weights are packed for it: what leaves fewest channels
// empty and, of the same, whole parts, of which more stages fit.
SPIRA_BOTH int hopper_part_bytes(const conv_shape *s) {
    const int64_t bytes = hopper_row_bytes(s);
    if (bytes <= hopper_part_half && s->cout <= 64) {
        return hopper_part_half;
    }
    const bool room = round_up(s->cout, 32) == hopper_long_columns;
    return room && round_up(bytes, hopper_part_long) < round_up(bytes, hopper_part_whole)
               ? hopper_part_long
               : hopper_part_whole;
}

// Parts of a row.
SPIRA_BOTH int hopper_parts(const conv_shape *s) {
    return (int)ceil_div(hopper_row_bytes(s), hopper_part_bytes(s));
}

// What is computed with a shortcut: stages of halves have two offsets, and no place for its parts.
SPIRA_BOTH bool hopper_takes_shortcut(const conv_shape *s) {
    return hopper_part_bytes(s) >= hopper_part_whole;
}

// Whether the second source has a piece, which becomes its number there.
SPIRA_BOTH bool hopper_piece_second(int cin, int &piece) {
    const bool second = piece >= hopper_pieces(cin);
    piece -= second ? hopper_pieces(cin) : 0;
    return second;
}

// Output channels of the packed weights.
SPIRA_BOTH int hopper_couts(int cout) {
    return (int)round_up(cout, 16);
}

// Packed weights [volume, parts of a row, regions of a part, hopper_couts, bytes of a region's row]
// in pieces of 16 bytes, as they stand in shared memory (wgmma_place). Channels beyond the ends are
// zero. part: bytes of a part, which a shortcut has in whole ones.
SPIRA_API int64_t hopper_weights(const conv_shape *s, int part) {
    return (int64_t)s->volume * ceil_div(hopper_row_bytes(s), part) * hopper_couts(s->cout) *
           (part / conv_lane_bytes);
}

template <typename E>
SPIRA_KERNEL void __launch_bounds__(256)
    hopper_pack_kernel(conv_shape s, int part, const float *__restrict__ weight, int64_t total,
                       E *__restrict__ packed) {
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= total) {
        return;
    }
    const int couts = hopper_couts(s.cout), parts = (int)ceil_div(hopper_row_bytes(&s), part);
    const int pieces = part / conv_lane_bytes;
    int64_t image = i / pieces / couts, k = image / parts; // of a part
    int at = (int)(i - image * couts * pieces);
    const int begin = at * conv_lane_bytes < couts * hopper_part_whole ? 0 : hopper_part_whole;
    const int log = hopper_region_log(part, begin), lanes = (1 << log) / conv_lane_bytes;
    at -= couts * begin / conv_lane_bytes;
    int out = at / lanes;
    int piece = (int)(image % parts) * pieces + begin / conv_lane_bytes + at % lanes;
    bool second = hopper_piece_second(s.cin, piece);
    E *to = packed + (image * part + begin) * couts / 2 +
            wgmma_place((uint32_t)(at * conv_lane_bytes), log) / 2;
    for (int e = 0; e < 8; ++e) {
        int channel = piece * 8 + e;
        bool inside = channel < (second ? s.cin2 : s.cin) && out < s.cout;
        int64_t from = (k * (s.cin + s.cin2) + (second ? s.cin : 0) + channel) * s.cout + out;
        to[e] = element_from_float<E>(inside ? weight[from] : 0.0f);
    }
}

// ---- what a thread block shares -----------------------------------------------------------------

// What is told of a stage: the steps that each row block has pairs for, and whether it is its
// tile's last.
enum { hopper_steps = 4, hopper_last = 1 << hopper_steps * hopper_blocks };

struct hopper_shared {
    uint64_t full[hopper_stages_most], empty[hopper_stages_most];
    uint64_t turn[2][hopper_blocks];   // of the sets of warpgroups
    uint64_t ready[hopper_blocks];     // sums of the other thread block are there,
    uint64_t taken[hopper_blocks];     // own sums are taken there
    uint32_t begins[2][hopper_blocks]; // where in the ring: hopper_turn_pass
    uint32_t told[hopper_stages_most];
    alignas(16) float scale[2 * hopper_columns_most]; // of the slice's channels, then their shifts
    float ratio[hopper_columns_most];                 // with one: see hopper_shortcut_vectors
};

// Bytes of a stage, or of a region of one: of each of the row blocks, and of the weights. row:
// bytes of a row, of all offsets that share the stage.
SPIRA_BOTH constexpr int hopper_stage_bytes(int columns, int row) {
    return (hopper_blocks * wgmma_rows + columns) * row;
}

// Thread blocks of a multiprocessor at a time. tiles: conv_sizes.
SPIRA_BOTH constexpr int hopper_resident(int columns, int tiles) {
    return columns <= 64 && tiles == 1 ? 2 : 1;
}

// Whether a part may be half a stage: see hopper_part_bytes.
SPIRA_BOTH constexpr bool hopper_halves(int columns) {
    return columns <= 64;
}

// Sets of warpgroups that take tiles in turns, so that one finishes its outputs while the other one
// multiplies: what registers allow. Not where thread blocks share a tile. With 64 columns there are
// either two thread blocks or, where each would have one tile, one with two sets: the tile that has
// most offsets then has all of the ring.
SPIRA_BOTH constexpr int hopper_sets(int columns, int split, int tiles) {
    return columns <= 64 ? tiles : columns <= 128 && split == 1 ? 2 : 1;
}

// Row blocks of a warpgroup that multiplies: what it does for a stage besides is the same for both.
SPIRA_BOTH constexpr int hopper_each(int columns, int split) {
    return columns <= 64 && split == 1 ? 2 : 1;
}

// Warps that fill a stage together, each of them for as many row blocks. A warp begins a copy every
// 32 cycles at best, so there are as many as registers allow: wgmma of 128 columns asks for 90, and
// with two sets no more than four warps leave them.
SPIRA_BOTH constexpr int hopper_team(int columns, int split) {
    return columns <= 96 || (columns == 128 && split > 1) ? 2 : 1;
}

// Threads that multiply, and that fetch.
SPIRA_BOTH constexpr int hopper_multipliers(int columns, int split, int tiles) {
    return hopper_sets(columns, split, tiles) * hopper_blocks / hopper_each(columns, split) *
           hopper_group;
}

SPIRA_BOTH constexpr int hopper_fetchers(int columns, int split) {
    return hopper_teams * hopper_team(columns, split) * 32;
}

SPIRA_BOTH constexpr int hopper_threads(int columns, int split, int tiles) {
    return hopper_multipliers(columns, split, tiles) + hopper_fetchers(columns, split);
}

// Registers of a thread that fetches, and of one that multiplies, where they share out the 80 that
// each begins with, with 256 columns 168.
SPIRA_BOTH constexpr bool hopper_registers_shared(int columns, int split, int tiles) {
    return split == 1 ? columns == 96 || (columns <= 64 && tiles == 1) : columns == 256;
}

SPIRA_BOTH constexpr int hopper_registers_fetch(int columns) {
    return columns <= 64 ? 56 : columns <= 96 ? 48 : 88;
}

SPIRA_BOTH constexpr int hopper_registers_multiply(int columns) {
    return columns <= 64 ? 128 : columns <= 96 ? 96 : 208;
}

static_assert(2 * hopper_registers_fetch(64) + hopper_registers_multiply(64) == 3 * 80,
              "two warps that fetch for one that multiplies");
static_assert(hopper_registers_fetch(96) + 2 * hopper_registers_multiply(96) == 3 * 80,
              "one for two");
static_assert(hopper_registers_fetch(256) + 2 * hopper_registers_multiply(256) == 3 * 168,
              "one for two");

// Of how many pairs of blocks of 8 channels a thread reads the residual at a time, as registers
// allow: each time it waits for it. columns: that it finishes.
SPIRA_BOTH constexpr int hopper_extras(int columns, int split) {
    return split > 1 || columns <= 96 ? columns / 16 : 2;
}

// And how many it reads before the sums, all of which a thread has room for up to 64 channels.
SPIRA_BOTH constexpr int hopper_extras_ahead(int columns, int split, bool residual) {
    return !residual                    ? 0
           : columns == 32 && split > 1 ? 1
           : columns <= 64              ? columns / 16
           : split > 1                  ? 0
           : columns <= 96              ? 5
                                        : 1;
}

// Bytes behind the stages that read as zeros, where a warpgroup has steps that a row block or an
// offset has no part in.
SPIRA_BOTH int hopper_zeros(int columns, int split) {
    const int rows = (int)max_of(hopper_each(columns, split) * wgmma_rows, columns);
    return hopper_halves(columns) ? rows * wgmma_row_most / 2 : 0;
}

// Sums that a thread is handed in a round, of the columns / 4 that it gets in all, and their bytes
// for a warpgroup. A round waits for a way to the other thread block and back, so there are as few
// as leave room for four stages.
SPIRA_BOTH constexpr int hopper_round_floats(int columns) {
    return columns < 128 ? columns / 8 : columns == 128 ? columns / 4 : 24;
}

SPIRA_BOTH int hopper_handed(int columns) {
    return hopper_group * hopper_round_floats(columns) * (int)sizeof(float);
}

// row: see hopper_stage_bytes; split: thread blocks that share a tile.
SPIRA_BOTH int hopper_memory_bytes(int columns, int row, int split, int stages) {
    return wgmma_align + stages * hopper_stage_bytes(columns, row) + hopper_zeros(columns, split) +
           (split > 1 ? hopper_blocks * hopper_handed(columns) : 0);
}

// Stages that fit; a thread block costs 1024 bytes by itself.
SPIRA_BOTH int hopper_stages(int columns, int row, const conv_sizes *size, int shared) {
    int each = (shared + 1024) / hopper_resident(columns, size->tiles) - 1024 -
               (int)round_up(sizeof(hopper_shared), 128) -
               hopper_memory_bytes(columns, row, size->split, 0);
    return (int)min_of(each / hopper_stage_bytes(columns, row), hopper_stages_most);
}

// Where a warp is in the ring.
struct hopper_ring {
    uint32_t shared; // of hopper_shared
    uint32_t memory; // of the stages
    uint32_t bytes;  // of a stage
    int stages, at;
    uint32_t phase; // of the barriers
};

SPIRA_DEVICE hopper_ring hopper_ring_of(const conv_tensor_params &p, int columns, int row,
                                        const hopper_shared &shared, const char *memory) {
    hopper_ring r;
    r.shared = shared_address(&shared);
    r.memory = (shared_address(memory) + wgmma_align - 1) & ~(uint32_t)(wgmma_align - 1);
    r.bytes = (uint32_t)hopper_stage_bytes(columns, row);
    r.stages = p.size.depth;
    r.at = 0;
    r.phase = 0;
    // In registers: the compiler would find them out again, slowly, wherever they are used.
    asm volatile("" : "+r"(r.shared), "+r"(r.memory));
    return r;
}

// Goes so many stages on, at most all of them.
SPIRA_DEVICE void hopper_ring_next(hopper_ring &r, int stages = 1) {
    bool around = r.at + stages >= r.stages;
    r.at += stages - (around ? r.stages : 0);
    r.phase ^= around;
}

SPIRA_DEVICE uint32_t hopper_full(const hopper_ring &r) {
    return r.shared + (uint32_t)offsetof(hopper_shared, full) + (uint32_t)r.at * 8;
}

SPIRA_DEVICE uint32_t hopper_empty(const hopper_ring &r, int at) {
    return r.shared + (uint32_t)offsetof(hopper_shared, empty) + (uint32_t)at * 8;
}

SPIRA_DEVICE uint32_t hopper_told(const hopper_ring &r) {
    return r.shared + (uint32_t)offsetof(hopper_shared, told) + (uint32_t)r.at * 4;
}

SPIRA_DEVICE uint32_t hopper_stage(const hopper_ring &r) {
    return r.memory + (uint32_t)r.at * r.bytes;
}

// What a thread block does: one slice of the channels, and a tile of each round. Tiles come in
// their turn (layout/order.h), and every other round begins at the last thread block, so that all
// have much the same to do.
struct hopper_work {
    int outputs, blocks; // of outputs
    int own, workers;    // thread blocks of the slice, or clusters
    int tiles;           // of the thread block
    int channel;         // the slice's first
};

// Which of the thread blocks that share a tile this one is; they are 1 or 2. The grid is theirs,
// the slices, the workers: so those of a tile begin one behind the other.
SPIRA_DEVICE int hopper_share() {
    return (int)blockIdx.x;
}

SPIRA_DEVICE int hopper_rank(const hopper_work &w, int tile) {
    return tile * w.workers + (tile & 1 ? w.workers - 1 - w.own : w.own);
}

template <int columns>
SPIRA_DEVICE hopper_work hopper_work_of(const conv_tensor_params &p) {
    hopper_work w;
    w.outputs = min(*p.count, p.capacity);
    w.blocks = (w.outputs + order_rows - 1) / order_rows;
    w.workers = (int)gridDim.z;
    w.own = (int)blockIdx.z;
    w.channel = (int)blockIdx.y * columns;
    int all = (w.blocks + hopper_blocks - 1) / hopper_blocks;
    int rounds = (int)((uint32_t)all / gridDim.z);
    w.tiles = rounds + (hopper_rank(w, rounds) < all);
    return w;
}

// The number of the thread block's next tile but so many; any number behind the last.
SPIRA_DEVICE int hopper_tile(const conv_tensor_params &p, const hopper_work &w, int tile) {
    int rank = hopper_rank(w, tile);
    return tile < w.tiles && p.order.row ? __ldg(p.order.schedule + rank) : rank;
}

// ---- fetching -----------------------------------------------------------------------------------

// Where a fetching warp looks ahead: its next stage of a tile.
struct hopper_cursor {
    int tile;                          // in the order of the thread block
    int at, stages;                    // the warp's next stage of the tile, and how many it has
    int before_shortcut;               // of these, with a shortcut
    int offsets;                       // that some row block of the tile has
    uint32_t mask[hopper_blocks];      // a lane's 32 offsets of each row block of the tile
    int before;                        // offsets in the words of lower lanes
    int number, next, after_next;      // of the tile, and of the two behind it: read ahead,
    uint32_t mask_next[hopper_blocks]; // and the masks of the next
};

// What fills a stage: a part of an offset, or the offsets of a tile that share it.
template <int slots, int own>
struct hopper_job {
    int32_t source[slots][own][2]; // a lane's rows of the warp's row blocks
    uint32_t what[slots];          // offset | row blocks that have it << 16; 0: none
    int part;                      // of the offset: its number; -1: none yet
    bool last, stop;               // the last of its tile, or before its shortcut; no more
};

enum : uint32_t { hopper_offset_bits = 16, hopper_is_shortcut = 1u << 31 }; // of hopper_job.what

// A lane's word of the masks of a tile.
SPIRA_DEVICE void hopper_masks_load(const conv_tensor_params &p, const hopper_work &work, int tile,
                                    int number, uint32_t (&mask)[hopper_blocks]) {
    const int lane = threadIdx.x % 32, words = order_words(p.volume);
#pragma unroll
    for (int g = 0; g < hopper_blocks; ++g) {
        int block = number * hopper_blocks + g;
        mask[g] = 0;
        if (tile < work.tiles && lane < words && block < work.blocks) {
            mask[g] = p.order.row ? __ldg(p.order.mask + (int64_t)block * words + lane) : 1;
        }
    }
}

template <int slots, bool shortcut>
SPIRA_DEVICE void hopper_tile_next(const conv_tensor_params &p, const hopper_work &work,
                                   hopper_cursor &c) {
    ++c.tile;
    c.number = c.next;
    c.next = c.after_next;
#pragma unroll
    for (int g = 0; g < hopper_blocks; ++g) {
        c.mask[g] = c.mask_next[g];
    }
    hopper_masks_load(p, work, c.tile + 1, c.next, c.mask_next);
    c.after_next = hopper_tile(p, work, c.tile + 2);
    int own = __popc(c.mask[0] | c.mask[1]), sum = own;
    static_assert(hopper_blocks == 2, "two masks");
    for (int step = 1; step < order_words(p.volume); step *= 2) {
        int lower = __shfl_up_sync(~0u, sum, step);
        sum += (int)threadIdx.x % 32 >= step ? lower : 0;
    }
    c.before = sum - own;
    c.offsets = __shfl_sync(~0u, sum, order_words(p.volume) - 1);
    int stages = slots > 1 ? (c.offsets + slots - 1) / slots : c.offsets * p.chunks;
    const int log = p.size.split - 1;
    c.stages = max((stages - hopper_share() + log) >> log, 1);
    if (shortcut) {
        c.before_shortcut = c.stages;
        c.stages += max((p.shortcut.parts - hopper_share() + log) >> log, 1);
    }
}

// Offset number `at` of the tile, which there is: see hopper_job.what.
SPIRA_DEVICE uint32_t hopper_find(const hopper_cursor &c, int words, int at) {
    const int lane = threadIdx.x % 32;
    int word = 0;
    if (words > 1) {
        word = 31 - __clz((int)__ballot_sync(~0u, lane < words && c.before <= at));
        at -= __shfl_sync(~0u, c.before, word);
    }
    uint32_t has[hopper_blocks], any = 0;
#pragma unroll
    for (int g = 0; g < hopper_blocks; ++g) {
        has[g] = __shfl_sync(~0u, c.mask[g], word);
        any |= has[g];
    }
    bool own = (any >> lane & 1) && __popc(any & ((1u << lane) - 1)) == at;
    uint32_t bit = (uint32_t)__ffs((int)__ballot_sync(~0u, own)) - 1, what = word * 32 + bit;
#pragma unroll
    for (int g = 0; g < hopper_blocks; ++g) {
        what |= (has[g] >> bit & 1) << (hopper_offset_bits + g);
    }
    return what;
}

// first: of the warp's row blocks of the tile.
template <int own>
SPIRA_DEVICE void hopper_sources_load(const conv_tensor_params &p, const hopper_work &work,
                                      int number, int first, uint32_t what,
                                      int32_t (&source)[own][2]) {
    const int lane = threadIdx.x % 32, offset = (int)(what & ((1u << hopper_offset_bits) - 1));
#pragma unroll
    for (int g = 0; g < own; ++g) {
        const int block = number * hopper_blocks + first + g;
        const bool there = what >> (hopper_offset_bits + first + g) & 1;
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            int place = h * 32 + lane, row = block * order_rows + place;
            source[g][h] = row < work.outputs ? row : -1;
            if (p.order.row && there) {
                int64_t from = ((int64_t)block * p.volume + offset) * order_rows + place;
                source[g][h] = __ldg(p.order.source + from);
            }
        }
    }
}

// A part of the shortcut, whose sources are the outputs of the tile.
template <int own>
SPIRA_DEVICE void hopper_shortcut_next(const conv_tensor_params &p, const hopper_work &work,
                                       int first_block, const hopper_cursor &c,
                                       hopper_job<1, own> &job) {
    const int lane = threadIdx.x % 32;
    job.last = c.at == c.stages - 1;
    job.part = ((c.at - c.before_shortcut) << (p.size.split - 1)) + hopper_share();
    job.what[0] = 0;
    if (job.part >= p.shortcut.parts) {
        return; // the other thread block has it
    }
    job.what[0] = hopper_is_shortcut;
#pragma unroll
    for (int g = 0; g < hopper_blocks; ++g) {
        bool there = c.number * hopper_blocks + g < work.blocks;
        job.what[0] |= there ? 1u << (hopper_offset_bits + g) : 0;
    }
#pragma unroll
    for (int i = 0; i < 2 * own; ++i) {
        int block = c.number * hopper_blocks + first_block + i / 2;
        int place = block * order_rows + i % 2 * 32 + lane;
        job.source[0][i / 2][i % 2] = place >= work.outputs ? -1
                                      : p.order.row         ? __ldg(p.order.row + place)
                                                            : place;
    }
}

// The warp's next job, its sources read ahead.
template <int slots, int own, bool shortcut>
SPIRA_DEVICE void hopper_look_ahead(const conv_tensor_params &p, const hopper_work &work,
                                    int first_block, hopper_cursor &c,
                                    hopper_job<slots, own> &job) {
    while (c.at >= c.stages && c.tile < work.tiles) {
        c.at -= c.stages;
        hopper_tile_next<slots, shortcut>(p, work, c);
    }
    if constexpr (shortcut) {
        if (c.at >= c.before_shortcut && c.tile < work.tiles) {
            job.stop = false;
            hopper_shortcut_next<own>(p, work, first_block, c, job);
            c.at += hopper_teams;
            return;
        }
    }
    const int stage = (c.at << (p.size.split - 1)) + hopper_share(); // of all that the tile has
    int first = slots > 1 ? stage * slots : stage;
    if (slots == 1 && p.chunks > 1) {
        first = (int)((uint32_t)stage / (uint32_t)p.chunks);
    }
    job.stop = c.tile >= work.tiles;
    job.last = c.at == (shortcut ? c.before_shortcut : c.stages) - 1;
    job.part = slots > 1 ? 0 : stage - first * p.chunks;
#pragma unroll
    for (int i = 0; i < slots; ++i) {
        job.what[i] = 0;
        if (first + i < c.offsets) {
            job.what[i] = hopper_find(c, order_words(p.volume), first + i);
            hopper_sources_load<own>(p, work, c.number, first_block, job.what[i], job.source[i]);
        }
    }
    c.at += hopper_teams;
}

// A lane's piece of a part.
struct hopper_part {
    const char *base; // of row 0
    uint32_t pitch;   // to the next row
    int bytes;        // that there are from here on; none or less: it reads as zeros
    bool wide;        // as all of the warp's pieces are
};

// p: conv_tensor_params, or conv_tensor_shortcut.
template <typename E, typename P>
SPIRA_DEVICE hopper_part hopper_part_of(const P &p, int piece) {
    const bool second = hopper_piece_second(p.cin, piece);
    const int at = piece * conv_lane_bytes;
    hopper_part from;
    from.pitch = (uint32_t)(second ? p.cin2 : p.cin) * (uint32_t)sizeof(E);
    from.bytes = (int)from.pitch - at;
    from.base = (const char *)(second ? p.in2 : p.in) + (from.bytes > 0 ? at : 0);
    from.wide = __all_sync(~0u, second ? p.wide_in2 : p.wide_in);
    // One address to add to: the compiler would add array and place to each row, one by one.
#ifdef __CUDA_ARCH__
    asm volatile("" : "+l"(from.base));
#endif
    return from;
}

// The compiler would multiply 64 bits.
SPIRA_DEVICE uint64_t hopper_product(uint32_t a, uint32_t b) {
#ifdef __CUDA_ARCH__
    uint64_t v;
    asm("mul.wide.u32 %0, %1, %2;" : "=l"(v) : "r"(a), "r"(b));
    return v;
#else
    return (uint64_t)a * b;
#endif
}

// Copies a part of the rows of a row block; missing rows become zero.
template <int log>
SPIRA_DEVICE void hopper_gather(const hopper_part &from, const int32_t (&source)[2], uint32_t to) {
    enum { lanes = 1 << (log - 4), rows = 32 / lanes }; // of a row, at a time
    const int lane = threadIdx.x % 32, own = lane / lanes;
    const uint32_t place = (uint32_t)(own << log | lane % lanes * conv_lane_bytes);
    // Rows at a time are 512 bytes: every other time their swizzle is the same.
    const uint32_t even = to + wgmma_place(place, log), odd = to + wgmma_place(place + 512, log);
    const bool inside = from.bytes > 0;
#pragma unroll
    for (int i = 0; i < order_rows / rows; ++i) {
        int32_t row = __shfl_sync(~0u, source[i * rows / 32], i * rows % 32 + own);
        const char *at = from.base + hopper_product((uint32_t)row, from.pitch);
        async_copy_16(i % 2 ? odd + (i - 1) * 512 : even + i * 512, at, inside && row >= 0);
    }
}

// The same element by element: of rows that are not aligned.
template <typename E, int log>
SPIRA_DEVICE void hopper_gather_each(const hopper_part &from, const int32_t (&source)[2],
                                     uint32_t to) {
    enum { lanes = 1 << (log - 4), rows = 32 / lanes };
    const int lane = threadIdx.x % 32, own = lane / lanes;
    const uint32_t piece = (uint32_t)(lane % lanes * conv_lane_bytes);
#pragma unroll 1
    for (int row = own; row < order_rows; row += rows) {
        int32_t low = __shfl_sync(~0u, source[0], row % 32);
        int32_t high = __shfl_sync(~0u, source[1], row % 32), at = row < 32 ? low : high;
        uint4 v = conv_read_each<E>(from.base + (uint64_t)(uint32_t)max(at, 0) * from.pitch,
                                    at >= 0 ? from.bytes : 0);
        shared_store_4(to + wgmma_place((uint32_t)(row << log) | piece, log), v);
    }
}

// Output channels that a thread block has weights for.
SPIRA_DEVICE int hopper_weight_rows(const conv_tensor_params &p, const hopper_work &work,
                                    int columns) {
    return min(columns, hopper_couts(p.cout) - work.channel);
}

// Fetches an offset's weights of a region, that begins at byte `begin` of a part of `bytes`; image:
// the number of offset and part.
template <int columns, int log>
SPIRA_DEVICE void hopper_weights_fetch(const conv_tensor_params &p, const hopper_work &work,
                                       const void *weights, int image, int bytes, int begin,
                                       uint32_t to, uint32_t barrier) {
    int couts = hopper_couts(p.cout);
    int64_t row = (int64_t)image * couts;
    const char *from = (const char *)weights + (row * bytes + couts * begin);
    mbarrier_bulk_copy(to, from + (work.channel << log),
                       (uint32_t)(hopper_weight_rows(p, work, columns) << log), barrier);
}

// Whether a job is of a shortcut: its parts are whole ones.
template <bool shortcut, int slots, int own>
SPIRA_DEVICE bool hopper_behind(const hopper_job<slots, own> &job) {
    return shortcut && job.what[0] & hopper_is_shortcut;
}

// Copies the warp's row blocks into a region of a stage.
template <typename E, int columns, int part, int begin, int own, bool shortcut>
SPIRA_DEVICE void hopper_fill_rows(const conv_tensor_params &p, int first,
                                   const hopper_job<hopper_slots(part), own> &job,
                                   const hopper_ring &ring) {
    enum { log = hopper_region_log(part, begin), slots = hopper_slots(part) };
    enum { lanes = (1 << log) / conv_lane_bytes };
    const uint32_t region = hopper_stage(ring) + (uint32_t)hopper_stage_bytes(columns, begin);
    static_assert(!shortcut || part == hopper_part_whole, "parts of shortcuts are whole ones");
    const int lane = threadIdx.x % 32;
    const int piece = (job.part * part + begin) / conv_lane_bytes + lane % lanes;
    const hopper_part from = hopper_behind<shortcut>(job) ? hopper_part_of<E>(p.shortcut, piece)
                                                          : hopper_part_of<E>(p, piece);
#pragma unroll
    for (int i = 0; i < slots; ++i) {
#pragma unroll
        for (int g = 0; g < own; ++g) {
            if (job.what[i] >> (hopper_offset_bits + first + g) & 1) {
                uint32_t to = region + (uint32_t)(((first + g) * slots + i) * wgmma_rows << log);
                if (from.wide) {
                    hopper_gather<log>(from, job.source[i][g], to);
                } else {
                    hopper_gather_each<E, log>(from, job.source[i][g], to);
                }
            }
        }
    }
}

// Has the copy engine bring the weights of a region.
template <int columns, int part, int begin, int own, bool shortcut>
SPIRA_DEVICE void hopper_fill_weights(const conv_tensor_params &p, const hopper_work &work,
                                      const hopper_job<hopper_slots(part), own> &job,
                                      const hopper_ring &ring) {
    enum { log = hopper_region_log(part, begin), slots = hopper_slots(part) };
    const uint32_t region = hopper_stage(ring) + (uint32_t)hopper_stage_bytes(columns, begin);
    const bool behind = hopper_behind<shortcut>(job);
    const void *weights = behind ? p.shortcut.weights : p.weights;
    const int bytes = behind ? hopper_part_whole : part;
#pragma unroll
    for (int i = 0; i < slots; ++i) {
        if (job.what[i]) {
            int row = hopper_blocks * slots * wgmma_rows + i * columns;
            int offset = (int)(job.what[i] & ((1u << hopper_offset_bits) - 1));
            hopper_weights_fetch<columns, log>(p, work, weights, offset * p.chunks + job.part,
                                               bytes, begin, region + (uint32_t)(row << log),
                                               hopper_full(ring));
        }
    }
}

// What is told of a stage.
template <int part, int own>
SPIRA_DEVICE uint32_t hopper_tell(const hopper_job<hopper_slots(part), own> &job) {
    enum { slots = hopper_slots(part), each = hopper_steps / slots };
    uint32_t told = job.last ? hopper_last : 0;
#pragma unroll
    for (int i = 0; i < slots * hopper_blocks; ++i) {
        bool there = job.what[i / hopper_blocks] >> (hopper_offset_bits + i % hopper_blocks) & 1;
        int first = i % hopper_blocks * hopper_steps + i / hopper_blocks * each;
        told |= there ? ((1u << each) - 1) << first : 0;
    }
    return told;
}

// Fills the regions of a stage with rows: one alone with a part of a shortcut.
template <typename E, int columns, int part, int own, bool shortcut>
SPIRA_DEVICE void hopper_rows(const conv_tensor_params &p, int first,
                              const hopper_job<hopper_slots(part), own> &job,
                              const hopper_ring &ring) {
    if constexpr (part > hopper_part_whole) {
        if (hopper_behind<shortcut>(job)) {
            hopper_fill_rows<E, columns, hopper_part_whole, 0, own, true>(p, first, job, ring);
            return;
        }
        hopper_fill_rows<E, columns, part, 0, own, false>(p, first, job, ring);
        hopper_fill_rows<E, columns, part, hopper_part_whole, own, false>(p, first, job, ring);
    } else {
        hopper_fill_rows<E, columns, part, 0, own, shortcut>(p, first, job, ring);
    }
}

// And with weights, which one lane of a team asks for.
template <int columns, int part, int own, bool shortcut>
SPIRA_DEVICE void hopper_weights_begin(const conv_tensor_params &p, const hopper_work &work,
                                       const hopper_job<hopper_slots(part), own> &job,
                                       const hopper_ring &ring) {
    hopper_fill_weights<columns, part, 0, own, shortcut>(p, work, job, ring);
    if constexpr (part > hopper_part_whole) {
        if (!hopper_behind<shortcut>(job)) {
            hopper_fill_weights<columns, part, hopper_part_whole, own, false>(p, work, job, ring);
        }
    }
}

// Their bytes.
template <int columns, int part, int own>
SPIRA_DEVICE uint32_t hopper_weights_bytes(const conv_tensor_params &p, const hopper_work &work,
                                           const hopper_job<hopper_slots(part), own> &job) {
    const uint32_t rows = (uint32_t)hopper_weight_rows(p, work, columns);
    uint32_t bytes = 0;
#pragma unroll
    for (int i = 0; i < hopper_slots(part); ++i) {
        const bool behind = part > hopper_part_whole && job.what[i] & hopper_is_shortcut;
        bytes += job.what[i] ? rows * (uint32_t)(behind ? hopper_part_whole : part) : 0;
    }
    return bytes;
}

// Whether all rows are read by copies.
template <bool shortcut>
SPIRA_DEVICE bool hopper_is_wide(const conv_tensor_params &p) {
    return p.wide_in && p.wide_in2 && (!shortcut || (p.shortcut.wide_in && p.shortcut.wide_in2));
}

// Arrives when the warp's rows are there. The arrival of copies releases no stores: where there may
// be some, and no lane of the warp arrives by itself later, all do now.
template <int own, bool shortcut>
SPIRA_DEVICE void hopper_arrive(const conv_tensor_params &p, uint32_t barrier) {
    if (own == hopper_blocks || hopper_is_wide<shortcut>(p)) {
        mbarrier_arrive_copies(barrier);
    } else {
        async_copy_wait();
        mbarrier_arrive(barrier);
    }
}

// Fills a stage with a job. begun: its weights are under way.
template <typename E, int columns, int part, int own, bool shortcut>
SPIRA_DEVICE void hopper_fill(const conv_tensor_params &p, const hopper_work &work, int first,
                              bool asks, bool begun, const hopper_job<hopper_slots(part), own> &job,
                              const hopper_ring &ring) {
    if (asks && !begun) {
        hopper_weights_begin<columns, part, own, shortcut>(p, work, job, ring);
    }
    if (begun && p.programmatic) {
        pdl_wait(); // before the first row
    }
    hopper_rows<E, columns, part, own, shortcut>(p, first, job, ring);
    hopper_arrive<own, shortcut>(p, hopper_full(ring));
    __syncwarp();
    if (asks) {
        shared_store(hopper_told(ring), hopper_tell<part, own>(job));
        mbarrier_arrive_expect_tx(hopper_full(ring),
                                  hopper_weights_bytes<columns, part, own>(p, work, job));
    }
}

// A team of fetching warps fills every fourth stage, the sources of its next one read ahead. There
// are at least four stages, so that no warp is a phase of a barrier ahead of another that gives
// stages back in their order. Sets do not: one gives its last stage back when the next set may have
// given back those behind it. A team could come around to a stage that is still read, and take the
// phase of `empty` for the one after the next; so it waits, too, for what was to come there before.
template <typename E, int columns, int split, int tiles, int part, bool shortcut>
SPIRA_DEVICE void hopper_fetch(const conv_tensor_params &p, hopper_ring ring) {
    enum {
        slots = hopper_slots(part),
        warps = hopper_team(columns, split),
        own = hopper_blocks / warps
    };
    const hopper_work work = hopper_work_of<columns>(p);
    const int warp = __shfl_sync(~0u, threadIdx.x / 32, 0) % (hopper_teams * warps);
    const int team = warp / warps, first = warp % warps * own;
    hopper_cursor cursor = {};
    hopper_job<slots, own> job, ahead;
    cursor.tile = -1;
    cursor.at = team;
    cursor.next = hopper_tile(p, work, 0);
    cursor.after_next = hopper_tile(p, work, 1);
    hopper_masks_load(p, work, 0, cursor.next, cursor.mask_next);
    hopper_ring_next(ring, team);
    const bool asks = threadIdx.x % 32 == 0 && first == 0;
    job.part = -1; // the first round has none to fill: so code that looks ahead is there once
    int begun = 0; // of how many stages, the next ones to be filled, the weights are under way:
    for (int at = team;; at += hopper_teams) { // all of the ring's, while the kernel before ends
        hopper_look_ahead<slots, own, shortcut>(p, work, first, cursor, ahead);
        if (at < ring.stages && !ahead.stop) {
            if (asks) {
                hopper_ring later = ring;
                later.at = at;
                hopper_weights_begin<columns, part, own, shortcut>(p, work, ahead, later);
            }
            ++begun;
        }
        if (job.part >= 0) {
            if constexpr (hopper_sets(columns, split, tiles) > 1) {
                mbarrier_wait(hopper_full(ring), ring.phase ^ 1);
            }
            mbarrier_wait(hopper_empty(ring, ring.at), ring.phase ^ 1);
            hopper_fill<E, columns, part, own, shortcut>(p, work, first, asks, begun > 0, job,
                                                         ring);
            begun -= begun > 0;
            hopper_ring_next(ring, hopper_teams);
        }
        if (ahead.stop) {
            break;
        }
        job = ahead;
    }
    async_copy_wait();
}

template <typename E, int columns, int split, int tiles, int row, bool shortcut>
SPIRA_DEVICE void hopper_fetch_any(const conv_tensor_params &p, const hopper_ring &ring) {
    if constexpr (hopper_halves(columns) && !shortcut) {
        if (p.part == hopper_part_half) {
            hopper_fetch<E, columns, split, tiles, hopper_part_half, false>(p, ring);
            return;
        }
    }
    hopper_fetch<E, columns, split, tiles, row, shortcut>(p, ring);
}

// ---- multiplying --------------------------------------------------------------------------------

// Adds what a stage has for the row blocks of a warpgroup, the first of which is `group`. Steps of
// an offset that a row block has no pairs for read zeros: a branch would make the compiler wait for
// each step.
template <typename E, int columns, int part, int blocks>
SPIRA_DEVICE void hopper_multiply(uint32_t stage, int group, uint32_t zeros, uint32_t steps,
                                  float (&sum)[blocks][columns / 2]) {
    enum { log = hopper_region_log(part, 0), slots = hopper_slots(part) };
    enum { each = hopper_steps / slots }; // of an offset
    const uint32_t z = wgmma_address(zeros);
    const uint32_t first = wgmma_address(stage + group * hopper_group_bytes);
    const uint32_t weights = wgmma_address(stage + hopper_blocks * hopper_group_bytes);
    uint32_t a[slots][blocks], b[slots][blocks];
#pragma unroll
    for (int i = 0; i < slots; ++i) {
#pragma unroll
        for (int g = 0; g < blocks; ++g) {
            bool there =
                (slots == 1 && blocks == 1) || (steps >> (g * hopper_steps + i * each) & 1);
            a[i][g] = there ? first + ((g * hopper_group_bytes + (i * wgmma_rows << log)) >> 4) : z;
            b[i][g] = there || slots == 1 ? weights + ((i * columns << log) >> 4) : z;
        }
    }
    wgmma_begin();
#pragma unroll
    for (uint32_t s = 0; s < hopper_steps; ++s) {
#pragma unroll
        for (int g = 0; g < blocks; ++g) {
            const uint32_t slot = s / each, at = s % each * wgmma_step_bytes >> 4;
            wgmma_step<E, columns>(sum[g], a[slot][g] + at, b[slot][g] + at, wgmma_form(log));
        }
    }
    if constexpr (part > hopper_part_whole) {
        enum { bytes = part - hopper_part_whole, rows = wgmma_rows * bytes };
        const uint32_t region = stage + hopper_stage_bytes(columns, hopper_part_whole);
        const uint32_t last_b = wgmma_address(region + hopper_blocks * rows);
#pragma unroll
        for (uint32_t at = 0; at < bytes; at += wgmma_step_bytes) {
#pragma unroll
            for (int g = 0; g < blocks; ++g) {
                uint32_t last_a = wgmma_address(region + (group + g) * rows);
                last_a = blocks == 1 || (steps >> (g * hopper_steps) & 1) ? last_a : z;
                wgmma_step<E, columns>(sum[g], last_a + (at >> 4), last_b + (at >> 4),
                                       wgmma_form(hopper_region_log(part, hopper_part_whole)));
            }
        }
    }
    wgmma_end();
}

SPIRA_DEVICE void hopper_release(const hopper_ring &ring, int at) {
    __syncwarp();
    if (warp_elect()) { // registers are scarce, and finding out a lane's number takes time
        mbarrier_arrive(hopper_empty(ring, at));
    }
}

// Goes to the next stage that has something for the warpgroup; others, and then the one before
// them, are given back. Returns what it is told there; 0 at the end of the tile.
template <int blocks>
SPIRA_DEVICE uint32_t hopper_listen(int group, int &before, hopper_ring &ring) {
    for (;;) {
        mbarrier_wait(hopper_full(ring), ring.phase);
        // Read by the lane that gives the stage back: racecheck does not see that others have read.
        uint32_t told = shared_load_elected(hopper_told(ring));
        if (blocks < hopper_blocks) { // the others' steps are not told
            told =
                (told & hopper_last) | (told >> group * hopper_steps & ((1 << hopper_steps) - 1));
        }
        if (told & (hopper_last - 1)) {
            return told;
        }
        if (before >= 0) {
            wgmma_wait<0>();
            hopper_release(ring, before);
            before = -1;
        }
        hopper_release(ring, ring.at);
        hopper_ring_next(ring);
        if (told) {
            return 0;
        }
    }
}

// Lets the other set go on from here in the ring.
SPIRA_DEVICE void hopper_turn_pass(int set, int group, const hopper_ring &ring) {
    const uint32_t own = (uint32_t)((1 - set) * hopper_blocks + group);
    if (threadIdx.x % hopper_group == 0) {
        shared_store(ring.shared + (uint32_t)offsetof(hopper_shared, begins) + own * 4,
                     (uint32_t)ring.at << 1 | ring.phase);
    }
    __syncwarp();
    if (threadIdx.x % 32 == 0) {
        mbarrier_arrive(ring.shared + (uint32_t)offsetof(hopper_shared, turn) + own * 8);
    }
}

SPIRA_DEVICE void hopper_turn_take(int set, int group, uint32_t phase, hopper_ring &ring) {
    const uint32_t own = (uint32_t)(set * hopper_blocks + group);
    mbarrier_wait(ring.shared + (uint32_t)offsetof(hopper_shared, turn) + own * 8, phase);
    uint32_t at = shared_load(ring.shared + (uint32_t)offsetof(hopper_shared, begins) + own * 4);
    at = __shfl_sync(~0u, at, 0);
    ring.at = (int)(at >> 1);
    ring.phase = at & 1;
}

// All stages of a tile up to one that is told to be the last. pass: other sets go on behind it.
template <typename E, int columns, int split, int tiles, int part, int blocks>
SPIRA_DEVICE void hopper_sum_stages(int set, int group, uint32_t zeros, bool pass,
                                    hopper_ring &ring, float (&sum)[blocks][columns / 2]) {
    int before = -1;
    for (uint32_t told = hopper_listen<blocks>(group, before, ring); told;) {
        hopper_multiply<E, columns, part, blocks>(hopper_stage(ring), group, zeros, told, sum);
        wgmma_wait<1>();
        if (before >= 0) {
            hopper_release(ring, before);
        }
        before = ring.at;
        hopper_ring_next(ring);
        told = told & hopper_last ? 0 : hopper_listen<blocks>(group, before, ring);
    }
    if (hopper_sets(columns, split, tiles) > 1 && pass) {
        hopper_turn_pass(set, group, ring);
    }
    wgmma_wait<0>();
#pragma unroll
    for (int i = 0; i < blocks; ++i) {
        wgmma_settle(sum[i]);
    }
    if (before >= 0) {
        hopper_release(ring, before);
    }
}

// The sums of the offsets, as those of the shortcut that are added to them: see
// hopper_shortcut_vectors.
template <int columns>
SPIRA_DEVICE void hopper_sums_scale(const hopper_shared &shared, float (&sum)[columns / 2]) {
    const float *ratio = shared.ratio + warp_lane() % 4 * 2;
#pragma unroll
    for (int j = 0; j < columns / 8; ++j) {
        const float2 r = *(const float2 *)(ratio + 8 * j);
        sum[4 * j] *= r.x;
        sum[4 * j + 1] *= r.y;
        sum[4 * j + 2] *= r.x;
        sum[4 * j + 3] *= r.y;
    }
}

// All stages of a tile; with a shortcut its own come last. Written twice: in a loop over the two
// the compiler would keep the sums in memory.
template <typename E, int columns, int split, int tiles, int part, int blocks, bool shortcut>
SPIRA_DEVICE void hopper_sum(const hopper_shared &shared, int set, int group, uint32_t zeros,
                             hopper_ring &ring, float (&sum)[blocks][columns / 2]) {
#pragma unroll
    for (int i = 0; i < blocks * columns / 2; ++i) {
        sum[i / (columns / 2)][i % (columns / 2)] = 0.0f;
    }
    hopper_sum_stages<E, columns, split, tiles, part, blocks>(set, group, zeros, !shortcut, ring,
                                                              sum);
    if constexpr (shortcut) {
#pragma unroll
        for (int i = 0; i < blocks; ++i) {
            hopper_sums_scale<columns>(shared, sum[i]);
            wgmma_settle(sum[i]);
        }
        hopper_sum_stages<E, columns, split, tiles, hopper_part_whole, blocks>(set, group, zeros,
                                                                               true, ring, sum);
    }
}

// The same of halves too, where a layer may have them.
template <typename E, int columns, int split, int tiles, int row, int blocks, bool shortcut>
SPIRA_DEVICE void hopper_sum_any(const conv_tensor_params &p, const hopper_shared &shared, int set,
                                 int group, uint32_t zeros, hopper_ring &ring,
                                 float (&sum)[blocks][columns / 2]) {
    if constexpr (hopper_halves(columns) && !shortcut) {
        if (p.part == hopper_part_half) {
            hopper_sum<E, columns, split, tiles, hopper_part_half, blocks, false>(
                shared, set, group, zeros, ring, sum);
            return;
        }
    }
    hopper_sum<E, columns, split, tiles, row, blocks, shortcut>(shared, set, group, zeros, ring,
                                                                sum);
}

// Two channels of the sums, of which so many are there; zeros for the others. Without a branch, so
// that many are under way.
SPIRA_DEVICE float2 hopper_sums_load(const float *from, int there) {
#ifdef __CUDA_ARCH__
    float2 v;
    asm volatile("{\n\t"
                 ".reg .pred both, one;\n\t"
                 "setp.ge.s32 both, %3, 2;\n\t"
                 "setp.eq.s32 one, %3, 1;\n\t"
                 "mov.f32 %0, 0f00000000;\n\t"
                 "mov.f32 %1, 0f00000000;\n\t"
                 "@both ld.global.v2.f32 {%0, %1}, [%2];\n\t"
                 "@one ld.global.f32 %0, [%2];\n\t"
                 "}"
                 : "=&f"(v.x), "=&f"(v.y)
                 : "l"(from), "r"(there));
    return v;
#else
    return make_float2(there > 0 ? from[0] : 0.0f, there > 1 ? from[1] : 0.0f);
#endif
}

// Adds the sums that two rows of a lane begin from, if there are any, where its own stand.
template <int columns>
SPIRA_DEVICE void hopper_add_sums(const conv_tensor_params &p, int channel, const int (&row)[2],
                                  float (&sum)[columns / 2]) {
    enum { at_a_time = columns <= 96 ? 4 : 2 }; // as registers allow
    if (!p.sums) {
        return;
    }
    const float *from[2];
    int there[2]; // channels from the lane's first on; behind the last nobody has written
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        const int first = channel + warp_lane() % 4 * 2;
        from[h] = p.sums + (int64_t)row[h] * conv_sums_pitch(p.cout) + first;
        there[h] = row[h] < 0 ? 0 : p.cout - first;
    }
#pragma unroll
    for (int j = 0; j < columns / 8 && channel + 8 * j < p.cout; j += at_a_time) {
        float2 v[at_a_time][2];
#pragma unroll
        for (int i = 0; i < 2 * at_a_time; ++i) {
            int ahead = 8 * (j + i / 2);
            v[i / 2][i % 2] = hopper_sums_load(from[i % 2] + ahead, there[i % 2] - ahead);
        }
#pragma unroll
        for (int i = 0; i < 2 * at_a_time; ++i) {
            float *to = sum + 4 * (j + i / 2) + 2 * (i % 2);
            to[0] += v[i / 2][i % 2].x;
            to[1] += v[i / 2][i % 2].y;
        }
    }
}

// Two neighbouring channels, finished: scale, shift, what is added, and the larger of that and
// `floor`.
template <typename E, bool adds>
SPIRA_DEVICE uint32_t hopper_pack(float x, float y, float2 scale, float2 shift, uint32_t extra,
                                  float floor) {
    union pair {
        uint32_t all;
        E element[2];
    } v, e;
    e.all = extra;
    x = fmaf(x, scale.x, shift.x) + (adds ? element_to_float(e.element[0]) : 0.0f);
    y = fmaf(y, scale.y, shift.y) + (adds ? element_to_float(e.element[1]) : 0.0f);
    v.element[0] = element_from_float<E>(conv_max_nan(x, floor));
    v.element[1] = element_from_float<E>(conv_max_nan(y, floor));
    return v.all;
}

// A lane's channels of two neighbouring blocks of 8: pairs of neighbours exchange halves, so that
// of 2 of each block one has 4 of the first and the other 4 of the second.
SPIRA_DEVICE uint2 hopper_join(bool odd, uint32_t low, uint32_t high) {
    uint32_t other = __shfl_xor_sync(~0u, odd ? low : high, 1);
    return odd ? make_uint2(other, high) : make_uint2(low, other);
}

// And back.
SPIRA_DEVICE void hopper_split(bool odd, uint2 all, uint32_t &low, uint32_t &high) {
    uint32_t other = __shfl_xor_sync(~0u, odd ? all.x : all.y, 1);
    low = odd ? other : all.x;
    high = odd ? all.y : other;
}

// The first of a lane's channels: of a pair of blocks of 8 it has 4.
SPIRA_DEVICE int hopper_own() {
    const int t = warp_lane() % 4;
    return (t & 1) * 8 + (t >> 1) * 4;
}

// Where a channel of a row stands in an array of the outputs' shape.
template <typename E>
SPIRA_DEVICE int64_t hopper_place(const conv_tensor_params &p, int row, int channel) {
    return ((int64_t)row * p.cout + channel) * (int)sizeof(E);
}

// What the residual has for two rows of a lane, of `many` pairs of blocks from `first` on: of those
// from `begin` to `end`. channel: the lane's first.
template <typename E, int many>
SPIRA_DEVICE void hopper_residual_load(const conv_tensor_params &p, int channel,
                                       const int (&row)[2], int first, int begin, int end,
                                       uint2 (&extra)[many][2]) {
#pragma unroll
    for (int i = 0; i < 2 * many; ++i) {
        const int j = first + i / 2, h = i % 2;
        if (j >= begin && j < end) {
            extra[i / 2][h] = make_uint2(0, 0);
            if (row[h] >= 0 && channel + 16 * j < p.cout) {
                const char *from = (const char *)p.residual + hopper_place<E>(p, row[h], channel);
                extra[i / 2][h] = *(const uint2 *)(from + 32 * j);
            }
        }
    }
}

// Finishes two rows of a lane, where wide_out holds and the activation is none or ReLU; from: the
// first channel's number in the slice; adds: a residual, some of it read before the first outputs
// are written, since it may be the same array; extra: that, of the first `ahead` pairs of blocks.
template <typename E, int columns, int split, bool adds, int ahead>
SPIRA_DEVICE void hopper_finish_plain(const conv_tensor_params &p, const hopper_shared &shared,
                                      int from, int channel, const int (&row)[2],
                                      uint2 (&extra)[hopper_extras(columns, split)][2],
                                      const float (&sum)[columns / 2]) {
    enum { at_a_time = hopper_extras(columns, split), pairs = columns / 16 }; // of blocks of 8
    const int t = warp_lane() % 4, own = hopper_own();
    const float floor = p.epilogue.act == activation_relu ? 0.0f : -INFINITY;
    int64_t at[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        at[h] = hopper_place<E>(p, row[h], channel + own);
    }
#pragma unroll
    for (int first = 0; first < pairs; first += at_a_time) {
        if (adds) {
            hopper_residual_load<E>(p, channel + own, row, first, ahead, pairs, extra);
        }
#pragma unroll
        for (int i = 0; i < at_a_time && first + i < pairs; ++i) {
            const int j = first + i;
            float2 scale[2], shift[2];
#pragma unroll
            for (int b = 0; b < 2; ++b) {
                scale[b] = *(const float2 *)(shared.scale + from + 16 * j + 8 * b + 2 * t);
                shift[b] = *(const float2 *)(shared.scale + hopper_columns_most + from + 16 * j +
                                             8 * b + 2 * t);
            }
#pragma unroll
            for (int h = 0; h < 2; ++h) {
                const float *v = sum + 8 * j + 2 * h;
                uint32_t low = 0, high = 0;
                if (adds) {
                    hopper_split(t & 1, extra[i][h], low, high);
                }
                low = hopper_pack<E, adds>(v[0], v[1], scale[0], shift[0], low, floor);
                high = hopper_pack<E, adds>(v[4], v[5], scale[1], shift[1], high, floor);
                uint2 all = hopper_join(t & 1, low, high);
                if (row[h] >= 0 && channel + own + 16 * j < p.cout) {
                    *(uint2 *)((char *)p.out + at[h] + 32 * j) = all;
                }
            }
        }
    }
}

// residual: there may be one.
template <typename E, int columns, int split, bool residual>
SPIRA_DEVICE void hopper_finish_any_plain(const conv_tensor_params &p, const hopper_shared &shared,
                                          int from, int channel, const int (&row)[2],
                                          uint2 (&extra)[hopper_extras(columns, split)][2],
                                          const float (&sum)[columns / 2]) {
    enum { ahead = hopper_extras_ahead(columns, split, residual) };
    if (residual && p.residual) {
        hopper_finish_plain<E, columns, split, true, ahead>(p, shared, from, channel, row, extra,
                                                            sum);
    } else {
        hopper_finish_plain<E, columns, split, false, ahead>(p, shared, from, channel, row, extra,
                                                             sum);
    }
}

// Whether that does: not unaligned outputs, leaky ReLU, or a residual besides a shortcut, which few
// layers have.
SPIRA_BOTH bool hopper_is_plain(const conv_tensor_params &p) {
    return p.wide_out && p.epilogue.act != activation_leaky && !(p.residual && p.shortcut.parts);
}

// Two neighbouring channels of an output, whatever there is to be done; from: the first one's
// number in the slice.
template <typename E>
SPIRA_DEVICE void hopper_finish_two(const conv_tensor_params &p, const hopper_shared &shared,
                                    int from, int channel, int row, float x, float y) {
    union pair {
        uint32_t all;
        E element[2];
    } v, extra;
    const float sum[2] = {x, y}, floor = p.epilogue.act == activation_relu ? 0.0f : -INFINITY;
    const bool leaky = p.epilogue.act == activation_leaky;
    const int64_t at = hopper_place<E>(p, row, channel);
    const char *residual = (const char *)p.residual + at;
    char *out = (char *)p.out + at;
    extra.all = 0;
    if (p.residual && p.wide_out) {
        extra.all = *(const uint32_t *)residual;
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const bool alone = !p.wide_out && channel + i < p.cout;
        if (p.residual && alone) {
            extra.element[i] = ((const E *)residual)[i];
        }
        float f =
            fmaf(sum[i], shared.scale[from + i], shared.scale[hopper_columns_most + from + i]);
        f += p.residual ? element_to_float(extra.element[i]) : 0.0f;
        v.element[i] = element_from_float<E>(conv_activate(f, floor, leaky, p.epilogue.slope));
        if (alone) {
            ((E *)out)[i] = v.element[i];
        }
    }
    if (p.wide_out) {
        *(uint32_t *)out = v.all;
    }
}

// Finishes the outputs of layers that are not plain. It is one loop, through which sums come down
// by four in their registers, since code costs others time: a multiprocessor fetches it anew for
// each kernel.
template <typename E, int columns, int blocks>
SPIRA_DEVICE void hopper_finish_slowly(const conv_tensor_params &p, const hopper_shared &shared,
                                       int channel, int (&row)[blocks][2],
                                       float (&sum)[blocks][columns / 2]) {
    enum { each = columns / 2, all = blocks * each };
#pragma unroll 1
    for (int at = 0; at < blocks * columns; at += 8) {
        if (blocks > 1 && at == columns) {
            row[0][0] = row[blocks - 1][0];
            row[0][1] = row[blocks - 1][1];
        }
        const int from = at % columns + warp_lane() % 4 * 2;
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            if (row[0][h] >= 0 && channel + from < p.cout) {
                hopper_finish_two<E>(p, shared, from, channel + from, row[0][h], sum[0][2 * h],
                                     sum[0][2 * h + 1]);
            }
        }
#pragma unroll
        for (int i = 0; i + 4 < all; ++i) {
            sum[i / each][i % each] = sum[(i + 4) / each][(i + 4) % each];
        }
    }
}

// Finishes the row blocks of a warpgroup. With a shortcut sums begin from nothing.
template <typename E, int columns, int blocks, bool shortcut>
SPIRA_DEVICE void hopper_finish(const conv_tensor_params &p, const hopper_shared &shared,
                                int channel, int (&row)[blocks][2],
                                uint2 (&extra)[blocks][hopper_extras(columns, 1)][2],
                                float (&sum)[blocks][columns / 2]) {
#pragma unroll
    for (int i = 0; !shortcut && i < blocks; ++i) {
        hopper_add_sums<columns>(p, channel, row[i], sum[i]);
    }
    if (!hopper_is_plain(p)) {
        hopper_finish_slowly<E, columns, blocks>(p, shared, channel, row, sum);
        return;
    }
#pragma unroll
    for (int i = 0; i < blocks; ++i) {
        hopper_finish_any_plain<E, columns, 1, !shortcut>(p, shared, 0, channel, row[i], extra[i],
                                                          sum[i]);
    }
}

// The outputs of a lane's two rows of each row block from `first` on, -1: none.
template <int blocks>
SPIRA_DEVICE void hopper_rows_load(const conv_tensor_params &p, int outputs, int first,
                                   int (&row)[blocks][2]) {
    const int own = threadIdx.x % hopper_group / 32 * 16 + warp_lane() / 4;
#pragma unroll
    for (int i = 0; i < 2 * blocks; ++i) {
        int place = (first + i / 2) * order_rows + own + i % 2 * 8;
        row[i / 2][i % 2] = place >= outputs ? -1
                            : p.order.row    ? __ldg(p.order.row + place)
                                             : place;
    }
}

// Hands the other thread block of the cluster its sums of half of the columns, and adds what that
// has of the own half, the one of its rank. tile: how many the thread block had before.
template <int columns>
SPIRA_DEVICE void hopper_exchange(const hopper_ring &ring, const hopper_shared &shared, int rank,
                                  int tile, int group, const float (&sum)[columns / 2],
                                  float (&half)[columns / 4]) {
    enum { floats = columns / 4, most = hopper_round_floats(columns) };
    enum { rounds = (floats + most - 1) / most };
    const uint32_t other = (uint32_t)rank ^ 1, ready = shared_address(&shared.ready[group]);
    const uint32_t taken = shared_address(&shared.taken[group]);
    const uint32_t own = ring.memory + (uint32_t)ring.stages * ring.bytes +
                         (uint32_t)(hopper_zeros(columns, 2) + group * hopper_handed(columns)) +
                         threadIdx.x % hopper_group * 16;
    const uint32_t to = cluster_address(own, other), told = cluster_address(ready, other);
    const bool first = threadIdx.x % hopper_group == 0;
#pragma unroll
    for (int round = 0; round < rounds; ++round) {
        const int begin = round * most, each = round + 1 < rounds ? most : floats - begin;
        const uint32_t phase = (uint32_t)(tile * rounds + round) & 1;
        if (first) {
            mbarrier_arrive_expect_tx(ready, (uint32_t)(hopper_group * each * (int)sizeof(float)));
        }
        cluster_wait(taken, phase ^ 1);
#pragma unroll
        for (int i = 0; i < each; i += 4) {
            const float *low = sum + begin + i, *high = low + floats;
            float4 v = rank ? make_float4(low[0], low[1], low[2], low[3])
                            : make_float4(high[0], high[1], high[2], high[3]);
            cluster_store_4(to + (uint32_t)(i * hopper_group * 4), v, told);
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                half[begin + i + e] = rank ? high[e] : low[e];
            }
        }
        cluster_wait(ready, phase);
#pragma unroll
        for (int i = 0; i < each; i += 4) {
            const uint4 v = shared_load_4(own + (uint32_t)(i * hopper_group * 4));
            half[begin + i] += __uint_as_float(v.x);
            half[begin + i + 1] += __uint_as_float(v.y);
            half[begin + i + 2] += __uint_as_float(v.z);
            half[begin + i + 3] += __uint_as_float(v.w);
        }
        named_barrier_sync(1 + group, hopper_group); // all have read
        if (first) {
            cluster_arrive(cluster_address(taken, other));
        }
    }
}

// Finishes the own half of the columns, of two thread blocks that share the tile.
template <typename E, int columns, bool shortcut>
SPIRA_DEVICE void
hopper_finish_half(const conv_tensor_params &p, const hopper_shared &shared, int channel,
                   const int (&row)[2], uint2 (&extra)[hopper_extras(columns / 2, 2)][2], int tile,
                   int group, const hopper_ring &ring, const float (&sum)[columns / 2]) {
    const int first = hopper_share() * (columns / 2);
    float half[columns / 4];
    hopper_exchange<columns>(ring, shared, hopper_share(), tile, group, sum, half);
    hopper_add_sums<columns / 2>(p, channel + first, row, half);
    hopper_finish_any_plain<E, columns / 2, 2, !shortcut>(p, shared, first, channel + first, row,
                                                          extra, half);
}

template <typename E, int columns, int split, int tiles, int row, bool shortcut>
SPIRA_DEVICE void hopper_consume(const conv_tensor_params &p, const hopper_shared &shared,
                                 hopper_ring ring) {
    const hopper_work work = hopper_work_of<columns>(p);
    enum { blocks = hopper_each(columns, split), groups = hopper_blocks / blocks };
    const int warpgroup = __shfl_sync(~0u, threadIdx.x / hopper_group, 0);
    const int first = warpgroup % groups,
              set = warpgroup / groups; // of the row blocks, of the sets
    const bool turns = hopper_sets(columns, split, tiles) > 1;
    const uint32_t zeros = ring.memory + (uint32_t)ring.stages * ring.bytes;
    enum {
        finished = columns / split,
        ahead = hopper_extras_ahead(finished, split, !shortcut),
    };
    float sum[blocks][columns / 2];
    uint32_t turn = 0;
    if (p.programmatic) {
        pdl_wait(); // before the first output
    }
    int next = hopper_tile(p, work, set);
    for (int tile = set; tile < work.tiles; tile += hopper_sets(columns, split, tiles)) {
        // Where sets take turns one multiplies meanwhile, and registers are scarcer than time.
        int number = turns ? hopper_tile(p, work, tile) : next;
        int output[blocks][2];
        next = turns ? 0 : hopper_tile(p, work, tile + 1);
        hopper_rows_load<blocks>(p, work.outputs, number * hopper_blocks + first, output);
        uint2 extra[blocks][hopper_extras(finished, split)][2];
        if (ahead > 0 && p.residual && hopper_is_plain(p)) {
            const int half = split > 1 ? hopper_share() * finished : 0;
            const int channel = work.channel + half + hopper_own();
#pragma unroll
            for (int i = 0; i < blocks; ++i) {
                hopper_residual_load<E>(p, channel, output[i], 0, 0, ahead, extra[i]);
            }
        }
        if (turns && tile > 0) {
            hopper_turn_take(set, first, turn, ring);
            turn ^= 1;
        }
        hopper_sum_any<E, columns, split, tiles, row, blocks, shortcut>(p, shared, set, first,
                                                                        zeros, ring, sum);
        if constexpr (split == 1) {
            hopper_finish<E, columns, blocks, shortcut>(p, shared, work.channel, output, extra,
                                                        sum);
        } else {
            hopper_finish_half<E, columns, shortcut>(p, shared, work.channel, output[0], extra[0],
                                                     tile, first, ring, sum[0]);
        }
    }
}

// ---- kernel -------------------------------------------------------------------------------------

// The epilogue's numbers of the slice: see conv_output_of.
SPIRA_DEVICE void hopper_vectors(const conv_tensor_params &p, int channel, int columns, int i,
                                 hopper_shared &shared) {
    if (i < columns) {
        bool inside = channel + i < p.cout;
        float scale = inside && p.epilogue.scale ? p.epilogue.scale[channel + i] : 1.0f;
        float shift = inside && p.epilogue.shift ? p.epilogue.shift[channel + i] : 0.0f;
        float bias = inside && p.epilogue.bias ? p.epilogue.bias[channel + i] : 0.0f;
        shared.scale[i] = scale;
        shared.scale[hopper_columns_most + i] = fmaf(bias, scale, shift);
    }
}

// And of its shortcut. Sums that are added have one scale, the shortcut's: the others are
// multiplied by what theirs is to it. One that is next to nothing beside theirs is taken to be
// larger, so that this does not overflow: what that adds is less than their rounding.
SPIRA_DEVICE void hopper_shortcut_vectors(const conv_tensor_params &p, int channel, int columns,
                                          int i, hopper_shared &shared) {
    const conv_tensor_shortcut &s = p.shortcut;
    if (i < columns) {
        const bool inside = channel + i < p.cout;
        const float scale = shared.scale[i], least = fabsf(scale) * 0x1p-60f;
        float own = inside && s.scale ? s.scale[channel + i] : 1.0f;
        float shift = inside && s.shift ? s.shift[channel + i] : 0.0f;
        float bias = inside && s.bias ? s.bias[channel + i] : 0.0f;
        shared.scale[hopper_columns_most + i] += fmaf(bias, own, shift);
        own = fabsf(own) < least ? copysignf(least, own) : own;
        shared.scale[i] = own;
        shared.ratio[i] = own == 0.0f ? 1.0f : scale / own;
    }
}

// Whether threads that fetch begin while those that multiply prepare the epilogue. Where a warp
// fills a stage alone they do not: the compiler would then keep the addresses of its copies in one
// register, in turn, and each copy wait for the one before.
SPIRA_BOTH constexpr bool hopper_apart(int columns, int split) {
    return hopper_team(columns, split) > 1;
}

// What the epilogue needs, and zeros: by all threads, or by those that multiply.
template <int columns, int split, int tiles, bool shortcut>
SPIRA_DEVICE void hopper_prepare(const conv_tensor_params &p, const hopper_ring &ring,
                                 hopper_shared &shared) {
    const int channel = (int)blockIdx.y * columns;
    const int threads = hopper_apart(columns, split) ? hopper_multipliers(columns, split, tiles)
                                                     : hopper_threads(columns, split, tiles);
    // One round: all channels have a thread. Where fetching waits for it, with a shortcut, it is a
    // loop all the same: without one the kernel of 128 columns spills in bf16.
    constexpr bool loop = shortcut && !hopper_apart(columns, split);
    int i = (int)threadIdx.x;
    do {
        hopper_vectors(p, channel, columns, i, shared);
        if (shortcut) {
            hopper_shortcut_vectors(p, channel, columns, i, shared);
        }
        i += (int)blockDim.x;
    } while (loop && i < columns);
    for (int at = threadIdx.x * 16; at < hopper_zeros(columns, split); at += threads * 16) {
        shared_store_4(ring.memory + ring.stages * ring.bytes + at, make_uint4(0, 0, 0, 0));
    }
}

// row: see hopper_stage_bytes.
template <typename E, int columns, int split, int tiles, int row, bool shortcut>
SPIRA_KERNEL void __launch_bounds__(hopper_threads(columns, split, tiles),
                                    hopper_resident(columns, tiles))
    hopper_kernel(const __grid_constant__ conv_tensor_params p) {
#if SPIRA_WGMMA
    if (!p.programmatic) {
        pdl_wait();
    }
    extern __shared__ __align__(128) char hopper_dynamic[];
    __shared__ __align__(16) hopper_shared shared;
    if ((int)threadIdx.x < p.size.depth) {
        mbarrier_init(&shared.empty[threadIdx.x], hopper_blocks / hopper_each(columns, split) * 4);
        mbarrier_init(&shared.full[threadIdx.x],
                      hopper_team(columns, split) * 32 + 1); // copies, a word
    }
    if (threadIdx.x < 2 * hopper_blocks) {
        mbarrier_init(&shared.turn[0][0] + threadIdx.x, 4);
    }
    if (threadIdx.x < hopper_blocks) {
        mbarrier_init(&shared.ready[threadIdx.x], 1); // and the bytes of the sums
        mbarrier_init(&shared.taken[threadIdx.x], 1);
    }
    mbarrier_init_fence();
    const hopper_ring ring = hopper_ring_of(p, columns, row, shared, hopper_dynamic);
    if constexpr (!hopper_apart(columns, split)) {
        hopper_prepare<columns, split, tiles, shortcut>(p, ring, shared);
    }
    __syncthreads();
    if (split > 1) {
        cluster_sync_begin(); // the barriers are there
    }
    if (__shfl_sync(~0u, threadIdx.x / hopper_group, 0) >=
        hopper_multipliers(columns, split, tiles) / hopper_group) {
        if constexpr (hopper_registers_shared(columns, split, tiles)) {
            setmaxnreg_dec<hopper_registers_fetch(columns)>();
        }
        hopper_fetch_any<E, columns, split, tiles, row, shortcut>(p, ring);
        if (split > 1) {
            cluster_sync_end();
        }
    } else {
        if constexpr (hopper_registers_shared(columns, split, tiles)) {
            setmaxnreg_inc<hopper_registers_multiply(columns)>();
        }
        if constexpr (hopper_apart(columns, split)) {
            hopper_prepare<columns, split, tiles, shortcut>(p, ring, shared);
            named_barrier_sync(1, hopper_multipliers(columns, split, tiles));
        }
        if (split > 1) {
            cluster_sync_end(); // those of the other thread block too
        }
        hopper_consume<E, columns, split, tiles, row, shortcut>(p, shared, ring);
    }
    __syncthreads();
    if (split > 1) {
        cluster_sync(); // nobody looks at the shared memory of one that has ended
    }
    if ((int)threadIdx.x < p.size.depth) {
        mbarrier_inval(&shared.empty[threadIdx.x]);
        mbarrier_inval(&shared.full[threadIdx.x]);
    }
    if (threadIdx.x < 2 * hopper_blocks) {
        mbarrier_inval(&shared.turn[0][0] + threadIdx.x);
    }
    if (threadIdx.x < hopper_blocks) {
        mbarrier_inval(&shared.ready[threadIdx.x]);
        mbarrier_inval(&shared.taken[threadIdx.x]);
    }
#endif
}

// ---- how a layer is cut -------------------------------------------------------------------------

// Which layers: told by their shape alone, since weights are packed for it.
SPIRA_API bool hopper_takes(const conv_shape *s, const device_info *d) {
    int least = s->volume <= 32 ? 16 : 32;
    return d->hopper && numeric_size(s->type) == 2 && s->volume <= hopper_volume_most &&
           s->cin + s->cin2 >= least && s->cout >= least;
}

// Columns there are kernels for.
SPIRA_API int hopper_columns_next(int columns) {
    return columns < 32 ? 32 : columns < 64 ? 64 : columns < 96 ? 96 : columns < 128 ? 128 : 256;
}

// The fewest that hold all output channels, if 128 or less do.
SPIRA_API int hopper_columns_choose(int cout) {
    int columns = 32;
    while (columns < cout && columns < 128) {
        columns = hopper_columns_next(columns);
    }
    return columns;
}

// Bytes of a row of a stage, of the layer.
SPIRA_API int hopper_stage_row(const conv_shape *s) {
    return (int)max_of(hopper_part_bytes(s), hopper_part_whole);
}

// conv_sizes: `slices` are a thread block's output channels / 32, `split` is 1, or 2 for 64, 128
// and 256 channels; `tiles` is 1, or 2 for 64 channels that are not split (hopper_sets). Long parts
// are for thread blocks of all of 65 to 96 output channels. What is not plain (hopper_is_plain) is
// computed with a split of 1 always.
SPIRA_API bool hopper_sizes_fit(const conv_shape *s, const device_info *d, const conv_sizes *size) {
    if (size->slices < 1 || size->slices > hopper_columns_most / 32) {
        return false;
    }
    int columns = size->slices * 32, row = hopper_stage_row(s);
    return hopper_columns_next(columns - 1) == columns &&
           (size->tiles == 1 || (size->tiles == 2 && columns == 64 && size->split == 1)) &&
           (size->split == 1 || (size->split == 2 && columns % 64 == 0)) &&
           (columns <= hopper_columns_choose(s->cout) || s->cout > 128) &&
           (row == hopper_part_whole || columns == hopper_long_columns) &&
           hopper_stages(columns, row, size, d->shared_max) >= hopper_teams;
}

SPIRA_API int hopper_sizes_list(const conv_shape *s, const device_info *d, conv_sizes *sizes) {
    int count = 0;
    for (int slices = 1; slices <= hopper_columns_most / 32; ++slices) {
        for (int split = 1; split <= 2; ++split) {
            for (int tiles = 1; tiles <= 2; ++tiles) {
                conv_sizes c = {tiles, slices, split, 1};
                if (hopper_sizes_fit(s, d, &c)) {
                    sizes[count++] = c;
                }
            }
        }
    }
    return count;
}

// Stages of a tile that has all offsets.
SPIRA_API int64_t hopper_stages_of_tile(const conv_shape *s) {
    return ceil_div((int64_t)s->volume * hopper_parts(s), hopper_slots(hopper_part_bytes(s)));
}

// 256 output channels at a time read rows half as often, where there are tiles for all; where there
// are fewer, but more than pairs of thread blocks, two share one, unless that leaves more channels
// empty. Of up to 128 channels they do so where there are no more tiles than thread blocks have
// room. Either if a tile has enough to share; with 64 channels a thread block takes two of few
// tiles otherwise.
SPIRA_API conv_sizes hopper_sizes_choose(const conv_shape *s, int32_t capacity,
                                         const device_info *d) {
    enum { worth = 48 }; // stages; with 27 it is slower, with 54 as quick, with 62 quicker
    const bool worthy = hopper_stages_of_tile(s) >= worth;
    const int64_t pairs = order_pairs(order_count(capacity)), wide = ceil_div(s->cout, 256);
    const bool full = 2 * wide == ceil_div(s->cout, 128);
    const bool most = s->cout > 128 && pairs >= 2 * d->multiprocessors;
    const bool halves = full && !most && worthy && 2 * pairs * wide > d->multiprocessors;
    const int columns = most || halves ? 256 : hopper_columns_choose(s->cout);
    const int64_t blocks = pairs * ceil_div(s->cout, columns);
    const bool few = blocks <= d->multiprocessors * hopper_resident(columns, 1);
    const int slices = columns / 32, split = halves || (few && worthy) ? 2 : 1;
    const conv_sizes best = {few && split == 1 && columns == 64 ? 2 : 1, slices, split, 1};
    return hopper_sizes_fit(s, d, &best) ? best : conv_sizes{1, slices, 1, 1};
}

template <typename E, int columns, int split, int tiles, int row, bool shortcut>
SPIRA_API status hopper_launch(conv_tensor_params p, const device_info *d, cudaStream_t stream) {
    auto kernel = hopper_kernel<E, columns, split, tiles, row, shortcut>;
    p.size.split = split;
    p.size.tiles = tiles;
    p.size.depth = hopper_stages(columns, row, &p.size, d->shared_max);
    p.slices = (int)ceil_div(p.cout, columns);
    int bytes = hopper_memory_bytes(columns, row, split, p.size.depth);
    int64_t pairs = order_pairs(order_count(p.capacity));
    int64_t resident = d->multiprocessors * hopper_resident(columns, tiles) / p.slices / split;
    const dim3 grid((unsigned)split, (unsigned)p.slices,
                    (unsigned)max_of(min_of(pairs, resident), 1));
    SPIRA_TRY(status_from_cuda(
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
        "conv (shared memory)"));
    return kernel_launch(kernel, grid, hopper_threads(columns, split, tiles), (size_t)bytes,
                         p.programmatic, split, stream, "conv", p);
}

// The instance of a layer's columns, split and parts. Few layers have a shortcut: with one, 64
// columns do for 32 as well, and are not split.
template <typename E, bool shortcut>
SPIRA_API status hopper_run_any(const conv_tensor_params &p, const device_info *d,
                                cudaStream_t stream) {
    enum { row = hopper_part_whole, least = shortcut ? 64 : 32, split_of_64 = shortcut ? 1 : 2 };
    const bool split = p.size.split > 1 && hopper_is_plain(p);
    switch (p.size.slices) {
    case 1:
        return hopper_launch<E, least, 1, 1, row, shortcut>(p, d, stream);
    case 2:
        return split ? hopper_launch<E, 64, split_of_64, 1, row, shortcut>(p, d, stream)
               : p.size.tiles > 1 ? hopper_launch<E, 64, 1, 2, row, shortcut>(p, d, stream)
                                  : hopper_launch<E, 64, 1, 1, row, shortcut>(p, d, stream);
    case 3:
        return p.part == hopper_part_long
                   ? hopper_launch<E, 96, 1, 1, hopper_part_long, shortcut>(p, d, stream)
                   : hopper_launch<E, 96, 1, 1, row, shortcut>(p, d, stream);
    case 4:
        return split ? hopper_launch<E, 128, 2, 1, row, shortcut>(p, d, stream)
                     : hopper_launch<E, 128, 1, 1, row, shortcut>(p, d, stream);
    default: // few tiles, if they cannot be shared, by fewer channels at a time: more thread blocks
        return split              ? hopper_launch<E, 256, 2, 1, row, shortcut>(p, d, stream)
               : p.size.split > 1 ? hopper_launch<E, 128, 1, 1, row, shortcut>(p, d, stream)
                                  : hopper_launch<E, 256, 1, 1, row, shortcut>(p, d, stream);
    }
}

// size: fits. shortcuts: the kernels that add a shortcut are compiled too.
template <typename E, bool shortcuts>
SPIRA_API status hopper_run(const conv_tensor_params &p, const device_info *d,
                            cudaStream_t stream) {
    if constexpr (shortcuts) {
        if (p.shortcut.parts) {
            return hopper_run_any<E, true>(p, d, stream);
        }
    }
    return hopper_run_any<E, false>(p, d, stream);
}

} // namespace spira

#endif
