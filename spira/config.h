// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/config.h: what every file of spira agrees on: version, qualifiers, OpenMP.
#ifndef SPIRA_CONFIG_H
#define SPIRA_CONFIG_H

#ifdef __CUDACC_RTC__ // compiled at run time, without the headers of the host
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
typedef size_t uintptr_t;
#define INT32_MAX 2147483647
#define INT32_MIN (-INT32_MAX - 1)
#define UINT32_MAX 4294967295u
#define INT64_MAX 9223372036854775807ll
#else
#include <stddef.h>
#include <stdint.h>
#endif

#define SPIRA_VERSION_MAJOR 0
#define SPIRA_VERSION_MINOR 2
#define SPIRA_VERSION_PATCH 0

#if defined(__cplusplus) && __cplusplus < 201703L
#error "spira needs C++17 (-std=c++17)"
#endif

// Everything has internal linkage: two translation units that are built for different
// architectures must never share a kernel or a launcher. NVRTC compiles no host functions.
#ifdef __CUDACC_RTC__
#define SPIRA_API [[maybe_unused]] static inline __host__ __device__
#else
#define SPIRA_API [[maybe_unused]] static inline
#endif

#ifdef __CUDACC__
#define SPIRA_HD __host__ __device__
#define SPIRA_DEVICE [[maybe_unused]] static __device__ __forceinline__
#define SPIRA_KERNEL [[maybe_unused]] static __global__
// A kernel or a launcher without template arguments of its own. It is a template all the same:
// a file that includes it and does not call it compiles nothing.
#define SPIRA_PLAIN_KERNEL                                                                         \
    template <int = 0>                                                                             \
    SPIRA_KERNEL
#define SPIRA_LAUNCHER                                                                             \
    template <int = 0>                                                                             \
    SPIRA_API
#else
#define SPIRA_HD
#endif

// A function that runs on both sides and that people call from their own kernels.
#define SPIRA_BOTH [[maybe_unused]] static inline SPIRA_HD

// PTX of sm_80 and later, and of sm_90 and later; nothing in code for other targets.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#define SPIRA_ASM_80(...) asm volatile(__VA_ARGS__)
#else
#define SPIRA_ASM_80(...) ((void)0)
#endif
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define SPIRA_ASM_90(...) SPIRA_ASM_80(__VA_ARGS__)
#else
#define SPIRA_ASM_90(...) ((void)0)
#endif

// Host loops run in parallel where the compiler has OpenMP and say nothing where it has not.
#ifdef _OPENMP
#define SPIRA_PRAGMA(text) _Pragma(#text)
#define SPIRA_PARALLEL_FOR SPIRA_PRAGMA(omp parallel for schedule(dynamic, 1))
#else
#define SPIRA_PARALLEL_FOR
#endif

#endif
