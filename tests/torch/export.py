# SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
# tests/torch/export.py: networks of spira.pytorch's modules, written for C++ (spira.pytorch.export):
# what examples/levels.cu computes from the files against the network itself.
#
#     export.py SCAN LEVELS [part of a name]...     the examples, built for the host
import os
import pickle
import struct
import subprocess
import sys
import tempfile

import numpy as np
import torch
from torch import nn

import modules_cases as cases
from modules_cases import Scene, close, raises
from modules_models import residual

import checkpoint_networks
import checkpoint_onnx
import spira.pytorch as spconv
import spunet
from spira.pytorch import qat
from spira.pytorch.trace import table_of

SCAN, LEVELS = (os.path.abspath(a) for a in sys.argv[1:3])
del sys.argv[1:3] # the rest are names of tests


def run(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.returncode, done.stdout


def lively(net):
    """Batch norms that have seen something."""
    for part in net.modules():
        if isinstance(part, nn.BatchNorm1d):
            for values, lo, hi in ((part.weight, 0.5, 1.5), (part.bias, -0.3, 0.3),
                                   (part.running_mean, -0.3, 0.3), (part.running_var, 0.5, 2)):
                if values is not None:
                    nn.init.uniform_(values, lo, hi)
    return net.eval()


def levels(scene, table, folder, *options):
    """Runs the table in `folder` on a scene. name -> (voxels (batch, z, y, x), features or map)."""
    flat = scene.indices if len(scene.shape) == 3 else torch.cat(
        [scene.indices[:, :1], torch.zeros(len(scene.indices), 3 - len(scene.shape)).int(),
         scene.indices[:, 1:]], 1)
    rows = torch.cat([flat[:, [0, 3, 2, 1]].float(), scene.features.float()], 1)
    np.save(os.path.join(folder, "in.npy"), rows.numpy())
    out = os.path.join(folder, "out")
    os.mkdir(out)
    code, said = run(LEVELS, "--net", os.path.join(folder, table + ".layers"), "--weights",
                     os.path.join(folder, table + ".blob"), "--in", os.path.join(folder, "in.npy"),
                     "--out", out, "--batch", str(scene.batch), *options)
    assert code == 0, said
    found = {}
    for line in open(os.path.join(out, "layers.txt"), encoding="utf-8"):
        number, name, voxels, _, _, kind, *grid = line.split()
        if number != "-1":
            array = np.load(os.path.join(out, f"{'dense' if kind == 'dense' else 'layer'}{number}"
                                              ".npy"))
            at = np.load(os.path.join(out, f"set{voxels}.npy")) # in voxels of the finest grid
            origin, stride = (np.array(grid[i:i + 3], np.int32) for i in (0, 3))
            at[:, 1:] = (at[:, 1:] - origin) // stride
            found[name] = torch.from_numpy(at[:, [0, 3, 2, 1]]), torch.from_numpy(array)
    return found


def compare(net, scene, bound=2e-5):
    """Exports a network, runs it in C++, and compares each output. Returns the text of the table."""
    with tempfile.TemporaryDirectory() as folder:
        x, _ = scene.tensor(spconv)
        table = spconv.export(lively(net), x, os.path.join(folder, "net.layers"), type="fp32")
        with torch.no_grad():
            made = net(scene.tensor(spconv)[0])
        found = levels(scene, "net", folder)
        made = made if isinstance(made, (tuple, list)) else [made]
        kept = [layer.name for layer in table.layers if layer.keep]
        assert len(kept) == len(made), f"{kept} of {len(made)} outputs"
        for name, y in zip(kept, made):
            voxels, values = found[name]
            if not isinstance(y, spconv.SparseConvTensor) and y.dim() == 4: # a dense map
                close(values, y, bound, name)
                continue
            y = y if isinstance(y, spconv.SparseConvTensor) else x.replace_feature(y)
            at = y.indices.cpu() if len(scene.shape) == 3 else torch.cat(
                [y.indices.cpu()[:, :1], torch.zeros(len(y.indices), 3 - len(scene.shape)).int(),
                 y.indices.cpu()[:, 1:]], 1)
            (ours, a), (theirs, b) = cases.by_voxel(at, y.features), cases.by_voxel(voxels, values)
            assert torch.equal(ours, theirs), f"{name}: other voxels"
            close(b, a, bound, name)
        with open(os.path.join(folder, "net.layers"), encoding="utf-8") as file:
            return file.read()


class Of(nn.Module):
    """A module with parts, and a function as its forward."""

    def __init__(self, forward, **parts):
        super().__init__()
        self.call = forward
        for name, part in parts.items():
            self.add_module(name, part)

    def forward(self, x):
        return self.call(self, x)


def conv(cin, cout, size=3, **options):
    return spconv.SubMConv3d(cin, cout, size, padding=size // 2, **options)


# ---- networks -----------------------------------------------------------------------------------

def test_detector_with_a_dense_map():
    net = spconv.SparseSequential(cases.second(spconv), spconv.ToDense())
    flat = Of(lambda m, x: m.net(x).flatten(1, 2), net=net)
    text = compare(flat, Scene(shape=(41, 32, 40), batch=2, rows=500))
    assert "extent=40,32,41 batch=2" in text and text.count("rule=expand") == 4, text


def test_u_net_of_any_extent():
    net = spunet.SpUNet(4, 7, 8, (8, 16, 16, 24, 16, 16, 8, 8), (1, 1, 1, 2, 1, 1, 2, 1))
    text = compare(net, Scene(shape=(32, 48, 64), rows=600))
    assert "extent" not in text and "expand" not in text and "source2=conv_input.0" in text, text


def test_u_net_that_cuts_voxels_off():
    net = spunet.SpUNet(4, 7, 8, (8, 16, 16, 24, 16, 16, 8, 8), (1,) * 8)
    text = compare(net, Scene(shape=(31, 33, 29), rows=600))
    assert "rule=expand" in text and "extent=29,33,31" in text, text


def test_code_of_any_form():
    """Norms, sums and activations as model code writes them; a head of nn.Linear; a shortcut that is
    computed last; a layer that is used twice; two outputs."""
    def forward(m, x):
        y = m.stem(x)
        y = y.replace_feature(torch.relu_(m.norm(y.features)))
        z = m.last(y)
        z = z.replace_feature(nn.functional.leaky_relu(z.features + m.short(y).features, 0.2))
        w = m.block(m.again(m.again(z)))
        w = w.replace_feature(torch.cat((w.features, z.features), dim=1))
        w = m.wide(w)
        return w, w.replace_feature(m.head(m.drop(w.features)))

    compare(Of(forward, stem=conv(4, 8), norm=nn.BatchNorm1d(8, affine=False), last=conv(8, 12),
               short=conv(8, 12, 1), again=conv(12, 12, 3, bias=False), block=residual(
                   spconv, 12, 16, 3, "b"), wide=spconv.SparseSequential(conv(28, 8), nn.SiLU()),
               head=nn.Linear(8, 5), drop=nn.Dropout(0.5)), Scene())


def test_poolings_inverse_layers_and_products():
    def forward(m, x):
        y = m.stem(x)
        z = m.up(m.mid(m.down(y)))
        z = z.replace_feature(z.features * y.features)
        return m.tail(m.mean(m.most(z)))

    compare(Of(forward, stem=conv(4, 8), mid=conv(16, 16, dilation=2),
               down=spconv.SparseConv3d(8, 16, (3, 2, 3), stride=(2, 1, 2), padding=(1, 0, 1),
                                        indice_key="d"),
               up=spconv.SparseInverseConv3d(16, 8, (3, 2, 3), indice_key="d"),
               most=spconv.SparseMaxPool3d(2), mean=spconv.SparseAvgPool3d(3, 2, padding=1),
               tail=spconv.SparseSequential(conv(8, 4), nn.GELU())), Scene())


def test_two_axes():
    net = spconv.SparseSequential(
        spconv.SubMConv2d(4, 8, 3, padding=1), nn.BatchNorm1d(8), nn.ReLU(),
        spconv.SparseConv2d(8, 8, 3, stride=2, padding=1), residual(spconv, 8, 8, 2, "r"))
    compare(net, Scene(shape=(21, 18), rows=150))


def test_names_and_numbers():
    """Long and repeated names stay apart; weights of 1x1 layers are [in, out] in memory."""
    deep = conv(4, 4, 1)
    for name in ("a_long_name", "of_a_module", "in_another_one", "and_so_on"):
        deep = nn.Sequential()
        deep.add_module(name, conv(4, 4, 1)) if name == "a_long_name" else \
            deep.add_module(name, inner)
        inner = deep
    text = compare(Of(lambda m, x: m.one(m.two(m.one(x))), one=deep, two=conv(4, 4, 3)), Scene())
    names = [word[5:] for word in text.split() if word.startswith("name=")]
    assert len(set(names)) == 3 and max(map(len, names)) <= 31, names


# ---- what is refused ----------------------------------------------------------------------------

def test_refused_by_name():
    c = conv
    both = lambda m, x: x.replace_feature(m.a(x).features + m.b(x).features)

    def three(m, x):
        y = m.a(x)
        return m.c(y.replace_feature(torch.cat([x.features, y.features, y.features], 1)))

    def read_twice(m, x):
        y = m.a(x)
        return m.b(y.replace_feature(torch.relu(y.features) + y.features))

    for text, net in (
            ("act: aten.sigmoid", spconv.SparseSequential(c(4, 4), act=nn.Sigmoid())),
            ("norm: a batch norm that does not follow", spconv.SparseSequential(
                c(4, 4), nn.ReLU(), norm=nn.BatchNorm1d(4))),
            ("norm: norm of the input", spconv.SparseSequential(norm=nn.BatchNorm1d(4))),
            ("c: reads 3 concatenated", Of(three, a=c(4, 4), c=c(12, 4))),
            ("an activation that does not follow", Of(read_twice, a=c(4, 4), b=c(4, 4))),
            ("aten.mul", Of(lambda m, x: x.replace_feature(2 * m.a(x).features), a=c(4, 4))),
            ("aten.cat", Of(lambda m, x: x.replace_feature(torch.cat(
                [m.a(x).features] * 2)), a=c(4, 4)))):
        x, _ = Scene().tensor(spconv)
        raises(NotImplementedError, text, lambda: table_of(net, x))
    x, _ = Scene().tensor(spconv)
    assert len(table_of(Of(both, a=c(4, 4), b=c(4, 4)), x).layers) == 2
    raises(ValueError, "layers or .onnx", lambda: spconv.export(c(4, 4), x, "a.blob"))
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "a.layers")
        spconv.export(c(4, 4), x, path)
        raises(FileExistsError, "a.layers", lambda: spconv.export(c(4, 4), x, path))
        wide = c(4, 4)
        wide.bias.data.fill_(float("inf"))
        raises(ValueError, "an infinity", lambda: spconv.export(wide, x, path[:-7] + "b.layers"))
        assert sorted(os.listdir(folder)) == ["a.blob", "a.layers"], os.listdir(folder)


def test_files_that_are_wrong():
    good = "spira layers 1\ninput channels=4\nconv name=a source=input channels=8 size=3,3,3\n"
    faults = (("spira layers 2\n", "line 1: version 2"), ("layers\n", "line 1: it does not begin"),
              (good.replace("3,3,3", "3,3"), "line 3: size=3,3: 3 numbers"),
              (good.replace("3,3,3", "3,3,-3"), "line 3: size=3,3,-3: 3 numbers"),
              (good.replace("conv", "norm"), "line 3: norm is no operation"),
              (good.replace("=input", "=b"), "line 3: source=b: no line above"),
              (good.replace("size", "sizes"), "line 3: sizes is no member"),
              (good + good[-50:].split("\n")[-2] + "\n", "line 4"),
              (good + "conv name=b source=a act=elu\n", "line 4: act=elu is not known"),
              (good + "dense source=a\n", "line 4: a layer without a name"),
              (good + "conv name=b channels=4\n", "line 4: b has no source"),
              (good.replace("input channels=4\n", ""), "line 2: a layer in front of the input"),
              (good + "conv name=" + "b" * 32 + " source=a\n", "1 to 31 bytes"),
              ("spira layers 1\ninput channels=4\n", "it has no layer"),
              (good + "conv name=b source=a channels=4 size=3,3,3 slope=0.1\n", "layer b"))
    with tempfile.TemporaryDirectory() as folder:
        np.save(os.path.join(folder, "in.npy"), np.zeros((1, 8), np.float32))
        for number, (text, said) in enumerate(faults):
            path = os.path.join(folder, f"{number}.layers")
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            code, output = run(LEVELS, "--net", path, "--in", os.path.join(folder, "in.npy"),
                               "--out", folder)
            assert code and said in output, f"{text!r}: {said!r} is not in {output!r}"
        code, output = run(LEVELS, "--net", "none.layers", "--in", "a", "--out", folder)
        assert code and "No such file" in output, output


# ---- .onnx --------------------------------------------------------------------------------------

def test_onnx_is_that_of_checkpoint():
    """The same bytes as checkpoint.py's for a network that it knows."""
    net = lively(spconv.SparseSequential(cases.second(spconv), spconv.ToDense()))
    x, _ = Scene(shape=(41, 200, 160), batch=1, rows=50).tensor(spconv)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "second.onnx")
        table = spconv.export(net, x, path)
        layers = {layer.name[2:]: {kind: getattr(layer, kind) for kind in ("weight", "bias", "scale",
                                                                           "shift")}
                  for layer in table.layers[:-1]} # without "0." of the sequence
        assert list(layers) == [c.name for c in checkpoint_networks.second()]
        with open(path, "rb") as file:
            assert file.read() == checkpoint_onnx.file_of_network("second", layers, (41, 200, 160))


