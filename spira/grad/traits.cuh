// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/grad/traits.cuh: the variants of the weight gradient's kernel, and the shared memory of
// each.
//
// A variant is given by its tile: so many input channels (rows) and output channels (columns).
// Warps share it 2 x 2, or 4 x 2 in the largest. In the smallest each warp has the whole tile and a
// quarter of the pairs of a chunk; they add up their sums at the end of a list.
#ifndef SPIRA_GRAD_TRAITS_CUH
#define SPIRA_GRAD_TRAITS_CUH

#include "share.cuh"

namespace spira {

// Rows of a tile: 16, 32, 64, 128, or 256 (16-bit formats). They name the variant.
enum { grad_rows_least = 16, grad_rows_most = 256 };

SPIRA_BOTH constexpr int grad_columns(int rows) {
    return rows > 128 ? 128 : rows;
}

SPIRA_BOTH constexpr int grad_elements(int rows) {
    return rows * grad_columns(rows);
}

// Warps along the rows, along the columns, and that share the pairs of a chunk.
SPIRA_BOTH constexpr int grad_down(int rows) {
    return rows > 128 ? 4 : rows > 16 ? 2 : 1;
}

SPIRA_BOTH constexpr int grad_across(int rows) {
    return rows > 16 ? 2 : 1;
}

SPIRA_BOTH constexpr int grad_split(int rows) {
    return rows > 16 ? 1 : 4;
}

// Pairs of a stage. element: bytes.
SPIRA_BOTH constexpr int grad_chunk(int rows, int element) {
    return (rows > 128 ? 16 : rows > 16 ? 8 : 4) * 1024 / (rows * element);
}

SPIRA_BOTH constexpr int grad_stages(int rows) {
    return rows > 128 || rows < 32 ? 4 : 3;
}

// Thread blocks of a multiprocessor at a time, as registers allow.
SPIRA_BOTH constexpr int grad_resident(int rows) {
    return rows > 128 ? 1 : rows > 64 ? 2 : 3;
}

// Bytes of the ring.
SPIRA_BOTH constexpr int grad_ring_bytes(int rows, int element) {
    return grad_stages(rows) * grad_chunk(rows, element) * (rows + grad_columns(rows)) * element;
}

// Bytes of the sums of warps that split the pairs.
SPIRA_BOTH constexpr int grad_split_bytes(int rows) {
    return grad_split(rows) > 1 ? grad_split(rows) * grad_elements(rows) * 4 : 0;
}

// Bytes of dynamic shared memory: the ring, these sums, and where lists begin.
SPIRA_BOTH int grad_bytes(int rows, int element, int volume) {
    return grad_ring_bytes(rows, element) + grad_split_bytes(rows) + (volume + 1 + 31) / 32 * 128;
}

// One variant of the kernel. Kernels and device functions take it as one template argument, T.
template <typename E, int rows_>
struct grad_traits {
    typedef E element;
    static constexpr int rows = rows_, columns = grad_columns(rows), elements = rows * columns;
    static constexpr int down = grad_down(rows), across = grad_across(rows); // warps
    static constexpr int split = grad_split(rows), warps = down * across * split;
    static constexpr int threads = 32 * warps, resident = grad_resident(rows);
    static constexpr int bands = rows / 16 / down;            // of 16 input channels, of a warp
    static constexpr int fragments = columns / 8 / across;    // of 8 output channels, of a warp
    static constexpr int step = sizeof(E) == 2 ? 16 : 8;      // pairs of an instruction
    static constexpr int chunk = grad_chunk(rows, sizeof(E)); // pairs of a stage
    static constexpr int gathered = chunk / warps;            // pairs, by a warp
    static constexpr int steps = chunk / split / step;        // of a warp
    static constexpr int in_pitch = rows * sizeof(E);         // bytes of a row of a stage
    static constexpr int out_pitch = columns * sizeof(E);
    static constexpr int in_bytes = chunk * in_pitch; // of a stage; the output side is behind it
    static constexpr int stage_bytes = in_bytes + chunk * out_pitch;
    static constexpr int stages = grad_stages(rows), ring_bytes = stages * stage_bytes;

    static_assert(gathered * warps == chunk && gathered <= 32, "a lane for each pair");
    static_assert(steps * split * step == chunk, "whole instructions");
    static_assert(gathered * in_pitch % 512 == 0 && gathered * out_pitch % 512 == 0, "whole warps");
    static_assert(in_pitch <= 512, "a lane has one piece of each row");
    static_assert(fragments % 2 == 0, "two are loaded together");
    static_assert(ring_bytes == grad_ring_bytes(rows, sizeof(E)), "the launcher's sum");
};

// Where a 16-byte piece of a row of a stage is, from the first row on. pitch: bytes to the next
// row. Swizzled: the lanes that read together have rows that differ modulo 8 (ldmatrix, 16 bits) or
// modulo 4 (32 bits).
template <typename E, int pitch>
SPIRA_BOTH uint32_t grad_place(uint32_t row, uint32_t piece) {
    const uint32_t turn = pitch < 128 ? row * pitch / 128 : row;
    const uint32_t flip = sizeof(E) == 2 ? turn & 7 : (turn & 3) * 2;
    return row * pitch + (piece ^ (flip & (pitch / 16 - 1))) * 16;
}

} // namespace spira

#endif
