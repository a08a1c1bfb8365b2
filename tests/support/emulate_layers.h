// tests/support/emulate_layers.h: layers whose kernel is emulated (emulate_hopper.h): their arrays,
// with NaN where nothing may be read, and the comparison of their outputs with sums in double.
//
// K, the kernel that a test is about, has
//   depth_least, depth_most                   stages of the ring
//   floats                                    whether it has a kernel for tf32
//   static const void *weights<E>(shape, shortcut, weight)   packs them
//   static int shortcut_parts(shape)          of a row
//   static void params(shape, params)         what conv/run.cuh sets for this kernel alone
//   static status run<E>(params, layer)       launches it
#ifndef SPIRA_TESTS_EMULATE_LAYERS_H
#define SPIRA_TESTS_EMULATE_LAYERS_H

#include "devices.h"
#include "emulate_hopper.h"

#include "../../spira/conv/weights.cuh"
#include "problems.h"

namespace problems {

// A layer, and how it is run.
struct layer {
    joined_problem joined; // the shortcut counts where it has input channels
    conv_sizes size;
    int depth; // stages of the ring; 0: as many as fit
    bool programmatic;
    bool in_place; // the residual is the array of the outputs
    int summed;    // the last offsets, whose sums another kernel has left
    int32_t none;  // the count of a layer without outputs: 0 or less
    uint64_t seed;
};

SPIRA_API bool has_shortcut(const layer *l) {
    return l->joined.own.shape.cin > 0;
}

// Memory that the kernel before the layer's may still write: it reads as NaN until that one ends.
struct written_late {
    char *at;
    size_t bytes;
    std::vector<char> last;
};

inline std::vector<written_late> late;

template <typename T>
T *array_put(const std::vector<T> &values) {
    T *to = guarded_new<T>((int64_t)values.size());
    std::copy(values.begin(), values.end(), to);
    return to;
}

SPIRA_API const float *floats_put(const std::vector<float> &values, int off) {
    return values.empty() ? nullptr : array_put(floats_move(values, off)) + off;
}

SPIRA_API const char *features_put(numeric type, const std::vector<float> &values, int channels,
                                   int off) {
    const std::vector<char> stored = features_move(type, values, channels, off);
    char *to = array_put(stored);
    late.push_back({to, stored.size(), {}});
    return to + off * numeric_size(type);
}

// The columns of the map of offsets begin .. end - 1.
SPIRA_API std::vector<int32_t> map_columns(const problem *p, int begin, int end) {
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
SPIRA_API const float *sums_put(const problem *p, int summed) {
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
    for (std::vector<float> *v : {&in, &in2}) { // tf32 rounds them when it multiplies
        for (float &f : *v) {
            f = numeric_operand(s->type, f);
        }
        v->push_back(0);
    }
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
SPIRA_API problem problem_first(const problem &p, int volume) {
    problem first = p;
    first.shape.volume = volume;
    first.map = map_columns(&p, 0, volume);
    return first;
}

SPIRA_API bool aligned(const void *p, int channels, int element, int bytes) {
    return (uintptr_t)p % (uintptr_t)bytes == 0 && channels * element % bytes == 0;
}

template <typename K, typename E>
conv_params_shortcut shortcut_put(const problem *p) {
    const conv_shape *s = &p->shape;
    conv_params_shortcut own = {};
    own.in = features_put(s->type, p->in, s->cin, p->off.in);
    own.in2 = s->cin2 ? features_put(s->type, p->in2, s->cin2, p->off.in2) : nullptr;
    own.weights = K::template weights<E>(s, true, p->weight);
    own.bias = floats_put(p->bias, p->off.floats);
    own.scale = floats_put(p->scale, p->off.floats);
    own.shift = floats_put(p->shift, p->off.floats);
    own.cin = s->cin;
    own.cin2 = s->cin2;
    own.parts = K::shortcut_parts(s);
    own.wide_in = aligned(own.in, s->cin, numeric_size(s->type), conv_lane_bytes);
    own.wide_in2 = !s->cin2 || aligned(own.in2, s->cin2, numeric_size(s->type), conv_lane_bytes);
    return own;
}

// The kernel's parameters as conv.cuh makes them, without the outputs.
template <typename K, typename E>
conv_params params_put(const layer *l) {
    const problem *p = &l->joined.main;
    const problem first = problem_first(*p, p->shape.volume - l->summed);
    const conv_shape *s = &first.shape;
    const problem_order o = problem_order_make(&first);
    conv_params t = {};
    t.in = features_put(s->type, p->in, s->cin, p->off.in);
    t.in2 = s->cin2 ? features_put(s->type, p->in2, s->cin2, p->off.in2) : nullptr;
    t.weights = K::template weights<E>(s, false, p->weight);
    t.sums = l->summed ? sums_put(p, l->summed) : nullptr;
    if (!p->identity) {
        t.order.row = array_put(o.row);
        t.order.mask = array_put(o.mask);
        t.order.source = array_put(o.source);
        t.order.schedule = array_put(o.schedule);
        t.order.groups = o.blocks;
    }
    t.order.volume = s->volume;
    t.count = array_put(std::vector<int32_t>(1, p->outputs ? p->outputs : l->none));
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
    K::params(s, &t);
    t.size = l->size;
    t.wide_in = aligned(t.in, s->cin, numeric_size(s->type), conv_lane_bytes);
    t.wide_in2 = !s->cin2 || aligned(t.in2, s->cin2, numeric_size(s->type), conv_lane_bytes);
    t.programmatic = l->programmatic;
    if (has_shortcut(l)) {
        t.shortcut = shortcut_put<K, E>(&l->joined.own);
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

SPIRA_API outputs outputs_put(const problem *p) {
    const int element = numeric_size(p->shape.type);
    outputs o;
    o.bytes = ((int64_t)problem_capacity(p) * p->shape.cout + p->off.out) * element;
    o.used = (int64_t)p->outputs * p->shape.cout * element;
    o.all = guarded_new<char>(o.bytes);
    o.first = o.all + p->off.out * element;
    late.push_back({o.all, (size_t)o.bytes, {}});
    return o;
}

SPIRA_API bool outputs_untouched(const outputs &o) {
    const int64_t before = o.first - o.all;
    return guarded_untouched(o.all, 0, before) &&
           guarded_untouched(o.all, before + o.used, o.bytes);
}

// Until the previous kernel ends, the memory that it may write is NaN and must stay so.
SPIRA_API void previous_begins() {
    for (written_late &w : late) {
        w.last.assign(w.at, w.at + w.bytes);
        memset(w.at, 0xff, w.bytes);
    }
}

SPIRA_API void previous_ends() {
    for (const written_late &w : late) {
        if (std::any_of(w.at, w.at + w.bytes, [](char c) { return c != (char)0xff; })) {
            emulate::fault("something is written while the previous kernel runs");
        }
        std::copy(w.last.begin(), w.last.end(), w.at);
    }
}

// Runs a layer; returns the outputs. Fails the test if the emulator reports a fault or something
// else is written, unless `good` is given, which says so instead.
template <typename K, typename E>
std::vector<char> layer_run(const layer *l, bool *good = nullptr) {
    const problem *p = &l->joined.main;
    const numeric type = p->shape.type;
    late.clear();
    conv_params t = params_put<K, E>(l);
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
    const int element = numeric_size(type);
    t.wide_out = aligned(t.out, p->shape.cout, element, 4 * element) &&
                 aligned(t.residual, p->shape.cout, element, 4 * element);
    emulate::seed = l->seed;
    emulate::previous = {previous_begins, previous_ends};
    const status run = K::template run<E>(t, l);
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

SPIRA_API void layer_name(layer *l, const char *what) {
    char more[100];
    snprintf(more, sizeof more,
             ", shortcut %d+%d, slices %d, split %d, tiles %d, depth %d%s%s, %d summed",
             l->joined.own.shape.cin, l->joined.own.shape.cin2, l->size.slices, l->size.split,
             l->size.tiles, l->depth, l->programmatic ? ", programmatic" : "",
             l->in_place ? ", in place" : "", l->summed);
    problem_name(&l->joined.main, what, more);
}

// Runs a layer in its format.
template <typename K>
std::vector<char> layer_run_any(const layer *l) {
    switch (l->joined.main.shape.type) {
    case numeric_f16:
        return layer_run<K, __half>(l);
    case numeric_bf16:
        return layer_run<K, __nv_bfloat16>(l);
    default:
        if constexpr (K::floats) {
            return layer_run<K, float>(l);
        }
        return {};
    }
}

// The outputs are good, and the same in every order of threads and copies that is drawn.
template <typename K>
bool layer_check(layer *l, const char *what, int orders = 2) {
    const problem *p = &l->joined.main;
    layer_name(l, what);
    const std::vector<char> out = layer_run_any<K>(l);
    bool good = reference_conv_good(has_shortcut(l) ? joined_judge(&l->joined, out.data())
                                                    : problem_judge(p, out.data()),
                                    p->name);
    for (int i = 1; i < orders && good; ++i) {
        l->seed += 1000;
        good = test_check(layer_run_any<K>(l) == out, __FILE__, __LINE__, p->name);
    }
    return good;
}

// A negative count is taken as 0, however low.
template <typename K>
void layer_negative_counts(numeric type, conv_sizes size, int cin, int cout) {
    for (int32_t none : {-1, -255, -1000, -100000, INT32_MIN}) {
        random_state random = random_make((uint64_t)size.slices);
        layer l = {};
        l.joined = joined_make(&random, shape_make(5, cin, 0, cout, type), 0, 0, 100, 0, 300);
        joined_fill(&random, &l.joined, 20, with_all, 0, activation_relu);
        l.size = size;
        l.none = none;
        REQUIRE(layer_check<K>(&l, "negative count", 1));
    }
}

// Draws alignment, initial sums, the depth of the ring and programmatic launch.
template <typename K>
void layer_vary(random_state *random, layer *l) {
    if (random_int(random, 0, 1)) { // most layers are aligned
        problem_move(random, &l->joined.main);
        problem_move(random, &l->joined.own);
    }
    l->summed = !has_shortcut(l) && random_int(random, 0, 1)
                    ? random_int(random, 0, l->joined.main.shape.volume - 1)
                    : 0;
    l->depth = random_int(random, 0, 1) * random_int(random, K::depth_least, K::depth_most);
    l->programmatic = random_int(random, 0, 1);
    l->in_place = random_int(random, 0, 1);
    l->seed = (uint64_t)random_int(random, 0, 1 << 30);
}

// The outputs of a problem without epilogue: offsets ascending, input channels ascending, of both
// sources one after the other; operands as the format rounds them.
SPIRA_API std::vector<float> sums_in_order(const problem *p) {
    const conv_shape *s = &p->shape;
    const size_t cout = (size_t)s->cout;
    std::vector<float> sum((size_t)p->outputs * cout);
    for (size_t o = 0; o < (size_t)p->outputs; ++o) {
        for (int k = 0; k < s->volume; ++k) {
            const int32_t source = p->map[o * (size_t)s->volume + (size_t)k];
            for (int i = 0; i < s->cin + s->cin2 && source >= 0; ++i) {
                const bool second = i >= s->cin;
                const float x = second ? p->in2[(size_t)(source * s->cin2 + i - s->cin)]
                                       : p->in[(size_t)(source * s->cin + i)];
                const float *w = &p->weight[(size_t)(k * (s->cin + s->cin2) + i) * cout];
                for (size_t c = 0; c < cout; ++c) {
                    sum[o * cout + c] = fmaf(numeric_operand(s->type, x),
                                             numeric_operand(s->type, w[c]), sum[o * cout + c]);
                }
            }
        }
    }
    return sum;
}

// What packing has found.
inline device_status weights_trouble;

// Runs a kernel that packs p.total pieces.
SPIRA_API void weights_pack(void (*kernel)(conv_pack_params), conv_pack_params p) {
    p.trouble = &weights_trouble;
    CHECK_OK(kernel_launch(kernel, {(unsigned)ceil_div(p.total, 256), 256, nullptr, "pack"}, p));
}

// Packed weights as plain floats.
SPIRA_API const void *weights_exact(const conv_shape *s, const std::vector<float> &weight) {
    const int64_t total = conv_exact_weights(s);
    float *packed = guarded_new<float>(total);
    weights_pack(conv_exact_pack_kernel<0>, {*s, 0, weight.data(), 0, total, packed, nullptr});
    return packed;
}

// Weights that the format cannot hold, of one offset: outputs without it are as if they were 0, the
// others are not, and they are recorded as the host records them.
template <typename K>
void layer_weights_beyond(numeric type, conv_sizes size, int cin, int cout) {
    for (float beyond : {numeric_largest(type) * 1.01f, INFINITY, -INFINITY, NAN}) {
        random_state random = random_make(91);
        layer l = {};
        l.size = size;
        l.joined = joined_make(&random, shape_make(4, cin, 0, cout, type), 0, 0, 100, 200, 200);
        joined_fill(&random, &l.joined, 40, with_residual, 0, activation_none);
        problem *p = &l.joined.main;
        const size_t offset = (size_t)cin * (size_t)cout;
        std::fill_n(p->weight.begin() + 2 * (int64_t)offset, offset, 0.0f);
        const std::vector<char> zeros = layer_run_any<K>(&l);
        std::fill_n(p->weight.begin() + 2 * (int64_t)offset, offset, beyond);
        weights_trouble = {};
        const std::vector<char> out = layer_run_any<K>(&l);
        device_status host = {};
        CHECK_OK(conv_weights_check(&p->shape, p->weight.data(), &host));
        CHECK_EQUAL(memcmp(&host, &weights_trouble, sizeof host), 0);
        const status found = device_status_read(&weights_trouble);
        CHECK_EQUAL(found.code, status_weights);
        CHECK_EQUAL(found.detail, (int64_t)(2 * offset));
        const size_t row = (size_t)(cout * numeric_size(type));
        for (size_t o = 0; o < (size_t)p->outputs; ++o) {
            const bool same = memcmp(&out[o * row], &zeros[o * row], row) == 0;
            CHECK_EQUAL(same, p->map[4 * o + 2] < 0);
        }
    }
}

// Tests the test: one wrong weight, tap, source row or epilogue is found.
template <typename K>
void layer_planted_errors(numeric type, conv_sizes size, int cout) {
    random_state random = random_make(37);
    problem good = problem_make(&random, {4, 6, 0, cout, type}, 60, 80, 80);
    problem_fill_map(&random, &good, 40);
    check_planted_errors(good, [=](const problem *p) {
        layer l = {};
        l.joined.main = *p;
        l.size = size;
        return layer_run_any<K>(&l);
    });
}

} // namespace problems

#endif
