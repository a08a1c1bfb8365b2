// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/support/dense_problems.h: problems for the tests of dense maps, and what their maps shall
// be, cell by cell.
#ifndef SPIRA_TESTS_DENSE_PROBLEMS_H
#define SPIRA_TESTS_DENSE_PROBLEMS_H

#include "memory.h"
#include "sets.h"

#include "../../spira/dense.h"

#include <map>
#include <tuple>

// A set that is partly off the grid, with its features as they are stored.
template <typename W>
struct dense_problem {
    spira::word_layout layout;
    std::vector<W> words; // [capacity]
    int32_t count;        // may be above the capacity, or negative
    std::vector<char> features;
    spira::dense_args<W> args; // without pointers
    int off_in, off_out;       // elements by which the arrays are off 256 bytes
    char label[256];

    int32_t voxels() const {
        return (int32_t)spira::max_of(spira::min_of(count, args.set.capacity), 0);
    }
    size_t bytes() const {
        size_t all = 0;
        CHECK_OK(spira::dense_bytes(&args.grid, args.batch, args.channels, args.out_type, &all));
        return all;
    }
};

struct dense_shape {
    spira::triple extent, stride;
    int batch, channels;
    spira::numeric type, out_type;
    spira::dense_order order;
};

inline dense_shape dense_shape_of(spira::triple extent, int batch, int channels,
                                  spira::numeric type, spira::dense_order order,
                                  spira::triple stride = {1, 1, 1}) {
    return {extent, stride, batch, channels, type, type, order};
}

// A voxel of the set at the cells of a share of the grid, and some that are no cells.
template <typename W>
dense_problem<W> dense_problem_make(random_state *r, const dense_shape *s, int percent,
                                    int32_t room) {
    dense_problem<W> p = {};
    const spira::triple origin = {random_int(r, -9, 9), random_int(r, -9, 9), random_int(r, -9, 9)};
    const spira::triple e = s->extent, t = s->stride;
    p.layout = reference_layout<W>(
        {origin.x - 2, origin.y - 2, origin.z - 2},
        {origin.x + e.x * t.x + 2, origin.y + e.y * t.y + 2, origin.z + e.z * t.z + 2},
        s->batch + 1, {1, 1, 1}, {1, 1, 1});
    const int64_t cells = (int64_t)s->batch * e.x * e.y * e.z;
    for (int64_t i = 0; i < cells * percent / 100; ++i) {
        p.words.push_back(spira::word_pack<W>(
            &p.layout, {random_int(r, 0, s->batch - 1), origin.x + random_int(r, 0, e.x - 1) * t.x,
                        origin.y + random_int(r, 0, e.y - 1) * t.y,
                        origin.z + random_int(r, 0, e.z - 1) * t.z}));
    }
    for (int i = 0; percent && i < random_int(r, 0, 5); ++i) { // strays
        p.words.push_back(spira::word_pack<W>(
            &p.layout, {random_int(r, 0, s->batch), origin.x + random_int(r, -2, e.x * t.x + 2),
                        origin.y + random_int(r, -2, e.y * t.y + 2),
                        origin.z + random_int(r, -2, e.z * t.z + 2)}));
    }
    std::sort(p.words.begin(), p.words.end());
    p.words.erase(std::unique(p.words.begin(), p.words.end()), p.words.end());
    p.count = (int32_t)p.words.size();
    p.args.set.capacity = (int32_t)spira::max_of(p.count + room, 1);
    set_pad(&p.words, p.args.set.capacity);
    p.args.grid = {origin, e};
    p.args.stride = t;
    p.args.batch = s->batch;
    p.args.channels = s->channels;
    p.args.type = s->type;
    p.args.out_type = s->out_type;
    p.args.order = s->order;
    const bool int8 = s->type == spira::numeric_i8;
    p.args.scale = int8 && s->out_type != s->type ? 0.03f : 0.0f;
    const int64_t size = spira::numeric_size(s->type),
                  values = (int64_t)p.args.set.capacity * s->channels;
    std::vector<float> value((size_t)values);
    reference_random_values(r, int8 ? spira::numeric_f32 : s->type, 300, values, value.data());
    p.features.resize((size_t)(values * size));
    reference_store(s->type, value.data(), values, p.features.data());
    snprintf(p.label, sizeof p.label,
             "%dx%dx%d, stride %d %d %d, batch %d, %d channels, %s to %s, order %d, %d of %d", e.x,
             e.y, e.z, t.x, t.y, t.z, s->batch, s->channels, spira::numeric_name(s->type),
             spira::numeric_name(s->out_type), s->order, p.count, p.args.set.capacity);
    return p;
}

