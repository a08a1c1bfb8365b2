#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
# tests/run_consumers.sh: installs spira and builds projects that use it, each in its own way.
#
#     tests/run_consumers.sh
#
# Ways: find_package on an installed prefix, FetchContent of a clone (of the last commit),
# add_subdirectory (cmake 3.18 or newer), and pkg-config with a plain compiler. A consumer has a host file and, where there is an nvcc, a CUDA
# file; both are built and run. What lacks its tool is skipped. Environment: MAKE, CXX, NVCC (empty:
# no nvcc). Last line: N passed, N failed, N skipped.
set -u

cd "$(dirname "$0")/.." || exit 2
checkout=$PWD
consumer=$checkout/tests/build/consumer
unset MAKEFLAGS MFLAGS MAKELEVEL # of the make that runs this
MAKE=${MAKE:-make} CXX=${CXX:-g++} NVCC=${NVCC-$(command -v nvcc || true)}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
prefix=$folder/usr
passed=0 failed=0 skipped=0

try() { # what command...
    what=$1
    shift
    if "$@" >"$folder/log" 2>&1; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "consumers: $what failed:"
        cat "$folder/log"
    fi
}

skip() { # count why
    skipped=$((skipped + $1))
    echo "skipped $1 consumers: $2"
}

# ---- the installed files --------------------------------------------------------------------------

installed() { # every header, one version everywhere, and no path of the machine that installed
    version=$(sed -n 's/.*SPIRA_VERSION_[A-Z]* //p' spira/config.h | paste -sd. -)
    { (cd "$checkout" && find spira.cuh spira -name '*.h' -o -name '*.cuh')
      printf 'spira_networks/%s.h\n' detectors network networks ptv3; } | sort >"$folder/wanted"
    (cd "$prefix/include" && find . -type f | sed 's/^..//') | sort >"$folder/got"
    diff "$folder/wanted" "$folder/got" &&
        grep -qx "Version: $version" "$prefix/share/pkgconfig/spira.pc" &&
        [ -f "$prefix/share/cmake/spira/spira-config.cmake" ] &&
        [ -f "$prefix/share/doc/spira/CHANGELOG.md" ] &&
        grep -q "^## $version" "$prefix/share/doc/spira/CHANGELOG.md" &&
        [ -x "$prefix/share/spira/checkpoint.py" ] &&
        ! grep -rq "$folder" "$prefix"
}

try 'make install' "$MAKE" install DESTDIR="$folder" PREFIX=/usr
try 'what make install has installed' installed

# ---- CMake ----------------------------------------------------------------------------------------

mapped() { # what spira_architectures makes of lists
    cat >"$folder/map.cmake" <<'END'
include("${CHECKOUT}/spira/cmake/spira-architectures.cmake")
function(expect wanted)
    spira_architectures_map(got ${ARGN})
    if(NOT got STREQUAL wanted)
        message(FATAL_ERROR "${ARGN}: expected ${wanted}, got ${got}")
    endif()
endfunction()
expect("90a-real" 90)
expect("90a-real" 90-real)
expect("90a-real" 90 90-real 90a-real)
expect("90-virtual" 90-virtual)
expect("75;80-real;90a-real;100-virtual" 75 80-real 90 100-virtual)
expect("90a" 90a)
expect("")
END
    cmake -DCHECKOUT="$checkout" -P "$folder/map.cmake"
}

# FetchContent clones the last commit, where this is a repository.
commit=$(git rev-parse --verify -q HEAD 2>/dev/null || true)

build() { # way: configures, builds
    rm -rf "$folder/build"
    CXX=$CXX cmake -S "$consumer" -B "$folder/build" -DWAY="$1" -DCHECKOUT="$checkout" -DCOMMIT="$commit" \
        -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_CXX_FLAGS='-Wall -Werror' \
        ${NVCC:+-DCUDA=ON -DCMAKE_CUDA_COMPILER="$NVCC"} &&
        cmake --build "$folder/build"
}

# The tool, and CMake at 3.18.
newer() {
    command -v cmake >/dev/null && cmake --version | awk -F '[ .]' '
        NR == 1 { good = $3 > 3 || ($3 == 3 && $4 >= 18) } END { exit !good }'
}

if newer; then
    try 'spira_architectures' mapped
    for way in find_package FetchContent add_subdirectory; do
        try "$way" build $way
        try "$way, the host's program" "$folder/build/host"
        if [ -n "$NVCC" ]; then
            try "$way, the CUDA program" "$folder/build/device"
            try "$way, code for sm_90a" grep -rqs 'compute_90a,code=.*sm_90a' "$folder/build"
        else
            skip 2 "$way: there is no nvcc"
        fi
    done
else
    skip 13 'there is no cmake of version 3.18 or later'
fi

# ---- pkg-config -----------------------------------------------------------------------------------

flags() { # of the installed prefix
    PKG_CONFIG_PATH=$prefix/share/pkgconfig pkg-config --cflags spira
}

compile() { # file program compiler...: with the flags of pkg-config
    source=$1 program=$2
    shift 2
    # shellcheck disable=SC2046
    "$@" -std=c++17 $(flags) "$source" -o "$program" && "$program"
}

if command -v pkg-config >/dev/null; then
    # shellcheck disable=SC2086
    try 'pkg-config with a plain compiler' compile "$consumer/host.cpp" "$folder/host" $CXX
    echo '#include <spira_networks/networks.h>
        int main() { networks::network n; networks::network_nuscenes(&n); return 0; }' >"$folder/networks.cpp"
    # shellcheck disable=SC2086
    try 'the tables of networks' compile "$folder/networks.cpp" "$folder/networks" $CXX
else
    skip 2 'there is no pkg-config'
fi
for python in python3 /usr/bin/python3; do
    "$python" -c 'import numpy' 2>/dev/null && break
    python=
done
if [ -n "$python" ]; then
    try 'checkpoint.py' "$python" -B "$prefix/share/spira/checkpoint.py" --help
else
    skip 1 'checkpoint.py: there is no Python with NumPy'
fi

# The examples of the search, by a plain compiler.
example() { # exit code, words, program, argument...: what it returns and says
    code=$1 words=$2 program=$3
    shift 3
    "$folder/$program" "$@" >"$folder/said" 2>&1
    [ $? = "$code" ] && grep -qF "$words" "$folder/said"
}
for program in density crowd; do
    # shellcheck disable=SC2086
    try "$program.cu" $CXX -std=c++17 -O1 -x c++ examples/$program.cu -o "$folder/$program"
done
printf '\0\0\0\0\0\0\0\0\0\0\0\0' >"$folder/one.vox32"
try 'density of a voxel' example 0 'norm 0: density 1.000' density "$folder/one.vox32"
try 'density without a file' example 2 'usage: density' density
try 'density of no file' example 1 'cannot open none.vox32' density none.vox32
printf '\377\377\377\177\0\0\0\0\0\0\0\0' >"$folder/far.vox32"
try 'crowd of a voxel' example 0 '0 to    0 neighbours: 1 voxels' crowd "$folder/one.vox32"
try 'crowd of a voxel far off' example 1 'a coordinate beyond 524288' crowd "$folder/far.vox32"
try 'crowd of no kernel' example 2 '[K, 1 to 15]' crowd "$folder/one.vox32" 16

echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
