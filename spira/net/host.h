// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/net/host.h: builds the index of a plan and computes its layers with the host loops, in fp32
// and int8: the CPU path, and the reference for index.cuh and layers.cuh.
#ifndef SPIRA_NET_HOST_H
#define SPIRA_NET_HOST_H

#include "place.h"

namespace spira {

// The checks of every run, on the device and on the host.
template <typename W>
SPIRA_API status net_run_check(const net_plan *p, bool device, const net_run_args<W> *run) {
    SPIRA_REQUIRE(p, status_null_pointer, "plan", 0);
    SPIRA_REQUIRE(run, status_null_pointer, "run", 0);
    SPIRA_REQUIRE(p->device == device, status_unsupported,
                  device ? "plan (made for the host)" : "plan (made for the device)", 0);
    SPIRA_TRY(word_check<W>(&p->layout));
    SPIRA_TRY(voxel_set_check(&run->input));
    SPIRA_TRY(size_check(run->input.capacity, p->set[0].capacity, p->set[0].capacity,
                         "run.input.capacity (limits.voxels of the plan)"));
    SPIRA_TRY(pointer_check(run->trouble, sizeof(uint32_t), "run.trouble"));
    SPIRA_TRY(run->out ? pointer_check(run->out, 16, "run.out") : status_success());
    return workspace_check(run->memory, run->bytes, p->workspace_bytes, "run.memory");
}

// The checks of what layers read besides.
SPIRA_API status net_features_check(const void *features, numeric type, const void *loaded,
                                    size_t loaded_alignment) {
    SPIRA_TRY(pointer_check(features, (size_t)numeric_size(type), "run.features"));
    return pointer_check(loaded, loaded_alignment, "run.loaded");
}

// Bytes of scratch that the host loops need for the sets, and then for the layers.
template <typename W>
SPIRA_API status net_scratch_host(const net_plan *p, size_t *scratch) {
    net_run_args<W> none = {};
    none.input.capacity = p->set[0].capacity;
    *scratch = 0;
    for (int i = 0; i < p->layer_count; ++i) {
        const int64_t bytes =
            net_op_call(p->layers[i].op, [&](auto op) { return net_op_scratch_host(op, p, i); });
        *scratch = (size_t)max_of((int64_t)*scratch, bytes);
    }
    for (int stage = 0; stage <= p->stages; ++stage) {
        SPIRA_TRY(net_each_set(
            p, net_part_of(stage), &none, 1, [=](net_set_args<W> *a, net_derivation by) {
                size_t bytes = 0;
                SPIRA_TRY(by == net_set_expanded ? expand_host_workspace(a->expand, &bytes)
                          : by == net_set_joined ? join_host_workspace(&a->join, &bytes)
                          : by == net_set_children
                              ? subdivide_host_workspace(&a->children, &bytes)
                              : downsample_host_workspace(a->floor.in, &bytes));
                *scratch = *scratch < bytes ? bytes : *scratch;
                return status_success();
            }));
    }
    return status_success();
}

// The sets and maps of a part, but for a set that follows from features.
template <typename W>
SPIRA_API status net_part_sets_host(const net_plan *p, net_part part, const net_run_args<W> *run) {
    char *const scratch = (char *)run->memory + p->scratch;
    return net_each_set(p, part, run, 1, [=](net_set_args<W> *a, net_derivation by) {
        return by == net_set_expanded   ? expand_host(a->expand, scratch, p->scratch_bytes)
               : by == net_set_joined   ? join_host(&a->join, scratch, p->scratch_bytes)
               : by == net_set_children ? subdivide_host(&a->children, scratch, p->scratch_bytes)
                                        : downsample_host(&a->floor, scratch, p->scratch_bytes);
    });
}

template <typename W>
SPIRA_API status net_part_maps_host(const net_plan *p, net_part part, const net_run_args<W> *run) {
    char *memory = (char *)run->memory;
    for (int m = 0; m < p->maps; ++m) {
        const net_map *map = &p->map[m];
        if (!net_map_in(map, part)) {
            continue;
        }
        voxel_set<W> source = net_voxels(p, map->source, run->input, memory);
        voxel_set<W> outputs = net_voxels(p, map->outputs, run->input, memory);
        int32_t *to = (int32_t *)(memory + map->map);
        SPIRA_TRY(map_build_host(&p->layout, &map->kernel, source, outputs, to));
        if (p->limits.count_pairs) {
            SPIRA_TRY(map_count_host(to, map->volume, voxel_set_count(outputs),
                                     (int32_t *)(memory + map->pairs)));
        }
    }
    return status_success();
}

// Builds all coordinate sets but those that follow from features: the first half of net_index_host,
// for callers that want no more than their counts. A count of the input that exceeds its capacity
// is recorded in run->trouble and clamped.
template <typename W>
SPIRA_API status net_sets_host(const net_plan *p, const net_run_args<W> *run) {
    SPIRA_TRY(net_run_check(p, false, run));
    voxel_set_note(run->input, run->trouble);
    return net_part_sets_host(p, net_part_all, run);
}

// And all kernel maps: the host loop of net_index (net.cuh).
template <typename W>
SPIRA_API status net_index_host(const net_plan *p, const net_run_args<W> *run) {
    SPIRA_TRY(net_sets_host(p, run));
    return net_part_maps_host(p, net_part_all, run);
}

// Computes one layer after net_index_host and the layers in front of it: the host loop of
// net_layer_run (net.cuh).
template <typename W>
SPIRA_API status net_layer_run_host(const net_plan *p, int layer, const net_run_args<W> *run) {
    const net_op op = p->layers[layer].op;
    if (p->step[layer].opens) {
        const net_part part = net_part_of(p->step[layer].opens);
        SPIRA_TRY(net_op_call(op, [&](auto o) { return net_op_grow_host(o, p, layer, run); }));
        SPIRA_TRY(net_part_sets_host(p, part, run));
        SPIRA_TRY(net_part_maps_host(p, part, run));
    }
    return net_op_call(op, [&](auto o) { return net_op_run_host(o, p, layer, run); });
}

} // namespace spira

#endif
