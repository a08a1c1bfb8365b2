// spira/conv/portable/traits.cuh: the variants of the portable kernel, and the shared memory of
// each.
//
// A variant is given by the part of the output that a warp computes (bands of 16 output channels,
// fragments of 8 rows: the instruction's two sides), and by how many warps stand side by side
// (`across` the channels, `down` the rows), and by the arithmetic: matrix instructions or, for
// exact fp32, fused multiply-adds. All warps of a thread block gather an equal share of its rows.
#ifndef SPIRA_CONV_PORTABLE_TRAITS_CUH
#define SPIRA_CONV_PORTABLE_TRAITS_CUH

#include "../schedule.cuh"

namespace spira {

enum {
    portable_band = 16,                                             // output channels
    portable_fragment = 8,                                          // rows
    portable_fragment_bytes = portable_fragment * conv_chunk_bytes, // of a stage
    portable_word_fragments = 4,                                    // of a word of the header
    portable_stages_least = 3,
    portable_stages_most = 6,
    portable_volume_most = 1024, // offsets: 32 words of the mask, one a lane
    portable_ahead =
        portable_stages_most, // entries whose source rows are on their way (cursor.cuh)
    portable_slots = 8,       // for entries: at least two more, a power of two
};

// ---- variants -----------------------------------------------------------------------------------

// Thread blocks of a multiprocessor at a time, as registers allow.
SPIRA_BOTH constexpr int portable_resident(int columns, int rows) {
    return rows > 128 ? (columns > 64 ? 1 : 2) : columns > 64 ? 2 : columns > 32 ? 3 : 4;
}

// Behind a chunk of each row and the weights of each column, a stage holds its header: a word for
// each 32 rows, with a bit for each row that has a source, and for exact variants how many pieces
// of 16 bytes of a row have channels.
SPIRA_BOTH constexpr int portable_header_bytes(int rows) {
    return (rows / 32 + 4) * (int)sizeof(uint32_t);
}

// Bytes of a stage.
SPIRA_BOTH constexpr int portable_stage_bytes(int columns, int rows) {
    return (rows + columns) * conv_chunk_bytes + portable_header_bytes(rows);
}

// Static shared memory.
template <int columns, int warps, int gathered>
struct portable_shared {
    alignas(16) float scale[2 * columns]; // of the slice's channels; then their shifts
    float ratio[columns];                 // scale / the shortcut's scale
    uint32_t slot[warps][portable_slots][gathered + 1]; // cursor.cuh
};

// Bytes of static shared memory, at most.
SPIRA_BOTH constexpr int portable_fixed_bytes(int columns, int rows) {
    return (3 * columns * (int)sizeof(float) + rows / 32 * portable_slots * 33 * 4 + 127) / 128 *
           128;
}

// Stages that fit, if `resident` thread blocks share a multiprocessor. shared: of the device, for a
// thread block; a multiprocessor has 1024 bytes more, of which each thread block takes 1024.
SPIRA_BOTH int portable_stages(int columns, int rows, int resident, int shared) {
    const int each = (shared + 1024) / resident - 1024 - portable_fixed_bytes(columns, rows);
    return (int)min_of(each / portable_stage_bytes(columns, rows), portable_stages_most);
}

// Thread blocks of a multiprocessor: as many as have a ring of a few stages each.
SPIRA_BOTH int portable_resident_on(int columns, int rows, int shared) {
    int resident = portable_resident(columns, rows);
    while (resident > 1 &&
           portable_stages(columns, rows, resident, shared) < portable_stages_least) {
        --resident;
    }
    return resident;
}

// One variant of the kernel. Kernels and device functions take it as one template argument, T.
template <typename E, int bands_, int fragments_, int across_, int down_, bool exact_ = false>
struct portable_traits {
    typedef E element;
    static constexpr bool exact = exact_;                        // multiply_exact.cuh; fp32
    static constexpr int bands = bands_, fragments = fragments_; // of a warp
    static constexpr int across = across_, down = down_;         // warps

    static constexpr int columns = portable_band * bands * across; // output channels
    static constexpr int rows = portable_fragment * fragments * down;
    static constexpr int pairs = rows / (conv_pair_groups * order_rows); // of row groups
    static constexpr int stage_bytes = portable_stage_bytes(columns, rows);
    static constexpr int header = (rows + columns) * conv_chunk_bytes; // where a stage has it
    static constexpr int pieces = header + rows / 32 * 4;              // and in it, the pieces
    static constexpr int threads = 32 * across * down;
    static constexpr int gathered = rows / across / down; // rows that a warp gathers: 32, 64
    static constexpr int warp_fragments = gathered / portable_fragment; // and their fragments
    static constexpr int resident = portable_resident(columns, rows);

    // Fragments whose residual is loaded in one batch, as registers allow.
    static constexpr int batch = sizeof(E) == 4 ? 1 : 2;

    static constexpr int words = gathered / 32; // of a warp, in the header
    static constexpr int slot_bytes = (gathered + 1) * (int)sizeof(int32_t);

    typedef portable_shared<columns, threads / 32, gathered> shared;
    static_assert(sizeof(shared) <= portable_fixed_bytes(columns, rows), "its bytes");
    static_assert(!exact || sizeof(E) == 4, "exact products are of fp32");
    static_assert(gathered == 32 || gathered == 64, "whole words, of one row group");
    static_assert(bands % 2 == 0, "two bands are four neighbouring channels of a lane");
    static_assert(pairs == 1 || pairs == 2, "portable_valid_load");
};

} // namespace spira

#endif
