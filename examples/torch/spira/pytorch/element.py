# SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
"""Norms over all voxels of a batch element: GroupNorm and instance norm. (Those of rows are
PyTorch's modules, which compute them; with_act does so by kernels of spira.)"""
import torch
from torch import nn

from .. import layers
from .modules import SparseModule


class SparseGroupNorm(SparseModule):
    """(x - mean) / sqrt(var + eps) * weight + bias, mean and variance over all voxels of a batch
    element and the channels of a group, in fp32; var divided by their number. Deterministic. Zeros
    in padding.
    """

    def __init__(self, num_groups, num_channels, eps=1e-5, affine=True, device=None, dtype=None,
                 name=None):
        super().__init__(name=name)
        if num_groups < 1 or num_channels % num_groups:
            raise ValueError(f"num_groups: {num_groups} does not divide {num_channels} channels")
        self.num_groups, self.num_channels, self.eps = num_groups, num_channels, eps
        self.affine = affine
        for key, value in (("weight", torch.ones), ("bias", torch.zeros)):
            self.register_parameter(key, nn.Parameter(value(num_channels, device=device,
                                                            dtype=dtype)) if affine else None)

    def forward(self, input):
        here = input.coordinates()
        if here.extra is not None:
            raise NotImplementedError(f"{type(self).__name__}: not with layers.keep_duplicates")
        features, voxels = input.ordered(here), here.voxels
        if features.shape[1] != self.num_channels:
            raise ValueError(f"features: {features.shape[1]} channels, but {type(self).__name__} "
                             f"has num_channels {self.num_channels}")
        made = layers.norm_groups(features, self.weight, self.bias, voxels, self.num_groups,
                                  self.eps)
        return input.with_ordered(made, here)

    def extra_repr(self):
        return f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}"


class SparseInstanceNorm(SparseGroupNorm):
    """Each channel for itself."""

    def __init__(self, num_features, eps=1e-5, affine=False, **options):
        super().__init__(num_features, num_features, eps, affine, **options)
