// tests/support/orders.cuh: ordered layouts in device memory and on the host, compared array by
// array.
#ifndef SPIRA_TESTS_ORDERS_CUH
#define SPIRA_TESTS_ORDERS_CUH

#include "device.cuh"

#include "../../spira/order.h"

// All arrays of an ordered layout in host memory. Entries that are not written stay poisoned.
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

inline spira::order_layout order_arrays_layout(order_arrays *a) {
    spira::order_layout l;
    l.row = a->row.data();
    l.mask = a->mask.data();
    l.source = a->source.data();
    l.schedule = a->schedule.data();
    l.groups = a->groups;
    l.volume = a->volume;
    return l;
}

// A poisoned layout in device memory, each array a buffer of its own.
inline spira::order_layout order_layout_new(int32_t groups, int32_t volume) {
    spira::order_layout l;
    l.row = device_new_poisoned<int32_t>((int64_t)groups * spira::order_rows);
    l.mask = device_new_poisoned<uint32_t>((int64_t)groups * spira::order_words(volume));
    l.source = device_new_poisoned<int32_t>((int64_t)groups * volume * spira::order_rows);
    l.schedule = device_new_poisoned<int32_t>(spira::order_pairs(groups));
    l.groups = groups;
    l.volume = volume;
    return l;
}

// Copies all arrays of a layout from the device, with the entries that were not written.
inline order_arrays order_arrays_fetch(const spira::order_layout *l) {
    order_arrays a = order_arrays_make(l->groups, l->volume);
    device_get(a.row.data(), l->row, a.row.size() * sizeof a.row[0]);
    device_get(a.mask.data(), l->mask, a.mask.size() * sizeof a.mask[0]);
    device_get(a.source.data(), l->source, a.source.size() * sizeof a.source[0]);
    device_get(a.schedule.data(), l->schedule, a.schedule.size() * sizeof a.schedule[0]);
    device_settle();
    return a;
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
