// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/host/hopper.cpp: the kernels of conv/hopper.cuh, emulated on the host (emulate_layers.h).
// The made-up device has few multiprocessors, so that each thread block computes several tiles.
#include "../support/emulate_i8.h"

using namespace problems;

namespace {

enum { shared_most = 232448 };

// Stages that fit into `shared` bytes.
int shape_stages(const conv_shape *s, const conv_sizes *sizes, int shared) {
    return hopper_stages(32 * sizes->slices, hopper_stage_row(s), sizes, shared);
}

int layer_stages(const layer *l, int shared) {
    return shape_stages(&l->joined.main.shape, &l->sizes, shared);
}

// The kernel: see emulate_layers.h.
struct hopper {
    static constexpr conv_kernel kernel = conv_kernel_hopper;
    enum { depth_least = hopper_teams, depth_most = hopper_stages_most, floats = false };
    static constexpr int edges[] = {1,   4,   9,   16,  17,  20,  24,  31,  32, 33,
                                    40,  48,  63,  64,  65,  80,  95,  96,  97, 100,
                                    127, 128, 129, 160, 192, 193, 255, 256, 257};
    static const device_info device;

    // The device, with shared memory for so many stages; 0: with all of it.
    template <typename E>
    static device_info device_of_depth(const conv_params &t, const conv_shape *s, conv_sizes sizes,
                                       int depth) {
        device_info d = device;
        sizes.split = hopper_is_plain<hopper_variant<E, false, false, 64>>(t) ? sizes.split : 1;
        while (depth && shape_stages(s, &sizes, d.shared_max) > depth) {
            d.shared_max -= 1024;
        }
        return d;
    }

    template <typename tag>
    static status run(tag, const conv_params &t, const layer *l) {
        typedef typename tag::element E;
        const device_info d = device_of_depth<E>(t, &l->joined.main.shape, l->sizes, l->depth);
        return t.shortcut.chunks ? hopper_launcher_of<E, true>(t)(&d, t, nullptr)
                                 : hopper_launcher_of<E>(t)(&d, t, nullptr);
    }

    template <bool mixed, typename tag>
    static status run(tag, const conv_params &t) {
        if constexpr (sizeof(typename tag::element) == 2) {
            return hopper_launcher_of<typename tag::element, false, mixed>(t)(&device, t, nullptr);
        }
        return conv_not_compiled();
    }

    // The same of int8 (emulate_i8.h).
    static status run(const conv_params &t, const i8_layer *l) {
        // Eight thread blocks that share tiles hand over 128 KB of sums in the ring.
        const int depth = l->sizes.split > 2 ? 0 : 4 + (int)(l->seed % 7);
        const device_info d = device_of_depth<int8_t>(t, &l->problem.shape, l->sizes, depth);
        return t.shortcut.chunks ? hopper_launcher_of<int8_t, true>(t)(&d, t, nullptr)
                                 : hopper_launcher_of<int8_t>(t)(&d, t, nullptr);
    }
};

const device_info hopper::device = device_made(90, 3, shared_most, true);

} // namespace

TEST(hopper_emulated_random_layers) {
    layers_random<hopper>(test_quick() ? 6 : 60, true);
}

// Rows that are aligned to 8, 4 or 2 bytes and no more: alone, beside wide ones, and beside rows of
// another alignment.
TEST(hopper_emulated_unaligned_rows) {
    const int cases[][4] = {{36, 0, 36, 0},  {100, 0, 100, 0}, {64, 36, 64, 0}, {36, 64, 40, 0},
                            {44, 33, 12, 0}, {252, 0, 252, 0}, {36, 0, 64, 12}, {64, 0, 96, 36},
                            {20, 12, 20, 0}, {132, 0, 128, 0}, {34, 0, 34, 0},  {66, 0, 66, 0},
                            {35, 0, 35, 0},  {127, 0, 64, 0},  {97, 62, 96, 0}, {64, 31, 64, 0},
                            {33, 64, 32, 7}, {98, 0, 64, 13},  {64, 0, 96, 23}, {129, 0, 128, 0}};
    uint64_t turn = 0;
    for (const auto &c : cases) {
        random_state random = random_make(++turn);
        const conv_shape s = shape_make(5, c[0], c[1], c[2], turn % 2 ? numeric_f16 : numeric_bf16);
        layer l = layer_of(&random, s, {200, 300, 9}, 40, c[3], c[3] ? with_scale : with_all);
        conv_sizes sizes[conv_sizes_most];
        l.sizes = sizes[random_int(&random, 0, conv_sizes_list(&s, &hopper::device, sizes) - 1)];
        l.joined.main.act = activation_relu;
        l.seed = turn;
        REQUIRE(layer_check<hopper>(&l, "unaligned rows"));
    }
}

