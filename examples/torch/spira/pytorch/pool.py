# SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
"""Pooling with spconv's names and arguments."""
from torch import nn

from .. import layers
from .conv import check_input, each_axis, noted
from .modules import SparseModule


class _Pool(SparseModule):
    ndim, kind = 3, "max_pool"

    def __init__(self, kernel_size, stride=None, padding=0, dilation=1, indice_key=None, algo=None,
                 record_voxel_count=False, name=None):
        super().__init__(name=name)
        self.kernel_size = each_axis(kernel_size, self.ndim, "kernel_size")
        self.stride = each_axis(kernel_size if stride is None else stride, self.ndim, "stride")
        self.padding = each_axis(padding, self.ndim, "padding")
        self.dilation = each_axis(dilation, self.ndim, "dilation")
        self.indice_key, self.subm = indice_key, False

    def forward(self, input):
        check_input(input, self)
        here = input.coordinates()
        found, notes = noted(input, self, "pool", here, lambda here: here.strided(
            self.kernel_size, self.stride, self.padding, self.dilation, self.indice_key))
        values = getattr(layers, self.kind)(here.first_rows(input.ordered(here)), found.map)
        return input.with_ordered(values, found.outputs, notes)

    def extra_repr(self):
        return ", ".join(f"{name}={list(getattr(self, name))}"
                         for name in ("kernel_size", "stride", "padding", "dilation"))


class SparseMaxPool1d(_Pool):
    ndim = 1


class SparseMaxPool2d(_Pool):
    ndim = 2


class SparseMaxPool3d(_Pool):
    """The largest feature of the voxels under the kernel; places without a voxel do not count."""


class SparseAvgPool1d(_Pool):
    ndim, kind = 1, "avg_pool"


class SparseAvgPool2d(_Pool):
    ndim, kind = 2, "avg_pool"


class SparseAvgPool3d(_Pool):
    """The mean of the voxels under the kernel; places without a voxel do not count."""
    kind = "avg_pool"


class _Global(SparseModule):
    """Over all voxels of a batch: [batch_size, channels]. Zero for a batch without a voxel."""
    how = "global_max_pool"

    def forward(self, input):
        return input.coordinates().global_pool(getattr(layers, self.how), input.ordered())


class SparseGlobalMaxPool(_Global):
    pass


class SparseGlobalAvgPool(_Global):
    how = "global_avg_pool"
