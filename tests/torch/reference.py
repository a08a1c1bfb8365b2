# SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
# tests/torch/reference.py: spconv's modules in plain PyTorch, as slow and as plain as can be.
#
# The judge of spira's operators and of spira.pytorch: nothing here is shared with them. Voxels are
# found in a dictionary, a layer is one product of the rows that its offsets read, autograd makes the
# gradients. Any floating type: the tests use double.
#
# A network that takes its library as an argument runs on this one, on spira.pytorch and on
# spconv.pytorch with the same state dict.
import itertools
import math

import torch
from torch import nn


def each_axis(value, ndim):
    return (value,) * ndim if isinstance(value, int) else tuple(value)


# ---- voxels and tables --------------------------------------------------------------------------

def expand(indices, shape, size, stride, padding, dilation):
    """The voxels and the shape of a strided layer by spconv's rule: o * stride - padding +
    tap * dilation = i for some tap. Sorted by (batch, x, y, z)."""
    n = len(shape)
    size, stride, padding, dilation = (each_axis(v, n) for v in (size, stride, padding, dilation))
    out = [(shape[a] + 2 * padding[a] - dilation[a] * (size[a] - 1) - 1) // stride[a] + 1
           for a in range(n)]
    found = set()
    for row in indices.tolist():
        for tap in itertools.product(*map(range, size)):
            o = [row[1 + a] + padding[a] - tap[a] * dilation[a] for a in range(n)]
            if all(o[a] % stride[a] == 0 and 0 <= o[a] // stride[a] < out[a] for a in range(n)):
                found.add((row[0], *(o[a] // stride[a] for a in range(n))))
    return sorted(found, key=lambda v: (v[0], *reversed(v[1:]))), out


def table(source, outputs, size, stride, padding, dilation):
    """[outputs, volume]: the row of `source` that each offset reads, or -1. Offsets in the order
    of spconv's weights."""
    n = source.shape[1] - 1
    size, stride, padding, dilation = (each_axis(v, n) for v in (size, stride, padding, dilation))
    rows = {tuple(v): i for i, v in enumerate(source.tolist())}
    taps = list(itertools.product(*map(range, size)))
    made = torch.full((len(outputs), len(taps)), -1)
    for o, v in enumerate(outputs.tolist()):
        for k, tap in enumerate(taps):
            at = (v[0], *(v[1 + a] * stride[a] - padding[a] + tap[a] * dilation[a]
                          for a in range(n)))
            made[o, k] = rows.get(at, -1)
    return made


def inverse(forward, inputs):
    """The table of the other direction: for each input and offset the output that reads it."""
    made = torch.full((inputs, forward.shape[1]), -1)
    output, offset = (forward >= 0).nonzero(as_tuple=True)
    made[forward[output, offset], offset] = output
    return made


# ---- operators, of tables -----------------------------------------------------------------------

def padded(features, value):
    """A row of one value behind the others: that is what -1 reads."""
    return torch.cat([features, features.new_full((1, features.shape[1]), value)])


def conv(features, weight, bias, taps):
    """features [inputs, cin], weight [cout, *size, cin]."""
    out = padded(features, 0)[taps].flatten(1) @ weight.reshape(weight.shape[0], -1).t()
    return out if bias is None else out + bias


def max_pool(features, taps):
    """In the order of spira's offsets (x slowest) where values are equal: take distinct ones."""
    return padded(features, -math.inf)[taps].amax(1)


def avg_pool(features, taps):
    return padded(features, 0)[taps].sum(1) / (taps >= 0).sum(1, keepdim=True)


def dense(features, indices, batch, shape):
    made = features.new_zeros(batch, *shape, features.shape[1])
    return made.index_put(tuple(indices.long().t()), features).movedim(-1, 1)


# ---- voxels that features choose ----------------------------------------------------------------

def subdivide(x, choice=None, threshold=0.0):
    """Children parent by parent, by number; child s = dx + 2 dy + 4 dz."""
    chosen = torch.ones(len(x.indices), 8).bool() if choice is None else \
        choice if choice.dtype == torch.bool else choice > threshold
    row, s = chosen.nonzero(as_tuple=True)
    indices = x.indices[row]
    indices[:, 1:] = 2 * indices[:, 1:] + torch.stack([s >> 2, s >> 1 & 1, s & 1], 1)
    y = SparseConvTensor(None, indices, [2 * n for n in x.spatial_shape], x.batch_size)
    y.taken = row, s
    y.features = to_children(x, y).features
    return y


def to_children(x, children, repeat=1):
    parts = x.features.unflatten(1, (8, -1))[children.taken]
    return children.replace_feature(parts.repeat_interleave(repeat, 1))


# ---- modules ------------------------------------------------------------------------------------

class SparseConvTensor:
    def __init__(self, features, indices, spatial_shape, batch_size, indice_dict=None):
        self.features, self.indices = features, indices
        self.spatial_shape, self.batch_size = list(spatial_shape), batch_size
        self.indice_dict = {} if indice_dict is None else indice_dict

    def replace_feature(self, features):
        return SparseConvTensor(features, self.indices, self.spatial_shape, self.batch_size,
                                self.indice_dict)

    def dense(self, channels_first=True):
        made = dense(self.features, self.indices, self.batch_size, self.spatial_shape)
        return made if channels_first else made.movedim(1, -1)


class SparseModule(nn.Module):
    pass


class SparseSequential(SparseModule):
    def __init__(self, *modules):
        super().__init__()
        for i, module in enumerate(modules):
            self.add_module(str(i), module)

    def __getitem__(self, i):
        return list(self._modules.values())[i]

    def forward(self, x):
        for module in self._modules.values():
            if isinstance(module, SparseModule) or not isinstance(x, SparseConvTensor):
                x = module(x)
            else:
                x = x.replace_feature(module(x.features))
        return x


class Layer(SparseModule):
    """A submanifold (kept=True) or strided layer: finds voxels and table, once for each key."""

    def __init__(self, ndim, size, stride, padding, dilation, indice_key, kept):
        super().__init__()
        self.size, self.stride = each_axis(size, ndim), each_axis(stride, ndim)
        self.padding, self.dilation = each_axis(padding, ndim), each_axis(dilation, ndim)
        self.indice_key, self.kept = indice_key, kept
        if kept:
            self.stride = [1] * ndim
            self.padding = [d * (k - 1) // 2 for k, d in zip(self.size, self.dilation)]

    def find(self, x):
        known = x.indice_dict.get(self.indice_key)
        if known is not None:
            return known
        at = (self.size, self.stride, self.padding, self.dilation)
        outputs, extent = x.indices, x.spatial_shape
        if not self.kept:
            voxels, extent = expand(x.indices, x.spatial_shape, *at)
            outputs = torch.tensor(voxels, dtype=torch.int32).reshape(-1, x.indices.shape[1])
        found = (x.indices, x.spatial_shape, outputs, extent, table(x.indices, outputs, *at))
        if self.indice_key is not None:
            x.indice_dict[self.indice_key] = found
        return found

    def result(self, x, features, outputs, extent):
        return SparseConvTensor(features, outputs, extent, x.batch_size, x.indice_dict)


class Convolution(Layer):
    def __init__(self, ndim, cin, cout, kernel_size, stride=1, padding=0, dilation=1, bias=True,
                 indice_key=None, kept=False, inverse=False, algo=None):
        super().__init__(ndim, kernel_size, stride, padding, dilation, indice_key, kept)
        self.inverse = inverse
        self.weight = nn.Parameter(torch.empty(cout, *self.size, cin))
        bound = 1 / math.sqrt(cin * math.prod(self.size))
        nn.init.uniform_(self.weight, -bound, bound)
        self.bias = nn.Parameter(torch.empty(cout).uniform_(-bound, bound)) if bias else None

    def forward(self, x):
        plain = set(self.size) == {1} and set(self.stride) == {1} and not self.inverse
        if plain: # the numbers of these weights are [cin, cout] in memory, whatever the shape says
            sums = x.features @ self.weight.reshape(x.features.shape[1], -1)
            return x.replace_feature(sums if self.bias is None else sums + self.bias)
        if self.inverse:
            outputs, extent, _, _, taps = x.indice_dict[self.indice_key]
            taps = inverse(taps, len(outputs))
        else:
            _, _, outputs, extent, taps = self.find(x)
        return self.result(x, conv(x.features, self.weight, self.bias, taps), outputs, extent)


class MaxPool(Layer):
    def __init__(self, ndim, kernel_size, stride=None, padding=0, dilation=1, indice_key=None):
        super().__init__(ndim, kernel_size, kernel_size if stride is None else stride, padding,
                         dilation, indice_key, False)

    def forward(self, x):
        _, _, outputs, extent, taps = self.find(x)
        return self.result(x, max_pool(x.features, taps), outputs, extent)


def named(base, ndim, **fixed):
    class Named(base):
        def __init__(self, *args, **options):
            super().__init__(ndim, *args, **fixed, **options)
    return Named


SubMConv1d, SubMConv2d, SubMConv3d = (named(Convolution, n, kept=True) for n in (1, 2, 3))
SparseConv1d, SparseConv2d, SparseConv3d = (named(Convolution, n) for n in (1, 2, 3))
SparseInverseConv2d, SparseInverseConv3d = (named(Convolution, n, inverse=True) for n in (2, 3))
SparseMaxPool2d, SparseMaxPool3d = (named(MaxPool, n) for n in (2, 3))
