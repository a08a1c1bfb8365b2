// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/support/reference_net.h: the reference for host and GPU tests of planned networks. Strides,
// channels, sets, maps and the places of the parameters are derived from the table of layers, not
// from the plan: of the plan, only capacities, addresses and fused shortcuts are used.
#ifndef SPIRA_TESTS_REFERENCE_NET_H
#define SPIRA_TESTS_REFERENCE_NET_H

#include "reference.h"

#include "../../examples/networks.h"
#include "../../spira/net.h"

#include <memory>

// ---- tables -------------------------------------------------------------------------------------

// Adds a convolution without norm and activation, and returns its index.
SPIRA_API int reference_net_plain(networks::network *n, int source, int channels,
                                  spira::triple size, spira::triple stride) {
    int i = networks::network_conv(n, "plain", source, channels, 1, 1);
    spira::net_layer *l = &n->layers[i];
    l->size = size;
    l->stride = stride;
    l->norm = false;
    l->act = spira::activation_none;
    return i;
}

// Adds a pooling layer and returns its index.
SPIRA_API int reference_net_pool(networks::network *n, spira::net_op op, int source,
                                 spira::triple size, spira::triple stride) {
    int i = reference_net_plain(n, source, 0, size, stride);
    n->layers[i].op = op;
    return i;
}

// Gives the sets of a network capacities [net_sets_max].
SPIRA_API void reference_net_capacities(networks::network *n, const spira::net_limits *limits,
                                        const int32_t *capacity) {
    std::unique_ptr<spira::net_plan> plan(new spira::net_plan);
    CHECK_OK(spira::net_plan_sets(n->layers, n->count, limits, false, plan.get()));
    spira::net_capacities(plan.get(), capacity, n->layers);
}

// The same one for all sets.
SPIRA_API void reference_net_capacities(networks::network *n, const spira::net_limits *limits,
                                        int32_t capacity) {
    const std::vector<int32_t> all(spira::net_sets_max, capacity);
    reference_net_capacities(n, limits, all.data());
}

// A small network with one of everything. Strides 1, 2, (2, 4, 6) and 4.
SPIRA_API void reference_net_zoo(networks::network *n) {
    networks::network_begin(n, 5);
    int a = reference_net_plain(n, spira::net_input, 7, {3, 3, 3}, {1, 1, 1});
    n->layers[a].bias = true;
    n->layers[a].act = spira::activation_leaky;
    n->layers[a].slope = 0.125f;
    int b = networks::network_conv(n, "two sources", a, 12, 3, 1);
    n->layers[b].source2 = spira::net_from(spira::net_input);
    n->layers[b].size.y = 1;
    n->layers[b].dilation = {1, 3, 2};
    n->layers[b].bias = true;
    int down = reference_net_pool(n, spira::net_pool_max, b, {2, 2, 2}, {2, 2, 2});
    int c = networks::network_conv(n, "dilated", down, 12, 3, 1);
    n->layers[c].dilation = {2, 1, 2};
    n->layers[c].residual = spira::net_from(down);
    n->layers[c].act = spira::activation_leaky;
    n->layers[c].slope = -0.5f;
    int other = reference_net_pool(n, spira::net_pool_average, b, {3, 3, 3}, {2, 2, 2});
    int d = networks::network_conv(n, "row", c, 9, 1, 1);
    n->layers[d].size.z = 3;
    n->layers[d].source2 = spira::net_from(other);
    int uneven = networks::network_conv(n, "uneven", d, 16, 3, 1);
    n->layers[uneven].stride = {1, 2, 3};
    int e = reference_net_plain(n, uneven, 16, {1, 1, 1}, {1, 1, 1});
    int up = networks::network_conv(n, "uneven up", e, 9, 3, 1);
    n->layers[up].stride = {1, 2, 3};
    n->layers[up].transposed = true;
    n->layers[up].residual = spira::net_from(d);
    int top = networks::network_conv(n, "up", up, 6, 3, 2);
    n->layers[top].transposed = true;
    int smooth = reference_net_pool(n, spira::net_pool_average, top, {3, 3, 1}, {1, 1, 1});
    int far = networks::network_conv(n, "straight to 4", spira::net_input, 8, 4, 4);
    networks::network_conv(n, "nobody reads this", a, 4, 3, 1);
    int back = networks::network_conv(n, "straight back", far, 6, 4, 4);
    n->layers[back].transposed = true;
    n->layers[back].residual = spira::net_from(smooth);
    int mixed = reference_net_plain(n, back, 3, {1, 1, 1}, {1, 1, 1});
    n->layers[mixed].source2 = spira::net_from(a);
    n->layers[mixed].bias = true;
    int last = networks::network_conv(n, "last", mixed, 5, 3, 1);
    n->layers[last].residual = spira::net_from(spira::net_input);
}

// ---- what follows from the table ----------------------------------------------------------------

// The absolute stride of a layer's features.
SPIRA_API spira::triple reference_net_stride(const spira::net_layer *layers, int layer) {
    if (layer < 0) {
        return {1, 1, 1};
    }
    const spira::net_layer *l = &layers[layer];
    spira::triple s = reference_net_stride(layers, spira::net_number(l->source)), by = l->stride;
    if (l->op == spira::net_children) {
        return {s.x / 2, s.y / 2, s.z / 2};
    }
    if (!by.x) {
        return s; // no kernel
    }
    return l->transposed ? spira::triple{s.x / by.x, s.y / by.y, s.z / by.z}
                         : spira::triple{s.x * by.x, s.y * by.y, s.z * by.z};
}

