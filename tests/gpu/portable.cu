// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/gpu/portable.cu: the portable kernel (conv/portable.cuh) on the GPU, against sums in
// double: all formats and cuts, exact fp32 among them, shortcuts. It runs on Hopper GPUs, too, and
// a second time with the 99 KB of shared memory that a thread block has on compute capability 8.6.
#ifndef SPIRA_PLAIN_SM90
#define SPIRA_PLAIN_SM90 // compiles the kernel in code for sm_90a
#endif

#define gpu gpu_queried
#include "../support/gpu.cuh"
#undef gpu

static int shared_most;          // bytes of shared memory; 0: all
static int multiprocessors_most; // that the launcher counts on; 0: all

// The GPU without its Hopper kernels.
static const spira::device_info *gpu() {
    static spira::device_info info;
    info = *gpu_queried();
    info.hopper = false;
    info.shared_max = shared_most ? shared_most : info.shared_max;
    info.multiprocessors = multiprocessors_most ? multiprocessors_most : info.multiprocessors;
    return &info;
}

// Other test files have functions of these names with another gpu().
#define problems problems_portable
#include "../support/problems.cuh"

using namespace problems;

namespace {

enum { small_shared = 99 * 1024 };

const numeric formats[] = {numeric_f16, numeric_bf16, numeric_tf32, numeric_f32};

// What conv does, without the other kernels.
status start(const device_problem *d) {
    const conv_args *a = &d->args;
    SPIRA_TRY(conv_check(gpu(), a));
    const conv_kernel kernel = conv_kernel_of(&a->shape, gpu());
    SPIRA_REQUIRE(kernel == conv_kernel_portable, status_unsupported, "kernel", kernel);
    conv_params p = conv_params_of(gpu(), a, kernel);
    p.sizes = a->sizes ? *a->sizes : conv_sizes_choose(&a->shape, p.capacity, gpu());
    SPIRA_REQUIRE(conv_sizes_fit(&a->shape, gpu(), &p.sizes), status_unsupported, "sizes", 0);
    return numeric_dispatch<numeric_any>(
        a->shape.type, [&](auto tag) { return portable_run(tag, gpu(), p, stream_get()); });
}

// One run over outputs of NaN, by `sizes` or, if that is null, as the rules choose.
std::vector<char> joined_run(const joined_problem *p, device_joined *d, const conv_sizes *sizes) {
    const problem *main = &p->main;
    d->main.args.sizes = sizes;
    CUDA_CHECK(cudaMemset(d->main.args.out, 0xff,
                          (size_t)main->outputs * (size_t)main->shape.cout *
                              (size_t)numeric_size(main->shape.type)));
    CUDA_CHECK(cudaDeviceSynchronize());
    CHECK_OK(start(&d->main));
    return device_problem_fetch(main, &d->main);
}

// In all cuts, with all shared memory and with little. All outputs of one split are the same bits,
// as the order of the additions does not depend on the rest of the cut: the first are compared with
// sums in double.
void joined_check(joined_problem *p, const char *what) {
    static conv_sizes sizes[conv_sizes_most];
    joined_name(p, what);
    device_joined d;
    device_joined_make(p, &d);
    d.main.args.sizes = nullptr;
    CHECK(device_problem_run(&p->main, &d.main, true, [&] { return start(&d.main); }) ==
          joined_run(p, &d, nullptr));
    std::vector<char> first[3]; // of each split
    for (int shared : {0, (int)small_shared}) {
        shared_most = shared;
        const int count = conv_sizes_list(&p->main.shape, gpu(), sizes);
        CHECK(count >= 2 && count < conv_sizes_most);
        sizes[count] = portable_sizes_choose(&p->main.shape, d.main.args.map->capacity, gpu());
        for (int i = 0; i <= count; ++i) {
            std::vector<char> &same = first[sizes[i].split];
            const std::vector<char> out = joined_run(p, &d, i < count ? &sizes[i] : nullptr);
            if (same.empty()) {
                const reference_verdict v = p->own.shape.cin ? joined_judge(p, out.data())
                                                             : problem_judge(&p->main, out.data());
                reference_conv_good(v, p->main.name);
                same = out;
            }
            test_check(out == same, __FILE__, __LINE__, p->main.name);
        }
    }
    shared_most = 0;
    CHECK(device_problem_untouched(&p->main, &d.main));
    guarded_finish();
}

// Whether the GPU runs the kernel.
bool device_takes() {
    return portable_takes(gpu());
}

#define NEED_PORTABLE()                                                                            \
    if (!device_takes()) {                                                                         \
        SKIP("the device does not run the portable kernel");                                       \
    }

} // namespace

// Random channels, maps, epilogues and alignments, every other layer with a shortcut; every third
// on a part of the GPU, where tiles follow each other. Counts, sums to begin from and what is
// refused are those of emulated kernels (tests/host/portable.cpp) and of conv.cu with ARCH=90.
DEVICE_TEST(gpu_portable_random_layers) {
    NEED_PORTABLE();
    const int edges[] = {1,  7,  8,  16, 17, 31,  32,  33,  47,  48,  63,
                         64, 65, 95, 96, 97, 127, 128, 129, 192, 256, 257};
    for (int seed = 0; seed < (test_quick() ? 8 : 150); ++seed) {
        random_state random = random_make((uint64_t)seed);
        auto channels = [&] { return channels_random(&random, edges); };
        conv_shape s = shape_make(random_int(&random, 1, 40), channels(), 0,
                                  random_int(&random, 33, 260), formats[seed % 4]);
        s.cin2 = random_int(&random, 0, 2) ? 0 : channels();
        s.cin = s.cin <= 32 && s.cout <= 32 ? 33 : s.cin; // narrow takes those
        joined_problem p = joined_random(&random, s, seed / 4 % 2, edges);
        char what[32];
        snprintf(what, sizeof what, "seed %d", seed);
        multiprocessors_most = seed % 3 ? 0 : 2;
        joined_check(&p, what);
        multiprocessors_most = 0;
    }
}
