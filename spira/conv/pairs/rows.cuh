// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/conv/pairs/rows.cuh: on tensor cores: the source rows and weights that a lane loads, and
// their products.
//
// The matrix instruction's 16 rows are 16 pairs of one offset, its 8 columns are 8 output channels,
// a "channel group". A lane loads exactly the bytes of a row that it multiplies: 16 bytes. They are
// both depth halves of two instructions, since the weights are packed in the same order
// (conv_mma_weights).
#ifndef SPIRA_CONV_PAIRS_ROWS_CUH
#define SPIRA_CONV_PAIRS_ROWS_CUH

#include "../../base/mma.cuh"
#include "../weights.cuh"

namespace spira {

enum { pairs_group_rows = 16 }; // pairs of a matrix instruction

// The rows of the sources: one source, aligned; any.
enum pairs_access { pairs_access_wide, pairs_access_any };

// A lane's pairs of a group, rows g and g + 8 of 16: their sources (negative: none) and outputs.
struct pairs_group {
    int32_t source[2];
    uint32_t row[2];
};

// ---- source rows --------------------------------------------------------------------------------

// Where a lane loads its bytes of the rows: 16 of each chunk.
struct pairs_piece {
    const char *base; // the lane's bytes of row 0
    uint32_t pitch;
    int bytes; // that a row has from the lane's first on
};

SPIRA_DEVICE pairs_piece pairs_piece_of(const conv_params &p, int chunk, int element) {
    bool second = chunk >= p.chunks1;
    int at = (second ? chunk - p.chunks1 : chunk) * conv_chunk_bytes +
             (int)threadIdx.x % 4 * conv_lane_bytes;
    pairs_piece in;
    in.pitch = (uint32_t)(second ? p.cin2 : p.cin) * (uint32_t)element;
    in.bytes = chunk < p.chunks ? (int)in.pitch - at : 0;
    in.base = (const char *)(second ? p.in2 : p.in) + at;
    return in;
}

// Loads 16 bytes if `there` is not negative; otherwise `to` keeps its value.
SPIRA_DEVICE void pairs_read(uint4 &to, const char *from, int there) {
    asm volatile("{ .reg .pred there;\n"
                 "setp.ge.s32 there, %5, 0;\n"
                 "@there ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4]; }"
                 : "+r"(to.x), "+r"(to.y), "+r"(to.z), "+r"(to.w)
                 : "l"(from), "r"(there));
}

// Loads a lane's bytes of rows g and g + 8, of the chunks from `chunk` on. A pair without a source
// keeps the old bytes: the result is discarded.
template <typename E, int chunks, pairs_access access>
SPIRA_DEVICE void pairs_rows_load(const conv_params &p, const pairs_piece &in, int chunk,
                                  const pairs_group &pairs, uint4 (&part)[chunks][2]) {
#pragma unroll
    for (int j = 0; j < chunks; ++j) {
        pairs_piece own = in;
        if (access == pairs_access_any) {
            own = pairs_piece_of(p, chunk + j, sizeof(E));
        }
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            const int32_t source = pairs.source[h];
            const char *from = own.base + (uint64_t)(uint32_t)source * own.pitch +
                               (access == pairs_access_any ? 0 : j * conv_chunk_bytes);
            int bytes = access == pairs_access_any ? own.bytes : own.bytes - j * conv_chunk_bytes;
            if (access == pairs_access_wide) {
                pairs_read(part[j][h], from, bytes > 0 ? source : -1);
            } else {
                part[j][h] = make_uint4(0, 0, 0, 0);
                if (source >= 0 && (chunk + j < p.chunks1 ? p.wide_in : p.wide_in2)) {
                    pairs_read(part[j][h], from, bytes > 0 ? source : -1);
                } else if (source >= 0) {
                    part[j][h] = conv_read_unaligned<E>(from, bytes);
                }
            }
        }
    }
}

// A lane's operands of the weights of its slice.
struct pairs_weights {
    const char *own;               // of the first offset and chunk
    int offset_bytes, chunk_bytes; // to the next
};

// ---- products -----------------------------------------------------------------------------------

// A lane's accumulators of 16 pairs: of rows g and g + 8 (g = lane / 4), channels 2 t and 2 t + 1
// (t = lane % 4) of each channel group.
template <int channel_groups>
struct pairs_accumulators {
    float at[channel_groups][4];
};

// Multiplies one chunk: a lane's bytes of rows g and g + 8 by the weights of all channel groups.
template <typename E, int channel_groups>
SPIRA_DEVICE void pairs_multiply_chunk(uint4 low, uint4 high,
                                       const uint4 (&weights)[channel_groups],
                                       pairs_accumulators<channel_groups> &sum) {
    if (sizeof(E) == 4) { // tf32
        low = tf32_bits_4(low);
        high = tf32_bits_4(high);
    }
    uint4 a = make_uint4(low.x, high.x, low.y, high.y),
          b = make_uint4(low.z, high.z, low.w, high.w);
    // Keeps one copy of the operands for all channel groups.
    asm volatile("" : "+r"(a.x), "+r"(a.y), "+r"(a.z), "+r"(a.w));
    asm volatile("" : "+r"(b.x), "+r"(b.y), "+r"(b.z), "+r"(b.w));
#pragma unroll
    for (int m = 0; m < channel_groups; ++m) {
        mma_step<E>(sum.at[m], a, weights[m].x, weights[m].y);
    }
#pragma unroll
    for (int m = 0; m < channel_groups; ++m) {
        mma_step<E>(sum.at[m], b, weights[m].z, weights[m].w);
    }
}

} // namespace spira

#endif
