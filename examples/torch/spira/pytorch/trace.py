# SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
"""A network as a table of layers: what one forward pass on a sample computes.

Convolutions and poolings are recorded as modules, everything else as operators: a batch norm, a sum
or a ReLU is found however the model's code writes it. Each becomes part of the convolution in front
of it. What a table cannot express is refused, with the name of its module.
"""
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from .conv import SparseConvolution
from .pool import _Pool
from .tensor import SparseConvTensor

aten, spira = torch.ops.aten, torch.ops.spira

# Operators that leave the numbers as they are, or move rows between the orders of a set.
SAME = {aten.detach.default, aten.alias.default, aten.clone.default, aten._to_copy.default,
        spira.permute_rows.default, aten.lift_fresh.default}
# Of dense maps alone.
RESHAPED = {aten.view.default, aten._unsafe_view.default, aten.squeeze.dim, aten.reshape.default}
ACTIVATIONS = {aten.relu.default: "relu", aten.relu_.default: "relu",
               aten.leaky_relu.default: "leaky", aten.leaky_relu_.default: "leaky",
               aten.silu.default: "silu", aten.silu_.default: "silu", aten.gelu.default: "gelu"}
NORMS = {aten.native_batch_norm.default, aten.cudnn_batch_norm.default,
         aten.miopen_batch_norm.default, aten._native_batch_norm_legit_no_training.default}
KINDS = {"max_pool": "pool_max", "avg_pool": "pool_average"}


class Value:
    """What an operator made.

    op       "input", "conv", "pool_max", "pool_average", "norm", "act", "add", "cat", "product",
             "dense", or "other": an operator that no table has
    sources  Values that it reads
    where    the name of the module that called it
    set      the CoordinateSet of its rows
    order    grows from Value to Value
    by       the innermost module that returned it, or None
    about    what belongs to the operator
    """

    made = 0

    def __init__(self, op, sources, where, voxels, **about):
        self.op, self.sources, self.where, self.set = op, sources, where, voxels
        self.__dict__.update(about)
        Value.made += 1
        self.order, self.by = Value.made, None


class Layer:
    """A line of the table. Attributes are those of net_layer (spira/net_layer.h); triples are x, y,
    z; sources and residual are Layers, or None for the network's input.

    weight [x, y, z, cin, cout], bias, scale, shift [cout]   float64 arrays, or None
    module   of a convolution
    int8, range   of eight bits, for .onnx files
    by       the innermost module that returns its features, or None
    """

    def __init__(self, op, name, sources, **about):
        self.op, self.name, self.sources = op, name, sources
        self.channels, self.size, self.stride = 0, (1, 1, 1), (1, 1, 1)
        self.padding, self.dilation = (0, 0, 0), (1, 1, 1)
        self.transposed, self.expand, self.keep = False, False, False
        self.residual, self.has_residual, self.act, self.slope = None, False, "none", 0.0
        self.weight = self.bias = self.scale = self.shift = self.module = self.by = None
        self.extent = self.leads_to = None # of its set; the set itself, of a layer that makes one
        self.int8, self.range = False, 0.0
        self.back = None # of an inverse convolution: the layer that made the set which it reads
        self.__dict__.update(about)


class Table:
    """layers, input_channels, and of the sample: extent (x, y, z), batch."""

    def __init__(self, layers, input_channels, extent, batch):
        self.layers, self.input_channels = layers, input_channels
        self.extent, self.batch = extent, batch


def refuse(where, what):
    raise NotImplementedError(f"{where or 'the network'}: {what}")


# ---- recording ----------------------------------------------------------------------------------

