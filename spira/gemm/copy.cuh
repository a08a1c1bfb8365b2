// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/gemm/copy.cuh: the kernels of a run: gather copies input rows to the buffer of the
// products, scatter adds up the products of each output. And the kernel that packs weights.
//
// A thread has a chunk of a row: 16 bytes of a gathered row, four channels of an output.
#ifndef SPIRA_GEMM_COPY_CUH
#define SPIRA_GEMM_COPY_CUH

#include "../conv/epilogue.cuh"
#include "../conv/weights.cuh"
#include "../workspace.h"
#include "layer.h"

namespace spira {

// A run: its arrays, and scratch whose rows are multiples of 16 bytes.
struct ggs_run_params {
    conv_params conv; // rows of the sources and of the output, epilogue, packed weights
    ggs_layer layer;
    char *gathered; // [groups.rows, chunks] of 16 bytes
    float *product; // [groups.rows, pitch]
    // [products] the operands of batched products, in the order of the groups
    const void **weight_at, **gathered_at;
    void **product_at;
    int32_t products;     // 0: there is no batch
    int64_t weight_bytes; // of one offset
    int chunks1, chunks;  // of a gathered row: of the first source, of both
    int pitch;            // floats of a product's row
};

// The parameters of a run but for its arguments. Carves the scratch, or counts its bytes.
SPIRA_API ggs_run_params ggs_run_take(workspace *w, const ggs_layer *l) {
    const conv_shape *s = &l->shape;
    const int element = numeric_size(s->type);
    ggs_run_params p = {};
    p.layer = *l;
    p.chunks1 = ggs_channels(s->cin, s->type) * element / ggs_chunk;
    p.chunks = ggs_shape_channels(s) * element / ggs_chunk;
    p.pitch = conv_sums_pitch(s->cout);
    p.weight_bytes = (int64_t)p.chunks * ggs_chunk * s->cout;
    p.products = l->groups.products > l->groups.count ? l->groups.products : 0;
    p.gathered = workspace_take<char>(w, l->groups.rows * p.chunks * ggs_chunk);
    p.product = workspace_take<float>(w, l->groups.rows * p.pitch);
    p.weight_at = workspace_take<const void *>(w, p.products);
    p.gathered_at = workspace_take<const void *>(w, p.products);
    p.product_at = workspace_take<void *>(w, p.products);
    return p;
}

// The row and the chunk of a thread, and the thread blocks for all of them.
struct ggs_place {
    int64_t row;
    int chunk;
};

SPIRA_DEVICE ggs_place ggs_place_of(int chunks) {
    const int columns = min(chunks, (int)ggs_threads), rows = ggs_threads / columns;
    const int row = (int)threadIdx.x / columns;
    const int chunk = (int)blockIdx.y * columns + (int)threadIdx.x % columns;
    return {row < rows ? (int64_t)blockIdx.x * rows + row : INT64_MAX, chunk};
}

SPIRA_API dim3 ggs_grid(int64_t rows, int chunks) {
    const int64_t columns = min_of(chunks, ggs_threads);
    return dim3((unsigned)ceil_div(rows, ggs_threads / columns),
                (unsigned)ceil_div(chunks, columns));
}

// ---- gather -------------------------------------------------------------------------------------

// A chunk of a gathered row; zeros past the end of each source.
template <typename E>
SPIRA_DEVICE uint4 ggs_chunk_load(const ggs_run_params &p, int64_t row, int chunk) {
    const bool second = chunk >= p.chunks1;
    const int64_t pitch = (second ? p.conv.cin2 : p.conv.cin) * (int64_t)sizeof(E);
    const int at = (second ? chunk - p.chunks1 : chunk) * ggs_chunk;
    const char *from = (const char *)(second ? p.conv.in2 : p.conv.in) + row * pitch + at;
    const bool wide = second ? p.conv.wide_in2 : p.conv.wide_in;
    const uint4 v = wide ? *(const uint4 *)from : conv_read_each<E>(from, (int)pitch - at);
    return p.conv.tf32 ? tf32_bits_4(v) : v;
}

// Copies each input row to all places of its list, and writes the pointers of batched products.
template <typename E>
SPIRA_KERNEL void __launch_bounds__(ggs_threads)
    ggs_gather_kernel(const __grid_constant__ ggs_run_params p) {
    const ggs_place at = ggs_place_of(p.chunks);
    if (at.row < p.layer.inputs && at.chunk < p.chunks) {
        const int32_t begin = p.layer.in.begin[at.row], end = p.layer.in.begin[at.row + 1];
        const uint4 v = begin < end ? ggs_chunk_load<E>(p, at.row, at.chunk) : uint4();
        for (int32_t i = begin; i < end; ++i) {
            ((uint4 *)p.gathered)[(int64_t)p.layer.in.place[i] * p.chunks + at.chunk] = v;
        }
    }
    const int step = (int)gridDim.x * ggs_threads;
    for (int i = (int)(blockIdx.x * ggs_threads + threadIdx.x); i < p.products; i += step) {
        const int64_t k = p.layer.offset_of[i], row = p.layer.row_of[k];
        p.weight_at[i] = (const char *)p.conv.weights + k * p.weight_bytes;
        p.gathered_at[i] = p.gathered + row * p.chunks * ggs_chunk;
        p.product_at[i] = p.product + row * p.pitch;
    }
}

// ---- scatter ------------------------------------------------------------------------------------

// Adds up the products of each output in registers, offsets ascending, and applies the epilogue.
template <typename E>
SPIRA_KERNEL void __launch_bounds__(ggs_threads)
    ggs_scatter_kernel(const __grid_constant__ ggs_run_params p) {
    const ggs_place at = ggs_place_of(p.pitch / 4);
    if (at.row >= p.layer.outputs || at.chunk >= p.pitch / 4) {
        return;
    }
    const int32_t begin = p.layer.out.begin[at.row], end = p.layer.out.begin[at.row + 1];
    float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll 4
    for (int32_t i = begin; i < end; ++i) { // channels past the last are not set
        const float *from = p.product + (int64_t)p.layer.out.place[i] * p.pitch + 4 * at.chunk;
        const float4 v = *(const float4 *)from;
        sum = make_float4(sum.x + v.x, sum.y + v.y, sum.z + v.z, sum.w + v.w);
    }
    conv_output_store<E>(p.conv, conv_output_of(p.conv, 4 * at.chunk), (int)at.row, sum);
}

// ---- weights ------------------------------------------------------------------------------------

// Packs weights [volume, ggs_shape_channels, cout]; those of padding are zero. A thread packs one.
template <typename E>
SPIRA_KERNEL void __launch_bounds__(ggs_threads)
    ggs_pack_kernel(const __grid_constant__ conv_pack_params p) {
    const conv_shape &s = p.shape;
    const int64_t i = (int64_t)blockIdx.x * ggs_threads + threadIdx.x;
    pdl_wait_alone();
    if (i >= p.total) {
        return;
    }
    const int channels = ggs_shape_channels(&s), first = ggs_channels(s.cin, s.type);
    const int in = (int)(i / s.cout % channels);
    const bool second = in >= first;
    ((E *)p.packed)[i] = conv_pack_weight<E, conv_weights_own>(
        p, i / s.cout / channels, second, second ? in - first : in, (int)(i % s.cout));
}

} // namespace spira

#endif
