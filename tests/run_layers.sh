#!/bin/sh
# tests/run_layers.sh: the rules between the headers.
#
#     tests/run_layers.sh [table [directory]]   checks the tree
#     tests/run_layers.sh --self-test           plants violations, each of which must be caught
#
# Rules: every file is in the table; a file includes (in quotes) lower layers and its own twin only;
# a .h includes no .cuh and no CUDA header; cuBLAS belongs to the opt-in files; include guards are
# SPIRA_NAME_H or SPIRA_NAME_CUH; the umbrella, beside the directory, includes all but the opt-in
# files.
set -eu

check() { # table directory: prints the violations, fails if there are any
    ls "$2".cuh "$2"/* 2>/dev/null | awk -v table="$1" '
        function complain(text) {
            print text
            ++bad
        }
        function guard_of(name) {
            gsub(/\./, "_", name)
            return "SPIRA_" toupper(name)
        }
        function twins(name, other) {
            return name ~ /\.cuh$/ && other == substr(name, 1, length(name) - 3) "h"
        }
        function check_quoted(where, name, target) {
            if (name == umbrella && !sub(/^spira\//, "", target)) {
                complain(where ": the umbrella includes files of spira/")
            } else if (target ~ /\//) {
                complain(where ": \"" target "\": files of spira/ are included by their bare name")
            } else if (!(target in layer)) {
                complain(where ": \"" target "\" is in no layer")
            } else if (target == umbrella) {
                complain(where ": nothing includes the umbrella")
            } else if (name == umbrella) {
                held[target] = 1
            } else if (layer[target] >= layer[name] && !twins(name, target)) {
                complain(where ": \"" target "\" (layer " layer[target] ") is not below layer " \
                         layer[name])
            }
            if (name ~ /\.h$/ && target ~ /\.cuh$/) {
                complain(where ": a .h includes \"" target "\"")
            }
        }
        function check_angled(where, name, target) {
            if (name ~ /\.h$/ &&
                target ~ /^(cu[a-z_0-9A-Z]*(\.h|\.hpp|\.cuh)|(cub|cuda|thrust|cute|cutlass|cooperative_groups|nv)\/.*|cooperative_groups\.h|mma\.h|device_launch_parameters\.h|vector_types\.h|vector_functions\.h|math_constants\.h|nvtx3\/.*|nccl\.h)$/) {
                complain(where ": a .h includes the CUDA header <" target ">")
            }
            if (target ~ /^cublas/ && !(name in optin)) {
                complain(where ": <" target "> belongs to the opt-in files")
            }
            if (target ~ /(^|\/)spira\//) {
                complain(where ": files of spira/ are included by their bare name")
            }
        }
        function check_file(path, name,    line, text, where, guard, opened, defined) {
            guard = guard_of(name)
            while ((getline text < path) > 0) {
                where = path ":" ++line
                if (text ~ /^[ \t]*#[ \t]*include[ \t]*"/) {
                    sub(/^[^"]*"/, "", text)
                    sub(/".*/, "", text)
                    check_quoted(where, name, text)
                } else if (text ~ /^[ \t]*#[ \t]*include[ \t]*</) {
                    sub(/^[^<]*</, "", text)
                    sub(/>.*/, "", text)
                    check_angled(where, name, text)
                } else if (text ~ /^[ \t]*#/) { # the first two directives are the guard
                    ++opened
                    defined += (opened == 1 && text == "#ifndef " guard) ||
                               (opened == 2 && text == "#define " guard)
                }
            }
            close(path)
            if (defined != 2) {
                complain(path ": the include guard is not " guard)
            }
        }
        BEGIN {
            while ((getline text < table) > 0) {
                sub(/#.*/, "", text)
                n = split(text, word)
                for (i = 2; i <= n; ++i) {
                    if (word[1] == "umbrella") {
                        umbrella = word[i]
                        layer[word[i]] = 1000
                    } else if (word[1] == "opt-in") {
                        optin[word[i]] = 1
                    } else if (word[i] in layer) {
                        complain(table ": " word[i] " is in two layers")
                    } else {
                        layer[word[i]] = word[1] + 0
                    }
                }
            }
            if (umbrella == "") {
                complain(table ": no table, or no umbrella in it")
            }
        }
        {
            name = $0
            sub(/.*\//, "", name)
            found[name] = $0
            if (!(name in layer)) {
                complain($0 ": is in no layer of " table)
            } else {
                check_file($0, name)
            }
        }
        END {
            for (name in found) {
                if (name != umbrella && name in layer && !(name in optin) && !(name in held)) {
                    complain(found[name] ": the umbrella does not include it")
                }
            }
            for (name in optin) {
                if (name in held) {
                    complain(umbrella " includes the opt-in " name)
                }
            }
            if (!(umbrella in found)) {
                complain(umbrella ": the umbrella is missing")
            }
            exit bad != 0
        }'
}

# ---- self-test ------------------------------------------------------------------------------------

header() { # name includes...: a file of the planted tree
    name=$1
    folder=spira/
    prefix=
    [ "$name" != spira.cuh ] || folder= prefix=spira/
    guard=SPIRA_$(printf '%s' "$1" | tr 'a-z.' 'A-Z_')
    {
        printf '#ifndef %s\n#define %s\n' "$guard" "$guard"
        shift
        for target; do
            case $target in
            '<'*) printf '#include %s\n' "$target" ;;
            *) printf '#include "%s%s"\n' "$prefix" "$target" ;;
            esac
        done
        printf '#endif\n'
    } >"$tree/$folder$name"
}

