#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
# tests/run_judge.sh: compares small scenes with spconv, where it is installed (judge.py).
#
#     tests/run_judge.sh LEVELS      LEVELS: examples/levels.cu, built
set -eu

here=$(dirname "$0")
PYTHON=${PYTHON:-python3}
if ! $PYTHON -c 'import numpy' 2>/dev/null; then
    echo 'skipped the comparison with spconv: there is no Python with NumPy'
    echo '0 passed, 0 failed, 1 skipped'
    exit 0
fi
"$here/tally.sh" "$PYTHON -B '$here/judge.py' --self-test" \
    "$PYTHON -B '$here/judge.py' '$1' --scenes sparse --rules 20"
