// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/net.cuh: a planned network on the GPU, inside the caller's stream or CUDA graph.
//
//   device_info_query  once
//   net_need, word_fit a word layout for the network and the scene (net.h, word.h)
//   net_plan_device    once: sizes of all memory; allocate workspace_bytes and loaded_bytes
//   net_load           once: packs the parameters. net_load_read (net.h) says which layer has
//                      weights that its format cannot hold
//   net_run            for each frame: index, then features. May be captured in a graph
//   net_output         where the features of a layer are, and how many rows they have (net.h)
//
// What net.h says of capacities and results holds here too. A device plan has the layout of a map
// that convolutions read; the map itself stays only where pooling reads it. Shortcuts of residual
// blocks are fused into the layer that adds them where its kernel can compute them (net_shortcuts).
//
// A plan belongs to the GPU model that it was made for; others are refused by name. With a
// `format`, functions compile code for it alone and refuse plans of another type. numeric_any: all
// four. numeric_i8: networks with int8 layers, whose others are fp16 (limits.type);
// net_i8_beside(numeric_bf16), or fp32 or tf32: those whose others are that.
#ifndef SPIRA_NET_CUH
#define SPIRA_NET_CUH

#include "net.h"
#include "net/index.cuh"
#include "net/layers.cuh"
#include "net/overlap.cuh"
#include "net/records.cuh"

