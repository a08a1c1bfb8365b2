// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/support/orders.h: kernel maps to order, and ordered layouts on the host, compared array by
// array.
#ifndef SPIRA_TESTS_ORDERS_H
#define SPIRA_TESTS_ORDERS_H

#include "memory.h"

#include "../../spira/map.h"
#include "../../spira/order.h"

// ---- kernel maps --------------------------------------------------------------------------------

enum order_fill {
    fill_none,
    fill_all,
    fill_sparse,
    fill_half,
    fill_by_offset, // some offsets are rare, some frequent
    fill_alike,     // many rows with the same taps
    fill_last,      // only the last offset: the largest key of an odd kernel
    order_fills,
};

// A map [capacity, columns]. Rows from `count` on have plausible sources, and must not be read.
// told: the count in memory, which may exceed the capacity
struct order_scene {
    spira::kernel_shape kernel;
    int threshold; // of the map's columns; 0: all offsets
    int32_t count, capacity, told;
    std::vector<int32_t> map, compact; // compact: of order_scene_compact
};

inline order_scene order_scene_empty(const spira::kernel_shape *kernel, int threshold,
                                     int32_t count, int32_t capacity) {
    order_scene s = {};
    s.kernel = *kernel;
    s.threshold = threshold;
    s.count = s.told = count;
    s.capacity = capacity;
    return s;
}

// The request of a scene but for its arrays.
inline spira::order_request order_scene_request(const order_scene *s) {
    spira::order_request r = {};
    r.kernel = s->kernel;
    r.threshold = s->threshold;
    r.map = s->map.data();
    r.count = &s->told;
    r.capacity = s->capacity;
    return r;
}

inline int32_t order_scene_columns(const order_scene *s) {
    const spira::order_request r = order_scene_request(s), whole = spira::order_request_whole(&r);
    return spira::kernel_norm_count(&s->kernel, whole.threshold, spira::kernel_volume(&s->kernel));
}

inline bool order_fill_has(random_state *random, order_fill fill, int volume, int32_t row, int k) {
    switch (fill) {
    case fill_none:
    case order_fills:
        break;
    case fill_all:
        return true;
    case fill_sparse:
        return random_int(random, 0, 19) == 0;
    case fill_half:
        return random_int(random, 0, 1) == 0;
    case fill_by_offset:
        return random_int(random, 0, volume) <= k;
    case fill_alike:
        return (row % 7 + k) % 3 == 0;
    case fill_last:
        return k == volume - 1;
    }
    return false;
}

inline order_scene order_scene_make(random_state *random, spira::triple size, int32_t count,
                                    int32_t capacity, order_fill fill, int threshold = 0) {
    spira::kernel_shape kernel = spira::kernel_cube(1, 1);
    kernel.size = size;
    order_scene s = order_scene_empty(&kernel, threshold, count, capacity);
    const int volume = order_scene_columns(&s);
    s.map.resize((size_t)capacity * (size_t)volume, 12345);
    for (int64_t i = 0; i < (int64_t)count * volume; ++i) {
        const int row = (int)(i / volume), k = (int)(i % volume);
        const bool has = order_fill_has(random, fill, volume, row, k);
        s.map[(size_t)i] = has ? random_int(random, 0, 1 << 30) : -1;
    }
    return s;
}

// Whether a scene's map has a compact form.
inline bool order_scene_can_be_compact(const order_scene *s) {
    return spira::compact_has(&s->kernel) &&
           order_scene_columns(s) == spira::kernel_volume(&s->kernel);
}

// Makes the compact form. The sources of a row of offsets become neighbours.
inline void order_scene_compact(order_scene *s) {
    const int volume = spira::kernel_volume(&s->kernel), size = s->kernel.size.z;
    s->compact.assign((size_t)spira::compact_numbers(&s->kernel, s->capacity), 12345); // looks real
    for (int32_t i = 0; i < s->count; ++i) {
        int32_t *taps = s->map.data() + (int64_t)i * volume, next = -1;
        for (int c = 0; c < volume; ++c) {
            next = c % size ? next : -1;
            if (taps[c] >= 0) {
                taps[c] = next < 0 ? taps[c] : next;
                next = taps[c] + 1;
            }
        }
        CHECK(spira::map_compact_put(&s->kernel, taps, s->capacity, i, s->compact.data()));
    }
}

// ---- layouts ------------------------------------------------------------------------------------

// All arrays of an ordered layout. Entries that are not written stay poisoned.
struct order_arrays {
    int32_t groups, volume;
    std::vector<int32_t> row, source, schedule;
    std::vector<uint32_t> mask;
};

