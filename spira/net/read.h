// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/net/read.h: what the table of layers and a plan say of a layer, its sources and its place
// in memory.
#ifndef SPIRA_NET_READ_H
#define SPIRA_NET_READ_H

#include "../net_plan.h"

namespace spira {

SPIRA_API status net_fault(const char *what, int layer) {
    return status_make(status_layer, what, layer);
}

// The fault of a layer that another check has found: its subject, axis and limits stay.
SPIRA_API status net_fault(status found, int layer) {
    found.code = status_layer;
    found.detail = layer;
    return found;
}

SPIRA_API bool net_is_conv(const net_layer *l) {
    return l->op == net_conv;
}

// The type of the features of a layer or of net_input.
SPIRA_API numeric net_type_of(const net_plan *p, int layer) {
    return layer < 0 ? p->input_type : p->step[layer].type;
}

// The scale of its features: 1 unless they are int8.
SPIRA_API float net_scale_of(const net_plan *p, int layer) {
    const float scale = layer < 0 ? p->input_scale : p->step[layer].scale;
    return net_type_of(p, layer) == numeric_i8 ? scale : 1.0f;
}

// Whether a layer computes in int8.
SPIRA_API bool net_is_i8(const net_layer *l) {
    return l->format == net_format_i8;
}

// The floating-point format that a layer is to have. On the host it is fp32, whatever the layers
// say.
SPIRA_API numeric net_type_wanted(const net_plan *p, int layer) {
    const net_format format = p->layers[layer].format;
    return format == net_format_same || format == net_format_i8 || !p->device
               ? p->limits.type
               : (numeric)(format - net_format_f32);
}

SPIRA_API bool net_triple_given(triple t) {
    return t.x || t.y || t.z;
}

// All that a layer reads.
enum { net_reads_sources = 4, net_reads_residual = net_reads_sources, net_reads_all };

struct net_reads {
    int layer[net_reads_all]; // layers, net_input or net_none: the sources, then the residual
};

SPIRA_API net_reads net_reads_of(const net_layer *l) {
    return {{net_number(l->source), net_number(l->source2), net_number(l->source3),
             net_number(l->source4), net_number(l->residual)}};
}

SPIRA_API int net_source_channels(const net_plan *p, int source) {
    return source == net_input ? p->limits.channels : source < 0 ? 0 : p->step[source].channels;
}

SPIRA_API int net_source_set(const net_plan *p, int source) {
    return source == net_input ? 0 : p->step[source].set;
}

// Whether a layer's features are in the workspace when a run has ended.
SPIRA_API bool net_is_kept(const net_plan *p, int layer) {
    return p->step[layer].fused_into == net_none && p->step[layer].last_use == p->layer_count;
}

// Set s of a plan; set 0 is the caller's `input`.
template <typename W>
SPIRA_API voxel_set<W> net_voxels(const net_plan *p, int s, voxel_set<W> input, void *memory) {
    voxel_set<W> set = {(W *)((char *)memory + p->set[s].words),
                        (int32_t *)((char *)memory + p->set[s].count), p->set[s].capacity};
    return s == 0 ? input : set;
}

// The same: how many voxels it has, in host memory.
template <typename W>
SPIRA_API int32_t net_voxels_count(const net_plan *p, int s, const net_run_args<W> *run) {
    return voxel_set_count(net_voxels(p, s, run->input, run->memory));
}

// The features of a source: the network's input, a layer's, or null for net_none.
SPIRA_API const void *net_features_of(const net_plan *p, int source, const void *input,
                                      const void *memory) {
    return source == net_input  ? input
           : source == net_none ? nullptr
                                : (const char *)memory + p->step[source].features;
}

// The features that a source of a layer has in a run; null for none.
template <typename W>
SPIRA_API const void *net_in(const net_plan *p, net_source source, const net_run_args<W> *run) {
    return net_features_of(p, net_number(source), run->features, run->memory);
}

// Where a layer writes its features.
template <typename W>
SPIRA_API void *net_target(const net_plan *p, int layer, const net_run_args<W> *run) {
    const bool given = run->out && layer == p->layer_count - 1;
    return given ? run->out : (char *)run->memory + p->step[layer].features;
}

} // namespace spira

#endif
