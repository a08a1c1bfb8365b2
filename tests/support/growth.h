// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/support/growth.h: problems for the tests of sets that are made from features (prune.h,
// subdivide.h), and what comes of them, by a table of coordinates.
#ifndef SPIRA_TESTS_GROWTH_H
#define SPIRA_TESTS_GROWTH_H

#include "memory.h"
#include "sets.h"

#include "../../spira/prune.h"
#include "../../spira/rows.h"
#include "../../spira/subdivide.h"

#include <map>

template <typename W>
struct growth_problem {
    spira::word_layout layout;
    spira::triple stride; // of subdivide; 0: prune
    std::vector<W> words; // [capacity]
    int32_t count, out_capacity;
    spira::row_choice choice; // without pointers
    int channel;
    std::vector<uint8_t> mask;
    std::vector<char> scores; // as they are stored
    char label[160];

    bool divides() const {
        return stride.x != 0;
    }
    int32_t capacity() const {
        return (int32_t)words.size();
    }
    int32_t voxels() const {
        return (int32_t)spira::max_of(spira::min_of(count, capacity()), 0);
    }
};

template <typename W>
struct growth_outcome {
    set_outcome<W> set;
    std::vector<int32_t> source; // [count]
};

// The bits of row i that are chosen: of its children, or bit 0.
template <typename W>
uint32_t growth_chosen(const growth_problem<W> *p, int32_t i, bool *nan) {
    if (!p->mask.empty()) {
        const uint8_t mask = p->mask[(size_t)i];
        return p->divides() ? mask : mask != 0;
    }
    if (p->scores.empty()) {
        return 0xff;
    }
    uint32_t bits = 0;
    for (int s = 0; s < (p->divides() ? 8 : 1); ++s) {
        const int64_t at = (int64_t)i * p->choice.channels + (p->divides() ? s : p->channel);
        const double score = spira::numeric_load(p->choice.type, p->scores.data(), at);
        const double threshold = p->choice.threshold;
        *nan = *nan || score != score;
        bits |= (uint32_t)(score > threshold || (score == threshold && p->choice.or_equal)) << s;
    }
    return bits;
}

template <typename W>
growth_outcome<W> growth_expected(const growth_problem<W> *p) {
    using namespace spira;
    growth_outcome<W> o = {};
    std::map<W, int32_t> made;
    const auto note = [&](bool wrong, device_flag flag, int32_t value) {
        if (wrong) {
            device_status_note(&o.set.trouble, flag, (uint32_t)value);
        }
    };
    note(p->count > p->capacity(), device_flag_capacity, p->count);
    for (int32_t i = 0; i < p->voxels(); ++i) {
        bool nan = false;
        const uint32_t chosen = growth_chosen(p, i, &nan);
        const voxel v = word_unpack<W>(&p->layout, p->words[(size_t)i]);
        note(nan, device_flag_not_finite, i);
        if (!p->divides()) {
            if (chosen) {
                made[p->words[(size_t)i]] = i;
            }
            continue;
        }
        if (v.x % p->stride.x || v.y % p->stride.y || v.z % p->stride.z) {
            note(true, device_flag_lattice, i);
            continue;
        }
        for (int s = 0; s < 8; ++s) {
            const voxel child = {v.batch, v.x + s % 2 * p->stride.x / 2,
                                 v.y + s / 2 % 2 * p->stride.y / 2, v.z + s / 4 * p->stride.z / 2};
            if (chosen >> s & 1) {
                const bool held = word_contains(&p->layout, child);
                note(!held, device_flag_range, i);
                if (held) {
                    made[word_pack<W>(&p->layout, child)] = 8 * i + s;
                }
            }
        }
    }
    note((int64_t)made.size() > p->out_capacity, device_flag_capacity, (int32_t)made.size());
    for (const auto &one : made) {
        if ((int32_t)o.source.size() < p->out_capacity) {
            o.set.words.push_back(one.first);
            o.source.push_back(one.second);
        }
    }
    o.set.count = (int32_t)o.set.words.size();
    o.set.words.resize((size_t)p->out_capacity, word_none<W>());
    return o;
}

