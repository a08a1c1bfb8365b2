// spira/grad/traits.cuh: the variants of the weight gradient's kernel, and the shared memory of
// each.
//
// A variant is given by its tile: so many input channels and so many output channels. Four warps
// share a tile: 2 x 2, or, in small tiles, each with the whole tile and a quarter of the pairs of a
// chunk. These add up their sums at the end of a list.
#ifndef SPIRA_GRAD_TRAITS_CUH
#define SPIRA_GRAD_TRAITS_CUH

#include "share.cuh"

namespace spira {

enum { grad_warps = 4, grad_threads = 32 * grad_warps };

// Warps that share the pairs of a chunk.
SPIRA_BOTH constexpr int grad_split(int tile) {
    return tile < 64 ? grad_warps : 1;
}

// Bytes of one side of a stage.
SPIRA_BOTH constexpr int grad_side_bytes(int tile) {
    return tile > 64 ? 8192 : 4096;
}

SPIRA_BOTH constexpr int grad_stages(int tile) {
    return tile > 64 ? 3 : 4;
}

// Thread blocks of a multiprocessor at a time, as registers allow.
SPIRA_BOTH constexpr int grad_resident(int tile) {
    return tile > 64 ? 2 : 3;
}

// Pairs of a stage. element: bytes.
SPIRA_BOTH constexpr int grad_chunk(int tile, int element) {
    return grad_side_bytes(tile) / (tile * element);
}

SPIRA_BOTH constexpr int grad_ring_bytes(int tile) {
    return grad_stages(tile) * 2 * grad_side_bytes(tile);
}

// Bytes of the sums of warps that split the pairs.
SPIRA_BOTH constexpr int grad_split_bytes(int tile) {
    return grad_split(tile) > 1 ? grad_split(tile) * tile * tile * 4 : 0;
}

// Bytes of dynamic shared memory: the ring, these sums, and where lists begin.
SPIRA_BOTH int grad_bytes(int tile, int volume) {
    return grad_ring_bytes(tile) + grad_split_bytes(tile) + (volume + 1 + 31) / 32 * 128;
}

// One variant of the kernel. Kernels and device functions take it as one template argument, T.
template <typename E, int tile_>
struct grad_traits {
    typedef E element;
    static constexpr int tile = tile_;                   // channels, on both sides
    static constexpr int split = grad_split(tile);       // warps
    static constexpr int down = split > 1 ? 1 : 2;       // warps along the input channels
    static constexpr int across = down;                  // warps along the output channels
    static constexpr int bands = tile / 16 / down;       // of 16 input channels, of a warp
    static constexpr int fragments = tile / 8 / across;  // of 8 output channels, of a warp
    static constexpr int step = sizeof(E) == 2 ? 16 : 8; // pairs of an instruction
    static constexpr int chunk = grad_chunk(tile, sizeof(E));
    static constexpr int gathered = chunk / grad_warps;  // pairs, by a warp
    static constexpr int steps = chunk / split / step;   // of a warp
    static constexpr int pieces = tile * sizeof(E) / 16; // of 16 bytes, of a row
    static constexpr int pitch = pieces * 16;            // bytes to the next row
    static constexpr int side_bytes = grad_side_bytes(tile);
    static constexpr int stage_bytes = 2 * side_bytes;
    static constexpr int stages = grad_stages(tile);
    static constexpr int ring_bytes = grad_ring_bytes(tile);
    static constexpr int resident = grad_resident(tile);

    static_assert(gathered * grad_warps == chunk && gathered <= 32, "a lane for each pair");
    static_assert(steps * split * step == chunk, "whole instructions");
    static_assert(gathered * pieces % 32 == 0 && pieces <= 32, "a lane has one piece of each row");
    static_assert(down * across * split == grad_warps, "all warps");
    static_assert(fragments % 2 == 0, "two are loaded together");
};

// Where a 16-byte piece of a row of a stage is, from the first row on. Swizzled: the lanes that
// read together have rows that differ modulo 8 (ldmatrix, 16 bits) or modulo 4 (32 bits).
template <typename E, int pieces>
SPIRA_BOTH uint32_t grad_place(uint32_t row, uint32_t piece) {
    const uint32_t turn = pieces < 8 ? row * pieces / 8 : row;
    const uint32_t flip = sizeof(E) == 2 ? turn & 7 : (turn & 3) * 2;
    return (row * pieces + (piece ^ (flip & (pieces - 1)))) * 16;
}

} // namespace spira

#endif
