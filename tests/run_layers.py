# SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
# tests/run_layers.py: see run_layers.sh.
import fnmatch
import os
import re
import sys
import tempfile

TOOLKIT = re.compile(r"(cu\w*(\.h|\.hpp|\.cuh)|(cooperative_groups|mma|device_launch_parameters"
                     r"|vector_types|vector_functions|math_constants|nccl)\.h"
                     r"|(cub|cuda|thrust|cute|cutlass|cooperative_groups|nv|nvtx3)/.*)$")
INCLUDE = re.compile(r'[ \t]*#[ \t]*include[ \t]*(?:"([^"]*)|<([^>]*))')
LAUNCH = re.compile(r"[^/#]*(<<<|\bcudaLaunch)")
LAUNCHER = "base/launch.cuh"
HOPS = 6 # of a value
KERNEL = re.compile(r"[^/#]*(SPIRA_KERNEL|SPIRA_PLAIN_KERNEL|__global__)([ \t]|$)")


def read_table(table):
    """Layers as (name, patterns), the lowest first; patterns of opt-in files; the umbrella."""
    layers, opt_in, umbrella = [], [], None
    with open(table) as file:
        for line in file:
            kind, *words = line.partition("#")[0].split() or [""]
            if kind == "umbrella":
                umbrella = words[-1]
            elif kind == "opt-in":
                opt_in += words
            elif kind:
                layers.append((kind, words))
    return layers, opt_in, umbrella


def matches(name, patterns):
    return any(fnmatch.fnmatchcase(name, p) for p in patterns)


def cycles(edges):
    """The trails of includes that lead back to one of their files."""
    found, done = [], set()

    def visit(trail):
        for to in edges[trail[-1]]:
            if to in trail:
                found.append(" ".join([*trail, to]))
            elif to not in done:
                visit([*trail, to])
        done.add(trail[-1])
    for name in edges:
        if name not in done:
            visit([name])
    return found


def ways(readme, root):
    """What is wrong with the table of README.md that follows values from call to instruction."""
    with open(readme) as file:
        _, heading, text = file.read().partition("### The way of a value\n")
    lines = text.partition("\n#")[0].split("\n")
    rows = [[c.strip() for c in line.split("|")[1:-1]] for line in lines if line[:1] == "|"][2:]
    said = [] if rows or not heading else [f"{readme}: the way of a value has no table"]
    for column in range(0, max(map(len, rows), default=0), 2):
        before = None # the text of the file of the function above
        way = [row[column:column + 2] for row in rows if row[column]]
        if len(way) > HOPS + 1:
            said.append(f"{readme}: {way[0][0]} hands its value on more than {HOPS} times")
        for cell, name in way: # the function, and what hands it on
            (function, *others), file = re.findall(r"`(\w+)`", cell), os.path.join(root, name[1:-1])
            if not os.path.exists(file):
                said.append(f"{readme}: {function}: there is no {file}")
                return said
            with open(file) as source:
                text = source.read()
            if not re.search(rf"\b{function}\([^;{{}}]*\)\s*{{", text):
                said.append(f"{readme}: {function} does not stand in {file}")
            if before is not None and not any(re.search(rf"\b{n}\b", before)
                                              for n in (function, *others)):
                said.append(f"{readme}: the file of the line above {function} does not name it")
            before = text
    return said


