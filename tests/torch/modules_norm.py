# SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
# tests/torch/modules_norm.py: batch norms with what stands behind them, and rows that the backward
# pass makes again.
#
#     python tests/torch/modules_norm.py [part of a name]...
import contextlib
import copy
import sys

import torch
from torch import nn

import modules_cases as cases
from modules_cases import DEVICE, Scene, close, raises

import spira
import spira.pytorch as spconv

HALVES = (torch.float16, torch.bfloat16)


def norms(channels, converted):
    """A norm, and the same one for the judge in double."""
    norm = cases.randomize_norms(nn.Sequential(nn.BatchNorm1d(channels, eps=1e-3)))[0]
    judge = nn.BatchNorm1d(channels, eps=1e-3).double()
    judge.load_state_dict(norm.state_dict())
    norm = spconv.convert_batchnorm(nn.Sequential(norm))[0] if converted else norm
    return norm.to(DEVICE), judge


def compare(channels, residual, converted, padding=0, kind=torch.float32, training=True):
    """norm_relu and its gradients, against PyTorch in double."""
    scene = Scene(channels=channels)
    rows = len(scene.indices)
    norm, judge = norms(channels, converted)
    norm.train(training), judge.train(training)
    more = torch.full((padding, channels), torch.nan, dtype=torch.float64)
    values = [scene.features * 2 + 1, torch.randn_like(scene.features)][:2 if residual else 1]
    values = [v.to(kind).double() for v in values]
    leaves = [torch.cat([v, p]).to(DEVICE, kind).requires_grad_()
              for v, p in zip(values, (more, torch.zeros_like(more)))]
    doubles = [v.clone().requires_grad_() for v in values]
    indices = torch.cat([scene.indices, scene.indices[:1].expand(padding, -1)]).to(DEVICE)
    count = torch.tensor([rows], dtype=torch.int32, device=DEVICE) if padding else None
    xs = [spconv.SparseConvTensor(leaves[0], indices, scene.shape, 2, count=count)]
    xs += [xs[0].replace_feature(t) for t in leaves[1:]]
    y = spconv.norm_relu(norm, *xs).features
    ry = torch.relu(judge(doubles[0]) + (doubles[1] if residual else 0))
    bound = {torch.float32: 5e-5, torch.float16: 2e-3, torch.bfloat16: 1e-2}[kind]
    close(y[:rows], ry, bound, "result")
    assert not training or not y[rows:].any(), "rows behind the count"
    grad = torch.randn_like(ry)
    with torch.no_grad(): # where rounding decides on the sign, there is nothing to compare
        grad[ry.abs() < 10 * bound] = 0
        grad = grad.to(kind).double()
    behind = torch.full_like(more, 7 if training else 0) # padding: not read in training
    y.backward(torch.cat([grad, behind]).to(y))
    ry.backward(grad)
    for leaf, double in zip(leaves, doubles):
        close(leaf.grad[:rows], double.grad, bound, "gradient")
        assert not training or not leaf.grad[rows:].any(), "gradient behind the count"
    assert all(p.grad.dtype == torch.float32 for p in norm.parameters())
    cases.close_parameters(norm, judge, 2 * bound, bound)


def test_norm_relu():
    for residual in (False, True):
        for channels in (1, 6, 8, 33, 300):
            compare(channels, residual, False)
            compare(channels, residual, True)
            compare(channels, residual, True, padding=9)
        for kind in HALVES:
            compare(24, residual, True, kind=kind)
            compare(24, residual, True, padding=9, kind=kind)
    for padding in (0, 9):
        compare(8, True, True, padding=padding, training=False)


def test_norm_relu_of_other_norms():
    scene = Scene()
    x, _ = scene.tensor(spconv)
    norm = nn.LayerNorm(4).to(DEVICE)
    y = spconv.norm_relu(norm, x, x)
    assert torch.equal(y.features, torch.relu(norm(x.features) + x.features))
    for other in (nn.BatchNorm1d(4, momentum=None), nn.BatchNorm1d(4, affine=False),
                  nn.BatchNorm1d(4, track_running_stats=False)):
        other = other.to(DEVICE)
        expected = torch.relu(other(x.features))
        close(spconv.norm_relu(other, x).features, expected)
    for channels in (0, 2 ** 20 + 1):
        rows = torch.zeros(2, channels, device=DEVICE)
        raises(ValueError, "channels", lambda: torch.ops.spira.norm(rows, *[None] * 7, 0.1, 1e-3,
                                                                    True, False))
    coarse = spconv.SparseConv3d(4, 4, 2, 2).to(DEVICE)(x)
    raises(ValueError, "different voxels", lambda: spconv.norm_relu(norm, x, coarse))
    one = spconv.SparseConvTensor(x.features[:1], x.indices[:1], x.spatial_shape, 2)
    raises(ValueError, "more than 1 value", lambda: spconv.norm_relu(nn.BatchNorm1d(4).to(DEVICE),
                                                                     one))


