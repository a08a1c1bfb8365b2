// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/conv_map.cuh: builds the kernel map that convolutions read, on the GPU.
//
// Two calls: conv_map_bytes, then conv_map_build, which searches the kernel map and writes its
// ordered layout.
#ifndef SPIRA_CONV_MAP_CUH
#define SPIRA_CONV_MAP_CUH

#include "conv.h"
#include "conv_map.h"
#include "map.cuh"
#include "order.cuh"

namespace spira {

// A 1x1x1 convolution of a set onto itself has no pairs to look for. Of a source with a smaller
// capacity later outputs have none.
template <typename W>
SPIRA_API bool conv_map_is_identity(const conv_map_request<W> *r) {
    return kernel_volume(&r->kernel) == 1 && r->source.words == r->outputs.words &&
           r->source.count == r->outputs.count && r->source.capacity >= r->outputs.capacity;
}

// Where things lie in the caller's memory.
struct conv_map_places {
    conv_map map;
    order_request order; // of conv_form_order: what it is made of
    void *scratch;
    size_t scratch_bytes;
};

template <typename W>
SPIRA_API status conv_map_carve(const conv_map_request<W> *r, workspace *w, conv_map_places *p) {
    const int volume = kernel_volume(&r->kernel);
    const int32_t capacity = r->outputs.capacity;
    *p = {};
    if (conv_map_is_identity(r)) {
        p->map = conv_map_identity(r->outputs.count, capacity);
        return status_success();
    }
    const order_layout order = order_layout_take(w, capacity, volume);
    p->map = conv_map_of_order(&order, r->outputs.count, capacity);
    p->order.kernel = r->kernel;
    if (compact_has(&r->kernel)) {
        p->order.compact = workspace_take<int32_t>(w, compact_numbers(&r->kernel, capacity));
    } else {
        p->order.map = workspace_take<int32_t>(w, (int64_t)capacity * volume);
    }
    p->order.count = r->outputs.count;
    p->order.capacity = capacity;
    p->order.layout = order;
    p->order.programmatic = true;
    SPIRA_TRY(order_workspace(&p->order, 1, &p->scratch_bytes));
    p->scratch = workspace_take<char>(w, (int64_t)p->scratch_bytes);
    return status_success();
}

// Bytes of memory for conv_map_build. Of the sets the capacities are read. With a kernel of size 1
// the pointers are compared, too: source and outputs must be those that conv_map_build will get.
template <typename W>
SPIRA_API status conv_map_bytes(const device_info *gpu, const conv_map_request<W> *request,
                                size_t *bytes) {
    SPIRA_REQUIRE(gpu, status_null_pointer, "gpu", 0);
    SPIRA_REQUIRE(request, status_null_pointer, "request", 0);
    SPIRA_TRY(kernel_check(&request->kernel));
    const int32_t capacity = request->outputs.capacity;
    SPIRA_TRY(capacity_check(capacity, "outputs.capacity"));
    SPIRA_REQUIRE(bytes, status_null_pointer, "bytes", 0);
    workspace w = workspace_begin(nullptr);
    conv_map_places places;
    SPIRA_TRY(conv_map_carve(request, &w, &places));
    *bytes = w.used;
    return status_success();
}

// Builds the kernel map that convolutions read: the z-delta search (Spira paper), then the layout.
// Convolutions of any channels and any format read it.
//
// inputs   request: sorted sets (voxelize, downsample, expand, or the caller's own); memory:
//          conv_map_bytes, aligned to 256, in use as long as the map is
// outputs  map: a host struct that points into `memory`
//          request.trouble: a count above its capacity (device_flag_capacity); a coordinate that
//          is not a multiple of the kernel's stride (device_flag_lattice): pairs behind it may be
//          missing. A 1x1x1 kernel of a set onto itself has no map, and so reports nothing
// errors   a kernel beyond the layout's margin
// Asynchronous, deterministic; up to five launches. Nothing is read back.
template <typename W>
SPIRA_API status conv_map_build(const device_info *gpu, const conv_map_request<W> *request,
                                void *memory, size_t bytes, conv_map *map, cudaStream_t stream) {
    size_t needed = 0;
    SPIRA_TRY(conv_map_bytes(gpu, request, &needed));
    SPIRA_REQUIRE(map, status_null_pointer, "map", 0);
    SPIRA_REQUIRE(request->layout, status_null_pointer, "layout", 0);
    SPIRA_TRY(
        map_sets_check(request->layout, &request->kernel, &request->source, &request->outputs));
    SPIRA_TRY(pointer_check(request->trouble, alignof(device_status), "trouble"));
    if (needed) {
        SPIRA_TRY(workspace_check(memory, bytes, needed, "memory"));
    }
    workspace w = workspace_begin(memory);
    conv_map_places p;
    SPIRA_TRY(conv_map_carve(request, &w, &p));
    *map = p.map;
    if (p.map.form == conv_form_identity) {
        return status_success();
    }
    map_forms forms = p.order.compact
                          ? map_forms_compact((int32_t *)p.order.compact, request->trouble)
                          : map_forms_os((int32_t *)p.order.map);
    forms.trouble = request->trouble;
    SPIRA_TRY(map_build_forms<W, map_kinds_layout>(
        request->layout, &request->kernel, request->source, request->outputs, &forms, stream));
    return order_build(gpu, &p.order, 1, p.scratch, p.scratch_bytes, stream);
}

} // namespace spira

#endif
