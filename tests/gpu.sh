#!/bin/bash
# tests/gpu.sh: builds, tests, sanitizes and measures on a machine with a GPU and nvcc.
#
#     tests/gpu.sh [build] [test] [sanitize] [bench]     without a step: all, in this order
#     ARCH=90 tests/gpu.sh build test                    on Hopper: the kernels of all other GPUs
#
# Environment:
#     ARCH         architecture to build for; that of the GPU otherwise
#     OUT          folder for a log of each part and the JSON lines of the benchmarks (out/gpu)
#     BENCH_ARGS   arguments of each benchmark (the scans in data/)
#     TEST_FILTER  names of the tests to run under the sanitizers (all)
#     LANES        processes that run under a sanitizer at a time (as many as cores)
#
# Ends with a table. Fails if a part failed.
set -u
cd "$(dirname "$0")/.."

out=${OUT:-out/gpu}
mkdir -p "$out"
PATH=$PATH:/usr/local/cuda/bin
names=() results=() seconds=()

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

# A process takes seconds to start under a sanitizer, and some tests take a minute. So each process runs
# two tests, and LANES processes run at a time; the logs of those that fail are printed last. OpenMP's
# threads do not spin while they wait: the other processes need the cores.
spread() { # command...: runs the tests under it; the last line is the sum of their counts
    local told status
    told=$(mktemp -d)
    # shellcheck disable=SC2016,SC2086
    build/test_gpu --list ${TEST_FILTER-} | OMP_WAIT_POLICY=passive xargs -r -n 2 -P "${LANES:-$(nproc)}" \
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

sanitize() { # tool options...: the tests at their small sizes under one tool
    local tool=$1
    shift
    part "sanitize-$tool" spread env SPIRA_QUICK=1 SPIRA_NEED_GPU=1 "${setting[@]}" \
        compute-sanitizer --tool "$tool" --error-exitcode 1 --require-cuda-init no "$@"
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
        part test-gpu env SPIRA_NEED_GPU=1 build/test_gpu
        part test-calls env SPIRA_NEED_GPU=1 build/test_calls
        [ ! -x build/test_cublas ] || part test-cublas env SPIRA_NEED_GPU=1 build/test_cublas
        part run make run ${ARCH:+ARCH=$ARCH} # compares a whole network with the host loops
        ;;
    sanitize)
        # Sentinels and poison would hide errors from the tools: memcheck needs buffers of their exact
        # size, initcheck needs memory that nothing has written.
        setting=(SPIRA_EXACT=1)
        sanitize memcheck --leak-check full
        # initcheck does not see bulk stores (cp.async.bulk), by which maps are written. So copies to
        # the host are not checked; in the other runs poison shows what was not written.
        setting=(SPIRA_EXACT=1 SPIRA_UNPOISONED=1)
        sanitize initcheck --check-api-memory-access no
        setting=()
        sanitize racecheck --kernel-name kns=spira # kernels of cuBLAS and CUB take minutes
        sanitize synccheck --num-cuda-barriers 16384 # 32 are too few, 65536 take tens of GB
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
