# SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
# tests/torch/modules_capacity.py: capacity mode and prepare() of spira.pytorch.
#
#     python tests/torch/modules_capacity.py [part of a name]...
import contextlib
from functools import partial

import torch
from torch import nn
from torch.nn import functional

import modules_cases as cases
from modules_cases import DEVICE, Scene, close, raises

import spira.pytorch as spconv

backbone = partial(cases.second, widths=(8, 8, 12, 16, 16, 20))


@contextlib.contextmanager
def read_backs():
    """Counts what copies numbers of tensors to Python."""
    found, methods = [], ("tolist", "item", "__bool__", "__int__", "__float__", "__index__",
                          "nonzero", "numpy", "cpu")
    before = {name: getattr(torch.Tensor, name) for name in methods}

    def counting(name):
        def call(tensor, *args, **options):
            found.append(name)
            return before[name](tensor, *args, **options)
        return call

    try:
        for name in methods:
            setattr(torch.Tensor, name, counting(name))
        yield found
    finally:
        for name in methods:
            setattr(torch.Tensor, name, before[name])


def padded(scene, capacity, capacities=None):
    """The scene in capacity mode, with padding that must not matter; and the leaf."""
    rows = capacity - len(scene.indices)
    features = torch.cat([scene.features.float(), torch.full((rows, 4), torch.nan)])
    indices = torch.cat([scene.indices, torch.full((rows, 4), 2**31 - 1, dtype=torch.int32)])
    leaf = features.to(DEVICE).requires_grad_()
    count = torch.tensor([len(scene.indices)], dtype=torch.int32, device=DEVICE)
    return spconv.SparseConvTensor(leaf, indices.to(DEVICE), scene.shape, scene.batch,
                                   count=count, capacities=capacities), leaf


def step(net, x, labels):
    """A loss of labelled rows; the gradients are left in the parameters."""
    net.zero_grad(set_to_none=True)
    y = net(x)
    y = y if isinstance(y, torch.Tensor) else y.features
    loss = functional.cross_entropy(y.float(), labels, ignore_index=-1)
    loss.backward()
    return y, loss


def compare_steps(make, scene, bound=2e-5, capacities=None, labels=None):
    """A training step in normal mode and in capacity mode."""
    net = cases.randomize_norms(make(spconv)).to(DEVICE)
    other = spconv.convert_batchnorm(make(spconv).to(DEVICE))
    other.load_state_dict(net.state_dict())
    x, leaf = scene.tensor(spconv)
    y, loss = step(net, x, labels)
    rows = len(scene.indices)
    px, pleaf = padded(scene, rows + 77, capacities)
    more = torch.full((77,), -1, device=DEVICE)
    with read_backs() as found:
        py, ploss = step(other, px, torch.cat([labels, more]))
    assert not found, f"read back: {found}"
    px.check()
    close(py[:rows], y, bound, "result")
    close(ploss, loss, bound, "loss")
    close(pleaf.grad[:rows], leaf.grad, 20 * bound, "gradient of the features")
    for name, p in other.named_parameters():
        assert p.grad.isfinite().all(), f"gradient of {name} is not finite"
    cases.close_parameters(other, net, 20 * bound, bound)


def test_training_step():
    scene = Scene((40, 30, 20), rows=500)
    labels = torch.randint(0, 5, (len(scene.indices),), device=DEVICE)
    sizes = spconv.capacities(cases.small_spunet(spconv).to(DEVICE), scene.tensor(spconv)[0], 1.1)
    assert len(sizes) == 2
    for capacities in (None, sizes):
        compare_steps(cases.small_spunet, scene, capacities=capacities, labels=labels)


def test_inference():
    scene = Scene((41, 32, 24), rows=300)
    net = cases.randomize_norms(backbone(spconv)).to(DEVICE).eval()
    spconv.convert_batchnorm(net)
    y = net(scene.tensor(spconv)[0])
    with read_backs() as found:
        py = net(padded(scene, len(scene.indices) + 5)[0])
        dense = py.dense()
    assert not found and py.count is not None
    assert int(py.count) == len(y.indices) <= py.features.shape[0]
    close(dense, y.dense(), 2e-5)