def test_sequences_use_it_and_hooks_are_called():
    scene = Scene()
    layers = lambda: [spconv.SubMConv3d(4, 8, 3, bias=False), nn.BatchNorm1d(8), nn.ReLU()]
    one, other = (spconv.SparseSequential(*layers()).to(DEVICE) for _ in range(2))
    other.load_state_dict(one.state_dict())
    called = []
    other[1].register_forward_hook(lambda *_: called.append("norm"))
    other[2].register_forward_hook(lambda *_: called.append("relu"))
    (x, leaf), (x2, leaf2) = (scene.tensor(spconv) for _ in range(2))
    y, z = one(x), other(x2)
    assert called == ["norm", "relu"]
    assert "norm_function" in y.ordered().grad_fn.name()
    assert "norm_function" not in z.ordered().grad_fn.name()
    y, z = y.features, z.features
    close(y, z)
    grad = torch.randn_like(y)
    y.backward(grad), z.backward(grad)
    close(leaf.grad, leaf2.grad, 1e-4)
    cases.close_parameters(one, other, 1e-4, 2e-5)


def test_eval_mode():
    """Without gradients one operator, with them PyTorch's modules; both compute the same."""
    scene = Scene(channels=24)
    rows = len(scene.indices)
    for converted, padding, kind, bound in ((False, 0, torch.float32, 1e-5),
                                            (True, 0, torch.float16, 2e-3),
                                            (True, 9, torch.float32, 1e-5),
                                            (True, 9, torch.bfloat16, 1e-2)):
        norm, judge = norms(24, converted)
        norm.eval(), judge.eval()
        f, i, count = spconv.pad((scene.features * 2 + 1).to(kind), scene.indices, rows + padding)
        x = spconv.SparseConvTensor(f.to(DEVICE), i.to(DEVICE), scene.shape, 2,
                                    count=count.to(DEVICE) if padding else None)
        added = x.replace_feature(torch.randn_like(x.features))
        wanted = judge(x.features[:rows].double().cpu())
        with_sum = wanted + added.features[:rows].double().cpu()
        calls = ((lambda: spconv.norm_relu(norm, x), wanted.relu()),
                 (lambda: spconv.norm_relu(norm, x, added), with_sum.relu()),
                 (lambda: spconv.SparseSequential(norm, nn.ReLU())(x), wanted.relu()),
                 (lambda: spconv.SparseSequential(norm)(x), wanted))
        for call, exact in calls:
            followed = call().features
            assert followed.grad_fn is not None
            with torch.no_grad():
                y = call().features
            close(y[:rows], exact, bound), close(followed[:rows], exact, bound)
            assert not y[rows:].any(), "rows behind the count"


def test_eval_mode_is_watched():
    """Hooks, those of all modules too, and modes that see each operator get PyTorch's modules."""
    from torch.utils._python_dispatch import TorchDispatchMode
    seen = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    scene = Scene()
    norm = nn.BatchNorm1d(4).to(DEVICE).eval()
    x, _ = scene.tensor(spconv)
    with torch.no_grad():
        fused = spconv.norm_relu(norm, x).features
        with Watch():
            close(spconv.norm_relu(norm, x).features, fused)
        assert any("batch_norm" in name for name in seen) and "spira.norm_eval.default" not in seen
        called = []
        hook = nn.modules.module.register_module_forward_hook(lambda m, *_: called.append(m))
        try:
            close(spconv.norm_relu(norm, x).features, fused)
            close(spconv.SparseSequential(norm)(x).features, x.features)
        finally:
            hook.remove()
        assert called.count(norm) == 2
        assert spconv.norm_relu(norm, x).features.equal(fused) and called.count(norm) == 2
        norm.running_mean.add_(1) # read anew by each call
        close(spconv.norm_relu(norm, x).features, torch.relu(norm(x.features)))


class Around(nn.Module):
    """Each kind of layer with a norm behind it. apart: module by module."""

    def __init__(self):
        super().__init__()

        def stack(conv, relu=True):
            norm = nn.BatchNorm1d(conv.out_channels, eps=1e-3)
            return spconv.SparseSequential(conv, norm, *[nn.ReLU()] * relu)

        self.first = stack(spconv.SubMConv3d(8, 24, 3, indice_key="a"))
        self.down = stack(spconv.SparseConv3d(24, 32, 2, 2, bias=False, indice_key="d"))
        self.point = stack(spconv.SubMConv3d(32, 32, 1), relu=False)
        self.up = stack(spconv.SparseInverseConv3d(32, 24, 2, indice_key="d"))
        self.groups = stack(spconv.SubMConv3d(24, 24, 3, groups=2, indice_key="a"))
        self.conv, self.norm = spconv.SubMConv3d(24, 24, 3, indice_key="a"), nn.BatchNorm1d(24)

    def forward(self, x, apart=False):
        for part in (self.first, self.down, self.point, self.up, self.groups):
            x = part(x) if not apart else part[0](x)
            if apart:
                x = x.replace_feature(part[1](x.features))
                x = spconv.SparseSequential(*list(part)[2:])(x)
        if not apart:
            return spconv.conv_norm_relu(self.conv, self.norm, x, x)
        y = self.conv(x)
        return y.replace_feature(torch.relu(self.norm(y.features) + x.features))


