// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/host/join.cpp: join.h against tables of coordinates, and the kernels of join.cuh, run on
// the host (emulate_numeric.h), against the same.
#include "../support/devices.h"
#include "../support/emulate_numeric.h"

#include "../support/join_problems.h"

#include "../../spira/join.cuh"

using namespace spira;

namespace {

const device_info device = device_made(90, 4, 232448, false);

template <typename W>
const join_side<W> by_host = {&memory_host, join_host_workspace<W>, join_host<W>, join_sum_host};

template <typename W>
const join_side<W> by_kernel = {&memory_host, join_workspace<W>,
                                [](const join_args<W> *a, void *scratch, size_t bytes) {
                                    return join<W>(a, scratch, bytes, nullptr);
                                },
                                [](const join_sum_args *a) {
                                    return a->type == numeric_i8
                                               ? join_sum<numeric_i8>(&device, a, nullptr)
                                               : join_sum(&device, a, nullptr);
                                }};

template <typename W>
void check_random(uint64_t seed, int cases, int32_t most, const join_side<W> *side) {
    random_state r = random_make(seed);
    for (int i = 0; i < cases; ++i) {
        emulate::seed = (uint64_t)i;
        join_problem<W> p = join_problem_make<W>(&r, i % 4 + 1, (join_axis)(i / 4 % 4), most, 20);
        if (i % 7 == 0) { // a count that lies: all words are voxels then
            const int s = random_int(&r, 0, p.sets - 1);
            p.count[s] = random_int(&r, 0, 1) ? -5 : p.capacity(s) + 3;
            std::sort(p.words[s].begin(), p.words[s].end());
            for (int32_t j = 0; j < p.capacity(s) && p.count[s] > 0; ++j) {
                const int z = j % 5, y = j / 5 % 5;
                p.words[s][(size_t)j] = word_pack<W>(
                    &p.layout, {0, p.layout.lo.x + j / 25, p.layout.lo.y + y, p.layout.lo.z + z});
            }
        }
        join_agrees(&p, side);
    }
}

} // namespace

TEST(join_host_random) {
    check_random(1, 160, 60, &by_host<uint32_t>);
    check_random(2, 160, 300, &by_host<uint64_t>);
}

TEST(join_kernels_random) {
    check_random(3, test_quick() ? 16 : 32, 60, &by_kernel<uint32_t>);
    check_random(4, 16, 400, &by_kernel<uint64_t>);
}

TEST(join_kernels_every_size) {
    join_every_size(5, &by_kernel<uint64_t>, true);
}

// VoxelNeXt: three levels, z dropped, in one join and in two; only roundings differ.
TEST(join_of_three_levels_and_a_projection) {
    random_state r = random_make(6);
    join_problem<uint32_t> p = join_problem_make<uint32_t>(&r, 3, join_axis_z, 40, 0);
    p.at = p.layout.lo.z;
    p.type = numeric_f16;
    p.channels = 16;
    for (int s = 0; s < 3; ++s) {
        join_problem_fill(&r, &p, s, p.layout.lo, p.layout.hi, 1 << s, 30, 4);
    }
    p.out_capacity = p.total();
    const join_outcome<uint32_t> whole = join_outcome_of(&p, &by_kernel<uint32_t>);
    p.axis = join_axis_none;
    const join_outcome<uint32_t> first = join_outcome_of(&p, &by_kernel<uint32_t>);
    join_problem<uint32_t> q = p;
    q.sets = 1;
    q.axis = join_axis_z;
    q.words[0] = first.words;
    q.count[0] = first.count;
    q.features[0] = first.sums;
    q.features[0].resize(q.words[0].size() * 32);
    const join_outcome<uint32_t> second = join_outcome_of(&q, &by_kernel<uint32_t>);
    CHECK(whole.words == second.words && whole.count == second.count);
    CHECK(whole.count < first.count);
    for (int64_t i = 0; i < (int64_t)whole.sums.size() / 2; ++i) {
        CHECK(fabsf(numeric_load(p.type, whole.sums.data(), i) -
                    numeric_load(p.type, second.sums.data(), i)) < 1);
    }
}

TEST(join_of_one_set_keeps_its_features) {
    random_state r = random_make(7);
    for (const join_side<uint32_t> *by : {&by_host<uint32_t>, &by_kernel<uint32_t>}) {
        join_problem<uint32_t> p = join_problem_make<uint32_t>(&r, 1, join_axis_none, 50, 3);
        join_problem_fill(&r, &p, 0, p.layout.lo, p.layout.hi, 1, 40, 3);
        p.out_capacity = p.capacity(0);
        const join_outcome<uint32_t> o = join_outcome_of(&p, by);
        CHECK(std::equal(o.sums.begin(), o.sums.end(), p.features[0].begin()));
        CHECK_EQUAL(o.count, p.voxels(0));
    }
}