namespace spira {

// Plans a network for a GPU model.
//
// As net_plan_host; loading needs plan->loaded_bytes of device memory. Refuses a record out of its
// ranges.
//
// shortcut The sum of a fused shortcut is not rounded before it is added (conv): limits->shortcuts
//          changes the last bits of a network
// records  Each convolution looks up its deterministic record in limits->records, by the capacity
//          of its outputs and net_layer.pairs, and takes the choice into its step. A record is
//          ignored if it is of another dataflow than output-stationary, or if this binary cannot
//          compute the layer so on the device (tune_choice_fits). Layers without a record are
//          chosen for by conv
template <typename W>
SPIRA_API status net_plan_device(const device_info *gpu, const net_layer *layers, int count,
                                 const word_layout *layout, const net_limits *limits,
                                 net_plan *plan) {
    SPIRA_REQUIRE(gpu, status_null_pointer, "gpu", 0);
    SPIRA_TRY(word_check<W>(layout));
    SPIRA_TRY(net_plan_sets(layers, count, limits, true, plan));
    plan->gpu = *gpu;
    plan->layout = *layout;
    net_plan_shortcuts(plan, gpu);
    SPIRA_TRY(net_plan_choices(limits, gpu, plan));
    size_t scratch = 0, fine_scratch = 0;
    SPIRA_TRY(net_scratch<W>(plan, net_part_all, &scratch));
    if (limits->overlap) {
        SPIRA_TRY(net_scratch<W>(plan, net_part_coarse, &scratch)); // other groups of maps
        SPIRA_TRY(net_scratch<W>(plan, net_part_fine, &fine_scratch));
    }
    for (int stage = 1; stage <= plan->stages; ++stage) {
        SPIRA_TRY(net_scratch<W>(plan, net_part_of(stage), &scratch));
    }
    for (int i = 0; i < count; ++i) {
        size_t bytes = 0;
        SPIRA_TRY(net_op_call(layers[i].op,
                              [&](auto op) { return net_op_scratch<W>(op, plan, i, &bytes); }));
        scratch = scratch < bytes ? bytes : scratch;
    }
    SPIRA_TRY(net_plan_place(layout, scratch, fine_scratch, plan));
    SPIRA_TRY(net_check_strides<W>(plan));
    return net_place_loaded(plan);
}

// The plan is for this GPU model.
SPIRA_API status net_plan_gpu_check(const device_info *gpu, const net_plan *p) {
    SPIRA_REQUIRE(gpu, status_null_pointer, "gpu", 0);
    SPIRA_REQUIRE(p, status_null_pointer, "plan", 0);
    SPIRA_REQUIRE(p->device, status_unsupported, "plan (made for the host)", 0);
    SPIRA_REQUIRE(device_info_equal(gpu, &p->gpu), status_unsupported,
                  "plan (made for another GPU model)", p->gpu.capability);
    return status_success();
}

// And for the format that the caller is compiled for.
template <numeric format>
SPIRA_API status net_plan_check(const device_info *gpu, const net_plan *p) {
    SPIRA_TRY(net_plan_gpu_check(gpu, p));
    SPIRA_REQUIRE(format == numeric_any || p->limits.type == net_float<format>, status_unsupported,
                  "plan (of another type than the function is compiled for)", p->limits.type);
    for (int i = 0; i < p->layer_count; ++i) {
        const numeric type = p->step[i].type;
        const bool i8 = type == numeric_i8 || net_is_i8(&p->layers[i]);
        if (i8 && !net_has_i8(format)) {
            return net_fault("format (int8: of a function that is compiled for numeric_i8)", i);
        }
        if (format != numeric_any && !i8 && type != net_float<format> &&
            p->layers[i].op != net_dense) {
            return net_fault("format (not the one that the function is compiled for)", i);
        }
    }
    return status_success();
}

// Copies bias, scale and shift of one layer, and packs its weights.
template <numeric format>
SPIRA_API status net_load_layer(const net_plan *p, int layer, const net_load_args *args,
                                cudaStream_t stream) {
    const net_step *step = &p->step[layer];
    const net_params at = net_params_of(p, layer);
    if (at.end == step->params) {
        return status_success();
    }
    char *loaded = (char *)args->loaded;
    const conv_weights weights = {args->params + step->params, loaded + step->packed,
                                  step->vectors - step->packed,
                                  args->trouble ? args->trouble + layer : nullptr};
    SPIRA_TRY(status_from_cuda(cudaMemcpyAsync(loaded + step->vectors, args->params + at.vectors,
                                               (size_t)(at.end - at.vectors) * sizeof(float),
                                               cudaMemcpyDeviceToDevice, stream),
                               "net_load"));
    return net_op_call(p->layers[layer].op, [&](auto op) {
        return net_op_pack<format>(op, p, layer, &weights, stream);
    });
}

// Packs a network's parameters for the GPU, once.
//
// outputs  args->loaded. Another plan of the same table, type and GPU model, of any capacities, can
//          run with it if it fuses the same shortcuts (net_step.fused_into); args->trouble
// errors   null pointers, alignment, bytes; a plan of the host, of another GPU model or type
// Asynchronous.
template <numeric format = numeric_any>
SPIRA_API status net_load(const device_info *gpu, const net_plan *plan, const net_load_args *args,
                          cudaStream_t stream) {
    SPIRA_TRY(net_plan_check<format>(gpu, plan));
    SPIRA_REQUIRE(args, status_null_pointer, "args", 0);
    SPIRA_TRY(pointer_check(args->params, sizeof(float), "params"));
    SPIRA_TRY(workspace_check(args->loaded, args->bytes, plan->loaded_bytes, "loaded"));
    if (args->trouble) {
        SPIRA_TRY(pointer_check(args->trouble, alignof(device_status), "trouble"));
    }
    SPIRA_TRY(kernel_launch(net_tag_kernel<0>, {1, 1, stream, "net_load"}, net_load_tag(plan),
                            (conv_weights_tag *)args->loaded));
    for (int i = 0; i < plan->layer_count; ++i) {
        SPIRA_TRY(net_load_layer<format>(plan, i, args, stream));
    }
    return status_success();
}

// Checks loaded parameters that were stored: they are of this version of spira, of the plan's GPU
// model and of a network with the same layers and int8 scales, or are refused by name.
//
// inputs   loaded [bytes]: a copy in host memory of what net_load has written
// errors   null pointers; bytes; status_layer for a layer that is another one
SPIRA_API status net_load_stored(const net_plan *plan, const void *loaded, size_t bytes) {
    SPIRA_REQUIRE(plan, status_null_pointer, "plan", 0);
    SPIRA_REQUIRE(loaded, status_null_pointer, "loaded", 0);
    SPIRA_REQUIRE(plan->device, status_unsupported, "plan (made for the host)", 0);
    const conv_weights_tag front = net_load_tag(plan);
    SPIRA_REQUIRE(bytes >= sizeof front, status_file_format, "loaded (cut short)", bytes);
    SPIRA_TRY(conv_weights_tag_check(&front, loaded, sizeof front));
    SPIRA_REQUIRE(bytes == plan->loaded_bytes, status_unsupported, "loaded (of another network)",
                  bytes);
    for (int i = 0; i < plan->layer_count; ++i) {
        const net_op op = plan->layers[i].op;
        size_t own = 0;
        SPIRA_TRY(net_op_call(op, [&](auto o) { return net_op_packed_bytes(o, plan, i, &own); }));
        const conv_weights_tag wanted =
            net_op_call(op, [&](auto o) { return net_op_packed_tag(o, plan, i); });
        const char *packed = (const char *)loaded + plan->step[i].packed;
        if (own && status_failed(conv_weights_tag_check(&wanted, packed, own))) {
            return net_fault("loaded (of another layer)", i);
        }
    }
    return status_success();
}

// Builds all coordinate sets and kernel maps of a plan (Spira paper: network-wide indexing), but
// those that follow from features: the first half of net_run, for callers that time the halves.
//
// inputs   run: see net_run_args; features, loaded and side are not read
// outputs  sets, layouts and, with limits.count_pairs, pair counts, in run->memory; run->trouble:
//          counts that exceed a capacity, coordinates that are not multiples of their stride.
//          Overwrites the features of an earlier run
// Asynchronous, deterministic.
template <typename W>
SPIRA_API status net_index(const device_info *gpu, const net_plan *plan, const net_run_args<W> *run,
                           cudaStream_t stream) {
    SPIRA_TRY(net_plan_gpu_check(gpu, plan));
    SPIRA_TRY(net_run_check(plan, true, run));
    return net_index_part(plan, net_part_all, run, stream);
}

// Computes one layer after net_index and the layers in front of it. A layer whose set follows from
// features makes that set first, and what is made of it. A fused layer is computed by the layer
// that adds it: nothing is launched.
//
// inputs   run: see net_run_args; side is not read
template <typename W, numeric format = numeric_any>
SPIRA_API status net_layer_run(const device_info *gpu, const net_plan *plan, int layer,
                               const net_run_args<W> *run, cudaStream_t stream) {
    SPIRA_TRY(net_plan_check<format>(gpu, plan));
    SPIRA_TRY(net_run_check(plan, true, run));
    SPIRA_TRY(
        net_features_check(run->features, plan->input_type, run->loaded, workspace_alignment));
    SPIRA_REQUIRE(layer >= 0 && layer < plan->layer_count, status_bad_size, "layer", layer);
    const net_launch<W> a = {plan, layer, run, false, stream};
    return net_layer_start<format>(&a);
}

// Runs a planned network: index, then features.
//
// inputs   run: see net_run_args. With run->side the coarse part of the index is launched on the
//          second stream and the rest on `stream`, which waits for it: a captured graph has two
//          branches
// outputs  the features of kept layers: see net_output; *run->trouble. All of it is done when
//          `stream` is
// errors   those of net_run_host and net_load, and a side without limits.overlap: before the first
//          launch. After later failures the work that was launched stays, and both streams are
//          joined
// Asynchronous; deterministic, and bit-identical with and without `side`; allocates nothing, reads
// nothing back. Captured in a CUDA graph, it replays on every frame that fits the capacities.
template <typename W, numeric format = numeric_any>
SPIRA_API status net_run(const device_info *gpu, const net_plan *plan, const net_run_args<W> *run,
                         cudaStream_t stream) {
    SPIRA_TRY(net_plan_check<format>(gpu, plan));
    SPIRA_TRY(net_run_check(plan, true, run));
    SPIRA_TRY(
        net_features_check(run->features, plan->input_type, run->loaded, workspace_alignment));
    int first = 0;
    if (run->side) {
        SPIRA_TRY(net_side_check(plan, run->side));
        SPIRA_TRY(net_run_overlapped<W, format>(plan, run, &first, stream));
    } else {
        SPIRA_TRY(net_index_part(plan, net_part_all, run, stream));
    }
    return net_layers_start<format>(plan, first, plan->layer_count, run, stream);
}

} // namespace spira

#endif
