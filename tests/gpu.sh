#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
# tests/gpu.sh: builds, tests, sanitizes and measures on a machine with a GPU and nvcc.
#
#     tests/gpu.sh [build] [test] [sanitize] [bench]     without a step: all, in this order
#     ARCH=90 tests/gpu.sh build test                    on Hopper: the kernels of all other GPUs
#     ARCH=90 SPIRA_SHARED=99 tests/gpu.sh build test    with the shared memory of an RTX GPU, too
#
# Environment:
#     ARCH         architecture to build for; that of the GPU otherwise
#     OUT          folder for a log of each part and the JSON lines of the benchmarks (out/gpu)
#     BENCH_ARGS   arguments of each benchmark (the scans in data/)
#     TEST_FILTER  parts of the names of the GPU tests to run (all)
#     LANES        processes that run GPU tests at a time (half as many as cores; under a sanitizer as
#                  many as cores, under synccheck as GPU memory has room for). They are shared out
#                  over all GPUs that CUDA_VISIBLE_DEVICES names (those of the machine)
#     TOOLS        sanitizers to run (memcheck initcheck racecheck synccheck)
#     LIMIT        seconds for one test under a sanitizer (600); one that takes longer is cut
#     SEEN         folder of an earlier run's *.tests: what passed there is not run again
#
# A sanitizer writes TOOL.tests, with "passed", "failed" or "cut", the seconds and the test in a line,
# and what it says of those that failed to TOOL.failed.
# Ends with a table. Fails if a part failed.
set -u
cd "$(dirname "$0")/.."

out=${OUT:-out/gpu}
mkdir -p "$out"
PATH=$PATH:/usr/local/cuda/bin
names=() results=() seconds=()

