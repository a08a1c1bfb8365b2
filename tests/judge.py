#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
# tests/judge.py: compares the networks of examples/detectors.h with spconv, layer by layer.
"""An independent judge of the networks that people train with spconv.

    judge.py LEVELS [--networks second,spunet] [--scenes room] [--rules 100] [--type fp16]
    judge.py --self-test

LEVELS is examples/levels.cu, built for the GPU (build/example_levels) or the host. For each network
and scene the judge
    builds the network in spconv (judge_networks.py) with random parameters and runs it,
    converts its parameters with examples/checkpoint.py, as a user does with a checkpoint,
    runs LEVELS on the same voxels and features, and compares every layer that it kept:
        the voxels, exactly; the extent of their grid; the features; the dense map.
It does the same with single strided layers of random size, stride, padding and dilation, and with
the inverse layers that lead back.
The error of a layer is the largest difference over the largest feature that spconv has in it.

Without spconv, PyTorch or NumPy nothing is compared, and the last line counts the cases as skipped.
--self-test compares made-up layers with planted errors, and needs NumPy only.
"""
import argparse
import os
import subprocess
import sys
import tempfile
from types import SimpleNamespace

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
SCRIPT = os.path.join(ROOT, "examples", "checkpoint.py")
sys.path.insert(0, os.path.dirname(SCRIPT))
THREADS = os.environ.get("OMP_NUM_THREADS")
# spconv 2.3.8 on a CPU has wrong rows now and then if it runs in more threads than one.
os.environ["OMP_NUM_THREADS"] = "1"

# network -> its name in spira, the axes of spira in the order of its coordinates
NETWORKS = {"second": ("VoxelBackBone8x", "zyx"), "centerpoint": ("SpMiddleResNetFHD", "zyx"),
            "bevfusion": ("BEVFusion", "yxz"), "voxelnext": ("VoxelNeXt", "zyx"),
            "spunet": ("SpUNet-v1m1", "zyx")}
SCENES = ("nuscenes", "room", "batch", "sparse")
BOUNDS = {"fp32": 2e-5, "tf32": 2e-2, "fp16": 2e-2, "bf16": 1e-1}
NUSCENES = os.path.join(ROOT, "data", "nuscenes_10sweeps.pcd.bin")
# Voxels of spconv 2.3.8 on this scan: the input and the four strided layers.
KNOWN = {"second": (105127, 111474, 54515, 21216, 17698),
         "centerpoint": (105127, 111474, 54515, 21216, 17698)}

counts = {"passed": 0, "failed": 0, "skipped": 0}


def check(good, what):
    counts["passed" if good else "failed"] += 1
    if not good:
        print(f"    WRONG: {what}")
    return good


# ---- scenes -------------------------------------------------------------------------------------

# Voxels [n, 4] (batch, x, y, z), features [n, c], extent (x, y, z) and batch size.
class Scene:
    def __init__(self, voxels, features, extent, batch):
        order = np.random.default_rng(9).permutation(len(voxels))
        self.voxels = np.ascontiguousarray(voxels[order], np.int32)
        self.features = np.ascontiguousarray(features[order], np.float32)
        self.extent, self.batch = extent, batch


def nuscenes():
    """Quantised in double precision, as KNOWN was. Many points of this scan are on the edge of a
    voxel: in fp32 there are 105,086 voxels."""
    points = np.fromfile(NUSCENES, "<f4").reshape(-1, 5).astype(np.float64)
    lo, hi, size = np.array(((-54, -54, -5), (54, 54, 3), (0.075, 0.075, 0.2)))
    points = points[((points[:, :3] >= lo) & (points[:, :3] < hi)).all(1)]
    places = np.floor((points[:, :3] - lo) / size).astype(np.int64)
    voxels, which, rows = np.unique(places, axis=0, return_inverse=True, return_counts=True)
    features = np.zeros((len(voxels), 5))
    np.add.at(features, which.reshape(-1), points)
    features = features / rows[:, None] / (20, 20, 2, 100, 0.5)
    voxels = np.concatenate([np.zeros((len(voxels), 1), np.int64), voxels], 1)
    return Scene(voxels, features, (1440, 1440, 41), 1)