template <typename W>
bool growth_equal(const growth_outcome<W> &got, const growth_problem<W> *p, const char *file,
                  int line) {
    const growth_outcome<W> wanted = growth_expected(p);
    const char *difference = set_difference(got.set, wanted.set, p->label);
    return test_check(!*difference, file, line, difference) &&
           test_check(got.source == wanted.source, file, line, p->label);
}

// The arguments without pointers, but for the layout.
template <typename W>
spira::prune_args<W> growth_prune(const growth_problem<W> *p) {
    spira::prune_args<W> a = {};
    a.in.capacity = p->capacity();
    a.choice = p->choice;
    a.channel = p->channel;
    a.out.capacity = p->out_capacity;
    return a;
}

template <typename W>
spira::subdivide_args<W> growth_subdivide(const growth_problem<W> *p) {
    spira::subdivide_args<W> a = {};
    a.layout = &p->layout;
    a.in.capacity = p->capacity();
    a.stride = p->stride;
    a.choice = p->choice;
    a.out.capacity = p->out_capacity;
    return a;
}

// ---- runs, on either side -----------------------------------------------------------------------

template <typename W>
struct growth_side {
    const test_memory *memory;
    spira::status (*prune_bytes)(const spira::prune_args<W> *, size_t *bytes);
    spira::status (*prune)(const spira::prune_args<W> *, void *scratch, size_t bytes);
    spira::status (*subdivide_bytes)(const spira::subdivide_args<W> *, size_t *bytes);
    spira::status (*subdivide)(const spira::subdivide_args<W> *, void *scratch, size_t bytes);
};

// The pointers of either kind of arguments. The memory is exactly as large as it must be.
template <typename W, typename A>
void growth_bind(const growth_problem<W> *p, const test_memory *m, A *a) {
    const spira::device_status clear = {};
    a->in.words = memory_put(m, p->words);
    a->in.count = memory_put(m, &p->count, 1);
    a->choice.mask = p->mask.empty() ? nullptr : memory_put(m, p->mask);
    a->choice.scores = p->scores.empty() ? nullptr : memory_put(m, p->scores);
    a->out.words = memory_new<W>(m, p->out_capacity);
    a->out.count = memory_new<int32_t>(m, 1);
    a->source = memory_poisoned<int32_t>(m, p->out_capacity);
    a->trouble = memory_put(m, &clear, 1);
}

template <typename W, typename A>
growth_outcome<W> growth_run_of(const growth_problem<W> *p, const test_memory *m, A a,
                                spira::status (*bytes_of)(const A *, size_t *),
                                spira::status (*run)(const A *, void *, size_t)) {
    growth_outcome<W> o = {};
    size_t bytes = 0;
    growth_bind(p, m, &a);
    CHECK_OK(bytes_of(&a, &bytes));
    CHECK_OK(run(&a, memory_new<char>(m, (int64_t)bytes), bytes));
    o.set.trouble = memory_value(m, a.trouble);
    o.set.count = memory_value(m, a.out.count);
    if (CHECK(o.set.count >= 0 && o.set.count <= a.out.capacity)) {
        o.set.words = memory_get(m, a.out.words, a.out.capacity);
        o.source = memory_get(m, a.source, o.set.count);
        CHECK(memory_untouched(m, a.source, o.set.count, a.out.capacity));
    }
    return o;
}

// Frees all buffers.
template <typename W>
growth_outcome<W> growth_run(const growth_problem<W> *p, const growth_side<W> *side) {
    const growth_outcome<W> o = p->divides() ? growth_run_of(p, side->memory, growth_subdivide(p),
                                                             side->subdivide_bytes, side->subdivide)
                                             : growth_run_of(p, side->memory, growth_prune(p),
                                                             side->prune_bytes, side->prune);
    guarded_finish();
    return o;
}

