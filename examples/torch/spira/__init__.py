# SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
"""spira for PyTorch: sparse convolution on voxelised point clouds, with gradients.

    voxels = spira.voxel_set(indices, spatial_shape, batch_size)       # sorted, packed
    same   = spira.kernel_map(voxels, voxels, 3)                       # submanifold, size 3
    coarse = spira.expand(voxels, 3, stride=2, padding=1)              # spconv's rule
    down   = spira.kernel_map(voxels, coarse, 3)
    x = spira.conv(features, weight, bias, same)                       # and its gradients
    y = spira.conv(x, weight2, None, down)
    z = spira.conv(y, weight3, None, down.reverse())                   # inverse layer

Features are rows in the order of the set: `voxels.rows.sort(features)` unless `voxels.rows` is
None. `spira.pytorch` has modules with spconv's names on top of this.
"""
from . import library  # noqa: F401  loads the operators
from . import layers
from .choose import Taken, curve, find, largest, prune, subdivide, union
from .layers import (avg_pool, check_weights, conv, dense, global_avg_pool, global_max_pool,
                     max_pool)
from .maps import KernelMap, kernel_map
from .points import Around, interpolate
from .sets import RowOrder, VoxelSet, check_status, expand, narrow, permute_rows, voxel_set

__all__ = ["Around", "KernelMap", "RowOrder", "Taken", "VoxelSet", "avg_pool", "check_status",
           "check_weights", "conv", "curve", "dense", "expand", "find", "global_avg_pool",
           "global_max_pool", "interpolate", "kernel_map", "largest", "layers", "max_pool", "narrow",
           "permute_rows", "prune", "subdivide", "union", "voxel_set"]
