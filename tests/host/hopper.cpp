// tests/host/hopper.cpp: the kernels of conv/hopper.cuh, emulated on the host (emulate_hopper.h)
// and compared with sums in double. The made-up device has few multiprocessors, so that each thread
// block computes several tiles.
#include "../support/devices.h"
#include "../support/emulate_hopper.h"

#include "../../spira/conv/hopper.cuh"
#include "../support/problems.h"

using namespace problems;

namespace {

enum { multiprocessors = 3, shared_most = 232448 };

const device_info device = device_made(90, multiprocessors, shared_most, true);

// A layer, and how it is run.
struct layer {
    joined_problem joined; // the shortcut counts where it has input channels
    conv_sizes size;
    int depth; // stages of the ring; 0: as many as fit
    bool programmatic;
    bool in_place; // the residual is the array of the outputs
    int summed;    // the last offsets, whose sums another kernel has left
    uint64_t seed;
};

bool has_shortcut(const layer *l) {
    return l->joined.own.shape.cin > 0;
}

// Stages that fit into `shared` bytes.
int layer_stages(const layer *l, int shared) {
    const int columns = 32 * l->size.slices, row = hopper_stage_row(&l->joined.main.shape);
    return hopper_stages(columns, row, &l->size, shared);
}

// The device that gives the layer's ring its depth.
device_info layer_device(const layer *l) {
    int shared = shared_most;
    while (l->depth && layer_stages(l, shared) > l->depth) {
        shared -= 1024;
    }
    return device_made(90, multiprocessors, shared, true);
}

// Memory that the kernel before the layer's may still write: it reads as NaN until that one ends.
struct written_late {
    char *at;
    size_t bytes;
    std::vector<char> last;
};

std::vector<written_late> late;

template <typename T>
T *array_put(const std::vector<T> &values) {
    T *to = guarded_new<T>((int64_t)values.size());
    std::copy(values.begin(), values.end(), to);
    return to;
}

const float *floats_put(const std::vector<float> &values, int off) {
    return values.empty() ? nullptr : array_put(floats_move(values, off)) + off;
}

const char *features_put(numeric type, const std::vector<float> &values, int channels, int off) {
    const std::vector<char> stored = features_move(type, values, channels, off);
    char *to = array_put(stored);
    late.push_back({to, stored.size(), {}});
    return to + off * numeric_size(type);
}

// The columns of the map of offsets begin .. end - 1.
std::vector<int32_t> map_columns(const problem *p, int begin, int end) {
    std::vector<int32_t> columns;
    for (size_t i = 0; i < p->map.size(); ++i) {
        const int k = (int)(i % (size_t)p->shape.volume);
        if (k >= begin && k < end) {
            columns.push_back(p->map[i]);
        }
    }
    return columns;
}

// Rows of initial sums: those of the last offsets. Channels past the last are NaN.
const float *sums_put(const problem *p, int summed) {
    const conv_shape *s = &p->shape;
    const int first = s->volume - summed, pitch = conv_sums_pitch(s->cout);
    const int64_t weights = (int64_t)(s->cin + s->cin2) * s->cout;
    std::vector<float> weight;
    for (size_t i = (size_t)(first * weights); i < p->weight.size(); ++i) {
        weight.push_back(numeric_operand(s->type, p->weight[i]));
    }
    std::vector<int32_t> map = map_columns(p, first, s->volume);
    map.push_back(-1); // an empty map has an address too
    conv_shape own = *s;
    own.volume = summed;
    std::vector<float> sum((size_t)p->outputs * (size_t)s->cout + 1), in = p->in, in2 = p->in2;
    in.push_back(0);
    in2.push_back(0);
    CHECK_OK(conv_sum_host(&own, in.data(), in2.data(), weight.data(), map.data(), p->outputs,
                           sum.data()));
    std::vector<float> rows((size_t)problem_capacity(p) * (size_t)pitch, NAN);
    for (int32_t o = 0; o < p->outputs; ++o) {
        std::copy_n(sum.begin() + (ptrdiff_t)o * s->cout, s->cout, rows.begin() + o * pitch);
    }
    float *to = array_put(rows);
    late.push_back({(char *)to, rows.size() * sizeof(float), {}});
    return to;
}

// The problem of the other offsets.
problem problem_first(const problem &p, int volume) {
    problem first = p;
    first.shape.volume = volume;
    first.map = map_columns(&p, 0, volume);
    return first;
}

template <typename E>
const void *weights_put(const conv_shape *s, int part, const std::vector<float> &weight) {
    const int64_t total = hopper_weights(s, part);
    E *packed = guarded_new<E>(total * conv_lane_bytes / 2);
    CHECK_OK(kernel_launch(hopper_pack_kernel<E>, (unsigned)ceil_div(total, 256), 256, 0, false, 1,
                           nullptr, "pack", *s, part, weight.data(), total, packed));
    return packed;
}

bool aligned(const void *p, int channels, int bytes) {
    return (uintptr_t)p % (uintptr_t)bytes == 0 && channels * 2 % bytes == 0;
}

template <typename E>
conv_tensor_shortcut shortcut_put(const problem *p) {
    const conv_shape *s = &p->shape;
    conv_tensor_shortcut own = {};
    own.in = features_put(s->type, p->in, s->cin, p->off.in);
    own.in2 = s->cin2 ? features_put(s->type, p->in2, s->cin2, p->off.in2) : nullptr;
    own.weights = weights_put<E>(s, hopper_part_whole, p->weight);
    own.bias = floats_put(p->bias, p->off.floats);
    own.scale = floats_put(p->scale, p->off.floats);
    own.shift = floats_put(p->shift, p->off.floats);
    own.cin = s->cin;
    own.cin2 = s->cin2;
    own.parts = (int)ceil_div(hopper_row_bytes(s), hopper_part_whole);
    own.wide_in = aligned(own.in, s->cin, conv_lane_bytes);
    own.wide_in2 = !s->cin2 || aligned(own.in2, s->cin2, conv_lane_bytes);
    return own;
}

// The kernel's parameters as conv.cuh makes them, without the outputs.
template <typename E>
conv_tensor_params params_put(const layer *l) {
    const problem *p = &l->joined.main;
    const problem first = problem_first(*p, p->shape.volume - l->summed);
    const conv_shape *s = &first.shape;
    const problem_order o = problem_order_make(&first);
    conv_tensor_params t = {};
    t.in = features_put(s->type, p->in, s->cin, p->off.in);
    t.in2 = s->cin2 ? features_put(s->type, p->in2, s->cin2, p->off.in2) : nullptr;
    t.weights = weights_put<E>(s, hopper_part_bytes(s), p->weight);
    t.sums = l->summed ? sums_put(p, l->summed) : nullptr;
    if (!p->identity) {
        t.order.row = array_put(o.row);
        t.order.mask = array_put(o.mask);
        t.order.source = array_put(o.source);
        t.order.schedule = array_put(o.schedule);
        t.order.groups = o.blocks;
    }
    t.order.volume = s->volume;
    t.count = array_put(std::vector<int32_t>(1, p->outputs));
    t.capacity = problem_capacity(p);
    t.epilogue.bias = floats_put(p->bias, p->off.floats);
    t.epilogue.scale = floats_put(p->scale, p->off.floats);
    t.epilogue.shift = floats_put(p->shift, p->off.floats);
    t.epilogue.act = p->act;
    t.epilogue.slope = p->slope;
    t.volume = s->volume;
    t.cin = s->cin;
    t.cin2 = s->cin2;
    t.cout = s->cout;
    t.part = hopper_part_bytes(s);
    t.chunks = hopper_parts(s);
    t.size = l->size;
    t.wide_in = aligned(t.in, s->cin, conv_lane_bytes);
    t.wide_in2 = !s->cin2 || aligned(t.in2, s->cin2, conv_lane_bytes);
    t.programmatic = l->programmatic;
    if (has_shortcut(l)) {
        t.shortcut = shortcut_put<E>(&l->joined.own);
    }
    return t;
}

// The array of the outputs, with `off` elements before it and the rest of the capacity behind it,
// neither of which may be written.
struct outputs {
    char *all, *first;
    int64_t bytes; // of all
    int64_t used;  // from the first on
};

outputs outputs_put(const problem *p) {
    const int element = numeric_size(p->shape.type);
    outputs o;
    o.bytes = ((int64_t)problem_capacity(p) * p->shape.cout + p->off.out) * element;
    o.used = (int64_t)p->outputs * p->shape.cout * element;
    o.all = guarded_new<char>(o.bytes);
    o.first = o.all + p->off.out * element;
    late.push_back({o.all, (size_t)o.bytes, {}});
    return o;
}

bool outputs_untouched(const outputs &o) {
    const int64_t before = o.first - o.all;
    return guarded_untouched(o.all, 0, before) &&
           guarded_untouched(o.all, before + o.used, o.bytes);
}

// Until the previous kernel ends, the memory that it may write is NaN and must stay so.
void previous_begins() {
    for (written_late &w : late) {
        w.last.assign(w.at, w.at + w.bytes);
        memset(w.at, 0xff, w.bytes);
    }
}

void previous_ends() {
    for (const written_late &w : late) {
        if (std::any_of(w.at, w.at + w.bytes, [](char c) { return c != (char)0xff; })) {
            emulate::fault("something is written while the previous kernel runs");
        }
        std::copy(w.last.begin(), w.last.end(), w.at);
    }
}

// Runs a layer; returns the outputs. Fails the test if the emulator reports a fault or something
// else is written, unless `good` is given, which says so instead.
template <typename E>
std::vector<char> layer_run(const layer *l, bool *good = nullptr) {
    const problem *p = &l->joined.main;
    const numeric type = p->shape.type;
    late.clear();
    conv_tensor_params t = params_put<E>(l);
    const outputs o = outputs_put(p);
    t.out = o.first;
    if (!p->residual.empty() && l->in_place) {
        const std::vector<char> stored = features_store(type, p->residual);
        std::copy(stored.begin(), stored.end(), o.first);
        t.residual = t.out;
    } else if (!p->residual.empty()) {
        t.residual = features_put(type, p->residual, p->shape.cout, p->off.residual);
    }
    t.epilogue.residual = t.residual;
    t.wide_out = aligned(t.out, p->shape.cout, 8) && aligned(t.residual, p->shape.cout, 8);
    emulate::seed = l->seed;
    emulate::previous = {previous_begins, previous_ends};
    const device_info d = layer_device(l);
    const status run = hopper_run<E, true>(t, &d, nullptr);
    emulate::previous = {};
    const bool fine = run.code == status_ok && outputs_untouched(o);
    if (good) {
        *good = fine;
    } else {
        CHECK_OK(run);
        test_check(fine, __FILE__, __LINE__, p->name);
    }
    std::vector<char> out(o.first, o.first + (fine ? o.used : 0));
    out.resize((size_t)o.used + 1);
    guarded_finish();
    return out;
}

void layer_name(layer *l, const char *what) {
    char more[100];
    snprintf(more, sizeof more,
             ", shortcut %d+%d, slices %d, split %d, tiles %d, depth %d%s%s, %d summed",
             l->joined.own.shape.cin, l->joined.own.shape.cin2, l->size.slices, l->size.split,
             l->size.tiles, l->depth, l->programmatic ? ", programmatic" : "",
             l->in_place ? ", in place" : "", l->summed);
    problem_name(&l->joined.main, what, more);
}

// The outputs are good, and the same in every order of threads and copies that is drawn.
bool layer_check(layer *l, const char *what, int orders = 2) {
    const problem *p = &l->joined.main;
    layer_name(l, what);
    auto run = [&] {
        return p->shape.type == numeric_f16 ? layer_run<__half>(l) : layer_run<__nv_bfloat16>(l);
    };
    const std::vector<char> out = run();
    bool good = reference_conv_good(has_shortcut(l) ? joined_judge(&l->joined, out.data())
                                                    : problem_judge(p, out.data()),
                                    p->name);
    for (int i = 1; i < orders && good; ++i) {
        l->seed += 1000;
        good = test_check(run() == out, __FILE__, __LINE__, p->name);
    }
    return good;
}

const int edges[] = {16, 17, 20, 24,  31,  32,  33,  40,  48,  63,  64,  65,  80,
                     95, 96, 97, 100, 127, 128, 129, 160, 192, 193, 255, 256, 257};

// Draws alignment, initial sums, the depth of the ring and programmatic launch.
void layer_vary(random_state *random, layer *l) {
    if (random_int(random, 0, 1)) { // most layers are aligned
        problem_move(random, &l->joined.main);
        problem_move(random, &l->joined.own);
    }
    l->summed = !has_shortcut(l) && random_int(random, 0, 1)
                    ? random_int(random, 0, l->joined.main.shape.volume - 1)
                    : 0;
    l->depth = random_int(random, 0, 1) * random_int(random, hopper_teams, hopper_stages_most);
    l->programmatic = random_int(random, 0, 1);
    l->in_place = random_int(random, 0, 1);
    l->seed = (uint64_t)random_int(random, 0, 1 << 30);
}

// A random layer that the kernel takes.
layer layer_random(random_state *random, bool shortcut) {
    layer l = {};
    conv_shape s = {};
    do {
        s = shape_random(random, random_int(random, 0, 9) ? random_int(random, 1, 12) : 40,
                         random_int(random, 0, 1) ? numeric_f16 : numeric_bf16, edges);
        s.cin2 = s.cin2 ? std::min(s.cin2, 70) : 0;
    } while (!hopper_takes(&s, &device) || (shortcut && !hopper_takes_shortcut(&s)));
    const int32_t outputs = random_int(random, 0, 5) ? random_int(random, 1, 420) : 0;
    const int32_t inputs = s.volume == 1 ? outputs : random_int(random, 0, 300);
    const int cin = shortcut ? channels_random(random, edges) : 0;
    l.joined = joined_make(random, s, cin, shortcut && random_int(random, 0, 1) ? cin / 2 : 0,
                           inputs, outputs, random_int(random, 1, 150));
    const int percents[] = {0, 3, 15, 40, 100};
    joined_fill(random, &l.joined, percents[random_int(random, 0, 4)],
                random_int(random, 0, with_all), random_int(random, 0, with_all),
                (activation)random_int(random, activation_none, activation_leaky));
    static conv_sizes sizes[conv_sizes_most];
    l.size = sizes[random_int(random, 0, hopper_sizes_list(&s, &device, sizes) - 1)];
    layer_vary(random, &l);
    return l;
}

} // namespace