SPIRA_API int reference_net_channels(const networks::network *n, int layer) {
    if (layer < 0) {
        return layer == spira::net_input ? n->input_channels : 0;
    }
    const spira::net_layer *l = &n->layers[layer];
    const int from = reference_net_channels(n, spira::net_number(l->source));
    return l->op == spira::net_conv || l->op == spira::net_group ? l->channels
           : l->op == spira::net_children                        ? from / 8 * std::max(l->repeat, 1)
                                                                 : from;
}

// A random network of `count` layers that fits together.
SPIRA_API void reference_net_random(random_state *r, int count, networks::network *n) {
    networks::network_begin(n, random_int(r, 1, 9));
    while (n->count < count) {
        int i = n->count, source = std::max(-1, random_int(r, i - 4, i - 1));
        spira::triple from = reference_net_stride(n->layers, source);
        spira::triple size = {random_int(r, 1, 3), random_int(r, 1, 3), random_int(r, 2, 3)};
        bool pool = random_int(r, 0, 4) == 0;
        reference_net_plain(n, source, pool ? 0 : random_int(r, 1, 20), size, {1, 1, 1});
        spira::net_layer *l = &n->layers[i];
        l->keep = random_int(r, 0, 9) == 0;
        l->dilation = {random_int(r, 1, 2), 1, random_int(r, 1, 2)};
        int other = random_int(r, -1, i - 1); // a layer whose set this one may go back to
        spira::triple to = reference_net_stride(n->layers, other);
        if (random_int(r, 0, 1) && from.x % to.x == 0 && from.z % to.z == 0) {
            l->stride = {from.x / to.x, from.y / to.y, from.z / to.z};
            l->transposed = true;
        } else if (random_int(r, 0, 2) == 0 && from.x < 4 && from.z < 4) {
            l->stride = random_int(r, 0, 2) ? spira::triple{2, 2, 2} : spira::triple{1, 1, 2};
        }
        if (pool) {
            l->op = random_int(r, 0, 1) ? spira::net_pool_max : spira::net_pool_average;
            continue;
        }
        if (random_int(r, 0, 3) == 0 && !l->transposed && l->stride.z == 1) {
            l->size = {1, 1, 1};
        }
        l->bias = random_int(r, 0, 1);
        l->norm = random_int(r, 0, 1);
        l->act = (spira::activation)random_int(r, 0, spira::activation_count - 1);
        l->slope = l->act == spira::activation_leaky ? random_float(r) : 0;
        spira::triple out = reference_net_stride(n->layers, i);
        for (int j = -1; j < i; ++j) {
            spira::triple at = reference_net_stride(n->layers, j);
            if (spira::triple_equal(at, from) && random_int(r, 0, 5) == 0) {
                l->source2 = spira::net_from(j);
            }
            if (spira::triple_equal(at, out) && random_int(r, 0, 5) == 0) {
                l->residual = spira::net_from(j);
                l->channels = reference_net_channels(n, j);
            }
        }
    }
}

// A layout for a network over a scene, for words of type W.
template <typename W>
SPIRA_API spira::word_layout reference_net_layout(const networks::network *n, spira::triple lo,
                                                  spira::triple hi, int batches) {
    spira::word_need need = {};
    need.lo = lo;
    need.hi = hi;
    CHECK_OK(spira::net_need(n->layers, n->count, &n->grid, &need));
    return reference_layout<W>(need.lo, need.hi, batches, need.stride, need.reach);
}

// ---- sets and maps ------------------------------------------------------------------------------

// The set of a plan that has a stride; -1 if there is none, or two.
SPIRA_API int reference_net_set(const spira::net_plan *p, spira::triple stride) {
    int found = -1;
    for (int s = 0; s < p->sets; ++s) {
        if (spira::triple_equal(p->set[s].stride, stride)) {
            found = found < 0 ? s : p->sets;
        }
    }
    return found == p->sets ? -1 : found;
}

// Whether the sets of a network are all floors of the input. Other sets are those of the plan's
// nodes, and made by the host loops: tests/host/net_sets.cpp judges these.
SPIRA_API bool reference_net_floors(const networks::network *n) {
    bool floors = true;
    for (int i = 0; i < n->count; ++i) {
        const spira::net_layer *l = &n->layers[i];
        floors = floors && l->rule == spira::net_rule_floor && l->op != spira::net_join &&
                 l->op != spira::net_dense && l->op != spira::net_prune &&
                 l->op != spira::net_children;
    }
    return floors;
}

// The set of a layer's features.
SPIRA_API int reference_net_set_of(const networks::network *n, const spira::net_plan *p,
                                   int layer) {
    return reference_net_floors(n) ? reference_net_set(p, reference_net_stride(n->layers, layer))
           : layer < 0             ? 0
                                   : p->step[layer].set;
}

// All sets of a plan, as they follow from its input.
template <typename W>
struct reference_net_sets {
    std::vector<W> set[spira::net_sets_max]; // cut off at the capacity
    int64_t needed;                          // the largest that was cut off, or 0
};

