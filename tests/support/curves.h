// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/support/curves.h: sets for the tests of curve.h, their order by another road, and runs on
// either side.
#ifndef SPIRA_TESTS_CURVES_H
#define SPIRA_TESTS_CURVES_H

#include "memory.h"
#include "sets.h"

#include "../../spira/curve.h"

#include <array>

// The cell at a place of Hilbert's curve: Skilling's inverse transform ("Programming the Hilbert
// curve", 2004), on the transposed place.
inline std::array<uint32_t, 3> curve_cell(uint64_t place, int depth) {
    std::array<uint32_t, 3> x = {};
    for (int bit = 0; bit < 3 * depth; ++bit) {
        x[(size_t)(2 - bit % 3)] |= (uint32_t)(place >> bit & 1) << bit / 3;
    }
    const uint32_t top = x[2] >> 1;
    x[2] ^= x[1];
    x[1] ^= x[0];
    x[0] ^= top;
    for (uint32_t q = 2; q != 2u << (depth - 1); q *= 2) {
        for (size_t i = 3; i-- > 0;) {
            if (x[i] & q) {
                x[0] ^= q - 1;
            } else {
                const uint32_t change = (x[0] ^ x[i]) & (q - 1);
                x[0] ^= change;
                x[i] ^= change;
            }
        }
    }
    return x;
}

template <typename W>
struct curve_problem {
    spira::word_layout layout;
    std::vector<W> words; // [capacity]
    int32_t count;
    spira::curve_args<W> args; // without pointers, but for the layout
    bool with_code, with_rank;
};

template <typename W>
curve_problem<W> curve_random(random_state *r, int32_t most) {
    using namespace spira;
    curve_problem<W> p = {};
    const int s = 1 << random_int(r, 0, 2), batches = random_int(r, 1, 3);
    const triple stride = {s, s, random_int(r, 0, 1) ? s : 1};
    const triple lo = {-6 * s, 0, -4 * stride.z}, hi = {9 * s, 20 * s, 7 * stride.z};
    p.layout = reference_layout<W>(lo, hi, batches, stride, {1, 1, 1});
    p.words = set_random<W>(r, &p.layout, lo, hi, random_int(r, 0, most), stride);
    p.count = (int32_t)p.words.size();
    set_pad(&p.words, p.count + random_int(r, p.count == 0, 9));
    p.args.stride = stride;
    p.args.origin = random_int(r, 0, 2) ? lo : triple{0, 5, 0}; // the second leaves voxels off it
    p.args.depth = random_int(r, 5, 16);
    p.args.kind = (curve_kind)random_int(r, 0, curve_count - 1);
    p.with_code = random_int(r, 0, 3);
    p.with_rank = random_int(r, 0, 3);
    return p;
}

template <typename W>
struct curve_outcome {
    std::vector<uint64_t> code;
    std::vector<int32_t> order, rank;
    spira::device_status trouble;
};

template <typename W>
struct curve_side {
    const test_memory *memory;
    spira::status (*bytes)(const spira::curve_args<W> *, size_t *);
    spira::status (*run)(const spira::curve_args<W> *, void *, size_t);
};

// What there is up to the count. Frees all buffers.
template <typename W>
curve_outcome<W> curve_run(const curve_problem<W> *p, const curve_side<W> *side) {
    using namespace spira;
    const test_memory *m = side->memory;
    const device_status clear = {};
    curve_args<W> a = p->args;
    size_t bytes = 0;
    a.layout = &p->layout;
    a.set.words = memory_put(m, p->words);
    a.set.count = memory_put(m, &p->count, 1);
    a.set.capacity = (int32_t)p->words.size();
    a.code = p->with_code ? memory_new<uint64_t>(m, a.set.capacity) : nullptr;
    a.order = memory_new<int32_t>(m, a.set.capacity);
    a.rank = p->with_rank ? memory_new<int32_t>(m, a.set.capacity) : nullptr;
    a.trouble = memory_put(m, &clear, 1);
    CHECK_OK(side->bytes(&a, &bytes));
    char *scratch = memory_new<char>(m, (int64_t)bytes);
    CHECK_OK(side->run(&a, scratch, bytes));
    curve_outcome<W> o = {};
    const int64_t rows = count_clamp(p->count, a.set.capacity);
    o.code = memory_get(m, a.code, a.code ? rows : 0);
    o.order = memory_get(m, a.order, rows);
    o.rank = memory_get(m, a.rank, a.rank ? rows : 0);
    o.trouble = memory_value(m, a.trouble);
    CHECK(!a.code || memory_untouched(m, a.code, rows, a.set.capacity));
    CHECK(!a.rank || memory_untouched(m, a.rank, rows, a.set.capacity));
    guarded_finish();
    return o;
}

