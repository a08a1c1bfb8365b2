// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/table_text.h: rows of numbers as text: .xyz, .txt, .csv, .asc, .pts, and the text forms
// of .pcd and .ply.
//
// Numbers are separated by blanks, tabs, commas or semicolons. Empty lines and those that begin
// with # or // are left out. The first line may name the columns; so may a comment in front of the
// first row, as CloudCompare and numpy.savetxt write it.
#ifndef SPIRA_EXAMPLES_TABLE_TEXT_H
#define SPIRA_EXAMPLES_TABLE_TEXT_H

#include "table.h"

namespace scan {

// A text from which lines are taken.
struct text_lines {
    const char *at, *end;
    int64_t number; // of the line that was taken last, from 1 on
};

// The lines of a file, behind the mark of UTF-8 if it has one.
SPIRA_API text_lines text_lines_of(const table *t) {
    const char *const data = (const char *)t->data;
    const bool marked = t->bytes >= 3 && memcmp(data, "\xef\xbb\xbf", 3) == 0;
    return {data + (marked ? 3 : 0), data + t->bytes, 0};
}

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

// What is wrong with the separators of a line of numbers: null, if nothing is.
SPIRA_API const char *text_separators_fault(const char *line, const char *line_end) {
    bool word = false, blank = false, semicolon = false;
    bool decimal = false; // a comma between two digits
    char mark = 0;        // a comma or a semicolon since the last word
    for (const char *at = line; at < line_end; ++at) {
        const bool inside = at > line && at + 1 < line_end;
        semicolon = semicolon || *at == ';';
        decimal = decimal || (*at == ',' && inside && isdigit((unsigned char)at[-1]) &&
                              isdigit((unsigned char)at[1]));
        if (*at == ',' || *at == ';') {
            if (mark || !word) {
                return "an empty field";
            }
            mark = *at;
        } else if (*at != ' ' && *at != '\t') {
            blank = blank || (word && !mark && (at[-1] == ' ' || at[-1] == '\t'));
            word = true;
            mark = 0;
        }
    }
    return decimal && (semicolon || blank) ? "decimal commas: write points" : nullptr;
}

// Adds the numbers of one line, which must be `columns`.
SPIRA_API spira::status text_row_add(const char *path, const text_lines *lines, const char *line,
                                     const char *line_end, int columns, text_numbers *numbers,
                                     scan_reason *why) {
    int found = 0;
    table_word word;
    const char *const fault = text_separators_fault(line, line_end);
    SCAN_REQUIRE(!fault, why, spira::status_file_format, path, "line %lld has %s",
                 (long long)lines->number, fault);
    while (table_word_next(&line, line_end, &word)) {
        double value;
        SCAN_REQUIRE(table_word_number(word, &value), why, spira::status_file_format, path,
                     "line %lld: \"%.*s\" is no number", (long long)lines->number,
                     table_word_print(word), word.text);
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
// inputs:  lines  where the rows begin; rows  their number, -1: all that follow; last: nothing may
//          stand behind them
SPIRA_API spira::status text_rows(const char *path, text_lines *lines, int64_t rows, bool last,
                                  table *t, scan_reason *why) {
    text_numbers numbers = {};
    spira::status s = text_rows_take(path, lines, rows, t->columns, &numbers, why);
    const char *line, *line_end;
    if (!spira::status_failed(s) && last && text_line_next(lines, &line, &line_end)) {
        s = scan_refuse(why, spira::status_file_format, path,
                        "line %lld stands behind the %lld rows that it says it has: joined by "
                        "hand?",
                        (long long)lines->number, (long long)rows);
    }
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

// Adds a column for each word of the first line. *named: these are names, no numbers. A column
// without a name in front of others (pandas' index) is left out, as padding is.
SPIRA_API spira::status text_columns(const char *line, const char *line_end, table *t,
                                     bool *named) {
    *named = false;
    table_word word;
    for (const char *at = line; table_word_next(&at, line_end, &word);) {
        double unused;
        *named = *named || !table_word_number(word, &unused);
    }
    if (*named && line < line_end && strchr(",;\t", *line)) {
        SPIRA_TRY(table_add(t, "_", 1, value_f8, 0, 0));
    }
    while (table_word_next(&line, line_end, &word)) {
        const bool quoted = word.length > 1 && word.text[0] == '"';
        const size_t length = word.length - 2 * quoted;
        SPIRA_TRY(table_add(t, length ? word.text + quoted : "_", *named ? length + !length : 0,
                            value_f8, 0, 0));
    }
    return spira::status_success();
}

// Takes the names of the columns from the last comment between two places of a text that has as
// many words as there are columns, x, y and z among them.
SPIRA_API spira::status text_columns_of_comments(const char *from, const char *to, table *t) {
    for (const char *end; from < to; from = table_line_next(end, to)) {
        end = table_line_end(from, to);
        const char *const line = from + strspn(from, " \t#/");
        table named = {};
        bool names;
        spira::status s =
            line < end ? text_columns(line, end, &named, &names) : spira::status_success();
        const char *const axes[3][2] = {{"x", nullptr}, {"y", nullptr}, {"z", nullptr}};
        bool all = named.columns == t->columns;
        for (int a = 0; a < 3; ++a) {
            all = all && table_find(&named, axes[a]) >= 0;
        }
        for (int c = 0; all && c < t->columns; ++c) {
            memcpy(t->column[c].name, named.column[c].name, sizeof t->column[c].name);
        }
        table_free(&named);
        SPIRA_TRY(s);
    }
    return spira::status_success();
}

// Reads a file of text into a table. A first line with one number alone is a count of rows (.pts).
SPIRA_API spira::status text_read(const char *path, table *t, scan_reason *why) {
    text_lines lines = text_lines_of(t), before = lines;
    SCAN_REQUIRE(!memchr(t->data, 0, (size_t)t->bytes), why, spira::status_file_format, path,
                 "has bytes of 0, so it is no text in UTF-8");
    const char *line, *line_end;
    int64_t rows = -1;
    SCAN_REQUIRE(text_line_next(&lines, &line, &line_end), why, spira::status_file_empty, path,
                 "no rows");
    bool named;
    SPIRA_TRY(text_columns(line, line_end, t, &named));
    table_word word;
    const char *at = line;
    if (t->columns == 1 && table_word_next(&at, line_end, &word) && table_word_count(word, &rows)) {
        before = lines;
        t->columns = 0;
        SCAN_REQUIRE(text_line_next(&lines, &line, &line_end), why, spira::status_file_empty, path,
                     "no rows behind their number");
        SPIRA_TRY(text_columns(line, line_end, t, &named));
    }
    if (!named) {
        SPIRA_TRY(text_columns_of_comments(before.at, line, t));
    }
    return text_rows(path, named ? &lines : &before, rows, rows >= 0, t, why);
}

} // namespace scan

#endif
