# SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
"""What spconv's users import beside its modules: submodules, names that are not there but can be
imported, and spira in the place of spconv."""
import sys
from enum import Enum
from types import ModuleType

from . import modules, tensor, voxels


class ConvAlgo(Enum):
    """spconv's ways to compute a convolution: accepted by the layers, and ignored."""
    Native = 0
    MaskImplicitGemm = 1
    MaskSplitImplicitGemm = 2


# Classes that can be imported, and are refused by name where one is made.
FOUR = "there are one to three axes"
REFUSED = {
    **{f"{kind}4d": FOUR for kind in ("SparseConv", "SubMConv", "SparseInverseConv",
                                      "SparseConvTranspose", "SparseMaxPool", "SparseAvgPool")},
    "HashTable": "there is no hash table: voxels are sorted words (spira.voxel_set)",
}


def refused(name, reason):
    def __init__(self, *args, **options):
        raise NotImplementedError(f"{name}: {reason}")
    return type(name, (modules.SparseModule,), {"__init__": __init__, "__doc__": reason})


CLASSES = {name: refused(name, reason) for name, reason in REFUSED.items()}


def conv_output_size(input_size, kernel_size, stride, padding, dilation):
    """The spatial_shape that a strided layer leads to."""
    return [1 if k == -1 else (n + 2 * p - d * (k - 1) - 1) // s + 1
            for n, k, s, p, d in zip(input_size, kernel_size, stride, padding, dilation)]


# Submodules, of `spconv.pytorch` or of `spconv` itself, and what they have.
PARTS = {
    "core": dict(vars(tensor), ConvAlgo=ConvAlgo),
    "ops": dict(ConvAlgo=ConvAlgo, get_conv_output_size=conv_output_size),
    "functional": dict(sparse_add=modules.sparse_add, sparse_add_hash_based=modules.sparse_add),
    "utils": dict(PointToVoxel=voxels.PointToVoxel,
                  gather_features_by_pc_voxel_id=voxels.gather_features_by_pc_voxel_id),
    "tables": {name: getattr(modules, name) for name in ("AddTable", "AddTableMisaligned",
                                                        "ConcatTable", "JoinTable")},
    "identity": dict(Identity=modules.Identity),
    "hash": dict(HashTable=CLASSES["HashTable"]),
    # Switches of spconv: what is set here has no effect.
    "constants": dict(ALL_WEIGHT_IS_KRSC=True, SAVED_WEIGHT_LAYOUT="KRSC", FILTER_HWIO=False,
                      SPCONV_ALLOW_TF32=False, SPCONV_USE_DIRECT_TABLE=False),
}


def part(package, name):
    """A submodule with spconv's names."""
    made = ModuleType(f"{package}.{name}", f"spconv's names of {name}")
    made.__dict__.update({n: value for n, value in PARTS[name].items() if not n.startswith("__")})

    def missing(asked):
        raise AttributeError(f"spira has no {name}.{asked}, which is of spconv's own machinery; "
                             "the functions of spira are in spira.__all__")
    made.__getattr__ = missing
    sys.modules[made.__name__] = made
    return made


def install_as_spconv():
    """Puts spira in spconv's place: `import spconv.pytorch as spconv` finds spira.pytorch from here
    on. Call it before anything imports spconv; ImportError if that is too late."""
    import spira.spconv as package
    if sys.modules.get("spconv", package) is not package:
        raise ImportError("spconv was imported before: call install_as_spconv() first")
    for name, module in list(sys.modules.items()):
        if name == package.__name__ or name.startswith(package.__name__ + "."):
            sys.modules["spconv" + name[len(package.__name__):]] = module
        elif name.startswith("spira.pytorch"):
            sys.modules["spconv.pytorch" + name[len("spira.pytorch"):]] = module
