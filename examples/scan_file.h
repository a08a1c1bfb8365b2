// examples/scan_file.h: reads a scan from a file, on the host.
//
// The suffix of the path gives the format:
//   .pcd.bin  nuScenes  float32 x, y, z, intensity, ring
//   .bin      KITTI     float32 x, y, z, intensity
//   .xyz32    points    float32 x, y, z
//   .vox32    voxels    int32 x, y, z, in any order
//   .npy      NumPy     versions 1.0, 2.0, 3.0; C order; [rows, 3 or more] of <f4, <f8 (points) or
//                       <i4, <i8 (voxels)
// All formats are little-endian; the machine must be, too. The raw formats have no header.
//
//   scan::scan_cloud cloud;
//   SPIRA_TRY(scan::scan_read("data/kitti00_000000.bin", &cloud));
//   ... cloud.points [cloud.rows, cloud.columns] ...
//   scan::scan_free(&cloud);
#ifndef SPIRA_EXAMPLES_SCAN_FILE_H
#define SPIRA_EXAMPLES_SCAN_FILE_H

#include "../spira/numeric.h"
#include "../spira/status.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

namespace scan {

// A scan of points or of voxels. All zero is the empty scan, which owns no memory.
struct scan_cloud {
    int64_t rows;
    int columns;     // of points: 3 + feature columns; of voxels: 3
    float *points;   // [rows, columns] x, y, z in metres, features; null for voxels
    int32_t *voxels; // [rows, 3] x, y, z; null for points
};

// Frees the memory of a scan and zeroes it. A null pointer or a second call does nothing.
SPIRA_API void scan_free(scan_cloud *cloud) {
    if (cloud) {
        free(cloud->points);
        free(cloud->voxels);
        memset(cloud, 0, sizeof *cloud);
    }
}

// ---- files --------------------------------------------------------------------------------------

enum scan_element { scan_f4, scan_f8, scan_i4, scan_i8 };

// The layout of the data, from the header or the suffix.
struct scan_layout {
    scan_element element;
    int64_t rows;
    int64_t columns;
};

enum scan_limits {
    scan_header_bytes = 4096, // of an .npy file; NumPy writes 64 to 192
    scan_columns_most = 65536,
    scan_chunk = 2048, // elements converted at a time
};

SPIRA_API int scan_element_bytes(scan_element element) {
    return element == scan_f4 || element == scan_i4 ? 4 : 8;
}

SPIRA_API bool scan_element_is_float(scan_element element) {
    return element == scan_f4 || element == scan_f8;
}

SPIRA_API bool scan_has_suffix(const char *path, const char *suffix) {
    size_t length = strlen(path), tail = strlen(suffix);
    return length >= tail && strcmp(path + length - tail, suffix) == 0;
}

// Returns the bytes of an open file, or -1. Rewinds the file.
SPIRA_API int64_t scan_file_bytes(FILE *file) {
#ifdef _WIN32
    int64_t bytes = _fseeki64(file, 0, SEEK_END) ? -1 : _ftelli64(file);
#else
    int64_t bytes = fseeko(file, 0, SEEK_END) ? -1 : (int64_t)ftello(file);
#endif
    rewind(file);
    return bytes;
}

// ---- the .npy header ----------------------------------------------------------------------------

// Returns the start of the value of `key` in the header's Python dictionary, or null.
SPIRA_API const char *scan_npy_value(const char *header, const char *key) {
    size_t length = strlen(key);
    for (const char *at = strstr(header, key); at; at = strstr(at + 1, key)) {
        char quote = at > header ? at[-1] : 0;
        if ((quote == '\'' || quote == '"') && at[length] == quote) {
            at += length + 1;
            at += strspn(at, " ");
            return *at == ':' ? at + 1 + strspn(at + 1, " ") : nullptr;
        }
    }
    return nullptr;
}

// Parses "'<f4'" and the other types. Returns false for any other type, also for structured ones.
SPIRA_API bool scan_npy_element(const char *value, scan_element *element) {
    const char *names[4] = {"<f4", "<f8", "<i4", "<i8"}; // in the order of scan_element
    for (int i = 0; i < 4; ++i) {
        bool quoted = (value[0] == '\'' || value[0] == '"') && strlen(value) > 4;
        if (quoted && strncmp(value + 1, names[i], 3) == 0 && value[4] == value[0]) {
            *element = (scan_element)i;
            return true;
        }
    }
    return false;
}

// Parses a number and moves *at past it, and past Python 2's L. Clamps at 2^40. Returns -1 if there
// are no digits.
SPIRA_API int64_t scan_npy_number(const char **at) {
    int64_t number = -1;
    *at += strspn(*at, " ");
    for (; **at >= '0' && **at <= '9'; ++*at) {
        int64_t next = (number < 0 ? 0 : number) * 10 + (**at - '0');
        number = next < ((int64_t)1 << 40) ? next : (int64_t)1 << 40;
    }
    *at += **at == 'L';
    *at += strspn(*at, " ");
    return number;
}

// Parses "(rows, columns)". Returns false for any other number of axes.
SPIRA_API bool scan_npy_shape(const char *value, scan_layout *layout) {
    const char *at = value;
    if (*at++ != '(') {
        return false;
    }
    layout->rows = scan_npy_number(&at);
    if (layout->rows < 0 || *at++ != ',') {
        return false;
    }
    layout->columns = scan_npy_number(&at);
    at += *at == ',';
    at += strspn(at, " ");
    return *at == ')' && layout->columns >= 3 && layout->columns <= scan_columns_most;
}

// Parses the dictionary. start: its offset in the file, for error details
SPIRA_API spira::status scan_npy_parse(const char *header, int64_t start, scan_layout *layout) {
    const char *descr = scan_npy_value(header, "descr");
    const char *order = scan_npy_value(header, "fortran_order");
    const char *shape = scan_npy_value(header, "shape");
    SPIRA_REQUIRE(header[0] == '{' && strchr(header, '}'), spira::status_file_format,
                  "npy: the header is not a dictionary", start);
    SPIRA_REQUIRE(descr && order && shape, spira::status_file_format,
                  "npy: the header lacks descr, fortran_order or shape", start);
    SPIRA_REQUIRE(scan_npy_element(descr, &layout->element), spira::status_file_format,
                  "npy: the type is not <f4, <f8, <i4 or <i8", start + (descr - header));
    SPIRA_REQUIRE(strncmp(order, "True", 4) != 0, spira::status_file_format,
                  "npy: Fortran order is not read", start + (order - header));
    SPIRA_REQUIRE(strncmp(order, "False", 5) == 0, spira::status_file_format,
                  "npy: fortran_order is neither True nor False", start + (order - header));
    SPIRA_REQUIRE(scan_npy_shape(shape, layout), spira::status_file_format,
                  "npy: the shape is not (rows, 3 or more)", start + (shape - header));
    return spira::status_success();
}

// Reads the header. Leaves the file at the data.
SPIRA_API spira::status scan_npy_layout(FILE *file, scan_layout *layout) {
    unsigned char fixed[12]; // magic [6], version [2], header length [2 or 4]
    char header[scan_header_bytes + 1];
    SPIRA_REQUIRE(fread(fixed, 1, 10, file) == 10, spira::status_file_format,
                  "npy: the header is cut short", 0);
    SPIRA_REQUIRE(memcmp(fixed, "\x93NUMPY", 6) == 0, spira::status_file_format,
                  "npy: the file does not start with \\x93NUMPY", 0);
    SPIRA_REQUIRE(fixed[6] >= 1 && fixed[6] <= 3 && fixed[7] == 0, spira::status_file_format,
                  "npy: the version is not 1.0, 2.0 or 3.0", 6);
    uint32_t bytes = fixed[8] | (uint32_t)fixed[9] << 8;
    int64_t start = 10;
    if (fixed[6] > 1) {
        SPIRA_REQUIRE(fread(fixed + 10, 1, 2, file) == 2, spira::status_file_format,
                      "npy: the header is cut short", 10);
        bytes |= (uint32_t)fixed[10] << 16 | (uint32_t)fixed[11] << 24;
        start = 12;
    }
    SPIRA_REQUIRE(bytes <= scan_header_bytes, spira::status_file_format,
                  "npy: the header is longer than 4096 bytes", 8);
    SPIRA_REQUIRE(fread(header, 1, bytes, file) == bytes, spira::status_file_format,
                  "npy: the header is cut short", start);
    header[bytes] = 0;
    return scan_npy_parse(header, start, layout);
}

// ---- reading ------------------------------------------------------------------------------------

// Finds the record of a raw format by its suffix. Returns false for an unknown suffix.
SPIRA_API bool scan_raw_layout(const char *path, scan_layout *layout) {
    bool voxels = scan_has_suffix(path, ".vox32");
    layout->element = voxels ? scan_i4 : scan_f4;
    layout->rows = 0;
    layout->columns = scan_has_suffix(path, ".pcd.bin")           ? 5
                      : scan_has_suffix(path, ".bin")             ? 4
                      : voxels || scan_has_suffix(path, ".xyz32") ? 3
                                                                  : 0;
    return layout->columns > 0;
}

// Whether scan_read knows the suffix.
SPIRA_API bool scan_is_known(const char *path) {
    scan_layout unused;
    return scan_raw_layout(path, &unused) || scan_has_suffix(path, ".npy");
}

// Finds the layout by the header or the file size. Leaves the file at the data.
SPIRA_API spira::status scan_file_layout(FILE *file, const char *path, scan_layout *layout) {
    int64_t bytes = scan_file_bytes(file);
    SPIRA_REQUIRE(bytes >= 0, spira::status_file_open, path, errno);
    if (scan_has_suffix(path, ".npy")) {
        SPIRA_TRY(scan_npy_layout(file, layout));
        SPIRA_REQUIRE(layout->rows > 0, spira::status_file_empty, path, 0);
    } else {
        int64_t record = layout->columns * scan_element_bytes(layout->element);
        layout->rows = bytes / record;
        SPIRA_REQUIRE(bytes % record == 0, spira::status_file_format,
                      "the last record of the scan is cut short", layout->rows);
    }
    SPIRA_REQUIRE(layout->rows <= INT32_MAX, spira::status_bad_size, "rows", layout->rows);
    int64_t needed = layout->rows * layout->columns * scan_element_bytes(layout->element);
    SPIRA_REQUIRE(bytes - (int64_t)ftell(file) >= needed, spira::status_file_format,
                  "npy: the data are cut short", bytes);
    return spira::status_success();
}

// Converts elements first .. first + count of the file.
SPIRA_API spira::status scan_convert(const scan_layout *layout, const void *from, int64_t first,
                                     int count, scan_cloud *out) {
    for (int i = 0; i < count; ++i) {
        int64_t row = (first + i) / layout->columns, column = (first + i) % layout->columns;
        if (scan_element_is_float(layout->element)) {
            float value = layout->element == scan_f4 ? ((const float *)from)[i]
                                                     : (float)((const double *)from)[i];
            SPIRA_REQUIRE(spira::float_is_finite(value), spira::status_not_finite, "points", row);
            out->points[first + i] = value;
        } else if (column < 3) {
            int64_t value = layout->element == scan_i4 ? ((const int32_t *)from)[i]
                                                       : ((const int64_t *)from)[i];
            SPIRA_REQUIRE(value >= INT32_MIN && value <= INT32_MAX, spira::status_file_format,
                          "npy: a voxel does not fit 32 bits; first row", row);
            out->voxels[row * 3 + column] = (int32_t)value;
        }
    }
    return spira::status_success();
}

// Allocates and fills `out`. On failure `out` may own memory; scan_read frees it.
SPIRA_API spira::status scan_read_data(FILE *file, const char *path, const scan_layout *layout,
                                       scan_cloud *out) {
    bool is_float = scan_element_is_float(layout->element);
    size_t elements = (size_t)(layout->rows * layout->columns);
    int width = scan_element_bytes(layout->element);
    out->rows = layout->rows;
    out->columns = is_float ? (int)layout->columns : 3;
    size_t bytes = (size_t)out->rows * (size_t)out->columns * 4;
    void *memory = malloc(bytes);
    SPIRA_REQUIRE(memory, spira::status_capacity, "bytes of memory for the scan", bytes);
    out->points = is_float ? (float *)memory : nullptr;
    out->voxels = is_float ? nullptr : (int32_t *)memory;
    double chunk[scan_chunk]; // the type of the widest element, for the alignment
    for (size_t done = 0; done < elements;) {
        size_t count = elements - done < scan_chunk ? elements - done : (size_t)scan_chunk;
        SPIRA_REQUIRE(fread(chunk, (size_t)width, count, file) == count, spira::status_file_open,
                      path, errno);
        SPIRA_TRY(scan_convert(layout, chunk, (int64_t)done, (int)count, out));
        done += count;
    }
    return spira::status_success();
}

SPIRA_API spira::status scan_read_stream(FILE *file, const char *path, scan_cloud *out) {
    bool nothing = fgetc(file) == EOF; // opening a directory succeeds; reading it fails
    SPIRA_REQUIRE(!nothing || !ferror(file), spira::status_file_open, path, errno);
    SPIRA_REQUIRE(!nothing, spira::status_file_empty, path, 0);
    scan_layout layout;
    scan_raw_layout(path, &layout);
    SPIRA_TRY(scan_file_layout(file, path, &layout));
    return scan_read_data(file, path, &layout, out);
}

// Reads a scan. The suffix of the path gives the format (see the top of this file). Of integer .npy
// columns only the first three are read, whatever they mean.
//
// inputs:  path
// outputs: out  points [rows, columns] or voxels [rows, 3] in the order of the file; free it by
//               scan_free. Zeroed on failure. Its previous content is not freed.
// errors:  status_unsupported  an unknown suffix
//          status_file_open    the file cannot be opened or read; detail: errno
//          status_file_empty   no bytes, or no rows
//          status_file_format  a record, an .npy header or its data are cut short; the header is
//                              malformed; an unsupported type or order; a voxel that does not fit
//                              32 bits
//          status_not_finite   a NaN or an infinity in any column, also after rounding <f8 to
//                              float; detail: first row
//          status_bad_size     "rows": more than 2^31 - 1
//          status_capacity     no memory; detail: bytes
SPIRA_API spira::status scan_read(const char *path, scan_cloud *out) {
    SPIRA_REQUIRE(out, spira::status_null_pointer, "out", 0);
    memset(out, 0, sizeof *out);
    SPIRA_REQUIRE(path, spira::status_null_pointer, "path", 0);
    SPIRA_REQUIRE(scan_is_known(path), spira::status_unsupported,
                  "a path that ends in none of .bin, .pcd.bin, .xyz32, .vox32, .npy", 0);
    FILE *file = fopen(path, "rb");
    SPIRA_REQUIRE(file, spira::status_file_open, path, errno);
    spira::status result = scan_read_stream(file, path, out);
    fclose(file);
    if (spira::status_failed(result)) {
        scan_free(out);
    }
    return result;
}

// ---- bounds -------------------------------------------------------------------------------------

// Finds the smallest and the largest x, y, z of a scan of points. Skips NaN and infinities: the
// voxelisation drops their rows.
//
// inputs:  cloud  a scan of points
// outputs: lo, hi  [3] metres
// errors:  status_null_pointer; also "cloud->points" for a scan of voxels
//          status_bad_size  "cloud->rows": no rows
//          status_not_finite  "cloud->points": an axis has no finite value
SPIRA_API spira::status scan_bounds_points(const scan_cloud *cloud, float lo[3], float hi[3]) {
    SPIRA_REQUIRE(cloud, spira::status_null_pointer, "cloud", 0);
    SPIRA_REQUIRE(lo && hi, spira::status_null_pointer, lo ? "hi" : "lo", 0);
    SPIRA_REQUIRE(cloud->points, spira::status_null_pointer, "cloud->points", 0);
    SPIRA_REQUIRE(cloud->rows > 0, spira::status_bad_size, "cloud->rows", cloud->rows);
    for (int axis = 0; axis < 3; ++axis) {
        bool any = false;
        for (int64_t row = 0; row < cloud->rows; ++row) {
            float value = cloud->points[row * cloud->columns + axis];
            if (spira::float_is_finite(value)) {
                lo[axis] = any && lo[axis] < value ? lo[axis] : value;
                hi[axis] = any && hi[axis] > value ? hi[axis] : value;
                any = true;
            }
        }
        SPIRA_REQUIRE(any, spira::status_not_finite, "cloud->points", axis);
    }
    return spira::status_success();
}

// Finds the smallest and the largest x, y, z of a scan of voxels.
//
// inputs:  cloud  a scan of voxels
// outputs: lo, hi  [3] voxels
// errors:  status_null_pointer; also "cloud->voxels" for a scan of points
//          status_bad_size  "cloud->rows": no rows
SPIRA_API spira::status scan_bounds_voxels(const scan_cloud *cloud, int32_t lo[3], int32_t hi[3]) {
    SPIRA_REQUIRE(cloud, spira::status_null_pointer, "cloud", 0);
    SPIRA_REQUIRE(lo && hi, spira::status_null_pointer, lo ? "hi" : "lo", 0);
    SPIRA_REQUIRE(cloud->voxels, spira::status_null_pointer, "cloud->voxels", 0);
    SPIRA_REQUIRE(cloud->rows > 0, spira::status_bad_size, "cloud->rows", cloud->rows);
    for (int axis = 0; axis < 3; ++axis) {
        lo[axis] = hi[axis] = cloud->voxels[axis];
        for (int64_t row = 1; row < cloud->rows; ++row) {
            int32_t value = cloud->voxels[row * 3 + axis];
            lo[axis] = value < lo[axis] ? value : lo[axis];
            hi[axis] = value > hi[axis] ? value : hi[axis];
        }
    }
    return spira::status_success();
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
