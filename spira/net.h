// spira/net.h: a network as a table of layers, planned once.
//
// A network is a plain array of records; each names the layers that it reads, which come before it.
// Planning finds the coordinate sets and kernel maps that the layers need (those that agree are
// shared), gives every array its place in one workspace (features share memory as their lifetimes
// allow), and names the layer at fault where something does not fit. Running indexes everything
// first and then computes the features (Spira paper: network-wide indexing).
//
// Coordinate sets follow from the input by the stride alone: two layers at stride 4 have one set.
//
// On the device a kernel map has the layouts that its convolutions read: tiled, ordered or both
// (conv_form_of, conv.cuh). The map itself stays only where pooling reads it. Where it is needed
// just to make a layout or to count its pairs, it, or its compact form, stands in the place of the
// features, which come later.
//
// A plan with `overlap` has the index in two parts that do not disturb each other, so that they may
// be made side by side (net_side, net.cuh). The fine one is the maps of the finest set onto itself;
// the layers that read nothing else follow it. The coarse one is all the rest. It writes neither
// what these layers read nor where they write.
//
// A plan for the device takes tuning records (tune.h), if it is given any: how conv cuts a layer,
// and over tiles of how many rows. See net_plan_device (net.cuh).
//
// There a shortcut, a 1x1x1 convolution without activation that one other convolution adds, is
// computed within that one, if its kernel does so (conv_shortcut): it is no launch, and its
// features are never written. See net_shortcuts.
#ifndef SPIRA_NET_H
#define SPIRA_NET_H

#include "conv.h"
#include "downsample.h"
#include "layout/order.h"
#include "layout/tile.h"
#include "map.h"
#include "pool.h"
#include "tune.h"

