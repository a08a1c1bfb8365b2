# SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
# tests/run_checkpoint_networks.py: see run_checkpoint.sh.
#
# Makes up checkpoints of the networks that checkpoint.py knows by name, with the names and shapes
# that the engines give them, and converts them. Each layer of the blob must compute what the
# checkpoint's convolution and batch norm compute. The names and shapes are written out here a
# second time, as text, so that a slip in the script's own tables does not pass.
import contextlib
import io
import os
import re
import shutil
import subprocess
import sys

import numpy as np

from run_checkpoint_shared import FOLDER, PROGRAM as LEVELS, check, checkpoint, finish, path


def convert(source, network, out, *arguments):
    """Runs the script in this process. Returns whether it succeeded, and what it printed."""
    if os.path.exists(path(out)):
        os.remove(path(out))
    said = io.StringIO()
    sys.argv = ["checkpoint.py", "convert", path(source), "--network", network, "--out", path(out),
                *arguments]
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            checkpoint.main()
        except SystemExit as end:
            return end.code == 0, said.getvalue() + str(end.code)
    return True, said.getvalue()


def convert_shapes(shapes, network, *arguments):
    """The same for tensors that have shapes and take no memory."""
    read = checkpoint.read_tensors
    checkpoint.read_tensors = lambda *_: hollow(shapes)
    result = convert("shapes", network, "fault.blob", *arguments)
    checkpoint.read_tensors = read
    return result


# ---- the networks, as text ----------------------------------------------------------------------

