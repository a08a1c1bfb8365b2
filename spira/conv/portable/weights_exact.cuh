// spira/conv/portable/weights_exact.cuh: packed weights of the portable kernel in exact fp32.
//
// [volume, chunks, blocks of 32 output channels, 16, 32] floats: a chunk is 16 input channels of
// one source, 64 bytes of a row. So a warp reads an input channel's weights of 32 neighbouring
// output channels as 128 contiguous bytes. Channels past the last are zero. Nothing is rounded.
#ifndef SPIRA_CONV_PORTABLE_WEIGHTS_EXACT_CUH
#define SPIRA_CONV_PORTABLE_WEIGHTS_EXACT_CUH

#include "../tile.cuh"

namespace spira {

enum {
    portable_exact_in = conv_chunk_bytes / sizeof(float), // input channels of a chunk
    portable_exact_out = 32,                              // output channels of a block
    portable_exact_block = portable_exact_in * portable_exact_out,
};

// Floats of a chunk: its weights of all output channels.
SPIRA_BOTH int portable_exact_chunk(int cout) {
    return (cout + portable_exact_out - 1) / portable_exact_out * portable_exact_block;
}

// Returns the number of floats. s: of fp32.
SPIRA_API int64_t portable_exact_weights(const conv_shape *s) {
    return (int64_t)s->volume * conv_shape_chunks(s) * portable_exact_chunk(s->cout);
}

// weight [volume, cin + cin2, cout]; packed [total]: portable_exact_weights
template <int = 0, conv_weights_order order = conv_weights_own>
SPIRA_KERNEL void __launch_bounds__(256)
    portable_exact_pack_kernel(conv_shape s, const float *__restrict__ weight, int64_t total,
                               float *__restrict__ packed) {
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= total) {
        return;
    }
    const int chunks1 = conv_chunks(s.cin, s.type), chunks = conv_shape_chunks(&s);
    const int size = portable_exact_chunk(s.cout), at = (int)(i % size);
    const int chunk = (int)(i / size % chunks);
    const bool second = chunk >= chunks1;
    const int in = (second ? chunk - chunks1 : chunk) * portable_exact_in +
                   at % portable_exact_block / portable_exact_out;
    const int out = at / portable_exact_block * portable_exact_out + at % portable_exact_out;
    const bool inside = in < (second ? s.cin2 : s.cin) && out < s.cout;
    const int64_t from =
        conv_weight_index<order>(&s, i / size / chunks, (second ? s.cin : 0) + in, out);
    packed[i] = inside ? weight[from] : 0.0f;
}

} // namespace spira

#endif
