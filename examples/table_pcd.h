// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/table_pcd.h: the Point Cloud Library's .pcd: text, binary and binary_compressed.
#ifndef SPIRA_EXAMPLES_TABLE_PCD_H
#define SPIRA_EXAMPLES_TABLE_PCD_H

#include "table_text.h"

namespace scan {

enum { pcd_fields_most = 256 };

// The header. A field of several values becomes as many columns.
struct pcd_header {
    int fields;
    table_word name[pcd_fields_most];
    int64_t size[pcd_fields_most];  // bytes of a value
    int64_t count[pcd_fields_most]; // values of a point; 0: the field takes no bytes
    char type[pcd_fields_most];     // I, U or F
    int64_t width, height, points;  // -1: not said
    table_word data;
};

// Takes the words of a line as names, types or numbers, one for each field.
SPIRA_API spira::status pcd_take_fields(const char *path, const char *key, const char *at,
                                        const char *line_end, pcd_header *h, scan_reason *why) {
    int found = 0;
    for (table_word word; table_word_next(&at, line_end, &word); ++found) {
        SCAN_REQUIRE(found < pcd_fields_most, why, spira::status_file_format, path,
                     "more than %d fields", (int)pcd_fields_most);
        int64_t number = 0;
        if (key[0] == 'F') {
            h->name[found] = word;
        } else if (key[0] == 'T') {
            h->type[found] = word.text[0];
        } else {
            SCAN_REQUIRE(table_word_count(word, &number), why, spira::status_file_format, path,
                         "%s: \"%.*s\" is no number", key, table_word_print(word), word.text);
            (key[0] == 'S' ? h->size : h->count)[found] = number;
        }
    }
    SCAN_REQUIRE(key[0] == 'F' || found == h->fields, why, spira::status_file_format, path,
                 "%s has %d values for %d fields", key, found, h->fields);
    h->fields = found;
    return spira::status_success();
}

// Takes a line of the header. Lines of unknown keys are left out, as other readers do.
SPIRA_API spira::status pcd_take_line(const char *path, const char *line, const char *line_end,
                                      pcd_header *h, scan_reason *why) {
    table_word key, word;
    table_word_next(&line, line_end, &key);
    if (table_word_is(key, "FIELDS") || table_word_is(key, "COLUMNS")) {
        SPIRA_TRY(pcd_take_fields(path, "FIELDS", line, line_end, h, why));
        for (int f = 0; f < h->fields; ++f) {
            h->size[f] = 4;
            h->count[f] = 1;
            h->type[f] = 'F';
        }
        return spira::status_success();
    }
    const char *const lists[] = {"SIZE", "TYPE", "COUNT"};
    for (const char *list : lists) {
        if (table_word_is(key, list)) {
            return pcd_take_fields(path, list, line, line_end, h, why);
        }
    }
    int64_t *const numbers[] = {&h->width, &h->height, &h->points};
    const char *const names[] = {"WIDTH", "HEIGHT", "POINTS"};
    for (int i = 0; i < 3; ++i) {
        if (table_word_is(key, names[i])) {
            SCAN_REQUIRE(table_word_next(&line, line_end, &word) &&
                             table_word_count(word, numbers[i]),
                         why, spira::status_file_format, path, "%s is no number", names[i]);
        }
    }
    if (table_word_is(key, "DATA")) {
        table_word_next(&line, line_end, &h->data);
    }
    return spira::status_success();
}

// Finds the type of a field. Returns false if there is none of its letter and size.
SPIRA_API bool pcd_type(char letter, int64_t size, value_type *type) {
    const char *const letters = "IUIUIUIUFFF"; // in the order of value_type
    for (int i = 0; i < value_types; ++i) {
        if (letters[i] == letter && value_bytes((value_type)i) == size) {
            *type = (value_type)i;
            return true;
        }
    }
    return false;
}

// Adds the columns. planes: the values of a field lie beside each other (binary_compressed), point
// after point otherwise. *record: bytes of a point
SPIRA_API spira::status pcd_columns(const char *path, const pcd_header *h, bool planes, int64_t at,
                                    table *t, int64_t *record, scan_reason *why) {
    *record = 0;
    for (int f = 0; f < h->fields; ++f) {
        SCAN_REQUIRE(h->count[f] < table_columns_most && h->size[f] <= 8, why,
                     spira::status_file_format, path, "field %d has %lld values of %lld bytes", f,
                     (long long)h->count[f], (long long)h->size[f]);
        *record += h->size[f] * h->count[f];
    }
    int64_t from = 0;
    for (int f = 0; f < h->fields; ++f) {
        const bool padding = table_word_is(h->name[f], "_");
        value_type type = value_u1;
        SCAN_REQUIRE(padding || pcd_type(h->type[f], h->size[f], &type), why,
                     spira::status_file_format, path,
                     "field %d has the type %c%lld; known are I and U of 1, 2, 4, 8 bytes, F of "
                     "2, 4, 8",
                     f, h->type[f], (long long)h->size[f]);
        for (int64_t i = 0; i < h->count[f]; ++i, from += h->size[f]) {
            if (!padding || (table_word_is(h->data, "ascii"))) {
                SPIRA_TRY(table_add(t, h->name[f].text, h->name[f].length, type,
                                    at + (planes ? from * h->points : from),
                                    planes ? h->size[f] : *record));
            }
        }
    }
    SCAN_REQUIRE(t->columns > 0, why, spira::status_file_format, path,
                 "its fields have no values (COUNT 0, or padding)");
    return spira::status_success();
}

// Unpacks LZF: a byte below 32 is followed by that many plain bytes and one more; any other tells a
// length and a distance back. Returns false if the packed bytes do not give `to_bytes`.
SPIRA_API bool pcd_unpack(const unsigned char *from, int64_t from_bytes, unsigned char *to,
                          int64_t to_bytes) {
    int64_t at = 0, made = 0;
    while (at < from_bytes) {
        const int code = from[at++];
        if (code < 32) {
            const int plain = code + 1;
            if (at + plain > from_bytes || made + plain > to_bytes) {
                return false;
            }
            memcpy(to + made, from + at, (size_t)plain);
            at += plain;
            made += plain;
            continue;
        }
        int length = code >> 5;
        if (length == 7 && at < from_bytes) {
            length += from[at++];
        }
        if (at >= from_bytes) {
            return false;
        }
        int64_t source = made - ((code & 31) << 8 | from[at++]) - 1;
        if (source < 0 || made + length + 2 > to_bytes) {
            return false;
        }
        for (int i = 0; i < length + 2; ++i) { // they may overlap
            to[made++] = to[source++];
        }
    }
    return made == to_bytes;
}

SPIRA_API uint32_t pcd_u4(const unsigned char *at) {
    return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

// Reads the data of binary_compressed: two sizes, and the packed bytes.
SPIRA_API spira::status pcd_read_packed(const char *path, const pcd_header *h, int64_t start,
                                        table *t, scan_reason *why) {
    int64_t record;
    SCAN_REQUIRE(t->bytes - start >= 8, why, spira::status_file_format, path,
                 "ends before its packed data");
    const int64_t packed = pcd_u4(t->data + start), full = pcd_u4(t->data + start + 4);
    SPIRA_TRY(pcd_columns(path, h, true, 0, t, &record, why));
    SCAN_REQUIRE(full == record * h->points, why, spira::status_file_format, path,
                 "%lld packed bytes for %lld points of %lld bytes", (long long)full,
                 (long long)h->points, (long long)record);
    SCAN_REQUIRE(packed <= t->bytes - start - 8, why, spira::status_file_format, path,
                 "ends within its packed data");
    unsigned char *data = (unsigned char *)malloc((size_t)full + 1);
    SCAN_REQUIRE(data, why, spira::status_workspace, path, "no %lld bytes of memory",
                 (long long)full);
    const bool good = pcd_unpack(t->data + start + 8, packed, data, full);
    free(t->data);
    t->data = data;
    t->bytes = full;
    t->rows = h->points;
    SCAN_REQUIRE(good, why, spira::status_file_format, path, "its packed data are damaged");
    return spira::status_success();
}

// Reads the header up to its line DATA.
SPIRA_API spira::status pcd_read_header(const char *path, text_lines *lines, pcd_header *h,
                                        scan_reason *why) {
    h->fields = 0;
    h->width = h->height = h->points = -1;
    h->data = {"", 0};
    const char *line, *line_end;
    while (h->data.length == 0) {
        SCAN_REQUIRE(text_line_next(lines, &line, &line_end), why, spira::status_file_format, path,
                     "has no line DATA, so it is no PCD (nuScenes' files end in .pcd.bin)");
        SPIRA_TRY(pcd_take_line(path, line, line_end, h, why));
    }
    SCAN_REQUIRE(h->fields > 0, why, spira::status_file_format, path, "has no line FIELDS");
    const double area = (double)h->width * (double)(h->height < 0 ? 1 : h->height);
    if (h->points < 0 && area <= INT32_MAX) {
        h->points = (int64_t)area; // negative without WIDTH
    }
    SCAN_REQUIRE(h->points >= 0 && h->points <= INT32_MAX, why, spira::status_file_format, path,
                 "has neither POINTS nor WIDTH, or more than 2^31 - 1");
    SCAN_REQUIRE(h->width < 0 || h->height < 0 || area == (double)h->points, why,
                 spira::status_file_format, path,
                 "has %lld POINTS, but WIDTH %lld times HEIGHT %lld: cut off, or joined by hand?",
                 (long long)h->points, (long long)h->width, (long long)h->height);
    return spira::status_success();
}

// Reads a .pcd file into a table. VIEWPOINT is not applied: points are as they stand in the file.
SPIRA_API spira::status pcd_read(const char *path, table *t, scan_reason *why) {
    pcd_header h;
    text_lines lines = text_lines_of(t);
    SPIRA_TRY(pcd_read_header(path, &lines, &h, why));
    int64_t start = lines.at - (const char *)t->data, record;
    if (table_word_is(h.data, "binary_compressed")) {
        return pcd_read_packed(path, &h, start, t, why);
    }
    SPIRA_TRY(pcd_columns(path, &h, false, start, t, &record, why));
    if (table_word_is(h.data, "ascii")) {
        return text_rows(path, &lines, h.points, true, t, why);
    }
    SCAN_REQUIRE(table_word_is(h.data, "binary"), why, spira::status_file_format, path,
                 "DATA is %.*s; known are ascii, binary and binary_compressed",
                 table_word_print(h.data), h.data.text);
    t->rows = h.points;
    SCAN_REQUIRE((t->bytes - start) / (record ? record : 1) >= h.points, why,
                 spira::status_file_format, path, "ends after %lld of %lld points of %lld bytes",
                 (long long)((t->bytes - start) / (record ? record : 1)), (long long)h.points,
                 (long long)record);
    return spira::status_success();
}

} // namespace scan

#endif