def check(table, root):
    """The violations, as sentences."""
    layers, opt_in, umbrella = read_table(table)
    if not layers or not umbrella:
        return [f"{table}: no layers, or no umbrella"]
    if not os.path.exists(root + ".cuh"):
        return [f"{umbrella}: the umbrella is missing"]
    paths = {umbrella: root + ".cuh"}
    for folder, _, names in sorted(os.walk(root)):
        paths.update((os.path.relpath(os.path.join(folder, n), root), os.path.join(folder, n))
                     for n in sorted(names) if n.endswith((".h", ".cuh")))
    level = {name: next((i for i, (_, patterns) in enumerate(layers) if matches(name, patterns)),
                        -1) for name in paths}
    said, edges = [], {name: [] for name in paths}

    def check_quoted(where, name, target):
        folder, to = os.path.dirname(name), target
        if name != umbrella:
            to = os.path.normpath(os.path.join(folder, target))
        elif not target.startswith("spira/"):
            said.append(f"{where}: the umbrella includes files of spira/")
            return
        else:
            to = target[len("spira/"):]
        if to == umbrella or to not in paths:
            said.append(f'{where}: "{target}" is no file of spira/')
            return
        edges[name].append(to)
        if name == umbrella:
            return
        shortest = os.path.relpath(to, folder or ".")
        if target != shortest:
            said.append(f'{where}: "{target}" should be "{shortest}"')
        if name.endswith(".h") and to.endswith(".cuh"):
            said.append(f'{where}: a .h includes "{target}"')
        if level[to] > level[name]:
            said.append(f'{where}: "{target}" ({layers[level[to]][0]}) is above its own layer')

    def check_angled(where, name, target):
        if name.endswith(".h") and TOOLKIT.match(target):
            said.append(f"{where}: a .h includes the CUDA header <{target}>")
        if re.match("cublas|cub/|thrust/", target) and not matches(name, opt_in):
            said.append(f"{where}: <{target}> belongs in opt-in files")
        if re.search("(^|/)spira/", target):
            said.append(f"{where}: files of spira/ are included in quotes")

    for name, path in paths.items():
        if name != umbrella and level[name] < 0:
            said.append(f"{path}: is in no layer of {table}")
        guard = "SPIRA_" + re.sub("[./]", "_", name.upper())
        directives, kernels = [], False
        with open(path) as file:
            for number, line in enumerate(file.read().splitlines(), 1):
                include = INCLUDE.match(line)
                if include and include[1] is not None:
                    check_quoted(f"{path}:{number}", name, include[1])
                elif include:
                    check_angled(f"{path}:{number}", name, include[2])
                elif KERNEL.match(line):
                    kernels = True
                elif LAUNCH.match(line) and name != LAUNCHER:
                    said.append(f"{path}:{number}: a launch; kernel_launch of {LAUNCHER} does it")
                elif re.match(r"[ \t]*#", line):
                    directives.append(line)
        if kernels and "/" not in name and name.endswith(".cuh") and name != umbrella:
            said.append(f"{path}: a kernel at the top; it belongs in a folder")
        if directives[:2] != [f"#ifndef {guard}", f"#define {guard}"]:
            said.append(f"{path}: the include guard is not {guard}")
    said += [f"a cycle of includes: {trail}" for trail in cycles(edges)]
    reached = [umbrella]
    for name in reached: # grows
        reached += [to for to in dict.fromkeys(edges[name]) if to not in reached]
    for name, path in paths.items():
        if matches(name, opt_in) and name in reached:
            said.append(f"{umbrella} includes the opt-in {name}")
        elif not matches(name, opt_in) and name not in reached:
            said.append(f"{path}: the umbrella does not include it")
    readme = os.path.join(root, "README.md")
    return said + (ways(readme, root) if os.path.exists(readme) else [])


# ---- self-test ----------------------------------------------------------------------------------

TABLE = """ground a.h base/*
middle b.h b.cuh mid/* top/low.h # exact first
top d.cuh top/*
extra e.cuh extra/*
umbrella spira.cuh
opt-in e.cuh extra/*
"""
GOOD = { # a file, what it includes
    "a.h": "<stdint.h> <string.h> base/x.h", "base/x.h": "", "base/deep/y.cuh": "../x.h ../../a.h",
    "b.h": "a.h <math.h> mid/m.h", "b.cuh": "b.h a.h <cuda_runtime.h> mid/n.cuh",
    "mid/m.h": "../a.h ../base/x.h", "mid/n.cuh": "m.h ../b.h ../base/deep/y.cuh ../top/low.h",
    "top/low.h": "", "d.cuh": "b.cuh top/t.cuh", "top/t.cuh": "../b.h",
    "e.cuh": "d.cuh extra/g.cuh <cublas_v2.h>", "extra/g.cuh": "../a.h <cub/cub.cuh>",
    "spira.cuh": "spira/a.h spira/b.h spira/d.cuh"}
A_KERNEL = "SPIRA_PLAIN_KERNEL void __launch_bounds__(32) some_kernel(int *to) {}\n"
counts = {True: 0, False: 0}


