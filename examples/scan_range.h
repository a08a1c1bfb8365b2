// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/scan_range.h: the range and the voxels that the options choose for a network, and the
// points outside of that range.
#ifndef SPIRA_EXAMPLES_SCAN_RANGE_H
#define SPIRA_EXAMPLES_SCAN_RANGE_H

#include "network_file.h"
#include "scan_input.h"
#include "scan_side.h"

namespace side {

// Whether the sets of a network can be made within its extent, and its voxels packed.
static inline spira::status range_check(const networks::network *net) {
    const spira::net_limits limits = limits_of(net, 1);
    spira::word_need need = {};
    spira::word_layout layout;
    need.batches = 1;
    spira::net_plan *plan = (spira::net_plan *)malloc(sizeof *plan);
    SPIRA_REQUIRE(plan, spira::status_workspace, "bytes of memory", sizeof *plan);
    const spira::status s = spira::net_plan_sets(net->layers, net->count, &limits, false, plan);
    free(plan);
    SPIRA_TRY(s);
    SPIRA_TRY(spira::net_need(net->layers, net->count, &net->grid, &need));
    return spira::word_fit(&need, &layout);
}

// Gives a network with a range the chosen range and voxels. Returns 0 or the exit code.
static inline int range_choose_ranged(const options *o, networks::network *net) {
    float lo[3], hi[3], voxel[3];
    memcpy(lo, o->has_range ? o->range : net->lo, sizeof lo);
    memcpy(hi, o->has_range ? o->range + 3 : net->hi, sizeof hi);
    memcpy(voxel, o->voxel[0] > 0 ? o->voxel : net->voxel, sizeof voxel);
    spira::status s = networks::network_range(net, lo, hi, voxel);
    if (spira::status_failed(s)) {
        const int axis = (int)s.detail;
        fprintf(stderr, "range: %g to %g m along %c, voxels of %g m: %s\n", (double)lo[axis],
                (double)hi[axis], "xyz"[axis], (double)voxel[axis], s.subject);
        return 2;
    }
    s = range_check(net);
    if (spira::status_failed(s)) {
        const spira::triple n = net->grid.extent;
        fprintf(stderr, "range and voxels make an extent of %d x %d x %d, which %s cannot have\n",
                n.x, n.y, n.z, o->net);
        fail("planning for it", net, s);
        return 2;
    }
    return 0;
}

// Gives a network the range and the voxels of the options. Returns 0 or the exit code.
static inline int range_choose(const options *o, networks::network *net) {
    if (networks::network_ranged(net)) {
        return range_choose_ranged(o, net);
    }
    if (o->has_range) {
        fprintf(stderr, "--range: %s has none and takes all points\n", o->net);
        return 2;
    }
    for (int a = 0; a < 3; ++a) {
        if (o->voxel[a] != o->voxel[0]) {
            fprintf(stderr, "--voxel: %s has cubic voxels: give one number\n", o->net);
            return 2;
        }
        net->voxel[a] = o->voxel[0] > 0 ? o->voxel[0] : 0.05f;
    }
    return 0;
}

// The same for the network of a file that has an extent, which range and voxels must make. Its
// range is nuScenes', or that of the options.
static inline int range_choose_of_file(const options *o, const char *path, networks::network *net) {
    const spira::triple have = net->grid.extent;
    networks::network_nuscenes(net);
    const int code = range_choose(o, net);
    const spira::triple made = net->grid.extent;
    if (!code && !spira::triple_equal(have, made)) {
        fprintf(stderr,
                "%s is for an extent of %d x %d x %d; range and voxels make %d x %d x %d: give "
                "--range and --voxel as it was trained\n",
                path, have.x, have.y, have.z, made.x, made.y, made.z);
        return 2;
    }
    return code;
}

// Finds the network of --net: a name, or a file NAME.layers. Returns 0 or the exit code.
static inline int network_open(const options *o, networks::network *net) {
    const char *suffix = strrchr(o->net, '.');
    if (suffix && !strcmp(suffix, ".layers")) {
        scan::scan_reason why;
        const spira::status s = networks::network_read(o->net, net, &why);
        return spira::status_failed(s) ? fail_file(&why, net, s) : 0;
    }
    return network_take(o, net);
}

// The same with the range and the voxels of the options.
static inline int network_find(const options *o, networks::network *net) {
    const int code = network_open(o, net);
    if (code) {
        return code;
    }
    const bool of_file = net->grid.extent.x && !networks::network_ranged(net);
    return of_file ? range_choose_of_file(o, o->net, net) : range_choose(o, net);
}

// Removes the points outside of a network's range, if it has one; *outside: their number.
static inline spira::status range_cut(const networks::network *net, scan::scan_cloud *cloud,
                                      int64_t *outside) {
    *outside = 0;
    if (!networks::network_ranged(net)) {
        return spira::status_success();
    }
    SPIRA_REQUIRE(!cloud->voxels, spira::status_unsupported,
                  "scan (of voxels; this network has a range in metres)", 0);
    for (int a = 0; a < 3; ++a) { // its points were moved, and the range is where it was
        SPIRA_REQUIRE(cloud->origin[a] == 0, spira::status_unsupported,
                      "scan (more than 8192 m off; this network has a range around the sensor)", 0);
    }
    spira::voxel_input range;
    SPIRA_TRY(spira::voxel_range(net->lo, net->hi, net->voxel, &range));
    *outside = scan::scan_cut(cloud, &range);
    return spira::status_success();
}

// The edges of a network's voxels: one number, or x y z where they differ. Returns text.
static inline const char *voxel_text(const networks::network *net, char *text, size_t size) {
    const float *e = net->voxel;
    const bool cube = e[0] == e[1] && e[1] == e[2];
    const int x = snprintf(text, size, "%g", (double)e[0]);
    if (!cube) {
        snprintf(text + x, size - (size_t)x, " %g %g", (double)e[1], (double)e[2]);
    }
    return text;
}

} // namespace side

#endif
