// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/gpu/conv.cu: convolution on the GPU against sums in double, each output within its bound
// (reference.h), and the same bits from run to run.
#include "../../spira/conv.cuh"
#include "../support/devices.h"
#include "../support/problems.cuh"
#include "../support/sliced.h"

using namespace problems;

namespace {

// ---- one problem, cut in many ways --------------------------------------------------------------

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
    } judged[9] = {}; // by their split
    for (const conv_sizes &size : sizes) {
        std::vector<char> out = sizes_run(p, &d, &size);
        sizes_check(sizes_run(p, &d, &size) == out, p, &size, "other bits than before");
        REQUIRE(size.split >= 1 && size.split <= 8);
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

// ---- a table of problems, and its runner --------------------------------------------------------

// A problem to be made: 1x1x1 ones without a map where `identity` is set.
struct conv_case {
    conv_shape shape;
    int32_t inputs, outputs, room; // capacity - outputs
    int percent;                   // chance of a source
    int what;                      // of the epilogue
    activation act;
    bool identity;
    int cuts; // 0: as it is chosen; otherwise each `cuts`th way to cut it, too
    moves off;
};

conv_case case_of(const conv_shape &s, int32_t inputs, int32_t outputs, int32_t room = 0) {
    return {s, inputs, outputs, room, 40, with_all, activation_relu, false, 0, {}};
}

problem case_make(const conv_case &c, uint64_t seed, const char *name) {
    random_state random = random_make(seed);
    const int32_t inputs = c.shape.volume == 1 ? c.outputs : c.inputs;
    problem p = problem_make(&random, c.shape, inputs, c.outputs, c.outputs + c.room);
    p.identity = c.identity && c.shape.volume == 1;
    if (c.percent < 0) { // lists of unlike lengths
        problem_fill_lists(&random, &p, -c.percent);
    } else {
        problem_fill_map(&random, &p, c.percent);
    }
    problem_fill_epilogue(&random, &p, c.what, c.act);
    p.off = c.off;
    char more[96];
    snprintf(more, sizeof more, ", %d %%, epilogue %d, activation %d, moved by %d %d %d %d",
             c.percent, c.what, c.act, c.off.in, c.off.in2, c.off.out, c.off.residual);
    problem_name(&p, name, more);
    return p;
}

void case_check(const conv_case &c, uint64_t seed, const char *name) {
    const problem p = case_make(c, seed, name);
    problem_check(&p);
    if (c.cuts) {
        check_sizes(&p, sizes_listed(&p, c.cuts));
    }
}

// A number of a list.
template <int count>
int any_of(random_state *random, const int (&list)[count]) {
    return list[random_int(random, 0, count - 1)];
}

// Elements by which pointers are moved: none, 16 bytes of 16-bit elements, any.
moves moves_random(random_state *random) {
    auto any = [&] {
        const int offs[] = {0, 0, 8, 1, random_int(random, 0, 15)};
        return any_of(random, offs);
    };
    moves m = {};
    for (int *off : {&m.in, &m.in2, &m.out, &m.residual, &m.floats}) {
        *off = any();
    }
    return m;
}

// ---- channels -----------------------------------------------------------------------------------

const int channels_edges[] = {1,  2,  3,  4,   5,   7,   8,   9,   12,  15,  16,  17,  23,  24,
                              25, 31, 32, 33,  40,  47,  48,  49,  63,  64,  65,  66,  80,  81,
                              95, 96, 97, 111, 112, 113, 127, 128, 129, 130, 255, 256, 257, 1024};

// Channels around the edges of steps, chunks, column blocks and slices, in random combination;
// arrays that start at any element; cut as it is chosen, and otherwise.
void check_random_layers(numeric type, int problems) {
    for (int seed = 0; seed < problems; ++seed) {
        random_state random = random_make((uint64_t)(4 * seed + type));
        conv_shape s = shape_random(&random, 1, type, channels_edges);
        const int products = (s.cin + s.cin2) * s.cout;
        if (test_quick() && products > 5000) {
            continue;
        }
        const kernel_shape kernel = reference_random_kernel(&random, 4, 1, {1, 1, 1});
        s.volume = seed % 10 == 0 ? 1 : kernel_volume(&kernel);
        s.volume = (int64_t)products * s.volume < 2000000 ? s.volume : 2;
        conv_case c = case_of(s, random_int(&random, 0, 200), random_int(&random, 0, 400));
        // A large capacity takes other forms of the kernel than the few tiles of a small one.
        c.room = random_int(&random, 0, 3) ? random_int(&random, 1, 100) : 40000;
        c.room = c.room > 100 && s.volume > 12 ? 2100 : c.room;
        const int percents[] = {0, 3, 15, 40, 80, 100};
        c.percent = any_of(&random, percents);
        c.identity = seed % 2 == 0;
        c.what = random_int(&random, 0, with_all);
        c.act = (activation)random_int(&random, activation_none, activation_count - 1);
        c.off = seed % 2 ? moves_random(&random) : moves{};
        c.cuts = c.room < 200 ? test_quick() ? 17 : 7 : 0;
        case_check(c, (uint64_t)seed, "random");
    }
}

DEVICE_TEST(gpu_conv_random_layers_f32) {
    check_random_layers(numeric_f32, test_quick() ? 10 : 200);
}

DEVICE_TEST(gpu_conv_random_layers_tf32) {
    check_random_layers(numeric_tf32, test_quick() ? 10 : 200);
}

DEVICE_TEST(gpu_conv_random_layers_f16) {
    check_random_layers(numeric_f16, test_quick() ? 10 : 200);
}

DEVICE_TEST(gpu_conv_random_layers_bf16) {
    check_random_layers(numeric_bf16, test_quick() ? 10 : 200);
}

DEVICE_TEST(gpu_conv_many_channels) {
    const int shapes[][4] = {{1, 1024, 0, 1024}, {2, 512, 512, 256},  {2, 1000, 24, 1000},
                             {3, 1023, 1, 5},    {2, 1, 0, 1024},     {1, 1024, 1024, 33},
                             {1, 3, 1024, 1023}, {27, 256, 128, 256}, {1, 777, 333, 555},
                             {1, 4096, 0, 4096}, {2, 1040, 0, 1040},  {9, 4096, 4096, 33},
                             {9, 130, 0, 4096},  {3, 16, 2048, 2048}};
    for (auto &c : shapes) {
        for (numeric type : numerics) {
            if (!test_quick() || c[0] * (c[1] + c[2]) * c[3] <= 30000) {
                conv_case one = case_of(shape_make(c[0], c[1], c[2], c[3], type), 70, 66);
                one.room = type == numeric_f16 ? 5000 : 0;
                one.identity = true;
                case_check(one, (uint64_t)(c[1] + c[2] + type), "many channels");
            }
        }
    }
}

// Layers as they are in networks, and odd ones: rows of one to many chunks that are whole,
// multiples of 16 bytes or neither, sources that share a chunk or not; output channels around what
// a thread block computes. In all ways to cut them.
DEVICE_TEST(gpu_conv_every_way_to_cut) {
    const int layers[][3] = {
        {16, 0, 16},   {32, 0, 32},    {64, 0, 64},   {96, 0, 96},   {128, 0, 128},   {256, 0, 256},
        {32, 0, 64},   {128, 0, 64},   {64, 64, 64},  {128, 96, 96}, {256, 128, 256}, {16, 16, 32},
        {1, 0, 1},     {4, 0, 32},     {5, 3, 33},    {17, 0, 47},   {33, 31, 65},    {65, 0, 97},
        {100, 7, 129}, {255, 1, 257},  {31, 0, 32},   {32, 0, 31},   {31, 33, 63},    {63, 0, 64},
        {64, 0, 63},   {33, 32, 65},   {100, 29, 97}, {17, 0, 16},   {16, 0, 17},     {33, 0, 16},
        {16, 0, 33},   {8, 8, 8},      {71, 1, 72},   {80, 0, 80},   {88, 8, 96},     {95, 0, 65},
        {64, 32, 96},  {32, 64, 96},   {31, 57, 95},  {8, 88, 80},   {1, 80, 96},     {96, 32, 97},
        {96, 96, 72},  {160, 0, 96},   {160, 97, 96}, {288, 0, 96},  {289, 0, 65},    {17, 8, 64},
        {8, 24, 64},   {192, 193, 64}, {511, 0, 32},  {513, 0, 160}, {40, 41, 136}};
    int turn = 0;
    for (auto &c : layers) {
        const int products = (c[0] + c[1]) * c[2];
        for (int volume : {1, 9, 27, 125}) {
            for (numeric type : numerics) {
                ++turn;
                if ((volume != 9 && turn % 3) || (test_quick() && (products > 2200 || turn % 7))) {
                    continue;
                }
                random_state random = random_make((uint64_t)turn);
                const int32_t outputs = test_quick() ? 130 : products > 10000 ? 300 : 1300;
                conv_case one =
                    case_of(shape_make(volume, c[0], c[1], c[2], type), 250, outputs, 70);
                one.percent = volume == 125 ? 3 + turn % 2 * 12 : turn % 2 ? 40 : -40;
                one.what = turn % 16;
                one.act = (activation)(turn % 3);
                one.identity = turn % 2;
                one.off = turn % 4 ? moves{} : moves_random(&random);
                one.cuts = test_quick() ? 9 : 1;
                case_check(one, (uint64_t)turn, "cut");
            }
        }
    }
}

// Lists with few of the offsets, with all; kernels around words of a mask, and around scopes of
// words: masks of 1024 offsets, 2048 and more.
DEVICE_TEST(gpu_conv_many_offsets) {
    int turn = 0;
    for (int volume :
         {2, 31, 32, 33, 64, 65, 128, 129, 343, 1023, 1024, 1025, 1331, 2048, 2197, 3375}) {
        for (int percent : {0, 2, 40}) {
            for (int cin : {9, 40, 64, 160}) {
                const numeric type = numerics[++turn % 4];
                if (!test_quick() || (volume <= 130 && turn % 9 == 0)) {
                    const int in = volume > 1000 && cin > 64 ? 72 : cin;
                    conv_case one = case_of(shape_make(volume, in, 0,
                                                       cin == 64  ? 64
                                                       : turn % 2 ? 12
                                                                  : 36,
                                                       type),
                                            90, 200, 30);
                    one.percent = volume > 129 ? percent / 8 : percent;
                    one.what = turn % 16;
                    one.act = (activation)(turn % activation_count);
                    random_state random = random_make((uint64_t)turn);
                    one.off = turn % 3 ? moves{} : moves_random(&random);
                    one.cuts = test_quick() ? 13 : 1;
                    case_check(one, (uint64_t)turn, "offsets");
                }
            }
        }
    }
}

// ---- outputs ------------------------------------------------------------------------------------

// Shapes whose offsets share a stage, fill one, or take more than one, and the identity.
const conv_shape order_shapes[] = {
    shape_make(27, 32, 0, 32, numeric_f16),   shape_make(8, 20, 12, 32, numeric_bf16),
    shape_make(5, 64, 0, 96, numeric_f16),    shape_make(40, 128, 0, 64, numeric_bf16),
    shape_make(3, 70, 90, 140, numeric_f16),  shape_make(1, 32, 0, 64, numeric_f16),
    shape_make(1, 96, 64, 129, numeric_bf16), shape_make(64, 300, 0, 64, numeric_bf16),
    shape_make(27, 16, 0, 16, numeric_f16),   shape_make(125, 4, 0, 32, numeric_bf16),
    shape_make(3, 24, 0, 9, numeric_f16),     shape_make(1, 16, 0, 20, numeric_bf16),
    shape_make(1030, 7, 0, 5, numeric_f16),   shape_make(27, 96, 0, 96, numeric_f16),
    shape_make(2, 200, 70, 90, numeric_bf16), shape_make(5, 9, 3, 20, numeric_f32),
    shape_make(5, 9, 0, 20, numeric_tf32),    shape_make(1, 9, 0, 20, numeric_f32),
};

// Outputs around row groups and tiles, as many as the capacity and fewer.
DEVICE_TEST(gpu_conv_every_count) {
    for (int outputs : {0,   1,   2,   7,   8,   31,  32,  33,  63,  64,  65,   127,
                        128, 129, 191, 192, 193, 255, 256, 257, 511, 640, 1025, 4097}) {
        for (const conv_shape &s : order_shapes) {
            for (int room : {0, 1, 63, 1500}) {
                if (test_thinned(43) || (test_quick() && s.cin > 100) ||
                    (outputs > 640 && s.volume * s.cin > 300)) {
                    continue;
                }
                conv_case one = case_of(s, outputs / 2 + 1, outputs, room);
                one.percent = 25;
                one.what = with_residual | with_bias | with_shift;
                one.act = room ? activation_relu : activation_leaky;
                one.identity = room != 1;
                one.cuts = 2;
                case_check(one, (uint64_t)(1000 * outputs + room), "counts");
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

// Few pairs: blocks of outputs without any, tiles of which one block has some, offsets that one
// block alone has; none at all.
DEVICE_TEST(gpu_conv_blocks_without_pairs) {
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

// More tiles than there are thread blocks at a time, of every width of a slice.
DEVICE_TEST(gpu_conv_many_tiles) {
    const int couts[] = {16, 17, 32, 33, 48, 49, 64, 65, 96, 97, 128, 130, 256};
    const int cins[] = {4, 16, 24, 32, 33, 64, 65, 96, 130};
    int turn = 0;
    for (int cout : couts) {
        for (numeric type : numerics) {
            ++turn;
            if (test_quick() && (cout > 33 || turn % 3)) {
                continue;
            }
            const bool many = !test_quick() && turn % 6 == 0; // outputs, or room for as many
            conv_case one = case_of(shape_make(3, cins[turn % 9], turn % 3 ? 0 : 16, cout, type),
                                    1000, many ? 40000 : 1500, many ? 300 : 40000);
            one.percent = turn % 2 ? -60 : 30;
            one.what = turn % 16;
            one.cuts = test_quick() ? 3 : 2;
            case_check(one, (uint64_t)turn, "many tiles");
        }
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
        conv_case one = case_of(s, 500, outputs, 100);
        one.percent = -60;
        const problem p = case_make(one, (uint64_t)s.cout, "shared tiles");
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

// Each array by itself, and all of them, off their alignment.
DEVICE_TEST(gpu_conv_unaligned_pointers) {
    for (numeric type : numerics) {
        for (int channels :
             {8, 16, 32, 33, 64}) { // rows that could be read wide, were they aligned
            for (int which = 0; which < 6; ++which) {
                for (int off : {1, 2, 3, 4}) {
                    if (!test_quick() || (channels == 16 && off == 1)) {
                        conv_case one =
                            case_of(shape_make(3, channels, channels, channels, type), 40, 70);
                        one.room = off % 2 ? 0 : 40000;
                        one.act = activation_none;
                        int *const moved[] = {&one.off.in, &one.off.in2, &one.off.out,
                                              &one.off.residual, &one.off.floats};
                        for (int m = 0; m < 5; ++m) {
                            *moved[m] = which == m || which == 5 ? off : 0;
                        }
                        case_check(one, (uint64_t)(channels + off + type), "unaligned");
                    }
                }
            }
        }
    }
}

// Rows that are slices of wider ones.
template <size_t n>
void slices_check(const slices (&tested)[n][2]) {
    for (const auto &by : tested) {
        for (numeric type : numerics) {
            const problem p = slices_problem(by, type);
            device_problem d;
            device_problem_make(&p, &d);
            conv_args *const a = &d.args;
            a->pitch_in = by[0].pitch;
            a->pitch_out = by[1].pitch;
            const size_t element = (size_t)numeric_size(type);
            const auto slice = [&](const std::vector<char> &wide, int side) {
                return device_upload(wide.data(), (int64_t)wide.size()) +
                       element * (size_t)by[side].at;
            };
            a->in = slice(slices_spread(type, p.in, by[0], 3), 0);
            a->epilogue.residual = slice(slices_spread(type, p.residual, by[1], 9), 1);
            std::vector<char> wide((size_t)(309 * by[1].pitch) * element, (char)0xff);
            char *const out = device_upload(wide.data(), (int64_t)wide.size());
            a->out = out + element * (size_t)by[1].at;
            CHECK_OK(device_problem_start(&d));
            device_copy_out(wide.data(), out, (int64_t)wide.size());
            problem_good(&p, slices_gather(type, wide, p.outputs, by[1]));
            a->pitch_in = by[0].channels - 1;
            CHECK_STATUS(device_problem_start(&d), status_bad_size);
            a->pitch_in = 0;
            a->pitch_out = -1;
            CHECK_STATUS(device_problem_start(&d), status_bad_size);
            guarded_finish();
        }
    }
}

DEVICE_TEST(gpu_conv_slices) {
    slices_check(slices_tested);
    slices_check(slices_narrow);
}

// A convolution for each group, in groups of 16 channels to 128.
DEVICE_TEST(gpu_conv_slices_of_groups) {
    const sliced_side side = {&memory_device, gpu(), stream_get(), shared_conv.conv_slices,
                              shared_conv.conv_slices_pack};
    uint64_t seed = 0;
    for (numeric type : numerics) {
        for (const conv_group_shape &s :
             {conv_group_shape{27, 2, 128, 128, type}, conv_group_shape{27, 4, 128, 128, type},
              conv_group_shape{5, 8, 128, 256, type}, conv_group_shape{8, 2, 256, 192, type},
              conv_group_shape{125, 4, 128, 128, type}, conv_group_shape{4, 3, 99, 111, type}}) {
            for (int32_t outputs : {0, 1, 3000}) {
                CHECK(sliced_good(sliced_make(++seed, s, outputs), side));
            }
        }
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

// ---- which kernel, and how its work is cut
// -------------------------------------------------------

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
                CHECK_EQUAL(kernel == conv_kernel_exact, !few && !recent);
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

// What does not fit is refused, and nothing is written. A depth that is not the layer's is not
// read.
DEVICE_TEST(gpu_conv_refuses_sizes) {
    const conv_shape shapes[] = {
        shape_make(27, 12, 0, 16, numeric_f16), shape_make(27, 70, 0, 96, numeric_f16),
        shape_make(27, 70, 0, 96, numeric_bf16), shape_make(27, 60, 0, 96, numeric_tf32),
        shape_make(27, 60, 0, 96, numeric_f32)};
    for (const conv_shape &s : shapes) {
        conv_case one = case_of(s, 100, 150);
        const problem p = case_make(one, 31, "refused");
        device_problem d;
        device_problem_make(&p, &d);
        for (int i = 0; i < 12 * 12 * 6 + 4; ++i) {
            const conv_sizes far[] = {
                {1 << 30, 1, 4, 1}, {1, 1 << 30, 4, 1}, {1, (1 << 27) + 1, 1, 1}, {1, 1, 8, 1}};
            const conv_sizes size =
                i < 4 ? far[i] : conv_sizes{(i - 4) / 72 - 1, (i - 4) / 6 % 12 - 1, (i - 4) % 6, 1};
            if (!conv_sizes_fit(&s, gpu(), &size)) {
                d.args.sizes = &size;
                sizes_check(device_problem_start(&d).code == status_unsupported, &p, &size,
                            "is not refused");
            }
        }
        CHECK(device_untouched(d.out, 0, d.out_bytes));
        for (int depth : {-4, 0, 2, 8}) {
            conv_sizes size = conv_sizes_choose(&s, 150, gpu());
            size.depth = depth;
            sizes_judge(&p, &size, sizes_run(&p, &d, &size));
        }
        guarded_finish();
    }
}

// What is listed.
std::vector<conv_sizes> sizes_of_device(const conv_shape *s, const device_info *d) {
    std::vector<conv_sizes> sizes(conv_sizes_most);
    const int count = conv_sizes_list(s, d, sizes.data());
    CHECK(count > 0 && count <= conv_sizes_most);
    sizes.resize((size_t)std::max(count, 0));
    return sizes;
}

// The blocks that registers allow have the shared memory that they ask for, and a stage for each
// warp that fetches.
void check_hopper_fits(const conv_shape *s, const device_info *d) {
    CHECK(d->hopper);
    for (const conv_sizes &size : sizes_of_device(s, d)) {
        int columns = 32 * size.slices, row = hopper_stage_row(s);
        int stages = hopper_stages(columns, row, &size, d->shared_max);
        int bytes =
            hopper_memory_bytes(columns, row, size.split, stages) + (int)sizeof(hopper_shared);
        CHECK(stages >= hopper_teams && stages <= hopper_stages_most);
        CHECK(bytes <= d->shared_max);
        CHECK(hopper_resident(columns, size.split, size.tiles) * (bytes + 1024) <=
              d->shared_max + 1024);
    }
}

// There are ways to cut a layer, and what is chosen is one, whatever the device.
TEST(conv_sizes_fit_the_device) {
    const device_info devices[] = {
        device_made(75, 40, 65536, false),    device_made(80, 108, 166912, false),
        device_made(86, 82, 101376, false),   device_made(89, 128, 101376, false),
        device_made(90, 132, 232448, false),  device_made(90, 132, 232448, true),
        device_made(100, 148, 232448, false), device_made(120, 170, 101376, false)};
    random_state random = random_make(47);
    const int most[] = {40, 130, 1024};
    int kernels[4] = {};
    for (int i = 0; i < 500; ++i) {
        conv_shape s = shape_make(random_int(&random, 1, random_int(&random, 0, 1) ? 40 : 3375),
                                  random_int(&random, 1, most[random_int(&random, 0, 2)]), 0,
                                  random_int(&random, 1, most[random_int(&random, 0, 2)]),
                                  numerics[1 + i % 3]);
        s.cin2 = i % 5 ? 0 : random_int(&random, 1, 1024);
        for (const device_info &d : devices) {
            const conv_kernel kernel = conv_kernel_of(&s, &d);
            ++kernels[kernel];
            if (kernel == conv_kernel_hopper) {
                check_hopper_fits(&s, &d);
            } else {
                CHECK(kernel != conv_kernel_narrow || sizes_of_device(&s, &d).size() == 3);
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
    CHECK_EQUAL(conv_compiled(conv_kernel_exact, numeric_f16), device_code_within(0, 79));
}

// On an H200: 256 output channels at a time where there are tiles for all thread blocks, or for all
// pairs of them, which then share a tile each; fewer channels at a time where there are not. Up to
// eight thread blocks share a tile where all of them have room.
TEST(conv_hopper_sizes_of_tiles) {
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
        {27, 128, 128, 31757, {1, 4, 1, 1}}, {27, 256, 256, 512, {1, 4, 8, 1}}, // 4 tiles
        {27, 256, 256, 1024, {1, 4, 8, 1}},  {27, 256, 256, 1025, {1, 4, 4, 1}},
        {27, 96, 96, 2048, {1, 3, 4, 1}},    {27, 96, 96, 5000, {1, 3, 2, 1}},
        {27, 64, 64, 4224, {1, 2, 4, 1}},    {27, 64, 64, 4225, {1, 2, 2, 1}},
        {27, 32, 32, 512, {1, 1, 1, 1}},     {8, 64, 64, 512, {2, 2, 1, 1}},
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
// multiple of 8 channels, and weights are as many as the chunks have channels.
TEST(conv_hopper_chunks) {
    const struct {
        int cin, cin2, cout, bytes, chunks;
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
        CHECK_EQUAL(hopper_chunk_bytes(&s), e.bytes);
        CHECK_EQUAL(hopper_chunks(&s), e.chunks);
        CHECK_EQUAL(hopper_stages_of_tile(&s), e.bytes == 64 ? 3 : 5 * e.chunks);
        CHECK_EQUAL(conv_packed_bytes(&s, conv_kernel_hopper),
                    (size_t)(5 * e.chunks * e.bytes) * ((e.cout + 15) / 16 * 16));
    }
}

// ---- initial sums -------------------------------------------------------------------------------

// The first offsets, onto sums of the others. sizes: null, chosen.
void check_begins_from_sums(const problem *all, const conv_sizes *sizes) {
    device_problem d;
    const problem first = problem_offsets(all, 0, all->shape.volume / 2);
    const problem rest = problem_offsets(all, all->shape.volume / 2, all->shape.volume);
    device_problem_make(&first, &d);
    d.args.sums = sums_upload(&rest);
    d.args.sizes = sizes;
    problem_good(all, device_problem_run(all, &d, true, [&] { return device_problem_start(&d); }));
    guarded_finish();
}

// A problem of 9 offsets, of which number `turn` chooses what is not given.
problem sums_problem(int cin, int cout, numeric type, int32_t outputs, int turn) {
    conv_case c = case_of(shape_make(9, cin, turn % 3 ? 0 : 5, cout, type), 100, outputs);
    c.room = turn % 2 * 90;
    c.off.out = turn % 5 == 0; // not aligned
    c.off.residual = turn % 7 == 0;
    c.what = turn % 16;
    c.act = (activation)(turn % 3);
    return case_make(c, (uint64_t)turn, "begins from sums");
}

// Any counts, cut as it is chosen; and 333 outputs in all ways to cut the work: of Hopper's kernel,
// all counts of columns.
DEVICE_TEST(gpu_conv_begins_from_sums) {
    int turn = 0;
    for (numeric type : numerics) {
        for (int cout : {1,  2,  3,  4,  5,   16,  17,  31,  32,  33,  47,  63,
                         64, 66, 96, 97, 127, 128, 129, 194, 200, 255, 256, 300}) {
            for (int cin : {8, 64, 90, 130}) {
                for (int32_t outputs : {0, 1, 64, 333}) {
                    if (!test_quick() || ++turn % 7 == 0) {
                        const problem p = sums_problem(cin, cout, type, outputs, ++turn);
                        check_begins_from_sums(&p, nullptr);
                    }
                }
            }
            const problem p = sums_problem(32, cout, type, 333, ++turn);
            for (const conv_sizes &size : sizes_listed(&p, test_quick() ? 9 : 1)) {
                check_begins_from_sums(&p, &size);
            }
        }
    }
}

// Sums that are left out, or of which one is off.
DEVICE_TEST(gpu_conv_planted_sums_are_found) {
    for (numeric type : numerics) {
        const problem all = sums_problem(32, 33, type, 100, 48);
        const problem first = problem_offsets(&all, 0, 4), rest = problem_offsets(&all, 4, 9);
        device_problem d;
        device_problem_make(&first, &d);
        auto ratio = [&] {
            CHECK_OK(device_problem_start(&d));
            return problem_judge(&all, device_problem_fetch(&all, &d).data()).ratio;
        };
        CHECK(ratio() > 1);
        d.args.sums = sums_upload(&rest);
        CHECK(ratio() <= 1);
        for (int64_t at : {(int64_t)0, (int64_t)32, (int64_t)99 * conv_sums_pitch(33) + 32}) {
            float *sum = (float *)d.args.sums + at;
            const float was = *device_fetch(sum, 1), off = was + 0.5f;
            device_copy_in(sum, &off, 1);
            CHECK(ratio() > 1);
            device_copy_in(sum, &was, 1);
        }
        guarded_finish();
    }
}

// ---- errors -------------------------------------------------------------------------------------

// Moves a pointer off the alignment of its elements.
template <typename P>
void misalign(P &pointer, int64_t bytes) {
    pointer = (P)((char *)pointer + bytes);
}

struct spoilt {
    status_code code;
    const char *subject; // a part of it
    void (*spoil)(conv_args *, conv_map *);
};

const spoilt spoilt_args[] = {
    {status_null_pointer, "in", [](conv_args *a, auto *) { a->in = nullptr; }},
    {status_null_pointer, "in2", [](conv_args *a, auto *) { a->in2 = nullptr; }},
    {status_null_pointer, "weights", [](conv_args *a, auto *) { a->weights = nullptr; }},
    {status_null_pointer, "out", [](conv_args *a, auto *) { a->out = nullptr; }},
    {status_null_pointer, "map", [](conv_args *a, auto *) { a->map = nullptr; }},
    {status_null_pointer, "count", [](auto *, conv_map *m) { m->count = nullptr; }},
    {status_alignment, "count", [](auto *, conv_map *m) { misalign(m->count, 2); }},
    {status_alignment, "in", [](conv_args *a, auto *) { misalign(a->in, 1); }},
    {status_alignment, "in2", [](conv_args *a, auto *) { misalign(a->in2, 1); }},
    {status_alignment, "out", [](conv_args *a, auto *) { misalign(a->out, 1); }},
    {status_alignment, "residual", [](conv_args *a, auto *) { misalign(a->epilogue.residual, 1); }},
    {status_alignment, "weights", [](conv_args *a, auto *) { misalign(a->weights, 4); }},
    {status_alignment, "scale", [](conv_args *a, auto *) { misalign(a->epilogue.scale, 2); }},
    {status_alignment, "sums",
     [](conv_args *a, auto *) { a->sums = (const float *)a->weights + 1; }},
    {status_alignment, "sums",
     [](conv_args *a, auto *) { a->sums = (const float *)a->weights + 2; }},
    {status_unsupported, "out", [](conv_args *a, auto *) { a->sums = (const float *)a->out; }},
    {status_unsupported, "out", [](conv_args *a, auto *) { a->out = (void *)a->in; }},
    {status_unsupported, "out", [](conv_args *a, auto *) { a->out = (void *)a->in2; }},
    {status_unsupported, "act", [](conv_args *a, auto *) { a->epilogue.act = activation_count; }},
    {status_unsupported, "type", [](conv_args *a, auto *) { a->shape.type = (numeric)9; }},
    {status_unsupported, "", [](auto *, conv_map *m) { m->form = (conv_form)7; }},
    {status_bad_size, "volume", [](auto *, conv_map *m) { m->volume = 4; }},
    {status_bad_size, "capacity", [](auto *, conv_map *m) { m->capacity = 0; }},
    {status_bad_size, "capacity", [](auto *, conv_map *m) { m->capacity = -1; }},
    {status_bad_size, "volume", [](conv_args *a, auto *) { a->shape.volume = 0; }},
    {status_bad_size, "volume", [](conv_args *a, auto *) { a->shape.volume = 3376; }},
    {status_bad_size, "cin", [](conv_args *a, auto *) { a->shape.cin = 0; }},
    {status_bad_size, "cin", [](conv_args *a, auto *) { a->shape.cin = -3; }},
    {status_bad_size, "cin", [](conv_args *a, auto *) { a->shape.cin = conv_channels_max + 1; }},
    {status_bad_size, "cin2", [](conv_args *a, auto *) { a->shape.cin2 = -1; }},
    {status_bad_size, "cin2", [](conv_args *a, auto *) { a->shape.cin2 = conv_channels_max + 1; }},
    {status_bad_size, "cout", [](conv_args *a, auto *) { a->shape.cout = 0; }},
    {status_bad_size, "cout", [](conv_args *a, auto *) { a->shape.cout = conv_channels_max + 1; }},
    // A layout that is incomplete, or of another kernel or capacity.
    {status_null_pointer, "layout", [](auto *, conv_map *m) { m->order.row = nullptr; }},
    {status_null_pointer, "layout", [](auto *, conv_map *m) { m->order.mask = nullptr; }},
    {status_null_pointer, "layout", [](auto *, conv_map *m) { m->order.source = nullptr; }},
    {status_bad_size, "layout.volume", [](auto *, conv_map *m) { m->order.volume = 4; }},
    {status_bad_size, "layout.volume", [](auto *, conv_map *m) { m->order.volume = 0; }},
    {status_bad_size, "layout.groups", [](auto *, conv_map *m) { --m->order.groups; }},
    {status_bad_size, "layout.groups", [](auto *, conv_map *m) { m->order.groups = -1; }},
    {status_bad_size, "layout.groups",
     [](auto *, conv_map *m) { m->capacity = m->order.groups * order_rows + 1; }},
};

// The narrow kernel reads 16 bytes of the layout at a time.
const spoilt spoilt_narrow[] = {
    {status_alignment, "layout", [](auto *, conv_map *m) { m->order.row += 2; }},
    {status_alignment, "layout", [](auto *, conv_map *m) { m->order.source += 2; }},
};

// What a convolution says of arguments and a map that are spoilt.
void check_spoilt(const device_problem *d, const spoilt &s) {
    conv_args args = d->args;
    conv_map map = d->map;
    args.map = &map;
    s.spoil(&args, &map);
    const status said = shared_conv.conv(gpu(), &args, stream_get());
    CHECK_STATUS(said, s.code);
    test_check(strstr(said.subject, s.subject) != nullptr, __FILE__, __LINE__, s.subject);
}

DEVICE_TEST(gpu_conv_refuses) {
    for (numeric type : numerics) {
        for (bool narrow : {false, true}) {
            const conv_shape s = shape_make(3, 8, narrow ? 0 : 5, 7, type);
            const problem p = case_make(case_of(s, 10, 120, 30), 29, "refused");
            device_problem d;
            device_problem_make(&p, &d);
            for (const spoilt &one : spoilt_args) {
                if (!narrow) {
                    check_spoilt(&d, one);
                }
            }
            for (const spoilt &one : spoilt_narrow) {
                if (conv_kernel_of(&s, gpu()) == conv_kernel_narrow) {
                    check_spoilt(&d, one);
                }
            }
            CHECK_STATUS(shared_conv.conv(gpu(), nullptr, stream_get()), status_null_pointer);
            CHECK_STATUS(shared_conv.conv(nullptr, &d.args, stream_get()), status_null_pointer);
            const status other = type == numeric_f16
                                     ? shared_conv.conv_f32(gpu(), &d.args, stream_get())
                                     : shared_conv.conv_f16(gpu(), &d.args, stream_get());
            CHECK_STATUS(other, status_unsupported); // another format than it is compiled for
            CHECK(device_untouched(d.out, 0, d.out_bytes));
            guarded_finish();
        }
    }
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
            return shared_conv.conv_weights_pack(gpu(), shape, &w, stream);
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
        CHECK_STATUS(shared_conv.conv_weights_pack(gpu(), &s, nullptr, stream),
                     status_null_pointer);
        CHECK(device_untouched(packed, 0, (int64_t)bytes));
    }
}

// Packed weights that are stored are taken where they belong, and refused elsewhere by name.
DEVICE_TEST(gpu_conv_weights_stored) {
    for (numeric type : numerics) {
        for (int cout : {7, 40, 200}) {
            const conv_shape s = shape_make(3, 6, 5, cout, type);
            const std::vector<float> weight((size_t)(3 * 11 * cout), 1.0f);
            size_t bytes = 0;
            CHECK_OK(conv_weights_bytes(gpu(), &s, &bytes));
            std::vector<char> stored(bytes);
            device_copy_out(stored.data(), (const char *)weights_upload(&s, weight),
                            (int64_t)bytes);
            CHECK_OK(conv_weights_stored(gpu(), &s, stored.data(), bytes));
            conv_shape other = s;
            ++other.cin;
            device_info elsewhere = *gpu();
            ++elsewhere.multiprocessors;
            const auto refuses = [&](const device_info *where, const conv_shape *shape,
                                     const char *word) {
                const status got = conv_weights_stored(where, shape, stored.data(), bytes);
                CHECK(status_failed(got) && strstr(got.subject, word));
            };
            refuses(gpu(), &other, "another layer");
            refuses(&elsewhere, &s, "another GPU model");
            conv_weights_tag *tag = (conv_weights_tag *)(stored.data() + bytes) - 1;
            ++tag->version;
            refuses(gpu(), &s, "another version");
            tag->magic = 0;
            refuses(gpu(), &s, "tag");
            CHECK_STATUS(conv_weights_stored(gpu(), &s, stored.data(), 8), status_file_format);
            CHECK_STATUS(conv_weights_stored(gpu(), &s, nullptr, bytes), status_null_pointer);
        }
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

} // namespace
