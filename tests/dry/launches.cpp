// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/dry/launches.cpp: an error is planted in every launch, memset and copy of every function
// that launches, one at a time (cudart.h; the functions: tests/gpu/launches.cu). The function must
// return it, do no more, and leave no error for the next one. No GPU is needed.
#include "launches.h"
#include "../support/test.h"
#include "cudart.h"

#include <cxxabi.h>
#include <set>
#include <string>
#include <vector>

using namespace spira;

namespace {

int encode_nothing(void *, int, uint32_t, void *, const uint64_t *, const uint64_t *,
                   const uint32_t *, const uint32_t *, int, int, int, int) {
    return 0;
}

// GPUs whose kernels the program has: with and without Hopper's own, without dependent launches.
device_info gpu_make(int which) {
    device_info d = {};
    d.capability = which < 2 ? 90 : which == 2 ? 80 : 75;
    d.multiprocessors = which < 2 ? 132 : 108;
    d.shared_max = which < 2 ? 232448 : which == 2 ? 166912 : 65536;
    d.hopper = which == 0;
    d.programmatic = which < 2;
    d.tensor_map_encode = which == 0 ? encode_nothing : nullptr;
    return d;
}

enum { gpus = 4 };

const int32_t sizes[] = {500, 60000, 4000000}; // small sorts, samples, radix
const numeric types[] = {numeric_f16, numeric_f32};

// All cases: those of cuBLAS where it is.
std::vector<launch_case> cases() {
    std::vector<launch_case> all(launch_cases, launch_cases + launch_cases_count);
#ifdef DRY_CUBLAS
    all.insert(all.end(), launch_cublas_cases, launch_cublas_cases + launch_cublas_cases_count);
#endif
    return all;
}

// Runs a case with each of its calls failing. Returns the number of calls.
long long plant_each(const launch_case *c, const launch_on &on) {
    char text[240];
    (void)c->call(on); // CUB asks for the device once
    dry_plant(-1, 0);
    const status good = c->call(on);
    const long long calls = dry_calls();
    snprintf(text, sizeof text, "%s: %s: %d, %lld", c->name, good.subject ? good.subject : "none",
             (int)good.code, (long long)good.detail);
    if (!test_check(!status_failed(good) && calls > 0, __FILE__, __LINE__, text)) {
        return 0;
    }
    for (long long i = 0; i < calls; ++i) {
        const int error =
            i % 2 ? (int)cudaErrorInvalidDeviceFunction : (int)cudaErrorLaunchOutOfResources;
        dry_plant(i, error);
        const status s = c->call(on);
        const long long behind = dry_calls_behind();
        const int left = (int)cudaGetLastError();
        snprintf(text, sizeof text,
                 "%s (%d rows), call %lld of %lld fails with %d: %s: %d, %lld; %lld calls behind "
                 "it, error %d left",
                 c->name, on.rows, i, calls, error, s.subject ? s.subject : "none", (int)s.code,
                 (long long)s.detail, behind, left);
        const bool named = s.code == status_cuda && s.subject && *s.subject;
        test_check(named && (s.detail == error || c->way == launch_cub) &&
                       (behind == 0 || c->way == launch_branches) && left == 0,
                   __FILE__, __LINE__, text);
    }
    return calls;
}

// The name of a kernel without its template arguments.
std::string kernel_noun(const char *mangled) {
    int failed = 0;
    char *const name = abi::__cxa_demangle(mangled, nullptr, nullptr, &failed);
    std::string noun = failed ? mangled : name;
    free(name);
    noun = noun.substr(0, noun.find_first_of("<("));
    return noun.substr(noun.find_last_of(": ") + 1);
}

} // namespace

TEST(launch_errors_are_returned) {
    long long calls = 0;
    for (int g = 0; g < gpus; ++g) {
        const device_info gpu = gpu_make(g);
        for (const launch_case &c : cases()) {
            for (int32_t rows : sizes) {
                for (numeric type : types) {
                    calls += plant_each(&c, {&gpu, type, rows, nullptr});
                }
            }
        }
    }
    CHECK(calls > 5000);
}

