# SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
"""Layers as functions: convolution, pooling, dense maps; all of them have gradients."""

import torch
from torch.compiler import is_compiling

from . import double
from .maps import TYPES
from .sets import VoxelSet

ops = torch.ops.spira
conv_op = ops.conv.default
conv_norm_op, conv_norm_eval_op = ops.conv_norm.default, ops.conv_norm_eval.default

# Whether convolutions of fp32 features round their operands to tf32 on the GPU. The default is
# exact fp32.
allow_tf32 = False

# What the backward pass makes again, rather than keep it: each is a pass over the rows, and gives
# the same bits. The input of a batch norm is kept in any case. Rows that were changed in place are
# kept, too, as far as autograd sees the change: code that writes to x.features.data needs 0.
#   0  nothing
#   1  inputs of convolutions that batch norms without a residual made, with or without a ReLU; also
#      behind spira.pytorch.JoinTable
#   2  also the sums of two norms: outputs of blocks whose shortcut ends in a norm
recompute = 2

# What spira.pytorch does with rows that repeat a voxel. False: ValueError. True: each row stays, as
# in networks that were trained with spconv: the first row of a voxel is what its neighbours and
# strided layers read; the others differ from it by what the centre of the kernel makes of them.
keep_duplicates = False

MAX, MEAN = 0, 1 # spira::pool_kind
PADDED, TF32, EXCHANGED, AGAIN = 1, 2, 4, 8  # flags of the operators (csrc/convert.h)
GROUPS = 20                                   # the bits from here on: groups


def autocast_type(features):
    """The type that autocast asks of features, if it is on; otherwise their own."""
    kind = "cuda" if features.is_cuda else features.device.type
    on = torch.is_autocast_enabled(kind) and features.is_floating_point()
    return torch.get_autocast_dtype(kind) if on else features.dtype


def autocast(features):
    """Features in the type that autocast asks for, if it is on."""
    wanted = autocast_type(features)
    return features if features.dtype == wanted else features.to(wanted)


def check_features(features, voxels):
    """Raises ValueError unless there is a row of features for each voxel."""
    if features.dim() != 2 or features.shape[0] != voxels.capacity:
        raise ValueError(f"features: {list(features.shape)}, but there are {voxels.capacity} "
                         "coordinates")
    if features.device != voxels.device:
        raise ValueError(f"features: on {features.device}, the coordinates are on {voxels.device}")
    if features.dtype not in TYPES and features.dtype != torch.float64:
        raise ValueError(f"features: {features.dtype}; fp32, fp16, bf16 and, slowly, float64 are "
                         "supported")


def conv(features, weight, bias, kmap, groups=1):
    """Sparse convolution. Returns [kmap.outputs.capacity, Cout] in the type of the features.

    features  [kmap.source.capacity, Cin] fp32, fp16 or bf16, in the set's order; float64 by
              PyTorch's operators (double.py)
    weight    [Cout, kd, kh, kw, Cin], in two dimensions [Cout, kh, kw, Cin]: that of spconv 2. Of
              any of the three types: fp32 weights serve fp16 features, without a copy of your own
    bias      [Cout] of any of the three types, or None
    kmap      KernelMap
    groups    output channels of group g read the input channels of group g: weight [.., Cin /
              groups]. As many as channels: depthwise

    Gradients have the type of their argument. Those of weight and bias are summed in fp32, and are
    the same to the bit from run to run. Under autocast features are cast to its type; weights may
    stay fp32.

    Sets with capacities: rows of the output, and of the gradient of the features, are zero from
    the count on. Rows of features and of gradients from the count on are not read.

    Raises ValueError: features with another number of rows than the source; another device or
    type; a weight or bias of another shape; weights that are not finite in the type of the
    features (fp16: from 65520 on). On a GPU such weights raise the error in a later call, or in
    `check_weights`, since nothing is read back here.
    """
    features = autocast(features)
    if features.dtype == torch.float64:
        check_features(features, kmap.source)
        return double.conv(features, weight, bias, kmap, groups)
    gradients = torch.is_grad_enabled()
    of_features = gradients and features.requires_grad
    of_weight = gradients and weight.requires_grad
    if is_compiling():
        rest = conv_rest(kmap, features, weight, of_features, of_weight, False, groups)
    else:
        rest = conv_known(kmap, features, weight, of_features, of_weight, groups)
    return conv_op(features, weight, bias, *rest)


