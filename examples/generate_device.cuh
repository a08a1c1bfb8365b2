// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/generate_device.cuh: the decoder on the GPU, in fp16. Counts stay on the device: all
// layers go into one CUDA graph.
#ifndef SPIRA_EXAMPLES_GENERATE_DEVICE_CUH
#define SPIRA_EXAMPLES_GENERATE_DEVICE_CUH

#include "../spira/net.cuh"
#include "generate_host.h"

namespace generate {

constexpr spira::numeric format = spira::numeric_f16;

struct device_run {
    spira::net_plan plan;
    spira::net_run_args<word> args;
    spira::device_info gpu;
    size_t memory_bytes; // all of it
};

// Device memory that ends with the program.
template <typename T>
spira::status take(device_run *r, int64_t count, T **p) {
    const size_t bytes = (size_t)count * sizeof(T);
    r->memory_bytes += bytes;
    return spira::status_from_cuda(cudaMalloc((void **)p, bytes), "memory of the decoder");
}

enum { threads = 256 };

template <typename E>
__global__ void fill_kernel(filling f, E *to) {
    for (int64_t i = f.begin + (int64_t)blockIdx.x * threads + threadIdx.x; i < f.end;
         i += (int64_t)gridDim.x * threads) {
        to[i] = (E)filled(f, i);
    }
}

template <typename E>
spira::status fill(const filling &f, E *to, cudaStream_t stream) {
    const unsigned blocks =
        (unsigned)spira::min_of(spira::ceil_div(f.end - f.begin, threads), 4096);
    return spira::kernel_launch(fill_kernel<E>, {blocks, threads, stream, "fill"}, f, to);
}

// Reads or makes up the parameters, and packs them.
static spira::status parameters_make(const decoder *d, device_run *r, char *loaded,
                                     cudaStream_t stream) {
    float *params;
    SPIRA_TRY(spira::status_from_cuda(
        cudaMalloc((void **)&params, (size_t)r->plan.params * sizeof(float)), "parameters"));
    if (d->weights) {
        std::vector<float> read((size_t)r->plan.params);
        SPIRA_TRY(parameters_read(d->weights, &r->plan, read.data()));
        SPIRA_TRY(spira::status_from_cuda(
            cudaMemcpy(params, read.data(), read.size() * sizeof(float), cudaMemcpyHostToDevice),
            "parameters"));
    } else {
        SPIRA_TRY(
            parameters_each(&r->plan, [&](const filling &f) { return fill(f, params, stream); }));
    }
    const spira::net_load_args load = {params, loaded, r->plan.loaded_bytes, nullptr};
    SPIRA_TRY(spira::net_load<format>(&r->gpu, &r->plan, &load, stream));
    SPIRA_TRY(spira::status_from_cuda(cudaStreamSynchronize(stream), "parameters"));
    return spira::status_from_cuda(cudaFree(params), "parameters");
}

// Everything that a run needs: memory, parameters, the first set and its latents.
static spira::status device_make(decoder *d, const grown *g, device_run *r, cudaStream_t stream) {
    const spira::net_limits limits = decoder_limits(d, g->capacity, format);
    *r = {};
    SPIRA_TRY(spira::device_info_query(&r->gpu));
    SPIRA_TRY(spira::net_plan_device<word>(&r->gpu, d->net.layers, d->net.count, &g->layout,
                                           &limits, &r->plan));
    char *memory, *loaded;
    __half *features;
    const int32_t count = (int32_t)g->set[0].size();
    spira::voxel_set<word> *const set = &r->args.input;
    set->capacity = limits.voxels;
    SPIRA_TRY(take(r, (int64_t)r->plan.workspace_bytes, &memory));
    SPIRA_TRY(take(r, (int64_t)r->plan.loaded_bytes, &loaded));
    SPIRA_TRY(take(r, (int64_t)limits.voxels * latents, &features));
    SPIRA_TRY(take(r, limits.voxels, &set->words));
    SPIRA_TRY(take(r, 1, &set->count));
    SPIRA_TRY(take(r, 1, &r->args.trouble));
    r->args.features = features;
    r->args.loaded = loaded;
    r->args.memory = memory;
    r->args.bytes = r->plan.workspace_bytes;
    SPIRA_TRY(parameters_make(d, r, loaded, stream));
    SPIRA_TRY(spira::status_from_cuda(
        cudaMemset(set->words, 0, (size_t)set->capacity * sizeof(word)), "first set"));
    SPIRA_TRY(
        spira::status_from_cuda(cudaMemcpy(set->words, g->set[0].data(),
                                           (size_t)count * sizeof(word), cudaMemcpyHostToDevice),
                                "first set"));
    SPIRA_TRY(spira::status_from_cuda(
        cudaMemcpy(set->count, &count, sizeof count, cudaMemcpyHostToDevice), "first set"));
    return fill(latents_of((int64_t)limits.voxels * latents), features, stream);
}

__global__ void rule_kernel(spira::word_layout layout, cube shape, int stride,
                            spira::voxel_set<word> set, __half *logits) {
    const int64_t i = (int64_t)blockIdx.x * threads + threadIdx.x;
    const int64_t row = i / spira::subdivide_children;
    if (row < spira::voxel_set_count(set)) {
        logits[i] = (__half)rule(&layout, shape, stride, set.words[row],
                                 (int)(i % spira::subdivide_children));
    }
}

// One layer, and the rule behind logits.
static spira::status device_layer(const decoder *d, const grown *g, const device_run *r, int layer,
                                  cudaStream_t stream) {
    SPIRA_TRY((spira::net_layer_run<word, format>(&r->gpu, &r->plan, layer, &r->args, stream)));
    const int level = logits_level(d, layer);
    if (level < 0) {
        return spira::status_success();
    }
    const spira::net_result<word> out = spira::net_output(&r->plan, layer, &r->args);
    const int64_t logits = (int64_t)out.set.capacity * spira::subdivide_children;
    return spira::kernel_launch(
        rule_kernel, {(unsigned)spira::ceil_div(logits, threads), threads, stream, "rule"},
        g->layout, g->shape, coarsest >> level, out.set, (__half *)out.features);
}

// All layers. Nothing is read back.
static spira::status device_decode(const decoder *d, const grown *g, const device_run *r,
                                   cudaStream_t stream) {
    SPIRA_TRY(spira::device_status_clear(r->args.trouble, stream));
    SPIRA_TRY(spira::net_index(&r->gpu, &r->plan, &r->args, stream));
    for (int i = 0; i < d->net.count; ++i) {
        SPIRA_TRY(device_layer(d, g, r, i, stream));
    }
    return spira::status_success();
}

} // namespace generate

#endif
