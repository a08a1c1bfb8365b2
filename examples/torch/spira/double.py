# SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
"""Layers of float64 features, by PyTorch's operators over the tables of kernel maps: for gradcheck
and for judges. They have derivatives of any order, are slow, and need memory for each product."""
import torch


def table_of(kmap):
    """int64 [outputs, volume]: the source row of each offset, or -1."""
    if kmap.identity:
        return torch.arange(kmap.source.capacity, device=kmap.source.device).unsqueeze(1)
    return kmap.table().long()


def with_last(features, value):
    """Features and a row of one value, which is the row -1."""
    return torch.cat([features, features.new_full((1, features.shape[1]), value)])


def up_to_count(rows, voxels):
    """In capacity mode: zeros from the count on."""
    if voxels.exact:
        return rows
    return rows.masked_fill(torch.arange(len(rows), device=rows.device)[:, None] >= voxels.count, 0)


def conv(features, weight, bias, kmap, groups=1):
    source, table = with_last(features, 0).unflatten(1, (groups, -1)), table_of(kmap)
    axes = weight.dim() - 2 # of the kernel, z first
    taps = weight.double().permute(*range(axes, 0, -1), axes + 1, 0).flatten(0, axes - 1)
    taps = taps.unflatten(2, (groups, -1)) # [volume, Cin / groups, groups, Cout / groups]
    sums = sum(torch.einsum("ngi,igo->ngo", source[table[:, k]], taps[k])
               for k in range(kmap.volume)).flatten(1)
    return up_to_count(sums if bias is None else sums + bias, kmap.outputs)


def pool(features, kmap, maximum):
    table = table_of(kmap)
    values = with_last(features, -torch.inf if maximum else 0)[table]
    found = (table >= 0).sum(1, keepdim=True)
    made = values.max(1).values if maximum else values.sum(1) / found
    return made.masked_fill(found == 0, 0)


def pool_global(features, voxels, maximum):
    batch = voxels.indices()[:, 0]
    rows = [features[batch == b] for b in range(voxels.batch_size)]
    return torch.stack([r.new_zeros(r.shape[1]) if not len(r) else
                        r.max(0).values if maximum else r.mean(0) for r in rows])


def dense(features, voxels):
    indices = voxels.indices().long()
    kept = indices[:, 0] >= 0
    made = features.new_zeros(voxels.batch_size, *voxels.spatial_shape, features.shape[1])
    return made.index_put(tuple(indices[kept].t()), features[kept]).movedim(-1, 1)


def norm_groups(features, weight, bias, voxels, groups, eps):
    batch, made = voxels.indices()[:, 0], torch.zeros_like(features)
    weight, bias = (None if t is None else t.double() for t in (weight, bias))
    for b in range(voxels.batch_size):
        rows = (batch == b).nonzero()[:, 0]
        if len(rows):
            of = torch.group_norm(features[rows].t()[None], groups, weight, bias, eps)
            made = made.index_put((rows,), of[0].t())
    return made