# A line: names in the checkpoint, kernel, channels, words. A name of a residual block becomes its
# two convolutions: `R`. The norm of other convolutions has the next number. A name behind => is that
# of spira's table, where it differs. Words: biased; zero: the table has a bias, the checkpoint has
# none; extra: the other way; plain: no norm.
SECOND = """
conv_input.0 3 5-16 | conv1.0.0 3 16-16
conv2.0.0 3 16-32 | conv2.1.0 3 32-32 | conv2.2.0 3 32-32
conv3.0.0 3 32-64 | conv3.1.0 3 64-64 | conv3.2.0 3 64-64
conv4.0.0 3 64-64 | conv4.1.0 3 64-64 | conv4.2.0 3 64-64
conv_out.0 3,1,1 64-128
"""
CENTERPOINT = """
conv_input.0 3 5-16 | conv1.0 R 16-16 biased | conv1.1 R 16-16 biased
conv2.0 3 16-32 | conv2.3 R 32-32 biased | conv2.4 R 32-32 biased
conv3.0 3 32-64 | conv3.3 R 64-64 biased | conv3.4 R 64-64 biased
conv4.0 3 64-128 | conv4.3 R 128-128 biased | conv4.4 R 128-128 biased
extra_conv.0 3,1,1 128-128
"""
OPENPCDET = """
conv_input.0 3 5-16 | conv1.0 R 16-16 biased | conv1.1 R 16-16 biased
conv2.0.0=>conv2.0 3 16-32 | conv2.1=>conv2.3 R 32-32 biased | conv2.2=>conv2.4 R 32-32 biased
conv3.0.0=>conv3.0 3 32-64 | conv3.1=>conv3.3 R 64-64 biased | conv3.2=>conv3.4 R 64-64 biased
conv4.0.0=>conv4.0 3 64-128 | conv4.1=>conv4.3 R 128-128 biased | conv4.2=>conv4.4 R 128-128 biased
conv_out.0=>extra_conv.0 3,1,1 128-128
"""
BEVFUSION = CENTERPOINT.replace("3,1,1", "1,1,3").replace("biased", "zero")
MMDETECTION = """
conv_input.0 3 5-16
encoder_layers.encoder_layer1.0=>conv1.0 R 16-16 zero
encoder_layers.encoder_layer1.1=>conv1.1 R 16-16 zero
encoder_layers.encoder_layer1.2.0=>conv2.0 3 16-32
encoder_layers.encoder_layer2.0=>conv2.3 R 32-32 zero
encoder_layers.encoder_layer2.1=>conv2.4 R 32-32 zero
encoder_layers.encoder_layer2.2.0=>conv3.0 3 32-64
encoder_layers.encoder_layer3.0=>conv3.3 R 64-64 zero
encoder_layers.encoder_layer3.1=>conv3.4 R 64-64 zero
encoder_layers.encoder_layer3.2.0=>conv4.0 3 64-128
encoder_layers.encoder_layer4.0=>conv4.3 R 128-128 zero
encoder_layers.encoder_layer4.1=>conv4.4 R 128-128 zero
conv_out.0=>extra_conv.0 1,1,3 128-128
"""
VOXELNEXT = """
conv_input.0 3 5-16 | conv1.0 R 16-16 biased | conv1.1 R 16-16 biased
conv2.0.0 3 16-32 | conv2.1 R 32-32 biased | conv2.2 R 32-32 biased
conv3.0.0 3 32-64 | conv3.1 R 64-64 biased | conv3.2 R 64-64 biased
conv4.0.0 3 64-128 | conv4.1 R 128-128 biased | conv4.2 R 128-128 biased
conv5.0.0 3 128-128 | conv5.1 R 128-128 biased | conv5.2 R 128-128 biased
conv6.0.0 3 128-128 | conv6.1 R 128-128 biased | conv6.2 R 128-128 biased
conv_out.0 3,3 128-128 | shared_conv.0 3,3 128-128 biased eps=1e-5
"""
VOXELNEXT_LARGE = """
conv_input.0 3 5-32 | conv1.0 R 32-32 biased | conv1.1 R 32-32 biased
conv2.0.0 5 32-64 | conv2.1 R 64-64 biased | conv2.2 R 64-64 biased
conv3.0.0 5 64-128 | conv3.1 R 128-128 biased | conv3.2 R 128-128 biased
conv4.0.0 3 128-256 | conv4.1 R 256-256 biased | conv4.2 R 256-256 biased
conv5.0.0 3 256-256 | conv5.1 R 256-256 biased | conv5.2 R 256-256 biased
conv6.0.0 3 256-256 | conv6.1 R 256-256 biased | conv6.2 R 256-256 biased
conv_out.0 3,3 256-128 | shared_conv.0 3,3 128-128 biased eps=1e-5
"""
SPUNET = """
conv_input.0 5 6-32
down.0.0 2 32-32 | enc.0.block0 R 32-32 | enc.0.block1 R 32-32
down.1.0 2 32-64 | enc.1.block0 R 64-64 | enc.1.block1 R 64-64 | enc.1.block2 R 64-64
down.2.0 2 64-128 | enc.2.block0 R 128-128 | enc.2.block1 R 128-128 | enc.2.block2 R 128-128
enc.2.block3 R 128-128
down.3.0 2 128-256 | enc.3.block0 R 256-256 | enc.3.block1 R 256-256 | enc.3.block2 R 256-256
enc.3.block3 R 256-256 | enc.3.block4 R 256-256 | enc.3.block5 R 256-256
up.3.0 2 256-256 | dec.3.block0.proj.0 1 384-256 | dec.3.block0 R 384-256 | dec.3.block1 R 256-256
up.2.0 2 256-128 | dec.2.block0.proj.0 1 192-128 | dec.2.block0 R 192-128 | dec.2.block1 R 128-128
up.1.0 2 128-96 | dec.1.block0.proj.0 1 128-96 | dec.1.block0 R 128-96 | dec.1.block1 R 96-96
up.0.0 2 96-96 | dec.0.block0.proj.0 1 128-96 | dec.0.block0 R 128-96 | dec.0.block1 R 96-96
final 1 96-20 biased plain
"""
SPUNET_SMALL = """
conv_input.0 5 6-16
down.0.0 2 16-16 | enc.0.block0 R 16-16
down.1.0 2 16-32 | enc.1.block0 R 32-32
down.2.0 2 32-48 | enc.2.block0 R 48-48
down.3.0 2 48-64 | enc.3.block0 R 64-64
up.3.0 2 64-48 | dec.3.block0.proj.0 1 96-48 | dec.3.block0 R 96-48
up.2.0 2 48-32 | dec.2.block0.proj.0 1 64-32 | dec.2.block0 R 64-32
up.1.0 2 32-32 | dec.1.block0.proj.0 1 48-32 | dec.1.block0 R 48-32
up.0.0 2 32-16 | dec.0.block0.proj.0 1 32-16 | dec.0.block0 R 32-16
final 1 16-20 biased plain
"""


