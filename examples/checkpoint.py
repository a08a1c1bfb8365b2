#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
# examples/checkpoint.py: makes a blob of spira (spira/blob.h) from a checkpoint of spconv,
# TorchSparse or MinkowskiEngine. Needs NumPy; PyTorch for .pt and its like only.
"""Converts checkpoints to blobs of weights.

    checkpoint.py list FILE                       names, types and shapes of what is in it
    checkpoint.py convert FILE --network NETWORK --out BLOB
    checkpoint.py convert FILE --engine ENGINE --map MAP --out BLOB
    checkpoint.py convert FILE --network NETWORK --onnx ONNX [--extent Z,Y,X]

FILE is .npz, .safetensors, a blob (list and --onnx), or else what torch.load reads.

--onnx writes libspconv's dialect (CenterPoint, BEVFusion of Lidar_AI_Solution) for second,
centerpoint and bevfusion: fp16 weights, batch norm folded, one node a layer and the dense map. From
a blob, NETWORK is the one that the blob is for.

NETWORK is one that people train with spconv; its layers get the names that networks.h has:

    second       VoxelBackBone8x: SECOND, PV-RCNN, Voxel R-CNN
    centerpoint  SpMiddleResNetFHD, or VoxelResBackBone8x of OpenPCDet, which has the same layers
    bevfusion    the same with coordinates (batch, x, y, z). Rows of its dense map run along its x:
                 give spira its y as x and its x as y. Also with the names of mmdetection3d
    voxelnext    VoxelNeXt with its shared_conv; also with kernels (5, 5, 3, 3)
    spunet       SpUNet-v1m1 of Pointcept. Trained on coordinates (batch, x, y, z): --axes xyz
    spunet-small SpUNet-small, which torch/train.py trains
    trellis2     the shape decoder of TRELLIS.2, that of generate.cu: coordinates (batch, x, y, z)
    ptv3         PTv3-conv: Pointcept's Point Transformer V3, without the tensors of attention

The prefix of its tensors is found in the file, and so is the version of spconv. Batch norm is
folded with eps 1e-3 (shared_conv: 1e-5), unless --eps says otherwise. Layers that have a bias in
networks.h keep it beside the norm; it is 0 where the checkpoint has none. A file that does not have
the whole network is refused, with the names and shapes at fault.

MAP is text, a line for each convolution of the network's table; # starts a comment:

    layer  conv  [norm]  [size=X,Y,Z] [layout=LETTERS] [mirror=LETTERS] [eps=E]

layer   its name in the table
conv    the prefix of its tensors: conv.weight or conv.kernel, and conv.bias if it is there; or
        the name of the weight itself
norm    the prefix of its batch norm (norm.weight, .bias, .running_mean, .running_var), folded to
        scale = weight / sqrt(running_var + eps) and shift = bias - running_mean * scale. A bias
        of the convolution goes to the shift: the layer has `norm` and no `bias` in the table.
        Without norm, the layer has `bias` if the convolution has one.
size    of the kernel along x, y, z; needed where a shape does not say it ([27, cin, cout] is
        taken for 3,3,3)
layout  how the weight stands in the checkpoint, slowest axis first: a permutation of x y z i o;
        x, y, z are spira's axes, i input and o output channels. Replaces that of the engine.
mirror  the axes along which the offsets run the other way: the last comes first
eps     of this norm

Layouts of the engines; x, y, z are the first, second and third coordinate of a voxel in spira:

    spconv       ozyxi  version 2; for coordinates given as (batch, z, y, x), as is usual. Were
                        they given as (batch, x, y, z): --layout oxyzi
    spconv1      zyxio  version 1; for (batch, x, y, z): --layout xyzio
    torchsparse  zyxio  for an odd number of offsets, xyzio for an even one. A version that has
                        another order: --layout. Sizes 4, 6, ... are refused: their offsets stand
                        elsewhere than spira's
    minkowski    zyxio  the hypercube; other regions (a cross) are not kernels of spira
    spira        xyzio

A weight may have x, y, z as one axis ([volume, cin, cout]), or lack them (1x1x1: [cin, cout]). One
of two dimensions lacks z: say size=X,Y,1.

All engines are taken to compute out[p] = sum over offsets d of W[d] in[p + d] in submanifold and
strided layers, and out[p + d] += W[d] in[p] in inverse (transposed) ones, d being an offset of
the forward layer: so does spira, and nothing is turned around. Where a layer does otherwise, say
mirror=xyz. Sources that are concatenated stand in the order of source, source2. Weights alone are
converted: whether sets, strides and padding agree is for the network's table to see to.
"""
import argparse
import json
import math
import os
import pickle
import struct
import sys
import zipfile
import zlib