def place(name):
    return name if name in ("spira.cuh", "table") else f"spira/{name}"


def header(name, includes):
    guard = "SPIRA_" + re.sub("[./]", "_", name.upper())
    lines = (f"#include {i}\n" if i[0] == "<" else f'#include "{i}"\n' for i in includes.split())
    return f"#ifndef {guard}\n#define {guard}\n{''.join(lines)}#endif\n"


def planted(expected, what, headers=None, edit=lambda tree: None):
    """Plants headers and an edit of the texts. expected: words; None: the tree is good."""
    tree = {place(n): header(n, i) for n, i in {**GOOD, **(headers or {})}.items()}
    tree["table"] = TABLE
    tree["spira/mid/n.cuh"] += A_KERNEL
    edit(tree)
    with tempfile.TemporaryDirectory() as folder:
        for name, text in tree.items():
            os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
            with open(os.path.join(folder, name), "w") as file:
                file.write(text)
        said = check(os.path.join(folder, "table"), os.path.join(folder, "spira"))
    good = any(expected in text for text in said) if expected else not said
    counts[good] += 1
    if not good:
        print("\n".join([f"layer rule: {what}: expected {expected or 'a good tree'}, got:", *said]))


def replace(name, old, new):
    return lambda tree: tree.update({name: tree[name].replace(old, new)})


