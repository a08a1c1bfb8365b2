// spira/conv/tune_text.h: tuning records as text and as C++.
//
// Text, version 3. The first line names the version; every record is one line (wrapped here):
//
//   spira tuning records, version 3
//   capability=90 multiprocessors=132 volume=27 cin=16 cin2=0 cout=16 type=fp16 outputs=65536
//   density=2 deterministic=0 dataflow=os tiles=1 slices=1 split=2 threshold=0 us=13.912
//   error=0.213
//
// All fields are present, in this order, separated by one space. Numbers are decimal; `us` and
// `error` have three digits after the point. Empty lines and lines that begin with # are skipped.
// The text does not depend on the locale. Versions 1 and 2, of programs with another layout, are
// refused by their number.
#ifndef SPIRA_CONV_TUNE_TEXT_H
#define SPIRA_CONV_TUNE_TEXT_H

#include "tune_record.h"

#include <string.h>

namespace spira {

enum {
    tune_version = 3,
    tune_line_most = 320, // bytes: every line and initialiser is shorter
};

// ---- the fields of a record ---------------------------------------------------------------------

enum { tune_fields = 17, tune_field_type = 6, tune_field_dataflow = 10, tune_field_us = 15 };

struct tune_field {
    const char *name;
    int64_t least, most;
};

// Name and range, in the order of the text. From tune_field_us on values are thousandths.
SPIRA_API tune_field tune_field_of(int field) {
    static const tune_field fields[tune_fields] = {
        {"capability", 10, 9999},
        {"multiprocessors", 1, 65535},
        {"volume", 1, kernel_volume_max},
        {"cin", 1, conv_channels_max},
        {"cin2", 0, conv_channels_max},
        {"cout", 1, conv_channels_max},
        {"type", numeric_f32, numeric_bf16},
        {"outputs", 1, 1 << 30},
        {"density", 1, kernel_volume_max},
        {"deterministic", 0, 1},
        {"dataflow", 0, tune_dataflows - 1},
        {"tiles", 0, 1024},
        {"slices", 0, 1024},
        {"split", 0, 1024},
        {"threshold", 0, tune_threshold_most},
        {"us", 1, 1000000000000},
        {"error", 0, 1000},
    };
    return fields[field];
}

SPIRA_API const char *tune_name_of(const char *const *names, int count, int64_t value) {
    return value >= 0 && value < count ? names[value] : "?";
}

// The name of a value, or null for numbers.
SPIRA_API const char *tune_value_name(int field, int64_t value) {
    static const char *const dataflows[tune_dataflows] = {"os", "ws", "ws-det", "hybrid",
                                                          "hybrid-det"};
    return field == tune_field_type       ? numeric_name((numeric)value)
           : field == tune_field_dataflow ? tune_name_of(dataflows, tune_dataflows, value)
                                          : nullptr;
}

struct tune_values {
    int64_t of[tune_fields];
};

SPIRA_API tune_values tune_values_of(const tune_record *r) {
    const tune_key *k = &r->key;
    const conv_shape *s = &k->shape;
    const tune_choice *c = &r->choice;
    tune_values v = {{k->gpu.capability, k->gpu.multiprocessors, s->volume, s->cin, s->cin2,
                      s->cout, s->type, k->outputs, k->density, k->deterministic, c->dataflow,
                      c->tiles, c->slices, c->split, c->threshold, r->measure.ns,
                      r->measure.error}};
    return v;
}

// The record of values that are within their ranges.
SPIRA_API tune_record tune_record_of(const tune_values *values) {
    const int64_t *v = values->of;
    tune_record r = {};
    r.key.gpu = {(int)v[0], (int)v[1]};
    r.key.shape.volume = (int)v[2];
    r.key.shape.cin = (int)v[3];
    r.key.shape.cin2 = (int)v[4];
    r.key.shape.cout = (int)v[5];
    r.key.shape.type = (numeric)v[tune_field_type];
    r.key.outputs = (int32_t)v[7];
    r.key.density = (int32_t)v[8];
    r.key.deterministic = v[9] != 0;
    r.choice.dataflow = (tune_dataflow)v[tune_field_dataflow];
    r.choice.tiles = (int)v[11];
    r.choice.slices = (int)v[12];
    r.choice.split = (int)v[13];
    r.choice.threshold = (int)v[14];
    r.measure = {v[tune_field_us], (int32_t)v[16]};
    return r;
}

SPIRA_API status tune_range_check(int field, int64_t value) {
    tune_field f = tune_field_of(field);
    SPIRA_REQUIRE(value >= f.least && value <= f.most, status_bad_size, f.name, value);
    return status_success();
}

// Checks a record before it is written or after it is read: every field is in its range, and the
// fields agree with each other.
SPIRA_API status tune_record_check(const tune_record *r) {
    SPIRA_REQUIRE(r, status_null_pointer, "record", 0);
    const tune_values v = tune_values_of(r);
    for (int i = 0; i < tune_fields; ++i) {
        SPIRA_TRY(tune_range_check(i, v.of[i]));
    }
    const tune_key *k = &r->key;
    const tune_choice *c = &r->choice;
    bool os = c->dataflow == tune_dataflow_os, cut = c->tiles || c->slices || c->split;
    SPIRA_REQUIRE(is_power_of_two(k->outputs), status_bad_size, "outputs", k->outputs);
    SPIRA_REQUIRE(is_power_of_two(k->density) && k->density <= k->shape.volume, status_bad_size,
                  "density", k->density);
    SPIRA_REQUIRE(!k->deterministic || tune_is_deterministic(c->dataflow), status_unsupported,
                  "dataflow (is not deterministic)", c->dataflow);
    SPIRA_REQUIRE(!cut || (os && c->tiles && c->slices && c->split), status_bad_size,
                  "tiles (slices, split)", c->tiles);
    SPIRA_REQUIRE(tune_is_hybrid(c->dataflow) == (c->threshold > 0), status_bad_size, "threshold",
                  c->threshold);
    return status_success();
}

// ---- writing ------------------------------------------------------------------------------------

// The value of a field as text.
SPIRA_API void tune_value_write(int field, int64_t value, char *text, size_t size) {
    const char *name = tune_value_name(field, value);
    if (name) {
        snprintf(text, size, "%s", name);
    } else if (field >= tune_field_us) {
        snprintf(text, size, "%lld.%03lld", (long long)(value / 1000), (long long)(value % 1000));
    } else {
        snprintf(text, size, "%lld", (long long)value);
    }
}

SPIRA_API status tune_text_check(const char *text, size_t size) {
    SPIRA_REQUIRE(text, status_null_pointer, "text", 0);
    SPIRA_REQUIRE(size >= tune_line_most, status_capacity, "text", tune_line_most);
    return status_success();
}

// Writes the first line of a text to text [size], with a newline and a terminating zero.
// errors   null pointers; size below tune_line_most
SPIRA_API status tune_write_head(char *text, size_t size) {
    SPIRA_TRY(tune_text_check(text, size));
    snprintf(text, size, "spira tuning records, version %d\n", (int)tune_version);
    return status_success();
}

// Writes a record as a line to text [size], with a newline and a terminating zero.
// errors   null pointers; size below tune_line_most; a field out of its range
SPIRA_API status tune_write_line(const tune_record *record, char *text, size_t size) {
    SPIRA_TRY(tune_text_check(text, size));
    SPIRA_TRY(tune_record_check(record));
    const tune_values v = tune_values_of(record);
    size_t used = 0;
    for (int i = 0; i < tune_fields; ++i) {
        char value[32];
        tune_value_write(i, v.of[i], value, sizeof value);
        used += (size_t)snprintf(text + used, size - used, "%s=%s%c", tune_field_of(i).name, value,
                                 i + 1 < tune_fields ? ' ' : '\n');
    }
    return status_success();
}

// Writes a record as a line of C++ to text [size]: the initialiser of a tune_record, a comma, a
// newline and a terminating zero. For a table that is compiled in.
// errors   as tune_write_line
SPIRA_API status tune_write_initialiser(const tune_record *record, char *text, size_t size) {
    static const char *const types[] = {"f32", "tf32", "f16", "bf16"};
    static const char *const dataflows[tune_dataflows] = {"os", "atomic", "ordered",
                                                          "hybrid_atomic", "hybrid_ordered"};
    SPIRA_TRY(tune_text_check(text, size));
    SPIRA_TRY(tune_record_check(record));
    const tune_key *k = &record->key;
    const conv_shape *s = &k->shape;
    const tune_choice *c = &record->choice;
    snprintf(text, size,
             "{{{%d, %d}, {%d, %d, %d, %d, spira::numeric_%s}, %d, %d, %s}, "
             "{spira::tune_dataflow_%s, %d, %d, %d, %d}, {%lld, %d}},\n",
             k->gpu.capability, k->gpu.multiprocessors, s->volume, s->cin, s->cin2, s->cout,
             tune_name_of(types, 4, s->type), (int)k->outputs, (int)k->density,
             k->deterministic ? "true" : "false",
             tune_name_of(dataflows, tune_dataflows, c->dataflow), c->tiles, c->slices, c->split,
             c->threshold, (long long)record->measure.ns, (int)record->measure.error);
    return status_success();
}

// ---- reading ------------------------------------------------------------------------------------

// Position in a line that is read.
struct tune_cursor {
    const char *line;
    int64_t at, end; // bytes
};

// Skips `text` if it is next. Returns whether it was.
SPIRA_API bool tune_skip(tune_cursor *c, const char *text) {
    size_t length = strlen(text);
    bool same = (size_t)(c->end - c->at) >= length && memcmp(c->line + c->at, text, length) == 0;
    c->at += same ? (int64_t)length : 0;
    return same;
}

// Reads digits; numbers of too many digits become larger than any range. False: no digits.
SPIRA_API bool tune_read_digits(tune_cursor *c, int64_t *value) {
    const int64_t most = (int64_t)1 << 60, first = c->at;
    for (*value = 0; c->at < c->end; ++c->at) {
        int digit = c->line[c->at] - '0';
        if (digit < 0 || digit > 9) {
            break;
        }
        *value = *value < most / 16 ? *value * 10 + digit : most;
    }
    return c->at > first;
}

// Reads a number with three digits after the point, in thousandths.
SPIRA_API bool tune_read_thousandths(tune_cursor *c, int64_t *value) {
    int64_t whole, rest, point;
    if (!tune_read_digits(c, &whole) || !tune_skip(c, ".")) {
        return false;
    }
    point = c->at;
    bool three = tune_read_digits(c, &rest) && c->at - point == 3;
    *value = min_of(whole, (int64_t)1 << 40) * 1000 + rest;
    return three;
}

// Reads one of a field's names, up to a space or the end of the line.
SPIRA_API bool tune_read_value_name(tune_cursor *c, int field, int64_t *value) {
    int64_t first = c->at, most = tune_field_of(field).most;
    for (*value = 0; *value <= most; ++*value, c->at = first) {
        if (tune_skip(c, tune_value_name(field, *value)) &&
            (c->at == c->end || c->line[c->at] == ' ')) {
            return true;
        }
    }
    return false;
}

SPIRA_API status tune_read_field(tune_cursor *c, int field, int64_t *value) {
    const char *name = tune_field_of(field).name;
    bool apart = field == 0 || tune_skip(c, " ");
    SPIRA_REQUIRE(apart && tune_skip(c, name) && tune_skip(c, "="), status_file_format, name,
                  c->at);
    bool named = field == tune_field_type || field == tune_field_dataflow;
    bool good = named                    ? tune_read_value_name(c, field, value)
                : field >= tune_field_us ? tune_read_thousandths(c, value)
                                         : tune_read_digits(c, value);
    SPIRA_REQUIRE(good, status_file_format, name, c->at);
    return tune_range_check(field, *value);
}

SPIRA_API status tune_cursor_make(const char *line, size_t length, tune_cursor *c) {
    SPIRA_REQUIRE(line, status_null_pointer, "line", 0);
    length -= length && line[length - 1] == '\n';
    SPIRA_REQUIRE(length < tune_line_most, status_capacity, "line", length);
    *c = {line, 0, (int64_t)length};
    return status_success();
}

// Reads the first line of a text, with or without its newline; no terminating zero is needed.
// errors   status_file_format: not such a text; status_unsupported: another version (detail)
SPIRA_API status tune_read_head(const char *line, size_t length) {
    tune_cursor c;
    int64_t version;
    SPIRA_TRY(tune_cursor_make(line, length, &c));
    SPIRA_REQUIRE(tune_skip(&c, "spira tuning records, version ") &&
                      tune_read_digits(&c, &version) && c.at == c.end,
                  status_file_format, "version", c.at);
    SPIRA_REQUIRE(version == tune_version, status_unsupported, "version", version);
    return status_success();
}

// Reads a record from its line [length], with or without its newline; no terminating zero is
// needed.
//
// outputs  record; not written if the line is refused
// errors   status_file_format: a field is missing, out of place or not a number, or text follows
//          after the last one ("line"); detail: the byte at fault. status_bad_size: a number out of
//          its range, or fields that contradict each other. status_unsupported: a deterministic
//          record of a dataflow with atomics. status_capacity: a line that is too long. The subject
//          is the field's name
SPIRA_API status tune_read_line(const char *line, size_t length, tune_record *record) {
    tune_cursor c;
    tune_values v;
    SPIRA_REQUIRE(record, status_null_pointer, "record", 0);
    SPIRA_TRY(tune_cursor_make(line, length, &c));
    for (int i = 0; i < tune_fields; ++i) {
        SPIRA_TRY(tune_read_field(&c, i, &v.of[i]));
    }
    SPIRA_REQUIRE(c.at == c.end, status_file_format, "line", c.at);
    const tune_record read = tune_record_of(&v);
    SPIRA_TRY(tune_record_check(&read));
    *record = read;
    return status_success();
}

// Reads a whole text [bytes].
//
// outputs  records [capacity], *count: the records read; on an error, those before the one at fault
// errors   as tune_read_head and tune_read_line; status_capacity: more records than `capacity`
SPIRA_API status tune_read_text(const char *text, size_t bytes, tune_record *records, int capacity,
                                int *count) {
    SPIRA_REQUIRE(text, status_null_pointer, "text", 0);
    SPIRA_REQUIRE(records && count, status_null_pointer, "records", 0);
    *count = 0;
    bool head = true;
    for (size_t at = 0, next; at < bytes || head; at = next) {
        const char *line = text + at, *end = (const char *)memchr(line, '\n', bytes - at);
        next = end ? (size_t)(end - text) + 1 : bytes;
        bool empty = next - at <= (end ? 1u : 0u) || *line == '#';
        if (head) {
            SPIRA_TRY(tune_read_head(line, next - at));
            head = false;
        } else if (!empty) {
            SPIRA_REQUIRE(*count < capacity, status_capacity, "records", *count + 1);
            SPIRA_TRY(tune_read_line(line, next - at, &records[*count]));
            ++*count;
        }
    }
    return status_success();
}

} // namespace spira

#endif
