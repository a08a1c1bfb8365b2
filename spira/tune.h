// spira/tune.h: which way a convolution is computed best: records of what was measured, their text,
// how one is found, and how far a result may be off before its way may win.
//
// A record has a key (what was computed, and on which GPU), a choice (how) and a measurement. A
// table of records is an array of the caller's. tune.cuh lists the choices that there are, runs
// one, and judges what it gives; the loop that times them is the caller's (bench/tune.cu is one).
//
// Text, version 2. The first line names the version:
//
//   spira tuning records, version 2
//   capability=90 multiprocessors=132 volume=27 cin=16 cin2=0 cout=16 type=fp16 outputs=65536
//   density=2 deterministic=0 dataflow=os rows=64 tiles=2 slices=1 split=2 threshold=0 us=13.912
//   error=0.213
//
// (a record is one line.) All fields are there, in this order, with one space between two of them.
// Numbers are decimal; `us` and `error` have three digits behind the point. Empty lines, and those
// that begin with #, say nothing. The text does not depend on the locale.
#ifndef SPIRA_TUNE_H
#define SPIRA_TUNE_H

#include "conv.h"
#include "layout/tile.h"

#include <math.h>

namespace spira {

enum {
    tune_version = 2,
    tune_line_most = 320, // bytes: no line, and no initialiser, is as long
    tune_threshold_most = 3 * (kernel_size_max - 1), // no norm of an offset is larger
};

// Records hold for GPUs of one kind: tiles and splits that are good depend on both.
struct tune_gpu {
    int capability; // 90 for compute capability 9.0
    int multiprocessors;
};

struct tune_key {
    tune_gpu gpu;
    conv_shape shape;
    int32_t outputs;    // a power of two: there are so many, and less than twice as many
    int32_t density;    // pairs for each output, in the same steps; 1 where there are fewer. To
                        // look a record up, 0: not known
    bool deterministic; // results must be the same to the last bit from run to run
};

// Output-stationary: conv. Weight-stationary: conv_pairs_run in one of its forms. Hybrid:
// conv_hybrid, its sparse half in one of these.
enum tune_dataflow : int {
    tune_dataflow_os,
    tune_dataflow_atomic,
    tune_dataflow_stripes,
    tune_dataflow_hybrid_atomic,
    tune_dataflow_hybrid_stripes,
    tune_dataflows
};

struct tune_choice {
    tune_dataflow dataflow;
    int rows; // of a tile of the tiled layout; 0: the ordered layout, lists, or hybrid
    int tiles, slices, split; // conv_sizes (conv/tile.cuh); all 0: conv chooses, or has none
    int threshold;            // hybrid: offsets with an L1 norm below it are dense; others: 0
};

SPIRA_API bool tune_is_hybrid(tune_dataflow dataflow) {
    return dataflow == tune_dataflow_hybrid_atomic || dataflow == tune_dataflow_hybrid_stripes;
}

// Whether the bits are the same from run to run.
SPIRA_API bool tune_is_deterministic(tune_dataflow dataflow) {
    return dataflow != tune_dataflow_atomic && dataflow != tune_dataflow_hybrid_atomic;
}

struct tune_measure {
    int64_t ns;    // of one run; 0: nothing was measured
    int32_t error; // the largest, in thousandths of its bound (tune_expect), rounded up
};

struct tune_record {
    tune_key key;
    tune_choice choice;
    tune_measure measure;
};

// ---- keys and choices ---------------------------------------------------------------------------

// The largest power of two up to a; 1 where there is none.
SPIRA_API int32_t tune_step(int64_t a) {
    return 1 << (bits_for((uint64_t)max_of(min_of(a, INT32_MAX), 1)) - 1);
}

// The key of a layer with so many outputs and pairs of its kernel map. What is known beforehand is
// enough: counts of a usual scan.
SPIRA_API tune_key tune_key_make(tune_gpu gpu, const conv_shape *shape, int64_t outputs,
                                 int64_t pairs, bool deterministic) {
    tune_key k = {gpu, *shape, tune_step(outputs), tune_step(pairs / max_of(outputs, 1)),
                  deterministic};
    return k;
}

// The same layer on the same GPU, whatever its counts.
SPIRA_API bool tune_same_layer(const tune_key *a, const tune_key *b) {
    const conv_shape *s = &a->shape, *t = &b->shape;
    return a->gpu.capability == b->gpu.capability &&
           a->gpu.multiprocessors == b->gpu.multiprocessors && s->volume == t->volume &&
           s->cin == t->cin && s->cin2 == t->cin2 && s->cout == t->cout && s->type == t->type &&
           a->deterministic == b->deterministic;
}

SPIRA_API bool tune_same_choice(const tune_choice *a, const tune_choice *b) {
    return a->dataflow == b->dataflow && a->rows == b->rows && a->tiles == b->tiles &&
           a->slices == b->slices && a->split == b->split && a->threshold == b->threshold;
}

// Steps from one key to another of the same layer: of the outputs, and of the density where it is
// known.
SPIRA_API int tune_distance(const tune_key *a, const tune_key *b) {
    int outputs = bits_for((uint64_t)a->outputs) - bits_for((uint64_t)b->outputs);
    int density = bits_for((uint64_t)a->density) - bits_for((uint64_t)b->density);
    density = a->density && b->density ? density : 0;
    return (outputs < 0 ? -outputs : outputs) + (density < 0 ? -density : density);
}

// A record that is further away says less than the choice without tuning.
enum { tune_distance_most = 2 };

// The record for a key, or null. That of the same key; else, of the records of the same layer, the
// nearest by tune_distance, up to tune_distance_most steps away. Of several that are equally near,
// the first one.
SPIRA_API const tune_record *tune_find(const tune_record *records, int count, const tune_key *key) {
    const tune_record *found = nullptr;
    int least = tune_distance_most + 1;
    for (int i = 0; i < count; ++i) {
        const tune_key *k = &records[i].key;
        int distance = tune_same_layer(k, key) ? tune_distance(k, key) : least;
        if (distance < least) {
            found = records + i;
            least = distance;
        }
    }
    return found;
}

// The record of just this key, or null.
SPIRA_API const tune_record *tune_find_same(const tune_record *records, int count,
                                            const tune_key *key) {
    const tune_record *found = tune_find(records, count, key);
    return found && tune_distance(&found->key, key) == 0 ? found : nullptr;
}

// The dataflow without tuning, of a layer that conv computes from the tiled layout on tensor cores.
//
// Weight-stationary, with atomics, where the bits may differ from run to run, the kernel has more
// than 32 offsets, a side has 64 channels or more, and fewer than one in eight offsets is there
// (by the lower end of the key's density). Else output-stationary. From the tiled layout on an H200
// that is the quickest of the three for each layer of the table "Dataflows" (bench/README.md) on
// both scans, but for 16 channels and size 5 on kitti, which take 11 % longer than with atomics.
SPIRA_API tune_dataflow tune_dataflow_guess(const tune_key *key) {
    const conv_shape *s = &key->shape;
    bool wide = s->cin + s->cin2 >= 64 || s->cout >= 64;
    bool sparse = (int64_t)key->density * 8 <= s->volume;
    return !key->deterministic && s->volume > 32 && wide && sparse ? tune_dataflow_atomic
                                                                   : tune_dataflow_os;
}

// What a key does not tell of a usual scan: counts as they are, and how well its ordered layout is
// filled.
struct tune_scene {
    int64_t outputs, pairs;
    int64_t slots; // of the ordered layout: order_slots (layout/order.cuh); 0: unknown
};

// The dataflow without tuning, of a layer that conv computes from the ordered layout (Hopper's
// kernel).
//
// Weight-stationary, with atomics, where the bits may differ from run to run and this model makes
// it the quicker one, in units of 0.04 ps, for both:
//
//   ordered   125 slots + 5 bytes: 5 ps a row slot and 5 TB/s from the L2 cache, for a row of each
//             pair and the weights for each offset of two blocks, 128 slots
//   atomic    30 cout (pairs + 4 outputs) + pairs cin cout: 1.2 ps for a channel of each sum that
//             is added, for four times as many as there are outputs to clear the sums and finish
//             them; 0.004 ps a product
//
// What both need to start is left out. The four rates were fitted to the 21 rows of the table
// "Dataflows" (bench/README.md) that read the ordered layout: they choose the quicker one on each
// (kitti, lone_star and the random scene, with 1.7 to 6.4 slots a pair), and would if one of the
// two took 1.2 times as long as modelled. They are of an H200, two bytes an element, and 90,000
// outputs or more; of other devices only the trend is right: the more slots a pair takes, the
// better are lists.
//
// inputs   scene: null or without slots: output-stationary
SPIRA_API tune_dataflow tune_dataflow_guess_ordered(const tune_key *key, const tune_scene *scene) {
    const conv_shape *s = &key->shape;
    if (key->deterministic || !scene || scene->slots <= 0) {
        return tune_dataflow_os;
    }
    const int64_t cin = s->cin + s->cin2, cout = s->cout, element = numeric_size(s->type);
    const int64_t bytes = scene->pairs * cin * element + scene->slots / 128 * cin * cout * element;
    const int64_t ordered = 1250 * scene->slots + 50 * bytes;
    const int64_t atomic =
        300 * cout * (scene->pairs + 4 * scene->outputs) + scene->pairs * cin * cout;
    return atomic < ordered ? tune_dataflow_atomic : tune_dataflow_os;
}

// The same of a layer of few channels that conv computes from the ordered layout by
// `conv/narrow.cuh`. Of up to 16 channels, where it was measured; with more, output-stationary:
//
//   ordered   6.2 ps a row slot
//   atomic    24 ps a pair and 136 ps an output
//
// These were fitted as those above, to 16 channels of kernels of size 5, and choose the quicker one
// with size 3 too: where a pair takes 1.5 to 4.1 slots the ordered layout (kitti, lone_star), where
// it takes 6.4 the lists (the random scene).
//
// inputs   scene: null or without slots: output-stationary
SPIRA_API tune_dataflow tune_dataflow_guess_few(const tune_key *key, const tune_scene *scene) {
    const conv_shape *s = &key->shape;
    const bool measured = s->cin + s->cin2 <= 16 && s->cout <= 16;
    if (key->deterministic || !scene || scene->slots <= 0 || !measured) {
        return tune_dataflow_os;
    }
    const int64_t ordered = 62 * scene->slots;
    const int64_t atomic = 240 * scene->pairs + 1360 * scene->outputs;
    return atomic < ordered ? tune_dataflow_atomic : tune_dataflow_os;
}

// ---- how far a result may be off ----------------------------------------------------------------

// An output and how far from it a result may lie.
struct tune_expected {
    double value, bound;
};

// The bound of one output: twice the textbook's for sums in fp32, since tensor cores cut off where
// fp32 units round, through the epilogue, and one rounding to the storage type.
//
// inputs   sum, magnitude: sum a w and sum |a| |w| in double, of so many terms; residual: 0 where
//          there is none
// outputs  2 (terms + 4) 2^-24 sum |a||w|, scaled as the epilogue does it, and the roundings
SPIRA_BOTH tune_expected tune_expect(double sum, double magnitude, int64_t terms,
                                     const conv_epilogue *e, int channel, double residual,
                                     numeric type) {
    double error = 2.0 * (double)(terms + 4) * (magnitude * 0x1p-24 + 0x1p-149);
    double most = fabs(sum), slope = (double)e->slope;
    if (e->bias) {
        sum += (double)e->bias[channel];
        most += fabs((double)e->bias[channel]);
    }
    if (e->scale) {
        double scale = (double)e->scale[channel];
        sum *= scale;
        error *= fabs(scale);
        most *= fabs(scale);
    }
    if (e->shift) {
        sum += (double)e->shift[channel];
        most += fabs((double)e->shift[channel]);
    }
    sum += residual;
    error += 6 * 0x1p-24 * (most + fabs(residual)); // five steps, each rounded once
    if (e->act != activation_none && sum < 0) {
        sum *= e->act == activation_leaky ? slope : 0;
    }
    if (e->act == activation_leaky && fabs(slope) > 1) {
        error *= fabs(slope);
    }
    double rounding = type == numeric_f16 ? 0x1p-11 : type == numeric_bf16 ? 0x1p-8 : 0;
    double smallest = type == numeric_f16 ? 0x1p-24 : 0x1p-126;
    return {sum, error + rounding * (fabs(sum) + error) + smallest};
}

// How far a result is off, as a multiple of its bound: good up to 1. NaN is infinitely far off;
// what overflows in its type may be infinite.
SPIRA_BOTH double tune_error(double got, tune_expected expected, numeric type) {
    double largest = type == numeric_f16    ? 65504
                     : type == numeric_bf16 ? 3.3895313892515355e38
                                            : 3.4028234663852886e38;
    bool overflows = fabs(expected.value) + expected.bound >= largest;
    if (overflows && isinf(got) && (got > 0) == (expected.value > 0)) {
        return 0;
    }
    double ratio = fabs(got - expected.value) / expected.bound;
    return ratio >= 0 ? ratio : (double)INFINITY;
}

// Row number `sample` of `samples` out of `rows`, spread over all of them and not evenly; the first
// and the last row among them. samples: up to `rows`.
SPIRA_BOTH int32_t tune_sample_row(int32_t rows, int32_t samples, int32_t sample) {
    int64_t from = (int64_t)rows * sample / samples, to = (int64_t)rows * (sample + 1) / samples;
    uint32_t bits = (uint32_t)sample * 2654435761u;
    int64_t row = from + (int64_t)(bits >> 8) % (to - from);
    return (int32_t)(sample == 0 ? 0 : sample + 1 == samples ? rows - 1 : row);
}

// A record of which nothing is measured yet.
SPIRA_API tune_record tune_record_begin(const tune_key *key) {
    tune_record r = {*key, {tune_dataflow_os, 0, 0, 0, 0, 0}, {0, 0}};
    return r;
}

// Keeps the better one: a choice that takes `us` and whose largest error is `error` times its bound
// (tune_judge in tune.cuh). Returns whether it is taken: its result is good, and it is quicker than
// what the record has.
SPIRA_API bool tune_take(tune_record *best, const tune_choice *choice, double us, double error) {
    bool good = error >= 0 && error <= 1 && us > 0 && us < 1e9;
    int64_t ns = good ? max_of((int64_t)(us * 1000 + 0.5), 1) : 0;
    if (!good || (best->measure.ns && best->measure.ns <= ns)) {
        return false;
    }
    best->choice = *choice;
    best->measure = {ns, (int32_t)ceil(error * 1000)};
    return true;
}

// ---- the fields of a record ---------------------------------------------------------------------

enum { tune_fields = 18, tune_field_type = 6, tune_field_dataflow = 10, tune_field_us = 16 };

struct tune_field {
    const char *name;
    int64_t least, most;
};

// In the order of the text. From tune_field_us on they are thousandths.
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
        {"rows", 0, tile_rows_most},
        {"tiles", 0, 1024},
        {"slices", 0, 1024},
        {"split", 0, 1024},
        {"threshold", 0, tune_threshold_most},
        {"us", 1, 1000000000000},
        {"error", 0, 1000},
    };
    return fields[field];
}

