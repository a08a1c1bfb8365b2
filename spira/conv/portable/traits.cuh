// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/conv/portable/traits.cuh: the variants of the portable kernel, and the shared memory of
// each.
//
// A variant is given by the part of the output that a warp computes (bands of 16 output channels,
// fragments of 8 rows: the instruction's two sides), and by how many warps stand side by side
// (`across` the channels, `down` the rows), and by the arithmetic: matrix instructions or, for
// exact fp32, fused multiply-adds. These are the consumer warps. With a `split` of two there are
// two sets of them, which take turns with the stages and add their sums at the end. Producer warps
// stand before them: two or four teams, with a warp for each pair of row groups of a tile.
#ifndef SPIRA_CONV_PORTABLE_TRAITS_CUH
#define SPIRA_CONV_PORTABLE_TRAITS_CUH

#include "../schedule.cuh"

namespace spira {

enum {
    portable_band = 16,                                             // output channels
    portable_fragment = 8,                                          // rows
    portable_fragment_bytes = portable_fragment * conv_chunk_bytes, // of a stage
    portable_word_fragments = 16,                                   // of a word of the header
    portable_word_bits = 2,                                         // of a fragment in it
    portable_teams_all = 4,                                         // a power of two
    portable_run_stages = 2, // stages that a team fills before it is the next team's turn
    portable_gathered = (int)conv_pair_groups * order_rows, // rows of a producer warp
    portable_lane_rows = portable_gathered / 32,
    portable_stages_least = 3,
    portable_stages_most = 8,
};

// ---- variants -----------------------------------------------------------------------------------

// Thread blocks of a multiprocessor at a time, as registers allow.
SPIRA_BOTH constexpr int portable_resident(int columns, int rows, int split) {
    return rows > 128 || split > 1 ? 1 : columns > 32 ? 2 : 3;
}

// Teams of producer warps, at most. A producer warp waits for its own instructions more than for
// its copies, so four teams fill stages faster than two, where registers allow for them.
SPIRA_BOTH constexpr int portable_teams_most(int columns) {
    return columns == 64 ? 4 : 2;
}

// Stages of a ring with four teams, at least: see cursor.cuh.
SPIRA_BOTH constexpr int portable_teams_stages(int teams) {
    return portable_run_stages * teams - 1;
}

SPIRA_BOTH constexpr int portable_producers(int columns, int rows) {
    return portable_teams_most(columns) * (rows / portable_gathered);
}

// Entries of a warp whose source rows are on their way (cursor.cuh). With 96 columns two thread
// blocks fit in 99 KB only if these are two.
SPIRA_BOTH constexpr int portable_ahead(int columns) {
    return columns == 96 ? 2 : 3;
}

SPIRA_BOTH constexpr int portable_slots(int columns) {
    return portable_ahead(columns) + 1;
}

// Behind a chunk of each row and the weights of each column, a stage holds its header: a word for
// each 128 rows, with a bit for each 4 rows of which one has a source; a word of portable_flag; and
// a tile's last stage its output rows (-1: none). Stages are aligned to 128 bytes.
SPIRA_BOTH constexpr int portable_header_bytes(int rows) {
    return ((4 + rows) * (int)sizeof(uint32_t) + 127) / 128 * 128;
}

enum portable_flag : uint32_t {
    portable_flag_last = 1,  // the stage is a tile's last
    portable_flag_scale = 2, // the stage is a shortcut's first
    portable_flag_piece = 4, // times the pieces of 16 bytes of a row that have channels: 1 .. 4
};

SPIRA_BOTH constexpr int portable_stage_bytes(int columns, int rows) {
    return (rows + columns) * conv_chunk_bytes + portable_header_bytes(rows);
}

enum { portable_slot_bytes = (portable_gathered + 4) * (int)sizeof(uint32_t) };

// Static shared memory. The mbarriers are first: racecheck computes their addresses 1024 bytes too
// low, and would report races with other members.
template <int columns, int producers>
struct portable_shared {
    uint64_t full[portable_stages_most], empty[portable_stages_most]; // mbarriers of each stage
    alignas(16) float scale[2 * columns]; // of the slice's channels; then their shifts
    float ratio[columns];                 // scale / the shortcut's scale
    alignas(16)
        uint32_t slot[producers][portable_slots(columns)][portable_slot_bytes / 4]; // cursor.cuh
};

// Bytes of static shared memory, at most.
SPIRA_BOTH constexpr int portable_fixed_bytes(int columns, int rows) {
    const int slots =
        portable_slots(columns) * portable_producers(columns, rows) * portable_slot_bytes;
    return (3 * columns * (int)sizeof(float) + portable_stages_most * 16 + slots + 127) / 128 * 128;
}

// Stages that fit, if `resident` thread blocks share a multiprocessor. shared: of the device, for a
// thread block; a multiprocessor has 1024 bytes more, of which each thread block takes 1024.
SPIRA_BOTH int portable_stages(int columns, int rows, int resident, int shared) {
    const int each = (shared + 1024) / resident - 1024 - portable_fixed_bytes(columns, rows);
    return (int)min_of(each / portable_stage_bytes(columns, rows), portable_stages_most);
}

// Thread blocks of a multiprocessor: as many as have a ring of a few stages each.
SPIRA_BOTH int portable_resident_on(int columns, int rows, int split, int shared) {
    int resident = portable_resident(columns, rows, split);
    while (resident > 1 &&
           portable_stages(columns, rows, resident, shared) < portable_stages_least) {
        --resident;
    }
    return resident;
}

// One variant of the kernel. Kernels and device functions take it as one template argument, T.
template <typename E, int bands_, int fragments_, int across_, int down_, bool exact_ = false,
          int split_ = 1, bool mixed_ = false>
struct portable_traits {
    typedef E element;
    // Whether residual and output may have formats of their own: always in int8.
    static constexpr bool mixed = mixed_ || sizeof(E) == 1;
    static constexpr bool exact = exact_;                        // multiply_exact.cuh; fp32
    static constexpr int bands = bands_, fragments = fragments_; // of a warp
    static constexpr int across = across_, down = down_;         // warps
    static constexpr int split = split_;                         // sets of warps