// The place of a cell, bit by bit or, for Hilbert's curve, checked by its inverse.
inline bool curve_place_right(spira::curve_kind kind, int depth, std::array<uint32_t, 3> cell,
                              uint64_t place) {
    using namespace spira;
    if (kind == curve_z_swapped || kind == curve_hilbert_swapped) {
        std::swap(cell[0], cell[1]);
    }
    if (kind >= curve_hilbert) {
        return place >> 3 * depth == 0 && curve_cell(place, depth) == cell;
    }
    uint64_t wanted = 0;
    for (int bit = 0; bit < depth; ++bit) {
        for (size_t axis = 0; axis < 3; ++axis) {
            wanted |= (uint64_t)(cell[axis] >> bit & 1) << (3 * bit + 2 - (int)axis);
        }
    }
    return place == wanted;
}

// Judges a run: each code by itself, the order by the codes, the rank by the order.
template <typename W>
bool curve_judge(const curve_problem<W> *p, const curve_outcome<W> &o) {
    using namespace spira;
    device_status trouble = {};
    std::vector<uint64_t> code((size_t)p->count);
    bool good = true;
    for (int32_t i = 0; i < p->count; ++i) {
        const voxel v = word_unpack<W>(&p->layout, p->words[(size_t)i]);
        const int at[3] = {v.x, v.y, v.z};
        std::array<uint32_t, 3> cell;
        bool off = false;
        for (int a = 0; a < 3; ++a) {
            const double c = floor((at[a] - triple_at(p->args.origin, a)) /
                                   (double)triple_at(p->args.stride, a));
            const double held = std::min(std::max(c, 0.0), ldexp(1, p->args.depth) - 1);
            off = off || held != c;
            cell[(size_t)a] = (uint32_t)held;
        }
        if (off) {
            device_status_note(&trouble, device_flag_range, (uint32_t)i);
        }
        code[(size_t)i] =
            (uint64_t)v.batch << 3 * p->args.depth |
            curve_place(p->args.kind, p->args.depth, {(int)cell[0], (int)cell[1], (int)cell[2]});
        const uint64_t place = code[(size_t)i] & (((uint64_t)1 << 3 * p->args.depth) - 1);
        good = good && curve_place_right(p->args.kind, p->args.depth, cell, place);
        good = good && (o.code.empty() || o.code[(size_t)i] == code[(size_t)i]);
    }
    std::vector<int32_t> order((size_t)p->count);
    for (int32_t i = 0; i < p->count; ++i) {
        order[(size_t)i] = i;
    }
    std::stable_sort(order.begin(), order.end(),
                     [&](int32_t i, int32_t j) { return code[(size_t)i] < code[(size_t)j]; });
    good = good && order == o.order;
    for (size_t i = 0; i < o.rank.size(); ++i) {
        good = good && o.rank[(size_t)o.order[i]] == (int32_t)i;
    }
    return test_check(good, __FILE__, __LINE__, "codes, order, rank") &&
           test_check(!memcmp(&trouble, &o.trouble, sizeof trouble), __FILE__, __LINE__, "trouble");
}

template <typename W>
void curve_check_random(uint64_t seed, int cases, int32_t most, const curve_side<W> *side) {
    random_state r = random_make(seed);
    for (int i = 0; i < cases; ++i) {
        const curve_problem<W> p = curve_random<W>(&r, most);
        CHECK(curve_judge(&p, curve_run(&p, side)));
    }
}

#endif
