# SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
"""Coordinate sets of SparseConvTensors, and the kernel maps between them.

A set holds what was made from it: the maps of submanifold layers, and the sets of strided layers
with their maps. So layers of the same kernel share them, with or without an indice_key.

Every set that one SparseConvTensor leads to notes in one Recipe how it came about: prepare.py
makes the same sets of another SparseConvTensor, with one read-back for all of them.
"""
import weakref

import torch
from torch.compiler import is_compiling

from .. import layers, maps, sets

# Makers of sets and maps, in the order in which a network asked for them. Sets are numbered: 0 is
# the set of the user's indices.
#
# steps   (set, "map", kernel_size, dilation)
#         (set, "strided", kernel_size, stride, padding, dilation, keys): makes the next set. keys:
#         of the layers that asked for it
class Recipe:
    def __init__(self):
        self.steps = []
        self.sets = 1

    def note_map(self, number, size, dilation):
        self.steps.append((number, "map", size, dilation))

    def note_strided(self, number, rule):
        """Returns the number of the new set."""
        self.steps.append((number, "strided", *rule))
        self.sets += 1
        return self.sets - 1


# A call that reads back. torch.compile breaks its graph there. With sets of prepare(), and in
# capacity mode, there is no such call.
@torch.compiler.disable
def reading_back(call, *arguments, **options):
    return sets.for_autograd(call, *arguments, **options)


padded = weakref.WeakSet()  # sets of capacity mode that are in use

# id of indices -> the set that was made of them. It keeps them alive: no other tensor has the id.
made_of = weakref.WeakValueDictionary()


