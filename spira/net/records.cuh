// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/net/records.cuh: the choices that planning makes for a GPU: the shortcuts that are fused,
// the tuning records that apply, and the places of loaded parameters.
#ifndef SPIRA_NET_RECORDS_CUH
#define SPIRA_NET_RECORDS_CUH

#include "layers.cuh"

namespace spira {

// Fuses shortcuts into the floating-point layers whose kernels can compute them. net_plan_sets has
// done it for int8.
SPIRA_API void net_plan_shortcuts(net_plan *p, const device_info *gpu) {
    for (int i = 0; i < p->layer_count; ++i) {
        const int shortcut =
            p->step[i].shape.type == numeric_i8 ? net_none : net_find_shortcut(p, i);
        if (shortcut != net_none && conv_shortcut_takes(&p->step[i].shape, gpu)) {
            net_join_shortcut(p, i, shortcut);
        }
    }
}

// Takes the choice of a convolution's record, if there is a deterministic, output-stationary one
// that fits the device.
SPIRA_API status net_plan_record(const net_limits *limits, const device_info *gpu, int layer,
                                 net_plan *p) {
    net_step *step = &p->step[layer];
    const int64_t outputs = p->set[step->set].capacity;
    const int64_t pairs = step->map == net_none ? outputs : p->layers[layer].pairs;
    tune_key key = tune_key_make(gpu, &step->shape, outputs, pairs, true);
    key.density = pairs ? key.density : 0;
    const tune_record *record = tune_find(limits->records, limits->record_count, &key);
    if (!record) {
        return status_success();
    }
    SPIRA_TRY(tune_record_check(record));
    if (record->choice.dataflow == tune_dataflow_os &&
        tune_choice_fits(&step->shape, gpu, &record->choice)) {
        step->choice = record->choice;
    }
    return status_success();
}

// Applies the records of the limits to all convolutions.
SPIRA_API status net_plan_choices(const net_limits *limits, const device_info *gpu, net_plan *p) {
    for (int i = 0; i < p->layer_count; ++i) {
        if (net_is_conv(&p->layers[i])) {
            SPIRA_TRY(net_plan_record(limits, gpu, i, p));
        }
    }
    return status_success();
}

// The tag of a network's parameters, in front of those of its layers. In the place of a shape it
// has a number made of the scales of int8 features, which packed weights contain; 0 without int8.
SPIRA_API conv_weights_tag net_load_tag(const net_plan *p) {
    conv_shape scales = {};
    uint32_t mixed = 0;
    for (int i = -1; i < p->layer_count; ++i) {
        const bool i8 = net_type_of(p, i) == numeric_i8;
        mixed = i8 ? (mixed ^ float_bits(net_scale_of(p, i))) * 16777619u + (uint32_t)i : mixed;
    }
    scales.volume = (int)mixed;
    return conv_weights_tag_make(&p->gpu, &scales, -1);
}

SPIRA_PLAIN_KERNEL void net_tag_kernel(conv_weights_tag tag, conv_weights_tag *to) {
    *to = tag;
}

// Places the loaded parameters: a tag, then of each layer packed weights, bias, scale and shift.
SPIRA_API status net_place_loaded(net_plan *p) {
    workspace w = workspace_begin(nullptr);
    net_take<conv_weights_tag>(&w, 1);
    for (int i = 0; i < p->layer_count; ++i) {
        size_t bytes = 0;
        SPIRA_TRY(net_op_call(p->layers[i].op,
                              [&](auto op) { return net_op_packed_bytes(op, p, i, &bytes); }));
        const net_params at = net_params_of(p, i);
        p->step[i].packed = net_take<char>(&w, (int64_t)bytes);
        p->step[i].vectors = net_take<float>(&w, at.end - at.vectors);
    }
    p->loaded_bytes = w.used;
    return status_success();
}

} // namespace spira

#endif
