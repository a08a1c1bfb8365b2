#!/bin/sh
# tests/run_layers.sh: the rules of includes between the headers of spira/.
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

check() { # table folder: prints the violations; fails if there are any
    { ls "$2.cuh" 2>/dev/null; find "$2" -name '*.h' -o -name '*.cuh' 2>/dev/null | sort; } |
        awk -v table="$1" -v root="$2/" '
        function complain(text) {
            print text
            ++bad
        }

        # ---- the table --------------------------------------------------------------------------

        function pattern_of(glob) { # as a regular expression
            gsub(/\./, "[.]", glob)
            gsub(/\*/, ".*", glob)
            return "^" glob "$"
        }
        function read_table(    text, word, n, i) {
            while ((getline text < table) > 0) {
                sub(/#.*/, "", text)
                n = split(text, word)
                if (n && word[1] != "umbrella" && word[1] != "opt-in") {
                    layer_name[++layers] = word[1]
                }
                for (i = 2; i <= n; ++i) {
                    if (word[1] == "umbrella") {
                        umbrella = word[i]
                    } else if (word[1] == "opt-in") {
                        opt_in_pattern[++opt_ins] = pattern_of(word[i])
                    } else {
                        pattern[++patterns] = pattern_of(word[i])
                        pattern_layer[patterns] = layers
                    }
                }
            }
            if (!patterns || umbrella == "") {
                complain(table ": no layers, or no umbrella")
            }
        }
        function layer_of(name,    i) { # 1, 2 ...; 0: in none
            for (i = 1; i <= patterns; ++i) {
                if (name ~ pattern[i]) {
                    return pattern_layer[i]
                }
            }
            return 0
        }
        function is_opt_in(name,    i) {
            for (i = 1; i <= opt_ins; ++i) {
                if (name ~ opt_in_pattern[i]) {
                    return 1
                }
            }
            return 0
        }

        # ---- one include ------------------------------------------------------------------------

        function folder_of(name) {
            return name ~ /\// ? substr(name, 1, match(name, /\/[^\/]*$/)) : ""
        }
        function resolve(name, target,    folder) { # the path under spira/; "" if it is outside
            folder = folder_of(name)
            while (sub(/^\.\.\//, "", target)) {
                if (folder == "") {
                    return ""
                }
                folder = folder_of(substr(folder, 1, length(folder) - 1))
            }
            return folder target
        }
        function shortest(name, to,    folder, up) { # how a file names another
            folder = folder_of(name)
            while (substr(to, 1, length(folder)) != folder) {
                folder = folder_of(substr(folder, 1, length(folder) - 1))
                up = up "../"
            }
            return up substr(to, length(folder) + 1)
        }
        function check_quoted(where, name, target,    to) {
            if (name == umbrella && !sub(/^spira\//, "", target)) {
                complain(where ": the umbrella includes files of spira/")
                return
            }
            to = name == umbrella ? target : resolve(name, target)
            if (to == "" || to == umbrella || !(to in file)) {
                complain(where ": \"" target "\" is no file of spira/")
                return
            }
            if (name != umbrella && shortest(name, to) != target) {
                complain(where ": \"" target "\" should be \"" shortest(name, to) "\"")
            }
            if (name ~ /\.h$/ && to ~ /\.cuh$/) {
                complain(where ": a .h includes \"" target "\"")
            }
            if (name != umbrella && layer_of(to) > layer_of(name)) {
                complain(where ": \"" target "\" (" layer_name[layer_of(to)] ") is above " \
                         layer_name[layer_of(name)])
            }
            edge[name, ++edges[name]] = to
        }
        function check_angled(where, name, target) {
            if (name ~ /\.h$/ &&
                target ~ /^(cu[a-z_0-9A-Z]*(\.h|\.hpp|\.cuh)|(cub|cuda|thrust|cute|cutlass|cooperative_groups|nv)\/.*|cooperative_groups\.h|mma\.h|device_launch_parameters\.h|vector_types\.h|vector_functions\.h|math_constants\.h|nvtx3\/.*|nccl\.h)$/) {
                complain(where ": a .h includes the CUDA header <" target ">")
            }
            if (target ~ /^(cublas|cub\/|thrust\/)/ && !is_opt_in(name)) {
                complain(where ": <" target "> belongs in opt-in files")
            }
            if (target ~ /(^|\/)spira\//) {
                complain(where ": files of spira/ are included in quotes")
            }
        }

        # ---- one file ---------------------------------------------------------------------------

        function check_file(name,    path, guard, line, text, where, directives, guarded, kernels) {
            path = file[name]
            guard = "SPIRA_" toupper(name)
            gsub(/[.\/]/, "_", guard)
            if (name != umbrella && !layer_of(name)) {
                complain(path ": is in no layer of " table)
            }
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
                } else if (text ~ /^[^\/#]*(SPIRA_KERNEL|SPIRA_PLAIN_KERNEL|__global__)([ \t]|$)/) {
                    ++kernels
                } else if (text ~ /^[ \t]*#/) { # the first two directives are the guard
                    ++directives
                    guarded += (directives == 1 && text == "#ifndef " guard) ||
                               (directives == 2 && text == "#define " guard)
                }
            }
            close(path)
            if (name !~ /\// && name ~ /[.]cuh$/ && name != umbrella && kernels) {
                complain(path ": a kernel at the top; it belongs in a folder")
            }
            if (guarded != 2) {
                complain(path ": the include guard is not " guard)
            }
        }

        # ---- the graph of includes --------------------------------------------------------------

        function visit(name, trail,    i, to) { # depth first; state: 1 on the trail, 2 done
            state[name] = 1
            for (i = 1; i <= edges[name]; ++i) {
                to = edge[name, i]
                if (state[to] == 1) {
                    complain("a cycle of includes: " trail " " to)
                } else if (!state[to]) {
                    visit(to, trail " " to)
                }
            }
            state[name] = 2
        }
        function reach(name,    i) {
            reached[name] = 1
            for (i = 1; i <= edges[name]; ++i) {
                if (!(edge[name, i] in reached)) {
                    reach(edge[name, i])
                }
            }
        }

        BEGIN {
            read_table()
        }
        {
            name = substr($0, 1, length(root)) == root ? substr($0, length(root) + 1) : umbrella
            file[name] = $0
            order[++files] = name
        }
        END {
            if (!(umbrella in file)) {
                complain(umbrella ": the umbrella is missing")
                exit 1
            }
            for (i = 1; i <= files; ++i) {
                check_file(order[i])
            }
            for (i = 1; i <= files; ++i) {
                if (!state[order[i]]) {
                    visit(order[i], order[i])
                }
            }
            reach(umbrella)
            for (i = 1; i <= files; ++i) {
                name = order[i]
                if (is_opt_in(name) && name in reached) {
                    complain(umbrella " includes the opt-in " name)
                } else if (!is_opt_in(name) && !(name in reached)) {
                    complain(file[name] ": the umbrella does not include it")
                }
            }
            exit bad != 0
        }'
}

# ---- self-test ------------------------------------------------------------------------------------

kernel() { # name: adds a kernel to a file of the planted tree
    echo 'SPIRA_PLAIN_KERNEL void __launch_bounds__(32) some_kernel(int *to) {}' >>"$tree/spira/$1"
}

header() { # name includes...: writes a file of the planted tree
    path=$tree/spira/$1
    [ "$1" != spira.cuh ] || path=$tree/spira.cuh
    guard=SPIRA_$(printf '%s' "$1" | tr 'a-z./' 'A-Z__')
    mkdir -p "$(dirname "$path")"
    {
        printf '#ifndef %s\n#define %s\n' "$guard" "$guard"
        shift
        for target; do
            case $target in
            '<'*) printf '#include %s\n' "$target" ;;
            *) printf '#include "%s"\n' "$target" ;;
            esac
        done
        printf '#endif\n'
    } >"$path"
}