class CoordinateSet:
    """The voxels of a SparseConvTensor.

    voxels          sets.VoxelSet: sorted
    spatial_shape, batch_size   of the tensor
    capacities      see SparseConvTensor
    extra           int64: the voxel of each row behind the first ones (layers.keep_duplicates), or
                    None. These rows stand behind the others
    path            the rules that lead from the user's indices to this set, as a tuple
    recipe, number  see Recipe
    taken, parents  of a set that features chose: its choose.Taken, and the set that it came from
    """

    def __init__(self, voxels, spatial_shape, capacities=None, recipe=None, number=0, path=(),
                 indices=None):
        self.voxels, self.spatial_shape = voxels, list(spatial_shape)
        self.capacities, self.path = capacities, path
        self.recipe = Recipe() if recipe is None else recipe
        self.number = number
        self.padding = self.extra = None
        self.promised = None # the order of rows that are said to be in order
        self.taken = self.parents = None
        self._maps, self._strided, self._grown = {}, {}, {}
        self._indices, self._version = None, None
        if indices is not None:
            self._note(indices)
        if not voxels.exact and not is_compiling():
            padded.add(self)

    @staticmethod
    def of(indices, spatial_shape, batch_size, count=None, capacities=None, ordered=False):
        """The set of a user's indices. The same one as last time, if they are the same tensor."""
        known = None if traced(indices) else made_of.get(id(indices))
        if known is not None and known.has(indices) and known.count is count and \
                known.spatial_shape == spatial_shape and known.batch_size == batch_size:
            return known
        shape = [1] * missing_axes(indices) + spatial_shape
        extra = None
        if count is None and layers.keep_duplicates:
            made, extra = reading_back(with_duplicates, with_axes(indices), shape, batch_size)
        elif count is None:
            made = reading_back(sets.voxel_set, with_axes(indices), shape, batch_size)
        else:
            made = sets.for_autograd(sets.voxel_set, with_axes(indices), shape, batch_size,
                                     count=count)
        rows = made.rows
        if ordered and count is not None:
            made.rows = None
        of = CoordinateSet(made, spatial_shape, capacities, indices=indices)
        of.extra = extra
        of.promised = rows if ordered and count is not None else None
        return of

    def _note(self, indices):
        self._indices, self._version = indices, None
        if not is_compiling():
            self._version = indices._version
            made_of[id(indices)] = self

    def has(self, indices):
        """Whether these are the indices of this set, not changed since. torch.compile does not
        look for changes in place."""
        return indices is self._indices and (is_compiling() or indices._version == self._version)

    @property
    def indices(self):
        """int32 [rows, 1 + axes], in the user's order, or in that of the set."""
        if self._indices is None or not self.has(self._indices):
            made = self.voxels.indices()
            if self.extra is not None:
                made = torch.cat([made, made[self.extra]])
            if self.voxels.rows is not None:
                made = made[self.voxels.rows.from_sorted.long()]
            if len(self.spatial_shape) == 1:
                made = made[:, [0, 2]]
            self._note(tracked(made))
        return self._indices

    @property
    def rows(self):
        return self.voxels.capacity + (0 if self.extra is None else len(self.extra))

    @property
    def device(self):
        return self.voxels.device

    @property
    def batch_size(self):
        return self.voxels.batch_size

    @property
    def count(self):
        """In capacity mode the number of voxels, on the device; otherwise None."""
        return None if self.voxels.exact else self.voxels.count

    # ---- features ----------------------------------------------------------------------------

    def to_order(self, features):
        """Features in the user's order, in the set's."""
        return features if self.voxels.rows is None else self.voxels.rows.sort(features)

    def to_rows(self, features):
        """Features in the set's order, in the user's."""
        return features if self.voxels.rows is None else self.voxels.rows.unsort(features)

    def clear_padding(self, features):
        """In capacity mode: the features with zeros behind the count."""
        if self.voxels.exact:
            return features
        if self.padding is None:
            rows = torch.arange(self.rows, device=self.device, dtype=torch.int32)
            self.padding = (rows >= self.voxels.count).unsqueeze(1)
        return features.masked_fill(self.padding, 0)

    def first_rows(self, features):
        """One row of each voxel."""
        return features if self.extra is None else features[:self.voxels.capacity]

    def all_rows(self, sums, features=None, centre=None):
        """The rows of a layer's result: sums are those of the first rows. features, centre: of a
        submanifold layer, whose centre [channels, channels of sums] reads each row's own."""
        if self.extra is None:
            return sums
        more = sums[self.extra]
        if features is not None:
            own = layers.autocast(features)
            more = more + (own[self.voxels.capacity:] - own[self.extra]) @ centre.to(own.dtype)
        return torch.cat([sums, more])

    def dense(self, features, channels_first):
        made = layers.dense(self.first_rows(features), self.voxels)
        shape = [made.shape[0], made.shape[1], *self.spatial_shape]
        made = made.reshape(shape)
        return made if channels_first else made.movedim(1, -1).contiguous()

    def global_pool(self, call, features):
        if self.extra is not None:
            raise NotImplementedError("global pooling: not with layers.keep_duplicates")
        return call(features, self.voxels)

    def check(self):
        if self.parents is not None:
            self.parents.check()
        for voxels in self.all_sets():
            voxels.check()
        if self.promised is not None:
            rows = self.promised.to_sorted[:int(self.voxels.count)]
            if not torch.equal(rows, torch.arange(len(rows), device=self.device, dtype=rows.dtype)):
                raise ValueError("ordered: the indices are not; sort_rows() returns the order")

    def all_sets(self):
        yield self.voxels
        for made, _ in self._strided.values():
            yield from made.all_sets()

    # ---- what follows from the set -----------------------------------------------------------

    def submanifold(self, size, dilation):
        """The kernel map of the set onto itself."""
        key = (size, dilation)
        if key not in self._maps:
            self.recipe.note_map(self.number, size, dilation)
            self._maps[key] = maps.kernel_map(self.voxels, self.voxels, three(size, 1),
                                              dilation=three(dilation, 1))
        return self._maps[key]

    def strided(self, size, stride, padding, dilation, key=None):
        """The set of a strided layer, and the kernel map to it."""
        rule = (size, stride, padding, dilation)
        if rule not in self._strided:
            if self.voxels.exact:
                made = reading_back(self.expand, rule, None)
            else:
                made = sets.for_autograd(self.expand, rule, self.capacity_of(rule, key))
            self.add_strided(rule, key, made)
        return self._strided[rule]

    def expand(self, rule, rows):
        """The voxels of a strided layer, exact (rows=None) or in so many rows."""
        size, stride, padding, dilation = rule
        return sets.expand(self.voxels, three(size, 1), three(stride, 1), three(padding, 0),
                           three(dilation, 1), capacity=rows)

    def add_strided(self, rule, key, voxels):
        """Takes the voxels of a strided layer, and makes the map."""
        size, stride, padding, dilation = rule
        number = self.recipe.note_strided(self.number, (*rule, key))
        shape = voxels.spatial_shape[-len(self.spatial_shape):]
        made = CoordinateSet(voxels, shape, self.capacities, self.recipe, number,
                             self.path + (rule,))
        kernel_map = maps.kernel_map(self.voxels, voxels, three(size, 1),
                                     dilation=three(dilation, 1))
        self._strided[rule] = made, kernel_map
        return made

    def grown(self, size, stride, padding, more):
        """The set of a transposed layer, as (its voxels, those of the strided layer that leads from
        them here, that layer's map, the rows of this set that it has, their rows there)."""
        rule = (size, stride, padding, more)
        if rule not in self._grown:
            if not self.voxels.exact or self.extra is not None:
                raise NotImplementedError("transposed layers: not in capacity mode, and not with "
                                          "layers.keep_duplicates")
            self._grown[rule] = sets.for_autograd(self.grow, *rule)
        return self._grown[rule]

    def grow(self, size, stride, padding, more):
        at = one_axis(self.voxels.indices(), len(size)).long()
        steps = at.new_tensor([1, *stride]), at.new_tensor([0, *padding])
        taps = torch.cartesian_prod(*map(torch.arange, (1, *size))).to(at.device)
        shape = [(n - 1) * s - 2 * p + k + m for n, k, s, p, m in
                 zip(self.spatial_shape, size, stride, padding, more)]
        if min(shape) < 1:
            raise ValueError(f"padding: a spatial_shape of {shape} is left")
        made = (at * steps[0] - steps[1]).unsqueeze(1) + taps
        inside = ((made[..., 1:] >= 0) & (made[..., 1:] < made.new_tensor(shape))).all(2)
        keys = torch.unique(row_keys(made[inside], shape)) # in the order of a set
        columns = []
        for n in shape: # the first axis changes fastest
            columns.append(keys % n)
            keys = keys // n
        fine = CoordinateSet.of(torch.stack([keys, *columns], 1).int(), shape, self.batch_size)
        coarse, kernel_map = fine.strided(size, stride, padding, (1,) * len(size))
        theirs, order = row_keys(one_axis(coarse.voxels.indices(), len(size)).long(),
                                 self.spatial_shape).sort()
        ours = row_keys(at, self.spatial_shape)
        place = torch.searchsorted(theirs, ours).clamp(max=max(len(theirs) - 1, 0))
        kept = (theirs[place] == ours).nonzero()[:, 0] if len(theirs) else place[:0]
        return fine, coarse, kernel_map, kept, order[place[kept]]

    def capacity_of(self, rule, key):
        """Rows for the set of a strided layer."""
        asked = self.capacities or {}
        rows = asked.get(self.path + (rule,), asked.get(key) if key is not None else None)
        return largest(self, rule) if rows is None else int(rows)


