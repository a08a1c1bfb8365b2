# SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
# tests/torch/modules_cases.py: scenes, networks and checks that the tests of modules share.
import contextlib
import os
import sys
import traceback
from functools import partial

import torch
from torch import nn

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
# Behind the installed package: the source folder has no library of operators.
sys.path += [os.path.join(ROOT, "examples", "torch"), os.path.join(ROOT, "examples")]

DEVICE = os.environ.get("SPIRA_TEST_DEVICE", "cpu")


class Skip(Exception):
    pass


def run(tests):
    """Runs the test_ functions of a module; arguments are parts of names. Prints the tally."""
    parts = [a for a in sys.argv[1:] if not a.startswith("-")]
    names = [n for n in tests if n.startswith("test_") and (not parts or
                                                           any(p in n for p in parts))]
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    for name in names:
        how, text = "passed", ""
        try:
            torch.manual_seed(0)
            tests[name]()
        except Skip as skip:
            how, text = "skipped", f": {skip}"
        except Exception: # the next test is run all the same
            how = "failed"
            traceback.print_exc()
        counts[how] += 1
        if how != "passed":
            print(f"{how} {name}{text}")
    print(", ".join(f"{n} {how}" for how, n in counts.items()))
    sys.exit(counts["failed"] > 0)


def close(a, b, bound=2e-5, what=""):
    """Checks the largest difference against the largest value."""
    assert a.shape == b.shape, f"{what}: {list(a.shape)}, not {list(b.shape)}"
    if not b.numel():
        return
    a, b = a.detach().double().cpu(), b.detach().double().cpu()
    error, scale = (a - b).abs().max().item(), max(b.abs().max().item(), 1e-30)
    assert error <= bound * scale, f"{what}: error {error:g} of {scale:g}"


def raises(kind, text, call):
    """Checks that a call raises, and that the message has a text."""
    try:
        call()
    except kind as error:
        assert text in str(error), f"{text!r} is not in {str(error)!r}"
        return
    raise AssertionError(f"nothing raised; {kind.__name__} with {text!r} expected")


@contextlib.contextmanager
def recompute(value):
    import spira.layers
    before, spira.layers.recompute = spira.layers.recompute, value
    try:
        yield
    finally:
        spira.layers.recompute = before


# ---- scenes -------------------------------------------------------------------------------------

class Scene:
    """Voxels in random order.

    indices int32 [n, 1 + axes], features double [n, channels], shape, batch
    """

    def __init__(self, shape=(11, 14, 9), batch=2, rows=400, channels=4, seed=1):
        random = torch.Generator().manual_seed(seed)
        columns = [torch.randint(0, n, (rows,), generator=random) for n in (batch, *shape)]
        corner = torch.tensor([[0] * len(columns), [batch - 1, *(n - 1 for n in shape)]])
        indices = torch.unique(torch.cat([torch.stack(columns, 1), corner]), dim=0)
        indices = indices[torch.randperm(len(indices), generator=random)]
        self.indices, self.shape, self.batch = indices.int(), list(shape), batch
        self.features = torch.randn(len(indices), channels, generator=random,
                                    dtype=torch.float64)

    def tensor(self, library, dtype=torch.float32, device=DEVICE, **options):
        """A SparseConvTensor of a library, and its features as a leaf."""
        features = self.features.detach().clone().to(device, dtype).requires_grad_()
        return library.SparseConvTensor(features, self.indices.to(device), self.shape, self.batch,
                                        **options), features


def by_voxel(indices, values):
    """Rows in the order of their voxels."""
    indices = indices.cpu().long()
    order = sorted(range(len(indices)), key=lambda i: indices[i].tolist())
    return indices[order], values.detach().cpu()[order]


def close_voxels(y, z, bound):
    """Checks sparse tensors whose rows may be in different orders."""
    assert list(y.spatial_shape) == list(z.spatial_shape)
    voxels, values = by_voxel(y.indices, y.features)
    judged, expected = by_voxel(z.indices, z.features)
    assert torch.equal(voxels, judged), "other voxels"
    close(values, expected, bound, "features")


# ---- networks -----------------------------------------------------------------------------------

def close_parameters(net, judge, bound, buffers):
    """Checks the gradients of the parameters, and the buffers. buffers: the bound of these."""
    for (name, p), q in zip(net.named_parameters(), judge.parameters()):
        close(p.grad, q.grad, bound, f"gradient of {name}")
    for (name, p), q in zip(net.named_buffers(), judge.buffers()):
        close(p, q, buffers, name)


norm = partial(nn.BatchNorm1d, eps=1e-3, momentum=0.01)


def second(library, cin=4, widths=(16, 16, 32, 64, 64, 128)):
    """VoxelBackBone8x with OpenPCDet's names, without the dense map."""
    c0, c1, c2, c3, c4, c5 = widths

    def layer(make, *args, **options):
        conv = make(*args, bias=False, **options)
        return library.SparseSequential(conv, norm(conv.weight.shape[0]), nn.ReLU())

    def kept(cin, cout, key):
        return layer(library.SubMConv3d, cin, cout, 3, padding=1, indice_key=key)

    def down(cin, cout, key, size=3, stride=2, padding=1):
        return layer(library.SparseConv3d, cin, cout, size, stride=stride, padding=padding,
                     indice_key=key)

    net = nn.Sequential()
    net.add_module("conv_input", kept(cin, c0, "subm1"))
    net.add_module("conv1", library.SparseSequential(kept(c0, c1, "subm1")))
    for stage, a, b, padding in ((2, c1, c2, 1), (3, c2, c3, 1), (4, c3, c4, (0, 1, 1))):
        net.add_module(f"conv{stage}", library.SparseSequential(
            down(a, b, f"spconv{stage}", padding=padding), kept(b, b, f"subm{stage}"),
            kept(b, b, f"subm{stage}")))
    net.add_module("conv_out", down(c4, c5, "spconv_down2", (3, 1, 1), (2, 1, 1), 0))
    # conv_input is one layer, not a sequence of layers: so OpenPCDet has it
    return net


class Network(nn.Module):
    """A network of one library's layers."""

    def __init__(self, library):
        super().__init__()
        self.make = library.SparseConvTensor

    def merged(self, x, indices, shape):
        """The features of x at other indices; those that meet are summed."""
        voxels, place = torch.unique(indices, dim=0, return_inverse=True)
        sums = x.features.new_zeros(len(voxels), x.features.shape[1]).index_add(0, place,
                                                                                x.features)
        return self.make(sums, voxels, shape, x.batch_size)


def small_spunet(library, cin=4, classes=5):
    from spunet import SpUNet
    return SpUNet(cin, classes, base_channels=8, channels=(8, 16, 16, 8), blocks=(1, 2, 1, 1),
                  library=library)


def randomize_norms(net):
    """Statistics that are not those of a new batch norm."""
    for part in net.modules():
        if isinstance(part, nn.BatchNorm1d):
            nn.init.uniform_(part.running_mean, -0.1, 0.1)
            nn.init.uniform_(part.running_var, 0.5, 1.5)
            nn.init.uniform_(part.weight, 0.5, 1)
            nn.init.uniform_(part.bias, -0.1, 0.1)
    return net


def twins(make, library, judge):
    """A network in fp32, and the judge's in double with the same numbers."""
    net = randomize_norms(make(library)).to(DEVICE)
    other = make(judge).double()
    other.load_state_dict({n: t.detach().cpu().double() if t.is_floating_point() else t.cpu()
                           for n, t in net.state_dict().items()})
    return net, other
