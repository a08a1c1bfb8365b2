# SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
"""Batch norms: with the ReLU and the addition behind them in one operator, and for features with
padding, of which they count the real rows only."""
import torch
from torch import nn
from torch.compiler import is_compiling
from torch.nn.modules import module as every

from .. import layers
from ..maps import TYPES
from .geometry import padded

norm_op = torch.ops.spira.norm.default
eval_op = torch.ops.spira.norm_eval.default


def is_plain(module):
    """Whether calling a module does nothing but the forward function of its class."""
    return has_no_hooks(module) and not (
        every._global_forward_hooks or every._global_forward_pre_hooks or
        every._global_backward_hooks or every._global_backward_pre_hooks)


def are_plain(first, second):
    """The same of two modules."""
    return is_plain(first) and has_no_hooks(second)


def has_no_hooks(module):
    return not (module._forward_hooks or module._forward_pre_hooks or module._backward_hooks or
                module._backward_pre_hooks or "forward" in module.__dict__)


def state(norm, count):
    """Weight, bias, running mean and variance and the number of batches of a batch norm that
    operators compute; None of any other. count: of the rows, or None."""
    if type(norm) is not BatchNorm1d and (type(norm) is not nn.BatchNorm1d or count is not None):
        return None
    own, kept = norm._parameters, norm._buffers # faster than attributes
    if "weight" in own and "bias" in own:
        weight, bias = own["weight"], own["bias"]
    else: # pruned, or a replica of nn.DataParallel
        weight, bias = norm.weight, norm.bias
    mean = kept["running_mean"]
    if (weight is not None and weight.dtype != torch.float32) or (
            mean is not None and mean.dtype != torch.float32):
        return None
    return weight, bias, mean, kept["running_var"], kept["num_batches_tracked"]


def conv_rest(norm, count, relu):
    """The arguments of conv_norm, in `eval` mode of conv_norm_eval, that are a norm's, with an end
    of ReLU or without (csrc/ops.h); None where that operator does not compute it."""
    made = None if is_compiling() else state(norm, count)
    if made is None:
        return None
    if norm.training:
        made = made if norm.track_running_stats else (*made[:2], None, None, None)
        return None if norm.momentum is None else (*made, norm.momentum, norm.eps, relu,
                                                   layers.recompute > 1)
    return None if made[2] is None else (*made[:4], norm.eps, relu)


def fused(norm, features, count, residual=None, relu=False):
    """A batch norm over all rows or over `count`, the residual added, and a ReLU: by an operator.
    None where none computes that: in `eval` mode with gradients, for example."""
    made, dtype, shape = state(norm, count), features.dtype, features.shape
    if made is None or dtype not in TYPES or len(shape) != 2 or not shape[0] or \
            shape[1] != norm.num_features:
        return None
    if residual is not None and (residual.dtype != dtype or residual.shape != shape):
        return None
    weight, bias, mean, var, batches = made
    compiling = is_compiling()
    if not norm.training and mean is not None:
        if compiling or is_watched(features, residual, weight, bias):
            return None
        return eval_op(features, residual, count, *made[:4], norm.eps, relu)
    if not norm.track_running_stats:
        mean = var = batches = None
    if norm.momentum is None or (count is None and (shape[0] < 2 or compiling)):
        return None
    return norm_op(features, residual, count, weight, bias, mean, var, batches, norm.momentum,
                   norm.eps, relu, layers.recompute > 1 and not compiling)[0]


def in_mode():
    """Whether a mode sees each operator, as export does."""
    return torch._C._len_torch_dispatch_stack() > 0


def is_watched(*tensors):
    """Whether somebody follows what is computed from tensors: autograd, or a mode."""
    return in_mode() or (
        torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in tensors))


