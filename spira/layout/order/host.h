// spira/layout/order/host.h: the steps of order_build_host (layout/order.h): keys, classes, runs,
// row groups, schedule. The kernels of layout/order.cuh are tested against them.
#ifndef SPIRA_LAYOUT_ORDER_HOST_H
#define SPIRA_LAYOUT_ORDER_HOST_H

#include "key.h"
#include "layout.h"
#include "table.h"

#include <algorithm>

namespace spira {

struct order_host_scratch {
    uint32_t *keys;       // [capacity]; then the weights of the group pairs
    uint32_t *directions; // [capacity] the directions in which an output has taps
    uint64_t *order;      // [capacity] key << 32 | row
};

SPIRA_API order_host_scratch order_host_carve(workspace *w, int32_t capacity) {
    order_host_scratch h;
    h.keys = workspace_take<uint32_t>(w, capacity);
    h.directions = workspace_take<uint32_t>(w, capacity);
    h.order = workspace_take<uint64_t>(w, capacity);
    return h;
}

// Returns the keys of a map (order/key.h).
SPIRA_API order_keys order_keys_host_of(const kernel_shape *kernel, int threshold) {
    return order_keys_of(kernel, order_weights_make(kernel, threshold).directions);
}

// Finds the keys and directions of the rows [count] of a map.
SPIRA_API void order_keys_host(const kernel_shape *kernel, int threshold, const int32_t *map,
                               int32_t count, const order_host_scratch *h) {
    const order_numbers numbers = order_numbers_make();
    const uint32_t columns_have = order_weights_make(kernel, threshold).directions;
    const uint32_t numbered = order_numbered(columns_have);
    const bool by_sectors = order_keys_of(kernel, columns_have) == order_by_sectors;
    uint32_t direction[kernel_volume_max], number[kernel_volume_max]; // of each column, as bits
    int columns = 0;
    for (int k = 0; k < kernel_volume(kernel); ++k) {
        if (kernel_norm(kernel, k) < threshold) {
            direction[columns] = 1u << order_direction(kernel, &numbers, k);
            number[columns] = 1u << count_bits(numbered & (direction[columns] - 1));
            ++columns;
        }
    }
    for (int32_t i = 0; i < count; ++i) {
        uint32_t directions = 0, all = 0;
        for (int c = 0; c < columns; ++c) {
            const bool has = map[(int64_t)i * columns + c] >= 0;
            directions |= has ? direction[c] : 0;
            all |= has ? number[c] : 0;
        }
        h->keys[i] = order_key(by_sectors, all);
        h->directions[i] = directions;
    }
}

// ---- classes ------------------------------------------------------------------------------------

// Returns the class of a key.
SPIRA_API int order_class_host(order_keys keys, uint32_t key) {
    if (keys == order_by_few) {
        return (int)key;
    }
    const uint32_t *table = order_table(keys);
    return (int)(std::upper_bound(table + 1, table + order_classes, key) - (table + 1));
}

// Sorts the rows by class, rows of a class by number.
SPIRA_API void order_divide_host(order_keys keys, int32_t count, const order_host_scratch *h) {
    int32_t next[order_classes + 1] = {};
    for (int32_t i = 0; i < count; ++i) {
        ++next[order_class_host(keys, h->keys[i]) + 1];
    }
    for (int c = 0; c < order_classes; ++c) {
        next[c + 1] += next[c];
    }
    for (int32_t i = 0; i < count; ++i) {
        int32_t to = next[order_class_host(keys, h->keys[i])]++;
        h->order[to] = (uint64_t)h->keys[i] << 32 | (uint32_t)i;
    }
}

// ---- runs and row groups ------------------------------------------------------------------------

// Sorts the rows [count] of a map: by class, then each run by key and row.
SPIRA_API void order_sort_host(const kernel_shape *kernel, int threshold, const int32_t *map,
                               int32_t count, const order_host_scratch *h) {
    order_keys_host(kernel, threshold, map, count, h);
    order_divide_host(order_keys_host_of(kernel, threshold), count, h);
    SPIRA_PARALLEL_FOR
    for (int32_t first = 0; first < count; first += order_run) {
        std::sort(h->order + first, h->order + min_of(first + order_run, count));
    }
}

// Writes one row group of the layout, but for the schedule.
SPIRA_API void order_put_host(const int32_t *map, const uint64_t *order, int32_t count,
                              int64_t group, const order_layout *t) {
    int32_t *row = t->row + group * order_rows;
    uint32_t *mask = t->mask + group * order_words(t->volume);
    for (int p = 0; p < order_rows; ++p) {
        int64_t at = group * order_rows + p;
        row[p] = at < count ? (int32_t)(uint32_t)order[at] : -1;
    }
    std::fill(mask, mask + order_words(t->volume), 0u);
    for (int k = 0; k < t->volume; ++k) {
        int32_t taps[order_rows];
        bool any = false;
        for (int p = 0; p < order_rows; ++p) {
            taps[p] = row[p] < 0 ? -1 : map[(int64_t)row[p] * t->volume + k];
            any |= taps[p] >= 0;
        }
        if (any) {
            mask[k / order_word_bits] |= 1u << k % order_word_bits;
            std::copy(taps, taps + order_rows, t->source + order_begin(t, group, k));
        }
    }
}

// ---- schedule -----------------------------------------------------------------------------------

// Returns the weight of the group pair whose outputs are order [rows].
SPIRA_API uint32_t order_weigh_host(const uint64_t *order, const uint32_t *directions_of, int rows,
                                    const order_weights *weights) {
    uint32_t directions = 0, weight = 0;
    for (int i = 0; i < rows; ++i) {
        directions |= directions_of[(uint32_t)order[i]];
    }
    for (int d = 0; d < order_directions; ++d) {
        weight += directions >> d & 1 ? weights->weight[d] : 0;
    }
    return weight;
}

// Writes the schedule. h: after order_sort_host; the keys are overwritten.
SPIRA_API void order_schedule_host(const kernel_shape *kernel, int threshold, int32_t count,
                                   const order_host_scratch *h, const order_layout *t) {
    const order_weights weights = order_weights_make(kernel, threshold);
    const int32_t pairs = order_pairs(order_count(count)), each = 2 * order_rows;
    uint32_t *weight = h->keys;
    for (int32_t pair = 0; pair < pairs; ++pair) {
        int rows = (int)min_of(count - pair * each, each);
        weight[pair] = order_weigh_host(h->order + pair * each, h->directions, rows, &weights);
        t->schedule[pair] = pair;
    }
    for (int32_t first = 0; first < pairs; first += order_scope) {
        int32_t end = (int32_t)min_of(first + order_scope, pairs);
        std::sort(t->schedule + first, t->schedule + end, [=](int32_t a, int32_t b) {
            return weight[a] != weight[b] ? weight[a] > weight[b] : a < b;
        });
    }
}

} // namespace spira

#endif