// One of so many names.
SPIRA_API const char *tune_name_of(const char *const *names, int count, int64_t value) {
    return value >= 0 && value < count ? names[value] : "?";
}

// What a value is called, or null: it is a number.
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
                      c->rows, c->tiles, c->slices, c->split, c->threshold, r->measure.ns,
                      r->measure.error}};
    return v;
}

// Of values within their ranges.
SPIRA_API tune_record tune_record_of(const tune_values *values) {
    const int64_t *v = values->of;
    tune_record r;
    r.key.gpu = {(int)v[0], (int)v[1]};
    r.key.shape = {(int)v[2], (int)v[3], (int)v[4], (int)v[5], (numeric)v[tune_field_type]};
    r.key.outputs = (int32_t)v[7];
    r.key.density = (int32_t)v[8];
    r.key.deterministic = v[9] != 0;
    r.choice = {(tune_dataflow)v[tune_field_dataflow],
                (int)v[11],
                (int)v[12],
                (int)v[13],
                (int)v[14],
                (int)v[15]};
    r.measure = {v[tune_field_us], (int32_t)v[17]};
    return r;
}

SPIRA_API status tune_range_check(int field, int64_t value) {
    tune_field f = tune_field_of(field);
    SPIRA_REQUIRE(value >= f.least && value <= f.most, status_bad_size, f.name, value);
    return status_success();
}

