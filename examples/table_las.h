// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/table_las.h: airborne surveys in .las, versions 1.0 to 1.4, point formats 0 to 10. LAZ
// is refused.
#ifndef SPIRA_EXAMPLES_TABLE_LAS_H
#define SPIRA_EXAMPLES_TABLE_LAS_H

#include "table.h"

namespace scan {

// A number of the header.
SPIRA_API double las_number(const table *t, int64_t at, value_type type) {
    return value_read(t->data + at, type, false);
}

// Adds x, y, z and what stands behind them in each record.
SPIRA_API spira::status las_columns(table *t, int format, int64_t start, int64_t record) {
    const struct {
        const char *name;
        int at;
        value_type type;
    } fields[] = {{"x", 0, value_i4},
                  {"y", 4, value_i4},
                  {"z", 8, value_i4},
                  {"intensity", 12, value_u2},
                  {"classification", format < 6 ? 15 : 16, value_u1}};
    for (const auto &f : fields) {
        SPIRA_TRY(table_add(t, f.name, strlen(f.name), f.type, start + f.at, record));
    }
    const int rgb = format == 2                                  ? 20
                    : format == 3 || format == 5                 ? 28
                    : format == 7 || format == 8 || format == 10 ? 30
                                                                 : 0;
    const char *const colours[] = {"red", "green", "blue"};
    for (int c = 0; c < 3 && rgb; ++c) {
        SPIRA_TRY(
            table_add(t, colours[c], strlen(colours[c]), value_u2, start + rgb + 2 * c, record));
    }
    for (int a = 0; a < 3; ++a) {
        t->column[a].scale = las_number(t, 131 + 8 * a, value_f8);
        t->column[a].offset = las_number(t, 155 + 8 * a, value_f8);
    }
    return spira::status_success();
}

// The number of points: version 1.4 has it in 64 bits.
SPIRA_API double las_points(const table *t, int64_t header) {
    const bool wide = t->data[25] >= 4 && header >= 375;
    const double old = las_number(t, 107, value_u4);
    const double now = wide ? las_number(t, 247, value_u8) : 0;
    return now > 0 ? now : old;
}

// Reads a .las file into a table: x, y, z in the units of its coordinate system (metres mostly).
SPIRA_API spira::status las_read(const char *path, table *t, scan_reason *why) {
    const int least[] = {20, 28, 26, 34, 57, 63,
                         30, 36, 38, 59, 67}; // bytes of a record, by format
    SCAN_REQUIRE(t->bytes >= 4 && memcmp(t->data, "LASF", 4) == 0, why, spira::status_file_format,
                 path, "does not begin with LASF");
    SCAN_REQUIRE(t->bytes >= 227, why, spira::status_file_format, path, "ends within its header");
    SCAN_REQUIRE(t->data[24] == 1 && t->data[25] <= 4, why, spira::status_file_format, path,
                 "version %d.%d; known are 1.0 to 1.4", t->data[24], t->data[25]);
    const int format = t->data[104];
    const int64_t header = (int64_t)las_number(t, 94, value_u2);
    const int64_t start = (int64_t)las_number(t, 96, value_u4);
    const int64_t record = (int64_t)las_number(t, 105, value_u2);
    SCAN_REQUIRE(format < 64, why, spira::status_file_format, path,
                 "is LAZ, which is compressed: convert it with laszip or pdal translate");
    SCAN_REQUIRE(format <= 10 && record >= least[format], why, spira::status_file_format, path,
                 "point format %d with records of %lld bytes", format, (long long)record);
    SCAN_REQUIRE(header >= 227 && header <= t->bytes, why, spira::status_file_format, path,
                 "a header of %lld bytes", (long long)header);
    const double points = las_points(t, header);
    SCAN_REQUIRE(points <= INT32_MAX, why, spira::status_bad_size, path,
                 "%.0f points; at most 2^31 - 1", points);
    t->rows = (int64_t)points;
    SCAN_REQUIRE(start >= header && start <= t->bytes && (t->bytes - start) / record >= t->rows,
                 why, spira::status_file_format, path,
                 "ends before its %lld points of %lld bytes from byte %lld on", (long long)t->rows,
                 (long long)record, (long long)start);
    SPIRA_TRY(las_columns(t, format, start, record));
    for (int a = 0; a < 3; ++a) {
        const table_column *c = t->column + a;
        SCAN_REQUIRE(isfinite(c->scale) && c->scale != 0 && isfinite(c->offset), why,
                     spira::status_file_format, path, "scale %g and offset %g along %c", c->scale,
                     c->offset, "xyz"[a]);
    }
    return spira::status_success();
}

} // namespace scan

#endif