class Recorder(TorchDispatchMode):
    """Notes which operator made each tensor of features."""

    def __init__(self, net):
        super().__init__()
        self.net, self.values, self.inside, self.leaf, self.hooks = net, {}, [], None, []

    def __enter__(self):
        for name, module in self.net.named_modules():
            self.hooks.append(module.register_forward_pre_hook(self.before(name), with_kwargs=True))
            self.hooks.append(module.register_forward_hook(self.behind(name)))
        return super().__enter__()

    def __exit__(self, *fault):
        for hook in self.hooks:
            hook.remove()
        return super().__exit__(*fault)

    def note(self, tensor, value):
        self.values[id(tensor)] = tensor, value # kept alive: no other tensor gets its id

    def value_of(self, tensor):
        return self.values.get(id(tensor), (None, None))[1]

    def of_tensor(self, x):
        """The Value of a SparseConvTensor's features."""
        for tensor in (x._ordered, x._features):
            if self.value_of(tensor) is not None:
                return self.value_of(tensor)
        refuse(self.inside[-1] if self.inside else "", f"reads features that no layer made: {x}")

    def note_tensor(self, x, value):
        for tensor in (x._ordered, x._features):
            if tensor is not None:
                self.note(tensor, value)

    # Convolutions, poolings, and what rounds features: what they call inside is not recorded.
    def before(self, name):
        def hook(module, args, kwargs):
            self.inside.append(name)
            if self.leaf is not None:
                return
            x = args[0] if args else kwargs.get("input")
            if isinstance(module, (SparseConvolution, _Pool)):
                self.leaf = module, x, self.of_tensor(x)
            elif getattr(module, "rounds_features", False):
                self.leaf = module, x, self.value_of(x)
        return hook

    def behind(self, name):
        def hook(module, args, result):
            self.inside.pop()
            if self.leaf is not None and self.leaf[0] is module:
                (_, x, source), self.leaf = self.leaf, None
                if isinstance(x, SparseConvTensor):
                    op = KINDS[module.kind] if isinstance(module, _Pool) else "conv"
                    value = Value(op, [source], name, result.coordinates(), module=module)
                    self.note_tensor(x, source) # which a layer may have ordered or rounded
                    self.note_tensor(result, value)
                else:
                    self.note(result, source)
            if self.leaf is None and isinstance(result, (torch.Tensor, SparseConvTensor)):
                value = self.value_of(result) if isinstance(result, torch.Tensor) else \
                    self.value_of(result._ordered) or self.value_of(result._features)
                if value is not None and not getattr(module, "rounds_features", False):
                    value.by = value.by or module
        return hook

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        if self.leaf is None:
            flat = torch.utils._pytree.tree_leaves((args, kwargs))
            read = [v for v in map(self.value_of, flat) if v is not None]
            if read:
                self.operator(func, args, kwargs or {}, read, made)
        return made

    def operator(self, func, args, kwargs, read, made):
        """Notes what an operator made of Values."""
        results = [t for t in (made if isinstance(made, (tuple, list)) else (made,))
                   if isinstance(t, torch.Tensor)]
        if results:
            self.note(results[0], self.value_made(func, args, kwargs, read))

    def value_made(self, func, args, kwargs, read):
        where, first = (self.inside[-1] if self.inside else ""), read[0]
        value = lambda op, **about: Value(op, read, where, first.set, **about)
        one = len(args) > 0 and self.value_of(args[0]) is first
        both = len(read) == 2 and read[0].set is read[1].set
        if func in SAME or (func in RESHAPED and first.op == "dense"):
            return first
        if func in ACTIVATIONS:
            slope = args[1] if len(args) > 1 and ACTIVATIONS[func] == "leaky" else 0.01
            form = "_tanh" if kwargs.get("approximate", "none") == "tanh" else ""
            return value("act", act=ACTIVATIONS[func] + form, slope=slope)
        if func in NORMS and one and self.is_eval(func, args):
            eps = args[6] if func is aten._native_batch_norm_legit_no_training.default else args[7]
            return value("norm", tensors=args[1:5], eps=eps)
        if func in (aten.add.Tensor, aten.add_.Tensor) and kwargs.get("alpha", 1) == 1:
            if both:
                return value("add")
            if len(read) == 1 and 0 in args[:2]: # sum() begins with it
                return first
        if func in (aten.mul.Tensor, aten.mul_.Tensor) and both:
            return value("product")
        if func is spira.join.default and both:
            return value("cat")
        if func is aten.cat.default and len(args) > 1 and args[1] in (1, -1) and \
                len(read) == len(args[0]) and all(v.set is first.set for v in read):
            return value("cat")
        if func in (aten.mm.default, aten.addmm.default) and len(read) == 1:
            if self.value_of(args[-2]) is first: # rows @ weight
                return value("conv", module=None, matrix=args[-1],
                             added=args[0] if func is aten.addmm.default else None)
        if func is spira.dense.default:
            return value("dense")
        return value("other", name=str(func))

    @staticmethod
    def is_eval(func, args):
        return func is aten._native_batch_norm_legit_no_training.default or not args[5]