// Any shape; small.
inline dense_shape dense_shape_random(random_state *r, int most) {
    const spira::numeric types[] = {spira::numeric_f16, spira::numeric_bf16, spira::numeric_f32,
                                    spira::numeric_tf32, spira::numeric_i8};
    dense_shape s = {};
    s.extent = {random_int(r, 1, most), random_int(r, 1, most), random_int(r, 1, 4)};
    s.extent.x = random_int(r, 0, 2) ? s.extent.x : 4 * ((s.extent.x + 3) / 4);
    s.stride = {random_int(r, 1, 3), random_int(r, 1, 3), random_int(r, 1, 4)};
    s.batch = random_int(r, 1, 3);
    s.channels = random_int(r, 0, 1) ? random_int(r, 1, 19) : 8 * random_int(r, 1, 3);
    s.type = types[random_int(r, 0, 4)];
    s.out_type = types[random_int(r, 0, 2)];
    s.out_type = s.type == spira::numeric_i8 && random_int(r, 0, 1) ? s.type : s.out_type;
    s.order = (spira::dense_order)random_int(r, 0, 1);
    return s;
}

// One stored element of one format in another.
inline void dense_expect(spira::numeric from, const char *source, int64_t i, spira::numeric to,
                         float scale, char *target) {
    if (spira::numeric_size(from) == spira::numeric_size(to) &&
        (from == to || spira::numeric_size(to) == 4)) {
        memcpy(target, source + i * spira::numeric_size(from), (size_t)spira::numeric_size(from));
    } else {
        const float value = spira::numeric_load(from, source, i);
        spira::numeric_store(to, target, 0, scale > 0 ? value * scale : value);
    }
}

// The map, element by element in the order of memory: each looks up its voxel in a table of
// coordinates.
template <typename W>
std::vector<char> dense_expected(const dense_problem<W> *p) {
    const spira::dense_args<W> &a = p->args;
    const spira::triple e = a.grid.extent, o = a.grid.origin, t = a.stride;
    std::map<std::tuple<int, int, int, int>, int32_t> table;
    for (int32_t i = 0; i < p->voxels(); ++i) {
        const spira::voxel v = spira::word_unpack(&p->layout, p->words[(size_t)i]);
        table[{v.batch, v.x, v.y, v.z}] = i;
    }
    std::vector<int32_t> row; // [batch, depth, height * width]
    for (int i = 0; i < a.batch * e.z * e.y * e.x; ++i) {
        auto at = table.find({i / (e.z * e.y * e.x), o.x + i % e.x * t.x, o.y + i / e.x % e.y * t.y,
                              o.z + i / (e.x * e.y) % e.z * t.z});
        row.push_back(at == table.end() ? -1 : at->second);
    }
    std::vector<char> out;
    auto put = [&](int b, int deep, int cell) {
        const int32_t at = row[(size_t)((b * e.z + deep % e.z) * e.y * e.x + cell)];
        char element[4] = {};
        if (at >= 0) {
            dense_expect(a.type, p->features.data(), (int64_t)at * a.channels + deep / e.z,
                         a.out_type, a.scale, element);
        }
        out.insert(out.end(), element, element + spira::numeric_size(a.out_type));
    };
    for (int b = 0; b < a.batch; ++b) {
        if (a.order == spira::dense_channels_first) {
            for (int deep = 0; deep < a.channels * e.z; ++deep) {
                for (int cell = 0; cell < e.y * e.x; ++cell) {
                    put(b, deep, cell);
                }
            }
        } else {
            for (int cell = 0; cell < e.y * e.x; ++cell) {
                for (int deep = 0; deep < a.channels * e.z; ++deep) {
                    put(b, deep, cell);
                }
            }
        }
    }
    return out;
}

// What the status shall say: the first voxel without a cell, and a count beyond the capacity.
template <typename W>
spira::device_status dense_expected_trouble(const dense_problem<W> *p) {
    const spira::dense_args<W> &a = p->args;
    spira::device_status s = {};
    for (int32_t i = p->voxels() - 1; i >= 0; --i) {
        const spira::voxel v = spira::word_unpack(&p->layout, p->words[(size_t)i]);
        const int at[3] = {v.x - a.grid.origin.x, v.y - a.grid.origin.y, v.z - a.grid.origin.z};
        const int stride[3] = {a.stride.x, a.stride.y, a.stride.z};
        const int extent[3] = {a.grid.extent.x, a.grid.extent.y, a.grid.extent.z};
        bool between = false, beyond = v.batch >= a.batch;
        for (int k = 0; k < 3; ++k) {
            const bool on = at[k] % stride[k] == 0;
            between = between || !on;
            beyond = beyond || (on && (at[k] < 0 || at[k] >= stride[k] * extent[k]));
        }
        if (between) {
            s.flags |= spira::device_flag_lattice;
            s.first_lattice = UINT32_MAX - (uint32_t)i;
        }
        if (beyond) {
            s.flags |= spira::device_flag_range;
            s.first_range = UINT32_MAX - (uint32_t)i;
        }
    }
    if (p->count > a.set.capacity) {
        s.flags |= spira::device_flag_capacity;
        s.needed = (uint32_t)p->count;
    }
    return s;
}

