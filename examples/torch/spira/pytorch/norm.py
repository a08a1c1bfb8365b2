"""Batch norms: with the ReLU and the addition behind them in one operator, and for features with
padding, of which they count the real rows only."""
import torch
from torch import nn

from ..maps import TYPES
from .geometry import padded

ops = torch.ops.spira


def is_plain(module):
    """Whether calling a module does nothing but its forward."""
    return not (module._forward_hooks or module._forward_pre_hooks or module._backward_hooks or
                module._backward_pre_hooks)


def can_run(norm, features, count):
    """Whether the operator computes this norm: that of training, over all rows or `count`."""
    known = type(norm) is BatchNorm1d or (type(norm) is nn.BatchNorm1d and count is None)
    rows = features.shape[0]
    return (known and (norm.training or norm.running_mean is None) and
            features.dtype in TYPES and features.dim() == 2 and
            features.shape[1] == norm.num_features and
            norm.momentum is not None and (norm.weight is None or
                                           norm.weight.dtype == torch.float32) and
            (norm.running_mean is None or norm.running_mean.dtype == torch.float32) and
            (count is not None or (rows > 1 and not torch.compiler.is_compiling())))


def run(norm, features, count, residual=None, relu=False):
    """The norm of training, as can_run says; the residual added, and a ReLU."""
    mean = var = batches = None
    if norm.training and norm.track_running_stats:
        mean, var, batches = norm.running_mean, norm.running_var, norm.num_batches_tracked
    return ops.norm.default(features, residual, count, norm.weight, norm.bias, mean, var, batches,
                            norm.momentum, norm.eps, relu)[0]


def norm_relu(norm, x, residual=None):
    """relu(norm(x) + residual) of SparseConvTensors: a batch norm with what stands behind it.

    norm      an nn.BatchNorm1d, or any other norm of features
    x         SparseConvTensor
    residual  SparseConvTensor of the same voxels, or None

    Returns a SparseConvTensor. In training one operator computes it, and keeps x alone; with a
    residual the result, too. In other cases it is what the modules compute one by one.
    """
    from .modules import same_voxels
    if residual is not None:
        same_voxels([x, residual])
    coordinates, stays = x.coordinates(), x.has_ordered()
    rows = [t.ordered() if stays else t.features for t in (x, residual) if t is not None]
    made = of_rows(norm, x, *rows)
    return x.with_ordered(made, coordinates) if stays else x.replace_feature(made)


def of_rows(norm, x, features, residual=None):
    """The features of norm_relu."""
    from .modules import counted
    same = residual is None or (residual.dtype == features.dtype and
                                residual.shape == features.shape)
    if same and is_plain(norm) and can_run(norm, features, x.count):
        return run(norm, features, x.count, residual, True)
    made = counted(norm, features, x)
    return torch.relu(made if residual is None else made + residual)


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
            return super().forward(input)
        if count is None:
            check_no_padding(input)
        elif self.momentum is None:
            raise ValueError("momentum: None needs a read-back; capacity mode needs a number")
        if can_run(self, input, count):
            return run(self, input, count)
        if count is not None:
            raise ValueError(f"input: {input.dtype} {list(input.shape)}; in capacity mode "
                             f"[rows, {self.num_features}] of fp32, fp16 or bf16 is needed")
        return super().forward(input)


def check_no_padding(features):
    """Raises if these may be features of capacity mode whose count got lost."""
    if not torch.compiler.is_compiling() and any(s.rows == features.shape[0] for s in padded):
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
