// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/scan_scene.h: generates scans on the host, for use without a file.
//
// scan_scene_street simulates a 64-beam rotating LiDAR in a street; the seed chooses the street
// (scene_street.h). scan_scene_random scatters distinct voxels. Both use their own random numbers,
// so that a seed gives the same scan in every run. Another compiler or maths library may round the
// street differently in the last bits.
#ifndef SPIRA_EXAMPLES_SCAN_SCENE_H
#define SPIRA_EXAMPLES_SCAN_SCENE_H

#include "scan_file.h"
#include "scene_cast.h"

namespace scan {

// Generates a scan of a street by a 64-beam rotating LiDAR 1.6 to 2.1 m above the road: a sloping
// road with kerbs, fronts with windows, vehicles, trees, poles, people. The noise is 1.5 cm, the
// range 80 m. A scan has about 123 000 points in 75 000 to 98 000 voxels of 5 cm. It takes about 10
// ms on one core.
//
// inputs:  seed  chooses the street
// outputs: out     points [rows, 4]: x (ahead), y (left), z (up) in metres from the sensor,
//                  intensity 0..1, as in KITTI; sorted by azimuth. Free it by scan_free. Zeroed on
//                  failure. Its previous content is not freed.
//          labels  [rows] the scene_class of each point; free it by free. Null on failure. May be a
//                  null pointer: no labels
// errors:  status_null_pointer  "out"
//          status_workspace     no memory; detail: bytes
SPIRA_API spira::status scan_scene_street(uint32_t seed, scan_cloud *out, int32_t **labels) {
    SPIRA_REQUIRE(out, spira::status_null_pointer, "out", 0);
    memset(out, 0, sizeof *out);
    const size_t rows = scene_beams * scene_steps;
    scene *street = (scene *)malloc(sizeof *street);
    float *points = (float *)malloc(rows * 4 * sizeof(float));
    int32_t *label = (int32_t *)malloc(rows * sizeof(int32_t));
    const bool good = street && points && label;
    if (good) {
        scene_make(street, seed);
        out->points = points;
        out->columns = 4;
        out->intensity = true;
        for (int step = 0; step < scene_steps; ++step) {
            out->rows += scene_sweep(street, seed, step, points + out->rows * 4, label + out->rows);
        }
    } else {
        free(points);
    }
    if (!good || !labels) {
        free(label);
        label = nullptr;
    }
    if (labels) {
        *labels = label;
    }
    free(street);
    SPIRA_REQUIRE(good, spira::status_workspace, "bytes of memory for the scene",
                  (int64_t)(rows * 5 * 4 + sizeof *street));
    return spira::status_success();
}

SPIRA_API spira::status scan_scene_street(uint32_t seed, scan_cloud *out) {
    return scan_scene_street(seed, out, nullptr);
}

// ---- random voxels ------------------------------------------------------------------------------

// A Feistel network: a permutation of 0 .. 4^bits - 1 that needs no memory.
SPIRA_API uint64_t scene_shuffle(uint64_t index, int bits, uint32_t seed) {
    uint64_t mask = ((uint64_t)1 << bits) - 1, left = index >> bits, right = index & mask;
    for (uint64_t round = 0; round < 6; ++round) {
        uint64_t key = (uint64_t)seed << 32 | round << 28;
        uint64_t next = left ^ (scene_mix(scene_mix(key) ^ right) & mask);
        left = right;
        right = next;
    }
    return left << bits | right;
}

// Scatters distinct voxels uniformly over the box 0 .. extent - 1, in random order: the first
// voxels of a random permutation of the box. Needs no memory; the time is proportional to the
// voxels.
//
// inputs:  seed; voxels  their number; extent [3] x, y, z, each 1 or more, their product up to 2^62
// outputs: out  [voxels, 3] int32 x, y, z, distinct
// errors:  status_null_pointer  "extent" or "out"
//          status_bad_size      "voxels": negative; "extent": not as above
//          status_capacity      "extent": fewer cells than voxels; detail: voxels
SPIRA_API spira::status scan_scene_random(uint32_t seed, int64_t voxels, const int extent[3],
                                          int32_t *out) {
    SPIRA_REQUIRE(extent, spira::status_null_pointer, "extent", 0);
    SPIRA_REQUIRE(voxels >= 0, spira::status_bad_size, "voxels", voxels);
    SPIRA_REQUIRE(out || !voxels, spira::status_null_pointer, "out", 0);
    int64_t volume = 1;
    for (int axis = 0; axis < 3; ++axis) {
        SPIRA_REQUIRE(extent[axis] > 0 && volume <= ((int64_t)1 << 62) / extent[axis],
                      spira::status_bad_size, "extent", extent[axis]);
        volume *= extent[axis];
    }
    SPIRA_REQUIRE(voxels <= volume, spira::status_capacity, "extent", voxels);
    int bits = 1;
    while (bits < 31 && (int64_t)1 << (2 * bits) < volume) {
        ++bits;
    }
    for (int64_t i = 0; i < voxels; ++i) {
        uint64_t cell = (uint64_t)i;
        do { // follow the permutation until the cell is inside the box
            cell = scene_shuffle(cell, bits, seed);
        } while (cell >= (uint64_t)volume);
        out[i * 3 + 2] = (int32_t)(cell % (uint64_t)extent[2]);
        out[i * 3 + 1] = (int32_t)(cell / (uint64_t)extent[2] % (uint64_t)extent[1]);
        out[i * 3] = (int32_t)(cell / (uint64_t)extent[2] / (uint64_t)extent[1]);
    }
    return spira::status_success();
}

} // namespace scan

#endif