TEST(join_shows_nan) {
    random_state r = random_make(8);
    join_problem<uint32_t> p = join_problem_make<uint32_t>(&r, 1, join_axis_z, 50, 0);
    p.type = numeric_f32;
    p.channels = 1;
    join_problem_fill(&r, &p, 0, p.layout.lo, p.layout.hi, 1, 40, 0);
    p.out_capacity = p.capacity(0);
    ((float *)p.features[0].data())[7] = float_from_bits(0x7fc00000u);
    for (const join_side<uint32_t> *by : {&by_host<uint32_t>, &by_kernel<uint32_t>}) {
        const join_outcome<uint32_t> o = join_outcome_of(&p, by);
        int shown = 0;
        for (size_t i = 0; i < o.sums.size() / 4; ++i) {
            shown += float_is_nan(((const float *)o.sums.data())[i]);
        }
        CHECK_EQUAL(shown, 1);
    }
}

// With programmatic launch the rows are read while the kernel before still writes the features.
TEST(join_sum_waits_for_the_features) {
    random_state r = random_make(10);
    for (int i = 0; i < 6; ++i) {
        emulate::seed = (uint64_t)i;
        const join_problem<uint32_t> p =
            join_problem_make<uint32_t>(&r, 2, join_axis_none, i ? 50 : 1, 3);
        const join_outcome<uint32_t> wanted = join_expected(&p);
        join_run<uint32_t> h = join_run_make(&p, &by_host<uint32_t>);
        CHECK_OK(join_host(&h.args, h.scratch, h.bytes));
        h.sums.programmatic = true;
        auto each = [&](void (*change)(char *to, const std::vector<char> *from)) {
            for (int s = 0; s < p.sets; ++s) {
                change((char *)h.sums.in[s], &p.features[s]);
            }
        };
        emulate::previous = {[&] {
                                 each([](char *to, const std::vector<char> *from) {
                                     memset(to, 0x5a, from->size());
                                 });
                             },
                             [&] {
                                 each([](char *to, const std::vector<char> *from) {
                                     memcpy(to, from->data(), from->size());
                                 });
                             }};
        CHECK_OK(join_sum(&device, &h.sums, nullptr));
        emulate::previous = {};
        CHECK(std::equal(wanted.sums.begin(), wanted.sums.end(), (const char *)h.sums.out));
        guarded_finish();
    }
}

TEST(join_finds_planted_errors) {
    random_state r = random_make(9);
    join_problem<uint32_t> p = join_problem_make<uint32_t>(&r, 2, join_axis_none, 50, 3);
    for (int s = 0; s < 2; ++s) {
        join_problem_fill(&r, &p, s, p.layout.lo, p.layout.hi, 1, 40, 3);
    }
    p.out_capacity = p.total();
    const join_outcome<uint32_t> good = join_outcome_of(&p, &by_kernel<uint32_t>);
    join_outcome<uint32_t> bad = join_expected(&p);
    CHECK(join_outcomes_equal(&good, &bad));
    std::swap(bad.order[0], bad.order[1]);
    CHECK(!join_outcomes_equal(&good, &bad));
    p.features[1][0] ^= 1;
    bad = join_expected(&p);
    CHECK(!join_outcomes_equal(&good, &bad));
}

namespace {

struct refusals {
    word_layout layout;
    uint32_t words[3][4];
    int32_t counts[3], begin[5], order[8];
    alignas(16) float in[2][8], out[8];
    device_status trouble;
    join_args<uint32_t> args;
    join_sum_args sums;
    alignas(workspace_alignment) char memory[1 << 17];
};

// Small arguments that are good.
void refusals_make(refusals *f) {
    f->layout = reference_layout<uint32_t>({0, 0, 0}, {9, 9, 9}, 1, {1, 1, 1}, {1, 1, 1});
    f->args.layout = &f->layout;
    f->args.sets = f->sums.sets = 2;
    f->args.axis = join_axis_z;
    for (int s = 0; s < 2; ++s) {
        f->words[s][0] = word_pack<uint32_t>(&f->layout, {0, s, 0, 0});
        f->counts[s] = 1;
        f->args.set[s] = {f->words[s], &f->counts[s], 4};
        f->sums.in[s] = f->in[s];
        f->sums.capacity[s] = 4;
    }
    f->args.out = {f->words[2], &f->counts[2], 4};
    f->args.rows = f->sums.rows = {f->begin, f->order};
    f->args.trouble = &f->trouble;
    f->sums.channels = 2;
    f->sums.type = numeric_f32;
    f->sums.count = &f->counts[2];
    f->sums.out_capacity = 4;
    f->sums.out = f->out;
}

} // namespace