try:
    import numpy as np
except ImportError: # said behind the options: --help needs none
    np = None

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import checkpoint_networks as networks

HEADER, ENTRY = struct.Struct("<8sIIQII"), struct.Struct("<64sII5IIQQ")
MAGIC, ALIGNMENT = b"spirablb", 256
KINDS = ("weight", "bias", "scale", "shift", "range", "weight_range", "input_range")
RANGES = KINDS[4:] # which a blob of version 2 has
STATES = ("model_state", "state_dict", "model") # where frameworks put the tensors
TYPES = {"fp32": 0, "fp16": 2, "bf16": 3}
ENGINES_NAMED, POINTWISE = ("spconv", "spconv1"), "io" # for networks known by name
LAYOUTS = {"spconv": "ozyxi", "spconv1": "zyxio", "torchsparse": None, "minkowski": "zyxio",
           "spira": "xyzio"}


class Fault(Exception):
    pass


def require(condition, text):
    if not condition:
        raise Fault(text)


# ---- checkpoints --------------------------------------------------------------------------------

def read_npz(path):
    with open(path, "rb") as file:
        require(zipfile.is_zipfile(file), f"{path}: not an .npz")
    with np.load(path, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def from_bf16(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)


def read_safetensors(path):
    types = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4",
             "I16": "<i2", "I8": "<i1", "U8": "<u1", "BOOL": "<u1"}
    with open(path, "rb") as file:
        data = file.read()
    require(len(data) >= 8, f"{path}: cut short")
    start = 8 + struct.unpack_from("<Q", data)[0]
    require(start <= len(data), f"{path}: the header is cut short")
    try:
        header = json.loads(data[8:start])
        places = {name: (about["dtype"], about["shape"], *about["data_offsets"])
                  for name, about in header.items() if name != "__metadata__"}
    except (AttributeError, KeyError, TypeError, ValueError):
        raise Fault(f"{path}: its header is damaged")
    tensors = {}
    for name, (kind, shape, begin, end) in places.items():
        require(kind in types, f"{path}: {name}: type {kind} is not read")
        require(0 <= begin <= end <= len(data) - start, f"{path}: {name}: cut short")
        array = np.frombuffer(data[start + begin:start + end], types[kind])
        array = from_bf16(array) if kind == "BF16" else array
        require(array.size == math.prod(shape), f"{path}: {name}: not of its shape")
        tensors[name] = array.reshape(shape)
    return tensors


def read_torch(path, key):
    try:
        import torch
        from torch import load # the folder torch/ beside this file has none
    except ImportError:
        raise Fault(f"{path}: PyTorch is needed to read it (.npz and .safetensors need none)")
    try:
        state = load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as fault:
        raise Fault(f"{path}: more than tensors is in it, which is not read: {fault}")
    inner = [name for name in STATES
             if isinstance(state, dict) and isinstance(state.get(name), dict)]
    key = key or (inner[0] if len(inner) == 1 else None)
    if key:
        require(isinstance(state, dict) and key in state, f"{path}: no {key} in it")
        state = state[key]
    require(isinstance(state, dict), f"{path}: not a dictionary of tensors")
    others = [str(name) for name, value in state.items() if not torch.is_tensor(value)]
    require(not others, f"{path}: more than tensors; choose one of these with --key: {others}")
    return {name: value.detach().double().numpy() for name, value in state.items()}