def norm_relu(norm, x, residual=None):
    """relu(norm(x) + residual) of SparseConvTensors: a batch norm with what stands behind it.

    norm      an nn.BatchNorm1d, or any other norm of features
    x         SparseConvTensor
    residual  SparseConvTensor of the same voxels, or None

    Returns a SparseConvTensor. In training one operator computes it, and keeps x alone; with a
    residual the result, too; in `eval` mode, without gradients, one kernel. In other cases it is
    what the modules compute one by one.
    """
    coordinates, stays = x.coordinates(), x.has_ordered()
    if residual is not None and residual.coordinates() is not coordinates:
        raise ValueError(f"residual: of different voxels: {residual}, but x is {x}")
    if stays:
        features = x.ordered(coordinates)
        added = None if residual is None else residual.ordered(coordinates)
    else:
        features, added = x.features, None if residual is None else residual.features
    made = of_rows(norm, x, features, added)
    return x.with_ordered(made, coordinates) if stays else x.replace_feature(made)


def conv_norm_relu(conv, norm, x, residual=None):
    """norm_relu(norm, conv(x), residual), in training as one operator. In `eval` mode, without
    gradients, the convolution applies the norm, the addition and the ReLU itself: one pass over the
    rows less.

    conv   a layer of this package, or any module that returns a SparseConvTensor
    """
    join = getattr(type(conv), "_with_norm", None) # a module's own attributes may be anything
    made = None if join is None else join(conv, x, norm, residual, True)
    return norm_relu(norm, conv(x), residual) if made is None else made


def of_rows(norm, x, features, residual=None):
    """The features of norm_relu."""
    made = fused(norm, features, x.count, residual, True) if is_plain(norm) else None
    if made is None:
        made = counted(norm, features, x)
        made = torch.relu(made if residual is None else made + residual)
    return made


def counted(module, features, x):
    """A module's result; in capacity mode, with batch norms that count the real rows only."""
    if features.shape[0] == 0 and isinstance(module, nn.modules.batchnorm._BatchNorm):
        return norm_of_nothing(module, features)
    if x.count is None:
        return module(features)
    if isinstance(module, BatchNorm1d):
        return module(features, x.count)
    if isinstance(module, nn.modules.batchnorm._BatchNorm):
        raise TypeError(f"{type(module).__name__}: counts the padding of capacity mode; "
                        "convert_batchnorm(module) replaces it")
    return module(features)


def norm_of_nothing(norm, features):
    """A batch norm of no rows, which PyTorch refuses. The parameters get gradients of zero: other
    processes wait for them."""
    return features if norm.weight is None else (features * norm.weight + norm.bias).to(features)


class BatchNorm1d(nn.BatchNorm1d):
    """nn.BatchNorm1d that knows about padding.

    With features of capacity mode it takes mean and variance of the first `count` rows, and writes
    zeros behind them. SparseSequential hands it the count; in norm(x.features) it comes with the
    features of x; elsewhere it is an argument. With other features it is nn.BatchNorm1d, but for
    no rows at all, which it takes. Same tensors, same names.
    """

    def forward(self, input, count=None):
        if input.shape[0] == 0:
            return norm_of_nothing(self, input)
        count = getattr(input, "_spira_count", None) if count is None else count
        if not (self.training or self.running_mean is None):
            made = fused(self, input, count)
            return super().forward(input) if made is None else made
        if count is None:
            check_no_padding(input)
        elif self.momentum is None:
            raise ValueError("momentum: None needs a read-back; capacity mode needs a number")
        made = fused(self, input, count)
        if made is None and count is not None:
            raise ValueError(f"input: {input.dtype} {list(input.shape)}; in capacity mode "
                             f"[rows, {self.num_features}] of fp32, fp16 or bf16 is needed")
        return super().forward(input) if made is None else made


def check_no_padding(features):
    """Raises if these may be features of capacity mode whose count got lost."""
    if not is_compiling() and any(s.rows == features.shape[0] for s in padded):
        raise ValueError("count: needed by this batch norm in capacity mode: call it with "
                         "x.features itself, or say count=x.count")


def convert_batchnorm(module):
    """Replaces each nn.BatchNorm1d in a module by spira's; parameters and buffers stay.

    Returns the module. SyncBatchNorm is left alone: it does not work in capacity mode.
    """
    if type(module) is nn.BatchNorm1d:
        module.__class__ = BatchNorm1d
    for part in module.children():
        convert_batchnorm(part)
    return module
