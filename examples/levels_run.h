// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/levels_run.h: runs a network on voxels of the host, with every layer kept, on the GPU
// (under nvcc) or on the host (otherwise). The workspace ends up in host memory.
#ifndef SPIRA_EXAMPLES_LEVELS_RUN_H
#define SPIRA_EXAMPLES_LEVELS_RUN_H

#include "scan_side.h"

namespace levels {

// A network, its input in host memory, and what becomes of it.
template <typename W>
struct levels_job {
    const side::options *chosen;
    networks::network *net; // its capacities are chosen by sets_measure
    const spira::word_layout *layout;
    spira::net_limits limits;
    const float *params;
    spira::net_plan *plan;
    spira::net_run_args<W> run; // host memory; features of the plan's input_type
};

static inline spira::status memory_new(size_t bytes, void **memory) {
    *memory = side::block_new(bytes);
    SPIRA_REQUIRE(*memory, spira::status_workspace, "bytes of memory", (int64_t)bytes);
    return spira::status_success();
}

// Plans for the host with these limits, and builds the sets.
template <typename W>
static spira::status sets_make(levels_job<W> *j, const spira::net_limits *limits, void **memory,
                               spira::device_status *trouble) {
    SPIRA_TRY(spira::net_plan_host<W>(j->net->layers, j->net->count, j->layout, limits, j->plan));
    SPIRA_TRY(memory_new(j->plan->workspace_bytes, memory));
    spira::net_run_args<W> run = j->run;
    run.trouble = trouble;
    run.memory = *memory;
    run.bytes = j->plan->workspace_bytes;
    return spira::net_index_host(j->plan, &run);
}

// Gives the layers the voxels that their sets have as capacities. Isolated voxels grow by any
// factor, so that the capacities are doubled until all sets fit.
template <typename W>
static spira::status sets_measure(levels_job<W> *j) {
    spira::net_limits wide = j->limits;
    wide.type = spira::numeric_f32;
    wide.count_pairs = wide.keep_all = false;
    SPIRA_TRY(spira::net_plan_sets(j->net->layers, j->net->count, &wide, false, j->plan));
    for (int64_t room = 2 * (int64_t)wide.voxels + 64; room < INT32_MAX / 2; room *= 2) {
        int32_t voxels[spira::net_sets_max];
        std::fill(voxels, voxels + spira::net_sets_max, (int32_t)room);
        side::capacities_set(j->plan, voxels, j->net);
        spira::device_status trouble = {};
        void *memory = nullptr;
        const spira::status made = sets_make(j, &wide, &memory, &trouble);
        for (int s = 1; s < j->plan->sets && !spira::status_failed(made); ++s) {
            const int32_t *count = spira::net_voxels(j->plan, s, j->run.input, memory).count;
            voxels[s] = j->plan->set[s].stage ? voxels[s] : *count ? *count : 1;
        }
        free(memory);
        SPIRA_TRY(made);
        side::capacities_set(j->plan, voxels, j->net);
        if (!(trouble.flags & spira::device_flag_capacity)) {
            return spira::device_status_read(&trouble);
        }
    }
    return spira::status_make(spira::status_capacity, "sets (more than 2^30 voxels)", 0);
}

// Brings the features of the input from limits.type to the format that the plan reads, in place.
template <typename W>
static void input_store(levels_job<W> *j) {
    if (j->plan->input_type != spira::numeric_i8) {
        return;
    }
    const int64_t count = (int64_t)j->limits.voxels * j->limits.channels;
    std::vector<float> floats((size_t)count);
    for (int64_t i = 0; i < count; ++i) {
        floats[(size_t)i] = spira::numeric_load(j->limits.type, j->run.features, i);
    }
    const std::vector<char> stored = side::input_stored(j->plan, floats.data(), count);
    memcpy((void *)j->run.features, stored.data(), (size_t)count);
}

} // namespace levels

#ifdef __CUDACC__

