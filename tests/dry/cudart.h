// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/dry/cudart.h: what tests ask of the runtime that does nothing.
#ifndef SPIRA_TESTS_DRY_CUDART_H
#define SPIRA_TESTS_DRY_CUDART_H

#ifdef __cplusplus
extern "C" {
#endif

// From now on calls are numbered from 0; the one of this number fails with a cudaError_t. -1: none.
void dry_plant(long long call, int error);

long long dry_calls(void);        // since dry_plant
long long dry_calls_behind(void); // of them, behind the one that failed

// A call of a library above the runtime: it is counted, fails as planted and leaves no error
// behind.
int dry_library_call(void);

// The kernels of the program: all template instances that it could launch.
int dry_kernels_count(void);
const char *dry_kernel_name(int kernel); // as the linker knows it
int dry_kernel_launched(int kernel);     // whether it was, ever

#ifdef __cplusplus
}
#endif

#endif
