// spira/net/types.h: a network as its caller describes it (layers, limits), the plan that is made
// of it, and the arguments of a run. spira/net.h explains how they are used; the other files of
// this folder fill and read the plan.
#ifndef SPIRA_NET_TYPES_H
#define SPIRA_NET_TYPES_H

#include "../conv.h"
#include "../conv_map.h"
#include "../dense.h"
#include "../device.h"
#include "../expand.h"
#include "../join.h"
#include "../map.h"
#include "../tune.h"

namespace spira {

enum { net_layers_max = 256, net_sets_max = 16, net_maps_max = 64 };

// Layers are numbered by their place in the table. Two numbers are no layer:
enum {
    net_input = -1, // the input of the network
    net_none = -2,  // no layer, no map
};

// ---- what the caller fills ----------------------------------------------------------------------

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
    net_join,  // the union of up to four sources, without an axis if `axis` says so. Features of
               // voxels that agree are summed (join.h)
    net_dense, // a dense map of the source (dense.h). No layer can read it
};

// How a convolution or pooling derives its output set, unless it is transposed.
enum net_rule : int {
    net_rule_floor,  // the voxels of the source, floored to a multiple of the absolute stride.
                     // Stride 1 keeps the set (submanifold)
    net_rule_expand, // spconv's: every voxel whose kernel touches an input, within the extent
                     // (expand.h). Stride 1 dilates the set
};

// The number format of a layer's features.
enum net_format : int {
    net_format_same, // net_limits.type. Of dense maps in a tf32 network: fp32
    net_format_f32,  // each is 1 + the `numeric`
    net_format_tf32,
    net_format_f16,
    net_format_bf16,
};

// A layer. Begin it with one of the functions below, or from zero: what is zero is not there. A
// member that the operation does not have must be zero.
struct net_layer {
    const char *name;
    net_op op;
    net_source source;  // what is read
    net_source source2; // convolutions: concatenated behind the first. Joins: a further source
    net_source source3, source4; // joins: further sources
    int channels;                // convolutions: of the output. The others keep their source's
    // Convolutions and pooling.
    triple size;     // of the kernel
    triple stride;   // relative to the source
    triple dilation; // 1: a dense kernel
    bool transposed; // inverse convolution: divides by the stride, back to the set that the strided
                     // layer came from. Of net_rule_expand: that layer has the same kernel
    net_rule rule;
    triple padding; // net_rule_expand: in voxels of the source
    // Convolutions.
    bool bias;           // adds a bias [channels]
    bool norm;           // folded batch norm: scale [channels] and shift [channels]
    net_source residual; // added before the activation
    activation act;
    float slope; // of activation_leaky
    // Pairs of the layer's kernel map in a typical scan (net_limits.count_pairs counts them); 0:
    // unknown. They select the tuning record of the right density.
    int64_t pairs;
    join_axis axis;    // joins: the axis that is dropped
    dense_order order; // net_dense
    // Any layer.
    net_format format; // see net.h for what can be read and written together
    bool keep;         // the features stay in the workspace until the next run; the last layer's
                       // always do
    int32_t capacity;  // voxels of the layer's set; 0: see net.h. The first layer of a set decides;
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
    int batch;        // batch indices are 0 .. batch - 1; 0: unknown. Dense outputs require it
    int channels;     // of the network's input
    numeric type;     // of the input, and of all layers without a format of their own
    bool count_pairs; // also count the pairs of each map and offset
    bool keep_all;    // every layer keeps its features
    // The members below apply to device plans only. Records are read during planning and not kept.
    const tune_record *records; // [record_count], or null
    int record_count;
    bool overlap; // reserve memory for runs with a second stream (net_side)
    // With overlap: the layers up to the second new set run as soon as their part of the index is
    // there (net_side.early). Worth it where the sets take long to make (net_rule_expand).
    bool overlap_early;
    net_shortcuts shortcuts;
};

// ---- what planning fills ------------------------------------------------------------------------

// How a set is derived from others.
enum net_derivation : int {
    net_set_given,    // set 0
    net_set_floor,    // floored to `stride`, from `base` or from a set between the two
    net_set_expanded, // by spconv's rule
    net_set_joined,   // the union of `source`, without an axis
};