@contextlib.contextmanager
def counted_calls():
    """How often a convolution applied a norm."""
    calls, op = [], spira.layers.conv_norm_eval_op
    spira.layers.conv_norm_eval_op = lambda *arguments: calls.append(1) or op(*arguments)
    try:
        yield calls
    finally:
        spira.layers.conv_norm_eval_op = op


def test_convolutions_apply_norms():
    """In eval mode without gradients: each kind of layer, as module by module; what changes in place
    between two calls counts; with gradients or hooks the modules are called."""
    scene = Scene(channels=8)
    rows = len(scene.indices)
    for padding, kind, bound in ((0, torch.float32, 2e-5), (0, torch.float16, 5e-3),
                                 (9, torch.float32, 2e-5), (9, torch.bfloat16, 4e-2)):
        net = cases.randomize_norms(Around()).to(DEVICE).eval()
        net = spconv.convert_batchnorm(net) if padding else net
        f, i, count = spconv.pad(scene.features.to(kind), scene.indices, rows + padding)
        x = spconv.SparseConvTensor(f.to(DEVICE), i.to(DEVICE), scene.shape, 2,
                                    count=count.to(DEVICE) if padding else None)
        plain = 0 if padding or kind in HALVES else 1 # PyTorch multiplies the point's rows
        with torch.no_grad(), counted_calls() as calls:
            y = net(x).features
            assert len(calls) == 6 - plain
            close(y, net(x, apart=True).features, bound, "modules")
            assert not y[rows:].any(), "rows behind the count"
            net.conv.weight.mul_(-1), net.norm.running_var.add_(0.5), net.norm.bias.add_(1)
            assert not net(x).features.equal(y)
            close(net(x).features, net(x, apart=True).features, bound, "changed")
            calls.clear()
            hook = net.first[0].register_forward_hook(lambda *_: None)
            close(net(x).features, net(x, apart=True).features, bound, "hook")
            hook.remove()
            assert len(calls) == 5 - plain
            calls.clear()
        with counted_calls() as calls:
            followed = net(x).features
            assert followed.requires_grad and not calls
            close(followed[:rows], net(x, apart=True).features[:rows], bound, "gradients")
            net.train()(x)
            assert not calls


# ---- a convolution and its norm as one operator in training -------------------------------------

class Net(nn.Module):
    """Around, with a block whose shortcut ends in a norm and a join of two norms behind it."""

    def __init__(self):
        super().__init__()
        self.around = Around()
        self.proj = spconv.SparseSequential(spconv.SubMConv3d(24, 16, 1, bias=False),
                                            nn.BatchNorm1d(16))
        self.convs = nn.ModuleList(spconv.SubMConv3d(n, 16, 3, bias=False, indice_key="a")
                                   for n in (24, 16, 32))
        self.norms = nn.ModuleList(nn.BatchNorm1d(16, momentum=0.3) for _ in range(3))
        self.join = spconv.JoinTable()

    def forward(self, x):
        x = self.around(x)
        y = spconv.conv_norm_relu(self.convs[0], self.norms[0], x)
        z = spconv.conv_norm_relu(self.convs[1], self.norms[1], y, self.proj(x))
        return spconv.conv_norm_relu(self.convs[2], self.norms[2], self.join([z, y])).features


@contextlib.contextmanager
def fused_calls(apart=None):
    """Counts the calls of the operator. apart: a network whose convolutions get a hook that does
    nothing, which keeps the operator from being used."""
    calls, op = [], spira.layers.conv_norm_op
    spira.layers.conv_norm_op = lambda *arguments: calls.append(1) or op(*arguments)
    hooks = [m.register_forward_hook(lambda *_: None) for m in (apart.modules() if apart else [])
             if isinstance(m, spconv.SparseConvolution)]
    try:
        yield calls
    finally:
        spira.layers.conv_norm_op = op
        for hook in hooks:
            hook.remove()


def trained(net, scene, padding, kind, run=None):
    """What a step of a network leaves: result, gradients and buffers."""
    net.zero_grad(set_to_none=True)
    f, i, count = spconv.pad(scene.features.float(), scene.indices, len(scene.indices) + padding)
    x = spconv.SparseConvTensor(f.to(DEVICE), i.to(DEVICE), scene.shape, scene.batch,
                                count=count.to(DEVICE) if padding else None)
    leaf = x.features.detach().requires_grad_()
    x = x.replace_feature(leaf)
    with torch.autocast(DEVICE, kind, enabled=kind is not None):
        y = (run or net)(x)
    y.float().square().sum().backward()
    return [y.detach(), leaf.grad, *(p.grad for p in net.parameters()),
            *(b.clone() for b in net.buffers())]