template <typename W>
bool growth_agrees(const growth_problem<W> *p, const growth_side<W> *side) {
    return growth_equal(growth_run(p, side), p, __FILE__, __LINE__);
}

// ---- problems -----------------------------------------------------------------------------------

// What is chosen: by a mask, or by scores of which some are NaN, infinite or the threshold itself.
template <typename W>
void growth_choose(random_state *r, growth_problem<W> *p, bool by_mask, int percent) {
    using namespace spira;
    const numeric types[] = {numeric_f32, numeric_tf32, numeric_f16, numeric_bf16};
    const size_t rows = p->words.size();
    const bool faults = random_int(r, 0, 2) == 0;
    p->choice = {};
    p->channel = 0;
    p->mask.clear();
    p->scores.clear();
    if (p->divides() && percent == 100 && by_mask) {
        return; // all children
    }
    if (by_mask) {
        for (size_t i = 0; i < rows; ++i) {
            uint32_t bits = 0;
            for (int s = 0; s < 8; ++s) {
                bits |= (uint32_t)(random_int(r, 0, 99) < percent) << s;
            }
            p->mask.push_back((uint8_t)bits);
        }
        return;
    }
    p->choice.type = types[random_int(r, 0, 3)];
    p->choice.channels = p->divides() ? 8 : random_int(r, 1, 9);
    p->channel = p->divides() ? 0 : random_int(r, 0, p->choice.channels - 1);
    p->choice.threshold = (float)random_int(r, -1, 1);
    p->choice.or_equal = random_int(r, 0, 1);
    std::vector<float> values(rows * (size_t)p->choice.channels);
    for (float &v : values) {
        const float odd[] = {NAN, INFINITY, -INFINITY, -0.0f, p->choice.threshold};
        const bool above = random_int(r, 0, 99) < percent;
        v = p->choice.threshold + (above ? 0.5f : -0.5f);
        v = faults && random_int(r, 0, 40) == 0 ? odd[random_int(r, 0, 4)] : v;
    }
    p->scores.resize(values.size() * (size_t)numeric_size(p->choice.type));
    reference_store(p->choice.type, values.data(), (int64_t)values.size(), p->scores.data());
}

// A set of about `most` voxels; some off the lattice, some at the end of the layout.
template <typename W>
growth_problem<W> growth_random(random_state *r, bool divide, int32_t most) {
    using namespace spira;
    growth_problem<W> p = {};
    const int steps[] = {2, 2, 4, 6, 8};
    const auto step = [&] { return steps[random_int(r, 0, 4)]; };
    const triple stride = divide ? triple{step(), step(), step()} : triple{1, 1, 1};
    const triple lo = {-8 * stride.x, 0, -3 * stride.z};
    const triple hi = {random_int(r, 0, 9) * stride.x, random_int(r, 0, 12) * stride.y,
                       random_int(r, 0, 20) * stride.z};
    const int batches = random_int(r, 1, 3);
    p.layout = reference_layout<W>(lo, hi, batches, stride, {1, 1, 1});
    if (random_int(r, 0, 3) == 0) { // the last children are beyond it
        p.layout.hi = hi;
    }
    p.stride = divide ? stride : triple{};
    p.words = set_random<W>(r, &p.layout, lo, hi, random_int(r, 0, most), stride);
    if (divide && random_int(r, 0, 4) == 0 && !p.words.empty()) {
        p.words = set_random<W>(r, &p.layout, lo, hi, (int32_t)p.words.size(), {1, 1, 1});
    }
    p.count = (int32_t)p.words.size();
    set_pad(&p.words, p.count + random_int(r, p.count == 0, 300));
    p.count = random_int(r, 0, 30) == 0 ? -3 : p.count;
    const int percent = random_int(r, 0, 4) * 25;
    growth_choose(r, &p, random_int(r, 0, 1), percent);
    p.out_capacity = p.capacity() * (divide ? 8 : 1);
    const int32_t made = growth_expected(&p).set.count, room = random_int(r, -2, 300);
    p.out_capacity = (int32_t)max_of(made + (random_int(r, 0, 3) ? room : 0), 1);
    snprintf(p.label, sizeof p.label, "%s, %d of %d voxels, %s, %d %%, room for %d",
             divide ? "subdivide" : "prune", p.count, p.capacity(),
             !p.scores.empty() ? numeric_name(p.choice.type)
             : p.mask.empty()  ? "all"
                               : "mask",
             percent, p.out_capacity);
    return p;
}

