// tests/gpu/conv.cu: convolution on the GPU against sums in double, each output within its bound
// (reference.h), and the same bits from run to run.
#include "../../spira/conv.cuh"
#include "../support/devices.h"
#include "../support/problems.cuh"

using namespace problems;

namespace {

// ---- random shapes ------------------------------------------------------------------------------

const int channels_edges[] = {1,  2,  3,  4,  5,   7,   8,   9,   12,  15,  16,  17, 23, 24,
                              25, 31, 32, 33, 40,  47,  48,  49,  63,  64,  65,  66, 79, 80,
                              81, 95, 96, 97, 100, 111, 112, 113, 127, 128, 129, 130};

void check_random_shapes(numeric type, int problems) {
    for (int seed = 0; seed < problems; ++seed) {
        random_state random = random_make((uint64_t)(4 * seed + type));
        conv_shape s = shape_random(&random, 1, type, channels_edges);
        kernel_shape kernel = reference_random_kernel(&random, 4, 1, {1, 1, 1});
        s.volume = kernel_volume(&kernel);
        bool identity = seed % 10 == 0;
        s.volume = identity ? 1 : s.volume;
        int32_t outputs = random_int(&random, 0, 150), inputs = random_int(&random, 0, 120);
        inputs = identity ? outputs : inputs;
        // A large capacity takes other forms of the kernel than the few tiles of a small one.
        int32_t room = random_int(&random, 0, 3) ? random_int(&random, 0, 100) : 40000;
        room = room > 100 && s.volume > 12 ? 2100 : room;
        int32_t capacity = outputs + room > 0 ? outputs + room : 1;
        problem p = problem_make(&random, s, inputs, outputs, capacity);
        p.identity = identity;
        if (!identity) {
            const int percents[] = {0, 3, 15, 40, 80, 100};
            problem_fill_map(&random, &p, percents[random_int(&random, 0, 5)]);
        }
        problem_fill_any_epilogue(&random, &p);
        char what[32];
        snprintf(what, sizeof what, "seed %d", seed);
        problem_name(&p, what);
        problem_check(&p);
    }
}

DEVICE_TEST(gpu_conv_random_shapes_f32) {
    check_random_shapes(numeric_f32, test_quick() ? 6 : 150);
}

DEVICE_TEST(gpu_conv_random_shapes_tf32) {
    check_random_shapes(numeric_tf32, test_quick() ? 6 : 150);
}

DEVICE_TEST(gpu_conv_random_shapes_f16) {
    check_random_shapes(numeric_f16, test_quick() ? 6 : 150);
}

DEVICE_TEST(gpu_conv_random_shapes_bf16) {
    check_random_shapes(numeric_bf16, test_quick() ? 6 : 150);
}

// ---- channels and rows, each on its own ---------------------------------------------------------

// Every count of 1 to 130 on each side; the other sides around their edges.
DEVICE_TEST(gpu_conv_every_channel_count) {
    const int others[] = {1, 3, 8, 15, 16, 17, 31, 32, 33, 64, 65};
    for (int c = 1; c <= 130; ++c) {
        if (test_quick() && c % 31 != 16) {
            continue;
        }
        for (numeric type : numerics) {
            random_state random = random_make((uint64_t)(4 * c + type));
            int other = others[c % 11], second = c % 3 ? 0 : others[(c / 3) % 11];
            for (int side = 0; side < 3; ++side) {
                conv_shape s = shape_make(2, c, second, other, type);
                if (side == 1) {
                    s.cin = other;
                    s.cout = c;
                } else if (side == 2) {
                    s.cin = other;
                    s.cin2 = c;
                    s.cout = others[c * 7 % 11];
                }
                problem p = problem_make(&random, s, 13, 21, side == 1 && c % 8 < 2 ? 40000 : 21);
                problem_fill_map(&random, &p, 70);
                problem_name(&p, "channels");
                problem_check(&p);
            }
        }
    }
}

DEVICE_TEST(gpu_conv_many_channels) {
    const int shapes[][4] = {{1, 1024, 0, 1024}, {2, 512, 512, 256},  {2, 1000, 24, 1000},
                             {3, 1023, 1, 5},    {2, 1, 0, 1024},     {1, 1024, 1024, 33},
                             {1, 3, 1024, 1023}, {27, 256, 128, 256}, {1, 777, 333, 555},
                             {1, 4096, 0, 4096}, {2, 1040, 0, 1040},  {9, 4096, 4096, 33},
                             {9, 130, 0, 4096},  {3, 16, 2048, 2048}};
    for (auto &c : shapes) {
        for (numeric type : numerics) {
            if (test_quick() && c[0] * (c[1] + c[2]) * c[3] > 30000) {
                continue;
            }
            random_state random = random_make((uint64_t)(c[1] + c[2] + type));
            conv_shape s = shape_make(c[0], c[1], c[2], c[3], type);
            problem p = problem_make(&random, s, 70, 66, type == numeric_f16 ? 5000 : 66);
            p.identity = s.volume == 1;
            problem_fill_map(&random, &p, 50);
            problem_fill_epilogue(&random, &p, with_all, activation_relu);
            problem_name(&p, "many channels");
            problem_check(&p);
        }
    }
}

DEVICE_TEST(gpu_conv_every_size) {
    const int sizes[] = {0,    1,    2,    7,    8,    9,    31,   32,   33,  63,
                         64,   65,   127,  128,  129,  255,  256,  257,  511, 513,
                         1023, 1024, 1025, 1087, 1089, 2047, 2048, 2049, 4097};
    for (int n : sizes) {
        if (test_quick() && n > 130) {
            continue;
        }
        for (numeric type : numerics) {
            for (int room : {0, 1, 1500}) {
                random_state random = random_make((uint64_t)(4 * n + type));
                conv_shape s = shape_make(room == 1 ? 1 : 5, 9, room ? 0 : 3, 20, type);
                int32_t capacity = n + room > 0 ? n + room : 1;
                problem p = problem_make(&random, s, room == 1 ? n : n / 2 + 1, n, capacity);
                p.identity = room == 1;
                problem_fill_map(&random, &p, 40);
                problem_fill_epilogue(&random, &p, with_residual | with_shift, activation_leaky);
                problem_name(&p, "rows");
                problem_check(&p);
            }
        }
    }
}

// A count beyond the capacity: as many outputs as there is room for.
DEVICE_TEST(gpu_conv_clamps_the_count) {
    for (numeric type : numerics) {
        for (int32_t capacity : {1, 63, 64, 100, 128}) {
            for (int which = 0; which < 4; ++which) {
                if (test_quick() && capacity != 63 && capacity != 100) {
                    continue;
                }
                random_state random = random_make((uint64_t)(capacity + type));
                const int volume = which % 2 ? 5 : 1;
                conv_shape s = shape_make(volume, 40, 0, which < 2 ? 20 : 40, type);
                problem p = problem_make(&random, s, capacity, capacity, capacity);
                p.identity = volume == 1;
                problem_fill_map(&random, &p, 60);
                problem_name(&p, "clamped");
                device_problem d;
                device_problem_make(&p, &d);
                for (int32_t told : {capacity + 1, capacity + 64, INT32_MAX}) {
                    d.map.count = device_upload(&told, 1);
                    CHECK_OK(device_problem_start(&d));
                    std::vector<char> out = device_problem_fetch(&p, &d);
                    problem_good(&p, out);
                }
                guarded_finish();
            }
        }
    }
}

// Many tiles: every width of a warp's share of the output channels, one chunk of channels or two.
DEVICE_TEST(gpu_conv_many_tiles) {
    const int couts[] = {16, 17, 32, 33, 48, 49, 64, 65, 96, 97, 128, 130};
    const int cins[] = {4, 16, 24, 32, 33, 64, 65, 130};
    int turn = 0;
    for (int cout : couts) {
        for (numeric type : numerics) {
            int cin = cins[turn++ % 8];
            if (test_quick() && (cout > 33 || turn % 3)) {
                continue;
            }
            random_state random = random_make((uint64_t)(4 * cout + type));
            conv_shape s = shape_make(3, cin, turn % 3 ? 0 : 16, cout, type);
            int32_t outputs = test_quick() ? 100 : 1500;
            problem p = problem_make(&random, s, 700, outputs, 40000);
            problem_fill_map(&random, &p, 30);
            problem_fill_epilogue(&random, &p, turn % 16, activation_relu);
            problem_name(&p, "tiles");
            problem_check(&p);
        }
    }
}

// ---- the epilogue -------------------------------------------------------------------------------

DEVICE_TEST(gpu_conv_every_epilogue) {
    for_each_epilogue([](const epilogue_case &c, random_state random) {
        for (int more : {0, 30}) { // channels
            int cout = more + (c.what % 3 ? 21 : 24);
            conv_shape s = shape_make(4, 10 + more, c.what % 2 ? 7 : 0, cout, c.type);
            problem p = problem_make(&random, s, 50, 77, 80);
            problem_fill_map(&random, &p, 30); // some rows have no tap: the epilogue alone
            problem_fill_case(&random, &p, c);
            char text[64];
            snprintf(text, sizeof text, "epilogue %d, activation %d", c.what, c.act);
            problem_name(&p, text);
            problem_check(&p);
        }
    });
}

// The residual may be the output itself.
DEVICE_TEST(gpu_conv_residual_in_place) {
    for (numeric type : numerics) {
        for (int cout : {5, 16, 40, 66}) {
            random_state random = random_make((uint64_t)(cout + type));
            conv_shape s = shape_make(3, cout < 40 ? 12 : cout, 0, cout, type);
            problem p = problem_make(&random, s, 150, 190, 200);
            problem_fill_map(&random, &p, 50);
            problem_fill_epilogue(&random, &p, with_residual | with_bias, activation_relu);
            problem_name(&p, "in place");
            device_problem d;
            device_problem_make(&p, &d);
            CHECK_OK(device_problem_start(&d));
            std::vector<char> apart = device_problem_fetch(&p, &d);
            features_refill(type, d.args.out, p.residual);
            d.args.epilogue.residual = d.args.out;
            CHECK_OK(device_problem_start(&d));
            CHECK(device_problem_fetch(&p, &d) == apart);
            problem_good(&p, apart);
            guarded_finish();
        }
    }
}

// ---- addresses ----------------------------------------------------------------------------------

// Arrays that start at any element: the right sums, or a refusal that says so.
DEVICE_TEST(gpu_conv_unaligned_pointers) {
    for (numeric type : numerics) {
        for (int channels :
             {8, 16, 32, 33, 64}) { // rows that could be read wide, were they aligned
            for (int which = 0; which < 6; ++which) {
                for (int off : {1, 2, 3, 4}) {
                    if (test_quick() && (channels != 16 || off != 1)) {
                        continue;
                    }
                    random_state random = random_make((uint64_t)(channels + off + type));
                    conv_shape s = shape_make(3, channels, channels, channels, type);
                    problem p = problem_make(&random, s, 40, 70, off % 2 ? 70 : 40000);
                    problem_fill_map(&random, &p, 50);
                    problem_fill_epilogue(&random, &p, with_all, activation_none);
                    int *const moved[] = {&p.off.in, &p.off.in2, &p.off.out, &p.off.residual,
                                          &p.off.floats};
                    for (int m = 0; m < 5; ++m) {
                        *moved[m] = which == m || which == 5 ? off : 0;
                    }
                    char text[64];
                    snprintf(text, sizeof text, "pointer %d moved by %d", which, off);
                    problem_name(&p, text);
                    device_problem d;
                    device_problem_make(&p, &d);
                    status said = device_problem_start(&d);
                    if (said.code != status_alignment) {
                        CHECK_OK(said);
                        std::vector<char> out = device_problem_fetch(&p, &d);
                        problem_good(&p, out);
                        CHECK(device_problem_untouched(&p, &d));
                    } else {
                        CHECK(device_untouched(d.out, 0, d.out_bytes));
                    }
                    guarded_finish();
                }
            }
        }
    }
}

// A pointer between two elements is refused: reading it would end the context.
DEVICE_TEST(gpu_conv_refuses_pointers_between_elements) {
    for (numeric type : numerics) {
        random_state random = random_make(3);
        conv_shape s = shape_make(2, 16, 16, 16, type);
        problem p = problem_make(&random, s, 10, 10, 10);
        problem_fill_map(&random, &p, 50);
        problem_fill_epilogue(&random, &p, with_residual, activation_none);
        device_problem d;
        device_problem_make(&p, &d);
        const conv_args good = d.args;
        int half = numeric_size(type) / 2;
        d.args.in = (const char *)good.in + half;
        CHECK_STATUS(device_problem_start(&d), status_alignment);
        d.args = good;
        d.args.in2 = (const char *)good.in2 + half;
        CHECK_STATUS(device_problem_start(&d), status_alignment);
        d.args = good;
        d.args.out = (char *)good.out + half;
        CHECK_STATUS(device_problem_start(&d), status_alignment);
        d.args = good;
        d.args.epilogue.residual = (const char *)good.epilogue.residual + half;
        CHECK_STATUS(device_problem_start(&d), status_alignment);
        d.args = good;
        d.args.weights = (const char *)good.weights + 4;
        CHECK_STATUS(device_problem_start(&d), status_alignment);
        CHECK(device_untouched(d.out, 0, d.out_bytes));
    }
}

// ---- values -------------------------------------------------------------------------------------

// A NaN or an infinity reaches the outputs that have its row as a source, and no others: not by
// the row that stands in for "no source", and not by channels beyond the end of a row.
DEVICE_TEST(gpu_conv_special_values_stay_in_their_rows) {
    for (numeric type : numerics) {
        for (int channels : {5, 8, 16, 24, 32, 33, 64}) {
            for (float special : {NAN, INFINITY}) {
                for (int32_t bad : {0, 20, 49}) {
                    if (test_quick() && bad == 49 && channels % 8 == 0) {
                        continue;
                    }
                    random_state random = random_make((uint64_t)(channels + bad + type));
                    conv_shape s =
                        shape_make(4, channels, channels == 8 || channels % 32 == 0 ? 0 : 3,
                                   channels < 32 ? 18 : 40, type);
                    problem p = problem_make(&random, s, 50, 130, 140);
                    problem_fill_map(&random, &p, 15);
                    p.map[7] = p.map[150] = bad;
                    problem_fill_epilogue(&random, &p, with_shift, activation_relu);
                    for (int c = 0; c < channels; ++c) {
                        p.in[(size_t)(bad * channels + c)] = special;
                    }
                    problem_name(&p, "special");
                    std::vector<char> out = problem_run(&p);
                    int touched = 0, wrong = 0;
                    problem rest = p; // the outputs without the special row, judged as always
                    rest.map.clear();
                    std::vector<float> kept;
                    for (int32_t o = 0; o < p.outputs; ++o) {
                        const int32_t *taps = p.map.data() + o * s.volume;
                        if (std::find(taps, taps + s.volume, bad) == taps + s.volume) {
                            rest.map.insert(rest.map.end(), taps, taps + s.volume);
                            for (int c = 0; c < s.cout; ++c) {
                                kept.push_back(numeric_load(type, out.data(), o * s.cout + c));
                            }
                            continue;
                        }
                        ++touched;
                        for (int c = 0; c < s.cout; ++c) { // inf - inf may be NaN; ReLU of -inf: 0
                            float got = numeric_load(type, out.data(), o * s.cout + c);
                            wrong += isnan(special) ? !isnan(got) : isfinite(got) && got != 0;
                        }
                    }
                    CHECK(touched > 0 && wrong == 0);
                    rest.outputs = p.outputs - touched;
                    std::fill(rest.in.begin() + bad * channels,
                              rest.in.begin() + (bad + 1) * channels, 0.0f);
                    problem_good(&rest, features_store(type, kept));
                }
            }
        }
    }
}

// Features near the ends of the formats: subnormal halves, and sums that overflow them.
DEVICE_TEST(gpu_conv_small_and_large_values) {
    for (numeric type : numerics) {
        for (float size : {3e-7f, 1e-4f, 300.0f, 20000.0f}) {
            for (int cout : {24, 48}) {
                random_state random = random_make((uint64_t)(type + 1));
                conv_shape s = shape_make(5, 40, 0, cout, type);
                problem p = problem_make(&random, s, 100, 150, 150);
                problem_fill_map(&random, &p, 60);
                reference_random_values(&random, type, size, (int64_t)p.in.size(), p.in.data());
                char text[64];
                snprintf(text, sizeof text, "size %g", (double)size);
                problem_name(&p, text);
                problem_check(&p);
            }
        }
    }
}

// Terms that cancel: what is left shows how the sum was kept. In fp16 sums it would be noise.
DEVICE_TEST(gpu_conv_cancelling_terms) {
    for (numeric type : numerics) {
        random_state random = random_make(17);
        conv_shape s = shape_make(8, 64, 0, 32, type);
        problem p = problem_make(&random, s, 80, 100, 100);
        problem_fill_map(&random, &p, 100);
        for (size_t i = 0; i < p.in.size(); ++i) {
            p.in[i] = numeric_stored(type, 1 + p.in[i] / 64);
        }
        for (size_t i = 0; i < p.weight.size(); ++i) {
            float w = 1 + p.weight[i] / 64; // alternating signs of neighbouring channels
            p.weight[i] = i / (size_t)s.cout % 2 ? w : -w;
        }
        problem_name(&p, "cancelling");
        problem_check(&p);
    }
}

// ---- maps of real layers ------------------------------------------------------------------------

DEVICE_TEST(gpu_conv_submanifold_strided_inverse) {
    random_state random = random_make(7);
    triple lo = triple_make(-12, -12, -12), hi = triple_make(12, 12, 12);
    word_layout layout = reference_layout<uint32_t>(lo, hi, 2, {2, 2, 2}, {4, 4, 4});
    std::vector<uint32_t> fine(test_quick() ? 150 : 3000);
    fine.resize((size_t)reference_random_set<uint32_t>(&random, &layout, lo, hi, {1, 1, 1},
                                                       (int32_t)fine.size(), fine.data()));
    std::vector<uint32_t> coarse = forms_floored(&layout, fine, {2, 2, 2});
    for (numeric type : numerics) {
        for (int size : {1, 2, 3, 5}) {
            if (test_quick() && size > 3) {
                continue;
            }
            for (int form = 0; form < 3; ++form) { // same set, to the coarse one, to the fine one
                const std::vector<uint32_t> &from = form == 2 ? coarse : fine;
                const std::vector<uint32_t> &to = form == 1 ? coarse : fine;
                kernel_shape k = kernel_cube(size, 1);
                k.transposed = form == 2;
                conv_shape s = shape_make(kernel_volume(&k), 16, form == 2 ? 16 : 0, 24, type);
                problem p = problem_make(&random, s, (int32_t)from.size(), (int32_t)to.size(),
                                         (int32_t)to.size() + 5);
                problem_map_sets(&p, &k, &layout, from, to);
                problem_fill_epilogue(&random, &p, with_scale | with_shift, activation_relu);
                char text[64];
                snprintf(text, sizeof text, "K = %d, form %d", size, form);
                problem_name(&p, text);
                problem_check(&p);
            }
        }
    }
}

// A convolution on a grid by coordinates alone, in double: no map, no layout, no sets.
DEVICE_TEST(gpu_conv_agrees_with_a_dense_convolution) {
    const int n = 7, cin = 5, cout = 6, size = 3;
    const kernel_shape kernel = kernel_cube(size, 1);
    word_layout layout =
        reference_layout<uint32_t>({0, 0, 0}, {n - 1, n - 1, n - 1}, 1, {1, 1, 1}, {1, 1, 1});
    for (int filled : {10, 50, 100}) { // percent
        for (numeric type : numerics) {
            random_state random = random_make((uint64_t)(filled + type));
            std::vector<uint32_t> words;
            std::vector<int> place(n * n * n, -1); // the row of each cell
            for (int cell = 0; cell < n * n * n; ++cell) {
                if (random_int(&random, 0, 99) < filled) {
                    place[(size_t)cell] = (int)words.size();
                    words.push_back(
                        word_pack<uint32_t>(&layout, {0, cell / (n * n), cell / n % n, cell % n}));
                }
            }
            int32_t rows = (int32_t)words.size();
            conv_shape s = shape_make(size * size * size, cin, 0, cout, type);
            problem p = problem_make(&random, s, rows, rows, rows);
            problem_map_sets(&p, &kernel, &layout, words, words);
            problem_name(&p, "dense");
            std::vector<char> out = problem_run(&p);
            double worst = 0;
            for (int cell = 0; cell < n * n * n; ++cell) {
                for (int c = 0; c < cout && place[(size_t)cell] >= 0; ++c) {
                    double sum = 0, magnitude = 0;
                    for (int k = 0; k < s.volume; ++k) {
                        int x = cell / (n * n) + k / 9 - 1, y = cell / n % n + k / 3 % 3 - 1,
                            z = cell % n + k % 3 - 1;
                        bool inside = x >= 0 && y >= 0 && z >= 0 && x < n && y < n && z < n;
                        int row = inside ? place[(size_t)((x * n + y) * n + z)] : -1;
                        for (int i = 0; i < cin && row >= 0; ++i) {
                            double term =
                                (double)numeric_operand(type, p.in[(size_t)(row * cin + i)]) *
                                (double)numeric_operand(
                                    type, p.weight[(size_t)((k * cin + i) * cout + c)]);
                            sum += term;
                            magnitude += fabs(term);
                        }
                    }
                    float got = numeric_load(type, out.data(), place[(size_t)cell] * cout + c);
                    bool half = numeric_size(type) == 2;
                    double bound = 2.0 * 139 * magnitude / (1 << 24) +
                                   (half ? numeric_epsilon(type) * fabs(sum) : 0) + 1e-7;
                    worst = std::max(worst, fabs((double)got - sum) / bound);
                }
            }
            CHECK(worst <= 1);
            CHECK(filled < 100 || rows == n * n * n);
        }
    }
}

void check_real_scan(const char *name, int size, int cin, int cout, numeric type) {
    word_layout layout;
    std::vector<uint32_t> words = reference_scan<uint32_t>(name, 16, &layout);
    REQUIRE(!words.empty());
    kernel_shape k = kernel_cube(size, 1);
    int32_t rows = (int32_t)words.size();
    random_state random = random_make(19);
    conv_shape s = shape_make(kernel_volume(&k), cin, 0, cout, type);
    problem p = problem_make(&random, s, rows, rows, rows);
    problem_map_sets(&p, &k, &layout, words, words);
    problem_fill_epilogue(&random, &p, with_scale | with_shift | with_residual, activation_relu);
    problem_name(&p, name);
    problem_check(&p);
}

DEVICE_TEST(gpu_conv_real_scans) {
    const char *kitti = "kitti00_000000_5cm.vox32";
    NEED_SCANS("lone_star_5cm.vox32", "kitti00_000000_5cm.vox32");
    check_real_scan(kitti, 3, 4, 16, numeric_bf16);
    if (!test_quick()) {
        check_real_scan(kitti, 3, 32, 32, numeric_f16);
        check_real_scan(kitti, 3, 16, 48, numeric_tf32);
        check_real_scan(kitti, 3, 16, 16, numeric_f32);
        check_real_scan(kitti, 5, 16, 20, numeric_f16);
        check_real_scan("lone_star_5cm.vox32", 3, 16, 16, numeric_f16);
    }
}

// ---- the path without tensor cores --------------------------------------------------------------

// GPUs whose tensor cores do not know a format take the plain path; it knows all of them.
DEVICE_TEST(gpu_conv_plain_path_knows_every_format) {
    for (numeric type : numerics) {
        for (int seed = 0; seed < (test_quick() ? 3 : 30); ++seed) {
            random_state random = random_make((uint64_t)(4 * seed + type));
            conv_shape s = shape_make(1, channels_random(&random, channels_edges), 0,
                                      channels_random(&random, channels_edges), type);
            s.cin2 = seed % 3 ? 0 : channels_random(&random, channels_edges);
            s.volume = seed % 5 ? 6 : 1;
            problem p = problem_make(&random, s, 90, 90, 100);
            p.identity = s.volume == 1;
            problem_fill_map(&random, &p, 40);
            problem_fill_epilogue(&random, &p, random_int(&random, 0, with_all), activation_leaky);
            problem_name(&p, "plain path");
            device_problem d;
            device_problem_make(&p, &d);
            const int64_t total = conv_exact_weights(&s);
            float *plain = device_new<float>(total);
            const float *weight = device_upload(p.weight.data(), (int64_t)p.weight.size());
            const conv_pack_request request = {gpu(), s,      conv_kernel_exact, weight, 0,
                                               plain, nullptr};
            CHECK_OK(conv_pack_launch(&request, total, 0, conv_exact_pack_kernel<0>, stream_get()));
            d.args.weights = plain;
            conv_params params = conv_params_of(gpu(), &d.args, conv_kernel_exact);
            params.sizes = exact_sizes_choose(&s);
            CHECK_OK(numeric_dispatch<numeric_any>(type, [&](auto tag) {
                return exact_run<typename decltype(tag)::element>(params, stream_get());
            }));
            std::vector<char> out = device_problem_fetch(&p, &d);
            problem_good(&p, out);
            CHECK(device_problem_untouched(&p, &d));
            guarded_finish();
        }
    }
}

// ---- how the work is cut ------------------------------------------------------------------------

const numeric tensor_numerics[] = {numeric_tf32, numeric_f16, numeric_bf16};

// The ways to cut a problem: all that are listed, or each `stride`th.
std::vector<conv_sizes> sizes_listed(const problem *p, int stride = 1) {
    std::vector<conv_sizes> all(conv_sizes_most), some;
    int count = conv_sizes_list(&p->shape, gpu(), all.data());
    CHECK(count > 0 && count <= conv_sizes_most);
    for (int i = p->outputs % std::min(stride, count); i < count; i += stride) {
        some.push_back(all[(size_t)i]);
    }
    return some;
}

// A problem and how it is cut.
struct sizes_text {
    char text[400];
};

sizes_text sizes_name(const problem *p, const conv_sizes *s) {
    sizes_text name;
    snprintf(name.text, sizeof name.text, "%s; %d tiles, %d slices, split %d, depth %d", p->name,
             s->tiles, s->slices, s->split, s->depth);
    return name;
}

void sizes_check(bool good, const problem *p, const conv_sizes *s, const char *what,
                 int line = __builtin_LINE()) {
    char text[512];
    snprintf(text, sizeof text, "%s: %s", sizes_name(p, s).text, what);
    test_check(good, __FILE__, line, text);
}

// One run over poison: its outputs, and nothing beyond them.
std::vector<char> sizes_run(const problem *p, device_problem *d, const conv_sizes *size) {
    if (!test_environment("SPIRA_UNPOISONED")) {
        CUDA_CHECK(cudaMemset(d->out, guarded_poison, (size_t)d->out_bytes));
        CUDA_CHECK(cudaDeviceSynchronize());
    }
    d->args.sizes = size;
    status said = device_problem_start(d);
    sizes_check(!status_failed(said), p, size, status_string(said.code));
    std::vector<char> out = device_problem_fetch(p, d);
    sizes_check(device_problem_untouched(p, d), p, size, "a write beside the outputs");
    return out;
}

void sizes_judge(const problem *p, const conv_sizes *size, const std::vector<char> &out) {
    reference_conv_good(problem_judge(p, out.data()), sizes_name(p, size).text);
}

// Runs a problem cut in each of these ways, twice: within the bound, the same bits, and the same
// for all ways that do not split the list of a tile, or that split it alike: whatever the tiles and
// slices of a block, a sum is added up in one order. Frees all buffers of the test.
void check_sizes(const problem *p, const std::vector<conv_sizes> &sizes) {
    device_problem d;
    device_problem_make(p, &d);
    struct {
        const conv_sizes *size;
        std::vector<char> out;
    } judged[5] = {}; // by their split
    for (const conv_sizes &size : sizes) {
        std::vector<char> out = sizes_run(p, &d, &size);
        sizes_check(sizes_run(p, &d, &size) == out, p, &size, "other bits than before");
        REQUIRE(size.split >= 1 && size.split <= 4);
        auto &known = judged[size.split];
        bool same = known.size && known.out == out;
        sizes_check(same || !known.size, p, &size, "other bits than cut otherwise");
        if (!same) {
            sizes_judge(p, &size, out);
            known.size = &size;
            known.out = out;
        }
    }
    guarded_finish();
}

// Layers as they are in networks, and odd ones; the maps are random.
DEVICE_TEST(gpu_conv_every_way_to_cut) {
    const int layers[][3] = {{16, 0, 16},   {32, 0, 32},   {64, 0, 64},     {96, 0, 96},
                             {128, 0, 128}, {256, 0, 256}, {32, 0, 64},     {128, 0, 64},
                             {64, 64, 64},  {128, 96, 96}, {256, 128, 256}, {16, 16, 32},
                             {1, 0, 1},     {4, 0, 32},    {5, 3, 33},      {17, 0, 47},
                             {33, 31, 65},  {65, 0, 97},   {100, 7, 129},   {255, 1, 257}};
    int turn = 0;
    for (auto &c : layers) {
        const int products = (c[0] + c[1]) * c[2];
        for (int volume : {27, 125, 1}) {
            for (bool identity : {false, true}) {
                numeric type = tensor_numerics[turn++ % 3];
                if (identity && volume > 1) {
                    continue;
                }
                if (test_quick() && (products > 2200 || volume != 27 || turn / 6 % 2)) {
                    continue;
                }
                random_state random = random_make((uint64_t)turn);
                conv_shape s = shape_make(volume, c[0], c[1], c[2], type);
                int32_t outputs = test_quick() ? 130 : products > 10000 ? 300 : 1300;
                int32_t inputs = identity ? outputs : 250;
                problem p = problem_make(&random, s, inputs, outputs, outputs + 70);
                p.identity = identity;
                problem_fill_map(&random, &p, volume == 125 ? 15 : 35);
                problem_fill_epilogue(&random, &p, turn % 16, (activation)(turn % 3));
                problem_name(&p, "cut");
                check_sizes(&p, sizes_listed(&p, test_quick() ? 9 : 1));
            }
        }
    }
}

// Each form of the kernel: the type, one pair of blocks of output channels or two, one chunk of
// input channels, two or more, and how rows lie: whole chunks, multiples of 16 bytes, any, and two
// sources.
DEVICE_TEST(gpu_conv_every_form) {
    int turn = 0;
    for (numeric type : tensor_numerics) {
        const int chunk = 64 / numeric_size(type);
        for (int cout : {8, 16, 24, 48}) {
            for (int chunks : {1, 2, 3, 5}) {
                for (int lie = 0; lie < 5; ++lie) {
                    if (test_quick() && turn++ % 23) {
                        continue;
                    }
                    random_state random = random_make((uint64_t)(100 * cout + 10 * chunks + lie));
                    const int less[] = {0, chunk / 4, 1, 0, chunk / 2 + 1};
                    conv_shape s = shape_make(7, chunks * chunk - less[lie], 0, cout, type);
                    if (lie > 2) { // of two sources
                        s.cin = (chunks / 2 + 1) * chunk - less[(lie + cout) % 3];
                        s.cin2 = (chunks + 1) / 2 * chunk - less[lie];
                    }
                    problem p = problem_make(&random, s, 150, test_quick() ? 100 : 400, 400);
                    problem_fill_map(&random, &p, 35);
                    problem_fill_epilogue(&random, &p, with_scale, activation_relu);
                    problem_name(&p, "form");
                    check_sizes(&p, sizes_listed(&p, test_quick() ? 11 : 1));
                }
            }
        }
    }
}

// Lists with few of the offsets, with all; with more offsets than a byte counts.
DEVICE_TEST(gpu_conv_many_offsets) {
    int turn = 0;
    for (int volume : {32, 33, 64, 128, 129, 343, 3375}) {
        for (int percent : {0, 2, 40}) {
            for (int cin : {9, 40, 160}) {
                numeric type = numerics[turn++ % 4];
                if (test_quick() && (volume > 130 || turn % 5)) {
                    continue;
                }
                random_state random = random_make((uint64_t)turn);
                conv_shape s = shape_make(volume, cin, 0, turn % 2 ? 12 : 36, type);
                s.cin = volume > 1000 && cin > 40 ? 72 : cin;
                problem p = problem_make(&random, s, 90, 200, 230);
                problem_fill_map(&random, &p, percent);
                problem_fill_epilogue(&random, &p, with_bias, activation_none);
                problem_name(&p, "offsets");
                check_sizes(&p, sizes_listed(&p, test_quick() ? 13 : 1));
            }
        }
    }
}

// The same bits as of the sizes that are chosen.
DEVICE_TEST(gpu_conv_chosen_sizes) {
    for (numeric type : numerics) {
        for (int channels : {16, 33, 128}) {
            for (int32_t capacity : {300, 40000}) {
                if (test_quick() && (channels != 33 || capacity != 300)) {
                    continue;
                }
                random_state random = random_make((uint64_t)(channels + type));
                conv_shape s = shape_make(27, channels, 0, channels, type);
                problem p = problem_make(&random, s, 200, 280, capacity);
                problem_fill_map(&random, &p, 30);
                problem_name(&p, "chosen");
                device_problem d;
                device_problem_make(&p, &d);
                CHECK_OK(device_problem_start(&d));
                std::vector<char> out = device_problem_fetch(&p, &d);
                problem_good(&p, out);
                const conv_sizes size = conv_sizes_choose(&s, capacity, gpu());
                sizes_check(sizes_run(&p, &d, &size) == out, &p, &size, "other bits");
                guarded_finish();
            }
        }
    }
}

// What does not fit is refused, and nothing is written.
DEVICE_TEST(gpu_conv_refuses_sizes) {
    for (numeric type : tensor_numerics) {
        if (!conv_uses_tensor(type, gpu()->capability)) {
            SKIP("needs sm_80: sizes are of the tensor cores");
        }
        random_state random = random_make(31);
        conv_shape s = shape_make(27, numeric_size(type) == 4 ? 60 : 70, 0, 96, type);
        const conv_sizes bad[] = {
            {0, 1, 1, 1},  {-1, 1, 1, 1},      {-1, -1, 1, 1},     {1, 0, 1, 1}, {1, -1, 1, 1},
            {9, 1, 1, 1},  {4, 3, 1, 1},       {4, 1, 4, 1},       {1, 3, 4, 1}, {1, 1, 0, 1},
            {1, 1, -1, 1}, {1, 1, 3, 1},       {1, 1, 8, 1},       {2, 3, 1, 1}, {1, 5, 1, 1},
            {1, 3, 2, 1},  {1 << 30, 1, 4, 1}, {1, 1 << 30, 4, 1},
        };
        const conv_sizes hopper_bad[] = {
            // the first is good without warpgroups
            {2, 1, 1, 1},  {1, 1, 2, 1}, {1, 1, 4, 1},
            {1, 5, 1, 1},  {1, 6, 1, 1}, {1, 7, 1, 1},
            {1, 8, 1, 1},  {1, 9, 1, 1}, {1, (1 << 27) + 1, 1, 1},
            {1, 3, 2, 1},  {1, 2, 4, 1}, {1, 2, 0, 1},
            {1, 2, -1, 1}, {1, 8, 2, 1},
        };
        problem p = problem_make(&random, s, 100, 150, 150);
        problem_fill_map(&random, &p, 30);
        problem_name(&p, "refused");
        device_problem d;
        device_problem_make(&p, &d);
        auto refused = [&](const conv_sizes &size) {
            d.args.sizes = &size;
            sizes_check(device_problem_start(&d).code == status_unsupported, &p, &size,
                        "is not refused");
        };
        bool hopper = hopper_takes(&s, gpu());
        std::for_each(std::begin(bad), std::end(bad), refused);
        if (hopper) {
            std::for_each(std::begin(hopper_bad), std::end(hopper_bad), refused);
        }
        CHECK(device_untouched(d.out, 0, d.out_bytes));
        // A depth that is not the layer's is refused or does no harm.
        for (int other : {-4, 0, 1, 2, 3, 8}) {
            conv_sizes size = {1, 3, 1, other};
            d.args.sizes = &size;
            status said = device_problem_start(&d);
            if (said.code != status_unsupported) {
                sizes_check(!status_failed(said), &p, &size, status_string(said.code));
                sizes_judge(&p, &size, device_problem_fetch(&p, &d));
            }
        }
        guarded_finish();
    }
}

// Few channels are cut in three ways.
DEVICE_TEST(gpu_conv_refuses_sizes_of_few_channels) {
    for (numeric type : {numeric_f16, numeric_bf16}) {
        conv_shape s = shape_make(27, 12, 0, 16, type);
        if (conv_kernel_of(&s, gpu()) != conv_kernel_narrow) {
            SKIP("needs sm_80");
        }
        random_state random = random_make(33);
        problem p = problem_make(&random, s, 100, 150, 150);
        problem_fill_map(&random, &p, 30);
        problem_name(&p, "refused, few channels");
        device_problem d;
        device_problem_make(&p, &d);
        const conv_sizes bad[] = {{2, 1, 1, 1}, {0, 1, 1, 1}, {1, 2, 1, 1}, {1, 0, 1, 1},
                                  {1, 1, 3, 1}, {1, 1, 8, 1}, {1, 1, 0, 1}};
        for (const conv_sizes &size : bad) {
            d.args.sizes = &size;
            sizes_check(device_problem_start(&d).code == status_unsupported, &p, &size,
                        "is not refused");
        }
        CHECK(device_untouched(d.out, 0, d.out_bytes));
        guarded_finish();
    }
}

// Exact sums have the same bits, however they are cut.
DEVICE_TEST(gpu_conv_sizes_of_exact_sums) {
    random_state random = random_make(43);
    conv_shape s = shape_make(27, 20, 0, 40, numeric_f32);
    problem p = problem_make(&random, s, 100, 150, 150);
    problem_fill_map(&random, &p, 30);
    problem_name(&p, "exact");
    std::vector<char> out = problem_run(&p);
    device_problem d;
    device_problem_make(&p, &d);
    for (const conv_sizes &size : sizes_listed(&p, 5)) {
        CHECK(sizes_run(&p, &d, &size) == out);
    }
}

// What is listed fits, once each.
std::vector<conv_sizes> sizes_of_device(const conv_shape *s, const device_info *d) {
    std::vector<conv_sizes> sizes(conv_sizes_most);
    int count = conv_sizes_list(s, d, sizes.data());
    CHECK(count > 0 && count <= conv_sizes_most);
    sizes.resize((size_t)std::max(count, 0));
    for (size_t a = 0; a < sizes.size(); ++a) {
        CHECK(conv_sizes_fit(s, d, &sizes[a]));
        for (size_t b = 0; b < a; ++b) {
            CHECK(memcmp(&sizes[a], &sizes[b], sizeof sizes[a]) != 0);
        }
    }
    return sizes;
}

// What is not listed does not fit.
void check_only(const conv_shape *s, const device_info *d, const std::vector<conv_sizes> &listed) {
    for (int i = 0; i < 12 * 12 * 6; ++i) {
        conv_sizes c = {i / 72 - 1, i / 6 % 12 - 1, i % 6, 1};
        bool in_list = false;
        for (const conv_sizes &size : listed) {
            in_list = in_list || memcmp(&c, &size, sizeof c) == 0;
        }
        CHECK_EQUAL(conv_sizes_fit(s, d, &c), in_list);
    }
}

// The blocks that registers allow have the shared memory that they ask for, and a stage for each
// warp that fetches.
void check_hopper_fits(const conv_shape *s, const device_info *d) {
    std::vector<conv_sizes> listed = sizes_of_device(s, d);
    CHECK(d->hopper);
    for (const conv_sizes &size : listed) {
        int columns = 32 * size.slices, row = hopper_stage_row(s);
        int stages = hopper_stages(columns, row, &size, d->shared_max);
        int bytes =
            hopper_memory_bytes(columns, row, size.split, stages) + (int)sizeof(hopper_shared);
        CHECK(stages >= hopper_teams && stages <= hopper_stages_most);
        CHECK(bytes <= d->shared_max);
        CHECK(hopper_resident(columns, size.tiles) * (bytes + 1024) <= d->shared_max + 1024);
    }
    check_only(s, d, listed);
}

// Three ways to share places, and no other fits.
void check_few_fits(const conv_shape *s, const device_info *d) {
    std::vector<conv_sizes> listed = sizes_of_device(s, d);
    CHECK_EQUAL(listed.size(), (size_t)3);
    check_only(s, d, listed);
}

// What is listed fits, and so does what is chosen, whatever the device.
TEST(conv_sizes_fit_the_device) {
    const device_info devices[] = {
        device_made(80, 108, 166912, false),  device_made(86, 82, 101376, false),
        device_made(87, 16, 166912, false),   device_made(89, 128, 101376, false),
        device_made(90, 132, 232448, false),  device_made(90, 132, 232448, true),
        device_made(100, 148, 232448, false), device_made(120, 170, 101376, false)};
    random_state random = random_make(47);
    const int most[] = {40, 130, 1024};
    int kernels[4] = {};
    for (int i = 0; i < 500; ++i) {
        conv_shape s = shape_make(random_int(&random, 1, random_int(&random, 0, 1) ? 40 : 3375),
                                  random_int(&random, 1, most[random_int(&random, 0, 2)]), 0,
                                  random_int(&random, 1, most[random_int(&random, 0, 2)]),
                                  tensor_numerics[i % 3]);
        s.cin2 = i % 5 ? 0 : random_int(&random, 1, 1024);
        for (const device_info &d : devices) {
            const conv_kernel kernel = conv_kernel_of(&s, &d);
            ++kernels[kernel];
            if (kernel == conv_kernel_hopper) {
                check_hopper_fits(&s, &d);
            } else if (kernel == conv_kernel_narrow) {
                check_few_fits(&s, &d);
            } else {
                check_only(&s, &d, sizes_of_device(&s, &d));
            }
            for (int32_t capacity : {1, 100, 3000, 100000, 10000000, INT32_MAX / 2}) {
                const conv_sizes chosen = conv_sizes_choose(&s, capacity, &d);
                CHECK(conv_sizes_fit(&s, &d, &chosen));
                CHECK_EQUAL(chosen.depth, 1);
            }
        }
    }
    CHECK(kernels[conv_kernel_exact] > 20 && kernels[conv_kernel_portable] > 20 &&
          kernels[conv_kernel_hopper] > 20 && kernels[conv_kernel_narrow] > 20);
}

// Code for devices without the instructions decides, where a newer device has to take it.
TEST(conv_capability_of_the_code) {
    CHECK_EQUAL(device_code_capability(90, 75), 75);
    CHECK_EQUAL(device_code_capability(75, 75), 75);
    CHECK_EQUAL(device_code_capability(90, 80), 90);
    CHECK_EQUAL(device_code_capability(120, 90), 120);
    CHECK_EQUAL(device_code_capability(70, 70), 70);
}

// A GPU that this file is not compiled for: refused by name.
TEST(conv_gpu_without_code) {
    const device_info turing = device_made(75, 40, 65536, false);
    conv_shape s = shape_make(1, 16, 0, 16, numeric_f16);
    alignas(256) static char memory[65536];
    const int32_t count = 1;
    const conv_map map = conv_map_identity(&count, 1);
    conv_args args = {};
    args.shape = s;
    args.map = &map;
    args.in = memory;
    args.weights = memory;
    args.out = memory + 256;
    if (!device_code_within(0, 79)) {
        const status said = shared_conv.conv_f16(&turing, &args, nullptr);
        CHECK_STATUS(said, status_unsupported);
        CHECK(strstr(said.subject, "gpu") != nullptr);
    }
    CHECK(conv_compiled(conv_kernel_exact, numeric_f16));
}

// On an H200: 256 output channels at a time where there are tiles for all thread blocks, or for all
// pairs of them, which then share a tile each; fewer channels at a time where there are not.
TEST(conv_hopper_sizes_of_many_channels) {
    const device_info d = device_made(90, 132, 232448, true);
    const struct {
        int volume, cin, cout;
        int32_t capacity;
        conv_sizes wanted;
    } layers[] = {
        {27, 256, 256, 33664, {1, 8, 2, 1}}, // 263 tiles
        {27, 256, 256, 33665, {1, 8, 1, 1}}, {27, 256, 256, 14534, {1, 8, 2, 1}},
        {27, 256, 256, 8449, {1, 8, 2, 1}}, // 67
        {27, 256, 256, 8448, {1, 4, 2, 1}},  {27, 256, 512, 4224, {1, 4, 2, 1}},
        {27, 256, 512, 4225, {1, 8, 2, 1}},  {27, 256, 384, 14534, {1, 4, 1, 1}},
        {8, 256, 256, 14534, {1, 4, 1, 1}},  {27, 128, 128, 14534, {1, 4, 2, 1}},
        {27, 128, 128, 31757, {1, 4, 1, 1}},
    };
    for (const auto &l : layers) {
        const conv_shape s = shape_make(l.volume, l.cin, 0, l.cout, numeric_f16);
        const conv_sizes c = hopper_sizes_choose(&s, l.capacity, &d);
        char name[80];
        snprintf(name, sizeof name, "%d,%d,%d of %d: %d slices, split %d", l.volume, l.cin, l.cout,
                 (int)l.capacity, c.slices, c.split);
        test_check(memcmp(&c, &l.wanted, sizeof c) == 0, __FILE__, __LINE__, name);
    }
}

// What Hopper's kernel has of an offset in a stage: half of one, a whole one, 96 channels where
// that leaves fewer of them empty and thread blocks have 96 output channels. Sources begin at a
// multiple of 8 channels, and weights are as many as the parts have channels.
TEST(conv_hopper_chunks) {
    const struct {
        int cin, cin2, cout, part, parts;
    } expected[] = {
        {32, 0, 32, 64, 1},    {16, 16, 64, 64, 1},   {17, 8, 64, 64, 1},   {17, 9, 64, 128, 1},
        {33, 0, 64, 128, 1},   {32, 0, 65, 128, 1},   {64, 0, 96, 128, 1},  {65, 0, 96, 192, 1},
        {96, 0, 96, 192, 1},   {96, 0, 65, 192, 1},   {96, 0, 64, 128, 2},  {96, 0, 97, 128, 2},
        {97, 0, 96, 128, 2},   {96, 32, 96, 128, 2},  {96, 25, 96, 128, 2}, {96, 33, 96, 128, 3},
        {32, 64, 96, 192, 1},  {64, 32, 96, 192, 1},  {1, 88, 80, 192, 1},  {1, 89, 80, 128, 2},
        {128, 0, 96, 128, 2},  {160, 0, 96, 128, 3},  {96, 96, 96, 128, 3}, {192, 0, 96, 128, 3},
        {128, 96, 96, 128, 4}, {160, 97, 96, 192, 3}, {288, 0, 96, 192, 3}, {289, 0, 96, 128, 5},
    };
    for (auto &e : expected) {
        const conv_shape s = shape_make(5, e.cin, e.cin2, e.cout, numeric_f16);
        CHECK_EQUAL(hopper_chunk_bytes(&s), e.part);
        CHECK_EQUAL(hopper_chunks(&s), e.parts);
        CHECK_EQUAL(hopper_stages_of_tile(&s), e.part == 64 ? 3 : 5 * e.parts);
        CHECK_EQUAL(conv_packed_bytes(&s, conv_kernel_hopper),
                    (size_t)(5 * e.parts * e.part) * ((e.cout + 15) / 16 * 16));
    }
}

// Channels around the edges of chunks, blocks and slices, in random combination; arrays that start
// at any element; cut as it is chosen, and otherwise.
DEVICE_TEST(gpu_conv_channel_edges) {
    const int edges[] = {1,  7,  8,  9,  15,  16,  17,  31,  32,  33,  63,  64,
                         65, 95, 96, 97, 127, 128, 129, 255, 256, 257, 1024};
    const int count = (int)(sizeof edges / sizeof *edges);
    for (int seed = 0; seed < (test_quick() ? 40 : 250); ++seed) {
        random_state random = random_make((uint64_t)(1000 + seed));
        conv_shape s = shape_make(1, edges[random_int(&random, 0, count - 1)], 0,
                                  edges[random_int(&random, 0, count - 1)], numerics[seed % 4]);
        s.cin2 = random_int(&random, 0, 1) ? edges[random_int(&random, 0, count - 1)] : 0;
        const int volumes[] = {27, 8, 2, 1};
        const int products = (s.cin + s.cin2) * s.cout;
        if (test_quick() && (products > 5000 || seed % 3)) {
            continue;
        }
        for (int i = random_int(&random, 0, 3); i < 4; ++i) {
            s.volume = volumes[i];
            if ((int64_t)products * s.volume < 2000000) {
                break;
            }
        }
        int32_t outputs = random_int(&random, 1, test_quick() ? 140 : 400);
        problem p = problem_make(&random, s, s.volume == 1 ? outputs : random_int(&random, 1, 200),
                                 outputs, outputs + random_int(&random, 0, 90));
        p.identity = s.volume == 1 && seed % 2;
        problem_move(&random, &p);
        problem_fill_map(&random, &p, random_int(&random, 5, 100));
        problem_fill_any_epilogue(&random, &p);
        char text[64];
        snprintf(text, sizeof text, "edges, seed %d", seed);
        problem_name(&p, text);
        problem_check(&p);
        if (s.type != numeric_f32) {
            check_sizes(&p, sizes_listed(&p, test_quick() ? 17 : 7));
        }
    }
}

// ---- the ordered layout -------------------------------------------------------------------------

const numeric half_numerics[] = {numeric_f16, numeric_bf16};

// Which kernel computes a layer follows from the shape and the device.
DEVICE_TEST(gpu_conv_kernel_of) {
    for (int volume : {1, 8, 27, 32, 33, 125, 1024, 1025, 3375}) {
        for (int channels : {1, 16, 31, 32, 33, 63, 64, 65, 128, 1024}) {
            for (numeric type : numerics) {
                const conv_shape s = shape_make(volume, channels, 0, channels, type);
                const conv_kernel kernel = conv_kernel_of(&s, gpu());
                const bool few = narrow_takes(&s, gpu()), recent = gpu()->capability >= 80;
                CHECK_EQUAL(few, numeric_size(type) == 2 && recent && channels <= 32);
                CHECK(kernel != conv_kernel_narrow || few);
                CHECK(kernel != conv_kernel_hopper || hopper_takes(&s, gpu()));
                CHECK_EQUAL(kernel == conv_kernel_exact, !few && (!recent || volume > 1024));
                CHECK(kernel != conv_kernel_hopper ||
                      (numeric_size(type) == 2 && gpu()->capability == 90));
            }
        }
    }
    for (const conv_shape &s :
         {shape_make(27, 33, 0, 8, numeric_f16), // one channel too many
          shape_make(27, 8, 0, 33, numeric_f16), shape_make(27, 8, 1, 8, numeric_f16)}) {
        CHECK(!narrow_takes(&s, gpu()));
    }
    const conv_shape s = shape_make(27, 64, 0, 64, numeric_f16);
    CHECK_EQUAL(conv_kernel_of(&s, gpu()) == conv_kernel_hopper, gpu()->hopper);
}

// Volumes and channels on both sides of where other kernels begin.
DEVICE_TEST(gpu_conv_ordered_edges_of_shapes) {
    const int channels[][3] = {{31, 0, 32},   {32, 0, 31}, {32, 0, 32}, {16, 16, 32}, {31, 33, 63},
                               {63, 0, 64},   {64, 0, 63}, {64, 0, 64}, {33, 32, 65}, {65, 0, 100},
                               {100, 29, 97}, {16, 0, 16}, {17, 0, 16}, {16, 0, 17},  {33, 0, 16},
                               {16, 0, 33},   {8, 8, 8},   {4, 0, 32}};
    int turn = 0;
    for (int volume : {1, 2, 31, 32, 33, 64, 65, 1023, 1024, 1025}) {
        for (auto &c : channels) {
            if (test_quick() && (volume > 65 || ++turn % 17)) {
                continue;
            }
            random_state random = random_make((uint64_t)(volume + c[0] + c[2]));
            conv_shape s = shape_make(volume, c[0], c[1], c[2], half_numerics[(volume + c[0]) % 2]);
            problem p = problem_make(&random, s, 90, 200, 270);
            problem_fill_map(&random, &p, volume > 65 ? 2 : 30);
            problem_fill_epilogue(&random, &p, with_scale | with_shift, activation_relu);
            problem_name(&p, "edges of shapes");
            check_sizes(&p, sizes_listed(&p));
        }
    }
}

// Input channels around the parts of a row and the 16 bytes of a copy, output channels around what
// a block computes; one source or two; arrays that start at any element or at a multiple of 16
// bytes.
DEVICE_TEST(gpu_conv_ordered_edges_of_channels) {
    const int edges[] = {32,  33,  39,  40,  41,  63,  64,  65,  72,  95,  96,  97,  104, 127, 128,
                         129, 136, 159, 160, 161, 192, 193, 255, 256, 257, 288, 289, 511, 512, 513};
    const int count = (int)(sizeof edges / sizeof *edges);
    int turn = 0;
    for (int cin : edges) {
        for (int which = 0; which < 4; ++which) {
            if (test_quick() && (cin > 130 || ++turn % 9)) {
                continue;
            }
            random_state random = random_make((uint64_t)(4 * cin + which));
            conv_shape s =
                shape_make(which == 3 ? 1 : 9, cin, 0, edges[random_int(&random, 0, count - 1)],
                           half_numerics[which % 2]);
            s.cin2 = which == 2 ? edges[random_int(&random, 0, count - 1)] : 0;
            s.cout = test_quick() ? std::min(s.cout, 65) : s.cout;
            problem p = problem_make(&random, s, 200, 200, 220);
            p.identity = which == 3;
            const int offs[] = {0, 8, 1, random_int(&random, 0, 15)};
            for (int *off : {&p.off.in, &p.off.in2, &p.off.out, &p.off.residual, &p.off.floats}) {
                *off = offs[random_int(&random, 0, 3)];
            }
            problem_fill_map(&random, &p, 40);
            problem_fill_epilogue(&random, &p, random_int(&random, 0, with_all), activation_leaky);
            problem_name(&p, "edges of channels");
            check_sizes(&p, sizes_listed(&p, test_quick() ? 2 : 1));
        }
    }
}

// Two sources that share a part or not, parts of 96 channels and what is next to them; each source
// aligned or not; rows of 64 bytes behind those of 128, of which some or all read as zeros.
DEVICE_TEST(gpu_conv_ordered_parts) {
    const int channels[][2] = {{65, 0},  {71, 1},  {72, 0},   {80, 0},  {88, 8},   {95, 0},
                               {96, 0},  {97, 0},  {64, 32},  {32, 64}, {31, 57},  {8, 88},
                               {1, 80},  {96, 32}, {32, 96},  {96, 96}, {128, 96}, {100, 29},
                               {160, 0}, {288, 0}, {160, 97}, {16, 16}, {17, 8},   {8, 24}};
    const int couts[] = {96, 65, 80, 72, 95, 64, 97, 32};
    int turn = 0;
    for (auto &c : channels) {
        for (int cout : couts) {
            const bool always = cout == 96 && c[0] + c[1] == 96 && c[0] % 32 == 0;
            if (++turn % 17 && !always && test_quick()) { // all output channels have their turn
                continue;
            }
            random_state random = random_make((uint64_t)(1000 * c[0] + 10 * c[1] + cout));
            const int outputs = 64 * random_int(&random, 0, 6) + random_int(&random, 1, 64);
            conv_shape s = shape_make(random_int(&random, 2, 30), c[0], c[1], cout,
                                      half_numerics[random_int(&random, 0, 1)]);
            problem p = problem_make(&random, s, 200, outputs, outputs + 20);
            const int offs[] = {0, 0, 8, 1};
            for (int *off : {&p.off.in, &p.off.in2, &p.off.out, &p.off.residual}) {
                *off = offs[random_int(&random, 0, 3)];
            }
            problem_fill_map(&random, &p, random_int(&random, 0, 1) ? 40 : 3);
            problem_fill_epilogue(&random, &p, random_int(&random, 0, with_all), activation_relu);
            problem_name(&p, "parts");
            check_sizes(&p, sizes_listed(&p, test_quick() ? 4 : 1));
        }
    }
}

// Shapes whose offsets share a stage, fill one, or take more than one, and the identity.
const conv_shape order_shapes[] = {
    shape_make(27, 32, 0, 32, numeric_f16),   shape_make(8, 20, 12, 32, numeric_bf16),
    shape_make(5, 64, 0, 96, numeric_f16),    shape_make(40, 128, 0, 64, numeric_bf16),
    shape_make(3, 70, 90, 140, numeric_f16),  shape_make(1, 32, 0, 64, numeric_f16),
    shape_make(1, 96, 64, 129, numeric_bf16), shape_make(64, 300, 0, 64, numeric_bf16),
    shape_make(27, 16, 0, 16, numeric_f16),   shape_make(125, 4, 0, 32, numeric_bf16),
    shape_make(3, 24, 0, 9, numeric_f16),     shape_make(1, 16, 0, 20, numeric_bf16),
    shape_make(1030, 7, 0, 5, numeric_f16),   shape_make(27, 96, 0, 96, numeric_f16),
    shape_make(2, 200, 70, 90, numeric_bf16),
};

// Outputs around the row blocks and the tiles of them, as many as the capacity and fewer.
DEVICE_TEST(gpu_conv_ordered_every_count) {
    for (int outputs : {0, 1, 2, 63, 64, 65, 127, 128, 129, 191, 192, 193, 255, 256, 257, 640}) {
        for (const conv_shape &s : order_shapes) {
            for (int room : {0, 1, 63, 500}) {
                if (test_quick() && (room == 1 || s.cin > 100 || test_thinned(43))) {
                    continue;
                }
                random_state random = random_make((uint64_t)(1000 * outputs + room));
                problem p = problem_make(&random, s, s.volume == 1 ? outputs : outputs / 2 + 1,
                                         outputs, outputs + room);
                p.identity = s.volume == 1 && room != 1;
                problem_fill_map(&random, &p, 25);
                problem_fill_epilogue(&random, &p, with_residual | with_bias, activation_relu);
                problem_name(&p, "counts");
                check_sizes(&p, sizes_listed(&p, 2));
            }
        }
    }
}

// Few pairs: blocks of outputs without any, tiles of which one block has some, offsets that one
// block alone has; none at all.
DEVICE_TEST(gpu_conv_ordered_blocks_without_pairs) {
    for (const conv_shape &s : order_shapes) {
        for (int pairs : {0, 1, 2, 5, 20, 100}) {
            if (test_quick() && (pairs > 5 || s.cin > 100 || test_thinned(3))) {
                continue;
            }
            random_state random = random_make((uint64_t)(pairs + s.cin));
            const int32_t outputs = test_quick() ? 300 : 1500;
            problem p = problem_make(&random, s, 50, outputs, outputs + 10);
            problem_fill_map(&random, &p, 0);
            for (int i = 0; i < pairs; ++i) { // offsets at the ends are more often there
                int k = random_int(&random, 0, 2) ? random_int(&random, 0, 1) * (s.volume - 1)
                                                  : random_int(&random, 0, s.volume - 1);
                int32_t row = random_int(&random, 0, outputs - 1);
                p.map[(size_t)(row * s.volume + k)] = random_int(&random, 0, 49);
            }
            problem_fill_epilogue(&random, &p, with_shift, activation_none);
            problem_name(&p, "few pairs");
            check_sizes(&p, sizes_listed(&p));
        }
    }
}

// More tiles than there are blocks of threads at a time.
DEVICE_TEST(gpu_conv_ordered_many_tiles) {
    const conv_shape shapes[] = {
        shape_make(3, 32, 0, 32, numeric_f16),  shape_make(3, 64, 0, 128, numeric_bf16),
        shape_make(3, 96, 0, 96, numeric_f16),  shape_make(2, 96, 32, 96, numeric_bf16),
        shape_make(2, 33, 0, 256, numeric_f16), shape_make(3, 16, 0, 16, numeric_bf16)};
    for (const conv_shape &s : shapes) {
        random_state random = random_make((uint64_t)s.cout);
        const int32_t outputs = test_quick() ? 500 : s.cout <= 32 ? 80000 : 40000;
        problem p = problem_make(&random, s, 1000, outputs, outputs + 300);
        problem_fill_lists(&random, &p, 60);
        problem_fill_epilogue(&random, &p, with_all, activation_relu);
        problem_name(&p, "many tiles");
        check_sizes(&p, sizes_listed(&p, test_quick() ? 3 : 1));
    }
}

// Tiles that follow each other in two thread blocks that share each: what one hands the other is
// not to be overwritten before it is read. Few products, so that sanitizers see it too.
DEVICE_TEST(gpu_conv_shared_tiles) {
    const conv_shape shapes[] = {
        shape_make(3, 33, 0, 64, numeric_f16),    shape_make(2, 64, 0, 128, numeric_f16),
        shape_make(3, 40, 24, 120, numeric_bf16), shape_make(2, 64, 0, 256, numeric_f16),
        shape_make(3, 33, 7, 250, numeric_bf16),  shape_make(2, 16, 0, 512, numeric_f16)};
    if (!gpu()->hopper) {
        SKIP("no kernel of this device shares tiles");
    }
    for (const conv_shape &s : shapes) {
        const int32_t outputs = test_quick() ? 9000 : 20000;
        random_state random = random_make((uint64_t)s.cout);
        problem p = problem_make(&random, s, 500, outputs, outputs + 100);
        problem_fill_lists(&random, &p, 60);
        problem_fill_epilogue(&random, &p, with_all, activation_relu);
        problem_name(&p, "shared tiles");
        check_sizes(&p, {{1, hopper_columns_next(s.cout - 1) / 32, 2, 1}});
    }
}

// Layers one behind the other, from array to array and back; each adds what it reads.
std::vector<char> run_chain(const problem *p, const device_problem *d, bool programmatic) {
    conv_args args = d->args;
    args.programmatic = programmatic;
    features_refill(p->shape.type, args.in, p->in);
    CUDA_CHECK(cudaMemset(d->out, 0xff, (size_t)d->out_bytes));
    CUDA_CHECK(cudaDeviceSynchronize());
    for (int layer = 0; layer < 7; ++layer) {
        args.epilogue.residual = args.in;
        CHECK_OK(shared_conv.conv(gpu(), &args, stream_get()));
        const void *in = args.in;
        args.in = args.out;
        args.out = (void *)in;
    }
    return device_problem_fetch(p, d);
}

// A layer that begins while the one before still ends reads what that one writes.
DEVICE_TEST(gpu_conv_begins_early) {
    for (numeric type : numerics) {
        for (int channels : {8, 16, 20, 32, 64, 96, 128, 160}) {
            random_state random = random_make((uint64_t)(4 * channels + type));
            if (test_quick() && (type == numeric_tf32 || (channels != 20 && channels != 64))) {
                continue;
            }
            const int32_t rows = test_quick() ? 150 : 10000;
            const int volume = channels % 64 ? 9 : 60; // thread blocks share tiles
            problem p = problem_make(&random, shape_make(volume, channels, 0, channels, type), rows,
                                     rows, rows);
            for (float &w : p.weight) {
                w *= 0.02f;
            }
            problem_fill_map(&random, &p, 30);
            device_problem d;
            device_problem_make(&p, &d);
            const std::vector<char> one_by_one = run_chain(&p, &d, false);
            for (int round = 0; round < (test_quick() ? 1 : 5); ++round) {
                CHECK(run_chain(&p, &d, true) == one_by_one);
            }
            guarded_finish();
        }
    }
}

// ---- more elements than an int can count --------------------------------------------------------

// rows * channels passes 2^31 on the input side (a gather) and on the output side (the identity).
// Of the huge arrays only the rows at the turn and at the ends are set and looked at.
DEVICE_TEST(gpu_conv_beyond_32_bits) {
    const int32_t rows = 2200000, wide = 1024;
    const int32_t turn = (int32_t)(((int64_t)1 << 31) / wide); // the row at element 2^31
    size_t free_bytes = 0, all_bytes = 0;
    CUDA_CHECK(cudaMemGetInfo(&free_bytes, &all_bytes));
    if (test_quick() || free_bytes < (size_t)rows * wide * 4 + ((size_t)1 << 30)) {
        SKIP("takes 10 GB of device memory and is not quick");
    }
    const int64_t marked[] = {0, 1, turn / 2, turn - 1, turn, turn + 1, rows - 2, rows - 1};
    static const struct {
        numeric type;
        int few; // channels of the other side
    } cases[] = {{numeric_f16, 8}, {numeric_f16, 32}, {numeric_f32, 8}};
    for (auto &c : cases) {
        const numeric type = c.type;
        const int few = c.few;
        int64_t element = numeric_size(type);
        char *huge = device_new<char>((int64_t)rows * wide * element);
        random_state random = random_make(23);

        // The input side: one tap for each output, all from marked rows.
        conv_shape s = shape_make(2, wide, 0, few, type);
        problem p = problem_make(&random, s, 8, 8, 8);
        p.map.clear();
        for (int32_t o = 0; o < 8; ++o) {
            p.map.insert(p.map.end(), {o, 7 - o});
        }
        problem_name(&p, "input beyond 2^31");
        problem far = p;
        for (int32_t &source : far.map) {
            source = (int32_t)marked[source];
        }
        device_problem d;
        device_problem_make(&far, &d);
        std::vector<char> stored = features_store(type, p.in);
        for (int i = 0; i < 8; ++i) {
            device_copy_in(huge + marked[i] * wide * element, stored.data() + i * wide * element,
                           wide * element);
        }
        d.args.in = huge;
        CHECK_OK(device_problem_start(&d));
        std::vector<char> out = device_problem_fetch(&p, &d);
        problem_good(&p, out);

        // The output side: few input channels, 1024 output channels.
        conv_shape back = shape_make(1, few, 0, wide, type);
        problem q = problem_make(&random, back, 8, 8, 8);
        q.identity = true;
        problem_name(&q, "output beyond 2^31");
        std::vector<float> in((size_t)(rows * few), 0.25f);
        for (int i = 0; i < 8 * few; ++i) {
            in[(size_t)(marked[i / few] * few + i % few)] = q.in[(size_t)i];
        }
        std::vector<char> in_stored = features_store(type, in);
        device_problem e;
        device_problem_make(&q, &e);
        e.args.in = device_upload(in_stored.data(), (int64_t)in_stored.size());
        e.map.count = device_upload(&rows, 1);
        e.map.capacity = rows;
        e.args.out = huge;
        CHECK_OK(device_problem_start(&e));
        std::vector<char> rows_out((size_t)(8 * wide * element));
        for (int i = 0; i < 8; ++i) {
            device_copy_out(rows_out.data() + i * wide * element, huge + marked[i] * wide * element,
                            wide * element);
        }
        problem_good(&q, rows_out);
        guarded_finish();
    }
}

// ---- errors -------------------------------------------------------------------------------------

// What a convolution says of arguments and a map that `spoil` has changed.
template <typename F>
status start_spoiled(const device_problem *d, F spoil) {
    conv_args args = d->args;
    conv_map map = d->map;
    args.map = &map;
    spoil(&args, &map);
    return shared_conv.conv(gpu(), &args, stream_get());
}

DEVICE_TEST(gpu_conv_refuses) {
    static const struct {
        status_code code;
        void (*spoil)(conv_args *, conv_map *);
    } bad[] = {
        {status_null_pointer, [](conv_args *a, auto *) { a->in = nullptr; }},
        {status_null_pointer, [](conv_args *a, auto *) { a->in2 = nullptr; }},
        {status_null_pointer, [](conv_args *a, auto *) { a->weights = nullptr; }},
        {status_null_pointer, [](conv_args *a, auto *) { a->out = nullptr; }},
        {status_null_pointer, [](conv_args *a, auto *) { a->map = nullptr; }},
        {status_null_pointer, [](auto *, conv_map *m) { m->count = nullptr; }},
        {status_alignment,
         [](auto *, conv_map *m) { m->count = (int32_t *)((char *)m->count + 2); }},
        {status_bad_size, [](auto *, conv_map *m) { m->capacity = 0; }},
        {status_bad_size, [](auto *, conv_map *m) { m->capacity = -1; }},
        {status_bad_size, [](auto *, conv_map *m) { m->volume = 4; }},
        {status_unsupported, [](auto *, conv_map *m) { m->form = (conv_form)7; }},
        {status_bad_size, [](conv_args *a, auto *) { a->shape.volume = 0; }},
        {status_bad_size, [](conv_args *a, auto *) { a->shape.volume = 3376; }},
        {status_bad_size, [](conv_args *a, auto *) { a->shape.cin = 0; }},
        {status_bad_size, [](conv_args *a, auto *) { a->shape.cin = -3; }},
        {status_bad_size, [](conv_args *a, auto *) { a->shape.cin = conv_channels_max + 1; }},
        {status_bad_size, [](conv_args *a, auto *) { a->shape.cin2 = -1; }},
        {status_bad_size, [](conv_args *a, auto *) { a->shape.cin2 = conv_channels_max + 1; }},
        {status_bad_size, [](conv_args *a, auto *) { a->shape.cout = 0; }},
        {status_bad_size, [](conv_args *a, auto *) { a->shape.cout = conv_channels_max + 1; }},
        {status_unsupported, [](conv_args *a, auto *) { a->shape.type = (numeric)9; }},
        {status_unsupported, [](conv_args *a, auto *) { a->epilogue.act = activation_count; }},
        {status_unsupported, [](conv_args *a, auto *) { a->out = (void *)a->in; }},
        {status_unsupported, [](conv_args *a, auto *) { a->out = (void *)a->in2; }},
    };
    random_state random = random_make(29);
    for (numeric type : numerics) {
        conv_shape s = shape_make(3, 6, 5, 7, type);
        problem p = problem_make(&random, s, 10, 12, 20);
        problem_fill_map(&random, &p, 50);
        device_problem d;
        device_problem_make(&p, &d);
        for (auto &b : bad) {
            CHECK_STATUS(start_spoiled(&d, b.spoil), b.code);
        }
        CHECK_STATUS(shared_conv.conv(gpu(), nullptr, stream_get()), status_null_pointer);
        CHECK_STATUS(shared_conv.conv(nullptr, &d.args, stream_get()), status_null_pointer);
        const status other = type == numeric_f16
                                 ? shared_conv.conv_f32(gpu(), &d.args, stream_get())
                                 : shared_conv.conv_f16(gpu(), &d.args, stream_get());
        CHECK_STATUS(other, status_unsupported); // another format than it is compiled for
        CHECK(device_untouched(d.out, 0, d.out_bytes));
    }
}

// A layout that is incomplete, or of another kernel or capacity.
DEVICE_TEST(gpu_conv_refuses_orders) {
    static const struct {
        status_code code;
        const char *subject;
        void (*spoil)(conv_args *, conv_map *);
    } bad[] = {
        {status_null_pointer, "layout", [](auto *, conv_map *m) { m->order.row = nullptr; }},
        {status_null_pointer, "layout", [](auto *, conv_map *m) { m->order.mask = nullptr; }},
        {status_null_pointer, "layout", [](auto *, conv_map *m) { m->order.source = nullptr; }},
        {status_bad_size, "layout.volume", [](auto *, conv_map *m) { m->order.volume = 4; }},
        {status_bad_size, "layout.volume", [](auto *, conv_map *m) { m->order.volume = 0; }},
        {status_bad_size, "layout.groups", [](auto *, conv_map *m) { --m->order.groups; }},
        {status_bad_size, "layout.groups", [](auto *, conv_map *m) { m->order.groups = -1; }},
        {status_bad_size, "layout.groups",
         [](auto *, conv_map *m) { m->capacity = m->order.groups * order_rows + 1; }},
        {status_bad_size, "capacity", [](auto *, conv_map *m) { m->capacity = 0; }},
    };
    for (numeric type : numerics) {
        conv_shape s = shape_make(3, 40, 5, 33, type);
        random_state random = random_make(53);
        problem p = problem_make(&random, s, 10, 120, 150);
        problem_fill_map(&random, &p, 50);
        device_problem d;
        device_problem_make(&p, &d);
        for (auto &b : bad) {
            const status said = start_spoiled(&d, b.spoil);
            CHECK_STATUS(said, b.code);
            CHECK(strstr(said.subject, b.subject) != nullptr);
        }
        CHECK(device_untouched(d.out, 0, d.out_bytes));
    }
}

// The narrow kernel reads 16 bytes of it at a time.
DEVICE_TEST(gpu_conv_refuses_unaligned_orders) {
    conv_shape s = shape_make(3, 8, 0, 8, numeric_f16);
    if (conv_kernel_of(&s, gpu()) != conv_kernel_narrow) {
        SKIP("needs sm_80");
    }
    random_state random = random_make(57);
    problem p = problem_make(&random, s, 10, 120, 150);
    problem_fill_map(&random, &p, 50);
    device_problem d;
    device_problem_make(&p, &d);
    for (bool row : {false, true}) {
        const status said = start_spoiled(
            &d, [&](auto *, conv_map *m) { (row ? m->order.row : m->order.source) += 2; });
        CHECK_STATUS(said, status_alignment);
        CHECK(strstr(said.subject, "layout") != nullptr);
    }
    CHECK(device_untouched(d.out, 0, d.out_bytes));
}

DEVICE_TEST(gpu_conv_weights_refuses) {
    for (numeric type : numerics) {
        conv_shape s = shape_make(3, 6, 5, 7, type), none = s;
        none.cout = 0;
        size_t bytes = 0;
        CHECK_OK(conv_weights_bytes(gpu(), &s, &bytes));
        REQUIRE(bytes > 0);
        CHECK_STATUS(conv_weights_bytes(gpu(), nullptr, &bytes), status_null_pointer);
        CHECK_STATUS(conv_weights_bytes(gpu(), &s, nullptr), status_null_pointer);
        CHECK_STATUS(conv_weights_bytes(gpu(), &none, &bytes), status_bad_size);
        float *weight = device_zeros<float>(3 * 11 * 7);
        char *packed = device_new<char>((int64_t)bytes);
        cudaStream_t stream = stream_get();
        const auto pack = [&](const conv_shape *shape, const conv_weights &w) {
            return conv_weights_pack(gpu(), shape, &w, stream);
        };
        auto *trouble = (device_status *)((char *)device_zeros<device_status>(2) + 2);
        CHECK_STATUS(pack(nullptr, {weight, packed, bytes, nullptr}), status_null_pointer);
        CHECK_STATUS(pack(&s, {nullptr, packed, bytes, nullptr}), status_null_pointer);
        CHECK_STATUS(pack(&s, {weight, nullptr, bytes, nullptr}), status_null_pointer);
        CHECK_STATUS(pack(&s, {weight, packed, bytes - 1, nullptr}), status_workspace);
        CHECK_STATUS(pack(&s, {weight, packed, 0, nullptr}), status_workspace);
        CHECK_STATUS(pack(&s, {weight, packed + 4, bytes, nullptr}), status_alignment);
        CHECK_STATUS(pack(&s, {weight, packed, bytes, trouble}), status_alignment);
        CHECK_STATUS(pack(&none, {weight, packed, bytes, nullptr}), status_bad_size);
        CHECK_STATUS(conv_weights_pack(gpu(), &s, nullptr, stream), status_null_pointer);
        CHECK(device_untouched(packed, 0, (int64_t)bytes));
    }
}

// ---- the test, tested ---------------------------------------------------------------------------

DEVICE_TEST(gpu_conv_planted_errors_are_found) {
    for (numeric type : numerics) {
        random_state random = random_make(37);
        problem good = problem_tight(&random, type);
        problem_fill_map(&random, &good, 40);
        check_planted_errors(good, problem_run);
    }
}

// Sums kept in halves, and sums rounded at every offset, look right on average and are not.
DEVICE_TEST(gpu_conv_planted_half_sums_are_found) {
    random_state random = random_make(41);
    conv_shape s = shape_make(27, 32, 0, 8, numeric_f16);
    problem p = problem_make(&random, s, 50, 60, 60);
    problem_fill_map(&random, &p, 80);
    problem_name(&p, "half sums");
    problem_check(&p);
    std::vector<float> each(60 * 8), offsets(60 * 8);
    for (int o = 0; o < 60; ++o) {
        for (int c = 0; c < 8; ++c) {
            float sum = 0, rounded = 0;
            for (int k = 0; k < s.volume; ++k) {
                int32_t source = p.map[(size_t)(o * s.volume + k)];
                float part = 0;
                for (int i = 0; i < s.cin && source >= 0; ++i) {
                    float w = p.weight[(size_t)((k * s.cin + i) * s.cout + c)];
                    float term =
                        p.in[(size_t)(source * s.cin + i)] * numeric_operand(numeric_f16, w);
                    sum = numeric_stored(numeric_f16, sum + term);
                    part += term;
                }
                rounded = numeric_stored(numeric_f16, rounded + part);
            }
            each[(size_t)(o * 8 + c)] = sum;
            offsets[(size_t)(o * 8 + c)] = rounded;
        }
    }
    CHECK(problem_judge(&p, features_store(numeric_f16, each).data()).ratio > 1);
    CHECK(problem_judge(&p, features_store(numeric_f16, offsets).data()).ratio > 1);
}

} // namespace
