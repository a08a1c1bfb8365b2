#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
# tests/run_units.sh: compiles a translation unit and compares what it costs with a table.
#
#     tests/run_units.sh TABLE OBJECT COMMAND...    COMMAND compiles with -Xptxas -v to OBJECT
#     tests/run_units.sh --kernels OBJECT           how long ptxas took for the kernels of a unit
#     tests/run_units.sh --self-test
#
# The unit is named by OBJECT: build/check/units/include.o is `include`. Prints one line: kernels, the
# most registers of one, bytes of the object and CPU seconds of COMMAND. Fails if COMMAND fails, or if
# one of the first three passes the number in the table (tests/build/units.txt).
set -eu

count() { # LOG: "kernels registers", of what ptxas -v says
    awk '
        /Compiling entry function / {
            ++kernels
        }
        / Used [0-9]+ registers/ {
            used = $0
            sub(/.* Used /, "", used)
            most = used + 0 > most ? used + 0 : most
            ++told
        }
        END {
            if (told < kernels) { # not the words that we know
                exit 1
            }
            print kernels + 0, most + 0
        }' "$1"
}

judge() { # TABLE UNIT KERNELS REGISTERS BYTES SECONDS
    awk -v unit="$2" -v is="$3 $4 $5" -v seconds="$6" '
        $1 == unit {
            found = 1
            split(is, got)
            split("kernels registers bytes", name)
            printf "%-10s %4d kernels, %3d registers, %8d bytes, %5.1f s (target: %s)\n", unit,
                   got[1], got[2], got[3], seconds, $5
            for (i = 1; i <= 3; ++i) {
                if (got[i] > $(i + 1)) {
                    printf "%s: %d %s, more than the %d of the table\n", unit, got[i], name[i],
                           $(i + 1)
                    bad = 1
                }
            }
        }
        END {
            if (!found) {
                print unit ": is not in the table"
            }
            exit bad || !found
        }' "$1"
}

run() { # TABLE OBJECT COMMAND...
    table=$1 object=$2
    shift 2
    unit=$(basename "$object" .o)
    rm -f "$object"
    "$@" >"$object.ptxas" 2>&1 || {
        cat "$object.ptxas"
        echo "$unit: does not compile"
        return 1
    }
    times >"$object.times"
    spent=$(awk 'NR == 2 { gsub(/[ms]/, " "); print $1 * 60 + $2 + $3 * 60 + $4 }' "$object.times")
    counted=$(count "$object.ptxas") || {
        echo "$unit: the log of ptxas is not understood"
        return 1
    }
    judge "$table" "$unit" "${counted% *}" "${counted#* }" "$(wc -c <"$object")" "$spent"
}

kernels() { # OBJECT: a line for each kernel template, the slowest first; newer toolkits tell the time
    awk '
        /Compiling entry function / {
            name = $0
            sub(/.*function ./, "", name)
            sub(/. for .*/, "", name)
            sub(/I[6L0-9NjmtfhS].*/, "", name) # template arguments
            gsub(/_ZN?|[0-9]+/, " ", name)
            ++count[name]
        }
        / Used [0-9]+ registers/ {
            used = $0
            sub(/.* Used /, "", used)
            most[name] = used + 0 > most[name] ? used + 0 : most[name]
        }
        /Compile time = / {
            time = $0
            sub(/.*Compile time = /, "", time)
            total[name] += time / 1000
        }
        END {
            for (name in count) {
                printf "%6.2f s %3d kernels %3d registers %s\n", total[name], count[name],
                       most[name], name
            }
        }' "$1.ptxas" | sort -rn
}

# ---- self-test ------------------------------------------------------------------------------------

entry() { # kernel registers: a piece of a log of ptxas
    printf "ptxas info    : Compiling entry function '%s' for 'sm_90a'\n" "$1"
    printf 'ptxas info    : Function properties for %s\n' "$1"
    printf '    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n'
    printf 'ptxas info    : Used %d registers, used 0 barriers, 380 bytes cmem[0]\n' "$2"
}

planted() { # OBJECT BYTES LOG [STATUS]: stands for nvcc
    cat "$3" >&2
    head -c "$2" /dev/zero >"$1"
    return "${4:-0}"
}

expect() { # STATUS TEXT BYTES [STATUS of nvcc]: what the log in $log must give
    status=0
    said=$(run "$folder/table" "$folder/unit.o" planted "$folder/unit.o" "$3" "$log" "${4:-0}" \
        2>&1) || status=1
    if [ "$status" = "$1" ] && printf '%s\n' "$said" | grep -qF -e "$2"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "units: expected $1 and \"$2\", got $status and: $said"
    fi
}

self_test() {
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
    log=$folder/log passed=0 failed=0
    printf '%s\n' '# unit kernels registers bytes' 'united 0 0 0 1' 'unit 2 40 1000 7 # comment' \
        >"$folder/table"
    { entry one 24; entry two 40; } >"$log"
    expect 0 '2 kernels,  40 registers,     1000 bytes' 1000
    expect 0 '(target: 7)' 1000
    expect 1 '1001 bytes, more than the 1000' 1001
    expect 1 'does not compile' 1000 3
    entry three 16 >>"$log"
    expect 1 '3 kernels, more than the 2' 1000
    { entry one 24; entry two 41; } >"$log"
    expect 1 '41 registers, more than the 40' 1000
    { entry one 255; entry two 8; } >"$log"
    expect 1 '255 registers, more than the 40' 1000
    : >"$log"
    expect 0 '0 kernels,   0 registers' 1000
    entry one 24 | grep -v Used >"$log"
    expect 1 'is not understood' 1000
    { entry one 24; entry two 40; entry one 32; } >"$folder/unit.o.ptxas"
    if [ "$(kernels "$folder/unit.o" | wc -l)" = 2 ] &&
        kernels "$folder/unit.o" | grep -q '  2 kernels  32 registers *one'; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo 'units: --kernels does not add up'
    fi
    : >"$folder/table"
    : >"$log"
    expect 1 'is not in the table' 1000
    echo "$passed passed, $failed failed, 0 skipped"
    [ "$failed" = 0 ]
}

case ${1-} in
--self-test) self_test ;;
--kernels) kernels "$2" ;;
'' | -*)
    echo "usage: $0 TABLE OBJECT COMMAND... | --kernels OBJECT | --self-test" >&2
    exit 2
    ;;
*) run "$@" ;;
esac
