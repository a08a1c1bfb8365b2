# SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
# examples/checkpoint_onnx.py: writes .onnx files of libspconv's dialect, as the exporters of
# CenterPoint and BEVFusion do: one node a layer, batch norm folded, fp16 weights. onnx_libspconv.h
# reads them. The wire format of protobuf is written here: a key, then a number or a length and bytes.
import re
import struct
from types import SimpleNamespace

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


def real(key, value):
    """A field of four bytes."""
    return number(key << 3 | 5) + struct.pack("<f", value)


def attribute(name, value):
    if isinstance(value, int):
        content, kind = field(3, value), 2
    elif isinstance(value, str):
        content, kind = field(4, value), 3
    elif isinstance(value, float):
        content, kind = real(2, value), 1
    elif value and isinstance(value[0], float):
        content, kind = b"".join(real(7, n) for n in value), 6
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
    vector = lambda kind, n: np.full(weight.shape[4], n) if layer.get(kind) is None else \
        np.asarray(layer[kind], np.float64)
    scale = vector("scale", 1.0)
    return weight * scale, vector("bias", 0.0) * scale + vector("shift", 0.0)


def form(name):
    """Stride and padding along x, y, z of a strided layer; None of a submanifold one."""
    if name in ("conv_out.0", "extra_conv.0"):
        return (1, 1, 2), (0, 0, 0)
    stage = re.fullmatch(r"conv([234])\.0(\.0)?", name)
    return stage and ((2, 2, 2), (1, 1, 0 if stage[1] == "4" else 1))


def rows_of(network, layers):
    """The table of one of NETWORKS. layers: name -> {kind: array}, in the order of the network."""
    rows, identity = [], None
    for name, arrays in layers.items():
        identity = rows[-1] if name.endswith(".conv1") else identity
        strided, second = form(name), name.endswith(".conv2")
        stride, padding = strided or ((1, 1, 1), (0, 0, 0))
        rows.append(SimpleNamespace(
            op="conv", name=name, sources=rows[-1:] or [None], act="relu", stride=stride,
            padding=padding, dilation=(1, 1, 1), expand=bool(strided), transposed=False,
            has_residual=second, residual=identity if second else None,
            **{kind: arrays.get(kind) for kind in ("weight", "bias", "scale", "shift")}))
    rows.append(SimpleNamespace(op="dense", sources=rows[-1:], transposed=False))
    return rows