def record(net, x):
    """Runs a network in eval mode. Returns the Values of its input and of its outputs, in order."""
    recorder = Recorder(net)
    training = [(part, part.training) for part in net.modules()]
    net.eval()
    sample = SparseConvTensor(x.features.detach().clone(), x.indices, x.spatial_shape, x.batch_size)
    entry = Value("input", [], "", sample.coordinates())
    recorder.note(sample._features, entry)
    try:
        with torch.no_grad(), recorder:
            made = net(sample)
    finally:
        for part, was in training:
            part.training = was
    leaves = torch.utils._pytree.tree_leaves(made)
    outputs = [recorder.of_tensor(y) if isinstance(y, SparseConvTensor) else recorder.value_of(y)
               for y in leaves if isinstance(y, (SparseConvTensor, torch.Tensor))]
    outputs = [v for v in outputs if v is not None]
    if not outputs:
        raise NotImplementedError("the network returns no features of its layers")
    return entry, outputs


# ---- layers -------------------------------------------------------------------------------------

def array(tensor):
    return tensor.detach().double().cpu().numpy()


def along(triple, fill):
    """Numbers of one to three axes, slowest first, as x, y, z."""
    return (tuple(int(n) for n in reversed(triple)) + (fill, fill))[:3]


def weight_of(layer):
    """A convolution's weight as [x, y, z, cin, cout]."""
    weight = array(layer.weight)
    if layer.conv1x1: # its numbers are [cin, cout], whatever the shape says
        return weight.reshape(1, 1, 1, layer.in_channels, layer.out_channels)
    weight = weight.reshape(layer.out_channels, *(1,) * (3 - layer.ndim), *layer.kernel_size,
                            layer.in_channels)
    return weight.transpose(3, 2, 1, 4, 0)


