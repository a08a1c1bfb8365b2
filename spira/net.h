// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/net.h: a network as a table of layers, planned once and run on every frame.
//
//   net_need        table of layers -> what the coordinate words must hold (word_fit, word.h)
//   net_plan_host   table, word layout, limits -> net_plan, with the bytes of memory to allocate
//   net_run_host    plan, voxels, features, parameters -> features of the layers, on the host
//   net_output      where the features of a layer are after a run, and how many rows they have
//
// On the GPU: net_plan_device, net_load and net_run (net.cuh), with the same plan struct.
//
// A network is an array of net_layer (net_layer.h). Each layer names the layers that it reads,
// which must come before it. Planning derives the coordinate sets and kernel maps, shares those
// that agree, gives every array its place in one workspace, and names the layer at fault where
// something does not fit. A run indexes first (all sets and maps) and then computes the features
// (Spira paper: network-wide indexing). A set that follows from features is made before the first
// layer on it, and with it all sets and maps that are made of it: by the count on the device, so
// that a captured graph grows and prunes as each frame says.
//
// Coordinate sets are nodes of the graph. Each is derived from another one by a rule:
//   floor      net_rule_floor with a stride: all layers at stride 4 share one set
//   expanded   net_rule_expand, the rule of spconv's strided layers: shared by layers with the same
//              source set, kernel size, stride, padding and dilation
//   generated  net_rule_generate: all voxels of a finer stride that a transposed layer reaches, or
//              those in the bounds that its padding says
//   joined     net_join: the union of up to four sets, without one of the axes if wanted
//   pruned     net_prune: the voxels that features choose
//   children   net_children: of half the stride, those that features choose, or all of them
// Layers that choose alike by the same features share a set, too. A layer with stride 1 keeps its
// set, and a transposed one goes back to the finer set, or on to the children. Two sets of one
// stride may differ. The extent of the input (limits.grid) bounds all sets that are expanded.
// Two-dimensional networks have an extent of 1 on the third axis.
//
// Capacities. limits.voxels is the capacity of the input set. The set that a run is given must have
// exactly this capacity (status_bad_size otherwise), and its count on the device may be smaller.
// The capacity of another set is that of the first layer whose set it is. Where that is 0,
//   floor     have the capacity of the set that they are made of, and so have joins of one set
//   expanded  may have more voxels than that: twice limits.voxels, and so have joins of more sets
//   pruned    have the capacity of their source, or `most` for each of limits.batch
//   children, generated  have room for all that there can be: say how many there are
// but no more than their inputs can touch, and than a known extent and batch size hold. (A lidar
// scan grows by a tenth in a strided layer of spconv, isolated voxels grow by up to eight times:
// net_layer.capacity is the place to say so.) A count that exceeds its capacity is clamped and
// recorded in the device status.
//
// int8. A convolution with net_format_i8 reads int8 and sums in int32 (conv_i8.h). What a layer
// writes follows from its readers: int8 if an int8 layer reads it, else floating point; the last
// layer's features are floating point. So features have one format and one scale (net_layer.range),
// and conversions are in epilogues alone. A residual and a dense map's source may be of either
// format; pooling has its source's. net_formats_i8 makes a table int8, but for the first layers.
// Shortcuts of int8 layers with more than 64 channels on one side are fused, on the host as on
// every GPU: net_limits.shortcuts and keep_all change the last bits, the machine does not. The
// steps of int8 layers are parameters: net_params_steps or net_blob_read fills them.
//
// Results. Features of a layer stay in the workspace until the next run if the layer has `keep`, if
// the limits have keep_all, or if it is the last layer. Other features share memory: what is found
// there after a run is unspecified. net_output says where the features of a kept layer are, of how
// many channels, and of which voxel set. The number of rows is the set's count: one int32_t in
// memory of the same side. The host may copy it back after the run, or later kernels read it.
#ifndef SPIRA_NET_H
#define SPIRA_NET_H

#include "net/host.h"
#include "net/place.h"
#include "net/planning.h"
#include "net_plan.h"

