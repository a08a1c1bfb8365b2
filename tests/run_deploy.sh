#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
# tests/run_deploy.sh: tests the way from training in PyTorch to labels in C++ (torch/deploy.py), and
# networks that spira.pytorch.export has written (torch/export.py).
#
#     tests/run_deploy.sh SCAN LEVELS      examples/scan.cu and levels.cu, built for the host
#
# Skipped without Python and NumPy; the training and the networks also without PyTorch and
# examples/torch installed.
set -eu

here=$(dirname "$0")
PYTHON=${PYTHON:-python3}
if ! $PYTHON -c 'import numpy' 2>/dev/null; then
    echo 'skipped the tests of training and labels: there is no Python with NumPy'
    echo '0 passed, 0 failed, 1 skipped'
    exit 0
fi
export OMP_WAIT_POLICY=passive
set -- "$1" "$2" "$PYTHON -B '$here/torch/deploy.py' '$1'"
if $PYTHON -c 'import spira.pytorch' 2>/dev/null; then
    PYTHONPATH=$here/torch${PYTHONPATH:+:$PYTHONPATH}
    export PYTHONPATH
    set -- "$@" "$PYTHON -B '$here/torch/export.py' '$1' '$2'"
else
    echo 'skipped the networks that spira.pytorch.export writes: the package is not installed'
    export TALLY_SKIPPED=1
fi
shift 2
exec "$here/tally.sh" "$@"
