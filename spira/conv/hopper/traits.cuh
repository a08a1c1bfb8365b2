// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/conv/hopper/traits.cuh: the variants of Hopper's kernel and the resources of each: threads,
// register budgets, shared memory.
//
// A variant is given by
//   columns   output channels of a thread block: 32, 64, 96, 128, 256
//   split     thread blocks that share the offsets of a tile, as a cluster: 1, 2, or
//   hopper_several:
//             conv_sizes.split of them, and each tile has a cluster of its own
//   tiles     tiles that a thread block of 64 columns has under way: 1, 2
//   row       bytes of a row of a stage: 128, or of long chunks 192, of int8 96 (weights.cuh)
//   shortcut  the variant adds a fused 1x1x1 shortcut
//   mixed     residual and output have formats of their own: always in int8
// The functions serve the host, which chooses a variant at run time; the kernel takes
// hopper_traits, which has their values for one variant.
#ifndef SPIRA_CONV_HOPPER_TRAITS_CUH
#define SPIRA_CONV_HOPPER_TRAITS_CUH

#include "../../base/ring.cuh"
#include "../schedule.cuh"
#include "weights.cuh"

#include <type_traits>

namespace spira {

enum {
    hopper_warpgroup = 128, // threads
    hopper_row_groups = 2,  // of a tile: 64 outputs each (order.h)
    hopper_teams = 4,       // of producer warps
    hopper_columns_most = 256,
    hopper_several = 8,    // thread blocks that share a tile, at most
    hopper_tile_warps = 8, // consumer warps of such a tile
    hopper_stages_most = 8,
    hopper_steps = 4, // bits of a row group in a stage's header
};

// ---- thread blocks, warpgroups and warps --------------------------------------------------------

SPIRA_BOTH constexpr int hopper_resident(int columns, int split, int tiles) {
    return columns <= 64 && split <= 2 && tiles == 1 ? 2 : 1;
}

// Sets of consumer warpgroups. Two sets alternate between the tiles of a thread block (ping-pong):
// one multiplies while the other finishes its outputs. Registers allow that up to 128 columns. Not
// where thread blocks share a tile. With 64 columns, two thread blocks of one set share a
// multiprocessor, or one of two sets has it alone. The latter is for few tiles: the tile with the
// most offsets then has the whole ring.
SPIRA_BOTH constexpr int hopper_sets(int columns, int split, int tiles) {
    return columns <= 64 ? tiles : columns <= 128 && split == 1 ? 2 : 1;
}

// Row groups of a consumer warpgroup: both where registers allow, since the cost of a stage besides
// its products does not depend on how many there are.
SPIRA_BOTH constexpr int hopper_consumer_row_groups(int columns, int split) {
    return columns <= 64 && split == 1 ? 2 : 1;
}

// Producer warps that fill a stage together, each of them an equal share of the row groups. A warp
// issues a copy every 32 cycles at best, so there are as many warps as registers allow: consumers
// of 128 columns need 90 registers a thread, which two sets leave beside four producer warps.
SPIRA_BOTH constexpr int hopper_team_warps(int columns, int split) {
    return columns <= 96 || (columns == 128 && split > 1) ? 2 : 1;
}

SPIRA_BOTH constexpr int hopper_consumers(int columns, int split, int tiles) {
    return hopper_sets(columns, split, tiles) * hopper_row_groups /
           hopper_consumer_row_groups(columns, split) * hopper_warpgroup;
}

// Producer threads: eight warps, two for a stage, or four, one for a stage.
SPIRA_BOTH constexpr int hopper_producers(int columns, int split) {
    return hopper_teams * hopper_team_warps(columns, split) * 32;
}

// ---- registers ----------------------------------------------------------------------------------

// Whether stages may hold the quarter chunks of four offsets (hopper_chunk_bytes).
SPIRA_BOTH constexpr bool hopper_quarters(int columns, bool integer) {
    return columns == 32 && integer;
}

// Whether producers give registers to consumers (setmaxnreg). All threads begin with 80, with 256
// columns with 168.
SPIRA_BOTH constexpr bool hopper_registers_move(int columns, int split, int tiles) {
    return split == 1 ? columns == 96 || (columns <= 64 && tiles == 1) : columns == 256;
}

// The register budget of a producer thread, then of a consumer thread, where they move.
SPIRA_BOTH constexpr int hopper_registers_producer(int columns, bool quarters = false) {
    return quarters ? 64 : columns <= 64 ? 56 : columns <= 96 ? 48 : 88;
}

SPIRA_BOTH constexpr int hopper_registers_consumer(int columns, bool quarters = false) {
    return quarters ? 112 : columns <= 64 ? 128 : columns <= 96 ? 96 : 208;
}

static_assert(2 * hopper_registers_producer(64) + hopper_registers_consumer(64) == 3 * 80,
              "two producer warps for one consumer warp");
static_assert(2 * hopper_registers_producer(32, true) + hopper_registers_consumer(32, true) ==
                  3 * 80,
              "the same");
static_assert(hopper_registers_producer(96) + 2 * hopper_registers_consumer(96) == 3 * 80,
              "one for two");
static_assert(hopper_registers_producer(256) + 2 * hopper_registers_consumer(256) == 3 * 168,
              "one for two");

// Pieces of a row (32 bytes, hopper_traits.piece) whose residual a thread loads in one batch, as
// registers allow: each batch is one wait. columns: those that the thread block finishes, in so
// many pieces.
SPIRA_BOTH constexpr int hopper_residual_batch(int columns, int split, int pieces) {
    return split > 1 || columns <= 64 || pieces == 3 ? pieces
           : columns == 96                           ? 4
           : columns == 128 && pieces == 4           ? 1
                                                     : 2;
}

// Pieces whose residual is loaded before the products: all of them up to 64 columns, but one of two
// where two thread blocks share 32. With 96 columns of 16 bits none: with more code or registers in
// their consumers the compiler keeps the addresses of all row copies of a producer in one register.
SPIRA_BOTH constexpr int hopper_residual_prefetch(int columns, int split, int pieces) {
    return columns == 32 && split > 1     ? 1
           : columns <= 64 || pieces == 3 ? pieces
           : split > 1 || columns == 96   ? 0
                                          : 1;
}

// Whether producers start while consumers still prepare the epilogue. Not where one warp fills a
// stage alone: the compiler would then keep the addresses of all its copies in one register, and
// each copy would wait for the one before it.
SPIRA_BOTH constexpr bool hopper_producers_start_early(int columns, int split) {
    return hopper_team_warps(columns, split) > 1;
}

// ---- shared memory ------------------------------------------------------------------------------

// Bytes of a stage, or of one of its regions: two row groups and the weights. row: bytes of a row.
SPIRA_BOTH constexpr int hopper_stage_bytes(int columns, int row) {
    return ((int)hopper_row_groups * wgmma_rows + columns) * row;
}

// Whether stages may hold half chunks (hopper_chunk_bytes).
SPIRA_BOTH constexpr bool hopper_halves(int columns) {
    return columns <= 64;
}

// Bytes of zeros behind the stages. Matrix instructions read them in place of a row group that does
// not have the offset, and in place of an offset that the stage does not have.
SPIRA_BOTH int hopper_zero_bytes(int columns, int split) {
    const int rows = (int)max_of(hopper_consumer_row_groups(columns, split) * wgmma_rows, columns);
    return hopper_halves(columns) ? rows * wgmma_row_most / 2 : 0;
}

// Accumulators that a thread receives in one round of the exchange between two thread blocks, of
// columns / 4 in all. A round costs one round trip, so there are as few as leave room for four
// stages.
SPIRA_BOTH constexpr int hopper_exchange_sums(int columns) {
    return columns < 128 ? columns / 8 : columns == 128 ? columns / 4 : 24;
}

// Bytes of a round, of a warpgroup.
SPIRA_BOTH int hopper_exchange_bytes(int columns) {
    return hopper_warpgroup * hopper_exchange_sums(columns) * (int)sizeof(float);
}

// Bytes of dynamic shared memory.
SPIRA_BOTH int hopper_memory_bytes(int columns, int row, int split, int stages) {
    return wgmma_align + stages * hopper_stage_bytes(columns, row) +
           hopper_zero_bytes(columns, split) +
           (split == 2 ? hopper_row_groups * hopper_exchange_bytes(columns) : 0);
}

// The header of a stage: bits of each row group, for each of its offsets that has pairs; then
// whether the stage is the last of its tile (with a shortcut: the last of the offsets, or of the
// shortcut).
enum { hopper_header_last = 1 << hopper_steps * hopper_row_groups };

// Static shared memory.
struct hopper_shared {
    ring_barriers ring[hopper_stages_most];     // first: hopper_ring_of
    uint64_t pingpong[2][hopper_row_groups];    // mbarriers: the set may go on
    uint64_t received[hopper_tile_warps];       // mbarriers: the other thread blocks' accumulators
                                                // are here, of each row group or warp
    uint64_t consumed[hopper_row_groups];       // those sent to it have been read there
    uint32_t pingpong_at[2][hopper_row_groups]; // where in the ring the set goes on
    uint32_t header[hopper_stages_most];        // of each stage
    alignas(16) float scale[2 * hopper_columns_most]; // of the slice's channels; then their shifts
    float ratio[hopper_columns_most];                 // scale / the shortcut's scale
};

// Stages that fit. Each thread block has 1024 bytes of its own besides.
SPIRA_BOTH int hopper_stages(int columns, int row, const conv_sizes *size, int shared) {
    int each = (shared + 1024) / hopper_resident(columns, size->split, size->tiles) - 1024 -
               (int)round_up(sizeof(hopper_shared), 128) -
               hopper_memory_bytes(columns, row, size->split, 0);
    return (int)min_of(each / hopper_stage_bytes(columns, row), hopper_stages_most);
}

// ---- traits -------------------------------------------------------------------------------------

// One variant of the kernel. Kernels and device functions take it as one template argument, T.
template <typename E, int columns_, int split_, int tiles_, int row_, bool shortcut_,
          bool mixed_ = false>
struct hopper_traits {
    typedef E element;
    typedef typename numeric_sum<E>::type sum;
    static constexpr bool integer = sizeof(E) == 1, mixed = mixed_ || integer;
    static constexpr numeric type = integer                          ? numeric_i8
                                    : std::is_same<E, __half>::value ? numeric_f16
                                                                     : numeric_bf16;
    static constexpr int columns = columns_, split = split_, tiles = tiles_, row = row_;
    static constexpr bool shortcut = shortcut_;

