# SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
# examples/checkpoint_networks.py: the networks that checkpoint.py knows by name, as tables of
# convolutions, and the search for one of them in a checkpoint.
#
# The layer names are those of the networks' tables in networks.h. A network may have variants:
# other names of its tensors, other sizes. All of them become the same table.
import os
from collections import namedtuple

# A convolution of a network.
#
# name   of the layer in the table
# conv   of its tensors: conv.weight, and conv.bias if the layer has a bias. None: the layer is a
#        layer norm. "": the weights are the identity
# norm   of its batch norm, or None
# size   of the kernel in the order of the network's axes; (y, x) of a convolution without z; ()
#        of a linear layer, whose weight is [cout, cin]
# cin    input channels, or a word for a number that only the checkpoint says
# cout   output channels, or a word
# bias   of the layer in the table, which the blob has: "needed", or "alike": in the checkpoint all
#        layers that say so have one, or none of them has. "none": if the checkpoint has one all the
#        same, it becomes part of the norm's shift
# eps    of the batch norm
Conv = namedtuple("Conv", "name conv norm size cin cout bias eps")

# A form in which checkpoints have a network. axes: those of spira, in the order of the network's
# coordinates, slowest first
Variant = namedtuple("Variant", "title axes layers")

EPS = 1e-3
MARKERS = {"trellis2": "from_latent.weight", "ptv3": "embedding.stem.conv.weight"}
MARKER = "conv_input.0.weight" # of the others: leads to the prefix of a network
HEAD = "shared_conv."          # layers of this name belong to a head, with a prefix of its own


def layer(name, size, cin, cout, conv=None, norm="next", bias="none", eps=EPS):
    """norm="next": the last number of `conv` and one."""
    size = (size,) * 3 if isinstance(size, int) else size
    conv = name if conv is None else conv
    if norm == "next":
        stem, number = conv.rsplit(".", 1)
        norm = f"{stem}.{int(number) + 1}"
    return Conv(name, conv, norm, size, cin, cout, bias, eps)


def block(name, channels, conv=None, cin=None, bias="none"):
    """A residual block; with a shortcut if the channels change."""
    conv, cin = conv or name, cin or channels
    layers = []
    if cin != channels:
        layers.append(layer(f"{name}.proj.0", 1, cin, channels, f"{conv}.proj.0"))
    for i, source in ((1, cin), (2, channels)):
        layers.append(layer(f"{name}.conv{i}", 3, source, channels, f"{conv}.conv{i}",
                            f"{conv}.bn{i}", bias))
    return layers


# ---- networks -----------------------------------------------------------------------------------

def second():
    """VoxelBackBone8x."""
    layers = [layer("conv_input.0", 3, "cin", 16), layer("conv1.0.0", 3, 16, 16)]
    channels = 16
    for stage, after in ((2, 32), (3, 64), (4, 64)):
        layers.append(layer(f"conv{stage}.0.0", 3, channels, after))
        layers += [layer(f"conv{stage}.{i}.0", 3, after, after) for i in (1, 2)]
        channels = after
    return layers + [layer("conv_out.0", (3, 1, 1), 64, 128)]


def centerpoint(down, first, blocks, last, out_size=(3, 1, 1)):
    """SpMiddleResNetFHD. The arguments name the tensors: the strided layer of a stage, the blocks
    of stage 1, the blocks of the others, and the last layer."""
    layers = [layer("conv_input.0", 3, "cin", 16)]
    for i in range(2):
        layers += block(f"conv1.{i}", 16, first.format(i), bias="alike")
    channels = 16
    for stage, after in ((2, 32), (3, 64), (4, 128)):
        layers.append(layer(f"conv{stage}.0", 3, channels, after, down.format(stage, stage - 1)))
        for i in range(2):
            layers += block(f"conv{stage}.{i + 3}", after,
                            blocks.format(stage, i, i + 1, i + 3), bias="alike")
        channels = after
    return layers + [layer("extra_conv.0", out_size, 128, 128, last)]


CENTERPOINT_NAMES = {
    "CenterPoint": ("conv{0}.0", "conv1.{0}", "conv{0}.{3}", "extra_conv.0"),
    "OpenPCDet": ("conv{0}.0.0", "conv1.{0}", "conv{0}.{2}", "conv_out.0"),
    "mmdetection3d": ("encoder_layers.encoder_layer{1}.2.0", "encoder_layers.encoder_layer1.{0}",
                      "encoder_layers.encoder_layer{0}.{1}", "conv_out.0"),
}


def voxelnext(kernels, channels):
    """VoxelNeXt, its last layer in the head included."""
    layers = [layer("conv_input.0", 3, "cin", channels[0])]
    for i in range(2):
        layers += block(f"conv1.{i}", channels[0], bias="alike")
    before = channels[0]
    for stage, kernel, after in zip(range(2, 7), kernels, channels[1:]):
        layers.append(layer(f"conv{stage}.0.0", kernel, before, after))
        for i in (1, 2):
            layers += block(f"conv{stage}.{i}", after, bias="alike")
        before = after
    layers.append(layer("conv_out.0", (3, 3), channels[3], "the channels of conv_out"))
    layers.append(layer("shared_conv.0", (3, 3), "the channels of conv_out", "the channels out",
                        bias="needed", eps=1e-5))
    return layers