def test_onnx_of_inverse_layers():
    def forward(m, x):
        y = m.stem(x)
        z = m.up(m.block(m.down(y)))
        return m.tail(z.replace_feature(z.features + y.features))

    net = lively(Of(forward, stem=conv(4, 8, 5), block=residual(spconv, 16, 16, 3, "b"), tail=conv(
        8, 8), down=spconv.SparseConv3d(8, 16, 3, stride=2, padding=1, indice_key="d"),
        up=spconv.SparseInverseConv3d(16, 8, 3, indice_key="d")))
    x, _ = Scene(shape=(41, 64, 72), batch=1).tensor(spconv)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "net.onnx")
        spconv.export(net, x, path)
        code, said = run(SCAN, "--onnx", path, "--list")
    assert code == 0 and "ends here" not in said, said
    lines = said.splitlines()
    want = ("4 channels in, extent 72 x 64 x 41", "submanifold    8 channels, size 5 5 5",
            "strided       16 channels, size 3 3 3, stride 2 2 2, padding 1 1 1",
            "16 channels, size 3 3 3, stride 1 1 1, padding 0 0 0, ReLU",
            "padding 0 0 0, residual, ReLU",
            "inverse        8 channels, size 3 3 3, stride 2 2 2, padding 1 1 1, residual",
            "submanifold    8 channels, size 3 3 3")
    assert len(lines) == len(want) and all(w in line for w, line in zip(want, lines)), said
    for text, other in (("a concatenation", spunet.SpUNet(4, 7, 8, (8,) * 8, (1,) * 8)),
                        ("pool_max", spconv.SparseMaxPool3d(2)),
                        ("leaky", spconv.SparseSequential(conv(4, 4), nn.LeakyReLU()))):
        raises(NotImplementedError, text, lambda: spconv.export(other, Scene(
            shape=(32, 32, 32), batch=1).tensor(spconv)[0], "none.onnx"))
    raises(ValueError, "batch_size: 2", lambda: spconv.export(net, Scene().tensor(spconv)[0],
                                                              "none.onnx"))


