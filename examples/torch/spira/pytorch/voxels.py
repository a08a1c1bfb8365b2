# SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
"""From points to voxels, with the interface of spconv.pytorch.utils."""
import torch

from .. import sets

ops = torch.ops.spira


class PointToVoxel:
    """Sorts points into voxels.

    vsize_xyz, coors_range_xyz   edges of a voxel; the lowest and the highest corner of the range
    num_point_features           columns of the points; x, y, z come first
    max_num_voxels               voxels beyond it are dropped, in the order of their first points
    max_num_points_per_voxel     points of a voxel beyond it are dropped

    Points outside of the range, or that are not finite, are dropped. Results do not depend on
    atomics: they are the same from run to run, on the CPU and on a GPU.
    """

    def __init__(self, vsize_xyz, coors_range_xyz, num_point_features, max_num_voxels,
                 max_num_points_per_voxel, device=torch.device("cpu:0")):
        self.vsize, self.range = list(vsize_xyz), list(coors_range_xyz)
        self.channels, self.device = num_point_features, torch.device(device)
        self.max_voxels, self.max_points = max_num_voxels, max_num_points_per_voxel
        self.grid_size = [round((self.range[3 + a] - self.range[a]) / self.vsize[a])
                          for a in range(3)]
        self.layout = sets.word_layout(tuple(self.grid_size), 1, 0)

    def __call__(self, pc, clear_voxels=True, empty_mean=False):
        """Returns voxels [voxels, max_num_points_per_voxel, columns], with zeros where there are
        fewer points, or the mean of the others (empty_mean); indices int32 [voxels, 3] (z, y, x);
        and the number of points of each voxel, int32."""
        return self.generate_voxel_with_id(pc, clear_voxels, empty_mean)[:3]

    def generate_voxel_with_id(self, pc, clear_voxels=True, empty_mean=False):
        """The same, and the voxel of each point, int64: -1 where it was dropped."""
        if pc.dim() != 2 or pc.shape[1] != self.channels:
            raise ValueError(f"pc: [points, {self.channels}] is needed, not {list(pc.shape)}")
        voxel, first = self._voxel_of_points(pc)
        order = voxel.argsort(stable=True)
        order = order[voxel[order] >= 0] # points by voxel, in their first order within one
        counts = torch.bincount(voxel[order], minlength=len(first))
        place = torch.arange(len(order), device=pc.device) - \
            (counts.cumsum(0) - counts)[voxel[order]]
        kept = place < self.max_points
        voxels = pc.new_zeros(len(first), self.max_points, pc.shape[1])
        voxels[voxel[order][kept], place[kept]] = pc[order][kept]
        counts = counts.clamp(max=self.max_points)
        if empty_mean:
            empty = torch.arange(self.max_points, device=pc.device) >= counts[:, None]
            mean = voxels.sum(1) / counts[:, None]
            voxels = torch.where(empty[:, :, None], mean[:, None], voxels)
        return voxels, self._coordinates(pc[first]).flip(1), counts.int(), voxel

    def _coordinates(self, points):
        """int32 [points, 3] x, y, z, as fp32 has them: floor((point - low) / edge)."""
        low, edge = points.new_tensor(self.range[:3]), points.new_tensor(self.vsize)
        return ((points[:, :3] - low) / edge).floor().int()

    def _voxel_of_points(self, pc):
        """The voxel of each point or -1, numbered by their first points, and these points."""
        low, edge = pc.new_tensor(self.range[:3]), pc.new_tensor(self.vsize)
        place = ((pc[:, :3] - low) / edge).floor() # NaN is in no range
        inside = ((place >= 0) & (place < pc.new_tensor(self.grid_size))).all(1)
        rows = inside.nonzero().squeeze(1)
        voxel = torch.full((len(pc),), -1, dtype=torch.int64, device=pc.device)
        if not len(rows):
            return voxel, rows
        batch = torch.zeros(len(rows), 1, dtype=torch.int32, device=pc.device)
        indices = torch.cat([batch, self._coordinates(pc[rows]).flip(1)], 1)
        number = ops.voxelize.default(indices, None, list(self.layout), self.grid_size)[2].long()
        first = torch.full((int(number.max()) + 1,), len(pc), device=pc.device)
        first = first.scatter_reduce(0, number, rows, "amin").sort()
        rank = torch.empty_like(first.indices)
        rank[first.indices] = torch.arange(len(rank), device=pc.device)
        found = rank[number]
        voxel[rows] = torch.where(found < self.max_voxels, found, -1)
        return voxel, first.values[:self.max_voxels]


def gather_features_by_pc_voxel_id(seg_res_features, pc_voxel_id, invalid_value=0):
    """Features of voxels at their points: [points, ...], invalid_value where a point has none."""
    found = seg_res_features[pc_voxel_id.clamp(min=0)]
    return torch.where((pc_voxel_id >= 0).view(-1, *[1] * (found.dim() - 1)), found,
                       found.new_tensor(invalid_value))
