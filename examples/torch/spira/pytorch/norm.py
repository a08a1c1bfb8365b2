"""Batch norms for features with padding: they count the real rows only."""
import torch
from torch import nn

from .geometry import padded

ops = torch.ops.spira


@torch.library.register_fake("spira::counted_norm")
def _counted_norm(input, count, weight, bias, running_mean, running_var, momentum, eps):
    vector = input.new_empty(input.shape[1], dtype=torch.float32)
    return torch.empty_like(input), vector, torch.empty_like(vector)


@torch.library.register_fake("spira::counted_norm_backward")
def _counted_norm_backward(grad, input, count, mean, invstd, weight):
    return torch.empty_like(input), torch.empty_like(mean), torch.empty_like(mean)


class CountedNorm(torch.autograd.Function):
    """The batch norm of training, over the first *count rows."""

    @staticmethod
    def forward(ctx, x, count, weight, bias, mean, var, momentum, eps):
        y, centre, invstd = ops.counted_norm(x, count, weight, bias, mean, var, momentum, eps)
        ctx.save_for_backward(x, count, weight, centre, invstd)
        ctx.has_bias = bias is not None
        return y

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        x, count, weight, centre, invstd = ctx.saved_tensors
        to, weight_grad, bias_grad = ops.counted_norm_backward(grad, x, count, centre, invstd,
                                                               weight)
        return (to, None, None if weight is None else weight_grad,
                bias_grad if ctx.has_bias else None, None, None, None, None)


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
            return super().forward(input)
        if self.momentum is None:
            raise ValueError("momentum: None needs a read-back; capacity mode needs a number")
        self._check_input_dim(input)
        mean = var = None
        if self.training and self.track_running_stats:
            mean, var = self.running_mean, self.running_var
            self.num_batches_tracked.add_(1)
        return CountedNorm.apply(input, count, self.weight, self.bias, mean, var, self.momentum,
                                 self.eps)


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