// A set that follows from features, voxel by voxel. feature: see reference_net_run
template <typename W>
SPIRA_API void reference_net_grow(const spira::net_plan *p, int s, const void *const *feature,
                                  reference_net_sets<W> *r) {
    const spira::net_set *set = &p->set[s];
    const std::vector<W> &from = r->set[set->parent];
    const spira::triple half = set->stride;
    const auto batch_of = [&](size_t i) { return spira::word_unpack(&p->layout, from[i]).batch; };
    const auto score = [&](size_t i, int channel) {
        const int64_t at = (int64_t)i * spira::net_source_channels(p, set->scores) + channel;
        return spira::numeric_load(spira::net_type_of(p, set->scores), feature[1 + set->scores],
                                   at);
    };
    const auto takes = [&](float x) {
        return x > set->threshold || (set->or_equal && x == set->threshold);
    };
    std::vector<W> &out = r->set[s];
    for (size_t i = 0; i < from.size(); ++i) {
        if (set->by == spira::net_set_children) {
            for (int c = 0; c < 8; ++c) {
                spira::voxel v = spira::word_unpack(&p->layout, from[i]);
                v.x += c & 1 ? half.x : 0;
                v.y += c & 2 ? half.y : 0;
                v.z += c & 4 ? half.z : 0;
                if (set->scores == spira::net_none || takes(score(i, c))) {
                    out.push_back(spira::word_pack<W>(&p->layout, v));
                }
            }
            continue;
        }
        const float own = score(i, set->channel);
        int32_t better = 0;
        for (size_t o = 0; set->most && o < from.size(); ++o) {
            const float other = score(o, set->channel);
            better += batch_of(o) == batch_of(i) && (other > own || (other == own && o < i));
        }
        if (set->most ? better < set->most && own == own : takes(own)) {
            out.push_back(from[i]);
        }
    }
    std::sort(out.begin(), out.end());
    if ((int64_t)out.size() > set->capacity) {
        r->needed = std::max(r->needed, (int64_t)out.size());
        out.resize((size_t)set->capacity);
    }
}

// A set that is no floor, by the host loops. In exactly its capacity.
template <typename W>
SPIRA_API void reference_net_derive(const spira::net_plan *p, int s, reference_net_sets<W> *r) {
    const spira::net_set *set = &p->set[s];
    int32_t counts[spira::net_sets_max] = {}, out_count = 0;
    std::vector<W> out((size_t)set->capacity);
    spira::device_status trouble = {};
    std::vector<std::vector<W>> in((size_t)p->sets);
    spira::join_args<W> join = {};
    const int sources = set->by == spira::net_set_joined ? set->sources : 1;
    int64_t rows = 0;
    for (int n = 0; n < sources; ++n) {
        const int from = set->by == spira::net_set_joined ? set->source[n] : set->parent;
        in[(size_t)n] = r->set[from];
        in[(size_t)n].resize((size_t)p->set[from].capacity);
        counts[n] = (int32_t)r->set[from].size();
        join.set[n] = {in[(size_t)n].data(), &counts[n], p->set[from].capacity};
        rows += p->set[from].capacity;
    }
    size_t bytes = 0;
    if (set->by == spira::net_set_expanded) {
        const spira::expand_rule rule = spira::net_expand_rule(p, set);
        const spira::expand_args<W> args = {
            &p->layout, &set->kernel, &rule, join.set[0], {out.data(), &out_count, set->capacity},
            &trouble};
        CHECK_OK(spira::expand_host_workspace(&args, &bytes));
        CHECK_OK(spira::expand_host(&args, guarded_new<char>((int64_t)bytes), bytes));
    } else {
        const int origin[3] = {set->grid.origin.x, set->grid.origin.y, set->grid.origin.z};
        std::vector<int32_t> begin((size_t)set->capacity + 1), order((size_t)rows);
        join.layout = &p->layout;
        join.sets = sources;
        join.axis = set->axis;
        join.at = set->axis == spira::join_axis_none ? 0 : origin[set->axis - 1];
        join.out = {out.data(), &out_count, set->capacity};
        join.rows = {begin.data(), order.data()};
        join.trouble = &trouble;
        CHECK_OK(spira::join_host_workspace(&join, &bytes));
        CHECK_OK(spira::join_host(&join, guarded_new<char>((int64_t)bytes), bytes));
    }
    r->needed = std::max(r->needed, (int64_t)trouble.needed);
    out.resize((size_t)out_count);
    r->set[s] = out;
}

// feature: of the layers, see reference_net_run; null where no set follows from them
template <typename W>
SPIRA_API reference_net_sets<W> reference_net_index(const spira::net_plan *p, const W *words,
                                                    int32_t count,
                                                    const void *const *feature = nullptr) {
    reference_net_sets<W> r;
    r.needed = 0;
    for (int s = 0; s < p->sets; ++s) {
        const spira::triple by = p->set[s].stride;
        std::vector<W> &set = r.set[s];
        if (p->set[s].by == spira::net_set_pruned || p->set[s].by == spira::net_set_children) {
            reference_net_grow(p, s, feature, &r);
            continue;
        }
        if (s && p->set[s].by != spira::net_set_floor) {
            reference_net_derive(p, s, &r);
            continue;
        }
        // A set is made of what is left of the one below it.
        const std::vector<W> from =
            s ? r.set[p->set[s].parent] : std::vector<W>(words, words + count);
        for (W word : from) {
            spira::voxel v = spira::word_unpack(&p->layout, word);
            v.x -= (v.x % by.x + by.x) % by.x;
            v.y -= (v.y % by.y + by.y) % by.y;
            v.z -= (v.z % by.z + by.z) % by.z;
            set.push_back(spira::word_pack<W>(&p->layout, v));
        }
        std::sort(set.begin(), set.end());
        set.erase(std::unique(set.begin(), set.end()), set.end());
        if ((int64_t)set.size() > p->set[s].capacity) {
            r.needed = std::max(r.needed, (int64_t)set.size());
            set.resize((size_t)p->set[s].capacity);
        }
    }
    return r;
}

