// tests/problems.cuh: convolution problems: features, weights, a map and an epilogue in host
// memory, the same in device memory, and the judgement of what comes of them, output by output
// against sums in double (reference.h). For the GPU tests of all dataflows; what is cut in tiles is
// run here too.
#ifndef SPIRA_TESTS_PROBLEMS_CUH
#define SPIRA_TESTS_PROBLEMS_CUH

#include "../spira/conv.cuh"
#include "sets.cuh"

namespace problems {

using namespace spira;

inline const numeric numerics[] = {numeric_f32, numeric_tf32, numeric_f16, numeric_bf16};

// ---- in host memory -----------------------------------------------------------------------------

// Pointers are moved by so many elements from an aligned address.
struct moves {
    int in, in2, out, residual, floats;
};

struct problem {
    char name[256];
    conv_shape shape;
    int rows;      // of a tile of the layout
    bool identity; // each row is its own source: no map
    int32_t inputs, outputs;
    int32_t room;                                    // of the capacities behind what is there
    std::vector<float> in, in2, weight;              // in, in2: [inputs, ...]
    std::vector<float> bias, scale, shift, residual; // empty: left out
    std::vector<int32_t> map;                        // [outputs, volume]
    activation act;
    float slope;
    moves off;
};

// capacity: of the outputs; as many as there are, if they are more.
SPIRA_API problem problem_make(random_state *random, conv_shape shape, int32_t inputs,
                               int32_t outputs, int32_t capacity = 0) {
    problem p;
    p.name[0] = 0;
    p.shape = shape;
    p.rows = tile_rows(shape.volume);
    p.identity = false;
    p.inputs = inputs;
    p.outputs = outputs;
    p.room = std::max(capacity - outputs, 0);
    p.in.resize((size_t)inputs * (size_t)shape.cin);
    p.in2.resize((size_t)inputs * (size_t)shape.cin2);
    p.weight.resize((size_t)shape.volume * (size_t)(shape.cin + shape.cin2) * (size_t)shape.cout);
    reference_random_values(random, shape.type, 1, (int64_t)p.in.size(), p.in.data());
    reference_random_values(random, shape.type, 1, (int64_t)p.in2.size(), p.in2.data());
    for (float &w : p.weight) { // packing rounds them
        w = random_float(random);
    }
    p.act = activation_none;
    p.slope = 0;
    p.off = {};
    return p;
}

SPIRA_API int32_t problem_capacity(const problem *p) {
    return std::max(p->outputs + p->room, 1);
}

// Taps at random: those of an offset with its chance [volume], in percent.
SPIRA_API void problem_fill_taps(random_state *random, problem *p, const std::vector<int> &chance) {
    p->map.resize((size_t)p->outputs * (size_t)p->shape.volume);
    for (size_t i = 0; i < p->map.size(); ++i) {
        bool has = p->inputs > 0 && random_int(random, 0, 99) < chance[i % chance.size()];
        p->map[i] = has ? random_int(random, 0, p->inputs - 1) : -1;
    }
}

// All offsets with the same chance.
SPIRA_API void problem_fill_map(random_state *random, problem *p, int percent) {
    problem_fill_taps(random, p, std::vector<int>((size_t)p->shape.volume, percent));
}

// Each offset has its own chance, up to `percent`, so that the lists differ in length.
SPIRA_API void problem_fill_lists(random_state *random, problem *p, int percent) {
    std::vector<int> chance((size_t)p->shape.volume);
    for (int &c : chance) {
        c = random_int(random, 0, 3) ? random_int(random, percent / 4, percent) : 0;
        c = percent == 100 ? 100 : c;
    }
    problem_fill_taps(random, p, chance);
}

// The map of a layer between two sets, by the host.
template <typename W>
void problem_map_sets(problem *p, const kernel_shape *kernel, const word_layout *layout,
                      std::vector<W> source, std::vector<W> outputs) {
    int32_t sources = (int32_t)source.size(), count = (int32_t)outputs.size();
    voxel_set<W> from = {source.data(), &sources, sources}, to = {outputs.data(), &count, count};
    p->map.resize(outputs.size() * (size_t)kernel_volume(kernel));
    CHECK_OK(map_build_host(layout, kernel, from, to, p->map.data()));
}

enum { with_bias = 1, with_scale = 2, with_shift = 4, with_residual = 8, with_all = 15 };

SPIRA_API void problem_fill_epilogue(random_state *random, problem *p, int what, activation act) {
    size_t cout = (size_t)p->shape.cout, total = cout * (size_t)p->outputs;
    p->bias.resize(what & with_bias ? cout : 0);
    p->scale.resize(what & with_scale ? cout : 0);
    p->shift.resize(what & with_shift ? cout : 0);
    p->residual.resize(what & with_residual ? total : 0);
    for (std::vector<float> *v : {&p->bias, &p->scale, &p->shift}) {
        for (float &f : *v) {
            f = 2 * random_float(random);
        }
    }
    reference_random_values(random, p->shape.type, 2, (int64_t)p->residual.size(),
                            p->residual.data());
    p->act = act;
    p->slope = act == activation_leaky ? 0.1f : 0.0f;
}

// Any steps, any activation.
SPIRA_API void problem_fill_any_epilogue(random_state *random, problem *p) {
    const int what = random_int(random, 0, with_all);
    problem_fill_epilogue(random, p, what,
                          (activation)random_int(random, activation_none, activation_leaky));
}

struct epilogue_case {
    numeric type;
    int what;
    activation act;
};

// Slopes that are rare too.
SPIRA_API void problem_fill_case(random_state *random, problem *p, const epilogue_case &c) {
    problem_fill_epilogue(random, p, c.what, c.act);
    p->slope = c.what == 3 ? -0.5f : c.what == 5 ? 2.0f : p->slope;
}

// Runs all steps with all activations in all formats; of them some, if tests are to be quick.
template <typename F>
void for_each_epilogue(F run) {
    for (numeric type : numerics) {
        for (int what = 0; what <= with_all; ++what) {
            for (activation act : {activation_none, activation_relu, activation_leaky}) {
                if (!test_quick() || (what + act + type) % 5 == 0) {
                    run(epilogue_case{type, what, act},
                        random_make((uint64_t)(100 * what + 10 * act + type)));
                }
            }
        }
    }
}

// Pointers that are not aligned, some of them.
SPIRA_API void problem_move(random_state *random, problem *p) {
    for (int *off : {&p->off.in, &p->off.in2, &p->off.out, &p->off.residual, &p->off.floats}) {
        *off = random_int(random, 0, 1) * random_int(random, 1, 9);
    }
}

// more: what else the test has chosen.
SPIRA_API void problem_name(problem *p, const char *what, const char *more = "") {
    snprintf(p->name, sizeof p->name,
             "%.60s: %s %d+%d->%d, volume %d%s, %d of %d outputs by %d, %d inputs%.100s", what,
             numeric_name(p->shape.type), p->shape.cin, p->shape.cin2, p->shape.cout,
             p->shape.volume, p->identity ? " (identity)" : "", p->outputs, problem_capacity(p),
             p->rows, p->inputs, more);
}

// A count of channels: one of `edges`, or any up to 130.
template <int count>
int channels_random(random_state *random, const int (&edges)[count]) {
    return random_int(random, 0, 2) ? edges[random_int(random, 0, count - 1)]
                                    : random_int(random, 1, 130);
}

// Such counts on both sides, and of a second source in every other shape.
template <int count>
conv_shape shape_random(random_state *random, int volume, numeric type, const int (&edges)[count]) {
    conv_shape s = {volume, channels_random(random, edges), 0, channels_random(random, edges),
                    type};
    s.cin2 = random_int(random, 0, 1) ? channels_random(random, edges) : 0;
    return s;
}

// ---- in device memory ---------------------------------------------------------------------------

SPIRA_API const float *floats_upload(const std::vector<float> &values, int off) {
    if (values.empty()) {
        return nullptr;
    }
    std::vector<float> moved((size_t)off, NAN);
    moved.insert(moved.end(), values.begin(), values.end());
    return device_upload(moved.data(), (int64_t)moved.size()) + off;
}

SPIRA_API std::vector<char> features_store(numeric type, const std::vector<float> &values) {
    std::vector<char> stored(values.size() * (size_t)numeric_size(type));
    reference_store(type, values.data(), (int64_t)values.size(), stored.data());
    return stored;
}

// Other features in memory that exists.
SPIRA_API void features_refill(numeric type, const void *to, const std::vector<float> &values) {
    std::vector<char> stored = features_store(type, values);
    device_copy_in((char *)to, stored.data(), (int64_t)stored.size());
}

// Rows of features, stored, with NaN before and in three rows after them: what a sum of the padding
// would show.
SPIRA_API const void *features_upload(numeric type, const std::vector<float> &values, int channels,
                                      int off) {
    std::vector<float> moved((size_t)off, NAN);
    moved.insert(moved.end(), values.begin(), values.end());
    moved.insert(moved.end(), 3 * (size_t)channels, NAN);
    std::vector<char> stored = features_store(type, moved);
    return device_upload(stored.data(), (int64_t)stored.size()) + off * numeric_size(type);
}

// Weights, packed by one of the two that pack.
SPIRA_API const void *weights_upload(const conv_shape *shape, const std::vector<float> &weight,
                                     status (*bytes_of)(const conv_shape *,
                                                        size_t *) = conv_weights_bytes,
                                     status (*pack)(const conv_shape *, const float *, void *,
                                                    size_t, cudaStream_t) = conv_weights_pack) {
    size_t bytes = 0;
    CHECK_OK(bytes_of(shape, &bytes));
    char *packed = device_new<char>((int64_t)bytes);
    CHECK_OK(pack(shape, device_upload(weight.data(), (int64_t)weight.size()), packed, bytes,
                  stream_get()));
    return packed;
}

// The lists of the map; only as much of their capacity is written as there are pairs.
SPIRA_API map_pairs pairs_upload(const problem *p) {
    std::vector<int32_t> begin(1, 0), input, output;
    for (int k = 0; k < p->shape.volume; ++k) {
        for (int32_t o = 0; o < p->outputs; ++o) {
            int32_t source = p->map[(size_t)o * (size_t)p->shape.volume + (size_t)k];
            if (source >= 0) {
                input.push_back(source);
                output.push_back(o);
            }
        }
        begin.push_back((int32_t)input.size());
    }
    int32_t capacity = std::max((int32_t)input.size() + p->room, 1);
    map_pairs pairs = {device_upload(begin.data(), (int64_t)begin.size()),
                       device_new<int32_t>(capacity), device_new<int32_t>(capacity), capacity};
    device_copy_in(pairs.input, input.data(), (int64_t)input.size());
    device_copy_in(pairs.output, output.data(), (int64_t)output.size());
    return pairs;
}

// What every dataflow has. A device problem D has
//     args             with in, in2, epilogue and out
//     out, out_bytes   the buffer of the outputs, of just the capacity
//     scratch, scratch_bytes
template <typename D>
void device_problem_arrays(const problem *p, D *d) {
    const conv_shape *s = &p->shape;
    const int element = numeric_size(s->type);
    d->args.in = features_upload(s->type, p->in, s->cin, p->off.in);
    d->args.in2 = s->cin2 ? features_upload(s->type, p->in2, s->cin2, p->off.in2) : nullptr;
    conv_epilogue *e = &d->args.epilogue;
    e->bias = floats_upload(p->bias, p->off.floats);
    e->scale = floats_upload(p->scale, p->off.floats);
    e->shift = floats_upload(p->shift, p->off.floats);
    e->residual = p->residual.empty()
                      ? nullptr
                      : features_upload(s->type, p->residual, s->cout, p->off.residual);
    e->act = p->act;
    e->slope = p->slope;
    d->out_bytes = ((int64_t)problem_capacity(p) * s->cout + p->off.out) * element;
    d->out = device_new<char>(d->out_bytes);
    d->args.out = d->out + p->off.out * element;
}

// The bytes of the outputs that there are, and one more: of no outputs too.
template <typename D>
std::vector<char> device_problem_fetch(const problem *p, const D *d) {
    int64_t bytes = (int64_t)p->outputs * p->shape.cout * numeric_size(p->shape.type);
    std::vector<char> out((size_t)bytes + 1);
    device_copy_out(out.data(), (const char *)d->args.out, bytes);
    return out;
}

// Nothing was written in front of the outputs, nor behind those that there are.
template <typename D>
bool device_problem_untouched(const problem *p, const D *d) {
    int64_t before = (char *)d->args.out - d->out;
    int64_t used = (int64_t)p->outputs * p->shape.cout * numeric_size(p->shape.type);
    return device_untouched(d->out, 0, before) &&
           device_untouched(d->out, before + used, d->out_bytes);
}

// Runs start() twice, the second time over the first one's memory and scratch of NaN; what the
// second gives. same: to the bit what the first gives.
template <typename D, typename F>
std::vector<char> device_problem_run(const problem *p, const D *d, bool same, F start) {
    CHECK_OK(start());
    std::vector<char> out = device_problem_fetch(p, d);
    if (d->scratch_bytes) {
        CUDA_CHECK(cudaMemset(d->scratch, 0xff, d->scratch_bytes));
        CUDA_CHECK(cudaDeviceSynchronize());
    }
    CHECK_OK(start());
    std::vector<char> again = device_problem_fetch(p, d);
    CHECK(!same || again == out);
    CHECK(device_problem_untouched(p, d));
    return again;
}

// ---- judging ------------------------------------------------------------------------------------

// A problem's epilogue, in host memory. residual: its own, as stored.
SPIRA_API conv_epilogue problem_epilogue(const problem *p, const std::vector<char> &residual) {
    auto data = [](const auto &v) { return v.empty() ? nullptr : v.data(); };
    return {data(p->bias), data(p->scale), data(p->shift), data(residual), p->act, p->slope};
}

// shortcut: null, or what is added.
SPIRA_API reference_verdict problem_judge(const problem *p, const void *out,
                                          const reference_shortcut *shortcut = nullptr) {
    const std::vector<char> residual = features_store(p->shape.type, p->residual);
    const conv_epilogue e = problem_epilogue(p, residual);
    // A row more than there are: empty arrays have an address too.
    std::vector<float> in = p->in, in2 = p->in2;
    std::vector<int32_t> map = p->map;
    in.resize(in.size() + (size_t)p->shape.cin);
    in2.resize(in2.size() + (size_t)p->shape.cin2);
    map.push_back(-1);
    return reference_conv_check(&p->shape, in.data(), in2.data(), p->inputs + 1, p->weight.data(),
                                p->identity ? nullptr : map.data(), p->outputs, &e, out, shortcut);
}

// Fails the test, with the worst output, unless all are within their bounds.
SPIRA_API bool problem_good(const problem *p, const std::vector<char> &out,
                            const char *file = __builtin_FILE(), int line = __builtin_LINE()) {
    return reference_conv_good(problem_judge(p, out.data()), p->name, file, line);
}

// A small problem with few terms, so that bounds are tight: one weight, tap or channel counts.
SPIRA_API problem problem_tight(random_state *random, numeric type) {
    return problem_make(random, {4, 6, 0, 9, type}, 60, 80, 80);
}

// Tests the test: what run(&problem) gives for `good` is good, and what it gives for a problem with
// one error is not. P: a problem, or one with what its dataflow adds.
template <typename P, typename F>
void check_planted_errors(const P &good, F run) {
    auto ratio = [&](const P &made, const P &wanted) {
        std::vector<char> out = run(&made);
        return problem_judge(&wanted, out.data()).ratio;
    };
    size_t tap = 0; // the first that has a source
    while (good.map[tap] < 0) {
        ++tap;
    }
    CHECK(ratio(good, good) <= 1);

    P bad = good; // one weight, the largest, off by 2%
    *std::max_element(bad.weight.begin(), bad.weight.end(),
                      [](float a, float b) { return fabsf(a) < fabsf(b); }) *= 1.02f;
    CHECK(ratio(bad, good) > 1);

    bad = good; // one tap dropped
    bad.map[tap] = -1;
    CHECK(ratio(bad, good) > 1);

    bad = good; // one tap from another row
    bad.map[tap] = good.map[tap] ? good.map[tap] - 1 : 1;
    CHECK(ratio(bad, good) > 1);

    bad = good; // the last value of a row that is a source
    bad.in[(size_t)(good.map[tap] + 1) * (size_t)good.shape.cin - 1] += 0.25f;
    CHECK(ratio(bad, good) > 1);

    bad = good; // the epilogue forgets its shift, and its ReLU
    random_state random = random_make(38);
    problem_fill_epilogue(&random, &bad, with_shift, activation_none);
    CHECK(ratio(good, bad) > 1);
    bad = good;
    bad.act = activation_relu;
    CHECK(ratio(good, bad) > 1);
}

// ---- output-stationary, over the tiled layout and the ordered one -------------------------------

struct device_problem {
    conv_args args;
    tile_layout layout;
    order_layout order;
    char *out, *scratch;
    size_t scratch_bytes;
    int64_t out_bytes;
};

// What is not of a list would add NaN to the first rows.
SPIRA_API tile_layout layout_upload(const problem *p) {
    const int64_t many = tile_count(problem_capacity(p), p->rows), volume = p->shape.volume;
    const int64_t entries = many * p->rows * volume;
    std::vector<int32_t> first((size_t)(many * (volume + 1))), input((size_t)entries, p->inputs);
    std::vector<uint16_t> offset((size_t)(entries / tile_group));
    std::vector<uint8_t> row((size_t)entries);
    for (size_t i = 0; i < row.size(); ++i) {
        row[i] = (uint8_t)(i % tile_group);
    }
    tile_layout host = {first.data(),  offset.data(),   input.data(), row.data(),
                        (int32_t)many, (int32_t)volume, p->rows};
    std::vector<int32_t> map = p->map;
    map.push_back(-1); // an empty map has an address too
    CHECK_OK(tile_build_host(map.data(), p->shape.volume, p->outputs, problem_capacity(p), host));
    tile_layout device = {device_upload(first.data(), (int64_t)first.size()),
                          device_upload(offset.data(), (int64_t)offset.size()),
                          device_upload(input.data(), entries),
                          device_upload(row.data(), entries),
                          host.tiles,
                          host.volume,
                          host.rows};
    return device;
}

// The ordered layout; the order is random, since any is right. Sources that are not of it would add
// rows of NaN.
SPIRA_API order_layout order_upload(const problem *p) {
    const int volume = p->shape.volume, words = order_words(volume);
    const int64_t blocks = order_count(problem_capacity(p));
    std::vector<int32_t> row((size_t)(blocks * order_rows), -1);
    std::vector<int32_t> source((size_t)(blocks * order_rows * volume), p->inputs);
    std::vector<uint32_t> mask((size_t)(blocks * words));
    random_state random = random_make((uint64_t)p->outputs + (uint64_t)volume);
    for (int32_t i = 0; i < p->outputs; ++i) { // shuffled as it grows
        int at = random_int(&random, 0, i);
        row[(size_t)i] = row[(size_t)at];
        row[(size_t)at] = i;
    }
    for (int64_t b = 0; b < blocks; ++b) {
        for (int k = 0; k < volume; ++k) {
            int32_t taps[order_rows];
            bool any = false;
            for (int r = 0; r < order_rows; ++r) {
                int32_t own = row[(size_t)(b * order_rows + r)];
                taps[r] = own < 0 ? -1 : p->map[(size_t)own * (size_t)volume + (size_t)k];
                any |= taps[r] >= 0;
            }
            if (any) {
                mask[(size_t)(b * words + k / 32)] |= 1u << k % 32;
                std::copy(taps, taps + order_rows, source.begin() + (b * volume + k) * order_rows);
            }
        }
    }
    std::vector<int32_t> turn((size_t)order_pairs((int32_t)blocks), -1);
    const int32_t pairs = order_pairs(order_count(p->outputs));
    for (int32_t i = 0; i < pairs; ++i) { // any order is right here too
        turn[(size_t)i] = pairs - 1 - i;
    }
    order_layout device = {device_upload(row.data(), (int64_t)row.size()),
                           device_upload(mask.data(), (int64_t)mask.size()),
                           device_upload(source.data(), (int64_t)source.size()),
                           device_upload(turn.data(), (int64_t)turn.size()),
                           (int32_t)blocks,
                           volume};
    return device;
}

// Not copied: the arguments point to the layouts.
SPIRA_API void device_problem_make(const problem *p, device_problem *d) {
    conv_args *a = &d->args;
    *a = {};
    a->shape = p->shape;
    a->weights = weights_upload(&p->shape, p->weight);
    d->layout = p->identity ? tile_layout{} : layout_upload(p);
    a->layout = p->identity ? nullptr : &d->layout;
    d->order = p->identity ? order_layout{} : order_upload(p);
    a->order = p->identity ? nullptr : &d->order;
    a->count = device_upload(&p->outputs, 1);
    a->capacity = problem_capacity(p);
    device_problem_arrays(p, d);
    d->scratch_bytes = 0;
    CHECK_OK(conv_workspace(a, &d->scratch_bytes));
    d->scratch = device_new<char>((int64_t)d->scratch_bytes);
}

SPIRA_API status device_problem_start(const device_problem *d) {
    return conv(&d->args, d->scratch, d->scratch_bytes, stream_get());
}

// The same bits twice. Frees all buffers of the test.
SPIRA_API std::vector<char> problem_run(const problem *p) {
    device_problem d;
    device_problem_make(p, &d);
    std::vector<char> out =
        device_problem_run(p, &d, true, [&] { return device_problem_start(&d); });
    guarded_finish();
    return out;
}

SPIRA_API bool problem_check(const problem *p, const char *file = __builtin_FILE(),
                             int line = __builtin_LINE()) {
    return problem_good(p, problem_run(p), file, line);
}

} // namespace problems

#endif
