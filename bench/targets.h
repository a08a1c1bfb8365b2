// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// bench/targets.h: what spira must reach, what the machine allows, and the exact pair counts of the
// scans that these were measured on. One NVIDIA H200; fp16 features; 32-bit words, but 64-bit words
// where a scan needs them; batch 1.
#ifndef SPIRA_BENCH_TARGETS_H
#define SPIRA_BENCH_TARGETS_H

#include "../spira/config.h"

#include <string.h>

#define BENCH_TARGET_GPU "H200"

// One step on one input, in microseconds; 0: there is no such figure. `form` is the layout of a
// map, the method of a sort, the name of a network; null where there is one form only.
struct bench_target {
    const char *bench, *input, *form;
    int cin, cout, K;
    double us;
    double limit_us; // "conv": cuBLAS over just the valid pairs, already gathered
};

#define BENCH_KITTI "kitti00_000000_5cm"
#define BENCH_LONE_STAR "lone_star_5cm"
#define BENCH_NUSCENES "nuscenes_10sweeps.pcd"  // at 5 cm; needs 64-bit words
#define BENCH_DETECTOR "nuscenes_10sweeps_75mm" // the same on the grid of a detector

static const bench_target bench_targets[] = {
    {"map", BENCH_KITTI, "os", 0, 0, 3, 5.5, 0},
    {"map", BENCH_KITTI, "os", 0, 0, 5, 15, 0},
    {"map", BENCH_LONE_STAR, "os", 0, 0, 3, 14, 0},
    {"map", BENCH_LONE_STAR, "os", 0, 0, 5, 50, 0},
    {"map", BENCH_KITTI, "ws", 0, 0, 3, 10, 0},
    {"map", BENCH_KITTI, "ws", 0, 0, 5, 25, 0},
    {"map", BENCH_LONE_STAR, "ws", 0, 0, 3, 28, 0},
    {"map", BENCH_LONE_STAR, "ws", 0, 0, 5, 90, 0},
    {"map", BENCH_NUSCENES, "os", 0, 0, 3, 10, 0},
    {"map", BENCH_NUSCENES, "os", 0, 0, 5, 29, 0},
    {"map", BENCH_NUSCENES, "ws", 0, 0, 3, 17, 0},
    {"map", BENCH_NUSCENES, "ws", 0, 0, 5, 47, 0},
    {"sort", BENCH_KITTI, "pack+sort", 0, 0, 0, 30, 0},
    {"sort", BENCH_LONE_STAR, "pack+sort", 0, 0, 0, 40, 0},
    {"downsample", BENCH_KITTI, nullptr, 0, 0, 0, 20, 0},
    {"downsample", BENCH_LONE_STAR, nullptr, 0, 0, 0, 28, 0},
    {"expand", BENCH_DETECTOR, "3x3x3, s2, p1", 0, 0, 0, 15, 0},
    {"index", BENCH_KITTI, "os", 0, 0, 0, 150, 0},
    {"conv", BENCH_KITTI, nullptr, 16, 16, 3, 9, 14},
    {"conv", BENCH_KITTI, nullptr, 32, 32, 3, 11, 13},
    {"conv", BENCH_KITTI, nullptr, 64, 64, 3, 22, 25},
    {"conv", BENCH_KITTI, nullptr, 128, 128, 3, 58, 49},
    {"conv", BENCH_KITTI, nullptr, 256, 256, 3, 150, 93},
    {"conv", BENCH_KITTI, nullptr, 16, 16, 5, 40, 29},
    {"conv", BENCH_KITTI, nullptr, 32, 32, 5, 50, 33},
    {"conv", BENCH_KITTI, nullptr, 64, 64, 5, 95, 56},
    {"conv", BENCH_LONE_STAR, nullptr, 16, 16, 3, 45, 87},
    {"conv", BENCH_LONE_STAR, nullptr, 32, 32, 3, 55, 98},
    {"conv", BENCH_LONE_STAR, nullptr, 64, 64, 3, 110, 167},
    {"conv", BENCH_LONE_STAR, nullptr, 128, 128, 3, 320, 349},
    {"conv", BENCH_LONE_STAR, nullptr, 16, 16, 5, 150, 240},
    {"conv", BENCH_LONE_STAR, nullptr, 32, 32, 5, 220, 269},
    {"conv", BENCH_LONE_STAR, nullptr, 64, 64, 5, 450, 468},
    {"net", BENCH_KITTI, "SparseResNet21", 0, 0, 0, 400, 0},
    {"net", BENCH_KITTI, "SparseResNet-Large", 0, 0, 0, 1000, 0},
    {"net", BENCH_KITTI, "MinkUNet42", 0, 0, 0, 1000, 0},
    {"net", BENCH_LONE_STAR, "SparseResNet21", 0, 0, 0, 1200, 0},
    {"net", BENCH_LONE_STAR, "SparseResNet-Large", 0, 0, 0, 3200, 0},
    {"net", BENCH_LONE_STAR, "MinkUNet42", 0, 0, 0, 4000, 0},
    {"net", BENCH_NUSCENES, "VoxelBackBone8x", 0, 0, 0, 400, 0},
    {"net", BENCH_NUSCENES, "SpMiddleResNetFHD", 0, 0, 0, 500, 0},
    {"net", BENCH_KITTI, "SpUNet-v1m1", 0, 0, 0, 1500, 0},
};