# ---- eight bits ---------------------------------------------------------------------------------

def judged_features(values, range_):
    """The formula, value by value: NumPy, in fp32."""
    scale = np.float32(range_) / np.float32(127)
    inverse = np.float32(1) / scale
    return np.clip(np.rint(values * inverse), -128, 127).astype(np.float32) * scale


def test_quantiser():
    quantiser = qat.Quantiser().to(cases.DEVICE)
    x = torch.cat([torch.linspace(-3, 3, 4001), torch.arange(-6, 7) / 254]).reshape(-1, 1)
    x = x.to(cases.DEVICE).requires_grad_()
    quantiser.set_range(2.0)
    y = quantiser(x)
    assert np.array_equal(y.detach().cpu().numpy(), judged_features(x.detach().cpu().numpy(), 2.0))
    y.sum().backward()
    inside = (x / (2.0 / 127)).detach()
    close(x.grad, ((inside >= -128) & (inside <= 127)).float(), 1e-6, "gradient")
    assert quantiser(x.half()).dtype == torch.float16 and quantiser(x[:0]).shape == (0, 1)


def test_observers():
    """The largest value, one that few are above, and the least squared error, in parts of any
    order."""
    torch.manual_seed(4)
    values = torch.randn(200_000).reshape(-1, 1)
    values[7] = 40
    found = {}
    for method in qat.METHODS:
        q = qat.Quantiser()
        q.observing = True
        for part in values.split(30_000):
            assert torch.equal(q(part), part)
        q.choose(method)
        found[method] = q.range.item()
    assert found["max"] == 40
    exact = values.abs().flatten().sort().values[int(0.9999 * len(values))].item()
    assert abs(found["percentile"] - exact) < 0.1, (found, exact)
    error = lambda r: float(((torch.from_numpy(judged_features(values.numpy(), r)) - values) ** 2
                             ).double().sum())
    best = min(error(r) for r in np.linspace(2, 40, 400))
    assert error(found["mse"]) < 1.02 * best, (found, best)
    q = qat.Quantiser()
    q.observing = True
    raises(ValueError, "not finite", lambda: q(torch.tensor([[float("nan")]])))


