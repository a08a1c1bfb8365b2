// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/network.h: a table of layers under construction: the helpers that the tables of
// networks.h and detectors.h are written with.
#ifndef SPIRA_EXAMPLES_NETWORK_H
#define SPIRA_EXAMPLES_NETWORK_H

#include "../spira/net.h"
#include "../spira/voxel.h"

#include <stdio.h>
#include <string.h>

namespace networks {

// A table under construction. Names live in it: it must outlive the plan.
struct network {
    spira::net_layer layers[spira::net_layers_max];
    char names[spira::net_layers_max][32];
    int count;
    int input_channels;
    float input_range;       // of the input, if int8 layers read it; else 0
    int quantised;           // layers that its weights have ranges for, int8 or not
    spira::expand_grid grid; // of the input; an extent of 0: no limit
    int batch;               // that dense outputs have; 0 without
    float lo[3], hi[3];      // range of the points in metres, along their axes; equal: no range
    float voxel[3];          // edges of a voxel in metres, likewise; 0: the caller chooses
    bool scores;             // the output is a score for each class
    bool exchange_xy;        // the network's x is the y of the points, and its y their x
};

// Begins a table without layers.
SPIRA_API void network_begin(network *n, int input_channels) {
    memset((void *)n, 0, sizeof *n);
    n->input_channels = input_channels;
}

// Whether a network takes the points of a range only.
SPIRA_API bool network_ranged(const network *n) {
    return n->lo[0] < n->hi[0];
}

// Sets the range and the voxels of a network, along the axes of the points. The extent is the
// spatial shape that OpenPCDet and CenterPoint give to spconv: round((hi - lo) / voxel), and one
// more in z. A frame has one batch.
//
// errors: those of voxel_range; the network is left as it is
SPIRA_API spira::status network_range(network *n, const float lo[3], const float hi[3],
                                      const float voxel[3]) {
    spira::voxel_input in;
    SPIRA_TRY(spira::voxel_range(lo, hi, voxel, &in));
    memcpy(n->lo, lo, sizeof n->lo);
    memcpy(n->hi, hi, sizeof n->hi);
    memcpy(n->voxel, voxel, sizeof n->voxel);
    const spira::triple e = in.extent;
    n->grid.extent = n->exchange_xy ? spira::triple_make(e.y, e.x, e.z + 1)
                                    : spira::triple_make(e.x, e.y, e.z + 1);
    n->batch = 1;
    return spira::status_success();
}

// Sets size and origin of the voxels, along the axes of the network.
SPIRA_API void network_voxels(const network *n, spira::voxel_input *in) {
    for (int a = 0; a < 3; ++a) {
        const int axis = n->exchange_xy && a < 2 ? 1 - a : a; // of the points
        in->size[a] = n->voxel[axis];
        in->origin[a] = n->lo[axis]; // 0 without a range
    }
}

// Adds a layer under a name, and returns its number.
SPIRA_API int network_add(network *n, const char *name, spira::net_layer layer) {
    const int i = n->count++;
    snprintf(n->names[i], sizeof n->names[i], "%s", name);
    layer.name = n->names[i];
    n->layers[i] = layer;
    return i;
}

// Adds a convolution with batch norm and ReLU.
SPIRA_API int network_conv(network *n, const char *name, int source, int channels, int size,
                           int stride) {
    spira::net_layer l = spira::net_layer_conv(name, source, channels, size, stride);
    l.norm = true;
    l.act = spira::activation_relu;
    return network_add(n, name, l);
}

// Adds a residual block that reads `source` and, concatenated, `source2` (or net_none).
SPIRA_API int network_block(network *n, const char *name, int source, int source2, int from,
                            int channels, int size) {
    char text[32];
    int shortcut = source;
    if (from != channels) {
        snprintf(text, sizeof text, "%.20s.shortcut", name);
        shortcut = network_conv(n, text, source, channels, 1, 1);
        n->layers[shortcut].source2 = spira::net_from(source2);
        n->layers[shortcut].act = spira::activation_none;
    }
    snprintf(text, sizeof text, "%.20s.conv1", name);
    int first = network_conv(n, text, source, channels, size, 1);
    n->layers[first].source2 = spira::net_from(source2);
    snprintf(text, sizeof text, "%.20s.conv2", name);
    int second = network_conv(n, text, first, channels, size, 1);
    n->layers[second].residual = spira::net_from(shortcut);
    return second;
}

} // namespace networks

#endif
