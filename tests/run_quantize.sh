#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
# tests/run_quantize.sh: an int8 network that examples/quantize makes of the one that is shipped
# labels streets that neither training nor calibration has seen nearly as well; a blob made of an
# .onnx file runs with that file; make run chooses the program by what has ranges.
#
#     tests/run_quantize.sh QUANTIZE SCAN     examples/quantize.cu and scan.cu, built for the host
#
# PYTHON: a Python with NumPy, which makes the .onnx file.
#
# Last line: N passed, N failed, N skipped.
set -u

quantize=$1 scan=$2
root=$(dirname "$0")/..
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
passed=0 failed=0

judge() { # what succeeded...
    if [ "$2" = 0 ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "quantize: $1:"
        cat "$folder/said"
    fi
}

run() { # code arguments...
    code=$1
    shift
    "$quantize" "$@" >"$folder/said" 2>&1
    [ $? = "$code" ]
    judge "$*: another exit code than $code" $?
}

scan() { # code words arguments...
    code=$1 words=$2
    shift 2
    "$scan" --picture "$folder/scan.png" --voxel 0.1 --seed 114 "$@" >"$folder/said" 2>&1
    [ $? = "$code" ] && grep -qF -e "$words" "$folder/said"
    judge "scan $*: another exit code than $code, or no \"$words\"" $?
}

street="--net SpUNet-small --weights $root/examples/street.blob --voxel 0.1"
run 0 $street --seed 200 --streets 2 --check 2 --method squares --save-weights "$folder/int8.blob"
# The loss in points of mean IoU: at most 0.5.
awk '/^mean IoU:/ { loss = -$(NF - 1); found = 1 } END { exit !(found && loss <= 0.5) }' "$folder/said"
judge 'the mean IoU falls by more than 0.5 points' $?
grep -q '^features of voxels on a GPU: .* MiB in fp16, .* MiB in int8: [67][0-9] %$' "$folder/said"
judge 'the memory of features' $?
[ "$(grep -c ' int8 *int8 ' "$folder/said")" -ge 27 ] && grep -q '^conv_input\.0 .* fp32 *int8' "$folder/said"
judge 'the table of layers' $?
[ -s "$folder/int8.blob" ] && [ "$(od -An -tu4 -j8 -N4 "$folder/int8.blob" | tr -d ' ')" = 2 ]
judge 'a blob of version 2' $?
# What has ranges runs in int8, unless --type says otherwise; what runs is said.
small="--net SpUNet-small --weights $folder/int8.blob"
scan 0 'SpUNet-small in int8 (28 layers) and fp32' $small
awk -v found="$(sed -n 's/^mean IoU \([0-9.]*\):.*/\1/p' "$folder/said")" 'BEGIN { exit !(found > 0.9) }'
judge 'the mean IoU in int8' $?
scan 0 'SpUNet-small in fp32 (28 layers could be int8)' $small --type fp32
scan 2 'the weights have no ranges' --net SpUNet-small --weights "$root/examples/street.blob" --type int8
scan 1 'Is this blob for another network?' --net SpUNet-v1m1 --weights "$folder/int8.blob"
run 1 $street --streets 1 --check 1 --save-weights "$folder/int8.blob" # it is there
run 2 $street --method median --save-weights "$folder/other.blob"
run 2 $street
judge 'no word of --save-weights' "$(grep -qF -e '--save-weights is missing' "$folder/said"; echo $?)"
run 2 $street --onnx other.onnx --save-weights "$folder/other.blob"
judge 'no word of --onnx' "$(grep -qF -e '--weights: --onnx has weights' "$folder/said"; echo $?)"

makes() { # program variables...: make run chooses build/scan_PROGRAM
    program=$1
    shift
    "${MAKE:-make}" -n -C "$root" run GPU=some NVCC=nvcc ARCH=90a "$@" >"$folder/said" 2>&1
    grep -q "^build/scan_$program " "$folder/said"
    judge "make run $*: not scan_$program" $?
}

printf 'precision"\004int8' >"$folder/libspconv.onnx"
printf 'precision\030\001' >"$folder/autoware.onnx"
printf 'precision\030\000 precision"\004fp16, int8' >"$folder/plain.onnx"
makes int8 "WEIGHTS=$folder/int8.blob"
makes int8 "ARGS=--weights $folder/int8.blob"
makes int8 "ONNX=$folder/libspconv.onnx"
makes int8 "ARGS=--onnx $folder/autoware.onnx --list"
makes int8 "ONNX=$folder/plain.onnx" "WEIGHTS=$folder/int8.blob"
makes fp16 "ONNX=$folder/plain.onnx"
makes fp16 "ONNX=$folder/libspconv.onnx" "WEIGHTS=$root/examples/street.blob"
makes fp16 "ONNX=$folder/libspconv.onnx" 'ARGS=--type fp16'

skipped=0
python=${PYTHON:-python3}
if $python -c 'import numpy' 2>/dev/null; then
    awk 'BEGIN { for (i = 0; i < 300; ++i) print i % 20 + 0.5, i % 7 * 3, i % 3 * 0.5, 0.1, 0 }' >"$folder/five.xyz"
    five="--scan $folder/five.xyz" drawn="--no-check --picture $folder/five.png"
    "$scan" --net VoxelBackBone8x $five $drawn --save-weights "$folder/net.blob" >"$folder/said" 2>&1 &&
        $python -B "$root/examples/checkpoint.py" convert "$folder/net.blob" --network second \
            --onnx "$folder/net.onnx" >"$folder/said" 2>&1
    judge 'an .onnx file' $?
    run 0 --onnx "$folder/net.onnx" $five --method maximum --save-weights "$folder/five.blob"
    scan 0 'net.onnx in int8 (11 layers) and fp32' --voxel 0.075,0.075,0.2 --onnx "$folder/net.onnx" \
        --weights "$folder/five.blob" $five $drawn
    scan 1 'Is this blob for another network?' --voxel 0.075,0.075,0.2 --onnx "$folder/net.onnx" \
        --weights "$root/examples/street.blob" $five $drawn
else
    echo 'quantize: no Python with NumPy makes an .onnx file'
    skipped=4
fi
echo "$passed passed, $failed failed, $skipped skipped"
