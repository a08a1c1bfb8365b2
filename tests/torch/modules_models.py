# SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
# tests/torch/modules_models.py: what public model code does with spconv, stated again in small
# networks, against tests/torch/reference.py; and spira in the place of spconv.
#
#     python tests/torch/modules_models.py [part of a name]...
import inspect
import subprocess
import sys

import torch
from torch import nn

import modules_cases as cases
from modules import compare_networks
from modules_cases import DEVICE, Scene, close, raises

import generate
import reference
import spira
import spira.pytorch as spconv


def residual(library, cin, cout, axes, key):
    """Two submanifold layers and their input, as detectors and SpUNet write them; a projection of
    size 1 where the channels differ."""
    conv = getattr(library, f"SubMConv{axes}d")
    layer = lambda n: conv(n, cout, 3, padding=1, bias=False, indice_key=key)

    class Block(library.SparseModule):
        def __init__(self):
            super().__init__()
            self.conv1, self.bn1 = layer(cin), cases.norm(cout)
            self.conv2, self.bn2 = layer(cout), cases.norm(cout)
            self.relu = nn.ReLU()
            self.proj = None if cin == cout else library.SparseSequential(
                conv(cin, cout, 1, bias=False), cases.norm(cout))

        def forward(self, x):
            kept = x if self.proj is None else self.proj(x)
            y = self.conv1(x)
            y = y.replace_feature(self.relu(self.bn1(y.features)))
            y = self.conv2(y)
            y = y.replace_feature(self.bn2(y.features))
            return y.replace_feature(self.relu(y.features + kept.features))
    return Block()


class PillarPyramid(cases.Network):
    """Three levels of two axes whose voxels become one set: indices are scaled in place, joined and
    assigned; voxels that meet are summed (VoxelNeXt with pillars)."""

    def __init__(self, library):
        super().__init__(library)
        down = lambda key: library.SparseSequential(
            library.SparseConv2d(8, 8, 3, 2, padding=1, bias=False, indice_key=key), cases.norm(8),
            nn.ReLU(), residual(library, 8, 8, 2, key + "r"))
        self.stem = residual(library, 4, 8, 2, "stem")
        self.conv5, self.conv6 = down("spconv5"), down("spconv6")
        self.out = library.SparseSequential(
            library.SparseConv2d(8, 8, 3, 1, padding=1, bias=False, indice_key="out"),
            cases.norm(8), nn.ReLU(), library.SubMConv2d(8, 8, 3, padding=1, indice_key="shared"))

    def forward(self, x):
        x4 = self.stem(x)
        x5 = self.conv5(x4)
        x6 = self.conv6(x5)
        x5.indices[:, 1:] *= 2
        x6.indices[:, 1:] *= 4
        x4 = x4.replace_feature(torch.cat([x4.features, x5.features, x6.features]))
        x4.indices = torch.cat([x4.indices, x5.indices, x6.indices])
        return self.out(self.merged(x4, x4.indices, x4.spatial_shape))


class FlatPyramid(PillarPyramid):
    """The same of three axes: the height is dropped where the levels meet (VoxelNeXt)."""

    def __init__(self, library):
        super().__init__(library)
        down = lambda key: library.SparseSequential(
            library.SparseConv3d(8, 8, 3, 2, padding=1, bias=False, indice_key=key), cases.norm(8),
            nn.ReLU(), residual(library, 8, 8, 3, key + "r"))
        self.stem = residual(library, 4, 8, 3, "stem")
        self.conv5, self.conv6 = down("spconv5"), down("spconv6")

    def forward(self, x):
        x4 = self.stem(x)
        x5 = self.conv5(x4)
        x6 = self.conv6(x5)
        x5.indices[:, 1:] *= 2
        x6.indices[:, 1:] *= 4
        x4 = x4.replace_feature(torch.cat([x4.features, x5.features, x6.features]))
        x4.indices = torch.cat([x4.indices, x5.indices, x6.indices])
        return self.out(self.merged(x4, x4.indices[:, [0, 2, 3]], x4.spatial_shape[1:]))


