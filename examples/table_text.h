// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/table_text.h: rows of numbers as text: .xyz, .txt, .csv, .asc, .pts, and the text forms
// of .pcd and .ply.
//
// Numbers are separated by blanks, tabs, commas or semicolons. Empty lines and those that begin
// with # or // are left out. The first line may name the columns.
#ifndef SPIRA_EXAMPLES_TABLE_TEXT_H
#define SPIRA_EXAMPLES_TABLE_TEXT_H

#include "table.h"

namespace scan {

// A text from which lines are taken.
struct text_lines {
    const char *at, *end;
    int64_t number; // of the line that was taken last, from 1 on
};

// Takes the next line with words. Returns false at the end.
SPIRA_API bool text_line_next(text_lines *lines, const char **line, const char **line_end) {
    while (lines->at < lines->end) {
        *line = lines->at;
        *line_end = table_line_end(lines->at, lines->end);
        lines->at = table_line_next(*line_end, lines->end);
        ++lines->number;
        const char *from = *line;
        table_word word;
        if (table_word_next(&from, *line_end, &word) && word.text[0] != '#' &&
            !(word.length > 1 && word.text[0] == '/' && word.text[1] == '/')) {
            return true;
        }
    }
    return false;
}

// Numbers in memory that grows.
struct text_numbers {
    double *value;
    int64_t count, room;
};

SPIRA_API spira::status text_number_add(text_numbers *numbers, double value) {
    if (numbers->count == numbers->room) {
        const int64_t room = numbers->room ? 2 * numbers->room : 4096;
        void *more = realloc(numbers->value, (size_t)room * sizeof(double));
        SPIRA_REQUIRE(more, spira::status_workspace, "bytes of memory for the numbers", room * 8);
        numbers->value = (double *)more;
        numbers->room = room;
    }
    numbers->value[numbers->count++] = value;
    return spira::status_success();
}

// Adds the numbers of one line, which must be `columns`.
SPIRA_API spira::status text_row_add(const char *path, const text_lines *lines, const char *line,
                                     const char *line_end, int columns, text_numbers *numbers,
                                     scan_reason *why) {
    int found = 0;
    table_word word;
    while (table_word_next(&line, line_end, &word)) {
        double value;
        SCAN_REQUIRE(table_word_number(word, &value), why, spira::status_file_format, path,
                     "line %lld: \"%.*s\" is no number", (long long)lines->number,
                     (int)(word.length < 40 ? word.length : 40), word.text);
        SPIRA_TRY(text_number_add(numbers, value));
        ++found;
    }
    SCAN_REQUIRE(found == columns, why, spira::status_file_format, path,
                 "line %lld has %d numbers, and the lines before it have %d",
                 (long long)lines->number, found, columns);
    return spira::status_success();
}

// The loop of text_rows, whose numbers are freed by it.
SPIRA_API spira::status text_rows_take(const char *path, text_lines *lines, int64_t rows,
                                       int columns, text_numbers *numbers, scan_reason *why) {
    const char *line, *line_end;
    for (int64_t row = 0; rows < 0 || row < rows; ++row) {
        if (!text_line_next(lines, &line, &line_end)) {
            SCAN_REQUIRE(rows < 0, why, spira::status_file_format, path,
                         "the text ends after %lld of %lld rows", (long long)row, (long long)rows);
            break;
        }
        SPIRA_TRY(text_row_add(path, lines, line, line_end, columns, numbers, why));
    }
    return spira::status_success();
}

// Makes rows of text the data of a table, whose columns have their names already.
//
// inputs:  lines  where the rows begin; rows  their number, -1: all that follow
SPIRA_API spira::status text_rows(const char *path, text_lines *lines, int64_t rows, table *t,
                                  scan_reason *why) {
    text_numbers numbers = {};
    const spira::status s = text_rows_take(path, lines, rows, t->columns, &numbers, why);
    if (spira::status_failed(s)) {
        free(numbers.value);
        return s;
    }
    free(t->data);
    t->data = (unsigned char *)numbers.value;
    t->bytes = numbers.count * (int64_t)sizeof(double);
    t->rows = numbers.count / t->columns;
    for (int c = 0; c < t->columns; ++c) {
        t->column[c].type = value_f8;
        t->column[c].big = !value_machine_is_little();
        t->column[c].at = c * (int64_t)sizeof(double);
        t->column[c].step = t->columns * (int64_t)sizeof(double);
    }
    return spira::status_success();
}

// Adds a column for each word of the first line. *named: these are names, no numbers.
SPIRA_API spira::status text_columns(const char *line, const char *line_end, table *t,
                                     bool *named) {
    *named = false;
    table_word word;
    for (const char *at = line; table_word_next(&at, line_end, &word);) {
        double unused;
        *named = *named || !table_word_number(word, &unused);
    }
    while (table_word_next(&line, line_end, &word)) {
        const bool quoted = word.length > 1 && word.text[0] == '"';
        SPIRA_TRY(table_add(t, word.text + quoted, *named ? word.length - 2 * quoted : 0, value_f8,
                            0, 0));
    }
    return spira::status_success();
}

// Reads a file of text into a table, behind the mark of UTF-8 if it has one. A first line with one
// number alone is a count of rows (.pts).
SPIRA_API spira::status text_read(const char *path, table *t, scan_reason *why) {
    text_lines lines = {(const char *)t->data, (const char *)t->data + t->bytes, 0};
    SCAN_REQUIRE(!memchr(t->data, 0, (size_t)t->bytes), why, spira::status_file_format, path,
                 "has bytes of 0, so it is no text");
    lines.at += t->bytes >= 3 && !memcmp(t->data, "\xef\xbb\xbf", 3) ? 3 : 0;
    const char *line, *line_end;
    text_lines before = lines;
    int64_t rows = -1;
    SCAN_REQUIRE(text_line_next(&lines, &line, &line_end), why, spira::status_file_empty, path,
                 "no rows");
    bool named;
    SPIRA_TRY(text_columns(line, line_end, t, &named));
    table_word word;
    if (t->columns == 1 && table_word_next(&line, line_end, &word) &&
        table_word_count(word, &rows)) {
        before = lines;
        t->columns = 0;
        SCAN_REQUIRE(text_line_next(&lines, &line, &line_end), why, spira::status_file_empty, path,
                     "no rows behind their number");
        SPIRA_TRY(text_columns(line, line_end, t, &named));
    }
    return text_rows(path, named ? &lines : &before, rows, t, why);
}

} // namespace scan

#endif
