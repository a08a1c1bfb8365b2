// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// bench/scenes.h: generated scenes whose shape, not whose size, may slow a search down.
//
// A kernel map's search reads the sources of a tile of outputs through windows of shared memory. A
// plane with many voxels beside one with few, and voxels that are far from each other, make windows
// that are longer than usual. Each scene here has one such property; "uniform" and "crowded" have
// none. Plain C++: the host tests include this file.
#ifndef SPIRA_BENCH_SCENES_H
#define SPIRA_BENCH_SCENES_H

#include "../examples/scan_scene.h"
#include "../spira/base/integer.h"

enum scenes_kind {
    scenes_uniform,   // about 4 pairs per output for K = 3
    scenes_crowded,   // the same with about 14 pairs per output: half of the cells
    scenes_walls_x,   // one plane of 1000 to 4000 voxels, then seven of 20 to 60, and so on along x
    scenes_walls_y,   // the same along y
    scenes_walls_z,   // the same along z
    scenes_half,      // half of the voxels in one x-plane, the others uniform on both sides of it
    scenes_scattered, // single voxels over the whole range of the word
    scenes_dense,     // a dense cube
    scenes_tracks,    // thin straight tracks through a detector of 768^3 cells: nine up to 5,000
    scenes_showers, // the same, an eighth of the voxels, and showers: cones that thin out sideways
    scenes_kinds
};

static const char *const scenes_names[] = {"uniform", "crowded",   "walls x", "walls y", "walls z",
                                           "half",    "scattered", "dense",   "tracks",  "showers"};

enum {
    scenes_reach = 16, // of the layout's guard margin, and its largest stride
    scenes_wall_side = 90,
    scenes_wall_period = 8, // planes from one wall to the next
    scenes_wall_least = 1000,
    scenes_wall_spread = 3000,
    scenes_gap_least = 20,
    scenes_gap_spread = 40,
    scenes_detector = 768, // cells of a side
    scenes_track_voxels = 560,
    scenes_shower_voxels = 5000,
    scenes_shower_length = 320,
};

// The side of a cube in which each of the 26 neighbours of a voxel is there with the chance 3/26.
SPIRA_API int scenes_cube_side(int64_t voxels) {
    return (int)ceil(cbrt((double)voxels * 26 / 3));
}

// How many voxels plane `plane` of the walls has.
SPIRA_API int64_t scenes_wall_voxels(int64_t plane) {
    const uint64_t draw = scan::scene_mix((uint64_t)plane + 1);
    return plane % scenes_wall_period == 0
               ? scenes_wall_least + (int64_t)(draw % (scenes_wall_spread + 1))
               : scenes_gap_least + (int64_t)(draw % (scenes_gap_spread + 1));
}

// Planes of thousands beside planes of tens, along an axis.
SPIRA_API spira::status scenes_walls(int axis, int64_t voxels, int32_t *out) {
    const int extent[3] = {1, scenes_wall_side, scenes_wall_side};
    int64_t first = 0;
    for (int64_t plane = 0; first < voxels; ++plane) {
        const int64_t count = spira::min_of(scenes_wall_voxels(plane), voxels - first);
        SPIRA_TRY(scan::scan_scene_random((uint32_t)plane + 1, count, extent, out + first * 3));
        for (int64_t i = first; i < first + count; ++i) {
            const int32_t u = out[i * 3 + 1], v = out[i * 3 + 2];
            out[i * 3 + axis] = (int32_t)plane;
            out[i * 3 + (axis + 1) % 3] = u;
            out[i * 3 + (axis + 2) % 3] = v;
        }
        first += count;
    }
    return spira::status_success();
}

// Half of the voxels in one x-plane, every second cell of it, around a uniform cube.
SPIRA_API spira::status scenes_half_plane(int64_t voxels, int32_t *out) {
    const int64_t wall = voxels / 2, others = voxels - wall;
    const int side = scenes_cube_side(others), middle = side / 2;
    const int across = (int)spira::max_of((int64_t)ceil(sqrt(2.0 * (double)wall)), (int64_t)side);
    const int plane[3] = {1, across, across}, cube[3] = {side, side, side};
    SPIRA_TRY(scan::scan_scene_random(1, wall, plane, out));
    SPIRA_TRY(scan::scan_scene_random(2, others, cube, out + wall * 3));
    for (int64_t i = 0; i < voxels; ++i) {
        int32_t *v = out + i * 3;
        v[0] = i < wall ? middle : v[0] < middle ? v[0] : v[0] + 1; // the cube opens for the plane
        v[1] += i < wall ? 0 : (across - side) / 2;
        v[2] += i < wall ? 0 : (across - side) / 2;
    }
    return spira::status_success();
}

// The most cells of an axis that has so many bits, with a guard margin on both sides.
SPIRA_API int scenes_extent(int bits) {
    return (int)(((int64_t)1 << bits) - 2 * scenes_reach - 1);
}

// Over all cells of a word of 32 bits, or over 62 of its 64 bits.
SPIRA_API spira::status scenes_over_word(int bits, int64_t voxels, int32_t *out) {
    const bool wide = bits == 64;
    const int extent[3] = {scenes_extent(wide ? 21 : 11), scenes_extent(wide ? 21 : 11),
                           scenes_extent(wide ? 20 : 10)};
    return scan::scan_scene_random(3, voxels, extent, out);
}

