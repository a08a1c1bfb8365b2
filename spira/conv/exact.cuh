// spira/conv/exact.cuh: output-stationary convolution in plain fp32 multiply-adds.
//
// For exact fp32 everywhere, and for all formats on GPUs before sm_80. A thread block owns the
// outputs of a tile and 32 output channels, a warp a quarter of the outputs, a lane one channel.
// The sums stay in shared memory. The source rows of 8 pairs are staged there too, 32 channels at a
// time, and read as broadcasts.
#ifndef SPIRA_CONV_EXACT_CUH
#define SPIRA_CONV_EXACT_CUH

#include "../conv.h"
#include "../device.cuh"
#include "../layout/tile.h"
#include "../numeric.cuh"
#include "../status.cuh"

namespace spira {

enum { exact_warps = 4, exact_channels = 32, exact_group = 8 };

// Packed weights [volume, cin + cin2, cout]: rounded to the format, stored as fp32. Returns the
// number of elements.
SPIRA_API int64_t conv_exact_weights(const conv_shape *s) {
    return (int64_t)s->volume * (s->cin + s->cin2) * s->cout;
}

SPIRA_PLAIN_KERNEL void __launch_bounds__(256)
    conv_exact_pack_kernel(numeric type, const float *__restrict__ weight, int64_t total,
                           float *__restrict__ packed) {
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < total) {
        packed[i] = element_operand(type, weight[i]);
    }
}

// The same from weights in another order. s: of one source.
template <conv_weights_order order>
SPIRA_KERNEL void __launch_bounds__(256)
    conv_exact_pack_order_kernel(conv_shape s, const float *__restrict__ weight, int64_t total,
                                 float *__restrict__ packed) {
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < total) {
        int64_t row = i / s.cout,
                from = conv_weight_index<order>(&s, row / s.cin, row % s.cin, i % s.cout);
        packed[i] = element_operand(s.type, weight[from]);
    }
}

struct conv_exact_params {
    const void *in, *in2, *residual;
    const float *weights; // [volume, cin + cin2, cout]
    void *out;
    tile_layout layout; // first is null for the identity
    const int32_t *count;
    int32_t capacity;
    conv_epilogue epilogue;
    const float *sums; // [capacity, conv_sums_pitch(cout)]: initial sums, or null
    conv_shape shape;
    int slices, rows; // rows: of a tile
};

// Adds the products of 8 pairs of one offset. source: of pair lane % 8, or -1.
template <typename E>
SPIRA_DEVICE void conv_exact_add(const E *in, int cin, const float *weight, int cout, int channel,
                                 bool tf32, int32_t source, float (*stage)[exact_group],
                                 float (&sum)[exact_group]) {
    int lane = threadIdx.x % 32;
    for (int first = 0; first < cin; first += exact_channels) {
        __syncwarp();
#pragma unroll
        for (int r = 0; r < exact_group; ++r) {
            int64_t row = __shfl_sync(~0u, source, r);
            bool inside = row >= 0 && first + lane < cin;
            float x = inside ? element_to_float(in[row * cin + first + lane]) : 0.0f;
            stage[lane][r] = tf32 ? __uint_as_float(tf32_bits(x)) : x;
        }
        __syncwarp();
        int channels = cin - first < exact_channels ? cin - first : exact_channels;
        for (int i = 0; i < channels && channel < cout; ++i) {
            float w = weight[(int64_t)(first + i) * cout + channel];
#pragma unroll
            for (int r = 0; r < exact_group; ++r) {
                sum[r] = fmaf(stage[i][r], w, sum[r]);
            }
        }
    }
}

// The compacted pairs of a warp's outputs.
struct exact_pairs {
    int32_t source[32];
    int32_t row[32];
};

