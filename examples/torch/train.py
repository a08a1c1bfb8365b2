#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
# examples/torch/train.py: trains SpUNet-small to label the voxels of street scenes. The scenes are
# generated while it trains, and no scene comes twice.
#
#     train.py --out run                           on the GPU if there is one
#     train.py --out run --resume                  goes on from run/last.pt
#     torchrun --nproc-per-node=8 train.py --out run     a batch for each GPU
#     train.py --out run8 --qat run/best.pt        goes on from a trained network, for int8
#
# In the folder of --out: best.pt and last.pt (checkpoints), log.jsonl (a line for each validation),
# curves.svg; with --qat best.layers and best.blob, too. README.md, "Train and deploy", goes on from
# there.
import argparse
import json
import os
import shutil
import sys
import time
from functools import partial

import torch
from torch import distributed
from torch.nn import functional

sys.path.append(sys.path.pop(0)) # this folder last: `spira` is the installed package
import curves
import scenes
import spira.pytorch as spconv
from spira.pytorch import qat
from spunet import SpUNet

CHANNELS, BLOCKS = (16, 32, 48, 64, 48, 32, 32, 16), (1,) * 8 # networks.h: SpUNet-small
SHARES = (0.23, 0.22, 0.35, 0.09, 0.006, 0.085, 0.016) # of the classes among the voxels, about
TRAINED_FROM = 1_000_000 # seeds of training streets; those of validation begin at 0
CALIBRATED_FROM = 900_000 # of the streets that ranges of int8 are chosen on


def arguments():
    parser = argparse.ArgumentParser(description="Trains SpUNet-small on generated street scenes.")
    parser.add_argument("--out", required=True, help="folder for checkpoints, log and curves")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--batch", type=int, default=4, help="streets in a step, of each process")
    parser.add_argument("--voxel", type=float, default=0.1, help="edge in metres")
    parser.add_argument("--reach", type=float, help="leaves out what is farther away, metres")
    parser.add_argument("--rate", type=float, help="the largest learning rate (0.003; --qat: 3e-4)")
    parser.add_argument("--qat", help="a trained best.pt: trains it on with int8's roundings")
    parser.add_argument("--calibrate", type=int, default=8, help="streets that choose its ranges")
    parser.add_argument("--method", choices=qat.METHODS, default="mse", help="of choosing them")
    parser.add_argument("--every", type=int, default=250, help="steps between validations")
    parser.add_argument("--validate", type=int, default=20, help="streets of a validation")
    parser.add_argument("--device", choices=("cuda", "cpu"),
                        default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--type", choices=("fp16", "bf16", "fp32"),
                        help="of the features: fp16 on a GPU, fp32 on the CPU")
    parser.add_argument("--workers", type=int, help="processes that make scenes")
    parser.add_argument("--seed", type=int, default=1, help="of the weights and the streets")
    parser.add_argument("--resume", action="store_true", help="goes on from OUT/last.pt")
    chosen = parser.parse_args()
    chosen.rate = chosen.rate or (3e-4 if chosen.qat else 3e-3)
    chosen.type = chosen.type or ("fp16" if chosen.device == "cuda" else "fp32")
    if chosen.workers is None:
        chosen.workers = workers_for(chosen.batch)
    return chosen


