# tests/torch/ops_reference.py: what the operators of examples/torch are compared with: dictionaries
# of coordinates, index_select and matrix products of PyTorch, in double precision.
import itertools

import torch


def random_indices(shape, batch, voxels, seed=0):
    """Distinct voxels in random order, int32 [rows, 1 + D]."""
    random = torch.Generator().manual_seed(seed)
    columns = [torch.randint(0, s, (voxels,), generator=random) for s in (batch, *shape)]
    rows = torch.unique(torch.stack(columns, 1), dim=0)
    return rows[torch.randperm(len(rows), generator=random)].int().contiguous()


def tuples(value, n):
    return (value,) * n if isinstance(value, int) else tuple(value)


def expand(indices, shape, size, stride, padding, dilation):
    """The voxels and the shape of a strided layer by spconv's rule: o * stride - padding +
    tap * dilation = i for some tap. Sorted by (batch, x, y, z)."""
    n = len(shape)
    size, stride, padding, dilation = (tuples(v, n) for v in (size, stride, padding, dilation))
    out = [(shape[a] + 2 * padding[a] - dilation[a] * (size[a] - 1) - 1) // stride[a] + 1
           for a in range(n)]
    found = set()
    for row in indices.tolist():
        for tap in itertools.product(*map(range, size)):
            o = [row[1 + a] + padding[a] - tap[a] * dilation[a] for a in range(n)]
            if all(o[a] % stride[a] == 0 and 0 <= o[a] // stride[a] < out[a] for a in range(n)):
                found.add((row[0], *(o[a] // stride[a] for a in range(n))))
    return sorted(found, key=lambda v: (v[0], *reversed(v[1:]))), out


def table(source, outputs, size, stride, padding, dilation):
    """[outputs, volume]: the row of `source` that each offset reads, or -1. Offsets in the order
    of spconv's weights."""
    n = source.shape[1] - 1
    size, stride, padding, dilation = (tuples(v, n) for v in (size, stride, padding, dilation))
    rows = {tuple(v): i for i, v in enumerate(source.tolist())}
    taps = list(itertools.product(*map(range, size)))
    made = torch.full((len(outputs), len(taps)), -1)
    for o, v in enumerate(outputs.tolist()):
        for k, tap in enumerate(taps):
            at = (v[0], *(v[1 + a] * stride[a] - padding[a] + tap[a] * dilation[a]
                          for a in range(n)))
            made[o, k] = rows.get(at, -1)
    return made


def inverse(forward, inputs):
    """The table of the other direction: for each input and offset the output that reads it."""
    made = torch.full((inputs, forward.shape[1]), -1)
    for o, row in enumerate(forward.tolist()):
        for k, i in enumerate(row):
            if i >= 0:
                made[i, k] = o
    return made


def conv(features, weight, bias, taps):
    """features [inputs, cin], weight [cout, *size, cin], taps of `table`."""
    cout, cin = weight.shape[0], weight.shape[-1]
    padded = torch.cat([features, features.new_zeros(1, cin)])
    out = padded[taps].flatten(1) @ weight.reshape(cout, -1).t()
    return out if bias is None else out + bias


def max_pool(features, taps):
    """In the order of spira's offsets (x slowest) where values are equal: take distinct ones."""
    padded = torch.cat([features, features.new_full((1, features.shape[1]), -float("inf"))])
    return padded[taps].amax(1)


def avg_pool(features, taps):
    padded = torch.cat([features, features.new_zeros(1, features.shape[1])])
    return padded[taps].sum(1) / (taps >= 0).sum(1, keepdim=True)


def dense(features, indices, batch, shape):
    made = features.new_zeros(batch, *shape, features.shape[1])
    made = made.index_put(tuple(indices.long().t()), features)
    return made.movedim(-1, 1)
