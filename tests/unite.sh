#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
# tests/unite.sh: makes one source of some .cu files, each in a namespace of its own. Behind the
# headers of all, which come first and cost most of the time of a compile, those of a file are empty.
#
#     tests/unite.sh PART PARTS FILE...      part PART (from 0 on) of PARTS; about equally large ones
set -eu

part=$1 parts=$2
shift 2
files=$(ls -S "$@" | awk -v part="$part" -v parts="$parts" '(NR - 1) % parts == part')
sed -n '/^#include/p' $files | awk '!seen[$0]++'
for file in $files; do
    printf 'namespace unit_%s {\n#include "%s"\n}\n' "$(echo "${file%.cu}" | tr -c '[:alnum:]\n' _)" "$PWD/$file"
done
