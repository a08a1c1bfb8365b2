#!/bin/sh
# tests/run_checkpoint.sh: examples/checkpoint.py against the reader and writer of the scan example.
#
#     tests/run_checkpoint.sh SCAN      SCAN: examples/scan.cu, built for the host
#
# Skipped where there is no python3 with NumPy: nothing else of spira needs either.
set -eu

here=$(dirname "$0")
if ! python3 -c 'import numpy' 2>/dev/null; then
    echo 'skipped the checks of checkpoint.py: there is no python3 with NumPy'
    echo '0 passed, 0 failed, 1 skipped'
    exit 0
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -B "$here/run_checkpoint.py" "$here/../examples/checkpoint.py" "$1" "$folder"