def read_blob(path):
    """The entries of a blob: (name, kind) -> array."""
    with open(path, "rb") as file:
        data = file.read()
    require(len(data) >= HEADER.size, f"{path}: cut short")
    magic, version, checksum, size, count, record = HEADER.unpack_from(data)
    index = HEADER.size + count * ENTRY.size
    require((magic, record) == (MAGIC, ENTRY.size) and version in (1, 2), f"{path}: another version")
    require(index <= len(data) == size, f"{path}: cut short or too long")
    require(zlib.crc32(data[16:index]) == checksum, f"{path}: the index is damaged")
    entries = {}
    for i in range(count):
        name, kind, number, *rest = ENTRY.unpack_from(data, HEADER.size + i * ENTRY.size)
        shape, (checksum, offset, size) = rest[:5], rest[5:]
        values = data[offset:offset + size]
        require(zlib.crc32(values) == checksum, f"{path}: entry {i} is damaged")
        array = np.frombuffer(values, {0: "<f4", 2: "<f2", 3: "<u2"}[number])
        array = from_bf16(array) if number == 3 else array
        array = array.reshape(shape if kind == 0 else shape[4:])
        entries[name.rstrip(b"\0").decode(), KINDS[kind]] = array
    return entries


def read_tensors(path, key):
    readers = {".npz": read_npz, ".safetensors": read_safetensors}
    for suffix, reader in readers.items():
        if path.endswith(suffix):
            require(not key, f"{path}: --key is for files of PyTorch")
            return reader(path)
    with open(path, "rb") as file:
        start = file.read(8)
    require(start != MAGIC, f"{path}: a blob, which has been converted: --onnx takes it")
    require(start[:2] == b"PK" or start[:1] == b"\x80",
            f"{path}: neither .npz, .safetensors nor a file of PyTorch")
    return read_torch(path, key)


def list_file(path, key):
    blob = is_blob(path)
    tensors = read_blob(path) if blob else read_tensors(path, key)
    for name, value in tensors.items():
        text = " ".join(name) if blob else name
        print(f"{text:60} {value.dtype!s:8} {list(value.shape)}")


# ---- the map -------------------------------------------------------------------------------------

def parse_line(words, where):
    """A layer of the map: layer, conv, norm or None, and its options."""
    names = [word for word in words if "=" not in word]
    options = dict(word.split("=", 1) for word in words if "=" in word)
    require(2 <= len(names) <= 3, f"{where}: not `layer conv [norm]`")
    require(set(options) <= {"size", "layout", "mirror", "eps"}, f"{where}: an unknown option")
    require(0 < len(names[0].encode()) < 64, f"{where}: a name of more than 63 bytes")
    try:
        if "size" in options:
            options["size"] = tuple(int(n) for n in options["size"].split(","))
            require(len(options["size"]) == 3, f"{where}: size is not X,Y,Z")
        if "eps" in options:
            options["eps"] = float(options["eps"])
    except ValueError:
        raise Fault(f"{where}: not a number")
    require(set(options.get("mirror", "x")) <= set("xyz"), f"{where}: mirror takes x, y and z")
    check_layout(options.get("layout"), where)
    return names[0], names[1], names[2] if len(names) > 2 else None, options


def check_layout(layout, where):
    require(layout is None or sorted(layout) == sorted("xyzio"),
            f"{where}: a layout is a permutation of x y z i o")


def read_map(path):
    layers = []
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            words = line.split("#", 1)[0].split()
            if words:
                layers.append(parse_line(words, f"{path}:{number}"))
    names = [layer[0] for layer in layers]
    require(layers, f"{path}: no layer")
    for name in names:
        require(names.count(name) == 1, f"{path}: {name} is there twice")
    return layers


# ---- weights -------------------------------------------------------------------------------------

