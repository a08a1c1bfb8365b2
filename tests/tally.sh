#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
# tests/tally.sh: runs test programs and adds up their counts.
#
#     tests/tally.sh COMMAND...     each argument is one command line
#
# Each command ends with a line `N passed, N failed, N skipped`; the last line here is the sum. A command
# without such a line (a crash, a failed build) counts as one failure, and so does a command that fails
# with a count of 0 failed. TALLY_SKIPPED is added to the skipped. With TALLY_JOBS above 1 so many
# commands run at a time, and each prints when it has ended.
set -u

logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
passed=0 failed=0 skipped=${TALLY_SKIPPED:-0} jobs=${TALLY_JOBS:-1}
unset TALLY_SKIPPED TALLY_JOBS

run() { # number command
    if [ "$jobs" = 1 ]; then
        { sh -c "$2" 2>&1; echo $? >"$logs/$1.rc"; } | tee "$logs/$1"
    else
        sh -c "$2" >"$logs/$1" 2>&1
        echo $? >"$logs/$1.rc"
        flock "$logs" cat "$logs/$1"
    fi
}

add() { # number command
    local count status
    status=$(cat "$logs/$1.rc")
    count=$(grep -E '^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$' "$logs/$1" | tail -n 1)
    # shellcheck disable=SC2086
    set -- "$2" ${count:-0 passed, 0 failed, 0 skipped}
    passed=$((passed + $2)) failed=$((failed + $4)) skipped=$((skipped + $6))
    if [ -z "$count" ] || { [ "$status" != 0 ] && [ "$4" = 0 ]; }; then
        echo "$1: ended with status $status and ${count:-no count}"
        failed=$((failed + 1))
    fi
}

number=0
for command; do
    while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n; done
    number=$((number + 1))
    run $number "$command" &
done
wait
number=0
for command; do
    number=$((number + 1))
    add $number "$command"
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
