#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
# tests/run_layers.sh: the rules of includes between the headers of spira/ (run_layers.py), and the line
# of the licence in each source file of the repository.
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
# 9. Kernels are launched by kernel_launch of base/launch.cuh alone, which returns the error of the launch.
# 10. The table of README.md that follows values, from the call to the instruction: functions stand in the
#     files that it names, which name the next function; at most six times does one hand on the value.
# 11. The first line of a source file, behind #! the second, is that of the licence.
set -eu

here=$(dirname "$0")
licence='SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors'

unlicensed() { # folder: prints its source files without the line
    find "$1" \( -name '.?*' ! -path "$1" -o -path "$1/build" -o -path "$1/data" -o -path '*/torch/build' \) \
        -prune -o -type f \( -name '*.h' -o -name '*.cuh' -o -name '*.cu' -o -name '*.cpp' -o -name '*.py' \
        -o -name '*.sh' -o -name '*.awk' -o -name '*.cmake' -o -name CMakeLists.txt -o -name Makefile \) \
        -exec awk -v line="$licence" '
        FNR == 1 { seen[FILENAME] = 1 }
        FNR <= 2 && index($0, line) { has[FILENAME] = 1 }
        FNR > 2 { nextfile }
        END { for (f in seen) if (!(f in has)) print f ": the line of the licence is missing" }' {} +
}

if [ "${1-}" = --self-test ]; then
    box=$(mktemp -d)
    printf '// %s\n' "$licence" >"$box/good.h"
    printf '#!/bin/sh\n# %s\n' "$licence" >"$box/good.sh"
    printf '// a file\n\n// %s\n' "$licence" >"$box/late.cu"
    printf '# a file\n' >"$box/none.py"
    said=$(unlicensed "$box" | sort)
    rm -r "$box"
    if [ "$said" != "$box/late.cu: the line of the licence is missing
$box/none.py: the line of the licence is missing" ]; then
        echo "licence: two files lack the line, but it says: $said"
        echo "0 passed, 1 failed, 0 skipped"
        exit 1
    fi
else
    set -- "${1-$here/layers.txt}" "${2-$here/../spira}"
    said=$(unlicensed "$here/..")
    if [ -n "$said" ]; then
        echo "$said"
        echo "add the first line of spira.cuh to these files, as a comment"
        exit 1
    fi
fi
if ! command -v python3 >/dev/null; then
    echo "skipped the rules of includes: no python3"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
fi
exec python3 -B "$here/run_layers.py" "$@"
