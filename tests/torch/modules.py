# SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
# tests/torch/modules.py: spira.pytorch against tests/torch/reference.py, in double precision.
#
#     python tests/torch/modules.py [part of a name]...
#     SPIRA_TEST_DEVICE=cuda python tests/torch/modules.py
from collections import OrderedDict
from functools import partial

import numpy as np
import torch
from torch import nn

import modules_cases as cases
from modules_cases import DEVICE, Scene, by_voxel, close, raises

import reference
import spira
import spira.pytorch as spconv


def compare_networks(make, scene, bound=1e-4, grad_bound=1e-3, training=True):
    """Runs the network make(library); compares voxels, features, all gradients and buffers."""
    ours, judge = cases.twins(make, spconv, reference)
    ours.train(training), judge.train(training)
    x, leaf = scene.tensor(spconv)
    rx, rleaf = scene.tensor(reference, torch.float64, "cpu")
    y, ry = ours(x), judge(rx)
    random = torch.Generator().manual_seed(7)
    if isinstance(y, torch.Tensor):
        close(y, ry, bound, "features")
        grad = torch.randn(ry.shape, generator=random, dtype=torch.float64)
        y.backward(grad.to(y)), ry.backward(grad)
    else:
        cases.close_voxels(y, ry, bound)
        of = {tuple(v): torch.randn(ry.features.shape[1], generator=random, dtype=torch.float64)
              for v in ry.indices.tolist()}
        for t in (y, ry):
            rows = torch.stack([of[tuple(v)] for v in t.indices.tolist()])
            t.features.backward(rows.to(t.features))
    close(leaf.grad, rleaf.grad, grad_bound, "gradient of the features")
    cases.close_parameters(ours, judge, grad_bound, bound)
    return x, y


# ---- single layers ------------------------------------------------------------------------------

def compare(make, scene):
    """Runs the layers that make(library) returns, in sequence."""
    return compare_networks(lambda library: library.SparseSequential(*make(library)), scene, 2e-5,
                            2e-5)


def test_submanifold():
    for ndim, shape in ((1, (60,)), (2, (17, 19)), (3, (11, 14, 9))):
        for size, dilation in ((3, 1), (5, 1), (3, 2)):
            def make(library):
                layer = getattr(library, f"SubMConv{ndim}d")
                return [layer(4, 6, size, dilation=dilation)]
            compare(make, Scene(shape))
    compare(lambda library: [library.SubMConv3d(4, 5, (3, 1, 5), bias=False)], Scene())


def test_padding_of_submanifold_layers_is_ignored():
    scene = Scene()
    a = spconv.SubMConv3d(4, 5, 5, padding=1).to(DEVICE)
    b = spconv.SubMConv3d(4, 5, 5, padding=2).to(DEVICE)
    b.load_state_dict(a.state_dict())
    assert torch.equal(a(scene.tensor(spconv)[0]).features, b(scene.tensor(spconv)[0]).features)


def test_pointwise():
    compare(lambda library: [library.SubMConv3d(4, 7, 1, padding=1)], Scene())
    compare(lambda library: [library.SparseConv3d(4, 7, 1, bias=False)], Scene())
    compare(lambda library: [library.SubMConv3d(4, 7, 3), library.SubMConv3d(7, 5, 1)], Scene())
    compare(lambda library: [library.SparseConv3d(4, 7, 1, stride=2)], Scene())


def test_strided():
    random = torch.Generator().manual_seed(3)
    for ndim, shape in ((1, (61,)), (2, (17, 20)), (3, (11, 14, 9))):
        for _ in range(6):
            draw = lambda lo, hi: torch.randint(lo, hi, (ndim,), generator=random).tolist()
            size, stride, padding, dilation = draw(1, 4), draw(1, 4), draw(0, 2), draw(1, 3)
            if set(size) == {1} and set(stride) == {1}:
                padding = 0
            def make(library):
                layer = getattr(library, f"SparseConv{ndim}d")
                return [layer(4, 6, size, stride, padding, dilation)]
            compare(make, Scene(shape))


def test_inverse():
    for ndim, shape in ((2, (17, 20)), (3, (11, 14, 9))):
        for size, stride, padding in ((2, 2, 0), (3, 2, 1), (3, 3, 0)):
            def make(library):
                down, kept, up = (getattr(library, f"{n}{ndim}d")
                                  for n in ("SparseConv", "SubMConv", "SparseInverseConv"))
                return [down(4, 6, size, stride, padding, indice_key="down"),
                        kept(6, 6, 3, indice_key="coarse"), up(6, 5, size, indice_key="down")]
            scene = Scene(shape)
            x, y = compare(make, scene)
            assert torch.equal(y.indices.cpu(), scene.indices), "other rows than before"


