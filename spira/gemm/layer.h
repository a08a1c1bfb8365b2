// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/gemm/layer.h: a layer that is planned for gather, products and scatter: the request, and
// the plan as data. First file of the machinery of ../cublas.cuh.
#ifndef SPIRA_GEMM_LAYER_H
#define SPIRA_GEMM_LAYER_H

#include "../conv.h"
#include "../map.h"
#include "group.h"

namespace spira {

enum {
    ggs_threads = 256, // of a thread block
    ggs_chunk = 16,    // bytes that a thread moves at once
};

// The kernel map and the shape of a plan. A host struct, read during the call only; its arrays are
// in device memory.
struct ggs_request {
    conv_shape shape;
    map_lists pairs;      // of map_build_lists, all offsets in the lists
    int32_t inputs;       // capacity of the source set
    const int32_t *count; // [1] outputs, at most the capacity
    int32_t outputs;      // capacity of the output set
    ggs_grouping grouping;
};

SPIRA_API status ggs_request_check(const ggs_request *r) {
    SPIRA_REQUIRE(r, status_null_pointer, "request", 0);
    SPIRA_TRY(conv_shape_check(&r->shape));
    SPIRA_TRY(map_lists_check(&r->pairs));
    SPIRA_TRY(pointer_check(r->count, sizeof(int32_t), "count"));
    SPIRA_TRY(capacity_check(r->inputs, "inputs"));
    SPIRA_TRY(capacity_check(r->outputs, "outputs"));
    return ggs_grouping_check(&r->grouping);
}

// For each row of a side the rows of the buffers that belong to it, offsets ascending.
struct ggs_lists {
    int32_t *begin; // [rows + 1]
    int32_t *place; // [pairs]
};

// A planned layer: plain data that points into the host memory and the workspace of ggs_plan.
struct ggs_layer {
    conv_shape shape;
    int32_t inputs;  // capacity of the source set
    int32_t outputs; // number of them
    int32_t pairs;
    ggs_groups groups;  // on the host
    int32_t *row_of;    // device: [volume] groups.row
    int32_t *offset_of; // device: [volume] groups.order
    ggs_lists in;       // device: where each input row is copied to
    ggs_lists out;      // device: the products of each output
    size_t kept_bytes;  // of the plan's workspace; the rest is free after ggs_plan
};

// Channels of a source in a gathered row: padded to whole chunks.
SPIRA_BOTH int ggs_channels(int channels, numeric type) {
    return (int)round_up(channels, ggs_chunk / numeric_size(type));
}

SPIRA_BOTH int ggs_shape_channels(const conv_shape *s) {
    return ggs_channels(s->cin, s->type) + ggs_channels(s->cin2, s->type);
}

// Groups the products: everything that follows from the sizes of the lists.
//
// host  begin [volume + 1] and the number of outputs; behind them, row [volume], order [volume],
//       sizes [volume] and group [volume] are written
SPIRA_API status ggs_plan_groups(const ggs_request *r, int32_t *host, ggs_layer *l) {
    const int volume = r->shape.volume;
    const int32_t *begin = host;
    int32_t *row = host + volume + 2, *order = row + volume, *sizes = order + volume;
    bool ascend = begin[0] == 0 && begin[volume] <= r->pairs.capacity;
    for (int k = 0; k < volume; ++k) {
        ascend = ascend && begin[k] <= begin[k + 1];
        sizes[k] = ascend ? begin[k + 1] - begin[k] : 0;
        order[k] = 0; // the whole table is copied
    }
    SPIRA_REQUIRE(ascend, status_bad_size, "pairs.begin (does not ascend)", begin[volume]);
    l->shape = r->shape;
    l->inputs = r->inputs;
    l->outputs = count_clamp(host[volume + 1], r->outputs);
    l->pairs = begin[volume];
    l->groups.row = row;
    l->groups.order = order;
    l->groups.group = (ggs_group *)(sizes + volume);
    return ggs_group_offsets(&r->grouping, sizes, volume, &l->groups);
}

} // namespace spira

#endif
