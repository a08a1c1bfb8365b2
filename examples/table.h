// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/table.h: a file in memory, and rows of typed columns in it. A value is read as double,
// whatever its type. scan_file.h reads the formats into a table.
#ifndef SPIRA_EXAMPLES_TABLE_H
#define SPIRA_EXAMPLES_TABLE_H

#include "../spira/status.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

namespace scan {

// Why a file was refused: the file, the place in it, the remedy. The status points to it.
struct scan_reason {
    char text[480];
};

// Writes the reason, as printf does, behind the file's name. Returns the status that has it.
SPIRA_API spira::status scan_refuse(scan_reason *why, spira::status_code code, const char *path,
                                    const char *format, ...) {
    const size_t size = sizeof why->text;
    const int length = snprintf(why->text, size, "%s: ", path);
    const size_t used = length < 0 ? 0 : (size_t)length < size ? (size_t)length : size - 1;
    va_list values;
    va_start(values, format);
    vsnprintf(why->text + used, size - used, format, values);
    va_end(values);
    return spira::status_make(code, why->text, 0);
}

#define SCAN_REQUIRE(condition, why, code, path, ...)                                              \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            return scan_refuse((why), (code), (path), __VA_ARGS__);                                \
        }                                                                                          \
    } while (0)

// ---- values -------------------------------------------------------------------------------------

enum value_type {
    value_i1,
    value_u1,
    value_i2,
    value_u2,
    value_i4,
    value_u4,
    value_i8,
    value_u8,
    value_f2,
    value_f4,
    value_f8,
    value_types
};

SPIRA_API int value_bytes(value_type type) {
    const int bytes[value_types] = {1, 1, 2, 2, 4, 4, 8, 8, 2, 4, 8};
    return bytes[type];
}

SPIRA_API bool value_is_float(value_type type) {
    return type >= value_f2;
}

// Whether the machine's bytes run from the lowest to the highest.
SPIRA_API bool value_machine_is_little() {
    const uint16_t one = 1;
    unsigned char first;
    memcpy(&first, &one, 1);
    return first == 1;
}

SPIRA_API double value_of_half(uint16_t bits) {
    const int exponent = bits >> 10 & 31, fraction = bits & 1023;
    const double size = exponent == 0    ? ldexp(fraction, -24)
                        : exponent == 31 ? (fraction ? (double)NAN : (double)INFINITY)
                                         : ldexp(1024 + fraction, exponent - 25);
    return bits >> 15 ? -size : size;
}

// A value in the file's bytes; 64-bit integers beyond 2^53 are rounded.
SPIRA_API double value_read(const unsigned char *at, value_type type, bool big) {
    unsigned char bytes[8] = {};
    const int size = value_bytes(type);
    for (int i = 0; i < size; ++i) {
        bytes[i] = at[big == value_machine_is_little() ? size - 1 - i : i];
    }
    int8_t i1;
    int16_t i2;
    uint16_t u2;
    int32_t i4;
    uint32_t u4;
    int64_t i8;
    uint64_t u8;
    float f4;
    double f8;
    switch (type) {
    case value_i1:
        return memcpy(&i1, bytes, 1), i1;
    case value_u1:
        return bytes[0];
    case value_i2:
        return memcpy(&i2, bytes, 2), i2;
    case value_u2:
        return memcpy(&u2, bytes, 2), u2;
    case value_i4:
        return memcpy(&i4, bytes, 4), i4;
    case value_u4:
        return memcpy(&u4, bytes, 4), u4;
    case value_i8:
        return memcpy(&i8, bytes, 8), (double)i8;
    case value_u8:
        return memcpy(&u8, bytes, 8), (double)u8;
    case value_f2:
        return memcpy(&u2, bytes, 2), value_of_half(u2);
    case value_f4:
        return memcpy(&f4, bytes, 4), (double)f4;
    default:
        return memcpy(&f8, bytes, 8), f8;
    }
}

// ---- tables -------------------------------------------------------------------------------------

enum { table_name_bytes = 48, table_columns_most = 65536 };

struct table_column {
    char name[table_name_bytes]; // empty where the file names none
    value_type type;
    bool big;     // the bytes of a value run from the highest to the lowest
    int64_t at;   // the byte of row 0
    int64_t step; // bytes from row to row
    double scale; // a value is stored * scale + offset
    double offset;
};

// All zero is the empty table, which owns no memory.
struct table {
    unsigned char *data; // [bytes] the file, or what was unpacked from it
    int64_t bytes;
    int64_t rows;
    table_column *column; // [columns]
    int columns;
};

SPIRA_API void table_free(table *t) {
    free(t->data);
    free(t->column);
    memset(t, 0, sizeof *t);
}

SPIRA_API double table_value(const table *t, int64_t row, int column) {
    const table_column *c = t->column + column;
    return value_read(t->data + c->at + row * c->step, c->type, c->big) * c->scale + c->offset;
}

