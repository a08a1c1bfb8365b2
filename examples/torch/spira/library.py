# SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
"""Loads the library of operators, and registers their shape functions.

The library has no Python in it: any Python loads it, with the version of PyTorch that it was built
with. SPIRA_TORCH_LIBRARY names another file than the installed one.
"""
import glob
import os

import torch

HERE = os.path.dirname(os.path.abspath(__file__))


def load():
    named = os.environ.get("SPIRA_TORCH_LIBRARY")
    found = [named] if named else sorted(glob.glob(os.path.join(HERE, "_C*.so")))
    if not found:
        raise ImportError("spira: the library of operators is missing; "
                          "build it with `pip install ./examples/torch`")
    torch.ops.load_library(found[0])


load()
ops = torch.ops.spira
fake = torch.library.register_fake


def whole(t):
    """A contiguous tensor of the same shape and type."""
    return torch.empty_like(t, memory_format=torch.contiguous_format)


def word_type(layout):
    return torch.int32 if layout[0] == 32 else torch.int64


STATUS = 12  # ints of a set's status (csrc/sets.cpp)


@fake("spira::voxelize")
def _voxelize(indices, count, layout, extent):
    rows = indices.shape[0]
    ints = indices.new_empty
    return (ints(rows, dtype=word_type(layout)), ints(rows), ints(rows), ints(1), ints(STATUS))


@fake("spira::expand")
def _expand(words, count, layout, kernel, rule, capacity):
    return words.new_empty(capacity), count.new_empty(1), count.new_empty(STATUS)


@fake("spira::unpack")
def _unpack(words, count, layout, origin, spacing, ndim):
    return count.new_empty(words.shape[0], 1 + ndim)


@fake("spira::repack")
def _repack(words, count, layout, to, origin, scale):
    return words.new_empty(words.shape[0], dtype=word_type(to))


@fake("spira::choose")
def _choose(words, count, layout, stride, choice, threshold, capacity):
    back = count.new_empty(words.shape[0] * (8 if stride else 1))
    return (words.new_empty(capacity), count.new_empty(capacity), back, count.new_empty(1),
            count.new_empty(STATUS))


@fake("spira::choose_largest")
def _choose_largest(words, count, layout, scores, most):
    return words.new_empty(words.shape[0], dtype=torch.uint8)


@fake("spira::find_rows")
def _find_rows(words, count, other, other_count, layout):
    return count.new_empty(words.shape[0])


@fake("spira::unite")
def _unite(words, counts, layout, capacity):
    return words[0].new_empty(capacity), counts[0].new_empty(1), counts[0].new_empty(STATUS)


@fake("spira::curve")
def _curve(words, count, layout, grid, depth, kind):
    ints = count.new_empty
    return ints(words.shape[0], dtype=torch.int64), ints(words.shape[0]), ints(words.shape[0])


def volume_of(kernel):
    return kernel[0] * kernel[1] * kernel[2]


@fake("spira::map_table")
def _map_table(source, source_count, outputs, outputs_count, layout, kernel):
    return source_count.new_empty(outputs.shape[0], volume_of(kernel))


@fake("spira::map_layout")
def _map_layout(source, source_count, outputs, outputs_count, layout, kernel):
    slope, constant = ops.map_layout_bytes(source.device.index or 0, kernel)
    return source.new_empty(slope * outputs.shape[0] + constant, dtype=torch.uint8)


@fake("spira::around")
def _around(words, count, layout, stride, points, batch, kind, centred):
    size = points.shape[0], 1 if kind == 2 else 8
    return count.new_empty(size), points.new_empty(size)


@fake("spira::lists")
def _lists(index, rows):
    return index.new_empty(rows + 1), index.new_empty(index.numel())


@fake("spira::blend")
def _blend(features, index, weight, begin, order):
    return features.new_empty(index.shape[0], features.shape[1])


@fake("spira::splat")
def _splat(features, index, weight, begin, order):
    return features.new_empty(begin.shape[0] - 1, features.shape[1])


