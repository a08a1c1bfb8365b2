// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/table_npy.h: NumPy's arrays, .npy (versions 1.0 to 3.0) and .npz without compression: of
// two axes [rows, columns], or of three [height, width, columns], as organised clouds have; and
// writing .npy.
#ifndef SPIRA_EXAMPLES_TABLE_NPY_H
#define SPIRA_EXAMPLES_TABLE_NPY_H

#include "../spira/base/integer.h"
#include "table.h"

namespace scan {

enum { npy_header_most = 65536 };

// Returns the value of `key` in the header's Python dictionary, or null.
SPIRA_API const char *npy_value(const char *header, const char *key) {
    const size_t length = strlen(key);
    for (const char *at = strstr(header, key); at; at = strstr(at + 1, key)) {
        const char quote = at > header ? at[-1] : 0;
        if ((quote == '\'' || quote == '"') && at[length] == quote) {
            at += length + 1;
            at += strspn(at, " ");
            return *at == ':' ? at + 1 + strspn(at + 1, " ") : nullptr;
        }
    }
    return nullptr;
}

// Parses "'<f4'" and the like. Returns false for any other type, also for structured ones.
SPIRA_API bool npy_type(const char *value, value_type *type, bool *big) {
    const char *const names[value_types] = {"i1", "u1", "i2", "u2", "i4", "u4",
                                            "i8", "u8", "f2", "f4", "f8"};
    const bool quoted = (value[0] == '\'' || value[0] == '"') && strlen(value) > 4 &&
                        value[4] == value[0] && strchr("<>|=", value[1]);
    for (int i = 0; quoted && i < value_types; ++i) {
        if (memcmp(value + 2, names[i], 2) == 0) {
            *type = (value_type)i;
            *big = value[1] == '>' || (value[1] == '=' && !value_machine_is_little());
            return true;
        }
    }
    return false;
}

// Parses "(a, b)" or "(a, b, c)". Returns the number of axes, 0 for anything else.
SPIRA_API int npy_shape(const char *value, int64_t axes[3]) {
    int found = 0;
    const char *at = value;
    if (*at++ != '(') {
        return 0;
    }
    for (; found < 3; ++found) {
        at += strspn(at, " ");
        table_word word = {at, strspn(at, "0123456789")};
        if (!table_word_count(word, &axes[found])) {
            break;
        }
        at += word.length;
        at += *at == 'L'; // Python 2
        at += strspn(at, " ");
        at += *at == ',';
    }
    at += strspn(at, " ");
    return *at == ')' ? found : 0;
}

// Adds the columns of the array whose dictionary is `header` and whose data begin at `start`.
SPIRA_API spira::status npy_columns(const char *path, const char *header, int64_t start, table *t,
                                    scan_reason *why) {
    const char *descr = npy_value(header, "descr");
    const char *order = npy_value(header, "fortran_order");
    const char *shape = npy_value(header, "shape");
    SCAN_REQUIRE(descr && order && shape, why, spira::status_file_format, path,
                 "its header lacks descr, fortran_order or shape");
    value_type type;
    bool big;
    SCAN_REQUIRE(npy_type(descr, &type, &big), why, spira::status_file_format, path,
                 "its type is %.*s; known are floats of 2, 4, 8 bytes and integers: save x, y, z "
                 "as one array of one type",
                 (int)spira::min_of((int64_t)strcspn(descr, *descr == '[' ? "}" : ",}"), 24),
                 descr);
    int64_t axes[3] = {1, 1, 1};
    const int found = npy_shape(shape, axes);
    const int64_t columns = found == 3 ? axes[2] : axes[1];
    const int64_t height = found == 3 ? axes[0] : 1, width = found == 3 ? axes[1] : axes[0];
    SCAN_REQUIRE((double)height * (double)width <= INT32_MAX, why, spira::status_bad_size, path,
                 "%lld x %lld rows; at most 2^31 - 1", (long long)height, (long long)width);
    const int64_t rows = height * width;
    SCAN_REQUIRE(found >= 2 && columns >= 3 && columns <= table_columns_most, why,
                 spira::status_file_format, path,
                 "its shape %.*s is neither (rows, 3 or more) nor (height, width, 3 or more)",
                 (int)spira::min_of((int64_t)strcspn(shape, ")") + 1, 40), shape);
    SCAN_REQUIRE(axes[0] > 8 || columns <= 256, why, spira::status_file_format, path,
                 "its shape %.*s has a point in each column: save numpy.moveaxis(it, 0, -1)",
                 (int)spira::min_of((int64_t)strcspn(shape, ")") + 1, 40), shape);
    const bool fortran = strncmp(order, "True", 4) == 0;
    SCAN_REQUIRE(!fortran || found == 2, why, spira::status_file_format, path,
                 "three axes in Fortran order: save numpy.ascontiguousarray of it");
    const int64_t size = value_bytes(type);
    SCAN_REQUIRE((t->bytes - start) / size / columns >= rows, why, spira::status_file_format, path,
                 "ends before its %lld rows of %lld columns", (long long)rows, (long long)columns);
    t->rows = rows;
    for (int64_t c = 0; c < columns; ++c) {
        SPIRA_TRY(table_add(t, "", 0, type, start + c * size * (fortran ? rows : 1),
                            size * (fortran ? 1 : columns)));
        t->column[c].big = big;
    }
    return spira::status_success();
}

// Reads the array that begins at byte `at`.
SPIRA_API spira::status npy_read_at(const char *path, int64_t at, table *t, scan_reason *why) {
    const unsigned char *fixed = t->data + at; // magic [6], version [2], header's length [2 or 4]
    SCAN_REQUIRE(t->bytes - at >= 12 && memcmp(fixed, "\x93NUMPY", 6) == 0, why,
                 spira::status_file_format, path, "does not begin with \\x93NUMPY");
    SCAN_REQUIRE(fixed[6] >= 1 && fixed[6] <= 3 && fixed[7] == 0, why, spira::status_file_format,
                 path, "version %d.%d; known are 1.0, 2.0 and 3.0", fixed[6], fixed[7]);
    const bool wide = fixed[6] > 1;
    const int64_t bytes = (int64_t)value_read(fixed + 8, wide ? value_u4 : value_u2, false);
    const int64_t start = at + (wide ? 12 : 10);
    SCAN_REQUIRE(bytes < npy_header_most && bytes <= t->bytes - start, why,
                 spira::status_file_format, path, "a header of %lld bytes", (long long)bytes);
    char *header = (char *)malloc((size_t)bytes + 1);
    SCAN_REQUIRE(header, why, spira::status_workspace, path, "no memory for the header");
    memcpy(header, t->data + start, (size_t)bytes);
    header[bytes] = 0;
    const spira::status s = npy_columns(path, header, start + bytes, t, why);
    free(header);
    return s;
}

SPIRA_API spira::status npy_read(const char *path, table *t, scan_reason *why) {
    return npy_read_at(path, 0, t, why);
}

// ---- .npz: a ZIP archive ------------------------------------------------------------------------

// An array of the archive: what its directory says.
struct npz_entry {
    table_word name;
    int64_t method; // 0: stored
    int64_t at;     // of the local header
};

SPIRA_API int64_t npz_number(const table *t, int64_t at, int bytes) {
    return (int64_t)value_read(t->data + at, bytes == 2 ? value_u2 : value_u4, false);
}

// Finds the array to take: the only one, or the first of points, xyz, coords and coord.
SPIRA_API spira::status npz_find(const char *path, const table *t, npz_entry *found,
                                 scan_reason *why) {
    int64_t end = t->bytes - 22;
    while (end >= 0 && memcmp(t->data + end, "PK\5\6", 4) != 0) {
        --end;
    }
    SCAN_REQUIRE(end >= 0, why, spira::status_file_format, path, "has no directory of a ZIP file");
    const int64_t count = npz_number(t, end + 10, 2);
    int64_t at = npz_number(t, end + 16, 4);
    const char *const names[] = {"points.npy", "xyz.npy", "coords.npy", "coord.npy"};
    int best = 4; // in names
    for (int64_t i = 0; i < count; ++i) {
        SCAN_REQUIRE(at >= 0 && at + 46 <= end && memcmp(t->data + at, "PK\1\2", 4) == 0, why,
                     spira::status_file_format, path, "its directory is damaged at %lld of %lld",
                     (long long)i, (long long)count);
        const int64_t name = npz_number(t, at + 28, 2);
        SCAN_REQUIRE(at + 46 + name <= end, why, spira::status_file_format, path,
                     "its directory is damaged at %lld of %lld", (long long)i, (long long)count);
        const npz_entry entry = {{(const char *)t->data + at + 46, (size_t)name},
                                 npz_number(t, at + 10, 2),
                                 npz_number(t, at + 42, 4)};
        int name_found = 0;
        while (name_found < best && !table_word_is(entry.name, names[name_found])) {
            ++name_found;
        }
        *found = name_found < best || i == 0 ? entry : *found;
        best = name_found;
        at += 46 + name + npz_number(t, at + 30, 2) + npz_number(t, at + 32, 2);
    }
    SCAN_REQUIRE(
        best < 4 || count == 1, why, spira::status_file_format, path,
        "has %lld arrays, none of them named points, xyz, coords or coord: save one by numpy.save",
        (long long)count);
    return spira::status_success();
}

// Reads an array of an .npz file.
SPIRA_API spira::status npz_read(const char *path, table *t, scan_reason *why) {
    npz_entry entry = {};
    SPIRA_TRY(npz_find(path, t, &entry, why));
    SCAN_REQUIRE(entry.method == 0, why, spira::status_file_format, path,
                 "is compressed: save it by numpy.savez or numpy.save, not numpy.savez_compressed");
    SCAN_REQUIRE(entry.at + 30 <= t->bytes && memcmp(t->data + entry.at, "PK\3\4", 4) == 0, why,
                 spira::status_file_format, path, "its directory points beyond the file");
    const int64_t start =
        entry.at + 30 + npz_number(t, entry.at + 26, 2) + npz_number(t, entry.at + 28, 2);
    SCAN_REQUIRE(start < t->bytes, why, spira::status_file_format, path,
                 "its directory points beyond the file");
    return npy_read_at(path, start, t, why);
}

// ---- writing ------------------------------------------------------------------------------------

enum { npy_header_bytes = 256 };

// Begins a file, which must not exist yet. type: as NumPy names it, "<i4". The rows follow by
// fwrite, in C order.
SPIRA_API spira::status npy_begin(const char *path, const char *type, const int64_t *shape,
                                  int axes, FILE **file) {
    char header[npy_header_bytes + 1] = "\x93NUMPY\x01";
    header[8] = (char)(npy_header_bytes - 10); // the bytes that follow
    int used = 10;
    used += snprintf(header + used, npy_header_bytes - (size_t)used,
                     "{'descr': '%s', 'fortran_order': False, 'shape': (", type);
    for (int a = 0; a < axes; ++a) {
        used +=
            snprintf(header + used, npy_header_bytes - (size_t)used, "%lld, ", (long long)shape[a]);
    }
    used += snprintf(header + used, npy_header_bytes - (size_t)used, "), }");
    memset(header + used, ' ', npy_header_bytes - (size_t)used);
    header[npy_header_bytes - 1] = '\n';
    *file = fopen(path, "wbx");
    SPIRA_REQUIRE(*file, spira::status_file_open, path, errno);
    fwrite(header, 1, npy_header_bytes, *file);
    return spira::status_success();
}

// Ends a file. Errors of earlier writes are found here.
SPIRA_API spira::status npy_end(FILE *file, const char *path) {
    const bool good = !ferror(file);
    SPIRA_REQUIRE(fclose(file) == 0 && good, spira::status_file_open, path, errno);
    return spira::status_success();
}

} // namespace scan

#endif
