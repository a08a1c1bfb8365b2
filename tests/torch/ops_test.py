# SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
# tests/torch/ops_test.py: the operators of examples/torch, against PyTorch in double precision.
#
#     python tests/torch/ops_test.py [part of a name]...
#     SPIRA_TEST_DEVICE=cuda python tests/torch/ops_test.py
#
# The last line is `N passed, N failed, N skipped`. pytest runs the file, too.
from functools import partial

import torch

import modules_cases as cases
from modules_cases import DEVICE, Skip

import reference
import spira

EPSILON = {torch.float32: 2.0 ** -24, torch.float16: 2.0 ** -11, torch.bfloat16: 2.0 ** -8}
TYPES = tuple(EPSILON)
ops = torch.ops.spira


raises = partial(cases.raises, ValueError)


def random_indices(shape, batch, voxels, seed=0):
    """Distinct voxels in random order, int32 [rows, 1 + D]."""
    random = torch.Generator().manual_seed(seed)
    columns = [torch.randint(0, s, (voxels,), generator=random) for s in (batch, *shape)]
    rows = torch.unique(torch.stack(columns, 1), dim=0)
    return rows[torch.randperm(len(rows), generator=random)].int().contiguous()


def random_like(shape, seed, type=torch.float32):
    random = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=random).to(type)


def leaf(t):
    """A copy on the device that collects a gradient."""
    return t.detach().clone().to(DEVICE).requires_grad_()


def close(value, expected, scale, type, name):
    """|value - expected| within some roundings of the type of the terms' sum `scale`."""
    assert value.shape == expected.shape, f"{name}: {value.shape}, not {expected.shape}"
    assert torch.isfinite(value).all(), f"{name}: not finite"
    bound = 8 * EPSILON[type] * scale + 1e-6
    worst = ((value.double().cpu() - expected).abs() / bound).max().item() if len(value) else 0
    assert worst <= 1, f"{name}: {worst:.3g} times the bound"