def cube(volume, where):
    size = round(volume ** (1 / 3))
    require(size ** 3 == volume, f"{where}: {volume} offsets are no cube; say size=X,Y,Z")
    return size, size, size


def with_five_axes(array, layout, size, where):
    """Splits the axis of the offsets in three, or puts in three of one element."""
    spatial = [axis for axis in layout if axis in "xyz"]
    at = layout.index(spatial[0])
    together = layout[at:at + 3] == "".join(spatial)
    flat = array.ndim == 4 and size is not None and size[2] == 1
    require(flat or array.ndim in (2, 3, 5), f"{where}: a weight of {array.ndim} axes")
    if array.ndim == 5 or flat:
        return np.expand_dims(array, layout.index("z")) if flat else array
    require(together, f"{where}: layout {layout} needs a weight of 5 axes")
    shape = list(array.shape)
    if array.ndim == 2:
        shape.insert(at, 1)
    sizes = size or cube(shape[at], where)
    require(sizes[0] * sizes[1] * sizes[2] == shape[at],
            f"{where}: {shape[at]} offsets are not those of size {sizes}")
    return array.reshape(shape[:at] + [sizes["xyz".index(a)] for a in spatial] + shape[at + 1:])


def engine_layout(engine, array):
    volume = array.shape[0] if array.ndim == 3 else int(np.prod(array.shape[:-2]))
    return LAYOUTS[engine] or ("zyxio" if volume % 2 else "xyzio")


def to_spira(array, chosen, options, where):
    """A weight of an engine as [size.x, size.y, size.z, cin, cout]."""
    layout = options.get("layout") or chosen.layout or engine_layout(chosen.engine, array)
    size = options.get("size")
    weight = with_five_axes(array, layout, size, where)
    weight = weight.transpose([layout.index(axis) for axis in "xyzio"])
    *found, cin, cout = weight.shape
    require(size is None or tuple(found) == size, f"{where}: of size {found}, not {size}")
    require(all(1 <= n <= 15 for n in found),
            f"{where}: {list(array.shape)} in layout {layout} is a kernel of {found}")
    require(chosen.engine != "torchsparse" or all(n % 2 or n == 2 for n in found),
            f"{where}: TorchSparse's offsets of even sizes above 2 are not those of spira")
    pointwise = chosen.pointwise or options.get("pointwise")
    if pointwise and found == [1, 1, 1]:
        flat = np.ascontiguousarray(array).reshape(-1)
        weight = flat.reshape(cin, cout) if pointwise == "io" else flat.reshape(cout, cin).T
        weight = weight.reshape(1, 1, 1, cin, cout)
    for axis in options.get("mirror", ""):
        weight = np.flip(weight, "xyz".index(axis))
    return weight


def take(tensors, used, name, count, where):
    """A vector of the checkpoint, in double precision."""
    require(name in tensors, f"{where}: the checkpoint lacks {name}")
    used.add(name)
    vector = np.asarray(tensors[name], np.float64).reshape(-1)
    require(vector.size == count, f"{where}: {name} has {vector.size} elements, not {count}")
    return vector


def fold_norm(tensors, used, norm, bias, eps, count, where):
    require(eps is not None, f"{where}: say --eps: a checkpoint does not hold that of a batch norm")
    mean, variance = (take(tensors, used, f"{norm}.{what}", count, where)
                      for what in ("running_mean", "running_var"))
    scale, shift = np.ones(count), np.zeros(count)
    if f"{norm}.weight" in tensors or f"{norm}.bias" in tensors:
        scale = take(tensors, used, f"{norm}.weight", count, where)
        shift = take(tensors, used, f"{norm}.bias", count, where)
    scale = scale / np.sqrt(variance + eps)
    return scale, shift + (bias - mean) * scale