namespace spira {

// Computes what a network needs of the word layout.
//
// inputs   layers [count]
//          limits: grid and stride are read
//          need: lo and hi, the bounds of the input voxels. On axes with an extent they are not
//          read: the bounds are those of the extent
// outputs  need: lo and hi, widened by the voxels that dilating layers add; stride, divisible by
//          all strides of the network; reach. The caller fills the number of batches
// errors   status_layer with the layer at fault; status_stride where there is no common stride up
//          to 2^20
SPIRA_API status net_need(const net_layer *layers, int count, const net_limits *limits,
                          word_need *need) {
    SPIRA_REQUIRE(limits, status_null_pointer, "limits", 0);
    SPIRA_REQUIRE(need, status_null_pointer, "need", 0);
    net_limits own = {};
    own.voxels = own.channels = 1;
    own.grid = limits->grid;
    own.stride = limits->stride;
    net_plan plan;
    SPIRA_TRY(net_plan_begin(layers, count, &own, false, &plan));
    for (int i = 0; i < count; ++i) {
        SPIRA_TRY(net_plan_index(&plan, i));
    }
    SPIRA_TRY(net_common_stride(&plan, &need->stride));
    need->reach = triple_make(0, 0, 0);
    for (int m = 0; m < plan.maps; ++m) {
        need->reach = triple_max(need->reach, kernel_reach(&plan.map[m].kernel));
    }
    return net_need_bounds(&plan, need);
}

// The same for an input of stride 1.
SPIRA_API status net_need(const net_layer *layers, int count, const expand_grid *grid,
                          word_need *need) {
    SPIRA_REQUIRE(grid, status_null_pointer, "grid", 0);
    net_limits limits = {};
    limits.grid = *grid;
    return net_need(layers, count, &limits, need);
}

// And without an extent. Networks without dilating layers (net_rule_expand) leave lo and hi as
// they are: the caller may fill them afterwards.
SPIRA_API status net_need(const net_layer *layers, int count, word_need *need) {
    const expand_grid unlimited = {};
    return net_need(layers, count, &unlimited, need);
}

// Gives the layers of a network the capacities of their sets.
//
// inputs   plan: of these layers, by any planner, with any capacities
//          capacity [plan->sets]: of each set; entry 0 is not read (limits.voxels)
// outputs  layers: their members `capacity`
SPIRA_API void net_capacities(const net_plan *plan, const int32_t *capacity, net_layer *layers) {
    for (int i = 0; i < plan->layer_count; ++i) {
        layers[i].capacity = plan->step[i].set ? capacity[plan->step[i].set] : 0;
    }
}

// Names the first layer with weights that its format cannot hold (status_layer). trouble
// [plan->layer_count]: a copy of what net_load has recorded.
SPIRA_API status net_load_read(const net_plan *plan, const device_status *trouble) {
    SPIRA_REQUIRE(plan, status_null_pointer, "plan", 0);
    SPIRA_REQUIRE(trouble, status_null_pointer, "trouble", 0);
    for (int i = 0; i < plan->layer_count; ++i) {
        if (status_failed(device_status_read(&trouble[i]))) {
            return net_fault("weight (infinite, or too large for the format)", i);
        }
    }
    return status_success();
}

// The same of parameters in host memory, by any plan.
SPIRA_API status net_params_check(const net_plan *plan, const float *params) {
    SPIRA_REQUIRE(plan, status_null_pointer, "plan", 0);
    SPIRA_TRY(pointer_check(params, sizeof *params, "params"));
    device_status trouble[net_layers_max] = {};
    for (int i = 0; i < plan->layer_count; ++i) {
        const net_params at = net_params_of(plan, i);
        if (at.weight >= 0) {
            SPIRA_TRY(conv_weights_check(&plan->step[i].shape, params + at.weight, &trouble[i]));
        }
        for (int c = 0; at.step >= 0 && c < plan->step[i].shape.cout; ++c) {
            if (!numeric_scale_good(params[at.step + c], true)) {
                return net_fault("step (no positive number: see net_params_steps)", i);
            }
        }
    }
    return net_load_read(plan, trouble);
}

// Computes the steps of the int8 layers from their weights (conv_i8_steps_host), in host memory.
//
// inputs   plan: by any planner; params [plan->params]
// outputs  params: of each int8 layer its steps, from net_params.step on
// errors   null pointers; status_layer: weights that are not finite
SPIRA_API status net_params_steps(const net_plan *plan, float *params) {
    SPIRA_REQUIRE(plan, status_null_pointer, "plan", 0);
    SPIRA_TRY(pointer_check(params, sizeof *params, "params"));
    for (int i = 0; i < plan->layer_count; ++i) {
        const net_params at = net_params_of(plan, i);
        if (at.step >= 0) {
            const conv_i8_weights weights = net_i8_weights(plan, i, params + at.weight);
            const status s = conv_i8_steps_host(&weights, nullptr, params + at.step);
            SPIRA_TRY(status_failed(s) ? net_fault(s, i) : s);
        }
    }
    return status_success();
}

// Plans a network for the host loops, in fp32 and, where layers say so, int8.
//
// inputs   layers [count]: must outlive the plan; layout: fitted to net_need and the scene
// outputs  plan: plain data. A run needs plan->workspace_bytes of memory and plan->params floats of
//          parameters, in the order of net_params_of
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
    plan->layout = *layout;
    size_t scratch = 0;
    SPIRA_TRY(net_scratch_host<W>(plan, &scratch));
    SPIRA_TRY(net_plan_place(layout, scratch, 0, plan));
    return net_check_strides<W>(plan);
}

