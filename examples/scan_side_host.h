// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/scan_side_host.h: runs a job with the host loops.
#ifndef SPIRA_EXAMPLES_SCAN_SIDE_HOST_H
#define SPIRA_EXAMPLES_SCAN_SIDE_HOST_H

#include "scan_side.h"

namespace side {

template <typename W>
static spira::status run_layers(const job *j, const prepared<W> *p, void *memory, result<W> *r) {
    const spira::net_plan *plan = j->plan;
    spira::device_status trouble = {};
    spira::net_run_args<W> run = {};
    run.input = p->set;
    const std::vector<char> features =
        input_stored(plan, p->features, (int64_t)voxel_set_count(p->set) * channels_of(j));
    run.features = features.data();
    run.loaded = j->params;
    run.trouble = &trouble;
    run.memory = memory;
    run.bytes = plan->workspace_bytes;
    double start = now_ms();
    SPIRA_TRY(spira::net_index_host(plan, &run));
    SPIRA_TRY(spira::device_status_read(&trouble));
    r->index_ms = now_ms() - start;
    for (int i = 0; i < plan->layer_count; ++i) {
        progress("layer", i, plan->layer_count);
        start = now_ms();
        SPIRA_TRY(spira::net_layer_run_host(plan, i, &run));
        r->layer_ms[i] = now_ms() - start;
        r->features_ms += r->layer_ms[i];
    }
    progress("layer", plan->layer_count, plan->layer_count);
    for (int s = 0; s < plan->sets; ++s) {
        r->voxels[s] = *spira::net_voxels(plan, s, p->set, memory).count;
    }
    for (int m = 0; m < plan->maps; ++m) {
        const int32_t *pairs = (const int32_t *)((char *)memory + plan->map[m].pairs);
        for (int k = 0; k < plan->map[m].volume; ++k) {
            r->pairs[m] += pairs[k];
        }
    }
    const spira::net_result<W> last = spira::net_output(plan, plan->layer_count - 1, &run);
    keep_last(j, r, last.set.words, (const float *)last.features);
    return spira::status_success();
}

template <typename W>
static spira::status run_prepared(job *j, prepared<W> *p, result<W> *r) {
    double start = now_ms();
    SPIRA_TRY(prepare(j, p));
    r->voxelize_ms = now_ms() - start;
    SPIRA_REQUIRE(*p->set.count > 0, spira::status_bad_size, "scan (no voxel is left)", 0);
    p->set.capacity = *p->set.count;
    spira::net_limits limits = job_limits(j, p->set.capacity);
    limits.count_pairs = true;
    int32_t voxels[spira::net_sets_max];
    SPIRA_TRY(measure_sets(j, p, &limits, voxels));
    SPIRA_TRY(spira::net_plan_host<W>(j->net->layers, j->net->count, &j->layout, &limits, j->plan));
    void *memory = block_new(j->plan->workspace_bytes);
    r->workspace_bytes = j->plan->workspace_bytes;
    r->feature_bytes = j->plan->feature_bytes;
    r->parameter_bytes = (size_t)j->plan->params * sizeof(float);
    spira::status s = memory ? run_layers(j, p, memory, r)
                             : spira::status_make(spira::status_workspace, "memory",
                                                  (int64_t)j->plan->workspace_bytes);
    free(memory);
    return s;
}

// Runs a job; r is zeroed before.
template <typename W>
static spira::status run(job *j, result<W> *r) {
    r->where = "on the CPU: reference, not the product's speed";
    prepared<W> p = prepared_new<W>(j);
    spira::status s = run_prepared(j, &p, r);
    prepared_free(&p);
    return s;
}

} // namespace side

#endif