def largest(source, rule):
    """The most voxels that the set of a strided layer can have."""
    size, stride, padding, dilation = rule
    most, places = 1, source.batch_size
    for n, k, s, p, d in zip(source.spatial_shape, *rule):
        most *= sets.axis_most(k, s, d)
        places *= (n + 2 * p - d * (k - 1) - 1) // s + 1
    return max(min(source.rows * most, places), 1)


# ---- one, two and three axes --------------------------------------------------------------------

# A set of one axis is one of two, whose first has one place.

def missing_axes(indices):
    return max(3 - indices.shape[1], 0)


def with_axes(indices):
    if not missing_axes(indices):
        return indices
    return torch.stack([indices[:, 0], torch.zeros_like(indices[:, 0]), indices[:, 1]], 1)


def one_axis(indices, axes):
    """Indices of a set, in so many axes as its tensor has."""
    return indices[:, [0, 2]] if axes == 1 else indices


def row_keys(indices, shape):
    """int64: numbers in the order of sort_rows."""
    key = indices[:, 0].long()
    for axis in range(len(shape), 0, -1):
        key = key * int(shape[axis - 1]) + indices[:, axis]
    return key


def three(values, fill):
    return (fill, *values) if len(values) == 1 else values


# The set of the first row of each voxel, in whose order the further rows are the last; and the
# voxel of each of these, or None.
def with_duplicates(indices, shape, batch_size):
    voxels, group = torch.unique(indices, dim=0, return_inverse=True)
    rows = torch.arange(len(indices), device=indices.device)
    first = torch.full_like(rows[:len(voxels)], len(rows)).scatter_reduce(0, group, rows, "amin")
    first = first[group]
    kept, more = (first == rows).nonzero()[:, 0], (first != rows).nonzero()[:, 0]
    made = sets.voxel_set(indices[kept], shape, batch_size)
    if not len(more):
        return made, None
    kept = kept if made.rows is None else kept[made.rows.to_sorted.long()]
    to_sorted = torch.cat([kept, more])
    from_sorted = torch.empty_like(to_sorted)
    from_sorted[to_sorted] = rows
    made.rows = sets.RowOrder(to_sorted.int(), from_sorted.int())
    return made, from_sorted[first[more]]


# Whether what runs now is recorded, to be run again on other indices: sets are made anew then.
def traced(indices):
    return is_compiling() or (indices.is_cuda and torch.cuda.is_current_stream_capturing())


# Whether two sets have the same rows of indices: clones, or a copy of a tensor that a layer has
# read. Reads back.
def same_voxels(a, b):
    return a.voxels.exact and b.voxels.exact and a.spatial_shape == b.spatial_shape and \
        a.batch_size == b.batch_size and a.rows == b.rows and a.device == b.device and \
        reading_back(torch.equal, a.indices, b.indices)


# ---- changes in place ---------------------------------------------------------------------------

def tracked(indices):
    """Indices that count their changes: a copy of those that were made in inference mode."""
    if is_compiling() or not indices.is_inference():
        return indices
    with torch.inference_mode(False):
        return indices.clone()