def same_bits(a, b):
    assert len(a) == len(b)
    for n, (one, other) in enumerate(zip(a, b)):
        assert (one is None) == (other is None), n
        assert one is None or torch.equal(one, other), n


def pair(padding=0):
    """Two copies of a network."""
    net = cases.randomize_norms(Net())
    net = spconv.convert_batchnorm(net).to(DEVICE)
    return net, copy.deepcopy(net)


def test_conv_norm_is_both():
    """To the bit, of all kinds of layers, types and recompute levels."""
    scene = Scene((40, 30, 20), rows=300, channels=8)
    for kind in (None, torch.bfloat16):
        for padding in (0, 33):
            whole = 10 if padding or kind else 8 # PyTorch multiplies two points' rows
            for again in range(3):
                one, other = pair()
                with cases.recompute(again):
                    with fused_calls() as calls:
                        made = trained(one, scene, padding, kind)
                        assert len(calls) == whole, f"{len(calls)} of {whole}"
                    with fused_calls(other) as calls:
                        same_bits(made, trained(other, scene, padding, kind))
                        assert not calls


def test_conv_norm_of_frozen_parameters():
    scene = Scene((40, 30, 20), rows=300, channels=8)
    for frozen in ("convs", "norms", "bias", "weight", "around", "around.conv.weight"):
        one, other = pair()
        for net in (one, other):
            for name, p in net.named_parameters():
                p.requires_grad_(frozen not in name)
        with fused_calls() as calls:
            made = trained(one, scene, 0, torch.bfloat16)
            assert len(calls) == 10
        with fused_calls(other):
            same_bits(made, trained(other, scene, 0, torch.bfloat16))
        assert any(g is None for g in made)
    # Norms alone: their input has no gradient.
    one, other = pair()
    found = []
    for net, apart in ((one, False), (other, True)):
        net.convs.requires_grad_(False)
        x, _ = Scene(channels=24).tensor(spconv)
        with fused_calls(net if apart else None) as calls:
            spconv.conv_norm_relu(net.convs[0], net.norms[0], x.replace_feature(
                x.features.detach())).features.square().sum().backward()
            assert len(calls) == (not apart)
        found.append([p.grad for p in net.norms[0].parameters()])
    same_bits(*found)


def test_conv_norm_and_autograds_tools():
    """Checkpoints, hooks of saved tensors, a graph that is kept, changed tensors, anomaly mode, and
    second derivatives."""
    from torch.autograd.graph import save_on_cpu
    from torch.utils.checkpoint import checkpoint
    scene = Scene((40, 30, 20), rows=300, channels=8)
    ways = [lambda net, x: net(x)]
    for reentrant in (False, True):
        ways.append(lambda net, x, way=reentrant: checkpoint(
            lambda f: net(x.replace_feature(f)), x.features, use_reentrant=way))

    def on_cpu(net, x):
        with save_on_cpu():
            return net(x)

    def watched(net, x):
        with torch.autograd.set_detect_anomaly(True):
            return net(x)

    first = None
    for way in [*ways, on_cpu, watched]:
        torch.manual_seed(0)
        net, _ = pair()
        with fused_calls() as calls:
            made = trained(net, scene, 0, torch.bfloat16, lambda x: way(net, x))
            assert len(calls) >= 10
        first = first or made
        same_bits(first[:len(first) - len(list(net.buffers()))],
                  made[:len(made) - len(list(net.buffers()))]) # checkpoints run norms twice
    x, leaf = Scene(channels=24).tensor(spconv)
    conv, norm = net.convs[0], net.norms[0]
    y = spconv.conv_norm_relu(conv, norm, x).features
    assert "conv_norm_function" in y.grad_fn.name() or y.grad_fn.next_functions
    loss = y.square().sum()
    a, = torch.autograd.grad(loss, leaf, retain_graph=True)
    b, = torch.autograd.grad(loss, leaf, create_graph=True)
    assert torch.equal(a, b)
    raises(NotImplementedError, "second derivatives", lambda: b.square().sum().backward())
    y = spconv.conv_norm_relu(conv, norm, x).features
    before = norm.running_mean._version
    with torch.no_grad():
        conv.weight.mul_(2)
    raises(RuntimeError, "inplace operation", lambda: y.sum().backward())
    spconv.conv_norm_relu(conv, norm, x)
    assert norm.running_mean._version == before + 1 and norm.num_batches_tracked._version > 0
    # Rows whose graph is gone: layers without gradients read them.
    y = spconv.conv_norm_relu(conv, norm, x)
    y.features.sum().backward()
    with torch.no_grad():
        spconv.conv_norm_relu(net.convs[1], net.norms[1], y, y)
        net.convs[2](net.join([y, y]))


