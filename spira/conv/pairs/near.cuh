// spira/conv/pairs/near.cuh: the walk of layers with few input channels: the weights of an offset
// stay in registers while the offset does.
#ifndef SPIRA_CONV_PAIRS_NEAR_CUH
#define SPIRA_CONV_PAIRS_NEAR_CUH

#include "sums.cuh"

namespace spira {

// Chunks of input channels up to which weights stay in registers.
enum { pairs_near_chunks = 2 };

// A lane's weights. The columns of two channel groups are permuted so that a lane, which gets
// columns 2 t and 2 t + 1 of each (t = lane % 4), has channels 4 t .. 4 t + 3 of the 16: column n
// of the first group is channel n / 2 * 4 + n % 2, column n of the second is two channels further.
template <int channel_groups>
SPIRA_DEVICE pairs_weights pairs_weights_of(const pairs_params &p, int slice) {
    int lane = threadIdx.x % 32, column = lane / 4 / 2 * 4 + lane / 4 % 2; // of 16
    pairs_weights w;
    w.chunk_bytes = conv_channel_groups(p.conv.cout) * conv_fragment_bytes;
    w.offset_bytes = p.conv.chunks * w.chunk_bytes;
    w.own = (const char *)p.conv.weights + slice * channel_groups * conv_fragment_bytes +
            column * (4 * conv_lane_bytes) + lane % 4 * conv_lane_bytes;
    return w;
}

template <int channel_groups>
SPIRA_DEVICE void pairs_weights_load(const pairs_weights &weights, int offset, int chunk,
                                     uint4 (&to)[channel_groups]) {
    const char *from =
        weights.own + (int64_t)offset * weights.offset_bytes + chunk * weights.chunk_bytes;
#pragma unroll
    for (int m = 0; m < channel_groups; ++m) {
        to[m] = __ldg((const uint4 *)(from + m / 2 * (2 * conv_fragment_bytes) +
                                      m % 2 * (8 * conv_lane_bytes)));
    }
}

// Walks from `c` to its end. The rows of two units are loaded ahead of their products.
template <typename E, int channel_groups, pairs_access access>
SPIRA_DEVICE void pairs_walk_near(const pairs_params &p, const pairs_task &task, pairs_cursor c,
                                  const pairs_weights &weights) {
    enum { ahead = 2, chunks = pairs_near_chunks };
    const int32_t rows = (int32_t)task.rows;
    const pairs_piece in = pairs_piece_of(p.conv, 0, sizeof(E));
    pairs_unit<1> coming[ahead], now[ahead];
    uint4 piece[ahead][chunks][2], weight[chunks][channel_groups];

    // Fill the pipeline.
#pragma unroll
    for (int i = 0; i < ahead; ++i) {
        pairs_unit_next(p, rows, c, now[i]);
#pragma unroll
        for (int j = 0; j < chunks; ++j) { // channels past the last are never loaded
            piece[i][j][0] = piece[i][j][1] = make_uint4(0, 0, 0, 0);
        }
        pairs_rows_load<E, chunks, access>(p.conv, in, 0, now[i].group[0], piece[i]);
    }
#pragma unroll
    for (int i = 0; i < ahead; ++i) {
        pairs_unit_next(p, rows, c, coming[i]);
    }

    for (int offset = -1;;) { // the offset of `weight`
#pragma unroll
        for (int i = 0; i < ahead; ++i) {
            if (now[i].offset < 0) {
                return;
            }
            if (now[i].offset != offset) {
                offset = now[i].offset;
                pairs_weights_load<channel_groups>(weights, offset, 0, weight[0]);
                if (p.conv.chunks > 1) {
                    pairs_weights_load<channel_groups>(weights, offset, 1, weight[chunks - 1]);
                }
            }
            pairs_accumulators<channel_groups> sum = {};
            __syncwarp(); // matrix instructions follow
            pairs_multiply_chunk<E, channel_groups>(piece[i][0][0], piece[i][0][1], weight[0], sum);
            if (p.conv.chunks > 1) {
                pairs_multiply_chunk<E, channel_groups>(
                    piece[i][chunks - 1][0], piece[i][chunks - 1][1], weight[chunks - 1], sum);
            }
            pairs_sums_end<channel_groups>(p, task, now[i].group[0], sum);

            // Load the rows of the unit after the next.
            now[i] = coming[i];
            pairs_rows_load<E, chunks, access>(p.conv, in, 0, now[i].group[0], piece[i]);
            pairs_unit_next(p, rows, c, coming[i]);
        }
    }
}

} // namespace spira

#endif