TEST(hopper_emulated_random_layers) {
    for (int seed = 0; seed < (test_quick() ? 6 : 60); ++seed) {
        random_state random = random_make((uint64_t)seed);
        layer l = layer_random(&random, seed % 3 == 0);
        char what[32];
        snprintf(what, sizeof what, "seed %d", seed);
        REQUIRE(layer_check(&l, what));
    }
}

// Every variant, of both types, with a shortcut and without. Thread blocks have several tiles each.
TEST(hopper_emulated_every_kernel) {
    const struct {
        conv_sizes size;
        int cin, cout;
    } cuts[] = {
        {{1, 1, 1, 1}, 40, 32},   {{1, 2, 1, 1}, 64, 64},   {{2, 2, 1, 1}, 64, 64},
        {{1, 2, 2, 1}, 80, 64},   {{1, 3, 1, 1}, 96, 96},   {{1, 3, 1, 1}, 64, 96},
        {{1, 4, 1, 1}, 128, 128}, {{1, 4, 2, 1}, 128, 128}, {{1, 8, 1, 1}, 64, 256},
        {{1, 8, 2, 1}, 64, 256},
    };
    std::set<const void *> &launched = emulate::launched;
    launched.clear();
    int seed = 0;
    for (const auto &cut : cuts) {
        for (numeric type : {numeric_f16, numeric_bf16}) {
            for (bool shortcut : {false, true}) {
                random_state random = random_make((uint64_t)++seed);
                const conv_shape s = shape_make(4, cut.cin, 0, cut.cout, type);
                layer l = {};
                l.joined =
                    joined_make(&random, s, shortcut ? 72 : 0, 0, 200, test_quick() ? 300 : 600, 9);
                joined_fill(&random, &l.joined, 60, shortcut ? with_scale : with_all, with_all,
                            activation_relu);
                l.size = cut.size;
                REQUIRE(hopper_sizes_fit(&s, &device, &l.size));
                l.programmatic = true;
                l.seed = (uint64_t)seed;
                REQUIRE(layer_check(&l, "every kernel", test_quick() ? 1 : 3));
            }
        }
    }
    // Of each type 10 variants, 8 with a shortcut (hopper_run_as), and the one that packs weights.
    CHECK_EQUAL(launched.size(), (size_t)(2 * (18 + 1)));
}