// Whether the driver has a function may stay unknown: it is then not used.
TEST(launch_errors_of_queries_are_returned) {
    device_info d = {};
    dry_plant(-1, 0);
    CHECK_OK(launch_device_info_query(&d));
    CHECK(d.hopper && d.capability == 90);
    const long long calls = dry_calls();
    for (long long i = 0; i < calls; ++i) {
        dry_plant(i, (int)cudaErrorInvalidDeviceFunction);
        const status s = launch_device_info_query(&d);
        CHECK(i + 1 == calls ? !status_failed(s) && !d.tensor_map_encode
                             : s.code == status_cuda && s.detail == cudaErrorInvalidDeviceFunction);
        CHECK_EQUAL((int)cudaGetLastError(), 0);
    }
    CHECK(calls > 5);
}

// An error that another library has left is not the function's, and stays for whoever asks.
TEST(launch_errors_of_others_are_not_returned) {
    const device_info gpu = gpu_make(0);
    for (const launch_case &c : cases()) {
        if (c.way == launch_cub) {
            continue;
        }
        dry_plant(0, (int)cudaErrorMemoryAllocation);
        (void)cudaDeviceSynchronize(); // this one fails
        const status s = c.call({&gpu, numeric_f16, 5000, nullptr});
        const int left = (int)cudaGetLastError();
        char text[200];
        snprintf(text, sizeof text, "%s: %s: %d, %lld; %d left", c.name,
                 s.subject ? s.subject : "none", (int)s.code, (long long)s.detail, left);
        test_check(!status_failed(s) && left == (int)cudaErrorMemoryAllocation, __FILE__, __LINE__,
                   text);
    }
}

// The kernels of spira/: KERNEL(name) for each (Makefile).
const char *const kernels_of_spira[] = {
#define KERNEL(name) #name,
#include KERNELS_LIST
#undef KERNEL
};

// ... and none is missing here: the tests above have launched every kernel.
TEST(launch_errors_of_all_kernels) {
    std::set<std::string> launched, others;
    for (int i = 0; i < dry_kernels_count(); ++i) {
        (dry_kernel_launched(i) ? launched : others).insert(kernel_noun(dry_kernel_name(i)));
    }
    for (const std::string &noun : others) {
        const bool other = noun.compare(0, 7, "device_") == 0 || noun == "stream_occupy" ||
                           noun == "EmptyKernel"; // of the harness, and of CUB
        test_check(launched.count(noun) || other, __FILE__, __LINE__,
                   (noun + ": never launched").c_str());
    }
    for (const std::string name : kernels_of_spira) {
        bool never = name == "device_probe_kernel";
#ifndef DRY_CUBLAS
        never = never || name.compare(0, 4, "ggs_") == 0;
#endif
        test_check(never || launched.count(name), __FILE__, __LINE__,
                   (name + ": no case in tests/dry/calls.cu launches it").c_str());
    }
}

// Each template instance costs whoever compiles it seconds: those of layers are all of use.
TEST(launch_layers_reach_every_variant) {
    std::set<std::string> missing;
    for (uint64_t seed = 0; seed == 0 || (!missing.empty() && seed < 200); ++seed) {
        for (uint64_t i = 0; i < 2000; ++i) {
            device_info gpu = gpu_make((int)(i % gpus));
            gpu.multiprocessors = i % 5 ? gpu.multiprocessors : 16;
            gpu.shared_max = i % 7 || gpu.hopper || gpu.capability < 80 ? gpu.shared_max : 101376;
            launch_layer_random(2000 * seed + i, &gpu);
        }
        missing.clear();
        std::set<std::string> launched;
        for (int i = 0; i < dry_kernels_count(); ++i) {
            (dry_kernel_launched(i) ? launched : missing).insert(dry_kernel_name(i));
        }
        for (auto i = missing.begin(); i != missing.end();) {
            const std::string noun = kernel_noun(i->c_str());
            const bool of_layers = noun == "exact_kernel" || noun == "hopper_kernel" ||
                                   noun == "narrow_kernel" || noun == "portable_kernel" ||
                                   noun == "linear_kernel" || noun == "pairs_kernel" ||
                                   noun == "grad_kernel" || noun == "grad_hopper_kernel";
            i = !of_layers || launched.count(*i) ? missing.erase(i) : std::next(i);
        }
    }
    for (const std::string &name : missing) {
        test_check(false, __FILE__, __LINE__, (name + " is never launched").c_str());
    }
    CHECK(dry_kernels_count() > 500);
}

TEST_MAIN