// Rows of every even number of channels, alone and beside others, in arrays off their alignment.
TEST(hopper_emulated_even_counts) {
    for (int cin = 2; cin <= 130; cin += 2) {
        random_state random = random_make((uint64_t)cin);
        const int cin2 = cin % 8 == 6 ? 132 - cin : 0, cout = cin % 3 ? 40 : 96;
        const numeric type = cin % 4 ? numeric_f16 : numeric_bf16;
        layer l = layer_of(&random, shape_make(3, cin, cin2, cout, type), {150, 140, 9}, 40, 0,
                           with_bias);
        l.sizes = hopper_sizes_choose(&l.joined.main.shape, 140, &hopper::device);
        l.joined.main.off.in = 2;
        l.joined.main.off.in2 = cin / 8 % 2 * 2;
        l.seed = (uint64_t)cin;
        REQUIRE(layer_check<hopper>(&l, "even counts"));
    }
}

// The asynchronous copies of rows: the widest that all rows of both sources allow.
TEST(hopper_copy_bytes) {
    const struct {
        int cin, off, cin2, off2, pitch, bytes;
        numeric type;
    } rows[] = {{64, 0, 0, 0, 0, 8, numeric_f16},   {36, 0, 0, 0, 0, 8, numeric_f16},
                {64, 4, 0, 0, 0, 8, numeric_f16},   {36, 2, 0, 0, 0, 4, numeric_bf16},
                {34, 0, 0, 0, 0, 4, numeric_f16},   {34, 2, 0, 0, 0, 4, numeric_f16},
                {34, 1, 0, 0, 0, 0, numeric_f16},   {33, 0, 0, 0, 0, 0, numeric_bf16},
                {64, 0, 34, 0, 0, 4, numeric_f16},  {34, 0, 64, 0, 0, 4, numeric_f16},
                {36, 0, 36, 2, 0, 4, numeric_bf16}, {36, 0, 36, 3, 0, 0, numeric_f16},
                {36, 0, 33, 0, 0, 0, numeric_f16},  {36, 0, 0, 1, 0, 8, numeric_f16},
                {36, 0, 0, 0, 38, 4, numeric_f16},  {34, 0, 0, 0, 36, 4, numeric_f16},
                {36, 0, 0, 0, 41, 0, numeric_f16},  {36, 0, 0, 0, 0, 4, numeric_i8},
                {40, 0, 0, 0, 0, 8, numeric_i8},    {34, 0, 0, 0, 0, 0, numeric_i8},
                {40, 4, 24, 0, 0, 4, numeric_i8}};
    alignas(16) static const char memory[64] = {};
    const conv_map map = conv_map_identity(nullptr, 1);
    for (const auto &r : rows) {
        conv_args a = {};
        a.shape = shape_make(1, r.cin, r.cin2, 64, r.type);
        a.in = memory + r.off * numeric_size(r.type);
        a.in2 = memory + r.off2 * numeric_size(r.type);
        a.pitch_in = r.pitch;
        a.map = &map;
        const conv_params p = conv_params_of(&hopper::device, &a, conv_kernel_hopper);
        CHECK_EQUAL((int)p.copy_bytes, r.bytes);
    }
}

// Rows that are slices of wider ones.
TEST(hopper_emulated_slices) {
    layers_slices<hopper>(slices_tested);
}