namespace {

// The variants with two sets of consumer warpgroups: two, two and one producer warp for a stage.
const struct {
    conv_sizes size;
    int cout;
} two_sets[] = {{{2, 2, 1, 1}, 64}, {{1, 3, 1, 1}, 96}, {{1, 4, 1, 1}, 128}};

// And with one: two producer warps for a stage, then one.
const struct {
    conv_sizes size;
    int cout;
} one_set[] = {{{1, 2, 1, 1}, 64}, {{1, 8, 2, 1}, 256}};

// Many short tiles for each thread block.
template <typename C>
layer layer_of_short_tiles(const C &cut, uint64_t seed, int volume, int percent, int depth) {
    random_state random = random_make(seed);
    const conv_shape s = shape_make(volume, random_int(&random, 33, 160), 0, cut.cout, numeric_f16);
    layer l = {};
    l.joined = joined_make(&random, s, 0, 0, 200, 2300, 0);
    joined_fill(&random, &l.joined, percent, with_all, 0, activation_none);
    l.size = cut.size;
    l.seed = seed;
    l.depth = std::min(layer_stages(&l, shared_most), depth);
    return l;
}

} // namespace

// Two sets that alternate between many short tiles, in rings of every depth: one set still reads a
// stage when the other has released those behind it.
TEST(hopper_emulated_sets_alternate) {
    int seed = 0;
    for (int depth = hopper_teams; depth <= hopper_stages_most; ++depth) {
        for (const auto &cut : two_sets) {
            if (!test_quick() || ++seed % 5 == 0) {
                layer l =
                    layer_of_short_tiles(cut, (uint64_t)(100 * depth + cut.cout), 2, 1, depth);
                REQUIRE(layer_check(&l, "sets alternate"));
            }
        }
    }
}