def spunet(base, encoder, decoder, encoder_blocks, decoder_blocks):
    """A U-Net. The channels and blocks are those of its stages; decoder: the coarsest first."""
    layers = [layer("conv_input.0", 5, "cin", base)]
    channels, before = base, []
    for stage, (after, blocks) in enumerate(zip(encoder, encoder_blocks)):
        before.append(channels)
        layers.append(layer(f"down.{stage}.0", 2, channels, after))
        for i in range(blocks):
            layers += block(f"enc.{stage}.block{i}", after)
        channels = after
    for stage, after in zip((3, 2, 1, 0), decoder):
        layers.append(layer(f"up.{stage}.0", 2, channels, after))
        layers += block(f"dec.{stage}.block0", after, cin=after + before[stage])
        for i in range(1, decoder_blocks):
            layers += block(f"dec.{stage}.block{i}", after)
        channels = after
    return layers + [layer("final", 1, channels, "the classes", norm=None, bias="needed")]


def linear(name, cin, cout, conv=None, norm=None):
    return layer(name, (), cin, cout, conv, norm, "needed")


def plain(name, size, channels, cout=None):
    return layer(name, size, channels, cout or channels, norm=None, bias="needed")


def layer_norm(name, channels):
    return Conv(name, None, name, (), None, channels, "none", None)


def trellis2(first=1024, blocks=(4, 16, 8, 4, 0)):
    """The shape decoder of TRELLIS.2 (generate_decoder.h). first: channels of the coarsest level"""
    layers = [linear("from_latent", "the latents", first)]
    for level, count in enumerate(blocks):
        channels, half = first >> level, first >> level + 1
        for i in range(count):
            name = f"blocks.{level}.{i}"
            layers += [plain(f"{name}.conv", 3, channels), layer_norm(f"{name}.norm", channels),
                       linear(f"{name}.mlp.0", channels, 4 * channels),
                       linear(f"{name}.mlp.2", 4 * channels, channels)]
        name = f"blocks.{level}.{count}"
        if level + 1 < len(blocks):
            layers += [linear(f"{name}.to_subdiv", channels, 8),
                       layer_norm(f"{name}.norm1", channels),
                       plain(f"{name}.conv1", 3, channels, 8 * half),
                       plain(f"{name}.conv2", 3, half)]
    return layers + [linear("output_layer", channels, "the outputs")]


def ptv3(encoder=(32, 64, 128, 256, 512), blocks=(2, 2, 2, 6, 2), decoder=(64, 64, 128, 256),
         up=(2, 2, 2, 2)):
    """Point Transformer V3 without attention (ptv3.h)."""
    def stage(name, channels, count):
        layers = []
        for block in (f"{name}.block{i}" for i in range(count)):
            layers += [plain(f"{block}.cpe.0", 3, channels),
                       linear(f"{block}.cpe.1", channels, channels),
                       layer_norm(f"{block}.cpe.2", channels),
                       layer_norm(f"{block}.norm2.0", channels),
                       linear(f"{block}.mlp.0.fc1", channels, 4 * channels),
                       linear(f"{block}.mlp.0.fc2", 4 * channels, channels)]
        return layers

    layers = [layer("embedding.stem.conv", 5, "cin", encoder[0], norm="embedding.stem.norm")]
    for s, channels in enumerate(encoder):
        name = f"enc.enc{s}"
        if s:
            layers += [linear(f"{name}.down.proj", encoder[s - 1], channels),
                       layer(f"{name}.down.norm", 1, channels, channels, "", f"{name}.down.norm.0")]
        layers += stage(name, channels, blocks[s])
    below = encoder[-1]
    for s in reversed(range(len(decoder))):
        name, channels = f"dec.dec{s}", decoder[s]
        layers += [linear(f"{name}.up.proj.0", below, channels, norm=f"{name}.up.proj.1"),
                   linear(f"{name}.up.proj_skip.0", encoder[s], channels,
                          norm=f"{name}.up.proj_skip.1"),
                   layer(f"{name}.up", 2, channels, channels, "", None)]
        layers += stage(name, channels, up[s])
        below = channels
    return layers


SPUNET_V1M1 = spunet(32, (32, 64, 128, 256), (256, 128, 96, 96), (2, 3, 4, 6), 2)
SPUNET_SMALL = spunet(16, (16, 32, 48, 64), (48, 32, 32, 16), (1, 1, 1, 1), 1)


