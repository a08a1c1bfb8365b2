// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/support/join_problems.h: problems for the tests of unions and projections, and what comes
// of them, by a table of coordinates.
#ifndef SPIRA_TESTS_JOIN_PROBLEMS_H
#define SPIRA_TESTS_JOIN_PROBLEMS_H

#include "memory.h"
#include "sets.h"

#include "../../spira/join.h"

#include <array>
#include <map>

// Sets and their features as they are stored.
template <typename W>
struct join_problem {
    spira::word_layout layout;
    int sets;
    spira::join_axis axis;
    int at;
    std::vector<W> words[spira::join_sets_max]; // [capacity]
    int32_t count[spira::join_sets_max];        // may be above the capacity, or negative
    int32_t out_capacity;
    int channels;
    spira::numeric type;
    std::vector<char> features[spira::join_sets_max]; // [capacity, channels]
    int off; // elements by which the arrays of features are off 256 bytes
    char label[256];

    int32_t capacity(int s) const {
        return (int32_t)words[s].size();
    }
    int32_t voxels(int s) const {
        return (int32_t)spira::max_of(spira::min_of(count[s], capacity(s)), 0);
    }
    int32_t total() const {
        int32_t all = 0;
        for (int s = 0; s < sets; ++s) {
            all += capacity(s);
        }
        return all;
    }
    // Without pointers.
    spira::join_args<W> args() const {
        spira::join_args<W> a = {};
        a.layout = &layout;
        a.sets = sets;
        a.axis = axis;
        a.at = at;
        for (int s = 0; s < sets; ++s) {
            a.set[s].capacity = capacity(s);
        }
        a.out.capacity = out_capacity;
        return a;
    }
};

// A set with other words behind the first `voxels`.
template <typename W>
void join_problem_fill(random_state *r, join_problem<W> *p, int s, spira::triple lo,
                       spira::triple hi, int stride, int32_t wanted, int32_t room) {
    p->words[s].resize((size_t)wanted + 1);
    const int32_t have = reference_random_set(r, &p->layout, lo, hi, {stride, stride, stride},
                                              wanted, p->words[s].data());
    p->words[s].resize((size_t)have);
    p->count[s] = have;
    set_pad(&p->words[s], (int32_t)spira::max_of(have + room, 1));
    const int64_t values = (int64_t)p->capacity(s) * p->channels;
    std::vector<float> value((size_t)values);
    const bool int8 = p->type == spira::numeric_i8;
    reference_random_values(r, int8 ? spira::numeric_f32 : p->type, 30, values, value.data());
    p->features[s].resize((size_t)(values * spira::numeric_size(p->type)));
    reference_store(p->type, value.data(), values, p->features[s].data());
}

template <typename W>
join_problem<W> join_problem_make(random_state *r, int sets, spira::join_axis axis, int32_t most,
                                  int room) {
    const spira::numeric types[] = {spira::numeric_f32, spira::numeric_tf32, spira::numeric_f16,
                                    spira::numeric_bf16, spira::numeric_i8};
    join_problem<W> p = {};
    const int wide = sizeof(W) == 8 ? 200 : 12;
    spira::triple lo = {random_int(r, -wide, 0), random_int(r, -9, 0), random_int(r, -9, 0)};
    spira::triple hi = {random_int(r, 0, wide), random_int(r, 0, 9), random_int(r, 0, 9)};
    p.layout = reference_layout<W>(lo, hi, random_int(r, 1, 3), {1, 1, 1}, {1, 1, 1});
    p.sets = sets;
    p.axis = axis;
    const int dropped = axis - spira::join_axis_x;
    p.at = dropped < 0 ? 77
                       : random_int(r, spira::triple_at(p.layout.lo, dropped),
                                    spira::triple_at(p.layout.hi, dropped));
    p.channels = random_int(r, 0, 1) ? random_int(r, 1, 20) : 8 * random_int(r, 1, 5);
    p.type = types[random_int(r, 0, 4)];
    p.off = random_int(r, 0, 1) * random_int(r, 1, 3);
    for (int s = 0; s < sets; ++s) {
        const int stride = 1 << random_int(r, 0, 2);
        const double cells = reference_cells(&p.layout, lo, hi, {stride, stride, stride});
        const int32_t wanted =
            random_int(r, 0, 4) ? (int32_t)std::min((double)random_int(r, 1, most), cells) : 0;
        join_problem_fill(r, &p, s, lo, hi, stride, wanted, random_int(r, 0, room));
    }
    const int32_t total = p.total();
    p.out_capacity = (int32_t)spira::max_of(total + random_int(r, -total / 2, 5), 1);
    snprintf(p.label, sizeof p.label, "%d sets, axis %d at %d, %d rows into %d, %d channels of %s",
             sets, axis, p.at, total, p.out_capacity, p.channels, spira::numeric_name(p.type));
    return p;
}

