# SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
"""Norms over all voxels of a batch element: GroupNorm and instance norm. (LayerNorm and RMSNorm are
of rows: PyTorch's own.)"""
import torch
from torch import nn

from .. import layers
from .modules import SparseModule


class _Spread(torch.autograd.Function):
    """values [batch, channels] at the voxels of each batch element. The gradient is a sum over
    these, in one order."""

    @staticmethod
    def forward(ctx, values, batch, voxels):
        ctx.batch, ctx.voxels = batch, voxels
        return values[batch]

    @staticmethod
    def backward(ctx, grad):
        ids = torch.arange(ctx.voxels.batch_size, device=grad.device)
        batch = ctx.voxels.indices()[:, 0] # -1 in padding
        counts = (batch == ids[:, None]).sum(1, keepdim=True)
        return layers.global_avg_pool(grad.contiguous(), ctx.voxels) * counts, None, None


def spread_groups(means, groups, batch, voxels):
    """The mean of each group of channels, at the voxels."""
    of_group = means.unflatten(1, (groups, -1)).mean(2, keepdim=True)
    return _Spread.apply(of_group.expand(-1, -1, means.shape[1] // groups).flatten(1), batch, voxels)


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
        batch = voxels.indices()[:, 0].long().clamp(min=0)
        x = features if features.dtype == torch.float64 else features.float()
        x = x - spread_groups(layers.global_avg_pool(x, voxels), self.num_groups, batch, voxels)
        var = layers.global_avg_pool(x * x, voxels)
        x = x * spread_groups(var, self.num_groups, batch, voxels).add(self.eps).rsqrt()
        if self.affine:
            x = x * self.weight + self.bias
        return input.with_ordered(here.clear_padding(x).to(features.dtype), here)

    def extra_repr(self):
        return f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}"


class SparseInstanceNorm(SparseGroupNorm):
    """Each channel for itself."""

    def __init__(self, num_features, eps=1e-5, affine=False, **options):
        super().__init__(num_features, num_features, eps, affine, **options)
