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
from .tensor import version_of

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
    here, number = x.coordinates(), number_of(act)
    if number is None or not is_known(layer) or not is_plain(layer) or not (
            act is None or is_plain(act)):
        return None
    if here.extra is not None or not here.rows or is_compiling() or \
            torch._C._len_torch_dispatch_stack() > 0:
        return None
    if not convolves(layer) and not x.has_ordered() and here.voxels.rows is not None:
        return None # rows would be permuted
    if residual is not None and residual.coordinates() is not here:
        raise ValueError(f"residual: of different voxels: {residual}, but x is {x}")
    rows, added = x.ordered(here), None if residual is None else residual.ordered(here)
    made = (of_norm if type(layer) in NORMS else of_conv)(layer, x, rows, added, number)
    return None if made is None else x.with_ordered(made, here)


def of_norm(layer, x, rows, added, number):
    """A norm of rows. With gradients only by itself."""
    weight, bias = layer.weight, getattr(layer, "bias", None)
    watched, alone = is_watched(rows, added, weight, bias), number == 0 and added is None
    if layer.normalized_shape != rows.shape[1:] or rows.dtype not in TYPES or \
            layers.autocast(rows) is not rows or (watched and not alone) or (
                added is not None and added.dtype != rows.dtype):
        return None
    if not watched:
        weight, bias = packed_of(layer, rows.dtype) or (weight, bias)
    eps = torch.finfo(rows.dtype).eps if layer.eps is None else layer.eps
    return layers.norm_rows(NORMS[type(layer)], rows, weight, bias, x.coordinates().voxels, eps,
                            added, number)


def of_conv(layer, x, rows, added, number):
    """A convolution or a linear layer. Not with gradients."""
    weight, bias, here, is_conv = layer.weight, layer.bias, x.coordinates(), convolves(layer)
    rows = layers.autocast(rows)
    if is_watched(rows, added, weight, bias) or (
            added is not None and added.dtype != rows.dtype) or (
            rows.dtype not in (TYPES if is_conv else HALVES)):
        return None
    packed, bias = packed_of(layer, rows.dtype) or (None, bias)
    if is_conv:
        layer._check_features(rows, weight)
        found, _ = layer._find(x, here)
        kernel_map, weight = found.map, layer.weight_of_map(weight)
    else:
        kernel_map, weight = here.submanifold((1, 1, 1), (1, 1, 1)), as_taps(weight)
    return layers.conv_eval(rows, weight, bias, kernel_map, added, number,
                            layer.groups if is_conv else 1, packed)


def convolves(layer):
    return isinstance(layer, SparseConvolution) and layer.subm and not layer.conv1x1


def is_known(layer):
    return type(layer) is nn.Linear or type(layer) in NORMS or convolves(layer)


def as_taps(weight):
    """A weight of nn.Linear as that of a convolution of size 1."""
    return weight.reshape(len(weight), 1, 1, 1, weight.shape[1])


def parameters_of(layer):
    return [p for p in (layer.weight, getattr(layer, "bias", None)) if p is not None]


def key_of(layer, dtype):
    """What the parameters are now."""
    return dtype, *[(p.data_ptr(), version_of(p), p.dtype) for p in parameters_of(layer)]


@torch.no_grad()
def pack(module, dtype=torch.float16):
    """Keeps the weights of submanifold convolutions and nn.Linear in a module as the kernels read
    them, for features in fp16 or bf16, and in fp32 their biases and what norms of rows have:
    with_act does without making that in each call then. Takes the memory of the weights once more.
    Of no effect where parameters have changed since, as far as PyTorch counts: after a replay of a
    CUDA graph that trains, or a kernel of your own that writes them, call it again. Returns the
    module."""
    if dtype not in HALVES:
        raise ValueError(f"dtype: {dtype}; fp16 and bf16 are supported")
    for layer in module.modules():
        weight, bias = (getattr(layer, n, None) for n in ("weight", "bias"))
        bias = None if bias is None else bias.float()
        if type(layer) in NORMS:
            made = None if weight is None else weight.float()
        elif type(layer) is nn.Linear:
            made = layers.conv_pack(as_taps(weight), dtype)
        elif convolves(layer) and layer.groups == 1:
            made = layers.conv_pack(layer.weight_of_map(weight), dtype)
        else:
            continue
        # The memory of the parameters is kept as well: while it is, no others come to lie there.
        memory = [p.detach() for p in parameters_of(layer)]
        layer._packed = key_of(layer, dtype), (made, bias), memory
    return module


def packed_of(layer, dtype):
    """What pack() has kept for features of a type: of the weight, and the bias; or None."""
    found = layer.__dict__.get("_packed")
    return found[1] if found is not None and found[0] == key_of(layer, dtype) else None