// A coordinate set: a node of the graph. Layers share it exactly if they derive it alike.
struct net_set {
    triple stride; // absolute: the spacing of the grid
    expand_grid grid;
    net_derivation by;
    int parent; // set that this one is computed from; joined: the first
    int base; // floor: the set that it is a floor of, whose own derivation is another; others: the
              // set itself
    kernel_shape kernel;       // expanded: of the layer; its stride is that of the parent
    triple ratio, padding;     // expanded: of the layer
    join_axis axis;            // joined: the axis that was dropped, or join_axis_none
    int sources;               // joined: number of sources
    int source[join_sets_max]; // joined: sets
    int32_t capacity;
    size_t words, count; // bytes from the start of the workspace; set 0 belongs to the caller
    size_t begin, order; // joined: of join_rows
};

struct net_map {
    int source, outputs; // sets
    kernel_shape kernel;
    int volume;
    bool kept;      // pooling and the host read the map itself
    bool ordered;   // some convolution reads it: the ordered layout is built (device plans)
    bool early;     // of the early part of the index (net/parts.h)
    size_t map;     // [capacity, volume] if net_map_written; temporary unless `kept`
    size_t compact; // compact form if net_map_is_compact; temporary
    size_t order;   // ordered layout
    size_t pairs;   // [volume], with count_pairs
};

struct net_step {
    int map; // or net_none: the identity
    int source_set, set;
    conv_shape shape; // others than convolutions: volume and channels
    int channels;     // of the output; dense outputs: channels * depth
    numeric type;     // of the output
    size_t features;  // bytes from the start of the workspace
    size_t feature_bytes;
    int last_use;   // last layer that reads the features; layer_count: they are kept
    int shortcut;   // layer that is fused into this one as its shortcut, or net_none
    int fused_into; // layer that this one is fused into, or net_none; a fused layer has no features
    int64_t params; // floats from the start of the parameters: weight, bias, scale, shift
    // Device plans only.
    size_t packed, vectors; // bytes from the start of the loaded parameters: packed weights; bias,
                            // scale and shift
    tune_choice choice;     // of the layer's record; all zero: chosen by conv
};

// Plain data; it points to the caller's table of layers only.
struct net_plan {
    const net_layer *layers; // [layer_count], the caller's
    int layer_count;
    net_limits limits;
    word_layout layout;
    int sets, maps;
    net_set set[net_sets_max];
    net_map map[net_maps_max];
    net_step step[net_layers_max];
    int64_t params;                // number of floats: see net_params
    bool device;                   // made by net_plan_device
    device_info gpu;               // device plans: the GPU model that the plan was made for
    size_t scratch, scratch_bytes; // of the builders of sets and layouts
    size_t fine_scratch, fine_scratch_bytes; // with overlap: of the fine part of the index
    size_t workspace_bytes;                  // index_bytes + feature_bytes
    size_t index_bytes;                      // sets, kept maps, layouts, scratch
    size_t feature_bytes;                    // features, which share memory with temporary maps
    size_t loaded_bytes;                     // device plans: of the loaded parameters
};

// ---- what a run takes ---------------------------------------------------------------------------

struct net_side; // a second stream: net/overlap.cuh

// One run of a plan. Fill it by name. On the device all pointers but `side` are device memory.
template <typename W>
struct net_run_args {
    voxel_set<W> input;     // set 0. Its capacity must equal limits.voxels
    const void *features;   // [capacity, limits.channels] of limits.type
    const void *loaded;     // device: from net_load. Host: the fp32 parameters themselves
    device_status *trouble; // the caller clears it before the run and reads it after
    void *memory;           // workspace [bytes], aligned to 256
    size_t bytes;           // at least plan->workspace_bytes
    const net_side *side;   // device plans with limits.overlap: a second stream; else null
    // Null, or where the last layer's features or dense map are written instead of the workspace:
    // a tensor of the caller's, aligned to 16 bytes, of the shape that net_output says.
    void *out;
};

// ---- reading a table or a plan ------------------------------------------------------------------

SPIRA_API status net_fault(const char *what, int layer) {
    return status_make(status_layer, what, layer);
}

SPIRA_API bool net_is_conv(const net_layer *l) {
    return l->op == net_conv;
}

SPIRA_API bool net_is_pool(const net_layer *l) {
    return l->op == net_pool_max || l->op == net_pool_average;
}

// The type of the features of a layer or of net_input.
SPIRA_API numeric net_type_of(const net_plan *p, int layer) {
    return layer < 0 ? p->limits.type : p->step[layer].type;
}

// All that a layer reads.
enum { net_reads_sources = 4, net_reads_residual = net_reads_sources, net_reads_all };

struct net_reads {
    int layer[net_reads_all]; // layers, net_input or net_none: the sources, then the residual
};

