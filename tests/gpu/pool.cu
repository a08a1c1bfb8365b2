// tests/gpu/pool.cu: pooling on the GPU against the host loops: maxima to the bit, averages within
// the bound of their sums.
#include "../../spira/pool.cuh"
#include "../support/device.cuh"
#include "../support/reference.h"

using namespace spira;

namespace {

const numeric numerics[] = {numeric_f32, numeric_tf32, numeric_f16, numeric_bf16};

char label[256]; // the case at hand, for the message

// ---- features -----------------------------------------------------------------------------------

// Rows of random features and, behind them, three rows of NaN: padding that no result may show.
std::vector<float> features_random(random_state *random, numeric type, int64_t rows, int channels) {
    std::vector<float> values((size_t)((rows + 3) * channels), NAN);
    reference_random_values(random, type, 4, rows * channels, values.data());
    return values;
}

const char *features_upload(numeric type, const std::vector<float> &values, int off = 0) {
    size_t size = (size_t)numeric_size(type);
    std::vector<char> stored((values.size() + (size_t)off) * size);
    reference_store(type, values.data(), (int64_t)values.size(),
                    stored.data() + (size_t)off * size);
    return device_upload(stored.data(), (int64_t)stored.size()) + (size_t)off * size;
}

std::vector<float> features_fetch(numeric type, const char *device, int64_t elements) {
    std::vector<char> stored((size_t)(elements * numeric_size(type)));
    device_copy_out(stored.data(), device, (int64_t)stored.size());
    std::vector<float> values((size_t)elements);
    for (int64_t i = 0; i < elements; ++i) {
        values[(size_t)i] = numeric_load(type, stored.data(), i);
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
bool judge(pool_kind kind, numeric type, const expectation &e, double steps, int64_t at, float got,
           int line) {
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

problem problem_make(random_state *random, numeric type, pool_kind kind, int channels, int volume,
                     int32_t inputs, int32_t outputs, int32_t capacity, int percent) {
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

bool problem_judge(const problem *p, const std::vector<float> &out, int line) {
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
std::vector<float> problem_run(const problem *p) {
    int64_t size = numeric_size(p->type), total = (int64_t)p->capacity * p->channels * size;
    int64_t used = (int64_t)p->outputs * p->channels * size, before = p->off * size;
    const char *in = features_upload(p->type, p->in, p->off);
    const int32_t *map = device_upload(p->map.data(), (int64_t)p->map.size());
    const int32_t *count = device_upload(&p->outputs, 1);
    char *out[2];
    std::vector<char> bytes[2];
    for (int run = 0; run < 2; ++run) {
        out[run] = device_new<char>(before + total);
        const pool_args args = {p->kind, p->type, p->channels, p->volume,        in,
                                map,     count,   p->capacity, out[run] + before};
        CHECK_OK(pool(&args, stream_get()));
        bytes[run].resize((size_t)used);
        device_copy_out(bytes[run].data(), out[run] + before, used);
        CHECK(device_untouched(out[run], 0, before));
        CHECK(device_untouched(out[run], before + used, before + total));
    }
    CHECK(bytes[0] == bytes[1]);
    std::vector<float> values =
        features_fetch(p->type, out[0] + before, (int64_t)p->outputs * p->channels);
    guarded_finish();
    return values;
}

// To the last bit, but that any NaN is like any other: its bits differ from one machine to another.
bool same_floats(const std::vector<float> &a, const std::vector<float> &b) {
    for (size_t i = 0; i < a.size(); ++i) {
        if (memcmp(&a[i], &b[i], sizeof(float)) != 0 && !(isnan(a[i]) && isnan(b[i]))) {
            return false;
        }
    }
    return a.size() == b.size();
}

bool problem_check(const problem *p, int line = __builtin_LINE()) {
    std::vector<float> out = problem_run(p);
    if (p->outputs > 0 && (p->type == numeric_f32 || p->type == numeric_tf32)) {
        // In fp32 the host loop gives the very same bits: the taps are added in order.
        std::vector<float> host(out.size());
        const pool_args args = {p->kind,       p->type,     p->channels, p->volume,  p->in.data(),
                                p->map.data(), &p->outputs, p->capacity, host.data()};
        CHECK_OK(pool_host(&args));
        test_check(same_floats(host, out), __FILE__, line, label);
    }
    return problem_judge(p, out, line);
}

DEVICE_TEST(gpu_pool_random_problems) {
    const int channels_of[] = {1, 2, 3, 7, 8, 16, 31, 32, 33, 64, 65, 130};
    const int volumes_of[] = {1, 2, 8, 9, 27, 27, 64, 125};
    const int percents[] = {0, 5, 30, 70, 100};
    for (int seed = 0; seed < (test_quick() ? 8 : 200); ++seed) {
        random_state random = random_make((uint64_t)seed);
        int32_t outputs = random_int(&random, 0, 300), room = random_int(&random, 0, 60);
        problem p = problem_make(
            &random, numerics[seed % 4], seed / 4 % 2 ? pool_max : pool_average,
            channels_of[random_int(&random, 0, 11)], volumes_of[random_int(&random, 0, 7)],
            random_int(&random, 0, 200), outputs, outputs + room > 0 ? outputs + room : 1,
            percents[random_int(&random, 0, 4)]);
        problem_check(&p);
    }
}

DEVICE_TEST(gpu_pool_every_size) {
    const int sizes[] = {0,   1,   7,   8,   9,   31,  32,   33,   63,   64,  65,
                         127, 128, 129, 255, 256, 257, 1023, 1024, 1025, 4097};
    for (int n : sizes) {
        for (numeric type : numerics) {
            for (pool_kind kind : {pool_max, pool_average}) {
                if (test_quick() && n > 65) {
                    continue;
                }
                random_state random = random_make((uint64_t)(10 * n + type));
                int32_t capacity = n + (type == numeric_f16 ? 700 : 0);
                problem p = problem_make(&random, type, kind, n % 2 ? 5 : 4, 8, n / 2 + 1, n,
                                         capacity > 0 ? capacity : 1, 40);
                problem_check(&p);
            }
        }
    }
}

DEVICE_TEST(gpu_pool_unaligned_pointers) {
    for (numeric type : numerics) {
        for (int off : {1, 2, 3}) {
            random_state random = random_make((uint64_t)(off + type));
            problem p = problem_make(&random, type, pool_max, 16, 8, 60, 90, 90, 50);
            p.off = off;
            problem_check(&p);
        }
    }
}

// A maximum does not start at zero, and what is not finite stays in its rows.
DEVICE_TEST(gpu_pool_special_values) {
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
                problem_check(&p);
            }
        }
    }
    problem empty = {numeric_f32, pool_max, 4, 8, 0, 20, 20, 0, {}, {}};
    empty.in.assign(12, NAN);
    empty.map.assign(20 * 8, -1);
    snprintf(label, sizeof label, "no source");
    std::vector<float> out = problem_run(&empty);
    CHECK_EQUAL(std::count(out.begin(), out.end(), 0.0f), 80);
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

bool globals_judge(const globals *g, const std::vector<float> &out, int line) {
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
std::vector<float> globals_run(const globals *g, int32_t room) {
    int batches = (int)g->rows.size();
    word_layout layout =
        reference_layout<W>({0, 0, 0}, {1000, 19, 19}, batches, {1, 1, 1}, {1, 1, 1});
    std::vector<W> words = globals_words<W>(&layout, g->rows);
    int32_t count = (int32_t)words.size(), capacity = count + room > 0 ? count + room : 1;
    words.resize((size_t)capacity, word_none<W>());
    voxel_set<W> set = {device_upload(words.data(), capacity), device_upload(&count, 1), capacity};
    const char *in = features_upload(g->type, g->in);
    size_t bytes = 0;
    CHECK_OK(pool_global_workspace(&layout, g->channels, &bytes));
    char *scratch = device_new<char>((int64_t)bytes);
    int64_t total = (int64_t)batches * g->channels * numeric_size(g->type);
    std::vector<char> got[2];
    char *out = nullptr;
    for (std::vector<char> &stored : got) {
        out = device_new<char>(total); // all of it is written: also batches without voxels
        const pool_global_args<W> args = {g->kind, g->type, &layout, set, g->channels, in, out};
        CHECK_OK(pool_global(&args, scratch, bytes, stream_get()));
        stored.resize((size_t)total);
        device_copy_out(stored.data(), out, total);
    }
    CHECK(got[0] == got[1]);
    std::vector<float> values = features_fetch(g->type, out, (int64_t)batches * g->channels);
    guarded_finish();
    return values;
}

template <typename W>
void globals_check(const globals *g, int32_t room, int line = __builtin_LINE()) {
    std::vector<float> out = globals_run<W>(g, room);
    globals_judge(g, out, line);
}

globals globals_make(random_state *random, numeric type, pool_kind kind, int channels,
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

DEVICE_TEST(gpu_pool_global_every_size) {
    const int sizes[] = {0,   1,   2,   31,  32,  33,   63,   64,   65,   127,
                         128, 129, 255, 256, 257, 1023, 1025, 4097, 20000};
    const int channels_of[] = {1, 3, 64, 100, 255, 256, 257};
    int turn = 0;
    for (int n : sizes) {
        for (numeric type : numerics) {
            for (pool_kind kind : {pool_max, pool_average}) {
                if (test_quick() && n > 65) {
                    continue;
                }
                random_state random = random_make((uint64_t)(10 * n + type));
                int channels = n > 5000 ? 33 : channels_of[turn++ % 7];
                globals g = globals_make(&random, type, kind, channels, {n});
                globals_check<uint32_t>(&g, turn % 3 * 50);
                globals_check<uint64_t>(&g, turn % 2);
            }
        }
    }
}

DEVICE_TEST(gpu_pool_global_batches) {
    for (int seed = 0; seed < (test_quick() ? 8 : 100); ++seed) {
        random_state random = random_make((uint64_t)seed + 500);
        std::vector<int32_t> rows((size_t)random_int(&random, 1, 9));
        for (int32_t &r : rows) { // some batch indices have no voxel, also the first and the last
            r = random_int(&random, 0, 2) ? random_int(&random, 0, 300) : 0;
        }
        globals g =
            globals_make(&random, numerics[seed % 4], seed / 4 % 2 ? pool_max : pool_average,
                         random_int(&random, 1, 70), rows);
        globals_check<uint32_t>(&g, random_int(&random, 0, 40));
        globals_check<uint64_t>(&g, random_int(&random, 0, 40));
    }
    // As many batches as fill their field, so that one more does not exist.
    random_state random = random_make(700);
    std::vector<int32_t> full(256, 1);
    globals g = globals_make(&random, numeric_f32, pool_max, 5, full);
    globals_check<uint64_t>(&g, 3);
}

DEVICE_TEST(gpu_pool_global_special_values) {
    for (numeric type : numerics) {
        for (pool_kind kind : {pool_max, pool_average}) {
            for (float special : {NAN, INFINITY, -INFINITY}) {
                random_state random = random_make((uint64_t)type + 900);
                globals g = globals_make(&random, type, kind, 6, {50, 200, 70});
                for (float &x : g.in) {
                    x = -fabsf(x); // all negative: a maximum does not start at zero
                }
                g.in[(size_t)(130 * 6 + 2)] = special; // of the second batch index alone
                globals_check<uint32_t>(&g, 10);
            }
        }
    }
}

// ---- errors -------------------------------------------------------------------------------------

// One of each check that the host's test lists; nothing is launched.
DEVICE_TEST(gpu_pool_refuses) {
    int32_t two = 2;
    float *in = device_zeros<float>(16), *out = device_new<float>(16);
    pool_args a = {
        pool_max, numeric_f32, 4, 8, in, device_zeros<int32_t>(16), device_upload(&two, 1), 2, out};
    a.volume = 1 << 20;
    CHECK_STATUS(pool(&a, stream_get()), status_bad_size);
    a.volume = 8;
    CHECK_STATUS(pool<numeric_f16>(&a, stream_get()), status_unsupported);
    a.out = (char *)a.out + 2;
    CHECK_STATUS(pool(&a, stream_get()), status_alignment);
    CHECK_STATUS(pool(nullptr, stream_get()), status_null_pointer);

    word_layout layout = reference_layout<uint32_t>({0, 0, 0}, {9, 9, 9}, 2, {1, 1, 1}, {1, 1, 1});
    uint32_t words[4] = {1, 2, 3, 4};
    int32_t four = 4;
    const voxel_set<uint32_t> set = {device_upload(words, 4), device_upload(&four, 1), 4};
    size_t n = 0;
    CHECK_OK(pool_global_workspace(&layout, 4, &n));
    REQUIRE(n > 0);
    char *scratch = device_new<char>((int64_t)n);
    const pool_global_args<uint32_t> good = {pool_max, numeric_f32, &layout, set, 4, in, out};
    pool_global_args<uint32_t> bad = good;
    bad.layout = nullptr;
    CHECK_STATUS(pool_global(&bad, scratch, n, stream_get()), status_null_pointer);
    CHECK_STATUS(pool_global(&good, nullptr, n, stream_get()), status_null_pointer);
    CHECK_STATUS(pool_global(&good, scratch, n - 1, stream_get()), status_workspace);
    CHECK_STATUS(pool_global(&good, scratch + 1, n, stream_get()), status_alignment);
    CHECK_STATUS(pool_global_workspace(nullptr, 4, &n), status_null_pointer);
    CHECK_STATUS(pool_global_workspace(&layout, 4, nullptr), status_null_pointer);
    CHECK_STATUS(pool_global_workspace(&layout, 0, &n), status_bad_size);
    CHECK(device_untouched(out, 0, 16));
    CHECK(device_untouched(scratch, 0, (int64_t)n));
}

// ---- the test, tested ---------------------------------------------------------------------------

// The largest value is of another source, or a row of another batch index.
void planted(bool local, pool_kind kind, numeric type, bool plant) {
    random_state random = random_make(50);
    if (local) {
        problem p = problem_make(&random, type, kind, 4, 8, 60, 90, 90, 60);
        const std::vector<float> out = problem_run(&p);
        const int tap = *std::find_if(p.map.begin(), p.map.end(), [](int32_t t) { return t >= 0; });
        std::fill_n(p.in.begin() + tap * 4, plant ? 4 : 0, 5.0f);
        problem_judge(&p, out, __LINE__);
        return;
    }
    globals g = globals_make(&random, type, kind, 4, {30, 0, 4097});
    const std::vector<float> out = globals_run<uint32_t>(&g, 3);
    if (plant) {
        g.rows = {29, 0, 4098};
        g.in[(size_t)(29 * 4)] = 9.0f;
    }
    globals_judge(&g, out, __LINE__);
}

DEVICE_TEST(gpu_pool_planted_errors_are_found) {
    static int i; // of all cases, every second planted
    for (i = 0; i < 16; ++i) {
        const int found = test_failures_of(
            [] { planted(i / 8, (pool_kind)(i / 2 % 2), numerics[i / 4 % 2 * 2], i % 2); });
        CHECK(i % 2 ? found > 0 : found == 0);
    }
    // One row of 4097 left out of a mean.
    CHECK(test_failures_of([] {
              random_state random = random_make(52);
              globals g = globals_make(&random, numeric_f32, pool_average, 8, {4097});
              std::vector<float> out = globals_run<uint64_t>(&g, 0);
              std::fill_n(g.in.begin() + 2000 * 8, 8, 0.0f);
              globals_judge(&g, out, __LINE__);
          }) > 0);
}

} // namespace