# Processes that run at a time are shared out over the GPUs; xargs numbers them.
gpus=${CUDA_VISIBLE_DEVICES:-$(nvidia-smi --query-gpu=index --format=csv,noheader 2>/dev/null | paste -sd,)}
export gpus
on_gpu() { # command...
    local gpu
    IFS=, read -ra gpu <<<"${gpus:-0}"
    CUDA_VISIBLE_DEVICES=${gpu[${SLOT:-0} % ${#gpu[@]}]} "$@"
}
export -f on_gpu

part() { # name command...: runs it, writes a log, prints the end of the log
    local name=$1 start=$SECONDS
    shift
    echo "== $name"
    "$@" >"$out/$name.log" 2>&1
    local status=$?
    if [ $status = 0 ]; then tail -n 2 "$out/$name.log"; else tail -n 40 "$out/$name.log"; fi
    names+=("$name") results+=("$status") seconds+=($((SECONDS - start)))
    return $status
}

# Runs test_gpu in several processes at a time. OpenMP's threads do not spin while they wait: the other
# processes need the cores.
spread() { # folder option lanes command...: the tests of stdin; `option` of xargs says how many at a time
    local told=$1 option=$2 lanes=$3
    shift 3
    # shellcheck disable=SC2016,SC2086
    OMP_WAIT_POLICY=passive xargs -r --process-slot-var=SLOT $option -P "$lanes" \
        bash -c 'on_gpu "$@" >"$0/$$" 2>&1 && cat "$0/$$" || { mv "$0/$$" "$0/failed.$$"; exit 1; }' \
        "$told" "$@" "$tests" --exactly
}

spread_end() { # folder status: the logs that failed; the last line is the sum of all counts
    cat "$1"/failed.* 2>/dev/null
    cat "$1"/* 2>/dev/null | awk '/^[0-9]+ passed, / { p += $1; f += $3; s += $5 }
        END { print p + 0 " passed, " f + 0 " failed, " s + 0 " skipped"
              exit p + f + s == 0 }' && [ "$2" = 0 ]
    set -- "$1" $?
    rm -rf "$1"
    return "$2"
}

# Tests that take seconds. They start first, one in a process: at the end all cores have work.
slow='gpu_forms_kernels_of_every_size gpu_forms_windows_of_32_bits gpu_order_many_maps
    gpu_conv_every_count gpu_forms_random_scenes
    gpu_exchange_every_kernel gpu_downsample_long_groups gpu_plane_scenes_32 gpu_plane_scenes_64
    gpu_downsample_shapes gpu_order_every_size gpu_exchange_every_size gpu_net_minkunet42
    gpu_conv_unaligned_pointers gpu_downsample_random_scenes gpu_conv_every_way_to_cut
    gpu_forms_real_scans gpu_hybrid_layers gpu_net_with_records
    gpu_net_graph_replays gpu_forms_kernels_of_the_largest_tiles gpu_grad_layers
    gpu_conv_random_layers_f16 gpu_downsample_strides_wider_than_the_fields gpu_forms_uneven_sets
    node_is_net_run autoware_nodes_make_what_their_file_says'

# These look at the free memory of the GPU or hold its multiprocessors, so each has it for itself.
alone='gpu_soak_one_graph gpu_soak_few_multiprocessors gpu_soak_beside_a_busy_default_stream'

tests=build/test_gpu

listed() { # the names of the tests
    # shellcheck disable=SC2086
    "$tests" --list ${TEST_FILTER-}
}

# Groups of tests, a line each: the slow ones, then five of the others. Not those that run alone.
test_groups() {
    listed | awk -v slow="$slow" -v alone="$alone" '
        BEGIN { n = split(slow, name); for (i in name) one[name[i]] = 1
                split(alone, name); for (i in name) none[name[i]] = 1 }
        $0 in none { next }
        $0 in one { print; next }
        { other[m++] = $0 }
        END { for (i = 0; i < m; ++i) printf "%s%s", other[i], i % 5 == 4 || i == m - 1 ? "\n" : " " }'
}

test_gpu() {
    local told cores status=0
    told=$(mktemp -d)
    cores=$(nproc)
    # shellcheck disable=SC2086
    [ -n "${TEST_FILTER-}" ] || printf 'no such test: %s\n' $slow $alone | grep -vFf <(listed)
    test_groups | # two threads for each process
        spread "$told" '-L 1' "${LANES:-$(((cores + 1) / 2))}" \
            env SPIRA_NEED_GPU=1 OMP_NUM_THREADS=2 || status=1
    listed | grep -xF "$(printf '%s\n' $alone)" |
        spread "$told" '-n 1' 1 env SPIRA_NEED_GPU=1 || status=1
    spread_end "$told" $status
}

# Tests under a sanitizer, in one process: it takes seconds to start. If that fails or is cut and there
# are several, each gets a process of its own.
sanitize_some() { # lists limit command... --exactly names...
    local lists=$1 limit=$2 command=() name start seconds result=passed log
    shift 2
    while [ "$1" != --exactly ]; do
        command+=("$1")
        shift
    done
    shift
    start=$(date +%s)
    log=$(on_gpu timeout -k 5 "$limit" "${command[@]}" --exactly "$@" 2>&1)
    case $? in
    0) ;;
    124 | 137) # it may have found something before
        result='cut'
        ! grep -qE '^=+ (Error|Warning|Invalid)' <<<"$log" || result=failed
        ;;
    *) result=failed ;;
    esac
    if [ "$result" != passed ] && [ $# -gt 1 ]; then
        for name; do
            sanitize_some "$lists" "$limit" "${command[@]}" --exactly "$name"
        done
        return
    fi
    [ "$result" != failed ] ||
        printf '== %s\n%s\n' "$1" "$(head -n 60 <<<"$log")" >>"$lists.failed"
    seconds=$((($(date +%s) - start) / $#))
    for name; do
        echo "$result $seconds $name" >>"$lists.tests"
    done
}
export -f sanitize_some

sanitize_gpu() { # name command...: the slow tests alone, of the others `together` in a process
    local lists=$out/$1 seen=${SEEN:+$SEEN/$1.tests}
    shift
    : >"$lists.tests"
    rm -f "$lists.failed"
    # shellcheck disable=SC2016
    listed | awk -v slow="$slow" -v seen="${seen:-/dev/null}" -v together="$together" '
            BEGIN { while ((getline line <seen) > 0)
                        if (split(line, f, " ") == 3 && f[1] == "passed") done[f[3]] = 1
                    n = split(slow, name); for (i in name) first[name[i]] = 1 }
            $0 in done { next }
            $0 in first { print; next }
            { other[m++] = $0 }
            END { for (i = 0; i < m; ++i)
                      printf "%s%s", other[i], i % together == together - 1 || i == m - 1 ? "\n" : " " }' |
        OMP_WAIT_POLICY=passive OMP_NUM_THREADS=2 xargs -r --process-slot-var=SLOT -L 1 \
            -P "${LANES:-$(nproc)}" bash -c 'sanitize_some "$0" "$@"' \
            "$lists" "${LIMIT:-600}" "$@" "$tests" --exactly
    cat "$lists.failed" 2>/dev/null
    sort -o "$lists.tests" "$lists.tests"
    awk '$1 != "passed" { print } { ++n[$1] }
        END { print n["passed"] + 0 " passed, " n["failed"] + n["cut"] + 0 " failed, 0 skipped"
              exit n["failed"] + n["cut"] > 0 || !NR }' "$lists.tests"
}

sanitize() { # tool options...: the tests at their small sizes under one tool
    local tool=$1 name=$1
    case " ${TOOLS:-memcheck initcheck racecheck synccheck} " in *" $tool "*) ;; *) return ;; esac
    shift
    # `make all` leaves out the build for racecheck.
    [ -x "$tests" ] && [ "$tests" = build/test_gpu ] ||
        part "build-$(basename "$tests")" make "$tests" ${ARCH:+ARCH=$ARCH}
    part "$name" sanitize_gpu "$name" env SPIRA_QUICK=1 SPIRA_NEED_GPU=1 "${setting[@]}" \
        compute-sanitizer --tool "$tool" --error-exitcode 1 --require-cuda-init no "$@"
}

# Processes that GPU memory has room for. With 16384 barriers each takes up to 16 GB or so: with 10
# on an H200 five of 193 tests lacked memory, with 13 eleven of 59.
synccheck_lanes() {
    local mib lanes
    mib=$(nvidia-smi --query-gpu=memory.total --format=csv,noheader,nounits | sort -n | head -n 1)
    lanes=$((mib * $(tr ',' '\n' <<<"$gpus" | wc -l) / 17000))
    echo $((lanes < 1 ? 1 : lanes < $(nproc) ? lanes : $(nproc)))
}

measure() { # benchmark: its JSON lines go to a file of their own, other output to the log
    local name
    name=$(basename "$1")
    # shellcheck disable=SC2086
    "$1" ${BENCH_ARGS-$(ls data/*.vox32 data/*.xyz32 2>/dev/null)} >"$out/$name.jsonl" &&
        grep -q '^{' "$out/$name.jsonl" && echo "$(grep -c '^{' "$out/$name.jsonl") lines"
}

for step in ${*:-build test sanitize bench}; do
    case $step in
    build)
        part build make all ${ARCH:+ARCH=$ARCH}
        ;;
    test)
        part test-host build/test_host
        part test-gpu test_gpu
        part test-calls env SPIRA_NEED_GPU=1 build/test_calls
        part test-dry build/test_dry
        [ ! -x build/test_cublas ] || part test-cublas env SPIRA_NEED_GPU=1 build/test_cublas
        part run make run ${ARCH:+ARCH=$ARCH} # compares a whole network with the host loops
        ;;
    sanitize)
        # Sentinels and poison would hide errors from the tools: memcheck needs buffers of their exact
        # size, initcheck needs memory that nothing has written.
        together=4
        setting=(SPIRA_EXACT=1)
        sanitize memcheck --leak-check full
        # initcheck does not see bulk stores (cp.async.bulk), by which maps of full rows (K = 2, and 3
        # and 5 where no compact form is) are written. So copies to the host are not checked, and what
        # kernels read of them lies in device_new_poisoned memory; in all other runs poison shows what
        # was not written.
        setting=(SPIRA_EXACT=1 SPIRA_UNPOISONED=1)
        sanitize initcheck --check-api-memory-access no
        # racecheck has a build of its own. A second run has the slow tests left, each in a process of
        # its own. Kernels of cuBLAS and CUB take minutes. No --launch-count: after the last launch
        # that is checked, Hopper's kernels fail under the tool.
        setting=() together=3 tests=build/test_race
        [ -z "${SEEN:-}" ] || together=1
        sanitize racecheck --kernel-name kns=spira
        tests=build/test_gpu together=4
        # 4096 barriers are too few for gpu_net_empty_and_single.
        LANES=${LANES:-$(synccheck_lanes)} sanitize synccheck --num-cuda-barriers 16384
        ;;
    bench)
        found=0
        for source in bench/*.cu; do
            [ -e "$source" ] || continue
            found=1
            # It is not built where there is no cuBLAS.
            [ "$source" != bench/cublas.cu ] || [ -x build/bench_cublas ] || continue
            part "bench-$(basename "$source" .cu)" measure "build/bench_$(basename "$source" .cu)"
        done
        [ $found = 1 ] || echo 'there are no benchmarks'
        ;;
    *)
        echo "usage: $0 [build] [test] [sanitize] [bench]" >&2
        exit 2
        ;;
    esac
done

echo
failed=0
for i in "${!names[@]}"; do
    verdict=passed
    [ "${results[$i]}" = 0 ] || { verdict="FAILED (${results[$i]})" && failed=$((failed + 1)); }
    printf '%-24s %5d s  %s\n' "${names[$i]}" "${seconds[$i]}" "$verdict"
done
echo "$((${#names[@]} - failed)) passed, $failed failed, 0 skipped"
[ $failed = 0 ]