template <typename T>
void order_poison(std::vector<T> *v, int64_t count) {
    v->resize((size_t)count);
    memset(v->data(), guarded_poison, (size_t)count * sizeof(T));
}

inline order_arrays order_arrays_make(int32_t groups, int32_t volume) {
    order_arrays a;
    a.groups = groups;
    a.volume = volume;
    order_poison(&a.row, (int64_t)groups * spira::order_rows);
    order_poison(&a.mask, (int64_t)groups * spira::order_words(volume));
    order_poison(&a.source, (int64_t)groups * volume * spira::order_rows);
    order_poison(&a.schedule, spira::order_pairs(groups));
    return a;
}

// A poisoned layout in memory of either side, each array a buffer of its own.
inline spira::order_layout order_layout_new(const test_memory *m, int32_t groups, int32_t volume) {
    spira::order_layout l;
    l.row = memory_poisoned<int32_t>(m, (int64_t)groups * spira::order_rows);
    l.mask = memory_poisoned<uint32_t>(m, (int64_t)groups * spira::order_words(volume));
    l.source = memory_poisoned<int32_t>(m, (int64_t)groups * volume * spira::order_rows);
    l.schedule = memory_poisoned<int32_t>(m, spira::order_pairs(groups));
    l.groups = groups;
    l.volume = volume;
    return l;
}

// All arrays of a layout, with the entries that were not written.
inline order_arrays order_arrays_fetch(const test_memory *m, const spira::order_layout *l) {
    order_arrays a = order_arrays_make(l->groups, l->volume);
    m->get(a.row.data(), l->row, a.row.size() * sizeof a.row[0]);
    m->get(a.mask.data(), l->mask, a.mask.size() * sizeof a.mask[0]);
    m->get(a.source.data(), l->source, a.source.size() * sizeof a.source[0]);
    m->get(a.schedule.data(), l->schedule, a.schedule.size() * sizeof a.schedule[0]);
    m->settle();
    return a;
}

// The request of a scene, whose map may be compact. extra: row groups beyond the capacity
inline spira::order_request order_request_make(const test_memory *m, order_scene *s, int32_t extra,
                                               bool compact) {
    spira::order_request r = order_scene_request(s);
    if (compact && order_scene_can_be_compact(s)) {
        order_scene_compact(s);
        r.compact = memory_put(m, s->compact);
        r.map = nullptr;
    } else {
        // Rows of 8 columns are read 16 bytes at a time where they are aligned to that.
        std::vector<int32_t> map(s->capacity % 2, -2);
        map.insert(map.end(), s->map.begin(), s->map.end());
        r.map = memory_put(m, map) + s->capacity % 2;
    }
    r.count = memory_put(m, &s->told, 1);
    r.layout = order_layout_new(m, spira::order_count(s->capacity) + extra, order_scene_columns(s));
    return r;
}

// The layout of a scene.
inline order_arrays order_arrays_on_host(const order_scene *s, int32_t extra) {
    size_t bytes = 0;
    CHECK_OK(spira::order_host_workspace(s->capacity, &bytes));
    spira::order_request r = order_scene_request(s);
    r.layout = order_layout_new(&memory_host, spira::order_count(s->capacity) + extra,
                                order_scene_columns(s));
    CHECK_OK(spira::order_build_host(&r, guarded_new<char>((int64_t)bytes), bytes));
    return order_arrays_fetch(&memory_host, &r.layout);
}

inline char order_finding[1024]; // the first difference

template <typename T>
bool order_same(const char *name, const std::vector<T> &got, const std::vector<T> &wanted,
                const char *label) {
    for (size_t i = 0; i < wanted.size(); ++i) {
        if (got[i] != wanted[i]) {
            snprintf(order_finding, sizeof order_finding, "%s[%zu]: %lld instead of %lld (%s)",
                     name, i, (long long)got[i], (long long)wanted[i], label);
            return false;
        }
    }
    return true;
}

// Returns the first difference, or "". label: the test case
inline const char *order_difference(const order_arrays &got, const order_arrays &wanted,
                                    const char *label) {
    order_finding[0] = 0;
    const bool equal = order_same("row", got.row, wanted.row, label) &&
                       order_same("mask", got.mask, wanted.mask, label) &&
                       order_same("source", got.source, wanted.source, label) &&
                       order_same("schedule", got.schedule, wanted.schedule, label);
    return equal ? "" : order_finding;
}

#endif
