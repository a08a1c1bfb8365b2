// tests/host/hybrid.cpp: the host loop of the hybrid dataflow, against sums in double.
#include "../../spira/conv_hybrid.h"
#include "../support/reference_forms.h"

using namespace spira;

// A layer with random features, and its map in the two forms.
struct hybrid_case {
    conv_shape shape;
    kernel_shape kernel;
    int threshold;
    int32_t inputs, outputs;
    std::vector<float> in, in2, weight, vectors, residual;
    std::vector<int32_t> map; // whole
    int32_t *os;
    map_lists pairs;
    conv_epilogue epilogue;
};

static hybrid_case hybrid_make(random_state *r, const forms_scene<uint32_t> *scene, int threshold) {
    hybrid_case c;
    c.kernel = scene->kernel;
    c.threshold = threshold;
    c.inputs = (int32_t)scene->source.size();
    c.outputs = (int32_t)scene->outputs.size();
    c.shape = shape_make(kernel_volume(&c.kernel), random_int(r, 1, 9), random_int(r, 0, 5),
                         random_int(r, 1, 9), numeric_f32);
    const size_t cout = (size_t)c.shape.cout;
    c.in.resize((size_t)(c.inputs * c.shape.cin) + 1);
    c.in2.resize((size_t)(c.inputs * c.shape.cin2) + 1);
    c.weight.resize((size_t)c.shape.volume * (size_t)(c.shape.cin + c.shape.cin2) * cout);
    c.vectors.resize(3 * cout);
    c.residual.resize((size_t)c.outputs * cout + 1);
    for (std::vector<float> *v : {&c.in, &c.in2, &c.weight, &c.vectors, &c.residual}) {
        reference_random_values(r, numeric_f32, 1, (int64_t)v->size(), v->data());
    }
    c.map = forms_map(scene);
    forms_wish wish = {};
    wish.os = wish.pairs = true;
    wish.threshold = threshold;
    wish = forms_wish_fit(wish, c.kernel.size, c.map);
    forms_layer<uint32_t> l = forms_layer_make(scene, &wish, 0, &memory_host);
    CHECK_OK(forms_build_host(&l));
    c.os = l.part[forms_os];
    c.pairs = forms_pairs_of(&l);
    c.map.push_back(-1); // an empty map has an address too
    return c;
}

// The vectors are those of this copy.
static void hybrid_epilogue(hybrid_case *c) {
    const float *v = c->vectors.data();
    const int cout = c->shape.cout;
    c->epilogue = {};
    c->epilogue.bias = v;
    c->epilogue.scale = v + cout;
    c->epilogue.shift = v + 2 * cout;
    c->epilogue.residual = c->residual.data();
    c->epilogue.act = activation_relu;
}

static conv_hybrid_host_args hybrid_args(const hybrid_case *c, float *out) {
    return {c->shape,      c->kernel,        c->threshold, c->in.data(),
            c->in2.data(), c->weight.data(), c->os,        c->pairs,
            c->outputs,    c->epilogue,      out};
}

static status hybrid_run(const hybrid_case *c, float *out) {
    const conv_hybrid_host_args args = hybrid_args(c, out);
    return conv_hybrid_host(&args);
}

static reference_verdict hybrid_judge(const hybrid_case *c, const float *out) {
    return reference_conv_check(&c->shape, c->in.data(), c->in2.data(), c->inputs, c->weight.data(),
                                c->map.data(), c->outputs, &c->epilogue, out);
}

static void check_thresholds(random_state *r, const forms_scene<uint32_t> *scene) {
    for (int t = 0; t <= kernel_norm_max(&scene->kernel) + 1; ++t) {
        hybrid_case c = hybrid_make(r, scene, t);
        hybrid_epilogue(&c);
        float *out = guarded_new<float>((int64_t)c.outputs * c.shape.cout);
        REQUIRE_OK(hybrid_run(&c, out));
        reference_conv_good(hybrid_judge(&c, out), scene->name);
        guarded_finish();
    }
}

