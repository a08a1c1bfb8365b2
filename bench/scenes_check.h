// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// bench/scenes_check.h: compares other forms of a kernel map with the map itself, an element at a
// time, on the host or on the GPU.
//
// A map of millions of outputs is compared with the host's by bench_scenes. Its other forms are
// then compared with it where they are: in device memory. Plain C++ outside of nvcc.
#ifndef SPIRA_BENCH_SCENES_CHECK_H
#define SPIRA_BENCH_SCENES_CHECK_H

#include "../spira/map.h"
#include "../spira/order.h"

// A map in its forms; those that are null are not compared.
struct scenes_forms {
    const int32_t *map;        // [outputs, volume]
    int K;                     // a cube
    int32_t outputs;           // also the capacity of all forms
    const int32_t *half;       // [outputs, volume / 2]
    const int32_t *compact;    // [K, outputs, K + 1]
    spira::map_lists pairs;    // of all offsets
    spira::order_layout order; // row is null: none
};

SPIRA_BOTH int scenes_volume(const scenes_forms *f) {
    return f->K * f->K * f->K;
}

SPIRA_BOTH int32_t scenes_tap(const scenes_forms *f, int64_t output, int k) {
    return f->map[output * scenes_volume(f) + k];
}

// Whether the half map agrees for an output and one of the first volume / 2 offsets.
SPIRA_BOTH bool scenes_half_agrees(const scenes_forms *f, int32_t output, int k) {
    const int columns = scenes_volume(f) / 2;
    return f->half[(int64_t)output * columns + k] == scenes_tap(f, output, k);
}

SPIRA_BOTH bool scenes_compact_agrees(const scenes_forms *f, int32_t output, int k) {
    const int plane = f->K * f->K;
    const int64_t at = spira::compact_at(f->K, f->outputs, k / plane, output);
    return spira::compact_source(f->compact + at, f->K, k % plane) == scenes_tap(f, output, k);
}

// Whether pair i of offset k is a pair of the map, its output above that of the pair before it.
// With the right number of pairs for each offset, the lists are then those of the map.
SPIRA_BOTH bool scenes_pair_agrees(const scenes_forms *f, int32_t i, int k) {
    const int32_t output = f->pairs.output[i];
    const bool first = i == f->pairs.begin[k];
    return output >= 0 && output < f->outputs && (first || f->pairs.output[i - 1] < output) &&
           f->pairs.input[i] >= 0 && f->pairs.input[i] == scenes_tap(f, output, k);
}

// Whether slot `lane` of a row group has, for offset k, the source of its output; an offset that is
// not in the group's mask has none. Behind the last output, rows are -1.
SPIRA_BOTH bool scenes_order_agrees(const scenes_forms *f, int64_t group, int k, int lane) {
    const spira::order_layout *t = &f->order;
    const int64_t at = group * spira::order_rows + lane;
    const int32_t output = t->row[at];
    const uint32_t mask =
        t->mask[group * spira::order_words(t->volume) + k / spira::order_word_bits];
    const bool present = mask >> k % spira::order_word_bits & 1;
    const int32_t source = present ? t->source[spira::order_begin(t, group, k) + lane] : -1;
    if (at >= f->outputs) {
        return output == -1 && source == -1;
    }
    return output >= 0 && output < f->outputs && source == scenes_tap(f, output, k);
}

// ---- one element of a form ----------------------------------------------------------------------

enum scenes_form { scenes_form_half, scenes_form_compact, scenes_form_pairs, scenes_form_order };

// How many elements scenes_agrees compares.
SPIRA_BOTH int64_t scenes_elements(const scenes_forms *f, scenes_form form, int64_t pairs) {
    const int volume = scenes_volume(f);
    return form == scenes_form_half      ? (int64_t)f->outputs * (volume / 2)
           : form == scenes_form_compact ? (int64_t)f->outputs * volume
           : form == scenes_form_pairs   ? pairs
                                         : (int64_t)f->order.groups * volume * spira::order_rows;
}

// Whether element i of a form agrees with the map. placed: the output whose place in the ordered
// layout this is, once for each place; else -1.
SPIRA_BOTH bool scenes_agrees(const scenes_forms *f, scenes_form form, int64_t i, int32_t *placed) {
    const int volume = scenes_volume(f), columns = volume / 2, rows = spira::order_rows;
    *placed = -1;
    if (form == scenes_form_half) {
        return scenes_half_agrees(f, (int32_t)(i / columns), (int)(i % columns));
    }
    if (form == scenes_form_compact) {
        return scenes_compact_agrees(f, (int32_t)(i / volume), (int)(i % volume));
    }
    if (form == scenes_form_pairs) {
        int k = 0;
        while (k < volume && i >= f->pairs.begin[k + 1]) {
            ++k;
        }
        return k < volume && scenes_pair_agrees(f, (int32_t)i, k);
    }
    const int64_t group = i / rows / volume;
    const int k = (int)(i / rows % volume), lane = (int)(i % rows);
    const bool agrees = scenes_order_agrees(f, group, k, lane);
    *placed = agrees && k == 0 ? f->order.row[group * rows + lane] : -1;
    return agrees;
}

#endif
