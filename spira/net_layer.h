// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/net_layer.h: a network as its caller describes it: a table of layers, and limits. net.h
// says how it is planned and run.
#ifndef SPIRA_NET_LAYER_H
#define SPIRA_NET_LAYER_H

#include "conv.h"
#include "dense.h"
#include "device.h"
#include "expand.h"
#include "join.h"
#include "tune.h"

namespace spira {

enum { net_layers_max = 256, net_sets_max = 16, net_maps_max = 64 };

// Layers are numbered by their place in the table. Two numbers are no layer:
enum {
    net_input = -1, // the input of the network
    net_none = -2,  // no layer, no map
};

// What a layer reads: net_from(number of a layer), net_from(net_input), or zero for nothing.
struct net_source {
    int plus_two; // the number + 2
};

SPIRA_API net_source net_from(int layer) {
    return {(int)((unsigned)layer + 2)};
}

// The number of the layer that is read, net_input, or net_none.
SPIRA_API int net_number(net_source source) {
    return (int)((unsigned)source.plus_two - 2);
}

enum net_op : int {
    net_conv,
    net_pool_max,
    net_pool_average,
    net_join,    // the union of up to four sources, without an axis if `axis` says so. Features of
                 // voxels that agree are summed (join.h)
    net_dense,   // a dense map of the source (dense.h). No layer can read it
    net_product, // of two sources with the same set and channels, element by element
    net_norm_layer, // LayerNorm over the channels of a row (norm.h)
    net_norm_rms,   // RMSNorm
    net_prune,      // the voxels of the source that the features of source2 choose (prune.h)
    net_children,   // of each voxel, the children of half its stride that the 8 features of source2
                    // choose, or all (subdivide.h). Channels go to them: child s has those of the
                    // s-th eighth
    net_group,      // a depthwise or grouped convolution (conv_group.h), of more than one offset
    net_norm_groups, // GroupNorm over the voxels of a batch element (norm_groups.h). Device plans
                     // require a layout with a number of batches
};

// How a convolution or pooling derives its output set, unless it is transposed.
enum net_rule : int {
    net_rule_floor,    // the voxels of the source, floored to a multiple of the absolute stride.
                       // Stride 1 keeps the set (submanifold)
    net_rule_expand,   // spconv's: every voxel whose kernel touches an input, within the extent
                       // (expand.h). Stride 1 dilates the set
    net_rule_generate, // transposed layers: every voxel of the finer stride that the kernel of an
                       // input reaches, without bounds, as in MinkowskiEngine; with `padding`,
                       // those in the bounds of spconv's transposed layer
};

// The number format of a layer's features. int8 is one that a layer computes in, see net.h: what it
// reads is stored as int8.
enum net_format : int {
    net_format_same, // net_limits.type. Of dense maps in a tf32 network: fp32
    net_format_f32,  // each is 1 + the `numeric`
    net_format_tf32,
    net_format_f16,
    net_format_bf16,
    net_format_i8, // convolutions; dense maps: of int8 features
};

// A layer. Begin it with one of the functions below, or from zero: what is zero is not there. A
// member that the operation does not have must be zero.
struct net_layer {
    const char *name;
    net_op op;
    net_source source;  // what is read
    net_source source2; // convolutions: concatenated behind the first. Joins, products: a further
                        // source. net_prune, net_children: the scores
    net_source source3, source4; // joins: further sources
    int channels;                // convolutions: of the output. The others keep their source's
    int groups;                  // net_group, net_norm_groups: of the channels of source and output
    // Convolutions, grouped ones too, and pooling.
    triple size;     // of the kernel
    triple stride;   // relative to the source
    triple dilation; // 1: a dense kernel
    bool transposed; // inverse convolution: divides by the stride, back to the set that the strided
                     // layer came from. Of net_rule_expand: that layer has the same kernel
    net_rule rule;
    // net_rule_expand: in voxels of the source. net_rule_generate: in voxels of the output; a grid
    // of extent n (limits.grid) becomes one of (n - 1) * stride - 2 * padding + (size - 1) *
    // dilation + 1. It begins kernel_first(size) * dilation + padding voxels of the output from the
    // source's origin, and outputs beyond it are dropped
    triple padding;
    // Convolutions, grouped ones too, and norms.
    bool norm;           // folded batch norm, or gain: scale [channels] and shift [channels]
    net_source residual; // added before the activation
    activation act;
    float slope;   // of activation_leaky
    float epsilon; // norms: above 0
    // Convolutions; grouped ones have no pairs.
    bool bias; // adds a bias [channels]
    // Pairs of the layer's kernel map in a typical scan (net_limits.count_pairs counts them); 0:
    // unknown. They select the tuning record of the right density.
    int64_t pairs;
    join_axis axis;    // joins: the axis that is dropped
    dense_order order; // net_dense
    // net_prune and net_children. A score that is NaN chooses nothing and is recorded.
    float threshold; // scores above it choose
    bool or_equal;   // and those that equal it
    int channel;     // net_prune: the one of source2 that is the score
    int32_t most;    // net_prune: so many of each batch element, those with the largest scores,
                     // whatever the threshold (which must be 0). 0: no limit
    int repeat;      // net_children: each channel so many times in a row; 0: once
    // Any layer.
    net_format format; // see net.h for what can be read and written together
    // The largest magnitude of the layer's features, where they are stored as int8: its scale is
    // range / 127. Pooling has its source's.
    float range;
    bool keep;        // the features stay in the workspace until the next run; the last layer's
                      // always do
    int32_t capacity; // voxels of the layer's set; 0: see net.h. The first layer of a set decides;
                      // the others have the same, or 0
};

SPIRA_API net_layer net_layer_make(const char *name, net_op op, int source) {
    net_layer l = {};
    l.name = name;
    l.op = op;
    l.source = net_from(source);
    return l;
}

// A convolution with a cubic kernel, without a second source, residual, bias, batch norm and
// activation. source, here and below: the number of a layer, or net_input.
SPIRA_API net_layer net_layer_conv(const char *name, int source, int channels, int size,
                                   int stride) {
    net_layer l = net_layer_make(name, net_conv, source);
    l.channels = channels;
    l.size = triple_make(size, size, size);
    l.stride = triple_make(stride, stride, stride);
    l.dilation = triple_make(1, 1, 1);
    return l;
}

// A depthwise or grouped convolution with a cubic kernel. Depthwise: channels and groups are the
// channels of the source.
SPIRA_API net_layer net_layer_group(const char *name, int source, int channels, int groups,
                                    int size, int stride) {
    net_layer l = net_layer_conv(name, source, channels, size, stride);
    l.op = net_group;
    l.groups = groups;
    return l;
}

// Pooling over a cubic kernel. op: net_pool_max or net_pool_average.
SPIRA_API net_layer net_layer_pool(const char *name, net_op op, int source, int size, int stride) {
    net_layer l = net_layer_conv(name, source, 0, size, stride);
    l.op = op;
    return l;
}

// The union of two layers' sets, their features summed. source2 may be net_none: then set `axis`.
SPIRA_API net_layer net_layer_join(const char *name, int source, int source2) {
    net_layer l = net_layer_make(name, net_join, source);
    l.source2 = net_from(source2);
    return l;
}

// The product of two layers.
SPIRA_API net_layer net_layer_product(const char *name, int source, int source2) {
    net_layer l = net_layer_make(name, net_product, source);
    l.source2 = net_from(source2);
    return l;
}

// LayerNorm with gain and shift.
SPIRA_API net_layer net_layer_norm(const char *name, int source, float epsilon) {
    net_layer l = net_layer_make(name, net_norm_layer, source);
    l.norm = true;
    l.epsilon = epsilon;
    return l;
}

// GroupNorm with gain and shift. Instance norm: as many groups as channels.
SPIRA_API net_layer net_layer_norm_groups(const char *name, int source, int groups, float epsilon) {
    net_layer l = net_layer_norm(name, source, epsilon);
    l.op = net_norm_groups;
    l.groups = groups;
    return l;
}

// The voxels of a layer whose score, channel 0 of another one, is above 0.
SPIRA_API net_layer net_layer_prune(const char *name, int source, int scores) {
    net_layer l = net_layer_make(name, net_prune, source);
    l.source2 = net_from(scores);
    return l;
}

// The children whose scores are above 0. scores may be net_none: all children.
SPIRA_API net_layer net_layer_children(const char *name, int source, int scores) {
    net_layer l = net_layer_make(name, net_children, source);
    l.source2 = net_from(scores);
    return l;
}

// A dense map.
SPIRA_API net_layer net_layer_dense(const char *name, int source) {
    return net_layer_make(name, net_dense, source);
}

// Where a device plan computes the shortcuts of residual blocks. A shortcut is a 1x1x1 convolution
// without activation whose only reader adds it as its residual.
enum net_shortcuts : int {
    net_shortcuts_within, // fused into the layer that adds them, unless their features are kept
    net_shortcuts_hidden, // the same, and keep_all does not apply to them
    net_shortcuts_apart,  // layers of their own, as on the host
};

struct net_limits {
    int32_t voxels; // capacity of the input set
    // The grid of the input: its voxels have coordinates origin .. origin + extent - 1. An extent
    // of 0 is no limit on that axis. Dense outputs require an extent on all axes.
    expand_grid grid;
    triple stride;    // of the input set, by which the indices of the grid count; 0: 1
    int batch;        // batch indices are 0 .. batch - 1; 0: unknown. Dense outputs require it
    int channels;     // of the network's input
    numeric type;     // of the input, and of all layers without a format of their own
    float range;      // likewise of the network's input, if int8 layers read it
    bool count_pairs; // also count the pairs of each map and offset
    bool keep_all;    // every layer keeps its features
    // The members below apply to device plans only. Records are read during planning and not kept.
    const tune_record *records; // [record_count], or null
    int record_count;
    bool overlap; // reserve memory for runs with a second stream (net_side)
    net_shortcuts shortcuts;
};

} // namespace spira

#endif
