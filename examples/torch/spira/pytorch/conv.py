# SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
"""Convolutions with spconv's names and arguments."""
import math

import torch
from torch import nn
from torch.nn import functional

from .. import layers
from .geometry import same_voxels
from .modules import SparseModule
from .norm import are_plain, conv_rest, in_mode, is_watched
from .tensor import IndiceData, SparseConvTensor, refuse_proxy


SUBMANIFOLD = "submanifold"  # kind of IndiceData
HALVES = (torch.float16, torch.bfloat16)


def each_axis(value, ndim, name):
    """An int or a sequence, as a tuple of one int for each axis."""
    value = (value,) * ndim if isinstance(value, int) else tuple(int(n) for n in value)
    if len(value) != ndim:
        raise ValueError(f"{name}: {ndim} numbers are needed, not {list(value)}")
    return value


def check_input(x, layer):
    """Raises what a layer cannot take."""
    refuse_proxy(x)
    if not isinstance(x, SparseConvTensor):
        raise TypeError(f"{type(layer).__name__}: a SparseConvTensor is needed, not "
                        f"{type(x).__name__}")
    if len(x.spatial_shape) != layer.ndim:
        raise ValueError(f"{type(layer).__name__}: {layer.ndim} axes, but spatial_shape is "
                         f"{x.spatial_shape}")


def noted(x, layer, kind, here, find):
    """The sets and map of a layer on the set `here`: what its indice_key has, or what find(here)
    returns; and the indice_dict of its result, where that is noted."""
    key = layer.indice_key
    known = x.find_indice_pair(key)
    if known is None:
        outputs, kernel_map = find(here)
        known = IndiceData(kind, here, outputs, kernel_map, layer.kernel_size, layer.stride,
                           layer.padding, layer.dilation)
        return known, x.indice_dict if key is None else {**x.indice_dict, key: known}
    if known.kernel == layer.kernel and known.kind == kind == SUBMANIFOLD and (
            known.source is here or same_voxels(known.source, here)):
        return known, x.indice_dict
    if kind != SUBMANIFOLD or known.kind != kind:
        raise ValueError(f"indice_key: {key!r} is taken; only submanifold layers share one")
    for name in ("kernel_size", "dilation"):
        before = getattr(known, "ksize" if name == "kernel_size" else name)
        if before != list(getattr(layer, name)):
            raise ValueError(f"indice_key: {key!r} is of {name} {before}, but this layer has "
                             f"{list(getattr(layer, name))}")
    raise ValueError(f"indice_key: {key!r} is of another set of voxels")