// What the two functions leave behind.
template <typename W>
struct join_outcome {
    int32_t count;
    spira::device_status trouble;
    std::vector<W> words;              // [out_capacity]
    std::vector<int32_t> begin, order; // [count + 1], [begin[count]]
    std::vector<char> sums;            // [count, channels] as stored
};

template <typename W>
bool join_outcomes_equal(const join_outcome<W> *a, const join_outcome<W> *b) {
    return a->count == b->count && memcmp(&a->trouble, &b->trouble, sizeof a->trouble) == 0 &&
           a->words == b->words && a->begin == b->begin && a->order == b->order &&
           a->sums == b->sums;
}

// Scales of int8.
inline float join_scale(int set) {
    return 0.02f * (float)(set + 1);
}
constexpr float join_inverse = 17.5f;

// The sums of one voxel's rows, in their order.
template <typename W>
void join_expect_sums(const join_problem<W> *p, const std::vector<std::array<int32_t, 2>> *rows,
                      std::vector<char> *sums) {
    const int size = spira::numeric_size(p->type);
    for (int c = 0; c < p->channels; ++c) {
        float sum = 0;
        for (size_t i = 0; i < rows->size(); ++i) {
            const float x = spira::numeric_load(p->type, p->features[(*rows)[i][0]].data(),
                                                (int64_t)(*rows)[i][1] * p->channels + c);
            const bool int8 = p->type == spira::numeric_i8;
            sum = int8 ? fmaf(x, join_scale((*rows)[i][0]), sum) : i ? sum + x : x;
        }
        char element[4];
        spira::numeric_store(p->type, element, 0,
                             p->type == spira::numeric_i8 ? sum * join_inverse : sum);
        sums->insert(sums->end(), element, element + size);
    }
}

// The outcome by a table of coordinates, with the rows of each in the order in which they come.
template <typename W>
join_outcome<W> join_expected(const join_problem<W> *p) {
    typedef std::array<int, 4> key;
    std::map<key, std::vector<std::array<int32_t, 2>>> table; // of (set, row)
    join_outcome<W> o = {};
    int32_t bases[spira::join_sets_max] = {};
    for (int s = 0; s < p->sets; ++s) {
        bases[s] = s ? bases[s - 1] + p->capacity(s - 1) : 0;
        if (p->count[s] > p->capacity(s)) {
            o.trouble.flags |= spira::device_flag_capacity;
            o.trouble.needed = std::max(o.trouble.needed, (uint32_t)p->count[s]);
        }
        for (int32_t i = 0; i < p->voxels(s); ++i) {
            const spira::voxel v = spira::word_unpack(&p->layout, p->words[s][(size_t)i]);
            key k = {v.batch, v.x, v.y, v.z};
            if (p->axis != spira::join_axis_none) {
                k[(size_t)p->axis] = p->at; // 0: batch
            }
            table[k].push_back({s, i});
        }
    }
    o.words.assign((size_t)p->out_capacity, spira::word_none<W>());
    o.begin.push_back(0);
    for (const auto &entry : table) {
        if (o.count == p->out_capacity) {
            o.trouble.flags |= spira::device_flag_capacity;
            o.trouble.needed = std::max(o.trouble.needed, (uint32_t)table.size());
            break;
        }
        const key &k = entry.first;
        o.words[(size_t)o.count++] = spira::word_pack<W>(&p->layout, {k[0], k[1], k[2], k[3]});
        for (const std::array<int32_t, 2> &row : entry.second) {
            o.order.push_back(bases[row[0]] + row[1]);
        }
        o.begin.push_back((int32_t)o.order.size());
        join_expect_sums(p, &entry.second, &o.sums);
    }
    return o;
}

// ---- runs, on either side -----------------------------------------------------------------------

template <typename W>
struct join_side {
    const test_memory *memory;
    spira::status (*workspace)(const spira::join_args<W> *, size_t *bytes);
    spira::status (*join)(const spira::join_args<W> *, void *scratch, size_t bytes);
    spira::status (*sum)(const spira::join_sum_args *);
};

// The arguments of a problem, in memory that is exactly as large as it must be.
template <typename W>
struct join_run {
    spira::join_args<W> args;
    spira::join_sum_args sums;
    char *scratch;
    size_t bytes;
};