// A record that can be written and read: each field in its range, and what fields say together.
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
    SPIRA_REQUIRE(!c->rows || (os && tile_rows_valid(c->rows, k->shape.volume)), status_bad_size,
                  "rows", c->rows);
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

// The first line of a text: to text [size], which ends in a newline and a zero.
// errors   null pointers; size below tune_line_most
SPIRA_API status tune_write_head(char *text, size_t size) {
    SPIRA_TRY(tune_text_check(text, size));
    snprintf(text, size, "spira tuning records, version %d\n", (int)tune_version);
    return status_success();
}

// A record as a line of text: to text [size], which ends in a newline and a zero.
// errors   null pointers; size below tune_line_most; a field that is not in its range
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

// A record as a line of C++, for a table that is compiled in: the initialiser of a tune_record, a
// comma, a newline and a zero, to text [size].
// errors   as of tune_write_line
SPIRA_API status tune_write_initialiser(const tune_record *record, char *text, size_t size) {
    static const char *const types[] = {"f32", "tf32", "f16", "bf16"};
    static const char *const dataflows[tune_dataflows] = {"os", "atomic", "stripes",
                                                          "hybrid_atomic", "hybrid_stripes"};
    SPIRA_TRY(tune_text_check(text, size));
    SPIRA_TRY(tune_record_check(record));
    const tune_key *k = &record->key;
    const conv_shape *s = &k->shape;
    const tune_choice *c = &record->choice;
    snprintf(text, size,
             "{{{%d, %d}, {%d, %d, %d, %d, spira::numeric_%s}, %d, %d, %s}, "
             "{spira::tune_dataflow_%s, %d, %d, %d, %d, %d}, {%lld, %d}},\n",
             k->gpu.capability, k->gpu.multiprocessors, s->volume, s->cin, s->cin2, s->cout,
             tune_name_of(types, 4, s->type), (int)k->outputs, (int)k->density,
             k->deterministic ? "true" : "false",
             tune_name_of(dataflows, tune_dataflows, c->dataflow), c->rows, c->tiles, c->slices,
             c->split, c->threshold, (long long)record->measure.ns, (int)record->measure.error);
    return status_success();
}

