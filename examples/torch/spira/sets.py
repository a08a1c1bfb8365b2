# SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
"""Voxel sets: sorted, packed coordinates, and sets that follow from others."""
import functools
import itertools
import operator

import torch

ops = torch.ops.spira


def for_autograd(call, *arguments, **options):
    """call(...), whose tensors are kept: outside of inference mode, since what was made there could
    not be saved for a backward pass later."""
    if torch.compiler.is_compiling() or not torch.is_inference_mode_enabled():
        return call(*arguments, **options)
    with torch.inference_mode(False):
        return call(*arguments, **options)


def remembered(call):
    """A function of ints and tuples of ints that keeps its results. torch.compile records it."""
    known = functools.lru_cache(maxsize=256)(call)

    @functools.wraps(call)
    def run(*arguments):
        return call(*arguments) if torch.compiler.is_compiling() else known(*arguments)

    return run


def triple(value, ndim, name="value"):
    """An int, or a sequence of `ndim` ints in the order (z, y, x), as (x, y, z).

    In two dimensions z is left out by the caller, and has `None` here.
    """
    if isinstance(value, int):
        value = (value,) * ndim
    value = tuple([operator.index(v) for v in value])  # a constant where torch.compile traces
    if len(value) != ndim:
        raise ValueError(f"{name}: {len(value)} numbers, but the set has {ndim} dimensions")
    return tuple(reversed(value))


def triple_xyz(value, ndim, flat, name):
    """The same with `flat` on the z axis of two-dimensional sets."""
    if ndim == 3 and type(value) is tuple and len(value) == 3: # most are; nothing to convert
        z, y, x = value
        if type(x) is int and type(y) is int and type(z) is int:
            return x, y, z
    value = triple(value, ndim, name)
    return value if ndim == 3 else value + (flat,)


@torch.compiler.assume_constant_result
def constant_layout(extent, batch_size, reach):
    return _word_layout(tuple(extent), batch_size, reach)


def word_layout(extent, batch_size, reach):
    """The word layout of a scene, as a tuple of ints (csrc/convert.h).

    reach: how far kernels may reach, and voxels lie beyond the extent, at least.
    """
    return tuple([n for n in constant_layout(extent, batch_size, reach)])


def layout_reach(layout):
    """What a layout was fitted to: its lower bound is -reach."""
    return -layout[11]


@functools.lru_cache(maxsize=256)
def _word_layout(extent, batch_size, reach):
    return tuple(ops.word_layout(list(extent), batch_size, reach))


class VoxelSet:
    """Distinct voxels, sorted, as packed words.

    Rows of features belong to the voxels in this order. Attributes:

    words          int32 or int64 [capacity]; only the first `count` are voxels
    count          int32 [1], on the device
    capacity       rows of words (an int)
    exact          True: count == capacity. False: the set was made with a capacity and without a
                   read-back. Rows of features from the count on are zero
    ndim           2 or 3
    batch_size
    spatial_shape  list of ints, (z, y, x) or (y, x): the extent of the set's grid
    rows           RowOrder, or None: of a set that `voxel_set` made from unsorted indices
    status         int32 on the device: what is wrong with the voxels, see `check`
    """

    def __init__(self, words, count, layout, ndim, batch_size, scene, origin, spacing, extent,
                 exact, status, rows=None):
        self.words = words
        self.count = count
        self.layout = layout
        self.ndim = ndim
        self.batch_size = batch_size
        self.scene = scene      # (x, y, z): the extent of the finest grid
        self.origin = origin    # (x, y, z), in voxels of the finest grid
        self.spacing = spacing  # (x, y, z), the same
        self.extent = extent    # (x, y, z), in voxels of this set
        self.exact = exact
        self.status = status
        self.rows = rows

    @property
    def capacity(self):
        return self.words.shape[0]

    @property
    def device(self):
        return self.words.device

    @property
    def spatial_shape(self):
        return list(reversed(self.extent[:self.ndim]))

    def indices(self):
        """int32 [capacity, 1 + ndim]: (batch, z, y, x) or (batch, y, x), in the set's order.

        Rows from the count on are -1.
        """
        return ops.unpack.default(self.words, self.count, list(self.layout), list(self.origin),
                                  list(self.spacing), self.ndim)

    def check(self):
        """Reads the status back and raises ValueError if the voxels were at fault.

        One read-back. Sets without a capacity were checked when they were made.
        """
        check_status(self.status.tolist())

    def with_layout(self, layout):
        """The same voxels, packed in another layout of the same scene."""
        if self.layout == layout:
            return self
        words = ops.repack.default(self.words, self.count, list(self.layout), list(layout),
                                   [0, 0, 0], 1)
        return VoxelSet(words, self.count, layout, self.ndim, self.batch_size, self.scene,
                        self.origin, self.spacing, self.extent, self.exact, self.status, self.rows)


