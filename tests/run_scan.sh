#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
# tests/run_scan.sh: tests what the examples that draw print, and which arguments they refuse.
#
#     tests/run_scan.sh SCAN GENERATE      examples/scan.cu and generate.cu, built for the host
#
# Last line: N passed, N failed, N skipped.
set -u

scan=$1 generate=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
passed=0 failed=0

judge() { # what succeeded...
    if [ "$2" = 0 ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "scan: $1:"
        cat "$folder/said"
    fi
}

run() { # code arguments...
    code=$1
    shift
    "$scan" --picture "$folder/scan.png" "$@" >"$folder/said" 2>&1
    [ $? = "$code" ]
    judge "$*: another exit code than $code" $?
}

says() { # words...: each of them is there
    for words; do
        grep -qF -e "$words" "$folder/said"
        judge "no \"$words\"" $?
    done
}

# The network that is shipped labels a street that training has not seen; with random weights it does
# not. Five lines, and a picture.
root=$(dirname "$0")/..
iou() { # awk's comparison of the mean IoU with a number
    awk -v found="$(sed -n 's/^mean IoU \([0-9.]*\):.*/\1/p' "$folder/said")" "BEGIN { exit !(found $1) }"
    judge "the mean IoU is not $1" $?
}
street='--net SpUNet-small --voxel 0.1 --seed 114'
run 0 $street --weights "$root/examples/street.blob"
says "reference, not the product's speed" 'street.blob' ' person 0.' 'picture:'
iou '> 0.91'
[ "$(wc -l <"$folder/said")" = 5 ] && ! grep -q 'of no layer' "$folder/said"
judge 'other than five lines, or entries that the network does not take' $?
[ "$(od -An -tu1 -j16 -N4 "$folder/scan.png" | tr -d ' ')" = 004176 ] # 1200
judge 'the width of the picture' $?
[ "$(wc -c <"$folder/scan.png")" -lt 300000 ] && [ "$(wc -c <"$root/examples/street.blob")" -lt 2000000 ]
judge 'the size of the picture or of the blob' $?
run 0 $street
iou '< 0.3'

# Nothing for a terminal, a legend, and no kernel in the row of the dense map.
run 0 --net VoxelBackBone8x --seed 3 --layers
says 'weights: random (seed 3)' 'range: -54 -54 -5 to 54 54 3 m' 'voxel 0.075 0.075 0.2 m' \
    'K: kernel offsets; pairs:' 'density:' 'index (coordinate sets' 'product' \
    "output: bird's-eye map [1, 256, 180, 180]"
awk '$1 == "dense" && NF == 6 { ++dense }
     $1 == "conv_out.0" && NF == 9 { ++conv }
     END { exit dense != 1 || conv != 1 }' "$folder/said"
judge 'the columns of a layer' $?
! tr -d '\n -~' <"$folder/said" | grep -q .
judge 'characters for a terminal' $?

# Other data sets than nuScenes.
kitti='--range 0,-40,-3,70.4,40,1 --voxel 0.05,0.05,0.1'
run 0 --net VoxelBackBone8x $kitti
says 'range: 0 -40 -3 to 70.4 40 1 m' 'voxel 0.05 0.05 0.1 m' "bird's-eye map [1, 256, 200, 176]"
run 0 --net BEVFusion $kitti
says "bird's-eye map [1, 256, 176, 200]"
run 0 --net SpMiddleResNetFHD --range -75.2,-75.2,-2,75.2,75.2,4 --voxel 0.1,0.1,0.15
says "bird's-eye map [1, 256, 188, 188]"
run 0 --net SparseResNet21 --voxel 0.5
says 'voxel 0.5 m' 'output: [484 voxels, 128]'

# What is refused, and by which words.
run 2 --net MinkUNet42 --range 0,-40,-3,70.4,40,1
says '--range: MinkUNet42 has none'
run 2 --net MinkUNet42 --voxel 0.05,0.05,0.1
says '--voxel: MinkUNet42 has cubic voxels'
run 2 --net VoxelBackBone8x --range 0,40,-3,70.4,-40,1
says 'range: 40 to -40 m along y, voxels of 0.075 m: range (has no voxel'
run 2 --net VoxelBackBone8x --range 500000,5400000,0,500070,5400080,4 --voxel 0.1
says 'along y, voxels of 0.1 m: size (below the step of float there'
run 2 --channels 5000
says '--channels does not take 5000, but 1 to 4096'
run 2 --type fp16
says '--type fp16: this program computes in fp32 and int8 alone'
run 2 --net VoxelBackBone8x --range 0,-40,0,70.4,40,0.4
says 'an extent of 939 x 1067 x 3, which VoxelBackBone8x cannot have' 'layer conv4.0.0:'
run 2 --net VoxelNeXt --range 0,0,0,5e4,5e4,5e4 --voxel 0.01
says 'do not fit a 64-bit word'
run 2 --range 0,0,0,1,1
says '--range does not take 0,0,0,1,1' 'scan --help lists the options'
[ "$(wc -l <"$folder/said")" = 2 ]
judge 'a message that is hidden by others' $?
run 2 --net voxelnext
says '--net voxelnext: there is no such network' 'VoxelNeXt, VoxelNeXt-Large' 'SpUNet-small'
run 2 --net VoxelNeXt --classes 4
says '--classes is for SpUNet-v1m1 and SpUNet-small, not for VoxelNeXt'
run 0 --help
says 'usage: scan' 'NAME: MinkUNet42'
run 2 --voxel -1
says '--voxel does not take -1'
run 2 --frobnicate
says "--frobnicate: no such option"
run 2 --seed 4294967296
says '--seed does not take 4294967296, but 0 to 4294967295'
run 2 --seed -1
says '--seed does not take -1'
run 2 --onnx some.onnx --net VoxelNeXt
says '--net VoxelNeXt: some.onnx has the network'
printf '\10\7\72\377\377\3' >"$folder/cut.onnx" # a graph of 65535 bytes follows
run 1 --onnx "$folder/cut.onnx"
says "$folder/cut.onnx: " 'cut short'
run 1 --weights "$0"
says "reading the weights of $0: blob: it does not start"
run 1 --records "$0" --voxel 0.5
says "reading the records of $0: "
run 1 --weights "$folder/none.blob"
says "reading the weights: $folder/none.blob: a file that cannot be opened" 'No such file'

# Layers of a file: norms, groups, children, pruning, and a set that a kernel generates.
awk 'BEGIN { for (i = 0; i < 400; ++i) print i % 20 * 0.1, int(i / 20) * 0.1, i % 7 * 0.1 }' >"$folder/s.xyz"
cat >"$folder/grow.layers" <<'E'
spira layers 1
input channels=4
conv name=down source=input channels=16 size=2,2,2 stride=2,2,2 norm
norm_layer name=norm source=down epsilon=1e-5 norm act=silu
group name=each source=norm channels=16 groups=16 size=3,3,3 bias residual=down
conv name=logits source=each channels=8 size=1,1,1
children name=all source=each source2=logits threshold=-1e9 or_equal capacity=3200
norm_rms name=rms source=all epsilon=1e-6
norm_groups name=even source=rms groups=2 epsilon=1e-5 norm act=relu residual=rms
conv name=score source=even channels=2 size=3,3,3
conv name=wide source=each channels=4 size=3,3,3 stride=2,2,2 transposed rule=generate
prune name=some source=rms source2=score channel=1 most=33
conv name=last source=some channels=8 size=3,3,3 bias
E
small="--scan $folder/s.xyz --voxel 0.1 --net $folder/grow.layers"
run 0 $small
says 'output: [33 voxels, 8]'
run 0 $small --layers
sum=$(awk '$1 == "down" { down = $4 } $1 == "all" { all = $4 } $1 == "wide" { wide = $4 }
           END { print (all == 8 * down && wide > all) }' "$folder/said")
[ "$sum" = 1 ]
judge 'the children of all voxels, and what a kernel of 3 generates' $?
cat >"$folder/flat.layers" <<'E'
spira layers 1
input channels=4 extent=20,20,11 batch=1
conv name=body source=input channels=8 size=3,3,3
join name=flat source=body axis=z
conv name=last source=flat channels=8 size=3,3,1
dense name=map source=last
E
run 0 --scan "$folder/s.xyz" --net "$folder/flat.layers" --range 0,0,0,2,2,1 --voxel 0.1
says "output: bird's-eye map [1, 8, 20, 20]"
fault() { # a line, then what is said of it
    { head -n 4 "$folder/grow.layers" && echo "$1"; } >"$folder/fault.layers"
    run 1 --scan "$folder/s.xyz" --voxel 0.1 --net "$folder/fault.layers"
    says "$2"
}
fault 'prune name=p source=norm' 'layer p: source2 (there are no scores)'
fault 'children name=c source=norm repeat=-1' 'line 5: repeat=-1: 1 numbers from 0 to 1048576'
fault 'conv name=c source=norm channels=4 size=3,3,3 rule=grow' 'line 5: rule=grow is not known'
fault 'join name=j source=norm axis=w' 'line 5: axis=w is not known'
fault 'norm_layer name=n source=norm epsilon=' 'line 5: epsilon= is no number'
fault 'norm_layer name=n source=norm' 'layer n: epsilon (above 0)'
fault 'norm_groups name=n source=norm groups=3 epsilon=1' 'layer n: groups (they divide'
fault 'conv name=c source=norm channels=4 size=1,1,1 groups=2' 'layer c: groups'
fault 'group name=g source=norm channels=4 groups=3 size=3,3,3' 'layer g'
fault 'generate name=g source=norm' 'line 5: generate is no operation'
{ head -n 4 "$folder/grow.layers" && printf '\0' && tail -n +5 "$folder/grow.layers"; } >"$folder/fault.layers"
run 1 --scan "$folder/s.xyz" --voxel 0.1 --net "$folder/fault.layers"
says "$folder/fault.layers: has bytes of 0"

rm "$folder/scan.png"
# A shape that grows: its sets are those of the rule, or it fails.
scan=$generate
run 0 --side 64
says '64, 208, 544, 2440, 9712 at strides 16 to 1' 'host loops' 'picture:'
[ "$(od -An -c -j1 -N3 "$folder/scan.png" | tr -d ' ')" = PNG ]
judge 'the picture of the shape' $?
run 0 --side 96 --shape 64
says '64, 208, 544, 2440, 9712 at strides 16 to 1' 'grid of 96^3'
run 0 --help
says 'usage: generate' '--channels: of the coarsest level, 128 to 1024'
run 2 --side 63
says '--side does not take 63, but 64 to 1024 in steps of 16' 'generate --help lists the options'
run 2 --side 64x
says '--side does not take 64x'
run 2 --shape 68 --side 64
says '--shape does not take 68, but 64 to 64 in steps of 4'
run 2 --channels 64
says '--channels does not take 64, but 128 to 1024 in steps of 128'
run 2 --shape
says '--shape: no such option, or its value is missing'
run 2 --frobnicate 1
says '--frobnicate is no option'
run 1 --side 64 --weights "$root/examples/street.blob"
says "reading the weights of $root/examples/street.blob: layer "
run 1 --side 64 --weights "$folder/none.blob"
says "$folder/none.blob: a file that cannot be opened" 'No such file'

echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" = 0 ]
