// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/generate_decoder.h: the shape decoder of TRELLIS.2 as a table of layers: ConvNeXt blocks
// at five levels, and between them blocks that give each voxel up to eight children. Layers have
// the names of its checkpoints.
#ifndef SPIRA_EXAMPLES_GENERATE_DECODER_H
#define SPIRA_EXAMPLES_GENERATE_DECODER_H

#include "../spira/net_blob.h"
#include "generate_shape.h"
#include "network.h"
#include "scan_file.h"

namespace generate {

using networks::network;

enum { levels = steps + 1, latents = 32, outputs = 7, spread = 4 /* of a block's inner layer */ };

// ConvNeXt blocks of a level.
static const int level_blocks[levels] = {4, 16, 8, 4, 0};

// Names live in it: it must not be copied.
struct decoder {
    network net;
    int logits[steps];   // layers
    const char *weights; // a blob; null: made-up parameters
};

SPIRA_API int conv_add(network *n, const char *name, int source, int channels, int size) {
    spira::net_layer l = spira::net_layer_conv("", source, channels, size, 1);
    l.bias = true;
    return networks::network_add(n, name, l);
}

SPIRA_API int norm_add(network *n, const char *name, int source, bool affine) {
    spira::net_layer l = spira::net_layer_norm("", source, 1e-6f);
    l.norm = affine;
    return networks::network_add(n, name, l);
}

SPIRA_API int children_add(network *n, const char *name, int source, int logits, int repeat) {
    spira::net_layer l = spira::net_layer_children("", source, logits);
    l.repeat = repeat;
    return networks::network_add(n, name, l);
}

// A name of a block: "blocks.0.3.conv".
struct block_name {
    char text[32];
};

SPIRA_API block_name name_of(int level, int block, const char *part) {
    block_name name;
    snprintf(name.text, sizeof name.text, "blocks.%d.%d.%s", level, block, part);
    return name;
}

// x + L(SiLU(L(LN(S3(x))))): the inner layer has four times the channels c.
SPIRA_API int block_add(network *n, int level, int block, int x, int c) {
    int h = conv_add(n, name_of(level, block, "conv").text, x, c, 3);
    h = norm_add(n, name_of(level, block, "norm").text, h, true);
    h = conv_add(n, name_of(level, block, "mlp.0").text, h, spread * c, 1);
    n->layers[h].act = spira::activation_silu;
    h = conv_add(n, name_of(level, block, "mlp.2").text, h, c, 1);
    n->layers[h].residual = spira::net_from(x);
    return h;
}

// From a level with c channels to the next: eight rows of half the channels for each parent, of
// which the logits keep some; then a convolution among the children, plus the parents' own
// channels.
SPIRA_API int up_add(decoder *d, int level, int block, int x, int c) {
    network *const n = &d->net;
    const int half = c / 2, repeat = half / (c / spira::subdivide_children);
    const int logits =
        conv_add(n, name_of(level, block, "to_subdiv").text, x, spira::subdivide_children, 1);
    d->logits[level] = logits;
    n->layers[logits].keep = true;
    int h = norm_add(n, name_of(level, block, "norm1").text, x, true);
    n->layers[h].act = spira::activation_silu;
    h = conv_add(n, name_of(level, block, "conv1").text, h, spira::subdivide_children * half, 3);
    h = children_add(n, name_of(level, block, "children").text, h, logits, 1);
    h = norm_add(n, name_of(level, block, "norm2").text, h, false);
    n->layers[h].act = spira::activation_silu;
    const int skip = children_add(n, name_of(level, block, "skip").text, x, logits, repeat);
    h = conv_add(n, name_of(level, block, "conv2").text, h, half, 3);
    n->layers[h].residual = spira::net_from(skip);
    return h;
}

// first: channels of the coarsest level, a multiple of 128; 1024 in TRELLIS.2.
SPIRA_API void decoder_make(int first, decoder *d) {
    network *const n = &d->net;
    d->weights = nullptr;
    networks::network_begin(n, latents);
    int x = conv_add(n, "from_latent", spira::net_input, first, 1);
    for (int l = 0; l < levels; ++l) {
        for (int i = 0; i < level_blocks[l]; ++i) {
            x = block_add(n, l, i, x, first >> l);
        }
        if (l < steps) {
            x = up_add(d, l, level_blocks[l], x, first >> l);
        }
    }
    x = norm_add(n, "norm", x, false);
    n->layers[x].epsilon = 1e-5f;
    conv_add(n, "output_layer", x, outputs, 1);
}

// What the decoder is planned for. capacity: voxels of each level, at most
SPIRA_API spira::net_limits decoder_limits(decoder *d, const int32_t capacity[levels],
                                           spira::numeric type) {
    spira::net_limits limits = {};
    limits.voxels = capacity[0];
    limits.channels = latents;
    limits.stride = {coarsest, coarsest, coarsest};
    limits.type = type;
    for (int i = 0, level = 0; i < d->net.count; ++i) {
        spira::net_layer *const l = &d->net.layers[i];
        level += l->op == spira::net_children && l->repeat == 1;
        l->capacity = level ? capacity[level] : 0;
    }
    return limits;
}

// ---- parameters ---------------------------------------------------------------------------------

// A number in [-1, 1) that depends on its place alone.
SPIRA_BOTH float noise(uint32_t stream, uint64_t at) {
    uint64_t v = (at + 1) * 0x9e3779b97f4a7c15ull ^ (uint64_t)(stream + 1) * 0xbf58476d1ce4e5b9ull;
    v = (v ^ v >> 30) * 0xbf58476d1ce4e5b9ull;
    v = (v ^ v >> 27) * 0x94d049bb133111ebull;
    return (float)(int32_t)(v >> 32) * 0x1p-31f;
}

// Made-up numbers of one kind: middle + reach * noise.
struct filling {
    uint32_t stream;
    float middle, reach;
    int64_t begin, end; // in the parameters
};

// Calls f(filling) for all parameters of a plan, until one fails. Weights are so large that outputs
// are about as large as inputs; what is added to a residual stays small.
template <typename F>
SPIRA_API spira::status parameters_each(const spira::net_plan *p, F f) {
    uint32_t stream = 0;
    for (int i = 0; i < p->layer_count; ++i) {
        const spira::net_params at = spira::net_params_of(p, i);
        const spira::conv_shape *s = &p->step[i].shape;
        if (at.weight >= 0) {
            const float taps = s->volume > 1 ? 12.0f : 1.0f; // of 27, that a surface has
            const float scale = p->layers[i].residual.plus_two ? 0.3f : 1.0f;
            const float reach = scale * sqrtf(3.0f / (taps * (float)s->cin));
            SPIRA_TRY(f(filling{stream, 0.0f, reach, at.weight, at.vectors}));
            SPIRA_TRY(f(filling{stream + 1, 0.0f, 0.1f, at.bias, at.end}));
        } else if (at.scale >= 0) {
            SPIRA_TRY(f(filling{stream, 1.0f, 0.2f, at.scale, at.shift}));
            SPIRA_TRY(f(filling{stream + 1, 0.0f, 0.1f, at.shift, at.end}));
        }
        stream += at.end > p->step[i].params ? 2 : 0;
    }
    return spira::status_success();
}

// The parameters of a blob.
SPIRA_API spira::status parameters_read(const char *path, const spira::net_plan *p, float *params) {
    unsigned char *memory;
    int64_t bytes;
    int unused = 0;
    spira::blob blob = {};
    spira::status s = scan::file_load(path, &memory, &bytes);
    s = spira::status_failed(s) ? s : spira::blob_open(memory, (size_t)bytes, &blob);
    s = spira::status_failed(s) ? s : spira::net_blob_read(p, &blob, params, &unused);
    free(memory);
    if (spira::status_failed(s) && s.subject != path) {
        const bool layer = s.code == spira::status_layer;
        fprintf(stderr, "reading the weights of %s%s%s:\n", path, layer ? ": layer " : "",
                layer ? p->layers[s.detail].name : "");
    }
    SPIRA_TRY(s);
    printf("weights: %s", path);
    if (unused) {
        printf(", %d entries of no layer", unused);
    }
    printf("\n");
    return s;
}

SPIRA_BOTH float filled(const filling &f, int64_t i) {
    return f.middle + f.reach * noise(f.stream, (uint64_t)(i - f.begin));
}

// The latents of the coarsest set, as a filling of `count` numbers.
SPIRA_API filling latents_of(int64_t count) {
    return {~0u, 0.0f, 1.0f, 0, count};
}

// ---- work ---------------------------------------------------------------------------------------

// What a layer has to do.
struct layer_work {
    double flop;  // multiplications of a convolution, times two
    double bytes; // of features and weights, each read or written once
};

// voxels, pairs: of each level
SPIRA_API layer_work work_of(const spira::net_plan *p, int i, const int64_t voxels[levels],
                             const int64_t pairs[levels]) {
    const spira::net_layer *l = &p->layers[i];
    const spira::net_step *step = &p->step[i];
    const spira::conv_shape *s = &step->shape;
    const int level = step->set; // sets are made level by level
    const bool conv = spira::net_is_conv(l);
    const int read = conv ? s->cin : l->repeat ? step->channels / l->repeat : step->channels;
    const int rows = read + step->channels + (l->residual.plus_two ? step->channels : 0);
    const double weights = conv ? (double)s->volume * s->cin * s->cout : 0.0;
    const double size = spira::numeric_size(step->type);
    return {conv ? 2.0 * s->cin * s->cout * (double)(s->volume > 1 ? pairs : voxels)[level] : 0.0,
            size * ((double)rows * (double)voxels[level] + weights)};
}

SPIRA_API double decoder_flop(const spira::net_plan *p, const int64_t voxels[levels],
                              const int64_t pairs[levels]) {
    double flop = 0;
    for (int i = 0; i < p->layer_count; ++i) {
        flop += work_of(p, i, voxels, pairs).flop;
    }
    return flop;
}

} // namespace generate

#endif
