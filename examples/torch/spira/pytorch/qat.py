# SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
"""Quantisation-aware training: convolutions round their features and weights as int8 layers do.

    qat.prepare(net, x)                     # of a trained network; x: a sample
    qat.calibrate(net, samples, "mse")      # ranges of the features
    ...                                     # train as before, at a smaller rate
    spconv.export(net, x, "model.layers")   # the blob has the ranges: int8 in C++

The numbers are those of spira/conv_i8.h. A tensor of features has one range, whoever reads it, and
scale = range / 127. It becomes scale * clamp(round(features / scale), -128, 127). A weight becomes
a multiple of its output channel's step; the channel's largest weight is 127 steps. Gradients pass
as if nothing had been rounded, but for features that were clamped: theirs is 0.
"""
import contextlib

import torch
from torch import nn

from . import conv
from .conv import SparseConvolution
from .tensor import SparseConvTensor
from .trace import table_of

BINS = 2048
METHODS = ("max", "percentile", "mse")
PERCENTILE = 0.9999
TINY = torch.finfo(torch.float32).tiny


def rounded(values, least, most):
    """The nearest integers within limits, ties to even; the gradient of those within is 1."""
    values = values.clamp(least, most)
    return values + (values.round() - values).detach()


class Quantiser(nn.Module):
    """Rounds one tensor of features.

    range      its largest magnitude; 0: not known. Nothing is rounded then
    observing  whether it gathers a histogram of magnitudes instead
    """

    rounds_features = True # to trace.py: its result is what it takes

    def __init__(self):
        super().__init__()
        self.register_buffer("range", torch.zeros(()))
        self.observing, self.counts, self.top = False, None, 0.0
        self.rounds = False # whether range > 0, without a read-back

    def set_range(self, value):
        self.range.fill_(value)
        self.rounds = value > 0

    def _load_from_state_dict(self, *arguments):
        super()._load_from_state_dict(*arguments)
        self.set_range(self.range.item())

    def forward(self, features):
        if features.numel() and self.observing:
            self.observe(features.detach())
        if self.observing or not self.rounds:
            return features
        scale = self.scale()
        return (rounded(features.float() * (1 / scale), -128, 127) * scale).to(features.dtype)

    def scale(self):
        return self.range.float() / 127

    def observe(self, features):
        """Adds to the histogram: BINS of [0, top), which doubles where it is too small."""
        values = features.float().abs()
        largest = values.max().item()
        if largest != largest or largest == float("inf"):
            raise ValueError("features: not finite, there is no range for them")
        if self.counts is None:
            self.counts, self.top = torch.zeros(BINS, dtype=torch.float64), largest or 1e-6
        while largest > self.top:
            pairs = self.counts.reshape(-1, 2).sum(1)
            self.counts, self.top = torch.cat([pairs, torch.zeros_like(pairs)]), 2 * self.top
        self.counts += torch.histc(values, BINS, 0, self.top).double().cpu()
        self.set_range(max(self.range.item(), largest))

    def choose(self, method):
        """Takes a range from the histogram, which goes."""
        if method != "max":
            edges = torch.arange(1, BINS + 1, dtype=torch.float64) * (self.top / BINS)
            shares = self.counts.cumsum(0) / self.counts.sum()
            chosen = edges[(shares < PERCENTILE).sum()] if method == "percentile" else \
                self.least_squares(edges)
            self.set_range(min(self.range.item(), float(chosen)))
        self.counts = None

    def least_squares(self, edges):
        """The range whose rounding makes the least squared error of the histogram."""
        values, best = edges - edges[0] / 2, (float("inf"), edges[-1])
        for range_ in edges[BINS // 8:]:
            scale = range_ / 127
            error = (values - (values / scale).round().clamp(max=127) * scale) ** 2
            best = min(best, ((error * self.counts).sum().item(), range_))
        return best[1]

    def extra_repr(self):
        return f"range={self.range.item():g}"


class Quantised:
    """A convolution that computes in int8: it rounds what it reads, and its weight.

    inputs    the Quantiser of each source
    channels  of each source

    The features of the tensor that it reads are replaced in it, so that others read what an int8
    layer would: a block's shortcut adds the rounded features.
    """

    def forward(self, input):
        input.replace_in_place(self.rounded_features)
        return super().forward(input)

    def rounded_features(self, features):
        parts = features.split(self.channels, 1)
        parts = [quantiser(part) for quantiser, part in zip(self.inputs, parts)]
        return parts[0] if len(parts) == 1 else torch.cat(parts, 1)

    def _tensors(self):
        weight, bias = super()._tensors()
        rounds = all(q.rounds and not q.observing for q in self.inputs)
        return (self.rounded_weight(weight) if rounds else weight), bias

    def rounded_weight(self, weight):
        """conv_i8_weight of spira/conv.h, times what one unit is worth."""
        shape = weight.shape
        if self.conv1x1: # [in, out] in memory
            weight = weight.reshape(self.in_channels, self.out_channels).t()
        scale = torch.cat([q.scale().expand(n) for q, n in zip(self.inputs, self.channels)])
        scaled = weight.float() * scale
        step = scaled.detach().abs().amax(tuple(range(1, weight.dim()))) / 127
        step = torch.where(step >= TINY, step, torch.ones_like(step))
        step = step.reshape(-1, *[1] * (weight.dim() - 1))
        whole = scaled / step
        whole = whole + (whole.round().clamp(-127, 127) - whole).detach()
        made = (whole * step / scale).to(weight.dtype)
        return made.t().reshape(shape) if self.conv1x1 else made


def round_output(module, args, result):
    """A forward hook: rounds what a module returns by its `output`."""
    if isinstance(result, SparseConvTensor):
        result.replace_in_place(module.output)
        return result
    return module.output(result)


# The convolutions' classes as int8 ones: class -> class.
QUANTISED = {}
for _class in list(vars(conv).values()):
    if isinstance(_class, type) and issubclass(_class, SparseConvolution):
        _name = f"Quantised{_class.__name__}"
        QUANTISED[_class] = globals()[_name] = type(_name, (Quantised, _class),
                                                    {"__module__": __name__})


def quantisers(net):
    """(name, Quantiser) of a network, each once."""
    return [(name, part) for name, part in net.named_modules() if isinstance(part, Quantiser)]


def writer_of(layer):
    """The layer that decides the range of what another one reads: poolings pass theirs on."""
    while layer is not None and layer.op.startswith("pool"):
        layer = layer.sources[0]
    return layer


def prepare(net, x, skip=()):
    """Makes the convolutions of a network int8 ones, but for those that read its input.

    net   an nn.Module that spira.pytorch.export can write
    x     SparseConvTensor: a sample
    skip  names of modules that stay as they are, with all that is in them

    Parameters, buffers and names stay; each tensor that an int8 layer reads or adds gets a
    Quantiser, which all its readers share. Convert to SyncBatchNorm before. Returns the network.
    """
    layers = table_of(net, x).layers
    names = {module: name for name, module in net.named_modules()}
    inside = lambda name: any(name == s or name.startswith(s + ".") for s in skip)
    chosen = [layer for layer in layers if layer.module is not None and None not in
              map(writer_of, layer.sources) and not inside(names[layer.module])]
    made = {}
    for layer in chosen:
        for source in layer.sources:
            made.setdefault(id(writer_of(source)), Quantiser())
    floats = set()
    for layer in layers:
        if layer in chosen or layer.op not in ("conv", "product"):
            continue
        for source in map(writer_of, layer.sources):
            floats.add(id(source))
            if id(source) in made:
                raise ValueError(f"{layer.name}: reads what int8 layers read, but is not one; skip "
                                 "those, too")
    for layer in chosen: # what is only added by int8 layers
        added = layer.residual
        if layer.has_residual and id(writer_of(added)) not in made and id(added) not in floats:
            if added is None or added.op != "conv" or added.by is None:
                raise NotImplementedError(f"{layer.name}: adds "
                                          f"{'the input' if added is None else added.name}, which "
                                          "nothing rounds; skip this layer")
            made[id(added)] = added.by.output = Quantiser().to(x.features.device)
            added.by.register_forward_hook(round_output)
    for layer in chosen:
        module, shared = layer.module, [made[id(writer_of(s))] for s in layer.sources]
        if isinstance(module, Quantised):
            raise ValueError(f"{names[module]}: is called twice, or was prepared before")
        module.__class__ = QUANTISED[type(module)]
        module.inputs = nn.ModuleList(shared).to(x.features.device)
        module.channels = [source_channels(s) for s in layer.sources]
    return net


def source_channels(layer):
    return writer_of(layer).channels if layer.op != "product" else source_channels(layer.sources[0])


@contextlib.contextmanager
def observing(net):
    """Quantisers of a network gather histograms, and round nothing."""
    for _, quantiser in quantisers(net):
        quantiser.observing = True
    try:
        yield
    finally:
        for _, quantiser in quantisers(net):
            quantiser.observing = False


@torch.no_grad()
def calibrate(net, samples, method="mse"):
    """Chooses the ranges of a network's features.

    samples  SparseConvTensors, which the network is run on in eval mode
    method   "max": the largest magnitude. "percentile": 99.99 % of the magnitudes are below it.
             "mse": the least squared error of rounding

    Returns {name of a Quantiser: range}. ValueError: a range of 0, or features that are not finite.
    """
    if method not in METHODS:
        raise ValueError(f"method: {method!r}, not one of {METHODS}")
    training = net.training
    net.eval()
    for _, quantiser in quantisers(net):
        quantiser.set_range(0)
    with observing(net):
        for x in samples:
            net(x)
    net.train(training)
    for name, quantiser in quantisers(net):
        if quantiser.counts is None or not quantiser.range > 0:
            raise ValueError(f"{name}: its features are all 0, or it was not reached")
        quantiser.choose(method)
    return {name: quantiser.range.item() for name, quantiser in quantisers(net)}


def ranges_of(table):
    """What a blob says of int8 layers: (layer, kind, values)."""
    written = set()
    for layer in table.layers:
        output = getattr(layer.by, "output", None)
        if isinstance(output, Quantiser) and output.range > 0:
            yield layer, "range", [output.range.item()]
            written.add(id(layer))
        if isinstance(layer.module, Quantised):
            yield layer, "weight_range", [0.0] * layer.channels # computed from the weights
            for source, quantiser in zip(layer.sources, layer.module.inputs):
                writer = writer_of(source)
                if not quantiser.range > 0:
                    raise ValueError(f"{writer.name}: has no range; calibrate first")
                if id(writer) not in written:
                    yield writer, "range", [quantiser.range.item()]
                written.add(id(writer))