// Adds the pairs of one offset to the sums [rows, 32]: entries [first, last) of the tile's list
// whose outputs are in [low, high).
template <typename E>
SPIRA_DEVICE void conv_exact_offset(const conv_exact_params &p, const int32_t *input,
                                    const uint8_t *rows, int first, int last, int low, int high,
                                    int k, int channel, exact_pairs *pairs,
                                    float (*stage)[exact_group], float (*sums)[exact_channels]) {
    int lane = threadIdx.x % 32, cin = p.shape.cin, cin2 = p.shape.cin2, cout = p.shape.cout;
    bool tf32 = p.shape.type == numeric_tf32;
    const float *w = p.weights + (int64_t)k * (cin + cin2) * cout;
    for (int i = first + lane; i - lane < last; i += 32) {
        int mine = i < last ? rows[i] : high;
        uint32_t own = __ballot_sync(~0u, mine >= low && mine < high);
        __syncwarp();
        if (own >> lane & 1) {
            int at = __popc(own & ((1u << lane) - 1));
            pairs->source[at] = input[i];
            pairs->row[at] = mine;
        }
        __syncwarp();
        for (int from = 0; from < __popc(own); from += exact_group) {
            int at = from + lane % exact_group;
            int32_t source = at < __popc(own) ? pairs->source[at] : -1;
            float sum[exact_group] = {0, 0, 0, 0, 0, 0, 0, 0};
            conv_exact_add((const E *)p.in, cin, w, cout, channel, tf32, source, stage, sum);
            if (cin2) {
                conv_exact_add((const E *)p.in2, cin2, w + (int64_t)cin * cout, cout, channel, tf32,
                               source, stage, sum);
            }
#pragma unroll
            for (int r = 0; r < exact_group; ++r) {
                if (from + r < __popc(own)) {
                    sums[pairs->row[from + r]][lane] += sum[r];
                }
            }
        }
    }
}

// Writes the pairs of the identity.
SPIRA_DEVICE void conv_exact_identity(int first_row, int32_t *input, uint8_t *row) {
    for (int i = threadIdx.x; i < tile_rows_most; i += 32 * exact_warps) {
        input[i] = first_row + i;
        row[i] = (uint8_t)i;
    }
    __syncthreads();
}

template <typename E>
SPIRA_KERNEL void __launch_bounds__(32 * exact_warps)
    conv_exact_kernel(const __grid_constant__ conv_exact_params p) {
    __shared__ __align__(16) float stages[exact_warps][exact_channels][exact_group];
    __shared__ float sums[tile_rows_most][exact_channels];
    __shared__ exact_pairs pairs[exact_warps];
    __shared__ int32_t same_input[tile_rows_most];
    __shared__ uint8_t same_row[tile_rows_most];
    int tile = (int)blockIdx.x / p.slices, slice = (int)blockIdx.x % p.slices;
    int all = p.rows, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int64_t first_row = (int64_t)tile * all;
    int total = (int)max_of(0, min_of(min_of(*p.count, p.capacity) - first_row, all));
    if (total == 0) {
        return;
    }
    int channel = slice * exact_channels + lane, cout = p.shape.cout, own = all / exact_warps;
    int low = warp * own, high = min(low + own, total);
    const int32_t *input = same_input;
    const uint8_t *row = same_row;
    if (p.layout.first) {
        input = p.layout.input + tile_begin(&p.layout, tile);
        row = p.layout.row + tile_begin(&p.layout, tile);
    } else {
        conv_exact_identity((int)first_row, same_input, same_row);
    }
    const bool begin = p.sums && channel < cout;
    for (int r = low; r < high; ++r) {
        int64_t from = (first_row + r) * conv_sums_pitch(cout) + channel;
        sums[r][lane] = begin ? p.sums[from] : 0.0f;
    }
    const int32_t *first = p.layout.first + (int64_t)tile * (p.shape.volume + 1);
    for (int k = 0; k < p.shape.volume; ++k) {
        int begin = p.layout.first ? first[k] * tile_group : 0;
        int end = p.layout.first ? first[k + 1] * tile_group : total;
        conv_exact_offset<E>(p, input, row, begin, end, low, high, k, channel, &pairs[warp],
                             stages[warp], sums);
    }
    const E *residual = (const E *)p.residual;
    for (int r = low; r < high && channel < cout; ++r) {
        int64_t to = (first_row + r) * cout + channel;
        float extra = residual ? element_to_float(residual[to]) : 0.0f;
        ((E *)p.out)[to] =
            element_from_float<E>(epilogue_apply(sums[r][lane], &p.epilogue, channel, extra));
    }
}

// Whether this file is compiled for a GPU that computes a format this way.
SPIRA_API constexpr bool exact_compiled(numeric type) {
    return type == numeric_f32 || device_code_within(0, 79);
}

// Computes a layer.
template <typename E>
SPIRA_API status conv_exact_launch(conv_exact_params p, cudaStream_t stream) {
    p.rows = p.layout.first ? p.layout.rows : tile_rows(1);
    p.slices = (int)ceil_div(p.shape.cout, exact_channels);
    int64_t grid = (int64_t)tile_count(p.capacity, p.rows) * p.slices;
    SPIRA_REQUIRE(grid <= INT32_MAX, status_bad_size, "capacity", grid);
    conv_exact_kernel<E><<<(unsigned)grid, 32 * exact_warps, 0, stream>>>(p);
    return status_of_launch("conv");
}

} // namespace spira

#endif
