#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
# tests/run_checkpoint.sh: tests examples/checkpoint.py against the scan example's reader and writer
# (run_checkpoint.py), and on made-up checkpoints of the networks that it knows by name
# (run_checkpoint_networks.py).
#
#     tests/run_checkpoint.sh SCAN LEVELS      examples/scan.cu and levels.cu, built for the host
#
# Skipped without python3 and NumPy.
set -eu

here=$(dirname "$0")
PYTHON=${PYTHON:-python3}
if ! $PYTHON -c 'import numpy' 2>/dev/null; then
    echo 'skipped the tests of checkpoint.py: there is no Python with NumPy'
    echo '0 passed, 0 failed, 1 skipped'
    exit 0
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$here/tally.sh" \
    "$PYTHON -B '$here/run_checkpoint.py' '$here/../examples/checkpoint.py' '$1' '$folder'" \
    "$PYTHON -B '$here/run_checkpoint_networks.py' '$here/../examples/checkpoint.py' '$2' '$folder'"