def workers_for(batch):
    """A process for each core but one. Each has up to three batches in shared memory, about 4 MB
    for each street."""
    processes = int(os.environ.get("LOCAL_WORLD_SIZE", 1))
    room = shutil.disk_usage("/dev/shm").free if os.path.isdir("/dev/shm") else 1 << 30
    most = min(len(os.sched_getaffinity(0)) // processes - 1,
               room // processes // (3 * batch * 4_000_000))
    return max(1, most)


# ---- processes ----------------------------------------------------------------------------------

class Processes:
    """This process among those of torchrun; alone without it."""

    def __init__(self, device):
        self.count, self.rank = int(os.environ.get("WORLD_SIZE", 1)), int(os.environ.get("RANK", 0))
        self.device = torch.device(device)
        if device == "cuda":
            local = int(os.environ.get("LOCAL_RANK", 0))
            torch.cuda.set_device(local)
            self.device = torch.device("cuda", local)
        if self.count > 1:
            distributed.init_process_group("nccl" if device == "cuda" else "gloo")

    def sum(self, tensor):
        if self.count > 1:
            distributed.all_reduce(tensor)
        return tensor

    def shared(self, net):
        """The same network with gradients of all processes. Batch norms count the rows of their
        own process, several streets: with SyncBatchNorm the host would wait for the GPU in each."""
        if self.count == 1:
            return net
        devices = [self.device.index] if self.device.type == "cuda" else None
        return torch.nn.parallel.DistributedDataParallel(
            net, devices, broadcast_buffers=False, gradient_as_bucket_view=True)

    def same_statistics(self, net):
        """Gives all processes the batch norms' statistics of the first one."""
        for buffer in net.buffers() if self.count > 1 else ():
            distributed.broadcast(buffer, 0)

    def end(self):
        if self.count > 1:
            distributed.destroy_process_group()


# ---- batches ------------------------------------------------------------------------------------

def tensors_of(items):
    indices, features, truth, shape, count = scenes.batch_of(items)
    return *map(torch.from_numpy, (indices, features, truth)), shape, count


def loader_of(chosen, streets, batches):
    """Batches of streets; `batches` is a list of lists of seeds."""
    return torch.utils.data.DataLoader(streets, batch_sampler=batches, collate_fn=tensors_of,
                                       num_workers=chosen.workers,
                                       pin_memory=chosen.device == "cuda")


def training_seeds(chosen, processes, first):
    """The streets of each step from `first` on. They depend on nothing but --seed, --batch and the
    number of processes: a training that is resumed sees the same ones."""
    of_step = chosen.batch * processes.count
    begin = TRAINED_FROM * chosen.seed
    return [[begin + step * of_step + processes.rank * chosen.batch + i
             for i in range(chosen.batch)] for step in range(first, chosen.steps)]


def on_device(batch, device):
    indices, features, truth, shape, count = batch
    return (*(t.to(device, non_blocking=True) for t in (indices, features, truth)), shape, count)


def network(classes):
    return SpUNet(in_channels=4, num_classes=classes, base_channels=16, channels=CHANNELS,
                  blocks=BLOCKS, norm=partial(torch.nn.BatchNorm1d, eps=1e-3, momentum=0.05))


def tensor_of(batch):
    indices, features, _, shape, count = batch
    return spconv.SparseConvTensor(features, indices, shape, count)


def scores_of(net, batch):
    """The scores of a batch's voxels, [voxels, classes]."""
    x = tensor_of(batch)
    plain = net.module if isinstance(net, torch.nn.parallel.DistributedDataParallel) else net
    return net(spconv.prepare(plain, x))


# ---- validation ---------------------------------------------------------------------------------

def iou_of(confusion):
    """The intersection over the union of each class, None where there is none, and their mean.

    confusion   [truth, found] counts of voxels
    """
    both = confusion.diagonal().double()
    union = (confusion.sum(0) + confusion.sum(1)).double() - both
    ious = [float(b / u) if u > 0 else None for b, u in zip(both, union)]
    known = [iou for iou in ious if iou is not None]
    return ious, sum(known) / len(known) if known else 0.0


def held_out(chosen, processes):
    """The streets of the validation, those of this process: batches of one."""
    seeds = range(chosen.validate)[processes.rank::processes.count]
    streets = scenes.Streets(chosen.voxel, chosen.reach)
    return list(loader_of(chosen, streets, [[seed] for seed in seeds]))


@torch.no_grad()
def validate(chosen, processes, net, batches, classes):
    """Labels streets that training does not see. Returns the IoU of each class, and the mean.

    net   the network itself: processes that have fewer streets do not wait in it for others
    """
    processes.same_statistics(net)
    confusion = torch.zeros(classes, classes, dtype=torch.long, device=processes.device)
    net.eval()
    for batch in batches:
        batch = on_device(batch, processes.device)
        with precision(chosen):
            found = scores_of(net, batch).argmax(1)
        pairs = batch[2].long() * classes + found
        confusion += torch.bincount(pairs, minlength=classes ** 2).reshape(classes, classes)
    net.train()
    return iou_of(processes.sum(confusion).cpu())


# ---- training -----------------------------------------------------------------------------------

def precision(chosen):
    types = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32}
    return torch.autocast(chosen.device, types[chosen.type], enabled=chosen.type != "fp32")