template <typename W>
join_run<W> join_run_make(const join_problem<W> *p, const join_side<W> *side) {
    const test_memory *m = side->memory;
    const spira::device_status clear = {};
    const int64_t size = spira::numeric_size(p->type), off = p->off * size;
    join_run<W> r = {};
    r.args = p->args();
    for (int s = 0; s < p->sets; ++s) {
        std::vector<char> in((size_t)off);
        in.insert(in.end(), p->features[s].begin(), p->features[s].end());
        r.args.set[s].words = memory_put(m, p->words[s]);
        r.args.set[s].count = memory_put(m, &p->count[s], 1);
        r.sums.in[s] = memory_put(m, in) + off;
        r.sums.capacity[s] = p->capacity(s);
        r.sums.scale[s] = p->type == spira::numeric_i8 ? join_scale(s) : 0.0f;
    }
    r.args.out.words = memory_new<W>(m, p->out_capacity);
    r.args.out.count = memory_new<int32_t>(m, 1);
    r.args.rows.begin = memory_poisoned<int32_t>(m, p->out_capacity + 1);
    r.args.rows.order = memory_poisoned<int32_t>(m, p->total());
    r.args.trouble = memory_put(m, &clear, 1);
    r.sums.sets = p->sets;
    r.sums.channels = p->channels;
    r.sums.type = p->type;
    r.sums.out_inverse = p->type == spira::numeric_i8 ? join_inverse : 0.0f;
    r.sums.rows = r.args.rows;
    r.sums.count = r.args.out.count;
    r.sums.out_capacity = p->out_capacity;
    r.sums.out = memory_new<char>(m, off + p->out_capacity * p->channels * size) + off;
    CHECK_OK(side->workspace(&r.args, &r.bytes));
    r.scratch = memory_new<char>(m, (int64_t)r.bytes);
    CHECK_STATUS(side->join(&r.args, r.scratch, r.bytes - 1), spira::status_workspace);
    return r;
}

// What a run has left. Nothing is written beyond the sums.
template <typename W>
join_outcome<W> join_run_read(const join_problem<W> *p, const join_side<W> *side,
                              const join_run<W> *r) {
    const test_memory *m = side->memory;
    const int64_t row = (int64_t)p->channels * spira::numeric_size(p->type);
    const char *sums = (const char *)r->sums.out;
    join_outcome<W> o = {};
    o.count = memory_value(m, r->args.out.count);
    if (CHECK(o.count >= 0 && o.count <= p->out_capacity)) {
        o.trouble = memory_value(m, r->args.trouble);
        o.words = memory_get(m, r->args.out.words, p->out_capacity);
        o.begin = memory_get(m, r->args.rows.begin, o.count + 1);
        const int32_t rows = o.begin.back();
        if (CHECK(rows >= 0 && rows <= p->total())) {
            o.order = memory_get(m, r->args.rows.order, rows);
        }
        o.sums = memory_get(m, sums, o.count * row);
        CHECK(memory_untouched(m, sums, o.count * row, p->out_capacity * row));
    }
    return o;
}

// Frees all buffers.
template <typename W>
join_outcome<W> join_outcome_of(const join_problem<W> *p, const join_side<W> *side) {
    const join_run<W> r = join_run_make(p, side);
    CHECK_OK(side->join(&r.args, r.scratch, r.bytes));
    CHECK_OK(side->sum(&r.sums));
    const join_outcome<W> o = join_run_read(p, side, &r);
    guarded_finish();
    return o;
}

template <typename W>
bool join_agrees(const join_problem<W> *p, const join_side<W> *side) {
    const join_outcome<W> got = join_outcome_of(p, side), wanted = join_expected(p);
    return test_check(join_outcomes_equal(&got, &wanted), __FILE__, __LINE__, p->label);
}

// Around the edges of warps, of thread blocks (256 rows), of segments (512) and of tiles of the
// sort. slow: sorts are, so that two sizes must do.
template <typename W>
void join_every_size(uint64_t seed, const join_side<W> *side, bool slow) {
    random_state r = random_make(seed);
    for (int32_t rows : {1, 31, 255, 256, 257, 511, 512, 513, 1025, 4095, 4096, 4097}) {
        for (int axis = spira::join_axis_none; axis <= spira::join_axis_z; ++axis) {
            if (slow && (axis == spira::join_axis_y ||
                         (axis == spira::join_axis_x && rows != 513 && rows != 4097))) {
                continue;
            }
            join_problem<W> p = join_problem_make<W>(&r, 2, (spira::join_axis)axis, 20, 0);
            const spira::word_layout &l = p.layout;
            join_problem_fill(&r, &p, 0, l.lo, l.hi, 1, std::min(rows, 3000), 0);
            join_problem_fill(&r, &p, 1, l.lo, l.hi, 1, std::max(rows - 3000, 0), 0);
            p.out_capacity = rows == 513 ? 512 : rows;
            join_agrees(&p, side);
        }
    }
}

#endif
