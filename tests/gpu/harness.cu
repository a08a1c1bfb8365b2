// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/gpu/harness.cu: the device half of the harness tests itself; main of the GPU tests.
#include "../support/device.cuh"

static __global__ void harness_fill(int *p, int from, int count, int value) {
    int i = from + (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < from + count) {
        p[i] = value;
    }
}

TEST(device_harness_reports_errors) {
    CHECK_EQUAL(test_failures_of([] { CUDA_CHECK(cudaErrorInvalidValue); }), 1);
    CHECK_EQUAL(test_failures_of([] { CUDA_CHECK(cudaSuccess); }), 0);
}

DEVICE_TEST(device_copies_there_and_back) {
    for (int count : {0, 1, 255, 256, 257, 10000}) {
        int *host = guarded_new<int>(count);
        for (int i = 0; i < count; ++i) {
            host[i] = i * i;
        }
        int *device = device_upload(host, count);
        CHECK_EQUAL((uintptr_t)device % guarded_guard, 0u);
        int *back = device_fetch(device, count);
        CHECK_EQUAL(memcmp(host, back, (size_t)count * sizeof(int)), 0);
        CHECK_EQUAL(guarded_check(device), guarded_intact);
    }
    CHECK_EQUAL(device_value(device_zeros<int>(1)), 0);
}

DEVICE_TEST(device_buffers_are_poisoned_and_exact) {
    int *p = device_new<int>(100);
    CHECK(device_untouched(p, 0, 100));
    harness_fill<<<1, 128>>>(p, 0, 40, 1);
    CHECK(device_untouched(p, 40, 100));
    if (!test_environment("SPIRA_UNPOISONED")) {
        CHECK(!device_untouched(p, 39, 100));
    }
    harness_fill<<<1, 128>>>(p, 0, 100, 1);
    CHECK_EQUAL(guarded_check(p), guarded_intact);
}

DEVICE_TEST(device_planted_overwrites_are_caught) {
    if (test_environment("SPIRA_EXACT")) {
        SKIP("buffers have no sentinels");
    }
    CHECK_EQUAL(test_failures_of([] {
                    int *p = device_new<int>(100);
                    harness_fill<<<1, 128>>>(p, 1, 100, 1);
                }),
                1);
    CHECK_EQUAL(test_failures_of([] {
                    int *p = device_new<int>(100);
                    harness_fill<<<1, 128>>>(p, -1, 100, 1);
                }),
                1);
    int *p = device_new<int>(7);
    for (int at : {-64, -1, 7, 70}) { // the first and last word of each guard
        harness_fill<<<1, 1>>>(p, at, 1, 0);
        CHECK_EQUAL(guarded_check(p), at < 0 ? guarded_before : guarded_after);
        char sentinels[guarded_guard];
        guarded_sentinels(sentinels);
        CUDA_CHECK(cudaMemcpy(at < 0 ? (char *)p - guarded_guard : (char *)(p + 7), sentinels,
                              guarded_guard, cudaMemcpyHostToDevice));
        CHECK_EQUAL(guarded_check(p), guarded_intact);
    }
}

DEVICE_TEST(device_planted_launch_error_is_caught) {
    if (test_environment("SPIRA_EXACT")) {
        SKIP("a sanitizer would report the planted error");
    }
    CHECK_EQUAL(test_failures_of([] {
                    harness_fill<<<1, 1 << 20>>>(nullptr, 0, 0, 0); // no block is that large
                    expect_no_cuda_error();
                }),
                1);
    CHECK(expect_no_cuda_error()); // and it is cleared
}

TEST_MAIN