class Layer:
    """A convolution in a checkpoint: conv, norm (None: none), name in the table, size, channels."""

    def __init__(self, conv, norm, name, size, cin, cout, words):
        self.conv, self.norm, self.name = conv, norm, name
        self.size = tuple(int(n) for n in size.split(","))
        self.size *= 3 if len(self.size) == 1 else 1
        self.cin, self.cout = cin, cout
        self.biased = "biased" in words # in the checkpoint
        self.table_bias = "biased" in words or "zero" in words
        self.table_bias = self.table_bias and "extra" not in words
        self.eps = 1e-5 if "eps=1e-5" in words else 1e-3


def layers_of(text):
    layers = []
    for line in re.split(r"[|\n]", text.strip()):
        names, size, channels, *words = line.split()
        conv, _, name = names.partition("=>")
        name = name or conv
        cin, cout = (int(n) for n in channels.split("-"))
        if size == "R":
            for i in (1, 2):
                layers.append(Layer(f"{conv}.conv{i}", f"{conv}.bn{i}", f"{name}.conv{i}", "3",
                                    cin if i == 1 else cout, cout, words))
            continue
        stem, _, number = conv.rpartition(".")
        norm = None if "plain" in words else f"{stem}.{int(number) + 1}"
        layers.append(Layer(conv, norm, name, size, cin, cout, words))
    return layers


def shapes_of(layers, prefix, head, engine="spconv"):
    """The tensors of a checkpoint: name -> shape."""
    shapes = {}
    for l in layers:
        p = head if l.conv.startswith("shared_conv") else prefix
        shape = ((l.cout, *l.size, l.cin) if engine == "spconv" else (*l.size, l.cin, l.cout))
        shapes[f"{p}{l.conv}.weight"] = shape
        if l.biased:
            shapes[f"{p}{l.conv}.bias"] = (l.cout,)
        if l.norm:
            for what in ("weight", "bias", "running_mean", "running_var"):
                shapes[f"{p}{l.norm}.{what}"] = (l.cout,)
            shapes[f"{p}{l.norm}.num_batches_tracked"] = ()
    return shapes


def values_of(shapes):
    random = np.random.default_rng(3)
    tensors = {}
    for name, shape in shapes.items():
        values = random.random(shape, np.float32)
        tensors[name] = values + np.float32(0.5 if "running_var" in name else -0.5)
    return tensors


TITLES = ("SECOND", "CenterPoint", "BEVFusion", "VoxelNeXt", "SpUNet",
          "SpUNet-small") # run in spira, too


# ---- converting ---------------------------------------------------------------------------------

def out_of_checkpoint(l, tensors, prefix, engine, x):
    """Convolution and batch norm of the inputs under one output: x [*size, cin], in the axes of
    the network."""
    weight = tensors[f"{prefix}{l.conv}.weight"].astype(np.float64)
    if engine == "spconv" and set(l.size) == {1}: # its memory is read as [cin, cout]
        weight = weight.reshape(1, l.cin, l.cout)
    elif engine == "spconv":
        weight = np.moveaxis(weight, 0, -1).reshape(-1, l.cin, l.cout)
    y = np.einsum("ti,tio->o", x.reshape(-1, l.cin), weight.reshape(-1, l.cin, l.cout))
    if l.biased:
        y = y + tensors[f"{prefix}{l.conv}.bias"]
    if l.norm:
        gamma, beta, mean, variance = (tensors[f"{prefix}{l.norm}.{what}"].astype(np.float64)
                                       for what in ("weight", "bias", "running_mean",
                                                    "running_var"))
        y = (y - mean) / np.sqrt(variance + l.eps) * gamma + beta
    return y


def out_of_blob(l, blob, axes, x):
    """The same from the blob: x is turned to spira's axes x, y, z."""
    axes = axes if len(l.size) == 3 else "yx"
    x = x.transpose([axes.index(a) for a in "xyz" if a in axes] + [len(axes)])
    x = x if x.ndim == 4 else x[:, :, None]
    weight = blob[l.name, "weight"].astype(np.float64)
    check(weight.shape == (*x.shape, l.cout), f"{l.name}: {weight.shape}")
    y = np.einsum("xyzi,xyzio->o", x, weight)
    y = y + blob.get((l.name, "bias"), 0)
    if not l.norm:
        return y
    return y * blob[l.name, "scale"] + blob[l.name, "shift"]


