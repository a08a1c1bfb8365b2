#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
# examples/torch/bench.py: how long layers and a training step take on the GPU.
#
#     bench.py SCAN                          layers and SpUNet
#     bench.py SCAN --part layers --channels 64,64,3 --profile
#     bench.py SCAN --library spconv.pytorch     the same step with another library
#     torchrun --nproc-per-node=2 bench.py SCAN --part step     a scan for each GPU
#
# SCAN: a .vox32 file (int32 x, y, z for each voxel), a KITTI scan (.bin), or points as a .npy file
# of any type (--voxel: the edge in metres).
# A line of JSON for each measurement. wall_us: host and device, maps ready, in a loop of ordinary
# calls; graph_us: the same calls replayed as a CUDA graph, so the device alone.
import argparse
import importlib
import json
import os
import sys

import numpy as np
import torch

sys.path.append(sys.path.pop(0)) # this folder last: `spira` is the installed package
from scenes import moved


def read_scan(path, edge, order):
    """int32 [voxels, 4]: batch, z, y, x, from 0, in spira's or in random order; and the shape."""
    if path.endswith((".bin", ".npy")):
        kitti = path.endswith(".bin")
        points, _ = moved(np.fromfile(path, "<f4").reshape(-1, 4) if kitti else np.load(path))
        voxels = (torch.from_numpy(points[:, :3]) / edge).floor().int()
    else:
        voxels = torch.from_file(path, size=os.path.getsize(path) // 4, dtype=torch.int32)
        voxels = voxels.view(-1, 3)
    voxels = torch.unique(voxels - voxels.amin(0), dim=0)
    if order == "random":
        voxels = voxels[torch.randperm(len(voxels), generator=torch.Generator().manual_seed(0))]
    rows = torch.cat([torch.zeros_like(voxels[:, :1]), voxels.flip(1)], 1)
    shape = [n // 16 * 16 + 16 for n in voxels.amax(0).flip(0).tolist()]
    return rows.cuda(), shape


# ---- clocks -------------------------------------------------------------------------------------

def loop_us(call, times):
    """Microseconds of a call, in a loop; the median of five loops."""
    found = []
    for _ in range(5):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        begin.record()
        for _ in range(times):
            call()
        end.record()
        torch.cuda.synchronize()
        found.append(begin.elapsed_time(end) * 1000 / times)
    return sorted(found)[2]


def capture(call, warmups=3):
    """A CUDA graph of a call, after some calls on another stream. Of other threads (NCCL's looks at
    events) calls are no concern of it."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(warmups):
            call()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        call()
    return graph


def measure(name, call, times=20, graph=True, **about):
    for _ in range(3):
        call()
    result = {"name": name, **about, "wall_us": round(loop_us(call, times), 1)}
    if graph:
        captured = capture(call)
        result["graph_us"] = round(loop_us(captured.replay, times), 1)
    print(json.dumps(result), flush=True)


def profile(call, times=10):
    """Prints the kernels of a call by time."""
    from torch.profiler import ProfilerActivity, profile as profiler
    call()
    with profiler(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as run:
        for _ in range(times):
            call()
        torch.cuda.synchronize()
    rows = [(e.self_device_time_total / times, e.count / times, e.key) for e in run.key_averages()
            if e.self_device_time_total > 0 and e.device_type.name == "CUDA"]
    us, count = (sum(row[i] for row in rows) for i in range(2))
    print(f"  {us:9.1f} us {count:6.1f} calls  in all")
    for us, count, key in sorted(rows, reverse=True)[:25]:
        print(f"  {us:9.1f} us {count:6.1f} calls  {key[:110]}")


# ---- layers -------------------------------------------------------------------------------------

def bench_layers(arguments, indices, shape):
    import spira
    voxels = spira.voxel_set(indices, shape, 1)
    for text in arguments.channels:
        cin, cout, size = map(int, text.split(","))
        kmap = spira.kernel_map(voxels, voxels, size)
        x = torch.randn(voxels.capacity, cin, device="cuda").to(arguments.dtype).requires_grad_()
        weight = torch.randn(cout, size, size, size, cin, device="cuda", requires_grad=True)
        grad = torch.randn(voxels.capacity, cout, device="cuda").to(arguments.dtype)

        def forward():
            with torch.no_grad():
                return spira.conv(x, weight, None, kmap)

        def both():
            x.grad = weight.grad = None
            spira.conv(x, weight, None, kmap).backward(grad)

        about = {"channels": text, "type": arguments.type, "voxels": voxels.capacity}
        def product():
            x.grad = dense.grad = None
            (x @ dense).backward(grad)

        dense = torch.randn(cin, cout, device="cuda").to(arguments.dtype).requires_grad_()
        measure("forward", forward, **about)
        measure("forward and both gradients", both, **about)
        measure("x @ w and both gradients, for the host's share", product, **about)
        if arguments.profile:
            profile(both)

        def maps():
            made = spira.kernel_map(voxels, voxels, size)
            made.layout()
            made.pairs()

        measure("maps of a layer and its gradients", maps, **about)


# ---- a training step ----------------------------------------------------------------------------

def join():
    """This process among those of torchrun, each with a GPU of its own, and how many there are."""
    rank, count = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    if count > 1:
        os.environ["TORCH_NCCL_ASYNC_ERROR_HANDLING"] = "0" # a capture forbids what it does
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
        torch.distributed.init_process_group("nccl", device_id=device)
    return rank, count


def parallel(net, count):
    """The network, with gradients of all processes. Made on another stream than the current one:
    then its steps can be captured."""
    if count == 1:
        return net
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        net = torch.nn.parallel.DistributedDataParallel(
            net, [torch.cuda.current_device()], broadcast_buffers=False,
            gradient_as_bucket_view=True)
    torch.cuda.current_stream().wait_stream(stream)
    return net


def bench_step(arguments, indices, shape, rank, count):
    from spunet import SpUNet
    library = importlib.import_module(arguments.library)
    ours = arguments.library == "spira.pytorch"
    if ours:
        importlib.import_module("spira.layers").recompute = arguments.recompute
    torch.manual_seed(0)
    net = SpUNet(4, 20, library=library).cuda()
    net = library.convert_batchnorm(net) if ours else net
    shared = parallel(net, count)
    torch.manual_seed(rank)
    features = torch.randn(len(indices), 4, device="cuda")
    labels = torch.randint(0, 20, (len(indices),), device="cuda")
    loss_of = torch.nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3, fused=True)
    scaler = torch.amp.GradScaler(enabled=arguments.dtype == torch.float16, init_scale=1024.0)

    def step(make, labels):
        optimizer.zero_grad(set_to_none=count == 1) # of several, gradients lie in DDP's buckets
        with torch.autocast("cuda", dtype=arguments.dtype, enabled=arguments.type != "fp32"):
            loss = loss_of(shared(make()).float(), labels)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss

    def exact():
        made = library.SparseConvTensor(features, indices, shape, 1)
        return library.prepare(net, made) if ours else made

    def report(name, call, times):
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        for _ in range(3):
            call()
        us = loop_us(call, times)
        if rank:
            return
        print(json.dumps({"name": name, "library": arguments.library, "type": arguments.type,
                          "gpus": count, "voxels": len(indices), "wall_us": round(us, 1),
                          "MiB": round(torch.cuda.max_memory_allocated() / 2 ** 20),
                          "reserved_MiB": round(torch.cuda.max_memory_reserved() / 2 ** 20)}),
              flush=True)

    report("training step of SpUNet", lambda: step(exact, labels), 5)
    if arguments.profile:
        profile(lambda: step(exact, labels), 3)
    if not ours:
        return
    rows = int(len(indices) * arguments.margin) + 1
    capacities = library.capacities(net, library.SparseConvTensor(features, indices, shape, 1),
                                    arguments.margin)
    padded = library.pad(features, indices, rows)
    wide_labels = torch.nn.functional.pad(labels, (0, rows - len(indices)), value=-100)

    def bounded():
        return library.SparseConvTensor(*padded[:2], shape, 1, count=padded[2],
                                        capacities=capacities,
                                        ordered=arguments.order == "sorted")

    report("the same with capacities", lambda: step(bounded, wide_labels), 5)
    optimizer.zero_grad(set_to_none=True)
    torch.cuda.empty_cache()
    graph = capture(lambda: step(bounded, wide_labels), 3 if count == 1 else 11)
    report("the same as a CUDA graph", graph.replay, 10)
    if arguments.profile:
        profile(graph.replay, 3)


def main():
    parser = argparse.ArgumentParser(description="Times layers and a training step on the GPU.")
    parser.add_argument("scan")
    parser.add_argument("--voxel", type=float, default=0.05, help="edge in metres, of a .bin scan")
    parser.add_argument("--part", choices=("all", "layers", "step"), default="all")
    parser.add_argument("--channels", nargs="+", default=["16,16,3", "32,32,3", "64,64,3",
                                                          "128,128,3", "256,256,3"],
                        help="Cin,Cout,size of layers")
    parser.add_argument("--type", choices=("fp16", "bf16", "fp32"), default="fp16")
    parser.add_argument("--library", default="spira.pytorch", help="of the training step")
    parser.add_argument("--order", choices=("sorted", "random"), default="sorted",
                        help="of the rows: sort_rows() of spira.pytorch, or random")
    parser.add_argument("--margin", type=float, default=1.1, help="of the capacities")
    parser.add_argument("--recompute", type=int, choices=(0, 1, 2), default=2,
                        help="what the backward pass makes again: layers.recompute of spira")
    parser.add_argument("--profile", action="store_true", help="also lists kernels")
    arguments = parser.parse_args()
    arguments.dtype = {"fp16": torch.float16, "bf16": torch.bfloat16,
                       "fp32": torch.float32}[arguments.type]
    rank, count = join()
    if count > 1 and (arguments.part != "step" or arguments.profile):
        parser.error("several processes: --part step, without --profile")
    indices, shape = read_scan(arguments.scan, arguments.voxel, arguments.order)
    if arguments.part != "step" and arguments.library == "spira.pytorch":
        bench_layers(arguments, indices, shape)
    if arguments.part != "layers":
        bench_step(arguments, indices, shape, rank, count)
    if count > 1:
        sys.stdout.flush()
        os._exit(0) # graphs that hold NCCL's kernels need no end of their own


if __name__ == "__main__":
    main()
