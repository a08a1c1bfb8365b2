# SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
# tests/judge_networks.py: the networks of examples/detectors.h in spconv, for judge.py.
#
# Each network is a function of a Run and a sparse tensor, as its authors' engines write it: axes
# and names are those of its checkpoints. Modules and their random parameters are made when they are
# first reached. Run.levels collects what each layer of spira's table computes.
import math
from functools import partial

import torch

import spconv.pytorch as spconv
from spconv.core import ConvAlgo
from spconv.cppconstants import CPU_ONLY_BUILD

EPS = 1e-3


class Level:
    """A layer's result: indices [voxels, 1 + axes] in spconv's order, features, extent."""

    def __init__(self, indices, features, extent):
        self.indices, self.features, self.extent = (indices.cpu().numpy(),
                                                    features.float().cpu().numpy(), list(extent))


class Run:
    def __init__(self, seed, device):
        self.random = torch.Generator().manual_seed(seed)
        self.device = device
        self.tensors = {}  # the checkpoint
        self.levels = {}   # name in spira's table -> Level
        self.keys = 0      # each strided layer starts a coordinate set
        self.dense = None

    def uniform(self, count, lo, hi):
        return lo + (hi - lo) * torch.rand(count, generator=self.random)

    def norm(self, name, eps, x):
        """Batch norm; its statistics are near those of x, as a trained network's: through all
        layers, features stay in the range of fp16."""
        count = x.shape[1]
        mean, variance = x.mean(0).cpu(), x.var(0, unbiased=False).cpu().clamp(min=0.5)
        values = {"weight": self.uniform(count, 0.5, 1), "bias": self.uniform(count, -0.1, 0.1),
                  "running_mean": mean + self.uniform(count, -0.1, 0.1),
                  "running_var": variance * self.uniform(count, 0.5, 1.5)}
        for what, value in values.items():
            self.tensors[f"{name}.{what}"] = value.numpy()
        gamma, beta, mean, variance = (value.to(self.device) for value in values.values())
        return (x - mean) / torch.sqrt(variance + eps) * gamma + beta

    def layer(self, x, name, make, cout, taps, norm="next", eps=EPS, relu=True, bias=False,
              add=None, level=None):
        """A convolution, its norm, what is added, and ReLU. taps: active ones, roughly."""
        module = make(x.features.shape[1], cout, bias=bias, algo=ConvAlgo.Native)
        weight = torch.randn(module.weight.shape, generator=self.random)
        weight *= math.sqrt(2 / (x.features.shape[1] * taps))
        self.tensors[f"{name}.weight"] = weight.numpy()
        with torch.no_grad():
            module.weight.copy_(weight)
            if bias:
                module.bias.copy_(self.uniform(cout, -0.1, 0.1))
                self.tensors[f"{name}.bias"] = module.bias.detach().numpy().copy()
            y = module.to(self.device)(x)
        if norm == "next":
            stem, number = name.rsplit(".", 1)
            norm = f"{stem}.{int(number) + 1}"
        features = self.norm(norm, eps, y.features) if norm else y.features
        features = features if add is None else features + add
        y = y.replace_feature(torch.relu(features) if relu else features)
        self.note(level or name, y)
        return y

    def note(self, name, y):
        self.levels[name] = Level(y.indices, y.features, y.spatial_shape)

    def submanifold(self, x, name, cout, size=3, **more):
        make = partial(spconv.SubMConv3d, kernel_size=size, padding=size // 2,
                       indice_key=f"set{self.keys}.{size}")
        return self.layer(x, name, make, cout, {1: 1, 3: 5, 5: 12}[size], **more)

    def down(self, x, name, cout, size, stride, padding, key=None, **more):
        self.keys += 1
        make = partial(spconv.SparseConv3d, kernel_size=size, stride=stride, padding=padding,
                       indice_key=key)
        return self.layer(x, name, make, cout, 3, **more)

    def block(self, x, name, channels, bias=True, level=None):
        """A residual block; level: its name in the table."""
        level, before = level or name, x
        if x.features.shape[1] != channels:
            before = self.submanifold(x, f"{name}.proj.0", channels, 1, relu=False)
        y = self.submanifold(x, f"{name}.conv1", channels, norm=f"{name}.bn1", bias=bias,
                             level=f"{level}.conv1")
        return self.submanifold(y, f"{name}.conv2", channels, norm=f"{name}.bn2", bias=bias,
                                add=before.features, level=f"{level}.conv2")


def flattened(x, order):
    """The dense map [batch, channels * depth, rows, columns]. order: of the spatial axes, depth
    first."""
    dense = x.dense().permute(0, 1, *(2 + axis for axis in order))
    return dense.reshape(dense.shape[0], -1, *dense.shape[3:]).float().cpu().numpy()


def second(run, x):
    x = run.submanifold(x, "conv_input.0", 16)
    x = run.submanifold(x, "conv1.0.0", 16)
    for stage, channels, padding in ((2, 32, 1), (3, 64, 1), (4, 64, (0, 1, 1))):
        x = run.down(x, f"conv{stage}.0.0", channels, 3, 2, padding)
        x = run.submanifold(x, f"conv{stage}.1.0", channels)
        x = run.submanifold(x, f"conv{stage}.2.0", channels)
    x = run.down(x, "conv_out.0", 128, (3, 1, 1), (2, 1, 1), 0)
    run.dense = flattened(x, (0, 1, 2))