def check_conversion(title, network, text, axes, prefix, head="", engine="spconv", more=()):
    layers = layers_of(text)
    tensors = values_of(shapes_of(layers, prefix, head, engine))
    tensors[prefix + "steps"] = tensors["other.weight"] = np.zeros(2, np.float32)
    np.savez(path("made.npz"), **tensors)
    good, said = convert("made.npz", network, "made.blob", *more)
    check(good, f"{title}: {said}")
    if not good:
        return
    rest = f"{prefix}steps; tensors elsewhere: 1" if prefix else "steps, other.weight;"
    for words in (f"left over under \"{prefix}\": {rest}", f"cin {layers[0].cin}",
                  f"weights of {engine}"):
        check(words in said, f"{title}: no \"{words}\" in {said[-300:]}")
    blob = checkpoint.read_blob(path("made.blob"))
    want = {(l.name, kind) for l in layers
            for kind in ("weight", *(("scale", "shift") if l.norm else ()),
                         *(("bias",) if l.table_bias else ()))}
    check(set(blob) == want, f"{title}: entries {set(blob) ^ want}")
    random = np.random.default_rng(4)
    for l in layers:
        x = random.standard_normal((*l.size, l.cin))
        p = head if l.conv.startswith("shared_conv") else prefix
        expected = out_of_checkpoint(l, tensors, p, engine, x)
        got = out_of_blob(l, blob, axes, x)
        error = np.abs(got - expected).max() / np.abs(expected).max()
        check(error < 1e-6, f"{title}: {l.name}: other values, by {error}")
    if title in TITLES:
        check_table(title, network, layers, tensors, prefix)


# ---- the tables of examples/detectors.h ---------------------------------------------------------

TABLES = {"second": "VoxelBackBone8x", "centerpoint": "SpMiddleResNetFHD",
          "bevfusion": "BEVFusion", "voxelnext": "VoxelNeXt", "spunet": "SpUNet-v1m1",
          "spunet-small": "SpUNet-small"}


def run_levels(table, channels, *options, value=1.0):
    """Runs a network of examples/levels.cu on a few voxels, with the blob made last."""
    voxels = np.stack(np.meshgrid([0], [3, 4], [5, 6], [20, 21]), -1).reshape(-1, 4)
    values = np.ones((len(voxels), channels))
    values[:1, :1] = value
    np.save(path("voxels.npy"), np.concatenate([voxels, values], 1).astype("<f4"))
    shutil.rmtree(path("levels"), ignore_errors=True)
    os.mkdir(path("levels"))
    return subprocess.run((os.path.abspath(LEVELS), "--net", table, "--weights", "made.blob",
                           "--in", "voxels.npy", "--out", "levels", *options), cwd=FOLDER,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          universal_newlines=True)