// The kernel map of a layer, and whether it is the identity.
template <typename W>
SPIRA_API std::vector<int32_t> reference_net_map(const networks::network *n,
                                                 const spira::net_plan *p,
                                                 const reference_net_sets<W> *sets, int layer) {
    const spira::net_layer *l = &n->layers[layer];
    const int in = reference_net_set_of(n, p, spira::net_number(l->source)),
              out = reference_net_set_of(n, p, layer);
    const std::vector<W> &source = sets->set[in], &outputs = sets->set[out];
    const spira::triple fine = p->set[l->transposed ? out : in].stride;
    spira::kernel_shape kernel = {l->size, l->dilation, fine, l->transposed};
    std::vector<int32_t> map(outputs.size() * (size_t)spira::kernel_volume(&kernel) + 1);
    reference_map(&p->layout, &kernel, source.data(), (int32_t)source.size(), outputs.data(),
                  (int32_t)outputs.size(), map.data());
    return map;
}

// ---- features -----------------------------------------------------------------------------------

SPIRA_API bool reference_net_is_norm(const spira::net_layer *l) {
    return l->op == spira::net_norm_layer || l->op == spira::net_norm_rms ||
           l->op == spira::net_norm_groups;
}

// Where the parameters of a layer start: weights, bias, scale, shift, step, those that it has.
SPIRA_API spira::net_params reference_net_params(const networks::network *n, int layer) {
    spira::net_params at = {};
    for (int i = 0; i <= layer; ++i) {
        const spira::net_layer *l = &n->layers[i];
        at.weight = at.vectors = at.end;
        at.bias = at.scale = at.shift = at.step = -1;
        if (l->op == spira::net_conv || l->op == spira::net_group) {
            int64_t inputs = reference_net_channels(n, spira::net_number(l->source));
            inputs += reference_net_channels(n, spira::net_number(l->source2));
            inputs /= l->op == spira::net_group ? l->groups : 1;
            at.vectors += (int64_t)l->size.x * l->size.y * l->size.z * inputs * l->channels;
            at.end = at.vectors;
            at.bias = l->bias ? at.end : -1;
            at.end += l->bias ? l->channels : 0;
            at.scale = l->norm ? at.end : -1;
            at.end += l->norm ? l->channels : 0;
            at.shift = l->norm ? at.end : -1;
            at.end += l->norm ? l->channels : 0;
            at.step = l->format == spira::net_format_i8 ? at.end : -1;
            at.end += at.step >= 0 ? l->channels : 0;
        } else if (reference_net_is_norm(l) && l->norm) {
            const int channels = reference_net_channels(n, i);
            at.scale = at.end;
            at.shift = at.end + channels;
            at.end += 2 * channels;
        }
    }
    return at;
}

// What a layer's features are judged by. feature[0] is the input, feature[1 + i] is layer i.
template <typename W>
struct reference_net_run {
    const networks::network *net;
    const spira::net_plan *plan;
    reference_net_sets<W> sets;
    const float *params;
    const void *feature[1 + spira::net_layers_max]; // [voxels, channels] of the plan's type
    const std::vector<int32_t> *maps = nullptr;     // [layers] made by other means, or null
};

template <typename W>
SPIRA_API std::vector<int32_t> reference_net_map(const reference_net_run<W> *run, int layer) {
    return run->maps ? run->maps[layer] : reference_net_map(run->net, run->plan, &run->sets, layer);
}

template <typename W>
SPIRA_API int32_t reference_net_voxels(const reference_net_run<W> *run, int layer) {
    return (int32_t)run->sets.set[reference_net_set_of(run->net, run->plan, layer)].size();
}

// The format of the features of a layer, or of the input.
template <typename W>
SPIRA_API spira::numeric reference_net_type(const reference_net_run<W> *run, int layer) {
    const int format = layer < 0 || !run->plan->device ? 0 : run->net->layers[layer].format;
    return format ? (spira::numeric)(format - 1) : run->plan->limits.type;
}

// The features of a layer, or of the input, as floats.
template <typename W>
SPIRA_API std::vector<float> reference_net_floats(const reference_net_run<W> *run, int layer) {
    int64_t channels = reference_net_channels(run->net, layer);
    const int64_t count =
        layer >= spira::net_input ? reference_net_voxels(run, layer) * channels : 0;
    const spira::numeric type = reference_net_type(run, layer);
    std::vector<float> values;
    for (int64_t i = 0; i < count; ++i) {
        values.push_back(spira::numeric_load(type, run->feature[1 + layer], i));
    }
    values.push_back(0); // an empty array has an address too
    return values;
}

// The shape of a convolution, from the table.
template <typename W>
SPIRA_API spira::conv_shape reference_net_shape(const reference_net_run<W> *run, int layer) {
    const spira::net_layer *l = &run->net->layers[layer];
    spira::conv_shape shape = {};
    shape.volume = l->size.x * l->size.y * l->size.z;
    shape.cin = reference_net_channels(run->net, spira::net_number(l->source));
    shape.cin2 = reference_net_channels(run->net, spira::net_number(l->source2));
    shape.cout = l->channels;
    shape.type = reference_net_type(run, layer);
    return shape;
}

// Whether the plan fuses the layer's residual into it.
template <typename W>
SPIRA_API bool reference_net_joined(const reference_net_run<W> *run, int layer) {
    return run->plan->step[layer].shortcut != spira::net_none;
}