class Writer:
    """The nodes so far.

    axes    the file's, as spira's
    sets    of each row of the table, or None for the input: (number, extent along spira's axes)
    tensors of each row or None: the name of what it makes
    """

    def __init__(self, axes, extent):
        self.text, self.count, self.kinds, self.axes = b"", 0, {}, axes
        self.sets, self.tensors = {id(None): (0, tuple(extent))}, {id(None): "0"}
        self.back, self.layers = [], 0 # the strided rows that an inverse one leads back from

    def add(self, op, inputs, kind, **attributes):
        self.count += 1
        at = self.kinds.get(kind, 0)
        self.kinds[kind] = at + 1
        output = str(self.count)
        self.text += node(op, f"{kind}{at}", inputs, output, **attributes)
        return output

    def ordered(self, triple):
        return [int(triple[axis]) for axis in self.axes]

    def set_of(self, row, before, size):
        """The set of a convolution, and the name of its kernel map: layers of one share it."""
        number, extent = before
        if row.transposed:
            return self.sets[id(row.back.sources[0])], f"spconv{self.back.index(row.back)}"
        if not row.expand:
            kernel = "" if size == (3, 3, 3) and row.dilation == (1, 1, 1) else \
                "_" + "_".join(str(n) for n in (*size, *row.dilation))
            return before, f"subm{number}{kernel}"
        extent = tuple((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in
                       zip(extent, size, row.stride, row.padding, row.dilation))
        name = f"spconv{self.back.index(row)}" if row in self.back else ""
        return (max(n for n, _ in self.sets.values()) + 1, extent), name

    def conv(self, row):
        weight, bias = fold(vars(row))
        size, (cin, cout) = weight.shape[:3], weight.shape[3:]
        before = self.sets[id(row.sources[0])]
        made, rulebook = self.set_of(row, before, size)
        kept = not row.expand and not row.transposed
        padding = tuple(n // 2 for n in size) if kept else row.padding
        names = [f"spconv{self.layers}.{what}" for what in ("weight", "bias")]
        self.layers += 1
        order = [4] + self.ordered((0, 1, 2)) + [3] # [cout, the file's axes, cin]
        self.text += tensor(names[0], weight.transpose(order)) + tensor(names[1], bias)
        relu = row.act == "relu" and not row.has_residual
        int8, to_int8 = getattr(row, "int8", False), getattr(row, "range", 0) > 0
        ranges = dict(input_dynamic_range=float(row.sources[0].range), weight_dynamic_ranges=[
            float(n) for n in np.abs(weight).max((0, 1, 2, 3))]) if int8 else {}
        stored = "int8" if to_int8 and not row.has_residual else "fp16"
        output = self.add(
            "SparseConvolution", [self.tensors[id(row.sources[0])], *names], "conv",
            activation="ReLU" if relu else "None", dilation=self.ordered(row.dilation), groups=1,
            in_channels=int(cin), input_spatial_shape=self.ordered(before[1]),
            inverse=int(row.transposed), kernel_size=self.ordered(size), ndim=3,
            out_channels=int(cout), output_bound=200000, output_precision=stored,
            output_spatial_shape=self.ordered(made[1]), padding=self.ordered(padding),
            precision="int8" if int8 else "fp16", rulebook=rulebook,
            stride=self.ordered(row.stride), subm=int(kept), transposed=0, **ranges)
        if row.has_residual:
            added = float(row.residual.range) if int8 else 0.0
            ranges = dict(input0_dynamic_range=added, input1_dynamic_range=added, precision="int8",
                          output_precision="int8" if to_int8 else "fp16") if added else {}
            output = self.add("Add", [output, self.tensors[id(row.residual)]], "add", **ranges)
            output = self.add("Relu", [output], "relu") if row.act == "relu" else output
        self.sets[id(row)], self.tensors[id(row)] = made, output
        return 1, int(cout)

    def dense(self, row, channels):
        """The dense map; returns its shape."""
        d, h, w = self.ordered(self.sets[id(row.sources[0])][1])
        output = self.add("ScatterDense", [self.tensors[id(row.sources[0])]], "scatter",
                          format="zyx", input_spatial_shape=(d, h, w),
                          output_shape=(1, channels, d, h, w))
        if self.axes == ZXY: # the rows of the map run along x of the points
            output = self.add("Transpose", [output], "transpose", dims=(0, 1, 2, 4, 3))
            h, w = w, h
        shape = (1, channels * d, h, w)
        self.tensors[id(row)] = self.add("Reshape", [output], "reshape", dims=shape)
        return shape


def file_of(rows, extent, cin, axes=ZYX):
    """The bytes of a file.

    rows    the table: objects with op ("conv" or "dense"), name, sources, residual and has_residual,
            act, stride, padding, dilation, expand, transposed, weight, bias, scale and shift as of
            spira.pytorch.trace.Layer; an inverse row also has `back`, the strided one. Rows of int8
            have int8 = True, and rows that write what those read have `range`, its largest magnitude
    extent  x, y, z of the input
    cin     values of a voxel
    """
    writer = Writer(axes, extent)
    writer.back = [row.back for row in rows if row.transposed]
    shape = 1, cin
    for row in rows:
        shape = writer.conv(row) if row.op == "conv" else writer.dense(row, shape[1])
    graph = (field(2, "scn") + writer.text + field(11, value("0", (1, cin))) +
             field(12, value(writer.tensors[id(rows[-1])], shape)))
    return (field(1, 8) + field(2, "pytorch") + field(3, "1.9") + field(7, graph) +
            field(8, field(1, "ai.onnx") + field(2, 11)))


def file_of_network(network, layers, extent):
    """The bytes of a file of one of NETWORKS. extent: z, y, x of the points."""
    axes = ZXY if network == "bevfusion" else ZYX
    along = [0, 0, 0]
    for at, axis in enumerate(axes):
        along[axis] = extent[at]
    rows = rows_of(network, layers)
    return file_of(rows, along, int(rows[0].weight.shape[3]), axes)