// ---- reading ------------------------------------------------------------------------------------

// A line while it is read.
struct tune_cursor {
    const char *line;
    int64_t at, end; // bytes
};

// Goes on if the text is next.
SPIRA_API bool tune_skip(tune_cursor *c, const char *text) {
    size_t length = strlen(text);
    bool same = (size_t)(c->end - c->at) >= length && memcmp(c->line + c->at, text, length) == 0;
    c->at += same ? (int64_t)length : 0;
    return same;
}

// Digits; more of them than any field has make a number above all ranges. False: there are none.
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

// A number with three digits behind the point, in thousandths.
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

// One of a field's names, up to a space or the end.
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

// Reads the first line of a text, with or without its newline. It needs no zero behind it.
// errors   status_file_format: it is not such a text; status_unsupported: the version that it has
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

// Reads a record from its line [length], with or without its newline. It needs no zero behind it.
//
// outputs  record; not written if the line is refused
// errors   status_file_format: a field that is missing, in another place or no number, or something
//          behind the last one ("line"), and the byte at fault; status_bad_size: a number that is
//          out of its range; status_unsupported: fields that do not go together; status_capacity:
//          a line that is too long. The subject is the field's name
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
// outputs  records [capacity], *count of them; if one is refused, those before it
// errors   those of tune_read_head and tune_read_line; status_capacity: more records than that
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

// ---- two tables ---------------------------------------------------------------------------------

// A key that two tables have.
struct tune_difference {
    const tune_record *before, *after;
    double ratio; // time after over time before
    bool changed; // another choice
};

// What became of each key of one table that is in another one too.
//
// outputs  differences [before_count], in the order of `before`; they point into the tables
// Returns how many there are.
SPIRA_API int tune_compare(const tune_record *before, int before_count, const tune_record *after,
                           int after_count, tune_difference *differences) {
    int count = 0;
    for (int i = 0; i < before_count; ++i) {
        const tune_record *b = before + i, *a = tune_find_same(after, after_count, &b->key);
        if (a) {
            differences[count++] = {b, a, (double)a->measure.ns / (double)b->measure.ns,
                                    !tune_same_choice(&b->choice, &a->choice)};
        }
    }
    return count;
}

} // namespace spira

#endif