def conv_known(kmap, features, weight, of_features, of_weight, groups):
    """conv_rest, kept by the map: what is known for a key has been checked."""
    key = (features.shape, features.dtype, features.device, weight.shape[0], of_features,
           of_weight, recompute, allow_tf32, groups)
    rest = kmap.known.get(key)
    if rest is None:
        rest = conv_rest(kmap, features, weight, of_features, of_weight, recompute, groups)
        kmap.known[key] = rest
    return rest


def conv_norm(conv, norm):
    """A convolution, the arguments of `conv`, and a batch norm of its rows in training, with what
    stands behind it, in one operator. Not of float64, and not recorded by torch.compile. None of
    less than two rows, which PyTorch's norms refuse. norm: the arguments of the operator from the
    residual on (csrc/ops.h)."""
    features, weight, bias, kmap, groups = conv
    gradients = torch.is_grad_enabled()
    rest = conv_known(kmap, features, weight, gradients and features.requires_grad,
                      gradients and weight.requires_grad, groups)
    return None if rest[5] < 2 else conv_norm_op(features, weight, bias, *rest, *norm)


def conv_norm_eval(conv, norm):
    """The same by running statistics, without gradients: on a GPU one kernel."""
    features, weight, bias, kmap, groups = conv
    features = autocast(features)
    layout, _, _, _, *rest = conv_known(kmap, features, weight, False, False, groups)
    return conv_norm_eval_op(features, weight, bias, layout, *rest, *norm)


def conv_eval(features, weight, bias, kmap, residual=None, act=0, groups=1, packed=None):
    """act(conv + residual) in one kernel, without gradients. act: a number of spira::activation.
    packed: what conv_pack has made of the weight for the type of these features; not of groups."""
    layout, _, _, _, count, rows, kernel, flags = conv_rest(kmap, features, weight, False, False,
                                                            False, groups)
    return ops.conv_eval.default(features, weight, packed, bias, residual, layout, count, rows,
                                 kernel, flags, act)


def conv_pack(weight, dtype):
    """A weight as kernels on its device read it, for features of a type."""
    size = [*reversed(weight.shape[1:-1])]
    return ops.conv_pack.default(weight, [*size, *[1] * (3 - len(size)), *[1] * 6, 0, 1], dtype)


def check_weights(device=None):
    """Waits for a GPU, and raises ValueError if a convolution had weights that are not finite."""
    with torch.cuda.device(device):
        torch.cuda.synchronize()
        ops.weights_check(torch.cuda.current_device())


def conv_rest(kmap, features, weight, of_features, of_weight, again, groups):
    """The arguments of the operator behind the bias, which follow from the map."""
    check_features(features, kmap.source)
    key = of_features, of_weight, groups > 1
    made = kmap.known.get(key)
    if made is None:
        made = kmap.known[key] = conv_maps(kmap, *key)
    *made, flags = made
    flags |= TF32 if allow_tf32 and features.dtype == torch.float32 else 0
    flags |= (AGAIN if again else 0) | (groups << GROUPS if groups > 1 else 0)
    return (*made, flags)


