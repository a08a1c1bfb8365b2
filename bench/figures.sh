#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
# bench/figures.sh: measures what the tables and plots show, then fills and draws them. `make figures`.
#
#     bench/figures.sh               builds nothing: `make figures` builds the programs, then calls this
#     bench/figures.sh --programs    prints the programs that the parts need
#
# Environment:
#     FIGURES=map,conv  parts; all of them otherwise (below)
#     QUICK=1           the first scan alone, fewer sizes, layers and replays. Its figures are marked as
#                       quick and go to build/figures, never to the tables of this folder
#     FROM=folder       measures nothing: fills and draws from the .jsonl files of a folder, those of
#                       the parts if FIGURES names some
#     TO=folder         where README.md, bench/README.md and bench/figures/ are written; this folder
#                       otherwise, build/figures for quick figures
#     SCANS=files       scans to measure; otherwise kitti and lone_star in data/, and for the parts map
#                       and index nuscenes_10sweeps and the scanned room as well, where they are;
#                       for the part deployed nuscenes_10sweeps and kitti
#     ARCH=90           the programs were built for plain sm_90: their lines go to PART_sm90.jsonl and to
#                       a table and a plot of their own; the parts conv, net and deployed only
#     COMMIT=name       what the figures are stamped with; that of git otherwise
#
# The JSON lines of a part go to build/figures/full/PART.jsonl (quick: build/figures/quick), behind a
# line with the commit, the GPU and the date. A part that fails leaves its earlier lines as they are,
# and the command fails at its end.
set -u
cd "$(dirname "$0")/.." || exit

parts='map index conv widths dataflows thresholds tune cublas search minuet growth scenes generate dense net deployed ways sizes batches grad group'
quick=${QUICK:-}
[ "$quick" != 0 ] || quick=
from=${FROM:-}

plain=
[ "${ARCH:-}" != 90 ] || plain=_sm90

fail() {
    echo "figures: $*" >&2
    exit 1
}

program_of() { # part: the name behind build/bench_
    case $1 in
    dataflows | thresholds | widths) echo conv ;;
    minuet) echo search ;;
    deployed | ways | sizes | batches) echo net ;;
    *) echo "$1" ;;
    esac
}

# The command lines of a part, without the scans: one a line.
lines_of() { # part
    one=${quick:+--only 64,64,3}
    case $1 in
    conv) echo "--dataflow os ${quick:+--dtype fp16}" ;;
    widths) echo '--sweep widths --dtype fp16' ;;
    dataflows) echo "--dataflow ws --dtype fp16 $one" ;;
    thresholds) echo "--dataflow hybrid --dtype fp16 $one" ;;
    tune) echo "$one" ;;
    cublas) echo "--dtype fp16 $one" ;;
    minuet) echo '--sweep minuet' ;;
    net) echo '--only tables' ;;
    deployed) echo '--only deployed' ;;
    ways) echo '--only fig13 --only fig15' ;;
    sizes) echo '--only table4' ;;
    batches) echo '--only batches' ;;
    *) echo ;;
    esac
}

# ---- what is asked for --------------------------------------------------------------------------

[ -z "$plain" ] || parts='conv net deployed'
wanted=$(echo "${FIGURES:-$parts}" | tr ',' ' ')
for part in $wanted; do
    case " $parts " in
    *" $part "*) ;;
    *) fail "there is no part '$part' (FIGURES= takes: $parts)" ;;
    esac
done

if [ "${1-}" = --programs ]; then
    for part in $wanted; do
        echo "build/bench_$(program_of "$part")"
    done | sort -u
    exit
fi

# The files of data/ among the arguments that are there.
there() {
    for file; do
        [ ! -e "data/$file" ] || echo "data/$file"
    done
}

scans_of() { # part
    if [ -n "${SCANS:-}" ]; then
        echo "$SCANS"
    elif [ "$1" = deployed ]; then
        there nuscenes_10sweeps.pcd.bin
        [ -n "$quick" ] || there kitti00_000000_5cm.vox32
    elif [ -n "$quick" ]; then
        there kitti00_000000_5cm.vox32
    else
        there kitti00_000000_5cm.vox32 lone_star_5cm.vox32
        case $1 in
        map | index) there nuscenes_10sweeps.pcd.bin pcl_room_scan1_2cm.vox32 ;;
        esac
    fi
}

commit_of_tree() {
    name=$(git describe --always 2>/dev/null) || return
    changed=$(git status --porcelain --untracked-files=no -- . ':!README.md' ':!bench/README.md' \
        ':!bench/figures' 2>/dev/null)
    echo "$name${changed:+-dirty}"
}

