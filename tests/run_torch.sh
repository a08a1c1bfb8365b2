#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
# tests/run_torch.sh: the tests of the PyTorch package (examples/torch), where PyTorch is installed and
# the package is, or its library has been built (SPIRA_TORCH_LIBRARY).
#
#     tests/run_torch.sh                            on the CPU
#     SPIRA_TEST_DEVICE=cuda tests/run_torch.sh     on the GPU
set -eu

here=$(cd "$(dirname "$0")" && pwd)
PYTHON=${PYTHON:-python3}
PYTHONPATH=$here/torch${PYTHONPATH:+:$PYTHONPATH}
[ -n "${SPIRA_TORCH_LIBRARY:-}" ] && PYTHONPATH=$here/../examples/torch:$PYTHONPATH
export PYTHONPATH
skip() {
    echo "skipped the tests of PyTorch: $1"
    echo '0 passed, 0 failed, 1 skipped'
    exit 0
}
$PYTHON -c 'import torch' 2>/dev/null || skip 'there is no Python with PyTorch'
$PYTHON -c 'import spira.pytorch' 2>/dev/null || skip 'pip install --no-build-isolation ./examples/torch'
if [ "${SPIRA_TEST_DEVICE:-cpu}" = cuda ]; then
    $PYTHON -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null || skip 'there is no GPU'
fi
set --
for test in ops_test modules modules_capacity modules_norm modules_models modules_ddp modules_spconv; do
    [ -e "$here/torch/$test.py" ] && set -- "$@" "$PYTHON -B '$here/torch/$test.py'"
done
"$here/tally.sh" "$@"
