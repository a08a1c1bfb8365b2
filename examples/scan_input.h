// examples/scan_input.h: what a network sees of a scan, row by row.
#ifndef SPIRA_EXAMPLES_SCAN_INPUT_H
#define SPIRA_EXAMPLES_SCAN_INPUT_H

#include "scan_file.h"

namespace scan {

// The values of a row: x, y, z in tens of metres and the intensity, or 1 where there is none.
//
// inputs:  voxel  the edge of a voxel in metres: scans of voxels
// outputs: values  [4]
SPIRA_API void scan_row_values(const scan_cloud *cloud, int64_t row, float voxel, float *values) {
    for (int c = 0; c < 3; ++c) {
        values[c] = 0.1f * (cloud->points ? cloud->points[row * cloud->columns + c]
                                          : voxel * (float)cloud->voxels[3 * row + c]);
    }
    bool intensity = cloud->points && cloud->columns > 3;
    float value = intensity ? cloud->points[row * cloud->columns + 3] : 1.0f;
    values[3] = value > 1.0f ? value / 255.0f : value; // nuScenes counts to 255
}

// The place of a row in metres. A voxel gives its middle, which falls into no other voxel.
//
// outputs: place  [3]
SPIRA_API void scan_row_place(const scan_cloud *cloud, int64_t row, float voxel, float *place) {
    for (int c = 0; c < 3; ++c) {
        place[c] = cloud->points ? cloud->points[row * cloud->columns + c]
                                 : voxel * ((float)cloud->voxels[3 * row + c] + 0.5f);
    }
}

} // namespace scan

#endif