SPIRA_API net_reads net_reads_of(const net_layer *l) {
    return {{net_number(l->source), net_number(l->source2), net_number(l->source3),
             net_number(l->source4), net_number(l->residual)}};
}

SPIRA_API int net_source_channels(const net_plan *p, int source) {
    return source == net_input ? p->limits.channels : source < 0 ? 0 : p->step[source].channels;
}

SPIRA_API int net_source_set(const net_plan *p, int source) {
    return source == net_input ? 0 : p->step[source].set;
}

// Whether a layer's features are in the workspace when a run has ended.
SPIRA_API bool net_is_kept(const net_plan *p, int layer) {
    return p->step[layer].fused_into == net_none && p->step[layer].last_use == p->layer_count;
}

// Where a layer's parameters start, in floats: weights, then those of bias, scale and shift that
// the layer has.
struct net_params {
    int64_t weight, bias, scale, shift; // bias, scale, shift: -1 where the layer has none
    int64_t vectors;                    // end of the weights
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

// Set s of a plan; set 0 is the caller's `input`.
template <typename W>
SPIRA_API voxel_set<W> net_voxels(const net_plan *p, int s, voxel_set<W> input, void *memory) {
    voxel_set<W> set = {(W *)((char *)memory + p->set[s].words),
                        (int32_t *)((char *)memory + p->set[s].count), p->set[s].capacity};
    return s == 0 ? input : set;
}

// The features of a source: the network's input, a layer's, or null for net_none.
SPIRA_API const void *net_features_of(const net_plan *p, int source, const void *input,
                                      const void *memory) {
    return source == net_input  ? input
           : source == net_none ? nullptr
                                : (const char *)memory + p->step[source].features;
}

// Where a layer writes its features.
template <typename W>
SPIRA_API void *net_target(const net_plan *p, int layer, const net_run_args<W> *run) {
    const bool given = run->out && layer == p->layer_count - 1;
    return given ? run->out : (char *)run->memory + p->step[layer].features;
}

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
    const int origin[3] = {set->grid.origin.x, set->grid.origin.y, set->grid.origin.z};
    join_args<W> args = {};
    args.words = &p->layout;
    args.sets = set->sources;
    for (int n = 0; n < set->sources; ++n) {
        args.set[n] = net_voxels(p, set->source[n], run->input, run->memory);
    }
    args.axis = set->axis;
    args.at = set->axis == join_axis_none ? 0 : origin[set->axis - join_axis_x];
    args.out = net_voxels(p, s, run->input, run->memory);
    args.rows = net_join_rows(set, run->memory);
    args.trouble = run->trouble;
    return args;
}

// The features of a join, and what they are made of.
template <typename W>
SPIRA_API join_sum_args net_join_sum_args(const net_plan *p, int layer,
                                          const net_run_args<W> *run) {
    const net_step *step = &p->step[layer];
    const net_set *set = &p->set[step->set];
    const voxel_set<W> out = net_voxels(p, step->set, run->input, run->memory);
    const net_reads reads = net_reads_of(&p->layers[layer]);
    join_sum_args args = {};
    for (int r = 0; r < net_reads_sources; ++r) {
        if (reads.layer[r] != net_none) {
            args.capacity[args.sets] = p->set[net_source_set(p, reads.layer[r])].capacity;
            args.in[args.sets++] = net_features_of(p, reads.layer[r], run->features, run->memory);
        }
    }
    args.channels = step->channels;
    args.type = step->type;
    args.rows = net_join_rows(set, run->memory);
    args.count = out.count;
    args.out_capacity = out.capacity;
    args.out = net_target(p, layer, run);
    return args;
}

// A dense output, and what it is made of.
template <typename W>
SPIRA_API dense_args<W> net_dense_args(const net_plan *p, int layer, const net_run_args<W> *run) {
    const net_layer *l = &p->layers[layer];
    const net_step *step = &p->step[layer];
    dense_args<W> args = {};
    args.words = &p->layout;
    args.set = net_voxels(p, step->set, run->input, run->memory);
    args.grid = p->set[step->set].grid;
    args.stride = p->set[step->set].stride;
    args.batch = p->limits.batch;
    args.channels = step->shape.cin;
    args.type = net_type_of(p, net_number(l->source));
    args.features = net_features_of(p, net_number(l->source), run->features, run->memory);
    args.out_type = net_type_of(p, layer);
    args.order = l->order;
    args.out = net_target(p, layer, run);
    args.trouble = run->trouble;
    return args;
}

} // namespace spira

#endif