// ---- a shell that a hash of the coordinates prunes and grows ------------------------------------

// What growing from stride 16 makes, step by step; sum: of x + 2^10 y + 2^20 z in cells; pairs: of
// a kernel of 3.
struct growth_shell_count {
    int32_t voxels;
    int64_t sum, pairs;
};
const growth_shell_count growth_shell_steps[] = {{22123, 478655616830, 230541},
                                                 {88339, 3878231694837, 729639},
                                                 {353542, 31266134567688, 2678072},
                                                 {1415089, 251091930180602, 10451997}};

// Whether the hash of a voxel is below 2^bits.
inline bool growth_hash(const spira::voxel &v, int cell, int bits = 31) {
    const uint32_t x = (uint32_t)(v.x / cell), y = (uint32_t)(v.y / cell),
                   z = (uint32_t)(v.z / cell);
    return (x * 73856093u ^ y * 19349663u ^ z * 83492791u) * 2654435761u < 1u << bits;
}

template <typename W>
int64_t growth_check_sum(const spira::word_layout &layout, const set_outcome<W> &set, int cell) {
    int64_t sum = 0;
    for (int32_t i = 0; i < set.count; ++i) {
        const spira::voxel v = spira::word_unpack<W>(&layout, set.words[(size_t)i]);
        sum += v.x / cell + ((int64_t)(v.y / cell) << 10) + ((int64_t)(v.z / cell) << 20);
    }
    return sum;
}

// The shell itself, to be pruned.
template <typename W>
growth_problem<W> growth_of_shell(const spira::word_layout &layout, const std::vector<W> &fine,
                                  int bits = 31) {
    growth_problem<W> p = {};
    p.layout = layout;
    p.words = fine;
    p.count = p.out_capacity = (int32_t)fine.size();
    for (W word : fine) {
        p.mask.push_back(growth_hash(spira::word_unpack<W>(&layout, word), 1, bits));
    }
    snprintf(p.label, sizeof p.label, "shell");
    return p;
}

// The next set to grow: the voxels of the last step, or of `fine` at stride 16 in front of the
// first. A child's bit is the hash of its own cell.
template <typename W>
void growth_shell_step(growth_problem<W> *p, const std::vector<W> &fine,
                       const growth_outcome<W> *last) {
    using namespace spira;
    const int stride = last ? p->stride.x / 2 : 16, half = stride / 2;
    p->stride = {stride, stride, stride};
    if (last) {
        p->words.assign(last->set.words.begin(), last->set.words.begin() + last->set.count);
    } else {
        p->words.clear();
        for (W word : fine) {
            p->words.push_back(word & word_stride_mask<W>(&p->layout, p->stride));
        }
        p->words = set_sorted(p->words);
    }
    p->count = (int32_t)p->words.size();
    p->out_capacity = 8 * p->count;
    p->mask.clear();
    for (W word : p->words) {
        const voxel v = word_unpack<W>(&p->layout, word);
        uint32_t bits = 0;
        for (int s = 0; s < 8; ++s) {
            const voxel child = {0, v.x + s % 2 * half, v.y + s / 2 % 2 * half, v.z + s / 4 * half};
            bits |= (uint32_t)growth_hash(child, half) << s;
        }
        p->mask.push_back((uint8_t)bits);
    }
}

// ---- features -----------------------------------------------------------------------------------

struct gather_problem {
    spira::row_gather_args args; // without pointers
    std::vector<char> in;        // off bytes, then the rows
    std::vector<int32_t> source;
    int32_t count;
    int64_t off;

