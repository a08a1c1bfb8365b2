#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
# tests/run_spills.sh: no kernel of spira may spill registers.
#
#     tests/run_spills.sh LOG           LOG: the output of nvcc -Xptxas -v
#     tests/run_spills.sh --registers LOG [WORD]  prints registers and spills instead, of kernels with
#                                       WORD in their names
#     tests/run_spills.sh --self-test
#
# Kernels of CUB and Thrust are not checked. A log without a kernel fails: if ptxas changes its words,
# spills must not go unnoticed.
set -eu

check() {
    demangle=$(command -v cu++filt || command -v c++filt || echo cat)
    awk '
        /Function properties for / { # a kernel, or a device function that was not inlined
            name = $0
            sub(/.*Function properties for /, "", name)
            next
        }
        / bytes spill stores, / {
            stores = loads = $0
            sub(/ bytes spill stores.*/, "", stores)
            sub(/.* /, "", stores)
            sub(/ bytes spill loads.*/, "", loads)
            sub(/.* /, "", loads)
            if (name ~ /^_ZN?(3cub|6thrust|4cuda)/) {
                next
            }
            ++kernels
            if (stores + loads > 0) {
                printf "spills (%d bytes stored, %d loaded): %s\n", stores, loads, name
                ++bad
            }
        }
        END {
            if (!kernels) {
                print "no kernel in the log"
            } else if (!bad) {
                print kernels " kernels, no spills"
            }
            exit bad != 0 || !kernels
        }' "$1" >"$out" && good=1 || good=0
    "$demangle" <"$out"
    [ "$good" = 1 ]
}

registers() { # log word: the most registers first
    demangle=$(command -v cu++filt || command -v c++filt || echo cat)
    awk '/Compiling entry function/ { split($0, part, "\047"); name = part[2] }
        / bytes spill stores, / { sub(/.*frame, /, ""); spilled = $1 + $5 }
        /: Used / { sub(/.*: Used /, ""); printf "%9d  %13d  %s\n", $1, spilled, name }' "$1" |
        "$demangle" | sed 's/spira:://g; s/(spira::.*//' | grep -e "$2" | sort -k1,1nr -k3
}

properties() { # kernel stores loads: a piece of a ptxas log
    printf "ptxas info    : Compiling entry function '%s' for 'sm_90a'\n" "$1"
    printf 'ptxas info    : Function properties for %s\n' "$1"
    printf '    0 bytes stack frame, %d bytes spill stores, %d bytes spill loads\n' "$2" "$3"
    printf 'ptxas info    : Used 32 registers, used 0 barriers, 380 bytes cmem[0]\n'
}

expect() { # clean|caught what
    if check "$log" >"$log.said" 2>&1; then said=clean; else said=caught; fi
    if [ "$said" = "$1" ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "spills: $2: expected $1, was $said"
        cat "$log.said"
    fi
}

self_test() {
    log=$out.log passed=0 failed=0
    { properties _ZN5spira4goodEv 0 0; properties _ZN5spira4fineEv 0 0; } >"$log"
    expect clean 'two good kernels'
    { properties _ZN5spira4goodEv 0 0; properties _ZN5spira3badEv 8 0; } >"$log"
    expect caught 'spill stores'
    { properties _ZN5spira3badEv 0 4; properties _ZN5spira4goodEv 0 0; } >"$log"
    expect caught 'spill loads'
    { properties _ZN3cub5radixEv 64 64; properties _ZN5spira4goodEv 0 0; } >"$log"
    expect clean 'a spill of CUB'
    properties _ZN3cub5radixEv 0 0 >"$log"
    expect caught 'no kernel of spira'
    : >"$log"
    expect caught 'an empty log'
    { properties _ZN5spira4goodEv 0 0; properties _ZN5spira3badEv 8 4; } >"$log"
    if [ "$(registers "$log" bad | awk '{ print $1, $2, $3 }')" = '32 12 bad()' ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "spills: registers: $(registers "$log" '')"
    fi
    echo "$passed passed, $failed failed, 0 skipped"
    [ "$failed" = 0 ]
}

out=$(mktemp)
trap 'rm -f "$out" "$out".*' EXIT
case ${1-} in
--self-test) self_test ;;
--registers) registers "$2" "${3-}" ;;
'')
    echo "usage: $0 LOG | --registers LOG [WORD] | --self-test" >&2
    exit 2
    ;;
*) check "$1" ;;
esac
