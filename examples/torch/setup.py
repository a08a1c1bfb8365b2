# SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
# examples/torch/setup.py: builds the package `spira` for PyTorch.
#
#     pip install --no-build-isolation ./examples/torch
#
# SPIRA_TORCH_CPU=1      builds for the CPU alone; so does a machine without nvcc
# TORCH_CUDA_ARCH_LIST   the GPUs to build for, as PyTorch's extensions take it. "9.0a" for H100 and
#                        H200: without the "a" there are no kernels for Hopper. Not set: the GPUs of
#                        this machine, if it has any
# MAX_JOBS               compilers at a time
import glob
import os
import shutil

import torch
from setuptools import find_packages, setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist
from torch.utils.cpp_extension import CUDA_HOME, BuildExtension, CppExtension, CUDAExtension

HERE = os.path.dirname(os.path.abspath(__file__))
HEADERS = os.path.dirname(os.path.dirname(HERE)) # of spira: the root of the repository
os.chdir(HERE)


def machine_list():
    """The GPUs of this machine, with the "a" that Hopper's kernels need."""
    found = {torch.cuda.get_device_capability(i) for i in range(torch.cuda.device_count())}
    return ";".join(f"{major}.{minor}" + ("a" if (major, minor) == (9, 0) else "")
                    for major, minor in sorted(found))


def standard():
    """The C++ that PyTorch's headers want: 20 from 2.13 on."""
    version = tuple(int(n) for n in torch.__version__.split("+")[0].split(".")[:2] if n.isdigit())
    return "-std=c++20" if version >= (2, 13) else "-std=c++17"


def extension():
    copy = os.path.join(HERE, "headers") # of an unpacked sdist
    include = HEADERS if os.path.exists(os.path.join(HEADERS, "spira", "conv.h")) else copy
    sources = sorted(glob.glob("csrc/*.cpp"))
    flags = {"cxx": [standard(), "-O3", "-fopenmp", "-Wall", "-Wextra", "-Wno-unused-parameter",
                     "-fvisibility=hidden"],
             "nvcc": [standard(), "-O3", "--threads=1"]}
    options = {"include_dirs": [include, os.path.join(HERE, "csrc")], "extra_compile_args": flags,
               "extra_link_args": ["-fopenmp"], "py_limited_api": True}
    if torch.cuda.is_available() and not CUDA_HOME and not os.environ.get("SPIRA_TORCH_CPU"):
        raise SystemExit("spira: there is a GPU, but no nvcc. Set CUDA_HOME to its toolkit, or "
                         "SPIRA_TORCH_CPU=1 for a package without GPU")
    gpu = CUDA_HOME and torch.version.cuda and not os.environ.get("SPIRA_TORCH_CPU")
    if not gpu:
        return CppExtension("spira._C", sources, **options)
    if not os.environ.get("TORCH_CUDA_ARCH_LIST"):
        if not torch.cuda.is_available():
            raise SystemExit(
                "spira: nvcc is here, but no GPU to build for. Set TORCH_CUDA_ARCH_LIST, for "
                'example to "9.0a" (H100, H200), "8.0" (A100) or "8.9" (L4, RTX 40), several with '
                "semicolons between; or SPIRA_TORCH_CPU=1 for a package without GPU")
        os.environ["TORCH_CUDA_ARCH_LIST"] = machine_list()
    flags["cxx"].append("-DSPIRA_TORCH_CUDA")
    flags["nvcc"].append("-DSPIRA_TORCH_CUDA")
    return CUDAExtension("spira._C", sources + sorted(glob.glob("csrc/cuda/*.cu")), **options)


def copy_writers(folder):
    """Copies the writers of files that spira.pytorch.export calls: examples/checkpoint*.py."""
    os.makedirs(folder, exist_ok=True)
    here = os.path.join(HERE, "headers", "writers") # of an unpacked sdist
    for file in glob.glob(os.path.join(here if os.path.isdir(here) else os.path.join(HERE, ".."),
                                       "checkpoint*.py")):
        shutil.copy(file, folder)


class BuildPy(build_py):
    def run(self):
        super().run()
        copy_writers(os.path.join(self.build_lib, "spira", "writers"))


class Sdist(sdist):
    """Takes the headers and the writers along."""

    def make_release_tree(self, base_dir, files):
        super().make_release_tree(base_dir, files)
        headers = os.path.join(base_dir, "headers")
        shutil.copytree(os.path.join(HEADERS, "spira"), os.path.join(headers, "spira"))
        copy_writers(os.path.join(headers, "writers"))


setup(name="spira",
      version="0.2.0",
      description="Sparse convolution on voxelised point clouds, for PyTorch",
      license="Apache-2.0",
      packages=find_packages(include=["spira", "spira.*"]),
      python_requires=">=3.10",
      install_requires=["torch"],
      ext_modules=[extension()],
      cmdclass={"build_ext": BuildExtension, "build_py": BuildPy, "sdist": Sdist},
      options={"bdist_wheel": {"py_limited_api": "cp310"},
               "build": {"build_base": os.environ.get("SPIRA_TORCH_BUILD", "build")}})
