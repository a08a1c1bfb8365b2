# SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
# tests/torch/modules_spconv.py: spira.pytorch against spconv 2.3 itself, as a black box: the same
# networks, the same state dicts both ways, the same voxels and features.
#
#     python tests/torch/modules_spconv.py [part of a name]...
#
# Skipped where spconv is not installed.
import os

# spconv 2.3.8 on a CPU has wrong rows now and then if it runs in more threads than one.
os.environ["OMP_NUM_THREADS"] = "1"

from functools import partial

import torch
from torch import nn

import modules_cases as cases
from modules_cases import DEVICE, Scene, close

import spira.pytorch as spconv

try:
    import spconv.pytorch as judge
except ImportError:
    judge = None

BOUND = 2e-5 if DEVICE == "cpu" else 2e-3 # spconv multiplies in tf32 on a GPU


def library():
    """spconv with the one way to compute that it has on a CPU."""
    if judge is None:
        raise cases.Skip("spconv is not installed")

    class Library:
        SparseSequential, SparseConvTensor = judge.SparseSequential, judge.SparseConvTensor
    for name in ("SubMConv", "SparseConv", "SparseInverseConv", "SparseMaxPool"):
        for axes in "123":
            layer = getattr(judge, name + axes + "d")
            setattr(Library, name + axes + "d", partial(layer, algo=judge.ConvAlgo.Native))
    return Library


def compare(make, scene, training=True): # for inference spconv has no biases on a CPU
    ours, theirs = make(spconv), cases.randomize_norms(make(library()))
    ours.load_state_dict(theirs.state_dict())   # from spconv
    theirs.load_state_dict(ours.state_dict())   # and back
    assert list(ours.state_dict()) == list(theirs.state_dict())
    ours, theirs = ours.to(DEVICE).train(training), theirs.to(DEVICE).train(training)
    x, leaf = scene.tensor(spconv)
    z, judge_leaf = scene.tensor(library())
    y, z = ours(x), theirs(z)
    if isinstance(y, torch.Tensor): # in the order of the rows
        close(y, z, BOUND)
    else:
        cases.close_voxels(y, z, BOUND)
        if y.indices.shape == scene.indices.shape and torch.equal(z.indices.cpu(), scene.indices):
            assert torch.equal(y.indices.cpu(), scene.indices), "other rows than spconv's"
        y, z = y.features, z.features
    if DEVICE == "cpu": # spconv has no gradients there
        for (name, p), q in zip(ours.named_buffers(), theirs.buffers()):
            close(p, q, BOUND, name)
        return
    y.square().sum().backward(), z.square().sum().backward()
    close(leaf.grad, judge_leaf.grad, 50 * BOUND, "gradient of the features")
    cases.close_parameters(ours, theirs, 50 * BOUND, BOUND)


def one(name, *args, **options):
    return lambda lib: nn.Sequential(getattr(lib, name)(*args, **options))


def test_layers():
    for size, dilation in ((3, 1), (5, 1), ((3, 1, 5), 1), (3, 2), (1, 1)):
        compare(one("SubMConv3d", 4, 6, size, dilation=dilation), Scene())
    compare(one("SubMConv3d", 4, 6, 5, padding=1), Scene())
    compare(one("SubMConv2d", 4, 6, 3), Scene((17, 19)))
    compare(one("SubMConv1d", 4, 6, 3), Scene((90,)))


def test_strided_layers():
    random = torch.Generator().manual_seed(5)
    for _ in range(10):
        draw = lambda lo, hi: torch.randint(lo, hi, (3,), generator=random).tolist()
        size, stride, padding, dilation = draw(1, 4), draw(1, 4), draw(0, 2), draw(1, 3)
        if set(size) == {1} and set(stride) == {1}:
            padding = 0
        compare(one("SparseConv3d", 4, 6, size, stride, padding, dilation), Scene())
    compare(one("SparseConv2d", 4, 6, 3, 2, 1), Scene((17, 20)))
    compare(one("SparseConv1d", 4, 6, 3, 2, 1), Scene((91,)))
    compare(one("SparseConv3d", 4, 6, 1, 2), Scene())


def test_inverse_layers():
    for size, stride, padding in ((2, 2, 0), (3, 2, 1), (3, 3, 0)):
        compare(lambda lib: lib.SparseSequential(
            lib.SparseConv3d(4, 6, size, stride, padding, indice_key="down"),
            lib.SubMConv3d(6, 6, 3, indice_key="kept"),
            lib.SparseInverseConv3d(6, 5, size, indice_key="down")), Scene())


def test_pooling():
    """Of features above 0: spconv's kernels on a CPU begin with 0."""
    scene = Scene()
    scene.features = scene.features.abs() + 0.1
    for size, stride, padding in ((2, 2, 0), (3, 2, 1)):
        compare(one("SparseMaxPool3d", size, stride, padding), scene)


def test_networks():
    from spunet import SpUNet
    for training in (False, True):
        compare(cases.small_spunet, Scene((40, 30, 20), rows=900), training)
        compare(partial(cases.second, cin=4), Scene((41, 40, 32), rows=900), training)
    compare(lambda lib: SpUNet(4, 20, library=lib), Scene((60, 40, 20), rows=600), False)


def test_dense():
    scene = Scene()
    y, z = (scene.tensor(lib)[0] for lib in (spconv, library()))
    for channels_first in (True, False):
        close(y.dense(channels_first), z.dense(channels_first), 0)


def test_first_weights():
    """Both begin within the same bounds."""
    for name, size in (("SubMConv3d", 3), ("SparseConv3d", 2)):
        a, b = (getattr(lib, name)(16, 64, size) for lib in (spconv, library()))
        for p, q in ((a.weight, b.weight), (a.bias, b.bias)):
            assert p.shape == q.shape
            assert abs(p.abs().max() / q.abs().max() - 1) < 0.1
            assert abs(p.std() / q.std() - 1) < 0.25


if __name__ == "__main__":
    cases.run(globals())