    int64_t row_bytes() const {
        return (int64_t)args.channels * spira::numeric_size(args.type);
    }
    size_t out_bytes() const {
        return (size_t)(row_bytes() * spira::row_gather_repeat(&args) * args.capacity + off);
    }
};

inline gather_problem gather_random(random_state *r) {
    using namespace spira;
    const numeric types[] = {numeric_f32, numeric_tf32, numeric_f16, numeric_bf16};
    gather_problem p = {};
    p.args.type = types[random_int(r, 0, 3)];
    p.args.channels = random_int(r, 0, 1) ? 8 * random_int(r, 1, 9) : random_int(r, 1, 70);
    p.args.repeat = random_int(r, 0, 2) ? random_int(r, 0, 1) : random_int(r, 2, 8);
    p.args.in_rows = random_int(r, 1, 90);
    p.args.capacity = random_int(r, 1, 90);
    p.count = random_int(r, -1, p.args.capacity + 2);
    p.off = random_int(r, 0, 1) * 4 * random_int(r, 1, 3);
    p.in.resize((size_t)(p.off + p.args.in_rows * p.row_bytes()));
    for (char &byte : p.in) {
        byte = (char)random_int(r, 0, 255);
    }
    for (int32_t i = 0; i < p.args.capacity; ++i) {
        p.source.push_back(random_int(r, -1, (int)p.args.in_rows));
    }
    return p;
}

// The rows up to the count, element by element.
inline std::vector<char> gather_expected(const gather_problem *p) {
    const int size = spira::numeric_size(p->args.type), repeat = spira::row_gather_repeat(&p->args);
    std::vector<char> out;
    for (int32_t i = 0; i < spira::min_of(p->count, p->args.capacity); ++i) {
        const int64_t from = p->source[(size_t)i];
        for (int c = 0; c < p->args.channels * repeat; ++c) {
            for (int b = 0; b < size; ++b) {
                const int64_t at = p->off + from * p->row_bytes() + c / repeat * size + b;
                const bool there = from >= 0 && from < p->args.in_rows;
                out.push_back(there ? p->in[(size_t)at] : 0);
            }
        }
    }
    return out;
}

// run(args): on the side of the memory. Nothing is written behind the rows. Frees all buffers.
template <typename F>
void gather_check(const gather_problem *p, const test_memory *m, F run) {
    spira::row_gather_args a = p->args;
    const std::vector<char> wanted = gather_expected(p);
    const int64_t used = (int64_t)wanted.size(), all = (int64_t)p->out_bytes();
    char *to = memory_new<char>(m, all) + p->off;
    a.in = memory_put(m, p->in) + p->off;
    a.out = to;
    a.source = memory_put(m, p->source);
    a.count = memory_put(m, &p->count, 1);
    CHECK_OK(run(&a));
    CHECK(memory_get(m, to, used) == wanted);
    CHECK(memory_untouched(m, to, used, all - p->off));
    guarded_finish();
}