// ---- runs, on either side -----------------------------------------------------------------------

template <typename W>
struct dense_side {
    const test_memory *memory;
    spira::status (*run)(const spira::dense_args<W> *);
};

// The arguments of a problem, in memory that is exactly as large as it must be.
template <typename W>
struct dense_buffers {
    spira::dense_args<W> args;
    char *features, *map; // map: off_out elements, then the map
    int64_t before, bytes;
};

template <typename W>
dense_buffers<W> dense_buffers_make(const dense_problem<W> *p, const test_memory *m) {
    const spira::device_status clear = {};
    const int64_t in = (int64_t)spira::numeric_size(p->args.type) * p->off_in;
    std::vector<char> features((size_t)in);
    features.insert(features.end(), p->features.begin(), p->features.end());
    dense_buffers<W> r = {};
    r.args = p->args;
    r.args.layout = &p->layout;
    r.args.set.words = memory_put(m, p->words);
    r.args.set.count = memory_put(m, &p->count, 1);
    r.args.features = r.features = memory_put(m, features) + in;
    r.before = (int64_t)spira::numeric_size(p->args.out_type) * p->off_out;
    r.bytes = (int64_t)p->bytes();
    r.map = memory_new<char>(m, r.before + r.bytes);
    r.args.out = r.map + r.before;
    r.args.trouble = memory_put(m, &clear, 1);
    return r;
}

template <typename W>
struct dense_outcome {
    std::vector<char> out;
    spira::device_status trouble;
};

// Nothing is written before the map.
template <typename W>
dense_outcome<W> dense_buffers_read(const test_memory *m, const dense_buffers<W> *r) {
    CHECK(memory_untouched(m, r->map, 0, r->before));
    return {memory_get(m, r->map + r->before, r->bytes), memory_value(m, r->args.trouble)};
}

template <typename W>
bool dense_buffers_judge(const dense_problem<W> *p, const test_memory *m,
                         const dense_buffers<W> *r) {
    const dense_outcome<W> got = dense_buffers_read(m, r);
    const spira::device_status wanted = dense_expected_trouble(p);
    const bool good =
        got.out == dense_expected(p) && memcmp(&got.trouble, &wanted, sizeof wanted) == 0;
    return test_check(good, __FILE__, __LINE__, p->label);
}

// Frees all buffers.
template <typename W>
bool dense_agrees(const dense_problem<W> *p, const dense_side<W> *side) {
    const dense_buffers<W> r = dense_buffers_make(p, side->memory);
    CHECK_OK(side->run(&r.args));
    const bool good = dense_buffers_judge(p, side->memory, &r);
    guarded_finish();
    return good;
}

// most: the largest extent
template <typename W>
dense_problem<W> dense_problem_random(random_state *r, int most) {
    const dense_shape s = dense_shape_random(r, most);
    const int percents[] = {0, 1, 3, 10, 40, 300};
    dense_problem<W> p =
        dense_problem_make<W>(r, &s, percents[random_int(r, 0, 5)], random_int(r, 0, 9));
    p.off_in = random_int(r, 0, 1) * random_int(r, 1, 7);
    p.off_out = random_int(r, 0, 1) * random_int(r, 1, 3);
    return p;
}

// Around the edges of tiles (128 cells), chunks (64 channels, 1024 elements) and groups (8, 4).
template <typename W>
void dense_every_edge(uint64_t seed, const dense_side<W> *side, std::vector<int> channels_of) {
    random_state r = random_make(seed);
    for (spira::dense_order order : {spira::dense_channels_first, spira::dense_channels_last}) {
        for (spira::triple extent :
             {spira::triple{127, 1, 1}, spira::triple{128, 1, 1}, spira::triple{43, 3, 1},
              spira::triple{4, 64, 2}, spira::triple{1, 1, 130}, spira::triple{3, 1, 129}}) {
            for (int channels : channels_of) {
                if (extent.z > 2 && channels > 8) {
                    continue; // a minute of emulation
                }
                const spira::numeric type = channels % 2 ? spira::numeric_bf16 : spira::numeric_f16;
                const dense_shape s = dense_shape_of(extent, 1, channels, type, order, {8, 8, 16});
                const dense_problem<W> p = dense_problem_make<W>(&r, &s, 60, 3);
                dense_agrees(&p, side);
            }
        }
    }
}

#endif