def test_transposed():
    """Against PyTorch's dense layer in double, where a tap of an input leads to; and back."""
    for ndim, shape in ((1, (60,)), (2, (9, 11)), (3, (5, 6, 4))):
        dense = getattr(nn.functional, f"conv_transpose{ndim}d")
        for size, stride, padding, more in ((2, 2, 0, 0), (3, 2, 1, 1), (3, 1, 1, 0), (2, 3, 0, 2),
                                            (5, 2, 2, 0)):
            net = getattr(spconv, f"SparseConvTranspose{ndim}d")(
                4, 6, size, stride, padding, output_padding=more).to(DEVICE)
            x, leaf = Scene(shape, rows=60).tensor(spconv)
            y = net(x)
            plain, weight = (t.detach().cpu().double().requires_grad_()
                             for t in (x.dense(), net.weight))
            options = dict(stride=stride, padding=padding, output_padding=more)
            turned = weight.permute(ndim + 1, 0, *range(1, ndim + 1)) # [in, out, ...]
            z = dense(plain, turned, **options)
            reached = dense((plain != 0).any(1, True).double(),
                            torch.ones(1, 1, *[size] * ndim, dtype=plain.dtype), **options) > 0.5
            assert y.spatial_shape == list(z.shape[2:]), f"{y.spatial_shape}, not {z.shape}"
            at = y.indices.long().cpu()
            assert len(at) == reached.sum() and reached[at[:, 0], 0, *at[:, 1:].T].all()
            want = z[at[:, 0], :, *at[:, 1:].T]
            close(y.features, want + net.bias.cpu(), 2e-5, f"{ndim} {size} {stride}")
            given = torch.randn_like(want)
            y.features.backward(given.to(y.features))
            want.backward(given)
            rows = x.indices.long().cpu()
            close(leaf.grad, plain.grad[rows[:, 0], :, *rows[:, 1:].T], 2e-5, "gradient of x")
            close(net.weight.grad, weight.grad, 2e-5, "gradient of the weight")
            assert y.coordinates().voxels.rows is None # rows are in order
    up = spconv.SparseConvTranspose3d(4, 4, 2, 2).to(DEVICE)
    x, _ = Scene().tensor(spconv)
    assert up(x).coordinates() is up(x).coordinates() # the set is made once
    again = spconv.SubMConv3d(4, 4, 3).to(DEVICE)(up(x))
    assert again.coordinates() is up(x).coordinates()
    none = x.features[:0], x.indices[:0], x.spatial_shape, x.batch_size
    assert len(up(spconv.SparseConvTensor(*none)).features) == 0
    raises(ValueError, "dilation", lambda: spconv.SparseConvTranspose3d(4, 4, 3, dilation=2))
    raises(ValueError, "output_padding", lambda: spconv.SparseConvTranspose3d(
        4, 4, 3, 2, output_padding=2))
    raises(ValueError, "padding", lambda: spconv.SparseConvTranspose3d(4, 4, 2, 1, 9).to(DEVICE)(x))
    f, i, count = spconv.pad(x.features, x.indices, len(x.indices) + 5)
    raises(NotImplementedError, "capacity mode", lambda: up(spconv.SparseConvTensor(
        f, i, x.spatial_shape, x.batch_size, count=count)))


