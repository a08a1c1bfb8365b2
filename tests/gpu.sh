#!/bin/bash
# tests/gpu.sh: builds, tests, sanitises and measures on a machine with a GPU and nvcc.
#
#     tests/gpu.sh [build] [test] [sanitize] [bench]     no step given: all, in this order
#
# Environment: OUT (out/gpu) takes a log for each part and the JSON lines of the benchmarks;
# BENCH_ARGS (the scans in data/) goes to each benchmark; TEST_FILTER picks tests for the sanitizers;
# LANES says how many processes of tests a sanitizer has at a time; ARCH is the architecture to build
# for. Ends with a table; fails if any part failed.
set -u
cd "$(dirname "$0")/.."

out=${OUT:-out/gpu}
mkdir -p "$out"
PATH=$PATH:/usr/local/cuda/bin
names=() results=() seconds=()

part() { # name command...: runs it into a log, keeps the end of the log on the screen
    local name=$1 start=$SECONDS
    shift
    echo "== $name"
    "$@" >"$out/$name.log" 2>&1
    local status=$?
    if [ $status = 0 ]; then tail -n 2 "$out/$name.log"; else tail -n 40 "$out/$name.log"; fi
    names+=("$name") results+=("$status") seconds+=($((SECONDS - start)))
    return $status
}

# A process takes seconds to begin under a sanitizer, and some tests take a minute: so a few tests to
# a process, and some processes at a time; those that fail are shown last. The host loops' threads do
# not spin while they wait, which would take the cores from the other processes.
spread() { # command...: the tests by it; ends with the sum of their counts
    local told status
    told=$(mktemp -d)
    # shellcheck disable=SC2016,SC2086
    build/test_gpu --list ${TEST_FILTER-} | OMP_WAIT_POLICY=passive xargs -r -n 4 -P "${LANES:-4}" \
        bash -c '"$@" >"$0/$$" 2>&1 && cat "$0/$$" || { mv "$0/$$" "$0/failed.$$"; exit 1; }' \
        "$told" "$@" build/test_gpu
    status=$?
    cat "$told"/failed.* 2>/dev/null
    cat "$told"/* 2>/dev/null | awk '/^[0-9]+ passed, / { p += $1; f += $3; s += $5 }
        END { print p + 0 " passed, " f + 0 " failed, " s + 0 " skipped, some of them twice"
              exit p + f + s == 0 }' && [ $status = 0 ]
    status=$?
    rm -rf "$told"
    return $status
}

sanitize() { # tool options...: the quick tests under one tool
    local tool=$1
    shift
    part "sanitize-$tool" spread env SPIRA_QUICK=1 SPIRA_NEED_GPU=1 "${setting[@]}" \
        compute-sanitizer --tool "$tool" --error-exitcode 1 --require-cuda-init no "$@"
}

measure() { # benchmark: its JSON lines, apart from what it says besides
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
        part test-gpu env SPIRA_NEED_GPU=1 build/test_gpu
        part test-calls env SPIRA_NEED_GPU=1 build/test_calls
        [ ! -x build/test_cublas ] || part test-cublas env SPIRA_NEED_GPU=1 build/test_cublas
        part run make run ${ARCH:+ARCH=$ARCH} # the main job, and what is compared there
        ;;
    sanitize)
        # Each tool sees best what the harness does not hide: true ends of buffers for memcheck,
        # memory that nothing has set for initcheck.
        setting=(SPIRA_EXACT=1)
        sanitize memcheck --leak-check full
        # initcheck does not see what the copy engine writes, and maps leave by it: what is copied to
        # the host is not looked at. Poison shows there what was not written.
        setting=(SPIRA_EXACT=1 SPIRA_UNPOISONED=1)
        sanitize initcheck --check-api-memory-access no
        setting=()
        sanitize racecheck --kernel-name kns=spira # CUB's own kernels take minutes
        sanitize synccheck --num-cuda-barriers 16384 # 32 overflow, 65536 take tens of GB
        ;;
    bench)
        found=0
        for source in bench/*.cu; do
            [ -e "$source" ] || continue
            found=1
            # Where there is no cuBLAS, it was not built.
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
