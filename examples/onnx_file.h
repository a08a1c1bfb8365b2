// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/onnx_file.h: reads an .onnx file, without protobuf: its nodes, attributes and tensors.
//
// The wire format: a key (field number * 8 + type), then a number of variable length (type 0),
// eight bytes (1), a length and bytes (2), or four bytes (5). Fields come in any order, unknown
// ones are skipped, and lists of numbers stand packed in one field or spread over many.
#ifndef SPIRA_EXAMPLES_ONNX_FILE_H
#define SPIRA_EXAMPLES_ONNX_FILE_H

#include "table.h"

#include <string>
#include <vector>

namespace onnx {

// data_type of a tensor.
enum type {
    type_f32 = 1,
    type_u8 = 2,
    type_i8 = 3,
    type_i32 = 6,
    type_i64 = 7,
    type_bool = 9,
    type_f16 = 10,
    type_f64 = 11,
    type_bf16 = 16,
};

struct tensor {
    std::string name;
    std::vector<int64_t> dims;
    int type;
    std::vector<float> floats; // of f16, bf16, f32, f64; their number is the product of dims
    std::vector<int64_t> ints; // of the other types
};

struct attribute {
    std::string name;
    float f;
    int64_t i;
    std::string s;
    tensor t;
    std::vector<float> floats;
    std::vector<int64_t> ints;
    bool has_tensor;
};

struct node {
    std::string name, op, domain;
    std::vector<std::string> inputs, outputs; // an empty input is absent
    std::vector<attribute> attributes;
};

// An input or output of the graph.
struct value {
    std::string name;
    int type;
    std::vector<int64_t> dims; // -1 where it has a name
};

struct graph {
    std::string name, producer;
    std::vector<node> nodes; // in the order of the file
    std::vector<tensor> tensors;
    std::vector<value> inputs, outputs;
};

// ---- the wire -----------------------------------------------------------------------------------

struct bytes {
    const unsigned char *at, *end;
};

// A field: its number, and its value or its bytes.
struct field {
    int number, wire;
    uint64_t value; // of wire types 0, 1 and 5
    bytes data;     // of type 2
};

// Takes a number of variable length. Returns false if it does not end.
static inline bool number_take(bytes *from, uint64_t *value) {
    *value = 0;
    for (int shift = 0; shift < 64 && from->at < from->end; shift += 7) {
        const unsigned char byte = *from->at++;
        *value |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) {
            return true;
        }
    }
    return false;
}

// Takes a value of fixed size, low byte first.
static inline bool fixed_take(bytes *from, int size, uint64_t *value) {
    *value = 0;
    if (from->end - from->at < size) {
        return false;
    }
    for (int i = 0; i < size; ++i) {
        *value |= (uint64_t)*from->at++ << 8 * i;
    }
    return true;
}

// Takes a field. Returns false at the end (*good) or where the bytes are no field.
static inline bool field_take(bytes *from, field *f, bool *good) {
    uint64_t key, length;
    if (from->at == from->end) {
        return false;
    }
    *good = number_take(from, &key);
    f->number = (int)(key >> 3 & 0x1fffffff);
    f->wire = (int)(key & 7);
    f->data = {from->at, from->at};
    if (*good && f->wire == 2) {
        *good = number_take(from, &length) && length <= (uint64_t)(from->end - from->at);
        f->data = {from->at, from->at + (*good ? length : 0)};
        from->at = f->data.end;
    } else if (*good) {
        *good = f->wire == 0   ? number_take(from, &f->value)
                : f->wire == 1 ? fixed_take(from, 8, &f->value)
                               : f->wire == 5 && fixed_take(from, 4, &f->value);
    }
    return *good;
}

static inline std::string text_of(const field &f) {
    return std::string((const char *)f.data.at, (size_t)(f.data.end - f.data.at));
}