// Appends a column. name: length bytes, not terminated; longer ones are cut
SPIRA_API spira::status table_add(table *t, const char *name, size_t length, value_type type,
                                  int64_t at, int64_t step) {
    SPIRA_REQUIRE(t->columns < table_columns_most, spira::status_bad_size,
                  "columns of a file (at most 65536)", t->columns);
    const size_t most = (size_t)t->columns + 1;
    if ((most & (most - 1)) == 0) { // room for the next power of two
        void *more = realloc(t->column, 2 * most * sizeof *t->column);
        SPIRA_REQUIRE(more, spira::status_workspace, "bytes of memory for the columns", 0);
        t->column = (table_column *)more;
    }
    table_column *c = t->column + t->columns++;
    memset(c, 0, sizeof *c);
    memcpy(c->name, name, length < sizeof c->name ? length : sizeof c->name - 1);
    c->type = type;
    c->at = at;
    c->step = step;
    c->scale = 1;
    return spira::status_success();
}

SPIRA_API bool table_same_name(const char *a, const char *b) {
    for (; *a && tolower((unsigned char)*a) == tolower((unsigned char)*b); ++a, ++b) {
    }
    return *a == *b;
}

// The first column that has one of the names (null at their end), in any case; -1: none has.
SPIRA_API int table_find(const table *t, const char *const *names) {
    for (; *names; ++names) {
        for (int c = 0; c < t->columns; ++c) {
            if (table_same_name(t->column[c].name, *names)) {
                return c;
            }
        }
    }
    return -1;
}

// Reads a file into memory, with a zero behind it: text ends. The caller frees *data, after an
// error too. A folder is opened, but not read.
//
// errors: status_file_open, detail errno; status_file_empty; status_workspace  no memory
SPIRA_API spira::status file_load(const char *path, unsigned char **data, int64_t *bytes) {
    *data = nullptr;
    *bytes = 0;
    FILE *file = fopen(path, "rb");
    SPIRA_REQUIRE(file, spira::status_file_open, path, errno);
    int64_t room = 0;
    size_t got = 1;
    bool memory = true;
    while (got > 0 && memory) {
        if (*bytes + 1 >= room) {
            room = room ? 2 * room : 1 << 16;
            void *more = realloc(*data, (size_t)room);
            memory = more != nullptr;
            *data = memory ? (unsigned char *)more : *data;
        }
        got = memory ? fread(*data + *bytes, 1, (size_t)(room - *bytes - 1), file) : 0;
        *bytes += (int64_t)got;
    }
    const int error = ferror(file) ? errno : 0;
    fclose(file);
    SPIRA_REQUIRE(memory, spira::status_workspace, path, room);
    SPIRA_REQUIRE(!error, spira::status_file_open, path, error);
    SPIRA_REQUIRE(*bytes > 0, spira::status_file_empty, path, 0);
    (*data)[*bytes] = 0;
    return spira::status_success();
}

SPIRA_API spira::status table_load(const char *path, table *t, scan_reason *why) {
    const spira::status s = file_load(path, &t->data, &t->bytes);
    SCAN_REQUIRE(s.code != spira::status_file_open, why, s.code, path, "%s",
                 strerror((int)s.detail));
    SCAN_REQUIRE(!spira::status_failed(s), why, s.code, path, "%s",
                 s.code == spira::status_file_empty ? "no bytes" : "no memory");
    return s;
}

// ---- text ---------------------------------------------------------------------------------------

// A word of a text: what lies between blanks, tabs, commas and semicolons of one line.
struct table_word {
    const char *text;
    size_t length;
};

// The end of a line: a line feed, a carriage return or the end of the text.
SPIRA_API const char *table_line_end(const char *at, const char *end) {
    while (at < end && *at != '\n' && *at != '\r') {
        ++at;
    }
    return at;
}

// The start of the next line. "\r\n" is one end.
SPIRA_API const char *table_line_next(const char *line_end, const char *end) {
    const bool both = line_end + 1 < end && line_end[0] == '\r' && line_end[1] == '\n';
    return line_end + (both ? 2 : line_end < end);
}

// Takes the next word of a line and moves *at behind it. Returns false at the line's end.
SPIRA_API bool table_word_next(const char **at, const char *line_end, table_word *word) {
    const char *p = *at;
    while (p < line_end && strchr(" \t,;", *p)) {
        ++p;
    }
    word->text = p;
    while (p < line_end && !strchr(" \t,;", *p)) {
        ++p;
    }
    word->length = (size_t)(p - word->text);
    *at = p;
    return word->length > 0;
}

SPIRA_API bool table_word_is(const table_word &word, const char *text) {
    return strlen(text) == word.length && memcmp(word.text, text, word.length) == 0;
}

// Bytes of a word to print, by "%.*s".
SPIRA_API int table_word_print(const table_word &word) {
    return word.length < 40 ? (int)word.length : 40;
}

// Returns false if the word is no number as a whole. "nan" and "inf" are.
SPIRA_API bool table_word_number(const table_word &word, double *value) {
    char text[64], *end;
    if (word.length == 0 || word.length >= sizeof text) {
        return false;
    }
    memcpy(text, word.text, word.length);
    text[word.length] = 0;
    *value = strtod(text, &end);
    return *end == 0;
}

// A count: digits alone, below 2^40. Returns false otherwise.
SPIRA_API bool table_word_count(const table_word &word, int64_t *value) {
    *value = 0;
    for (size_t i = 0; i < word.length; ++i) {
        if (word.text[i] < '0' || word.text[i] > '9' || *value >> 36) {
            return false;
        }
        *value = *value * 10 + (word.text[i] - '0');
    }
    return word.length > 0;
}

} // namespace scan

#endif