class RowOrder:
    """Between the rows of a user's indices and those of the sorted set.

    to_sorted    int32 [rows]: the user's row of each voxel, for `permute_rows`
    from_sorted  int32 [rows]: the voxel of each of the user's rows
    """

    def __init__(self, to_sorted, from_sorted):
        self.to_sorted = to_sorted
        self.from_sorted = from_sorted

    def sort(self, features):
        """Features in the user's order, in the set's."""
        return permute_rows(features, self.to_sorted, self.from_sorted)

    def unsort(self, features):
        """Features in the set's order, in the user's."""
        return permute_rows(features, self.from_sorted, self.to_sorted)


def permute_rows(features, index, inverse):
    """features[index], with the exact gradient grad[inverse].

    features  [rows, channels], any floating type
    index     int32: rows, no two alike; negative entries give rows of zeros
    inverse   int32 [rows]: where each row is in `index`, or -1
    """
    return ops.permute_rows.default(features, index, inverse)


def check_status(status, name="indices"):
    """Raises ValueError for a status that was read back. name: of the argument at fault."""
    if any(status[:-1]):
        ops.status_check(status, name)


def voxel_set(indices, spatial_shape, batch_size, *, count=None, reach=0):
    """The set of a user's voxels. Returns a VoxelSet; `rows` of it is the order of the rows.

    indices        int32 [rows, 1 + D], D = 2 or 3: (batch, z, y, x) or (batch, y, x), in any order
    spatial_shape  D ints; 0 <= index < spatial_shape
    batch_size     0 <= batch < batch_size
    count          None: all rows are voxels. One read-back checks them, and `set.rows` is None
                   where they are sorted. int32 [1] on the device: capacity mode. Only the first
                   `count` rows are voxels, nothing is read back, and `set.check()` can be called
                   whenever a read-back does not hurt
    reach          how far the network's kernels reach, in voxels of this set: dilation * stride *
                   (size // 2). 0: unknown. Sets are packed anew where a layer reaches farther than
                   the words allow (16 voxels at least), so this saves time at most

    The order of the set is (batch, x, y, z), z fastest.

    Raises ValueError: another type or shape; a duplicate; a voxel outside (without `count`).
    While torch.compile traces, there is no read-back: call `set.check()` outside.
    """
    if indices.dim() != 2 or indices.shape[1] not in (3, 4) or indices.dtype != torch.int32:
        raise ValueError(f"indices: int32 [rows, 3 or 4] expected, got {indices.dtype} "
                         f"{list(indices.shape)}")
    ndim = indices.shape[1] - 1
    extent = triple_xyz(spatial_shape, ndim, 1, "spatial_shape")
    batch_size = operator.index(batch_size)
    layout = word_layout(extent, batch_size, reach)
    words, order, voxel, kept, status = ops.voxelize.default(indices, count, list(layout),
                                                             list(extent))
    rows = RowOrder(order, voxel)
    if count is None and not torch.compiler.is_compiling():
        found = status.tolist()
        check_status(found)
        rows = rows if found[-1] else None  # of indices that are sorted already
    return VoxelSet(words, kept, layout, ndim, batch_size, extent, (0, 0, 0), (1, 1, 1),
                    extent, count is None, status, rows)