def check_table(title, network, layers, tensors, prefix):
    """The blob has what the table of layers takes, and no more; the first layer computes it."""
    l = layers[0]
    classes = ("--classes", str(layers[-1].cout)) if network.startswith("spunet") else ()
    done = run_levels(TABLES[network], l.cin, *classes)
    check(done.returncode == 0 and "of no layer" not in done.stdout,
          f"{title} in spira: {done.stdout}")
    if done.returncode:
        return
    with open(path("levels/layers.txt")) as file:
        lines = [line.split() for line in file]
    check([line[1] for line in lines[:2]] == ["input", l.name], f"{title}: {lines[:2]}")
    size = l.size[0]
    x = np.zeros((size,) * 3 + (l.cin,))
    x[tuple(np.stack(np.meshgrid(*[[size // 2, size // 2 + 1]] * 3), -1).reshape(-1, 3).T)] = 1
    want = np.maximum(out_of_checkpoint(l, tensors, prefix, "spconv", x), 0)
    check(np.allclose(np.load(path("levels/layer0.npy"))[0], want, 1e-4, 1e-5),
          f"{title}: another first layer in spira")


def check_conversions():
    zyx = "zyx"
    for title, network, text, axes, *more in (
            ("SECOND", "second", SECOND, zyx, "backbone_3d."),
            ("CenterPoint", "centerpoint", CENTERPOINT, zyx, "backbone."),
            ("CenterPoint without a prefix", "centerpoint", CENTERPOINT, zyx, ""),
            ("CenterPoint of spconv 1", "centerpoint", CENTERPOINT, zyx, "backbone.", "",
             "spconv1"),
            ("CenterPoint of OpenPCDet", "centerpoint", OPENPCDET, zyx, "module.backbone_3d."),
            ("BEVFusion", "bevfusion", BEVFUSION, "yxz", "pts_middle_encoder."),
            ("BEVFusion of mmdetection3d", "bevfusion", MMDETECTION, "yxz",
             "encoders.lidar.backbone."),
            ("BEVFusion of spconv 1", "bevfusion", BEVFUSION, "yxz", "a.b.", "", "spconv1"),
            ("VoxelNeXt", "voxelnext", VOXELNEXT, zyx, "backbone_3d.", "dense_head."),
            ("SpUNet", "spunet", SPUNET, zyx, "module.backbone."),
            ("SpUNet-small", "spunet-small", SPUNET_SMALL, zyx, "")):
        check_conversion(title, network, text, axes, *more)
    check_conversion("SpUNet of x, y, z", "spunet", SPUNET, "xyz", "module.",
                     more=("--axes", "xyz"))


# ---- linear layers and layer norms --------------------------------------------------------------

def trellis2_shapes(first):
    """TRELLIS.2's shape decoder, as its authors' tables have it: 292 tensors."""
    shapes = {"from_latent.weight": (first, 32), "from_latent.bias": (first,),
              "output_layer.weight": (7, first // 16), "output_layer.bias": (7,)}
    for level, blocks in enumerate((4, 16, 8, 4)):
        c = first // 2 ** level
        for i in range(blocks):
            for part, shape in (("conv", (c, 3, 3, 3, c)), ("norm", (c,)), ("mlp.0", (4 * c, c)),
                                ("mlp.2", (c, 4 * c))):
                shapes[f"blocks.{level}.{i}.{part}.weight"] = shape
                shapes[f"blocks.{level}.{i}.{part}.bias"] = shape[:1]
        for part, shape in (("norm1", (c,)), ("conv1", (4 * c, 3, 3, 3, c)), ("to_subdiv", (8, c)),
                            ("conv2", (c // 2, 3, 3, 3, c // 2))):
            shapes[f"blocks.{level}.{blocks}.{part}.weight"] = shape
            shapes[f"blocks.{level}.{blocks}.{part}.bias"] = shape[:1]
    return shapes


def ptv3_shapes(p):
    """Pointcept's PTv3, of each block's attention one tensor."""
    shapes = {f"{p}embedding.stem.conv.weight": (32, 5, 5, 5, 4)}

    def add(name, *shape, bias=True):
        shapes[f"{p}{name}.weight"] = shape
        if bias:
            shapes[f"{p}{name}.bias"] = shape[:1]

    def batch_norm(name, c):
        add(name, c)
        shapes.update({f"{p}{name}.{what}": (c,) for what in ("running_mean", "running_var")})

    def block(name, c):
        add(f"{name}.cpe.0", c, 3, 3, 3, c)
        add(f"{name}.cpe.1", c, c)
        for norm in ("cpe.2", "norm1.0", "norm2.0"):
            add(f"{name}.{norm}", c)
        add(f"{name}.attn.qkv", 3 * c, c)
        add(f"{name}.mlp.0.fc1", 4 * c, c)
        add(f"{name}.mlp.0.fc2", c, 4 * c)

    batch_norm("embedding.stem.norm", 32)
    widths = (32, 64, 128, 256, 512)
    for s, (c, blocks) in enumerate(zip(widths, (2, 2, 2, 6, 2))):
        if s:
            add(f"enc.enc{s}.down.proj", c, widths[s - 1])
            batch_norm(f"enc.enc{s}.down.norm.0", c)
        for i in range(blocks):
            block(f"enc.enc{s}.block{i}", c)
    for s, (c, below) in enumerate(((64, 64), (64, 128), (128, 256), (256, 512))):
        for name, cin in (("proj", below), ("proj_skip", widths[s])):
            add(f"dec.dec{s}.up.{name}.0", c, cin)
            batch_norm(f"dec.dec{s}.up.{name}.1", c)
        for i in range(2):
            block(f"dec.dec{s}.block{i}", c)
    return shapes


def check_blob(title, tensors, prefix):
    """Each entry but the identities has the numbers of its tensor."""
    for (name, kind), array in checkpoint.read_blob(path("made.blob")).items():
        full = prefix + name
        if kind == "weight" and f"{full}.weight" not in tensors: # of a norm, or of no tensor
            want = np.broadcast_to(np.eye(array.shape[-1]), array.shape)
        elif kind == "weight":
            want = tensors[f"{full}.weight"]
            want = np.moveaxis(want, 0, -1) if want.ndim == 5 else want.T[None, None, None]
        elif kind == "bias":
            want = tensors[f"{full}.bias"]
        elif f"{full}.running_var" in tensors or f"{full}.bias" not in tensors or \
                f"{full}.weight" in tensors and tensors[f"{full}.weight"].ndim > 1:
            continue # a batch norm: check_conversion compares these
        else:
            want = tensors[full + (".weight" if kind == "scale" else ".bias")]
        check(array.shape[-want.ndim:] == want.shape and np.allclose(array, want, 1e-6),
              f"{title}: {name}, {kind}")


def check_transformers():
    networks = checkpoint.networks
    full = hollow(trellis2_shapes(1024))
    check(len(full) == 292 and not best(full, "trellis2").faults, best(full, "trellis2").faults)
    check(sum(a.size for a in full.values()) == 474231463, "TRELLIS.2's parameters")
    for name in ("blocks.0.4.to_subdiv.weight", "blocks.3.0.norm.bias", "output_layer.bias"):
        faults = best({n: a for n, a in full.items() if n != name}, "trellis2").faults
        check(len(faults) == 1 and faults[0].startswith(f"{name}: missing"), f"{name}: {faults}")
    make = networks.trellis2
    networks.trellis2 = lambda: make(128)
    tensors = values_of(trellis2_shapes(128))
    np.savez(path("made.npz"), **tensors)
    good, said = convert("made.npz", "trellis2", "made.blob")
    check(good and "the outputs 7; left over under \"\": none" in said, f"TRELLIS.2: {said}")
    check_blob("TRELLIS.2", tensors, "")
    networks.trellis2 = make
    generate = os.path.join(os.path.dirname(os.path.abspath(LEVELS)), "host_generate")
    if os.path.exists(generate):
        done = subprocess.run((generate, "--side", "64", "--weights", "made.blob", "--picture",
                               "shape.png"), cwd=FOLDER, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, universal_newlines=True)
        check(done.returncode == 0 and "weights: made.blob\n" in done.stdout,
              f"TRELLIS.2 in generate: {done.stdout}")
    prefix = "module.backbone."
    tensors = values_of(ptv3_shapes(prefix))
    np.savez(path("made.npz"), **tensors)
    good, said = convert("made.npz", "ptv3", "made.blob")
    check(good and "cin 4; left over under \"module.backbone.\": " in said and
          f"{prefix}dec.dec3.block1.attn.qkv.bias; tensors elsewhere: 0" in said, f"PTv3: {said}")
    check_blob("PTv3", tensors, prefix)
    done = run_levels("PTv3-conv", 4)
    check(done.returncode == 0 and "of no layer" not in done.stdout,
          f"PTv3 in spira: {done.stdout}")


# ---- faults -------------------------------------------------------------------------------------

def hollow(shapes):
    """Tensors that have shapes and take no memory."""
    return {name: np.broadcast_to(np.float32(0), shape) for name, shape in shapes.items()}


def best(tensors, network, **more):
    return checkpoint.networks.search(tensors, network, ("spconv", "spconv1"), **more)[0]


def check_shapes():
    """Shapes alone: what search says of whole checkpoints, and of those with one tensor amiss."""
    large = hollow(shapes_of(layers_of(VOXELNEXT_LARGE), "backbone_3d.", "dense_head."))
    found = best(large, "voxelnext")
    check(not found.faults and found.variant.title == "kernels of 5", f"VoxelNeXt: {found.faults}")
    check(found.numbers == {"cin": 5, "the channels of conv_out": 128, "the channels out": 128},
          f"VoxelNeXt: {found.numbers}")
    for network, text, prefix, head in (
            ("second", SECOND, "backbone_3d.", ""), ("centerpoint", CENTERPOINT, "backbone.", ""),
            ("centerpoint", OPENPCDET, "backbone_3d.", ""), ("bevfusion", MMDETECTION, "e.", ""),
            ("voxelnext", VOXELNEXT, "backbone_3d.", "dense_head."), ("spunet", SPUNET, "b.", ""),
            ("spunet-small", SPUNET_SMALL, "", "")):
        whole = hollow(shapes_of(layers_of(text), prefix, head))
        check(not best(whole, network).faults, f"{network}: {best(whole, network).faults}")
        for name, array in list(whole.items())[::1 + len(whole) // 30]:
            if name.endswith(("num_batches_tracked", "shared_conv.0.weight",
                              prefix + "conv_input.0.weight")): # these lead to the prefixes
                continue
            lacking = {n: a for n, a in whole.items() if n != name}
            faults = best(lacking, network).faults
            check(len(faults) == 1 and faults[0].startswith(f"{name}: missing"),
                  f"{network} without {name}: {faults}")
            grown = np.broadcast_to(np.float32(0), (*array.shape[:-1], array.shape[-1] + 1))
            faults = best({**whole, name: grown}, network).faults
            shape = checkpoint.networks.shape_text
            check(f"{name}: {shape(grown.shape)}, not {shape(array.shape)}" in faults
                  or name.endswith(("final.weight", "conv_out.0.weight")), # any number will do
                  f"{network} with a larger {name}: {faults}")


def check_biases():
    """Biases of blocks: all or none; those that no table has are used."""
    without = hollow(shapes_of(layers_of(CENTERPOINT.replace("biased", "zero")), "p.", ""))
    check(not best(without, "centerpoint").faults, "CenterPoint without biases")
    one = {**without, "p.conv2.3.conv1.bias": np.zeros(32, np.float32)}
    check(len(best(one, "centerpoint").faults) == 15, "CenterPoint with one bias of 16")
    extra = CENTERPOINT.replace("conv2.0 3 16-32", "conv2.0 3 16-32 biased extra")
    check_conversion("CenterPoint with a bias more", "centerpoint", extra, "zyx", "backbone.")


def check_eps():
    """--eps replaces that of the tables."""
    old = Layer.__init__

    def with_eps(self, *arguments):
        old(self, *arguments)
        self.eps = 0.5
    Layer.__init__ = with_eps
    check_conversion("another eps", "second", SECOND, "zyx", "b.", more=("--eps", "0.5"))
    Layer.__init__ = old


def check_messages():
    second = shapes_of(layers_of(SECOND), "backbone_3d.", "")
    center = shapes_of(layers_of(CENTERPOINT), "backbone.", "")
    bev = shapes_of(layers_of(BEVFUSION), "backbone.", "")
    unet = shapes_of(layers_of(SPUNET), "module.backbone.", "")
    other_cin = {**second, "backbone_3d.conv2.0.0.weight": (32, 3, 3, 3, 8)}
    missing = {n: s for n, s in center.items() if n != "backbone.conv3.4.bn2.running_var"}
    copies = {**second, **{"ema." + n: s for n, s in second.items()}}
    cases = [ # shapes, network, arguments, words
        (second, "centerpoint", (), "backbone_3d.conv1.0.conv1.weight: missing; [16, 3, 3, 3, 16]"),
        (second, "centerpoint", (), "it has all tensors of --network second"),
        (second, "centerpoint", (), "more"),
        (center, "second", (), "it has all tensors of --network centerpoint"),
        (unet, "voxelnext", (), "it has all tensors of --network spunet"),
        (unet, "spunet-small", (), "it has all tensors of --network spunet"),
        (bev, "centerpoint", (), "backbone.extra_conv.0.weight: [128, 1, 1, 3, 128], not "
                                 "[128, 3, 1, 1, 128]"),
        (bev, "centerpoint", (), "it has all tensors of --network bevfusion"),
        (missing, "centerpoint", (), "1 tensors at fault:\n    backbone.conv3.4.bn2.running_var: "
                                     "missing; [64]"),
        (other_cin, "second", (), "conv2.0.0.weight: [32, 3, 3, 3, 8], not [32, 3, 3, 3, 16]"),
        (second, "second", ("--cin", "4"),
         "conv_input.0.weight: [16, 3, 3, 3, 5], not [16, 3, 3, 3, 4]"),
        (second, "second", ("--engine", "spconv1"), "12 tensors at fault"),
        (second, "second", ("--engine", "minkowski"), "weights of spconv only"),
        (second, "second", ("--layout", "oxyzi"), "--layout is for --map"),
        (second, "second", ("--axes", "xyx"), "a permutation of x y z"),
        (second, "second", ("--prefix", "backbone."), "backbone.conv_input.0.weight: missing"),
        (second, "second", ("--map", "m"), "not allowed with"),
        (copies, "second", (), "['backbone_3d.', 'ema.backbone_3d.']"),
        ({"a.weight": (1,), "b.weight": (1,)}, "second", (),
         "no tensor is named ...conv_input.0.weight; it has a.weight, b.weight"),
    ]
    for shapes, network, arguments, words in cases:
        good, said = convert_shapes(shapes, network, *arguments)
        check(not good and words in said,
              f"{network} {arguments}: expected \"{words}\", got {said}")
        check(not os.path.exists(path("fault.blob")), f"{network}: a file was left behind")
    check_conversion("SECOND", "second", SECOND, "zyx", "b.")
    done = run_levels("SpMiddleResNetFHD", 5)
    check(done.returncode == 1 and "layer conv1.0.conv1: the blob has no weight for it" in
          done.stdout and "\nIs this blob for another network?\n" in done.stdout,
          f"another network's blob: {done.stdout}")
    done = run_levels("VoxelBackBone8x", 4)
    check(done.returncode == 1 and "layer conv_input.0" in done.stdout,
          f"another number of values: {done.stdout}")
    done = run_levels("VoxelBackBone8x", 5, value=np.nan)
    check(done.returncode == 1 and "voxels.npy: has 1 rows or values that are NaN" in done.stdout,
          f"NaN: {done.stdout}")
    done = run_levels("VoxelBackBone8x", 0)
    check(done.returncode == 1 and "voxels.npy: has 4 columns" in done.stdout,
          f"no values: {done.stdout}")
    done = run_levels("rule:3,3", 4)
    check(done.returncode == 2 and "--net rule: 12 numbers" in done.stdout, f"rule: {done.stdout}")
    kitti = ("--range", "0,-40,-3,70.4,40,1", "--voxel", "0.05,0.05,0.1")
    done = run_levels("VoxelBackBone8x", 5, *kitti)
    check(done.returncode == 0, f"--range: {done.stdout}")
    with open(path("levels/layers.txt")) as file:
        extents = [line.split()[-3:] for line in file]
    check(extents[0] == ["1408", "1600", "41"] and extents[-1] == ["176", "200", "2"],
          f"--range: extents {extents}")
    for table, more in (("MinkUNet42", kitti[2:]), ("VoxelBackBone8x", ("--extent", "9,9,41"))):
        done = run_levels(table, 5, *kitti, *more)
        check(done.returncode == 2 and "--range, --voxel: for a network with a range"
              in done.stdout, f"{table} {more}: {done.stdout}")
    np.savez(path("copies.npz"), **values_of(copies))
    good, said = convert("copies.npz", "second", "copy.blob", "--prefix", "ema.backbone_3d.")
    check(good and "left over under \"ema.backbone_3d.\": none" in said, f"--prefix: {said}")


def check_torch():
    """Files of PyTorch: the tensors alone, and among other things."""
    try:
        import torch
        from torch import from_numpy # examples/torch has none
    except ImportError:
        return 1
    tensors = {n: from_numpy(np.asarray(v))
               for n, v in values_of(shapes_of(layers_of(SECOND), "backbone_3d.", "")).items()}
    blobs = []
    for name, content in (("plain", tensors), ("nested", {"epoch": 3, "model_state": tensors})):
        torch.save(content, path(f"{name}.pth"))
        good, said = convert(f"{name}.pth", "second", f"{name}.blob")
        check(good, f"{name}: {said}")
        with open(path(f"{name}.blob"), "rb") as file:
            blobs.append(file.read())
    check(blobs[0] == blobs[1], "model_state: other bytes")
    torch.save({"epoch": 3, "model_state": tensors, "state_dict": tensors}, path("two.pth"))
    torch.save({"hook": subprocess.Popen, **tensors}, path("code.pth"))
    for name, words in (("two", "--key"), ("code", "more than tensors")):
        good, said = convert(f"{name}.pth", "second", "fault.blob")
        check(not good and words in said, f"{name}.pth: {said}")
    return 0


check_conversions()
check_transformers()
check_shapes()
check_biases()
check_eps()
check_messages()
finish(check_torch())
