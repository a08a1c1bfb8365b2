// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/networks.h: networks as tables of layers, by name. Those of detectors are in
// detectors.h.
//
// All convolutions have batch norm and ReLU and no bias. A residual block is conv-norm-ReLU,
// conv-norm, plus a 1x1x1 conv-norm shortcut where the channels change, then ReLU.
#ifndef SPIRA_EXAMPLES_NETWORKS_H
#define SPIRA_EXAMPLES_NETWORKS_H

#include "detectors.h"
#include "ptv3.h"

namespace networks {

// MinkUNet42: 42 convolutions besides the shortcuts; strides 1, 2, 4, 8, 16 and back.
SPIRA_API void network_minkunet42(network *n) {
    static const int encoder[4] = {32, 64, 128, 256}, decoder[4] = {256, 128, 96, 96};
    char text[32];
    network_begin(n, 4);
    int skip[4], skip_channels[4];
    int at = network_conv(n, "stem1", spira::net_input, 32, 3, 1);
    at = network_conv(n, "stem2", at, 32, 3, 1);
    int channels = 32;
    for (int s = 0; s < 4; ++s) {
        skip[s] = at;
        skip_channels[s] = channels;
        snprintf(text, sizeof text, "down%d", s + 1);
        at = network_conv(n, text, at, channels, 2, 2);
        for (int b = 0; b < 2; ++b) {
            snprintf(text, sizeof text, "enc%d.%d", s + 1, b + 1);
            at = network_block(n, text, at, spira::net_none, channels, encoder[s], 3);
            channels = encoder[s];
        }
    }
    for (int s = 0; s < 4; ++s) {
        snprintf(text, sizeof text, "up%d", s + 1);
        at = network_conv(n, text, at, decoder[s], 2, 2);
        n->layers[at].transposed = true;
        snprintf(text, sizeof text, "dec%d.1", s + 1);
        at = network_block(n, text, at, skip[3 - s], decoder[s] + skip_channels[3 - s], decoder[s],
                           3);
        snprintf(text, sizeof text, "dec%d.2", s + 1);
        at = network_block(n, text, at, spira::net_none, decoder[s], decoder[s], 3);
    }
}

// SparseResNet21 (sizes 3) and SparseResNet-Large, the backbone of CenterPoint-Large (sizes 5).
SPIRA_API void network_sparseresnet(network *n, int size, bool head) {
    static const int stages[4] = {16, 32, 64, 128};
    char text[32];
    network_begin(n, 4);
    int at = spira::net_input;
    for (int s = 0; s < 4; ++s) {
        snprintf(text, sizeof text, "stage%d.1", s + 1);
        at = network_conv(n, text, at, stages[s], size, s == 0 ? 1 : 2);
        for (int b = 0; b < 2; ++b) {
            snprintf(text, sizeof text, "stage%d.%d", s + 1, b + 2);
            at = network_block(n, text, at, spira::net_none, stages[s], stages[s], size);
        }
    }
    if (head) {
        at = network_conv(n, "out", at, 128, 1, 1);
        n->layers[at].size.z = 3;
        n->layers[at].stride.z = 2;
    }
}

// Numbers that the user of a network chooses. 0: the usual ones.
struct network_sizes {
    int channels; // of the input: 4 values a voxel, 5 of BEVFusion
    int classes;  // of SpUNet-v1m1: 16, of SpUNet-small: 7, those of scene_street.h
};

// The names that network_make knows.
static constexpr char network_names[] =
    "MinkUNet42, SparseResNet21, SparseResNet-Large, VoxelBackBone8x,\n"
    "      SpMiddleResNetFHD, BEVFusion, VoxelNeXt, VoxelNeXt-Large, SpUNet-v1m1,\n"
    "      SpUNet-small, PTv3-conv";

// Finds a network by name. False if there is none, or if it is given classes and has none: then it
// has layers. Planning refuses channels and classes that are too many.
SPIRA_API bool network_make(const char *name, const network_sizes *sizes, network *n) {
    bool classes = false;
    if (!strcmp(name, "MinkUNet42")) {
        network_minkunet42(n);
    } else if (!strcmp(name, "SparseResNet21")) {
        network_sparseresnet(n, 3, true);
    } else if (!strcmp(name, "SparseResNet-Large")) {
        network_sparseresnet(n, 5, false);
    } else if (!strcmp(name, "VoxelBackBone8x")) {
        network_voxelbackbone8x(n);
    } else if (!strcmp(name, "SpMiddleResNetFHD")) {
        network_spmiddleresnetfhd(n);
    } else if (!strcmp(name, "BEVFusion")) {
        network_bevfusion(n);
    } else if (!strcmp(name, "VoxelNeXt")) {
        network_voxelnext(n, false);
    } else if (!strcmp(name, "VoxelNeXt-Large")) {
        network_voxelnext(n, true);
    } else if (!strcmp(name, "SpUNet-v1m1")) {
        const spunet_sizes full = spunet_v1m1();
        network_spunet(n, &full, sizes->classes ? sizes->classes : 16);
        classes = true;
    } else if (!strcmp(name, "SpUNet-small")) {
        const spunet_sizes small = spunet_small();
        network_spunet(n, &small, sizes->classes ? sizes->classes : 7);
        classes = true;
    } else if (!strcmp(name, "PTv3-conv")) {
        const ptv3_sizes full = ptv3_m1();
        network_ptv3(n, &full);
    } else {
        return false;
    }
    n->input_channels = sizes->channels ? sizes->channels : n->input_channels;
    return classes || !sizes->classes;
}

// The same with the usual numbers.
SPIRA_API bool network_make(const char *name, network *n) {
    const network_sizes usual = {0, 0};
    return network_make(name, &usual, n);
}

// A number in [0, 1) from a seed and a position, independent of the order of the calls.
SPIRA_API float network_random(uint32_t seed, uint64_t position) {
    uint64_t z = position + (uint64_t)seed * 0x9e3779b97f4a7c15ull + 0x632be59bd9b4e019ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return (float)((z ^ (z >> 31)) >> 40) / 16777216.0f;
}

// Generates parameters from a seed. Weights are uniform and preserve the magnitude of the features
// where about half of the offsets have a source. Scales are a little below 1, so that 16 residual
// blocks in a row stay within fp16. Shifts are small. A network has the same ones with int8 layers,
// whose steps are those of the weights.
SPIRA_API void network_weights(const spira::net_plan *plan, uint32_t seed, float *params) {
    int64_t steps = 0; // of the layers before
    for (int i = 0; i < plan->layer_count; ++i) {
        const spira::conv_shape *s = &plan->step[i].shape;
        spira::net_params at = spira::net_params_of(plan, i);
        float terms = (float)(s->cin + s->cin2) * (1.0f + 0.5f * (float)(s->volume - 1));
        float reach = sqrtf(6.0f / terms);
        const int64_t weights = at.weight < 0 ? 0 : spira::conv_products(s) * s->cout;
        const int64_t rest = at.weight < 0 ? at.vectors : at.weight + weights;
        for (int64_t p = at.weight; p < at.weight + weights; ++p) {
            params[p] = reach * (2.0f * network_random(seed, (uint64_t)(p - steps)) - 1.0f);
        }
        const int64_t end = at.step < 0 ? at.end : at.step;
        for (int64_t p = rest; p < end; ++p) {
            float r = network_random(seed, (uint64_t)(p - steps));
            params[p] = p < at.shift ? 0.5f + 0.4f * r : 0.2f * r - 0.1f;
        }
        steps += at.end - end;
    }
    (void)spira::net_params_steps(plan, params); // cannot fail: the weights are finite
}

} // namespace networks

#endif