    static constexpr int resident = hopper_resident(columns, split, tiles);
    static constexpr int consumers = hopper_consumers(columns, split, tiles);
    static constexpr int producers = hopper_producers(columns, split);
    static constexpr int threads = consumers + producers;

    static constexpr int sets = hopper_sets(columns, split, tiles);
    static constexpr int row_groups = hopper_consumer_row_groups(columns, split);
    static constexpr int set_warpgroups = hopper_row_groups / row_groups;
    static constexpr int team_warps = hopper_team_warps(columns, split);
    static constexpr int team_row_groups = hopper_row_groups / team_warps; // of a producer warp

    static constexpr bool registers_move = hopper_registers_move(columns, split, tiles);
    static constexpr bool early = hopper_producers_start_early(columns, split);
    static constexpr bool halves = hopper_halves(columns) && !shortcut;
    static constexpr int half = halves ? (int)hopper_chunk_half : row;
    static constexpr bool quarters = hopper_quarters(columns, integer) && !shortcut;
    static constexpr int quarter = quarters ? (int)hopper_chunk_quarter : row;
    static constexpr int shortcut_chunk = hopper_chunk_shortcut(row);

    static constexpr int piece = 32 / (int)sizeof(E); // channels of a piece of the residual
    // Columns that the thread block finishes, or finishes at a time.
    static constexpr int finished = split > 2 ? piece : columns / split;
    static constexpr int batch = hopper_residual_batch(finished, split, finished / piece);
    // Whether the general path, too, has all of a residual loaded before the products.
    static constexpr bool ahead = split == 1 && columns <= 64 && !mixed;
    // Accumulators that it finishes at a time, as registers allow.
    static constexpr int general = columns <= 64 ? 32 : 16;
    static constexpr int prefetch =
        shortcut && !ahead ? 0 : hopper_residual_prefetch(finished, split, finished / piece);
};

// ---- tiles --------------------------------------------------------------------------------------
// A tile is a pair of row groups; the thread blocks of a cluster may share it (conv/schedule.cuh).

// Rank in the cluster.
SPIRA_DEVICE int hopper_cluster_rank() {
    return (int)blockIdx.x;
}

template <int columns>
SPIRA_DEVICE conv_work hopper_work_of(const conv_params &p) {
    return conv_work_of<columns, hopper_row_groups>(p);
}

// Number of the worker's `tile`-th tile in the layout; unspecified past the last.
SPIRA_DEVICE int hopper_tile(const conv_params &p, const conv_work &w, int tile) {
    return conv_pair_at(p, tile < w.tiles, conv_tile_place(w, tile));
}

} // namespace spira

#endif
