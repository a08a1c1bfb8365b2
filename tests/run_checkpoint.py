# SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
# tests/run_checkpoint.py: see run_checkpoint.sh.
#
# The scan example writes random weights. These tests reorder them as each engine stores them, convert
# them back with checkpoint.py, and expect the same bytes. Layers that the example's network does not
# have are compared with loops written out here.
import json
import os
import struct
import subprocess
import sys

import numpy as np

from run_checkpoint_shared import FOLDER, PROGRAM as SCAN, SCRIPT, check, checkpoint, finish, path

NET = "SparseResNet21"
# A norm whose square root is 1, so that folding it changes no bit.
VARIANCE, EPS = 0.75, 0.25


def read(name):
    with open(path(name), "rb") as file:
        return file.read()


def write(name, data):
    with open(path(name), "wb") as file:
        file.write(data)


def run(*command):
    return subprocess.run(command, cwd=FOLDER, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          universal_newlines=True)


def scan(*arguments):
    return run(os.path.abspath(SCAN), "--scan", "points.xyz32", "--voxel", "0.5", "--net", NET,
               *arguments)


def convert(source, lines, out, *arguments):
    with open(path("map.txt"), "w") as file:
        file.write("\n".join(lines) + "\n")
    return run(sys.executable, "-B", os.path.abspath(SCRIPT), "convert", source, "--map", "map.txt",
               "--out", out, *arguments)


