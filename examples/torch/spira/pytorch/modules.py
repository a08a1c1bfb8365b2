# SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
"""Containers and small modules with spconv's names."""
from collections import OrderedDict

import torch
from torch import nn

from .norm import BatchNorm1d, counted, fused, is_plain, norm_relu
from .tensor import SparseConvTensor, refuse_proxy

ops = torch.ops.spira


class SparseModule(nn.Module):
    """Base of modules that take a SparseConvTensor. SparseSequential hands them the tensor, and
    other modules its features."""

    def __init__(self, name=None):
        super().__init__()
        self.name = name
        self._sparse_unique_name = ""


def is_spconv_module(module):
    return isinstance(module, SparseModule)


def is_sparse_conv(module):
    from .conv import SparseConvolution
    return isinstance(module, SparseConvolution)


# Modules that treat each row alike, or all rows together: the order of the rows does not matter,
# so features stay in the order of the set between two sparse layers.
ORDERLESS = (nn.modules.batchnorm._BatchNorm, nn.ReLU, nn.LeakyReLU, nn.GELU, nn.SiLU, nn.ELU,
             nn.Sigmoid, nn.Tanh, nn.Linear, nn.LayerNorm, nn.RMSNorm, nn.Identity, nn.Dropout, nn.Hardswish,
             nn.Softplus)


BATCH_NORMS = nn.BatchNorm1d, BatchNorm1d


def apply_to_features(module, x):
    """An ordinary module on the features of a SparseConvTensor."""
    coordinates = x.coordinates()
    stays = x.has_ordered() and isinstance(module, ORDERLESS)
    features = x.ordered() if stays else x.features
    made = fused(module, features, x.count) if type(module) in BATCH_NORMS and \
        is_plain(module) else None
    if made is None:
        made = counted(module, features, x)
    return x.with_ordered(made, coordinates) if stays else x.replace_feature(made)


class SparseSequential(SparseModule):
    """A sequence of sparse and ordinary modules.

    Modules are arguments, or entries of one OrderedDict, or arguments with names. Ordinary modules
    are applied to the features, and once a sparse module has returned a plain tensor, to that.
    """

    def __init__(self, *args, **kwargs):
        super().__init__()
        if len(args) == 1 and isinstance(args[0], OrderedDict):
            pairs = list(args[0].items())
        else:
            pairs = [(str(i), module) for i, module in enumerate(args)]
        for name, module in pairs + list(kwargs.items()):
            if name in self._modules:
                raise ValueError(f"{name}: twice in a SparseSequential")
            self.add_module(name, module)

    def __getitem__(self, index):
        if not -len(self) <= index < len(self):
            raise IndexError(f"index {index} is out of range")
        return list(self._modules.values())[index]

    def __len__(self):
        return len(self._modules)

    def add(self, module, name=None):
        name = str(len(self._modules)) if name is None else name
        if name in self._modules:
            raise KeyError(f"{name}: there already")
        self.add_module(name, module)

    def forward(self, input):
        refuse_proxy(input)
        modules = list(self._modules.values())
        done = 0
        while done < len(modules):
            module = modules[done]
            done += 1
            if not isinstance(input, SparseConvTensor):
                input = module(input)
            elif takes_sparse(module):
                input, used = with_norm(module, modules[done:done + 2], input)
                done += used
            elif done < len(modules) and is_norm_and_relu(module, modules[done]):
                input = norm_relu(module, input)
                done += 1
            else:
                input = apply_to_features(module, input)
        return input


def with_norm(module, behind, x):
    """A sparse module's result; of a convolution, where that is possible, with the batch norm and
    the ReLU that stand behind it. And how many of them it has."""
    join = getattr(type(module), "_with_norm", None)
    if join is not None and behind and type(behind[0]) in BATCH_NORMS:
        relu = len(behind) > 1 and is_norm_and_relu(*behind)
        made = join(module, x, behind[0], None, relu)
        if made is not None:
            return made, 1 + relu
    return module(x), 0