def test_full_and_empty():
    net = spconv.convert_batchnorm(backbone(spconv)).to(DEVICE).eval()
    scene = Scene((41, 32, 24), rows=300)
    for rows in (len(scene.indices), 1, 0):
        count = torch.tensor([rows], dtype=torch.int32, device=DEVICE)
        x, _ = scene.tensor(spconv)
        y = net(spconv.SparseConvTensor(x.features, x.indices, scene.shape, 2, count=count))
        z = net(spconv.SparseConvTensor(x.features[:rows], x.indices[:rows], scene.shape, 2))
        close(y.dense(), z.dense(), 2e-5, f"{rows} rows")


def test_a_capacity_that_is_passed():
    scene = Scene((41, 32, 24), rows=300)
    net = spconv.convert_batchnorm(backbone(spconv)).to(DEVICE)
    x, _ = padded(scene, len(scene.indices) + 5, {"spconv2": 17})
    y = net(x)
    raises(ValueError, "capacity", x.check)
    assert y.features.isfinite().all()


def test_ordered_rows():
    scene = Scene((41, 32, 24), rows=300)
    shuffled, _ = padded(scene, len(scene.indices) + 5)
    order = spconv.sort_rows(scene.indices, scene.shape)
    scene.indices, scene.features = scene.indices[order], scene.features[order]
    net = spconv.convert_batchnorm(backbone(spconv)).to(DEVICE).eval()
    f, i, count = spconv.pad(scene.features.float(), scene.indices, len(scene.indices) + 5)
    x = spconv.SparseConvTensor(f.to(DEVICE), i.to(DEVICE), scene.shape, 2,
                                count=count.to(DEVICE), ordered=True)
    close(net(x).dense(), net(shuffled).dense(), 1e-6)
    assert x.ordered() is x.features
    x.check()
    i[:2] = i[:2].flip(0)
    x = spconv.SparseConvTensor(f.to(DEVICE), i.to(DEVICE), scene.shape, 2,
                                count=count.to(DEVICE), ordered=True)
    net(x)
    raises(ValueError, "ordered", x.check)


def test_voxels_at_fault():
    scene = Scene()
    scene.indices[7] = scene.indices[8]
    x, _ = padded(scene, len(scene.indices) + 3)
    spconv.SubMConv3d(4, 4, 3).to(DEVICE)(x)
    raises(ValueError, "duplicate", x.check)


def test_batch_norm():
    scene = Scene(channels=4)
    for channels in (1, 4, 6, 33, 300):
        for rows in (1, 3, 65, 1000):
            compare_norm(rows, channels)


def compare_norm(rows, channels):
    bound = {1: 1e-2, 3: 1e-3}.get(rows, 1e-4) # of one row there is nothing but rounding
    x = torch.randn(rows, channels, device=DEVICE) * 3 + 5
    more = torch.full((9, channels), torch.nan, device=DEVICE)
    px = torch.cat([x, more]).requires_grad_()
    x.requires_grad_()
    norm = cases.randomize_norms(nn.Sequential(nn.BatchNorm1d(channels)).to(DEVICE))
    counted = spconv.convert_batchnorm(nn.Sequential(nn.BatchNorm1d(channels)).to(DEVICE))
    counted.load_state_dict(norm.state_dict())
    count = torch.tensor([rows], dtype=torch.int32, device=DEVICE)
    py = counted[0](px, count)
    assert torch.equal(py[rows:], torch.zeros_like(py[rows:]))
    if rows == 1: # PyTorch refuses
        close(py[:1], norm[0].bias[None].expand(1, -1), bound)
        return
    y = norm(x)
    close(py[:rows], y, bound, "result")
    grad = torch.randn_like(y)
    y.backward(grad)
    py.backward(torch.cat([grad, more]))
    close(px.grad[:rows], x.grad, bound, "gradient")
    assert torch.equal(px.grad[rows:], torch.zeros_like(px.grad[rows:]))
    cases.close_parameters(counted, norm, bound, bound)


def test_half_batch_norm():
    for kind in (torch.float16, torch.bfloat16):
        x = (torch.randn(500, 24, device=DEVICE) + 3).to(kind)
        count = torch.tensor([400], dtype=torch.int32, device=DEVICE)
        y = spconv.BatchNorm1d(24).to(DEVICE)(x, count)
        judge = nn.BatchNorm1d(24).to(DEVICE)(x[:400].float())
        assert y.dtype == kind
        close(y[:400], judge, 2e-3 if kind == torch.float16 else 2e-2)


