// spira/gemm/scatter.cuh: the last step: adds up the products of each output, and the epilogue.
#ifndef SPIRA_GEMM_SCATTER_CUH
#define SPIRA_GEMM_SCATTER_CUH

#include "../base/launch.cuh"
#include "rows.cuh"

namespace spira {

struct ggs_scatter {
    const float *product;
    const int32_t *begin; // first product of each output, or null: one each
    const int32_t *place; // rows of the products, or null: row i
    ggs_rows residual;    // first is null without one
    char *out;
    conv_epilogue epilogue;
    int64_t pitch; // floats of a product's row
    int32_t outputs;
    int cout, out_width;
    int columns; // threads of a row: thread i has chunks i, i + columns, ...
};

// Adds the channels of one product.
template <int wide>
SPIRA_DEVICE void ggs_add(const float *from, int channels, float (&sum)[wide]) {
    if (channels >= wide) {
#pragma unroll
        for (int c = 0; c < wide; c += 4) {
            float4 f = *(const float4 *)(from + c);
            sum[c] += f.x;
            sum[c + 1] += f.y;
            sum[c + 2] += f.z;
            sum[c + 3] += f.w;
        }
        return;
    }
#pragma unroll
    for (int c = 0; c < wide; ++c) {
        sum[c] += c < channels ? from[c] : 0.0f; // channels past the last are not set
    }
}

// Rounds and writes a chunk of an output row.
template <typename E, int wide>
SPIRA_DEVICE void ggs_finish(const ggs_scatter &p, int64_t row, int channel,
                             const float (&sum)[wide]) {
    int channels = min(p.cout - channel, wide);
    ggs_units<E> extra = {}, out = {};
    if (p.residual.first) {
        extra = bytes_as<ggs_units<E>>(ggs_load(p.residual, row, channel * (int)sizeof(E)));
    }
#pragma unroll
    for (int c = 0; c < wide; ++c) {
        if (c < channels) {
            float residual = element_to_float(extra.unit[c]);
            out.unit[c] =
                element_from_float<E>(epilogue_apply(sum[c], &p.epilogue, channel + c, residual));
        }
    }
    ggs_store(p.out + (row * p.cout + channel) * (int64_t)sizeof(E), channels * (int)sizeof(E),
              p.out_width, bytes_as<uint4>(out));
}

// Adds up the products of each output in registers, offsets ascending, and applies the epilogue.
template <typename E, int tile>
SPIRA_KERNEL void __launch_bounds__(ggs_threads)
    ggs_scatter_kernel(const __grid_constant__ ggs_scatter p) {
    constexpr int wide = ggs_chunk / (int)sizeof(E), ahead = tile == 1 ? 4 : tile == 2 ? 2 : 1;
    int64_t row = (int64_t)blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= p.outputs) {
        return;
    }
    int64_t at = p.begin ? p.begin[row] : row, end = p.begin ? p.begin[row + 1] : row + 1;
    for (int first = (int)threadIdx.x; first < p.columns; first += (int)blockDim.x) {
        float sum[tile][wide] = {};
#pragma unroll ahead
        for (int64_t i = at; i < end; ++i) {
            const float *from = p.product + (p.place ? (int64_t)p.place[i] : i) * p.pitch;
#pragma unroll
            for (int j = 0; j < tile; ++j) {
                int channel = (first + j * p.columns) * wide;
                if (channel < p.cout) {
                    ggs_add(from + channel, p.cout - channel, sum[j]);
                }
            }
        }
#pragma unroll
        for (int j = 0; j < tile; ++j) {
            int channel = (first + j * p.columns) * wide;
            if (channel < p.cout) {
                ggs_finish<E>(p, row, channel, sum[j]);
            }
        }
    }
}

template <typename E>
SPIRA_API status ggs_scatter_launch(ggs_scatter p, int tile, cudaStream_t stream) {
    p.columns = (int)ceil_div(p.cout, (int64_t)tile * (ggs_chunk / (int)sizeof(E)));
    dim3 block = ggs_block_shape(p.columns);
    unsigned blocks = (unsigned)ceil_div(p.outputs, block.y);
    const auto kernel = tile == 1   ? ggs_scatter_kernel<E, 1>
                        : tile == 2 ? ggs_scatter_kernel<E, 2>
                        : tile == 4 ? ggs_scatter_kernel<E, 4>
                                    : ggs_scatter_kernel<E, 8>;
    return kernel_launch(kernel, {blocks, block, stream, "ggs_run (scatter)"}, p);
}

// ggs_order_pairs: adds the products [rows] of one offset to sums [outputs]. No output occurs
// twice.
SPIRA_PLAIN_KERNEL void __launch_bounds__(ggs_threads)
    ggs_add_kernel(const float *product, const int32_t *target, int32_t rows, int64_t pitch,
                   int cout, float *sums) {
    int64_t row = (int64_t)blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= rows) {
        return;
    }
    for (int c = 4 * (int)threadIdx.x; c < cout; c += 4 * (int)blockDim.x) {
        float sum[4] = {0, 0, 0, 0}, *to = sums + target[row] * pitch + c;
        ggs_add(to, cout - c, sum);
        ggs_add(product + row * pitch + c, cout - c, sum);
        *(float4 *)to = make_float4(sum[0], sum[1], sum[2], sum[3]); // the pitch has room for it
    }
}

} // namespace spira

#endif
