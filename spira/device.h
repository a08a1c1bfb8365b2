// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/device.h: what spira knows of a GPU, and of the code that was compiled for it.
//
// Query it once (device_info_query), keep it, and pass it on: no launcher asks the driver again.
// Packed weights, network plans and kernel maps belong to the device_info that they were made with.
// A device_info is valid for every GPU of the same model.
#ifndef SPIRA_DEVICE_H
#define SPIRA_DEVICE_H

#include "config.h"

namespace spira {

// The driver's cuTensorMapEncodeTiled, with its enumerations as integers: how the copy engine reads
// a tensor.
typedef int device_tensor_map(void *map, int type, uint32_t dimensions, void *array,
                              const uint64_t *size, const uint64_t *pitch, const uint32_t *box,
                              const uint32_t *step, int interleave, int swizzle, int l2,
                              int outside);

struct device_info {
    int capability;      // 90 for compute capability 9.0: the GPU's, or that of PTX below 8.0
    int multiprocessors; // those of a green context or of an MPS share, where you have set them
    int shared_max;      // bytes of dynamic shared memory that a thread block may ask for
    bool hopper;         // the binary has code for sm_90a, and the GPU runs it
    bool programmatic;   // the code supports programmatic dependent launch
    device_tensor_map *tensor_map_encode; // null: linear layers do not use the copy engine
};

// Whether what was made with one device_info may be used with the other.
SPIRA_API bool device_info_equal(const device_info *a, const device_info *b) {
    return a->capability == b->capability && a->multiprocessors == b->multiprocessors &&
           a->shared_max == b->shared_max && a->hopper == b->hopper &&
           a->programmatic == b->programmatic;
}

// A sentence for people who build for this GPU, or null where there is nothing to improve.
SPIRA_API const char *device_info_advice(const device_info *d) {
    return d->capability == 90 && !d->hopper
               ? "compile with -gencode=arch=compute_90a,code=sm_90a: without the 'a' there is no "
                 "code for Hopper's kernels"
               : nullptr;
}

} // namespace spira

#endif
