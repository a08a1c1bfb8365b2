# SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
# examples/checkpoint_onnx.py: writes .onnx files of libspconv's dialect, as the exporters of
# CenterPoint and BEVFusion do: one node a layer, batch norm folded, fp16 weights. onnx_libspconv.h
# reads them. The wire format of protobuf is written here: a key, then a number or a length and bytes.
import re
import struct

import numpy as np

NETWORKS = ("centerpoint", "second", "bevfusion") # those that end in a dense map
ZYX, ZXY = (2, 1, 0), (2, 0, 1)                    # the axes of spira in the order of a file

# ---- protobuf -----------------------------------------------------------------------------------


def number(value):
    text = b""
    while value > 127:
        text += bytes([value & 127 | 128])
        value >>= 7
    return text + bytes([value])


def field(key, value):
    """A field of a message: a number, a string, or bytes."""
    if isinstance(value, int):
        return number(key << 3) + number(value)
    data = value.encode() if isinstance(value, str) else value
    return number(key << 3 | 2) + number(len(data)) + data


def attribute(name, value):
    if isinstance(value, int):
        content, kind = field(3, value), 2
    elif isinstance(value, str):
        content, kind = field(4, value), 3
    else:
        content, kind = b"".join(field(8, int(n)) for n in value), 7
    return field(5, field(1, name) + content + field(20, kind))


def node(op, name, inputs, output, **attributes):
    text = b"".join(field(1, i) for i in inputs) + field(2, output) + field(3, name) + field(4, op)
    return field(1, text + b"".join(attribute(k, v) for k, v in sorted(attributes.items())))


def tensor(name, array):
    halves = np.ascontiguousarray(array, "<f2")
    dims = b"".join(field(1, int(n)) for n in halves.shape)
    return field(5, dims + field(2, 10) + field(8, name) + field(9, halves.tobytes()))


def value(name, shape):
    dims = b"".join(field(1, field(1, int(n))) for n in shape)
    return field(1, name) + field(2, field(1, field(1, 10) + field(2, dims)))


# ---- layers -------------------------------------------------------------------------------------


def fold(layer):
    """Weight [x, y, z, cin, cout] and bias with the batch norm in them, in double precision."""
    weight = layer["weight"].astype(np.float64)
    bias = layer.get("bias", np.zeros(weight.shape[4])).astype(np.float64)
    scale = layer.get("scale", np.ones(weight.shape[4])).astype(np.float64)
    return weight * scale, bias * scale + layer.get("shift", 0)


def form(name):
    """Stride and padding along x, y, z of a strided layer; None of a submanifold one."""
    if name in ("conv_out.0", "extra_conv.0"):
        return (1, 1, 2), (0, 0, 0)
    stage = re.fullmatch(r"conv([234])\.0(\.0)?", name)
    return stage and ((2, 2, 2), (1, 1, 0 if stage[1] == "4" else 1))


class Writer:
    """The nodes so far; the set and its extent [3] along spira's axes."""

    def __init__(self, axes, extent):
        self.text, self.count, self.kinds = b"", 0, {}
        self.axes, self.extent, self.level = axes, extent, 0
        self.tensor = "0"

    def add(self, op, inputs, kind, **attributes):
        self.count += 1
        at = self.kinds.get(kind, 0)
        self.kinds[kind] = at + 1
        output = str(self.count)
        self.text += node(op, f"{kind}{at}", inputs, output, **attributes)
        return output

    def ordered(self, triple):
        return [triple[axis] for axis in self.axes]

    def conv(self, name, layer, relu):
        weight, bias = fold(layer)
        size, (cin, cout) = weight.shape[:3], weight.shape[3:]
        strided = form(name)
        stride, padding = strided or ((1, 1, 1), tuple(n // 2 for n in size))
        before, number = self.extent, self.kinds.get("conv", 0)
        if strided:
            self.level += 1
            self.extent = [(n + 2 * p - k) // s + 1
                           for n, k, s, p in zip(before, size, stride, padding)]
        names = [f"spconv{number}.{what}" for what in ("weight", "bias")]
        order = [4] + self.ordered((0, 1, 2)) + [3] # [cout, the file's axes, cin]
        self.text += tensor(names[0], weight.transpose(order)) + tensor(names[1], bias)
        self.tensor = self.add(
            "SparseConvolution", [self.tensor, *names], "conv",
            activation="ReLU" if relu else "None", dilation=(1, 1, 1), groups=1,
            in_channels=int(cin), input_spatial_shape=self.ordered(before), inverse=0,
            kernel_size=self.ordered(size), ndim=3, out_channels=int(cout), output_bound=200000,
            output_precision="fp16", output_spatial_shape=self.ordered(self.extent),
            padding=self.ordered(padding), precision="fp16",
            rulebook="" if strided else f"subm{self.level}", stride=self.ordered(stride),
            subm=int(not strided), transposed=0)

    def residual(self, identity):
        self.tensor = self.add("Relu", [self.add("Add", [self.tensor, identity], "add")], "relu")

    def dense(self, channels):
        d, h, w = (int(n) for n in self.ordered(self.extent))
        self.tensor = self.add("ScatterDense", [self.tensor], "scatter", format="zyx",
                               input_spatial_shape=(d, h, w), output_shape=(1, channels, d, h, w))
        if self.axes == ZXY: # the rows of the map run along x of the points
            self.tensor = self.add("Transpose", [self.tensor], "transpose", dims=(0, 1, 2, 4, 3))
            h, w = w, h
        shape = (1, channels * d, h, w)
        self.tensor = self.add("Reshape", [self.tensor], "reshape", dims=shape)
        return shape


def file_of(network, layers, extent):
    """The bytes of a file. layers: name -> {kind: array}, in the order of the network; extent: z, y,
    x of the points."""
    axes = ZXY if network == "bevfusion" else ZYX
    along = [0, 0, 0]
    for at, axis in enumerate(axes):
        along[axis] = extent[at]
    writer, identity = Writer(axes, along), None
    for name, layer in layers.items():
        if name.endswith(".conv1"):
            identity = writer.tensor
        writer.conv(name, layer, not name.endswith(".conv2"))
        if name.endswith(".conv2"):
            writer.residual(identity)
    channels = layer["weight"].shape[4]
    cin = next(iter(layers.values()))["weight"].shape[3]
    shape = writer.dense(int(channels))
    graph = (field(2, "scn") + writer.text + field(11, value("0", (1, cin))) +
             field(12, value(writer.tensor, shape)))
    return (field(1, 8) + field(2, "pytorch") + field(3, "1.9") + field(7, graph) +
            field(8, field(1, "ai.onnx") + field(2, 11)))
