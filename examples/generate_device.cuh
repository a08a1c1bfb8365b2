// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/generate_device.cuh: the decoder's steps on the GPU, in fp16. Counts stay on the device:
// all steps go into one CUDA graph.
#ifndef SPIRA_EXAMPLES_GENERATE_DEVICE_CUH
#define SPIRA_EXAMPLES_GENERATE_DEVICE_CUH

#include "../spira/conv.cuh"
#include "../spira/norm.cuh"
#include "../spira/rows.cuh"
#include "../spira/subdivide.cuh"
#include "generate_decoder.h"

namespace generate {

constexpr spira::numeric format = spira::numeric_f16;

struct device_level {
    spira::voxel_set<word> set;
    int32_t *source; // 8 parent + child
    spira::conv_map_request<word> request;
    spira::conv_map map;
    void *map_memory;
    size_t map_bytes;
};

struct device_run {
    const decoder *plan;
    int side;
    spira::device_info gpu;
    spira::word_layout layout;
    device_level level[levels];
    std::vector<__half *> buffer;
    std::vector<void *> packed;         // weights of each convolution
    std::vector<float *> first, second; // bias of each; or gain and shift of a norm
    void *scratch;                      // of subdivide
    size_t scratch_bytes, memory_bytes; // the second: all of it
    spira::device_status *trouble;
};

// Device memory that ends with the program.
template <typename T>
spira::status take(device_run *r, int64_t count, T **p) {
    const size_t bytes = (size_t)spira::max_of(count, 1) * sizeof(T);
    r->memory_bytes += bytes;
    SPIRA_TRY(spira::status_from_cuda(cudaMalloc((void **)p, bytes), "memory of the decoder"));
    return spira::status_from_cuda(cudaMemset(*p, 0, bytes), "memory of the decoder");
}

// ---- parameters ---------------------------------------------------------------------------------

enum { threads = 256, fill_weight, fill_first, fill_second, fill_latent };

// Writes made-up numbers. kind: which of the decoder's
template <typename E>
__global__ void fill_kernel(op o, int kind, E *to, int64_t count) {
    for (int64_t i = (int64_t)blockIdx.x * threads + threadIdx.x; i < count;
         i += (int64_t)gridDim.x * threads) {
        const float v = kind == fill_weight   ? weight_of(o, (uint64_t)i)
                        : kind == fill_second ? bias_of(o, (int)i)
                        : kind == fill_latent ? latent_of((uint64_t)i)
                                              : gain_of(o, (int)i);
        to[i] = (E)v;
    }
}

template <typename E>
spira::status fill(const op &o, int kind, E *to, int64_t count, cudaStream_t stream) {
    const unsigned blocks = (unsigned)spira::min_of(spira::ceil_div(count, threads), 4096);
    fill_kernel<<<blocks, threads, 0, stream>>>(o, kind, to, count);
    return spira::status_from_cuda(cudaGetLastError(), "fill");
}

SPIRA_API spira::conv_shape shape_of(const op &o) {
    const spira::kernel_shape kernel = spira::kernel_cube(o.size, 1);
    return spira::conv_shape_of(&kernel, o.cin, o.cout, format);
}

// Packs the weights of a convolution; floats: room for the largest.
static spira::status parameters_of(device_run *r, const op &o, float *floats, cudaStream_t stream) {
    const size_t n = (size_t)o.weights;
    if (o.kind == op_norm) {
        SPIRA_TRY(take(r, o.cout, &r->first[n]));
        SPIRA_TRY(take(r, o.cout, &r->second[n]));
        SPIRA_TRY(fill(o, fill_first, r->first[n], o.cout, stream));
        return fill(o, fill_second, r->second[n], o.cout, stream);
    }
    const spira::conv_shape shape = shape_of(o);
    size_t bytes;
    char *packed;
    SPIRA_TRY(spira::conv_weights_bytes(&r->gpu, &shape, &bytes));
    SPIRA_TRY(take(r, (int64_t)bytes, &packed));
    SPIRA_TRY(take(r, o.cout, &r->first[n]));
    SPIRA_TRY(fill(o, fill_second, r->first[n], o.cout, stream));
    SPIRA_TRY(fill(o, fill_weight, floats, (int64_t)shape.volume * o.cin * o.cout, stream));
    r->packed[n] = packed;
    const spira::conv_weights weights = {floats, packed, bytes, r->trouble};
    return spira::conv_weights_pack<format>(&r->gpu, &shape, &weights, stream);
}

static spira::status parameters_make(device_run *r, cudaStream_t stream) {
    const size_t count = (size_t)r->plan->parameters;
    int64_t most = 0;
    float *floats;
    r->packed.resize(count);
    r->first.resize(count);
    r->second.resize(count);
    for (const op &o : r->plan->ops) {
        most = spira::max_of(most, (int64_t)o.size * o.size * o.size * o.cin * o.cout);
    }
    SPIRA_TRY(spira::status_from_cuda(cudaMalloc((void **)&floats, (size_t)most * sizeof(float)),
                                      "weights"));
    for (const op &o : r->plan->ops) {
        if (o.kind == op_conv || (o.kind == op_norm && o.affine)) {
            SPIRA_TRY(parameters_of(r, o, floats, stream));
        }
    }
    SPIRA_TRY(spira::status_from_cuda(cudaStreamSynchronize(stream), "weights"));
    return spira::status_from_cuda(cudaFree(floats), "weights");
}

// ---- memory -------------------------------------------------------------------------------------

// capacity: voxels of each level, at most
static spira::status level_make(device_run *r, int l, int32_t capacity) {
    device_level *v = &r->level[l];
    const int stride = coarsest >> l;
    v->set.capacity = capacity;
    SPIRA_TRY(take(r, capacity, &v->set.words));
    SPIRA_TRY(take(r, 1, &v->set.count));
    SPIRA_TRY(take(r, capacity, &v->source));
    v->request = {&r->layout, spira::kernel_cube(3, stride), v->set, v->set, r->trouble};
    SPIRA_TRY(spira::conv_map_bytes(&r->gpu, &v->request, &v->map_bytes));
    char *memory;
    SPIRA_TRY(take(r, (int64_t)v->map_bytes, &memory));
    v->map_memory = memory;
    for (size_t b = 0; b < r->buffer.size(); ++b) {
        const buffer &own = r->plan->buffers[b];
        if (own.level == l) {
            SPIRA_TRY(take(r, (int64_t)capacity * own.columns, &r->buffer[b]));
        }
    }
    return spira::status_success();
}

static spira::subdivide_args<word> divide_args(const device_run *r, const op &o) {
    const int stride = coarsest >> o.level;
    spira::subdivide_args<word> a = {};
    a.layout = &r->layout;
    a.in = r->level[o.level].set;
    a.stride = {stride, stride, stride};
    a.choice.scores = r->buffer[(size_t)o.in];
    a.choice.type = format;
    a.choice.channels = spira::subdivide_children;
    a.out = r->level[o.level + 1].set;
    a.source = r->level[o.level + 1].source;
    a.trouble = r->trouble;
    return a;
}

// Everything that a run needs: memory, parameters, the first set and its latents.
static spira::status device_make(const decoder *d, int side, const int32_t capacity[levels],
                                 device_run *r, cudaStream_t stream) {
    std::vector<word> first;
    *r = {};
    r->plan = d;
    r->side = side;
    r->buffer.resize(d->buffers.size());
    SPIRA_TRY(begin(side, &r->layout, &first));
    SPIRA_TRY(spira::device_info_query(&r->gpu));
    SPIRA_TRY(take(r, 1, &r->trouble));
    for (int l = 0; l < levels; ++l) {
        SPIRA_TRY(level_make(r, l, capacity[l]));
    }
    for (const op &o : d->ops) {
        if (o.kind == op_divide) {
            size_t bytes;
            const spira::subdivide_args<word> a = divide_args(r, o);
            SPIRA_TRY(spira::subdivide_workspace(&a, &bytes));
            r->scratch_bytes = spira::max_of(r->scratch_bytes, bytes);
        }
    }
    char *scratch;
    SPIRA_TRY(take(r, (int64_t)r->scratch_bytes, &scratch));
    r->scratch = scratch;
    SPIRA_TRY(parameters_make(r, stream));
    const int32_t count = (int32_t)first.size();
    SPIRA_REQUIRE(count <= capacity[0], spira::status_capacity, "capacity", count);
    const spira::voxel_set<word> &set = r->level[0].set;
    SPIRA_TRY(spira::status_from_cuda(
        cudaMemcpy(set.words, first.data(), first.size() * sizeof(word), cudaMemcpyHostToDevice),
        "first set"));
    SPIRA_TRY(spira::status_from_cuda(
        cudaMemcpy(set.count, &count, sizeof count, cudaMemcpyHostToDevice), "first set"));
    return fill(op{}, fill_latent, r->buffer[(size_t)d->in], (int64_t)count * latents, stream);
}

// ---- steps --------------------------------------------------------------------------------------

__global__ void rule_kernel(spira::word_layout layout, int side, int stride,
                            spira::voxel_set<word> set, __half *logits) {
    const int64_t i = (int64_t)blockIdx.x * threads + threadIdx.x;
    const int64_t row = i / spira::subdivide_children;
    if (row < spira::voxel_set_count(set)) {
        logits[i] = (__half)rule(&layout, side, stride, set.words[row],
                                 (int)(i % spira::subdivide_children));
    }
}

static spira::status device_conv(device_run *r, const op &o, cudaStream_t stream) {
    const device_level &v = r->level[o.level];
    const spira::conv_map rows = spira::conv_map_identity(v.set.count, v.set.capacity);
    spira::conv_args a = {};
    a.shape = shape_of(o);
    a.map = o.size == 3 ? &v.map : &rows;
    a.in = r->buffer[(size_t)o.in];
    a.weights = r->packed[(size_t)o.weights];
    a.out = r->buffer[(size_t)o.out];
    a.epilogue.bias = r->first[(size_t)o.weights];
    a.epilogue.act = o.act;
    a.epilogue.residual = o.residual >= 0 ? r->buffer[(size_t)o.residual] : nullptr;
    return spira::conv<format>(&r->gpu, &a, stream);
}

static spira::status device_norm(device_run *r, const op &o, cudaStream_t stream) {
    const spira::voxel_set<word> &set = r->level[o.level].set;
    spira::norm_args a = {};
    a.in = r->buffer[(size_t)o.in];
    a.out = r->buffer[(size_t)o.out];
    a.channels = o.cout;
    a.type = format;
    a.epsilon = o.epsilon;
    a.gain = o.affine ? r->first[(size_t)o.weights] : nullptr;
    a.shift = o.affine ? r->second[(size_t)o.weights] : nullptr;
    a.act = o.act;
    a.count = set.count;
    a.capacity = set.capacity;
    return spira::norm<format>(&a, stream);
}

static spira::status device_gather(device_run *r, const op &o, cudaStream_t stream) {
    const device_level &v = r->level[o.level];
    spira::row_gather_args a = {};
    a.in = r->buffer[(size_t)o.in];
    a.in_rows = (int64_t)r->level[o.level - 1].set.capacity * spira::subdivide_children;
    a.channels = o.cout / o.repeat;
    a.repeat = o.repeat;
    a.type = format;
    a.source = v.source;
    a.count = v.set.count;
    a.capacity = v.set.capacity;
    a.out = r->buffer[(size_t)o.out];
    return spira::row_gather<format>(&a, stream);
}

static spira::status device_step(device_run *r, const op &o, cudaStream_t stream) {
    device_level *v = &r->level[o.level];
    switch (o.kind) {
    case op_map:
        return spira::conv_map_build(&r->gpu, &v->request, v->map_memory, v->map_bytes, &v->map,
                                     stream);
    case op_conv:
        return device_conv(r, o, stream);
    case op_norm:
        return device_norm(r, o, stream);
    case op_rule: {
        const int64_t logits = (int64_t)v->set.capacity * spira::subdivide_children;
        rule_kernel<<<(unsigned)spira::ceil_div(logits, threads), threads, 0, stream>>>(
            r->layout, r->side, coarsest >> o.level, v->set, r->buffer[(size_t)o.out]);
        return spira::status_from_cuda(cudaGetLastError(), "rule");
    }
    case op_divide: {
        const spira::subdivide_args<word> a = divide_args(r, o);
        return spira::subdivide<word, format>(&a, r->scratch, r->scratch_bytes, stream);
    }
    case op_gather:
        return device_gather(r, o, stream);
    }
    return spira::status_success();
}

// All steps. Nothing is read back.
static spira::status device_decode(device_run *r, cudaStream_t stream) {
    SPIRA_TRY(spira::device_status_clear(r->trouble, stream));
    for (const op &o : r->plan->ops) {
        SPIRA_TRY(device_step(r, o, stream));
    }
    return spira::status_success();
}

} // namespace generate

#endif