def conv_maps(kmap, of_features, of_weight, grouped):
    """The same of each layer, with the flags that the map decides on."""
    flags, exchanged = 0 if kmap.source.exact and kmap.outputs.exact else PADDED, False
    if grouped: # reads tables, on both devices
        layout = kmap.table()
        back = (kmap if kmap.mirrors else kmap.reverse()).table() if of_features else None
        pairs = layout if of_weight else None
    else:
        layout = kmap.layout()
        back = kmap.gradient_layout() if of_features else None
        pairs, exchanged = kmap.pairs() if of_weight else (None, False)
    return (layout, back, pairs, kmap.source.count, kmap.outputs.count, kmap.outputs.capacity,
            kmap.kernel(), flags | (EXCHANGED if exchanged else 0))


def pool(kind, features, kmap):
    check_features(features, kmap.source)
    if features.dtype == torch.float64:
        return double.pool(features, kmap, kind == MAX)
    table = kmap.table()
    back = None
    if torch.is_grad_enabled() and features.requires_grad:
        back = table if kmap.mirrors else kmap.reverse().table()
    flags = 0 if kmap.source.exact and kmap.outputs.exact else PADDED
    return ops.pool(features, table, back, kmap.source.count, kmap.outputs.count, kind, flags)


def max_pool(features, kmap):
    """The largest feature of the voxels under the kernel, for each channel. NaN wins.

    Shapes, types, errors: as `conv`, but the channels stay. The gradient goes to the first of the
    largest ones, in the order of the offsets.
    """
    return pool(MAX, features, kmap)


def avg_pool(features, kmap):
    """The mean of the voxels under the kernel: of those that are there, not of the volume."""
    return pool(MEAN, features, kmap)


def pool_global(kind, features, voxels):
    """[batch_size, channels]: over all voxels of a batch; zero for a batch without a voxel."""
    check_features(features, voxels)
    if features.dtype == torch.float64:
        return double.pool_global(features, voxels, kind == MAX)
    flags = 0 if voxels.exact else PADDED
    return ops.pool_global(features, voxels.words, voxels.count, list(voxels.layout), kind, flags)


def global_max_pool(features, voxels):
    """The largest feature of each batch and channel. NaN wins; the gradient goes to the first."""
    return pool_global(MAX, features, voxels)


def global_avg_pool(features, voxels):
    """The mean of each batch and channel, summed in fp32. Deterministic."""
    return pool_global(MEAN, features, voxels)


def dense(features, voxels: VoxelSet):
    """The features as a dense tensor, with zeros where there is no voxel.

    Returns [batch_size, channels, *spatial_shape] in the type of the features. The gradient is
    gathered from the cells of the voxels.
    """
    check_features(features, voxels)
    if features.dtype == torch.float64:
        return double.dense(features, voxels)
    flags = 0 if voxels.exact else PADDED
    made = ops.dense(features, voxels.words, voxels.count, list(voxels.layout),
                     [*voxels.origin, *voxels.spacing, *voxels.extent], voxels.batch_size, flags)
    return made.squeeze(2) if voxels.ndim == 2 else made


LAYER, RMS = 0, 1 # spira::norm_kind


def norm_rows(kind, features, weight, bias, voxels, eps, residual=None, act=0):
    """act(norm + residual), the norm over the channels of each row, in fp32: LAYER or RMS. Gradients
    without a residual and an activation, which is a number of spira::activation. Deterministic.

    weight, bias  [channels] of any of the three types, or None
    """
    check_features(features, voxels)
    flags = 0 if voxels.exact else PADDED
    return ops.norm_rows.default(features, residual, weight, bias, voxels.count, kind, eps, act,
                                 flags)


def norm_groups(features, weight, bias, voxels, groups, eps):
    """GroupNorm: mean and variance over all voxels of a batch element and the channels of a group,
    in fp32. As many groups as channels: instance norm. Deterministic."""
    check_features(features, voxels)
    if features.dtype == torch.float64:
        return double.norm_groups(features, weight, bias, voxels, groups, eps)
    flags = 0 if voxels.exact else PADDED
    return ops.norm_groups.default(features, weight, bias, voxels.words, voxels.count,
                                   list(voxels.layout), groups, eps, flags)
