# SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
"""Between points and voxels: interpolation and its way back, with gradients of features."""
import torch

from . import choose

ops = torch.ops.spira

KINDS = ("zeros", "renormalise", "nearest")  # spira::interpolate_kind


class Around:
    """The voxels around points, and their weights: `interpolate` makes it.

    index   int32 [points, 8 or 1]: rows of the set, or -1
    weight  fp32, the same shape
    """

    def __init__(self, index, weight, rows):
        self.index = index
        self.weight = weight
        self.begin, self.order = ops.lists.default(index, rows)

    def to_points(self, features):
        """[voxels, channels] to [points, channels]: weighted sums, in fp32."""
        return ops.blend.default(features, self.index, self.weight, self.begin, self.order)

    def to_voxels(self, features):
        """[points, channels] to [voxels, channels]: the transpose (splat). Sums are fp32, in the
        order of the points; no atomics. Divide by to_voxels(ones) for weighted means."""
        return ops.splat.default(features, self.index, self.weight, self.begin, self.order)


def interpolate(voxels, points, batch=None, kind="renormalise", centred=False):
    """The voxels of a set around points. Reads nothing back.

    points   [points, 3] (z, y, x), in voxels of this set
    batch    int [points]; None: all 0
    kind     "renormalise": trilinear; voxels that are missing are left out, and the other weights
             divided by their sum (TorchSparse; with centred=True FlexGEMM). "zeros": they count as
             zeros (MinkowskiEngine). "nearest": the voxel that holds the point
    centred  voxels stand at their centres, not at their low corners; not with "nearest"

    Points without a voxel around them get zeros. There are no gradients of points.
    """
    if voxels.ndim != 3:
        raise NotImplementedError("interpolate: of sets with three axes alone")
    if kind not in KINDS:
        raise ValueError(f"kind: {kind!r}; there are {KINDS}")
    if points.dim() != 2 or points.shape[1] != 3:
        raise ValueError(f"points: {list(points.shape)}, expected [points, 3]")
    voxels = choose.divisible(voxels, 1)
    points = points.detach().float().flip(1) * points.new_tensor(voxels.spacing).float()
    if batch is None:
        batch = torch.zeros(len(points), dtype=torch.int32, device=points.device)
    index, weight = ops.around.default(voxels.words, voxels.count, list(voxels.layout),
                                       list(voxels.spacing), points, batch.int(),
                                       KINDS.index(kind), centred)
    return Around(index, weight, voxels.capacity)
