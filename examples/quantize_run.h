// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/quantize_run.h: one frame through a network, layer by layer: as it is, and beside it
// with int8 layers. On the GPU under nvcc, in fp16; on the host, in fp32, otherwise.
#ifndef SPIRA_EXAMPLES_QUANTIZE_RUN_H
#define SPIRA_EXAMPLES_QUANTIZE_RUN_H

#include "quantize_range.h"
#include "scan_side.h"

#include <vector>

namespace quantize {

#ifdef __CUDACC__
constexpr spira::numeric float_type = spira::numeric_f16;
#else
constexpr spira::numeric float_type = spira::numeric_f32;
#endif

// ---- memory of the machine that runs ------------------------------------------------------------

// What a frame allocates, freed together.
struct memory {
    std::vector<void *> blocks;

    memory() = default;
    memory(const memory &) = delete;
    ~memory() {
        for (void *block : blocks) {
#ifdef __CUDACC__
            (void)cudaFree(block);
#else
            free(block);
#endif
        }
    }
};

// Null: there is none.
static inline char *memory_new(memory *m, size_t bytes) {
    void *block = nullptr;
#ifdef __CUDACC__
    if (cudaMalloc(&block, bytes + 1) != cudaSuccess) {
        return nullptr;
    }
#else
    block = side::block_new(bytes + 1);
#endif
    m->blocks.push_back(block);
    return (char *)block;
}

static inline void memory_copy(void *to, const void *from, size_t bytes) {
#ifdef __CUDACC__
    (void)cudaMemcpy(to, from, bytes, cudaMemcpyDefault); // the next status shows a fault
#else
    memcpy(to, from, bytes);
#endif
}

static inline char *memory_put(memory *m, const void *from, size_t bytes) {
    char *to = memory_new(m, bytes);
    if (to) {
        memory_copy(to, from, bytes);
    }
    return to;
}

// ---- a plan and its run -------------------------------------------------------------------------

// A network that is planned for a frame. params: of the table's plans, in host memory
template <typename W>
struct runner {
    spira::net_plan *plan;
    spira::net_run_args<W> run;
    memory blocks;
    spira::device_status *trouble;

    runner() : plan((spira::net_plan *)calloc(1, sizeof *plan)), run(), trouble(nullptr) {}
    runner(const runner &) = delete;
    ~runner() {
        free(plan);
    }
};

template <typename W>
static spira::status runner_plan(const side::job *j, const networks::network *net,
                                 spira::net_limits limits, runner<W> *r) {
    limits.shortcuts = spira::net_shortcuts_apart; // all features are there to be seen
#ifdef __CUDACC__
    static spira::device_info gpu;
    static const spira::status asked = spira::device_info_query(&gpu);
    SPIRA_TRY(asked);
    limits.type = float_type;
    return spira::net_plan_device<W>(&gpu, net->layers, net->count, &j->layout, &limits, r->plan);
#else
    return spira::net_plan_host<W>(net->layers, net->count, &j->layout, &limits, r->plan);
#endif
}

// Plans, loads, and builds the index.
template <typename W>
static spira::status runner_start(const side::job *j, const networks::network *net,
                                  const spira::net_limits *limits, const side::prepared<W> *p,
                                  const float *params, runner<W> *r) {
    SPIRA_TRY(runner_plan(j, net, *limits, r));
    const spira::net_plan *plan = r->plan;
    const spira::device_status none = {};
    const std::vector<char> features =
        side::input_stored(plan, p->features, (int64_t)*p->set.count * side::channels_of(j));
    memory *m = &r->blocks;
    const size_t words = (size_t)p->set.capacity * sizeof(W);
    r->trouble = (spira::device_status *)memory_put(m, &none, sizeof none);
    r->run.input = {(W *)memory_put(m, p->set.words, words),
                    (int32_t *)memory_put(m, p->set.count, sizeof(int32_t)), p->set.capacity};
    r->run.features = memory_put(m, features.data(), features.size());
    r->run.trouble = r->trouble;
    r->run.bytes = plan->workspace_bytes;
    r->run.memory = memory_new(m, plan->workspace_bytes);
    char *own = memory_put(m, params, (size_t)plan->params * sizeof(float));
    SPIRA_REQUIRE(r->trouble && r->run.input.words && r->run.input.count && r->run.features &&
                      r->run.memory && own,
                  spira::status_workspace, "memory", plan->workspace_bytes);
#ifdef __CUDACC__
    char *loaded = memory_new(m, plan->loaded_bytes);
    SPIRA_REQUIRE(loaded, spira::status_workspace, "memory", plan->loaded_bytes);
    const spira::net_load_args load = {(const float *)own, loaded, plan->loaded_bytes, nullptr};
    SPIRA_TRY(spira::net_load<spira::numeric_i8>(&plan->gpu, plan, &load, nullptr));
    r->run.loaded = loaded;
    return spira::net_index(&plan->gpu, plan, &r->run, nullptr);
#else
    r->run.loaded = own;
    return spira::net_index_host(plan, &r->run);
#endif
}

template <typename W>
static spira::status runner_layer(const runner<W> *r, int layer) {
#ifdef __CUDACC__
    return spira::net_layer_run<W, spira::numeric_i8>(&r->plan->gpu, r->plan, layer, &r->run,
                                                      nullptr);
#else
    return spira::net_layer_run_host(r->plan, layer, &r->run);
#endif
}

// The features of a layer that has just run, as numbers; of net_input: the input's.
template <typename W>
static std::vector<float> runner_fetch(const runner<W> *r, int layer) {
    const spira::net_plan *plan = r->plan;
    const int set = layer < 0 ? 0 : plan->step[layer].set;
    int32_t count;
    memory_copy(&count, spira::net_voxels(plan, set, r->run.input, r->run.memory).count,
                sizeof count);
    const int64_t values = side::feature_count(plan, layer, count);
    const spira::numeric type = spira::net_type_of(plan, layer);
    std::vector<char> stored((size_t)(values * spira::numeric_size(type)) + 1);
    memory_copy(stored.data(), spira::net_features_of(plan, layer, r->run.features, r->run.memory),
                (size_t)(values * spira::numeric_size(type)));
    std::vector<float> floats((size_t)values);
    const float scale = spira::net_scale_of(plan, layer);
    for (int64_t i = 0; i < values; ++i) {
        floats[(size_t)i] = spira::numeric_load(type, stored.data(), i) * scale;
    }
    return floats;
}

template <typename W>
static spira::status runner_end(const runner<W> *r) {
    spira::device_status trouble;
    memory_copy(&trouble, r->trouble, sizeof trouble);
    return spira::device_status_read(&trouble);
}

} // namespace quantize

#endif
