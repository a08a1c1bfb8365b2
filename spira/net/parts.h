// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/net/parts.h: the parts of an index that can be built at different times, so that the first
// layers of a network run beside the rest.
#ifndef SPIRA_NET_PARTS_H
#define SPIRA_NET_PARTS_H

#include "read.h"

namespace spira {

// What one call of the index builder covers. With limits.overlap the index has two parts that can
// be built at the same time: the maps of set 0 onto itself (fine), and everything else (coarse).
// With limits.overlap_early the coarse part is divided: what the layers up to the second new set
// need (early) comes before the rest (late). All of that is known when a run starts. What follows
// from features is a part for each stage (net_part_of): it is built between layers.
enum net_part : int {
    net_part_all,
    net_part_fine,
    net_part_coarse,
    net_part_early,
    net_part_late,
    net_part_stages, // + stage, from 1
};

SPIRA_API net_part net_part_of(int stage) {
    return (net_part)(net_part_stages + stage);
}

SPIRA_API int net_part_stage(net_part part) {
    return part > net_part_stages ? part - net_part_stages : 0;
}

SPIRA_API bool net_map_is_fine(const net_map *m) {
    return m->source == 0 && m->outputs == 0;
}

SPIRA_API bool net_map_in(const net_map *m, net_part part) {
    const bool fine = net_map_is_fine(m);
    if (m->stage != net_part_stage(part)) {
        return false;
    }
    switch (part) {
    case net_part_fine:
        return fine;
    case net_part_coarse:
        return !fine;
    case net_part_early:
        return !fine && m->early;
    case net_part_late:
        return !fine && !m->early;
    default:
        return true;
    }
}

// Number of leading layers that need only the fine part of the index.
SPIRA_API int net_fine_layers(const net_plan *p) {
    int i = 0;
    while (i < p->layer_count && p->step[i].set == 0 &&
           (p->step[i].map == net_none || net_map_is_fine(&p->map[p->step[i].map]))) {
        ++i;
    }
    return i;
}

// Number of leading layers that need only the fine and the early part. The same as net_fine_layers
// if there is no early part: without limits.overlap_early, if set 1 is the last one, or if the next
// layer does not make it from set 0.
SPIRA_API int net_early_layers(const net_plan *p) {
    const int fine = net_fine_layers(p);
    int i = fine;
    if (!p->limits.overlap_early || p->sets < 3 || p->set[1].parent != 0 || p->set[1].stage ||
        fine == p->layer_count || p->step[fine].set != 1) {
        return fine;
    }
    while (i < p->layer_count && p->step[i].set <= 1 && p->step[i].source_set <= 1) {
        ++i;
    }
    return i;
}

// Whether a part makes set s.
SPIRA_API bool net_set_in(const net_plan *p, int s, net_part part) {
    return s && p->set[s].stage == net_part_stage(part) && part != net_part_fine &&
           (part != net_part_early || s == 1) && (part != net_part_late || s > 1);
}

// Whether a set follows from features.
SPIRA_API bool net_set_grown(const net_set *set) {
    return set->by == net_set_pruned || (set->by == net_set_children && set->scores != net_none);
}

// Marks the maps of the early part.
SPIRA_API void net_plan_early(net_plan *p) {
    const int early = net_early_layers(p);
    for (int i = net_fine_layers(p); i < early; ++i) {
        if (p->step[i].map != net_none) {
            p->map[p->step[i].map].early = true;
        }
    }
}

} // namespace spira

#endif
