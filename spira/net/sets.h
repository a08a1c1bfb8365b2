// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/net/sets.h: coordinate sets as nodes of a network's graph: finds or adds the output set of
// a layer. The first step of planning a layer (planning.h).
#ifndef SPIRA_NET_SETS_H
#define SPIRA_NET_SETS_H

#include "../subdivide.h"
#include "parts.h"

namespace spira {

// The rule that an expanded set follows from its parent by, whose voxels lie on the grid of the
// kernel's stride.
SPIRA_API expand_rule net_expand_rule(const net_plan *p, const net_set *set) {
    const net_set *parent = &p->set[set->parent];
    expand_rule rule = {set->ratio, set->padding, parent->grid};
    for (int a = 0; a < 3; ++a) {
        const int64_t finer = triple_at(parent->stride, a) / triple_at(set->kernel.stride, a);
        int *const extent = triple_at(&rule.grid.extent, a);
        *extent = *extent ? (int)min_of((*extent - 1) * finer + 1, INT32_MAX) : 0;
    }
    return rule;
}

// ---- adding a set -------------------------------------------------------------------------------

// The number of voxels that a grid has in all batches; 2^30 if it is more, or not known.
SPIRA_API int64_t net_cells(const net_plan *p, const expand_grid *grid) {
    const int64_t most = INT32_MAX / 2;
    int64_t cells = p->limits.batch;
    for (int a = 0; a < 3; ++a) {
        const int extent = triple_at(grid->extent, a);
        if (cells == 0 || extent == 0) {
            return most;
        }
        cells = min_of(cells * extent, most);
    }
    return cells;
}

// Finds a set that is derived as `node` is: members that a derivation does not have are zero.
SPIRA_API bool net_find_alike(const net_plan *p, const net_set *node, int *set) {
    for (*set = 0; *set < p->sets; ++*set) {
        const net_set *s = &p->set[*set];
        bool alike = s->by == node->by && s->parent == node->parent && s->axis == node->axis &&
                     triple_equal(s->kernel.size, node->kernel.size) &&
                     triple_equal(s->kernel.dilation, node->kernel.dilation) &&
                     triple_equal(s->kernel.stride, node->kernel.stride) &&
                     s->kernel.transposed == node->kernel.transposed &&
                     triple_equal(s->ratio, node->ratio) &&
                     triple_equal(s->padding, node->padding) && s->sources == node->sources &&
                     s->scores == node->scores && s->threshold == node->threshold &&
                     s->or_equal == node->or_equal && s->channel == node->channel &&
                     s->most == node->most;
        for (int n = 0; alike && n < node->sources; ++n) {
            alike = s->source[n] == node->source[n];
        }
        if (alike) {
            return true;
        }
    }
    return false;
}

// The stage of a set that is made of others: the latest of theirs.
SPIRA_API int net_stage_of(const net_plan *p, const net_set *node) {
    int stage = p->set[node->parent].stage;
    for (int n = 0; n < node->sources; ++n) {
        stage = (int)max_of(stage, p->set[node->source[n]].stage);
    }
    return stage;
}

// Adds the set of a layer. standard: its capacity where the layer gives none.
SPIRA_API status net_add_set(net_plan *p, int layer, const net_set *node, int64_t standard,
                             int *set) {
    if (p->sets == net_sets_max) {
        return net_fault("too many coordinate sets", layer);
    }
    const int32_t wanted = p->layers[layer].capacity;
    const int stage = net_stage_of(p, node);
    *set = p->sets++;
    p->set[*set] = *node;
    p->set[*set].stage = stage;
    p->set[*set].capacity = wanted ? wanted : (int32_t)min_of(standard, INT32_MAX / 2);
    return status_success();
}

// The standard capacity of a set that can have more voxels than those that it is made of.
//
// most  the number that it cannot exceed
SPIRA_API int64_t net_roomy(const net_plan *p, const net_set *node, int64_t most) {
    return min_of(min_of(most, net_cells(p, &node->grid)), 2 * (int64_t)p->limits.voxels);
}

// ---- floor --------------------------------------------------------------------------------------

// Returns the floor of set `base` at a stride, or net_none if there is none yet.
SPIRA_API int net_find_floor(const net_plan *p, int base, triple stride) {
    for (int s = 0; s < p->sets; ++s) {
        if (p->set[s].base == base && triple_equal(p->set[s].stride, stride)) {
            return s;
        }
    }
    return net_none;
}

// Returns the set to downsample floor set s from: the nearest earlier floor of the same base that
// is one short step (downsample_is_step) below it, or the base.
SPIRA_API int net_set_parent(const net_plan *p, int s) {
    const int base = p->set[s].base;
    for (int parent = s - 1; parent > base; --parent) {
        if (p->set[parent].base == base &&
            downsample_is_step(p->set[parent].stride, p->set[s].stride)) {
            return parent;
        }
    }
    return base;
}

SPIRA_API void net_floor_axis(int from, int to, int *origin, int *extent) {
    const int64_t last = *origin + ((int64_t)*extent - 1) * from;
    *origin = (int)floor_to(*origin, to);
    *extent = *extent ? (int)((floor_to(last, to) - *origin) / to + 1) : 0;
}

// Adds the floor of the set of layer i's source.
SPIRA_API status net_add_floor(net_plan *p, int i, triple stride, int *set) {
    const net_set *from = &p->set[p->step[i].source_set];
    const triple by = from->stride, origin = from->grid.origin;
    if (origin.x % by.x || origin.y % by.y || origin.z % by.z) {
        return net_fault("a floor of a set whose grid a padding has moved (use net_rule_expand)",
                         i);
    }
    net_set node = {};
    node.stride = stride;
    node.grid = from->grid;
    for (int a = 0; a < 3; ++a) {
        net_floor_axis(triple_at(by, a), triple_at(stride, a), triple_at(&node.grid.origin, a),
                       triple_at(&node.grid.extent, a));
    }
    node.by = net_set_floor;
    node.parent = node.base = from->base;
    SPIRA_TRY(net_add_set(p, i, &node, p->set[from->base].capacity, set));
    p->set[*set].parent = net_set_parent(p, *set);
    return status_success();
}

SPIRA_API status net_floor_set(net_plan *p, int i, triple stride, int *set) {
    *set = net_find_floor(p, p->set[p->step[i].source_set].base, stride);
    return *set < 0 ? net_add_floor(p, i, stride, set) : status_success();
}

// ---- spconv's rule ------------------------------------------------------------------------------

// Finds or adds the set that layer i makes with a kernel. node: by rule, or generated
SPIRA_API status net_expanded_set(net_plan *p, int i, net_set *node, int *set) {
    const net_layer *l = &p->layers[i];
    node->by = net_set_expanded;
    node->parent = p->step[i].source_set;
    node->base = p->sets;
    node->kernel.size = l->size;
    node->kernel.dilation = l->dilation;
    if (net_find_alike(p, node, set)) {
        return status_success();
    }
    const expand_rule rule = net_expand_rule(p, node);
    expand_axes axes;
    const status fits = expand_axes_make(&node->kernel, &rule, &axes);
    if (status_failed(fits)) {
        return net_fault(fits, i);
    }
    SPIRA_TRY(expand_out(&node->kernel, &rule, &node->grid));
    const int64_t touched = (int64_t)p->set[node->parent].capacity * axes.most;
    const int64_t standard = l->rule == net_rule_generate
                                 ? min_of(touched, net_cells(p, &node->grid))
                                 : net_roomy(p, node, touched);
    return net_add_set(p, i, node, standard, set);
}

SPIRA_API status net_ruled_set(net_plan *p, int i, triple stride, int *set) {
    const net_layer *l = &p->layers[i];
    net_set node = {};
    node.stride = stride;
    node.kernel.stride = p->set[p->step[i].source_set].stride;
    node.ratio = l->stride;
    node.padding = l->padding;
    return net_expanded_set(p, i, &node, set);
}

// All that the kernel reaches on the finer grid: the rule at ratio 1 there, of a transposed kernel,
// with a padding that moves the grid and takes no voxel away, but for what the layer's own cuts
// off.
SPIRA_API status net_generated_set(net_plan *p, int i, int *set) {
    const net_layer *l = &p->layers[i];
    const triple s = p->set[p->step[i].source_set].stride, by = l->stride;
    if (!l->transposed) {
        return net_fault("rule (net_rule_generate is for transposed layers)", i);
    }
    if (s.x % by.x || s.y % by.y || s.z % by.z) {
        return net_fault("stride (does not divide the source's: see net_limits.stride)", i);
    }
    const triple most =
        triple_make((l->size.x - 1) * l->dilation.x, (l->size.y - 1) * l->dilation.y,
                    (l->size.z - 1) * l->dilation.z);
    for (int a = 0; a < 3; ++a) {
        const int cut = triple_at(l->padding, a);
        if (cut < 0 || cut > triple_at(most, a)) {
            return net_fault("padding (net_rule_generate: 0 to (size - 1) * dilation)", i);
        }
        if (cut && !triple_at(p->set[p->step[i].source_set].grid.extent, a)) {
            return net_fault("padding (net_rule_generate: requires limits.grid.extent)", i);
        }
    }
    net_set node = {};
    node.stride = node.kernel.stride = triple_make(s.x / by.x, s.y / by.y, s.z / by.z);
    node.kernel.transposed = true;
    node.ratio = triple_make(1, 1, 1);
    node.padding = triple_make(most.x - l->padding.x, most.y - l->padding.y, most.z - l->padding.z);
    return net_expanded_set(p, i, &node, set);
}

// ---- back to a finer set ------------------------------------------------------------------------

// Whether a layer goes back through the layer that made an expanded set.
SPIRA_API bool net_is_partner(const net_layer *l, const net_set *set) {
    return triple_equal(l->size, set->kernel.size) &&
           triple_equal(l->dilation, set->kernel.dilation) && triple_equal(l->stride, set->ratio);
}

SPIRA_API status net_inverse_set(net_plan *p, int i, int *set) {
    const net_layer *l = &p->layers[i];
    const int source = p->step[i].source_set;
    const net_set *from = &p->set[source];
    const triple by = l->stride, s = from->stride;
    *set = net_none;
    if (from->by == net_set_expanded) {
        const bool generated = !triple_equal(from->kernel.stride, p->set[from->parent].stride);
        *set = net_is_partner(l, from) && !generated ? from->parent : (int)net_none;
    } else if (s.x % by.x == 0 && s.y % by.y == 0 && s.z % by.z == 0) {
        *set = net_find_floor(p, from->base, triple_make(s.x / by.x, s.y / by.y, s.z / by.z));
    }
    for (int n = 0; *set < 0 && n < p->sets; ++n) {
        const net_set *to = &p->set[n];
        const bool child = to->by == net_set_children && to->parent == source;
        *set = child && triple_equal(triple_multiply(to->stride, by), s) ? n : *set;
    }
    return *set < 0 ? net_fault("an inverse layer with no partner", i) : status_success();
}

// ---- joined sets --------------------------------------------------------------------------------

// Source rows of a joined set.
SPIRA_API int64_t net_join_sources(const net_plan *p, const net_set *set) {
    int64_t sum = 0;
    for (int n = 0; n < set->sources; ++n) {
        sum += p->set[set->source[n]].capacity;
    }
    return sum;
}

SPIRA_API join_rows net_join_rows(const net_set *set, void *memory) {
    return {(int32_t *)((char *)memory + set->begin), (int32_t *)((char *)memory + set->order)};
}

// A joined set, and what it is made of. memory: null for the sizes alone.
template <typename W>
SPIRA_API join_args<W> net_join_args(const net_plan *p, int s, const net_run_args<W> *run) {
    const net_set *set = &p->set[s];
    join_args<W> args = {};
    args.layout = &p->layout;
    args.sets = set->sources;
    for (int n = 0; n < set->sources; ++n) {
        args.set[n] = net_voxels(p, set->source[n], run->input, run->memory);
    }
    args.axis = set->axis;
    args.at =
        set->axis == join_axis_none ? 0 : triple_at(set->grid.origin, set->axis - join_axis_x);
    args.out = net_voxels(p, s, run->input, run->memory);
    args.rows = net_join_rows(set, run->memory);
    args.trouble = run->trouble;
    return args;
}

// ---- sets from features -------------------------------------------------------------------------

SPIRA_API int32_t *net_set_rows(const net_set *set, void *memory) {
    return (int32_t *)((char *)memory + set->order);
}

// What chooses the voxels of a pruned set or of children; memory: null for the sizes alone.
template <typename W>
SPIRA_API row_choice net_choice(const net_plan *p, const net_set *set, const net_run_args<W> *run) {
    row_choice c = {};
    if (set->scores != net_none) {
        c.scores = net_features_of(p, set->scores, run->features, run->memory);
        c.type = net_type_of(p, set->scores);
        c.channels = net_source_channels(p, set->scores);
        c.threshold = set->threshold;
        c.or_equal = set->or_equal;
    }
    return c;
}

template <typename W>
SPIRA_API prune_args<W> net_prune_args(const net_plan *p, int s, const net_run_args<W> *run) {
    const net_set *set = &p->set[s];
    prune_args<W> args = {};
    args.in = net_voxels(p, set->parent, run->input, run->memory);
    args.choice = net_choice(p, set, run);
    args.channel = set->channel;
    args.out = net_voxels(p, s, run->input, run->memory);
    args.source = net_set_rows(set, run->memory);
    args.trouble = run->trouble;
    return args;
}

template <typename W>
SPIRA_API subdivide_args<W> net_children_args(const net_plan *p, int s,
                                              const net_run_args<W> *run) {
    const net_set *set = &p->set[s];
    subdivide_args<W> args = {};
    args.layout = &p->layout;
    args.in = net_voxels(p, set->parent, run->input, run->memory);
    args.stride = p->set[set->parent].stride;
    args.choice = net_choice(p, set, run);
    args.out = net_voxels(p, s, run->input, run->memory);
    args.source = net_set_rows(set, run->memory);
    args.trouble = run->trouble;
    return args;
}

// Finds or adds the set of a layer that chooses voxels. standard: see net_add_set. A new set that
// follows from features opens a stage.
SPIRA_API status net_chosen_set(net_plan *p, int i, net_set *node, int64_t standard, int *set) {
    const net_layer *l = &p->layers[i];
    node->parent = p->step[i].source_set;
    node->base = p->sets;
    node->scores = net_number(l->source2);
    node->threshold = l->threshold;
    node->or_equal = l->or_equal;
    if (net_find_alike(p, node, set)) {
        return status_success();
    }
    SPIRA_TRY(net_add_set(p, i, node, standard, set));
    if (net_set_grown(node)) {
        p->set[*set].stage = p->step[i].opens = ++p->stages;
    }
    return status_success();
}

// ---- making sets --------------------------------------------------------------------------------

// The arguments of the function that makes a set: of them, those that its `by` names.
template <typename W>
struct net_set_args {
    expand_rule rule[expand_levels_most];
    expand_args<W> expand[expand_levels_most]; // point to the rules
    int levels;                                // of them
    join_args<W> join;
    subdivide_args<W> children;
    downsample_args<W> floor;
};

// Adds the arguments of an expanded set.
template <typename W>
SPIRA_API void net_expand_args(const net_plan *p, int s, const net_run_args<W> *run,
                               net_set_args<W> *a) {
    const net_set *set = &p->set[s];
    const voxel_set<W> from = net_voxels(p, set->parent, run->input, run->memory);
    const voxel_set<W> to = net_voxels(p, s, run->input, run->memory);
    a->rule[a->levels] = net_expand_rule(p, set);
    a->expand[a->levels] = {&p->layout, &set->kernel, &a->rule[a->levels], from, to, run->trouble};
    ++a->levels;
}

// Whether set s is made of the set in front of it by spconv's rule.
SPIRA_API bool net_set_expands(const net_plan *p, int s) {
    return s < p->sets && p->set[s].by == net_set_expanded && p->set[s].parent == s - 1;
}

// Calls f(its arguments, its `by`) for the sets of a part, in order, until one fails; once for sets
// that are expanded one from the other, up to `levels` of them. Sets that follow from features are
// left to the layers that open their stages. run: with the capacity of the input alone where sizes
// are asked for.
template <typename W, typename F>
SPIRA_API status net_each_set(const net_plan *p, net_part part, const net_run_args<W> *run,
                              int levels, F f) {
    for (int s = 1; s < p->sets; ++s) {
        const net_set *set = &p->set[s];
        if (!net_set_in(p, s, part) || net_set_grown(set)) {
            continue;
        }
        const voxel_set<W> from = net_voxels(p, set->parent, run->input, run->memory);
        const voxel_set<W> to = net_voxels(p, s, run->input, run->memory);
        net_set_args<W> a;
        a.levels = 0;
        a.join = net_join_args(p, s, run);
        a.children = net_children_args(p, s, run);
        a.floor = {&p->layout, from, p->set[set->parent].stride, set->stride, to, run->trouble};
        const net_derivation by = set->by;
        if (by == net_set_expanded) {
            net_expand_args(p, s, run, &a);
            while (a.levels < levels && net_set_expands(p, s + 1) && net_set_in(p, s + 1, part)) {
                net_expand_args(p, ++s, run, &a);
            }
        }
        SPIRA_TRY(f(&a, by));
    }
    return status_success();
}

// Takes a set into the grid of a union on one axis. Returns false if their lattices differ: the
// coarser coordinates must be coordinates of the finer grid, from the same origin.
SPIRA_API bool net_union_axis(const net_set *set, int axis, net_set *to) {
    const int spacing = triple_at(set->stride, axis), extent = triple_at(set->grid.extent, axis);
    int *to_spacing = triple_at(&to->stride, axis), *to_extent = triple_at(&to->grid.extent, axis);
    const int fine = (int)min_of(spacing, *to_spacing);
    if (triple_at(set->grid.origin, axis) != triple_at(to->grid.origin, axis) || spacing % fine ||
        *to_spacing % fine) {
        return false;
    }
    const int64_t own = ((int64_t)extent - 1) * (spacing / fine) + 1;
    const int64_t other = ((int64_t)*to_extent - 1) * (*to_spacing / fine) + 1;
    *to_extent = extent && *to_extent ? (int)min_of(max_of(own, other), voxel_index_max) : 0;
    *to_spacing = fine;
    return true;
}

// The same on all axes but the one that is dropped.
SPIRA_API bool net_union_take(const net_set *set, net_set *node) {
    bool agree = true;
    for (int a = 0; a < 3; ++a) {
        agree = (net_union_axis(set, a, node) || node->axis == join_axis_x + a) && agree;
    }
    return agree;
}

// Derives a joined set from the sources of layer i.
SPIRA_API status net_join_sets(const net_plan *p, int i, net_set *node) {
    const net_reads reads = net_reads_of(&p->layers[i]);
    node->by = net_set_joined;
    node->base = p->sets;
    node->axis = p->layers[i].axis;
    for (int n = 0; n < net_reads_sources; ++n) {
        if (reads.layer[n] == net_none) {
            continue;
        }
        const int source = net_source_set(p, reads.layer[n]);
        node->source[node->sources++] = source;
        if (node->sources == 1) {
            node->parent = source;
            node->stride = p->set[source].stride;
            node->grid = p->set[source].grid;
        } else if (!net_union_take(&p->set[source], node)) {
            return net_fault("a union of sets on different lattices", i);
        }
    }
    if (node->axis != join_axis_none) {
        *triple_at(&node->grid.extent, node->axis - join_axis_x) = 1;
    }
    return status_success();
}

SPIRA_API status net_joined_set(net_plan *p, int i, int *set) {
    net_set node = {};
    SPIRA_TRY(net_join_sets(p, i, &node));
    if (net_find_alike(p, &node, set)) {
        return status_success();
    }
    const int64_t sum = net_join_sources(p, &node);
    if (sum > INT32_MAX / 2) {
        return net_fault("a join of sources with 2^30 voxels or more", i);
    }
    return net_add_set(
        p, i, &node,
        node.sources == 1 ? min_of(sum, net_cells(p, &node.grid)) : net_roomy(p, &node, sum), set);
}

// ---- layers with a kernel -----------------------------------------------------------------------

// The output set of a convolution or pooling that is not transposed.
SPIRA_API status net_strided_set(net_plan *p, int i, int *set) {
    const net_layer *l = &p->layers[i];
    const triple from = p->set[p->step[i].source_set].stride, by = l->stride;
    for (int a = 0; a < 3; ++a) {
        if ((int64_t)triple_at(from, a) * triple_at(by, a) > 1 << 20) {
            return net_fault("a stride beyond 2^20", i);
        }
    }
    const triple stride = triple_multiply(from, by);
    return l->rule == net_rule_expand ? net_ruled_set(p, i, stride, set)
                                      : net_floor_set(p, i, stride, set);
}

} // namespace spira

#endif