def centerpoint(run, x, bias=True, padding=(0, 1, 1), size=(3, 1, 1), stride=(2, 1, 1),
                order=(0, 1, 2)):
    """padding: of the last stage; size, stride: of the layer behind it."""
    x = run.submanifold(x, "conv_input.0", 16)
    for i in (0, 1):
        x = run.block(x, f"conv1.{i}", 16, bias=bias)
    for stage, channels, around in ((2, 32, 1), (3, 64, 1), (4, 128, padding)):
        x = run.down(x, f"conv{stage}.0", channels, 3, 2, around)
        for i in (3, 4):
            x = run.block(x, f"conv{stage}.{i}", channels, bias=bias)
    x = run.down(x, "extra_conv.0", 128, size, stride, 0)
    run.dense = flattened(x, order)


def bevfusion(run, x):
    """The same with coordinates x, y, z."""
    centerpoint(run, x, False, (1, 1, 0), (1, 1, 3), (1, 1, 2), (2, 0, 1))


def merged(indices, features):
    """Sums the features of equal indices."""
    rows, which = torch.unique(indices, dim=0, return_inverse=True)
    sums = torch.zeros(len(rows), features.shape[1], device=features.device)
    return rows, sums.index_add_(0, which, features)


def voxelnext(run, x):
    x = run.submanifold(x, "conv_input.0", 16)
    for i in (0, 1):
        x = run.block(x, f"conv1.{i}", 16)
    kept = {}
    for stage, channels in ((2, 32), (3, 64), (4, 128), (5, 128), (6, 128)):
        x = run.down(x, f"conv{stage}.0.0", channels, 3, 2, 1)
        for i in (1, 2):
            x = run.block(x, f"conv{stage}.{i}", channels)
        kept[stage] = x
    scaled = []
    for stage, by in ((4, 1), (5, 2), (6, 4)):
        indices = kept[stage].indices.clone()
        indices[:, 1:] *= by
        scaled.append(indices)
    shape = kept[4].spatial_shape
    indices, features = merged(torch.cat(scaled), torch.cat([kept[s].features for s in (4, 5, 6)]))
    run.levels["union"] = Level(indices, features, shape)
    indices, features = merged(indices[:, [0, 2, 3]], features)
    x = spconv.SparseConvTensor(features, indices.int(), shape[1:], x.batch_size)
    run.note("flatten", x)
    flat = {"kernel_size": 3, "padding": 1}
    x = run.layer(x, "conv_out.0", partial(spconv.SparseConv2d, **flat), 128, 3)
    run.layer(x, "shared_conv.0", partial(spconv.SubMConv2d, **flat), 128, 4, eps=1e-5, bias=True)


def spunet(run, x):
    x = run.submanifold(x, "conv_input.0", 32, 5)
    skips = []
    for stage, (channels, blocks) in enumerate(((32, 2), (64, 3), (128, 4), (256, 6))):
        skips.append((x, run.keys))
        x = run.down(x, f"down.{stage}.0", channels, 2, 2, 0, key=f"down{stage}")
        for i in range(blocks):
            x = run.block(x, f"enc.{stage}.block{i}", channels, bias=False)
    for stage, channels in ((3, 256), (2, 128), (1, 96), (0, 96)):
        make = partial(spconv.SparseInverseConv3d, kernel_size=2, indice_key=f"down{stage}")
        skip, run.keys = skips[stage]
        x = run.layer(x, f"up.{stage}.0", make, channels, 1)
        x = x.replace_feature(torch.cat([x.features, skip.features], 1))
        for i in (0, 1):
            x = run.block(x, f"dec.{stage}.block{i}", channels, bias=False)
    run.submanifold(x, "final", 16, 1, norm=None, relu=False, bias=True)


NETWORKS = {"second": second, "centerpoint": centerpoint, "bevfusion": bevfusion,
            "voxelnext": voxelnext, "spunet": spunet}


def device_of_spconv():
    """Its wheels without a suffix are built without CUDA: they run on the CPU, GPU or not."""
    return "cuda" if torch.cuda.is_available() and not CPU_ONLY_BUILD else "cpu"


def run_network(name, indices, features, shape, batch, seed):
    """Runs a network of random parameters. indices [voxels, 4] batch and spconv's axes."""
    device = device_of_spconv()
    run = Run(seed, device)
    x = spconv.SparseConvTensor(torch.from_numpy(features).to(device),
                                torch.from_numpy(indices).to(device), list(shape), batch)
    run.note("input", x)
    with torch.no_grad():
        NETWORKS[name](run, x)
    return run


def run_rule(rule, weights, indices, features, shape, batch):
    """A strided layer and its inverse. rule: size, stride, padding, dilation in spconv's axes."""
    device = device_of_spconv()
    size, stride, padding, dilation = rule
    cin, cout = features.shape[1], weights[0].shape[0]
    modules = (spconv.SparseConv3d(cin, cout, size, stride, padding=padding, dilation=dilation,
                                   bias=False, indice_key="rule", algo=ConvAlgo.Native),
               spconv.SparseInverseConv3d(cout, cin, size, bias=False, indice_key="rule",
                                          algo=ConvAlgo.Native))
    x = spconv.SparseConvTensor(torch.from_numpy(features).to(device),
                                torch.from_numpy(indices).to(device), list(shape), batch)
    levels = {}
    with torch.no_grad():
        for name, module, weight in zip(("strided", "inverse"), modules, weights):
            module.weight.copy_(torch.from_numpy(weight.copy()))
            x = module.to(device)(x)
            levels[name] = Level(x.indices, x.features, x.spatial_shape)
    return levels


def versions():
    where = torch.cuda.get_device_name() if device_of_spconv() == "cuda" else "the CPU"
    return f"spconv {spconv.__version__ if hasattr(spconv, '__version__') else '2'}, " \
           f"PyTorch {torch.__version__}, on {where}"
