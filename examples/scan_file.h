// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/scan_file.h: reads a scan from a file, on the host.
//
// The suffix of the path, in capitals or not, gives the format:
//   .pcd.bin              nuScenes  float32 x, y, z, intensity, ring
//   .bin                  float32 x, y, z and what scan_options.columns says (KITTI: 4)
//   .xyz32                points    float32 x, y, z
//   .vox32                voxels    int32 x, y, z, in any order
//   .npy, .npz            NumPy     table_npy.h; integers are voxels
//   .pcd                  PCL       table_pcd.h
//   .ply                            table_ply.h: the vertices
//   .las                            table_las.h
//   .xyz .txt .csv .asc .pts        table_text.h
// The first four are little-endian, have no header, and their size must fit. LAZ, E57, pcap and
// bags are refused with what converts them.
//
//   scan::scan_cloud cloud;
//   scan::scan_options options = {};
//   scan::scan_reason why;
//   options.columns = 4; // of a .bin file
//   SPIRA_TRY(scan::scan_read("data/kitti00_000000.bin", &options, &cloud, &why));
//   ... cloud.points [cloud.rows, cloud.columns] ...
//   scan::scan_free(&cloud);
//
// Coordinates are read as double. Where they lie more than 8192 m from 0 (maps in UTM), a multiple
// of 100 m is taken away before they become float, whose steps would be millimetres there and half
// a metre at 5,000 km. It is near the least of them, or near their median where a few lie far from
// the rest: rows at 0, 0, 0 among others in UTM, or 65,535 m around a sensor.
#ifndef SPIRA_EXAMPLES_SCAN_FILE_H
#define SPIRA_EXAMPLES_SCAN_FILE_H

#include "../spira/numeric.h"
#include "../spira/status.h"
#include "table_las.h"
#include "table_npy.h"
#include "table_pcd.h"
#include "table_ply.h"
#include "table_text.h"

