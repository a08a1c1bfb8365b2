// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/generate_host.h: the sets that the rule grows, and the decoder by spira's host loops, in
// fp32.
#ifndef SPIRA_EXAMPLES_GENERATE_HOST_H
#define SPIRA_EXAMPLES_GENERATE_HOST_H

#include "generate_decoder.h"

#include <algorithm>
#include <stdlib.h>

namespace generate {

// What the rule grows.
struct grown {
    cube shape;
    spira::word_layout layout;
    std::vector<word> set[levels];
    int32_t capacity[levels];              // with some room
    int64_t voxels[levels], pairs[levels]; // of the maps of size 3
};

// The set of a level, from the one above it.
SPIRA_API void grow_level(grown *g, int level) {
    const int stride = coarsest >> (level - 1), half = stride / 2;
    for (const word parent : g->set[level - 1]) {
        for (int s = 0; s < spira::subdivide_children; ++s) {
            if (rule(&g->layout, g->shape, stride, parent, s) > 0) {
                const spira::triple by = {half, half, half};
                g->set[level].push_back(parent + spira::subdivide_delta<word>(&g->layout, by, s));
            }
        }
    }
    std::sort(g->set[level].begin(), g->set[level].end());
}

SPIRA_API spira::status grow(cube shape, grown *g) {
    g->shape = shape;
    SPIRA_TRY(begin(shape, &g->layout, &g->set[0]));
    for (int l = 0; l < levels; ++l) {
        if (l) {
            grow_level(g, l);
        }
        const spira::kernel_shape kernel = spira::kernel_cube(3, coarsest >> l);
        int32_t count = (int32_t)g->set[l].size();
        const spira::voxel_set<word> set = {g->set[l].data(), &count, count};
        std::vector<int32_t> map((size_t)count * 27);
        SPIRA_TRY(spira::map_build_host<word>(&g->layout, &kernel, set, set, map.data()));
        g->voxels[l] = count;
        g->pairs[l] = (int64_t)map.size() - std::count(map.begin(), map.end(), -1);
        g->capacity[l] = (int32_t)(g->voxels[l] * 21 / 20 + 1);
    }
    return spira::status_success();
}

// The level whose logits a layer makes, or -1. A rule overwrites them: those of random weights mean
// nothing.
SPIRA_API int logits_level(const decoder *d, int layer) {
    int level = -1;
    for (int l = 0; l < steps; ++l) {
        level = d->logits[l] == layer ? l : level;
    }
    return level;
}

struct host_run {
    spira::net_plan plan;
    spira::net_run_args<word> args;
    spira::device_status trouble;
    std::vector<float> params, features;
    std::vector<word> words;
    int32_t count;
    void *memory; // as long as the program
};

// Memory, parameters, the first set and its latents.
SPIRA_API spira::status host_make(decoder *d, const grown *g, host_run *r) {
    const spira::net_limits limits = decoder_limits(d, g->capacity, spira::numeric_f32);
    SPIRA_TRY(
        spira::net_plan_host<word>(d->net.layers, d->net.count, &g->layout, &limits, &r->plan));
    const auto fill = [](const filling &f, float *to) {
        for (int64_t i = f.begin; i < f.end; ++i) {
            to[i] = filled(f, i);
        }
        return spira::status_success();
    };
    r->params.resize((size_t)r->plan.params);
    SPIRA_TRY(d->weights ? parameters_read(d->weights, &r->plan, r->params.data())
                         : parameters_each(&r->plan, [&](const filling &f) {
                               return fill(f, r->params.data());
                           }));
    r->features.resize((size_t)limits.voxels * latents);
    SPIRA_TRY(fill(latents_of((int64_t)r->features.size()), r->features.data()));
    r->words = g->set[0];
    r->count = (int32_t)r->words.size();
    r->words.resize((size_t)limits.voxels, spira::word_none<word>());
    r->memory = aligned_alloc(spira::workspace_alignment, r->plan.workspace_bytes);
    SPIRA_REQUIRE(r->memory, spira::status_workspace, "memory of the decoder",
                  r->plan.workspace_bytes);
    r->trouble = {};
    r->args = {};
    r->args.input = {r->words.data(), &r->count, limits.voxels};
    r->args.features = r->features.data();
    r->args.loaded = r->params.data();
    r->args.trouble = &r->trouble;
    r->args.memory = r->memory;
    r->args.bytes = r->plan.workspace_bytes;
    return spira::status_success();
}

SPIRA_API spira::status host_decode(const decoder *d, const grown *g, host_run *r) {
    SPIRA_TRY(spira::net_index_host(&r->plan, &r->args));
    for (int i = 0; i < d->net.count; ++i) {
        SPIRA_TRY(spira::net_layer_run_host(&r->plan, i, &r->args));
        const int level = logits_level(d, i);
        if (level >= 0) {
            const spira::net_result<word> out = spira::net_output(&r->plan, i, &r->args);
            for (int n = 0; n < *out.set.count * spira::subdivide_children; ++n) {
                ((float *)out.features)[n] = rule(&g->layout, g->shape, coarsest >> level,
                                                  out.set.words[n / spira::subdivide_children],
                                                  n % spira::subdivide_children);
            }
        }
    }
    return spira::device_status_read(&r->trouble);
}

} // namespace generate

#endif
