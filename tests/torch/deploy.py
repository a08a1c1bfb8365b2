# SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
# tests/torch/deploy.py: the way from training to C++: scenes, training, checkpoint, labels.
#
#     deploy.py SCAN      examples/scan.cu, built for the host
#
# The streets and curves need NumPy alone. The rest needs PyTorch with spira's operators and counts
# as skipped without them.
import functools
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

import numpy as np

SCAN = os.path.abspath(sys.argv[1])
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FOLDER = os.path.join(ROOT, "examples", "torch")
sys.path += [FOLDER, os.path.dirname(FOLDER)]
import checkpoint
import curves
import scenes

try:
    import torch
    import spira.pytorch # noqa: F401
    import label
    import reference
    import train
    from spunet import SpUNet
    HAS_TORCH = True
except (ImportError, OSError) as fault: # OSError: a library that does not load
    print(f"skipped the training: {fault}")
    HAS_TORCH = False

checks = {True: 0, False: 0}


def check(good, what):
    checks[bool(good)] += 1
    if not good:
        print(f"deploy.py: {what}")


def run(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    check(done.returncode == 0, f"{' '.join(command)}: {done.stdout}")
    return done.stdout


# ---- scenes -------------------------------------------------------------------------------------

def check_streets():
    points, labels = scenes.street(3)
    again, _ = scenes.street(3)
    check(np.array_equal(points, again) and len(points) == len(labels), "a street does not repeat")
    check(set(np.unique(labels)) <= set(range(len(scenes.class_names()))), "classes of a street")
    utm = np.array((5e5, 5.4e6, 0))
    far = np.append(points[:, :3].astype(float) + utm, [[np.nan, 0, 0]], 0)
    near, origin = scenes.moved(far)
    check(len(near) == len(points) and origin[1] % 100 == 0 and origin[2] == 0 and
          np.abs(near.astype(float) + origin - utm - points[:, :3]).max() < 1e-4, "points in UTM")
    check(np.array_equal(scenes.moved(points)[0], points), "points around 0 are moved")
    coords, features, truth = scenes.voxelize(points, 0.25, labels)
    want = np.unique(np.floor(points[:, :3] / np.float32(0.25)).astype(int), axis=0)
    check(np.array_equal(coords, want), "the voxels of a street")
    row = np.unique(np.floor(points[:, :3] / np.float32(0.25)).astype(int), axis=0,
                    return_inverse=True)[1].reshape(-1)
    votes = np.zeros((len(want), len(scenes.class_names())), int)
    np.add.at(votes, (row, labels), 1)
    check(np.array_equal(truth, votes.argmax(1)), "the classes of voxels")
    mean = np.zeros((len(want), 4))
    np.add.at(mean, row, points * (0.1, 0.1, 0.1, 1))
    check(np.allclose(features, mean / votes.sum(1)[:, None], atol=1e-5), "the features of voxels")


def check_batches():
    streets = scenes.Streets(0.5, 12, augment=True)
    items = [streets[seed] for seed in (1, 2)]
    indices, features, truth, shape, count = scenes.batch_of(items)
    check(count == 2 and len(indices) == len(features) == len(truth), "the rows of a batch")
    check(indices.min() >= 0 and (indices[:, 1:].max(0) < shape).all(), "voxels beyond the shape")
    check(all(n % scenes.COARSEST == 0 for n in shape), f"shape {shape}")
    for number, (coords, _, _) in enumerate(items):
        moved = indices[indices[:, 0] == number][:, :0:-1] - coords
        check((moved == moved[0]).all() and (moved[0] % scenes.COARSEST == 0).all(),
              "voxels are not moved by multiples of the coarsest stride")
    points, _ = scenes.street(1)
    turned = scenes.augmented(points, np.random.default_rng(1))
    before, after = (np.linalg.norm(p[:, :3], axis=1) for p in (points, turned))
    check(np.ptp(after / before) < 1e-4 and not np.allclose(points, turned), "turned points")


def check_curves(folder):
    path = os.path.join(folder, "curves.svg")
    losses = [(step, 2 / step) for step in range(1, 1000)]
    results = [(500, [0.5, None, 0.1], 0.3), (1000, [0.6, None, 0.2], 0.4)]
    for cut in ((losses, results), (losses, []), ([], []), (losses[:1], results[:1])):
        curves.draw(path, *cut, ["a", "b", "c"])
        lines = xml.etree.ElementTree.parse(path).getroot().findall("{*}polyline")
        check(len(lines) == bool(cut[0]) + 3 * bool(cut[1]), f"{len(lines)} curves")


# ---- training -----------------------------------------------------------------------------------

def check_iou():
    ious, mean = train.iou_of(torch.tensor([[3, 1, 0], [1, 5, 0], [0, 0, 0]]))
    check(np.allclose(ious[:2], [3 / 5, 5 / 7]) and ious[2] is None, f"IoU {ious}")
    check(abs(mean - (3 / 5 + 5 / 7) / 2) < 1e-12, f"mean IoU {mean}")


def check_losses():
    """The losses of a few steps agree with those of plain PyTorch in double precision."""
    device = os.environ.get("SPIRA_TEST_DEVICE", "cpu")
    torch.manual_seed(3)
    net = train.network(len(scenes.class_names()))
    judge = SpUNet(4, len(scenes.class_names()), 16, train.CHANNELS, train.BLOCKS,
                   functools.partial(torch.nn.BatchNorm1d, eps=1e-3, momentum=0.05), reference)
    judge.load_state_dict(net.state_dict())
    net, judge = net.to(device), judge.double()
    optimizers = [torch.optim.AdamW(n.parameters(), lr=3e-3) for n in (net, judge)]
    for step in range(4):
        batch = train.tensors_of([scenes.Streets(0.5, 5, True)[100 + step]])
        indices, features, truth, shape, count = batch
        ours = train.scores_of(net, train.on_device(batch, device)).double().cpu()
        plain = judge(reference.SparseConvTensor(features.double(), indices, shape, count))
        losses = [torch.nn.functional.cross_entropy(scores, truth.long())
                  for scores in (ours, plain)]
        for loss, optimizer in zip(losses, optimizers):
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        ours, plain = (loss.item() for loss in losses)
        check(abs(ours - plain) < 1e-3 * plain, f"step {step}: loss {ours}, not {plain}")


def check_training(folder):
    """A training that is interrupted ends where one ends that is not. Two processes train, too."""
    script = (sys.executable, os.path.join(FOLDER, "train.py"), "--device", "cpu", "--voxel", "0.5",
              "--reach", "7", "--batch", "1", "--workers", "1", "--validate", "1", "--every", "2")
    whole, parts = os.path.join(folder, "whole"), os.path.join(folder, "parts")
    run(*script, "--out", whole, "--steps", "4")
    # Interrupted: the first two steps, of four.
    os.makedirs(parts)
    stop = subprocess.run((sys.executable, "-c", STOPPED, *script[2:], "--out", parts, "--steps",
                           "4"), cwd=FOLDER, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True)
    check(stop.returncode == 7, f"stopped: {stop.stdout}")
    run(*script, "--out", parts, "--steps", "4", "--resume")
    ends = [torch.load(os.path.join(f, "last.pt"), weights_only=True) for f in (whole, parts)]
    check(all(torch.equal(a, b) for a, b in zip(*(end["model"].values() for end in ends))),
          "a training that was resumed has other weights")
    check(ends[0]["step"] == ends[1]["step"] == 4, "steps of a resumed training")
    again = subprocess.run((*script, "--out", whole), stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, text=True)
    check(again.returncode and "--resume" in again.stdout, "a training was overwritten")
    two = os.path.join(folder, "two")
    said = run(sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", *script[1:],
               "--out", two, "--steps", "1")
    check("on 2 x cpu" in said and os.path.exists(os.path.join(two, "best.pt")), f"two: {said}")
    check_int8(script, os.path.join(whole, "best.pt"), os.path.join(folder, "int8"))


def check_int8(script, trained, out):
    """A training with int8's roundings begins with what calibration makes, and writes a table and a
    blob; label.py reads its checkpoint."""
    said = run(*script, "--out", out, "--qat", trained, "--calibrate", "2", "--steps", "2")
    check("step 0: loss -, mean IoU" in said and "step 2: loss " in said, f"--qat: {said}")
    entries = checkpoint.read_blob(os.path.join(out, "best.blob"))
    eight = sum(kind == "weight_range" for _, kind in entries)
    check(eight == sum(kind == "weight" for _, kind in entries) - 1, f"{eight} layers of int8")
    points, _ = scenes.street(5)
    coords, scores = label.label(os.path.join(out, "best.pt"), points[:4000])
    check(len(coords) == len(scores) > 100 and np.isfinite(scores).all(), "labels of int8")


# Stops a training behind its first validation.
STOPPED = """
import sys
sys.path.insert(0, ".")
import train
measure = train.Training.measure
def stop(training):
    measure(training)
    sys.exit(7)
train.Training.measure = stop
train.main()
"""


# ---- labels -------------------------------------------------------------------------------------

def trained_network(path):
    """A network with a batch norm that has seen something, as train.py saves it."""
    torch.manual_seed(5)
    names = scenes.class_names()
    net = train.network(len(names))
    for part in net.modules():
        if isinstance(part, torch.nn.BatchNorm1d):
            torch.nn.init.uniform_(part.weight, 0.5, 1.5)
            torch.nn.init.normal_(part.bias, 0, 0.2)
            part.momentum = 0.5
    for seed in (11, 12):
        batch = train.tensors_of([scenes.Streets(0.4, 8)[seed]])
        with torch.no_grad():
            train.scores_of(net, batch)
    torch.save({"model": net.state_dict(), "voxel": 0.4, "classes": names, "step": 2}, path)


def check_labels(folder):
    """The labels of Python and of C++. Two classes may change places where their scores agree to
    within rounding."""
    def at(name):
        return os.path.join(folder, name)

    trained_network(at("net.pt"))
    said = run(sys.executable, os.path.join(ROOT, "examples", "checkpoint.py"), "convert",
               at("net.pt"), "--network", "spunet-small", "--out", at("net.blob"))
    check("left over under \"\": none" in said, f"checkpoint.py: {said}")
    points, _ = scenes.street(5)
    np.save(at("scan.npy"), points[(np.abs(points[:, :2]) < 15).all(1)])
    said = run(SCAN, "--net", "SpUNet-small", "--weights", at("net.blob"), "--voxel", "0.4",
               "--layers", "--scan", at("scan.npy"), "--picture", at("scan.png"), "--save-labels",
               at("labels.npy"))
    coords, scores = label.label(at("net.pt"), np.load(at("scan.npy")))
    if not os.path.exists(at("labels.npy")):
        return
    got = np.load(at("labels.npy"))
    check(np.array_equal(got[:, :3], coords), "other voxels in C++")
    check(len(got) > 2000 and len(np.unique(got[:, 3])) > 2, "labels that say little")
    ordered = np.sort(scores, 1)
    close = ordered[:, -1] - ordered[:, -2] < 1e-3 * np.abs(scores).max()
    differ = got[:, 3] != scores.argmax(1)
    check(not (differ & ~close).any(), f"{differ.sum()} of {len(differ)} labels differ in C++")
    check(differ.mean() < 1e-3, f"{differ.sum()} of {len(differ)} labels differ in C++")
    for c, name in enumerate(scenes.class_names()):
        check(f"{name:10} {np.sum(got[:, 3] == c):9}" in said, f"{name}: another count printed")
    check(os.path.getsize(at("scan.png")) > 10000, "no picture")


def main():
    skipped = 0
    with tempfile.TemporaryDirectory() as folder:
        check_streets()
        check_batches()
        check_curves(folder)
        if HAS_TORCH:
            check_iou()
            check_losses()
            check_labels(folder)
            check_training(folder)
        else:
            skipped = 4
    print(f"{checks[True]} passed, {checks[False]} failed, {skipped} skipped")
    return checks[False] > 0


if __name__ == "__main__":
    sys.exit(main())
