// tests/gpu/dense.cu: dense maps on the GPU, bit for bit those that are made element by element.
#include "../../spira/dense.cuh"
#include "../support/dense_problems.h"
#include "../support/device.cuh"
#include "../support/gpu.cuh"

using namespace spira;

namespace {

// Buffers of one run on the device, exactly as large as they must be.
template <typename W>
struct device_run {
    dense_args<W> args;
    char *map; // off_out elements, then the map
    size_t before, bytes;
};

template <typename W>
device_run<W> device_run_make(const dense_problem<W> *p) {
    device_run<W> d = {};
    const size_t in = (size_t)numeric_size(p->args.type) * (size_t)p->off_in;
    std::vector<char> features(in + p->features.size());
    std::copy(p->features.begin(), p->features.end(), features.begin() + (int64_t)in);
    d.args = p->args;
    d.args.layout = &p->layout;
    d.args.set.words = device_upload(p->words.data(), d.args.set.capacity);
    d.args.set.count = device_upload(&p->count, 1);
    d.args.features = device_upload(features.data(), (int64_t)features.size()) + in;
    d.before = (size_t)numeric_size(p->args.out_type) * (size_t)p->off_out;
    d.bytes = p->bytes();
    d.map = device_new<char>((int64_t)(d.before + d.bytes));
    d.args.out = d.map + d.before;
    d.args.trouble = device_zeros<device_status>(1);
    return d;
}

// What a run has left is what it should be. Frees all buffers.
template <typename W>
bool device_run_judge(const dense_problem<W> *p, const device_run<W> *d, int line) {
    std::vector<char> out(d->bytes);
    device_copy_out(out.data(), (const char *)d->args.out, (int64_t)out.size());
    const device_status got = device_value(d->args.trouble), wanted = dense_expected_trouble(p);
    bool good = device_untouched(d->map, 0, (int64_t)d->before);
    good = out == dense_expected(p) && memcmp(&got, &wanted, sizeof got) == 0 && good;
    return test_check(good, __FILE__, line, p->label);
}

template <typename W>
bool agrees(const dense_problem<W> *p, int line = __builtin_LINE()) {
    const device_run<W> d = device_run_make(p);
    bool good = CHECK_OK(dense<W>(gpu(), &d.args, stream_get()));
    good = device_run_judge(p, &d, line) && good;
    guarded_finish();
    return good;
}

template <typename W>
void check_random(uint64_t seed, int cases, int most) {
    const int percents[] = {0, 1, 10, 40, 300};
    random_state r = random_make(seed);
    for (int i = 0; i < cases; ++i) {
        const dense_shape s = dense_shape_random(&r, most);
        dense_problem<W> p =
            dense_problem_make<W>(&r, &s, percents[random_int(&r, 0, 4)], random_int(&r, 0, 9));
        p.off_in = random_int(&r, 0, 1) * random_int(&r, 1, 7);
        p.off_out = random_int(&r, 0, 1) * random_int(&r, 1, 3);
        if (i % 5 == 0 && p.count == p.args.set.capacity) {
            p.count += 7;
        }
        agrees(&p);
    }
}

dense_shape shape_of(triple extent, int batch, int channels, numeric type, dense_order order) {
    dense_shape s = {};
    s.extent = extent;
    s.stride = {8, 8, 16};
    s.batch = batch;
    s.channels = channels;
    s.type = s.out_type = type;
    s.order = order;
    return s;
}

DEVICE_TEST(gpu_dense_random) {
    check_random<uint32_t>(1, test_quick() ? 8 : 120, 40);
    check_random<uint64_t>(2, test_quick() ? 8 : 120, 40);
}

DEVICE_TEST(gpu_dense_every_edge) {
    random_state r = random_make(3);
    for (dense_order order : {dense_channels_first, dense_channels_last}) {
        for (triple extent : {triple{127, 1, 1}, triple{128, 1, 1}, triple{43, 3, 1},
                              triple{4, 64, 2}, triple{1, 1, 130}, triple{3, 2, 1024}}) {
            for (int channels : {1, 7, 8, 63, 64, 65, 128, 1032, 4096}) {
                if (test_quick() && (channels > 65 || extent.z > 2)) {
                    continue;
                }
                const numeric type = channels % 2 ? numeric_bf16 : numeric_f16;
                const dense_shape s =
                    shape_of(extent, 1, extent.z > 2 ? channels % 100 + 1 : channels, type, order);
                const dense_problem<uint32_t> p = dense_problem_make<uint32_t>(&r, &s, 60, 3);
                agrees(&p);
            }
        }
    }
}

// The maps of detection heads.
DEVICE_TEST(gpu_dense_birds_eye_map) {
    random_state r = random_make(4);
    for (dense_order order : {dense_channels_first, dense_channels_last}) {
        for (numeric type : {numeric_f16, numeric_tf32}) {
            dense_shape s = shape_of({180, 180, 2}, test_quick() ? 1 : 2, 128, type, order);
            s.out_type = type == numeric_tf32 ? numeric_bf16 : type;
            const dense_problem<uint32_t> p = dense_problem_make<uint32_t>(&r, &s, 25, 5000);
            agrees(&p);
        }
    }
}

// A graph that was captured once follows the set's count and the features, and clears what the
// frame before has left.
DEVICE_TEST(gpu_dense_in_a_graph) {
    random_state r = random_make(5);
    for (dense_order order : {dense_channels_first, dense_channels_last}) {
        const dense_shape s = shape_of({50, 36, 2}, 1, 24, numeric_f16, order);
        dense_problem<uint32_t> p = dense_problem_make<uint32_t>(&r, &s, 70, 40);
        device_run<uint32_t> d = device_run_make(&p);
        cudaGraphExec_t graph = stream_capture([&](cudaStream_t stream) {
            CHECK_OK(device_status_clear(d.args.trouble, stream));
            CHECK_OK((dense<uint32_t, numeric_f16, numeric_f16>(gpu(), &d.args, stream)));
        });
        REQUIRE(graph != nullptr);
        for (int32_t count : {p.count, p.count / 2, 0, 1, p.count}) {
            p.count = count;
            device_copy_in(d.args.set.count, &count, 1);
            CUDA_CHECK(cudaGraphLaunch(graph, stream_get()));
            device_run_judge(&p, &d, __LINE__);
        }
        CUDA_CHECK(cudaGraphExecDestroy(graph));
        guarded_finish();
    }
}

// Lets the next kernel begin at once, and writes its features late.
__global__ void late_copy(const char *from, char *to, int64_t bytes) {
    pdl_launch_dependents();
    for (long long start = clock64(); clock64() - start < 50000;) {
    }
    for (int64_t i = threadIdx.x; i < bytes; i += blockDim.x) {
        to[i] = from[i];
    }
}

DEVICE_TEST(gpu_dense_waits_for_the_features) {
    random_state r = random_make(7);
    for (dense_order order : {dense_channels_first, dense_channels_last}) {
        const dense_shape s = shape_of({50, 36, 2}, 1, 24, numeric_f16, order);
        dense_problem<uint32_t> p = dense_problem_make<uint32_t>(&r, &s, 40, 0);
        p.args.programmatic = true;
        device_run<uint32_t> d = device_run_make(&p);
        const char *from = (const char *)d.args.features;
        const int64_t bytes = (int64_t)p.features.size();
        char *features = device_new_poisoned<char>(bytes);
        d.args.features = features;
        late_copy<<<1, 1024, 0, stream_get()>>>(from, features, bytes);
        CHECK_OK(dense<uint32_t>(gpu(), &d.args, stream_get()));
        device_run_judge(&p, &d, __LINE__);
        guarded_finish();
    }
}

DEVICE_TEST(gpu_dense_refuses) {
    random_state r = random_make(6);
    const dense_shape s = shape_of({5, 4, 2}, 1, 8, numeric_f16, dense_channels_first);
    const dense_problem<uint32_t> p = dense_problem_make<uint32_t>(&r, &s, 70, 0);
    device_run<uint32_t> d = device_run_make(&p);
    CHECK_STATUS((dense<uint32_t, numeric_f32>(gpu(), &d.args, stream_get())), status_unsupported);
    CHECK_STATUS((dense<uint32_t, numeric_f16, numeric_f32>(gpu(), &d.args, stream_get())),
                 status_unsupported);
    CHECK_STATUS(dense<uint32_t>(nullptr, &d.args, stream_get()), status_null_pointer);
    d.args.features = misaligned((char *)d.args.features);
    CHECK_STATUS(dense<uint32_t>(gpu(), &d.args, stream_get()), status_alignment);
    CHECK(device_untouched(d.map, 0, (int64_t)d.bytes));
}

} // namespace
