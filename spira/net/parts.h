// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/net/parts.h: the parts of an index that can be built at different times, so that the first
// layers of a network run beside the rest.
#ifndef SPIRA_NET_PARTS_H
#define SPIRA_NET_PARTS_H

#include "read.h"

namespace spira {

// What one call of the index builder covers. With limits.overlap the index has two parts that can
// be built at the same time: the maps of set 0 onto itself (fine), and everything else (coarse).
// All of that is known when a run starts. What follows from features is a part for each stage
// (net_part_of): it is built between layers.
enum net_part : int {
    net_part_all,
    net_part_fine,
    net_part_coarse,
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
    default:
        return true;
    }
}

// Number of leading layers that need only the fine part of the index, and not the scratch in which
// the coarse part is built.
SPIRA_API int net_fine_layers(const net_plan *p) {
    int i = 0;
    while (i < p->layer_count && p->step[i].set == 0 && p->layers[i].op != net_norm_groups &&
           (p->step[i].map == net_none || net_map_is_fine(&p->map[p->step[i].map]))) {
        ++i;
    }
    return i;
}

// Whether a part makes set s.
SPIRA_API bool net_set_in(const net_plan *p, int s, net_part part) {
    return s && p->set[s].stage == net_part_stage(part) && part != net_part_fine;
}

// Whether a set follows from features.
SPIRA_API bool net_set_grown(const net_set *set) {
    return set->by == net_set_pruned || (set->by == net_set_children && set->scores != net_none);
}

} // namespace spira

#endif
