#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
# examples/torch/generate.py: the shape decoder of TRELLIS.2 in PyTorch, step by step: grows a shape
# from 9,712 voxels at stride 16 to 1024^3 cells, as examples/generate.cu does in one CUDA graph.
#
#     generate.py [--side 1024] [--shape 1024] [--channels 1024] [--graph] [--profile]
#     generate.py --device cpu --side 128 --channels 128
#
# Weights are random, so their logits mean nothing: the rule of examples/generate_shape.h decides
# which children exist. Prints the voxels and the time of each level, how often the host waited for
# the GPU to read a count, and memory. --shape makes the shape smaller than the grid of --side.
# --graph also runs it with capacities: nothing is read back, and all is one CUDA graph. --profile
# lists kernels.
import argparse
import math
import sys
import time
import warnings

import torch
from torch import nn

COARSEST = 16                  # stride of the first level
BLOCKS = (4, 16, 8, 4, 0)      # ConvNeXt blocks of each level
LATENTS, OUTPUTS = 32, 7


# ---- the network --------------------------------------------------------------------------------

def with_act(layer, x, act=None, residual=None):
    """act(layer(x) + residual); spira.pytorch has it as one kernel."""
    of_rows = isinstance(layer, (nn.Linear, nn.LayerNorm))
    y = x.replace_feature(layer(x.features)) if of_rows else layer(x)
    y = y if residual is None else y.replace_feature(y.features + residual.features)
    return y if act is None else y.replace_feature(act(y.features))


class Block(nn.Module):
    """A ConvNeXt block: x + L(SiLU(L(LN(S3(x)))))."""

    def __init__(self, library, channels):
        super().__init__()
        self.conv = library.SubMConv3d(channels, channels, 3, padding=1)
        self.norm = nn.LayerNorm(channels, eps=1e-6)
        self.mlp = nn.Sequential(nn.Linear(channels, 4 * channels), nn.SiLU(),
                                 nn.Linear(4 * channels, channels))
        self.with_act = getattr(library, "with_act", with_act)

    def forward(self, x):
        h = self.with_act(self.norm, self.with_act(self.conv, x))
        h = self.with_act(self.mlp[0], h, self.mlp[1])
        return self.with_act(self.mlp[2], h, residual=x)


class Up(nn.Module):
    """Logits make the children, and channels become space."""

    def __init__(self, library, channels, width):
        super().__init__()
        self.library, self.with_act = library, getattr(library, "with_act", with_act)
        self.norm1 = nn.LayerNorm(channels, eps=1e-6)
        self.norm2 = nn.LayerNorm(width, eps=1e-6, elementwise_affine=False)
        self.act = nn.SiLU()
        self.conv1 = library.SubMConv3d(channels, 8 * width, 3, padding=1)
        self.conv2 = library.SubMConv3d(width, width, 3, padding=1)
        self.to_subdiv = nn.Linear(channels, 8)
        self.repeat = 8 * width // channels

    def forward(self, x, rule=None, capacity=None):
        logits = self.with_act(self.to_subdiv, x).features
        h = self.with_act(self.norm1, x, self.act)
        options = {} if capacity is None else dict(capacity=capacity)
        y = self.library.subdivide(self.with_act(self.conv1, h), rule(x) if rule else logits, **options)
        skip = self.library.to_children(x, y, self.repeat)
        h = self.with_act(self.norm2, y, self.act)
        return self.with_act(self.conv2, h, residual=skip), logits


class Decoder(nn.Module):
    """TRELLIS.2's shape decoder, with the names of its tensors.

    forward(x, rule, capacities): x has the latents. rule(tensor): [voxels, 8], decides in place of
    the logits: a mask or other logits; in training the target. capacities: rows of each step's
    children; nothing is read back then.

    Returns the finest voxels with 7 numbers each; and for each step its logits, and the voxels that
    they made.
    """

    def __init__(self, library, latents=LATENTS, channels=1024, blocks=BLOCKS):
        super().__init__()
        widths = [channels >> level for level in range(len(blocks))]
        self.from_latent = nn.Linear(latents, channels)
        self.blocks = nn.ModuleList()
        for level, count in enumerate(blocks):
            parts = [Block(library, widths[level]) for _ in range(count)]
            if level + 1 < len(blocks):
                parts.append(Up(library, widths[level], widths[level + 1]))
            self.blocks.append(nn.ModuleList(parts))
        self.norm = nn.LayerNorm(widths[-1], eps=1e-5, elementwise_affine=False)
        self.output_layer = nn.Linear(widths[-1], OUTPUTS)
        self.with_act = getattr(library, "with_act", with_act)

    def forward(self, x, rule=None, capacities=None):
        x, steps = self.with_act(self.from_latent, x), []
        for parts in self.blocks:
            for part in parts:
                if isinstance(part, Up):
                    x, logits = part(x, rule, capacities and capacities[len(steps)])
                    steps.append((logits, x))
                else:
                    x = part(x)
        return self.with_act(self.output_layer, self.with_act(self.norm, x)), steps