plant_good() {
    rm -rf "$tree/spira"
    mkdir -p "$tree/spira"
    printf '%s\n' '0 a.h' '1 b.h b.cuh' '1 side.h' '2 d.cuh # the top' 'umbrella spira.cuh' \
        '3 e.cuh' 'opt-in e.cuh' >"$tree/table"
    header a.h '<stdint.h>' '<string.h>'
    header b.h a.h '<math.h>'
    header b.cuh b.h a.h '<cuda_runtime.h>' '<cub/cub.cuh>'
    header side.h
    header d.cuh b.cuh side.h
    header e.cuh d.cuh '<cublas_v2.h>'
    header spira.cuh a.h b.h b.cuh side.h d.cuh
}

expect() { # caught|clean what: what the checker must say of the planted tree
    if check "$tree/table" "$tree/spira" >"$tree/log" 2>&1; then
        said=clean
    else
        said=caught
    fi
    if [ "$said" = "$1" ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "layer rule: $2: expected $1, was $said"
        cat "$tree/log"
    fi
    plant_good
}

self_test() {
    tree=$(mktemp -d)
    trap 'rm -rf "$tree"' EXIT
    passed=0 failed=0
    plant_good
    expect clean 'a good tree'
    rm "$tree/spira/e.cuh"
    expect clean 'a file of the table that does not exist yet'
    header b.h a.h side.h
    expect caught 'a sideways include'
    header a.h b.h
    expect caught 'an upward include'
    header b.h b.cuh
    expect caught 'a .h that includes its .cuh'
    header side.h spira.cuh
    expect caught 'an include of the umbrella'
    header side.h ../spira/a.h
    expect caught 'an include by path'
    header side.h '<spira/a.h>'
    expect caught 'an include by path in angles'
    header side.h unknown.h
    expect caught 'an include of an unknown file'
    for target in cuda_runtime.h cuda_fp16.h cub/cub.cuh cuda/std/limits thrust/sort.h mma.h \
        cublas_v2.h curand.h vector_types.h; do
        header side.h "<$target>"
        expect caught "a .h that includes <$target>"
    done
    header b.cuh b.h '<cublas_v2.h>'
    expect caught 'cuBLAS outside of the opt-in files'
    header new.h
    expect caught 'a file that is in no layer'
    sed 's/SPIRA_B_H/SPIRA_B/' "$tree/spira/b.h" >"$tree/b" && mv "$tree/b" "$tree/spira/b.h"
    expect caught 'a wrong include guard'
    sed '/^#define/d' "$tree/spira/b.h" >"$tree/b" && mv "$tree/b" "$tree/spira/b.h"
    expect caught 'a guard that defines nothing'
    printf '#pragma once\n' >"$tree/spira/b.h"
    expect caught 'no include guard'
    header spira.cuh a.h b.h b.cuh side.h
    expect caught 'an umbrella that lacks a file'
    header spira.cuh a.h b.h b.cuh side.h d.cuh e.cuh
    expect caught 'an umbrella with an opt-in file'
    rm "$tree/spira.cuh"
    expect caught 'no umbrella'
    echo '2 a.h' >>"$tree/table"
    expect caught 'a file in two layers'
    : >"$tree/table"
    expect caught 'an empty table'
    echo "$passed passed, $failed failed, 0 skipped"
    [ "$failed" = 0 ]
}

case ${1-} in
--self-test)
    self_test
    ;;
*)
    here=$(dirname "$0")
    if check "${1-$here/layers.txt}" "${2-$here/../spira}"; then
        echo "the layers hold"
    else
        exit 1
    fi
    ;;
esac
