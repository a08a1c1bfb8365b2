// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/support/pool_problems.h: problems for the tests of pooling on either side, judged by sums
// in double: maxima to the bit, averages within the bound of their sums.
#ifndef SPIRA_TESTS_POOL_PROBLEMS_H
#define SPIRA_TESTS_POOL_PROBLEMS_H

#include "memory.h"
#include "problems.h"

#include "../../spira/pool.h"

namespace pools {

using namespace spira;

using problems::numerics;

inline char label[256]; // the case at hand, for the message

// The functions of a side.
template <typename W>
struct side {
    const test_memory *memory;
    status (*local)(const pool_args *);
    status (*workspace)(const word_layout *, int channels, size_t *bytes); // null: needs none
    status (*global)(const pool_global_args<W> *, void *scratch, size_t bytes);
};

// ---- features -----------------------------------------------------------------------------------

// Rows of random features and, behind them, three rows of NaN: padding that no result may show.
inline std::vector<float> features_random(random_state *random, numeric type, int64_t rows,
                                          int channels) {
    std::vector<float> values((size_t)((rows + 3) * channels), NAN);
    reference_random_values(random, type, 4, rows * channels, values.data());
    return values;
}

inline const char *features_put(const test_memory *m, numeric type,
                                const std::vector<float> &values, int off = 0) {
    return memory_put(m, problems::features_store(type, problems::floats_move(values, off))) +
           off * numeric_size(type);
}

inline std::vector<float> features_load(numeric type, const std::vector<char> &stored) {
    std::vector<float> values(stored.size() / (size_t)numeric_size(type));
    for (size_t i = 0; i < values.size(); ++i) {
        values[i] = numeric_load(type, stored.data(), (int64_t)i);
    }
    return values;
}

// What pooling in double makes of one output.
struct expectation {
    double sum = 0, magnitude = 0, largest = -INFINITY;
    int64_t rows = 0;
    void add(float x) {
        sum += (double)x;
        magnitude += fabs((double)x);
        largest = isnan(x) || isnan(largest) ? NAN : std::max(largest, (double)x);
        ++rows;
    }
};

// A maximum is exact, an average may be off by the error of its sum: of `steps` roundings in a row.
inline bool judge(pool_kind kind, numeric type, const expectation &e, double steps, int64_t at,
                  float got, int line) {
    const double wanted = e.rows == 0 ? 0 : kind == pool_max ? e.largest : e.sum / (double)e.rows;
    double bound = 0;
    if (kind == pool_average && e.rows) {
        bound = steps * e.magnitude / (double)e.rows / (1 << 24) + 0x1p-24;
        bound += numeric_size(type) == 2 ? numeric_epsilon(type) * (fabs(wanted) + bound) : 0;
    }
    if (isnan(wanted) ? isnan(got) : fabs((double)got - wanted) <= bound || (double)got == wanted) {
        return true;
    }
    char text[512];
    snprintf(text, sizeof text, "out[%lld] is %.9g instead of %.9g, bound %.3g (%s)", (long long)at,
             (double)got, wanted, bound, label);
    return test_check(false, __FILE__, line, text);
}

// ---- local pooling ------------------------------------------------------------------------------

struct problem {
    numeric type;
    pool_kind kind;
    int channels, volume;
    int32_t inputs, outputs, capacity;
    int off; // the arrays start so many elements behind an aligned address
    std::vector<float> in;
    std::vector<int32_t> map; // [capacity, volume]; behind the outputs, sources that are NaN
};

inline problem problem_make(random_state *random, numeric type, pool_kind kind, int channels,
                            int volume, int32_t inputs, int32_t outputs, int32_t capacity,
                            int percent) {
    problem p = {type, kind, channels, volume, inputs, outputs, capacity, 0, {}, {}};
    p.in = features_random(random, type, inputs, channels);
    p.map.assign((size_t)capacity * (size_t)volume, inputs);
    for (int64_t i = 0; i < (int64_t)outputs * volume; ++i) {
        bool has = inputs > 0 && random_int(random, 0, 99) < percent;
        p.map[(size_t)i] = has ? random_int(random, 0, inputs - 1) : -1;
    }
    snprintf(label, sizeof label, "%s %s, %d channels, volume %d, %d of %d outputs",
             kind == pool_max ? "max" : "average", numeric_name(type), channels, volume, outputs,
             capacity);
    return p;
}

inline bool problem_judge(const problem *p, const std::vector<float> &out, int line) {
    bool good = true;
    test_checked();
    for (int64_t at = 0; at < (int64_t)p->outputs * p->channels; ++at) {
        expectation e;
        for (int k = 0; k < p->volume; ++k) {
            const int64_t source = p->map[(size_t)(at / p->channels * p->volume + k)];
            if (source >= 0) {
                e.add(p->in[(size_t)(source * p->channels + at % p->channels)]);
            }
        }
        good = judge(p->kind, p->type, e, (double)e.rows + 1, at, out[(size_t)at], line) && good;
    }
    return good;
}

// Runs twice into two buffers: the same bits, nothing beyond the count. Frees all buffers.
template <typename W>
std::vector<float> problem_run(const problem *p, const side<W> *s) {
    const test_memory *m = s->memory;
    int64_t size = numeric_size(p->type), total = (int64_t)p->capacity * p->channels * size;
    int64_t used = (int64_t)p->outputs * p->channels * size, before = p->off * size;
    pool_args args = {p->kind,
                      p->type,
                      p->channels,
                      p->volume,
                      features_put(m, p->type, p->in, p->off),
                      memory_put(m, p->map),
                      memory_put(m, &p->outputs, 1),
                      p->capacity,
                      nullptr};
    std::vector<char> bytes[2];
    for (std::vector<char> &run : bytes) {
        char *out = memory_new<char>(m, before + total);
        args.out = out + before;
        CHECK_OK(s->local(&args));
        run = memory_get(m, out + before, used);
        CHECK(memory_untouched(m, out, 0, before));
        CHECK(memory_untouched(m, out, before + used, before + total));
    }
    CHECK(bytes[0] == bytes[1]);
    guarded_finish();
    return features_load(p->type, bytes[0]);
}

// ---- global pooling -----------------------------------------------------------------------------

struct globals {
    numeric type;
    pool_kind kind;
    int channels;
    std::vector<int32_t> rows; // of each batch index
    std::vector<float> in;
};

template <typename W>
std::vector<W> globals_words(const word_layout *layout, const std::vector<int32_t> &rows) {
    std::vector<W> words;
    for (size_t b = 0; b < rows.size(); ++b) {
        for (int32_t i = 0; i < rows[b]; ++i) {
            words.push_back(word_pack<W>(layout, {(int)b, i / 400, i / 20 % 20, i % 20}));
        }
    }
    return words;
}

inline bool globals_judge(const globals *g, const std::vector<float> &out, int line) {
    bool good = true;
    int64_t first = 0;
    test_checked();
    for (size_t b = 0; b < g->rows.size(); first += g->rows[b++]) {
        for (int c = 0; c < g->channels; ++c) {
            expectation e;
            for (int64_t v = first; v < first + g->rows[b]; ++v) {
                e.add(g->in[(size_t)(v * g->channels + c)]);
            }
            // Partial sums: far fewer roundings in a row than there are rows.
            const int64_t at = (int64_t)b * g->channels + c;
            good =
                judge(g->kind, g->type, e, 70 + (double)e.rows / 64, at, out[(size_t)at], line) &&
                good;
        }
    }
    return good;
}

// Runs twice into two buffers: the same bits. Frees all buffers.
template <typename W>
std::vector<float> globals_run(const globals *g, int32_t room, const side<W> *s) {
    const test_memory *m = s->memory;
    int batches = (int)g->rows.size();
    word_layout layout =
        reference_layout<W>({0, 0, 0}, {1000, 19, 19}, batches, {1, 1, 1}, {1, 1, 1});
    std::vector<W> words = globals_words<W>(&layout, g->rows);
    int32_t count = (int32_t)words.size(), capacity = count + room > 0 ? count + room : 1;
    words.resize((size_t)capacity, word_none<W>());
    pool_global_args<W> args = {
        g->kind,     g->type,
        &layout,     {memory_put(m, words), memory_put(m, &count, 1), capacity},
        g->channels, features_put(m, g->type, g->in),
        nullptr};
    size_t bytes = 0;
    CHECK_OK(s->workspace ? s->workspace(&layout, g->channels, &bytes) : status_success());
    char *scratch = memory_new<char>(m, (int64_t)bytes);
    const int64_t total = (int64_t)batches * g->channels * numeric_size(g->type);
    std::vector<char> got[2];
    for (std::vector<char> &stored : got) { // all of it is written: also batches without voxels
        args.out = memory_new<char>(m, total);
        CHECK_OK(s->global(&args, scratch, bytes));
        stored = memory_get(m, (const char *)args.out, total);
    }
    CHECK(got[0] == got[1]);
    guarded_finish();
    return features_load(g->type, got[0]);
}

template <typename W>
void globals_check(const globals *g, int32_t room, const side<W> *s, int line = __builtin_LINE()) {
    globals_judge(g, globals_run(g, room, s), line);
}

inline globals globals_make(random_state *random, numeric type, pool_kind kind, int channels,
                            const std::vector<int32_t> &rows) {
    int64_t all = 0;
    for (int32_t r : rows) {
        all += r;
    }
    globals g = {type, kind, channels, rows, features_random(random, type, all, channels)};
    snprintf(label, sizeof label, "global %s %s, %d channels, %zu batches, %lld rows",
             kind == pool_max ? "max" : "average", numeric_name(type), channels, rows.size(),
             (long long)all);
    return g;
}

// ---- cases --------------------------------------------------------------------------------------

// check(problem)
template <typename F>
void problems_random(int seeds, F check) {
    const int channels_of[] = {1, 2, 3, 7, 8, 16, 31, 32, 33, 64, 65, 130};
    const int volumes_of[] = {1, 2, 8, 9, 27, 27, 64, 125};
    const int percents[] = {0, 5, 30, 70, 100};
    for (int seed = 0; seed < seeds; ++seed) {
        random_state random = random_make((uint64_t)seed);
        int32_t outputs = random_int(&random, 0, 300), room = random_int(&random, 0, 60);
        problem p = problem_make(
            &random, numerics[seed % 4], seed / 4 % 2 ? pool_max : pool_average,
            channels_of[random_int(&random, 0, 11)], volumes_of[random_int(&random, 0, 7)],
            random_int(&random, 0, 200), outputs, outputs + room > 0 ? outputs + room : 1,
            percents[random_int(&random, 0, 4)]);
        check(&p);
    }
}

// A maximum does not start at zero, and what is not finite stays in its rows.
template <typename F>
void problems_special(F check) {
    for (numeric type : numerics) {
        for (pool_kind kind : {pool_max, pool_average}) {
            for (float special : {NAN, INFINITY, -INFINITY}) {
                random_state random = random_make((uint64_t)type);
                problem p = problem_make(&random, type, kind, 6, 8, 40, 100, 100, 30);
                for (float &x : p.in) {
                    x = -fabsf(x); // all negative
                }
                for (int c = 0; c < 6; ++c) {
                    p.in[(size_t)(13 * 6 + c)] = special;
                }
                p.map[5] = 13;
                check(&p);
            }
        }
    }
    problem empty = {numeric_f32, pool_max, 4, 8, 0, 20, 20, 0, {}, {}};
    empty.in.assign(12, NAN);
    empty.map.assign(20 * 8, -1);
    snprintf(label, sizeof label, "no source");
    const std::vector<float> out = check(&empty);
    CHECK_EQUAL(std::count(out.begin(), out.end(), 0.0f), 80);
}

// check(globals, room)
template <typename F>
void globals_random(int seeds, F check) {
    for (int seed = 0; seed < seeds; ++seed) {
        random_state random = random_make((uint64_t)seed + 500);
        std::vector<int32_t> rows((size_t)random_int(&random, 1, 9));
        for (int32_t &r : rows) { // some batch indices have no voxel, also the first and the last
            r = random_int(&random, 0, 2) ? random_int(&random, 0, 300) : 0;
        }
        globals g =
            globals_make(&random, numerics[seed % 4], seed / 4 % 2 ? pool_max : pool_average,
                         random_int(&random, 1, 70), rows);
        check(&g, random_int(&random, 0, 40));
    }
    // As many batches as fill their field, so that one more does not exist; and no voxel.
    for (const std::vector<int32_t> &rows : {std::vector<int32_t>(256, 1), {0, 0}}) {
        random_state random = random_make(700);
        globals g = globals_make(&random, numeric_f32, pool_max, 5, rows);
        check(&g, 3);
    }
}

template <typename F>
void globals_special(F check) {
    for (numeric type : numerics) {
        for (pool_kind kind : {pool_max, pool_average}) {
            for (float special : {NAN, INFINITY, -INFINITY}) {
                random_state random = random_make((uint64_t)type + 900);
                globals g = globals_make(&random, type, kind, 6, {50, 200, 70});
                for (float &x : g.in) {
                    x = -fabsf(x); // all negative: a maximum does not start at zero
                }
                g.in[(size_t)(130 * 6 + 2)] = special; // of the second batch index alone
                check(&g, 10);
            }
        }
    }
}

} // namespace pools

#endif