// Layers of int8, to the bit.
TEST(hopper_emulated_i8) {
    i8_layers_check<hopper>({{9, 40, 0, 20, numeric_i8},
                             {27, 32, 0, 32, numeric_i8},
                             {41, 16, 16, 20, numeric_i8},
                             {9, 32, 0, 19, numeric_i8},
                             {8, 64, 65, 64, numeric_i8},
                             {1, 128, 32, 96, numeric_i8},
                             {40, 16, 0, 33, numeric_i8},
                             {5, 67, 33, 64, numeric_i8},
                             {5, 129, 0, 65, numeric_i8},
                             {5, 98, 0, 64, numeric_i8},
                             {5, 100, 70, 136, numeric_i8}});
}

// Layers of 96 channels read no more bytes of a row than these: 96 of int8; those of 32 read 32.
TEST(hopper_i8_chunks) {
    const struct {
        int cin, cin2, cout, bytes, chunks, shortcut;
    } expected[] = {{32, 0, 32, 32, 1, 128},   {32, 0, 33, 64, 1, 128},   {16, 17, 32, 64, 1, 128},
                    {16, 16, 20, 32, 1, 128},  {33, 0, 32, 64, 1, 128},   {1, 0, 32, 32, 1, 128},
                    {64, 0, 64, 64, 1, 128},   {65, 0, 64, 128, 1, 128},  {64, 0, 96, 96, 1, 96},
                    {96, 0, 96, 96, 1, 96},    {80, 16, 96, 96, 1, 96},   {81, 16, 96, 128, 1, 128},
                    {96, 0, 97, 128, 1, 128},  {128, 0, 96, 128, 1, 128}, {160, 32, 80, 96, 2, 96},
                    {160, 33, 80, 128, 2, 128}};
    for (const auto &e : expected) {
        const conv_shape s = shape_make(5, e.cin, e.cin2, e.cout, numeric_i8);
        CHECK_EQUAL(hopper_chunk_bytes(&s), e.bytes);
        CHECK_EQUAL(hopper_chunks(&s), e.chunks);
        CHECK_EQUAL(hopper_chunk_shortcut(hopper_stage_row(&s)), e.shortcut);
        CHECK_EQUAL(conv_packed_bytes(&s, conv_kernel_hopper),
                    (size_t)(5 * e.chunks * e.bytes) * ((e.cout + 31) / 32 * 32));
    }
}

// How layers of int8 are cut, on an H200: two thread blocks share a tile of fewer stages than in
// fp16 where they have 128 columns, of more where they have 256.
TEST(hopper_i8_sizes_of_tiles) {
    const device_info d = device_made(90, 132, shared_most, true);
    const struct {
        int cin, cin2, cout;
        int32_t capacity;
        conv_sizes wanted;
    } layers[] = {{128, 0, 128, 14534, {1, 4, 2, 1}},   {128, 0, 128, 31757, {1, 4, 1, 1}},
                  {128, 0, 256, 5906, {1, 4, 2, 1}},    {256, 0, 256, 5906, {1, 4, 2, 1}},
                  {256, 0, 256, 14534, {1, 4, 1, 1}},   {256, 128, 256, 14534, {1, 4, 1, 1}},
                  {256, 256, 256, 14534, {1, 8, 2, 1}}, {256, 0, 256, 91766, {1, 8, 1, 1}},
                  {96, 0, 96, 14534, {1, 3, 1, 1}},     {64, 0, 64, 31757, {2, 2, 1, 1}}};
    for (const auto &l : layers) {
        const conv_shape s = shape_make(27, l.cin, l.cin2, l.cout, numeric_i8);
        const conv_sizes c = hopper_sizes_choose(&s, l.capacity, &d);
        char name[80];
        snprintf(name, sizeof name, "%d+%d,%d of %d: %d slices, split %d", l.cin, l.cin2, l.cout,
                 (int)l.capacity, c.slices, c.split);
        test_check(memcmp(&c, &l.wanted, sizeof c) == 0, __FILE__, __LINE__, name);
    }
}

TEST(hopper_emulated_mixed_formats) {
    uint64_t seed = 0;
    for (int cout : {20, 96, 256}) {
        ++seed;
        mixed_check<hopper>(seed % 2 ? numeric_f16 : numeric_bf16, seed, 70, cout);
    }
}