namespace levels {

// The device memory of a run.
template <typename W>
struct levels_device {
    cudaStream_t stream;
    spira::net_run_args<W> run;
    float *params;
    void *loaded;
};

template <typename T>
static spira::status device_copy(const T *from, size_t bytes, T **to) {
    SIDE_CUDA(cudaMalloc((void **)to, bytes + 1));
    SIDE_CUDA(cudaMemcpy((void *)*to, (const void *)from, bytes, cudaMemcpyHostToDevice));
    return spira::status_success();
}

template <typename W>
static spira::status device_run(const levels_job<W> *j, const spira::device_info *gpu,
                                levels_device<W> *d) {
    const spira::net_plan *plan = j->plan;
    const size_t rows = (size_t)j->limits.voxels;
    SIDE_CUDA(cudaStreamCreate(&d->stream));
    SPIRA_TRY(device_copy(j->run.input.words, rows * sizeof(W), &d->run.input.words));
    SPIRA_TRY(device_copy(j->run.input.count, sizeof(int32_t), &d->run.input.count));
    SPIRA_TRY(
        device_copy((const char *)j->run.features,
                    rows * (size_t)(j->limits.channels * spira::numeric_size(plan->input_type)),
                    (char **)&d->run.features));
    SPIRA_TRY(device_copy(j->params, (size_t)plan->params * sizeof(float), &d->params));
    SPIRA_TRY(device_copy(j->run.trouble, sizeof *j->run.trouble, &d->run.trouble));
    d->run.input.capacity = j->run.input.capacity;
    SIDE_CUDA(cudaMalloc(&d->loaded, plan->loaded_bytes));
    SIDE_CUDA(cudaMalloc(&d->run.memory, plan->workspace_bytes));
    d->run.loaded = d->loaded;
    d->run.bytes = plan->workspace_bytes;
    SPIRA_TRY(spira::net_params_check(plan, j->params));
    const spira::net_load_args load = {d->params, d->loaded, plan->loaded_bytes, nullptr};
    SPIRA_TRY(spira::net_load<side::format>(gpu, plan, &load, d->stream));
    SPIRA_TRY(spira::net_run<W, side::format>(gpu, plan, &d->run, d->stream));
    SIDE_CUDA(cudaStreamSynchronize(d->stream));
    SIDE_CUDA(
        cudaMemcpy(j->run.memory, d->run.memory, plan->workspace_bytes, cudaMemcpyDeviceToHost));
    SIDE_CUDA(
        cudaMemcpy(j->run.trouble, d->run.trouble, sizeof *j->run.trouble, cudaMemcpyDeviceToHost));
    return spira::status_success();
}

template <typename W>
static void device_free(levels_device<W> *d) {
    void *const all[] = {d->run.input.words, d->run.input.count, (void *)d->run.features,
                         d->params,          d->run.trouble,     d->loaded,
                         d->run.memory};
    for (void *one : all) {
        cudaFree(one);
    }
    cudaStreamDestroy(d->stream);
}

// Runs a job. j->run.memory is allocated here and becomes a copy of the device's workspace.
template <typename W>
static spira::status run(levels_job<W> *j) {
    spira::device_info gpu;
    SPIRA_TRY(spira::device_info_query(&gpu));
    j->limits.shortcuts = spira::net_shortcuts_hidden; // fused as in production
    SPIRA_TRY(spira::net_plan_device<W>(&gpu, j->net->layers, j->net->count, j->layout, &j->limits,
                                        j->plan));
    input_store(j);
    SPIRA_TRY(memory_new(j->plan->workspace_bytes, &j->run.memory));
    levels_device<W> d = {};
    spira::status s = device_run(j, &gpu, &d);
    device_free(&d);
    return s;
}

} // namespace levels

#else

namespace levels {

// Runs a job. j->run.memory is allocated here.
template <typename W>
static spira::status run(levels_job<W> *j) {
    SPIRA_TRY(
        spira::net_plan_host<W>(j->net->layers, j->net->count, j->layout, &j->limits, j->plan));
    input_store(j);
    SPIRA_TRY(memory_new(j->plan->workspace_bytes, &j->run.memory));
    j->run.loaded = j->params;
    j->run.bytes = j->plan->workspace_bytes;
    return spira::net_run_host(j->plan, &j->run);
}

} // namespace levels

#endif

#endif
