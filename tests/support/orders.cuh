// tests/support/orders.cuh: ordered layouts in device memory and on the host, compared array by
// array.
#ifndef SPIRA_TESTS_ORDERS_CUH
#define SPIRA_TESTS_ORDERS_CUH

#include "device.cuh"

#include "../../spira/layout/order.h"

// All arrays of a layout of so many blocks. What is not written stays poisoned, on both sides.
struct order_arrays {
    int32_t blocks, volume;
    std::vector<int32_t> row, source, schedule;
    std::vector<uint32_t> mask;
};

template <typename T>
void order_poison(std::vector<T> *v, int64_t count) {
    v->resize((size_t)count);
    memset(v->data(), guarded_poison, (size_t)count * sizeof(T));
}

inline order_arrays order_arrays_make(int32_t blocks, int32_t volume) {
    order_arrays a;
    a.blocks = blocks;
    a.volume = volume;
    order_poison(&a.row, (int64_t)blocks * spira::order_rows);
    order_poison(&a.mask, (int64_t)blocks * spira::order_words(volume));
    order_poison(&a.source, (int64_t)blocks * volume * spira::order_rows);
    order_poison(&a.schedule, spira::order_pairs(blocks));
    return a;
}

inline spira::order_layout order_arrays_layout(order_arrays *a) {
    return {a->row.data(), a->mask.data(), a->source.data(), a->schedule.data(), a->blocks, a->volume};
}

// Such a layout in device memory, an array a buffer, poisoned.
inline spira::order_layout order_layout_new(int32_t blocks, int32_t volume) {
    return {device_new_poisoned<int32_t>((int64_t)blocks * spira::order_rows),
            device_new_poisoned<uint32_t>((int64_t)blocks * spira::order_words(volume)),
            device_new_poisoned<int32_t>((int64_t)blocks * volume * spira::order_rows),
            device_new_poisoned<int32_t>(spira::order_pairs(blocks)),
            blocks,
            volume};
}

// Everything the device has of it, the parts that are not written included.
inline order_arrays order_arrays_fetch(const spira::order_layout *l) {
    order_arrays a = order_arrays_make(l->blocks, l->volume);
    device_copy_out(a.row.data(), l->row, (int64_t)a.row.size());
    device_copy_out(a.mask.data(), l->mask, (int64_t)a.mask.size());
    device_copy_out(a.source.data(), l->source, (int64_t)a.source.size());
    device_copy_out(a.schedule.data(), l->schedule, (int64_t)a.schedule.size());
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

// "" where all is the same; else what is not. label: the case at hand.
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