// The epilogue of a layer over its parameters.
template <typename W>
SPIRA_API spira::conv_epilogue reference_net_epilogue(const reference_net_run<W> *run, int layer) {
    const spira::net_layer *l = &run->net->layers[layer];
    spira::net_params at = reference_net_params(run->net, layer);
    const bool added =
        spira::net_number(l->residual) >= spira::net_input && !reference_net_joined(run, layer);
    spira::conv_epilogue e = {};
    e.bias = at.bias < 0 ? nullptr : run->params + at.bias;
    e.scale = at.scale < 0 ? nullptr : run->params + at.scale;
    e.shift = at.shift < 0 ? nullptr : run->params + at.shift;
    e.residual = added ? run->feature[1 + spira::net_number(l->residual)] : nullptr;
    e.act = l->act;
    e.slope = l->slope;
    return e;
}

// Judges a pooling layer: a maximum must be exact.
template <typename W>
SPIRA_API reference_verdict reference_net_pooled(const reference_net_run<W> *run, int layer) {
    const spira::net_layer *l = &run->net->layers[layer];
    const spira::numeric type = reference_net_type(run, layer);
    std::vector<int32_t> map = reference_net_map(run, layer);
    std::vector<float> in = reference_net_floats(run, spira::net_number(l->source));
    const int64_t volume = l->size.x * l->size.y * l->size.z;
    const int64_t channels = reference_net_channels(run->net, layer);
    const int64_t count = reference_net_voxels(run, layer) * channels;
    reference_verdict worst = {-1, 0, 0, 0, 0};
    for (int64_t i = 0; i < count; ++i) {
        double sum = 0, magnitude = 0, largest = -INFINITY;
        int taps = 0;
        for (int64_t k = 0; k < volume; ++k) {
            int64_t source = map[(size_t)(i / channels * volume + k)];
            if (source >= 0) {
                double x = (double)in[(size_t)(source * channels + i % channels)];
                sum += x;
                magnitude += fabs(x);
                largest = std::max(largest, x);
                ++taps;
            }
        }
        bool most = l->op == spira::net_pool_max;
        double expected = taps == 0 ? 0 : most ? largest : sum / taps;
        double bound = 0x1p-126;
        if (taps && !most) {
            bound += (taps + 1) * magnitude / taps / (1 << 24);
            bound += spira::numeric_size(type) == 2
                         ? spira::numeric_epsilon(type) * (fabs(expected) + bound) + 0x1p-24
                         : 0;
        }
        double got = (double)spira::numeric_load(type, run->feature[1 + layer], i);
        double ratio = fabs(got - expected) / bound;
        if (!(ratio <= worst.ratio)) {
            worst = {isnan(ratio) ? (double)INFINITY : ratio, i, got, expected, bound};
        }
    }
    return worst;
}

// What a layer's shortcut adds, if it is fused into the layer.
template <typename W>
SPIRA_API reference_shortcut reference_net_shortcut(const reference_net_run<W> *run, int layer) {
    const spira::net_layer *l = &run->net->layers[layer];
    const spira::conv_epilogue e = reference_net_epilogue(run, layer);
    const spira::conv_shape shape = reference_net_shape(run, layer);
    return reference_shortcut_make(&shape,
                                   reference_net_floats(run, spira::net_number(l->source)).data(),
                                   reference_net_floats(run, spira::net_number(l->source2)).data(),
                                   run->params + reference_net_params(run->net, layer).weight,
                                   reference_net_voxels(run, layer), &e);
}

// Judges a convolution of any type through reference_conv_check.
template <typename W>
SPIRA_API reference_verdict reference_net_convolved(const reference_net_run<W> *run, int layer) {
    const spira::net_layer *l = &run->net->layers[layer];
    if (reference_net_voxels(run, layer) == 0) {
        return {-1, 0, 0, 0, 0};
    }
    std::vector<int32_t> map = reference_net_map(run, layer);
    std::vector<float> in = reference_net_floats(run, spira::net_number(l->source)),
                       in2 = reference_net_floats(run, spira::net_number(l->source2));
    const spira::conv_epilogue e = reference_net_epilogue(run, layer);
    const spira::conv_shape shape = reference_net_shape(run, layer);
    const bool joined = reference_net_joined(run, layer);
    reference_shortcut shortcut;
    if (joined) {
        shortcut = reference_net_shortcut(run, spira::net_number(l->residual));
    }
    return reference_conv_check({shape, in.data(), in2.data(),
                                 run->params + reference_net_params(run->net, layer).weight,
                                 map.data(), reference_net_voxels(run, layer)},
                                reference_net_voxels(run, spira::net_number(l->source)), &e,
                                run->feature[1 + layer], joined ? &shortcut : nullptr);
}

