// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/quantize_table.h: the quantised network: which layers are int8, the ranges of its
// tensors, and its parameters; what calibration has recorded for it, and what it loses.
#ifndef SPIRA_EXAMPLES_QUANTIZE_TABLE_H
#define SPIRA_EXAMPLES_QUANTIZE_TABLE_H

#include "onnx_model.h"
#include "quantize_run.h"
#include "scan_labels.h"

namespace quantize {

// A network under quantisation. Tensors: [0] is the input, [1 + i] the features of layer i.
struct table {
    networks::network *net; // as it is; the caller's
    const float *params;    // of its plans
    bool int8[spira::net_layers_max];
    float range[1 + spira::net_layers_max]; // 0: not known
    const onnx::model *file;                // with ranges of weights, or null
    std::vector<histogram> seen;            // [1 + layers]
};

// The network as int8: layers of t->net, in the caller's memory. Capacities are those of t->net
// now.
static inline void table_make(const table *t, networks::network *to, float *input_range) {
    *to = *t->net; // its names are those of t->net
    for (int i = 0; i < to->count; ++i) {
        spira::net_layer *l = &to->layers[i];
        const bool ranged = spira::net_members_of(l) & spira::net_member_range;
        l->format = t->int8[i] ? spira::net_format_i8 : spira::net_format_same;
        l->range = ranged ? t->range[1 + i] : 0;
    }
    *input_range = t->range[0];
}

// Takes the largest of the ranges that a method has for each tensor from what was seen.
static inline void table_choose(table *t, int method, double share) {
    for (int i = 0; i <= t->net->count; ++i) {
        t->range[i] = histogram_range(&t->seen[(size_t)i], method, share);
    }
}

// Which layers are int8: all convolutions, the first ones only if `first` says so, but those whose
// names begin with one of `floats`.
static inline void table_formats(table *t, bool first, const std::vector<const char *> &floats) {
    networks::network n = *t->net;
    spira::net_formats_i8(n.layers, n.count);
    for (int i = 0; i < n.count; ++i) {
        spira::net_layer *l = &n.layers[i];
        const bool reads_input = spira::net_number(l->source) == spira::net_input;
        l->format =
            first && spira::net_is_conv(l) && reads_input ? spira::net_format_i8 : l->format;
        for (const char *prefix : floats) {
            const bool named = !strncmp(l->name, prefix, strlen(prefix));
            l->format = named ? spira::net_format_same : l->format;
        }
    }
    spira::net_formats_settle(n.layers, n.count);
    for (int i = 0; i < n.count; ++i) {
        t->int8[i] = spira::net_is_i8(&n.layers[i]);
    }
}

// Takes formats and ranges from an .onnx file. False: it has none.
static inline bool table_from_file(table *t, onnx::model *m) {
    spira::net_limits limits = {};
    onnx::model_int8(m, &limits);
    t->range[0] = limits.range;
    for (int i = 0; i < m->net.count; ++i) {
        t->int8[i] = spira::net_is_i8(&m->net.layers[i]);
        t->range[1 + i] = m->net.layers[i].range;
        t->file = t->int8[i] ? m : t->file;
    }
    return t->file != nullptr;
}

// The parameters of a plan of the int8 network, from those of the network as it is.
static inline spira::status table_params(const table *t, const spira::net_plan *floats,
                                         const spira::net_plan *plan, std::vector<float> *params) {
    params->assign((size_t)plan->params + 1, 0);
    for (int i = 0; i < plan->layer_count; ++i) {
        const int64_t end = spira::net_params_of(floats, i).end;
        std::copy(t->params + floats->step[i].params, t->params + end,
                  params->data() + plan->step[i].params);
    }
    SPIRA_TRY(spira::net_params_steps(plan, params->data()));
    for (int i = 0; t->file && i < plan->layer_count; ++i) {
        if (t->int8[i]) {
            onnx::model_steps(t->file->layers[(size_t)i], plan, i, params->data());
        }
    }
    return spira::status_success();
}

// ---- what is lost -------------------------------------------------------------------------------

struct losses {
    std::vector<error>
        layer;            // [layers]: of what a layer's readers read, against the network as it is
    int64_t same, voxels; // of networks that end in classes: voxels whose class stays
    scan::labels_match float_match, int8_match; // where the classes are known
    bool labelled;
    int64_t frames, feature_bytes[2]; // of all frames, in fp16 and int8
};

static inline void match_add(scan::labels_match *to, const scan::labels_match &m) {
    for (int c = 0; c < scan::labels_most; ++c) {
        to->found[c] += m.found[c];
        to->there[c] += m.there[c];
        to->both[c] += m.both[c];
    }
}

// Compares the classes of two outputs, [voxels, classes], with each other, and with the truth.
// truth [voxels]: or empty
static inline void losses_classes(losses *l, const std::vector<float> &floats,
                                  const std::vector<float> &int8, int classes,
                                  const std::vector<int32_t> &truth) {
    const int64_t voxels = (int64_t)floats.size() / classes;
    std::vector<int32_t> label[2];
    for (int side = 0; side < 2; ++side) {
        label[side].resize((size_t)voxels + 1);
        scan::labels_strongest((side ? int8 : floats).data(), voxels, classes, label[side].data());
    }
    for (int64_t v = 0; v < voxels; ++v) {
        l->same += label[0][(size_t)v] == label[1][(size_t)v];
    }
    l->voxels += voxels;
    if (!truth.empty()) {
        l->labelled = true;
        match_add(&l->float_match, scan::labels_compare(label[0].data(), truth.data(), voxels));
        match_add(&l->int8_match, scan::labels_compare(label[1].data(), truth.data(), voxels));
    }
}

// The signal-to-noise ratio in decibels.
static inline double decibels(const error &e) {
    return e.noise > 0 && e.signal > 0 ? 10 * log10(e.signal / e.noise) : e.signal > 0 ? 999 : 0;
}

} // namespace quantize

#endif
