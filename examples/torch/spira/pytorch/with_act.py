# SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
"""Layers with the addition and the activation behind them in one kernel, where nobody wants
gradients."""
import torch
from torch import nn
from torch.compiler import is_compiling

from .. import layers
from ..maps import TYPES
from .conv import HALVES, SparseConvolution
from .modules import apply_to_features, takes_sparse
from .norm import is_plain, is_watched

NORMS = {nn.LayerNorm: layers.LAYER, nn.RMSNorm: layers.RMS}


def number_of(act):
    """spira::activation of a module; None: there is none."""
    if type(act) is nn.GELU:
        return 4 if act.approximate == "none" else 5
    return {type(None): 0, nn.ReLU: 1, nn.SiLU: 3}.get(type(act))


def with_act(layer, x, act=None, residual=None):
    """act(layer(x) + residual), a SparseConvTensor.

    layer     a submanifold convolution, nn.Linear, nn.LayerNorm or nn.RMSNorm over the channels; or
              any other module, of SparseConvTensors or of features
    act       a module, or None: nn.ReLU, nn.SiLU, nn.GELU; or any other
    residual  SparseConvTensor of the same voxels as the result, or None

    Without gradients one kernel computes it: norms in all three formats, nn.Linear in fp16 and bf16,
    convolutions in all. With gradients norms are a kernel of spira, and what is behind them modules.
    In other cases it is what the modules compute one by one.
    """
    made = in_one(layer, x, act, residual)
    if made is not None:
        return made
    y = in_one(layer, x, None, None) if type(layer) in NORMS else None
    if y is None:
        y = layer(x) if takes_sparse(layer) else apply_to_features(layer, x)
    y = y if residual is None else y + residual
    return y if act is None else apply_to_features(act, y)


def in_one(layer, x, act, residual):
    """The result by one kernel; None where there is none."""
    here, number, kind = x.coordinates(), number_of(act), type(layer)
    convolves = isinstance(layer, SparseConvolution) and layer.subm and not layer.conv1x1
    if number is None or not (convolves or kind is nn.Linear or kind in NORMS) or \
            here.extra is not None or not here.rows or is_compiling() or \
            torch._C._len_torch_dispatch_stack() > 0 or not (is_plain(layer) and (act is None or is_plain(act))):
        return None
    if not convolves and not x.has_ordered() and here.voxels.rows is not None:
        return None # rows would be permuted
    if residual is not None and residual.coordinates() is not here:
        raise ValueError(f"residual: of different voxels: {residual}, but x is {x}")
    rows, added = x.ordered(here), None if residual is None else residual.ordered(here)
    weight, bias = layer.weight, getattr(layer, "bias", None)
    alone = kind in NORMS and number == 0 and residual is None
    if not alone and is_watched(rows, added, weight, bias):
        return None
    if kind in NORMS:
        return of_norm(layer, x, rows, number, added)
    rows = layers.autocast(rows)
    if (added is not None and added.dtype != rows.dtype) or (
            rows.dtype not in (TYPES if convolves else HALVES)):
        return None
    if convolves:
        layer._check_features(rows, weight)
        found, _ = layer._find(x, here)
        kernel_map, weight = found.map, layer.weight_of_map(weight)
    else:
        kernel_map = here.submanifold((1, 1, 1), (1, 1, 1))
        weight = weight.reshape(len(weight), 1, 1, 1, weight.shape[1])
    made = layers.conv_eval(rows, weight, bias, kernel_map, added, number,
                            layer.groups if convolves else 1)
    return x.with_ordered(made, here)


def of_norm(layer, x, rows, number, added):
    """A norm of rows."""
    if layer.normalized_shape != rows.shape[1:] or rows.dtype not in TYPES or \
            layers.autocast(rows) is not rows or (
                added is not None and added.dtype != rows.dtype):
        return None
    here = x.coordinates()
    eps = torch.finfo(rows.dtype).eps if layer.eps is None else layer.eps
    made = layers.norm_rows(NORMS[type(layer)], rows, layer.weight, getattr(layer, "bias", None),
                            here.voxels, eps, added, number)
    return x.with_ordered(made, here)