// The first cells of the smallest cube that holds them, in an order of long strides.
SPIRA_API void scenes_cube(int64_t voxels, int32_t *out) {
    const int64_t step = 7919; // a prime
    int64_t side = (int64_t)ceil(cbrt((double)voxels));
    side += side * side * side < voxels;
    for (int64_t i = 0; i < voxels; ++i) {
        const int64_t cell = voxels % step ? i * step % voxels : i;
        out[i * 3] = (int32_t)(cell / (side * side));
        out[i * 3 + 1] = (int32_t)(cell / side % side);
        out[i * 3 + 2] = (int32_t)(cell % side);
    }
}

// ---- a particle detector ------------------------------------------------------------------------

// The voxels of a scene that is drawn: out [count, 3], and the numbers of their cells in a hash
// table with room for twice as many (-1: none).
struct scenes_drawing {
    int32_t *out, *cells;
    int64_t count, voxels, room; // there are; wanted; of the table
    uint64_t draws;
};

// A random number below `range`.
SPIRA_API int scenes_draw(scenes_drawing *d, int range) {
    return (int)(scan::scene_mix(++d->draws) % (uint64_t)range);
}

// Adds a voxel, unless it is outside the detector, there already, or one too many.
SPIRA_API void scenes_add(scenes_drawing *d, const int (&at)[3]) {
    int32_t cell = 0;
    for (int v : at) {
        if (v < 0 || v >= scenes_detector) {
            return;
        }
        cell = cell * scenes_detector + v;
    }
    auto place = (int64_t)(scan::scene_mix((uint64_t)cell) % (uint64_t)d->room);
    while (d->cells[place] >= 0 && d->cells[place] != cell) {
        place = (place + 1) % d->room;
    }
    if (d->cells[place] < 0 && d->count < d->voxels) {
        d->cells[place] = cell;
        memcpy(d->out + 3 * d->count++, at, sizeof at);
    }
}

// A line from one side of the detector towards the other.
SPIRA_API void scenes_track(scenes_drawing *d) {
    const int last = scenes_detector - 1;
    const int axis = scenes_draw(d, 3), begin = scenes_draw(d, last - scenes_track_voxels);
    const int from[2] = {scenes_draw(d, last), scenes_draw(d, last)};
    const int to[2] = {scenes_draw(d, last), scenes_draw(d, last)};
    for (int step = begin; step < begin + scenes_track_voxels; ++step) {
        int at[3] = {};
        at[axis] = step;
        for (int i = 0; i < 2; ++i) {
            at[(axis + 1 + i) % 3] = from[i] + (to[i] - from[i]) * step / last;
        }
        scenes_add(d, at);
    }
}

// A cone from a point in the middle of the detector: deep cells are as frequent as others, so those
// far from its tip are sparse, and so are those far from its axis.
SPIRA_API void scenes_shower(scenes_drawing *d) {
    int tip[3], along[3];
    for (int i = 0; i < 3; ++i) {
        tip[i] = scenes_detector / 4 + scenes_draw(d, scenes_detector / 2);
        along[i] = scenes_draw(d, 2001) - 1000;
    }
    const int64_t enough = spira::min_of(d->count + scenes_shower_voxels, d->voxels);
    for (int tries = 0; tries < 4 * scenes_shower_voxels && d->count < enough; ++tries) {
        const int depth = scenes_draw(d, scenes_shower_length), wide = 2 + depth / 8;
        int at[3];
        for (int i = 0; i < 3; ++i) {
            const int aside = scenes_draw(d, wide) + scenes_draw(d, wide) - wide;
            at[i] = tip[i] + along[i] * depth / 1000 + aside / 2;
        }
        scenes_add(d, at);
    }
}

// showers: with them; otherwise tracks alone
SPIRA_API spira::status scenes_detect(bool showers, int64_t voxels, int32_t *out) {
    scenes_drawing d = {out, nullptr, 0, voxels, 2 * voxels + 1, 0};
    const size_t bytes = (size_t)d.room * sizeof(int32_t);
    d.cells = (int32_t *)malloc(bytes);
    SPIRA_REQUIRE(d.cells, spira::status_workspace, "scene", (int64_t)bytes);
    memset(d.cells, 0xff, bytes);
    while (d.count < (showers ? voxels / 8 : voxels)) {
        scenes_track(&d);
    }
    while (d.count < voxels) {
        scenes_shower(&d);
    }
    free(d.cells);
    return spira::status_success();
}

// Generates a scene. All but "scattered" fit 32-bit words up to 3,000,000 voxels.
//
// inputs:  bits    32 or 64: of the words, read by scenes_scattered only
//          voxels  their number, 1 or more
// outputs: out     [voxels, 3] int32 x, y, z, distinct, none negative
// errors:  those of scan_scene_random; status_workspace  no memory; detail: bytes
SPIRA_API spira::status scenes_make(scenes_kind kind, int bits, int64_t voxels, int32_t *out) {
    const int side = scenes_cube_side(voxels), extent[3] = {side, side, side};
    const int crowded = (int)ceil(cbrt(2.0 * (double)voxels)),
              full[3] = {crowded, crowded, crowded};
    switch (kind) {
    case scenes_crowded:
        return scan::scan_scene_random(4, voxels, full, out);
    case scenes_walls_x:
    case scenes_walls_y:
    case scenes_walls_z:
        return scenes_walls(kind - scenes_walls_x, voxels, out);
    case scenes_half:
        return scenes_half_plane(voxels, out);
    case scenes_scattered:
        return scenes_over_word(bits, voxels, out);
    case scenes_dense:
        scenes_cube(voxels, out);
        return spira::status_success();
    case scenes_tracks:
    case scenes_showers:
        return scenes_detect(kind == scenes_showers, voxels, out);
    default:
        return scan::scan_scene_random(1, voxels, extent, out);
    }
}

#endif
