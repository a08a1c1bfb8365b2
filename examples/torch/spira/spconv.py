# SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
"""The names of the package `spconv`: `spira.spconv.pytorch` is spira.pytorch.

    from spira import spconv                       # instead of: import spconv
    spira.pytorch.install_as_spconv()              # or: leave the model's imports as they are
"""
import sys

from . import pytorch
from .pytorch.names import PARTS, ConvAlgo, part

__version__ = "2.3.8" # of the spconv whose names these are
__path__ = []
SparseConvTensor = pytorch.SparseConvTensor
sys.modules[f"{__name__}.pytorch"] = pytorch
constants, core, utils = (part(__name__, name) for name in ("constants", "core", "utils"))
