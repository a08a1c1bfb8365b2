// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/network_file.h: a table of layers from a text file, as spira.pytorch.export writes it
// beside a blob of weights:
//
//   spira layers 1
//   input channels=4 extent=1440,1440,41 batch=1
//   conv name=stem source=input channels=16 size=3,3,3 norm act=relu
//   conv name=down source=stem channels=32 size=3,3,3 stride=2,2,2 padding=1,1,1 rule=expand norm
//   norm_layer name=ln source=down epsilon=1e-5 norm
//   conv name=logits source=ln channels=8 size=1,1,1 bias
//   children name=finer source=ln source2=logits capacity=200000
//   dense name=map source=finer
//
// A line is a layer: its operation, then members of net_layer by their names. Sources are "input"
// or names of lines above. extent and batch may be missing: then scenes of any extent are taken.
#ifndef SPIRA_EXAMPLES_NETWORK_FILE_H
#define SPIRA_EXAMPLES_NETWORK_FILE_H

#include "network.h"
#include "table.h"

namespace networks {

// A file that is being read.
struct network_text {
    const char *path;
    int line;
    network *n;
    scan::scan_reason *why;
};

#define NETWORK_REQUIRE(condition, t, ...)                                                         \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            char text[240];                                                                        \
            snprintf(text, sizeof text, __VA_ARGS__);                                              \
            return scan::scan_refuse((t)->why, spira::status_file_format, (t)->path,               \
                                     "line %d: %s", (t)->line, text);                              \
        }                                                                                          \
    } while (0)

// Reads `count` integers from 0 to `most`, which commas separate.
static inline spira::status network_ints(const network_text *t, const char *key, const char *value,
                                         int count, int *numbers, int most = 1 << 20) {
    const char *at = value;
    for (int i = 0; i < count; ++i) {
        char *end;
        const long number = strtol(at, &end, 10);
        const bool good = end > at && *at != ' ' && number >= 0 && number <= most;
        NETWORK_REQUIRE(good && *end == (i + 1 < count ? ',' : 0), t,
                        "%s=%s: %d numbers from 0 to %d, with commas, are needed", key, value,
                        count, most);
        numbers[i] = (int)number;
        at = end + 1;
    }
    return spira::status_success();
}

static inline spira::status network_triple(const network_text *t, const char *key,
                                           const char *value, spira::triple *to) {
    int numbers[3];
    SPIRA_TRY(network_ints(t, key, value, 3, numbers));
    *to = spira::triple_make(numbers[0], numbers[1], numbers[2]);
    return spira::status_success();
}

static inline spira::status network_source(const network_text *t, const char *key,
                                           const char *value, spira::net_source *to) {
    int found = strcmp(value, "input") ? spira::net_none : spira::net_input;
    for (int i = 0; i < t->n->count; ++i) {
        found = strcmp(value, t->n->names[i]) ? found : i;
    }
    NETWORK_REQUIRE(found != spira::net_none, t, "%s=%s: no line above has this name", key, value);
    *to = spira::net_from(found);
    return spira::status_success();
}

// The place of a word in a list that ends with null; -1: it is not there.
static inline int network_word(const char *word, const char *const *words) {
    for (int i = 0; words[i]; ++i) {
        if (!strcmp(word, words[i])) {
            return i;
        }
    }
    return -1;
}