def test_batch_norms_that_do_not_count():
    scene = Scene()
    x, _ = padded(scene, len(scene.indices) + 3)
    raises(TypeError, "convert_batchnorm", lambda: spconv.SparseSequential(
        nn.BatchNorm1d(4).to(DEVICE))(x))
    norm = spconv.BatchNorm1d(4).to(DEVICE)
    raises(ValueError, "count", lambda: norm(x.features + 1))
    norm(x.features), norm(x.features + 1, x.count)
    raises(ValueError, "momentum", lambda: spconv.BatchNorm1d(4, momentum=None).to(DEVICE)(
        x.features))
    raises(ValueError, "select_by_index", lambda: x.select_by_index(slice(3)))
    assert type(spconv.convert_batchnorm(nn.SyncBatchNorm(4))) is nn.SyncBatchNorm


# ---- prepare ------------------------------------------------------------------------------------

def test_prepare_reads_back_once():
    for make, shape in ((cases.small_spunet, (40, 30, 20)), (backbone, (41, 32, 24))):
        scene = Scene(shape)
        net = cases.randomize_norms(make(spconv)).to(DEVICE)
        net[0].train(False) if isinstance(net, nn.Sequential) else net.conv_input.train(False)
        modes = [m.training for m in net.modules()]
        spconv.prepare(net, scene.tensor(spconv)[0]) # learns the layers
        assert modes == [m.training for m in net.modules()]
        x, leaf = scene.tensor(spconv)
        with read_backs() as found:
            y = net(spconv.prepare(net, x))
        assert found == ["tolist"], f"read back: {found}"
        net2 = make(spconv).to(DEVICE)
        net2.load_state_dict(net.state_dict())
        net.eval(), net2.eval()
        y, z = net(spconv.prepare(net, scene.tensor(spconv)[0])), net2(scene.tensor(spconv)[0])
        if not isinstance(y, torch.Tensor):
            assert torch.equal(y.indices, z.indices) and y.spatial_shape == z.spatial_shape
            y, z = y.features, z.features
        assert torch.equal(y, z)


def test_prepare_of_bad_voxels():
    scene = Scene((40, 30, 20))
    scene.indices[7] = scene.indices[8]
    net = cases.small_spunet(spconv).to(DEVICE)
    raises(ValueError, "indices", lambda: spconv.prepare(net, scene.tensor(spconv)[0]))


def test_pad():
    scene = Scene()
    f, i, count = spconv.pad(scene.features.float(), scene.indices, 1000)
    assert f.shape == (1000, 4) and i.shape == (1000, 4) and int(count) == len(scene.indices)
    raises(ValueError, "capacity", lambda: spconv.pad(scene.features, scene.indices, 3))


# ---- CUDA graphs --------------------------------------------------------------------------------

def test_a_training_step_in_a_graph():
    if DEVICE == "cpu":
        raise cases.Skip("needs a GPU")
    scenes = [Scene((40, 30, 20), rows=n, seed=n) for n in (300, 500, 400)]
    sizes = {n: 4000 for n in ("spconv1", "spconv2")}
    nets = [spconv.convert_batchnorm(cases.small_spunet(spconv).cuda()) for _ in range(2)]
    nets[1].load_state_dict(nets[0].state_dict())
    data = []
    for s in scenes:
        f, i, count = spconv.pad(s.features.float().cuda(), s.indices.cuda(), 600)
        labels = torch.full((600,), -1, device="cuda")
        labels[:len(s.indices)] = torch.randint(0, 5, (len(s.indices),), device="cuda")
        data.append((f, i, count, labels))
    static = [t.clone() for t in data[0]]

    def train(net, optimizer, f, i, count, labels):
        optimizer.zero_grad(set_to_none=True)
        x = spconv.SparseConvTensor(f, i, [40, 30, 20], 2, count=count, capacities=sizes)
        with torch.autocast("cuda", torch.bfloat16):
            y = net(x)
        loss = functional.cross_entropy(y.float(), labels, ignore_index=-1)
        loss.backward()
        optimizer.step()
        return x, loss.detach()

    optimizers = [torch.optim.SGD(net.parameters(), 0.1, momentum=0.9) for net in nets]
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            train(nets[0], optimizers[0], *static)
    torch.cuda.synchronize()
    for _ in range(3):
        train(nets[1], optimizers[1], *data[0])
    alive = spconv.SparseConvTensor(static[0], static[1], [40, 30, 20], 2, count=static[2])
    alive.coordinates() # of other indices than those of later replays
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        x, static_loss = train(nets[0], optimizers[0], *static)
    for turn in (0, 1, 2, 1):
        for a, b in zip(static, data[turn]):
            a.copy_(b)
        graph.replay()
        x.check() # of this replay
        _, loss = train(nets[1], optimizers[1], *data[turn])
        close(static_loss, loss, 1e-5, f"loss of scene {turn}")
    for (name, p), q in zip(nets[0].named_parameters(), nets[1].parameters()):
        close(p, q, 1e-5, name)
    static[1][0] = static[1][1]
    graph.replay()
    raises(ValueError, "duplicate", x.check)