TEST(join_refuses) {
    static refusals f = {};
    refusals_make(&f);
    typedef join_args<uint32_t> args;
    auto refuses = [&](status_code code, void (*spoil)(args *)) {
        args bad = f.args;
        spoil(&bad);
        CHECK_STATUS(join_host(&bad, f.memory, sizeof f.memory), code);
        CHECK_STATUS(join<uint32_t>(&bad, f.memory, sizeof f.memory, nullptr), code);
    };
    refuses(status_ok, [](args *) {});
    refuses(status_null_pointer, [](args *a) { a->layout = nullptr; });
    refuses(status_null_pointer, [](args *a) { a->set[1].words = nullptr; });
    refuses(status_null_pointer, [](args *a) { a->set[0].count = nullptr; });
    refuses(status_null_pointer, [](args *a) { a->out.words = nullptr; });
    refuses(status_null_pointer, [](args *a) { a->rows.begin = nullptr; });
    refuses(status_null_pointer, [](args *a) { a->rows.order = nullptr; });
    refuses(status_null_pointer, [](args *a) { a->trouble = nullptr; });
    refuses(status_alignment, [](args *a) { a->set[1].words = misaligned(a->set[1].words); });
    refuses(status_alignment, [](args *a) { a->rows.order = misaligned(a->rows.order); });
    refuses(status_bad_size, [](args *a) { a->sets = 0; });
    refuses(status_bad_size, [](args *a) { a->sets = 5; });
    refuses(status_bad_size, [](args *a) { a->set[1].capacity = 0; });
    refuses(status_bad_size, [](args *a) { a->out.capacity = 0; });
    refuses(status_bad_size,
            [](args *a) { a->set[0].capacity = a->set[1].capacity = INT32_MAX / 2; });
    refuses(status_unsupported, [](args *a) { a->axis = (join_axis)4; });
    refuses(status_unsupported, [](args *a) { a->axis = (join_axis)-1; });
    refuses(status_bad_size, [](args *a) { a->at = 1000; });
    refuses(status_bad_size, [](args *a) { a->axis = join_axis_x, a->at = -5; });
    refuses(status_ok, [](args *a) { a->axis = join_axis_none, a->at = 1000; });
    refuses(status_unsupported, [](args *a) { a->out.words = a->set[1].words; });
    refuses(status_unsupported, [](args *a) { a->out.count = a->set[0].count; });
    CHECK_STATUS(join<uint32_t>(nullptr, f.memory, sizeof f.memory, nullptr), status_null_pointer);
    CHECK_STATUS(join_workspace<uint32_t>(&f.args, nullptr), status_null_pointer);
    word_layout wide = word_widen(f.layout);
    f.args.layout = &wide;
    CHECK_STATUS(join_host(&f.args, f.memory, sizeof f.memory), status_unsupported);
}

TEST(join_sum_refuses) {
    static refusals f = {};
    refusals_make(&f);
    CHECK_OK(join_host(&f.args, f.memory, sizeof f.memory));
    typedef join_sum_args args;
    auto refuses = [&](status_code code, void (*spoil)(args *)) {
        args bad = f.sums;
        spoil(&bad);
        CHECK_STATUS(join_sum_host(&bad), code);
        CHECK_STATUS(join_sum(&device, &bad, nullptr), code);
    };
    refuses(status_ok, [](args *) {});
    refuses(status_null_pointer, [](args *a) { a->in[1] = nullptr; });
    refuses(status_null_pointer, [](args *a) { a->out = nullptr; });
    refuses(status_null_pointer, [](args *a) { a->count = nullptr; });
    refuses(status_null_pointer, [](args *a) { a->rows.begin = nullptr; });
    refuses(status_alignment, [](args *a) { a->in[0] = misaligned((char *)a->in[0]); });
    refuses(status_alignment, [](args *a) { a->out = misaligned((char *)a->out); });
    refuses(status_unsupported, [](args *a) { a->out = (void *)a->in[1]; });
    refuses(status_unsupported, [](args *a) { a->type = (numeric)9; });
    refuses(status_bad_size, [](args *a) { a->channels = 0; });
    refuses(status_bad_size, [](args *a) { a->out_capacity = 0; });
    refuses(status_bad_size, [](args *a) { a->sets = 6; });
    refuses(status_bad_size, [](args *a) { a->capacity[0] = -1; });
    CHECK_STATUS(join_sum(nullptr, &f.sums, nullptr), status_null_pointer);
    CHECK_STATUS(join_sum(&device, nullptr, nullptr), status_null_pointer);
    CHECK_STATUS(join_sum_host(nullptr), status_null_pointer);
}
