// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/net_blob.h: reads the parameters of a planned network from a blob (blob.h), and writes them
// to one; reads which of its layers are int8, and their ranges.
//
// The entries of a layer have its name; layers without parameters have none. The content of a blob
// does not depend on capacities, on the number format of the features, or on whether the plan is
// for the host or the device. A quantised blob has the same weights, and ranges besides: networks
// that are planned without net_blob_ranges read it as any other.
#ifndef SPIRA_NET_BLOB_H
#define SPIRA_NET_BLOB_H

#include "blob.h"
#include "net.h"

namespace spira {

enum { net_blob_kinds = blob_range }; // kinds of parameters; the others are ranges

// Returns where a layer's parameters of a kind start, in floats, or -1 if the layer has none.
SPIRA_API int64_t net_blob_place(const net_plan *p, int layer, int kind) {
    net_params at = net_params_of(p, layer);
    const int64_t places[net_blob_kinds] = {at.weight, at.bias, at.scale, at.shift};
    return places[kind];
}

SPIRA_API void net_blob_shape(const net_plan *p, int layer, int kind, uint32_t *shape) {
    const conv_shape *s = &p->step[layer].shape;
    triple size = p->layers[layer].size;
    const int weight[5] = {size.x, size.y, size.z, s->cin + s->cin2, s->cout};
    for (int d = 0; d < 5; ++d) {
        const bool has =
            kind == blob_weight || (d == 4 && kind != blob_range && kind != blob_input_range);
        shape[d] = has ? (uint32_t)weight[d] : 1;
    }
}

// Whether a layer has an entry of a kind in the blob that is written of a plan.
SPIRA_API bool net_blob_has(const net_plan *p, int layer, int kind) {
    bool first = p->limits.range > 0 && net_number(p->layers[layer].source) == net_input;
    for (int i = 0; i < layer; ++i) {
        first = first && net_number(p->layers[i].source) != net_input;
    }
    return kind == blob_range          ? p->layers[layer].range > 0
           : kind == blob_weight_range ? net_params_of(p, layer).step >= 0
           : kind == blob_input_range  ? first
                                       : net_blob_place(p, layer, kind) >= 0;
}

SPIRA_API bool net_blob_has(const net_plan *p, int layer) {
    bool has = false;
    for (int kind = 0; kind < (int)blob_kinds; ++kind) {
        has = has || net_blob_has(p, layer, kind);
    }
    return has;
}

// Checks that each layer with parameters has a name of its own that fits an entry.
SPIRA_API status net_blob_check_names(const net_plan *p) {
    for (int i = 0; i < p->layer_count; ++i) {
        const char *name = p->layers[i].name;
        if (!net_blob_has(p, i)) {
            continue;
        }
        if (!name || !*name || strlen(name) >= blob_name_bytes) {
            return net_fault("no name, or a name of more than 63 bytes", i);
        }
        for (int j = 0; j < i; ++j) {
            if (net_blob_has(p, j) && !strcmp(name, p->layers[j].name)) {
                return net_fault("the name of an earlier layer", i);
            }
        }
    }
    return status_success();
}

// ---- reading ------------------------------------------------------------------------------------

// Returns what is wrong with a kind of parameters of a layer, or null.
SPIRA_API const char *net_blob_misfit(const net_plan *p, const blob *b, int layer, int kind) {
#define SPIRA_BLOB_MISFITS(KIND, LACKS)                                                            \
    "the blob has no " KIND " for it", "the blob has a " KIND " for it, but the layer has " LACKS, \
        "its " KIND " in the blob is not [cout]"
    static const char *const misfits[net_blob_kinds][3] = {
        {SPIRA_BLOB_MISFITS("weight", "none")},
        {SPIRA_BLOB_MISFITS("bias", "none")},
        {SPIRA_BLOB_MISFITS("scale", "no norm")},
        {SPIRA_BLOB_MISFITS("shift", "no norm")}};
#undef SPIRA_BLOB_MISFITS
    static const char *const shapes[5] = {"its weight in the blob has another size.x",
                                          "its weight in the blob has another size.y",
                                          "its weight in the blob has another size.z",
                                          "its weight in the blob has other input channels",
                                          "its weight in the blob has other output channels"};
    const bool wanted = net_blob_place(p, layer, kind) >= 0;
    const int found = blob_find(b, p->layers[layer].name, (blob_kind)kind);
    if (found < 0 || !wanted) {
        return found < 0 && !wanted ? nullptr : misfits[kind][found >= 0];
    }
    uint32_t shape[5];
    net_blob_shape(p, layer, kind, shape);
    const blob_entry e = blob_entry_of(b, found);
    for (int d = 0; d < 5; ++d) {
        if (shape[d] != e.shape[d]) {
            return kind == blob_weight ? shapes[d] : misfits[kind][2];
        }
    }
    return nullptr;
}

// The entry of a range; -1: there is none.
SPIRA_API int net_blob_find_range(const blob *b, const net_layer *l, blob_kind kind) {
    return l->name && *l->name ? blob_find(b, l->name, kind) : -1;
}

// Fills the steps of an int8 layer whose weights are there: from the ranges of the blob, where they
// are not 0.
SPIRA_API status net_blob_read_steps(const net_plan *p, const blob *b, int layer, float *params) {
    const net_params at = net_params_of(p, layer);
    const int found = net_blob_find_range(b, &p->layers[layer], blob_weight_range);
    const conv_i8_weights weights = net_i8_weights(p, layer, params + at.weight);
    const float scale = (float)fmax(weights.scale_in, weights.scale_in2);
    float range[conv_channels_max];
    SPIRA_TRY(conv_i8_steps_host(&weights, nullptr, params + at.step));
    SPIRA_TRY(found < 0 ? status_success() : blob_load(b, found, range));
    for (int c = 0; found >= 0 && c < weights.shape.cout; ++c) {
        SPIRA_REQUIRE(range[c] >= 0, status_unsupported, "weight range (negative)", c);
        params[at.step + c] = range[c] > 0 ? scale * range[c] / 127 : params[at.step + c];
    }
    return status_success();
}

// Loads a layer's parameters. Adds the number of their entries to *used.
SPIRA_API status net_blob_read_layer(const net_plan *p, const blob *b, int layer, float *params,
                                     int *used) {
    for (int kind = 0; kind < (int)net_blob_kinds; ++kind) {
        const char *misfit = net_blob_misfit(p, b, layer, kind);
        if (misfit) {
            return net_fault(misfit, layer);
        }
        int64_t place = net_blob_place(p, layer, kind);
        if (place >= 0) {
            status s =
                blob_load(b, blob_find(b, p->layers[layer].name, (blob_kind)kind), params + place);
            if (status_failed(s)) {
                return net_fault(s, layer);
            }
            ++*used;
        }
    }
    const bool int8 = net_params_of(p, layer).step >= 0;
    const status s = int8 ? net_blob_read_steps(p, b, layer, params) : status_success();
    return status_failed(s) ? net_fault(s, layer) : s;
}

// Makes a table of layers the quantised network that a blob has, before it is planned: int8 layers
// and ranges. Entries of other layers, as of a larger network, are left alone.
//
// outputs  layers [count]: format and range; limits: range. As they are where the blob has none
// errors   null pointers; status_layer: damaged data, a weight range of another number of channels
//          (the blob is for another network). What else is wrong with ranges, planning says
SPIRA_API status net_blob_ranges(const blob *b, net_layer *layers, int count, net_limits *limits) {
    SPIRA_REQUIRE(b, status_null_pointer, "blob", 0);
    SPIRA_REQUIRE(layers, status_null_pointer, "layers", 0);
    SPIRA_REQUIRE(limits, status_null_pointer, "limits", 0);
    for (int i = 0; i < count; ++i) {
        net_layer *l = &layers[i];
        float *const to[] = {net_op_known(l->op) && net_members_of(l) & net_member_range ? &l->range
                                                                                         : nullptr,
                             &limits->range};
        for (int input = 0; input < 2; ++input) {
            const int found = net_blob_find_range(b, l, input ? blob_input_range : blob_range);
            const status s =
                found < 0 || !to[input] ? status_success() : blob_load(b, found, to[input]);
            SPIRA_TRY(status_failed(s) ? net_fault(s, i) : s);
        }
        const int found = net_blob_find_range(b, l, blob_weight_range);
        if (found >= 0) {
            if (!net_is_conv(l) || blob_entry_of(b, found).shape[4] != (uint32_t)l->channels) {
                return net_fault("its weight range in the blob is not [cout]", i);
            }
            l->format = net_format_i8;
        }
    }
    return status_success();
}

// Fills the parameters of a plan from a blob, by the names of the layers.
//
// inputs   p: any plan of the network, for the host or the device, or the result of net_plan_sets
//          (which needs no word layout); b: from blob_open
// outputs  params [p->params], fp32, as net_run_host and net_load take them, the steps of int8 layers
//          included; incomplete on failure
//          unused: the entries that belong to no layer of the network. A backbone can be read
//          from the blob of a larger network. Require 0 if all entries must be used
// errors   null or misaligned pointers; status_layer: the blob lacks parameters of the layer,
//          or has some that it does not have; shapes differ; data are damaged or not finite; the
//          layer has no name, a long one, or that of an earlier layer
SPIRA_API status net_blob_read(const net_plan *p, const blob *b, float *params, int *unused) {
    SPIRA_REQUIRE(p, status_null_pointer, "plan", 0);
    SPIRA_REQUIRE(b, status_null_pointer, "blob", 0);
    if (p->params) {
        SPIRA_TRY(pointer_check(params, sizeof *params, "params"));
    }
    SPIRA_REQUIRE(unused, status_null_pointer, "unused", 0);
    SPIRA_TRY(net_blob_check_names(p));
    int used = 0;
    for (int i = 0; i < p->layer_count; ++i) {
        if (net_params_of(p, i).end > p->step[i].params) {
            SPIRA_TRY(net_blob_read_layer(p, b, i, params, &used));
        }
        for (int kind = net_blob_kinds; kind < (int)blob_kinds; ++kind) {
            used += net_blob_find_range(b, &p->layers[i], (blob_kind)kind) >= 0;
        }
    }
    *unused = b->entries - used;
    return status_success();
}

// ---- writing ------------------------------------------------------------------------------------

// The ranges of a layer's weights: 0 where its step follows from them.
SPIRA_API status net_blob_weight_range(const net_plan *p, int layer, const float *params,
                                       float *range) {
    const net_params at = net_params_of(p, layer);
    const conv_i8_weights weights = net_i8_weights(p, layer, params + at.weight);
    const float scale = (float)fmax(weights.scale_in, weights.scale_in2);
    SPIRA_TRY(conv_i8_steps_host(&weights, nullptr, range));
    for (int c = 0; c < weights.shape.cout; ++c) {
        const float step = params[at.step + c];
        SPIRA_REQUIRE(numeric_scale_good(step, true), status_unsupported, "step", c);
        range[c] = step == range[c] ? 0.0f : step * 127 / scale;
    }
    return status_success();
}

// Adds an entry of a layer. params: may be null while counting
SPIRA_API status net_blob_add(const net_plan *p, int layer, int kind, const float *params,
                              numeric type, blob_writer *w) {
    const net_layer *l = &p->layers[layer];
    uint32_t shape[5];
    float range[conv_channels_max];
    net_blob_shape(p, layer, kind, shape);
    const float *values = nullptr;
    if (params && kind == blob_weight_range) {
        SPIRA_TRY(net_blob_weight_range(p, layer, params, range));
        values = range;
    } else if (params) {
        values = kind == blob_range         ? &l->range
                 : kind == blob_input_range ? &p->limits.range
                                            : params + net_blob_place(p, layer, kind);
    }
    return blob_add(w, l->name, (blob_kind)kind, kind == blob_weight ? type : numeric_f32, shape,
                    values);
}

// Adds the entries of all layers to a writer.
SPIRA_API status net_blob_add(const net_plan *p, const float *params, numeric type,
                              blob_writer *w) {
    for (int i = 0; i < p->layer_count; ++i) {
        for (int kind = 0; kind < (int)blob_kinds; ++kind) {
            if (net_blob_has(p, i, kind)) {
                const status s = net_blob_add(p, i, kind, params, type, w);
                SPIRA_TRY(status_failed(s) && kind == blob_weight_range ? net_fault(s, i) : s);
            }
        }
    }
    return status_success();
}

// Checks the plan and begins a blob.
SPIRA_API status net_blob_begin(const net_plan *p, void *memory, size_t bytes, blob_writer *w) {
    SPIRA_REQUIRE(p, status_null_pointer, "plan", 0);
    SPIRA_TRY(net_blob_check_names(p));
    int entries = 0;
    for (int i = 0; i < p->layer_count; ++i) {
        for (int kind = 0; kind < (int)blob_kinds; ++kind) {
            entries += net_blob_has(p, i, kind);
        }
    }
    return blob_write_begin(memory, bytes, entries, w);
}

// Returns the bytes that net_blob_write needs.
SPIRA_API status net_blob_bytes(const net_plan *p, numeric type, size_t *bytes) {
    SPIRA_REQUIRE(bytes, status_null_pointer, "bytes", 0);
    blob_writer w;
    SPIRA_TRY(net_blob_begin(p, nullptr, 0, &w));
    SPIRA_TRY(net_blob_add(p, nullptr, type, &w));
    *bytes = w.used;
    return status_success();
}

// Writes the parameters of a plan as a blob: layer by layer, of each its weight, bias, scale, shift
// and ranges.
//
// inputs   p: as in net_blob_read; params [p->params]
//          type: of the weights, not tf32; biases, scales and shifts stay fp32
//          memory [bytes]: at least the bytes of net_blob_bytes, aligned to 8
// outputs  b: a view of the blob; its size is that of net_blob_bytes
// errors   null or misaligned pointers; status_layer for names, as in net_blob_read; those of
//          blob_add
SPIRA_API status net_blob_write(const net_plan *p, const float *params, numeric type, void *memory,
                                size_t bytes, blob *b) {
    SPIRA_TRY(pointer_check(params, sizeof *params, "params"));
    SPIRA_REQUIRE(memory, status_null_pointer, "memory", 0);
    SPIRA_REQUIRE(b, status_null_pointer, "blob", 0);
    blob_writer w;
    SPIRA_TRY(net_blob_begin(p, memory, bytes, &w));
    SPIRA_TRY(net_blob_add(p, params, type, &w));
    return blob_write_end(&w, b);
}

} // namespace spira

#endif
