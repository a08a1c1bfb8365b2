// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/gpu/hybrid.cu: convolution by two dataflows on the GPU against sums in double, each output
// within its bound (reference.h); in order the same bits from run to run.
#include "../../spira/map.cuh"
#include "../../spira/order.cuh"
#include "../support/hybrids.cuh"

using namespace problems;

namespace {

const pairs_form forms[] = {pairs_form_atomic, pairs_form_ordered};

struct hybrid_problem : problem {
    kernel_shape kernel;
    int threshold;
    pairs_form form;
};

hybrid_problem hybrid_make(const problem &p, const kernel_shape &kernel, int threshold,
                           pairs_form form) {
    hybrid_problem h;
    (problem &)h = p;
    h.kernel = kernel;
    h.threshold = threshold;
    h.form = form;
    return h;
}

// Offsets all with the same chance, in percent.
hybrid_problem hybrid_random(random_state *random, const kernel_shape &kernel, conv_shape shape,
                             int32_t inputs, int32_t outputs, int percent, int threshold,
                             pairs_form form) {
    shape.volume = kernel_volume(&kernel);
    problem p = problem_make(random, shape, inputs, outputs);
    problem_fill_map(random, &p, percent);
    return hybrid_make(p, kernel, threshold, form);
}

void hybrid_name(hybrid_problem *p, const char *what) {
    char more[64];
    snprintf(more, sizeof more, ", t = %d, %s", p->threshold,
             p->form == pairs_form_atomic ? "atomic" : "in order");
    problem_name(p, what, more);
}

int hybrid_columns(const hybrid_problem *p) {
    return map_os_columns(&p->kernel, p->threshold, false);
}

// ---- a problem in device memory -----------------------------------------------------------------

struct device_hybrid {
    conv_hybrid_args args;
    const int32_t *os; // [capacity, columns]
    conv_map map;      // of the dense columns
    char *order_scratch;
    size_t order_bytes;
    char *out, *scratch;
    size_t scratch_bytes;
    int64_t out_bytes;
};

// The map's dense columns, as map_forms.os has them.
const int32_t *os_upload(const hybrid_problem *p) {
    std::vector<int32_t> os = problem_dense(p, &p->kernel, p->threshold).map;
    // Rows behind the outputs look real and must not be read.
    os.resize((size_t)problem_capacity(p) * (size_t)hybrid_columns(p) + 1, 1 << 29);
    return device_upload(os.data(), (int64_t)os.size());
}

order_request hybrid_order_request(const device_hybrid *d) {
    order_request r = {};
    r.kernel = d->args.kernel;
    r.threshold = d->args.threshold;
    r.map = d->os;
    r.count = d->map.count;
    r.capacity = d->map.capacity;
    r.layout = d->map.order;
    return r;
}

// Memory for the layout of the dense columns, and for building it.
void hybrid_layout_make(device_hybrid *d) {
    const conv_hybrid_args *a = &d->args;
    const int columns = conv_hybrid_dense(&a->shape, &a->kernel, a->threshold).volume;
    if (!columns) {
        return;
    }
    workspace count = workspace_begin(nullptr);
    order_layout_take(&count, d->map.capacity, columns);
    workspace w = workspace_begin(device_new<char>((int64_t)count.used));
    const order_layout order = order_layout_take(&w, d->map.capacity, columns);
    d->map = conv_map_of_order(&order, d->map.count, d->map.capacity);
    const order_request request = hybrid_order_request(d);
    CHECK_OK(order_workspace(&request, 1, &d->order_bytes));
    d->order_scratch = device_new<char>((int64_t)d->order_bytes);
}

void device_hybrid_scratch(device_hybrid *d) {
    CHECK_OK(conv_hybrid_workspace(&d->args, &d->scratch_bytes));
    d->scratch = device_new<char>((int64_t)d->scratch_bytes);
}

// Not copied: the arguments point to the map.
void device_hybrid_make(const hybrid_problem *p, const int32_t *os, map_lists pairs,
                        const int32_t *count, device_hybrid *d) {
    *d = {};
    conv_hybrid_args *a = &d->args;
    a->shape = p->shape;
    a->kernel = p->kernel;
    a->threshold = p->threshold;
    a->weights = hybrid_weights_upload(p, &p->kernel, p->threshold);
    a->pairs = pairs;
    d->map = conv_map_identity(count, problem_capacity(p));
    a->map = &d->map;
    a->form = p->form;
    d->os = os;
    device_problem_arrays(p, d);
    hybrid_layout_make(d);
    device_hybrid_scratch(d);
}

void device_hybrid_of(const hybrid_problem *p, device_hybrid *d) {
    device_hybrid_make(p, os_upload(p), sparse_upload(p, &p->kernel, p->threshold),
                       device_upload(&p->outputs, 1), d);
}

// Builds the layout of the columns.
status device_hybrid_layout(const device_hybrid *d, cudaStream_t stream) {
    if (d->map.form == conv_form_identity) {
        return status_success();
    }
    const order_request request = hybrid_order_request(d);
    return order_build(gpu(), &request, 1, d->order_scratch, d->order_bytes, stream);
}

status device_hybrid_start(const device_hybrid *d, cudaStream_t stream) {
    return shared_conv.conv_hybrid(gpu(), &d->args, d->scratch, d->scratch_bytes, stream);
}

bool hybrid_is_deterministic(const hybrid_problem *p) {
    return p->form == pairs_form_ordered || p->threshold > kernel_norm_max(&p->kernel);
}

// Layout and convolution, twice. Does not free.
std::vector<char> device_hybrid_run(const hybrid_problem *p, const device_hybrid *d) {
    CHECK_OK(device_hybrid_layout(d, stream_get()));
    return device_problem_run(p, d, hybrid_is_deterministic(p),
                              [&] { return device_hybrid_start(d, stream_get()); });
}

// Frees all buffers of the test.
std::vector<char> hybrid_run(const hybrid_problem *p) {
    device_hybrid d;
    device_hybrid_of(p, &d);
    std::vector<char> out = device_hybrid_run(p, &d);
    guarded_finish();
    return out;
}

void check_hybrid(const hybrid_problem *p, int line = __builtin_LINE()) {
    problem_good(p, hybrid_run(p), __FILE__, line);
}

// ---- shapes -------------------------------------------------------------------------------------

const int channels_edges[] = {1, 3, 4, 7, 8, 15, 16, 17, 31, 32, 33, 48, 63, 64, 65, 96, 100, 128};

// All thresholds there are, and one above.
DEVICE_TEST(gpu_hybrid_random_shapes) {
    for (int seed = 0; seed < (test_quick() ? 24 : 600); ++seed) {
        const numeric type = numerics[seed % 4];
        random_state random = random_make((uint64_t)seed);
        const kernel_shape kernel = random_int(&random, 0, 3)
                                        ? reference_random_kernel(&random, 4, 2, {1, 1, 1})
                                        : kernel_cube(seed % 2 ? 3 : 5, 1);
        conv_shape s = shape_random(&random, 0, type, channels_edges);
        const int percents[] = {0, 3, 15, 40, 100};
        int32_t inputs = random_int(&random, 0, 120), outputs = random_int(&random, 0, 400);
        hybrid_problem p = hybrid_random(
            &random, kernel, s, inputs, outputs, percents[random_int(&random, 0, 4)],
            random_int(&random, 0, kernel_norm_max(&kernel) + 1), forms[seed / 4 % 2]);
        problem_fill_any_epilogue(&random, &p);
        p.room = random_int(&random, 0, 3) ? random_int(&random, 0, 300) : 20000;
        problem_move(&random, &p);
        char what[32];
        snprintf(what, sizeof what, "seed %d", seed);
        hybrid_name(&p, what);
        check_hybrid(&p);
    }
}

// ---- counts -------------------------------------------------------------------------------------

// A count beyond the capacity: as many outputs as there is room for. A smaller one: the lists still
// have the others.
DEVICE_TEST(gpu_hybrid_clamps_counts) {
    for (numeric type : numerics) {
        for (pairs_form form : forms) {
            for (int32_t capacity : {1, 64, 100, 300}) {
                random_state random = random_make((uint64_t)(capacity + type));
                conv_shape s = shape_make(0, 64, 0, capacity % 3 ? 64 : 20, type);
                hybrid_problem p =
                    hybrid_random(&random, kernel_cube(3, 1), s, 50, capacity, 30, 2, form);
                hybrid_name(&p, "clamped");
                device_hybrid d;
                device_hybrid_of(&p, &d);
                for (int32_t told : {capacity + 1, capacity + 64, INT32_MAX}) {
                    device_copy_in((int32_t *)d.map.count, &told, 1);
                    CHECK_OK(device_hybrid_layout(&d, stream_get()));
                    CHECK_OK(device_hybrid_start(&d, stream_get()));
                    std::vector<char> out = device_problem_fetch(&p, &d);
                    problem_good(&p, out);
                }
                int32_t fewer = capacity / 2;
                hybrid_problem q = p;
                q.outputs = fewer;
                q.map.resize((size_t)(fewer * p.shape.volume));
                device_copy_in((int32_t *)d.map.count, &fewer, 1);
                std::vector<char> kept = device_problem_fetch(&p, &d);
                CHECK_OK(device_hybrid_layout(&d, stream_get()));
                CHECK_OK(device_hybrid_start(&d, stream_get()));
                std::vector<char> out = device_problem_fetch(&p, &d);
                problem_good(&q, out);
                int64_t used = (int64_t)fewer * s.cout * numeric_size(type);
                CHECK(std::equal(kept.begin() + used, kept.end(), out.begin() + used));
                guarded_finish();
            }
        }
    }
}

// ---- maps of real layers ------------------------------------------------------------------------

// Sets, and what the search makes of them.
template <typename W>
struct device_scene {
    word_layout layout;
    voxel_set<W> source, outputs;
    map_forms dense;
    map_lists pairs;
    device_status *trouble;
    char *scratch;
    size_t scratch_bytes;
};

// pairs: room in the lists.
template <typename W>
device_scene<W> scene_upload(const forms_scene<W> *scene, const hybrid_problem *p, int32_t pairs) {
    device_scene<W> s = {};
    s.layout = scene->layout;
    s.source = set_upload(scene->source, p->room);
    s.outputs = scene->same ? s.source : set_upload(scene->outputs, p->room);
    s.trouble = device_zeros<device_status>(1);
    s.dense = map_forms_none(p->threshold, false, s.trouble);
    const int64_t cells = (int64_t)s.outputs.capacity * hybrid_columns(p);
    s.dense.os = cells ? device_new_poisoned<int32_t>(cells) : nullptr;
    s.pairs.begin = device_new<int32_t>(p->shape.volume + 1);
    s.pairs.input = device_new<int32_t>(pairs);
    s.pairs.output = device_new<int32_t>(pairs);
    s.pairs.capacity = pairs;
    CHECK_OK(map_lists_workspace(&p->kernel, s.outputs.capacity, &s.scratch_bytes));
    s.scratch = device_new<char>((int64_t)s.scratch_bytes);
    return s;
}

// From the sets to the outputs.
template <typename W>
status scene_run(const device_scene<W> *s, const device_hybrid *d, cudaStream_t stream) {
    const map_request<W> request = {d->args.kernel, s->source, s->outputs, s->dense};
    SPIRA_TRY(
        map_build_lists(&s->layout, &request, &s->pairs, s->scratch, s->scratch_bytes, stream));
    SPIRA_TRY(device_hybrid_layout(d, stream));
    return device_hybrid_start(d, stream);
}

// Frees all buffers of the test.
template <typename W>
void check_scene(const forms_scene<W> *scene, hybrid_problem *p, int line = __builtin_LINE()) {
    p->kernel = scene->kernel;
    p->map = forms_map(scene);
    device_scene<W> s = scene_upload(scene, p, std::max((int32_t)p->map.size(), 1));
    device_hybrid d;
    device_hybrid_make(p, s.dense.os, s.pairs, s.outputs.count, &d);
    std::vector<char> out = device_problem_run(p, &d, hybrid_is_deterministic(p),
                                               [&] { return scene_run(&s, &d, stream_get()); });
    problem_good(p, out, __FILE__, line);
    CHECK_OK(device_status_read(device_fetch(s.trouble, 1)));
    guarded_finish();
}

DEVICE_TEST(gpu_hybrid_layers) {
    int turn = 0;
    for (int kind = forms_submanifold; kind < forms_kinds; ++kind) {
        for (numeric type : numerics) {
            for (int size : {2, 3, 5}) {
                for (int t = 0; t <= size / 2 * 3 + 1; ++t, ++turn) {
                    if (test_thinned(71)) {
                        continue;
                    }
                    random_state random = random_make((uint64_t)turn);
                    forms_scene<uint32_t> scene = forms_scene_random<uint32_t>(
                        &random, (forms_kind)kind, kernel_cube(size, 1));
                    conv_shape s = shape_make(size * size * size, turn % 2 ? 64 : 17,
                                              turn % 4 ? 0 : 17, turn % 2 ? 64 : 24, type);
                    hybrid_problem p =
                        hybrid_make(problem_make(&random, s, (int32_t)scene.source.size(),
                                                 (int32_t)scene.outputs.size()),
                                    scene.kernel, t, forms[turn % 2]);
                    p.room = turn % 3 ? 0 : 100;
                    problem_fill_epilogue(&random, &p, with_scale | with_shift, activation_relu);
                    hybrid_name(&p, scene.name);
                    check_scene(&scene, &p);
                }
            }
        }
    }
}

// A graph that is captured for a capacity replays from other sets and features.
DEVICE_TEST(gpu_hybrid_graph_replays_with_another_scene) {
    int turn = 0;
    for (numeric type : numerics) {
        for (pairs_form form : forms) {
            for (int t = 0; t <= 4; ++t, ++turn) {
                if (test_quick() && turn % 3) {
                    continue;
                }
                random_state random = random_make((uint64_t)turn);
                const triple lo = {0, 0, 0}, hi = {19, 19, 9};
                kernel_shape kernel = kernel_cube(3, 1);
                word_layout layout = reference_layout<uint32_t>(lo, hi, 1, {1, 1, 1}, {1, 1, 1});
                conv_shape s = shape_make(27, 64, 0, turn % 2 ? 64 : 20, type);
                std::vector<uint32_t> words = set_random<uint32_t>(&random, &layout, lo, hi, 500);
                forms_scene<uint32_t> first = forms_scene_make("captured", &layout, &kernel, words);
                const int32_t most = (int32_t)words.size();
                hybrid_problem p =
                    hybrid_make(problem_make(&random, s, most, most), kernel, t, form);
                device_scene<uint32_t> scene = scene_upload(&first, &p, most * 27);
                device_hybrid d;
                device_hybrid_make(&p, scene.dense.os, scene.pairs, scene.outputs.count, &d);
                CUDA_CHECK(cudaDeviceSynchronize());
                cudaGraphExec_t graph = stream_capture(
                    [&](cudaStream_t stream) { CHECK_OK(scene_run(&scene, &d, stream)); }, 3);
                REQUIRE(graph != nullptr);
                for (int32_t wanted : {most, 0, 1, most / 2, most}) {
                    words = set_random<uint32_t>(&random, &layout, lo, hi, wanted);
                    words.resize(std::min(words.size(), (size_t)most));
                    const int32_t count = (int32_t)words.size();
                    hybrid_problem q =
                        hybrid_make(problem_make(&random, s, count, count, most), kernel, t, form);
                    forms_scene<uint32_t> other =
                        forms_scene_make("replayed", &layout, &kernel, words);
                    q.map = forms_map(&other);
                    q.weight = p.weight;
                    hybrid_name(&q, "replayed");
                    set_refill(&scene.source, words);
                    features_refill(type, d.args.in, q.in);
                    CUDA_CHECK(cudaGraphLaunch(graph, stream_get()));
                    std::vector<char> out = device_problem_fetch(&q, &d);
                    problem_good(&q, out);
                }
                CHECK_OK(device_status_read(device_fetch(scene.trouble, 1)));
                CUDA_CHECK(cudaGraphExecDestroy(graph));
                guarded_finish();
            }
        }
    }
}

// ---- details ------------------------------------------------------------------------------------

// A dense centre alone is the identity: no map of it is needed.
DEVICE_TEST(gpu_hybrid_identity) {
    for (numeric type : numerics) {
        for (pairs_form form : forms) {
            random_state random = random_make((uint64_t)type);
            for (int channels : {64, 20}) {
                conv_shape s = shape_make(0, channels, 0, channels, type);
                hybrid_problem p =
                    hybrid_random(&random, kernel_cube(3, 1), s, 190, 190, 20, 1, form);
                for (int32_t i = 0; i < 190; ++i) {
                    p.map[(size_t)(i * 27 + 13)] = i;
                }
                hybrid_name(&p, "identity");
                device_hybrid d;
                device_hybrid_of(&p, &d);
                d.map = conv_map_identity(d.map.count, d.map.capacity);
                std::vector<char> out = device_hybrid_run(&p, &d);
                problem_good(&p, out);
                guarded_finish();
            }
        }
    }
}

// The offsets of both halves are those of the forms of the map.
TEST(hybrid_divides_as_the_map_does) {
    for (int size : {1, 2, 3, 5}) {
        const kernel_shape kernel = kernel_cube(size, 1);
        const conv_shape s = shape_make(size * size * size, 3, 2, 5, numeric_f16);
        for (int t = 0; t <= kernel_norm_max(&kernel) + 1; ++t) {
            forms_wish wish = {};
            wish.os = wish.pairs = true;
            wish.threshold = t;
            wish.pairs_capacity = 1;
            const conv_shape dense = conv_hybrid_dense(&s, &kernel, t);
            CHECK_EQUAL((size_t)dense.volume, forms_offsets(kernel.size, &wish, true).size());
            CHECK(dense.cin == 3 && dense.cin2 == 2 && dense.cout == 5 &&
                  dense.type == numeric_f16);
            for (int k : forms_offsets(kernel.size, &wish, false)) {
                CHECK(map_lists_have(&kernel, t, false, k));
            }
        }
        CHECK_EQUAL(conv_hybrid_dense(&s, &kernel, 0).volume, 0);
        CHECK_EQUAL(conv_hybrid_dense(&s, &kernel, map_all).volume, s.volume);
    }
}

// What is asked for at the ends: all weight-stationary, all output-stationary.
DEVICE_TEST(gpu_hybrid_sizes_at_the_ends) {
    const kernel_shape kernel = kernel_cube(3, 1);
    for (numeric type : numerics) {
        const conv_shape s = shape_make(27, 64, 3, 70, type);
        const conv_map map = conv_map_identity(nullptr, 1000);
        conv_hybrid_args a = {};
        a.shape = s;
        a.kernel = kernel;
        a.map = &map;
        size_t all = 0, own = 0;
        CHECK_OK(conv_hybrid_weights_bytes(gpu(), &a, &own));
        CHECK_OK(conv_pairs_weights_bytes(gpu(), &s, &all));
        CHECK_EQUAL(own, (size_t)round_up((int64_t)all, workspace_alignment));
        a.threshold = 4;
        CHECK_OK(conv_hybrid_weights_bytes(gpu(), &a, &own));
        CHECK_OK(conv_weights_bytes(gpu(), &s, &all));
        all -= sizeof(conv_weights_tag);
        CHECK_EQUAL(own, (size_t)round_up((int64_t)all, workspace_alignment));
        for (pairs_form form : forms) {
            a.form = form;
            const size_t sums = 1000 * 72 * sizeof(float);
            for (int t = 0; t <= 5; ++t) {
                a.threshold = t;
                CHECK_OK(conv_hybrid_workspace(&a, &own));
                bool none = t > 3;
                CHECK(none ? own == 0 : own >= sums && own <= sums + 1024);
            }
        }
    }
}

// ---- errors -------------------------------------------------------------------------------------

DEVICE_TEST(gpu_hybrid_refuses) {
    random_state random = random_make(29);
    conv_shape s = shape_make(0, 6, 5, 7, numeric_f16);
    hybrid_problem p =
        hybrid_random(&random, kernel_cube(3, 1), s, 10, 12, 50, 2, pairs_form_atomic);
    problem_fill_epilogue(&random, &p, with_all, activation_relu);
    device_hybrid d;
    device_hybrid_of(&p, &d);
    CHECK_OK(device_hybrid_layout(&d, stream_get()));
    conv_map no_count = d.map, no_capacity = d.map;
    no_count.count = nullptr;
    no_capacity.capacity = 0;
    char *plenty = device_new<char>((int64_t)d.scratch_bytes + 4096); // whatever the sizes say
    const auto refused = [&](status_code code, const char *subject, auto spoil) {
        conv_hybrid_args args = d.args;
        spoil(&args);
        status got =
            shared_conv.conv_hybrid(gpu(), &args, plenty, d.scratch_bytes + 4096, stream_get());
        CHECK_STATUS(got, code);
        CHECK(strncmp(got.subject, subject, strlen(subject)) == 0);
    };
    typedef conv_hybrid_args *to;
    refused(status_null_pointer, "in", [](to a) { a->in = nullptr; });
    refused(status_null_pointer, "weights", [](to a) { a->weights = nullptr; });
    refused(status_null_pointer, "map", [](to a) { a->map = nullptr; });
    refused(status_null_pointer, "map.count", [&](to a) { a->map = &no_count; });
    refused(status_bad_size, "map.capacity", [&](to a) { a->map = &no_capacity; });
    refused(status_null_pointer, "pairs", [](to a) { a->pairs.begin = nullptr; });
    refused(status_bad_size, "threshold", [](to a) { a->threshold = -1; });
    refused(status_bad_size, "map.volume", [](to a) { a->threshold = 3; });
    refused(status_bad_size, "shape.volume", [](to a) { a->shape.volume = 7; });
    refused(status_bad_size, "shape.volume", [](to a) { a->kernel.size.z = 2; });
    refused(status_kernel_size, "kernel.size", [](to a) { a->kernel.size.x = 0; });
    refused(status_unsupported, "form", [](to a) { a->form = (pairs_form)2; });
    refused(status_unsupported, "epilogue.act", [](to a) { a->epilogue.act = activation_count; });
    refused(status_unsupported, "out (overlaps", [](to a) { a->out = (void *)a->in; });
    auto run = [&](const device_info *g, const conv_hybrid_args *a, char *scratch, size_t given) {
        return shared_conv.conv_hybrid(g, a, scratch, given, stream_get());
    };
    const size_t enough = d.scratch_bytes;
    REQUIRE(enough > 0);
    CHECK_STATUS(run(gpu(), &d.args, nullptr, enough), status_null_pointer);
    CHECK_STATUS(run(gpu(), &d.args, d.scratch, enough - 1), status_workspace);
    CHECK_STATUS(run(gpu(), &d.args, d.scratch + 16, enough), status_alignment);
    CHECK_STATUS(run(gpu(), nullptr, d.scratch, enough), status_null_pointer);
    CHECK_STATUS(run(nullptr, &d.args, d.scratch, enough), status_null_pointer);
    size_t bytes = 0;
    CHECK_STATUS(conv_hybrid_workspace(nullptr, &bytes), status_null_pointer);
    CHECK_STATUS(conv_hybrid_workspace(&d.args, nullptr), status_null_pointer);
    CHECK(device_untouched(d.out, 0, d.out_bytes));
    CHECK(device_untouched(plenty, 0, (int64_t)d.scratch_bytes + 4096));
}

DEVICE_TEST(gpu_hybrid_refuses_weights) {
    conv_hybrid_args good = {};
    good.shape = shape_make(27, 6, 5, 7, numeric_f16);
    good.kernel = kernel_cube(3, 1);
    good.threshold = 2;
    size_t bytes = 0, unused = 0;
    CHECK_OK(conv_hybrid_weights_bytes(gpu(), &good, &bytes));
    char *packed = device_new<char>((int64_t)bytes);
    const conv_weights all = {device_zeros<float>(27 * 11 * 7), packed, bytes, nullptr};
    auto pack = [&](status_code code, auto spoil) {
        conv_hybrid_args a = good;
        conv_weights w = all;
        spoil(&a, &w);
        CHECK_STATUS(conv_hybrid_weights_pack(gpu(), &a, &w, stream_get()), code);
    };
    typedef conv_hybrid_args *to;
    typedef conv_weights *of;
    pack(status_bad_size, [](to a, of) { a->threshold = -1; });
    pack(status_bad_size, [](to a, of) { a->shape.volume = 8; });
    pack(status_null_pointer, [](to, of w) { w->weight = nullptr; });
    pack(status_null_pointer, [](to, of w) { w->packed = nullptr; });
    pack(status_workspace, [](to, of w) { --w->packed_bytes; });
    pack(status_alignment, [](to, of w) { w->packed = (char *)w->packed + 16; });
    CHECK(device_untouched(packed, 0, (int64_t)bytes));
    pack(status_ok, [](to, of) {});
    CHECK_STATUS(conv_hybrid_weights_bytes(gpu(), &good, nullptr), status_null_pointer);
    CHECK_STATUS(conv_hybrid_weights_bytes(gpu(), nullptr, &unused), status_null_pointer);
    CHECK_STATUS(conv_hybrid_weights_bytes(nullptr, &good, &unused), status_null_pointer);
    CHECK_STATUS(conv_hybrid_weights_pack(gpu(), nullptr, &all, stream_get()), status_null_pointer);
    CHECK_STATUS(conv_hybrid_weights_pack(gpu(), &good, nullptr, stream_get()),
                 status_null_pointer);
}

// ---- the test, tested ---------------------------------------------------------------------------

// The first tap is of the offset with norm 0, which is dense; other errors fall in either half.
DEVICE_TEST(gpu_hybrid_planted_errors_are_found) {
    for (numeric type : numerics) {
        for (pairs_form form : forms) {
            for (int t : {1, 2, 4}) {
                random_state random = random_make(37);
                problem tight = problem_tight(&random, type);
                tight.shape.volume = 8;
                tight = problem_make(&random, tight.shape, tight.inputs, tight.outputs, 80);
                problem_fill_map(&random, &tight, 100);
                hybrid_problem good = hybrid_make(tight, kernel_cube(2, 1), t, form);
                check_planted_errors(good, [](const hybrid_problem *p) { return hybrid_run(p); });
            }
        }
    }
}

} // namespace
