// spira/conv/pairs/deep.cuh: the walk of layers with many input channels: the accumulators of a
// unit stay in registers while rows and weights are loaded chunk by chunk.
#ifndef SPIRA_CONV_PAIRS_DEEP_CUH
#define SPIRA_CONV_PAIRS_DEEP_CUH

#include "near.cuh"

namespace spira {

enum { pairs_deep_groups = 2 }; // groups of 16 pairs in a unit

// Rows and weights of one chunk.
template <int pair_groups, int channel_groups>
struct pairs_operands {
    uint4 piece[pair_groups][1][2], weights[channel_groups];
};

template <typename E, int pair_groups, int channel_groups, pairs_access access>
SPIRA_DEVICE void pairs_operands_load(const pairs_params &p, const pairs_unit<pair_groups> &unit,
                                      const pairs_weights &weights, int chunk,
                                      pairs_operands<pair_groups, channel_groups> &to) {
    if (unit.offset < 0 || chunk >= p.conv.chunks) {
        return;
    }
    pairs_weights_load<channel_groups>(weights, unit.offset, chunk, to.weights);
    const pairs_piece in = pairs_piece_of(p.conv, chunk, sizeof(E));
#pragma unroll
    for (int i = 0; i < pair_groups; ++i) { // channels past the last must not be those of before
        to.piece[i][0][0] = to.piece[i][0][1] = make_uint4(0, 0, 0, 0);
        pairs_rows_load<E, 1, access>(p.conv, in, chunk, unit.group[i], to.piece[i]);
    }
}

// left: pairs_unit.left
template <typename E, int pair_groups, int channel_groups>
SPIRA_DEVICE void pairs_operands_multiply(const pairs_operands<pair_groups, channel_groups> &by,
                                          int32_t left,
                                          pairs_accumulators<channel_groups> (&sum)[pair_groups]) {
#pragma unroll
    for (int i = 0; i < pair_groups; ++i) {
        if (i == 0 || left > i * pairs_group_rows) {
            pairs_multiply_chunk<E, channel_groups>(by.piece[i][0][0], by.piece[i][0][1],
                                                    by.weights, sum[i]);
        }
    }
}

// Walks from `c` to its end. Two chunks are loaded ahead; after the last chunk of a unit, the first
// ones of the next unit.
template <typename E, int channel_groups, pairs_access access>
SPIRA_DEVICE void pairs_walk_deep(const pairs_params &p, const pairs_task &task, pairs_cursor c,
                                  const pairs_weights &weights) {
    enum { pair_groups = pairs_deep_groups };
    const int chunks = p.conv.chunks;
    const int32_t rows = (int32_t)task.rows;
    pairs_unit<pair_groups> now, coming;
    pairs_operands<pair_groups, channel_groups> even, odd;
    pairs_unit_next(p, rows, c, now);
    pairs_operands_load<E, pair_groups, channel_groups, access>(p, now, weights, 0, even);
    pairs_operands_load<E, pair_groups, channel_groups, access>(p, now, weights, 1, odd);
    pairs_unit_next(p, rows, c, coming);
    while (now.offset >= 0) {
        pairs_accumulators<channel_groups> sum[pair_groups] = {};
        __syncwarp(); // matrix instructions follow
#pragma unroll 1
        for (int chunk = 0; chunk < chunks; chunk += 2) {
            const bool last = chunk + 2 >= chunks;
            const int next = last ? 0 : chunk + 2;
            pairs_operands_multiply<E, pair_groups, channel_groups>(even, now.left, sum);
            pairs_operands_load<E, pair_groups, channel_groups, access>(p, last ? coming : now,
                                                                        weights, next, even);
            if (chunk + 1 < chunks) {
                pairs_operands_multiply<E, pair_groups, channel_groups>(odd, now.left, sum);
            }
            pairs_operands_load<E, pair_groups, channel_groups, access>(p, last ? coming : now,
                                                                        weights, next + 1, odd);
        }
#pragma unroll
        for (int i = 0; i < pair_groups; ++i) {
            pairs_sums_end<channel_groups>(p, task, now.group[i], sum[i]);
        }
        now = coming;
        pairs_unit_next(p, rows, c, coming);
    }
}

} // namespace spira

#endif