// Sets a member. value: empty for a flag
static inline spira::status network_member(const network_text *t, const char *key,
                                           const char *value, spira::net_layer *l) {
    static const char *const acts[] = {"none", "relu",      "leaky", "silu",
                                       "gelu", "gelu_tanh", nullptr};
    static const char *const rules[] = {"floor", "expand", "generate", nullptr};
    static const char *const axes[] = {"none", "x", "y", "z", nullptr};
    const struct {
        const char *key;
        bool *to;
    } flags[] = {{"transposed", &l->transposed},
                 {"bias", &l->bias},
                 {"norm", &l->norm},
                 {"keep", &l->keep},
                 {"or_equal", &l->or_equal}};
    for (const auto &flag : flags) {
        if (!strcmp(key, flag.key)) {
            NETWORK_REQUIRE(!*value, t, "%s has no value", key);
            *flag.to = true;
            return spira::status_success();
        }
    }
    const struct {
        const char *key;
        spira::net_source *to;
    } sources[] = {{"source", &l->source},
                   {"source2", &l->source2},
                   {"source3", &l->source3},
                   {"source4", &l->source4},
                   {"residual", &l->residual}};
    for (const auto &source : sources) {
        if (!strcmp(key, source.key)) {
            return network_source(t, key, value, source.to);
        }
    }
    const struct {
        const char *key;
        spira::triple *to;
    } triples[] = {{"size", &l->size},
                   {"stride", &l->stride},
                   {"padding", &l->padding},
                   {"dilation", &l->dilation}};
    for (const auto &triple : triples) {
        if (!strcmp(key, triple.key)) {
            return network_triple(t, key, value, triple.to);
        }
    }
    const struct {
        const char *key;
        int32_t *to;
    } ints[] = {{"channels", &l->channels},
                {"groups", &l->groups},
                {"channel", &l->channel},
                {"most", &l->most},
                {"repeat", &l->repeat}};
    for (const auto &one : ints) {
        if (!strcmp(key, one.key)) {
            return network_ints(t, key, value, 1, one.to);
        }
    }
    if (!strcmp(key, "capacity")) {
        return network_ints(t, key, value, 1, &l->capacity, INT32_MAX / 2);
    }
    const char *const *const words = !strcmp(key, "act")    ? acts
                                     : !strcmp(key, "rule") ? rules
                                     : !strcmp(key, "axis") ? axes
                                                            : nullptr;
    if (words) {
        const int found = network_word(value, words);
        NETWORK_REQUIRE(found >= 0, t, "%s=%s is not known", key, value);
        l->act = words == acts ? (spira::activation)found : l->act;
        l->rule = words == rules ? (spira::net_rule)found : l->rule;
        l->axis = words == axes ? (spira::join_axis)found : l->axis;
        return spira::status_success();
    }
    float *const to = !strcmp(key, "slope")       ? &l->slope
                      : !strcmp(key, "epsilon")   ? &l->epsilon
                      : !strcmp(key, "threshold") ? &l->threshold
                                                  : nullptr;
    NETWORK_REQUIRE(to, t, "%s is no member of a layer", key);
    char *end;
    *to = strtof(value, &end);
    NETWORK_REQUIRE(end > value && !*end && spira::float_is_finite(*to), t, "%s=%s is no number",
                    key, value);
    return spira::status_success();
}

// Splits the next word off a line, and its value behind "=". False: there is none.
static inline bool network_next(char **at, char **key, char **value) {
    *key = strtok_r(nullptr, " \t\r", at);
    if (!*key) {
        return false;
    }
    char *equals = strchr(*key, '=');
    *value = equals ? equals + 1 : *key + strlen(*key);
    if (equals) {
        *equals = 0;
    }
    return true;
}

// Takes the line of the input.
static inline spira::status network_take_input(const network_text *t, char **at) {
    network *n = t->n;
    char *key, *value;
    while (network_next(at, &key, &value)) {
        if (!strcmp(key, "extent")) {
            SPIRA_TRY(network_triple(t, key, value, &n->grid.extent));
        } else {
            int *const to = !strcmp(key, "channels") ? &n->input_channels
                            : !strcmp(key, "batch")  ? &n->batch
                                                     : nullptr;
            NETWORK_REQUIRE(to, t, "%s is no member of the input", key);
            SPIRA_TRY(network_ints(t, key, value, 1, to));
        }
    }
    NETWORK_REQUIRE(n->input_channels, t, "input has no channels");
    return spira::status_success();
}

