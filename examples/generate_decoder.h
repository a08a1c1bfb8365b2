// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/generate_decoder.h: the shape decoder of TRELLIS.2 as a list of steps: ConvNeXt blocks
// at five levels, and between them blocks that give each voxel up to eight children.
//
// One list serves the GPU (generate_device.cuh) and the host (generate_host.h). A step reads and
// writes buffers; a buffer has `columns` channels for each voxel of a level.
#ifndef SPIRA_EXAMPLES_GENERATE_DECODER_H
#define SPIRA_EXAMPLES_GENERATE_DECODER_H

#include "../spira/norm.h"
#include "generate_shape.h"

namespace generate {

enum { levels = steps + 1, latents = 32, outputs = 7, spread = 4 /* of a block's inner layer */ };

// ConvNeXt blocks of a level.
static const int level_blocks[levels] = {4, 16, 8, 4, 0};

enum op_kind {
    op_map,    // the kernel map of a level, which all its convolutions read
    op_conv,   // of size 3 or 1, with bias, activation and residual
    op_norm,   // LayerNorm and activation
    op_rule,   // logits that keep the shape
    op_divide, // the next level's set, from logits
    op_gather, // rows of children out of their parents' rows, each channel `repeat` times
};

// One step. Start from zero and fill it by name.
struct op {
    op_kind kind;
    int level;             // of the output; op_rule, op_divide: of the parents
    int in, out, residual; // buffers; residual: -1 for none
    int cin, cout, size;   // op_conv, op_norm, op_gather: cout channels
    int weights;           // op_conv: its number; op_norm with a gain: the same
    spira::activation act; //
    float epsilon;         // op_norm
    bool affine;           // op_norm: has gain and shift
    int repeat;            // op_gather
};

struct buffer {
    int level, columns;
};

struct decoder {
    std::vector<op> ops;
    std::vector<buffer> buffers;
    int channels[levels];
    int parameters; // numbers of op.weights
    int in, out;    // buffers: latents, results
};

SPIRA_API int buffer_add(decoder *d, int level, int columns) {
    d->buffers.push_back({level, columns});
    return (int)d->buffers.size() - 1;
}

SPIRA_API op *op_add(decoder *d, op_kind kind, int level, int in, int out) {
    op o = {};
    o.kind = kind;
    o.level = level;
    o.in = in;
    o.out = out;
    o.residual = -1;
    d->ops.push_back(o);
    return &d->ops.back();
}

SPIRA_API op *conv_add(decoder *d, int level, int size, int in, int cin, int out, int cout) {
    op *o = op_add(d, op_conv, level, in, out);
    o->size = size;
    o->cin = cin;
    o->cout = cout;
    o->weights = d->parameters++;
    return o;
}

SPIRA_API op *norm_add(decoder *d, int level, int in, int out, int channels, bool affine) {
    op *o = op_add(d, op_norm, level, in, out);
    o->cout = channels;
    o->epsilon = 1e-6f;
    o->affine = affine;
    o->weights = affine ? d->parameters++ : -1;
    return o;
}

// x + L(SiLU(L(LN(S3(x))))): the inner layer has four times the channels.
SPIRA_API void block_add(decoder *d, int level, int x, int h, int wide) {
    const int c = d->channels[level];
    conv_add(d, level, 3, x, c, h, c);
    norm_add(d, level, h, h, c, true);
    conv_add(d, level, 1, h, c, wide, spread * c)->act = spira::activation_silu;
    conv_add(d, level, 1, wide, spread * c, x, c)->residual = x;
}

// From a level to the next: eight rows of half the channels for each parent, of which the logits
// keep some; then a convolution among the children, plus the parents' own channels.
SPIRA_API void up_add(decoder *d, int level, int x, int h, int wide, int logits, int child, int y) {
    const int c = d->channels[level], half = d->channels[level + 1];
    conv_add(d, level, 1, x, c, logits, spira::subdivide_children);
    op_add(d, op_rule, level, -1, logits); // those of random weights mean nothing
    norm_add(d, level, x, h, c, true)->act = spira::activation_silu;
    conv_add(d, level, 3, h, c, wide, spira::subdivide_children * half);
    op_add(d, op_divide, level, logits, -1);
    op_add(d, op_map, level + 1, -1, -1);
    op *g = op_add(d, op_gather, level + 1, wide, child);
    g->cout = half;
    g->repeat = 1;
    norm_add(d, level + 1, child, child, half, false)->act = spira::activation_silu;
    g = op_add(d, op_gather, level + 1, x, y);
    g->cout = half;
    g->repeat = half / (c / spira::subdivide_children);
    conv_add(d, level + 1, 3, child, half, y, half)->residual = y;
}

// first: channels of the coarsest level, a multiple of 128; 1024 in TRELLIS.2.
SPIRA_API decoder decoder_make(int first) {
    decoder d = {};
    int x[levels], child[levels];
    for (int l = 0; l < levels; ++l) {
        d.channels[l] = first >> l;
        x[l] = buffer_add(&d, l, d.channels[l]);
        child[l] = buffer_add(&d, l, d.channels[l]);
    }
    d.in = buffer_add(&d, 0, latents);
    d.out = buffer_add(&d, steps, outputs);
    op_add(&d, op_map, 0, -1, -1);
    conv_add(&d, 0, 1, d.in, latents, x[0], first);
    for (int l = 0; l < levels; ++l) {
        const int wide = l < steps ? buffer_add(&d, l, spread * d.channels[l]) : -1;
        for (int i = 0; i < level_blocks[l]; ++i) {
            block_add(&d, l, x[l], child[l], wide);
        }
        if (l < steps) {
            const int logits = buffer_add(&d, l, spira::subdivide_children);
            up_add(&d, l, x[l], child[l], wide, logits, child[l + 1], x[l + 1]);
        }
    }
    norm_add(&d, steps, x[steps], child[steps], d.channels[steps], false)->epsilon = 1e-5f;
    conv_add(&d, steps, 1, child[steps], d.channels[steps], d.out, outputs);
    return d;
}

// ---- parameters ---------------------------------------------------------------------------------

// A number in [-1, 1) that depends on its place alone.
SPIRA_BOTH float noise(uint32_t stream, uint64_t at) {
    uint64_t v = (at + 1) * 0x9e3779b97f4a7c15ull ^ (uint64_t)(stream + 1) * 0xbf58476d1ce4e5b9ull;
    v = (v ^ v >> 30) * 0xbf58476d1ce4e5b9ull;
    v = (v ^ v >> 27) * 0x94d049bb133111ebull;
    return (float)(int32_t)(v >> 32) * 0x1p-31f;
}

// How large a convolution's weights are: so that its outputs are about as large as its inputs. What
// is added to a residual stays small.
SPIRA_BOTH float weight_scale(const op &o) {
    const float taps = o.size == 3 ? 12.0f : 1.0f; // of 27, that a voxel of a surface has
    return (o.residual >= 0 ? 0.3f : 1.0f) * sqrtf(3.0f / (taps * (float)o.cin));
}

// Parameters of a step: weights [volume, cin, cout] in stream 2 n, then bias [cout] in 2 n + 1; of
// a norm: gain, shift.
SPIRA_BOTH float weight_of(const op &o, uint64_t at) {
    return weight_scale(o) * noise(2 * (uint32_t)o.weights, at);
}
SPIRA_BOTH float bias_of(const op &o, int channel) {
    return 0.1f * noise(2 * (uint32_t)o.weights + 1, (uint64_t)channel);
}
SPIRA_BOTH float gain_of(const op &o, int channel) {
    return 1 + 0.2f * noise(2 * (uint32_t)o.weights, (uint64_t)channel);
}

// The latents of the coarsest set [rows, latents].
SPIRA_BOTH float latent_of(uint64_t at) {
    return noise(~0u, at);
}

// Multiplications of all convolutions, times two, as pairs of voxels have them.
struct work {
    int64_t voxels[levels], pairs[levels];
};

SPIRA_API double decoder_flop(const decoder &d, const work &w) {
    double flop = 0;
    for (const op &o : d.ops) {
        if (o.kind == op_conv) {
            flop += 2.0 * o.cin * o.cout * (double)(o.size == 3 ? w.pairs : w.voxels)[o.level];
        }
    }
    return flop;
}

} // namespace generate

#endif