// Every variant of int8, with a shortcut and without.
TEST(hopper_emulated_i8_every_kernel) {
    const layer_cut cuts[] = {
        {{1, 1, 1, 1}, 130, 0, 32},  {{1, 2, 1, 1}, 64, 65, 64},  {{2, 2, 1, 1}, 80, 0, 64},
        {{1, 2, 2, 1}, 64, 0, 64},   {{1, 2, 4, 1}, 80, 0, 64},   {{1, 3, 1, 1}, 96, 0, 96},
        {{1, 3, 1, 1}, 128, 0, 96},  {{1, 3, 2, 1}, 64, 32, 96},  {{1, 3, 8, 1}, 97, 0, 96},
        {{1, 4, 1, 1}, 128, 0, 128}, {{1, 4, 4, 1}, 128, 0, 128}, {{1, 4, 2, 1}, 128, 0, 128},
        {{1, 8, 1, 1}, 64, 0, 256},  {{1, 8, 2, 1}, 64, 0, 256}};
    const numeric formats[] = {numeric_i8, numeric_f16, numeric_bf16};
    emulate::launched.clear();
    random_state r = random_make(49);
    uint64_t turn = 0;
    for (const layer_cut &cut : cuts) {
        for (int shortcut : {0, 72}) {
            i8_wish w = {{4, cut.cin, cut.cin2, cut.cout, numeric_i8},
                         shortcut,
                         0,
                         !shortcut,
                         numeric_i8,
                         formats[++turn % 3],
                         activation_relu,
                         true,
                         false};
            if (layer_takes<hopper>(&w.shape, shortcut)) {
                const int32_t outputs = 300 * cut.sizes.tiles;
                i8_layer l = {i8_problem_random(&r, &w, 200, outputs, 3),
                              cut.sizes,
                              0,
                              0,
                              turn % 4 == 0,
                              turn};
                REQUIRE(i8_layer_check<hopper>(&l, i8_reference(&l.problem)));
            }
        }
    }
    CHECK_EQUAL(emulate::launched.size(), 26 + 1);
}

TEST(hopper_emulated_every_count) {
    layers_every_count<hopper>();
}

// Of each type 14 variants, 12 with a shortcut (hopper_launcher_of), and the one that packs
// weights.
TEST(hopper_emulated_every_kernel) {
    layers_every_kernel<hopper>({{{1, 1, 1, 1}, 40, 0, 32},
                                 {{1, 2, 1, 1}, 64, 0, 64},
                                 {{2, 2, 1, 1}, 64, 0, 64},
                                 {{1, 2, 2, 1}, 80, 0, 64},
                                 {{1, 2, 8, 1}, 80, 0, 64},
                                 {{1, 3, 1, 1}, 96, 0, 96},
                                 {{1, 3, 1, 1}, 64, 0, 96},
                                 {{1, 3, 4, 1}, 96, 0, 96},
                                 {{1, 3, 2, 1}, 64, 0, 96},
                                 {{1, 4, 1, 1}, 128, 0, 128},
                                 {{1, 4, 2, 1}, 128, 0, 128},
                                 {{1, 4, 4, 1}, 128, 0, 128},
                                 {{1, 8, 1, 1}, 64, 0, 256},
                                 {{1, 8, 2, 1}, 64, 0, 256}},
                                true, 2 * (26 + 1));
}

