#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
# tests/run_figures.sh: tests of bench/figures.sh: measuring with stand-ins for the programs, tables and
# plots from made-up lines. The last line counts. Needs no GPU and no compiler.
set -u
cd "$(dirname "$0")/.." || exit
here=$(pwd)
box=$(mktemp -d)
trap 'rm -rf "$box"' EXIT
passed=0 failed=0

# A copy of what the scripts read, in which they may write. Nothing of the caller's choices is inherited.
unset ARCH FIGURES QUICK FROM TO SCANS COMMIT GPU
mkdir -p "$box/bench" "$box/build" "$box/lines" "$box/data"
cp "$here"/bench/*.awk "$here"/bench/figures.sh "$here"/bench/peers.jsonl "$here"/bench/README.md "$box/bench/"
cp "$here/README.md" "$box/"
cd "$box" || exit

check() { # what command...: the command must succeed
    what=$1
    shift
    if "$@" >"$box/log" 2>&1; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "figures: $what"
        tail -n 5 "$box/log"
    fi
}

has() { # file text
    grep -qF -e "$2" "$1" || { echo "$1 has no line with: $2" && false; }
}

lacks() { # file text
    ! grep -qF -e "$2" "$1"
}

says() { # text command...: the command must fail with this text, in one line
    text=$1
    shift
    if "$@" >"$box/said" 2>&1; then
        cat "$box/said"
        return 1
    fi
    has "$box/said" "$text" && [ "$(wc -l <"$box/said")" = 1 ]
}

# The lines of a table of a page.
table() { # page name
    awk -v name="$2" '/^<!-- end/ { on = 0 } on { print } $2 == "table" && $3 == name { on = 1 }' "$1"
}

same_table() { # page name: as in the page that came along
    [ "$(table "$1" "$2")" = "$(table "$here/bench/README.md" "$2")" ]
}

# ---- what is refused ----------------------------------------------------------------------------

check 'no GPU' says 'there is no GPU here' env GPU= bench/figures.sh
check 'an unknown part' says "there is no part 'maps'" env GPU= FIGURES=map,maps bench/figures.sh
check 'a folder that is not there' says 'is no folder' env FROM=nowhere bench/figures.sh
check 'a folder without lines' says 'no .jsonl files' env FROM=lines bench/figures.sh
check 'the programs of a part' [ "$(FIGURES=conv,dataflows,ways bench/figures.sh --programs | tr '\n' ' ')" = \
    'build/bench_conv build/bench_net ' ]
check 'a program for each benchmark' [ "$(bench/figures.sh --programs | sed 's/.*bench_//' | sort)" = \
    "$(cd "$here" && ls bench/*.cu | sed 's/bench.//; s/.cu//' | sort)" ]

# ---- tables -------------------------------------------------------------------------------------

kitti='"input": "kitti00_000000_5cm", "voxels": 91766'
survey='"input": "lone_star_5cm", "voxels": 345087'
gpu='"gpu": "NVIDIA Test & Co"'

stamp() { # part commit
    echo "{\"bench\": \"stamp\", \"part\": \"$1\", \"commit\": \"$2\", \"gpu\": \"NVIDIA Test\"${3-}}"
}

{
    stamp map abc1234
    echo "{\"bench\": \"map\", $kitti, \"K\": 3, \"word\": 32, \"layout\": \"os\", \"us\": 9.999, $gpu}"
    echo "{\"bench\": \"map\", $kitti, \"K\": 3, \"word\": 32, \"layout\": \"os\", \"us\": 5.125, \"target_us\": 5.5, \"limit_us\": 3.1, $gpu}"
    echo "{\"bench\": \"map\", $kitti, \"K\": 3, \"word\": 64, \"layout\": \"os\", \"us\": 6.150, $gpu}"
    echo "{\"bench\": \"map\", $kitti, \"K\": 3, \"word\": 32, \"layout\": \"ws\", \"us\": 12.5, $gpu}"
    echo "{\"bench\": \"map\", \"input\": \"wide\", \"voxels\": 777, \"K\": 3, \"word\": 64, \"layout\": \"os\", \"us\": 15.7, \"target_us\": 10, $gpu}"
    for norm in 0 1 2 3; do
        echo "{\"bench\": \"norms\", $kitti, \"K\": 3, \"t\": $norm, \"density\": $((100 / (1 + norm))).5, $gpu}"
    done
} >lines/map.jsonl
{
    stamp conv def5678
    echo "{\"bench\": \"conv\", $kitti, \"K\": 3, \"cin\": 16, \"cout\": 16, \"dtype\": \"fp16\", \"layout\": \"ordered\", \"dataflow\": \"os\", \"us\": 7.75, \"target_us\": 9, \"limit_us\": 14, $gpu}"
    echo "{\"bench\": \"conv\", $kitti, \"K\": 3, \"cin\": 16, \"cout\": 16, \"dtype\": \"bf16\", \"layout\": \"ordered\", \"dataflow\": \"os\", \"us\": 7.5, $gpu}"
    echo "{\"bench\": \"conv\", $kitti, \"K\": 3, \"cin\": 16, \"cout\": 16, \"dtype\": \"fp16\", \"layout\": \"ordered\", \"dataflow\": \"os\", \"form\": \"chosen\", \"us\": 1, $gpu}"
} >lines/conv.jsonl
{
    stamp widths def5678
    for cin in 64 68; do
        echo "{\"bench\": \"widths\", $kitti, \"K\": 3, \"cin\": $cin, \"cout\": $cin, \"dtype\": \"fp16\", \"layout\": \"ordered\", \"dataflow\": \"os\", \"us\": $((cin - 50)).25, $gpu}"
    done
} >lines/widths.jsonl
{
    stamp dataflows def5678
    echo "{\"bench\": \"conv\", $kitti, \"K\": 3, \"cin\": 16, \"cout\": 16, \"dtype\": \"fp16\", \"layout\": \"ws\", \"dataflow\": \"ws\", \"us\": 20.1, $gpu}"
} >lines/dataflows.jsonl
{
    stamp cublas def5678
    for rule in each adaptive; do
        echo "{\"bench\": \"conv\", $kitti, \"K\": 3, \"cin\": 16, \"cout\": 16, \"dtype\": \"fp16\", \"layout\": \"ws\", \"dataflow\": \"gather-gemm-scatter\", \"rule\": \"$rule\", \"padding\": 1.0500, \"launches\": 29, \"us\": 60.2, $gpu}"
    done
} >lines/cublas.jsonl
{
    stamp scenes def5678
    for voxels in 10000 100000; do
        echo "{\"bench\": \"scenes\", \"input\": \"uniform\", \"voxels\": $voxels, \"K\": 3, \"word\": 32, \"layout\": \"os\", \"method\": \"map\", \"us\": 5.0, \"ratio\": 1.000, \"pairs\": ${voxels}0, $gpu}"
        echo "{\"bench\": \"scenes\", \"input\": \"walls x\", \"voxels\": $voxels, \"K\": 3, \"word\": 32, \"layout\": \"os\", \"method\": \"map\", \"us\": 9.0, \"ratio\": $((voxels / 40000)).750, \"pairs\": ${voxels}0, $gpu}"
        echo "{\"bench\": \"scenes\", \"input\": \"half\", \"voxels\": $voxels, \"K\": 3, \"word\": 32, \"layout\": \"os\", \"method\": \"map\", \"us\": 6.0, \"ratio\": 1.200, \"pairs\": ${voxels}0, $gpu}"
    done
} >lines/scenes.jsonl
{
    stamp dense def5678
    echo "{\"bench\": \"dense\", \"input\": \"grid\", \"voxels\": 9, \"cin\": 128, \"dtype\": \"fp16\", \"word\": 32, \"layout\": \"channels last\", \"method\": \"gather\", \"us\": 8.8, $gpu}"
    echo "{\"bench\": \"join\", \"input\": \"levels\", \"voxels\": 9, \"word\": 32, \"method\": \"union\", \"us\": 7.7, $gpu}"
} >lines/dense.jsonl
{
    stamp minuet def5678
    for size in 64 256 1024; do
        echo "{\"bench\": \"minuet\", $kitti, \"K\": 3, \"word\": 32, \"method\": \"minuet\", \"B\": $size, \"C\": 512, \"us\": $((30 + size / 64 % 4)).5, $gpu}"
    done
} >lines/minuet.jsonl
{ # as the program prints them, without a stamp
    echo "{\"bench\": \"subdivide\", $kitti, \"outputs\": 91766, \"word\": 32, \"method\": \"16 to 1\", \"us\": 43.266, $gpu}"
} >lines/generate.jsonl

nuscenes='"input": "nuscenes_10sweeps.pcd", "voxels": 105086'
{
    stamp deployed eee1111
    for method in graph voxelize index features; do
        echo "{\"bench\": \"net\", $nuscenes, \"dtype\": \"fp16\", \"word\": 32, \"net\": \"VoxelBackBone8x\", \"method\": \"$method\", \"batch\": 1, \"us\": 390.4, \"bytes\": 62914560, \"index_bytes\": 31457280, \"feature_bytes\": 20971520, \"scratch_bytes\": 10485760, \"target_us\": 400, $gpu, \"arch\": \"90a\"}"
    done
    echo "{\"bench\": \"net\", $nuscenes, \"dtype\": \"fp16\", \"word\": 32, \"net\": \"VoxelNeXt\", \"method\": \"graph\", \"batch\": 1, \"us\": 600, $gpu}"
    echo "{\"bench\": \"net\", \"input\": \"wide\", \"voxels\": 777, \"dtype\": \"fp16\", \"word\": 64, \"net\": \"SpUNet-v1m1\", \"method\": \"graph\", \"batch\": 1, \"us\": 1500, $gpu}"
} >lines/deployed.jsonl

check 'lines become tables and plots' env FROM=lines TO=out bench/figures.sh
page=out/bench/README.md
check 'a row, the last line of a step, target and limit' has $page \
    '| map, K=3, os | kitti00_000000_5cm | 5.5 | 5.1 | 3.1 |'
check 'a ratio of words' has $page '| map, K=3, os | kitti00_000000_5cm | 5.1 | 6.2 | 1.20 |'
table $page indexing >indexing
check 'a stamp' has indexing 'Microseconds on one NVIDIA Test & Co, commit abc1234.'
check 'a scan of 64-bit words' has indexing '| map, K=3, os | wide, 64 bits | 10.0 | 15.7 | - |'
check 'without a ratio' has $page '| map, K=3, os | wide | - | 15.7 | - |'
check 'a table has no other rows' [ "$(grep -c '^| map' indexing)" = 3 ]
check 'sets from features are in no table' lacks indexing '43.3'
table $page features >features
check 'the stamp of another part' has features 'commit def5678.'
check 'forms of a sweep are in no table' lacks features '| 1.0 |'
check 'dataflows beside each other' has $page '| 16,16,3 | kitti00_000000_5cm | 7.8 | 20.1 |'
check 'widths' has $page '| 68,68,3 | 18.2 | - |'
check 'grouped products' has $page '| 16,16,3 | kitti00_000000_5cm | 60.2 | 60.2 | 1.05, 29 | - | - |'
check 'the worst scene of a step' has $page '| map, K=3, os | 32 | 2.75 | 1.20 | 2.75 (walls x, 100000) |'
check 'pairs per output' has $page '| pairs per output, K=3 | - | 10.0 | 10.0 | uniform: 10.0 |'
check 'block sizes' has $page '| kitti00_000000_5cm | 3 | 256, 512 | 30.5 | 64, 512 | 31.5 |'
check 'a dense map' has $page '| dense map, channels last, gather | grid | 8.8 |'
check 'a union' has $page '| union | levels | 7.7 |'
check 'densities' has $page '| kitti00_000000_5cm | 3 | 100 | 50.5 | 33.5 | 25.5 | - | - | - |'
check 'a detector beside its peer' has $page \
    '| VoxelBackBone8x | nuscenes_10sweeps.pcd | 105086 | spconv 5.15 (1.63) | 0.40 | 0.39 | 0.39 | 0.39 | 0.39 | 128 | 60 | 30 + 20 + 10 + - |'
check 'a detector without a peer' has $page '| VoxelNeXt | nuscenes_10sweeps.pcd | 105086 | - | - | 0.60 | - |'
check 'a segmenter of 64-bit words' has $page '| SpUNet-v1m1 | wide | 777 | - | - | 1.50 | - |'
table $page deployed >deployed
check 'its stamp' has deployed 'commit eee1111.'
for name in networks fig11 fig13 fig15 searches growth density tuning table4 batches; do
    check "the table $name stays" same_table $page $name
done
check 'half a table of README.md is not written' cmp README.md out/README.md
check 'the text around the tables stays' [ "$(sed '/^<!-- table/,/^<!-- end/d' $page)" = \
    "$(sed '/^<!-- table/,/^<!-- end/d' bench/README.md)" ]

# ---- plots --------------------------------------------------------------------------------------

plots=out/bench/figures
check 'the plots of these lines' [ "$(ls $plots | tr '\n' ' ')" = \
    'conv.svg dataflows.svg deployed.svg grouping.svg maps.svg minuet.svg norms.svg scenes.svg widths.svg ' ]
for plot in "$plots"/*.svg; do
    name=$(basename "$plot")
    check "$name is whole" [ "$(head -c 5 "$plot") $(tail -n 1 "$plot")" = '<svg  </svg>' ]
    check "$name closes its groups" [ "$(grep -c '<g ' "$plot")" = "$(grep -c '</g>' "$plot")" ]
    check "$name has finite places" lacks "$plot" nan
    check "$name names the GPU, escaped" has "$plot" 'NVIDIA Test &amp; Co</text>'
    check "$name has text that is escaped" [ "$(grep -c '&[^a]' "$plot")" = 0 ]
    if command -v xmllint >/dev/null; then
        check "$name is XML" xmllint --noout "$plot"
    fi
done
check 'a plot names its commit' has $plots/maps.svg 'spira abc1234, NVIDIA'
check 'a plot names no other commit' lacks $plots/maps.svg def5678
check 'a scan of 64-bit words has a panel' has $plots/maps.svg '>wide, 777 voxels, 64-bit words</text>'
check 'other scans have one panel' [ "$(grep -c 'class="panel">kitti' $plots/maps.svg)" = 1 ]
check 'an axis has its unit' has $plots/conv.svg '>microseconds</text>'
check 'other engines are hollow marks' has $plots/conv.svg '<path fill="#fff" stroke="#0072b2"'
check 'other engines are named' has $plots/maps.svg ">Spira, the authors' kernels</text>"
check 'engines without a figure here are not named' lacks $plots/conv.svg FlexGEMM
check 'detectors have a plot of their own' has $plots/deployed.svg '>spconv, busy</text>'
check 'one mark and one in the legend' [ "$(grep -c '<path fill="#d55e00"' $plots/conv.svg)" = 2 ]

# ---- code for plain sm_90 -----------------------------------------------------------------------

mkdir -p plain
cp lines/conv.jsonl plain/
{
    stamp conv bbb9999 ', "arch": 90'
    for channels in 16 64; do
        echo "{\"bench\": \"conv\", $kitti, \"K\": 3, \"cin\": $channels, \"cout\": $channels, \"dtype\": \"fp16\", \"layout\": \"ordered\", \"dataflow\": \"os\", \"us\": $channels.25, $gpu}"
    done
    echo "{\"bench\": \"net\", $kitti, \"dtype\": \"fp16\", \"word\": 32, \"net\": \"MinkUNet42\", \"method\": \"graph\", \"batch\": 1, \"us\": 4020, \"bytes\": 1048576, $gpu}"
} >plain/conv_sm90.jsonl
check 'lines of plain sm_90' env FROM=plain TO=out90 bench/figures.sh
page=out90/bench/README.md
table $page portable >portable
check 'both codes beside each other' has portable '| 16,16,3 fp16 | kitti00_000000_5cm | - | 16.2 | 7.8 | 18.0 |'
check 'a target of plain code' has portable '| 64,64,3 fp16 | kitti00_000000_5cm | 30.0 | 64.2 | - | 44.0 |'
check 'a network of plain code' has portable '| MinkUNet42 | kitti00_000000_5cm | 1900 | 4020 | - | 10940 |'
table $page features >features
check 'they are in no other table' lacks features 16.2
check 'nor among the networks' same_table $page networks
check 'nor in another plot' [ "$(ls out90/bench/figures | tr '\n' ' ')" = 'conv.svg portable.svg ' ]
check 'nor in that of layers' lacks out90/bench/figures/conv.svg bbb9999

# ---- gradients ----------------------------------------------------------------------------------

mkdir -p gradients
{
    stamp grad ccc7777
    for pass in 'input gradient, weights 2.5' 'bias gradient 3.25' 'input gradient 20.5' 'weight gradient 23.1' \
        'weight and bias gradient 24.6'; do
        echo "{\"bench\": \"grad\", $kitti, \"K\": 3, \"cin\": 64, \"cout\": 64, \"dtype\": \"fp16\", \"pass\": \"${pass% *}\", \"us\": ${pass##* }, $gpu}"
    done
} >gradients/grad.jsonl
check 'lines of gradients' env FROM=gradients TO=outgrad bench/figures.sh
table outgrad/bench/README.md gradients >gradients/table
check 'both gradients, their target, their peer' has gradients/table \
    '| 64,64,3 fp16 | kitti00_000000_5cm | 46.0 | 43.6 | 20.5 | 23.1 | 239 | 3.2 | 24.6 | 2.5 |'
check 'gradients are not in the table of indexing' same_table outgrad/bench/README.md indexing
check 'the stamp of gradients' has gradients/table 'commit ccc7777'

# ---- the table of README.md ---------------------------------------------------------------------

mkdir -p full
{
    stamp map abc1234
    for input in "$kitti" "$survey"; do
        for layout in os ws ordered; do
            echo "{\"bench\": \"map\", $input, \"K\": 3, \"word\": 32, \"layout\": \"$layout\", \"us\": 5.1, $gpu}"
        done
        echo "{\"bench\": \"sort\", $input, \"word\": 32, \"method\": \"pack+sort\", \"us\": 15.3, $gpu}"
        for channels in 16 64 128; do
            echo "{\"bench\": \"conv\", $input, \"K\": 3, \"cin\": $channels, \"cout\": $channels, \"dtype\": \"fp16\", \"layout\": \"ordered\", \"dataflow\": \"os\", \"us\": $channels.4, $gpu}"
        done
        for net in SparseResNet21 MinkUNet42; do
            echo "{\"bench\": \"net\", $input, \"dtype\": \"fp16\", \"word\": 32, \"net\": \"$net\", \"method\": \"graph\", \"batch\": 1, \"us\": 1234.5, \"bytes\": 1048576, $gpu}"
        done
    done
} >full/map.jsonl
check 'all lines of README.md' env FROM=full TO=out bench/figures.sh
check 'a row of README.md, its peers' has out/README.md \
    '| convolution, 16 to 16 channels, size 3 | 16.4 | 18 | 16.4 | 104 |'
check 'thousands of README.md' has out/README.md '| MinkUNet42, the same | 1,234 | 10,940 | 1,234 | 14,990 |'
check 'the stamp of README.md' has out/README.md 'Microseconds, fp16, on one NVIDIA Test & Co, commit abc1234.'
{
    cat lines/deployed.jsonl
    for net in VoxelBackBone8x SpMiddleResNetFHD; do
        echo "{\"bench\": \"net\", $nuscenes, \"dtype\": \"fp16\", \"word\": 32, \"net\": \"$net\", \"method\": \"graph\", \"batch\": 1, \"us\": 444, \"bytes\": 62914560, $gpu}"
    done
    echo "{\"bench\": \"net\", $kitti, \"dtype\": \"fp16\", \"word\": 32, \"net\": \"SpUNet-v1m1\", \"method\": \"graph\", \"batch\": 1, \"us\": 1444, \"bytes\": 104857600, $gpu}"
} >full/deployed.jsonl
check 'the detectors of README.md' env FROM=full TO=out bench/figures.sh
check 'a row of them' has out/README.md '| SpMiddleResNetFHD (CenterPoint), the same | 0.44 | 60 | 6.31 (2.18) | 134 |'
check 'a segmenter among them' has out/README.md \
    '| SpUNet-v1m1, voxels to features of 20 classes | 1.44 | 100 | 13.4 (6.10) | 364 |'
check 'networks beside wall and busy times' has out/bench/figures/networks.svg '>spconv, busy</text>'

# ---- parts of a folder --------------------------------------------------------------------------

check 'one part of a folder' env FROM=lines FIGURES=conv TO=part bench/figures.sh
check 'only its plots' [ "$(ls part/bench/figures)" = conv.svg ]
check 'other tables stay' same_table part/bench/README.md indexing

# ---- measuring, by stand-ins --------------------------------------------------------------------

for program in map conv net; do
    cat >"build/bench_$program" <<END
#!/bin/sh
echo "\$*" >>"$box/called"
echo '{"bench": "map", $kitti, "K": 3, "word": 32, "layout": "os", "us": 4.4, $gpu}'
END
    chmod +x "build/bench_$program"
done
: >data/kitti00_000000_5cm.vox32
: >data/lone_star_5cm.vox32
: >data/nuscenes_10sweeps.pcd.bin
cp bench/README.md before.md

check 'a quick run' env GPU='GPU 0: NVIDIA Fake' COMMIT=quick00 QUICK=1 FIGURES=map,dataflows bench/figures.sh
check 'its arguments' [ "$(tr '\n' ';' <called)" = \
    "--quick data/kitti00_000000_5cm.vox32;--dataflow ws --dtype fp16 --only 64,64,3 --quick data/kitti00_000000_5cm.vox32;" ]
check 'it leaves the tables alone' cmp bench/README.md before.md
check 'it leaves the plots alone' [ ! -e bench/figures ]
check 'its tables are marked' has build/figures/bench/README.md 'commit quick00; a quick run.'
check 'its plots are marked' has build/figures/bench/figures/maps.svg ', quick run</text>'
check 'its lines are marked' has build/figures/quick/map.jsonl \
    '"part": "map", "commit": "quick00", "gpu": "NVIDIA Fake"'
check 'quick lines do not reach the tables' says 'do not go into the tables' \
    env FROM=build/figures/quick TO=. bench/figures.sh
check 'quick lines go elsewhere by themselves' env FROM=build/figures/quick bench/figures.sh

: >called
check 'a full run' env GPU='NVIDIA Fake' COMMIT=full000 FIGURES=map,ways bench/figures.sh
check 'the arguments of a full run' [ "$(tr '\n' ';' <called)" = \
    "data/kitti00_000000_5cm.vox32 data/lone_star_5cm.vox32 data/nuscenes_10sweeps.pcd.bin;--only fig13 --only fig15 data/kitti00_000000_5cm.vox32 data/lone_star_5cm.vox32;" ]
check 'the scans of the detectors' [ "$(: >called; GPU=Fake TO=elsewhere FIGURES=deployed bench/figures.sh >log 2>&1; cat called)" = \
    '--only deployed data/nuscenes_10sweeps.pcd.bin data/kitti00_000000_5cm.vox32' ]
check 'it fills the tables' has bench/README.md '| map, K=3, os | kitti00_000000_5cm | - | 4.4 | - |'
check 'it draws the plots' has bench/figures/maps.svg full000
check 'no file is left over' [ -z "$(find . -name '*.new')" ]

printf '#!/bin/sh\necho "{\\"bench\\": \\"map\\", \\"us\\": 1}"\necho "FAILED: wrong" >&2\nexit 1\n' >build/bench_map
cp build/figures/full/map.jsonl kept
check 'a part that fails is named' sh -c '! GPU=Fake FIGURES=map,conv bench/figures.sh >said 2>&1'
check 'what it said' has said 'FAILED: wrong'
check 'the parts that failed' has said 'these parts failed: map'
check 'its earlier lines stay' cmp kept build/figures/full/map.jsonl
check 'the other parts go on' [ -e build/figures/full/conv.jsonl ]
check 'code for plain sm_90' env GPU=Fake ARCH=90 COMMIT=plain00 FIGURES=net bench/figures.sh
check 'has lines of its own' has build/figures/full/net_sm90.jsonl '"arch": 90}'
check 'and few parts' says 'takes: conv net deployed' env GPU=Fake ARCH=90 FIGURES=map bench/figures.sh
rm build/bench_map
check 'a program that is not built' sh -c 'GPU=Fake FIGURES=map bench/figures.sh 2>&1 | grep -q "is not built"'

echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" = 0 ]