class SparseConvolution(SparseModule):
    """What all convolutions share.

    weight   [out_channels, *kernel_size, in_channels / groups], as spconv 2 stores it. In memory the axes
             are in the operators' order, [*reversed(kernel_size), in_channels, out_channels]: a
             weight is not contiguous, and no step orders it. The weights of a plain 1x1 layer (size
             1, stride 1) are contiguous, but their numbers are [in_channels, out_channels]: so
             spconv 2.3 reads them
    bias     [out_channels], or None

    Both begin uniform within 1 / sqrt(in_channels * volume), as those of spconv and of PyTorch's
    convolutions do.

    device, dtype   of weight and bias, as in PyTorch

    Accepted and ignored: algo, fp32_accum, large_kernel_fast_algo and record_voxel_count. They
    choose among spconv's kernels; spira chooses by shape and GPU, and always sums in fp32.
    """

    def __init__(self, ndim, in_channels, out_channels, kernel_size=3, stride=1, padding=0,
                 dilation=1, groups=1, bias=True, subm=False, output_padding=0, transposed=False,
                 inverse=False, indice_key=None, algo=None, fp32_accum=None,
                 record_voxel_count=False, act_type=None, act_alpha=0, act_beta=0,
                 large_kernel_fast_algo=False, name=None, device=None, dtype=None):
        super().__init__(name=name)
        if groups < 1 or in_channels % groups or out_channels % groups:
            raise ValueError(f"groups: {groups} does not divide {in_channels} and {out_channels} "
                             "channels")
        if getattr(act_type, "name", act_type) not in (None, "None_"):
            raise NotImplementedError(f"act_type: {act_type}; put the activation behind the layer")
        self.ndim, self.in_channels, self.out_channels = ndim, in_channels, out_channels
        self.kernel_size = each_axis(kernel_size, ndim, "kernel_size")
        self.stride = each_axis(stride, ndim, "stride")
        self.padding = each_axis(padding, ndim, "padding")
        self.dilation = each_axis(dilation, ndim, "dilation")
        self.output_padding = each_axis(output_padding, ndim, "output_padding")
        self.kernel = self.kernel_size, self.dilation
        self.groups, self.subm, self.inverse, self.transposed = groups, subm, inverse, transposed
        self.indice_key, self.algo, self.fp32_accum = indice_key, algo, fp32_accum
        self.record_voxel_count = record_voxel_count
        self.act_type, self.act_alpha, self.act_beta = act_type, act_alpha, act_beta
        self._check_sizes()
        self.conv1x1 = set(self.kernel_size) == {1} and set(self.stride) == {1} and \
            not inverse and not transposed and groups == 1
        if self.conv1x1 and not subm and any(self.padding):
            raise ValueError("padding: 0 is needed by a layer of size 1 and stride 1, not "
                             f"{list(self.padding)}")
        made = dict(device=device, dtype=dtype)
        self.weight = nn.Parameter(self._empty_weight(made))
        self.weight_shape = list(self.weight.shape)
        self.register_parameter("bias", nn.Parameter(torch.empty(out_channels, **made)) if bias
                                else None)
        self.reset_parameters()

    def _check_sizes(self):
        for name in ("kernel_size", "stride", "dilation"):
            if min(getattr(self, name)) < 1:
                raise ValueError(f"{name}: at least 1, not {list(getattr(self, name))}")
        if min(self.padding) < 0:
            raise ValueError(f"padding: at least 0, not {list(self.padding)}")
        if max(self.kernel_size) > 15:
            raise ValueError(f"kernel_size: at most 15, not {list(self.kernel_size)}")
        if self.subm and any(size % 2 == 0 for size in self.kernel_size):
            raise ValueError("kernel_size: a submanifold layer needs odd sizes, not "
                             f"{list(self.kernel_size)}")
        if self.subm and max(self.stride) > 1:
            raise ValueError(f"stride: a submanifold layer has 1, not {list(self.stride)}")
        if self.transposed and max(self.dilation) > 1:
            raise ValueError(f"dilation: a transposed layer has 1, not {list(self.dilation)}")
        if self.transposed and any(not 0 <= more < stride for more, stride in
                                   zip(self.output_padding, self.stride)):
            raise ValueError("output_padding: from 0 to stride - 1, not "
                             f"{list(self.output_padding)}")

    def _empty_weight(self, made):
        in_channels = self.in_channels // self.groups
        if self.conv1x1:
            return torch.empty(self.out_channels, *self.kernel_size, in_channels, **made)
        ordered = torch.empty(*reversed(self.kernel_size), in_channels, self.out_channels, **made)
        return ordered.permute(self.ndim + 1, *reversed(range(self.ndim)), self.ndim)

    def reset_parameters(self):
        bound = 1 / math.sqrt(max(1, self.weight[:1].numel()))
        with torch.no_grad(): # the same numbers, whatever the order of the memory
            self.weight.copy_(torch.empty_like(
                self.weight, memory_format=torch.contiguous_format).uniform_(-bound, bound))
        if self.bias is not None:
            nn.init.uniform_(self.bias, -bound, bound)

    def _with_norm(self, x, norm, residual=None, relu=False):
        """norm(self(x)), plus the residual, and a ReLU, as one operator. None where none computes
        that: in `eval` mode with gradients, and where somebody looks between the modules, for
        example. residual: SparseConvTensor"""
        if type(self).forward is not SparseConvolution.forward or self.transposed or \
                not isinstance(x, SparseConvTensor) or len(x.spatial_shape) != self.ndim:
            return None
        rest = conv_rest(norm, x._count, relu)
        if rest is None or norm.num_features != self.out_channels or \
                not are_plain(self, norm):
            return None
        if residual is not None and (not self.subm or self.conv1x1):
            return None
        return self._run(x, (norm.training, residual, rest))

    def forward(self, input):
        check_input(input, self)
        return self._run(input, None)

    def _run(self, x, norm):
        """The layer, or with what _with_norm puts behind it: (training, residual, its arguments).
        Then None where no operator computes it."""
        if self.conv1x1:
            return self._pointwise(x, norm)
        here = x.coordinates()
        if self.transposed:
            return self._transposed(x, here)
        found, notes = self._find(x, here)
        features = x.ordered(here)
        weight, bias = self._tensors()
        self._check_features(features, weight)
        rows = features if here.extra is None else here.first_rows(features)
        taps = weight if self.ndim > 1 else self.weight_of_map(weight)
        kernel_map, to = (found.map.reverse(), found.source) if self.inverse else \
            (found.map, found.outputs)
        if norm is not None:
            sums = self._sums_and_norm((rows, taps, bias, kernel_map, self.groups), to, norm)
            return None if sums is None else x.with_ordered(sums, to, notes)
        sums = layers.conv(rows, taps, bias, kernel_map, self.groups)
        if self.subm and here.extra is not None:
            centre = weight[(slice(None), *(size // 2 for size in self.kernel_size))]
            centre = torch.block_diag(*centre.chunk(self.groups)).t()
            sums = here.all_rows(sums, features, centre)
        elif self.inverse:
            sums = to.all_rows(sums)
        return x.with_ordered(sums, to, notes)

    def _sums_and_norm(self, conv, to, norm):
        """The rows that an operator computes of a convolution, the arguments of layers.conv, and of
        what stands behind it; or None. to: the set of the rows."""
        training, residual, rest = norm
        features, weight, bias = conv[:3]
        if to.extra is not None or features.dtype == torch.float64:
            return None
        added = None
        if residual is not None:
            if residual.coordinates() is not to:
                return None
            added = residual.ordered(to)
            if added.dtype != layers.autocast_type(features) or \
                    added.shape[1] != self.out_channels:
                return None
        if training:
            return None if in_mode() else layers.conv_norm(conv, (added, *rest))
        if is_watched(features, added, weight, bias, *rest[:2]):
            return None
        return layers.conv_norm_eval(conv, (added, *rest))

    def _transposed(self, x, here):
        """The inverse of a strided layer on the grown set. That layer's outputs may be more voxels
        than x has: those are zero."""
        fine, coarse, kernel_map, kept, place = here.grown(
            self.kernel_size, self.stride, self.padding, self.output_padding)
        features = layers.autocast(x.ordered(here))
        weight, bias = self._tensors()
        self._check_features(features, weight)
        rows = features.new_zeros(coarse.rows, self.in_channels).index_copy(0, place,
                                                                            features[kept])
        sums = layers.conv(rows, self.weight_of_map(weight), bias, kernel_map.reverse(),
                           self.groups)
        return x.with_ordered(sums, fine)

    def _tensors(self):
        """Weight and bias. A module's attributes are slow, but may be other than its parameters."""
        own = self._parameters
        if "weight" in own and "bias" in own:
            return own["weight"], own["bias"]
        return self.weight, self.bias

    def weight_of_map(self, weight):
        """A weight with the axes of the map: one axis is two, the first of size 1."""
        return weight.unsqueeze(1) if self.ndim == 1 else weight

    def _find(self, x, here):
        if self.subm:
            known = x.indice_dict.get(self.indice_key)
            if known is not None and known.source is here and known.kernel == self.kernel and \
                    known.kind == SUBMANIFOLD:
                return known, x.indice_dict # as noted() finds, which is slower
            return noted(x, self, SUBMANIFOLD, here, self._submanifold)
        if self.inverse:
            return self._find_inverse(x, here)
        return noted(x, self, "convolution", here, lambda here: here.strided(
            self.kernel_size, self.stride, self.padding, self.dilation, self.indice_key))

    def _submanifold(self, here):
        return here, here.submanifold(self.kernel_size, self.dilation)

    def _find_inverse(self, x, here):
        key = self.indice_key
        known = x.find_indice_pair(key)
        if known is None:
            raise ValueError(f"indice_key: no layer before this inverse convolution has {key!r}; "
                             f"there are {list(x.indice_dict)}")
        if known.is_subm:
            raise ValueError(f"indice_key: {key!r} is of a submanifold layer; an inverse "
                             "convolution needs that of a strided layer or of a pooling")
        if known.ksize != list(self.kernel_size):
            raise ValueError(f"kernel_size: {list(self.kernel_size)}, but the layer of "
                             f"indice_key {key!r} has {known.ksize}")
        if known.outputs is not here and not same_voxels(known.outputs, here):
            raise ValueError(f"indice_key: the layer of {key!r} led to another set of voxels "
                             "than this input's")
        return known, x.indice_dict

    def _check_features(self, features, weight):
        if features.size(1) != self.in_channels:
            raise ValueError(f"features: {features.shape[1]} channels, but {type(self).__name__} "
                             f"has in_channels {self.in_channels}")
        if features.get_device() != weight.get_device():
            raise ValueError(f"features: on {features.device}, but the weight is on "
                             f"{weight.device}")

    def _pointwise(self, x, norm):
        """A plain product: the order of the rows does not matter, and nothing is noted. PyTorch
        computes that of fp32. norm: of _run"""
        stays, coordinates = x.has_ordered(), x.coordinates()
        rows = x.ordered(coordinates) if stays else x.features
        weight, bias = self._tensors()
        self._check_features(rows, weight)
        rows = layers.autocast(rows)
        if x.count is None and (rows.dtype not in HALVES or coordinates.extra is not None):
            if norm is not None:
                return None
            weight = weight.reshape(self.in_channels, self.out_channels).t()
            bias = None if bias is None else bias.to(rows.dtype)
            sums = functional.linear(rows, weight.to(rows.dtype), bias)
        else: # which reads no padding, and leaves zeros there
            n = max(self.ndim, 2)
            weight = weight.reshape(*[1] * n, self.in_channels, self.out_channels)
            weight = weight.permute(n + 1, *range(n + 1))
            conv = (rows, weight, bias, coordinates.submanifold(self.kernel_size, self.dilation),
                    self.groups)
            sums = layers.conv(*conv) if norm is None else \
                self._sums_and_norm(conv, coordinates, norm)
            if sums is None:
                return None
        return x.with_ordered(sums, coordinates) if stays else x.replace_feature(sums)

    def extra_repr(self):
        parts = [f"{self.in_channels}, {self.out_channels}"]
        parts += [f"{name}={list(getattr(self, name))}"
                  for name in ("kernel_size", "stride", "padding", "dilation")]
        parts += [f"groups={self.groups}"] if self.groups > 1 else []
        return ", ".join(parts + [f"bias={self.bias is not None}, indice_key={self.indice_key!r}"])


def contiguous_weights(module):
    """Makes the weights of all layers in a module contiguous, for code that takes parameters by
    view(-1): torch.optim.LBFGS, nn.utils.parameters_to_vector, nn.init.orthogonal_, pruning. Each
    step orders them then. Returns the module."""
    for layer in module.modules():
        if isinstance(layer, SparseConvolution):
            layer.weight.data = layer.weight.data.contiguous()
    return module


class _Strided(SparseConvolution):
    ndim = 3

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1,
                 groups=1, bias=True, indice_key=None, algo=None, fp32_accum=None,
                 record_voxel_count=False, large_kernel_fast_algo=False, name=None, **options):
        super().__init__(type(self).ndim, in_channels, out_channels, kernel_size, stride, padding,
                         dilation, groups, bias, indice_key=indice_key, algo=algo,
                         fp32_accum=fp32_accum, record_voxel_count=record_voxel_count, name=name,
                         **options)


class _Submanifold(SparseConvolution):
    ndim = 3

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1,
                 groups=1, bias=True, indice_key=None, algo=None, fp32_accum=None,
                 large_kernel_fast_algo=False, name=None, **options):
        super().__init__(type(self).ndim, in_channels, out_channels, kernel_size, stride, padding,
                         dilation, groups, bias, subm=True, indice_key=indice_key, algo=algo,
                         fp32_accum=fp32_accum, name=name, **options)


class _Transposed(SparseConvolution):
    ndim = 3

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1,
                 groups=1, bias=True, indice_key=None, algo=None, fp32_accum=None,
                 record_voxel_count=False, large_kernel_fast_algo=False, name=None, **options):
        super().__init__(type(self).ndim, in_channels, out_channels, kernel_size, stride, padding,
                         dilation, groups, bias, transposed=True, indice_key=indice_key, algo=algo,
                         fp32_accum=fp32_accum, name=name, **options)


