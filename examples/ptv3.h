// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/ptv3.h: the convolutional half of Point Transformer V3 as a table of layers: all but
// attention, which is another library's. Layers have the names of Pointcept's checkpoints.
//
// A block is x + LayerNorm(L(S3(x))), the conditional position encoding (xCPE), then, behind the
// attention that is left out here, x + L(GELU(L(LayerNorm(x)))). S3: a submanifold convolution of
// size 3; L: a linear layer.
//
// Two kinds of layers have the identity as weights (ptv3_identity): `down.norm`, a batch norm and
// GELU behind the pooling, and `up`, which gathers each voxel's parent and adds the skip
// connection.
#ifndef SPIRA_EXAMPLES_PTV3_H
#define SPIRA_EXAMPLES_PTV3_H

#include "network.h"

namespace networks {

enum { ptv3_stages = 5 };

struct ptv3_sizes {
    int stem;                                          // size of the first kernel
    int encoder[ptv3_stages], blocks[ptv3_stages];     // channels of the encoder's stages
    int decoder[ptv3_stages - 1], up[ptv3_stages - 1]; // of the decoder's, the finest first; blocks
    int spread;                                        // of a block's inner layer
};

// Of Pointcept's configuration for semantic segmentation.
SPIRA_API ptv3_sizes ptv3_m1() {
    return {5, {32, 64, 128, 256, 512}, {2, 2, 2, 6, 2}, {64, 64, 128, 256}, {2, 2, 2, 2}, 4};
}

struct ptv3_name {
    char text[32];
};

SPIRA_API ptv3_name ptv3_name_of(const char *stage, const char *part) {
    ptv3_name name;
    snprintf(name.text, sizeof name.text, "%.16s.%.14s", stage, part);
    return name;
}

SPIRA_API int ptv3_conv(network *n, ptv3_name name, int source, int channels, int size) {
    spira::net_layer l = spira::net_layer_conv("", source, channels, size, 1);
    l.bias = true;
    return network_add(n, name.text, l);
}

// A linear layer, batch norm and GELU.
SPIRA_API int ptv3_linear_norm(network *n, ptv3_name name, int source, int channels) {
    const int at = ptv3_conv(n, name, source, channels, 1);
    n->layers[at].norm = true;
    n->layers[at].act = spira::activation_gelu;
    return at;
}

SPIRA_API int ptv3_block(network *n, const char *block, int x, int channels, int spread) {
    int h = ptv3_conv(n, ptv3_name_of(block, "cpe.0"), x, channels, 3);
    h = ptv3_conv(n, ptv3_name_of(block, "cpe.1"), h, channels, 1);
    h = network_add(n, ptv3_name_of(block, "cpe.2").text, spira::net_layer_norm("", h, 1e-5f));
    n->layers[h].residual = spira::net_from(x);
    x = h;
    h = network_add(n, ptv3_name_of(block, "norm2.0").text, spira::net_layer_norm("", x, 1e-5f));
    h = ptv3_conv(n, ptv3_name_of(block, "mlp.0.fc1"), h, spread * channels, 1);
    n->layers[h].act = spira::activation_gelu;
    h = ptv3_conv(n, ptv3_name_of(block, "mlp.0.fc2"), h, channels, 1);
    n->layers[h].residual = spira::net_from(x);
    return h;
}

// A linear layer, the maximum over the voxels of each cell of 2, batch norm and GELU.
SPIRA_API int ptv3_down(network *n, const char *stage, int x, int channels) {
    int h = ptv3_conv(n, ptv3_name_of(stage, "down.proj"), x, channels, 1);
    h = network_add(n, ptv3_name_of(stage, "down.pool").text,
                    spira::net_layer_pool("", spira::net_pool_max, h, 2, 2));
    h = ptv3_linear_norm(n, ptv3_name_of(stage, "down.norm"), h, channels);
    n->layers[h].bias = false;
    return h;
}

// Of the coarse rows and of the skip connection a linear layer, batch norm and GELU; each voxel's
// sum with its parent.
SPIRA_API int ptv3_up(network *n, const char *stage, int x, int skip, int channels) {
    const int coarse = ptv3_linear_norm(n, ptv3_name_of(stage, "up.proj.0"), x, channels);
    const int fine = ptv3_linear_norm(n, ptv3_name_of(stage, "up.proj_skip.0"), skip, channels);
    const int sum = network_add(n, ptv3_name_of(stage, "up").text,
                                spira::net_layer_conv("", coarse, channels, 2, 2));
    n->layers[sum].transposed = true;
    n->layers[sum].residual = spira::net_from(fine);
    return sum;
}

// Input: 4 values a voxel, as nuScenes has them (ScanNet: 6, colour and normal).
SPIRA_API void network_ptv3(network *n, const ptv3_sizes *sizes) {
    char text[40];
    int skip[ptv3_stages];
    network_begin(n, 4);
    spira::net_layer stem =
        spira::net_layer_conv("", spira::net_input, sizes->encoder[0], sizes->stem, 1);
    stem.norm = true;
    stem.act = spira::activation_gelu;
    int x = network_add(n, "embedding.stem.conv", stem);
    for (int s = 0; s < ptv3_stages; ++s) {
        snprintf(text, sizeof text, "enc.enc%d", s);
        x = s ? ptv3_down(n, text, x, sizes->encoder[s]) : x;
        for (int b = 0; b < sizes->blocks[s]; ++b) {
            snprintf(text, sizeof text, "enc.enc%d.block%d", s, b);
            x = ptv3_block(n, text, x, sizes->encoder[s], sizes->spread);
        }
        skip[s] = x;
    }
    for (int s = ptv3_stages - 2; s >= 0; --s) {
        snprintf(text, sizeof text, "dec.dec%d", s);
        x = ptv3_up(n, text, x, skip[s], sizes->decoder[s]);
        for (int b = 0; b < sizes->up[s]; ++b) {
            snprintf(text, sizeof text, "dec.dec%d.block%d", s, b);
            x = ptv3_block(n, text, x, sizes->decoder[s], sizes->spread);
        }
    }
}

// Writes the weights that are the identity (above).
SPIRA_API void ptv3_identity(const spira::net_plan *plan, float *params) {
    for (int i = 0; i < plan->layer_count; ++i) {
        const spira::net_layer *l = &plan->layers[i];
        const spira::net_source source = l->source;
        const bool pooled = source.plus_two > 1 &&
                            plan->layers[spira::net_number(source)].op == spira::net_pool_max;
        const spira::net_params at = spira::net_params_of(plan, i);
        const int channels = plan->step[i].channels;
        for (int64_t p = at.weight; (pooled || l->transposed) && p < at.vectors; ++p) {
            const int64_t element = (p - at.weight) % ((int64_t)channels * channels);
            params[p] = element % (channels + 1) == 0 ? 1.0f : 0.0f;
        }
    }
}

} // namespace networks

#endif