def self_test():
    planted(None, "a good tree")
    planted(None, "a pattern that matches no file",
            edit=lambda tree: [tree.pop(f"spira/{n}") for n in ("e.cuh", "extra/g.cuh")])
    planted(None, "a file that is no header",
            edit=lambda tree: tree.update({"spira/README.md": TABLE}))
    planted("is in no layer", "a file that is in no layer", {"new.h": ""},
            replace("spira.cuh", "spira/a.h", "spira/new.h"))
    for what, name, includes in (
            ("an upward include", "a.h", "base/x.h b.h"),
            ("an upward include of a folder", "b.h", "a.h top/t.cuh"),
            ("an upward include from a folder", "base/x.h", "../mid/m.h"),
            ("one of a file that an earlier pattern takes out of its folder", "top/low.h",
             "../d.cuh")):
        planted("is above", what, {name: includes})
    for what, headers in (
            ("of two", {"mid/m.h": "../b.h"}),
            ("of a file that includes itself", {"a.h": "a.h base/x.h"}),
            ("of three", {"base/x.h": "deep/z.h", "base/deep/z.h": "../../a.h"}),
            ("among opt-in files", {"extra/g.cuh": "../e.cuh"})):
        planted("a cycle of includes", f"a cycle {what}", headers)

    for path in ("spira.cuh", "../spira.cuh", "../spira/a.h", "unknown.h"):
        planted("is no file of spira/", f"an include of {path}", {"b.h": f"{path} mid/m.h"})
    planted('should be "../a.h"', "an include by a detour",
            {"mid/m.h": "../mid/../a.h ../base/x.h"})
    planted('should be "m.h"', "a neighbour by more than its name",
            {"mid/n.cuh": "../mid/m.h ../b.h ../base/deep/y.cuh ../top/low.h"})
    planted("in quotes", "an include in angles", {"b.h": "<spira/a.h> mid/m.h"})
    planted("the umbrella includes files", "an umbrella that includes a file outside of the folder",
            {"spira.cuh": "spira/a.h spira/b.h spira/d.cuh a.h"})

    planted('a .h includes "n.cuh"', "a .h that includes a .cuh",
            {"mid/m.h": "n.cuh", "mid/n.cuh": "../base/deep/y.cuh ../top/low.h"})
    for toolkit in ("cuda_runtime.h", "cuda_fp16.h", "cub/cub.cuh", "cuda/std/limits",
                    "thrust/sort.h", "mma.h", "cublas_v2.h", "curand.h", "vector_types.h"):
        planted(f"a .h includes the CUDA header <{toolkit}>", f"a .h that includes <{toolkit}>",
                {"top/low.h": f"<{toolkit}>"})
    for toolkit in ("cublas_v2.h", "cublasLt.h", "cub/cub.cuh", "cub/block/block_scan.cuh",
                    "thrust/sort.h"):
        planted("belongs in opt-in files", f"<{toolkit}> outside of the opt-in files",
                {"top/t.cuh": f"<{toolkit}>"})

    guard = "the include guard is not"
    planted(f"{guard} SPIRA_B_H", "a wrong include guard",
            edit=replace("spira/b.h", "SPIRA_B_H", "SPIRA_B"))
    planted(f"{guard} SPIRA_MID_M_H", "an include guard without the folder",
            edit=replace("spira/mid/m.h", "SPIRA_MID_M_H", "SPIRA_M_H"))
    planted(guard, "a guard that defines nothing",
            edit=replace("spira/b.h", "#define SPIRA_B_H\n", ""))
    planted(guard, "no include guard",
            edit=lambda tree: tree.update({"spira/top/low.h": "#pragma once\n"}))

    for what, headers in (
            ("a file", {"spira.cuh": "spira/a.h spira/b.h spira/b.cuh"}),
            ("a file of a folder", {"d.cuh": "b.cuh"})):
        planted("does not include it", f"an umbrella that lacks {what}", headers)
    planted("includes the opt-in", "an umbrella with an opt-in file",
            {"spira.cuh": "spira/a.h spira/b.h spira/d.cuh spira/e.cuh"})
    planted("includes the opt-in", "an umbrella that reaches an opt-in file through another",
            {"top/t.cuh": "../b.h ../extra/g.cuh"}, replace("table", "ground", "ground extra/*"))
    planted("a kernel at the top", "a kernel at the top",
            edit=replace("spira/b.cuh", "#endif\n", "#endif\n" + A_KERNEL))
    planted(None, "a kernel in a comment",
            edit=replace("spira/b.cuh", "#ifndef", "// a SPIRA_KERNEL\n#ifndef"))
    for launch in ("    some_kernel<<<1, 32>>>(to);\n", "    return cudaLaunchKernelEx(c, f);\n"):
        planted("a launch", "a launch",
                edit=replace("spira/mid/n.cuh", "#endif\n", launch + "#endif\n"))
    planted(None, "a launch in a comment",
            edit=replace("spira/b.h", "#endif\n", "// some_kernel<<<1, 32>>>(to)\n#endif\n"))
    planted(None, "the launch of all kernels",
            {"base/launch.cuh": "", "b.cuh": "b.h base/launch.cuh mid/n.cuh"},
            replace("spira/base/launch.cuh", "#endif\n",
                    "    return cudaLaunchKernelEx(c, f);\n#endif\n"))
    def way(*cells):
        lines = "".join(f"| `{f}` | `{n}` |\n" for f, n in cells)
        text = f"### The way of a value\n\n| value | file |\n|---|---|\n{lines}\n## Next\n"
        def edit(tree):
            tree["spira/README.md"] = text
            tree["spira/b.h"] += "void first(int x) {\n    second(x);\n}\nvoid second(int x) {\n}\n"
        return edit
    first, second = ("first", "b.h"), ("second", "b.h")
    planted(None, "the way of a value", edit=way(first, second))
    planted("does not stand in", "a function elsewhere", edit=way(first, ("second", "a.h")))
    planted("does not stand in", "a function that is called alone", edit=way(("third", "b.h")))
    planted("there is no", "a file that is not there", edit=way(first, ("second", "c.h")))
    planted("does not name it", "a function that does not call the next one",
            {"a.h": "<stdint.h> <string.h> base/x.h"},
            lambda tree: (way(("other", "a.h"), second)(tree),
                          tree.update({"spira/a.h": tree["spira/a.h"] + "void other() {\n}\n"})))
    planted("more than 6 times", "a long way", edit=way(*[first] * 8))
    planted("has no table", "a way without a table", edit=lambda tree: tree.update(
        {"spira/README.md": "### The way of a value\n\n## Next\n"}))
    planted("the umbrella is missing", "no umbrella", edit=lambda tree: tree.pop("spira.cuh"))
    planted("no layers", "an empty table", edit=lambda tree: tree.update(table=""))
    print(f"{counts[True]} passed, {counts[False]} failed, 0 skipped")
    return counts[False]


if sys.argv[1] == "--self-test":
    sys.exit(self_test() != 0)
violations = check(*sys.argv[1:])
print("\n".join(violations) or "the layers hold")
sys.exit(bool(violations))
