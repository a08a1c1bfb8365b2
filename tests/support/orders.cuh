// tests/support/orders.cuh: ordered layouts in device memory.
#ifndef SPIRA_TESTS_ORDERS_CUH
#define SPIRA_TESTS_ORDERS_CUH

#include "device.cuh"
#include "orders.h"

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

#endif
