# SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
"""Modules with spconv's names and arguments.

    import spira.pytorch as spconv       # instead of: import spconv.pytorch as spconv
    spira.pytorch.install_as_spconv()    # or: leave the model's imports as they are

What differs, and what is not there: README.md, "From spconv". What spconv has not:
prepare, capacities, pad, sort_rows, norm_relu, with_act, pack, BatchNorm1d, convert_batchnorm,
prune, subdivide, to_children, largest, at_points, SparseGroupNorm, SparseInstanceNorm, contiguous_weights,
export, qat, and count=, capacities= and ordered= of SparseConvTensor.
"""
from . import names, qat
from .choose import at_points, largest, prune, subdivide, to_children
from .conv import (SparseConv1d, SparseConv2d, SparseConv3d, SparseConvolution,
                   SparseConvTranspose1d, SparseConvTranspose2d, SparseConvTranspose3d,
                   SparseInverseConv1d, SparseInverseConv2d, SparseInverseConv3d, SubMConv1d,
                   SubMConv2d, SubMConv3d, contiguous_weights)
from .element import SparseGroupNorm, SparseInstanceNorm
from .export import export
from .modules import (AddTable, AddTableMisaligned, ConcatTable, Identity, JoinTable, RemoveGrid,
                      SparseBatchNorm, SparseModule, SparseReLU, SparseSequential,
                      SparseSyncBatchNorm, ToDense, assign_name_for_sparse_modules)
from .names import ConvAlgo, install_as_spconv
from .norm import BatchNorm1d, conv_norm_relu, convert_batchnorm, norm_relu
from .pool import (SparseAvgPool1d, SparseAvgPool2d, SparseAvgPool3d, SparseGlobalAvgPool,
                   SparseGlobalMaxPool, SparseMaxPool1d, SparseMaxPool2d, SparseMaxPool3d)
from .prepare import capacities, pad, prepare, sort_rows
from .tensor import IndiceData, SparseConvTensor
from .voxels import PointToVoxel
from .with_act import pack, with_act

SparseIdentity = Identity
globals().update(names.CLASSES)
globals().update({name: names.part(__name__, name) for name in names.PARTS})

__all__ = [name for name in dir() if not name.startswith("_")]


def __getattr__(name):
    raise AttributeError(f"module 'spira.pytorch' has no attribute {name!r}" + (
        ": spira.pytorch.qat trains for int8" if name == "quantization" else ""))
