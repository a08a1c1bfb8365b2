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
    portable_stages_least = 3,
    portable_stages_most = 6,
    portable_volume_most = 1024, // offsets: 32 words of the mask, one a lane
};

// ---- variants -----------------------------------------------------------------------------------

// Thread blocks of a multiprocessor at a time, as registers allow.
SPIRA_BOTH constexpr int portable_resident(int columns, int rows) {
    return rows > 128 ? (columns > 64 ? 1 : 2) : columns > 64 ? 2 : columns > 32 ? 3 : 4;
}

// What a stage holds, behind a chunk of each row and the weights of each column: written by those
// that fill it.
struct alignas(16) portable_header {
    uint32_t valid[2]; // a byte for each 32 rows: a bit for each fragment that has a source
    uint32_t flags;
    uint32_t pieces; // of 16 bytes of a row, that have channels; exact variants
};

// Bytes of a stage.
SPIRA_BOTH constexpr int portable_stage_bytes(int columns, int rows) {
    return (rows + columns) * conv_chunk_bytes + (int)sizeof(portable_header);
}

// Bits of portable_header.flags, and of those that fill stages.
enum : uint32_t {
    portable_last = 1,         // the stage is the tile's last
    portable_rescale = 2,      // the shortcut's first
    portable_of_shortcut = 4,  // rows and weights are those of the shortcut
    portable_wide = 8,         // rows are aligned
    portable_valid_first = 16, // number of the first of the bits of portable_header.valid
};

// Static shared memory.
template <int columns>
struct portable_shared {
    alignas(16) float scale[2 * columns]; // of the slice's channels; then their shifts
    float ratio[columns];                 // scale / the shortcut's scale
};

// Bytes of static shared memory, at most.
SPIRA_BOTH constexpr int portable_fixed_bytes(int columns) {
    return (3 * columns * (int)sizeof(float) + 127) / 128 * 128;
}

// Stages that fit, if `resident` thread blocks share a multiprocessor. shared: of the device, for a
// thread block; a multiprocessor has 1024 bytes more, of which each thread block takes 1024.
SPIRA_BOTH int portable_stages(int columns, int rows, int resident, int shared) {
    const int each = (shared + 1024) / resident - 1024 - portable_fixed_bytes(columns);
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
    static constexpr int threads = 32 * across * down;
    static constexpr int gathered = rows / across / down; // rows that a warp gathers: 32, 64
    static constexpr int warp_fragments = gathered / portable_fragment; // and their fragments
    static constexpr int resident = portable_resident(columns, rows);

    // Fragments whose residual is loaded in one batch, as registers allow.
    static constexpr int batch = sizeof(E) == 4 ? 1 : 2;

    static_assert(sizeof(portable_shared<columns>) <= portable_fixed_bytes(columns), "its bytes");
    static_assert(!exact || sizeof(E) == 4, "exact products are of fp32");
    static_assert(gathered == 32 || gathered == 64, "portable_header");
    static_assert(bands % 2 == 0, "two bands are four neighbouring channels of a lane");
    static_assert(pairs == 1 || pairs == 2, "portable_header");
};

} // namespace spira

#endif