// One set, in rings of every depth.
TEST(hopper_emulated_rings) {
    int seed = 0;
    for (int depth = hopper_teams; depth <= hopper_stages_most; ++depth) {
        for (const auto &cut : one_set) {
            if (!test_quick() || ++seed % 5 == 0) {
                layer l =
                    layer_of_short_tiles(cut, (uint64_t)(100 * depth + cut.cout), 2, 5, depth);
                REQUIRE(layer_check(&l, "rings"));
            }
        }
    }
}

// Tests the test: with two sets, producers that do not wait for a stage's previous content
// (hopper_produce) overtake each other, except in a ring of four stages.
TEST(hopper_emulated_sets_need_both_waits) {
    int wrong[2] = {0, 0}; // of rings of 4 stages; of 5
    for (int seed = 0; seed < 24; ++seed) {
        const auto &cut = two_sets[0];
        layer l = layer_of_short_tiles(cut, (uint64_t)seed, 2, 1, 4 + seed % 2);
        std::vector<int> waits(1024);
        emulate::wait_skipped = [&] { // of a producer's waits, every other one is for `full`
            const int own = (int)threadIdx.x;
            return own >= hopper_consumers(64, 1, 2) && waits[(size_t)own]++ % 2 == 0;
        };
        bool good;
        const std::vector<char> out = layer_run<__half>(&l, &good);
        emulate::wait_skipped = nullptr;
        good = good && problem_judge(&l.joined.main, out.data()).ratio <= 1;
        wrong[seed % 2] += !good;
    }
    CHECK_EQUAL(wrong[0], 0);
    CHECK(wrong[1] > 0);
}
