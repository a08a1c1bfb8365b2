// spira/conv/hopper/weights.cuh: how a row of features is cut into parts, and the packed weights.
//
// A part is the bytes of a row that one stage of the ring holds. The packed weights of a part lie
// as the matrix instruction reads them from shared memory (base/wgmma.h), so that one bulk copy
// brings them into a stage.
#ifndef SPIRA_CONV_HOPPER_WEIGHTS_CUH
#define SPIRA_CONV_HOPPER_WEIGHTS_CUH

#include "../../base/launch.cuh"
#include "../../base/wgmma.cuh"
#include "../epilogue.cuh"
#include "../weights.cuh"

namespace spira {

// ---- parts of a row -----------------------------------------------------------------------------

// Bytes of a part. A stage of 128 bytes a row holds one whole part, or the half parts of two
// offsets. A long part has two regions: 128 bytes of each row, and behind them the last 64.
enum { hopper_part_half = 64, hopper_part_whole = wgmma_row_most, hopper_part_long = 192 };

// The only number of columns that has kernels for long parts.
enum { hopper_long_columns = 96 };

// Offsets that share a stage.
SPIRA_BOTH constexpr int hopper_slots(int part) {
    return part < hopper_part_whole ? hopper_part_whole / part : 1;
}

// log2 of the bytes of a row in the region that holds a part's bytes from `begin` on.
SPIRA_BOTH constexpr int hopper_region_log(int part, int begin) {
    return part - begin < hopper_part_whole ? wgmma_row_log_most - 1 : wgmma_row_log_most;
}

// Pieces of 16 bytes of one source's channels.
SPIRA_BOTH int hopper_pieces(int channels) {
    return (int)((uint32_t)(channels * 2 + conv_lane_bytes - 1) / conv_lane_bytes);
}

// Bytes of a row of both sources. The pieces of the second source follow those of the first.
SPIRA_BOTH int hopper_row_bytes(const conv_shape *s) {
    return (hopper_pieces(s->cin) + hopper_pieces(s->cin2)) * conv_lane_bytes;
}

// Bytes of a part. Depends on the shape alone, since weights are packed for it. Chooses the part
// that pads the row least; of two that pad it alike the whole part, which leaves room for more
// stages.
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

// Whether a layer can have a fused shortcut. Stages of half parts hold two offsets, and the
// shortcut's whole parts do not fit there.
SPIRA_BOTH bool hopper_takes_shortcut(const conv_shape *s) {
    return hopper_part_bytes(s) >= hopper_part_whole;
}

// Whether a piece belongs to the second source. Then `piece` becomes its number in that source.
SPIRA_BOTH bool hopper_piece_second(int cin, int &piece) {
    const bool second = piece >= hopper_pieces(cin);
    piece -= second ? hopper_pieces(cin) : 0;
    return second;
}

// ---- packed weights -----------------------------------------------------------------------------

// Output channels of the packed weights.
SPIRA_BOTH int hopper_couts(int cout) {
    return (int)round_up(cout, 16);
}

// Packed weights [volume, parts of a row, regions of a part, hopper_couts, bytes of a region's
// row], swizzled as in shared memory (wgmma_place). Returns the number of their pieces of 16 bytes.
// Channels past the last are zero. part: bytes of a part; a shortcut always has whole parts.
SPIRA_API int64_t hopper_weights(const conv_shape *s, int part) {
    return (int64_t)s->volume * ceil_div(hopper_row_bytes(s), part) * hopper_couts(s->cout) *
           (part / conv_lane_bytes);
}

// One thread packs one piece.
template <typename E, conv_weights_order order = conv_weights_own>
SPIRA_KERNEL void __launch_bounds__(256)
    hopper_pack_kernel(const __grid_constant__ conv_pack_params p) {
    const conv_shape &s = p.shape;
    const int part = p.part;
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    const int couts = hopper_couts(s.cout), parts = (hopper_row_bytes(&s) + part - 1) / part;
    const int pieces = part / conv_lane_bytes, size = couts * pieces; // of an image
    // Offset and part. A division in 64 bits would take most of the time.
    const int image = (int)(p.total <= UINT32_MAX ? (uint32_t)i / (uint32_t)size : i / size);
    int at = (int)(i - (int64_t)image * size);
    const int begin = at * conv_lane_bytes < couts * hopper_part_whole ? 0 : hopper_part_whole;
    const int log = hopper_region_log(part, begin), lanes = (1 << log) / conv_lane_bytes;
    at -= couts * begin / conv_lane_bytes;
    int out = at / lanes;
    int piece = image % parts * pieces + begin / conv_lane_bytes + at % lanes;
    bool second = hopper_piece_second(s.cin, piece);
    conv_lane<E> to;
    pdl_wait_alone();
    if (i >= p.total) {
        return;
    }
#pragma unroll
    for (int e = 0; e < 8; ++e) {
        const int channel = piece * 8 + e;
        const bool inside = channel < (second ? s.cin2 : s.cin) && out < s.cout;
        const int64_t from =
            conv_weight_index<order>(&s, image / parts, (second ? s.cin : 0) + channel, out);
        to.element[e] = conv_pack_weight<E>(p, from, inside);
    }
    *(uint4 *)((E *)p.packed + ((int64_t)image * part + begin) * couts / 2 +
               wgmma_place((uint32_t)(at * conv_lane_bytes), log) / 2) = bytes_as<uint4>(to);
}

} // namespace spira

#endif
