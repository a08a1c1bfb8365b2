// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/generate_host.h: the decoder's steps by spira's host loops, in fp32.
#ifndef SPIRA_EXAMPLES_GENERATE_HOST_H
#define SPIRA_EXAMPLES_GENERATE_HOST_H

#include "../spira/map.h"
#include "../spira/rows.h"
#include "generate_decoder.h"

#include <stdlib.h>

namespace generate {

struct host_run {
    const decoder *plan;
    int side;
    bool features; // false: of the buffers, those of logits alone are there
    spira::word_layout layout;
    std::vector<word> set[levels];
    std::vector<int32_t> source[levels]; // of a level's voxels: 8 parent + child
    std::vector<int32_t> map[levels];
    std::vector<std::vector<float>> buffer;
    work amount;
};

// Gives the buffers of a level their size.
SPIRA_API void host_buffers(host_run *r, int level) {
    for (size_t b = 0; b < r->buffer.size(); ++b) {
        const buffer &own = r->plan->buffers[b];
        if (own.level == level && (r->features || own.columns == spira::subdivide_children)) {
            r->buffer[b].resize(r->set[level].size() * (size_t)own.columns);
        }
    }
}

SPIRA_API spira::voxel_set<word> host_set(host_run *r, int level, int32_t *count) {
    *count = (int32_t)r->set[level].size();
    return {r->set[level].data(), count, *count};
}

SPIRA_API spira::status host_map(host_run *r, const op &o) {
    const int stride = coarsest >> o.level;
    const spira::kernel_shape kernel = spira::kernel_cube(3, stride);
    int32_t count;
    const spira::voxel_set<word> set = host_set(r, o.level, &count);
    std::vector<int32_t> &map = r->map[o.level];
    map.resize(r->set[o.level].size() * 27);
    SPIRA_TRY(spira::map_build_host<word>(&r->layout, &kernel, set, set, map.data()));
    r->amount.voxels[o.level] = count;
    for (const int32_t source : map) {
        r->amount.pairs[o.level] += source >= 0;
    }
    return spira::status_success();
}

SPIRA_API spira::status host_conv(host_run *r, const op &o) {
    std::vector<float> weight((size_t)(o.size * o.size * o.size) * (size_t)o.cin * (size_t)o.cout);
    std::vector<float> bias((size_t)o.cout), residual;
    for (size_t i = 0; i < weight.size(); ++i) {
        weight[i] = weight_of(o, i);
    }
    for (int c = 0; c < o.cout; ++c) {
        bias[(size_t)c] = bias_of(o, c);
    }
    spira::conv_host_args a = {};
    a.shape.volume = o.size * o.size * o.size;
    a.shape.cin = o.cin;
    a.shape.cout = o.cout;
    a.in = r->buffer[(size_t)o.in].data();
    a.weight = weight.data();
    a.map = o.size == 3 ? r->map[o.level].data() : nullptr;
    a.outputs = (int32_t)r->set[o.level].size();
    spira::conv_epilogue e = {};
    e.bias = bias.data();
    e.act = o.act;
    if (o.residual >= 0) {
        residual = r->buffer[(size_t)o.residual]; // a copy: it may be the output
        e.residual = residual.data();
    }
    return spira::conv_host(&a, &e, r->buffer[(size_t)o.out].data());
}

SPIRA_API spira::status host_norm(host_run *r, const op &o) {
    std::vector<float> gain((size_t)o.cout), shift((size_t)o.cout);
    for (int c = 0; c < o.cout && o.affine; ++c) {
        gain[(size_t)c] = gain_of(o, c);
        shift[(size_t)c] = bias_of(o, c);
    }
    const int32_t rows = (int32_t)r->set[o.level].size();
    spira::norm_args a = {};
    a.in = r->buffer[(size_t)o.in].data();
    a.out = r->buffer[(size_t)o.out].data();
    a.channels = o.cout;
    a.type = spira::numeric_f32;
    a.epsilon = o.epsilon;
    a.gain = o.affine ? gain.data() : nullptr;
    a.shift = o.affine ? shift.data() : nullptr;
    a.act = o.act;
    a.count = &rows;
    a.capacity = rows;
    return spira::norm_host(&a);
}

SPIRA_API spira::status host_divide(host_run *r, const op &o) {
    const int stride = coarsest >> o.level;
    int32_t parents, children = 0;
    spira::device_status trouble = {};
    const std::vector<float> &logits = r->buffer[(size_t)o.in];
    for (const float logit : logits) {
        children += logit > 0;
    }
    std::vector<word> &set = r->set[o.level + 1];
    set.resize((size_t)spira::max_of(children, 1));
    r->source[o.level + 1].resize(set.size());
    spira::subdivide_args<word> a = {};
    a.layout = &r->layout;
    a.in = host_set(r, o.level, &parents);
    a.stride = {stride, stride, stride};
    a.choice.scores = logits.data();
    a.choice.type = spira::numeric_f32;
    a.choice.channels = spira::subdivide_children;
    a.out = {set.data(), &children, (int32_t)set.size()};
    a.source = r->source[o.level + 1].data();
    a.trouble = &trouble;
    size_t bytes;
    SPIRA_TRY(spira::subdivide_host_workspace(&a, &bytes));
    void *scratch = aligned_alloc(spira::workspace_alignment, bytes);
    const spira::status s = spira::subdivide_host(&a, scratch, bytes);
    free(scratch);
    set.resize((size_t)children);
    host_buffers(r, o.level + 1);
    return spira::status_failed(s) ? s : spira::device_status_read(&trouble);
}

SPIRA_API spira::status host_gather(host_run *r, const op &o) {
    const int32_t rows = (int32_t)r->set[o.level].size();
    spira::row_gather_args a = {};
    a.in = r->buffer[(size_t)o.in].data();
    a.in_rows = (int64_t)r->set[o.level - 1].size() * spira::subdivide_children;
    a.channels = o.cout / o.repeat;
    a.repeat = o.repeat;
    a.type = spira::numeric_f32;
    a.source = r->source[o.level].data();
    a.count = &rows;
    a.capacity = rows;
    a.out = r->buffer[(size_t)o.out].data();
    return spira::row_gather_host(&a);
}

SPIRA_API void host_rule(host_run *r, const op &o) {
    std::vector<float> &logits = r->buffer[(size_t)o.out];
    for (size_t i = 0; i < logits.size(); ++i) {
        logits[i] = rule(&r->layout, r->side, coarsest >> o.level,
                         r->set[o.level][i / spira::subdivide_children],
                         (int)(i % spira::subdivide_children));
    }
}

// Sets alone, without features: what there will be room for.
SPIRA_API bool op_is_of_sets(op_kind kind) {
    return kind == op_map || kind == op_rule || kind == op_divide;
}

// Runs the decoder on the host. features: false runs the steps that make sets.
SPIRA_API spira::status host_decode(const decoder *d, int side, bool features, host_run *r) {
    *r = {};
    r->plan = d;
    r->side = side;
    r->features = features;
    r->buffer.resize(d->buffers.size());
    SPIRA_TRY(begin(side, &r->layout, &r->set[0]));
    host_buffers(r, 0);
    for (size_t i = 0; i < r->buffer[(size_t)d->in].size(); ++i) {
        r->buffer[(size_t)d->in][i] = latent_of(i);
    }
    for (const op &o : d->ops) {
        if (!features && !op_is_of_sets(o.kind)) {
            continue;
        }
        switch (o.kind) {
        case op_map:
            SPIRA_TRY(host_map(r, o));
            break;
        case op_conv:
            SPIRA_TRY(host_conv(r, o));
            break;
        case op_norm:
            SPIRA_TRY(host_norm(r, o));
            break;
        case op_rule:
            host_rule(r, o);
            break;
        case op_divide:
            SPIRA_TRY(host_divide(r, o));
            break;
        case op_gather:
            SPIRA_TRY(host_gather(r, o));
            break;
        }
    }
    return spira::status_success();
}

} // namespace generate

#endif
