# SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
"""Sets that follow from features or from other sets, and orders of a set.

Choices have no gradient; features do: that of the features that stay.
"""
import torch

from .sets import VoxelSet, layout_reach, narrow, permute_rows, word_layout

ops = torch.ops.spira

CURVES = ("z", "z-trans", "hilbert", "hilbert-trans")  # spira::curve_kind


class Taken:
    """Which rows of features the voxels of a set take over.

    source  int32 [voxels of the set]: a row; of children 8 row + child number; -1 behind the count
    back    int32: the voxel that took each, or -1
    parts   1, of children 8: into how many rows a row of features is cut
    """

    def __init__(self, source, back, parts):
        self.source = source
        self.back = back
        self.parts = parts

    def take(self, features, repeat=1):
        """Features of the new set: [voxels, channels], of children [voxels, channels / 8], the
        part of channels of their number (channel to space). repeat: each channel so many times in
        a row. The gradient is that of the rows that were taken, 0 elsewhere; exact, no atomics."""
        rows, parts = len(self.back) // self.parts, self.parts
        if len(features) != rows or features.shape[1] % parts:
            raise ValueError(f"features: {list(features.shape)}, but {rows} rows of a multiple of "
                             f"{parts} channels are needed")
        cut = features.reshape(rows * parts, features.shape[1] // parts)
        made = permute_rows(cut, self.source, self.back)
        return made if repeat == 1 else made.repeat_interleave(repeat, 1)


def as_choice(choice, columns):
    """A choice as the operator takes it: a mask of bytes, or scores."""
    if choice is None:
        return None
    choice = choice.detach()
    if choice.dtype == torch.bool and columns == 8:
        bits = torch.tensor([1 << s for s in range(8)], dtype=torch.uint8, device=choice.device)
        return (choice.to(torch.uint8) * bits).sum(1, dtype=torch.uint8)
    return choice.to(torch.uint8) if choice.dtype == torch.bool else choice


def chosen(voxels, stride, choice, threshold, capacity, rule):
    """The set that `choose` makes, and its Taken. rule: origin, spacing and extent."""
    exact = capacity is None and not torch.compiler.is_compiling()
    rows = voxels.capacity * (8 if stride else 1) if capacity is None else capacity
    words, source, back, count, status = ops.choose.default(
        voxels.words, voxels.count, list(voxels.layout), list(stride), choice, threshold,
        max(rows, 1))
    made = VoxelSet(words, count, voxels.layout, voxels.ndim, voxels.batch_size, voxels.scene,
                    *rule, False, status)
    if exact:
        made = narrow([made], "choice")[0]
        source = source[:made.capacity]
    return made, Taken(source, back, 8 if stride else 1)


def prune(voxels, choice, threshold=0.0, *, capacity=None):
    """The voxels that a choice keeps, in their order. Returns a VoxelSet and its Taken.

    choice    bool or uint8 [rows]: a mask. fp32, fp16 or bf16 [rows]: those above the threshold
    capacity  as of `expand`: None reads back once

    Raises ValueError for a score that is NaN (with a capacity: `check` of the result does).
    """
    return chosen(voxels, (), as_choice(choice, 1), threshold, capacity,
                  (voxels.origin, voxels.spacing, voxels.extent))


def subdivide(voxels, choice=None, threshold=0.0, *, capacity=None):
    """The children that a choice makes: voxels of half the size. Returns a VoxelSet and its Taken.

    choice    None: all 8. uint8 [rows]: bit s for child s. bool [rows, 8]; or fp32, fp16 or bf16
              [rows, 8]: those above the threshold. Child s = dx + 2 dy + 4 dz of voxel (x, y, z) is
              (2 x + dx, 2 y + dy, 2 z + dz)
    capacity  as of `expand`: None reads back once

    A set of odd spacing, such as that of a user's indices, is put on a grid twice as fine before,
    and one whose origin has moved on a grid of its own: then its children are of another scene, and
    there are no kernel maps between both.
    Raises ValueError for a score that is NaN (with a capacity: `check` of the result does).
    """
    if voxels.ndim != 3:
        raise NotImplementedError("subdivide: of sets with three axes alone")
    voxels = divisible(voxels)
    half = tuple([s // 2 for s in voxels.spacing])
    reach = max([(n - 1) * s + h - whole + 1 for n, s, h, whole in
                 zip(voxels.extent, voxels.spacing, half, voxels.scene)]) # beyond the scene
    if reach > layout_reach(voxels.layout):
        voxels = voxels.with_layout(word_layout(voxels.scene, voxels.batch_size, reach))
    return chosen(voxels, voxels.spacing, as_choice(choice, 8), threshold, capacity,
                  (voxels.origin, half, tuple([2 * n for n in voxels.extent])))


def divisible(voxels, by=2):
    """The same voxels from the origin, with a spacing that `by` divides: in a scene of their own, if
    need be."""
    scale = by if any(s % by for s in voxels.spacing) else 1
    if scale == 1 and not any(voxels.origin):
        return voxels
    spacing = tuple([scale * s for s in voxels.spacing])
    scene = tuple([n * s for n, s in zip(voxels.extent, spacing)])
    layout = word_layout(scene, voxels.batch_size, 0)
    words = ops.repack.default(voxels.words, voxels.count, list(voxels.layout), list(layout),
                               list(voxels.origin), scale)
    return VoxelSet(words, voxels.count, layout, voxels.ndim, voxels.batch_size, scene, (0, 0, 0),
                    spacing, voxels.extent, voxels.exact, voxels.status, voxels.rows)


def largest(voxels, scores, most):
    """bool [rows]: the `most` voxels of each batch element with the largest scores, for `prune`.

    Of equal scores the first voxels of the set are chosen; NaN is never chosen. Reads nothing back.
    """
    return ops.choose_largest.default(voxels.words, voxels.count, list(voxels.layout),
                                      scores.detach(), most).bool()


def same_grid(sets):
    """The sets in one layout. Raises ValueError unless they lie on one grid."""
    first = max(sets, key=lambda s: layout_reach(s.layout))
    for s in sets:
        if (s.scene, s.batch_size, s.origin, s.spacing) != \
                (first.scene, first.batch_size, first.origin, first.spacing):
            raise ValueError("sets: of different grids or scenes")
    return [s.with_layout(first.layout) for s in sets]


def find(voxels, other):
    """int32 [rows]: the row in `other` of each voxel, or -1. Both sets are on one grid.

    `prune(a, find(a, b) >= 0)` is the intersection of two sets, `prune(a, find(a, b) < 0)` their
    difference; `permute_rows(features, find(b, a), find(a, b))` are features of a at the voxels of
    b, zeros where a has none.
    """
    a, b = same_grid([voxels, other])
    return ops.find_rows.default(a.words, a.count, b.words, b.count, list(a.layout))


def union(*voxels, capacity=None):
    """The voxels that any of up to four sets on one grid has. Returns a VoxelSet.

    capacity  as of `expand`: None reads back once
    """
    sets = same_grid(voxels)
    first = sets[0]
    exact = capacity is None and not torch.compiler.is_compiling()
    rows = sum(s.capacity for s in sets) if capacity is None else capacity
    words, count, status = ops.unite.default([s.words for s in sets], [s.count for s in sets],
                                             list(first.layout), max(rows, 1))
    extent = tuple([max(n) for n in zip(*(s.extent for s in sets))])
    made = VoxelSet(words, count, first.layout, first.ndim, first.batch_size, first.scene,
                    first.origin, first.spacing, extent, False, status)
    return narrow([made])[0] if exact else made


def curve(voxels, kind, depth=None):
    """The order of a set along a space-filling curve, as attention over patches takes it.

    kind   "z", "z-trans", "hilbert", "hilbert-trans", as PTv3 has them
    depth  bits of an axis; None: those of the spatial shape

    Returns code int64 [rows], order int32 [rows], the rows by ascending code, and rank, its
    inverse. -1 from the count on. Reads nothing back.
    """
    if kind not in CURVES:
        raise ValueError(f"kind: {kind!r}; there are {CURVES}")
    if depth is None:
        depth = max(1, (max(voxels.extent) - 1).bit_length())
    return ops.curve.default(voxels.words, voxels.count, list(voxels.layout),
                             [*voxels.origin, *voxels.spacing], depth, CURVES.index(kind))
