// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/table_ply.h: .ply, as text or binary of either byte order: its element "vertex".
#ifndef SPIRA_EXAMPLES_TABLE_PLY_H
#define SPIRA_EXAMPLES_TABLE_PLY_H

#include "table_text.h"

namespace scan {

enum { ply_properties_most = 512 };

struct ply_property {
    table_word name;
    value_type type;
    value_type count_type; // of a list
    bool list;
};

struct ply_element {
    table_word name;
    int64_t count;
    int first, properties; // in ply_header.property
};

struct ply_header {
    table_word format; // ascii, binary_little_endian, binary_big_endian
    ply_element element[ply_properties_most];
    int elements;
    ply_property property[ply_properties_most];
    int properties;
};

// Finds a type by either of its names. Returns false if there is none.
SPIRA_API bool ply_type(const table_word &word, value_type *type) {
    static const struct {
        const char *name;
        value_type type;
    } names[] = {
        {"char", value_i1},   {"int8", value_i1},    {"uchar", value_u1},  {"uint8", value_u1},
        {"bool", value_u1},   {"short", value_i2},   {"int16", value_i2},  {"ushort", value_u2},
        {"uint16", value_u2}, {"int", value_i4},     {"int32", value_i4},  {"uint", value_u4},
        {"uint32", value_u4}, {"int64", value_i8},   {"uint64", value_u8}, {"float16", value_f2},
        {"float", value_f4},  {"float32", value_f4}, {"double", value_f8}, {"float64", value_f8}};
    for (const auto &n : names) {
        if (table_word_is(word, n.name)) {
            *type = n.type;
            return true;
        }
    }
    return false;
}

// Takes "TYPE NAME" or "list COUNT_TYPE TYPE NAME".
SPIRA_API spira::status ply_take_property(const char *path, int64_t number, const char *at,
                                          const char *line_end, ply_header *h, scan_reason *why) {
    SCAN_REQUIRE(h->elements > 0 && h->properties < ply_properties_most, why,
                 spira::status_file_format, path,
                 "line %lld: a property before any element, or more than %d", (long long)number,
                 (int)ply_properties_most);
    ply_property *p = h->property + h->properties++;
    ++h->element[h->elements - 1].properties;
    table_word word;
    bool good = table_word_next(&at, line_end, &word);
    p->list = good && table_word_is(word, "list");
    if (p->list) {
        good = table_word_next(&at, line_end, &word) && ply_type(word, &p->count_type) &&
               !value_is_float(p->count_type) && table_word_next(&at, line_end, &word);
    }
    good = good && ply_type(word, &p->type) && table_word_next(&at, line_end, &p->name);
    SCAN_REQUIRE(good, why, spira::status_file_format, path,
                 "line %lld is no property of a known type", (long long)number);
    return spira::status_success();
}

// Takes a line of the header. *ended: it was the last one.
SPIRA_API spira::status ply_take_line(const char *path, int64_t number, const char *line,
                                      const char *line_end, ply_header *h, bool *ended,
                                      scan_reason *why) {
    table_word key, word;
    table_word_next(&line, line_end, &key);
    *ended = table_word_is(key, "end_header");
    if (table_word_is(key, "format")) {
        table_word_next(&line, line_end, &h->format);
    } else if (table_word_is(key, "element")) {
        SCAN_REQUIRE(h->elements < ply_properties_most, why, spira::status_file_format, path,
                     "more than %d elements", (int)ply_properties_most);
        ply_element *e = h->element + h->elements++;
        *e = {};
        e->first = h->properties;
        SCAN_REQUIRE(table_word_next(&line, line_end, &e->name) &&
                         table_word_next(&line, line_end, &word) &&
                         table_word_count(word, &e->count),
                     why, spira::status_file_format, path,
                     "line %lld is no element with its number", (long long)number);
    } else if (table_word_is(key, "property")) {
        return ply_take_property(path, number, line, line_end, h, why);
    }
    return spira::status_success(); // comment, obj_info and what is unknown
}

SPIRA_API spira::status ply_read_header(const char *path, text_lines *lines, ply_header *h,
                                        scan_reason *why) {
    h->elements = h->properties = 0;
    h->format = {"", 0};
    const char *line, *line_end;
    SCAN_REQUIRE(text_line_next(lines, &line, &line_end) && line_end - line == 3 &&
                     memcmp(line, "ply", 3) == 0,
                 why, spira::status_file_format, path, "does not begin with a line ply");
    const bool lone = *line_end == '\r' && line_end[1] != '\n'; // lines end in a carriage return
    for (bool ended = false; !ended;) {
        SCAN_REQUIRE(text_line_next(lines, &line, &line_end), why, spira::status_file_format, path,
                     "has no line end_header");
        SPIRA_TRY(ply_take_line(path, lines->number, line, line_end, h, &ended, why));
    }
    lines->at = lone ? line_end + 1 : lines->at; // a line feed is the first byte of the data then
    return spira::status_success();
}

// Bytes of one record of an element at `at`; -1: it does not fit before `end`.
SPIRA_API int64_t ply_record_bytes(const ply_header *h, const ply_element *e, bool big,
                                   const unsigned char *at, const unsigned char *end) {
    int64_t bytes = 0;
    for (int i = 0; i < e->properties; ++i) {
        const ply_property *p = h->property + e->first + i;
        int64_t values = 1;
        if (p->list) {
            if (end - at - bytes < value_bytes(p->count_type)) {
                return -1;
            }
            const double count = value_read(at + bytes, p->count_type, big);
            bytes += value_bytes(p->count_type);
            if (!(count >= 0 && count <= (double)(end - at))) {
                return -1;
            }
            values = (int64_t)count;
        }
        bytes += values * value_bytes(p->type);
    }
    return bytes <= end - at ? bytes : -1;
}

// Moves *at past an element.
SPIRA_API spira::status ply_skip(const char *path, const ply_header *h, const ply_element *e,
                                 text_lines *lines, scan_reason *why) {
    const bool text = table_word_is(h->format, "ascii");
    const bool big = table_word_is(h->format, "binary_big_endian");
    for (int64_t i = 0; i < e->count && e->properties > 0; ++i) {
        const char *line, *line_end;
        const int64_t bytes = text ? 0
                                   : ply_record_bytes(h, e, big, (const unsigned char *)lines->at,
                                                      (const unsigned char *)lines->end);
        SCAN_REQUIRE(text ? text_line_next(lines, &line, &line_end) : bytes >= 0, why,
                     spira::status_file_format, path,
                     "ends within its element %.*s, at %lld of %lld", table_word_print(e->name),
                     e->name.text, (long long)i, (long long)e->count);
        lines->at += bytes;
    }
    return spira::status_success();
}

// Adds the properties of the vertices as columns. *record: bytes of a vertex
SPIRA_API spira::status ply_columns(const char *path, const ply_header *h, const ply_element *e,
                                    int64_t start, table *t, int64_t *record, scan_reason *why) {
    *record = 0;
    for (int i = 0; i < e->properties; ++i) {
        const ply_property *p = h->property + e->first + i;
        SCAN_REQUIRE(!p->list, why, spira::status_file_format, path,
                     "its vertices hold a list (%.*s): save points alone",
                     table_word_print(p->name), p->name.text);
        SPIRA_TRY(table_add(t, p->name.text, p->name.length, p->type, start + *record, 0));
        t->column[t->columns - 1].big = table_word_is(h->format, "binary_big_endian");
        *record += value_bytes(p->type);
    }
    for (int c = 0; c < t->columns; ++c) {
        t->column[c].step = *record;
    }
    return spira::status_success();
}

// The loop and the end of ply_read, with its header.
SPIRA_API spira::status ply_read_body(const char *path, const ply_header *h, text_lines *lines,
                                      table *t, scan_reason *why) {
    const ply_element *e = h->element;
    const ply_element *const end = h->element + h->elements;
    for (; e < end && !table_word_is(e->name, "vertex"); ++e) {
        SPIRA_TRY(ply_skip(path, h, e, lines, why));
    }
    SCAN_REQUIRE(e < end && e->properties > 0, why, spira::status_file_format, path,
                 "has no element vertex with properties");
    SCAN_REQUIRE(e->count <= INT32_MAX, why, spira::status_bad_size, path,
                 "more than 2^31 - 1 vertices");
    const int64_t start = lines->at - (const char *)t->data;
    int64_t record;
    SPIRA_TRY(ply_columns(path, h, e, start, t, &record, why));
    if (table_word_is(h->format, "ascii")) {
        return text_rows(path, lines, e->count, e + 1 == end, t, why);
    }
    t->rows = e->count;
    SCAN_REQUIRE((t->bytes - start) / record >= e->count, why, spira::status_file_format, path,
                 "ends after %lld of %lld vertices of %lld bytes",
                 (long long)((t->bytes - start) / record), (long long)e->count, (long long)record);
    return spira::status_success();
}

// Reads the vertices of a .ply file into a table.
SPIRA_API spira::status ply_read(const char *path, table *t, scan_reason *why) {
    ply_header *h = (ply_header *)malloc(sizeof *h);
    SCAN_REQUIRE(h, why, spira::status_workspace, path, "no memory for the header");
    text_lines lines = text_lines_of(t);
    spira::status s = ply_read_header(path, &lines, h, why);
    const bool known = table_word_is(h->format, "ascii") ||
                       table_word_is(h->format, "binary_little_endian") ||
                       table_word_is(h->format, "binary_big_endian");
    if (!spira::status_failed(s)) {
        s = known ? ply_read_body(path, h, &lines, t, why)
                  : scan_refuse(why, spira::status_file_format, path,
                                "its format is none of ascii, binary_little_endian, "
                                "binary_big_endian");
    }
    free(h);
    return s;
}

} // namespace scan

#endif
