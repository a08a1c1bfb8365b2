// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/host/growth.cpp: prune.h, subdivide.h and rows.h against tables of coordinates, and their
// kernels, run on the host (emulate_numeric.h), against the same.
#include "../support/emulate_numeric.h"

#include "../support/downsample.h"
#include "../support/growth.h"

#include "../../spira/map.h"
#include "../../spira/prune.cuh"
#include "../../spira/rows.cuh"
#include "../../spira/subdivide.cuh"

#include <map>

using namespace spira;

namespace {

template <typename W>
const growth_side<W> by_host = {
    &memory_host, prune_workspace<W>,
    [](const prune_args<W> *a, void *, size_t) { return prune_host(a); },
    subdivide_host_workspace<W>, subdivide_host<W>};

template <typename W>
const growth_side<W> by_kernel = {&memory_host, prune_workspace<W>,
                                  [](const prune_args<W> *a, void *scratch, size_t bytes) {
                                      return prune<W>(a, scratch, bytes, nullptr);
                                  },
                                  subdivide_workspace<W>,
                                  [](const subdivide_args<W> *a, void *scratch, size_t bytes) {
                                      return subdivide<W>(a, scratch, bytes, nullptr);
                                  }};

const auto sides = {&by_host<uint32_t>, &by_kernel<uint32_t>};

template <typename W>
void check_random(uint64_t seed, int cases, int32_t most, const growth_side<W> *by) {
    random_state r = random_make(seed);
    for (int i = 0; i < cases; ++i) {
        emulate::seed = (uint64_t)i;
        growth_problem<W> p = growth_random<W>(&r, i % 3 > 0, most);
        growth_agrees(&p, by);
    }
}

TEST(growth_host_random) {
    check_random(1, 600, 300, &by_host<uint32_t>);
    check_random(2, 600, 300, &by_host<uint64_t>);
}

TEST(growth_emulated_random) {
    check_random(3, 20, 500, &by_kernel<uint32_t>);
    check_random(4, 20, 500, &by_kernel<uint64_t>);
}

// A count above the capacity is recorded and clamped.
TEST(growth_counts_that_lie) {
    random_state r = random_make(5);
    for (int i = 0; i < 8; ++i) {
        growth_problem<uint64_t> p = growth_random<uint64_t>(&r, i % 2, 200);
        p.words.resize((size_t)max_of(p.voxels(), 1));
        p.count = p.capacity() + 5;
        if (p.voxels() > 1) {
            growth_agrees(&p, i / 2 % 2 ? &by_host<uint64_t> : &by_kernel<uint64_t>);
        }
    }
}

// The voxels A to F of the worked examples, at stride 2.
std::vector<uint32_t> six_voxels(const word_layout *layout) {
    const int at[6][3] = {{0, 0, 0}, {0, 0, 1}, {0, 1, 1}, {1, 0, 0}, {1, 1, 1}, {3, 2, 0}};
    std::vector<uint32_t> words;
    for (const auto &v : at) {
        words.push_back(word_pack<uint32_t>(layout, {0, 2 * v[0], 2 * v[1], 2 * v[2]}));
    }
    return words;
}

// Their masks and logits, worked out by hand.
TEST(growth_worked_example) {
    growth_problem<uint32_t> p = {};
    p.layout = reference_layout<uint32_t>({0, 0, 0}, {15, 15, 15}, 1, {2, 2, 2}, {1, 1, 1});
    p.words = six_voxels(&p.layout);
    p.count = p.out_capacity = 6;
    p.mask = {1, 0, 1, 1, 0, 1};
    for (const growth_side<uint32_t> *by : sides) {
        CHECK(growth_run(&p, by).source == (std::vector<int32_t>{0, 2, 3, 5}));
    }
    const float no = -1;
    const std::vector<float> logits = {1,  no, no, no, no, no,  no, no,    no,  no, no,    no,
                                       no, no, no, 2,  .5, .25, 0,  -0.0f, NAN, no, 1e-7f, no,
                                       no, no, no, no, no, no,  no, no,    3,   3,  3,     3,
                                       3,  3,  3,  3,  no, no,  1,  no,    1,   no, no,    no};
    p.mask.clear();
    p.stride = {2, 2, 2};
    p.out_capacity = 20;
    p.choice.channels = 8;
    p.scores.resize(logits.size() * 4);
    reference_store(numeric_f32, logits.data(), (int64_t)logits.size(), p.scores.data());
    // The children in order, and 8 row + child number of each.
    const int children[][4] = {// x, y, z, 8 row + child number
                               {0, 0, 0, 0},  {0, 2, 2, 16}, {0, 3, 3, 22}, {1, 1, 3, 15},
                               {1, 2, 2, 17}, {2, 2, 2, 32}, {2, 2, 3, 36}, {2, 3, 2, 34},
                               {2, 3, 3, 38}, {3, 2, 2, 33}, {3, 2, 3, 37}, {3, 3, 2, 35},
                               {3, 3, 3, 39}, {6, 4, 1, 44}, {6, 5, 0, 42}};
    for (const growth_side<uint32_t> *by : sides) {
        const growth_outcome<uint32_t> o = growth_run(&p, by);
        REQUIRE(o.set.count == 15);
        for (size_t i = 0; i < 15; ++i) {
            const int *c = children[i];
            CHECK_EQUAL(o.set.words[i], word_pack<uint32_t>(&p.layout, {0, c[0], c[1], c[2]}));
            CHECK_EQUAL(o.source[i], c[3]);
        }
        CHECK_EQUAL(o.set.trouble.flags, (uint32_t)device_flag_not_finite);
    }
}

// A generative transposed convolution of size and stride 2, one channel, W = 1 + 4 dx + 2 dy + dz.
TEST(growth_generative_convolution) {
    growth_problem<uint32_t> p = {};
    p.layout = reference_layout<uint32_t>({0, 0, 0}, {15, 15, 15}, 1, {2, 2, 2}, {2, 2, 2});
    p.words = six_voxels(&p.layout);
    p.stride = {2, 2, 2};
    p.count = 6;
    p.out_capacity = 48;
    growth_outcome<uint32_t> o = growth_run(&p, &by_host<uint32_t>);
    REQUIRE(o.set.count == 48);
    kernel_shape kernel = kernel_cube(2, 1);
    kernel.transposed = true;
    std::vector<int32_t> map(48 * 8);
    const voxel_set<uint32_t> in = {p.words.data(), &p.count, 6},
                              out = {o.set.words.data(), &o.set.count, 48};
    CHECK_OK(map_build_host(&p.layout, &kernel, in, out, map.data()));
    float all = 0;
    for (int i = 0; i < 48; ++i) {
        float sum = 0;
        for (int k = 0; k < 8; ++k) {
            const int32_t source = map[(size_t)(8 * i + k)];
            sum +=
                source < 0 ? 0 : (float)((source + 1) * (1 + k)); // values 1 to 6; k = 4x + 2y + z
        }
        const voxel v = word_unpack<uint32_t>(&p.layout, o.set.words[(size_t)i]);
        const float wanted = v.x == 0 && v.y == 1 && v.z == 2   ? 6
                             : v.x == 1 && v.y == 0 && v.z == 1 ? 6
                             : v.x == 3 && v.y == 3 && v.z == 3 ? 40
                             : v.x == 7 && v.y == 5 && v.z == 1 ? 48
                                                                : sum;
        CHECK_EQUAL(sum, wanted);
        all += sum;
    }
    CHECK_EQUAL(all, 756.0f);
}

namespace {

// Pairs of a kernel of 3 over a set of a stride.
int64_t pairs_of_three(const word_layout &layout, set_outcome<uint32_t> &set, int stride) {
    kernel_shape kernel = kernel_cube(3, 1);
    kernel.stride = {stride, stride, stride};
    std::vector<int32_t> map((size_t)set.count * 27);
    const voxel_set<uint32_t> of = {set.words.data(), &set.count, set.count};
    CHECK_OK(map_build_host(&layout, &kernel, of, of, map.data()));
    return std::count_if(map.begin(), map.end(), [](int32_t i) { return i >= 0; });
}

// Cells of twice the stride, by how many children they have (from 1 on), and the sum of their
// codes: bit x + 2 y + 4 z for each child.
struct children_counts {
    int cells[8];
    int64_t codes;
};

children_counts children_of(const word_layout &layout, const std::vector<uint32_t> &words,
                            int stride) {
    std::map<uint32_t, unsigned> code;
    for (uint32_t word : words) {
        voxel v = word_unpack<uint32_t>(&layout, word);
        const int x = v.x / stride % 2, y = v.y / stride % 2, z = v.z / stride % 2;
        v.x -= x * stride;
        v.y -= y * stride;
        v.z -= z * stride;
        code[word_pack<uint32_t>(&layout, v)] |= 1u << (x + 2 * y + 4 * z);
    }
    children_counts c = {};
    for (const auto &cell : code) {
        ++c.cells[__builtin_popcount(cell.second) - 1];
        c.codes += cell.second;
    }
    return c;
}

} // namespace

// A scan of a surface, pruned and grown by a hash of the coordinates: the numbers of voxels and the
// sums of their coordinates were computed elsewhere.
TEST(growth_of_a_shell) {
    word_layout layout;
    std::vector<uint32_t> fine = reference_scan<uint32_t>("beast_shell1024.vox32", 8, &layout);
    if (fine.empty()) {
        SKIP("no data/beast_shell1024.vox32");
    }
    growth_problem<uint32_t> p = growth_of_shell(layout, fine, 29);
    growth_outcome<uint32_t> o = growth_run(&p, &by_host<uint32_t>);
    CHECK_EQUAL(o.set.count, 172445);
    CHECK_EQUAL(growth_check_sum(p.layout, o.set, 1), 31007781660234);
    p = growth_of_shell(layout, fine);
    o = growth_run(&p, &by_host<uint32_t>);
    CHECK_EQUAL(o.set.count, 688397);
    CHECK_EQUAL(growth_check_sum(p.layout, o.set, 1), 123967353528145);
    for (int step = 0; step < 4; ++step) {
        growth_shell_step(&p, fine, step ? &o : nullptr);
        o = growth_run(&p, &by_host<uint32_t>);
        CHECK_EQUAL(o.set.count, growth_shell_steps[step].voxels);
        CHECK_EQUAL(growth_check_sum(p.layout, o.set, p.stride.x / 2),
                    growth_shell_steps[step].sum);
        CHECK_EQUAL(pairs_of_three(p.layout, o.set, p.stride.x / 2),
                    growth_shell_steps[step].pairs);
    }
}

// Voxels, sums of coordinates, pairs of a kernel of 3 and children at each stride, computed
// elsewhere.
TEST(growth_counts_of_a_shell) {
    word_layout layout;
    const std::vector<uint32_t> fine =
        reference_scan<uint32_t>("beast_shell1024.vox32", 32, &layout);
    if (fine.empty()) {
        SKIP("no data/beast_shell1024.vox32");
    }
    const struct {
        int stride;
        int32_t voxels;
        int64_t sum, pairs;
        children_counts children;
    } known[] = {{2,
                  357096,
                  31980860781534,
                  5105158,
                  {{49147, 61290, 35247, 79244, 36269, 72351, 23010, 538}, 43843760}},
                 {4,
                  90524,
                  4018478290296,
                  1324172,
                  {{12393, 15106, 8623, 19372, 8808, 16805, 9072, 345}, 11346789}},
                 {8,
                  22574,
                  492391814201,
                  336598,
                  {{2966, 3659, 2174, 4883, 2167, 3860, 2729, 136}, 2862779}},
                 {16, 5537, 58216634714, 83049, {{726, 877, 533, 1145, 538, 886, 747, 85}, 716664}},
                 {32, 1342, 6801024329, 20970, {{148, 223, 137, 287, 115, 241, 165, 26}, 173892}}};
    std::vector<uint32_t> finer = fine;
    for (const auto &one : known) {
        const triple stride = {one.stride, one.stride, one.stride};
        set_outcome<uint32_t> o = downsample_on_host<uint32_t>(
            &layout, fine, (int32_t)fine.size(), {1, 1, 1}, stride, (int32_t)fine.size());
        REQUIRE(CHECK_EQUAL(o.count, one.voxels));
        CHECK_EQUAL(growth_check_sum(layout, o, one.stride), one.sum);
        CHECK_EQUAL(pairs_of_three(layout, o, one.stride), one.pairs);
        const children_counts children = children_of(layout, finer, one.stride / 2);
        CHECK(!memcmp(children.cells, one.children.cells, sizeof children.cells));
        CHECK_EQUAL(children.codes, one.children.codes);
        finer.assign(o.words.begin(), o.words.begin() + o.count);
        guarded_finish();
    }
}

// ---- features -----------------------------------------------------------------------------------

// Rows of `channels`, in every format, aligned or not, each channel `repeat` times.
TEST(row_gather_random) {
    random_state r = random_make(6);
    for (int i = 0; i < 300; ++i) {
        const gather_problem p = gather_random(&r);
        gather_check(&p, &memory_host, [=](const row_gather_args *a) {
            return i % 2 ? row_gather_host(a) : row_gather(a, nullptr);
        });
    }
}

TEST(row_gather_grad_random) {
    random_state r = random_make(9);
    for (int i = 0; i < 300; ++i) {
        gather_grad_check(&r, &memory_host, [](const row_gather_grad_args *a) {
            return row_gather_grad(a, nullptr);
        });
    }
}

const splat_side splat_by_kernel = {&memory_host, row_lists_workspace,
                                    [](const row_lists_args *a, void *scratch, size_t bytes) {
                                        return row_lists(a, scratch, bytes, nullptr);
                                    },
                                    [](const row_splat_args *a) { return row_splat(a, nullptr); }};

TEST(row_splat_random) {
    random_state r = random_make(10);
    for (int i = 0; i < (test_quick() ? 20 : 60); ++i) {
        emulate::seed = (uint64_t)i;
        splat_check(&r, i % 4 ? &splat_by_host : &splat_by_kernel);
    }
}

// ---- refusals -----------------------------------------------------------------------------------

template <typename A>
void check_refused(const A &good, const std::vector<refusal<A>> &all, status (*run)(const A *)) {
    CHECK_OK(run(&good));
    for (const refusal<A> &r : all) {
        A a = good;
        r.spoil(&a);
        CHECK_STATUS(run(&a), r.code);
    }
    CHECK_STATUS(run(nullptr), status_null_pointer);
}

TEST(prune_refuses) {
    random_state r = random_make(7);
    growth_problem<uint32_t> p = growth_random<uint32_t>(&r, false, 50);
    growth_choose(&r, &p, false, 50);
    typedef prune_args<uint32_t> A;
    A a = growth_prune(&p);
    growth_bind(&p, &memory_host, &a);
    check_refused<A>(
        a,
        {{status_null_pointer, [](A *a) { a->trouble = nullptr; }},
         {status_null_pointer, [](A *a) { a->in.words = nullptr; }},
         {status_null_pointer, [](A *a) { a->out.count = nullptr; }},
         {status_null_pointer, [](A *a) { a->source = nullptr; }},
         {status_null_pointer, [](A *a) { a->choice = {}; }},
         {status_alignment, [](A *a) { a->source = misaligned(a->source); }},
         {status_bad_size, [](A *a) { a->in.capacity = 0; }},
         {status_bad_size, [](A *a) { a->choice.channels = 0; }},
         {status_bad_size, [](A *a) { a->choice.threshold = INFINITY; }},
         {status_bad_size, [](A *a) { a->channel = a->choice.channels; }},
         {status_bad_size, [](A *a) { a->channel = -1; }},
         {status_unsupported, [](A *a) { a->out.words = a->in.words; }},
         {status_unsupported, [](A *a) { a->choice.type = (numeric)9; }},
         {status_unsupported, [](A *a) { a->choice.mask = (const uint8_t *)a->choice.scores; }}},
        [](const A *a) { return prune_host(a); });
    size_t bytes = 0;
    CHECK_OK(prune_workspace(&a, &bytes));
    CHECK_STATUS(prune(&a, nullptr, bytes, nullptr), status_null_pointer);
    CHECK_STATUS(prune(&a, (void *)256, bytes - 1, nullptr), status_workspace);
}

TEST(subdivide_refuses) {
    random_state r = random_make(8);
    growth_problem<uint32_t> p = growth_random<uint32_t>(&r, true, 50);
    growth_choose(&r, &p, false, 50);
    typedef subdivide_args<uint32_t> A;
    A a = growth_subdivide(&p);
    growth_bind(&p, &memory_host, &a);
    std::vector<char> memory(1 << 20);
    char *scratch = memory.data() + (256 - (uintptr_t)memory.data() % 256);
    size_t bytes = 0;
    CHECK_OK(subdivide_workspace(&a, &bytes));
    check_refusals<A>(a, scratch, bytes,
                      {{status_null_pointer, [](A *a) { a->source = nullptr; }},
                       {status_stride, [](A *a) { a->stride.y = 3; }},
                       {status_stride, [](A *a) { a->stride.z = 0; }},
                       {status_bad_size, [](A *a) { a->choice.channels = 7; }},
                       {status_bad_size, [](A *a) { a->in.capacity = INT32_MAX / 4; }},
                       {status_unsupported, [](A *a) { a->out.count = a->in.count; }}},
                      [](const A *a, char *scratch, size_t bytes) {
                          return subdivide(a, scratch, bytes, nullptr);
                      });
}

TEST(row_gather_refuses) {
    float in[4] = {}, out[4];
    int32_t source[2] = {}, count = 2;
    typedef row_gather_args A;
    check_refused<A>({in, 2, 2, 0, numeric_f32, source, &count, 2, out},
                     {{status_null_pointer, [](A *a) { a->in = nullptr; }},
                      {status_null_pointer, [](A *a) { a->count = nullptr; }},
                      {status_alignment, [](A *a) { a->out = (char *)a->out + 2; }},
                      {status_bad_size, [](A *a) { a->in_rows = 0; }},
                      {status_bad_size, [](A *a) { a->channels = 0; }},
                      {status_bad_size, [](A *a) { a->repeat = -1; }},
                      {status_bad_size, [](A *a) { a->channels = a->repeat = 1 << 20; }},
                      {status_bad_size, [](A *a) { a->capacity = 0; }},
                      {status_unsupported, [](A *a) { a->type = (numeric)7; }},
                      {status_unsupported, [](A *a) { a->out = (void *)a->in; }}},
                     [](const A *a) { return row_gather_host(a); });
    typedef row_gather_grad_args G;
    check_refused<G>({in, 2, 2, 0, numeric_f32, source, &count, 2, out},
                     {{status_null_pointer, [](G *a) { a->out_grad = nullptr; }},
                      {status_null_pointer, [](G *a) { a->source = nullptr; }},
                      {status_alignment, [](G *a) { a->in_grad = (char *)a->in_grad + 2; }},
                      {status_bad_size, [](G *a) { a->in_rows = 0; }},
                      {status_bad_size, [](G *a) { a->repeat = -1; }},
                      {status_unsupported, [](G *a) { a->type = (numeric)7; }},
                      {status_unsupported, [](G *a) { a->in_grad = (void *)a->out_grad; }}},
                     [](const G *a) { return row_gather_grad_host(a); });
}

TEST(row_splat_refuses) {
    float in[4] = {}, out[4];
    int32_t index[2] = {}, count = 2, begin[3] = {}, order[2] = {};
    typedef row_lists_args L;
    check_refused<L>({index, 1, &count, 2, 2, begin, order},
                     {{status_null_pointer, [](L *a) { a->index = nullptr; }},
                      {status_null_pointer, [](L *a) { a->begin = nullptr; }},
                      {status_alignment, [](L *a) { a->order = misaligned(a->order); }},
                      {status_bad_size, [](L *a) { a->neighbours = 9; }},
                      {status_bad_size, [](L *a) { a->capacity = INT32_MAX; }},
                      {status_bad_size, [](L *a) { a->rows = 0; }}},
                     [](const L *a) { return row_lists_host(a); });
    typedef row_splat_args S;
    check_refused<S>({in, 1, numeric_f32, 1, nullptr, begin, order, 2, out},
                     {{status_null_pointer, [](S *a) { a->in = nullptr; }},
                      {status_null_pointer, [](S *a) { a->order = nullptr; }},
                      {status_alignment, [](S *a) { a->weight = (float *)((char *)a->in + 2); }},
                      {status_bad_size, [](S *a) { a->channels = 0; }},
                      {status_bad_size, [](S *a) { a->neighbours = 0; }},
                      {status_bad_size, [](S *a) { a->rows = 0; }},
                      {status_unsupported, [](S *a) { a->type = (numeric)7; }},
                      {status_unsupported, [](S *a) { a->out = (void *)a->in; }}},
                     [](const S *a) { return row_splat_host(a); });
}

} // namespace
