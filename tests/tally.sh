#!/bin/sh
# tests/tally.sh: runs test programs and adds up their counts.
#
#     tests/tally.sh COMMAND...     each argument is one command line
#
# Each command ends with a line `N passed, N failed, N skipped`; the last line here is the sum. A command
# without such a line (a crash, a failed build) counts as one failure, and so does a command that fails
# with a count of 0 failed. TALLY_SKIPPED is added to the skipped.
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
