// tests/gpu/join.cu: unions and projections on the GPU, word for word and bit for bit those that a
// table of coordinates gives.
#include "../../spira/join.cuh"
#include "../support/device.cuh"
#include "../support/gpu.cuh"
#include "../support/join_problems.h"

using namespace spira;

namespace {

// Buffers of one run on the device, exactly as large as they must be.
template <typename W>
struct device_run {
    join_args<W> args;
    join_sum_args sums;
    char *scratch;
    size_t scratch_bytes;
};

template <typename W>
device_run<W> device_run_make(const join_problem<W> *p) {
    const size_t size = (size_t)numeric_size(p->type), off = (size_t)p->off * size;
    device_run<W> d = {};
    d.args = p->args();
    for (int s = 0; s < p->sets; ++s) {
        std::vector<char> in(off);
        in.insert(in.end(), p->features[s].begin(), p->features[s].end());
        d.args.set[s].words = device_upload(p->words[s].data(), p->capacity(s));
        d.args.set[s].count = device_upload(&p->count[s], 1);
        d.sums.in[s] = device_upload(in.data(), (int64_t)in.size()) + off;
        d.sums.capacity[s] = p->capacity(s);
    }
    d.args.out.words = device_new<W>(p->out_capacity);
    d.args.out.count = device_new<int32_t>(1);
    d.args.rows.begin = device_new_poisoned<int32_t>(p->out_capacity + 1);
    d.args.rows.order = device_new_poisoned<int32_t>(p->total());
    d.args.trouble = device_zeros<device_status>(1);
    d.sums.sets = p->sets;
    d.sums.channels = p->channels;
    d.sums.type = p->type;
    d.sums.rows = d.args.rows;
    d.sums.count = d.args.out.count;
    d.sums.out_capacity = p->out_capacity;
    const size_t row = (size_t)p->channels * size;
    d.sums.out = device_new<char>((int64_t)(off + (size_t)p->out_capacity * row)) + off;
    CHECK_OK(join_workspace(&d.args, &d.scratch_bytes));
    d.scratch = device_new<char>((int64_t)d.scratch_bytes);
    return d;
}

template <typename W>
status device_run_start(const device_run<W> *d, cudaStream_t stream) {
    SPIRA_TRY(join<W>(&d->args, d->scratch, d->scratch_bytes, stream));
    return join_sum(gpu(), &d->sums, stream);
}

template <typename T>
std::vector<T> fetched(const T *device, int64_t count) {
    std::vector<T> host((size_t)count);
    device_copy_out(host.data(), device, count);
    return host;
}

// What a run has left is what it should be.
template <typename W>
bool device_run_judge(const join_problem<W> *p, const device_run<W> *d, int line) {
    const int64_t row = (int64_t)p->channels * numeric_size(p->type);
    const join_outcome<W> wanted = join_expected(p);
    join_outcome<W> got = {};
    got.count = device_value(d->args.out.count);
    if (!test_check(got.count == wanted.count, __FILE__, line, p->label)) {
        return false;
    }
    got.trouble = device_value(d->args.trouble);
    got.words = fetched(d->args.out.words, p->out_capacity);
    got.begin = fetched(d->args.rows.begin, got.count + 1);
    got.order = fetched(d->args.rows.order, (int64_t)wanted.order.size());
    got.sums = fetched((const char *)d->sums.out, got.count * row);
    const bool good =
        device_untouched((const char *)d->sums.out, got.count * row, p->out_capacity * row);
    return test_check(join_outcomes_equal(&got, &wanted), __FILE__, line, p->label) && good;
}

template <typename W>
bool agrees(const join_problem<W> *p, int line = __builtin_LINE()) {
    const device_run<W> d = device_run_make(p);
    bool good = CHECK_OK(device_run_start(&d, stream_get()));
    good = device_run_judge(p, &d, line) && good;
    guarded_finish();
    return good;
}

template <typename W>
void check_random(uint64_t seed, int cases, int32_t most) {
    random_state r = random_make(seed);
    for (int i = 0; i < cases; ++i) {
        join_problem<W> p = join_problem_make<W>(&r, i % 4 + 1, (join_axis)(i / 4 % 4), most, 40);
        agrees(&p);
    }
}

DEVICE_TEST(gpu_join_random) {
    check_random<uint32_t>(1, test_quick() ? 16 : 160, 900);
    check_random<uint64_t>(2, test_quick() ? 16 : 160, 9000);
}

DEVICE_TEST(gpu_join_every_size) {
    random_state r = random_make(3);
    for (int32_t rows : {1, 31, 255, 256, 257, 511, 512, 513, 1025, 4095, 4096, 4097}) {
        for (int axis = join_axis_none; axis <= join_axis_z; ++axis) {
            join_problem<uint64_t> p = join_problem_make<uint64_t>(&r, 2, (join_axis)axis, 20, 0);
            const word_layout &l = p.layout;
            join_problem_fill(&r, &p, 0, l.lo, l.hi, 1, std::min(rows, 3000), 0);
            join_problem_fill(&r, &p, 1, l.lo, l.hi, 1, (int32_t)max_of(rows - 3000, 0), 0);
            p.out_capacity = rows == 513 ? 512 : rows;
            agrees(&p);
        }
    }
}

// Many segments: sums of heads that take several turns.
DEVICE_TEST(gpu_join_large) {
    random_state r = random_make(4);
    const int32_t rows = test_quick() ? 3000 : 150000;
    for (int axis = join_axis_none; axis <= join_axis_z; ++axis) {
        join_problem<uint64_t> p = join_problem_make<uint64_t>(&r, 3, (join_axis)axis, 20, 0);
        p.layout =
            reference_layout<uint64_t>({-500, -500, -20}, {500, 500, 20}, 2, {4, 4, 4}, {1, 1, 1});
        p.at = 3;
        p.channels = 8;
        for (int s = 0; s < 3; ++s) {
            join_problem_fill(&r, &p, s, {-500, -500, -20}, {500, 500, 20}, 1 << s, rows >> 2 * s,
                              100);
        }
        p.out_capacity = p.total();
        agrees(&p);
    }
}

// A graph that was captured once follows the counts of the sets.
DEVICE_TEST(gpu_join_in_a_graph) {
    random_state r = random_make(5);
    join_problem<uint32_t> p = join_problem_make<uint32_t>(&r, 3, join_axis_z, 500, 0);
    for (int s = 0; s < 3; ++s) {
        join_problem_fill(&r, &p, s, p.layout.lo, p.layout.hi, 1 << s, 60, 10);
    }
    p.out_capacity = 100;
    const int32_t have[] = {p.count[0], p.count[1], p.count[2]}; // the words behind are no voxels
    device_run<uint32_t> d = device_run_make(&p);
    cudaGraphExec_t graph = stream_capture([&](cudaStream_t stream) {
        CHECK_OK(device_status_clear(d.args.trouble, stream));
        CHECK_OK(device_run_start(&d, stream));
    });
    REQUIRE(graph != nullptr);
    for (int32_t most : {60, 30, 1, 0, 60}) {
        for (int s = 0; s < 3; ++s) {
            p.count[s] = std::min(have[s], most);
            device_copy_in(d.args.set[s].count, &p.count[s], 1);
        }
        const int64_t row = (int64_t)p.channels * numeric_size(p.type);
        CUDA_CHECK(cudaMemset(d.sums.out, guarded_poison, (size_t)(p.out_capacity * row)));
        CUDA_CHECK(cudaGraphLaunch(graph, stream_get()));
        device_run_judge(&p, &d, __LINE__);
    }
    CUDA_CHECK(cudaGraphExecDestroy(graph));
    guarded_finish();
}

DEVICE_TEST(gpu_join_refuses) {
    random_state r = random_make(6);
    const join_problem<uint32_t> p = join_problem_make<uint32_t>(&r, 2, join_axis_z, 50, 0);
    device_run<uint32_t> d = device_run_make(&p);
    CHECK_STATUS(join<uint32_t>(&d.args, d.scratch, d.scratch_bytes - 1, stream_get()),
                 status_workspace);
    CHECK_STATUS(join<uint32_t>(&d.args, d.scratch + 16, d.scratch_bytes, stream_get()),
                 status_alignment);
    const numeric other = p.type == numeric_f16 ? numeric_bf16 : numeric_f16;
    d.sums.type = other;
    CHECK_STATUS(join_sum<numeric_f32>(gpu(), &d.sums, stream_get()), status_unsupported);
    CHECK(device_untouched(d.args.out.words, 0, p.out_capacity));
}

} // namespace
