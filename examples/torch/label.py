#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
# examples/torch/label.py: labels the voxels of a scan with a network of train.py. The same as
# `make run WEIGHTS=... SCAN=...` does in C++; the tests compare the two.
#
#     label.py run/best.pt scan.npy --out labels.npy
import argparse
import sys

import numpy as np
import torch

sys.path.append(sys.path.pop(0)) # this folder last: `spira` is the installed package
import scenes
import train


def label(checkpoint, points, device="cpu"):
    """Returns the voxels' coordinates x, y, z and their scores [voxels, classes], fp32."""
    state = torch.load(checkpoint, map_location=device, weights_only=True)
    net = train.network(len(state["classes"])).to(device).eval()
    coords, features, _ = scenes.voxelize(points, state["voxel"])
    indices, features, _, shape, count = scenes.batch_of([(coords, features, None)])
    batch = (torch.from_numpy(indices).to(device), torch.from_numpy(features).to(device), None,
             shape, count)
    if state.get("int8"):
        train.qat.prepare(net, train.tensor_of(batch))
    net.load_state_dict(state["model"])
    with torch.no_grad():
        return coords, train.scores_of(net, batch).float().cpu().numpy()


def main():
    parser = argparse.ArgumentParser(description="Labels the voxels of a scan.")
    parser.add_argument("checkpoint")
    parser.add_argument("scan", help=".npy [rows, 3 or more]: x, y, z in metres, intensity")
    parser.add_argument("--out", required=True, help=".npy, int32 [voxels, 4]: x, y, z, class")
    parser.add_argument("--device", default="cpu")
    chosen = parser.parse_args()
    points, origin = scenes.moved(np.load(chosen.scan))
    if origin.any():
        print("moved by", *-origin)
    coords, scores = label(chosen.checkpoint, points, chosen.device)
    classes = scores.argmax(1).astype(np.int32)
    np.save(chosen.out, np.concatenate([coords, classes[:, None]], 1))
    counts = np.bincount(classes, minlength=scores.shape[1])
    for name, count in zip(scenes.class_names(), counts):
        print(f"{name:10} {count}")


if __name__ == "__main__":
    main()
