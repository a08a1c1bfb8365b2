// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/scan_input.h: the input features and coordinates of a scan for a network, row by row.
#ifndef SPIRA_EXAMPLES_SCAN_INPUT_H
#define SPIRA_EXAMPLES_SCAN_INPUT_H

#include "../spira/voxel.h"
#include "scan_file.h"

namespace scan {

// The features of a row: x, y, z in tens of metres, and the intensity from 0 to 1, 1 if the scan
// has none.
//
// inputs:  voxel  the edge of a voxel in metres; used for scans of voxels
// outputs: values  [4]
SPIRA_API void scan_row_values(const scan_cloud *cloud, int64_t row, float voxel, float *values) {
    for (int c = 0; c < 3; ++c) {
        values[c] = 0.1f * (cloud->points ? cloud->points[row * cloud->columns + c]
                                          : voxel * (float)cloud->voxels[3 * row + c]);
    }
    const bool intensity = cloud->points && cloud->intensity;
    const float scale = cloud->intensity_scale > 0 ? cloud->intensity_scale : 1.0f;
    values[3] = intensity ? scale * cloud->points[row * cloud->columns + 3] : 1.0f;
}

// The inputs of a network for a row: those values, and behind them further columns of the scan, or
// zeros.
//
// inputs:  raw  all columns of points as they are in the file, or zeros
// outputs: values  [channels]
SPIRA_API void scan_row_inputs(const scan_cloud *cloud, int64_t row, float voxel, bool raw,
                               int channels, float *values) {
    float first[4];
    scan_row_values(cloud, row, voxel, first);
    const int own = raw && cloud->points ? 0 : 4;
    for (int c = 0; c < channels; ++c) {
        const bool more = c >= own && cloud->points && c < cloud->columns;
        values[c] = c < own ? first[c] : more ? cloud->points[row * cloud->columns + c] : 0;
    }
}

// Removes the points outside of a range. Returns their number. Without `source`, the rows of the
// file are not known behind it.
//
// inputs:  range  its size, origin and extent: of spira::voxel_range
SPIRA_API int64_t scan_cut(scan_cloud *cloud, const spira::voxel_input *range) {
    const int extent[3] = {range->extent.x, range->extent.y, range->extent.z};
    int64_t kept = 0;
    for (int64_t i = 0; i < cloud->rows; ++i) {
        const float *p = cloud->points + i * cloud->columns;
        bool inside = true;
        for (int a = 0; a < 3; ++a) {
            int at;
            inside = inside && spira::voxel_quantise(p[a], range->origin[a], range->size[a], &at) &&
                     at >= 0 && at < extent[a];
        }
        if (inside) {
            memmove(cloud->points + kept * cloud->columns, p,
                    (size_t)cloud->columns * sizeof(float));
            if (cloud->source) {
                cloud->source[kept] = cloud->source[i];
            }
            ++kept;
        }
    }
    const int64_t cut = cloud->rows - kept;
    cloud->rows = kept;
    return cut;
}

// Exchanges x and y of all points.
SPIRA_API void scan_exchange(scan_cloud *cloud) {
    for (int64_t i = 0; i < cloud->rows; ++i) {
        float *p = cloud->points + i * cloud->columns, x = p[0];
        p[0] = p[1];
        p[1] = x;
    }
}

// The coordinates of a row in metres. A voxel gives its centre, which rounding cannot move into
// another voxel.
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
