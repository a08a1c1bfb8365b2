// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/net_plan.h: what planning makes of a table of layers, and the arguments of a run. net.h
// says how they are used; the files of net/ fill and read them.
#ifndef SPIRA_NET_PLAN_H
#define SPIRA_NET_PLAN_H

#include "map.h"
#include "net_layer.h"

namespace spira {

// How a set is derived from others.
enum net_derivation : int {
    net_set_given,    // set 0
    net_set_floor,    // floored to `stride`, from `base` or from a set between the two
    net_set_expanded, // by spconv's rule
    net_set_joined,   // the union of `source`, without an axis
    net_set_pruned,   // the voxels of `parent` that scores choose
    net_set_children, // children of half the stride of `parent`: those that scores choose, or all
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
    // pruned, children: of the layer
    int scores; // its source2
    float threshold;
    bool or_equal;
    int channel;
    int32_t most;
    int stage; // 0: made at the start of a run; else see net_step.opens
    int32_t capacity;
    size_t words, count; // bytes from the start of the workspace; set 0 belongs to the caller
    size_t begin;        // joined: of join_rows
    size_t order;        // joined: of join_rows; pruned, children: the source rows [capacity]
};

struct net_map {
    int source, outputs; // sets
    kernel_shape kernel;
    int volume;
    bool kept;      // pooling and the host read the map itself
    bool ordered;   // some convolution reads it: the ordered layout is built (device plans)
    int stage;      // the later one of its sets'
    size_t map;     // [capacity, volume] if net_map_written; temporary unless `kept`
    size_t compact; // compact form if net_map_is_compact; temporary
    size_t order;   // ordered layout
    size_t pairs;   // [volume], with count_pairs
};

struct net_step {
    int map; // or net_none: the identity
    int source_set, set;
    int opens; // stage whose index is built before the layer, as its set follows from features:
               // that set, all that are made of it, and their maps. 0: none
    conv_shape shape; // others than convolutions: volume and channels
    int channels;     // of the output; dense outputs: channels * depth
    numeric type;     // of the output
    float scale;      // of an int8 output: range / 127; else 0
    size_t features;  // bytes from the start of the workspace
    size_t feature_bytes;
    int last_use;   // last layer that reads the features; layer_count: they are kept
    int shortcut;   // layer that is fused into this one as its shortcut, or net_none
    int fused_into; // layer that this one is fused into, or net_none; a fused layer has no features
    int64_t params; // floats from the start of the parameters: weight, bias, scale, shift
    // Device plans only.
    size_t packed, vectors; // bytes from the start of the loaded parameters: packed weights; bias,
                            // scale and shift, of a grouped layer its plain weights before them
    tune_choice choice;     // of the layer's record; all zero: chosen by conv
};

// Plain data; it points to the caller's table of layers only.
struct net_plan {
    const net_layer *layers; // [layer_count], the caller's
    int layer_count;
    net_limits limits;
    word_layout layout;
    numeric input_type; // of the network's input: limits.type, or int8
    float input_scale;  // of int8; else 0
    int sets, maps, stages;
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

// Where a layer's parameters start, in floats. -1: it has none of the kind.
struct net_params {
    int64_t weight, bias, scale, shift;
    int64_t step;    // int8 convolutions: of conv_quantisation (net_params_steps fills it)
    int64_t vectors; // what is loaded as it is: from the end of the weights on, of grouped layers
                     // from their start
    int64_t end;
};

// ---- loading and running ------------------------------------------------------------------------

// What net_load packs, once for a plan. Arrays are device memory.
struct net_load_args {
    const float *params;    // [plan->params] fp32, in the order of net_params_of
    void *loaded;           // [plan->loaded_bytes], aligned to 256
    size_t bytes;           // of loaded
    device_status *trouble; // [plan->layer_count], or null: of each layer, a weight that its format
                            // cannot hold (conv_weights). Clear it before, and give a copy to
                            // net_load_read
};

#ifdef __CUDACC__
// A second stream of the caller's, and events for it (cudaEventDisableTiming is enough). Stream and
// events belong to the device of the run and are used for nothing else while net_run is called.
// They may be destroyed after a capture, and after other calls when the work is done.
struct net_side {
    cudaStream_t stream; // not the stream of the run: the parts would not overlap
    cudaEvent_t begun;   // net_run records it where the second stream starts
    cudaEvent_t indexed; // and where it ends
    // Null, or an event that the caller has recorded, on either stream or another one, behind the
    // work that produces the features. The layers wait for it; the index does not. Record it anew
    // for each run: an event that a capture recorded is refused outside of that capture.
    cudaEvent_t features;
};
#else
struct net_side;
#endif

// One run of a plan. Fill it by name. On the device all pointers but `side` are device memory.
template <typename W>
struct net_run_args {
    voxel_set<W> input;     // set 0. Its capacity must equal limits.voxels
    const void *features;   // [capacity, limits.channels] of plan->input_type
    const void *loaded;     // device: from net_load. Host: the fp32 parameters themselves
    device_status *trouble; // the caller clears it before the run and reads it after
    void *memory;           // workspace [bytes], aligned to 256
    size_t bytes;           // at least plan->workspace_bytes
    const net_side *side;   // device plans with limits.overlap: a second stream; else null
    // Null, or where the last layer's features or dense map are written instead of the workspace:
    // a tensor of the caller's, aligned to 16 bytes, of the shape that net_output says.
    void *out;
};

} // namespace spira

#endif
