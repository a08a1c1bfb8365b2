# SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
# examples/torch/scenes.py: labelled street scenes as batches of voxels, made by the C++ of
# examples/scan.cu (scenes.cpp, compiled on first use). Needs NumPy and a C++ compiler.
#
#     scenes.py --seed 7 --out street.npy      writes a scan: points [rows, 4], for make run SCAN=
import argparse
import ctypes
import glob
import os
import subprocess

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
SOURCE = os.path.join(HERE, "scenes.cpp")
BUILT = os.path.join(ROOT, "build", "torch", "scenes.so")
COARSEST = 16 # the largest stride of SpUNet: coordinates may be moved by its multiples
_loaded = None


def compile_library():
    """Compiles scenes.cpp if it or a header is newer than the library."""
    sources = [SOURCE, *glob.glob(os.path.join(ROOT, "examples", "*.h")),
               *glob.glob(os.path.join(ROOT, "spira", "**", "*.h"), recursive=True)]
    if os.path.exists(BUILT) and os.path.getmtime(BUILT) > max(map(os.path.getmtime, sources)):
        return
    os.makedirs(os.path.dirname(BUILT), exist_ok=True)
    unfinished = f"{BUILT}.{os.getpid()}"
    subprocess.run([os.environ.get("CXX", "c++"), "-std=c++17", "-O3", "-shared", "-fPIC", SOURCE,
                    "-o", unfinished], check=True)
    os.replace(unfinished, BUILT) # other processes see a whole file at any time


def library():
    global _loaded
    if _loaded is None:
        compile_library()
        _loaded = ctypes.CDLL(BUILT)
        number, pointer = ctypes.c_int32, ctypes.c_void_p
        for name, arguments in (("points", ()), ("classes", ()),
                                ("street", (ctypes.c_uint32, pointer, pointer)),
                                ("voxelize", (pointer, pointer, number, number, ctypes.c_float,
                                              pointer, pointer, pointer))):
            function = getattr(_loaded, "scenes_" + name)
            function.argtypes, function.restype = arguments, ctypes.c_int64
        _loaded.scenes_class_name.argtypes = (ctypes.c_int,)
        _loaded.scenes_class_name.restype = ctypes.c_char_p
    return _loaded


def class_names():
    return [library().scenes_class_name(i).decode() for i in range(library().scenes_classes())]


def street(seed):
    """The points of a street, float32 [rows, 4] (x, y, z in metres, intensity), and the class of
    each, int32 [rows]."""
    most = library().scenes_points()
    points, labels = np.empty((most, 4), np.float32), np.empty(most, np.int32)
    rows = library().scenes_street(seed, points.ctypes.data, labels.ctypes.data)
    if rows < 0:
        raise MemoryError("street")
    return points[:rows], labels[:rows]


def moved(points):
    """Points as examples/scan_file.h reads them, and what was taken away, float64 [3]: without rows
    whose x, y or z is not finite; on axes with points more than 8,192 m from 0 (UTM) moved by a
    multiple of 100 m; rounded to float32 after that. points [rows, 3 or more], of any type"""
    points = np.asarray(points, np.float64)
    points = points[np.isfinite(points[:, :3]).all(1)]
    far = (np.abs(points[:, :3]) > 8192).any(0)
    origin = np.where(far, np.floor(points[:, :3].min(0) / 100) * 100, 0)
    points[:, :3] -= origin
    return points.astype(np.float32), origin


def voxelize(points, edge, labels=None):
    """The voxels of points as `make run` makes them.

    points   float32 [rows, 3 or more]; labels int32 [rows], or None; edge of a voxel in metres
    returns  coords int32 [voxels, 3] x, y, z; features float32 [voxels, 4]; the class of most
             points of each voxel, int32 [voxels], or None
    """
    points = np.ascontiguousarray(points, np.float32)
    rows, columns = points.shape
    coords, features = np.empty((rows, 3), np.int32), np.empty((rows, 4), np.float32)
    known = labels is not None
    labels = np.ascontiguousarray(labels, np.int32) if known else None
    truth = np.empty(rows, np.int32) if known else None
    count = library().scenes_voxelize(points.ctypes.data, labels.ctypes.data if known else None,
                                      rows, columns, edge, coords.ctypes.data, features.ctypes.data,
                                      truth.ctypes.data if known else None)
    if count < 0:
        raise ValueError("points: they cannot be voxelised")
    return coords[:count], features[:count], truth[:count] if known else None


def augmented(points, random):
    """Turned around the z axis, perhaps mirrored, larger or smaller by up to 5 %, with intensities
    of another sensor's gain."""
    angle, scale = random.uniform(-np.pi, np.pi), random.uniform(0.95, 1.05)
    c, s, mirror = np.float32((np.cos(angle) * scale, np.sin(angle) * scale,
                               random.choice((-1, 1))))
    x, y, z, intensity = points.T
    turned = points.copy()
    turned[:, 0] = c * x - s * mirror * y # without BLAS, whose threads would crowd the cores
    turned[:, 1] = s * x + c * mirror * y
    turned[:, 2] = np.float32(scale) * z
    turned[:, 3] = np.minimum(intensity * np.float32(random.uniform(0.5, 1.5)), 1)
    return turned


class Streets:
    """A data set: item `seed` is the street of that seed, voxelised.

    voxel    edge of a voxel in metres
    reach    points farther away than so many metres along x or y are left out; None: none
    augment  whether streets are turned, mirrored and scaled
    """

    def __init__(self, voxel, reach=None, augment=False):
        self.voxel, self.reach, self.augment = voxel, reach, augment

    def __getitem__(self, seed):
        points, labels = street(seed)
        if self.augment:
            points = augmented(points, np.random.default_rng(seed))
        if self.reach:
            near = (np.abs(points[:, :2]) < self.reach).all(1)
            points, labels = points[near], labels[near]
        return voxelize(points, self.voxel, labels)


def batch_of(items):
    """Voxels of several streets as spira.pytorch takes them: indices int32 [voxels, 4] (batch, z,
    y, x), features, classes, the spatial shape, the number of streets."""
    indices, shape = [], np.ones(3, np.int64)
    for number, (coords, _, _) in enumerate(items):
        lowest = coords.min(0) // COARSEST * COARSEST # strided layers merge the same voxels
        moved = (coords - lowest)[:, ::-1]
        shape = np.maximum(shape, moved.max(0) + 1)
        indices.append(np.insert(moved, 0, number, axis=1))
    shape = (shape + COARSEST - 1) // COARSEST * COARSEST # no strided layer cuts anything off
    truth = None if items[0][2] is None else np.concatenate([item[2] for item in items])
    return (np.concatenate(indices).astype(np.int32), np.concatenate([item[1] for item in items]),
            truth, [int(n) for n in shape], len(items))


def main():
    parser = argparse.ArgumentParser(description="Writes the scan of a street scene.")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--out", required=True, help=".npy: points; NAME.labels.npy: their classes")
    chosen = parser.parse_args()
    points, labels = street(chosen.seed)
    np.save(chosen.out, points)
    np.save(os.path.splitext(chosen.out)[0] + ".labels.npy", labels)
    print(f"{chosen.out}: {len(points)} points")


if __name__ == "__main__":
    main()
