#!/bin/sh
# tests/tally.sh: runs each argument as a command and shows what it says; the last line is the sum of
# their last counts, `N passed, N failed, N skipped`. A command that ends without a count (a crash, an
# error of the build), or fails with none failed, is one failure. TALLY_SKIPPED adds to the skipped.
set -u

log=$(mktemp)
trap 'rm -f "$log" "$log.rc"' EXIT
passed=0 failed=0 skipped=${TALLY_SKIPPED:-0}
unset TALLY_SKIPPED
for command; do
    { sh -c "$command" 2>&1; echo $? >"$log.rc"; } | tee "$log"
    status=$(cat "$log.rc")
    count=$(grep -E '^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$' "$log" | tail -n 1)
    set -- ${count:-0 passed, 0 failed, 0 skipped}
    passed=$((passed + $1)) failed=$((failed + $3)) skipped=$((skipped + $5))
    if [ -z "$count" ] || { [ "$status" != 0 ] && [ "$3" = 0 ]; }; then
        echo "$command: ended with status $status and ${count:-no count}"
        failed=$((failed + 1))
    fi
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