// Judges a grouped convolution: weights are fp32 in every format, but those of tensor cores. Those
// that a convolution for each group computes have its operands.
template <typename W>
SPIRA_API reference_verdict reference_net_grouped(const reference_net_run<W> *run, int layer) {
    const spira::net_layer *l = &run->net->layers[layer];
    const std::vector<int32_t> map = reference_net_map(run, layer);
    const std::vector<float> in = reference_net_floats(run, spira::net_number(l->source)),
                             residual = reference_net_floats(run, spira::net_number(l->residual)),
                             got = reference_net_floats(run, layer);
    const spira::conv_epilogue e = reference_net_epilogue(run, layer);
    const int64_t volume = l->size.x * l->size.y * l->size.z, cout = l->channels,
                  cin = reference_net_channels(run->net, spira::net_number(l->source)),
                  each = cin / l->groups, count = reference_net_voxels(run, layer) * cout;
    const float *const weight = run->params + reference_net_params(run->net, layer).weight;
    const spira::numeric type = reference_net_type(run, layer);
    const spira::conv_group_shape shape = {(int)volume, l->groups, (int)cin, (int)cout, type};
    const bool sliced =
        run->plan->device &&
        spira::conv_slices_pay(shape, run->plan->set[run->plan->step[layer].set].capacity);
    const double operand =
        spira::conv_group_tensor(shape) && !sliced ? spira::numeric_epsilon(type) : 0;
    const auto value = [&](float v) { return sliced ? spira::numeric_operand(type, v) : v; };
    reference_verdict worst = {-1, 0, 0, 0, 0};
    for (int64_t at = 0; at < count; ++at) {
        const int64_t o = at / cout, c = at % cout, first = c / (cout / l->groups) * each;
        double sum = 0, size = 0;
        for (int64_t k = 0; k < volume; ++k) {
            const int64_t source = map[(size_t)(o * volume + k)];
            for (int64_t i = 0; i < each && source >= 0; ++i) {
                const double x = (double)value(in[(size_t)(source * cin + first + i)]) *
                                 value(weight[(k * each + i) * cout + c]);
                sum += x;
                size += fabs(x);
            }
        }
        const double bias = e.bias ? e.bias[c] : 0, scale = e.scale ? e.scale[c] : 1;
        const double shift = (e.shift ? e.shift[c] : 0) + (e.residual ? residual[(size_t)at] : 0);
        const double wanted =
            spira::activation_apply((sum + bias) * scale + shift, e.act, (double)e.slope);
        size = (size + fabs(bias)) * fabs(scale) + fabs(shift) + fabs(wanted);
        const double bound = spira::numeric_epsilon(type) * fabs(wanted) * 1.01 +
                             (((double)(volume * each) + 30) * 0x1p-24 + operand) * size + 0x1p-24;
        const double ratio = fabs(got[(size_t)at] - wanted) / bound;
        if (!(ratio <= worst.ratio)) {
            worst = {ratio, at, (double)got[(size_t)at], wanted, bound};
        }
    }
    return worst;
}

// Judges a join or a dense map by the host loops, to the bit. (tests/host/net_sets.cpp judges
// these.)
template <typename W>
SPIRA_API reference_verdict reference_net_gathered(const reference_net_run<W> *run, int layer) {
    const spira::net_plan *p = run->plan;
    const spira::net_step *step = &p->step[layer];
    const spira::numeric type = spira::net_type_of(p, layer);
    std::vector<W> words[spira::net_sets_max];
    int32_t counts[spira::net_sets_max];
    for (int s = 0; s < p->sets; ++s) {
        words[s] = run->sets.set[s];
        counts[s] = (int32_t)words[s].size();
        words[s].resize((size_t)p->set[s].capacity);
    }
    std::vector<char> out(step->feature_bytes + 1);
    spira::device_status trouble = {};
    int64_t values = (int64_t)counts[step->set] * step->channels;
    if (p->layers[layer].op == spira::net_dense) {
        spira::net_run_args<W> none = {};
        spira::dense_args<W> args = spira::net_dense_args(p, layer, &none);
        args.set = {words[step->set].data(), &counts[step->set], p->set[step->set].capacity};
        args.features = run->feature[1 + spira::net_number(p->layers[layer].source)];
        args.out = out.data();
        args.trouble = &trouble;
        CHECK_OK(spira::dense_host(&args));
        values = (int64_t)(step->feature_bytes / (size_t)spira::numeric_size(type));
        values = std::min(values, (int64_t)args.batch * args.channels * args.grid.extent.x *
                                      args.grid.extent.y * args.grid.extent.z);
    } else {
        const spira::net_set *set = &p->set[step->set];
        const spira::net_reads reads = spira::net_reads_of(&p->layers[layer]);
        std::vector<int32_t> begin((size_t)set->capacity + 1),
            order((size_t)spira::net_join_sources(p, set));
        spira::net_run_args<W> none = {};
        none.input.capacity = p->set[0].capacity;
        spira::join_args<W> join = spira::net_join_args(p, step->set, &none);
        spira::join_sum_args sum = spira::net_join_sum_args(p, layer, &none);
        for (int n = 0; n < set->sources; ++n) {
            const int s = set->source[n];
            join.set[n] = {words[s].data(), &counts[s], p->set[s].capacity};
        }
        for (int r = 0, n = 0; r < spira::net_reads_sources; ++r) {
            if (reads.layer[r] != spira::net_none) {
                sum.in[n++] = run->feature[1 + reads.layer[r]];
            }
        }
        int32_t count = 0;
        join.out = {words[step->set].data(), &count, set->capacity};
        join.rows = sum.rows = {begin.data(), order.data()};
        join.trouble = &trouble;
        sum.count = &count;
        sum.out = out.data();
        size_t bytes = 0;
        CHECK_OK(spira::join_host_workspace(&join, &bytes));
        CHECK_OK(spira::join_host(&join, guarded_new<char>((int64_t)bytes), bytes));
        CHECK_OK(spira::join_sum_host(&sum));
    }
    reference_verdict worst = {-1, 0, 0, 0, 0};
    for (int64_t i = 0; i < values; ++i) {
        const double expected = (double)spira::numeric_load(type, out.data(), i);
        const double got = (double)spira::numeric_load(type, run->feature[1 + layer], i);
        if (got != expected && !(worst.ratio > 0)) {
            worst = {INFINITY, i, got, expected, 0};
        }
    }
    return worst;
}