def random_room(random, extent, floor):
    """Voxels of a floor, walls along the ends of the extent, and clutter."""
    x, y, z = extent
    parts = [random.integers(0, extent, (floor // 8, 3))]
    for count, box in ((floor, (x, y, 2)), (floor // 2, (1, y, z)), (floor // 2, (x, 1, z))):
        parts.append(random.integers(0, box, (count, 3)))
    parts.append(np.array(extent) - 1 - parts[-1])
    return np.unique(np.concatenate(parts), axis=0)


def room(seed=1, extent=(151, 203, 43), floor=6000, batch=1):
    random = np.random.default_rng(seed)
    rooms = [random_room(random, extent, floor >> b) for b in range(batch)]
    voxels = np.concatenate([np.insert(r, 0, b, axis=1) for b, r in enumerate(rooms)])
    return Scene(voxels, random.standard_normal((len(voxels), 5)), extent, batch)


def sparse():
    """Isolated voxels, whose sets grow in strided layers, the corners of the extent among them."""
    random, extent = np.random.default_rng(3), (97, 64, 41)
    voxels = random.integers(0, extent, (150, 3))
    corners = np.stack(np.meshgrid(*((0, n - 1) for n in extent)), -1).reshape(-1, 3)
    voxels = np.insert(np.unique(np.concatenate([voxels, corners]), axis=0), 0, 0, axis=1)
    return Scene(voxels, random.standard_normal((len(voxels), 5)), extent, 1)


def make_scene(name):
    if name == "batch":
        return room(seed=2, extent=(120, 90, 41), floor=3000, batch=2)
    return {"nuscenes": nuscenes, "room": room, "sparse": sparse}[name]()


# ---- spira --------------------------------------------------------------------------------------

# A layer that LEVELS wrote: voxels [n, 4] in voxels of the finest grid, and its grid along x, y, z.
class Layer:
    def __init__(self, folder, line):
        number, self.name, number_set, _, _, kind, *grid = line.split()
        grid = np.array(grid, int)
        self.origin, self.stride, self.extent = grid[:3], grid[3:6], grid[6:]
        self.dense = kind == "dense"
        self.voxels = np.load(f"{folder}/set{number_set}.npy")
        self.values = np.load(f"{folder}/{'dense' if self.dense else 'layer'}{number}.npy")


def read_layers(folder):
    with open(f"{folder}/layers.txt") as file:
        return [Layer(folder, line) for line in file]


def run_program(*command):
    """Returns what a program prints, or None if it fails."""
    environment = {n: v for n, v in os.environ.items() if n != "OMP_NUM_THREADS"}
    environment.update({"OMP_NUM_THREADS": THREADS} if THREADS else {})
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          universal_newlines=True, env=environment)
    good = check(done.returncode == 0, f"{' '.join(command)}: {done.stdout[-2000:]}")
    return done.stdout if good else None


def make_blob(network, tensors, folder):
    """Converts a checkpoint as a user does."""
    np.savez(os.path.join(folder, "made.npz"), **{f"backbone.{n}": t for n, t in tensors.items()})
    return run_program(sys.executable, "-B", SCRIPT, "convert", os.path.join(folder, "made.npz"),
                       "--network", network, "--out", os.path.join(folder, "net.blob"))


def run_levels(chosen, net, scene, folder, extent=True):
    """Runs LEVELS with the blob in the folder. Returns its layers, or None."""
    voxels, out = os.path.join(folder, "in.npy"), os.path.join(folder, "out")
    np.save(voxels, np.concatenate([scene.voxels, scene.features], 1).astype("<f4"))
    os.mkdir(out)
    said = run_program(chosen.levels, "--net", net, "--weights", os.path.join(folder, "net.blob"),
                       "--in", voxels, "--out", out, "--batch", str(scene.batch), "--type",
                       chosen.type,
                       *(("--extent", ",".join(str(n) for n in scene.extent)) if extent else ()))
    if said is None:
        return None
    check("of no layer" not in said, f"the blob has more than the table: {said}")
    return read_layers(out)


# ---- the comparison -----------------------------------------------------------------------------

def sorted_rows(rows):
    return np.lexsort(rows.T[::-1])


def indices_of(layer, axes):
    """The voxels of a layer as spconv counts them, or None if they are off the layer's grid."""
    steps = layer.voxels[:, 1:] - layer.origin
    if (steps % layer.stride).any():
        return None
    steps = steps // layer.stride
    return np.concatenate([layer.voxels[:, :1], steps[:, ["xyz".index(a) for a in axes]]], 1)


def compare_layer(layer, level, axes, bound, report=check):
    """Compares a layer with spconv's. Returns the error of its features, or None."""
    if level.indices.shape[1] == 3: # a layer without z
        axes = axes.replace("z", "")
    indices = indices_of(layer, axes)
    if not report(indices is not None, f"{layer.name}: voxels that are off its grid"):
        return None
    ours, theirs = sorted_rows(indices), sorted_rows(level.indices)
    same = indices.shape == level.indices.shape and \
        np.array_equal(indices[ours], level.indices[theirs])
    a, b = ({tuple(row) for row in rows.tolist()} for rows in (indices, level.indices)) \
        if not same else (set(), set())
    if not report(same, f"{layer.name}: {len(indices)} voxels, not {len(level.indices)}; only in "
                  f"spira {sorted(a - b)[:4]}, only in spconv {sorted(b - a)[:4]}"):
        return None
    extent = [int(layer.extent["xyz".index(axis)]) for axis in axes]
    report(extent == level.extent or not any(extent),
           f"{layer.name}: an extent of {extent}, not {level.extent}")
    return compare_values(layer.name, layer.values[ours], level.features[theirs], bound, report)


def compare_values(name, ours, theirs, bound, report=check):
    if not report(ours.shape == theirs.shape, f"{name}: shape {ours.shape}, not {theirs.shape}"):
        return None
    largest = float(np.abs(theirs).max(initial=0)) or 1.0
    difference = np.abs(ours - theirs)
    error = float(difference.max(initial=0)) / largest
    at = np.unravel_index(difference.argmax(), ours.shape) if ours.size else None
    report(error <= bound, f"{name}: an error of {error:.3g} of the largest value {largest:.3g}, "
           f"at {at}; the bound is {bound:g}")
    return error


def compare_network(network, layers, run, bound):
    """Compares all layers that spira kept. Returns the worst error and its layer."""
    axes, worst = NETWORKS[network][1], (-1.0, "no layer")
    for layer in layers:
        if layer.dense:
            error = compare_values("the dense map", layer.values, run.dense, bound)
        elif check(layer.name in run.levels, f"{layer.name}: no such layer in spconv's network"):
            error = compare_layer(layer, run.levels[layer.name], axes, bound)
        else:
            error = None
        worst = max(worst, (error, layer.name)) if error is not None else worst
    check((run.dense is not None) == any(layer.dense for layer in layers), "no dense map")
    last = list(run.levels)[-1]
    check(any(layer.name == last for layer in layers), f"{last}: spira did not keep the last layer")
    return worst


def judge(chosen, network, scene_name):
    scene = make_scene(scene_name)
    axes = ["xyz".index(a) for a in NETWORKS[network][1]]
    shape = [scene.extent[a] for a in axes]
    if network == "spunet":
        shape = [int(n) + 96 for n in scene.voxels[:, 1:].max(0)[axes]]
    indices = np.ascontiguousarray(scene.voxels[:, [0] + [1 + a for a in axes]])
    run = judge_networks.run_network(network, indices, scene.features, shape, scene.batch,
                                     chosen.seed)
    sizes = list(dict.fromkeys(len(level.indices) for level in run.levels.values()))
    if scene_name == "nuscenes" and network in KNOWN:
        check(tuple(sizes) == KNOWN[network], f"spconv has {sizes} voxels, not {KNOWN[network]}")
    with tempfile.TemporaryDirectory(dir=chosen.folder) as folder:
        if make_blob(network, run.tensors, folder) is None:
            return
        layers = run_levels(chosen, NETWORKS[network][0], scene, folder, network != "spunet")
        if layers is None:
            return
        before = counts["failed"]
        error, at = compare_network(network, layers, run, BOUNDS[chosen.type])
        print(f"{NETWORKS[network][0]}, {scene_name}: {len(layers)} layers, voxels "
              f"{' '.join(str(n) for n in sizes)}; largest error {error:.2e} in {at}: "
              f"{'good' if counts['failed'] == before else 'WRONG'}", flush=True)


# ---- single layers ------------------------------------------------------------------------------

def random_rule(random):
    """Size, stride, padding, dilation [4, 3] along x, y, z, and an extent that they leave
    something of."""
    while True:
        size, stride = random.choice([1, 2, 3, 4, 5], 3), random.choice([1, 2, 3], 3)
        padding, dilation = random.integers(0, 3, 3), random.choice([1, 1, 1, 2], 3)
        extent = random.integers(4, 24, 3)
        left = extent + 2 * padding - dilation * (size - 1) - 1
        # spconv's inverse layers of size 1 stay on their set.
        if (left >= 0).all() and (size > 1).any():
            return np.stack([size, stride, padding, dilation]), extent


def judge_rule(chosen, number):
    """Compares a strided layer and its inverse. Returns the worst error, or None."""
    random = np.random.default_rng((chosen.seed, number))
    rule, extent = random_rule(random)
    batch = int(random.integers(1, 3))
    voxels = np.concatenate([random.integers(0, batch, (150, 1)),
                             random.integers(0, extent, (150, 3))], 1)
    voxels = np.unique(voxels, axis=0)
    scene = Scene(voxels, random.standard_normal((len(voxels), 16)), extent.tolist(), batch)
    weights = [random.standard_normal((*rule[0], *channels)).astype(np.float32)
               for channels in ((16, 32), (32, 16))]
    levels = judge_networks.run_rule(rule[:, ::-1].tolist(),
                                     [w.transpose(4, 2, 1, 0, 3) for w in weights],
                                     np.ascontiguousarray(scene.voxels[:, [0, 3, 2, 1]]),
                                     scene.features, scene.extent[::-1], batch)
    name, bound = "rule:" + ",".join(str(n) for n in rule.reshape(-1)), BOUNDS[chosen.type]
    with tempfile.TemporaryDirectory(dir=chosen.folder) as folder:
        with open(os.path.join(folder, "net.blob"), "wb") as file:
            file.write(checkpoint.blob_of([("strided", "weight", weights[0]),
                                           ("inverse", "weight", weights[1])], "fp32"))
        layers = run_levels(chosen, name, scene, folder)
        errors = [compare_layer(layer, levels[layer.name], "zyx", bound)
                  for layer in (layers or [])[1:]]
    good = len(errors) == 2 and None not in errors and max(errors) <= bound
    if not good:
        print(f"    in {name}, extent {scene.extent}, --seed {chosen.seed}, number {number}")
    return max(errors) if good else None


def judge_rules(chosen):
    if missing:
        print(f"skipped the single layers: {missing}")
        counts["skipped"] += 1
        return
    errors = [judge_rule(chosen, i) for i in range(chosen.rules)]
    good = [error for error in errors if error is not None]
    if errors:
        print(f"single layers: {len(good)} of {len(errors)} good; largest error "
              f"{max(good, default=0):.2e}", flush=True)


# ---- a test of the judge ------------------------------------------------------------------------

def self_test():
    """Equal layers must be found equal, and each planted error must be found."""
    random = np.random.default_rng(5)
    indices = np.unique(random.integers(0, (2, 9, 30, 20), (300, 4)), axis=0) # batch, z, y, x
    features = random.standard_normal((len(indices), 6)).astype(np.float32)
    level = SimpleNamespace(indices=indices, features=features, extent=[9, 30, 20])
    order = random.permutation(len(indices))
    def layer():
        grid = SimpleNamespace(origin=np.array([0, 0, 12]), stride=np.array([8, 8, 16]))
        voxels = indices[order][:, [0, 3, 2, 1]].copy()
        voxels[:, 1:] = voxels[:, 1:] * grid.stride + grid.origin
        return SimpleNamespace(name="made", dense=False, voxels=voxels,
                               values=features[order].copy(), extent=np.array([20, 30, 9]),
                               **grid.__dict__)
    def found(plant):
        made, faults = layer(), []
        plant(made)
        def report(good, what):
            faults.extend([] if good else [what])
            return good
        compare_layer(made, level, "zyx", 1e-4, report)
        return faults
    def swap(made):
        made.voxels[[3, 4]] = made.voxels[[4, 3]]
    def drop(made):
        made.voxels, made.values = made.voxels[1:], made.values[1:]
    check(not found(lambda made: None), "equal layers")
    for what, plant, words in (
            ("a voxel less", drop, "voxels, not"),
            ("a voxel moved", lambda m: m.voxels.__setitem__((5, 1), 8 * 25), "only in spira"),
            ("a voxel off the grid", lambda m: m.voxels.__setitem__((5, 3), 13), "off its grid"),
            ("another batch", lambda m: m.voxels.__setitem__((0, 0), 7), "only in spconv"),
            ("another origin", lambda m: m.origin.__setitem__(2, 28), "only in"),
            ("another extent", lambda m: m.extent.__setitem__(1, 31), "an extent of"),
            ("two rows swapped", swap, "an error of"),
            ("a value", lambda m: m.values.__setitem__((7, 2), m.values[7, 2] + 0.001), "error of"),
            ("a NaN", lambda m: m.values.__setitem__((7, 2), np.nan), "an error of"),
            ("a channel less", lambda m: m.__dict__.update(values=m.values[:, 1:]), "shape")):
        faults = found(plant)
        check(any(words in fault for fault in faults), f"{what} is not found: {faults}")


# ---- the program --------------------------------------------------------------------------------

def finish():
    print(", ".join(f"{n} {what}" for what, n in counts.items()))
    sys.exit(counts["failed"] != 0)


def parse():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("levels", nargs="?", help="examples/levels.cu, built")
    parser.add_argument("--networks", default=",".join(NETWORKS))
    parser.add_argument("--scenes", default=",".join(SCENES))
    parser.add_argument("--rules", type=int, default=40, help="number of single layers (40)")
    parser.add_argument("--type", default="fp32", choices=list(BOUNDS),
                        help="of the features in LEVELS on a GPU (fp32); spconv has fp32")
    parser.add_argument("--seed", type=int, default=1, help="of the parameters")
    parser.add_argument("--folder", help="for temporary files")
    parser.add_argument("--self-test", action="store_true")
    chosen = parser.parse_args()
    if not chosen.self_test and not chosen.levels:
        parser.error("LEVELS is missing")
    return chosen


def main():
    chosen = parse()
    if chosen.self_test:
        self_test()
        finish()
    judge_rules(chosen)
    for network in filter(None, chosen.networks.split(",")):
        for scene in chosen.scenes.split(","):
            if missing:
                print(f"skipped {network}, {scene}: {missing}")
                counts["skipped"] += 1
            elif scene == "nuscenes" and not os.path.exists(NUSCENES):
                print(f"skipped {network}, {scene}: there is no {NUSCENES}")
                counts["skipped"] += 1
            else:
                judge(chosen, network, scene)
    finish()


missing = None
try:
    import numpy as np
except ImportError as fault:
    print(f"skipped: {fault}")
    counts["skipped"] += 1
    finish()
import checkpoint
try:
    if "--self-test" not in sys.argv:
        import judge_networks
        print(judge_networks.versions())
except (ImportError, OSError) as fault:
    missing = f"spconv with PyTorch is not installed ({fault})"
if __name__ == "__main__":
    main()
