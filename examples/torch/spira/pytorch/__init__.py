# SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
"""Modules with spconv's names and arguments.

    import spira.pytorch as spconv       # instead of: import spconv.pytorch as spconv

What differs, and what is not there: README.md, "From spconv". What spconv has not:
prepare, capacities, pad, sort_rows, norm_relu, BatchNorm1d, convert_batchnorm, and count=, capacities= and
ordered= of SparseConvTensor.
"""
from enum import Enum
from types import SimpleNamespace

from . import conv, modules, pool, tensor as core
from .conv import (SparseConv1d, SparseConv2d, SparseConv3d, SparseConvolution,
                   SparseInverseConv1d, SparseInverseConv2d, SparseInverseConv3d, SubMConv1d,
                   SubMConv2d, SubMConv3d)
from .modules import (AddTable, ConcatTable, Identity, JoinTable, RemoveGrid, SparseModule,
                      SparseReLU, SparseSequential, ToDense, assign_name_for_sparse_modules)
from .norm import BatchNorm1d, convert_batchnorm, norm_relu
from .pool import (SparseAvgPool1d, SparseAvgPool2d, SparseAvgPool3d, SparseGlobalAvgPool,
                   SparseGlobalMaxPool, SparseMaxPool1d, SparseMaxPool2d, SparseMaxPool3d)
from .prepare import capacities, pad, prepare, sort_rows
from .tensor import IndiceData, SparseConvTensor


class ConvAlgo(Enum):
    """spconv's ways to compute a convolution: accepted by the layers, and ignored."""
    Native = 0
    MaskImplicitGemm = 1
    MaskSplitImplicitGemm = 2


core.ConvAlgo = ConvAlgo
constants = SimpleNamespace() # spconv's switches: what is set here has no effect

__all__ = [name for name in dir()
           if not name.startswith("_") and name not in ("Enum", "SimpleNamespace", "core")]

_MISSING = {
    "SparseConvTranspose1d": "use SparseInverseConv, which leads back to the finer voxels",
    "SparseConvTranspose2d": "use SparseInverseConv, which leads back to the finer voxels",
    "SparseConvTranspose3d": "use SparseInverseConv, which leads back to the finer voxels",
    "SparseConvTranspose4d": "there are one to three axes",
    "SparseConv4d": "there are one to three axes",
    "SubMConv4d": "there are one to three axes",
    "SparseInverseConv4d": "there are one to three axes",
    "SparseMaxPool4d": "there are one to three axes",
    "SparseBatchNorm": "use torch.nn.BatchNorm1d",
    "SparseSyncBatchNorm": "use torch.nn.SyncBatchNorm",
    "functional": "use spira.conv and the other functions of spira",
    "ops": "use spira.voxel_set, spira.kernel_map and the other functions of spira",
    "utils": "make voxels with spira's voxelizer in C++, or with torch.unique",
    "hash": "there is no hash table: voxels are sorted words",
    "quantization": "there is no int8",
}


def __getattr__(name):
    if name in _MISSING:
        raise AttributeError(f"spira.pytorch has no {name}: {_MISSING[name]}")
    raise AttributeError(f"module 'spira.pytorch' has no attribute {name!r}")
