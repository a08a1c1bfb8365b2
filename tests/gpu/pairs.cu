// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/gpu/pairs.cu: convolution over lists of pairs on the GPU, in both forms, against sums in
// double, each output within its bound (reference.h); in order the same bits from run to run.
#include "../../spira/conv_pairs.cuh"
#include "../../spira/map.cuh"
#include "../support/devices.h"
#include "../support/problems.cuh"

using namespace problems;

namespace {

const pairs_form forms[] = {pairs_form_atomic, pairs_form_ordered};

// ---- a problem in device memory -----------------------------------------------------------------

struct device_pairs {
    conv_pairs_args args;
    char *out, *scratch;
    size_t scratch_bytes;
    int64_t out_bytes;
};

// Scratch of exactly the size that is asked for.
void device_pairs_scratch(device_pairs *d) {
    CHECK_OK(conv_pairs_workspace(&d->args, &d->scratch_bytes));
    d->scratch = device_new<char>((int64_t)d->scratch_bytes);
}

void device_pairs_make(const problem *p, pairs_form form, map_lists pairs, device_pairs *d) {
    conv_pairs_args *a = &d->args;
    *a = {};
    a->shape = p->shape;
    a->weights =
        weights_upload(&p->shape, p->weight, conv_pairs_weights_bytes, conv_pairs_weights_pack<>);
    a->pairs = pairs;
    a->sides = pairs_sides_one;
    a->form = form;
    a->count = device_upload(&p->outputs, 1);
    a->capacity = problem_capacity(p);
    device_problem_arrays(p, d);
    device_pairs_scratch(d);
}

status device_pairs_start(const device_pairs *d) {
    return conv_pairs_run(gpu(), &d->args, d->scratch, d->scratch_bytes, stream_get());
}

// In order the same bits twice. Does not free.
std::vector<char> device_pairs_run(const problem *p, const device_pairs *d) {
    return device_problem_run(p, d, d->args.form == pairs_form_ordered,
                              [&] { return device_pairs_start(d); });
}

// Frees all buffers of the test.
std::vector<char> pairs_run_form(const problem *p, pairs_form form) {
    device_pairs d;
    device_pairs_make(p, form, pairs_upload(p), &d);
    std::vector<char> out = device_pairs_run(p, &d);
    guarded_finish();
    return out;
}

void check_forms(const problem *p, int line = __builtin_LINE()) {
    for (pairs_form form : forms) {
        problem_good(p, pairs_run_form(p, form), __FILE__, line);
    }
}

// ---- random shapes ------------------------------------------------------------------------------

const int channels_edges[] = {1,  2,  4,  7,  8,  9,  15, 16, 17,  31,  32,
                              33, 48, 63, 64, 65, 95, 96, 97, 127, 128, 129};

DEVICE_TEST(gpu_pairs_random_shapes) {
    const int sizes[] = {0,  1,   2,   7,   8,   9,   15,  16,  17,  31,  32,   33,   63,  64,
                         65, 127, 128, 129, 255, 256, 257, 400, 511, 513, 1023, 1025, 4097};
    for (int seed = 0; seed < (test_quick() ? 24 : 500); ++seed) {
        const numeric type = numerics[seed % 4];
        random_state random = random_make((uint64_t)seed);
        const int volume = random_int(&random, 1, 40);
        conv_shape s = shape_random(&random, volume, type, channels_edges);
        problem p = problem_make(&random, s, random_int(&random, 0, 120),
                                 sizes[random_int(&random, 0, test_quick() ? 15 : 26)]);
        const int percents[] = {0, 3, 15, 40, 80, 100};
        problem_fill_lists(&random, &p, percents[random_int(&random, 0, 5)]);
        problem_fill_any_epilogue(&random, &p);
        p.room = random_int(&random, 0, 1) * random_int(&random, 0, 1500);
        char what[32];
        snprintf(what, sizeof what, "seed %d", seed);
        problem_name(&p, what);
        check_forms(&p);
    }
}

// ---- many channels, few pairs -------------------------------------------------------------------

DEVICE_TEST(gpu_pairs_many_channels) {
    for (auto &c : many_channels) {
        for (numeric type : numerics) {
            if (test_quick() && c[0] * c[1] * c[3] > 100000) {
                continue;
            }
            random_state random = random_make((uint64_t)(c[1] + c[2] + type));
            conv_shape s = shape_make(c[0], c[1], c[2], c[3], type);
            problem p = problem_make(&random, s, 70, 66);
            p.room = type == numeric_f16 ? 5000 : 0;
            problem_fill_lists(&random, &p, 50);
            problem_fill_epilogue(&random, &p, with_all, activation_relu);
            problem_name(&p, "many channels");
            check_forms(&p);
        }
    }
}

DEVICE_TEST(gpu_pairs_empty_lists_and_single_pairs) {
    for (numeric type : numerics) {
        for (int pairs = 0; pairs <= 2; ++pairs) {
            for (int volume : {1, 9, 300, 3375}) {
                for (int32_t outputs : {0, 1, 33}) {
                    if (test_quick() && volume > 300) {
                        continue;
                    }
                    random_state random = random_make((uint64_t)(outputs + type));
                    conv_shape s = shape_make(volume, 5, 0, 6, type);
                    problem p = problem_make(&random, s, outputs ? 4 : 0, outputs);
                    p.map.assign((size_t)outputs * (size_t)volume, -1);
                    for (int i = 0; i < pairs && outputs && i < volume; ++i) { // one pair an offset
                        p.map[p.map.size() - 1 - (size_t)i] = 3;
                    }
                    problem_fill_epilogue(&random, &p, with_all, activation_relu);
                    problem_name(&p, "few pairs");
                    check_forms(&p);
                }
            }
        }
    }
}

// ---- counts -------------------------------------------------------------------------------------

// A count beyond the capacity: as many outputs as there is room for. Lists that end behind their
// capacity are cut off there; outputs that are not there are left out.
DEVICE_TEST(gpu_pairs_clamps_counts) {
    for (numeric type : numerics) {
        for (pairs_form form : forms) {
            for (int32_t capacity : {1, 63, 64, 100, 700}) {
                random_state random = random_make((uint64_t)(capacity + type));
                conv_shape s = shape_make(5, 40, 0, 20, type);
                problem p = problem_make(&random, s, 50, capacity);
                problem_fill_lists(&random, &p, 60);
                problem_name(&p, "clamped");
                device_pairs d;
                device_pairs_make(&p, form, pairs_upload(&p), &d);
                for (int32_t told : {capacity + 1, capacity + 64, INT32_MAX}) {
                    d.args.count = device_upload(&told, 1);
                    CHECK_OK(device_pairs_start(&d));
                    std::vector<char> out = device_problem_fetch(&p, &d);
                    problem_good(&p, out);
                }
                int32_t fewer = capacity / 2; // the lists still have the others
                problem q = p;
                q.outputs = fewer;
                q.map.resize((size_t)fewer * 5);
                d.args.count = device_upload(&fewer, 1);
                std::vector<char> kept = device_problem_fetch(&p, &d);
                CHECK_OK(device_pairs_start(&d));
                std::vector<char> out = device_problem_fetch(&p, &d);
                problem_good(&q, out);
                int64_t used = (int64_t)fewer * 20 * numeric_size(type);
                CHECK(std::equal(kept.begin() + used, kept.end(), out.begin() + used));

                int32_t left = std::max(d.args.pairs.capacity / 2, 1), seen = 0;
                q = p; // of the lists, the pairs behind `left` do not count
                for (int k = 0; k < 5; ++k) {
                    for (int32_t o = 0; o < capacity; ++o) {
                        int32_t *tap = q.map.data() + o * 5 + k;
                        *tap = *tap >= 0 && seen++ >= left ? -1 : *tap;
                    }
                }
                d.args.count = device_upload(&capacity, 1);
                d.args.pairs.capacity = left;
                CHECK_OK(device_pairs_start(&d));
                out = device_problem_fetch(&p, &d);
                problem_good(&q, out);
                guarded_finish();
            }
        }
    }
}

// Begins that disagree with the arrays: nothing is read or written out of bounds. Falling ones
// stand for no pairs at all.
DEVICE_TEST(gpu_pairs_lists_that_disagree) {
    for (numeric type : numerics) {
        for (pairs_form form : forms) {
            random_state random = random_make((uint64_t)type);
            conv_shape s = shape_make(3, 20, 0, 12, type);
            problem p = problem_make(&random, s, 50, 70), none = p;
            problem_fill_lists(&random, &p, 60);
            none.map.assign(70 * 3, -1);
            problem_name(&none, "lists that disagree");
            device_pairs d;
            device_pairs_make(&p, form, pairs_upload(&p), &d);
            const int32_t room = d.args.pairs.capacity;
            const int32_t begins[][4] = {{-9, 5, room + 1, INT32_MAX},
                                         {room + 5, room + 6, room + 7, room + 8},
                                         {room, 0, room, 0},
                                         {INT32_MIN, 9, 8, 10}};
            for (const auto &begin : begins) {
                device_copy_in(d.args.pairs.begin, begin, 4);
                CHECK_OK(device_pairs_start(&d));
                std::vector<char> out = device_problem_fetch(&none, &d);
                if (begin[0] != -9) { // some pairs are there
                    problem_good(&none, out);
                }
            }
            guarded_finish();
        }
    }
}

// ---- maps of real layers ------------------------------------------------------------------------

// Lists that the GPU builds, of the offsets with a norm of `threshold` or more; half: of those
// before the centre. Frees all buffers of the test.
template <typename W>
void check_scene(const forms_scene<W> *scene, problem *p, pairs_form form, pairs_sides sides,
                 int threshold, int line = __builtin_LINE()) {
    const kernel_shape *kernel = &scene->kernel;
    const int volume = p->shape.volume;
    p->map = forms_map(scene);
    voxel_set<W> source = set_upload(scene->source, p->room);
    voxel_set<W> outputs = scene->same ? source : set_upload(scene->outputs, p->room);
    int32_t capacity = std::max((int32_t)p->map.size(), 1);
    map_lists pairs = {};
    pairs.begin = device_new<int32_t>(volume + 1);
    pairs.input = device_new<int32_t>(capacity);
    pairs.output = device_new<int32_t>(capacity);
    pairs.capacity = capacity;
    const map_forms none =
        map_forms_none(threshold, sides != pairs_sides_one, device_zeros<device_status>(1));
    const map_request<W> request = {*kernel, source, outputs, none};
    size_t bytes = 0;
    CHECK_OK(map_lists_workspace(kernel, outputs.capacity, &bytes));
    CHECK_OK(map_build_lists(&scene->layout, &request, &pairs, device_new<char>((int64_t)bytes),
                             bytes, stream_get()));
    for (size_t i = 0; i < p->map.size(); ++i) { // what the lists do not stand for
        int k = (int)(i % (size_t)volume);
        bool centre = none.half && k == volume / 2;
        bool has = centre ? sides == pairs_sides_centre : kernel_norm(kernel, k) >= threshold;
        p->map[i] = has ? p->map[i] : -1;
    }
    device_pairs d;
    device_pairs_make(p, form, pairs, &d);
    d.args.sides = sides;
    std::vector<char> out = device_pairs_run(p, &d);
    problem_good(p, out, __FILE__, line);
    guarded_finish();
}

// The lists of a half map from both sides: with and without the centre, of all offsets or of those
// that a hybrid map leaves.
DEVICE_TEST(gpu_pairs_half_maps) {
    const triple sizes[] = {{3, 3, 3}, {1, 1, 3}, {5, 3, 1}, {1, 1, 1}, {5, 5, 5}, {7, 7, 7}};
    int turn = 0;
    for (triple size : sizes) {
        for (numeric type : numerics) {
            for (pairs_form form : forms) {
                for (pairs_sides sides : {pairs_sides_both, pairs_sides_centre}) {
                    for (int threshold = 0; threshold < 3; ++threshold, ++turn) {
                        if (test_quick() && turn % 7) {
                            continue;
                        }
                        random_state random = random_make((uint64_t)turn);
                        kernel_shape kernel = kernel_cube(1, 1);
                        kernel.size = size;
                        forms_scene<uint64_t> scene =
                            forms_scene_random<uint64_t>(&random, forms_submanifold, kernel);
                        conv_shape s =
                            shape_make(kernel_volume(&kernel), turn % 2 ? 16 : 70, 0, 24, type);
                        problem p = problem_make(&random, s, (int32_t)scene.source.size(),
                                                 (int32_t)scene.outputs.size());
                        p.room = turn % 3 ? 0 : 50;
                        problem_fill_epilogue(&random, &p, with_bias, activation_relu);
                        problem_name(&p, scene.name,
                                     sides == pairs_sides_both ? ", both sides" : ", and centre");
                        check_scene(&scene, &p, form, sides, threshold);
                    }
                }
            }
        }
    }
}

// ---- sums that are begun elsewhere, or left -----------------------------------------------------

// The sums of a part of the offsets, left by one form, are where the other one begins: the result
// is that of all offsets.
DEVICE_TEST(gpu_pairs_hybrid) {
    for (numeric type : numerics) {
        for (int cout : {5, 24, 70}) {
            for (int turn = 0; turn < 4; ++turn) {
                pairs_form first = forms[turn % 2], second = forms[turn / 2];
                random_state random = random_make((uint64_t)(cout + turn + type));
                conv_shape s = shape_make(9, turn % 2 ? 20 : 80, 0, cout, type);
                problem all = problem_make(&random, s, 100, 330);
                problem_fill_lists(&random, &all, 60);
                problem_fill_epilogue(&random, &all, with_all, activation_relu);
                all.room = turn ? 20 : 0;
                problem_name(&all, "hybrid");
                problem part[2] = {all, all};
                for (size_t i = 0; i < all.map.size(); ++i) {
                    part[i % 9 < 4].map[i] = -1;
                }
                int64_t pitch = conv_sums_pitch(cout), capacity = all.outputs + all.room;
                float *sums = device_new<float>(capacity * pitch);
                device_pairs d;
                device_pairs_make(&part[0], first, pairs_upload(&part[0]), &d);
                d.args.sums = sums;
                d.args.to_sums = true;
                d.args.out = nullptr;
                device_pairs_scratch(&d);
                CHECK_OK(device_pairs_start(&d));
                CHECK(device_untouched(d.out, 0, d.out_bytes));
                CHECK(device_untouched(sums, all.outputs * pitch, capacity * pitch));
                device_pairs e;
                device_pairs_make(&part[1], second, pairs_upload(&part[1]), &e);
                e.args.sums = sums;
                e.args.from_sums = true;
                device_pairs_scratch(&e);
                CHECK_OK(device_pairs_start(&e));
                std::vector<char> out = device_problem_fetch(&all, &e);
                problem_good(&all, out);
                CHECK(device_untouched(sums, all.outputs * pitch, capacity * pitch));
                guarded_finish();
            }
        }
    }
}

// Sums of the caller's, begun at zero: instead of scratch.
DEVICE_TEST(gpu_pairs_sums_of_the_caller) {
    random_state random = random_make(5);
    conv_shape s = shape_make(4, 30, 0, 21, numeric_f16);
    problem p = problem_make(&random, s, 60, 90);
    problem_fill_lists(&random, &p, 50);
    problem_name(&p, "sums");
    device_pairs d;
    device_pairs_make(&p, pairs_form_atomic, pairs_upload(&p), &d);
    size_t all = d.scratch_bytes;
    d.args.sums = device_new<float>(90 * 24);
    device_pairs_scratch(&d);
    CHECK(d.scratch_bytes < all);
    std::vector<char> out = device_pairs_run(&p, &d);
    problem_good(&p, out);
}

// The residual may be the output itself.
DEVICE_TEST(gpu_pairs_residual_in_place) {
    for (numeric type : numerics) {
        for (pairs_form form : forms) {
            for (int cout : {5, 16, 40}) {
                random_state random = random_make((uint64_t)(cout + type));
                conv_shape s = shape_make(3, 12, 0, cout, type);
                problem p = problem_make(&random, s, 150, 190);
                problem_fill_lists(&random, &p, 50);
                problem_fill_epilogue(&random, &p, with_residual | with_bias, activation_relu);
                problem_name(&p, "in place");
                device_pairs d;
                device_pairs_make(&p, form, pairs_upload(&p), &d);
                features_refill(type, d.args.out, p.residual);
                d.args.epilogue.residual = d.args.out;
                CHECK_OK(device_pairs_start(&d));
                std::vector<char> out = device_problem_fetch(&p, &d);
                problem_good(&p, out);
                guarded_finish();
            }
        }
    }
}

// ---- values -------------------------------------------------------------------------------------

// A NaN reaches the outputs that have its row as a source, and no others.
DEVICE_TEST(gpu_pairs_special_values_stay_in_their_rows) {
    for (numeric type : numerics) {
        for (pairs_form form : forms) {
            for (int channels : {5, 8, 24, 32, 33, 64, 72, 100}) {
                random_state random = random_make((uint64_t)(channels + type));
                conv_shape s = shape_make(4, channels, channels % 3 ? 0 : 3, 18, type);
                problem p = problem_make(&random, s, 50, 130);
                problem_fill_lists(&random, &p, 25);
                p.map[7] = p.map[150] = 20;
                for (int c = 0; c < channels; ++c) {
                    p.in[(size_t)(20 * channels + c)] = NAN;
                }
                problem_name(&p, "special");
                problem_special_good(p, 20, pairs_run_form(&p, form));
            }
        }
    }
}

// ---- more elements than an int can count --------------------------------------------------------

// rows * channels passes 2^31 in the inputs, the outputs and the sums. Only the rows at the turn
// and at the ends have pairs, and are set and looked at.
DEVICE_TEST(gpu_pairs_beyond_32_bits) {
    const int32_t rows = 2200000, wide = 1024;
    const int32_t turn = (int32_t)(((int64_t)1 << 31) / wide); // the row at element 2^31
    size_t free_bytes = 0, all_bytes = 0;
    CUDA_CHECK(cudaMemGetInfo(&free_bytes, &all_bytes));
    if (test_quick() || free_bytes < (size_t)rows * wide * 8 + ((size_t)1 << 30)) {
        SKIP("takes 19 GB of device memory and is not quick");
    }
    const int32_t marked[8] = {0, 1, turn / 2, turn - 1, turn, turn + 1, rows - 2, rows - 1};
    const int64_t row_bytes = wide * 2; // of halves
    for (pairs_form form : forms) {
        for (bool far_out : {false, true}) { // or far inputs
            random_state random = random_make(23);
            conv_shape s = shape_make(1, far_out ? 8 : wide, 0, far_out ? wide : 8, numeric_f16);
            problem p = problem_make(&random, s, 8, 8);
            p.map = {0, 1, 2, 3, 4, 5, 6, 7};
            problem_name(&p, far_out ? "output beyond 2^31" : "input beyond 2^31");
            device_pairs d;
            device_pairs_make(&p, form, pairs_upload(&p), &d);
            char *huge = device_new<char>(rows * row_bytes);
            device_copy_in(far_out ? d.args.pairs.output : d.args.pairs.input, marked, 8);
            if (far_out) {
                d.args.count = device_upload(&rows, 1);
                d.args.capacity = rows;
                d.args.out = huge;
                device_pairs_scratch(&d);
            } else {
                std::vector<char> stored = features_store(s.type, p.in);
                for (int i = 0; i < 8; ++i) {
                    device_copy_in(huge + marked[i] * row_bytes, stored.data() + i * row_bytes,
                                   row_bytes);
                }
                d.args.in = huge;
            }
            CHECK_OK(device_pairs_start(&d));
            std::vector<char> out((size_t)(8 * row_bytes));
            for (int i = 0; i < 8 && far_out; ++i) {
                device_copy_out(out.data() + i * row_bytes, huge + marked[i] * row_bytes,
                                row_bytes);
            }
            out = far_out ? out : device_problem_fetch(&p, &d);
            problem_good(&p, out);
            guarded_finish();
        }
    }
}

// ---- errors -------------------------------------------------------------------------------------

DEVICE_TEST(gpu_pairs_refuses) {
    random_state random = random_make(29);
    conv_shape s = shape_make(3, 6, 5, 7, numeric_f16);
    problem p = problem_make(&random, s, 10, 12);
    problem_fill_lists(&random, &p, 50);
    problem_fill_epilogue(&random, &p, with_all, activation_relu);
    device_pairs d;
    device_pairs_make(&p, pairs_form_atomic, pairs_upload(&p), &d);
    float *sums = device_new<float>(12 * 8);
    const auto refused = [&](status_code code, auto spoil) {
        conv_pairs_args args = d.args;
        spoil(&args);
        CHECK_STATUS(conv_pairs_run(gpu(), &args, d.scratch, d.scratch_bytes, stream_get()), code);
    };
    typedef conv_pairs_args *to;
    refused(status_null_pointer, [](to a) { a->in = nullptr; });
    refused(status_null_pointer, [](to a) { a->weights = nullptr; });
    refused(status_null_pointer, [](to a) { a->count = nullptr; });
    refused(status_null_pointer, [](to a) { a->out = nullptr; });
    refused(status_null_pointer, [](to a) { a->pairs.begin = nullptr; });
    refused(status_null_pointer, [](to a) { a->pairs.input = nullptr; });
    refused(status_null_pointer, [](to a) { a->pairs.output = nullptr; });
    refused(status_null_pointer, [](to a) { a->from_sums = true; });
    refused(status_null_pointer, [](to a) { a->to_sums = true; });
    refused(status_bad_size, [](to a) { a->pairs.capacity = 0; });
    refused(status_bad_size, [](to a) { a->capacity = 0; });
    refused(status_bad_size, [](to a) { a->capacity = -1; });
    refused(status_bad_size, [](to a) { a->shape.volume = 0; });
    refused(status_unsupported, [](to a) { a->shape.type = (numeric)4; });
    refused(status_unsupported, [](to a) { a->form = (pairs_form)2; });
    refused(status_unsupported, [](to a) { a->sides = (pairs_sides)3; });
    refused(status_unsupported, [](to a) { a->sides = (pairs_sides)-1; });
    refused(status_unsupported, [](to a) {
        a->sides = pairs_sides_both;
        a->shape.volume = 2;
    });
    refused(status_unsupported, [](to a) { a->epilogue.act = activation_count; });
    refused(status_unsupported, [](to a) { a->out = (void *)a->in; });
    refused(status_unsupported, [](to a) { a->sums = (float *)a->out; });
    refused(status_alignment, [](to a) { a->weights = (const char *)a->weights + 16; });
    refused(status_alignment, [=](to a) { a->sums = sums + 1; });
    auto run = [&](char *scratch, size_t given) {
        return conv_pairs_run(gpu(), &d.args, scratch, given, stream_get());
    };
    REQUIRE(d.scratch_bytes > 0);
    CHECK_STATUS(run(nullptr, d.scratch_bytes), status_null_pointer);
    CHECK_STATUS(run(d.scratch, d.scratch_bytes - 1), status_workspace);
    CHECK_STATUS(run(d.scratch + 16, d.scratch_bytes), status_alignment);
    size_t bytes = 1;
    CHECK_STATUS(conv_pairs_workspace(nullptr, &bytes), status_null_pointer);
    CHECK_STATUS(conv_pairs_workspace(&d.args, nullptr), status_null_pointer);
    CHECK_STATUS(conv_pairs_run(gpu(), nullptr, d.scratch, d.scratch_bytes, stream_get()),
                 status_null_pointer);
    CHECK_STATUS(conv_pairs_run(nullptr, &d.args, d.scratch, d.scratch_bytes, stream_get()),
                 status_null_pointer);
    CHECK(device_untouched(d.out, 0, d.out_bytes));
    CHECK(device_untouched(d.scratch, 0, (int64_t)d.scratch_bytes));
}

// ---- what the launches assume -------------------------------------------------------------------

template <typename E, int channel_groups, bool deep, pairs_access access>
int registers_over() {
    cudaFuncAttributes code = {};
    CUDA_CHECK(cudaFuncGetAttributes(&code, pairs_kernel<E, channel_groups, deep, access>));
    return code.numRegs -
           pairs_registers(sizeof(E), channel_groups, deep, access == pairs_access_wide);
}

template <typename E, int channel_groups>
void check_registers() {
    CHECK(registers_over<E, channel_groups, false, pairs_access_wide>() <= 0);
    CHECK(registers_over<E, channel_groups, false, pairs_access_any>() <= 0);
    CHECK(registers_over<E, channel_groups, true, pairs_access_wide>() <= 0);
    CHECK(registers_over<E, channel_groups, true, pairs_access_any>() <= 0);
}

// The grid follows from the registers that its kernels are taken to have.
DEVICE_TEST(gpu_pairs_registers) {
    check_registers<float, 2>();
    check_registers<float, 4>();
    check_registers<__half, 2>();
    check_registers<__half, 4>();
    check_registers<__nv_bfloat16, 2>();
    check_registers<__nv_bfloat16, 4>();
    cudaFuncAttributes code = {};
    CUDA_CHECK(cudaFuncGetAttributes(&code, pairs_exact_kernel<float>));
    CHECK(code.numRegs <= pairs_exact_registers);
}

TEST(pairs_resident_thread_blocks) {
    const device_info hopper = device_made(90, 132, 232448, true),
                      turing = device_made(75, 40, 65536, false);
    CHECK_EQUAL(pairs_resident(&hopper, 256, 128), 2u * 132);
    CHECK_EQUAL(pairs_resident(&hopper, 256, 160), 132u);
    CHECK_EQUAL(pairs_resident(&hopper, 192, 160), 2u * 132);
    CHECK_EQUAL(pairs_resident(&hopper, 128, pairs_exact_registers), 6u * 132);
    CHECK_EQUAL(pairs_resident(&turing, 128, pairs_exact_registers), 6u * 40);
}

// ---- the test, tested ---------------------------------------------------------------------------

DEVICE_TEST(gpu_pairs_planted_errors_are_found) {
    for (numeric type : numerics) {
        for (pairs_form form : forms) {
            random_state random = random_make(37);
            problem good = problem_tight(&random, type);
            problem_fill_lists(&random, &good, 100);
            check_planted_errors(good, [&](const problem *p) { return pairs_run_form(p, form); });
        }
    }
}

} // namespace