// Each activation, with a residual and without, beside a shortcut and without one: in all variants
// that have the general path, of whole columns, of fewer, of a tail that 4 does not divide. Fewer
// outputs than the capacity; some residuals are the array of the outputs.
TEST(hopper_emulated_epilogues) {
    const layer_cut cuts[] = {{{1, 1, 1, 1}, 40, 0, 32}, {{1, 2, 1, 1}, 64, 0, 64},
                              {{2, 2, 1, 1}, 64, 0, 64}, {{1, 3, 1, 1}, 96, 0, 96},
                              {{1, 3, 1, 1}, 64, 0, 96}, {{1, 4, 1, 1}, 128, 0, 128},
                              {{1, 8, 1, 1}, 64, 0, 256}};
    const int fewer[] = {0, 4, 1, 20, 18, 0, 11}; // channels
    const int capacities[] = {130, 3, 300};
    int turn = 0;
    for (const layer_cut &cut : cuts) {
        for (int act = activation_none; act < activation_count; ++act) {
            for (int kind = 0; kind < 4; ++kind) { // 1: residual; 2: shortcut
                ++turn;
                if (test_quick() && turn % 4) {
                    continue;
                }
                const numeric type = turn / 4 % 2 ? numeric_f16 : numeric_bf16;
                const conv_shape s = shape_make(2, cut.cin, 0, cut.cout - fewer[turn % 7], type);
                if (!layer_takes<hopper>(&s, kind > 1) ||
                    !conv_sizes_fit(&s, &hopper::device, &cut.sizes)) {
                    continue;
                }
                random_state random = random_make((uint64_t)turn);
                const int residual = kind % 2 ? with_residual : 0;
                layer l = layer_of(&random, s, {100, 190, capacities[turn % 3]}, 50,
                                   kind > 1 ? 40 : 0, with_scale | with_shift | residual);
                problem_fill_epilogue(&random, &l.joined.main, with_scale | with_shift | residual,
                                      (activation)act);
                l.sizes = cut.sizes;
                l.joined.main.off.residual = turn % 5 == 0;
                l.programmatic = turn % 2;
                l.in_place = turn % 3 == 0;
                l.seed = (uint64_t)turn;
                REQUIRE(layer_check<hopper>(&l, "epilogues"));
            }
        }
    }
}

// Numbers that are none, infinities, zeros of either sign and what overflows the format pass each
// activation alike: by the plain path and the general one, in rows of each alignment, in place.
TEST(hopper_emulated_epilogues_of_special_values) {
    const float special[] = {NAN, INFINITY, -INFINITY, -0.0f, 0.0f, 65504, -65504, 3e38f, -3e38f};
    const conv_sizes cuts[] = {{1, 1, 1, 1}, {1, 2, 1, 1}, {1, 3, 1, 1}, {1, 4, 1, 1}};
    for (const conv_sizes &cut : cuts) {
        for (int act = activation_none; act < activation_count; ++act) {
            const numeric type = (act + cut.slices) % 2 ? numeric_f16 : numeric_bf16;
            random_state random = random_make((uint64_t)(8 * cut.slices + act));
            layer l = layer_of(&random, shape_make(2, 64, 0, 32 * cut.slices - 4, type),
                               {30, 70, 20}, 40, 0, with_residual);
            problem *p = &l.joined.main;
            p->act = (activation)act;
            p->slope = 0.25f;
            l.sizes = cut;
            for (size_t i = 0; i < p->residual.size(); i += 3) {
                p->residual[i] = numeric_stored(type, special[i / 3 % 9]);
            }
            const std::vector<char> wanted = layer_run<hopper>(&l);
            for (int way = 1; way < 16; ++way) {
                p->off.out = way % 4;
                p->off.residual = way / 4;
                l.more_out = way % 3 * 4 + way / 8;
                l.in_place = way % 5 == 0;
                layer_name(&l, "special values");
                CHECK(layer_run<hopper>(&l) == wanted);
            }
        }
    }
}

TEST(hopper_emulated_many_offsets) {
    layers_many_offsets<hopper>(
        {{1, 1, 1, 1}, {1, 2, 1, 1}, {2, 2, 1, 1}, {1, 2, 2, 1}, {1, 3, 1, 1}, {1, 4, 2, 1}},
        numeric_bf16, 72);
}

TEST(hopper_emulated_many_channels) {
    layers_many_channels<hopper>(true);
}

TEST(hopper_emulated_negative_counts) {
    layers_negative_counts<hopper>(shape_make(5, 64, 0, 64, numeric_f16), {1, 2, 1, 1});
    layers_negative_counts<hopper>(shape_make(5, 64, 0, 128, numeric_bf16), {1, 4, 2, 1});
}

TEST(hopper_emulated_weights_beyond) {
    layers_weights_beyond<hopper>(numeric_f16, 64, 64);
    layers_weights_beyond<hopper>(numeric_bf16, 16, 32);
}

TEST(hopper_emulated_weights_of_gradients) {
    layers_weights_of_gradients<hopper>(numeric_f16);
}