TEST(hybrid_host_agrees_at_every_threshold) {
    for (int kind = forms_submanifold; kind < forms_kinds; ++kind) {
        for (int seed = 0; seed < (test_quick() ? 2 : 12); ++seed) {
            random_state r = random_make((uint64_t)(100 * kind + seed));
            kernel_shape kernel = seed < 3 ? kernel_cube(seed == 2 ? 5 : 2 + seed, 1)
                                           : reference_random_kernel(&r, 4, 2, {1, 1, 1});
            forms_scene<uint32_t> scene =
                forms_scene_random<uint32_t>(&r, (forms_kind)kind, kernel);
            check_thresholds(&r, &scene);
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

TEST(hybrid_host_planted_errors_are_found) {
    random_state r = random_make(3);
    forms_scene<uint32_t> scene =
        forms_scene_random<uint32_t>(&r, forms_submanifold, kernel_cube(3, 1));
    for (int t : {1, 2, 3}) {
        hybrid_case c = hybrid_make(&r, &scene, t);
        hybrid_epilogue(&c);
        float *out = guarded_new<float>((int64_t)c.outputs * c.shape.cout);
        REQUIRE_OK(hybrid_run(&c, out));
        REQUIRE(hybrid_judge(&c, out).ratio <= 1);
        const int columns = map_os_columns(&c.kernel, t, false);
        int32_t *centre = c.os + columns / 2; // of the first output: there is one
        REQUIRE(*centre == 0);
        *centre = -1; // a dense tap less
        REQUIRE_OK(hybrid_run(&c, out));
        CHECK(hybrid_judge(&c, out).ratio > 1);
        *centre = 0;
        if (c.pairs.begin[27] > 0) {
            int32_t row = c.pairs.output[0]; // a pair with another output
            c.pairs.output[0] = row ? 0 : 1;
            REQUIRE_OK(hybrid_run(&c, out));
            CHECK(hybrid_judge(&c, out).ratio > 1);
            c.pairs.output[0] = row;
        }
        c.map[13] = -1; // the whole map lacks the first output's centre
        REQUIRE_OK(hybrid_run(&c, out));
        CHECK(hybrid_judge(&c, out).ratio > 1);
    }
}

TEST(hybrid_host_refuses) {
    random_state r = random_make(4);
    forms_scene<uint32_t> scene =
        forms_scene_random<uint32_t>(&r, forms_submanifold, kernel_cube(3, 1));
    hybrid_case good = hybrid_make(&r, &scene, 2);
    float *out = guarded_new<float>((int64_t)good.outputs * good.shape.cout);
    hybrid_epilogue(&good);
    auto run = [&](status_code code, const char *subject, auto spoil) {
        conv_hybrid_host_args args = hybrid_args(&good, out);
        spoil(&args);
        status got = conv_hybrid_host(&args);
        CHECK_STATUS(got, code);
        CHECK_EQUAL(got.subject, subject);
    };
    typedef conv_hybrid_host_args *to;
    run(status_bad_size, "threshold", [](to a) { a->threshold = -1; });
    run(status_bad_size, "shape.volume", [](to a) { a->shape.volume = 26; });
    run(status_bad_size, "shape.volume", [](to a) { a->kernel = kernel_cube(2, 1); });
    run(status_kernel_size, "kernel.size", [](to a) { a->kernel.size.y = 0; });
    run(status_bad_size, "shape.cin", [](to a) { a->shape.cin = 0; });
    run(status_null_pointer, "os", [](to a) { a->os = nullptr; });
    run(status_bad_size, "outputs", [](to a) { a->outputs = -1; });
    run(status_unsupported, "epilogue.act", [](to a) { a->epilogue.act = activation_count; });
    run(status_null_pointer, "in", [](to a) { a->in = nullptr; });
    run(status_null_pointer, "weight", [](to a) { a->weight = nullptr; });
    run(status_null_pointer, "pairs.begin", [](to a) { a->pairs.begin = nullptr; });
    run(status_null_pointer, "out", [](to a) { a->out = nullptr; });
    run(status_unsupported, "out (overlaps an input)", [](to a) { a->out = (float *)a->in; });
    CHECK_STATUS(conv_hybrid_host(nullptr), status_null_pointer);
    CHECK(guarded_untouched(out, 0, (int64_t)good.outputs * good.shape.cout));
    run(status_ok, "", [](to) {});
}
