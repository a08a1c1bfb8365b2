// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/build/nvrtc.cpp: compiles a kernel around spira/search.h at run time, with NVRTC, for each
// compute capability that NVRTC knows of those named. No GPU is needed.
//
//     nvrtc ROOT ARCH...    ROOT: the folder that holds spira/
#include <nvrtc.h>

#include <stdio.h>
#include <string>

static const char *source = R"(
#include "spira/search.h"

extern "C" __global__ void neighbours(spira::word_layout words, spira::kernel_shape kernel,
                                      const uint64_t *voxels, int count, int32_t *map) {
    spira::search_walk<uint64_t> walk = spira::search_walk_make<uint64_t>(&words, &kernel);
    int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < count) {
        spira::search_voxel(walk, voxels, count, voxels[i], map + (int64_t)i * walk.volume);
    }
}
)";

static bool compile(const std::string &root, const std::string &arch) {
    const std::string include = "-I" + root, gpu = "-arch=sm_" + arch;
    const char *flags[] = {include.c_str(), gpu.c_str(), "-std=c++17"};
    nvrtcProgram program;
    size_t length = 0;
    if (nvrtcCreateProgram(&program, source, "neighbours.cu", 0, nullptr, nullptr)) {
        return false;
    }
    const bool good = nvrtcCompileProgram(program, 3, flags) == NVRTC_SUCCESS &&
                      nvrtcGetCUBINSize(program, &length) == NVRTC_SUCCESS && length > 0;
    size_t bytes = 0;
    nvrtcGetProgramLogSize(program, &bytes);
    std::string log(bytes, 0);
    nvrtcGetProgramLog(program, &log[0]);
    printf("search.h by NVRTC for sm_%s: %s\n%s", arch.c_str(), good ? "good" : "FAILED",
           log.c_str());
    nvrtcDestroyProgram(&program);
    return good && log.size() <= 1; // no warnings
}

int main(int argc, char **argv) {
    bool good = argc > 2;
    for (int i = 2; i < argc; ++i) {
        good = compile(argv[1], argv[i]) && good;
    }
    return good ? 0 : 1;
}