class Builder:
    """Layers of Values: operators become part of the convolution in front of them."""

    def __init__(self, values, outputs):
        self.layers, self.made, self.names = [], {}, set()
        self.readers = {id(v): outputs.count(v) for v in values}
        for value in values:
            for source in value.sources:
                self.readers[id(source)] += 1
        for value in values:
            parts = self.made[id(value)] = getattr(self, "take_" + value.op)(value)
            if len(parts) == 1 and parts[0] is not None:
                parts[0].by = value.by
        for value in outputs:
            self.one(value, value).keep = True

    def parts(self, value):
        """The Layers that a Value consists of: one, or those of a concatenation."""
        return self.made[id(value)]

    def one(self, value, reader):
        parts = self.parts(value)
        if len(parts) != 1 or (parts[0] is None and reader.op not in ("conv", "add")):
            refuse(reader.where, f"{reader.op} of "
                   f"{'a concatenation' if len(parts) > 1 else 'the input'}: only convolutions "
                   "read that")
        return parts[0]

    def named(self, where):
        """A name of at most 31 bytes, which no other layer has."""
        name, number = where.encode()[-31:].decode(errors="ignore") or "layer", 2
        while name in self.names:
            name, number = f"{where.encode()[-27:].decode(errors='ignore')}.{number}", number + 1
        self.names.add(name)
        return name

    def add(self, op, value, sources, **about):
        size = value.set.spatial_shape
        self.layers.append(Layer(op, self.named(value.where), sources,
                                 extent=along(size, 1), **about))
        return [self.layers[-1]]

    def open(self, value, reader, what):
        """The convolution that may take up `what`."""
        layer = self.one(value, reader)
        if not self.is_open(layer, value):
            refuse(reader.where, f"{what} that does not follow a convolution which it alone reads")
        return layer

    def is_open(self, layer, value):
        return layer is not None and layer.op == "conv" and layer.act == "none" and \
            self.readers[id(value)] == 1

    def take_input(self, value):
        return [None]

    def take_other(self, value):
        refuse(value.where, f"{value.name}, which is no part of a table of layers")

    def take_conv(self, value):
        sources, m = self.parts(value.sources[0]), value.module
        if len(sources) > 2:
            refuse(value.where, f"reads {len(sources)} concatenated tensors; at most 2 are "
                   "possible")
        if m is not None and m.transposed:
            refuse(value.where, "a transposed convolution, which no table has")
        if m is not None and m.groups > 1:
            refuse(value.where, "a convolution with groups, which is not exported")
        if m is None: # nn.Linear
            weight = array(value.matrix)[None, None, None]
            bias = None if value.added is None else array(value.added)
            return self.add("conv", value, sources, channels=weight.shape[4], weight=weight,
                            bias=bias)
        about = dict(channels=m.out_channels, size=along(m.kernel_size, 1), weight=weight_of(m),
                     bias=None if m.bias is None else array(m.bias), module=m)
        if not m.conv1x1:
            about["dilation"] = along(m.dilation, 1)
        if m.inverse: # stride and padding are those of the layer that it leads back from
            strided = self.strided_into(value.sources[0].set, value)
            about.update(stride=strided.stride, padding=strided.padding,
                         dilation=strided.dilation, transposed=True, expand=True,
                         back=strided)
        elif not m.subm and not m.conv1x1:
            about.update(stride=along(m.stride, 1), padding=along(m.padding, 0), expand=True,
                         leads_to=value.set)
        return self.add("conv", value, sources, **about)

    def strided_into(self, voxels, reader):
        """The layer whose set an inverse convolution reads."""
        for layer in self.layers:
            if layer.leads_to is voxels:
                return layer
        refuse(reader.where, "leads back from voxels that no strided layer made")

    def take_pool(self, value):
        m = value.module
        return self.add(value.op, value, [self.one(value.sources[0], value)], expand=True,
                        leads_to=value.set,
                        size=along(m.kernel_size, 1), stride=along(m.stride, 1),
                        padding=along(m.padding, 0), dilation=along(m.dilation, 1))

    take_pool_max = take_pool_average = take_pool

    def take_cat(self, value):
        return [part for source in value.sources for part in self.parts(source)]

    def take_norm(self, value):
        layer = self.open(value.sources[0], value, "a batch norm")
        if layer.scale is not None or layer.has_residual:
            refuse(value.where, "a batch norm behind another norm or a sum")
        weight, bias, mean, var = (t if t is None else array(t) for t in value.tensors)
        scale = (1 if weight is None else weight) / (var + value.eps) ** 0.5
        layer.scale, layer.shift = scale, (0 if bias is None else bias) - mean * scale
        return [layer]

    def take_act(self, value):
        layer = self.open(value.sources[0], value, "an activation")
        layer.act = value.act
        layer.slope = value.slope if value.act == "leaky" else 0.0
        return [layer]

    def take_add(self, value):
        """The later convolution takes the other one as its residual. A shortcut of size 1 goes in
        front, where a plan can compute it with the layer that adds it."""
        both = [(self.one(source, value), source) for source in value.sources]
        both.sort(key=lambda pair: -1 if pair[0] is None else self.layers.index(pair[0]))
        (other, from_other), (layer, source) = both
        may = lambda l, v: self.is_open(l, v) and not l.has_residual
        if may(other, from_other) and may(layer, source) and layer.size == (1, 1, 1) and \
                other.size != (1, 1, 1) and other not in layer.sources:
            self.layers.remove(layer)
            self.layers.insert(self.layers.index(other), layer)
            layer, other = other, layer
        elif not may(layer, source):
            refuse(value.where, "a sum whose later part is no convolution that it alone reads")
        layer.residual, layer.has_residual = other, True
        return [layer]

    def take_product(self, value):
        sources = [self.one(source, value) for source in value.sources]
        return self.add("product", value, sources)

    def take_dense(self, value):
        return self.add("dense", value, [self.one(value.sources[0], value)])


def ordered(outputs):
    """The Values that outputs follow from, in the order in which they were made."""
    found, left = {}, list(outputs)
    while left:
        value = left.pop()
        if id(value) not in found:
            found[id(value)] = value
            left += value.sources
    return sorted(found.values(), key=lambda value: value.order)


def table_of(net, x):
    """The table of layers of a network.

    net   an nn.Module that takes a SparseConvTensor
    x     SparseConvTensor: a sample. spatial_shape and batch_size become those of the table
    """
    entry, outputs = record(net, x)
    layers = Builder(ordered(outputs), outputs).layers
    return Table(layers, x.features.shape[1], along(x.spatial_shape, 1), x.batch_size)
