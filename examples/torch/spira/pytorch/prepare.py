# SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
"""All coordinate sets of a network at once, and capacities for those sets."""
import weakref

import torch
from torch import nn

from .. import layers, sets
from .geometry import CoordinateSet, largest, missing_axes, row_keys, with_axes
from .tensor import SparseConvTensor

_recipes = weakref.WeakKeyDictionary()  # module -> Recipe


def recipe_of(module, x):
    """What sets and maps a module asks for: it is run once, on no voxels."""
    known = _recipes.get(module)
    if known is None:
        empty = SparseConvTensor(x.features[:0], x.indices[:0], x.spatial_shape, x.batch_size)
        training = [(part, part.training) for part in module.modules()]
        try:
            module.eval()
            with torch.no_grad():
                module(empty)
        finally:
            for part, was in training:
                part.training = was
        known = _recipes[module] = empty.coordinates().recipe
    return known


def prepare(module, x, recipe=None):
    """Makes all coordinate sets that a module will ask for, with one read-back.

    module  an nn.Module that takes a SparseConvTensor. On the first call it is run once on no
            voxels, to learn its layers; modules that cannot do that need `recipe`
    x       SparseConvTensor, whose indices no layer has read yet
    recipe  y.coordinates().recipe of a result y of the module on any other input

    Returns x. Without prepare(), each new set costs a read-back of its own.
    """
    if layers.keep_duplicates or x.count is not None or (x._set is not None and x._set._strided):
        return x # nothing is read back in capacity mode
    recipe = recipe_of(module, x) if recipe is None else recipe
    sets.for_autograd(make_sets, x, recipe)
    return x


def make_sets(x, recipe):
    """Makes the sets of a recipe, and gives them to a SparseConvTensor."""
    rows, device = x.indices.shape[0], x.indices.device
    count = torch.full((1,), rows, dtype=torch.int32, device=device)
    shape = [1] * missing_axes(x.indices) + x.spatial_shape
    found = [sets.voxel_set(with_axes(x.indices), shape, x.batch_size, count=count)]
    loose = [CoordinateSet(found[0], x.spatial_shape)]
    strided = [step for step in recipe.steps if step[1] == "strided"]
    for number, _, *rule, _ in strided:
        rule = tuple(rule)
        source = loose[number]
        found.append(source.expand(rule, largest(source, rule)))
        shape = found[-1].spatial_shape[-len(x.spatial_shape):]
        loose.append(CoordinateSet(found[-1], shape))
    adopt(x, recipe, sets.narrow(found))


def adopt(x, recipe, voxels):
    """Gives a SparseConvTensor the sets that were made for it."""
    made = [CoordinateSet(voxels[0], x.spatial_shape, indices=x.indices)]
    for number, what, *rule in recipe.steps:
        if what == "map":
            made[number].submanifold(*rule)
        else:
            *rule, key = rule
            made.append(made[number].add_strided(tuple(rule), key, voxels[len(made)]))
    x._set = made[0]


def capacities(module, x, margin=1.25, recipe=None):
    """Rows for the sets of a module in capacity mode: those of an input, and a margin.

    module, x, recipe   as of prepare(). x: an input as large as they come
    margin              what the sets of other inputs may have more

    Returns what SparseConvTensor takes as `capacities`. Reads back once.
    """
    prepare(module, x, recipe)
    rows = {}

    def visit(coordinates):
        for made, _ in coordinates._strided.values():
            rows[made.path] = int(made.rows * margin) + 1
            visit(made)

    visit(x.coordinates())
    return rows


def sort_rows(indices, spatial_shape):
    """int64 [voxels]: the order in which spira keeps voxels: indices[order] is sorted by batch,
    then by the axes from the last to the first.

    With features, indices and labels in this order, no layer permutes rows. Meant for the place
    where the data is made: a voxel has to be sorted once only.
    """
    return row_keys(indices, spatial_shape).argsort()


def pad(features, indices, capacity):
    """Features and indices with rows of padding up to a capacity, and the count: three arguments
    for capacity mode. For a CUDA graph copy the next input into them."""
    rows = features.shape[0]
    if rows > capacity:
        raise ValueError(f"capacity: {capacity}, but there are {rows} voxels")
    count = torch.full((1,), rows, dtype=torch.int32, device=features.device)
    more = (0, 0, 0, capacity - rows)
    return (nn.functional.pad(features, more), nn.functional.pad(indices, more), count)
