// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/gpu/dense.cu: dense maps on the GPU, bit for bit those that are made element by element.
#include "../../spira/dense.cuh"
#include "../support/dense_problems.h"
#include "../support/gpu.cuh"

using namespace spira;

namespace {

template <typename W>
const dense_side<W> side = {&memory_device, [](const dense_args<W> *a) {
                                return a->type != numeric_i8 ? dense<W>(gpu(), a, stream_get())
                                       : a->out_type == numeric_i8
                                           ? dense<W, numeric_i8, numeric_i8>(gpu(), a,
                                                                              stream_get())
                                           : dense<W, numeric_i8>(gpu(), a, stream_get());
                            }};

template <typename W>
void check_random(uint64_t seed, int cases, int most) {
    random_state r = random_make(seed);
    for (int i = 0; i < cases; ++i) {
        dense_problem<W> p = dense_problem_random<W>(&r, most);
        if (i % 5 == 0 && p.count == p.args.set.capacity) {
            p.count += 7;
        }
        dense_agrees(&p, &side<W>);
    }
}

DEVICE_TEST(gpu_dense_random) {
    check_random<uint32_t>(1, test_quick() ? 8 : 120, 40);
    check_random<uint64_t>(2, test_quick() ? 8 : 120, 40);
}

DEVICE_TEST(gpu_dense_every_edge) {
    dense_every_edge(3, &side<uint32_t>,
                     test_quick() ? std::vector<int>{1, 7, 8, 63, 64, 65}
                                  : std::vector<int>{1, 7, 8, 63, 64, 65, 128, 1032, 4096});
    random_state r = random_make(8);
    for (dense_order order : {dense_channels_first, dense_channels_last}) { // deep cells
        const dense_shape s = dense_shape_of({3, 2, 1024}, 1, 33, numeric_f16, order, {8, 8, 16});
        const dense_problem<uint32_t> p = dense_problem_make<uint32_t>(&r, &s, 60, 3);
        dense_agrees(&p, &side<uint32_t>);
    }
}

// The maps of detection heads.
DEVICE_TEST(gpu_dense_birds_eye_map) {
    random_state r = random_make(4);
    for (dense_order order : {dense_channels_first, dense_channels_last}) {
        for (numeric type : {numeric_f16, numeric_tf32}) {
            dense_shape s =
                dense_shape_of({180, 180, 2}, test_quick() ? 1 : 2, 128, type, order, {8, 8, 16});
            s.out_type = type == numeric_tf32 ? numeric_bf16 : type;
            const dense_problem<uint32_t> p = dense_problem_make<uint32_t>(&r, &s, 25, 5000);
            dense_agrees(&p, &side<uint32_t>);
        }
    }
}

// A graph that was captured once follows the set's count and the features, and clears what the
// frame before has left.
DEVICE_TEST(gpu_dense_in_a_graph) {
    random_state r = random_make(5);
    for (dense_order order : {dense_channels_first, dense_channels_last}) {
        const dense_shape s = dense_shape_of({50, 36, 2}, 1, 24, numeric_f16, order);
        dense_problem<uint32_t> p = dense_problem_make<uint32_t>(&r, &s, 70, 40);
        dense_buffers<uint32_t> d = dense_buffers_make(&p, &memory_device);
        cudaGraphExec_t graph = stream_capture([&](cudaStream_t stream) {
            CHECK_OK(device_status_clear(d.args.trouble, stream));
            CHECK_OK((dense<uint32_t, numeric_f16, numeric_f16>(gpu(), &d.args, stream)));
        });
        REQUIRE(graph != nullptr);
        for (int32_t count : {p.count, p.count / 2, 0, 1, p.count}) {
            p.count = count;
            device_copy_in(d.args.set.count, &count, 1);
            CUDA_CHECK(cudaGraphLaunch(graph, stream_get()));
            dense_buffers_judge(&p, &memory_device, &d);
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
        const dense_shape s = dense_shape_of({50, 36, 2}, 1, 24, numeric_f16, order);
        dense_problem<uint32_t> p = dense_problem_make<uint32_t>(&r, &s, 40, 0);
        p.args.programmatic = true;
        dense_buffers<uint32_t> d = dense_buffers_make(&p, &memory_device);
        const char *from = d.features;
        const int64_t bytes = (int64_t)p.features.size();
        char *features = device_new_poisoned<char>(bytes);
        d.args.features = features;
        late_copy<<<1, 1024, 0, stream_get()>>>(from, features, bytes);
        CHECK_OK(dense<uint32_t>(gpu(), &d.args, stream_get()));
        dense_buffers_judge(&p, &memory_device, &d);
        guarded_finish();
    }
}

DEVICE_TEST(gpu_dense_refuses) {
    random_state r = random_make(6);
    const dense_shape s = dense_shape_of({5, 4, 2}, 1, 8, numeric_f16, dense_channels_first);
    const dense_problem<uint32_t> p = dense_problem_make<uint32_t>(&r, &s, 70, 0);
    dense_buffers<uint32_t> d = dense_buffers_make(&p, &memory_device);
    CHECK_STATUS((dense<uint32_t, numeric_f32>(gpu(), &d.args, stream_get())), status_unsupported);
    CHECK_STATUS((dense<uint32_t, numeric_f16, numeric_f32>(gpu(), &d.args, stream_get())),
                 status_unsupported);
    CHECK_STATUS(dense<uint32_t>(nullptr, &d.args, stream_get()), status_null_pointer);
    d.args.features = misaligned((char *)d.args.features);
    CHECK_STATUS(dense<uint32_t>(gpu(), &d.args, stream_get()), status_alignment);
    CHECK(device_untouched(d.map, 0, d.bytes));
}

} // namespace
