// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/detectors.h: the sparse networks of detectors and segmenters that are trained with
// spconv, as tables of layers. The names are those of their checkpoints: layer N has the weight
// N.weight.
//
//   VoxelBackBone8x     OpenPCDet: SECOND, PV-RCNN, Voxel R-CNN
//   SpMiddleResNetFHD   CenterPoint; VoxelResBackBone8x of OpenPCDet
//   BEVFusion           the same layers with 5 values a voxel
//   VoxelNeXt           OpenPCDet, fully sparse; VoxelNeXt-Large is wider and has kernels of 5
//   SpUNet-v1m1         Pointcept, semantic segmentation
//   SpUNet-small        the same with fewer channels and blocks: torch/train.py
//
// Convolutions have batch norm and ReLU unless said otherwise. Those checkpoints write their axes
// z, y, x; here they are x, y, z.
#ifndef SPIRA_EXAMPLES_DETECTORS_H
#define SPIRA_EXAMPLES_DETECTORS_H

#include "network.h"

namespace networks {

// The range and the voxels of the detectors for nuScenes: an extent of 1440 x 1440 x 41. Other
// data sets have others: network_range.
SPIRA_API void network_nuscenes(network *n) {
    const float lo[3] = {-54, -54, -5}, hi[3] = {54, 54, 3}, voxel[3] = {0.075f, 0.075f, 0.2f};
    (void)network_range(n, lo, hi, voxel); // cannot fail
}

// Adds a strided convolution of spconv. padding, size and stride: of x and y, and of z.
SPIRA_API int network_down(network *n, const char *name, int source, int channels, int size,
                           int stride, int padding) {
    int i = network_conv(n, name, source, channels, size, stride);
    n->layers[i].rule = spira::net_rule_expand;
    n->layers[i].padding = spira::triple_make(padding, padding, padding);
    return i;
}

// Adds the last layer of an encoder: size 3 and stride 2 in z alone.
SPIRA_API int network_down_z(network *n, const char *name, int source, int channels) {
    int i = network_down(n, name, source, channels, 1, 1, 0);
    n->layers[i].size.z = 3;
    n->layers[i].stride.z = 2;
    return i;
}

// Adds residual blocks PREFIX.FIRST and PREFIX.(FIRST + 1), whose convolutions have biases.
SPIRA_API int network_biased_blocks(network *n, const char *prefix, int first, int source,
                                    int channels) {
    for (int b = first; b < first + 2; ++b) {
        char name[32];
        snprintf(name, sizeof name, "%.16s.%d", prefix, b);
        source = network_block(n, name, source, spira::net_none, channels, channels, 3);
        n->layers[source].bias = n->layers[source - 1].bias = true;
    }
    return source;
}

// ---- VoxelBackBone8x ----------------------------------------------------------------------------

SPIRA_API void network_voxelbackbone8x(network *n) {
    network_begin(n, 4);
    network_nuscenes(n);
    int at = network_conv(n, "conv_input.0", spira::net_input, 16, 3, 1);
    at = network_conv(n, "conv1.0.0", at, 16, 3, 1);
    at = network_down(n, "conv2.0.0", at, 32, 3, 2, 1);
    at = network_conv(n, "conv2.1.0", at, 32, 3, 1);
    at = network_conv(n, "conv2.2.0", at, 32, 3, 1);
    at = network_down(n, "conv3.0.0", at, 64, 3, 2, 1);
    at = network_conv(n, "conv3.1.0", at, 64, 3, 1);
    at = network_conv(n, "conv3.2.0", at, 64, 3, 1);
    at = network_down(n, "conv4.0.0", at, 64, 3, 2, 1);
    n->layers[at].padding.z = 0;
    at = network_conv(n, "conv4.1.0", at, 64, 3, 1);
    at = network_conv(n, "conv4.2.0", at, 64, 3, 1);
    at = network_down_z(n, "conv_out.0", at, 128);
    network_add(n, "dense", spira::net_layer_dense("", at));
}

// ---- SpMiddleResNetFHD --------------------------------------------------------------------------

SPIRA_API void network_spmiddleresnetfhd(network *n) {
    network_begin(n, 4);
    network_nuscenes(n);
    int at = network_conv(n, "conv_input.0", spira::net_input, 16, 3, 1);
    at = network_biased_blocks(n, "conv1", 0, at, 16);
    at = network_down(n, "conv2.0", at, 32, 3, 2, 1);
    at = network_biased_blocks(n, "conv2", 3, at, 32);
    at = network_down(n, "conv3.0", at, 64, 3, 2, 1);
    at = network_biased_blocks(n, "conv3", 3, at, 64);
    at = network_down(n, "conv4.0", at, 128, 3, 2, 1);
    n->layers[at].padding.z = 0;
    at = network_biased_blocks(n, "conv4", 3, at, 128);
    at = network_down_z(n, "extra_conv.0", at, 128);
    network_add(n, "dense", spira::net_layer_dense("", at));
}

// The encoder of BEVFusion (mmdetection3d). Its rows of the bird's-eye map run along x, its columns
// along y. The rows of a dense map run along y: points and weights have x and y exchanged.
SPIRA_API void network_bevfusion(network *n) {
    network_spmiddleresnetfhd(n);
    n->input_channels = 5;
    n->exchange_xy = true;
}

// ---- VoxelNeXt ----------------------------------------------------------------------------------

// large: wider, with kernels of 5 in the first two strided layers.
SPIRA_API void network_voxelnext(network *n, bool large) {
    static const int widths[2][6] = {{16, 32, 64, 128, 128, 128}, {32, 64, 128, 256, 256, 256}};
    const int *width = widths[large];
    network_begin(n, 4);
    network_nuscenes(n);
    int level[6];
    int at = network_conv(n, "conv_input.0", spira::net_input, width[0], 3, 1);
    at = network_biased_blocks(n, "conv1", 0, at, width[0]);
    for (int s = 1; s < 6; ++s) {
        char name[32];
        const int size = large && s < 3 ? 5 : 3;
        snprintf(name, sizeof name, "conv%d.0.0", s + 1);
        at = network_down(n, name, at, width[s], size, 2, size / 2);
        snprintf(name, sizeof name, "conv%d", s + 1);
        level[s] = at = network_biased_blocks(n, name, 1, at, width[s]);
    }
    at = network_add(n, "flatten", spira::net_layer_join("", level[3], level[4]));
    n->layers[at].source3 = spira::net_from(level[5]); // the union, without z
    n->layers[at].axis = spira::join_axis_z;
    at = network_down(n, "conv_out.0", at, width[5], 3, 1, 1); // stride 1 dilates the set
    n->layers[at].size.z = 1;
    n->layers[at].padding.z = 0;
    at = network_conv(n, "shared_conv.0", at, width[5], 3, 1);
    n->layers[at].size.z = 1;
    n->layers[at].bias = true;
}

// ---- SpUNet-v1m1 --------------------------------------------------------------------------------

// Adds blocks PREFIX.block0 .. block(COUNT - 1). The first one reads two sources.
SPIRA_API int network_spunet_blocks(network *n, const char *prefix, int count, int source,
                                    int source2, int from, int channels) {
    for (int b = 0; b < count; ++b) {
        char name[32];
        snprintf(name, sizeof name, "%.8s.block%d", prefix, b);
        source = network_block(n, name, source, source2, from, channels, 3);
        if (from != channels) { // it has a shortcut
            snprintf(n->names[source - 2], sizeof *n->names, "%.16s.proj.0", name);
        }
        from = channels;
        source2 = spira::net_none;
    }
    return source;
}

// The sizes of a U-Net. [s]: stage s has stride 2^(s + 1) in the encoder, 2^s in the decoder.
struct spunet_sizes {
    int base; // channels of the first layer
    int encoder[4], encoder_blocks[4];
    int decoder[4], decoder_blocks;
};

// Its strided layers have size 2, stride 2, no padding, and an extent that cuts nothing off: the
// voxels are those of the floor rule.
SPIRA_API void network_spunet(network *n, const spunet_sizes *sizes, int classes) {
    char name[32];
    network_begin(n, 4);
    n->scores = true;
    int skip[4], skip_channels[4], channels = sizes->base;
    int at = network_conv(n, "conv_input.0", spira::net_input, channels, 5, 1);
    for (int s = 0; s < 4; ++s) {
        skip[s] = at;
        skip_channels[s] = channels;
        channels = sizes->encoder[s];
        snprintf(name, sizeof name, "down.%d.0", s);
        at = network_conv(n, name, at, channels, 2, 2);
        snprintf(name, sizeof name, "enc.%d", s);
        at = network_spunet_blocks(n, name, sizes->encoder_blocks[s], at, spira::net_none, channels,
                                   channels);
    }
    for (int s = 3; s >= 0; --s) {
        channels = sizes->decoder[s];
        snprintf(name, sizeof name, "up.%d.0", s);
        at = network_conv(n, name, at, channels, 2, 2);
        n->layers[at].transposed = true;
        snprintf(name, sizeof name, "dec.%d", s);
        at = network_spunet_blocks(n, name, sizes->decoder_blocks, at, skip[s],
                                   channels + skip_channels[s], channels);
    }
    at = network_conv(n, "final", at, classes, 1, 1);
    n->layers[at].bias = true;
    n->layers[at].norm = false;
    n->layers[at].act = spira::activation_none;
}

// SpUNet-v1m1 has the sizes of Pointcept, SpUNet-small those of examples/torch/train.py.
SPIRA_API spunet_sizes spunet_v1m1() {
    return {32, {32, 64, 128, 256}, {2, 3, 4, 6}, {96, 96, 128, 256}, 2};
}

SPIRA_API spunet_sizes spunet_small() {
    return {16, {16, 32, 48, 64}, {1, 1, 1, 1}, {16, 32, 32, 48}, 1};
}

} // namespace networks

#endif