// Takes the line of a layer.
static inline spira::status network_take_layer(const network_text *t, const char *op, char **at) {
    static const char *const ops[] = {"conv",    "pool_max",    "pool_average", "join",  "dense",
                                      "product", "norm_layer",  "norm_rms",     "prune", "children",
                                      "group",   "norm_groups", nullptr};
    network *n = t->n;
    const int known = network_word(op, ops);
    NETWORK_REQUIRE(known >= 0, t, "%s is no operation", op);
    NETWORK_REQUIRE(n->count < spira::net_layers_max, t, "more than %d layers",
                    (int)spira::net_layers_max);
    spira::net_layer l = {};
    l.op = (spira::net_op)known;
    if (l.op == spira::net_conv || l.op == spira::net_pool_max || l.op == spira::net_pool_average ||
        l.op == spira::net_group) {
        l.stride = l.dilation = spira::triple_make(1, 1, 1);
    }
    const char *name = "";
    char *key, *value;
    while (network_next(at, &key, &value)) {
        if (strcmp(key, "name")) {
            SPIRA_TRY(network_member(t, key, value, &l));
            continue;
        }
        NETWORK_REQUIRE(*value && strlen(value) < sizeof n->names[0], t,
                        "name=%s: 1 to %d bytes are needed", value, (int)sizeof n->names[0] - 1);
        for (int i = 0; i < n->count; ++i) {
            NETWORK_REQUIRE(strcmp(value, n->names[i]), t, "name=%s is taken", value);
        }
        name = value;
    }
    NETWORK_REQUIRE(*name, t, "a layer without a name");
    NETWORK_REQUIRE(l.source.plus_two, t, "%s has no source", name);
    network_add(n, name, l);
    return spira::status_success();
}

// Takes all lines of a text, which is cut into words.
static inline spira::status network_take(network_text *t, char *text) {
    while (text) {
        char *end = strchr(text, '\n'), *at = nullptr;
        if (end) {
            *end = 0;
        }
        ++t->line;
        char *op = strtok_r(text, " \t\r", &at);
        if (t->line == 1) {
            char *word = op ? strtok_r(nullptr, " \t\r", &at) : nullptr;
            char *version = word ? strtok_r(nullptr, " \t\r", &at) : nullptr;
            NETWORK_REQUIRE(version && !strcmp(op, "spira") && !strcmp(word, "layers"), t,
                            "it does not begin with \"spira layers 1\"");
            NETWORK_REQUIRE(!strcmp(version, "1"), t, "version %s; this reads 1", version);
        } else if (op && !strcmp(op, "input")) {
            NETWORK_REQUIRE(!t->n->input_channels, t, "a second input");
            SPIRA_TRY(network_take_input(t, &at));
        } else if (op) {
            NETWORK_REQUIRE(t->n->input_channels, t, "a layer in front of the input");
            SPIRA_TRY(network_take_layer(t, op, &at));
        }
        text = end ? end + 1 : nullptr;
    }
    NETWORK_REQUIRE(t->n->count, t, "it has no layer");
    return spira::status_success();
}

// Reads a table of layers. Planning checks what the layers are.
//
// outputs: n    the network; without a range and voxels
//          why  on failure the file, the line and what was expected; the status points to it
static inline spira::status network_read(const char *path, network *n, scan::scan_reason *why) {
    scan::table file = {};
    network_begin(n, 0);
    spira::status s = scan::table_load(path, &file, why);
    network_text t = {path, 0, n, why};
    if (!spira::status_failed(s) && memchr(file.data, 0, (size_t)file.bytes)) { // a text would end
        s = scan::scan_refuse(why, spira::status_file_format, path,
                              "has bytes of 0, so it is no text");
    }
    s = spira::status_failed(s) ? s : network_take(&t, (char *)file.data);
    free(file.data);
    return s;
}

#undef NETWORK_REQUIRE

} // namespace networks

#endif
