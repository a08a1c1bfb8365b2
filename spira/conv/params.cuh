// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/conv/params.cuh: the parameters of the convolution kernels; reads of unaligned rows.
//
// A chunk is what a stage or step holds of a row (a K-block): of 64 bytes, but in conv/hopper.cuh,
// where it has 64 to 192 (hopper_chunk_bytes).
#ifndef SPIRA_CONV_PARAMS_CUH
#define SPIRA_CONV_PARAMS_CUH

#include "../base/async.cuh"
#include "../base/wide.cuh"
#include "../conv.h"
#include "../device.cuh"
#include "../numeric.cuh"
#include "../order.h"
#include "../status.cuh"

namespace spira {

enum {
    conv_lane_bytes = 16, // a lane's bytes of a chunk
    conv_chunk_bytes =
        64, // a chunk of a row: 4 lanes; 64 channels of int8, 32 of 16 bits, 16 of 32
};

SPIRA_BOTH int conv_chunks(int channels, numeric type) {
    return (int)ceil_div((int64_t)channels * numeric_size(type), conv_chunk_bytes);
}

SPIRA_BOTH int conv_shape_chunks(const conv_shape *s) {
    return conv_chunks(s->cin, s->type) + conv_chunks(s->cin2, s->type);
}

// A 1x1x1 convolution that is added to the outputs: see conv_shortcut.
struct conv_params_shortcut {
    const void *in, *in2, *weights;
    const float *bias, *scale, *shift; // [cout], or null
    int cin, cin2, pitch;
    int chunks; // of a row, of both sources; 0: no shortcut
    bool wide_in, wide_in2;
    uint8_t copy_bytes; // as in conv_params
};

// The parameters of a kernel.
struct conv_params {
    const void *in, *in2, *weights, *residual;
    void *out;
    order_layout order; // row is null for the identity
    const int32_t *count;
    int32_t capacity;
    conv_epilogue epilogue;
    const float *sums; // [capacity, conv_sums_pitch(cout)]: initial sums, or null
    int volume, cin, cin2, cout;
    int pitch, pitch_out; // channels to the next row: of the first source, of outputs and residual
    int chunks1, chunks;  // of a row: of the first source, of both
    int chunk_bytes;      // of a row; conv/hopper.cuh, where sources share a chunk
    int weight_bytes;     // of a chunk and offset; conv/portable.cuh, conv/exact.cuh
    int multiprocessors;  // of the device; conv/narrow.cuh
    int fold;             // offsets that share a step; conv/narrow.cuh
    bool tf32;            // rows are rounded to it; conv/exact.cuh
    conv_sizes sizes;
    int split_log;                  // of sizes.split, to the base of two; conv/hopper.cuh
    bool wide_in, wide_in2;         // rows of the sources are aligned to 16 bytes
    uint8_t copy_bytes;             // of an asynchronous copy of other rows: 8, 4, or 0: none
    bool wide_out;                  // rows of outputs and residual are aligned to 4 elements
    bool programmatic;              // see conv_args.programmatic
    conv_params_shortcut shortcut;  // conv/hopper.cuh, conv/portable.cuh
    int halved;                     // tiles that two thread blocks share; conv/portable.cuh
    conv_quantisation quantisation; // its formats are given, and differ if `mixed`; scales: 1 of
                                    // floating-point formats
};

SPIRA_API bool conv_aligned(const void *p, int64_t row_elements, int element, int64_t bytes) {
    return (uintptr_t)p % (uintptr_t)bytes == 0 && row_elements * element % bytes == 0;
}

// ---- rows ---------------------------------------------------------------------------------------

// a * b. The compiler would use a full 64-bit multiplication.
SPIRA_DEVICE uint64_t conv_multiply_wide(uint32_t a, uint32_t b) {
#ifdef __CUDA_ARCH__
    uint64_t v;
    asm("mul.wide.u32 %0, %1, %2;" : "=l"(v) : "r"(a), "r"(b));
    return v;
#else
    return (uint64_t)a * b;
#endif
}

template <typename E>
struct conv_lane {
    E element[conv_lane_bytes / sizeof(E)];
};

// Whether rows that are not aligned to 16 bytes are aligned to 8.
SPIRA_DEVICE bool conv_in_halves(const char *base, uint32_t pitch) {
    return ((uint32_t)(uintptr_t)base | pitch) % 8 == 0;
}

// Copies 16 bytes of a row that is aligned to `piece` bytes, 8 or 4, as far as it has them
// (`bytes`); zeros past that.
template <int piece>
SPIRA_DEVICE void conv_copy_row(uint32_t to, const char *from, int bytes) {
#pragma unroll
    for (int i = 0; i < conv_lane_bytes; i += piece) {
        async_copy_cached<piece>(to + i, from + i, bytes > i);
    }
}

// Loads 16 bytes element by element, as far as the row has them (`bytes`); zeros past that.
template <typename E>
SPIRA_DEVICE uint4 conv_read_each(const char *from, int bytes) {
    enum { per_lane = conv_lane_bytes / sizeof(E) };
    conv_lane<E> v = {};
#pragma unroll
    for (int i = 0; i < per_lane; ++i) {
        if (bytes > i * (int)sizeof(E)) {
            v.element[i] = ((const E *)from)[i];
        }
    }
    return bytes_as<uint4>(v);
}

// Not inlined: many places call it, seldom.
template <typename E>
[[maybe_unused]] static __device__ __noinline__ uint4 conv_read_unaligned(const char *from,
                                                                          int bytes) {
    return conv_read_each<E>(from, bytes);
}

} // namespace spira

#endif
