# SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
"""Writes a network of spira.pytorch's modules for C++: a table of layers and a blob of weights, or
an .onnx file of libspconv's dialect."""
import os
import sys

import numpy as np

from .qat import ranges_of
from .trace import refuse, table_of

HERE = os.path.dirname(os.path.abspath(__file__))
WRITERS = os.path.join(os.path.dirname(HERE), "writers") # copies of checkpoint*.py in a package
if not os.path.isdir(WRITERS): # in the repository: examples/
    WRITERS = os.path.normpath(os.path.join(HERE, "..", "..", ".."))
VECTORS = ("bias", "scale", "shift")


def writer(name):
    """A module of examples/: checkpoint or checkpoint_onnx."""
    if WRITERS not in sys.path:
        sys.path.append(WRITERS)
    return __import__(name)


def export(net, x, path, type="fp16"):
    """Writes a network for C++. Returns its Table.

    net    an nn.Module that takes a SparseConvTensor. It is run once on x, in eval mode; code of
           any form is recorded: sequences, residual blocks, U-Nets, heads of 1x1 layers. What a
           table cannot express raises NotImplementedError, with the name of its module
    x      SparseConvTensor: a sample
    path   "NAME.layers" writes the table there (examples/network_file.h reads it) and the weights
           to NAME.blob; "NAME.onnx" writes libspconv's dialect. No file is replaced
    type   of the weights in a blob: "fp16", "bf16" or "fp32". Vectors are fp32

    The table has the spatial_shape and the batch_size of x, and takes scenes of this extent. A
    network without a dense map whose strided layers have size = stride, no padding, and cut nothing
    off takes scenes of any extent.

    Layers that qat.prepare made int8 ones are int8 in C++, too: the file has their ranges.
    """
    table = table_of(net, x)
    stem, suffix = os.path.splitext(path)
    if suffix == ".onnx":
        write_new(path, onnx_of(table))
    elif suffix == ".layers":
        checkpoint = writer("checkpoint")
        try:
            blob = checkpoint.blob_of(list(entries_of(table)), type)
        except checkpoint.Fault as fault:
            raise ValueError(str(fault)) from None
        write_new(path, text_of(table).encode())
        write_new(stem + ".blob", blob)
    else:
        raise ValueError(f"path: {path}; it ends with .layers or .onnx")
    return table


def write_new(path, data):
    with open(path, "xb") as file:
        file.write(data)


def entries_of(table):
    """The entries of a blob: (layer, kind, array)."""
    for layer in table.layers:
        if layer.weight is not None:
            yield layer.name, "weight", layer.weight
        for kind in VECTORS:
            if getattr(layer, kind) is not None:
                yield layer.name, kind, getattr(layer, kind)
    for layer, kind, values in ranges_of(table):
        yield layer.name, kind, np.array(values)


# ---- the table ----------------------------------------------------------------------------------

def floors(table):
    """Whether the sets of all layers are those of net_rule_floor, in scenes of any extent."""
    extents = {id(None): table.extent}
    for layer in table.layers:
        before = extents[id(layer.sources[0])]
        extents[id(layer)] = layer.extent
        plain = layer.size == layer.stride and layer.padding == (0, 0, 0) and \
            layer.dilation == (1, 1, 1) and all(n % s == 0 for n, s in zip(before, layer.stride))
        if layer.op == "dense" or (layer.expand and not layer.transposed and not plain):
            return False
    return True


def triple(values):
    return ",".join(str(n) for n in values)


def line_of(layer, floor):
    """A line of the table: the operation, then members of net_layer that are not the usual ones."""
    name = lambda l: "input" if l is None else l.name
    words = [layer.op, f"name={layer.name}"]
    words += [f"{key}={name(source)}" for key, source in zip(("source", "source2"), layer.sources)]
    if layer.has_residual:
        words.append(f"residual={name(layer.residual)}")
    if layer.op == "conv":
        words.append(f"channels={layer.channels}")
    if layer.op in ("conv", "pool_max", "pool_average"):
        words.append(f"size={triple(layer.size)}")
        usual = {"stride": (1, 1, 1), "padding": (0, 0, 0), "dilation": (1, 1, 1)}
        words += [f"{key}={triple(getattr(layer, key))}" for key, value in usual.items()
                  if getattr(layer, key) != value]
    if layer.expand and not floor:
        words.append("rule=expand")
    flags = {"transposed": layer.transposed, "bias": layer.bias is not None,
             "norm": layer.scale is not None, "keep": layer.keep}
    words += [flag for flag, there in flags.items() if there]
    if layer.act != "none":
        words.append(f"act={layer.act}")
    if layer.slope:
        words.append(f"slope={layer.slope:.9g}")
    return " ".join(words)


def text_of(table):
    """The table as text."""
    floor = floors(table)
    extent = "" if floor else f" extent={triple(table.extent)} batch={table.batch}"
    lines = ["spira layers 1", f"input channels={table.input_channels}{extent}"]
    return "\n".join(lines + [line_of(layer, floor) for layer in table.layers]) + "\n"


# ---- .onnx --------------------------------------------------------------------------------------

def onnx_of(table):
    """The bytes of an .onnx file."""
    onnx = writer("checkpoint_onnx")
    if table.batch != 1:
        raise ValueError(f"batch_size: {table.batch}; libspconv's dialect has 1")
    kept = [layer for layer in table.layers if layer.keep]
    if len(kept) != 1 or kept[0] is not table.layers[-1]:
        refuse("", "has several outputs, which libspconv's dialect has no place for")
    for layer in table.layers:
        if layer.op not in ("conv", "dense") or len(layer.sources) > 1:
            refuse(layer.name, "a concatenation" if len(layer.sources) > 1 else layer.op
                   + ", which libspconv's dialect has no node for")
        if layer.act not in ("none", "relu"):
            refuse(layer.name, f"{layer.act}; libspconv's dialect has ReLU alone")
    for layer, kind, values in ranges_of(table):
        if kind == "range":
            layer.range = values[0]
        else:
            layer.int8 = True
    return onnx.file_of(table.layers, table.extent, table.input_channels)