namespace spira {

enum { net_layers_max = 256, net_sets_max = 16, net_maps_max = 64 };

enum {
    net_input = -1, // as a source: what the network is given
    net_none = -2,  // no second source, no residual
};

enum net_op : int {
    net_conv,
    net_pool_max,
    net_pool_average,
};

struct net_layer {
    const char *name;
    net_op op;
    int source;      // the layer that is read, or net_input
    int source2;     // convolutions: a second one, concatenated behind the first; else net_none
    int channels;    // of the output; pooling keeps those of its source, and wants 0 here
    triple size;     // of the kernel
    triple stride;   // relative to the source: 1 keeps the set (submanifold)
    triple dilation; // 1: dense kernel
    bool transposed; // the stride goes back to the finer set: an inverse convolution
    bool bias;       // adds a bias [channels]
    bool norm;       // batch norm, as scale [channels] and shift [channels]
    int residual;    // a layer that is added before the activation, or net_none
    activation act;
    float slope; // of activation_leaky
    bool keep;   // the features stay in the workspace until the next run; the last layer's do
};

// Where a plan for the device computes shortcuts.
enum net_shortcuts : int {
    net_shortcuts_within, // in the layers that add them, unless their features are kept
    net_shortcuts_hidden, // the same, and keep_all does not keep theirs
    net_shortcuts_apart,  // as layers of their own, as on the host
};

// What a plan is made for.
struct net_limits {
    int32_t voxels;                   // capacity of the finest set
    int32_t set_voxels[net_sets_max]; // capacity of each set in the order of planning; 0: voxels
    int channels;                     // of the network's input
    numeric type;                     // of all features
    bool count_pairs;                 // also counts the pairs of each map and offset
    bool keep_all;                    // every layer keeps its features
    // Device plans: tuning records, read while planning only, and, so that those of the right
    // density are found, how many pairs each map has in a usual scan, in the order of planning (as
    // count_pairs counts them); 0: not known.
    const tune_record *records; // [record_count], or null
    int record_count;
    int64_t map_pairs[net_maps_max];
    bool overlap; // device plans: with memory for a run with a second stream (net_side)
    net_shortcuts shortcuts;
};

struct net_set {
    triple stride; // absolute
    int parent;    // the set that this one is downsampled from: the nearest before it, or 0
    int32_t capacity;
    size_t words, count; // bytes from the start of the workspace; set 0 is the caller's
};

struct net_map {
    int source, outputs; // sets
    kernel_shape kernel;
    int volume;
    int rows;     // of a tile of the layout
    bool kept;    // pooling and the host read the map itself
    bool tiled;   // convolutions read its tiled layout,
    bool ordered; // or its ordered layout; device plans only
    size_t map;   // [capacity, volume], of net_map_needed; unless `kept` features take its place
    size_t slabs; // the same of net_map_compact: the compact form
    size_t tiles; // tiled
    size_t order; // ordered
    size_t pairs; // [volume], with count_pairs
};

struct net_step {
    int map; // or net_none: the identity
    int source_set, set;
    conv_shape shape; // of convolutions
    int channels;
    size_t features; // bytes from the start of the workspace
    size_t feature_bytes;
    int last_use;       // the last layer that reads the features
    int shortcut;       // the layer that is computed within this one and added, or net_none
    int fused_into;     // the layer that this one is computed within, or net_none: it has no
                        // features then
    int64_t params;     // floats from the start of the parameters: weight, bias, scale, shift
    size_t packed;      // bytes from the start of the loaded parameters; device plans only
    tune_choice choice; // of the layer's record: how conv cuts it; all zero: conv chooses
};

struct net_plan {
    const net_layer *layers; // the caller's table
    int layer_count;
    net_limits limits;
    word_layout layout;
    int sets, maps;
    net_set set[net_sets_max];
    net_map map[net_maps_max];
    net_step step[net_layers_max];
    int64_t params; // floats: see net_step.params
    bool device;
    size_t scratch, scratch_bytes;           // of downsampling, and of the ordered layouts
    size_t fine_scratch, fine_scratch_bytes; // with overlap: of the fine part alone
    size_t workspace_bytes;
    size_t index_bytes, feature_bytes; // parts of workspace_bytes: sets and maps, features, or
                                       // the maps whose place they take
    size_t loaded_bytes;               // of the loaded parameters; device plans only
};

SPIRA_API status net_fault(const char *what, int layer) {
    return status_make(status_layer, what, layer);
}

SPIRA_API bool net_is_conv(const net_layer *l) {
    return l->op == net_conv;
}

SPIRA_API triple net_source_stride(const net_plan *p, int layer) {
    int source = p->layers[layer].source;
    return p->set[source == net_input ? 0 : p->step[source].set].stride;
}

SPIRA_API int net_source_channels(const net_plan *p, int source) {
    return source == net_input ? p->limits.channels : source < 0 ? 0 : p->step[source].channels;
}

SPIRA_API int net_source_set(const net_plan *p, int source) {
    return source == net_input ? 0 : p->step[source].set;
}

// The set of a stride; net_none if there is none yet.
SPIRA_API int net_find_set(const net_plan *p, triple stride) {
    for (int s = 0; s < p->sets; ++s) {
        if (triple_equal(p->set[s].stride, stride)) {
            return s;
        }
    }
    return net_none;
}

// The set that is one short step (downsample_is_step) below set s, or else the first.
SPIRA_API int net_set_parent(const net_plan *p, int s) {
    for (int parent = s - 1; parent > 0; --parent) {
        if (downsample_is_step(p->set[parent].stride, p->set[s].stride)) {
            return parent;
        }
    }
    return 0;
}

SPIRA_API status net_check_layer(const net_plan *p, int i) {
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

// The output stride of a layer; a transposed one needs a set that is there already.
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
    if (*set < 0) {
        if (p->sets == net_sets_max) {
            return net_fault("too many coordinate sets", i);
        }
        int32_t wanted = p->limits.set_voxels[p->sets];
        *set = p->sets++;
        p->set[*set].stride = to;
        p->set[*set].parent = net_set_parent(p, *set);
        p->set[*set].capacity = wanted ? wanted : p->limits.voxels;
    }
    return status_success();
}

// The kernel map of a layer: an earlier one that agrees, a new one, or none for the identity.
SPIRA_API status net_find_map(net_plan *p, int i, int source_set, int set, int *found) {
    const net_layer *l = &p->layers[i];
    kernel_shape kernel = {l->size, l->dilation, p->set[l->transposed ? set : source_set].stride,
                           l->transposed};
    *found = net_none;
    if (status_failed(kernel_check(&kernel))) {
        return net_fault("an unsupported kernel reach", i); // its stride is an absolute one here
    }
    if (source_set == set && kernel_volume(&kernel) == 1) {
        return status_success();
    }
    for (int m = 0; m < p->maps; ++m) {
        const net_map *other = &p->map[m];
        if (other->source == source_set && other->outputs == set &&
            triple_equal(other->kernel.size, kernel.size) &&
            triple_equal(other->kernel.dilation, kernel.dilation) &&
            other->kernel.transposed == kernel.transposed) {
            *found = m;
        }
    }
    if (*found < 0) {
        if (p->maps == net_maps_max) {
            return net_fault("too many kernel maps", i);
        }
        *found = p->maps++;
        net_map *m = &p->map[*found];
        m->source = source_set;
        m->outputs = set;
        m->kernel = kernel;
        m->volume = kernel_volume(&kernel);
        m->rows = tile_rows(m->volume);
        m->kept = !p->device;
    }
    if (!net_is_conv(l)) {
        p->map[*found].kept = true;
    }
    return status_success();
}

// The sets and the map of a layer.
SPIRA_API status net_plan_index(net_plan *p, int i) {
    SPIRA_TRY(net_check_layer(p, i));
    const net_layer *l = &p->layers[i];
    net_step *step = &p->step[i];
    step->source_set = net_source_set(p, l->source);
    SPIRA_TRY(net_output_set(p, i, &step->set));
    SPIRA_TRY(net_find_map(p, i, step->source_set, step->set, &step->map));
    if (step->map == net_none && !net_is_conv(l)) {
        return net_fault("pooling over one voxel", i);
    }
    return status_success();
}

// Tiles that suit the layer with the most channels.
SPIRA_API void net_choose_rows(net_plan *p, int map, const conv_shape *shape) {
    net_map *m = &p->map[map];
    int channels = (int)max_of(shape->cin + shape->cin2, shape->cout);
    int rows = tile_rows_choose(m->volume, channels, p->set[m->outputs].capacity);
    m->rows = rows > m->rows ? rows : m->rows;
}

SPIRA_API status net_plan_layer(net_plan *p, int i) {
    SPIRA_TRY(net_plan_index(p, i));
    const net_layer *l = &p->layers[i];
    net_step *step = &p->step[i];
    step->channels = net_is_conv(l) ? l->channels : net_source_channels(p, l->source);
    conv_shape shape = {step->map == net_none ? 1 : p->map[step->map].volume,
                        net_source_channels(p, l->source), net_source_channels(p, l->source2),
                        step->channels, p->limits.type};
    step->shape = shape;
    step->params = p->params;
    if (net_is_conv(l)) {
        if (status_failed(conv_shape_check(&shape))) {
            return net_fault("channels", i);
        }
        if (step->map != net_none) {
            net_choose_rows(p, step->map, &shape);
        }
        p->params += (int64_t)shape.volume * (shape.cin + shape.cin2) * shape.cout +
                     (int64_t)shape.cout * (l->bias + 2 * l->norm);
    }
    if (l->residual != net_none && (net_source_set(p, l->residual) != step->set ||
                                    net_source_channels(p, l->residual) != step->channels)) {
        return net_fault("a residual of another stride or other channels", i);
    }
    bool keeps = l->keep || p->limits.keep_all || i == p->layer_count - 1;
    step->last_use = keeps ? p->layer_count : i;
    step->shortcut = step->fused_into = net_none;
    const int sources[3] = {l->source, l->source2, l->residual};
    for (int s = 0; s < 3; ++s) {
        if (sources[s] >= 0 && p->step[sources[s]].last_use < i) {
            p->step[sources[s]].last_use = i;
        }
    }
    return status_success();
}

// Whether some layer but `reader` reads a layer's features, or that one otherwise than to add them.
SPIRA_API bool net_read_elsewhere(const net_plan *p, int layer, int reader) {
    for (int i = layer + 1; i < p->layer_count; ++i) {
        const net_layer *l = &p->layers[i];
        if (l->source == layer || l->source2 == layer || (l->residual == layer && i != reader)) {
            return true;
        }
    }
    return false;
}

// The shortcut that a layer could be computed with, by the table and the limits; or net_none.
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

// Layer `layer` is computed with its shortcut, whose sources live as long as its own.
SPIRA_API void net_join_shortcut(net_plan *p, int layer, int shortcut) {
    p->step[layer].shortcut = shortcut;
    p->step[shortcut].fused_into = layer;
    p->step[shortcut].last_use = shortcut;
    const int sources[2] = {p->layers[shortcut].source, p->layers[shortcut].source2};
    for (int s = 0; s < 2; ++s) {
        if (sources[s] >= 0 && p->step[sources[s]].last_use < layer) {
            p->step[sources[s]].last_use = layer;
        }
    }
}

// Gives layer i's features the lowest place that is free from layer i to their last use.
SPIRA_API void net_place_features(net_plan *p, int i, size_t base) {
    net_step *step = &p->step[i];
    size_t element = (size_t)numeric_size(p->limits.type), at = base;
    step->features = base;
    step->feature_bytes = 0;
    if (step->fused_into != net_none) {
        return;
    }
    step->feature_bytes =
        (size_t)round_up((int64_t)p->set[step->set].capacity * step->channels * (int64_t)element,
                         workspace_alignment);
    for (bool moved = true; moved;) {
        moved = false;
        for (int j = 0; j < i; ++j) {
            const net_step *other = &p->step[j];
            if (other->last_use >= i && at < other->features + other->feature_bytes &&
                other->features < at + step->feature_bytes) {
                at = other->features + other->feature_bytes;
                moved = true;
            }
        }
    }
    step->features = at;
    if (p->feature_bytes < at + step->feature_bytes - base) {
        p->feature_bytes = at + step->feature_bytes - base;
    }
}

template <typename T>
SPIRA_API size_t net_take(workspace *w, int64_t count) {
    size_t at = w->used;
    workspace_take<T>(w, count);
    return at;
}

// Whether a map has an ordered layout, and nothing else is wanted of it.
SPIRA_API bool net_map_passes(const net_plan *p, const net_map *m) {
    return m->ordered && !m->tiled && !m->kept && !p->limits.count_pairs;
}

// Whether an ordered layout is made of the compact form, which nothing else is read from.
SPIRA_API bool net_map_compact(const net_plan *p, const net_map *m) {
    return net_map_passes(p, m) && slab_takes(&m->kernel);
}

// Whether the map itself is written: it is read, counted, or put in order.
SPIRA_API bool net_map_needed(const net_plan *p, const net_map *m) {
    return m->kept || p->limits.count_pairs || (m->ordered && !net_map_compact(p, m));
}

// What is indexed in one go. The parts of a plan with overlap: the maps of set 0 onto itself; all
// other sets and maps.
enum net_part : int { net_part_all, net_part_fine, net_part_coarse };

SPIRA_API bool net_map_is_fine(const net_map *m) {
    return m->source == 0 && m->outputs == 0;
}

SPIRA_API bool net_map_in(const net_map *m, net_part part) {
    return part == net_part_all || net_map_is_fine(m) == (part == net_part_fine);
}

// How many layers at the beginning need no more than the fine part of the index.
SPIRA_API int net_fine_layers(const net_plan *p) {
    int i = 0;
    while (i < p->layer_count && p->step[i].set == 0 &&
           (p->step[i].map == net_none || net_map_is_fine(&p->map[p->step[i].map]))) {
        ++i;
    }
    return i;
}

SPIRA_API int64_t net_map_entries(const net_plan *p, const net_map *m) {
    return (int64_t)p->set[m->outputs].capacity * m->volume;
}

// The layouts of a map, over the workspace's memory.
SPIRA_API tile_layout net_tiles(const net_plan *p, const net_map *m, void *memory) {
    workspace w = {(char *)memory, m->tiles};
    return tile_layout_take(&w, p->set[m->outputs].capacity, m->volume, m->rows);
}

SPIRA_API order_layout net_order(const net_plan *p, const net_map *m, void *memory) {
    workspace w = {(char *)memory, m->order};
    return order_layout_take(&w, p->set[m->outputs].capacity, m->volume);
}

SPIRA_API void net_place_layouts(const net_plan *p, net_map *map, workspace *w) {
    workspace counter = workspace_begin(nullptr); // the layout's arrays, one by one
    if (map->tiled) {
        map->tiles = w->used;
        tile_layout_take(&counter, p->set[map->outputs].capacity, map->volume, map->rows);
        w->used += counter.used;
    }
    counter = workspace_begin(nullptr);
    if (map->ordered) {
        map->order = w->used;
        order_layout_take(&counter, p->set[map->outputs].capacity, map->volume);
        w->used += counter.used;
    }
}

SPIRA_API void net_place_index(net_plan *p, workspace *w) {
    size_t word = (size_t)p->layout.bits / 8;
    for (int s = 1; s < p->sets; ++s) {
        p->set[s].words = net_take<char>(w, (int64_t)(p->set[s].capacity * word));
        p->set[s].count = net_take<int32_t>(w, 1);
    }
    for (int m = 0; m < p->maps; ++m) {
        net_map *map = &p->map[m];
        net_place_layouts(p, map, w);
        if (p->limits.count_pairs) {
            map->pairs = net_take<int32_t>(w, map->volume);
        }
        if (map->kept) {
            map->map = net_take<int32_t>(w, net_map_entries(p, map));
        }
    }
}

SPIRA_API void net_place_passing_part(net_plan *p, net_part part, workspace *w) {
    for (int m = 0; m < p->maps; ++m) {
        net_map *map = &p->map[m];
        if (net_map_in(map, part) && net_map_needed(p, map) && !map->kept) {
            map->map = net_take<int32_t>(w, net_map_entries(p, map));
        }
        if (net_map_in(map, part) && net_map_compact(p, map)) {
            const int32_t capacity = p->set[map->outputs].capacity;
            map->slabs = net_take<int32_t>(w, slab_total(map->kernel.size.x, capacity));
        }
    }
}

// The compact form of a map over the workspace's memory; null if it has none.
SPIRA_API int32_t *net_slabs(const net_plan *p, const net_map *m, void *memory) {
    return net_map_compact(p, m) ? (int32_t *)((char *)memory + m->slabs) : nullptr;
}

// Maps that nobody reads after indexing stand where the features will. With overlap, those of the
// coarse part are there while the first layers run: they stand behind what these write.
SPIRA_API void net_place_passing(net_plan *p) {
    workspace w = {nullptr, p->index_bytes};
    net_place_passing_part(p, p->limits.overlap ? net_part_fine : net_part_all, &w);
    if (p->limits.overlap) {
        for (int i = 0; i < net_fine_layers(p); ++i) {
            size_t end = p->step[i].features + p->step[i].feature_bytes;
            w.used = w.used < end ? end : w.used;
        }
        net_place_passing_part(p, net_part_coarse, &w);
    }
    if (p->feature_bytes < w.used - p->index_bytes) {
        p->feature_bytes = w.used - p->index_bytes;
    }
}

// The checks of what a plan is made from, and a plan without layers.
SPIRA_API status net_plan_begin(const net_layer *layers, int count, const net_limits *limits,
                                bool device, net_plan *p) {
    SPIRA_REQUIRE(layers, status_null_pointer, "layers", 0);
    SPIRA_REQUIRE(limits, status_null_pointer, "limits", 0);
    SPIRA_REQUIRE(p, status_null_pointer, "plan", 0);
    SPIRA_REQUIRE(count >= 1 && count <= net_layers_max, status_bad_size, "layer count", count);
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

// The first half of planning: sets, maps, shapes and lifetimes, without a word layout.
SPIRA_API status net_plan_sets(const net_layer *layers, int count, const net_limits *limits,
                               bool device, net_plan *p) {
    SPIRA_TRY(net_plan_begin(layers, count, limits, device, p));
    for (int i = 0; i < count; ++i) {
        SPIRA_TRY(net_plan_layer(p, i));
    }
    return status_success();
}

SPIRA_API triple triple_max(triple a, triple b) {
    return triple_make((int)max_of(a.x, b.x), (int)max_of(a.y, b.y), (int)max_of(a.z, b.z));
}

// The smallest number that both divide.
SPIRA_API int64_t net_common_multiple(int64_t a, int64_t b) {
    int64_t multiple = a;
    while (multiple % b) {
        multiple += a;
    }
    return multiple;
}

// What a network asks of the word layout: fills stride and reach of `need`. The caller fills the
// bounds of the scene and the batches. The stride is one that all the network's strides divide.
SPIRA_API status net_need(const net_layer *layers, int count, word_need *need) {
    SPIRA_REQUIRE(need, status_null_pointer, "need", 0);
    net_limits limits = {};
    limits.voxels = limits.channels = 1;
    net_plan plan;
    SPIRA_TRY(net_plan_begin(layers, count, &limits, false, &plan));
    for (int i = 0; i < count; ++i) {
        SPIRA_TRY(net_plan_index(&plan, i));
    }
    int64_t stride[3] = {1, 1, 1};
    for (int s = 0; s < plan.sets; ++s) {
        stride[0] = net_common_multiple(stride[0], plan.set[s].stride.x);
        stride[1] = net_common_multiple(stride[1], plan.set[s].stride.y);
        stride[2] = net_common_multiple(stride[2], plan.set[s].stride.z);
        for (int a = 0; a < 3; ++a) {
            SPIRA_REQUIRE(stride[a] <= 1 << 20, status_stride, "layers (their common stride)",
                          stride[a]);
        }
    }
    need->stride = triple_make((int)stride[0], (int)stride[1], (int)stride[2]);
    need->reach = triple_make(0, 0, 0);
    for (int m = 0; m < plan.maps; ++m) {
        need->reach = triple_max(need->reach, kernel_reach(&plan.map[m].kernel));
    }
    return status_success();
}

// The second half of planning: every array gets its place. `scratch_bytes`: of the index builders;
// `fine_scratch_bytes`: of those of the fine part, besides, or 0.
SPIRA_API status net_plan_place(const word_layout *layout, size_t scratch_bytes,
                                size_t fine_scratch_bytes, net_plan *p) {
    SPIRA_REQUIRE(layout, status_null_pointer, "layout", 0);
    p->layout = *layout;
    for (int m = 0; m < p->maps; ++m) {
        SPIRA_TRY(search_check(layout, &p->map[m].kernel));
    }
    workspace w = workspace_begin(nullptr);
    net_place_index(p, &w);
    p->scratch_bytes = scratch_bytes;
    p->scratch = net_take<char>(&w, (int64_t)scratch_bytes);
    p->fine_scratch_bytes = fine_scratch_bytes;
    p->fine_scratch = net_take<char>(&w, (int64_t)fine_scratch_bytes);
    p->index_bytes = w.used;
    for (int i = 0; i < p->layer_count; ++i) {
        net_place_features(p, i, w.used);
    }
    net_place_passing(p);
    p->workspace_bytes = p->index_bytes + p->feature_bytes;
    return status_success();
}

// The layout must be fitted to all strides of a plan: else planning, not running, is refused.
template <typename W>
SPIRA_API status net_check_strides(const net_plan *p) {
    W word;
    int32_t count;
    voxel_set<W> any = {&word, &count, 1};
    for (int s = 1; s < p->sets; ++s) {
        SPIRA_TRY(downsample_check(&p->layout, &any, p->set[s].stride, &any));
    }
    return status_success();
}

// Plans a network for the host loops, in fp32.
//
// inputs   layers [count]: must outlive the plan; layout: fitted to net_need and the scene
// outputs  plan: plain data; workspace_bytes of memory are needed to run it
// errors   status_layer with the layer at fault; sizes; a stride or a kernel that the layout was
//          not fitted to
template <typename W>
SPIRA_API status net_plan_host(const net_layer *layers, int count, const word_layout *layout,
                               const net_limits *limits, net_plan *plan) {
    SPIRA_TRY(word_check<W>(layout));
    SPIRA_REQUIRE(limits, status_null_pointer, "limits", 0);
    SPIRA_REQUIRE(limits->type == numeric_f32, status_unsupported, "limits.type (the host is fp32)",
                  limits->type);
    SPIRA_TRY(net_plan_sets(layers, count, limits, false, plan));
    size_t scratch = 0;
    for (int s = 1; s < plan->sets; ++s) {
        voxel_set<W> from = {nullptr, nullptr, plan->set[plan->set[s].parent].capacity};
        size_t bytes = downsample_host_workspace(from);
        scratch = scratch < bytes ? bytes : scratch;
    }
    SPIRA_TRY(net_plan_place(layout, scratch, 0, plan));
    return net_check_strides<W>(plan);
}

// Set s of a plan; set 0 is the caller's.
template <typename W>
SPIRA_API voxel_set<W> net_voxels(const net_plan *p, int s, voxel_set<W> input, void *memory) {
    voxel_set<W> set = {(W *)((char *)memory + p->set[s].words),
                        (int32_t *)((char *)memory + p->set[s].count), p->set[s].capacity};
    return s == 0 ? input : set;
}

// The features of a source: the network's input, a layer's, or none.
SPIRA_API const void *net_features_of(const net_plan *p, int source, const void *input,
                                      const void *memory) {
    return source == net_input  ? input
           : source == net_none ? nullptr
                                : (const char *)memory + p->step[source].features;
}

// Where a layer's parameters start, in floats: weights, then bias, scale and shift as it has them.
struct net_params {
    int64_t weight, bias, scale, shift; // -1 where the layer has none
    int64_t vectors;                    // where the weights end
    int64_t end;
};

SPIRA_API net_params net_params_of(const net_plan *p, int layer) {
    const net_layer *l = &p->layers[layer];
    const conv_shape *s = &p->step[layer].shape;
    net_params at;
    at.weight = p->step[layer].params;
    at.vectors = at.weight + (int64_t)s->volume * (s->cin + s->cin2) * s->cout;
    at.bias = l->bias ? at.vectors : -1;
    at.end = at.vectors + (l->bias ? s->cout : 0);
    at.scale = l->norm ? at.end : -1;
    at.shift = l->norm ? at.end + s->cout : -1;
    at.end += l->norm ? 2 * s->cout : 0;
    return at;
}

// The checks of everything that runs a plan. `input` is set 0.
template <typename W>
SPIRA_API status net_run_check(const net_plan *p, bool device, const voxel_set<W> *input,
                               const void *memory, size_t bytes) {
    SPIRA_REQUIRE(p, status_null_pointer, "plan", 0);
    SPIRA_REQUIRE(p->device == device, status_unsupported, "plan (made for the other side)", 0);
    SPIRA_TRY(word_check<W>(&p->layout));
    SPIRA_TRY(voxel_set_check(input));
    SPIRA_REQUIRE(input->capacity == p->set[0].capacity, status_capacity, "input.capacity",
                  p->set[0].capacity);
    return workspace_check(memory, bytes, p->workspace_bytes);
}

// Builds all sets and maps of a plan: the host loop of net_index (net.cuh). A count of set 0 beyond
// its capacity is recorded, and taken for that, as all counts are.
template <typename W>
SPIRA_API status net_index_host(const net_plan *p, voxel_set<W> input, device_status *trouble,
                                void *memory, size_t bytes) {
    SPIRA_TRY(net_run_check(p, false, &input, memory, bytes));
    SPIRA_REQUIRE(trouble, status_null_pointer, "trouble", 0);
    voxel_set_note(input, trouble);
    for (int s = 1; s < p->sets; ++s) {
        SPIRA_TRY(downsample_host(&p->layout, net_voxels(p, p->set[s].parent, input, memory),
                                  p->set[s].stride, net_voxels(p, s, input, memory), trouble,
                                  (char *)memory + p->scratch, p->scratch_bytes));
    }
    for (int m = 0; m < p->maps; ++m) {
        const net_map *map = &p->map[m];
        voxel_set<W> outputs = net_voxels(p, map->outputs, input, memory);
        int32_t *to = (int32_t *)((char *)memory + map->map);
        SPIRA_TRY(map_build_host(&p->layout, &map->kernel,
                                 net_voxels(p, map->source, input, memory), outputs, to));
        if (p->limits.count_pairs) {
            SPIRA_TRY(map_count_host(to, map->volume, voxel_set_count(outputs),
                                     (int32_t *)((char *)memory + map->pairs)));
        }
    }
    return status_success();
}

// Computes one layer: the host loop of net_layer_run (net.cuh). features [voxels, channels] fp32.
template <typename W>
SPIRA_API status net_layer_run_host(const net_plan *p, int layer, voxel_set<W> input,
                                    const float *features, const float *params, void *memory) {
    const net_layer *l = &p->layers[layer];
    const net_step *step = &p->step[layer];
    const int32_t outputs = voxel_set_count(net_voxels(p, step->set, input, memory));
    const int32_t *map =
        step->map == net_none ? nullptr : (const int32_t *)((char *)memory + p->map[step->map].map);
    const float *in = (const float *)net_features_of(p, l->source, features, memory);
    float *out = (float *)((char *)memory + step->features);
    if (!net_is_conv(l)) {
        return pool_host(l->op == net_pool_max ? pool_max : pool_average, in, step->channels, map,
                         step->shape.volume, outputs, out);
    }
    net_params at = net_params_of(p, layer);
    conv_epilogue e = {at.bias < 0 ? nullptr : params + at.bias,
                       at.scale < 0 ? nullptr : params + at.scale,
                       at.shift < 0 ? nullptr : params + at.shift,
                       net_features_of(p, l->residual, features, memory),
                       l->act,
                       l->slope};
    return conv_host(&step->shape, in,
                     (const float *)net_features_of(p, l->source2, features, memory),
                     params + at.weight, map, outputs, &e, out);
}

// Runs a planned network on the host, in fp32: index, then features.
//
// inputs   input: set 0, of the planned capacity; features [voxels, channels]; params: see
//          net_params; memory: plan->workspace_bytes, aligned to 256
// outputs  the features of kept layers, in memory at plan->step[layer].features; trouble
template <typename W>
SPIRA_API status net_run_host(const net_plan *p, voxel_set<W> input, const float *features,
                              const float *params, device_status *trouble, void *memory,
                              size_t bytes) {
    SPIRA_REQUIRE(features, status_null_pointer, "features", 0);
    SPIRA_REQUIRE(params, status_null_pointer, "params", 0);
    SPIRA_REQUIRE(trouble, status_null_pointer, "trouble", 0);
    SPIRA_TRY(net_index_host(p, input, trouble, memory, bytes));
    for (int i = 0; i < p->layer_count; ++i) {
        SPIRA_TRY(net_layer_run_host(p, i, input, features, params, memory));
    }
    return status_success();
}

} // namespace spira

#endif
