// tests/gpu/cublas.cu: convolution by gather, cuBLAS products and scatter, against sums in double,
// each output within its bound (reference.h), and the same bits from run to run. A binary of its
// own, because it is linked with cuBLAS.
#include "../../spira/map.cuh"
#include "../support/cublas.cuh"

using namespace problems;

namespace {

// ---- random shapes ------------------------------------------------------------------------------

const int channels_edges[] = {1,  2,  3,  4,  5,  6,  7,  8,  9,  12, 15, 16,  17, 20,
                              24, 31, 32, 33, 40, 48, 63, 64, 65, 96, 97, 128, 130};

void check_random_shapes(numeric type, int problems) {
    blas *b = blas_make(0);
    for (int seed = 0; seed < problems; ++seed) {
        random_state random = random_make((uint64_t)(4 * seed + type));
        const int volume = random_int(&random, 1, 40);
        conv_shape s = shape_random(&random, volume, type, channels_edges);
        int32_t outputs = random_int(&random, 0, 150), inputs = random_int(&random, 0, 120);
        bool centre = random_int(&random, 0, 2) == 0;
        inputs = centre ? std::max(inputs, outputs) : inputs;
        ggs_problem p = ggs_problem_make(&random, s, inputs, outputs);
        const int percents[] = {0, 3, 15, 40, 80, 100};
        problem_fill_lists(&random, &p, percents[random_int(&random, 0, 5)]);
        if (centre) {
            problem_fill_centre(&p, random_int(&random, 0, s.volume - 1));
        }
        problem_fill_any_epilogue(&random, &p);
        p.room = random_int(&random, 0, 1) ? random_int(&random, 0, 300) : 0;
        p.options = options_random(&random, type);
        char what[32];
        snprintf(what, sizeof what, "seed %d", seed);
        ggs_problem_name(&p, what);
        ggs_problem_check(&p, b);
    }
    blas_free(b);
}

DEVICE_TEST(gpu_cublas_random_shapes_f32) {
    check_random_shapes(numeric_f32, test_quick() ? 6 : 120);
}

DEVICE_TEST(gpu_cublas_random_shapes_tf32) {
    check_random_shapes(numeric_tf32, test_quick() ? 6 : 120);
}

DEVICE_TEST(gpu_cublas_random_shapes_f16) {
    check_random_shapes(numeric_f16, test_quick() ? 6 : 120);
}

DEVICE_TEST(gpu_cublas_random_shapes_bf16) {
    check_random_shapes(numeric_bf16, test_quick() ? 6 : 120);
}

DEVICE_TEST(gpu_cublas_many_channels) {
    blas *b = blas_make(0);
    const int shapes[][4] = {{1, 1024, 0, 1024}, {2, 512, 512, 256},  {3, 1000, 24, 1000},
                             {3, 1023, 1, 5},    {2, 1, 0, 1024},     {2, 1024, 1024, 33},
                             {3, 3, 1024, 1023}, {5, 777, 333, 555},  {1, 4096, 0, 4096},
                             {2, 1040, 0, 1040}, {9, 4096, 4096, 33}, {9, 130, 0, 4096},
                             {3, 16, 2048, 2048}};
    for (auto &c : shapes) {
        for (numeric type : numerics) {
            if (test_quick() && c[0] * c[1] * c[3] > 100000) {
                continue;
            }
            random_state random = random_make((uint64_t)(c[1] + c[2] + type));
            conv_shape s = shape_make(c[0], c[1], c[2], c[3], type);
            ggs_problem p = ggs_problem_make(&random, s, 70, 66);
            problem_fill_lists(&random, &p, 90);
            problem_fill_centre(&p, s.volume / 2);
            problem_fill_epilogue(&random, &p, with_all, activation_relu);
            p.options = options_random(&random, type);
            ggs_problem_name(&p, "many channels");
            ggs_problem_check(&p, b);
        }
    }
    blas_free(b);
}

// ---- every rule, order and tile -----------------------------------------------------------------

DEVICE_TEST(gpu_cublas_every_rule_and_order) {
    blas *b = blas_make(0);
    for (numeric type : numerics) {
        for (int rule = ggs_rule_each; rule <= ggs_rule_grouped; ++rule) {
            for (ggs_order order : {ggs_order_rows, ggs_order_pairs}) {
                for (double waste : {0.0, 0.15, 1.0}) {
                    for (int volume : {5, 27, 150}) { // 150: more than one call of grouped products
                        if ((test_quick() && (volume != 27 || waste == 1)) ||
                            !has_rule((ggs_rule)rule, type)) {
                            continue;
                        }
                        random_state random = random_make((uint64_t)(volume + type + rule));
                        conv_shape s = shape_make(volume, 12, volume == 5 ? 6 : 0, 20, type);
                        ggs_problem p = ggs_problem_make(&random, s, 100, 90);
                        problem_fill_lists(&random, &p, 50);
                        problem_fill_centre(&p, volume / 2);
                        p.options.grouping = {(ggs_rule)rule, waste, INT32_MAX, false};
                        p.options.order = order;
                        ggs_problem_name(&p, "rule");
                        ggs_problem_check(&p, b);
                    }
                }
            }
        }
    }
    blas_free(b);
}

DEVICE_TEST(gpu_cublas_every_tile) {
    blas *b = blas_make(0);
    for (numeric type : numerics) {
        for (int gather : {1, 2, 4, 8}) {
            for (int scatter : {1, 2, 4, 8}) {
                for (int channels : {8, 36, 133}) {
                    if (test_quick() && (channels + gather + scatter) % 3) {
                        continue;
                    }
                    random_state random = random_make((uint64_t)(channels + type));
                    conv_shape s =
                        shape_make(4, channels, channels == 36 ? 9 : 0, channels + 4, type);
                    ggs_problem p = ggs_problem_make(&random, s, 50, 60);
                    problem_fill_lists(&random, &p, 70);
                    problem_fill_epilogue(&random, &p, with_all, activation_leaky);
                    p.options.gather_tile = gather;
                    p.options.scatter_tile = scatter;
                    p.options.order = gather == scatter ? ggs_order_pairs : ggs_order_rows;
                    ggs_problem_name(&p, "tile");
                    ggs_problem_check(&p, b);
                }
            }
        }
    }
    blas_free(b);
}

// Sizes that are known: what the plan makes of them.
DEVICE_TEST(gpu_cublas_plan_says_what_it_does) {
    random_state random = random_make(3);
    conv_shape s = shape_make(4, 8, 4, 8, numeric_f16);
    ggs_problem p = ggs_problem_make(&random, s, 40, 40);
    p.map.assign(40 * 4, -1);
    for (int32_t o = 0; o < 40;
         ++o) { // 40, 10, 12 and 1 pairs; offset 0 pairs rows with themselves
        p.map[(size_t)o * 4] = o;
        p.map[(size_t)o * 4 + 1] = o < 10 ? 39 - o : -1;
        p.map[(size_t)o * 4 + 2] = o < 12 ? 0 : -1;
        p.map[(size_t)o * 4 + 3] = o == 7 ? 7 : -1;
    }
    struct {
        ggs_grouping grouping;
        ggs_order order;
        bool direct;
        int rows, gathered, pads, groups, launches;
    } const wanted[] = {
        // gather, 3 products, 2 for the two sources, scatter
        {{ggs_rule_each, 0, 0, false}, ggs_order_rows, true, 63, 23, 0, 4, 7},
        {{ggs_rule_each, 0, 0, false}, ggs_order_rows, false, 63, 63, 0, 4, 6},
        {{ggs_rule_sorted, 0.1, 99, false}, ggs_order_rows, true, 65, 25, 1, 3, 6},
        {{ggs_rule_adaptive, 1, 99, false}, ggs_order_rows, true, 76, 36, 2, 2, 5},
        {{ggs_rule_adaptive, 1, 99, false}, ggs_order_rows, false, 160, 160, 3, 1, 3},
        // a memset, 4 additions, the epilogue
        {{ggs_rule_adaptive, 1, 12, false}, ggs_order_pairs, true, 63, 23, 0, 4, 12},
    };
    for (auto &w : wanted) {
        p.options.grouping = w.grouping;
        p.options.order = w.order;
        p.options.direct = w.direct;
        device_ggs d;
        device_ggs_make(&p, &d);
        layer_check(&p, &d.layer);
        CHECK_EQUAL(d.layer.direct, w.direct ? 0 : -1);
        CHECK_EQUAL(d.layer.rows, w.rows);
        CHECK_EQUAL(d.layer.gathered, w.gathered);
        CHECK_EQUAL(d.layer.pads, w.pads);
        CHECK_EQUAL(d.layer.groups.count, w.groups);
        CHECK_EQUAL(d.layer.launches, w.launches);
        guarded_finish();
    }
}

// tf32 rounds what it gathers, and an offset that pairs other rows is no centre.
DEVICE_TEST(gpu_cublas_direct_only_where_it_is_right) {
    for (numeric type : numerics) {
        random_state random = random_make(5);
        conv_shape s = shape_make(3, 8, 0, 8, type);
        ggs_problem p = ggs_problem_make(&random, s, 50, 40);
        problem_fill_lists(&random, &p, 100);
        problem_fill_centre(&p, 1);
        device_ggs d;
        device_ggs_make(&p, &d);
        CHECK_EQUAL(d.layer.direct, type == numeric_tf32 ? -1 : 1);
        p.map[39 * 3 + 1] = 38; // as many pairs, and one of them is another
        device_ggs_make(&p, &d);
        CHECK_EQUAL(d.layer.direct, -1);
        p.map[39 * 3 + 1] = -1; // one pair less
        device_ggs_make(&p, &d);
        CHECK_EQUAL(d.layer.direct, -1);
        guarded_finish();
    }
}

// ---- small and empty ----------------------------------------------------------------------------

DEVICE_TEST(gpu_cublas_empty_lists_and_single_pairs) {
    blas *b = blas_make(2);
    for (numeric type : numerics) {
        for (int pairs = 0; pairs <= 2; ++pairs) {
            for (int32_t outputs : {0, 1, 33}) {
                for (ggs_order order : {ggs_order_rows, ggs_order_pairs}) {
                    for (int rule = ggs_rule_each; rule <= ggs_rule_grouped; ++rule) {
                        if (!has_rule((ggs_rule)rule, type)) {
                            continue;
                        }
                        random_state random = random_make((uint64_t)(outputs + type));
                        conv_shape s = shape_make(pairs == 1 ? 1 : 9, 5, 0, 6, type);
                        ggs_problem p = ggs_problem_make(&random, s, outputs ? 4 : 0, outputs);
                        p.map.assign((size_t)(outputs * s.volume), -1);
                        for (int i = 0; i < pairs && outputs; ++i) { // one pair an offset
                            p.map[p.map.size() - 1 - (size_t)i] = 3;
                        }
                        problem_fill_epilogue(&random, &p, with_all, activation_relu);
                        p.options.grouping.rule = (ggs_rule)rule;
                        p.options.order = order;
                        ggs_problem_name(&p, "few pairs");
                        ggs_problem_check(&p, b);
                    }
                }
            }
        }
    }
    blas_free(b);
}

DEVICE_TEST(gpu_cublas_every_size) {
    blas *b = blas_make(0);
    for (int n : {1, 2, 31, 32, 33, 127, 128, 129, 255, 256, 257, 511, 513, 1025, 4097}) {
        if (test_quick() && n > 130) {
            continue;
        }
        for (numeric type : numerics) {
            random_state random = random_make((uint64_t)(4 * n + type));
            conv_shape s = shape_make(5, 9, 3, 20, type);
            ggs_problem p = ggs_problem_make(&random, s, n, n);
            problem_fill_lists(&random, &p, 40);
            problem_fill_centre(&p, 2);
            problem_fill_epilogue(&random, &p, with_residual | with_shift, activation_leaky);
            p.options = options_random(&random, type);
            ggs_problem_name(&p, "rows");
            ggs_problem_check(&p, b);
        }
    }
    blas_free(b);
}

// ---- the epilogue -------------------------------------------------------------------------------

DEVICE_TEST(gpu_cublas_every_epilogue) {
    blas *b = blas_make(0);
    for_each_epilogue([&](const epilogue_case &c, random_state random) {
        conv_shape s = shape_make(4, 10, c.what % 2 ? 7 : 0, c.what % 3 ? 21 : 24, c.type);
        ggs_problem p = ggs_problem_make(&random, s, 50, 77);
        problem_fill_lists(&random, &p, 30); // some rows have no tap: the epilogue alone
        problem_fill_case(&random, &p, c);
        p.options = options_random(&random, c.type);
        ggs_problem_name(&p, "epilogue");
        ggs_problem_check(&p, b);
    });
    blas_free(b);
}

// The residual may be the output itself.
DEVICE_TEST(gpu_cublas_residual_in_place) {
    blas *b = blas_make(0);
    for (numeric type : numerics) {
        for (int cout : {5, 16, 40}) {
            for (ggs_order order : {ggs_order_rows, ggs_order_pairs}) {
                random_state random = random_make((uint64_t)(cout + type));
                conv_shape s = shape_make(3, 12, 0, cout, type);
                ggs_problem p = ggs_problem_make(&random, s, 150, 190);
                problem_fill_lists(&random, &p, 50);
                problem_fill_epilogue(&random, &p, with_residual | with_bias, activation_relu);
                p.options.order = order;
                ggs_problem_name(&p, "in place");
                device_ggs d;
                device_ggs_make(&p, &d);
                CHECK_OK(device_ggs_start(&d, b));
                std::vector<char> apart = device_problem_fetch(&p, &d);
                features_refill(type, d.args.out, p.residual);
                d.args.epilogue.residual = d.args.out;
                CHECK_OK(device_ggs_start(&d, b));
                CHECK(device_problem_fetch(&p, &d) == apart);
                problem_good(&p, apart);
                guarded_finish();
            }
        }
    }
    blas_free(b);
}

// ---- addresses ----------------------------------------------------------------------------------

DEVICE_TEST(gpu_cublas_unaligned_pointers) {
    blas *b = blas_make(0);
    for (numeric type : numerics) {
        for (int channels : {8, 16, 33}) {
            for (int which = 0; which < 6; ++which) {
                for (int off : {1, 2, 3, 4}) {
                    if (test_quick() && (channels != 16 || off != 1)) {
                        continue;
                    }
                    random_state random = random_make((uint64_t)(channels + off + type));
                    conv_shape s = shape_make(3, channels, channels, channels, type);
                    ggs_problem p = ggs_problem_make(&random, s, 70, 70);
                    problem_fill_lists(&random, &p, 50);
                    if (off % 2) { // cuBLAS reads the features where they stand
                        problem_fill_centre(&p, 1);
                    }
                    problem_fill_epilogue(&random, &p, with_all, activation_none);
                    int *const moved[] = {&p.off.in, &p.off.in2, &p.off.out, &p.off.residual,
                                          &p.off.floats};
                    for (int m = 0; m < 5; ++m) {
                        *moved[m] = which == m || which == 5 ? off : 0;
                    }
                    char text[64];
                    snprintf(text, sizeof text, "pointer %d moved by %d", which, off);
                    ggs_problem_name(&p, text);
                    ggs_problem_check(&p, b);
                }
            }
        }
    }
    blas_free(b);
}

// ---- values -------------------------------------------------------------------------------------

// A NaN or an infinity reaches the outputs that have its row as a source, and no others: not
// through the padding of a batch, and not by channels beyond the end of a row.
DEVICE_TEST(gpu_cublas_special_values_stay_in_their_rows) {
    blas *b = blas_make(0);
    for (numeric type : numerics) {
        for (int channels : {5, 8, 24}) {
            for (float special : {NAN, INFINITY}) {
                random_state random = random_make((uint64_t)(channels + type));
                const int32_t bad = 20;
                conv_shape s = shape_make(6, channels, channels == 8 ? 0 : 3, 18, type);
                ggs_problem p = ggs_problem_make(&random, s, 50, 130);
                problem_fill_lists(&random, &p, 25);
                p.map[7] = p.map[150] = bad;
                p.options.grouping = {ggs_rule_sorted, 1.0, INT32_MAX, false}; // much padding
                for (int c = 0; c < channels; ++c) {
                    p.in[(size_t)(bad * channels + c)] = special;
                }
                ggs_problem_name(&p, "special");
                std::vector<char> out = ggs_problem_run(&p, b);
                ggs_problem rest = p; // the outputs without the special row, judged as always
                rest.map.clear();
                std::vector<float> kept;
                int touched = 0, wrong = 0;
                for (int32_t o = 0; o < p.outputs; ++o) {
                    const int32_t *taps = p.map.data() + o * s.volume;
                    bool has = std::find(taps, taps + s.volume, bad) != taps + s.volume;
                    touched += has;
                    if (!has) {
                        rest.map.insert(rest.map.end(), taps, taps + s.volume);
                    }
                    for (int c = 0; c < s.cout; ++c) {
                        float got = numeric_load(type, out.data(), o * s.cout + c);
                        wrong += has && isfinite(got);
                        if (!has) {
                            kept.push_back(got);
                        }
                    }
                }
                CHECK(touched > 0 && touched < p.outputs && wrong == 0);
                rest.outputs = p.outputs - touched;
                std::fill(rest.in.begin() + bad * channels, rest.in.begin() + (bad + 1) * channels,
                          0.0f);
                problem_good(&rest, features_store(type, kept));
            }
        }
    }
    blas_free(b);
}

// Terms that cancel, sums that overflow the format, values near its lower end.
DEVICE_TEST(gpu_cublas_small_large_and_cancelling_values) {
    blas *b = blas_make(0);
    for (numeric type : numerics) {
        for (float size : {3e-7f, 1e-4f, 300.0f, 20000.0f, 0.0f}) {
            random_state random = random_make((uint64_t)(type + 1));
            conv_shape s = shape_make(8, 40, 0, 24, type);
            ggs_problem p = ggs_problem_make(&random, s, 100, 150);
            problem_fill_lists(&random, &p, 60);
            reference_random_values(&random, type, size, (int64_t)p.in.size(), p.in.data());
            for (size_t i = 0; size == 0 && i < p.in.size(); ++i) {
                p.in[i] = numeric_stored(type, 1 + random_float(&random) / 64);
            }
            for (size_t i = 0; size == 0 && i < p.weight.size(); ++i) {
                float w = 1 + p.weight[i] / 64; // alternating signs of neighbouring channels
                p.weight[i] = i / (size_t)s.cout % 2 ? w : -w;
            }
            ggs_problem_name(&p, "values");
            ggs_problem_check(&p, b);
        }
    }
    blas_free(b);
}

DEVICE_TEST(gpu_cublas_weights_are_rounded_once) {
    for (numeric type : numerics) {
        conv_shape s = shape_make(3, 5, 2, 7, type);
        random_state random = random_make(9);
        std::vector<float> weight(3 * 7 * 7);
        for (float &w : weight) {
            w = random_float(&random);
        }
        weight[3] = NAN;
        weight[4] = INFINITY;
        const void *device = weights_store(&s, weight);
        int64_t bytes = (int64_t)weight.size() * numeric_size(type);
        char *stored = device_fetch((const char *)device, bytes);
        int64_t wrong = 0;
        for (size_t i = 0; i < weight.size(); ++i) {
            float got = numeric_load(type, stored, (int64_t)i);
            float wanted = numeric_operand(type, weight[i]);
            wrong += isnan(wanted) ? !isnan(got) : got != wanted;
        }
        CHECK_EQUAL(wrong, 0);
        CHECK_STATUS(ggs_weights_store(nullptr, (const float *)device, stored, stream_get()),
                     status_null_pointer);
        CHECK_STATUS(ggs_weights_store(&s, nullptr, stored, stream_get()), status_null_pointer);
        CHECK_STATUS(ggs_weights_store(&s, (const float *)device, nullptr, stream_get()),
                     status_null_pointer);
        CHECK_STATUS(ggs_weights_store(&s, (const float *)device, stored + 1, stream_get()),
                     status_alignment);
        s.cout = 0;
        CHECK_STATUS(ggs_weights_store(&s, (const float *)device, stored, stream_get()),
                     status_bad_size);
    }
}

// ---- streams ------------------------------------------------------------------------------------

DEVICE_TEST(gpu_cublas_lanes) {
    for (int lanes = 1; lanes <= lanes_most; ++lanes) {
        blas *b = blas_make(lanes);
        for (numeric type : numerics) {
            for (int rule = ggs_rule_each; rule <= ggs_rule_grouped; ++rule) {
                if (!has_rule((ggs_rule)rule, type)) {
                    continue;
                }
                random_state random = random_make((uint64_t)(lanes + type));
                conv_shape s = shape_make(27, 33, 10, 40, type);
                ggs_problem p = ggs_problem_make(&random, s, 400, 400);
                problem_fill_lists(&random, &p, 40);
                problem_fill_centre(&p, 13);
                problem_fill_epilogue(&random, &p, with_all, activation_relu);
                p.options.grouping.rule = (ggs_rule)rule;
                ggs_problem_name(&p, "lanes");
                ggs_problem_check(&p, b);
            }
        }
        blas_free(b);
    }
}

// A graph that is replayed with other features in the same memory.
void check_graph(const ggs_problem *p, blas *b, random_state *random) {
    device_ggs d;
    device_ggs_make(p, &d);
    CHECK_OK(device_ggs_start(&d, b)); // what is loaded late is loaded now
    std::vector<char> out = device_problem_fetch(p, &d);
    problem_good(p, out);
    cudaGraphExec_t replay = stream_capture([&](cudaStream_t stream) {
        blas_bind(b->pool.handle, stream, b->memory[b->pool.lanes]);
        CHECK_OK(ggs_run(&d.layer, &d.args, &b->pool, d.scratch, d.scratch_bytes, stream));
    });
    blas_bind(b->pool.handle, stream_get(), b->memory[b->pool.lanes]);
    REQUIRE(replay != nullptr);
    ggs_problem other = *p;
    for (int turn = 0; turn < 3; ++turn) {
        if (turn) {
            reference_random_values(random, p->shape.type, 1, (int64_t)other.in.size(),
                                    other.in.data());
        }
        features_refill(p->shape.type, d.args.in, other.in);
        CUDA_CHECK(cudaMemset(d.scratch, 0xff, d.scratch_bytes));
        CUDA_CHECK(cudaMemset(d.args.out, 0xff, out.size() - 1));
        CUDA_CHECK(cudaDeviceSynchronize());
        CUDA_CHECK(cudaGraphLaunch(replay, stream_get()));
        std::vector<char> again = device_problem_fetch(p, &d);
        problem_good(&other, again);
        CHECK(turn > 0 || again == out); // the same products, captured or not
    }
    CUDA_CHECK(cudaGraphExecDestroy(replay));
    guarded_finish();
}

DEVICE_TEST(gpu_cublas_in_a_graph) {
    for (int lanes : {0, 2}) {
        blas *b = blas_make(lanes);
        for (numeric type : numerics) {
            for (int rule = ggs_rule_each; rule <= ggs_rule_grouped; ++rule) {
                for (ggs_order order : {ggs_order_rows, ggs_order_pairs}) {
                    if (!has_rule((ggs_rule)rule, type) || (test_quick() && order && lanes)) {
                        continue;
                    }
                    random_state random = random_make((uint64_t)(rule + type));
                    conv_shape s = shape_make(27, 16, 0, 24, type);
                    ggs_problem p = ggs_problem_make(&random, s, 200, 200);
                    problem_fill_lists(&random, &p, 40);
                    problem_fill_centre(&p, 13);
                    problem_fill_epilogue(&random, &p, with_scale | with_shift, activation_relu);
                    p.options.grouping.rule = (ggs_rule)rule;
                    p.options.order = order;
                    ggs_problem_name(&p, "graph");
                    check_graph(&p, b, &random);
                }
            }
        }
        blas_free(b);
    }
}

// A plan waits for its stream, which a captured stream cannot: it says so, and the capture goes on.
DEVICE_TEST(gpu_cublas_plan_refuses_to_be_captured) {
    random_state random = random_make(2);
    conv_shape s = shape_make(2, 4, 0, 4, numeric_f16);
    ggs_problem p = ggs_problem_make(&random, s, 10, 10);
    problem_fill_lists(&random, &p, 60);
    device_ggs d;
    device_ggs_make(&p, &d);
    cudaGraphExec_t replay = stream_capture([&](cudaStream_t stream) {
        ggs_layer layer;
        CHECK_STATUS(ggs_plan(&p.shape, &d.map, &p.options, d.host, d.memory, d.memory_bytes,
                              &layer, stream),
                     status_unsupported);
    });
    if (CHECK(replay != nullptr)) {
        CUDA_CHECK(cudaGraphExecDestroy(replay));
    }
}

// ---- what is refused ----------------------------------------------------------------------------

DEVICE_TEST(gpu_cublas_plan_refuses) {
    for (numeric type : numerics) {
        random_state random = random_make(29);
        conv_shape s = shape_make(3, 6, 5, 7, type);
        ggs_problem p = ggs_problem_make(&random, s, 10, 12);
        problem_fill_lists(&random, &p, 50);
        p.options.grouping.rule = ggs_rule_adaptive;
        device_ggs d;
        device_ggs_make(&p, &d);
        struct {
            status_code code;
            void (*spoil)(conv_shape *, ggs_map *, ggs_options *);
        } const bad[] = {
            {status_null_pointer, [](auto *, ggs_map *m, auto *) { m->pairs.begin = nullptr; }},
            {status_null_pointer, [](auto *, ggs_map *m, auto *) { m->pairs.input = nullptr; }},
            {status_null_pointer, [](auto *, ggs_map *m, auto *) { m->pairs.output = nullptr; }},
            {status_null_pointer, [](auto *, ggs_map *m, auto *) { m->count = nullptr; }},
            {status_bad_size, [](auto *, ggs_map *m, auto *) { m->pairs.capacity = 0; }},
            {status_bad_size, [](auto *, ggs_map *m, auto *) { m->inputs = 0; }},
            {status_bad_size, [](auto *, ggs_map *m, auto *) { m->outputs = -1; }},
            {status_bad_size, [](conv_shape *c, auto *, auto *) { c->volume = 0; }},
            {status_bad_size, [](conv_shape *c, auto *, auto *) { c->volume = 3376; }},
            {status_bad_size, [](conv_shape *c, auto *, auto *) { c->cin = 0; }},
            {status_bad_size,
             [](conv_shape *c, auto *, auto *) { c->cin2 = conv_channels_max + 1; }},
            {status_bad_size,
             [](conv_shape *c, auto *, auto *) { c->cout = conv_channels_max + 1; }},
            {status_unsupported, [](conv_shape *c, auto *, auto *) { c->type = (numeric)9; }},
            {status_bad_size, [](auto *, auto *, ggs_options *o) { o->gather_tile = 3; }},
            {status_bad_size, [](auto *, auto *, ggs_options *o) { o->scatter_tile = 0; }},
            {status_unsupported, [](auto *, auto *, ggs_options *o) { o->order = (ggs_order)2; }},
            {status_unsupported,
             [](auto *, auto *, ggs_options *o) { o->grouping.rule = (ggs_rule)-1; }},
            {status_bad_size, [](auto *, auto *, ggs_options *o) { o->grouping.waste = 1.5; }},
            {status_bad_size, [](auto *, auto *, ggs_options *o) { o->grouping.small = -1; }},
        };
        ggs_layer layer;
        size_t bytes = 0;
        for (auto &b : bad) {
            conv_shape shape = p.shape;
            ggs_map map = d.map;
            ggs_options options = p.options;
            b.spoil(&shape, &map, &options);
            CHECK_STATUS(ggs_plan_workspace(&shape, &map, &options, &bytes), b.code);
            CHECK_STATUS(ggs_plan(&shape, &map, &options, d.host, d.memory, d.memory_bytes, &layer,
                                  stream_get()),
                         b.code);
        }
        ggs_options grouped = p.options;
        grouped.grouping.rule = ggs_rule_grouped;
        CHECK_STATUS(ggs_plan_workspace(&p.shape, &d.map, &grouped, &bytes),
                     has_rule(ggs_rule_grouped, type) ? status_ok : status_unsupported);
        CHECK_STATUS(ggs_plan_workspace(nullptr, &d.map, &p.options, &bytes), status_null_pointer);
        CHECK_STATUS(ggs_plan_workspace(&p.shape, nullptr, &p.options, &bytes),
                     status_null_pointer);
        CHECK_STATUS(ggs_plan_workspace(&p.shape, &d.map, nullptr, &bytes), status_null_pointer);
        CHECK_STATUS(ggs_plan_workspace(&p.shape, &d.map, &p.options, nullptr),
                     status_null_pointer);
        auto plan = [&](int32_t *host, char *memory, size_t given, ggs_layer *to) {
            return ggs_plan(&p.shape, &d.map, &p.options, host, memory, given, to, stream_get());
        };
        CHECK_STATUS(plan(nullptr, d.memory, d.memory_bytes, &layer), status_null_pointer);
        CHECK_STATUS(plan(d.host, d.memory, d.memory_bytes, nullptr), status_null_pointer);
        CHECK_STATUS(plan(d.host, nullptr, d.memory_bytes, &layer), status_null_pointer);
        CHECK_STATUS(plan(d.host, d.memory, d.memory_bytes - 1, &layer), status_workspace);
        CHECK_STATUS(plan(d.host, d.memory + 4, d.memory_bytes, &layer), status_alignment);
        CHECK_OK(plan(d.host, d.memory, d.memory_bytes, &layer));
        guarded_finish();
    }
}

// Lists that no map has: what the host sees of them is refused.
DEVICE_TEST(gpu_cublas_plan_refuses_lists_that_are_none) {
    random_state random = random_make(31);
    conv_shape s = shape_make(3, 4, 0, 4, numeric_f32);
    ggs_problem p = ggs_problem_make(&random, s, 10, 12);
    problem_fill_lists(&random, &p, 100);
    device_ggs d;
    device_ggs_make(&p, &d);
    const int32_t bad[][4] = {{1, 12, 24, 36}, {0, 12, 11, 36}, {0, 12, 24, 37}, {0, 12, 24, -1}};
    ggs_layer layer;
    for (auto &begin : bad) {
        device_copy_in(d.map.pairs.begin, begin, 4);
        CHECK_STATUS(ggs_plan(&p.shape, &d.map, &p.options, d.host, d.memory, d.memory_bytes,
                              &layer, stream_get()),
                     status_bad_size);
    }
    ggs_options mirrored = p.options; // 12, 11 and 13 pairs
    mirrored.grouping = {ggs_rule_adaptive, 0.1, 99, true};
    const int32_t uneven[4] = {0, 12, 23, 36};
    device_copy_in(d.map.pairs.begin, uneven, 4);
    CHECK_STATUS(ggs_plan(&p.shape, &d.map, &mirrored, d.host, d.memory, d.memory_bytes, &layer,
                          stream_get()),
                 status_bad_size);
}

DEVICE_TEST(gpu_cublas_run_refuses) {
    blas *b = blas_make(2);
    for (numeric type : numerics) {
        random_state random = random_make(37);
        conv_shape s = shape_make(3, 6, 5, 7, type);
        ggs_problem p = ggs_problem_make(&random, s, 10, 12);
        problem_fill_lists(&random, &p, 50);
        problem_fill_epilogue(&random, &p, with_all, activation_relu);
        device_ggs d;
        device_ggs_make(&p, &d);
        struct {
            status_code code;
            void (*spoil)(ggs_args *, ggs_pool *, ggs_lane *);
        } const bad[] = {
            {status_null_pointer, [](ggs_args *a, auto *, auto *) { a->in = nullptr; }},
            {status_null_pointer, [](ggs_args *a, auto *, auto *) { a->in2 = nullptr; }},
            {status_null_pointer, [](ggs_args *a, auto *, auto *) { a->weights = nullptr; }},
            {status_null_pointer, [](ggs_args *a, auto *, auto *) { a->out = nullptr; }},
            {status_alignment, [](ggs_args *a, auto *, auto *) { a->in = (char *)a->in + 1; }},
            {status_alignment, [](ggs_args *a, auto *, auto *) { a->in2 = (char *)a->in2 + 1; }},
            {status_alignment, [](ggs_args *a, auto *, auto *) { a->out = (char *)a->out + 1; }},
            {status_alignment,
             [](ggs_args *a, auto *, auto *) { a->weights = (char *)a->weights + 8; }},
            {status_alignment,
             [](ggs_args *a, auto *, auto *) {
                 a->epilogue.residual = (char *)a->epilogue.residual + 1;
             }},
            {status_alignment,
             [](ggs_args *a, auto *, auto *) {
                 a->epilogue.bias = (const float *)((char *)a->epilogue.bias + 2);
             }},
            {status_unsupported, [](ggs_args *a, auto *, auto *) { a->out = (void *)a->in; }},
            {status_unsupported, [](ggs_args *a, auto *, auto *) { a->out = (void *)a->in2; }},
            {status_unsupported,
             [](ggs_args *a, auto *, auto *) { a->epilogue.act = activation_count; }},
            {status_null_pointer, [](auto *, ggs_pool *q, auto *) { q->handle = nullptr; }},
            {status_null_pointer, [](auto *, ggs_pool *q, auto *) { q->lane = nullptr; }},
            {status_null_pointer, [](auto *, ggs_pool *q, auto *) { q->fork = nullptr; }},
            {status_bad_size, [](auto *, ggs_pool *q, auto *) { q->lanes = -1; }},
            {status_bad_size, [](auto *, ggs_pool *q, auto *) { q->lanes = 17; }},
            {status_unsupported, // the handle of another stream
             [](auto *, ggs_pool *q, ggs_lane *l) { q->handle = l->handle; }},
            {status_null_pointer, [](auto *, auto *, ggs_lane *l) { l[1].handle = nullptr; }},
            {status_null_pointer, [](auto *, auto *, ggs_lane *l) { l[1].done = nullptr; }},
            {status_unsupported, [](auto *, auto *, ggs_lane *l) { l[1].stream = l[0].stream; }},
            {status_unsupported,
             [](auto *, ggs_pool *q, ggs_lane *l) {
                 l[1].handle = q->handle;
                 l[1].stream = stream_get();
             }},
        };
        for (auto &c : bad) {
            ggs_args args = d.args;
            ggs_pool pool = b->pool;
            ggs_lane lane[lanes_most] = {b->lane[0], b->lane[1], b->lane[2]};
            pool.lane = lane;
            c.spoil(&args, &pool, lane);
            CHECK_STATUS(ggs_run(&d.layer, &args, &pool, d.scratch, d.scratch_bytes, stream_get()),
                         c.code);
        }
        check_cublas(cublasSetPointerMode(b->pool.handle, CUBLAS_POINTER_MODE_DEVICE), __LINE__);
        CHECK_STATUS(device_ggs_start(&d, b), status_unsupported);
        check_cublas(cublasSetPointerMode(b->pool.handle, CUBLAS_POINTER_MODE_HOST), __LINE__);
        auto run = [&](char *scratch, size_t given) {
            return ggs_run(&d.layer, &d.args, &b->pool, scratch, given, stream_get());
        };
        REQUIRE(d.scratch_bytes > 0);
        CHECK_STATUS(run(nullptr, d.scratch_bytes), status_null_pointer);
        CHECK_STATUS(run(d.scratch, d.scratch_bytes - 1), status_workspace);
        CHECK_STATUS(run(d.scratch + 16, d.scratch_bytes), status_alignment);
        size_t bytes = 0;
        CHECK_STATUS(ggs_run_workspace(nullptr, &bytes), status_null_pointer);
        CHECK_STATUS(ggs_run_workspace(&d.layer, nullptr), status_null_pointer);
        CHECK_STATUS(ggs_run(nullptr, &d.args, &b->pool, d.scratch, d.scratch_bytes, stream_get()),
                     status_null_pointer);
        CHECK_STATUS(ggs_run(&d.layer, nullptr, &b->pool, d.scratch, d.scratch_bytes, stream_get()),
                     status_null_pointer);
        CHECK_STATUS(ggs_run(&d.layer, &d.args, nullptr, d.scratch, d.scratch_bytes, stream_get()),
                     status_null_pointer);
        CHECK(device_untouched(d.out, 0, d.out_bytes));
        CHECK(device_untouched(d.scratch, 0, (int64_t)d.scratch_bytes));
        guarded_finish();
    }
    blas_free(b);
}

// ---- the test, tested ---------------------------------------------------------------------------

DEVICE_TEST(gpu_cublas_planted_errors_are_found) {
    blas *b = blas_make(0);
    for (numeric type : numerics) {
        random_state random = random_make(37);
        ggs_problem good = {problem_tight(&random, type), ggs_options_default()};
        problem_fill_lists(&random, &good, 100);
        check_planted_errors(good, [&](const ggs_problem *p) { return ggs_problem_run(p, b); });
    }
    blas_free(b);
}

// ---- maps of real layers ------------------------------------------------------------------------

// Lists that the GPU builds. Frees all buffers of the test.
template <typename W>
void check_scene(const forms_scene<W> *scene, ggs_problem *p, const blas *b, int line) {
    p->map = forms_map(scene);
    forms_wish wish = {false, false, false, true, false, 0, 0};
    wish = forms_wish_fit(wish, scene->kernel.size, p->map, p->room);
    forms_layer<W> l = forms_layer_make(scene, &wish, p->room, &forms_device);
    size_t bytes = 0;
    CHECK_OK(map_lists_workspace(&scene->kernel, l.outputs.capacity, &bytes));
    const map_request<W> request = forms_request_of(&l);
    const map_lists pairs = forms_pairs_of(&l);
    CHECK_OK(map_build_lists(&l.layout, &request, &pairs, device_new<char>((int64_t)bytes), bytes,
                             stream_get()));
    device_ggs d;
    device_ggs_make(p, {forms_pairs_of(&l), l.source.capacity, l.outputs.count, l.outputs.capacity},
                    &d);
    layer_check(p, &d.layer);
    CHECK_OK(device_ggs_start(&d, b));
    std::vector<char> out = device_problem_fetch(p, &d);
    problem_good(p, out, __FILE__, line);
    CHECK(device_problem_untouched(p, &d));
    guarded_finish();
}

// Submanifold, strided, transposed and foreign sets.
DEVICE_TEST(gpu_cublas_scenes) {
    blas *b = blas_make(1);
    for (int seed = 0; seed < (test_quick() ? 8 : 120); ++seed) {
        random_state random = random_make((uint64_t)(1000 + seed));
        forms_kind kind = (forms_kind)(seed % forms_kinds);
        numeric type = numerics[seed / forms_kinds % 4];
        kernel_shape kernel = reference_random_kernel(&random, 3, 2, {1, 1, 1});
        forms_scene<uint32_t> scene = forms_scene_random<uint32_t>(&random, kind, kernel);
        conv_shape s =
            shape_make(kernel_volume(&scene.kernel), channels_random(&random, channels_edges), 0,
                       channels_random(&random, channels_edges), type);
        s.cin2 = seed % 3 ? 0 : channels_random(&random, channels_edges);
        ggs_problem p = ggs_problem_make(&random, s, (int32_t)scene.source.size(),
                                         (int32_t)scene.outputs.size());
        p.room = random_int(&random, 0, 1) ? 40 : 0;
        problem_fill_epilogue(&random, &p, random_int(&random, 0, with_all), activation_relu);
        p.options = options_random(&random, type);
        p.options.grouping.mirrored =
            scene.same && !scene.kernel.transposed && kernel_is_odd(&scene.kernel);
        ggs_problem_name(&p, scene.name);
        check_scene(&scene, &p, b, __LINE__);
    }
    blas_free(b);
}

DEVICE_TEST(gpu_cublas_real_scan) {
    word_layout layout;
    std::vector<uint32_t> words = reference_scan<uint32_t>("kitti00_000000_5cm.vox32", 16, &layout);
    if (words.empty()) {
        SKIP("the .vox32 files of data/ are not here");
    }
    if (test_quick()) {
        words.resize(3000);
    }
    blas *b = blas_make(3);
    kernel_shape kernel = kernel_cube(3, 1);
    forms_scene<uint32_t> scene = forms_scene_make("scan", &layout, &kernel, words);
    for (numeric type : numerics) {
        for (ggs_rule rule : {ggs_rule_each, ggs_rule_adaptive, ggs_rule_sorted}) {
            random_state random = random_make(19);
            conv_shape s = shape_make(27, 16, 0, 24, type);
            int32_t rows = (int32_t)words.size();
            ggs_problem p = ggs_problem_make(&random, s, rows, rows);
            problem_fill_epilogue(&random, &p, with_scale | with_shift | with_residual,
                                  activation_relu);
            p.options.grouping = {rule, 0.3, 1 << 15, rule == ggs_rule_adaptive};
            ggs_problem_name(&p, "scan");
            check_scene(&scene, &p, b, __LINE__);
        }
    }
    blas_free(b);
}

} // namespace

TEST_MAIN