@torch.no_grad()
def randomize(net):
    """Made-up parameters, so large that outputs are about as large as inputs; what is added to a
    residual stays small."""
    for name, p in net.named_parameters():
        if name.endswith("bias"):
            p.uniform_(-0.1, 0.1)
        elif p.dim() == 1:
            p.uniform_(0.8, 1.2)
        else:
            taps = 12 if p.dim() == 5 else 1 # of 27, that a surface has
            scale = 0.3 if name.endswith(("mlp.2.weight", "conv2.weight")) else 1
            reach = scale * math.sqrt(3 / (taps * p.shape[-1]))
            p.uniform_(-reach, reach)
    return net


# ---- the rule -----------------------------------------------------------------------------------

class Shape:
    """The tanglecube of examples/generate_shape.h in the middle of side^3 cells, in integers."""

    def __init__(self, side, edge, device):
        self.side, self.unit, self.device = side, edge * edge // 16, device

    def crossed(self, *corners):
        """Whether the surface crosses cells, whose corners have these places along z, y and x."""
        f = 118 * self.unit * self.unit // 10
        for at in corners:
            square = (2 * at - self.side) ** 2
            f = f + square * square - 5 * self.unit * square
        some = every = f < 0
        for axis in (-3, -2, -1):
            few = some.shape[axis] - 1
            some = some.narrow(axis, 0, few) | some.narrow(axis, 1, few)
            every = every.narrow(axis, 0, few) & every.narrow(axis, 1, few)
        return some & ~every

    def begin(self):
        """int32 [voxels, 4], batch z y x: the cells of stride 16 that the surface crosses."""
        at = torch.arange(0, self.side + 1, COARSEST, device=self.device)
        found = self.crossed(at[:, None, None], at[:, None], at).nonzero()
        return nn.functional.pad(found, (1, 0)).int()

    def children(self, indices, stride):
        """bool [voxels, 8]: which children the voxels of a stride have."""
        at = indices[:, 1:, None].long() * stride + \
            torch.arange(0, stride + 1, stride // 2, device=self.device)
        z, y, x = at.unbind(1)
        return self.crossed(z[:, :, None, None], y[:, None, :, None], x[:, None, None]).flatten(1)

    def grow(self):
        """The voxels of each level, in any order, and the children that each has: PyTorch alone."""
        levels, masks = [self.begin()], []
        while (stride := COARSEST >> len(masks)) > 1:
            masks.append(self.children(levels[-1], stride))
            row, s = masks[-1].nonzero(as_tuple=True)
            next = levels[-1][row]
            next[:, 1:] = 2 * next[:, 1:] + torch.stack([s >> 2, s >> 1 & 1, s & 1], 1)
            levels.append(next)
        return levels, masks


# ---- runs ---------------------------------------------------------------------------------------

class Run:
    """The decoder on the shape. The rule's logits are made once, before: what is timed reads them
    in place of the network's, as those of a trained network are there without a rule."""

    def __init__(self, library, net, shape):
        self.library, self.net = library, net
        self.grid = [shape.side // COARSEST] * 3
        first = shape.begin()
        self.first = first[library.sort_rows(first, self.grid)]
        self.latents = torch.empty(len(first), net.from_latent.in_features, device=shape.device,
                                   dtype=net.from_latent.weight.dtype).uniform_(-1, 1)
        self.logits, self.voxels, self.type = None, None, self.latents.dtype
        self.logits = [mask.to(self.type) * 2 - 1 for mask in self.learn(shape)]

    def tensor(self):
        """A new set each time: nothing is known of it."""
        return self.library.SparseConvTensor(self.latents, self.first.clone(), self.grid, 1)

    def learn(self, shape):
        """The rule's masks, in the order of the sets; checks the sets against those that the rule
        grows without spira."""
        masks = []

        def rule(x):
            masks.append(shape.children(x.indices, COARSEST >> len(masks)))
            return masks[-1]

        y, steps = self.net(self.tensor(), rule)
        grown, _ = shape.grow()
        sets = [self.first, *(made.indices for _, made in steps)]
        for level, (made, wanted) in enumerate(zip(sets, grown)):
            grid = [n << level for n in self.grid]
            wanted = wanted[self.library.sort_rows(wanted, grid)]
            if not torch.equal(made, wanted):
                raise SystemExit(f"level {level}: {len(made)} voxels, but the rule grows "
                                 f"{len(wanted)}, or others")
        if not y.features.isfinite().all():
            raise SystemExit("outputs are not finite")
        self.voxels = [len(made) for made in sets]
        return masks

    def __call__(self):
        logits = iter(self.logits)
        return self.net(self.tensor(), lambda x: next(logits))[0]

    def bounded(self, room=1.05):
        """The same with capacities: a call, and what checks its result."""
        sizes = [int(n * room) + 1 for n in self.voxels]
        latents, indices, count = self.library.pad(self.latents, self.first, sizes[0])
        padded = [nn.functional.pad(t, (0, 0, 0, n - len(t)), value=-1)
                  for t, n in zip(self.logits, sizes)]

        def call():
            logits = iter(padded)
            x = self.library.SparseConvTensor(latents, indices, self.grid, 1, count=count,
                                              ordered=True)
            return self.net(x, lambda x: next(logits), sizes[1:])[0]

        return call


def level_times(net, call, runs):
    """Milliseconds, medians, by events: of what is before the levels, of each level with its
    up-block, and of what is behind them."""
    marks = []

    def mark(*_):
        marks.append(torch.cuda.Event(enable_timing=True))
        marks[-1].record()

    levels = [level for level in net.blocks if len(level)]
    hooks = [level[0].register_forward_pre_hook(mark) for level in levels]
    hooks.append(levels[-1][-1].register_forward_hook(mark))
    found = []
    for _ in range(runs):
        marks.clear()
        mark()
        call()
        mark()
        torch.cuda.synchronize()
        found.append([a.elapsed_time(b) for a, b in zip(marks, marks[1:])])
    for hook in hooks:
        hook.remove()
    return torch.tensor(found).median(0).values.tolist()


def wall_ms(call, runs, device):
    """Milliseconds of a call with all that it starts, and of the host alone: medians."""
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    found = []
    for _ in range(runs):
        wait()
        begin = time.perf_counter()
        call()
        host = time.perf_counter()
        wait()
        found.append([(time.perf_counter() - begin) * 1e3, (host - begin) * 1e3])
    return torch.tensor(found).median(0).values.tolist()


def read_backs(call):
    """How often a call makes the host wait for the GPU."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        call()
        torch.cuda.set_sync_debug_mode("default")
    return sum("synchronizing" in str(w.message) for w in seen)


def report(run, arguments):
    net, runs = run.net, arguments.runs
    print("voxels:", ", ".join(f"{n:,}" for n in run.voxels), "at strides 16 to 1")
    if arguments.device != "cuda":
        print(f"time: {wall_ms(run, 1, arguments.device)[0]:.0f} ms, host loops, {run.type}")
        return
    run(), torch.cuda.empty_cache(), torch.cuda.reset_peak_memory_stats()
    all_ms, host_ms = wall_ms(run, runs, "cuda")
    peak = torch.cuda.max_memory_allocated() / 1e9
    print(f"time: {all_ms:.1f} ms, {run.type}, step by step (the host is done after {host_ms:.1f}); "
          f"{read_backs(run)} read-backs; peak memory {peak:.1f} GB")
    begin, *levels, end = [f"{ms:.2f}" for ms in level_times(net, run, runs)]
    print(f"ms: first set {begin}; levels with their up-blocks {', '.join(levels)}; end {end}")
    if arguments.profile:
        from bench import profile
        profile(run, 3)
    if not arguments.graph:
        return
    from bench import capture
    call, made = run.bounded(), []
    wanted = run().features.float()
    torch.cuda.empty_cache(), torch.cuda.reset_peak_memory_stats()
    graph = capture(lambda: made.append(call()), 1)
    graph.replay()
    made[-1].check()
    rows = made[-1].features[:run.voxels[-1]].float()
    error = ((rows - wanted).norm() / wanted.norm()).item()
    print(f"with capacities, one CUDA graph: {wall_ms(graph.replay, runs, 'cuda')[0]:.1f} ms, "
          f"{read_backs(graph.replay)} read-backs; peak memory "
          f"{torch.cuda.max_memory_reserved() / 1e9:.1f} GB; count {int(made[-1].count):,}, "
          f"relative difference {error:.1e}")


def main():
    parser = argparse.ArgumentParser(description="Grows a shape by the decoder of TRELLIS.2.")
    parser.add_argument("--side", type=int, default=1024, help="cells of the grid, in steps of 16")
    parser.add_argument("--shape", type=int, help="cells of the shape; default: those of the grid")
    parser.add_argument("--channels", type=int, default=1024, help="of the first level")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--type", choices=("fp16", "bf16", "fp32"))
    parser.add_argument("--runs", type=int, default=11)
    parser.add_argument("--graph", action="store_true", help="also with capacities, as one graph")
    parser.add_argument("--profile", action="store_true", help="also lists kernels")
    arguments = parser.parse_args()
    if arguments.side % COARSEST or arguments.channels % 128:
        parser.error("--side is a multiple of 16, --channels one of 128")
    kind = arguments.type or ("fp16" if arguments.device == "cuda" else "fp32")
    sys.path.append(sys.path.pop(0)) # this folder last: `spira` is the installed package
    import spira.pytorch as spconv
    torch.manual_seed(0)
    with torch.device(arguments.device):
        net = randomize(Decoder(spconv, channels=arguments.channels)).eval()
    net.to({"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32}[kind])
    if kind != "fp32":
        spconv.pack(net, net.from_latent.weight.dtype)
    shape = Shape(arguments.side, arguments.shape or arguments.side, arguments.device)
    with torch.no_grad():
        report(Run(spconv, net, shape), arguments)


if __name__ == "__main__":
    main()