def test_transposed_by_a_loop():
    """spconv's rule, i * stride - padding + tap within its extent, by a loop over taps; sizes,
    strides and paddings of each axis by themselves."""
    random = torch.Generator().manual_seed(11)
    for _ in range(40):
        draw = lambda lo, hi: torch.randint(lo, hi + 1, (3,), generator=random).tolist()
        size, stride, shape = draw(1, 4), draw(1, 3), draw(3, 7)
        padding = [min(p, (k + 1) // 2) for p, k in zip(draw(0, 2), size)]
        more = [min(m, s - 1) for m, s in zip(draw(0, 2), stride)]
        net = spconv.SparseConvTranspose3d(2, 3, size, stride, padding, output_padding=more,
                                           bias=False).to(DEVICE)
        x, _ = Scene(shape, rows=20, channels=2).tensor(spconv)
        extent = [(n - 1) * s - 2 * p + k + m for n, s, p, k, m in
                  zip(shape, stride, padding, size, more)]
        weight, sums = net.weight.detach().double().cpu().numpy(), {}
        for row, features in zip(x.indices.tolist(), x.features.detach().double().cpu().numpy()):
            for tap in np.ndindex(*size):
                at = [i * s - p + t for i, s, p, t in zip(row[1:], stride, padding, tap)]
                if all(0 <= a < n for a, n in zip(at, extent)):
                    key = (row[0], *at)
                    sums[key] = sums.get(key, 0) + weight[:, tap[0], tap[1], tap[2]] @ features
        y = net(x)
        assert y.spatial_shape == extent and len(y.indices) == len(sums)
        for row, value in zip(y.indices.tolist(), y.features.detach().double().cpu().numpy()):
            assert np.abs(value - sums[tuple(row)]).max() < 1e-5


def test_groups():
    """Against layers without groups that have zeros between the groups."""
    make = {"SubMConv3d": ((8, 4, 3), {}), "SparseConv3d": ((8, 4, 3, 2), dict(padding=1)),
            "SparseConvTranspose3d": ((8, 4, 3, 2), {}), "SubMConv2d": ((8, 8, 3), {}),
            "SubMConv1d": ((8, 8, 5), {})}
    for keep in (False, True):
        spira.layers.keep_duplicates = keep
        try:
            for name, (sizes, options) in make.items():
                if keep and "Transpose" in name:
                    continue
                compare_groups(name, sizes, options, keep)
        finally:
            spira.layers.keep_duplicates = False
    pointwise = spconv.SubMConv3d(8, 6, 1, groups=2)
    assert pointwise.weight.shape == (6, 1, 1, 1, 4) and "groups=2" in repr(pointwise)
    compare_groups("SubMConv3d", (8, 6, 1), {}, False)


def compare_groups(name, sizes, options, twice):
    groups = 2
    some = getattr(spconv, name)(*sizes, groups=groups, **options).to(DEVICE)
    all = getattr(spconv, name)(*sizes, **options).to(DEVICE)
    scene = Scene((17, 20, 9)[:some.ndim], channels=8, rows=60)
    results = []
    with torch.no_grad():
        parts = some.weight.chunk(groups)
        whole = torch.cat([nn.functional.pad(p, (4 * g, 4 * (1 - g))) for g, p in enumerate(parts)])
        all.bias.copy_(some.bias)
        if all.conv1x1: # its numbers are [cin, cout] in memory
            whole = whole.flatten(1).t().reshape(whole.shape)
        all.weight.copy_(whole)
    for net in (some, all):
        f = scene.features.float().to(DEVICE).requires_grad_()
        i = scene.indices.to(DEVICE)
        rows = torch.arange(len(i) + 3 * twice, device=DEVICE) % len(i) # the first ones once more
        y = net(spconv.SparseConvTensor(f[rows], i[rows], scene.shape, 2))
        torch.manual_seed(3)
        y.features.backward(torch.randn(y.features.shape).to(DEVICE))
        results.append((y.features, f.grad, net.bias.grad))
    for a, b in zip(*results):
        close(a, b, 2e-5, name)
    own = all.weight.grad
    if not all.conv1x1:
        cut = torch.cat([p[..., 4 * g:4 * g + 4] for g, p in enumerate(own.chunk(groups))])
        close(some.weight.grad, cut, 2e-5, name + ", gradient of the weight")


def test_voxels_that_features_choose():
    """prune, largest, subdivide and to_children in the user's order of rows, between layers."""
    scene = Scene(channels=16)
    x, leaf = scene.tensor(spconv)
    score = x.features[:, 3].detach()
    y = spconv.prune(x, score, 0.5)
    kept = score > 0.5
    order = spconv.sort_rows(x.indices[kept], x.spatial_shape)
    assert torch.equal(y.indices, x.indices[kept][order])
    assert torch.equal(y.features, x.features[kept][order]) and y.indice_dict == {}
    y.features.sum().backward()
    assert torch.equal(leaf.grad, kept.float()[:, None].expand_as(leaf))
    best = spconv.largest(x, score, 9)
    for b in range(scene.batch):
        here = x.indices[:, 0] == b
        assert torch.equal(score[best & here].sort().values, score[here].sort().values[-9:])
    z = spconv.subdivide(x, x.features[:, :8])
    rows, s = (x.features[:, :8] > 0).nonzero(as_tuple=True)
    children = x.indices[rows]
    children[:, 1:] = 2 * children[:, 1:] + torch.stack([s >> 2, s >> 1 & 1, s & 1], 1)
    order = spconv.sort_rows(children, z.spatial_shape)
    assert z.spatial_shape == [2 * n for n in x.spatial_shape]
    assert torch.equal(z.indices, children[order])
    expected = x.features.unflatten(1, (8, -1))[rows, s][order]
    assert torch.equal(z.features, expected)
    skip = spconv.to_children(x, z, 3)
    assert torch.equal(skip.features, expected.repeat_interleave(3, 1))
    net = spconv.SubMConv3d(2, 4, 3).to(DEVICE)
    assert net(z).coordinates() is z.coordinates() # and maps of their own
    assert len(spconv.subdivide(spconv.prune(x, score, 99.0)).features) == 0
    again = spconv.prune(spconv.subdivide(z.replace_feature(z.features.repeat(1, 4))),
                         torch.ones(8 * len(z.indices), device=DEVICE).bool())
    assert len(again.features) == 8 * len(z.indices)
    f, i, count = spconv.pad(x.features, x.indices, len(score) + 9)
    loose = spconv.SparseConvTensor(f, i, x.spatial_shape, 2, count=count.to(DEVICE))
    w = spconv.prune(loose, f[:, 3].detach(), 0.5)
    w.check()
    assert int(w.count) == len(y.features) and torch.equal(w.features[:len(y.features)], y.features)
    short = spconv.prune(loose, f[:, 3].detach(), 0.5, capacity=5)
    raises(ValueError, "capacity", short.check)
    raises(ValueError, "children", lambda: spconv.to_children(y, z))
    raises(ValueError, "choice", lambda: spconv.prune(x, score[1:]))
    raises(ValueError, "choice: a NaN", lambda: spconv.prune(x, score * torch.nan))
    x2, _ = Scene((17, 20)).tensor(spconv)
    raises(NotImplementedError, "three axes", lambda: spconv.subdivide(x2))


def test_pooling():
    for ndim, shape in ((2, (17, 20)), (3, (11, 14, 9))):
        for size, stride, padding in ((2, 2, 0), (3, 2, 1), (2, None, 0), (3, 1, 1)):
            def make(library):
                return [getattr(library, f"SparseMaxPool{ndim}d")(size, stride, padding)]
            compare(make, Scene(shape))


def test_pooling_and_back():
    compare(lambda library: [library.SparseMaxPool3d(2, 2, indice_key="pool"),
                             library.SparseInverseConv3d(4, 5, 2, indice_key="pool")], Scene())


def test_average_and_global_pooling():
    """Global pooling also in capacity mode, with its gradient."""
    scene = Scene()
    x, _ = scene.tensor(spconv)
    leaf = scene.features.clone().requires_grad_()
    of_batch = [leaf[scene.indices[:, 0] == b] for b in range(scene.batch)]
    grad = torch.randn(2, 4, dtype=torch.float64)
    rows = len(leaf)
    f, i, count = spconv.pad(scene.features.float(), scene.indices, rows + 9)
    f[rows:] = torch.nan
    for layer, expected in ((spconv.SparseGlobalMaxPool(), [f.max(0).values for f in of_batch]),
                            (spconv.SparseGlobalAvgPool(), [f.mean(0) for f in of_batch])):
        leaf.grad = None
        expected = torch.stack(expected)
        expected.backward(grad, retain_graph=True)
        for features, indices, n in ((scene.features.float(), scene.indices, None),
                                     (f, i, count.to(DEVICE))):
            own = features.clone().to(DEVICE).requires_grad_()
            made = layer(spconv.SparseConvTensor(own, indices.to(DEVICE), scene.shape, 3, count=n))
            close(made[:2], expected)
            assert not made[2].any(), "a batch without a voxel"
            made[:2].backward(grad.to(made))
            close(own.grad[:rows], leaf.grad)
            assert not own.grad[rows:].any(), "gradient behind the count"
    x = spconv.SparseConvTensor(x.features, x.indices, [14] * 3, 2)
    close(spconv.SparseAvgPool3d(14)(x).features, torch.stack([f.mean(0) for f in of_batch]))


def test_global_pooling_of_many_rows():
    """Sums of fp16 features are fp32, and the same from run to run."""
    places = torch.arange(100000, dtype=torch.int32)
    indices = torch.stack([0 * places, places // 400, places % 400], 1).to(DEVICE)
    for kind in (torch.float16, torch.bfloat16, torch.float32):
        for value in (10, 0.1):
            features = torch.full((100000, 2), value, dtype=kind, device=DEVICE)
            x = spconv.SparseConvTensor(features.requires_grad_(), indices, [250, 400], 1)
            y = spconv.SparseGlobalAvgPool()(x)
            assert y.dtype == kind
            close(y, features[:1], 1e-5)
            y.backward(torch.full_like(y, 1000))
            close(x.features.grad, torch.full_like(features, 0.01), 2e-2)
    features = torch.randn(100000, 3, device=DEVICE)
    x = spconv.SparseConvTensor(features, indices, [250, 400], 1)
    first = spconv.SparseGlobalAvgPool()(x)
    assert all(torch.equal(spconv.SparseGlobalAvgPool()(x), first) for _ in range(5))
    close(first, features.double().mean(0, keepdim=True), 1e-3)


def test_dense():
    for ndim, shape in ((1, (30,)), (2, (17, 20)), (3, (11, 14, 9))):
        scene = Scene(shape)
        (x, leaf), (rx, rleaf) = scene.tensor(spconv), scene.tensor(reference, torch.float64,
                                                                     "cpu")
        y, ry = x.dense(), rx.dense()
        close(y, ry, 1e-7)
        close(x.dense(channels_first=False), rx.dense(False), 1e-7)
        grad = torch.randn(ry.shape, dtype=torch.float64)
        y.backward(grad.to(y))
        ry.backward(grad)
        close(leaf.grad, rleaf.grad, 1e-6)
        back = spconv.SparseConvTensor.from_dense(x.dense(False).detach())
        assert back.indices.shape == x.indices.shape and back.spatial_shape == x.spatial_shape


def test_planted_errors_are_caught():
    make = lambda library: [library.SubMConv3d(4, 6, 3), library.SparseConv3d(6, 5, 3, 2, 1)]
    conv = spira.layers.conv

    def one_row(features, weight, bias, kmap, groups):
        y = conv(features, weight, bias, kmap)
        return torch.cat([y[:-1], y[-1:] * 1.001])

    def one_gradient(features, weight, bias, kmap, groups):
        return conv(features, weight * 1.0, bias, kmap) + 0 * weight.sum() + \
            (weight - weight.detach()).sum() * 1e-3

    try:
        for wrong, what in ((one_row, "features"), (one_gradient, "gradient of")):
            spira.layers.conv = wrong
            raises(AssertionError, what, lambda: compare(make, Scene()))
    finally:
        spira.layers.conv = conv
    compare(make, Scene())


# ---- networks -----------------------------------------------------------------------------------

def test_networks():
    second = partial(cases.second, widths=(8, 8, 12, 16, 16, 20))
    for training in (True, False):
        compare_networks(cases.small_spunet, Scene((40, 30, 20), rows=500), training=training)
        compare_networks(second, Scene((41, 32, 24), rows=300), training=training)


def test_names_are_those_of_the_converter():
    import checkpoint_networks
    from spunet import SpUNet
    for network, net in (("spunet", SpUNet(4, 20, library=spconv)),
                         ("second", cases.second(spconv, 5))):
        tensors = {n: t.numpy() for n, t in net.state_dict().items()}
        found = checkpoint_networks.search(tensors, network, ("spconv",), "")[0]
        assert not found.faults, found.faults[:4]


def test_weights_in_the_order_of_the_operators():
    """Layers keep them so, and other weights give the same."""
    scene = Scene()
    for make in (lambda: spconv.SubMConv3d(4, 6, (3, 1, 5)),
                 lambda: spconv.SparseConv3d(4, 6, 2, 2),
                 lambda: spconv.SubMConv3d(4, 6, 1)):
        ours, plain = make().to(DEVICE), make().to(DEVICE)
        plain.weight = nn.Parameter(plain.weight.detach().contiguous())
        plain.load_state_dict(ours.state_dict())
        grads = []
        for layer in (ours, plain):
            x, leaf = scene.tensor(spconv)
            y = layer(x).features
            y.square().sum().backward()
            assert layer.weight.grad.stride() == layer.weight.stride()
            grads.append([y.detach(), leaf.grad, layer.weight.grad, layer.bias.grad])
        assert all(torch.equal(a, b) for a, b in zip(*grads))
        optimizer = torch.optim.SGD(ours.parameters(), 0.1, momentum=0.9, foreach=True)
        optimizer.step()
        close(ours.weight, plain.weight - 0.1 * plain.weight.grad, 1e-6)


# ---- memory and gradients that others handle ----------------------------------------------------

def test_features_changed_in_place():
    """Before and after a layer has read them; of an input, of a result, in inference mode."""
    scene = Scene()
    conv, last = (spconv.SubMConv3d(4, 4, 3).to(DEVICE) for _ in range(2))
    for mode in (torch.enable_grad, torch.no_grad, torch.inference_mode):
        with mode():
            indices = scene.indices.clone().to(DEVICE)
            x = spconv.SparseConvTensor(scene.features.float().to(DEVICE), indices, scene.shape, 2)
            y = conv(x)
            expected = last(y.replace_feature(y.features * 3)).features
            last(y), y.features.mul_(3)
            assert torch.equal(last(y).features, expected), "of a result"
            twice = conv(x.replace_feature(x.features * 2)).features
            x.features.mul_(2)
            assert torch.equal(conv(x).features, twice), "of an input"
            x.indices[:, 0] = 1 - x.indices[:, 0]
            other = spconv.SparseConvTensor(x.features, x.indices.clone(), scene.shape, 2)
            assert torch.equal(last(y).features,
                               last(other.replace_feature(y.features)).features), "indices"


def test_indices_of_a_result_after_changes():
    """The rows of features and indices stay beside each other."""
    scene = Scene()
    x, _ = scene.tensor(spconv)
    y = spconv.SparseConv3d(4, 4, 2, 2, indice_key="d").to(DEVICE)(x)
    before = x.indices.clone()
    x.indices[0] += 1
    z = spconv.SparseInverseConv3d(4, 4, 2, indice_key="d").to(DEVICE)(y)
    assert torch.equal(z.indices, before)


def test_checkpointed_layers():
    scene = Scene((40, 30, 20), rows=500)
    from torch.utils.checkpoint import checkpoint
    net = spconv.convert_batchnorm(cases.small_spunet(spconv)).to(DEVICE)
    state = {n: t.clone() for n, t in net.state_dict().items()}
    found = []
    for again in (None, False, True):
        net.load_state_dict(state), net.zero_grad()
        x, leaf = scene.tensor(spconv)
        stem = lambda f: net(x.replace_feature(f))
        y = stem(leaf) if again is None else checkpoint(stem, leaf, use_reentrant=again)
        y.square().sum().backward()
        found.append([y, leaf.grad, *(p.grad.clone() for p in net.parameters())])
    for other in found[1:]:
        assert all(torch.equal(a, b) for a, b in zip(found[0], other))
    # Norms inside, layers that read their rows outside, and the other way round.
    conv, norm, last = (m.to(DEVICE) for m in (spconv.SubMConv3d(4, 8, 3), spconv.BatchNorm1d(8),
                                               spconv.SubMConv3d(8, 8, 3)))
    found = []
    for inside in (None, 0, 1):
        x, leaf = scene.tensor(spconv)
        parts = [lambda f: spconv.norm_relu(norm, conv(x.replace_feature(f))).features,
                 lambda f: last(x.replace_feature(f)).features]
        y = leaf
        for n, part in enumerate(parts):
            y = checkpoint(part, y, use_reentrant=False) if n == inside else part(y)
        last.weight.grad = None
        y.square().sum().backward()
        found.append([leaf.grad, last.weight.grad])
    for other in found[1:]:
        assert all(torch.equal(a, b) for a, b in zip(found[0], other))


def test_saved_and_copied():
    import copy, io, pickle
    scene = Scene()
    net = cases.small_spunet(spconv).to(DEVICE)
    x = spconv.SparseConvTensor(scene.features.float().to(DEVICE), scene.indices.to(DEVICE),
                                [40] * 3, scene.batch)
    y = net(x)
    for copied in (copy.deepcopy(x), copy.copy(x), pickle.loads(pickle.dumps(x))):
        assert torch.equal(net(copied), y)
    file = io.BytesIO()
    torch.save({"x": x, "indices": x.indices, "net": net}, file)
    file.seek(0)
    read = torch.load(file, weights_only=False)
    assert torch.equal(read["net"](read["x"]), y) and torch.equal(read["indices"], x.indices)
    torch.save(x.indices, file := io.BytesIO())
    file.seek(0)
    assert torch.equal(torch.load(file, weights_only=True), x.indices)
    assert torch.equal(copy.deepcopy(net)(x), y)


def test_cloned_indices_with_the_notes_of_others():
    scene = Scene()
    x, _ = scene.tensor(spconv)
    layers = [m.to(DEVICE) for m in (
        spconv.SubMConv3d(4, 4, 3, indice_key="a"), spconv.SubMConv3d(4, 4, 3, indice_key="a"),
        spconv.SparseConv3d(4, 4, 2, 2, indice_key="d"),
        spconv.SparseInverseConv3d(4, 4, 2, indice_key="d"))]
    y = z = x
    for layer in layers:
        y = layer(y)
        z = layer(spconv.SparseConvTensor(z.features, z.indices.clone(), z.spatial_shape,
                                          z.batch_size, indice_dict=z.indice_dict))
    assert torch.equal(y.features, z.features) and torch.equal(y.indices, z.indices)
    moved = spconv.SparseConvTensor(x.features, x.indices.flip(0), scene.shape, 2,
                                    indice_dict=layers[0](x).indice_dict)
    raises(ValueError, "another set", lambda: layers[1](moved))


def test_parameters_that_others_flatten():
    scene = Scene()
    make = lambda: nn.Sequential(spconv.SubMConv3d(4, 6, 3), spconv.SparseConv3d(6, 5, 2, 2)).to(
        DEVICE)
    net = spconv.contiguous_weights(make())
    vector = nn.utils.parameters_to_vector(net.parameters())
    same = make()
    nn.utils.vector_to_parameters(vector, same.parameters()) # parameters are views of one vector
    x = scene.tensor(spconv)[0]
    assert torch.equal(net(x).features, same(x).features)
    optimizer = torch.optim.LBFGS(net.parameters(), lr=0.1, max_iter=4)

    def loss():
        optimizer.zero_grad()
        value = (net(scene.tensor(spconv)[0]).features - 1).square().mean()
        value.backward()
        return value

    before = optimizer.step(loss)
    assert loss() < before
    nn.init.orthogonal_(net[0].weight)
    flat = net[0].weight.detach().reshape(6, -1)
    close(flat @ flat.t(), torch.eye(6), 1e-5)
    expected = net(x).features
    from torch.nn.utils import parametrizations, prune
    prune.l1_unstructured(net[0], "weight", 0.5)
    assert (net[0].weight == 0).sum() == net[0].weight.numel() // 2
    assert not torch.equal(net(x).features, expected)
    prune.remove(net[0], "weight")
    parametrizations.weight_norm(net[1])
    net(x).features.sum().backward()
    # A view that is not contiguous, and a norm's parameters in a matrix.
    wide = torch.randn(6, 3, 3, 3, 8, device=DEVICE)[..., ::2]
    other = make()
    other[0].weight, net[0].weight = nn.Parameter(wide), nn.Parameter(wide.contiguous())
    other[1].load_state_dict(make()[1].state_dict())
    assert torch.equal(other[0](x).features.detach() - other[0].bias,
                       net[0](x).features.detach() - net[0].bias) or \
        torch.allclose(other[0](x).features - other[0].bias, net[0](x).features - net[0].bias,
                       atol=1e-5)
    norm = spconv.BatchNorm1d(4).to(DEVICE)
    both = torch.rand(4, 2, device=DEVICE)
    expected = nn.functional.batch_norm(x.features, None, None, both[:, 0].contiguous(),
                                        both[:, 1].contiguous(), True)
    norm.weight, norm.bias = nn.Parameter(both[:, 0]), nn.Parameter(both[:, 1])
    close(norm(x.features), expected)


def test_second_derivatives():
    """Those of float64 are right; of other types they are refused. First ones of float64, too."""
    scene = Scene((5, 6, 4), rows=12)
    parts = [spconv.SubMConv3d(4, 3, 3), spconv.SparseConv3d(3, 3, 2, 2, indice_key="d"),
             spconv.SparseInverseConv3d(3, 2, 2, indice_key="d"), spconv.SubMConv3d(2, 3, 1),
             spconv.SparseMaxPool3d(2, 2), spconv.SparseGlobalAvgPool()]
    x, leaf = scene.tensor(spconv, torch.float64)
    for last in ([], [spconv.ToDense()], parts[4:5], parts[4:]):
        net = nn.Sequential(*parts[:4], *last).double().to(DEVICE)
        run = lambda f: (lambda y: y if isinstance(y, torch.Tensor) else y.features)(
            net(x.replace_feature(f)))
        assert torch.autograd.gradcheck(run, leaf)
    small, leaf2 = Scene((3, 3, 3), rows=3).tensor(spconv, torch.float64)
    assert torch.autograd.gradgradcheck(
        lambda f: parts[0](small.replace_feature(f)).features.square(), leaf2)
    close(net.float()(scene.tensor(spconv)[0]), net.double()(x), 1e-5)
    x, leaf = scene.tensor(spconv)
    for layer in (spconv.SubMConv3d(4, 4, 3), spconv.SparseMaxPool3d(2, 2),
                  spconv.SparseGlobalAvgPool(), spconv.ToDense(), spconv.BatchNorm1d(4)):
        layer = layer.to(DEVICE)
        y = layer(x.features if isinstance(layer, nn.BatchNorm1d) else x)
        y = y if isinstance(y, torch.Tensor) else y.features
        gradient, = torch.autograd.grad(y.square().sum(), leaf, create_graph=True)
        raises(NotImplementedError, "second derivatives", lambda: gradient.square().sum().backward())


def test_recorders_are_refused():
    scene = Scene()
    layer = spconv.SparseSequential(spconv.SubMConv3d(4, 4, 3))
    for made in (layer, layer[0]):
        raises(NotImplementedError, "torch.compile", lambda: torch.fx.symbolic_trace(made))

    class Whole(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = layer

        def forward(self, features, indices):
            return self.layer(spconv.SparseConvTensor(features, indices, scene.shape, 2)).features

    raises(NotImplementedError, "torch.compile", lambda: torch.fx.symbolic_trace(Whole()))
    if hasattr(torch.compiler, "is_exporting"):
        raises(NotImplementedError, "spira.pytorch.export", lambda: torch.export.export(
            Whole(), (scene.features.float(), scene.indices), strict=False))


# ---- rows, keys and tensors ---------------------------------------------------------------------

def test_compiled():
    """Without a graph break, where the sets are made before."""
    if tuple(map(int, torch.__version__.split(".")[:2])) < (2, 11):
        raise cases.Skip("PyTorch 2.5 breaks the graph at each layer")
    scene = Scene((40, 30, 20))
    net = cases.small_spunet(spconv).to(DEVICE).eval()
    (x, leaf), (x2, leaf2) = (scene.tensor(spconv) for _ in range(2))
    y = net(spconv.prepare(net, x))
    torch._dynamo.reset()
    z = torch.compile(net, fullgraph=True, backend="aot_eager")(spconv.prepare(net, x2))
    close(z, y, 1e-6)
    y.square().sum().backward(), z.square().sum().backward()
    close(leaf2.grad, leaf.grad, 1e-5)
    torch._dynamo.reset()
    x, _ = scene.tensor(spconv)
    z = torch.compile(net, backend="aot_eager")(x) # breaks the graph where sets are made
    close(z, y, 1e-6)


def test_rows_stay():
    scene = Scene()
    x, _ = scene.tensor(spconv)
    y = spconv.SubMConv3d(4, 5, 3).to(DEVICE)(x)
    assert torch.equal(y.indices.cpu(), scene.indices)
    rows = torch.randperm(len(scene.indices))
    other = spconv.SparseConvTensor(scene.features.float()[rows].to(DEVICE),
                                    scene.indices[rows].to(DEVICE), scene.shape, scene.batch)
    layer = spconv.SubMConv3d(4, 5, 3).to(DEVICE)
    assert torch.equal(layer(other).features, layer(x).features[rows.to(DEVICE)])


def test_sorted_rows_are_not_moved():
    scene = Scene()
    order = by_voxel(scene.indices[:, [0, 3, 2, 1]], torch.arange(len(scene.indices)))[1]
    assert torch.equal(order, spconv.sort_rows(scene.indices, scene.shape))
    indices = scene.indices[order].to(DEVICE)
    x = spconv.SparseConvTensor(scene.features.float()[order].to(DEVICE), indices, scene.shape,
                                scene.batch)
    assert x.coordinates().voxels.rows is None and x.ordered() is x.features


def test_keys_share():
    scene = Scene()
    x, _ = scene.tensor(spconv)
    x = spconv.SubMConv3d(4, 4, 3, indice_key="a").to(DEVICE)(x)
    known = x.find_indice_pair("a")
    assert known.is_subm and known.ksize == [3, 3, 3]
    assert torch.equal(known.indices.cpu(), scene.indices)
    y = spconv.SubMConv3d(4, 4, 3, indice_key="a").to(DEVICE)(x)
    assert y.find_indice_pair("a") is known and y.find_indice_pair("b") is None
    assert y.find_indice_pair(None) is None
    a, b = (spconv.SparseConv3d(4, 4, 3, 2, 1).to(DEVICE)(y) for _ in range(2))
    assert a.coordinates() is b.coordinates(), "layers without a key share sets, too"
    x2 = spconv.SparseConvTensor(y.features, y.indices, y.spatial_shape, y.batch_size)
    assert x2.coordinates() is y.coordinates(), "the same indices are the same set"


def test_keys_refuse():
    make = lambda *args, **options: spconv.SubMConv3d(4, 4, *args, **options).to(DEVICE)
    down = lambda *args, **options: spconv.SparseConv3d(4, 4, *args, **options).to(DEVICE)
    up = lambda *args, **options: spconv.SparseInverseConv3d(4, 4, *args, **options).to(DEVICE)
    x = lambda: make(3, indice_key="a")(Scene().tensor(spconv)[0])
    coarse = lambda: down(2, 2, indice_key="d")(x())
    raises(ValueError, "kernel_size", lambda: make(5, indice_key="a")(x()))
    raises(ValueError, "dilation", lambda: make(3, dilation=2, indice_key="a")(x()))
    raises(ValueError, "another set", lambda: make(3, indice_key="a")(coarse()))
    raises(ValueError, "indice_key", lambda: down(2, 2, indice_key="a")(x()))
    raises(ValueError, "indice_key", lambda: down(2, 2, indice_key="d")(coarse()))
    raises(ValueError, "'z'", lambda: up(2, indice_key="z")(coarse()))
    raises(ValueError, "submanifold", lambda: up(3, indice_key="a")(coarse()))
    raises(ValueError, "kernel_size", lambda: up(3, indice_key="d")(coarse()))
    raises(ValueError, "another set", lambda: up(2, indice_key="d")(down(2, 2)(coarse())))


def test_changed_indices():
    """As VoxelNeXt uses it: indices are scaled in place, joined, and assigned."""
    scene = Scene((9, 9, 9))
    layer, down = (m.to(DEVICE) for m in (spconv.SubMConv3d(4, 4, 3), spconv.SparseConv3d(
        4, 4, 3, 2, 1)))
    x = layer(scene.tensor(spconv)[0])
    y = down(x)
    y.indices[:, 1:] *= 2
    judge = spconv.SparseConvTensor(y.features, y.indices.clone(), [9] * 3, 2)
    y.spatial_shape = [9] * 3
    assert torch.equal(layer(y).features, layer(judge).features)
    more = torch.cat([x.features, y.features])
    z = x.replace_feature(more)
    z.indices = torch.cat([x.indices, y.indices + torch.tensor([2, 0, 0, 0], device=DEVICE,
                                                               dtype=torch.int32)])
    z.batch_size = 4
    assert layer(z).features.shape == more.shape
    z.indices[0] = z.indices[1]
    raises(ValueError, "duplicate", lambda: layer(z))


def test_changed_indices_in_inference_mode():
    scene = Scene((9, 9, 9))
    net = [m.to(DEVICE) for m in (spconv.SparseConv3d(4, 4, 3, 2, 1), spconv.SubMConv3d(4, 4, 3))]
    found = []
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            indices = scene.indices.to(DEVICE) + 0
            y = net[0](spconv.SparseConvTensor(scene.features.float().to(DEVICE), indices, [9] * 3,
                                               2))
            close(net[1](y).features, net[1](y).features, 0)
            y.indices[:, 1:] *= 2
            y.spatial_shape = [9] * 3
            found.append(net[1](y).features)
    assert torch.equal(*found)


def test_tensor():
    scene = Scene()
    x, _ = scene.tensor(spconv)
    assert x.spatial_size == 11 * 14 * 9 and not x.is_quantized and x.count is None
    y = x.replace_feature(torch.relu(x.features))
    assert y.indice_dict is x.indice_dict and y.indices is x.indices and y is not x
    raises(ValueError, "replace_feature", lambda: setattr(x, "features", y.features))
    some = x.select_by_index(torch.arange(3, device=DEVICE))
    assert some.features.shape == (3, 4) and some.indices.shape == (3, 4)
    assert x.shadow_copy().features is x.features


def test_sequential():
    scene = Scene()
    x, _ = scene.tensor(spconv)
    s = spconv.SparseSequential(OrderedDict(a=nn.ReLU()))
    assert list(s._modules) == ["a"]
    s = spconv.SparseSequential(spconv.SubMConv3d(4, 4, 3), b=nn.ReLU())
    s.add(nn.BatchNorm1d(4), "c")
    s.add(nn.Linear(4, 2))
    assert list(s._modules) == ["0", "b", "c", "3"] and len(s) == 4 and s[-1] is s[3]
    y = s.to(DEVICE)(x)
    assert y.features.shape == (len(scene.indices), 2)
    stays = s[0](x).features
    # The batch norm adds the rows in another order.
    close(y.features, s[3](s[2](s[1](stays))), 2e-5)
    assert isinstance(spconv.SparseSequential(nn.ReLU())(stays), torch.Tensor)
    dense = spconv.SparseSequential(spconv.SubMConv3d(4, 4, 3), spconv.ToDense(),
                                    nn.Conv3d(4, 2, 1)).to(DEVICE)(x)
    assert dense.shape == (2, 2, *scene.shape)
    assert spconv.modules.is_spconv_module(s) and not spconv.modules.is_spconv_module(nn.ReLU())


def test_order_of_rows_in_ordinary_modules():
    """A module that looks at the order of the rows gets that of the indices."""
    class First(nn.Module):
        def forward(self, features):
            return features * torch.arange(len(features), device=features.device)[:, None]
    scene = Scene()
    x, _ = scene.tensor(spconv)
    conv = spconv.SubMConv3d(4, 4, 3).to(DEVICE)
    y = spconv.SparseSequential(conv, nn.ReLU(), First(), nn.ReLU())(x)
    assert torch.equal(y.features, First()(torch.relu(conv(x).features)))


def test_no_voxels():
    scene = Scene()
    features = scene.features[:0].float().to(DEVICE).requires_grad_()
    for make in (partial(cases.second, widths=(8, 8, 12, 16, 16, 20)), cases.small_spunet):
        net = spconv.convert_batchnorm(make(spconv)).to(DEVICE)
        y = net(spconv.SparseConvTensor(features, scene.indices[:0].to(DEVICE), [41, 40, 40], 2))
        y = y if isinstance(y, torch.Tensor) else y.features
        assert y.shape[0] == 0
        y.sum().backward()
        assert all(torch.equal(p.grad, torch.zeros_like(p)) for p in net.parameters())
    x = spconv.SparseConvTensor(features, scene.indices[:0].to(DEVICE), [41, 40, 40], 2)
    conv = spconv.SubMConv3d(4, 4, 3).to(DEVICE)
    dense = conv(x).dense()
    assert dense.shape == (2, 4, 41, 40, 40)
    dense.sum().backward()
    assert features.grad.shape == (0, 4) and not conv.weight.grad.any()


def test_one_voxel():
    compare(lambda library: [library.SubMConv3d(4, 6, 3), library.SparseConv3d(6, 5, 3, 2, 1)],
            Scene((1, 1, 1), batch=1, rows=1))


def test_autocast():
    scene = Scene()
    x, leaf = scene.tensor(spconv)
    net = cases.small_spunet(spconv).to(DEVICE)
    x = spconv.SparseConvTensor(leaf, x.indices, [40] * 3, scene.batch)
    exact = net(x)
    with torch.autocast(DEVICE, torch.bfloat16):
        rounded = net(x)
    assert rounded.dtype == torch.bfloat16
    rounded.float().square().mean().backward()
    assert all(p.grad is not None and p.grad.dtype == torch.float32 for p in net.parameters())
    close(rounded, exact, 0.2)


# ---- bad input ----------------------------------------------------------------------------------

def test_bad_tensors():
    scene = Scene()
    f, i = scene.features.float().to(DEVICE), scene.indices.to(DEVICE)
    make = lambda features=f, indices=i, shape=scene.shape, batch=2, **options: \
        spconv.SparseConvTensor(features, indices, shape, batch, **options)
    conv = spconv.SubMConv3d(4, 4, 3).to(DEVICE)
    raises(ValueError, "features", lambda: make(features=f[:-1]))
    raises(ValueError, "features", lambda: make(features=f[0]))
    raises(TypeError, "features", lambda: make(features=i))
    raises(TypeError, "indices", lambda: make(indices=i.long()))
    raises(ValueError, "indices", lambda: make(indices=i[:, :3]))
    raises(ValueError, "spatial_shape", lambda: make(shape=[11, 0, 9]))
    raises(ValueError, "batch_size", lambda: make(batch=0))
    raises(ValueError, "features", lambda: conv(make().replace_feature(f[:-1])))
    raises(ValueError, "duplicate", lambda: conv(make(torch.cat([f, f]), torch.cat([i, i]))))
    raises(ValueError, "indices", lambda: conv(make(shape=[10, 14, 9])))
    raises(ValueError, "indices", lambda: conv(make(batch=1)))
    raises(ValueError, "indices", lambda: conv(make(indices=i - 1)))
    raises(TypeError, "SparseConvTensor", lambda: conv(f))
    raises(ValueError, "in_channels", lambda: spconv.SubMConv3d(5, 4, 3).to(DEVICE)(make()))
    raises(ValueError, "spatial_shape", lambda: spconv.SubMConv2d(4, 4, 3).to(DEVICE)(make()))
    raises(ValueError, "kernel_size", lambda: spconv.SparseConv3d(4, 4, 13).to(DEVICE)(make()))
    raises(ValueError, "float8", lambda: conv(make(features=f.to(torch.float8_e4m3fn))))
    raises(TypeError, "count", lambda: make(count=5))
    raises(ValueError, "meta", lambda: make(f.to("meta"), i.to("meta")))


def test_bad_layers():
    raises(ValueError, "groups: 3", lambda: spconv.SubMConv3d(4, 4, 3, groups=3))
    raises(ValueError, "groups: 2", lambda: spconv.SubMConv3d(4, 5, 3, groups=2))
    raises(ValueError, "kernel_size", lambda: spconv.SubMConv3d(4, 4, 2))
    raises(ValueError, "kernel_size", lambda: spconv.SubMConv3d(4, 4, (3, 3)))
    raises(ValueError, "kernel_size", lambda: spconv.SparseConv3d(4, 4, 17))
    raises(ValueError, "stride", lambda: spconv.SubMConv3d(4, 4, 3, stride=2))
    raises(ValueError, "padding", lambda: spconv.SparseConv3d(4, 4, 1, padding=1))


def test_bad_state_dicts():
    net = cases.small_spunet(spconv)
    state = net.state_dict()
    name = "enc.0.block0.conv1.weight"
    raises(RuntimeError, name, lambda: net.load_state_dict(
        {**state, name: state[name].permute(1, 2, 3, 4, 0)}))
    raises(RuntimeError, name, lambda: net.load_state_dict(
        {n: t for n, t in state.items() if n != name}))


def test_devices_do_not_mix():
    if DEVICE == "cpu":
        raise cases.Skip("needs a GPU")
    scene = Scene()
    f, i = scene.features.float(), scene.indices
    raises(ValueError, "indices", lambda: spconv.SparseConvTensor(f.cuda(), i, scene.shape, 2))
    x = spconv.SparseConvTensor(f.cuda(), i.cuda(), scene.shape, 2)
    raises(ValueError, "weight", lambda: spconv.SubMConv3d(4, 4, 3)(x))
    raises(ValueError, "features", lambda: spconv.SubMConv3d(4, 4, 3).cuda()(x.replace_feature(f)))


if __name__ == "__main__":
    cases.run(globals())