// The gradient of rows whose sources are all different, -1, or no row. run(args): on the side of
// the memory. Judged in double, and by the host loop bit for bit; each row is written, and nothing
// behind the last. Frees all buffers.
template <typename F>
void gather_grad_check(random_state *r, const test_memory *m, F run) {
    using namespace spira;
    gather_problem p = gather_random(r);
    const int repeat = row_gather_repeat(&p.args), size = numeric_size(p.args.type);
    std::vector<int32_t> rows;
    for (int32_t i = 0; i < p.args.in_rows + 9; ++i) {
        rows.push_back(i < p.args.in_rows ? i : -1);
    }
    for (size_t i = 0; i < p.source.size(); ++i) { // without replacement
        const size_t at = (size_t)random_int(r, 0, (int)rows.size() - 1);
        p.source[i] = i % 7 == 3 ? (int32_t)p.args.in_rows : rows[at];
        rows.erase(rows.begin() + (int64_t)at * (i % 7 != 3));
        rows.push_back(-1);
    }
    std::vector<float> grad((size_t)((int64_t)p.args.capacity * p.args.channels * repeat));
    reference_random_values(r, p.args.type, 1, (int64_t)grad.size(), grad.data());
    std::vector<char> stored((size_t)p.off + grad.size() * (size_t)size);
    reference_store(p.args.type, grad.data(), (int64_t)grad.size(), stored.data() + p.off);
    std::vector<double> wanted((size_t)p.args.in_rows * (size_t)p.args.channels, 0.0);
    for (size_t i = 0; i < grad.size(); ++i) {
        const size_t row = i / (size_t)(p.args.channels * repeat);
        const int64_t to = (int32_t)row < p.count ? p.source[row] : -1;
        if (to >= 0 && to < p.args.in_rows) {
            const size_t c = i / (size_t)repeat % (size_t)p.args.channels;
            wanted[(size_t)to * (size_t)p.args.channels + c] += grad[i];
        }
    }
    const int64_t used = (int64_t)wanted.size() * size, all = used + 64;
    const auto bind = [&](const test_memory *on, char *to) {
        const gather_problem *q = &p;
        return row_gather_grad_args{memory_put(on, stored) + q->off,
                                    q->args.in_rows,
                                    q->args.channels,
                                    q->args.repeat,
                                    q->args.type,
                                    memory_put(on, q->source),
                                    memory_put(on, &q->count, 1),
                                    q->args.capacity,
                                    to};
    };
    char *const to = memory_new<char>(m, all + p.off) + p.off;
    char *const host = memory_new<char>(&memory_host, all);
    const row_gather_grad_args a = bind(m, to), b = bind(&memory_host, host);
    CHECK_OK(run(&a));
    CHECK_OK(row_gather_grad_host(&b));
    const std::vector<char> got = memory_get(m, to, used);
    CHECK(got == memory_get(&memory_host, host, used));
    CHECK(memory_untouched(m, to, used, all));
    for (size_t i = 0; i < wanted.size(); ++i) {
        const double value = numeric_load(p.args.type, got.data(), (int64_t)i);
        const double bound = repeat > 1 ? repeat * (numeric_epsilon(p.args.type) + 1e-6) : 0;
        CHECK(fabs(value - wanted[i]) <= bound);
    }
    guarded_finish();
}

// An index at random, its lists, and what is splatted along them. side: lists(args, scratch,
// bytes), splat(args). Judged by a loop over entries in double, and by the host bit for bit.
struct splat_side {
    const test_memory *memory;
    spira::status (*workspace)(const spira::row_lists_args *, size_t *); // null: no scratch
    spira::status (*lists)(const spira::row_lists_args *, void *, size_t);
    spira::status (*splat)(const spira::row_splat_args *);
};

struct splat_outcome {
    std::vector<int32_t> begin, order;
    std::vector<char> out;
};

struct splat_problem {
    spira::row_lists_args args; // without pointers
    int32_t count;
    std::vector<int32_t> index;
    std::vector<float> weight; // none: 1
    spira::numeric type;
    int channels;
    std::vector<float> values;
    std::vector<char> in;
};

inline splat_problem splat_random(random_state *r) {
    using namespace spira;
    const numeric types[] = {numeric_f32, numeric_tf32, numeric_f16, numeric_bf16};
    splat_problem p = {};
    p.args.neighbours = random_int(r, 0, 1) ? 8 : random_int(r, 1, 7);
    p.args.capacity = random_int(r, 1, 900);
    p.args.rows = random_int(r, 0, 3) ? random_int(r, 1, 500) : 1;
    p.count = random_int(r, -1, p.args.capacity + 2);
    const bool weighted = random_int(r, 0, 3) > 0;
    for (int32_t e = 0; e < p.args.capacity * p.args.neighbours; ++e) {
        p.index.push_back(random_int(r, -2, p.args.rows + 1));
        p.weight.push_back((float)random_int(r, 0, 64) / 64);
    }
    p.weight.resize(weighted ? p.weight.size() : 0);
    p.type = types[random_int(r, 0, 3)];
    p.channels = random_int(r, 0, 1) ? 8 * random_int(r, 1, 4) : random_int(r, 1, 19);
    p.values.resize((size_t)p.args.capacity * (size_t)p.channels);
    reference_random_values(r, p.type, 1, (int64_t)p.values.size(), p.values.data());
    p.in.resize(p.values.size() * (size_t)numeric_size(p.type));
    reference_store(p.type, p.values.data(), (int64_t)p.values.size(), p.in.data());
    return p;
}

