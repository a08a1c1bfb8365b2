// spira/conv/choice.cuh: which kernel computes a convolution, and how its work is cut.
//
// The kernel follows from the shape and the device alone, because weights are packed for it and
// kernel maps are built for it (conv_form) before the number of voxels is known.
#ifndef SPIRA_CONV_CHOICE_CUH
#define SPIRA_CONV_CHOICE_CUH

#include "../conv_map.h"
#include "exact.cuh"
#include "hopper.cuh"
#include "narrow.cuh"
#include "portable.cuh"
#include "tensor.cuh"

// Input channels from which on the portable kernel computes layers in tf32.
#ifndef SPIRA_PORTABLE_TF32_CHANNELS
#define SPIRA_PORTABLE_TF32_CHANNELS 32
#endif

namespace spira {

enum conv_kernel {
    conv_kernel_exact,    // plain fp32 multiply-adds, over the tiled layout
    conv_kernel_tensor,   // mma.sync, sm_80 and later
    conv_kernel_hopper,   // wgmma, sm_90a
    conv_kernel_narrow,   // mma.sync for up to 32 channels on each side
    conv_kernel_portable, // mma.sync, or fp32 multiply-adds, over the ordered layout
};

// Tensor cores where they have the format.
SPIRA_API bool conv_uses_tensor(numeric type, int capability) {
    return type != numeric_f32 && capability >= 80;
}

// Whether the portable kernel computes a layer unless the caller's map says otherwise. In tf32 a
// chunk has half as many channels: narrow layers are faster over the tiled layout.
SPIRA_API bool conv_portable_pays(const conv_shape *s, const device_info *d) {
    return portable_takes(s, d) &&
           (s->type != numeric_tf32 || s->cin + s->cin2 >= SPIRA_PORTABLE_TF32_CHANNELS);
}

SPIRA_API conv_kernel conv_kernel_of(const conv_shape *s, const device_info *d) {
    const bool small = s->cin <= 16 && s->cout <= 16;
    return !conv_uses_tensor(s->type, d->capability)
               ? (conv_portable_pays(s, d) ? conv_kernel_portable : conv_kernel_exact)
           : narrow_takes(s, d) && (small || !hopper_takes(s, d)) ? conv_kernel_narrow
           : hopper_takes(s, d)                                   ? conv_kernel_hopper
           : conv_portable_pays(s, d)                             ? conv_kernel_portable
                                                                  : conv_kernel_tensor;
}

// The layout that a kernel reads, where the kernel map has one.
SPIRA_API conv_form conv_kernel_form(conv_kernel kernel) {
    return kernel == conv_kernel_exact || kernel == conv_kernel_tensor ? conv_form_tiles
                                                                       : conv_form_order;
}

// The kernel that computes a layer over a map of a form. The tensor and the portable kernel read
// the same packed weights, so the map may have the layout of either; not in exact fp32.
SPIRA_API conv_kernel conv_kernel_over(const conv_shape *s, const device_info *d, conv_form form) {
    const conv_kernel kernel = conv_kernel_of(s, d);
    const bool either =
        (kernel == conv_kernel_tensor && portable_takes(s, d)) || kernel == conv_kernel_portable;
    return !either || s->type == numeric_f32 || form == conv_form_identity ? kernel
           : form == conv_form_order                                       ? conv_kernel_portable
                                                                           : conv_kernel_tensor;
}

// Whether any compiled architecture runs a kernel in a format: launchers leave out the others.
SPIRA_API constexpr bool conv_compiled(conv_kernel kernel, numeric type) {
    const bool half = type == numeric_f16 || type == numeric_bf16;
    const bool tensor = type != numeric_f32 && device_code_within(80, 999);
    return kernel == conv_kernel_exact      ? type == numeric_f32 || device_code_within(0, 79)
           : kernel == conv_kernel_tensor   ? tensor
           : kernel == conv_kernel_narrow   ? tensor && half
           : kernel == conv_kernel_portable ? portable_compiled(type)
                                            : half && device_code_within(90, 90);
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
    switch (kernel) {
    case conv_kernel_exact:
        return conv_exact_weights(s);
    case conv_kernel_narrow:
        return narrow_weights(s);
    case conv_kernel_hopper:
        return hopper_weights(s, hopper_part_bytes(s));
    default: // tensor, portable
        return conv_packed_floats(s, kernel) ? portable_exact_weights(s) : conv_tensor_weights(s);
    }
}

SPIRA_API size_t conv_packed_bytes(const conv_shape *s, conv_kernel kernel) {
    return (size_t)conv_packed_count(s, kernel) *
           (conv_packed_floats(s, kernel) ? sizeof(float) : (size_t)conv_lane_bytes);
}

// ---- shortcuts ----------------------------------------------------------------------------------

// Whether a convolution can compute a shortcut too: the portable kernel does, and the Hopper kernel
// unless it has at most 32 input channels and at most 64 output channels.
SPIRA_API bool conv_shortcut_takes(const conv_shape *s, const device_info *d) {
    const conv_kernel kernel = conv_kernel_of(s, d);
    return kernel == conv_kernel_portable ||
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
               ? (size_t)hopper_weights(&own, hopper_part_whole) * conv_lane_bytes
               : conv_packed_bytes(&own, kernel);
}

// ---- sizes --------------------------------------------------------------------------------------

// The ways worth trying to cut a layer. Returns how many there are.
//
// inputs   rows: of a tile of the tiled layout
// outputs  sizes [conv_sizes_most]
SPIRA_API int conv_sizes_list(const conv_shape *s, int rows, const device_info *d,
                              conv_sizes *sizes) {
    const conv_kernel kernel = conv_kernel_of(s, d);
    return kernel == conv_kernel_narrow     ? narrow_sizes_list(sizes)
           : kernel == conv_kernel_hopper   ? hopper_sizes_list(s, d, sizes)
           : kernel == conv_kernel_portable ? portable_sizes_list(s->type, d, sizes)
                                            : conv_tensor_sizes_list(s, rows, d, sizes);
}

SPIRA_API bool conv_sizes_fit(const conv_shape *s, int rows, const device_info *d,
                              const conv_sizes *size) {
    const conv_kernel kernel = conv_kernel_of(s, d);
    return kernel == conv_kernel_narrow     ? narrow_sizes_fit(size)
           : kernel == conv_kernel_hopper   ? hopper_sizes_fit(s, d, size)
           : kernel == conv_kernel_portable ? portable_sizes_fit(s->type, d, size)
                                            : conv_tensor_sizes_fit(s, rows, d, size);
}

// The choice without measurements.
SPIRA_API conv_sizes conv_sizes_choose(const conv_shape *s, int rows, int32_t capacity,
                                       const device_info *d) {
    const conv_kernel kernel = conv_kernel_of(s, d);
    return kernel == conv_kernel_narrow     ? narrow_sizes_choose(s, capacity, d)
           : kernel == conv_kernel_hopper   ? hopper_sizes_choose(s, capacity, d)
           : kernel == conv_kernel_portable ? portable_sizes_choose(s, capacity, d)
                                            : conv_tensor_sizes_choose(s, rows, capacity, d);
}

} // namespace spira

#endif
