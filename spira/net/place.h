// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/net/place.h: the second half of planning: gives every array of a plan its place in the one
// workspace, and opens layouts there.
//
// The workspace has two regions. The first holds the index, which lives until the next run: sets,
// maps that are kept, layouts, scratch. The second holds the features, which share memory as their
// lifetimes allow. Maps that only the index builders read are temporary: they share the second
// region with the features, which are written later.
#ifndef SPIRA_NET_PLACE_H
#define SPIRA_NET_PLACE_H

#include "../index/compact.h"
#include "../order.h"
#include "need.h"

namespace spira {

// ---- forms of a map -----------------------------------------------------------------------------

// Whether the ordered layout is built from the compact form: nothing else reads the map, and its
// kernel has a compact form.
SPIRA_API bool net_map_is_compact(const net_plan *p, const net_map *m) {
    return m->ordered && !m->kept && !p->limits.count_pairs && compact_has(&m->kernel);
}

// Whether the map itself is written: it is kept, its pairs are counted, or the ordered layout is
// built from it.
SPIRA_API bool net_map_written(const net_plan *p, const net_map *m) {
    return m->kept || p->limits.count_pairs || (m->ordered && !net_map_is_compact(p, m));
}

SPIRA_API int64_t net_map_entries(const net_plan *p, const net_map *m) {
    return (int64_t)p->set[m->outputs].capacity * m->volume;
}

// The layout of a map, over the memory of the workspace.
SPIRA_API order_layout net_order(const net_plan *p, const net_map *m, void *memory) {
    workspace w = {(char *)memory, m->order};
    return order_layout_take(&w, p->set[m->outputs].capacity, m->volume);
}

// The compact form of a map, over the memory of the workspace; null if it has none.
SPIRA_API int32_t *net_compact(const net_plan *p, const net_map *m, void *memory) {
    return net_map_is_compact(p, m) ? (int32_t *)((char *)memory + m->compact) : nullptr;
}

// ---- places -------------------------------------------------------------------------------------

// Takes `count` elements and returns their offset in bytes.
template <typename T>
SPIRA_API size_t net_take(workspace *w, int64_t count) {
    size_t at = w->used;
    workspace_take<T>(w, count);
    return at;
}

SPIRA_API void net_place_layout(const net_plan *p, net_map *map, workspace *w) {
    workspace counter = workspace_begin(nullptr);
    if (map->ordered) {
        map->order = w->used;
        order_layout_take(&counter, p->set[map->outputs].capacity, map->volume);
        w->used += counter.used;
    }
}

// Sets, the rows of joined ones, layouts, pair counts and kept maps.
SPIRA_API void net_place_index(net_plan *p, workspace *w) {
    const int64_t word = p->layout.bits / 8;
    for (int s = 1; s < p->sets; ++s) {
        p->set[s].words = net_take<char>(w, p->set[s].capacity * word);
        p->set[s].count = net_take<int32_t>(w, 1);
        if (p->set[s].by == net_set_joined) {
            p->set[s].begin = net_take<int32_t>(w, (int64_t)p->set[s].capacity + 1);
            p->set[s].order = net_take<int32_t>(w, net_join_sources(p, &p->set[s]));
        } else if (p->set[s].by == net_set_pruned || p->set[s].by == net_set_children) {
            p->set[s].order = net_take<int32_t>(w, p->set[s].capacity);
        }
    }
    for (int m = 0; m < p->maps; ++m) {
        net_map *map = &p->map[m];
        net_place_layout(p, map, w);
        if (p->limits.count_pairs) {
            map->pairs = net_take<int32_t>(w, map->volume);
        }
        if (map->kept) {
            map->map = net_take<int32_t>(w, net_map_entries(p, map));
        }
    }
}

// Bytes of the features of a layer that is not fused into another.
SPIRA_API size_t net_feature_bytes(const net_plan *p, int i) {
    const net_step *step = &p->step[i];
    const int64_t rows =
        net_op_call(p->layers[i].op, [&](auto op) { return net_op_rows(op, p, i); });
    return (size_t)round_up(rows * step->channels * numeric_size(step->type), workspace_alignment);
}

// Returns the lowest place from `base` on that is free where layer i begins, and raises the end of
// the features to it.
SPIRA_API size_t net_take_features(net_plan *p, int i, size_t bytes, size_t base) {
    size_t at = base;
    for (bool moved = true; moved;) {
        moved = false;
        for (int j = 0; j < i; ++j) {
            const net_step *other = &p->step[j];
            if (other->last_use >= i && at < other->features + other->feature_bytes &&
                other->features < at + bytes) {
                at = other->features + other->feature_bytes;
                moved = true;
            }
        }
    }
    p->feature_bytes = (size_t)max_of((int64_t)p->feature_bytes, (int64_t)(at + bytes - base));
    return at;
}

// Gives the features of layer i the lowest place that is free from layer i to their last use.
SPIRA_API void net_place_features(net_plan *p, int i, size_t base) {
    net_step *step = &p->step[i];
    const bool fused = step->fused_into != net_none;
    step->feature_bytes = fused ? 0 : net_feature_bytes(p, i);
    step->features = fused ? base : net_take_features(p, i, step->feature_bytes, base);
}

SPIRA_API void net_place_temporary_part(net_plan *p, net_part part, workspace *w) {
    for (int m = 0; m < p->maps; ++m) {
        net_map *map = &p->map[m];
        if (!net_map_in(map, part)) {
            continue;
        }
        if (net_map_written(p, map) && !map->kept) {
            map->map = net_take<int32_t>(w, net_map_entries(p, map));
        }
        if (net_map_is_compact(p, map)) {
            const int32_t capacity = p->set[map->outputs].capacity;
            map->compact = net_take<int32_t>(w, compact_numbers(&map->kernel, capacity));
        }
    }
}

// Moves the end behind the features of the first `layers` layers.
SPIRA_API void net_skip_features(const net_plan *p, int layers, workspace *w) {
    for (int i = 0; i < layers; ++i) {
        const size_t end = p->step[i].features + p->step[i].feature_bytes;
        w->used = w->used < end ? end : w->used;
    }
}

// Places the temporary maps in the region of the features. With overlap, the first layers write
// their features while the maps of the coarse part are still read: these maps follow behind them.
SPIRA_API void net_place_temporary(net_plan *p) {
    workspace w = {nullptr, p->index_bytes};
    net_place_temporary_part(p, p->limits.overlap ? net_part_fine : net_part_all, &w);
    if (p->limits.overlap) {
        net_skip_features(p, net_fine_layers(p), &w);
        net_place_temporary_part(p, net_part_coarse, &w);
    }
    if (p->feature_bytes < w.used - p->index_bytes) {
        p->feature_bytes = w.used - p->index_bytes;
    }
}

// Places the temporary maps of the stages: beside the features that are there when a stage is
// opened, in the place of later ones.
SPIRA_API void net_place_stages(net_plan *p) {
    for (int i = 0; i < p->layer_count; ++i) {
        if (p->step[i].opens) {
            const net_part part = net_part_of(p->step[i].opens);
            workspace size = {nullptr, 0};
            net_place_temporary_part(p, part, &size);
            workspace w = {nullptr, net_take_features(p, i, size.used, p->index_bytes)};
            net_place_temporary_part(p, part, &w);
        }
    }
}

// Places everything.
//
// scratch_bytes       of the index builders
// fine_scratch_bytes  with overlap: of the builders of the fine part; else 0
SPIRA_API status net_plan_place(const word_layout *layout, size_t scratch_bytes,
                                size_t fine_scratch_bytes, net_plan *p) {
    SPIRA_REQUIRE(layout, status_null_pointer, "layout", 0);
    SPIRA_REQUIRE(!p->limits.batch || p->limits.batch >= layout->batches, status_bad_size,
                  "limits.batch (less than the layout's)", p->limits.batch);
    p->layout = *layout;
    for (int m = 0; m < p->maps; ++m) {
        SPIRA_TRY(search_check(layout, &p->map[m].kernel));
    }
    SPIRA_TRY(net_check_bounds(p));
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
    net_place_temporary(p);
    net_place_stages(p);
    p->workspace_bytes = p->index_bytes + p->feature_bytes;
    return status_success();
}

// The word layout must be fitted to every stride that sets are floored to, or divided from.
template <typename W>
SPIRA_API status net_check_strides(const net_plan *p) {
    for (int s = 1; s < p->sets; ++s) {
        const net_set *set = &p->set[s];
        if (set->by == net_set_floor || set->by == net_set_children) {
            const net_set *coarse = set->by == net_set_floor ? set : &p->set[set->parent];
            SPIRA_TRY(downsample_layout_check<W>(&p->layout, coarse->stride));
        }
    }
    return status_success();
}

} // namespace spira

#endif