def save_safetensors(name, tensors, types):
    header, data = {}, b""
    for key, array in tensors.items():
        values = array.tobytes()
        header[key] = {"dtype": types[array.dtype.str], "shape": list(array.shape),
                       "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    text = json.dumps(header).encode()
    write(name, struct.pack("<Q", len(text)) + text + data)


# ---- engines ------------------------------------------------------------------------------------

def order_of(engine, size):
    """The offsets of a kernel in the engine's order, as triples of indices along x, y, z."""
    nx, ny, nz = size
    if engine == "spira" or (engine == "torchsparse" and nx * ny * nz % 2 == 0):
        return [(x, y, z) for x in range(nx) for y in range(ny) for z in range(nz)]
    return [(x, y, z) for z in range(nz) for y in range(ny) for x in range(nx)]


def to_engine(engine, weight):
    """Reorders [x, y, z, cin, cout] as the engine's module stores it."""
    nx, ny, nz, cin, cout = weight.shape
    listed = np.stack([weight[offset] for offset in order_of(engine, (nx, ny, nz))])
    if engine in ("torchsparse", "minkowski"):
        return listed[0] if len(listed) == 1 else listed
    if engine == "spira":
        return listed.reshape(nx, ny, nz, cin, cout)
    listed = listed.reshape(nz, ny, nx, cin, cout)
    return listed if engine == "spconv1" else np.moveaxis(listed, 4, 0)


def network_tensors(engine, blob):
    """Makes an engine's checkpoint of the weights in a blob, and the map for checkpoint.py."""
    tensors, lines = {}, ["# layer conv norm", ""]
    kernel = "kernel" if engine in ("torchsparse", "minkowski") else "weight"
    for name in dict(blob.keys()):
        weight, scale, shift = (blob[name, kind] for kind in ("weight", "scale", "shift"))
        tensors[f"net.{name}.0.{kernel}"] = np.ascontiguousarray(to_engine(engine, weight))
        tensors[f"net.{name}.1.weight"], tensors[f"net.{name}.1.bias"] = scale, shift
        tensors[f"net.{name}.1.running_mean"] = np.zeros_like(scale)
        tensors[f"net.{name}.1.running_var"] = np.full_like(scale, VARIANCE)
        size = "size=" + ",".join(str(n) for n in weight.shape[:3])
        lines.append(f"{name}  net.{name}.0 net.{name}.1 {size} # {engine}")
    tensors["net.steps"] = np.array([7])
    return tensors, lines


def check_network():
    """Converts through each engine's order and each kind of file: the bytes must be the same."""
    random = np.random.default_rng(1)
    write("points.xyz32", (random.random((400, 3)) * 20).astype("<f4").tobytes())
    made = scan("--save-weights", "made.blob", "--save-labels", "made.npy")
    check(made.returncode == 0 and "weights: random (seed 1)" in made.stdout,
          f"saving weights: {made.stdout}")
    blob, want = checkpoint.read_blob(path("made.blob")), read("made.blob")
    for engine in checkpoint.LAYOUTS:
        tensors, lines = network_tensors(engine, blob)
        np.savez(path(f"{engine}.npz"), **tensors)
        done = convert(f"{engine}.npz", lines, f"{engine}.blob", "--engine", engine, "--eps",
                       str(EPS))
        check(done.returncode == 0 and "tensors of no layer: net.steps" in done.stdout, done.stdout)
        check(read(f"{engine}.blob") == want, f"{engine}: other bytes than those of the example")
    save_safetensors("spconv.safetensors", tensors, {"<f4": "F32", "<i8": "I64"})
    convert("spconv.safetensors", lines, "st.blob", "--engine", engine, "--eps", str(EPS))
    check(read("st.blob") == want, "safetensors: other bytes than those of the example")
    check_example(want)


def check_onnx():
    """From a blob to an .onnx file and back: the numbers of the folded layers in fp16."""
    import checkpoint_onnx as onnx
    for network, table in (("second", "VoxelBackBone8x"), ("centerpoint", "SpMiddleResNetFHD"),
                           ("bevfusion", "BEVFusion")):
        points = np.random.default_rng(2).random((300, 5)) * (20, 20, 2, 1, 1)
        write("five.bin", points.astype("<f4").tobytes())
        flags = ("--scan", "five.bin", "--columns", "5", "--no-check", "--picture")
        run(os.path.abspath(SCAN), "--net", table, "--save-weights", f"{table}.blob", *flags,
            f"{table}.png")
        made = run(sys.executable, "-B", os.path.abspath(SCRIPT), "convert", f"{table}.blob",
                   "--network", network, "--onnx", f"{table}.onnx")
        check(made.returncode == 0, f"{network} to ONNX: {made.stdout}")
        back = run(os.path.abspath(SCAN), "--onnx", f"{table}.onnx", "--save-weights",
                   f"{table}.back.blob", *flags, f"{table}.back.png")
        check(back.returncode == 0 and "ends in front of" not in back.stdout,
              f"{network} from ONNX: {back.stdout}")
        layers = {}
        for (name, kind), array in checkpoint.read_blob(path(f"{table}.blob")).items():
            layers.setdefault(name, {})[kind] = array
        found = checkpoint.read_blob(path(f"{table}.back.blob"))
        check(len(found) == 2 * len(layers), f"{network}: {len(found)} entries from ONNX")
        for number, layer in enumerate(layers.values()):
            for kind, want in zip(("weight", "bias"), onnx.fold(layer)):
                got = found.get((f"layer{number}", kind))
                check(got is not None and np.array_equal(got, want.astype(np.float16)),
                      f"{network}, layer {number}: another {kind} from ONNX")
    for faults in (("--network", "voxelnext"), ("--network", "second"),
                   ("--network", "bevfusion", "--extent", "41,1440")):
        done = run(sys.executable, "-B", os.path.abspath(SCRIPT), "convert", f"{table}.blob",
                   *faults, "--onnx", "no.onnx")
        check(done.returncode and "checkpoint.py: " in done.stdout, f"{faults}: {done.stdout}")
        check(not os.path.exists(path("no.onnx")), f"{faults}: a file was written")


def check_example(want):
    """Loads converted files, good and bad ones, into the scan example."""
    done = scan("--weights", "spconv.blob", "--save-weights", "again.blob", "--save-labels",
                "again.npy")
    check(done.returncode == 0 and "of no layer" not in done.stdout, done.stdout)
    check(read("again.blob") == want, "read and saved again: other bytes")
    check(read("again.npy") == read("made.npy"), "other labels than with the same weights")
    other = scan("--seed", "2", "--save-labels", "other.npy")
    check(other.returncode == 0 and read("other.npy") != read("made.npy"),
          "other weights, the same labels")
    done = scan("--save-weights", "again.blob")
    check(done.returncode == 1 and "File exists" in done.stdout, done.stdout)
    check(read("again.blob") == want, "a file was overwritten")
    write("cut.blob", want[:-1])
    write("bad.blob", want[:9000] + bytes([want[9000] ^ 1]) + want[9001:])
    for name, words in (("cut.blob", "cut short"), ("bad.blob", "layer stage1"),
                        ("none.blob", "No such file"), ("points.xyz32", "spirablb")):
        done = scan("--weights", name)
        check(done.returncode == 1 and words in done.stdout, f"{name}: {done.stdout}")


# ---- layers that the example's network does not have --------------------------------------------

def converted(tensors, line, *arguments):
    """Converts one line of a map and returns the entries of the blob."""
    np.savez(path("one.npz"), **tensors)
    out = path("one.blob")
    if os.path.exists(out):
        os.remove(out)
    done = convert("one.npz", [line], "one.blob", *arguments)
    check(done.returncode == 0, f"{line}: {done.stdout}")
    if done.returncode:
        return {kind: np.zeros(0) for kind in checkpoint.KINDS}
    return {kind: array for (_, kind), array in checkpoint.read_blob(out).items()}


def numbers(*shape):
    """Returns distinct numbers that every type can represent."""
    return (np.arange(np.prod(shape)) % 251 - 125).reshape(shape).astype(np.float32) / 16


def check_weights():
    for size in ((3, 3, 3), (2, 2, 2), (5, 5, 5), (1, 1, 1)): # without size=
        for engine in checkpoint.LAYOUTS:
            want = numbers(*size, 3, 2)
            got = converted({"c.weight": to_engine(engine, want)}, "a c", "--engine", engine)
            check(set(got) == {"weight"}, f"{engine}: {list(got)}")
            check(np.array_equal(got["weight"], want), f"{engine} {size}: another order")
    for engine in ("spconv", "spconv1", "torchsparse", "minkowski"):
        want = numbers(3, 2, 1, 2, 4)
        got = converted({"c": to_engine(engine, want)}, "a c size=3,2,1", "--engine", engine)
        check(np.array_equal(got["weight"], want), f"{engine} 3,2,1: another order")
    want = numbers(3, 2, 1, 2, 4) # two dimensions
    got = converted({"c": want[:, :, 0].transpose(3, 1, 0, 2)}, "a c size=3,2,1", "--engine",
                    "spconv")
    check(np.array_equal(got["weight"], want), "two dimensions: another order")
    want = numbers(2, 3, 5, 2, 4)
    for layout, axes in (("oxyzi", (4, 0, 1, 2, 3)), ("yioxz", (1, 3, 4, 0, 2))):
        stored = {"c.weight": want.transpose(axes)}
        for place in (("a c", "--layout", layout), (f"a c layout={layout}",)):
            got = converted(stored, place[0], "--engine", "spconv", *place[1:])
            check(np.array_equal(got["weight"], want), f"layout {layout}: another order")
    for mirror, turned in (("z", want[:, :, ::-1]), ("xyz", want[::-1, ::-1, ::-1])):
        got = converted({"c.weight": turned}, f"a c mirror={mirror}", "--engine", "spira")
        check(np.array_equal(got["weight"], want), f"mirror {mirror}: another order")
    matrix = numbers(2, 3)
    for place, shape in (("io", matrix), ("oi", matrix.T)):
        stored = {"c.weight": np.ascontiguousarray(shape).reshape(3, 1, 1, 1, 2)}
        got = converted(stored, "a c", "--engine", "spconv", "--pointwise", place)
        check(np.array_equal(got["weight"], matrix.reshape(1, 1, 1, 2, 3)), f"pointwise {place}")


def check_norm():
    random = np.random.default_rng(2)
    weight = numbers(1, 1, 1, 2, 5)
    norm = {f"n.{what}": random.random(5).astype(np.float32) + 0.5
            for what in ("weight", "bias", "running_mean", "running_var")}
    bias = random.random((1, 5)).astype(np.float32)
    scale = norm["n.weight"] / np.sqrt(np.float64(norm["n.running_var"]) + 1e-3)
    for with_bias in (False, True):
        for affine in (False, True):
            tensors = {"c.weight": weight, **({"c.bias": bias} if with_bias else {}), **norm}
            gain, shift = scale, norm["n.bias"]
            if not affine:
                gain, shift = scale / norm["n.weight"], 0
                del tensors["n.weight"], tensors["n.bias"]
            shift = shift + gain * ((bias[0] if with_bias else 0) - norm["n.running_mean"])
            for line, more in (("a c n", ("--eps", "1e-3")), ("a c n eps=1e-3", ())):
                got = converted(tensors, line, "--engine", "spira", *more)
                check(sorted(got) == ["scale", "shift", "weight"], f"norm: {list(got)}")
                check(np.allclose(got["scale"], gain, 3e-7, 0), "norm: another scale")
                check(np.allclose(got["shift"], shift, 3e-7, 1e-7), "norm: another shift")
    got = converted({"c.weight": weight, "c.bias": bias}, "a c", "--engine", "spira")
    check(sorted(got) == ["bias", "weight"] and np.array_equal(got["bias"], bias[0]), "bias")


def check_types():
    want = numbers(3, 3, 3, 2, 2)
    vector = numbers(2) + np.float32(1 / 3)
    odd = np.array([1 + 2**-8, 1 + 3 * 2**-8, -1 - 2**-8 - 2**-20, 2**-140], np.float32)
    even = np.array([1, 1 + 4 * 2**-8, -1 - 2 * 2**-8, 0], np.float32)
    for name in checkpoint.TYPES:
        got = converted({"c.weight": want, "c.bias": vector}, "a c", "--engine", "spira", "--type",
                        name)
        check(np.array_equal(got["weight"], want), f"{name}: other values")
        check(np.array_equal(got["bias"], vector), f"{name}: a rounded bias")
    got = converted({"c.weight": odd.reshape(2, 2)}, "a c", "--engine", "spira", "--type", "bf16")
    check(np.array_equal(got["weight"].reshape(-1), even), f"bf16: {got['weight']}")
    for dtype in (np.float64, np.float16):
        got = converted({"c.weight": want.astype(dtype)}, "a c", "--engine", "spira")
        check(np.array_equal(got["weight"], want), f"from {dtype}: other values")
    bits = (want.view(np.uint32) >> 16).astype("<u2")
    save_safetensors("bf16.safetensors", {"c.weight": bits}, {"<u2": "BF16"})
    convert("bf16.safetensors", ["a c"], "bf16.blob", "--engine", "spira")
    check(np.array_equal(checkpoint.read_blob(path("bf16.blob"))["a", "weight"], want),
          "from bf16: other values")


def check_faults():
    good = {"c.weight": numbers(27, 2, 4), "n.running_mean": numbers(4),
            "n.running_var": numbers(4) + 9, "n.weight": numbers(4), "n.bias": numbers(4)}
    cases = [ # tensors, line, arguments, words
        ({}, "a c n", (), "--eps"),
        ({}, "a d", (), "lacks d.weight"),
        ({}, "a c m", ("--eps", "1"), "lacks m.running_mean"),
        ({}, "a", (), "layer conv"),
        ({}, "a c n x", (), "layer conv"),
        ({}, "a c speed=1", (), "unknown option"),
        ({}, "a c size=3,3", (), "size is not"),
        ({}, "a c size=3,3,x", (), "not a number"),
        ({}, "a c size=3,3,2", (), "are not those of size"),
        ({}, "a c layout=zyxi", (), "permutation"),
        ({}, "a c layout=zyixo", (), "5 axes"),
        ({}, "a c mirror=t", (), "mirror"),
        ({}, "a c\na c", (), "there twice"),
        ({}, "#", (), "no layer"),
        ({}, "a" * 64 + " c", (), "63 bytes"),
        ({}, "a c", ("--layout", "zzxio"), "permutation"),
        ({"c.bias": numbers(3)}, "a c", (), "3 elements, not 4"),
        ({"n.bias": numbers(3)}, "a c n", ("--eps", "1"), "3 elements, not 4"),
        ({"c.kernel": numbers(27, 2, 4)}, "a c", (), "which of"),
        ({"c.weight": numbers(28, 2, 4)}, "a c", (), "no cube"),
        ({"c.weight": numbers(3, 3, 3, 2)}, "a c", (), "4 axes"),
        ({"c.weight": numbers(3, 3, 2, 4)}, "a c size=3,3,3", (), "4 axes"),
        ({"c.weight": numbers(3, 3, 2, 4)}, "a c size=3,2,1", (), "of size"),
        ({"c.weight": numbers(1, 16, 1, 2, 4)}, "a c", (), "is a kernel of"),
        ({"c.weight": numbers(64, 2, 4)}, "a c", ("--engine", "torchsparse"), "even sizes"),
        ({"c.weight": numbers(27, 2, 4) * np.nan}, "a c", (), "NaN"),
        ({"c.weight": numbers(27, 2, 4) * 1e5}, "a c", ("--type", "fp16"), "cannot hold"),
        ({"n.running_var": -numbers(4) - 9}, "a c n", ("--eps", "1"), "NaN"),
    ]
    for more, line, arguments, words in cases:
        np.savez(path("fault.npz"), **{**good, **more})
        engine = () if "--engine" in arguments else ("--engine", "minkowski")
        done = convert("fault.npz", [line], "fault.blob", *engine, *arguments)
        check(done.returncode and words in done.stdout and "Traceback" not in done.stdout,
              f"{line}: expected \"{words}\", got {done.stdout}")
        check(not os.path.exists(path("fault.blob")), f"{line}: a file was left behind")
    np.savez(path("fault.npz"), **good)
    write("there.blob", b"mine")
    done = convert("fault.npz", ["a c"], "there.blob", "--engine", "minkowski")
    check(done.returncode and read("there.blob") == b"mine", "a file was overwritten")
    for name, data, arguments, words in (
            ("short.safetensors", b"\xff\0\0\0\0\0\0\0{", (), "cut short"),
            ("wide.safetensors", b"\x4b" + bytes(7) + b'{"c.weight": {"dtype": "F32", "shape": [65536, '
             b'9], "data_offsets": [0, 4]}}' + bytes(4), (), "c.weight: not of its shape"),
            ("torn.safetensors", b"\x0d" + bytes(7) + b'{"c.weight": ', (), "header is damaged"),
            ("bare.safetensors", b"\x0f" + bytes(7) + b'{"c.weight": 1}', (), "header is damaged"),
            ("scan.pcd", b"FIELDS x y z", (), "nor a file of PyTorch"),
            ("two.blob", b"spirablb" + bytes(32), (), "a blob, which has been converted"),
            ("none.safetensors", b"", (), "cut short"), ("text.npz", b"a = 1", (), "not an .npz"),
            ("text.npz", b"", ("--key", "net"), "--key")):
        write(name, data)
        done = convert(name, ["a c"], "fault.blob", "--engine", "spira", *arguments)
        check(done.returncode and words in done.stdout, f"{name}: {done.stdout}")


def check_without_numpy():
    """Says what it needs. A folder with a broken numpy stands for a Python without it."""
    os.makedirs(path("without"))
    write("without/numpy.py", b"raise ImportError")
    environment = {**os.environ, "PYTHONPATH": path("without")}
    for arguments, code, words in ((("list", "made.blob"), 1, "needs NumPy: pip install numpy"),
                                   (("--help",), 0, "usage: checkpoint.py")):
        done = subprocess.run((sys.executable, "-B", os.path.abspath(SCRIPT), *arguments),
                              cwd=FOLDER, env=environment, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, universal_newlines=True)
        check(done.returncode == code and words in done.stdout and "Traceback" not in done.stdout,
              f"without NumPy: {done.stdout}")


check_network()
check_weights()
check_norm()
check_types()
check_faults()
check_onnx()
check_without_numpy()
finish()
