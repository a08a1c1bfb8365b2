# SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
# examples/torch/spunet.py: SpUNet-v1m1, the U-Net that Pointcept labels point clouds with, as plain
# PyTorch on spira.pytorch.
#
# The names of its tensors are Pointcept's: checkpoints load, and examples/checkpoint.py converts
# what was trained here with --network spunet. That table has the full size (the defaults below);
# smaller networks need a map of their own (checkpoint.py --map).
#
#     net = SpUNet(in_channels=4, num_classes=20)
#     scores = net(spconv.SparseConvTensor(features, indices, shape, batch_size))  # [voxels, 20]
from functools import partial

import torch
from torch import nn

try:
    import spira.pytorch as spconv
except ImportError: # another library with spconv's names can be passed in
    spconv = None

CHANNELS = (32, 64, 128, 256, 256, 128, 96, 96) # of the encoder's stages, then of the decoder's
BLOCKS = (2, 3, 4, 6, 2, 2, 2, 2)


def modules(pairs):
    """A Sequential with names of its own."""
    sequence = nn.Sequential()
    for name, module in pairs:
        sequence.add_module(name, module)
    return sequence


def conv_norm_relu(conv, norm, x, residual=None):
    """A convolution, a batch norm, an addition and a ReLU; spira.pytorch has a function of its
    own."""
    x = conv(x)
    y = norm(x.features)
    return x.replace_feature(torch.relu(y if residual is None else y + residual.features))


def join(tensors):
    """Tensors of the same voxels, their channels side by side."""
    return tensors[0].replace_feature(torch.cat([x.features for x in tensors], 1))


class Block(nn.Module):
    """Two convolutions of size 3, plus the input."""

    def __init__(self, library, norm, cin, cout, key):
        super().__init__()
        self.proj = None
        if cin != cout:
            self.proj = library.SparseSequential(
                library.SubMConv3d(cin, cout, kernel_size=1, bias=False), norm(cout))
        self.conv1 = library.SubMConv3d(cin, cout, kernel_size=3, padding=1, bias=False,
                                        indice_key=key)
        self.bn1 = norm(cout)
        self.conv2 = library.SubMConv3d(cout, cout, kernel_size=3, padding=1, bias=False,
                                        indice_key=key)
        self.bn2 = norm(cout)
        self.run = getattr(library, "conv_norm_relu", conv_norm_relu)

    def forward(self, x):
        shortcut = x if self.proj is None else self.proj(x)
        y = self.run(self.conv1, self.bn1, x)
        return self.run(self.conv2, self.bn2, y, shortcut)


class SpUNet(nn.Module):
    """The U-Net.

    in_channels   values of a voxel
    num_classes   scores of a voxel
    base_channels of the first layer
    channels, blocks   of each stage: the encoder's, finest first, then the decoder's, coarsest
                  first
    norm          makes a batch norm of so many channels
    library       spira.pytorch, or another with spconv's names
    """

    def __init__(self, in_channels, num_classes, base_channels=32, channels=CHANNELS,
                 blocks=BLOCKS, norm=partial(nn.BatchNorm1d, eps=1e-3, momentum=0.01),
                 library=spconv):
        super().__init__()
        assert len(channels) == len(blocks) and len(channels) % 2 == 0
        stages = len(channels) // 2

        def stack(cin, cout, count, key):
            return modules((f"block{i}", Block(library, norm, cout if i else cin, cout, key))
                           for i in range(count))

        self.conv_input = library.SparseSequential(
            library.SubMConv3d(in_channels, base_channels, kernel_size=5, padding=2, bias=False,
                               indice_key="stem"), norm(base_channels), nn.ReLU())
        self.down, self.enc = nn.ModuleList(), nn.ModuleList()
        self.up, self.dec = nn.ModuleList(), nn.ModuleList()
        fine, ups = [base_channels, *channels[:stages]], list(channels[stages:])[::-1]
        for s in range(stages):
            self.down.append(library.SparseSequential(
                library.SparseConv3d(fine[s], fine[s + 1], kernel_size=2, stride=2, bias=False,
                                     indice_key=f"spconv{s + 1}"), norm(fine[s + 1]), nn.ReLU()))
            self.enc.append(stack(fine[s + 1], fine[s + 1], blocks[s], f"subm{s + 1}"))
            coarse = ups[s + 1] if s + 1 < stages else fine[stages]
            self.up.append(library.SparseSequential(
                library.SparseInverseConv3d(coarse, ups[s], kernel_size=2, bias=False,
                                            indice_key=f"spconv{s + 1}"), norm(ups[s]), nn.ReLU()))
            self.dec.append(stack(ups[s] + fine[s], ups[s], blocks[2 * stages - 1 - s],
                                  f"subm{s}"))
        self.join = library.JoinTable() if hasattr(library, "JoinTable") else join
        self.final = library.SubMConv3d(ups[0], num_classes, kernel_size=1, bias=True)

    def forward(self, x):
        x = self.conv_input(x)
        skips = []
        for down, enc in zip(self.down, self.enc):
            skips.append(x)
            x = enc(down(x))
        for up, dec in zip(reversed(self.up), reversed(self.dec)):
            x = dec(self.join([up(x), skips.pop()]))
        return self.final(x).features
