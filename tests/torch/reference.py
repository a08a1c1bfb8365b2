# tests/torch/reference.py: spconv's modules in plain PyTorch, as slow and as plain as can be.
#
# The judge of spira.pytorch: nothing here is shared with it. Voxels are found in a dictionary, a
# layer is one index_select, one product and one index_add for each tap, and autograd makes the
# gradients. Any floating type: the tests use double.
#
# A network that takes its library as an argument runs on this one, on spira.pytorch and on
# spconv.pytorch with the same state dict.
import itertools
import math

import torch
from torch import nn


class SparseConvTensor:
    def __init__(self, features, indices, spatial_shape, batch_size, indice_dict=None):
        self.features, self.indices = features, indices
        self.spatial_shape, self.batch_size = list(spatial_shape), batch_size
        self.indice_dict = {} if indice_dict is None else indice_dict

    def replace_feature(self, features):
        return SparseConvTensor(features, self.indices, self.spatial_shape, self.batch_size,
                                self.indice_dict)

    def dense(self, channels_first=True):
        shape = [self.batch_size, *self.spatial_shape, self.features.shape[1]]
        where = tuple(self.indices.long().T)
        dense = self.features.new_zeros(shape).index_put(where, self.features)
        last = dense.ndim - 1
        return dense.permute(0, last, *range(1, last)) if channels_first else dense


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


def each_axis(value, ndim):
    return [value] * ndim if isinstance(value, int) else list(value)


# The pairs (input rows, output rows) of each tap: input = output * stride - padding + tap *
# dilation.
def pairs_of(inputs, outputs, size, stride, padding, dilation):
    row_of = {tuple(voxel): row for row, voxel in enumerate(inputs.tolist())}
    pairs = []
    for tap in itertools.product(*map(range, size)):
        rows = []
        for row, (batch, *voxel) in enumerate(outputs.tolist()):
            at = (o * s - p + t * d
                  for o, s, p, t, d in zip(voxel, stride, padding, tap, dilation))
            source = row_of.get((batch, *at))
            if source is not None:
                rows.append((source, row))
        pairs.append(torch.tensor(rows, dtype=torch.long).reshape(-1, 2).to(inputs.device))
    return pairs


def outputs_of(inputs, size, stride, padding, dilation, extent):
    """The voxels that some tap of some input leads to, within the extent."""
    found = set()
    for batch, *voxel in inputs.tolist():
        for tap in itertools.product(*map(range, size)):
            at = [i + p - t * d for i, p, t, d in zip(voxel, padding, tap, dilation)]
            if not any(a % s for a, s in zip(at, stride)):
                at = [a // s for a, s in zip(at, stride)]
                if all(0 <= a < n for a, n in zip(at, extent)):
                    found.add((batch, *at))
    voxels = torch.tensor(sorted(found), dtype=inputs.dtype)
    return voxels.reshape(-1, inputs.shape[1]).to(inputs.device)


class Layer(SparseModule):
    """A submanifold (kept=True) or strided layer: finds pairs and voxels, once for each key."""

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
            extent = [(n + 2 * p - d * (k - 1) - 1) // s + 1
                      for n, k, s, p, d in zip(x.spatial_shape, *at)]
            outputs = outputs_of(x.indices, *at, extent)
        found = (x.indices, x.spatial_shape, outputs, extent, pairs_of(x.indices, outputs, *at))
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
        cout, cin = self.weight.shape[0], self.weight.shape[-1]
        plain = set(self.size) == {1} and set(self.stride) == {1} and not self.inverse
        if plain: # the numbers of these weights are [cin, cout] in memory, whatever the shape says
            sums = x.features @ self.weight.reshape(cin, cout)
            return x.replace_feature(sums if self.bias is None else sums + self.bias)
        if self.inverse:
            outputs, extent, _, _, pairs = x.indice_dict[self.indice_key]
            pairs = [p.flip(1) for p in pairs]
        else:
            _, _, outputs, extent, pairs = self.find(x)
        sums = x.features.new_zeros(len(outputs), cout)
        for p, weight in zip(pairs, self.weight.reshape(cout, -1, cin).unbind(1)):
            sums = sums.index_add(0, p[:, 1], x.features.index_select(0, p[:, 0]) @ weight.T)
        return self.result(x, sums if self.bias is None else sums + self.bias, outputs, extent)


class MaxPool(Layer):
    def __init__(self, ndim, kernel_size, stride=None, padding=0, dilation=1, indice_key=None):
        super().__init__(ndim, kernel_size, kernel_size if stride is None else stride, padding,
                         dilation, indice_key, False)

    def forward(self, x):
        _, _, outputs, extent, pairs = self.find(x)
        rows = torch.full((len(outputs), len(pairs)), len(x.features), device=outputs.device)
        for k, p in enumerate(pairs):
            rows[p[:, 1], k] = p[:, 0]
        nothing = x.features.new_full((1, x.features.shape[1]), -math.inf)
        values = torch.cat([x.features, nothing])[rows].max(1).values
        return self.result(x, values, outputs, extent)


def named(base, ndim, **fixed):
    class Named(base):
        def __init__(self, *args, **options):
            super().__init__(ndim, *args, **fixed, **options)
    return Named


SubMConv1d, SubMConv2d, SubMConv3d = (named(Convolution, n, kept=True) for n in (1, 2, 3))
SparseConv1d, SparseConv2d, SparseConv3d = (named(Convolution, n) for n in (1, 2, 3))
SparseInverseConv2d, SparseInverseConv3d = (named(Convolution, n, inverse=True) for n in (2, 3))
SparseMaxPool2d, SparseMaxPool3d = (named(MaxPool, n) for n in (2, 3))
