#!/usr/bin/env python3
"""Times a training step of SpUNet-v1m1: fp16 under autocast, cross entropy, SGD, gradient scaling.

    bench_step.py data/kitti00_000000_5cm.vox32 [--library spira,spconv] [--small]

The kernel maps are made anew in each step. One JSON object a line:
    way      eager     as PyTorch code is written; a read-back for each coordinate set
             prepared  the same with prepare(): one read-back
             capacity  without a read-back
             graph     the step of `capacity` in a CUDA graph
    ms       median of steps one by one, from the call to the end of the GPU's work
    loop_ms  of steps back to back
    gpu_ms   the sum of the kernels' times (not of graphs)
    mib      the most memory that PyTorch's allocator handed out during a step
Before anything is timed, losses and gradients of all ways are compared, in fp32.
"""
import argparse
import json
import os
import statistics
import sys
import time

import numpy as np
import torch
from torch.nn import functional

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
CLASSES = 20


def read_voxels(path):
    """int32 [n, 4] batch, z, y, x from 0 on, and the shape that Pointcept would take."""
    at = torch.from_numpy(np.fromfile(path, "<i4").reshape(-1, 3)[:, ::-1].copy())
    at -= at.min(0).values
    at = torch.unique(at, dim=0)
    shape = (at.max(0).values + 96).tolist()
    return functional.pad(at, (1, 0)), shape


class Step:
    """A network, its optimiser and its data. way: see above."""

    def __init__(self, library, name, way, voxels, shape, options):
        from spunet import SpUNet
        torch.manual_seed(0)
        self.library, self.way, self.shape = library, way, shape
        self.device = options.device
        small = dict(channels=(32, 64, 64, 32), blocks=(1, 1, 1, 1)) if options.small else {}
        self.net = SpUNet(4, CLASSES, library=library, **small).to(self.device).train()
        fused = {"fused": True} if self.device == "cuda" else {}
        self.optimizer = torch.optim.SGD(self.net.parameters(), 1e-3, **fused)
        self.scaler = torch.amp.GradScaler(self.device, init_scale=1024.0)
        random = torch.Generator().manual_seed(1)
        rows = len(voxels)
        self.features = torch.randn(rows, 4, generator=random).to(self.device)
        self.labels = torch.randint(0, CLASSES, (rows,), generator=random).to(self.device)
        self.indices = voxels.int().to(self.device)
        self.more = {}
        if way in ("capacity", "graph"):
            self.use_capacities(int(rows * 1.1))

    def use_capacities(self, capacity):
        library, rows = self.library, len(self.indices)
        x = library.SparseConvTensor(self.features, self.indices, self.shape, 1)
        sizes = library.capacities(self.net, x, 1.1)
        library.convert_batchnorm(self.net)
        self.features, self.indices, count = library.pad(self.features, self.indices, capacity)
        self.labels = functional.pad(self.labels, (0, capacity - rows), value=-1)
        self.more = {"count": count, "capacities": sizes}

    def gradients(self, autocast=True):
        self.optimizer.zero_grad(set_to_none=True)
        kind = torch.float16 if self.device == "cuda" else torch.bfloat16
        with torch.autocast(self.device, kind, enabled=autocast):
            x = self.library.SparseConvTensor(self.features, self.indices.detach(), self.shape, 1,
                                              **self.more)
            if self.way == "prepared":
                x = self.library.prepare(self.net, x)
            scores = self.net(x)
        loss = functional.cross_entropy(scores.float(), self.labels, ignore_index=-1)
        self.scaler.scale(loss).backward()
        return loss.detach()

    def __call__(self):
        loss = self.gradients()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return loss


def synchronize():
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def captured(step):
    """The step as a CUDA graph."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def times(call, runs):
    """Medians in ms: one by one, and back to back."""
    single = []
    for _ in range(runs):
        synchronize()
        begin = time.perf_counter()
        call()
        synchronize()
        single.append(time.perf_counter() - begin)
    loops = []
    for _ in range(3):
        begin = time.perf_counter()
        for _ in range(runs):
            call()
        synchronize()
        loops.append((time.perf_counter() - begin) / runs)
    return statistics.median(single) * 1e3, statistics.median(loops) * 1e3


def busy(call):
    """The sum of the kernels' times, ms, and the longest of them."""
    from torch.profiler import ProfilerActivity, profile
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        for _ in range(3):
            call()
        synchronize()
    kernels = {e.key[:60]: e.self_device_time_total / 3e3 for e in profiler.key_averages()
               if getattr(e, "self_device_time_total", 0)}
    longest = sorted(kernels.items(), key=lambda k: -k[1])[:12]
    return sum(kernels.values()), [(name, round(ms, 3)) for name, ms in longest]


def measure(step, runs, line):
    on_gpu = step.device == "cuda"
    for _ in range(3 if on_gpu else 0):
        step()
    synchronize()
    if on_gpu:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    call = captured(step) if step.way == "graph" else step
    call()
    synchronize()
    if on_gpu:
        line["mib"] = round(torch.cuda.max_memory_allocated() / 2**20, 1)
    line["ms"], line["loop_ms"] = (round(t, 3) for t in times(call, runs))
    if on_gpu and step.way != "graph":
        line["gpu_ms"], line["longest"] = busy(call)
        line["gpu_ms"] = round(line["gpu_ms"], 3)
    print(json.dumps(line), flush=True)


def libraries(names):
    for name in names.split(","):
        try:
            if name == "spira":
                import spira.pytorch as library
            else:
                import spconv.pytorch as library
        except ImportError as error:
            print(json.dumps({"bench": "step", "library": name, "skipped": str(error)}))
            continue
        yield name, library


def compare(losses, grads):
    """All ways of a library agree: losses, and gradients of the first layer."""
    first = next(iter(losses.values()))
    for way, loss in losses.items():
        assert abs(loss - first) < 1e-4 * abs(first), losses
    first = next(iter(grads.values()))
    for way, grad in grads.items():
        error = (grad - first).abs().max() / first.abs().max()
        assert error < 0.01, f"gradients of {way}: {error}"


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("voxels")
    parser.add_argument("--library", default="spira")
    parser.add_argument("--ways", default="eager,prepared,capacity,graph")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--crop", type=int, help="take so many voxels only")
    parser.add_argument("--small", action="store_true", help="a small network")
    options = parser.parse_args()
    options.device = "cuda" if torch.cuda.is_available() else "cpu"
    voxels, shape = read_voxels(options.voxels)
    voxels = voxels[:options.crop]
    for name, library in libraries(options.library):
        ways = options.ways.split(",") if name == "spira" else ["eager"]
        ways = [w for w in ways if options.device == "cuda" or w != "graph"]
        losses, grads = {}, {}
        for way in ways:
            step = Step(library, name, way, voxels, shape, options)
            losses[way] = float(step.gradients(autocast=False))
            grads[way] = step.net.conv_input[0].weight.grad.detach().cpu()
        compare(losses, grads)
        for way in ways:
            step = None # before the next one is made: its memory counts
            step = Step(library, name, way, voxels, shape, options)
            measure(step, options.runs, {
                "bench": "step", "net": "SpUNet", "library": name, "way": way,
                "input": os.path.basename(options.voxels).split(".")[0], "voxels": len(voxels),
                "loss": round(losses[way], 5), "runs": options.runs})


if __name__ == "__main__":
    main()