inline splat_outcome splat_run(const splat_problem *p, const splat_side *side) {
    using namespace spira;
    const test_memory *m = side->memory;
    row_lists_args a = p->args;
    const int64_t bytes = (int64_t)a.rows * p->channels * numeric_size(p->type);
    a.index = memory_put(m, p->index);
    a.count = memory_put(m, &p->count, 1);
    a.begin = memory_poisoned<int32_t>(m, a.rows + 1);
    a.order = memory_poisoned<int32_t>(m, (int64_t)p->index.size());
    size_t scratch = 1;
    CHECK_OK(side->workspace ? side->workspace(&a, &scratch) : status_success());
    CHECK_OK(side->lists(&a, memory_new<char>(m, (int64_t)scratch), scratch));
    char *const out = memory_new<char>(m, bytes + 64);
    const row_splat_args s = {memory_put(m, p->in),
                              p->channels,
                              p->type,
                              a.neighbours,
                              p->weight.empty() ? nullptr : memory_put(m, p->weight),
                              a.begin,
                              a.order,
                              a.rows,
                              out};
    CHECK_OK(side->splat(&s));
    splat_outcome o = {};
    o.begin = memory_get(m, a.begin, a.rows + 1);
    o.order = memory_get(m, a.order, o.begin.back());
    o.out = memory_get(m, (const char *)out, bytes);
    CHECK(memory_untouched(m, out, bytes, bytes + 64));
    guarded_finish();
    return o;
}

inline const splat_side splat_by_host = {
    &memory_host, nullptr,
    [](const spira::row_lists_args *a, void *, size_t) { return spira::row_lists_host(a); },
    spira::row_splat_host};

inline void splat_check(random_state *r, const splat_side *side) {
    using namespace spira;
    const splat_problem p = splat_random(r);
    const splat_outcome got = splat_run(&p, side), host = splat_run(&p, &splat_by_host);
    CHECK(got.begin == host.begin && got.order == host.order && got.out == host.out);
    std::vector<double> sum((size_t)p.args.rows * (size_t)p.channels, 0.0), terms = sum;
    std::vector<std::vector<int32_t>> lists((size_t)p.args.rows);
    for (int32_t e = 0; e < p.count * p.args.neighbours && e < (int32_t)p.index.size(); ++e) {
        const int32_t row = p.index[(size_t)e];
        for (int c = 0; c < p.channels && row >= 0 && row < p.args.rows; ++c) {
            const double term = (p.weight.empty() ? 1.0 : p.weight[(size_t)e]) *
                                p.values[(size_t)(e / p.args.neighbours * p.channels + c)];
            sum[(size_t)(row * p.channels + c)] += term;
            terms[(size_t)(row * p.channels + c)] += fabs(term);
        }
        if (row >= 0 && row < p.args.rows) {
            lists[(size_t)row].push_back(e);
        }
    }
    std::vector<int32_t> order;
    for (size_t row = 0; row < lists.size(); ++row) {
        CHECK_EQUAL(got.begin[row], (int32_t)order.size());
        order.insert(order.end(), lists[row].begin(), lists[row].end());
    }
    CHECK(got.order == order);
    for (size_t i = 0; i < sum.size(); ++i) {
        const double value = numeric_load(p.type, got.out.data(), (int64_t)i);
        CHECK(fabs(value - sum[i]) <= 1e-5 * terms[i] + numeric_epsilon(p.type) * fabs(sum[i]));
    }
}

#endif