def variants_of(network):
    if network == "second":
        return [Variant("OpenPCDet's names", "zyx", second())]
    if network == "centerpoint":
        return [Variant(f"{title}'s names", "zyx", centerpoint(*CENTERPOINT_NAMES[title]))
                for title in ("CenterPoint", "OpenPCDet")]
    if network == "bevfusion":
        # Its coordinates are x, y, z, and the rows of its dense map run along x: spira's y.
        return [Variant(f"{title}'s names", "yxz", centerpoint(*names, out_size=(1, 1, 3)))
                for title, names in CENTERPOINT_NAMES.items()]
    if network == "voxelnext":
        return [Variant("kernels of 3", "zyx", voxelnext((3,) * 5, (16, 32, 64, 128, 128, 128))),
                Variant("kernels of 5", "zyx",
                        voxelnext((5, 5, 3, 3, 3), (32, 64, 128, 256, 256, 256)))]
    if network in MARKERS:
        return [Variant("the authors' names", "xyz", trellis2() if network == "trellis2" else ptv3())]
    small = network == "spunet-small"
    return [Variant("Pointcept's names", "zyx", SPUNET_SMALL if small else SPUNET_V1M1)]


NETWORKS = ("centerpoint", "second", "bevfusion", "voxelnext", "spunet", "spunet-small", "trellis2",
            "ptv3")


# ---- the search in a checkpoint -----------------------------------------------------------------

# A variant at a prefix, in the weight layout of a version of spconv.
#
# layout    letters, as checkpoint.py has them
# prefixes  of the tensors; of the tensors whose names begin with HEAD
# numbers   the words of Conv -> what the checkpoint has
# faults    lines; empty: the checkpoint has the network
Found = namedtuple("Found", "variant engine layout prefixes numbers faults")


def prefixes_of(tensors, name):
    """What stands before a name in the names of tensors."""
    ends = [t for t in tensors if t == name or t.endswith("." + name)]
    return [t[:len(t) - len(name)] for t in ends]


def size_along(conv, axes):
    """The kernel size along x, y, z."""
    sizes = dict(zip(axes if len(conv.size) == 3 else "yx", conv.size))
    return tuple(sizes.get(axis, 1) for axis in "xyz")


def weight_shape(conv, axes, layout, numbers):
    """The shape of a weight; words instead of unknown numbers."""
    about = dict(zip("xyz", size_along(conv, axes)))
    about["i"], about["o"] = (numbers.get(c, c) for c in (conv.cin, conv.cout))
    if not conv.size:
        return [about["o"], about["i"]]
    return [about[axis] for axis in layout if axis != "z" or len(conv.size) == 3]


def shape_text(shape):
    return "[" + ", ".join(str(n) for n in shape) + "]"


def check_tensor(tensors, name, want, numbers, faults):
    """Compares a shape, and notes the numbers that it tells."""
    if name not in tensors:
        faults.append(f"{name}: missing; {shape_text(want)}")
        return
    shape = list(tensors[name].shape)
    fits = len(shape) == len(want)
    fits = fits and all(isinstance(w, str) or w == n for w, n in zip(want, shape))
    if not fits:
        faults.append(f"{name}: {shape_text(shape)}, not {shape_text(want)}")
        return
    numbers.update({w: n for w, n in zip(want, shape) if isinstance(w, str)})


def tensor_prefix(found_prefixes, name):
    return found_prefixes[name.startswith(HEAD)]


def biased(tensors, variant, prefixes):
    """Whether one of the layers that have biases alike has one."""
    return any(tensor_prefix(prefixes, c.name) + c.conv + ".bias" in tensors
               for c in variant.layers if c.bias == "alike")


def match(tensors, variant, engine, prefixes, numbers):
    """Looks a variant up at a prefix."""
    layout = "o" + variant.axes + "i" if engine == "spconv" else variant.axes + "io"
    numbers, faults = dict(numbers), []
    alike = biased(tensors, variant, prefixes)
    for c in variant.layers:
        prefix = tensor_prefix(prefixes, c.name)
        if c.conv:
            check_tensor(tensors, f"{prefix}{c.conv}.weight",
                         weight_shape(c, variant.axes, layout, numbers), numbers, faults)
        vector = [numbers.get(c.cout, c.cout)]
        if c.bias == "needed" or (c.bias == "alike" and alike):
            check_tensor(tensors, f"{prefix}{c.conv}.bias", vector, numbers, faults)
        running = ("running_mean", "running_var") if c.conv is not None else ()
        for what in ("weight", "bias", *running) if c.norm else ():
            check_tensor(tensors, f"{prefix}{c.norm}.{what}", vector, numbers, faults)
    return Found(variant, engine, layout, prefixes, numbers, faults)


def head_of(tensors, place):
    """The prefix of the head: the one that has most in common with the prefix of the network."""
    heads = prefixes_of(tensors, HEAD + "0.weight") or [place]
    return min(heads, key=lambda head: (-len(os.path.commonprefix([place, head])), len(head)))


def search(tensors, network, engines, prefix=None, cin=None, axes=None):
    """All places where a network might be, in all forms; the fewest faults come first. axes:
    instead of those of the variants"""
    variants = [v._replace(axes=axes or v.axes) for v in variants_of(network)]
    places = prefixes_of(tensors, MARKERS.get(network, MARKER)) if prefix is None else [prefix]
    numbers = {} if cin is None else {"cin": cin}
    found = [match(tensors, variant, engine, (place, head_of(tensors, place)), numbers)
             for place in places for variant in variants for engine in engines]
    return sorted(found, key=lambda f: len(f.faults))
