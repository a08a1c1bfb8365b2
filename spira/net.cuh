// spira/net.cuh: a planned network on the GPU, inside the caller's stream or CUDA graph.
#ifndef SPIRA_NET_CUH
#define SPIRA_NET_CUH

#include "conv/tune_fit.cuh"
#include "downsample.cuh"
#include "layout/order.cuh"
#include "layout/tile.cuh"
#include "map.cuh"
#include "net.h"
#include "pool.cuh"

namespace spira {

// Which layouts of its maps a network's convolutions read.
SPIRA_API void net_plan_forms(net_plan *p, const device_info *device) {
    for (int i = 0; i < p->layer_count; ++i) {
        const net_step *step = &p->step[i];
        if (net_is_conv(&p->layers[i]) && step->map != net_none) {
            net_map *map = &p->map[step->map];
            bool ordered =
                conv_kernel_form(conv_kernel_of(&step->shape, device)) == conv_form_order;
            map->ordered |= ordered;
            map->tiled |= !ordered;
        }
    }
}

// Which layers are computed with their shortcuts.
SPIRA_API void net_plan_shortcuts(net_plan *p, const device_info *device) {
    for (int i = 0; i < p->layer_count; ++i) {
        const int shortcut = net_find_shortcut(p, i);
        if (shortcut != net_none && conv_shortcut_takes(&p->step[i].shape, device)) {
            net_join_shortcut(p, i, shortcut);
        }
    }
}

// Bytes of a layer's packed weights.
SPIRA_API size_t net_weights_bytes(const net_plan *p, int layer, const device_info *device) {
    const net_step *step = &p->step[layer];
    const conv_shape *s = &step->shape;
    return step->fused_into == net_none
               ? conv_packed_bytes(s, conv_kernel_of(s, device))
               : conv_shortcut_packed(&p->step[step->fused_into].shape, s->cin, s->cin2);
}

// What the record of a convolution says, if there is one that fits the device. Plans are
// deterministic, and so are the records that are looked up.
SPIRA_API status net_plan_record(const net_limits *limits, const device_info *device, int layer,
                                 net_plan *p) {
    net_step *step = &p->step[layer];
    const int64_t outputs = p->set[step->set].capacity;
    const int64_t pairs = step->map == net_none ? outputs : limits->map_pairs[step->map];
    tune_key key = tune_key_make(tune_gpu_of(device), &step->shape, outputs, pairs, true);
    key.density = pairs ? key.density : 0;
    const tune_record *record = tune_find(limits->records, limits->record_count, &key);
    if (!record) {
        return status_success();
    }
    SPIRA_TRY(tune_record_check(record));
    // Networks are output-stationary.
    if (record->choice.dataflow == tune_dataflow_os &&
        tune_choice_fits(&step->shape, device, &record->choice)) {
        step->choice = record->choice;
    }
    return status_success();
}

// The tiles of a map have the rows that one of its records says: that of the layer with the most
// products. Records that want others are left alone.
SPIRA_API void net_plan_rows(net_plan *p) {
    int64_t products[net_maps_max] = {};
    for (int i = 0; i < p->layer_count; ++i) {
        const net_step *step = &p->step[i];
        const conv_shape *s = &step->shape;
        const int64_t own = (int64_t)(s->cin + s->cin2) * s->cout;
        if (step->choice.rows && step->map != net_none && own > products[step->map]) {
            products[step->map] = own;
            p->map[step->map].rows = step->choice.rows;
        }
    }
    for (int i = 0; i < p->layer_count; ++i) {
        net_step *step = &p->step[i];
        int rows = step->map == net_none ? tile_rows(1) : p->map[step->map].rows;
        if (step->choice.rows && step->choice.rows != rows) {
            step->choice = {};
        }
    }
}

// How the convolutions of a network are cut, by the records of its limits.
SPIRA_API status net_plan_choices(const net_limits *limits, const device_info *device,
                                  net_plan *p) {
    for (int i = 0; i < p->layer_count; ++i) {
        if (net_is_conv(&p->layers[i])) {
            SPIRA_TRY(net_plan_record(limits, device, i, p));
        }
    }
    net_plan_rows(p);
    return status_success();
}

// The ordered layouts of a part, up to 16 from map `first` on. Returns how many there are; first:
// where to go on.
template <typename W>
SPIRA_API int net_orders(const net_plan *p, net_part part, voxel_set<W> input, void *memory,
                         int *first, order_request *request) {
    int count = 0;
    for (; *first < p->maps && count < order_maps_max; ++*first) {
        const net_map *map = &p->map[*first];
        if (map->ordered && net_map_in(map, part)) {
            voxel_set<W> outputs = net_voxels(p, map->outputs, input, memory);
            request[count++] = {map->kernel,
                                map_all,
                                (const int32_t *)((char *)memory + map->map),
                                outputs.count,
                                outputs.capacity,
                                net_order(p, map, memory),
                                net_slabs(p, map, memory)};
        }
    }
    return count;
}

// Raises `scratch` to the bytes that a part of the index needs.
template <typename W>
SPIRA_API status net_scratch(const net_plan *p, net_part part, size_t *scratch) {
    voxel_set<W> input = {nullptr, nullptr, p->set[0].capacity};
    order_request request[order_maps_max];
    for (int s = 1; s < p->sets && part != net_part_fine; ++s) {
        size_t bytes;
        voxel_set<W> from = {nullptr, nullptr, p->set[p->set[s].parent].capacity};
        SPIRA_TRY(downsample_workspace(from, p->set[s].capacity, &bytes));
        *scratch = *scratch < bytes ? bytes : *scratch;
    }
    int first = 0;
    while (int count = net_orders(p, part, input, nullptr, &first, request)) {
        size_t bytes;
        SPIRA_TRY(order_workspace(request, count, &bytes));
        *scratch = *scratch < bytes ? bytes : *scratch;
    }
    return status_success();
}

// Plans a network for the current device.
//
// inputs   layers [count]: must outlive the plan; layout: fitted to net_need and the scene
// outputs  plan: plain data; running needs workspace_bytes, loading loaded_bytes of device memory
// errors   status_layer with the layer at fault; sizes; a stride or a kernel that the layout was
//          not fitted to; a record that is looked up and not in its ranges
// shortcut A layer that is computed within another, by limits->shortcuts, is not rounded on its way
//          (conv): the last bits of a network depend on it
// records  Each convolution looks up its deterministic record in limits->records: outputs are those
//          of the capacity, pairs those of limits->map_pairs. What it says is in the step's
//          `choice`, and in the rows of its map's tiles. A record is left alone if this program
//          cannot compute the layer so on the device (tune_choice_fits), or if its map has tiles of
//          other rows: those of the record of the layer with the most products; so is a record of
//          another dataflow, since networks are output-stationary. Without one the rules choose
template <typename W>
SPIRA_API status net_plan_device(const net_layer *layers, int count, const word_layout *layout,
                                 const net_limits *limits, net_plan *plan) {
    SPIRA_TRY(word_check<W>(layout));
    SPIRA_TRY(net_plan_sets(layers, count, limits, true, plan));
    device_info device;
    SPIRA_TRY(device_info_query(&device));
    net_plan_forms(plan, &device);
    net_plan_shortcuts(plan, &device);
    SPIRA_TRY(net_plan_choices(limits, &device, plan));
    size_t scratch = 0, fine_scratch = 0;
    SPIRA_TRY(net_scratch<W>(plan, net_part_all, &scratch));
    if (limits->overlap) {
        SPIRA_TRY(net_scratch<W>(plan, net_part_coarse, &scratch)); // in other groups of 16
        SPIRA_TRY(net_scratch<W>(plan, net_part_fine, &fine_scratch));
    }
    SPIRA_TRY(net_plan_place(layout, scratch, fine_scratch, plan));
    SPIRA_TRY(net_check_strides<W>(plan));
    workspace w = workspace_begin(nullptr);
    for (int i = 0; i < count; ++i) {
        if (net_is_conv(&layers[i])) {
            size_t bytes = net_weights_bytes(plan, i, &device);
            plan->step[i].packed = net_take<char>(&w, (int64_t)bytes);
            net_params at = net_params_of(plan, i);
            net_take<float>(&w, at.end - at.vectors); // bias, scale, shift follow the weights
        }
    }
    plan->loaded_bytes = w.used;
    return status_success();
}

// The loaded bias, scale and shift of a layer, which lie one behind the other; null: it has none.
struct net_vectors {
    const float *begin, *bias, *scale, *shift;
};

SPIRA_API status net_vectors_of(const net_plan *p, int layer, const void *loaded, net_vectors *v) {
    device_info device;
    SPIRA_TRY(device_info_query(&device));
    const int64_t bytes = (int64_t)net_weights_bytes(p, layer, &device);
    const net_params at = net_params_of(p, layer);
    v->begin = (const float *)((const char *)loaded + p->step[layer].packed +
                               round_up(bytes, workspace_alignment));
    v->bias = at.bias < 0 ? nullptr : v->begin + (at.bias - at.vectors);
    v->scale = at.scale < 0 ? nullptr : v->begin + (at.scale - at.vectors);
    v->shift = at.shift < 0 ? nullptr : v->begin + (at.shift - at.vectors);
    return status_success();
}

SPIRA_API status net_load_weights(const net_plan *p, int layer, const float *weight, void *loaded,
                                  cudaStream_t stream) {
    const net_step *step = &p->step[layer];
    void *packed = (char *)loaded + step->packed;
    device_info device;
    SPIRA_TRY(device_info_query(&device));
    const size_t bytes = net_weights_bytes(p, layer, &device);
    return step->fused_into == net_none
               ? conv_weights_pack(&step->shape, weight, packed, bytes, stream)
               : conv_shortcut_pack(&p->step[step->fused_into].shape, step->shape.cin,
                                    step->shape.cin2, weight, packed, bytes, stream);
}

// Packs a network's parameters for the device, once.
//
// inputs   params [plan->params] fp32 in device memory: see net_params
// outputs  loaded: plan->loaded_bytes, aligned to 256. Another plan of the same table and type may
//          run with it if it computes the same layers within others (net_step.fused_into)
SPIRA_API status net_load(const net_plan *p, const float *params, void *loaded, size_t loaded_bytes,
                          cudaStream_t stream) {
    SPIRA_REQUIRE(p, status_null_pointer, "plan", 0);
    SPIRA_REQUIRE(p->device, status_unsupported, "plan (made for the host)", 0);
    SPIRA_REQUIRE(params, status_null_pointer, "params", 0);
    SPIRA_TRY(workspace_check(loaded, loaded_bytes, p->loaded_bytes));
    for (int i = 0; i < p->layer_count; ++i) {
        if (!net_is_conv(&p->layers[i])) {
            continue;
        }
        net_vectors vectors;
        net_params at = net_params_of(p, i);
        SPIRA_TRY(net_load_weights(p, i, params + at.weight, loaded, stream));
        SPIRA_TRY(net_vectors_of(p, i, loaded, &vectors));
        SPIRA_TRY(status_from_cuda(cudaMemcpyAsync((void *)vectors.begin, params + at.vectors,
                                                   (size_t)(at.end - at.vectors) * sizeof(float),
                                                   cudaMemcpyDeviceToDevice, stream),
                                   "net_load"));
    }
    return status_success();
}

// All sets but the first.
template <typename W>
SPIRA_API status net_index_sets(const net_plan *p, voxel_set<W> input, device_status *trouble,
                                void *memory, cudaStream_t stream) {
    for (int s = 1; s < p->sets; ++s) {
        int from = p->set[s].parent;
        SPIRA_TRY(downsample_from(&p->layout, net_voxels(p, from, input, memory),
                                  p->set[from].stride, p->set[s].stride,
                                  net_voxels(p, s, input, memory), trouble,
                                  (char *)memory + p->scratch, p->scratch_bytes, stream));
    }
    return status_success();
}

// The maps of a part, and the tiled layouts that the search writes.
template <typename W>
SPIRA_API status net_index_maps(const net_plan *p, net_part part, voxel_set<W> input,
                                device_status *trouble, void *memory, cudaStream_t stream) {
    map_request<W> request[net_maps_max] = {};
    int count = 0;
    for (int m = 0; m < p->maps; ++m) {
        const net_map *map = &p->map[m];
        if (!net_map_in(map, part)) {
            continue;
        }
        map_request<W> *r = &request[count++];
        r->kernel = map->kernel;
        r->source = net_voxels(p, map->source, input, memory);
        r->outputs = net_voxels(p, map->outputs, input, memory);
        r->forms = map_forms_slabs(net_slabs(p, map, memory), trouble);
        if (map->tiled) {
            r->forms.tiles = net_tiles(p, map, memory);
        }
        if (net_map_needed(p, map)) {
            r->forms.os = (int32_t *)((char *)memory + map->map);
        }
    }
    return map_build_batch(&p->layout, request, count, stream);
}

template <typename W>
SPIRA_API status net_index_pairs(const net_plan *p, net_part part, voxel_set<W> input, void *memory,
                                 cudaStream_t stream) {
    for (int m = 0; m < p->maps && p->limits.count_pairs; ++m) {
        const net_map *map = &p->map[m];
        voxel_set<W> outputs = net_voxels(p, map->outputs, input, memory);
        if (net_map_in(map, part)) {
            SPIRA_TRY(map_count((const int32_t *)((char *)memory + map->map), map->volume,
                                outputs.count, outputs.capacity,
                                (int32_t *)((char *)memory + map->pairs), stream));
        }
    }
    return status_success();
}

// The ordered layouts of a part.
template <typename W>
SPIRA_API status net_index_orders(const net_plan *p, net_part part, voxel_set<W> input,
                                  void *memory, char *scratch, size_t bytes, cudaStream_t stream) {
    order_request orders[order_maps_max];
    int first = 0;
    while (int count = net_orders(p, part, input, memory, &first, orders)) {
        SPIRA_TRY(order_build(orders, count, scratch, bytes, stream));
    }
    return status_success();
}

// Records a count of set 0 beyond its capacity where there is no coarser set, as which is built it
// is recorded. One thread.
template <typename W>
SPIRA_KERNEL void net_count_kernel(voxel_set<W> input, device_status *trouble) {
    if (*input.count > input.capacity) {
        device_status_raise(trouble, device_flag_capacity, (uint32_t)*input.count);
    }
}

template <typename W>
SPIRA_API status net_index_count(voxel_set<W> input, device_status *trouble, cudaStream_t stream) {
    net_count_kernel<W><<<1, 1, 0, stream>>>(input, trouble);
    return status_of_launch("net_index");
}

// Builds a part of the index, with arguments that have been looked at.
template <typename W>
SPIRA_API status net_index_part(const net_plan *p, net_part part, voxel_set<W> input,
                                device_status *trouble, void *memory, cudaStream_t stream) {
    const bool fine = part == net_part_fine;
    char *scratch = (char *)memory + (fine ? p->fine_scratch : p->scratch);
    const size_t bytes = fine ? p->fine_scratch_bytes : p->scratch_bytes;
    if (!fine) {
        SPIRA_TRY(net_index_sets(p, input, trouble, memory, stream));
    }
    if (!fine && p->sets == 1) {
        SPIRA_TRY(net_index_count(input, trouble, stream));
    }
    SPIRA_TRY(net_index_maps(p, part, input, trouble, memory, stream));
    SPIRA_TRY(net_index_orders(p, part, input, memory, scratch, bytes, stream));
    return net_index_pairs(p, part, input, memory, stream);
}

// Builds all coordinate sets and kernel maps of a plan, before any feature (Spira paper:
// network-wide indexing).
//
// inputs   input: set 0, of the planned capacity; memory: plan->workspace_bytes, aligned to 256
// outputs  sets, layouts and, if asked for, pair counts, in memory; trouble: capacities passed,
//          that of the input by its count too, coordinates off a lattice. The features of an
//          earlier run are lost: maps pass through their place
// Asynchronous, deterministic.
template <typename W>
SPIRA_API status net_index(const net_plan *p, voxel_set<W> input, device_status *trouble,
                           void *memory, size_t bytes, cudaStream_t stream) {
    SPIRA_TRY(net_run_check(p, true, &input, memory, bytes));
    SPIRA_REQUIRE(trouble, status_null_pointer, "trouble", 0);
    return net_index_part(p, net_part_all, input, trouble, memory, stream);
}

// The arguments of the shortcut that a layer is computed with.
SPIRA_API status net_conv_shortcut(const net_plan *p, int layer, const void *features,
                                   const void *loaded, const void *memory, conv_shortcut *s) {
    const int own = p->step[layer].shortcut;
    const net_step *step = &p->step[own];
    net_vectors vectors;
    SPIRA_TRY(net_vectors_of(p, own, loaded, &vectors));
    s->cin = step->shape.cin;
    s->cin2 = step->shape.cin2;
    s->in = net_features_of(p, p->layers[own].source, features, memory);
    s->in2 = net_features_of(p, p->layers[own].source2, features, memory);
    s->weights = (const char *)loaded + step->packed;
    s->bias = vectors.bias;
    s->scale = vectors.scale;
    s->shift = vectors.shift;
    return status_success();
}

template <typename W>
SPIRA_API status net_conv_run(const net_plan *p, int layer, voxel_set<W> outputs,
                              const void *features, const void *loaded, void *memory,
                              bool programmatic, cudaStream_t stream) {
    const net_layer *l = &p->layers[layer];
    const net_step *step = &p->step[layer];
    const net_map *map = step->map == net_none ? nullptr : &p->map[step->map];
    tile_layout tiles = {};
    order_layout order = {};
    if (map) {
        tiles = net_tiles(p, map, memory);
        order = net_order(p, map, memory);
    }
    net_vectors vectors;
    SPIRA_TRY(net_vectors_of(p, layer, loaded, &vectors));
    conv_args args = {};
    args.shape = step->shape;
    args.in = net_features_of(p, l->source, features, memory);
    args.in2 = net_features_of(p, l->source2, features, memory);
    args.weights = (const char *)loaded + step->packed;
    args.layout = map && map->tiled ? &tiles : nullptr;
    args.order = map && map->ordered ? &order : nullptr;
    args.count = outputs.count;
    args.capacity = outputs.capacity;
    args.epilogue.bias = vectors.bias;
    args.epilogue.scale = vectors.scale;
    args.epilogue.shift = vectors.shift;
    conv_shortcut shortcut;
    if (step->shortcut != net_none) {
        SPIRA_TRY(net_conv_shortcut(p, layer, features, loaded, memory, &shortcut));
        args.shortcut = &shortcut;
    } else {
        args.epilogue.residual = net_features_of(p, l->residual, features, memory);
    }
    args.epilogue.act = l->act;
    args.epilogue.slope = l->slope;
    args.out = (char *)memory + step->features;
    args.programmatic = programmatic;
    const conv_sizes sizes = tune_sizes(&step->choice);
    args.sizes = step->choice.tiles ? &sizes : nullptr;
    return conv(&args, nullptr, 0, stream);
}

// Computes one layer, of a plan and with arguments that have been looked at. early: another layer
// was the last on the stream, and no other stream has been waited for since.
template <typename W>
SPIRA_API status net_layer_start(const net_plan *p, int layer, voxel_set<W> input,
                                 const void *features, const void *loaded, void *memory,
                                 bool programmatic, cudaStream_t stream) {
    const net_layer *l = &p->layers[layer];
    const net_step *step = &p->step[layer];
    voxel_set<W> outputs = net_voxels(p, step->set, input, memory);
    if (step->fused_into != net_none) {
        return status_success();
    }
    if (net_is_conv(l)) {
        return net_conv_run(p, layer, outputs, features, loaded, memory, programmatic, stream);
    }
    const net_map *map = &p->map[step->map];
    return pool(l->op == net_pool_max ? pool_max : pool_average, p->limits.type,
                net_features_of(p, l->source, features, memory), step->channels,
                (const int32_t *)((char *)memory + map->map), map->volume, outputs.count,
                outputs.capacity, (char *)memory + step->features, stream);
}

// Computes one layer; its sources have been computed and the plan has been indexed. One that is
// computed within another (net_step.fused_into) is left to that one.
//
// inputs   features [capacity, channels] of limits.type; loaded: of net_load
template <typename W>
SPIRA_API status net_layer_run(const net_plan *p, int layer, voxel_set<W> input,
                               const void *features, const void *loaded, void *memory,
                               cudaStream_t stream) {
    SPIRA_REQUIRE(p && memory, status_null_pointer, "plan", 0);
    SPIRA_REQUIRE(layer >= 0 && layer < p->layer_count, status_bad_size, "layer", layer);
    SPIRA_REQUIRE(features, status_null_pointer, "features", 0);
    SPIRA_REQUIRE(loaded, status_null_pointer, "loaded", 0);
    return net_layer_start(p, layer, input, features, loaded, memory, false, stream);
}

// A second stream of the caller's, for a part of the index, and events of its own
// (cudaEventDisableTiming is enough). All of them are of the device of the run, and in no other use
// while net_run is called. They may be destroyed after a capture; after a call without one, when
// its work is done.
struct net_side {
    cudaStream_t stream; // not that of the run: else nothing is side by side
    cudaEvent_t begun;   // recorded where the second stream sets off,
    cudaEvent_t indexed; // and where it comes back
    // Null, or an event that the caller has recorded behind what makes the features, on `stream` or
    // another: the layers wait for it, and of the index only what comes behind it on its stream.
    // It is recorded anew for each run: one that a capture recorded is refused outside of it.
    cudaEvent_t features;
};

SPIRA_API status net_side_check(const net_plan *p, const net_side *side) {
    SPIRA_REQUIRE(p->limits.overlap, status_unsupported, "side (of a plan without limits.overlap)",
                  0);
    SPIRA_REQUIRE(side->begun, status_null_pointer, "side.begun", 0);
    SPIRA_REQUIRE(side->indexed, status_null_pointer, "side.indexed", 0);
    return status_success();
}

// What comes next on stream `to` waits for all that is on stream `from`.
SPIRA_API status net_wait(cudaStream_t to, cudaEvent_t event, cudaStream_t from) {
    SPIRA_TRY(status_from_cuda(cudaEventRecord(event, from), "side (event)"));
    return status_from_cuda(cudaStreamWaitEvent(to, event, 0), "side (stream)");
}

// Layers [first, end). The first is not early: what comes before it is no layer, or waits for the
// other stream.
template <typename W>
SPIRA_API status net_layers_start(const net_plan *p, int first, int end, voxel_set<W> input,
                                  const void *features, const void *loaded, void *memory,
                                  cudaStream_t stream) {
    bool programmatic = false;
    for (int i = first; i < end; ++i) {
        SPIRA_TRY(net_layer_start(p, i, input, features, loaded, memory, programmatic, stream));
        programmatic = programmatic || p->step[i].fused_into == net_none;
    }
    return status_success();
}

// The fine part of the index, the first `layers` layers, which need no more, and beside them the
// coarse part, on two streams that come together again: after a failure too, so that a capture can
// be ended.
template <typename W>
SPIRA_API status net_run_beside(const net_plan *p, int layers, voxel_set<W> input,
                                const void *features, const void *loaded, device_status *trouble,
                                void *memory, const net_side *side, cudaStream_t stream) {
    SPIRA_TRY(net_wait(side->stream, side->begun, stream));
    status coarse = net_index_part(p, net_part_coarse, input, trouble, memory, side->stream);
    status fine = net_index_part(p, net_part_fine, input, trouble, memory, stream);
    status ready = status_success();
    if (side->features) {
        ready = status_from_cuda(cudaStreamWaitEvent(stream, side->features, 0), "side.features");
    }
    fine = status_failed(fine) ? fine : ready;
    if (!status_failed(fine)) {
        fine = net_layers_start(p, 0, layers, input, features, loaded, memory, stream);
    }
    SPIRA_TRY(net_wait(stream, side->indexed, side->stream));
    SPIRA_TRY(coarse);
    return fine;
}

// Runs a planned network: index, then features.
//
// inputs   input: set 0, of the planned capacity, and its count; features [capacity, channels] of
//          limits.type; loaded: of net_load; memory: plan->workspace_bytes, aligned to 256
//          side: null, or a second stream, for a plan with limits.overlap (else refused): the
//          coarse part of the index goes there, the fine part and the first layers to `stream`,
//          which then waits for it. A captured graph has two branches
// outputs  the features of kept layers, in memory at plan->step[layer].features; trouble. All of it
//          is done when what is on `stream` is done
// errors   null pointers, sizes, a workspace that is too small; status_unsupported of a plan for
//          the host, or without limits.overlap if there is a `side`: nothing is launched then, and
//          side->features is not waited for. After other failures what is launched by then stays,
//          and both streams are together again
// Asynchronous, deterministic, to the bit the same with and without `side`; nothing is allocated or
// read back. Captured in a CUDA graph, it replays on every frame that fits the capacities.
template <typename W>
SPIRA_API status net_run(const net_plan *p, voxel_set<W> input, const void *features,
                         const void *loaded, device_status *trouble, void *memory, size_t bytes,
                         const net_side *side, cudaStream_t stream) {
    SPIRA_REQUIRE(p, status_null_pointer, "plan", 0);
    SPIRA_REQUIRE(trouble, status_null_pointer, "trouble", 0);
    SPIRA_TRY(conv_pointer_check(features, numeric_size(p->limits.type), "features"));
    SPIRA_TRY(conv_pointer_check(loaded, workspace_alignment, "loaded"));
    SPIRA_TRY(net_run_check(p, true, &input, memory, bytes));
    int first = 0;
    if (side) {
        SPIRA_TRY(net_side_check(p, side));
        first = net_fine_layers(p);
        SPIRA_TRY(net_run_beside(p, first, input, features, loaded, trouble, memory, side, stream));
    } else {
        SPIRA_TRY(net_index_part(p, net_part_all, input, trouble, memory, stream));
    }
    return net_layers_start(p, first, p->layer_count, input, features, loaded, memory, stream);
}

} // namespace spira

#endif
