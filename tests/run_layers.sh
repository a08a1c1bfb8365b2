#!/bin/sh
# tests/run_layers.sh: the rules of includes between the headers of spira/ (run_layers.py).
#
#     tests/run_layers.sh [table [folder]]   checks tests/layers.txt and spira/
#     tests/run_layers.sh --self-test        plants violations, each of which must be found
#
# 1. Every .h and .cuh file is in a layer of the table.
# 2. A file includes files of its own layer and of lower layers, and no cycle of includes exists.
# 3. Files of spira/ are included in quotes, by the shortest relative path.
# 4. A .h includes no .cuh and no header of the CUDA toolkit.
# 5. Headers of cuBLAS, CUB and Thrust are included by opt-in files only.
# 6. The include guard is SPIRA_ and the path in capitals: SPIRA_BASE_MMA_CUH for base/mma.cuh.
# 7. The umbrella reaches every file but the opt-in ones, and no opt-in file. Nothing includes it.
# 8. A .cuh at the top is an interface: it has no kernel.
set -eu

here=$(dirname "$0")
if [ "${1-}" != --self-test ]; then
    set -- "${1-$here/layers.txt}" "${2-$here/../spira}"
fi
if ! command -v python3 >/dev/null; then
    echo "skipped the rules of includes: no python3"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
fi
exec python3 -B "$here/run_layers.py" "$@"