def is_norm_and_relu(first, second):
    """Whether norm_relu computes two modules of a sequence."""
    return (isinstance(first, nn.modules.batchnorm._BatchNorm) and type(second) is nn.ReLU and
            is_plain(second))


def takes_sparse(module):
    """Whether a module is for SparseConvTensors. An nn.Sequential is, if its first module is."""
    if type(module) is nn.Sequential and len(module):
        return takes_sparse(module[0])
    return isinstance(module, SparseModule)


class ToDense(SparseModule):
    """[batch, channels, *spatial_shape]."""

    def forward(self, x):
        return x.dense()


class RemoveGrid(SparseModule):
    """Nothing to do: spira keeps no grid."""

    def forward(self, x):
        return x


class Identity(SparseModule):
    def forward(self, x):
        return x


class _OfFeatures:
    """PyTorch's module on a tensor, or on the features of a SparseConvTensor."""

    def forward(self, x, *count):
        if isinstance(x, SparseConvTensor):
            return apply_to_features(self, x)
        return super().forward(x, *count)


class SparseReLU(_OfFeatures, nn.ReLU):
    pass


class SparseBatchNorm(_OfFeatures, BatchNorm1d):
    pass


class SparseSyncBatchNorm(_OfFeatures, nn.SyncBatchNorm):
    pass


class ConcatTable(SparseModule):
    """Each module of the table on the input."""

    def __init__(self, name=None):
        super().__init__(name=name)

    def forward(self, x):
        return [module(x) for module in self._modules.values()]

    def add(self, module):
        self.add_module(str(len(self._modules)), module)
        return self


class JoinTable(SparseModule):
    """Tensors of the same voxels, their channels side by side. A U-Net that joins its skip
    connections with it keeps less for the backward pass than with torch.cat."""

    def forward(self, xs):
        same_voxels(xs)
        if any(x.has_ordered() for x in xs):
            return xs[0].with_ordered(joined([x.ordered() for x in xs]), xs[0].coordinates())
        return xs[0].replace_feature(joined([x.features for x in xs]))


def joined(rows):
    """[rows, channels of all]."""
    if len(rows) == 2 and rows[0].dtype == rows[1].dtype:
        return ops.join.default(*rows)
    return torch.cat(rows, 1)


class AddTable(SparseModule):
    """The sum of tensors of the same voxels."""

    def forward(self, xs):
        return xs[0].replace_feature(sum(x.features for x in same_voxels(xs)))


class AddTableMisaligned(SparseModule):
    """The sum of tensors of different voxels: the union of the voxels, zeros where one has none."""

    def forward(self, xs):
        return sparse_add(*xs)


def sparse_add(*xs):
    """The sum of SparseConvTensors of one scene: the voxels of all, sorted. Deterministic."""
    first = xs[0]
    for x in xs[1:]:
        if x.spatial_shape != first.spatial_shape or x.batch_size != first.batch_size:
            raise ValueError(f"spatial_shape: {x} is of another scene than {first}")
    voxels, place = torch.unique(torch.cat([x.indices for x in xs]), dim=0, return_inverse=True)
    sums = first.features.new_zeros(len(voxels), first.features.shape[1])
    for x, at in zip(xs, place.split([len(x.indices) for x in xs])):
        sums = sums.index_add(0, at, x.features) # no two rows of x at one place
    return SparseConvTensor(sums, voxels, first.spatial_shape, first.batch_size)


def same_voxels(xs):
    for x in xs[1:]:
        if x.coordinates() is not xs[0].coordinates():
            raise ValueError(f"indices: tensors of different voxels cannot be joined: {xs}")
    return xs


def assign_name_for_sparse_modules(module):
    """Gives each sparse module its name in `module`."""
    for name, part in module.named_modules():
        if isinstance(part, SparseModule):
            part._sparse_unique_name = name