def int8_network():
    return lively(spunet.SpUNet(4, 7, 8, (8, 16, 16, 24, 16, 16, 8, 8), (1,) * 8))


def test_int8_weights():
    """Steps and integers of two sources of different ranges, and of a 1x1 layer, whose numbers are
    [in, out]; a channel of zeros."""
    for size in (3, 1):
        layer = conv(10, 5, size)
        layer.weight.data[2] = 0
        layer.__class__ = qat.QUANTISED[type(layer)]
        layer.inputs, layer.channels = nn.ModuleList([qat.Quantiser(), qat.Quantiser()]), [4, 6]
        for q, r in zip(layer.inputs, (2.5, 0.7)):
            q.set_range(r)
        weight = layer.weight.detach()
        made = layer.rounded_weight(layer.weight).detach()
        if size == 1:
            weight, made = (w.reshape(10, 5).t().reshape(5, 1, 1, 1, 10) for w in (weight, made))
        scale = np.repeat(np.float32((2.5, 0.7)) / np.float32(127), (4, 6))
        for c in range(5):
            scaled = weight[c].numpy() * scale
            step = np.abs(scaled).max() / np.float32(127) or np.float32(1)
            whole = np.clip(np.rint(scaled / step), -127, 127)
            assert np.abs(whole).max() == (127 if step != 1 else 0)
            close(made[c], torch.from_numpy(whole * step / scale), 1e-6, f"channel {c}")
        layer.rounded_weight(layer.weight).sum().backward()
        close(layer.weight.grad, torch.ones_like(weight).reshape(layer.weight.shape), 1e-5, "grad")


