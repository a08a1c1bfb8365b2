// tests/gpu/tune.cu: the choices for a layer, each run and judged on the GPU; the judgement itself
// against that of the other tests (reference.h), and with planted errors.
#include "../../spira/tune.cuh"
#include "../support/devices.h"
#include "../support/hybrids.cuh"

using namespace problems;

namespace {

// ---- choices: no GPU is needed ------------------------------------------------------------------

const device_info hopper = device_made(90, 132, 232448, true),
                  plain = device_made(90, 132, 232448, false),
                  ampere = device_made(80, 108, 166912, false),
                  turing = device_made(75, 68, 65536, false);
const device_info *const devices[] = {&hopper, &plain, &ampere, &turing};

tune_key key_make(const device_info *d, conv_shape s, int64_t outputs, int64_t density,
                  bool deterministic) {
    return tune_key_make(tune_gpu_of(d), &s, outputs, outputs * density, deterministic);
}

// Some kernel with so many offsets, as near to a cube as there is.
kernel_shape kernel_of(int volume) {
    kernel_shape kernel = kernel_cube(1, 1);
    for (int x = 1; x * x * x <= volume; ++x) {
        for (int y = x; y * y <= volume / x; ++y) {
            const int z = volume / (x * y);
            if (x * y * z == volume && z <= kernel_size_max) {
                kernel.size = {x, y, z};
            }
        }
    }
    CHECK_EQUAL(kernel_volume(&kernel), volume);
    return kernel;
}

int dataflows_of(const std::vector<tune_choice> &choices) {
    int found = 0;
    for (const tune_choice &c : choices) {
        found |= 1 << c.dataflow;
    }
    return found;
}

std::vector<tune_choice> candidates_of(const tune_key *key, int32_t capacity,
                                       const device_info *d) {
    tune_choice *choices = guarded_new<tune_choice>(tune_candidates_most);
    const kernel_shape kernel = kernel_of(key->shape.volume);
    int count = tune_candidates(d, key, &kernel, capacity, choices);
    CHECK(count > 0 && count <= tune_candidates_most);
    return std::vector<tune_choice>(choices, choices + count);
}

// Each threshold that divides the offsets is there, once in each form.
void check_thresholds(const tune_key *key, const std::vector<tune_choice> &all) {
    const kernel_shape kernel = kernel_of(key->shape.volume);
    int hybrids = 0;
    for (const tune_choice &c : all) {
        const int dense = map_os_columns(&kernel, c.threshold, false);
        CHECK(!tune_is_hybrid(c.dataflow) || (dense > 0 && dense < key->shape.volume));
        hybrids += tune_is_hybrid(c.dataflow);
    }
    CHECK_EQUAL(hybrids, kernel_norm_max(&kernel) * (key->deterministic ? 1 : 2));
}

// All fit, can be written down, and none is there twice; the first is the one without tuning.
void check_candidates(const tune_key *key, int32_t capacity, const device_info *d) {
    std::vector<tune_choice> all = candidates_of(key, capacity, d);
    tune_choice guess = tune_guess(d, key, capacity);
    CHECK(tune_same_choice(&all[0], &guess));
    for (size_t i = 0; i < all.size(); ++i) {
        CHECK(tune_choice_fits(&key->shape, d, &all[i]));
        tune_record r = {*key, all[i], {1, 0}};
        CHECK_OK(tune_record_check(&r));
        for (size_t j = 0; j < i; ++j) {
            CHECK(!tune_same_choice(&all[i], &all[j]));
        }
    }
    int wanted = 1 << tune_dataflow_os;
    for (int flow = tune_dataflow_atomic; flow < tune_dataflows && key->shape.volume > 1; ++flow) {
        const bool takes = !key->deterministic || tune_is_deterministic((tune_dataflow)flow);
        wanted |= takes ? 1 << flow : 0;
    }
    CHECK_EQUAL(dataflows_of(all), wanted);
    check_thresholds(key, all);
    guarded_finish();
}

TEST(gpu_tune_candidates_fit) {
    for (const device_info *d : devices) {
        for (numeric type : numerics) {
            for (int volume : {1, 8, 27, 33, 125, 343}) {
                for (int channels : {1, 16, 32, 64, 96, 256, 1024}) {
                    for (int32_t outputs : {1, 3000, 345087}) {
                        conv_shape s = shape_make(volume, channels, channels / 3, channels, type);
                        int density = volume < 8 ? 1 : 7;
                        tune_key key = key_make(d, s, outputs, density, outputs == 3000);
                        check_candidates(&key, outputs, d);
                    }
                }
            }
        }
    }
}

// Without a record: output-stationary, cut as conv cuts it.
TEST(gpu_tune_guess_is_what_conv_does) {
    const conv_shape s = shape_make(125, 64, 0, 64, numeric_f16);
    for (bool deterministic : {false, true}) {
        for (const device_info *d : devices) {
            const tune_key key = key_make(d, s, 91766, 9, deterministic);
            const tune_choice c = tune_guess(d, &key, 91766);
            const conv_sizes size = conv_sizes_choose(&s, 91766, d);
            CHECK_EQUAL(c.dataflow, tune_dataflow_os);
            CHECK(c.tiles == size.tiles && c.slices == size.slices && c.split == size.split);
        }
    }
}

// A record is used if the program can; else, or without one, there is no tuning.
TEST(gpu_tune_choose_takes_what_fits) {
    const conv_shape s = shape_make(27, 64, 0, 64, numeric_f16);
    tune_key key = key_make(&hopper, s, 91766, 3, false);
    const conv_sizes one = {1, 1, 1, 1}, two = {1, 2, 1, 1}, many = {64, 64, 1, 1};
    const tune_choice lists = tune_choice_lists(tune_dataflow_ordered, 0),
                      both = tune_choice_lists(tune_dataflow_hybrid_atomic, 2),
                      slim = tune_choice_cut(&one), both_take = tune_choice_cut(&two),
                      wrong = tune_choice_cut(&many);
    auto chosen = [&](const tune_choice &c, const device_info *d, int count) {
        tune_record r = {key, c, {1000, 0}};
        tune_choice got = tune_choose(d, &r, count, &key, 91766);
        tune_choice guess = tune_guess(d, &key, 91766);
        CHECK(tune_same_choice(&got, &c) || tune_same_choice(&got, &guess));
        return tune_same_choice(&got, &c);
    };
    CHECK(chosen(lists, &hopper, 1) && chosen(lists, &plain, 1));
    CHECK(chosen(both, &hopper, 1) && chosen(both, &turing, 1));
    CHECK(!chosen(lists, &hopper, 0) && !chosen(both, &hopper, 0));
    CHECK(chosen(slim, &hopper, 1) && !chosen(slim, &plain, 1)); // of Hopper's kernel alone
    CHECK(chosen(both_take, &plain, 1) && chosen(both_take, &hopper, 1));
    CHECK(!chosen(wrong, &plain, 1));
    tune_key other = key;
    other.shape.cout = 65;
    tune_record r = {other, lists, {1000, 0}};
    CHECK_EQUAL(tune_choose(&plain, &r, 1, &key, 91766).dataflow, tune_dataflow_os);
}

// ---- a problem in device memory, in all forms ---------------------------------------------------

struct device_tune {
    tune_args args;
    conv_map map;
    std::vector<conv_hybrid_args> hybrid; // of each threshold
    std::vector<conv_map> hybrid_map;
    char *out;
    int64_t out_bytes;
    const float *weight;
    const int32_t *taps; // the map [capacity, volume]
    float *worst;
    tune_key key;
};

// What is read by each threshold that divides the offsets.
void device_tune_hybrids(const problem *p, device_tune *d) {
    const kernel_shape kernel = kernel_of(p->shape.volume);
    const int thresholds = kernel_norm_max(&kernel);
    d->hybrid.resize((size_t)thresholds);
    d->hybrid_map.resize((size_t)thresholds);
    for (int t = 1; t <= thresholds; ++t) {
        const problem dense = problem_dense(p, &kernel, t);
        const size_t i = (size_t)(thresholds - t);
        conv_hybrid_args *a = &d->hybrid[i];
        *a = {};
        a->kernel = kernel;
        a->threshold = t;
        a->weights = hybrid_weights_upload(p, &kernel, t);
        a->pairs = sparse_upload(p, &kernel, t);
        d->hybrid_map[i] = map_upload(&dense);
        d->hybrid_map[i].count = d->args.count;
        a->map = &d->hybrid_map[i];
    }
    d->args.hybrid = d->hybrid.data();
    d->args.hybrids = thresholds;
}

// Not copied: the arguments point to the maps.
void device_tune_make(const problem *p, bool deterministic, device_tune *d) {
    tune_args *a = &d->args;
    *a = {};
    a->shape = p->shape;
    a->weights = weights_upload(&p->shape, p->weight);
    a->pairs_weights =
        weights_upload(&p->shape, p->weight, conv_pairs_weights_bytes, conv_pairs_weights_pack<>);
    a->count = device_upload(&p->outputs, 1);
    d->taps = nullptr;
    d->map = map_upload(p);
    d->map.count = a->count;
    a->map = &d->map;
    if (!p->identity) {
        a->pairs = pairs_upload(p);
        device_tune_hybrids(p, d);
        d->taps = device_upload(p->map.data(), (int64_t)p->map.size());
    }
    a->capacity = problem_capacity(p);
    device_problem_arrays(p, d);
    d->weight = device_upload(p->weight.data(), (int64_t)p->weight.size());
    d->worst = device_new<float>(1);
    int64_t pairs = (int64_t)p->map.size() - std::count(p->map.begin(), p->map.end(), -1);
    d->key = tune_key_make(tune_gpu_of(gpu()), &p->shape, p->outputs, pairs, deterministic);
}

// Nothing is written yet. Behind the outputs that there are, the poison stays.
void device_tune_clear(const problem *p, const device_tune *d) {
    int64_t bytes = (int64_t)p->outputs * p->shape.cout * numeric_size(p->shape.type);
    CUDA_CHECK(cudaMemset(d->args.out, 0xff, (size_t)bytes));
    CUDA_CHECK(cudaDeviceSynchronize());
}

// Scratch of exactly the size that is asked for.
status device_tune_start(const device_tune *d, const tune_choice *c, cudaStream_t stream) {
    size_t bytes = 0;
    CHECK_OK(tune_workspace(&d->args, c, &bytes));
    return shared_conv.tune_run(gpu(), &d->args, c, device_new<char>((int64_t)bytes), bytes,
                                stream);
}

double device_tune_judge(const device_tune *d, int32_t samples) {
    CHECK_OK(tune_judge(gpu(), &d->args, d->weight, d->taps, samples, d->worst, stream_get()));
    return (double)device_value(d->worst);
}

void check_choice(const problem *p, const device_tune *d, const tune_choice *c) {
    char text[400];
    device_tune_clear(p, d);
    REQUIRE_OK(device_tune_start(d, c, stream_get()));
    std::vector<char> out = device_problem_fetch(p, d);
    double worst = device_tune_judge(d, d->args.capacity);
    reference_verdict verdict = problem_judge(p, out.data());
    double ratio = fmax(verdict.ratio, 0); // of no outputs
    snprintf(text, sizeof text, "%.300s: %d.%d.%d.%d.%d is judged %.4g, by the host %.4g", p->name,
             c->dataflow, c->tiles, c->slices, c->split, c->threshold, worst, ratio);
    bool same = fabs(worst - ratio) <= 1e-3 * (0.1 + ratio);
    test_check(worst <= 1 && same, __FILE__, __LINE__, text);
    CHECK(device_problem_untouched(p, d));
}

// Every choice for a problem passes, and is judged as the host judges it.
void check_all_choices(const problem *p, bool deterministic) {
    device_tune d;
    device_tune_make(p, deterministic, &d);
    std::vector<tune_choice> all = candidates_of(&d.key, d.args.capacity, gpu());
    for (const tune_choice &c : all) {
        check_choice(p, &d, &c);
    }
    guarded_finish();
}

const int channels_edges[] = {1, 7, 8, 16, 17, 31, 32, 33, 48, 64, 65, 96, 128, 160};

void check_random_choices(numeric type, int problems) {
    for (int seed = 0; seed < problems; ++seed) {
        random_state random = random_make((uint64_t)(4 * seed + type));
        const int volumes[] = {1, 2, 8, 27, 27, 40, 125};
        conv_shape s =
            shape_make(volumes[random_int(&random, 0, 6)], channels_random(&random, channels_edges),
                       0, channels_random(&random, channels_edges), type);
        s.cin2 = random_int(&random, 0, 2) ? 0 : channels_random(&random, channels_edges);
        bool identity = s.volume == 1 && seed % 2;
        int32_t outputs = seed % 8 ? random_int(&random, 1, 300) : 0;
        int32_t inputs = identity ? outputs : random_int(&random, 1, 200);
        problem p = problem_make(&random, s, inputs, outputs, seed % 3 ? 0 : 700);
        p.identity = identity;
        if (!identity) {
            problem_fill_lists(&random, &p, random_int(&random, 0, 1) ? 15 : 80);
        }
        problem_fill_any_epilogue(&random, &p);
        char what[32];
        snprintf(what, sizeof what, "seed %d", seed);
        problem_name(&p, what);
        check_all_choices(&p, seed % 4 == 0);
    }
}

DEVICE_TEST(gpu_tune_choices_are_right_f32) {
    check_random_choices(numeric_f32, test_quick() ? 3 : 16);
}

DEVICE_TEST(gpu_tune_choices_are_right_tf32) {
    check_random_choices(numeric_tf32, test_quick() ? 3 : 16);
}

DEVICE_TEST(gpu_tune_choices_are_right_f16) {
    check_random_choices(numeric_f16, test_quick() ? 3 : 16);
}

DEVICE_TEST(gpu_tune_choices_are_right_bf16) {
    check_random_choices(numeric_bf16, test_quick() ? 3 : 16);
}

// ---- the judge sees what is wrong ---------------------------------------------------------------

// One choice of each dataflow, and the ordered layout's, where there is one.
std::vector<tune_choice> choices_of_each(const device_tune *d) {
    std::vector<tune_choice> all = candidates_of(&d->key, d->args.capacity, gpu()), some;
    for (const tune_choice &c : all) {
        bool there = false;
        for (const tune_choice &s : some) {
            there |= s.dataflow == c.dataflow;
        }
        if (!there) {
            some.push_back(c);
        }
    }
    CHECK_EQUAL(some.size(), (size_t)tune_dataflows);
    return some;
}

// What a choice makes of a problem.
std::vector<char> run_choice(const problem *p, int which) {
    device_tune d;
    device_tune_make(p, false, &d);
    tune_choice c = choices_of_each(&d)[(size_t)which];
    device_tune_clear(p, &d);
    CHECK_OK(device_tune_start(&d, &c, stream_get()));
    std::vector<char> out = device_problem_fetch(p, &d);
    guarded_finish();
    return out;
}

// What one problem gives, judged as the result of another.
double judge_as(const problem *made, const problem *wanted, int which) {
    std::vector<char> out = run_choice(made, which);
    device_tune d;
    device_tune_make(wanted, false, &d);
    device_copy_in((char *)d.args.out, out.data(), (int64_t)out.size() - 1);
    double worst = device_tune_judge(&d, d.args.capacity);
    guarded_finish();
    return worst;
}

void check_planted(const problem &good, int which) {
    size_t tap = 0; // the first that has a source
    while (good.map[tap] < 0) {
        ++tap;
    }
    CHECK(judge_as(&good, &good, which) <= 1);
    problem bad = good; // one weight, the largest, off by 2%
    *std::max_element(bad.weight.begin(), bad.weight.end(),
                      [](float a, float b) { return fabsf(a) < fabsf(b); }) *= 1.02f;
    CHECK(judge_as(&bad, &good, which) > 1);
    bad = good; // one tap dropped
    bad.map[tap] = -1;
    CHECK(judge_as(&bad, &good, which) > 1);
    bad = good; // one tap from another row
    bad.map[tap] = good.map[tap] ? good.map[tap] - 1 : 1;
    CHECK(judge_as(&bad, &good, which) > 1);
}

// The epilogue forgets one of its steps.
void check_planted_epilogue(const problem &good, int which) {
    CHECK(judge_as(&good, &good, which) <= 1);
    problem bad = good;
    bad.shift.clear();
    CHECK(judge_as(&bad, &good, which) > 1);
    bad = good;
    bad.residual.clear();
    CHECK(judge_as(&bad, &good, which) > 1);
    bad = good;
    bad.act = activation_none;
    CHECK(judge_as(&bad, &good, which) > 1);
}

DEVICE_TEST(gpu_tune_planted_errors_are_refused) {
    for (numeric type : numerics) {
        random_state random = random_make(37);
        problem p = problem_tight(&random, type);
        problem_fill_map(&random, &p, 60);
        problem finished = p;
        problem_fill_epilogue(&random, &finished, with_all, activation_relu);
        for (int which = 0; which < (test_quick() ? 1 : (int)tune_dataflows); ++which) {
            check_planted(p, which);
            check_planted_epilogue(finished, which);
        }
    }
}

// Of rows that are not compared, only what nobody has written is seen.
DEVICE_TEST(gpu_tune_judge_samples) {
    random_state random = random_make(8);
    problem p = problem_make(&random, shape_make(8, 20, 0, 24, numeric_f16), 300, 1000, 1100);
    problem_fill_map(&random, &p, 50);
    device_tune d;
    device_tune_make(&p, false, &d);
    tune_choice c = tune_guess(gpu(), &d.key, d.args.capacity);
    device_tune_clear(&p, &d);
    REQUIRE_OK(device_tune_start(&d, &c, stream_get()));
    const int32_t samples = 50, sampled = tune_sample_row(1000, samples, 20);
    auto judged = [&](int32_t row, uint16_t bits, int32_t compared) {
        uint16_t *at = (uint16_t *)d.args.out + (int64_t)row * 24 + 23, was = device_value(at);
        device_copy_in(at, &bits, 1);
        double worst = device_tune_judge(&d, compared);
        device_copy_in(at, &was, 1);
        return worst;
    };
    const uint16_t far = f16_from_float(100), nan = 0xffff;
    CHECK(device_tune_judge(&d, samples) <= 1);
    for (int32_t row : {0, 999, sampled}) {
        CHECK(judged(row, far, samples) > 1);
        CHECK(isinf(judged(row, nan, samples)));
    }
    CHECK(judged(sampled + 1, far, samples) <= 1);
    CHECK(judged(sampled + 1, far, 1000) > 1);
    CHECK(isinf(judged(sampled + 1, nan, samples)));
    CHECK(isinf(judged(sampled + 1, nan, 1)));
    CHECK(judged(1000, nan, 5000) <= 1); // behind the outputs that there are
    CHECK(device_tune_judge(&d, 1) <= 1);
    device_tune_clear(&p, &d); // nobody wrote anything
    CHECK(isinf(device_tune_judge(&d, samples)));
}

// ---- graphs and refusals ------------------------------------------------------------------------

// A run and its judgement, captured for a capacity and replayed over other features, and over none.
DEVICE_TEST(gpu_tune_replays_in_a_graph) {
    for (int which = 0; which < tune_dataflows; ++which) {
        random_state random = random_make((uint64_t)which);
        problem p = problem_make(&random, shape_make(27, 33, 0, 40, numeric_f16), 200, 500, 900);
        problem_fill_map(&random, &p, 40);
        problem_name(&p, "replayed");
        device_tune d;
        device_tune_make(&p, false, &d);
        const tune_choice c = choices_of_each(&d)[(size_t)which];
        size_t bytes = 0;
        CHECK_OK(tune_workspace(&d.args, &c, &bytes));
        char *scratch = device_new<char>((int64_t)bytes);
        CUDA_CHECK(cudaDeviceSynchronize());
        cudaGraphExec_t graph = stream_capture(
            [&](cudaStream_t stream) {
                CHECK_OK(shared_conv.tune_run(gpu(), &d.args, &c, scratch, bytes, stream));
                CHECK_OK(tune_judge(gpu(), &d.args, d.weight, d.taps, 64, d.worst, stream));
            },
            3, false); // the convolution, a memset, the judgement: nothing is allocated
        REQUIRE(graph != nullptr);
        for (int32_t outputs : {500, 0, 500}) { // layouts hold for one count
            p.outputs = outputs;
            reference_random_values(&random, p.shape.type, 1, (int64_t)p.in.size(), p.in.data());
            features_refill(p.shape.type, d.args.in, p.in);
            device_copy_in((int32_t *)d.args.count, &outputs, 1);
            device_tune_clear(&p, &d);
            CUDA_CHECK(cudaGraphLaunch(graph, stream_get()));
            double worst = (double)device_value(d.worst);
            CHECK(worst <= 1 && (outputs == 0) == (worst == 0));
        }
        CUDA_CHECK(cudaGraphExecDestroy(graph));
        guarded_finish();
    }
}

void check_named(status s, status_code code, const char *subject, int line = __builtin_LINE()) {
    test_check_status(s, code, __FILE__, line, subject);
    test_check(strcmp(s.subject, subject) == 0, __FILE__, line, s.subject);
}

DEVICE_TEST(gpu_tune_run_refuses) {
    random_state random = random_make(3);
    problem p = problem_make(&random, shape_make(27, 16, 0, 16, numeric_tf32), 50, 60);
    problem_fill_map(&random, &p, 50);
    device_tune d;
    device_tune_make(&p, false, &d);
    const conv_sizes cut = {1, 2, 1, 1};
    const tune_choice whole = tune_choice_cut(&cut),
                      atomic = tune_choice_lists(tune_dataflow_atomic, 0),
                      hybrid = tune_choice_lists(tune_dataflow_hybrid_atomic, 2);
    auto run = [&](const tune_args &a, const tune_choice &c, size_t less = 0) {
        size_t bytes = 0;
        CHECK_OK(tune_workspace(&a, &c, &bytes));
        return shared_conv.tune_run(gpu(), &a, &c, device_new<char>((int64_t)bytes), bytes - less,
                                    stream_get());
    };
    check_named(shared_conv.tune_run(gpu(), nullptr, &whole, nullptr, 0, stream_get()),
                status_null_pointer, "args");
    check_named(shared_conv.tune_run(gpu(), &d.args, nullptr, nullptr, 0, stream_get()),
                status_null_pointer, "choice");
    check_named(shared_conv.tune_run(nullptr, &d.args, &whole, nullptr, 0, stream_get()),
                status_null_pointer, "gpu");
    size_t bytes = 0;
    check_named(tune_workspace(nullptr, &whole, &bytes), status_null_pointer, "args");
    check_named(tune_workspace(&d.args, &whole, nullptr), status_null_pointer, "bytes");
    check_named(tune_workspace(&d.args, &atomic, nullptr), status_null_pointer, "bytes");
    tune_choice c = whole;
    for (int dataflow : {-1, (int)tune_dataflows}) {
        c.dataflow = (tune_dataflow)dataflow;
        check_named(shared_conv.tune_run(gpu(), &d.args, &c, nullptr, 0, stream_get()),
                    status_unsupported, "choice.dataflow");
    }
    c = hybrid;
    c.threshold = 4; // all offsets are dense: nobody has it
    check_named(tune_workspace(&d.args, &c, &bytes), status_null_pointer,
                "hybrid (of choice.threshold)");
    check_named(shared_conv.tune_run(gpu(), &d.args, &c, nullptr, 0, stream_get()),
                status_null_pointer, "hybrid (of choice.threshold)");
    c = whole;
    c.split = 3;
    check_named(run(d.args, c), status_unsupported, "sizes");
    tune_args a = d.args;
    a = d.args;
    a.hybrid = nullptr;
    check_named(shared_conv.tune_run(gpu(), &a, &hybrid, nullptr, 0, stream_get()),
                status_null_pointer, "hybrid");
    a = d.args;
    a.map = nullptr;
    check_named(run(a, whole), status_null_pointer, "map");
    a = d.args;
    a.pairs_weights = nullptr;
    CHECK_STATUS(run(a, atomic), status_null_pointer);
    check_named(run(d.args, atomic, 1), status_workspace, "scratch");
    check_named(run(d.args, hybrid, 1), status_workspace, "scratch");
    CHECK(device_untouched(d.out, 0, d.out_bytes));
    a = d.args; // what the choice does not read may be missing
    a.pairs_weights = nullptr;
    a.pairs = {};
    a.hybrid = nullptr;
    a.hybrids = 0;
    CHECK_OK(run(a, whole));
    a = d.args;
    a.weights = nullptr;
    a.map = nullptr;
    CHECK_OK(run(a, atomic));
    a.pairs_weights = nullptr;
    a.pairs = {};
    CHECK_OK(run(a, hybrid));
}

DEVICE_TEST(gpu_tune_judge_refuses) {
    random_state random = random_make(3);
    problem p = problem_make(&random, shape_make(27, 16, 0, 16, numeric_f16), 50, 60);
    problem_fill_map(&random, &p, 50);
    problem_fill_epilogue(&random, &p, with_residual, activation_none);
    device_tune d;
    device_tune_make(&p, false, &d);
    auto judge = [&](const tune_args &a) {
        return tune_judge(gpu(), &a, d.weight, d.taps, 9, d.worst, stream_get());
    };
    cudaStream_t stream = stream_get();
    check_named(tune_judge(gpu(), nullptr, d.weight, d.taps, 9, d.worst, stream),
                status_null_pointer, "args");
    check_named(tune_judge(gpu(), &d.args, nullptr, d.taps, 9, d.worst, stream),
                status_null_pointer, "weight");
    check_named(tune_judge(gpu(), &d.args, d.weight, nullptr, 9, d.worst, stream),
                status_null_pointer, "map");
    check_named(tune_judge(gpu(), &d.args, d.weight, d.taps, 0, d.worst, stream), status_bad_size,
                "samples");
    check_named(tune_judge(gpu(), &d.args, d.weight, d.taps, 9, nullptr, stream),
                status_null_pointer, "worst");
    check_named(
        tune_judge(gpu(), &d.args, d.weight, d.taps, 9, (float *)((char *)d.worst + 2), stream),
        status_alignment, "worst");
    tune_args a = d.args;
    a.out = (void *)a.epilogue.residual;
    check_named(judge(a), status_unsupported, "out (is the residual, which is overwritten)");
    a = d.args;
    a.in = nullptr;
    check_named(judge(a), status_null_pointer, "in");
    a = d.args;
    a.count = nullptr;
    check_named(judge(a), status_null_pointer, "count");
    a = d.args;
    a.capacity = 0;
    check_named(judge(a), status_bad_size, "capacity");
    a = d.args;
    a.shape.cout = conv_channels_max + 1;
    check_named(judge(a), status_bad_size, "shape.cout");
    CHECK(device_untouched(d.worst, 0, 1));
    a = d.args; // packed weights and forms of the map are not read
    a.weights = a.pairs_weights = nullptr;
    a.pairs = {};
    device_tune_clear(&p, &d);
    CHECK_OK(judge(a));
    CHECK(isinf(device_value(d.worst)));
}

} // namespace
