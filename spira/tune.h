// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/tune.h: tuning records: how a layer was computed fastest on a GPU; found, and kept as text.
//
// A table of records is an array of the caller's. tune.cuh lists the choices of a layer. The loop
// that runs, checks and times them is the caller's; bench/tune.cu is one.
// Text: the version, then a line for each record. Tables are compared as text.
//
//   spira tuning records, version 4
//   capability=90 multiprocessors=132 volume=27 cin=16 cin2=0 cout=16 type=2 ... ns=13912
#ifndef SPIRA_TUNE_H
#define SPIRA_TUNE_H

#include "conv.h"
#include "device.h"

#include <stdio.h>
#include <string.h>

namespace spira {

#define SPIRA_TUNE_HEAD "spira tuning records, version 4\n"

enum {
    tune_line_most = 320,                            // bytes of a line, with its newline
    tune_most = 999999999,                           // of any member
    tune_threshold_most = 3 * (kernel_size_max - 1), // no offset has a larger L1 norm
};

// A layer on a kind of GPU. All members are int, and so are those of a record.
struct tune_key {
    int capability, multiprocessors; // of device_info
    conv_shape shape;
    int deterministic; // 1: results must be bit-identical from run to run
    int outputs;       // rounded down to a power of two
    int density;       // pairs for each output, rounded likewise, at least 1. In a key that is
                       // looked up, 0: unknown
};

enum tune_dataflow : int {
    tune_dataflow_os,             // conv
    tune_dataflow_atomic,         // conv_pairs_run, pairs_form_atomic
    tune_dataflow_ordered,        // conv_pairs_run, pairs_form_ordered
    tune_dataflow_hybrid_atomic,  // conv_hybrid with either
    tune_dataflow_hybrid_ordered, //
    tune_dataflows
};

// How a layer is computed.
struct tune_choice {
    tune_dataflow dataflow;
    int tiles, slices, split; // conv_sizes (conv/params.cuh); all 0: chosen by conv, or not used
    int threshold;            // hybrid: offsets with an L1 norm below it are dense; others: 0
};

struct tune_record {
    tune_key key;
    tune_choice choice;
    int ns; // of one run
};

SPIRA_API bool tune_is_deterministic(tune_dataflow dataflow) {
    return dataflow != tune_dataflow_atomic && dataflow != tune_dataflow_hybrid_atomic;
}

SPIRA_API bool tune_same_choice(const tune_choice *a, const tune_choice *b) {
    return memcmp(a, b, sizeof *a) == 0;
}

// The largest power of two up to a, in 1 .. 2^29.
SPIRA_API int tune_round(int64_t a) {
    return 1 << (bits_for((uint64_t)max_of(min_of(a, 1 << 29), 1)) - 1);
}

// The key of a layer with this many outputs and pairs of its kernel map: those of a typical scan.
SPIRA_API tune_key tune_key_make(const device_info *gpu, const conv_shape *shape, int64_t outputs,
                                 int64_t pairs, bool deterministic) {
    const int density = tune_round(pairs / max_of(outputs, 1)), same = deterministic;
    return {gpu->capability, gpu->multiprocessors, *shape, same, tune_round(outputs), density};
}

enum { tune_members = 16, tune_members_layer = 8 };

// The members of a record in their order. The first eight are of the GPU and the layer.
struct tune_values {
    int of[tune_members];
};
static_assert(sizeof(tune_values) == sizeof(tune_record), "a record has other members");

SPIRA_API tune_values tune_values_of(const tune_record *r) {
    tune_values v;
    memcpy(&v, r, sizeof v);
    return v;
}

SPIRA_API const char *tune_name(int member) {
    static const char *const names[tune_members] = {
        "capability", "multiprocessors", "volume",    "cin",     "cin2",     "cout",
        "type",       "deterministic",   "outputs",   "density", "dataflow", "tiles",
        "slices",     "split",           "threshold", "ns"};
    return names[member];
}

// Checks a record before it is written, after it is read, and before a plan takes it.
// errors   a member out of its range, or that contradicts another, by its name
SPIRA_API status tune_record_check(const tune_record *r) {
    SPIRA_REQUIRE(r, status_null_pointer, "record", 0);
    const tune_key *k = &r->key;
    const tune_choice *c = &r->choice;
    const tune_values v = tune_values_of(r);
    for (int i = 0; i < tune_members; ++i) {
        SPIRA_REQUIRE(v.of[i] >= 0 && v.of[i] <= tune_most, status_bad_size, tune_name(i), v.of[i]);
    }
    SPIRA_TRY(conv_shape_check_i8(&k->shape));
    SPIRA_REQUIRE(k->outputs && k->density, status_bad_size, "outputs (density)", k->outputs);
    SPIRA_REQUIRE(k->deterministic <= 1, status_bad_size, "deterministic", k->deterministic);
    SPIRA_REQUIRE(c->dataflow < tune_dataflows, status_unsupported, "dataflow", c->dataflow);
    SPIRA_REQUIRE(!k->deterministic || tune_is_deterministic(c->dataflow), status_unsupported,
                  "dataflow (is not deterministic)", c->dataflow);
    SPIRA_REQUIRE(k->shape.type != numeric_i8 || c->dataflow == tune_dataflow_os,
                  status_unsupported, "dataflow (of an int8 layer)", c->dataflow);
    const bool cut = c->tiles || c->slices || c->split, os = c->dataflow == tune_dataflow_os;
    SPIRA_REQUIRE(!cut || (os && c->tiles && c->slices && c->split), status_bad_size,
                  "tiles (slices, split)", c->tiles);
    SPIRA_REQUIRE((c->dataflow >= tune_dataflow_hybrid_atomic) == (c->threshold > 0),
                  status_bad_size, "threshold", c->threshold);
    return status_success();
}

// Whether a record is of the same GPU and layer as a key, whatever the counts.
// errors   status_unsupported: the first member that differs; detail: the record's
SPIRA_API status tune_layer_check(const tune_record *record, const tune_key *key) {
    SPIRA_REQUIRE(record && key, status_null_pointer, "record (key)", 0);
    const tune_record of_key = {*key, {}, 0};
    const tune_values v = tune_values_of(record), wanted = tune_values_of(&of_key);
    for (int i = 0; i < tune_members_layer; ++i) {
        SPIRA_REQUIRE(v.of[i] == wanted.of[i], status_unsupported, tune_name(i), v.of[i]);
    }
    return status_success();
}

// Powers of two between two counts; 0 if one is 0: unknown.
SPIRA_API int tune_steps(int a, int b) {
    const int steps = a && b ? bits_for((uint64_t)a) - bits_for((uint64_t)b) : 0;
    return steps < 0 ? -steps : steps;
}

// Returns the record for a key, or null: of those of the same GPU and layer the nearest, at most
// two tune_steps away in outputs and density together; of equally near ones the first.
SPIRA_API const tune_record *tune_find(const tune_record *records, int count, const tune_key *key) {
    const tune_record *found = nullptr;
    int least = 3;
    for (int i = 0; records && key && i < count; ++i) {
        const tune_key *k = &records[i].key;
        const int steps =
            tune_steps(k->outputs, key->outputs) + tune_steps(k->density, key->density);
        if (steps < least && !status_failed(tune_layer_check(&records[i], key))) {
            found = records + i;
            least = steps;
        }
    }
    return found;
}

// Writes records [count] to text [size] with a terminating zero; on an error, those before it.
// errors   size below (count + 1) * tune_line_most; those of tune_record_check
SPIRA_API status tune_write_text(const tune_record *records, int count, char *text, size_t size) {
    SPIRA_REQUIRE(records || count == 0, status_null_pointer, "records", 0);
    SPIRA_REQUIRE(text, status_null_pointer, "text", 0);
    SPIRA_REQUIRE(count >= 0 && size / tune_line_most > (size_t)count, status_capacity, "text",
                  size);
    text += snprintf(text, tune_line_most, SPIRA_TUNE_HEAD);
    for (int i = 0; i < count; ++i) {
        SPIRA_TRY(tune_record_check(&records[i]));
        const tune_values v = tune_values_of(&records[i]);
        for (int m = 0; m < tune_members; ++m) {
            text += snprintf(text, tune_line_most, "%s=%d%c", tune_name(m), v.of[m],
                             m + 1 < tune_members ? ' ' : '\n');
        }
    }
    return status_success();
}

// Skips `text` if it is next. Returns whether it was.
SPIRA_API bool tune_skip(const char **at, const char *end, const char *text) {
    const size_t length = strlen(text), left = (size_t)(end - *at);
    const bool same = left >= length && memcmp(*at, text, length) == 0;
    *at += same ? length : 0;
    return same;
}

// Reads "name=digits" and what ends it. Returns whether it was next; a value that is too large
// becomes one that tune_record_check refuses.
SPIRA_API bool tune_read_member(const char **at, const char *end, int member, int *value) {
    int digits = 0;
    bool good = tune_skip(at, end, tune_name(member)) && tune_skip(at, end, "=");
    for (*value = 0; good && *at < end && **at >= '0' && **at <= '9'; ++*at, ++digits) {
        *value = *value <= tune_most / 10 ? *value * 10 + (**at - '0') : tune_most + 1;
    }
    return digits && tune_skip(at, end, member + 1 < tune_members ? " " : "\n");
}

// Reads the text of tune_write_text [bytes]; no terminating zero is needed.
//
// outputs  records [capacity], *count: the records read; on an error, those before the one at fault
// errors   status_file_format: another version, or a member is missing, out of place or no number,
//          by its name; detail: the record. status_capacity: more records than `capacity`. Those of
//          tune_record_check
SPIRA_API status tune_read_text(const char *text, size_t bytes, tune_record *records, int capacity,
                                int *count) {
    SPIRA_REQUIRE(text, status_null_pointer, "text", 0);
    SPIRA_REQUIRE(records && count, status_null_pointer, "records", 0);
    const char *end = text + bytes;
    *count = 0;
    SPIRA_REQUIRE(tune_skip(&text, end, SPIRA_TUNE_HEAD), status_file_format, "version", 0);
    while (text < end) {
        tune_values v;
        tune_record r;
        for (int i = 0; i < tune_members; ++i) {
            SPIRA_REQUIRE(tune_read_member(&text, end, i, &v.of[i]), status_file_format,
                          tune_name(i), *count);
        }
        memcpy(&r, &v, sizeof r);
        SPIRA_TRY(tune_record_check(&r));
        SPIRA_REQUIRE(*count < capacity, status_capacity, "records", *count + 1);
        records[(*count)++] = r;
    }
    return status_success();
}

} // namespace spira

#endif
