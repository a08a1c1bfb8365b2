// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/conv_map.h: the kernel map that convolutions read on a GPU: one handle.
//
// conv_map_build (conv_map.cuh) makes it from two coordinate sets. Those who build a layout
// themselves wrap it with conv_map_of_order.
#ifndef SPIRA_CONV_MAP_H
#define SPIRA_CONV_MAP_H

#include "order.h"
#include "voxel_set.h"

namespace spira {

// What a map is made of. A host struct.
template <typename W>
struct conv_map_request {
    const word_layout *layout; // its guard margin covers the kernel's reach
    kernel_shape kernel;       //
    voxel_set<W> source;       // voxels of the inputs
    voxel_set<W> outputs;      // and of the outputs; the same set for a submanifold layer
    device_status *trouble;    // see conv_map_build
};

// What convolution kernels read: the ordered layout (order.h), or nothing: each output is
// its own only source, as in a 1x1x1 convolution.
enum conv_form { conv_form_order, conv_form_identity };

// A host struct; its arrays are in device memory. Copy it freely: it owns nothing.
struct conv_map {
    conv_form form;
    order_layout order;   // of conv_form_order
    int32_t volume;       // offsets of the kernel
    const int32_t *count; // [1] outputs, at most `capacity`
    int32_t capacity;     // of the output set
};

SPIRA_API conv_map conv_map_of_order(const order_layout *order, const int32_t *count,
                                     int32_t capacity) {
    conv_map m = {};
    m.form = conv_form_order;
    m.order = *order;
    m.volume = order->volume;
    m.count = count;
    m.capacity = capacity;
    return m;
}

// The map of a 1x1x1 convolution, which every kernel reads.
SPIRA_API conv_map conv_map_identity(const int32_t *count, int32_t capacity) {
    conv_map m = {};
    m.form = conv_form_identity;
    m.volume = 1;
    m.count = count;
    m.capacity = capacity;
    return m;
}

// The map is there, of `volume` offsets, and its arrays are large enough for its capacity.
SPIRA_API status conv_map_check(const conv_map *m, int volume) {
    SPIRA_REQUIRE(m, status_null_pointer, "map", 0);
    SPIRA_TRY(pointer_check(m->count, sizeof(int32_t), "map.count"));
    SPIRA_TRY(capacity_check(m->capacity, "map.capacity"));
    SPIRA_TRY(size_check(m->volume, volume, volume, "map.volume"));
    switch (m->form) {
    case conv_form_identity:
        return status_success();
    case conv_form_order:
        return order_layout_check(&m->order, volume, m->capacity);
    default:
        return status_make(status_unsupported, "map.form", m->form);
    }
}

} // namespace spira

#endif
