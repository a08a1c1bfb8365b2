// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/net/index.cuh: builds the index of a plan on the GPU: coordinate sets, kernel maps and the
// layouts that convolutions read, whole or one of its parts (net_part).
#ifndef SPIRA_NET_INDEX_CUH
#define SPIRA_NET_INDEX_CUH

#include "../downsample.cuh"
#include "../expand.cuh"
#include "../join.cuh"
#include "../map.cuh"
#include "../order.cuh"
#include "../subdivide.cuh"
#include "place.h"

namespace spira {

// Collects requests for the ordered layouts of a part, as many as order_build takes, from map
// *first on. Returns their number and advances *first.
template <typename W>
SPIRA_API int net_orders(const net_plan *p, net_part part, voxel_set<W> input, void *memory,
                         int *first, order_request *request) {
    int count = 0;
    int64_t rows = 0;
    for (; *first < p->maps && count < order_maps_max; ++*first) {
        const net_map *map = &p->map[*first];
        if (map->ordered && net_map_in(map, part)) {
            voxel_set<W> outputs = net_voxels(p, map->outputs, input, memory);
            rows += outputs.capacity;
            if (rows > INT32_MAX / 2) { // more than order_build takes; one map is not
                break;
            }
            order_request *r = &request[count++];
            *r = {};
            r->kernel = map->kernel;
            r->count = outputs.count;
            r->capacity = outputs.capacity;
            r->layout = net_order(p, map, memory);
            r->compact = net_compact(p, map, memory);
            r->map = r->compact ? nullptr : (const int32_t *)((char *)memory + map->map);
        }
    }
    return count;
}

// Raises *scratch to the bytes that a part of the index needs. p->layout is there.
template <typename W>
SPIRA_API status net_scratch(const net_plan *p, net_part part, size_t *scratch) {
    net_run_args<W> none = {};
    none.input.capacity = p->set[0].capacity;
    order_request request[order_maps_max];
    SPIRA_TRY(net_each_set(
        p, part, &none, expand_levels_most, [=](net_set_args<W> *a, net_derivation by) {
            size_t bytes = 0;
            SPIRA_TRY(by == net_set_expanded ? expand_chain_workspace(a->expand, a->levels, &bytes)
                      : by == net_set_children ? subdivide_workspace(&a->children, &bytes)
                      : by == net_set_joined
                          ? join_workspace(&a->join, &bytes)
                          : downsample_workspace(a->floor.in, a->floor.out.capacity, &bytes));
            *scratch = *scratch < bytes ? bytes : *scratch;
            return status_success();
        }));
    int first = 0;
    while (int count = net_orders(p, part, none.input, nullptr, &first, request)) {
        size_t bytes = 0;
        SPIRA_TRY(order_workspace(request, count, &bytes));
        *scratch = *scratch < bytes ? bytes : *scratch;
    }
    return status_success();
}

// Makes the sets of a part.
template <typename W>
SPIRA_API status net_index_sets(const net_plan *p, net_part part, const net_run_args<W> *run,
                                cudaStream_t stream) {
    void *scratch = (char *)run->memory + p->scratch;
    const size_t bytes = p->scratch_bytes;
    return net_each_set(
        p, part, run, expand_levels_most, [=](net_set_args<W> *a, net_derivation by) {
            return by == net_set_expanded
                       ? expand_chain(&p->gpu, a->expand, a->levels, scratch, bytes, stream)
                   : by == net_set_joined ? join(&a->join, scratch, bytes, stream)
                   : by == net_set_children // all of them: no scores
                       ? subdivide<W, numeric_f32>(&a->children, scratch, bytes, stream)
                       : downsample(&p->gpu, &a->floor, scratch, bytes, stream);
        });
}

// The maps of a part.
template <typename W>
SPIRA_API status net_index_maps(const net_plan *p, net_part part, const net_run_args<W> *run,
                                cudaStream_t stream) {
    enum { kinds = map_kind_os | map_kind_compact };
    map_request<W> request[net_maps_max] = {};
    int count = 0;
    for (int m = 0; m < p->maps; ++m) {
        const net_map *map = &p->map[m];
        if (!net_map_in(map, part)) {
            continue;
        }
        map_request<W> *r = &request[count++];
        r->kernel = map->kernel;
        r->source = net_voxels(p, map->source, run->input, run->memory);
        r->outputs = net_voxels(p, map->outputs, run->input, run->memory);
        r->forms = map_forms_compact(net_compact(p, map, run->memory), run->trouble);
        if (net_map_written(p, map)) {
            r->forms.os = (int32_t *)((char *)run->memory + map->map);
        }
    }
    return map_build_batch<W, kinds>(&p->gpu, &p->layout, request, count, stream);
}

template <typename W>
SPIRA_API status net_index_orders(const net_plan *p, net_part part, const net_run_args<W> *run,
                                  void *scratch, size_t scratch_bytes, cudaStream_t stream) {
    device_info gpu = p->gpu;
    const bool alone = part == net_part_all || part == net_part_fine || // no layers run beside it
                       part > net_part_stages;
    gpu.programmatic = gpu.programmatic && alone;
    order_request orders[order_maps_max];
    int first = 0;
    while (int count = net_orders(p, part, run->input, run->memory, &first, orders)) {
        SPIRA_TRY(order_build(&gpu, orders, count, scratch, scratch_bytes, stream));
    }
    return status_success();
}

template <typename W>
SPIRA_API status net_index_pairs(const net_plan *p, net_part part, const net_run_args<W> *run,
                                 cudaStream_t stream) {
    char *memory = (char *)run->memory;
    for (int m = 0; m < p->maps && p->limits.count_pairs; ++m) {
        const net_map *map = &p->map[m];
        voxel_set<W> outputs = net_voxels(p, map->outputs, run->input, memory);
        if (net_map_in(map, part)) {
            SPIRA_TRY(map_count((const int32_t *)(memory + map->map), map->volume, outputs.count,
                                outputs.capacity, (int32_t *)(memory + map->pairs), stream));
        }
    }
    return status_success();
}

// Records an input count that exceeds its capacity. Only for plans with one set: otherwise the
// second one records it. One thread.
template <typename W>
SPIRA_KERNEL void net_count_kernel(voxel_set<W> input, device_status *trouble) {
    device_status_raise_count(trouble, *input.count, input.capacity);
}

template <typename W>
SPIRA_API status net_index_count(const net_run_args<W> *run, cudaStream_t stream) {
    return kernel_launch(net_count_kernel<W>, {1, 1, stream, "net_index"}, run->input,
                         run->trouble);
}

// Builds a part of the index. The arguments have been checked.
template <typename W>
SPIRA_API status net_index_part(const net_plan *p, net_part part, const net_run_args<W> *run,
                                cudaStream_t stream) {
    const bool fine = part == net_part_fine;
    char *scratch = (char *)run->memory + (fine ? p->fine_scratch : p->scratch);
    const size_t bytes = fine ? p->fine_scratch_bytes : p->scratch_bytes;
    SPIRA_TRY(net_index_sets(p, part, run, stream));
    if (!fine && p->sets == 1) {
        SPIRA_TRY(net_index_count(run, stream));
    }
    SPIRA_TRY(net_index_maps(p, part, run, stream));
    SPIRA_TRY(net_index_orders(p, part, run, scratch, bytes, stream));
    return net_index_pairs(p, part, run, stream);
}

} // namespace spira

#endif