namespace {

struct ring_cut {
    conv_sizes sizes;
    int cout, outputs; // with many short tiles for each thread block
};

// The variants with two sets of consumer warpgroups: two, two and one producer warp for a stage.
const ring_cut two_sets[] = {
    {{2, 2, 1, 1}, 64, 2300}, {{1, 3, 1, 1}, 96, 2300}, {{1, 4, 1, 1}, 128, 2300}};

// And with one: two producer warps for a stage, then one.
const ring_cut one_set[] = {{{1, 2, 1, 1}, 64, 2300}, {{1, 8, 2, 1}, 256, 2300}};

// And where several thread blocks share tiles. Each tile has its own: a few tell as much as many.
const ring_cut shared_tiles[] = {
    {{1, 2, 8, 1}, 64, 500}, {{1, 4, 4, 1}, 128, 500}, {{1, 3, 2, 1}, 96, 500}};

layer layer_of_short_tiles(const ring_cut &cut, uint64_t seed, int percent, int depth) {
    random_state random = random_make(seed);
    const conv_shape s = shape_make(2, random_int(&random, 33, 160), 0, cut.cout, numeric_f16);
    layer l = layer_of(&random, s, {200, cut.outputs, 0}, percent);
    l.sizes = cut.sizes;
    l.seed = seed;
    l.depth = std::min(layer_stages(&l, shared_most), depth);
    return l;
}

template <size_t count>
void check_rings(const ring_cut (&cuts)[count], int percent) {
    int seed = 0;
    for (int depth = hopper_teams; depth <= hopper_stages_most; ++depth) {
        for (const ring_cut &cut : cuts) {
            if (!test_quick() || ++seed % 5 == 0) {
                const auto own = (uint64_t)(100 * depth + cut.cout);
                layer l = layer_of_short_tiles(cut, own, percent, depth);
                REQUIRE(layer_check<hopper>(&l, "rings", depth % 2 + 1));
            }
        }
    }
}

} // namespace

// Two sets that alternate between many short tiles, in rings of every depth: one set still reads a
// stage when the other has released those behind it.
TEST(hopper_emulated_sets_alternate) {
    check_rings(two_sets, 1);
}

// One set, in rings of every depth.
TEST(hopper_emulated_rings) {
    check_rings(one_set, 5);
}

// Thread blocks that share tiles, of which some have no stage, in rings of every depth.
TEST(hopper_emulated_shared_tiles) {
    check_rings(shared_tiles, 5);
}

// Tests the test: without a barrier of the cluster, sums arrive in stages that are still read.
TEST(hopper_emulated_shared_tiles_meet) {
    int wrong = 0;
    for (int seed = 0; seed < 4; ++seed) {
        ring_cut cut = shared_tiles[seed % 2];
        cut.outputs = 2300; // what happens to sums that come too early is left to chance
        const layer l = layer_of_short_tiles(cut, (uint64_t)seed, 40, 4);
        emulate::meetings_skipped = true;
        wrong += layer_fails<hopper>(&l);
        emulate::meetings_skipped = false;
        CHECK(!layer_fails<hopper>(&l));
    }
    CHECK(wrong > 0);
}

// Tests the test: with two sets, producers that do not wait for a stage's previous content
// (hopper_produce) overtake each other, except in a ring of four stages.
TEST(hopper_emulated_sets_need_both_waits) {
    int wrong[2] = {0, 0}; // of rings of 4 stages; of 5
    for (int seed = 0; seed < 24; ++seed) {
        const layer l = layer_of_short_tiles(two_sets[0], (uint64_t)seed, 1, 4 + seed % 2);
        std::vector<int> waits(1024);
        emulate::wait_skipped = [&] { // of a producer's waits, every other one is for `full`
            const int own = (int)threadIdx.x;
            return own >= hopper_consumers(64, 1, 2) && waits[(size_t)own]++ % 2 == 0;
        };
        wrong[seed % 2] += layer_fails<hopper>(&l);
        emulate::wait_skipped = nullptr;
    }
    CHECK_EQUAL(wrong[0], 0);
    CHECK(wrong[1] > 0);
}