def axis_most(size, ratio, dilation):
    """Outputs that an input touches at most, on one axis."""
    period = 1
    while period < size and period * dilation % ratio:
        period += 1
    return -(-size // period)


def axis_reach(size, dilation, spacing):
    """How far a kernel reaches on one axis, in voxels of the finest grid (spira/offset.h)."""
    return (size // 2 if size % 2 else size - 1) * dilation * spacing


def expand(source, kernel_size, stride=1, padding=0, dilation=1, *, capacity=None):
    """The output set of a strided or generative layer, by the rule of spconv 2.

    source    VoxelSet
    capacity  None: the result is exact; one read-back (`narrow` shares it among several sets).
              An int: the result has this capacity, and nothing is read back. If there are more
              voxels, the rest is dropped and `set.check()` raises

    kernel_size, stride, padding, dilation: ints, or sequences in the order (z, y, x).
    Raises ValueError for a spatial shape that is smaller than the kernel, and for other sizes that
    are not allowed.
    """
    n = source.ndim
    size = triple_xyz(kernel_size, n, 1, "kernel_size")
    ratio = triple_xyz(stride, n, 1, "stride")
    pad = triple_xyz(padding, n, 0, "padding")
    wide = triple_xyz(dilation, n, 1, "dilation")
    grid = source.origin, source.spacing, source.extent, source.scene
    origin, spacing, extent, most, cells, reach = expanded(grid, size, ratio, pad, wide)
    if reach > layout_reach(source.layout):  # outputs need more room than the words have
        source = source.with_layout(word_layout(source.scene, source.batch_size, reach))
    exact = capacity is None and not torch.compiler.is_compiling()
    rows = capacity
    if rows is None:
        rows = max(min(source.capacity * most, source.batch_size * cells), 1)
    kernel = [*size, *wide, *source.spacing, 0]
    rule = [*ratio, *pad, *source.origin, *source.extent]
    words, count, status = ops.expand.default(source.words, source.count, list(source.layout),
                                              kernel, rule, rows)
    made = VoxelSet(words, count, source.layout, n, source.batch_size, source.scene, origin,
                    spacing, extent, False, status)
    return narrow([made])[0] if exact else made


@remembered
def expanded(grid, size, ratio, pad, wide):
    """The grid of a strided layer's outputs: origin, spacing and extent; the outputs of a voxel at
    most, the places of a batch element, and how far they lie from the scene. grid: of the source,
    and its scene."""
    (start, step, across, scene), origin, extent = grid, [], []
    most, cells, reach = 1, 1, 0
    for a in range(3):
        play = across[a] + 2 * pad[a] - wide[a] * (size[a] - 1) - 1
        if play < 0:
            raise ValueError("kernel_size: larger than the spatial shape with its padding")
        tap = size[a] // 2 if size[a] % 2 else 0
        origin.append(start[a] + (tap * wide[a] - pad[a]) * step[a])
        extent.append(play // ratio[a] + 1)
        most *= axis_most(size[a], ratio[a], wide[a])
        cells *= extent[a]
        last = origin[a] + (extent[a] - 1) * step[a] * ratio[a]
        reach = max(reach, axis_reach(size[a], wide[a], step[a]), -origin[a], last - scene[a] + 1)
    spacing = tuple([step[a] * ratio[a] for a in range(3)])
    return tuple(origin), spacing, tuple(extent), most, cells, reach


def narrow(sets, name="source"):
    """Makes sets exact that were made with capacities: one read-back for all of them.

    name: what was at fault, in errors. Raises ValueError if a capacity was exceeded, or a voxel is at fault.
    """
    if not sets:
        return []
    found = iter(torch.cat([t for s in sets for t in (s.count, s.status)]).tolist())
    exact = []
    for s in sets:
        count, *status = itertools.islice(found, 1 + s.status.numel())
        check_status(status, name if s.rows is None else "indices")
        rows = s.rows if status[-1] else None
        words = s.words[:count]
        words = words.clone() if 2 * count < s.capacity else words
        exact.append(VoxelSet(words, s.count, s.layout, s.ndim, s.batch_size, s.scene, s.origin,
                              s.spacing, s.extent, True, s.status, rows))
    return exact
