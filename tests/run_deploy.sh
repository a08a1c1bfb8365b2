#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
# tests/run_deploy.sh: tests the way from training in PyTorch to labels in C++ (torch/deploy.py).
#
#     tests/run_deploy.sh SCAN      examples/scan.cu, built for the host
#
# Skipped without Python and NumPy; the training also without PyTorch and examples/torch installed.
set -eu

here=$(dirname "$0")
PYTHON=${PYTHON:-python3}
if ! $PYTHON -c 'import numpy' 2>/dev/null; then
    echo 'skipped the tests of training and labels: there is no Python with NumPy'
    echo '0 passed, 0 failed, 1 skipped'
    exit 0
fi
OMP_WAIT_POLICY=passive exec $PYTHON -B "$here/torch/deploy.py" "$1"