    static constexpr int columns = portable_band * bands * across; // output channels
    static constexpr int rows = portable_fragment * fragments * down;
    static constexpr int pairs = rows / ((int)conv_pair_groups * order_rows); // of row groups
    static constexpr int stage_bytes = portable_stage_bytes(columns, rows);
    static constexpr int header = (rows + columns) * conv_chunk_bytes; // where a stage has it
    static constexpr int flags = header + 8;                           // and in it, its flags
    static constexpr int outputs = header + 16;                        // and output rows
    static constexpr int teams = portable_teams_most(columns);
    static constexpr int producers = portable_producers(columns, rows),
                         consumers = across * down * split;
    static constexpr int threads = 32 * (producers + consumers);
    static constexpr int gathered = portable_gathered; // rows of a producer warp
    static constexpr int warp_fragments = gathered / portable_fragment;
    static constexpr int resident = portable_resident(columns, rows, split);
    static constexpr int ahead = portable_ahead(columns), slots = portable_slots(columns);

    // Whether the chunks of a run share the addresses of their rows, as registers allow.
    static constexpr bool shares = columns > 32;

    // Rows whose residual is loaded in one batch, as registers allow.
    static constexpr int batch = (sizeof(E) == 4 ? 4 : 8) / (fragments > 4 ? 4 : 1);

    typedef portable_shared<columns, producers> shared;
    static_assert(sizeof(shared) <= portable_fixed_bytes(columns, rows), "its bytes");
    static_assert(!exact || sizeof(E) == 4, "exact products are of fp32");
    static_assert(rows <= 2 * gathered, "two words of the header");
    static_assert(split == 1 || (split == 2 && fragments % 2 == 0), "a half of them each");
    static_assert(split == 1 || rows * columns * 4 <= portable_stages_least * stage_bytes,
                  "sums are handed over in the ring");
    static_assert(bands % 2 == 0, "two bands are four neighbouring channels of a lane");
    static_assert(fragments <= 8, "portable_state");
};

// The accumulators of a lane.
template <typename T>
using portable_sums = typename numeric_sum<typename T::element>::type[T::fragments][T::bands][4];

// What each of two warps finishes that have sums of the same outputs: half of the fragments.
template <typename T>
struct portable_finish_traits : T {
    static constexpr int fragments = T::fragments / 2;
    static constexpr int batch = T::batch < 2 * fragments ? T::batch : 2 * fragments;
};

} // namespace spira

#endif
