#!/usr/bin/env python3
# tests/torch/host_time.py: the host's share of a training step on a GPU, timed without one: SpUNet
# as examples/torch/bench.py trains it, on a CUDA runtime that does nothing (fake_cudart.cpp).
#
#     g++ -O2 -fPIC -shared -fvisibility=hidden -I/usr/local/cuda/include fake_cudart.cpp -o fake.so
#     LD_PRELOAD=$PWD/fake.so OMP_NUM_THREADS=1 SPIRA_TORCH_LIBRARY=.../_C.abi3.so \
#         PYTHONPATH=../../examples/torch python3 host_time.py
#
# Needs libcuda.so.1, or a library of that name with the functions that libcaffe2_nvrtc.so links.
# A line of JSON: microseconds of each part (the tenth of --times steps that was fastest), and the
# calls of a step. On a GPU each launch costs the host some microseconds more.
import argparse
import array
import ctypes
import json
import os
import time

import torch

import spira.pytorch as spconv
from spunet import SpUNet

COUNTS, SHAPE = (91766, 59999, 31757, 14534, 5906), (128, 2016, 3136)  # KITTI 00, 000000, 5 cm
CALLS = ("LaunchKernel", "cudaMemcpyAsync", "cudaMemsetAsync", "cudaFuncSetAttribute",
         "cudaGetDevice")


def provide(fake, *numbers):
    """What a read-back of so many int32 finds."""
    data = array.array("i", numbers)
    fake.fake_readback(ctypes.c_void_p(data.buffer_info()[0]), ctypes.c_size_t(4 * len(data)))


def make_step(fake):
    """A function that runs a step and returns the time of each mark."""
    provide(fake, *[n for count in COUNTS for n in (count, *[0] * 10)]) # of prepare()
    net = spconv.convert_batchnorm(SpUNet(4, 20)).cuda()
    features = torch.empty(COUNTS[0], 4, device="cuda")
    indices = torch.empty(COUNTS[0], 4, dtype=torch.int32, device="cuda")
    labels = torch.empty(COUNTS[0], dtype=torch.int64, device="cuda")
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3, fused=True)
    scaler = torch.amp.GradScaler(init_scale=1024.0)

    def step():
        marks = [time.perf_counter()]
        mark = lambda: marks.append(time.perf_counter())
        optimizer.zero_grad(set_to_none=True)
        mark()
        with torch.autocast("cuda", dtype=torch.float16):
            x = spconv.prepare(net, spconv.SparseConvTensor(features, indices, SHAPE, 1))
            mark()
            scores = net(x)
            mark()
            loss = torch.nn.functional.cross_entropy(scores.float(), labels)
        mark()
        scaler.scale(loss).backward()
        mark()
        scaler.step(optimizer)
        scaler.update()
        mark()
        return marks

    return step


def main():
    parser = argparse.ArgumentParser(description="Times the host in a training step of SpUNet.")
    parser.add_argument("--times", type=int, default=300)
    times = parser.parse_args().times
    torch.set_num_threads(1)
    fake = ctypes.CDLL(os.environ["LD_PRELOAD"])
    step = make_step(fake)
    for _ in range(10):
        step()
    before = [fake.fake_calls(name.encode()) for name in CALLS]
    found = [step() for _ in range(times)]
    calls = {name: round((fake.fake_calls(name.encode()) - n) / times)
             for name, n in zip(CALLS, before)}
    fast = lambda values: round(sorted(values)[times // 10] * 1e6)
    parts = ("zero_grad", "prepare", "forward", "loss", "backward", "optimizer")
    us = {name: fast([m[i + 1] - m[i] for m in found]) for i, name in enumerate(parts)}
    print(json.dumps({**us, "all": fast([m[-1] - m[0] for m in found]), **calls}))


if __name__ == "__main__":
    main()
