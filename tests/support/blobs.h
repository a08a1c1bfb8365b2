// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/support/blobs.h: blobs put together by hand, from the description of the format in blob.h.
#ifndef SPIRA_TESTS_BLOBS_H
#define SPIRA_TESTS_BLOBS_H

#include "test.h"

#include "../../spira/blob.h"

#include <stdlib.h>
#include <string.h>
#include <string>

namespace blobs {

struct item {
    const char *name;
    uint32_t kind, type;
    uint32_t shape[5];
};

// The example of most tests: three types, all kinds, two weights, one of them a single element.
const item example[] = {
    {"stem", 0, 0, {3, 1, 2, 2, 3}},   {"stem", 1, 0, {1, 1, 1, 1, 3}},
    {"stem", 2, 3, {1, 1, 1, 1, 3}},   {"stem", 3, 2, {1, 1, 1, 1, 3}},
    {"down.1", 0, 2, {1, 1, 1, 1, 1}},
};
enum { example_count = sizeof example / sizeof *example };

inline void put(char *at, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) {
        at[i] = (char)(value >> 8 * i);
    }
}

inline uint64_t get(const char *at, int bytes) {
    uint64_t value = 0;
    for (int i = 0; i < bytes; ++i) {
        value |= (uint64_t)(unsigned char)at[i] << 8 * i;
    }
    return value;
}

// CRC-32 bit by bit.
inline uint32_t crc_of(const char *data, size_t bytes) {
    uint32_t sum = ~0u;
    for (size_t i = 0; i < bytes * 8; ++i) {
        uint32_t bit = ((uint32_t)(unsigned char)data[i / 8] >> i % 8 ^ sum) & 1;
        sum = sum >> 1 ^ (bit ? 0xedb88320u : 0);
    }
    return ~sum;
}

// Corrects the header's checksum, if the index lies within `bytes`.
inline void sign(char *blob, size_t bytes) {
    size_t end = 32 + 112 * (size_t)get(blob + 24, 4);
    if (bytes >= end) {
        put(blob + 12, crc_of(blob + 16, end - 16), 4);
    }
}

inline uint64_t elements_of(const item *t) {
    return (uint64_t)t->shape[0] * t->shape[1] * t->shape[2] * t->shape[3] * t->shape[4];
}

// Element n of an item: a value that all types hold exactly.
inline float value_of(const item *t, uint64_t n) {
    return (float)((int)(n * 7 + t->kind * 3) % 31 - 15) / 8;
}

inline std::string blob_by_hand(const item *items, int count) {
    std::string blob((size_t)(32 + 112 * count), '\0');
    memcpy(&blob[0], "spirablb", 8);
    put(&blob[24], (uint64_t)count, 4);
    put(&blob[28], 112, 4);
    uint64_t version = 1; // 2 with ranges
    for (int i = 0; i < count; ++i) {
        const item *t = &items[i];
        version = t->kind >= 4 ? 2 : version;
        blob.resize((blob.size() + 255) / 256 * 256, '\0');
        uint64_t at = blob.size(), elements = elements_of(t), width = t->type ? 2 : 4;
        blob.resize((size_t)(at + elements * width), '\0');
        for (uint64_t n = 0; n < elements; ++n) {
            float f = value_of(t, n);
            put(&blob[(size_t)(at + n * width)],
                t->type == 0   ? spira::float_bits(f)
                : t->type == 2 ? spira::f16_from_float(f)
                               : spira::bf16_from_float(f),
                (int)width);
        }
        char *e = &blob[(size_t)(32 + 112 * i)];
        memcpy(e, t->name, strlen(t->name));
        put(e + 64, t->kind, 4);
        put(e + 68, t->type, 4);
        for (int d = 0; d < 5; ++d) {
            put(e + 72 + 4 * d, t->shape[d], 4);
        }
        put(e + 92, crc_of(&blob[(size_t)at], (size_t)(elements * width)), 4);
        put(e + 96, at, 8);
        put(e + 104, elements * width, 8);
    }
    put(&blob[8], version, 4);
    put(&blob[16], blob.size(), 8);
    sign(&blob[0], blob.size());
    return blob;
}

// Returns a copy of exactly this size, between sentinels or a sanitizer's red zones.
inline char *exact(const char *data, size_t bytes) {
    char *copy = guarded_new<char>((int64_t)bytes);
    memcpy(copy, data, bytes);
    return copy;
}

// A copy that is freed at the end of its scope: for long loops.
struct copied {
    char *data;

    copied(const std::string &blob, size_t bytes) : data(nullptr) {
        if (posix_memalign((void **)&data, 256, bytes ? bytes : 1)) {
            abort();
        }
        memcpy(data, blob.data(), bytes);
    }
    copied(const copied &) = delete;
    ~copied() {
        free(data);
    }
};

// Whether a status is an error whose subject contains `words`.
inline bool says(spira::status s, const char *words) {
    return spira::status_failed(s) && strstr(s.subject, words) != nullptr;
}

} // namespace blobs

#endif