class Mixed(nn.Module):
    """What SpUNet lacks: biases, groups, weights in PyTorch's order, and a layer of one reader."""

    def __init__(self):
        super().__init__()
        self.first = spconv.SubMConv3d(4, 96, 3, bias=True, indice_key="a")
        self.grouped = spconv.SubMConv3d(96, 96, 3, bias=True, groups=4, indice_key="a")
        self.point = spconv.SubMConv3d(96, 160, 1, bias=True)
        self.down = spconv.SparseConv3d(160, 64, 2, stride=2, bias=True, indice_key="b")
        self.up = spconv.SparseInverseConv3d(64, 5, 2, indice_key="b", bias=True)
        spconv.contiguous_weights(self.point)

    def forward(self, x):
        for layer in (self.first, self.grouped, self.point, self.down, self.up):
            x = layer(x)
        return x.features


def wide_spunet():
    """Channels as Hopper's kernels take them."""
    from spunet import SpUNet
    return SpUNet(4, 5, base_channels=32, channels=(32, 96, 128, 96), blocks=(1, 2, 1, 1),
                  library=spconv)


def test_gradients_of_a_graph():
    """In a graph a layer's two gradients run side by side: each replay has the bits of ordinary
    code, whatever the backward pass makes again."""
    if DEVICE == "cpu":
        raise cases.Skip("needs a GPU")
    shape, capacity = (96, 80, 64), 22000
    scene = Scene(shape, rows=20000)
    f, i, count = spconv.pad(scene.features.float().cuda(), scene.indices.cuda(), capacity)
    f.requires_grad_()
    slope = torch.randn(capacity, 5, device="cuda")
    for make, recompute, kind in ((wide_spunet, 2, torch.float16), (wide_spunet, 0, torch.bfloat16),
                                  (Mixed, 2, torch.float16), (Mixed, 2, torch.float32)):
        net = spconv.convert_batchnorm(make().cuda())
        leaves = [f, *net.parameters()]

        def gradients():
            for t in leaves:
                t.grad = None
            x = spconv.SparseConvTensor(f, i, list(shape), 2, count=count)
            with torch.autocast("cuda", kind, enabled=kind != torch.float32):
                y = net(x)
            (y.float() * slope).sum().backward()
            return [t.grad for t in leaves]

        with cases.recompute(recompute):
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                expected = [g.clone() for g in gradients()]
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                found = gradients()
        names = ["features", *(name for name, _ in net.named_parameters())]
        for _ in range(5):
            for g in found:
                g.fill_(torch.nan)
            graph.replay()
            for name, g, e in zip(names, found, expected):
                assert torch.equal(g, e), f"{make.__name__}, {kind}: {name}"


def test_an_error_in_a_graph():
    """While two streams are captured, an error is the one that is raised; later calls work."""
    if DEVICE == "cpu":
        raise cases.Skip("needs a GPU")
    scene = Scene((40, 30, 20), rows=500)
    f, i, count = spconv.pad(scene.features.float().cuda(), scene.indices.cuda(), 600)
    f.requires_grad_()
    net = Mixed().cuda()
    total = torch.cuda.get_device_properties(0).total_memory

    def step(limited):
        y = net(spconv.SparseConvTensor(f, i, [40, 30, 20], 2, count=count))
        if limited: # the second stream has no memory of its own yet
            torch.cuda.set_per_process_memory_fraction(torch.cuda.memory_reserved() / total)
        f.grad = None
        y.sum().backward()
        return f.grad

    def capture(limited):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            found = step(limited)
        return graph, found

    step(False)
    try:
        raises(torch.OutOfMemoryError, "memory", lambda: capture(True))
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    graph, found = capture(False)
    graph.replay()
    assert torch.equal(found, step(False))


if __name__ == "__main__":
    cases.run(globals())