@fake("spira::map_pairs")
def _map_pairs(source, source_count, outputs, outputs_count, layout, kernel, capacity):
    head = -(-(volume_of(kernel) + 1) // 64) * 64
    return source_count.new_empty(head + 2 * capacity)


@fake("spira::conv")
def _conv(features, weight, bias, map, back, pairs, source_count, count, rows, kernel, flags):
    return features.new_empty(rows, weight.shape[0])


@fake("spira::conv_eval")
def _conv_eval(features, weight, packed, bias, residual, map, count, rows, kernel, flags, act):
    return features.new_empty(rows, weight.shape[0])


def is_ordered(weight):
    """Whether a weight's memory is in the operators' order, [x, y, z, Cin, Cout]."""
    ordered = weight.permute(*range(weight.dim() - 2, 0, -1), weight.dim() - 1, 0)
    return weight.dtype == torch.float32 and ordered.is_contiguous()


@fake("spira::conv_norm_eval")
def _conv_norm_eval(features, weight, bias, map, count, rows, kernel, flags, *behind):
    return features.new_empty(rows, weight.shape[0])


@fake("spira::conv_norm")
def _conv_norm(features, weight, bias, map, back, pairs, source_count, count, rows, kernel, flags,
               *behind):
    return features.new_empty(rows, weight.shape[0])


@fake("spira::conv_backward")
def _conv_backward(grad, features, weight, back, pairs, source_count, count, kernel, flags, wanted):
    floats = torch.float32
    return (whole(features) if wanted[0] else features.new_empty(0, dtype=floats),
            (torch.empty_like(weight) if is_ordered(weight) else whole(weight)) if wanted[1] else
            features.new_empty(0, dtype=floats),
            features.new_empty(weight.shape[0] if wanted[2] else 0, dtype=floats))


@fake("spira::norm")
def _norm(input, residual, count, weight, bias, running_mean, running_var, num_batches_tracked,
          momentum, eps, relu, again):
    vector = input.new_empty(input.shape[1], dtype=torch.float32)
    return whole(input), vector, torch.empty_like(vector)


@fake("spira::norm_apply")
def _norm_apply(input, residual, count, weight, bias, mean, invstd, relu):
    return whole(input)


@fake("spira::norm_eval")
def _norm_eval(input, residual, count, weight, bias, mean, var, eps, relu):
    return whole(input)


@fake("spira::norm_backward")
def _norm_backward(grad, input, output, count, weight, bias, mean, invstd, relu, residual):
    added = whole(input) if residual else input.new_empty(0, dtype=torch.float32)
    return whole(input), torch.empty_like(mean), torch.empty_like(mean), added


@fake("spira::norm_rows")
def _norm_rows(input, residual, weight, bias, count, kind, eps, act, flags):
    return whole(input)


@fake("spira::norm_rows_backward")
def _norm_rows_backward(grad, input, weight, count, kind, eps, flags):
    vector = input.new_empty(input.shape[1], dtype=torch.float32)
    return whole(input), vector, torch.empty_like(vector)


@fake("spira::norm_groups")
def _norm_groups(input, weight, bias, words, count, layout, groups, eps, flags):
    return whole(input)


@fake("spira::norm_groups_backward")
def _norm_groups_backward(grad, input, weight, words, count, layout, groups, eps, flags):
    vector = input.new_empty(input.shape[1], dtype=torch.float32)
    return whole(input), vector, torch.empty_like(vector)


@fake("spira::join")
def _join(first, second):
    return first.new_empty(first.shape[0], first.shape[1] + second.shape[1])


@fake("spira::permute_rows")
def _permute_rows(features, index, inverse):
    return features.new_empty(index.shape[0], features.shape[1])


@fake("spira::pool")
def _pool(features, map, back, source_count, count, kind, flags):
    return features.new_empty(map.shape[0], features.shape[1])


@fake("spira::pool_backward")
def _pool_backward(grad, features, map, back, source_count, kind, flags):
    return whole(features)


@fake("spira::pool_global")
def _pool_global(features, words, count, layout, kind, flags):
    return features.new_empty(layout[-1], features.shape[1])


@fake("spira::pool_global_backward")
def _pool_global_backward(grad, features, words, count, layout, kind, flags):
    return whole(features)


@fake("spira::dense")
def _dense(features, words, count, layout, grid, batch, flags):
    return features.new_empty(batch, features.shape[1], grid[8], grid[7], grid[6])


@fake("spira::dense_backward")
def _dense_backward(grad, words, count, layout, grid, batch, flags):
    return grad.new_empty(words.shape[0], grad.shape[1])
