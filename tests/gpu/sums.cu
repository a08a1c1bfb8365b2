// tests/gpu/sums.cu: convolutions on the GPU that accumulate onto fp32 sums (conv_args.sums),
// against sums in double, each output within its bound (reference.h).
#include "../support/problems.cuh"

using namespace problems;

namespace {

// Sums [capacity, pitch] of a problem; NaN in whatever nobody writes.
const float *sums_upload(const problem *p) {
    std::vector<float> in, in2, weight, sum((size_t)p->outputs * (size_t)p->shape.cout + 1);
    const std::vector<float> *const given[] = {&p->in, &p->in2, &p->weight};
    std::vector<float> *const operands[] = {&in, &in2, &weight};
    for (int i = 0; i < 3; ++i) {
        for (float f : *given[i]) {
            operands[i]->push_back(numeric_operand(p->shape.type, f));
        }
        operands[i]->push_back(0); // empty arrays have an address too
    }
    std::vector<int32_t> map = p->map;
    map.push_back(-1);
    const conv_host_args host = {p->shape,      in.data(),  in2.data(),
                                 weight.data(), map.data(), p->outputs};
    CHECK_OK(conv_sum_host(&host, sum.data()));
    const int64_t cout = p->shape.cout, pitch = conv_sums_pitch(p->shape.cout);
    std::vector<float> padded((size_t)(problem_capacity(p) * pitch), NAN);
    for (int64_t i = 0; i < p->outputs * cout; ++i) {
        padded[(size_t)(i / cout * pitch + i % cout)] = sum[(size_t)i];
    }
    return device_upload(padded.data(), (int64_t)padded.size());
}

// The last offsets as sums that the others go on from. sizes: null, chosen.
void check_begins_from_sums(const problem *all, const conv_sizes *sizes) {
    const size_t volume = (size_t)all->shape.volume;
    problem part[2] = {*all, *all};
    for (size_t i = 0; i < all->map.size(); ++i) {
        part[i % volume < volume / 2].map[i] = -1;
    }
    device_problem d;
    device_problem_make(&part[0], &d);
    d.args.sums = sums_upload(&part[1]);
    d.args.sizes = sizes;
    std::vector<char> out =
        device_problem_run(all, &d, true, [&] { return device_problem_start(&d); });
    problem_good(all, out);
    guarded_finish();
}

// A problem of 9 offsets, of which number `turn` chooses what is not given.
problem sums_problem(conv_shape s, int32_t outputs, int turn) {
    random_state random = random_make((uint64_t)turn);
    s.volume = 9;
    s.cin2 = turn % 3 ? 0 : 5;
    problem p = problem_make(&random, s, 100, outputs);
    p.room = turn % 2 * 90;
    p.off.out = turn % 5 == 0; // not aligned
    p.off.residual = turn % 7 == 0;
    problem_fill_map(&random, &p, 40);
    problem_fill_epilogue(&random, &p, turn % 16, (activation)(turn % 3));
    return p;
}

DEVICE_TEST(gpu_conv_begins_from_sums) {
    int turn = 0;
    for (numeric type : numerics) {
        for (int cout : {1, 2, 3, 4, 5, 16, 31, 32, 33, 64, 66, 96, 128, 200}) {
            for (int cin : {8, 64, 90, 130}) {
                for (int32_t outputs : {0, 1, 64, 333}) {
                    if (test_quick() && ++turn % 7) {
                        continue;
                    }
                    problem p = sums_problem(shape_make(0, cin, 0, cout, type), outputs, ++turn);
                    problem_name(&p, "begins from sums");
                    check_begins_from_sums(&p, nullptr);
                }
            }
        }
    }
}

// All ways to cut the work: of Hopper's kernel, all counts of columns.
DEVICE_TEST(gpu_conv_begins_from_sums_in_all_sizes) {
    static conv_sizes sizes[conv_sizes_most];
    int turn = 0;
    for (numeric type : {numeric_tf32, numeric_f16, numeric_bf16}) {
        for (int cout : {16, 17, 32, 47, 63, 64, 96, 97, 127, 128, 129, 194, 255, 256, 300}) {
            problem p = sums_problem(shape_make(0, 32, 0, cout, type), 333, ++turn);
            const int count = conv_sizes_list(&p.shape, gpu(), sizes);
            CHECK(count > 0);
            for (int i = 0; i < count; ++i) {
                char more[64];
                if (test_quick() && (i + turn) % 5) {
                    continue;
                }
                p = sums_problem(shape_make(0, 32, 0, cout, type), 333, turn + 2 * i);
                if (!conv_sizes_fit(&p.shape, gpu(), &sizes[i])) {
                    continue; // with a second source another kernel computes it
                }
                snprintf(more, sizeof more, ", sizes %d.%d.%d", sizes[i].tiles, sizes[i].slices,
                         sizes[i].split);
                problem_name(&p, "begins from sums", more);
                check_begins_from_sums(&p, &sizes[i]);
            }
        }
    }
}

// Sums that are left out, or of which one is off.
DEVICE_TEST(gpu_conv_planted_sums_are_found) {
    for (numeric type : numerics) {
        problem all = sums_problem(shape_make(0, 32, 0, 33, type), 100, 48);
        problem rest = all;
        for (size_t i = 0; i < all.map.size(); ++i) {
            rest.map[i] = i % 9 < 5 ? -1 : rest.map[i];
        }
        problem first = all;
        for (size_t i = 0; i < all.map.size(); ++i) {
            first.map[i] = i % 9 < 5 ? first.map[i] : -1;
        }
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

// Of every kernel.
DEVICE_TEST(gpu_conv_refuses_sums) {
    for (numeric type : numerics) {
        random_state random = random_make(3);
        conv_shape s = shape_make(3, 16, 0, 16, type);
        problem p = problem_make(&random, s, 10, 10, 10);
        problem_fill_map(&random, &p, 50);
        device_problem d;
        device_problem_make(&p, &d);
        float *sums = device_new<float>(10 * 16 + 4);
        for (int off : {1, 2, 3}) {
            d.args.sums = sums + off;
            CHECK_STATUS(device_problem_start(&d), status_alignment);
            CHECK_EQUAL(device_problem_start(&d).subject, "sums");
        }
        d.args.sums = (const float *)d.args.out;
        CHECK_STATUS(device_problem_start(&d), status_unsupported);
        CHECK(device_untouched(d.out, 0, d.out_bytes));
        guarded_finish();
    }
}

} // namespace