def rate_at(chosen, step):
    """Rises over the first twentieth, then falls to 0 along a cosine."""
    rise = max(1, chosen.steps // 20)
    if step < rise:
        return chosen.rate * (step + 1) / rise
    part = (step - rise) / max(1, chosen.steps - rise)
    return chosen.rate * (0.5 + 0.5 * torch.cos(torch.tensor(part * torch.pi)).item())


class Training:
    """A network, what trains it, and what was measured."""

    def __init__(self, chosen, processes):
        self.chosen, self.processes = chosen, processes
        self.names = scenes.class_names()
        torch.manual_seed(chosen.seed) # the same weights in all processes
        self.net = network(len(self.names)).to(processes.device)
        if chosen.qat:
            self.round_as_int8()
        self.optimizer = torch.optim.AdamW(self.net.parameters(), weight_decay=0.01,
                                           fused=chosen.device == "cuda")
        self.scaler = torch.amp.GradScaler(chosen.device, enabled=chosen.type == "fp16")
        self.step, self.best, self.seconds, self.losses, self.results = 0, -1.0, 0.0, [], []
        if chosen.resume:
            self.load(os.path.join(chosen.out, "last.pt"))
        self.shared = processes.shared(self.net)
        self.held_out = held_out(chosen, processes)
        self.weights = (torch.tensor(SHARES) ** -0.5).to(processes.device)
        self.weights /= self.weights.mean()

    def round_as_int8(self):
        """Makes the network one of int8, from a trained checkpoint."""
        state = torch.load(self.chosen.qat, map_location="cpu", weights_only=True)
        self.net.load_state_dict(state["model"])
        streets = scenes.Streets(self.chosen.voxel, self.chosen.reach)
        self.sample, *_ = samples = [
            tensor_of(on_device(tensors_of([streets[CALIBRATED_FROM + i]]), self.processes.device))
            for i in range(self.chosen.calibrate)]
        qat.prepare(self.net, self.sample)
        qat.calibrate(self.net, samples, self.chosen.method)

    def export(self):
        """Writes best.pt for C++: best.layers and best.blob."""
        path = os.path.join(self.chosen.out, "best")
        self.net.load_state_dict(torch.load(path + ".pt", weights_only=True)["model"])
        for suffix in (".layers", ".blob"): # of a training that was resumed
            if os.path.exists(path + suffix):
                os.remove(path + suffix)
        spconv.export(self.net, self.sample, path + ".layers")

    def load(self, path):
        state = torch.load(path, map_location="cpu", weights_only=True)
        self.net.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.scaler.load_state_dict(state["scaler"])
        for name in ("step", "best", "seconds", "losses", "results"):
            setattr(self, name, state[name])

    def save(self, name, whole=True):
        """Writes a checkpoint; `whole`: with all that a training goes on with."""
        state = {"model": self.net.state_dict(), "network": "SpUNet-small", "step": self.step,
                 "voxel": self.chosen.voxel, "classes": self.names,
                 "int8": bool(self.chosen.qat)}
        if whole:
            state.update(optimizer=self.optimizer.state_dict(), scaler=self.scaler.state_dict())
            state.update({part: getattr(self, part)
                          for part in ("best", "seconds", "losses", "results")})
        path = os.path.join(self.chosen.out, name)
        torch.save(state, path + ".new")
        os.replace(path + ".new", path) # a whole file at any time

    def advance(self, batch):
        """One step. Returns the loss, on the device."""
        for group in self.optimizer.param_groups:
            group["lr"] = rate_at(self.chosen, self.step)
        self.optimizer.zero_grad(set_to_none=True)
        with precision(self.chosen):
            scores = scores_of(self.shared, batch)
        loss = functional.cross_entropy(scores.float(), batch[2].long(), self.weights)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.step += 1
        return loss.detach()

    def measure(self):
        """Validates, prints, draws and saves."""
        ious, mean = validate(self.chosen, self.processes, self.net, self.held_out,
                              len(self.names))
        self.results.append((self.step, ious, mean))
        better, self.best = mean > self.best, max(mean, self.best)
        if self.processes.rank:
            return
        classes = "  ".join(f"{name} {'-' if iou is None else format(iou, '.3f')}"
                            for name, iou in zip(self.names, ious))
        loss = self.losses[-1][1] if self.losses else None # --qat, before any step
        print(f"step {self.step}: loss {'-' if loss is None else format(loss, '.4f')}, "
              f"mean IoU {mean:.4f}  ({classes})", flush=True)
        with open(os.path.join(self.chosen.out, "log.jsonl"), "a", encoding="utf-8") as file:
            print(json.dumps({"step": self.step, "loss": loss, "mean_iou": mean,
                              "iou": dict(zip(self.names, ious)),
                              "seconds": round(self.seconds, 1)}), file=file)
        curves.draw(os.path.join(self.chosen.out, "curves.svg"), self.losses, self.results,
                    self.names)
        self.save("last.pt")
        if better:
            self.save("best.pt", whole=False)


class Progress:
    """A bar on the terminal; a line now and then where there is none. Measures how long the steps
    wait for their streets."""

    def __init__(self, training):
        self.training, self.voxels, self.shown = training, 0, training.step
        self.first, self.begun, self.live = training.step, time.time(), sys.stderr.isatty()
        self.waited = 0.0

    def timed(self, batches):
        batches, end = iter(batches), object()
        while True:
            asked = time.time()
            batch = next(batches, end)
            if self.training.step > self.first: # the first one also starts the workers
                self.waited += time.time() - asked
            if batch is end:
                return
            yield batch

    def judge(self, workers):
        """Says if the GPU had nothing to do for want of streets."""
        share = self.waited / max(time.time() - self.begun, 1e-9)
        if share > 0.1 and not self.training.processes.rank:
            print(f"{100 * share:.0f} % of the time steps waited for their streets, which "
                  f"{max(workers, 1)} of {len(os.sched_getaffinity(0))} cores made: more of them "
                  f"(--workers) would train faster", flush=True)

    def show(self, loss):
        t, steps = self.training, self.training.chosen.steps
        if t.processes.rank or not (self.live or t.step - self.shown >= steps / 20):
            return
        self.shown = t.step
        passed = time.time() - self.begun
        left = passed / (t.step - self.first) * (steps - t.step)
        bar = "#" * (30 * t.step // steps)
        line = (f"{t.step:6d}/{steps} [{bar:30}] loss {loss:.4f}  "
                f"{self.voxels / passed / 1e6:.2f} Mvoxel/s  "
                f"{int(left) // 60}:{int(left) % 60:02d} left")
        print("\r" + line if self.live else line, end="" if self.live else "\n", file=sys.stderr,
              flush=True)

    def clear(self):
        if self.live and not self.training.processes.rank:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def train(training):
    chosen, processes = training.chosen, training.processes
    progress, sums, before = Progress(training), [], time.time()
    seeds = training_seeds(chosen, processes, training.step)
    if chosen.qat and training.step == 0:
        training.measure() # what calibration alone makes
    loader = loader_of(chosen, scenes.Streets(chosen.voxel, chosen.reach, True), seeds)
    for batch in progress.timed(loader):
        batch = on_device(batch, processes.device)
        sums.append(training.advance(batch))
        progress.voxels += len(batch[0]) * processes.count
        last = training.step == chosen.steps
        if len(sums) == 20 or last or training.step % chosen.every == 0: # the host waits here
            loss = processes.sum(torch.stack(sums).mean()).item() / processes.count
            training.losses.append((training.step, loss))
            sums = []
            progress.show(loss)
        if last or training.step % chosen.every == 0:
            training.seconds += time.time() - before
            progress.clear()
            training.measure()
            before = time.time()
    progress.judge(chosen.workers)


def main():
    chosen = arguments()
    os.makedirs(chosen.out, exist_ok=True)
    there = os.path.exists(os.path.join(chosen.out, "last.pt"))
    if there and not chosen.resume:
        sys.exit(f"train.py: {chosen.out} has a training; say --resume, or another --out")
    if chosen.resume and not there:
        sys.exit(f"train.py: --resume: there is no {chosen.out}/last.pt")
    scenes.library()
    processes = Processes(chosen.device)
    training = Training(chosen, processes)
    if not processes.rank:
        parameters = sum(p.numel() for p in training.net.parameters())
        print(f"SpUNet-small, {parameters / 1e6:.2f} M parameters, {chosen.type} on "
              f"{processes.count} x {chosen.device}, {chosen.batch * processes.count} streets a "
              f"step, voxels of {chosen.voxel} m", flush=True)
    train(training)
    if not processes.rank:
        print(f"best mean IoU {training.best:.4f} on {chosen.validate} streets that training has "
              f"not seen; {training.seconds:.0f} s of training; {chosen.out}/best.pt")
        if chosen.qat:
            training.export()
    processes.end()


if __name__ == "__main__":
    main()
