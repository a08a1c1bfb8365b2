// spira/conv/exact_weights.cuh: packed weights of the kernels that multiply in plain fp32:
// conv/exact.cuh, and conv/portable.cuh for exact fp32.
//
// [volume, chunks, blocks of 32 output channels, 16, 32] floats: a chunk is 16 input channels, of
// both sources one after the other. So a warp reads an input channel's weights of 32 neighbouring
// output channels as 128 contiguous bytes. Channels past the last are zero. Weights are rounded to
// the format as it enters a product: those of fp32 are not rounded.
#ifndef SPIRA_CONV_EXACT_WEIGHTS_CUH
#define SPIRA_CONV_EXACT_WEIGHTS_CUH

#include "../conv.h"
#include "../numeric.cuh"

namespace spira {

enum {
    exact_chunk = 16,    // input channels
    exact_channels = 32, // output channels of a block
    exact_block_floats = exact_chunk * exact_channels,
};

SPIRA_BOTH int exact_chunks(int channels) {
    return (channels + exact_chunk - 1) / exact_chunk;
}

// Floats of a chunk: its weights of all output channels.
SPIRA_BOTH int exact_chunk_floats(int cout) {
    return (cout + exact_channels - 1) / exact_channels * exact_block_floats;
}

// Returns the number of floats.
SPIRA_API int64_t conv_exact_weights(const conv_shape *s) {
    return (int64_t)s->volume * (exact_chunks(s->cin) + exact_chunks(s->cin2)) *
           exact_chunk_floats(s->cout);
}

// weight [volume, cin + cin2, cout]; packed [total]: conv_exact_weights
SPIRA_PLAIN_KERNEL void __launch_bounds__(256)
    conv_exact_pack_kernel(conv_shape s, const float *__restrict__ weight, int64_t total,
                           float *__restrict__ packed) {
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= total) {
        return;
    }
    const int chunks1 = exact_chunks(s.cin), chunks = chunks1 + exact_chunks(s.cin2);
    const int in_chunk = exact_chunk_floats(s.cout), at = (int)(i % in_chunk);
    const int chunk = (int)(i / in_chunk % chunks);
    const bool second = chunk >= chunks1;
    const int in =
        (second ? chunk - chunks1 : chunk) * exact_chunk + at % exact_block_floats / exact_channels;
    const int out = at / exact_block_floats * exact_channels + at % exact_channels;
    const bool inside = in < (second ? s.cin2 : s.cin) && out < s.cout;
    const int64_t row = i / in_chunk / chunks * (s.cin + s.cin2) + (second ? s.cin : 0) + in;
    packed[i] = inside ? element_operand(s.type, weight[row * s.cout + out]) : 0.0f;
}

} // namespace spira

#endif