def test_conv_norm_is_left_to_the_modules():
    """Where somebody looks between them, where another norm is meant, and what is refused."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    scene = Scene()
    x, _ = scene.tensor(spconv)
    conv, norm = spconv.SubMConv3d(4, 4, 3).to(DEVICE), nn.BatchNorm1d(4).to(DEVICE)
    wanted = spconv.norm_relu(norm, conv(x), x).features

    def run(times, conv=conv, norm=norm, x=x):
        with fused_calls() as calls:
            y = spconv.conv_norm_relu(conv, norm, x, x).features
            z = spconv.SparseSequential(conv, norm, nn.ReLU())(x).features
            assert len(calls) == 2 * times, f"{len(calls)}"
        return y, z

    assert run(1)[0].equal(wanted)
    called = []
    for part in (conv, norm):
        for add in (part.register_forward_hook, part.register_forward_pre_hook,
                    part.register_full_backward_hook):
            hook = add(lambda *_: called.append(1))
            if add != part.register_full_backward_hook:
                close(run(0)[0], wanted)
                assert called
            else:
                run(0)
            hook.remove()
            called.clear()
    with Watch():
        close(run(0)[0], wanted)

    class Own(spconv.SubMConv3d):
        def forward(self, input):
            return super().forward(input)

    own = Own(4, 4, 3).to(DEVICE)
    own.load_state_dict(conv.state_dict())
    close(run(0, conv=own)[0], wanted)

    class Flagged(spconv.SparseModule):
        def __init__(self):
            super().__init__()
            self.with_norm, self.conv = True, conv # a user's name

        def forward(self, x):
            return self.conv(x)

    close(run(0, conv=Flagged())[0], wanted)
    conv.forward = lambda x: own(x) # as tools do that change a module
    close(run(0)[0], wanted)
    del conv.forward
    for other in (nn.BatchNorm1d(4, momentum=None), nn.BatchNorm1d(4).double(),
                  nn.InstanceNorm1d(4)):
        other = other.to(DEVICE)
        if other.weight is None or other.weight.dtype == torch.float32:
            run(0, norm=other)
    close(run(1, norm=nn.BatchNorm1d(4, affine=False).to(DEVICE))[0], wanted)
    close(run(1, norm=nn.BatchNorm1d(4, track_running_stats=False).to(DEVICE))[0], wanted)
    one = spconv.SparseConvTensor(x.features[:1], x.indices[:1], x.spatial_shape, 2)
    raises(ValueError, "more than 1 value", lambda: spconv.conv_norm_relu(conv, norm, one))
    coarse = spconv.SparseConv3d(4, 4, 2, 2).to(DEVICE)(x)
    raises(ValueError, "different voxels", lambda: spconv.conv_norm_relu(conv, norm, x, coarse))
    raises(ValueError, "channels", lambda: spconv.conv_norm_relu(conv, norm, coarse.replace_feature(
        coarse.features[:, :3])))
    f, i, count = spconv.pad(scene.features.float(), scene.indices, len(scene.indices) + 5)
    wide = spconv.SparseConvTensor(f.to(DEVICE), i.to(DEVICE), scene.shape, 2,
                                   count=count.to(DEVICE))
    raises(TypeError, "convert_batchnorm", lambda: spconv.conv_norm_relu(conv, norm, wide))
    before = norm.running_mean.clone()
    with torch.inference_mode():
        close(run(1)[0], wanted)
    assert not before.equal(norm.running_mean)
    norm.eval()
    assert not fused_in_eval(conv, norm, x)


def test_norms_whose_weights_are_no_parameters():
    """Of a pruned norm, and of a replica of nn.DataParallel."""
    from torch.nn.utils import prune
    for kind in (nn.BatchNorm1d, spconv.BatchNorm1d):
        x, _ = Scene().tensor(spconv)
        conv, norm = spconv.SubMConv3d(4, 4, 3).to(DEVICE), kind(4).to(DEVICE)
        net = spconv.SparseSequential(conv, norm, nn.ReLU())
        wanted = net(x).features
        twin = norm._replicate_for_data_parallel()
        for name, p in norm._parameters.items():
            setattr(twin, name, p.detach().clone().requires_grad_())
        with fused_calls() as calls:
            close(spconv.SparseSequential(conv, twin, nn.ReLU())(x).features, wanted)
            assert len(calls) == 1
            prune.random_unstructured(norm, "weight", 2)
            y = net(x).features
            assert len(calls) == 1
        close(y, torch.relu(norm(conv(x).features)))
        y.sum().backward()
        assert norm.weight_orig.grad.count_nonzero() == 2


def fused_in_eval(conv, norm, x):
    with fused_calls() as calls:
        spconv.conv_norm_relu(conv, norm, x, x)
    return len(calls)


# ---- rows that are made again -------------------------------------------------------------------

def gradients(net, scene, again, kind, padding):
    """Gradients of a step, and the bytes that its forward pass left behind."""
    net.zero_grad(set_to_none=True)
    count = torch.tensor([len(scene.indices)], dtype=torch.int32, device=DEVICE)
    f, i, count = spconv.pad(scene.features.float(), scene.indices, len(scene.indices) + padding)
    x = spconv.SparseConvTensor(f.to(DEVICE), i.to(DEVICE), scene.shape, scene.batch,
                                count=count.to(DEVICE) if padding else None)
    leaf = x.features.requires_grad_()
    x.coordinates()
    with cases.recompute(again), torch.profiler.profile(profile_memory=True) as seen:
        with torch.autocast(DEVICE, kind, enabled=kind is not None):
            y = net(x)
    what = "self_cpu_memory_usage" if DEVICE == "cpu" else "self_device_memory_usage"
    kept = sum(getattr(e, what) for e in seen.key_averages())
    y.float().square().sum().backward()
    return [y.detach(), leaf.grad, *(p.grad for p in net.parameters())], kept


def test_rows_made_again_are_the_same():
    scene = Scene((40, 30, 20), rows=500)
    net = spconv.convert_batchnorm(cases.small_spunet(spconv)).to(DEVICE)
    for kind in (None, torch.bfloat16):
        for padding in (0, 33):
            results, kept = zip(*(gradients(net, scene, again, kind, padding) for again in range(3)))
            for made in results[1:]:
                assert all(torch.equal(a, b) for a, b in zip(results[0], made))
            assert kept[1] < kept[0] and kept[2] < kept[1], f"{kept} bytes kept"


def test_rows_that_were_changed_are_kept():
    scene = Scene()
    conv, norm, last = (m.to(DEVICE) for m in (spconv.SubMConv3d(4, 8, 3), spconv.BatchNorm1d(8),
                                               spconv.SubMConv3d(8, 8, 3)))
    found = []
    for again in range(3):
        with cases.recompute(again):
            x, leaf = scene.tensor(spconv)
            y = spconv.norm_relu(norm, conv(x))
            with torch.no_grad():
                y.ordered().mul_(2)
            last(y).features.square().sum().backward()
            found.append([leaf.grad, last.weight.grad])
            last.weight.grad = None
    assert all(torch.equal(a, b) for other in found[1:] for a, b in zip(found[0], other))


def test_rows_of_a_node_that_has_nothing_saved():
    """Its backward pass has freed that, or a parameter has changed: a later layer that reads the
    rows still has gradients of its own, those of the rows as they are."""
    scene = Scene()
    convs = [spconv.SubMConv3d(n, 4, 3).to(DEVICE) for n in (4, 4, 8)]
    norms = [nn.BatchNorm1d(4).to(DEVICE) for _ in convs]

    def gone(y):
        y.features.sum().backward()

    @torch.no_grad()
    def weight_changed(_):
        convs[0].weight.mul_(2)

    @torch.no_grad()
    def norm_changed(_):
        norms[0].weight.mul_(2)

    apart = lambda x: spconv.norm_relu(norms[0], convs[0](x))
    whole = lambda x: spconv.conv_norm_relu(convs[0], norms[0], x)
    joined = lambda x: spconv.JoinTable()([whole(x), whole(x)])
    with_sum = lambda x: spconv.conv_norm_relu(convs[0], norms[0], x, whole(x))
    for make, last in ((apart, 1), (whole, 1), (with_sum, 1), (joined, 2)):
        for change in (gone, weight_changed, norm_changed):
            x, _ = scene.tensor(spconv)
            y = make(x)
            change(y)
            found = []
            for rows in (y, y.replace_feature(y.features.detach())):
                z = spconv.conv_norm_relu(convs[last], norms[last], rows)
                if last == 1:
                    z = spconv.conv_norm_relu(convs[1], norms[1], z, rows)
                found.append(torch.autograd.grad(z.features.square().sum(), convs[last].weight)[0])
            assert torch.equal(*found)


def test_compiled_training():
    """In capacity mode from raw indices, without a graph break."""
    if tuple(map(int, torch.__version__.split(".")[:2])) < (2, 11):
        raise cases.Skip("PyTorch 2.5 breaks the graph at each layer")
    scene = Scene((40, 30, 20), rows=500)
    rows = len(scene.indices)
    found = []
    for compiled in (False, True):
        torch.manual_seed(1)
        net = spconv.convert_batchnorm(cases.small_spunet(spconv)).to(DEVICE)
        f, i, count = spconv.pad(scene.features.float(), scene.indices, rows + 20)
        x = spconv.SparseConvTensor(f.to(DEVICE), i.to(DEVICE), scene.shape, 2,
                                    count=count.to(DEVICE))
        torch._dynamo.reset()
        run = torch.compile(net, fullgraph=True, backend="aot_eager") if compiled else net
        run(x)[:rows].square().sum().backward()
        found.append([*(p.grad for p in net.parameters()), *net.buffers()])
    for a, b in zip(*found):
        close(a, b, 2e-4)


def test_joined_tensors():
    scene = Scene()
    for order in (slice(None), spconv.sort_rows(scene.indices, scene.shape)):
        scene.indices, scene.features = scene.indices[order], scene.features[order]
        x, _ = scene.tensor(spconv)
        a, b = (spconv.SubMConv3d(4, n, 3).to(DEVICE)(x) for n in (3, 5))
        joined = spconv.JoinTable()([a, b])
        assert torch.equal(joined.features, torch.cat([a.features, b.features], 1))
        three = spconv.JoinTable()([a, x, b])
        assert torch.equal(three.features, torch.cat([a.features, x.features, b.features], 1))


def test_norms_of_batch_elements():
    """GroupNorm and instance norm, and all gradients, against sums of each element in double; the
    same in capacity mode."""
    scene = Scene(batch=3, channels=12)
    for layer, groups in ((spconv.SparseGroupNorm(4, 12), 4),
                          (spconv.SparseGroupNorm(1, 12, eps=1e-3), 1),
                          (spconv.SparseInstanceNorm(12), 12)):
        layer = layer.to(DEVICE)
        if layer.affine:
            nn.init.uniform_(layer.weight, 0.5, 2), nn.init.uniform_(layer.bias)
        x, leaf = scene.tensor(spconv)
        y = layer(spconv.SparseSequential()(x))
        judge = scene.features.clone().requires_grad_()
        weight, bias = (None if p is None else p.detach().double().cpu().requires_grad_()
                        for p in (layer.weight, layer.bias))
        wanted = torch.zeros_like(judge)
        for b in range(3):
            rows = (scene.indices[:, 0] == b).nonzero()[:, 0]
            made = nn.functional.group_norm(judge[rows].t()[None], groups, weight, bias, layer.eps)
            wanted = wanted.index_add(0, rows, made[0].t())
        close(y.features, wanted, 1e-5)
        grad = torch.randn_like(wanted)
        y.features.backward(grad.to(y.features)), wanted.backward(grad)
        close(leaf.grad, judge.grad, 1e-4, "gradient of the features")
        if layer.affine:
            close(layer.weight.grad, weight.grad, 1e-4, "gradient of the weight")
            close(layer.bias.grad, bias.grad, 1e-4, "gradient of the bias")
        f, i, count = spconv.pad(x.features.detach(), x.indices, len(judge) + 9)
        loose = spconv.SparseConvTensor(f.requires_grad_(), i, scene.shape, 3,
                                        count=count.to(DEVICE))
        z = layer(loose)
        assert not z.features[len(judge):].any()
        close(z.features[:len(judge)], y.features, 1e-6, "capacity mode")
        z.features[:len(judge)].backward(grad.to(z.features))
        close(f.grad[:len(judge)], leaf.grad, 1e-5, "gradient in capacity mode")
        half = layer(x.replace_feature(x.features.half()))
        assert half.features.dtype == torch.float16
        close(half.features, wanted, 2e-3)
        close(layer(x.replace_feature(x.features.double())).features, wanted, 1e-6, "float64")
    # PyTorch's norms of rows are as good: LayerNorm and RMSNorm keep the order of the set.
    for norm in (nn.LayerNorm(12), nn.RMSNorm(12)):
        norm = norm.to(DEVICE)
        x, _ = scene.tensor(spconv)
        y = spconv.SparseSequential(norm)(x)
        assert torch.equal(y.features, norm(x.features))
    raises(ValueError, "num_groups", lambda: spconv.SparseGroupNorm(5, 12))
    raises(ValueError, "num_channels", lambda: spconv.SparseGroupNorm(4, 8).to(DEVICE)(x))


def compare_norm_of_rows(layer, kind, bound):
    """All gradients of a norm with SiLU behind it, against PyTorch in double, in capacity mode."""
    scene = Scene(channels=24)
    order = spconv.sort_rows(scene.indices, scene.shape)
    values = scene.features[order].to(kind).double()
    judge = copy.deepcopy(layer).cpu().double()
    for p, q in zip(layer.parameters(), judge.parameters()):
        with torch.no_grad():
            q.copy_(p.uniform_(0.5, 2))
    rows, leaf = len(values), values.clone().requires_grad_()
    f, i, count = spconv.pad(values.to(DEVICE, kind), scene.indices[order].to(DEVICE), rows + 9)
    f[rows:] = torch.nan
    x = spconv.SparseConvTensor(f.requires_grad_(), i, scene.shape, 2, count=count, ordered=True)
    layer.zero_grad()
    norm = spconv.with_act(layer, x)
    assert "norm_of_function" in norm.features.grad_fn.name()
    y = spconv.with_act(layer, x, nn.SiLU()).features
    wanted = nn.functional.silu(judge(leaf))
    close(y[:rows], wanted, bound, "result")
    grad = torch.randn_like(wanted).to(kind)
    y.backward(nn.functional.pad(grad, (0, 0, 0, 9), value=1).to(DEVICE))
    wanted.backward(grad.double())
    close(f.grad[:rows], leaf.grad, 2 * bound, "gradient")
    assert not f.grad[rows:].any(), "gradient behind the count"
    cases.close_parameters(layer, judge, 2 * bound, 0)


@torch.no_grad()
def compare_packed(layer, kind, call):
    """The same bits from packed weights; and none of these once the weights have changed."""
    kept = sys.modules["spira.pytorch.with_act"].packed_of
    wanted = call().features
    assert kept(layer, kind) is None
    spconv.pack(layer, kind)
    if getattr(layer, "groups", 1) > 1: # which have none
        return
    assert kept(layer, kind) is not None
    assert torch.equal(call().features, wanted)
    if layer.weight is not None:
        layer.weight.mul_(2)
        assert kept(layer, kind) is None and not torch.equal(call().features, wanted)
        layer.weight.div_(2)
    del layer._packed


def test_norm_of_rows_refuses_gradients_that_it_has_not():
    """With a residual or an activation there would be none, and nobody would notice."""
    scene = Scene(channels=24)
    x = spconv.SparseConvTensor(scene.features.float().to(DEVICE), scene.indices.to(DEVICE),
                                scene.shape, 2)
    here = x.coordinates()
    rows, weight = x.ordered(here), torch.ones(24, device=DEVICE)
    norm = lambda rows, weight, residual, act: spira.layers.norm_rows(
        spira.layers.LAYER, rows, weight, None, here.voxels, 1e-5, residual, act)
    for residual, act in ((rows, 0), (None, 3)):
        norm(rows, weight, residual, act)
        for leaf in (rows.clone().requires_grad_(), weight.clone().requires_grad_()):
            call = lambda: norm(rows if leaf.dim() == 1 else leaf,
                                weight if leaf.dim() == 2 else leaf, residual, act)
            raises(NotImplementedError, "without a residual", call)
            with torch.no_grad():
                call()


def test_pack_of_weights_that_are_gone():
    """New weights may lie where packed ones were."""
    packed_of = sys.modules["spira.pytorch.with_act"].packed_of
    for make in (lambda: nn.Linear(24, 24, bias=False),
                 lambda: spconv.SubMConv3d(24, 24, 3, bias=False), lambda: nn.RMSNorm(24)):
        layer = make().to(DEVICE, torch.float16)
        news = lambda: {name: torch.randn_like(t) for name, t in layer.state_dict().items()}
        layer.load_state_dict(news(), assign=True)
        spconv.pack(layer)
        assert packed_of(layer, torch.float16) is not None
        for _ in range(20):
            layer.load_state_dict(news(), assign=True)
            assert packed_of(layer, torch.float16) is None


def test_with_act():
    """A layer with the addition and the activation behind it: one kernel without gradients, what
    the modules compute with them; in capacity mode zeros behind the count."""
    scene = Scene(channels=24)
    rows = len(scene.indices)
    in_one = sys.modules["spira.pytorch.with_act"].in_one
    order = spconv.sort_rows(scene.indices, scene.shape)
    made = (lambda: spconv.SubMConv3d(24, 24, 3), lambda: spconv.SubMConv3d(24, 24, 3, groups=4),
            lambda: nn.Linear(24, 24), lambda: nn.LayerNorm(24), lambda: nn.RMSNorm(24),
            lambda: nn.LayerNorm(24, elementwise_affine=False))
    for make in made:
        layer = make().to(DEVICE)
        for act, kind, padding in ((None, torch.float16, 9), (nn.ReLU(), torch.bfloat16, 0),
                                   (nn.SiLU(), torch.float16, 0), (nn.GELU(), torch.float32, 9),
                                   (nn.GELU("tanh"), torch.float16, 9), (nn.Tanh(), torch.float16, 0)):
            layer = layer.to(kind)
            f, i, count = spconv.pad(scene.features[order].to(kind), scene.indices[order],
                                     rows + padding)
            x = spconv.SparseConvTensor(f.to(DEVICE), i.to(DEVICE), scene.shape, 2, ordered=True,
                                        count=count.to(DEVICE) if padding else None)
            for residual in (None, x.replace_feature(x.features.flip(1))):
                y = spconv.with_act(layer, x, act, residual)
                assert y.features.requires_grad != (layer.__class__ is nn.LayerNorm and
                                                    layer.weight is None)
                with torch.no_grad():
                    z = spconv.with_act(layer, x, act, residual)
                    is_one = in_one(layer, x, act, residual) is not None
                exact = type(layer) is nn.Linear and kind == torch.float32
                assert is_one == (type(act) is not nn.Tanh and not exact)
                bound = {torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}[kind]
                close(z.features[:rows], y.features[:rows], bound, f"{layer} {act}")
                assert not is_one or not z.features[rows:].any()
                if is_one and kind != torch.float32:
                    compare_packed(layer, kind, lambda: spconv.with_act(layer, x, act, residual))
    for layer in (nn.LayerNorm(24), nn.RMSNorm(24), nn.LayerNorm(24, elementwise_affine=False)):
        for kind, bound in ((torch.float32, 1e-5), (torch.float16, 4e-3), (torch.bfloat16, 3e-2)):
            compare_norm_of_rows(layer.to(DEVICE, kind), kind, bound)
    other = spconv.SparseConvTensor(f[:5].to(DEVICE), i[:5].to(DEVICE), scene.shape, 2)
    raises(ValueError, "different voxels", lambda: spconv.with_act(layer, x, None, other))


if __name__ == "__main__":
    cases.run(globals())