static inline float float_of(uint64_t bits) {
    const uint32_t low = (uint32_t)bits;
    float value;
    memcpy(&value, &low, sizeof value);
    return value;
}

// Appends the integers of a field, packed or one alone.
static inline bool ints_take(const field &f, std::vector<int64_t> *to) {
    uint64_t value = f.value;
    bytes data = f.data;
    if (f.wire == 0) {
        to->push_back((int64_t)value);
    }
    while (data.at < data.end) {
        if (!number_take(&data, &value)) {
            return false;
        }
        to->push_back((int64_t)value);
    }
    return f.wire == 0 || f.wire == 2;
}

// Appends floats of `size` bytes, packed or one alone.
static inline bool floats_take(const field &f, int size, std::vector<float> *to) {
    uint64_t value = f.value;
    bytes data = f.data;
    const auto add = [&]() {
        double wide;
        memcpy(&wide, &value, sizeof wide);
        to->push_back(size == 8 ? (float)wide : float_of(value));
    };
    if (f.wire == (size == 8 ? 1 : 5)) {
        add();
    }
    while (data.at < data.end) {
        if (!fixed_take(&data, size, &value)) {
            return false;
        }
        add();
    }
    return f.wire == 2 || f.wire == (size == 8 ? 1 : 5);
}

// ---- messages -----------------------------------------------------------------------------------

// What the readers of messages share. The first fault is kept.
struct reader {
    const char *path;
    scan::scan_reason *why;
    spira::status result;
};

// Records a fault, unless there is one. Returns false.
static inline bool refuse(reader *r, const std::string &what) {
    if (!spira::status_failed(r->result)) {
        r->result = scan::scan_refuse(r->why, spira::status_file_format, r->path, "%s",
                                      what.substr(0, 300).c_str());
    }
    return false;
}

static inline bool type_is_float(int type) {
    return type == type_f16 || type == type_bf16 || type == type_f32 || type == type_f64;
}

static inline int type_bytes(int type) {
    return type == type_f64 || type == type_i64                      ? 8
           : type == type_f32 || type == type_i32                    ? 4
           : type == type_f16 || type == type_bf16                   ? 2
           : type == type_u8 || type == type_i8 || type == type_bool ? 1
                                                                     : 0;
}

// A float from the bits of a 16-bit type.
static inline float narrow_float(int type, uint32_t bits) {
    return type == type_bf16 ? float_of((uint64_t)(bits & 0xffff) << 16)
                             : (float)scan::value_of_half((uint16_t)bits);
}

// The values of raw_data.
static inline void raw_take(bytes raw, tensor *t) {
    const int size = type_bytes(t->type);
    uint64_t bits;
    while (fixed_take(&raw, size, &bits)) {
        double wide;
        memcpy(&wide, &bits, sizeof wide);
        switch (t->type) {
        case type_f32:
            t->floats.push_back(float_of(bits));
            break;
        case type_f64:
            t->floats.push_back((float)wide);
            break;
        case type_f16:
        case type_bf16:
            t->floats.push_back(narrow_float(t->type, (uint32_t)bits));
            break;
        case type_i8:
            t->ints.push_back((int8_t)bits);
            break;
        case type_i32:
            t->ints.push_back((int32_t)bits);
            break;
        default:
            t->ints.push_back((int64_t)bits);
        }
    }
}

// Whether the numbers of a tensor are as many as its dims say.
static inline bool tensor_check(reader *r, const tensor &t, bool outside) {
    int64_t count = 1;
    for (int64_t d : t.dims) {
        if (d < 0 || (d > 0 && count > INT32_MAX / d)) {
            return refuse(r, "tensor " + t.name + ": a size of " + std::to_string(d));
        }
        count *= d;
    }
    const size_t got = type_is_float(t.type) ? t.floats.size() : t.ints.size();
    if (outside) {
        return refuse(r, "tensor " + t.name + ": its data lie in another file: save one file");
    }
    if (!type_bytes(t.type)) {
        return refuse(r, "tensor " + t.name + ": data type " + std::to_string(t.type));
    }
    return got == (size_t)count || refuse(r, "tensor " + t.name + ": " + std::to_string(got) +
                                                 " values for dims of " + std::to_string(count));
}