// Runs a planned network on the host: index, then features.
//
// inputs   run: see net_run_args; its pointers are host memory
// outputs  the features of kept layers (net_output); *run->trouble
// errors   null pointers, sizes, alignment, a workspace that is too small; another capacity of the
//          input than the planned one; a device plan
template <typename W>
SPIRA_API status net_run_host(const net_plan *plan, const net_run_args<W> *run) {
    SPIRA_TRY(net_run_check(plan, false, run));
    SPIRA_TRY(net_features_check(run->features, plan->input_type, run->loaded, sizeof(float)));
    SPIRA_TRY(net_index_host(plan, run));
    for (int i = 0; i < plan->layer_count; ++i) {
        SPIRA_TRY(net_layer_run_host(plan, i, run));
    }
    return status_success();
}

// The features of a layer after a run.
template <typename W>
struct net_result {
    // Voxels of the rows: words, count [1], capacity. The coordinates of index i of an axis are
    // grid.origin + i * stride. Dense outputs: the voxels that are in the map.
    voxel_set<W> set;
    expand_grid grid;
    triple stride;
    void *features; // [set.capacity, channels], the first *set.count rows valid. Dense outputs:
                    // [batch, channels, height, width] or [batch, height, width, channels]
                    // (dense.h). Null if the plan does not keep the layer
    numeric type;   // of the features
    float scale;    // of int8 features, whose values are element * scale; else 1
    int channels;   // dense outputs: those of the features times the depth
    int batch, height, width; // dense outputs; else 0
};

// Returns where a run leaves the features of a layer. Reads no memory: it may be called before the
// run. The last layer is plan->layer_count - 1.
template <typename W>
SPIRA_API net_result<W> net_output(const net_plan *plan, int layer, const net_run_args<W> *run) {
    const net_step *step = &plan->step[layer];
    const bool dense = plan->layers[layer].op == net_dense;
    net_result<W> r;
    r.set = net_voxels(plan, step->set, run->input, run->memory);
    r.grid = plan->set[step->set].grid;
    r.stride = plan->set[step->set].stride;
    r.features = net_is_kept(plan, layer) ? net_target(plan, layer, run) : nullptr;
    r.type = net_type_of(plan, layer);
    r.scale = net_scale_of(plan, layer);
    r.channels = step->channels;
    r.batch = dense ? plan->limits.batch : 0;
    r.height = dense ? r.grid.extent.y : 0;
    r.width = dense ? r.grid.extent.x : 0;
    return r;
}

} // namespace spira

#endif
