// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/engine_frames.h: the scans of an engine: from the names of files and folders to rows in
// host memory. A scan that cannot be read is named, with the reason, and left out.
#ifndef SPIRA_EXAMPLES_ENGINE_FRAMES_H
#define SPIRA_EXAMPLES_ENGINE_FRAMES_H

#include "scan_input.h"
#include "scan_range.h"
#include "scan_side.h"

#include <algorithm>
#include <dirent.h>
#include <string>
#include <vector>

namespace engine {

// A scan in host memory.
struct frame {
    std::string path;
    int32_t count;
    std::vector<float> rows; // [count, row_columns], and one row more
    int64_t outside;         // points beyond the range of the network, which are left out
    int64_t no_return;       // rows of the file without a position, which are left out
};

// Columns of a row: x, y, z, and the values of the network.
static int row_columns(const networks::network *net) {
    return 3 + net->input_channels;
}

// A frame without points, in memory that is there.
static inline frame frame_none(const networks::network *net) {
    frame f = {};
    f.rows.resize((size_t)row_columns(net));
    return f;
}

// Adds the scans of a folder, sorted by name. A path that is no folder is taken for a scan.
static void paths_add(const char *path, std::vector<std::string> *paths) {
    DIR *folder = opendir(path);
    if (!folder) {
        paths->push_back(path);
        return;
    }
    size_t first = paths->size();
    while (const dirent *entry = readdir(folder)) {
        if (scan::scan_is_known(entry->d_name) && !scan::scan_is_text(entry->d_name)) {
            paths->push_back(std::string(path) + "/" + entry->d_name);
        }
    }
    closedir(folder);
    std::sort(paths->begin() + (ptrdiff_t)first, paths->end());
}

// Makes a frame of a scan, which loses the points beyond the range.
static inline spira::status frame_make(const networks::network *net, const side::options *o,
                                       scan::scan_cloud *cloud, frame *f) {
    const bool raw = side::values_are_raw(o, net);
    f->no_return = cloud->dropped;
    SPIRA_TRY(side::range_cut(net, cloud, &f->outside));
    f->count = (int32_t)cloud->rows;
    f->rows.resize((size_t)((cloud->rows + 1) * row_columns(net)));
    for (int64_t i = 0; i < cloud->rows; ++i) {
        float *row = f->rows.data() + i * row_columns(net);
        scan::scan_row_place(cloud, i, net->voxel[0], row);
        scan::scan_row_inputs(cloud, i, net->voxel[0], raw, net->input_channels, row + 3);
        if (net->exchange_xy) { // the values keep their order
            std::swap(row[0], row[1]);
        }
    }
    return spira::status_success();
}

// Reads a scan. A file without rows is a valid frame without points.
static spira::status frame_read(const networks::network *net, const side::options *o, frame *f,
                                scan::scan_reason *why) {
    scan::scan_cloud cloud;
    spira::status s = scan::scan_read(f->path.c_str(), &o->file, &cloud, why);
    if (spira::status_failed(s) && s.code != spira::status_file_empty) {
        return s;
    }
    s = frame_make(net, o, &cloud, f);
    scan::scan_free(&cloud);
    return s;
}

// Reads a scan. False: it cannot be read, and standard error says why.
static inline bool frame_take(const networks::network *net, const side::options *o, frame *f) {
    scan::scan_reason why = {};
    char text[256];
    const spira::status s = frame_read(net, o, f, &why);
    if (spira::status_failed(s)) {
        if (s.subject == why.text) { // names the file
            fprintf(stderr, "left out: %s\n", why.text);
        } else {
            fprintf(stderr, "left out: %s: %s\n", f->path.c_str(),
                    spira::status_text(s, text, sizeof text));
        }
    }
    return !spira::status_failed(s);
}

// Reads the scans that can be read. *bad: the number of the others.
static inline std::vector<frame> frames_take(const networks::network *net, const side::options *o,
                                             const std::vector<std::string> &paths, int64_t *bad) {
    std::vector<frame> frames;
    for (const std::string &path : paths) {
        frame f = {};
        f.path = path;
        if (frame_take(net, o, &f)) {
            frames.push_back(std::move(f));
        } else {
            ++*bad;
        }
    }
    return frames;
}

} // namespace engine

#endif