class ReducingUNet(cases.Network):
    """Up by inverse layers; skips are joined by torch.cat and channels summed in groups (Part-A2)."""

    def __init__(self, library):
        super().__init__(library)
        self.down = library.SparseConv3d(4, 8, 3, 2, padding=1, bias=False, indice_key="down")
        self.low = residual(library, 8, 8, 3, "low")
        self.up = library.SparseInverseConv3d(8, 4, 3, indice_key="down", bias=False)
        self.merge = residual(library, 8, 8, 3, "high")
        self.last = library.SubMConv3d(4, 5, kernel_size=1, padding=1, bias=True) # as SpUNet's

    def forward(self, x):
        y = self.up(self.low(self.down(x)))
        y = y.replace_feature(torch.cat([x.features, y.features], dim=1))
        z = self.merge(y)
        n, channels = z.features.shape
        z = z.replace_feature(z.features.view(n, channels // 2, -1).sum(dim=2))
        return self.last(z)


def half_of_the_children(indices):
    """bool [voxels, 8], whatever the order of the voxels."""
    number = (indices[:, 1:].long() * indices.new_tensor([31, 17, 7]).long()).sum(1) + indices[:, 0]
    return (number[:, None] * 5 + torch.arange(8, device=indices.device) * 3) % 7 > 3


def test_growing_decoder():
    """A decoder whose sets follow from logits, or from a target: forward, loss and all gradients
    against plain PyTorch in double; and the same in capacity mode."""
    scene = Scene((6, 5, 4), rows=40, channels=8)
    make = lambda library: generate.Decoder(library, latents=8, channels=32, blocks=(1, 1, 1))
    for rule in (None, lambda x: half_of_the_children(x.indices)):
        ours, judge = cases.twins(make, spconv, reference)
        results = []
        for net, library, options in ((ours, spconv, ()), (judge, reference, (torch.float64, "cpu"))):
            x, leaf = scene.tensor(library, *options)
            y, steps = net(x, rule)
            loss = y.features.square().sum() / len(y.features)
            at = x
            for logits, children in steps: # the target: a loss that no set depends on
                loss = loss + 0.1 * nn.functional.binary_cross_entropy_with_logits(
                    logits, half_of_the_children(at.indices).to(logits))
                at = children
            loss.backward()
            results.append((y, loss, leaf.grad))
        (y, loss, grad), (judged, expected, wanted) = results
        cases.close_voxels(y, judged, 1e-4)
        assert y.spatial_shape == [24, 20, 16] and len(y.indices) > 2 * len(scene.indices)
        close(loss, expected, 1e-5, "loss")
        close(grad, wanted, 1e-3, "gradient of the latents")
        cases.close_parameters(ours, judge, 1e-3, 0)
        x, _ = scene.tensor(spconv)
        f, i, count = spconv.pad(x.features, x.indices, len(x.indices) + 7)
        z, _ = ours(spconv.SparseConvTensor(f, i, scene.shape, scene.batch,
                                            count=count.to(DEVICE)), rule)
        z.check()
        assert int(z.count) == len(y.indices) and torch.equal(z.indices[:len(y.indices)], y.indices)
        close(z.features[:len(y.indices)], y.features, 1e-5, "capacity mode")


def test_shell_of_the_decoder():
    """The rule of examples/torch/generate.py grows what that of examples/generate.cu grows, and the
    decoder the same, in other channels; with capacities, too."""
    for edge, wanted in ((1024, [9712, 39064, 156520, 625912, 2505040]),
                         (768, [5416, 22000, 88288, 352024, 1409608])):
        levels, _ = generate.Shape(1024, edge, "cpu").grow()
        assert [len(level) for level in levels] == wanted
    net = generate.randomize(generate.Decoder(spconv, channels=128, blocks=(1, 0, 0, 1, 0)))
    with torch.no_grad():
        run = generate.Run(spconv, net.to(DEVICE).eval(), generate.Shape(80, 64, DEVICE))
        y, z = run(), run.bounded()()
    z.check()
    rows = run.voxels[-1]
    assert rows > 20 * run.voxels[0] and y.spatial_shape == [80] * 3
    assert int(z.count) == rows < len(z.indices) and torch.equal(z.indices[:rows], y.indices)
    close(z.features[:rows], y.features, 1e-4, "with capacities")


def test_models():
    for make, shape in ((PillarPyramid, (37, 45)), (FlatPyramid, (19, 26, 31)),
                        (ReducingUNet, (19, 26, 31))):
        for training in (True, False):
            compare_networks(make, Scene(shape, rows=260), training=training)


def test_a_teacher_before_its_student():
    """Gradients of a tensor that was read without gradients before; in-place changes; both orders."""
    found = []
    for first in (None, torch.no_grad, torch.inference_mode):
        torch.manual_seed(3)
        student, teacher = (spconv.SparseSequential(spconv.SubMConv3d(4, 8, 3), nn.ReLU(),
                                                    spconv.SparseConv3d(8, 8, 2, 2)).to(DEVICE)
                            for _ in range(2))
        x, leaf = Scene().tensor(spconv)
        stem = spconv.SubMConv3d(4, 4, 3).to(DEVICE)
        y = stem(x)
        if first:
            with first():
                teacher(x), teacher(y), y.features
        student(y.replace_feature(y.features)).features.square().sum().backward()
        found.append([leaf.grad, stem.weight.grad, student[0].weight.grad])
    for other in found[1:]:
        assert all(torch.equal(a, b) for a, b in zip(found[0], other))
    x, _ = Scene().tensor(spconv)
    x = x.replace_feature(x.features.detach())
    teacher(x)
    student(x.replace_feature(x.features.requires_grad_())), student(x).features.sum().backward()
    assert x.features.grad is not None


# ---- duplicate voxels ---------------------------------------------------------------------------

class Kept(nn.Module):
    """Layers on rows of which some repeat a voxel, row by row: what spconv's trained networks see.
    A row reads its own features at the centre, and the first rows of its neighbours."""

    def __init__(self, conv, norm, down, up, last):
        super().__init__()
        self.conv, self.norm, self.down, self.up, self.last = conv, norm, down, up, last

    def forward(self, features, indices):
        first = {}
        for row, voxel in enumerate(indices.tolist()):
            first.setdefault(tuple(voxel), row)
        kept = sorted(first.values())
        rank = {row: n for n, row in enumerate(kept)}
        own = torch.tensor([rank[first[tuple(v)]] for v in indices.tolist()])
        firsts = indices[kept]

        def submanifold(conv, x):
            taps = reference.table(firsts, firsts, 3, 1, 1, 1)
            y = reference.conv(x[kept], conv.weight, conv.bias, taps)[own]
            return y + (x - x[kept][own]) @ conv.weight[:, 1, 1, 1].t()

        x = torch.relu(self.norm(submanifold(self.conv, features)))
        coarse, _ = reference.expand(firsts, (9, 8, 7), [2] * 3, [2] * 3, [0] * 3, [1] * 3)
        taps = reference.table(firsts, torch.tensor(coarse, dtype=torch.int32), 2, 2, 0, 1)
        low = reference.conv(x[kept], self.down.weight, self.down.bias, taps)
        high = reference.conv(low, self.up.weight, self.up.bias,
                              reference.inverse(taps, len(firsts)))[own]
        return submanifold(self.last, high + x)


def test_duplicates_are_kept():
    random = torch.Generator().manual_seed(4)
    scene = Scene((9, 8, 7), rows=150)
    more = torch.randperm(len(scene.indices), generator=random)[:40]
    rows = torch.cat([torch.arange(len(scene.indices)), more, more[:5]])
    rows = rows[torch.randperm(len(rows), generator=random)]
    scene.indices = scene.indices[rows]
    scene.features = torch.randn(len(rows), 4, generator=random, dtype=torch.float64)
    parts = [spconv.SubMConv3d(4, 6, 3, bias=False), nn.BatchNorm1d(6), spconv.SparseConv3d(6, 6, 2, 2,
                                                                                indice_key="d"),
             spconv.SparseInverseConv3d(6, 6, 2, indice_key="d"), spconv.SubMConv3d(6, 5, 3)]
    judge = Kept(*parts).double()
    double = {n: t.clone() for n, t in judge.state_dict().items()}
    leaf = scene.features.clone().requires_grad_()
    expected = judge(leaf, scene.indices)
    grad = torch.randn(expected.shape, generator=random, dtype=torch.float64)
    expected.backward(grad)
    gradients = [leaf.grad, *(p.grad for p in judge.parameters())]
    judge.zero_grad(), judge.load_state_dict(double), judge.float().to(DEVICE)
    conv, norm, down, up, last = judge.conv, judge.norm, judge.down, judge.up, judge.last
    x, own = scene.tensor(spconv)
    raises(ValueError, "duplicate", lambda: conv(x))
    spira.layers.keep_duplicates = True
    try:
        y = spconv.norm_relu(norm, conv(spconv.prepare(judge, x)))
        y = last(up(down(y)) + y)
        again = Scene().tensor(spconv)[0] # without duplicates all is as ever
        assert again.coordinates().extra is None
        raises(NotImplementedError, "keep_duplicates",
               lambda: spconv.SparseGlobalAvgPool()(x))
        assert x.dense().shape == (2, 4, 9, 8, 7)
    finally:
        spira.layers.keep_duplicates = False
    close(y.features, expected, 2e-5, "result")
    y.features.backward(grad.to(y.features))
    for mine, theirs in zip([own.grad, *(p.grad for p in judge.parameters())], gradients):
        close(mine, theirs, 1e-4, "gradient")
    assert torch.equal(y.indices.cpu(), scene.indices)


# ---- points -------------------------------------------------------------------------------------

def test_points_to_voxels():
    random = torch.Generator().manual_seed(2)
    points = torch.rand(500, 5, generator=random) * 6 - 1
    points[7, 1] = torch.nan
    low, size, grid = torch.tensor([0., 0, 0]), torch.tensor([1., 0.5, 2]), [4, 8, 2]
    for most_voxels, most_points in ((1000, 100), (20, 3)):
        expected = {}
        kept = []
        for p in points:
            place = ((p[:3] - low) / size).floor()
            inside = all(0 <= place[a] < grid[a] for a in range(3))
            key = tuple(place.int().tolist()) if inside else None
            if key is not None and key not in expected and len(expected) == most_voxels:
                key = None
            if key is not None:
                expected.setdefault(key, []).append(p)
            kept.append(key)
        make = spconv.utils.PointToVoxel([1, 0.5, 2], [0, 0, 0, 4, 4, 4], 5, most_voxels,
                                         most_points, torch.device(DEVICE))
        voxels, indices, counts, number = make.generate_voxel_with_id(points.to(DEVICE))
        assert [tuple(reversed(v)) for v in indices.tolist()] == list(expected)
        assert indices.dtype == counts.dtype == torch.int32
        assert counts.tolist() == [min(len(p), most_points) for p in expected.values()]
        for row, p in zip(voxels.cpu(), expected.values()):
            n = min(len(p), most_points)
            assert torch.equal(row[:n], torch.stack(p[:n])) and not row[n:].any()
        names = list(expected)
        assert number.tolist() == [-1 if k is None else names.index(k) for k in kept]
        filled = make(points.to(DEVICE), empty_mean=True)[0]
        close(filled[0, -1], torch.stack(list(expected.values())[0][:most_points]).mean(0)
              if counts[0] < most_points else voxels[0, -1].cpu(), 1e-6)
        at_points = spconv.utils.gather_features_by_pc_voxel_id(counts, number, -5)
        assert at_points.tolist() == [-5 if k is None else
                                      min(len(expected[k]), most_points) for k in kept]
    assert len(make(points[:0].to(DEVICE))[0]) == 0
    raises(ValueError, "pc", lambda: make(points[:, :3].to(DEVICE)))


# ---- names --------------------------------------------------------------------------------------

def test_names_that_are_imported():
    for name in ("SparseConv4d", "SubMConv4d", "SparseConvTranspose4d"):
        layer = getattr(spconv, name)
        assert inspect.isclass(layer) and issubclass(layer, nn.Module)
        raises(NotImplementedError, name, lambda: layer(4, 4, 3))
    raises(NotImplementedError, "act_type", lambda: spconv.SubMConv3d(4, 4, 3, act_type="ReLU"))
    raises(AttributeError, "ops.indice_conv", lambda: spconv.ops.indice_conv)
    layer = spconv.SparseConv3d(4, 6, 3, output_padding=0, device="meta", dtype=torch.float16)
    assert layer.weight.is_meta and layer.weight.dtype == torch.float16
    assert layer.weight_shape == [6, 3, 3, 3, 4] and layer.output_padding == (0, 0, 0)
    assert spconv.ops.get_conv_output_size([11, 14], [3, 3], [2, 1], [1, 0], [1, 1]) == [6, 12]
    x, _ = Scene().tensor(spconv)
    x.benchmark_record["a"], x.thrust_allocator, x._timer = 1, None, None
    assert x.force_algo is None and x.int8_scale is None
    y = x.minus() + x
    assert not y.features.any() and torch.equal((x + 1.0).features, x.features + 1)
    raises(ValueError, "different voxels", lambda: x + spconv.SparseConv3d(4, 4, 2, 2).to(DEVICE)(x))


def test_small_modules():
    scene = Scene()
    x, _ = scene.tensor(spconv)
    norm = spconv.SparseBatchNorm(4).to(DEVICE)
    close(norm(x).features, nn.BatchNorm1d(4).to(DEVICE)(x.features))
    y = spconv.SparseSequential(spconv.SubMConv3d(4, 4, 3), norm, spconv.SparseReLU()).to(DEVICE)(x)
    assert y.features.min() == 0 and torch.equal(spconv.SparseReLU()(y).features, y.features)
    assert spconv.SparseIdentity()(x) is x
    half = spconv.SparseConvTensor(x.features[::2] * 3, x.indices[::2], scene.shape, scene.batch)
    for made in (spconv.tables.AddTableMisaligned()([x, half]),
                 spconv.functional.sparse_add(half, x)):
        expected = x.features.clone()
        expected[::2] *= 4
        a, b = (cases.by_voxel(t.indices, f) for t, f in ((made, made.features), (x, expected)))
        assert torch.equal(a[0], b[0])
        close(a[1], b[1], 1e-6)


def test_in_the_place_of_spconv():
    """Imports of OpenPCDet, mmdetection3d and Pointcept, unchanged."""
    code = """
import spira.pytorch
spira.pytorch.install_as_spconv()
import inspect, spconv
if float(spconv.__version__[2:]) >= 2.2:
    spconv.constants.SPCONV_USE_DIRECT_TABLE = False
assert hasattr(spconv, "__version__") and spconv.__version__ >= "2.0.0"
import spconv.pytorch as library
import spconv.pytorch.functional as Fsp
from spconv.core import ConvAlgo
from spconv.pytorch import (SparseConv2d, SparseConv3d, SparseConv4d, SparseConvTranspose2d,
                            SparseConvTranspose3d, SparseInverseConv2d, SparseInverseConv3d,
                            SparseModule, SubMConv2d, SubMConv3d, SubMConv4d, ops)
from spconv.pytorch.conv import SparseConvolution
from spconv.pytorch.core import SparseConvTensor
from spconv.pytorch.modules import SparseModule as same, is_spconv_module
from spconv.pytorch.tables import AddTable
from spconv.pytorch.identity import Identity
from spconv.pytorch.hash import HashTable
from spconv.pytorch.utils import PointToVoxel
from spconv.utils import PointToVoxel as again
assert same is SparseModule and again is PointToVoxel and library is spira.pytorch
assert SparseConvTensor is library.SparseConvTensor and issubclass(SubMConv3d, SparseConvolution)
assert all(inspect.isclass(c) for c in (SparseConv4d, SparseConvTranspose3d, SubMConv4d))
assert Fsp.sparse_add and ConvAlgo.Native is library.ConvAlgo.Native
"""
    subprocess.run([sys.executable, "-c", code], check=True)
    late = "import sys; sys.modules['spconv'] = sys\nimport spira.pytorch\n" \
        "try: spira.pytorch.install_as_spconv()\nexcept ImportError as e: assert 'before' in str(e)\n" \
        "else: raise SystemExit(1)"
    subprocess.run([sys.executable, "-c", late], check=True)


if __name__ == "__main__":
    cases.run(globals())
