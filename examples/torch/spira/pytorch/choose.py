# SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
"""Functions on SparseConvTensors whose voxels follow from features: what spconv has not."""
from .. import choose, points as around, sets
from .geometry import CoordinateSet, reading_back


def result(x, make, choice, capacity, options):
    """The tensor of the voxels that make(voxels, choice, ...) takes over from those of x."""
    here = x.coordinates()
    if here.extra is not None:
        raise NotImplementedError(f"{make.__name__}: not with layers.keep_duplicates")
    if choice is not None:
        if len(choice) != here.rows:
            raise ValueError(f"choice: {list(choice.shape)}, but there are {here.rows} voxels")
        if here.voxels.rows is not None: # from the order of x.indices
            choice = choice[here.voxels.rows.to_sorted.long()]
    call = reading_back if here.voxels.exact and capacity is None else sets.for_autograd
    if capacity is None and not here.voxels.exact:
        capacity = here.rows * (8 if make is choose.subdivide else 1)
    voxels, taken = call(make, here.voxels, choice, capacity=capacity, **options)
    made = CoordinateSet(voxels, voxels.spatial_shape[-len(here.spatial_shape):], here.capacities)
    made.taken, made.parents = taken, here
    return x.with_ordered(taken.take(x.ordered(here)), made, {})


def prune(x, choice, threshold=0.0, capacity=None):
    """The voxels of a SparseConvTensor that a choice keeps, with their features. NaN is an error.

    choice    [voxels] in the order of x.indices: bool, a mask; floating, scores: those above the
              threshold stay
    capacity  rows of the result; nothing is read back then. None: one read-back; in capacity mode
              as many rows as x has

    Gradients go to the features that stay. What layers noted under indice_keys is not kept.
    """
    return result(x, choose.prune, choice, capacity, dict(threshold=threshold))


def subdivide(x, choice=None, threshold=0.0, capacity=None):
    """Children of the voxels of a SparseConvTensor, on a grid twice as fine: channel to space. Child
    s of voxel (z, y, x) is (2 z + dz, 2 y + dy, 2 x + dx) with s = dx + 2 dy + 4 dz, and has the
    channels [s C / 8, (s + 1) C / 8) of its parent.

    choice    [voxels, 8] in the order of x.indices: logits, those above the threshold (NaN is an
              error), or bool; or uint8 [voxels], bit s; None: all 8
    capacity  as of prune; in capacity mode 8 times the rows of x, if it is not said

    Gradients go to the channels of children that exist. `to_children` takes other features along.
    """
    return result(x, choose.subdivide, choice, capacity, dict(threshold=threshold))


def to_children(x, children, repeat=1):
    """Features of x at a result of prune() or subdivide() of the same voxels: the rows that stay, or
    the eighths of channels. repeat: each channel so many times in a row.

    Returns a SparseConvTensor of the voxels of `children`.
    """
    made = children.coordinates()
    here = x.coordinates()
    if made.parents is not here:
        raise ValueError("children: prune() or subdivide() has not made them of the voxels of x")
    return children.with_ordered(made.taken.take(x.ordered(here), repeat), made)


def largest(x, scores, most):
    """bool [voxels], in the order of x.indices: the `most` voxels of each batch element with the
    largest scores [voxels]; of equal ones the first in sorted order, never NaN. For prune()."""
    here = x.coordinates()
    rows = here.voxels.rows
    mask = choose.largest(here.voxels, scores if rows is None else scores[rows.to_sorted.long()],
                          most)
    return mask if rows is None else mask[rows.from_sorted.long()]


def at_points(x, points, batch=None, kind="renormalise", centred=False):
    """Features of a SparseConvTensor at points [points, axes], in its voxels: spira.interpolate."""
    here = x.coordinates()
    made = sets.for_autograd(around.interpolate, here.voxels, points, batch, kind, centred)
    return made.to_points(here.first_rows(x.ordered(here)))