def folded(tensors, used, layer, bias, count, chosen):
    """The entries of a layer's batch norm, if it has one."""
    name, _, norm, options = layer
    if not norm:
        return []
    eps = options.get("eps", chosen.eps)
    scale, shift = fold_norm(tensors, used, norm, bias, eps, count, name)
    return [(name, "scale", scale), (name, "shift", shift)]


def convert_layer(tensors, used, layer, chosen):
    """The entries of a layer: (name, kind, array), weight, bias, scale, shift."""
    name, conv, norm, options = layer
    if conv is None: # a layer norm
        count = np.asarray(tensors[f"{norm}.weight"]).size
        return [(name, kind, take(tensors, used, f"{norm}.{what}", count, name))
                for kind, what in (("scale", "weight"), ("shift", "bias"))]
    if not conv:
        count, size = options["channels"], options["size"]
        identity = np.broadcast_to(np.eye(count), (*size, count, count))
        return [(name, "weight", identity), *folded(tensors, used, layer, 0, count, chosen)]
    found = [t for t in (f"{conv}.weight", f"{conv}.kernel", conv) if t in tensors]
    require(found, f"{name}: the checkpoint lacks {conv}.weight and {conv}.kernel")
    require(len(found) == 1, f"{name}: which of {found}?")
    used.add(found[0])
    weight = to_spira(np.asarray(tensors[found[0]], np.float64), chosen, options, name)
    count = weight.shape[4]
    entries = [(name, "weight", weight)]
    has_bias = f"{conv}.bias" in tensors
    bias = take(tensors, used, f"{conv}.bias", count, name) if has_bias else 0
    if options.get("keep_bias") or (has_bias and not norm):
        entries.append((name, "bias", np.zeros(count) + bias))
        bias = 0
    return entries + folded(tensors, used, layer, bias, count, chosen)


# ---- the blob ------------------------------------------------------------------------------------

def stored(array, number, where):
    """The bytes of an array: rounded to fp32, then to the type; to nearest, ties to even."""
    with np.errstate(over="ignore"):
        values = np.ascontiguousarray(array, np.float32)
        if number == 2:
            values = values.astype("<f2")
    bits = values.astype("<f4").view("<u4")
    if number == 3:
        bits = bits + 0x7fff + (bits >> 16 & 1) & 0xffff0000
    require(np.isfinite(bits.view("<f4")).all() and np.isfinite(array).all(),
            f"{where}: a NaN, an infinity, or a value that the type cannot hold")
    return (bits >> 16).astype("<u2").tobytes() if number == 3 else values.tobytes()


def blob_of(entries, weight_type):
    """The bytes of a blob; vectors are fp32."""
    blob, index = bytearray(HEADER.size + ENTRY.size * len(entries)), b""
    for name, kind, array in entries:
        number = TYPES[weight_type] if kind == "weight" else 0
        data = stored(array, number, f"{name}, {kind}")
        blob += bytes(-len(blob) % ALIGNMENT)
        shape = (1,) * (5 - array.ndim) + array.shape
        index += ENTRY.pack(name.encode(), KINDS.index(kind), number, *shape, zlib.crc32(data),
                            len(blob), len(data))
        blob += data
    version = 2 if any(kind in RANGES for _, kind, _ in entries) else 1
    rest = struct.pack("<QII", len(blob), len(entries), ENTRY.size) + index
    blob[:HEADER.size + len(index)] = MAGIC + struct.pack("<II", version, zlib.crc32(rest)) + rest
    return bytes(blob)


# ---- networks known by name ---------------------------------------------------------------------

FAULTS_SHOWN = 8


def network_fault(tensors, chosen, best):
    """What to say of a file that does not have the network."""
    lines = [f"{chosen.file}: no {chosen.network} ({best.variant.title}, {best.engine}); "
             f"{len(best.faults)} tensors at fault:"]
    lines += [f"    {line}" for line in best.faults[:FAULTS_SHOWN]]
    if len(best.faults) > FAULTS_SHOWN:
        lines.append(f"    and {len(best.faults) - FAULTS_SHOWN} more")
    for other in networks.NETWORKS:
        found = networks.search(tensors, other, ENGINES_NAMED, chosen.prefix)
        if other != chosen.network and found and not found[0].faults:
            lines.append(f"it has all tensors of --network {other}")
    return "\n".join(lines)


