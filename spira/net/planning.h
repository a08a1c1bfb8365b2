// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/net/planning.h: the first half of planning: checks the table of layers and derives
// coordinate sets (sets.h), kernel maps, shapes and lifetimes from it. place.h gives the arrays
// their places after it.
#ifndef SPIRA_NET_PLANNING_H
#define SPIRA_NET_PLANNING_H

#include "i8.h"
#include "parts.h"

namespace spira {

// ---- checks -------------------------------------------------------------------------------------

SPIRA_API status net_check_sources(const net_plan *p, int i) {
    const net_reads reads = net_reads_of(&p->layers[i]);
    if (reads.layer[0] == net_none) {
        return net_fault("source (it reads nothing)", i);
    }
    for (int layer : reads.layer) {
        if (layer >= i) {
            return net_fault("reads a layer that does not come before it (a cycle)", i);
        }
        if (layer < net_none) {
            return net_fault("a source that is no layer", i);
        }
        if (layer >= 0 && p->layers[layer].op == net_dense) {
            return net_fault("reads a dense output", i);
        }
    }
    return status_success();
}

// A member that is given, though the operation does not have it; or null.
SPIRA_API const char *net_foreign_member(const net_layer *l) {
    const struct {
        unsigned member;
        bool given;
        const char *what;
    } members[] = {
        {net_member_source2, l->source2.plus_two != 0, "source2 (the operation has one source)"},
        {net_member_more, l->source3.plus_two != 0, "source3 (the operation has none)"},
        {net_member_more, l->source4.plus_two != 0, "source4 (the operation has none)"},
        {net_member_channels, l->channels != 0, "channels (the operation keeps its source's)"},
        {net_member_kernel, net_triple_given(l->size), "size (the operation has no kernel)"},
        {net_member_kernel, net_triple_given(l->stride), "stride (the operation has no kernel)"},
        {net_member_kernel, net_triple_given(l->dilation),
         "dilation (the operation has no kernel)"},
        {net_member_kernel, l->transposed, "transposed (the operation has no kernel)"},
        {net_member_kernel, l->rule != net_rule_floor, "rule (the operation has no kernel)"},
        {net_member_kernel, net_triple_given(l->padding), "padding (the operation has no kernel)"},
        {net_member_conv, l->bias, "bias (the operation has none)"},
        {net_member_epilogue, l->norm, "norm (the operation has none)"},
        {net_member_epilogue, l->residual.plus_two != 0, "residual (the operation has none)"},
        {net_member_epilogue, l->act != activation_none, "act (the operation has none)"},
        {net_member_epilogue, l->slope != 0, "slope (the operation has no activation)"},
        {net_member_epsilon, l->epsilon != 0, "epsilon (the operation has none)"},
        {net_member_conv, l->pairs != 0, "pairs (the operation has no tuning records)"},
        {net_member_axis, l->axis != join_axis_none, "axis (the operation has none)"},
        {net_member_order, l->order != dense_channels_first, "order (the operation has none)"},
        {net_member_choice, l->threshold != 0, "threshold (the operation has none)"},
        {net_member_choice, l->or_equal, "or_equal (the operation has no threshold)"},
        {net_member_prune, l->channel != 0, "channel (the operation has none)"},
        {net_member_prune, l->most != 0, "most (the operation has none)"},
        {net_member_repeat, l->repeat != 0, "repeat (the operation has none)"},
        {net_member_groups, l->groups != 0, "groups (the operation has none)"},
        {net_member_range, l->range != 0, "range (the operation has its source's, or none)"},
    };
    const unsigned has = net_members_of(l);
    for (const auto &m : members) {
        if (m.given && !(m.member & has)) {
            return m.what;
        }
    }
    return nullptr;
}

SPIRA_API status net_check_layer(const net_plan *p, int i) {
    const net_layer *l = &p->layers[i];
    if (!net_op_known(l->op)) {
        return net_fault("op (an unknown operation)", i);
    }
    SPIRA_TRY(net_check_sources(p, i));
    const char *foreign = net_foreign_member(l);
    if (foreign) {
        return net_fault(foreign, i);
    }
    if (l->capacity < 0 || l->capacity > INT32_MAX / 2) {
        return net_fault("capacity (0 to 2^30 - 1)", i);
    }
    if (l->format < net_format_same || l->format > net_format_i8) {
        return net_fault("format (an unknown one)", i);
    }
    if (!net_range_valid(l->range)) {
        return net_fault("range (NaN, infinite or negative)", i);
    }
    return net_op_call(l->op, [&](auto op) { return net_op_check(op, p, i); });
}

SPIRA_API status net_check_grid(const expand_grid *grid, int batch) {
    for (int a = 0; a < 3; ++a) {
        const int origin = triple_at(grid->origin, a), extent = triple_at(grid->extent, a);
        SPIRA_TRY(status_on_axis(
            size_check(origin, -voxel_index_max, voxel_index_max, "limits.grid.origin"), a));
        SPIRA_TRY(status_on_axis(size_check(extent, 0, voxel_index_max, "limits.grid.extent"), a));
    }
    return size_check(batch, 0, 1 << 20, "limits.batch");
}

SPIRA_API status net_check_stride(triple stride) {
    for (int a = 0; net_triple_given(stride) && a < 3; ++a) {
        SPIRA_TRY(status_on_axis(size_check(triple_at(stride, a), 1, 1 << 20, "limits.stride"), a));
    }
    return status_success();
}

SPIRA_API status net_check_limits(const net_limits *limits) {
    SPIRA_TRY(capacity_check(limits->voxels, "limits.voxels"));
    SPIRA_TRY(size_check(limits->channels, 1, conv_channels_max, "limits.channels"));
    SPIRA_REQUIRE(numeric_valid(limits->type), status_unsupported, "limits.type", limits->type);
    SPIRA_REQUIRE(net_range_valid(limits->range), status_unsupported,
                  "limits.range (NaN, infinite or negative)", 0);
    SPIRA_REQUIRE(limits->shortcuts >= net_shortcuts_within &&
                      limits->shortcuts <= net_shortcuts_apart,
                  status_unsupported, "limits.shortcuts", limits->shortcuts);
    SPIRA_TRY(net_check_grid(&limits->grid, limits->batch));
    SPIRA_TRY(net_check_stride(limits->stride));
    SPIRA_TRY(size_check(limits->record_count, 0, INT64_MAX, "limits.record_count"));
    SPIRA_REQUIRE(limits->records || !limits->record_count, status_null_pointer, "limits.records",
                  0);
    return status_success();
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
    m->kept = !p->device;
    m->stage = (int)max_of(p->set[m->source].stage, p->set[m->outputs].stage);
    return status_success();
}

// Finds or adds the kernel map of a layer whose sets are known; net_none for the identity.
SPIRA_API status net_find_map(net_plan *p, int i, int *found) {
    const net_layer *l = &p->layers[i];
    const int source = p->step[i].source_set, outputs = p->step[i].set;
    kernel_shape kernel = {l->size, l->dilation, p->set[l->transposed ? outputs : source].stride,
                           l->transposed};
    *found = net_none;
    if (!(net_members_of(l) & net_member_kernel)) {
        return status_success();
    }
    if (status_failed(kernel_check(&kernel))) {
        return net_fault("size (the kernel's reach)", i); // here the stride is absolute
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
    return status_success();
}

// Adds the form of its map that a layer reads.
SPIRA_API void net_read_map(net_plan *p, int i) {
    if (p->step[i].map != net_none) {
        net_map *const map = &p->map[p->step[i].map];
        const bool lists =
            net_op_call(p->layers[i].op, [&](auto op) { return net_op_lists(op, p, i); });
        map->kept = map->kept || lists;
        map->ordered = map->ordered || (!lists && p->device);
    }
}

// ---- layers -------------------------------------------------------------------------------------

// The sets and the map of a layer.
SPIRA_API status net_plan_index(net_plan *p, int i) {
    SPIRA_TRY(net_check_layer(p, i));
    const net_layer *l = &p->layers[i];
    net_step *step = &p->step[i];
    step->source_set = net_source_set(p, net_number(l->source));
    SPIRA_TRY(net_op_call(l->op, [&](auto op) { return net_op_set(op, p, i, &step->set); }));
    if (l->capacity && l->capacity != p->set[step->set].capacity) {
        return net_fault("capacity (its set has another one, by the first of its layers)", i);
    }
    return net_find_map(p, i, &step->map);
}

// The format and the shape of a layer, and the place of its parameters.
SPIRA_API status net_plan_shape(net_plan *p, int i) {
    const net_op op = p->layers[i].op;
    p->step[i].params = p->params;
    SPIRA_TRY(net_op_call(op, [&](auto o) { return net_op_type(o, p, i); }));
    SPIRA_TRY(net_op_call(op, [&](auto o) { return net_op_shape(o, p, i); }));
    p->params = net_params_of(p, i).end;
    return status_success();
}

// Extends the lifetime of a source to a layer that reads it.
SPIRA_API void net_use(net_plan *p, int source, int reader) {
    if (source >= 0 && p->step[source].last_use < reader) {
        p->step[source].last_use = reader;
    }
}

// The shape and the lifetime of a layer.
SPIRA_API status net_plan_layer(net_plan *p, int i) {
    SPIRA_TRY(net_plan_shape(p, i));
    net_read_map(p, i);
    const net_layer *l = &p->layers[i];
    net_step *step = &p->step[i];
    const net_reads reads = net_reads_of(l);
    const bool keeps = l->keep || p->limits.keep_all || i == p->layer_count - 1;
    step->last_use = keeps ? p->layer_count : i;
    step->shortcut = step->fused_into = net_none;
    for (int layer : reads.layer) {
        net_use(p, layer, i);
    }
    return status_success();
}

// ---- shortcuts ----------------------------------------------------------------------------------

// Whether anything reads a layer's features, other than `reader` as its residual.
SPIRA_API bool net_read_elsewhere(const net_plan *p, int layer, int reader) {
    for (int i = layer + 1; i < p->layer_count; ++i) {
        const net_reads reads = net_reads_of(&p->layers[i]);
        for (int r = 0; r < net_reads_all; ++r) {
            const bool residual = r == net_reads_residual;
            if (reads.layer[r] == layer && !(residual && i == reader)) {
                return true;
            }
        }
    }
    return false;
}

// Whether an int8 layer is computed together with its shortcut. Their weights then share a step a
// channel, which contains both scales (conv_i8_step_shared); so no bias may be in front of these.
// The choice follows from the table alone, and all machines round alike: it is a layer that all
// kernels take (conv_shortcut_takes).
SPIRA_API bool net_i8_takes_shortcut(const net_plan *p, int layer, int shortcut) {
    const conv_shape *s = &p->step[layer].shape, *own = &p->step[shortcut].shape;
    const bool wide = s->cin + s->cin2 > 64 || s->cout > 64;
    const auto scaled = [p](int i) { return p->layers[i].bias && p->layers[i].norm; };
    return wide && s->volume <= 1024 && !scaled(layer) && !scaled(shortcut) &&
           conv_products(s) + conv_products(own) <= conv_i8_products_max;
}

// Returns the shortcut that the table and the limits allow to fuse into a layer, or net_none.
SPIRA_API int net_find_shortcut(const net_plan *p, int layer) {
    const int s = net_number(p->layers[layer].residual);
    if (!net_is_conv(&p->layers[layer]) || s < 0 || p->limits.shortcuts == net_shortcuts_apart) {
        return net_none;
    }
    const net_layer *l = &p->layers[s];
    const numeric type = p->step[layer].shape.type;
    const bool same = p->step[layer].type == type && p->step[s].shape.type == type &&
                      p->step[s].type == type &&
                      (type != numeric_i8 || net_i8_takes_shortcut(p, layer, s));
    const bool plain = net_is_conv(l) && p->step[s].map == net_none && l->act == activation_none &&
                       same && !l->residual.plus_two;
    const bool kept =
        l->keep || (p->limits.keep_all && p->limits.shortcuts != net_shortcuts_hidden);
    return plain && !kept && !net_read_elsewhere(p, s, layer) ? s : (int)net_none;
}

// Fuses a shortcut into a layer: its sources must live as long as that layer's own.
SPIRA_API void net_join_shortcut(net_plan *p, int layer, int shortcut) {
    p->step[layer].shortcut = shortcut;
    p->step[shortcut].fused_into = layer;
    p->step[shortcut].last_use = shortcut;
    net_use(p, net_number(p->layers[shortcut].source), layer);
    net_use(p, net_number(p->layers[shortcut].source2), layer);
}

// ---- all layers ---------------------------------------------------------------------------------

// Checks the arguments and begins a plan without layers.
SPIRA_API status net_plan_begin(const net_layer *layers, int count, const net_limits *limits,
                                bool device, net_plan *p) {
    SPIRA_REQUIRE(layers, status_null_pointer, "layers", 0);
    SPIRA_REQUIRE(limits, status_null_pointer, "limits", 0);
    SPIRA_REQUIRE(p, status_null_pointer, "plan", 0);
    SPIRA_REQUIRE(count >= 1 && count <= net_layers_max, status_bad_size,
                  "count (of layers: 1 to 256)", count);
    SPIRA_TRY(net_check_limits(limits));
    memset((void *)p, 0, sizeof *p);
    p->layers = layers;
    p->layer_count = count;
    p->limits = *limits;
    p->limits.records = nullptr; // they need not outlive the call
    p->limits.record_count = 0;
    p->device = device;
    p->sets = 1;
    p->set[0].stride = net_triple_given(limits->stride) ? limits->stride : triple_make(1, 1, 1);
    p->set[0].grid = limits->grid;
    p->set[0].capacity = limits->voxels;
    return status_success();
}

// Sets, maps, shapes and lifetimes of all layers. Needs no word layout.
SPIRA_API status net_plan_sets(const net_layer *layers, int count, const net_limits *limits,
                               bool device, net_plan *p) {
    SPIRA_TRY(net_plan_begin(layers, count, limits, device, p));
    for (int i = 0; i < count; ++i) {
        SPIRA_TRY(net_plan_index(p, i));
    }
    SPIRA_TRY(net_plan_formats(p));
    for (int i = 0; i < count; ++i) {
        SPIRA_TRY(net_plan_layer(p, i));
    }
    for (int i = 0; i < count; ++i) { // on the host, too; those of other formats: records.cuh
        const int shortcut =
            p->step[i].shape.type == numeric_i8 ? net_find_shortcut(p, i) : net_none;
        if (shortcut != net_none) {
            net_join_shortcut(p, i, shortcut);
        }
    }
    return status_success();
}

} // namespace spira

#endif