// Peak memory of a network's run, in MiB.
struct bench_memory_goal {
    const char *input, *net;
    int mib;
};

static const bench_memory_goal bench_memory_goals[] = {
    {BENCH_KITTI, "MinkUNet42", 200},           {BENCH_LONE_STAR, "MinkUNet42", 500},
    {BENCH_NUSCENES, "VoxelBackBone8x", 128}, // what spconv takes
    {BENCH_NUSCENES, "SpMiddleResNetFHD", 134}, {BENCH_KITTI, "SpUNet-v1m1", 364},
};

SPIRA_API bool bench_same_text(const char *a, const char *b) {
    return !a || !b ? a == b : strcmp(a, b) == 0;
}

// The figures of a step, or null.
SPIRA_API const bench_target *bench_target_find(const char *bench, const char *input,
                                                const char *form, int cin, int cout, int K) {
    for (const bench_target &t : bench_targets) {
        if (bench_same_text(t.bench, bench) && bench_same_text(t.input, input) &&
            (!t.form || bench_same_text(t.form, form)) && t.cin == cin && t.cout == cout &&
            t.K == K) {
            return &t;
        }
    }
    return nullptr;
}

// The bytes that a network may take, or 0 where there is no such figure.
SPIRA_API int64_t bench_memory_target(const char *input, const char *net) {
    for (const bench_memory_goal &g : bench_memory_goals) {
        if (bench_same_text(g.input, input) && bench_same_text(g.net, net)) {
            return (int64_t)g.mib << 20;
        }
    }
    return 0;
}

// Writing 10, 40 and 160 MB of device memory takes 3.1, 10.0 and 36.6 us; straight lines between.
SPIRA_API double bench_write_us(double bytes) {
    double mb = bytes * 1e-6;
    return mb < 10   ? mb * (3.1 / 10)
           : mb < 40 ? 3.1 + (mb - 10) * (6.9 / 30)
                     : 10.0 + (mb - 40) * (26.6 / 120);
}

// How many pairs a submanifold kernel has on an input, or 0 where that is not known beforehand.
SPIRA_API int64_t bench_pairs_known(const char *input, int K) {
    bool kitti = bench_same_text(input, BENCH_KITTI);
    bool lone_star = bench_same_text(input, BENCH_LONE_STAR);
    bool nuscenes = bench_same_text(input, BENCH_NUSCENES);
    return kitti && K == 3       ? 346220
           : kitti && K == 5     ? 847344
           : lone_star && K == 3 ? 2533643
           : lone_star && K == 5 ? 7126043
           : nuscenes && K == 3  ? 895103
           : nuscenes && K == 5  ? 2260481
                                 : 0;
}

// How many voxels set `set` of a detector has on an input, or 0 where that is not known. Points are
// divided by the voxel's size in fp32: an engine that does so in double has 105,127 in set 0.
SPIRA_API int32_t bench_level_known(const char *input, const char *net, int set) {
    static const int32_t levels[] = {105086, 111372, 54512, 21222, 17711};
    const bool dense = bench_same_text(net, "VoxelBackBone8x") ||
                       bench_same_text(net, "SpMiddleResNetFHD") ||
                       bench_same_text(net, "BEVFusion");
    const int known = dense ? 5 : bench_same_text(net, "VoxelNeXt") ? 3 : 0; // pads set 3 otherwise
    return bench_same_text(input, BENCH_NUSCENES) && set < known ? levels[set] : 0;
}

#endif