// A product, exact but for one rounding.
template <typename W>
SPIRA_API reference_verdict reference_net_multiplied(const reference_net_run<W> *run, int layer) {
    const spira::net_layer *l = &run->net->layers[layer];
    const std::vector<float> a = reference_net_floats(run, spira::net_number(l->source)),
                             b = reference_net_floats(run, spira::net_number(l->source2)),
                             got = reference_net_floats(run, layer);
    reference_verdict worst = {-1, 0, 0, 0, 0};
    for (size_t i = 0; i + 1 < got.size(); ++i) {
        const float wanted = spira::numeric_stored(reference_net_type(run, layer), a[i] * b[i]);
        if (got[i] != wanted && !(worst.ratio > 0)) {
            worst = {INFINITY, (int64_t)i, (double)got[i], (double)wanted, 0};
        }
    }
    return worst;
}

// Rows of voxels that features have chosen: copies, found by their coordinates.
template <typename W>
SPIRA_API reference_verdict reference_net_chosen(const reference_net_run<W> *run, int layer) {
    const spira::net_layer *l = &run->net->layers[layer];
    const spira::net_plan *p = run->plan;
    const int source = spira::net_number(l->source), own = p->step[layer].set;
    const std::vector<W> &from = run->sets.set[reference_net_set_of(run->net, p, source)],
                         &to = run->sets.set[own];
    const std::vector<float> in = reference_net_floats(run, source),
                             got = reference_net_floats(run, layer);
    const bool divided = l->op == spira::net_children;
    const spira::triple s = p->set[own].stride;
    const int channels = reference_net_channels(run->net, layer), repeat = std::max(l->repeat, 1);
    reference_verdict worst = {-1, 0, 0, 0, 0};
    for (size_t i = 0; i < to.size(); ++i) {
        spira::voxel v = spira::word_unpack(&p->layout, to[i]);
        const int x = divided ? (v.x / s.x) & 1 : 0, y = divided ? (v.y / s.y) & 1 : 0,
                  z = divided ? (v.z / s.z) & 1 : 0;
        v.x -= x * s.x;
        v.y -= y * s.y;
        v.z -= z * s.z;
        const W word = spira::word_pack<W>(&p->layout, v);
        const int64_t row = std::lower_bound(from.begin(), from.end(), word) - from.begin();
        for (int c = 0; c < channels; ++c) {
            const int64_t at =
                divided ? (8 * row + x + 2 * y + 4 * z) * (channels / repeat) + c / repeat
                        : row * channels + c;
            const float wanted = in[(size_t)at], value = got[i * (size_t)channels + (size_t)c];
            if (value != wanted && !(worst.ratio > 0)) {
                worst = {INFINITY, (int64_t)i * channels + c, (double)value, (double)wanted, 0};
            }
        }
    }
    return worst;
}

// The values that are normalised together, in double.
struct reference_net_moments {
    double count, mean, squares, largest;
};

// For each element of a norm's source, which moments are its own: those of its row, or of its batch
// element and group. Returns the number of moments.
template <typename W>
SPIRA_API size_t reference_net_normed_by(const reference_net_run<W> *run, int layer,
                                         std::vector<size_t> *of) {
    const spira::net_layer *l = &run->net->layers[layer];
    const size_t channels = (size_t)reference_net_channels(run->net, layer);
    const std::vector<W> &words = run->sets.set[run->plan->step[layer].set];
    const bool rows = l->op != spira::net_norm_groups;
    const size_t groups = rows ? 1 : (size_t)l->groups;
    for (size_t i = 0; i < words.size() * channels; ++i) {
        const size_t row = i / channels;
        const size_t batch = (size_t)spira::word_unpack(&run->plan->layout, words[row]).batch;
        of->push_back(rows ? row : batch * groups + i % channels * groups / channels);
    }
    return rows ? words.size() : (size_t)run->plan->layout.batches * groups;
}

// The moments, in two passes. RMSNorm has a mean of 0.
SPIRA_API std::vector<reference_net_moments> reference_net_moments_of(const spira::net_layer *l,
                                                                      const std::vector<float> &in,
                                                                      const std::vector<size_t> &of,
                                                                      size_t count) {
    std::vector<reference_net_moments> moments(count);
    for (size_t i = 0; i < of.size(); ++i) {
        reference_net_moments *const m = &moments[of[i]];
        m->count += 1;
        m->mean += l->op == spira::net_norm_rms ? 0 : (double)in[i];
        m->largest = std::max(m->largest, fabs((double)in[i]));
    }
    for (reference_net_moments &m : moments) {
        m.mean /= std::max(m.count, 1.0);
    }
    for (size_t i = 0; i < of.size(); ++i) {
        reference_net_moments *const m = &moments[of[i]];
        m->squares += ((double)in[i] - m->mean) * ((double)in[i] - m->mean) / m->count;
    }
    return moments;
}