def test_int8_in_cpp():
    """What C++ computes in int8 from the exported ranges, and what was trained with."""
    scene = Scene(shape=(32, 48, 64), rows=1500, batch=1)
    net, x = int8_network(), lambda: scene.tensor(spconv)[0]
    qat.prepare(net, x())
    ranges = qat.calibrate(net, [x()], "mse")
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        table = spconv.export(net, x(), os.path.join(folder, "net.layers"), type="fp32")
        rounded = net(x())
        with qat.observing(net):
            plain = net(x())
        found = levels(scene, "net", folder)
    kinds = list(sys.modules["spira.pytorch.export"].entries_of(table))
    eight = [name for name, kind, _ in kinds if kind == "weight_range"]
    assert len(eight) == len([k for k in kinds if k[1] == "weight"]) - 1 and "conv_input.0" not in \
        eight and len([k for k in kinds if k[1] == "range"]) == len(ranges) == 29, kinds
    at, ours = cases.by_voxel(scene.indices, rounded)
    _, float_ = cases.by_voxel(scene.indices, plain)
    voxels, theirs = cases.by_voxel(*found["final"])
    assert torch.equal(at, voxels), "other voxels"
    between, lost = (((a - b).norm() / b.norm()).item() for a, b in ((theirs, ours), (ours, float_)))
    # A sum that lies between two integers is rounded differently now and then.
    assert lost > 1e-3 and between < lost / 4, f"{between} from C++ to PyTorch, {lost} lost"
    cpp = ((theirs - float_).norm() / float_.norm()).item()
    assert cpp <= 1.15 * lost, f"C++ loses {cpp}, fake quantisation {lost}"
    one = found["enc.0.block0.conv1"][1]
    steps = one / (ranges["enc.0.block0.conv2.inputs.0"] / 127)
    close(steps, steps.round(), 1e-5, "features of an int8 layer are no multiples of its scale")