class _Inverse(SparseConvolution):
    ndim = 3

    def __init__(self, in_channels, out_channels, kernel_size, indice_key, bias=True, algo=None,
                 fp32_accum=None, large_kernel_fast_algo=False, name=None, **options):
        super().__init__(type(self).ndim, in_channels, out_channels, kernel_size, bias=bias,
                         inverse=True, indice_key=indice_key, algo=algo, fp32_accum=fp32_accum,
                         name=name, **options)


class SparseConv1d(_Strided):
    ndim = 1


class SparseConv2d(_Strided):
    ndim = 2


class SparseConv3d(_Strided):
    """The output voxels are all that a tap of an input leads to, within the extent."""


class SubMConv1d(_Submanifold):
    ndim = 1


class SubMConv2d(_Submanifold):
    ndim = 2


class SubMConv3d(_Submanifold):
    """The output voxels are the input's. The kernel is centred, whatever `padding` says."""


class SparseInverseConv1d(_Inverse):
    ndim = 1


class SparseInverseConv2d(_Inverse):
    ndim = 2


class SparseInverseConv3d(_Inverse):
    """Back to the voxels that the layer of `indice_key` read, in their order."""


class SparseConvTranspose1d(_Transposed):
    ndim = 1


class SparseConvTranspose2d(_Transposed):
    ndim = 2


class SparseConvTranspose3d(_Transposed):
    """The output voxels are i * stride - padding + tap of all inputs i, within the extent
    (n - 1) * stride - 2 * padding + size + output_padding. One read-back; nothing is noted under
    its indice_key."""
