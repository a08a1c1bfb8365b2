# SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
# tests/torch/export.py: networks of spira.pytorch's modules, written for C++ (spira.pytorch.export):
# what examples/levels.cu computes from the files against the network itself.
#
#     export.py SCAN LEVELS [part of a name]...     the examples, built for the host
import os
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


def levels(scene, table, folder):
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
                     "--out", out, "--batch", str(scene.batch))
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


if __name__ == "__main__":
    cases.run(globals())