def test_int8_training():
    """Parameters and names stay; the readers of a tensor share its range; the loss falls."""
    scene = Scene(shape=(32, 32, 32), rows=300)
    net, x = int8_network(), scene.tensor(spconv)[0]
    before = net.state_dict()
    qat.prepare(net, x)
    after = net.state_dict()
    assert all(torch.equal(after[name], value) for name, value in before.items())
    assert {name.rsplit(".", 1)[1] for name in set(after) - set(before)} == {"range"}
    block = net.dec[0].block0
    assert block.proj[0].inputs[0] is block.conv1.inputs[0] and len(block.conv1.inputs) == 2
    assert block.conv1.inputs[1] is net.down[0][0].inputs[0] # the skip connection
    raises(ValueError, "not reached", lambda: qat.calibrate(net, []))
    qat.calibrate(net, [scene.tensor(spconv)[0]])
    again = pickle.loads(pickle.dumps(net))
    with torch.no_grad():
        assert torch.equal(again.eval()(x), net.eval()(x))
    net.train()
    optimizer, losses = torch.optim.Adam(net.parameters(), 1e-2), []
    target = scene.features.argmax(1).to(cases.DEVICE)
    for _ in range(12):
        optimizer.zero_grad()
        losses.append(nn.functional.cross_entropy(net(scene.tensor(spconv)[0]), target))
        losses[-1].backward()
        assert all(p.grad is not None and p.grad.isfinite().all() for p in net.parameters())
        optimizer.step()
    assert losses[-1] < 0.8 * losses[0], losses


def test_int8_in_onnx():
    """The nodes say which layers are int8, and at which ranges."""
    net = lively(Of(lambda m, x: m.tail(m.wide(m.block(m.stem(x)))), stem=conv(4, 8), block=residual(
        spconv, 8, 8, 3, "b"), wide=residual(spconv, 8, 16, 3, "w"), tail=conv(16, 8)))
    scene = Scene(shape=(41, 64, 72), batch=1)
    qat.prepare(net, scene.tensor(spconv)[0])
    ranges = qat.calibrate(net, [scene.tensor(spconv)[0]])
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "net.onnx")
        table = spconv.export(net, scene.tensor(spconv)[0], path)
        code, said = run(SCAN, "--onnx", path, "--list")
        with open(path, "rb") as file:
            data = file.read()
    lines = said.splitlines()[1:]
    assert code == 0 and [", int8, inputs " in line for line in lines] == [False] + 6 * [True], said
    assert len(ranges) == 6 and data.count(b"input1_dynamic_range") == 2
    for name, value in ranges.items():
        assert struct.pack("<f", value) in data, f"{name}: its range is not in the file"
    for layer in table.layers[1:]:
        folded, _ = checkpoint_onnx.fold(vars(layer))
        assert struct.pack("<f", abs(folded[..., 3]).max()) in data, f"{layer.name}: of its weights"


def test_int8_is_refused_by_name():
    x = Scene().tensor(spconv)[0]
    head = lambda: Of(lambda m, x: m.tail(m.head(m.stem(x))), stem=conv(4, 8), head=conv(8, 8),
                      tail=conv(8, 4))
    net = qat.prepare(head(), x, skip=("head",))
    assert [name for name, _ in qat.quantisers(net)] == ["tail.inputs.0"]
    raises(ValueError, "head: is called twice, or was prepared", lambda: qat.prepare(qat.prepare(
        head(), x), x))
    both = Of(lambda m, x: m.a(m.stem(x)) + m.b(m.stem(x)), stem=conv(4, 8), a=conv(8, 8), b=conv(
        8, 8))
    shared = Of(lambda m, x: m.go(m.stem(x)), stem=conv(4, 8), go=Of(
        lambda m, y: m.a(y) + m.b(y), a=conv(8, 8), b=conv(8, 8)))
    raises(ValueError, "go.b: reads what int8 layers read", lambda: qat.prepare(
        shared, x, skip=("go.b",)))
    assert len(qat.quantisers(qat.prepare(both, x))) == 3 # two are read, a third is added
    raises(ValueError, "no range; calibrate", lambda: spconv.export(net, x, "none.layers"))
    raises(ValueError, "method: 'entropy'", lambda: qat.calibrate(net, [x], "entropy"))


if __name__ == "__main__":
    cases.run(globals())