// Judges a norm. Of long sums, thread blocks add parts in trees: 64 additions behind one another.
template <typename W>
SPIRA_API reference_verdict reference_net_normed(const reference_net_run<W> *run, int layer) {
    const spira::net_layer *l = &run->net->layers[layer];
    const spira::net_params at = reference_net_params(run->net, layer);
    const size_t channels = (size_t)reference_net_channels(run->net, layer);
    const spira::numeric type = reference_net_type(run, layer);
    const std::vector<float> in = reference_net_floats(run, spira::net_number(l->source)),
                             added = reference_net_floats(run, spira::net_number(l->residual)),
                             got = reference_net_floats(run, layer);
    std::vector<size_t> of;
    const size_t count = reference_net_normed_by(run, layer, &of);
    const std::vector<reference_net_moments> moments = reference_net_moments_of(l, in, of, count);
    reference_verdict worst = {-1, 0, 0, 0, 0};
    for (size_t i = 0; i + 1 < got.size(); ++i) {
        const int64_t c = (int64_t)(i % channels);
        const reference_net_moments &m = moments[of[i]];
        const double gain = at.scale < 0 ? 1 : (double)run->params[at.scale + c];
        const double shift = at.shift < 0 ? 0 : (double)run->params[at.shift + c];
        const double scale = 1 / sqrt(m.squares + (double)l->epsilon), value = (double)in[i];
        const double terms = l->op == spira::net_norm_groups ? 64 : (double)channels;
        const double bound = ((2 * m.largest + fabs(value)) * scale * fabs(gain) + fabs(shift)) *
                             (terms + 8) * 0x1p-24;
        const double residual = l->residual.plus_two ? (double)added[i] : 0;
        const double x = (value - m.mean) * scale * gain + shift + residual;
        const double wanted = spira::activation_apply(x, l->act, (double)l->slope);
        double most = (bound + (fabs(x) + fabs(residual)) * 0x1p-23) *
                          spira::activation_steepness(l->act, (double)l->slope) +
                      fabs(x) * spira::activation_error(l->act) + 0x1p-126;
        most += spira::numeric_size(type) == 2
                    ? spira::numeric_epsilon(type) * (fabs(wanted) + most) + 0x1p-24
                    : 0;
        const double ratio = fabs((double)got[i] - wanted) / most;
        if (!(ratio <= worst.ratio)) {
            worst = {isnan(ratio) ? (double)INFINITY : ratio, (int64_t)i, (double)got[i], wanted,
                     most};
        }
    }
    return worst;
}

// The verdict on one layer.
template <typename W>
SPIRA_API reference_verdict reference_net_judge(const reference_net_run<W> *run, int layer) {
    const spira::net_op op = run->net->layers[layer].op;
    return op == spira::net_join || op == spira::net_dense ? reference_net_gathered(run, layer)
           : op == spira::net_product                      ? reference_net_multiplied(run, layer)
           : op == spira::net_group                        ? reference_net_grouped(run, layer)
           : op == spira::net_prune || op == spira::net_children ? reference_net_chosen(run, layer)
           : reference_net_is_norm(&run->net->layers[layer])     ? reference_net_normed(run, layer)
           : op == spira::net_conv ? reference_net_convolved(run, layer)
                                   : reference_net_pooled(run, layer);
}

// Fails the test for each layer that is not within its bound.
template <typename W>
SPIRA_API bool reference_net_good(const reference_net_run<W> *run,
                                  const char *file = __builtin_FILE(),
                                  int line = __builtin_LINE()) {
    bool good = true;
    for (int i = 0; i < run->net->count; ++i) {
        if (run->plan->step[i].fused_into != spira::net_none) {
            continue; // judged with the layer that adds it
        }
        reference_verdict v = reference_net_judge(run, i);
        char text[256];
        snprintf(text, sizeof text,
                 "layer %d (%s), output %lld is %.9g instead of %.9g: %.3g times its bound %.3g", i,
                 run->net->layers[i].name, (long long)v.at, v.got, v.expected, v.ratio, v.bound);
        good = test_check(v.ratio <= 1, file, line, text) && good;
    }
    return good;
}

// What every run refuses. run: of arguments, from good ones.
template <typename F>
SPIRA_API void reference_net_run_refuses(const spira::net_run_args<uint32_t> &good, F run) {
    typedef spira::net_run_args<uint32_t> args;
    const struct {
        spira::status_code code;
        void (*spoil)(args *a);
    } faults[] = {
        {spira::status_workspace, [](args *a) { --a->bytes; }},
        {spira::status_workspace, [](args *a) { a->bytes = 0; }},
        {spira::status_alignment, [](args *a) { a->memory = (char *)a->memory + 1; }},
        {spira::status_alignment, [](args *a) { a->features = (char *)a->features + 1; }},
        {spira::status_alignment, [](args *a) { a->loaded = (char *)a->loaded + 2; }},
        {spira::status_null_pointer, [](args *a) { a->memory = nullptr; }},
        {spira::status_null_pointer, [](args *a) { a->features = nullptr; }},
        {spira::status_null_pointer, [](args *a) { a->loaded = nullptr; }},
        {spira::status_null_pointer, [](args *a) { a->trouble = nullptr; }},
        {spira::status_null_pointer, [](args *a) { a->input.words = nullptr; }},
        {spira::status_null_pointer, [](args *a) { a->input.count = nullptr; }},
        {spira::status_bad_size, [](args *a) { --a->input.capacity; }},
        {spira::status_bad_size, [](args *a) { ++a->input.capacity; }},
        {spira::status_bad_size, [](args *a) { a->input.capacity = 0; }},
    };
    for (const auto &f : faults) {
        args bad = good;
        f.spoil(&bad);
        const spira::status s = run(&bad);
        CHECK_STATUS(s, f.code);
        CHECK_EQUAL(s.detail, f.code == spira::status_workspace  ? (int64_t)good.bytes
                              : f.code == spira::status_bad_size ? bad.input.capacity
                                                                 : s.detail);
    }
}

#endif
