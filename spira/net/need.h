// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/net/need.h: what a network requires of the word layout: common strides, and the bounds of
// its sets.
#ifndef SPIRA_NET_NEED_H
#define SPIRA_NET_NEED_H

#include "planning.h"

#include <numeric>

namespace spira {

SPIRA_API triple triple_min(triple a, triple b) {
    return triple_make((int)min_of(a.x, b.x), (int)min_of(a.y, b.y), (int)min_of(a.z, b.z));
}

SPIRA_API triple triple_max(triple a, triple b) {
    return triple_make((int)max_of(a.x, b.x), (int)max_of(a.y, b.y), (int)max_of(a.z, b.z));
}

// A stride that all strides of the plan divide.
SPIRA_API status net_common_stride(const net_plan *p, triple *common) {
    *common = triple_make(1, 1, 1);
    for (int s = 0; s < p->sets; ++s) {
        for (int a = 0; a < 3; ++a) {
            int *stride = triple_at(common, a);
            const int64_t both = std::lcm<int64_t>(*stride, triple_at(p->set[s].stride, a));
            SPIRA_REQUIRE(both <= 1 << 20, status_stride, "layers (their common stride)", both);
            *stride = (int)both;
        }
    }
    return status_success();
}

// ---- bounds -------------------------------------------------------------------------------------

// Whether a set can have voxels beyond the bounds of those that it is made of. One without an axis
// can: its grid's origin need not be a coordinate of a voxel.
SPIRA_API bool net_set_widens(const net_set *set) {
    return set->by == net_set_expanded || set->by == net_set_children ||
           (set->by == net_set_joined && set->axis != join_axis_none);
}

// The bounds of a grid, on the axes that have an extent.
SPIRA_API void net_set_bounds(const net_set *set, triple *lo, triple *hi) {
    for (int a = 0; a < 3; ++a) {
        const int origin = triple_at(set->grid.origin, a);
        const int64_t extent = triple_at(set->grid.extent, a);
        if (extent) {
            *triple_at(lo, a) = origin;
            *triple_at(hi, a) =
                (int)min_of(origin + (extent - 1) * triple_at(set->stride, a), INT32_MAX);
        }
    }
}

// Widens the bounds of a plan's input to those of all its sets. Axes with an extent have the bounds
// of that extent, whatever *need says before. Layouts have room for floors in any case (word_fit),
// but not for what is made of them.
SPIRA_API status net_need_bounds(const net_plan *p, word_need *need) {
    word_need bounds[net_sets_max]; // of each set
    net_set_bounds(&p->set[0], &need->lo, &need->hi);
    for (int s = 0; s < p->sets; ++s) {
        const net_set *set = &p->set[s];
        bounds[s] = s ? bounds[set->parent] : *need;
        for (int n = 0; n < set->sources; ++n) { // joined
            bounds[s].lo = triple_min(bounds[s].lo, bounds[set->source[n]].lo);
            bounds[s].hi = triple_max(bounds[s].hi, bounds[set->source[n]].hi);
        }
        if (set->by == net_set_expanded) {
            const expand_rule rule = net_expand_rule(p, set);
            SPIRA_TRY(expand_need(&set->kernel, &rule, &bounds[s]));
        }
        if (set->by == net_set_floor) {
            const triple lo = bounds[s].lo, by = set->stride;
            bounds[s].lo = triple_make((int)floor_to(lo.x, by.x), (int)floor_to(lo.y, by.y),
                                       (int)floor_to(lo.z, by.z));
        }
        if (set->by == net_set_children) {
            const triple hi = bounds[s].hi, by = set->stride;
            bounds[s].hi = triple_make(hi.x + by.x, hi.y + by.y, hi.z + by.z);
        }
        if (net_set_widens(set)) {
            net_set_bounds(set, &bounds[s].lo, &bounds[s].hi);
            need->lo = triple_min(need->lo, bounds[s].lo);
            need->hi = triple_max(need->hi, bounds[s].hi);
        }
    }
    return status_success();
}

// Names the layer whose outputs the layout has no room for. Without an extent the bounds are not
// known here: then a run records voxels beyond the layout.
SPIRA_API status net_check_bounds(const net_plan *p) {
    for (int i = 0; i < p->layer_count; ++i) {
        const net_set *set = &p->set[p->step[i].set];
        triple lo = p->layout.lo, hi = lo; // where there is no extent
        net_set_bounds(set, &lo, &hi);
        if (net_set_widens(set) && !(triple_equal(triple_max(lo, p->layout.lo), lo) &&
                                     triple_equal(triple_min(hi, p->layout.hi), hi))) {
            return net_fault("outputs outside of the word layout (see net_need)", i);
        }
    }
    return status_success();
}

} // namespace spira

#endif
