// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/support/emulate_layers.h: layers whose kernel is emulated (emulate_mma.h): their arrays,
// with NaN where nothing may be read, the comparison of their outputs with sums in double, and the
// tests that all kernels have.
//
// K, the kernel that a test is about, has
//   kernel                                  its conv_kernel
//   floats                                  whether it has fp32 and tf32
//   edges                                   numbers of channels to be drawn
//   depth_least, depth_most                 stages of the ring
//   device                                  a GPU whose layers it computes
//   static status run(tag, params, layer)   launches it in a format
#ifndef SPIRA_TESTS_EMULATE_LAYERS_H
#define SPIRA_TESTS_EMULATE_LAYERS_H

#include "devices.h"
#include "emulate_mma.h"
#include "emulate_numeric.h"

#include "../../spira/conv/pack.cuh"
#include "../../spira/conv/run.cuh"
#include "../../spira/conv_grad.h"
#include "problems.h"

namespace problems {

// A layer, and how it is run.
struct layer {
    joined_problem joined; // the shortcut counts where it has input channels
    conv_sizes sizes;
    int depth; // stages of the ring; 0: as many as fit
    bool programmatic;
    bool in_place; // the residual is the array of the outputs
    int summed;    // the last offsets, whose sums another kernel has left
    int32_t none;  // the count of a layer without outputs: 0 or less
    uint64_t seed;
    int more_in, more_out; // channels behind each row, in wider rows
};

SPIRA_API bool has_shortcut(const layer *l) {
    return l->joined.own.shape.cin > 0;
}

// ---- arrays -------------------------------------------------------------------------------------

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

// Rows with `more` channels of NaN behind each.
SPIRA_API std::vector<float> rows_apart(const std::vector<float> &values, int channels, int more) {
    std::vector<float> wide;
    for (size_t at = 0; at < values.size(); at += (size_t)channels) {
        wide.insert(wide.end(), values.begin() + (ptrdiff_t)at,
                    values.begin() + (ptrdiff_t)at + channels);
        wide.insert(wide.end(), (size_t)more, NAN);
    }
    return wide;
}

// What packing has found.
inline device_status weights_trouble;

// Packs weights [volume, cin + cin2, cout] into `to`, as the library does. shortcut: those of one.
// rows: of an offset's weights; 0: cin + cin2. bytes: with a tag at their end; 0: without one.
template <typename K, conv_weights_order order = conv_weights_own>
void weights_pack(const conv_shape *s, bool shortcut, const float *weight, void *to, int rows = 0,
                  size_t bytes = 0) {
    conv_pack_request request = {&K::device, *s, K::kernel, rows ? rows : s->cin + s->cin2,
                                 weight,     0,  to,        &weights_trouble};
    request.tag = conv_weights_tag_make(&K::device, s, K::kernel);
    request.bytes = bytes;
    CHECK_OK(numeric_dispatch<numeric_any>(s->type, [&](auto tag) {
        return shortcut ? conv_pack_shortcut(tag, s, &request, nullptr)
                        : conv_pack_as<order>(tag, &request, nullptr);
    }));
}

template <typename K>
const void *weights_put(const conv_shape *s, bool shortcut, const std::vector<float> &weight) {
    const size_t bytes = (shortcut ? conv_shortcut_packed_bytes(s, K::kernel, s->cin, s->cin2)
                                   : conv_packed_bytes(s, K::kernel)) +
                         sizeof(conv_weights_tag);
    char *packed = guarded_new<char>((int64_t)bytes);
    weights_pack<K>(s, shortcut, weight.data(), packed, 0, bytes);
    const conv_weights_tag tag = conv_weights_tag_make(&K::device, s, K::kernel);
    CHECK_OK(conv_weights_tag_check(&tag, packed, bytes)); // the kernel has written it
    return packed;
}

// The map of a problem in an ordered layout, in random order. count: of the outputs.
inline conv_map map_put(const problem *p, const int32_t *count) {
    const problem_order o = problem_order_make(p);
    order_layout order = {};
    order.row = array_put(o.row);
    order.mask = array_put(o.mask);
    order.source = array_put(o.source);
    order.schedule = array_put(o.schedule);
    order.groups = o.blocks;
    order.volume = p->shape.volume;
    return conv_map_of_order(&order, count, problem_capacity(p));
}

// The arguments of a layer, without the outputs and the residual.
struct layer_args {
    conv_args args;
    conv_map map;
    conv_shortcut own;
};

template <typename K>
void args_put(const layer *l, layer_args *to) {
    const problem *p = &l->joined.main, *own = &l->joined.own;
    const int others = p->shape.volume - l->summed; // offsets that are not summed
    const problem first = problem_offsets(p, 0, others);
    const conv_shape *s = &p->shape;
    *to = {};
    conv_args *a = &to->args;
    a->shape = *s;
    a->in = features_put(s->type, rows_apart(p->in, s->cin, l->more_in), s->cin + l->more_in,
                         p->off.in);
    a->in2 = s->cin2 ? features_put(s->type, p->in2, s->cin2, p->off.in2) : nullptr;
    a->pitch_in = l->more_in ? s->cin + l->more_in : 0;
    a->pitch_out = l->more_out ? s->cout + l->more_out : 0;
    a->weights = weights_put<K>(s, false, p->weight);
    if (l->summed) {
        const problem rest = problem_offsets(p, others, s->volume);
        const std::vector<float> sums = problem_sums(&rest);
        float *to_sums = array_put(sums);
        late.push_back({(char *)to_sums, sums.size() * sizeof(float), {}});
        a->sums = to_sums;
    }
    const int32_t *count = array_put(std::vector<int32_t>(1, p->outputs ? p->outputs : l->none));
    to->map = p->identity ? conv_map_identity(count, problem_capacity(p)) : map_put(&first, count);
    a->map = &to->map;
    a->epilogue.bias = floats_put(p->bias, p->off.floats);
    a->epilogue.scale = floats_put(p->scale, p->off.floats);
    a->epilogue.shift = floats_put(p->shift, p->off.floats);
    a->epilogue.act = p->act;
    a->epilogue.slope = p->slope;
    a->programmatic = l->programmatic;
    if (has_shortcut(l)) {
        s = &own->shape;
        to->own.cin = s->cin;
        to->own.cin2 = s->cin2;
        to->own.in = features_put(s->type, own->in, s->cin, own->off.in);
        to->own.in2 = s->cin2 ? features_put(s->type, own->in2, s->cin2, own->off.in2) : nullptr;
        to->own.weights = weights_put<K>(s, true, own->weight);
        to->own.bias = floats_put(own->bias, own->off.floats);
        to->own.scale = floats_put(own->scale, own->off.floats);
        to->own.shift = floats_put(own->shift, own->off.floats);
        a->shortcut = &to->own;
    }
}

// The array of the outputs, with `off` elements before it, the rest of the capacity behind it and
// perhaps more between its rows, none of which may be written.
struct outputs {
    char *all, *first;
    int64_t bytes;      // of all
    int64_t row, pitch; // bytes of a row, and to the next
    int64_t rows;
};

SPIRA_API outputs outputs_put(const problem *p, int more) {
    const int element = numeric_size(p->shape.type), cout = p->shape.cout;
    outputs o;
    o.row = cout * element;
    o.pitch = (cout + more) * element;
    o.rows = p->outputs;
    o.bytes = problem_capacity(p) * o.pitch + p->off.out * element;
    o.all = guarded_new<char>(o.bytes);
    o.first = o.all + p->off.out * element;
    late.push_back({o.all, (size_t)o.bytes, {}});
    return o;
}

SPIRA_API bool outputs_untouched(const outputs &o) {
    const int64_t before = o.first - o.all;
    bool good = guarded_untouched(o.all, 0, before) &&
                guarded_untouched(o.all, before + o.rows * o.pitch, o.bytes);
    for (int64_t row = 0; good && row < o.rows && o.row < o.pitch; ++row) {
        const int64_t at = before + row * o.pitch;
        good = guarded_untouched(o.all, at + o.row, at + o.pitch);
    }
    return good;
}

// Copies the rows of an array without gaps, or to one.
SPIRA_API void outputs_set(const outputs &o, const std::vector<char> &from) {
    for (int64_t row = 0; row < (int64_t)from.size() / o.row; ++row) {
        memcpy(o.first + row * o.pitch, from.data() + row * o.row, (size_t)o.row);
    }
}

SPIRA_API std::vector<char> outputs_get(const outputs &o) {
    std::vector<char> all;
    for (int64_t row = 0; row < o.rows; ++row) {
        all.insert(all.end(), o.first + row * o.pitch, o.first + row * o.pitch + o.row);
    }
    return all;
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

// ---- runs ---------------------------------------------------------------------------------------

// Runs a layer; returns the outputs. Fails the test if the emulator reports a fault or something
// else is written, unless `good` is given, which says so instead.
template <typename K>
std::vector<char> layer_run(const layer *l, bool *good = nullptr) {
    const problem *p = &l->joined.main;
    const numeric type = p->shape.type;
    late.clear();
    layer_args a;
    args_put<K>(l, &a);
    const int cout = p->shape.cout, more = l->more_out;
    const outputs o = outputs_put(p, more);
    a.args.out = o.first;
    if (!p->residual.empty() && l->in_place) {
        outputs_set(o, features_store(type, p->residual));
        a.args.epilogue.residual = o.first;
    } else if (!p->residual.empty()) {
        a.args.epilogue.residual =
            features_put(type, rows_apart(p->residual, cout, more), cout + more, p->off.residual);
    }
    device_info gpu = K::device;
    gpu.programmatic = true;
    conv_params t = conv_params_of(&gpu, &a.args, K::kernel);
    t.sizes = l->sizes;
    emulate::seed = l->seed;
    emulate::previous = {previous_begins, previous_ends};
    const status run = numeric_dispatch<numeric_any>(type, [&](auto tag) {
        if constexpr (K::floats || sizeof(typename decltype(tag)::element) == 2) {
            return K::run(tag, t, l);
        }
        return conv_not_compiled();
    });
    emulate::previous = {};
    const bool fine = run.code == status_ok && outputs_untouched(o);
    if (good) {
        *good = fine;
    } else {
        CHECK_OK(run);
        test_check(fine, __FILE__, __LINE__, p->name);
    }
    std::vector<char> out = fine ? outputs_get(o) : std::vector<char>();
    out.resize((size_t)(o.rows * o.row) + 1);
    guarded_finish();
    return out;
}

SPIRA_API void layer_name(layer *l, const char *what) {
    char more[140];
    snprintf(
        more, sizeof more,
        ", shortcut %d+%d, slices %d, split %d, tiles %d, depth %d%s%s, %d summed, pitch +%d +%d",
        l->joined.own.shape.cin, l->joined.own.shape.cin2, l->sizes.slices, l->sizes.split,
        l->sizes.tiles, l->depth, l->programmatic ? ", programmatic" : "",
        l->in_place ? ", in place" : "", l->summed, l->more_in, l->more_out);
    problem_name(&l->joined.main, what, more);
}

SPIRA_API reference_verdict layer_judge(const layer *l, const std::vector<char> &out) {
    return has_shortcut(l) ? joined_judge(&l->joined, out.data())
                           : problem_judge(&l->joined.main, out.data());
}

// The outputs are good, and the same in every order of threads and copies that is drawn.
template <typename K>
bool layer_check(layer *l, const char *what, int orders = 1) {
    const problem *p = &l->joined.main;
    layer_name(l, what);
    const std::vector<char> out = layer_run<K>(l);
    bool good = reference_conv_good(layer_judge(l, out), p->name);
    for (int i = 1; i < orders && good; ++i) {
        l->seed += 1000;
        good = test_check(layer_run<K>(l) == out, __FILE__, __LINE__, p->name);
    }
    return good;
}

// Whether a run that an error is planted in is found to be wrong.
template <typename K>
bool layer_fails(const layer *l) {
    bool good;
    const std::vector<char> out = layer_run<K>(l, &good);
    return !good || !(layer_judge(l, out).ratio <= 1);
}

// ---- layers -------------------------------------------------------------------------------------

struct layer_rows {
    int32_t inputs, outputs, room;
};

// percent: chance of a source; shortcut: its channels; what: of the epilogue.
SPIRA_API layer layer_of(random_state *random, const conv_shape &s, const layer_rows &rows,
                         int percent, int shortcut = 0, int what = with_all) {
    layer l = {};
    l.joined = joined_make(random, s, shortcut, 0, rows.inputs, rows.outputs, rows.room);
    joined_fill(random, &l.joined, percent, what, with_all, activation_relu);
    return l;
}

// Whether K computes a layer.
template <typename K>
bool layer_takes(const conv_shape *s, bool shortcut) {
    return conv_kernel_of(s, &K::device) == K::kernel &&
           (!shortcut || conv_shortcut_takes(s, &K::device));
}

// A random layer that the kernel takes, cut in a random way. volume, outputs: given, or negative.
template <typename K>
layer layer_random(random_state *random, numeric type, bool shortcut, int volume = -1,
                   int32_t outputs = -1) {
    const int many = volume > 0 ? volume : random_int(random, 0, 9) ? 9 : 40;
    conv_shape s;
    do {
        s = shape_random(random, volume > 0 || many > 9 ? many : random_int(random, 1, many), type,
                         K::edges);
        s.cin2 = s.cin2 ? std::min(s.cin2, 70) : 0;
        s.cin2 = K::kernel == conv_kernel_narrow ? 0 : s.cin2;
    } while (!layer_takes<K>(&s, shortcut));
    if (outputs < 0) {
        outputs = random_int(random, 0, 5) ? random_int(random, 1, 400) : 0;
    }
    const int32_t inputs = s.volume == 1 ? outputs : random_int(random, 0, 300);
    const int cin = shortcut ? channels_random(random, K::edges) : 0;
    layer l = {};
    l.joined = joined_make(random, s, cin, shortcut && random_int(random, 0, 1) ? (cin + 1) / 2 : 0,
                           inputs, outputs, random_int(random, 1, 150));
    const int percents[] = {0, 1, 3, 15, 40, 100};
    joined_fill(random, &l.joined, percents[random_int(random, 0, many > 9 ? 2 : 5)],
                random_int(random, 0, with_all), random_int(random, 0, with_all),
                (activation)random_int(random, activation_none, activation_count - 1));
    conv_sizes sizes[conv_sizes_most];
    l.sizes = sizes[random_int(random, 0, conv_sizes_list(&s, &K::device, sizes) - 1)];
    if (random_int(random, 0, 1)) { // most layers are aligned
        problem_move(random, &l.joined.main);
        problem_move(random, &l.joined.own);
    }
    l.summed = !shortcut && random_int(random, 0, 1) ? random_int(random, 0, s.volume - 1) : 0;
    l.depth = random_int(random, 0, 1) * random_int(random, K::depth_least, K::depth_most);
    l.programmatic = random_int(random, 0, 1);
    l.in_place = random_int(random, 0, 1);
    l.seed = (uint64_t)random_int(random, 0, 1 << 30);
    for (int *more : {&l.more_in, &l.more_out}) {
        const int some[] = {0, 0, 8, random_int(random, 1, 40)};
        *more = some[random_int(random, 0, 3)];
    }
    return l;
}

// The formats of K.
template <typename K>
std::vector<numeric> layer_formats() {
    return K::floats ? std::vector<numeric>{numeric_f16, numeric_bf16, numeric_tf32, numeric_f32}
                     : std::vector<numeric>{numeric_f16, numeric_bf16};
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

// ---- tests of all kernels -----------------------------------------------------------------------

template <typename K>
void layers_random(int count, bool shortcuts) {
    const std::vector<numeric> formats = layer_formats<K>();
    for (int seed = 0; seed < count; ++seed) {
        random_state random = random_make((uint64_t)seed);
        layer l = layer_random<K>(&random, formats[(size_t)seed % formats.size()],
                                  shortcuts && seed % 3 == 0);
        char what[32];
        snprintf(what, sizeof what, "seed %d", seed);
        REQUIRE(layer_check<K>(&l, what, seed % 4 ? 1 : 2));
    }
}

// Rows that are slices of wider ones: nothing around them is read or written.
template <typename K, size_t n>
void layers_slices(const slices (&tested)[n][2]) {
    for (const auto &by : tested) {
        for (numeric type : layer_formats<K>()) {
            layer l = {};
            l.joined.main = slices_problem(by, type);
            const problem &p = l.joined.main;
            layer_args a;
            late.clear();
            args_put<K>(&l, &a);
            a.args.pitch_in = by[0].pitch;
            a.args.pitch_out = by[1].pitch;
            const size_t element = (size_t)numeric_size(type);
            const auto slice = [&](const std::vector<char> &wide, int side) {
                return array_put(wide) + element * (size_t)by[side].at;
            };
            a.args.in = slice(slices_spread(type, p.in, by[0], 3), 0);
            a.args.epilogue.residual = slice(slices_spread(type, p.residual, by[1], 9), 1);
            const std::vector<char> none((size_t)(309 * by[1].pitch) * element, (char)0xff);
            char *const out = array_put(none);
            a.args.out = out + element * (size_t)by[1].at;
            conv_params t = conv_params_of(&K::device, &a.args, K::kernel);
            t.sizes = l.sizes = conv_sizes_choose(&p.shape, t.capacity, &K::device);
            CHECK_OK(numeric_dispatch<numeric_any>(type, [&](auto tag) {
                if constexpr (K::floats || sizeof(typename decltype(tag)::element) == 2) {
                    return K::run(tag, t, &l);
                }
                return conv_not_compiled();
            }));
            const std::vector<char> wide(out, out + none.size());
            problem_good(&p, slices_gather(type, wide, p.outputs, by[1]));
            guarded_finish();
        }
    }
}

// Outputs around row groups, their pairs and tiles of two pairs; kernels of one to many offsets,
// with more than a word of them.
template <typename K>
void layers_every_count() {
    const std::vector<numeric> formats = layer_formats<K>();
    int turn = 0;
    for (int outputs : {0, 1, 31, 32, 33, 63, 64, 65, 127, 128, 129, 192, 256, 257, 385}) {
        for (int volume : {1, 8, 40}) {
            random_state random = random_make((uint64_t)++turn);
            if (!test_quick() || turn % 4 == 0) {
                layer l = layer_random<K>(&random, formats[(size_t)turn % formats.size()], false,
                                          volume, outputs);
                REQUIRE(layer_check<K>(&l, "counts"));
            }
        }
    }
}

struct layer_cut {
    conv_sizes sizes;
    int cin, cin2, cout;
};

// Every variant in every format that has it, with a shortcut and without. Thread blocks have
// several tiles each. Kernels in plain fp32 give the bits of sums_in_order. launched: how many
// kernels this takes, those that pack weights too.
template <typename K>
void layers_every_kernel(const std::vector<layer_cut> &cuts, bool shortcuts, size_t launched) {
    emulate::launched.clear();
    int seed = 0;
    for (const layer_cut &cut : cuts) {
        for (numeric type : layer_formats<K>()) {
            for (bool shortcut : {false, true}) {
                const conv_shape s = shape_make(4, cut.cin, cut.cin2, cut.cout, type);
                random_state random = random_make((uint64_t)++seed);
                if (!conv_sizes_fit(&s, &K::device, &cut.sizes) || (shortcut && !shortcuts)) {
                    continue;
                }
                const bool fp32 = K::kernel == conv_kernel_exact || type == numeric_f32;
                const bool plain = fp32 && !shortcut && seed % 4;
                layer l = layer_of(&random, s, {200, 300 * cut.sizes.tiles, 9}, seed % 3 ? 60 : 5,
                                   shortcut ? 72 : 0,
                                   plain      ? 0
                                   : shortcut ? with_scale
                                              : with_all);
                l.joined.main.act = plain ? activation_none : activation_relu;
                l.sizes = cut.sizes;
                l.programmatic = true;
                l.seed = (uint64_t)seed;
                REQUIRE(layer_check<K>(&l, "every kernel", test_quick() || seed % 2 ? 1 : 2));
                if (plain) {
                    const std::vector<char> expected =
                        features_store(type, sums_in_order(&l.joined.main));
                    CHECK(!memcmp(layer_run<K>(&l).data(), expected.data(), expected.size()));
                }
            }
        }
    }
    CHECK_EQUAL(emulate::launched.size(), launched);
}

// Kernels whose masks have several scopes of 1024 offsets. Where tiles have a few offsets each,
// scopes are empty: the first, the last, or all.
template <typename K>
void layers_many_offsets(const std::vector<conv_sizes> &cuts, numeric type, int shortcut) {
    int turn = 0;
    for (const conv_sizes &cut : cuts) {
        const bool few = ++turn % 3; // offsets of a tile
        const int volumes[] = {1331, 3375, 2048};
        random_state random = random_make((uint64_t)turn);
        const conv_shape s =
            shape_make(volumes[turn % 3], turn % 2 ? 9 : 40, 0, 32 * cut.slices, type);
        const bool joins = turn % 2 == 0 && layer_takes<K>(&s, shortcut > 0);
        layer l = layer_of(&random, s, {33, few ? 600 : 70, 9}, few ? 0 : 1, joins ? shortcut : 0,
                           with_residual);
        for (int32_t o = 0; few && o < 600; o += random_int(&random, 1, 60)) {
            const size_t at = (size_t)(o * s.volume + random_int(&random, 0, s.volume - 1));
            l.joined.main.map[at] = random_int(&random, 0, 32);
        }
        REQUIRE(conv_sizes_fit(&s, &K::device, &cut));
        l.sizes = cut;
        l.programmatic = turn % 4 > 1;
        l.seed = (uint64_t)turn;
        REQUIRE(layer_check<K>(&l, "many offsets", few ? 2 : 1));
    }
}

// Many channels on either side, and a shortcut of many, cut as the rules choose.
template <typename K>
void layers_many_channels(bool shortcuts) {
    const struct {
        int cin, cin2, cout, shortcut;
    } cases[] = {{1040, 0, 33, 0}, {33, 0, 1040, 0},    {1040, 0, 1040, 0},
                 {2048, 0, 96, 0}, {4096, 4096, 64, 0}, {16, 0, 4096, 0},
                 {64, 0, 2048, 0}, {17, 1023, 65, 0},   {64, 0, 128, 4096}};
    const std::vector<numeric> formats = layer_formats<K>();
    int turn = 0;
    for (const auto &c : cases) {
        const numeric type = formats[(size_t)++turn % formats.size()];
        if ((test_quick() && c.cin * c.cout > 100000) || (c.shortcut && !shortcuts)) {
            continue;
        }
        random_state random = random_make((uint64_t)turn);
        const conv_shape s = shape_make(2, c.cin, c.cin2, c.cout, type);
        layer l = layer_of(&random, s, {9, 5, 200}, 70, c.shortcut);
        REQUIRE(layer_takes<K>(&s, c.shortcut));
        l.sizes = conv_sizes_choose(&s, 205, &K::device);
        l.programmatic = true;
        REQUIRE(layer_check<K>(&l, "many channels"));
    }
}

// All ways to cut a layer that split it alike give the same bits: the order of the additions does
// not depend on the others. So do two runs. count: of all ways.
template <typename K>
void layers_same_bits(const conv_shape &s, int count) {
    random_state random = random_make((uint64_t)s.type);
    layer l = layer_of(&random, s, {100, 300, 5}, 20);
    conv_sizes sizes[conv_sizes_most];
    CHECK_EQUAL(conv_sizes_list(&s, &K::device, sizes), count);
    std::vector<char> first[9]; // of each split
    for (int i = 0; i < count; ++i) {
        l.sizes = sizes[i];
        std::vector<char> &same = first[l.sizes.split];
        for (int run = 0; run < l.sizes.split; ++run) {
            layer_name(&l, "same bits");
            const std::vector<char> out = layer_run<K>(&l);
            CHECK(same.empty() || out == same);
            same = out;
        }
    }
}

// A negative count is taken as 0, however low.
template <typename K>
void layers_negative_counts(const conv_shape &s, conv_sizes sizes) {
    for (int32_t none : {-1, -255, -1000, -100000, INT32_MIN}) {
        random_state random = random_make((uint64_t)sizes.slices);
        layer l = layer_of(&random, s, {100, 0, 300}, 20);
        l.sizes = sizes;
        l.none = none;
        REQUIRE(layer_check<K>(&l, "negative count"));
    }
}

// Weights that the format cannot hold, of one offset: outputs without it are as if they were 0, the
// others are not, and they are recorded as the host records them.
template <typename K>
void layers_weights_beyond(numeric type, int cin, int cout) {
    for (float beyond : {numeric_largest(type) * 1.01f, INFINITY, -INFINITY, NAN}) {
        random_state random = random_make(91);
        const conv_shape s = shape_make(4, cin, 0, cout, type);
        layer l = layer_of(&random, s, {100, 200, 200}, 40, 0, with_residual);
        l.sizes = conv_sizes_choose(&s, 400, &K::device);
        problem *p = &l.joined.main;
        p->act = activation_none;
        const size_t offset = (size_t)cin * (size_t)cout;
        std::fill_n(p->weight.begin() + 2 * (int64_t)offset, offset, 0.0f);
        const std::vector<char> zeros = layer_run<K>(&l);
        std::fill_n(p->weight.begin() + 2 * (int64_t)offset, offset, beyond);
        weights_trouble = {};
        const std::vector<char> out = layer_run<K>(&l);
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
void layers_planted_errors(numeric type, conv_sizes sizes, int cout) {
    random_state random = random_make(37);
    problem good = problem_make(&random, {4, 6, 0, cout, type}, 60, 80, 80);
    problem_fill_map(&random, &good, 40);
    check_planted_errors(good, [=](const problem *p) {
        layer l = {};
        l.joined.main = *p;
        l.sizes = sizes;
        return layer_run<K>(&l);
    });
}

// Packed weights of an input gradient from those of its layer are those from weights that the host
// has transposed.
template <typename K>
void layers_weights_of_gradients(numeric type) {
    const int edges[] = {1, 3, 4, 8, 16, 17, 32, 40, 64, 72, 96, 130};
    for (int seed = 0; seed < 12; ++seed) {
        random_state random = random_make((uint64_t)seed);
        const int cin = edges[random_int(&random, 0, 11)], cout = edges[random_int(&random, 0, 11)];
        const int cin2 = seed % 4 < 2 ? 0 : edges[random_int(&random, 0, 11)];
        const conv_shape layer = shape_make(random_int(&random, 1, 9), cin, cin2, cout, type);
        const grad_source source = cin2 ? (grad_source)(seed / 4) : grad_source_both;
        const conv_shape s = conv_grad_shape(&layer, source);
        const grad_order order = seed % 2 ? grad_order_mirrored : grad_order_same;
        const int first = grad_channels_of(&layer, source).first * cout;
        std::vector<float> given((size_t)(layer.volume * (cin + cin2) * cout)), own(given.size());
        reference_random_values(&random, type, 1, (int64_t)given.size(), given.data());
        CHECK_OK(conv_grad_weights_host(&layer, source, order, given.data(), own.data()));
        const auto bytes = (int64_t)conv_packed_bytes(&s, K::kernel);
        char *wanted = guarded_new<char>(bytes), *got = guarded_new<char>(bytes);
        weights_pack<K>(&s, false, own.data(), wanted);
        if (order == grad_order_same) {
            weights_pack<K, conv_weights_of_layer>(&s, false, given.data() + first, got,
                                                   cin + cin2);
        } else {
            weights_pack<K, conv_weights_of_layer_mirrored>(&s, false, given.data() + first, got,
                                                            cin + cin2);
        }
        CHECK(memcmp(wanted, got, (size_t)bytes) == 0);
        guarded_finish();
    }
}

} // namespace problems

#endif
