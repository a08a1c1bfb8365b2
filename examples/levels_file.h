// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/levels_file.h: writes what a network has computed, layer by layer, as .npy files.
//
//   layers.txt     a line for each layer, the input first: see layer_write
//   set<S>.npy     [voxels, 4] int32: batch, x, y, z of coordinate set S, in voxels of the finest
//                  grid
//   layer<I>.npy   [voxels, channels] fp32: features of layer I, a row for each voxel of its set.
//                  The input is layer -1
//   dense<I>.npy   [batch, channels, height, width] fp32: the dense map of layer I
#ifndef SPIRA_EXAMPLES_LEVELS_FILE_H
#define SPIRA_EXAMPLES_LEVELS_FILE_H

#include "../spira/net.h"
#include "table_npy.h"

#include <stdio.h>
#include <string.h>

namespace levels {

enum { path_bytes = 1024 };

// Begins a new .npy file FOLDER/NAME<number>.npy. type: as NumPy names it
static inline spira::status file_begin(const char *folder, const char *name, int number,
                                       const char *type, const int64_t *shape, int axes,
                                       FILE **file) {
    char path[path_bytes];
    const int written = snprintf(path, sizeof path, "%s/%s%d.npy", folder, name, number);
    SPIRA_REQUIRE(written < path_bytes, spira::status_bad_size, "folder (its name is too long)",
                  written);
    const spira::status s = scan::npy_begin(path, type, shape, axes, file);
    return spira::status_failed(s) ? spira::status_make(s.code, folder, s.detail) : s;
}

// Ends a file. Errors of earlier writes are found here.
static inline spira::status file_end(FILE *file, const char *folder) {
    return scan::npy_end(file, folder);
}

template <typename W>
static spira::status set_write(const char *folder, int number, const spira::word_layout *layout,
                               spira::voxel_set<W> set) {
    const int64_t shape[2] = {*set.count, 4};
    FILE *file;
    SPIRA_TRY(file_begin(folder, "set", number, "<i4", shape, 2, &file));
    for (int64_t v = 0; v < *set.count; ++v) {
        const spira::voxel at = spira::word_unpack<W>(layout, set.words[v]);
        const int32_t row[4] = {at.batch, at.x, at.y, at.z};
        fwrite(row, sizeof row, 1, file);
    }
    return file_end(file, folder);
}

// Values of any type; those of int8 are worth `scale` each.
struct level_values {
    const void *data;
    spira::numeric type;
    float scale;
};

// Writes values as fp32.
static inline spira::status values_write(const char *folder, const char *name, int number,
                                         const int64_t *shape, int axes,
                                         const level_values *values) {
    int64_t count = 1;
    for (int a = 0; a < axes; ++a) {
        count *= shape[a];
    }
    FILE *file;
    SPIRA_TRY(file_begin(folder, name, number, "<f4", shape, axes, &file));
    for (int64_t i = 0; i < count; ++i) {
        const float value = spira::numeric_load(values->type, values->data, i) * values->scale;
        fwrite(&value, sizeof value, 1, file);
    }
    return file_end(file, folder);
}

// Writes the features of a layer, and its line of layers.txt: number, name, set, rows, channels,
// "sparse" or "dense"; then origin, stride and extent of the set's grid, each as x y z.
template <typename W>
static spira::status layer_write(const char *folder, int layer, const char *name, int set,
                                 const spira::net_result<W> *r, FILE *lines) {
    const spira::triple at = r->grid.origin, by = r->stride, n = r->grid.extent;
    const bool dense = r->height > 0;
    fprintf(lines, "%d %s %d %d %d %s  %d %d %d  %d %d %d  %d %d %d\n", layer, name, set,
            *r->set.count, r->channels, dense ? "dense" : "sparse", at.x, at.y, at.z, by.x, by.y,
            by.z, n.x, n.y, n.z);
    const int64_t rows[2] = {*r->set.count, r->channels};
    const int64_t map[4] = {r->batch, r->channels, r->height, r->width};
    const level_values values = {r->features, r->type, r->scale};
    return values_write(folder, dense ? "dense" : "layer", layer, dense ? map : rows, dense ? 4 : 2,
                        &values);
}

template <typename W>
static spira::status layers_write(const char *folder, const spira::net_plan *plan,
                                  const spira::net_run_args<W> *run, FILE *lines) {
    spira::net_result<W> input = {};
    input.set = run->input;
    input.grid = plan->set[0].grid;
    input.stride = plan->set[0].stride;
    input.features = (void *)run->features;
    input.type = plan->input_type;
    input.scale = spira::net_scale_of(plan, spira::net_input);
    input.channels = plan->limits.channels;
    SPIRA_TRY(layer_write(folder, -1, "input", 0, &input, lines));
    for (int i = 0; i < plan->layer_count; ++i) {
        const spira::net_result<W> r = spira::net_output(plan, i, run);
        if (r.features) {
            SPIRA_TRY(layer_write(folder, i, plan->layers[i].name, plan->step[i].set, &r, lines));
        }
    }
    return spira::status_success();
}

// Writes all sets, and all layers whose features a run has kept, into a folder that exists.
//
// run  its pointers are host memory
template <typename W>
static spira::status run_write(const char *folder, const spira::net_plan *plan,
                               const spira::net_run_args<W> *run) {
    char path[path_bytes];
    for (int s = 0; s < plan->sets; ++s) {
        SPIRA_TRY(set_write(folder, s, &plan->layout,
                            spira::net_voxels(plan, s, run->input, run->memory)));
    }
    snprintf(path, sizeof path, "%s/layers.txt", folder);
    FILE *lines = fopen(path, "wx");
    SPIRA_REQUIRE(lines, spira::status_file_open, folder, errno);
    const spira::status s = layers_write(folder, plan, run, lines);
    const spira::status ended = file_end(lines, folder);
    return spira::status_failed(s) ? s : ended;
}

} // namespace levels

#endif