def find_network(tensors, chosen):
    """The one place and form in which a file has the network."""
    engines = [chosen.engine] if chosen.engine else ENGINES_NAMED
    found = networks.search(tensors, chosen.network, engines, chosen.prefix, chosen.cin,
                            chosen.axes)
    require(found, f"{chosen.file}: no tensor is named "
            f"...{networks.MARKERS.get(chosen.network, networks.MARKER)}; it has "
            f"{', '.join(list(tensors)[:FAULTS_SHOWN])}, ...")
    require(not found[0].faults, network_fault(tensors, chosen, found[0]))
    prefixes = [f.prefixes[0] for f in found if not f.faults]
    require(len(prefixes) == 1, f"{chosen.file}: which of these? Say --prefix: {prefixes}")
    return found[0]


def network_layers(found, chosen):
    """The layers as a map would have them."""
    layers = []
    for c in found.variant.layers:
        prefix = networks.tensor_prefix(found.prefixes, c.name)
        options = {"layout": found.layout if c.size else "oxyzi", "channels": c.cout, "size": networks.size_along(c, found.variant.axes),
                   "eps": c.eps if chosen.eps is None else chosen.eps,
                   "keep_bias": c.bias != "none"}
        if found.engine == "spconv" and c.size:
            options["pointwise"] = POINTWISE
        layers.append((c.name, c.conv and prefix + c.conv, c.norm and prefix + c.norm, options))
    return layers


def report_rest(tensors, used, found):
    """Says what was left over under the prefix of a network."""
    rest = [name for name in tensors
            if name not in used and not name.endswith("num_batches_tracked")]
    prefix = found.prefixes[0] if found else ""
    under = [name for name in rest if name.startswith(prefix)]
    if not found:
        return f"tensors of no layer: {', '.join(rest) or 'none'}"
    numbers = ", ".join(f"{word} {n}" for word, n in found.numbers.items())
    return (f"{found.variant.title}, weights of {found.engine}, {numbers}; left over under "
            f"\"{prefix}\": {', '.join(under) or 'none'}; tensors elsewhere: "
            f"{len(rest) - len(under)}")


def check_choice(chosen):
    """Options that do not go together."""
    if chosen.network:
        require(chosen.engine in (None, *ENGINES_NAMED),
                f"--network: weights of spconv only, not of {chosen.engine}")
        require(chosen.layout is None, "--network: the layout is known; --layout is for --map")
    else:
        require(chosen.engine, "--map needs --engine")
        require(chosen.prefix is None and chosen.cin is None and chosen.axes is None,
                "--prefix, --cin and --axes are for --network")
    require(chosen.axes is None or sorted(chosen.axes) == sorted("xyz"),
            "--axes: a permutation of x y z")
    check_layout(chosen.layout, "--layout")


def write_new(path, data):
    with open(path, "xb") as file:
        file.write(data)


def write_onnx(chosen, entries):
    """entries: (name, kind, array), those of a layer together."""
    import checkpoint_onnx as onnx
    require(chosen.network in onnx.NETWORKS, f"--onnx: --network {', '.join(onnx.NETWORKS)}")
    layers = {}
    for name, kind, array in entries:
        layers.setdefault(name, {})[kind] = array
    want = [c.name for c in networks.variants_of(chosen.network)[0].layers]
    require(set(layers) == set(want) and all("weight" in l for l in layers.values()),
            f"{chosen.file}: its layers are not those of {chosen.network}")
    for name, layer in layers.items():
        for array in onnx.fold(layer):
            stored(array, TYPES["fp16"], f"{name}, folded, in fp16")
    try:
        extent = tuple(int(n) for n in chosen.extent.split(","))
    except ValueError:
        extent = ()
    require(len(extent) == 3 and min(extent) > 0, "--extent: Z,Y,X in voxels")
    data = onnx.file_of_network(chosen.network, {name: layers[name] for name in want}, extent)
    write_new(chosen.onnx, data)
    print(f"{chosen.onnx}: {len(want)} layers, {len(data)} bytes")