// Numbers of int32_data: integers, or the bits of 16-bit floats.
static inline void int32_take(const std::vector<int64_t> &numbers, tensor *t) {
    for (int64_t n : numbers) {
        if (type_is_float(t->type)) {
            t->floats.push_back(narrow_float(t->type, (uint32_t)n));
        } else {
            t->ints.push_back(t->type == type_i8 ? (int8_t)n : (int32_t)n);
        }
    }
}

static inline bool tensor_read(reader *r, bytes from, tensor *t) {
    field f = {};
    bool good = true, outside = false;
    std::vector<int64_t> narrow;
    bytes raw = {nullptr, nullptr};
    *t = {};
    while (field_take(&from, &f, &good)) {
        switch (f.number) {
        case 1:
            good = ints_take(f, &t->dims);
            break;
        case 2:
            t->type = (int)f.value;
            break;
        case 4:
            good = floats_take(f, 4, &t->floats);
            break;
        case 5:
            good = ints_take(f, &narrow);
            break;
        case 7:
            good = ints_take(f, &t->ints);
            break;
        case 8:
            t->name = text_of(f);
            break;
        case 9:
            raw = f.data;
            break;
        case 10:
            good = floats_take(f, 8, &t->floats);
            break;
        case 14:
            outside = f.value == 1;
        }
        if (!good) {
            break;
        }
    }
    if (!good) {
        return refuse(r, "tensor " + t->name + " is damaged");
    }
    if (type_bytes(t->type)) {
        raw_take(raw, t);
        int32_take(narrow, t);
    }
    return tensor_check(r, *t, outside);
}

static inline bool attribute_read(reader *r, bytes from, attribute *a) {
    field f = {};
    bool good = true;
    *a = {};
    while (field_take(&from, &f, &good)) {
        switch (f.number) {
        case 1:
            a->name = text_of(f);
            break;
        case 2:
            a->f = float_of(f.value);
            break;
        case 3:
            a->i = (int64_t)f.value;
            break;
        case 4:
            a->s = text_of(f);
            break;
        case 5:
            a->has_tensor = true;
            if (!tensor_read(r, f.data, &a->t)) {
                return false;
            }
            break;
        case 7:
            good = floats_take(f, 4, &a->floats);
            break;
        case 8:
            good = ints_take(f, &a->ints);
        }
        if (!good) {
            break;
        }
    }
    return good || refuse(r, "attribute " + a->name + " is damaged");
}

static inline bool node_read(reader *r, bytes from, node *n) {
    field f = {};
    bool good = true;
    *n = {};
    while (field_take(&from, &f, &good)) {
        switch (f.number) {
        case 1:
            n->inputs.push_back(text_of(f));
            break;
        case 2:
            n->outputs.push_back(text_of(f));
            break;
        case 3:
            n->name = text_of(f);
            break;
        case 4:
            n->op = text_of(f);
            break;
        case 5:
            n->attributes.emplace_back();
            if (!attribute_read(r, f.data, &n->attributes.back())) {
                return false;
            }
            break;
        case 7:
            n->domain = text_of(f);
        }
    }
    return good || refuse(r, "node " + n->name + " (" + n->op + ") is damaged");
}

// Reads the one field `number` of a message that has it.
static inline bool inner_find(bytes from, int number, bytes *inner) {
    field f = {};
    bool good = true;
    *inner = {nullptr, nullptr};
    while (field_take(&from, &f, &good)) {
        if (f.number == number && f.wire == 2) {
            *inner = f.data;
        }
    }
    return good;
}

