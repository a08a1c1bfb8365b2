// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/conv/choice.cuh: which kernel computes a convolution, and how its work is cut.
//
// The kernel follows from the shape and the device alone, because weights are packed for it before
// the number of voxels is known.
#ifndef SPIRA_CONV_CHOICE_CUH
#define SPIRA_CONV_CHOICE_CUH

#include "../conv_map.h"
#include "exact.cuh"
#include "hopper.cuh"
#include "narrow.cuh"
#include "portable.cuh"

namespace spira {

enum conv_kernel {
    conv_kernel_exact,    // plain fp32 multiply-adds; GPUs before sm_80
    conv_kernel_hopper,   // wgmma, sm_90a
    conv_kernel_narrow,   // mma.sync for up to 32 channels on each side
    conv_kernel_portable, // mma.sync, or fp32 multiply-adds; sm_80 and later
};

// Tensor cores where they have the format.
SPIRA_API bool conv_uses_tensor(numeric type, int capability) {
    return type != numeric_f32 && capability >= 80;
}

// Whether some compiled architecture has a format on tensor cores, or in plain fp32: pair lists and
// gradients.
SPIRA_API constexpr bool conv_tensor_compiled(numeric type) {
    return type != numeric_f32 && device_code_within(80, 999);
}

SPIRA_API constexpr bool conv_plain_compiled(numeric type) {
    return type == numeric_f32 || device_code_within(0, 79);
}

SPIRA_API conv_kernel conv_kernel_of(const conv_shape *s, const device_info *d) {
    const int least = s->volume <= 32 ? 16 : 32; // channels from which on Hopper's is faster
    const bool quarters = s->cin == 32 && s->cout > 16 && s->volume > 8 && s->volume <= 32;
    const bool few = s->type == numeric_i8
                         ? !quarters
                         : (s->cin <= 16 && s->cout <= 16) || s->cin < least || s->cout < least;
    return narrow_takes(s, d) && (few || !hopper_takes(s, d)) ? conv_kernel_narrow
           : hopper_takes(s, d)                               ? conv_kernel_hopper
           : portable_takes(d)                                ? conv_kernel_portable
                                                              : conv_kernel_exact;
}

// Whether any compiled architecture runs a kernel in a format: launchers leave out the others.
SPIRA_API constexpr bool conv_compiled(conv_kernel kernel, numeric type) {
    const bool half = portable_half(type);
    return kernel == conv_kernel_exact ? device_code_within(0, 79)
           : kernel == conv_kernel_hopper
               ? (half || type == numeric_i8) && device_code_within(90, 90)
               : (half || type == numeric_i8 || kernel == conv_kernel_portable) &&
                     device_code_within(80, 999);
}

SPIRA_API status conv_not_compiled() {
    return status_make(status_unsupported, "gpu (this file has no code for it)", 0);
}

// ---- packed weights -----------------------------------------------------------------------------

// Whether the elements of packed weights are floats; otherwise they are pieces of 16 bytes.
SPIRA_API bool conv_packed_floats(const conv_shape *s, conv_kernel kernel) {
    return kernel == conv_kernel_exact || s->type == numeric_f32;
}

// Elements of packed weights.
SPIRA_API int64_t conv_packed_count(const conv_shape *s, conv_kernel kernel) {
    return conv_packed_floats(s, kernel)    ? conv_exact_weights(s)
           : kernel == conv_kernel_narrow   ? narrow_weights(s)
           : kernel == conv_kernel_portable ? conv_mma_weights(s)
                                            : hopper_weights(s, hopper_chunk_bytes(s));
}

SPIRA_API size_t conv_packed_bytes(const conv_shape *s, conv_kernel kernel) {
    return (size_t)conv_packed_count(s, kernel) *
           (conv_packed_floats(s, kernel) ? sizeof(float) : (size_t)conv_lane_bytes);
}

// ---- shortcuts ----------------------------------------------------------------------------------

// Whether a convolution can compute a shortcut too: the portable kernel does, the exact one in
// int8, and the Hopper kernel unless a row has at most 64 bytes (32 channels, 64 of int8) and the
// output at most 64 channels.
SPIRA_API bool conv_shortcut_takes(const conv_shape *s, const device_info *d) {
    const conv_kernel kernel = conv_kernel_of(s, d);
    return kernel == conv_kernel_portable ||
           (kernel == conv_kernel_exact && s->type == numeric_i8) ||
           (kernel == conv_kernel_hopper && hopper_takes_shortcut(s));
}

// The shape of a shortcut of a convolution.
SPIRA_API conv_shape conv_shortcut_shape(const conv_shape *s, int cin, int cin2) {
    conv_shape own = *s;
    own.volume = 1;
    own.cin = cin;
    own.cin2 = cin2;
    return own;
}

SPIRA_API size_t conv_shortcut_packed_bytes(const conv_shape *s, conv_kernel kernel, int cin,
                                            int cin2) {
    const conv_shape own = conv_shortcut_shape(s, cin, cin2);
    return kernel == conv_kernel_hopper
               ? (size_t)hopper_weights(&own, hopper_chunk_shortcut(hopper_stage_row(s))) *
                     conv_lane_bytes
               : conv_packed_bytes(&own, kernel);
}

// A shortcut's weights have an order of their own: the kernel's number says so.
SPIRA_API conv_weights_tag conv_shortcut_tag(const device_info *gpu, const conv_shape *s, int cin,
                                             int cin2) {
    const conv_shape own = conv_shortcut_shape(s, cin, cin2);
    return conv_weights_tag_make(gpu, &own, conv_kernel_of(s, gpu) + 16);
}

// ---- sizes --------------------------------------------------------------------------------------

SPIRA_API bool conv_sizes_fit(const conv_shape *s, const device_info *d, const conv_sizes *sizes) {
    const conv_kernel kernel = conv_kernel_of(s, d);
    return kernel == conv_kernel_narrow     ? narrow_sizes_fit(sizes)
           : kernel == conv_kernel_hopper   ? hopper_sizes_fit(s, d, sizes)
           : kernel == conv_kernel_portable ? portable_sizes_fit(s->type, d, sizes)
                                            : exact_sizes_fit(sizes);
}

// All ways to cut a layer. Returns how many there are.
//
// outputs  sizes [conv_sizes_most]
SPIRA_API int conv_sizes_list(const conv_shape *s, const device_info *d, conv_sizes *sizes) {
    int count = 0;
    for (int i = 0; i < 8 * 4 * 2; ++i) {
        const conv_sizes c = {1 + i % 2, 1 + i / 8, 1 << i / 2 % 4, 1};
        if (conv_sizes_fit(s, d, &c)) {
            sizes[count++] = c;
        }
    }
    return count;
}

// The choice without measurements.
SPIRA_API conv_sizes conv_sizes_choose(const conv_shape *s, int32_t capacity,
                                       const device_info *d) {
    const conv_kernel kernel = conv_kernel_of(s, d);
    return kernel == conv_kernel_narrow     ? narrow_sizes_choose(s, capacity, d)
           : kernel == conv_kernel_hopper   ? hopper_sizes_choose(s, capacity, d)
           : kernel == conv_kernel_portable ? portable_sizes_choose(s, capacity, d)
                                            : exact_sizes_choose(s);
}

} // namespace spira

#endif
