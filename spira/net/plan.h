// spira/net/plan.h: the first half of planning: checks the table of layers and derives coordinate
// sets, kernel maps, shapes and lifetimes from it. place.h gives the arrays their places after it.
#ifndef SPIRA_NET_PLAN_H
#define SPIRA_NET_PLAN_H

#include "../downsample.h"
#include "../layout/tile.h"
#include "types.h"

namespace spira {

// ---- checks -------------------------------------------------------------------------------------

SPIRA_API status net_check_sources(const net_plan *p, int i) {
    const net_layer *l = &p->layers[i];
    const int sources[3] = {l->source, l->source2, l->residual};
    for (int s = 0; s < 3; ++s) {
        if (sources[s] >= i) {
            return net_fault("reads a layer that does not come before it (a cycle)", i);
        }
        if (sources[s] < (s == 0 ? (int)net_input : (int)net_none)) {
            return net_fault("a source that is no layer", i);
        }
    }
    return status_success();
}

SPIRA_API status net_check_layer(const net_plan *p, int i) {
    SPIRA_TRY(net_check_sources(p, i));
    const net_layer *l = &p->layers[i];
    kernel_shape kernel = {l->size, l->dilation, l->stride, l->transposed};
    if (status_failed(kernel_check(&kernel))) {
        return net_fault("an unsupported kernel size, stride or dilation", i);
    }
    if (l->op < net_conv || l->op > net_pool_average) {
        return net_fault("an unknown operation", i);
    }
    if (net_is_conv(l) ? l->channels < 1 || l->channels > conv_channels_max : l->channels != 0) {
        return net_fault("channels", i);
    }
    if (!net_is_conv(l) && (l->source2 != net_none || l->residual != net_none || l->bias ||
                            l->norm || l->act != activation_none)) {
        return net_fault("pooling with what only a convolution has", i);
    }
    if (l->source2 != net_none && net_source_set(p, l->source2) != net_source_set(p, l->source)) {
        return net_fault("two sources of different strides", i);
    }
    if (l->act < activation_none || l->act > activation_leaky) {
        return net_fault("an unknown activation", i);
    }
    return status_success();
}

SPIRA_API status net_check_limits(const net_limits *limits) {
    SPIRA_REQUIRE(limits->voxels >= 1 && limits->voxels <= INT32_MAX / 2, status_bad_size,
                  "limits.voxels", limits->voxels);
    SPIRA_REQUIRE(limits->channels >= 1 && limits->channels <= conv_channels_max, status_bad_size,
                  "limits.channels", limits->channels);
    SPIRA_REQUIRE(numeric_valid(limits->type), status_unsupported, "limits.type", limits->type);
    SPIRA_REQUIRE(limits->shortcuts >= net_shortcuts_within &&
                      limits->shortcuts <= net_shortcuts_apart,
                  status_unsupported, "limits.shortcuts", limits->shortcuts);
    for (int s = 0; s < net_sets_max; ++s) {
        SPIRA_REQUIRE(limits->set_voxels[s] >= 0 && limits->set_voxels[s] <= INT32_MAX / 2,
                      status_bad_size, "limits.set_voxels", limits->set_voxels[s]);
    }
    SPIRA_REQUIRE(limits->record_count >= 0, status_bad_size, "limits.record_count",
                  limits->record_count);
    SPIRA_REQUIRE(limits->records || !limits->record_count, status_null_pointer, "limits.records",
                  0);
    for (int m = 0; m < net_maps_max; ++m) {
        SPIRA_REQUIRE(limits->map_pairs[m] >= 0, status_bad_size, "limits.map_pairs",
                      limits->map_pairs[m]);
    }
    return status_success();
}

// ---- coordinate sets ----------------------------------------------------------------------------

// Returns the set of a stride, or net_none if there is none yet.
SPIRA_API int net_find_set(const net_plan *p, triple stride) {
    for (int s = 0; s < p->sets; ++s) {
        if (triple_equal(p->set[s].stride, stride)) {
            return s;
        }
    }
    return net_none;
}

// Returns the set to downsample set s from: the nearest earlier set that is one short step
// (downsample_is_step) below it, or set 0.
SPIRA_API int net_set_parent(const net_plan *p, int s) {
    for (int parent = s - 1; parent > 0; --parent) {
        if (downsample_is_step(p->set[parent].stride, p->set[s].stride)) {
            return parent;
        }
    }
    return 0;
}

SPIRA_API status net_add_set(net_plan *p, int layer, triple stride, int *set) {
    if (p->sets == net_sets_max) {
        return net_fault("too many coordinate sets", layer);
    }
    int32_t wanted = p->limits.set_voxels[p->sets];
    *set = p->sets++;
    p->set[*set].stride = stride;
    p->set[*set].parent = net_set_parent(p, *set);
    p->set[*set].capacity = wanted ? wanted : p->limits.voxels;
    return status_success();
}

// Finds or adds the output set of a layer. A transposed layer requires an existing set.
SPIRA_API status net_output_set(net_plan *p, int i, int *set) {
    const net_layer *l = &p->layers[i];
    triple from = net_source_stride(p, i), by = l->stride, to;
    const int64_t most = 1 << 20;
    if (l->transposed) {
        to = triple_make(from.x / by.x, from.y / by.y, from.z / by.z);
        if (!triple_equal(triple_multiply(to, by), from) || net_find_set(p, to) < 0) {
            return net_fault("an inverse layer with no partner", i);
        }
    } else {
        if ((int64_t)from.x * by.x > most || (int64_t)from.y * by.y > most ||
            (int64_t)from.z * by.z > most) {
            return net_fault("a stride beyond 2^20", i);
        }
        to = triple_multiply(from, by);
    }
    *set = net_find_set(p, to);
    return *set < 0 ? net_add_set(p, i, to, set) : status_success();
}

// ---- kernel maps --------------------------------------------------------------------------------

SPIRA_API bool net_map_agrees(const net_map *m, int source, int outputs,
                              const kernel_shape *kernel) {
    return m->source == source && m->outputs == outputs &&
           triple_equal(m->kernel.size, kernel->size) &&
           triple_equal(m->kernel.dilation, kernel->dilation) &&
           m->kernel.transposed == kernel->transposed;
}

SPIRA_API status net_add_map(net_plan *p, int layer, const kernel_shape *kernel, int *map) {
    if (p->maps == net_maps_max) {
        return net_fault("too many kernel maps", layer);
    }
    *map = p->maps++;
    net_map *m = &p->map[*map];
    m->source = p->step[layer].source_set;
    m->outputs = p->step[layer].set;
    m->kernel = *kernel;
    m->volume = kernel_volume(kernel);
    m->rows = tile_rows(m->volume);
    m->kept = !p->device;
    return status_success();
}

// Finds or adds the kernel map of a layer whose sets are known; net_none for the identity.
SPIRA_API status net_find_map(net_plan *p, int i, int *found) {
    const net_layer *l = &p->layers[i];
    const int source = p->step[i].source_set, outputs = p->step[i].set;
    kernel_shape kernel = {l->size, l->dilation, p->set[l->transposed ? outputs : source].stride,
                           l->transposed};
    *found = net_none;
    if (status_failed(kernel_check(&kernel))) {
        return net_fault("an unsupported kernel reach", i); // here the stride is absolute
    }
    if (source == outputs && kernel_volume(&kernel) == 1) {
        return status_success();
    }
    for (int m = 0; m < p->maps; ++m) {
        *found = net_map_agrees(&p->map[m], source, outputs, &kernel) ? m : *found;
    }
    if (*found < 0) {
        SPIRA_TRY(net_add_map(p, i, &kernel, found));
    }
    p->map[*found].kept |= !net_is_conv(l);
    return status_success();
}

// ---- layers -------------------------------------------------------------------------------------

// The sets and the map of a layer.
SPIRA_API status net_plan_index(net_plan *p, int i) {
    SPIRA_TRY(net_check_layer(p, i));
    const net_layer *l = &p->layers[i];
    net_step *step = &p->step[i];
    step->source_set = net_source_set(p, l->source);
    SPIRA_TRY(net_output_set(p, i, &step->set));
    SPIRA_TRY(net_find_map(p, i, &step->map));
    if (step->map == net_none && !net_is_conv(l)) {
        return net_fault("pooling over one voxel", i);
    }
    return status_success();
}

// The tiles of a map suit its layer with the most channels.
SPIRA_API void net_choose_rows(net_plan *p, int map, const conv_shape *shape) {
    net_map *m = &p->map[map];
    int channels = (int)max_of(shape->cin + shape->cin2, shape->cout);
    int rows = tile_rows_choose(m->volume, channels, p->set[m->outputs].capacity);
    m->rows = rows > m->rows ? rows : m->rows;
}

// The shape of a layer, and the place of its parameters.
SPIRA_API status net_plan_shape(net_plan *p, int i) {
    const net_layer *l = &p->layers[i];
    net_step *step = &p->step[i];
    conv_shape *shape = &step->shape;
    step->channels = net_is_conv(l) ? l->channels : net_source_channels(p, l->source);
    shape->volume = step->map == net_none ? 1 : p->map[step->map].volume;
    shape->cin = net_source_channels(p, l->source);
    shape->cin2 = net_source_channels(p, l->source2);
    shape->cout = step->channels;
    shape->type = p->limits.type;
    step->params = p->params;
    if (!net_is_conv(l)) {
        return status_success();
    }
    if (status_failed(conv_shape_check(shape))) {
        return net_fault("channels", i);
    }
    if (step->map != net_none) {
        net_choose_rows(p, step->map, shape);
    }
    p->params += (int64_t)shape->volume * (shape->cin + shape->cin2) * shape->cout +
                 (int64_t)shape->cout * (l->bias + 2 * l->norm);
    return status_success();
}

// Extends the lifetime of a source to a layer that reads it.
SPIRA_API void net_use(net_plan *p, int source, int reader) {
    if (source >= 0 && p->step[source].last_use < reader) {
        p->step[source].last_use = reader;
    }
}

SPIRA_API status net_plan_layer(net_plan *p, int i) {
    SPIRA_TRY(net_plan_index(p, i));
    SPIRA_TRY(net_plan_shape(p, i));
    const net_layer *l = &p->layers[i];
    net_step *step = &p->step[i];
    if (l->residual != net_none && (net_source_set(p, l->residual) != step->set ||
                                    net_source_channels(p, l->residual) != step->channels)) {
        return net_fault("a residual of another stride or other channels", i);
    }
    bool keeps = l->keep || p->limits.keep_all || i == p->layer_count - 1;
    step->last_use = keeps ? p->layer_count : i;
    step->shortcut = step->fused_into = net_none;
    net_use(p, l->source, i);
    net_use(p, l->source2, i);
    net_use(p, l->residual, i);
    return status_success();
}

// ---- shortcuts ----------------------------------------------------------------------------------

// Whether anything reads a layer's features, other than `reader` as its residual.
SPIRA_API bool net_read_elsewhere(const net_plan *p, int layer, int reader) {
    for (int i = layer + 1; i < p->layer_count; ++i) {
        const net_layer *l = &p->layers[i];
        if (l->source == layer || l->source2 == layer || (l->residual == layer && i != reader)) {
            return true;
        }
    }
    return false;
}

// Returns the shortcut that the table and the limits allow to fuse into a layer, or net_none.
SPIRA_API int net_find_shortcut(const net_plan *p, int layer) {
    const int s = p->layers[layer].residual;
    if (!net_is_conv(&p->layers[layer]) || s < 0 || p->limits.shortcuts == net_shortcuts_apart) {
        return net_none;
    }
    const net_layer *l = &p->layers[s];
    const bool plain = net_is_conv(l) && p->step[s].map == net_none && l->act == activation_none &&
                       l->residual == net_none;
    const bool kept =
        l->keep || (p->limits.keep_all && p->limits.shortcuts != net_shortcuts_hidden);
    return plain && !kept && !net_read_elsewhere(p, s, layer) ? s : (int)net_none;
}

// Fuses a shortcut into a layer: its sources must live as long as that layer's own.
SPIRA_API void net_join_shortcut(net_plan *p, int layer, int shortcut) {
    p->step[layer].shortcut = shortcut;
    p->step[shortcut].fused_into = layer;
    p->step[shortcut].last_use = shortcut;
    net_use(p, p->layers[shortcut].source, layer);
    net_use(p, p->layers[shortcut].source2, layer);
}

// ---- all layers ---------------------------------------------------------------------------------

// Checks the arguments and begins a plan without layers.
SPIRA_API status net_plan_begin(const net_layer *layers, int count, const net_limits *limits,
                                bool device, net_plan *p) {
    SPIRA_REQUIRE(layers, status_null_pointer, "layers", 0);
    SPIRA_REQUIRE(limits, status_null_pointer, "limits", 0);
    SPIRA_REQUIRE(p, status_null_pointer, "plan", 0);
    SPIRA_REQUIRE(count >= 1 && count <= net_layers_max, status_bad_size, "layer count", count);
    SPIRA_TRY(net_check_limits(limits));
    memset((void *)p, 0, sizeof *p);
    p->layers = layers;
    p->layer_count = count;
    p->limits = *limits;
    p->limits.records = nullptr; // they need not outlive the call
    p->limits.record_count = 0;
    p->device = device;
    p->sets = 1;
    p->set[0].stride = triple_make(1, 1, 1);
    p->set[0].capacity = limits->voxels;
    return status_success();
}

// Sets, maps, shapes and lifetimes of all layers. Needs no word layout.
SPIRA_API status net_plan_sets(const net_layer *layers, int count, const net_limits *limits,
                               bool device, net_plan *p) {
    SPIRA_TRY(net_plan_begin(layers, count, limits, device, p));
    for (int i = 0; i < count; ++i) {
        SPIRA_TRY(net_plan_layer(p, i));
    }
    return status_success();
}

// ---- what a network needs of the word layout ----------------------------------------------------

SPIRA_API triple triple_max(triple a, triple b) {
    return triple_make((int)max_of(a.x, b.x), (int)max_of(a.y, b.y), (int)max_of(a.z, b.z));
}

SPIRA_API int64_t net_common_multiple(int64_t a, int64_t b) {
    int64_t multiple = a;
    while (multiple % b) {
        multiple += a;
    }
    return multiple;
}

// A stride that all strides of the plan divide.
SPIRA_API status net_common_stride(const net_plan *p, triple *common) {
    int64_t stride[3] = {1, 1, 1};
    for (int s = 0; s < p->sets; ++s) {
        stride[0] = net_common_multiple(stride[0], p->set[s].stride.x);
        stride[1] = net_common_multiple(stride[1], p->set[s].stride.y);
        stride[2] = net_common_multiple(stride[2], p->set[s].stride.z);
        for (int a = 0; a < 3; ++a) {
            SPIRA_REQUIRE(stride[a] <= 1 << 20, status_stride, "layers (their common stride)",
                          stride[a]);
        }
    }
    *common = triple_make((int)stride[0], (int)stride[1], (int)stride[2]);
    return status_success();
}

} // namespace spira

#endif
