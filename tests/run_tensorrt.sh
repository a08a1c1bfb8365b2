#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
# tests/run_tensorrt.sh: builds and tests the TensorRT plugin where its headers are: TENSORRT names
# the folder of NvInfer.h. Where LD_LIBRARY_PATH has libtensorrt_rtx.so and
# libtensorrt_onnxparser_rtx.so, TensorRT-RTX builds an engine with it. The checks of a frame are
# run without a GPU, too (dry/cudart.c). Last line: passed, failed, skipped.
set -u
cd "$(dirname "$0")/.."

lacking=
[ -e "${TENSORRT:-/usr/include}/NvInfer.h" ] || lacking='NvInfer.h (make test TENSORRT=its folder)'
[ -n "${NVCC-}" ] || lacking=nvcc
if [ -n "$lacking" ]; then
    echo "skipped tensorrt: no $lacking"
    echo '0 passed, 0 failed, 1 skipped'
    exit 0
fi
${MAKE:-make} -s tensorrt TENSORRT="${TENSORRT:-/usr/include}" NVCC="$NVCC" || {
    echo '0 passed, 1 failed, 0 skipped'
    exit 1
}
exec tests/tally.sh build/tensorrt/test \
    'LD_PRELOAD=build/tensorrt/libdry.so build/tensorrt/test --exactly tensorrt_takes_frames tensorrt_takes_autoware_s_frames'