def is_blob(path):
    with open(path, "rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def convert(chosen):
    check_choice(chosen)
    if chosen.onnx and is_blob(chosen.file):
        blob = read_blob(chosen.file)
        return write_onnx(chosen, [(*key, array) for key, array in blob.items()])
    tensors, used, entries = read_tensors(chosen.file, chosen.key), set(), []
    found = find_network(tensors, chosen) if chosen.network else None
    for layer in network_layers(found, chosen) if found else read_map(chosen.map):
        made = convert_layer(tensors, used, layer, chosen)
        entries += made
        print(f"{layer[0]:24} {list(made[0][2].shape)} {' '.join(kind for _, kind, _ in made)}")
    require(len(entries) <= 4096, "more than 4096 entries")
    if chosen.onnx:
        return write_onnx(chosen, entries)
    blob = blob_of(entries, chosen.type)
    write_new(chosen.out, blob)
    print(f"{chosen.out}: {len(entries)} entries, {len(blob)} bytes; "
          f"{report_rest(tensors, used, found)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    lister = commands.add_parser("list", help="names, types and shapes of what a file holds")
    converter = commands.add_parser("convert", help="makes a blob")
    for command in (lister, converter):
        command.add_argument("file")
        command.add_argument("--key", help="of a dictionary in the file: the one with the tensors")
    layers = converter.add_mutually_exclusive_group(required=True)
    layers.add_argument("--network", choices=networks.NETWORKS)
    layers.add_argument("--map", help="the layers; see checkpoint.py --help")
    converter.add_argument("--engine", choices=list(LAYOUTS), help="with --network: spconv or "
                           "spconv1, found by the shapes if it is not said")
    converter.add_argument("--prefix", help="of the network's tensors, where a file has several")
    converter.add_argument("--cin", type=int, help="values that a voxel must have in the network")
    converter.add_argument("--axes", help="of the coordinates that the network was trained on, "
                           "behind the batch: zyx for most networks, xyz if it was given "
                           "(batch, x, y, z)")
    written = converter.add_mutually_exclusive_group(required=True)
    written.add_argument("--out", help="a blob: a file that is not there yet")
    written.add_argument("--onnx", help="an .onnx file that is not there yet, instead of a blob")
    converter.add_argument("--extent", default="41,1440,1440", help="of --onnx: that of the "
                           "network's input, Z,Y,X in voxels (41,1440,1440: nuScenes)")
    converter.add_argument("--type", default="fp32", choices=list(TYPES),
                           help="of the weights in the blob (fp32); vectors are fp32")
    converter.add_argument("--layout", help="of all weights, instead of the engine's")
    converter.add_argument("--eps", type=float, help="of the batch norms. PyTorch's own is 1e-5, "
                           "many detectors take 1e-3; no default with --map")
    converter.add_argument("--pointwise", choices=["io", "oi"], help="1x1x1 kernels of stride 1: "
                           "their numbers are [cin, cout] or [cout, cin] in memory, whatever the "
                           "shape says. Versions of spconv 2 differ in how they read "
                           "[cout, 1, 1, 1, cin]; without this --map takes it as the shape says, "
                           f"and --network as version 2.3.8 does: {POINTWISE}")
    chosen = parser.parse_args()
    if np is None:
        sys.exit("checkpoint.py needs NumPy: pip install numpy")
    try:
        list_file(chosen.file, chosen.key) if chosen.command == "list" else convert(chosen)
    except (Fault, OSError, ValueError, zipfile.BadZipFile) as fault:
        sys.exit(f"checkpoint.py: {fault}")


if __name__ == "__main__":
    main()
