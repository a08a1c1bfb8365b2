#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
# tests/unite.sh: makes one source of some test files, each in a namespace of its own. Behind the headers
# of all, which come first, those of a file are empty: what they cost, and the templates that the files
# share, are compiled once.
#
#     tests/unite.sh PART PARTS FILE...      part PART (from 0 on) of PARTS; about equally large ones
set -eu

part=$1 parts=$2
shift 2
files=$(wc -c "$@" | awk -v part="$part" -v parts="$parts" '
    $2 != "total" { size[NR] = $1; name[NR] = $2; all += $1 }
    END { for (i = 1; i <= NR; ++i) {
              if (int((sum + size[i] / 2) * parts / all) == part && name[i]) print name[i]
              sum += size[i] } }')
sed -n '/^#include/p' $files | awk '!seen[$0]++'
for file in $files; do
    printf 'namespace unit_%s {\n#include "%s"\n}\n' "$(echo "${file%.*}" | tr -c '[:alnum:]\n' _)" "$PWD/$file"
done