class Case:
    """A layer: its sets and map, and the reference's table in the sets' orders."""

    def __init__(self, way, size, stride=1, padding=0, dilation=1, shape=(9, 8, 7), batch=2,
                 voxels=150, seed=0):
        n = len(shape)
        indices = random_indices(shape, batch, voxels, seed)
        self.source = spira.voxel_set(indices.to(DEVICE), shape, batch)
        self.size = reference.each_axis(size, n)
        fine = self.source.indices().cpu()
        if way == "same":
            self.outputs = self.source
            wide = reference.each_axis(dilation, n)
            padding = [(s // 2 if s % 2 else 0) * d for s, d in zip(self.size, wide)]
        else:
            self.outputs = spira.expand(self.source, size, stride, padding, dilation)
        coarse = self.outputs.indices().cpu()
        self.taps = reference.table(fine, coarse, size, stride, padding, dilation)
        self.map = spira.kernel_map(self.source, self.outputs, size, dilation)
        if way == "inverse":
            self.taps = reference.inverse(self.taps, len(fine))
            self.map = self.map.reverse()
        self.inputs, self.count = self.map.source.capacity, self.map.outputs.capacity


CASES = (
    ("same", 3), ("same", 1), ("same", (1, 3, 5)), ("same", 5), ("same", 3, 1, 0, 2), ("same", 2),
    ("same", (2, 3, 1)), ("strided", 3, 2, 1), ("strided", 2, 2), ("strided", 3, 1, 1),
    ("strided", (3, 1, 1), (2, 1, 1)), ("strided", 3, (1, 2, 3), (0, 1, 2), (1, 2, 1)),
    ("strided", 1, 2), ("inverse", 3, 2, 1), ("inverse", 2, 2), ("inverse", (3, 1, 1), (2, 1, 1)),
)


def without_groups(weight, groups):
    """The weight of a layer without groups that computes the same: zeros between the groups."""
    cin = weight.shape[-1]
    return torch.cat([torch.nn.functional.pad(part, (g * cin, (groups - 1 - g) * cin))
                      for g, part in enumerate(weight.chunk(groups))])


def run(case, features, weight, bias, groups):
    """Output and gradients of a layer, and those of the reference with the sums of |terms|."""
    leaves = [leaf(t) for t in (features, weight, bias)]
    out = spira.conv(*leaves, case.map, groups)
    grad = random_like(out.shape, 5, features.dtype)
    out.backward(grad.to(DEVICE))
    results = [out.detach(), *(t.grad for t in leaves)]
    expected = []
    for change in (lambda t: t, torch.abs):
        doubles = [change(t.double()).requires_grad_() for t in (features, weight, bias)]
        y = reference.conv(doubles[0], without_groups(doubles[1], groups), doubles[2], case.taps)
        y.backward(change(grad.double()))
        expected.append([y.detach(), *(t.grad for t in doubles)])
    return results, *expected


def compare(case, cin, cout, type, weight_type=None, groups=1):
    features = random_like((case.inputs, cin), 1, type)
    weight = random_like((cout, *case.size, cin // groups), 2, weight_type or type)
    if type == torch.float16 or type == torch.bfloat16:  # the product's operands are rounded
        weight = weight.to(type).to(weight_type or type)
    bias = random_like((cout,), 3, weight_type or type)
    names = ("output", "gradient of features", "gradient of weight", "gradient of bias")
    given = (type, type, weight.dtype, bias.dtype)
    for name, own, value, expected, scale in zip(names, given, *run(case, features, weight, bias, groups)):
        assert value.dtype == own, f"{name}: {value.dtype}, not {own}"
        close(value, expected, scale, own, name)


# ---- sets ---------------------------------------------------------------------------------------

def test_sets_keep_the_users_rows():
    for shape, batch in (((9, 8, 7), 2), ((30, 20), 3), ((4000, 60000, 50000), 2)):
        indices = random_indices(shape, batch, 200)
        voxels = spira.voxel_set(indices.to(DEVICE), shape, batch)
        assert voxels.words.dtype == (torch.int64 if shape[0] == 4000 else torch.int32)
        assert voxels.spatial_shape == list(shape)
        rows = voxels.indices().cpu().tolist()
        assert rows == sorted(indices.tolist(), key=lambda v: (v[0], *reversed(v[1:])))
        features = random_like((len(indices), 3), 1).to(DEVICE).requires_grad_()
        there = voxels.rows.sort(features)
        assert torch.equal(voxels.indices()[voxels.rows.from_sorted.long()].cpu(), indices)
        assert torch.equal(voxels.rows.unsort(there), features)
        grad = random_like(there.shape, 2).to(DEVICE)
        there.backward(grad)
        assert torch.equal(voxels.rows.sort(features.grad), grad)


def test_sorted_indices_need_no_permutation():
    indices = random_indices((9, 8, 7), 2, 100)
    indices = spira.voxel_set(indices.to(DEVICE), (9, 8, 7), 2).indices()
    assert spira.voxel_set(indices, (9, 8, 7), 2).rows is None


def test_bad_indices():
    indices = random_indices((9, 8, 7), 2, 50).to(DEVICE)
    again = torch.cat([indices, indices[7:8]])
    raises(f"duplicate voxel; first row: {len(indices)}", lambda: spira.voxel_set(again, (9, 8, 7), 2))
    raises("outside", lambda: spira.voxel_set(indices, (9, 8, 6), 2))
    raises("outside", lambda: spira.voxel_set(indices, (9, 8, 7), 1))
    raises("outside", lambda: spira.voxel_set(indices - 1, (9, 8, 7), 2))
    raises("indices: int32", lambda: spira.voxel_set(indices.long(), (9, 8, 7), 2))
    raises("indices: int32", lambda: spira.voxel_set(indices[:, :2], (9, 8, 7), 2))
    raises("spatial_shape", lambda: spira.voxel_set(indices, (9, 8), 2))
    raises("spatial_shape", lambda: spira.voxel_set(indices, (9, 0, 7), 2))
    raises("do not fit", lambda: spira.voxel_set(indices, (1 << 24, 1 << 24, 1 << 24), 2))
    raises("batch_size", lambda: spira.voxel_set(indices, (9, 8, 7), 0))


def test_messages_use_no_stream():
    """A C++ stream has no locale where libstdc++ is linked into the library: message, convert.h."""
    import glob, os
    files = glob.glob(os.path.join(cases.ROOT, "examples", "torch", "csrc", "**", "*.*"),
                      recursive=True)
    assert len(files) > 20
    for file in files:
        with open(file) as text:
            text = text.read()
        for word in ("TORCH_CHECK", "TORCH_INTERNAL_ASSERT", "stringstream", "to_string",
                     "iostream", "c10::str("):
            assert word not in text, f"{file}: {word}"
    whole = "spatial_shape: 0; 1 to 2^24 voxels are supported on each axis"
    raises(whole, lambda: ops.word_layout([9, 0, 7], 2, 1))
    x = torch.zeros(3, 4, device=DEVICE)
    raises("second: [2, 4] cannot stand beside [3, 4]", lambda: ops.join(x, x[:2]))
    raises("second: Half, but first is Float", lambda: ops.join(x, x.half()))
    raises("second: [1, 2, 1, 1,", lambda: ops.join(x, x.new_zeros([1, 2] + [1] * 60)))


def test_expand_is_spconvs_rule():
    for seed in range(12):
        random = torch.Generator().manual_seed(seed)
        n = 2 + seed % 2
        def draw(lo, hi):
            return torch.randint(lo, hi + 1, (n,), generator=random).tolist()
        shape, size, stride, wide = draw(8, 12), draw(1, 3), draw(1, 3), draw(1, 2)
        pad = [min(p, s - 1) for p, s in zip(draw(0, 2), size)]
        indices = random_indices(shape, 2, 60, seed)
        made = spira.expand(spira.voxel_set(indices.to(DEVICE), shape, 2), size, stride, pad, wide)
        voxels, extent = reference.expand(indices, shape, size, stride, pad, wide)
        assert made.spatial_shape == extent
        assert [tuple(v) for v in made.indices().tolist()] == voxels
        if any(e + 2 * p < d * (s - 1) + 1 for e, p, d, s in zip(extent, pad, wide, size)):
            continue
        again = spira.expand(made, size, 1, pad, wide)
        voxels, extent = reference.expand(made.indices().cpu(), extent, size, 1, pad, wide)
        assert [tuple(v) for v in again.indices().tolist()] == voxels


def test_sets_with_capacities():
    indices = random_indices((9, 8, 7), 2, 100).to(DEVICE)
    rows = len(indices)
    wild = torch.full((30, 4), -77, dtype=torch.int32, device=DEVICE)
    count = torch.tensor([rows], dtype=torch.int32, device=DEVICE)
    voxels = spira.voxel_set(torch.cat([indices, wild]), (9, 8, 7), 2, count=count)
    exact = spira.voxel_set(indices, (9, 8, 7), 2)
    assert not voxels.exact and voxels.capacity == rows + 30 and voxels.count.item() == rows
    assert torch.equal(voxels.indices()[:rows], exact.indices())
    assert (voxels.indices()[rows:] == -1).all()
    coarse = spira.expand(voxels, 3, 2, 1, capacity=400)
    other = spira.expand(exact, 3, 2, 1)
    coarse.check()
    assert coarse.capacity == 400 and coarse.count.item() == other.capacity
    a, b = spira.narrow([voxels, coarse])
    assert a.exact and torch.equal(a.words, exact.words) and torch.equal(b.words, other.words)
    short = spira.expand(voxels, 3, 2, 1, capacity=20)
    raises(f"capacity: a capacity was exceeded; needed: {other.capacity}", short.check)
    raises("capacity", lambda: spira.narrow([short]))
    twice = spira.voxel_set(torch.cat([indices, indices[:1]]), (9, 8, 7), 2, count=count + 1)
    raises("duplicate", twice.check)


# ---- sets from features -------------------------------------------------------------------------

# x, y, z of the voxels A to F whose subsets and children were worked out by hand.
SIX = ((0, 0, 0), (0, 0, 1), (0, 1, 1), (1, 0, 0), (1, 1, 1), (3, 2, 0))


def set_of(voxels, extent, batch=1):
    """The set of x, y, z or batch, x, y, z."""
    rows = [(v[0] if len(v) == 4 else 0, *reversed(v[-3:])) for v in voxels]
    return spira.voxel_set(torch.tensor(rows, dtype=torch.int32, device=DEVICE).reshape(-1, 4),
                           (extent,) * 3, batch)


def xyz(voxels):
    return [tuple(reversed(v[1:])) for v in voxels.indices().tolist()]


def test_sets_from_features_worked_out():
    voxels = set_of(SIX, 4)
    values = torch.arange(1.0, 7, device=DEVICE).unsqueeze(1)
    kept, taken = spira.prune(voxels, torch.tensor([1, 0, 1, 1, 0, 1], device=DEVICE).bool())
    assert xyz(kept) == [SIX[i] for i in (0, 2, 3, 5)]
    assert taken.take(values).flatten().tolist() == [1, 3, 4, 6]
    none = [-1.0] * 8
    logits = torch.tensor([[1.0] + none[1:], none[1:] + [2.0],
                           [.5, .25, 0, -0.0, torch.nan, -1, 1e-7, -1], none, [3.0] * 8,
                           [-1, -1, 1, -1, 1, -1, -1, -1]], device=DEVICE)
    raises("choice: a NaN or an infinity; first row: 2", lambda: spira.subdivide(voxels, logits))
    loose, taken = spira.subdivide(voxels, logits, capacity=20) # a NaN makes no child
    raises("indices: a NaN or an infinity; first row: 2", loose.check)
    assert loose.count.item() == 15 and taken.source[15:].tolist() == [-1] * 5
    children = [(0, 0, 0, 0), (0, 2, 2, 20), (0, 3, 3, 26), (1, 1, 3, 17), (1, 2, 2, 21),
                (2, 2, 2, 40), (2, 2, 3, 44), (2, 3, 2, 42), (2, 3, 3, 46), (3, 2, 2, 41),
                (3, 2, 3, 45), (3, 3, 2, 43), (3, 3, 3, 47), (6, 4, 1, 54), (6, 5, 0, 52)]
    made, taken = spira.subdivide(voxels, logits.nan_to_num(-1.0))
    assert xyz(made) == [c[:3] for c in children] and made.spatial_shape == [8, 8, 8]
    numbers = (10.0 * torch.arange(6).unsqueeze(1) + torch.arange(8)).to(DEVICE)
    assert taken.take(numbers).flatten().tolist() == [c[3] for c in children]
    skip = taken.take(torch.arange(16.0, device=DEVICE).repeat(6, 1), repeat=4)
    assert skip[0].tolist() == [0] * 4 + [1] * 4 and skip[10].tolist() == [10] * 4 + [11] * 4
    everything, taken = spira.subdivide(voxels) # a generative layer of size and stride 2
    assert everything.capacity == 48 and (taken.back >= 0).all()
    up = spira.kernel_map(everything, spira.choose.divisible(voxels), 2).reverse()
    weight = torch.arange(1.0, 9, device=DEVICE).view(2, 2, 2) # 1 + 4 dx + 2 dy + dz
    sums = spira.conv(values, weight.permute(2, 1, 0).reshape(1, 2, 2, 2, 1), None, up).flatten()
    assert sums.sum() == 756 and dict(zip(xyz(everything), sums.tolist()))[3, 3, 3] == 40


def grown(voxels, bits):
    """Children in a set's order, with 8 row + number: a loop."""
    made = []
    for row, v in enumerate(voxels.indices().tolist()):
        made += [((v[0], *(2 * v[a] + (s >> (3 - a) & 1) for a in (1, 2, 3))), 8 * row + s)
                 for s in range(8) if bits[row] >> s & 1]
    return sorted(made, key=lambda m: (m[0][0], *reversed(m[0][1:])))


def test_children_and_their_gradient():
    """Twice in a row; sets of users and of strided layers, whose origin has moved; both words."""
    for shape, moved in (((9, 8, 7), False), ((9, 8, 7), True), ((4000, 60000, 50000), False)):
        indices = random_indices((9, 8, 7), 2, 60)
        voxels = spira.voxel_set(indices.to(DEVICE), shape, 2)
        if moved:
            voxels = spira.expand(voxels, 3, 2, 2)
        for step in range(2):
            logits = random_like((voxels.capacity, 8), 3 + step).to(DEVICE)
            bits = sum((logits[:, s] > 0.25).int() << s for s in range(8))
            expected = grown(voxels, bits.tolist())
            made, taken = spira.subdivide(voxels, logits, 0.25)
            assert [tuple(v) for v in made.indices().tolist()] == [v for v, _ in expected]
            assert taken.source.tolist() == [s for _, s in expected]
            for choice in (bits.to(torch.uint8), logits > 0.25):
                again = spira.subdivide(voxels, choice, 0.25)[0]
                assert torch.equal(again.words, made.words)
            assert made.spatial_shape == [2 * n for n in voxels.spatial_shape]
            x = random_like((voxels.capacity, 24), 1).to(DEVICE).requires_grad_()
            y = taken.take(x, 2)
            plain = x.detach().reshape(-1, 3)[taken.source.long()].repeat_interleave(2, 1)
            assert torch.equal(y, plain)
            y.backward(torch.ones_like(y))
            there = torch.zeros(8 * voxels.capacity, 1, device=DEVICE)
            there[taken.source.long()] = 2
            assert torch.equal(x.grad.view(-1, 3), there.expand(-1, 3))
            at = made.indices().cpu()
            table = spira.kernel_map(made, made, 3).table().cpu()
            own = reference.table(at, at, 3, 1, 1, 1).view(-1, 3, 3, 3).transpose(1, 3)
            assert torch.equal(table, own.reshape(-1, 27).int())
            voxels = made


def test_subsets_and_their_gradient():
    voxels = spira.voxel_set(random_indices((9, 8, 7), 3, 200).to(DEVICE), (9, 8, 7), 3)
    x = random_like((voxels.capacity, 5), 1).to(DEVICE).requires_grad_()
    scores = x.detach()[:, 2].round(decimals=1)
    for choice in (scores, scores > 0):
        kept, taken = spira.prune(voxels, choice)
        rows = (scores > 0).nonzero()[:, 0]
        assert torch.equal(kept.indices(), voxels.indices()[rows])
        assert torch.equal(taken.source.long(), rows)
    y = taken.take(x)
    grad = random_like(y.shape, 2).to(DEVICE)
    y.backward(grad)
    assert torch.equal(x.grad[rows], grad) and not x.grad[scores <= 0].any()
    none, taken = spira.prune(voxels, scores > 99)
    assert none.capacity == 0 and taken.take(x).shape == (0, 5)
    loose, taken = spira.prune(voxels, scores, capacity=voxels.capacity)
    assert torch.equal(loose.words[:len(rows)], kept.words)
    short, _ = spira.prune(voxels, scores, capacity=10)
    raises(f"capacity: a capacity was exceeded; needed: {len(rows)}", short.check)
    raises("choice:", lambda: spira.prune(voxels, scores[1:]))
    raises("features:", lambda: taken.take(x[1:]))
    # The largest of each batch element: ties by the order of the voxels, never NaN.
    scores[7] = torch.nan
    mask = spira.largest(voxels, scores, 20).cpu()
    batch = voxels.indices()[:, 0].cpu()
    for b in range(3):
        of = [(-scores[i].item(), i) for i in (batch == b).nonzero()[:, 0].tolist() if i != 7]
        assert sorted(i for _, i in sorted(of)[:20]) == (mask & (batch == b)).nonzero()[:, 0].tolist()


def test_unions_and_members():
    shape = (9, 8, 7)
    sets = [spira.voxel_set(random_indices(shape, 2, n, n).to(DEVICE), shape, 2)
            for n in (150, 90, 40)]
    a, b, c = ({tuple(v) for v in s.indices().tolist()} for s in sets)
    rows = lambda s: {tuple(v) for v in s.indices().tolist()}
    both = spira.union(*sets)
    assert rows(both) == a | b | c and both.capacity == len(a | b | c)
    where = spira.find(sets[0], sets[1])
    assert rows(spira.prune(sets[0], where >= 0)[0]) == a & b
    assert rows(spira.prune(sets[0], where < 0)[0]) == a - b
    sums = 0
    for s in sets: # the features of a union
        x = torch.ones(s.capacity, 2, device=DEVICE, requires_grad=True)
        sums = sums + spira.permute_rows(x, spira.find(both, s), spira.find(s, both))
    assert sums[:, 0].tolist() == [(tuple(v) in a) + (tuple(v) in b) + (tuple(v) in c)
                                   for v in both.indices().tolist()]
    sums.sum().backward()
    assert (x.grad == 1).all()
    raises("a capacity was exceeded", spira.union(*sets, capacity=9).check)
    raises("sets:", lambda: spira.union(sets[0], spira.expand(sets[1], 3, 2)))
    nothing = spira.prune(sets[0], where > 1 << 20)[0]
    assert rows(spira.union(nothing, sets[1])) == b and spira.union(nothing, nothing).capacity == 0


def test_curves():
    """Codes that were worked out: z, z-trans, hilbert, hilbert-trans."""
    codes = {(0, 0, 1): (1, 1, 3, 3), (0, 1, 0): (2, 4, 7, 1), (1, 0, 0): (4, 2, 1, 7),
             (1, 2, 3): (29, 43, 48, 38), (5, 0, 2): (268, 138, 479, 205),
             (7, 7, 7): (511, 511, 365, 365)}
    voxels = set_of([(b, *v) for v in codes for b in (0, 1)], 8, 2)
    for k, kind in enumerate(spira.choose.CURVES):
        code, order, rank = spira.curve(voxels, kind)
        wanted = [v[0] << 9 | codes[tuple(reversed(v[1:]))][k] for v in voxels.indices().tolist()]
        assert code.tolist() == wanted
        assert order.tolist() == sorted(range(12), key=lambda i: wanted[i])
        assert torch.equal(order[rank.long()].cpu(), torch.arange(12, dtype=torch.int32))
    raises("kind", lambda: spira.curve(voxels, "peano"))
    raises("depth", lambda: spira.curve(voxels, "z", 17))


# ---- between points and voxels ------------------------------------------------------------------

def test_interpolation_worked_out():
    """Six voxels, 1 to 6: plain and renormalised, at corners and at centres."""
    voxels, values = set_of(SIX, 4), torch.arange(1.0, 7, device=DEVICE).unsqueeze(1)
    points = torch.tensor([(.25, .5, .5), (.75, .75, .75), (3.5, 2.5, .5), (2.5, 1.5, 0),
                           (-.25, 0, 0), (9, 9, 9)], device=DEVICE).flip(1)
    wanted = {("zeros", False): (1.6875, 2.828125, .75, 1.5, .75, 0),
              ("renormalise", False): (2.454545, 4.209302, 6, 6, 1, 0),
              ("zeros", True): (.75, 1.484375, 6, 0, .0625, 0),
              ("renormalise", True): (1, 1.938776, 6, 0, 1, 0),
              ("nearest", False): (1, 1, 6, 0, 0, 0)}
    for (kind, centred), expected in wanted.items():
        made = spira.interpolate(voxels, points, None, kind, centred).to_points(values)
        cases.close(made, torch.tensor(expected).unsqueeze(1), 1e-6, kind)
    raises("kind", lambda: spira.interpolate(voxels, points, None, "cubic"))
    raises("batch", lambda: spira.interpolate(voxels, points, torch.zeros(3).int().to(DEVICE)))
    raises("points", lambda: spira.interpolate(voxels, points[:, :2]))


def test_interpolation_and_its_way_back():
    """Of sets whose origin and spacing are others, in every type: each is the other's gradient."""
    fine = spira.voxel_set(random_indices((9, 8, 7), 2, 200).to(DEVICE), (9, 8, 7), 2)
    for voxels in (fine, spira.expand(fine, 3, 2, 2)):
        random = torch.Generator().manual_seed(1)
        points = torch.rand(70, 3, generator=random) * torch.tensor([9.0, 8, 7])
        batch = torch.randint(0, 2, (70,), generator=random)
        made = spira.interpolate(voxels, points.to(DEVICE), batch.to(DEVICE), "zeros")
        at = voxels.indices().double().cpu()
        weight = (1 - (points[:, None].double() - at[:, 1:]).abs()).clamp(min=0).prod(2)
        weight = weight * (batch[:, None] == at[:, 0]) # [points, voxels]
        for type in TYPES:
            x, p = (random_like((n, 11), n, type).to(DEVICE).requires_grad_()
                    for n in (voxels.capacity, 70))
            y, v = made.to_points(x), made.to_voxels(p)
            y.backward(p.detach()), v.backward(x.detach())
            a, b = (t.detach().double().cpu() for t in (x, p))
            for value, expected, scale in (
                    (y, weight @ a, weight @ a.abs()), (p.grad, weight @ a, weight @ a.abs()),
                    (v, weight.t() @ b, weight.t() @ b.abs()), (x.grad, weight.t() @ b,
                                                                weight.t() @ b.abs())):
                assert value.dtype == type
                close(value.detach(), expected, scale + 1e-3, type, "interpolation")
    x = random_like((fine.capacity, 3), 1).to(DEVICE).requires_grad_()
    near = spira.interpolate(fine, fine.indices()[:, 1:] + 0.5, fine.indices()[:, 0], "nearest")
    assert torch.equal(near.to_points(x), x) and torch.equal(near.to_voxels(x), x)
    nothing = spira.interpolate(fine, points[:0].to(DEVICE))
    assert nothing.to_points(x).shape == (0, 3) and not nothing.to_voxels(x[:0]).any()
    torch.library.opcheck(ops.blend.default, (x, near.index, near.weight, near.begin, near.order))
    torch.library.opcheck(ops.splat.default, (x, near.index, near.weight, near.begin, near.order))


# ---- convolution --------------------------------------------------------------------------------

def test_conv_and_gradients():
    for number, case in enumerate(CASES):
        compare(Case(*case, seed=number), 5, 7, torch.float32)


def test_conv_of_types():
    for way in (("same", 3), ("strided", 3, 2, 1), ("inverse", 2, 2)):
        case = Case(*way)
        for type in TYPES:
            compare(case, 16, 32, type)
            compare(case, 16, 32, type, torch.float32)


def test_conv_of_channels():
    case = Case("same", 3, voxels=300)
    for cin, cout in ((1, 1), (4, 64), (16, 16), (3, 96), (32, 48), (64, 64), (72, 40)):
        compare(case, cin, cout, torch.float32)
        compare(case, cin, cout, torch.float16)


def test_groups():
    """Depthwise and grouped layers over all kinds of maps, and in every type."""
    for number, way in enumerate((("same", 3), ("same", 1), ("same", 2), ("strided", 3, 2, 1),
                                  ("inverse", 3, 2, 1), ("strided", 2, 2))):
        for cin, cout, groups in ((4, 4, 4), (6, 4, 2), (24, 24, 24), (16, 32, 8)):
            compare(Case(*way, seed=number), cin, cout, torch.float32, None, groups)
    case = Case("same", (1, 3, 5), voxels=300)
    for type in TYPES:
        compare(case, 40, 40, type, torch.float32, 40)
        compare(case, 32, 64, type, None, 2)
    compare(Case("same", 3, shape=(30, 25)), 6, 9, torch.float32, None, 3)
    double = [random_like(shape, 1, torch.float64).to(DEVICE)
              for shape in ((case.inputs, 6), (4, *case.size, 3), (4,))]
    single = spira.conv(*(t.float() for t in double), case.map, 2)
    cases.close(spira.conv(*double, case.map, 2), single, 1e-5)
    x, w, b = (t.float() for t in double)
    raises("weight: 9 input channels", lambda: spira.conv(x, w, b, case.map, 3))
    raises("groups: 3 does not divide", lambda: spira.conv(x, w[..., :2], b, case.map, 3))
    raises("weight: 3 input channels", lambda: spira.conv(x, w, b, case.map))


def test_groups_in_capacity_mode():
    indices, count = padded_indices()
    padded = spira.voxel_set(indices, (9, 8, 7), 2, count=count)
    exact = spira.voxel_set(indices[:len(indices) - 20], (9, 8, 7), 2)
    made = []
    for voxels in (padded, exact):
        x = random_like((exact.capacity, 8), 1).to(DEVICE)
        x = torch.cat([x, x.new_full((voxels.capacity - len(x), 8), torch.nan)]).requires_grad_()
        w = random_like((8, 3, 3, 3, 2), 2).to(DEVICE).requires_grad_()
        down = spira.kernel_map(voxels, spira.expand(voxels, 3, 2, 1), 3)
        y = spira.conv(spira.conv(x, w, None, down, 4), w, None, down.reverse(), 4)
        y[:exact.capacity].square().sum().backward()
        made.append((y[:exact.capacity], x.grad[:exact.capacity], w.grad))
    assert all(torch.equal(a, b) for a, b in zip(*made))
    assert not y[exact.capacity:].any()


def test_conv_in_two_dimensions():
    compare(Case("same", 3, shape=(30, 25)), 6, 8, torch.float32)
    compare(Case("strided", (3, 2), 2, (1, 0), shape=(30, 25)), 6, 8, torch.float32)
    compare(Case("inverse", 3, 2, 1, shape=(30, 25)), 6, 8, torch.float32)


def test_conv_of_wide_words():
    indices = random_indices((9, 8, 7), 2, 100)
    far = spira.voxel_set(indices.to(DEVICE), (9000, 80000, 7000), 2)
    near = spira.voxel_set(indices.to(DEVICE), (9, 8, 7), 2)
    assert far.words.dtype == torch.int64 and near.words.dtype == torch.int32
    a, b = (spira.kernel_map(v, v, 3).table() for v in (far, near))
    assert torch.equal(a, b)


def test_kernels_that_reach_beyond_the_words():
    indices = random_indices((90, 80, 70), 2, 300)
    voxels = spira.voxel_set(indices.to(DEVICE), (90, 80, 70), 2)
    wide = spira.sets.layout_reach(voxels.layout) + 1
    there = voxels.indices().cpu()
    taps = reference.table(there, there, 3, 1, wide, wide)
    kmap = spira.kernel_map(voxels, voxels, 3, wide)
    assert torch.equal((taps >= 0).sum(1), (kmap.table() >= 0).sum(1).cpu())
    far = spira.expand(voxels, 3, 2, wide, wide)  # moves the origin, and packs the words anew
    rows, extent = reference.expand(indices, (90, 80, 70), 3, 2, wide, wide)
    assert far.spatial_shape == extent and [tuple(v) for v in far.indices().tolist()] == rows
    taps = reference.table(there, far.indices().cpu(), 3, 2, wide, wide)
    found = spira.kernel_map(voxels, far, 3, wide).table()
    assert torch.equal((taps >= 0).sum(1), (found >= 0).sum(1).cpu())


def test_maps_are_shared():
    case = Case("strided", 3, 2, 1)
    x = random_like((case.inputs, 4), 1).to(DEVICE).requires_grad_()
    w = random_like((4, 3, 3, 3, 4), 2).to(DEVICE).requires_grad_()
    back = case.map.reverse()
    spira.conv(spira.conv(x, w, None, case.map), w, None, back).sum().backward()
    forms = set(case.map.store)
    assert len(forms) == 3, f"{forms}: one form for each direction, and pairs"
    spira.conv(spira.conv(x, w, None, case.map), w, None, back).sum().backward()
    assert set(case.map.store) == forms
    same = Case("same", 3)
    spira.conv(random_like((same.inputs, 4), 1).to(DEVICE).requires_grad_(), w, None, same.map)
    assert len(same.map.store) == 2, "a submanifold layer needs one map, and pairs"


def test_only_wanted_gradients():
    case = Case("strided", 3, 2, 1)
    x, w = random_like((case.inputs, 4), 1).to(DEVICE), random_like((6, 3, 3, 3, 4), 2).to(DEVICE)
    with torch.no_grad():
        spira.conv(x, w.requires_grad_(), None, case.map)
    assert len(case.map.store) == 1, "without gradients there is the layer's map alone"
    spira.conv(x, w, None, case.map).sum().backward()
    assert w.grad is not None and x.grad is None and len(case.map.store) == 2


def test_weight_gradients_are_deterministic():
    case = Case("same", 3, voxels=400, seed=3)
    x = random_like((case.inputs, 32), 1, torch.float16).to(DEVICE)
    w = random_like((32, 3, 3, 3, 32), 2).to(DEVICE).requires_grad_()
    grad = random_like((case.count, 32), 3, torch.float16).to(DEVICE)
    first = None
    for _ in range(100 if DEVICE == "cuda" else 3):
        w.grad = None
        spira.conv(x, w, None, case.map).backward(grad)
        assert first is None or torch.equal(first, w.grad)
        first = w.grad


def test_capacity_mode():
    indices = random_indices((9, 8, 7), 2, 100).to(DEVICE)
    rows = len(indices)
    count = torch.tensor([rows], dtype=torch.int32, device=DEVICE)
    wild = torch.full((41, 4), 123456, dtype=torch.int32, device=DEVICE)
    padded = spira.voxel_set(torch.cat([indices, wild]), (9, 8, 7), 2, count=count)
    exact = spira.voxel_set(indices, (9, 8, 7), 2)
    results = []
    for voxels, capacity in ((padded, 333), (exact, None)):
        coarse = spira.expand(voxels, 3, 2, 1, capacity=capacity)
        same = spira.kernel_map(voxels, voxels, 3)
        down = spira.kernel_map(voxels, coarse, 3)
        x = random_like((rows, 8), 1)
        x = torch.cat([x, torch.full((voxels.capacity - rows, 8), float("nan"))]).to(DEVICE)
        x.requires_grad_()
        w = [random_like((8, 3, 3, 3, 8), i).to(DEVICE).requires_grad_() for i in range(4)]
        b = random_like((8,), 9).to(DEVICE).requires_grad_()
        sorted_x = voxels.rows.sort(x)
        y = spira.conv(sorted_x, w[0], b, same)
        z = spira.conv(y, w[1], b, down)
        p = spira.max_pool(y, down)
        u = spira.conv(z + p, w[2], b, down.reverse())
        dense = spira.dense(z, coarse)
        out = voxels.rows.unsort(u)
        (out * out).sum().backward(retain_graph=True)
        dense.backward(torch.ones_like(dense))
        for t, n in ((y, rows), (z, coarse.count.item()), (p, coarse.count.item()), (out, rows),
                     (x.grad, rows)):
            assert (t[n:] == 0).all(), "rows behind the count"
        results.append([out[:rows], x.grad[:rows], dense, b.grad, *(t.grad for t in w[:3])])
    for a, b in zip(*results):
        assert torch.allclose(a, b, rtol=1e-5, atol=1e-4 * b.abs().max().item())


# ---- pooling, dense maps ------------------------------------------------------------------------

def test_pools():
    """The maximum is exact, and so is its gradient where no two values are equal."""
    for way in (("strided", 3, 2, 1), ("strided", 2, 2), ("same", 3)):
        case = Case(*way)
        for type in TYPES:
            values = torch.randperm(case.inputs * 3, generator=torch.Generator().manual_seed(1))
            distinct = type == torch.float32
            values = (values.view(-1, 3) % (1 << 24 if distinct else 256)).to(type)
            for ours, theirs, terms in ((spira.max_pool, reference.max_pool,
                                         27 if way[0] == "same" else 1),
                                        (spira.avg_pool, reference.avg_pool, 27)):
                x = leaf(values)
                wide = values.double().requires_grad_()
                y, expected = ours(x, case.map), theirs(wide, case.taps)
                close(y.detach(), expected.detach(), expected.detach().abs() + 1, type, "output")
                if ours is spira.max_pool:
                    assert torch.equal(y.double().cpu(), expected)
                    if not distinct:
                        continue  # another order of offsets takes another winner
                grad = random_like(y.shape, 4, type)
                y.backward(grad.to(DEVICE))
                expected.backward(grad.double())
                close(x.grad, wide.grad, wide.grad.abs() + terms, type, "gradient")


def test_dense():
    for shape in ((9, 8, 7), (30, 25)):
        indices = random_indices(shape, 3, 120)
        voxels = spira.voxel_set(indices.to(DEVICE), shape, 3)
        coarse = spira.expand(voxels, 3, 2, 1)
        for s in (voxels, coarse):
            for type in TYPES:
                values = random_like((s.capacity, 5), 1, type)
                x = leaf(values)
                wide = values.double().requires_grad_()
                y = spira.dense(x, s)
                expected = reference.dense(wide, s.indices().cpu(), 3, s.spatial_shape)
                assert y.shape == (3, 5, *s.spatial_shape)
                assert torch.equal(y.double().cpu(), expected)
                grad = random_like(y.shape, 4, type)
                y.backward(grad.to(DEVICE))
                expected.backward(grad.double())
                assert torch.equal(x.grad.double().cpu(), wide.grad)


# ---- PyTorch ------------------------------------------------------------------------------------

def test_errors_name_the_argument():
    case = Case("same", 3)
    x, w = torch.zeros(case.inputs, 4, device=DEVICE), torch.zeros(6, 3, 3, 3, 4, device=DEVICE)
    conv = lambda *a: spira.conv(*a, case.map)
    raises("features:", lambda: conv(x[1:], w, None))
    raises("features:", lambda: conv(x[0], w, None))
    raises("features: torch.float8", lambda: conv(x.to(torch.float8_e4m3fn), w, None))
    raises("features:", lambda: conv(x.int(), w, None))
    raises("weight: 4 input channels", lambda: conv(x[:, :3], w, None))
    raises("weight:", lambda: conv(x, w[:, 1:], None))
    raises("weight:", lambda: conv(x, w[..., 0], None))
    raises("weight: Double", lambda: conv(x, w.double(), None))
    raises("bias:", lambda: conv(x, w, x[0]))
    raises("dimensions", lambda: spira.kernel_map(case.source, case.source, (3, 3)))
    raises("kernel size", lambda: spira.kernel_map(case.source, case.source, 17).table())
    raises("kernel_size", lambda: spira.expand(case.source, 15))
    raises("features:", lambda: spira.max_pool(x[1:], case.map))
    raises("features:", lambda: spira.dense(x[1:], case.source))
    raises("inverse", lambda: spira.permute_rows(x[1:], case.source.rows.to_sorted,
                                                 case.source.rows.from_sorted))
    other = torch.device("meta") if DEVICE == "cpu" else torch.device("cpu")
    if DEVICE != "cpu":
        raises("weight: on cpu", lambda: conv(x, w.to(other), None))
        raises("bias: on cpu", lambda: conv(x, w, torch.zeros(6)))
        raises("features: on cpu", lambda: conv(x.to(other), w, None))


def test_weights_that_are_not_finite():
    case = Case("same", 3)
    x = torch.zeros(case.inputs, 4, device=DEVICE)
    for type, value in ((torch.float32, float("inf")), (torch.float16, 65520.0),
                        (torch.bfloat16, float("nan"))):
        w = torch.zeros(6, 3, 3, 3, 4, device=DEVICE)
        w[0, 0, 0, 0, 2] = value  # spira's order: offset, input, output

        def run():
            spira.conv(x.to(type), w, None, case.map)
            if DEVICE == "cuda":
                spira.check_weights()
        raises("weight: a weight that is not finite in the layer's format; its index: 12", run)
        w[0, 0, 0, 0, 2] = 65519.0
        run()


def arguments(case, type=torch.float32):
    """Arguments of ops.conv, made by the Python layer."""
    x = random_like((case.inputs, 4), 1, type).to(DEVICE).requires_grad_()
    w = random_like((6, *case.size, 4), 2).to(DEVICE).requires_grad_()
    b = random_like((6,), 3).to(DEVICE).requires_grad_()
    pairs, exchanged = case.map.pairs()
    return (x, w, b, case.map.layout(), case.map.gradient_layout(), pairs,
            case.map.source.count, case.map.outputs.count, case.count, case.map.kernel(),
            4 if exchanged else 0)


def test_opcheck():
    check = torch.library.opcheck
    # Gradients of sparse convolution are not differentiated again.
    for way in (("same", 3), ("strided", 3, 2, 1), ("inverse", 2, 2), ("same", 1)):
        case = Case(*way, voxels=40)
        check(ops.conv.default, arguments(case))
        x, w, *others = arguments(case)
        w = w.detach().permute(3, 2, 1, 4, 0).contiguous().permute(4, 2, 1, 0, 3).requires_grad_()
        check(ops.conv.default, (x, w, *others)) # a weight in the operators' order
    case = Case("strided", 3, 2, 1, voxels=40)
    a, b = case.source, case.outputs
    layout, kernel = list(a.layout), case.map.kernel()
    x = random_like((case.inputs, 4), 1).to(DEVICE).requires_grad_()
    check(ops.permute_rows.default, (x, a.rows.to_sorted, a.rows.from_sorted))
    check(ops.pool.default, (x, case.map.table(), case.map.reverse().table(), a.count, b.count, 0,
                             0))
    grid = [*a.origin, *a.spacing, *a.extent]
    check(ops.dense.default, (x, a.words, a.count, layout, grid, a.batch_size, 0))
    check(ops.voxelize.default, (a.indices(), None, layout, list(a.extent)))
    check(ops.unpack.default, (a.words, a.count, layout, [0, 0, 0], [1, 1, 1], 3))
    wide = list(spira.sets.word_layout(a.scene, 2, 5000))
    check(ops.repack.default, (a.words, a.count, layout, wide, [0, 0, 0], 1))
    some = ("test_schema", "test_faketensor")
    scores = random_like((a.capacity,), 4).to(DEVICE)
    check(ops.choose.default, (a.words, a.count, layout, [], scores, 0.0, 500), test_utils=some)
    check(ops.choose.default, (a.words, a.count, layout, [2, 2, 2], None, 0.0, 500),
          test_utils=some)
    check(ops.choose_largest.default, (a.words, a.count, layout, scores, 5))
    check(ops.find_rows.default, (a.words, a.count, a.words, a.count, layout))
    check(ops.unite.default, ([a.words, a.words], [a.count, a.count], layout, 500), test_utils=some)
    check(ops.curve.default, (a.words, a.count, layout, [0, 0, 0, 1, 1, 1], 4, 2))
    rule = [2, 2, 2, 1, 1, 1, *a.origin, *a.extent]
    check(ops.expand.default, (a.words, a.count, layout, kernel, rule, 500),
          test_utils=("test_schema", "test_faketensor", "test_autograd_registration"))
    sets = (a.words, a.count, b.words, b.count, layout, kernel)
    check(ops.map_table.default, sets)
    check(ops.map_pairs.default, (*sets, 3000), test_utils=("test_schema", "test_faketensor"))
    if DEVICE == "cuda":
        check(ops.map_layout.default, sets,
              test_utils=("test_schema", "test_faketensor"))
    mask = [True, True, True]
    x, w, _, layout, back, pairs, n, m, _, kernel, flags = arguments(case)
    grad = random_like((case.count, 6), 3).to(DEVICE)
    check(ops.conv_backward.default, (grad, x.detach(), w.detach(), back, pairs, n, m, kernel,
                                      flags, mask))
    vectors = [random_like((6,), i).to(DEVICE).abs() for i in range(4)]
    check(ops.conv_norm_eval.default, (x.detach(), w.detach(), None, layout, m, case.count, kernel,
                                       flags, None, *vectors, 1e-3, True))
    batches = torch.zeros((), dtype=torch.int64, device=DEVICE)
    scale = [v.clone().requires_grad_() for v in vectors[:2]]
    for residual in (None, random_like((case.count, 6), 5).to(DEVICE).requires_grad_()):
        check(ops.conv_norm.default, (x, w, None, layout, back, pairs, n, m, case.count, kernel,
                                      flags, residual, *scale, *vectors[2:], batches, 0.1, 1e-3,
                                      True, True))


def test_opcheck_of_norms():
    check = torch.library.opcheck
    x, r, g = (random_like((50, 6), i).to(DEVICE) for i in range(3))
    weight, bias, mean, var = (random_like((6,), i).to(DEVICE).abs() for i in range(4))
    count = torch.tensor([40], dtype=torch.int32, device=DEVICE)
    batches = torch.zeros((), dtype=torch.int64, device=DEVICE)
    for residual, number, relu in ((None, None, False), (r, None, True), (r, count, True)):
        leaves = [None if t is None else t.clone().requires_grad_() for t in (x, residual)]
        scale = [t.clone().requires_grad_() for t in (weight, bias)]
        check(ops.norm.default, (*leaves, number, *scale, mean, var, batches, 0.1, 1e-3, relu,
                                 True))
        y, centre, invstd = ops.norm(x, residual, number, weight, bias, None, None, None, 0.1, 1e-3,
                                     relu, False)
        check(ops.norm_apply.default, (x, residual, number, weight, bias, centre, invstd, relu))
        check(ops.norm_eval.default, (x, residual, number, weight, bias, mean, var, 1e-3, relu))
        check(ops.norm_backward.default, (g, x, y if residual is not None else None, number, weight,
                                          bias, centre, invstd, relu, residual is not None))
        again = ops.norm_apply(x, residual, number, weight, bias, centre, invstd, relu)
        assert torch.equal(again, y)
    check(ops.join.default, (x.requires_grad_(), r.clone().requires_grad_()))
    scale = [t.clone().requires_grad_() for t in (weight, bias)]
    voxels = spira.voxel_set(random_indices((9, 8, 7), 2, 60)[:50].to(DEVICE), (9, 8, 7), 2)
    at = voxels.words, voxels.count, list(voxels.layout), 3, 1e-3, 1 # of elements
    x = x[:voxels.capacity].detach().requires_grad_()
    g = g[:voxels.capacity]
    for kind in (spira.layers.LAYER, spira.layers.RMS):
        check(ops.norm_rows.default, (x, None, *scale, count, kind, 1e-3, 0, 1))
        check(ops.norm_rows.default, (x.detach(), g, weight, bias, count, kind, 1e-3, 3, 1))
        check(ops.norm_rows_backward.default, (g, x.detach(), weight, count, kind, 1e-3, 1))
    check(ops.norm_groups.default, (x, *scale, *at))
    check(ops.norm_groups_backward.default, (g, x.detach(), weight, *at))


def network(indices, count, x, w1, w2, w3):
    """A small U-Net from raw indices, in capacity mode: nothing is read back."""
    voxels = spira.voxel_set(indices, (9, 8, 7), 2, count=count)
    coarse = spira.expand(voxels, 3, 2, 1, capacity=300)
    down = spira.kernel_map(voxels, coarse, 3)
    same = spira.kernel_map(voxels, voxels, 3)
    x = torch.relu(spira.conv(voxels.rows.sort(x), w1, None, same))
    y = torch.relu(spira.conv(x, w2, None, down))
    return voxels.rows.unsort(spira.conv(y, w3, None, down.reverse()) + x)


def leaves(rows, type=torch.float32):
    made = [random_like((rows, 8), 1, type), *(random_like((8, 3, 3, 3, 8), i) for i in range(3))]
    return [t.to(DEVICE).requires_grad_() for t in made]


def padded_indices():
    indices = random_indices((9, 8, 7), 2, 100).to(DEVICE)
    count = torch.tensor([len(indices)], dtype=torch.int32, device=DEVICE)
    return torch.cat([indices, indices.new_full((20, 4), 5)]), count


def grads(call, tensors):
    for t in tensors:
        t.grad = None
    out = call(*tensors)
    (out.float() ** 2).sum().backward()
    return [out.detach(), *(t.grad for t in tensors)]


def test_compile_from_raw_indices():
    indices, count = padded_indices()
    tensors = leaves(len(indices))
    torch._dynamo.reset()
    whole = torch.compile(network, fullgraph=True, backend="aot_eager")
    expected = grads(lambda *t: network(indices, count, *t), tensors)
    for a, b in zip(grads(lambda *t: whole(indices, count, *t), tensors), expected):
        assert torch.equal(a, b)


def test_compile_with_maps():
    case, other = Case("strided", 3, 2, 1), Case("strided", 3, 2, 1, seed=7, voxels=220)
    def layers(x, w1, w2, w3, kmap):
        same = spira.kernel_map(kmap.source, kmap.source, 3)
        y = torch.relu(spira.conv(torch.relu(spira.conv(x, w1, None, same)), w2, None, kmap))
        return spira.conv(y, w3, None, kmap.reverse())
    torch._dynamo.reset()
    whole = torch.compile(layers, fullgraph=True, backend="aot_eager", dynamic=True)
    for c in (case, other):
        tensors = leaves(c.inputs)
        expected = grads(lambda *t: layers(*t, c.map), tensors)
        for a, b in zip(grads(lambda *t: whole(*t, c.map), tensors), expected):
            assert torch.equal(a, b)


def test_autocast():
    case = Case("same", 3)
    x, w, *_ = leaves(case.inputs)
    b = random_like((8,), 6).to(DEVICE).requires_grad_()
    with torch.autocast(DEVICE, dtype=torch.bfloat16):
        y = spira.conv(x, w, b, case.map)
        direct = ops.conv(x, w, b, case.map.layout(), None, None, case.source.count,
                          case.source.count, case.count, case.map.kernel(), 0)
        pooled = spira.max_pool(y, case.map)
    assert y.dtype == direct.dtype == pooled.dtype == torch.bfloat16 and torch.equal(y, direct)
    y.float().sum().backward()
    assert all(t.grad.dtype == torch.float32 for t in (x, w, b))
    expected = spira.conv(x.bfloat16(), w, b, case.map)
    assert torch.equal(y, expected)
    with torch.autocast(DEVICE, dtype=torch.bfloat16, enabled=False):
        assert spira.conv(x, w, b, case.map).dtype == torch.float32


def test_tf32():
    if DEVICE != "cuda":
        raise Skip("the CPU has no tf32")
    case = Case("same", 3, voxels=300)
    x, w = random_like((case.inputs, 64), 1).to(DEVICE), random_like((64, 3, 3, 3, 64), 2)
    w = w.to(DEVICE).requires_grad_()
    exact = spira.conv(x, w, None, case.map).detach()
    spira.layers.allow_tf32 = True
    try:
        rounded = spira.conv(x, w, None, case.map)
        rounded.sum().backward()
    finally:
        spira.layers.allow_tf32 = False
    error = (rounded - exact).abs().max() / exact.abs().max()
    assert 0 < error < 5e-3, error


if __name__ == "__main__":
    cases.run(globals())