static inline bool value_read(reader *r, bytes from, value *v) {
    field f = {};
    bytes types = {}, tensors = {}, shape = {};
    bool good = true;
    *v = {};
    for (bytes at = from; field_take(&at, &f, &good);) {
        v->name = f.number == 1 ? text_of(f) : v->name;
    }
    good = good && inner_find(from, 2, &types) && inner_find(types, 1, &tensors) &&
           inner_find(tensors, 2, &shape);
    for (bytes at = tensors; good && field_take(&at, &f, &good);) {
        v->type = f.number == 1 ? (int)f.value : v->type;
    }
    for (bytes at = shape; good && field_take(&at, &f, &good);) {
        if (f.number == 1) {
            field d = {};
            v->dims.push_back(-1);
            for (bytes dim = f.data; field_take(&dim, &d, &good);) {
                v->dims.back() = d.number == 1 ? (int64_t)d.value : v->dims.back();
            }
        }
    }
    return good || refuse(r, "input or output " + v->name + " is damaged");
}

static inline bool graph_read(reader *r, bytes from, graph *g) {
    field f = {};
    bool good = true, whole = true;
    while (whole && field_take(&from, &f, &good)) {
        switch (f.number) {
        case 1:
            g->nodes.emplace_back();
            whole = node_read(r, f.data, &g->nodes.back());
            break;
        case 2:
            g->name = text_of(f);
            break;
        case 5:
            g->tensors.emplace_back();
            whole = tensor_read(r, f.data, &g->tensors.back());
            break;
        case 11:
            g->inputs.emplace_back();
            whole = value_read(r, f.data, &g->inputs.back());
            break;
        case 12:
            g->outputs.emplace_back();
            whole = value_read(r, f.data, &g->outputs.back());
        }
    }
    return whole && (good || refuse(r, "its graph is damaged"));
}

// Reads a file in memory; path: for messages.
static inline spira::status graph_parse(const char *path, bytes from, graph *g,
                                        scan::scan_reason *why) {
    reader r = {path, why, spira::status_success()};
    field f = {};
    bool good = true, found = false;
    *g = {};
    while (good && field_take(&from, &f, &good)) {
        g->producer = f.number == 2 && f.wire == 2 ? text_of(f) : g->producer;
        if (f.number == 7 && f.wire == 2) {
            found = true;
            good = graph_read(&r, f.data, g);
        }
    }
    if (!good || !found) {
        refuse(&r, found ? "is damaged" : "has no graph: no ONNX file, or cut short");
    }
    return r.result;
}

// Reads a file.
//
// outputs: g    nodes, tensors, inputs and outputs, as they stand in the file
//          why  on failure what is wrong; the status points to it
// errors:  status_file_open, status_file_empty; status_file_format: damaged, cut short, without a
//          graph, a tensor of an unknown type, of the wrong size or in another file
static inline spira::status graph_load(const char *path, graph *g, scan::scan_reason *why) {
    scan::table file = {};
    spira::status s = scan::table_load(path, &file, why);
    if (!spira::status_failed(s)) {
        s = graph_parse(path, {file.data, file.data + file.bytes}, g, why);
    }
    scan::table_free(&file);
    return s;
}

// ---- what a node says ---------------------------------------------------------------------------

// The attribute of a name; null: it is absent.
static inline const attribute *attribute_find(const node &n, const char *name) {
    for (const attribute &a : n.attributes) {
        if (a.name == name) {
            return &a;
        }
    }
    return nullptr;
}

static inline int64_t attribute_int(const node &n, const char *name, int64_t otherwise) {
    const attribute *a = attribute_find(n, name);
    return a ? a->i : otherwise;
}

static inline float attribute_float(const node &n, const char *name, float otherwise) {
    const attribute *a = attribute_find(n, name);
    return a ? a->f : otherwise;
}

static inline std::string attribute_text(const node &n, const char *name, const char *otherwise) {
    const attribute *a = attribute_find(n, name);
    return a ? a->s : otherwise;
}

} // namespace onnx

#endif