namespace scan {

// A scan of points or of voxels. All zero is the empty scan, which owns no memory.
struct scan_cloud {
    int64_t rows;
    int columns;     // of points: 3 + feature columns; of voxels: 3
    float *points;   // [rows, columns] x, y, z in metres less the origin, features; null for voxels
    int32_t *voxels; // [rows, 3] x, y, z; null for points
    double origin[3];      // metres that were taken away from x, y, z
    bool intensity;        // column 3 is the intensity
    float intensity_scale; // brings it to 0 .. 1; 0 is read as 1
    int64_t dropped;       // rows whose x, y or z is no finite number: no return; they are left out
    int64_t rounded;       // rows so far from the origin that float has steps of centimetres there
    int64_t zeroed;        // values of further columns that are not finite: they are 0
    int64_t *source;       // [rows] the row of the file; null if none was dropped
};

// What the columns of an array of four or more integers are.
enum scan_indices {
    scan_indices_ask, // nothing was said: such a file is refused
    scan_indices_xyz,
    scan_indices_bxyz, // a batch index, which must be the same in all rows, x, y, z
    scan_indices_bzyx,
};

// What a file does not say. All zero: nothing was said.
struct scan_options {
    int columns;          // of .bin: values of a point
    scan_indices indices; // of integers in four columns or more
    bool exact;           // no origin is taken away
};

// Frees the memory of a scan and zeroes it. A null pointer or a second call does nothing.
SPIRA_API void scan_free(scan_cloud *cloud) {
    if (cloud) {
        free(cloud->points);
        free(cloud->voxels);
        free(cloud->source);
        memset(cloud, 0, sizeof *cloud);
    }
}

// ---- formats ------------------------------------------------------------------------------------

SPIRA_API bool scan_has_suffix(const char *path, const char *suffix) {
    const size_t length = strlen(path), tail = strlen(suffix);
    return length >= tail && table_same_name(path + length - tail, suffix);
}

// A format without a header.
struct scan_raw {
    const char *suffix;
    value_type type;
    int columns; // 0: scan_options says
};

// The format of a suffix; null: it is none of these.
SPIRA_API const scan_raw *scan_raw_find(const char *path) {
    static const scan_raw formats[] = {{".pcd.bin", value_f4, 5},
                                       {".bin", value_f4, 0},
                                       {".xyz32", value_f4, 3},
                                       {".vox32", value_i4, 3}};
    for (const scan_raw &f : formats) {
        if (scan_has_suffix(path, f.suffix)) {
            return &f;
        }
    }
    return nullptr;
}

// A format with a header.
struct scan_format {
    const char *suffix;
    spira::status (*read)(const char *path, table *t, scan_reason *why);
};

// The format of a suffix; null: it is none of these.
SPIRA_API const scan_format *scan_format_find(const char *path) {
    static const scan_format formats[] = {
        {".npy", npy_read},  {".npz", npz_read},  {".pcd", pcd_read},  {".ply", ply_read},
        {".las", las_read},  {".xyz", text_read}, {".txt", text_read}, {".csv", text_read},
        {".asc", text_read}, {".pts", text_read}};
    for (const scan_format &f : formats) {
        if (scan_has_suffix(path, f.suffix)) {
            return &f;
        }
    }
    return nullptr;
}

// Whether a file is of rows of text, which notes are, too: not taken from folders.
SPIRA_API bool scan_is_text(const char *path) {
    const scan_format *format = scan_raw_find(path) ? nullptr : scan_format_find(path);
    return format && format->read == text_read;
}

// Whether scan_read knows the suffix.
SPIRA_API bool scan_is_known(const char *path) {
    return scan_raw_find(path) || scan_format_find(path);
}

// Refuses a file of an unknown suffix, with what converts it.
SPIRA_API spira::status scan_refuse_suffix(const char *path, scan_reason *why) {
    static const char *const converts[][2] = {
        {".laz", "laszip, or pdal translate FILE.laz FILE.las"},
        {".copc", "pdal translate FILE.copc.laz FILE.las"},
        {".e57", "pdal translate FILE.e57 FILE.las, or CloudCompare"},
        {".pcap", "the sensor's own tool, or VeloView, to .pcd or .csv"},
        {".bag", "rosrun pcl_ros bag_to_pcd"},
        {".db3", "ros2 run pcl_ros bag_to_pcd"},
        {".mcap", "ros2 run pcl_ros bag_to_pcd"},
        {".h5", "numpy.save of its array"},
        {".pt", "numpy.save of its array"},
        {".pkl", "numpy.save of its array"},
        {".obj", "meshio or Open3D to .ply"},
        {".stl", "points sampled from it, by Open3D, to .ply"}};
    for (const auto &c : converts) {
        if (scan_has_suffix(path, c[0])) {
            return scan_refuse(why, spira::status_unsupported, path,
                               "this format is not read: convert it with %s", c[1]);
        }
    }
    return scan_refuse(why, spira::status_unsupported, path,
                       "the suffix is none of .bin .pcd.bin .npy .npz .pcd .ply .las .xyz .txt "
                       ".csv .asc .pts .xyz32 .vox32");
}

// Makes the columns of a format without a header.
SPIRA_API spira::status scan_raw_read(const char *path, const scan_raw *format, int columns,
                                      table *t, scan_reason *why) {
    columns = format->columns ? format->columns : columns;
    SCAN_REQUIRE(columns, why, spira::status_bad_size, path,
                 "a .bin file does not say how many values a point has: give --columns (KITTI has "
                 "4, nuScenes 5, Waymo and radar 5 to 7, indoor scans 6)");
    SCAN_REQUIRE(columns >= 3 && columns <= table_columns_most, why, spira::status_bad_size, path,
                 "%d columns; 3 to %d are allowed", columns, (int)table_columns_most);
    const int64_t size = value_bytes(format->type), record = size * columns;
    SCAN_REQUIRE(t->bytes % record == 0, why, spira::status_file_format, path,
                 "its %lld bytes are no whole rows of %d values of 4 bytes: cut short, or other "
                 "columns",
                 (long long)t->bytes, columns);
    t->rows = t->bytes / record;
    for (int c = 0; c < columns; ++c) {
        SPIRA_TRY(table_add(t, "", 0, format->type, c * size, record));
    }
    return spira::status_success();
}

// Reads a file into a table.
SPIRA_API spira::status scan_table_read(const char *path, const scan_options *options, table *t,
                                        scan_reason *why) {
    const scan_raw *raw = scan_raw_find(path);
    const scan_format *format = raw ? nullptr : scan_format_find(path);
    if (!raw && !format) {
        return scan_refuse_suffix(path, why);
    }
    SPIRA_TRY(table_load(path, t, why));
    SCAN_REQUIRE(t->bytes < 24 || memcmp(t->data, "version https://git-lfs", 23) != 0, why,
                 spira::status_file_format, path,
                 "is a pointer of Git LFS, not the file: run git lfs pull");
    SPIRA_TRY(raw ? scan_raw_read(path, raw, options->columns, t, why)
                  : format->read(path, t, why));
    SCAN_REQUIRE(t->rows > 0, why, spira::status_file_empty, path, "no rows");
    SCAN_REQUIRE(t->rows <= INT32_MAX, why, spira::status_bad_size, path,
                 "%lld rows; at most 2^31 - 1", (long long)t->rows);
    return spira::status_success();
}

// ---- columns ------------------------------------------------------------------------------------

// The columns of a table in the order of a scan: x, y, z, the intensity if there is one, the
// others.
struct scan_order {
    int *column; // [columns]
    int columns;
    bool intensity;
};

// The columns by their names, or as they stand where they have none.
SPIRA_API spira::status scan_order_find(const char *path, const table *t, scan_order *order,
                                        scan_reason *why) {
    static const char *const axes[3][2] = {{"x", nullptr}, {"y", nullptr}, {"z", nullptr}};
    static const char *const intensities[] = {
        "intensity",   "scalar_intensity", "scalar_field", "scalar_scalar_field",
        "reflectance", "reflectivity",     "remission",    "i",
        nullptr};
    int first[4] = {0, 1, 2, t->columns > 3 ? 3 : -1};
    if (t->columns > 0 && t->column[0].name[0]) {
        for (int a = 0; a < 3; ++a) {
            first[a] = table_find(t, axes[a]);
            SCAN_REQUIRE(first[a] >= 0, why, spira::status_file_format, path,
                         "has no column %c; the first of its %d columns is %s", "xyz"[a],
                         t -> columns, t -> column[0].name);
            for (int c = first[a] + 1; c < t->columns; ++c) {
                SCAN_REQUIRE(!table_same_name(t->column[c].name, axes[a][0]), why,
                             spira::status_file_format, path, "has two columns %c", "xyz"[a]);
            }
        }
        first[3] = table_find(t, intensities);
    }
    SCAN_REQUIRE(t->columns >= 3, why, spira::status_file_format, path,
                 "has %d columns; x, y and z are three", t->columns);
    order->intensity = first[3] >= 0;
    for (int i = 0; i < 3 + order->intensity; ++i) {
        order->column[order->columns++] = first[i];
    }
    for (int c = 0; c < t->columns; ++c) {
        const bool taken = c == first[0] || c == first[1] || c == first[2] || c == first[3];
        if (!taken && !table_same_name(t->column[c].name, "_")) { // padding
            order->column[order->columns++] = c;
        }
    }
    return spira::status_success();
}

// ---- points -------------------------------------------------------------------------------------

// Whether x, y and z of a row are numbers.
SPIRA_API bool scan_row_returned(const table *t, const scan_order *order, int64_t row) {
    return isfinite(table_value(t, row, order->column[0])) &&
           isfinite(table_value(t, row, order->column[1])) &&
           isfinite(table_value(t, row, order->column[2]));
}

// Metres from the origin within which float has steps of 8 mm and less.
constexpr double scan_reach = 131072;

// The median of a column of the rows to keep, or up to 100 m less; it lies between lo and hi.
SPIRA_API double scan_points_median(const table *t, const scan_order *order, int column, double lo,
                                    double hi) {
    while (hi - lo > 100) {
        const double middle = lo + (hi - lo) / 2;
        int64_t below = 0, all = 0;
        for (int64_t row = 0; row < t->rows; ++row) {
            const bool kept = scan_row_returned(t, order, row);
            below += kept && table_value(t, row, order->column[column]) < middle;
            all += kept;
        }
        (2 * below < all ? lo : hi) = middle;
    }
    return lo;
}

// Finds the rows to keep, the origin, and the scale of the intensity.
SPIRA_API void scan_points_measure(const table *t, const scan_order *order, bool exact,
                                   scan_cloud *out) {
    double lo[4], hi[4];
    int64_t kept = 0;
    for (int c = 0; c < 4; ++c) {
        lo[c] = (double)INFINITY;
        hi[c] = -(double)INFINITY;
    }
    for (int64_t row = 0; row < t->rows; ++row) {
        if (!scan_row_returned(t, order, row)) {
            continue;
        }
        for (int c = 0; c < 3 + order->intensity; ++c) {
            const double v = table_value(t, row, order->column[c]);
            lo[c] = isfinite(v) ? fmin(lo[c], v) : lo[c];
            hi[c] = isfinite(v) ? fmax(hi[c], v) : hi[c];
        }
        ++kept;
    }
    out->rows = kept;
    out->dropped = t->rows - kept;
    for (int a = 0; a < 3 && !exact; ++a) {
        const bool far_off = lo[a] < -8192 || hi[a] > 8192;
        const bool places = lo[a] >= -1e9 && hi[a] <= 1e9; // others are refused later
        const bool wide = far_off && places && hi[a] - lo[a] > 16384;
        const double low = wide ? scan_points_median(t, order, a, lo[a], hi[a]) : lo[a];
        const bool around = wide && fabs(low) <= 8192; // most points lie around 0
        out->origin[a] = far_off && !around ? floor(low / 100) * 100 : 0;
    }
    out->intensity = order->intensity;
    out->intensity_scale = lo[3] < 0 || hi[3] <= 1 ? 1.0f
                           : hi[3] <= 255          ? 1 / 255.0f
                           : hi[3] <= 65535        ? 1 / 65535.0f
                                                   : (float)(1 / hi[3]);
}

// Fills the rows of a scan of points. Infinite intensities are among the values that become 0.
SPIRA_API spira::status scan_points_fill(const char *path, const table *t, const scan_order *order,
                                         scan_cloud *out, scan_reason *why) {
    int64_t to = 0;
    for (int64_t row = 0; row < t->rows; ++row) {
        if (out->dropped && !scan_row_returned(t, order, row)) {
            continue;
        }
        float *point = out->points + to * out->columns;
        bool rounded = false;
        for (int c = 0; c < order->columns; ++c) {
            const double v = table_value(t, row, order->column[c]);
            SCAN_REQUIRE(c >= 3 || fabs(v) <= 1e9, why, spira::status_not_finite, path,
                         "row %lld: %g along %c is no coordinate in metres (an outlier?)",
                         (long long)row, v, "xyz"[c]);
            rounded = rounded || (c < 3 && fabs(v - out->origin[c]) > scan_reach);
            point[c] = (float)(c < 3 ? v - out->origin[c] : v);
            if (!spira::float_is_finite(point[c])) {
                point[c] = 0;
                ++out->zeroed;
            }
        }
        out->rounded += rounded;
        if (out->source) {
            out->source[to] = row;
        }
        ++to;
    }
    return spira::status_success();
}

SPIRA_API spira::status scan_points_take(const char *path, const table *t, const scan_order *order,
                                         bool exact, scan_cloud *out, scan_reason *why) {
    scan_points_measure(t, order, exact, out);
    SCAN_REQUIRE(out->rows > 0, why, spira::status_file_empty, path,
                 "none of its %lld rows has finite x, y and z", (long long)t->rows);
    out->columns = order->columns;
    const size_t bytes = (size_t)out->rows * (size_t)out->columns * sizeof(float);
    out->points = (float *)malloc(bytes);
    out->source = out->dropped ? (int64_t *)malloc((size_t)out->rows * sizeof(int64_t)) : nullptr;
    SCAN_REQUIRE(out->points && (out->source || !out->dropped), why, spira::status_workspace, path,
                 "no %lld bytes of memory", (long long)bytes);
    return scan_points_fill(path, t, order, out, why);
}

// ---- voxels -------------------------------------------------------------------------------------

// The columns of x, y and z among integers.
SPIRA_API spira::status scan_voxels_order(const char *path, const table *t, scan_indices indices,
                                          int axis[3], scan_reason *why) {
    const int orders[4][3] = {{0, 1, 2}, {0, 1, 2}, {1, 2, 3}, {3, 2, 1}};
    SCAN_REQUIRE(t->columns == 3 || indices != scan_indices_ask, why, spira::status_bad_size, path,
                 "%d columns of integers: say by --indices xyz, bxyz or bzyx which are x, y and z "
                 "(b is the batch index; spconv's indices are bzyx or bxyz)",
                 t->columns);
    SCAN_REQUIRE(t->columns > 3 || indices <= scan_indices_xyz, why, spira::status_bad_size, path,
                 "three columns have no batch index");
    memcpy(axis, orders[indices], sizeof orders[0]);
    for (int64_t row = 1; row < t->rows && indices > scan_indices_xyz; ++row) {
        SCAN_REQUIRE(table_value(t, row, 0) == table_value(t, 0, 0), why, spira::status_file_format,
                     path, "row %lld has batch index %.0f, row 0 %.0f: save one batch index",
                     (long long)row, table_value(t, row, 0), table_value(t, 0, 0));
    }
    return spira::status_success();
}

SPIRA_API spira::status scan_voxels_take(const char *path, const table *t, scan_indices indices,
                                         scan_cloud *out, scan_reason *why) {
    int axis[3];
    SPIRA_TRY(scan_voxels_order(path, t, indices, axis, why));
    out->rows = t->rows;
    out->columns = 3;
    out->voxels = (int32_t *)malloc((size_t)out->rows * 3 * sizeof(int32_t));
    SCAN_REQUIRE(out->voxels, why, spira::status_workspace, path, "no memory for %lld voxels",
                 (long long)out->rows);
    for (int64_t row = 0; row < t->rows; ++row) {
        for (int a = 0; a < 3; ++a) {
            const double v = table_value(t, row, axis[a]);
            SCAN_REQUIRE(v >= INT32_MIN && v <= INT32_MAX, why, spira::status_file_format, path,
                         "row %lld: a voxel at %.0f along %c does not fit 32 bits", (long long)row,
                         v, "xyz"[a]);
            out->voxels[row * 3 + a] = (int32_t)v;
        }
    }
    return spira::status_success();
}

// ---- reading ------------------------------------------------------------------------------------

// Makes a scan of a table. Integers without names are voxels; a .ply, .pcd or .las has points.
SPIRA_API spira::status scan_table_take(const char *path, const scan_options *options,
                                        const table *t, scan_cloud *out, scan_reason *why) {
    if (!t->column[0].name[0] && !value_is_float(t->column[0].type)) {
        return scan_voxels_take(path, t, options->indices, out, why);
    }
    scan_order order = {};
    order.column = (int *)malloc((size_t)(t->columns + 1) * sizeof(int));
    SCAN_REQUIRE(order.column, why, spira::status_workspace, path, "no memory for the columns");
    spira::status s = scan_order_find(path, t, &order, why);
    if (!spira::status_failed(s)) {
        s = scan_points_take(path, t, &order, options->exact, out, why);
    }
    free(order.column);
    return s;
}

// Reads a scan. The suffix of the path gives the format (see the top of this file).
//
// inputs:  path; options  what the file does not say
// outputs: out  points [rows, columns] or voxels [rows, 3] in the order of the file; free it by
//               scan_free. Zeroed on failure. Its previous content is not freed.
//          why  on failure the file, the place in it and the remedy; the status points to it
// errors:  status_unsupported  an unknown suffix
//          status_file_open    the file cannot be opened or read
//          status_file_empty   no bytes, no rows, or none with finite coordinates
//          status_file_format  the file is cut short, damaged, or of a kind that is not read
//          status_not_finite   a coordinate beyond 10^9 m
//          status_bad_size     more than 2^31 - 1 rows; what the options must say
//          status_workspace    no memory
SPIRA_API spira::status scan_read(const char *path, const scan_options *options, scan_cloud *out,
                                  scan_reason *why) {
    SPIRA_REQUIRE(out, spira::status_null_pointer, "out", 0);
    memset(out, 0, sizeof *out);
    SPIRA_REQUIRE(path, spira::status_null_pointer, "path", 0);
    SPIRA_REQUIRE(options, spira::status_null_pointer, "options", 0);
    SPIRA_REQUIRE(why, spira::status_null_pointer, "why", 0);
    table t = {};
    spira::status s = scan_table_read(path, options, &t, why);
    if (!spira::status_failed(s)) {
        s = scan_table_take(path, options, &t, out, why);
    }
    table_free(&t);
    if (spira::status_failed(s)) {
        scan_free(out);
    }
    return s;
}

// ---- bounds -------------------------------------------------------------------------------------

// The smallest and the largest x, y, z of rows [rows, columns]. Skips NaN and infinities.
template <typename T>
SPIRA_API spira::status scan_bounds(const char *name, const T *data, int64_t rows, int columns,
                                    T *lo, T *hi) {
    SPIRA_REQUIRE(lo && hi, spira::status_null_pointer, lo ? "hi" : "lo", 0);
    SPIRA_REQUIRE(data, spira::status_null_pointer, name, 0);
    SPIRA_REQUIRE(rows > 0, spira::status_bad_size, "cloud->rows", rows);
    for (int axis = 0; axis < 3; ++axis) {
        bool any = false;
        for (int64_t row = 0; row < rows; ++row) {
            const T value = data[row * columns + axis];
            if (spira::float_is_finite((float)value)) {
                lo[axis] = any && lo[axis] < value ? lo[axis] : value;
                hi[axis] = any && hi[axis] > value ? hi[axis] : value;
                any = true;
            }
        }
        SPIRA_REQUIRE(any, spira::status_not_finite, name, axis);
    }
    return spira::status_success();
}

// The bounds of a scan of points in metres, or of a scan of voxels.
//
// outputs: lo, hi  [3]
// errors:  status_null_pointer; also "cloud->points" or "cloud->voxels" for a scan of the other
// kind
//          status_bad_size  "cloud->rows": no rows
//          status_not_finite  "cloud->points": an axis has no finite value
SPIRA_API spira::status scan_bounds_points(const scan_cloud *cloud, float lo[3], float hi[3]) {
    SPIRA_REQUIRE(cloud, spira::status_null_pointer, "cloud", 0);
    return scan_bounds("cloud->points", cloud->points, cloud->rows, cloud->columns, lo, hi);
}

SPIRA_API spira::status scan_bounds_voxels(const scan_cloud *cloud, int32_t lo[3], int32_t hi[3]) {
    SPIRA_REQUIRE(cloud, spira::status_null_pointer, "cloud", 0);
    return scan_bounds("cloud->voxels", cloud->voxels, cloud->rows, 3, lo, hi);
}

// ---- writing ------------------------------------------------------------------------------------

// Writes bytes to a file. Overwrites an existing file.
//
// inputs:  path; data [bytes], may be null if bytes is 0
// errors:  status_null_pointer  "path" or "data"
//          status_bad_size      "bytes": negative
//          status_file_open     the file cannot be created or fully written; detail: errno
SPIRA_API spira::status scan_write_bytes(const char *path, const void *data, int64_t bytes) {
    SPIRA_REQUIRE(path, spira::status_null_pointer, "path", 0);
    SPIRA_REQUIRE(bytes >= 0, spira::status_bad_size, "bytes", bytes);
    SPIRA_REQUIRE(data || bytes == 0, spira::status_null_pointer, "data", 0);
    FILE *file = fopen(path, "wb");
    SPIRA_REQUIRE(file, spira::status_file_open, path, errno);
    bool written = bytes == 0 || fwrite(data, 1, (size_t)bytes, file) == (size_t)bytes;
    bool closed = fclose(file) == 0;
    SPIRA_REQUIRE(written && closed, spira::status_file_open, path, errno);
    return spira::status_success();
}

// Writes points as raw float32, row by row: .xyz32, .bin and .pcd.bin for 3, 4 and 5 columns.
//
// inputs:  path; data [rows, columns]
// errors:  as scan_write_bytes; status_bad_size "rows" or "columns"
SPIRA_API spira::status scan_write_floats(const char *path, const float *data, int64_t rows,
                                          int columns) {
    SPIRA_REQUIRE(rows >= 0 && rows <= INT32_MAX, spira::status_bad_size, "rows", rows);
    SPIRA_REQUIRE(columns > 0, spira::status_bad_size, "columns", columns);
    return scan_write_bytes(path, data, rows * columns * 4);
}

// Writes voxels as raw int32: .vox32.
//
// inputs:  path; voxels [rows, 3]
// errors:  as scan_write_bytes; status_bad_size "rows"
SPIRA_API spira::status scan_write_voxels(const char *path, const int32_t *voxels, int64_t rows) {
    SPIRA_REQUIRE(rows >= 0 && rows <= INT32_MAX, spira::status_bad_size, "rows", rows);
    return scan_write_bytes(path, voxels, rows * 12);
}

} // namespace scan

#endif
