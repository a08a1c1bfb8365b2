// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/conv/hopper/weights.cuh: how a row of features is cut into chunks, and the packed weights.
//
// A chunk is the bytes of a row that one stage of the ring holds. The packed weights of a chunk lie
// as the matrix instruction reads them from shared memory (base/wgmma.h), so that one bulk copy
// brings them into a stage.
#ifndef SPIRA_CONV_HOPPER_WEIGHTS_CUH
#define SPIRA_CONV_HOPPER_WEIGHTS_CUH

#include "../../base/launch.cuh"
#include "../../base/wgmma.cuh"
#include "../epilogue.cuh"
#include "../weights.cuh"

namespace spira {

// ---- chunks of a row ----------------------------------------------------------------------------

// Bytes of a chunk. A stage of 128 bytes a row holds one whole chunk, the half chunks of two
// offsets, or the quarters of four (int8 to 32 channels at most).
enum { hopper_block = 32 }; // output channels of int8 whose weights are packed together
enum { hopper_chunk_quarter = 32, hopper_chunk_half = 64, hopper_chunk_whole = wgmma_row_most };

// The only number of columns that has kernels for long chunks.
enum { hopper_long_columns = 96 };

// Bytes of a long chunk: it has 96 channels. element: bytes of one
SPIRA_BOTH constexpr int hopper_chunk_long(int element) {
    return 96 * element;
}

// Offsets that share a stage.
SPIRA_BOTH constexpr int hopper_slots(int chunk) {
    return chunk == hopper_chunk_quarter ? 4 : chunk == hopper_chunk_half ? 2 : 1;
}

// Bytes of each row in the first region of a chunk. A long chunk has two: behind the first one are
// half as many bytes of each row.
SPIRA_BOTH constexpr int hopper_region_first(int chunk) {
    return chunk % 96 == 0 ? chunk / 3 * 2 : chunk;
}

// log2 of the bytes of a row in the region that holds a chunk's bytes from `begin` on.
SPIRA_BOTH constexpr int hopper_region_log(int chunk, int begin) {
    const int first = hopper_region_first(chunk);
    const int shorter = (first < hopper_chunk_whole) + (first < hopper_chunk_half);
    return wgmma_row_log_most - shorter - (begin > 0 ? 1 : 0);
}

SPIRA_BOTH int hopper_pieces(int channels, int element) {
    return (int)((uint32_t)(channels * element + conv_lane_bytes - 1) / conv_lane_bytes);
}

// Bytes of a row of both sources. The pieces of the second source follow those of the first.
SPIRA_BOTH int hopper_row_bytes(const conv_shape *s) {
    const int element = numeric_size(s->type);
    return (hopper_pieces(s->cin, element) + hopper_pieces(s->cin2, element)) * conv_lane_bytes;
}

// Bytes of a chunk. Depends on the shape alone, since weights are packed for it. Chooses the chunk
// that pads the row least; of two that pad it alike the whole chunk, which leaves room for more
// stages.
SPIRA_BOTH int hopper_chunk_bytes(const conv_shape *s) {
    const int64_t bytes = hopper_row_bytes(s);
    if (bytes <= hopper_chunk_half && s->cout <= 64) {
        const bool quarter =
            bytes <= hopper_chunk_quarter && s->cout <= 32 && s->type == numeric_i8;
        return quarter ? hopper_chunk_quarter : hopper_chunk_half;
    }
    const bool room = round_up(s->cout, 32) == hopper_long_columns;
    const int longer = hopper_chunk_long(numeric_size(s->type));
    return room && round_up(bytes, longer) < round_up(bytes, hopper_chunk_whole)
               ? longer
               : hopper_chunk_whole;
}

// Bytes of a row of a stage.
SPIRA_BOTH int hopper_stage_row(const conv_shape *s) {
    const int chunk = hopper_chunk_bytes(s);
    return chunk <= hopper_chunk_half ? hopper_chunk_whole : chunk;
}

// Bytes of a chunk of a shortcut. row: of a row of a stage
SPIRA_BOTH constexpr int hopper_chunk_shortcut(int row) {
    return row < hopper_chunk_whole ? row : hopper_chunk_whole;
}

// Parts of a row.
SPIRA_BOTH int hopper_chunks(const conv_shape *s) {
    return (int)ceil_div(hopper_row_bytes(s), hopper_chunk_bytes(s));
}

// Whether a layer can have a fused shortcut. Stages of shorter chunks hold several offsets, and the
// shortcut's whole chunks do not fit there.
SPIRA_BOTH bool hopper_takes_shortcut(const conv_shape *s) {
    return hopper_chunk_bytes(s) > hopper_chunk_half;
}

// Whether a piece belongs to the second source. Then `piece` becomes its number in that source.
template <typename E>
SPIRA_BOTH bool hopper_piece_second(int cin, int &piece) {
    const int pieces = hopper_pieces(cin, (int)sizeof(E));
    const bool second = piece >= pieces;
    piece -= second ? pieces : 0;
    return second;
}

// ---- packed weights -----------------------------------------------------------------------------

// Output channels that weights are packed for. element: bytes of one
SPIRA_BOTH constexpr int hopper_couts(int cout, int element) {
    const int each = element == 1 ? (int)hopper_block : 16;
    return (cout + each - 1) / each * each;
}

// The output channel whose weights are in a row of the matrix instruction's operand. Of int8, the
// channels of 32 rows change places, so that a lane has 8 neighbouring ones of them
// (conv/hopper/epilogue_i8.cuh).
template <typename E>
SPIRA_BOTH constexpr int hopper_channel_of(int row) {
    return sizeof(E) > 1 ? row : (row & ~31) | (row & 6) << 2 | (row >> 2 & 6) | (row & 1);
}

// Packed weights [volume, chunks of a row, regions of a chunk, hopper_couts, bytes of a region's
// row], swizzled as in shared memory (wgmma_place). Returns the number of their pieces of 16 bytes.
// Channels past the last are zero. chunk: bytes of a chunk (of a shortcut hopper_chunk_shortcut).
SPIRA_API int64_t hopper_weights(const conv_shape *s, int chunk) {
    return (int64_t)s->volume * ceil_div(hopper_row_bytes(s), chunk) *
           hopper_couts(s->cout, numeric_size(s->type)) * (chunk / conv_lane_bytes);
}

// One thread packs one piece.
template <typename E, conv_weights_order order = conv_weights_own>
SPIRA_KERNEL void __launch_bounds__(256)
    hopper_pack_kernel(const __grid_constant__ conv_pack_params p) {
    const conv_shape &s = p.shape;
    const int chunk = p.chunk_bytes;
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    enum { per_lane = conv_lane_bytes / sizeof(E) };
    const int couts = hopper_couts(s.cout, sizeof(E)),
              chunks = (hopper_row_bytes(&s) + chunk - 1) / chunk;
    const int pieces = chunk / conv_lane_bytes, size = couts * pieces; // of an image
    // Offset and chunk. A division in 64 bits would take most of the time.
    const int image = (int)(p.total <= UINT32_MAX ? (uint32_t)i / (uint32_t)size : i / size);
    int at = (int)(i - (int64_t)image * size);
    const int first = hopper_region_first(chunk);
    const int begin = at * conv_lane_bytes < couts * first ? 0 : first;
    const int log = hopper_region_log(chunk, begin), lanes = (1 << log) / conv_lane_bytes;
    at -= couts * begin / conv_lane_bytes;
    const int out = hopper_channel_of<E>(at / lanes);
    int piece = image % chunks * pieces + begin / conv_lane_bytes + at % lanes;
    bool second = hopper_piece_second<E>(s.cin, piece);
    conv_lane<E> to;
    pdl_wait_alone();
    conv_pack_tag(p, i);
    if (i >= p.total) {
        return;
    }
    const auto place = [=](int e) { return conv_pack_place{piece * per_lane + e, out}; };
    conv_pack_weights<order>(p, image / chunks, second, place, to.element);
    *(uint4 *)((char *)p.packed + ((int64_t)image * chunk + begin) * couts +
               wgmma_place((uint32_t)(at * conv_lane_bytes), log)) = bytes_as<uint4>(to);
}

} // namespace spira

#endif
