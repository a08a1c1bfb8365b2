// tests/gpu/soak.cu: ten thousand frames of changing sizes through one CUDA graph: among them are
// empty frames, single voxels and frames over capacity. Each frame's count and status are checked;
// for a sample of them the whole result is compared with a run of a new plan.
#include "../support/nets.cuh"

using namespace nets;

namespace {

struct soak_shape {
    int frames, warm; // how many, and how many of them before memory is looked at
    int step;         // every `step`th frame is a sample
    int judged;       // every `judged`th sample is also compared with the host
    int32_t most;     // capacity
};

soak_shape soak_shape_choose() {
    const bool quick = test_quick();
    soak_shape s = {};
    s.frames = quick ? 200 : 10000;
    s.warm = quick ? 20 : 100;
    s.step = quick ? 7 : 47;
    s.judged = quick ? 10 : 20;
    s.most = quick ? 150 : 1100;
    return s;
}

// The one format of this test: no other is compiled.
const numeric soak_type = numeric_f16;

template <typename W>
using soak_net = device_net<W, soak_type>;

// Every second frame is of an ordinary size. The others are empty, a single voxel, just full, one
// over, or far over capacity.
int32_t soak_voxels(int number, int32_t most) {
    random_state r = random_make(9000 + (uint64_t)number);
    switch (random_int(&r, 0, 9)) {
    case 0:
        return 0;
    case 1:
        return 1;
    case 2:
        return most;
    case 3:
        return most + 1;
    case 4:
        return random_int(&r, most + 2, 2 * most);
    }
    return random_int(&r, 0, most);
}

// No two frames have the same voxels or values.
template <typename W>
frame soak_frame(const soak_net<W> *d, int number) {
    return frame_make<W>(100 + (uint64_t)number, &d->plan->layout,
                         soak_voxels(number, d->plan->limits.voxels), d->net->input_channels);
}

template <typename W>
struct soak_sample {
    int number;
    result<W> got;
};

// Frames [begin, end) through the graph; stops at the first that is wrong.
template <typename W>
bool soak_replay(const soak_net<W> *d, cudaGraphExec_t replay, int begin, int end, int step,
                 std::vector<soak_sample<W>> *samples) {
    for (int number = begin; number < end; ++number) {
        frame f = soak_frame(d, number);
        device_net_upload(d, &f);
        if (!graph_replay(replay) || !check_told(d, soak_voxels(number, d->plan->limits.voxels))) {
            printf("frame %d of %d\n", number, end);
            return false;
        }
        if (number % step == 0) {
            samples->push_back({number, result_fetch(d)});
        }
    }
    return true;
}

// Checks and frees the buffers that `body` makes; earlier buffers stay.
template <typename F>
void soak_scope(F body) {
    guarded_buffer *kept = test_state.buffers;
    test_state.buffers = nullptr;
    body();
    guarded_finish();
    test_state.buffers = kept;
}

// The result of a new plan in memory of its own, without a graph.
template <typename W>
result<W> soak_run(const network *n, const net_limits *limits, const frame *f, bool judge) {
    soak_net<W> fresh = device_net_make<W, soak_type>(n, limits);
    result<W> r = device_net_result(&fresh, f);
    if (judge) {
        check_result(&fresh, f, r);
    }
    return r;
}

// A sample is bit-identical to a run at the capacity of the graph. A judged sample is also compared
// with a run that keeps every layer and compares it with the host. Unless a capacity was exceeded,
// its sets are compared with those of a plan that has just the capacity needed (sums may be added
// in another order there).
template <typename W>
void soak_check_sample(const soak_net<W> *d, const soak_sample<W> *sample, bool judge) {
    net_limits limits = d->plan->limits;
    frame f = soak_frame(d, sample->number);
    int32_t voxels = soak_voxels(sample->number, limits.voxels);
    CHECK_EQUAL(difference(sample->got, soak_run<W>(d->net, &limits, &f, false), true), "");
    if (!judge) {
        return;
    }
    limits.keep_all = limits.count_pairs = true;
    CHECK_EQUAL(difference(sample->got, soak_run<W>(d->net, &limits, &f, true), false), "");
    if (voxels <= limits.voxels) {
        limits.voxels = std::max(voxels, 1);
        result<W> exact = soak_run<W>(d->net, &limits, &f, true);
        for (int s = 0; s < d->plan->sets; ++s) {
            CHECK(exact.words[s] == sample->got.words[s]);
        }
    }
}

// The samples contain all kinds of frames, and frames directly after one over capacity.
template <typename W>
void soak_check_kinds(const std::vector<soak_sample<W>> &samples, int32_t most) {
    int none = 0, single = 0, full = 0, over = 0, behind = 0;
    for (const soak_sample<W> &s : samples) {
        int32_t voxels = soak_voxels(s.number, most);
        none += voxels == 0;
        single += voxels == 1;
        full += voxels == most;
        over += voxels > most;
        behind += s.number && voxels <= most && soak_voxels(s.number - 1, most) > most;
    }
    CHECK(none && single && full && over && behind);
}

template <typename W>
void check_soak() {
    const soak_shape shape = soak_shape_choose();
    network n;
    reference_net_zoo(&n);
    net_limits limits = limits_make(&n, soak_type, shape.most, false);
    limits.overlap = true;
    soak_net<W> d = device_net_make<W, soak_type>(&n, &limits);
    d.side = side_get(); // the runs that it is compared with use one stream
    cudaGraphExec_t replay = device_net_capture(&d);
    REQUIRE(replay != nullptr);

    std::vector<soak_sample<W>> samples;
    size_t before = 0, after = 0, all = 0;
    bool good = soak_replay(&d, replay, 0, shape.warm, shape.step, &samples);
    CUDA_CHECK(cudaMemGetInfo(&before, &all));
    good = good && soak_replay(&d, replay, shape.warm, shape.frames, shape.step, &samples);
    CUDA_CHECK(cudaMemGetInfo(&after, &all));
    CHECK(expect_no_cuda_error());
    const size_t taken = before > after ? before - after : 0;
    CHECK_EQUAL(test_quick() ? 0 : taken, (size_t)0); // a sanitizer may allocate memory of its own
    if (good) {
        soak_check_kinds(samples, shape.most);
        CHECK(*difference(samples[0].got, samples[1].got, true)); // two frames are told apart
    }
    for (size_t i = 0; good && i < samples.size(); ++i) {
        soak_scope([&] { soak_check_sample(&d, &samples[i], i % (size_t)shape.judged == 0); });
    }
    CUDA_CHECK(cudaGraphExecDestroy(replay));
    CHECK(expect_no_cuda_error());
}

} // namespace

// A small network with one of everything: strided, submanifold, dilated and transposed
// convolutions, concatenations, residuals, both kinds of pooling.
DEVICE_TEST(gpu_soak_one_graph) {
    check_soak<uint32_t>();
}