# ---- measuring ----------------------------------------------------------------------------------

stamp() { # part
    printf '{"bench": "stamp", "part": "%s", "commit": "%s", "gpu": "%s", "date": "%s"%s%s}\n' "$1" \
        "$commit" "$gpu" "$(date -u +%Y-%m-%d)" "${quick:+, \"quick\": 1}" "${plain:+, \"arch\": 90}"
}

measure() { # part: its lines go to $json/part.jsonl, what it says to part.log
    file=$json/$1$plain.jsonl program=build/bench_$(program_of "$1") started=$(date +%s)
    [ -x "$program" ] || {
        echo "$1: $program is not built"
        return 1
    }
    stamp "$1" >"$file.new"
    : >"$json/$1.log"
    lines_of "$1" >"$json/lines"
    while read -r line; do
        # shellcheck disable=SC2046,SC2086
        "$program" $line ${quick:+--quick} $(scans_of "$1") >>"$file.new" 2>>"$json/$1.log" </dev/null || {
            echo "$1: $program $line failed:"
            tail -n 5 "$json/$1.log"
            return 1
        }
    done <"$json/lines"
    mv "$file.new" "$file"
    echo "$1: $(($(wc -l <"$file") - 1)) lines, $(($(date +%s) - started)) s"
}

failed=
if [ -z "$from" ]; then
    gpu=${GPU-$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -n 1)}
    gpu=${gpu#GPU [0-9]*: }
    [ -n "$gpu" ] || fail 'there is no GPU here to measure on; FROM=folder redraws from JSON lines.'
    commit=${COMMIT:-$(commit_of_tree)}
    json=build/figures/${quick:+quick}
    [ -n "$quick" ] || json=build/figures/full
    mkdir -p "$json"
    began=$(date +%s)
    [ -n "$(scans_of map)" ] || echo 'no scans in data/: the random scene stands in for them'
    for part in $wanted; do
        measure "$part" || failed="$failed $part"
    done
    rm -f "$json/lines"
    echo "measured in $(($(date +%s) - began)) s: $json"
    from=$json
fi

# ---- filling and drawing ------------------------------------------------------------------------

[ -d "$from" ] || fail "FROM=$from is no folder."
set --
for part in ${FIGURES:+$wanted}; do
    for file in "$from/$part.jsonl" "$from/${part}_sm90.jsonl"; do
        [ ! -e "$file" ] || set -- "$@" "$file"
    done
done
if [ -z "${FIGURES:-}" ]; then
    for file in "$from"/*.jsonl; do
        [ ! -e "$file" ] || set -- "$@" "$file"
    done
fi
[ $# != 0 ] || fail "there are no .jsonl files in $from${FIGURES:+ for $FIGURES}."

# Lines of a quick run among them?
marked=$(cat "$@" | grep -c '^{"bench": "stamp".*"quick": 1' || true)
[ "$marked" = 0 ] || quick=1
to=${TO:-.}
[ -z "$quick" ] || to=${TO:-build/figures}
[ -z "$quick" ] || [ "$(cd "$to" 2>/dev/null && pwd)" != "$(pwd)" ] ||
    fail 'figures of a quick run do not go into the tables here; TO=folder names another place.'
mkdir -p "$to/bench/figures"

table="-f bench/json.awk -f bench/table.awk"
for page in README.md bench/README.md; do
    # shellcheck disable=SC2086
    awk $table bench/peers.jsonl "$@" "$page" >"$to/$page.new" || fail "$page cannot be filled."
    mv "$to/$page.new" "$to/$page"
done

plot="-f bench/json.awk -f bench/plot.awk -f bench/figures.awk"
drawn=0
# shellcheck disable=SC2086
figures=$(awk -v figure=list $plot </dev/null) || fail 'bench/figures.awk does not run.'
for figure in $figures; do
    picture=$to/bench/figures/$figure.svg
    # shellcheck disable=SC2086
    awk -v figure="$figure" $plot bench/peers.jsonl "$@" >"$picture.new"
    case $? in
    0) mv "$picture.new" "$picture" && drawn=$((drawn + 1)) ;;
    3) rm -f "$picture.new" ;; # no line is about it
    *) rm -f "$picture.new" && fail "$figure.svg cannot be drawn." ;;
    esac
done
echo "tables in $to/README.md and $to/bench/README.md; $drawn plots in $to/bench/figures"
[ -z "$failed" ] || fail "these parts failed:$failed"