plant_good() {
    rm -rf "$tree/spira"
    mkdir -p "$tree/spira"
    printf '%s\n' 'ground a.h base/*' 'middle b.h b.cuh mid/* top/low.h # exact first' \
        'top d.cuh top/*' 'extra e.cuh extra/*' 'umbrella spira.cuh' 'opt-in e.cuh extra/*' >"$tree/table"
    header a.h '<stdint.h>' '<string.h>' base/x.h
    header base/x.h
    header base/deep/y.cuh ../x.h ../../a.h
    header b.h a.h '<math.h>' mid/m.h
    header b.cuh b.h a.h '<cuda_runtime.h>' mid/n.cuh
    header mid/m.h ../a.h ../base/x.h
    header mid/n.cuh m.h ../b.h ../base/deep/y.cuh ../top/low.h
    header top/low.h
    header d.cuh b.cuh top/t.cuh
    header top/t.cuh ../b.h
    header e.cuh d.cuh extra/g.cuh '<cublas_v2.h>'
    header extra/g.cuh ../a.h '<cub/cub.cuh>'
    header spira.cuh spira/a.h spira/b.h spira/d.cuh
    kernel mid/n.cuh
}

expect() { # clean|TEXT what: the checker finds nothing, or complains with this text
    if check "$tree/table" "$tree/spira" >"$tree/log" 2>&1; then
        said=clean
    elif grep -qF -e "$1" "$tree/log"; then
        said=$1
    else
        said='something else'
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

replace() { # expression file: sed in place
    sed "$1" "$2" >"$tree/edited" && mv "$tree/edited" "$2"
}

planted() { # TEXT what command...: the command plants it in the good tree
    text=$1 what=$2
    shift 2
    "$@"
    expect "$text" "$what"
}

self_test() {
    tree=$(mktemp -d)
    trap 'rm -rf "$tree"' EXIT
    passed=0 failed=0
    plant_good
    planted clean 'a good tree' :
    planted clean 'a pattern that matches no file' rm -r "$tree/spira/e.cuh" "$tree/spira/extra"
    planted clean 'a file that is no header' cp "$tree/table" "$tree/spira/README.md"

    header new.h
    planted 'is in no layer' 'a file that is in no layer' \
        replace 's/"spira\/a.h"/"spira\/new.h"/' "$tree/spira.cuh"
    planted 'is above' 'an upward include' header a.h base/x.h b.h
    planted 'is above' 'an upward include of a folder' header b.h a.h top/t.cuh
    planted 'is above' 'an upward include from a folder' header base/x.h ../mid/m.h
    planted 'is above' 'one of a file that an earlier pattern takes out of its folder' \
        header top/low.h ../d.cuh
    planted 'a cycle of includes' 'a cycle of two' header mid/m.h ../b.h
    planted 'a cycle of includes' 'a file that includes itself' header a.h a.h base/x.h
    header base/x.h deep/z.h
    planted 'a cycle of includes' 'a cycle of three' header base/deep/z.h ../../a.h
    planted 'a cycle of includes' 'a cycle among opt-in files' header extra/g.cuh ../e.cuh

    for path in spira.cuh ../spira.cuh ../spira/a.h unknown.h; do
        planted 'is no file of spira/' "an include of $path" header b.h "$path" mid/m.h
    done
    planted 'is no file of spira/' 'an include by a detour' \
        header mid/m.h ../mid/../a.h ../base/x.h
    planted 'should be "m.h"' 'a neighbour by more than its name' \
        header mid/n.cuh ../mid/m.h ../b.h ../base/deep/y.cuh ../top/low.h
    planted 'in quotes' 'an include in angles' header b.h '<spira/a.h>' mid/m.h
    planted 'the umbrella includes files' 'an umbrella that includes a file outside of the folder' \
        header spira.cuh spira/a.h spira/b.h spira/d.cuh a.h

    header mid/m.h n.cuh
    planted 'a .h includes "n.cuh"' 'a .h that includes a .cuh' \
        header mid/n.cuh ../base/deep/y.cuh ../top/low.h
    for toolkit in cuda_runtime.h cuda_fp16.h cub/cub.cuh cuda/std/limits thrust/sort.h mma.h \
        cublas_v2.h curand.h vector_types.h; do
        planted "a .h includes the CUDA header <$toolkit>" "a .h that includes <$toolkit>" \
            header top/low.h "<$toolkit>"
    done
    for toolkit in cublas_v2.h cublasLt.h cub/cub.cuh cub/block/block_scan.cuh thrust/sort.h; do
        planted 'belongs in opt-in files' "<$toolkit> outside of the opt-in files" \
            header top/t.cuh "<$toolkit>"
    done

    planted 'the include guard is not SPIRA_B_H' 'a wrong include guard' \
        replace 's/SPIRA_B_H/SPIRA_B/' "$tree/spira/b.h"
    planted 'the include guard is not SPIRA_MID_M_H' 'an include guard without the folder' \
        replace 's/SPIRA_MID_M_H/SPIRA_M_H/' "$tree/spira/mid/m.h"
    planted 'the include guard is not' 'a guard that defines nothing' \
        replace '/^#define/d' "$tree/spira/b.h"
    planted 'the include guard is not' 'no include guard' \
        replace 's/^#[a-z]* *SPIRA.*/#pragma once/' "$tree/spira/top/low.h"

    planted 'does not include it' 'an umbrella that lacks a file' \
        header spira.cuh spira/a.h spira/b.h spira/b.cuh
    planted 'does not include it' 'an umbrella that lacks a file of a folder' header d.cuh b.cuh
    planted 'includes the opt-in' 'an umbrella with an opt-in file' \
        header spira.cuh spira/a.h spira/b.h spira/d.cuh spira/e.cuh
    header top/t.cuh ../b.h ../extra/g.cuh
    planted 'includes the opt-in' 'an umbrella that reaches an opt-in file through another' \
        replace '1s/^/ground extra\/*\n/' "$tree/table"
    planted 'a kernel at the top' 'a kernel at the top' kernel b.cuh
    planted clean 'a kernel in a comment' replace '1s/^/\/\/ a SPIRA_KERNEL\n/' "$tree/spira/b.cuh"
    planted 'the umbrella is missing' 'no umbrella' rm "$tree/spira.cuh"
    planted 'no layers' 'an empty table' cp /dev/null "$tree/table"
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
