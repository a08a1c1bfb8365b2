# SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
"""Kernel maps: which input rows an output row reads, through which offset of the kernel."""
import torch

from .sets import (axis_most, axis_reach, for_autograd, layout_reach, remembered, triple_xyz,
                   word_layout)

ops = torch.ops.spira

TABLE, ORDER = 0, 1  # forms of a map: the CPU reads a table, GPUs the ordered layout
PAIRS = -1

TYPES = {torch.float32: 0, torch.float16: 2, torch.bfloat16: 3}  # spira::numeric


class KernelMap:
    """The kernel map of a layer: `kernel_map` makes it.

    Layers with the same sets, kernel size and dilation share one map, whatever their channels and
    number formats. It is built when a layer first needs it, in the form that the device reads, and
    kept as long as the object lives. Attributes:

    source, outputs  VoxelSets
    volume           offsets of the kernel
    same             True for a submanifold layer: outputs is source

    A map has no reference to its reverse; both share what has been built.
    """

    def __init__(self, source, outputs, size, dilation, spacing, transposed, most, store):
        self.source = source
        self.outputs = outputs
        self.size = size            # (x, y, z)
        self.dilation = dilation    # (x, y, z)
        self.spacing = spacing      # (x, y, z): of the finer set
        self.transposed = transposed
        self.most = most            # pairs of a voxel of the finer set, at most
        self.store = store          # (transposed, form) -> tensor
        self.known = {}             # of layers.conv: arguments of layers that have read this map
        self.same = outputs is source
        self.volume = size[0] * size[1] * size[2]
        self.identity = self.same and self.volume == 1
        # Whether the input gradient reads this map itself (spira/conv_grad.h).
        self.mirrors = self.same and not transposed and size[0] & size[1] & size[2] & 1 == 1
        self._kernel = [*size, *dilation, *spacing, int(transposed), int(self.same)]
        self._both = None           # of _sets

    def kernel(self):
        """The kernel as the operators take it."""
        return self._kernel

    def reverse(self):
        """The map of the inverse layer: from the outputs back to the source."""
        return KernelMap(self.outputs, self.source, self.size, self.dilation, self.spacing,
                         not self.transposed, self.most, self.store)

    def table(self):
        """int32 [outputs.capacity, volume]: the source row of each offset, or -1.

        Rows from the count of the outputs on are -1.
        """
        return self._built((self.transposed, TABLE), self._build_table)

    def layout(self):
        """The map as convolutions read it; None for the identity."""
        if self.identity:
            return None
        if self.source.device.type == "cpu":
            return self.table()
        return self._built((self.transposed, ORDER), self._build_layout)

    def gradient_layout(self):
        """The map that the input gradient of a convolution reads."""
        return (self if self.mirrors else self.reverse()).layout()

    def pairs(self):
        """Pair lists for the weight gradient, and whether their sides are exchanged.

        The lists are those of the forward direction: a layer and its inverse share them.
        """
        if self.identity:
            return None, False
        way = self.reverse() if self.transposed else self
        return self._built((False, PAIRS), way._build_pairs), self.transposed

    def _built(self, key, build):
        made = self.store.get(key)
        if made is None:
            made = for_autograd(build)
            self.store[key] = made
        return made

    def _sets(self):
        """Both sets as the operators take them, in a layout that has room for the kernel; and the
        kernel."""
        if self._both is None:
            self._both = self._find_sets()
        return self._both

    def _find_sets(self):
        a, b = self.source, self.outputs
        if a.scene != b.scene or a.batch_size != b.batch_size:
            raise ValueError("outputs: of another scene than the source; both sets of a map must "
                             "follow from the same indices")
        layout = a.layout if layout_reach(a.layout) >= layout_reach(b.layout) else b.layout
        reach = max([axis_reach(self.size[i], self.dilation[i], self.spacing[i])
                     for i in range(3)])
        if reach > layout_reach(layout):
            layout = word_layout(a.scene, a.batch_size, reach)
        a = a.with_layout(layout)
        b = a if self.same else b.with_layout(layout)
        return a.words, a.count, b.words, b.count, list(layout), self._kernel

    def _build_table(self):
        return ops.map_table.default(*self._sets())

    def _build_layout(self):
        return ops.map_layout.default(*self._sets())

    def _build_pairs(self):
        a, b = self.source.capacity, self.outputs.capacity
        if self.mirrors:
            room = a * (self.volume // 2)
        else:
            room = min(a * min(self.most, self.volume), b * self.volume)
        return ops.map_pairs.default(*self._sets(), max(room, 1))


def kernel_map(source, outputs, kernel_size, dilation=1, *, transposed=False):
    """The map of a layer from `source` to `outputs`. Nothing is built yet.

    source, outputs  VoxelSets that follow from the same indices. The same object: a submanifold
                     layer. `outputs = expand(source, ...)`: a strided layer; its padding and
                     stride are in the set already. outputs with `transposed`: an inverse layer
                     onto the finer set; better `kernel_map(fine, coarse, ...).reverse()`, which
                     shares what the forward layer has built
    kernel_size, dilation: ints, or sequences in the order (z, y, x)

    Odd kernels are centred; even ones start at the voxel: offsets 0 .. size - 1.
    Raises ValueError: sets of other devices, dimensions or spacings.
    """
    n = source.ndim
    if outputs.device != source.device:
        raise ValueError(f"outputs: on {outputs.device}, the source is on {source.device}")
    if outputs.ndim != n:
        raise ValueError(f"outputs: {outputs.ndim} dimensions, the source has {n}")
    size = triple_xyz(kernel_size, n, 1, "kernel_size")
    wide = triple_xyz(dilation, n, 1, "dilation")
    fine, coarse = (outputs, source) if transposed else (source, outputs)
    most = pairs_most(size, wide, fine.spacing, coarse.spacing)
    if most is None:
        raise ValueError(f"outputs: spacing {outputs.spacing} does not fit the source's, "
                         f"{source.spacing}")
    return KernelMap(source, outputs, size, wide, fine.spacing, transposed, most, {})


@remembered
def pairs_most(size, dilation, fine, coarse):
    """Pairs of a voxel of the finer set, at most; None where the spacings do not fit."""
    most = 1
    for a in range(3):
        if coarse[a] % fine[a]:
            return None
        most *= axis_most(size[a], coarse[a] // fine[a], dilation[a])
    return most
